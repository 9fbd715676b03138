//! Faults of watches.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_machinery::api::{TransportError, WatchEvent, WatchOptions};
use kube_machinery::{Client, Object, WatchStream};
use kube_sim::cluster::SimClient;
use kube_sim::fault::{CacheLag, DiscoveryFails, FaultKind, HistoryLost, Reconnect, WatchClosed, WatchLag};
use kube_sim::testbed::Testbed;
use sim_config::time::Span;

use super::{MS, SECOND, cached, create, strike, target, took};

async fn open<K: Object>(client: &SimClient, version: Option<&str>) -> kube_sim::cluster::SimWatch<K> {
    let options = WatchOptions { resource_version: version.map(str::to_owned), ..WatchOptions::default() };
    client.watch::<K>(None, options).await.unwrap()
}

/// The object of the next event.
async fn added(watch: &mut kube_sim::cluster::SimWatch<ConfigMap>) -> (String, String) {
    match watch.next().await {
        Some(Ok(WatchEvent::Added(object))) => (object.metadata.name.clone().unwrap(), object.metadata.resource_version.clone().unwrap()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_closed_watch_ends_cleanly_and_can_be_resumed() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        let (mut maps, mut pods) = (open::<ConfigMap>(&client, None).await, open::<Pod>(&client, None).await);
        create(&client, "a").await.unwrap();
        let (_, seen) = added(&mut maps).await;
        let kind = FaultKind::WatchClosed(WatchClosed { server: target("apiserver-*"), resource: "configmaps".into() });
        strike(&bed, SECOND, kind).await;
        create(&client, "b").await.unwrap();
        assert!(maps.next().await.is_none(), "neither an ERROR element nor a transport error");
        let mut maps = open::<ConfigMap>(&client, Some(&seen)).await;
        assert_eq!(added(&mut maps).await.0, "b", "nothing is missed");
        client.create_pod().await;
        assert!(matches!(pods.next().await, Some(Ok(WatchEvent::Added(_)))), "watches of other resources go on");
    });
}

trait CreatePod {
    async fn create_pod(&self);
}

impl CreatePod for SimClient {
    async fn create_pod(&self) {
        use kube_machinery::ClientExt;
        self.create(kube_sim::testbed::pod("p", "")).await.unwrap();
    }
}

#[test]
fn a_lagging_watch_tells_late_and_in_order() {
    Testbed::run(1, async |bed| {
        let (client, other) = (bed.client_on("client", 0), bed.client_on("other", 1));
        let mut watch = open::<ConfigMap>(&client, None).await;
        let kind = FaultKind::WatchLag(WatchLag { server: target("apiserver-0"), resource: "*".into(), by: Span::secs(5) });
        strike(&bed, SECOND, kind).await;
        create(&other, "a").await.unwrap();
        bed.wait(SECOND).await;
        assert_eq!((cached(&client).await.unwrap().len(), cached(&other).await.unwrap().len()), (0, 1));
        create(&other, "b").await.unwrap();
        let (waited, (name, _)) = took(&bed, added(&mut watch)).await;
        assert!((3_900 * MS..4_500 * MS).contains(&waited), "{waited:?}");
        assert_eq!((name.as_str(), added(&mut watch).await.0.as_str()), ("a", "b"), "the later change does not overtake");
        create(&other, "c").await.unwrap();
        let (waited, _) = took(&bed, added(&mut watch)).await;
        assert!(waited < SECOND, "{waited:?}");
    });
}

#[test]
fn a_lagging_cache_is_late_for_one_process_and_one_resource() {
    Testbed::run(1, async |bed| {
        let (client, other) = (bed.client_on("client", 0), bed.client_on("other", 0));
        let (mut late, mut pods) = (open::<ConfigMap>(&client, None).await, open::<Pod>(&client, None).await);
        let mut prompt = open::<ConfigMap>(&other, None).await;
        let kind = FaultKind::CacheLag(CacheLag { process: target("client"), resource: "configmaps".into(), by: Span::secs(5) });
        strike(&bed, SECOND, kind).await;
        create(&other, "a").await.unwrap();
        other.create_pod().await;
        for (waited, late) in [(took(&bed, added(&mut prompt)).await.0, false), (took(&bed, added(&mut late)).await.0, true)] {
            assert_eq!(waited > 4 * SECOND, late, "{waited:?}");
        }
        assert!(matches!(pods.next().await, Some(Ok(WatchEvent::Added(_)))));
        assert_eq!(cached(&client).await.unwrap().len(), 1, "what it asks for itself is not late");
        bed.wait(SECOND).await;
        create(&other, "b").await.unwrap();
        assert!(took(&bed, added(&mut late)).await.0 < SECOND, "the fault is over");
    });
}

#[test]
fn what_cannot_be_found_out_about_is_one_type_for_one_process_while_the_fault_lasts() {
    Testbed::run(1, async |bed| {
        let [client, other] = [bed.client_on("client", 0), bed.client_on("other", 0)].map(|client| client.process());
        let (maps, pods) = (bed.kind::<ConfigMap>(), bed.kind::<Pod>());
        assert!(bed.cluster.discovers(client, maps));
        strike(&bed, SECOND, FaultKind::DiscoveryFails(DiscoveryFails { process: target("client"), resource: "configmaps".into() })).await;
        assert!(!bed.cluster.discovers(client, maps));
        assert!(bed.cluster.discovers(client, pods) && bed.cluster.discovers(other, maps));
        bed.wait(SECOND).await;
        assert!(bed.cluster.discovers(client, maps), "the fault is over");
    });
}

#[test]
fn lost_history_ends_watches_and_makes_older_versions_too_old() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        let mut watch = open::<ConfigMap>(&client, None).await;
        create(&client, "a").await.unwrap();
        let (_, seen) = added(&mut watch).await;
        create(&client, "b").await.unwrap();
        added(&mut watch).await;
        let kind = FaultKind::HistoryLost(HistoryLost { server: target("apiserver-0"), resource: "*".into() });
        strike(&bed, SECOND, kind).await;
        assert!(watch.next().await.is_none());
        let mut resumed = open::<ConfigMap>(&client, Some(&seen)).await;
        let event = resumed.next().await.unwrap().unwrap();
        assert!(matches!(&event, WatchEvent::Error(status) if status.code == 410), "{event:?}");
        client.connect_to(1);
        let mut elsewhere = open::<ConfigMap>(&client, Some(&seen)).await;
        assert_eq!(added(&mut elsewhere).await.0, "b", "the other server remembers");
    });
}

#[test]
fn a_reconnect_breaks_all_watches_and_leads_to_the_given_server() {
    for seed in 0..10 {
        Testbed::run(seed, async |bed| {
            let client = bed.client_on("client", 0);
            let mut watches = Vec::new();
            for _ in 0..5 {
                watches.push(open::<ConfigMap>(&client, None).await);
            }
            let kind = FaultKind::Reconnect(Reconnect { process: target("client"), server: target("apiserver-1") });
            strike(&bed, SECOND, kind).await;
            for watch in &mut watches {
                assert_eq!(watch.next().await.unwrap().unwrap_err(), TransportError::Reset.into());
            }
            assert_eq!(client.server(), 1, "five streams broke with one connection");
            create(&client, "a").await.unwrap();
        });
    }
}
