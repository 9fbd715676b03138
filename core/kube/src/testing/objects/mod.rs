//! The objects of an in-memory API server, as JSON, and its handling of requests: the rules of K §2 that the programs of `core` meet.
//!
//! It is the only model of an API server in unit tests. Tests put their additions (lost answers, requests that wait) around a store,
//! without knowing its rules. The rules are those of the simulated cluster, which `core` must not depend on: `core_server.rs` of the
//! simulation's tests sends the same requests to both, and no answer, error, object or event may differ except as named there.
//!
//! Left out because unused: dry runs, pages, field selectors, apply, generated names, the checks of names and specs, namespaces that end.

mod change;
mod request;
mod traits;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::watch::TestWatch;
use crate::WordHash;
use crate::api::{Object, ObjectKey, WatchEvent, WatchOptions};

/// A store of objects. It changes only by its methods, and no time passes.
///
/// ```
/// use jiff::Timestamp;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube_machinery::ObjectKey;
/// use kube_machinery::api::{Call, Reason};
/// use kube_machinery::testing::Objects;
///
/// let (mut objects, now) = (Objects::new(&[]), Timestamp::UNIX_EPOCH);
/// let settings = ConfigMap { metadata: ObjectKey::namespaced("default", "settings").metadata(), ..ConfigMap::default() };
/// objects.serve(&Call::create(settings.clone()), now).expect("the name is free");
/// let again = objects.serve(&Call::create(settings), now).expect_err("it is taken");
/// assert_eq!(again.reason(), Some(Reason::AlreadyExists));
/// ```
pub struct Objects {
    all: BTreeMap<String, BTreeMap<ObjectKey, Arc<Stored>>>,
    revision: u64,
    history: Vec<Event>,
    watches: Vec<Watch>,
    /// Kinds whose watch cache is behind, and the last revision that it has seen.
    held: BTreeMap<String, u64>,
    /// Kinds of custom resources that have no `/status`.
    without_status: &'static [&'static str],
}

/// A state of an object.
struct Stored {
    value: Value,
    /// The object as deserialised by the first read: most states are read often.
    read: OnceLock<Arc<dyn Any + Send + Sync>>,
}

/// A change of an object.
#[derive(Clone)]
struct Event {
    revision: u64,
    kind: Arc<str>,
    what: What,
    object: Arc<Stored>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Added,
    Modified,
    Deleted,
}

/// Receives an event; false = the watch has ended.
type Watch = Box<dyn Fn(&Event) -> bool + Send>;

fn kind<K: Object>() -> String {
    K::kind(&()).into_owned()
}

fn read<K: Object>(value: &Value) -> K {
    K::deserialize(value).unwrap_or_else(|error| panic!("{error}: {value}"))
}

fn key_of(value: &Value) -> ObjectKey {
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    match value["metadata"]["namespace"].as_str() {
        Some(namespace) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster(name),
    }
}

impl Stored {
    fn of(value: Value) -> Arc<Self> {
        Arc::new(Self { value, read: OnceLock::new() })
    }

    fn read<K: Object>(&self) -> Arc<K> {
        if let Some(read) = self.read.get()
            && let Ok(object) = read.clone().downcast()
        {
            return object;
        }
        let object = Arc::new(read::<K>(&self.value));
        let _another_type_was_first = self.read.set(object.clone());
        object
    }

    fn uid(&self) -> &str {
        self.value["metadata"]["uid"].as_str().unwrap_or_default()
    }
}

impl Event {
    fn to_watch<K: Object>(&self) -> WatchEvent<K> {
        let object = self.object.read();
        match self.what {
            What::Added => WatchEvent::Added(object),
            What::Modified => WatchEvent::Modified(object),
            What::Deleted => WatchEvent::Deleted(object),
        }
    }
}

impl Objects {
    /// An empty store at revision 1, like a new etcd. Custom resources of these kinds have no `/status`: theirs is a field like any other.
    pub fn new(without_status: &'static [&'static str]) -> Self {
        let (all, history, watches, held) = Default::default();
        Self { all, revision: 1, history, watches, held, without_status }
    }

    /// The revision of the latest change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// A copy without watches that later changes of this store do not affect.
    #[must_use]
    pub fn frozen(&self) -> Self {
        let Self { all, revision, history, held, without_status, .. } = self;
        Self { all: all.clone(), revision: *revision, history: history.clone(), watches: Vec::new(), held: held.clone(), without_status }
    }

    fn find(&self, kind: &str, key: &ObjectKey) -> Option<&Arc<Stored>> {
        self.all.get(kind)?.get(key)
    }

    /// The object with this key, unchanged.
    pub fn get<K: Object>(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.find(&K::kind(&()), key).map(|stored| stored.read())
    }

    /// All objects of a type, by their keys.
    pub fn all<K: Object>(&self) -> Vec<Arc<K>> {
        self.all.get(&*K::kind(&())).into_iter().flatten().map(|(_, stored)| stored.read()).collect()
    }

    /// All states that an object with this key had, the oldest first.
    pub fn states<K: Object>(&self, key: &ObjectKey) -> Vec<Arc<K>> {
        let of_key = |event: &&Event| *event.kind == *kind::<K>() && event.what != What::Deleted && key_of(&event.object.value) == *key;
        self.history.iter().filter(of_key).map(|event| event.object.read()).collect()
    }

    /// The objects of a kind as they were at a revision.
    fn at(&self, kind: &str, revision: u64) -> BTreeMap<ObjectKey, Arc<Stored>> {
        if revision >= self.revision {
            return self.all.get(kind).cloned().unwrap_or_default();
        }
        let mut objects = BTreeMap::new();
        for event in self.history.iter().filter(|event| event.revision <= revision && *event.kind == *kind) {
            match event.what {
                What::Deleted => drop(objects.remove(&key_of(&event.object.value))),
                What::Added | What::Modified => drop(objects.insert(key_of(&event.object.value), event.object.clone())),
            }
        }
        objects
    }

    fn tell(&mut self, kind: &str, what: What, object: Arc<Stored>) {
        let event = Event { revision: self.revision, kind: kind.into(), what, object };
        if !self.held.contains_key(kind) {
            self.watches.retain(|watch| watch(&event));
        }
        self.history.push(event);
    }

    /// The UID of the object that is stored next.
    fn next_uid(&self) -> String {
        let hash = WordHash::new().word(self.revision + 1);
        let (first, last) = (hash.finish(), hash.word(0).finish());
        format!(
            "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
            first >> 32,
            first >> 16 & 0xffff,
            first & 0xfff,
            last >> 52,
            last & 0xffff_ffff_ffff
        )
    }

    fn at_this_revision(&self, mut value: Value) -> Value {
        value["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        value
    }

    /// Stores a changed object.
    fn store(&mut self, kind: &str, key: &ObjectKey, value: Value) -> Arc<Stored> {
        self.revision += 1;
        let stored = Stored::of(self.at_this_revision(value));
        let before = self.all.entry(kind.to_owned()).or_default().insert(key.clone(), stored.clone());
        self.tell(kind, if before.is_some() { What::Modified } else { What::Added }, stored.clone());
        stored
    }

    /// Stores an object unchanged, without the API server's checks. It gets a UID if it has none; one with another UID replaces the object
    /// that had the name.
    ///
    /// # Panics
    /// If it has no `kind`.
    pub fn put(&mut self, mut value: Value) {
        let kind = value["kind"].as_str().expect("an object says what it is").to_owned();
        let key = key_of(&value);
        let before = self.find(&kind, &key).cloned();
        if value["metadata"]["uid"].is_null() {
            value["metadata"]["uid"] = json!(before.as_ref().map_or_else(|| self.next_uid(), |before| before.uid().to_owned()));
        }
        match before {
            Some(before) if json!(before.uid()) != value["metadata"]["uid"] => self.remove(&kind, &key),
            Some(before) => {
                value["metadata"]["resourceVersion"] = before.value["metadata"]["resourceVersion"].clone();
                if before.value == value {
                    return;
                }
            }
            None => {}
        }
        self.store(&kind, &key, value);
    }

    /// Changes an object, without the API server's checks; returns whether there is one. A change of the spec increments the generation of
    /// an object that has one.
    pub fn change(&mut self, kind: &str, key: &ObjectKey, change: impl FnOnce(&mut Value)) -> bool {
        let Some(before) = self.find(kind, key).cloned() else { return false };
        let mut value = before.value.clone();
        change(&mut value);
        let generation = &before.value["metadata"]["generation"];
        if let Some(number) = generation.as_i64()
            && value["metadata"]["generation"] == *generation
            && value["spec"] != before.value["spec"]
        {
            value["metadata"]["generation"] = json!(number + 1);
        }
        self.put(value);
        true
    }

    /// Removes an object regardless of its finalizers.
    pub fn remove(&mut self, kind: &str, key: &ObjectKey) {
        let Some(stored) = self.all.get_mut(kind).and_then(|of_kind| of_kind.remove(key)) else { return };
        self.revision += 1;
        self.tell(kind, What::Deleted, Stored::of(self.at_this_revision(stored.value.clone())));
    }

    /// Freezes the watch cache of a type from now on: watches get no more events, and lists from the cache show the current state.
    pub fn hold<K: Object>(&mut self) {
        self.held.entry(kind::<K>()).or_insert(self.revision);
    }

    /// Opens a watch: the changes after the version in `options`; without a version, the current objects and all later changes (K §2.3).
    pub fn watch<K: Object>(&mut self, namespace: Option<&str>, options: &WatchOptions) -> TestWatch<K> {
        assert!(!options.send_initial_events, "nobody streams lists");
        assert!(options.label_selector.is_none() && options.field_selector.is_none(), "nobody selects what to watch");
        let (sender, events) = mpsc::unbounded_channel();
        let (kind, namespace) = (kind::<K>(), namespace.map(str::to_owned));
        let seen = self.held.get(&kind).copied().unwrap_or(self.revision);
        let watch = move |event: &Event| {
            let is_wanted = *event.kind == *kind
                && namespace.as_deref().is_none_or(|namespace| event.object.value["metadata"]["namespace"].as_str() == Some(namespace));
            !sender.is_closed() && (!is_wanted || sender.send(Ok(event.to_watch::<K>())).is_ok())
        };
        let version = options.resource_version.as_deref().unwrap_or("0");
        match version.parse().expect("a version that this store gave") {
            0 => {
                for object in self.at(&K::kind(&()), seen).into_values() {
                    watch(&Event { revision: seen, kind: K::kind(&()).into(), what: What::Added, object });
                }
            }
            after => {
                for event in self.history.iter().filter(|event| (after + 1..=seen).contains(&event.revision)) {
                    watch(event);
                }
            }
        }
        self.watches.push(Box::new(watch));
        TestWatch::new(events)
    }
}
