//! A §9: the defaults, the admissions and the refusals of webhooks.

use std::fmt;

use ipam_spiderpool::admission::Denial;
use ipam_spiderpool::{SpiderIPPool, SpiderReservedIP, SpiderSubnet};
use kube_sim::object::Obj;

use super::super::view::{EventMask, Seen, View};
use super::super::{Findings, IpamClaim};
use crate::oracle::admission::{self, Broken, HeldByPools, Ruling};
use crate::workload::{HookAnswer, HookNote};

/// The defaults that a webhook fills in, and its verdict on a request, equal those of an [independent implementation of the
/// rules](crate::oracle::admission) for the objects that the replica had seen; and a refusal names a field that breaks a rule.
///
/// Exact. It does not judge requests for which a replica could not list the existing objects, and requires no more than one of several
/// broken rules to be named. Broken by `upstream-ranges`.
#[derive(Default)]
pub(crate) struct AdmissionFollowsTheRules {
    held: HeldByPools,
}

impl IpamClaim for AdmissionFollowsTheRules {
    fn event_mask(&self) -> EventMask {
        EventMask::HOOK
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Hook(by, note) = seen else { return };
        findings.exercised();
        let wrong = match &note.answer {
            HookAnswer::Defaulted { .. } => defaults(note),
            HookAnswer::Judged { denied, .. } => ruling(note, &mut self.held)
                .and_then(|ruling| difference(&ruling, denied.as_deref(), note.new.as_ref().or(note.old.as_ref()))),
        };
        if let Some(wrong) = wrong {
            findings.violated(|| vec![format!("{} {note}", view.name(*by)), wrong]);
        }
    }
}

/// The object as a type that the webhooks know; `None` = it is of another type.
fn typed<K: 'static>(object: &Option<Obj>) -> Option<&K> {
    object.as_ref()?.as_any().downcast_ref()
}

/// Both versions, if at least one of them is of this type.
fn both<K: 'static>(note: &HookNote) -> Option<(Option<&K>, Option<&K>)> {
    let both = (typed(&note.old), typed(&note.new));
    (both.0.is_some() || both.1.is_some()).then_some(both)
}

/// The ruling of the rules on the request.
fn ruling(note: &HookNote, held: &mut HeldByPools) -> Option<Ruling> {
    let HookAnswer::Judged { listed, .. } = &note.answer else { return None };
    if let Some((old, new)) = both::<SpiderIPPool>(note) {
        return Some(admission::pool(old, new, listed, &note.settings, held));
    }
    if let Some((old, new)) = both::<SpiderSubnet>(note) {
        return Some(admission::subnet(old, new, listed, &note.settings, held));
    }
    let (old, new) = both::<SpiderReservedIP>(note)?;
    Some(admission::reserved_ip(old, new, &note.settings))
}

/// The difference between a ruling and a verdict, if there is one.
fn difference(ruling: &Ruling, denied: Option<&Denial>, object: Option<&Obj>) -> Option<String> {
    match (ruling, denied) {
        (Ruling::Admitted, None)
        | (Ruling::AlreadyExists, Some(Denial::AlreadyExists))
        | (Ruling::Forbidden, Some(Denial::Forbidden(_))) => None,
        (Ruling::Invalid(broken), Some(Denial::Invalid(violations))) => {
            let is_broken = |violation: &ipam_spiderpool::admission::Violation| {
                broken.contains(&Broken { field: violation.field.to_string(), fault: violation.fault })
            };
            // Rules after the reported one may not apply to values that cannot be parsed.
            let other = violations.first().filter(|first| !is_broken(first))?;
            Some(format!("{} keeps the rules ({:?}): they refuse {}", other.field, other.fault, Fields(broken.iter())))
        }
        (Ruling::Admitted, Some(_)) => Some(format!("the rules admit it: {}", Spec(object))),
        (Ruling::AlreadyExists, _) => Some("the rules refuse it, as the name is taken".to_owned()),
        (Ruling::Forbidden, _) => Some("the rules forbid it".to_owned()),
        (Ruling::Invalid(broken), _) => Some(format!("the rules refuse {}: {}", Fields(broken.iter()), Spec(object))),
    }
}

/// The error in the defaults, if there is one.
fn defaults(note: &HookNote) -> Option<String> {
    let HookAnswer::Defaulted { defaulted, subnets } = &note.answer else { return None };
    fn other<K: PartialEq + serde::Serialize + 'static>(defaulted: &Obj, expected: &K) -> Option<String> {
        let defaulted = defaulted.as_any().downcast_ref::<K>()?;
        let text = |object: &K| serde_json::to_string(object).unwrap_or_default();
        (defaulted != expected).then(|| format!("by the rules it is {}, not {}", text(expected), text(defaulted)))
    }
    if let Some(pool) = typed::<SpiderIPPool>(&note.new) {
        return other(defaulted, &admission::pool_defaults(pool, subnets, &note.settings));
    }
    if let Some(subnet) = typed::<SpiderSubnet>(&note.new) {
        return other(defaulted, &admission::subnet_defaults(subnet));
    }
    other(defaulted, &admission::reserved_ip_defaults(typed::<SpiderReservedIP>(&note.new)?))
}

/// The fields that break rules.
struct Fields<I>(I);

impl<'a, I: Iterator<Item = &'a Broken> + Clone> fmt::Display for Fields<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, broken) in self.0.clone().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}{} ({:?})", broken.field, broken.fault)?;
        }
        Ok(())
    }
}

/// The spec of an object as JSON.
struct Spec<'a>(Option<&'a Obj>);

impl fmt::Display for Spec<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(object) = self.0.map(|object| object.as_any()) else { return Ok(()) };
        let spec = if let Some(pool) = object.downcast_ref::<SpiderIPPool>() {
            serde_json::to_string(&pool.spec)
        } else if let Some(subnet) = object.downcast_ref::<SpiderSubnet>() {
            serde_json::to_string(&subnet.spec)
        } else {
            serde_json::to_string(&object.downcast_ref::<SpiderReservedIP>().map(|reserved| &reserved.spec))
        };
        f.write_str(&spec.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ipam_spiderpool::admission::{Listed, Violation};
    use serde_json::json;

    use super::super::super::testing::on_stage;
    use super::*;

    fn pool(first: &str, last: &str) -> SpiderIPPool {
        let spec = json!({"ipVersion": 4, "subnet": "10.0.0.0/24", "ips": [format!("{first}-{last}")]});
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    }

    #[test]
    fn a_verdict_is_that_of_the_rules_and_a_refusal_names_what_breaks_them() {
        let invalid = |field: &'static str| Some(Denial::Invalid(vec![Violation::invalid(field, "it is wrong")]));
        let (right, reversed) = (pool("10.0.0.1", "10.0.0.9"), pool("10.0.0.9", "10.0.0.1"));
        for (pool, denied, wrong) in [
            (&right, None, None),
            (&reversed, invalid("spec.ips[0]"), None),
            (&right, Some(Denial::AlreadyExists), Some("the rules admit it: ")),
            (&reversed, None, Some("the rules refuse spec.ips")),
            (&reversed, invalid("spec.gateway"), Some("spec.gateway keeps the rules")),
        ] {
            on_stage("admission-follows-the-rules", |stage| {
                stage.judges_beside(None, Some(pool.clone()), Listed::default(), denied.clone());
                assert!(stage.exercised());
                let detail = stage.detail();
                assert_eq!(detail.get(1).map(|line| line.starts_with(wrong.unwrap_or("-"))), wrong.map(|_| true), "{detail:?}");
            });
        }
    }

    #[test]
    fn a_name_that_is_taken_is_told_before_anything_else() {
        let taken = || Listed { pools: vec![Arc::new(pool("10.0.0.1", "10.0.0.9"))], subnets: Vec::new() };
        for (denied, found) in [(Some(Denial::AlreadyExists), vec![]), (None, vec![None])] {
            on_stage("admission-follows-the-rules", |stage| {
                stage.judges_beside(None, Some(pool("10.0.0.20", "10.0.0.29")), taken(), denied);
                assert_eq!(stage.excuses(), found);
            });
        }
    }

    #[test]
    fn an_object_without_its_defaults_is_a_violation() {
        let asked = pool("10.0.0.1", "10.0.0.9");
        let filled = admission::pool_defaults(&asked, &[], &ipam_spiderpool::admission::AdmissionSettings::default());
        for (defaulted, found) in [(filled, vec![]), (asked.clone(), vec![None])] {
            on_stage("admission-follows-the-rules", |stage| {
                let answer = HookAnswer::Defaulted { defaulted: Arc::new(defaulted), subnets: Vec::new() };
                stage.answers(None, Some(asked.clone()), answer);
                assert_eq!(stage.excuses(), found);
            });
        }
    }
}
