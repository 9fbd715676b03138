//! Named deviations: what the system under test can be told to do differently, one switch each.
//!
//! A deviation shows that the claims find what they are there for, and lets upstream's behaviour be run as it is.

mod pool_rows;
mod reclaim_rows;
mod spiderpool_rows;

use std::fmt;

use clap::ValueEnum;
use ipam_byom as byom;
use ipam_spiderpool as spiderpool;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::input::nearest;

/// A deviation.
#[derive(Clone, Copy, Debug)]
pub struct Deviation {
    /// Its public name.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub about: &'static str,
    /// Whether upstream behaves like this.
    pub upstream: bool,
    /// How it is found.
    pub how: How,
}

/// How a deviation is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A claim is violated.
    Claim,
    /// A process panics.
    Crash,
    /// A statistic moves.
    Figure,
    /// By itself nothing is wrong with it; it belongs to the control group.
    Control,
    /// It does no harm that a claim could see by itself: tests of the code compare both behaviours.
    Test,
    /// `explain` gives another answer; no claim about safety fails.
    Explain,
}

impl How {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            How::Claim => "claim",
            How::Crash => "crash",
            How::Figure => "figure",
            How::Control => "control",
            How::Test => "test",
            How::Explain => "explain",
        }
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// The counter's clients decide on what they read first and only refresh the version when they retry.
pub const COUNTER_DECIDES_ONCE: &str = "counter-decides-once";

/// The deviations that are not switches of a policy.
const OTHERS: [Deviation; 1] = [Deviation {
    name: COUNTER_DECIDES_ONCE,
    about: "clients of the counter decide on their first read; a retry only refreshes the resourceVersion",
    upstream: false,
    how: How::Claim,
}];

const ALL_LEN: usize = OTHERS.len()
    + byom::Policy::DEVIATIONS.len()
    + spiderpool::Policy::DEVIATIONS.len()
    + spiderpool::reclaim::ReclaimPolicy::DEVIATIONS.len();

/// Appends the switches of a policy to `$all` at `$next`.
macro_rules! append {
    ($all:ident, $next:ident, $switches:expr, $rows:ident) => {
        let mut index = 0;
        while index < $switches.len() {
            let switch = &$switches[index];
            $all[$next] = of_switch(switch.name, switch.upstream, $rows::ABOUT, $rows::FOUND_OTHERWISE);
            index += 1;
            $next += 1;
        }
    };
}

/// Every deviation.
pub const ALL: &[Deviation] = &{
    let mut all = [OTHERS[0]; ALL_LEN];
    let mut next = OTHERS.len();
    append!(all, next, byom::Policy::DEVIATIONS, pool_rows);
    append!(all, next, spiderpool::Policy::DEVIATIONS, spiderpool_rows);
    append!(all, next, spiderpool::reclaim::ReclaimPolicy::DEVIATIONS, reclaim_rows);
    assert!(next == ALL_LEN, "every deviation is in the list");
    all
};

/// What is said of a switch. One without a sentence does not compile; it is found by a claim unless there is a row that says otherwise.
const fn of_switch(name: &'static str, upstream: bool, abouts: &[(&str, &'static str)], otherwise: &[(&str, How)]) -> Deviation {
    let mut how = How::Claim;
    let mut row = 0;
    while row < otherwise.len() {
        if same(otherwise[row].0.as_bytes(), name.as_bytes()) {
            how = otherwise[row].1;
        }
        row += 1;
    }
    let mut row = 0;
    while row < abouts.len() {
        if same(abouts[row].0.as_bytes(), name.as_bytes()) {
            return Deviation { name, about: abouts[row].1, upstream, how };
        }
        row += 1;
    }
    panic!("a switch of a policy has no sentence that says what it does")
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    a.len() == b.len() && index == a.len()
}

/// Which behaviour of the systems under test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Every known hazard mended.
    #[value(help = None)]
    Hardened,
    /// As upstream is today.
    #[value(help = None)]
    Upstream,
}

/// The deviations that upstream has.
pub fn upstream() -> impl Iterator<Item = DeviationName> {
    ALL.iter().filter(|deviation| deviation.upstream).filter_map(|deviation| DeviationName::new(deviation.name))
}

/// The name of a deviation that exists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct DeviationName(String);

impl DeviationName {
    /// The deviation called `name`, if there is one.
    pub fn new(name: &str) -> Option<Self> {
        ALL.iter().any(|deviation| deviation.name == name).then(|| Self(name.to_owned()))
    }

    /// What may have been meant by a name that is none.
    pub(crate) fn advice(name: &str) -> String {
        let known = ALL.iter().map(|deviation| deviation.name);
        format!("the nearest is `{}`, and `ipam-sim list deviations` shows all", nearest(name, known))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeviationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for DeviationName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::new(&name).ok_or_else(|| serde::de::Error::custom(format!("there is no deviation `{name}`; {}", Self::advice(&name))))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_every_row_is_about_a_switch() {
        let names: BTreeSet<&str> = ALL.iter().map(|deviation| deviation.name).collect();
        assert_eq!(names.len(), ALL.len());
        let of_pool = |name: &str| byom::Policy::hardened().switch(name).is_some();
        let of_spiderpool = |name: &str| spiderpool::Policy::hardened().switch(name).is_some();
        for (name, about) in pool_rows::ABOUT.iter().chain(spiderpool_rows::ABOUT).chain(reclaim_rows::ABOUT) {
            assert!(of_pool(name) || of_spiderpool(name), "{name} is no switch of a policy");
            assert!(ALL.iter().any(|deviation| deviation.name == *name && deviation.about == *about));
        }
        for (name, how) in pool_rows::FOUND_OTHERWISE.iter().chain(spiderpool_rows::FOUND_OTHERWISE).chain(reclaim_rows::FOUND_OTHERWISE) {
            assert!(ALL.iter().any(|deviation| deviation.name == *name && deviation.how == *how), "{name} is no deviation");
        }
    }
}
