//! The kubelet of a node, with the container runtime and the shims: one sandbox for each pod that should run there (B §2.1, §5.3).
//!
//! ```text
//!   pod wanted ── new sandbox ── StartVM ──► runs ── adaptor gone, pod gone ──► StopVM
//!        ▲                          │ failed                                      │
//!        └────── StopVM, back-off ──┘                                 pod deleted for good
//! ```
//! A retry is a new sandbox with a new ID. Sandboxes are on the disk: they survive a crash of the kubelet.

use std::sync::Arc;
use std::time::Duration;

use ipam_byom::{Context, PodName, Sandbox};
use k8s_openapi::api::core::v1::Pod;
use kube_machinery::api::{DeleteOptions, Patch, Preconditions};
use kube_machinery::informer::{Informer, InformerOptions, Notification, StoreReader};
use kube_machinery::latest;
use kube_machinery::race::{Either, race};
use kube_machinery::transparent::{Policy, Transparent};
use kube_machinery::workqueue::WorkQueue;
use kube_machinery::{ApiError, ClientExt, Env, ObjectKey};
use kube_sim::cluster::{Cluster, SimClient};
use kube_sim::env::SimEnv;
use kube_sim::rt::ProcessId;
use serde_json::json;
use tokio::sync::oneshot;

use super::super::PoolNote;
use super::site::{Kept, ShimCall, Site};

/// The maximum time between two attempts to start a sandbox; the minimum is a tenth of it.
const RETRY: Duration = Duration::from_secs(10);

#[derive(Clone)]
struct Kubelet {
    site: Arc<Site>,
    cluster: Arc<Cluster>,
    number: usize,
    process: ProcessId,
    env: SimEnv,
    client: Transparent<SimClient, SimEnv>,
    pods: StoreReader<Pod>,
    queue: WorkQueue<ObjectKey, SimEnv>,
    /// Notifies about every change of a pod.
    changes: latest::Receiver<()>,
}

/// The outcome of a StartVM.
enum Started {
    Runs,
    Failed,
    /// The pod is no longer desired.
    Unwanted,
}

/// Runs one life of the kubelet of node `number`.
pub(super) async fn run(site: Arc<Site>, cluster: Arc<Cluster>, number: usize, process: ProcessId) {
    let env = site.env(&cluster, process);
    // The kubelet, as part of Kubernetes, uses client-go, whatever client the adaptors use.
    let client = Transparent::new(SimClient::new(&cluster, process), env.clone(), Policy::ClientGo);
    let selector = format!("spec.nodeName={}", site.nodes[number].name);
    let options = InformerOptions::<Pod> { field_selector: Some(selector), ..InformerOptions::default() };
    let informer = Informer::start(client.clone(), env.clone(), options);
    let queue = WorkQueue::new(env.clone());
    let (changed, changes) = latest::channel(());
    let changed_pods = queue.clone();
    informer.add_handler(move |notification| {
        let key = match &notification {
            Notification::Added { object: pod, .. } | Notification::Updated { new: pod, .. } | Notification::Deleted { object: pod } => {
                ObjectKey::of(&**pod)
            }
            Notification::DeletedFinalStateUnknown { key, .. } => key.clone(),
        };
        changed_pods.add(key);
        changed.send_replace(());
    });
    informer.synced().await;
    let kubelet = Kubelet { pods: informer.store(), site, cluster, number, process, env, client, queue, changes };
    let found: Vec<Kept> = kubelet.node().sandboxes.lock().values().cloned().collect();
    for kept in found {
        kubelet.queue.add(kept.pod.clone());
        kubelet.watch_over(kept);
    }
    while let Some(pod) = kubelet.queue.next().await {
        let worker = kubelet.clone();
        kubelet.env.spawn(async move { worker.sync(&pod).await });
    }
}

impl Kubelet {
    fn node(&self) -> &super::site::Node {
        &self.site.nodes[self.number]
    }

    fn say(&self, told: PoolNote) {
        self.cluster.note(self.process, &told);
    }

    /// The pod, if it exists and should run here.
    fn wanted(&self, key: &ObjectKey) -> Option<Arc<Pod>> {
        self.pods.get(key).filter(|pod| pod.metadata.deletion_timestamp.is_none())
    }

    /// Requeues the pod when the adaptor of its sandbox is gone: the pod has lost its proxy.
    fn watch_over(&self, kept: Kept) {
        let queue = self.queue.clone();
        self.env.spawn(async move {
            kept.connection.closed().await;
            queue.add(kept.pod);
        });
    }

    /// Takes the next step for a pod.
    async fn sync(&self, key: &ObjectKey) {
        // All decisions are about this pod: while its sandboxes are stopped another pod may take its name.
        let pod = self.pods.get(key);
        let wanted = pod.clone().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let uid = wanted.as_ref().and_then(|pod| pod.metadata.uid.as_deref());
        let of_pod = |kept: &Kept| kept.pod == *key;
        let here: Vec<(Arc<str>, Kept)> =
            self.node().sandboxes.lock().iter().filter(|(_, kept)| of_pod(kept)).map(|(id, kept)| (id.clone(), kept.clone())).collect();
        let mut runs = false;
        for (sandbox, kept) in here {
            // A sandbox that is not ready was left by a kubelet that crashed while it started it.
            if kept.ready && uid == Some(&*kept.pod_uid) && !kept.connection.is_closed() {
                runs = true;
            } else {
                self.stop(&sandbox, &kept).await;
            }
        }
        let done = match wanted {
            Some(pod) if runs => self.report(&pod).await,
            Some(pod) => match self.start(key, &pod).await {
                Started::Runs | Started::Unwanted => {
                    self.queue.add(key.clone());
                    Ok(())
                }
                Started::Failed => {
                    let wait = RETRY.mul_f64(0.1 + 0.9 * self.env.random_unit());
                    return self.queue.add_after(key.clone(), wait);
                }
            },
            None => self.delete(key, pod).await,
        };
        match done {
            Ok(()) => self.queue.forget(key),
            Err(_) => self.queue.add_rate_limited(key.clone()),
        }
    }

    /// Starts a new sandbox of the pod, and cleans up after it if that fails.
    async fn start(&self, key: &ObjectKey, pod: &Pod) -> Started {
        let Some(connection) = self.node().connect() else { return Started::Failed };
        let id: String = (0..4).map(|_| format!("{:016x}", self.env.random())).collect();
        let (uid, namespace) = (pod.metadata.uid.as_deref().unwrap_or(""), key.namespace().unwrap_or(""));
        let sandbox = Sandbox {
            id: id.into(),
            pod: PodName { name: key.name().into(), namespace: namespace.into() },
            pod_uid: uid.into(),
            user_data: "#cloud-config".into(),
        };
        let kept = Kept {
            pod: key.clone(),
            pod_uid: sandbox.pod_uid.clone(),
            id: sandbox.allocation_id(),
            ready: false,
            connection: connection.clone(),
        };
        self.node().sandboxes.lock().insert(sandbox.id.clone(), kept.clone());
        let (reply, answer) = oneshot::channel();
        let deadline = self.site.plan.start_deadline.0;
        let context = Context { deadline: Some(self.env.monotonic() + deadline) };
        let sandbox_id = sandbox.id.clone();
        // If the connection is closed by now, the call is dropped together with the channel for its answer.
        let _ = connection.send(ShimCall::Start { sandbox, context, reply });
        let gives_up = race(self.unwanted(key, &kept.pod_uid), self.env.sleep(deadline));
        let started = match race(answer, gives_up).await {
            Either::Left(Ok(Ok(_))) => Started::Runs,
            Either::Left(_) | Either::Right(Either::Right(())) => Started::Failed,
            Either::Right(Either::Left(())) => Started::Unwanted,
        };
        if matches!(started, Started::Runs) {
            if let Some(kept) = self.node().sandboxes.lock().get_mut(&sandbox_id) {
                kept.ready = true;
            }
            self.say(PoolNote::Running { id: kept.id.clone(), pod: key.as_str().into(), uid: kept.pod_uid.clone() });
            self.watch_over(kept);
        } else {
            self.stop(&sandbox_id, &kept).await;
        }
        started
    }

    /// Completes when the pod with this UID is no longer desired.
    async fn unwanted(&self, key: &ObjectKey, uid: &str) {
        let mut changes = self.changes.clone();
        loop {
            changes.mark_unchanged();
            if self.wanted(key).is_none_or(|pod| pod.metadata.uid.as_deref() != Some(uid)) {
                return;
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Ends a sandbox: whatever the result of StopVM, it is gone afterwards.
    async fn stop(&self, sandbox: &Arc<str>, kept: &Kept) {
        // The sandbox does not run the pod again, even if the kubelet crashes before it is gone.
        if let Some(kept) = self.node().sandboxes.lock().get_mut(sandbox) {
            kept.ready = false;
        }
        self.say(PoolNote::Ended { id: kept.id.clone(), pod: kept.pod.as_str().into() });
        let connection = Some(kept.connection.clone()).filter(|connection| !connection.is_closed()).or_else(|| self.node().connect());
        if let Some(connection) = connection {
            let (reply, answer) = oneshot::channel();
            let limit = self.site.plan.stop_deadline.0;
            let context = Context { deadline: Some(self.env.monotonic() + limit) };
            let _ = connection.send(ShimCall::Stop { sandbox: sandbox.clone(), context, reply });
            // The wait ends with the answer, with the connection, or at the deadline.
            let _ = race(answer, self.env.sleep(limit)).await;
        }
        self.node().sandboxes.lock().remove(sandbox);
    }

    /// Reports in the API that the pod runs.
    async fn report(&self, pod: &Pod) -> Result<(), ApiError> {
        if pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running") {
            return Ok(());
        }
        let patch = Patch::merge(json!({"metadata": {"uid": pod.metadata.uid}, "status": {"phase": "Running"}}));
        self.client.patch_status::<Pod>(&ObjectKey::of(pod), patch).await.map(drop)
    }

    /// Deletes a stopped pod from the API.
    async fn delete(&self, key: &ObjectKey, pod: Option<Arc<Pod>>) -> Result<(), ApiError> {
        let Some(pod) = pod else { return Ok(()) };
        let preconditions = Preconditions { uid: pod.metadata.uid.clone(), ..Preconditions::default() };
        let options = DeleteOptions { grace_period_seconds: Some(0), preconditions, ..DeleteOptions::default() };
        match self.client.delete::<Pod>(key, options).await {
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            result => result.map(drop),
        }
    }
}
