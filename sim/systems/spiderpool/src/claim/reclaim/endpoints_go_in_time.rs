//! G GL8, GL9: endpoints of gone pods are deleted in time.

use std::sync::Arc;

use kube_machinery::FxHashMap;
use sim_config::time::SimTime;

use super::super::view::{EventMask, Seen, View, addresses_of, sim_time, uid_of};
use super::super::{Findings, IpamClaim};
use super::due::Due;
use super::leak::{Leak, by_scan, hinders, is_reclaimed, leak_of};
use super::{has_finalizer, reclaimed_in_time};

/// The endpoints that a claim judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndpointCase {
    /// GL8: those that no record leads to any more, counted from that time. Broken by `orphan-endpoint-kept`.
    OrphanEndpointsAreSwept,
    /// GL9: all endpoints that have Spiderpool's finalizer. Broken by `orphan-endpoint-kept` and `event-lost-on-error`.
    EndpointsOfVanishedPodsGoInTime,
}

/// The endpoint of a pod that is gone and has no kept place is gone, or has lost Spiderpool's finalizer, once a scan must have found it.
///
/// It does not judge endpoints that were changed by hand, or those of UIDs that were never seen.
pub(crate) struct EndpointsGoInTime {
    of: EndpointCase,
    due: Due,
    /// The times since which no record has led to the endpoint of a pod.
    alone: FxHashMap<Arc<str>, SimTime>,
}

impl EndpointsGoInTime {
    /// The claim for one case.
    pub(crate) fn of(of: EndpointCase) -> Self {
        Self { of, due: Due::default(), alone: FxHashMap::default() }
    }

    /// The time by which the endpoint of a pod has to be gone; `None` = it is gone, or the pod keeps it.
    fn deadline(&mut self, view: &View, uid: &Arc<str>) -> Option<(SimTime, Arc<str>)> {
        let (key, leak) = left(view, uid)?;
        if self.of == EndpointCase::EndpointsOfVanishedPodsGoInTime {
            return Some((by_scan(view, &leak, hinders), key));
        }
        let endpoint = view.endpoints.get(&key)?;
        let is_led_to = addresses_of(endpoint)
            .any(|(_, pool, address)| view.pools.holder(pool, address).is_some_and(|holder| *holder.record.pod_uid == **uid));
        if is_led_to {
            self.alone.remove(uid);
            return None;
        }
        let since = *self.alone.entry(uid.clone()).or_insert(view.at);
        let leak = Leak { due: leak.due.max(since), event: leak.event.max(since), ..leak };
        Some((by_scan(view, &leak, hinders), key))
    }
}

/// The endpoint that is left of a pod which is gone and whose place no longer exists, if it has Spiderpool's finalizer and was not edited
/// by hand.
fn left(view: &View, uid: &str) -> Option<(Arc<str>, Leak)> {
    let pod = view.pods.get(uid).filter(|pod| pod.gone)?;
    let own = |name: &&Arc<str>| view.endpoints.get(name).is_some_and(|endpoint| uid_of(endpoint) == uid && has_finalizer(endpoint));
    let key = pod.names().find(own)?;
    (!view.changes.touched_endpoint(key)).then_some(())?;
    let leak = leak_of(view, uid)?;
    // The endpoint is deleted after its records, and records of a pool that cannot be parsed are not removed (G R16).
    let endpoint = view.endpoints.get(key)?;
    let readable = addresses_of(endpoint).filter_map(|(_, pool, _)| view.pools.get(pool)?.garbled_until(view.at)).max();
    let readable = readable.filter(|until| *until > leak.event);
    // A delayed create is carried out when the pod is long gone: its endpoint could not be found before.
    let late = endpoint.metadata.creation_timestamp.as_ref().map(|created| sim_time(created.0)).filter(|created| *created > leak.event);
    let since = readable.max(late);
    Some((key.clone(), since.map_or(leak, |since| Leak { due: leak.due.max(since), event: since, ..leak })))
}

impl IpamClaim for EndpointsGoInTime {
    fn event_mask(&self) -> EventMask {
        reclaimed_in_time::SUSPECTS.and(EventMask::ENDPOINT)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        if !is_reclaimed(view) {
            return;
        }
        let mut suspects = reclaimed_in_time::suspects(seen, view);
        match seen {
            Seen::Pool(change) => {
                suspects.extend(change.edits.iter().filter_map(|edit| edit.taken()).map(|(_, record)| Arc::from(&*record.pod_uid)));
            }
            Seen::Endpoint(change) => suspects.extend(change.after.iter().map(|after| Arc::from(uid_of(after)))),
            Seen::Places => suspects.extend(view.endpoints.iter().map(|(_, endpoint)| Arc::from(uid_of(endpoint)))),
            _ => {}
        }
        for uid in suspects {
            if let Some((by, _)) = self.deadline(view, &uid) {
                self.due.expect(&uid, by, findings);
            }
        }
    }

    fn overdue(&mut self, at: SimTime, view: &View, findings: &mut Findings) {
        for uid in self.due.take(at) {
            findings.exercised();
            let Some((by, key)) = self.deadline(view, &uid) else { continue };
            if by > at {
                self.due.expect(&uid, by, findings);
                continue;
            }
            findings.violated(|| {
                let mut lines = vec![format!("endpoint {key} of {} is still there, and was to go by {by}", view.pod_of(&uid))];
                lines.extend(
                    view.replicas
                        .for_key(&key)
                        .iter()
                        .map(|announced| format!("release announced {} ({})", view.by(announced.said), announced.row.code())),
                );
                lines
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ipam_spiderpool::SpiderEndpoint;
    use kube_machinery::JsonText;
    use sim_config::time::SimTime;

    use super::super::super::testing::{Stage, on_stage};
    use super::super::super::view::wall;
    use crate::workload::ReclaimNote;

    const FIRST: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.1")];

    fn staged(claim: &'static str, test: impl FnOnce(&mut Stage)) {
        on_stage(claim, |stage| {
            stage.reclaims(stage.replicas[0], ReclaimNote::Leads(true));
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.stateful_set("ns/web", 1);
            stage.static_pod("ns/web-0", "a");
            stage.add("ns/web-0", "a", FIRST);
            stage.pod_is("ns/web-0", "Succeeded", None);
            stage.pod_gone("ns/web-0");
            test(stage);
        });
    }

    #[test]
    fn an_endpoint_without_records_is_swept_by_the_next_scan() {
        let claim = "orphan-endpoints-are-swept";
        staged(claim, |stage| {
            stage.stateful_set("ns/web", 0);
            stage.pass(Duration::from_secs(5_000));
            assert_eq!(stage.excuses(), [], "a record leads to it");
            stage.unrecord(stage.replicas[0], "p", "10.0.0.1");
            stage.pass(Duration::from_secs(600));
            assert_eq!(stage.excuses(), []);
            stage.pass(Duration::from_secs(20));
            assert_eq!((stage.excuses(), stage.exercised()), (vec![None], true));
        });
        staged(claim, |stage| {
            stage.stateful_set("ns/web", 0);
            stage.unrecord(stage.replicas[0], "p", "10.0.0.1");
            stage.mark(stage.replicas[0], "ns/web-0");
            stage.let_go(stage.replicas[0], "ns/web-0");
            stage.pass(Duration::from_secs(5_000));
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
        });
    }

    #[test]
    fn an_endpoint_of_a_vanished_pod_goes_unless_its_place_is_kept() {
        let claim = "endpoints-of-vanished-pods-go-in-time";
        staged(claim, |stage| {
            stage.pass(Duration::from_secs(5_000));
            assert_eq!(stage.excuses(), [], "its place is there");
            stage.stateful_set("ns/web", 0);
            stage.pass(Duration::from_secs(600));
            assert_eq!(stage.excuses(), []);
            stage.pass(Duration::from_secs(20));
            assert_eq!((stage.excuses(), stage.exercised()), (vec![None], true));
            assert!(stage.detail()[0].starts_with("endpoint ns/web-0 of ns/web-0"), "{:?}", stage.detail());
        });
        // Records that cannot be parsed hold the endpoint until they can be, and no longer.
        staged(claim, |stage| {
            stage.stateful_set("ns/web", 0);
            let mut mended = JsonText::default();
            stage.change_pool(stage.person, "p", |pool| {
                let records = &mut pool.status.get_or_insert_default().allocated_ips;
                mended = std::mem::replace(records, JsonText::verbatim("{"));
            });
            stage.pass(Duration::from_secs(5_000));
            assert_eq!(stage.excuses(), []);
            stage.change_pool(stage.person, "p", |pool| pool.status.get_or_insert_default().allocated_ips = mended);
            stage.pass(Duration::from_secs(600));
            assert_eq!(stage.excuses(), []);
            stage.pass(Duration::from_secs(20));
            assert_eq!((stage.excuses(), stage.exercised()), (vec![None], true));
        });
        staged(claim, |stage| {
            stage.stateful_set("ns/web", 0);
            stage.endpoint_gone(stage.replicas[0], "ns/web-0");
            stage.pass(Duration::from_secs(5_000));
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
        });
    }

    #[test]
    fn an_endpoint_that_is_created_when_its_pod_is_long_gone_has_the_time_of_the_next_scan_from_then_on() {
        for (late, excuses) in [(false, vec![None]), (true, vec![])] {
            staged("endpoints-of-vanished-pods-go-in-time", |stage| {
                stage.stateful_set("ns/web", 0);
                stage.endpoint_gone(stage.replicas[0], "ns/web-0");
                stage.pass(Duration::from_secs(300));
                stage.endpoint(stage.agent, "ns/web-0", "a", FIRST);
                if late {
                    let created = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(wall(SimTime::ZERO + Duration::from_secs(300)));
                    let key = kube_machinery::ObjectKey::namespaced("ns", "web-0");
                    stage.change::<SpiderEndpoint>(stage.agent, &key, |of| of.metadata.creation_timestamp = Some(created));
                }
                stage.pass(Duration::from_secs(400));
                assert_eq!(stage.excuses(), excuses, "late: {late}");
                stage.pass(Duration::from_secs(300));
                assert_eq!(stage.excuses(), [None], "late: {late}");
            });
        }
    }
}
