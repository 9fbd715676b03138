//! Disturbances of single requests and changes, and the places where they are possible.

use std::sync::Arc;

use kube_machinery::api::Verb;
use kube_sim::cluster::server::Failure;
use kube_sim::cluster::{Logged, SentChange, SentRequest};
use kube_sim::fault::{ChangeLate, FaultKind, RequestEffect, RequestFault, RequestVerb, Target};
use serde::{Deserialize, Serialize};
use sim_config::time::{SimTime, Span};

/// The downtime of a process that crashed.
const DOWN: Span = Span::secs(1);
/// The time for which a process is paused or cut off: longer than the timeouts of its callers, and than a lease without renewal.
const STOPPED: Span = Span::secs(20);
/// The longest delay of a message that waits for writes: until after the deadline of its caller.
const LATE_MOST: Span = Span::secs(20);
/// The time after which an error arrives.
const SOON: Span = Span::millis(1);
/// The number of later writes of the process that a change for it can wait for: it is delayed until each of them, and also for the longest
/// time.
const OWN_WRITES_MOST: u32 = 2;

/// The effect of a disturbance on a request or a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Effect {
    Request(RequestEffect),
    Change(ChangeEffect),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ChangeEffect {
    ChangeLate,
}

/// A disturbance of one request, or of one change for a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Row", into = "Row")]
pub(super) struct Disturbance {
    /// The index of the process among those that are disturbed.
    process: u16,
    nth: u32,
    effect: Effect,
    writes: u32,
}

/// A disturbance in its serialized form: process, number, effect, writes.
type Row = (u16, u32, Effect, u32);

impl From<Row> for Disturbance {
    fn from((process, nth, effect, writes): Row) -> Self {
        Self { process, nth, effect, writes }
    }
}

impl From<Disturbance> for Row {
    fn from(Disturbance { process, nth, effect, writes }: Disturbance) -> Self {
        (process, nth, effect, writes)
    }
}

impl Disturbance {
    /// The fault of a plan with this effect.
    pub(super) fn fault(self, processes: &[String]) -> FaultKind {
        let Self { process, nth, effect, writes } = self;
        let process = Target::from_text(&processes[usize::from(process)]);
        let effect = match effect {
            Effect::Request(effect) => effect,
            Effect::Change(ChangeEffect::ChangeLate) => {
                return FaultKind::ChangeLate(ChangeLate { process, resource: "*".to_owned(), nth, by: LATE_MOST, writes });
            }
        };
        let after = if waits_for_others(effect) { LATE_MOST } else { SOON };
        let down = match effect {
            RequestEffect::CrashBefore | RequestEffect::CrashAfter => DOWN,
            _ if effect.lasts() => STOPPED,
            _ => DOWN,
        };
        FaultKind::RequestFault(RequestFault {
            process,
            verb: RequestVerb::Any,
            resource: "*".to_owned(),
            nth,
            effect,
            after,
            writes,
            error: Failure::Reset,
            down,
        })
    }

    /// The name of the effect, as in a plan.
    pub(super) fn name(self) -> &'static str {
        match self.effect {
            Effect::Request(effect) => effect.name(),
            Effect::Change(ChangeEffect::ChangeLate) => "change-late",
        }
    }

    /// The effect and its place, in words.
    pub(super) fn text(self, processes: &[String]) -> String {
        let (name, nth, process, writes) = (self.name(), self.nth, &processes[usize::from(self.process)], self.writes);
        match self.effect {
            Effect::Request(effect) if waits_for_others(effect) => {
                format!("{name} until write {writes} of others at request {nth} of {process}")
            }
            Effect::Request(_) => format!("{name} at request {nth} of {process}"),
            Effect::Change(_) if writes > 0 => format!("{name} until its write {writes} at change {nth} for {process}"),
            Effect::Change(_) => format!("{name} at change {nth} for {process}"),
        }
    }

    /// Part of the name of a file.
    pub(super) fn file(self, processes: &[String]) -> String {
        let writes = if self.writes > 0 { format!("-{}", self.writes) } else { String::new() };
        format!("{}-{}-{}{writes}", processes[usize::from(self.process)], self.nth, self.name())
    }
}

fn waits_for_others(effect: RequestEffect) -> bool {
    matches!(effect, RequestEffect::Late | RequestEffect::LateAfterReset | RequestEffect::ReplyLate)
}

/// The possible effects on a request, each once. Reads change nothing: only their answers matter. A pause or a partition anywhere between
/// two writes looks the same to all others, so that the two ends of each write suffice.
fn effects(request: &SentRequest) -> Vec<(RequestEffect, u32)> {
    use RequestEffect::{
        CrashAfter, CrashBefore, CutAfter, CutBefore, Late, LateAfterReset, LateCommit, LeaseTaken, PauseAfter, PauseBefore, ReplyLate,
        ReplyLost, RequestLost, ServerError, Stale, TooManyRequests,
    };
    let at_once = |effects: &[RequestEffect]| effects.iter().map(|&effect| (effect, 0)).collect::<Vec<_>>();
    let until_each = |effect: RequestEffect| (1..=request.later_writes).map(move |writes| (effect, writes));
    match request.verb {
        Verb::Watch => at_once(&[RequestLost, TooManyRequests]),
        verb if verb.is_write() => {
            let mut effects = at_once(&[CrashBefore, CrashAfter, RequestLost, ReplyLost, ServerError, TooManyRequests, LateCommit]);
            effects.extend(until_each(Late));
            effects.extend(until_each(LateAfterReset));
            effects.extend(at_once(&[PauseBefore, PauseAfter, CutBefore, CutAfter]));
            effects.extend(request.leads.then_some((LeaseTaken, 0)));
            effects
        }
        _ => {
            let mut effects = at_once(&[RequestLost, ServerError, TooManyRequests]);
            effects.extend(until_each(ReplyLate));
            effects.extend(request.from_cache.then_some((Stale, 1)));
            effects
        }
    }
}

/// The writes until which a change is delayed, by their number among the later ones of its process; 0 = whatever it writes meanwhile.
fn own_writes(change: &SentChange, later: &[(Arc<str>, Logged)]) -> impl Iterator<Item = u32> + use<> {
    let in_time = later.iter().take_while(|(_, logged)| logged.at() < change.at + LATE_MOST.0);
    let own = in_time.filter(|(_, logged)| match logged {
        Logged::Request(request) => request.client == change.client && request.verb.is_write(),
        Logged::Change(_) => false,
    });
    0..=(own.count() as u32).min(OWN_WRITES_MOST)
}

/// The disturbances that can follow the last one of a run: each at every later request of these processes, and at every later change for
/// them, until the faults heal.
pub(super) fn disturbances(log: &[(Arc<str>, Logged)], processes: &[String], heal_at: SimTime) -> Vec<Disturbance> {
    let after = log.iter().rposition(|(_, logged)| logged.is_struck()).map_or(0, |position| position + 1);
    let mut found = Vec::new();
    for (position, (process, logged)) in log.iter().enumerate().skip(after).filter(|(_, (_, logged))| logged.at() < heal_at) {
        let Some(number) = processes.iter().position(|known| **known == **process) else { continue };
        let process = number as u16;
        match logged {
            Logged::Request(request) => {
                let of = |(effect, writes)| Disturbance { process, nth: request.nth, effect: Effect::Request(effect), writes };
                found.extend(effects(request).into_iter().map(of));
            }
            Logged::Change(change) => {
                let effect = Effect::Change(ChangeEffect::ChangeLate);
                let until = own_writes(change, &log[position + 1..]);
                found.extend(until.map(|writes| Disturbance { process, nth: change.nth, effect, writes }));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kube_sim::fault::Window;
    use kube_sim::rt::ProcessId;
    use sim_config::With;

    use super::*;

    fn sent(nth: u32, verb: Verb, later_writes: u32) -> SentRequest {
        let (client, at) = (ProcessId(0), SimTime::from_secs(u64::from(nth)));
        SentRequest { client, nth, at, verb, from_cache: false, later_writes, leads: false, struck: false }
    }

    fn request(process: &str, nth: u32, verb: Verb) -> (Arc<str>, Logged) {
        (process.into(), Logged::Request(sent(nth, verb, 0)))
    }

    fn change(process: &str, nth: u32, at: u64) -> (Arc<str>, Logged) {
        (process.into(), Logged::Change(SentChange { client: ProcessId(0), nth, at: SimTime::from_secs(at), struck: false }))
    }

    #[test]
    fn a_request_is_late_until_each_later_write_and_only_a_cached_read_is_stale() {
        let count = |request: &SentRequest, effect| effects(request).iter().filter(|(known, _)| *known == effect).count();
        let write = sent(1, Verb::Update, 3);
        assert_eq!(count(&write, RequestEffect::Late), 3);
        assert_eq!(count(&write, RequestEffect::LateAfterReset), 3);
        assert_eq!(count(&write, RequestEffect::CrashBefore) + count(&write, RequestEffect::CrashAfter), 2);
        assert_eq!(count(&write, RequestEffect::Stale), 0);
        let quorum = sent(1, Verb::Get, 2);
        assert_eq!((count(&quorum, RequestEffect::ReplyLate), count(&quorum, RequestEffect::Stale)), (2, 0));
        assert_eq!(count(&quorum, RequestEffect::CrashBefore), 0, "what only reads leaves nothing half done");
        let cached = SentRequest { from_cache: true, ..quorum };
        assert_eq!(count(&cached, RequestEffect::Stale), 1);
        assert_eq!(effects(&sent(1, Verb::Watch, 2)).len(), 2);
    }

    #[test]
    fn a_process_stops_and_is_alone_at_both_ends_of_its_writes_and_loses_a_lease_that_it_holds() {
        let of = |request: &SentRequest| effects(request).into_iter().map(|(effect, _)| effect.name()).collect::<BTreeSet<_>>();
        let write = sent(1, Verb::Update, 0);
        let ends = ["pause-before", "pause-after", "cut-before", "cut-after"];
        assert!(ends.iter().all(|effect| of(&write).contains(effect)) && !of(&write).contains("lease-taken"));
        assert!(of(&SentRequest { leads: true, ..write }).contains("lease-taken"));
        assert!(ends.iter().all(|effect| !of(&sent(1, Verb::List, 0)).contains(effect)));
    }

    #[test]
    fn disturbances_are_placed_after_the_last_one_before_the_heal_and_at_processes_under_test() {
        let processes = ["a".to_owned(), "b".to_owned()];
        let mut requests = vec![
            request("a", 1, Verb::Get),
            request("b", 1, Verb::Get),
            request("apart", 1, Verb::Get),
            request("a", 2, Verb::Get),
            request("b", 9, Verb::Get),
        ];
        let places = |requests: &[_]| {
            let found = disturbances(requests, &processes, SimTime::from_secs(9));
            found.iter().map(|found| (found.process, found.nth)).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
        };
        assert_eq!(places(&requests), [(0, 1), (0, 2), (1, 1)]);
        if let Logged::Request(request) = &mut requests[1].1 {
            request.struck = true;
        }
        assert_eq!(places(&requests), [(0, 2)], "what comes before a disturbance was placed without it");
    }

    #[test]
    fn a_change_is_late_until_each_of_the_next_writes_of_its_process_in_time() {
        let processes = ["a".to_owned()];
        let late = |log: &[_]| {
            let found = disturbances(log, &processes, SimTime::from_secs(99)).into_iter();
            found.filter(|found| found.name() == "change-late").map(|found| (found.nth, found.writes)).collect::<Vec<_>>()
        };
        assert_eq!(late(&[change("a", 1, 0)]), [(1, 0)]);
        let writes = [1, 2, 3].map(|nth| request("a", nth, Verb::Update));
        assert_eq!(late(&[&[change("a", 1, 0)][..], &writes].concat()), [(1, 0), (1, 1), (1, 2)], "no more than so many");
        assert_eq!(late(&[change("a", 1, 0), request("a", 1, Verb::Get), request("a", 30, Verb::Update)]), [(1, 0)]);
        assert_eq!(late(&[change("apart", 1, 0)]), []);
    }

    #[test]
    fn a_disturbance_becomes_a_fault_that_a_plan_can_hold() {
        let processes = ["a".to_owned()];
        let late = Disturbance { process: 0, nth: 4, effect: Effect::Request(RequestEffect::Late), writes: 2 };
        assert_eq!(late.text(&processes), "late until write 2 of others at request 4 of a");
        assert_eq!(late.file(&processes), "a-4-late-2");
        let told = Disturbance { process: 0, nth: 3, effect: Effect::Change(ChangeEffect::ChangeLate), writes: 1 };
        assert_eq!(told.text(&processes), "change-late until its write 1 at change 3 for a");
        assert_eq!(told.file(&processes), "a-3-change-late-1");
        for disturbance in [late, told] {
            let fault = With { common: Window::new(SimTime::ZERO, None), kind: disturbance.fault(&processes) };
            let text = toml::to_string(&fault).unwrap();
            let back: kube_sim::fault::Fault =
                sim_config::toml::from_str("plan.toml", &text).unwrap_or_else(|problems| panic!("{problems}"));
            assert_eq!(back, fault);
            let row = serde_json::to_string(&disturbance).unwrap();
            assert_eq!(serde_json::from_str::<Disturbance>(&row).unwrap(), disturbance, "{row}");
        }
    }
}
