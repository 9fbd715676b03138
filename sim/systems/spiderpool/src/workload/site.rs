//! State that the actors of a run share, and the connection from a node's plugin to its agent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::Future;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ipam_spiderpool::Policy;
use ipam_spiderpool::ipam::{AddAnswer, AddRequest, AgentSettings, BatchRequest, Call, Connection, DelRequest, Plugin, Probe, Unanswered};
use ipam_spiderpool::reclaim::ReclaimSettings;
use ipam_spiderpool::select::IpamConfig;
use k8s_openapi::api::core::v1::Pod;
use kube_machinery::race::{Either, race};
use kube_machinery::rate_limit::{RateLimit, RateLimited};
use kube_machinery::transparent::Transparent;
use kube_machinery::{Env, FxHashMap};
use kube_sim::cluster::admission::Service;
use kube_sim::cluster::{Cluster, SimClient};
use kube_sim::env::SimEnv;
use kube_sim::node::{Attachment, Cni, CniError};
use kube_sim::rt::ProcessId;
use parking_lot::Mutex;
use sim_harness::upgrade::Version;
use tokio::sync::{mpsc, oneshot};

use super::plan::{SpiderPlan, agent_name, reclaim_settings_of};

/// The rate limit of an agent (A §10).
const AGENT_LIMIT: RateLimit = RateLimit { qps: 50.0, burst: 100 };
/// The rate limit of Spiderpool's controller (A §10).
const CONTROLLER_LIMIT: RateLimit = RateLimit { qps: 100.0, burst: 200 };

/// The rate limit of the controller's client for the lease and for the pods whose events are traced (G §2.3).
const RAW_LIMIT: RateLimit = RateLimit { qps: 20.0, burst: 30 };

/// The client with which a process of Spiderpool sends its requests.
pub(super) type ApiClient = Transparent<RateLimited<SimClient, SimEnv>, SimEnv>;

/// A request of a plugin to the agent on its node.
pub(super) enum AgentCall {
    /// ADD: asks for the addresses of a pod's NICs (A §5.2).
    Add(AddRequest, oneshot::Sender<Result<AddAnswer, Unanswered>>),
    /// DEL: the sandbox of a pod goes (A §7.1).
    Del(DelRequest, oneshot::Sender<Result<(), Unanswered>>),
    /// Batch release of addresses on which another host answers (A §7.3).
    Release(BatchRequest, oneshot::Sender<Result<(), Unanswered>>),
}

/// The UNIX socket of an agent; it ends with the agent's process.
pub(super) type Socket = mpsc::UnboundedSender<AgentCall>;

/// A node with its kubelet, its agent, and the socket that connects the plugin to the agent.
pub(super) struct Node {
    pub name: Arc<str>,
    pub kubelet: ProcessId,
    pub agent: ProcessId,
    socket: Mutex<Option<Socket>>,
    /// Whether the last agent told its plugin to look for conflicts (`enableIPConflictDetection`).
    detects_conflicts: AtomicBool,
}

impl Node {
    pub(super) fn new(name: String, kubelet: ProcessId, agent: ProcessId) -> Self {
        Self { name: name.into(), kubelet, agent, socket: Mutex::default(), detects_conflicts: AtomicBool::default() }
    }

    /// Makes the agent accept calls, and tells the plugin whether to look for conflicts.
    pub(super) fn listen(&self, socket: Socket, detects_conflicts: bool) {
        *self.socket.lock() = Some(socket);
        self.detects_conflicts.store(detects_conflicts, Ordering::Relaxed);
    }

    /// Whether the agent accepts calls.
    pub(super) fn listens(&self) -> bool {
        self.connect().is_ok()
    }

    /// A connection to the agent, if it listens.
    fn connect(&self) -> Result<Socket, Unanswered> {
        let open = self.socket.lock().as_ref().filter(|socket| !socket.is_closed()).cloned();
        open.ok_or(Unanswered(Cow::Borrowed("connection refused")))
    }
}

/// The state that the actors share.
pub(super) struct Site {
    pub cluster: Weak<Cluster>,
    pub seed: u64,
    pub plan: SpiderPlan,
    /// The policies of Spiderpool's processes over the run, by process name.
    pub versions: BTreeMap<String, Version<Policy>>,
    /// The Service at which the replicas of the controller serve their webhooks, if there are any.
    pub hooks: Option<Arc<Service>>,
    /// The current settings in Spiderpool's ConfigMap.
    pub settings: Mutex<BTreeMap<String, String>>,
    pub cni: Arc<IpamConfig>,
    pub nodes: Vec<Node>,
    pub sandbox_uids: SandboxUids,
}

/// The pods whose UIDs container runtimes do not pass, by their sandboxes. Spiderpool does not know them; the trace does, so that claims
/// can judge requests by pod.
#[derive(Default)]
pub(super) struct SandboxUids(Mutex<FxHashMap<Arc<str>, Arc<str>>>);

impl SandboxUids {
    /// The UID of a request for a sandbox: the one in it, or that of the pod whose sandbox it is.
    pub(super) fn uid(&self, told: &Arc<str>, container: &str) -> Arc<str> {
        if !told.is_empty() {
            return told.clone();
        }
        self.0.lock().get(container).unwrap_or(told).clone()
    }
}

impl Site {
    /// The current policy of a process of Spiderpool.
    pub(super) fn policy(&self, cluster: &Cluster, process: ProcessId) -> Policy {
        *self.versions[&*cluster.rt.process_name(process)].at(cluster.rt.now())
    }

    /// The settings of reclaim in a replica of the controller that starts now.
    pub(super) fn reclaim_settings(&self, policy: &Policy) -> ReclaimSettings {
        reclaim_settings_of(&self.settings.lock(), policy).unwrap_or_else(|_| unreachable!("the plan was checked"))
    }

    /// The settings of an agent, or of a process with the same settings, that starts now.
    pub(super) fn agent_settings(&self, policy: &Policy) -> AgentSettings {
        self.plan.agent_settings_of(&self.settings.lock(), policy).unwrap_or_else(|_| unreachable!("the plan was checked"))
    }

    /// The environment of a process in its current life.
    pub(super) fn env(&self, cluster: &Cluster, process: ProcessId) -> SimEnv {
        SimEnv::new(&cluster.rt, self.seed, process)
    }

    /// The client of an agent in its current life.
    pub(super) fn agent_client(&self, cluster: &Arc<Cluster>, process: ProcessId, env: &SimEnv) -> ApiClient {
        self.client(cluster, process, env, |client, env| RateLimited::per_type(client, env, AGENT_LIMIT))
    }

    /// The client of a controller in its current life.
    pub(super) fn controller_client(&self, cluster: &Arc<Cluster>, process: ProcessId, env: &SimEnv) -> ApiClient {
        self.client(cluster, process, env, |client, env| RateLimited::per_type(client, env, CONTROLLER_LIMIT))
    }

    /// The other client of a controller, for its lease and for events of pods.
    pub(super) fn raw_client(&self, cluster: &Arc<Cluster>, process: ProcessId, env: &SimEnv) -> ApiClient {
        self.client(cluster, process, env, |client, env| RateLimited::new(client, env, RAW_LIMIT))
    }

    fn client(
        &self,
        cluster: &Arc<Cluster>,
        process: ProcessId,
        env: &SimEnv,
        limited: impl FnOnce(SimClient, SimEnv) -> RateLimited<SimClient, SimEnv>,
    ) -> ApiClient {
        let client = SimClient::of_program(cluster, process);
        let retries = client.transport().retries();
        let limited = if self.plan.throttled { limited(client, env.clone()) } else { RateLimited::unlimited(client, env.clone()) };
        Transparent::new(limited, env.clone(), retries)
    }

    /// The plugin of a node.
    pub(super) fn plugin(self: &Arc<Self>, cluster: &Arc<Cluster>, number: usize) -> NodePlugin {
        let env = self.env(cluster, self.nodes[number].kubelet);
        let ways = Ways { site: self.clone(), number, env: env.clone() };
        // The agent installs the plugin on the node, so their versions are the same.
        let plugins = self.versions[&agent_name(number as u32)].map(|policy| Plugin {
            agent: ways.clone(),
            probe: ways.clone(),
            cni: self.cni.clone(),
            detects_conflicts: false,
            policy: *policy,
        });
        let passes_no_uid = self.plan.runtimes_without_uid.contains(&(number as u32));
        NodePlugin { plugins, env, site: self.clone(), number, passes_no_uid }
    }
}

/// The connections of a plugin: a socket to the agent, and the network.
#[derive(Clone)]
pub(super) struct Ways {
    site: Arc<Site>,
    number: usize,
    env: SimEnv,
}

impl Ways {
    /// Sends a call, and waits for its answer until `deadline`.
    async fn call<T>(
        &self,
        deadline: Option<Duration>,
        call: impl FnOnce(oneshot::Sender<Result<T, Unanswered>>) -> AgentCall,
    ) -> Result<T, Unanswered> {
        let broken = || Unanswered(Cow::Borrowed("the connection to the agent broke"));
        let socket = self.site.nodes[self.number].connect()?;
        let (reply, answer) = oneshot::channel();
        socket.send(call(reply)).map_err(|_| broken())?;
        let answer = async move { answer.await.unwrap_or_else(|_| Err(broken())) };
        let Some(deadline) = deadline else { return answer.await };
        let left = deadline.saturating_sub(self.env.monotonic());
        match race(answer, self.env.sleep(left)).await {
            Either::Left(answer) => answer,
            Either::Right(()) => Err(Unanswered(Cow::Borrowed("the agent did not answer in time"))),
        }
    }
}

impl Connection for Ways {
    fn health(&self) -> impl Future<Output = Result<(), Unanswered>> + Send {
        std::future::ready(self.site.nodes[self.number].connect().map(drop))
    }

    async fn add(&self, request: AddRequest) -> Result<AddAnswer, Unanswered> {
        self.call(request.deadline, |reply| AgentCall::Add(request, reply)).await
    }

    async fn del(&self, request: DelRequest) -> Result<(), Unanswered> {
        self.call(request.deadline, |reply| AgentCall::Del(request, reply)).await
    }

    async fn release_ips(&self, request: BatchRequest) -> Result<(), Unanswered> {
        self.call(request.deadline, |reply| AgentCall::Release(request, reply)).await
    }
}

impl Probe for Ways {
    async fn master(&self, _nic: &str, _container: &str) -> Arc<[IpAddr]> {
        self.site.plan.masters.get(self.number).map_or_else(Arc::default, |addresses| addresses.as_slice().into())
    }

    async fn answers(&self, address: IpAddr, container: &str) -> bool {
        if !self.site.plan.probe.is_zero() {
            self.env.sleep(self.site.plan.probe.0).await;
        }
        self.site.cluster.upgrade().is_some_and(|cluster| cluster.nodes.data_plane.answers(address, Some(container)))
    }
}

/// The plugin of a node, as its container runtime calls it.
pub(super) struct NodePlugin {
    plugins: Version<Plugin<Ways, Ways>>,
    env: SimEnv,
    site: Arc<Site>,
    number: usize,
    /// Whether the container runtime passes no UIDs of pods.
    passes_no_uid: bool,
}

impl NodePlugin {
    /// The plugin that is currently on the node. The agent tells it whether to look for conflicts.
    fn plugin(&self) -> Plugin<Ways, Ways> {
        let now = self.site.cluster.upgrade().map(|cluster| cluster.rt.now());
        let detects_conflicts = self.site.nodes[self.number].detects_conflicts.load(Ordering::Relaxed);
        Plugin { detects_conflicts, ..self.plugins.at(now.unwrap_or_default()).clone() }
    }

    /// The call of the container runtime, without the UID if the runtime passes none.
    fn call(&self, attachment: Attachment) -> Call {
        let Attachment { container, nic, pod, mut pod_uid, netns: _ } = attachment;
        if self.passes_no_uid {
            let uid = std::mem::take(&mut pod_uid);
            self.site.sandbox_uids.0.lock().insert(container.clone(), uid);
        }
        Call { container_id: container, nic, pod, pod_uid }
    }
}

impl Cni for NodePlugin {
    async fn add(&self, attachment: Attachment) -> Result<Vec<IpAddr>, CniError> {
        let added = self.plugin().add(self.call(attachment), self.env.monotonic()).await;
        added.map_err(|error| CniError::Refused(error.to_string().into()))
    }

    fn nics(&self, pod: &Pod) -> Option<Vec<String>> {
        ipam_spiderpool::select::nics(pod)
    }

    async fn del(&self, attachment: Attachment) -> Result<(), CniError> {
        let deleted = self.plugin().del(self.call(attachment), self.env.monotonic()).await;
        deleted.map_err(|error| CniError::Refused(error.to_string().into()))
    }
}
