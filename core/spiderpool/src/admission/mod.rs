//! Admission of pools, subnets and reserved IP objects: what is filled in, and what is refused (A §9).
//!
//! ```text
//!   request ──► set_defaults ──► defaulted object ──► check against the live list ──► admitted, or a Denial
//! ```
//! Everything is a pure function of the request, of a [`Live`] list of what exists, of the settings and of the policy.
//! [`Webhook`] reads the list through a client and asks these functions; a webhook server is called for the main resources only,
//! never for `/status` (K §8.3). Two requests that are judged at the same time do not see each other, so what is checked here
//! between objects is no promise (K124): the agent looks once more before it serves a pool.
//!
//! A request costs one look at each existing object. Ranges are compared as intervals, never address by address.

mod addresses;
mod affinity;
mod denial;
mod empty;
mod findings;
mod in_use;
mod live;
mod pool;
mod request;
mod reserved_ip;
mod settings;
mod subnet;
#[cfg(test)]
mod tests;
mod upstream;
mod webhook;

use std::sync::Arc;

pub use denial::{Denial, Fault, Violation};
pub use live::{Listed, Live};
pub use request::{Operation, Request};
pub use settings::AdmissionSettings;
pub use webhook::Webhook;

use super::Policy;
use super::ranges::RangeError;
use kube_machinery::api::Object;

/// By what a request is judged.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// The existing objects that the request is compared with.
    pub live: &'a dyn Live,
    /// The cluster's settings that admission looks at (A §10).
    pub settings: &'a AdmissionSettings,
    /// What is done differently.
    pub policy: &'a Policy,
}

/// A kind with defaults and rules: SpiderIPPool, SpiderSubnet and SpiderReservedIP.
pub trait Admitted: Object {
    /// Fills in what the user left out; an object that is terminating stays as it is.
    ///
    /// # Errors
    /// Something cannot be read. The object is half done then, and [`check`](Self::check) says what is wrong (A §9).
    fn set_defaults(&mut self, rules: &Rules<'_>) -> Result<(), RangeError>;

    /// Leaves out lists without an element, as the stored form has none.
    fn drop_empty_lists(&mut self);

    /// Judges a request whose new object is defaulted.
    ///
    /// # Errors
    /// Which rules it breaks.
    fn check(request: &Request<'_, Self>, rules: &Rules<'_>) -> Result<(), Denial>;

    /// Judges the creation of this object, as a user wrote it, and tells every rule that it breaks, where a webhook stops at the first.
    /// Lists stay as they are written: `spec.ips[1]` is the second entry in the manifest, which merging could put elsewhere. (Not with
    /// `upstream-ranges`, where what is not merged is judged in another way.)
    ///
    /// The object is refused exactly if a webhook refuses it.
    ///
    /// # Errors
    /// Which rules it breaks; of a name that is taken only that.
    fn audit(&self, rules: &Rules<'_>) -> Result<(), Denial>;
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict<K> {
    /// The object with its defaults, also if it is refused; nothing for a deletion.
    pub defaulted: Option<Arc<K>>,
    /// Why it is refused; nothing if it is admitted.
    pub denial: Option<Denial>,
}

/// The new object with its defaults; nothing for a deletion.
pub fn mutate<K: Admitted>(request: &Request<'_, K>, rules: &Rules<'_>) -> Option<Arc<K>> {
    let mut new = request.object()?.clone();
    let object = Arc::make_mut(&mut new);
    // What cannot be read is told by the check that follows.
    let _ = object.set_defaults(rules);
    object.drop_empty_lists();
    Some(new)
}

/// Fills in the defaults and judges the outcome: both webhooks, one after the other, with one look at what exists.
pub fn review<K: Admitted>(request: &Request<'_, K>, live: &impl Live, settings: &AdmissionSettings, policy: &Policy) -> Verdict<K> {
    let rules = Rules { live, settings, policy };
    let defaulted = mutate(request, &rules);
    let denial = K::check(&request.with_new(defaulted.as_ref()), &rules).err();
    Verdict { defaulted, denial }
}
