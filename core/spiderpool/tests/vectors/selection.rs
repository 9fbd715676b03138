//! Pool selection compared with recorded answers of upstream's code.
//!
//! The recorded cases are in `tests/data/selection.jsonl`, or in the file of that name in the folder that the environment variable
//! `IPAM_VECTORS` names. The copy in `tests/data` is a part of the 1122 recorded cases: of each combination of theme, tier, error and tags
//! the first ones by ID (`tests/data/README.md`).

use std::collections::BTreeSet;

use crate::recorded;
use ipam_spiderpool::Policy;
use ipam_spiderpool::select::{FamilySelection, NetworkConfig, Objects, Request, Settings, Unavailable, reserved, select};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value, json};

/// One case, ready for a selection.
struct Case {
    objects: Objects,
    pod: Pod,
    settings: Settings,
    network: NetworkConfig,
    nic: String,
    node: String,
}

impl Case {
    fn read(case: &Value) -> Self {
        let text = |key: &str| case[key].as_str().unwrap().to_owned();
        let mut pods = Vec::new();
        let objects = objects(&case["cluster"], &mut pods);
        let wanted = text("pod");
        let is_wanted = |pod: &Pod| {
            let meta = &pod.metadata;
            format!("{}/{}", meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default()) == wanted
        };
        let pod = pods.into_iter().find(is_wanted).expect("the pod is among the objects");
        let mut settings = Settings::default();
        for (key, value) in case["settings"].as_object().unwrap() {
            let name = match key.as_str() {
                "multusClusterNetwork" => "MULTUS_CLUSTER_NETWORK",
                "maxAllocatedIPs" => "SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS",
                name => name,
            };
            let value = match value {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            assert_eq!(settings.set(name, &value), Ok(true), "{key}");
        }
        let network = serde_json::from_value(case["cni_config"].clone()).unwrap();
        Self { objects, pod, settings, network, nic: text("nic"), node: text("node") }
    }

    fn request<'a>(&'a self, policy: &'a Policy) -> Request<'a> {
        let Self { pod, settings, network, nic, node, .. } = self;
        Request { pod, node, nic, cni: &network.ipam, master: &[], settings, policy, made: false }
    }

    /// The answer in the form of the recorded ones.
    fn answer(&self, policy: &Policy) -> Value {
        let request = self.request(policy);
        let selection = select(&self.objects, &request);
        let error = selection.error.as_ref().map(|error| error.class());
        let sifted = matches!(error, None | Some("all-filtered"));
        let mut exhausted = false;
        let mut nics = Vec::new();
        for nic in &selection.nics {
            let mut families = Vec::new();
            for family in &nic.families {
                let mut fields = named(family);
                if sifted {
                    let supplies = self.supplies(&request, &nic.nic, family, &mut fields);
                    exhausted |= error.is_none() && !supplies;
                }
                families.push(Value::Object(fields));
            }
            nics.push(json!({"nic": nic.nic, "families": families}));
        }
        json!({
            "tier": selection.tier.name(),
            "error": error,
            "allocate_error": exhausted.then_some("exhausted"),
            "nameless": selection.nameless,
            "nics": sorted(nics),
        })
    }

    /// Adds order, addresses and the possible first pools; returns whether there is any.
    fn supplies(&self, request: &Request<'_>, nic: &str, family: &FamilySelection, fields: &mut Map<String, Value>) -> bool {
        let reserved = reserved(&self.objects, family.family, request.policy);
        let (mut addresses, mut unavailable, mut first) = (Map::new(), Map::new(), BTreeSet::new());
        for rank in &family.order {
            let mut of_rank = BTreeSet::new();
            for pool in rank {
                let name = pool.metadata.name.clone().unwrap();
                let supply = request.asker(nic).next_free_ip(pool, &reserved);
                if let Ok(supply) = &supply {
                    of_rank.insert(supply.to_string());
                }
                unavailable.extend(supply.as_ref().err().map(|error: &Unavailable| (name.clone(), json!(error.code()))));
                addresses.insert(name, json!(supply.ok().map(|supply| supply.to_string())));
            }
            if first.is_empty() {
                first = of_rank;
            }
        }
        let served = !first.is_empty();
        let names = |rank: &Vec<_>| rank.iter().map(pool_name).collect::<BTreeSet<_>>();
        fields.insert("order".to_owned(), json!(family.order.iter().map(names).collect::<Vec<_>>()));
        fields.insert("addresses".to_owned(), addresses.into());
        fields.insert("unavailable".to_owned(), unavailable.into());
        fields.insert("first".to_owned(), json!(first));
        served
    }
}

fn pool_name(pool: &std::sync::Arc<ipam_spiderpool::SpiderIPPool>) -> String {
    pool.metadata.name.clone().unwrap()
}

fn named(family: &FamilySelection) -> Map<String, Value> {
    let candidates: BTreeSet<_> = family.candidates.iter().map(|candidate| candidate.name()).collect();
    let rejected: BTreeSet<_> = family.rejected().map(|(pool, reason)| (pool, reason.code())).collect();
    let rejected: Vec<_> = rejected.into_iter().map(|(pool, reason)| json!({"pool": pool, "reason": reason})).collect();
    let Value::Object(fields) = json!({"ip_version": family.family.number(), "candidates": candidates, "rejected": rejected}) else {
        unreachable!("an object")
    };
    fields
}

fn objects(cluster: &Value, pods: &mut Vec<Pod>) -> Objects {
    let mut objects = Objects::default();
    for object in cluster.as_array().unwrap() {
        macro_rules! read {
            ($into:expr) => {
                $into(serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}")))
            };
        }
        match object["kind"].as_str().unwrap() {
            "Pod" => read!(|pod| pods.push(pod)),
            "Namespace" => drop(read!(|it| objects.namespaces.insert(it))),
            "Node" => drop(read!(|it| objects.nodes.insert(it))),
            "SpiderIPPool" => drop(read!(|it| objects.pools.insert(it))),
            "SpiderReservedIP" => drop(read!(|it| objects.reserved_ips.insert(it))),
            "SpiderSubnet" => drop(read!(|it| objects.subnets.insert(it))),
            "ReplicaSet" => drop(read!(|it| objects.replica_sets.insert(it))),
            "Deployment" => drop(read!(|it| objects.deployments.insert(it))),
            "StatefulSet" => drop(read!(|it| objects.stateful_sets.insert(it))),
            "DaemonSet" => drop(read!(|it| objects.daemon_sets.insert(it))),
            "Job" => drop(read!(|it| objects.jobs.insert(it))),
            "CronJob" => drop(read!(|it| objects.cron_jobs.insert(it))),
            kind => panic!("objects of kind {kind}"),
        }
    }
    objects
}

fn sorted(mut nics: Vec<Value>) -> Vec<Value> {
    nics.sort_by_key(|nic| nic["nic"].as_str().unwrap().to_owned());
    nics
}

/// A recorded answer with lists that mean sets in order.
fn expected(case: &Value) -> Value {
    let mut expected = case["expect"].clone();
    let nics = sorted(expected["nics"].as_array().unwrap().clone());
    expected["nics"] = nics.into();
    for nic in expected["nics"].as_array_mut().unwrap() {
        for family in nic["families"].as_array_mut().unwrap() {
            family["rejected"].as_array_mut().unwrap().sort_by_key(|rejected| rejected["pool"].as_str().unwrap().to_owned());
            if let Some(Value::Array(first)) = family.get_mut("first") {
                first.sort_by_key(|address| address.as_str().unwrap().to_owned());
            }
        }
    }
    expected
}

#[test]
fn vectors_selection_upstream_agrees_with_every_recorded_answer() {
    let Some(cases) = recorded::cases("selection.jsonl") else { return };
    let mut mismatches = recorded::Mismatches::new("selection.jsonl");
    for case in &cases {
        mismatches.attempt(case, |mismatches, id| {
            mismatches.compare(id, "", &expected(case), &Case::read(case).answer(&Policy::upstream()));
        });
    }
    mismatches.none_in(cases.len());
}

/// The pools of a family in an answer that the rules rejected, with the reasons.
fn rejections(answer: &Value) -> BTreeSet<(String, String, String)> {
    let mut rejections = BTreeSet::new();
    for (place, family) in families(answer) {
        for rejected in family["rejected"].as_array().unwrap() {
            let text = |key: &str| rejected[key].as_str().unwrap().to_owned();
            rejections.insert((place.clone(), text("pool"), text("reason")));
        }
    }
    rejections
}

/// The families of all NICs, under a name for NIC and family.
fn families(answer: &Value) -> Vec<(String, &Value)> {
    let nics = answer["nics"].as_array().unwrap().iter();
    let of_nic = |nic: &'_ Value| format!("{}/", nic["nic"]);
    nics.flat_map(|nic| {
        let families = nic["families"].as_array().unwrap().iter();
        families.map(move |family| (format!("{}{}", of_nic(nic), family["ip_version"]), family))
    })
    .collect()
}

/// The recorded address of a pool: absent if the pool is not in the order.
fn address<'a>(answer: &'a Value, place: &str, pool: &str) -> Option<&'a Value> {
    let (_, family) = families(answer).into_iter().find(|(name, _)| name == place)?;
    family.get("addresses")?.get(pool)
}

/// The answer without what depends on the addresses of pools.
fn without_addresses(answer: &Value) -> Value {
    let mut answer = answer.clone();
    answer["allocate_error"].take();
    for nic in answer["nics"].as_array_mut().unwrap() {
        for family in nic["families"].as_array_mut().unwrap() {
            for key in ["addresses", "unavailable", "first"] {
                family.as_object_mut().unwrap().remove(key);
            }
        }
    }
    answer
}

/// A deviation, the minimum number of cases that show it, and the only way in which its absence may change a recorded answer.
type Row = (&'static str, usize, fn(&Value, &Value) -> bool);

/// The differences between the hardened form and the recorded answers, one deviation at a time.
const DIFFERENCES: [Row; 7] = [
    // The order inside a rank, which the comparison does not see.
    ("ties-in-any-order", 0, |_, _| false),
    // Records name their NIC, which no recorded one does.
    ("one-record-per-pod", 0, |_, _| false),
    // A second naming by a pattern is ignored; a NIC or family without any pool is an error.
    ("wildcard-duplicates-fail", 5, |recorded, answer| {
        let no_pool = families(recorded).len() < families_named(recorded);
        match (recorded["error"].as_str(), answer["error"].as_str()) {
            (Some("duplicate-pool"), now) => now != Some("duplicate-pool"),
            (_, now) => now == Some("no-candidate") && no_pool,
        }
    }),
    // Pools that could not provide an address are rejected, and no others.
    ("capacity-not-filtered", 10, |recorded, answer| {
        let (before, now) = (rejections(recorded), rejections(answer));
        let full = |(place, pool, reason): &(String, String, String)| {
            let capacity = ["excluded", "reserved", "exhausted"].contains(&reason.as_str());
            capacity && address(recorded, place, pool).is_some_and(Value::is_null) && address(answer, place, pool).is_none()
        };
        let addresses_kept = families(answer).iter().all(|(place, family)| {
            let Some(Value::Object(addresses)) = family.get("addresses") else { return false };
            addresses.iter().all(|(pool, now)| address(recorded, place, pool) == Some(now))
        });
        before.is_subset(&now) && now.difference(&before).all(full) && addresses_kept
    }),
    // A pool without `multusName` needs no network.
    ("multus-always-resolved", 5, |recorded, answer| {
        let (before, now) = (rejections(recorded), rejections(answer));
        now.is_subset(&before) && before.difference(&now).all(|(_, _, reason)| reason == "multus-network")
    }),
    // No recorded namespace has outdated keys.
    ("outdated-keys-ignored", 0, |_, _| false),
    // Another address, or none, of the same pools.
    ("upstream-ranges", 5, |recorded, answer| without_addresses(recorded) == without_addresses(answer)),
];

/// The number of (NIC, family) pairs there could be.
fn families_named(answer: &Value) -> usize {
    answer["nics"].as_array().unwrap().len() * 2
}

#[test]
fn vectors_selection_each_deviation_explains_its_differences() {
    let Some(cases) = recorded::cases("selection.jsonl") else { return };
    let mut unexplained = Vec::new();
    for deviation in Policy::DEVIATIONS {
        let mut without = Policy::upstream();
        *without.switch(deviation.name).unwrap() = false;
        let row = DIFFERENCES.iter().find(|(name, ..)| *name == deviation.name);
        let mut differ = 0;
        for case in &cases {
            let (recorded, answer) = (expected(case), Case::read(case).answer(&without));
            if recorded != answer {
                differ += 1;
                if !row.is_some_and(|(_, _, explains)| explains(&recorded, &answer)) {
                    let id = &case["id"];
                    unexplained.push(format!("selection.jsonl {id} without {}: recorded {recorded}, answered {answer}", deviation.name));
                }
            }
        }
        println!("without {}: {differ} of {} cases differ", deviation.name, cases.len());
        let least = row.filter(|_| recorded::is_own_copy()).map_or(0, |(_, least, _)| *least);
        assert!(differ >= least, "{} is seen in {differ} cases only", deviation.name);
    }
    assert!(unexplained.is_empty(), "{} differences have no explanation:\n{}", unexplained.len(), unexplained.join("\n"));
    let is_deviation = |name: &str| Policy::upstream().switch(name).is_some();
    assert!(DIFFERENCES.iter().all(|(name, ..)| is_deviation(name)), "a row without a deviation");
}

#[test]
fn vectors_selection_hardened_keeps_tier_and_order() {
    let Some(cases) = recorded::cases("selection.jsonl") else { return };
    let policy = Policy::hardened();
    let mut ties = 0;
    for case in &cases {
        let id = &case["id"];
        let asked = Case::read(case);
        let selection = select(&asked.objects, &asked.request(&policy));
        assert_eq!(selection.tier.name(), case["expect"]["tier"], "{id}");
        for family in selection.nics.iter().flat_map(|nic| &nic.families) {
            let place = |pool: &std::sync::Arc<_>| family.candidates.iter().position(|candidate| candidate.name() == pool_name(pool));
            for rank in &family.order {
                assert!(rank.iter().map(place).is_sorted(), "{id}: the order of the user is lost");
                ties += usize::from(rank.len() > 1);
            }
        }
    }
    assert!(ties > 10 || !recorded::is_own_copy(), "{ties} ties");
}
