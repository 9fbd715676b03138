//! An address that a machine outside the cluster uses.

use std::net::IpAddr;
use std::sync::Arc;

use sim_config::Choice;

use crate::cluster::Cluster;
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::parameters::{ip_address, parameters};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Trigger, Wait};

parameters! {
    /// A host outside the cluster uses an address.
    pub struct ExternalHost / ExternalHostDraft {
        /// IPv4 or IPv6 address on which a machine outside the cluster answers while the fault lasts, even if a pod has it, too.
        address: String = Choice::Is("10.0.0.1".to_owned()) => ip_address,
    }
}

impl Inject for ExternalHost {
    const EVENT: &'static str = "a machine with a hand-configured address, or a second cluster on the same subnet (K §9.2 E14, A §5.1 P6)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<ExternalHostDraft>> = Drawn::ByDefault(|targeting| Some(ExternalHostDraft { address: targeting.address()? }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.address])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Nothing
    }

    fn inject(&self, _: &Injection<'_>) -> Vec<ActiveEffect> {
        self.address.parse().map(|address| External(address).into()).into_iter().collect()
    }
}

/// An address on which a machine outside the cluster answers.
#[derive(Debug)]
struct External(IpAddr);

impl Effect for External {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.nodes.data_plane.add_external(self.0);
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.nodes.data_plane.remove_external(self.0);
    }

    fn excludes(&self, _: &Self) -> Overlap {
        Overlap::Separate
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        true
    }
}
