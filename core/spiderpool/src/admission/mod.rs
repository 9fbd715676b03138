//! Admission of pools, subnets and reserved IP objects: defaults and refusals (A §9).
//!
//! ```text
//!   request ──► set_defaults ──► defaulted object ──► check against the live list ──► admitted, or a Denial
//! ```
//! Everything is a pure function of the request, of a [`Live`] list of the existing objects, of the settings and of the policy. [`Webhook`]
//! reads the list through a client and calls these functions; a webhook server is called for the main resources only, never for `/status`
//! (K §8.3). Two requests that are judged at the same time do not see each other, so checks between objects are no guarantee (K124): the
//! agent checks again before it serves a pool.
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

/// The context in which a request is judged.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// The existing objects that the request is compared with.
    pub live: &'a dyn Live,
    /// The cluster's settings that admission uses (A §10).
    pub settings: &'a AdmissionSettings,
    /// The mutations that are on.
    pub policy: &'a Policy,
}

/// A kind with defaults and rules: SpiderIPPool, SpiderSubnet and SpiderReservedIP.
pub trait Admitted: Object {
    /// Fills in the fields that the user left out; a terminating object stays unchanged.
    ///
    /// # Errors
    /// Something cannot be read. The object is incomplete then, and [`check`](Self::check) reports the error (A §9).
    fn set_defaults(&mut self, rules: &Rules<'_>) -> Result<(), RangeError>;

    /// Removes lists without an element, as the stored form has none.
    fn drop_empty_lists(&mut self);

    /// Judges a request whose new object is defaulted.
    ///
    /// # Errors
    /// The broken rules.
    fn check(request: &Request<'_, Self>, rules: &Rules<'_>) -> Result<(), Denial>;

    /// Judges the creation of this object, as a user wrote it, and reports every broken rule, where a webhook stops at the first. Lists
    /// stay as they are written: `spec.ips[1]` is the second entry in the manifest, which merging could move. (Not with `upstream-ranges`,
    /// where unmerged lists are judged differently.)
    ///
    /// The object is refused exactly if a webhook refuses it.
    ///
    /// # Errors
    /// The broken rules; if the name is taken, only that.
    fn audit(&self, rules: &Rules<'_>) -> Result<(), Denial>;
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict<K> {
    /// The object with its defaults, even if it is refused; `None` for a deletion.
    pub defaulted: Option<Arc<K>>,
    /// The reason for a refusal; `None` if the request is admitted.
    pub denial: Option<Denial>,
}

/// The new object with its defaults; `None` for a deletion.
pub fn mutate<K: Admitted>(request: &Request<'_, K>, rules: &Rules<'_>) -> Option<Arc<K>> {
    let mut new = request.object()?.clone();
    let object = Arc::make_mut(&mut new);
    // Unreadable fields are reported by the check that follows.
    let _ = object.set_defaults(rules);
    object.drop_empty_lists();
    Some(new)
}

/// Fills in the defaults and judges the result: both webhooks, one after the other, on one list of the existing objects.
pub fn review<K: Admitted>(request: &Request<'_, K>, live: &impl Live, settings: &AdmissionSettings, policy: &Policy) -> Verdict<K> {
    let rules = Rules { live, settings, policy };
    let defaulted = mutate(request, &rules);
    let denial = K::check(&request.with_new(defaulted.as_ref()), &rules).err();
    Verdict { defaulted, denial }
}
