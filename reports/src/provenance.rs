//! The origin of a plan, and the behaviour that was on in its run: enough to reproduce the run, and to interpret it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The origin of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Provenance {
    /// The version of the program.
    pub version: String,
    /// The build of the program: digests are comparable within one build.
    pub build: String,
    /// The command that runs the plan again. Its path is relative to the folder in which the program ran.
    pub replay: String,
    /// The behaviour that was asked for: `hardened` or `upstream`.
    pub profile: String,
    /// The mutations that were on in addition to those of the profile, in the run that found the failure. A shrunk plan may have fewer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mutations: Vec<String>,
    /// The mutations of the profile that were off in that run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
    /// The faults of the plan in words, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// The plan from which it was shrunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shrunk_from: Option<String>,
}

impl Provenance {
    /// The profile and mutations as a phrase: `profile upstream without a; mutations: all of upstream, b`.
    pub fn behaviour(&self) -> String {
        let without = if self.without.is_empty() { String::new() } else { format!(" without {}", self.without.join(", ")) };
        format!("profile {}{without}; mutations: {}", self.profile, self.all_mutations())
    }

    /// The mutations that were on; those of a profile by the profile's name.
    pub fn all_mutations(&self) -> String {
        let of_profile = (self.profile == UPSTREAM).then(|| "all of upstream".to_owned());
        let all: Vec<String> = of_profile.into_iter().chain(self.mutations.iter().cloned()).collect();
        if all.is_empty() { "none".to_owned() } else { all.join(", ") }
    }
}

/// The name of the profile that has mutations.
const UPSTREAM: &str = "upstream";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mutations_of_a_profile_are_told_by_its_name() {
        let told = |profile: &str, mutations: &[&str], without: &[&str]| {
            let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
            let (mutations, without) = (names(mutations), names(without));
            Provenance { profile: profile.to_owned(), mutations, without, ..Provenance::default() }.behaviour()
        };
        assert_eq!(told("hardened", &[], &[]), "profile hardened; mutations: none");
        assert_eq!(told("hardened", &["a", "b"], &[]), "profile hardened; mutations: a, b");
        assert_eq!(told("upstream", &[], &[]), "profile upstream; mutations: all of upstream");
        assert_eq!(told("upstream", &["a"], &["b"]), "profile upstream without b; mutations: all of upstream, a");
    }
}
