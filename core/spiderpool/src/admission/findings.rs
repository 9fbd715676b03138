//! The extent of a check: up to the first broken rule, or through all rules.

use super::denial::unless_empty;
use super::{Denial, Violation};

/// The violations found so far.
///
/// A webhook reports the first violation, as upstream does. An audit of manifests wants all of them. Both run the same rules; a rule passes
/// its violations to this type, and continues as far as it is allowed to.
#[derive(Debug)]
pub(super) struct Findings {
    all: bool,
    found: Vec<Violation>,
}

impl Findings {
    /// Ends with the first broken rule.
    pub(super) fn first() -> Self {
        Self { all: false, found: Vec::new() }
    }

    /// Collects all violations that `rules` find in an object.
    ///
    /// # Errors
    /// The reason why the object is refused.
    pub(super) fn all(rules: impl FnOnce(&mut Self) -> Result<(), Denial>) -> Result<(), Denial> {
        let mut findings = Self { all: true, found: Vec::new() };
        match rules(&mut findings) {
            Err(Denial::Invalid(violations)) => violations.into_iter().for_each(|violation| findings.keep(violation)),
            Err(other) => return Err(other),
            Ok(()) => {}
        }
        unless_empty(findings.found)
    }

    /// Notes the result of a rule.
    ///
    /// # Errors
    /// The rule is broken, and the check ends with the first broken rule.
    pub(super) fn note(&mut self, rule: Result<(), Violation>) -> Result<(), Violation> {
        match rule {
            Err(violation) if self.all => self.keep(violation),
            rule => return rule,
        }
        Ok(())
    }

    /// Notes the result of several rules at once. A name that is taken ends everything.
    ///
    /// # Errors
    /// Rules are broken and the check ends with the first one, or the denial is of another kind.
    pub(super) fn note_all(&mut self, rules: Result<(), Denial>) -> Result<(), Denial> {
        match rules {
            Err(Denial::Invalid(violations)) if self.all => violations.into_iter().for_each(|violation| self.keep(violation)),
            rules => return rules,
        }
        Ok(())
    }

    /// Keeps a violation once: each rule that reads an unreadable range reports it, in the same words.
    fn keep(&mut self, violation: Violation) {
        if !self.found.contains(&violation) {
            self.found.push(violation);
        }
    }
}
