//! Kubelets, container runtimes, the data plane and the scheduler with real pods (K §5, K126 to K135, K139, K140), with a plugin that
//! records its calls.

mod completion;
mod deletion;
mod notes;
pub(crate) mod plugin;
mod recreation;
mod scheduling;
mod survival;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_machinery::ClientExt;
use kube_machinery::api::DeleteOptions;
use kube_sim::actor::kubelet;
use kube_sim::actor::kubelet::{Behaviour, KubeletConfig, KubeletDelays};
use kube_sim::cluster::SimClient;
use kube_sim::fault::{Crash, Fault, FaultKind, Faults, HostDown, Target, Window};
use kube_sim::net::Delay;
use kube_sim::node::ContainerRuntime;
use kube_sim::rt::ProcessId;
use kube_sim::testbed::{Testbed, from_json, key};
use plugin::Plugin;
use serde_json::{Value, json};
use sim_config::Probability;
use sim_config::time::Span;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// A cluster with one node and a client that creates pods.
struct Stage {
    bed: Testbed,
    user: SimClient,
    plugin: Arc<Plugin>,
    runtime: Arc<ContainerRuntime>,
    kubelet: ProcessId,
}

/// A configuration in which steps take the same time in all runs, and no DEL is repeated.
fn config(bed: &Testbed, node: &str) -> KubeletConfig {
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
        behave: Arc::new(behave),
        ..KubeletConfig::new(node, bed.seed)
    }
}

/// The behaviour of a pod's containers, from its annotations.
fn behave(pod: &Pod) -> Behaviour {
    let annotated = |name| pod.metadata.annotations.as_ref().and_then(|all| all.get(name));
    let seconds = |name| annotated(name).map(|text| Duration::from_secs(text.parse().unwrap()));
    Behaviour {
        runs_for: seconds("runs-for"),
        fails: annotated("fails").is_some(),
        pre_stop: seconds("pre-stop").unwrap_or_default(),
        refused: annotated("refused").map(|_| "OutOfcpu"),
    }
}

impl Stage {
    /// Runs `test` with a node that is up.
    fn run<T>(seed: u64, test: impl AsyncFnOnce(Stage) -> T) -> T {
        Self::run_with(seed, |config| config, test)
    }

    /// Like `run`, with another configuration.
    fn run_with<T>(seed: u64, change: impl FnOnce(KubeletConfig) -> KubeletConfig, test: impl AsyncFnOnce(Stage) -> T) -> T {
        Testbed::run(seed, async |bed| {
            let user = bed.client("user");
            let plugin = Plugin::new(&bed.rt);
            let host = bed.rt.add_host("node-0");
            let kubelet = bed.rt.add_process(host, "kubelet-0");
            let runtime = kubelet::install(&bed.cluster, kubelet, plugin.clone(), change(config(&bed, "node-0")));
            bed.cluster.start(kubelet);
            bed.wait(2 * SECOND).await;
            let stage = Stage { bed, user, plugin, runtime, kubelet };
            test(stage).await
        })
    }

    /// Creates a pod on the node. `extra` is merged into it.
    async fn create(&self, name: &str, extra: Value) -> Arc<Pod> {
        let mut value = json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": "node-0", "containers": [{"name": "main", "image": "registry.example/app:1"}]},
        });
        merge(&mut value, &extra);
        self.user.create::<Pod>(from_json::<Pod>(value)).await.unwrap()
    }

    /// Creates a pod and waits until it runs.
    async fn running(&self, name: &str, extra: Value) -> Arc<Pod> {
        self.create(name, extra).await;
        self.until("the pod runs", 10, || self.phase(name) == "Running").await;
        self.stored(name).unwrap()
    }

    /// The pod as stored.
    fn stored(&self, name: &str) -> Option<Arc<Pod>> {
        let found = self.bed.cluster.store(|store| store.table(self.bed.kind::<Pod>()).get(&key(name)).cloned())?;
        Some(Arc::new(serde_json::from_value(found.to_value()).unwrap()))
    }

    /// The phase of the pod; empty if there is no pod.
    fn phase(&self, name: &str) -> String {
        self.stored(name).and_then(|pod| pod.status.as_ref()?.phase.clone()).unwrap_or_default()
    }

    /// The addresses of the pod in `status.podIPs`; none if there is no pod.
    fn ips(&self, name: &str) -> Vec<String> {
        let status = self.stored(name).and_then(|pod| pod.status.clone()).unwrap_or_default();
        status.pod_ips.unwrap_or_default().into_iter().map(|ip| ip.ip).collect()
    }

    async fn delete(&self, name: &str, options: DeleteOptions) {
        self.user.delete::<Pod>(&key(name), options).await.unwrap();
    }

    /// Waits until `holds`, for at most this many seconds.
    async fn until(&self, what: &str, seconds: u64, holds: impl Fn() -> bool) {
        let deadline = self.bed.rt.now() + Duration::from_secs(seconds);
        while !holds() {
            assert!(self.bed.rt.now() < deadline, "{what}: not within {seconds} s; calls {:#?}", self.plugin.calls());
            self.bed.wait(5 * MS).await;
        }
    }

    /// Begins a fault immediately; it ends after `lasts`.
    fn strike(&self, lasts: Duration, kind: FaultKind) {
        let fault = Fault { common: Window::new(self.bed.rt.now(), Some(Span(lasts))), kind };
        Faults::schedule(&self.bed.cluster, &[fault], self.bed.rt.now() + Duration::from_secs(36_000));
    }

    /// Crashes the kubelet, and restarts it after `down`.
    fn crash(&self, down: Duration) {
        self.strike(down, FaultKind::Crash(Crash { process: Target::from_text("kubelet-0"), down: Span(down) }));
    }

    /// Takes away the power of the node for this long.
    fn power_loss(&self, lasts: Duration) {
        self.strike(lasts, FaultKind::HostDown(HostDown { host: Target::from_text("node-0") }));
    }

    /// Whether a sandbox answers on an address.
    fn answers(&self, address: &str) -> bool {
        self.bed.cluster.nodes.data_plane.answers(address.parse().unwrap(), None)
    }
}

fn merge(value: &mut Value, extra: &Value) {
    match (value, extra) {
        (Value::Object(value), Value::Object(extra)) => {
            for (key, extra) in extra {
                merge(value.entry(key).or_insert(Value::Null), extra);
            }
        }
        (value, extra) => *value = extra.clone(),
    }
}
