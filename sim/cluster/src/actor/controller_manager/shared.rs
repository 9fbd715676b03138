//! The state that all controllers of the manager share: the client, the queue, the pods by owner, and the latest writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_machinery::Object;
use kube_machinery::api::{DeleteOptions, ignore_not_found};
use kube_machinery::informer::Notification;
use kube_machinery::workqueue::WorkQueue;
use kube_machinery::{ApiError, ClientExt, Env, FxHashMap, ObjectKey};
use parking_lot::Mutex;

use super::expectations::Expectations;
use super::families::{Families, Family};
use super::view::uid_of;
use super::{Item, Set, batch, template};
use crate::actor::ApiClient;
use crate::actor::informers::Informers;
use crate::env::SimEnv;

/// The shared state in one life of the process: a restart forgets it.
pub(super) struct Shared {
    pub(super) client: ApiClient,
    pub(super) env: SimEnv,
    pub(super) queue: WorkQueue<Item, SimEnv>,
    pub(super) set: Arc<Set>,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    families: Families,
    expectations: Expectations,
    /// The last write of this process to each object.
    written: FxHashMap<Item, Written>,
    /// The time of the last write to the status of each object.
    statuses: BTreeMap<Item, Duration>,
    /// The hash of each object's template, with the generation and UID it belongs to.
    hashes: BTreeMap<Item, (i64, Box<str>, Arc<str>)>,
}

/// A status that this process has written and may not have seen yet.
struct Written {
    /// The revision of the write.
    revision: u64,
    /// Whether a reconcile waits to see it.
    asked: bool,
}

/// The revision of an object. Kubernetes has promised that revisions of one type can be compared.
fn revision_of(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

impl Shared {
    pub(super) fn new(client: ApiClient, env: SimEnv, set: Arc<Set>) -> Arc<Self> {
        let queue = WorkQueue::new(env.clone());
        Arc::new(Self { client, env, queue, set, memory: Mutex::default() })
    }

    /// Reports the changes of pods to the families, and to the owners of the pods.
    pub(super) fn hear_of_pods(self: &Arc<Self>, informers: &mut Informers) {
        let shared = self.clone();
        informers.tell::<Pod>(move |notification| {
            let told = {
                let mut memory = shared.memory.lock();
                let told = memory.families.observe(notification);
                for told in told.iter().flatten() {
                    if told.created {
                        memory.expectations.created(&told.item, 1);
                    }
                    if let Some(uid) = &told.deleted {
                        memory.expectations.deleted(&told.item, uid);
                    }
                }
                told
            };
            for told in told.into_iter().flatten().filter(|told| told.matters && shared.runs(&told.item)) {
                shared.queue.add(told.item);
            }
        });
    }

    /// Queues an object of type `K` when it is new, gone, or terminating, or when its generation changes.
    pub(super) fn hear_of<K: Object>(self: &Arc<Self>, informers: &mut Informers, item: impl Fn(ObjectKey) -> Item + Send + 'static) {
        let shared = self.clone();
        informers.tell::<K>(move |notification| {
            if let Notification::Updated { old, new } = notification {
                let (old, new) = (old.meta(), new.meta());
                let is_told = old.uid == new.uid && old.generation == new.generation && old.deletion_timestamp == new.deletion_timestamp;
                if is_told && !shared.is_awaited(&item(notification.key()), new) {
                    return;
                }
            }
            shared.queue.add(item(notification.key()));
        });
    }

    /// Whether a reconcile waits for this state of `item`, which is the one that this process has written, or a later one.
    fn is_awaited(&self, item: &Item, meta: &ObjectMeta) -> bool {
        let mut memory = self.memory.lock();
        let awaited = memory.written.get(item).is_some_and(|written| written.asked && revision_of(meta) >= written.revision);
        if awaited {
            memory.written.remove(item);
        }
        awaited
    }

    /// Whether the informer has yet to report the status that this process itself has written: a write based on an older state could only
    /// be refused. The object is queued again when the status is seen.
    pub(super) fn is_behind(&self, item: &Item, meta: &ObjectMeta) -> bool {
        let mut memory = self.memory.lock();
        let Some(written) = memory.written.get_mut(item) else { return false };
        if revision_of(meta) < written.revision {
            written.asked = true;
            return true;
        }
        memory.written.remove(item);
        false
    }

    /// Whether the controller of `item` runs.
    pub(super) fn runs(&self, item: &Item) -> bool {
        self.set.controllers.contains(&item.kind.controller())
    }

    /// Calls `read` with the known pods of the owner with this UID.
    pub(super) fn family<T>(&self, uid: Option<&str>, read: impl FnOnce(Option<&Family>) -> T) -> T {
        let memory = self.memory.lock();
        read(uid.and_then(|uid| memory.families.of(uid)))
    }

    /// The pods of owners that had the name of `item` and another UID than this, as far as `wanted` accepts them.
    pub(super) fn strangers(&self, item: &Item, uid: Option<&str>, wanted: impl Fn(&Pod) -> bool) -> Vec<Arc<Pod>> {
        let memory = self.memory.lock();
        memory.families.strangers(item, uid).filter(|member| wanted(&member.pod)).map(|member| member.pod.clone()).collect()
    }

    /// Whether the informers have yet to report what was done for `item`. If so, it is queued again when they have.
    pub(super) fn waits(&self, item: &Item) -> bool {
        let left = self.memory.lock().expectations.left(item, self.env.monotonic());
        if let Some(left) = left {
            self.queue.add_after(item.clone(), left);
        }
        left.is_some()
    }

    /// Creates `count` pods like this one, and waits to see them.
    pub(super) async fn create_pods(&self, item: &Item, pod: Pod, count: usize) -> Result<(), ApiError> {
        let pod = Arc::new(pod);
        self.create_each_pod(item, count, |_| pod.clone()).await
    }

    /// Creates `count` pods and waits to see them.
    pub(super) async fn create_each_pod(&self, item: &Item, count: usize, pod: impl Fn(usize) -> Arc<Pod>) -> Result<(), ApiError> {
        self.memory.lock().expectations.expect(item, count, [], self.env.monotonic());
        let (created, result) = batch::slow_start(count, |index| self.create_pod(pod(index))).await;
        if created < count {
            self.memory.lock().expectations.created(item, count - created);
        }
        result
    }

    /// Creates a pod, unless its namespace is being emptied.
    pub(super) async fn create_pod(&self, pod: Arc<Pod>) -> Result<(), ApiError> {
        match self.client.create::<Pod>(pod).await {
            Err(error) if is_terminating_namespace(&error) => Ok(()),
            result => result.map(drop),
        }
    }

    /// Deletes these pods, by name, and waits to see them go.
    pub(super) async fn delete_pods(&self, item: &Item, pods: &[Arc<Pod>]) -> Result<(), ApiError> {
        let uids = pods.iter().map(|pod| uid_of(pod));
        self.memory.lock().expectations.expect(item, 0, uids, self.env.monotonic());
        let delete = |index: usize| async move {
            let pod: &Arc<Pod> = &pods[index];
            let result = self.client.delete::<Pod>(&ObjectKey::of(&**pod), DeleteOptions::default()).await;
            if result.is_err() {
                self.memory.lock().expectations.deleted(item, uid_of(pod));
            }
            ignore_not_found(result)
        };
        batch::all(pods.len(), delete).await.1
    }

    /// Whether the status of `item` may be written now. If not, `item` is queued again for when it may.
    pub(super) fn may_write_status(&self, item: &Item) -> bool {
        let pace = self.set.status_pace;
        if pace.is_zero() {
            return true;
        }
        let now = self.env.monotonic();
        let mut memory = self.memory.lock();
        match memory.statuses.get_mut(item) {
            Some(last) => {
                let left = pace.saturating_sub(now.saturating_sub(*last));
                if !left.is_zero() {
                    drop(memory);
                    self.queue.add_after(item.clone(), left);
                    return false;
                }
                *last = now;
            }
            None => drop(memory.statuses.insert(item.clone(), now)),
        }
        true
    }

    /// Writes a status: that of `object`, which is based on the informer's state. Does nothing if the object is gone.
    pub(super) async fn write_status<K: Object>(&self, item: &Item, object: K) -> Result<(), ApiError> {
        match self.client.update_status(object).await {
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
            Ok(object) => {
                let written = Written { revision: revision_of(object.meta()), asked: false };
                self.memory.lock().written.insert(item.clone(), written);
                Ok(())
            }
        }
    }

    /// The hash of an object's template, computed once for each generation of the object.
    pub(super) fn hash_of<K: Object>(&self, item: &Item, object: &K, template: &PodTemplateSpec) -> Arc<str> {
        let meta = object.meta();
        let (generation, uid) = (meta.generation.unwrap_or(0), meta.uid.as_deref().unwrap_or(""));
        let mut memory = self.memory.lock();
        if let Some((of, owner, hash)) = memory.hashes.get(item)
            && *of == generation
            && **owner == *uid
        {
            return hash.clone();
        }
        let hash: Arc<str> = template::hash(template).into();
        memory.hashes.insert(item.clone(), (generation, uid.into(), hash.clone()));
        hash
    }

    /// Forgets the expectations and writes of `item`, which is gone.
    pub(super) fn forget(&self, item: &Item) {
        let mut memory = self.memory.lock();
        memory.expectations.forget(item);
        memory.written.remove(item);
        memory.statuses.remove(item);
        memory.hashes.remove(item);
    }
}

/// Whether a create was refused because its namespace is being emptied: a retry would not help.
fn is_terminating_namespace(error: &ApiError) -> bool {
    let causes = error.status().map(|status| status.details.causes.as_slice()).unwrap_or_default();
    causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
}
