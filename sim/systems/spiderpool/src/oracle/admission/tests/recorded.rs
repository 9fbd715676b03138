use super::super::{pool_defaults, reserved_ip, reserved_ip_defaults, subnet_defaults};
use super::*;

/// The recorded answers of upstream that differ from the rules, by difference.
const OTHERWISE: [(&str, &[&str]); 7] = [
    // Reversed ranges (A §14.3, §14.5), and malformed ranges that upstream reports on the CIDR (A §14.17).
    ("pool-create-ranges-", &["00", "02", "03", "04", "07", "08", "16", "18", "26", "29", "33", "36", "38", "39"]),
    // A default route in another notation.
    ("pool-create-routes-", &["22"]),
    ("subnet-create-routes-", &["05"]),
    // Pools without the label of their CIDR, and a namesake of the other family (A §14.17).
    ("pool-create-overlap-", &["05", "22"]),
    // Fields that the update leaves unchanged.
    ("pool-update-", &["05", "35", "47", "48", "52", "67", "subnet-30", "subnet-32"]),
    ("subnet-update-", &["30"]),
    // A record that is not counted.
    ("pool-delete-", &["05"]),
];

fn objects<T: serde::de::DeserializeOwned>(list: &Value, kind: &str) -> Vec<Arc<T>> {
    let of_kind = list.as_array().unwrap().iter().filter(|object| object["kind"] == kind);
    of_kind.map(|object| Arc::new(serde_json::from_value(object.clone()).unwrap())).collect()
}

fn read<T: serde::de::DeserializeOwned>(object: &Value) -> Option<T> {
    (!object.is_null()).then(|| serde_json::from_value(object.clone()).unwrap())
}

#[test]
fn upstream_and_the_rules_differ_only_where_the_reference_says_so() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../core/spiderpool/tests/data/admission.jsonl");
    let mut otherwise = Vec::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let on = |key: &str| case["settings"][key] == true;
        let settings = AdmissionSettings {
            enable_ipv4: on("enableIPv4"),
            enable_ipv6: on("enableIPv6"),
            enable_spider_subnet: on("enableSpiderSubnet"),
            enable_delete_check: on("enableValidatingResourcesDeletedWebhook"),
        };
        let live = Listed { pools: objects(&case["existing"], "SpiderIPPool"), subnets: objects(&case["existing"], "SpiderSubnet") };
        let (old, new, expected) = (&case["old"], &case["new"], &case["expect"]);
        let kind = if new.is_null() { &old["kind"] } else { &new["kind"] };
        let (ruling, same_defaults) = match kind.as_str().unwrap() {
            "SpiderIPPool" => {
                let new = read(new).map(|new| pool_defaults(&new, &live.subnets, &settings));
                (ruling_of_pool(read(old).as_ref(), new.as_ref(), &live, &settings), new == read(&expected["defaulted"]))
            }
            "SpiderSubnet" => {
                let new = read(new).map(|new| subnet_defaults(&new));
                (ruling_of_subnet(read(old).as_ref(), new.as_ref(), &live, &settings), new == read(&expected["defaulted"]))
            }
            _ => {
                let new = read(new).map(|new| reserved_ip_defaults(&new));
                (reserved_ip(read(old).as_ref(), new.as_ref(), &settings), new == read(&expected["defaulted"]))
            }
        };
        let causes = expected["causes"].as_array().unwrap();
        let said = |cause: &Value| {
            let fault = match cause["type"].as_str().unwrap() {
                "FieldValueInvalid" => Fault::Invalid,
                "FieldValueNotSupported" => Fault::NotSupported,
                "FieldValueForbidden" => Fault::Forbidden,
                "FieldValueRequired" => Fault::Required,
                _ => Fault::Internal,
            };
            is_refused(&ruling, cause["field"].as_str().unwrap(), fault)
        };
        let same = match expected["reason"].as_str() {
            None => ruling == Ruling::Admitted,
            Some("AlreadyExists") => ruling == Ruling::AlreadyExists,
            Some("Forbidden") => ruling == Ruling::Forbidden,
            Some(_) => causes.iter().all(said),
        };
        assert!(same_defaults, "{}: {}", case["id"], expected["defaulted"]);
        if !same {
            otherwise.push(case["id"].as_str().unwrap().to_owned());
        }
    }
    let mut named: Vec<String> = OTHERWISE.iter().flat_map(|(of, cases)| cases.iter().map(move |case| format!("{of}{case}"))).collect();
    named.sort_unstable();
    otherwise.sort_unstable();
    assert_eq!(otherwise, named);
}
