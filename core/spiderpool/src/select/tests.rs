//! Tests of behaviour that recorded answers of upstream's code cannot show.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::*;

/// A cluster with a pod `ns/pod`, and the request for it.
struct World {
    objects: Objects,
    pod: Pod,
    settings: Settings,
    cni: IpamConfig,
    policy: Policy,
}

impl World {
    fn new(annotations: &Value) -> Self {
        let mut objects = Objects::default();
        objects.namespaces.insert(read(json!({"metadata": {"name": "ns"}})));
        let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "set", "controller": true}]);
        objects.stateful_sets.insert(read(json!({"metadata": {"name": "web", "namespace": "ns", "uid": "set"}, "spec": {
            "replicas": 2, "selector": {}, "template": {},
        }})));
        let meta = json!({"name": "pod", "namespace": "ns", "uid": "me", "annotations": annotations, "ownerReferences": owner});
        let (settings, cni, policy) = (Settings::default(), IpamConfig::default(), Policy::hardened());
        Self { objects, pod: read(json!({"metadata": meta})), settings, cni, policy }
    }

    fn pool(&mut self, name: &str, host: u8, more: Value) {
        let mut pool = json!({"metadata": {"name": name}, "spec": {
            "ipVersion": 4, "subnet": format!("10.0.{host}.0/24"), "ips": [format!("10.0.{host}.1-10.0.{host}.2")],
        }});
        merge(&mut pool, more);
        self.objects.pools.insert(read(pool));
    }

    fn select(&self, nic: &str, master: &[IpAddr]) -> Selection {
        let Self { objects, pod, settings, cni, policy } = self;
        select(objects, &Request { pod, node: "node", nic, cni, master, settings, policy, made: false })
    }

    /// The order of the pools of the first NIC, or the class of the error.
    fn order(&self, nic: &str, master: &[IpAddr]) -> Result<Vec<String>, &'static str> {
        let selection = self.select(nic, master).into_result().map_err(|error| error.class())?;
        let order = selection.nics[0].families.iter().flat_map(|family| family.order.iter().flatten());
        Ok(order.map(|pool| pool.metadata.name.clone().unwrap()).collect())
    }
}

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn records(records: &Value) -> Value {
    json!({"status": {"allocatedIPs": records.to_string()}})
}

#[test]
fn outdated_keys_of_a_namespace_are_read_if_the_others_are_absent_and_always_reported() {
    let mut world = World::new(&json!({}));
    world.pool("new", 1, json!({}));
    world.pool("old", 2, json!({}));
    let outdated = "ipam.spidernet.io/defaultv4ippool";
    let annotate = |world: &mut World, annotations: Value| {
        world.objects.namespaces.insert(read(json!({"metadata": {"name": "ns", "annotations": annotations}})));
    };
    annotate(&mut world, json!({outdated: "[\"old\"]"}));
    assert_eq!(world.order("eth0", &[]), Ok(vec!["old".to_owned()]));
    assert_eq!((world.select("eth0", &[]).tier, world.select("eth0", &[]).outdated), (Tier::Namespace, vec![outdated]));
    annotate(&mut world, json!({outdated: "[\"old\"]", "ipam.spidernet.io/default-ipv4-ippool": "[\"new\"]"}));
    assert_eq!(world.order("eth0", &[]), Ok(vec!["new".to_owned()]));
    assert_eq!(world.select("eth0", &[]).outdated, [outdated]);
    world.policy = Policy::upstream();
    assert_eq!(world.select("eth0", &[]).outdated, [""; 0]);
    annotate(&mut world, json!({outdated: "[\"old\"]"}));
    assert_eq!(world.order("eth0", &[]), Err("no-pool"));
}

#[test]
fn a_record_of_another_nic_is_no_address_for_this_one_but_upstream_takes_it() {
    let mut world = World::new(&json!({"ipam.spidernet.io/ippool": "{\"ipv4\":[\"full\",\"other\"]}"}));
    let mine = |nic: &str| json!({"pod": "ns/pod", "podUid": "me", "interface": nic});
    world.pool("full", 1, records(&json!({"10.0.1.1": mine("eth0"), "10.0.1.2": {"pod": "ns/x", "podUid": "x"}})));
    world.pool("other", 2, json!({}));
    assert_eq!(world.order("eth0", &[]).unwrap(), ["full", "other"], "a pool with the pod's record is never exhausted for it");
    assert_eq!(world.order("net1", &[]).unwrap(), ["other"]);

    let draw = |world: &World, nic| {
        let Parts { objects, pod, settings, cni, policy } = Parts::of(world);
        let request = Request { pod, node: "node", nic, cni, master: &[], settings, policy, made: false };
        let reserved = reserved(objects, crate::ranges::IpVersion::V4, policy);
        request.asker(nic).next_free_ip(&objects.pool("full").unwrap(), &reserved).map(|next| (next.to_string(), next.recorded))
    };
    assert_eq!(draw(&world, "eth0"), Ok(("10.0.1.1/24".to_owned(), true)));
    assert_eq!(draw(&world, "net1").unwrap_err().code(), "used-out");
    world.policy = Policy::upstream();
    assert_eq!(draw(&world, "net1"), Ok(("10.0.1.1/24".to_owned(), true)));
}

/// The parts of a world, borrowed.
struct Parts<'a> {
    objects: &'a Objects,
    pod: &'a Pod,
    settings: &'a Settings,
    cni: &'a IpamConfig,
    policy: &'a Policy,
}

impl<'a> Parts<'a> {
    fn of(world: &'a World) -> Self {
        let World { objects, pod, settings, cni, policy } = world;
        Self { objects, pod, settings, cni, policy }
    }
}

#[test]
fn with_match_master_subnet_a_pool_needs_an_address_of_the_physical_function_in_its_subnet() {
    let mut world = World::new(&json!({"ipam.spidernet.io/ippool": "{\"ipv4\":[\"one\",\"two\",\"named\"]}"}));
    world.settings.multus_cluster_network = Some("net".to_owned());
    world.pool("one", 1, json!({}));
    world.pool("two", 2, json!({}));
    world.pool("named", 3, json!({"spec": {"multusName": ["net"]}}));
    let master: IpAddr = "10.0.2.200".parse().unwrap();
    assert_eq!(world.order("eth0", &[]).unwrap(), ["named", "one", "two"]);
    world.cni.match_master_subnet = true;
    assert_eq!(world.order("eth0", &[master]).unwrap(), ["named", "two"], "a named network is accepted at once");
    let selection = world.select("eth0", &[]);
    let rejected: Vec<_> = selection.nics[0].families[0].rejected().collect();
    assert_eq!(rejected, [("one", Reason::MasterSubnet), ("two", Reason::MasterSubnet)]);
}

#[test]
fn an_auto_pool_of_the_wrong_size_is_used_but_not_settled() {
    let mut world = World::new(&json!({"ipam.spidernet.io/subnet": "{\"ipv4\":[\"s4\"]}"}));
    let labels = json!({
        "ipam.spidernet.io/owner-application-name": "web",
        "ipam.spidernet.io/owner-application-namespace": "ns",
        "ipam.spidernet.io/owner-application-kind": "StatefulSet",
        "ipam.spidernet.io/owner-application-gv": "apps_v1",
        "ipam.spidernet.io/owner-application-uid": "set",
        "ipam.spidernet.io/owner-spider-subnet": "s4",
        "ipam.spidernet.io/interface": "eth0",
        "ipam.spidernet.io/ip-version": "IPv4",
    });
    assert_eq!(world.order("eth0", &[]), Err("subnet-no-auto-pool"));
    world.pool("auto", 1, json!({"metadata": {"labels": labels}}));
    assert_eq!(world.order("eth0", &[]).unwrap(), ["auto"]);
    assert!(!world.select("eth0", &[]).unsettled);
    world.pool("auto", 1, json!({"metadata": {"labels": labels}, "spec": {"ips": ["10.0.1.1"]}}));
    assert_eq!(world.order("eth0", &[]).unwrap(), ["auto"]);
    assert!(world.select("eth0", &[]).unsettled);
    assert_eq!(world.order("net1", &[]), Err("subnet-no-auto-pool"), "a pool is for its NIC");
}

#[test]
fn an_auto_pool_of_a_third_party_workload_serves_in_its_size_or_once_it_was_made() {
    let annotations = json!({"ipam.spidernet.io/subnet": "{\"ipv4\":[\"s4\"]}", "ipam.spidernet.io/ippool-ip-number": "2"});
    let mut world = World::new(&annotations);
    let owner = json!([{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web", "uid": "set", "controller": true}]);
    world.pod.metadata.owner_references = serde_json::from_value(owner).unwrap();
    let labels = json!({
        "ipam.spidernet.io/owner-application-name": "web",
        "ipam.spidernet.io/owner-application-namespace": "ns",
        "ipam.spidernet.io/owner-application-kind": "CloneSet",
        "ipam.spidernet.io/owner-application-gv": "apps.kruise.io_v1alpha1",
        "ipam.spidernet.io/owner-application-uid": "set",
        "ipam.spidernet.io/owner-spider-subnet": "s4",
        "ipam.spidernet.io/interface": "eth0",
        "ipam.spidernet.io/ip-version": "IPv4",
    });
    world.pool("auto", 1, json!({"metadata": {"labels": labels}, "spec": {"ips": ["10.0.1.1"]}}));
    world.objects.subnets.insert(read(json!({"metadata": {"name": "s4"}, "spec": {"subnet": "10.0.1.0/24", "ipVersion": 4}})));
    let select = |world: &World, made| {
        let Parts { objects, pod, settings, cni, policy } = Parts::of(world);
        let selection = select(objects, &Request { pod, node: "node", nic: "eth0", cni, master: &[], settings, policy, made });
        (selection.error.as_ref().map(SelectError::class), selection.unsettled)
    };
    assert_eq!(select(&world, false), (Some("subnet-reconcile-failed"), false));
    assert_eq!(select(&world, true), (None, true), "another agent has changed it since");
    world.pool("auto", 1, json!({"metadata": {"labels": labels}}));
    assert_eq!([false, true].map(|made| select(&world, made)), [(None, false); 2]);
    world.pool("auto", 1, json!({"metadata": {"labels": labels}, "spec": {"subnet": "10.0.2.0/24"}}));
    assert_eq!(select(&world, true).0, Some("subnet-reconcile-failed"), "it is of a subnet that is gone");
}

#[test]
fn the_pools_that_a_record_may_be_from_are_those_the_tiers_name() {
    let mut world = World::new(&json!({
        "ipam.spidernet.io/ippools": "[{\"ipv4\":[\"a\"],\"ipv6\":[\"gone\"]},{\"ipv4\":[\"*\"]}]",
    }));
    world.pool("a", 1, json!({}));
    world.pool("b", 2, json!({"spec": {"disable": true}}));
    world.settings.enable_ipv6 = false;
    let Parts { objects, pod, settings, cni, policy } = Parts::of(&world);
    let request = Request { pod, node: "node", nic: "eth0", cni, master: &[], settings, policy, made: false };
    let controller = TopController::of(objects, pod).unwrap();
    let named = |gate| {
        let named = named_pools(objects, &request, &controller, gate).unwrap().into_iter();
        named.map(|(nic, family, pools)| format!("{nic} {family} {}", Vec::from_iter(pools).join(","))).collect::<Vec<_>>()
    };
    assert_eq!(named(true), ["0 IPv4 a", "1 IPv4 a,b"]);
    assert_eq!(named(false), ["0 IPv4 a", "0 IPv6 gone", "1 IPv4 a,b"]);
}

#[test]
fn a_pool_that_names_the_node_or_the_namespace_does_not_ask_for_their_labels() {
    let mut world = World::new(&json!({"ipam.spidernet.io/ippool": "{\"ipv4\":[\"p\"]}"}));
    let other = json!({"matchLabels": {"zone": "elsewhere"}});
    for (names, serves) in [("node", true), ("another", false)] {
        let spec = json!({"nodeName": [names], "nodeAffinity": other, "namespaceName": ["ns"], "namespaceAffinity": other});
        world.pool("p", 1, json!({"spec": spec}));
        assert_eq!(world.order("eth0", &[]).is_ok(), serves, "{names}");
    }
}

#[test]
fn a_pool_whose_addresses_are_all_reserved_does_not_serve() {
    let mut world = World::new(&json!({"ipam.spidernet.io/ippool": "{\"ipv4\":[\"p\",\"q\"]}"}));
    world.pool("p", 1, json!({}));
    world.pool("q", 2, json!({}));
    for (reserved, order, reasons) in
        [("10.0.1.1", vec!["p", "q"], vec![]), ("10.0.1.1-10.0.1.2", vec!["q"], vec![("p", Reason::Reserved)])]
    {
        world.objects.reserved_ips.insert(read(json!({"metadata": {"name": "r"}, "spec": {"ips": [reserved], "ipVersion": 4}})));
        assert_eq!(world.order("eth0", &[]).unwrap(), order);
        assert_eq!(world.select("eth0", &[]).nics[0].families[0].rejected().collect::<Vec<_>>(), reasons);
    }
}
