//! A S1: an address answers in one place.

use super::view::{Place, Sandbox, Seen, View};
use super::{FORCED_SUCCESSOR, Findings, IpamClaim, violated};
use crate::workload::PodNote;

/// No sandbox is attached with an address on which another live sandbox answers. A sandbox answers from its attachment until its
/// interface is to be taken down (its containers have stopped by then) or its network namespace is gone.
///
/// The source and the target of one VM's live migration may share an address, and so may two sandboxes of one pod: that is its
/// node's business.
///
/// Broken by `uid-from-cached-pod`, `reown-missing-record`, `del-adopts-current-uid`, `allocate-from-cached-pool`,
/// `reown-ignores-owner` and `adopt-stale-endpoint`. It does not see an address that is used outside the cluster.
pub(in super::super) struct OneSandbox;

impl IpamClaim for OneSandbox {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pod(_, PodNote::Attached { sandbox: id, nic, addresses }) = seen else { return };
        let Some(sandbox) = view.sandboxes.get(id) else { return };
        findings.judged();
        for address in addresses.iter() {
            let others = view.sandboxes.answering(*address).filter(|(other, _)| *other != id);
            for (_, other) in others.filter(|(_, other)| !may_share(view, sandbox, other)) {
                let detail = || {
                    let line = format!("{nic} of {} answers on {address}", view.pod_of(&sandbox.uid));
                    let since = other.nics.iter().find(|(.., addresses)| addresses.contains(address));
                    let since = since.map_or(String::new(), |(_, said, _)| format!(", attached {}", view.by(*said)));
                    let pools: Vec<_> = view.pools.holders(*address).map(|holder| holder.pool.clone()).collect();
                    let pool = pools.first().map_or("", |pool| pool);
                    vec![line, format!("so does {}{since}", view.pod_of(&other.uid)), view.story_of(pool, *address)]
                };
                let older_is_gone = view.pods.get(&other.uid).is_none_or(|pod| pod.gone);
                if other.pod == sandbox.pod && older_is_gone {
                    findings.violated_with(FORCED_SUCCESSOR, detail);
                } else {
                    violated(findings, view.changes.touched(*address), detail);
                }
            }
        }
    }
}

fn may_share(view: &View, one: &Sandbox, other: &Sandbox) -> bool {
    let vm = |sandbox: &Sandbox| view.pods.get(&sandbox.uid).and_then(|pod| pod.place.clone()).filter(|place| matches!(place, Place::Vm(_)));
    one.uid == other.uid || vm(one).is_some_and(|place| vm(other) == Some(place))
}
