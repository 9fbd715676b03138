//! A client that reconnects to another API server.

use crate::fault::effect::{ActiveEffect, Inject, Injection};
use crate::fault::parameters::{parameters, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};

parameters! {
    /// A client loses its connection and reconnects to another server, whose caches may be older.
    pub struct Reconnect / ReconnectDraft {
        /// Processes whose watches break, and whose requests go to `server` from then on.
        process: Target = target("one:*"),
        /// API server to which they reconnect; of several the one with the lowest number.
        server: Target = target("one:apiserver-*"),
    }
}

impl Inject for Reconnect {
    const EVENT: &'static str = "a load balancer that moves a client, the time-travel half of a stale read (K §9.2 B6, KK#59848)";
    const LASTS: Lasts<Self> = Lasts::Instant;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<ReconnectDraft>> =
        Drawn::ByDefault(|targeting| Some(ReconnectDraft { process: targeting.process()?, ..ReconnectDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.process, &self.server])
    }

    fn blocks(&self) -> Blocks {
        Blocks::History
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let cluster = injection.cluster;
        if let Some(&server) = self.server.servers(cluster).first() {
            self.process.processes(&cluster.rt).into_iter().for_each(|process| cluster.move_connection(process, server));
        }
        Vec::new()
    }
}
