use super::super::{pool_defaults, reserved_ip_defaults, subnet_defaults};
use super::*;

const LABEL: &str = "ipam.spidernet.io/owner-spider-subnet";

/// A pool as a user writes it.
fn written(spec: Value) -> SpiderIPPool {
    let mut pool = pool("p", spec);
    pool.metadata.finalizers = None;
    pool.spec.ip_version = None;
    pool
}

/// A subnet as it is stored.
fn stored(name: &str, spec: Value) -> Arc<SpiderSubnet> {
    let mut subnet = subnet_defaults(&subnet(name, spec));
    subnet.metadata.uid = Some("u".to_owned());
    Arc::new(subnet)
}

#[test]
fn a_pool_gets_finalizer_version_label_and_short_lists() {
    let spec = json!({"ips": ["10.6.0.3", "10.6.0.1-10.6.0.2"], "excludeIPs": [], "nodeName": [], "podAffinity": {"matchLabels": {}}});
    let filled = pool_defaults(&written(spec), &[], &ALL);
    assert_eq!(filled.metadata.finalizers, Some(vec!["spiderpool.spidernet.io".to_owned()]));
    assert_eq!(filled.metadata.labels.unwrap()["ipam.spidernet.io/ippool-cidr"], "10-6-0-0-24");
    assert_eq!(filled.spec, pool("p", json!({"ips": ["10.6.0.1-10.6.0.3"], "podAffinity": {}})).spec);
}

#[test]
fn what_cannot_be_read_ends_it() {
    let list = json!(["10.6.0.3", "10.6.0.2"]);
    let unread = pool_defaults(&written(json!({"subnet": "junk", "ips": list})), &[], &ALL);
    assert_eq!((unread.metadata.labels, unread.spec.ip_version, json!(unread.spec.ips)), (None, None, list.clone()));
    assert!(unread.metadata.finalizers.is_some());
    let unmerged = pool_defaults(&written(json!({"ips": ["junk", "10.6.0.1"], "excludeIPs": list})), &[], &ALL);
    assert_eq!((unmerged.spec.ip_version, json!(unmerged.spec.exclude_ips)), (Some(4), list));
}

#[test]
fn a_pool_inherits_from_the_subnet_of_its_cidr_once() {
    let routes = json!([{"dst": "10.7.0.0/16", "gw": "10.6.0.1"}]);
    let subnets = [stored("s", json!({"gateway": "10.6.0.1", "routes": routes}))];
    let filled = pool_defaults(&written(json!({})), &subnets, &ALL);
    let owner = &filled.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((&*owner.name, &*owner.uid, owner.controller, owner.block_owner_deletion), ("s", "u", Some(true), Some(true)));
    assert_eq!(filled.metadata.labels.as_ref().unwrap()[LABEL], "s");
    assert_eq!((filled.spec.gateway.as_deref(), json!(filled.spec.routes)), (Some("10.6.0.1"), routes));
    // An empty list is kept, and so is everything that the user wrote.
    let own = pool_defaults(&written(json!({"gateway": "10.6.0.9", "routes": []})), &subnets, &ALL);
    assert_eq!((own.spec.gateway.as_deref(), own.spec.routes), (Some("10.6.0.9"), None));
    let mut again = filled;
    (again.spec.gateway, again.spec.routes) = (None, None);
    assert_eq!(pool_defaults(&again, &subnets, &ALL), again);
    let off = pool_defaults(&written(json!({})), &subnets, &AdmissionSettings { enable_spider_subnet: false, ..ALL });
    assert_eq!((off.metadata.owner_references, off.spec.gateway), (None, None));
}

#[test]
fn a_pool_that_somebody_else_controls_stays_his() {
    let mut object = written(json!({"ips": ["10.6.0.2", "10.6.0.1"]}));
    let owner = json!([{"apiVersion": "a/v1", "kind": "A", "name": "a", "uid": "a", "controller": true}]);
    object.metadata.owner_references = serde_json::from_value(owner).unwrap();
    let filled = pool_defaults(&object, &[stored("s", json!({}))], &ALL);
    assert_eq!((filled.metadata.owner_references, filled.spec.ips), (object.metadata.owner_references, object.spec.ips));
}

#[test]
fn a_long_name_of_a_subnet_is_cut_in_the_label() {
    let name = "x".repeat(69);
    let filled = pool_defaults(&written(json!({})), &[stored(&name, json!({}))], &ALL);
    assert_eq!(filled.metadata.labels.as_ref().unwrap()[LABEL], ipam_spiderpool::owner_label::owner_label(&name));
    assert_eq!(filled.metadata.owner_references.as_ref().unwrap()[0].name, name);
    assert_eq!(pool_defaults(&filled, &[], &ALL), filled);
}

#[test]
fn reserved_addresses_have_the_version_of_the_first() {
    let filled = |ips: Value| reserved_ip_defaults(&reserved(json!({"ips": ips}))).spec;
    assert_eq!(filled(json!(["fd00::2", "fd00::1"])), reserved(json!({"ipVersion": 6, "ips": ["fd00::1-fd00::2"]})).spec);
    for unknown in [json!([]), json!(["10.6.0.0/24"]), json!(["10.6.0.9-10.6.0.1"])] {
        assert_eq!(filled(unknown).ip_version, None);
    }
    assert_eq!(filled(json!([])).ips, None);
}

#[test]
fn what_is_being_deleted_is_left_alone() {
    let pool = terminating(written(json!({})));
    assert_eq!(pool_defaults(&pool, &[], &ALL), pool);
    let subnet = terminating(subnet("s", json!({"ips": ["10.6.0.2", "10.6.0.1"]})));
    assert_eq!(subnet_defaults(&subnet), subnet);
    let reserved = terminating(reserved(json!({"ips": ["10.6.0.2", "10.6.0.1"]})));
    assert_eq!(reserved_ip_defaults(&reserved), reserved);
}
