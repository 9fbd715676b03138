//! The number and the times of occurrences of a scenario's fault.

use kube_sim::fault::{FaultDraft, ObjectChangeDraft};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::phase_time::PhaseTime;
use sim_config::time::Span;
use sim_config::{Choice, Probability, With};

/// The number and the times of occurrences of a scenario's fault in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Occurrence {
    /// The probability that a run has this fault at all.
    pub likelihood: Probability,
    /// The number of occurrences in a run that has the fault.
    pub count: Choice<u32>,
    /// The start of each occurrence, as a duration from the beginning or a part of the safety phase (`"50%"`); unset = any time of the
    /// safety phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Choice<PhaseTime>>,
    /// Changes that trigger the fault: it begins with the last of them. Each is waited for after the one before it, the first from `at` on;
    /// empty = the fault begins at its time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<ObjectChangeDraft>,
    /// The duration of each occurrence, as a duration or a part of the safety phase (`"100%"`: until the faults heal); unset =
    /// `"100ms..10s"`.
    #[serde(rename = "for")]
    pub lasts: Choice<PhaseTime>,
}

impl Default for Occurrence {
    fn default() -> Self {
        let lasts = Choice::Between(Span::millis(100).into(), Span::secs(10).into());
        Self { likelihood: Probability::ALWAYS, count: Choice::Is(1), at: None, when: Vec::new(), lasts }
    }
}

/// A fault of a scenario.
pub type DraftFault = With<Occurrence, FaultDraft>;
