//! Nodes whose kubelets are replaced by a loop that asks for one pod after the other: a closed loop of calls to the agent.
//!
//! ```text
//!   ADD pod 0 ─► answer ─► ADD pod 1 ─► … ─► all answered ──hold──► DEL pod 0 ─► answer ─► DEL pod 1 ─► …
//! ```
//! The pods exist from the beginning. No sandbox takes any time, nothing runs, and failed calls are neither cleaned up nor retried: the
//! only requests are those of the agents. Upstream's `IPAM.Allocate` and `IPAM.Release` were measured in this way, each in a loop.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_machinery::api::{DeleteOptions, ListOptions, ignore_not_found};
use kube_machinery::transparent::{Policy, Transparent};
use kube_machinery::{ClientExt, Env, ObjectKey};
use kube_sim::cluster::{Cluster, SimClient};
use kube_sim::env::SimEnv;
use kube_sim::node::{AddFailure, Cni, ContainerRuntime, FIRST_NIC, PodNote, Sandbox, SandboxNumber, SandboxState};
use kube_sim::rt::ProcessId;
use parking_lot::Mutex;
use sim_config::time::SimTime;
use sim_harness::workload::live;
use sim_harness::workload::objects::plain_pod;

use super::closed_loop::ClosedLoop;
use super::ops::NAMESPACE;
use super::plan::SpiderPlan;
use super::site::{NodePlugin, Site};

/// The pause before a call to an agent that does not listen yet, or to a server that does not answer, is retried.
const AGAIN: Duration = Duration::from_millis(100);

/// Stores the pods of all nodes.
pub(super) fn preload(plan: &SpiderPlan, rounds: ClosedLoop, cluster: &Cluster) {
    for node in 0..plan.nodes {
        for number in 0..rounds.times {
            let key = ObjectKey::namespaced(NAMESPACE, &format!("loop-{node}-{number}"));
            let mut pod = plain_pod(key.metadata());
            pod.spec.get_or_insert_default().node_name = Some(plan.node_name(node));
            cluster.preload_unless_held(pod);
        }
    }
}

/// The pods of a node with their UIDs, by name.
type PodsOfNode = Arc<[(ObjectKey, Arc<str>)]>;

/// The progress of the loop of a node. It survives crashes: a call in progress counts as over, as its caller was told.
#[derive(Default)]
struct Progress {
    /// The pods with their UIDs, once they have been read.
    pods: Option<PodsOfNode>,
    /// The time at which the first ADD began.
    began: Option<SimTime>,
    /// The sandboxes of the pods for which ADD was called.
    sandboxes: Vec<SandboxNumber>,
    /// The number of deleted pods.
    deleted: usize,
    /// The number of pods for which DEL was called.
    released: usize,
}

/// Replaces the kubelet of a node by a loop, and starts it.
pub(super) fn install(site: &Arc<Site>, cluster: &Arc<Cluster>, number: usize, rounds: ClosedLoop) {
    let node = &site.nodes[number];
    let runtime = Arc::new(ContainerRuntime::new(cluster, node.kubelet, &node.name));
    cluster.nodes.add(runtime.clone());
    let (plugin, progress, process) = (Arc::new(site.plugin(cluster, number)), Arc::new(Mutex::default()), node.kubelet);
    live(site, cluster, process, move |site, cluster| {
        let env = site.env(&cluster, process);
        let client = Transparent::new(SimClient::new(&cluster, process), env.clone(), Policy::ClientGo);
        let (runtime, plugin, progress) = (runtime.clone(), plugin.clone(), progress.clone());
        Rounds { site, cluster, number, process, env, client, runtime, plugin, progress, rounds }.run()
    });
    cluster.start(process);
}

/// The loop of a node in one life of its process.
struct Rounds {
    site: Arc<Site>,
    cluster: Arc<Cluster>,
    number: usize,
    process: ProcessId,
    env: SimEnv,
    client: Transparent<SimClient, SimEnv>,
    runtime: Arc<ContainerRuntime>,
    plugin: Arc<NodePlugin>,
    progress: Arc<Mutex<Progress>>,
    rounds: ClosedLoop,
}

impl Rounds {
    async fn run(self) {
        let rt = &self.cluster.rt;
        let pods = self.pods().await;
        rt.sleep_until(SimTime::ZERO + self.site.plan.kubelet.network_ready.0).await;
        while !self.site.nodes[self.number].listens() {
            self.env.sleep(AGAIN).await;
        }
        let began = *self.progress.lock().began.get_or_insert(rt.now());
        let asked = self.progress.lock().sandboxes.len();
        for (pod, uid) in &pods[asked..] {
            self.add(pod, uid).await;
        }
        let Some(hold) = self.rounds.hold else { return };
        rt.sleep_until(began + hold.0 / 2).await;
        let deleted = self.progress.lock().deleted;
        for (pod, _) in &pods[deleted..] {
            self.delete(pod).await;
            self.progress.lock().deleted += 1;
        }
        rt.sleep_until(began + hold.0).await;
        while let Some(sandbox) = self.next_release() {
            self.del(sandbox).await;
        }
    }

    /// The pods of the node, read only once.
    async fn pods(&self) -> PodsOfNode {
        if let Some(pods) = self.progress.lock().pods.clone() {
            return pods;
        }
        let selector = format!("spec.nodeName={}", self.site.nodes[self.number].name);
        let options = || ListOptions { field_selector: Some(selector.clone()), ..ListOptions::default() };
        let found = loop {
            match self.client.list::<Pod>(Some(NAMESPACE), options()).await {
                Ok(found) => break found,
                Err(_) => self.env.sleep(AGAIN).await,
            }
        };
        let uid = |pod: &Pod| pod.metadata.uid.as_deref().unwrap_or_default().into();
        let pods: Arc<[_]> = found.items.iter().map(|pod| (ObjectKey::of(&**pod), uid(pod))).collect();
        self.progress.lock().pods = Some(pods.clone());
        pods
    }

    fn say(&self, told: &PodNote) {
        self.cluster.note(self.process, told);
    }

    async fn add(&self, pod: &ObjectKey, uid: &Arc<str>) {
        let (nic, runtime): (Arc<str>, _) = (FIRST_NIC.into(), &self.runtime);
        let id = format!("{:016x}", self.env.random()).into();
        let sandbox = Sandbox::new(id, pod.clone(), uid.clone(), [nic.clone()].into());
        let (id, attachment) = (sandbox.id.clone(), sandbox.attachment(&nic));
        let number = runtime.insert(&self.cluster, sandbox);
        self.progress.lock().sandboxes.push(number);
        self.say(&PodNote::AddAsked { sandbox: id.clone(), nic: nic.clone() });
        match self.plugin.add(attachment).await {
            Ok(addresses) => {
                runtime.attach(&self.cluster, number, 0, addresses);
                runtime.with(number, |kept| (kept.added, kept.state) = (true, SandboxState::Ready));
            }
            Err(_) => self.say(&PodNote::AddFailed { sandbox: id, nic, why: AddFailure::Refused }),
        }
    }

    /// Forces the deletion of a pod: the API forgets it before its DEL.
    async fn delete(&self, pod: &ObjectKey) {
        let options = || DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        while ignore_not_found(self.client.delete::<Pod>(pod, options()).await).is_err() {
            self.env.sleep(AGAIN).await;
        }
    }

    fn next_release(&self) -> Option<SandboxNumber> {
        let mut progress = self.progress.lock();
        let next = progress.sandboxes.get(progress.released).copied();
        progress.released += usize::from(next.is_some());
        next
    }

    async fn del(&self, number: SandboxNumber) {
        let Some(sandbox) = self.runtime.get(number) else { return };
        let nic = sandbox.nics[0].clone();
        self.runtime.detach(&self.cluster, number, 0);
        self.say(&PodNote::DelAsked { sandbox: sandbox.id.clone(), nic: nic.clone(), netns: sandbox.netns });
        let result = self.plugin.del(sandbox.attachment(&nic)).await;
        self.say(&PodNote::DelDone { sandbox: sandbox.id, nic, failed: result.is_err() });
        self.runtime.remove(&self.cluster, number);
    }
}
