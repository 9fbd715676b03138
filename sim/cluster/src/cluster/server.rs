//! Delays of the steps of API servers, and the faults that servers inject into requests.

use std::time::Duration;

use kube_machinery::api::Verb;
use serde::{Deserialize, Serialize};
use sim_config::time::Span;

use crate::kinds::KindId;
use crate::net::{Delay, Sampler, Side};

/// The delays of the steps of a server (K §11.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServerDelays {
    /// Time for authentication, decoding, admission in process.
    pub processing: Delay,
    /// Time from proposing a write to etcd until it is applied.
    pub commit: Delay,
    /// The time that etcd takes for a quorum read: a get or a list that names no `resourceVersion`.
    pub quorum_read: Delay,
    /// Time from the moment a write is applied until the server sends its answer. Drawn at the quantile of `commit`: a slow write is slow
    /// both ways. Default 0: this part of the server's work is in `processing`.
    pub commit_answer: Delay,
    /// Time from the moment etcd has served a quorum read until the server sends its answer, drawn at the quantile of `quorum_read`.
    /// Default 0.
    pub quorum_read_answer: Delay,
    /// The additional time for each object of a list, until the answer leaves.
    pub list_object: Span,
    /// Time from a commit until a server's watch cache has it.
    pub cache_lag: Delay,
    /// Time from the watch cache to the client's connection; the network comes on top.
    pub watch_lag: Delay,
    /// Time of one call of an admission webhook.
    pub webhook: Delay,
    /// The least round-trip time of a read, with the network: half of it passes before the request arrives, and its answer is held back
    /// until the whole has passed, as on a test bench that stretches round trips. 0 = no minimum.
    #[serde(skip_serializing_if = "is_none")]
    pub read_at_least: Span,
    /// The least round-trip time of a write, like `read_at_least` for reads. 0 = no minimum.
    #[serde(skip_serializing_if = "is_none")]
    pub write_at_least: Span,
}

fn is_none(span: &Span) -> bool {
    span.is_zero()
}

impl Default for ServerDelays {
    fn default() -> Self {
        Self {
            processing: Delay::lognormal_us(500, 5_000, 100_000),
            commit: Delay::lognormal_us(3_000, 20_000, 200_000),
            quorum_read: Delay::lognormal_us(1_500, 12_000, 200_000),
            commit_answer: Delay::Constant(Span::micros(0)),
            quorum_read_answer: Delay::Constant(Span::micros(0)),
            list_object: Span::micros(20),
            cache_lag: Delay::lognormal_us(2_000, 30_000, 1_000_000),
            watch_lag: Delay::lognormal_us(700, 28_000, 1_000_000),
            webhook: Delay::lognormal_us(5_000, 100_000, 10_000_000),
            read_at_least: Span::micros(0),
            write_at_least: Span::micros(0),
        }
    }
}

impl ServerDelays {
    /// The first invalid value: its key, its error, and a valid value instead.
    pub fn problem(&self) -> Option<(&'static str, String, String)> {
        let most = super::request::MUTATING_DEADLINE;
        let wrong = |(key, span): (&'static str, Span)| {
            let found = format!("`cluster.delays.{key}` is {span}, longer than a request may take");
            (span.0 >= most).then(|| (key, found, format!("less than {} s", most.as_secs())))
        };
        [("read_at_least", self.read_at_least), ("write_at_least", self.write_at_least)].into_iter().find_map(wrong)
    }

    /// The same steps while etcd or the server is overloaded (K §11.2, degraded column).
    pub fn degraded() -> Self {
        Self {
            processing: Delay::lognormal_us(5_000, 500_000, 5_000_000),
            commit: Delay::lognormal_us(50_000, 1_500_000, 7_000_000),
            quorum_read: Delay::lognormal_us(20_000, 1_000_000, 7_000_000),
            commit_answer: Delay::Constant(Span::micros(0)),
            quorum_read_answer: Delay::Constant(Span::micros(0)),
            list_object: Span::micros(200),
            cache_lag: Delay::lognormal_us(100_000, 5_000_000, 30_000_000),
            watch_lag: Delay::lognormal_us(50_000, 5_000_000, 30_000_000),
            webhook: Delay::lognormal_us(500_000, 10_000_000, 10_000_000),
            read_at_least: Span::micros(0),
            write_at_least: Span::micros(0),
        }
    }
}

/// [`ServerDelays`] prepared for drawing.
#[derive(Clone, Copy, Debug)]
pub struct Samplers {
    pub(crate) processing: Sampler,
    pub(crate) commit: Sampler,
    pub(crate) quorum_read: Sampler,
    pub(crate) commit_answer: Sampler,
    pub(crate) quorum_read_answer: Sampler,
    pub(crate) list_object: Duration,
    pub(crate) cache_lag: Sampler,
    pub(crate) watch_lag: Sampler,
    pub(crate) webhook: Sampler,
    pub(crate) read_at_least: Duration,
    pub(crate) write_at_least: Duration,
}

impl Samplers {
    pub(crate) fn new(delays: &ServerDelays) -> Self {
        Self {
            processing: delays.processing.sampler(),
            commit: delays.commit.sampler(),
            quorum_read: delays.quorum_read.sampler(),
            commit_answer: delays.commit_answer.sampler(),
            quorum_read_answer: delays.quorum_read_answer.sampler(),
            list_object: delays.list_object.0,
            cache_lag: delays.cache_lag.sampler(),
            watch_lag: delays.watch_lag.sampler(),
            webhook: delays.webhook.sampler(),
            read_at_least: delays.read_at_least.0,
            write_at_least: delays.write_at_least.0,
        }
    }
}

/// The fault that an API server injects into a request (K §2.13, §9.2 A1 to A8).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InjectedFault {
    /// 429 from the overload filter: not executed.
    TooManyRequests {
        /// The `Retry-After` header of the answer, in seconds.
        retry_after: u32,
    },
    /// 503 from a server that is shutting down: not executed.
    Unavailable,
    /// 403 before it is executed, as without the permission.
    Forbidden,
    /// 500 with etcd's raw text, before the commit.
    FailBeforeCommit,
    /// Executed, then an error after `after`.
    LoseReply {
        /// The error that the caller gets.
        error: Failure,
        /// The time after the commit.
        after: Duration,
    },
    /// An error now, and the commit `after` later.
    CommitLate {
        /// The error that the caller gets.
        error: Failure,
        /// The time after the error.
        after: Duration,
    },
    /// Executed, and executed again after `gap`; the caller gets the second answer.
    Twice {
        /// The time between the two executions.
        gap: Duration,
    },
    /// Executed `by` later; the time limit of the request runs meanwhile.
    Slow {
        /// The time that the server waits before it begins to work on the request.
        by: Duration,
    },
}

impl InjectedFault {
    /// Whether nothing is executed.
    pub(super) fn refuses(&self) -> bool {
        matches!(self, Self::TooManyRequests { .. } | Self::Unavailable | Self::Forbidden | Self::FailBeforeCommit)
    }
}

/// The error that an ambiguous write ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// 500, empty reason, `etcdserver: request timed out`.
    EtcdTimeout,
    /// 500, empty reason, `etcdserver: leader changed`.
    LeaderChanged,
    /// 504, reason `Timeout`: the server's answer to a request that exceeds its time limit.
    Timeout,
    /// 500, reason ServerTimeout, retry after 2 s.
    ServerTimeout,
    /// The connection breaks: the caller gets no answer, and does not know whether its request was executed.
    Reset,
}

/// An injected fault that hits some requests with some probability.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiFault {
    /// The fault of the plan that this belongs to.
    pub fault: u32,
    /// The API servers at which requests are hit.
    pub servers: Side,
    /// The clients whose requests are hit.
    pub clients: Side,
    /// The verbs that are hit; empty = all but the opening of watches, which can only be refused.
    pub verbs: Vec<Verb>,
    /// The types that are hit; empty = all.
    pub kinds: Vec<KindId>,
    /// The probability per request.
    pub chance: f64,
    /// The fault injected into the requests that are hit.
    pub injected: InjectedFault,
}
