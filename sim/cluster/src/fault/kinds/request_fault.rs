//! One request of a process, selected by its number.

use std::sync::Arc;

use kube_machinery::api::Verb;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::Choice;
use sim_config::choice::Open;
use sim_config::time::Span;

use crate::cluster::server::{Failure, InjectedFault};
use crate::cluster::{Cluster, Disturbance, RequestPoint, Until};
use crate::fault::blocks::resource_kind;
use crate::fault::effect::{ActiveEffect, Inject, Injection};
use crate::fault::kinds::leader_flaps::lease_taken;
use crate::fault::kinds::links::cut_off;
use crate::fault::kinds::pause::stand_still;
use crate::fault::parameters::{between, counted_from_1, every_resource, parameters, resolves_to_itself, served, target};
use crate::fault::process_down::{INITIALIZING, take_down};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};

/// The effect on the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RequestEffect {
    /// It is refused with 403.
    Forbidden,
    /// It is refused with 429, to be retried after a second.
    TooManyRequests,
    /// It is refused with etcd's raw 500, before anything is written.
    ServerError,
    /// It is refused with 503 by a server that is shutting down.
    Unavailable,
    /// It does not reach its server; the connection breaks after `after`.
    RequestLost,
    /// It is executed, and ends with `error` after `after`.
    ReplyLost,
    /// A write ends with `error`, and etcd commits it `after` later as it was sent, if its object has not changed.
    LateCommit,
    /// It reaches its server after `after`, or once other clients have written its object `writes` times; its caller waits until then.
    Late,
    /// It reaches its server late, as with `late`, but its connection breaks at once, and its caller continues.
    LateAfterReset,
    /// It is executed at once; its answer arrives after `after`, or once other clients have written its object `writes` times.
    ReplyLate,
    /// A read from a cache is answered by a server that has not seen the last `writes` changes of its object. Other requests are not
    /// affected, and none is if there is only one server.
    Stale,
    /// The process crashes before its server executes it, and is down for `down`.
    CrashBefore,
    /// The process crashes right after its execution, and is down for `down`.
    CrashAfter,
    /// The process is paused for `down` as it sends it: it reaches its server when the process resumes.
    PauseBefore,
    /// The process is paused for `down` from its execution on.
    PauseAfter,
    /// The process is cut off from all others for `down` before it sends it.
    CutBefore,
    /// The process is cut off from all others for `down` right after its execution, before the answer leaves.
    CutAfter,
    /// Another process takes the lease that the process holds as it sends it, and never renews it: the process loses it after its renew
    /// deadline, and candidates can have it when it expires. Other requests are not affected.
    LeaseTaken,
}

impl RequestEffect {
    /// The effects that a scenario draws from if it names none, in the order of their declaration. The others are the faults `pause`,
    /// `partition` and `leader-flaps` at a request, which are otherwise drawn by time.
    pub const DRAWN: [Self; 13] = [
        Self::Forbidden,
        Self::TooManyRequests,
        Self::ServerError,
        Self::Unavailable,
        Self::RequestLost,
        Self::ReplyLost,
        Self::LateCommit,
        Self::Late,
        Self::LateAfterReset,
        Self::ReplyLate,
        Self::Stale,
        Self::CrashBefore,
        Self::CrashAfter,
    ];

    /// The name in plans.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::TooManyRequests => "too-many-requests",
            Self::ServerError => "server-error",
            Self::Unavailable => "unavailable",
            Self::RequestLost => "request-lost",
            Self::ReplyLost => "reply-lost",
            Self::LateCommit => "late-commit",
            Self::Late => "late",
            Self::LateAfterReset => "late-after-reset",
            Self::ReplyLate => "reply-late",
            Self::Stale => "stale",
            Self::CrashBefore => "crash-before",
            Self::CrashAfter => "crash-after",
            Self::PauseBefore => "pause-before",
            Self::PauseAfter => "pause-after",
            Self::CutBefore => "cut-before",
            Self::CutAfter => "cut-after",
            Self::LeaseTaken => "lease-taken",
        }
    }

    /// Whether the effect begins with the request and lasts for a while.
    pub fn lasts(self) -> bool {
        matches!(
            self,
            Self::CrashBefore
                | Self::CrashAfter
                | Self::PauseBefore
                | Self::PauseAfter
                | Self::CutBefore
                | Self::CutAfter
                | Self::LeaseTaken
        )
    }
}

/// The requests that are counted, by verb.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RequestVerb {
    /// Requests of every verb.
    #[default]
    Any,
    /// Gets and lists, of one object or of many.
    Read,
    /// Creates, updates, patches and deletes.
    Write,
    /// Reads of one object.
    Get,
    /// Lists of objects of one type.
    List,
    /// Requests that open a watch. They can be refused or lost.
    Watch,
    /// A create, POST over HTTP.
    Create,
    /// An update, PUT over HTTP.
    Update,
    /// A patch of any media type.
    Patch,
    /// A delete of one object.
    Delete,
}

impl RequestVerb {
    /// The verbs; empty = all.
    fn verbs(self) -> Vec<Verb> {
        match self {
            Self::Any => vec![],
            Self::Read => vec![Verb::Get, Verb::List],
            Self::Write => vec![Verb::Create, Verb::Update, Verb::Patch, Verb::Delete],
            Self::Get => vec![Verb::Get],
            Self::List => vec![Verb::List],
            Self::Watch => vec![Verb::Watch],
            Self::Create => vec![Verb::Create],
            Self::Update => vec![Verb::Update],
            Self::Patch => vec![Verb::Patch],
            Self::Delete => vec![Verb::Delete],
        }
    }
}

impl Open for RequestEffect {}
impl Open for RequestVerb {}

resolves_to_itself! {
    RequestEffect: _effect => vec![],
    RequestVerb: _verb => vec![],
}

parameters! {
    /// One request of a process is refused, lost, late or stale, loses its answer, or its caller crashes, stops or is cut off at it.
    pub struct RequestFault / RequestFaultDraft {
        /// Processes whose requests are counted, for each process separately.
        process: Target = target("one:*"),
        /// The verb of a matching request, or any.
        verb: RequestVerb = Choice::Is(RequestVerb::Any),
        /// The plural of the type that the requests are about, or `*`.
        resource: String = every_resource() => served,
        /// The number of the request among those that match, in the order in which they are sent, counting from 1 over the whole run.
        nth: u32 = Choice::Between(1, 40) => counted_from_1("requests"),
        /// The effect on the request.
        effect: RequestEffect = Choice::OneOf(RequestEffect::DRAWN.to_vec()),
        /// The time by which it is late, or until the error comes.
        after: Span = between(Span::millis(1), Span::secs(34)),
        /// The number of writes of the same object by other clients after which a late request or answer arrives at the latest; 0 = their
        /// writes do not count. Also the number of changes that a stale answer lacks, at least one.
        writes: u32 = Choice::Between(0, 2),
        /// The caller's error if the answer is lost or the write is committed late.
        error: Failure = Choice::OneOf(vec![
            Failure::EtcdTimeout,
            Failure::LeaderChanged,
            Failure::Timeout,
            Failure::ServerTimeout,
            Failure::Reset,
        ]),
        /// The time for which the process is down if it crashes, or is paused, or is cut off; also the time for which another process tries
        /// to take its lease.
        down: Span = between(Span::millis(100), Span::secs(10)),
    }
}

impl RequestFault {
    fn disturbance(&self) -> Disturbance {
        let (after, error) = (self.after.0, self.error);
        let until = Until { at_most: after, writes: self.writes };
        match self.effect {
            RequestEffect::Forbidden => Disturbance::InjectedFault(InjectedFault::Forbidden),
            RequestEffect::TooManyRequests => Disturbance::InjectedFault(InjectedFault::TooManyRequests { retry_after: 1 }),
            RequestEffect::ServerError => Disturbance::InjectedFault(InjectedFault::FailBeforeCommit),
            RequestEffect::Unavailable => Disturbance::InjectedFault(InjectedFault::Unavailable),
            RequestEffect::RequestLost => Disturbance::Lost(after),
            RequestEffect::ReplyLost => Disturbance::InjectedFault(InjectedFault::LoseReply { error, after }),
            RequestEffect::LateCommit => Disturbance::InjectedFault(InjectedFault::CommitLate { error, after }),
            RequestEffect::Late => Disturbance::Late { until, reset: false },
            RequestEffect::LateAfterReset => Disturbance::Late { until, reset: true },
            RequestEffect::ReplyLate => Disturbance::AnswerLate(until),
            RequestEffect::Stale => Disturbance::Stale { changes: self.writes.max(1) },
            RequestEffect::CrashBefore => Disturbance::Crash { after: false },
            RequestEffect::CrashAfter => Disturbance::Crash { after: true },
            RequestEffect::PauseBefore => Disturbance::Pause { after: false, lasts: self.down.0 },
            RequestEffect::PauseAfter => Disturbance::Pause { after: true, lasts: self.down.0 },
            RequestEffect::CutBefore => Disturbance::Cut { after: false },
            RequestEffect::CutAfter => Disturbance::Cut { after: true },
            RequestEffect::LeaseTaken => Disturbance::Beside,
        }
    }

    fn arm(&self, index: u32, cluster: &Arc<Cluster>) {
        if let Some(kind) = resource_kind(cluster, &self.resource) {
            for client in self.process.processes(&cluster.rt) {
                let (verbs, nth, disturbance) = (self.verb.verbs(), self.nth, self.disturbance());
                cluster.add_request_point(RequestPoint { fault: index, client, verbs, kind, nth, disturbance });
            }
        }
    }
}

impl Inject for RequestFault {
    const EVENT: &'static str = "any single failure of a request; a failed write has one of four possible outcomes (K §2.13)";
    const LASTS: Lasts<Self> = Lasts::Recovers(|fault| fault.effect.lasts().then_some(fault.down));
    const BEGINS: Trigger<Wait<Self>> = Trigger::Request(Wait { nth: |fault| fault.nth, arm: Self::arm });
    const DRAWN: Drawn<Aim<RequestFaultDraft>> = Drawn::ByDefault(|targeting| {
        Some(RequestFaultDraft { process: targeting.process()?, resource: targeting.resource(), ..RequestFaultDraft::default() })
    });

    fn subject(&self) -> Subject {
        Subject::of(&[&self.process]).with(self.effect.name())
    }

    fn blocks(&self) -> Blocks {
        let (clients, resource) = (self.process.clone(), self.resource.clone());
        match self.effect {
            RequestEffect::CrashBefore | RequestEffect::CrashAfter | RequestEffect::PauseBefore | RequestEffect::PauseAfter => {
                Blocks::Processes(clients)
            }
            RequestEffect::CutBefore | RequestEffect::CutAfter => Blocks::Links { from: clients, to: Target::any(), both_ways: true },
            RequestEffect::LeaseTaken => Blocks::Leader,
            RequestEffect::LateCommit | RequestEffect::Late | RequestEffect::LateAfterReset => Blocks::LateWrites { clients },
            RequestEffect::Stale => Blocks::ClientCaches { clients, resource },
            _ => Blocks::Requests { clients, resource, all: false },
        }
    }

    /// Starts only the lasting effects: all others happen where the request is.
    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let Some(process) = injection.reached_by else { return Vec::new() };
        match self.effect {
            RequestEffect::PauseBefore | RequestEffect::PauseAfter => vec![stand_still(process)],
            RequestEffect::CutBefore | RequestEffect::CutAfter => vec![cut_off(process)],
            RequestEffect::LeaseTaken => vec![lease_taken(injection, process)],
            _ => take_down(injection, vec![process], INITIALIZING),
        }
    }
}
