//! A L8: eventually no endpoint outlives its pod.

use super::super::view::{View, addresses_of, is_held_by_others, uid_of};
use super::super::{IpamClaim, told};
use super::leak::{is_reclaimed, leak_of};
use super::records_of_gone_pods_disappear::{is_long_gone, is_long_superseded};

/// Eventually there is no endpoint of a gone pod, with the exceptions of `records-of-gone-pods-disappear`, whether a DEL came for it or
/// not. An endpoint that only finalizers of others hold is left to them.
///
/// Broken by `orphan-endpoint-kept`, and by `finalizer-left-behind` (A) without reclaim.
pub(crate) struct NoEndpointOutlivesItsPod;

impl IpamClaim for NoEndpointOutlivesItsPod {
    fn pending(&self, view: &View) -> Option<String> {
        let of_known = |uid: &str| view.pods.get(uid).is_some_and(|pod| pod.gone);
        let left = view.endpoints.iter().filter(|(key, endpoint)| {
            let uid = uid_of(endpoint);
            let mut named = addresses_of(endpoint).peekable();
            let is_over =
                is_long_gone(view, uid) || named.peek().is_some() && named.all(|(.., address)| is_long_superseded(view, uid, address));
            is_reclaimed(view) && of_known(uid) && is_over && !is_held_by_others(endpoint) && !view.changes.touched_endpoint(key)
        });
        told(
            ["endpoint is left of a pod that is gone", "endpoints are left of pods that are gone"],
            left.map(|(key, endpoint)| format!("{key} of {}", view.pod_of(uid_of(endpoint)))).collect(),
        )
    }

    fn awaits(&self, view: &View) -> bool {
        let is_gone = |uid: &str| view.pods.get(uid).is_some_and(|pod| pod.gone) && leak_of(view, uid).is_some();
        is_reclaimed(view) && view.endpoints.iter().any(|(_, endpoint)| is_gone(uid_of(endpoint)) && !is_held_by_others(endpoint))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ipam_spiderpool::SpiderEndpoint;
    use kube_machinery::ObjectKey;

    use super::super::super::testing::on_stage;
    use super::super::records_of_gone_pods_disappear::tests::set_up;

    #[test]
    fn an_endpoint_that_only_finalizers_of_others_hold_is_theirs() {
        on_stage("no-endpoint-outlives-its-pod", |stage| {
            set_up(stage);
            stage.pod_gone("ns/a");
            stage.pass(Duration::from_secs(10_000));
            let key = ObjectKey::namespaced("ns", "a");
            stage.mark(stage.replicas[0], "ns/a");
            for (finalizers, left, why) in [
                (&["spiderpool.spidernet.io", "example.com/audit"][..], true, "Spiderpool's own is left"),
                (&[], true, "nobody holds it"),
                (&["example.com/audit"], false, "somebody else holds it"),
            ] {
                let finalizers = Some(finalizers.iter().map(|&name| name.to_owned()).collect());
                stage.change::<SpiderEndpoint>(stage.replicas[0], &key, |endpoint| endpoint.metadata.finalizers = finalizers);
                assert_eq!(stage.pending().is_some(), left, "{why}");
            }
            stage.change::<SpiderEndpoint>(stage.replicas[0], &key, |endpoint| endpoint.metadata.deletion_timestamp = None);
            assert!(stage.pending().is_some(), "nobody deleted it");
        });
    }
}
