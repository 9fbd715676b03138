//! A S15: each NIC has its own address.

use super::view::{Seen, View};
use super::{Answered, Findings, IpamClaim};
use crate::workload::PodNote;

/// No answer gives one address to two NICs, and no sandbox answers on one address with two.
///
/// Broken by `one-record-per-pod` and `nameless-entry-lost`. An address that is twice in the answer for one NIC counts, too.
pub(in super::super) struct DistinctAddresses;

impl IpamClaim for DistinctAddresses {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        if let Some(answer) = Answered::of(seen) {
            findings.judged();
            for (at, given) in answer.given.iter().enumerate() {
                if let Some(other) = answer.given[..at].iter().find(|other| other.address == given.address) {
                    findings.violated(|| {
                        let (by, whose) = (view.name(answer.by), view.pod_of(answer.uid));
                        vec![
                            format!("{by} gives {} to {} and to {} of {whose}", given.address, other.nic, given.nic),
                            view.story_of(&given.pool, given.address),
                        ]
                    });
                }
            }
        }
        let Seen::Pod(_, PodNote::Attached { sandbox, nic, addresses }) = seen else { return };
        findings.judged();
        let others = view.sandboxes.get(sandbox).into_iter().flat_map(|sandbox| &sandbox.nics);
        for (other, _, held) in others.filter(|(other, ..)| other != nic) {
            if let Some(address) = addresses.iter().find(|address| held.contains(address)) {
                findings.violated(|| vec![format!("{other} and {nic} of sandbox {sandbox} answer on {address}")]);
            }
        }
    }
}
