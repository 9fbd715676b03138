//! Faults of etcd.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_machinery::api::{DeleteOptions, ListOptions, VersionMatch, WatchEvent, WatchOptions};
use kube_machinery::{ApiError, Client, ClientExt, Reason, WatchStream};
use kube_sim::cluster::SimClient;
use kube_sim::fault::{
    ApiServerCrash, Compaction, EtcdCut, EtcdElection, EtcdNoQuorum, EtcdOutOfSpace, EtcdPause, EtcdRestored, EtcdSlow, FaultKind,
    RevisionJump,
};
use kube_sim::testbed::{Testbed, config_map, grace, key, pod};
use parking_lot::Mutex;
use sim_config::time::Span;

use super::{SECOND, cached, create, stored, strike, strike_all, target, took};

#[test]
fn a_write_waits_while_etcd_stands_still_and_caches_answer() {
    Testbed::run(1, async |bed| {
        let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
        create(&writer, "a").await.unwrap();
        bed.wait(SECOND).await;
        strike(&bed, 5 * SECOND, FaultKind::EtcdPause(EtcdPause {})).await;
        let (quick, names) = took(&bed, cached(&reader)).await;
        assert_eq!((quick < SECOND, names.unwrap()), (true, vec!["a".to_owned()]));
        let (waited, created) = took(&bed, create(&writer, "b")).await;
        assert!((4 * SECOND..6 * SECOND).contains(&waited) && created.is_ok(), "{waited:?} {created:?}");
        let (quick, created) = took(&bed, create(&writer, "c")).await;
        assert!(quick < SECOND && created.is_ok());
    });
}

#[test]
fn two_troubles_of_etcd_that_overlap_end_with_the_later_one() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        let pause = FaultKind::EtcdPause(EtcdPause {});
        strike_all(&bed, [(2 * SECOND, pause.clone()), (5 * SECOND, pause)]).await;
        let (waited, created) = took(&bed, create(&client, "a")).await;
        assert!((4 * SECOND..6 * SECOND).contains(&waited) && created.is_ok(), "{waited:?} {created:?}");
    });
}

/// Creates `n` ConfigMaps at once and returns, `wait` later, the result of each and the time that it took.
async fn create_many(bed: &Testbed, client: &SimClient, n: usize, wait: Duration) -> Vec<(Duration, Result<(), ApiError>)> {
    let results = Arc::new(Mutex::new(vec![None; n]));
    for number in 0..n {
        let (client, results, rt) = (client.clone(), results.clone(), bed.rt.clone());
        bed.rt.spawn(client.process(), async move {
            let started = rt.now();
            let result = create(&client, &format!("c-{number}")).await.map(drop);
            results.lock()[number] = Some((rt.now() - started, result));
        });
    }
    bed.wait(wait).await;
    let results = std::mem::take(&mut *results.lock());
    results.into_iter().map(|result| result.expect("it has ended")).collect()
}

#[test]
fn some_writes_during_an_election_end_with_an_error_and_some_of_those_are_committed() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        strike(&bed, 3 * SECOND, FaultKind::EtcdElection(EtcdElection {})).await;
        let results = create_many(&bed, &client, 60, 30 * SECOND).await;
        let mut seen = [0; 3];
        for (number, (waited, result)) in results.iter().enumerate() {
            assert!(*waited > 2 * SECOND, "{waited:?}");
            let committed = stored(&bed, &format!("c-{number}"));
            match result {
                Ok(()) => assert!(committed),
                Err(error) => assert!(error.to_string().contains("leader changed"), "{error}"),
            }
            seen[usize::from(result.is_err()) + usize::from(result.is_err() && committed)] += 1;
        }
        assert!(seen.iter().all(|&times| times > 5), "acknowledged, refused for good, committed in spite of an error: {seen:?}");
        create(&client, "after").await.unwrap();
    });
}

#[test]
fn without_a_majority_writes_fail_caches_answer_and_some_writes_commit_when_it_is_back() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        create(&client, "a").await.unwrap();
        bed.wait(SECOND).await;
        strike(&bed, 30 * SECOND, FaultKind::EtcdNoQuorum(EtcdNoQuorum {})).await;
        let results = create_many(&bed, &client, 40, 20 * SECOND).await;
        for (waited, result) in &results {
            assert!((7 * SECOND..8 * SECOND).contains(waited), "{waited:?}");
            assert_eq!(result.as_ref().unwrap_err().code(), Some(500));
        }
        let committed = |bed: &Testbed| (0..40).filter(|number| stored(bed, &format!("c-{number}"))).count();
        assert_eq!(committed(&bed), 0);
        assert_eq!(cached(&client).await.unwrap(), ["a"]);
        assert_eq!(client.get::<ConfigMap>(&key("a")).await.unwrap_err().code(), Some(500), "a quorum read needs a quorum");
        bed.wait(10 * SECOND).await;
        assert!((8..32).contains(&committed(&bed)), "{} of 40", committed(&bed));
        create(&client, "b").await.unwrap();
    });
}

/// The duration of `n` consecutive writes.
async fn writes(bed: &Testbed, client: &SimClient, prefix: &str, n: usize) -> Duration {
    let started = bed.rt.now();
    for number in 0..n {
        create(client, &format!("{prefix}-{number}")).await.unwrap();
    }
    bed.rt.now() - started
}

#[test]
fn a_slow_etcd_slows_writes_on_every_server() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        let before = writes(&bed, &client, "before", 40).await;
        strike(&bed, 300 * SECOND, FaultKind::EtcdSlow(EtcdSlow {})).await;
        for server in 0..2 {
            client.connect_to(server);
            let during = writes(&bed, &client, &format!("during-{server}"), 40).await;
            assert!(during > before * 4, "{during:?} after {before:?}");
        }
        bed.wait(300 * SECOND).await;
        let after = writes(&bed, &client, "after", 40).await;
        assert!(after < before * 2, "{after:?} after {before:?}");
    });
}

#[test]
fn a_server_cut_off_from_etcd_hangs_and_shows_the_past_while_others_work() {
    Testbed::run(1, async |bed| {
        let (cut, fine) = (bed.client_on("cut", 0), bed.client_on("fine", 1));
        create(&fine, "old").await.unwrap();
        bed.wait(SECOND).await;
        strike(&bed, 20 * SECOND, FaultKind::EtcdCut(EtcdCut { server: target("apiserver-0") })).await;
        create(&fine, "new").await.unwrap();
        let (waited, created) = took(&bed, create(&cut, "a")).await;
        assert!((7 * SECOND..8 * SECOND).contains(&waited) && created.is_err(), "{waited:?} {created:?}");
        assert_eq!(cached(&cut).await.unwrap(), ["old"]);
        bed.wait(15 * SECOND).await;
        assert!(cached(&cut).await.unwrap().contains(&"new".to_owned()));
        create(&cut, "b").await.unwrap();
    });
}

#[test]
fn a_server_that_restarts_without_etcd_is_not_ready_until_it_reaches_it() {
    Testbed::run(1, async |bed| {
        let (cut, fine) = (bed.client_on("cut", 0), bed.client_on("fine", 1));
        create(&fine, "old").await.unwrap();
        let crash = ApiServerCrash { server: target("apiserver-0"), initializing: Span::secs(1) };
        let cut_off = EtcdCut { server: target("apiserver-0") };
        strike_all(&bed, [(5 * SECOND, FaultKind::ApiServerCrash(crash)), (20 * SECOND, FaultKind::EtcdCut(cut_off))]).await;
        bed.wait(15 * SECOND).await;
        create(&fine, "new").await.unwrap();
        cut.connect_to(0);
        assert_eq!(cached(&cut).await.unwrap_err().reason(), Some(Reason::TooManyRequests), "it knows nothing yet");
        bed.wait(6 * SECOND).await;
        assert_eq!(cached(&cut).await.unwrap(), ["new", "old"]);
    });
}

#[test]
fn after_a_compaction_the_past_cannot_be_read_exactly() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        let old = create(&client, "a").await.unwrap().metadata.resource_version.clone();
        create(&client, "b").await.unwrap();
        let exact = ListOptions { resource_version: old, resource_version_match: Some(VersionMatch::Exact), ..ListOptions::default() };
        assert_eq!(client.list::<ConfigMap>(None, exact.clone()).await.unwrap().items.len(), 1);
        strike(&bed, SECOND, FaultKind::Compaction(Compaction {})).await;
        assert!(client.list::<ConfigMap>(None, exact).await.unwrap_err().is_expired());
        assert_eq!(client.list::<ConfigMap>(None, ListOptions::default()).await.unwrap().items.len(), 2, "the present can be read");
    });
}

#[test]
fn a_revision_jump_leaves_a_gap_between_two_writes() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        let revision =
            async |name: &str| -> u64 { create(&client, name).await.unwrap().metadata.resource_version.as_ref().unwrap().parse().unwrap() };
        let before = revision("a").await;
        strike(&bed, SECOND, FaultKind::RevisionJump(RevisionJump { by: 5_000 })).await;
        assert_eq!(revision("b").await, before + 5_001);
        assert_eq!(revision("c").await, before + 5_002);
    });
}

#[test]
fn k163_etcd_at_its_quota_stores_nothing_and_removes_what_goes_at_once() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        let full = |result: Result<(), ApiError>| {
            let Err(ApiError::Status(status)) = result else { panic!("{result:?}") };
            assert_eq!((status.code, &status.reason), (500, &Reason::Unknown));
            assert_eq!(status.message(), "etcdserver: mvcc: database space exceeded");
        };
        let with_finalizer = |name: &str, finalizers: &[&str]| {
            let mut object = config_map(name, "k", "0");
            object.metadata.finalizers = (!finalizers.is_empty()).then(|| finalizers.iter().map(|&text| text.to_owned()).collect());
            object
        };
        for name in ["a", "b"] {
            create(&client, name).await.unwrap();
        }
        for name in ["held", "going"] {
            client.create(with_finalizer(name, &["example.com/f"])).await.unwrap();
        }
        client.delete::<ConfigMap>(&key("going"), DeleteOptions::default()).await.unwrap();
        client.create(pod("p", "n1")).await.unwrap();
        strike(&bed, 20 * SECOND, FaultKind::EtcdOutOfSpace(EtcdOutOfSpace {})).await;
        full(create(&client, "new").await.map(drop));
        full(create(&client, "a").await.map(drop));
        full(client.update(config_map("a", "k", "1")).await.map(drop));
        let mut stale = config_map("a", "k", "2");
        stale.metadata.resource_version = Some("1".to_owned());
        assert!(client.update(stale).await.unwrap_err().is_conflict());
        full(client.delete::<ConfigMap>(&key("held"), DeleteOptions::default()).await.map(drop));
        full(client.delete::<Pod>(&key("p"), DeleteOptions::default()).await.map(drop));
        full(client.delete::<Pod>(&key("p"), grace(0)).await.map(drop));
        client.delete::<ConfigMap>(&key("b"), DeleteOptions::default()).await.unwrap();
        client.update(with_finalizer("going", &[])).await.unwrap();
        assert_eq!(["a", "b", "new", "held", "going"].map(|name| stored(&bed, name)), [true, false, false, true, false]);
        assert_eq!(cached(&client).await.unwrap(), ["a", "held"], "reads and watches go on");
        bed.wait(20 * SECOND).await;
        create(&client, "new").await.unwrap();
    });
}

#[test]
fn k201_a_restored_backup_forgets_what_is_younger_and_servers_are_down_meanwhile() {
    for (bump, resumes) in [(0, true), (1_000_000, false)] {
        Testbed::run(1, async |bed| {
            let client = bed.client_on("client", 0);
            create(&client, "old").await.unwrap();
            bed.wait(30 * SECOND).await;
            create(&client, "young").await.unwrap();
            bed.wait(5 * SECOND).await;
            let known = bed.revision().to_string();
            strike(&bed, 10 * SECOND, FaultKind::EtcdRestored(EtcdRestored { age: Span::secs(20), bump })).await;
            assert!(matches!(create(&client, "new").await, Err(ApiError::Transport(_))), "nobody is there");
            bed.wait(15 * SECOND).await;
            assert_eq!(["old", "young"].map(|name| stored(&bed, name)), [true, false]);
            let options = WatchOptions { resource_version: Some(known), ..WatchOptions::default() };
            let mut watch = client.watch::<ConfigMap>(None, options).await.unwrap();
            create(&client, "new").await.unwrap();
            // If revisions went back, that creation is not new to a client that knows a later revision.
            create(&client, "newer").await.unwrap();
            let seen = watch.next().await;
            let expired = matches!(&seen, Some(Ok(WatchEvent::Error(status))) if status.code == 410);
            assert_eq!(expired, !resumes, "{seen:?}");
        });
    }
}
