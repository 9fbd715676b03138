//! K §10.8: errors, time limits, overload, and what a failed write may have done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ipam_core::api::{
    Call, DeleteOptions, ListOptions, Patch, PatchKind, Reason, Request, TransportError, Verb, VersionMatch, WatchOptions,
};
use ipam_core::{ApiError, Client, ClientExt, ObjectKey};
use ipam_sim::cluster::admission::{FailurePolicy, Forbidden};
use ipam_sim::cluster::server::{Failure, Mishap};
use ipam_sim::cluster::{EtcdTrouble, SimClient};
use ipam_sim::draw::{Concern, Draw};
use ipam_sim::net::{Effect, Rule, Side};
use ipam_sim::testbed::{Testbed, config_map, from_json, grace, key, pod};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use parking_lot::Mutex;
use serde_json::json;

use super::expect::*;

/// One error of every kind that an API server gives.
async fn every_error(bed: &Testbed) -> Vec<ApiError> {
    let client = bed.client("client");
    let map = client.create(config_map("a", "v", "1")).await.unwrap();
    client.update(labelled(&*map, "by", "another")).await.unwrap();
    client.create(pod("a", "n1")).await.unwrap();
    client.create(config_map("b", "v", "1")).await.unwrap();
    let strategic = Patch { kind: PatchKind::Strategic, body: Arc::new(json!({})) };
    let moved = changed(&pod("a", "n2"), |_| {});
    let mut errors = vec![
        client.patch::<ConfigMap>(&key("a"), Patch::merge(json!(1))).await.unwrap_err(),
        client.get::<ConfigMap>(&key("missing")).await.unwrap_err(),
        client.create(config_map("a", "v", "1")).await.unwrap_err(),
        client.update(labelled(&*map, "by", "me")).await.unwrap_err(),
        client.create(config_map("c", "v", &"x".repeat(4 << 20))).await.unwrap_err(),
        client.patch::<ConfigMap>(&key("a"), strategic).await.unwrap_err(),
        client.update(moved).await.unwrap_err(),
        client.create::<ConfigMap>(map).await.unwrap_err(),
        client.get_cached::<ConfigMap>(&key("a"), "999999").await.unwrap_err(),
    ];
    bed.fabric.compact(bed.revision());
    let first = client.list::<ConfigMap>(None, ListOptions { limit: 1, ..ListOptions::default() }).await.unwrap();
    client.create(config_map("d", "v", "1")).await.unwrap();
    bed.fabric.compact(bed.revision());
    let next = ListOptions { limit: 1, continue_token: first.continue_token, ..ListOptions::default() };
    errors.push(client.list::<ConfigMap>(None, next).await.unwrap_err());
    bed.fabric.forbid(Forbidden { fault: Some(1), clients: Side::Any, verbs: Vec::new(), kinds: Vec::new() });
    errors.push(client.get::<ConfigMap>(&key("a")).await.unwrap_err());
    bed.fabric.permit(Some(1));
    for failure in FAILURES {
        trouble(bed, &client, &[Verb::Update], Mishap::LoseReply { error: failure, after: Duration::ZERO });
        errors.push(client.update(config_map("b", "v", "2")).await.unwrap_err());
        calm(bed);
    }
    for mishap in [Mishap::TooManyRequests { retry_after: 7 }, Mishap::Unavailable, Mishap::FailBeforeCommit] {
        trouble(bed, &client, &[Verb::Update], mishap);
        errors.push(client.update(config_map("b", "v", "2")).await.unwrap_err());
        calm(bed);
    }
    let hooked = hook::<ConfigMap, _>(bed, "down.example.com", false, FailurePolicy::Fail, |_, _| async { Ok(None) });
    bed.fabric.crash(hooked.process);
    errors.push(client.update(config_map("b", "v", "3")).await.unwrap_err());
    let server = client.server();
    bed.fabric.crash_server(server);
    bed.fabric.restart_server(server, secs(60));
    client.connect_to(server);
    let any = ListOptions { resource_version: Some("0".to_owned()), ..ListOptions::default() };
    errors.push(client.list::<ConfigMap>(None, any).await.unwrap_err());
    errors
}

#[test]
fn k109_every_error_body_is_a_status_that_agrees_with_its_http_code() {
    Testbed::run(1, async |bed| {
        let mut reasons = BTreeSet::new();
        let (mut plain, mut broken) = (0, 0);
        for error in every_error(&bed).await {
            match &error {
                ApiError::Status(status) => {
                    // The continue token of an expired list is the one thing that metadata may hold.
                    if status.continue_token.is_none() {
                        body_of(&error);
                    }
                    let wire = serde_json::to_value(status.to_wire()).unwrap();
                    assert_eq!((&wire["kind"], &wire["apiVersion"], &wire["status"]), (&json!("Status"), &json!("v1"), &json!("Failure")));
                    assert_eq!(wire["code"], json!(error.code()));
                    assert_eq!((wire.get("reason").is_none(), status.code), (status.reason == Reason::Unknown, status.reason.code()));
                    assert!(!wire["message"].as_str().unwrap().is_empty());
                    reasons.insert(status.reason.as_str());
                }
                ApiError::Plain { code, .. } => {
                    assert_eq!((*code, error.to_string().as_str()), (429, "Too many requests, please try again later."));
                    plain += 1;
                }
                ApiError::Transport(_) => broken += 1,
            }
        }
        assert_eq!((plain, broken), (1, 1));
        let expected = [
            "",
            "AlreadyExists",
            "BadRequest",
            "Conflict",
            "Expired",
            "Forbidden",
            "InternalError",
            "Invalid",
            "NotFound",
            "RequestEntityTooLarge",
            "ServerTimeout",
            "ServiceUnavailable",
            "Timeout",
            "TooManyRequests",
            "UnsupportedMediaType",
        ];
        assert_eq!(reasons.into_iter().collect::<Vec<_>>(), expected);
    });
}

#[test]
fn k110_retry_after_is_sent_exactly_with_a_positive_hint() {
    Testbed::run(1, async |bed| {
        let mut with_header = BTreeSet::new();
        for error in every_error(&bed).await {
            let header = error.retry_after();
            match &error {
                ApiError::Status(status) => {
                    let wire = serde_json::to_value(status.to_wire()).unwrap();
                    let hint = wire.pointer("/details/retryAfterSeconds").and_then(serde_json::Value::as_u64);
                    assert_eq!(header.map(u64::from), hint.filter(|&hint| hint > 0), "{wire}");
                }
                ApiError::Plain { .. } => assert_eq!(header, Some(7)),
                ApiError::Transport(_) => assert_eq!(header, None),
            }
            with_header.extend(header.map(|seconds| (error.code().unwrap(), error.reason().unwrap().as_str(), seconds)));
        }
        let expected = [
            (429, "TooManyRequests", 1),
            (429, "TooManyRequests", 7),
            (500, "ServerTimeout", 2),
            (503, "ServiceUnavailable", 1),
            (504, "Timeout", 1),
        ];
        assert_eq!(with_header.into_iter().collect::<Vec<_>>(), expected, "a deadline has no hint, a future version has one");
    });
}

#[test]
fn k111_etcds_errors_have_no_reason_and_the_two_timeouts_their_own_codes() {
    Testbed::run(1, async |bed| {
        let client = bed.client("client");
        client.create(pool("p")).await.unwrap();
        for (failure, code, reason, message) in [
            (Failure::EtcdTimeout, 500, "", "etcdserver: request timed out"),
            (Failure::LeaderChanged, 500, "", "etcdserver: leader changed"),
            (Failure::Timeout, 504, "Timeout", "Timeout: request did not complete within requested timeout - context deadline exceeded"),
        ] {
            trouble(&bed, &client, &[], Mishap::LoseReply { error: failure, after: Duration::ZERO });
            assert_eq!(refused(client.get::<ConfigMap>(&key("a")).await), status(code, reason, message, json!(null)));
            assert_eq!(refused(client.create(config_map("a", "v", "1")).await), status(code, reason, message, json!(null)));
            calm(&bed);
        }
        trouble(&bed, &client, &[], Mishap::LoseReply { error: Failure::ServerTimeout, after: Duration::ZERO });
        let expected = |operation: &str| {
            let message = format!("The {operation} operation against {POOLS} could not be completed at this time, please try again.");
            let mut details = about(POOLS, operation);
            details["retryAfterSeconds"] = json!(2);
            status(500, "ServerTimeout", &message, details)
        };
        let name = ObjectKey::cluster("p");
        type Pool = ipam_core::spiderpool::SpiderIPPool;
        assert_eq!(refused(client.get::<Pool>(&name).await), expected("get"));
        assert_eq!(refused(client.list::<Pool>(None, ListOptions::default()).await), expected("list"));
        assert_eq!(refused(client.create(pool("q")).await), expected("create"));
        assert_eq!(refused(client.update(pool("p")).await), expected("update"));
        assert_eq!(refused(client.patch::<Pool>(&name, Patch::merge(json!({}))).await), expected("update"));
        assert_eq!(refused(client.delete::<Pool>(&name, DeleteOptions::default()).await), expected("delete"));
        calm(&bed);
        // Etcd itself, not a fault of single requests.
        bed.fabric.set_etcd_trouble(Some(EtcdTrouble::NoQuorum));
        let body = refused(client.get::<ConfigMap>(&key("a")).await);
        assert_eq!(body, status(500, "", "etcdserver: request timed out", json!(null)));
    });
}

#[test]
fn k112_the_two_kinds_of_409_differ_in_their_reason_only() {
    Testbed::run(1, async |bed| {
        let client = bed.client("client");
        let map = client.create(config_map("a", "v", "1")).await.unwrap();
        client.update(labelled(&*map, "by", "another")).await.unwrap();
        let exists = client.create(config_map("a", "v", "1")).await.unwrap_err();
        let conflict = client.update(labelled(&*map, "by", "me")).await.unwrap_err();
        assert_eq!((exists.code(), conflict.code()), (Some(409), Some(409)));
        assert_eq!((exists.reason(), conflict.reason()), (Some(Reason::AlreadyExists), Some(Reason::Conflict)));
        assert_eq!((exists.is_already_exists(), exists.is_conflict()), (true, false));
        assert_eq!((conflict.is_already_exists(), conflict.is_conflict()), (false, true));
        let details = |error: &ApiError| body_of(error)["details"].clone();
        assert_eq!(details(&exists), details(&conflict));
    });
}

#[test]
fn k113_a_refused_write_never_has_an_effect() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            // Several writers at once, most of whose writes are refused; the successful ones are counted.
            let admin = bed.client("admin");
            let map = admin.create(config_map("a", "v", "1")).await.unwrap();
            admin.create(pod("a", "n1")).await.unwrap();
            let before = bed.revision();
            let mut running = Vec::new();
            for number in 0..4 {
                let client = bed.client_on("writer", number % 2);
                trouble_sometimes(&bed, &client);
                if number == 3 {
                    let clients = Side::Only(vec![client.process()]);
                    bed.fabric.forbid(Forbidden { fault: Some(1), clients, verbs: vec![Verb::Create], kinds: Vec::new() });
                }
                let (writer, map) = (client.clone(), map.clone());
                running.push(start(&bed, &client, async move {
                    let mut outcomes = Vec::new();
                    for round in 0..12 {
                        let name = format!("w{number}-{round}");
                        outcomes.push(writer.create(config_map(&name, "v", "1")).await.map(|_| ()));
                        outcomes.push(writer.update(labelled(&*map, "by", &name)).await.map(|_| ()));
                        outcomes.push(writer.update(config_map("missing", "v", "1")).await.map(|_| ()));
                        outcomes.push(writer.update(pod("a", &name)).await.map(|_| ()));
                        outcomes.push(writer.delete::<Pod>(&key("a"), if_uid("x")).await.map(|_| ()));
                        outcomes.push(writer.create(config_map("a", "v", &name)).await.map(|_| ()));
                    }
                    outcomes
                }));
            }
            let mut codes = BTreeMap::new();
            let mut done = 0;
            for outcomes in running {
                for outcome in outcomes.await.unwrap() {
                    match outcome {
                        Ok(()) => done += 1,
                        Err(error) => {
                            assert!(!error.is_ambiguous(), "{error}");
                            *codes.entry(error.code().unwrap()).or_insert(0) += 1;
                        }
                    }
                }
            }
            bed.wait(secs(300)).await;
            assert_eq!(bed.revision() - before, done, "only what succeeded took a revision");
            assert_eq!(codes.keys().copied().collect::<Vec<_>>(), [403, 404, 409, 422, 429], "{codes:?}");
        });
    }
    /// 429 for one request of three.
    fn trouble_sometimes(bed: &Testbed, client: &SimClient) {
        bed.fabric.add_api_fault(ipam_sim::cluster::server::ApiFault {
            fault: 0,
            servers: Side::Any,
            clients: Side::Only(vec![client.process()]),
            verbs: Vec::new(),
            kinds: Vec::new(),
            chance: 0.33,
            mishap: Mishap::TooManyRequests { retry_after: 1 },
        });
    }
}

/// What a failed create turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Truth {
    Never,
    Before,
    /// It was carried out after the error was seen.
    Later,
}

/// The truth about a create of `name` that has just failed, and how long after the error it was carried out.
async fn truth(bed: &Testbed, name: &str) -> (Truth, Duration) {
    let reader = |number| bed.client_on("reader", number);
    let stored = |bed: &Testbed| {
        let kind = bed.kind::<ConfigMap>();
        bed.fabric.store(|store| store.table(kind).get(&key(name)).is_some())
    };
    if stored(bed) {
        return (Truth::Before, Duration::ZERO);
    }
    let error_at = bed.rt.now();
    for _ in 0..700 {
        bed.wait(millis(100)).await;
        if stored(bed) {
            let late = bed.rt.now() - error_at;
            for number in 0..2 {
                assert!(exists::<ConfigMap>(&reader(number), &key(name)).await);
            }
            return (Truth::Later, late);
        }
    }
    (Truth::Never, Duration::ZERO)
}

#[test]
fn k114_an_ambiguous_failure_of_the_server_has_every_truth() {
    let mut truths: BTreeMap<String, BTreeSet<Truth>> = BTreeMap::new();
    let mut latest = Duration::ZERO;
    for seed in 0..60 {
        let mut draw = Draw::new(seed, Concern::Workload, 1);
        let failure = FAILURES[draw.below(5) as usize];
        let after = draw.between(Duration::ZERO, secs(34));
        let mishap = *draw.pick(&[
            Mishap::LoseReply { error: failure, after },
            Mishap::CommitLate { error: failure, after },
            Mishap::Slow { by: secs(34) + after },
        ]);
        Testbed::run(seed, async |bed| {
            let client = bed.client("writer");
            trouble(&bed, &client, &[Verb::Create], mishap);
            let error = client.create(config_map("a", "v", "1")).await.unwrap_err();
            assert!(error.is_ambiguous(), "{error}");
            calm(&bed);
            // A client that goes on gets its own answers, whatever is still to come.
            for _ in 0..5 {
                assert_eq!(refused(client.get::<Pod>(&key("nobody")).await), not_found("pods", "nobody"));
            }
            let (truth, late) = truth(&bed, "a").await;
            latest = latest.max(late);
            truths.entry(error.to_string()).or_default().insert(truth);
        });
        Testbed::run(seed, async |bed| {
            let client = bed.client("writer");
            trouble(&bed, &client, &[Verb::Create], Mishap::FailBeforeCommit);
            let error = client.create(config_map("a", "v", "1")).await.unwrap_err();
            assert!(error.is_ambiguous(), "{error}");
            truths.entry(error.to_string()).or_default().insert(truth(&bed, "a").await.0);
        });
    }
    assert_eq!(truths["etcdserver: request timed out"], [Truth::Never, Truth::Before, Truth::Later].into());
    let deadline = "Timeout: request did not complete within requested timeout - context deadline exceeded";
    for message in ["etcdserver: leader changed", deadline, "connection reset by peer"] {
        assert_eq!(truths[message], [Truth::Before, Truth::Later].into(), "{message}");
    }
    assert_eq!(truths.len(), 5, "{truths:?}");
    assert!(latest > secs(25) && latest <= secs(35), "{latest:?}");
}

#[test]
fn k114_a_broken_connection_or_a_client_that_gave_up_has_every_truth() {
    let mut truths: BTreeMap<(&str, String), BTreeSet<Truth>> = BTreeMap::new();
    for seed in 0..150 {
        let mut draw = Draw::new(seed, Concern::Workload, 2);
        let moment = draw.between(millis(1), millis(9));
        for cause in ["crash", "loss", "give up"] {
            Testbed::run(seed, async |bed| {
                let client = bed.client_on("writer", 0);
                let writer = client.clone();
                let timeout = (cause == "give up").then_some(moment);
                if cause == "loss" {
                    let both = |from, to| Rule { from, to, effect: Effect::Loss(0.4) };
                    let process = Side::Only(vec![client.process()]);
                    bed.fabric.network(|net| {
                        net.add(both(process.clone(), Side::Any));
                        net.add(both(Side::Any, process));
                    });
                }
                let running = start(&bed, &client, async move {
                    let body = Arc::new(config_map("a", "v", "1"));
                    let call = Call::Create { namespace: Some("default".into()), body, dry: Default::default() };
                    writer.send(Request { call, timeout }).await
                });
                if cause == "crash" {
                    bed.wait(moment).await;
                    bed.fabric.crash_server(0);
                }
                let Err(error) = running.await.unwrap() else { return };
                if error == TransportError::Refused.into() {
                    assert!(!error.is_ambiguous());
                    assert_eq!(truth(&bed, "a").await.0, Truth::Never);
                    return;
                }
                assert!(error.is_ambiguous());
                truths.entry((cause, error.to_string())).or_default().insert(truth(&bed, "a").await.0);
            });
        }
    }
    let of = |cause, error: TransportError| truths.get(&(cause, error.to_string())).cloned().unwrap_or_default();
    assert_eq!(of("crash", TransportError::Reset), [Truth::Never, Truth::Before].into(), "{truths:?}");
    assert_eq!(of("loss", TransportError::ConnectionLost), [Truth::Never, Truth::Before].into(), "{truths:?}");
    let gave_up = of("give up", TransportError::Deadline);
    assert!(gave_up.is_superset(&[Truth::Before, Truth::Later].into()), "{truths:?}");
}

#[test]
fn k114_a_request_can_be_executed_twice_and_the_second_answer_hides_the_first() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let client = bed.client("writer");
            trouble(&bed, &client, &[], Mishap::Twice { gap: secs(seed) });
            assert_eq!(refused(client.create(config_map("a", "v", "1")).await), already_exists("configmaps", "a"));
            calm(&bed);
            let map = client.get::<ConfigMap>(&key("a")).await.unwrap();
            trouble(&bed, &client, &[], Mishap::Twice { gap: secs(seed) });
            assert_eq!(refused(client.update(labelled(&*map, "l", "1")).await), modified("configmaps", "a"));
            assert_eq!(refused(client.delete::<ConfigMap>(&key("a"), DeleteOptions::default()).await), not_found("configmaps", "a"));
            calm(&bed);
            assert!(!exists::<ConfigMap>(&client, &key("a")).await);
        });
    }
}

#[test]
fn k115_without_quorum_only_caches_answer() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let admin = bed.client("admin");
            let map = admin.create(config_map("a", "v", "1")).await.unwrap();
            bed.wait(secs(5)).await;
            let mut watched = Watched::<ConfigMap>::open(&bed).await;
            let quiet = bed.revision();
            bed.fabric.set_etcd_trouble(Some(EtcdTrouble::NoQuorum));
            let since = bed.rt.now();
            let mut running = Vec::new();
            for number in 0..2 {
                for request in 0..5 {
                    let client = bed.client_on("client", number);
                    let (asker, map, rt) = (client.clone(), map.clone(), bed.rt.clone());
                    running.push(start(&bed, &client, async move {
                        let name = key("a");
                        let error = match request {
                            0 => asker.get::<ConfigMap>(&name).await.map(drop),
                            1 => asker.list::<ConfigMap>(None, ListOptions::default()).await.map(drop),
                            2 => asker.create(config_map("b", "v", "1")).await.map(drop),
                            3 => asker.update(labelled(&*map, "l", "1")).await.map(drop),
                            _ => asker.delete::<ConfigMap>(&name, DeleteOptions::default()).await.map(drop),
                        };
                        (refused(error), rt.now() - since)
                    }));
                }
            }
            for outcome in running {
                let (body, took) = outcome.await.unwrap();
                assert_eq!(body, status(500, "", "etcdserver: request timed out", json!(null)));
                assert!(took >= secs(7) && took < secs(8), "etcd's own time-out: {took:?}");
            }
            // Caches that are not asked for more than they have go on for half a minute, and the watch is silent.
            for number in 0..2 {
                let client = bed.client_on("client", number);
                assert_eq!(client.get_cached::<ConfigMap>(&key("a"), "0").await.unwrap(), map);
                assert_eq!(client.get_cached::<ConfigMap>(&key("a"), &rv(&*map).to_string()).await.unwrap(), map);
                let any = ListOptions { resource_version: Some("0".to_owned()), ..ListOptions::default() };
                assert_eq!(client.list::<ConfigMap>(None, any).await.unwrap().items, std::slice::from_ref(&map));
                // An impatient client sees its own time-out.
                let call = Call::<ConfigMap>::Get { key: key("a"), resource_version: None };
                let error = client.send(Request { call, timeout: Some(secs(3)) }).await.unwrap_err();
                assert_eq!(error, TransportError::Deadline.into());
            }
            assert!(watched.events().await.is_empty());
            assert_eq!(bed.revision(), quiet);
            assert!(bed.rt.now() - since < secs(30));
            bed.fabric.set_etcd_trouble(None);
            admin.create(config_map("c", "v", "1")).await.unwrap();
            let events = watched.events().await;
            assert!(events.iter().any(|(_, map)| map.metadata.name.as_deref() == Some("c")), "it is still the same watch");
        });
    }
}

#[test]
fn k115_without_quorum_nobody_can_tell_what_a_consistent_read_has_to_wait_for() {
    Testbed::run(1, async |bed| {
        let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
        // The cache will have the write soon, and does not need etcd for it.
        bed.fabric.set_extra_lag(1, None, secs(1));
        writer.create(config_map("a", "v", "1")).await.unwrap();
        bed.fabric.set_etcd_trouble(Some(EtcdTrouble::NoQuorum));
        let since = bed.rt.now();
        let body = refused(reader.list::<ConfigMap>(None, ListOptions::default()).await);
        assert_eq!(body, status(500, "", "etcdserver: request timed out", json!(null)));
        assert!(bed.rt.now() - since >= secs(7));
        let options =
            WatchOptions { send_initial_events: true, resource_version_match: Some(VersionMatch::NotOlderThan), ..WatchOptions::default() };
        let error = reader.watch::<ConfigMap>(None, options).await.err().expect("a watch list without a version needs etcd");
        assert_eq!(error.code(), Some(500), "{error}");
    });
}

#[test]
fn k115_one_server_without_etcd_fails_alone() {
    Testbed::run(1, async |bed| {
        let (cut, fine) = (bed.client_on("cut", 0), bed.client_on("fine", 1));
        let old = fine.create(config_map("a", "v", "1")).await.unwrap();
        bed.wait(secs(5)).await;
        bed.fabric.set_etcd_cut(0, true);
        let new = fine.update(labelled(&*old, "l", "1")).await.unwrap();
        assert_eq!(refused(cut.get::<ConfigMap>(&key("a")).await)["message"], "etcdserver: request timed out");
        assert_eq!(refused(cut.update::<ConfigMap>(new.clone()).await)["message"], "etcdserver: request timed out");
        assert_eq!(cut.get_cached::<ConfigMap>(&key("a"), "0").await.unwrap(), old, "frozen");
        assert_eq!(fine.get::<ConfigMap>(&key("a")).await.unwrap(), new);
        bed.fabric.set_etcd_cut(0, false);
        assert_eq!(cut.get::<ConfigMap>(&key("a")).await.unwrap(), new);
    });
}

#[test]
fn k116_after_quorum_returns_acknowledged_writes_are_there_and_the_others_are_there_or_not_for_everybody() {
    let mut unacknowledged = BTreeSet::new();
    for seed in 1..25 {
        Testbed::run(seed, async |bed| {
            let trouble = if seed % 3 == 0 { EtcdTrouble::Electing } else { EtcdTrouble::NoQuorum };
            let acknowledged = Arc::new(Mutex::new(BTreeSet::new()));
            let failed = Arc::new(Mutex::new(BTreeSet::new()));
            let mut running = Vec::new();
            for number in 0..4 {
                let client = bed.client_on("writer", number % 2);
                let (writer, rt) = (client.clone(), bed.rt.clone());
                let (acknowledged, failed) = (acknowledged.clone(), failed.clone());
                running.push(start(&bed, &client, async move {
                    for round in 0..30 {
                        let name = format!("w{number}-{round}");
                        match writer.create(config_map(&name, "v", "1")).await {
                            Ok(_) => acknowledged.lock().insert(name),
                            Err(error) => {
                                assert!(error.is_ambiguous(), "{error}");
                                failed.lock().insert(name)
                            }
                        };
                        rt.sleep(millis(200)).await;
                    }
                }));
            }
            for _ in 0..2 {
                bed.wait(millis(1_500)).await;
                bed.fabric.set_etcd_trouble(Some(trouble));
                bed.wait(if trouble == EtcdTrouble::Electing { secs(2) } else { secs(15) }).await;
                bed.fabric.set_etcd_trouble(None);
            }
            for task in running {
                task.await.unwrap();
            }
            bed.wait(secs(60)).await;
            let mut views = Vec::new();
            for number in 0..2 {
                let reader = bed.client_on("reader", number);
                for version in [None, Some("0".to_owned())] {
                    let options = ListOptions { resource_version: version, ..ListOptions::default() };
                    let list = reader.list::<ConfigMap>(None, options).await.unwrap();
                    views.push(list.items.iter().map(|map| map.metadata.name.clone().unwrap()).collect::<BTreeSet<_>>());
                }
            }
            assert!(views.iter().all(|view| *view == views[0]), "readers differ");
            assert!(acknowledged.lock().is_subset(&views[0]), "an acknowledged write is missing");
            unacknowledged.extend(failed.lock().iter().map(|name| (trouble == EtcdTrouble::NoQuorum, views[0].contains(name))));
        });
    }
    assert_eq!(unacknowledged.len(), 4, "both truths occur in both kinds of trouble: {unacknowledged:?}");
}

#[test]
fn k117_an_acknowledged_write_is_never_lost() {
    let mut failures = 0;
    for seed in 1..17 {
        failures += Testbed::run(seed, async |bed| {
            let admin = bed.client("admin");
            admin.create(config_map("table", "v", "1")).await.unwrap();
            let mut running = Vec::new();
            for number in 0..4 {
                let client = bed.client("writer");
                let (writer, rt) = (client.clone(), bed.rt.clone());
                running.push(start(&bed, &client, async move {
                    let (mut acknowledged, mut failed) = (BTreeSet::new(), 0);
                    for round in 0..40 {
                        // Read, add one entry, write back under the version: as an allocator does.
                        let entry = format!("w{number}-{round}");
                        let outcome = match writer.get::<ConfigMap>(&key("table")).await {
                            Ok(map) => {
                                let add = |map: &mut ConfigMap| drop(map.data.get_or_insert_default().insert(entry.clone(), String::new()));
                                writer.update(changed(&*map, add)).await
                            }
                            Err(error) => Err(error),
                        };
                        match outcome {
                            Ok(_) => drop(acknowledged.insert(entry)),
                            Err(error) if error.is_conflict() => {}
                            Err(_) => failed += 1,
                        }
                        rt.sleep(millis(300)).await;
                    }
                    (acknowledged, failed)
                }));
            }
            let mut draw = Draw::new(seed, Concern::Faults, 0);
            bed.fabric.network(|net| net.add(Rule { from: Side::Any, to: Side::Any, effect: Effect::Loss(0.01) }));
            for _ in 0..6 {
                bed.wait(draw.between(millis(100), secs(3))).await;
                match draw.below(4) {
                    0 => {
                        let server = draw.below(2) as usize;
                        bed.fabric.crash_server(server);
                        bed.wait(secs(1)).await;
                        bed.fabric.restart_server(server, millis(500));
                    }
                    1 => {
                        bed.fabric.set_etcd_trouble(Some(EtcdTrouble::Electing));
                        bed.wait(secs(2)).await;
                        bed.fabric.set_etcd_trouble(None);
                    }
                    2 => {
                        bed.fabric.set_etcd_trouble(Some(EtcdTrouble::NoQuorum));
                        bed.wait(secs(9)).await;
                        bed.fabric.set_etcd_trouble(None);
                    }
                    _ => {
                        let error = *draw.pick(&FAILURES);
                        let mishap = *draw.pick(&[
                            Mishap::CommitLate { error, after: secs(1) },
                            Mishap::LoseReply { error, after: secs(1) },
                            Mishap::Twice { gap: secs(1) },
                        ]);
                        bed.fabric.add_api_fault(ipam_sim::cluster::server::ApiFault {
                            fault: 0,
                            servers: Side::Any,
                            clients: Side::Any,
                            verbs: vec![Verb::Update],
                            kinds: Vec::new(),
                            chance: 0.5,
                            mishap,
                        });
                        bed.wait(secs(2)).await;
                        calm(&bed);
                    }
                }
            }
            let mut failures = 0;
            let mut expected = BTreeSet::new();
            for task in running {
                let (acknowledged, failed) = task.await.unwrap();
                assert!(!acknowledged.is_empty());
                expected.extend(acknowledged);
                failures += failed;
            }
            bed.fabric.network(|net| net.heal());
            bed.wait(secs(60)).await;
            for number in 0..2 {
                let table = bed.client_on("reader", number).get::<ConfigMap>(&key("table")).await.unwrap();
                let entries: BTreeSet<String> = table.data.iter().flatten().map(|(entry, _)| entry.clone()).collect();
                let missing: Vec<_> = expected.difference(&entries).collect();
                assert!(missing.is_empty(), "acknowledged and lost: {missing:?}");
            }
            failures
        });
    }
    assert!(failures > 100, "there was hardly any trouble: {failures}");
}

#[test]
fn k118_without_permission_a_missing_object_is_403() {
    Testbed::run(1, async |bed| {
        let (denied, allowed) = (bed.client("denied"), bed.client("allowed"));
        allowed.create(config_map("there", "v", "1")).await.unwrap();
        let clients = Side::Only(vec![denied.process()]);
        let kinds = vec![bed.kind::<ConfigMap>(), bed.kind::<ipam_core::spiderpool::SpiderIPPool>()];
        bed.fabric.forbid(Forbidden { fault: Some(1), clients, verbs: Vec::new(), kinds });
        let expected = |verb: &str, name: &str| {
            let quoted = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
            let message = format!(
                "configmaps{quoted} is forbidden: User \"denied\" cannot {verb} resource \"configmaps\" in API group \"\" in the namespace \
                 \"default\""
            );
            status(403, "Forbidden", &message, about("configmaps", name))
        };
        for name in ["there", "missing"] {
            let body = config_map(name, "v", "2");
            assert_eq!(refused(silently::<ConfigMap, _>(&bed, denied.get::<ConfigMap>(&key(name))).await), expected("get", name));
            assert_eq!(refused(denied.get_cached::<ConfigMap>(&key(name), "0").await), expected("get", name));
            assert_eq!(refused(silently::<ConfigMap, _>(&bed, denied.update(body.clone())).await), expected("update", name));
            assert_eq!(refused(silently::<ConfigMap, _>(&bed, denied.create(body)).await), expected("create", ""));
            // Even what is malformed, or meets an overfull name.
            let object_key = key(name);
            let patch = denied.patch::<ConfigMap>(&object_key, Patch::merge(json!("nonsense")));
            assert_eq!(refused(silently::<ConfigMap, _>(&bed, patch).await), expected("patch", name));
            let delete = denied.delete::<ConfigMap>(&object_key, grace(0));
            assert_eq!(refused(silently::<ConfigMap, _>(&bed, delete).await), expected("delete", name));
        }
        assert_eq!(refused(denied.list::<ConfigMap>(Some("default"), ListOptions::default()).await), expected("list", ""));
        let watch = denied.watch::<ConfigMap>(Some("default".into()), WatchOptions::default()).await;
        assert_eq!(body_of(&watch.map(|_| ()).unwrap_err()), expected("watch", ""));
        let body = refused(denied.get::<ipam_core::spiderpool::SpiderIPPool>(&ObjectKey::cluster("p")).await);
        let message = format!(
            "{POOLS} \"p\" is forbidden: User \"denied\" cannot get resource \"spiderippools\" in API group \"spiderpool.spidernet.io\" at the \
             cluster scope"
        );
        assert_eq!(body, status(403, "Forbidden", &message, about(POOLS, "p")));
        // Overload comes before permission, permission before etcd.
        trouble(&bed, &denied, &[], Mishap::TooManyRequests { retry_after: 1 });
        assert_eq!(denied.get::<ConfigMap>(&key("there")).await.unwrap_err().code(), Some(429));
        calm(&bed);
        trouble(&bed, &denied, &[], Mishap::FailBeforeCommit);
        assert_eq!(denied.get::<ConfigMap>(&key("there")).await.unwrap_err().code(), Some(403));
        calm(&bed);
        // Nobody else is touched, and no other type.
        allowed.get::<ConfigMap>(&key("there")).await.unwrap();
        denied.create(from_json::<Pod>(json!({"metadata": {"name": "a", "namespace": "default"}}))).await.unwrap();
        bed.fabric.permit(Some(1));
        assert!(denied.get::<ConfigMap>(&key("missing")).await.unwrap_err().is_not_found());
    });
}
