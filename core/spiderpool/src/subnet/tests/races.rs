//! Several concurrent writers, and some that lag behind.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;

use super::model::{application, demand};
use super::scene::{Scene, deployment, key, with};
use super::server::Server;
use crate::PoolIPPreAllocation;
use crate::admission::{AdmissionSettings, Request, Webhook};
use crate::controller::ControllerSettings;
use crate::ranges::IpSet;
use crate::subnet::{AutoPools, ReconcileError, Reconciled, Want};
use crate::{Policy, SpiderIPPool, SpiderSubnet};
use kube_machinery::Env;
use kube_machinery::api::ObjectKey;
use kube_machinery::client::ClientExt;
use kube_machinery::testing::TestEnv;

#[test]
fn what_admission_refuses_gives_back_what_was_set_aside() {
    for (policy, kept) in [(Policy::hardened(), false), (with("refused-pool-keeps-addresses"), true)] {
        let scene = Scene::with_subnet(Policy { manual_pool_ignores_preallocation: true, ..policy });
        // Nobody looks at other pools before addresses are pre-allocated, so that admission is the first to refuse.
        scene.server.put::<SpiderIPPool>(json!({"metadata": {"name": "old"},
            "spec": {"subnet": "10.0.0.0/24", "ipVersion": 4, "ips": ["10.0.0.1-10.0.0.20"]}}));
        let auto_pools = scene.auto_pools(Policy { manual_pool_ignores_preallocation: true, ..policy });
        let (application, demand) = (application("web", 1), demand(3));
        let want = Want { application: &application, demand: &demand };
        let refused = scene.env.block_on(auto_pools.reconcile(want, &IpSet::default()));
        assert!(matches!(refused, Err(ReconcileError::NotAdmitted(_))), "{refused:?}");
        assert_eq!(!scene.set_aside().is_empty(), kept);
    }
}

#[test]
fn what_was_set_aside_for_a_pool_that_outlives_its_workload_is_given_back() {
    for (policy, kept) in [(Policy::hardened(), 2), (with("refused-pool-keeps-addresses"), 3)] {
        let scene = Scene::with_subnet(policy);
        // A write of the pool was interrupted, and then the workload was deleted.
        let (application, mut demand) = (application("web", 1), demand(2));
        demand.reclaim = false;
        let auto_pools = scene.auto_pools(policy);
        scene.env.block_on(auto_pools.reconcile(Want { application: &application, demand: &demand }, &IpSet::default())).unwrap();
        let (name, ips) = scene.set_aside().remove(0);
        let free = (1..=20).map(|last| format!("10.0.0.{last}")).find(|ip| !ips.iter().any(|range| range.contains(ip.as_str()))).unwrap();
        scene.server.change::<SpiderSubnet>(&ObjectKey::cluster("s"), |subnet| {
            let mut entries: serde_json::Value = serde_json::from_str(subnet["status"]["controlledIPPools"].as_str().unwrap()).unwrap();
            entries[&name]["ips"].as_array_mut().unwrap().push(json!(free));
            subnet["status"]["controlledIPPools"] = json!(entries.to_string());
        });
        scene.start(policy);
        scene.pass(30);
        let ips = scene.set_aside().remove(0).1;
        let set: IpSet = crate::ranges::parse_ranges(&ips, 4, &policy).unwrap().into_iter().collect();
        assert_eq!((scene.only_size(), set.count()), (Some(2), kept));
    }
}

/// Reconciles the pool of `web` to this size.
fn reconcile(scene: &Scene, size: u64) -> Result<Reconciled, ReconcileError> {
    let (application, demand) = (application("web", 1), demand(size));
    let auto_pools = scene.auto_pools(Policy::hardened());
    scene.env.block_on(auto_pools.reconcile(Want { application: &application, demand: &demand }, &IpSet::default()))
}

#[test]
fn a_pool_that_lists_do_not_show_keeps_what_is_set_aside_for_it() {
    let scene = Scene::with_subnet(Policy::hardened());
    let reconcile = |size| reconcile(&scene, size);
    reconcile(3).unwrap();
    let (name, ips) = scene.set_aside().remove(0);
    scene.server.lose::<SpiderIPPool>(&ObjectKey::cluster(&name));
    assert_eq!(reconcile(3).unwrap(), Reconciled::Settled);
    assert_eq!(scene.set_aside(), [(name, ips)]);
    assert_eq!(reconcile(2).unwrap(), Reconciled::Settled);
    assert_eq!(scene.only_size(), Some(2));
}

#[test]
fn what_is_given_back_without_a_write_of_the_pool_keeps_a_slower_writer_of_it_away() {
    let scene = Scene::with_subnet(Policy::hardened());
    let reconcile = |size| reconcile(&scene, size);
    reconcile(2).unwrap();
    // Another replica pre-allocates a third address, and pauses before it writes the pool.
    let mut slower = SpiderIPPool::clone(&scene.server.all::<SpiderIPPool>()[0]);
    scene.server.refuse("update SpiderIPPool");
    assert!(reconcile(3).is_err());
    scene.server.serve("update SpiderIPPool");
    slower.spec.ips = Some(scene.set_aside().remove(0).1);
    assert_eq!(reconcile(2).unwrap(), Reconciled::Settled);
    assert_eq!(scene.only_size(), Some(2));
    let refused = scene.env.block_on(scene.server.update(slower)).unwrap_err();
    assert!(refused.is_conflict(), "{refused}");
}

#[test]
fn what_admission_refuses_is_given_back_when_a_slower_writer_of_the_pool_is_kept_away() {
    // Nobody looks at other pools before addresses are pre-allocated, so that admission is the first to refuse.
    let policy = Policy { manual_pool_ignores_preallocation: true, ..Policy::hardened() };
    let scene = Scene::with_subnet(policy);
    let (application, auto_pools) = (application("web", 1), scene.auto_pools(policy));
    let reconcile = |size| {
        let demand = demand(size);
        scene.env.block_on(auto_pools.reconcile(Want { application: &application, demand: &demand }, &IpSet::default()))
    };
    reconcile(2).unwrap();
    // Another replica has read the pool, and is about to enlarge it.
    let mut slower = SpiderIPPool::clone(&scene.server.all::<SpiderIPPool>()[0]);
    slower.spec.ips.as_mut().unwrap().push("10.0.0.20".to_owned());
    let set_aside = scene.set_aside();
    scene.server.put::<SpiderIPPool>(json!({"metadata": {"name": "old"},
        "spec": {"subnet": "10.0.0.0/24", "ipVersion": 4, "ips": ["10.0.0.1-10.0.0.20"]}}));
    let refused = reconcile(3);
    assert!(matches!(refused, Err(ReconcileError::NotAdmitted(_))), "{refused:?}");
    assert_eq!(scene.set_aside(), set_aside);
    let refused = scene.env.block_on(scene.server.update(slower)).unwrap_err();
    assert!(refused.is_conflict(), "{refused}");
}

#[test]
fn a_subnet_that_is_written_late_takes_nothing_from_a_pool_that_has_grown_again() {
    for in_time in [true, false] {
        let scene = Scene::with_subnet(Policy::hardened());
        let reconcile = |size| reconcile(&scene, size);
        reconcile(3).unwrap();
        // The pool has lost an address. The write that removes it from the subnet's status got an error, and is committed later (K114).
        scene.server.refuse("update SpiderSubnet");
        assert!(reconcile(2).is_err());
        scene.server.serve("update SpiderSubnet");
        let mut late = SpiderSubnet::clone(&scene.server.find::<SpiderSubnet>(&ObjectKey::cluster("s")).unwrap());
        let (name, ips) = (scene.set_aside().remove(0).0, scene.server.all::<SpiderIPPool>()[0].spec.ips.clone().unwrap());
        let status = late.status.as_mut().unwrap();
        let application = Some(application("web", 1).name.key());
        status.controlled_ippools.make_mut().unwrap().insert(name, PoolIPPreAllocation { ips, application });
        status.allocated_ip_count = Some(2);

        let commit = || scene.env.block_on(scene.server.update_status(late)).map(drop);
        let (grown, committed) = if in_time {
            let committed = commit();
            (reconcile(3), committed)
        } else {
            (reconcile(3), commit())
        };
        assert_eq!((grown.unwrap(), scene.only_size()), (Reconciled::Settled, Some(3)));
        assert_eq!(committed.map_err(|error| error.is_conflict()), if in_time { Ok(()) } else { Err(true) });
        assert_eq!(Some(scene.set_aside().remove(0).1), scene.server.all::<SpiderIPPool>()[0].spec.ips);
    }
}

#[test]
fn a_stale_cache_of_workloads_takes_no_pool_away() {
    for (policy, stays) in [(Policy::hardened(), true), (with("auto-pool-reclaim-trusts-cache"), false)] {
        let scene = Scene::with_subnet(policy);
        // The cache does not show the new workload yet, but shows its pool, which another replica made.
        scene.server.hold::<Deployment>();
        scene.server.create::<Deployment>(deployment("web", 3, "+0"));
        let web = scene.server.find::<Deployment>(&key("web")).unwrap();
        let mut application = application("web", 1);
        application.uid = web.metadata.uid.clone().unwrap();
        let demand = demand(3);
        let made =
            scene.env.block_on(scene.auto_pools(policy).reconcile(Want { application: &application, demand: &demand }, &IpSet::default()));
        assert_eq!(made.unwrap(), Reconciled::Settled);
        scene.start(policy);
        scene.pass(30);
        assert_eq!(!scene.sizes().is_empty(), stays);
    }
}

#[test]
fn a_pool_that_comes_and_goes_unseen_is_made_anew() {
    let gone = |scene: &Scene| {
        let pool = ObjectKey::cluster(scene.sizes().keys().next().unwrap());
        scene.server.change::<SpiderIPPool>(&pool, |value| value["metadata"]["finalizers"] = json!([]));
        scene.server.delete::<SpiderIPPool>(&pool);
        assert!(scene.sizes().is_empty());
    };
    for (policy, made) in [(Policy::hardened(), Some(3)), (with("application-given-up"), None)] {
        for with_its_subnet in [true, false] {
            let scene = Scene::with_subnet(policy);
            scene.start(policy);
            scene.server.hold::<SpiderIPPool>();
            scene.server.create::<Deployment>(deployment("web", 3, "+0"));
            scene.pass(5);
            assert_eq!(scene.only_size(), Some(3));
            if with_its_subnet {
                scene.server.delete::<SpiderSubnet>(&ObjectKey::cluster("s"));
                gone(&scene);
                scene.pass(310);
                assert!(scene.server.find::<SpiderSubnet>(&ObjectKey::cluster("s")).is_none());
                scene.make_subnet();
                scene.pass(5);
            } else {
                gone(&scene);
                // Nothing reports it before the resync.
                scene.pass(310);
            }
            assert_eq!(scene.only_size(), made, "with its subnet: {with_its_subnet}");
        }
    }
}

#[test]
fn it_is_made_anew_as_soon_as_a_setting_has_all_subnets_looked_at() {
    for (period, made) in [("20", Some(3)), ("300", None), ("0", None)] {
        let policy = Policy::hardened();
        let scene = Scene::with_subnet(policy);
        let mut settings = ControllerSettings::new(policy);
        assert_eq!(settings.set("SPIDERPOOL_SUBNET_INFORMER_RESYNC_PERIOD", period), Ok(true));
        scene.start_under(settings, ());
        scene.server.hold::<SpiderIPPool>();
        scene.server.create::<Deployment>(deployment("web", 3, "+0"));
        scene.pass(5);
        let pool = ObjectKey::cluster(scene.sizes().keys().next().unwrap());
        scene.server.change::<SpiderIPPool>(&pool, |value| value["metadata"]["finalizers"] = json!([]));
        scene.server.delete::<SpiderIPPool>(&pool);
        scene.pass(25);
        assert_eq!(scene.only_size(), made, "every {period} s");
    }
}

/// Third-party controllers: several agents make the pool concurrently.
#[test]
fn agents_that_make_one_pool_at_once_make_one_pool() {
    for policy in [Policy::hardened(), Policy::upstream()] {
        let scene = Scene::with_subnet(policy);
        for number in 0..8 {
            let auto_pools = AutoPools { lowest_first: number % 2 == 0, ..scene.auto_pools(policy) };
            let env = scene.env.clone();
            scene.env.spawn(async move {
                let (mut application, demand) = (application("web", 1), demand(3 + number % 2));
                application.name.kind = "CloneSet".to_owned();
                let want = Want { application: &application, demand: &demand };
                while auto_pools.reconcile(want, &IpSet::default()).await.is_err() {
                    env.sleep(Duration::from_secs(2)).await;
                }
            });
        }
        scene.pass(60);
        let sizes = scene.sizes();
        assert_eq!(sizes.len(), 1);
        let entries = scene.set_aside();
        assert_eq!(entries.len(), 1);
        let pool = scene.server.all::<SpiderIPPool>()[0].clone();
        assert_eq!(Some(&entries[0].1), pool.spec.ips.as_ref());
    }
}

#[test]
fn two_webhooks_that_judge_at_once_admit_what_each_alone_would_refuse() {
    let policy = Policy::hardened();
    let scene = Scene::with_subnet(policy);
    let webhook = || Webhook::start(scene.server.clone(), scene.env.clone(), AdmissionSettings::default(), policy);
    let (one, other) = (webhook(), webhook());
    scene.pass(1);
    let pool = |name: &str| {
        let spec = json!({"metadata": {"name": name}, "spec": {"subnet": "10.0.0.0/24", "ips": ["10.0.0.3"]}});
        Arc::new(serde_json::from_value::<SpiderIPPool>(spec).unwrap())
    };
    let (a, b) = (pool("a"), pool("b"));
    let judge = |webhook: &Webhook<Server, TestEnv>, pool: &Arc<SpiderIPPool>| scene.env.block_on(webhook.review(&Request::Create(pool)));
    let verdicts = [judge(&one, &a), judge(&other, &b)];
    for verdict in &verdicts {
        assert_eq!(verdict.denial, None);
        // The cache of subnets is there, and the pool has its owner.
        let defaulted = verdict.defaulted.as_ref().unwrap();
        assert_eq!(defaulted.metadata.owner_references.as_ref().unwrap()[0].name, "s");
        scene.server.put::<SpiderIPPool>(json!(**defaulted));
    }
    // Now it is too late, and a third one is refused.
    let denial = judge(&one, &pool("c")).denial.unwrap();
    assert_eq!(denial.violations()[0].field, "spec.ips");
    // Either can be repaired, which upstream refuses.
    let old = scene.server.find::<SpiderIPPool>(&ObjectKey::cluster("a")).unwrap();
    let mut new = SpiderIPPool::clone(&old);
    new.spec.ips = Some(vec!["10.0.0.4".to_owned()]);
    let new = Arc::new(new);
    let mend = Request::Update { old: &old, new: &new };
    let listed = scene.env.block_on(other.list_for(&mend)).unwrap();
    assert_eq!(other.validate(&mend, &listed), Ok(()));
    scene.server.refuse("list SpiderIPPool");
    assert_eq!(judge(&one, &a).denial.unwrap().reason(), kube_machinery::Reason::InternalError);
}
