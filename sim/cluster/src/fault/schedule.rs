//! The schedule of a plan's faults.
//!
//! A fault begins at its time, or at the change or request that it waits for, and applies its effects. They are reverted when its time is
//! over, at the latest when the faults heal. A state that several faults share is reverted by the last of them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sim_config::time::SimTime;

use super::effect::{ActiveEffect, Injection};
use super::{Fault, is_for_good};
use crate::cluster::{ChangePoint, ChangeStep, Cluster, ObstructionId};
use crate::rt::ProcessId;
use crate::trace::{EventKind, FaultChange};

/// The faults of a run: begins them, ends them, and heals the world.
pub struct Faults {
    cluster: Arc<Cluster>,
    plan: Vec<Fault>,
    /// The active faults, in the order in which they began.
    active: Mutex<Vec<Active>>,
    heal_at: SimTime,
}

/// A fault that has begun and not ended. One fault of the plan may be active several times: a crash point hits several processes.
struct Active {
    index: u32,
    since: SimTime,
    reached_by: Option<ProcessId>,
    effects: Vec<ActiveEffect>,
    obstruction: Option<ObstructionId>,
}

impl Faults {
    /// Schedules the faults of a plan. Faults that are active at `heal_at` are ended then, and none begins after that.
    pub fn schedule(cluster: &Arc<Cluster>, plan: &[Fault], heal_at: SimTime) -> Arc<Self> {
        let faults = Arc::new(Self { cluster: cluster.clone(), plan: plan.to_vec(), active: Mutex::default(), heal_at });
        for (index, fault) in (0..).zip(plan) {
            fault.kind.arm(index, cluster);
            if fault.kind.begins().is_request() {
                continue;
            }
            let begin = faults.clone();
            let steps: Vec<ChangeStep> = fault.common.when.iter().filter_map(|change| change.step(&cluster.registry)).collect();
            if steps.is_empty() {
                cluster.rt.at(fault.common.at, move || begin.begin(index, None));
            } else {
                cluster.rt.at(fault.common.at, move || begin.cluster.add_change_point(ChangePoint { fault: index, steps }));
            }
        }
        let heal = faults.clone();
        cluster.rt.at(heal_at, move || heal.heal());
        let hook = Arc::downgrade(&faults);
        cluster.set_fault_hook(Arc::new(move |index, process| {
            if let Some(faults) = hook.upgrade() {
                faults.begin(index, Some(process));
            }
        }));
        faults
    }

    fn record(&self, index: u32, change: FaultChange) {
        let at = self.cluster.rt.now();
        self.cluster.recorder(|recorder| recorder.observe(at, EventKind::Fault { index, change }));
    }

    /// The duration of a fault once it has begun; `None` = it is instantaneous.
    fn lasts(&self, fault: &Fault) -> Option<Duration> {
        match fault.kind.recovers_after() {
            Some(down) => Some(down.0),
            None if fault.kind.is_instant() => None,
            None => Some(fault.common.lasts.map_or(Duration::MAX, |lasts| lasts.0)),
        }
    }

    /// Begins a fault. `reached_by`: the process that reached the point which the fault waited for.
    fn begin(self: &Arc<Self>, index: u32, reached_by: Option<ProcessId>) {
        let since = self.cluster.rt.now();
        if since >= self.heal_at {
            return;
        }
        self.record(index, FaultChange::Began);
        let fault = &self.plan[index as usize];
        let lasts = self.lasts(fault);
        self.cluster.recorder(|recorder| recorder.coverage.fault_begins(since, lasts.is_some()));
        let active = self.active_effects();
        let effects = fault.kind.inject(&Injection { cluster: &self.cluster, index, reached_by, active: &active });
        effects.iter().for_each(|effect| effect.apply(&self.cluster));
        let obstruction = lasts.and(fault.kind.blocks().obstruction(&self.cluster)).map(|obstruction| self.cluster.obstruct(obstruction));
        self.cluster.nodes.heartbeats.look_around(&self.cluster);
        // A fault without lasting effects is done at once, unless it found no process to take down.
        let is_done = effects.is_empty() && fault.kind.is_instant() && fault.kind.recovers_after().is_none();
        if is_done || self.has_observable_effect(&effects) {
            self.cluster.recorder(|recorder| recorder.fired.insert(index));
        }
        let Some(lasts) = lasts else { return };
        self.active.lock().push(Active { index, since, reached_by, effects, obstruction });
        if since + lasts < self.heal_at {
            let ends = self.clone();
            self.cluster.rt.at(since + lasts, move || {
                let mine = |active: &Active| (active.index, active.since, active.reached_by) == (index, since, reached_by);
                let position = ends.active.lock().iter().position(mine);
                if let Some(position) = position {
                    ends.end(position);
                }
            });
        }
    }

    /// The active effects, in the order in which they began.
    fn active_effects(&self) -> Vec<ActiveEffect> {
        self.active.lock().iter().flat_map(|active| &active.effects).cloned().collect()
    }

    fn has_observable_effect(&self, effects: &[ActiveEffect]) -> bool {
        effects.iter().any(|effect| effect.has_observable_effect(&self.cluster))
    }

    /// Ends the active fault at `position`.
    fn end(&self, position: usize) {
        let ended = self.active.lock().remove(position);
        if self.has_observable_effect(&ended.effects) {
            self.cluster.recorder(|recorder| recorder.fired.insert(ended.index));
        }
        let others = self.active_effects();
        ended.effects.iter().for_each(|effect| effect.end(&self.cluster, &others));
        if let Some(obstruction) = ended.obstruction {
            self.cluster.unobstruct(obstruction);
        }
        self.cluster.recorder(|recorder| recorder.coverage.fault_ends());
        self.record(ended.index, FaultChange::Ended);
    }

    /// Records the active faults that had an effect: those that last forever are recorded only here. To be called at the end of a run.
    pub fn settle(&self) {
        for Active { index, effects, .. } in &*self.active.lock() {
            if self.has_observable_effect(effects) {
                self.cluster.recorder(|recorder| recorder.fired.insert(*index));
            }
        }
    }

    /// Whether a fault stays when the others heal.
    fn is_for_good(&self, index: u32) -> bool {
        is_for_good(&self.plan[index as usize])
    }

    /// Ends every active fault except those that last forever. Points that were not reached are void.
    pub fn heal(&self) {
        self.cluster.clear_write_points();
        self.cluster.clear_request_points();
        self.cluster.clear_change_points();
        loop {
            let position = self.active.lock().iter().position(|active| !self.is_for_good(active.index));
            let Some(position) = position else { return };
            self.end(position);
        }
    }
}
