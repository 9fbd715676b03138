//! The objects that an informer knows, as a pure data structure: changes go in, notifications for handlers come out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use crate::FxHashMap;
use crate::api::{Object, ObjectKey, WatchEvent};

/// A handler's notification about one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Notification<K> {
    /// The object was not known before.
    Added {
        /// The first state of the object that this store has seen.
        object: Arc<K>,
        /// Whether it comes from the first list, or was already there when the handler was added.
        initial: bool,
    },
    /// The object was known before. Several changes may be merged, there may be no change at all (resync, relist), and after a gap **the
    /// two may be different objects of the same name**: compare their UIDs (K148).
    Updated {
        /// The object in the store before this change.
        old: Arc<K>,
        /// The object in the store after this change.
        new: Arc<K>,
    },
    /// The object is gone, or no longer matches the selector (K §2.4).
    Deleted {
        /// The state carried by the event, not the stored one: the last that matched, with the revision of the deletion.
        object: Arc<K>,
    },
    /// The object vanished during a gap between watches (K147).
    DeletedFinalStateUnknown {
        /// The key of the object in the store.
        key: ObjectKey,
        /// The last known state, from before the gap. The incarnation that was deleted may have been another one.
        object: Arc<K>,
    },
}

impl<K> Notification<K> {
    /// The latest state in the notification.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Notification::Added { object, .. }
            | Notification::Updated { new: object, .. }
            | Notification::Deleted { object }
            | Notification::DeletedFinalStateUnknown { object, .. } => object,
        }
    }
}

impl<K: Object> Notification<K> {
    /// The key of the notification's object.
    pub fn key(&self) -> ObjectKey {
        match self {
            Notification::DeletedFinalStateUnknown { key, .. } => key.clone(),
            _ => ObjectKey::of(&**self.object()),
        }
    }
}

type Values<K> = Arc<dyn Fn(&K, &mut dyn FnMut(&str)) + Send + Sync>;

/// An index of objects by a value computed from them, such as the node of a Pod.
pub struct Index<K> {
    name: &'static str,
    values: Values<K>,
}

impl<K> Index<K> {
    /// An index called `name`; `values` calls its second argument with each value of an object.
    pub fn new(name: &'static str, values: impl Fn(&K, &mut dyn FnMut(&str)) + Send + Sync + 'static) -> Self {
        Self { name, values: Arc::new(values) }
    }
}

impl<K> Clone for Index<K> {
    fn clone(&self) -> Self {
        Self { name: self.name, values: self.values.clone() }
    }
}

impl<K> fmt::Debug for Index<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Index").field(&self.name).finish()
    }
}

/// A number for each object, found by a hash of the key without touching the object; for reading very many objects.
///
/// Two keys with the same hash share a slot, so one of them may have no number.
pub struct Digest<K>(Arc<dyn Fn(&K) -> u64 + Send + Sync>);

impl<K> Digest<K> {
    /// The number of an object.
    pub fn new(of: impl Fn(&K) -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(of))
    }

    /// The hash by which a key is found.
    pub fn hash_of(key: &str) -> u64 {
        FxBuildHasher.hash_one(key)
    }
}

impl<K> Clone for Digest<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> fmt::Debug for Digest<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest")
    }
}

#[derive(Debug)]
struct Indexed<K> {
    index: Index<K>,
    keys: BTreeMap<Box<str>, BTreeSet<ObjectKey>>,
}

impl<K> Indexed<K> {
    fn insert(&mut self, key: &ObjectKey, object: &K) {
        (self.index.values)(object, &mut |value| {
            if !self.keys.contains_key(value) {
                self.keys.insert(value.into(), BTreeSet::new());
            }
            self.keys.get_mut(value).expect("just inserted").insert(key.clone());
        });
    }

    /// Whether both objects have the same values in the index.
    fn is_same(&self, one: &K, other: &K) -> bool {
        // Without storing the values: there are few of them, mostly one.
        let (mut same, mut count) = (true, 0);
        (self.index.values)(one, &mut |value| {
            let (mut at, mut equal) = (0, false);
            (self.index.values)(other, &mut |candidate| {
                equal |= at == count && candidate == value;
                at += 1;
            });
            same &= equal;
            count += 1;
        });
        let mut others = 0;
        (self.index.values)(other, &mut |_| others += 1);
        same && others == count
    }

    fn remove(&mut self, key: &ObjectKey, object: &K) {
        (self.index.values)(object, &mut |value| {
            if let Some(keys) = self.keys.get_mut(value) {
                keys.remove(key);
                if keys.is_empty() {
                    self.keys.remove(value);
                }
            }
        });
    }
}

/// Objects by key, in the order of a list (K §2.2).
#[derive(Debug)]
pub struct Store<K> {
    objects: BTreeMap<ObjectKey, Arc<K>>,
    indexes: Vec<Indexed<K>>,
    digest: Option<Digest<K>>,
    digests: FxHashMap<u64, u64>,
    /// The key of the last object that was looked up, for its memory.
    text: String,
}

impl<K: Object> Store<K> {
    /// An empty store with these indexes.
    pub fn new(indexes: Vec<Index<K>>) -> Self {
        let indexes = indexes.into_iter().map(|index| Indexed { index, keys: BTreeMap::new() }).collect();
        Self { objects: BTreeMap::new(), indexes, digest: None, digests: FxHashMap::default(), text: String::new() }
    }

    /// The same store with a number for each object.
    #[must_use]
    pub fn with_digest(self, digest: Option<Digest<K>>) -> Self {
        Self { digest, ..self }
    }

    /// The number of the object whose key has this hash, if there is one.
    pub fn digest(&self, key_hash: u64) -> Option<u64> {
        self.digests.get(&key_hash).copied()
    }

    fn insert(&mut self, key: ObjectKey, object: Arc<K>) -> Option<Arc<K>> {
        if let Some(old) = self.objects.get(&key) {
            self.indexes.iter_mut().for_each(|indexed| indexed.remove(&key, old));
        }
        self.index(&key, &object);
        self.objects.insert(key, object)
    }

    /// Adds an object to the indexes.
    fn index(&mut self, key: &ObjectKey, object: &K) {
        self.indexes.iter_mut().for_each(|indexed| indexed.insert(key, object));
        if let Some(digest) = &self.digest {
            self.digests.insert(Digest::<K>::hash_of(key.as_str()), (digest.0)(object));
        }
    }

    /// [`Store::insert`] under the object's own key, which is not made if the object is known and its index values are unchanged: the
    /// common case.
    fn put(&mut self, object: Arc<K>) -> Option<Arc<K>> {
        ObjectKey::write_text_of(&*object, &mut self.text);
        let Some(known) = self.objects.get_mut(&*self.text) else {
            let key = ObjectKey::of_text(&self.text);
            self.index(&key, &object);
            return self.objects.insert(key, object);
        };
        if self.indexes.iter().all(|indexed| indexed.is_same(known, &object)) {
            if let Some(digest) = &self.digest {
                self.digests.insert(Digest::<K>::hash_of(&self.text), (digest.0)(&object));
            }
            return Some(std::mem::replace(known, object));
        }
        self.insert(ObjectKey::of_text(&self.text), object)
    }

    fn remove(&mut self, object: &K) -> Option<Arc<K>> {
        ObjectKey::write_text_of(object, &mut self.text);
        let (key, old) = self.objects.remove_entry(&*self.text)?;
        for indexed in &mut self.indexes {
            indexed.remove(&key, &old);
        }
        if self.digest.is_some() {
            self.digests.remove(&Digest::<K>::hash_of(key.as_str()));
        }
        Some(old)
    }

    /// Processes one event of a watch. `None` if there is no notification: bookmarks, errors, and the deletion of an unknown object.
    pub fn apply(&mut self, event: WatchEvent<K>) -> Option<Notification<K>> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => Some(match self.put(object.clone()) {
                Some(old) => Notification::Updated { old, new: object },
                None => Notification::Added { object, initial: false },
            }),
            WatchEvent::Deleted(object) => self.remove(&object).map(|_| Notification::Deleted { object }),
            WatchEvent::Bookmark { .. } | WatchEvent::Error(_) => None,
        }
    }

    /// Processes a whole list like client-go. Listed objects come first, in list order, as updates even if nothing changed; then those that
    /// vanished, by key.
    pub fn replace(&mut self, list: Vec<Arc<K>>, initial: bool) -> Vec<Notification<K>> {
        let (mut told, vanished) = self.exchange(list, initial);
        told.extend(vanished.into_iter().map(|(key, object)| Notification::DeletedFinalStateUnknown { key, object }));
        told
    }

    /// Processes a whole list like kube-rs: **objects that vanished are not reported** (K147).
    pub fn swap(&mut self, list: Vec<Arc<K>>, initial: bool) -> Vec<Notification<K>> {
        self.exchange(list, initial).0
    }

    fn exchange(&mut self, list: Vec<Arc<K>>, initial: bool) -> (Vec<Notification<K>>, BTreeMap<ObjectKey, Arc<K>>) {
        let mut previous = std::mem::take(&mut self.objects);
        self.indexes.iter_mut().for_each(|indexed| indexed.keys.clear());
        self.digests.clear();
        let keyed: Vec<_> = list.into_iter().map(|object| (ObjectKey::of(&*object), object)).collect();
        // A list in key order becomes a map at once, which costs less than inserting one object after the other: every agent lists all
        // nodes. A list continued at a later revision may contain an object twice (K §2.2).
        let in_order = keyed.is_sorted_by(|(one, _), (next, _)| one < next);
        let mut told = Vec::with_capacity(keyed.len());
        for (key, object) in &keyed {
            let before = previous.remove(key);
            let earlier_page = if in_order {
                self.index(key, object);
                None
            } else {
                self.insert(key.clone(), object.clone())
            };
            told.push(match earlier_page.or(before) {
                Some(old) => Notification::Updated { old, new: object.clone() },
                None => Notification::Added { object: object.clone(), initial },
            });
        }
        if in_order {
            self.objects = keyed.into_iter().collect();
        }
        (told, previous)
    }

    /// The object, if it is known.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<K>> {
        self.objects.get(key)
    }

    /// The object with this key in text form, if it is known.
    pub fn find(&self, key: &str) -> Option<&Arc<K>> {
        self.objects.get(key)
    }

    /// All objects, by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<K>> {
        self.objects.values()
    }

    /// The objects of one namespace, by key.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<K>> {
        let namespace = ObjectKey::namespaced(namespace, "");
        let start = namespace.clone();
        self.objects.range(start..).take_while(move |(key, _)| key.as_str().starts_with(namespace.as_str())).map(|(_, object)| object)
    }

    /// The objects that have `value` in the index called `index`, by key.
    ///
    /// # Panics
    /// There is no such index: a bug in the caller.
    pub fn by_index(&self, index: &str, value: &str) -> impl Iterator<Item = &Arc<K>> {
        let Some(indexed) = self.indexes.iter().find(|indexed| indexed.index.name == index) else {
            panic!("the store has no index {index:?}; name it in the informer's options");
        };
        indexed.keys.get(value).into_iter().flatten().map(|key| &self.objects[key])
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use proptest::prelude::*;

    use super::*;

    /// A ConfigMap `ns/name`, incarnation `uid`, at revision `version`.
    fn object(name: &str, uid: u32, version: u32) -> Arc<ConfigMap> {
        let mut object = ConfigMap::default();
        object.metadata.namespace = Some("ns".into());
        object.metadata.name = Some(name.into());
        object.metadata.uid = Some(uid.to_string());
        object.metadata.resource_version = Some(version.to_string());
        Arc::new(object)
    }

    fn uid(object: &ConfigMap) -> &str {
        object.metadata.uid.as_deref().unwrap()
    }

    #[test]
    fn the_first_list_is_added_as_initial() {
        let mut store = Store::new(vec![]);
        let a = object("a", 1, 1);
        assert_eq!(store.replace(vec![a.clone()], true), [Notification::Added { object: a, initial: true }]);
    }

    #[test]
    fn k147_an_object_that_vanished_in_a_gap_is_deleted_with_its_stale_state() {
        let mut store = Store::new(vec![]);
        let (a, b) = (object("a", 1, 1), object("b", 2, 2));
        store.replace(vec![a.clone(), b.clone()], true);
        let key = ObjectKey::namespaced("ns", "a");
        assert_eq!(
            store.replace(vec![b.clone()], false),
            [Notification::Updated { old: b.clone(), new: b }, Notification::DeletedFinalStateUnknown { key: key.clone(), object: a }]
        );
        assert_eq!(store.get(&key), None);
    }

    #[test]
    fn k147_a_swap_says_nothing_about_an_object_that_vanished() {
        let mut store = Store::new(vec![]);
        let (a, b) = (object("a", 1, 1), object("b", 2, 2));
        store.swap(vec![a, b.clone()], true);
        let c = object("c", 3, 3);
        assert_eq!(
            store.swap(vec![b.clone(), c.clone()], false),
            [Notification::Updated { old: b.clone(), new: b }, Notification::Added { object: c, initial: false }]
        );
        assert_eq!(store.iter().len(), 2);
    }

    #[test]
    fn k148_delete_and_recreate_in_a_gap_is_one_update_with_two_uids() {
        let mut store = Store::new(vec![]);
        store.replace(vec![object("a", 1, 1)], true);
        let told = store.replace(vec![object("a", 2, 9)], false);
        let [Notification::Updated { old, new }] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!((uid(old), uid(new)), ("1", "2"));
    }

    #[test]
    fn a_deletion_carries_the_object_of_the_event_not_the_stored_one() {
        let mut store = Store::new(vec![]);
        store.apply(WatchEvent::Added(object("a", 1, 1)));
        let last = object("a", 1, 5);
        assert_eq!(store.apply(WatchEvent::Deleted(last.clone())), Some(Notification::Deleted { object: last.clone() }));
        assert_eq!(store.apply(WatchEvent::Deleted(last)), None, "what is not known cannot be deleted");
    }

    #[test]
    fn added_for_a_known_object_is_an_update_and_modified_for_an_unknown_one_an_addition() {
        let mut store = Store::new(vec![]);
        let (one, two) = (object("a", 1, 1), object("a", 1, 2));
        assert_eq!(store.apply(WatchEvent::Modified(one.clone())), Some(Notification::Added { object: one.clone(), initial: false }));
        assert_eq!(store.apply(WatchEvent::Added(two.clone())), Some(Notification::Updated { old: one, new: two }));
    }

    #[test]
    fn a_namespace_does_not_include_those_that_start_with_its_name() {
        let mut store = Store::new(vec![]);
        for (namespace, name) in [("a", "x"), ("a-b", "y"), ("a", "z"), ("ab", "w")] {
            let mut object = ConfigMap::default();
            object.metadata.namespace = Some(namespace.into());
            object.metadata.name = Some(name.into());
            store.apply(WatchEvent::Added(Arc::new(object)));
        }
        let names: Vec<_> = store.in_namespace("a").map(|object| object.metadata.name.clone().unwrap()).collect();
        assert_eq!(names, ["x", "z"]);
    }

    #[derive(Clone, Debug)]
    enum Change {
        Upsert(u8, u32),
        Delete(u8),
        Replace(Vec<(u8, u32)>),
        Swap(Vec<(u8, u32)>),
    }

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        let list = || prop::collection::vec((0u8..6, 1u32..4), 0..8);
        let change = prop_oneof![
            6 => (0u8..6, 1u32..4).prop_map(|(name, uid)| Change::Upsert(name, uid)),
            3 => (0u8..6).prop_map(Change::Delete),
            1 => list().prop_map(Change::Replace),
            1 => list().prop_map(Change::Swap),
        ];
        prop::collection::vec(change, 0..40)
    }

    #[test]
    fn a_digest_follows_its_object_through_changes_and_lists() {
        let digest = Digest::new(|object: &ConfigMap| uid(object).parse().unwrap());
        let mut store = Store::new(vec![]).with_digest(Some(digest));
        let hash = |name: &str| Digest::<ConfigMap>::hash_of(&format!("ns/{name}"));
        store.replace(vec![object("a", 1, 1), object("b", 2, 2)], true);
        assert_eq!((store.digest(hash("a")), store.digest(hash("b"))), (Some(1), Some(2)));
        store.apply(WatchEvent::Modified(object("a", 3, 3)));
        store.apply(WatchEvent::Deleted(object("b", 2, 4)));
        assert_eq!((store.digest(hash("a")), store.digest(hash("b"))), (Some(3), None));
        store.swap(vec![object("c", 5, 5)], false);
        assert_eq!((store.digest(hash("a")), store.digest(hash("c"))), (None, Some(5)));
        assert_eq!(Store::<ConfigMap>::new(vec![]).digest(hash("a")), None);
    }

    proptest! {
        /// Comparison with a plain map: the store holds the latest states; a handler that maintains a map from the notifications has the
        /// same map, except for objects that a swap did not report; and the index agrees.
        #[test]
        fn store_and_handler_agree_with_a_plain_map(changes in changes()) {
            let mut store = Store::new(vec![Index::new("uid", |object: &ConfigMap, found: &mut dyn FnMut(&str)| found(uid(object)))]);
            let mut model: BTreeMap<ObjectKey, Arc<ConfigMap>> = BTreeMap::new();
            let mut handler: BTreeMap<ObjectKey, Arc<ConfigMap>> = BTreeMap::new();
            for (version, change) in changes.into_iter().enumerate() {
                let make = |(name, uid): (u8, u32)| object(&format!("o{name}"), uid, version as u32);
                let told = match change {
                    Change::Upsert(name, uid) => {
                        let object = make((name, uid));
                        model.insert(ObjectKey::of(&*object), object.clone());
                        store.apply(WatchEvent::Modified(object)).into_iter().collect()
                    }
                    Change::Delete(name) => {
                        let object = make((name, 0));
                        model.remove(&ObjectKey::of(&*object));
                        store.apply(WatchEvent::Deleted(object)).into_iter().collect()
                    }
                    Change::Replace(list) => {
                        let list: Vec<_> = list.into_iter().map(make).collect();
                        model = list.iter().map(|object| (ObjectKey::of(&**object), object.clone())).collect();
                        store.replace(list, false)
                    }
                    Change::Swap(list) => {
                        let list: Vec<_> = list.into_iter().map(make).collect();
                        model = list.iter().map(|object| (ObjectKey::of(&**object), object.clone())).collect();
                        let told = store.swap(list, false);
                        handler.retain(|key, _| model.contains_key(key));
                        told
                    }
                };
                for notification in told {
                    let key = notification.key();
                    match notification {
                        Notification::Added { object, .. } => prop_assert_eq!(handler.insert(key, object), None),
                        Notification::Updated { old, new } => prop_assert_eq!(handler.insert(key, new), Some(old)),
                        Notification::Deleted { .. } => prop_assert!(handler.remove(&key).is_some()),
                        Notification::DeletedFinalStateUnknown { object, .. } => prop_assert_eq!(handler.remove(&key), Some(object)),
                    }
                }
                prop_assert_eq!(&handler, &model);
                prop_assert!(store.iter().eq(model.values()));
                for value in ["1", "2", "3"] {
                    prop_assert!(store.by_index("uid", value).eq(model.values().filter(|object| uid(object) == value)));
                }
            }
        }
    }
}
