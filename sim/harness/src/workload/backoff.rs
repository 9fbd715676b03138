//! The backoff of a write that met a conflict, in numbers.

use std::time::Duration;

use kube_machinery::retry::{Backoff, Jitter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::time::Span;
use sim_config::{Problems, Source};

/// Sleeps between attempts: client-go's `wait.Backoff`, with a bound and full jitter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackoffPlan {
    /// Total number of attempts, at least 1; there is one sleep less.
    pub attempts: u32,
    /// The first sleep, before jitter.
    pub base: Span,
    /// The factor by which each sleep, before jitter, is longer than the previous one.
    pub factor: f64,
    /// The longest sleep before jitter. Unlike client-go's `Cap`, it does not end the attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<Span>,
    /// A sleep of d becomes uniform between d and d + jitter * d.
    #[serde(default)]
    pub jitter: f64,
    /// Whether a sleep of d becomes uniform between 0 and d instead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full_jitter: bool,
}

impl From<Backoff> for BackoffPlan {
    fn from(backoff: Backoff) -> Self {
        let Backoff { steps, base, factor, cap, jitter } = backoff;
        let (jitter, full_jitter) = match jitter {
            Jitter::Added(part) => (part, false),
            Jitter::Full => (0.0, true),
        };
        Self { attempts: steps, base: Span(base), factor, cap: (cap < Duration::MAX).then_some(Span(cap)), jitter, full_jitter }
    }
}

impl BackoffPlan {
    /// The policy with these numbers.
    pub fn backoff(&self) -> Backoff {
        let jitter = if self.full_jitter { Jitter::Full } else { Jitter::Added(self.jitter) };
        Backoff { steps: self.attempts, base: self.base.0, factor: self.factor, cap: self.cap.map_or(Duration::MAX, |cap| cap.0), jitter }
    }

    /// Values that no policy has; `at` is the key of the policy.
    pub fn problems(&self, source: Source<'_>, at: &str) -> Problems {
        let mut problems = super::at_least_one(source, &format!("{at}.attempts"), &format!("`{at}.attempts`"), self.attempts);
        for (name, number, least) in [("factor", self.factor, 1.0), ("jitter", self.jitter, 0.0)] {
            if !(least..=100.0).contains(&number) {
                let wrong = format!("`{at}.{name}` is {number}");
                problems.push(source.problem(&format!("{at}.{name}"), wrong, format!("a number from {least} to 100")));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use kube_machinery::retry::{DEFAULT_BACKOFF, DEFAULT_RETRY};

    use super::*;

    #[test]
    fn a_policy_is_the_same_after_it_was_written_down() {
        let full = Backoff { cap: Duration::from_millis(500), jitter: Jitter::Full, ..DEFAULT_BACKOFF };
        for backoff in [DEFAULT_BACKOFF, DEFAULT_RETRY, full] {
            let text = toml::to_string(&BackoffPlan::from(backoff)).unwrap();
            assert_eq!(toml::from_str::<BackoffPlan>(&text).unwrap().backoff(), backoff, "{text}");
        }
    }

    #[test]
    fn what_no_policy_has_is_told_with_its_place() {
        let wrong = BackoffPlan { attempts: 0, factor: 0.5, jitter: f64::NAN, ..DEFAULT_BACKOFF.into() };
        let told = wrong.problems(Source::new("a.toml", ""), "workload.backoff").to_string();
        for expected in ["workload.backoff.attempts", "`workload.backoff.factor` is 0.5", "`workload.backoff.jitter` is NaN"] {
            assert!(told.contains(expected), "{told}");
        }
    }
}
