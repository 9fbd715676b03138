//! K §10.2: GET.

use std::sync::Arc;

use ipam_spiderpool::SpiderIPPool;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_machinery::api::Reason;
use kube_machinery::{ClientExt, Object, ObjectKey, Status};
use kube_sim::cluster::ClusterConfig;
use kube_sim::testbed::{Testbed, config_map, key, pod};
use parking_lot::Mutex;

use super::support::*;

fn value(map: &ConfigMap) -> u64 {
    map.data.as_ref().unwrap()["v"].parse().unwrap()
}

fn check_too_large(status: &Status, wanted: u64, current: u64) {
    assert_eq!((status.code, status.reason), (504, Reason::Timeout));
    assert_eq!(status.message(), format!("Timeout: Too large resource version: {wanted}, current: {current}"));
    assert_eq!((status.details.retry_after_seconds, status.retry_after_header()), (1, Some(1)));
    assert!(status.details.causes.iter().any(|cause| cause.reason == "ResourceVersionTooLarge"), "{status:?}");
}

#[test]
fn k019_a_get_without_rv_sees_every_acknowledged_write_through_a_frozen_server() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            bed.cluster.set_frozen(1, None, true);
            let writers = [bed.client_on("zero", 0), bed.client_on("one", 1)];
            let readers = [bed.client_on("reader-zero", 0), bed.client_on("reader-one", 1)];
            for round in 0..10usize {
                let (writer, reader) = (&writers[round % 2], &readers[(round / 2) % 2]);
                let written = writer.create(config_map("a", "v", "0")).await.unwrap();
                assert_eq!(reader.get::<ConfigMap>(&key("a")).await.unwrap(), written);
                let written = writer.update(config_map("a", "v", "1")).await.unwrap();
                assert_eq!(reader.get::<ConfigMap>(&key("a")).await.unwrap(), written);
                writer.delete::<ConfigMap>(&key("a"), Default::default()).await.unwrap();
                assert!(reader.get::<ConfigMap>(&key("a")).await.unwrap_err().is_not_found());
            }
        });
    }
}

#[test]
fn k019_a_get_without_rv_is_never_older_than_a_write_acknowledged_before_it_was_sent() {
    for seed in SEEDS {
        Testbed::run_with(ClusterConfig { seed, ..ClusterConfig::default() }, 3, async |bed| {
            let admin = bed.client("admin");
            admin.create(config_map("a", "v", "0")).await.unwrap();
            bed.cluster.set_frozen(1, None, true);
            bed.cluster.crash_server(2);
            bed.cluster.restart_server(2, secs(60));
            let acknowledged = Arc::new(Mutex::new(0));
            let mut tasks = Vec::new();
            for number in 0..3 {
                let client = bed.client_on("writer", number);
                let (writer, highest_acknowledged) = (client.clone(), acknowledged.clone());
                tasks.push(spawn(&bed, &client, async move {
                    for _ in 0..20 {
                        let written = rv(&*writer.update(config_map("a", "v", &writer.process().0.to_string())).await.unwrap());
                        let mut highest = highest_acknowledged.lock();
                        *highest = written.max(*highest);
                    }
                }));
                let client = bed.client_on("reader", number);
                let (reader, acknowledged) = (client.clone(), acknowledged.clone());
                tasks.push(spawn(&bed, &client, async move {
                    for _ in 0..20 {
                        let before = *acknowledged.lock();
                        let read = rv(&*reader.get::<ConfigMap>(&key("a")).await.unwrap());
                        assert!(read >= before, "{read} was read after {before} had been acknowledged");
                    }
                }));
            }
            for task in tasks {
                task.await;
            }
        });
    }
}

#[test]
fn k020_a_get_with_rv_zero_on_a_frozen_server_returns_the_frozen_state() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, frozen, fresh) = (bed.client_on("writer", 0), bed.client_on("frozen", 1), bed.client_on("fresh", 0));
            let doomed = writer.create(config_map("doomed", "v", "1")).await.unwrap();
            let old = writer.create(config_map("changed", "v", "1")).await.unwrap();
            bed.wait(secs(5)).await;
            bed.cluster.set_frozen(1, Some(bed.kind::<ConfigMap>()), true);
            writer.delete::<ConfigMap>(&key("doomed"), Default::default()).await.unwrap();
            let new = writer.update(config_map("changed", "v", "2")).await.unwrap();
            let born = writer.create(config_map("born", "v", "1")).await.unwrap();
            for wait in [5, 60, 3_600] {
                bed.wait(secs(wait)).await;
                assert_eq!(frozen.get_cached::<ConfigMap>(&key("doomed"), "0").await.unwrap(), doomed);
                assert_eq!(frozen.get_cached::<ConfigMap>(&key("changed"), "0").await.unwrap(), old);
                let status = refused(frozen.get_cached::<ConfigMap>(&key("born"), "0").await);
                assert_eq!((status.code, status.message().as_str()), (404, "configmaps \"born\" not found"));
                assert!(fresh.get_cached::<ConfigMap>(&key("doomed"), "0").await.unwrap_err().is_not_found());
                assert_eq!(fresh.get_cached::<ConfigMap>(&key("changed"), "0").await.unwrap(), new);
                assert_eq!(fresh.get_cached::<ConfigMap>(&key("born"), "0").await.unwrap(), born);
            }
            bed.cluster.set_frozen(1, None, false);
            bed.wait(secs(5)).await;
            assert_eq!(frozen.get_cached::<ConfigMap>(&key("born"), "0").await.unwrap(), born);
        });
    }
}

#[test]
fn k020_a_server_takes_nothing_from_the_moment_it_is_frozen_stopped_or_cut_off() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            for number in 0..2 {
                bed.cluster.set_extra_lag(number, None, secs(2));
            }
            writer.create(config_map("a", "v", "0")).await.unwrap();
            bed.wait(secs(10)).await;
            // The change is on its way to the cache when the cache is frozen.
            writer.update(config_map("a", "v", "1")).await.unwrap();
            bed.wait(millis(50 * seed)).await;
            let process = bed.cluster.server_process(1);
            let stop = |on: bool| match (seed % 3, on) {
                (0, _) => bed.cluster.set_frozen(1, None, on),
                (1, _) => bed.cluster.set_etcd_cut(1, on),
                (_, true) => drop(bed.cluster.pause(process)),
                (_, false) => drop(bed.cluster.resume(process)),
            };
            stop(true);
            bed.wait(secs(30)).await;
            if seed % 3 == 2 {
                // A stopped server answers when it continues, with its state at that time.
                stop(false);
            }
            assert_eq!(value(&reader.get_cached::<ConfigMap>(&key("a"), "0").await.unwrap()), 0);
            stop(false);
            bed.wait(secs(10)).await;
            assert_eq!(value(&reader.get_cached::<ConfigMap>(&key("a"), "0").await.unwrap()), 1);
        });
    }
}

#[test]
fn k021_two_cached_gets_via_two_servers_may_go_back_in_time() {
    let mut by_lag_alone = 0;
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client("reader"));
            writer.create(config_map("a", "v", "0")).await.unwrap();
            bed.wait(secs(5)).await;
            let mut last = 0;
            for round in 1..50 {
                writer.update(config_map("a", "v", &round.to_string())).await.unwrap();
                reader.connect_to(round % 2);
                let read = value(&reader.get_cached::<ConfigMap>(&key("a"), "0").await.unwrap());
                by_lag_alone += usize::from(read < last);
                last = read;
            }
            bed.wait(secs(5)).await;
            bed.cluster.set_frozen(1, None, true);
            writer.update(config_map("a", "v", "50")).await.unwrap();
            bed.wait(secs(5)).await;
            for (number, expected) in [(0, 50), (1, 49), (0, 50)] {
                reader.connect_to(number);
                assert_eq!(value(&reader.get_cached::<ConfigMap>(&key("a"), "0").await.unwrap()), expected);
            }
        });
    }
    assert!(by_lag_alone > 10, "lag alone made reads go back {by_lag_alone} times in {} runs", SEEDS.end);
}

#[test]
fn k022_a_get_with_rv_n_is_never_older_than_n() {
    let mut waited = 0;
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let writer = bed.client_on("writer", 0);
            let readers = [bed.client_on("reader-zero", 0), bed.client_on("reader-one", 1)];
            bed.cluster.set_extra_lag(1, None, millis(50 * seed));
            writer.create(config_map("a", "v", "0")).await.unwrap();
            for round in 1..10 {
                let written = writer.update(config_map("a", "v", &round.to_string())).await.unwrap();
                let version = written.metadata.resource_version.clone().unwrap();
                for reader in &readers {
                    let sent = bed.rt.now();
                    assert_eq!(reader.get_cached::<ConfigMap>(&key("a"), &version).await.unwrap(), written);
                    let list = reader.list::<ConfigMap>(None, at(&version)).await.unwrap();
                    assert!(list.items.contains(&written) && list.resource_version.parse::<u64>().unwrap() >= rv(&*written));
                    waited += usize::from(bed.rt.now().since(sent) > millis(500));
                }
            }
            writer.delete::<ConfigMap>(&key("a"), Default::default()).await.unwrap();
            let version = bed.revision().to_string();
            for reader in &readers {
                assert!(reader.get_cached::<ConfigMap>(&key("a"), &version).await.unwrap_err().is_not_found());
            }
        });
    }
    assert!(waited > 0, "no read had to wait");
}

#[test]
fn k022_a_version_that_the_cache_does_not_reach_in_3_s_is_too_large() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            let seen = writer.create(config_map("a", "v", "0")).await.unwrap();
            bed.wait(secs(5)).await;
            bed.cluster.set_frozen(1, Some(bed.kind::<ConfigMap>()), true);
            let unseen = writer.update(config_map("a", "v", "1")).await.unwrap();
            for future in [0, 1, 1_000_000] {
                let wanted = rv(&*unseen) + future;
                let sent = bed.rt.now();
                let status = refused(reader.get_cached::<ConfigMap>(&key("a"), &wanted.to_string()).await);
                check_too_large(&status, wanted, rv(&*seen));
                let took = bed.rt.now().since(sent);
                assert!(took >= secs(3) && took < millis(3_500), "{took:?}");
                check_too_large(&refused(reader.list::<ConfigMap>(None, at(&wanted.to_string())).await), wanted, rv(&*seen));
            }
            assert_eq!(reader.get_cached::<ConfigMap>(&key("a"), &rv(&*seen).to_string()).await.unwrap(), seen);
        });
    }
}

#[test]
fn k022_a_frozen_cache_cannot_know_that_a_later_revision_changed_nothing() {
    Testbed::run(1, async |bed| {
        let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
        let map = writer.create(config_map("a", "v", "0")).await.unwrap();
        bed.wait(secs(5)).await;
        let other = writer.create(pod("p", "n1")).await.unwrap();
        // A cache that is connected to etcd is notified of its progress.
        assert_eq!(reader.get_cached::<ConfigMap>(&key("a"), &rv(&*other).to_string()).await.unwrap(), map);
        for stuck in 0..2 {
            if stuck == 0 {
                bed.cluster.set_frozen(1, None, true)
            } else {
                bed.cluster.set_etcd_cut(1, true)
            }
            let other = writer.create(pod(&format!("p{stuck}"), "n1")).await.unwrap();
            let status = refused(reader.get_cached::<ConfigMap>(&key("a"), &rv(&*other).to_string()).await);
            assert_eq!((status.code, status.reason), (504, Reason::Timeout));
            bed.cluster.set_frozen(1, None, false);
        }
    });
}

#[test]
fn k022_a_server_that_initialises_gives_nothing_older_than_was_asked_for() {
    Testbed::run(1, async |bed| {
        let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
        let map = writer.create(config_map("a", "v", "0")).await.unwrap();
        bed.cluster.crash_server(1);
        bed.cluster.restart_server(1, secs(600));
        assert_eq!(reader.get_cached::<ConfigMap>(&key("a"), &rv(&*map).to_string()).await.unwrap(), map);
        let status = refused(reader.get_cached::<ConfigMap>(&key("a"), &(rv(&*map) + 1_000).to_string()).await);
        assert_eq!((status.code, status.reason), (504, Reason::Timeout));
    });
}

#[test]
fn k023_a_missing_object_is_404_with_its_name_and_resource() {
    async fn check<K: Object>(bed: &Testbed, key: &ObjectKey, message: &str, kind: &str, group: &str) {
        for number in 0..2 {
            let client = bed.client_on("reader", number);
            let revision = bed.revision().to_string();
            for result in [client.get::<K>(key).await, client.get_cached::<K>(key, "0").await, client.get_cached::<K>(key, &revision).await]
            {
                let status = refused(result);
                assert_eq!((status.code, status.reason, status.message().as_str()), (404, Reason::NotFound, message));
                let details = &status.details;
                assert_eq!((details.name.as_deref(), &*details.kind, &*details.group), (Some("gone"), kind, group));
            }
        }
    }
    Testbed::run(1, async |bed| {
        check::<ConfigMap>(&bed, &key("gone"), "configmaps \"gone\" not found", "configmaps", "").await;
        check::<Pod>(&bed, &ObjectKey::namespaced("no-such", "gone"), "pods \"gone\" not found", "pods", "").await;
        let group = "spiderpool.spidernet.io";
        check::<SpiderIPPool>(
            &bed,
            &ObjectKey::cluster("gone"),
            &format!("spiderippools.{group} \"gone\" not found"),
            "spiderippools",
            group,
        )
        .await;
    });
}
