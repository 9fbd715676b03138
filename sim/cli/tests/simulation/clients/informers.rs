//! Informers (K146 to K151): the knowledge of a store and its handlers about a cluster that has gaps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::api::DeleteOptions;
use kube_machinery::informer::{Informer, InformerOptions, ListSemantic, Model, Notification, StoreReader};
use kube_machinery::{ClientExt, ObjectKey};
use kube_sim::cluster::{Reconnect, SimClient, Transport};
use kube_sim::env::SimEnv;
use kube_sim::fault;
use kube_sim::fault::{ApiServerFreeze, FaultKind, HistoryLost, Partition, WatchClosed, WatchLag};
use kube_sim::rt::ProcessId;
use kube_sim::testbed::{Testbed, config_map, key, pod};
use parking_lot::Mutex;
use sim_config::time::Span;

use super::{MS, SECOND, fault, schedule, target};

const KUBE_RS: Model = Model::KubeRs(ListSemantic::MostRecent);
const KUBE_RS_ANY: Model = Model::KubeRs(ListSemantic::Any);

/// A process that watches ConfigMaps in each of its lives.
pub(super) struct Watching {
    pub(super) process: ProcessId,
    /// The notifications of its handlers, in all its lives.
    told: Arc<Mutex<Vec<Notification<ConfigMap>>>>,
    /// The store of its current life.
    store: Arc<Mutex<Option<StoreReader<ConfigMap>>>>,
}

impl Watching {
    /// Starts a process called `watching`. Its n-th life connects to the n-th of `servers` and stays connected unless moved.
    pub(super) fn start(bed: &Testbed, model: Model, servers: [usize; 2]) -> Self {
        let process = bed.rt.add_process(bed.rt.add_host("watching"), "watching");
        let (told, store) = (Arc::default(), Arc::default());
        let watching = Self { process, told, store };
        let (cluster, seed) = (Arc::downgrade(&bed.cluster), bed.seed);
        let (told, store) = (watching.told.clone(), watching.store.clone());
        bed.rt.set_main(process, move |life| {
            let (cluster, told, store) = (cluster.upgrade(), told.clone(), store.clone());
            async move {
                let Some(cluster) = cluster else { return };
                let client = SimClient::with(&cluster, process, Transport::Http2, Reconnect::Sticky);
                client.connect_to(servers[life as usize]);
                let env = SimEnv::new(&cluster.rt, seed, process);
                let options = InformerOptions { model, namespace: Some("default".into()), ..InformerOptions::default() };
                let informer = Informer::<ConfigMap, _>::start(client, env, options);
                *store.lock() = Some(informer.store());
                let mut notifications = informer.subscribe();
                while let Some(notification) = notifications.next().await {
                    told.lock().push(notification);
                }
            }
        });
        bed.cluster.start(process);
        watching
    }

    pub(super) fn store(&self) -> StoreReader<ConfigMap> {
        self.store.lock().clone().expect("it has started")
    }

    /// The names in its store.
    pub(super) fn names(&self) -> Vec<String> {
        self.store().list().iter().map(|object| object.metadata.name.clone().unwrap()).collect()
    }

    /// The notifications since the last call.
    fn told(&self) -> Vec<Notification<ConfigMap>> {
        std::mem::take(&mut *self.told.lock())
    }
}

fn uid(object: &ConfigMap) -> &str {
    object.metadata.uid.as_deref().unwrap()
}

fn value(object: &ConfigMap) -> &str {
    &object.data.as_ref().unwrap()["k"]
}

fn revision(object: &ConfigMap) -> u64 {
    object.metadata.resource_version.as_ref().unwrap().parse().unwrap()
}

async fn put(client: &SimClient, name: &str, value: &str) {
    client.update(config_map(name, "k", value)).await.unwrap();
}

pub(super) async fn create(client: &SimClient, name: &str) {
    client.create(config_map(name, "k", "0")).await.unwrap();
}

async fn delete(client: &SimClient, name: &str) {
    client.delete::<ConfigMap>(&key(name), DeleteOptions::default()).await.unwrap();
}

/// The notifications of a handler, and the places where they contradict K146.
#[derive(Default)]
struct Order {
    told: u32,
    store_ahead: u32,
    wrong: Vec<String>,
    last: BTreeMap<ObjectKey, u64>,
}

impl Order {
    fn check(&mut self, store: &StoreReader<ConfigMap>, notification: &Notification<ConfigMap>) {
        self.told += 1;
        let (key, told) = (notification.key(), revision(notification.object()));
        if store.resource_version().is_none_or(|known| known.parse::<u64>().unwrap() < told) {
            self.wrong.push(format!("{key}: told of revision {told} before the store had it"));
        }
        let stored = store.get(&key);
        let gone = matches!(notification, Notification::Deleted { .. } | Notification::DeletedFinalStateUnknown { .. });
        match stored.map(|object| revision(&object)) {
            Some(stored) if stored < told || gone && stored == told => self.wrong.push(format!("{key}: stored {stored}, told {told}")),
            Some(stored) if stored > told => self.store_ahead += 1,
            _ => {}
        }
        // A relist may repeat a state, and a deletion without its final state may show an old one.
        let last = self.last.insert(key.clone(), told).unwrap_or(0);
        if told < last {
            self.wrong.push(format!("{key}: told of {told} after {last}"));
        }
    }
}

#[test]
fn k146_the_store_is_updated_before_the_handler_and_calls_for_one_object_are_in_order() {
    let (mut told, mut store_ahead) = (0, 0);
    for seed in 0..12 {
        let model = [Model::ClientGo, KUBE_RS][seed as usize % 2];
        let order = Testbed::run(seed, async |bed| {
            let reader = bed.client("reader");
            let informer =
                Informer::<ConfigMap, _>::start(reader.clone(), bed.env(&reader), InformerOptions { model, ..Default::default() });
            let (order, store) = (Arc::new(Mutex::new(Order::default())), informer.store());
            let orders = order.clone();
            informer.add_handler(move |notification| orders.lock().check(&store, &notification));
            let all = || target("apiserver-*");
            let plan = [
                fault(&bed, 3_000, SECOND, FaultKind::WatchClosed(WatchClosed { server: all(), resource: "*".into() })),
                fault(&bed, 6_000, SECOND, FaultKind::HistoryLost(HistoryLost { server: all(), resource: "*".into() })),
                fault(
                    &bed,
                    9_000,
                    SECOND,
                    FaultKind::Reconnect(fault::Reconnect { process: target("reader"), server: target("apiserver-1") }),
                ),
                fault(&bed, 12_000, 2 * SECOND, FaultKind::Partition(Partition { from: target("reader"), to: all() })),
            ];
            schedule(&bed, &plan);
            for name in ["a", "b", "c"] {
                let writer = bed.client(&format!("writer-{name}"));
                let rt = bed.rt.clone();
                bed.rt.spawn(writer.process(), async move {
                    for round in 0..60 {
                        create(&writer, name).await;
                        put(&writer, name, &format!("{round}")).await;
                        delete(&writer, name).await;
                        rt.sleep(200 * MS).await;
                    }
                });
            }
            bed.wait(60 * SECOND).await;
            assert!(informer.store().is_empty());
            std::mem::take(&mut *order.lock())
        });
        assert_eq!(order.wrong, [""; 0], "seed {seed}");
        told += order.told;
        store_ahead += order.store_ahead;
    }
    assert!(told > 1_000, "{told}");
    assert!(store_ahead > 0, "a handler may find the store ahead of what it is told");
}

/// A gap of a minute: no event reaches the watching process, and every server forgets its history meanwhile.
fn gap(bed: &Testbed) {
    let plan = [
        fault(bed, 0, 60 * SECOND, FaultKind::Partition(Partition { from: target("watching"), to: target("apiserver-*") })),
        fault(bed, 30_000, SECOND, FaultKind::HistoryLost(HistoryLost { server: target("*"), resource: "*".into() })),
    ];
    schedule(bed, &plan);
}

/// The notifications about a gap in which `a` was changed and deleted, and `b` was deleted and created again.
fn told_of_a_gap(seed: u64, model: Model) -> (Vec<Notification<ConfigMap>>, Vec<String>) {
    Testbed::run(seed, async |bed| {
        let writer = bed.client("writer");
        let watching = Watching::start(&bed, model, [0; 2]);
        for name in ["a", "b", "c"] {
            create(&writer, name).await;
        }
        bed.wait(5 * SECOND).await;
        assert_eq!(watching.names(), ["a", "b", "c"]);
        watching.told();
        gap(&bed);
        bed.wait(10 * SECOND).await;
        put(&writer, "a", "changed in the gap").await;
        delete(&writer, "a").await;
        delete(&writer, "b").await;
        create(&writer, "b").await;
        bed.wait(120 * SECOND).await;
        (watching.told(), watching.names())
    })
}

#[test]
fn k147_what_vanished_in_a_gap_is_told_with_its_stale_state_by_client_go_and_not_at_all_by_kube_rs() {
    for seed in 0..5 {
        let (told, names) = told_of_a_gap(seed, Model::ClientGo);
        let unknown: Vec<_> =
            told.iter().filter(|notification| matches!(notification, Notification::DeletedFinalStateUnknown { .. })).collect();
        let [Notification::DeletedFinalStateUnknown { key: vanished, object }] = unknown[..] else { panic!("{unknown:?}") };
        assert_eq!((vanished, value(object)), (&key("a"), "0"), "the last state that was known, not the last one");
        assert!(!told.iter().any(|notification| matches!(notification, Notification::Deleted { .. })));
        assert_eq!(names, ["b", "c"]);

        for model in [KUBE_RS, KUBE_RS_ANY] {
            let (told, names) = told_of_a_gap(seed, model);
            assert!(told.iter().all(|notification| notification.key() != key("a")), "{told:?}");
            assert_eq!(names, ["b", "c"], "the store knows better than the handlers");
        }
    }
}

#[test]
fn k148_delete_and_recreate_in_a_gap_is_one_update_with_two_uids() {
    for seed in 0..5 {
        for model in [Model::ClientGo, KUBE_RS] {
            let (told, _) = told_of_a_gap(seed, model);
            let about: Vec<_> = told.iter().filter(|notification| notification.key() == key("b")).collect();
            let [Notification::Updated { old, new }] = about[..] else { panic!("seed {seed} {model:?}: {about:?}") };
            assert_ne!(uid(old), uid(new));
        }
    }
}

#[test]
fn a_gap_that_the_server_remembers_is_caught_up_event_by_event() {
    for model in [Model::ClientGo, KUBE_RS] {
        Testbed::run(1, async |bed| {
            let writer = bed.client("writer");
            let watching = Watching::start(&bed, model, [0; 2]);
            create(&writer, "a").await;
            bed.wait(5 * SECOND).await;
            watching.told();
            let cut = Partition { from: target("watching"), to: target("*") };
            schedule(&bed, &[fault(&bed, 0, 20 * SECOND, FaultKind::Partition(cut))]);
            bed.wait(5 * SECOND).await;
            put(&writer, "a", "1").await;
            delete(&writer, "a").await;
            bed.wait(30 * SECOND).await;
            let told = watching.told();
            let [Notification::Updated { .. }, Notification::Deleted { object }] = &told[..] else { panic!("{told:?}") };
            assert_eq!(value(object), "1");
        });
    }
}

#[test]
fn k149_what_was_deleted_while_the_process_was_down_is_never_mentioned() {
    for seed in 0..5 {
        for model in [Model::ClientGo, KUBE_RS] {
            Testbed::run(seed, async |bed| {
                let writer = bed.client("writer");
                let watching = Watching::start(&bed, model, [0; 2]);
                create(&writer, "a").await;
                create(&writer, "b").await;
                bed.wait(5 * SECOND).await;
                let crash = fault::Crash { process: target("watching"), down: Span::secs(20) };
                schedule(&bed, &[fault(&bed, 0, SECOND, FaultKind::Crash(crash))]);
                bed.wait(5 * SECOND).await;
                watching.told();
                delete(&writer, "a").await;
                bed.wait(60 * SECOND).await;
                assert_eq!(watching.names(), ["b"]);
                let told = watching.told();
                let [Notification::Added { object, initial: true }] = &told[..] else { panic!("{told:?}") };
                assert_eq!(object.metadata.name.as_deref(), Some("b"));
            });
        }
    }
}

/// A process watches through server 0 and sees `new`, which the frozen server 1 does not have. Then it has to list again, and by that time
/// it is connected to server 1. Returns the revisions and names in its store, over time.
fn relist_on_a_frozen_server(seed: u64, model: Model) -> Vec<(u64, Vec<String>)> {
    Testbed::run(seed, async |bed| {
        let writer = bed.client_on("writer", 0);
        create(&writer, "old").await;
        bed.wait(SECOND).await;
        let watching = Watching::start(&bed, model, [0; 2]);
        let freeze = ApiServerFreeze { server: target("apiserver-1"), resource: "configmaps".into() };
        schedule(&bed, &[fault(&bed, 0, 120 * SECOND, FaultKind::ApiServerFreeze(freeze))]);
        bed.wait(SECOND).await;
        create(&writer, "new").await;
        bed.wait(5 * SECOND).await;
        // Revisions of other types increase, so that the watch cannot be resumed once server 0 has forgotten its history.
        writer.create(pod("p", "")).await.unwrap();
        let lost = HistoryLost { server: target("apiserver-0"), resource: "*".into() };
        let moved = fault::Reconnect { process: target("watching"), server: target("apiserver-1") };
        let plan = [fault(&bed, 0, SECOND, FaultKind::HistoryLost(lost)), fault(&bed, 400, SECOND, FaultKind::Reconnect(moved))];
        schedule(&bed, &plan);
        let mut seen = Vec::new();
        for _ in 0..400 {
            let store = watching.store();
            if let Some(version) = store.resource_version() {
                seen.push((version.parse().unwrap(), watching.names()));
            }
            bed.wait(100 * MS).await;
        }
        seen
    })
}

#[test]
fn k150_a_client_go_informer_never_goes_back_within_a_life() {
    for seed in 0..5 {
        let seen = relist_on_a_frozen_server(seed, Model::ClientGo);
        assert!(seen.is_sorted_by_key(|(version, _)| *version), "seed {seed}: {seen:?}");
        assert!(seen.first().unwrap().0 < seen.last().unwrap().0, "it has listed again");
        assert!(seen.iter().all(|(_, names)| *names == ["new", "old"]));
    }
}

#[test]
fn k150_a_kube_rs_informer_that_lists_any_state_goes_back_in_the_middle_of_a_life() {
    for seed in 0..5 {
        let seen = relist_on_a_frozen_server(seed, KUBE_RS_ANY);
        assert!(!seen.is_sorted_by_key(|(version, _)| *version), "seed {seed}");
        assert_eq!(
            (&seen.first().unwrap().1[..], &seen.last().unwrap().1[..]),
            (&["new".to_owned(), "old".to_owned()][..], &["old".to_owned()][..])
        );
        let consistent = relist_on_a_frozen_server(seed, KUBE_RS);
        assert!(consistent.is_sorted_by_key(|(version, _)| *version), "seed {seed}");
    }
}

#[test]
fn k150_a_new_process_can_begin_behind_what_the_old_one_saw() {
    for seed in 0..5 {
        Testbed::run(seed, async |bed| {
            let writer = bed.client_on("writer", 0);
            create(&writer, "old").await;
            bed.wait(SECOND).await;
            let freeze = ApiServerFreeze { server: target("apiserver-1"), resource: "configmaps".into() };
            schedule(&bed, &[fault(&bed, 0, 120 * SECOND, FaultKind::ApiServerFreeze(freeze))]);
            let watching = Watching::start(&bed, Model::ClientGo, [0, 1]);
            create(&writer, "new").await;
            bed.wait(5 * SECOND).await;
            assert_eq!(watching.names(), ["new", "old"]);
            let before = watching.store().resource_version().unwrap().parse::<u64>().unwrap();
            bed.cluster.crash(watching.process);
            bed.cluster.start(watching.process);
            bed.wait(5 * SECOND).await;
            assert_eq!(watching.names(), ["old"], "the second life is connected to the frozen server");
            assert!(watching.store().resource_version().unwrap().parse::<u64>().unwrap() < before);
            bed.wait(120 * SECOND).await;
            assert_eq!(watching.names(), ["new", "old"]);
        });
    }
}

/// The number of tries, out of 20, in which a process does not find its own write in its informer, this long after the answer.
fn misses_its_own_write(seed: u64, after: Duration, lag: bool) -> u32 {
    Testbed::run(seed, async |bed| {
        let client = bed.client_on("client", 0);
        let informer = Informer::<ConfigMap, _>::start(client.clone(), bed.env(&client), InformerOptions::default());
        informer.synced().await;
        if lag {
            let kind = WatchLag { server: target("apiserver-0"), resource: "*".into(), by: Span::secs(2) };
            schedule(&bed, &[fault(&bed, 0, 200 * SECOND, FaultKind::WatchLag(kind))]);
            bed.wait(MS).await;
        }
        create(&client, "a").await;
        bed.wait(5 * SECOND).await;
        let mut missed = 0;
        for round in 1..=20 {
            let written = format!("{round}");
            put(&client, "a", &written).await;
            bed.wait(after).await;
            missed += u32::from(value(&informer.store().get(&key("a")).unwrap()) != written);
            bed.wait(5 * SECOND).await;
            assert_eq!(value(&informer.store().get(&key("a")).unwrap()), written, "it comes in the end");
        }
        missed
    })
}

#[test]
fn k151_a_reader_of_its_own_informer_may_not_see_its_own_write() {
    let missed = |after| (0..5).map(|seed| misses_its_own_write(seed, after, false)).sum::<u32>();
    assert!(missed(Duration::ZERO) > 80, "the answer is quicker than the watch");
    let later = missed(4 * MS);
    assert!((1..100).contains(&later), "{later} of 100: nothing says when it comes");
    assert_eq!(misses_its_own_write(5, SECOND, true), 20);
}
