use super::super::reserved_ip as ruling;
use super::*;

fn create(spec: Value) -> Ruling {
    ruling(None, Some(&reserved(spec)), &ALL)
}

#[test]
fn a_reservation_has_a_version_and_ranges_of_it() {
    // An object without any address is admitted as well (A §14.19).
    for fine in [json!({"ipVersion": 4, "ips": ["10.6.0.1-10.6.0.9", "10.6.0.9"]}), json!({"ipVersion": 6})] {
        assert_eq!(create(fine), Ruling::Admitted);
    }
    for (spec, field, fault) in [
        (json!({}), "spec.ipVersion", Fault::Invalid),
        (json!({"ipVersion": 5, "ips": ["10.6.0.1"]}), "spec.ipVersion", Fault::NotSupported),
        (json!({"ipVersion": 4, "ips": ["10.6.0.1", "fd00::1"]}), "spec.ips[1]", Fault::Invalid),
        (json!({"ipVersion": 4, "ips": ["10.6.0.9-10.6.0.1"]}), "spec.ips[0]", Fault::Invalid),
        (json!({"ips": ["10.6.0.1", "fd00::1", "junk"]}), "spec.ips[2]", Fault::Invalid),
    ] {
        let ruling = create(spec.clone());
        assert!(is_refused(&ruling, field, fault), "{spec}: {ruling:?}");
    }
    let off = AdmissionSettings { enable_ipv6: false, ..ALL };
    assert!(is_refused(&ruling(None, Some(&reserved(json!({"ipVersion": 6}))), &off), "spec.ipVersion", Fault::Forbidden));
}

#[test]
fn an_update_keeps_the_version_and_answers_for_what_it_changes() {
    let old = reserved(json!({"ipVersion": 4, "ips": ["junk"]}));
    let update = |spec| ruling(Some(&old), Some(&reserved(spec)), &AdmissionSettings { enable_ipv4: false, ..ALL });
    assert_eq!(update(json!({"ipVersion": 4, "ips": ["junk"]})), Ruling::Admitted);
    assert!(is_refused(&update(json!({"ipVersion": 4, "ips": ["10.6.0.1", "junk"]})), "spec.ips[1]", Fault::Invalid));
    assert!(is_refused(&update(json!({"ipVersion": 6, "ips": ["fd00::1"]})), "spec.ipVersion", Fault::Forbidden));
}

#[test]
fn a_terminating_reservation_keeps_its_spec_and_any_may_be_deleted() {
    let old = terminating(reserved(json!({"ipVersion": 4, "ips": ["10.6.0.1"]})));
    let other = terminating(reserved(json!({"ipVersion": 4, "ips": ["10.6.0.2"]})));
    assert_eq!(ruling(Some(&old), Some(&old), &ALL), Ruling::Admitted);
    assert_eq!(ruling(Some(&old), Some(&other), &ALL), Ruling::Forbidden);
    assert_eq!(ruling(Some(&old), None, &ALL), Ruling::Admitted);
}
