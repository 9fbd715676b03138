//! Manual edits of a pool's ConfigMap (B W17 to W21).

use std::net::{IpAddr, Ipv4Addr};

use ipam_byom::STATE_KEY;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sim_config::choice::Open;

/// A manual edit of the pool's ConfigMap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Edit {
    /// An annotation, a label and other entries are added; the document stays.
    Touch,
    /// The text is cut in the middle: no longer valid JSON (B W17).
    BadJson,
    /// The text is empty (B W17).
    EmptyText,
    /// The entry of the document is removed (B §1.4).
    RemoveEntry,
    /// `allocatedIPs` becomes `null` (B W18).
    NullMap,
    /// `allocatedIPs` is removed (B W18).
    RemoveMap,
    /// The first available address is listed twice.
    DuplicateAvailable,
    /// An address that is not configured is listed.
    ForeignAvailable,
    /// The oldest record with an IPv4 address is spelled differently: as an IPv4-mapped IPv6 address (B W21).
    Respell,
    /// The address of the youngest record becomes a text that is not an address (B A11).
    Garble,
    /// A record of an address that is not configured is added.
    ForeignRecord,
    /// The oldest record is removed, and its address offered.
    DropRecord,
    /// A field that no program knows is added (B §1.2).
    UnknownField,
    /// All times are written with an offset in place of `Z`, as Python does.
    OffsetTimes,
    /// A time gets an offset without a colon, as in the output of old versions of `date -Iseconds`: not RFC 3339 (B W17).
    BadTime,
    /// The oldest record gets a time that is too late to be represented (B W17).
    FarTime,
}

impl Open for Edit {}

impl Edit {
    /// Whether the text is not a document afterwards.
    pub(super) fn leaves_nothing_to_read(self) -> bool {
        matches!(self, Edit::BadJson | Edit::EmptyText | Edit::BadTime | Edit::FarTime)
    }

    /// The ConfigMap after the edit. An edit that is impossible leaves it unchanged.
    pub(in super::super) fn apply(self, mut object: ConfigMap) -> ConfigMap {
        if self == Edit::Touch {
            object.metadata.annotations.get_or_insert_default().insert("example.com/touched".to_owned(), "by hand".to_owned());
            object.metadata.labels.get_or_insert_default().insert("example.com/touched".to_owned(), "by-hand".to_owned());
            object.data.get_or_insert_default().insert("note".to_owned(), "kept by hand".to_owned());
            object.binary_data.get_or_insert_default().insert("blob".to_owned(), ByteString(vec![0, 1]));
            return object;
        }
        let data = object.data.get_or_insert_default();
        let Some(text) = data.get(STATE_KEY).cloned() else { return object };
        let new = match self {
            Edit::Touch => unreachable!("done above"),
            Edit::BadJson => text.chars().take(text.len() / 2).collect(),
            Edit::EmptyText => String::new(),
            Edit::RemoveEntry => {
                data.remove(STATE_KEY);
                return object;
            }
            _ => match serde_json::from_str(&text) {
                Ok(mut document) => {
                    self.change(&mut document);
                    serde_json::to_string_pretty(&document).unwrap_or(text)
                }
                Err(_) => text,
            },
        };
        data.insert(STATE_KEY.to_owned(), new);
        object
    }

    /// Changes the document, whose fields are in alphabetical order afterwards, as written by most tools.
    fn change(self, document: &mut Value) {
        let Some(document) = document.as_object_mut() else { return };
        match self {
            Edit::NullMap => drop(document.insert("allocatedIPs".to_owned(), Value::Null)),
            Edit::RemoveMap => drop(document.remove("allocatedIPs")),
            Edit::UnknownField => drop(document.insert("comment".to_owned(), json!("edited by hand"))),
            Edit::DuplicateAvailable | Edit::ForeignAvailable => {
                let Some(list) = document.get_mut("availableIPs").and_then(Value::as_array_mut) else { return };
                let foreign = (self == Edit::ForeignAvailable).then(|| json!("10.99.0.1"));
                list.extend(foreign.or_else(|| list.first().cloned()));
            }
            Edit::Respell => {
                let plain = |record: &Value| record.get("ip").and_then(Value::as_str).is_some_and(|ip| ip.parse::<Ipv4Addr>().is_ok());
                let Some(record) = first_record(document, plain) else { return };
                if let Some(ip) = record.get("ip").and_then(Value::as_str).map(str::to_owned) {
                    record.insert("ip".to_owned(), json!(format!("::ffff:{ip}")));
                }
            }
            Edit::Garble => {
                let plain = |record: &Value| record.get("ip").and_then(Value::as_str).is_some_and(|ip| ip.parse::<IpAddr>().is_ok());
                let Some(record) = last_record(document, plain) else { return };
                if let Some(ip) = record.get("ip").and_then(Value::as_str).map(str::to_owned) {
                    record.insert("ip".to_owned(), json!(format!("{ip}?")));
                }
            }
            Edit::OffsetTimes => {
                let records = document.get_mut("allocatedIPs").and_then(Value::as_object_mut).into_iter().flat_map(Fields::values_mut);
                records.filter_map(|record| record.get_mut("allocatedAt")).for_each(|time| with_offset(time, "+00:00"));
                document.get_mut("lastUpdated").into_iter().for_each(|time| with_offset(time, "-00:00"));
            }
            Edit::BadTime => document.get_mut("lastUpdated").into_iter().for_each(|time| with_offset(time, "+0000")),
            Edit::FarTime => {
                if let Some(record) = first_record(document, |_| true) {
                    record.insert("allocatedAt".to_owned(), json!("9999-12-30T22:00:00-01:00"));
                }
            }
            Edit::ForeignRecord => {
                let record = json!({
                    "allocationID": "by-hand-0", "ip": "10.99.0.2", "nodeName": "node-0", "podName": "by-hand",
                    "allocatedAt": "2026-01-01T00:00:00Z",
                });
                if let Some(records) = document.get_mut("allocatedIPs").and_then(Value::as_object_mut) {
                    records.insert("by-hand-0".to_owned(), record);
                }
            }
            Edit::DropRecord => {
                let Some(record) = first_record(document, |_| true) else { return };
                let (id, ip) = (record.get("allocationID").cloned(), record.get("ip").cloned());
                if let (Some(Value::String(id)), Some(records)) = (id, document.get_mut("allocatedIPs").and_then(Value::as_object_mut)) {
                    records.remove(&id);
                }
                if let (Some(ip), Some(list)) = (ip, document.get_mut("availableIPs").and_then(Value::as_array_mut)) {
                    list.push(ip);
                }
            }
            Edit::Touch | Edit::BadJson | Edit::EmptyText | Edit::RemoveEntry => {}
        }
    }
}

type Fields = serde_json::Map<String, Value>;

/// The same time, with this offset in place of `Z`.
fn with_offset(time: &mut Value, offset: &str) {
    if let Some(utc) = time.as_str().and_then(|text| text.strip_suffix('Z')) {
        *time = json!(format!("{utc}{offset}"));
    }
}

/// The oldest of the records that `which` selects.
fn first_record(document: &mut Fields, which: impl Fn(&Value) -> bool) -> Option<&mut Fields> {
    let first = in_order(document, which)?.into_iter().next()?;
    document.get_mut("allocatedIPs")?.get_mut(&first)?.as_object_mut()
}

/// The youngest of the records that `which` selects.
fn last_record(document: &mut Fields, which: impl Fn(&Value) -> bool) -> Option<&mut Fields> {
    let last = in_order(document, which)?.pop()?;
    document.get_mut("allocatedIPs")?.get_mut(&last)?.as_object_mut()
}

/// The IDs of the records that `which` selects, the oldest first.
fn in_order(document: &Fields, which: impl Fn(&Value) -> bool) -> Option<Vec<String>> {
    let records = document.get("allocatedIPs")?.as_object()?;
    let made = |record: &Value| record.get("allocatedAt").and_then(Value::as_str).unwrap_or("").to_owned();
    let mut order: Vec<_> = records.iter().filter(|(_, record)| which(record)).map(|(id, record)| (made(record), id.clone())).collect();
    order.sort();
    Some(order.into_iter().map(|(_, id)| id).collect())
}

#[cfg(test)]
mod tests {
    use ipam_byom::PoolDocument;
    use kube_machinery::TextForm;

    use super::*;

    const TEXT: &str = r#"{"allocatedIPs":{"a-1":{"allocationID":"a-1","ip":"10.0.0.1","allocatedAt":"2026-01-01T00:00:05Z"},
        "b-1":{"allocationID":"b-1","ip":"10.0.0.2","allocatedAt":"2026-01-01T00:00:01Z"}},"availableIPs":["10.0.0.3"],
        "lastUpdated":"2026-01-01T00:00:06Z","version":3}"#;

    fn edited(edit: Edit) -> Option<Value> {
        let object = ConfigMap { data: Some([(STATE_KEY.to_owned(), TEXT.to_owned())].into()), ..ConfigMap::default() };
        let text = edit.apply(object).data.unwrap().remove(STATE_KEY)?;
        Some(serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    #[test]
    fn each_edit_does_what_its_name_says() {
        let original: Value = serde_json::from_str(TEXT).unwrap();
        assert_eq!(edited(Edit::Touch), Some(original.clone()));
        assert!(matches!(edited(Edit::BadJson), Some(Value::String(text)) if !text.is_empty()));
        assert_eq!(edited(Edit::EmptyText), Some(Value::String(String::new())));
        assert_eq!(edited(Edit::RemoveEntry), None);
        assert_eq!(edited(Edit::NullMap).unwrap()["allocatedIPs"], Value::Null);
        assert!(edited(Edit::RemoveMap).unwrap().get("allocatedIPs").is_none());
        assert_eq!(edited(Edit::DuplicateAvailable).unwrap()["availableIPs"], json!(["10.0.0.3", "10.0.0.3"]));
        assert_eq!(edited(Edit::ForeignAvailable).unwrap()["availableIPs"], json!(["10.0.0.3", "10.99.0.1"]));
        assert_eq!(edited(Edit::Respell).unwrap()["allocatedIPs"]["b-1"]["ip"], json!("::ffff:10.0.0.2"));
        assert_eq!(edited(Edit::Garble).unwrap()["allocatedIPs"]["a-1"]["ip"], json!("10.0.0.1?"));
        assert_eq!(edited(Edit::ForeignRecord).unwrap()["allocatedIPs"]["by-hand-0"]["ip"], json!("10.99.0.2"));
        let dropped = edited(Edit::DropRecord).unwrap();
        assert!(dropped["allocatedIPs"].get("b-1").is_none() && dropped["allocatedIPs"].get("a-1").is_some());
        assert_eq!(dropped["availableIPs"], json!(["10.0.0.3", "10.0.0.2"]));
        assert_eq!(edited(Edit::UnknownField).unwrap()["version"], original["version"]);
        let moved = edited(Edit::OffsetTimes).unwrap();
        assert_eq!(moved["allocatedIPs"]["a-1"]["allocatedAt"], json!("2026-01-01T00:00:05+00:00"));
        assert_eq!(moved["lastUpdated"], json!("2026-01-01T00:00:06-00:00"));
        assert_eq!(edited(Edit::BadTime).unwrap()["lastUpdated"], json!("2026-01-01T00:00:06+0000"));
        assert_eq!(edited(Edit::FarTime).unwrap()["allocatedIPs"]["b-1"]["allocatedAt"], json!("9999-12-30T22:00:00-01:00"));
    }

    #[test]
    fn what_an_edit_of_times_leaves_can_be_read_or_not() {
        let readable = |edit: Edit| {
            let object = ConfigMap { data: Some([(STATE_KEY.to_owned(), TEXT.to_owned())].into()), ..ConfigMap::default() };
            PoolDocument::from_text(&edit.apply(object).data.unwrap()[STATE_KEY]).ok()
        };
        assert_eq!(readable(Edit::OffsetTimes), readable(Edit::UnknownField));
        assert_eq!([Edit::BadTime, Edit::FarTime].map(readable), [None, None]);
    }
}
