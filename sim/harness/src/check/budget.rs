//! Limits on the number of requests that processes send.

use std::collections::BTreeMap;

use kube_machinery::api::Verb;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::{Problems, Source, advice};

/// Limits on the requests that all processes of a pattern together may send in a run, by plural of the type and verb, as in `"agent-*" = {
/// pods = { get = 8 } }`. Requests that are not listed are forbidden.
///
/// Meant for scenarios without faults whose plans all have one size: with conflicts, retries and restarts no such number can be given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct RequestBudget(pub BTreeMap<String, BTreeMap<String, BTreeMap<String, u32>>>);

impl RequestBudget {
    /// Whether there are no limits: requests are not counted then.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The verb with this name.
    pub fn verb(name: &str) -> Option<Verb> {
        Verb::ALL.into_iter().find(|verb| verb.as_str() == name)
    }

    /// Verbs that do not exist.
    pub fn problems(&self, source: Source<'_>) -> Problems {
        let mut problems = Problems::new();
        for (processes, types) in &self.0 {
            for (plural, verbs) in types {
                for verb in verbs.keys().filter(|verb| Self::verb(verb).is_none()) {
                    let right = advice(verb, &Verb::ALL.map(Verb::as_str), "verb");
                    let path = ["check", "budget", processes, plural, verb];
                    problems.push(source.problem_of_key(&path, format!("there is no verb `{verb}`"), right));
                }
            }
        }
        problems
    }
}
