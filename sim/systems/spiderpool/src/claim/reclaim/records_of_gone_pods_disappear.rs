//! A L2: eventually no record of a gone pod is left.

use std::net::IpAddr;

use super::super::view::View;
use super::super::{IpamClaim, told};
use super::leak::{Kind, at_the_latest, is_reclaimed, leak_of, recorded_leak};
use super::places_keep_their_records::served_otherwise_since;

/// Whether a pod without a kept place has been gone for longer than the maximum time of reclaim.
pub(super) fn is_long_gone(view: &View, uid: &str) -> bool {
    let gone = leak_of(view, uid).filter(|leak| !matches!(leak.kind, Kind::Stuck | Kind::Ended));
    gone.is_some_and(|leak| view.pods.get(uid).is_some_and(|pod| pod.gone) && at_the_latest(view, leak.due) <= view.at)
}

/// Whether a pod is gone and its place no longer needs this address, because its next pod has had others for longer than the maximum time
/// of reclaim.
pub(super) fn is_long_superseded(view: &View, uid: &str, address: IpAddr) -> bool {
    let gone = view.pods.get(uid).is_some_and(|pod| pod.gone) && !view.changes.touched(address);
    gone && served_otherwise_since(view, uid, address).is_some_and(|since| at_the_latest(view, since) <= view.at)
}

/// Eventually there is no record of a gone pod, unless a StatefulSet or a VM keeps its place; and then only as long as the next pod of the
/// place does not run with other addresses (U-1, G00010). Records that could not be found in time by the sum of all bounds (B of G §10.2)
/// are not waited for.
///
/// Broken by `no-scan-on-takeover`, `one-list-error-ends-scan` and whatever else breaks `leaks-are-found-by-scans`.
pub(crate) struct RecordsOfGonePodsDisappear;

impl IpamClaim for RecordsOfGonePodsDisappear {
    fn pending(&self, view: &View) -> Option<String> {
        // For a pod that was never seen, its records decide one by one.
        let is_gone = |uid: &str| view.pods.get(uid).is_none() || is_long_gone(view, uid);
        let left = view.pools.uids().filter(|uid| is_reclaimed(view) && is_gone(uid)).filter_map(|uid| {
            let (leak, pool, address) = recorded_leak(view, uid)?;
            (at_the_latest(view, leak.due) <= view.at).then(|| format!("{address} of {pool} for {}", view.pod_of(uid)))
        });
        let of_all =
            view.pools.uids().filter(|_| is_reclaimed(view)).flat_map(|uid| view.pools.of_uid(uid).iter().map(move |own| (uid, own)));
        let superseded = of_all
            .filter(|(uid, (_, address))| is_long_superseded(view, uid, *address))
            .map(|(uid, (pool, address))| format!("{address} of {pool} for {}, whose successor has other addresses", view.pod_of(uid)));
        told(["record is left of a pod that is gone", "records are left of pods that are gone"], left.chain(superseded).collect())
    }

    fn awaits(&self, view: &View) -> bool {
        let is_gone = |uid: &str| view.pods.get(uid).is_none_or(|pod| pod.gone);
        is_reclaimed(view) && view.pools.uids().any(|uid| is_gone(uid) && recorded_leak(view, uid).is_some())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::{Pod, PodCondition};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kube_machinery::ObjectKey;

    use super::super::super::testing::{Stage, on_stage};
    use super::super::super::view::wall;
    use sim_config::time::SimTime;

    const FIRST: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.1")];

    pub(in super::super) fn set_up(stage: &mut Stage) {
        stage.pool("p", &["10.0.0.1-10.0.0.9"]);
        stage.stateful_set("ns/web", 1);
        stage.static_pod("ns/web-0", "w");
        stage.add("ns/web-0", "w", &[("eth0", "p", "10.0.0.2")]);
        stage.pod("ns/a", "a");
        stage.add("ns/a", "a", FIRST);
    }

    #[test]
    fn records_and_endpoints_of_pods_that_are_gone_are_left_after_a_while() {
        for claim in ["records-of-gone-pods-disappear", "no-endpoint-outlives-its-pod"] {
            on_stage(claim, |stage| {
                set_up(stage);
                stage.pass(Duration::from_secs(10_000));
                assert_eq!(stage.pending(), None, "{claim}: the pod is there");
                stage.pod_gone("ns/a");
                stage.pod_gone("ns/web-0");
                stage.pass(Duration::from_secs(600));
                assert_eq!(stage.pending(), None, "{claim}: it may still be found");
                stage.pass(Duration::from_secs(200));
                let left = stage.pending().unwrap();
                assert!(left.starts_with("1 ") && left.contains("ns/a"), "{claim}: {left}");
                stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
                stage.endpoint_gone(stage.replicas[0], "ns/a");
                assert_eq!(stage.pending(), None, "{claim}: the place of the other one is kept");
                stage.stateful_set("ns/web", 0);
                stage.pass(Duration::from_secs(800));
                assert!(stage.pending().unwrap().contains("ns/web-0"), "{claim}");
            });
        }
    }

    #[test]
    fn an_address_of_a_place_goes_whose_next_pod_runs_with_others() {
        for (claim, ready) in
            [("records-of-gone-pods-disappear", true), ("no-endpoint-outlives-its-pod", true), ("no-endpoint-outlives-its-pod", false)]
        {
            on_stage(claim, |stage| {
                set_up(stage);
                stage.pod_gone("ns/web-0");
                stage.static_pod("ns/web-0", "w2");
                stage.pod_is("ns/web-0", "Running", Some("192.168.0.1"));
                let (key, since) = (ObjectKey::namespaced("ns", "web-0"), Time(wall(SimTime::ZERO)));
                stage.change::<Pod>(stage.kubelet, &key, |pod| {
                    let status = if ready { "True" } else { "False" }.to_owned();
                    let ready =
                        PodCondition { type_: "Ready".to_owned(), status, last_transition_time: Some(since), ..PodCondition::default() };
                    pod.status.get_or_insert_default().conditions = Some(vec![ready]);
                });
                stage.pass(Duration::from_secs(600));
                assert_eq!(stage.pending(), None, "{claim}: it may still be found");
                stage.pass(Duration::from_secs(200));
                assert_eq!(stage.pending().is_some_and(|left| left.contains("ns/web-0")), ready, "{claim}");
                stage.pod_is("ns/web-0", "Running", Some("10.0.0.2"));
                assert_eq!(stage.pending(), None, "{claim}: it is in use");
            });
        }
    }

    #[test]
    fn of_a_uid_that_nobody_has_seen_the_name_decides() {
        let left = |name: &str, around: fn(&mut Stage)| {
            let mut left = false;
            on_stage("records-of-gone-pods-disappear", |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.record(stage.agent, "p", "10.0.0.1", name, "old");
                around(stage);
                stage.pass(Duration::from_secs(10_000));
                left = stage.pending().is_some();
            });
            left
        };
        let set: fn(&mut Stage) = |stage| stage.stateful_set("ns/web", 2);
        let nothing: fn(&mut Stage) = |_| ();
        for (name, around, is_left, why) in [
            ("ns/a/b", nothing, false, "S-0: reclaim has nobody to ask"),
            ("ns/a", nothing, true, "S-3"),
            ("a", nothing, true, "S-3: it is in no namespace"),
            ("ns/web-1", nothing, true, "S-3: there is no such set"),
            ("ns/web-1", set, false, "S-3v"),
            ("ns/web-2", set, true, "S-3: the set has two"),
            ("ns/web-+1", set, true, "S-3: that is no ordinal"),
            (
                "ns/web-1",
                |stage| {
                    stage.stateful_set("ns/web", 2);
                    stage.stateful_set("ns/web", 1);
                },
                true,
                "S-3: it was scaled down",
            ),
            (
                "ns/web-1",
                |stage| {
                    stage.stateful_set("ns/web", 2);
                    stage.endpoint(stage.agent, "ns/web-1", "old", &[]);
                },
                true,
                "S-6: the endpoint is that of an ordinary pod",
            ),
            (
                "ns/web-1",
                |stage| {
                    stage.stateful_set("ns/web", 2);
                    stage.static_pod("ns/web-1", "new");
                },
                false,
                "U-2v",
            ),
            (
                "ns/web-1",
                |stage| {
                    stage.stateful_set("ns/web", 2);
                    stage.static_pod("ns/web-1", "new");
                    stage.pod_is("ns/web-1", "Running", Some("10.0.0.5"));
                },
                true,
                "U-1",
            ),
            ("ns/a", |stage| stage.pod("ns/a", "new"), true, "U-3"),
            (
                "ns/a",
                |stage| {
                    stage.pod("ns/a", "new");
                    stage.pod_is("ns/a", "Running", Some("10.0.0.1"));
                },
                false,
                "U-3u",
            ),
        ] {
            assert_eq!(left(name, around), is_left, "{name}: {why}");
        }
    }

    #[test]
    fn a_record_of_a_uid_that_nobody_has_seen_is_of_a_pod_that_is_gone() {
        on_stage("records-of-gone-pods-disappear", |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
            stage.pass(Duration::from_secs(10_000));
            assert!(stage.pending().is_some());
        });
    }
}
