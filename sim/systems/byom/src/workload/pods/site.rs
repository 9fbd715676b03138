//! What the actors of a run share: nodes, sockets, the configured pool, the VMs.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ipam_byom::{Address, Context, Policy, PoolConfig, PoolSettings, Sandbox, StartError, UnknownSandbox};
use kube_machinery::ObjectKey;
use kube_machinery::rate_limit::{CLIENT_GO, RateLimited};
use kube_machinery::transparent::Transparent;
use kube_sim::cluster::{Cluster, SimClient};
use kube_sim::env::SimEnv;
use kube_sim::rt::ProcessId;
use parking_lot::Mutex;
use sim_harness::upgrade::Version;
use tokio::sync::{mpsc, oneshot};

use super::machines::Machines;
use super::plan::{NodeNameSource, PodsPlan};

/// How long a process waits before it starts again after it refused its configuration: the first back-off of a kubelet.
pub(super) const BACK_OFF: Duration = Duration::from_secs(10);

/// What a process of the system under test sends its requests with, as client-go does.
pub(super) type ApiClient = Transparent<RateLimited<SimClient, SimEnv>, SimEnv>;

/// A request of a shim to an adaptor on its node.
pub(super) enum ShimCall {
    /// StartVM: allocate a VM for the sandbox, hand it over and wait for its agent (B §2.1).
    Start {
        /// The sandbox with its pod and user data; its ID is another for each attempt of the kubelet.
        sandbox: Sandbox,
        /// Until when the shim waits.
        context: Context,
        /// Where the answer goes.
        reply: oneshot::Sender<Result<Address, StartError>>,
    },
    /// StopVM: release the VM of a sandbox (B §3.3).
    Stop {
        /// The ID of the sandbox, without the pod's name that its allocation ID begins with.
        sandbox: Arc<str>,
        /// Until when the shim waits.
        context: Context,
        /// Where the answer goes.
        reply: oneshot::Sender<Result<(), UnknownSandbox>>,
    },
}

/// A connection to an adaptor; it ends with the adaptor's process.
pub(super) type Socket = mpsc::UnboundedSender<ShimCall>;

/// A sandbox as the container runtime keeps it on the disk of its node.
#[derive(Clone)]
pub(super) struct Kept {
    pub pod: ObjectKey,
    pub pod_uid: Arc<str>,
    /// The allocation ID, which notes name the sandbox by (B A1).
    pub id: Arc<str>,
    /// Whether its VM runs.
    pub ready: bool,
    /// To the adaptor that started it.
    pub connection: Socket,
}

/// A node with its kubelet, and two adaptors of which a roll-out replaces one by the other.
pub(super) struct Node {
    pub name: Arc<str>,
    pub adaptors: [ProcessId; 2],
    pub kubelet: ProcessId,
    serving: Mutex<Serving>,
    /// The sandboxes, by their ID.
    pub sandboxes: Mutex<BTreeMap<Arc<str>, Kept>>,
}

struct Serving {
    /// Which of the two adaptors the DaemonSet wants.
    wanted: [bool; 2],
    /// Where the shims connect: the one that came last, and while nobody listens there the other.
    sockets: Vec<Socket>,
}

impl Node {
    pub(super) fn new(name: Arc<str>, adaptors: [ProcessId; 2], kubelet: ProcessId) -> Self {
        let serving = Serving { wanted: [true, false], sockets: Vec::new() };
        Self { name, adaptors, kubelet, serving: Mutex::new(serving), sandboxes: Mutex::default() }
    }

    /// Whether the DaemonSet wants this one of the two adaptors.
    pub(super) fn wants(&self, slot: usize) -> bool {
        self.serving.lock().wanted[slot]
    }

    /// Says which of the two adaptors the DaemonSet wants.
    pub(super) fn want(&self, wanted: [bool; 2]) {
        self.serving.lock().wanted = wanted;
    }

    /// An adaptor takes the place at which shims connect.
    pub(super) fn listen(&self, socket: Socket) {
        let sockets = &mut self.serving.lock().sockets;
        sockets.retain(|known| !known.is_closed());
        sockets.push(socket);
    }

    /// A new connection: to the one that listened last if it lives, else to the other one; `None` = nobody listens.
    pub(super) fn connect(&self) -> Option<Socket> {
        self.serving.lock().sockets.iter().rev().find(|socket| !socket.is_closed()).cloned()
    }
}

/// What the actors share.
pub(super) struct Site {
    pub cluster: Weak<Cluster>,
    pub seed: u64,
    pub plan: PodsPlan,
    /// By the name of an adaptor or a replica of the controller, its policy in the course of the run.
    pub versions: BTreeMap<String, Version<Policy>>,
    pub machines: Machines,
    pub nodes: Vec<Node>,
    pub controllers: Vec<ProcessId>,
    /// `VM_POOL_IPS` as it is set now, as it is read by whoever starts.
    pub setting: Mutex<Arc<str>>,
    /// What tells an adaptor that starts now the name of its node, if anything does.
    pub named: Mutex<Option<NodeNameSource>>,
    /// Held by the roll-out that is under way.
    pub rolling: tokio::sync::Mutex<()>,
}

impl Site {
    /// The environment of a process in its present life.
    pub(super) fn env(&self, cluster: &Cluster, process: ProcessId) -> SimEnv {
        SimEnv::new(&cluster.rt, self.seed, process)
    }

    /// The client of a process in its present life.
    pub(super) fn client(&self, cluster: &Arc<Cluster>, process: ProcessId, env: &SimEnv) -> ApiClient {
        let client = SimClient::of_program(cluster, process);
        let retries = client.transport().retries();
        let limited = if self.plan.throttled {
            RateLimited::new(client, env.clone(), CLIENT_GO)
        } else {
            RateLimited::unlimited(client, env.clone())
        };
        Transparent::new(limited, env.clone(), retries)
    }

    /// The policy of an adaptor or of a replica of the controller that starts now.
    pub(super) fn policy(&self, cluster: &Cluster, process: ProcessId) -> Policy {
        *self.versions[&*cluster.rt.process_name(process)].at(cluster.rt.now())
    }

    /// What is set now, and what a process makes of it; `None` = it refuses to start.
    pub(super) fn configuration(&self, policy: &Policy) -> (Arc<str>, Option<PoolConfig>) {
        let setting = self.setting.lock().clone();
        let config = PoolConfig::read(&setting, self.plan.max_range, policy).ok();
        (setting, config)
    }

    /// The settings of a process.
    pub(super) fn pool_settings(&self, config: PoolConfig, node: &Arc<str>, policy: Policy) -> PoolSettings {
        let settings = PoolSettings::new(self.plan.place.found(), config, Some(node.clone()), policy);
        PoolSettings { probes: self.plan.probes, leak_grace: self.plan.leak_grace.0, ..settings }
    }
}
