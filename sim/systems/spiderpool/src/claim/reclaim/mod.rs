//! Claims about reclaim: G GS1 to GS10, GL1 to GL11, and coverage claims that keep its scenarios meaningful.
//!
//! The ground truth is the addresses that sandboxes answer on, and the store; notes of replicas only tell what they are about to do. A
//! pod's entitlement to its addresses is derived again from the store at the moment of the write (`view/entitlement.rs`).

mod all_addresses_are_accounted_for;
mod coverage;
mod due;
mod emptied_pools_go_in_time;
mod endpoints_go_in_time;
mod endpoints_of_live_pods_are_left_alone;
mod ex_leaders_stop;
mod leaders_begin_at_once;
mod leak;
mod live_pods_are_not_reclaimed;
mod live_sandboxes_keep_their_records;
mod no_endpoint_outlives_its_pod;
mod only_leaders_trace;
mod places_keep_their_records;
mod reclaim_goes_on;
mod reclaim_removes_what_it_announced;
mod reclaimed_in_time;
mod records_of_gone_pods_disappear;
mod repeated_reclaim_changes_nothing;
mod switched_off_nodes_are_left_alone;
mod switched_off_reclaim_stands_still;

use ipam_spiderpool::SpiderEndpoint;
use ipam_spiderpool::names::FINALIZER;

use super::view::{Announced, EMPTY_POD_IPS, EndpointChange, View};
use super::{BY_HAND, Findings};

pub(crate) use all_addresses_are_accounted_for::AllAddressesAreAccountedFor;
pub(crate) use coverage::{
    AMarkedEndpointIsFinishedByAnother, ATombstoneIsSeen, LeadershipOfReclaimChangesHands, ReclaimCoverage, TheApiServerRefusesARelease,
};
pub(crate) use emptied_pools_go_in_time::EmptiedPoolsGoInTime;
pub(crate) use endpoints_go_in_time::{EndpointCase, EndpointsGoInTime};
pub(crate) use endpoints_of_live_pods_are_left_alone::EndpointsOfLivePodsAreLeftAlone;
pub(crate) use ex_leaders_stop::ExLeadersStop;
pub(crate) use leaders_begin_at_once::LeadersBeginAtOnce;
pub(crate) use live_pods_are_not_reclaimed::LivePodsAreNotReclaimed;
pub(crate) use live_sandboxes_keep_their_records::LiveSandboxesKeepTheirRecords;
pub(crate) use no_endpoint_outlives_its_pod::NoEndpointOutlivesItsPod;
pub(crate) use only_leaders_trace::OnlyLeadersTrace;
pub(crate) use places_keep_their_records::PlacesKeepTheirRecords;
pub(crate) use reclaim_goes_on::ReclaimGoesOn;
pub(crate) use reclaim_removes_what_it_announced::ReclaimRemovesWhatItAnnounced;
pub(crate) use reclaimed_in_time::{ReclaimCase, ReclaimedInTime};
pub(crate) use records_of_gone_pods_disappear::RecordsOfGonePodsDisappear;
pub(crate) use repeated_reclaim_changes_nothing::RepeatedReclaimChangesNothing;
pub(crate) use switched_off_nodes_are_left_alone::SwitchedOffNodesAreLeftAlone;
pub(crate) use switched_off_reclaim_stands_still::SwitchedOffReclaimStandsStill;

/// Reports a violation with the first excuse that applies.
fn violated(findings: &mut Findings, excuse: Option<&'static str>, by_hand: bool, detail: impl FnOnce() -> Vec<String>) {
    match excuse.or(by_hand.then_some(BY_HAND)) {
        Some(excuse) => findings.violated_with(excuse, detail),
        None => findings.violated(detail),
    }
}

/// The excuse of a running pod that loses its addresses because its status names none.
fn without_ips(view: &View, uid: &str, announced: Option<&Announced>) -> Option<&'static str> {
    view.runs_without_ips(uid, announced).then_some(EMPTY_POD_IPS)
}

fn is_marked(endpoint: &SpiderEndpoint) -> bool {
    endpoint.metadata.deletion_timestamp.is_some()
}

fn has_finalizer(endpoint: &SpiderEndpoint) -> bool {
    endpoint.metadata.finalizers.iter().flatten().any(|name| name == FINALIZER)
}

/// The effect of a write that ends an endpoint; `None` if the endpoint goes on.
fn ends(change: &EndpointChange) -> Option<&'static str> {
    let before = change.before.as_ref()?;
    match &change.after {
        None => Some("is gone"),
        Some(after) if is_marked(after) && !is_marked(before) => Some("is marked"),
        Some(after) if has_finalizer(before) && !has_finalizer(after) => Some("loses its finalizer"),
        Some(_) => None,
    }
}
