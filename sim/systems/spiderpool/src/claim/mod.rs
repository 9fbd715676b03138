//! Claims about Spiderpool: its allocation (A S1 to S18, L1 to L8), reclaim (`reclaim`), subnets (`subnet`), and coverage claims that keep
//! its scenarios meaningful.
//!
//! ```text
//!  events ──► View: pools, endpoints, pods, sandboxes, agents, ledger ──► Seen ──► each claim ──► Findings
//! ```
//!
//! The notes of agents are compared with the store and with the addresses that sandboxes answer on; their choices are compared with the
//! [`oracle`](crate::oracle), a second implementation of the rules. Each commit is compared with the previous one at a cost proportional to
//! the change, and text is made only for violations.

mod addresses_come_from_their_pool;
mod answer_endpoint_and_record_agree;
mod answered_addresses_are_recorded;
mod answers_have_each_family;
mod answers_have_their_routes;
mod answers_leave_no_strays;
mod asking_again_gives_the_same_address;
mod better_pools_come_first;
pub(crate) mod catalogue;
mod counts_equal_records;
mod coverage;
mod dead_pods_get_no_address;
mod deletes_leave_nothing_behind;
mod deletes_touch_nobody_else;
mod empty_terminating_pools_disappear;
mod endpoints_of_gone_pods_disappear;
mod free_addresses_are_found;
mod gateways_are_decided;
mod given_back;
mod given_up_addresses_are_released;
mod group;
mod late_requests_get_nothing;
mod nics_have_distinct_addresses;
mod no_address_has_two_live_sandboxes;
mod no_address_is_recorded_twice;
mod pods_get_addresses;
mod pools_and_endpoints_outlive_their_records;
mod pools_keep_to_their_maximum;
mod queued_requests_are_served;
mod reclaim;
mod records_equal_endpoints;
mod records_leave_only_for_their_own_uid;
mod reserved_addresses_are_not_given;
mod reused_addresses_are_permitted;
mod selection_follows_the_rules;
mod static_pods_keep_their_addresses;
mod subnet;
mod total_counts_come_right;
mod view;

#[cfg(test)]
mod testing;

use std::net::IpAddr;
use std::sync::Arc;

use ipam_reports::human;
use kube_sim::rt::ProcessId;
use sim_config::time::SimTime;
use sim_harness::check::Excuse;
use sim_harness::claim::Findings;

use crate::workload::{Given, How, IpamNote};

use view::is_migration;

pub(super) use addresses_come_from_their_pool::AddressesComeFromTheirPool;
pub(super) use answer_endpoint_and_record_agree::AnswerEndpointAndRecordAgree;
pub(super) use answered_addresses_are_recorded::AnsweredAddressesAreRecorded;
pub(super) use answers_have_each_family::AnswersHaveEachFamily;
pub(super) use answers_have_their_routes::AnswersHaveTheirRoutes;
pub(super) use answers_leave_no_strays::AnswersLeaveNoStrays;
pub(super) use asking_again_gives_the_same_address::AskingAgainGivesTheSameAddress;
pub(super) use better_pools_come_first::BetterPoolsComeFirst;
pub(super) use counts_equal_records::CountsEqualRecords;
pub(super) use coverage::{AnAddressChangesHands, Coverage};
pub(super) use dead_pods_get_no_address::DeadPodsGetNoAddress;
pub(super) use deletes_leave_nothing_behind::DeletesLeaveNothingBehind;
pub(super) use deletes_touch_nobody_else::DeletesTouchNobodyElse;
pub(super) use empty_terminating_pools_disappear::EmptyTerminatingPoolsDisappear;
pub(super) use endpoints_of_gone_pods_disappear::EndpointsOfGonePodsDisappear;
pub(super) use free_addresses_are_found::FreeAddressesAreFound;
pub(super) use gateways_are_decided::GatewaysAreDecided;
pub(super) use given_up_addresses_are_released::GivenUpAddressesAreReleased;
pub(crate) use group::{GROUP, boxed};
pub(super) use late_requests_get_nothing::LateRequestsGetNothing;
pub(super) use nics_have_distinct_addresses::NicsHaveDistinctAddresses;
pub(super) use no_address_has_two_live_sandboxes::NoAddressHasTwoLiveSandboxes;
pub(super) use no_address_is_recorded_twice::NoAddressIsRecordedTwice;
pub(super) use pods_get_addresses::PodsGetAddresses;
pub(super) use pools_and_endpoints_outlive_their_records::PoolsAndEndpointsOutliveTheirRecords;
pub(super) use pools_keep_to_their_maximum::PoolsKeepToTheirMaximum;
pub(super) use queued_requests_are_served::QueuedRequestsAreServed;
pub(super) use reclaim::*;
pub(super) use records_equal_endpoints::RecordsEqualEndpoints;
pub(super) use records_leave_only_for_their_own_uid::RecordsLeaveOnlyForTheirOwnUid;
pub(super) use reserved_addresses_are_not_given::ReservedAddressesAreNotGiven;
pub(super) use reused_addresses_are_permitted::ReusedAddressesArePermitted;
pub(super) use selection_follows_the_rules::SelectionFollowsTheRules;
pub(super) use static_pods_keep_their_addresses::StaticPodsKeepTheirAddresses;
pub(super) use subnet::*;
pub(super) use total_counts_come_right::TotalCountsComeRight;
pub(super) use view::{EMPTY_POD_IPS, EventMask, FORCE_DELETE, Seen, Terms, UNREACHABLE_NODE, View};

/// The excuse of violations that follow only from a change of a record, an endpoint or a finalizer by hand, until the address is recorded
/// anew.
pub(super) const BY_HAND: &str = "edited-by-hand";

/// The excuse of two live sandboxes of one name: the object of the older one is gone although the sandbox lives, because it was deleted by
/// force or its node is dead or partitioned, and its successor has the same addresses by design (A §6.6). It ends when the node must have
/// ended the older one ([`View::may_outlive`]).
pub(super) const FORCED_SUCCESSOR: &str = "forced-successor";

/// The excuse of a sandbox that was answered with the addresses of the next pod of its name: its container runtime passes no UID, its pod
/// was gone by then, and nothing distinguishes the two (K §5.1). It ends when the node must have ended the sandbox ([`View::may_outlive`]).
pub(super) const WITHOUT_UID: &str = "runtime-without-uid";

/// The end of a hazard that concerns a sandbox which outlives its pod's entitlement.
const WITH_THE_SANDBOX: &str = "when its node must have ended the sandbox: the grace of the containers and 5 s after its kubelet was \
    told, or could have been, counted from the start when the kubelet runs again; not while the kubelet is \
    down or paused, an ADD or a DEL of the sandbox is under way, or the node is permanently lost";

/// The documented hazards by which these claims excuse a violation.
pub(crate) const EXCUSES: [Excuse; 6] = [
    Excuse {
        name: UNREACHABLE_NODE,
        about: "an address was reclaimed from a pod that is stuck on an unreachable node, and its sandbox still answers",
        begins: "deletionTimestamp, the grace and the additional delay have passed (DC-4); where the node came back after \
            the pod was asked to end, twice the grace and the delay since then",
        ends: WITH_THE_SANDBOX,
        reference: Some("G EX1"),
    },
    Excuse {
        name: FORCE_DELETE,
        about: "an address was reclaimed from a pod whose object was deleted before its containers ended, by force or with \
            its Node, and its sandbox still answers",
        begins: "the grace that the pod skipped is over, as last known: that of its deletion, else twice that of its \
            containers, with the additional delay; at once if it skipped none, or if the replica started after the \
            object was gone and so knows of no grace",
        ends: WITH_THE_SANDBOX,
        reference: Some("G EX2"),
    },
    Excuse {
        name: EMPTY_POD_IPS,
        about: "an address was reclaimed from a pod that runs and whose status names no address",
        begins: "with the write, if the setting is on and the status names no address then",
        ends: "with the sandbox that answered",
        reference: Some("G EX3"),
    },
    Excuse {
        name: FORCED_SUCCESSOR,
        about: "the next pod of a place, of a StatefulSet or a VM, has the addresses by right while the sandbox of its \
            predecessor still answers, and so has any pod that gets them after it",
        begins: "the object of the predecessor is gone, and the next pod of its place is there, or has been",
        ends: WITH_THE_SANDBOX,
        reference: Some("A §6.6"),
    },
    Excuse {
        name: WITHOUT_UID,
        about: "a container runtime passes no UID, and the sandbox of a pod whose object is gone was answered with the \
            addresses of the next pod of its name on the node",
        begins: "the object of the pod was gone when its sandbox was answered, and another pod of the name was there",
        ends: WITH_THE_SANDBOX,
        reference: Some("K §5.1"),
    },
    Excuse {
        name: BY_HAND,
        about: "an operator has edited a record, an endpoint or a finalizer by hand",
        begins: "with that edit, for the addresses that it touched",
        ends: "when an agent records the address again while nothing answers on it and no endpoint names it",
        reference: None,
    },
];

/// A claim about allocation.
pub(crate) trait IpamClaim: Send {
    /// The kinds of events that it is shown.
    fn event_mask(&self) -> EventMask {
        EventMask::NONE
    }

    /// Observes an event. `view`: for a commit the state after it, for a note the state before it.
    fn observe(&mut self, _seen: &Seen<'_>, _view: &View, _findings: &mut Findings) {}

    /// See [`Claim::overdue`](sim_harness::claim::Claim::overdue). `view`: the state at that time.
    fn overdue(&mut self, _at: SimTime, _view: &View, _findings: &mut Findings) {}

    /// A description of what is still missing, for `eventually` only; `None` = the claim holds now.
    fn pending(&self, _view: &View) -> Option<String> {
        None
    }

    /// Whether to wait, for `eventually` only; see [`Claim::awaits`](sim_harness::claim::Claim::awaits).
    fn awaits(&self, view: &View) -> bool {
        self.pending(view).is_some()
    }
}

/// Reports a violation that is excused if `by_hand`.
fn violated(findings: &mut Findings, by_hand: bool, detail: impl FnOnce() -> Vec<String>) {
    if by_hand { findings.violated_with(BY_HAND, detail) } else { findings.violated(detail) }
}

/// The maximum number of things that a message lists.
const TOLD: usize = 5;

/// A sentence that counts some things and lists the first ones: `1 pod has`, or `3 pods have`; `None` if there are none.
fn told([one, many]: [&str; 2], mut things: Vec<String>) -> Option<String> {
    if things.is_empty() {
        return None;
    }
    things.sort_unstable();
    let more = if things.len() > TOLD { format!(", and {} more", things.len() - TOLD) } else { String::new() };
    let count = human::plural(things.len() as u64, one, many);
    things.truncate(TOLD);
    Some(format!("{count}: {}{more}", things.join(", ")))
}

/// A request that was answered with addresses.
struct Answered<'a> {
    by: ProcessId,
    pod: &'a Arc<str>,
    uid: &'a Arc<str>,
    container: &'a Arc<str>,
    nic: &'a Arc<str>,
    given: &'a [Given],
    how: How,
}

impl<'a> Answered<'a> {
    fn of(seen: &Seen<'a>) -> Option<Self> {
        let Seen::Ipam(by, IpamNote::AddEnded { pod, uid, container, nic, result: Ok(given), how, .. }) = *seen else { return None };
        Some(Self { by, pod, uid, container, nic, given, how: *how })
    }

    /// The request; `None` = its beginning was not seen.
    fn asked<'v>(&self, view: &'v View) -> Option<&'v view::Asked>
    where
        'a: 'v,
    {
        view.agents.asked(self.by, self.uid).find(|asked| asked.container == *self.container && asked.nic == *self.nic)
    }

    /// The moment at which the request began; 0 = it was not seen.
    fn began(&self, view: &View) -> u64 {
        self.asked(view).map_or(0, |asked| asked.began.moment)
    }

    /// Whether an address was being taken from the pod during the request, so that it need not be found in its place. An address that a
    /// replica took counts if the pod's entitlement had ended.
    fn is_taken_back(&self, view: &View, pool: &str, address: IpAddr) -> bool {
        let began = self.began(view);
        let is_taken_from = |uid: &Arc<str>| {
            let reclaimed = view.reclaimed_of(uid, address);
            let releases = view.ledger.releases(uid).iter().filter(|release| release.covers(pool, address));
            reclaimed.is_some_and(|taken| taken.entitled && *taken.pool == *pool && taken.said.moment >= began)
                || releases.into_iter().any(|release| release.said.moment >= began || release.ended.is_none_or(|ended| ended >= began))
        };
        is_taken_from(self.uid) || view.taken_for(self.uid).any(is_taken_from)
    }

    /// Whether another pod legitimately took over what the answer is about during the request. In a live migration the VM's addresses are
    /// recorded under the UID of the pod that asked last (A S10). Otherwise this pod is gone and the next pod of its place took over: it is
    /// served while an answer to this one, which nobody awaits any more, is in flight.
    fn was_handed_on(&self, view: &View, to: &str, moment: u64) -> bool {
        let pod = |uid: &str| view.pods.get(uid);
        let is_succession = || {
            let place = |uid: &str| pod(uid).and_then(|pod| pod.place.as_ref());
            pod(self.uid).is_some_and(|pod| pod.gone) && place(self.uid).is_some_and(|own| place(to) == Some(own))
        };
        (is_migration(view, self.uid, to) || is_succession()) && moment >= self.began(view)
    }

    /// Whether a record for the pod may have this name.
    fn is_name(&self, view: &View, name: &str) -> bool {
        *name == **self.pod || view.pods.get(self.uid).is_some_and(|pod| pod.names().any(|other| **other == *name))
    }
}
