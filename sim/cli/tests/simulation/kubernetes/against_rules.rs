//! K §2 as a whole: the answers to several clients that make any requests at the same time are those that a few independent [`rules`] give,
//! in the order of the revisions. Each successful write was right for the state just before it; each other request was right at some moment
//! while it was in progress; and watches receive these changes, each once and in order.

pub(crate) mod objects;
pub(crate) mod rules;

use std::collections::{BTreeMap, BTreeSet};

use ipam_spiderpool::{SpiderEndpoint, SpiderIPPool};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_machinery::api::{Call, DeleteOptions, Dry, ListOptions, Patch, Preconditions, Reply, Subresource, WatchEvent};
use kube_machinery::{ApiError, Client, Object};
use kube_sim::cluster::{ClusterConfig, Knobs};
use kube_sim::testbed::Testbed;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use serde_json::json;

use super::support::{after, hear, millis, secs, watch};
use objects::{key_of, known, patch, whole};
use rules::{Answer, Asked, Body, Guard, Kind, Known, PLACES, Part, Place, State, What, judge};

/// The state of an object, among those that a client has seen, that it names in a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which {
    None,
    First,
    Last,
}

/// A planned action of a client; its request names a version and a uid that are only known at that time.
pub(crate) type Op = (Place, Asked<(Which, Which)>);

/// A finished request, with the revisions when it was sent and when its answer arrived.
#[derive(Debug)]
struct Done {
    sent: u64,
    over: u64,
    place: Place,
    asked: Asked<Guard>,
    answer: Answer,
}

/// A client that makes one request after the other.
pub(crate) struct Asker<C> {
    pub(crate) client: C,
    seen: BTreeMap<Place, Vec<Known>>,
}

impl<C: Client> Asker<C> {
    pub(crate) fn of(client: C) -> Self {
        Self { client, seen: BTreeMap::new() }
    }

    pub(crate) fn saw(&mut self, place: Place, known: Known) {
        self.seen.entry(place).or_default().push(known);
    }

    fn guard(&self, place: Place, (version, uid): (Which, Which)) -> Guard {
        let seen = self.seen.get(&place).map(Vec::as_slice).unwrap_or_default();
        let pick = |which| match which {
            Which::None => None,
            Which::First => seen.first(),
            Which::Last => seen.last(),
        };
        Guard { version: pick(version).map(|known| known.version), uid: pick(uid).map(|known| known.uid.clone()) }
    }

    pub(crate) fn asked(&self, (place, asked): &Op) -> Asked<Guard> {
        match asked.clone() {
            Asked::Create(body, guard) => Asked::Create(body, self.guard(*place, guard)),
            Asked::Update(part, body, guard) => Asked::Update(part, body, self.guard(*place, guard)),
            Asked::Patch(part, body, guard) => Asked::Patch(part, body, self.guard(*place, guard)),
            Asked::Delete(grace, guard) => Asked::Delete(grace, self.guard(*place, guard)),
            Asked::LetGo => Asked::LetGo,
            Asked::Get => Asked::Get,
            Asked::List(label) => Asked::List(label),
        }
    }

    async fn ask(&mut self, place: Place, asked: &Asked<Guard>) -> Answer {
        let answer = match place.0 {
            Kind::Map => self.ask_of::<ConfigMap>(place, asked).await,
            Kind::Lease => self.ask_of::<Lease>(place, asked).await,
            Kind::Pod => self.ask_of::<Pod>(place, asked).await,
            Kind::Pool => self.ask_of::<SpiderIPPool>(place, asked).await,
            Kind::Endpoint => self.ask_of::<SpiderEndpoint>(place, asked).await,
        };
        if let Answer::Object(known) = &answer {
            self.saw(place, known.clone());
        }
        answer
    }

    async fn ask_of<K: Object>(&self, place: Place, asked: &Asked<Guard>) -> Answer {
        match self.client.send(call::<K>(place, asked).into()).await {
            Ok(Reply::Object(object)) => {
                let (of, known) = known(place.0, &*object);
                assert_eq!(of, place);
                Answer::Object(known)
            }
            Ok(Reply::Deleted { uid }) => Answer::Gone(uid),
            Ok(Reply::List(list)) => {
                let all = list.items.iter().map(|item| known(place.0, &**item));
                Answer::All(all.map(|((_, name), known)| (name, known)).collect())
            }
            Err(ApiError::Status(status)) => Answer::Refused(status.code, status.reason),
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) fn call<K: Object>(place: Place, asked: &Asked<Guard>) -> Call<K> {
    let key = key_of(place);
    let subresource = |part: Part| (part == Part::Status).then_some(Subresource::Status);
    match asked {
        Asked::Create(body, guard) => Call::create(whole::<K>(place, body, guard)),
        Asked::Update(part, body, guard) => {
            Call::Update { key, body: whole::<K>(place, body, guard).into(), subresource: subresource(*part), dry: Dry::No }
        }
        Asked::Patch(part, body, guard) => {
            Call::Patch { key, patch: Patch::merge(patch(place, body, guard)), subresource: subresource(*part), dry: Dry::No }
        }
        Asked::LetGo => Call::patch(&key, Patch::json(json!([{"op": "remove", "path": "/metadata/finalizers"}]))),
        Asked::Delete(grace, Guard { version, uid }) => {
            let preconditions = Preconditions { uid: uid.clone(), resource_version: version.map(|version| version.to_string()) };
            let options = DeleteOptions { grace_period_seconds: *grace, preconditions, ..DeleteOptions::default() };
            Call::Delete { key, options }
        }
        Asked::Get => Call::get(&key),
        Asked::List(label) => {
            let options = ListOptions { label_selector: label.map(|label| format!("v={label}")), ..ListOptions::default() };
            Call::List { namespace: key.namespace().map(Into::into), options }
        }
    }
}

/// A change of the store: its revision, the object, and whether it exists afterwards.
type Change = (u64, Place, bool);

/// An event of a watch.
type Event = (What, Place, Known);

/// All results of the clients' requests.
struct Run {
    done: Vec<Done>,
    changes: Vec<Change>,
    /// The events that the watches of each type received.
    heard: Vec<(Kind, Vec<Event>)>,
}

/// The events of a watch that opens some time after `revision`: all changes since then.
async fn heard<K: Object>(bed: &Testbed, kind: Kind, (server, pause): (usize, u64), revision: u64) -> (Kind, Vec<Event>) {
    bed.wait(millis(pause)).await;
    let mut stream = watch::<K>(&bed.client_on("watcher", server), after(revision)).await;
    let heard = hear(bed, &mut stream, secs(5)).await;
    assert!(heard.is_open(), "{:?}", heard.end);
    let event = |event: &WatchEvent<K>| {
        let (what, object) = match event {
            WatchEvent::Added(object) => (What::Added, object),
            WatchEvent::Modified(object) => (What::Modified, object),
            WatchEvent::Deleted(object) => (What::Deleted, object),
            other => panic!("{other:?}"),
        };
        let (place, known) = known(kind, &**object);
        (what, place, known)
    };
    (kind, heard.events.iter().map(event).collect())
}

/// Performs the clients' actions, each after a pause in milliseconds, while watches open at a server after their own pauses.
fn ran(seed: u64, from_cache: bool, clients: &[Vec<(Op, u64)>], watches: &[(usize, u64)]) -> Run {
    let knobs = Knobs { consistent_list_from_cache: from_cache, ..Knobs::default() };
    Testbed::run_with(ClusterConfig { seed, knobs, ..ClusterConfig::default() }, 2, async |bed| {
        let bed = &bed;
        let began = bed.revision();
        let of = |(number, ops): (usize, &Vec<(Op, u64)>)| {
            let ops = ops.clone();
            async move {
                let mut asker = Asker::of(bed.client(&format!("client-{number}")));
                let mut done = Vec::new();
                for (op, pause) in ops {
                    bed.wait(millis(pause)).await;
                    let (sent, asked) = (bed.revision(), asker.asked(&op));
                    let answer = asker.ask(op.0, &asked).await;
                    done.push(Done { sent, over: bed.revision(), place: op.0, asked, answer });
                }
                done
            }
        };
        let listen = |&watch: &(usize, u64)| async move {
            futures_util::join!(
                heard::<ConfigMap>(bed, Kind::Map, watch, began),
                heard::<Lease>(bed, Kind::Lease, watch, began),
                heard::<Pod>(bed, Kind::Pod, watch, began),
                heard::<SpiderIPPool>(bed, Kind::Pool, watch, began),
                heard::<SpiderEndpoint>(bed, Kind::Endpoint, watch, began),
            )
        };
        let doing = futures_util::future::join_all(clients.iter().enumerate().map(of));
        let (done, heard) = futures_util::join!(doing, futures_util::future::join_all(watches.iter().map(listen)));
        let kinds = [
            (Kind::Map, bed.kind::<ConfigMap>()),
            (Kind::Lease, bed.kind::<Lease>()),
            (Kind::Pod, bed.kind::<Pod>()),
            (Kind::Pool, bed.kind::<SpiderIPPool>()),
            (Kind::Endpoint, bed.kind::<SpiderEndpoint>()),
        ];
        let mut changes = bed.cluster.store(|store| {
            let place = |kind, name: &str| PLACES.into_iter().find(|place| *place == (kind, name)).unwrap();
            let of = |&(kind, id)| {
                let all = store.table(id).changes_after(began);
                all.map(move |change| (change.revision, place(kind, change.key.name()), change.after.is_some()))
            };
            kinds.iter().flat_map(of).collect::<Vec<_>>()
        });
        changes.sort();
        let heard = heard.into_iter().flat_map(|(maps, leases, pods, pools, endpoints)| [maps, leases, pods, pools, endpoints]).collect();
        Run { done: done.into_iter().flatten().collect(), changes, heard }
    })
}

/// The effect of `done` on the object, if its answer says that it made the next of the `changes` of `state`, and the rules agree.
fn made(done: &Done, changes: &[Change], state: &State) -> Option<Vec<(What, Known)>> {
    let (revision, place, _) = changes[0];
    if done.place != place || done.sent >= revision || done.over < revision {
        return None;
    }
    let uid = if let Answer::Object(answered) = &done.answer { &*answered.uid } else { "" };
    let outcome = judge(state, place, &done.asked, revision, uid);
    let is_as_stored = |((what, known), change): (&(What, Known), &Change)| (known.version, place, *what != What::Deleted) == *change;
    let agrees = !outcome.changes.is_empty()
        && outcome.changes.len() <= changes.len()
        && outcome.changes.iter().zip(changes).all(is_as_stored)
        && outcome.answer == done.answer;
    agrees.then_some(outcome.changes)
}

/// Compares the answers, and the events of watches, with the rules.
fn check(run: &Run) {
    let Run { done, changes, heard } = run;
    let mut states = vec![(0, State::new())];
    let mut writers = BTreeSet::new();
    let mut uids = BTreeSet::new();
    let mut events: Vec<Event> = Vec::new();
    let mut left = &changes[..];
    while let Some((_, place, _)) = left.first() {
        let state = &states[states.len() - 1].1;
        let right = done.iter().enumerate().filter(|(number, _)| !writers.contains(number));
        let right = right.filter_map(|(number, done)| Some((number, done, made(done, left, state)?)));
        // This may apply to several requests. A request whose result already exists by then gets the same answer and has changed nothing.
        let changed_nothing = |done: &Done, made: &[(What, Known)]| {
            let there = made.iter().filter(|(what, _)| *what != What::Deleted).map(|(_, known)| (*place, known.clone()));
            let outcome = judge(&there.collect(), *place, &done.asked, 0, "");
            outcome.changes.is_empty() && outcome.answer == done.answer
        };
        let Some((number, _, made)) = right.min_by_key(|(number, done, made)| (changed_nothing(done, made), done.over, *number)) else {
            panic!("nobody was right to make {:?} of {state:?}: {done:#?}", left[0]);
        };
        writers.insert(number);
        left = &left[made.len()..];
        for (what, known) in made {
            let mut next = states[states.len() - 1].1.clone();
            match what {
                What::Added => assert!(uids.insert(known.uid.clone()), "{known:?} is new, and its uid is not"),
                What::Modified | What::Deleted => {}
            }
            let before = if what == What::Deleted { next.remove(place) } else { next.insert(*place, known.clone()) };
            assert_eq!(before.is_none(), what == What::Added);
            states.push((known.version, next));
            events.push((what, *place, known));
        }
    }
    for (_, read) in done.iter().enumerate().filter(|(number, _)| !writers.contains(number)) {
        let first = states.partition_point(|(revision, _)| *revision <= read.sent) - 1;
        let last = states.partition_point(|(revision, _)| *revision <= read.over) - 1;
        let fits = |(_, state): &(u64, State)| {
            let outcome = judge(state, read.place, &read.asked, 0, "");
            outcome.changes.is_empty() && outcome.answer == read.answer
        };
        assert!(states[first..=last].iter().any(fits), "no state explains {read:?}: {:#?}", &states[first..=last]);
    }
    for (kind, heard) in heard {
        let told: Vec<_> = events.iter().filter(|(_, (of, _), _)| of == kind).collect();
        assert_eq!(heard.iter().collect::<Vec<_>>(), told, "a watch was told of what did not happen");
    }
}

/// Actions of clients on a few objects, so that they conflict, each with a pause before it.
pub(crate) fn clients(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Vec<(Op, u64)>>> {
    let places = prop::sample::subsequence(PLACES.to_vec(), 1..4);
    places.prop_flat_map(move |places| vec(ops(places), count.clone()))
}

fn ops(places: Vec<Place>) -> impl Strategy<Value = Vec<(Op, u64)>> {
    let place = || prop::sample::select(places.clone());
    let which = || prop::sample::select(vec![Which::None, Which::First, Which::Last, Which::Last]);
    let guard = || (which(), which());
    // A client that recreates an object that it has seen may forget to remove the version.
    let created = (prop::sample::select(vec![Which::None, Which::None, Which::None, Which::None, Which::Last]), Just(Which::None));
    let part = || prop::sample::select(vec![Part::Main, Part::Main, Part::Status]);
    let held = || prop::sample::select(vec![0u8, 0, 1, 2]);
    let all = (0..3u8, 0..3u8, 0..3u8, held());
    let body =
        all.prop_map(|(spec, label, status, held)| Body { spec: Some(spec), label: Some(label), status: Some(status), held: Some(held) });
    let some = (prop::option::of(0..3u8), prop::option::of(0..3u8), prop::option::of(0..3u8), prop::option::of(held()));
    let change = some.prop_map(|(spec, label, status, held)| Body { spec, label, status, held });
    let grace = || prop::sample::select(vec![None, None, Some(-1), Some(0), Some(10), Some(60)]);
    let op = prop_oneof![
        6 => (place(), body.clone(), created).prop_map(|(place, body, guard)| (place, Asked::Create(body, guard))),
        3 => (place(), part(), body, guard()).prop_map(|(place, part, body, guard)| (place, Asked::Update(part, body, guard))),
        4 => (place(), part(), change, guard()).prop_map(|(place, part, change, guard)| (place, Asked::Patch(part, change, guard))),
        1 => place().prop_map(|place| (place, Asked::LetGo)),
        3 => (place(), grace(), guard()).prop_map(|(place, grace, guard)| (place, Asked::Delete(grace, guard))),
        2 => place().prop_map(|place| (place, Asked::Get)),
        1 => (place(), prop::option::of(1..3u8)).prop_map(|(place, label)| (place, Asked::List(label))),
    ];
    vec((op, prop::sample::select(vec![0, 0, 1, 5, 20])), 1..25)
}

/// The servers of watches, and the milliseconds after which each opens.
fn watches() -> impl Strategy<Value = Vec<(usize, u64)>> {
    vec((0..2usize, prop::sample::select(vec![0, 5, 50, 1_000])), 1..3)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_clients_are_answered_is_what_the_rules_give(
        seed in 0..1_000u64,
        from_cache: bool,
        clients in clients(1..5),
        watches in watches(),
    ) {
        check(&ran(seed, from_cache, &clients, &watches));
    }
}

/// Counts each kind of answer over some runs, to show that the property is not vacuous.
#[test]
fn the_rules_are_asked_for_everything_they_say() {
    let mut answers: BTreeMap<String, usize> = BTreeMap::new();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for seed in 0..400 {
        let clients = clients(3..4).new_tree(&mut runner).unwrap().current();
        let run = ran(seed, seed % 2 == 0, &clients, &[(0, 0)]);
        check(&run);
        for done in &run.done {
            let (asked, guard) = match &done.asked {
                Asked::Create(_, guard) => ("create", Some(guard)),
                Asked::Update(Part::Main, _, guard) => ("update", Some(guard)),
                Asked::Update(Part::Status, _, guard) => ("update status", Some(guard)),
                Asked::Patch(Part::Main, _, guard) => ("patch", Some(guard)),
                Asked::Patch(Part::Status, _, guard) => ("patch status", Some(guard)),
                Asked::LetGo => ("let go", None),
                Asked::Delete(_, guard) => ("delete", Some(guard)),
                Asked::Get => ("get", None),
                Asked::List(_) => ("list", None),
            };
            let of = if guard.is_some_and(|guard| guard.version.is_some()) { " at a version" } else { "" };
            let answer = match &done.answer {
                Answer::Object(known) if known.grace.is_some_and(|grace| grace > 0) => "terminating with grace".to_owned(),
                Answer::Object(known) if known.grace.is_some() && known.held > 0 => "terminating".to_owned(),
                Answer::Object(known) if known.grace.is_some() => "gone".to_owned(),
                Answer::Object(_) => "object".to_owned(),
                Answer::Gone(_) => "gone".to_owned(),
                Answer::All(_) => "list".to_owned(),
                Answer::Refused(code, reason) => format!("{code} {reason:?}"),
            };
            *answers.entry(format!("{:?} {asked}{of}: {answer}", done.place.0)).or_default() += 1;
        }
    }
    let expected = [
        "Map create: 409 AlreadyExists",
        "Pool create at a version: 500 Unknown",
        "Map update: object",
        "Map update: gone",
        "Endpoint update: 422 Invalid",
        "Pool update at a version: 409 Conflict",
        "Pool update at a version: object",
        "Pod update status: object",
        "Pool update status: 422 Invalid",
        "Pool update status at a version: object",
        "Lease update: 409 Conflict",
        "Lease update: 422 Invalid",
        "Lease update: object",
        "Lease update at a version: object",
        "Map patch: gone",
        "Pod patch: 422 Invalid",
        "Pool patch: 422 Invalid",
        "Pod patch: terminating with grace",
        "Map patch at a version: 409 Conflict",
        "Endpoint patch at a version: object",
        "Map patch status: 404 NotFound",
        "Pod patch status: object",
        "Pool patch status: object",
        "Pod let go: 422 Invalid",
        "Pool let go: object",
        "Map let go: gone",
        "Map delete: gone",
        "Map delete: terminating",
        "Pod delete: gone",
        "Pod delete: terminating",
        "Pod delete: terminating with grace",
        "Endpoint delete at a version: 409 Conflict",
        "Pod get: terminating with grace",
        "Endpoint list: list",
    ];
    let rare: Vec<_> = expected.iter().filter(|kind| answers.get(**kind).is_none_or(|times| *times < 5)).collect();
    assert!(rare.is_empty(), "{rare:?} of {answers:#?}");
}
