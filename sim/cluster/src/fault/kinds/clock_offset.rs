//! A wall clock that jumps.

use std::sync::Arc;

use sim_config::Choice;

use crate::cluster::Cluster;
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::parameters::{parameters, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};
use crate::rt::HostId;

/// The furthest that a fault moves a wall clock: a thousand years, of which many can be added before the numbers overflow, so that every
/// step can be undone.
const MAX_MS: i64 = 1_000 * 365 * 24 * 3_600 * 1_000;

parameters! {
    /// The wall clock of a host jumps, and back when the fault ends.
    pub struct ClockOffset / ClockOffsetDraft {
        /// Hosts whose wall clock jumps by `by_ms`, named by themselves or by a process on them.
        host: Target = target("one:*"),
        /// The jump in milliseconds; negative = back.
        by_ms: i64 = Choice::Between(-5_000, 5_000),
    }
}

impl Inject for ClockOffset {
    const EVENT: &'static str = "clock skew or a step by NTP (K §9.2 F1, F2)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<ClockOffsetDraft>> =
        Drawn::ByDefault(|targeting| Some(ClockOffsetDraft { host: targeting.host()?, ..ClockOffsetDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.host])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Clocks
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let by_us = self.by_ms.clamp(-MAX_MS, MAX_MS) * 1_000;
        self.host.hosts(&injection.cluster.rt).into_iter().map(|host| Moved { host, by_us }.into()).collect()
    }
}

/// A wall clock that was moved by this many microseconds.
#[derive(Debug)]
struct Moved {
    host: HostId,
    by_us: i64,
}

impl Effect for Moved {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.rt.adjust_clock(self.host, |clock, _| clock.step_wall(self.by_us));
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.rt.adjust_clock(self.host, |clock, _| clock.step_wall(-self.by_us));
    }

    fn excludes(&self, _: &Self) -> Overlap {
        Overlap::Separate
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        true
    }
}
