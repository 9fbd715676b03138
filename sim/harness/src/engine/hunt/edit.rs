//! Edits that make a new plan from another: the next plan that a search tries.
//!
//! Every edit gives a plan that the scenario could have drawn, which is why a violated claim counts as a find: claims must hold for each of
//! the scenario's seeds. The random streams of a scenario are independent, so that the draws of one stream may be taken from another seed
//! or another plan. Within one stream the scenario, its swarm and its workload say what else could have been drawn
//! ([`Scenario::draw_source`], [`Swarm::admits`](crate::swarm::Swarm::admits), [`Draft::vary`](crate::workload::Draft::vary)).

use std::collections::{BTreeMap, BTreeSet};

use kube_sim::fault::Fault;
use sim_config::Source;
use sim_config::draw::{Concern, Draw};

use crate::plan::Plan;
use crate::scenario::{FaultContext, FaultSource, Scenario, Sourced, sort_faults};
use crate::swarm::is_pattern;

/// A plan, and the sources of its faults.
#[derive(Clone, Debug, PartialEq)]
pub struct Individual {
    /// The plan of the run.
    pub plan: Plan,
    /// The source of each of its faults.
    pub sources: Vec<FaultSource>,
}

/// A change of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edit {
    /// The seed of the run changes: latencies, choices, scheduling.
    Latencies,
    /// The faults of one source are those of another seed, possibly none.
    RedrawFaults,
    /// The faults of one source are left out.
    DropFaults,
    /// One fault is moved, lasts longer or shorter.
    RetimeFault,
    /// One fault gets another target.
    RetargetFault,
    /// Faults of one kind get triggers (changes of objects), or lose them.
    RetriggerFaults,
    /// One fault is left out.
    DropFault,
    /// One fault occurs once more.
    DuplicateFault,
    /// Some faults come from another plan.
    SpliceFaults,
    /// Actors and operations come from another plan.
    SpliceWorkload,
    /// Actors and operations are those of another seed.
    RedrawWorkload,
    /// An operation is moved, dropped, duplicated or swapped.
    VaryOperations,
    /// The versions and sizes of the cluster are those of another seed.
    RedrawKnobs,
}

impl Edit {
    /// All edits, each with its weight in the draw.
    const ALL: [(Edit, u64); 13] = [
        (Edit::Latencies, 3),
        (Edit::RedrawFaults, 4),
        (Edit::DropFaults, 2),
        (Edit::RetimeFault, 6),
        (Edit::RetargetFault, 3),
        (Edit::RetriggerFaults, 2),
        (Edit::DropFault, 1),
        (Edit::DuplicateFault, 2),
        (Edit::SpliceFaults, 4),
        (Edit::SpliceWorkload, 2),
        (Edit::RedrawWorkload, 2),
        (Edit::VaryOperations, 6),
        (Edit::RedrawKnobs, 1),
    ];

    /// The edit, in words.
    pub const fn name(self) -> &'static str {
        match self {
            Edit::Latencies => "other latencies",
            Edit::RedrawFaults => "faults drawn anew",
            Edit::DropFaults => "a kind of fault dropped",
            Edit::RetimeFault => "a fault at another time",
            Edit::RetargetFault => "a fault about something else",
            Edit::RetriggerFaults => "faults at changes",
            Edit::DropFault => "a fault dropped",
            Edit::DuplicateFault => "a fault once more",
            Edit::SpliceFaults => "faults of another plan",
            Edit::SpliceWorkload => "operations of another plan",
            Edit::RedrawWorkload => "operations drawn anew",
            Edit::VaryOperations => "operations varied",
            Edit::RedrawKnobs => "another cluster",
        }
    }

    fn draw(draw: &mut Draw) -> Self {
        let total = Self::ALL.iter().map(|(_, weight)| weight).sum();
        let mut number = draw.below(total);
        let drawn = Self::ALL.iter().find(|(_, weight)| {
            let is_it = number < *weight;
            number = number.saturating_sub(*weight);
            is_it
        });
        drawn.map_or(Edit::Latencies, |(edit, _)| *edit)
    }
}

/// The largest number of drawn edits of a child.
const EDITS_MAX: u32 = 4;
/// The share of the children whose latencies change, too: a race can be reached in many ways.
const SHAKEN: f64 = 0.5;
/// The number of draws of an edit that is possible in this plan.
const TRIES: usize = 12;
/// A source for problems that are not reported.
const NOWHERE: Source<'_> = Source::new("", "");

/// A plan made from `parent` by a few edits, and these edits. `mate`: another plan, for splices. `None` = no edit was possible, or one
/// undid the other.
pub fn child(scenario: &Scenario, parent: &Individual, mate: &Individual, draw: &mut Draw) -> Option<(Individual, Vec<Edit>)> {
    let wanted = 1 + draw.u64().trailing_zeros().min(EDITS_MAX - 1);
    let mut start = parent.clone();
    start.plan.recorded = None;
    let mut individual = start.clone();
    let mut edits = Vec::new();
    for _ in 0..TRIES {
        let edit = Edit::draw(draw);
        let Some(edited) = apply(scenario, &individual, mate, edit, draw) else { continue };
        if edited.plan != individual.plan && edited.plan.problems(NOWHERE).is_empty() {
            individual = edited;
            edits.push(edit);
        }
        if edits.len() == wanted as usize {
            break;
        }
    }
    if !edits.is_empty() && !edits.contains(&Edit::Latencies) && draw.chance(SHAKEN) {
        individual.plan.seed = other_seed(draw);
        edits.push(Edit::Latencies);
    }
    (individual != start).then_some((individual, edits))
}

/// Another seed, to draw from.
fn other_seed(draw: &mut Draw) -> u64 {
    draw.u64() >> 16
}

/// The faults of each source.
type Groups = BTreeMap<FaultSource, Vec<Fault>>;

impl Individual {
    /// The plan of a seed.
    pub fn drawn(scenario: &Scenario, seed: u64) -> Self {
        let (plan, sources) = scenario.draw_with_sources(seed);
        Self { plan, sources }
    }

    fn groups(&self) -> Groups {
        let mut groups = Groups::new();
        for (source, fault) in self.sources.iter().zip(&self.plan.fault) {
            groups.entry(source.clone()).or_default().push(fault.clone());
        }
        groups
    }

    fn with_groups(&self, groups: Groups) -> Self {
        let mut plan = self.plan.clone();
        let faults: Vec<Sourced> =
            groups.into_iter().flat_map(|(source, faults)| faults.into_iter().map(move |fault| (source.clone(), fault))).collect();
        let sources = sort_faults(&mut plan, faults);
        Self { plan, sources }
    }
}

/// One edit; `None` = it is not possible in this plan.
pub fn apply(scenario: &Scenario, of: &Individual, mate: &Individual, edit: Edit, draw: &mut Draw) -> Option<Individual> {
    let mut groups = of.groups();
    match edit {
        Edit::Latencies => Some(Individual { plan: Plan { seed: other_seed(draw), ..of.plan.clone() }, sources: of.sources.clone() }),
        Edit::RedrawFaults => {
            let sources = scenario.fault_sources();
            let source = sources.get(draw.below(sources.len().max(1) as u64) as usize)?;
            let faults = scenario.draw_source(source, other_seed(draw), &FaultContext::of(&of.plan));
            if faults.is_empty() && !may_be_off(scenario, source) {
                return None;
            }
            groups.remove(source);
            groups.extend((!faults.is_empty()).then(|| (source.clone(), faults)));
            Some(of.with_groups(groups))
        }
        Edit::DropFaults => {
            let source = one_of(&groups, draw)?;
            groups.remove(&source).filter(|_| may_be_off(scenario, &source))?;
            Some(of.with_groups(groups))
        }
        Edit::RetimeFault | Edit::RetargetFault | Edit::RetriggerFaults | Edit::DropFault | Edit::DuplicateFault => {
            let source = one_of(&groups, draw)?;
            let faults = groups.remove(&source)?;
            let edited = edit_faults(scenario, &source, &faults, edit, &FaultContext::of(&of.plan), draw)?;
            groups.extend((!edited.is_empty()).then_some((source, edited)));
            Some(of.with_groups(groups))
        }
        Edit::SpliceFaults => {
            let (own, other) = (FaultContext::of(&of.plan), FaultContext::of(&mate.plan));
            let mut theirs = mate.groups();
            let sources: BTreeSet<FaultSource> = groups.keys().chain(theirs.keys()).cloned().collect();
            for source in sources {
                if !draw.chance(0.5) {
                    continue;
                }
                match theirs.remove(&source) {
                    Some(faults) if own.takes(scenario, &source, &faults, &other) => drop(groups.insert(source, faults)),
                    Some(_) => {}
                    None if may_be_off(scenario, &source) => drop(groups.remove(&source)),
                    None => {}
                }
            }
            Some(of.with_groups(groups))
        }
        Edit::SpliceWorkload => {
            let plan = Plan { workload: mate.plan.workload.clone(), op: mate.plan.op.clone(), ..of.plan.clone() };
            in_other_workload(scenario, of, plan, draw)
        }
        Edit::RedrawWorkload => {
            let (workload, drawn) = scenario.workload.draft().draw(&mut Draw::new(other_seed(draw), Concern::Workload, 0));
            let op = if scenario.op.is_empty() { drawn } else { of.plan.op.clone() };
            in_other_workload(scenario, of, Plan { workload, op, ..of.plan.clone() }, draw)
        }
        Edit::VaryOperations => {
            // The operations of a script are not drawn.
            let varied = scenario.workload.draft().vary(&of.plan.op, draw).filter(|_| scenario.op.is_empty())?;
            in_other_workload(scenario, of, Plan { op: varied, ..of.plan.clone() }, draw)
        }
        Edit::RedrawKnobs => {
            let other = scenario.draw(other_seed(draw)).cluster;
            let mut plan = of.plan.clone();
            (plan.cluster.knobs, plan.cluster.capacity) = (other.knobs, other.capacity);
            Some(Individual { plan, sources: of.sources.clone() })
        }
    }
}

/// One of the sources that have faults in a plan.
fn one_of(groups: &Groups, draw: &mut Draw) -> Option<FaultSource> {
    groups.keys().nth(draw.below(groups.len().max(1) as u64) as usize).cloned()
}

/// Whether a run may have no fault of a source.
fn may_be_off(scenario: &Scenario, source: &FaultSource) -> bool {
    match source {
        FaultSource::Row(_) => scenario.may_have(source, 0),
        // Every permanent failure is drawn with a probability of one half.
        FaultSource::Swarm(_) | FaultSource::Core => true,
    }
}

/// The faults of one source after one edit.
fn edit_faults(
    scenario: &Scenario,
    source: &FaultSource,
    faults: &[Fault],
    edit: Edit,
    context: &FaultContext<'_>,
    draw: &mut Draw,
) -> Option<Vec<Fault>> {
    match source {
        FaultSource::Swarm(name) if !is_pattern(name) => {
            let swarm = scenario.swarm.as_ref()?;
            match edit {
                Edit::RetimeFault => swarm.retimed(faults, context.safety(), draw),
                Edit::RetargetFault => swarm.retargeted(faults, &context.setting(other_seed(draw)), draw),
                Edit::RetriggerFaults => swarm.retriggered(faults, &context.setting(other_seed(draw)), draw),
                Edit::DropFault => swarm.fewer(faults, context.safety(), draw),
                Edit::DuplicateFault => swarm.more(faults, context.safety(), draw),
                _ => None,
            }
        }
        // Faults of a pattern or of all processes belong together, and are drawn anew as a whole.
        FaultSource::Swarm(_) | FaultSource::Core => None,
        FaultSource::Row(row) => {
            let mut edited = faults.to_vec();
            let place = draw.below(edited.len().max(1) as u64) as usize;
            let drawn = scenario.draw_one_of_row(*row, context, draw)?;
            match edit {
                Edit::RetimeFault => {
                    let fault = edited.get_mut(place)?;
                    if draw.chance(0.5) {
                        fault.common.at = drawn.common.at;
                    } else {
                        fault.common.lasts = drawn.common.lasts;
                    }
                }
                Edit::RetargetFault => edited.get_mut(place)?.kind = drawn.kind,
                Edit::RetriggerFaults => edited.get_mut(place)?.common.when = drawn.common.when,
                Edit::DropFault if scenario.may_have(source, edited.len() - 1) => drop(edited.remove(place)),
                Edit::DuplicateFault if scenario.may_have(source, edited.len() + 1) => edited.push(drawn),
                _ => return None,
            }
            edited.sort_by_key(|fault| fault.common.at);
            Some(edited)
        }
    }
}

/// A plan with another workload: faults that were drawn for the former one are kept where they could have been drawn for this one, too, and
/// drawn anew otherwise. An upgrade is always drawn anew: it names processes.
fn in_other_workload(scenario: &Scenario, of: &Individual, mut plan: Plan, draw: &mut Draw) -> Option<Individual> {
    if plan.upgrade.is_some() {
        plan.upgrade = scenario.draw_upgrade(other_seed(draw), &plan);
    }
    let (former, now) = (FaultContext::of(&of.plan), FaultContext::of(&plan));
    let mut groups = of.groups();
    let fits_no_more = |(source, faults): &(&FaultSource, &Vec<Fault>)| !now.takes(scenario, source, faults, &former);
    let redrawn: Vec<FaultSource> = groups.iter().filter(fits_no_more).map(|(source, _)| source.clone()).collect();
    for source in redrawn {
        let faults = scenario.draw_source(&source, other_seed(draw), &now);
        if faults.is_empty() {
            if !may_be_off(scenario, &source) {
                return None;
            }
            groups.remove(&source);
        } else {
            groups.insert(source, faults);
        }
    }
    let base = Individual { plan: plan.clone(), sources: Vec::new() };
    Some(base.with_groups(groups))
}
