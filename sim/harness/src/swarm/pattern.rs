//! Named schedules of several faults: the three patterns in which controllers break (K §9.1, Sieve), and partitions by their shape.

use std::time::Duration;

use kube_sim::fault::{ApiServerFreeze, Crash, CrashAtWrite, Fault, FaultKind, HistoryLost, Reconnect, Target, Window};
use sim_config::draw::{Draw, below};
use sim_config::time::{SimTime, Span};
use sim_config::{Choice, With};

use super::Setting;
use super::partition::Shape;

/// The number of writes among which the first crash of an intermediate state is drawn.
const WRITES: u64 = 12;

/// A schedule of several faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// A process acts on the present state, then is restarted or moved to an API server that still shows the past (time travel).
    StaleState,
    /// Changes occur and are undone unobserved: the caches stop advancing, and their history is lost before they resume.
    UnobservedState,
    /// A process crashes at several writes in a row, each time in the middle of the same change.
    IntermediateState,
    /// A partition of processes and API servers in this shape.
    Partition(Shape),
}

/// Every pattern that a swarm can draw, in the order in which they are listed; partitions once for each shape.
pub const PATTERNS: [Pattern; 8] = [
    Pattern::StaleState,
    Pattern::UnobservedState,
    Pattern::IntermediateState,
    Pattern::Partition(Shape::Halves),
    Pattern::Partition(Shape::Ring),
    Pattern::Partition(Shape::Bridge),
    Pattern::Partition(Shape::Node),
    Pattern::Partition(Shape::Swizzle),
];

impl Pattern {
    /// Its name in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Pattern::StaleState => "stale-state",
            Pattern::UnobservedState => "unobserved-state",
            Pattern::IntermediateState => "intermediate-state",
            Pattern::Partition(Shape::Halves) => "partition-halves",
            Pattern::Partition(Shape::Ring) => "partition-ring",
            Pattern::Partition(Shape::Bridge) => "partition-bridge",
            Pattern::Partition(Shape::Node) => "partition-node",
            Pattern::Partition(Shape::Swizzle) => "swizzle",
        }
    }

    /// The effect, in a sentence.
    pub const fn about(self) -> &'static str {
        match self {
            Pattern::StaleState => {
                "One API server's caches stop advancing shortly before an operation; a process that has seen more is moved \
                 to it, half of the time by a crash."
            }
            Pattern::UnobservedState => {
                "All watch caches stop advancing around an operation; half of the time their history is lost before they \
                 resume, so that clients only see the result."
            }
            Pattern::IntermediateState => "A process crashes at one to three writes in a row, before or after their commits.",
            Pattern::Partition(Shape::Halves) => "Processes and API servers are split into two halves, as when a zone is cut off.",
            Pattern::Partition(Shape::Ring) => "Each process reaches two API servers that are next to each other; needs three servers.",
            Pattern::Partition(Shape::Bridge) => {
                "Each of two groups reaches an API server of its own and one that both reach, the bridge; needs three servers."
            }
            Pattern::Partition(Shape::Node) => "One process is cut off from all others.",
            Pattern::Partition(Shape::Swizzle) => {
                "Several processes are cut off from the API servers one after the other, and reconnect in another order."
            }
        }
    }

    /// The kinds of faults that it consists of.
    pub const fn faults(self) -> &'static str {
        match self {
            Pattern::StaleState => "api-server-freeze, reconnect, crash",
            Pattern::UnobservedState => "api-server-freeze, history-lost",
            Pattern::IntermediateState => "crash-at-write",
            Pattern::Partition(_) => "partition",
        }
    }

    /// Its faults in a run; none if the workload has no targets for it.
    pub fn draw(self, setting: &Setting<'_>, shortest: Span, longest: Span, draw: &mut Draw) -> Vec<Fault> {
        if let Pattern::Partition(shape) = self {
            return shape.draw(setting, shortest, longest, draw);
        }
        let Setting { safety, targets, ops, names, .. } = setting;
        // The same numbers are drawn for any run.
        let (which, server, other, moment, object) = (draw.u64(), draw.u64(), draw.u64(), draw.u64(), draw.u64());
        let (lead, act, half) = (draw.unit(), draw.unit(), draw.u64() >> 63 == 0);
        let (lasts, down) = (Choice::Between(shortest, longest).draw(draw), Choice::Between(Span::millis(100), Span::secs(5)).draw(draw));
        let pick = |names: &[String], word: u64| names.get(below(word, (names.len() as u64).max(1)) as usize).cloned();
        let Some(process) = pick(&targets.processes, which).map(|name| Target::from_text(&name)) else { return Vec::new() };
        // Around an operation: faults in quiet times are a waste (K §9.1, pruning rules).
        let in_time: Vec<Duration> = ops.iter().map(|op| op.common.at.since(SimTime::ZERO)).filter(|at| *at < safety.0).collect();
        let happens = match in_time.get(below(moment, (in_time.len() as u64).max(1)) as usize) {
            Some(at) => *at,
            None => safety.0.mul_f64(sim_config::draw::unit(moment)),
        };
        let begin = happens.saturating_sub(lasts.0.mul_f64(lead));
        let resource = targets.resources.get(below(object, targets.resources.len() as u64 + 1) as usize).cloned();
        let resource = resource.unwrap_or_else(|| "*".to_owned());
        let row = |at: Duration, lasts: Option<Span>, kind: FaultKind| With { common: Window::new(SimTime::ZERO + at, lasts), kind };
        let freeze =
            |server: Target| row(begin, Some(lasts), FaultKind::ApiServerFreeze(ApiServerFreeze { server, resource: resource.clone() }));
        match self {
            Pattern::StaleState => {
                let servers: Vec<String> = names.iter().filter(|name| name.starts_with("apiserver-")).cloned().collect();
                let Some(behind) = pick(&servers, server) else { return Vec::new() };
                let rest: Vec<String> = servers.into_iter().filter(|name| *name != behind).collect();
                let Some(ahead) = pick(&rest, other) else { return Vec::new() };
                let to = |at: Duration, server: &str| {
                    row(at, None, FaultKind::Reconnect(Reconnect { process: process.clone(), server: Target::from_text(server) }))
                };
                let travel = begin + lasts.0.mul_f64(0.2 + 0.6 * act);
                let mut faults = vec![to(begin, &ahead), freeze(Target::from_text(&behind))];
                if half {
                    faults.push(row(travel, None, FaultKind::Crash(Crash { process: process.clone(), down })));
                    // It starts again and asks the server that is behind.
                    faults.push(to(travel + down.0, &behind));
                } else {
                    faults.push(to(travel, &behind));
                }
                faults.retain(|fault| fault.common.at < SimTime::ZERO + safety.0);
                faults
            }
            Pattern::UnobservedState => {
                let mut faults = vec![freeze(Target::from_text("apiserver-*"))];
                let end = begin + lasts.0;
                if half && end < safety.0 {
                    let lost = HistoryLost { server: Target::from_text("apiserver-*"), resource: resource.clone() };
                    faults.push(row(end, None, FaultKind::HistoryLost(lost)));
                }
                faults
            }
            Pattern::IntermediateState => {
                let first = 1 + below(other, WRITES) as u32;
                let crashes = 1 + below(server, 3) as u32;
                let at = |nth| {
                    let crash = CrashAtWrite { process: process.clone(), nth, after_commit: half, down };
                    row(Duration::ZERO, None, FaultKind::CrashAtWrite(crash))
                };
                (first..first + crashes).map(at).collect()
            }
            Pattern::Partition(_) => unreachable!("drawn by its shape"),
        }
    }
}
