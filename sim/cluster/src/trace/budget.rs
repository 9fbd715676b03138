//! The budget of events of a run, and the processes that spin when it is spent.

use std::task::{Context, Waker};

use kube_machinery::api::Verb;
use sim_config::time::SimTime;

use super::{Event, EventKind};
use crate::kinds::KindId;
use crate::rt::ProcessId;

/// The number of events after the budget that are examined to find the processes that spin.
const WATCHED: u64 = 2_000;

/// The number of events that a run may have. Until they are spent this costs one comparison per event.
pub(super) struct EventBudget {
    /// The number of the event that is examined next.
    next: u64,
    spin: Spin,
    waker: Option<Waker>,
}

/// The activity of a run that had spent its events.
#[derive(Clone, Debug, Default)]
pub struct Spin {
    /// The time at which the budget was spent.
    pub from: SimTime,
    /// The time of the last of the examined events.
    pub until: SimTime,
    /// The number of events that were examined.
    pub events: u64,
    /// The processes of these events, the busiest first.
    pub busy: Vec<Busy>,
}

/// The activity of one process meanwhile.
#[derive(Clone, Debug)]
pub struct Busy {
    /// The process whose events these are.
    pub process: ProcessId,
    /// The number of these events that are its own.
    pub events: u64,
    /// Its requests to API servers, with the number of each: the most frequent first.
    pub requests: Vec<(Verb, KindId, u64)>,
    /// The last note that it made.
    pub said: Option<String>,
}

impl EventBudget {
    pub(super) fn new(max: u64) -> Self {
        Self { next: max.saturating_add(1), spin: Spin::default(), waker: None }
    }

    /// Whether the event with this number has to be [examined](Self::look).
    pub(super) fn wants(&self, number: u64) -> bool {
        number >= self.next
    }

    pub(super) fn look(&mut self, event: &Event<'_>) {
        let spin = &mut self.spin;
        if spin.events == WATCHED {
            return;
        }
        if spin.events == 0 {
            spin.from = event.at;
        }
        spin.until = event.at;
        spin.events += 1;
        let process = match event.kind {
            EventKind::Process { process, .. } | EventKind::Note { process, .. } => Some(process),
            EventKind::Request { client, .. }
            | EventKind::Commit { client, .. }
            | EventKind::Answer { client, .. }
            | EventKind::Deliver { client, .. } => Some(client),
            EventKind::Fault { .. } | EventKind::Lost { .. } | EventKind::Relisted { .. } => None,
        };
        if let Some(process) = process {
            let known = spin.busy.iter().position(|busy| busy.process == process).unwrap_or_else(|| {
                spin.busy.push(Busy { process, events: 0, requests: Vec::new(), said: None });
                spin.busy.len() - 1
            });
            spin.busy[known].count(event);
        }
        if spin.events == WATCHED {
            self.waker.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Whether the processes that spin are known; until then the task of `context` is woken when they are.
    pub(super) fn poll(&mut self, context: &Context<'_>) -> bool {
        let known = self.spin.events == WATCHED;
        if !known {
            self.waker = Some(context.waker().clone());
        }
        known
    }

    /// The spinning processes as far as they are known, if the budget is spent.
    pub(super) fn spent(&self) -> Option<Spin> {
        let mut spin = Some(&self.spin).filter(|spin| spin.events > 0)?.clone();
        spin.busy.sort_by_key(|busy| (std::cmp::Reverse(busy.events), busy.process));
        spin.busy.iter_mut().for_each(|busy| busy.requests.sort_by_key(|(_, _, times)| std::cmp::Reverse(*times)));
        Some(spin)
    }
}

impl Busy {
    fn count(&mut self, event: &Event<'_>) {
        self.events += 1;
        match event.kind {
            EventKind::Request { verb, kind, .. } => match self.requests.iter_mut().find(|(known, of, _)| (*known, *of) == (verb, kind)) {
                Some((_, _, times)) => *times += 1,
                None => self.requests.push((verb, kind, 1)),
            },
            EventKind::Note { note, .. } => self.said = Some(note.to_string()),
            _ => {}
        }
    }
}
