//! The time that an API server takes for a request (K §11.2).

use std::time::Duration;

use kube_machinery::ApiError;
use sim_config::time::SimTime;

use super::State;
use super::request::{ApiReply, Op};
use super::server::Samplers;
use crate::net::{Block, high, low};

/// The times of a request's steps on its server.
pub(crate) struct ServerTime {
    /// The time of the server itself.
    pub processing: Duration,
    /// The time that etcd takes for the write or the quorum read; 0 for reads from the watch cache.
    pub stored: Duration,
    /// The time until the answer leaves.
    pub answer: Duration,
    /// The least time of a round trip, of which half is in `processing`.
    pub least: Duration,
}

impl ServerTime {
    /// The time at which the answer to a request passed on at `proposed` may leave.
    pub(super) fn due(&self, proposed: SimTime) -> SimTime {
        if self.least.is_zero() { SimTime::ZERO } else { proposed + self.least.saturating_sub(self.processing) }
    }

    /// Deducts the network, `after` one way, from the least time of a round trip.
    pub(super) fn over(mut self, after: Duration) -> Self {
        self.least = self.least.saturating_sub(2 * after);
        self
    }
}

impl State {
    /// The time for writing an answer, which depends on its content. A server with a capacity counts that as work.
    pub(super) fn answer_of(&self, server: usize, result: &Result<ApiReply, ApiError>) -> Duration {
        let samplers = if self.servers[server].degraded { &self.degraded_samplers } else { &self.samplers };
        match result {
            Ok(ApiReply::List { items, .. }) if self.size.is_none() => samplers.list_object.saturating_mul(items.len() as u32),
            _ => Duration::ZERO,
        }
    }

    /// The time of one more transaction of a request that needs several, by the choices of the world.
    pub(super) fn next_transaction(&mut self, server: usize) -> Duration {
        let degraded = self.servers[server].degraded || self.etcd.is_degraded();
        let samplers = if degraded { &self.degraded_samplers } else { &self.samplers };
        samplers.commit.sample(self.choices.unit())
    }

    /// The times of the steps of a request on `server`, by the draws of its message.
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
