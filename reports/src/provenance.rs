//! Where a plan comes from, and what was on in the run that it records: enough to see the run again, and to know what it says.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a plan comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Provenance {
    /// The version of the program.
    pub version: String,
    /// The build of it: digests are comparable within one build.
    pub build: String,
    /// The command that runs the plan again. Its path is that of the folder in which the program ran.
    pub replay: String,
    /// The behaviour that was asked for: `hardened` or `upstream`.
    pub profile: String,
    /// The mutations that were on in the run that found the failure. A plan that was made smaller may have fewer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mutations: Vec<String>,
    /// The faults of the plan in words, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// The plan that it was made smaller from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shrunk_from: Option<String>,
}
