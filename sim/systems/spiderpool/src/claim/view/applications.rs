//! The workloads that pools are made for.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipam_spiderpool::SpiderIPPool;
use ipam_spiderpool::names;
use ipam_spiderpool::select::Settings;
use ipam_spiderpool::subnet::{AppKind, Demand};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_machinery::{FxHashMap, Object};
use kube_sim::kinds::kruise::{self, CloneSet};
use kube_sim::kinds::{KindId, Registry};
use kube_sim::object::{Obj, typed_ref};
use sim_config::time::SimTime;

/// The functions that read a workload of one kind.
#[derive(Clone, Copy, Debug)]
struct Reader {
    api_version: &'static str,
    kind: &'static str,
    demands: fn(&Obj, &Settings) -> Option<Vec<Demand>>,
    uid: fn(&Obj) -> Option<&str>,
    is_terminating: fn(&Obj) -> bool,
    generation: fn(&Obj) -> Option<i64>,
}

fn reader<K: AppKind>() -> Reader {
    Reader { demands: |object, settings| typed_ref::<K>(&**object).demands(settings).ok(), ..stranger::<K>(K::API_VERSION, K::KIND) }
}

/// A reader for a kind whose demands are unknown: it only tells whether a workload exists.
fn stranger<K: Object>(api_version: &'static str, kind: &'static str) -> Reader {
    fn meta<K: Object>(object: &Obj) -> &ObjectMeta {
        typed_ref::<K>(&**object).meta()
    }
    Reader {
        api_version,
        kind,
        demands: |_, _| None,
        uid: |object| meta::<K>(object).uid.as_deref(),
        is_terminating: |object| meta::<K>(object).deletion_timestamp.is_some(),
        generation: |object| meta::<K>(object).generation,
    }
}

/// A workload as of its last commit; functions for its type read the object.
#[derive(Debug)]
pub(in super::super) struct Application {
    object: Obj,
    reader: Reader,
    /// The time at which its desired state last changed.
    pub(in super::super) changed: SimTime,
}

impl Application {
    /// The kind as in manifests, such as `Deployment`.
    pub(in super::super) fn kind(&self) -> &'static str {
        self.reader.kind
    }

    /// The UID that the API server assigned; empty if the object has none.
    pub(in super::super) fn uid(&self) -> &str {
        (self.reader.uid)(&self.object).unwrap_or_default()
    }

    /// Whether it is being deleted.
    pub(in super::super) fn is_terminating(&self) -> bool {
        (self.reader.is_terminating)(&self.object)
    }

    /// The pools that it asks for; `None` = its annotations cannot be parsed, or its kind is unknown.
    pub(in super::super) fn demands(&self, settings: &Settings) -> Option<Vec<Demand>> {
        (self.reader.demands)(&self.object, settings)
    }
}

/// All workloads that Spiderpool makes pools for, including those of unknown kinds, and the pools that were made for each.
#[derive(Debug)]
pub(in super::super) struct Applications {
    readers: [(KindId, Reader); 7],
    by_name: BTreeMap<(&'static str, Arc<str>), Application>,
    /// The kind and the name that belong to a UID.
    by_uid: FxHashMap<Box<str>, (&'static str, Arc<str>)>,
    /// The existing auto pools, by the UID in their labels.
    pools: FxHashMap<Box<str>, Vec<Arc<str>>>,
}

/// A label of a pool.
pub(in super::super) fn label<'a>(pool: &'a SpiderIPPool, key: &str) -> Option<&'a str> {
    pool.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

impl Applications {
    pub(super) fn new(registry: &Registry) -> Self {
        let readers = [
            (registry.id::<Deployment>(), reader::<Deployment>()),
            (registry.id::<ReplicaSet>(), reader::<ReplicaSet>()),
            (registry.id::<StatefulSet>(), reader::<StatefulSet>()),
            (registry.id::<DaemonSet>(), reader::<DaemonSet>()),
            (registry.id::<Job>(), reader::<Job>()),
            (registry.id::<CronJob>(), reader::<CronJob>()),
            (registry.id::<CloneSet>(), stranger::<CloneSet>(kruise::API_VERSION, "CloneSet")),
        ];
        Self { readers, by_name: BTreeMap::new(), by_uid: FxHashMap::default(), pools: FxHashMap::default() }
    }

    /// All workloads, by kind and name.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Application)> {
        self.by_name.iter().map(|((_, name), application)| (name, application))
    }

    /// The workload with a UID, if it exists.
    pub(in super::super) fn of_uid(&self, uid: &str) -> Option<(&Arc<str>, &Application)> {
        let key = self.by_uid.get(uid)?;
        self.by_name.get(key).map(|application| (&key.1, application))
    }

    /// Whether workloads of a kind are tracked. Other API groups have kinds of the same name.
    pub(in super::super) fn knows(&self, api_version: &str, kind: &str) -> bool {
        self.readers.iter().any(|(_, reader)| (reader.api_version, reader.kind) == (api_version, kind))
    }

    /// The auto pools whose labels name a workload's UID.
    pub(in super::super) fn pools_of(&self, uid: &str) -> &[Arc<str>] {
        self.pools.get(uid).map_or(&[], Vec::as_slice)
    }

    /// Takes in a version of an object, if it is a workload.
    pub(super) fn see(&mut self, kind: KindId, name: &str, at: SimTime, after: Option<&Obj>) {
        let Some((_, reader)) = self.readers.iter().find(|(known, _)| *known == kind) else { return };
        let name: Arc<str> = name.into();
        let key = (reader.kind, name);
        let before = self.by_name.get_mut(&key);
        let uid = after.and_then(|object| (reader.uid)(object));
        if let Some(old) = before.as_ref().map(|known| known.uid()).filter(|old| Some(*old) != uid) {
            self.by_uid.remove(old);
        }
        match (before, after) {
            (Some(known), Some(after)) => {
                if (reader.generation)(&known.object) != (reader.generation)(after) || Some(known.uid()) != uid {
                    known.changed = at;
                }
                known.object = after.clone();
            }
            (None, Some(after)) => {
                drop(self.by_name.insert(key.clone(), Application { object: after.clone(), reader: *reader, changed: at }));
            }
            (_, None) => drop(self.by_name.remove(&key)),
        }
        if let Some(uid) = uid.filter(|uid| !self.by_uid.contains_key(*uid)) {
            self.by_uid.insert(uid.into(), key);
        }
    }

    /// Takes in a version of a pool.
    pub(super) fn see_pool(&mut self, name: &Arc<str>, before: Option<&SpiderIPPool>, after: Option<&SpiderIPPool>) {
        let [old, new] = [before, after].map(|pool| pool.and_then(|pool| label(pool, names::LABEL_OWNER_APPLICATION_UID)));
        if old == new {
            return;
        }
        if let Some(pools) = old.and_then(|uid| self.pools.get_mut(uid)) {
            pools.retain(|other| other != name);
        }
        if let Some(uid) = new {
            self.pools.entry(uid.into()).or_default().push(name.clone());
        }
    }
}
