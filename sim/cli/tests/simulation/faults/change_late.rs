//! The delay of one change on its way to a process, selected by its number.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::api::{WatchEvent, WatchOptions};
use kube_machinery::{Client, WatchStream};
use kube_sim::cluster::{Logged, SimClient};
use kube_sim::fault::{ChangeLate, FaultKind, WatchClosed};
use kube_sim::testbed::Testbed;
use parking_lot::Mutex;
use sim_config::time::Span;

use super::{SECOND, create, strike, target};

/// The names of the ConfigMaps that a watch has reported to the process of `client`. When a watch ends, another one continues at the same
/// revision.
fn hears(bed: &Testbed, client: &SimClient) -> Arc<Mutex<Vec<String>>> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (slot, client, process) = (heard.clone(), client.clone(), client.process());
    bed.rt.spawn(process, async move {
        let mut seen = None;
        loop {
            let options = WatchOptions { resource_version: seen.clone(), ..WatchOptions::default() };
            let mut watch = client.watch::<ConfigMap>(None, options).await.unwrap();
            while let Some(Ok(WatchEvent::Added(map))) = watch.next().await {
                seen.clone_from(&map.metadata.resource_version);
                slot.lock().extend(map.metadata.name.clone());
            }
        }
    });
    heard
}

/// Delays the second change for `me`.
async fn befalls(bed: &Testbed, by: Span, writes: u32) {
    let late = ChangeLate { process: target("me"), resource: "configmaps".to_owned(), nth: 2, by, writes };
    strike(bed, SECOND, FaultKind::ChangeLate(late)).await;
}

#[test]
fn a_change_waits_for_writes_of_its_process_and_so_does_what_is_behind_it() {
    Testbed::run(1, async |bed| {
        let (me, other) = (bed.client("me"), bed.client("other"));
        bed.cluster.keep_requests();
        befalls(&bed, Span::secs(60), 2).await;
        let (mine, theirs) = (hears(&bed, &me), hears(&bed, &other));
        bed.wait(SECOND).await;
        for name in ["a", "b", "c"] {
            create(&other, name).await.unwrap();
        }
        create(&me, "d").await.unwrap();
        bed.wait(10 * SECOND).await;
        assert_eq!((mine.lock().as_slice(), theirs.lock().len()), (&["a".to_owned()][..], 4), "one write is not two");
        create(&me, "e").await.unwrap();
        bed.wait(SECOND).await;
        assert_eq!(mine.lock().as_slice(), ["a", "b", "c", "d", "e"]);
        let changes = bed.cluster.take_requests().unwrap().into_iter().filter_map(|logged| match logged {
            Logged::Change(change) if change.client == me.process() => Some((change.nth, change.struck)),
            _ => None,
        });
        assert_eq!(changes.collect::<Vec<_>>(), [(1, false), (2, true), (3, false), (4, false), (5, false)]);
    });
}

#[test]
fn a_change_waits_no_longer_than_it_may_and_a_stream_that_ends_loses_nothing() {
    for closed in [false, true] {
        Testbed::run(1, async |bed| {
            let (me, other) = (bed.client("me"), bed.client("other"));
            befalls(&bed, Span::secs(20), 0).await;
            let heard = hears(&bed, &me);
            bed.wait(SECOND).await;
            for name in ["a", "b", "c"] {
                create(&other, name).await.unwrap();
            }
            bed.wait(10 * SECOND).await;
            create(&me, "d").await.unwrap();
            bed.wait(SECOND).await;
            assert_eq!(heard.lock().as_slice(), ["a"], "its writes do not count");
            if closed {
                let kind = FaultKind::WatchClosed(WatchClosed { server: target("apiserver-*"), resource: "configmaps".into() });
                strike(&bed, SECOND, kind).await;
                bed.wait(2 * SECOND).await;
            } else {
                bed.wait(10 * SECOND).await;
            }
            assert_eq!(heard.lock().as_slice(), ["a", "b", "c", "d"], "closed: {closed}");
        });
    }
}
