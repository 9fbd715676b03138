//! A local copy of one kind of objects, kept up to date by list and watch, and callbacks about its changes.
//!
//! The copy is a prefix of history with an unbounded lag: behind the API server by the lag of its watch, and by a whole gap after a broken
//! watch. A process that reads its own informer right after its own write may see the old state (K151). Objects missing from the copy may
//! exist; objects in it may be gone.
//!
//! ```text
//!   API server ── list, watch ──► reflector ──► store          (updated first)
//!                                     └───────► queues ──► handlers   (each in a task of its own, unbounded)
//! ```
//!
//! A handler is called after the store was updated, in order for each object, and may find the store several changes ahead (K146). It sees
//! neither every change (gaps collapse them) nor the changes made while the process was down: after a restart the store is filled anew, and
//! objects missing from it are not reported (K149). So a handler that frees something needs a comparison with a consistent list as a
//! backup.
//!
//! Objects are shared between the store and all handlers: they are immutable `Arc`s.
//!
//! The store of an informer without listeners processes the elements of its watch only when it is read, if the watch supports it: see
//! [`Backlog`]. Readers see the same as if each change had been processed on arrival.

mod client_go;
mod kube_rs;
mod source;
mod store;

use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::api::{List, Object, ObjectKey, WatchEvent};
use crate::client::{Backlog, Client};
use crate::env::{Env, Task};
use crate::latest;
use crate::retry::GrowingBackoff;
use source::Source;

pub use store::{Digest, Index, Notification, Store};

/// The freshness that kube-rs requests for a list, the first time and after every gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListSemantic {
    /// The most recent state (a quorum read).
    #[default]
    MostRecent,
    /// Any state that the server's cache has: may go back in time while the process runs.
    Any,
}

/// The client library that an informer imitates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// client-go: lists any state at first and never goes back behind a version that it saw (K150); objects that vanished in a gap are
    /// reported as [`Notification::DeletedFinalStateUnknown`].
    #[default]
    ClientGo,
    /// kube-rs: objects that vanished in a gap leave the store without a notification. Has no resync.
    KubeRs(ListSemantic),
}

/// The scope and the behaviour of an informer.
#[derive(Clone, Debug)]
pub struct InformerOptions<K> {
    /// Only this namespace; default all.
    pub namespace: Option<Arc<str>>,
    /// Only objects with matching labels. A deletion then may mean that the object no longer matches (K §2.4).
    pub label_selector: Option<String>,
    /// Only objects with matching fields; as above.
    pub field_selector: Option<String>,
    /// The interval at which handlers are notified of all objects again; default never. Makes no API call and repairs nothing.
    pub resync: Option<Duration>,
    /// Indexes for [`StoreReader::by_index`]; default none.
    pub indexes: Vec<Index<K>>,
    /// A number for each object, for [`StoreReader::digest`]; default none.
    pub digest: Option<Digest<K>>,
    /// The timeout for the answer to a list, per page, and for opening a watch of client-go; default as long as the connection lasts. A
    /// request sent over HTTP/1.1 into a network partition waits until TCP gives up, a quarter of an hour later (K180).
    pub patience: Option<Duration>,
    /// The client library to imitate; default client-go.
    pub model: Model,
}

impl<K> Default for InformerOptions<K> {
    fn default() -> Self {
        Self {
            namespace: None,
            label_selector: None,
            field_selector: None,
            resync: None,
            indexes: Vec::new(),
            digest: None,
            patience: None,
            model: Model::ClientGo,
        }
    }
}

/// A running informer. When it is dropped or stopped, its reflector and its handlers end; readers keep what they have.
#[derive(Debug)]
pub struct Informer<K: Object, V: Env> {
    env: V,
    shared: Arc<Shared<K>>,
    tasks: Mutex<Vec<V::Task>>,
}

impl<K: Object, V: Env> Informer<K, V> {
    /// Starts to list and watch in the background.
    pub fn start<C: Client>(client: C, env: V, options: InformerOptions<K>) -> Self {
        let InformerOptions { namespace, label_selector, field_selector, resync, indexes, digest, patience, model } = options;
        let contents = Contents { store: Store::new(indexes).with_digest(digest), version: String::new(), heard: false, backlog: None };
        let shared = Arc::new(Shared {
            contents: Arc::new(RwLock::new(contents)),
            listeners: Mutex::new(Some(Vec::new())),
            synced: latest::Sender::new(false),
        });
        let source = Source { client, namespace, label_selector, field_selector, patience };
        let backoff = GrowingBackoff::reflector();
        let task = match model {
            Model::ClientGo => {
                let (env, shared) = (env.clone(), shared.clone());
                let reflector = client_go::Reflector { source, env: env.clone(), shared, resync, backoff, version_unavailable: false };
                env.spawn(reflector.run())
            }
            Model::KubeRs(semantic) => {
                let (env, shared) = (env.clone(), shared.clone());
                env.spawn(kube_rs::Watcher { source, env: env.clone(), shared, semantic, backoff }.run())
            }
        };
        Self { env, shared, tasks: Mutex::new(vec![task]) }
    }

    /// A handle for reading the store. Cheap, and may outlive the informer.
    pub fn store(&self) -> StoreReader<K> {
        StoreReader { contents: self.shared.contents.clone(), synced: self.shared.synced.subscribe(), catches_up: true }
    }

    /// Whether the first list is in the store. Handlers may be behind.
    pub fn has_synced(&self) -> bool {
        self.shared.synced.get()
    }

    /// Completes when the first list is in the store.
    pub fn synced(&self) -> impl Future<Output = ()> + Send + use<K, V> {
        let mut synced = self.shared.synced.subscribe();
        async move {
            // An error means that the informer has ended and will never be synced, so this waits forever.
            if synced.wait_for(|synced| *synced).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Calls `handler`, in a separate task, with every change from now on, after an `Added` for each object that is already there. Errors
    /// of a handler are its own responsibility.
    pub fn add_handler(&self, mut handler: impl FnMut(Notification<K>) + Send + 'static) {
        let mut notifications = self.subscribe();
        let task = self.env.spawn(async move {
            while let Some(notification) = notifications.next().await {
                handler(notification);
            }
        });
        self.tasks.lock().unwrap().push(task);
    }

    /// The same changes as a queue, for handlers that have to wait. The queue grows without bound while it is not read, and ends with the
    /// informer.
    pub fn subscribe(&self) -> Notifications<K> {
        Notifications { queue: self.shared.subscribe() }
    }

    /// Stops the reflector and the handlers.
    pub fn stop(&self) {
        for task in self.tasks.lock().unwrap().drain(..) {
            task.abort();
        }
        *self.shared.listeners.lock().unwrap() = None;
    }
}

impl<K: Object, V: Env> Drop for Informer<K, V> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A queue of changes.
#[derive(Debug)]
pub struct Notifications<K> {
    queue: mpsc::UnboundedReceiver<Notification<K>>,
}

impl<K: Object> Notifications<K> {
    /// The next change; `None` when the informer ended. Dropping this future loses no change.
    pub async fn next(&mut self) -> Option<Notification<K>> {
        self.queue.recv().await
    }

    /// The next change, if one is queued.
    pub fn try_next(&mut self) -> Option<Notification<K>> {
        self.queue.try_recv().ok()
    }
}

/// A reading handle on an informer's store.
///
/// A closure given to one of its methods runs while the store is locked: it must not use a handle on that store.
#[derive(Debug)]
pub struct StoreReader<K> {
    contents: Arc<RwLock<Contents<K>>>,
    synced: latest::Receiver<bool>,
    /// Whether it processes arrived elements before it reads.
    catches_up: bool,
}

impl<K> Clone for StoreReader<K> {
    fn clone(&self) -> Self {
        Self { contents: self.contents.clone(), synced: self.synced.clone(), catches_up: self.catches_up }
    }
}

impl<K: Object> StoreReader<K> {
    /// A handle that shows the state as of the last read through another handle. It never fetches arrived elements, so it may be used while
    /// the connection is locked.
    pub fn as_last_read(&self) -> Self {
        Self { catches_up: false, ..self.clone() }
    }

    fn read<T>(&self, read: impl FnOnce(&Contents<K>) -> T) -> T {
        let contents = self.contents.read().unwrap();
        if !self.catches_up || !contents.is_behind() {
            return read(&contents);
        }
        drop(contents);
        let mut contents = self.contents.write().unwrap();
        contents.catch_up();
        read(&contents)
    }

    /// The object as last known. `None` may be due to lag.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.read(|contents| contents.store.get(key).cloned())
    }

    /// The object with this key in text form, as last known.
    pub fn find(&self, key: &str) -> Option<Arc<K>> {
        self.read(|contents| contents.store.find(key).cloned())
    }

    /// The number of the object whose key has this hash ([`Digest::hash_of`]), if there is one.
    pub fn digest(&self, key_hash: u64) -> Option<u64> {
        self.read(|contents| contents.store.digest(key_hash))
    }

    /// The number of known objects.
    pub fn len(&self) -> usize {
        self.read(|contents| contents.store.iter().len())
    }

    /// Whether no object is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All objects, by key, as one snapshot.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.read(|contents| contents.store.iter().cloned().collect())
    }

    /// Calls `visit` with all objects, by key.
    pub fn for_each(&self, visit: impl FnMut(&Arc<K>)) {
        self.read(|contents| contents.store.iter().for_each(visit));
    }

    /// Calls `visit` with the objects of one namespace, by key.
    pub fn in_namespace(&self, namespace: &str, visit: impl FnMut(&Arc<K>)) {
        self.read(|contents| contents.store.in_namespace(namespace).for_each(visit));
    }

    /// Calls `visit` with the objects that have `value` in the index called `index`, by key.
    ///
    /// # Panics
    /// There is no such index: a bug in the caller.
    pub fn by_index(&self, index: &str, value: &str, visit: impl FnMut(&Arc<K>)) {
        self.read(|contents| contents.store.by_index(index, value).for_each(visit));
    }

    /// The revision up to which the store is known to be complete; `None` before the first list.
    pub fn resource_version(&self) -> Option<String> {
        self.read(|contents| contents.version().map(str::to_owned))
    }

    /// Whether the first list is in the store.
    pub fn has_synced(&self) -> bool {
        self.synced.get()
    }
}

#[derive(Debug)]
struct Contents<K> {
    store: Store<K>,
    /// The version of the store; empty before the first list.
    version: String,
    /// Whether the current watch has delivered an event.
    heard: bool,
    /// The elements of the current watch that the store does not have yet.
    backlog: Option<Arc<dyn Backlog<K>>>,
}

impl<K: Object> Contents<K> {
    fn version(&self) -> Option<&str> {
        Some(&*self.version).filter(|version| !version.is_empty())
    }

    /// Processes one event of the watch.
    fn apply(&mut self, event: WatchEvent<K>) -> Option<Notification<K>> {
        self.heard = true;
        let version = match &event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                object.meta().resource_version.as_deref()
            }
            WatchEvent::Bookmark { resource_version, .. } => Some(&**resource_version),
            WatchEvent::Error(_) => None,
        };
        if let Some(version) = version {
            self.version.clear();
            self.version.push_str(version);
        }
        self.store.apply(event)
    }

    fn is_behind(&self) -> bool {
        self.backlog.as_ref().is_some_and(|backlog| backlog.has_arrived())
    }

    /// Processes the arrived elements of the watch.
    fn catch_up(&mut self) {
        if let Some(backlog) = self.backlog.clone() {
            backlog.take(&mut |event| drop(self.apply(event)));
        }
    }
}

/// The state that a reflector writes to. Lock order: listeners, then contents.
#[derive(Debug)]
struct Shared<K> {
    contents: Arc<RwLock<Contents<K>>>,
    /// `None` once the informer was stopped.
    listeners: Mutex<Option<Vec<mpsc::UnboundedSender<Notification<K>>>>>,
    synced: latest::Sender<bool>,
}

impl<K: Object> Shared<K> {
    fn version(&self) -> Option<String> {
        self.contents.read().unwrap().version().map(str::to_owned)
    }

    /// Changes the store, then notifies every listener. One lock is held over both, so that a listener added in between misses nothing and
    /// gets nothing twice.
    fn change<N: IntoIterator<Item = Notification<K>>>(&self, change: impl FnOnce(&mut Contents<K>) -> N) {
        let mut listeners = self.listeners.lock().unwrap();
        let told = change(&mut self.contents.write().unwrap());
        let Some(listeners) = &mut *listeners else { return };
        for notification in told {
            listeners.retain(|listener| listener.send(notification.clone()).is_ok());
        }
    }

    fn apply(&self, event: WatchEvent<K>) {
        self.change(|contents| contents.apply(event));
    }

    /// Begins a watch. Its elements are left to readers, if the watch supports it and as long as there are no listeners.
    fn follow(&self, backlog: Option<Arc<dyn Backlog<K>>>) -> Following<'_, K> {
        let listeners = self.listeners.lock().unwrap();
        if let Some(backlog) = &backlog {
            backlog.defer(listeners.as_ref().is_none_or(Vec::is_empty));
        }
        let mut contents = self.contents.write().unwrap();
        contents.heard = false;
        contents.backlog = backlog;
        Following(self)
    }

    fn replace(&self, list: List<K>) {
        self.take_list(list, Store::replace);
    }

    fn swap(&self, list: List<K>) {
        self.take_list(list, Store::swap);
    }

    fn take_list(&self, list: List<K>, take: impl FnOnce(&mut Store<K>, Vec<Arc<K>>, bool) -> Vec<Notification<K>>) {
        self.change(|contents| {
            let initial = contents.version.is_empty();
            contents.version = list.resource_version;
            take(&mut contents.store, list.items, initial)
        });
        self.synced.set(true);
    }

    fn resync(&self) {
        self.change(|contents| {
            let again = |object: &Arc<K>| Notification::Updated { old: object.clone(), new: object.clone() };
            contents.store.iter().map(again).collect::<Vec<_>>()
        });
    }

    fn subscribe(&self) -> mpsc::UnboundedReceiver<Notification<K>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut listeners = self.listeners.lock().unwrap();
        if let Some(listeners) = &mut *listeners {
            let mut contents = self.contents.write().unwrap();
            contents.catch_up();
            if let Some(backlog) = &contents.backlog {
                backlog.defer(false);
            }
            for object in contents.store.iter() {
                let _ = sender.send(Notification::Added { object: object.clone(), initial: true });
            }
            listeners.push(sender);
        }
        receiver
    }
}

/// The current watch of a reflector.
struct Following<'a, K: Object>(&'a Shared<K>);

impl<K: Object> Following<'_, K> {
    /// Ends the watch: processes the elements that arrived until then. Returns whether there was any event.
    fn end(self) -> bool {
        let mut contents = self.0.contents.write().unwrap();
        contents.catch_up();
        contents.heard
    }
}

impl<K: Object> Drop for Following<'_, K> {
    fn drop(&mut self) {
        let backlog = self.0.contents.write().unwrap().backlog.take();
        // Dropped without the lock: it may be the last handle on a whole simulation.
        drop(backlog);
    }
}

#[cfg(test)]
mod tests;
