//! Nodes that fall silent, return, are removed and added: heartbeats, the node lifecycle controller, taint eviction and pod garbage
//! collection (K §6, K136 to K145), with real kubelets, and a plugin that records its calls.

mod by_name;
mod drain;
mod eviction;
mod heartbeats;
mod lifecycle;
mod removal;

use std::sync::Arc;
use std::time::Duration;

use super::kubelet::plugin::Plugin;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube_machinery::api::DeleteOptions;
use kube_machinery::{ClientExt, Object};
use kube_sim::actor::controller_manager;
use kube_sim::actor::controller_manager::{Controller, Set};
use kube_sim::actor::kubelet;
use kube_sim::actor::kubelet::{KubeletConfig, KubeletDelays};
use kube_sim::actor::scheduler;
use kube_sim::cluster::SimClient;
use kube_sim::fault::{Fault, FaultKind, Faults, Target, Window};
use kube_sim::net::Delay;
use kube_sim::node::ContainerRuntime;
use kube_sim::node::heartbeat::LEASES;
use kube_sim::node::taints::taints_of;
use kube_sim::rt::ProcessId;
use kube_sim::testbed::{Testbed, from_json, key};
use serde_json::{Value, json};
use sim_config::Probability;
use sim_config::time::Span;

const SECOND: Duration = Duration::from_secs(1);

/// A kubelet with its plugin.
struct Machine {
    runtime: Arc<ContainerRuntime>,
    plugin: Arc<Plugin>,
}

/// A cluster of nodes `node-0` and so on, whose kubelets register them.
struct Stage {
    bed: Testbed,
    user: SimClient,
    machines: Vec<Machine>,
    /// The process of the controllers.
    manager: ProcessId,
}

fn config(bed: &Testbed, number: usize) -> KubeletConfig {
    let constant = |millis| Delay::Constant(Span::millis(millis));
    KubeletConfig {
        delays: KubeletDelays {
            sandbox: constant(200),
            start: constant(500),
            stop: constant(1_000),
            deaf: Probability::new(0.0).unwrap(),
            delete: constant(500),
            ..KubeletDelays::default()
        },
        repeats_del: Probability::new(0.0).unwrap(),
        heartbeats: true,
        ..KubeletConfig::new(format!("node-{number}"), bed.seed)
    }
}

/// Every controller that these tests need.
fn everybody() -> Set {
    Set::of(Controller::ALL.into_iter().chain([Controller::NodeLifecycle, Controller::PodGc]))
}

impl Stage {
    /// Runs `test` with this many ready nodes.
    fn run<T>(seed: u64, nodes: usize, test: impl AsyncFnOnce(Stage) -> T) -> T {
        Self::run_with(seed, nodes, everybody(), |_| (), test)
    }

    /// Like `run`, with other controllers, after `before`.
    fn run_with<T>(seed: u64, nodes: usize, set: Set, before: impl FnOnce(&Testbed), test: impl AsyncFnOnce(Stage) -> T) -> T {
        Testbed::run(seed, async |bed| {
            let user = bed.client("user");
            user.create::<Namespace>(from_json::<Namespace>(json!({"metadata": {"name": LEASES}}))).await.unwrap();
            bed.cluster.tolerate_by_default(300 * SECOND);
            before(&bed);
            let machines = (0..nodes).map(|number| {
                let plugin = Plugin::new(&bed.rt);
                let host = bed.rt.add_host(&format!("node-{number}"));
                let kubelet = bed.rt.add_process(host, &format!("kubelet-{number}"));
                let runtime = kubelet::install(&bed.cluster, kubelet, plugin.clone(), config(&bed, number));
                bed.cluster.start(kubelet);
                Machine { runtime, plugin }
            });
            let machines = machines.collect();
            let manager = controller_manager::install(&bed.cluster, bed.seed, set);
            scheduler::install(&bed.cluster, bed.seed);
            bed.wait(15 * SECOND).await;
            test(Stage { bed, user, machines, manager }).await
        })
    }

    /// Creates a pod on a node. `extra` is merged into it.
    async fn create(&self, name: &str, node: &str, extra: Value) -> Arc<Pod> {
        let mut value = json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
        });
        if !node.is_empty() {
            value["spec"]["nodeName"] = node.into();
        }
        merge(&mut value, &extra);
        self.user.create::<Pod>(from_json::<Pod>(value)).await.unwrap()
    }

    /// Creates a pod and waits until it runs.
    async fn running(&self, name: &str, node: &str, extra: Value) -> Arc<Pod> {
        self.create(name, node, extra).await;
        self.until("the pod runs", 30, || self.phase(name) == "Running").await;
        self.pod(name).unwrap()
    }

    fn stored<K: Object>(&self, of: &kube_machinery::ObjectKey) -> Option<K> {
        let found = self.bed.cluster.store(|store| store.table(self.bed.kind::<K>()).get(of).cloned())?;
        Some(serde_json::from_value(found.to_value()).unwrap())
    }

    fn pod(&self, name: &str) -> Option<Arc<Pod>> {
        self.stored::<Pod>(&key(name)).map(Arc::new)
    }

    /// The existing pods, by name.
    fn pods(&self) -> Vec<Pod> {
        self.bed.cluster.store(|store| {
            let table = store.table(self.bed.kind::<Pod>());
            table.range(std::ops::Bound::Unbounded).map(|(_, pod)| serde_json::from_value(pod.to_value()).unwrap()).collect()
        })
    }

    /// The phase of a pod; empty if it does not exist.
    fn phase(&self, name: &str) -> String {
        self.pod(name).and_then(|pod| pod.status.as_ref()?.phase.clone()).unwrap_or_default()
    }

    /// The condition of a pod; empty if it has none.
    fn condition(&self, name: &str, type_: &str) -> String {
        let conditions = self.pod(name).and_then(|pod| pod.status.as_ref()?.conditions.clone()).unwrap_or_default();
        conditions.into_iter().find(|condition| condition.type_ == type_).map(|condition| condition.status).unwrap_or_default()
    }

    fn is_terminating(&self, name: &str) -> bool {
        self.pod(name).is_some_and(|pod| pod.metadata.deletion_timestamp.is_some())
    }

    fn node(&self, name: &str) -> Option<Node> {
        self.stored::<Node>(&kube_machinery::ObjectKey::cluster(name))
    }

    /// The condition Ready of a node.
    fn ready(&self, name: &str) -> String {
        let conditions = self.node(name).and_then(|node| node.status?.conditions).unwrap_or_default();
        conditions.into_iter().find(|condition| condition.type_ == "Ready").map(|condition| condition.status).unwrap_or_default()
    }

    /// The taints of a node as `KEY:EFFECT`, without the domain of Kubernetes, sorted.
    fn taints(&self, name: &str) -> Vec<String> {
        let Some(node) = self.node(name) else { return Vec::new() };
        let short = |key: &str| key.trim_start_matches("node.kubernetes.io/").to_owned();
        let mut taints: Vec<String> = taints_of(&node).iter().map(|taint| format!("{}:{}", short(&taint.key), taint.effect)).collect();
        taints.sort_unstable();
        taints
    }

    /// Whether a sandbox of a pod of this name answers on an address, on a machine.
    fn lives(&self, machine: usize, name: &str) -> bool {
        let sandboxes = self.machines[machine].runtime.sandboxes();
        sandboxes.iter().any(|sandbox| sandbox.pod == key(name) && !sandbox.addresses.is_empty())
    }

    async fn delete(&self, name: &str, options: DeleteOptions) {
        self.user.delete::<Pod>(&key(name), options).await.unwrap();
    }

    async fn wait(&self, seconds: u32) {
        self.bed.wait(SECOND * seconds).await;
    }

    /// Waits until `holds`, for at most this many seconds. Returns the seconds that it took, rounded up.
    async fn until(&self, what: &str, seconds: u32, holds: impl Fn() -> bool) -> u32 {
        for tenth in 0..seconds * 10 {
            if holds() {
                return tenth.div_ceil(10);
            }
            self.bed.wait(SECOND / 10).await;
        }
        panic!("after {seconds} s still not: {what}");
    }

    /// Begins faults that last for this many seconds each, like in a plan.
    async fn strike<const N: usize>(&self, kinds: [(u32, FaultKind); N]) -> Arc<Faults> {
        let at = self.bed.rt.now() + Duration::from_millis(1);
        let plan = kinds.map(|(lasts, kind)| Fault { common: Window::new(at, Some(Span(SECOND * lasts))), kind });
        let faults = Faults::schedule(&self.bed.cluster, &plan, at + Duration::from_secs(36_000));
        self.bed.wait(Duration::from_millis(2)).await;
        faults
    }
}

fn target(text: &str) -> Target {
    Target::from_text(text)
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}
