//! Admission of pools (A §9.1).

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::addresses::{Addresses, Checked, check_unchanged, default_family, merge};
use super::affinity::{check_auto, check_ordinary};
use super::denial::unless_empty;
use super::findings::Findings;
use super::in_use::{check_records, check_set_aside, check_within_subnet};
use super::{Admitted, Denial, Request, Rules, Violation, empty, upstream};
use crate::address_set::AddressSet;
use crate::finalizer;
use crate::names::{GROUP, LABEL_IPPOOL_CIDR, LABEL_OWNER_SUBNET, LABEL_SUBNET_CIDR};
use crate::owner_label::label_for;
use crate::ranges::{Cidr, RangeError};
use crate::select::is_auto_pool;
use crate::subnet::owner;
use crate::{SpiderIPPool, SpiderSubnet};
use kube_machinery::controller_of;

impl Admitted for SpiderIPPool {
    fn set_defaults(&mut self, rules: &Rules<'_>) -> Result<(), RangeError> {
        if self.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        finalizer::put_on(&mut self.metadata);
        let (version, label) = default_family(&mut self.spec.ip_version, &self.spec.subnet, rules.policy)?;
        if rules.settings.enable_spider_subnet && !self.join_subnet(&label, rules) {
            set_label(&mut self.metadata, LABEL_IPPOOL_CIDR, label);
            return Ok(());
        }
        set_label(&mut self.metadata, LABEL_IPPOOL_CIDR, label);
        merge(&mut self.spec.ips, version, rules.policy)?;
        merge(&mut self.spec.exclude_ips, version, rules.policy)
    }

    fn drop_empty_lists(&mut self) {
        empty::drop_from_pool(&mut self.spec);
    }

    fn check(request: &Request<'_, Self>, rules: &Rules<'_>) -> Result<(), Denial> {
        match *request {
            Request::Create(new) => check_create(new, rules, &mut Findings::first()),
            Request::Update { old, new } => check_update(old, new, rules),
            Request::Delete(old) => {
                let status = old.status.as_ref();
                let recorded = status.is_some_and(|status| !status.allocated_ips.is_absent()) && !rules.policy.delete_trusts_count;
                let counted = status.and_then(|status| status.allocated_ip_count).unwrap_or(0) > 0;
                if rules.settings.enable_delete_check && (recorded || counted) {
                    return Err(Denial::Forbidden("pods have addresses of the pool".to_owned()));
                }
                Ok(())
            }
        }
    }

    fn audit(&self, rules: &Rules<'_>) -> Result<(), Denial> {
        let mut new = self.clone();
        // Unreadable fields are reported by the rules.
        let _ = new.set_defaults(rules);
        if !rules.policy.upstream_ranges {
            new.spec.ips.clone_from(&self.spec.ips);
            new.spec.exclude_ips.clone_from(&self.spec.exclude_ips);
        }
        Findings::all(|findings| check_create(&new, rules, findings))
    }
}

impl SpiderIPPool {
    /// Makes the subnet of the same CIDR the owner, and inherits the fields that are left out; returns whether that succeeded. Fields that
    /// the pool already has stay, and a pool that has its owner is not processed again (A §14.16).
    fn join_subnet(&mut self, cidr: &str, rules: &Rules<'_>) -> bool {
        let controller = controller_of(&self.metadata);
        let label = self.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL_OWNER_SUBNET));
        if controller.is_some_and(|controller| label.is_some_and(|label| **label == *label_for(&controller.name, rules.policy))) {
            return true;
        }
        let is_of_cidr = |subnet: &&Arc<SpiderSubnet>| {
            let labels = subnet.metadata.labels.as_ref();
            labels.and_then(|labels| labels.get(LABEL_SUBNET_CIDR)).is_some_and(|label| label == cidr)
        };
        let Some(subnet) = rules.live.subnets_for_defaults().iter().find(is_of_cidr) else { return true };
        let reference = owner(subnet);
        if controller.is_some_and(|controller| !is_same(controller, &reference)) {
            return false;
        }
        set_label(&mut self.metadata, LABEL_OWNER_SUBNET, label_for(&reference.name, rules.policy).into_owned());
        own(&mut self.metadata, reference);
        self.spec.gateway = self.spec.gateway.take().or_else(|| subnet.spec.gateway.clone());
        self.spec.routes = self.spec.routes.take().or_else(|| subnet.spec.routes.clone());
        true
    }
}

/// Makes a subnet the owner that controls an object; a reference to an earlier one of its name is replaced.
fn own(meta: &mut ObjectMeta, reference: OwnerReference) {
    let owners = meta.owner_references.get_or_insert_default();
    match owners.iter_mut().find(|owner| is_same(owner, &reference)) {
        Some(owner) => *owner = reference,
        None => owners.push(reference),
    }
}

/// Whether two references name the same subnet. As for Kubernetes' own controllers, neither version nor UID matters.
fn is_same(owner: &OwnerReference, subnet: &OwnerReference) -> bool {
    owner.kind == subnet.kind && owner.name == subnet.name && owner.api_version.split('/').next() == Some(GROUP)
}

/// Sets a label, whatever value it had.
pub(super) fn set_label(meta: &mut ObjectMeta, key: &str, value: String) {
    meta.labels.get_or_insert_default().insert(key.to_owned(), value);
}

/// Checks whether an object that is being deleted may be updated: only to remove finalizers.
///
/// Upstream refuses every update that leaves its own finalizer. Hardened, an update that leaves the spec unchanged is admitted, because
/// others remove their finalizers in this way, and labels and annotations are harmless.
pub(super) fn check_terminating(meta: &ObjectMeta, same_spec: bool, rules: &Rules<'_>) -> Result<(), Denial> {
    let held = finalizer::is_on(meta);
    if !held || same_spec && !rules.policy.terminating_update_refused {
        return Ok(());
    }
    Err(Denial::Forbidden("the object is being deleted; only its finalizer may go".to_owned()))
}

fn check_create(new: &SpiderIPPool, rules: &Rules<'_>, findings: &mut Findings) -> Result<(), Denial> {
    let checked = Checked::new(Addresses::from(&new.spec), rules, findings)?;
    let cidr = checked.cidr(findings)?;
    findings.note_all(check_cidrs(new, &cidr, checked.version, rules))?;
    let mut violations = Vec::new();
    violations.extend(check_spec(&checked, None, new, rules, findings).err());
    check_affinity(new, &mut violations);
    findings.note_all(unless_empty(violations))?;
    if rules.settings.enable_spider_subnet { findings.note_all(check_within_subnet(None, new, rules)) } else { Ok(()) }
}

fn check_update(old: &SpiderIPPool, new: &SpiderIPPool, rules: &Rules<'_>) -> Result<(), Denial> {
    if new.metadata.deletion_timestamp.is_some() {
        return check_terminating(&new.metadata, old.spec == new.spec, rules);
    }
    let (before, after) = (Addresses::from(&old.spec), Addresses::from(&new.spec));
    check_unchanged(&before, &after)?;
    if rules.policy.update_judged_whole {
        return check_update_whole(old, new, after, rules);
    }
    let mut violations = Vec::new();
    if before != after {
        let mut findings = Findings::first();
        let checked = Checked::new(after, rules, &mut findings)?;
        violations.extend(check_spec(&checked, Some(old), new, rules, &mut findings).err());
    }
    if old.spec.pod_affinity != new.spec.pod_affinity || is_auto_pool(old) != is_auto_pool(new) {
        check_affinity(new, &mut violations);
    }
    check_use(old, new, rules, violations)
}

/// Upstream's form of [`check_update`] (`update-judged-whole`): everything is judged, whatever changes, and each group of rules is reported
/// only if those before it are kept.
fn check_update_whole(old: &SpiderIPPool, new: &SpiderIPPool, after: Addresses<'_>, rules: &Rules<'_>) -> Result<(), Denial> {
    let mut findings = Findings::first();
    let checked = Checked::new(after, rules, &mut findings)?;
    let mut violations: Vec<Violation> = check_spec(&checked, None, new, rules, &mut findings).err().into_iter().collect();
    if violations.is_empty() {
        check_affinity(new, &mut violations);
    }
    if !violations.is_empty() {
        return Err(Denial::Invalid(violations));
    }
    check_use(old, new, rules, violations)
}

/// The rules for addresses in use, after the violations found so far.
fn check_use(old: &SpiderIPPool, new: &SpiderIPPool, rules: &Rules<'_>, mut violations: Vec<Violation>) -> Result<(), Denial> {
    let whole = rules.policy.update_judged_whole;
    let kept = if whole { upstream::check_records(new, rules) } else { check_records(old, new, rules) };
    violations.extend(kept.err());
    unless_empty(violations)?;
    if rules.settings.enable_spider_subnet { check_within_subnet(Some(old), new, rules) } else { Ok(()) }
}

fn check_affinity(pool: &SpiderIPPool, violations: &mut Vec<Violation>) {
    match &pool.spec.pod_affinity {
        Some(affinity) if is_auto_pool(pool) => check_auto(affinity, violations),
        Some(affinity) => check_ordinary(affinity, violations),
        None => {}
    }
}

/// Checks that the name is free, and that the CIDR equals that of each other pool or shares nothing with it.
fn check_cidrs(new: &SpiderIPPool, cidr: &Cidr, version: i64, rules: &Rules<'_>) -> Result<(), Denial> {
    for other in rules.live.pools() {
        let same_family = other.spec.ip_version == Some(version);
        if (same_family || !rules.policy.upstream_ranges) && other.metadata.name == new.metadata.name {
            return Err(Denial::AlreadyExists);
        }
        if !same_family || other.spec.subnet == new.spec.subnet {
            continue;
        }
        if Cidr::parse_version(&other.spec.subnet, version, rules.policy).is_ok_and(|other| other.overlaps(cidr, rules.policy)) {
            let (name, subnet) = (other.metadata.name.as_deref().unwrap_or_default(), &other.spec.subnet);
            let message = format_args!("overlaps {subnet} of pool {name}; pools have the same CIDR or CIDRs apart");
            return Err(Violation::invalid("spec.subnet", message).into());
        }
    }
    Ok(())
}

/// Checks ranges, overlap with other pools, gateway and routes.
fn check_spec(
    checked: &Checked<'_>,
    old: Option<&SpiderIPPool>,
    new: &SpiderIPPool,
    rules: &Rules<'_>,
    findings: &mut Findings,
) -> Result<(), Violation> {
    if rules.policy.upstream_ranges {
        findings.note(upstream::check_overlap(checked, new, rules))?;
    } else {
        checked.check_ranges(findings)?;
        findings.note(check_overlap(old, new, rules))?;
    }
    findings.note(checked.check_gateway())?;
    checked.check_routes(findings)
}

/// Checks that no other pool has one of the addresses that the request adds.
fn check_overlap(old: Option<&SpiderIPPool>, new: &SpiderIPPool, rules: &Rules<'_>) -> Result<(), Violation> {
    let mut added = AddressSet::of_pool(&new.spec, rules.policy).0;
    if let Some(old) = old {
        added = added.difference(&AddressSet::of_pool(&old.spec, rules.policy).0);
    }
    if added.is_empty() {
        return Ok(());
    }
    for other in rules.live.pools() {
        if other.spec.ip_version != new.spec.ip_version || other.metadata.name == new.metadata.name {
            continue;
        }
        if let Some(range) = rules.live.shared_addresses(&added, other, rules.policy) {
            let name = other.metadata.name.as_deref().unwrap_or_default();
            return Err(Violation::forbidden("spec.ips", format_args!("{range} is in pool {name} already")));
        }
    }
    check_set_aside(&added, new, rules)
}
