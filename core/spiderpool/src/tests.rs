//! The wire form of each type.

use std::any::TypeId;

use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::*;
use kube_machinery::json_text::escaped_len;
use kube_machinery::{JsonText, Object, TextForm};

/// Reads what `kubectl get` prints, expects the same back, and returns the object.
fn round_trip<K: Object>(printed: &Value) -> K {
    let object: K = serde_json::from_value(printed.clone()).unwrap();
    assert_eq!(serde_json::to_value(&object).unwrap(), *printed);
    object
}

const RECORDS: &str =
    r#"{"10.1.0.10":{"pod":"default/web-1","podUid":"5f0c"},"10.1.0.2":{"interface":"net1","pod":"default/web-0","podUid":"a1b2"}}"#;

fn pool() -> Value {
    json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool",
        "metadata": {
            "annotations": {"ipam.spidernet.io/ippool-ip-number": "+2"},
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "deletionGracePeriodSeconds": 0,
            "deletionTimestamp": "2026-01-02T03:05:05Z",
            "finalizers": ["spiderpool.spidernet.io"],
            "generation": 2,
            "labels": {"ipam.spidernet.io/ippool-cidr": "10-1-0-0-24"},
            "name": "p1",
            "ownerReferences": [{
                "apiVersion": "spiderpool.spidernet.io/v2beta1", "blockOwnerDeletion": true, "controller": true,
                "kind": "SpiderSubnet", "name": "s1", "uid": "0e1f",
            }],
            "resourceVersion": "1234",
            "uid": "7d2e",
        },
        "spec": {
            "default": false,
            "disable": true,
            "excludeIPs": ["10.1.0.5"],
            "gateway": "10.1.0.1",
            "ipVersion": 4,
            "ips": ["10.1.0.2-10.1.0.20"],
            "multusName": ["kube-system/net"],
            "namespaceAffinity": {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]},
            "namespaceName": ["default"],
            "nodeAffinity": {},
            "nodeName": ["n1"],
            "podAffinity": {"matchLabels": {"app": "web"}},
            "routes": [{"dst": "10.2.0.0/16", "gw": "10.1.0.1"}],
            "subnet": "10.1.0.0/24",
        },
        "status": {"allocatedIPCount": 2, "allocatedIPs": RECORDS, "totalIPCount": 18},
    })
}

#[test]
fn ippool_round_trips() {
    let pool: SpiderIPPool = round_trip(&pool());
    let status = pool.status.unwrap();
    let records = status.allocated_ips.parse().unwrap();
    assert_eq!((records.len(), records.to_text().as_str()), (2, RECORDS));
    assert_eq!(records.get("10.1.0.2").unwrap().interface.as_deref(), Some("net1"));
}

#[test]
fn ippool_tells_absent_from_empty() {
    let mut printed = pool();
    printed["status"] = json!({});
    let spec = json!({"default": true, "disable": false, "ips": [], "routes": [], "subnet": "10.1.0.0/24"});
    printed["spec"] = spec;
    let pool: SpiderIPPool = round_trip(&printed);
    assert_eq!((pool.spec.routes, pool.spec.exclude_ips), (Some(vec![]), None));

    printed.as_object_mut().unwrap().remove("status");
    assert_eq!(round_trip::<SpiderIPPool>(&printed).status, None);
}

#[test]
fn crd_defaults_are_filled_in_and_required_fields_are_required() {
    let read = |spec| serde_json::from_value::<SpiderIPPool>(json!({"metadata": {"name": "p"}, "spec": spec}));
    for spec in [json!({"subnet": "::/64"}), json!({"subnet": "::/64", "default": null, "disable": null, "ips": null})] {
        let spec = serde_json::to_value(read(spec).unwrap().spec).unwrap();
        assert_eq!(spec, json!({"subnet": "::/64", "default": false, "disable": false}));
    }
    assert!(read(json!({})).unwrap_err().to_string().contains("missing field `subnet`"));
}

#[test]
fn the_last_record_takes_the_field_with_it() {
    let pool: SpiderIPPool = round_trip(&pool());
    let mut status = pool.status.unwrap();
    let records = status.allocated_ips.make_mut().unwrap();
    records.remove("10.1.0.2");
    records.remove("10.1.0.10");
    assert_eq!(serde_json::to_value(&status).unwrap(), json!({"allocatedIPCount": 2, "totalIPCount": 18}));
    assert_eq!(status.allocated_ips, JsonText::default());
}

#[test]
fn unreadable_records_are_kept_while_other_fields_change() {
    let mut printed = pool();
    for text in ["", "{}", "oops", "{\"10.1.0.2\": {\"pod\": \"a/b\", \"podUid\": \"u\"}}"] {
        printed["status"]["allocatedIPs"] = json!(text);
        let mut pool: SpiderIPPool = round_trip(&printed);
        let _ = pool.status.as_ref().unwrap().allocated_ips.parse();
        pool.spec.disable = false;
        assert_eq!(serde_json::to_value(&pool).unwrap()["status"], printed["status"]);
    }
}

#[test]
fn subnet_round_trips() {
    let controlled = concat!(
        r#"{"auto4-web-eth0-12345":{"ips":["10.6.0.1-10.6.0.3"],"application":"apps_v1_Deployment_default_web"},"#,
        r#""manual-pool":{"ips":["10.6.0.50-10.6.0.60"]}}"#
    );
    let subnet: SpiderSubnet = round_trip(&json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderSubnet",
        "metadata": {"labels": {"ipam.spidernet.io/subnet-cidr": "10-6-0-0-16"}, "name": "s1"},
        "spec": {
            "excludeIPs": ["10.6.0.9"], "gateway": "10.6.0.254", "ipVersion": 4, "ips": ["10.6.0.1-10.6.0.100"],
            "routes": [], "subnet": "10.6.0.0/16",
        },
        "status": {"allocatedIPCount": 14, "controlledIPPools": controlled, "totalIPCount": 99},
    }));
    let mut cell = subnet.status.unwrap().controlled_ippools;
    let pools = cell.make_mut().unwrap();
    assert_eq!(pools.to_text(), controlled);
    assert_eq!(pools.get(&"manual-pool".to_owned()).unwrap().application, None);

    pools.insert("manual-pool".into(), PoolIPPreAllocation::default());
    assert_eq!(pools.text_len(), pools.to_text().len());
    assert_eq!(pools.escaped_len(), escaped_len(pools.to_text().as_bytes()));
    pools.remove(&"manual-pool".to_owned());
    pools.remove(&"auto4-web-eth0-12345".to_owned());
    assert!(cell.is_absent());
}

#[test]
fn a_pool_without_set_aside_addresses_is_readable() {
    let pools = PoolIPPreAllocations::from_text(r#"{"p":{"ips":null}}"#).unwrap();
    assert_eq!(pools.to_text(), r#"{"p":{"ips":[]}}"#);
}

#[test]
fn reserved_ip_round_trips() {
    let mut printed = json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderReservedIP",
        "metadata": {"name": "r1"},
        "spec": {"ipVersion": 6, "ips": ["fd00::1-fd00::9"]},
    });
    round_trip::<SpiderReservedIP>(&printed);
    printed["spec"] = json!({});
    round_trip::<SpiderReservedIP>(&printed);
}

#[test]
fn endpoint_round_trips() {
    let mut printed = json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderEndpoint",
        "metadata": {
            "finalizers": ["spiderpool.spidernet.io"],
            "name": "web-0",
            "namespace": "default",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "a1b2"}],
        },
        "status": {
            "current": {
                "ips": [
                    {
                        "cleanGateway": false, "interface": "eth0", "ipv4": "10.1.0.2/24", "ipv4Gateway": "10.1.0.1", "ipv4Pool": "p4",
                        "ipv6": "fd00::2/64", "ipv6Gateway": "fd00::1", "ipv6Pool": "p6", "mac": "02:00:00:00:00:01",
                        "routes": [{"dst": "10.2.0.0/16", "gw": "10.1.0.1"}], "vlan": 7,
                    },
                    {"interface": "", "vlan": 0},
                ],
                "node": "n1",
                "uid": "a1b2",
            },
            "ownerControllerName": "web",
            "ownerControllerType": "StatefulSet",
        },
    });
    let endpoint: SpiderEndpoint = round_trip(&printed);
    assert_eq!(endpoint.status.unwrap().current.ips[1].vlan, 0);

    printed["status"]["current"]["ips"] = json!([]);
    round_trip::<SpiderEndpoint>(&printed);
    printed["status"]["current"].as_object_mut().unwrap().remove("ips");
    let error = serde_json::from_value::<SpiderEndpoint>(printed).unwrap_err();
    assert!(error.to_string().contains("missing field `ips`"), "{error}");
}

#[test]
fn resources_are_what_the_crds_say() {
    fn resource<K: Object<Scope: 'static>>() -> String {
        let namespaced = TypeId::of::<K::Scope>() == TypeId::of::<k8s_openapi::NamespaceResourceScope>();
        let scope = if namespaced { "Namespaced" } else { "Cluster" };
        format!("{} {} {} {scope}", K::api_version(&()), K::plural(&()), K::kind(&()))
    }
    assert_eq!(resource::<SpiderIPPool>(), "spiderpool.spidernet.io/v2beta1 spiderippools SpiderIPPool Cluster");
    assert_eq!(resource::<SpiderSubnet>(), "spiderpool.spidernet.io/v2beta1 spidersubnets SpiderSubnet Cluster");
    assert_eq!(resource::<SpiderReservedIP>(), "spiderpool.spidernet.io/v2beta1 spiderreservedips SpiderReservedIP Cluster");
    assert_eq!(resource::<SpiderEndpoint>(), "spiderpool.spidernet.io/v2beta1 spiderendpoints SpiderEndpoint Namespaced");

    let crds = [(SpiderIPPool::crd(), "sp", true), (SpiderSubnet::crd(), "ss", true), (SpiderReservedIP::crd(), "sr", false)];
    for (crd, short, has_status) in crds {
        let crd = serde_json::to_value(crd).unwrap();
        assert_eq!((&crd["spec"]["scope"], &crd["spec"]["names"]["shortNames"]), (&json!("Cluster"), &json!([short])));
        let version = &crd["spec"]["versions"][0];
        assert_eq!(version["subresources"].get("status").is_some(), has_status);
    }

    let crd = serde_json::to_value(SpiderIPPool::crd()).unwrap();
    let at = |path| crd.pointer(&format!("/spec/versions/0/schema/openAPIV3Schema/properties/{path}"));
    assert_eq!(at("spec/required"), Some(&json!(["subnet"])));
    assert_eq!(at("spec/properties/default/default"), Some(&json!(false)));
    assert_eq!(at("spec/properties/ipVersion/enum"), Some(&json!([4, 6])));
    assert_eq!(at("status/properties/allocatedIPs/type"), Some(&json!("string")));
    assert_eq!((at("status/properties/allocatedIPs/default"), at("status/required")), (None, None));
}
