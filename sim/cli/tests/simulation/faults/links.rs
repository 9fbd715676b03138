//! Faults of links.

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::api::{Call, Patch, Request, TransportError, WatchOptions};
use kube_machinery::{ApiError, Client, ClientExt, WatchStream};
use kube_sim::fault::{DegradedLink, Delay, Duplication, FaultKind, Hold, Loss, OneWayPartition, Partition, Reordering};
use kube_sim::testbed::{Testbed, config_map, from_json, key};
use serde_json::json;
use sim_config::time::Span;

use super::{ALWAYS, MS, SECOND, count, create, probability, reads, stored, strike, target, took};

/// A quorum read of an existing object, within `seconds`.
async fn read(client: &impl Client, seconds: u64) -> Result<(), ApiError> {
    let call = Call::<ConfigMap>::Get { key: key("there"), resource_version: None };
    client.send(Request { call, timeout: Some(std::time::Duration::from_secs(seconds)) }).await.map(drop)
}

#[test]
fn a_partition_cuts_both_directions_until_it_ends_and_nobody_else() {
    Testbed::run(1, async |bed| {
        let (cut_off, other) = (bed.client_on("cut-off", 0), bed.client_on("other", 0));
        create(&other, "there").await.unwrap();
        let kind = FaultKind::Partition(Partition { from: target("cut-off"), to: target("apiserver-*") });
        strike(&bed, 10 * SECOND, kind).await;
        assert_eq!(read(&cut_off, 5).await, Err(TransportError::Deadline.into()));
        assert_eq!(read(&other, 5).await, Ok(()));
        for server in 0..2 {
            let (client, server) = (cut_off.process(), bed.cluster.server_process(server));
            assert!(bed.cluster.network(|net| net.is_cut(client, server) && net.is_cut(server, client)));
        }
        bed.wait(6 * SECOND).await;
        assert_eq!(read(&cut_off, 5).await, Ok(()));
    });
}

#[test]
fn a_quiet_watch_over_a_partition_is_found_dead_after_45_seconds_and_a_shorter_one_loses_nothing() {
    Testbed::run(1, async |bed| {
        let (client, other) = (bed.client_on("client", 0), bed.client_on("other", 0));
        let partition = || FaultKind::Partition(Partition { from: target("client"), to: target("*") });
        let mut watch = client.watch::<ConfigMap>(None, WatchOptions::default()).await.unwrap();
        strike(&bed, 20 * SECOND, partition()).await;
        create(&other, "during").await.unwrap();
        let (silence, event) = took(&bed, watch.next()).await;
        // TCP retransmits 25.4 s after the first transmission.
        assert!((25 * SECOND..26 * SECOND).contains(&silence), "{silence:?}");
        assert!(matches!(event, Some(Ok(_))), "{event:?}");

        strike(&bed, 60 * SECOND, partition()).await;
        let (silence, end) = took(&bed, watch.next()).await;
        assert!((44 * SECOND..46 * SECOND).contains(&silence), "{silence:?}");
        assert_eq!(end.unwrap().unwrap_err(), TransportError::ConnectionLost.into());
    });
}

#[test]
fn a_one_way_partition_from_the_server_commits_and_loses_the_answer() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        let kind = FaultKind::OneWayPartition(OneWayPartition { from: target("apiserver-*"), to: target("client") });
        strike(&bed, 60 * SECOND, kind).await;
        assert_eq!(create(&client, "a").await.unwrap_err(), TransportError::ConnectionLost.into());
        assert!(stored(&bed, "a"));
        bed.wait(20 * SECOND).await;
        create(&client, "b").await.unwrap();
    });
}

#[test]
fn a_one_way_partition_to_the_server_executes_nothing_while_it_lasts() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        let kind = FaultKind::OneWayPartition(OneWayPartition { from: target("client"), to: target("*") });
        strike(&bed, 60 * SECOND, kind).await;
        assert_eq!(create(&client, "a").await.unwrap_err(), TransportError::ConnectionLost.into());
        bed.wait(14 * SECOND).await;
        assert!(!stored(&bed, "a"));
    });
}

#[test]
fn what_loss_takes_is_sent_again_and_nothing_is_lost_after_its_end() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        create(&client, "there").await.unwrap();
        let kind = FaultKind::Loss(Loss { from: target("client"), to: target("*"), chance: probability(0.5) });
        strike(&bed, 200 * SECOND, kind).await;
        let mut late = 0;
        for _ in 0..60 {
            let (time, result) = took(&bed, read(&client, 200)).await;
            result.unwrap();
            late += u64::from(time >= 200 * MS);
        }
        assert!((15..45).contains(&late), "{late} of 60");
        let lost = bed.cluster.network(|net| net.counts.lost);
        assert_eq!(lost, late);
        bed.wait(200 * SECOND).await;
        for _ in 0..60 {
            read(&client, 1).await.unwrap();
        }
        assert_eq!(bed.cluster.network(|net| net.counts.lost), lost);
    });
}

#[test]
fn a_duplicated_request_is_executed_twice_and_answered_once() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        let kind = FaultKind::Duplication(Duplication { from: target("client"), to: target("*"), chance: ALWAYS, gap: Span::secs(2) });
        strike(&bed, 10 * SECOND, kind).await;
        let body: ConfigMap = from_json(json!({"metadata": {"generateName": "copy-", "namespace": "default"}}));
        client.create(body.clone()).await.unwrap();
        assert_eq!(count(&bed), 1);
        bed.wait(3 * SECOND).await;
        assert_eq!(count(&bed), 2, "the copy has arrived");
        bed.wait(10 * SECOND).await;
        client.create(body).await.unwrap();
        bed.wait(3 * SECOND).await;
        assert_eq!(count(&bed), 3);
    });
}

/// The number of rounds, out of 20, in which the second of two patches, sent 200 ms after the first one, overtakes it.
async fn overtaken(bed: &Testbed, client: &kube_sim::cluster::SimClient) -> u32 {
    let mut overtaken = 0;
    for _ in 0..20 {
        for value in ["first", "second"] {
            let patcher = client.clone();
            bed.rt.spawn(client.process(), async move {
                let patch = Patch::merge(json!({"data": {"k": value}}));
                patcher.patch::<ConfigMap>(&key("there"), patch).await.unwrap();
            });
            bed.wait(200 * MS).await;
        }
        bed.wait(5 * SECOND).await;
        let last = client.get::<ConfigMap>(&key("there")).await.unwrap();
        overtaken += u32::from(last.data.as_ref().unwrap()["k"] == "first");
    }
    overtaken
}

#[test]
fn reordering_lets_a_later_request_overtake_an_earlier_one() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        create(&client, "there").await.unwrap();
        let kind =
            FaultKind::Reordering(Reordering { from: target("client"), to: target("*"), chance: probability(0.5), by: Span::secs(2) });
        strike(&bed, 200 * SECOND, kind).await;
        assert!(overtaken(&bed, &client).await > 0);
        bed.wait(200 * SECOND).await;
        assert_eq!(overtaken(&bed, &client).await, 0);
    });
}

#[test]
fn a_delay_adds_to_every_message_of_its_direction() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        let kind = FaultKind::Delay(Delay { from: target("client"), to: target("apiserver-0"), by: Span::secs(2) });
        strike(&bed, 10 * SECOND, kind).await;
        let (slow, _) = took(&bed, create(&client, "a")).await;
        assert!((2 * SECOND..3 * SECOND).contains(&slow), "{slow:?}");
        bed.wait(10 * SECOND).await;
        let (quick, _) = took(&bed, create(&client, "b")).await;
        assert!(quick < SECOND, "{quick:?}");
    });
}

#[test]
fn a_degraded_link_is_slow_for_as_long_as_the_fault_lasts() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        let before = reads(&bed, &client, 200).await;
        let kind = FaultKind::DegradedLink(DegradedLink { from: target("*"), to: target("*") });
        strike(&bed, 100 * SECOND, kind).await;
        let during = reads(&bed, &client, 200).await;
        assert!(during > before * 2, "{during:?} after {before:?}");
        bed.wait(100 * SECOND).await;
        let after = reads(&bed, &client, 200).await;
        assert!(after < before * 2, "{after:?} after {before:?}");
    });
}

#[test]
fn a_held_request_is_executed_when_the_hold_ends() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        strike(&bed, 20 * SECOND, FaultKind::Hold(Hold { from: target("client"), to: target("*") })).await;
        let sender = client.clone();
        bed.rt.spawn(client.process(), async move {
            create(&sender, "a").await.unwrap();
        });
        bed.wait(19 * SECOND).await;
        assert!(!stored(&bed, "a"));
        bed.wait(2 * SECOND).await;
        assert!(stored(&bed, "a"));
        client.update(config_map("a", "k", "w")).await.unwrap();
    });
}

#[test]
fn a_held_answer_arrives_when_the_hold_ends() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        strike(&bed, 20 * SECOND, FaultKind::Hold(Hold { from: target("apiserver-0"), to: target("client") })).await;
        let (waited, created) = took(&bed, create(&client, "a")).await;
        assert!((19 * SECOND..21 * SECOND).contains(&waited) && created.is_ok(), "{waited:?} {created:?}");
    });
}
