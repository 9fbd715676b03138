use super::ruling_of_pool as ruling;
use super::*;

fn create(workload: Option<&str>, affinity: &Value) -> Ruling {
    let mut pool = controlled("p", workload, json!({"podAffinity": affinity}));
    pool.metadata.owner_references = None;
    ruling(None, Some(&pool), &live(&[], &[]), &ALL)
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
}

#[test]
fn a_pool_selects_by_what_kubernetes_takes_and_by_something() {
    let long = "x".repeat(63);
    for fine in [
        json!({"matchLabels": {"a.b-c/d_e": "", "app": long}}),
        expression("app", "In", &["a", "b"]),
        expression("app", "NotIn", &["a"]),
        expression("app", "Exists", &[]),
        expression("app", "DoesNotExist", &[]),
    ] {
        assert_eq!(create(None, &fine), Ruling::Admitted, "{fine}");
    }
    let at = |name: &str| format!("spec.podAffinity.matchExpressions[0].{name}");
    for (bad, field, fault) in [
        (json!({}), "spec.podAffinity".to_owned(), Fault::Invalid),
        (json!({"matchLabels": {}, "matchExpressions": []}), "spec.podAffinity".to_owned(), Fault::Invalid),
        (json!({"matchLabels": {"app": "no value"}}), "spec.podAffinity.matchLabels".to_owned(), Fault::Invalid),
        (json!({"matchLabels": {"A.b/app": "x"}}), "spec.podAffinity.matchLabels".to_owned(), Fault::Invalid),
        (json!({"matchLabels": {(format!("{}/app", "a".repeat(254))): "x"}}), "spec.podAffinity.matchLabels".to_owned(), Fault::Invalid),
        (json!({"matchLabels": {"app": format!("{long}x")}}), "spec.podAffinity.matchLabels".to_owned(), Fault::Invalid),
        (expression("app", "In", &[]), at("values"), Fault::Required),
        (expression("app", "Exists", &["a"]), at("values"), Fault::Forbidden),
        (expression("app", "Gt", &["1"]), at("operator"), Fault::Invalid),
        (expression("/app", "Exists", &[]), at("key"), Fault::Invalid),
        (expression("app", "In", &["a", "-"]), at("values[1]"), Fault::Invalid),
    ] {
        let ruling = create(None, &bad);
        assert!(is_refused(&ruling, &field, fault), "{bad}: {ruling:?}");
    }
}

#[test]
fn an_auto_pool_selects_by_its_workload_only_whose_name_may_be_long() {
    let own = json!({"matchLabels": {"ipam.spidernet.io/app-name": "x".repeat(99), "ipam.spidernet.io/app-kind": "Deployment"}});
    assert_eq!(create(Some("web"), &own), Ruling::Admitted);
    for bad in [json!({"matchLabels": {"ipam.spidernet.io/app-name": "x", "app": "x"}}), expression("app", "Exists", &[])] {
        assert!(is_refused(&create(Some("web"), &bad), "spec.podAffinity", Fault::Invalid), "{bad}");
    }
}

#[test]
fn other_affinities_are_free() {
    let spec = json!({"nodeAffinity": expression("app", "Gt", &["1"]), "namespaceAffinity": {}});
    assert_eq!(ruling(None, Some(&pool("p", spec)), &live(&[], &[]), &ALL), Ruling::Admitted);
}
