//! A S7, S8: pools are chosen as the rules say, and the better one first.

use super::view::{Seen, Shown, Tried, View};
use super::{Findings, IpamClaim};
use crate::workload::spiderpool::{InOrder, IpamNote, Opinion};

/// What an agent selects is what the oracle reads out of the same objects: the same pools, the same reasons, the same error.
///
/// Broken by `upstream-ranges`, `wildcard-duplicates-fail`, `multus-always-resolved`, `static-reuse-skips-filter` and
/// `static-reuse-before-gating`. It does not see what happens between the selection and the write (A W15).
pub(in super::super) struct AsTheRulesSay;

impl IpamClaim for AsTheRulesSay {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Ipam(process, IpamNote::Selected { uid, nic, opinion, .. }) = *seen else { return };
        findings.judged();
        if let Opinion::Differs(why) = opinion {
            findings.violated(|| {
                vec![format!("{} selects pools for {nic} of {}", view.name(process), view.pod_of(uid)), why.to_string()]
            });
        }
    }
}

/// An agent ranks pools as the rules say, equal ones as the user lists them, and takes nothing from one while a better one has
/// neither failed nor was changed after the selection.
///
/// Broken by `ties-in-any-order`. It does not judge an address that was recorded before the request began, nor two requests for one
/// pod at a time.
pub(in super::super) struct BestPoolFirst;

impl IpamClaim for BestPoolFirst {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match *seen {
            Seen::Ipam(process, IpamNote::Selected { uid, nic, opinion: Opinion::OtherOrder(why), .. }) => {
                findings.violated(|| {
                    vec![format!("{} ranks pools for {nic} of {}", view.name(process), view.pod_of(uid)), why.to_string()]
                });
            }
            Seen::Ipam(process, IpamNote::Tried { uid, nic, pool, outcome: Ok(address) }) => {
                let mut asked = view.agents.asked(process, uid);
                let (Some(asked), None) = (asked.next(), asked.next()) else { return };
                let in_order = |order: &&InOrder| *order.nic == **nic && (order.family == ipam_core::spiderpool::ranges::IpVersion::V4) == address.is_ipv4();
                let Some(order) = asked.order.iter().find(in_order) else { return };
                let name = |at: usize| order.pools[at].metadata.name.as_deref().unwrap_or_default();
                let Some(position) = (0..order.pools.len()).find(|&at| *name(at) == **pool) else { return };
                let recorded_before = || {
                    let since = view.pools.holder(pool, *address).map(|holder| holder.since.map_or(0, |said| said.moment));
                    since.is_some_and(|since| since < asked.began.moment)
                };
                findings.judged();
                let has_failed = |name: &str| {
                    let of = |tried: &&Tried| *tried.nic == **nic && *tried.pool == *name;
                    asked.tried.iter().any(|tried| of(&tried) && tried.outcome.is_err())
                };
                if let Some(skipped) = (0..position).map(name).find(|name| !has_failed(name)).filter(|_| !recorded_before()) {
                    findings.violated(|| {
                        let shown = view.agents.shown(process, Shown::Pools);
                        vec![
                            format!("{} takes {address} for {nic} of {} from pool {pool}", view.name(process), view.pod_of(uid)),
                            format!("pool {skipped} comes first and was not tried (pools shown up to revision {shown})"),
                        ]
                    });
                }
            }
            _ => {}
        }
    }
}
