//! Requests with a token that is no longer accepted.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::parameters::{parameters, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};
use crate::net::Side;

parameters! {
    /// Requests are refused with 401; open watches continue.
    pub struct Unauthorized / UnauthorizedDraft {
        /// Processes whose requests, the opening of watches included, are refused while the fault lasts.
        client: Target = target("one:*"),
    }
}

impl Inject for Unauthorized {
    const EVENT: &'static str = "a token that has expired before it was read again, or whose signing key was rotated (K §9.2 A11)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<UnauthorizedDraft>> = Drawn::ByDefault(|targeting| Some(UnauthorizedDraft { client: targeting.process()? }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.client])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Requests { clients: self.client.clone(), resource: "*".to_owned(), all: true }
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let clients = self.client.side(&injection.cluster.rt);
        vec![Rejected { fault: injection.index, clients }.into()]
    }
}

/// Clients whose tokens are rejected.
#[derive(Debug)]
struct Rejected {
    fault: u32,
    clients: Side,
}

impl Effect for Rejected {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.reject_tokens(self.fault, self.clients.clone());
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.accept_tokens(self.fault);
    }

    fn excludes(&self, _: &Self) -> Overlap {
        Overlap::Separate
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        false
    }
}
