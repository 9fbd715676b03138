use super::ruling_of_pool as ruling;
use super::*;

fn create(new: &SpiderIPPool, live: &Listed) -> Ruling {
    ruling(None, Some(new), live, &ALL)
}

fn update(old: &SpiderIPPool, new: &SpiderIPPool) -> Ruling {
    ruling(Some(old), Some(new), &live(std::slice::from_ref(old), &[]), &ALL)
}

/// Checks creations without any other object: those that are admitted, and those that are refused with the field and the fault.
fn check(admitted: &[Value], refused: &[(Value, &str, Fault)]) {
    for spec in admitted {
        assert_eq!(create(&pool("p", spec.clone()), &live(&[], &[])), Ruling::Admitted, "{spec}");
    }
    for (spec, field, fault) in refused {
        let ruling = create(&pool("p", spec.clone()), &live(&[], &[]));
        assert!(is_refused(&ruling, field, *fault), "{spec}: {ruling:?}");
    }
}

#[test]
fn a_version_is_known_and_its_family_is_on() {
    check(
        &[json!({}), json!({"ipVersion": 6, "subnet": "fd00::/64"})],
        &[
            (json!({"ipVersion": null, "subnet": "junk"}), "spec.ipVersion", Fault::Invalid),
            (json!({"ipVersion": 5}), "spec.ipVersion", Fault::NotSupported),
        ],
    );
    let off = AdmissionSettings { enable_ipv4: false, ..ALL };
    let refused = ruling(None, Some(&pool("p", json!({}))), &live(&[], &[]), &off);
    assert!(is_refused(&refused, "spec.ipVersion", Fault::Forbidden));
}

#[test]
fn a_cidr_is_of_the_family_and_canonical() {
    let bad = ["junk", "10.6.0.1/24", "10.6.0.0/024", "fd00::/64", "::ffff:10.6.0.0/120"];
    check(&[json!({})], &bad.map(|cidr| (json!({"subnet": cidr}), "spec.subnet", Fault::Invalid)));
}

#[test]
fn a_name_is_taken_whatever_the_family_once_version_and_cidr_are_right() {
    let there = live(&[pool("p", json!({"ipVersion": 6, "subnet": "fd00::/64"}))], &[]);
    assert_eq!(create(&pool("p", json!({"ips": ["junk"]})), &there), Ruling::AlreadyExists);
    assert_eq!(create(&pool("q", json!({})), &there), Ruling::Admitted);
    assert!(is_refused(&create(&pool("p", json!({"ipVersion": 5})), &there), "spec.ipVersion", Fault::NotSupported));
}

#[test]
fn cidrs_are_the_same_or_apart() {
    let there = |subnet: &str| live(&[pool("q", json!({"subnet": subnet}))], &[]);
    for fine in [CIDR, "10.7.0.0/24", "junk"] {
        assert_eq!(create(&pool("p", json!({})), &there(fine)), Ruling::Admitted, "{fine}");
    }
    for wide in ["10.6.0.0/16", "10.6.0.128/25"] {
        assert!(is_refused(&create(&pool("p", json!({})), &there(wide)), "spec.subnet", Fault::Invalid), "{wide}");
    }
}

#[test]
fn ranges_are_in_order_inside_the_cidr_and_apart() {
    check(
        &[json!({"ips": ["10.6.0.1-10.6.0.9", "10.6.0.20"], "excludeIPs": ["10.6.0.1", "10.6.0.1-10.6.0.2"]})],
        &[
            (json!({"ips": ["10.6.0.1", "junk"]}), "spec.ips[1]", Fault::Invalid),
            (json!({"ips": ["10.6.0.9-10.6.0.1"]}), "spec.ips[0]", Fault::Invalid),
            (json!({"ips": ["10.6.1.1"]}), "spec.ips[0]", Fault::Invalid),
            (json!({"ips": ["10.6.0.1-10.6.0.9", "10.6.0.9"]}), "spec.ips[1]", Fault::Invalid),
            (json!({"excludeIPs": ["10.6.1.1"]}), "spec.excludeIPs[0]", Fault::Invalid),
        ],
    );
}

#[test]
fn a_gateway_is_inside_the_cidr_and_nobody_draws_it() {
    check(
        &[
            json!({"gateway": "10.6.0.1", "ips": ["10.6.0.2-10.6.0.9"]}),
            json!({"gateway": "10.6.0.2", "ips": ["10.6.0.2-10.6.0.9"], "excludeIPs": ["10.6.0.2"]}),
        ],
        &[
            (json!({"gateway": "gw"}), "spec.gateway", Fault::Invalid),
            (json!({"gateway": "10.7.0.1"}), "spec.gateway", Fault::Invalid),
            (json!({"gateway": "10.6.0.9", "ips": ["10.6.0.1", "10.6.0.9"]}), "spec.ips[1]", Fault::Invalid),
            // Addresses are compared by value, not by text (A §14.18).
            (json!({"ipVersion": 6, "subnet": "fd00::/64", "gateway": "FD00::1A", "ips": ["fd00::1a"]}), "spec.ips[0]", Fault::Invalid),
        ],
    );
}

#[test]
fn routes_lead_somewhere_else_each_by_an_address_of_the_cidr() {
    let routes = |list: &[(&str, &str)]| json!({"routes": list.iter().map(|(dst, gw)| json!({"dst": dst, "gw": gw})).collect::<Vec<_>>()});
    check(
        &[routes(&[("10.7.0.0/16", "10.6.0.1"), ("10.8.0.5/16", "10.6.0.1")])],
        &[
            (routes(&[("0.0.0.0/0", "10.6.0.1")]), "spec.routes[0].dst", Fault::Invalid),
            (routes(&[("0.0.0.0/00", "10.6.0.1")]), "spec.routes[0].dst", Fault::Invalid),
            (routes(&[("fd00::/64", "10.6.0.1")]), "spec.routes[0].dst", Fault::Invalid),
            (routes(&[("10.7.0.0/16", "10.6.0.1"), ("10.7.0.9/16", "10.6.0.1")]), "spec.routes[1].dst", Fault::Invalid),
            (routes(&[("10.7.0.0/16", "10.7.0.1")]), "spec.routes[0].gw", Fault::Invalid),
        ],
    );
}

#[test]
fn a_new_address_is_in_no_other_pool_whatever_its_labels() {
    let there = live(&[pool("q", json!({"ipVersion": null, "ips": ["10.6.0.10-10.6.0.20", "junk"], "excludeIPs": ["10.6.0.15"]}))], &[]);
    assert_eq!(create(&pool("p", json!({"ips": ["10.6.0.1-10.6.0.9", "10.6.0.15"]})), &there), Ruling::Admitted);
    assert!(is_refused(&create(&pool("p", json!({"ips": ["10.6.0.5-10.6.0.14"]})), &there), "spec.ips", Fault::Forbidden));
}

#[test]
fn what_overlapped_before_may_be_mended() {
    let [old, wide, narrow, other] = [
        pool("p", json!({"ips": ["10.6.0.1-10.6.0.9"]})),
        pool("p", json!({"ips": ["10.6.0.1-10.6.0.10"]})),
        pool("p", json!({"ips": ["10.6.0.5-10.6.0.9"]})),
        pool("q", json!({"ips": ["10.6.0.8-10.6.0.20"]})),
    ];
    let there = live(&[old.clone(), other], &[]);
    assert_eq!(ruling(Some(&old), Some(&narrow), &there, &ALL), Ruling::Admitted);
    assert!(is_refused(&ruling(Some(&old), Some(&wide), &there, &ALL), "spec.ips", Fault::Forbidden));
}

#[test]
fn version_and_cidr_stay_but_a_version_may_be_set() {
    let old = pool("p", json!({}));
    assert!(is_refused(&update(&old, &pool("p", json!({"ipVersion": 6}))), "spec.ipVersion", Fault::Forbidden));
    assert!(is_refused(&update(&old, &pool("p", json!({"subnet": "10.7.0.0/24"}))), "spec.subnet", Fault::Forbidden));
    assert_eq!(update(&pool("p", json!({"ipVersion": null})), &old), Ruling::Admitted);
}

#[test]
fn what_an_update_leaves_as_it_was_is_not_asked() {
    let bad = json!({"ips": ["junk"], "gateway": "gw", "routes": [{"dst": "junk", "gw": "junk"}], "podAffinity": {}});
    let (old, mut new) = (pool("p", bad.clone()), pool("p", bad));
    new.spec.disable = true;
    assert_eq!(ruling(Some(&old), Some(&new), &live(&[], &[]), &AdmissionSettings { enable_ipv4: false, ..ALL }), Ruling::Admitted);
    new.spec.ips = Some(vec!["10.6.0.1".to_owned(), "junk".to_owned()]);
    assert!(is_refused(&update(&old, &new), "spec.ips[1]", Fault::Invalid));
}

#[test]
fn an_address_with_a_record_stays() {
    let (all, few) = (json!({"ips": ["10.6.0.1-10.6.0.9"]}), json!({"ips": ["10.6.0.1-10.6.0.9"], "excludeIPs": ["10.6.0.5"]}));
    let old = |records: &str| with_records(pool("p", all.clone()), records, 1);
    let record = |key: &str| format!(r#"{{"{key}":{{"pod":"a/b","podUid":"u"}}}}"#);
    let new = pool("p", few);
    assert_eq!(update(&old(&record("10.6.0.4")), &new), Ruling::Admitted);
    for key in ["10.6.0.5", "::ffff:10.6.0.5"] {
        assert!(is_refused(&update(&old(&record(key)), &new), "spec.ips", Fault::Forbidden), "{key}");
    }
    assert!(is_refused(&update(&old("[]"), &new), "spec.ips", Fault::Internal));
}

#[test]
fn a_pool_of_a_subnet_has_addresses_of_the_subnet() {
    let there = live(&[], &[subnet("s", json!({"ips": ["10.6.0.10-10.6.0.20"], "excludeIPs": ["10.6.0.15"]}))]);
    let create = |ips: &str, settings| ruling(None, Some(&controlled("p", None, json!({"ips": [ips]}))), &there, settings);
    assert_eq!(create("10.6.0.10-10.6.0.14", &ALL), Ruling::Admitted);
    assert!(is_refused(&create("10.6.0.10-10.6.0.15", &ALL), "spec.ips", Fault::Forbidden));
    assert_eq!(create("10.6.0.10-10.6.0.15", &AdmissionSettings { enable_spider_subnet: false, ..ALL }), Ruling::Admitted);
    let lost = ruling(None, Some(&controlled("p", None, json!({"ips": ["10.6.0.10"]}))), &live(&[], &[]), &ALL);
    assert!(is_refused(&lost, "spec.ips", Fault::Internal));
}

#[test]
fn an_auto_pool_has_what_is_set_aside_for_it_but_not_all_of_it() {
    let set_aside = r#"{"p":{"ips":["10.6.0.10-10.6.0.12"],"application":"apps_v1_Deployment_d_web"}}"#;
    let there = live(&[], &[with_pre_allocations(subnet("s", json!({"ips": ["10.6.0.10-10.6.0.20"]})), set_aside)]);
    let create = |name, ips: &str| ruling(None, Some(&controlled(name, Some("web"), json!({"ips": [ips]}))), &there, &ALL);
    assert_eq!(create("p", "10.6.0.10-10.6.0.11"), Ruling::Admitted);
    assert!(is_refused(&create("p", "10.6.0.12-10.6.0.13"), "spec.ips", Fault::Forbidden));
    assert!(is_refused(&create("q", "10.6.0.10"), "spec.ips", Fault::Forbidden));
    assert_eq!(ruling(None, Some(&controlled("q", Some("web"), json!({}))), &there, &ALL), Ruling::Admitted);
}

#[test]
fn nobody_takes_what_is_set_aside_for_another() {
    let there = |text: &str| live(&[], &[with_pre_allocations(subnet("s", json!({"ips": ["10.6.0.1-10.6.0.20"]})), text)]);
    let set_aside = there(r#"{"p":{"ips":["10.6.0.10-10.6.0.12"]}}"#);
    let create = |name, there: &Listed, settings| ruling(None, Some(&pool(name, json!({"ips": ["10.6.0.10"]}))), there, settings);
    assert_eq!(create("p", &set_aside, &ALL), Ruling::Admitted);
    assert!(is_refused(&create("q", &set_aside, &ALL), "spec.ips", Fault::Forbidden));
    assert_eq!(create("q", &set_aside, &AdmissionSettings { enable_spider_subnet: false, ..ALL }), Ruling::Admitted);
    assert!(is_refused(&create("q", &there("{"), &ALL), "status.controlledIPPools", Fault::Internal));
}

#[test]
fn a_terminating_pool_keeps_its_spec_or_loses_the_finalizer() {
    let old = terminating(pool("p", json!({})));
    let (mut same, mut other) = (old.clone(), old.clone());
    same.metadata.finalizers.get_or_insert_default().push("example.com/x".to_owned());
    other.spec.disable = true;
    assert_eq!(update(&old, &same), Ruling::Admitted);
    assert_eq!(update(&old, &other), Ruling::Forbidden);
    other.metadata.finalizers = None;
    assert_eq!(update(&old, &other), Ruling::Admitted);
}

#[test]
fn a_pool_in_use_is_not_deleted_where_that_is_guarded() {
    let delete =
        |records: &str, count, settings| ruling(Some(&with_records(pool("p", json!({})), records, count)), None, &live(&[], &[]), settings);
    let record = r#"{"10.6.0.5":{"pod":"a/b","podUid":"u"}}"#;
    assert_eq!(delete("{}", 0, &ALL), Ruling::Admitted);
    for (records, count) in [("{}", 1), (record, 0), ("[]", 0)] {
        assert_eq!(delete(records, count, &ALL), Ruling::Forbidden);
    }
    assert_eq!(delete(record, 1, &AdmissionSettings { enable_delete_check: false, ..ALL }), Ruling::Admitted);
}
