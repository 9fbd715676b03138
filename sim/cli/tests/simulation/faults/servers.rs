//! Faults of API servers and of single requests.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_machinery::api::{DeleteOptions, ListOptions, Patch, TransportError, VersionMatch, WatchEvent, WatchOptions};
use kube_machinery::{ApiError, Client, ClientExt, Reason, WatchStream};
use kube_sim::cluster::server::Failure;
use kube_sim::cluster::{ClusterConfig, Knobs, SimClient};
use kube_sim::fault::{
    ApiServerCrash, ApiServerFreeze, ApiServerSlow, Delay, DuplicateRequest, EventLost, FaultKind, Forbidden, LateCommit, LostReply,
    Partition, ServerError, TooManyRequests, Unauthorized, Unavailable,
};
use kube_sim::testbed::{Testbed, config_map, key, pod};
use serde_json::json;
use sim_config::time::Span;

use super::{ALWAYS, MS, SECOND, cached, create, probability, reads, stored, strike, strike_all, target, took};

#[test]
fn a_crashed_api_server_breaks_its_watches_refuses_connections_and_comes_back_without_history() {
    Testbed::run(1, async |bed| {
        let (client, other) = (bed.client_on("client", 0), bed.client_on("other", 1));
        let old = create(&other, "a").await.unwrap();
        create(&other, "b").await.unwrap();
        let mut watch = client.watch::<ConfigMap>(None, WatchOptions::default()).await.unwrap();
        while bed.rt.now() < sim_config::time::SimTime::from_secs(6) {
            bed.wait(100 * MS).await;
        }
        let kind = FaultKind::ApiServerCrash(ApiServerCrash { server: target("apiserver-0"), initializing: Span::secs(3) });
        strike(&bed, 10 * SECOND, kind).await;
        let end = loop {
            match watch.next().await {
                Some(Ok(_)) => {}
                end => break end,
            }
        };
        assert_eq!(end.unwrap().unwrap_err(), TransportError::Reset.into());
        client.connect_to(0);
        assert_eq!(create(&client, "c").await.unwrap_err(), TransportError::Refused.into());
        create(&other, "d").await.unwrap();

        bed.wait(10 * SECOND).await;
        client.connect_to(0);
        assert_eq!(cached(&client).await.unwrap_err().reason(), Some(Reason::TooManyRequests), "its caches are not ready");
        bed.wait(3 * SECOND).await;
        assert_eq!(cached(&client).await.unwrap(), ["a", "b", "d"]);
        let from_before = WatchOptions { resource_version: old.metadata.resource_version.clone(), ..WatchOptions::default() };
        let mut watch = client.watch::<ConfigMap>(None, from_before).await.unwrap();
        let event = watch.next().await.unwrap().unwrap();
        assert!(matches!(&event, kube_machinery::api::WatchEvent::Error(status) if status.code == 410), "{event:?}");
    });
}

#[test]
fn a_write_in_the_hands_of_a_crashing_server_ends_without_an_answer() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        // Etcd is paused, so the write is in progress when the server crashes.
        let crash = FaultKind::ApiServerCrash(ApiServerCrash { server: target("apiserver-0"), initializing: Span::secs(1) });
        let sender = client.clone();
        strike(&bed, 20 * SECOND, FaultKind::EtcdPause(kube_sim::fault::EtcdPause {})).await;
        let answer = std::sync::Arc::new(parking_lot::Mutex::new(None));
        let result = answer.clone();
        bed.rt.spawn(client.process(), async move {
            let created = create(&sender, "a").await;
            *result.lock() = Some(created);
        });
        bed.wait(SECOND).await;
        strike(&bed, 5 * SECOND, crash).await;
        bed.wait(SECOND).await;
        let answer = answer.lock().take();
        assert_eq!(answer.unwrap().unwrap_err(), TransportError::Reset.into());
    });
}

#[test]
fn a_watch_that_a_crashing_server_had_not_opened_yet_breaks_also_if_the_server_is_back() {
    for down in [1, 20] {
        Testbed::run(1, async |bed| {
            let client = bed.client_on("client", 0);
            create(&bed.client_on("other", 1), "a").await.unwrap();
            bed.wait(SECOND).await;
            // Only etcd knows how recent the initial state has to be, and it is paused while the server crashes.
            strike(&bed, 5 * SECOND, FaultKind::EtcdPause(kube_sim::fault::EtcdPause {})).await;
            let options = WatchOptions {
                send_initial_events: true,
                resource_version_match: Some(VersionMatch::NotOlderThan),
                ..WatchOptions::default()
            };
            let (opened, watcher) = (Arc::new(parking_lot::Mutex::new(None)), client.clone());
            let result = opened.clone();
            bed.rt.spawn(client.process(), async move {
                let watch = watcher.watch::<ConfigMap>(None, options).await;
                let first = match watch {
                    Ok(mut watch) => watch.next().await,
                    Err(error) => Some(Err(error)),
                };
                *result.lock() = first;
            });
            bed.wait(SECOND).await;
            let crash = ApiServerCrash { server: target("apiserver-0"), initializing: Span::millis(0) };
            strike(&bed, down * SECOND, FaultKind::ApiServerCrash(crash)).await;
            bed.wait(10 * SECOND).await;
            let first = opened.lock().take();
            assert_eq!(first.expect("it is told").unwrap_err(), TransportError::Reset.into(), "down for {down} s");
        });
    }
}

#[test]
fn a_frozen_server_answers_cached_reads_from_the_past() {
    Testbed::run(1, async |bed| {
        let (frozen, fresh) = (bed.client_on("frozen", 0), bed.client_on("fresh", 1));
        create(&fresh, "old").await.unwrap();
        bed.wait(SECOND).await;
        let kind = FaultKind::ApiServerFreeze(ApiServerFreeze { server: target("apiserver-0"), resource: "configmaps".into() });
        strike(&bed, 60 * SECOND, kind).await;
        create(&frozen, "new").await.unwrap();
        frozen.create(pod("p", "")).await.unwrap();
        bed.wait(30 * SECOND).await;
        assert_eq!(cached(&frozen).await.unwrap(), ["old"]);
        assert_eq!(cached(&fresh).await.unwrap(), ["new", "old"]);
        frozen.get::<ConfigMap>(&key("new")).await.expect("a quorum read does not ask the cache");
        frozen.get_cached::<Pod>(&key("p"), "0").await.expect("other types are not frozen");
        bed.wait(32 * SECOND).await;
        assert_eq!(cached(&frozen).await.unwrap(), ["new", "old"], "nothing is lost");
    });
}

#[test]
fn two_freezes_that_overlap_end_with_the_later_one() {
    Testbed::run(1, async |bed| {
        let frozen = bed.client_on("frozen", 0);
        let freeze = |resource: &str| FaultKind::ApiServerFreeze(ApiServerFreeze { server: target("*"), resource: resource.into() });
        strike_all(&bed, [(10 * SECOND, freeze("*")), (30 * SECOND, freeze("configmaps"))]).await;
        create(&frozen, "new").await.unwrap();
        frozen.create(pod("p", "")).await.unwrap();
        bed.wait(15 * SECOND).await;
        frozen.get_cached::<Pod>(&key("p"), "0").await.expect("only the first fault froze pods");
        assert_eq!(cached(&frozen).await.unwrap(), [""; 0]);
        bed.wait(20 * SECOND).await;
        assert_eq!(cached(&frozen).await.unwrap(), ["new"]);
    });
}

#[test]
fn k182_a_change_that_one_cache_lost_is_missed_by_its_clients_until_the_object_changes_again_or_the_cache_starts_again() {
    for seed in 0..10 {
        Testbed::run(seed, async |bed| {
            let (deaf, other) = (bed.client_on("deaf", 0), bed.client_on("other", 1));
            let consistent = async |client: &SimClient| names(client.list::<ConfigMap>(None, ListOptions::default()).await.unwrap().items);
            let lost = || FaultKind::EventLost(EventLost { server: target("apiserver-0"), resource: "configmaps".into() });
            create(&other, "a").await.unwrap();
            create(&other, "b").await.unwrap();
            bed.wait(2 * SECOND).await;
            let mut watch = deaf.watch::<ConfigMap>(None, after(bed.revision())).await.unwrap();

            // A deletion is lost: its object remains in lists, reads and new watches, and is gone in etcd.
            strike(&bed, 60 * SECOND, lost()).await;
            other.delete::<ConfigMap>(&key("a"), DeleteOptions::default()).await.unwrap();
            other.create(pod("p", "")).await.unwrap();
            bed.wait(10 * SECOND).await;
            assert_eq!(cached(&deaf).await.unwrap(), ["a", "b"]);
            assert_eq!(consistent(&deaf).await, ["a", "b"], "also where the list is consistent: the cache has come so far");
            deaf.get_cached::<ConfigMap>(&key("a"), "0").await.expect("a ghost");
            assert!(deaf.get::<ConfigMap>(&key("a")).await.is_err(), "this asks etcd");
            assert_eq!((cached(&other).await.unwrap(), consistent(&other).await), (vec!["b".to_owned()], vec!["b".to_owned()]));
            let mut begun = deaf.watch::<ConfigMap>(None, WatchOptions::default()).await.unwrap();
            assert_eq!([name(begun.next().await), name(begun.next().await)], ["a", "b"]);

            // Later events arrive, and the object is updated when it changes again.
            create(&other, "c").await.unwrap();
            assert_eq!(name(watch.next().await), "c", "nothing was told of the deletion");
            create(&other, "a").await.unwrap();
            assert_eq!(name(watch.next().await), "a");
            bed.wait(2 * SECOND).await;
            let repaired = deaf.get_cached::<ConfigMap>(&key("a"), "0").await.unwrap();
            assert_eq!(repaired.metadata.uid, other.get::<ConfigMap>(&key("a")).await.unwrap().metadata.uid);
            let known = bed.revision();
            bed.wait(60 * SECOND).await;
            assert!(watch.next().await.is_none(), "the cache has started again");
            let resumed = deaf.watch::<ConfigMap>(None, after(known)).await.unwrap().next().await;
            assert!(matches!(&resumed, Some(Ok(WatchEvent::Error(status))) if status.code == 410), "who resumes has to list: {resumed:?}");

            // A creation is lost, and then the cache restarts.
            strike(&bed, 20 * SECOND, lost()).await;
            create(&other, "d").await.unwrap();
            bed.wait(5 * SECOND).await;
            assert_eq!(consistent(&deaf).await, ["a", "b", "c"]);
            // A client that moves to another server with its known revision receives nothing there, and lists once the bug is fixed.
            let moved = bed.client_on("moved", 1);
            let mut elsewhere = moved.watch::<ConfigMap>(None, after(bed.revision())).await.unwrap();
            bed.wait(20 * SECOND).await;
            let then = bed.rt.now();
            assert!(elsewhere.next().await.is_none() && bed.rt.now().since(then) < SECOND, "its watch has ended by then");
            assert_eq!(
                (consistent(&deaf).await, cached(&deaf).await.unwrap()),
                (strings(["a", "b", "c", "d"]), strings(["a", "b", "c", "d"]))
            );
        });
    }
}

#[test]
fn k182_an_exact_list_lacks_what_a_cache_lost_where_it_comes_from_a_snapshot_until_the_server_compares_it_with_etcd() {
    for (seed, snapshots) in [(0, false), (1, true), (2, false), (3, true)] {
        let knobs = Knobs { list_from_cache_snapshot: snapshots, ..Knobs::default() };
        Testbed::run_with(ClusterConfig { seed, knobs, ..ClusterConfig::default() }, 2, async |bed| {
            let (deaf, other) = (bed.client_on("deaf", 0), bed.client_on("other", 1));
            let list = async |options: ListOptions| names(deaf.list::<ConfigMap>(None, options).await.unwrap().items);
            create(&other, "a").await.unwrap();
            let before = bed.revision();
            bed.wait(2 * SECOND).await;
            strike(&bed, 600 * SECOND, FaultKind::EventLost(EventLost { server: target("apiserver-0"), resource: "configmaps".into() }))
                .await;
            create(&other, "b").await.unwrap();
            create(&other, "c").await.unwrap();
            bed.wait(10 * SECOND).await;

            let exactly = |revision: u64| ListOptions { resource_version_match: Some(VersionMatch::Exact), ..at(revision) };
            let told = |snapshot: &[&str], etcd: &[&str]| if snapshots { snapshot } else { etcd }.join(" ");
            assert_eq!(list(ListOptions::default()).await, ["a", "c"], "the cache has come so far");
            assert_eq!(list(exactly(bed.revision())).await.join(" "), told(&["a", "c"], &["a", "b", "c"]));
            assert_eq!(list(exactly(before)).await, ["a"]);
            let first = deaf.list::<ConfigMap>(None, ListOptions { limit: 1, ..ListOptions::default() }).await.unwrap();
            let next = ListOptions { continue_token: first.continue_token, ..ListOptions::default() };
            assert_eq!((names(first.items).join(" "), list(next).await.join(" ")), ("a".to_owned(), told(&["c"], &["b", "c"])));

            bed.wait(450 * SECOND).await;
            assert_eq!(list(exactly(bed.revision())).await, ["a", "b", "c"], "the server lists from etcd what it can");
            assert_eq!(list(ListOptions::default()).await, ["a", "c"]);
        });
    }
}

fn at(revision: u64) -> ListOptions {
    ListOptions { resource_version: Some(revision.to_string()), ..ListOptions::default() }
}

fn strings<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

fn names(items: Vec<Arc<ConfigMap>>) -> Vec<String> {
    items.iter().map(|item| item.metadata.name.clone().unwrap()).collect()
}

fn after(revision: u64) -> WatchOptions {
    WatchOptions { resource_version: Some(revision.to_string()), ..WatchOptions::default() }
}

/// The name of the object in a watch event.
fn name(element: Option<Result<WatchEvent<ConfigMap>, ApiError>>) -> String {
    match element {
        Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => object.metadata.name.clone().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_slow_api_server_is_slow_for_as_long_as_the_fault_lasts() {
    Testbed::run(1, async |bed| {
        let (slow, other) = (bed.client_on("slow", 0), bed.client_on("other", 1));
        let before = reads(&bed, &slow, 100).await;
        strike(&bed, 300 * SECOND, FaultKind::ApiServerSlow(ApiServerSlow { server: target("apiserver-0") })).await;
        let during = reads(&bed, &slow, 100).await;
        assert!(during > before * 4, "{during:?} after {before:?}");
        let elsewhere = reads(&bed, &other, 100).await;
        assert!(elsewhere < before * 2, "{elsewhere:?} after {before:?}");
        bed.wait(300 * SECOND).await;
        let after = reads(&bed, &slow, 100).await;
        assert!(after < before * 2, "{after:?} after {before:?}");
    });
}

/// Begins a fault that refuses every request of `client`, and checks that nothing is written and no watch is opened.
async fn refused(bed: &Testbed, kind: FaultKind) -> (ApiError, ApiError) {
    let (client, other) = (bed.client_on("client", 0), bed.client_on("other", 0));
    strike(bed, 10 * SECOND, kind).await;
    let error = create(&client, "a").await.unwrap_err();
    let watch = client.watch::<ConfigMap>(None, WatchOptions::default()).await.err().expect("a watch is refused, too");
    create(&other, "b").await.unwrap();
    bed.wait(10 * SECOND).await;
    assert!(!stored(bed, "a"));
    create(&client, "a").await.unwrap();
    client.watch::<ConfigMap>(None, WatchOptions::default()).await.map(drop).unwrap();
    (error, watch)
}

#[test]
fn too_many_requests_executes_nothing_and_says_when_to_come_again() {
    Testbed::run(1, async |bed| {
        let kind = TooManyRequests { server: target("apiserver-*"), client: target("client"), chance: ALWAYS, retry_after: 3 };
        let (error, watch) = refused(&bed, FaultKind::TooManyRequests(kind)).await;
        assert!(matches!(error, ApiError::Plain { code: 429, .. }), "{error:?}");
        assert_eq!((error.retry_after(), watch.code()), (Some(3), Some(429)));
    });
}

#[test]
fn a_server_error_is_etcds_raw_text_and_nothing_is_written() {
    Testbed::run(1, async |bed| {
        let kind = ServerError { server: target("*"), client: target("client"), chance: ALWAYS };
        let (error, watch) = refused(&bed, FaultKind::ServerError(kind)).await;
        assert_eq!((error.code(), error.reason(), watch.code()), (Some(500), Some(Reason::Unknown), Some(500)));
        assert!(error.to_string().contains("etcdserver: request timed out"), "{error}");
    });
}

#[test]
fn an_unavailable_server_executes_nothing() {
    Testbed::run(1, async |bed| {
        let kind = Unavailable { server: target("apiserver-0"), client: target("client"), chance: ALWAYS };
        let (error, watch) = refused(&bed, FaultKind::Unavailable(kind)).await;
        assert_eq!((error.code(), error.retry_after(), watch.code()), (Some(503), Some(1), Some(503)));
    });
}

#[test]
fn forbidden_refuses_one_clients_requests_on_one_resource() {
    Testbed::run(1, async |bed| {
        let probe = bed.client_on("probe", 0);
        let kind = Forbidden { client: target("client,probe"), resource: "configmaps".into() };
        let (error, watch) = refused(&bed, FaultKind::Forbidden(kind.clone())).await;
        assert_eq!((error.reason(), watch.reason()), (Some(Reason::Forbidden), Some(Reason::Forbidden)));
        strike(&bed, 10 * SECOND, FaultKind::Forbidden(kind)).await;
        assert_eq!(cached(&probe).await.unwrap_err().reason(), Some(Reason::Forbidden));
        probe.create(pod("p", "")).await.expect("other resources are allowed");
    });
}

#[test]
fn k202_a_rejected_token_ends_every_request_with_401_and_no_watch_that_is_open() {
    Testbed::run(1, async |bed| {
        let open = bed.client_on("open", 0);
        let mut watch = open.watch::<ConfigMap>(None, after(bed.revision())).await.unwrap();
        let kind = Unauthorized { client: target("client,open") };
        let (error, refused) = refused(&bed, FaultKind::Unauthorized(kind.clone())).await;
        for error in [error, refused] {
            let ApiError::Status(status) = error else { panic!("{error}") };
            assert_eq!((status.code, status.reason, &*status.message()), (401, Reason::Unauthorized, "Unauthorized"));
        }
        assert_eq!(name(watch.next().await), "b", "who watched before goes on");
        strike(&bed, 10 * SECOND, FaultKind::Unauthorized(kind)).await;
        // Authentication comes before the check for capacity.
        let busy = FaultKind::TooManyRequests(TooManyRequests { server: target("*"), client: target("*"), chance: ALWAYS, retry_after: 1 });
        strike(&bed, 5 * SECOND, busy).await;
        assert_eq!(cached(&open).await.unwrap_err().reason(), Some(Reason::Unauthorized));
        bed.wait(10 * SECOND).await;
        assert_eq!(cached(&open).await.unwrap(), ["a", "b"]);
    });
}

#[test]
fn chances_are_what_the_fault_says() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        let kind = ServerError { server: target("*"), client: target("*"), chance: probability(0.25) };
        strike(&bed, 3_000 * SECOND, FaultKind::ServerError(kind)).await;
        let mut failed = 0;
        for number in 0..200 {
            failed += u32::from(create(&client, &format!("c-{number}")).await.is_err());
        }
        assert!((30..70).contains(&failed), "{failed} of 200");
    });
}

#[test]
fn a_lost_reply_commits_and_the_caller_sees_an_error() {
    for (failure, code, retry_after) in [
        (Failure::EtcdTimeout, Some(500), None),
        (Failure::LeaderChanged, Some(500), None),
        (Failure::Timeout, Some(504), None),
        (Failure::ServerTimeout, Some(500), Some(2)),
        (Failure::Reset, None, None),
    ] {
        Testbed::run(1, async |bed| {
            let client = bed.client_on("client", 0);
            let after = Span::secs(3);
            let kind = LostReply { server: target("*"), client: target("client"), chance: ALWAYS, error: failure, after };
            strike(&bed, 10 * SECOND, FaultKind::LostReply(kind)).await;
            let (waited, created) = took(&bed, create(&client, "a")).await;
            let error = created.unwrap_err();
            assert_eq!((error.code(), error.retry_after()), (code, retry_after), "{error}");
            assert!(error.is_ambiguous() && (3 * SECOND..4 * SECOND).contains(&waited), "{error} after {waited:?}");
            assert!(stored(&bed, "a"));
            client.get::<ConfigMap>(&key("a")).await.expect("reads are not touched");
            bed.wait(10 * SECOND).await;
            create(&client, "b").await.unwrap();
        });
    }
}

#[test]
fn a_late_commit_comes_after_the_error() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        let after = Span::secs(34);
        let kind = LateCommit { server: target("*"), client: target("client"), chance: ALWAYS, error: Failure::Timeout, after };
        strike(&bed, SECOND, FaultKind::LateCommit(kind)).await;
        let (waited, created) = took(&bed, create(&client, "a")).await;
        assert_eq!(created.unwrap_err().code(), Some(504));
        assert!(waited < SECOND && !stored(&bed, "a"), "{waited:?}");
        bed.wait(33 * SECOND).await;
        assert!(!stored(&bed, "a"));
        create(&client, "b").await.expect("the fault is over, and what it began goes on");
        bed.wait(2 * SECOND).await;
        assert!(stored(&bed, "a"));
    });
}

#[test]
fn a_late_commit_answers_nobody_else() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        create(&client, "there").await.unwrap();
        let after = Span::secs(3);
        let late = LateCommit { server: target("*"), client: target("client"), chance: ALWAYS, error: Failure::Timeout, after };
        strike(&bed, SECOND, FaultKind::LateCommit(late)).await;
        client.create(pod("p", "")).await.unwrap_err();
        bed.wait(SECOND).await;
        // Requests that are in flight when the pod is finally stored.
        let delay = Delay { from: target("client"), to: target("*"), by: Span::secs(5) };
        strike(&bed, 10 * SECOND, FaultKind::Delay(delay)).await;
        let read = client.get::<ConfigMap>(&key("there")).await.unwrap();
        assert_eq!(read.metadata.name.as_deref(), Some("there"));
        client.get::<Pod>(&key("p")).await.expect("by now it is stored");
    });
}

#[test]
fn a_request_executed_twice_makes_its_caller_meet_its_own_object() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        let kind = DuplicateRequest { server: target("*"), client: target("*"), chance: ALWAYS, gap: Span::secs(2) };
        strike(&bed, 20 * SECOND, FaultKind::DuplicateRequest(kind)).await;
        let (waited, created) = took(&bed, create(&client, "a")).await;
        assert!(created.unwrap_err().is_already_exists() && waited > 2 * SECOND);
        assert!(stored(&bed, "a"));
        let mut guarded = config_map("a", "k", "w");
        guarded.metadata = client.get::<ConfigMap>(&key("a")).await.unwrap().metadata.clone();
        assert!(client.update(guarded).await.unwrap_err().is_conflict(), "a conflict with itself");
        let appended = client.patch::<ConfigMap>(&key("a"), Patch::merge(json!({"data": {"k": "x"}}))).await.unwrap();
        assert_eq!(appended.data.as_ref().unwrap()["k"], "x", "a patch of values is the same twice");
        assert!(super::delete(&client, "a").await.unwrap_err().is_not_found());
        bed.wait(Duration::from_secs(20)).await;
        create(&client, "a").await.unwrap();
    });
}

#[test]
fn k155_a_server_that_is_silent_for_15_s_gets_no_new_connections() {
    let isolate = || FaultKind::Partition(Partition { from: target("apiserver-0"), to: target("*") });
    let crash = || FaultKind::ApiServerCrash(ApiServerCrash { server: target("apiserver-0"), initializing: Span::secs(0) });
    for silence in [isolate, crash] {
        let chosen = |after: Duration| {
            Testbed::run(1, async |bed| {
                strike(&bed, 60 * SECOND, silence()).await;
                bed.wait(after).await;
                (0..40).map(|number| bed.client(&format!("client-{number}")).server()).filter(|server| *server == 0).count()
            })
        };
        let always = chosen(14 * SECOND);
        assert!((5..35).contains(&always), "{always} of 40");
        assert_eq!(chosen(16 * SECOND), 0);
        assert_eq!(chosen(61 * SECOND), always, "it is back");
    }
}
