//! Compares `explain` with recorded answers of upstream's code.
//!
//! The recorded cases are those of `core/spiderpool/tests/data/selection.jsonl`, or of the file of that name in the folder that the
//! environment variable `IPAM_VECTORS` names.

use std::collections::{BTreeMap, BTreeSet};

use ipam_reports::ExplainReport;
use ipam_spiderpool::ipam::AgentSettings;
use ipam_spiderpool::select::{NetworkConfig, Settings};
use serde_json::{Value, json};
use sim_config::manifest;
use sim_harness::deviation::Profile;
use sim_spiderpool::explain;
use sim_spiderpool::explain::Question;
use sim_spiderpool::input::cluster::ClusterInput;

use crate::recorded;

/// The question of a case, with its objects read like manifests.
fn question(case: &Value, profile: Profile) -> Question {
    let text = |key: &str| case[key].as_str().unwrap().to_owned();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": case["cluster"]}).to_string();
    let mut cluster = ClusterInput::default();
    for manifest in manifest::parse("case", list.as_bytes()).unwrap() {
        cluster.take(manifest).unwrap_or_else(|problems| panic!("{}: {problems}", case["id"]));
    }
    let pod = text("pod");
    let (namespace, name) = pod.split_once('/').unwrap();
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
    let network: NetworkConfig = serde_json::from_value(case["cni_config"].clone()).unwrap();
    Question {
        written: Vec::new(),
        pod: cluster.pod(namespace, name).unwrap().0.clone(),
        objects: cluster.objects,
        endpoints: Default::default(),
        instances: Default::default(),
        agent: AgentSettings::new(&explain::policy_of(profile)),
        settings_from: None,
        node: text("node"),
        nic: text("nic"),
        cni: network.ipam,
        master: Vec::new(),
        settings,
        profile,
        policy: explain::policy_of(profile),
        places: BTreeMap::new(),
    }
}

/// An answer in the form of the recorded ones.
fn answer(report: &ExplainReport) -> Value {
    // The recorded error is that of selection; the agent without an address reports none.
    let of_selection = report.error.as_ref().filter(|error| report.allocate_error.is_none() && error.class != "no-address");
    let error = of_selection.map(|error| error.class.as_str());
    let mut nics: Vec<Value> = Vec::new();
    for nic in &report.nics {
        let mut families = Vec::new();
        for family in &nic.families {
            let candidates: BTreeSet<_> = family.candidates.iter().collect();
            let rejected: BTreeSet<_> = family.rejected.iter().map(|rejected| (&rejected.pool, &rejected.reason)).collect();
            let rejected: Vec<_> = rejected.into_iter().map(|(pool, reason)| json!({"pool": pool, "reason": reason})).collect();
            let mut fields = json!({"ip_version": family.ip_version, "candidates": candidates, "rejected": rejected});
            if matches!(error, None | Some("all-filtered")) {
                let sorted = |rank: &Vec<String>| rank.iter().cloned().collect::<BTreeSet<_>>();
                fields["order"] = json!(family.order.iter().map(sorted).collect::<Vec<_>>());
                let supplies = &family.supplies;
                fields["addresses"] = supplies.iter().map(|supply| (supply.pool.clone(), json!(supply.address))).collect();
                let unavailable = supplies.iter().filter_map(|supply| Some((supply.pool.clone(), json!(supply.unavailable.as_ref()?))));
                fields["unavailable"] = Value::Object(unavailable.collect());
                fields["first"] = json!(family.possible.iter().collect::<BTreeSet<_>>());
                // The answer is one of the possible ones, and an ADD gives all addresses or none.
                assert_eq!(family.address.is_some(), !family.possible.is_empty() && report.error.is_none(), "{report:?}");
                assert!(family.address.iter().all(|address| family.possible.contains(address)));
            }
            families.push(fields);
        }
        nics.push(json!({"nic": nic.nic, "families": families}));
    }
    nics.sort_by_key(|nic| nic["nic"].as_str().unwrap().to_owned());
    let allocate_error = report.allocate_error.as_ref().map(|error| error.class.as_str());
    json!({"tier": report.tier, "error": error, "allocate_error": allocate_error, "nameless": report.nameless, "nics": nics})
}

/// A recorded answer with its sets, which are lists, in order.
fn expected(case: &Value) -> Value {
    let mut expected = case["expect"].clone();
    let nics = expected["nics"].as_array_mut().unwrap();
    nics.sort_by_key(|nic| nic["nic"].as_str().unwrap().to_owned());
    for family in nics.iter_mut().flat_map(|nic| nic["families"].as_array_mut().unwrap()) {
        family["rejected"].as_array_mut().unwrap().sort_by_key(|rejected| rejected["pool"].as_str().unwrap().to_owned());
        if let Some(Value::Array(first)) = family.get_mut("first") {
            first.sort_by_key(|address| address.as_str().unwrap().to_owned());
        }
    }
    expected
}

#[test]
fn vectors_explain_upstream_agrees_with_every_recorded_answer() {
    let Some(cases) = recorded::cases("selection.jsonl") else { return };
    let mut mismatches = recorded::Mismatches::new("selection.jsonl");
    for case in &cases {
        mismatches.attempt(case, |mismatches, id| {
            let report = explain::explain(&question(case, Profile::Upstream));
            mismatches.compare(id, "", &expected(case), &answer(&report));
        });
    }
    mismatches.none_in(cases.len());
}

#[test]
fn vectors_explain_hardened_gives_no_address_twice() {
    let Some(cases) = recorded::cases("selection.jsonl") else { return };
    let mut shared = 0;
    for case in &cases {
        let report = explain::explain(&question(case, Profile::Hardened));
        assert_eq!(report.tier, case["expect"]["tier"], "{}", case["id"]);
        let mut given = BTreeSet::new();
        let mut pools = BTreeSet::new();
        for (_, family) in report.families() {
            if let Some(address) = &family.address {
                let own = family.recorded && family.supplies.iter().any(|supply| supply.recorded);
                assert!(given.insert(address) || own, "{}: {address} is given twice", case["id"]);
                shared += usize::from(!pools.insert(&family.pool));
            }
        }
    }
    assert!(shared > 0 || !recorded::is_own_copy(), "no case has NICs that share a pool");
}
