//! Admission of subnets (A §9.2).

use super::addresses::{Addresses, Checked, check_unchanged, default_family, merge};
use super::findings::Findings;
use super::in_use::{check_pre_allocations, total_of};
use super::pool::{check_terminating, set_label};
use super::{Admitted, Denial, Request, Rules, Violation, empty, upstream};
use crate::SpiderSubnet;
use crate::finalizer;
use crate::names::LABEL_SUBNET_CIDR;
use crate::ranges::{Cidr, RangeError};

impl Admitted for SpiderSubnet {
    fn set_defaults(&mut self, rules: &Rules<'_>) -> Result<(), RangeError> {
        if self.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        finalizer::put_on(&mut self.metadata);
        let (version, label) = default_family(&mut self.spec.ip_version, &self.spec.subnet, rules.policy)?;
        set_label(&mut self.metadata, LABEL_SUBNET_CIDR, label);
        merge(&mut self.spec.ips, version, rules.policy)?;
        merge(&mut self.spec.exclude_ips, version, rules.policy)
    }

    fn drop_empty_lists(&mut self) {
        empty::drop_from_subnet(&mut self.spec);
    }

    fn check(request: &Request<'_, Self>, rules: &Rules<'_>) -> Result<(), Denial> {
        match *request {
            Request::Create(new) => check_create(new, rules, &mut Findings::first()),
            Request::Update { old, new } => check_update(old, new, rules),
            Request::Delete(old) => {
                let counted = old.status.as_ref().and_then(|status| status.allocated_ip_count).unwrap_or(0) > 0;
                if rules.settings.enable_delete_check && counted {
                    return Err(Denial::Forbidden("pools have addresses of the subnet".to_owned()));
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

fn check_create(new: &SpiderSubnet, rules: &Rules<'_>, findings: &mut Findings) -> Result<(), Denial> {
    let checked = Checked::new(Addresses::from(&new.spec), rules, findings)?;
    let cidr = checked.cidr(findings)?;
    findings.note_all(check_cidrs(new, &cidr, checked.version, rules))?;
    // Upstream compares with pools first (A §9.2).
    if rules.policy.upstream_ranges {
        findings.note(check_pools(new, &cidr, checked.version, rules))?;
    }
    check_spec(&checked, findings)?;
    if !rules.policy.upstream_ranges {
        findings.note(check_pools(new, &cidr, checked.version, rules))?;
    }
    Ok(())
}

fn check_update(old: &SpiderSubnet, new: &SpiderSubnet, rules: &Rules<'_>) -> Result<(), Denial> {
    if new.metadata.deletion_timestamp.is_some() {
        return check_terminating(&new.metadata, old.spec == new.spec, rules);
    }
    let (before, after) = (Addresses::from(&old.spec), Addresses::from(&new.spec));
    check_unchanged(&before, &after)?;
    if rules.policy.update_judged_whole || before != after {
        let mut findings = Findings::first();
        check_spec(&Checked::new(after, rules, &mut findings)?, &mut findings)?;
    }
    let whole = rules.policy.update_judged_whole;
    let kept = if whole { upstream::check_pre_allocations(new, rules) } else { check_pre_allocations(old, new, rules) };
    Ok(kept?)
}

fn check_spec(checked: &Checked<'_>, findings: &mut Findings) -> Result<(), Violation> {
    checked.check_ranges(findings)?;
    findings.note(checked.check_gateway())?;
    checked.check_routes(findings)
}

/// Checks that the name is free, and that no other subnet has an address of the CIDR.
fn check_cidrs(new: &SpiderSubnet, cidr: &Cidr, version: i64, rules: &Rules<'_>) -> Result<(), Denial> {
    for other in rules.live.subnets() {
        let same_family = other.spec.ip_version == Some(version);
        if (same_family || !rules.policy.upstream_ranges) && other.metadata.name == new.metadata.name {
            return Err(Denial::AlreadyExists);
        }
        if same_family
            && Cidr::parse_version(&other.spec.subnet, version, rules.policy).is_ok_and(|other| other.overlaps(cidr, rules.policy))
        {
            let (name, subnet) = (other.metadata.name.as_deref().unwrap_or_default(), &other.spec.subnet);
            return Err(Violation::invalid("spec.subnet", format_args!("overlaps {subnet} of subnet {name}")).into());
        }
    }
    Ok(())
}

/// Checks that existing pools have the same CIDR or a disjoint one, and no address that the subnet lacks.
fn check_pools(new: &SpiderSubnet, cidr: &Cidr, version: i64, rules: &Rules<'_>) -> Result<(), Violation> {
    let total = || total_of(Addresses::from(&new.spec), rules);
    for pool in rules.live.pools().iter().filter(|pool| pool.spec.ip_version == Some(version)) {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        if pool.spec.subnet != new.spec.subnet {
            let other = Cidr::parse_version(&pool.spec.subnet, version, rules.policy);
            if other.is_ok_and(|other| other.overlaps(cidr, rules.policy)) {
                let message = format_args!("overlaps {} of pool {name}", pool.spec.subnet);
                return Err(Violation::invalid("spec.subnet", message));
            }
        } else if let Some(range) = total_of(Addresses::from(&pool.spec), rules)?.difference(&total()?).ranges().next() {
            return Err(Violation::invalid("spec.ips", format_args!("lacks {range} of pool {name}, which has the same CIDR")));
        }
    }
    Ok(())
}
