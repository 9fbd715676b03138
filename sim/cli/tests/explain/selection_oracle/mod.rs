//! Pool selection and the oracle that judges it, which was written from the reference alone, on random clusters.

mod recorded;
mod world;

use std::cell::RefCell;
use std::collections::BTreeMap;

use ipam_spiderpool::Policy;
use ipam_spiderpool::select::{IpamConfig, Objects, Request, Selection, Settings, TopController, select};
use proptest::prelude::*;
use proptest::sample::{select as one_of, subsequence};
use serde_json::{Value, json};
use sim_spiderpool::oracle;
use sim_spiderpool::oracle::Answer;
use sim_spiderpool::oracle::Opinion;
use world::{Item, Labels, Pool, Term, World};

const NAMES: [&str; 8] = ["a4", "b4", "ab4", "c4", "a6", "b6", "ab6", "d6"];

/// True once in `times`.
fn once_in(times: u32) -> impl Strategy<Value = bool> {
    (0..times).prop_map(|at| at == 0)
}

/// Something in half of the cases.
fn half<T: std::fmt::Debug + Clone>(some: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    proptest::option::of(some)
}

/// Something in one case of five.
fn rarely<T: std::fmt::Debug + Clone>(some: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    proptest::option::weighted(0.2, some)
}

fn owned(texts: Vec<&str>) -> Vec<String> {
    texts.into_iter().map(str::to_owned).collect()
}

fn labels() -> impl Strategy<Value = Labels> {
    let value =
        |key: &'static str| half(one_of(vec!["x", "y"])).prop_map(move |value| value.map(|value| (key.to_owned(), value.to_owned())));
    (value("k"), value("l")).prop_map(|(one, other)| one.into_iter().chain(other).collect())
}

/// A selector: few terms, most of which often hold.
fn terms() -> impl Strategy<Value = Vec<Term>> {
    let operator = one_of(vec!["Equals", "In", "NotIn", "Exists", "DoesNotExist", "Gt"]);
    let term = (one_of(vec!["k", "l", "m"]), operator, subsequence(vec!["x", "y", "z"], 1..=2)).prop_map(|(key, operator, values)| {
        let count = match operator {
            "Equals" => 1,
            "Exists" | "DoesNotExist" => 0,
            _ => 2,
        };
        Term { key: key.to_owned(), operator: operator.to_owned(), values: owned(values.into_iter().take(count).collect()) }
    });
    proptest::collection::vec(term, 0..=1)
}

/// A rule by name that lets the pod pass in most cases, and is often empty.
fn listed(own: &'static str) -> impl Strategy<Value = Vec<String>> {
    one_of(vec![vec![], vec![], vec![], vec![], vec![], vec![own], vec!["other", own], vec!["other"]]).prop_map(owned)
}

fn pool(name: &'static str) -> impl Strategy<Value = Pool> {
    let family = if name.ends_with('4') { 4 } else { 6 };
    let version = one_of(vec![
        Some(family),
        Some(family),
        Some(family),
        Some(family),
        Some(family),
        Some(family),
        Some(family),
        Some(family),
        Some(family),
        Some(family),
        Some(10 - family),
        None,
    ]);
    let flags = (once_in(16), once_in(16), any::<bool>());
    let rules = (listed("node"), rarely(terms()), listed("ns"), rarely(terms()), rarely(terms()), any::<bool>());
    let numbers = || proptest::collection::vec(1..=3_u8, 0..=4);
    let records = proptest::collection::btree_map(1..=3_u8, once_in(6), 0..=2);
    let networks =
        one_of(vec![vec![], vec![], vec![], vec![], vec![], vec!["net"], vec!["spider/net", "ns/own"], vec!["ns/net"]]).prop_map(owned);
    (version, flags, rules, once_in(8), networks, (numbers(), numbers(), once_in(4), records)).prop_map(
        |(version, (terminating, disabled, default), rules, is_auto, networks, (ips, excluded, excludes, records))| {
            let (node_names, node, namespace_names, namespace, pod, auto) = rules;
            Pool {
                version,
                terminating,
                disabled,
                default,
                node_names,
                node,
                namespace_names,
                namespace,
                pod,
                auto: is_auto.then_some(auto),
                networks,
                ips,
                excluded: if excludes { excluded } else { Vec::new() },
                records,
            }
        },
    )
}

/// Names and patterns of a family, with some of the other family.
fn elements(family: usize) -> impl Strategy<Value = Vec<String>> {
    let mut texts: Vec<&str> = NAMES[family * 4..family * 4 + 4].to_vec();
    texts.extend(["*", "a*", "?4", "?6", "*b?", "none*"]);
    texts.extend(NAMES[family * 4..family * 4 + 4].repeat(3));
    texts.extend([NAMES[3 - family * 3], "gone"]);
    proptest::collection::vec(one_of(texts), 0..=3).prop_map(owned)
}

fn lists() -> impl Strategy<Value = [Vec<String>; 2]> {
    (elements(0), elements(1)).prop_map(|(ipv4, ipv6)| [ipv4, ipv6])
}

/// Items with names, without names, or mixed.
fn items() -> impl Strategy<Value = Vec<Item>> {
    let interfaces = vec![
        vec!["eth0"],
        vec!["eth0", "net1"],
        vec!["net2", "net1", "eth0"],
        vec![""],
        vec!["", "", ""],
        vec!["eth0", "eth0"],
        vec!["", "net1"],
        vec![],
    ];
    (one_of(interfaces), proptest::collection::vec(lists(), 3)).prop_map(|(interfaces, lists)| {
        let item = |(interface, pools): (&str, _)| Item { interface: interface.to_owned(), pools };
        interfaces.into_iter().zip(lists).map(item).collect()
    })
}

fn world() -> impl Strategy<Value = World> {
    let pools = NAMES.map(|name| (once_in(16), pool(name)).prop_map(move |(gone, pool)| (!gone).then(|| (name.to_owned(), pool))));
    let of_namespace = || (half(elements(0)), half(elements(1))).prop_map(|(ipv4, ipv6)| [ipv4, ipv6]);
    let cluster =
        (pools, proptest::collection::vec((one_of(vec![4, 6]), 1..=3_u8), 0..=2), (once_in(8), labels()), (once_in(8), labels()), labels());
    let tiers = (once_in(3), items(), once_in(3), lists(), once_in(2), of_namespace(), of_namespace(), half(lists()));
    let rest = (
        (once_in(8), once_in(8)),
        one_of(vec!["eth0", "eth0", "net1", "net2"]),
        half(one_of(vec!["net", "net", "other"])),
        proptest::collection::vec(one_of(vec!["own", "net"]), 0..=2),
        one_of(vec![1, 2, 100]),
        (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
    );
    (cluster, tiers, rest).prop_map(|(cluster, tiers, rest)| {
        let (pools, reserved, (no_node, node), (no_namespace, namespace), pod) = cluster;
        let (has_ippools, ippools, has_ippool, ippool, has_namespace, of_namespace, outdated, cni) = tiers;
        let ((no_ipv4, no_ipv6), nic, default_network, networks, max_records, switches) = rest;
        let none = || [None, None];
        World {
            pools: pools.into_iter().flatten().collect(),
            reserved,
            node: (!no_node).then_some(node),
            namespace: (!no_namespace).then_some(namespace),
            pod,
            ippools: has_ippools.then_some(ippools),
            ippool: has_ippool.then(|| Item { interface: String::new(), pools: ippool }),
            of_namespace: if has_namespace { of_namespace } else { none() },
            of_namespace_outdated: if has_namespace { outdated } else { none() },
            cni: cni.unwrap_or_default(),
            enabled: [!no_ipv4, !no_ipv6],
            nic: nic.to_owned(),
            default_network: default_network.map(str::to_owned),
            networks: owned(networks),
            max_records,
            duplicates_fail: switches.0,
            capacity_not_filtered: switches.1,
            network_always: switches.2,
            outdated_ignored: switches.3,
        }
    })
}

/// The objects of a world.
struct Made {
    objects: Objects,
    pod: Value,
    settings: Settings,
    cni: IpamConfig,
    policy: Policy,
}

impl Made {
    fn of(world: &World) -> Self {
        let mut objects = Objects::default();
        for (name, pool) in &world.pools {
            objects.pools.insert(serde_json::from_value(pool_object(name, pool)).unwrap());
        }
        for (at, (version, number)) in world.reserved.iter().enumerate() {
            let spec = json!({"ipVersion": version, "ips": [address(*version, *number)]});
            objects.reserved_ips.insert(serde_json::from_value(json!({"metadata": {"name": format!("r{at}")}, "spec": spec})).unwrap());
        }
        if let Some(labels) = &world.node {
            objects.nodes.insert(serde_json::from_value(json!({"metadata": {"name": "node", "labels": labels}})).unwrap());
        }
        if let Some(labels) = &world.namespace {
            let keys = [["default-ipv4-ippool", "default-ipv6-ippool"], ["defaultv4ippool", "defaultv6ippool"]];
            let mut annotations = BTreeMap::new();
            for (keys, lists) in keys.into_iter().zip([&world.of_namespace, &world.of_namespace_outdated]) {
                for (key, list) in keys.into_iter().zip(lists) {
                    annotations.extend(list.as_ref().map(|list| (format!("ipam.spidernet.io/{key}"), json!(list).to_string())));
                }
            }
            let meta = json!({"name": "ns", "labels": labels, "annotations": annotations});
            objects.namespaces.insert(serde_json::from_value(json!({"metadata": meta})).unwrap());
        }
        let mut annotations = BTreeMap::new();
        let lists = |item: &Item| json!({"interface": item.interface, "ipv4": item.pools[0], "ipv6": item.pools[1]});
        if let Some(items) = &world.ippools {
            let items: Vec<_> = items.iter().map(lists).collect();
            annotations.insert("ipam.spidernet.io/ippools", json!(items).to_string());
        }
        if let Some(item) = &world.ippool {
            annotations.insert("ipam.spidernet.io/ippool", lists(item).to_string());
        }
        if !world.networks.is_empty() {
            annotations.insert("k8s.v1.cni.cncf.io/networks", world.networks.join(", "));
        }
        let owner = json!([{"apiVersion": "example.com/v1", "kind": "Set", "name": "mine", "uid": "u", "controller": true}]);
        let meta = json!({
            "name": "pod", "namespace": "ns", "uid": "me", "labels": world.pod, "annotations": annotations, "ownerReferences": owner,
        });
        let settings = Settings {
            enable_ipv4: world.enabled[0],
            enable_ipv6: world.enabled[1],
            enable_spider_subnet: false,
            agent_namespace: "spider".to_owned(),
            multus_cluster_network: world.default_network.clone(),
            max_allocated_ips: world.max_records as u64,
            ..Settings::default()
        };
        let [default_ipv4_ippool, default_ipv6_ippool] = world.cni.clone();
        let policy = Policy {
            wildcard_duplicates_fail: world.duplicates_fail,
            capacity_not_filtered: world.capacity_not_filtered,
            multus_always_resolved: world.network_always,
            outdated_keys_ignored: world.outdated_ignored,
            ..Policy::hardened()
        };
        let cni = IpamConfig { default_ipv4_ippool, default_ipv6_ippool, ..IpamConfig::default() };
        Self { objects, pod: json!({"metadata": meta}), settings, cni, policy }
    }

    /// Passes to `look`: the selection, the oracle's answer under the same switches, and its opinion of any selection by the hardened form.
    fn ask<T>(&self, nic: &str, look: impl FnOnce(&Selection, &Answer, &dyn Fn(&Selection) -> Opinion) -> T) -> T {
        let pod = serde_json::from_value(self.pod.clone()).unwrap();
        let Self { objects, settings, cni, policy, .. } = self;
        let request = Request { pod: &pod, node: "node", nic, cni, master: &[], settings, policy, made: false };
        let controller = TopController::of(objects, &pod).unwrap();
        let answer = oracle::answer(objects, &request, &controller, policy);
        look(&select(objects, &request), &answer, &|selection| oracle::opinion(objects, &request, &controller, selection))
    }
}

fn address(version: i64, number: u8) -> String {
    if version == 4 { format!("10.0.0.{number}") } else { format!("fd00::{number:x}") }
}

fn pool_object(name: &str, pool: &Pool) -> Value {
    // The family of the addresses, whatever the pool states.
    let version = pool.version.unwrap_or(4);
    let addresses = |numbers: &[u8]| numbers.iter().map(|number| address(version, *number)).collect::<Vec<_>>();
    let mut affinity = pool.pod.as_deref().map(selector);
    let mut labels = BTreeMap::new();
    if let Some(mine) = pool.auto {
        let name = if mine { "mine" } else { "other" };
        labels.insert("ipam.spidernet.io/owner-application-name", name);
        let parts =
            [("app-api-group", "example.com"), ("app-api-version", "v1"), ("app-kind", "Set"), ("app-namespace", "ns"), ("app-name", name)];
        let parts: BTreeMap<_, _> = parts.into_iter().map(|(key, value)| (format!("ipam.spidernet.io/{key}"), value)).collect();
        affinity = Some(json!({"matchLabels": parts}));
    }
    let record = |mine: bool| json!({"pod": "ns/x", "podUid": if mine { "me" } else { "you" }});
    let records: BTreeMap<_, _> = pool.records.iter().map(|(number, mine)| (address(version, *number), record(*mine))).collect();
    json!({
        "metadata": {"name": name, "labels": labels, "deletionTimestamp": pool.terminating.then_some("2026-01-05T09:00:00Z")},
        "spec": {
            "ipVersion": pool.version,
            "subnet": if version == 4 { "10.0.0.0/24" } else { "fd00::/64" },
            "ips": addresses(&pool.ips),
            "excludeIPs": addresses(&pool.excluded),
            "disable": pool.disabled,
            "default": pool.default,
            "nodeName": pool.node_names,
            "nodeAffinity": pool.node.as_deref().map(selector),
            "namespaceName": pool.namespace_names,
            "namespaceAffinity": pool.namespace.as_deref().map(selector),
            "podAffinity": affinity,
            "multusName": pool.networks,
        },
        "status": {"allocatedIPs": (!records.is_empty()).then(|| json!(records).to_string())},
    })
}

fn selector(terms: &[Term]) -> Value {
    let (equal, others): (Vec<_>, Vec<_>) = terms.iter().partition(|term| term.operator == "Equals");
    let equal: BTreeMap<_, _> = equal.into_iter().map(|term| (&term.key, &term.values[0])).collect();
    let others: Vec<_> =
        others.into_iter().map(|term| json!({"key": term.key, "operator": term.operator, "values": term.values})).collect();
    json!({"matchLabels": equal, "matchExpressions": others})
}

#[test]
fn selection_is_what_the_reference_says() {
    let seen: RefCell<BTreeMap<String, u32>> = RefCell::default();
    let mut runner =
        proptest::test_runner::TestRunner::new(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() });
    let result = runner.run(&world(), |world| {
        let mut seen = seen.borrow_mut();
        let mut count = |what: String| *seen.entry(what).or_default() += 1;
        Made::of(&world).ask(&world.nic, |selection, answer, _| {
            count(format!("tier {}", answer.tier));
            count(format!("error {:?}", answer.error()));
            for family in answer.nics.iter().flat_map(|nic| &nic.families) {
                let reasons = family.candidates.iter().filter_map(|candidate| candidate.reason);
                reasons.for_each(|reason| count(format!("reason {reason}")));
                let ranks = family.ranks();
                if ranks.len() > 1 {
                    count("ranks".to_owned());
                }
                if ranks.iter().any(|rank| rank.len() > 1) {
                    count("ties".to_owned());
                }
            }
            prop_assert_eq!(answer.difference(selection), None);
            Ok(())
        })
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    let seen = seen.into_inner();
    let reasons = [
        "terminating",
        "disabled",
        "ip-version",
        "node-name",
        "node-affinity",
        "namespace-name",
        "namespace-affinity",
        "pod-affinity",
        "multus-network",
        "multus-name",
        "excluded",
        "reserved",
        "exhausted",
        "missing",
    ];
    let tiers = ["pod-ippools", "pod-ippool", "namespace", "cni-config", "cluster-default", "none"];
    let errors = [
        "empty-ippools",
        "mixed-interfaces",
        "duplicate-interface",
        "interface-not-listed",
        "missing-namespace",
        "no-candidate",
        "duplicate-pool",
        "missing-pool",
        "all-filtered",
    ];
    let wanted = reasons.map(|reason| format!("reason {reason}")).into_iter();
    let wanted = wanted.chain(tiers.map(|tier| format!("tier {tier}"))).chain(errors.map(|error| format!("error Some({error:?})")));
    for what in wanted.chain(["error None", "ranks", "ties"].map(str::to_owned)) {
        assert!(seen.contains_key(&what), "{what} never happens: {seen:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn another_selection_is_noticed_and_a_full_pool_is_forgiven(world in world(), full in any::<bool>()) {
        let hardened = World {
            duplicates_fail: false,
            capacity_not_filtered: full,
            network_always: false,
            outdated_ignored: false,
            ..world
        };
        Made::of(&hardened).ask(&hardened.nic, |selection, _, opinion| {
            prop_assert_eq!(opinion(selection), Opinion::Agrees);
            for nic in 0..selection.nics.len() {
                for family in 0..selection.nics[nic].families.len() {
                    let mut other = selection.clone();
                    let order = &mut other.nics[nic].families[family].order;
                    if order.iter().flatten().count() > 1 && selection.error.is_none() {
                        // The last one comes first.
                        let last = order.pop().unwrap();
                        let (first, rest) = last.split_last().map(|(last, rest)| (last.clone(), rest.to_vec())).unwrap();
                        order.push(rest);
                        order.retain(|rank| !rank.is_empty());
                        order.insert(0, vec![first]);
                        prop_assert!(matches!(opinion(&other), Opinion::OtherOrder(_)), "{:?}", opinion(&other));
                        other.nics[nic].families[family].order.pop();
                        prop_assert!(matches!(opinion(&other), Opinion::Differs(_)), "{:?}", opinion(&other));
                    }
                    let mut other = selection.clone();
                    let dropped = other.nics[nic].families[family].candidates.pop();
                    prop_assert!(dropped.is_none() || matches!(opinion(&other), Opinion::Differs(_)));
                }
            }
            let other = Selection { tier: Default::default(), ..selection.clone() };
            prop_assert!(other.tier == selection.tier || matches!(opinion(&other), Opinion::Differs(_)));
            Ok(())
        })?;
    }
}
