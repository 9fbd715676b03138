use super::ruling_of_subnet as ruling;
use super::*;

fn create(spec: Value, live: &Listed) -> Ruling {
    ruling(None, Some(&subnet("s", spec)), live, &ALL)
}

#[test]
fn its_own_fields_are_judged_as_those_of_a_pool() {
    let nobody = live(&[], &[]);
    let fine = json!({"ips": ["10.6.0.2-10.6.0.9"], "gateway": "10.6.0.1", "routes": [{"dst": "10.7.0.0/16", "gw": "10.6.0.1"}]});
    assert_eq!(create(fine, &nobody), Ruling::Admitted);
    // Entries may share addresses (A §1.6).
    assert_eq!(create(json!({"ips": ["10.6.0.2-10.6.0.9", "10.6.0.9"]}), &nobody), Ruling::Admitted);
    for (spec, field, fault) in [
        (json!({"ipVersion": 5}), "spec.ipVersion", Fault::NotSupported),
        (json!({"subnet": "10.6.0.1/24"}), "spec.subnet", Fault::Invalid),
        (json!({"ips": ["10.6.0.9-10.6.0.2"]}), "spec.ips[0]", Fault::Invalid),
        (json!({"excludeIPs": ["10.7.0.9"]}), "spec.excludeIPs[0]", Fault::Invalid),
        (json!({"gateway": "10.7.0.1"}), "spec.gateway", Fault::Invalid),
        (json!({"gateway": "10.6.0.1", "ips": ["10.6.0.1"]}), "spec.ips[0]", Fault::Invalid),
        (json!({"routes": [{"dst": "10.7.0.0/16", "gw": ""}]}), "spec.routes[0].gw", Fault::Invalid),
    ] {
        let ruling = create(spec.clone(), &nobody);
        assert!(is_refused(&ruling, field, fault), "{spec}: {ruling:?}");
    }
}

#[test]
fn a_subnet_is_alone_in_its_cidr() {
    let there = |name, cidr: &str| live(&[], &[subnet(name, json!({"subnet": cidr}))]);
    assert_eq!(create(json!({}), &there("t", "10.7.0.0/24")), Ruling::Admitted);
    assert_eq!(create(json!({}), &there("s", "10.7.0.0/24")), Ruling::AlreadyExists);
    for cidr in [CIDR, "10.0.0.0/8"] {
        assert!(is_refused(&create(json!({}), &there("t", cidr)), "spec.subnet", Fault::Invalid), "{cidr}");
    }
}

#[test]
fn pools_that_were_there_before_fit_in() {
    let there = |spec| live(&[pool("p", spec)], &[]);
    let spec = json!({"ips": ["10.6.0.2-10.6.0.9"]});
    let within = json!({"ips": ["10.6.0.5-10.6.0.20"], "excludeIPs": ["10.6.0.10-10.6.0.20"]});
    assert_eq!(create(spec.clone(), &there(within)), Ruling::Admitted);
    assert!(is_refused(&create(spec.clone(), &there(json!({"ips": ["10.6.0.9-10.6.0.10"]}))), "spec.ips", Fault::Invalid));
    assert!(is_refused(&create(spec, &there(json!({"subnet": "10.6.0.0/16"}))), "spec.subnet", Fault::Invalid));
}

#[test]
fn what_is_set_aside_stays_and_so_does_what_an_auto_pool_has() {
    let all = subnet("s", json!({"ips": ["10.6.0.1-10.6.0.9"]}));
    let update = |text: &str, auto: &[SpiderIPPool], ips: &str| {
        let new = subnet("s", json!({"ips": [ips], "gateway": "10.6.0.10"}));
        ruling(Some(&with_pre_allocations(all.clone(), text)), Some(&new), &live(auto, &[]), &ALL)
    };
    let set_aside = r#"{"p":{"ips":["10.6.0.8"]}}"#;
    assert_eq!(update(set_aside, &[], "10.6.0.2-10.6.0.8"), Ruling::Admitted);
    assert!(is_refused(&update(set_aside, &[], "10.6.0.1-10.6.0.7"), "spec.ips", Fault::Forbidden));
    for text in ["{", r#"{"p":{"ips":["junk"]}}"#] {
        assert_eq!(update(text, &[], "10.6.0.1-10.6.0.9"), Ruling::Admitted);
        assert!(is_refused(&update(text, &[], "10.6.0.1-10.6.0.7"), "status.controlledIPPools", Fault::Internal));
    }
    let has = |workload| [controlled("p", workload, json!({"ips": ["10.6.0.8"]}))];
    assert!(is_refused(&update("{}", &has(Some("web")), "10.6.0.1-10.6.0.7"), "spec.ips", Fault::Forbidden));
    assert_eq!(update("{}", &has(None), "10.6.0.1-10.6.0.7"), Ruling::Admitted);
}

#[test]
fn version_and_cidr_stay_and_what_stays_is_not_asked() {
    let (old, nobody) = (subnet("s", json!({"gateway": "gw"})), live(&[], &[]));
    let update = |spec| ruling(Some(&old), Some(&subnet("s", spec)), &nobody, &ALL);
    assert_eq!(update(json!({"gateway": "gw", "ips": ["10.6.0.1"]})), Ruling::Admitted);
    assert!(is_refused(&update(json!({"gateway": "wg"})), "spec.gateway", Fault::Invalid));
    assert!(is_refused(&update(json!({"ipVersion": 6})), "spec.ipVersion", Fault::Forbidden));
    assert!(is_refused(&update(json!({"subnet": "10.7.0.0/24"})), "spec.subnet", Fault::Forbidden));
}

#[test]
fn a_terminating_subnet_keeps_its_spec_or_loses_the_finalizer() {
    let old = terminating(subnet("s", json!({})));
    let update = |new: &SpiderSubnet| ruling(Some(&old), Some(new), &live(&[], &[]), &ALL);
    let mut new = old.clone();
    assert_eq!(update(&new), Ruling::Admitted);
    new.spec.gateway = Some("gw".to_owned());
    assert_eq!(update(&new), Ruling::Forbidden);
    new.metadata.finalizers = None;
    assert_eq!(update(&new), Ruling::Admitted);
}

#[test]
fn a_subnet_in_use_is_not_deleted_where_that_is_guarded() {
    let delete = |text: &str, settings| ruling(Some(&with_pre_allocations(subnet("s", json!({})), text)), None, &live(&[], &[]), settings);
    let set_aside = r#"{"p":{"ips":["10.6.0.8"]}}"#;
    assert_eq!(delete("{}", &ALL), Ruling::Admitted);
    assert_eq!(delete(set_aside, &ALL), Ruling::Forbidden);
    assert_eq!(delete(set_aside, &AdmissionSettings { enable_delete_check: false, ..ALL }), Ruling::Admitted);
}
