//! Names of claims.

use std::fmt;

use ipam_reports::command::program;
use ipam_reports::finding::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use sim_config::nearest;

use crate::registered::Registered;

/// The existing claims, by suite.
pub(crate) static CLAIMS: Registered<Names> = Registered::new();

/// The names of all claims, without their code.
pub(crate) struct Names {
    /// The claims, in the order in which they are listed.
    pub(crate) claims: Vec<KnownClaim>,
    /// Former names, each with the present one.
    pub(crate) renamed: Vec<(&'static str, &'static str)>,
}

/// A claim that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownClaim {
    /// Its name, which scenarios list.
    pub name: &'static str,
    /// Its kind, which decides under which list of a scenario it belongs.
    pub kind: Kind,
    /// The suite that it belongs to.
    pub suite: &'static str,
}

pub(crate) fn all() -> &'static [KnownClaim] {
    &CLAIMS.get().claims
}

/// The claim with the present or former name `name`.
pub(crate) fn find(name: &str) -> Option<&'static KnownClaim> {
    let Names { claims, renamed } = CLAIMS.get();
    let name = renamed.iter().find(|(former, _)| *former == name).map_or(name, |(_, present)| present);
    claims.iter().find(|known| known.name == name)
}

/// The name of a claim that exists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct ClaimName(String);

impl ClaimName {
    /// The present name of the claim with the present or former name `name`, if there is one.
    pub fn new(name: &str) -> Option<Self> {
        find(name).map(|known| Self(known.name.to_owned()))
    }

    /// A hint for a name that no claim has: what may have been meant.
    pub fn advice(name: &str) -> String {
        let nearest = nearest(name, all().iter().map(|known| known.name));
        format!("the nearest is `{nearest}`, and `{} list claims` shows all", program())
    }

    /// The name as it is listed.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The entry of the claim in the list of claims.
    pub fn known(&self) -> &'static KnownClaim {
        find(&self.0).unwrap_or_else(|| unreachable!("the name was checked when it was read"))
    }
}

impl fmt::Display for ClaimName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ClaimName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::new(&name).ok_or_else(|| serde::de::Error::custom(format!("there is no claim `{name}`; {}", Self::advice(&name))))
    }
}
