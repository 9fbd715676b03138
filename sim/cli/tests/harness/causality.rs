//! Causes of events in recorded runs, compared with the recordings themselves.

use std::collections::BTreeSet;
use std::path::Path;

use ipam_byom::{Address, PoolConfigMap};
use ipam_reports::timeline::{Mark, Role, page};
use kube_machinery::ObjectKey;
use kube_machinery::api::Verb;
use kube_sim::object::{Obj, resource_version};
use kube_sim::trace::record::{Record, What};
use kube_sim::trace::{FaultChange, Outcome as Answer, ProcessChange};
use sim_byom::workload::{PoolNote, pool_key};
use sim_config::time::SimTime;

use sim_harness::causality::Narrator;
use sim_harness::causality::follow::Followed;
use sim_harness::causality::*;
use sim_harness::deviation::DeviationName;
use sim_harness::plan::Plan;
use sim_harness::scenario::Scenario;
use sim_harness::system::RunOptions;
use sim_harness::world::{Outcome, Stage as Cluster, run};

fn scenario(file: &str, deviations: &[&str]) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(file);
    let mut scenario = Scenario::read(&path).unwrap_or_else(|problems| panic!("{problems}"));
    scenario.deviations = deviations.iter().map(|name| DeviationName::new(name).unwrap()).collect();
    scenario
}

/// A recorded run.
struct Recorded {
    plan: Plan,
    outcome: Outcome,
}

impl Recorded {
    fn of(scenario: &Scenario, seed: u64, until: u64) -> Self {
        let plan = scenario.draw(seed);
        let wish = RunOptions { recording: true, until: Some(SimTime::from_secs(until)), ..RunOptions::default() };
        let outcome = run(&plan, &Cluster::new(vec![]), wish);
        Self { plan, outcome }
    }

    /// Two adaptors each of which decides once: they undo each other's changes.
    fn racing() -> Self {
        let scenario = scenario("smoke/byom-two.toml", &["byom-decide-once"]);
        (0..50).map(|seed| Self::of(&scenario, seed, 40)).find(|run| !run.outcome.violations.is_empty()).expect("a race is lost")
    }

    fn parts(&self) -> (&[Record], &Narrator) {
        let (records, narrator) = self.outcome.recording.as_ref().unwrap();
        (records, narrator)
    }

    fn index(&self) -> Index<'_> {
        let (records, narrator) = self.parts();
        Index::new(records, narrator)
    }

    fn follow(&self, subject: &str) -> Followed {
        follow(&self.index(), &subject.parse().unwrap())
    }

    fn pool_notes(&self) -> impl Iterator<Item = (usize, &PoolNote)> {
        self.parts().0.iter().enumerate().filter_map(|(event, record)| match &record.what {
            What::Note { note, .. } => Some((event, note.downcast_ref::<PoolNote>()?)),
            _ => None,
        })
    }
}

/// The entry of an address in a state of the pool, read from its JSON; empty if there is no document.
fn said(object: Option<&Obj>, address: &Address) -> String {
    let Some(config_map) = object.and_then(|object| object.as_any().downcast_ref::<PoolConfigMap>()) else { return String::new() };
    let Some(document) = config_map.document() else { return String::new() };
    let document: serde_json::Value = serde_json::from_str(document.text()).unwrap();
    let records = document["allocatedIPs"].as_object().into_iter().flatten();
    let holders: Vec<&String> = records.filter(|(_, record)| record["ip"] == address.text()).map(|(id, _)| id).collect();
    let listed = document["availableIPs"].as_array().into_iter().flatten().any(|listed| listed == address.text());
    if holders.is_empty() && !listed { String::new() } else { format!("{holders:?} {listed}") }
}

#[test]
fn an_address_is_followed_through_the_notes_that_name_it_and_the_commits_that_move_it() {
    let run = Recorded::racing();
    let address = run.pool_notes().find_map(|(_, note)| match note {
        PoolNote::Allocated { address, .. } => Some(address.clone()),
        _ => None,
    });
    let address = address.unwrap();
    let followed = run.follow(address.text());
    let events: BTreeSet<usize> = followed.events.iter().copied().collect();
    let mut holders = BTreeSet::new();
    for (event, note) in run.pool_notes() {
        match note {
            PoolNote::Allocated { id, address: given, .. } | PoolNote::Told { id, address: given } => {
                assert_eq!(events.contains(&event), given == &address || holders.contains(id), "{event} {note}");
                if given == &address {
                    holders.insert(id.clone());
                }
            }
            PoolNote::Vm { address: of, .. } if of == &address => assert!(events.contains(&event), "{event} {note}"),
            PoolNote::Configured { .. } | PoolNote::Wanted { .. } => assert!(!events.contains(&event), "{event} {note}"),
            _ => {}
        }
    }
    let mut moves = 0;
    for (event, record) in run.parts().0.iter().enumerate() {
        let What::Commit { key, before, after, .. } = &record.what else { continue };
        if *key == pool_key() && said(before.as_ref(), &address) != said(after.as_ref(), &address) {
            assert!(events.contains(&event), "{event} moves {address}");
            moves += 1;
        }
    }
    assert!(moves >= 2, "it is listed, and then given");
    let line = followed.lines.iter().find(|line| line.what.contains("in the list -> recorded under")).unwrap();
    assert!(line.because.iter().any(|cause| cause.how.starts_with("last read revision")), "{line:?}");
}

#[test]
fn every_answer_names_its_request_and_every_commit_what_its_writer_had_read() {
    let run = Recorded::racing();
    let index = run.index();
    let (mut answers, mut reads) = (0, 0);
    for (event, record) in run.parts().0.iter().enumerate() {
        for cause in &index.causes[event] {
            let earlier = &run.parts().0[cause.event as usize];
            assert!((cause.event as usize) < event || cause.how.starts_with("although"), "{event}: {cause:?}");
            match (&record.what, &earlier.what) {
                (What::Answer { client, verb, kind, .. }, What::Request { client: asked, verb: what, kind: of, .. })
                    if cause.how == "answers" =>
                {
                    assert_eq!((client, verb, kind), (asked, what, of), "{event}");
                    answers += 1;
                }
                (What::Commit { client, key, .. }, _) if cause.how.contains("read revision") || cause.how.contains("that revision") => {
                    let (reader, object) = match &earlier.what {
                        What::Answer { client, .. } => (client, earlier.object.as_ref()),
                        What::Deliver { client, object, .. } => (client, object.as_ref()),
                        other => panic!("{other:?} is no read"),
                    };
                    let object = object.unwrap();
                    assert_eq!((client, key), (reader, &kube_sim::object::key_of(object)));
                    assert!(cause.how.contains(resource_version(&**object)), "{cause:?}");
                    reads += 1;
                }
                _ => {}
            }
        }
    }
    let told = run.parts().0.iter().filter(|record| matches!(record.what, What::Answer { .. })).count();
    assert_eq!(answers, told, "each has one");
    assert!(reads > 10);
}

#[test]
fn calls_that_a_process_has_under_way_at_the_same_time_are_told_apart() {
    let run = Recorded::racing();
    let index = run.index();
    let overlap = index.calls.values().any(|call| {
        index.calls.values().any(|other| {
            other.client == call.client
                && other.kind == call.kind
                && call.request < other.request
                && call.answer.is_some_and(|answer| answer > other.request)
        })
    });
    assert!(overlap, "somebody asks for several things at once");
    for call in index.calls.values() {
        let parts: BTreeSet<Option<u64>> = Index::parts(call).map(|event| run.parts().0[event].call).collect();
        assert_eq!(parts.len(), 1, "{call:?}");
    }
}

#[test]
fn a_pod_is_followed_through_its_object_its_allocations_and_their_addresses() {
    let run = Recorded::racing();
    let (id, pod) = run
        .pool_notes()
        .find_map(|(_, note)| match note {
            PoolNote::Running { id, pod, .. } => Some((id.clone(), pod.clone())),
            _ => None,
        })
        .unwrap();
    let followed = run.follow(&format!("pod:{pod}"));
    let all: String = followed.lines.iter().map(|line| format!("{} {}\n", line.place, line.what)).collect();
    let key = ObjectKey::namespaced(pod.split_once('/').unwrap().0, pod.split_once('/').unwrap().1);
    assert!(all.contains(&format!("create pods/{key}")) || all.contains(&format!("pods/{key}")), "{all}");
    assert!(all.contains(&format!("runs pod {pod}")), "{all}");
    assert!(all.contains("peerpods/"), "its PeerPod: {all}");
    for (event, note) in run.pool_notes() {
        if let PoolNote::Asked { id: asked } = note {
            assert_eq!(followed.events.contains(&event), *asked == id || note.to_string().contains(&format!("{}-", key.name())), "{note}");
        }
    }
}

#[test]
fn an_object_is_followed_through_its_commits_its_readers_and_its_deliveries() {
    let run = Recorded::racing();
    let followed = run.follow(&format!("object:configmap/{}", pool_key()));
    for (event, record) in run.parts().0.iter().enumerate() {
        match &record.what {
            What::Commit { key, .. } => assert_eq!(followed.events.contains(&event), *key == pool_key(), "{event}"),
            What::Request { verb: Verb::Get | Verb::Update, key: Some(key), .. } if *key == pool_key() => {
                assert!(followed.events.contains(&event), "{event}");
            }
            What::Note { .. } => assert!(!followed.events.contains(&event), "{event}"),
            _ => {}
        }
    }
    assert_eq!(run.follow(&format!("object:ConfigMaps/{}", pool_key())), followed, "by its plural, in any case");
}

#[test]
fn what_touched_nothing_gets_a_sentence() {
    let run = Recorded::racing();
    let remark = |subject: &str| run.follow(subject).remark.unwrap();
    assert!(
        remark("192.0.2.1").starts_with("nothing in this run touched 192.0.2.1; there are 10.9.0.1, 10.9.0.2"),
        "{}",
        remark("192.0.2.1")
    );
    assert!(remark("pod:default/nobody").contains("; there are pod:default/pod-0"));
    assert!(remark("object:pod/default/nobody").contains("object:pod/default/pod-0"));
    assert_eq!(remark("object:lease/a/b"), "nothing in this run touched lease/a/b");
    assert_eq!(remark("object:unicorn/a/b"), "no type is called unicorn: nothing in this run touched unicorn/a/b");
    assert_eq!(run.follow("10.9.0.1").remark, None);
}

#[test]
fn a_lost_answer_names_the_fault_that_lost_it() {
    let scenario = scenario("smoke/counter-faults.toml", &[]);
    let mut told = BTreeSet::new();
    for run in (0..60).map(|seed| Recorded::of(&scenario, seed, 60)) {
        let index = run.index();
        let followed = run.follow("object:configmap/default/counter");
        for (event, record) in run.parts().0.iter().enumerate() {
            let causes = || index.causes[event].iter();
            match record.what {
                What::Answer { outcome, .. } if causes().any(|cause| cause.how.starts_with("hit by ")) => {
                    let fired = causes().find(|cause| cause.how.starts_with("hit by ")).unwrap();
                    let fault = &run.parts().0[fired.event as usize].what;
                    assert!(matches!(fault, What::Fault { change: FaultChange::Fired, .. }));
                    assert_ne!(outcome, Answer::Ok, "{event}");
                    assert!(followed.events.contains(&(fired.event as usize)), "{event}");
                    told.insert("fired");
                }
                What::Answer { outcome: Answer::Transport(_), .. } if causes().any(|cause| cause.how.starts_with("while ")) => {
                    told.insert("on the way");
                }
                What::Process { change: ProcessChange::Crashed, .. } if causes().any(|cause| cause.how.starts_with("by ")) => {
                    told.insert("crash");
                }
                _ => {}
            }
        }
    }
    assert_eq!(told.into_iter().collect::<Vec<_>>(), ["crash", "fired", "on the way"]);
}

#[test]
fn a_picture_has_every_process_every_event_and_the_interval_that_was_violated() {
    let run = Recorded::racing();
    let index = run.index();
    let followed = run.follow("10.9.0.1");
    let wanted = Wanted {
        followed: Some((&followed.events, "10.9.0.1".to_owned())),
        violations: &run.outcome.violations,
        heal_at: run.plan.heal_at,
        ended_at: run.outcome.ended_at,
    };
    let picture = timeline(&index, &wanted);
    let (records, narrator) = run.parts();
    assert_eq!(picture.events.len(), records.len());
    let names: BTreeSet<&str> = picture.lanes.iter().map(|lane| &*lane.name).collect();
    assert!(narrator.processes().iter().all(|name| names.contains(&**name)), "{names:?}");
    assert_eq!(picture.lanes.last().unwrap().role, Role::Store);
    assert_eq!(picture.violations.len(), run.outcome.violations.len());
    for violated in &picture.violations {
        let (from, to) = (&picture.events[violated.from as usize], &picture.events[violated.to as usize]);
        assert!(violated.from < violated.to && from.micros <= to.micros);
        assert_eq!(to.micros, violated.violation.at.as_micros(), "it ends when the claim broke");
    }
    assert_eq!(picture.events.iter().filter(|event| event.followed).count(), followed.events.len());
    let pool = &picture.objects[0];
    assert_eq!(pool.name, pool_key().name(), "the pool comes first");
    let commits = picture.events.iter().filter(|event| event.mark == Mark::Commit && event.object == Some(0)).count();
    assert_eq!(pool.versions.len(), commits, "a state for each of its commits");
    let page = page(&picture);
    for name in names.into_iter().chain(run.outcome.violations.iter().map(|violation| &*violation.claim)) {
        assert!(page.contains(&format!("\"{name}\"")), "{name}");
    }
}

#[test]
fn a_panic_is_shown_where_it_happens() {
    let all = Scenario::read_each(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/negative/byom.toml")).unwrap();
    let scenario = all.into_iter().find(|scenario| scenario.name == "byom-null-map").unwrap();
    let run = (0..20).map(|seed| Recorded::of(&scenario, seed, 120)).find(|run| !run.outcome.violations.is_empty()).unwrap();
    let wanted = Wanted { followed: None, violations: &run.outcome.violations, heal_at: run.plan.heal_at, ended_at: run.outcome.ended_at };
    let picture = timeline(&run.index(), &wanted);
    let violated = &picture.violations[0];
    let panic = &picture.events[violated.to as usize];
    assert_eq!((panic.mark, &*violated.violation.claim), (Mark::Panic, "no-process-panics"));
    assert_eq!(picture.events[violated.from as usize].lane, panic.lane, "it begins with what the process did last");
    let outage = picture.outages.iter().find(|outage| outage.from == violated.to).unwrap();
    assert!(Some(outage.lane) == panic.lane && !outage.paused && outage.to.is_some(), "{outage:?}");
}

#[test]
fn a_long_run_is_cut_around_its_first_violation() {
    assert_eq!(sim_harness::causality::timeline::shown(100, None), 0..100);
    assert_eq!(sim_harness::causality::timeline::shown(50_000, None), 0..20_000);
    assert_eq!(sim_harness::causality::timeline::shown(50_000, Some(100)), 0..20_000);
    assert_eq!(sim_harness::causality::timeline::shown(50_000, Some(30_000)), 11_000..31_000);
    assert_eq!(sim_harness::causality::timeline::shown(50_000, Some(49_999)), 30_000..50_000);
}
