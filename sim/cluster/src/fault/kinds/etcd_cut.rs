//! An API server without etcd.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::parameters::{parameters, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};

parameters! {
    /// One API server cannot reach etcd: its writes hang and its caches stop advancing.
    pub struct EtcdCut / EtcdCutDraft {
        /// API servers that cannot reach etcd while the fault lasts, named by themselves or by their hosts.
        server: Target = target("one:apiserver-*"),
    }
}

impl Inject for EtcdCut {
    const EVENT: &'static str = "a partition between one API server and etcd (K §9.2 B10)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<EtcdCutDraft>> = Drawn::ByDefault(|_| Some(EtcdCutDraft::default()));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.server])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Servers(self.server.clone())
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        self.server.servers(injection.cluster).into_iter().map(|server| CutOff(server).into()).collect()
    }
}

/// An API server that does not reach etcd.
#[derive(Debug)]
struct CutOff(usize);

impl Effect for CutOff {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.set_etcd_cut(self.0, true);
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.set_etcd_cut(self.0, false);
    }

    fn excludes(&self, other: &Self) -> Overlap {
        if self.0 == other.0 { Overlap::SameState } else { Overlap::Separate }
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        true
    }
}
