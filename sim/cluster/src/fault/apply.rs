//! When the faults of a plan begin and end.
//!
//! A fault begins at its time, or when its trigger says so, and takes hold of parts of the world (`Grip`). It lets go
//! when its time is over, at the latest when the faults heal. What several faults hold is let go by the last of them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sim_config::time::SimTime;

use super::hold::{Grip, let_go, seize};
use super::{Fault, FaultKind, is_for_good};
use crate::cluster::{Fabric, WritePoint};
use crate::rt::ProcessId;
use crate::trace::{EventKind, FaultChange};

/// The faults of a run: begins them, ends them, and heals the world.
pub struct Faults {
    fabric: Arc<Fabric>,
    plan: Vec<Fault>,
    /// Those that hold something, in the order in which they began.
    active: Mutex<Vec<Active>>,
    heal_at: SimTime,
}

/// A fault that has begun and not ended. One of the plan may be active several times: a crash point hits several processes.
struct Active {
    index: u32,
    since: SimTime,
    victim: Option<ProcessId>,
    grips: Vec<Grip>,
}

impl Faults {
    /// Schedules the faults of a plan. What still holds at `heal_at` is ended then, and nothing begins any more.
    pub fn schedule(fabric: &Arc<Fabric>, plan: &[Fault], heal_at: SimTime) -> Arc<Self> {
        let faults = Arc::new(Self { fabric: fabric.clone(), plan: plan.to_vec(), active: Mutex::default(), heal_at });
        for (index, fault) in (0..).zip(plan) {
            // A crash point is not an event in time: it waits for its write.
            if let FaultKind::CrashAtWrite(point) = &fault.kind {
                for process in point.process.processes(&fabric.rt) {
                    let after_commit = point.after_commit;
                    fabric.add_write_point(WritePoint { fault: index, client: process, nth: point.nth, after_commit });
                }
                continue;
            }
            if let FaultKind::ClockDrift(drift) = &fault.kind {
                drift.host.hosts(&fabric.rt).into_iter().for_each(|host| fabric.rt.follow_clock(host));
            }
            let begin = faults.clone();
            fabric.rt.at(fault.common.at, move || begin.begin(index, None));
        }
        let heal = faults.clone();
        fabric.rt.at(heal_at, move || heal.heal());
        let hook = Arc::downgrade(&faults);
        fabric.set_fault_hook(Arc::new(move |index, process| {
            if let Some(faults) = hook.upgrade() {
                faults.begin(index, Some(process));
            }
        }));
        faults
    }

    fn record(&self, index: u32, change: FaultChange) {
        let at = self.fabric.rt.now();
        self.fabric.recorder(|recorder| recorder.observe(at, EventKind::Fault { index, change }));
    }

    /// How long a fault holds on once it has begun; `None` = it is over at once.
    fn lasts(&self, fault: &Fault) -> Option<Duration> {
        match &fault.kind {
            FaultKind::Crash(crash) => Some(crash.down.0),
            FaultKind::CrashAtWrite(crash) => Some(crash.down.0),
            kind if kind.is_instant() => None,
            _ => Some(fault.common.lasts.map_or(Duration::MAX, |lasts| lasts.0)),
        }
    }

    /// A fault takes hold. `victim`: the process that triggered it.
    fn begin(self: &Arc<Self>, index: u32, victim: Option<ProcessId>) {
        let since = self.fabric.rt.now();
        if since >= self.heal_at {
            return;
        }
        self.record(index, FaultChange::Began);
        let fault = &self.plan[index as usize];
        let held_down: Vec<ProcessId> =
            self.active.lock().iter().flat_map(|active| &active.grips).filter_map(|grip| grip.holds_down()).collect();
        let grips = seize(&self.fabric, index, &fault.kind, victim, &held_down);
        let took_hold = grips.iter().any(Grip::is_felt) || fault.kind.is_instant() && grips.is_empty();
        if took_hold && !matches!(fault.kind, FaultKind::Crash(_) | FaultKind::CrashAtWrite(_) if grips.is_empty()) {
            self.fabric.recorder(|recorder| recorder.fired.insert(index));
        }
        let Some(lasts) = self.lasts(fault) else { return };
        self.active.lock().push(Active { index, since, victim, grips });
        if since + lasts < self.heal_at {
            let ends = self.clone();
            self.fabric.rt.at(since + lasts, move || {
                let mine = |active: &Active| (active.index, active.since, active.victim) == (index, since, victim);
                let position = ends.active.lock().iter().position(mine);
                if let Some(position) = position {
                    ends.end(position);
                }
            });
        }
    }

    /// The active fault at `position` lets go.
    fn end(&self, position: usize) {
        let (ended, others) = {
            let mut active = self.active.lock();
            let ended = active.remove(position);
            (ended, active.iter().flat_map(|active| &active.grips).copied().collect::<Vec<Grip>>())
        };
        for grip in ended.grips {
            if grip.met_a_message(&self.fabric) {
                self.fabric.recorder(|recorder| recorder.fired.insert(ended.index));
            }
            let_go(&self.fabric, grip, &others);
        }
        self.record(ended.index, FaultChange::Ended);
    }

    /// Takes down which of those that still hold were met by something: those that last forever never end otherwise. To be called when a
    /// run is over.
    pub fn settle(&self) {
        for Active { index, grips, .. } in &*self.active.lock() {
            if grips.iter().any(|grip| grip.met_a_message(&self.fabric)) {
                self.fabric.recorder(|recorder| recorder.fired.insert(*index));
            }
        }
    }

    /// Whether a fault stays when the others heal.
    fn is_for_good(&self, index: u32) -> bool {
        is_for_good(&self.plan[index as usize])
    }

    /// Ends everything that still holds, but for what lasts forever. Crash points that were not reached are void.
    pub fn heal(&self) {
        self.fabric.clear_write_points();
        loop {
            let position = self.active.lock().iter().position(|active| !self.is_for_good(active.index));
            let Some(position) = position else { return };
            self.end(position);
        }
    }
}
