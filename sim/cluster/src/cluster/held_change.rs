//! Faults that hold up one change on its way to a watch: the n-th that is sent to a client (K §4.2).
//!
//! ```text
//!  commit ──► cache of a server ── counted here ──► the n-th is struck: it and all behind it on its stream wait
//!                                                   └──► until their client has sent `writes` writes, for `at_most` at the latest
//! ```
//! A stream is in order, so nothing overtakes the held-up change; other streams of the client go on. A late change matters only to a
//! process that acts without knowing it: so the hold ends by the number of writes of its client.

use std::time::Duration;

use sim_config::time::SimTime;

use super::{Cluster, State};
use crate::kinds::KindId;
use crate::rt::ProcessId;
use crate::trace::recorder::Recorder;
use crate::trace::{EventKind, FaultChange};

/// A fault that waits for the n-th of some changes that are sent to the watches of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeHold {
    /// The number of the fault in its plan.
    pub fault: u32,
    /// The process whose watches are counted.
    pub client: ProcessId,
    /// The type whose changes are counted; unset = all.
    pub kind: Option<KindId>,
    /// The number of the change, counting from 1 over the whole run.
    pub nth: u32,
    /// The longest time for which it is held up, in model time from when its server could send it.
    pub at_most: Duration,
    /// The number of writes of the client after which it is released; 0 = writes do not release it.
    pub writes: u32,
}

/// A stream whose first element is held up.
struct Held {
    watch: usize,
    serial: u64,
    client: ProcessId,
    /// The number of writes of the client that are still waited for.
    writes: u32,
}

/// The faults that wait for changes, and the streams that they have stopped.
#[derive(Default)]
pub(crate) struct HeldChanges {
    /// The waiting faults, each with the number of changes that matched so far.
    waiting: Vec<(ChangeHold, u32)>,
    held: Vec<Held>,
}

impl HeldChanges {
    /// Whether some fault waits.
    pub(super) fn listens(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Stops all waits. Changes that are held up stay so.
    pub(super) fn stop_waiting(&mut self) {
        self.waiting.clear();
    }

    /// Counts a change that is sent to a watch. Returns the latest time until which it waits, if it does.
    pub(super) fn count(
        &mut self,
        recorder: &mut Recorder,
        (watch, serial): (usize, u64),
        client: ProcessId,
        kind: KindId,
        now: SimTime,
    ) -> Option<SimTime> {
        let mut until = None;
        for (hold, seen) in &mut self.waiting {
            if hold.client != client || hold.kind.is_some_and(|known| known != kind) {
                continue;
            }
            *seen += 1;
            if *seen == hold.nth {
                recorder.observe(now, EventKind::Fault { index: hold.fault, change: FaultChange::Fired });
                until = until.max(Some(now + hold.at_most));
                if hold.writes > 0 {
                    self.held.push(Held { watch, serial, client, writes: hold.writes });
                }
            }
        }
        until
    }
}

impl State {
    /// Releases the changes that waited for a write of this client.
    pub(super) fn let_go_at_write(&mut self, cluster: &Cluster, client: ProcessId, now: SimTime) {
        let State { held_changes, watchers, servers, net, samplers, deferred, .. } = self;
        if held_changes.held.is_empty() {
            return;
        }
        held_changes.held.retain_mut(|held| {
            if held.client != client {
                return true;
            }
            held.writes -= 1;
            if held.writes == 0
                && let Some(watcher) = watchers.get_mut(held.watch).filter(|watcher| watcher.serial == held.serial)
            {
                let server = servers[watcher.server].process;
                watcher.let_go(&cluster.rt, net, server, samplers, now, now);
                deferred.expect(client, now);
            }
            held.writes > 0
        });
    }
}

impl Cluster {
    /// Makes a fault wait for a change.
    pub fn add_change_hold(&self, hold: ChangeHold) {
        self.lock().held_changes.waiting.push((hold, 0));
    }
}
