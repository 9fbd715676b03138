//! Each deviation of subnets has a visible effect, which is absent without it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::model::{Failed, Model, application, demand, ip, recorded};
use crate::admission::{AdmissionSettings, Listed, Request, review};
use crate::owner_label::owner_label;
use crate::subnet::{Demand, Fate, Plan, Refusal, Write, reclaim};
use crate::{Policy, SpiderSubnet, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_machinery::JsonText;
use kube_machinery::label_selector::is_value;

fn with(switch: &str) -> Policy {
    let mut policy = Policy::hardened();
    *policy.switch(switch).unwrap() = true;
    policy
}

/// Carries out all work for a workload.
fn reconcile(model: &mut Model, app: usize) -> Result<(), Failed> {
    for _ in 0..5 {
        let plan = model.plan(app, None).unwrap();
        model.carry_out(&plan, 9)?;
        if !plan.again {
            break;
        }
    }
    Ok(())
}

fn pool_name(model: &Model, app: usize) -> String {
    let app = &model.apps[app];
    let demand = app.demand.clone().unwrap_or_else(|| demand(0));
    app.application.pool_name(&demand.nic, demand.family, &model.policy)
}

fn held(model: &Model, name: &str) -> Vec<u8> {
    let ips = model.held().remove(name).unwrap_or_default();
    (1..=254).filter(|last| ips.contains(&ip(*last))).collect()
}

fn twice(model: &Model) -> bool {
    let mut seen = BTreeSet::new();
    !model.set_aside().values().flatten().all(|ip| seen.insert(*ip))
}

/// A W19: a pool shrinks, an agent allocates before the second write, and another workload comes.
fn interrupted_shrink(policy: Policy) -> (Model, Plan) {
    let mut model = Model::new(10, policy).with_app("a", 4).with_app("b", 3);
    reconcile(&mut model, 0).unwrap();
    model.apps[0].demand = Some(demand(2));
    let plan = model.plan(0, None).unwrap();
    model.carry_out(&plan, 1).unwrap();
    let name = pool_name(&model, 0);
    model.record(&name);
    reconcile(&mut model, 1).unwrap_or_default();
    (model, plan)
}

#[test]
fn a_pool_shrinks_before_its_subnet_and_from_its_highest_address() {
    let (mut model, plan) = interrupted_shrink(Policy::hardened());
    assert!(matches!(plan.writes[..], [Write::Update(_), Write::Subnet(_)]), "{plan:?}");
    assert_eq!(held(&model, &pool_name(&model, 0)), [1, 2]);
    assert!(held(&model, &pool_name(&model, 1)).iter().all(|last| *last > 4), "nothing is given away before the second write");
    reconcile(&mut model, 0).unwrap();
    assert_eq!(model.set_aside()[&pool_name(&model, 0)].len(), 2);
    assert!(!twice(&model));
}

#[test]
fn upstream_gives_an_address_away_that_a_pod_has() {
    let mut policy = with("subnet-shrinks-lowest");
    policy.interrupted_shrink_takes_back = true;
    // Upstream does not look at pools when it takes free addresses.
    policy.manual_pool_ignores_preallocation = true;
    let (mut model, plan) = interrupted_shrink(policy);
    assert!(matches!(plan.writes[..], [Write::Subnet(_), Write::Update(_)]), "{plan:?}");
    let (name, other) = (pool_name(&model, 0), pool_name(&model, 1));
    assert_eq!(recorded(&model.pools[&name]), [ip(1)].into());
    assert!(model.set_aside()[&other].contains(&ip(1)), "set aside for the other workload while a pod answers on it");
    // The repair takes it back, and now it is pre-allocated twice.
    assert!(model.carry_out(&model.plan(0, None).unwrap(), 1).is_ok() && twice(&model));
}

#[test]
fn an_interrupted_shrink_is_not_mended_with_what_another_has() {
    let mut policy = with("subnet-shrinks-lowest");
    policy.manual_pool_ignores_preallocation = true;
    let (model, _) = interrupted_shrink(policy);
    assert_eq!(model.plan(0, None), Err(Refusal::Contested(pool_name(&model, 0))));
}

#[test]
fn a_pool_that_is_not_mentioned_is_added_back_with_what_it_has() {
    for (policy, back) in [(Policy::hardened(), true), (with("lost-preallocation-not-restored"), false)] {
        let mut model = Model::new(10, policy).with_app("a", 3);
        reconcile(&mut model, 0).unwrap();
        model.subnet.status.as_mut().unwrap().controlled_ippools = JsonText::default();
        for _ in 0..3 {
            let upkeep = model.upkeep();
            model.carry_out_upkeep(&upkeep, 9).unwrap();
        }
        assert_eq!(model.set_aside().contains_key(&pool_name(&model, 0)), back);
    }
}

#[test]
fn a_subnet_keeps_what_a_pool_has_that_it_does_not_mention() {
    for (policy, taken) in [(Policy::hardened(), false), (with("update-judged-whole"), true)] {
        let mut model = Model::new(10, policy).with_app("a", 3);
        reconcile(&mut model, 0).unwrap();
        let [.., last] = held(&model, &pool_name(&model, 0))[..] else { panic!("the pool has addresses") };
        model.subnet.status.as_mut().unwrap().controlled_ippools = JsonText::default();
        let listed = Listed { pools: model.pools.values().cloned().collect(), subnets: vec![Arc::new(model.subnet.clone())] };
        let old = Arc::new(model.subnet.clone());
        let admits = |exclude: u8| {
            let mut new = SpiderSubnet::clone(&old);
            new.spec.exclude_ips = Some(vec![ip(exclude).to_string()]);
            let request = Request::Update { old: &old, new: &Arc::new(new) };
            review(&request, &listed, &AdmissionSettings::default(), &policy).denial.is_none()
        };
        let free = (1..=10).find(|address| !held(&model, &pool_name(&model, 0)).contains(address)).unwrap();
        assert!(admits(free), "nobody has it");
        assert_eq!(admits(last), taken);
    }
}

#[test]
fn what_cannot_be_read_is_put_together_again_from_the_pools() {
    for (policy, back) in [(Policy::hardened(), true), (with("unreadable-preallocation-dropped"), false)] {
        for (text, whole) in [(r#"{"NAME":{"ips":["junk"],"application":"apps_v1_Deployment_default_a"}}"#, false), ("junk", true)] {
            let mut model = Model::new(10, policy).with_app("a", 3);
            reconcile(&mut model, 0).unwrap();
            let name = pool_name(&model, 0);
            model.subnet.status.as_mut().unwrap().controlled_ippools = JsonText::verbatim(text.replace("NAME", &name));
            // First the label, then the status; a dropped pre-allocation is given to others before anybody looks again.
            for _ in 0..2 {
                let upkeep = model.upkeep();
                model.carry_out_upkeep(&upkeep, 9).unwrap();
            }
            let pools = model.subnet.status.as_ref().unwrap().controlled_ippools.parse();
            match pools {
                Ok(pools) => assert_eq!(pools.get(&name).is_some(), back, "{text}"),
                // Nobody repairs it, and nobody can make a pool.
                Err(_) => assert!(whole && !back, "{text}"),
            }
        }
    }
}

#[test]
fn what_is_set_aside_for_a_pool_of_the_same_name_is_not_ones_own() {
    for (policy, is_taken) in [(Policy::hardened(), false), (with("preallocation-by-name-only"), true)] {
        let mut model = Model::new(10, policy).with_app("a", 3);
        let plan = model.plan(0, None).unwrap();
        model.carry_out(&plan, 1).unwrap();
        // The same name in another namespace, and a UID with the same end.
        model.apps[0].application.name.namespace = "other".to_owned();
        match model.plan(0, None) {
            Ok(plan) => assert!(is_taken && matches!(plan.writes[..], [Write::Hold(_), Write::Create(_)]), "{plan:?}"),
            Err(refusal) => assert!(!is_taken && matches!(refusal, Refusal::NameTaken(_)), "{refusal}"),
        }
    }
}

#[test]
fn a_namesake_does_not_keep_the_addresses_of_a_pool_that_is_gone() {
    for (policy, kept) in [(Policy::hardened(), false), (with("namesake-keeps-preallocation"), true)] {
        let mut model = Model::new(10, policy).with_app("a", 3);
        reconcile(&mut model, 0).unwrap();
        let name = pool_name(&model, 0);
        model.delete_pool(&name);
        model.apps[0].application = application("a", 77);
        for _ in 0..3 {
            let upkeep = model.upkeep();
            model.carry_out_upkeep(&upkeep, 9).unwrap();
        }
        assert_eq!(model.set_aside().contains_key(&name), kept);
    }
}

#[test]
fn a_user_does_not_take_what_is_set_aside() {
    for (policy, taken) in [(Policy::hardened(), false), (with("manual-pool-ignores-preallocation"), true)] {
        let mut model = Model::new(10, policy).with_app("a", 3);
        let plan = model.plan(0, None).unwrap();
        model.carry_out(&plan, 1).unwrap();
        let made = model.user_makes("user", "10.0.0.2");
        assert_eq!(made.is_ok(), taken, "{made:?}");
        // Then the workload never gets its pool.
        assert_eq!(reconcile(&mut model, 0).is_err(), taken);
    }
}

#[test]
fn annotations_of_others_stay() {
    for (policy, stays) in [(Policy::hardened(), true), (with("auto-pool-annotations-replaced"), false)] {
        let mut model = Model::new(10, policy).with_app("a", 3);
        reconcile(&mut model, 0).unwrap();
        let name = pool_name(&model, 0);
        let mut pool = model.pools[&name].as_ref().clone();
        pool.metadata.annotations.get_or_insert_default().insert("note".to_owned(), "mine".to_owned());
        model.pools.insert(name.clone(), pool.into());
        model.apps[0].demand = Some(demand(4));
        reconcile(&mut model, 0).unwrap();
        let annotations = model.pools[&name].metadata.annotations.clone().unwrap();
        assert_eq!(annotations.contains_key("note"), stays);
        assert_eq!(annotations[names::ANNOTATION_IPPOOL_IP_NUMBER], "4");
    }
}

#[test]
fn a_workload_has_its_own_pool_before_one_that_a_namesake_left() {
    for (policy, own) in [(Policy::hardened(), true), (with("namesake-pool-first"), false)] {
        let mut model = Model::new(10, policy).with_app("a", 3);
        reconcile(&mut model, 0).unwrap();
        let name = pool_name(&model, 0);
        let uid = model.apps[0].application.uid.clone();
        // A late request made a pool for an earlier workload of the same name, and it stays.
        let mut left = model.pools[&name].as_ref().clone();
        left.metadata.name = Some("auto4-a-before".to_owned());
        let labels = left.metadata.labels.get_or_insert_default();
        labels.insert(names::LABEL_OWNER_APPLICATION_UID.to_owned(), "another".to_owned());
        labels.insert(names::LABEL_IPPOOL_RECLAIM.to_owned(), "false".to_owned());
        let before = (left.metadata.name.clone().unwrap(), name.clone());
        assert!(before.0 < before.1, "{before:?}");
        model.pools.insert(before.0, left.into());
        let app = &model.apps[0];
        let demand = app.demand.clone().unwrap();
        let pool = model.pool_of(app, &demand).unwrap();
        assert_eq!(pool.metadata.labels.as_ref().unwrap()[names::LABEL_OWNER_APPLICATION_UID] == uid, own);
        // Its own pool is yet to be created: the pre-allocation shows that. Without it the workload takes the leftover pool.
        model.pools.remove(&name);
        assert_eq!(model.pool_of(&model.apps[0], &demand).is_none(), own);
        model.subnet.status = None;
        assert!(model.pool_of(&model.apps[0], &demand).is_some());
    }
}

#[test]
fn a_pool_that_nobody_asks_for_goes_once_no_pod_has_an_address() {
    let mut model = Model::new(10, Policy::hardened()).with_app("a", 3);
    reconcile(&mut model, 0).unwrap();
    let name = pool_name(&model, 0);
    let uid = model.apps[0].application.uid.clone();
    let wants = |wants: &[Demand]| Fate::There { uid: uid.clone(), wants: Some(wants.to_vec()) };
    let elsewhere = Demand { nic: "net1".to_owned(), ..demand(3) };
    let removed = with("removed-annotation-keeps-pool");
    for (fate, goes) in [
        (wants(&[demand(9)]), [false, false]),
        (wants(&[]), [true, false]),
        (wants(&[elsewhere]), [true, false]),
        (Fate::Gone, [true, true]),
        (Fate::Unknown, [false, false]),
    ] {
        assert_eq!([&Policy::hardened(), &removed].map(|policy| reclaim(&model.pools[&name], &fate, policy)), goes, "{fate:?}");
    }
    model.record(&name);
    assert!(!reclaim(&model.pools[&name], &Fate::Gone, &Policy::hardened()));
}

#[test]
fn a_subnet_goes_after_its_pools() {
    for (policy, at_once) in [(Policy::hardened(), false), (with("subnet-finalizer-trusts-status"), true)] {
        let mut model = Model::new(10, policy).with_app("a", 3);
        reconcile(&mut model, 0).unwrap();
        let name = pool_name(&model, 0);
        model.record(&name);
        model.subnet.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        model.subnet.status.as_mut().unwrap().controlled_ippools = JsonText::default();
        let upkeep = model.upkeep();
        model.carry_out_upkeep(&upkeep, 9).unwrap();
        assert!(model.pools[&name].metadata.deletion_timestamp.is_some(), "it is taken down");
        assert_eq!(model.subnet.metadata.finalizers.is_none(), at_once);
        assert!(matches!(model.plan(0, None), Err(Refusal::SubnetTerminating(_))));
        model.release(&name, 0);
        let upkeep = model.upkeep();
        model.carry_out_upkeep(&upkeep, 9).unwrap();
        assert_eq!(model.subnet.metadata.finalizers, None);
    }
}

#[test]
fn names_that_no_label_takes_are_shortened_and_still_told_apart() {
    let long = |end: &str| format!("{}{end}", "x".repeat(68));
    for (policy, valid) in [(Policy::hardened(), true), (with("long-names-unshortened"), false)] {
        let mut model = Model::new(20, policy).with_app(&long("a"), 3).with_app(&long("b"), 3);
        for app in 0..2 {
            reconcile(&mut model, app).unwrap();
            let pool = &model.pools[&pool_name(&model, app)];
            assert_eq!(pool.metadata.labels.iter().flatten().all(|(_, value)| is_value(value)), valid);
            let found = model.pool_of(&model.apps[app], model.apps[app].demand.as_ref().unwrap());
            assert_eq!(found.map(|found| found.metadata.name.clone()), valid.then(|| pool.metadata.name.clone()));
        }
    }
    // The pool of another workload with the same label is not the workload's own.
    let mut model = Model::new(20, Policy::hardened()).with_app(&long("a"), 3);
    reconcile(&mut model, 0).unwrap();
    let model = model.with_app(&owner_label(&long("a")), 3);
    assert_eq!(model.pool_of(&model.apps[1], model.apps[1].demand.as_ref().unwrap()), None);
}

#[test]
fn a_pool_of_the_cidr_that_nobody_owns_is_adopted() {
    let mut model = Model::new(10, Policy::hardened());
    // There was no label yet by which to find the subnet.
    model.user_makes("user", "10.0.0.2-10.0.0.3").unwrap();
    assert!(model.pools["user"].metadata.owner_references.is_none());
    for _ in 0..3 {
        let upkeep = model.upkeep();
        model.carry_out_upkeep(&upkeep, 9).unwrap();
    }
    assert_eq!(model.pools["user"].metadata.owner_references.as_ref().unwrap()[0].uid, "uid-s");
    assert_eq!(model.set_aside()["user"], [ip(2), ip(3)].into());
    let status = model.subnet.status.as_ref().unwrap();
    assert_eq!((status.total_ip_count, status.allocated_ip_count), (Some(10), Some(2)));
}

#[test]
fn a_pool_that_a_webhook_gave_to_an_earlier_subnet_of_the_name_is_adopted() {
    for (restores, uid) in [(true, "uid-s"), (false, "uid-before")] {
        let policy = Policy { lost_preallocation_not_restored: !restores, ..Policy::hardened() };
        let mut model = Model::new(10, policy);
        model.user_makes("user", "10.0.0.2-10.0.0.3").unwrap();
        let before = OwnerReference { uid: "uid-before".to_owned(), ..crate::subnet::pool::owner(&model.subnet) };
        Arc::make_mut(model.pools.get_mut("user").unwrap()).metadata.owner_references = Some(vec![before]);
        for _ in 0..3 {
            let upkeep = model.upkeep();
            model.carry_out_upkeep(&upkeep, 9).unwrap();
        }
        let owners = model.pools["user"].metadata.owner_references.as_ref().unwrap();
        assert_eq!((owners.len(), &*owners[0].uid, model.set_aside().contains_key("user")), (1, uid, restores));
    }
}
