//! How far judging goes: to the first rule that is broken, or through all of them.

use super::denial::unless_empty;
use super::{Denial, Violation};

/// What was found so far.
///
/// A webhook says the first thing that is wrong, as upstream does. Whoever looks through manifests wants to know all of it. Both run the
/// same rules; a rule hands what it finds to this, and goes on as far as it is let.
#[derive(Debug)]
pub(super) struct Findings {
    all: bool,
    found: Vec<Violation>,
}

impl Findings {
    /// Ends with the first rule that is broken.
    pub(super) fn first() -> Self {
        Self { all: false, found: Vec::new() }
    }

    /// What `rules` say of an object, all of it.
    ///
    /// # Errors
    /// Why the object is refused.
    pub(super) fn all(rules: impl FnOnce(&mut Self) -> Result<(), Denial>) -> Result<(), Denial> {
        let mut findings = Self { all: true, found: Vec::new() };
        match rules(&mut findings) {
            Err(Denial::Invalid(violations)) => violations.into_iter().for_each(|violation| findings.keep(violation)),
            Err(other) => return Err(other),
            Ok(()) => {}
        }
        unless_empty(findings.found)
    }

    /// A rule was looked at.
    ///
    /// # Errors
    /// It is broken, and nothing more is to be found out.
    pub(super) fn note(&mut self, rule: Result<(), Violation>) -> Result<(), Violation> {
        match rule {
            Err(violation) if self.all => self.keep(violation),
            rule => return rule,
        }
        Ok(())
    }

    /// The same with several rules at once. That the name is taken ends everything.
    ///
    /// # Errors
    /// Nothing more is to be found out.
    pub(super) fn note_all(&mut self, rules: Result<(), Denial>) -> Result<(), Denial> {
        match rules {
            Err(Denial::Invalid(violations)) if self.all => violations.into_iter().for_each(|violation| self.keep(violation)),
            rules => return rules,
        }
        Ok(())
    }

    /// A range that cannot be read is told by each rule that reads it, in the same words.
    fn keep(&mut self, violation: Violation) {
        if !self.found.contains(&violation) {
            self.found.push(violation);
        }
    }
}
