//! How often a scenario's fault occurs, and when.

use kube_sim::fault::{FaultDraft, ObjectChangeDraft};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::phase_time::PhaseTime;
use sim_config::time::Span;
use sim_config::{Choice, Probability, With};

/// How often a scenario's fault occurs in a run, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Occurrence {
    /// The probability that a run has this fault at all.
    pub likelihood: Probability,
    /// How often it occurs in a run that has it.
    pub count: Choice<u32>,
    /// When each occurrence takes hold, as a duration from the beginning or a part of the safety phase (`"50%"`); unset = at any time of
    /// that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Choice<PhaseTime>>,
    /// It begins with the last of these changes, each of which is waited for when the one before it has happened, the first from `at` on;
    /// empty = at its time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<ObjectChangeDraft>,
    /// How long each lasts, as a duration or a part of the safety phase (`"100%"`: until the faults heal); unset = `"100ms..10s"`.
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
