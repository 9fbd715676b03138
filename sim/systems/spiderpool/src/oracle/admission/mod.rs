//! What admission says of a write, and what it fills in, read out of the rules once more (A §9 with the corrections of A §14.16 to
//! §14.19, hardened as in D §1.2): for whoever wants to know whether a webhook was right.
//!
//! | module | holds |
//! |---|---|
//! | `pool`, `subnet`, `reserved_ip` | the rules of each kind (A §9.1 to §9.3) |
//! | `block`, `held` | what pools and subnets have in common: a CIDR, ranges, a gateway, routes |
//! | `selector` | the affinity of a pool |
//! | `defaults`, `stored` | the mutating webhooks, and the form in which objects are stored |
//!
//! Nothing here calls what it judges. Texts of ranges and CIDRs are left to [`ipam_spiderpool::ranges`], which has recorded answers of its
//! own. A webhook stops at the first rule that is broken; here all are named, each with every field and fault that would do for it.
//!
//! An update is judged by what it changes (`update-judged-whole` is off): a rule about fields that stay as they were is not asked, and of
//! addresses only those count that come or go.

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

/// What the rules say of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// No rule is broken.
    Admitted,
    /// The name is taken.
    AlreadyExists,
    /// The object may not be written, or not be deleted, whatever is in it.
    Forbidden,
    /// Every rule that is broken, as far as it can be judged.
    Invalid(BTreeSet<Broken>),
}

/// A rule that is broken, by what a webhook says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The path of the field, such as `spec.ips[1]`.
    pub field: String,
    /// What is wrong with it.
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

/// The IP version is 4 or 6, of a family that is on, and never changes once it is set. `old`: that of the stored object, if there is one.
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

/// The update of a pool or a subnet that is being deleted: its spec stays, or Spiderpool's finalizer goes, and nothing else is asked (A
/// §9.1, `terminating-update-refused` off). `None`: it is not being deleted.
fn ruling_of_terminating(new: &ObjectMeta, spec_stays: bool) -> Option<Ruling> {
    new.deletion_timestamp.as_ref()?;
    let is_held = new.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER);
    Some(if spec_stays || !is_held { Ruling::Admitted } else { Ruling::Forbidden })
}

/// The deletion of an object: only where that is guarded, only if it is in use (A §9.1, `delete-trusts-count` off).
fn ruling_of_deletion(settings: &AdmissionSettings, is_in_use: bool) -> Ruling {
    if settings.enable_delete_check && is_in_use { Ruling::Forbidden } else { Ruling::Admitted }
}
