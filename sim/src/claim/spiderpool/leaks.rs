//! A L3: records and endpoints tell the same.

use super::view::{Pod, Seen, View, addresses_of, uid_of};
use super::{Findings, IpamClaim, told};

/// In the end every record of a pod that exists is in its endpoint, and every address in the endpoint of a pod that is alive is
/// recorded for it. Pods that are terminating, or for which a request is open, are on their way.
///
/// Broken by `lost-reply-takes-next-pool`, `partial-failure-keeps-records`, `limiter-ignores-deadline`, `endpoint-delete-by-name`,
/// `partial-pool-change-recreates` and `nameless-entry-lost`. Records of pods that are gone are the business of reclaim.
pub(in super::super) struct EndpointsNameAll;

impl IpamClaim for EndpointsNameAll {
    fn observe(&mut self, _: &Seen<'_>, _: &View, _: &mut Findings) {}

    fn pending(&self, view: &View) -> Option<String> {
        let mut wrong = Vec::new();
        for (name, pool) in view.pools.iter() {
            for (key, record) in pool.records().iter() {
                let Some(pod) = view.pods.get(&record.pod_uid).filter(|pod| is_settled(view, &record.pod_uid, pod)) else { continue };
                let Some(address) = key.address().filter(|address| !view.changes.touched(*address)) else { continue };
                let endpoint = view.endpoint_of(pod).map(|(endpoint, _)| endpoint);
                let own = endpoint.filter(|endpoint| uid_of(endpoint) == record.pod_uid);
                let listed = own.is_some_and(|own| addresses_of(own).any(|(_, pool, other)| *pool == **name && other == address));
                if !listed {
                    wrong.push(format!("{address} of {name} is recorded for {} and not in its endpoint", pod.key));
                }
            }
        }
        for (uid, pod) in view.pods.present().filter(|(uid, pod)| pod.is_alive() && is_settled(view, uid, pod)) {
            let Some((endpoint, touched)) = view.endpoint_of(pod) else { continue };
            if touched || uid_of(endpoint) != &**uid {
                continue;
            }
            for (_, pool, address) in addresses_of(endpoint).filter(|(.., address)| !view.changes.touched(*address)) {
                if view.pools.holder(pool, address).is_none_or(|holder| *holder.record.pod_uid != **uid) {
                    wrong.push(format!("{address} of {pool} is in the endpoint of {} and not recorded for it", pod.key));
                }
            }
        }
        told("addresses are recorded or in an endpoint only", wrong)
    }
}

fn is_settled(view: &View, uid: &str, pod: &Pod) -> bool {
    let on_lost_node = pod.node().is_some_and(|node| view.out_of_reach.names.contains(node));
    !pod.gone && !pod.is_terminating() && !on_lost_node && !view.agents.is_asked(uid)
}
