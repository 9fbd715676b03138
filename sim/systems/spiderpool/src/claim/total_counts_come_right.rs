//! A S11: `totalIPCount` becomes correct.

use super::counts_equal_records::says;
use super::view::{View, total};
use super::{IpamClaim, told};

/// Eventually `totalIPCount` of each pool is the number of its addresses, as its controller writes it.
pub(crate) struct TotalCountsComeRight;

impl IpamClaim for TotalCountsComeRight {
    fn pending(&self, view: &View) -> Option<String> {
        let wrong = view.pools.iter().filter(|(_, pool)| !pool.is_terminating()).filter_map(|(name, pool)| {
            let (has, count) = (total(pool)?, pool.object.status.as_ref().and_then(|status| status.total_ip_count));
            (count != Some(has)).then(|| format!("{name} has {has} addresses and {}", says("totalIPCount", count)))
        });
        told(["pool does not count its addresses right", "pools do not count their addresses right"], wrong.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::on_stage;

    #[test]
    fn totals_are_waited_for() {
        on_stage("total-counts-come-right", |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            let count = |count| {
                move |pool: &mut ipam_spiderpool::SpiderIPPool| {
                    pool.status.get_or_insert_default().total_ip_count = Some(count);
                }
            };
            assert!(stage.pending().unwrap().contains("p has 9 addresses and no totalIPCount"));
            stage.change_pool(stage.kubelet, "p", count(9));
            assert_eq!(stage.pending(), None);
            stage.change_pool(stage.person, "p", |pool| pool.spec.exclude_ips = Some(vec!["10.0.0.3-10.0.0.4".to_owned()]));
            assert!(stage.pending().is_some());
            stage.change_pool(stage.kubelet, "p", count(7));
            assert_eq!(stage.pending(), None);
        });
    }
}
