//! Checks whether anything between a process and the API servers could drop, delay, refuse or hide a message.
//!
//! Heartbeats of nodes are not sent while no process could notice the difference (`node::heartbeat`); this module decides that. The cluster
//! knows which processes run and how their clocks run, which rules the network has, which API servers recover, and which webhooks have to
//! be called. Faults declare their other effects: an [`Obstruction`] exists as long as the fault does.

use sim_config::time::SimTime;

use super::Cluster;
use super::api_server::ApiServer;
use crate::kinds::KindId;
use crate::net::Side;
use crate::rt::{ProcessId, ProcessState};

/// A late change may keep later changes late: a cache that is behind by more than this, in microseconds, is not clear.
const BEHIND_MAX: u64 = 1_000_000;

/// An obstacle that may drop, delay, refuse or hide the requests of some processes to API servers, or the answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstruction {
    /// The clients whose requests and watches are affected.
    pub clients: Side,
    /// The types affected; none = all.
    pub kinds: Vec<KindId>,
}

impl Obstruction {
    fn concerns(&self, client: ProcessId, kinds: &[KindId]) -> bool {
        self.clients.contains(client) && meets(&self.kinds, kinds)
    }
}

/// The number of an existing obstruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObstructionId(u64);

/// The existing obstructions, with the number of the next one.
#[derive(Debug, Default)]
pub(crate) struct Obstructions {
    present: Vec<(ObstructionId, Obstruction)>,
    next: u64,
}

impl Obstructions {
    fn add(&mut self, obstruction: Obstruction) -> ObstructionId {
        let id = ObstructionId(self.next);
        self.next += 1;
        self.present.push((id, obstruction));
        id
    }
}

impl Cluster {
    /// Adds an obstruction. Faults add theirs themselves; code that uses the cluster's controls directly has to do it.
    pub fn obstruct(&self, obstruction: Obstruction) -> ObstructionId {
        let id = self.lock().obstructions.add(obstruction);
        self.nodes.heartbeats.look_around(self);
        id
    }

    /// Removes the obstruction with this number.
    pub fn unobstruct(&self, id: ObstructionId) {
        self.lock().obstructions.present.retain(|(known, _)| *known != id);
    }

    /// Whether all requests of `client` about `kinds` are answered normally, and all its watches of them are delivered normally.
    pub fn is_clear(&self, client: ProcessId, kinds: &[KindId]) -> bool {
        if self.rt.state(client) != ProcessState::Running || !self.rt.clock_of(client).runs_true() {
            return false;
        }
        let state = self.lock();
        let now = self.rt.now();
        state.servers.iter().all(|server| server.is_well(kinds, now) && state.net.is_untouched(client, server.process))
            && !state.webhooks.iter().any(|hook| hook.concerns(kinds))
            && !state.obstructions.present.iter().any(|(_, obstruction)| obstruction.concerns(client, kinds))
    }
}

impl ApiServer {
    /// Whether the server runs, and has recovered from its faults.
    fn is_well(&self, kinds: &[KindId], now: SimTime) -> bool {
        let in_time = |kind: &KindId| {
            let cache = &self.caches[usize::from(kind.0)];
            let behind = cache.last_due.as_micros().saturating_sub(now.as_micros());
            !cache.lost && behind <= BEHIND_MAX
        };
        self.up && !self.paused && self.ready_at <= now && kinds.iter().all(in_time)
    }
}

/// Whether a rule for `ruled` types (none = all) covers one of `kinds`.
fn meets(ruled: &[KindId], kinds: &[KindId]) -> bool {
    ruled.is_empty() || ruled.iter().any(|kind| kinds.contains(kind))
}

#[cfg(test)]
impl Cluster {
    /// The same as [`Cluster::is_clear`], but derived from the effects of faults on the cluster's state instead of from their declarations.
    pub(crate) fn looks_clear(&self, client: ProcessId, kinds: &[KindId]) -> bool {
        let state = self.lock();
        let now = self.rt.now();
        let is_held = |server: &ApiServer| {
            let stands_still = |kind: &KindId| {
                let cache = &server.caches[usize::from(kind.0)];
                cache.frozen || !cache.extra_lag.is_zero() || cache.lost_events.is_wrong()
            };
            server.etcd_cut || server.degraded || kinds.iter().any(stands_still)
        };
        self.rt.state(client) == ProcessState::Running
            && self.rt.clock_of(client).runs_true()
            && state.etcd.outage.is_none()
            && !state.etcd.is_degraded()
            && !state.etcd.out_of_space
            && state.servers.iter().all(|server| server.is_well(kinds, now) && !is_held(server))
            && state.servers.iter().all(|server| state.net.is_untouched(client, server.process))
            && !state.api_faults.iter().any(|fault| fault.clients.contains(client) && meets(&fault.kinds, kinds))
            && !state.forbidden.iter().any(|rule| rule.clients.contains(client) && meets(&rule.kinds, kinds))
            && !state.unauthorized.iter().any(|(_, clients)| clients.contains(client))
            && !state.cache_lags.iter().any(|lag| lag.concerns(client, kinds))
            && !state.rankings.rank(client, kinds)
            && !state.webhooks.iter().any(|hook| hook.concerns(kinds))
    }
}
