//! Versions by their rank.

use crate::json::{Json, Map};

use super::is_list;

/// A version in decimal digits, of any length.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    length: usize,
    digits: String,
}

impl Version {
    fn read(text: &str) -> Option<Self> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let digits = text.trim_start_matches('0').to_owned();
        Some(Self { length: digits.len(), digits })
    }
}

/// The versions of all objects in a case, in order: each is named by its rank.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    sorted: Vec<Version>,
}

impl Ranks {
    /// The versions in the records of the steps. Versions of lists and bookmarks depend on other events on the server.
    pub(super) fn of<'a>(records: impl Iterator<Item = &'a Map>) -> Self {
        let mut sorted = Vec::new();
        for record in records {
            if let Some(body) = record.get("body") {
                find(body, &mut sorted);
            }
            for event in record.get("events").and_then(Json::as_array).unwrap_or_default() {
                match event.get("type") {
                    None => find(event, &mut sorted),
                    Some(kind) if kind.as_str() == Some("BOOKMARK") => {}
                    Some(_) => event.get("object").into_iter().for_each(|object| find(object, &mut sorted)),
                }
            }
        }
        sorted.sort();
        sorted.dedup();
        Self { sorted }
    }

    /// The name of an object's version.
    pub(super) fn name(&self, text: &str) -> String {
        let Some(version) = Version::read(text) else { return format!("<rv {text}>") };
        self.sorted.binary_search(&version).map_or("<rv>".to_owned(), |index| format!("rv{}", index + 1))
    }

    /// The name of a list's version: by the versions of objects up to it.
    pub(super) fn at_least(&self, text: &str) -> String {
        match Version::read(text) {
            None => format!("<rv {text}>"),
            Some(_) if text == "0" => text.to_owned(),
            Some(version) => format!("rv{}+", self.sorted.partition_point(|other| *other <= version)),
        }
    }
}

fn find(value: &Json, found: &mut Vec<Version>) {
    match value {
        Json::Array(items) => items.iter().for_each(|item| find(item, found)),
        Json::Object(members) => {
            let own = members.get("metadata").filter(|_| !is_list(members)).and_then(|metadata| metadata.get("resourceVersion"));
            let picked = members.get("metadata/resourceVersion");
            let versions = own.into_iter().chain(picked).filter_map(|version| match version {
                Json::String(text) => Version::read(text),
                Json::Number(number) => Version::read(&number.to_string()),
                _ => None,
            });
            found.extend(versions);
            members.values().for_each(|item| find(item, found));
        }
        _ => {}
    }
}
