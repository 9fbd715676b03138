//! The shared state of a run's actors: nodes, sockets, the configured pool, the VMs.

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

/// The time before a process that refused its configuration is started again: the first backoff of a kubelet.
pub(super) const BACK_OFF: Duration = Duration::from_secs(10);

/// The API client of a process of the system under test, like client-go's.
pub(super) type ApiClient = Transparent<RateLimited<SimClient, SimEnv>, SimEnv>;

/// A request of a shim to an adaptor on its node.
pub(super) enum ShimCall {
    /// StartVM: allocate a VM for the sandbox, hand it over and wait for its agent (B §2.1).
    Start {
        /// The sandbox with its pod and user data; each attempt of the kubelet has another ID.
        sandbox: Sandbox,
        /// The deadline until which the shim waits.
        context: Context,
        /// The channel for the answer.
        reply: oneshot::Sender<Result<Address, StartError>>,
    },
    /// StopVM: release the VM of a sandbox (B §3.3).
    Stop {
        /// The ID of the sandbox, without the pod's name with which its allocation ID begins.
        sandbox: Arc<str>,
        /// The deadline until which the shim waits.
        context: Context,
        /// The channel for the answer.
        reply: oneshot::Sender<Result<(), UnknownSandbox>>,
    },
}

/// A connection to an adaptor; it ends with the adaptor's process.
pub(super) type Socket = mpsc::UnboundedSender<ShimCall>;

/// A sandbox in the container runtime's records on the disk of its node.
#[derive(Clone)]
pub(super) struct Kept {
    pub pod: ObjectKey,
    pub pod_uid: Arc<str>,
    /// The allocation ID, by which notes identify the sandbox (B A1).
    pub id: Arc<str>,
    /// Whether its VM runs.
    pub ready: bool,
    /// The connection to the adaptor that started it.
    pub connection: Socket,
}

/// A node with its kubelet and two adaptors; a roll-out replaces one by the other.
pub(super) struct Node {
    pub name: Arc<str>,
    pub adaptors: [ProcessId; 2],
    pub kubelet: ProcessId,
    serving: Mutex<Serving>,
    /// The sandboxes, by their ID.
    pub sandboxes: Mutex<BTreeMap<Arc<str>, Kept>>,
}

struct Serving {
    /// The adaptors of the two that the DaemonSet wants.
    wanted: [bool; 2],
    /// The sockets to which shims connect: the last one, or the other one while that is closed.
    sockets: Vec<Socket>,
}

impl Node {
    pub(super) fn new(name: Arc<str>, adaptors: [ProcessId; 2], kubelet: ProcessId) -> Self {
        let serving = Serving { wanted: [true, false], sockets: Vec::new() };
        Self { name, adaptors, kubelet, serving: Mutex::new(serving), sandboxes: Mutex::default() }
    }

    /// Whether the DaemonSet wants the adaptor in this slot.
    pub(super) fn wants(&self, slot: usize) -> bool {
        self.serving.lock().wanted[slot]
    }

    /// Sets the adaptors of the two that the DaemonSet wants.
    pub(super) fn want(&self, wanted: [bool; 2]) {
        self.serving.lock().wanted = wanted;
    }

    /// Makes shims connect to an adaptor from now on.
    pub(super) fn listen(&self, socket: Socket) {
        let sockets = &mut self.serving.lock().sockets;
        sockets.retain(|known| !known.is_closed());
        sockets.push(socket);
    }

    /// A new connection: to the adaptor that listened last if it lives, else to the other one; `None` = neither listens.
    pub(super) fn connect(&self) -> Option<Socket> {
        self.serving.lock().sockets.iter().rev().find(|socket| !socket.is_closed()).cloned()
    }
}

/// The shared state of the actors.
pub(super) struct Site {
    pub cluster: Weak<Cluster>,
    pub seed: u64,
    pub plan: PodsPlan,
    /// The policy in the course of the run, by the name of an adaptor or a replica of the controller.
    pub versions: BTreeMap<String, Version<Policy>>,
    pub machines: Machines,
    pub nodes: Vec<Node>,
    pub controllers: Vec<ProcessId>,
    /// The current value of `VM_POOL_IPS`, which processes read when they start.
    pub setting: Mutex<Arc<str>>,
    /// The source of the node's name for an adaptor that starts now, if there is one.
    pub named: Mutex<Option<NodeNameSource>>,
    /// Held by the current roll-out.
    pub rolling: tokio::sync::Mutex<()>,
}

impl Site {
    /// The environment of a process in its current life.
    pub(super) fn env(&self, cluster: &Cluster, process: ProcessId) -> SimEnv {
        SimEnv::new(&cluster.rt, self.seed, process)
    }

    /// The client of a process in its current life.
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

    /// The current setting, and the configuration that a process derives from it; `None` = it refuses to start.
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
