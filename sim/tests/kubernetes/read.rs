//! K §10.2: GET and LIST.

use std::collections::BTreeSet;
use std::sync::Arc;

use ipam_core::api::{ListOptions, Reason, VersionMatch};
use ipam_core::spiderpool::SpiderIPPool;
use ipam_core::{ClientExt, Env, Object, ObjectKey, Status};
use ipam_sim::cluster::{ClusterConfig, Knobs, SimClient};
use ipam_sim::testbed::{Testbed, config_map, from_json, key, pod};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use parking_lot::Mutex;
use serde_json::json;

use super::support::*;

fn exactly(revision: u64) -> ListOptions {
    ListOptions { resource_version_match: Some(VersionMatch::Exact), ..at(&revision.to_string()) }
}

fn not_older_than(version: &str) -> ListOptions {
    ListOptions { resource_version_match: Some(VersionMatch::NotOlderThan), ..at(version) }
}

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
            bed.fabric.set_frozen(1, None, true);
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
            bed.fabric.set_frozen(1, None, true);
            bed.fabric.crash_server(2);
            bed.fabric.restart_server(2, secs(60));
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
            bed.fabric.set_frozen(1, Some(bed.kind::<ConfigMap>()), true);
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
            bed.fabric.set_frozen(1, None, false);
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
                bed.fabric.set_extra_lag(number, None, secs(2));
            }
            writer.create(config_map("a", "v", "0")).await.unwrap();
            bed.wait(secs(10)).await;
            // The change is on its way to the cache when that stands still.
            writer.update(config_map("a", "v", "1")).await.unwrap();
            bed.wait(millis(50 * seed)).await;
            let process = bed.fabric.server_process(1);
            let stop = |on: bool| match (seed % 3, on) {
                (0, _) => bed.fabric.set_frozen(1, None, on),
                (1, _) => bed.fabric.set_etcd_cut(1, on),
                (_, true) => drop(bed.fabric.pause(process)),
                (_, false) => drop(bed.fabric.resume(process)),
            };
            stop(true);
            bed.wait(secs(30)).await;
            if seed % 3 == 2 {
                // A stopped server answers when it goes on, from what it has then.
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
            bed.fabric.set_frozen(1, None, true);
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
            bed.fabric.set_extra_lag(1, None, millis(50 * seed));
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
            bed.fabric.set_frozen(1, Some(bed.kind::<ConfigMap>()), true);
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
        // A cache that is connected to etcd learns of its progress.
        assert_eq!(reader.get_cached::<ConfigMap>(&key("a"), &rv(&*other).to_string()).await.unwrap(), map);
        for stuck in 0..2 {
            if stuck == 0 {
                bed.fabric.set_frozen(1, None, true)
            } else {
                bed.fabric.set_etcd_cut(1, true)
            }
            let other = writer.create(pod(&format!("p{stuck}"), "n1")).await.unwrap();
            let status = refused(reader.get_cached::<ConfigMap>(&key("a"), &rv(&*other).to_string()).await);
            assert_eq!((status.code, status.reason), (504, Reason::Timeout));
            bed.fabric.set_frozen(1, None, false);
        }
    });
}

#[test]
fn k022_a_server_that_initialises_gives_nothing_older_than_was_asked_for() {
    Testbed::run(1, async |bed| {
        let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
        let map = writer.create(config_map("a", "v", "0")).await.unwrap();
        bed.fabric.crash_server(1);
        bed.fabric.restart_server(1, secs(600));
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

/// What is known of objects that are created once and deleted once.
#[derive(Default)]
struct Known {
    created: BTreeSet<String>,
    doomed: BTreeSet<String>,
    removed: BTreeSet<String>,
}

async fn create_and_delete(client: SimClient, known: Arc<Mutex<Known>>) {
    for round in 0..15 {
        let own = format!("{}-{round}", client.process().0);
        client.create(config_map(&own, "v", "0")).await.unwrap();
        known.lock().created.insert(own.clone());
        if round % 3 != 0 {
            known.lock().doomed.insert(own.clone());
            client.delete::<ConfigMap>(&key(&own), Default::default()).await.unwrap();
            known.lock().removed.insert(own);
        }
    }
}

#[test]
fn k024_a_list_without_rv_has_what_was_acknowledged_before_it_was_sent() {
    for seed in SEEDS {
        let knobs = Knobs { consistent_list_from_cache: seed % 2 == 0, ..Knobs::default() };
        Testbed::run_with(ClusterConfig { seed, knobs, ..ClusterConfig::default() }, 3, async |bed| {
            bed.fabric.set_frozen(1, None, true);
            bed.fabric.set_extra_lag(2, None, millis(30));
            let known = Arc::new(Mutex::new(Known::default()));
            let mut tasks = Vec::new();
            for number in 0..3 {
                let client = bed.client_on("writer", number);
                tasks.push(spawn(&bed, &client, create_and_delete(client.clone(), known.clone())));
                let client = bed.client_on("reader", number);
                let (reader, known) = (client.clone(), known.clone());
                tasks.push(spawn(&bed, &client, async move {
                    for _ in 0..10 {
                        let (created, removed) = {
                            let known = known.lock();
                            (known.created.clone(), known.removed.clone())
                        };
                        let list = reader.list::<ConfigMap>(Some("default"), ListOptions::default()).await.unwrap();
                        let listed: BTreeSet<String> = list.items.iter().map(|map| name(&**map)).collect();
                        let doomed = known.lock().doomed.clone();
                        for own in created.difference(&doomed) {
                            assert!(listed.contains(own), "{own} was created and is missing");
                        }
                        assert_eq!(
                            listed.intersection(&removed).collect::<Vec<_>>(),
                            Vec::<&String>::new(),
                            "removed before, listed after"
                        );
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
fn k025_a_list_with_rv_zero_is_one_state_of_the_past() {
    let mut stale = 0;
    for seed in SEEDS {
        Testbed::run_with(ClusterConfig { seed, ..ClusterConfig::default() }, 3, async |bed| {
            bed.fabric.set_extra_lag(1, None, millis(40));
            let mut writers = Vec::new();
            for number in 0..3 {
                let client = bed.client_on("writer", number);
                writers.push(spawn(&bed, &client, churn(bed.clone(), client.clone(), 40)));
            }
            let readers: Vec<SimClient> = (0..3).map(|number| bed.client_on("reader", number)).collect();
            for round in 0..60 {
                if round == 30 {
                    bed.fabric.set_frozen(2, None, true);
                }
                let reader = &readers[round % 3];
                for namespace in [None, Some("other")] {
                    let list = reader.list::<ConfigMap>(namespace, at("0")).await.unwrap();
                    let revision = list.resource_version.parse().unwrap();
                    stale += usize::from(revision < bed.revision());
                    let mut expected = state_at::<ConfigMap>(&bed, revision);
                    expected.retain(|key, _| namespace.is_none_or(|namespace| key.starts_with(&format!("{namespace}/"))));
                    assert_eq!(state_of(&list.items), expected, "as of {revision} on server {}", round % 3);
                }
            }
            for writer in writers {
                writer.await;
            }
        });
    }
    assert!(stale > 100, "the lists were stale {stale} times");
}

/// Creates `count` ConfigMaps in each of two namespaces, in no order.
async fn fill(bed: &Testbed, count: usize) {
    let client = bed.client("filler");
    let mut names: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        names.swap(last, bed.env(&client).random() as usize % (last + 1));
    }
    for number in names {
        for namespace in if number % 2 == 0 { ["default", "other"] } else { ["other", "default"] } {
            client.create(config_map_in(namespace, &format!("m-{number:02}"), "0")).await.unwrap();
        }
    }
}

#[test]
fn k026_a_list_with_rv_zero_ignores_the_limit() {
    Testbed::run(1, async |bed| {
        fill(&bed, 10).await;
        bed.wait(secs(5)).await;
        let client = bed.client("reader");
        for options in [at("0"), not_older_than("0")] {
            let list = client.list::<ConfigMap>(None, ListOptions { limit: 3, ..options }).await.unwrap();
            assert_eq!((list.items.len(), list.continue_token, list.remaining), (20, None, None));
        }
        let list = client.list::<ConfigMap>(None, ListOptions { limit: 3, ..ListOptions::default() }).await.unwrap();
        assert_eq!((list.items.len(), list.remaining), (3, Some(17)));
    });
}

#[test]
fn k027_items_are_ordered_by_namespace_then_name() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            fill(&bed, 8).await;
            bed.wait(secs(5)).await;
            let client = bed.client("reader");
            let latest = bed.revision();
            for options in [ListOptions::default(), at("0"), at(&latest.to_string()), exactly(latest), exactly(latest - 3)] {
                let list = client.list::<ConfigMap>(None, options).await.unwrap();
                let keys: Vec<(String, String)> =
                    list.items.iter().map(|map| (map.metadata.namespace.clone().unwrap(), name(&**map))).collect();
                assert!(keys.len() > 12 && keys.is_sorted(), "{keys:?}");
            }
        });
    }
}

/// Reads every page, with `between` after each; returns the pages' items together.
async fn pages(client: &SimClient, options: ListOptions, between: impl AsyncFn()) -> Vec<Arc<ConfigMap>> {
    let limit = options.limit;
    let first = client.list::<ConfigMap>(None, options.clone()).await.unwrap();
    let (revision, mut items) = (first.resource_version, first.items);
    let (mut token, mut remaining) = (first.continue_token, first.remaining);
    while let Some(continued) = token {
        between().await;
        let (resource_version, resource_version_match) = (None, None);
        let page_options = ListOptions { continue_token: Some(continued), resource_version, resource_version_match, ..options.clone() };
        let page = client.list::<ConfigMap>(None, page_options).await.unwrap();
        assert_eq!(page.resource_version, revision, "every page is of one revision");
        if let Some(before) = remaining {
            assert_eq!(page.items.len() as u64 + page.remaining.unwrap_or(0), before);
        }
        assert!(page.continue_token.is_none() || page.items.len() == limit as usize);
        items.extend(page.items);
        (token, remaining) = (page.continue_token, page.remaining);
    }
    items
}

#[test]
fn k028_the_pages_of_a_list_are_one_snapshot() {
    for seed in SEEDS {
        let knobs = Knobs { consistent_list_from_cache: seed % 2 == 0, ..Knobs::default() };
        Testbed::run_with(ClusterConfig { seed, knobs, ..ClusterConfig::default() }, 2, async |bed| {
            fill(&bed, 6).await;
            let (writer, reader) = (bed.client("writer"), bed.client("reader"));
            for limit in [1, 2, 5, 11, 12, 13] {
                bed.wait(secs(5)).await;
                let revision = bed.revision();
                let expected = state_at::<ConfigMap>(&bed, revision);
                let version = if limit % 2 == 0 { None } else { Some(revision.to_string()) };
                let options = ListOptions { limit, resource_version: version, ..ListOptions::default() };
                let items = pages(&reader, options, async || {
                    churn(bed.clone(), writer.clone(), 6).await;
                    writer.create(config_map_in("other", &format!("zz-{}", bed.revision()), "0")).await.unwrap();
                    drop(writer.delete::<ConfigMap>(&ObjectKey::namespaced("other", "m-05"), Default::default()).await);
                    reader.connect_to(1 - reader.server());
                })
                .await;
                assert_eq!(state_of(&items), expected, "limit {limit}");
            }
        });
    }
}

async fn first_page(client: &SimClient, limit: u32) -> ListOptions {
    let page = client.list::<ConfigMap>(None, ListOptions { limit, ..ListOptions::default() }).await.unwrap();
    ListOptions { limit, continue_token: page.continue_token, ..ListOptions::default() }
}

#[test]
fn k029_a_continue_token_from_before_a_compaction_is_expired_and_replaced() {
    Testbed::run(1, async |bed| {
        fill(&bed, 5).await;
        let (writer, reader) = (bed.client("writer"), bed.client("reader"));
        let next = first_page(&reader, 4).await;
        bed.fabric.compact(bed.revision());
        // The revision itself is still there.
        reader.list::<ConfigMap>(None, next.clone()).await.unwrap();
        writer.create(config_map("x", "v", "0")).await.unwrap();
        bed.fabric.compact(bed.revision());
        let status = refused(reader.list::<ConfigMap>(None, next.clone()).await);
        assert_eq!((status.code, status.reason), (410, Reason::Expired));
        assert!(
            status.message().starts_with("The provided continue parameter is too old to display a consistent list result."),
            "{status}"
        );
        let fresh = status.continue_token.expect("a replacement");
        assert!(!fresh.is_empty() && Some(&fresh) != next.continue_token.as_ref());
    });
}

#[test]
fn k030_the_replacement_goes_on_at_the_latest_revision() {
    Testbed::run(1, async |bed| {
        fill(&bed, 5).await;
        let (writer, reader) = (bed.client("writer"), bed.client("reader"));
        let next = first_page(&reader, 4).await;
        let early = writer.create(config_map("a-before", "v", "0")).await.unwrap();
        let late = writer.create(config_map_in("other", "z-after", "0")).await.unwrap();
        let gone = ObjectKey::namespaced("other", "m-04");
        writer.delete::<ConfigMap>(&gone, Default::default()).await.unwrap();
        bed.fabric.compact(bed.revision());
        let fresh = refused(reader.list::<ConfigMap>(None, next).await).continue_token;
        let rest = reader.list::<ConfigMap>(None, ListOptions { continue_token: fresh, ..ListOptions::default() }).await.unwrap();
        assert_eq!(rest.resource_version, bed.revision().to_string());
        assert!(rest.items.contains(&late) && !rest.items.contains(&early));
        assert!(!rest.items.iter().any(|map| ObjectKey::of(&**map) == gone));
        assert_eq!(rest.items.len(), 10 - 4 + 1 - 1);
    });
}

#[test]
fn k031_an_exact_list_is_that_state_or_expired() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            bed.fabric.set_frozen((seed % 2) as usize, None, true);
            let first = bed.revision();
            let client = bed.client("client");
            churn(bed.clone(), client.clone(), 40).await;
            let last = bed.revision();
            let middle = first + (last - first) / 2;
            for revision in first..=last {
                let list = client.list::<ConfigMap>(None, exactly(revision)).await.unwrap();
                assert_eq!(list.resource_version, revision.to_string());
                assert_eq!(state_of(&list.items), state_at::<ConfigMap>(&bed, revision), "as of {revision}");
                // The legacy rule: with a limit, the version is exact.
                let legacy = client.list::<ConfigMap>(None, ListOptions { limit: 500, ..at(&revision.to_string()) }).await.unwrap();
                assert_eq!((legacy.resource_version, legacy.items), (list.resource_version, list.items));
            }
            let status = refused(client.list::<ConfigMap>(None, exactly(last + 1)).await);
            assert_eq!((status.code, status.reason), (504, Reason::Timeout));
            assert!(status.message().starts_with(&format!("Timeout: Too large resource version: {}", last + 1)), "{status}");
            let kept: Vec<StateOf> = (middle..=last).map(|revision| state_at::<ConfigMap>(&bed, revision)).collect();
            bed.fabric.compact(middle);
            for revision in first..middle {
                let status = refused(client.list::<ConfigMap>(None, exactly(revision)).await);
                assert_eq!((status.code, status.reason), (410, Reason::Expired));
                assert!(status.message().contains("too old"), "{status}");
            }
            for (revision, expected) in (middle..=last).zip(kept) {
                let list = client.list::<ConfigMap>(None, exactly(revision)).await.unwrap();
                assert_eq!(state_of(&list.items), expected);
            }
        });
    }
}

#[test]
fn k032_a_match_needs_a_version_that_it_can_match() {
    Testbed::run(1, async |bed| {
        fill(&bed, 3).await;
        let client = bed.client("reader");
        let token = first_page(&client, 2).await;
        for matching in [VersionMatch::Exact, VersionMatch::NotOlderThan] {
            let bare = ListOptions { resource_version_match: Some(matching), ..ListOptions::default() };
            let zero = ListOptions { resource_version: Some("0".into()), ..bare.clone() };
            let continued = ListOptions { resource_version_match: Some(matching), ..token.clone() };
            let both = ListOptions { resource_version: Some("0".into()), ..continued.clone() };
            let mut refusals = vec![bare, continued, both];
            if matching == VersionMatch::Exact {
                refusals.push(zero);
            }
            for options in refusals {
                let status = refused(client.list::<ConfigMap>(None, options.clone()).await);
                assert_eq!((status.code, status.reason), (422, Reason::Invalid), "{options:?}");
                assert_eq!(status.details.causes[0].field, "resourceVersionMatch");
                assert!(status.message().contains("resourceVersionMatch: Forbidden: "), "{status}");
            }
        }
    });
}

#[test]
fn k033_a_continue_token_with_a_version_is_a_bad_request() {
    Testbed::run(1, async |bed| {
        fill(&bed, 3).await;
        let client = bed.client("reader");
        let token = first_page(&client, 2).await;
        for version in ["1", &bed.revision().to_string(), "1000000"] {
            let status =
                refused(client.list::<ConfigMap>(None, ListOptions { resource_version: Some(version.into()), ..token.clone() }).await);
            assert_eq!((status.code, status.reason), (400, Reason::BadRequest));
        }
        for version in ["", "0"] {
            let options = ListOptions { resource_version: Some(version.into()), ..token.clone() };
            assert_eq!(client.list::<ConfigMap>(None, options).await.unwrap().items.len(), 2);
        }
    });
}

#[test]
fn k034_a_list_with_a_selector_does_not_say_how_many_items_remain() {
    Testbed::run(1, async |bed| {
        fill(&bed, 5).await;
        let client = bed.client("reader");
        let limited = |options: ListOptions| ListOptions { limit: 2, ..options };
        for (options, expected) in [
            (ListOptions::default(), Some(8)),
            (ListOptions { label_selector: Some("!gone".into()), ..ListOptions::default() }, None),
            (ListOptions { field_selector: Some("metadata.namespace!=nowhere".into()), ..ListOptions::default() }, None),
        ] {
            let list = client.list::<ConfigMap>(None, limited(options)).await.unwrap();
            assert_eq!((list.items.len(), list.remaining), (2, expected));
            assert!(list.continue_token.is_some());
        }
    });
}

#[test]
fn k035_selectors_give_the_matching_part_of_the_same_state() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let client = bed.client("client");
            let random = bed.env(&client);
            for number in 0..12 {
                let body: Pod = from_json(json!({
                    "metadata": {"name": format!("p{number}"), "namespace": if number % 4 == 0 { "other" } else { "default" },
                                 "labels": {"app": format!("app-{}", random.random() % 3)}},
                    "spec": {"nodeName": format!("n{}", random.random() % 2), "containers": []},
                }));
                let key = ObjectKey::of(&body);
                client.create(body).await.unwrap();
                let phase = if random.random() % 2 == 0 { "Running" } else { "Failed" };
                let patch = ipam_core::api::Patch::merge(json!({"status": {"phase": phase}}));
                client.patch_status::<Pod>(&key, patch).await.unwrap();
            }
            bed.wait(secs(5)).await;
            let label = |pod: &Pod| pod.metadata.labels.as_ref().unwrap()["app"].clone();
            let node = |pod: &Pod| pod.spec.as_ref().unwrap().node_name.clone().unwrap();
            let failed = |pod: &Pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Failed");
            type Wanted<'a> = Box<dyn Fn(&Pod) -> bool + 'a>;
            let cases: Vec<(Option<&str>, Option<&str>, Wanted<'_>)> = vec![
                (Some("app=app-1"), None, Box::new(|pod| label(pod) == "app-1")),
                (Some("app!=app-1"), None, Box::new(|pod| label(pod) != "app-1")),
                (Some("app in (app-0,app-2)"), None, Box::new(|pod| label(pod) != "app-1")),
                (Some("nothing"), None, Box::new(|_| false)),
                (None, Some("spec.nodeName=n1"), Box::new(|pod| node(pod) == "n1")),
                (None, Some("status.phase!=Failed"), Box::new(|pod| !failed(pod))),
                (None, Some("metadata.namespace=other"), Box::new(|pod| pod.metadata.namespace.as_deref() == Some("other"))),
                (None, Some("metadata.name=p3"), Box::new(|pod| name(pod) == "p3")),
                (
                    Some("app=app-0"),
                    Some("spec.nodeName=n0,status.phase=Failed"),
                    Box::new(|pod| label(pod) == "app-0" && node(pod) == "n0" && failed(pod)),
                ),
            ];
            let revision = bed.revision();
            for options in [ListOptions::default(), at("0"), exactly(revision), exactly(revision - 5)] {
                let whole = client.list::<Pod>(None, options.clone()).await.unwrap();
                for (labels, fields, wanted) in &cases {
                    let label_selector = labels.map(str::to_owned);
                    let options = ListOptions { label_selector, field_selector: fields.map(str::to_owned), ..options.clone() };
                    let list = client.list::<Pod>(None, options.clone()).await.unwrap();
                    let expected: Vec<Arc<Pod>> = whole.items.iter().filter(|pod| wanted(pod)).cloned().collect();
                    assert_eq!((list.resource_version, list.items), (whole.resource_version.clone(), expected), "{options:?}");
                }
            }
            for fields in ["spec.nodeNames=n1", "metadata.uid=x", "status.phases=Failed", "spec"] {
                let options = ListOptions { field_selector: Some(fields.to_owned()), ..ListOptions::default() };
                assert_eq!(refused(client.list::<Pod>(None, options.clone()).await).code, 400, "{fields}");
                assert_eq!(refused(client.list::<ConfigMap>(None, options).await).code, 400, "{fields}");
            }
            let options = ListOptions { field_selector: Some("spec.nodeName=n1".to_owned()), ..ListOptions::default() };
            let status = refused(client.list::<ConfigMap>(None, options).await);
            assert_eq!((status.code, status.reason), (400, Reason::BadRequest));
        });
    }
}

#[test]
fn k036_a_server_that_initialises_says_so_instead_of_listing_nothing() {
    for seed in SEEDS {
        let knobs = Knobs { consistent_list_from_cache: seed % 2 == 0, ..Knobs::default() };
        Testbed::run_with(ClusterConfig { seed, knobs, ..ClusterConfig::default() }, 2, async |bed| {
            fill(&bed, 3).await;
            bed.fabric.crash_server(1);
            bed.wait(secs(10)).await;
            bed.fabric.restart_server(1, secs(20));
            let client = bed.client_on("reader", 1);
            let revision = bed.revision().to_string();
            for options in [ListOptions::default(), at("0"), at(&revision), not_older_than("0"), exactly(bed.revision())] {
                let from_cache = options.resource_version.is_some() && options.resource_version_match != Some(VersionMatch::Exact);
                match client.list::<ConfigMap>(None, options.clone()).await {
                    Ok(list) => assert!(!from_cache && list.items.len() == 6, "{options:?}: {} items", list.items.len()),
                    Err(error) => {
                        assert_eq!((error.code(), error.reason()), (Some(429), Some(Reason::TooManyRequests)), "{options:?}");
                        assert!(error.retry_after().is_some_and(|seconds| (1..=30).contains(&seconds)));
                    }
                }
            }
            // A GET falls through to etcd.
            client.get_cached::<ConfigMap>(&key("m-01"), "0").await.unwrap();
            bed.wait(secs(20)).await;
            assert_eq!(client.list::<ConfigMap>(None, at("0")).await.unwrap().items.len(), 6);
        });
    }
}

#[test]
fn k036_a_server_that_comes_back_without_etcd_has_nothing_to_list() {
    Testbed::run(1, async |bed| {
        fill(&bed, 3).await;
        let client = bed.client_on("reader", 1);
        bed.fabric.crash_server(1);
        bed.fabric.set_etcd_cut(1, true);
        bed.fabric.restart_server(1, secs(5));
        bed.wait(secs(60)).await;
        let status = refused(client.list::<ConfigMap>(None, at("0")).await);
        assert_eq!((status.code, status.reason), (429, Reason::TooManyRequests));
        bed.fabric.set_etcd_cut(1, false);
        bed.wait(secs(5)).await;
        assert_eq!(client.list::<ConfigMap>(None, at("0")).await.unwrap().items.len(), 6);

        // So does a cache that has to begin again.
        bed.fabric.set_etcd_cut(1, true);
        bed.client_on("writer", 0).create(config_map("new", "v", "0")).await.unwrap();
        bed.fabric.forget_history(1, Some(bed.kind::<ConfigMap>()));
        bed.wait(secs(60)).await;
        assert_eq!(refused(client.list::<ConfigMap>(None, at("0")).await).code, 429);
        client.list::<Pod>(None, at("0")).await.unwrap();
        bed.fabric.set_etcd_cut(1, false);
        bed.wait(secs(5)).await;
        assert_eq!(client.list::<ConfigMap>(None, at("0")).await.unwrap().items.len(), 7);
    });
}
