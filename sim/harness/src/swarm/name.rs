//! The names that a swarm draws from: kinds of faults and patterns of several.

use std::fmt;

use ipam_reports::command::program;
use kube_sim::fault::FaultKind;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use sim_config::kinds::Kinds;

use super::PATTERNS;

/// The name of a kind of fault, or of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct SwarmName(String);

impl SwarmName {
    /// Every name there is.
    pub fn all() -> impl Iterator<Item = &'static str> {
        FaultKind::KINDS.iter().copied().chain(PATTERNS.iter().map(|pattern| pattern.name()))
    }

    /// The kind or pattern called `name`, if there is one.
    pub fn new(name: &str) -> Option<Self> {
        Self::all().any(|known| known == name).then(|| Self(name.to_owned()))
    }

    /// The name, one of [`SwarmName::all`].
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SwarmName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SwarmName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::new(&name).ok_or_else(|| {
            let nearest = Self::all().min_by_key(|known| strsim::levenshtein(known, &name)).unwrap_or("");
            serde::de::Error::custom(format!(
                "there is no fault or pattern `{name}`; the nearest is `{nearest}`, and `{} list faults` shows all",
                program()
            ))
        })
    }
}
