//! The setting of a closed loop, in which the pods of a node ask one after the other ([`rounds`](super::rounds)).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::time::Span;
use sim_config::{Problem, Problems, Source};
use sim_harness::plan::OPS_MAX;
use sim_harness::workload::{InvalidValue, at_most, from_one_to};

/// A closed loop, in which the pods of a node ask one after the other: each call starts when the one before is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClosedLoop {
    /// The number of pods of each node, from 1. A call that is refused counts, and the next one follows at once.
    pub times: u32,
    /// The time from the first ADDs until the pods of all nodes are released, again one after the other; they are deleted halfway. Unset =
    /// their addresses are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Span>,
}

/// The maximum number of pods of a node.
const TIMES_MAX: u32 = 10_000;

impl ClosedLoop {
    /// The problems of the setting for this number of nodes; `others` are settings that need kubelets, each with whether it is set.
    pub(super) fn problems(self, source: Source<'_>, nodes: u32, others: &[(&str, bool)]) -> Problems {
        let key = "workload.closed_loop.times";
        let mut problems = from_one_to(source, key, self.times, TIMES_MAX);
        problems.append(at_most(source, key, "the number of pods of all nodes", u64::from(nodes) * u64::from(self.times), OPS_MAX));
        for (key, _) in others.iter().filter(|(_, is_set)| *is_set) {
            problems.push(no_kubelets(source, key));
        }
        problems
    }
}

/// The problem of a setting that has no effect without kubelets.
fn no_kubelets(source: Source<'_>, key: &str) -> Problem {
    let wrong = format!("`workload.closed_loop` and `{key}` do not go together: in a closed loop nodes have no kubelets");
    source.problem(key, wrong, "one of them")
}

/// The problem of an application whose pods would not be served.
pub(super) fn no_applications(app: &str) -> InvalidValue {
    let wrong = format!("`{app}` would stay without a network: in a closed loop (`workload.closed_loop`) nodes have no kubelets");
    InvalidValue::value(app, wrong, "no application, or no closed loop")
}
