//! The parameters of a point of a report, and what varying one of them does to it.

use ipam_reports::conflicts::{DECIDES_AGAIN, DECIDES_ONCE, System};
use kube_sim::net::Delay;
use sim_byom::workload::burst::{RetryName, Throttle};
use sim_config::time::Span;

use crate::cli::report::vary::Values;

/// r of B §8.1, and how many times as long w is.
const READ: Span = Span::millis(4);
pub(super) const WRITE_OF_READ: f64 = 2.5;
/// t of B §8.1.
const THINK: Span = Span::micros(500);

/// The parameters of a point: everything that tells one from another.
#[derive(Clone)]
pub(super) struct SweepPoint {
    pub(super) system: System,
    pub(super) instances: u32,
    pub(super) pool: Option<u32>,
    /// The share of the pool that is taken at the beginning.
    pub(super) fill: f64,
    pub(super) spread: Span,
    pub(super) latency: Span,
    pub(super) think: Span,
    pub(super) retry: RetryName,
    pub(super) once: bool,
    pub(super) first: bool,
    pub(super) throttle: Throttle,
    /// Pods of a node.
    pub(super) pods: u32,
    /// Whether agents behave as upstream's.
    pub(super) upstream: bool,
}

/// client-go's `DefaultBackoff`, which is in use, all at once, decided again after each conflict (B §8.1).
pub(super) const IN_USE: SweepPoint = SweepPoint {
    system: System::Byom,
    instances: 0,
    pool: None,
    fill: 0.0,
    spread: Span::micros(0),
    latency: READ,
    think: THINK,
    retry: RetryName::DefaultBackoff,
    once: false,
    first: false,
    throttle: Throttle::None,
    pods: 1,
    upstream: false,
};

impl Values {
    pub(super) fn count(&self) -> usize {
        match self {
            Values::Instances(values) | Values::Nodes(values) | Values::Pods(values) | Values::Pool(values) => values.len(),
            Values::Fill(values) => values.len(),
            Values::Spread(values) | Values::Latency(values) | Values::Think(values) => values.len(),
            Values::Retry(values) => values.len(),
            Values::Update(values) | Values::Selection(values) | Values::Policy(values) => values.len(),
            Values::Throttle(values) => values.len(),
        }
    }

    /// Whether an axis can show it.
    pub(super) fn is_numeric(&self) -> bool {
        !matches!(self, Values::Policy(_) | Values::Retry(_) | Values::Update(_) | Values::Selection(_) | Values::Throttle(_))
    }

    /// `point` with the value of this number, and the value as text.
    pub(super) fn put(&self, number: usize, point: SweepPoint) -> (String, SweepPoint) {
        match self {
            Values::Instances(values) => (values[number].to_string(), SweepPoint { instances: values[number], ..point }),
            Values::Nodes(values) => (values[number].to_string(), SweepPoint { instances: values[number], ..point }),
            Values::Pods(values) => (values[number].to_string(), SweepPoint { pods: values[number], ..point }),
            Values::Policy(values) => (policy_name(values[number]).to_owned(), SweepPoint { upstream: values[number], ..point }),
            Values::Pool(values) => (values[number].to_string(), SweepPoint { pool: Some(values[number]), ..point }),
            Values::Fill(values) => (format!("{} %", values[number] * 100.0), SweepPoint { fill: values[number], ..point }),
            Values::Spread(values) => (values[number].to_string(), SweepPoint { spread: values[number], ..point }),
            Values::Latency(values) => (values[number].to_string(), SweepPoint { latency: values[number], ..point }),
            Values::Think(values) => (values[number].to_string(), SweepPoint { think: values[number], ..point }),
            Values::Retry(values) => (name_of(&values[number]), SweepPoint { retry: values[number], ..point }),
            Values::Update(values) => (update_name(values[number]).to_owned(), SweepPoint { once: values[number], ..point }),
            Values::Selection(values) => (selection_name(values[number]).to_owned(), SweepPoint { first: values[number], ..point }),
            Values::Throttle(values) => (name_of(&values[number]), SweepPoint { throttle: values[number], ..point }),
        }
    }
}

pub(super) fn update_name(once: bool) -> &'static str {
    if once { DECIDES_ONCE } else { DECIDES_AGAIN }
}

/// What a table says of the behaviour of agents.
pub(super) fn policy_name(upstream: bool) -> &'static str {
    if upstream { "upstream" } else { "hardened" }
}

pub(super) fn selection_name(first: bool) -> &'static str {
    if first { "first" } else { "hash" }
}

/// The name that a scenario has for it.
pub(super) fn name_of(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// A delay whose mean is half of this, 20 % more or less (B §8.1).
pub(super) fn half_of(round_trip: Span, factor: f64) -> Delay {
    let micros = |part: f64| Span::micros((round_trip.0.as_micros() as f64 * factor / 2.0 * part).round() as u64);
    Delay::Uniform { low: micros(0.8), high: micros(1.2) }
}
