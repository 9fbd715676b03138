//! A S18: the dead get nothing.

use super::view::{Seen, View};
use super::{Findings, IpamClaim};

/// No agent records an address for a pod, as a new record or by handing one on, that its watch had shown to be terminating, over or
/// gone (A §7.2) before it was asked. A cache that is behind excuses.
///
/// Broken by `uid-from-cached-pod`. It does not see what an agent could have read live.
pub(in super::super) struct OnlyTheLiving;

impl IpamClaim for OnlyTheLiving {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        if !change.by_agent {
            return;
        }
        for (address, record) in change.edits.iter().filter_map(|edit| edit.given()) {
            let Some(pod) = view.pods.get(&record.pod_uid) else { continue };
            findings.judged();
            let shown = view.agents.pods_shown(change.said.by, &record.pod_uid);
            if let Some(dead) = pod.dead.filter(|dead| *dead <= shown) {
                findings.violated(|| {
                    vec![
                        format!("{address} is recorded for {}", view.pod_of(&record.pod_uid)),
                        format!("{} had been shown pods up to revision {shown}; this one is dead since {dead}", view.name(change.said.by)),
                        view.story_of_write(change),
                    ]
                });
            }
        }
    }
}
