//! A S8: better pools come first.

use std::net::IpAddr;
use std::sync::Arc;

use ipam_spiderpool::ranges::IpVersion;
use kube_machinery::FxHashMap;

use super::view::{EventMask, Pod, Seen, Shown, Tried, View};
use super::{Findings, IpamClaim};
use crate::oracle::Opinion;
use crate::workload::{InOrder, IpamNote};

/// An agent ranks pools by the rules, those of equal rank in the user's order, and takes no address from a pool while a better one has
/// neither failed nor changed after the selection.
///
/// A request that finds its endpoint changed selects again, and may then rank the pools differently. An address that it recorded before is
/// judged by the selection that preceded its record: leaving it for a better pool would mean a second record. For the same reason a pool
/// may go first if an earlier request's write for the pod may have been carried out in it, or its rollback may have failed (D §1.2), or if
/// an earlier life of the agent had sent it a record that arrived while the request was queued (K §2.13), or if the agent's cache may still
/// show a record that was taken back.
///
/// Broken by `ties-in-any-order`. It does not judge addresses that were recorded before the request selected anything, addresses taken over
/// from a predecessor of the same place, or two simultaneous requests for one pod.
#[derive(Default)]
pub(crate) struct BetterPoolsComeFirst {
    /// The records that were sent by an earlier life of an agent and arrived after its end, and the moments of their arrival.
    left_behind: FxHashMap<(Arc<str>, IpAddr), u64>,
    /// The pools from which records of live pods were last removed, by the UID of the pod, and the revisions of that.
    taken_back: FxHashMap<(Arc<str>, Arc<str>), u64>,
}

impl IpamClaim for BetterPoolsComeFirst {
    fn event_mask(&self) -> EventMask {
        EventMask::CHOICE.and(EventMask::POOL)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match *seen {
            Seen::Pool(ref change) => {
                let taken = change.edits.iter().filter_map(|edit| edit.taken()).filter(|(_, before)| view.pods.is_alive(&before.pod_uid));
                self.taken_back.extend(taken.map(|(_, before)| ((before.pod_uid.as_str().into(), change.pool.clone()), change.revision)));
                if change.left_behind.is_some() {
                    let given = change.edits.iter().filter_map(|edit| edit.given());
                    self.left_behind.extend(given.map(|(address, _)| ((change.pool.clone(), address), change.said.moment)));
                }
            }
            Seen::Selected { by, uid, nic, opinion: Opinion::OtherOrder(ref why), .. } => {
                findings.violated(|| vec![format!("{} ranks pools for {nic} of {}", view.name(by), view.pod_of(uid)), why.to_string()]);
            }
            Seen::Ipam(process, IpamNote::Tried { uid, nic, pool, outcome: Ok(address) }) => {
                let mut asked = view.agents.asked(process, uid);
                let (Some(asked), None) = (asked.next(), asked.next()) else { return };
                let since = view.pools.holder(pool, *address).map(|holder| holder.since.map_or(0, |said| said.moment));
                // An address without a record is to be recorded now.
                let Some(order) = asked.order_at(since.unwrap_or(u64::MAX)) else { return };
                let in_order = |order: &&InOrder| *order.nic == **nic && order.family == IpVersion::of(*address);
                let Some(order) = order.iter().find(in_order) else { return };
                let name = |at: usize| order.pools[at].metadata.name.as_deref().unwrap_or_default();
                let Some(position) = (0..order.pools.len()).find(|&at| *name(at) == **pool) else { return };
                // A record of the pod that may be withdrawn is exchanged for another address of the same pool.
                let exchanged = || {
                    let mut releases = view.ledger.releases(uid).iter().filter(|release| release.said.moment >= asked.began.moment);
                    releases.any(|release| release.what.iter().any(|(of, _)| *of == *pool))
                };
                // The outcome of an earlier request's write is unknown.
                let doubted = || {
                    let doubts = view.ledger.last(uid).map_or(&[][..], |last| &last.doubts);
                    doubts.iter().any(|(of, name)| **of == **nic && **name == **pool)
                };
                let is_left_behind = || since.is_some() && self.left_behind.get(&(pool.clone(), *address)).copied() == since;
                findings.exercised();
                let has_failed = |name: &str| {
                    let of = |tried: &&Tried| *tried.nic == **nic && *tried.pool == *name;
                    asked.tried.iter().any(|tried| of(&tried) && tried.outcome.is_err())
                };
                let inherited = || {
                    let name = view.pods.get(uid).and_then(Pod::static_name);
                    name.is_some_and(|name| {
                        view.ledger.kept(name).iter().any(|before| before.uid != *uid && before.given.address == *address)
                    })
                };
                let is_still_shown = || {
                    let taken_back = self.taken_back.get(&(uid.clone(), pool.clone()));
                    taken_back.is_some_and(|taken| view.agents.shown_before_add(process, uid, Shown::Pools) < *taken)
                };
                let has_reason = || exchanged() || doubted() || is_left_behind() || inherited() || is_still_shown();
                if let Some(skipped) = (0..position).map(name).find(|name| !has_failed(name)).filter(|_| !has_reason()) {
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

#[cfg(test)]
mod tests {
    use kube_sim::trace::ProcessChange;

    use super::super::testing::{Stage, on_stage};
    use super::*;
    use crate::workload::{Cause, Refusal};

    fn with_pools(test: impl FnOnce(&mut Stage)) {
        on_stage("better-pools-come-first", |stage| {
            for pool in ["p", "q", "r"] {
                stage.pool(pool, &["10.0.0.1-10.0.0.9"]);
            }
            stage.ask("ns/a", "a", "eth0");
            stage.select("a", Opinion::Agrees, &["p", "q", "r"], 0);
            test(stage);
        });
    }

    #[test]
    fn a_pool_serves_after_the_better_ones_failed() {
        with_pools(|stage| {
            stage.try_pool("a", "p", Err(Refusal::UsedOut));
            stage.try_pool("a", "q", Ok("10.0.0.1"));
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.try_pool("a", "r", Ok("10.0.0.1"));
            assert_eq!(stage.excuses(), [None]);
            assert!(stage.detail()[1].starts_with("pool q comes first and was not tried"), "{:?}", stage.detail());
        });
    }

    #[test]
    fn an_address_that_was_recorded_before_is_no_choice() {
        on_stage("better-pools-come-first", |stage| {
            for pool in ["p", "q"] {
                stage.pool(pool, &["10.0.0.1-10.0.0.9"]);
            }
            stage.record(stage.agent, "q", "10.0.0.1", "ns/a", "a");
            stage.ask("ns/a", "a", "eth0");
            stage.select("a", Opinion::Agrees, &["p", "q"], 0);
            stage.try_pool("a", "q", Ok("10.0.0.1"));
            assert_eq!(stage.excuses(), []);
            stage.try_pool("a", "q", Ok("10.0.0.2"));
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn what_a_predecessor_of_the_place_had_is_made_over_and_not_chosen() {
        on_stage("better-pools-come-first", |stage| {
            for pool in ["p", "q"] {
                stage.pool(pool, &["10.0.0.1-10.0.0.9"]);
            }
            stage.stateful_set("ns/web", 1);
            stage.static_pod("ns/web-0", "old");
            stage.add("ns/web-0", "old", &[("eth0", "q", "10.0.0.1")]);
            stage.pod_gone("ns/web-0");
            stage.static_pod("ns/web-0", "new");
            stage.ask("ns/web-0", "new", "eth0");
            stage.select("new", Opinion::Agrees, &["p", "q"], 0);
            stage.record(stage.agent, "q", "10.0.0.1", "ns/web-0", "new");
            stage.try_pool("new", "q", Ok("10.0.0.1"));
            assert_eq!(stage.excuses(), []);
            stage.record(stage.agent, "q", "10.0.0.2", "ns/web-0", "new");
            stage.try_pool("new", "q", Ok("10.0.0.2"));
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn an_address_that_the_request_recorded_is_judged_by_the_selection_before_it() {
        with_pools(|stage| {
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
            stage.try_pool("a", "p", Ok("10.0.0.1"));
            stage.select("a", Opinion::Agrees, &["q", "p"], 0);
            stage.try_pool("a", "p", Ok("10.0.0.1"));
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.record(stage.agent, "p", "10.0.0.2", "ns/a", "a");
            stage.try_pool("a", "p", Ok("10.0.0.2"));
            assert_eq!(stage.excuses(), [None]);
            assert!(stage.detail()[1].starts_with("pool q comes first"), "{:?}", stage.detail());
        });
        with_pools(|stage| {
            stage.record(stage.agent, "q", "10.0.0.1", "ns/a", "a");
            stage.select("a", Opinion::Agrees, &["q", "p"], 0);
            stage.try_pool("a", "q", Ok("10.0.0.1"));
            assert_eq!(stage.excuses(), [None]);
            assert!(stage.detail()[1].starts_with("pool p comes first"), "{:?}", stage.detail());
        });
    }

    #[test]
    fn a_pool_goes_first_whose_write_by_an_earlier_request_may_have_been_carried_out() {
        with_pools(|stage| {
            stage.try_pool("a", "q", Err(Refusal::Api));
            stage.refuse("ns/a", "a", "eth0", Refusal::Api);
            // A request that ends before it tries a pool does not resolve the doubt.
            stage.ask("ns/a", "a", "eth0");
            stage.refuse("ns/a", "a", "eth0", Refusal::OutOfTime);
            stage.ask("ns/a", "a", "eth0");
            stage.select("a", Opinion::Agrees, &["p", "q", "r"], 0);
            stage.try_pool("a", "q", Ok("10.0.0.1"));
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.try_pool("a", "r", Ok("10.0.0.1"));
            assert_eq!(stage.excuses(), [None], "nobody doubts what became of that one");
            stage.answer("ns/a", "a", "eth0", &[("eth0", "q", "10.0.0.1")]);
            stage.ask("ns/a", "a", "eth0");
            stage.select("a", Opinion::Agrees, &["p", "q", "r"], 0);
            stage.try_pool("a", "q", Ok("10.0.0.1"));
            assert_eq!(stage.excuses().len(), 2, "the answer has settled it");
        });
    }

    #[test]
    fn a_pool_goes_first_from_which_an_earlier_request_could_not_take_its_record_back() {
        // The result of the last attempt to take it back counts.
        for (tries, excuses) in [(&[false][..], vec![]), (&[true, false], vec![]), (&[true], vec![None]), (&[false, true], vec![None])] {
            with_pools(|stage| {
                stage.try_pool("a", "p", Err(Refusal::UsedOut));
                stage.try_pool("a", "q", Ok("10.0.0.1"));
                for ok in tries {
                    stage.release("ns/a", "a", Cause::RollBack, &[("q", "10.0.0.1")]);
                    stage.released("ns/a", "a", Cause::RollBack, *ok);
                }
                stage.refuse("ns/a", "a", "eth0", Refusal::Api);
                stage.ask("ns/a", "a", "eth0");
                stage.select("a", Opinion::Agrees, &["p", "q", "r"], 0);
                stage.try_pool("a", "q", Ok("10.0.0.2"));
                assert_eq!((stage.excuses(), stage.exercised()), (excuses, true), "taken back: {tries:?}");
            });
        }
    }

    #[test]
    fn a_pool_goes_first_to_which_an_earlier_life_had_sent_a_record() {
        for (sent, excuses) in [(true, vec![]), (false, vec![None])] {
            on_stage("better-pools-come-first", |stage| {
                for pool in ["p", "q"] {
                    stage.pool(pool, &["10.0.0.1-10.0.0.9"]);
                }
                stage.ask("ns/a", "a", "eth0");
                if sent {
                    stage.sends_write(stage.agent, "q");
                }
                stage.process_changes(stage.agent, ProcessChange::Crashed);
                stage.process_changes(stage.agent, ProcessChange::Started);
                stage.ask("ns/a", "a", "eth0");
                stage.select("a", Opinion::Agrees, &["p", "q"], 0);
                stage.record(stage.agent, "q", "10.0.0.1", "ns/a", "a");
                stage.try_pool("a", "q", Ok("10.0.0.1"));
                assert_eq!((stage.excuses(), stage.exercised()), (excuses, true), "sent before the crash: {sent}");
            });
        }
    }

    #[test]
    fn a_pool_may_go_first_while_the_cache_shows_a_record_that_was_taken_back() {
        for (shown, excuses) in [(false, vec![]), (true, vec![None])] {
            on_stage("better-pools-come-first", |stage| {
                for pool in ["p", "q"] {
                    stage.pool(pool, &["10.0.0.1-10.0.0.9"]);
                }
                stage.pod("ns/a", "a");
                stage.record(stage.agent, "q", "10.0.0.1", "ns/a", "a");
                stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
                stage.unrecord(stage.agent, "q", "10.0.0.1");
                if shown {
                    stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
                }
                stage.ask("ns/a", "a", "eth0");
                stage.select("a", Opinion::Agrees, &["p", "q"], 0);
                stage.try_pool("a", "q", Ok("10.0.0.2"));
                assert_eq!((stage.excuses(), stage.exercised()), (excuses, true), "the cache shows that it is gone: {shown}");
            });
        }
    }

    #[test]
    fn of_two_requests_at_a_time_nobody_knows_which_tries() {
        with_pools(|stage| {
            stage.ask("ns/a", "a", "eth0");
            stage.try_pool("a", "r", Ok("10.0.0.1"));
            assert_eq!(stage.excuses(), []);
        });
    }
}
