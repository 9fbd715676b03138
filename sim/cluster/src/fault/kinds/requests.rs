//! Single requests that are refused, fail, lose their answers, or are executed late or twice.

use std::sync::Arc;

use kube_machinery::api::Verb;
use sim_config::time::Span;
use sim_config::{Choice, Probability};

use crate::cluster::Cluster;
use crate::cluster::server::{ApiFault, Failure, InjectedFault};
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::parameters::{any, between, chance, parameters, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};

/// The verbs of writes.
const WRITES: [Verb; 4] = [Verb::Create, Verb::Update, Verb::Patch, Verb::Delete];

/// An injected fault of some requests.
#[derive(Debug)]
struct Hit(ApiFault);

impl Effect for Hit {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.add_api_fault(self.0.clone());
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.remove_api_faults(self.0.fault);
    }

    fn excludes(&self, _: &Self) -> Overlap {
        Overlap::Separate
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        false
    }
}

/// The requests that a fault hits.
struct Requests<'a> {
    servers: &'a Target,
    clients: &'a Target,
    verbs: &'a [Verb],
    chance: Probability,
}

impl Requests<'_> {
    fn meet(&self, injection: &Injection<'_>, injected: InjectedFault) -> Vec<ActiveEffect> {
        let rt = &injection.cluster.rt;
        let hit = ApiFault {
            fault: injection.index,
            servers: self.servers.side(rt),
            clients: self.clients.side(rt),
            verbs: self.verbs.to_vec(),
            kinds: Vec::new(),
            chance: self.chance.get(),
            injected,
        };
        vec![Hit(hit).into()]
    }
}

/// Requests that fail with an error, and whose next try may succeed.
fn some_fail(clients: &Target) -> Blocks {
    Blocks::Requests { clients: clients.clone(), resource: "*".to_owned(), all: false }
}

parameters! {
    /// Some requests are refused with 429 and are not executed.
    pub struct TooManyRequests / TooManyRequestsDraft {
        /// API servers that refuse requests, named by themselves or by their hosts.
        server: Target = target("apiserver-*"),
        /// Processes whose requests, the opening of watches included, may be refused.
        client: Target = any(),
        /// The probability per request.
        chance: Probability = chance(0.01, 0.5),
        /// The header `Retry-After`, in seconds.
        retry_after: u32 = Choice::Between(1, 5),
    }
}

impl Inject for TooManyRequests {
    const EVENT: &'static str = "API priority and fairness, or the in-flight limit (K §9.2 A6)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<TooManyRequestsDraft>> = Drawn::ByDefault(|targeting| {
        if !targeting.coin() {
            return Some(TooManyRequestsDraft::default());
        }
        Some(TooManyRequestsDraft { client: targeting.process()?, ..TooManyRequestsDraft::default() })
    });

    fn subject(&self) -> Subject {
        Subject::of(&[&self.server, &self.client])
    }

    fn blocks(&self) -> Blocks {
        some_fail(&self.client)
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let requests = Requests { servers: &self.server, clients: &self.client, verbs: &Verb::ALL, chance: self.chance };
        requests.meet(injection, InjectedFault::TooManyRequests { retry_after: self.retry_after })
    }
}

parameters! {
    /// Some requests fail with etcd's raw 500 before anything is written.
    pub struct ServerError / ServerErrorDraft {
        /// API servers at which requests fail, named by themselves or by their hosts.
        server: Target = target("apiserver-*"),
        /// Processes whose requests, the opening of watches included, may fail.
        client: Target = any(),
        /// The probability per request.
        chance: Probability = chance(0.001, 0.5),
    }
}

impl Inject for ServerError {
    const EVENT: &'static str = "a burst of 500 during an etcd restart (K §9.2 A1)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<ServerErrorDraft>> = Drawn::ByDefault(|targeting| {
        if !targeting.coin() {
            return Some(ServerErrorDraft::default());
        }
        Some(ServerErrorDraft { client: targeting.process()?, ..ServerErrorDraft::default() })
    });

    fn subject(&self) -> Subject {
        Subject::of(&[&self.server, &self.client])
    }

    fn blocks(&self) -> Blocks {
        some_fail(&self.client)
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let requests = Requests { servers: &self.server, clients: &self.client, verbs: &Verb::ALL, chance: self.chance };
        requests.meet(injection, InjectedFault::FailBeforeCommit)
    }
}

parameters! {
    /// Some requests are refused with 503 by a server that is shutting down.
    pub struct Unavailable / UnavailableDraft {
        /// API servers that refuse requests as if they shut down, named by themselves or by their hosts.
        server: Target = target("one:apiserver-*"),
        /// Processes whose requests, the opening of watches included, may be refused.
        client: Target = any(),
        /// The probability per request.
        chance: Probability = chance(0.01, 1.0),
    }
}

impl Inject for Unavailable {
    const EVENT: &'static str = "the shutdown of an API server (K §2.11)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<UnavailableDraft>> = Drawn::ByDefault(|targeting| {
        if !targeting.coin() {
            return Some(UnavailableDraft::default());
        }
        Some(UnavailableDraft { client: targeting.process()?, ..UnavailableDraft::default() })
    });

    fn subject(&self) -> Subject {
        Subject::of(&[&self.server, &self.client])
    }

    fn blocks(&self) -> Blocks {
        some_fail(&self.client)
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let requests = Requests { servers: &self.server, clients: &self.client, verbs: &Verb::ALL, chance: self.chance };
        requests.meet(injection, InjectedFault::Unavailable)
    }
}

parameters! {
    /// Some writes are committed and then end with an error.
    pub struct LostReply / LostReplyDraft {
        /// API servers that answer with `error` although they have committed, named by themselves or by their hosts.
        server: Target = target("apiserver-*"),
        /// Processes whose writes may end with `error` although they are committed.
        client: Target = any(),
        /// The probability per write.
        chance: Probability = chance(0.001, 0.5),
        /// The error that the caller gets.
        error: Failure = Choice::OneOf(vec![
            Failure::EtcdTimeout,
            Failure::LeaderChanged,
            Failure::Timeout,
            Failure::ServerTimeout,
            Failure::Reset,
        ]),
        /// The time after the commit.
        after: Span = between(Span::millis(1), Span::secs(34)),
    }
}

impl Inject for LostReply {
    const EVENT: &'static str = "a write that was applied although the caller saw an error (K §9.2 A2, A8)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<LostReplyDraft>> = Drawn::ByDefault(|targeting| {
        let client = if targeting.coin() { targeting.process()? } else { any() };
        Some(LostReplyDraft { client, ..LostReplyDraft::default() })
    });

    fn subject(&self) -> Subject {
        Subject::of(&[&self.server, &self.client])
    }

    fn blocks(&self) -> Blocks {
        some_fail(&self.client)
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let requests = Requests { servers: &self.server, clients: &self.client, verbs: &WRITES, chance: self.chance };
        requests.meet(injection, InjectedFault::LoseReply { error: self.error, after: self.after.0 })
    }
}

parameters! {
    /// Some writes end with an error and are committed later, as they were sent.
    pub struct LateCommit / LateCommitDraft {
        /// API servers that answer with `error` before the commit, named by themselves or by their hosts.
        server: Target = target("apiserver-*"),
        /// Processes whose writes may end with `error` and be committed later.
        client: Target = any(),
        /// The probability per write.
        chance: Probability = chance(0.001, 0.5),
        /// The error that the caller gets.
        error: Failure = Choice::OneOf(vec![Failure::Timeout, Failure::EtcdTimeout, Failure::Reset]),
        /// The time after the error.
        after: Span = between(Span::millis(1), Span::secs(34)),
    }
}

impl Inject for LateCommit {
    const EVENT: &'static str =
        "a transaction that etcd carries out after its API server gave up, if its object has not changed (K §9.2 A3)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<LateCommitDraft>> = Drawn::ByDefault(|targeting| {
        if !targeting.coin() {
            return Some(LateCommitDraft::default());
        }
        Some(LateCommitDraft { client: targeting.process()?, ..LateCommitDraft::default() })
    });

    fn subject(&self) -> Subject {
        Subject::of(&[&self.server, &self.client])
    }

    fn blocks(&self) -> Blocks {
        Blocks::LateWrites { clients: self.client.clone() }
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let requests = Requests { servers: &self.server, clients: &self.client, verbs: &WRITES, chance: self.chance };
        requests.meet(injection, InjectedFault::CommitLate { error: self.error, after: self.after.0 })
    }
}

parameters! {
    /// Some writes are executed twice; the caller gets the second answer.
    pub struct DuplicateRequest / DuplicateRequestDraft {
        /// API servers that execute writes twice, named by themselves or by their hosts.
        server: Target = target("apiserver-*"),
        /// Processes whose writes may be executed twice.
        client: Target = any(),
        /// The probability per write.
        chance: Probability = chance(0.005, 0.5),
        /// The time between the two executions.
        gap: Span = between(Span::millis(1), Span::secs(30)),
    }
}

impl Inject for DuplicateRequest {
    const EVENT: &'static str = "a proxy that retries a write (K §2.13, executed twice)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<DuplicateRequestDraft>> = Drawn::ByDefault(|targeting| {
        if !targeting.coin() {
            return Some(DuplicateRequestDraft::default());
        }
        Some(DuplicateRequestDraft { client: targeting.process()?, ..DuplicateRequestDraft::default() })
    });

    fn subject(&self) -> Subject {
        Subject::of(&[&self.server, &self.client])
    }

    fn blocks(&self) -> Blocks {
        Blocks::LateWrites { clients: self.client.clone() }
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let requests = Requests { servers: &self.server, clients: &self.client, verbs: &WRITES, chance: self.chance };
        requests.meet(injection, InjectedFault::Twice { gap: self.gap.0 })
    }
}
