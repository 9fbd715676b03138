//! Admission of reserved IP objects (A §9.3). They are compared with nothing: an address in use may be reserved.

use super::addresses::{family, family_of_range, merge};
use super::findings::Findings;
use super::{Admitted, Denial, Request, Rules, Violation, empty};
use crate::SpiderReservedIP;
use crate::ranges::{RangeError, check_range};

impl Admitted for SpiderReservedIP {
    fn set_defaults(&mut self, rules: &Rules<'_>) -> Result<(), RangeError> {
        let Some(first) = self.spec.ips.iter().flatten().next().filter(|_| self.metadata.deletion_timestamp.is_none()) else {
            return Ok(());
        };
        let version = match self.spec.ip_version {
            Some(version) => version,
            None => *self.spec.ip_version.insert(family_of_range(first, rules.policy)?),
        };
        merge(&mut self.spec.ips, version, rules.policy)
    }

    fn drop_empty_lists(&mut self) {
        empty::drop_from_reserved_ip(&mut self.spec);
    }

    fn check(request: &Request<'_, Self>, rules: &Rules<'_>) -> Result<(), Denial> {
        match *request {
            Request::Create(new) => check_spec(new, rules, &mut Findings::first()),
            Request::Update { old, new } => {
                if new.metadata.deletion_timestamp.is_some() {
                    // There is no finalizer of Spiderpool's: any other holder must be able to remove its own.
                    let let_go = !rules.policy.terminating_update_refused && old.spec == new.spec;
                    if old.metadata.deletion_timestamp.is_none() || let_go {
                        return Ok(());
                    }
                    return Err(Denial::Forbidden("the object is being deleted".to_owned()));
                }
                if let (Some(before), Some(after)) = (old.spec.ip_version, new.spec.ip_version)
                    && before != after
                {
                    return Err(Violation::forbidden("spec.ipVersion", "is immutable").into());
                }
                if old.spec == new.spec && !rules.policy.update_judged_whole {
                    Ok(())
                } else {
                    check_spec(new, rules, &mut Findings::first())
                }
            }
            Request::Delete(_) => Ok(()),
        }
    }

    fn audit(&self, rules: &Rules<'_>) -> Result<(), Denial> {
        let mut new = self.clone();
        // Unreadable fields are reported by the rules.
        let _ = new.set_defaults(rules);
        if !rules.policy.upstream_ranges {
            new.spec.ips.clone_from(&self.spec.ips);
        }
        Findings::all(|findings| check_spec(&new, rules, findings))
    }
}

fn check_spec(new: &SpiderReservedIP, rules: &Rules<'_>, findings: &mut Findings) -> Result<(), Denial> {
    let first = new.spec.ips.iter().flatten().next().map(String::as_str);
    let version = family(new.spec.ip_version, first, rules.settings, findings)?;
    for (at, text) in new.spec.ips.iter().flatten().enumerate() {
        let range = check_range(text, version, rules.policy);
        findings.note(range.map_err(|error| Violation::invalid(format!("spec.ips[{at}]"), error)))?;
    }
    Ok(())
}
