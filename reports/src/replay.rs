//! The result of `replay`: one run with recording. The JSON form is `ipam-sim/replay/1`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Kind, Violation};
use crate::schema::{self, ReadError, ReplaySchema};
use crate::timeline::Because;
use crate::{Digest, History, Provenance, Seconds, exit};

/// The result of one replayed run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayReport {
    /// Name and version of this format: always `ipam-sim/replay/1`.
    #[schemars(with = "String", extend("const" = ReplaySchema::NAME))]
    pub schema: ReplaySchema,
    /// Name of the scenario that the plan was drawn from, as stated in the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// The plan file that was replayed, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Seed of the plan: random choices of a run are drawn from it.
    pub seed: u64,
    /// The digest of this run.
    #[schemars(with = "String", extend("pattern" = "^[0-9a-f]{32}$"))]
    pub digest: Digest,
    /// Number of trace events.
    pub events: u64,
    /// Model time at the end.
    #[serde(default, rename = "simulated_s")]
    #[schemars(with = "f64")]
    pub simulated: Seconds,
    /// Violations, excused or not, by time.
    pub violations: Vec<Violation>,
    /// Origin of the plan, and the command that runs it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// The digest stated in the plan file, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub expected_digest: Option<Digest>,
    /// Whether the digest differs although this build made the plan: the program is nondeterministic.
    #[serde(default)]
    pub nondeterministic: bool,
    /// The event at which this run diverged from the recorded one, if its digest differs and its checkpoints show the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parting: Option<Parting>,
    /// The comparison with another plan, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Comparison>,
    /// Remarks for the reader, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// The trace, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Vec<TraceLine>>,
    /// The history of the run, as data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// Sentences on what could not be written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unwritten: Vec<String>,
    /// The exit code of the process; see [`exit`].
    #[serde(default)]
    pub exit_code: u8,
}

impl ReplayReport {
    /// A report without violations, comparison, remarks and trace.
    pub fn new(seed: u64, digest: Digest, events: u64) -> Self {
        Self {
            schema: ReplaySchema,
            scenario: None,
            plan: None,
            seed,
            digest,
            events,
            simulated: Seconds::ZERO,
            violations: vec![],
            provenance: None,
            expected_digest: None,
            nondeterministic: false,
            parting: None,
            against: None,
            remarks: vec![],
            trace: None,
            history: None,
            unwritten: Vec::new(),
            exit_code: exit::HELD,
        }
    }

    /// The exit code that follows from the run: from the claims that were violated without an excuse, also in a negative scenario.
    /// `sometimes` claims are about sweeps and do not count here.
    pub fn judge(&self) -> u8 {
        let violated = self.violations.iter().filter(|violation| violation.excuse.is_none()).map(|violation| match violation.kind {
            Kind::Eventually => exit::NOT_EVENTUALLY,
            _ => exit::VIOLATED,
        });
        exit::worst(violated.chain(self.nondeterministic.then_some(exit::NONDETERMINISTIC)))
    }

    /// Reads the JSON form.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        schema::read(text, ReplaySchema::NAME)
    }
}

/// The comparison of this run with the run of another plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// File of the other plan, as given to `--against`.
    pub plan: String,
    /// The digest of its run.
    #[schemars(with = "String", extend("pattern" = "^[0-9a-f]{32}$"))]
    pub digest: Digest,
    /// The event at which the two diverge; `None` when they are the same run.
    pub parting: Option<Parting>,
}

/// The first event in which two runs differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Parting {
    /// The number of the event, from 0. An upper bound if only checkpoints could be compared.
    pub event: u64,
    /// Time of the event, in model time.
    #[serde(rename = "at_s")]
    #[schemars(with = "f64")]
    pub at: Seconds,
    /// The event of this run; `None` when it had ended, or when the event is not known.
    pub this: Option<String>,
    /// The event of the other run; `None` when it had ended, or when the event is not known.
    pub other: Option<String>,
    /// The reason, if the plans show it: the first differing operation, fault or draw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// One event of the trace, as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceLine {
    /// The number of the event, from 0.
    pub event: u64,
    /// Time of the event, in model time.
    #[serde(rename = "at_s")]
    #[schemars(with = "f64")]
    pub at: Seconds,
    /// The process or part of the world in which it happened.
    pub place: String,
    /// The event in a line: a request, a commit, an answer, a note of a process, and so on.
    pub what: String,
    /// Causes of the event, if they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<Because>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::violation;

    #[test]
    fn the_json_has_the_documented_fields() {
        let mut report = ReplayReport::new(7, Digest(15), 1_234);
        report.violations = vec![violation("c", Kind::Always, None)];
        let value = serde_json::to_value(&report).unwrap();
        assert_eq!(value["schema"], "ipam-sim/replay/1");
        assert_eq!(value["seed"], 7);
        assert_eq!(value["digest"], "0000000000000000000000000000000f");
        assert_eq!(value["events"], 1_234);
        assert_eq!(value["violations"], serde_json::json!([{"claim":"c","kind":"always","at_s":41.207,"excuse":null}]));
    }

    #[test]
    fn a_reader_skips_unknown_fields_and_does_without_later_ones() {
        let text = r#"{"schema":"ipam-sim/replay/1","seed":1,"digest":"0000000000000000000000000000000f","events":2,
            "violations":[{"claim":"c","kind":"always","at_s":1,"excuse":null,"mood":"bad"}],"weather":"fair"}"#;
        let report = ReplayReport::from_json(text).unwrap();
        assert_eq!((report.violations.len(), report.trace), (1, None));
    }

    #[test]
    fn a_replay_exits_with_what_it_saw() {
        let code = |violations: Vec<Violation>, nondeterministic| {
            ReplayReport { violations, nondeterministic, ..ReplayReport::new(0, Digest(0), 0) }.judge()
        };
        assert_eq!(code(vec![], false), exit::HELD);
        assert_eq!(code(vec![violation("c", Kind::Always, Some("partition"))], false), exit::HELD);
        assert_eq!(code(vec![violation("c", Kind::Eventually, None)], false), exit::NOT_EVENTUALLY);
        assert_eq!(code(vec![violation("c", Kind::Eventually, None), violation("d", Kind::Always, None)], false), exit::VIOLATED);
        assert_eq!(code(vec![violation("c", Kind::Always, None)], true), exit::NONDETERMINISTIC);
    }
}
