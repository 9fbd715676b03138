//! Compares `explain --reclaim` with recorded scans of upstream's code.
//!
//! The recorded cases are those of `core/spiderpool/tests/data/reclaim-scan.jsonl`, or of the file of that name in the folder that the
//! environment variable `IPAM_VECTORS` names.

use ipam_reports::ExplainReclaimReport;
use ipam_spiderpool::reclaim::ReclaimSettings;
use serde_json::{Value, json};
use sim_config::manifest;
use sim_harness::deviation::Profile;
use sim_spiderpool::explain::{ReclaimQuestion, explain_reclaim, policy_of};
use sim_spiderpool::input::cluster::ClusterInput;

use crate::recorded;

fn explained(case: &Value, profile: Profile) -> ExplainReclaimReport {
    let mut items = case["cluster"].clone();
    for object in items.as_array_mut().unwrap() {
        // The recorded VMs have only metadata.
        if object["apiVersion"] == json!("kubevirt.io/v1") {
            object["spec"] = json!({});
        }
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let mut cluster = ClusterInput::default();
    for manifest in manifest::parse("case", list.as_bytes()).unwrap() {
        cluster.take(manifest).unwrap_or_else(|problems| panic!("{}: {problems}", case["id"]));
    }
    let policy = policy_of(profile);
    let mut settings = ReclaimSettings::new(&policy);
    for (name, value) in case["settings"].as_object().unwrap() {
        if name != "leader" {
            assert_eq!(settings.set(name, &value.to_string()), Ok(true), "{name}");
        }
    }
    let now = case["now"].as_str().unwrap().parse().unwrap();
    explain_reclaim(ReclaimQuestion { cluster, now, settings, profile, policy })
}

/// The reclaimed addresses, in the form of the recorded answers.
fn answer(report: &ExplainReclaimReport) -> Value {
    let released = report.records.iter().filter(|record| record.action == "release");
    let mut released: Vec<Value> = released.map(|record| json!({"ip": record.ip, "pool": record.pool})).collect();
    released.sort_by_key(|record| (record["pool"].to_string(), record["ip"].to_string()));
    let of = |action: &str| {
        let gone = report.endpoints.iter().filter(|endpoint| endpoint.action == action);
        gone.map(|endpoint| endpoint.endpoint.clone()).collect::<Vec<_>>()
    };
    let mut goes = [of("delete"), of("remove-finalizer")].concat();
    goes.sort();
    json!({"released": released, "endpoints": goes})
}

/// The actions of a scan, as far as a dry run can predict them.
fn expected(case: &Value) -> Value {
    let list = |name: &str| case["expect"][name].as_array().unwrap().clone();
    let mut released = list("released");
    released.sort_by_key(|record| (record["pool"].to_string(), record["ip"].to_string()));
    let mut goes: Vec<String> = ["endpoints_deleted", "finalizers_removed", "endpoints_marked"]
        .iter()
        .flat_map(|name| list(name))
        .map(|key| key.as_str().unwrap().to_owned())
        .collect();
    goes.sort();
    goes.dedup();
    json!({"released": released, "endpoints": goes})
}

/// Cases with a unique outcome: no call fails, and the order does not matter.
fn plain(cases: &[Value]) -> impl Iterator<Item = &Value> {
    cases.iter().filter(|case| case["faults"].as_array().is_none_or(Vec::is_empty) && case.get("expect_any").is_none())
}

#[test]
fn vectors_explain_reclaim_upstream_agrees_with_what_a_scan_did() {
    let Some(cases) = recorded::cases("reclaim-scan.jsonl") else { return };
    let mut mismatches = recorded::Mismatches::new("reclaim-scan.jsonl");
    let mut compared = 0;
    for case in plain(&cases) {
        mismatches.attempt(case, |mismatches, id| {
            mismatches.compare(id, "", &expected(case), &answer(&explained(case, Profile::Upstream)));
        });
        compared += 1;
    }
    mismatches.none_in(compared);
    // More than a third of the cases have a unique outcome.
    assert!(!recorded::is_own_copy() || compared == 175, "{compared} cases");
}

#[test]
fn vectors_explain_reclaim_hardened_gives_every_record_a_row() {
    let Some(cases) = recorded::cases("reclaim-scan.jsonl") else { return };
    for case in &cases {
        let report = explained(case, Profile::Hardened);
        for record in &report.records {
            assert!(!record.row.is_empty() && record.reason.starts_with(&record.row), "{}: {record:?}", case["id"]);
            assert!(record.action != "crash", "{}: {record:?}", case["id"]);
        }
        assert_eq!(ExplainReclaimReport::from_json(&serde_json::to_string(&report).unwrap()).unwrap(), report);
    }
}
