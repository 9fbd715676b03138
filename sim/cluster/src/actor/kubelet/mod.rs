//! The kubelet of a node with the container runtime under it: pods become sandboxes, sandboxes get networks (K §5).
//!
//! ```text
//!   pods of the node (informer) ──► a Job per UID ──► ContainerRuntime (disk) ──► Cni
//!                                       └──► PUT status: Running, terminal; final DELETE
//! ```
//! A workload gives each node a process and installs a kubelet in it, on the host of the node's other processes:
//!
//! ```
//! # use std::{net::IpAddr, sync::Arc};
//! # use kube_sim::actor::kubelet::{self, KubeletConfig};
//! # use kube_sim::node::{Attachment, Cni, CniError};
//! # use kube_sim::testbed::Testbed;
//! struct Plugin;
//! impl Cni for Plugin {
//!     async fn add(&self, _: Attachment) -> Result<Vec<IpAddr>, CniError> {
//!         Ok(vec![IpAddr::from([10, 0, 0, 1])])
//!     }
//!     async fn del(&self, _: Attachment) -> Result<(), CniError> {
//!         Ok(())
//!     }
//! }
//! # Testbed::run(1, async |bed| {
//! # let (cluster, rt, seed) = (&bed.cluster, &bed.rt, bed.seed);
//! let host = rt.add_host("node-0");
//! let process = rt.add_process(host, "kubelet-0");
//! kubelet::install(cluster, process, Arc::new(Plugin), KubeletConfig::new("node-0", seed));
//! cluster.start(process);
//! # });
//! ```
//! It survives crashes, pauses, partitions and the loss of its host at any point: its state is in the API or on the disk of the node
//! (`ContainerRuntime`). Kubelet, runtime and plugins crash together. A node on which nothing happens has no timer.
//!
//! With `heartbeats` it registers its Node and sends heartbeats: really only while they could make a difference (`node::heartbeat`).
//!
//! Not modelled: image pulls and probes, restart counts in the status, static pods, and the kubelet's limit for StopPodSandbox: a DEL takes
//! as long as its plugin. A pod with `restartPolicy: Never` whose sandbox dies gets another one, too (K140).

mod config;
mod heartbeat;
mod mail;
mod network;
mod pod;
mod status;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_machinery::Env;
use kube_machinery::informer::{Informer, InformerOptions, Notification};
use kube_machinery::transparent::{Policy, Transparent};
use mail::Mail;
use pod::Job;
use sim_config::time::SimTime;

use crate::actor::object_tasks::{Alarm, ObjectTasks, Spawner};
use crate::cluster::{Cluster, SimClient};
use crate::env::SimEnv;
use crate::net::Sampler;
use crate::node::PodNote;
use crate::node::{Cni, ContainerRuntime, FIRST_NIC, SandboxNumber};
use crate::rt::ProcessId;

pub use config::{Behave, Behaviour, KubeletConfig, KubeletDelays};

/// The least wait before a failed step is retried; the longest is half as much again (K §5.8).
const BACK_OFF: Duration = Duration::from_secs(10);

/// Makes `process` a kubelet, and gives its node a container runtime. The caller starts the process (`Cluster::start`).
pub fn install<C: Cni>(cluster: &Arc<Cluster>, process: ProcessId, cni: Arc<C>, config: KubeletConfig) -> Arc<ContainerRuntime> {
    let runtime = Arc::new(ContainerRuntime::new(cluster, process, &config.node));
    cluster.nodes.add(runtime.clone());
    let (shared, config) = (Arc::downgrade(cluster), Arc::new(config));
    let one_nic: Arc<[Arc<str>]> = Arc::new([FIRST_NIC.into()]);
    let kept = runtime.clone();
    cluster.rt.set_main(process, move |_| {
        let kubelet = shared.upgrade().map(|cluster| {
            let env = SimEnv::new(&cluster.rt, config.seed, process);
            Kubelet {
                client: Transparent::new(SimClient::new(&cluster, process), env.clone(), Policy::ClientGo),
                env,
                process,
                runtime: kept.clone(),
                cni: cni.clone(),
                samplers: Samplers::new(&config.delays),
                network_ready: config.delays.network_ready.0,
                config: config.clone(),
                one_nic: one_nic.clone(),
                spawner: Spawner::default(),
                pods: AtomicU32::new(0),
                cluster,
            }
        });
        async move {
            if let Some(kubelet) = kubelet {
                Arc::new(kubelet).live().await;
            }
        }
    });
    runtime
}

struct Samplers {
    sandbox: Sampler,
    start: Sampler,
    stop: Sampler,
    delete: Sampler,
}

impl Samplers {
    fn new(delays: &KubeletDelays) -> Self {
        let KubeletDelays { sandbox, start, stop, delete, .. } = delays;
        Self { sandbox: sandbox.sampler(), start: start.sampler(), stop: stop.sampler(), delete: delete.sampler() }
    }
}

/// One life of a kubelet.
struct Kubelet<C: Cni> {
    cluster: Arc<Cluster>,
    process: ProcessId,
    env: SimEnv,
    client: Transparent<SimClient, SimEnv>,
    runtime: Arc<ContainerRuntime>,
    cni: Arc<C>,
    config: Arc<KubeletConfig>,
    samplers: Samplers,
    /// The time at which its network plugin is installed.
    network_ready: Duration,
    /// The interfaces of a pod without annotations.
    one_nic: Arc<[Arc<str>]>,
    /// Work on a pod ends with the pod's UID.
    spawner: Spawner<Option<Arc<str>>>,
    /// The number of pods that are admitted and not over.
    pods: AtomicU32,
}

/// A pod UID that the kubelet knows.
struct Known {
    mail: Arc<Mail>,
    /// Whether the work on it is done; the UID is remembered until it is gone from the API.
    done: bool,
    /// The pod, if it came back into the API while it was being stopped as gone: a stale API server can cause this.
    back: Option<Arc<Pod>>,
}

type Pods = BTreeMap<Arc<str>, Known>;

/// An event of the main loop.
enum Heard {
    Pod(Notification<Pod>),
    /// A sandbox of the pod with this UID died.
    SandboxLost(Arc<str>),
    /// Some work is done.
    Done(Option<Arc<str>>),
    /// A DEL is due.
    Debts,
    /// There are no more events.
    End,
}

impl<C: Cni> Kubelet<C> {
    async fn live(self: Arc<Self>) {
        let _end = self.spawner.until_dropped();
        if self.config.heartbeats {
            self.begin_to_beat();
        }
        let selector = format!("spec.nodeName={}", self.config.node);
        let options = InformerOptions::<Pod> { field_selector: Some(selector), ..InformerOptions::default() };
        let informer = Informer::start(self.client.clone(), self.env.clone(), options);
        let mut news = informer.subscribe();
        let mut lost = self.runtime.listen();
        informer.synced().await;
        let (mut pods, mut left) = (Pods::new(), self.runtime.by_pod());
        while let Some(notification) = news.try_next() {
            self.take(&mut pods, &mut left, notification);
        }
        // A pod that is not in the API is killed; no event reported its deletion (K139).
        for (uid, sandboxes) in left {
            let mail = Mail::of_orphan();
            self.spawner.begin(Job::new(&self, &uid, &mail, sandboxes).work());
            pods.insert(uid, Known { mail, done: false, back: None });
        }
        let (mut tasks, mut alarm, mut nothing) = (ObjectTasks::new(), Alarm::new(), BTreeMap::new());
        loop {
            let heard = std::future::poll_fn(|cx| {
                if let Poll::Ready(notification) = pin!(news.next()).poll(cx) {
                    return Poll::Ready(notification.map_or(Heard::End, Heard::Pod));
                }
                if let Poll::Ready(Some(uid)) = lost.poll_recv(cx) {
                    return Poll::Ready(Heard::SandboxLost(uid));
                }
                if let Poll::Ready(done) = tasks.poll_next(&self.spawner, cx) {
                    return Poll::Ready(Heard::Done(done));
                }
                alarm.poll(&self.cluster.rt, self.runtime.next_owed(), cx).map(|()| Heard::Debts)
            });
            match heard.await {
                Heard::Pod(notification) => self.take(&mut pods, &mut nothing, notification),
                Heard::SandboxLost(uid) => {
                    if let Some(known) = pods.get(&uid) {
                        known.mail.post_lost();
                    }
                }
                Heard::Done(Some(uid)) => self.done(&mut pods, &uid),
                Heard::Done(None) => {}
                Heard::Debts => self.pay_debts(),
                Heard::End => return,
            }
        }
    }

    /// Takes in a notification of the informer. `left`: sandboxes that an earlier life left.
    fn take(self: &Arc<Self>, pods: &mut Pods, left: &mut BTreeMap<Arc<str>, Vec<SandboxNumber>>, notification: Notification<Pod>) {
        match notification {
            Notification::Added { object: pod, .. } => self.is_there(pods, left, pod),
            Notification::Updated { old, new } => {
                // Another pod of that name; no event reports that the first one is gone (K148).
                if old.metadata.uid != new.metadata.uid {
                    self.is_gone(pods, old);
                }
                self.is_there(pods, left, new);
            }
            Notification::Deleted { object: pod } | Notification::DeletedFinalStateUnknown { object: pod, .. } => self.is_gone(pods, pod),
        }
    }

    fn is_there(self: &Arc<Self>, pods: &mut Pods, left: &mut BTreeMap<Arc<str>, Vec<SandboxNumber>>, pod: Arc<Pod>) {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        if let Some(known) = pods.get_mut(uid) {
            if known.mail.is_gone() {
                known.back = Some(pod);
            } else {
                known.mail.post(pod);
            }
            return;
        }
        let (uid, sandboxes) = left.remove_entry(uid).unwrap_or_else(|| (uid.into(), Vec::new()));
        let mail = Mail::of(pod);
        self.spawner.begin(Job::new(self, &uid, &mail, sandboxes).work());
        pods.insert(uid, Known { mail, done: false, back: None });
    }

    fn is_gone(&self, pods: &mut Pods, pod: Arc<Pod>) {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let Some(known) = pods.get_mut(uid) else { return };
        known.back = None;
        known.mail.post_gone(Some(pod.clone()));
        if known.done {
            pods.remove(uid);
        }
    }

    fn done(self: &Arc<Self>, pods: &mut Pods, uid: &Arc<str>) {
        let Some(known) = pods.get_mut(uid) else { return };
        known.done = true;
        if known.mail.is_gone() {
            let back = known.back.take();
            pods.remove(uid);
            if let Some(pod) = back {
                self.is_there(pods, &mut BTreeMap::new(), pod);
            }
        }
    }

    fn say(&self, told: PodNote) {
        self.cluster.note(self.process, &told);
    }

    fn count_pods(&self, change: impl FnOnce(u32) -> u32) {
        self.pods.store(change(self.pods.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    fn is_full(&self) -> bool {
        self.pods.load(Ordering::Relaxed) >= self.config.max_pods
    }

    fn draw(&self, sampler: Sampler) -> Duration {
        sampler.sample(self.env.random_unit())
    }

    /// Sleeps for a drawn time.
    fn pause(&self, sampler: Sampler) -> crate::rt::Sleep {
        self.cluster.rt.sleep(self.draw(sampler))
    }

    /// Sleeps for the time that a sandbox takes until its first ADD.
    fn make_sandbox(&self) -> crate::rt::Sleep {
        let network = (SimTime::ZERO + self.network_ready).since(self.cluster.rt.now());
        self.cluster.rt.sleep(self.draw(self.samplers.sandbox).max(network))
    }

    /// Sleeps for the time between two attempts.
    fn back_off(&self) -> crate::rt::Sleep {
        self.cluster.rt.sleep(BACK_OFF.mul_f64(1.0 + 0.5 * self.env.random_unit()))
    }
}
