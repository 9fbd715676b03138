//! The VMs that a process is configured with.

use std::fmt;

use rustc_hash::FxBuildHasher;
use thiserror::Error;

use super::address::{Address, AddressKey};
use super::available::Available;
use super::config_upstream;
use super::policy::Policy;
use super::pool_ips::{BadEntry, LongRange, Mapped, PoolIps};

/// The configured addresses, in order. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct PoolConfig {
    pool: Available,
    /// The index of each address in the list.
    index: imbl::GenericHashMap<AddressKey, usize, FxBuildHasher, imbl::shared_ptr::DefaultSharedPtr>,
}

/// The reason why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PoolConfigError {
    /// `ErrEmptyPoolIPs`: there is no address.
    #[error("VM_POOL_IPS names no address")]
    Empty,
    /// All entries that are not addresses.
    #[error("VM_POOL_IPS has bad entries: {}", Joined(.0))]
    BadEntries(Vec<BadEntry>),
    /// All ranges over the limit.
    #[error("VM_POOL_IPS: {}", Joined(.0))]
    LongRanges(Vec<LongRange>),
}

struct Joined<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for Joined<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "; " })?;
            item.fmt(f)?;
        }
        Ok(())
    }
}

impl PoolConfig {
    /// The configuration given by `setting` (`VM_POOL_IPS`), with `range_limit` as `MAX_RANGE_IPS`. Addresses written twice are listed in
    /// [`PoolIps::duplicates`] and are no error.
    ///
    /// # Errors
    /// There is no address; in the hardened form also bad entries and ranges over the limit. With `byom-lenient-settings` a bad entry makes
    /// the whole setting count as empty, and ranges are cut.
    pub fn read(setting: &str, range_limit: u32, policy: &Policy) -> Result<Self, PoolConfigError> {
        let ips = if config_upstream::is_parsed_so(policy) {
            config_upstream::parse(setting, range_limit, policy)
        } else {
            PoolIps::parse(setting, range_limit, Mapped::AsIpv4)
        };
        if !ips.bad.is_empty() {
            return Err(PoolConfigError::BadEntries(ips.bad));
        }
        if !ips.cut.is_empty() {
            return Err(PoolConfigError::LongRanges(ips.cut));
        }
        if ips.addresses.is_empty() {
            return Err(PoolConfigError::Empty);
        }
        Ok(Self::new(ips.addresses))
    }

    /// The configuration with exactly these addresses.
    pub fn new(addresses: impl IntoIterator<Item = Address>) -> Self {
        let pool: Available = addresses.into_iter().collect();
        let mut config = Self { pool, ..Self::default() };
        for (index, address) in config.pool.iter().enumerate() {
            config.index.entry(address.key().clone()).or_insert(index);
        }
        config
    }

    /// The addresses as the list of available ones in a pool without allocations.
    pub fn pool(&self) -> &Available {
        &self.pool
    }

    /// The configured spelling of an address; `None` = it is not configured.
    pub fn get(&self, address: &AddressKey) -> Option<&Address> {
        self.index.get(address).and_then(|index| self.pool.get(*index))
    }

    /// Whether an address is configured, in any spelling.
    pub fn contains(&self, address: &AddressKey) -> bool {
        self.index.contains_key(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(setting: &str, policy: Policy) -> Result<Vec<String>, String> {
        let config = PoolConfig::read(setting, 100, &policy).map_err(|error| error.to_string())?;
        Ok(config.pool().iter().map(Address::to_string).collect())
    }

    #[test]
    fn hardened_reports_all_that_is_wrong_and_takes_nothing() {
        assert_eq!(
            read("10.0.0.1,x,10.0.0.2-y", Policy::hardened()).unwrap_err(),
            "VM_POOL_IPS has bad entries: `x`: neither an address nor a range FIRST-LAST; `10.0.0.2-y`: an end of the range is no address"
        );
        assert_eq!(
            read("10.0.0.1-10.0.1.0", Policy::hardened()).unwrap_err(),
            "VM_POOL_IPS: range `10.0.0.1-10.0.1.0` has 256 addresses, more than the limit of 100; raise MAX_RANGE_IPS or split it"
        );
        assert_eq!(read(" , ", Policy::hardened()).unwrap_err(), "VM_POOL_IPS names no address");
        assert_eq!(read("10.0.0.1-10.0.0.2", Policy::hardened()).unwrap(), ["10.0.0.1", "10.0.0.2"]);
    }

    #[test]
    fn upstream_ignores_bad_entries_and_ranges() {
        assert_eq!(read("10.0.0.1,x", Policy::upstream()), Err("VM_POOL_IPS names no address".into()));
        assert_eq!(read("10.0.0.1-10.0.0.2", Policy::upstream()), Err("VM_POOL_IPS names no address".into()));
        assert_eq!(read("10.0.0.1-10.0.0.2,10.0.0.2", Policy::upstream()).unwrap(), ["10.0.0.2"]);
        let later = Policy { range_limit_zero: false, ..Policy::upstream() };
        assert_eq!(read("10.0.0.1-10.0.1.0", later).unwrap().len(), 100);
    }

    #[test]
    fn an_address_is_found_in_any_spelling() {
        let config = PoolConfig::read("10.0.0.1,2001:db8::1", 100, &Policy::hardened()).unwrap();
        let spelled = |text| config.get(&AddressKey::of(text)).map(Address::text);
        assert_eq!(spelled("::ffff:10.0.0.1"), Some("10.0.0.1"));
        assert_eq!(spelled("2001:DB8::0:1"), Some("2001:db8::1"));
        assert_eq!((spelled("10.0.0.2"), spelled("x")), (None, None));
    }
}
