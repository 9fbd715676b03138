//! A store without handlers processes the events of its watch only when it is read: a reader finds the same as if the store had processed
//! each event immediately.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::informer::{Informer, InformerOptions};
use kube_machinery::{ClientExt, Env};
use kube_sim::cluster::{ClusterConfig, Knobs, SimClient};
use kube_sim::env::SimEnv;
use kube_sim::fault::{
    ApiServerCrash, ApiServerFreeze, ApiServerSlow, CacheLag, ChangeLate, Crash, Delay, EtcdCut, Fault, FaultKind, HistoryLost, Hold, Loss,
    OneWayPartition, Partition, Pause, Reconnect, WatchClosed, WatchLag,
};
use kube_sim::testbed::{Testbed, config_map, key};
use parking_lot::Mutex;
use sim_config::Probability;
use sim_config::draw::{Concern, Draw};
use sim_config::time::{SimTime, Span};

use super::{MS, SECOND, fault, schedule, target};

/// The duration of a run.
const LENGTH: Duration = Duration::from_secs(240);

/// The result of a read: the time, the revision of the store, and every object with its version.
type Found = (Duration, Option<String>, Vec<(String, String)>);

fn version(object: &ConfigMap) -> (String, String) {
    let meta = &object.metadata;
    (meta.name.clone().unwrap_or_default(), meta.resource_version.clone().unwrap_or_default())
}

/// A dozen disturbances between the store of `reader` and the changes.
fn disturbances(bed: &Testbed, draw: &mut Draw) -> Vec<Fault> {
    let mut one = || {
        let by = Span(draw.between(MS, 5 * SECOND));
        let number = draw.below(2);
        let server = || target(&format!("apiserver-{number}"));
        let (reader, any, resource) = (|| target("reader"), || target("*"), "*".to_owned());
        let kind = match draw.below(19) {
            0 => FaultKind::Partition(Partition { from: reader(), to: target("apiserver-*") }),
            1 => FaultKind::OneWayPartition(OneWayPartition { from: target("apiserver-*"), to: reader() }),
            2 => FaultKind::OneWayPartition(OneWayPartition { from: reader(), to: target("apiserver-*") }),
            3 => FaultKind::Hold(Hold { from: target("apiserver-*"), to: reader() }),
            4 => FaultKind::Loss(Loss { from: any(), to: any(), chance: Probability::new(0.3).unwrap() }),
            5 => FaultKind::Delay(Delay { from: server(), to: any(), by }),
            6 | 7 => FaultKind::Pause(Pause { process: reader() }),
            8 => FaultKind::Pause(Pause { process: server() }),
            9 => FaultKind::Crash(Crash { process: reader(), down: by }),
            10 => FaultKind::ApiServerCrash(ApiServerCrash { server: server(), initializing: by }),
            11 => FaultKind::ApiServerFreeze(ApiServerFreeze { server: server(), resource }),
            12 => FaultKind::ApiServerSlow(ApiServerSlow { server: server() }),
            13 => FaultKind::CacheLag(CacheLag { process: reader(), resource, by }),
            14 => FaultKind::WatchLag(WatchLag { server: server(), resource, by }),
            15 => FaultKind::WatchClosed(WatchClosed { server: server(), resource }),
            16 => FaultKind::HistoryLost(HistoryLost { server: server(), resource }),
            17 => FaultKind::ChangeLate(ChangeLate { process: reader(), resource, nth: 1 + draw.below(20) as u32, by, writes: 0 }),
            _ if draw.chance(0.5) => FaultKind::EtcdCut(EtcdCut { server: server() }),
            _ => FaultKind::Reconnect(Reconnect { process: reader(), server: server() }),
        };
        fault(bed, draw.below(LENGTH.as_millis() as u64) as u32, draw.between(10 * MS, 70 * SECOND), kind)
    };
    (0..12).map(|_| one()).collect()
}

/// A change: its time, its object, and its revision.
type Committed = (SimTime, String, u64);

/// The results of a reader that looks now and then, and the changes that were committed meanwhile.
fn found(seed: u64, told_at_once: bool) -> (Vec<Found>, Vec<Committed>) {
    // The watch of a slow reader is cut off early, so that this happens, too.
    let knobs = Knobs { watch_buffer: 10, ..Knobs::default() };
    Testbed::run_with(ClusterConfig { seed, knobs, told_at_once, ..ClusterConfig::default() }, 2, async |bed| {
        let mut draw = Draw::new(seed, Concern::Faults, 0);
        let process = bed.rt.add_process(bed.rt.add_host("reader"), "reader");
        let found = Arc::new(Mutex::new(Vec::new()));
        let (cluster, log) = (Arc::downgrade(&bed.cluster), found.clone());
        bed.rt.set_main(process, move |_| {
            let (cluster, log) = (cluster.upgrade(), log.clone());
            async move {
                let Some(cluster) = cluster else { return };
                let env = SimEnv::new(&cluster.rt, seed, process);
                let options = InformerOptions { namespace: Some("default".into()), ..InformerOptions::default() };
                let informer = Informer::<ConfigMap, _>::start(SimClient::new(&cluster, process), env.clone(), options);
                let store = informer.store();
                loop {
                    // The result of a read in the microsecond in which a process continues depends on the order of its tasks.
                    env.sleep(Duration::from_micros(env.random() % 7_000_000)).await;
                    env.sleep(MS).await;
                    let objects = store.list().iter().map(|object| version(object)).collect();
                    log.lock().push((cluster.rt.now().since_start(), store.resource_version(), objects));
                }
            }
        });
        bed.cluster.start(process);
        schedule(&bed, &disturbances(&bed, &mut draw));
        for name in ["a", "b", "c"] {
            let writer = bed.client(&format!("writer-{name}"));
            let (rt, mut draw) = (bed.rt.clone(), Draw::new(seed, Concern::Workload, u64::from(name.as_bytes()[0])));
            bed.rt.spawn(writer.process(), async move {
                loop {
                    for number in 0..draw.below(8) {
                        let name = format!("{name}{}", draw.below(4));
                        let _ = match draw.below(4) {
                            0 => writer.delete::<ConfigMap>(&key(&name), Default::default()).await.is_ok(),
                            1 => writer.update(config_map(&name, "k", &number.to_string())).await.is_ok(),
                            _ => writer.create(config_map(&name, "k", "0")).await.is_ok(),
                        };
                    }
                    rt.sleep(draw.between(MS, 6 * SECOND)).await;
                }
            });
        }
        bed.wait(LENGTH).await;
        let kind = bed.kind::<ConfigMap>();
        let committed = bed.cluster.store(|store| {
            let changes = store.table(kind).changes_after(0);
            changes.map(|change| (change.at, change.key.to_string(), change.revision)).collect()
        });
        (std::mem::take(&mut *found.lock()), committed)
    })
}

#[test]
fn a_reader_finds_the_same_whether_its_store_is_told_at_once_or_when_it_is_read() {
    let (mut looks, mut tied) = (0, 0);
    for seed in 0..100 {
        let ((finds, committed), (finds_at_once, committed_at_once)) = (found(seed, false), found(seed, true));
        let parting = committed.iter().zip(&committed_at_once).find(|(one, other)| one != other);
        if let Some((one, other)) = parting {
            // The order of two writes in one microsecond is drawn for each task that runs.
            assert_eq!(one.0, other.0, "seed {seed}: {one:?} and {other:?} are not of one time");
            tied += 1;
            continue;
        }
        assert!(committed == committed_at_once && committed.len() > 50, "seed {seed}");
        let first = finds.iter().zip(&finds_at_once).find(|(one, other)| one != other);
        assert_eq!((first, finds.len()), (None, finds_at_once.len()), "seed {seed}");
        looks += finds.len();
    }
    assert!(looks > 2_000 && tied < 30, "{looks} looks, {tied} seeds in which writes tied");
}

#[test]
fn what_arrived_in_a_pause_is_not_there_before_the_reader_of_the_watch_has_run() {
    let stale = |told_at_once| {
        let finds_old = |seed| {
            Testbed::run_with(ClusterConfig { seed, told_at_once, ..ClusterConfig::default() }, 2, async |bed| {
                let (writer, reader) = (bed.client("writer"), bed.client("reader"));
                let informer = Informer::<ConfigMap, _>::start(reader.clone(), bed.env(&reader), InformerOptions::default());
                bed.wait(5 * SECOND).await;
                let (store, seen) = (informer.store(), Arc::new(Mutex::new(None)));
                let (rt, look) = (bed.rt.clone(), seen.clone());
                let at = rt.now() + SECOND;
                bed.rt.spawn(reader.process(), async move {
                    rt.sleep_until(at).await;
                    *look.lock() = Some(store.len());
                });
                bed.cluster.pause(reader.process());
                writer.create(config_map("a", "k", "0")).await.unwrap();
                bed.wait(5 * SECOND).await;
                bed.cluster.resume(reader.process());
                bed.wait(5 * SECOND).await;
                assert_eq!(informer.store().len(), 1);
                seen.lock().take().unwrap() == 0
            })
        };
        (0..60).filter(|&seed| finds_old(seed)).count()
    };
    let (deferred, at_once) = (stale(false), stale(true));
    assert!((10..50).contains(&deferred) && (10..50).contains(&at_once), "{deferred} and {at_once} of 60");
}
