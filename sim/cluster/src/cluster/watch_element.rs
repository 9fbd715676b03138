//! The elements of a watch stream, its end, and the conversion of a change of an object into an element (K §2.4).

use std::borrow::Cow;

use kube_machinery::Status;
use kube_machinery::api::{TransportError, WatchEvent};

use super::store::{Change, Revision};
use crate::kinds::{KindId, TypeDef};
use crate::object::{AnyObject, Obj, make_mut};
use crate::rt::ProcessId;
use crate::selector::Selector;
use crate::trace::{EventKind, WatchKind};

/// One element on its way to a client.
#[derive(Clone, Debug)]
pub struct Element {
    pub what: WatchKind,
    pub revision: Revision,
    pub object: Option<Obj>,
    pub status: Option<Box<Status>>,
    /// The number of the change of its type that it reports; `None` = it reports none.
    pub change: Option<u64>,
}

/// The end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// No ERROR element, no transport error: time-out, slow consumer, cache re-initialised.
    Clean,
    /// The connection broke, with this error for its client.
    Broken(TransportError),
}

/// The element that a watcher gets for a change, if any (K §2.4).
pub(super) fn convert(def: &TypeDef, selector: &Selector, change: &Change, index: u64) -> Option<Element> {
    let plain = selector.is_everything();
    let matches = |object: &Option<Obj>| object.as_ref().is_some_and(|object| plain || selector.matches(def, &**object));
    let (had, has) = (matches(&change.before), matches(&change.after));
    let (what, object) = match (had, has) {
        (false, true) => (WatchKind::Added, change.after.clone()),
        (true, true) => (WatchKind::Modified, change.after.clone()),
        (true, false) => (WatchKind::Deleted, change.tombstone.clone().or_else(|| Some(last_seen(change)))),
        (false, false) => return None,
    };
    Some(Element { what, revision: change.revision, object, status: None, change: Some(index) })
}

/// The value of an object's trigger field, if its type has one.
pub(super) fn trigger_of<'a>(def: &TypeDef, object: &'a Option<Obj>) -> Option<Cow<'a, str>> {
    Some((def.field)(&**object.as_ref()?, def.trigger?))
}

/// The object for a change after which it no longer matches: its old content with the new revision (K047).
fn last_seen(change: &Change) -> Obj {
    let mut object = change.before.clone().unwrap_or_else(|| unreachable!("an object that matched before existed before"));
    make_mut(&mut object).meta_mut().resource_version = Some(change.revision.to_string());
    object
}

/// The trace event for the delivery of an element to a client.
pub(super) fn event_of(client: ProcessId, kind: KindId, element: &Element) -> EventKind<'_> {
    let Element { what, revision, ref object, .. } = *element;
    EventKind::Deliver { client, kind, what, revision, object: object.as_ref() }
}

impl Element {
    /// The element as its client gets it.
    pub(super) fn into_event(self) -> WatchEvent<dyn AnyObject> {
        let some = |object: Option<Obj>| object.unwrap_or_else(|| unreachable!("a change carries an object"));
        match self.what {
            WatchKind::Added => WatchEvent::Added(some(self.object)),
            WatchKind::Modified => WatchEvent::Modified(some(self.object)),
            WatchKind::Deleted => WatchEvent::Deleted(some(self.object)),
            what @ (WatchKind::Bookmark | WatchKind::InitialEventsEnd) => {
                let initial_events_end = what == WatchKind::InitialEventsEnd;
                WatchEvent::Bookmark { resource_version: self.revision.to_string(), initial_events_end }
            }
            WatchKind::Error => WatchEvent::Error(self.status.unwrap_or_else(|| unreachable!("an error carries a status"))),
        }
    }
}
