//! Claims about reclaim: G GS1 to GS10, GL1 to GL11, and what keeps scenarios about it honest.
//!
//! The truth is what sandboxes answer on and what the store holds; what replicas of the controller say only tells what they are about
//! to do. Whether a pod has a right to its addresses is read once more from the store at the moment of the write (`view/rights.rs`).

mod announced;
mod due;
mod endpoints;
mod gone;
mod in_time;
mod kept;
mod leaders;
mod leak;
mod live_sandboxes;
mod living;
mod orphans;
mod pools;
mod quiet;
mod repeated;
mod sights;
mod switches;
mod wedge;

use ipam_spiderpool::SpiderEndpoint;
use ipam_spiderpool::names::FINALIZER;

use super::view::{EMPTY_POD_IPS, EndpointChange, View};
use super::{BY_HAND, Findings};

pub(crate) use announced::AnnouncedOnly;
pub(crate) use endpoints::LiveEndpointsStay;
pub(crate) use gone::{EndpointsGoAtLast, RecordsGo};
pub(crate) use in_time::{InTime, Way};
pub(crate) use kept::PlacesKeepRecords;
pub(crate) use leaders::{ExLeadersStop, LeadersBegin};
pub(crate) use live_sandboxes::LiveSandboxesKeepRecords;
pub(crate) use living::LivingKeepRecords;
pub(crate) use orphans::{EndpointsGoInTime, Of};
pub(crate) use pools::PoolsGoInTime;
pub(crate) use quiet::AllIsAccountedFor;
pub(crate) use repeated::RepetitionChangesNothing;
pub(crate) use sights::{AnotherLeads, FinishedByAnother, RefusedByApi, Removal, TombstoneSeen};
pub(crate) use switches::SwitchesAreObeyed;
pub(crate) use wedge::GoesOn;

/// Reports a violation with the first excuse there is.
fn violated(findings: &mut Findings, excuse: Option<&'static str>, by_hand: bool, detail: impl FnOnce() -> Vec<String>) {
    match excuse.or(by_hand.then_some(BY_HAND)) {
        Some(excuse) => findings.violated_with(excuse, detail),
        None => findings.violated(detail),
    }
}

/// The excuse of a running pod that loses what it has because its status names no address.
fn without_ips(view: &View, uid: &str) -> Option<&'static str> {
    view.runs_without_ips(uid).then_some(EMPTY_POD_IPS)
}

fn is_marked(endpoint: &SpiderEndpoint) -> bool {
    endpoint.metadata.deletion_timestamp.is_some()
}

fn has_finalizer(endpoint: &SpiderEndpoint) -> bool {
    endpoint.metadata.finalizers.iter().flatten().any(|name| name == FINALIZER)
}

/// What a write does to an endpoint that ends it; none if it goes on.
fn ends(change: &EndpointChange) -> Option<&'static str> {
    let before = change.before.as_ref()?;
    match &change.after {
        None => Some("is gone"),
        Some(after) if is_marked(after) && !is_marked(before) => Some("is marked"),
        Some(after) if has_finalizer(before) && !has_finalizer(after) => Some("loses its finalizer"),
        Some(_) => None,
    }
}
