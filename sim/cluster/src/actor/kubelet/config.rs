//! What a kubelet is told at its start: its node, how long things take there, and what the containers of a pod do.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::Probability;
use sim_config::time::Span;

use crate::net::Delay;

/// How long steps on a node take (K §11.2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KubeletDelays {
    /// From the sight of a pod to the first ADD: volumes, worker queue, sandbox without network.
    pub sandbox: Delay,
    /// Until when no sandbox gets its network, since the beginning of the run: the network plugin is not installed yet (`NetworkNotReady`,
    /// K §5.1). Sandboxes that wait for it then ask all at once.
    #[serde(skip_serializing_if = "Span::is_zero")]
    pub network_ready: Span,
    /// From the last ADD to running containers: image and start.
    pub start: Delay,
    /// From SIGTERM to the end of the containers, at most the grace period.
    pub stop: Delay,
    /// How often containers do not listen to SIGTERM, so that they take the whole grace period.
    pub deaf: Probability,
    /// From the terminal status to the final DELETE.
    pub delete: Delay,
}

impl Default for KubeletDelays {
    fn default() -> Self {
        Self {
            sandbox: Delay::lognormal_us(170_000, 1_500_000, 20_000_000),
            network_ready: Span::micros(0),
            start: Delay::lognormal_us(700_000, 3_000_000, 60_000_000),
            stop: Delay::lognormal_us(300_000, 10_000_000, 600_000_000),
            deaf: Probability::new(0.2).unwrap_or(Probability::ALWAYS),
            delete: Delay::lognormal_us(500_000, 5_000_000, 60_000_000),
        }
    }
}

/// What the containers of a pod do, and what the node says to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behaviour {
    /// How long the containers run; unset = until they are stopped.
    pub runs_for: Option<Duration>,
    /// Whether they end with an error. Where `restartPolicy` says so they start again in the same sandbox (K133).
    pub fails: bool,
    /// How long a preStop hook takes of the grace period.
    pub pre_stop: Duration,
    /// Why the node refuses the pod, if it does: the reason of its status (K §5.1 step 4).
    pub refused: Option<&'static str>,
}

/// Says what the containers of a pod do. Called once in each life of the kubelet for each pod.
pub type Behave = Arc<dyn Fn(&Pod) -> Behaviour + Send + Sync>;

/// What a kubelet is told.
#[derive(Clone)]
pub struct KubeletConfig {
    /// The name of its Node: pods name it in `spec.nodeName`.
    pub node: Arc<str>,
    /// The seed of the run, from which the kubelet draws its delays and the times of its heartbeats.
    pub seed: u64,
    /// The node's own address: that of pods with host network.
    pub host_ip: IpAddr,
    /// How many pods it takes at the same time; the next one is refused (`OutOfpods`).
    pub max_pods: u32,
    /// How long things take.
    pub delays: KubeletDelays,
    /// What the containers of each pod do, and whether the node refuses it; by default they run until they are stopped.
    pub behave: Behave,
    /// How often the garbage collection of sandboxes repeats a DEL that had succeeded (K131).
    pub repeats_del: Probability,
    /// Whether the deletion of a pod kills an ADD that is under way, as kubelets do since 1.27; else it is waited for.
    pub cancels_adds: bool,
    /// Whether it registers its Node and says that it is alive (K §6.1); without it the Node is the workload's own.
    pub heartbeats: bool,
}

impl KubeletConfig {
    /// The default 110 pods whose containers run until they are stopped.
    pub fn new(node: impl Into<Arc<str>>, seed: u64) -> Self {
        Self {
            node: node.into(),
            seed,
            host_ip: IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1)),
            max_pods: 110,
            delays: KubeletDelays::default(),
            behave: Arc::new(|_| Behaviour::default()),
            repeats_del: Probability::new(0.1).unwrap_or(Probability::ALWAYS),
            cancels_adds: true,
            heartbeats: false,
        }
    }
}

impl fmt::Debug for KubeletConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeletConfig").field("node", &self.node).field("seed", &self.seed).finish_non_exhaustive()
    }
}
