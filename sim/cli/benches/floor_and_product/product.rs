//! The same work through all layers of the simulation: links, servers, store, watch caches, claims and digest.

use std::hint::black_box;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ipam_byom::PoolConfigMap;
use k8s_openapi::api::core::v1::Namespace;
use kube_machinery::api::{WatchEvent, WatchOptions};
use kube_machinery::{Client, ClientExt, WatchStream};
use kube_sim::cluster::{Cluster, ClusterConfig, SimClient};
use kube_sim::kinds::Registry;
use kube_sim::rt::{Rt, run};
use kube_sim::testbed::{config_map, from_json, key};
use kube_sim::trace::recorder::Recorder;
use sim_config as input;
use sim_harness::plan::Plan;
use sim_harness::scenario::Scenario;
use sim_harness::served::registry;
use sim_harness::system::RunOptions;
use sim_harness::world::Judges;
use tokio::sync::oneshot;

/// The registry of types, built once: it is the same in every run of a sweep.
static REGISTRY: LazyLock<Arc<Registry>> = LazyLock::new(|| Arc::new(registry()));

/// The plan whose claims observe the run.
static PLAN: LazyLock<Plan> = LazyLock::new(|| {
    let text = include_str!("../../../../scenarios/smoke/counter-calm.toml");
    let scenario: Scenario = input::toml::from_str("counter-calm.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
    scenario.draw(0)
});

struct Bench {
    rt: Rt,
    cluster: Arc<Cluster>,
}

impl Bench {
    /// Runs `work` with two servers and no client.
    fn run<T>(seed: u64, work: impl AsyncFnOnce(&Bench) -> T) -> T {
        run(seed, async |rt| {
            let config = ClusterConfig { seed, ..ClusterConfig::default() };
            let recorder = Recorder::new(Judges::of(&PLAN, &rt, &REGISTRY, RunOptions::default()), false);
            let cluster = Cluster::new(rt.clone(), REGISTRY.clone(), &config, recorder);
            for name in ["apiserver-0", "apiserver-1"] {
                cluster.add_server(rt.add_process(rt.add_host(name), name));
            }
            let bench = Bench { rt, cluster };
            let result = work(&bench).await;
            black_box(bench.cluster.recorder(|recorder| recorder.digest.value()));
            bench.cluster.tear_down();
            result
        })
    }

    fn client(&self, name: &str) -> SimClient {
        let process = self.rt.add_process(self.rt.add_host(name), name);
        self.rt.start(process);
        SimClient::new(&self.cluster, process)
    }

    /// Runs `work` as a task of the process of `client`; the receiver completes when the task does.
    fn start(&self, client: &SimClient, work: impl Future<Output = ()> + Send + 'static) -> oneshot::Receiver<()> {
        let (done, finished) = oneshot::channel();
        self.rt.spawn(client.process(), async move {
            work.await;
            let _ = done.send(());
        });
        finished
    }

    /// Creates a namespace and ConfigMaps in it.
    async fn fill(&self, client: &SimClient, names: &[String]) {
        let namespace: Namespace = from_json(serde_json::json!({"metadata": {"name": "default"}}));
        client.create(namespace).await.expect("the namespace is new");
        for name in names {
            client.create(PoolConfigMap::from(config_map(name, "n", "0"))).await.expect("the object is new");
        }
    }
}

/// The object with a changed value.
fn changed(object: &PoolConfigMap, n: u64) -> PoolConfigMap {
    let mut object = object.clone();
    if let Some(value) = object.data.as_mut().and_then(|data| data.others.get_mut("n")) {
        *value = n.to_string();
    }
    object
}

/// Runs the work of one client on one ConfigMap called `config`.
fn with_client<F: Future<Output = ()> + Send + 'static>(seed: u64, work: impl FnOnce(SimClient) -> F) {
    Bench::run(seed, async move |bench| {
        let client = bench.client("client");
        bench.fill(&client, &["config".to_owned()]).await;
        bench.start(&client, work(client.clone())).await.expect("the work ends");
    });
}

pub(crate) fn get(requests: u64) {
    with_client(1, async move |client| {
        let key = key("config");
        for _ in 0..requests {
            black_box(client.get::<PoolConfigMap>(&key).await.expect("it is there"));
        }
    });
}

pub(crate) fn put(requests: u64) {
    with_client(1, async move |client| {
        let mut object = client.get::<PoolConfigMap>(&key("config")).await.expect("it is there");
        for n in 0..requests {
            object = client.update(changed(&object, n + 1)).await.expect("nobody else writes");
        }
    });
}

async fn get_and_put_loop(client: SimClient, name: String, requests: u64) {
    let key = key(&name);
    for n in 0..requests / 2 {
        let object = client.get::<PoolConfigMap>(&key).await.expect("it is there");
        client.update(changed(&object, n + 1)).await.expect("nobody else writes");
    }
}

pub(crate) fn get_and_put(requests: u64) {
    with_client(1, async move |client| get_and_put_loop(client, "config".to_owned(), requests).await);
}

/// `requests` requests of `clients` concurrent processes, each on its own object.
pub(crate) fn crowd(clients: u64, requests: u64) {
    Bench::run(1, async |bench| {
        let names: Vec<String> = (0..clients).map(|client| format!("client-{client}")).collect();
        bench.fill(&bench.client("admin"), &names).await;
        let started: Vec<_> = names
            .iter()
            .map(|name| {
                let client = bench.client(name);
                bench.start(&client, get_and_put_loop(client.clone(), name.clone(), requests / clients))
            })
            .collect();
        for work in started {
            work.await.expect("the work ends");
        }
    });
}

/// Watches the ConfigMaps until it has seen `changes` changes.
async fn watch(client: SimClient, changes: u64) {
    let mut stream = client.watch::<PoolConfigMap>(Some("default".into()), WatchOptions::default()).await.expect("the watch opens");
    let mut seen = 0;
    while seen < changes {
        match stream.next().await {
            Some(Ok(WatchEvent::Modified(object))) => {
                black_box(object);
                seen += 1;
            }
            Some(Ok(_)) => {}
            other => panic!("the watch ended: {other:?}"),
        }
    }
}

/// `changes` changes of one object, each delivered to `watchers` processes.
pub(crate) fn fan_out(watchers: usize, changes: u64) {
    Bench::run(1, async |bench| {
        let writer = bench.client("writer");
        bench.fill(&writer, &["config".to_owned()]).await;
        let watching: Vec<_> = (0..watchers)
            .map(|number| {
                let client = bench.client(&format!("watcher-{number}"));
                bench.start(&client, watch(client.clone(), changes))
            })
            .collect();
        bench.rt.sleep(Duration::from_secs(5)).await;
        bench
            .start(&writer, {
                let (writer, rt) = (writer.clone(), bench.rt.clone());
                async move {
                    let mut object = writer.get::<PoolConfigMap>(&key("config")).await.expect("it is there");
                    for n in 0..changes {
                        object = writer.update(changed(&object, n + 1)).await.expect("nobody else writes");
                        // The slowest delivery takes two seconds: a faster writer would overflow the buffer of some stream.
                        rt.sleep(Duration::from_millis(50)).await;
                    }
                }
            })
            .await
            .expect("the work ends");
        for watcher in watching {
            watcher.await.expect("every watcher sees every change");
        }
    });
}

/// Two servers and `clients` connected processes that stay idle.
pub(crate) fn idle(seed: u64, clients: usize) {
    Bench::run(seed, async |bench| {
        for name in ["client-0", "client-1", "client-2"].iter().cycle().take(clients) {
            let client = bench.client(name);
            bench.rt.spawn(client.process(), async move {
                std::future::pending::<()>().await;
                drop(client);
            });
        }
    });
}

/// A few requests, a watch that is still open at the end, and three processes that never end by themselves.
pub(crate) fn small_seed(seed: u64) {
    Bench::run(seed, async |bench| {
        let client = bench.client("client");
        bench.fill(&client, &["config".to_owned()]).await;
        let watcher = bench.client("watcher");
        bench.rt.spawn(watcher.process(), watch(watcher.clone(), u64::MAX));
        let idle = bench.client("idle");
        bench.rt.spawn(idle.process(), async move {
            std::future::pending::<()>().await;
            drop(idle);
        });
        let work = get_and_put_loop(client.clone(), "config".to_owned(), 20);
        bench.start(&client, work).await.expect("the work ends");
    });
}
