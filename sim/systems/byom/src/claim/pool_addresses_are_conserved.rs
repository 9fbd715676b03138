//! B I3: addresses neither appear nor vanish.

use std::collections::BTreeMap;

use ipam_byom::AddressKey;

use super::view::{Change, Seen, View, places};
use super::{Findings, PoolClaim};

/// A commit by a process of the pool that adds or removes records leaves the set of addresses in list and records unchanged. Two
/// exceptions: an address that the writer is not configured with may be dropped, and of a duplicate address one copy may be. Commits that
/// change only the list are recoveries.
///
/// Broken by `byom-textual-addresses` (a record spelled differently is dropped when it is released). Not covered: which sandbox loses its
/// address.
pub(crate) struct PoolAddressesAreConserved;

impl PoolClaim for PoolAddressesAreConserved {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Commit(change) = seen else { return };
        let (Some(before), Some(after)) = (change.before.whole(), change.written()) else { return };
        if !change.records.iter().any(|edit| edit.before.is_none() || edit.after.is_none()) {
            return;
        }
        findings.exercised();
        let config = view.processes.configuration(change.by).map(|configuration| &configuration.config);
        for (address, balance) in balance(change) {
            let still_there = {
                let (listed, records) = places(after, &address);
                listed + records > 0
            };
            let was_double = {
                let (listed, records) = places(before, &address);
                listed + records > 1
            };
            let foreign = config.is_none_or(|config| !config.contains(&address));
            let fine = balance == 0 || balance < 0 && (foreign && !still_there || was_double && still_there);
            if !fine {
                findings.violated(|| {
                    let what = if balance < 0 { "vanishes from" } else { "appears in" };
                    vec![format!("{} {what} list and records", text(&address)), view.story_of_write(change)]
                });
            }
        }
    }
}

/// The change in the number of occurrences of each address that was touched.
fn balance(change: &Change) -> BTreeMap<AddressKey, i64> {
    let mut balance: BTreeMap<AddressKey, i64> = BTreeMap::new();
    let mut count = |address: &ipam_byom::Address, by: i64| *balance.entry(address.key().clone()).or_default() += by;
    for edit in &change.records {
        edit.before.iter().for_each(|record| count(&record.ip, -1));
        edit.after.iter().for_each(|record| count(&record.ip, 1));
    }
    change.lost.iter().for_each(|address| count(address, -1));
    change.gained.iter().for_each(|address| count(address, 1));
    balance
}

fn text(address: &AddressKey) -> String {
    match address {
        AddressKey::Ip(ip) => ip.to_string(),
        AddressKey::Zoned(ip, zone) => format!("{ip}%{zone}"),
        AddressKey::Other(text) => format!("`{text}`"),
    }
}

#[cfg(test)]
mod tests {
    use ipam_byom::Address;

    use super::super::testing::{give_back, on_stage, record};

    #[test]
    fn a_release_that_drops_a_configured_address_is_a_violation() {
        on_stage("pool-addresses-are-conserved", |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2");
            stage.allocate(adaptor, "a", "10.0.0.1");
            stage.edit(adaptor, |document| give_back(document, "a"));
            stage.allocate(adaptor, "b", "10.0.0.2");
            assert_eq!(stage.excuses(), []);
            stage.edit(adaptor, |document| drop(document.allocated.remove("b")));
            assert_eq!(stage.excuses(), [None]);
            assert_eq!(stage.detail()[0], "10.0.0.2 vanishes from list and records");
        });
    }

    #[test]
    fn an_address_that_left_the_configuration_may_be_dropped_and_a_double_one_too() {
        on_stage("pool-addresses-are-conserved", |stage| {
            let (adaptor, person) = (stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2"), stage.process("kubectl"));
            stage.edit(person, |document| {
                document.allocated.insert("old".into(), record("old", "10.0.0.9"));
                document.available.push(Address::new("10.0.0.1"));
            });
            stage.edit(adaptor, |document| drop(document.allocated.remove("old")));
            stage.edit(adaptor, |document| {
                document.available = [Address::new("10.0.0.2")].into_iter().collect();
                document.allocated.insert("a".into(), record("a", "10.0.0.1"));
            });
            assert_eq!(stage.excuses(), []);
            stage.edit(adaptor, |document| drop(document.allocated.insert("b".into(), record("b", "10.0.0.7"))));
            assert_eq!(stage.detail()[0], "10.0.0.7 appears in list and records");
        });
    }
}
