//! K201: etcd restored from a backup. Later commits are lost, but clients still know them.

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::ClientExt;
use kube_machinery::api::{ListOptions, Reason, VersionMatch, WatchEvent};
use kube_sim::cluster::server::{Failure, InjectedFault};
use kube_sim::testbed::{Testbed, config_map, key};

use super::expect::{calm, entry, trouble};
use super::support::*;

/// Stops all API servers, restores a backup that is `age` seconds old, and starts them again.
async fn restore(bed: &Testbed, age: u64, bump: u64) {
    let servers = bed.cluster.servers();
    (0..servers).for_each(|server| bed.cluster.crash_server(server));
    let by = bed.rt.add_process(bed.rt.add_host("operator"), "operator");
    bed.cluster.restore_backup(by, secs(age), bump);
    bed.wait(secs(1)).await;
    (0..servers).for_each(|server| bed.cluster.restart_server(server, secs(1)));
    bed.wait(secs(5)).await;
}

#[test]
fn k201_what_was_committed_since_the_backup_has_never_been() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let client = bed.client("client");
            let kept = client.create(config_map("kept", "v", "0")).await.unwrap();
            client.create(config_map("removed", "v", "0")).await.unwrap();
            bed.wait(secs(10)).await;
            let backed_up = bed.revision();
            bed.wait(secs(10)).await;
            for value in 1..=20 {
                set(&client, "kept", value).await;
            }
            let lost = client.get::<ConfigMap>(&key("kept")).await.unwrap();
            client.create(config_map("new", "v", "0")).await.unwrap();
            client.delete::<ConfigMap>(&key("removed"), Default::default()).await.unwrap();
            let (before, known) = (bed.revision(), rv(&*lost));
            restore(&bed, 15, 0).await;

            assert_eq!(bed.revision(), backed_up);
            let now = client.get::<ConfigMap>(&key("kept")).await.unwrap();
            assert_eq!((entry(&now, "v"), rv(&*now), uid(&*now)), ("0".into(), rv(&*kept), uid(&*kept)));
            assert!(client.get::<ConfigMap>(&key("removed")).await.is_ok());
            assert!(client.get::<ConfigMap>(&key("new")).await.unwrap_err().is_not_found());
            // A client with a version that will occur again is refused, whether the version counts as new or old.
            assert_eq!(refused(client.update((*lost).clone()).await).reason, Reason::Conflict);
            let get = refused(client.get_cached::<ConfigMap>(&key("kept"), &known.to_string()).await);
            let exactly = ListOptions { resource_version_match: Some(VersionMatch::Exact), ..at(&before.to_string()) };
            let list = refused(client.list::<ConfigMap>(None, at(&before.to_string())).await);
            let exact = refused(client.list::<ConfigMap>(None, exactly).await);
            for status in [get, list, exact] {
                assert_eq!((status.code, status.reason), (504, Reason::Timeout), "{status}");
                assert!(status.message().starts_with("Timeout: Too large resource version: "), "{status}");
            }
            // A watch from there opens, and is silent until etcd reaches that revision.
            let mut stream = watch::<ConfigMap>(&client, after(before)).await;
            let mut last = 0;
            while last < before {
                last = set(&client, "kept", last).await;
            }
            assert!(hear(&bed, &mut stream, secs(5)).await.events.is_empty());
            let next = set(&client, "kept", 7).await;
            assert_eq!(hear(&bed, &mut stream, secs(5)).await.lines(), [("MODIFIED", "default/kept".to_owned(), next)]);
        });
    }
}

#[test]
fn k201_behind_a_bumped_revision_clients_list_again() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let client = bed.client("client");
            client.create(config_map("kept", "v", "0")).await.unwrap();
            bed.wait(secs(10)).await;
            let backed_up = bed.revision();
            bed.wait(secs(10)).await;
            let known = set(&client, "kept", 1).await;
            restore(&bed, 15, 1_000_000).await;
            assert_eq!(bed.revision(), backed_up + 1_000_000);
            let heard = hear(&bed, &mut watch::<ConfigMap>(&client, after(known)).await, secs(5)).await;
            let [WatchEvent::Error(status)] = &heard.events[..] else { panic!("a single ERROR expected: {:?}", heard.all()) };
            assert_eq!((status.code, status.reason), (410, Reason::Expired));
            assert_eq!(client.list::<ConfigMap>(None, at("0")).await.unwrap().items.len(), 1);
            assert!(set(&client, "kept", 2).await > backed_up + 1_000_000);
        });
    }
}

#[test]
fn k201_what_was_sent_to_etcd_before_is_not_carried_out_after_it() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let client = bed.client("client");
            client.create(config_map("kept", "v", "0")).await.unwrap();
            bed.wait(secs(10)).await;
            trouble(&bed, &client, &[], InjectedFault::CommitLate { error: Failure::Timeout, after: secs(3) });
            client.create(config_map("late", "v", "0")).await.unwrap_err();
            calm(&bed);
            restore(&bed, 1, 0).await;
            assert!(client.get::<ConfigMap>(&key("late")).await.unwrap_err().is_not_found());
        });
    }
}
