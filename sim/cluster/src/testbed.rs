//! A small cluster for tests and examples: API servers, clients as bare processes, and nothing else.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube_machinery::api::DeleteOptions;
use kube_machinery::{ClientExt, Object, ObjectKey};
use serde_json::json;

use crate::cluster::{Cluster, ClusterConfig, SimClient};
use crate::env::SimEnv;
use crate::kinds::{self, KindId, Registry, TypeDef};
use crate::rt::{ProcessId, Rt, run};
use crate::trace::recorder::Recorder;

/// The types that testbeds serve besides those of Kubernetes.
static TYPES: OnceLock<fn() -> Vec<TypeDef>> = OnceLock::new();

/// Makes every testbed of this program serve these types, too. Only the first call counts.
pub fn serve(types: fn() -> Vec<TypeDef>) {
    TYPES.get_or_init(|| types);
}

fn served() -> Vec<TypeDef> {
    TYPES.get().map(|types| types()).unwrap_or_default()
}

/// A running cluster. Every client has a separate process.
#[derive(Clone)]
pub struct Testbed {
    /// The runtime of the run: processes, hosts, and model time.
    pub rt: Rt,
    /// The cluster with its API servers, whose requests go through clients of processes.
    pub cluster: Arc<Cluster>,
    /// The seed of the run.
    pub seed: u64,
}

impl Testbed {
    /// Runs `test` against a cluster with two API servers (numbers 0 and 1) and the namespaces `default` and `other`.
    pub fn run<T>(seed: u64, test: impl AsyncFnOnce(Testbed) -> T) -> T {
        Self::run_with(ClusterConfig { seed, ..ClusterConfig::default() }, 2, test)
    }

    /// Like [`Testbed::run`], with a configuration and a number of servers.
    pub fn run_with<T>(config: ClusterConfig, servers: usize, test: impl AsyncFnOnce(Testbed) -> T) -> T {
        run(config.seed, async |rt| {
            let registry = Arc::new(Registry::new(kinds::all(served())));
            let cluster = Cluster::new(rt.clone(), registry, &config, Recorder::default());
            for number in 0..servers {
                let host = rt.add_host(&format!("control-plane-{number}"));
                cluster.add_server(rt.add_process(host, &format!("apiserver-{number}")));
            }
            let bed = Testbed { rt, cluster, seed: config.seed };
            let admin = bed.client("admin");
            for name in ["default", "other"] {
                let namespace: Namespace = from_json(json!({"metadata": {"name": name}}));
                admin.create(namespace).await.unwrap_or_else(|error| panic!("creating namespace {name}: {error}"));
            }
            bed.rt.sleep(Duration::from_secs(5)).await;
            let result = test(bed.clone()).await;
            bed.cluster.tear_down();
            result
        })
    }

    /// A process called `name` on its own host, up and without any code of its own.
    pub fn process(&self, name: &str) -> ProcessId {
        let process = self.rt.add_process(self.rt.add_host(name), name);
        self.rt.start(process);
        process
    }

    /// A client of a new process called `name`.
    pub fn client(&self, name: &str) -> SimClient {
        SimClient::new(&self.cluster, self.process(name))
    }

    /// A client of a new process, connected to server `number`.
    pub fn client_on(&self, name: &str, number: usize) -> SimClient {
        let client = self.client(name);
        client.connect_to(number);
        client
    }

    /// The environment of the process of `client`.
    pub fn env(&self, client: &SimClient) -> SimEnv {
        SimEnv::new(&self.rt, self.seed, client.process())
    }

    /// Lets this much model time pass; other processes go on meanwhile.
    pub async fn wait(&self, duration: Duration) {
        self.rt.sleep(duration).await;
    }

    /// The number of a type.
    pub fn kind<K: Object>(&self) -> KindId {
        self.cluster.registry.id::<K>()
    }

    /// The present revision of the store, which all types share.
    pub fn revision(&self) -> u64 {
        self.cluster.store(|store| store.revision())
    }
}

/// An object from its JSON form. Panics if it does not fit the type.
pub fn from_json<K: Object>(value: serde_json::Value) -> K {
    sim_config::manifest::decode_value(value).unwrap_or_else(|error| panic!("the test's object does not fit its type: {error}"))
}

/// The key of an object in namespace `default`.
pub fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

/// A ConfigMap in namespace `default` with one entry.
pub fn config_map(name: &str, field: &str, value: &str) -> ConfigMap {
    from_json(json!({"metadata": {"name": name, "namespace": "default"}, "data": {field: value}}))
}

/// A Pod in namespace `default`, assigned to `node` unless that is empty.
pub fn pod(name: &str, node: &str) -> Pod {
    let node = (!node.is_empty()).then_some(node);
    from_json(json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "registry.example/app:1"}]},
    }))
}

/// The options of a delete with `seconds` of grace.
pub fn grace(seconds: i64) -> DeleteOptions {
    DeleteOptions { grace_period_seconds: Some(seconds), ..DeleteOptions::default() }
}
