//! A second implementation of the rules by which a pod's pools are chosen (A §2 to §4 with the corrections of A §14, hardened as in D
//! §1.2), with which a selection is checked.
//!
//! ```text
//!  cluster, request ──► wishes: tier, names ──► rules: a reason each ──► Answer ──┐
//!  selection of the system under test ────────────────────────────────────────────┴──► Opinion
//! ```
//!
//! Nothing here calls the code under test: annotations, tiers, rules, ranks and capacity are implemented again, as literally as the rules
//! are written. Only texts of ranges and CIDRs are left to [`ipam_spiderpool::ranges`], which is tested against recorded answers. Claims
//! ask at the moment of the decision, with the state that it was based on; text is made only for differences.
//!
//! [`admission`] does the same for the webhooks' answers to a write.

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

/// The verdict of an independent implementation of the rules on a choice of pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opinion {
    /// The same pools in the same order.
    Agrees,
    /// The same pools in another order, within a rank or among ranks.
    OtherOrder(Arc<str>),
    /// Other pools, other reasons, or another error.
    Differs(Arc<str>),
}

/// Judges a selection by the hardened rules, whatever the mutations of the run. Only under `capacity-not-filtered` may a pool without a
/// free address stay a candidate: it turns out to be full when it is asked.
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

/// The answer of the rules for a live pod whose top controller is known. `policy` may have the switches that change the rules themselves:
/// `wildcard-duplicates-fail`, `capacity-not-filtered`, `multus-always-resolved` and `outdated-keys-ignored`.
pub fn answer(cluster: &dyn Cluster, request: &Request<'_>, controller: &TopController, policy: &Policy) -> Answer {
    let asked = Asked { cluster, request, controller, policy, reserved: [const { OnceCell::new() }; 2] };
    let mut answer = asked.wishes();
    if answer.early.is_none() {
        asked.judge(&mut answer);
    }
    answer
}

/// A request with everything that the rules look at.
struct Asked<'a> {
    cluster: &'a dyn Cluster,
    request: &'a Request<'a>,
    controller: &'a TopController,
    policy: &'a Policy,
    /// The reserved addresses of each family, once they have been read.
    reserved: [OnceCell<IpSet>; 2],
}
