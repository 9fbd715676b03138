//! Stories of the running controller.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use serde_json::{Value, json};

use super::scene::{Scene, deployment, key, template, wants, with};
use crate::SpiderSubnet;
use crate::controller::ControllerSettings;
use crate::{Policy, SpiderIPPool};
use kube_machinery::api::ObjectKey;

#[test]
fn a_pool_lives_with_its_deployment() {
    for policy in [Policy::hardened(), Policy::upstream()] {
        let scene = Scene::with_subnet(policy);
        scene.start(policy);
        scene.server.create::<Deployment>(deployment("web", 3, "+1"));
        scene.pass(5);
        assert_eq!(scene.only_size(), Some(4));
        let pool = scene.server.all::<SpiderIPPool>()[0].clone();
        let name = pool.metadata.name.clone().unwrap();
        assert!(name.starts_with("auto4-web-eth0-"), "{name}");
        assert_eq!(scene.set_aside(), [(name.clone(), pool.spec.ips.clone().unwrap())]);
        scene.scale(6);
        scene.pass(5);
        assert_eq!(scene.only_size(), Some(7));
        scene.scale(2);
        scene.pass(5);
        assert_eq!(scene.only_size(), Some(3));
        let pool = scene.server.all::<SpiderIPPool>()[0].clone();
        assert_eq!(scene.set_aside(), [(name.clone(), pool.spec.ips.clone().unwrap())]);
        // The pool waits for its records to go, and the addresses wait for the pool.
        let ip = crate::ranges::parse_range(&pool.spec.ips.as_ref().unwrap()[0], 4, &policy).unwrap().first();
        scene.record(&name, json!({ip.to_string(): {"pod": "default/web-1", "podUid": "u"}}));
        scene.server.delete::<Deployment>(&key("web"));
        scene.pass(20);
        assert_eq!((scene.only_size(), scene.set_aside().len()), (Some(3), 1));
        scene.record(&name, json!({}));
        scene.pass(400);
        assert_eq!((scene.sizes().len(), scene.set_aside().len()), (0, 0));
    }
}

#[test]
fn each_kind_of_workload_gets_the_size_that_it_asks_for() {
    let policy = Policy::hardened();
    let scene = Scene::with_subnet(policy);
    scene.start(policy);
    let meta = |name: &str| json!({"name": name, "namespace": "default"});
    scene.server.create::<Job>(json!({"metadata": meta("job"), "spec": {"completions": 4, "template": template(wants("+0"))}}));
    scene.server.create::<CronJob>(json!({"metadata": meta("cron"),
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"parallelism": 2, "template": template(wants("+1"))}}}}));
    scene
        .server
        .create::<ReplicaSet>(json!({"metadata": meta("rs"), "spec": {"replicas": 1, "selector": {}, "template": template(wants("2"))}}));
    scene.server.create::<StatefulSet>(json!({"metadata": meta("sts"), "spec": {"replicas": 2, "selector": {}, "serviceName": "sts",
        "template": template(json!({"ipam.spidernet.io/subnet": r#"{"ipv4":["s"]}"#}))}}));
    scene.server.create::<DaemonSet>(json!({"metadata": meta("ds"), "spec": {"selector": {}, "template": template(wants("+1"))}}));
    let status = json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 2, "numberMisscheduled": 0, "numberReady": 0});
    scene.server.change::<DaemonSet>(&key("ds"), |value| value["status"] = status);
    // These ask for nothing: a pod in the host network, a part of a Deployment, a workload without annotation.
    let mut host = template(wants("2"));
    host["spec"]["hostNetwork"] = json!(true);
    scene.server.create::<Deployment>(json!({"metadata": meta("host"), "spec": {"replicas": 1, "selector": {}, "template": host}}));
    let mut part = meta("part");
    part["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "d", "controller": true}]);
    scene.server.create::<ReplicaSet>(json!({"metadata": part, "spec": {"replicas": 1, "selector": {}, "template": template(wants("2"))}}));
    scene
        .server
        .create::<Deployment>(json!({"metadata": meta("plain"), "spec": {"replicas": 1, "selector": {}, "template": template(json!({}))}}));
    scene.pass(10);
    let sizes: BTreeMap<_, _> = scene.sizes().into_iter().map(|(name, size)| (name.split('-').nth(1).unwrap().to_owned(), size)).collect();
    assert_eq!(sizes, [("cron", 3), ("ds", 3), ("job", 4), ("rs", 2), ("sts", 2)].map(|(name, size)| (name.to_owned(), size)).into());
}

#[test]
fn a_pool_shrinks_when_pods_give_their_addresses_back() {
    let policy = Policy::hardened();
    let scene = Scene::with_subnet(policy);
    scene.start(policy);
    scene.server.create::<Deployment>(deployment("web", 3, "+0"));
    scene.pass(5);
    let pool = scene.server.all::<SpiderIPPool>()[0].clone();
    let name = pool.metadata.name.clone().unwrap();
    let ranges = pool.spec.ips.iter().flatten().map(|text| crate::ranges::parse_range(text, 4, &policy).unwrap());
    let ips: Vec<_> = ranges.flat_map(|range| range.iter()).collect();
    let records: serde_json::Map<String, Value> =
        ips.iter().map(|ip| (ip.to_string(), json!({"pod": "default/p", "podUid": "u"}))).collect();
    scene.record(&name, json!(records));
    scene.scale(1);
    scene.pass(20);
    assert_eq!(scene.only_size(), Some(3));
    scene.record(&name, json!({ips[1].to_string(): {"pod": "default/p", "podUid": "u"}}));
    scene.pass(20);
    let pool = scene.server.all::<SpiderIPPool>()[0].clone();
    assert_eq!(pool.spec.ips, Some(vec![ips[1].to_string()]));
    assert_eq!(scene.set_aside(), [(name, vec![ips[1].to_string()])]);
}

#[test]
fn a_subnet_that_comes_late_serves_those_who_waited_unless_they_were_given_up() {
    for (policy, served) in [(Policy::hardened(), true), (with("application-given-up"), false)] {
        let scene = Scene::new(policy);
        scene.start(policy);
        scene.server.create::<Deployment>(deployment("web", 3, "+0"));
        // 500 tries, 5 s apart.
        scene.pass(3000);
        scene.make_subnet();
        scene.pass(1200);
        assert_eq!(scene.only_size(), served.then_some(3));
    }
}

/// The settings of a controller, with some set explicitly.
fn settings(policy: Policy, stated: &[(&str, &str)]) -> ControllerSettings {
    let mut settings = ControllerSettings::new(policy);
    for (name, value) in stated {
        assert_eq!(settings.set(name, value), Ok(true), "{name}");
    }
    settings
}

/// The address count in a pool's status after `after` seconds, if its writes are refused for the first `refused` of them.
fn counted(policy: Policy, stated: &[(&str, &str)], refused: u64, after: u64) -> Option<i64> {
    let scene = Scene::new(policy);
    scene.start_under(settings(policy, stated), ());
    scene.server.refuse("update SpiderIPPool");
    let spec = json!({"subnet": "10.1.0.0/24", "ips": ["10.1.0.1-10.1.0.3"]});
    scene.server.create::<SpiderIPPool>(json!({"metadata": {"name": "p"}, "spec": spec}));
    scene.pass(refused);
    scene.server.serve("update SpiderIPPool");
    scene.pass(after - refused);
    let pool = scene.server.find::<SpiderIPPool>(&ObjectKey::cluster("p")).unwrap();
    pool.status.as_ref().and_then(|status| status.total_ip_count)
}

#[test]
fn a_pool_whose_write_failed_is_not_given_up_whatever_the_setting_says() {
    let never = [("SPIDERPOOL_WORKQUEUE_MAX_RETRIES", "0"), ("SPIDERPOOL_IPPOOL_INFORMER_RESYNC_PERIOD", "0")];
    assert_eq!(counted(Policy::hardened(), &never, 3, 3600), Some(3));
    assert_eq!(counted(with("pool-given-up"), &never, 3, 3600), None);
}

#[test]
fn writes_are_tried_again_when_the_setting_says_so() {
    let after = |policy, delay| counted(policy, &[("SPIDERPOOL_WORKQUEUE_RETRY_DELAY_DURATION", delay)], 2, 4);
    assert_eq!(after(Policy::hardened(), "1"), Some(3));
    assert_eq!(after(Policy::hardened(), "5"), None);
    assert_eq!(after(with("controller-settings-ignored"), "1"), None);
}

#[test]
fn a_pool_goes_when_its_annotation_does_and_no_pod_needs_it() {
    for (policy, stays) in [(Policy::hardened(), false), (with("removed-annotation-keeps-pool"), true)] {
        let scene = Scene::with_subnet(policy);
        scene.start(policy);
        scene.server.create::<Deployment>(deployment("web", 3, "+0"));
        scene.pass(5);
        scene.server.change::<Deployment>(&key("web"), |value| value["spec"]["template"] = template(json!({})));
        scene.pass(700);
        assert_eq!(!scene.sizes().is_empty(), stays);
        assert_eq!(!scene.set_aside().is_empty(), stays);
    }
}

#[test]
fn a_subnet_takes_its_pools_down_with_it() {
    let policy = Policy::hardened();
    let scene = Scene::with_subnet(policy);
    scene.start(policy);
    scene.server.create::<Deployment>(deployment("web", 3, "+0"));
    scene.server.create::<SpiderIPPool>(json!({"metadata": {"name": "mine"}, "spec": {"subnet": "10.0.0.0/24", "ips": ["10.0.0.9"]}}));
    scene.pass(5);
    assert_eq!(scene.set_aside().len(), 2);
    scene.record("mine", json!({"10.0.0.9": {"pod": "default/p", "podUid": "u"}}));
    scene.server.delete::<SpiderSubnet>(&ObjectKey::cluster("s"));
    scene.pass(20);
    assert_eq!(scene.sizes(), [("mine".to_owned(), 1)].into());
    assert!(scene.server.find::<SpiderSubnet>(&ObjectKey::cluster("s")).is_some(), "it waits for its last pool");
    scene.record("mine", json!({}));
    scene.pass(400);
    assert!(scene.sizes().is_empty());
    assert!(scene.server.find::<SpiderSubnet>(&ObjectKey::cluster("s")).is_none());
}

#[test]
fn a_request_that_is_lost_without_a_word_holds_the_controllers_up_for_a_minute_and_upstreams_for_good() {
    let one_asks = ["get SpiderSubnet", "list SpiderIPPool", "create SpiderIPPool", "update SpiderSubnet", "update SpiderIPPool"];
    let upstream = with("waits-without-end");
    let of_one = one_asks.into_iter().flat_map(|what| [(what, Policy::hardened(), true), (what, upstream, false)]);
    // While one worker waits for these, another does the rest.
    let of_two = ["get Deployment", "delete SpiderIPPool"].map(|what| (what, Policy::hardened(), true));
    for (what, policy, ends) in of_one.chain(of_two) {
        let scene = Scene::with_subnet(policy);
        scene.start(policy);
        scene.server.lose_next(what);
        scene.server.create::<Deployment>(deployment("web", 3, "+0"));
        scene.pass(80);
        let made = scene.only_size() == Some(3);
        scene.scale(5);
        scene.pass(80);
        let grown = scene.only_size() == Some(5);
        scene.server.delete::<Deployment>(&key("web"));
        scene.pass(200);
        let gone = scene.sizes().is_empty() && scene.set_aside().is_empty();
        assert!(scene.server.has_lost(what), "nobody asks for it: {what}");
        assert_eq!([made, grown, gone] == [true; 3], ends, "{what}: made {made}, grown {grown}, gone {gone}");
    }
}

#[test]
fn nothing_is_written_when_all_is_well() {
    let policy = Policy::hardened();
    let scene = Scene::with_subnet(policy);
    scene.start(policy);
    scene.server.create::<Deployment>(deployment("web", 3, "+0"));
    scene.pass(10);
    assert!(!scene.server.writes().is_empty());
    scene.pass(2000);
    assert_eq!(scene.server.writes(), [""; 0]);
    scene.server.refuse("update SpiderSubnet");
    scene.scale(4);
    scene.pass(10);
    assert_eq!(scene.only_size(), Some(3), "the subnet comes first");
}
