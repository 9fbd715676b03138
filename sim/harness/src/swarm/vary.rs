//! Alternatives that a swarm could have drawn: the faults of one kind with a small change.
//!
//! All results are in the range of the swarm's own draws, so that a scenario that must hold must hold with them, too: the number of faults
//! of a kind, their durations, and the pauses between them.

use std::time::Duration;

use kube_sim::fault::{Fault, Trigger};
use sim_config::draw::Draw;
use sim_config::kinds::Kinds;
use sim_config::time::{SimTime, Span, micros};

use super::{AtChanges, PATTERNS, ProfileWeights, Setting, Swarm, busy_for, stream};

/// The number of attempts to find room for a change.
const TRIES: usize = 4;

/// Whether the name is that of a pattern, whose faults belong together.
pub fn is_pattern(name: &str) -> bool {
    PATTERNS.iter().any(|pattern| pattern.name() == name)
}

impl Swarm {
    /// The largest number of faults of a kind in a run; 0 = there are none.
    pub fn most(&self) -> usize {
        match self.profiles {
            ProfileWeights { hostile: 1.., .. } => 4,
            ProfileWeights { mixed: 1.., .. } => 2,
            ProfileWeights { .. } => 0,
        }
    }

    /// The faults of a kind or pattern as a seed draws them if it is on.
    pub fn draw_on(&self, name: &str, setting: &Setting<'_>) -> Vec<Fault> {
        let Some(name) = self.names().find(|known| *known == name).filter(|_| self.most() > 0) else { return Vec::new() };
        let mut draw = stream(setting, name);
        let _is_on = draw.u64();
        self.draw_named(name, self.most() as u32, setting, &mut draw)
    }

    /// Whether the swarm could have drawn these faults of one kind, by time: none too long or short, and far enough from each other.
    pub fn admits(&self, faults: &[Fault], safety: Span) -> bool {
        if faults.is_empty() {
            return true;
        }
        if faults.len() > self.most() {
            return false;
        }
        let pause = safety.0 / faults.len() as u32;
        let mut earliest = Duration::ZERO;
        faults.iter().all(|fault| {
            let (at, lasts) = (fault.common.at.since(SimTime::ZERO), fault.common.lasts);
            let long_enough = lasts.is_none_or(|lasts| (self.shortest..=self.longest).contains(&lasts));
            let in_time = (earliest..=earliest.saturating_add(pause)).contains(&at) && at < safety.0;
            earliest = at + busy_for(&fault.kind, lasts.unwrap_or(Span::secs(0))).0 + self.gap.0;
            long_enough && in_time
        })
    }

    /// These faults of one kind with one change in the time of one of them: its start or its duration. `None` = no room.
    pub fn retimed(&self, faults: &[Fault], safety: Span, draw: &mut Draw) -> Option<Vec<Fault>> {
        (0..TRIES).find_map(|_| {
            let mut changed = faults.to_vec();
            let fault = &mut changed[draw.below(faults.len() as u64) as usize];
            let by = safety.0.mul_f64(draw.unit() * step(draw));
            match (draw.below(3), fault.common.lasts) {
                (0, Some(lasts)) => {
                    // In microseconds, as files write it.
                    let changed = Span::micros(if draw.chance(0.5) { micros(lasts.0) * 2 } else { micros(lasts.0) / 2 });
                    fault.common.lasts = Some(changed.clamp(self.shortest, self.longest));
                }
                (1, _) => fault.common.at = SimTime::ZERO + draw.between(Duration::ZERO, safety.0),
                (_, _) if draw.chance(0.5) => fault.common.at += by,
                (_, _) => fault.common.at = SimTime::ZERO + fault.common.at.since(SimTime::ZERO).saturating_sub(by),
            }
            changed.sort_by_key(|fault| fault.common.at);
            (changed != faults && self.admits(&changed, safety)).then_some(changed)
        })
    }

    /// These faults of one kind, one of them with the parameters of a fault that another seed draws.
    pub fn retargeted(&self, faults: &[Fault], setting: &Setting<'_>, draw: &mut Draw) -> Option<Vec<Fault>> {
        let kind = faults.first()?.kind.kind();
        let other = self.draw_on(kind, setting).into_iter().next()?;
        let mut changed = faults.to_vec();
        changed[draw.below(faults.len() as u64) as usize].kind = other.kind;
        (changed != faults && self.admits(&changed, setting.safety)).then_some(changed)
    }

    /// These faults of one kind, triggered by changes of objects instead of beginning at any time, or the other way round.
    pub fn retriggered(&self, faults: &[Fault], setting: &Setting<'_>, draw: &mut Draw) -> Option<Vec<Fault>> {
        if setting.targets.resources.is_empty() || faults.iter().any(|fault| fault.kind.begins() != Trigger::Window) {
            return None;
        }
        let mut changed = faults.to_vec();
        let waits = faults.iter().any(|fault| !fault.common.when.is_empty());
        let mut changes = AtChanges { resources: Some(&setting.targets.resources), draw: Draw::clone(draw) };
        match waits {
            true if draw.chance(0.5) => changed.iter_mut().for_each(|fault| fault.common.when.clear()),
            true => {
                let one = draw.below(changed.len() as u64) as usize;
                changed[one].common.when = changes.draw(&faults[one].kind);
            }
            false => {
                let _other_numbers = draw.u64();
                changed.iter_mut().for_each(|fault| fault.common.when = changes.draw(&fault.kind));
            }
        }
        (changed != faults).then_some(changed)
    }

    /// These faults of one kind without one of them.
    pub fn fewer(&self, faults: &[Fault], safety: Span, draw: &mut Draw) -> Option<Vec<Fault>> {
        let mut changed = faults.to_vec();
        let _dropped = changed.remove(draw.below(faults.len() as u64) as usize);
        self.admits(&changed, safety).then_some(changed)
    }

    /// These faults of one kind, and one of them again.
    pub fn more(&self, faults: &[Fault], safety: Span, draw: &mut Draw) -> Option<Vec<Fault>> {
        (0..TRIES).find_map(|_| {
            let mut again = faults[draw.below(faults.len() as u64) as usize].clone();
            again.common.at = SimTime::ZERO + draw.between(Duration::ZERO, safety.0);
            let mut changed = faults.to_vec();
            changed.push(again);
            changed.sort_by_key(|fault| fault.common.at);
            self.admits(&changed, safety).then_some(changed)
        })
    }
}

/// The largest step, as a part of the whole: small ones are as likely as large ones.
fn step(draw: &mut Draw) -> f64 {
    1.0 / f64::from(1u32 << draw.below(12))
}
