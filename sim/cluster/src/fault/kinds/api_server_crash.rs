//! A crash of an API server.

use sim_config::time::Span;

use crate::fault::effect::{ActiveEffect, Inject, Injection};
use crate::fault::parameters::{between, parameters, target};
use crate::fault::process_down::take_down;
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};

parameters! {
    /// An API server crashes: answers are lost, watches break, its caches start again without history.
    pub struct ApiServerCrash / ApiServerCrashDraft {
        /// API servers that crash, and are down while the fault lasts, named by themselves or by their hosts.
        server: Target = target("one:apiserver-*"),
        /// The time after the restart for which its caches answer 429.
        initializing: Span = between(Span::millis(100), Span::secs(30)),
    }
}

impl Inject for ApiServerCrash {
    const EVENT: &'static str = "a crash or an upgrade of an API server (K §9.2 B7)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<ApiServerCrashDraft>> = Drawn::ByDefault(|_| Some(ApiServerCrashDraft::default()));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.server])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Processes(self.server.clone())
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let cluster = injection.cluster;
        let processes = self.server.servers(cluster).into_iter().map(|server| cluster.server_process(server)).collect();
        take_down(injection, processes, self.initializing.0)
    }
}
