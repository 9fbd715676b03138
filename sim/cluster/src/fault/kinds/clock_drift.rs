//! Clocks that run at another rate.

use std::sync::Arc;

use sim_config::Choice;

use crate::cluster::Cluster;
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::parameters::{parameters, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};
use crate::rt::HostId;

parameters! {
    /// The clocks of a host run at another rate.
    pub struct ClockDrift / ClockDriftDraft {
        /// Hosts whose clocks run at another rate while the fault lasts, named by themselves or by a process on them.
        host: Target = target("one:*"),
        /// The difference of the rate in parts per million; negative = slower.
        ppm: i64 = Choice::Between(-500_000, 1_000_000),
    }
}

impl Inject for ClockDrift {
    const EVENT: &'static str = "a bad oscillator or a virtual machine that loses ticks (K §9.2 F3)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<ClockDriftDraft>> =
        Drawn::ByDefault(|targeting| Some(ClockDriftDraft { host: targeting.host()?, ..ClockDriftDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.host])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Clocks
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let ppb = self.ppm.clamp(-900_000, 10_000_000) * 1_000;
        self.host.hosts(&injection.cluster.rt).into_iter().map(|host| Drift { host, ppb }.into()).collect()
    }

    fn prepare(&self, cluster: &Arc<Cluster>) {
        self.host.hosts(&cluster.rt).into_iter().for_each(|host| cluster.rt.follow_clock(host));
    }
}

/// Clocks that run faster by this many parts per billion.
#[derive(Debug)]
struct Drift {
    host: HostId,
    ppb: i64,
}

impl Effect for Drift {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.rt.adjust_clock(self.host, |clock, now| clock.set_drift(now, self.ppb));
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.rt.adjust_clock(self.host, |clock, now| clock.set_drift(now, 0));
    }

    fn excludes(&self, other: &Self) -> Overlap {
        if self.host == other.host { Overlap::LastWins } else { Overlap::Separate }
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        true
    }
}
