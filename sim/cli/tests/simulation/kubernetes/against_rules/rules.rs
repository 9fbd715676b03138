//! What an API server makes of a request (K §2), as far as five types show it. It is written from the reference alone: nothing here calls
//! what is tested, so that a mistake there is not made here, too.

use std::collections::BTreeMap;

use kube_machinery::Reason;

/// A type of each sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A ConfigMap, of which no generations are counted.
    Map,
    /// A Lease, which an update creates if it is not there.
    Lease,
    /// What is deleted with grace.
    Pod,
    /// A SpiderIPPool: a custom resource with `/status`.
    Pool,
    /// A SpiderEndpoint: one whose status is a field as any other.
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

    /// Whether nobody overwrites it without having read it.
    fn needs_version(self) -> bool {
        self.is_custom() || self == Kind::Lease
    }
}

/// An object by its type and name.
pub(crate) type Place = (Kind, &'static str);

/// A pod that no node runs, which a delete gives no time.
pub(crate) const UNSCHEDULED: Place = (Kind::Pod, "unscheduled");

/// All objects that there may be.
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

/// An object, as far as the rules go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) uid: String,
    pub(crate) version: u64,
    pub(crate) generation: Option<i64>,
    /// What its users ask for: an entry, a holder, an image, an address.
    pub(crate) spec: u8,
    /// A label; 0 = none.
    pub(crate) label: u8,
    pub(crate) status: Option<u8>,
    /// How many finalizers hold it, the same ones each time.
    pub(crate) held: u8,
    /// The seconds that a delete left it; unset = it is not being deleted.
    pub(crate) grace: Option<i64>,
}

pub(crate) type State = BTreeMap<Place, Known>;

/// Which URL a write goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
}

/// What a client sends of an object: all of it with a create or a PUT, some of it with a patch.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) spec: Option<u8>,
    pub(crate) label: Option<u8>,
    pub(crate) status: Option<u8>,
    pub(crate) held: Option<u8>,
}

/// The state that a request is about, by version, uid or both.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) version: Option<u64>,
    pub(crate) uid: Option<String>,
}

/// What is asked of the API; `G` says of which state.
#[derive(Clone, Debug)]
pub(crate) enum Asked<G> {
    /// Of a guard the version counts.
    Create(Body, G),
    Update(Part, Body, G),
    Patch(Part, Body, G),
    /// A JSON patch that removes all finalizers.
    LetGo,
    Delete(Option<i64>, G),
    Get,
    /// Unset = all of the type; else those with this label.
    List(Option<u8>),
}

/// What it was answered: an object, nothing that is left of one, all objects of its type, or an error.
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

/// What the rules make of a request: the changes, as who watches is told of them, and the answer.
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

    /// The object is as it was.
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

/// What a server that has `state` makes of a request. Its first change takes `revision`, and a new object is called `uid`.
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
        // Which version it would change does not matter.
        (Asked::Update(Part::Main, body, guard), None) if kind == Kind::Lease => match guard.uid {
            Some(_) => Outcome::refused(409, Reason::Conflict),
            None => created(kind, body, revision, uid),
        },
        // There is no such URL, so it does not matter whether there is an object.
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
            // The uid is no condition here but a field that does not change, and of a custom resource `/status` takes the status alone.
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
        // Whatever its creator says of it.
        status: (kind == Kind::Pod).then_some(PENDING),
        held: body.held.unwrap_or_default(),
        grace: None,
    };
    Outcome::put(What::Added, known)
}

/// The object with what a body says of it, after all that makes the write conditional.
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
        // It is gone, and not changed first: who watches is told of what was stored, the writer of what would be.
        return Outcome { changes: vec![(What::Deleted, Known { version: revision, ..current.clone() })], answer: Answer::Object(next) };
    }
    if next == *current { Outcome::kept(current) } else { Outcome::put(What::Modified, Known { version: revision, ..next }) }
}

/// An object whose delete has begun with so many seconds of grace.
fn terminating(current: &Known, grace: i64, revision: u64) -> Known {
    // Only the beginning counts.
    let began = i64::from(current.grace.is_none());
    let generation = current.generation.map(|generation| generation + began);
    Known { version: revision, generation, grace: Some(grace), ..current.clone() }
}

/// A delete of what has no grace.
fn deleted(current: &Known, revision: u64) -> Outcome {
    if current.held == 0 {
        let last = Known { version: revision, ..current.clone() };
        return Outcome { changes: vec![(What::Deleted, last)], answer: Answer::Gone(current.uid.clone()) };
    }
    if current.grace.is_some() { Outcome::kept(current) } else { Outcome::put(What::Modified, terminating(current, 0, revision)) }
}

/// A delete of a pod, which may have time to end; `idle`: it needs none, as nothing of it runs.
fn pod_deleted(current: &Known, idle: bool, asked: Option<i64>, revision: u64) -> Outcome {
    let asked = asked.map(|asked| if asked < 0 { 1 } else { asked });
    let grace = match current.grace {
        None if idle => 0,
        None => asked.unwrap_or(30),
        // A second delete can only hasten the first.
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
