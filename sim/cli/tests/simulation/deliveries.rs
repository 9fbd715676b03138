//! A cache without handlers processes events when its process reads it: nothing can distinguish that from immediate processing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kube_machinery::api::Verb;
use kube_sim::object::resource_version;
use kube_sim::rt::ProcessId;
use kube_sim::trace::record::{Record, What};
use sim_config::time::SimTime;
use sim_harness::plan::Plan;
use sim_harness::scenario::Scenario;
use sim_harness::system::RunOptions;
use sim_harness::world::{Outcome, Stage, run};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// An event: its time and its text. Deliveries are left out, but an action of a process includes what the process knew from deliveries. The
/// last element is the text without what a tie decides.
type Line = (SimTime, String, String);

/// The process that acts, if one does.
fn actor(what: &What) -> Option<ProcessId> {
    match what {
        What::Request { client, .. } | What::Answer { client, .. } => Some(*client),
        What::Note { process, .. } => Some(*process),
        _ => None,
    }
}

fn lines(outcome: &mut Outcome) -> Vec<Line> {
    let (records, _) = outcome.recording.take().unwrap_or_else(|| panic!("the run was recorded"));
    // By process and then by type, the last revision that was delivered to it.
    let mut told: BTreeMap<ProcessId, BTreeMap<u16, u64>> = BTreeMap::new();
    let mut lines = Vec::with_capacity(records.len());
    for Record { at, what, .. } in records {
        let knows = actor(&what).and_then(|process| told.get(&process)).map(|told| format!(" knowing {told:?}")).unwrap_or_default();
        let (text, blurred) = match what {
            What::Deliver { client, kind, revision, .. } => {
                let known = told.entry(client).or_default().entry(kind.0).or_default();
                *known = revision.max(*known);
                continue;
            }
            What::Note { process, note } => (format!("{process:?} {note}"), None),
            // A tie decides which of the writes that waited for a server goes first.
            What::Commit { client, server, verb, kind, key, revision, .. } => {
                let written = format!("{client:?} {server:?} {verb} {kind:?} {key}");
                (format!("{written} {revision}"), Some(written))
            }
            // A tie decides which of the watches of a broken connection draws its back-off first.
            What::Request { client, verb: verb @ (Verb::List | Verb::Watch), kind, .. } => {
                (format!("{client:?} {verb} {kind:?}"), Some(format!("{client:?} opens its caches")))
            }
            what => (format!("{what:?}"), None),
        };
        let blurred = blurred.unwrap_or_else(|| text.clone());
        lines.push((at, text + &knows, blurred));
    }
    lines
}

/// The results of a run, apart from its events, that must not depend on when its caches process deliveries: the violations and their times,
/// the counts of events, the claims and faults that took hold, and every object at the end.
fn verdict(outcome: &Outcome) -> Vec<String> {
    let violations = outcome.violations.iter().map(|violation| format!("{violation:?}"));
    let objects = outcome.objects.iter().map(|(kind, object)| {
        let meta = object.meta();
        format!("{kind:?} {:?}/{:?} {:?} at {}", meta.namespace, meta.name, meta.uid, resource_version(&**object))
    });
    let Outcome { counts, held, fired, judged, writes, ended_at, .. } = outcome;
    let rest = format!("{counts:?} {held:?} {fired:?} {judged:?} {writes:?} {ended_at}");
    violations.chain([rest]).chain(objects).collect()
}

/// The events of a run, and its results.
fn observed(plan: &Plan, told_at_once: bool) -> (Vec<Line>, Vec<String>) {
    let options = RunOptions { told_at_once, recording: true, dump: true, ..RunOptions::default() };
    let mut outcome = run(plan, &Stage::new(Vec::new()), options);
    (lines(&mut outcome), verdict(&outcome))
}

/// The time at which two sequences of events diverge.
fn parting(one: &[Line], other: &[Line]) -> Option<SimTime> {
    if one == other {
        return None;
    }
    let first = one.iter().zip(other).find(|(one, other)| one != other);
    Some(first.map_or_else(|| one.last().max(other.last()).map_or(SimTime::ZERO, |last| last.0), |(one, other)| one.0.min(other.0)))
}

/// The comparison of a scenario's seeds.
#[derive(Debug, Default)]
struct Compared {
    /// The number of seeds with the same events at the same times, and the same results.
    same: u32,
    /// The number of seeds that are the same until events of one microsecond occur in another order. The order of tasks that are ready is
    /// drawn, and there are fewer tasks if deliveries are deferred.
    part_at_a_tie: u32,
    /// All other seeds, each with the first instant in which they differ.
    differ: Vec<String>,
}

/// Runs seeds of a scenario both ways.
fn compare(file: &str, seeds: std::ops::Range<u64>) -> Compared {
    let scenarios = Scenario::read_each(&root().join("scenarios").join(file)).unwrap_or_else(|problems| panic!("{problems}"));
    let mut compared = Compared::default();
    for scenario in scenarios {
        for seed in seeds.clone() {
            let plan = scenario.draw(seed);
            let [(deferred, verdict), (at_once, verdict_at_once)] = [false, true].map(|told_at_once| observed(&plan, told_at_once));
            let tie = parting(&deferred, &at_once);
            let sorted = [deferred, at_once].map(|mut lines| {
                lines.sort();
                lines
            });
            let parted = parting(&sorted[0], &sorted[1]);
            let at = |lines: &[Line]| lines.iter().filter(|(at, ..)| Some(*at) == parted).cloned().collect::<Vec<_>>();
            let [one, other] = sorted.each_ref().map(|lines| at(lines));
            let blurred = |lines: &[Line]| {
                let mut blurred: Vec<_> = lines.iter().map(|(_, _, blurred)| blurred.clone()).collect();
                blurred.sort();
                blurred
            };
            match parted {
                None if verdict == verdict_at_once => compared.same += 1,
                Some(parted) if tie.is_some_and(|tie| tie < parted) || blurred(&one) == blurred(&other) => compared.part_at_a_tie += 1,
                _ => compared.differ.push(format!("{} seed {seed}: {one:#?} {other:#?}", scenario.name)),
            }
        }
    }
    println!("{file}: {} same, {} part at a tie, {} differ", compared.same, compared.part_at_a_tie, compared.differ.len());
    compared
}

#[test]
fn a_run_is_the_same_whether_caches_that_nobody_listens_to_are_told_at_once_or_when_their_process_acts() {
    let mut same = 0;
    for (file, seeds) in [
        ("smoke/spiderpool-calm.toml", 0..6),
        ("smoke/spiderpool-dual.toml", 0..6),
        ("smoke/spiderpool-static.toml", 0..4),
        ("smoke/reclaim-calm.toml", 0..4),
        ("smoke/subnets.toml", 0..4),
        ("chaos/spiderpool-swarm.toml", 0..20),
    ] {
        let compared = compare(file, seeds);
        assert!(compared.differ.is_empty(), "{:?}", compared.differ);
        same += compared.same;
    }
    assert!(same >= 15, "{same} seeds are the same");
}
