//! One watch stream: the elements on their way to its client, and its end (K §2.5, K158 to K160, K180, K181).

mod deferral;

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use sim_config::draw::unit;
use sim_config::time::SimTime;

use super::api_server::ApiServer;
use super::held_change::HeldChanges;
use super::obstacle::{CutOff, Obstacle};
use super::request_point::RequestPoints;
use super::server::Samplers;
use super::store::Revision;
use super::transport::Transport;
use super::watch_element::{Element, End};
use crate::kinds::KindId;
use crate::net::Network;
use crate::rt::{ProcessId, Rt};
use crate::selector::Selector;
use crate::trace::WatchKind;
use crate::trace::recorder::Recorder;

pub(crate) use deferral::Deferral;

/// The approximate interval of bookmarks on a quiet stream (K §2.3).
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The time between the last bookmark and the end of the stream by the server.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

pub(crate) struct Watcher {
    /// Distinguishes it from earlier ones of the same number.
    pub(super) serial: u64,
    pub client: ProcessId,
    pub server: usize,
    pub kind: KindId,
    pub(super) namespace: Option<Arc<str>>,
    pub(super) selector: Selector,
    /// Elements on their way, with their arrival; `NEVER` = the link is cut. All watchers of a change share one element.
    pub(super) queue: VecDeque<(SimTime, Arc<Element>)>,
    /// The deferral of deliveries by its reader, if there is one.
    pub(super) deferral: Option<Deferral>,
    pub(super) last_due: SimTime,
    /// The time by which everything reaches its client late.
    pub lag: Duration,
    /// The stream carries only events after this revision.
    pub(super) start: Revision,
    /// Whether elements cannot get through: the link is cut or held, or the server is paused.
    pub(super) stalled: bool,
    /// The latest time until which a fault holds up the front of the queue.
    pub(super) held_until: Option<SimTime>,
    /// The messages that a cut has stopped.
    pub(super) cut_off: Option<CutOff>,
    /// The HTTP client, which detects that the connection is dead.
    pub(super) transport: Transport,
    /// The requested duration of the stream.
    pub(super) life: Duration,
    /// The time since which keep-alives get no answer, whichever direction loses them.
    pub(super) silent: Option<SimTime>,
    /// The time and kind of its end, once the elements that arrive before have been read. `None` = at `expires`, cleanly.
    pub(super) end: Option<(SimTime, End)>,
    /// The end by its server, as long as it cannot reach the client; `end` is then what the client detects without it.
    pub(super) cut_end: Option<End>,
    /// The server's own time-out.
    pub(super) expires: SimTime,
    pub(super) bookmarks: bool,
    pub(super) next_bookmark: SimTime,
    pub(super) waker: Option<Waker>,
    /// The timers that will wake the reader, the earliest last. A later one is kept when an earlier one has been used up: timers cannot be
    /// cancelled, and one per element for the stream's end would pile up.
    pub(super) armed: Vec<SimTime>,
}

impl Watcher {
    /// Sends an element on its way: it leaves the server at `ready` at the earliest and arrives in order.
    #[expect(clippy::too_many_arguments, reason = "the parts of the state that a delivery needs, borrowed apart")]
    pub(super) fn push(
        &mut self,
        rt: &Rt,
        net: &mut Network,
        server: ProcessId,
        samplers: &Samplers,
        buffer: usize,
        ready: SimTime,
        element: Arc<Element>,
        now: SimTime,
    ) {
        // Elements that were accepted before the stream expires are sent, whenever they arrive.
        if self.end.is_some() || ready >= self.expires && buffer < usize::MAX {
            return;
        }
        if self.is_full(buffer, now) {
            // A slow consumer is cut off cleanly; elements in the buffers still arrive (K054).
            self.finish(net, rt, server, End::Clean, now);
            return;
        }
        if self.held_until.is_some() {
            self.queue.push_back((SimTime::NEVER, element));
            return;
        }
        let (fate, block) = net.send(server, self.client, now);
        let due = match Obstacle::passes(fate) {
            Ok((delay, _)) if !self.stalled => (ready + delay + self.lag + samplers.watch_lag.sample(unit(block[2]))).max(self.last_due),
            passes => {
                self.stalls(passes.err(), now);
                SimTime::NEVER
            }
        };
        if due != SimTime::NEVER {
            self.last_due = due;
        }
        self.queue.push_back((due, element));
        // A reader that takes elements one by one is woken for the first; one that defers them, only if it cannot, or if no element would
        // arrive.
        let is_cut = due == SimTime::NEVER;
        let wakes = if self.deferral.is_some() { is_cut || !self.is_deferred() } else { self.queue.len() == 1 };
        if wakes {
            self.arm(rt, if is_cut { self.dead_at() } else { due });
        }
    }

    /// Counts a change that is about to be sent, which a fault may hold up. `id`: the number of this stream.
    pub(super) fn count_change(
        &mut self,
        rt: &Rt,
        id: usize,
        log: &mut RequestPoints,
        faults: &mut HeldChanges,
        recorder: &mut Recorder,
        now: SimTime,
    ) {
        if self.end.is_some() {
            return;
        }
        let until = faults.count(recorder, (id, self.serial), self.client, self.kind, now);
        log.log_change(self.client, now, until.is_some());
        if let Some(until) = until {
            self.hold_back(rt, until);
        }
    }

    /// Holds all elements back until they are released, at the latest at `until`. If the stream ends before, they are lost with it: its
    /// client reads what it missed on the next one.
    fn hold_back(&mut self, rt: &Rt, until: SimTime) {
        self.held_until = self.held_until.max(Some(until));
        self.arm(rt, until);
    }

    /// Releases the elements that a fault held up: they leave the server at `ready`, unless something else stops them.
    pub(super) fn let_go(&mut self, rt: &Rt, net: &mut Network, server: ProcessId, samplers: &Samplers, ready: SimTime, now: SimTime) {
        if self.held_until.take().is_none() || self.stalled {
            return;
        }
        for (due, element) in std::mem::take(&mut self.queue) {
            if due == SimTime::NEVER {
                // The element was accepted before, so the buffer does not count.
                self.push(rt, net, server, samplers, usize::MAX, ready, element, now);
            } else {
                self.queue.push_back((due, element));
            }
        }
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    /// Notes that elements cannot leave: because of this obstacle on the way, or because the server is paused.
    pub(super) fn stalls(&mut self, obstacle: Option<Obstacle>, now: SimTime) {
        if obstacle == Some(Obstacle::Cut) && self.cut_off.is_none_or(|cut_off| cut_off.again <= now) {
            self.cut_off = Some(CutOff { since: now, again: SimTime::NEVER });
        }
        self.stalled = true;
        if obstacle.is_some() || self.transport.pings() {
            self.silent.get_or_insert(now);
        }
    }

    /// The time at which its client finds the connection dead; never, as long as it is not silent.
    pub(super) fn dead_at(&self) -> SimTime {
        self.silent.map_or(SimTime::NEVER, |since| self.transport.watch_dead_at(since, self.last_due, self.life))
    }

    /// The end by which the client detects, at `at`, that the connection is dead.
    pub(super) fn dies(&self, at: SimTime) -> Option<(SimTime, End)> {
        Some((at, End::Broken(self.transport.lost())))
    }

    /// The time at which the last of its elements arrives, if its client has deferred them; otherwise never.
    pub(super) fn last_deferred(&self) -> SimTime {
        self.deferral.as_ref().and(self.queue.back()).map_or(SimTime::NEVER, |&(due, _)| due)
    }

    /// Ends the stream: the client learns of it when the message arrives, which is sent again after a cut, or through its own keep-alive.
    pub(super) fn finish(&mut self, net: &mut Network, rt: &Rt, server: ProcessId, end: End, now: SimTime) {
        if self.end.is_none() {
            self.end_after(rt, net, server, now, end, now);
        }
    }

    /// Sends the end of the stream, which leaves the server at `ready`.
    pub(super) fn end_after(&mut self, rt: &Rt, net: &mut Network, server: ProcessId, ready: SimTime, end: End, now: SimTime) {
        let (at, end) = match Obstacle::passes(net.send(server, self.client, now).0) {
            Ok((delay, _)) if !self.stalled => ((ready + delay).max(self.last_due), end),
            passes => {
                self.stalls(passes.err(), now);
                self.cut_end = Some(end);
                (self.dead_at(), End::Broken(self.transport.lost()))
            }
        };
        self.end = Some((at, end));
        self.arm(rt, at);
    }

    /// Takes back elements that are not yet in the server's cache, which has everything up to `visible`.
    pub(super) fn recall(&mut self, visible: Revision, now: SimTime) {
        while self.queue.back().is_some_and(|(_, element)| element.revision > visible) {
            self.queue.pop_back();
        }
        self.last_due = self.last_arrival(now);
    }

    /// Takes back the elements of the initial state that have not arrived yet: it is sent as fast as the client reads, and a server that
    /// ends the stream sends neither the rest of it nor the bookmark after it.
    pub(super) fn cut_short(&mut self, now: SimTime) {
        if self.queue.iter().any(|(_, element)| element.what == WatchKind::InitialEventsEnd) {
            self.queue.retain(|&(due, _)| due <= now);
            self.last_due = self.last_arrival(now);
        }
    }

    /// Checks both directions of the connection, after either may have changed. A client that gets no answer to its pings gives the
    /// connection up, even if there was nothing to send (K §2.5, §4.4).
    pub(super) fn check(&mut self, rt: &Rt, net: &mut Network, server: &ApiServer, samplers: &Samplers, now: SimTime) {
        if self.end.is_some_and(|(at, _)| self.cut_end.is_none() || at <= now) {
            return;
        }
        let cut_end = self.cut_end.take();
        if cut_end.is_some() {
            self.end = None;
        }
        let stalled = server.paused || net.is_cut(server.process, self.client);
        // Elements that were sent again by now have arrived, and do not matter for the next cut.
        self.cut_off = self.cut_off.filter(|cut_off| cut_off.again > now);
        let ready = self.cut_off.map_or(now, |cut_off| Obstacle::Cut.passed(cut_off.since, now));
        let is_cut = net.is_cut(server.process, self.client) || net.is_cut(self.client, server.process);
        if is_cut || stalled && self.transport.pings() {
            self.silent.get_or_insert(now);
            self.arm(rt, self.dead_at());
        } else {
            let dead_at = self.dead_at();
            if self.silent.take().is_some() && ready >= dead_at {
                // The connection was given up long ago, although the reader has not looked since; or it will be, before anything is sent
                // again.
                self.end = self.dies(dead_at);
                self.arm(rt, dead_at);
                return;
            }
        }
        if !stalled && std::mem::take(&mut self.stalled) {
            self.cut_off = self.cut_off.map(|cut_off| CutOff { again: ready, ..cut_off });
            for (due, element) in std::mem::take(&mut self.queue) {
                if due == SimTime::NEVER {
                    // The element was accepted before, so the buffer does not count.
                    self.push(rt, net, server.process, samplers, usize::MAX, ready, element, now);
                } else {
                    self.queue.push_back((due, element));
                }
            }
            if let Some(waker) = &self.waker {
                waker.wake_by_ref();
            }
        }
        self.stalled |= stalled;
        if stalled && let Some(cut_off) = &mut self.cut_off {
            // The link was cut once more before anything was sent again.
            for (due, _) in self.queue.iter_mut().filter(|(due, _)| *due >= cut_off.again) {
                *due = SimTime::NEVER;
            }
            cut_off.again = SimTime::NEVER;
            self.last_due = self.last_arrival(now);
        }
        if let Some(end) = cut_end {
            self.end_after(rt, net, server.process, ready, end, now);
        }
    }

    /// The time at which the last of its elements in flight arrives.
    pub(super) fn last_arrival(&self, now: SimTime) -> SimTime {
        self.queue.iter().rev().map(|&(due, _)| due).find(|&due| due != SimTime::NEVER).unwrap_or(now)
    }

    /// The time of the next bookmark: about once a minute, and shortly before the server ends the stream (K §2.3).
    pub(super) fn bookmark_after(&self, now: SimTime) -> SimTime {
        let last = SimTime::from_micros(self.expires.as_micros().saturating_sub(BOOKMARK_BEFORE_END.as_micros() as u64));
        let regular = now + BOOKMARK_EVERY;
        if last > now { regular.min(last) } else { regular }
    }

    /// Ensures that the reader, if it waits, is woken at `at` or earlier.
    pub(super) fn arm(&mut self, rt: &Rt, at: SimTime) {
        if at != SimTime::NEVER
            && self.armed.last().is_none_or(|&earliest| at < earliest)
            && let Some(waker) = &self.waker
        {
            rt.wake_at(waker, at);
            self.armed.push(at);
        }
    }
}
