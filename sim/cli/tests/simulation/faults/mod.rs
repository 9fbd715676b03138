//! Every kind of fault, on a small cluster and driven like in a plan: its effect, and its end.

mod change_late;
mod changes;
mod clocks;
mod etcd;
mod links;
mod nodes;
mod priorities;
mod processes;
mod request_fault;
mod runs;
mod servers;
mod watches;
mod webhooks;
mod writers;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::api::{DeleteOptions, ListOptions};
use kube_machinery::{ApiError, Client, ClientExt};
use kube_sim::cluster::SimClient;
use kube_sim::fault::{Fault, FaultKind, Faults, Target, Window, vocabulary};
use kube_sim::testbed::{Testbed, config_map, key};
use sim_config::Probability;
use sim_config::time::Span;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
const ALWAYS: Probability = Probability::ALWAYS;

/// Begins a fault that lasts for `lasts`, or is instantaneous, and returns when it holds. It goes through the schedule, like a fault of a
/// plan.
async fn strike(bed: &Testbed, lasts: Duration, kind: FaultKind) -> Arc<Faults> {
    strike_all(bed, [(lasts, kind)]).await
}

/// Like `strike`, with several faults that begin together, in this order.
async fn strike_all<const N: usize>(bed: &Testbed, kinds: [(Duration, FaultKind); N]) -> Arc<Faults> {
    let at = bed.rt.now() + MS;
    let plan = kinds.map(|(lasts, kind)| Fault { common: Window::new(at, Some(Span(lasts))), kind });
    let faults = Faults::schedule(&bed.cluster, &plan, at + Duration::from_secs(3_600));
    bed.wait(2 * MS).await;
    faults
}

fn target(text: &str) -> Target {
    Target::from_text(text)
}

fn probability(value: f64) -> Probability {
    Probability::new(value).unwrap()
}

/// Whether the store has a ConfigMap of this name in `default`.
fn stored(bed: &Testbed, name: &str) -> bool {
    bed.cluster.store(|store| store.table(bed.kind::<ConfigMap>()).get(&key(name)).is_some())
}

/// The number of ConfigMaps in the store.
fn count(bed: &Testbed) -> usize {
    bed.cluster.store(|store| store.table(bed.kind::<ConfigMap>()).len())
}

/// Creates a ConfigMap of this name in `default`, with one short field.
async fn create(client: &impl Client, name: &str) -> Result<Arc<ConfigMap>, ApiError> {
    client.create(config_map(name, "k", "v")).await
}

/// Deletes the ConfigMap of this name in `default`, whatever its version.
async fn delete(client: &impl Client, name: &str) -> Result<(), ApiError> {
    client.delete::<ConfigMap>(&key(name), DeleteOptions::default()).await.map(drop)
}

/// The names in the cache of a client's server (a list at resource version 0).
async fn cached(client: &SimClient) -> Result<Vec<String>, ApiError> {
    let options = ListOptions { resource_version: Some("0".into()), ..ListOptions::default() };
    let list = client.list::<ConfigMap>(Some("default"), options).await?;
    Ok(list.items.iter().map(|object| object.metadata.name.clone().unwrap()).collect())
}

/// The duration of `action`, and its output.
async fn took<T>(bed: &Testbed, action: impl Future<Output = T>) -> (Duration, T) {
    let started = bed.rt.now();
    let result = action.await;
    (bed.rt.now() - started, result)
}

/// The duration of `n` consecutive quorum reads.
async fn reads(bed: &Testbed, client: &SimClient, n: usize) -> Duration {
    let started = bed.rt.now();
    for _ in 0..n {
        let _ = client.get::<ConfigMap>(&key("nothing")).await;
    }
    bed.rt.now() - started
}

/// The name of the type for a kind of fault: `EtcdNoQuorum` for `etcd-no-quorum`.
fn type_of(name: &str) -> String {
    let word = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split('-').map(word).collect()
}

/// The sources of the tests that begin single faults; those of whole runs begin any.
fn sources() -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulation/faults");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| !file.ends_with("runs.rs")).map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

#[test]
fn every_kind_of_fault_is_struck_by_a_test_here() {
    let sources = sources();
    for info in vocabulary() {
        let strikes = format!("FaultKind::{}(", type_of(info.name));
        assert!(sources.contains(&strikes), "no test strikes `{}`: it needs one that shows its effect and its end", info.name);
    }
}
