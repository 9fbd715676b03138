//! Admission compared with recorded answers of upstream's webhooks.
//!
//! The 243 recorded cases are in `tests/data/admission.jsonl`, or in the file of that name in the folder that the environment variable
//! `IPAM_VECTORS` names.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::recorded;
use ipam_spiderpool::admission::{AdmissionSettings, Admitted, Denial, Listed, Request, Rules, Verdict, review};
use ipam_spiderpool::{Policy, SpiderIPPool, SpiderReservedIP, SpiderSubnet};
use kube_machinery::Object;
use serde_json::{Value, json};

const FILE: &str = "admission.jsonl";

/// The answer to a case, in the form of the recorded ones.
fn answer(case: &Value, policy: &Policy) -> Value {
    let kind = [&case["new"], &case["old"]].into_iter().find_map(|object| object["kind"].as_str()).expect("an object has a kind");
    match kind {
        "SpiderIPPool" => answer_for::<SpiderIPPool>(case, policy),
        "SpiderSubnet" => answer_for::<SpiderSubnet>(case, policy),
        "SpiderReservedIP" => answer_for::<SpiderReservedIP>(case, policy),
        other => panic!("no webhook is for {other}"),
    }
}

fn answer_for<K: Admitted>(case: &Value, policy: &Policy) -> Value {
    fn read<K: Object>(value: &Value) -> Arc<K> {
        Arc::new(serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}")))
    }
    let mut listed = Listed::default();
    for object in case["existing"].as_array().unwrap() {
        match object["kind"].as_str().unwrap() {
            "SpiderIPPool" => listed.pools.push(read(object)),
            "SpiderSubnet" => listed.subnets.push(read(object)),
            _ => {}
        }
    }
    let is_on = |key: &str| case["settings"][key].as_bool().unwrap();
    let settings = AdmissionSettings {
        enable_ipv4: is_on("enableIPv4"),
        enable_ipv6: is_on("enableIPv6"),
        enable_spider_subnet: is_on("enableSpiderSubnet"),
        enable_delete_check: is_on("enableValidatingResourcesDeletedWebhook"),
    };
    let object = |key: &str| Some(&case[key]).filter(|value| !value.is_null()).map(read::<K>);
    let (old, new) = (object("old"), object("new"));
    let request = match (case["op"].as_str().unwrap(), &old, &new) {
        ("CREATE", _, Some(new)) => Request::Create(new),
        ("UPDATE", Some(old), Some(new)) => Request::Update { old, new },
        ("DELETE", Some(old), _) => Request::Delete(old),
        (other, ..) => panic!("{other} lacks an object"),
    };
    let Verdict { defaulted, denial } = review(&request, &listed, &settings, policy);
    if let Request::Create(new) = request {
        audited(case, new.audit(&Rules { live: &listed, settings: &settings, policy }).err(), denial.as_ref());
    }
    let violations = denial.as_ref().map(Denial::violations).unwrap_or_default();
    let causes: Vec<_> = violations.iter().map(|cause| json!({"field": cause.field, "type": cause.fault.as_str()})).collect();
    json!({
        "allowed": denial.is_none(),
        "reason": denial.as_ref().map(|denial| denial.reason().as_str()),
        "fields": violations.iter().map(|cause| &*cause.field).collect::<BTreeSet<_>>(),
        "causes": causes,
        "defaulted": defaulted.map(|object| json!(*object)),
    })
}

/// Asserts that an audit refuses what a webhook refuses, and reports at least the same violations.
fn audited(case: &Value, audit: Option<Denial>, denial: Option<&Denial>) {
    let id = &case["id"];
    assert_eq!(audit.as_ref().map(Denial::reason), denial.map(Denial::reason), "{id}");
    // Merging may change the positions of entries.
    fn names(denial: Option<&Denial>) -> BTreeSet<&str> {
        let violations = denial.map(Denial::violations).unwrap_or_default();
        violations.iter().map(|violation| violation.field.split('[').next().unwrap_or_default()).collect()
    }
    let (all, first) = (names(audit.as_ref()), names(denial));
    assert!(all.is_superset(&first), "{id}: {all:?} lacks some of {first:?}");
}

#[test]
fn upstream_agrees_with_every_recorded_case() {
    let Some(cases) = recorded::cases(FILE) else { return };
    let mut mismatches = recorded::Mismatches::new(FILE);
    for case in &cases {
        mismatches.attempt(case, |mismatches, id| mismatches.compare(id, "", &case["expect"], &answer(case, &Policy::upstream())));
    }
    mismatches.none_in(cases.len());
}

/// The differences of the hardened form: the cases, and the deviations with which it answers as recorded.
#[rustfmt::skip]
const OTHERWISE: &[(&[&str], &[&str])] = &[
    // Reversed ranges are refused, errors are reported for the entry that has them, a default route is recognised however it is written,
    // pools count without their label, and a name is taken whatever the family (A §14.3, §14.17, §14.18).
    (&["upstream-ranges"], &[
        "pool-create-ranges-00", "pool-create-ranges-02", "pool-create-ranges-03", "pool-create-ranges-04", "pool-create-ranges-07",
        "pool-create-ranges-08", "pool-create-ranges-16", "pool-create-ranges-18", "pool-create-ranges-26", "pool-create-ranges-29",
        "pool-create-ranges-33", "pool-create-ranges-36", "pool-create-ranges-38", "pool-create-ranges-39", "pool-create-routes-22",
        "pool-create-overlap-05", "pool-create-overlap-22", "subnet-create-routes-05",
    ]),
    // An update is judged by its changes.
    (&["update-judged-whole"], &[
        "pool-update-05", "pool-update-47", "pool-update-48", "pool-update-52", "pool-update-67", "subnet-update-30",
    ]),
    (&["update-judged-whole", "upstream-ranges"], &["pool-update-35"]),
    // A pool with fewer addresses than its pre-allocation is shrinking, and its subnet is written next.
    (&["subnet-shrinks-lowest", "update-judged-whole"], &["pool-update-subnet-30", "pool-update-subnet-32"]),
    // A count may be wrong; only records matter.
    (&["delete-trusts-count"], &["pool-delete-05"]),
];

#[test]
fn the_hardened_form_agrees_but_for_what_it_says() {
    // The table above refers to the cases by their IDs.
    let Some(cases) = recorded::cases(FILE).filter(|_| recorded::is_own_copy()) else { return };
    let mut mismatches = recorded::Mismatches::new(FILE);
    let mut met = 0;
    for case in &cases {
        let id = case["id"].as_str().unwrap();
        let mut policy = Policy::hardened();
        if let Some((deviations, _)) = OTHERWISE.iter().find(|(_, ids)| ids.contains(&id)) {
            met += 1;
            assert_ne!(answer(case, &policy), case["expect"], "{id} is no difference");
            for deviation in *deviations {
                *policy.switch(deviation).unwrap() = true;
            }
        }
        mismatches.compare(id, "", &case["expect"], &answer(case, &policy));
    }
    mismatches.none_in(cases.len());
    assert_eq!(met, OTHERWISE.iter().map(|(_, ids)| ids.len()).sum::<usize>(), "a row is about nothing");
}
