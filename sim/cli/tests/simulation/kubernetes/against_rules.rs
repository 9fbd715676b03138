//! K §2 as a whole: what several clients are answered who do anything at the same time is what a few rules of their own give, in the
//! order of the revisions. Whatever wrote was right to, on what there was just before; whatever did not was right at some moment while
//! it was under way.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::api::{DeleteOptions, ListOptions, Preconditions};
use kube_machinery::{ApiError, ClientExt, Reason};
use kube_sim::cluster::{ClusterConfig, Knobs, SimClient};
use kube_sim::testbed::{Testbed, config_map, key};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;

use super::expect::{millis, secs};

const NAMES: [&str; 2] = ["a", "b"];

/// An object, as far as the rules go.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    uid: String,
    version: u64,
    value: String,
    finalizers: BTreeSet<String>,
    deleting: bool,
}

type State = BTreeMap<String, Known>;

impl Known {
    fn of(object: &ConfigMap) -> Self {
        let meta = &object.metadata;
        Self {
            uid: meta.uid.clone().unwrap(),
            version: meta.resource_version.as_ref().unwrap().parse().unwrap(),
            value: object.data.as_ref().map_or(String::new(), |data| data["v"].clone()),
            finalizers: meta.finalizers.iter().flatten().cloned().collect(),
            deleting: meta.deletion_timestamp.is_some(),
        }
    }
}

/// Which of the states that a client has seen of an object it names in a request.
#[derive(Clone, Copy, Debug)]
enum Which {
    None,
    First,
    Last,
}

/// What a client is to do, by what it will know then.
#[derive(Clone, Debug)]
enum Op {
    Create { name: &'static str, value: u8, held: u8 },
    Update { name: &'static str, value: u8, held: Option<u8>, version: Which, uid: Which },
    Delete { name: &'static str, version: Which, uid: Which },
    Get { name: &'static str },
    List,
}

/// What a client asked of the API, with what it knew by then.
#[derive(Clone, Debug)]
enum Asked {
    Create { name: &'static str, value: String, finalizers: BTreeSet<String> },
    Update { name: &'static str, value: String, finalizers: BTreeSet<String>, version: Option<u64>, uid: Option<String> },
    Delete { name: &'static str, version: Option<u64>, uid: Option<String> },
    Get { name: &'static str },
    List,
}

/// What it was answered: an object, nothing that is left of one, all objects, or an error.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Object(Known),
    Gone,
    All(State),
    Refused(u16, Reason),
}

/// A request that is over: the revisions when it was sent and when its answer was there.
#[derive(Debug)]
struct Done {
    sent: u64,
    over: u64,
    asked: Asked,
    answer: Answer,
}

/// What the rules make of a request.
#[derive(Debug)]
enum Verdict {
    Answers(Answer),
    /// The object becomes this; its version is that of the change, and so is the uid of a new one.
    Puts(&'static str, Known),
    Removes(&'static str),
}

/// The rules: what a server that has `state` makes of a request.
fn judge(state: &State, asked: &Asked) -> Verdict {
    let refused = |code, reason| Verdict::Answers(Answer::Refused(code, reason));
    let mismatch = |current: &Known, version: &Option<u64>, uid: &Option<String>| {
        version.is_some_and(|version| version != current.version) || uid.as_ref().is_some_and(|uid| *uid != current.uid)
    };
    match asked {
        Asked::Create { name, .. } if state.contains_key(*name) => refused(409, Reason::AlreadyExists),
        Asked::Create { name, value, finalizers } => {
            let (value, finalizers) = (value.clone(), finalizers.clone());
            Verdict::Puts(name, Known { uid: String::new(), version: 0, value, finalizers, deleting: false })
        }
        Asked::Get { name } => match state.get(*name) {
            Some(known) => Verdict::Answers(Answer::Object(known.clone())),
            None => refused(404, Reason::NotFound),
        },
        Asked::List => Verdict::Answers(Answer::All(state.clone())),
        Asked::Update { name, uid, version, value, finalizers } => {
            let Some(current) = state.get(*name) else {
                return refused(404, Reason::NotFound);
            };
            if mismatch(current, version, uid) {
                return refused(409, Reason::Conflict);
            }
            if current.deleting && !finalizers.is_subset(&current.finalizers) {
                return refused(422, Reason::Invalid);
            }
            let next = Known { value: value.clone(), finalizers: finalizers.clone(), ..current.clone() };
            match next {
                next if next.deleting && next.finalizers.is_empty() => Verdict::Removes(name),
                next if next == *current => Verdict::Answers(Answer::Object(next)),
                next => Verdict::Puts(name, next),
            }
        }
        Asked::Delete { name, version, uid } => match state.get(*name) {
            None => refused(404, Reason::NotFound),
            Some(current) if mismatch(current, version, uid) => refused(409, Reason::Conflict),
            Some(current) if current.finalizers.is_empty() => Verdict::Removes(name),
            Some(current) if current.deleting => Verdict::Answers(Answer::Object(current.clone())),
            Some(current) => Verdict::Puts(name, Known { deleting: true, ..current.clone() }),
        },
    }
}

/// So many finalizers, the same ones each time.
fn finalizers(held: u8) -> BTreeSet<String> {
    (0..held).map(|number| format!("example.com/held-{number}")).collect()
}

/// A client that does one thing after the other.
struct Asker {
    client: SimClient,
    seen: BTreeMap<&'static str, Vec<Known>>,
}

impl Asker {
    fn pick<T>(&self, name: &str, which: Which, of: impl Fn(&Known) -> T) -> Option<T> {
        let seen = self.seen.get(name)?;
        match which {
            Which::None => None,
            Which::First => seen.first().map(of),
            Which::Last => seen.last().map(of),
        }
    }

    fn asked(&self, op: &Op) -> Asked {
        match *op {
            Op::Create { name, value, held } => Asked::Create { name, value: value.to_string(), finalizers: finalizers(held) },
            Op::Update { name, value, held, version, uid } => Asked::Update {
                name,
                value: value.to_string(),
                finalizers: held
                    .map_or_else(|| self.pick(name, Which::Last, |known| known.finalizers.clone()).unwrap_or_default(), finalizers),
                version: self.pick(name, version, |known| known.version),
                uid: self.pick(name, uid, |known| known.uid.clone()),
            },
            Op::Delete { name, version, uid } => Asked::Delete {
                name,
                version: self.pick(name, version, |known| known.version),
                uid: self.pick(name, uid, |known| known.uid.clone()),
            },
            Op::Get { name } => Asked::Get { name },
            Op::List => Asked::List,
        }
    }

    async fn ask(&mut self, asked: &Asked) -> Answer {
        let body = |name: &str, value: &str, finalizers: &BTreeSet<String>| {
            let mut body = config_map(name, "v", value);
            body.metadata.finalizers = Some(finalizers.iter().cloned().collect());
            body
        };
        let client = &self.client;
        let object = match asked {
            Asked::Create { name, value, finalizers } => client.create(body(name, value, finalizers)).await.map(Some),
            Asked::Update { name, value, finalizers, version, uid } => {
                let mut body = body(name, value, finalizers);
                (body.metadata.resource_version, body.metadata.uid) = (version.map(|version| version.to_string()), uid.clone());
                client.update(body).await.map(Some)
            }
            Asked::Delete { name, version, uid } => {
                let preconditions = Preconditions { uid: uid.clone(), resource_version: version.map(|version| version.to_string()) };
                client.delete::<ConfigMap>(&key(name), DeleteOptions { preconditions, ..DeleteOptions::default() }).await
            }
            Asked::Get { name } => client.get::<ConfigMap>(&key(name)).await.map(Some),
            Asked::List => {
                let list = client.list::<ConfigMap>(Some("default"), ListOptions::default()).await.unwrap();
                let all = list.items.iter().map(|item| (item.metadata.name.clone().unwrap(), Known::of(item)));
                return Answer::All(all.collect());
            }
        };
        match object {
            Ok(Some(object)) => {
                let known = Known::of(&object);
                let name = NAMES.into_iter().find(|name| object.metadata.name.as_deref() == Some(*name)).unwrap();
                self.seen.entry(name).or_default().push(known.clone());
                Answer::Object(known)
            }
            Ok(None) => Answer::Gone,
            Err(ApiError::Status(status)) => Answer::Refused(status.code, status.reason),
            Err(error) => panic!("{error}"),
        }
    }
}

/// A change of the store: its revision, the object, and whether it is there after it.
type Change = (u64, String, bool);

/// Does what the clients are to do, each with pauses of so many milliseconds.
fn ran(seed: u64, from_cache: bool, clients: &[Vec<(Op, u64)>]) -> (Vec<Done>, Vec<Change>) {
    let knobs = Knobs { consistent_list_from_cache: from_cache, ..Knobs::default() };
    Testbed::run_with(ClusterConfig { seed, knobs, ..ClusterConfig::default() }, 2, async |bed| {
        let bed = &bed;
        let of = |(number, ops): (usize, &Vec<(Op, u64)>)| {
            let ops = ops.clone();
            async move {
                let mut asker = Asker { client: bed.client(&format!("client-{number}")), seen: BTreeMap::new() };
                let mut done = Vec::new();
                for (op, pause) in ops {
                    bed.wait(millis(pause)).await;
                    let (sent, asked) = (bed.revision(), asker.asked(&op));
                    let answer = asker.ask(&asked).await;
                    done.push(Done { sent, over: bed.revision(), asked, answer });
                }
                done
            }
        };
        let done = futures_util::future::join_all(clients.iter().enumerate().map(of)).await;
        bed.wait(secs(1)).await;
        let kind = bed.kind::<ConfigMap>();
        let changes = bed.cluster.store(|store| {
            let all = store.table(kind).changes_after(0);
            all.map(|change| (change.revision, change.key.name().to_owned(), change.after.is_some())).collect()
        });
        (done.into_iter().flatten().collect(), changes)
    })
}

/// The object after `change` of `state`, if the answer of `done` says that it made the change, and the rules agree; unset = it is gone.
fn made(done: &Done, (revision, name, stays): &Change, state: &State) -> Option<Option<Known>> {
    if done.sent >= *revision || done.over < *revision {
        return None;
    }
    match (judge(state, &done.asked), &done.answer) {
        (Verdict::Puts(of, mut known), Answer::Object(answered)) if of == name && *stays => {
            known.version = *revision;
            if known.uid.is_empty() {
                known.uid.clone_from(&answered.uid);
            }
            (known == *answered).then_some(Some(known))
        }
        (Verdict::Removes(of), Answer::Gone) if of == name && !stays => Some(None),
        // The update that takes the last finalizer is answered with the object as it was to be.
        (Verdict::Removes(of), Answer::Object(last)) if of == name && !stays => {
            (last.deleting && last.finalizers.is_empty()).then_some(None)
        }
        _ => None,
    }
}

/// Holds the answers against the rules.
fn check(done: &[Done], changes: &[Change]) {
    let mut states = vec![(0, State::new())];
    let mut writers = BTreeSet::new();
    let mut uids = BTreeSet::new();
    for change in changes {
        let (revision, name, _) = change;
        let state = &states[states.len() - 1].1;
        let right = done.iter().enumerate().filter(|(number, _)| !writers.contains(number));
        let right = right.filter_map(|(number, done)| Some((number, done, made(done, change, state)?)));
        // Several may say so. Who asked for what is so by then is answered alike and has changed nothing; of those who removed an object of
        // this name, each its own, the one who was answered first comes first.
        let changed_nothing = |done: &Done, after: &Option<Known>| {
            let after = after.iter().map(|known| (name.clone(), known.clone())).collect();
            matches!(judge(&after, &done.asked), Verdict::Answers(answer) if answer == done.answer)
        };
        let Some((number, _, after)) = right.min_by_key(|(number, done, after)| (changed_nothing(done, after), done.over, *number)) else {
            panic!("nobody was right to make {change:?} of {state:?}: {done:#?}");
        };
        writers.insert(number);
        let mut next = state.clone();
        match after {
            Some(known) => {
                assert!(state.contains_key(name) || uids.insert(known.uid.clone()), "{known:?} is new, and its uid is not");
                next.insert(name.clone(), known);
            }
            None => drop(next.remove(name)),
        }
        states.push((*revision, next));
    }
    for (_, read) in done.iter().enumerate().filter(|(number, _)| !writers.contains(number)) {
        let first = states.partition_point(|(revision, _)| *revision <= read.sent) - 1;
        let last = states.partition_point(|(revision, _)| *revision <= read.over) - 1;
        let fits = |(_, state): &(u64, State)| matches!(judge(state, &read.asked), Verdict::Answers(answer) if answer == read.answer);
        assert!(states[first..=last].iter().any(fits), "no state explains {read:?}: {:#?}", &states[first..=last]);
    }
}

fn ops() -> impl Strategy<Value = Vec<(Op, u64)>> {
    let name = || prop::sample::select(&NAMES[..]);
    let which = || prop::sample::select(vec![Which::None, Which::First, Which::Last, Which::Last]);
    let held = || prop::option::of(0..3u8);
    let op = prop_oneof![
        3 => (name(), 0..3u8, 0..2u8).prop_map(|(name, value, held)| Op::Create { name, value, held }),
        5 => (name(), 0..3u8, held(), which(), which())
            .prop_map(|(name, value, held, version, uid)| Op::Update { name, value, held, version, uid }),
        3 => (name(), which(), which()).prop_map(|(name, version, uid)| Op::Delete { name, version, uid }),
        2 => name().prop_map(|name| Op::Get { name }),
        1 => Just(Op::List),
    ];
    vec((op, prop::sample::select(vec![0, 0, 1, 5, 20])), 1..15)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_clients_are_answered_is_what_the_rules_give(seed in 0..1_000u64, from_cache: bool, clients in vec(ops(), 1..5)) {
        let (done, changes) = ran(seed, from_cache, &clients);
        check(&done, &changes);
    }
}

/// How often each kind of answer was given over some runs: the property is about something.
#[test]
fn the_rules_are_asked_for_everything_they_say() {
    let mut answers: BTreeMap<String, usize> = BTreeMap::new();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for seed in 0..100 {
        let clients = vec(ops(), 3).new_tree(&mut runner).unwrap().current();
        let (done, changes) = ran(seed, seed % 2 == 0, &clients);
        check(&done, &changes);
        for done in done {
            let kind = match done.answer {
                Answer::Object(known) if known.deleting => "terminating".to_owned(),
                Answer::Object(_) => "object".to_owned(),
                Answer::Gone => "gone".to_owned(),
                Answer::All(_) => "list".to_owned(),
                Answer::Refused(code, reason) => format!("{code} {reason:?}"),
            };
            *answers.entry(kind).or_default() += 1;
        }
    }
    let expected = ["404 NotFound", "409 AlreadyExists", "409 Conflict", "422 Invalid", "gone", "list", "object", "terminating"];
    assert!(expected.iter().all(|kind| answers.get(*kind).is_some_and(|times| *times >= 10)), "{answers:?}");
}
