//! How long an API server takes for a request (K §11.2).

use std::time::Duration;

use kube_machinery::ApiError;
use sim_config::time::SimTime;

use super::State;
use super::request::{ApiReply, Op};
use super::server::Samplers;
use crate::net::{Block, high, low};

/// The steps of a request on its server.
pub(crate) struct ServerTime {
    /// The server's own part.
    pub processing: Duration,
    /// What etcd takes for the write or the quorum read; 0 for what is read from the watch cache.
    pub stored: Duration,
    /// Until the answer leaves.
    pub answer: Duration,
    /// How long a round trip takes at least, of which half is in `processing`.
    pub least: Duration,
}

impl ServerTime {
    /// When the answer may leave to a request that is passed on at `proposed`.
    pub(super) fn due(&self, proposed: SimTime) -> SimTime {
        if self.least.is_zero() { SimTime::ZERO } else { proposed + self.least.saturating_sub(self.processing) }
    }

    /// The network is part of a round trip that takes so long at least: `after` one way.
    pub(super) fn over(mut self, after: Duration) -> Self {
        self.least = self.least.saturating_sub(2 * after);
        self
    }
}

impl State {
    /// How long an answer takes to be written, by what is in it. A server with a capacity counts that as work.
    pub(super) fn answer_of(&self, server: usize, result: &Result<ApiReply, ApiError>) -> Duration {
        let samplers = if self.servers[server].degraded { &self.degraded_samplers } else { &self.samplers };
        match result {
            Ok(ApiReply::List { items, .. }) if self.size.is_none() => samplers.list_object.saturating_mul(items.len() as u32),
            _ => Duration::ZERO,
        }
    }

    /// How long one more transaction of a request takes that needs several, by the choices of the world.
    pub(super) fn next_transaction(&mut self, server: usize) -> Duration {
        let degraded = self.servers[server].degraded || self.etcd.is_degraded();
        let samplers = if degraded { &self.degraded_samplers } else { &self.samplers };
        samplers.commit.sample(self.choices.unit())
    }

    /// How long the steps of a request take on `server`, by the draws of its message.
    pub(super) fn server_time(&self, server: usize, op: &Op, block: &Block) -> ServerTime {
        let degraded = self.servers[server].degraded;
        let own = if degraded { &self.degraded_samplers } else { &self.samplers };
        let etcd = if degraded || self.etcd.is_degraded() { &self.degraded_samplers } else { &self.samplers };
        let from_cache = match op {
            Op::Get { resource_version, .. } => resource_version.is_some(),
            Op::List { options, .. } => options.resource_version.as_deref().is_some_and(|version| !version.is_empty()),
            _ => false,
        };
        let (stored, answer) = match op {
            _ if from_cache => (Duration::ZERO, Duration::ZERO),
            Op::Get { .. } | Op::List { .. } => (etcd.quorum_read.sample(low(block[2])), etcd.quorum_read_answer.sample(low(block[2]))),
            _ => (etcd.commit.sample(low(block[2])), etcd.commit_answer.sample(low(block[2]))),
        };
        let Samplers { read_at_least, write_at_least, .. } = self.samplers;
        let least = if op.verb().is_write() { write_at_least } else { read_at_least };
        ServerTime { processing: own.processing.sample(high(block[2])) + least / 2, stored, answer, least }
    }
}
