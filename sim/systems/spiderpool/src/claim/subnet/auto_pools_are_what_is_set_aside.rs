//! A S13: eventually auto pools have exactly what is set aside for them.

use super::super::view::View;
use super::super::{IpamClaim, told};
use super::{first, subnet_of};

/// Eventually each auto pool has exactly the addresses that its subnet sets aside for it. Addresses that another pool has as well do not
/// count: they cannot be set aside for two overlapping pools.
///
/// Broken by `lost-preallocation-not-restored`, `unreadable-preallocation-dropped` and `subnet-shrinks-lowest`.
pub(crate) struct AutoPoolsAreWhatIsSetAside;

impl IpamClaim for AutoPoolsAreWhatIsSetAside {
    fn pending(&self, view: &View) -> Option<String> {
        let other = view.pools.iter().filter_map(|(name, pool)| {
            let subnet = subnet_of(view, name).filter(|_| !pool.is_terminating())?;
            let has = pool.listed()?;
            let share = subnet.share(name).map(|share| ipam_spiderpool::ranges::IpSet::clone(share)).unwrap_or_default();
            let excess = has.difference(&share);
            let excess = excess.difference(&view.pools.overlaps.of_others(name, &excess));
            let lack = share.difference(&has);
            let what = if !excess.is_empty() { ("has", excess) } else { ("lacks", lack) };
            (!what.1.is_empty()).then(|| format!("{name} {} {}", what.0, first(&what.1)))
        });
        told(["pool is not what is set aside for it", "pools are not what is set aside for them"], other.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::on_stage;

    #[test]
    fn a_pool_and_its_share_come_to_be_the_same() {
        on_stage("auto-pools-are-what-is-set-aside", |stage| {
            let by = stage.replicas[0];
            stage.subnet("s", &["10.0.0.1-10.0.0.9"]);
            stage.set_aside(by, "s", "auto", &["10.0.0.1-10.0.0.3"]);
            assert_eq!(stage.pending(), None, "there is no pool");
            stage.auto_pool(by, "auto", "u", &["10.0.0.1-10.0.0.2"]);
            assert_eq!(stage.pending().unwrap(), "1 pool is not what is set aside for it: auto lacks 10.0.0.3");
            stage.resize(by, "auto", &["10.0.0.1-10.0.0.3"]);
            assert_eq!(stage.pending(), None);
            stage.give_back(by, "s", "auto");
            assert!(stage.pending().unwrap().ends_with("auto has 10.0.0.1-10.0.0.3"));
            stage.pool("manual", &["10.0.0.1-10.0.0.3"]);
            assert_eq!(stage.pending(), None);
        });
    }
}
