//! The faults of a scenario's plans: their sources, and the alternatives that could have been drawn.
//!
//! ```text
//!   rows of the scenario ─┐
//!   kinds of the swarm   ─┼─ each from a stream of its own ──► faults, each with its source ──► plan, by time
//!   patterns of it       ─┤
//!   a core that stays    ─┘
//! ```
//! Streams are independent. So a plan that takes the faults of one source from another seed is one that the scenario could have drawn, too:
//! the edits of a search rely on that.

use std::fmt;
use std::str::FromStr;

use kube_sim::fault::{ApiServerCrash, Fault, FaultKind, FaultTargets, HostDown, ObjectChange, Partition, Target, Window};
use serde::{Deserialize, Serialize};
use sim_config::With;
use sim_config::draw::{Concern, Draw};
use sim_config::kinds::Kinds;
use sim_config::time::{SimTime, Span};

use super::{Heal, Scenario};
use crate::occurrence::DraftFault;
use crate::plan::{Plan, server_name};
use crate::swarm::{Setting, is_pattern, stream_of};

/// The part of a scenario that a fault of its plan comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum FaultSource {
    /// The `[[fault]]` row with this number, from 0 on.
    Row(usize),
    /// This kind or pattern of its swarm.
    Swarm(String),
    /// The permanent failures of [`Heal::Core`].
    Core,
}

impl fmt::Display for FaultSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultSource::Row(number) => write!(f, "row {number}"),
            FaultSource::Swarm(name) => write!(f, "swarm {name}"),
            FaultSource::Core => f.write_str("core"),
        }
    }
}

impl From<FaultSource> for String {
    fn from(source: FaultSource) -> Self {
        source.to_string()
    }
}

impl FromStr for FaultSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(' ') {
            Some(("row", number)) => number.parse().map(Self::Row).map_err(|_| format!("`{number}` is no number of a row")),
            Some(("swarm", name)) => Ok(Self::Swarm(name.to_owned())),
            None if text == "core" => Ok(Self::Core),
            _ => Err(format!("`{text}` is no source of faults; expected `row N`, `swarm NAME` or `core`")),
        }
    }
}

impl TryFrom<String> for FaultSource {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// A fault, and its source.
pub type Sourced = (FaultSource, Fault);

/// Sets the faults of a plan, by time, and returns the source of each. Faults with the same time stay in the order in which they were
/// drawn.
pub fn sort_faults(plan: &mut Plan, mut faults: Vec<Sourced>) -> Vec<FaultSource> {
    faults.sort_by_key(|(_, fault)| fault.common.at);
    let (sources, faults) = faults.into_iter().unzip();
    plan.fault = faults;
    sources
}

/// Everything that the draws of a plan's faults depend on.
pub struct FaultContext<'a> {
    plan: &'a Plan,
    /// The processes and hosts.
    names: Vec<String>,
    targets: FaultTargets,
}

impl<'a> FaultContext<'a> {
    /// The context of a plan, whatever faults it has.
    pub fn of(plan: &'a Plan) -> Self {
        Self { plan, names: plan.names(), targets: plan.workload.work().fault_targets(&plan.op) }
    }

    /// The duration of the safety phase.
    pub fn safety(&self) -> Span {
        Span(self.plan.heal_at.since(SimTime::ZERO))
    }

    /// The setting of the swarm for the draws of `seed`.
    pub fn setting(&self, seed: u64) -> Setting<'_> {
        Setting { seed, safety: self.safety(), targets: &self.targets, ops: &self.plan.op, names: &self.names }
    }

    /// The processes and hosts of the plan.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether `faults` of this source, which were drawn for `other`, could have been drawn here, too.
    pub fn takes(&self, scenario: &Scenario, source: &FaultSource, faults: &[Fault], other: &Self) -> bool {
        let same_time = self.plan.heal_at == other.plan.heal_at;
        match source {
            // Times of a row may be parts of the phase, and targets were drawn from the matching names.
            FaultSource::Row(_) => same_time && holds(&self.names, &other.names),
            // Each fault targets one or some of the names in a list, whatever else is in it; webhooks that share a Secret are targeted
            // together.
            FaultSource::Swarm(name) if !is_pattern(name) => {
                let (own, their) = (&self.targets, &other.targets);
                let lists = [
                    (&own.processes, &their.processes),
                    (&own.hosts, &their.hosts),
                    (&own.peers, &their.peers),
                    (&own.resources, &their.resources),
                    (&own.objects, &their.objects),
                    (&own.kubelets, &their.kubelets),
                    (&own.addresses, &their.addresses),
                    (&own.nodes, &their.nodes),
                    (&own.leases, &their.leases),
                ];
                let known = holds(&self.names, &other.names) && lists.iter().all(|(own, their)| holds(own, their));
                let in_time = scenario.swarm.as_ref().is_some_and(|swarm| swarm.admits(faults, self.safety()));
                known && own.webhooks == their.webhooks && in_time
            }
            // These depend on all names, and patterns on the operations around which they are placed.
            FaultSource::Swarm(_) | FaultSource::Core => {
                let same_names = self.names == other.names && self.targets == other.targets;
                same_time && same_names && (self.plan.op == other.plan.op || *source == FaultSource::Core)
            }
        }
    }
}

/// Whether each of `names` is among `all`.
fn holds(all: &[String], names: &[String]) -> bool {
    names.iter().all(|name| all.contains(name))
}

impl Scenario {
    /// The sources of the scenario's faults.
    pub fn fault_sources(&self) -> Vec<FaultSource> {
        let rows = (0..self.fault.len()).map(FaultSource::Row);
        let swarm = self.swarm.iter().flat_map(|swarm| swarm.names()).map(|name| FaultSource::Swarm(name.to_owned()));
        let core = self.phases.heal.written().contains(&&Heal::Core).then_some(FaultSource::Core);
        rows.chain(swarm).chain(core).collect()
    }

    /// The faults of a run as `seed` draws them for the cluster, the operations and the safety phase of `plan`, in no order.
    ///
    /// Each row of the scenario has its own stream, by its kind and its number among the rows of that kind, so that removing one leaves
    /// rows of other kinds unchanged.
    pub fn draw_faults(&self, seed: u64, plan: &Plan) -> Vec<Sourced> {
        let context = FaultContext::of(plan);
        let mut faults = Vec::new();
        for row in 0..self.fault.len() {
            let drawn = self.draw_row(row, seed, &context, false).into_iter();
            faults.extend(drawn.map(|fault| (FaultSource::Row(row), fault)));
        }
        if let Some(swarm) = &self.swarm {
            let drawn = swarm.draw_each(&context.setting(seed)).into_iter();
            faults.extend(drawn.map(|(name, fault)| (FaultSource::Swarm(name.to_owned()), fault)));
        }
        let mut draw = Draw::new(seed, Concern::Faults, stream_of("heal", 0));
        if self.phases.heal.draw(&mut draw) == Heal::Core {
            faults.extend(core(&context, &mut draw).into_iter().map(|fault| (FaultSource::Core, fault)));
        }
        faults
    }

    /// The faults of one source as `seed` draws them for this context. A source may be off in a run, but is on here.
    pub fn draw_source(&self, source: &FaultSource, seed: u64, context: &FaultContext<'_>) -> Vec<Fault> {
        match source {
            FaultSource::Row(row) if *row < self.fault.len() => self.draw_row(*row, seed, context, true),
            FaultSource::Row(_) => Vec::new(),
            FaultSource::Swarm(name) => self.swarm.as_ref().map(|swarm| swarm.draw_on(name, &context.setting(seed))).unwrap_or_default(),
            FaultSource::Core => {
                let mut draw = Draw::new(seed, Concern::Faults, stream_of("heal", 0));
                let _is_on = self.phases.heal.draw(&mut draw);
                core(context, &mut draw)
            }
        }
    }

    /// The faults of a row. `on`: the row is not skipped by its likelihood, unless that is 0.
    fn draw_row(&self, row: usize, seed: u64, context: &FaultContext<'_>, on: bool) -> Vec<Fault> {
        let draft = &self.fault[row];
        let kind = draft.kind.kind();
        let number = self.fault[..row].iter().filter(|before| before.kind.kind() == kind).count() as u64;
        let mut draw = Draw::new(seed, Concern::Faults, stream_of(kind, number));
        let likelihood = draft.common.likelihood.get();
        // The number is drawn in any case, to keep the stream in step.
        let is_on = draw.chance(likelihood) || (on && likelihood > 0.0);
        if !is_on {
            return Vec::new();
        }
        (0..draft.common.count.draw(&mut draw)).map(|_| draw_of_row(draft, context, &mut draw)).collect()
    }

    /// Another fault of a row, drawn independently of the others.
    pub fn draw_one_of_row(&self, row: usize, context: &FaultContext<'_>, draw: &mut Draw) -> Option<Fault> {
        self.fault.get(row).map(|draft| draw_of_row(draft, context, draw))
    }

    /// Whether a run may have `count` faults of a source.
    pub fn may_have(&self, source: &FaultSource, count: usize) -> bool {
        match source {
            FaultSource::Row(row) => self.fault.get(*row).is_some_and(|draft| {
                let occurrence = &draft.common;
                let (low, high) = occurrence.count.bounds();
                let is_between = matches!(occurrence.count, sim_config::Choice::Between(..));
                let is_drawn = is_between || occurrence.count.written().iter().any(|&&written| written as usize == count);
                let is_off = count == 0 && occurrence.likelihood.get() < 1.0;
                is_off || (is_drawn && (*low as usize..=*high as usize).contains(&count))
            }),
            FaultSource::Swarm(_) => self.swarm.as_ref().is_some_and(|swarm| count <= swarm.most()),
            FaultSource::Core => false,
        }
    }
}

/// One fault of a row.
fn draw_of_row(draft: &DraftFault, context: &FaultContext<'_>, draw: &mut Draw) -> Fault {
    let safety = context.safety();
    let at = match &draft.common.at {
        Some(at) => at.draw(draw).of(safety).0,
        None => draw.between(std::time::Duration::ZERO, safety.0),
    };
    let lasts = draft.common.lasts.draw(draw).of(safety);
    let kind = draft.kind.draw(draw, context.names());
    let lasts = (!kind.is_instant()).then_some(lasts);
    let when: Vec<ObjectChange> = draft.common.when.iter().map(|change| change.draw(draw)).collect();
    With { common: Window { at: SimTime::ZERO + at, lasts, when }, kind }
}

/// Permanent failures that leave a core.
fn core(context: &FaultContext<'_>, draw: &mut Draw) -> Vec<Fault> {
    let servers: Vec<String> = (0..context.plan.cluster.api_servers).map(server_name).collect();
    let mut faults = break_for_good(&servers, true, context.safety(), draw);
    faults.extend(break_for_good(&context.targets.hosts, false, context.safety(), draw));
    faults
}

/// Permanent failures of some of these API servers or hosts, but not of all.
fn break_for_good(names: &[String], servers: bool, safety: Span, draw: &mut Draw) -> Vec<Fault> {
    let core = sim_config::draw::below(draw.u64(), names.len().max(1) as u64) as usize;
    let mut faults = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let (breaks, down, at) = (draw.chance(0.5), draw.chance(0.5), draw.between(safety.0 / 2, safety.0));
        if number == core || !breaks {
            continue;
        }
        let who = Target::from_text(name);
        let kind = match (down, servers) {
            (true, true) => FaultKind::ApiServerCrash(ApiServerCrash { server: who, initializing: Span::secs(1) }),
            (true, false) => FaultKind::HostDown(HostDown { host: who }),
            (false, _) => FaultKind::Partition(Partition { from: who, to: Target::any() }),
        };
        // A fault that would begin when the faults heal does not begin.
        let at = at.min(safety.0.saturating_sub(std::time::Duration::from_micros(1)));
        faults.push(With { common: Window::new(SimTime::ZERO + at, Some(Span::FOREVER)), kind });
    }
    faults
}
