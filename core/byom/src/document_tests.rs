//! The document against golden texts, hand-written texts and a plain model.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use proptest::prelude::*;
use serde::Serialize;

use super::*;
use kube_machinery::json_text::TextForm;

/// The example of B §1.2.
const UPSTREAM: &str = r#"{
  "allocatedIPs": {
    "web-0-4b1d": {
      "allocationID": "web-0-4b1d",
      "ip": "10.9.0.12",
      "nodeName": "worker-b",
      "podName": "web-0",
      "allocatedAt": "2026-01-02T03:04:05Z"
    }
  },
  "availableIPs": [
    "10.9.0.10",
    "10.9.0.11"
  ],
  "lastUpdated": "2026-01-02T03:04:05Z",
  "version": 3
}"#;

const HARDENED: &str = r#"{
  "allocatedIPs": {
    "B-1": {
      "allocationID": "B-1",
      "ip": "fe80::1%eth0",
      "nodeName": "n\u003c1\u003e",
      "podName": "B",
      "podNamespace": "a\u0026b",
      "allocatedAt": null
    },
    "web-0-4b1d": {
      "allocationID": "web-0-4b1d",
      "ip": "10.9.0.12",
      "nodeName": "worker-b",
      "podName": "web-0",
      "podNamespace": "shop",
      "allocatedAt": "2026-01-02T03:04:05Z"
    }
  },
  "availableIPs": [],
  "lastUpdated": "2026-01-02T03:04:06Z",
  "version": -1
}"#;

const EMPTY: &str = "{\n  \"allocatedIPs\": {},\n  \"availableIPs\": [],\n  \"lastUpdated\": null,\n  \"version\": 0\n}";
const NULL_MAP: &str = "{\n  \"allocatedIPs\": null,\n  \"availableIPs\": [],\n  \"lastUpdated\": null,\n  \"version\": 0\n}";

fn time(text: &str) -> Seconds {
    text.parse::<Timestamp>().unwrap().into()
}

fn web(pod_namespace: Option<&str>) -> IpAllocation {
    IpAllocation {
        allocation_id: "web-0-4b1d".into(),
        ip: Address::new("10.9.0.12"),
        node_name: "worker-b".into(),
        pod_name: "web-0".into(),
        pod_namespace: pod_namespace.map(Arc::from),
        allocated_at: time("2026-01-02T03:04:05.9Z"),
    }
}

fn rewritten(text: &str) -> String {
    PoolDocument::from_text(text).unwrap().to_text()
}

#[test]
fn the_document_of_upstream_is_written_byte_by_byte() {
    let mut document = PoolDocument { version: 3, last_updated: time("2026-01-02T03:04:05.1Z"), ..PoolDocument::default() };
    document.allocated.insert("web-0-4b1d".into(), web(None));
    document.available = ["10.9.0.10", "10.9.0.11"].map(Address::new).into_iter().collect();
    assert_eq!(document.to_text(), UPSTREAM);
    assert_eq!(PoolDocument::from_text(UPSTREAM).unwrap(), document);
}

#[test]
fn the_hardened_document_names_the_namespace_after_the_pod() {
    let mut document = PoolDocument { version: -1, last_updated: time("2026-01-02T03:04:06Z"), ..PoolDocument::default() };
    document.allocated.insert("web-0-4b1d".into(), web(Some("shop")));
    let other = IpAllocation {
        allocation_id: "B-1".into(),
        ip: Address::new("fe80::1%eth0"),
        node_name: "n<1>".into(),
        pod_name: "B".into(),
        pod_namespace: Some("a&b".into()),
        allocated_at: Seconds::ZERO,
    };
    document.allocated.insert("B-1".into(), other);
    assert_eq!(document.to_text(), HARDENED);
    assert_eq!(PoolDocument::from_text(HARDENED).unwrap(), document);
}

#[test]
fn a_writer_without_namespaces_erases_them() {
    let mut document = PoolDocument::from_text(HARDENED).unwrap();
    document.allocated = document.allocated.without_namespaces();
    let expected: String = HARDENED.lines().filter(|line| !line.contains("podNamespace")).collect::<Vec<_>>().join("\n");
    assert_eq!((document.to_text(), document.text_len()), (expected.clone(), expected.len()));
}

#[test]
fn null_and_empty_containers_are_told_apart_as_go_does() {
    for (text, expected) in [
        ("null", NULL_MAP),
        ("{}", NULL_MAP),
        (r#"{"allocatedIPs":null,"availableIPs":null,"lastUpdated":null,"version":null}"#, NULL_MAP),
        (r#"{"allocatedIPs":{}}"#, EMPTY),
        (r#"{"ALLOCATEDips":{},"availableIPs":[],"Version":0,"extra":{"a":[1,{}]}}"#, EMPTY),
        (r#" {"allocatedIPs":{},"lastUpdated":"0001-01-01T00:00:00Z"} "#, EMPTY),
    ] {
        assert_eq!(rewritten(text), expected, "{text}");
    }
}

#[test]
fn hand_written_documents_are_read_as_go_reads_them() {
    let text = r#"{"version":7,"Version":8,"AvailableIPſ":["10.9.0.10"],"availableIPs":["10.9.0.10",null,"10.9.0.10"],
        "allocatedIPs":{"a":{"ip":"10.9.0.1"},"b":null},
        "allocatedips":{"a":{"IP":"10.9.0.2","PODNAME":"a","allocatedAt":"2026-01-02T05:04:05.5+02:00","unknown":1}}}"#;
    let document = PoolDocument::from_text(text).unwrap();
    assert_eq!(document.version, 8);
    assert_eq!(document.available.iter().map(Address::text).collect::<Vec<_>>(), ["10.9.0.10", "", "10.9.0.10"]);
    assert_eq!(document.allocated.len(), 2);
    assert_eq!(**document.allocated.get("b").unwrap(), IpAllocation::default());
    let a = document.allocated.get("a").unwrap();
    assert_eq!((a.ip.text(), &*a.pod_name, a.allocated_at), ("10.9.0.2", "a", time("2026-01-02T03:04:05Z")));
    assert_eq!((&*a.allocation_id, &a.pod_namespace), ("", &None));
}

#[test]
fn a_document_that_go_refuses_is_refused() {
    for text in [
        "",
        " ",
        "{",
        "[]",
        "1",
        "{} {}",
        "{\"version\":1,}",
        r#"{"version":"1"}"#,
        r#"{"version":1.0}"#,
        r#"{"version":9223372036854775808}"#,
        r#"{"availableIPs":{}}"#,
        r#"{"availableIPs":[1]}"#,
        r#"{"allocatedIPs":[]}"#,
        r#"{"allocatedIPs":{"a":[]}}"#,
        r#"{"allocatedIPs":{"a":{"ip":1}}}"#,
        r#"{"lastUpdated":""}"#,
        r#"{"lastUpdated":1}"#,
    ] {
        assert!(PoolDocument::from_text(text).is_err(), "{text}");
    }
}

/// The document as serde would write it, without Go's escapes.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Plain {
    #[serde(rename = "allocatedIPs")]
    allocated: Option<BTreeMap<String, PlainRecord>>,
    #[serde(rename = "availableIPs")]
    available: Vec<String>,
    last_updated: Option<&'static str>,
    version: i64,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PlainRecord {
    #[serde(rename = "allocationID")]
    allocation_id: String,
    ip: String,
    node_name: String,
    pod_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod_namespace: Option<String>,
    allocated_at: Option<&'static str>,
}

impl PlainRecord {
    fn typed(&self) -> IpAllocation {
        IpAllocation {
            allocation_id: self.allocation_id.as_str().into(),
            ip: Address::new(self.ip.as_str()),
            node_name: self.node_name.as_str().into(),
            pod_name: self.pod_name.as_str().into(),
            pod_namespace: self.pod_namespace.as_deref().map(Arc::from),
            allocated_at: self.allocated_at.map_or(Seconds::ZERO, time),
        }
    }
}

/// Adds Go's escapes to a text that serde made: none of these characters stands outside strings.
fn escaped(json: &str) -> String {
    let escape = |character: char| match character {
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => format!("\\u{:04x}", u32::from(character)),
        other => other.to_string(),
    };
    json.chars().map(escape).collect()
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]{1,2}", "[<>&\"\\\\\u{2028}ä\n]{1,3}"]
}

fn address_text() -> impl Strategy<Value = String> {
    prop_oneof![(0u8..6).prop_map(|low| format!("10.0.0.{low}")), (0u8..6).prop_map(|low| format!("::ffff:10.0.0.{low}")), name()]
}

fn record() -> impl Strategy<Value = PlainRecord> {
    let at = prop_oneof![Just(None), Just(Some("2026-01-02T03:04:05Z")), Just(Some("1999-12-31T23:59:59Z"))];
    (name(), address_text(), name(), name(), prop::option::of(name()), at).prop_map(
        |(allocation_id, ip, node_name, pod_name, pod_namespace, allocated_at)| PlainRecord {
            allocation_id,
            ip,
            node_name,
            pod_name,
            pod_namespace,
            allocated_at,
        },
    )
}

#[derive(Clone, Debug)]
enum Edit {
    Insert(String, PlainRecord),
    Remove(String),
    Push(String),
    Take(prop::sample::Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (name(), record()).prop_map(|(id, record)| Edit::Insert(id, record)),
        name().prop_map(Edit::Remove),
        address_text().prop_map(Edit::Push),
        any::<prop::sample::Index>().prop_map(Edit::Take),
    ]
}

proptest! {
    #[test]
    fn agrees_with_a_plain_document(edits in prop::collection::vec(edit(), 0..60), null in any::<bool>(), version in any::<i64>()) {
        let mut plain = Plain { allocated: (!null).then(BTreeMap::new), available: Vec::new(), last_updated: None, version };
        let mut document = PoolDocument { version, ..PoolDocument::default() };
        if null {
            document.allocated = Allocations::null();
        }
        let mut seen: BTreeMap<u64, String> = BTreeMap::new();
        for edit in edits {
            match edit {
                Edit::Insert(id, record) => {
                    document.allocated.insert(id.as_str().into(), record.typed());
                    plain.allocated.get_or_insert_default().insert(id, record);
                }
                Edit::Remove(id) => {
                    let removed = plain.allocated.as_mut().and_then(|records| records.remove(&id));
                    let typed = document.allocated.remove(&id);
                    prop_assert_eq!(typed.as_deref().cloned(), removed.as_ref().map(PlainRecord::typed));
                }
                Edit::Push(address) => {
                    document.available.push(Address::new(address.as_str()));
                    plain.available.push(address);
                }
                Edit::Take(index) if !plain.available.is_empty() => {
                    let index = index.index(plain.available.len());
                    let taken = document.available.remove(index);
                    prop_assert_eq!(taken.text(), plain.available.remove(index));
                }
                Edit::Take(_) => {}
            }
            let text = document.to_text();
            prop_assert_eq!(document.text_len(), text.len());
            let same_hash = seen.entry(document.content_hash()).or_insert_with(|| text.clone());
            prop_assert_eq!(same_hash, &text);
        }
        prop_assert_eq!(document.to_text(), escaped(&serde_json::to_string_pretty(&plain).unwrap()));

        let read = PoolDocument::from_text(&document.to_text()).unwrap();
        prop_assert_eq!(&read, &document);
        prop_assert_eq!(read.allocated.content_hash(), document.allocated.content_hash());
        prop_assert!(read.available.iter().map(Address::text).eq(document.available.iter().map(Address::text)));
        for low in 0..6 {
            let key = AddressKey::of(&format!("10.0.0.{low}"));
            let spelled = |text: &String| AddressKey::of(text) == key;
            let expected = plain.available.iter().enumerate().filter(|(_, text)| spelled(text)).map(|(index, _)| index);
            prop_assert!(document.available.positions(&key).eq(expected));
            prop_assert_eq!(document.available.contains(&key), plain.available.iter().any(spelled));
            let of_address = plain.allocated.iter().flatten().filter(|(_, record)| spelled(&record.ip));
            let expected: Vec<&String> = of_address.map(|(id, _)| id).collect();
            let found: Vec<String> = document.allocated.of_address(&key).map(|(id, _)| id.to_string()).collect();
            prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected);
        }
    }
}

#[test]
fn the_order_of_available_addresses_is_content() {
    let document =
        |available: [&str; 2]| PoolDocument { available: available.map(Address::new).into_iter().collect(), ..PoolDocument::default() };
    assert_ne!(document(["10.9.0.10", "10.9.0.11"]).content_hash(), document(["10.9.0.11", "10.9.0.10"]).content_hash());
}

#[test]
fn a_long_list_stays_right_over_many_removals_and_appends() {
    let mut list: Available = (0..3000u32).map(|n| Address::new(format!("10.1.{}.{}", n / 256, n % 256))).collect();
    let mut plain: Vec<String> = list.iter().map(Address::to_string).collect();
    for round in 0..6000usize {
        let index = select_index(plain.len(), &format!("id-{round}"));
        let taken = list.remove(index);
        assert_eq!(taken.text(), plain.remove(index));
        if round % 3 != 0 {
            plain.push(taken.to_string());
            list.push(taken);
        }
        if round % 97 == 0 {
            let probe = &plain[round % plain.len()];
            assert!(list.positions(&AddressKey::of(probe)).eq([round % plain.len()]));
        }
    }
    assert!(list.iter().map(Address::text).eq(plain.iter().map(String::as_str)));
}
