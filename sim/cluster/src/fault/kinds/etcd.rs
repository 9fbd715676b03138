//! Faults of etcd as a whole.

use std::sync::Arc;

use crate::cluster::{Cluster, EtcdOutage};
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::parameters::parameters;
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Trigger, Wait};

/// An effect that keeps etcd from working; of several, the last to begin decides which outage.
#[derive(Debug)]
struct Outage(EtcdOutage);

impl Effect for Outage {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.set_etcd_outage(Some(self.0));
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.set_etcd_outage(None);
    }

    fn excludes(&self, _: &Self) -> Overlap {
        Overlap::LastWins
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        true
    }
}

/// An effect that makes each step of etcd take as long as under overload.
#[derive(Debug)]
struct Slow;

impl Effect for Slow {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.set_etcd_degraded(true);
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.set_etcd_degraded(false);
    }

    fn excludes(&self, _: &Self) -> Overlap {
        Overlap::SameState
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        true
    }
}

/// Etcd whose database has reached its quota.
#[derive(Debug)]
struct Full;

impl Effect for Full {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.set_etcd_out_of_space(true);
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.set_etcd_out_of_space(false);
    }

    fn excludes(&self, _: &Self) -> Overlap {
        Overlap::SameState
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        true
    }
}

parameters! {
    /// etcd stalls: writes and quorum reads wait.
    pub struct EtcdPause / EtcdPauseDraft {}
}

impl Inject for EtcdPause {
    const EVENT: &'static str = "a stalled disk (K §9.2 B11)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<EtcdPauseDraft>> = Drawn::ByDefault(|_| Some(EtcdPauseDraft::default()));

    fn subject(&self) -> Subject {
        Subject::NOTHING
    }

    fn blocks(&self) -> Blocks {
        Blocks::Etcd
    }

    fn inject(&self, _: &Injection<'_>) -> Vec<ActiveEffect> {
        vec![Outage(EtcdOutage::Paused).into()]
    }
}

parameters! {
    /// etcd elects a leader: writes wait, some end with `leader changed` although they commit.
    pub struct EtcdElection / EtcdElectionDraft {}
}

impl Inject for EtcdElection {
    const EVENT: &'static str = "the crash of etcd's leader; 1 to 4 s are usual (K §9.2 B8)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<EtcdElectionDraft>> = Drawn::ByDefault(|_| Some(EtcdElectionDraft::default()));

    fn subject(&self) -> Subject {
        Subject::NOTHING
    }

    fn blocks(&self) -> Blocks {
        Blocks::Etcd
    }

    fn inject(&self, _: &Injection<'_>) -> Vec<ActiveEffect> {
        vec![Outage(EtcdOutage::Electing).into()]
    }
}

parameters! {
    /// etcd has no majority: writes and quorum reads fail, some writes commit when it is back.
    pub struct EtcdNoQuorum / EtcdNoQuorumDraft {}
}

impl Inject for EtcdNoQuorum {
    const EVENT: &'static str = "the loss of two of three etcd members (K §9.2 B9)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<EtcdNoQuorumDraft>> = Drawn::ByDefault(|_| Some(EtcdNoQuorumDraft::default()));

    fn subject(&self) -> Subject {
        Subject::NOTHING
    }

    fn blocks(&self) -> Blocks {
        Blocks::Etcd
    }

    fn inject(&self, _: &Injection<'_>) -> Vec<ActiveEffect> {
        vec![Outage(EtcdOutage::NoQuorum).into()]
    }
}

parameters! {
    /// Every step of etcd takes as long as on an overloaded disk.
    pub struct EtcdSlow / EtcdSlowDraft {}
}

impl Inject for EtcdSlow {
    const EVENT: &'static str = "disk contention (K §9.2 B11)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<EtcdSlowDraft>> = Drawn::ByDefault(|_| Some(EtcdSlowDraft::default()));

    fn subject(&self) -> Subject {
        Subject::NOTHING
    }

    fn blocks(&self) -> Blocks {
        Blocks::Etcd
    }

    fn inject(&self, _: &Injection<'_>) -> Vec<ActiveEffect> {
        vec![Slow.into()]
    }
}

parameters! {
    /// etcd's database has reached its quota: requests that would store something fail, those that only remove succeed.
    pub struct EtcdOutOfSpace / EtcdOutOfSpaceDraft {}
}

impl Inject for EtcdOutOfSpace {
    const EVENT: &'static str = "a database at its quota, until an operator compacts it and disarms the alarm (K §9.2 B13)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<EtcdOutOfSpaceDraft>> = Drawn::ByDefault(|_| Some(EtcdOutOfSpaceDraft::default()));

    fn subject(&self) -> Subject {
        Subject::NOTHING
    }

    fn blocks(&self) -> Blocks {
        Blocks::Etcd
    }

    fn inject(&self, _: &Injection<'_>) -> Vec<ActiveEffect> {
        vec![Full.into()]
    }
}
