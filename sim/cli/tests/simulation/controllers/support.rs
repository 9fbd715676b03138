//! A cluster with a controller manager and a substitute for a kubelet, which makes pods running and ready, lets them end, and completes
//! their deletion.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_machinery::api::{DeleteOptions, ListOptions, Patch, Preconditions};
use kube_machinery::informer::{Informer, InformerOptions, Notification};
use kube_machinery::{ClientExt, Env, Object, ObjectKey};
use kube_sim::actor::controller_manager;
use kube_sim::actor::controller_manager::{Controller, Set};
use kube_sim::cluster::SimClient;
use kube_sim::env::SimEnv;
use kube_sim::rt::ProcessId;
use kube_sim::testbed::Testbed;
use parking_lot::Mutex;
use serde_json::{Value, json};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The behaviour of pods whose names begin with a prefix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fate {
    /// They run and are ready after 2 s.
    Ready,
    /// They run, and are never ready.
    Unready,
    /// They stay Pending until they are deleted: nothing makes them run.
    Stuck,
    /// They run for 5 s and succeed.
    Succeeds,
    /// They run for 5 s and fail.
    Fails,
    /// Like `Ready`, but they never end when they are deleted.
    Lingers,
}

/// An event in the life of a pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) at: Duration,
    pub(crate) what: What,
    pub(crate) pod: String,
    pub(crate) uid: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Created,
    Ready,
    Terminating,
    Gone,
}

pub(crate) struct Cluster {
    pub(crate) bed: Testbed,
    /// A user who creates, changes and deletes objects.
    pub(crate) client: SimClient,
    pub(crate) manager: ProcessId,
    fates: Arc<Mutex<BTreeMap<String, Fate>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

pub(crate) fn run<T>(seed: u64, controllers: &[Controller], test: impl AsyncFnOnce(Cluster) -> T) -> T {
    run_with(seed, Set::of(controllers.iter().copied()), test)
}

pub(crate) fn run_with<T>(seed: u64, set: Set, test: impl AsyncFnOnce(Cluster) -> T) -> T {
    Testbed::run(seed, async |bed| {
        let client = bed.client("user");
        let manager = controller_manager::install(&bed.cluster, bed.seed, set);
        let (fates, seen) = (Arc::default(), Arc::default());
        // Keeps the informer for the whole run.
        let _kubelet = kubelet(&bed, &fates, &seen);
        bed.wait(5 * SECOND).await;
        test(Cluster { bed: bed.clone(), client, manager, fates, seen }).await
    })
}

fn kubelet(bed: &Testbed, fates: &Arc<Mutex<BTreeMap<String, Fate>>>, seen: &Arc<Mutex<Vec<Seen>>>) -> Informer<Pod, SimEnv> {
    let client = bed.client("kubelet");
    let env = bed.env(&client);
    let informer = Informer::start(client.clone(), env.clone(), InformerOptions::default());
    let (rt, fates, seen) = (bed.rt.clone(), fates.clone(), seen.clone());
    informer.add_handler(move |notification: Notification<Pod>| {
        let name = notification.object().metadata.name.clone().unwrap_or_default();
        let fate = fates.lock().iter().find(|(prefix, _)| name.starts_with(prefix.as_str())).map_or(Fate::Ready, |(_, fate)| *fate);
        let say = |what, pod: &Pod| {
            let at = Duration::from_micros(rt.now().as_micros());
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            seen.lock().push(Seen { at, what, pod: name.clone(), uid });
        };
        let pod = match &notification {
            Notification::Added { object, .. } => {
                say(What::Created, object);
                object
            }
            Notification::Updated { old, new } => {
                if old.metadata.uid != new.metadata.uid {
                    say(What::Gone, old);
                    say(What::Created, new);
                }
                if is_ready(new) && !is_ready(old) {
                    say(What::Ready, new);
                }
                if new.metadata.deletion_timestamp.is_some() && old.metadata.deletion_timestamp.is_none() {
                    say(What::Terminating, new);
                } else if phase(old) == phase(new) && old.metadata.uid == new.metadata.uid {
                    return;
                }
                new
            }
            Notification::Deleted { object } | Notification::DeletedFinalStateUnknown { object, .. } => return say(What::Gone, object),
        };
        drop(env.spawn(handle(client.clone(), env.clone(), pod.clone(), fate)));
    });
    informer
}

async fn handle(client: SimClient, env: SimEnv, pod: Arc<Pod>, fate: Fate) {
    let key = ObjectKey::of(&*pod);
    let set_phase = async |phase: &str, ready: bool| {
        let now = env.wall().to_string();
        let condition = json!({"type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": now});
        let status = json!({"phase": phase, "conditions": [condition]});
        let patch = Patch::merge(json!({"metadata": {"uid": pod.metadata.uid}, "status": status}));
        let _ = client.patch_status::<Pod>(&key, patch).await;
    };
    if pod.metadata.deletion_timestamp.is_some() {
        if fate == Fate::Lingers {
            return;
        }
        env.sleep(2 * SECOND).await;
        let preconditions = Preconditions { uid: pod.metadata.uid.clone(), ..Preconditions::default() };
        let options = DeleteOptions { grace_period_seconds: Some(0), preconditions, ..DeleteOptions::default() };
        let _ = client.delete::<Pod>(&key, options).await;
        return;
    }
    match (phase(&pod), fate) {
        (_, Fate::Stuck) => {}
        ("Pending", fate) => {
            env.sleep(2 * SECOND).await;
            set_phase("Running", matches!(fate, Fate::Ready | Fate::Lingers)).await;
        }
        ("Running", Fate::Succeeds | Fate::Fails) => {
            env.sleep(5 * SECOND).await;
            set_phase(if fate == Fate::Fails { "Failed" } else { "Succeeded" }, false).await;
        }
        _ => {}
    }
}

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("")
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

impl Cluster {
    pub(crate) async fn wait(&self, seconds: u32) {
        self.bed.wait(SECOND * seconds).await;
    }

    /// Sets the future behaviour of pods whose names begin with `prefix`.
    pub(crate) fn fate(&self, prefix: &str, fate: Fate) {
        self.fates.lock().insert(prefix.to_owned(), fate);
    }

    /// The events of pods whose names begin with `prefix`.
    pub(crate) fn seen(&self, prefix: &str) -> Vec<Seen> {
        self.seen.lock().iter().filter(|seen| seen.pod.starts_with(prefix)).cloned().collect()
    }

    /// The same events without times and UIDs.
    pub(crate) fn story(&self, prefix: &str) -> Vec<(What, String)> {
        self.seen(prefix).into_iter().map(|seen| (seen.what, seen.pod)).collect()
    }

    /// Every pod of every namespace, as stored by the API server.
    pub(crate) async fn pods(&self) -> Vec<Arc<Pod>> {
        self.client.list::<Pod>(None, ListOptions::default()).await.unwrap().items
    }

    /// The names of all pods.
    pub(crate) async fn names(&self) -> Vec<String> {
        self.pods().await.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect()
    }

    /// The names of the pods that are ready and not terminating.
    pub(crate) async fn ready(&self) -> Vec<String> {
        let stays = |pod: &&Arc<Pod>| is_ready(pod) && pod.metadata.deletion_timestamp.is_none();
        self.pods().await.iter().filter(stays).map(|pod| pod.metadata.name.clone().unwrap()).collect()
    }

    /// Creates an object as a user would, or panics.
    pub(crate) async fn create<K: Object>(&self, object: K) -> Arc<K> {
        self.client.create(object).await.unwrap()
    }

    /// Changes an object of namespace `default`.
    pub(crate) async fn patch<K: Object>(&self, name: &str, patch: Value) -> Arc<K> {
        self.client.patch::<K>(&kube_sim::testbed::key(name), Patch::merge(patch)).await.unwrap()
    }

    /// Deletes an object of namespace `default`.
    pub(crate) async fn delete<K: Object>(&self, name: &str) {
        self.client.delete::<K>(&kube_sim::testbed::key(name), DeleteOptions::default()).await.unwrap();
    }

    /// An object of namespace `default`.
    pub(crate) async fn get<K: Object>(&self, name: &str) -> Arc<K> {
        self.client.get::<K>(&kube_sim::testbed::key(name)).await.unwrap()
    }

    /// The number of writes that the manager has sent.
    pub(crate) fn writes(&self) -> u32 {
        let writes = self.bed.cluster.writes();
        writes.iter().find(|(name, _)| **name == *controller_manager::NAME).map_or(0, |(_, count)| *count)
    }

    pub(crate) fn digest(&self) -> u128 {
        self.bed.cluster.recorder(|recorder| recorder.digest.value())
    }
}

/// A template whose pods are bound to a node from the beginning: this cluster has no scheduler.
pub(crate) fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {"ipam.spidernet.io/ippool": "{\"ipv4\": [\"p\"]}"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": image}]},
    })
}

/// The manifest of a workload called `web`.
pub(crate) fn workload<K: Object>(replicas: u32, spec: Value) -> K {
    let mut all = json!({"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("web:1")});
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    kube_sim::testbed::from_json(json!({"metadata": {"name": "web", "namespace": "default"}, "spec": all}))
}
