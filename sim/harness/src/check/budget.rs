//! How many requests processes may send.

use std::collections::BTreeMap;

use kube_machinery::api::Verb;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::{Problems, Source, advice};

/// How many requests the processes that a pattern names may send in a run, all together: by the plural of the type, and the verb, as in
/// `"agent-*" = { pods = { get = 8 } }`. What is not listed they may not ask at all.
///
/// Meant for scenarios without faults whose plans all have one size: with conflicts, retries and restarts no such number can be given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct RequestBudget(pub BTreeMap<String, BTreeMap<String, BTreeMap<String, u32>>>);

impl RequestBudget {
    /// Whether there is nothing in it: nobody counts requests then.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The verb with this name.
    pub fn verb(name: &str) -> Option<Verb> {
        Verb::ALL.into_iter().find(|verb| verb.as_str() == name)
    }

    /// Verbs that there are not.
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
