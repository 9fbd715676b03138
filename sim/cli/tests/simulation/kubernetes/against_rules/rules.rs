//! The response of an API server to a request (K §2), as far as five types show it. It is written from the reference alone: nothing here
//! calls the code under test, so that a mistake there is not repeated here.

use std::collections::BTreeMap;

use kube_machinery::Reason;

/// A type of each sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A ConfigMap, which has no generation.
    Map,
    /// A Lease, which an update creates if it does not exist.
    Lease,
    /// A type that is deleted with grace.
    Pod,
    /// A SpiderIPPool: a custom resource with `/status`.
    Pool,
    /// A SpiderEndpoint: a custom resource whose status is an ordinary field.
    Endpoint,
}

impl Kind {
    fn is_custom(self) -> bool {
        matches!(self, Kind::Pool | Kind::Endpoint)
    }

    fn has_status(self) -> bool {
        matches!(self, Kind::Pod | Kind::Pool)
    }

    fn has_generation(self) -> bool {
        !matches!(self, Kind::Map | Kind::Lease)
    }

    /// Whether it must not be overwritten without having been read.
    fn needs_version(self) -> bool {
        self.is_custom() || self == Kind::Lease
    }
}

/// An object by its type and name.
pub(crate) type Place = (Kind, &'static str);

/// A pod that is on no node, so that a delete gives it no grace.
pub(crate) const UNSCHEDULED: Place = (Kind::Pod, "unscheduled");

/// All objects that may exist.
pub(crate) const PLACES: [Place; 7] = [
    (Kind::Map, "a"),
    (Kind::Map, "b"),
    (Kind::Lease, "a"),
    (Kind::Pod, "scheduled"),
    UNSCHEDULED,
    (Kind::Pool, "a"),
    (Kind::Endpoint, "a"),
];

/// The `status` of a new pod, and of one that has done its work.
pub(crate) const PENDING: u8 = 0;
pub(crate) const SUCCEEDED: u8 = 2;

/// The state of an object, as far as the rules need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) uid: String,
    pub(crate) version: u64,
    pub(crate) generation: Option<i64>,
    /// The user's specification: an entry, a holder, an image, an address.
    pub(crate) spec: u8,
    /// A label; 0 = none.
    pub(crate) label: u8,
    pub(crate) status: Option<u8>,
    /// The number of its finalizers, which are always the same ones.
    pub(crate) held: u8,
    /// The grace of its delete in seconds; `None` = it is not being deleted.
    pub(crate) grace: Option<i64>,
}

pub(crate) type State = BTreeMap<Place, Known>;

/// The URL of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
}

/// The fields of an object that a client sends: all of them with a create or a PUT, some of them with a patch.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) spec: Option<u8>,
    pub(crate) label: Option<u8>,
    pub(crate) status: Option<u8>,
    pub(crate) held: Option<u8>,
}

/// The state that a request requires, by version, uid or both.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) version: Option<u64>,
    pub(crate) uid: Option<String>,
}

/// A request; `G` names the state that it requires.
#[derive(Clone, Debug)]
pub(crate) enum Asked<G> {
    /// Only the version of the guard matters.
    Create(Body, G),
    Update(Part, Body, G),
    Patch(Part, Body, G),
    /// A JSON patch that removes all finalizers.
    LetGo,
    Delete(Option<i64>, G),
    Get,
    /// `None` = all objects of the type; otherwise those with this label.
    List(Option<u8>),
}

/// The answer to a request: an object, the uid of a deleted one, all objects of a type, or an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Object(Known),
    Gone(String),
    All(BTreeMap<&'static str, Known>),
    Refused(u16, Reason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Added,
    Modified,
    Deleted,
}

/// The result of a request by the rules: the changes, as watches report them, and the answer.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) changes: Vec<(What, Known)>,
    pub(crate) answer: Answer,
}

impl Outcome {
    fn of(answer: Answer) -> Self {
        Self { changes: Vec::new(), answer }
    }

    fn refused(code: u16, reason: Reason) -> Self {
        Self::of(Answer::Refused(code, reason))
    }

    /// The outcome that leaves the object unchanged.
    fn kept(current: &Known) -> Self {
        Self::of(Answer::Object(current.clone()))
    }

    fn put(what: What, known: Known) -> Self {
        Self { changes: vec![(what, known.clone())], answer: Answer::Object(known) }
    }
}

impl Guard {
    fn is_stale(&self, current: &Known) -> bool {
        self.version.is_some_and(|version| version != current.version)
    }

    fn is_of_another(&self, current: &Known) -> bool {
        self.uid.as_ref().is_some_and(|uid| *uid != current.uid)
    }
}

/// The outcome of a request at a server that has `state`. Its first change takes `revision`, and a new object gets `uid`.
pub(crate) fn judge(state: &State, place: Place, asked: &Asked<Guard>, revision: u64, uid: &str) -> Outcome {
    let (kind, _) = place;
    let current = state.get(&place);
    match (asked, current) {
        (Asked::List(label), _) => {
            let of_kind = state.iter().filter(|((of, _), known)| *of == kind && label.is_none_or(|label| known.label == label));
            Outcome::of(Answer::All(of_kind.map(|((_, name), known)| (*name, known.clone())).collect()))
        }
        (Asked::Create(_, guard), _) if guard.version.is_some() => Outcome::refused(500, Reason::Unknown),
        (Asked::Create(..), Some(_)) => Outcome::refused(409, Reason::AlreadyExists),
        (Asked::Create(body, _), None) => created(kind, body, revision, uid),
        // The version that it would change does not matter.
        (Asked::Update(Part::Main, body, guard), None) if kind == Kind::Lease => match guard.uid {
            Some(_) => Outcome::refused(409, Reason::Conflict),
            None => created(kind, body, revision, uid),
        },
        // There is no such URL, so it does not matter whether the object exists.
        (Asked::Update(Part::Status, ..) | Asked::Patch(Part::Status, ..), _) if !kind.has_status() => {
            Outcome::refused(404, Reason::NotFound)
        }
        (_, None) => Outcome::refused(404, Reason::NotFound),
        (Asked::Get, Some(current)) => Outcome::kept(current),
        (Asked::Update(part, body, guard), Some(current)) => {
            if guard.is_of_another(current) {
                return Outcome::refused(409, Reason::Conflict);
            }
            if guard.version.is_none() && kind.needs_version() {
                return Outcome::refused(422, Reason::Invalid);
            }
            if guard.is_stale(current) { Outcome::refused(409, Reason::Conflict) } else { written(kind, current, *part, body, revision) }
        }
        (Asked::Patch(part, body, guard), Some(current)) => {
            if guard.is_stale(current) {
                return Outcome::refused(409, Reason::Conflict);
            }
            // Here the uid is not a condition but an immutable field, and for a custom resource `/status` accepts the status alone.
            let looks_at_uid = *part == Part::Main || !kind.is_custom();
            if looks_at_uid && guard.is_of_another(current) {
                return Outcome::refused(422, Reason::Invalid);
            }
            written(kind, current, *part, body, revision)
        }
        (Asked::LetGo, Some(current)) if current.held == 0 => Outcome::refused(422, Reason::Invalid),
        (Asked::LetGo, Some(current)) => {
            let body = Body { spec: None, label: None, status: None, held: Some(0) };
            written(kind, current, Part::Main, &body, revision)
        }
        (Asked::Delete(_, guard), Some(current)) if guard.is_stale(current) || guard.is_of_another(current) => {
            Outcome::refused(409, Reason::Conflict)
        }
        (Asked::Delete(asked, _), Some(current)) if kind == Kind::Pod => {
            pod_deleted(current, place == UNSCHEDULED || current.status == Some(SUCCEEDED), *asked, revision)
        }
        (Asked::Delete(..), Some(current)) => deleted(current, revision),
    }
}

fn created(kind: Kind, body: &Body, revision: u64, uid: &str) -> Outcome {
    let known = Known {
        uid: uid.to_owned(),
        version: revision,
        generation: kind.has_generation().then_some(1),
        spec: body.spec.unwrap_or_default(),
        label: body.label.unwrap_or_default(),
        // Whatever status the creator sends.
        status: (kind == Kind::Pod).then_some(PENDING),
        held: body.held.unwrap_or_default(),
        grace: None,
    };
    Outcome::put(What::Added, known)
}

/// The object with the fields of a body, after all conditions of the write have been checked.
fn written(kind: Kind, current: &Known, part: Part, body: &Body, revision: u64) -> Outcome {
    let mut next = current.clone();
    match part {
        Part::Main => next.spec = body.spec.unwrap_or(current.spec),
        Part::Status => next.status = body.status.or(current.status),
    }
    if part == Part::Main || !kind.is_custom() {
        next.label = body.label.unwrap_or(current.label);
        next.held = body.held.unwrap_or(current.held);
    }
    if current.grace.is_some() && next.held > current.held {
        return Outcome::refused(422, Reason::Invalid);
    }
    if next.spec != current.spec {
        next.generation = current.generation.map(|generation| generation + 1);
    }
    if next.grace == Some(0) && next.held == 0 {
        // The object is removed without being changed first: watches receive the stored state, the writer receives the new one.
        return Outcome { changes: vec![(What::Deleted, Known { version: revision, ..current.clone() })], answer: Answer::Object(next) };
    }
    if next == *current { Outcome::kept(current) } else { Outcome::put(What::Modified, Known { version: revision, ..next }) }
}

/// An object whose delete has begun with this many seconds of grace.
fn terminating(current: &Known, grace: i64, revision: u64) -> Known {
    // Only the first delete counts.
    let began = i64::from(current.grace.is_none());
    let generation = current.generation.map(|generation| generation + began);
    Known { version: revision, generation, grace: Some(grace), ..current.clone() }
}

/// A delete of an object without grace.
fn deleted(current: &Known, revision: u64) -> Outcome {
    if current.held == 0 {
        let last = Known { version: revision, ..current.clone() };
        return Outcome { changes: vec![(What::Deleted, last)], answer: Answer::Gone(current.uid.clone()) };
    }
    if current.grace.is_some() { Outcome::kept(current) } else { Outcome::put(What::Modified, terminating(current, 0, revision)) }
}

/// A delete of a pod, which may have time to end; `idle`: it needs none, as nothing in it runs.
fn pod_deleted(current: &Known, idle: bool, asked: Option<i64>, revision: u64) -> Outcome {
    let asked = asked.map(|asked| if asked < 0 { 1 } else { asked });
    let grace = match current.grace {
        None if idle => 0,
        None => asked.unwrap_or(30),
        // A second delete can only shorten the grace.
        Some(grace) => match asked {
            Some(asked) if asked < grace => asked,
            _ => return Outcome::kept(current),
        },
    };
    let next = terminating(current, grace, revision);
    if grace > 0 || next.held > 0 {
        return Outcome::put(What::Modified, next);
    }
    let last = Known { version: revision + 1, ..next.clone() };
    Outcome { changes: vec![(What::Modified, next), (What::Deleted, last.clone())], answer: Answer::Object(last) }
}
