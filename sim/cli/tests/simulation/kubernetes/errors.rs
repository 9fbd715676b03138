//! K §10.8: the errors of an API server; a refused write has no effect.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ipam_spiderpool::SpiderIPPool;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_machinery::api::{DeleteOptions, ListOptions, Patch, PatchKind, Reason, Verb, WatchOptions};
use kube_machinery::{ApiError, Client, ClientExt, ObjectKey};
use kube_sim::cluster::admission::{FailurePolicy, Forbidden};
use kube_sim::cluster::server::{Failure, InjectedFault};
use kube_sim::cluster::{EtcdOutage, SimClient};
use kube_sim::net::Side;
use kube_sim::testbed::{Testbed, config_map, grace, key, pod};
use serde_json::json;

use super::expect::*;

/// One error of every kind that an API server returns.
async fn every_error(bed: &Testbed) -> Vec<ApiError> {
    let client = bed.client("client");
    let map = client.create(config_map("a", "v", "1")).await.unwrap();
    client.update(labelled(&*map, "by", "another")).await.unwrap();
    client.create(pod("a", "n1")).await.unwrap();
    client.create(config_map("b", "v", "1")).await.unwrap();
    let strategic = Patch::of(PatchKind::Strategic, json!({}));
    let moved = changed(&pod("a", "n2"), |_| {});
    let mut errors = vec![
        client.patch::<ConfigMap>(&key("a"), Patch::merge(json!(1))).await.unwrap_err(),
        client.get::<ConfigMap>(&key("missing")).await.unwrap_err(),
        client.create(config_map("a", "v", "1")).await.unwrap_err(),
        client.update(labelled(&*map, "by", "me")).await.unwrap_err(),
        client.create(config_map("c", "v", &"x".repeat(4 << 20))).await.unwrap_err(),
        client.patch::<SpiderIPPool>(&ObjectKey::cluster("a"), strategic).await.unwrap_err(),
        client.update(moved).await.unwrap_err(),
        client.create::<ConfigMap>(map).await.unwrap_err(),
        client.get_cached::<ConfigMap>(&key("a"), "999999").await.unwrap_err(),
    ];
    bed.cluster.compact(bed.revision());
    let first = client.list::<ConfigMap>(None, ListOptions { limit: 1, ..ListOptions::default() }).await.unwrap();
    client.create(config_map("d", "v", "1")).await.unwrap();
    bed.cluster.compact(bed.revision());
    let next = ListOptions { limit: 1, continue_token: first.continue_token, ..ListOptions::default() };
    errors.push(client.list::<ConfigMap>(None, next).await.unwrap_err());
    bed.cluster.forbid(Forbidden { fault: Some(1), clients: Side::Any, verbs: Vec::new(), kinds: Vec::new() });
    errors.push(client.get::<ConfigMap>(&key("a")).await.unwrap_err());
    bed.cluster.permit(Some(1));
    for failure in FAILURES {
        trouble(bed, &client, &[Verb::Update], InjectedFault::LoseReply { error: failure, after: Duration::ZERO });
        errors.push(client.update(config_map("b", "v", "2")).await.unwrap_err());
        calm(bed);
    }
    for injected in [InjectedFault::TooManyRequests { retry_after: 7 }, InjectedFault::Unavailable, InjectedFault::FailBeforeCommit] {
        trouble(bed, &client, &[Verb::Update], injected);
        errors.push(client.update(config_map("b", "v", "2")).await.unwrap_err());
        calm(bed);
    }
    let hooked = hook::<ConfigMap, _>(bed, "down.example.com", false, FailurePolicy::Fail, |_, _| async { Ok(None) });
    bed.cluster.crash(hooked.process);
    errors.push(client.update(config_map("b", "v", "3")).await.unwrap_err());
    let server = client.server();
    bed.cluster.crash_server(server);
    bed.cluster.restart_server(server, secs(60));
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
                    // The continue token of an expired list is the only thing that metadata may hold.
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
            trouble(&bed, &client, &[], InjectedFault::LoseReply { error: failure, after: Duration::ZERO });
            assert_eq!(refused(client.get::<ConfigMap>(&key("a")).await), status(code, reason, message, json!(null)));
            assert_eq!(refused(client.create(config_map("a", "v", "1")).await), status(code, reason, message, json!(null)));
            calm(&bed);
        }
        trouble(&bed, &client, &[], InjectedFault::LoseReply { error: Failure::ServerTimeout, after: Duration::ZERO });
        let expected = |operation: &str| {
            let message = format!("The {operation} operation against {POOLS} could not be completed at this time, please try again.");
            let mut details = about(POOLS, operation);
            details["retryAfterSeconds"] = json!(2);
            status(500, "ServerTimeout", &message, details)
        };
        let name = ObjectKey::cluster("p");
        type Pool = ipam_spiderpool::SpiderIPPool;
        assert_eq!(refused(client.get::<Pool>(&name).await), expected("get"));
        assert_eq!(refused(client.list::<Pool>(None, ListOptions::default()).await), expected("list"));
        assert_eq!(refused(client.create(pool("q")).await), expected("create"));
        assert_eq!(refused(client.update(pool("p")).await), expected("update"));
        assert_eq!(refused(client.patch::<Pool>(&name, Patch::merge(json!({}))).await), expected("update"));
        assert_eq!(refused(client.delete::<Pool>(&name, DeleteOptions::default()).await), expected("delete"));
        calm(&bed);
        // An outage of etcd itself, not a fault of single requests.
        bed.cluster.set_etcd_outage(Some(EtcdOutage::NoQuorum));
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
            // Several concurrent writers, most of whose writes are refused; the successful ones are counted.
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
                    bed.cluster.forbid(Forbidden { fault: Some(1), clients, verbs: vec![Verb::Create], kinds: Vec::new() });
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
    /// Makes one request of three fail with 429.
    fn trouble_sometimes(bed: &Testbed, client: &SimClient) {
        bed.cluster.add_api_fault(kube_sim::cluster::server::ApiFault {
            fault: 0,
            servers: Side::Any,
            clients: Side::Only(vec![client.process()]),
            verbs: Vec::new(),
            kinds: Vec::new(),
            chance: 0.33,
            injected: InjectedFault::TooManyRequests { retry_after: 1 },
        });
    }
}

#[test]
fn k118_without_permission_a_missing_object_is_403() {
    Testbed::run(1, async |bed| {
        let (denied, allowed) = (bed.client("denied"), bed.client("allowed"));
        allowed.create(config_map("there", "v", "1")).await.unwrap();
        let clients = Side::Only(vec![denied.process()]);
        let kinds = vec![bed.kind::<ConfigMap>(), bed.kind::<ipam_spiderpool::SpiderIPPool>()];
        bed.cluster.forbid(Forbidden { fault: Some(1), clients, verbs: Vec::new(), kinds });
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
            // Even malformed requests, and those that hit an overfull name.
            let object_key = key(name);
            let patch = denied.patch::<ConfigMap>(&object_key, Patch::merge(json!("nonsense")));
            assert_eq!(refused(silently::<ConfigMap, _>(&bed, patch).await), expected("patch", name));
            let delete = denied.delete::<ConfigMap>(&object_key, grace(0));
            assert_eq!(refused(silently::<ConfigMap, _>(&bed, delete).await), expected("delete", name));
        }
        assert_eq!(refused(denied.list::<ConfigMap>(Some("default"), ListOptions::default()).await), expected("list", ""));
        let watch = denied.watch::<ConfigMap>(Some("default".into()), WatchOptions::default()).await;
        assert_eq!(body_of(&watch.map(|_| ()).unwrap_err()), expected("watch", ""));
        let body = refused(denied.get::<ipam_spiderpool::SpiderIPPool>(&ObjectKey::cluster("p")).await);
        let message = format!(
            "{POOLS} \"p\" is forbidden: User \"denied\" cannot get resource \"spiderippools\" in API group \
             \"spiderpool.spidernet.io\" at the cluster scope"
        );
        assert_eq!(body, status(403, "Forbidden", &message, about(POOLS, "p")));
        // Overload is checked before permission, and permission before etcd.
        trouble(&bed, &denied, &[], InjectedFault::TooManyRequests { retry_after: 1 });
        assert_eq!(denied.get::<ConfigMap>(&key("there")).await.unwrap_err().code(), Some(429));
        calm(&bed);
        trouble(&bed, &denied, &[], InjectedFault::FailBeforeCommit);
        assert_eq!(denied.get::<ConfigMap>(&key("there")).await.unwrap_err().code(), Some(403));
        calm(&bed);
        // No other client and no other type is affected.
        allowed.get::<ConfigMap>(&key("there")).await.unwrap();
        denied.create(pod("a", "")).await.unwrap();
        bed.cluster.permit(Some(1));
        assert!(denied.get::<ConfigMap>(&key("missing")).await.unwrap_err().is_not_found());
    });
}
