//! A §5.4: pools with free addresses serve.

use ipam_spiderpool::ranges::IpVersion;

use super::view::{EventMask, Seen, Tried, View};
use super::{Findings, IpamClaim};
use crate::workload::{InOrder, IpamNote, Refusal};

/// No agent reports a pool as exhausted, or refuses a request because all pools are, while a pool that it selected has had free addresses
/// since before the request began.
///
/// It does not judge pools whose addresses are reserved, shared or unreadable for a while, pools that may not have so many records, or
/// pools that the request did not select: the last are the business of `selection-follows-the-rules`.
pub(crate) struct FreeAddressesAreFound;

impl IpamClaim for FreeAddressesAreFound {
    fn event_mask(&self) -> EventMask {
        EventMask::CHOICE.and(EventMask::ANSWER)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match *seen {
            Seen::Ipam(by, IpamNote::Tried { uid, nic, pool, outcome: Err(Refusal::UsedOut) }) => {
                let Some(began) = view.agents.asked(by, uid).map(|asked| asked.began.at).max() else { return };
                let Some(has_had_room) = view.has_had_room(pool, began) else { return };
                findings.exercised();
                if has_had_room {
                    findings.violated(|| {
                        let (agent, pod) = (view.name(by), view.pod_of(uid));
                        vec![
                            format!("{agent} finds no address for {nic} of {pod} in pool {pool}"),
                            format!("{pool} has had free addresses since before the request began at {began}"),
                        ]
                    });
                }
            }
            Seen::Ipam(by, IpamNote::AddEnded { uid, container, nic, result: Err(Refusal::UsedOut), .. }) => {
                let mut open = view.agents.asked(by, uid);
                let Some(asked) = open.find(|asked| asked.container == *container && asked.nic == *nic) else { return };
                for order in asked.order() {
                    let of_it = |tried: &&Tried| *tried.nic == *order.nic && is_in(order, &tried.pool);
                    let tried: Vec<&Tried> = asked.tried.iter().filter(of_it).collect();
                    let is_served = tried.iter().any(|tried| tried.outcome.is_ok_and(|ip| IpVersion::of(ip) == order.family));
                    if tried.is_empty() || is_served {
                        continue;
                    }
                    let untried = names(order).filter(|name| tried.iter().all(|tried| *tried.pool != **name));
                    if let Some(pool) = untried.into_iter().find(|name| view.has_had_room(name, asked.began.at) == Some(true)) {
                        findings.violated(|| {
                            let (agent, pod, nic) = (view.name(by), view.pod_of(uid), &order.nic);
                            let first = format!("{agent} refuses {nic} of {pod}: all addresses are taken");
                            vec![first, format!("pool {pool} has had free addresses since before the request began, and was not tried")]
                        });
                    }
                }
            }
            _ => {}
        }
    }
}

fn names(order: &InOrder) -> impl Iterator<Item = &str> {
    order.pools.iter().filter_map(|pool| pool.metadata.name.as_deref())
}

fn is_in(order: &InOrder, pool: &str) -> bool {
    names(order).any(|name| name == pool)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Stage, on_stage};
    use super::*;
    use crate::oracle::Opinion;

    fn asking(addresses: &str, test: impl FnOnce(&mut Stage)) {
        on_stage("free-addresses-are-found", |stage| {
            stage.pool("full", &["10.0.0.1-10.0.0.2"]);
            stage.pool("p", &[addresses]);
            stage.pass(Duration::from_secs(1));
            stage.ask("ns/a", "a", "eth0");
            stage.select("a", Opinion::Agrees, &["full", "p"], 0);
            test(stage);
        });
    }

    #[test]
    fn a_pool_that_has_free_addresses_is_not_used_up() {
        asking("10.0.1.1-10.0.1.9", |stage| {
            stage.try_pool("a", "full", Err(Refusal::UsedOut));
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.try_pool("a", "p", Err(Refusal::UsedOut));
            assert_eq!(stage.excuses(), [None]);
            assert!(stage.detail()[1].starts_with("p has had free addresses"), "{:?}", stage.detail());
        });
    }

    #[test]
    fn a_pool_that_was_full_for_a_moment_may_have_been_read_then() {
        asking("10.0.1.1-10.0.1.4", |stage| {
            stage.record(stage.agent, "p", "10.0.1.1", "ns/b", "b");
            stage.record(stage.agent, "p", "10.0.1.2", "ns/c", "c");
            stage.unrecord(stage.agent, "p", "10.0.1.1");
            stage.unrecord(stage.agent, "p", "10.0.1.2");
            stage.try_pool("a", "p", Err(Refusal::UsedOut));
            assert_eq!(stage.excuses(), []);
        });
    }

    #[test]
    fn a_request_is_refused_only_when_all_its_pools_were_tried() {
        asking("10.0.1.1-10.0.1.9", |stage| {
            stage.try_pool("a", "full", Err(Refusal::UsedOut));
            stage.refuse("ns/a", "a", "eth0", Refusal::UsedOut);
            assert_eq!(stage.excuses(), [None]);
            assert_eq!(stage.detail()[1], "pool p has had free addresses since before the request began, and was not tried");
        });
        asking("10.0.1.1-10.0.1.9", |stage| {
            stage.try_pool("a", "full", Err(Refusal::UsedOut));
            stage.try_pool("a", "p", Err(Refusal::RetriesExhausted));
            stage.refuse("ns/a", "a", "eth0", Refusal::UsedOut);
            assert_eq!(stage.excuses(), []);
        });
    }
}
