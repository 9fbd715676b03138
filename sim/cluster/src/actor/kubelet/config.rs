//! The configuration of a kubelet: its node, the delays there, and the behaviour of each pod's containers.

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

/// The delays of steps on a node (K §11.2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KubeletDelays {
    /// Time from the sight of a pod to the first ADD: volumes, worker queue, sandbox without network.
    pub sandbox: Delay,
    /// The time since the beginning of the run before which no sandbox gets its network: the network plugin is not installed yet
    /// (`NetworkNotReady`, K §5.1). Sandboxes that wait for it then all ask at once.
    #[serde(skip_serializing_if = "Span::is_zero")]
    pub network_ready: Span,
    /// Time from the last ADD to running containers: image and start.
    pub start: Delay,
    /// Time from SIGTERM to the end of the containers, at most the grace period.
    pub stop: Delay,
    /// The probability that containers ignore SIGTERM, so that they take the whole grace period.
    pub deaf: Probability,
    /// Time from the terminal status to the final DELETE.
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

/// The behaviour of a pod's containers, and whether the node admits the pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behaviour {
    /// The time for which the containers run; unset = until they are stopped.
    pub runs_for: Option<Duration>,
    /// Whether they end with an error. If `restartPolicy` says so, they start again in the same sandbox (K133).
    pub fails: bool,
    /// The part of the grace period that a preStop hook takes.
    pub pre_stop: Duration,
    /// The reason in the pod's status if the node refuses the pod (K §5.1 step 4).
    pub refused: Option<&'static str>,
}

/// Returns the behaviour of a pod's containers. Called once in each life of the kubelet for each pod.
pub type Behave = Arc<dyn Fn(&Pod) -> Behaviour + Send + Sync>;

/// The configuration of a kubelet.
#[derive(Clone)]
pub struct KubeletConfig {
    /// The name of its Node: pods name it in `spec.nodeName`.
    pub node: Arc<str>,
    /// The seed of the run, from which the kubelet draws its delays and the times of its heartbeats.
    pub seed: u64,
    /// The node's own address: that of pods with host network.
    pub host_ip: IpAddr,
    /// The number of pods that it takes at the same time; the next one is refused (`OutOfpods`).
    pub max_pods: u32,
    /// The delays of its steps.
    pub delays: KubeletDelays,
    /// The behaviour of each pod's containers, and whether the node refuses it; by default they run until they are stopped.
    pub behave: Behave,
    /// The probability that the garbage collection of sandboxes repeats a DEL that had succeeded (K131).
    pub repeats_del: Probability,
    /// Whether the deletion of a pod kills an ADD in progress, as kubelets do since 1.27; otherwise the kubelet waits for the ADD.
    pub cancels_adds: bool,
    /// Whether it registers its Node and sends heartbeats (K §6.1); without it the workload has to create the Node.
    pub heartbeats: bool,
}

impl KubeletConfig {
    /// A kubelet with the default of 110 pods, whose containers run until they are stopped.
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
