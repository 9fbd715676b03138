//! The parameters of a point of a report, and the effect of varying one of them.

use std::sync::Arc;
use std::time::Duration;

use ipam_reports::conflicts::{DECIDES_AGAIN, DECIDES_ONCE, System};
use kube_sim::cluster::capacity::Capacity;
use kube_sim::net::{Delay, LinkDelays};
use sim_byom::workload::burst::{RetryName, Throttle};
use sim_config::time::Span;
use sim_harness::scenario::ClusterDraft;
use sim_harness::workload::BackoffPlan;

use super::faults::Faults;
use super::servers::Servers;
use crate::cli::CliError;
use crate::cli::report::vary::{Start, Values};

/// The mean round trip of a read, r of B §8.1, and the ratio of that of a write, w, to it.
const READ: Span = Span::millis(4);
const WRITE_OF_READ: f64 = 2.5;
/// The think time, t of B §8.1.
const THINK: Span = Span::micros(500);
/// The default time for which a server with a width processes a read.
const SERVICE: Span = Span::millis(1);
/// The ratio of the processing time of a write to that of a read, and the fraction of the former that a conflict adds (measured: a 409
/// takes 1.2 to 1.3 times as long as a 200).
const WRITE_WORK_OF_READ: f64 = 1.5;
const CONFLICT_WORK_OF_WRITE: f64 = 0.25;

/// The parameters of a point, which distinguish it from other points.
#[derive(Clone)]
pub(super) struct SweepPoint {
    pub(super) system: System,
    pub(super) instances: u32,
    pub(super) pool: Option<u32>,
    /// The fraction of the pool that is taken at the beginning.
    pub(super) fill: f64,
    pub(super) spread: Span,
    pub(super) latency: Span,
    pub(super) think: Span,
    pub(super) retry: RetryName,
    pub(super) once: bool,
    pub(super) first: bool,
    pub(super) throttle: Throttle,
    /// The number of pods per node.
    pub(super) pods: u32,
    /// The way in which pods make their first calls.
    pub(super) start: Start,
    /// Whether agents behave like upstream's.
    pub(super) upstream: bool,
    /// The number of requests that a server processes at a time; 0 = unlimited.
    pub(super) width: u32,
    /// The time for which a read keeps such a server busy.
    pub(super) service: Span,
    /// The servers of a scenario, which replace `latency`, `width` and `service`.
    pub(super) servers: Option<Arc<Servers>>,
    /// The faults that bursts meet; `None` = no faults.
    pub(super) faults: Option<Arc<Faults>>,
    /// The retry policy in numbers, instead of `retry`.
    pub(super) backoff: Option<BackoffPlan>,
    /// The number of pools over which writers are spread.
    pub(super) pools: u32,
    /// The way in which the writers are coordinated.
    pub(super) order: Order,
    /// Whether VMs are probed even if each attempt decides again.
    pub(super) probes: bool,
}

/// The way in which the writers of a pool are coordinated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The first writer wins, and the others meet a conflict.
    Conflicts,
    /// Writers hold a Lease in turn.
    Lease,
    /// One process writes for all.
    Allocator,
}

impl Order {
    /// The name in a table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Order::Conflicts => "",
            Order::Lease => "lease",
            Order::Allocator => "allocator",
        }
    }
}

/// The policy in use: client-go's `DefaultBackoff`, all at once, decided again after each conflict (B §8.1).
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
    start: Start::Kubelets,
    upstream: false,
    width: 0,
    service: SERVICE,
    servers: None,
    faults: None,
    backoff: None,
    pools: 1,
    order: Order::Conflicts,
    probes: false,
};

impl Values {
    pub(super) fn count(&self) -> usize {
        match self {
            Values::Instances(values) | Values::Nodes(values) | Values::Pods(values) | Values::Pool(values) | Values::Width(values) => {
                values.len()
            }
            Values::Fill(values) => values.len(),
            Values::Spread(values) | Values::Latency(values) | Values::Think(values) | Values::Service(values) => values.len(),
            Values::Retry(values) => values.len(),
            Values::Update(values) | Values::Selection(values) | Values::Policy(values) => values.len(),
            Values::Start(values) => values.len(),
            Values::Throttle(values) => values.len(),
            Values::Faults(values) => values.len(),
            Values::Setting(values) => values.len(),
        }
    }

    /// Whether the values can be placed on an axis.
    pub(super) fn is_numeric(&self) -> bool {
        if let Values::Width(values) = self {
            // An unlimited width is not a number.
            return !values.contains(&0);
        }
        !matches!(
            self,
            Values::Start(_)
                | Values::Policy(_)
                | Values::Retry(_)
                | Values::Update(_)
                | Values::Selection(_)
                | Values::Throttle(_)
                | Values::Faults(_)
                | Values::Setting(_)
        )
    }

    /// Sets value number `number` in `point`; also returns the value as text.
    pub(super) fn put(&self, number: usize, point: SweepPoint) -> (String, SweepPoint) {
        match self {
            Values::Instances(values) => (values[number].to_string(), SweepPoint { instances: values[number], ..point }),
            Values::Nodes(values) => (values[number].to_string(), SweepPoint { instances: values[number], ..point }),
            Values::Pods(values) => (values[number].to_string(), SweepPoint { pods: values[number], ..point }),
            Values::Start(values) => (values[number].name().to_owned(), SweepPoint { start: values[number], ..point }),
            Values::Policy(values) => (policy_name(values[number]).to_owned(), SweepPoint { upstream: values[number], ..point }),
            Values::Pool(values) => (values[number].to_string(), SweepPoint { pool: Some(values[number]), ..point }),
            Values::Fill(values) => (format!("{} %", values[number] * 100.0), SweepPoint { fill: values[number], ..point }),
            Values::Spread(values) => (values[number].to_string(), SweepPoint { spread: values[number], ..point }),
            Values::Latency(values) => (values[number].to_string(), SweepPoint { latency: values[number], ..point }),
            Values::Think(values) => (values[number].to_string(), SweepPoint { think: values[number], ..point }),
            Values::Retry(values) => (name_of(&values[number]), SweepPoint { retry: values[number], ..point }),
            Values::Update(values) => (update_name(values[number]).to_owned(), SweepPoint { once: values[number], ..point }),
            Values::Selection(values) => (selection_name(values[number]).to_owned(), SweepPoint { first: values[number], ..point }),
            Values::Width(values) => (width_name(values[number]), SweepPoint { width: values[number], ..point }),
            Values::Service(values) => (values[number].to_string(), SweepPoint { service: values[number], ..point }),
            Values::Faults(values) => {
                let profile = values[number];
                (profile.name().to_owned(), SweepPoint { faults: Faults::of_profile(profile), ..point })
            }
            // No point has such a parameter, and a request for one is refused earlier.
            Values::Setting(values) => (values[number].clone(), point),
            Values::Throttle(values) => (name_of(&values[number]), SweepPoint { throttle: values[number], ..point }),
        }
    }
}

fn width_name(width: u32) -> String {
    if width == 0 { "none".to_owned() } else { width.to_string() }
}

pub(super) fn update_name(once: bool) -> &'static str {
    if once { DECIDES_ONCE } else { DECIDES_AGAIN }
}

/// The behaviour of agents as a table calls it.
pub(super) fn policy_name(upstream: bool) -> &'static str {
    if upstream { "upstream" } else { "hardened" }
}

pub(super) fn selection_name(first: bool) -> &'static str {
    if first { "first" } else { "hash" }
}

/// The name of a value in a scenario.
pub(super) fn name_of(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

impl SweepPoint {
    /// The retry policy as a table calls it; `name` is that of a policy that has one.
    pub(super) fn told_retry(&self, name: &str) -> String {
        let Some(backoff) = self.backoff else { return name.to_owned() };
        let cap = backoff.cap.map_or_else(String::new, |cap| format!(" up to {cap}"));
        let jitter = if backoff.full_jitter { "full".to_owned() } else { format!("{} %", backoff.jitter * 100.0) };
        format!("{} attempts, {} x {}^n{cap}, jitter {jitter}", backoff.attempts, backoff.base, backoff.factor)
    }

    /// The faults that bursts meet, as a table calls them.
    pub(super) fn told_faults(&self) -> String {
        self.faults.as_ref().map(|faults| faults.name.clone()).unwrap_or_default()
    }

    /// The approximate time for which the calls of a burst are in progress: that of four attempts, half a second for the sleeps between
    /// them, and the spread of the starts.
    pub(super) fn length(&self) -> Duration {
        let attempt = self.read().0 + self.write().0 + 2 * self.think.0;
        self.spread.0 + 4 * attempt + Duration::from_millis(500)
    }

    /// Whether a VM is probed before its address is handed out.
    pub(super) fn tries_vms(&self) -> bool {
        self.once || self.probes
    }

    /// The mean round trip of a read.
    pub(super) fn read(&self) -> Span {
        self.servers.as_ref().map_or(self.latency, |servers| servers.read)
    }

    /// The mean round trip of a write.
    pub(super) fn write(&self) -> Span {
        self.servers.as_ref().map_or_else(|| scaled(self.latency, WRITE_OF_READ), |servers| servers.write)
    }

    /// The number of requests that a server processes at a time; 0 = unlimited.
    pub(super) fn server_width(&self) -> u32 {
        self.servers.as_ref().map_or(self.width, |servers| servers.width)
    }

    /// The time for which a read keeps a server of limited width busy.
    pub(super) fn busy(&self) -> Span {
        match &self.servers {
            Some(servers) => servers.service,
            None if self.width == 0 => Span::micros(0),
            None => self.service,
        }
    }

    /// Makes the total round trips of a cluster as long as stated: they include the server's processing time, and neither links nor
    /// anything else adds to them.
    ///
    /// # Errors
    /// The processing time alone is longer.
    pub(super) fn apply(&self, cluster: &mut ClusterDraft) -> Result<(), CliError> {
        if let Some(servers) = &self.servers {
            servers.apply(cluster);
            return Ok(());
        }
        let none = Delay::Constant(Span::micros(0));
        let write_work = scaled(self.busy(), WRITE_WORK_OF_READ);
        let rest = |round_trip: Span, work: Span| {
            let rest = round_trip.0.checked_sub(work.0).ok_or_else(|| {
                CliError::usage(format!(
                    "a server that works for {work} on a request cannot answer within {round_trip}; state a \
                     longer latency or a shorter service"
                ))
            });
            rest.map(|rest| half_of(Span(rest)))
        };
        let (read, write) = (rest(self.latency, self.busy())?, rest(self.write(), write_work)?);
        cluster.links = LinkDelays { healthy: none, degraded: none };
        let delays = &mut cluster.delays;
        delays.processing = none;
        (delays.quorum_read, delays.quorum_read_answer) = (read, read);
        (delays.commit, delays.commit_answer) = (write, write);
        cluster.capacity = (self.width > 0).then(|| {
            let about = |span: Span| half_of(scaled(span, 2.0));
            let capacity = Capacity {
                width: self.width,
                read: about(self.service),
                write: about(write_work),
                conflict: about(scaled(write_work, CONFLICT_WORK_OF_WRITE)),
                ..Capacity::default()
            };
            capacity.into()
        });
        Ok(())
    }
}

fn scaled(span: Span, factor: f64) -> Span {
    Span::micros((span.0.as_micros() as f64 * factor).round() as u64)
}

/// A delay whose mean is half of this round trip, 20 % more or less (B §8.1).
fn half_of(round_trip: Span) -> Delay {
    let micros = |part: f64| Span::micros((round_trip.0.as_micros() as f64 / 2.0 * part).round() as u64);
    Delay::Uniform { low: micros(0.8), high: micros(1.2) }
}
