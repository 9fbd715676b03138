//! Names and patterns of `check.always`: one claim, or all of a subject.

use std::fmt;

use ipam_reports::command::program;
use ipam_reports::finding::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sim_config::nearest;

use super::COMMON_SUITE;
use super::claim_name::{self, ClaimName, KnownClaim};

/// A claim by its name, or the claims of a suite: `SYSTEM/SUBJECT/*`, or of all suites of a system: `SYSTEM/*`.
///
/// A claim that the list names must judge something in a sweep, or the sweep is vacuous. A claim that only a pattern selects may also judge
/// nothing.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
pub enum ClaimPattern {
    /// The claim with this name.
    Name(ClaimName),
    /// All `always` claims of the suites with this name, or with this name before a slash.
    Suites(String),
}

impl ClaimPattern {
    /// Whether the pattern can select claims of the system `system`; every system has the claims that hold for any system.
    pub fn is_about(&self, system: &str) -> bool {
        match self {
            Self::Name(_) => true,
            Self::Suites(name) => matches!(name.split('/').next(), Some(first) if first == COMMON_SUITE || first == system),
        }
    }

    /// The claims that it selects, in the order in which they are listed.
    pub fn claims(&self) -> Vec<&'static KnownClaim> {
        match self {
            Self::Name(name) => vec![name.known()],
            Self::Suites(name) => always_claims_of(name),
        }
    }
}

fn always_claims_of(name: &str) -> Vec<&'static KnownClaim> {
    let is_meant = |suite: &str| suite.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    claim_name::all().iter().filter(|known| is_meant(known.suite) && known.kind == Kind::Always).collect()
}

impl fmt::Display for ClaimPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Suites(name) => write!(f, "{name}/*"),
        }
    }
}

impl Serialize for ClaimPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ClaimPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let Some(name) = text.strip_suffix("/*") else {
            let none = || serde::de::Error::custom(format!("there is no claim `{text}`; {}", ClaimName::advice(&text)));
            return ClaimName::new(&text).map(Self::Name).ok_or_else(none);
        };
        if always_claims_of(name).is_empty() {
            let names = claim_name::all()
                .iter()
                .flat_map(|KnownClaim { suite, .. }| [Some(*suite), suite.split_once('/').map(|(system, _)| system)]);
            let nearest = nearest(name, names.flatten());
            return Err(serde::de::Error::custom(format!(
                "`{text}` matches no claim that must always hold; the nearest is `{nearest}/*`, and `{} list claims` shows all",
                program()
            )));
        }
        Ok(Self::Suites(name.to_owned()))
    }
}
