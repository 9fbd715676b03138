//! The parameters of a point of a report, and what varying one of them does to it.

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

/// r of B §8.1, and how many times as long w is.
const READ: Span = Span::millis(4);
const WRITE_OF_READ: f64 = 2.5;
/// t of B §8.1.
const THINK: Span = Span::micros(500);
/// How long a server of a width works on a read, unless it is said.
const SERVICE: Span = Span::millis(1);
/// How many times as long it works on a write, and on saying that one met a conflict (measured: a 409 takes 1.2 to 1.3 times as long as a
/// 200).
const WRITE_WORK_OF_READ: f64 = 1.5;
const CONFLICT_WORK_OF_WRITE: f64 = 0.25;

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
    /// How pods come to their first calls.
    pub(super) start: Start,
    /// Whether agents behave as upstream's.
    pub(super) upstream: bool,
    /// How many requests a server works on at a time; 0 = everything at once.
    pub(super) width: u32,
    /// For how long a read keeps such a server busy.
    pub(super) service: Span,
    /// The servers of a scenario, which say what `latency`, `width` and `service` do otherwise.
    pub(super) servers: Option<Arc<Servers>>,
    /// The faults that bursts meet; unset = none.
    pub(super) faults: Option<Arc<Faults>>,
    /// How a write is tried again, in numbers, in place of `retry`.
    pub(super) backoff: Option<BackoffPlan>,
    /// Over how many pools writers are spread.
    pub(super) pools: u32,
    /// What orders the writers.
    pub(super) order: Order,
    /// Whether VMs are tried also where each attempt decides again.
    pub(super) probes: bool,
}

/// What orders the writers of a pool.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Whoever writes first wins, and the others meet a conflict.
    Conflicts,
    /// A Lease, which they hold in turn.
    Lease,
    /// One process that writes for all.
    Allocator,
}

impl Order {
    /// As a table has it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Order::Conflicts => "",
            Order::Lease => "lease",
            Order::Allocator => "allocator",
        }
    }
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

    /// Whether an axis can show it.
    pub(super) fn is_numeric(&self) -> bool {
        if let Values::Width(values) = self {
            // No queue at all is no number.
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

    /// `point` with the value of this number, and the value as text.
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
            // No point has such a thing, and whoever asks for one is told so before.
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

impl SweepPoint {
    /// How a write is tried again, as a table has it; `name` is that of a policy that has one.
    pub(super) fn told_retry(&self, name: &str) -> String {
        let Some(backoff) = self.backoff else { return name.to_owned() };
        let cap = backoff.cap.map_or_else(String::new, |cap| format!(" up to {cap}"));
        let jitter = if backoff.full_jitter { "full".to_owned() } else { format!("{} %", backoff.jitter * 100.0) };
        format!("{} attempts, {} x {}^n{cap}, jitter {jitter}", backoff.attempts, backoff.base, backoff.factor)
    }

    /// What a table says of the faults that bursts meet.
    pub(super) fn told_faults(&self) -> String {
        self.faults.as_ref().map(|faults| faults.name.clone()).unwrap_or_default()
    }

    /// How long calls of a burst are under way that begin at once, about: as long as four attempts take, and half a second for the sleeps
    /// between them; and as long as their starts are spread.
    pub(super) fn length(&self) -> Duration {
        let attempt = self.read().0 + self.write().0 + 2 * self.think.0;
        self.spread.0 + 4 * attempt + Duration::from_millis(500)
    }

    /// Whether a VM is tried before its address is handed out.
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

    /// How many requests a server works on at a time; 0 = everything at once.
    pub(super) fn server_width(&self) -> u32 {
        self.servers.as_ref().map_or(self.width, |servers| servers.width)
    }

    /// For how long a read keeps a server busy that works on only so many requests at a time.
    pub(super) fn busy(&self) -> Span {
        match &self.servers {
            Some(servers) => servers.service,
            None if self.width == 0 => Span::micros(0),
            None => self.service,
        }
    }

    /// Makes round trips of a cluster as long as is stated, all in all: what a server works on a request is a part of it, and neither links
    /// nor anything else adds to it.
    ///
    /// # Errors
    /// The work alone takes longer.
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

/// A delay whose mean is half of this, 20 % more or less (B §8.1).
fn half_of(round_trip: Span) -> Delay {
    let micros = |part: f64| Span::micros((round_trip.0.as_micros() as f64 / 2.0 * part).round() as u64);
    Delay::Uniform { low: micros(0.8), high: micros(1.2) }
}
