//! Clusters with many pools, and pools with various fill levels.

use std::net::{IpAddr, Ipv4Addr};

use ipam_spiderpool::select::{IpamConfig, Objects, Request, Settings, Tier};
use ipam_spiderpool::{IPPoolSpec, IPPoolStatus, Policy, PoolIPAllocation, PoolIPAllocations, SpiderIPPool};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use serde_json::{Value, json};

/// The number of pools of a cluster.
pub(crate) const POOLS: u32 = 1_000;

/// A pod in a cluster.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) tier: Tier,
    pub(crate) objects: Objects,
    pod: Pod,
    cni: IpamConfig,
    settings: Settings,
}

fn read<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object")
}

impl Case {
    /// One case for each tier, and the difficult ones.
    pub(crate) fn all() -> Vec<Self> {
        let none = json!({});
        let annotated = |key: &str, value: Value| json!({format!("ipam.spidernet.io/{key}"): value.to_string()});
        let names: Vec<String> = (0..POOLS - 1).map(name).collect();
        let case = |name, tier, annotations: Value, namespace: Value, cni: &[&str], objects: Objects| {
            let mut objects = objects;
            objects
                .namespaces
                .insert(read::<Namespace>(json!({"metadata": {"name": "ns", "labels": {"team": "a"}, "annotations": namespace}})));
            let mut annotations = annotations;
            annotations["v1.multus-cni.io/default-network"] = "kube-system/vlan".into();
            let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "r", "controller": true}]);
            let meta = json!({"name": "pod", "namespace": "ns", "uid": "me", "labels": {"app": "web"}, "annotations": annotations,
                "ownerReferences": owner});
            let pod = read(json!({"metadata": meta, "spec": {"containers": [], "nodeName": "n1"}}));
            let cni = IpamConfig { default_ipv4_ippool: cni.iter().map(|&text| text.to_owned()).collect(), ..IpamConfig::default() };
            Self { name, tier, objects, pod, cni, settings: Settings { max_allocated_ips: u64::MAX, ..Settings::default() } }
        };
        vec![
            case("subnet", Tier::Subnet, annotated("subnet", json!({"ipv4": ["s"]})), none.clone(), &[], pools(false, &[])),
            case(
                "ippools, two names",
                Tier::PodIPPools,
                annotated("ippools", json!([{"interface": "eth0", "ipv4": ["pool-3", "pool-4"]}])),
                none.clone(),
                &[],
                pools(false, &[]),
            ),
            case("ippool, all names", Tier::PodIPPool, annotated("ippool", json!({"ipv4": names})), none.clone(), &[], pools(false, &[])),
            case(
                "ippool, a pattern",
                Tier::PodIPPool,
                annotated("ippool", json!({"ipv4": ["pool-*"]})),
                none.clone(),
                &[],
                pools(false, &[]),
            ),
            case(
                "ippool, a pattern and full pools",
                Tier::PodIPPool,
                annotated("ippool", json!({"ipv4": ["pool-*"]})),
                none.clone(),
                &[],
                pools(false, &FULL),
            ),
            case(
                "ippool, a pattern and excluded pools",
                Tier::PodIPPool,
                annotated("ippool", json!({"ipv4": ["pool-*"]})),
                none.clone(),
                &[],
                pools(false, &EXCLUDED),
            ),
            case(
                "namespace, a pattern",
                Tier::Namespace,
                none.clone(),
                annotated("default-ipv4-ippool", json!(["pool-[0-9]*"])),
                &[],
                pools(false, &[]),
            ),
            case("CNI, a pattern", Tier::CniConfig, none.clone(), none.clone(), &["pool-??"], pools(false, &[])),
            case("default", Tier::ClusterDefault, none.clone(), none.clone(), &[], pools(true, &[])),
            case("default and full pools", Tier::ClusterDefault, none.clone(), none.clone(), &[], pools(true, &FULL)),
        ]
    }

    pub(crate) fn request<'a>(&'a self, policy: &'a Policy) -> Request<'a> {
        let Self { pod, cni, settings, .. } = self;
        Request { pod, node: "n1", nic: "eth0", cni, master: &[], settings, policy, made: false }
    }
}

fn name(number: u32) -> String {
    format!("pool-{number}")
}

/// Every pool except the last is full.
const FULL: [Oddity; 1] = [Oddity::Full];
/// Every pool except the last has no address because all of it is excluded.
const EXCLUDED: [Oddity; 1] = [Oddity::Excluded];

/// A property that keeps pools from serving.
#[derive(Clone, Copy, PartialEq)]
enum Oddity {
    Full,
    Excluded,
}

/// A cluster with pools of 254 addresses with all kinds of rules that the pod passes, and an auto pool.
fn pools(default: bool, odd: &[Oddity]) -> Objects {
    let mut objects = Objects::default();
    objects.nodes.insert(read::<Node>(json!({"metadata": {"name": "n1", "labels": {"zone": "a"}}})));
    let deployment = json!({"metadata": {"name": "web", "namespace": "ns", "uid": "d"},
        "spec": {"replicas": 10, "selector": {}, "template": {}}});
    objects.deployments.insert(read::<Deployment>(deployment));
    let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": true}]);
    let set = json!({"metadata": {"name": "rs", "namespace": "ns", "ownerReferences": owner}, "spec": {"selector": {}}});
    objects.replica_sets.insert(read::<ReplicaSet>(set));
    for number in 0..POOLS - 1 {
        let rest = odd.iter().filter(|_| number + 2 < POOLS);
        let mut pool = pool(number, default, rest.clone().any(|odd| *odd == Oddity::Full));
        if rest.clone().any(|odd| *odd == Oddity::Excluded) {
            pool.spec.exclude_ips = pool.spec.ips.clone();
        }
        objects.pools.insert(pool);
    }
    let label = |key: &str, value: &str| (format!("ipam.spidernet.io/{key}"), Value::from(value));
    let of_owner = [("gv", "apps_v1"), ("kind", "Deployment"), ("namespace", "ns"), ("name", "web"), ("uid", "d")];
    let mut labels: serde_json::Map<_, _> =
        of_owner.map(|(key, value)| label(&format!("owner-application-{key}"), value)).into_iter().collect();
    labels.extend([label("owner-spider-subnet", "s"), label("interface", "eth0"), label("ip-version", "IPv4")]);
    let app =
        [("app-api-group", "apps"), ("app-api-version", "v1"), ("app-kind", "Deployment"), ("app-namespace", "ns"), ("app-name", "web")];
    let app: serde_json::Map<_, _> = app.map(|(key, value)| label(key, value)).into_iter().collect();
    let spec = json!({"ipVersion": 4, "subnet": "10.9.0.0/24", "ips": ["10.9.0.1-10.9.0.10"], "podAffinity": {"matchLabels": app}});
    objects.pools.insert(read(json!({"metadata": {"name": "auto", "labels": labels}, "spec": spec})));
    objects
}

fn pool(number: u32, default: bool, full: bool) -> SpiderIPPool {
    let base = Ipv4Addr::from_bits(0x0a40_0000 + number * 256).octets();
    let [a, b, c, _] = base;
    let mut spec = json!({"ipVersion": 4, "subnet": format!("{a}.{b}.{c}.0/24"), "ips": [format!("{a}.{b}.{c}.1-{a}.{b}.{c}.254")],
        "excludeIPs": [format!("{a}.{b}.{c}.1-{a}.{b}.{c}.9")], "default": default});
    match number % 5 {
        0 => spec["nodeAffinity"] = json!({"matchLabels": {"zone": "a"}}),
        1 => spec["namespaceName"] = json!(["other", "ns"]),
        2 => spec["podAffinity"] = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "web"]}]}),
        3 => spec["multusName"] = json!(["vlan"]),
        _ => {}
    }
    let taken = if full { 1..=254 } else { 10..=100 };
    let records = taken.map(|low| record(IpAddr::from([a, b, c, low as u8]), low)).collect();
    let mut pool: SpiderIPPool = read(json!({"metadata": {"name": name(number)}, "spec": spec}));
    pool.status = Some(status(records));
    pool
}

fn record(ip: IpAddr, number: u32) -> (ipam_spiderpool::RecordKey, PoolIPAllocation) {
    let record = PoolIPAllocation { interface: Some("eth0".to_owned()), pod: format!("ns/pod-{number}"), pod_uid: format!("uid-{number}") };
    (ip.into(), record)
}

fn status(records: PoolIPAllocations) -> IPPoolStatus {
    IPPoolStatus { allocated_ips: records.into(), ..IPPoolStatus::default() }
}

/// The fill level of a pool.
#[derive(Clone, Copy)]
pub(crate) enum Fill {
    Empty,
    Half,
    EveryOther,
    FullButOne,
    FullButOneInStretches,
}

impl Fill {
    pub(crate) const ALL: [Self; 5] = [Self::Empty, Self::Half, Self::EveryOther, Self::FullButOne, Self::FullButOneInStretches];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Half => "the lower half taken",
            Self::EveryOther => "every other taken",
            Self::FullButOne => "full but one",
            Self::FullButOneInStretches => "full but one, every 8th excluded",
        }
    }

    /// A pool of `size` addresses, at most 2^16.
    pub(crate) fn pool(self, size: u32) -> SpiderIPPool {
        let ip = |low: u32| Ipv4Addr::from_bits(0x0a40_0000 + low);
        let excluded = |low: &u32| matches!(self, Self::FullButOneInStretches) && low % 8 == 7;
        let taken = |low: &u32| match self {
            Self::Empty => false,
            Self::Half => *low < size / 2,
            Self::EveryOther => low.is_multiple_of(2),
            Self::FullButOne | Self::FullButOneInStretches => *low != size - 2 && !excluded(low),
        };
        let spec = IPPoolSpec {
            ip_version: Some(4),
            subnet: "10.64.0.0/16".to_owned(),
            ips: Some(vec![format!("{}-{}", ip(0), ip(size - 1))]),
            exclude_ips: Some((0..size).filter(excluded).map(|low| ip(low).to_string()).collect()),
            ..IPPoolSpec::default()
        };
        let mut pool = SpiderIPPool::new("pool", spec);
        pool.status = Some(status((0..size).filter(taken).map(|low| record(ip(low).into(), low)).collect()));
        pool
    }
}
