//! How long an API server takes for a request (K §11.2).

use std::time::Duration;

use super::State;
use super::request::Op;
use crate::net::{Block, high, low};

/// The steps of a request on its server.
pub(crate) struct ServerTime {
    /// The server's own part.
    pub processing: Duration,
    /// Etcd's part.
    pub stored: Duration,
    /// Until the answer leaves.
    pub answer: Duration,
}

impl State {
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
        ServerTime { processing: own.processing.sample(high(block[2])), stored, answer }
    }
}
