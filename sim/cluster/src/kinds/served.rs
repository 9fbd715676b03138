//! Client types that differ from the stored type of a cluster.
//!
//! ```text
//!   client of K ── body(K) ──►┐                    K is the stored type: nothing is converted, nothing is copied
//!                             ├── Obj ── store     K is a view of it:    converted here, at the client's edge
//!   client of K ◄── typed(K) ─┘
//! ```
//! The store, its history, webhooks and claims only ever see the stored type.

use std::any::TypeId;
use std::marker::PhantomData;
use std::sync::Arc;

use kube_machinery::Object;
use kube_machinery::api::WatchEvent;

use super::{KindId, TypeDef};
use crate::object::{AnyObject, Obj, typed, typed_ref};

/// A type that clients may use instead of the stored one. On the wire both are the same.
#[derive(Clone, Copy)]
pub(super) struct View {
    pub(super) type_id: TypeId,
    to_stored: fn(Obj) -> Obj,
    to_view: fn(&Obj) -> Obj,
}

impl View {
    /// The view `V` of objects stored as `K`.
    fn of<K: Object + From<V>, V: Object + for<'a> From<&'a K>>() -> Self {
        Self {
            type_id: TypeId::of::<V>(),
            to_stored: |object| Arc::new(K::from(Arc::unwrap_or_clone(typed::<V>(object)))),
            to_view: |object| Arc::new(V::from(typed_ref::<K>(&**object))),
        }
    }
}

impl TypeDef {
    /// This registration, of `K`, with `V` as a second type that clients may use. Both have to serialise to the same bytes.
    pub fn viewed_as<K: Object + From<V>, V: Object + for<'a> From<&'a K>>(mut self) -> Self {
        assert_eq!(self.type_id, TypeId::of::<K>(), "a view is one of the registered type");
        self.views.push(View::of::<K, V>());
        self
    }

    /// `object` as the stored type, if it is of that type or of a view of it.
    pub fn stored(&self, object: Obj) -> Obj {
        let id = object.as_any().type_id();
        match self.views.iter().find(|view| view.type_id == id) {
            Some(view) => (view.to_stored)(object),
            None => object,
        }
    }

    /// A stored object as it comes back from a client that reads and writes it as the first view of its type: anything that only the stored
    /// type keeps is lost on the way. Types without a view come back unchanged.
    pub(crate) fn through_a_view(&self, object: Obj) -> Obj {
        match self.views.first() {
            Some(view) => (view.to_stored)((view.to_view)(&object)),
            None => object,
        }
    }
}

/// The way a cluster serves clients of type `K`: the number of the stored type, and the conversions from and to it.
pub struct Served<K> {
    /// The number of the stored type.
    pub kind: KindId,
    view: Option<View>,
    objects: PhantomData<fn() -> K>,
}

impl<K> Clone for Served<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Served<K> {}

impl<K: Object> Served<K> {
    pub(super) fn new(kind: KindId, view: Option<View>) -> Self {
        Self { kind, view, objects: PhantomData }
    }

    /// Converts a client's object to the stored type.
    pub fn body(&self, object: Arc<K>) -> Obj {
        match &self.view {
            Some(view) => (view.to_stored)(object),
            None => object,
        }
    }

    /// Converts a stored object to the client's type. Panics if the object is of another type, which is a bug of the caller.
    pub fn typed(&self, object: Obj) -> Arc<K> {
        match &self.view {
            Some(view) => typed((view.to_view)(&object)),
            None => typed(object),
        }
    }

    /// Converts the event of a watch to the client's type. Panics like [`typed`](Self::typed).
    pub fn event(&self, event: WatchEvent<dyn AnyObject>) -> WatchEvent<K> {
        match event {
            WatchEvent::Added(object) => WatchEvent::Added(self.typed(object)),
            WatchEvent::Modified(object) => WatchEvent::Modified(self.typed(object)),
            WatchEvent::Deleted(object) => WatchEvent::Deleted(self.typed(object)),
            WatchEvent::Bookmark { resource_version, initial_events_end } => WatchEvent::Bookmark { resource_version, initial_events_end },
            WatchEvent::Error(status) => WatchEvent::Error(status),
        }
    }
}
