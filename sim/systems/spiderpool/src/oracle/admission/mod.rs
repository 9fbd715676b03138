//! A second implementation of admission: its answers to a write, and the defaults that it fills in (A §9 with the corrections of A §14.16
//! to §14.19, hardened as in D §1.2), with which the answers of webhooks are checked.
//!
//! | module | holds |
//! |---|---|
//! | `pool`, `subnet`, `reserved_ip` | the rules of each kind (A §9.1 to §9.3) |
//! | `block`, `held` | the common part of pools and subnets: a CIDR, ranges, a gateway, routes |
//! | `selector` | the affinity of a pool |
//! | `defaults`, `stored` | the mutating webhooks, and the form in which objects are stored |
//!
//! Nothing here calls the code under test. Only texts of ranges and CIDRs are left to [`ipam_spiderpool::ranges`], which is tested against
//! recorded answers. A webhook stops at the first rule that is broken; here all are listed, each with every field and fault that would be a
//! correct report of it.
//!
//! An update is judged by its changes (`update-judged-whole` is off): rules about unchanged fields are not applied, and only added or
//! removed addresses count.

mod block;
mod defaults;
mod held;
mod pool;
mod reserved_ip;
mod selector;
mod stored;
mod subnet;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::BTreeSet;

use ipam_spiderpool::admission::{AdmissionSettings, Fault};
use ipam_spiderpool::names::FINALIZER;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use defaults::{pool_defaults, reserved_ip_defaults, subnet_defaults};
pub use held::HeldByPools;
pub use pool::pool;
pub use reserved_ip::reserved_ip;
pub use subnet::subnet;

/// The ruling of the rules on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// No rule is broken.
    Admitted,
    /// The name is taken.
    AlreadyExists,
    /// The object may not be written or deleted, whatever its content.
    Forbidden,
    /// Every rule that is broken, as far as it can be judged.
    Invalid(BTreeSet<Broken>),
}

/// A broken rule, as a webhook reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The path of the field, such as `spec.ips[1]`.
    pub field: String,
    /// The kind of error in the field.
    pub fault: Fault,
}

impl Ord for Broken {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.field, self.fault as u8).cmp(&(&other.field, other.fault as u8))
    }
}

impl PartialOrd for Broken {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The rules that were found broken.
#[derive(Debug, Default)]
struct Found(BTreeSet<Broken>);

impl Found {
    fn add(&mut self, field: impl Into<String>, fault: Fault) {
        self.0.insert(Broken { field: field.into(), fault });
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn ruling(self) -> Ruling {
        if self.0.is_empty() { Ruling::Admitted } else { Ruling::Invalid(self.0) }
    }
}

/// Requires an IP version of 4 or 6 whose family is enabled, and that it never changes once set. `old`: the version of the stored object,
/// if there is one.
fn judge_version(new: Option<i64>, old: Option<Option<i64>>, settings: &AdmissionSettings, found: &mut Found) {
    if old == Some(new) {
        return;
    }
    if old.flatten().is_some() {
        found.add("spec.ipVersion", Fault::Forbidden);
    }
    match new {
        Some(4) if settings.enable_ipv4 => {}
        Some(6) if settings.enable_ipv6 => {}
        Some(4 | 6) => found.add("spec.ipVersion", Fault::Forbidden),
        Some(_) => found.add("spec.ipVersion", Fault::NotSupported),
        None => found.add("spec.ipVersion", Fault::Invalid),
    }
}

/// The ruling on an update of a pool or a subnet that is being deleted: the spec must stay or Spiderpool's finalizer must go; no other rule
/// applies (A §9.1, `terminating-update-refused` off). `None`: the object is not being deleted.
fn ruling_of_terminating(new: &ObjectMeta, spec_stays: bool) -> Option<Ruling> {
    new.deletion_timestamp.as_ref()?;
    let is_held = new.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER);
    Some(if spec_stays || !is_held { Ruling::Admitted } else { Ruling::Forbidden })
}

/// The ruling on a deletion: refused only if deletions are guarded and the object is in use (A §9.1, `delete-trusts-count` off).
fn ruling_of_deletion(settings: &AdmissionSettings, is_in_use: bool) -> Ruling {
    if settings.enable_delete_check && is_in_use { Ruling::Forbidden } else { Ruling::Admitted }
}
