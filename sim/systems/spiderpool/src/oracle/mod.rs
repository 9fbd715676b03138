//! Which pools a pod draws from, read out of the rules once more (A §2 to §4 with the corrections of A §14, hardened as in D §1.2):
//! for whoever wants to know whether a selection is right.
//!
//! ```text
//!  cluster, request ──► wishes: tier, names ──► rules: a reason each ──► Answer ──┐
//!  selection of the system under test ────────────────────────────────────────────┴──► Opinion
//! ```
//!
//! Nothing here calls what it judges: annotations, tiers, rules, ranks and capacity are read anew, as plainly as they are told.
//! Texts of ranges and CIDRs are left to [`ipam_spiderpool::ranges`], which has recorded answers of its own. Claims
//! ask at the moment of the decision, on the state that was decided on; text is made only of what differs.
//!
//! [`admission`] does the same for what webhooks say of a write.

pub mod admission;
mod answer;
mod capacity;
mod labels;
mod network;
mod pattern;
mod reuse;
mod subnets;
mod text;
mod wishes;

use std::cell::OnceCell;
use std::sync::Arc;

use ipam_spiderpool::Policy;
use ipam_spiderpool::ranges::IpSet;
use ipam_spiderpool::select::{Cluster, Request, Selection, TopController};

pub use answer::{Answer, Candidate, Family, Nic};
pub use reuse::refused;

/// What an independent reading of the rules says of a choice of pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opinion {
    /// The same pools in the same order.
    Agrees,
    /// The same pools, but within a rank, or among ranks, another order.
    OtherOrder(Arc<str>),
    /// Other pools, other reasons, or another error.
    Differs(Arc<str>),
}

/// What the hardened rules say of a selection, whatever the deviations of the run. Only with `capacity-not-filtered` it is no fault that a
/// pool without a free address stays a candidate: it is found out when it is asked.
pub fn opinion(cluster: &dyn Cluster, request: &Request<'_>, controller: &TopController, selection: &Selection) -> Opinion {
    let mut answer = answer(cluster, request, controller, &Policy::hardened());
    if request.policy.capacity_not_filtered {
        answer.forgive_capacity(selection);
    }
    match answer.difference(selection) {
        None => Opinion::Agrees,
        Some((true, why)) => Opinion::OtherOrder(Arc::from(why)),
        Some((false, why)) => Opinion::Differs(Arc::from(why)),
    }
}

/// What the rules say for a live pod whose top controller is known. `policy` may have the switches that change the rules themselves:
/// `wildcard-duplicates-fail`, `capacity-not-filtered`, `multus-always-resolved` and `outdated-keys-ignored`.
pub fn answer(cluster: &dyn Cluster, request: &Request<'_>, controller: &TopController, policy: &Policy) -> Answer {
    let asked = Asked { cluster, request, controller, policy, reserved: [const { OnceCell::new() }; 2] };
    let mut answer = asked.wishes();
    if answer.early.is_none() {
        asked.judge(&mut answer);
    }
    answer
}

/// What is asked.
struct Asked<'a> {
    cluster: &'a dyn Cluster,
    request: &'a Request<'a>,
    controller: &'a TopController,
    policy: &'a Policy,
    /// The reserved addresses of both families, once somebody has asked for them.
    reserved: [OnceCell<IpSet>; 2],
}
