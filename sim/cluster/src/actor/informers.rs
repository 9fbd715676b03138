//! The informers of one life of a process: one per type, however many parts of the process use it.
//!
//! ```text
//!   tell::<K>(handler) ─┐
//!   tell::<K>(handler) ─┼─► start ─► Informer<K> ─► one task: each handler in turn, for each change
//!   index::<K>(index)  ─┘
//! ```
//! A watch has a cost for every change that it delivers, and so does a task that is woken: so a process has one of each per type. Used by
//! the garbage collector and by the controller manager.

use std::any::{Any, TypeId};
use std::pin::Pin;

use kube_machinery::Object;
use kube_machinery::informer::{Index, Informer, InformerOptions, Notification, StoreReader};
use kube_machinery::latest;

use super::ApiClient;
use crate::env::SimEnv;

type Handler<K> = Box<dyn FnMut(&Notification<K>) + Send>;

/// The handlers and indexes requested for one type.
struct Wanted<K> {
    indexes: Vec<Index<K>>,
    handlers: Vec<Handler<K>>,
}

/// [`Wanted`] with its type erased.
trait Want: Any + Send {
    fn start(self: Box<Self>, client: &ApiClient, env: &SimEnv) -> Running;
}

/// One running informer.
struct Running {
    of: TypeId,
    /// Completes when the informer has its first list and every handler has seen all of it.
    told: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Completes when the informer has its first list.
    synced: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The informer, which ends when it is dropped.
    informer: Box<dyn Any + Send>,
}

/// The informers that a process is about to start.
#[derive(Default)]
pub(super) struct Informers {
    wanted: Vec<(TypeId, Box<dyn Want>)>,
}

/// The informers that a process has started. Dropping them ends them.
pub(super) struct Started {
    running: Vec<Running>,
}

impl<K: Object> Want for Wanted<K> {
    fn start(self: Box<Self>, client: &ApiClient, env: &SimEnv) -> Running {
        let Self { indexes, mut handlers } = *self;
        let informer = Informer::<K, _>::start(client.clone(), env.clone(), InformerOptions { indexes, ..InformerOptions::default() });
        let (caught_up, mut is_caught_up) = latest::channel(handlers.is_empty());
        if !handlers.is_empty() {
            let store = informer.store();
            let mut notifications = informer.subscribe();
            let task = async move {
                loop {
                    let notification = match notifications.try_next() {
                        Some(notification) => notification,
                        None => {
                            caught_up.set(store.has_synced());
                            let Some(notification) = notifications.next().await else { return };
                            notification
                        }
                    };
                    handlers.iter_mut().for_each(|handler| handler(&notification));
                }
            };
            drop(kube_machinery::Env::spawn(env, task));
        }
        let (store, synced, again) = (informer.store(), informer.synced(), informer.synced());
        let told = async move {
            synced.await;
            // An empty list causes no notification.
            if !store.is_empty() && is_caught_up.wait_for(|caught_up| *caught_up).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        Running { of: TypeId::of::<K>(), told: Box::pin(told), synced: Box::pin(again), informer: Box::new(informer) }
    }
}

impl Informers {
    fn wanted<K: Object>(&mut self) -> &mut Wanted<K> {
        let id = TypeId::of::<K>();
        let index = self.wanted.iter().position(|(of, _)| *of == id).unwrap_or_else(|| {
            self.wanted.push((id, Box::new(Wanted::<K> { indexes: Vec::new(), handlers: Vec::new() })));
            self.wanted.len() - 1
        });
        let wanted: &mut dyn Any = &mut *self.wanted[index].1;
        wanted.downcast_mut().unwrap_or_else(|| unreachable!("it was put there under this type"))
    }

    /// Requests a store of `K` that has the index `index`.
    pub(super) fn index<K: Object>(&mut self, index: Index<K>) {
        self.wanted::<K>().indexes.push(index);
    }

    /// Calls `handler` with every change of a `K`. It must not wait for anything.
    pub(super) fn tell<K: Object>(&mut self, handler: impl FnMut(&Notification<K>) + Send + 'static) {
        self.wanted::<K>().handlers.push(Box::new(handler));
    }

    /// Requests an informer of `K` for its store alone.
    pub(super) fn want<K: Object>(&mut self) {
        self.wanted::<K>();
    }

    /// Starts all of them, in the order in which the types were first requested.
    pub(super) fn start(self, client: &ApiClient, env: &SimEnv) -> Started {
        Started { running: self.wanted.into_iter().map(|(_, wanted)| wanted.start(client, env)).collect() }
    }
}

impl Started {
    /// Completes when all have their first lists.
    pub(super) async fn synced(&mut self) {
        for running in &mut self.running {
            running.synced.as_mut().await;
        }
    }

    /// Completes when all have their first lists and the handlers have seen everything in them.
    pub(super) async fn told(&mut self) {
        for running in &mut self.running {
            running.told.as_mut().await;
        }
    }

    /// The store of `K`. Panics if no part of the process requested it, which is a bug of the caller.
    pub(super) fn store<K: Object>(&self) -> StoreReader<K> {
        let running = self.running.iter().find(|running| running.of == TypeId::of::<K>());
        let informer = running.and_then(|running| running.informer.downcast_ref::<Informer<K, SimEnv>>());
        informer.unwrap_or_else(|| panic!("nobody wanted an informer of {}", std::any::type_name::<K>())).store()
    }
}
