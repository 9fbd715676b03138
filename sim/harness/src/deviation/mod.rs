//! Named deviations: switches that make the system under test behave differently, one each.
//!
//! A deviation shows that the claims find the bugs that they are made for, or lets upstream's behaviour run unchanged.

use std::fmt;

use clap::ValueEnum;
use ipam_reports::command::program;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use sim_config::nearest;

use crate::registered::Registered;

/// The deviations of all systems, in the order in which they are listed.
pub(crate) static DEVIATIONS: Registered<Vec<Deviation>> = Registered::new();

/// A switch of a system under test: a planted bug, or a hazard that upstream has.
#[derive(Clone, Copy, Debug)]
pub struct Deviation {
    /// The name in files and on the command line, unique among all systems.
    pub name: &'static str,
    /// Its effect, in a sentence.
    pub about: &'static str,
    /// Whether upstream behaves like this.
    pub upstream: bool,
    /// The way in which it is found.
    pub how: How,
}

impl Deviation {
    /// A bug that was planted: upstream has no such behaviour, and a claim finds it.
    pub const fn planted(name: &'static str, about: &'static str) -> Self {
        Self { name, about, upstream: false, how: How::Claim }
    }
}

/// The way in which a deviation is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A claim is violated.
    Claim,
    /// A process panics, which no run allows.
    Crash,
    /// A measured number differs, while no claim is violated.
    Figure,
    /// Nothing is wrong with it alone; it belongs to the control group.
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

/// The deviations of a policy's switches, which are given by name and by whether upstream behaves like them. `abouts` has a sentence for
/// each; `otherwise` says how those are found that no claim finds. Panics if a switch has no sentence.
pub fn rows_of(
    switches: impl Iterator<Item = (&'static str, bool)>,
    abouts: &[(&str, &'static str)],
    otherwise: &[(&str, How)],
) -> Vec<Deviation> {
    let row = |(name, upstream): (&'static str, bool)| {
        let about = abouts.iter().find(|(of, _)| *of == name).map(|(_, about)| *about);
        let about = about.unwrap_or_else(|| panic!("the switch `{name}` of a policy has no sentence that says what it does"));
        let how = otherwise.iter().find(|(of, _)| *of == name).map_or(How::Claim, |(_, how)| *how);
        Deviation { name, about, upstream, how }
    };
    switches.map(row).collect()
}

/// The behaviour of the systems under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Every known hazard is fixed.
    #[value(help = None)]
    Hardened,
    /// The behaviour of upstream today.
    #[value(help = None)]
    Upstream,
}

impl Profile {
    /// Its name on the command line and in files.
    pub const fn name(self) -> &'static str {
        match self {
            Profile::Hardened => "hardened",
            Profile::Upstream => "upstream",
        }
    }
}

/// The deviations that upstream has.
pub fn upstream() -> impl Iterator<Item = DeviationName> {
    DEVIATIONS.get().iter().filter(|deviation| deviation.upstream).filter_map(|deviation| DeviationName::new(deviation.name))
}

/// The name of a deviation that exists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct DeviationName(String);

impl DeviationName {
    /// The deviation called `name`, if there is one.
    pub fn new(name: &str) -> Option<Self> {
        DEVIATIONS.get().iter().any(|deviation| deviation.name == name).then(|| Self(name.to_owned()))
    }

    /// A hint for a name that no deviation has: what may have been meant.
    pub fn advice(name: &str) -> String {
        let known = DEVIATIONS.get().iter().map(|deviation| deviation.name);
        format!("the nearest is `{}`, and `{} list mutations` shows all", nearest(name, known), program())
    }

    /// The name, as in [`Deviation::name`].
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
        Self::new(&name).ok_or_else(|| serde::de::Error::custom(format!("there is no mutation `{name}`; {}", Self::advice(&name))))
    }
}
