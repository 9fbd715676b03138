//! A X3: gateways are not allocated.

use std::net::IpAddr;

use ipam_spiderpool::owner_label::subnet_of;

use super::super::view::{EventMask, Seen, View};
use super::super::{Findings, IpamClaim};

/// No agent allocates the gateway of a pool or of the subnet that it was cut from.
///
/// Broken by an admission that permits a gateway among the addresses of its pool (A §9.1, §14.18).
pub(crate) struct GatewaysAreNotGiven;

impl IpamClaim for GatewaysAreNotGiven {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        let Some(after) = change.after.as_ref().filter(|_| change.by_agent) else { return };
        let mut added = change.edits.iter().filter_map(|edit| edit.added()).peekable();
        if added.peek().is_none() {
            return;
        }
        let of_subnet = subnet_of(after).and_then(|name| view.subnets.get(name)?.object.spec.gateway.as_deref());
        let gateways = [after.spec.gateway.as_deref(), of_subnet];
        for gateway in gateways.into_iter().flatten().filter_map(|text| text.parse::<IpAddr>().ok()) {
            findings.exercised();
            if added.clone().any(|(address, _)| address == gateway.to_canonical()) {
                findings.violated(|| {
                    vec![format!("{gateway} is allocated from {}, whose gateway it is", change.pool), view.story_of_write(change)]
                });
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::on_stage;

    #[test]
    fn a_record_of_the_gateway_is_a_violation() {
        on_stage("gateways-are-not-given", |stage| {
            let by = stage.agent;
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.record(by, "p", "10.0.0.1", "ns/a", "a");
            assert!(!stage.exercised(), "there is no gateway");
            stage.change_pool(stage.person, "p", |pool| pool.spec.gateway = Some("10.0.0.1".to_owned()));
            stage.record(by, "p", "10.0.0.2", "ns/b", "b");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.unrecord(by, "p", "10.0.0.1");
            stage.record(by, "p", "10.0.0.1", "ns/c", "c");
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn the_gateway_of_the_subnet_counts_too() {
        on_stage("gateways-are-not-given", |stage| {
            stage.subnet("s", &["10.0.0.1-10.0.0.254"]);
            stage.auto_pool(stage.replicas[0], "auto", "u", &["10.0.0.253-10.0.0.254"]);
            stage.change_pool(stage.person, "auto", |pool| pool.spec.gateway = None);
            stage.record(stage.agent, "auto", "10.0.0.253", "ns/a", "a");
            assert_eq!(stage.excuses(), []);
            stage.record(stage.agent, "auto", "10.0.0.254", "ns/b", "b");
            assert_eq!(stage.excuses(), [None]);
        });
    }
}
