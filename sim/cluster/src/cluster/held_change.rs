//! Faults that hold one change up on its way to a watch: the n-th that is sent to a client (K §4.2).
//!
//! ```text
//!  commit ──► cache of a server ── counted here ──► the n-th is struck: it and all behind it on its stream wait
//!                                                   └──► until their client has sent so many writes, at the latest for so long
//! ```
//! A stream is in order, so nothing overtakes what is held up; other streams of the client go on. Whether a change comes late is noticed
//! by nobody but whoever acts without knowing of it: so it is the writes of its client that are counted.

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
    /// The process to whose watches changes are counted.
    pub client: ProcessId,
    /// The type that changes are about to be counted; unset = all.
    pub kind: Option<KindId>,
    /// Which of them, counting from 1 over the whole run.
    pub nth: u32,
    /// How long it is held up at most, in model time from when its server had it to send.
    pub at_most: Duration,
    /// Until the client has sent so many writes; 0 = its writes do not end it.
    pub writes: u32,
}

/// A stream whose front is held up.
struct Held {
    watch: usize,
    serial: u64,
    client: ProcessId,
    /// How many writes of the client are still waited for.
    writes: u32,
}

/// The faults that wait for changes, and the streams that they have stopped.
#[derive(Default)]
pub(crate) struct HeldChanges {
    /// Each with how many changes matched so far.
    waiting: Vec<(ChangeHold, u32)>,
    held: Vec<Held>,
}

impl HeldChanges {
    /// Whether some fault waits.
    pub(super) fn listens(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Nothing waits any more. What is held up stays so.
    pub(super) fn stop_waiting(&mut self) {
        self.waiting.clear();
    }

    /// Counts a change that is sent to a watch. Returns until when it waits at the latest, if it does.
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
    /// A client sends a write: what waited for it arrives.
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
    /// Has a fault wait for a change.
    pub fn add_change_hold(&self, hold: ChangeHold) {
        self.lock().held_changes.waiting.push((hold, 0));
    }
}
