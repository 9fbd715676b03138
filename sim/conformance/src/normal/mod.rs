//! Names for values that differ from run to run, the same name for the same value within a case.

#[cfg(test)]
mod tests;
mod texts;
mod times;
mod versions;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::json::{Json, Map};
use crate::step::Exact;

use self::texts::Texts;
use self::versions::Ranks;

/// The record of a step, as the server answered.
#[derive(Clone, Debug)]
pub(crate) struct StepResult {
    /// Status, headers and body, or events, or other recorded values.
    pub(crate) record: Map,
    /// The way in which the version of the list in the body is determined.
    pub(crate) exact: Option<Exact>,
    /// The time at which the step ended, since the case began.
    pub(crate) at: Duration,
}

/// Names the values in the records of one case.
pub(crate) struct Normaliser {
    texts: Texts,
    managed_fields: bool,
    /// The last step that recorded a list of each version.
    lists: BTreeMap<String, usize>,
    exact: Option<Exact>,
    elapsed: Duration,
}

impl Normaliser {
    /// A normaliser for a case with this source text in ASCII, prefix and namespace.
    pub(crate) fn new(source: &str, prefix: &str, ns: &str, managed_fields: bool) -> Self {
        let texts = Texts::new(source, prefix, ns);
        Self { texts, managed_fields, lists: BTreeMap::new(), exact: None, elapsed: Duration::ZERO }
    }

    /// The records of all steps, with names.
    pub(crate) fn steps(mut self, results: &[StepResult]) -> Vec<Json> {
        self.texts.ranks = Ranks::of(results.iter().map(|result| &result.record));
        let named = results.iter().enumerate().map(|(index, result)| {
            (self.exact, self.elapsed) = (result.exact, result.at);
            let named = self.result(&result.record);
            if let Some(Json::Object(body)) = result.record.get("body")
                && is_list(body)
                && let Some(Json::String(version)) = body.get("metadata").and_then(|metadata| metadata.get("resourceVersion"))
            {
                self.lists.insert(version.clone(), index + 1);
            }
            named
        });
        named.collect()
    }

    fn result(&mut self, result: &Map) -> Json {
        let named = result.iter().map(|(name, value)| {
            let value = match (name.as_str(), value) {
                ("events", Json::Array(events)) => Json::Array(events.iter().map(|event| self.event(event)).collect()),
                ("headers", Json::Object(headers)) => headers.iter().map(|(name, value)| (name.clone(), self.text_of(value))).collect(),
                ("body", body) => self.value(body, "", false),
                ("text" | "error", text) => self.text_of(text),
                (_, other) => other.clone(),
            };
            (name.clone(), value)
        });
        named.collect()
    }

    fn event(&mut self, event: &Json) -> Json {
        let Some((members, kind)) = event.as_object().and_then(|members| Some((members, members.get("type")?))) else {
            return Json::Object(Map::from([("no event".to_owned(), self.value(event, "", false))]));
        };
        let object = members.get("object").map_or(Json::Null, |object| self.value(object, "", kind.as_str() == Some("BOOKMARK")));
        let mut named = Map::from([("type".to_owned(), kind.clone()), ("object".to_owned(), object)]);
        let others = members.iter().filter(|(name, _)| !matches!(name.as_str(), "type" | "object"));
        named.extend(others.map(|(name, value)| (name.clone(), value.clone())));
        Json::Object(named)
    }

    /// A value under the name `name`. The version of a `loose` object is not that of an object of the case.
    fn value(&mut self, value: &Json, name: &str, loose: bool) -> Json {
        match value {
            Json::Array(items) => {
                let mut items = items.clone();
                sort(&mut items, name);
                Json::Array(items.iter().map(|item| self.value(item, name, false)).collect())
            }
            Json::Object(members) => self.object(members, loose),
            text => self.text_of(text),
        }
    }

    fn object(&mut self, members: &Map, loose: bool) -> Json {
        let loose = loose || is_list(members);
        let mut members = members.clone();
        let kind = members.get("kind").and_then(Json::as_str).unwrap_or_default().to_owned();
        if kind == "APIResourceList" {
            self.resources(&mut members);
        }
        if kind == "Table"
            && let Some(Json::Array(rows)) = members.get_mut("rows")
        {
            rows.iter_mut().for_each(hide_ages);
        }
        let named = members.iter().map(|(name, item)| match (name.as_str(), item) {
            ("metadata", Json::Object(metadata)) => (name.clone(), self.metadata(metadata, loose)),
            ("metadata/resourceVersion", Json::String(version)) => (name.clone(), self.texts.ranks.name(version).into()),
            _ => {
                // Inner values come first in the order of appearance.
                let value = self.value(item, name, false);
                (self.texts.text(name), value)
            }
        });
        named.collect()
    }

    /// Custom types come in random order, and the hash of a type with the prefix in its name differs every time.
    fn resources(&self, members: &mut Map) {
        let is_own = members.get("groupVersion").is_some_and(|group| group.compact().contains(&self.texts.prefix));
        let Some(Json::Array(resources)) = members.get_mut("resources") else { return };
        for resource in resources.iter_mut() {
            if let Json::Object(resource) = resource
                && is_own
                && let Some(hash) = resource.get_mut("storageVersionHash")
            {
                *hash = "<hash>".into();
            }
        }
        resources.sort_by_key(|resource| text_at(resource, "name"));
    }

    fn metadata(&mut self, metadata: &Map, loose: bool) -> Json {
        let mut named = Map::new();
        for (name, value) in metadata {
            let value = match (name.as_str(), value) {
                ("managedFields", _) if !self.managed_fields => continue,
                ("resourceVersion", Json::String(version)) if loose => self.list_version(version).into(),
                ("resourceVersion", Json::String(version)) => self.texts.ranks.name(version).into(),
                ("continue", token) if *token != Json::from("") && *token != Json::Null => "<token>".into(),
                ("deletionTimestamp", Json::String(time)) => self.deadline(time, metadata).into(),
                _ => {
                    let value = self.value(value, name, false);
                    named.insert(self.texts.text(name), value);
                    continue;
                }
            };
            named.insert(name.clone(), value);
        }
        Json::Object(named)
    }

    /// The name of a list's version: at least the n-th version of the case's objects; the exact one if a step says that it is determined.
    fn list_version(&self, version: &str) -> String {
        match self.exact {
            Some(Exact::Version) => self.texts.ranks.name(version),
            Some(Exact::Page) => self.lists.get(version).map_or("<rv>".to_owned(), |step| format!("as in step {step}")),
            None => self.texts.ranks.at_least(version),
        }
    }

    fn deadline(&mut self, time: &str, metadata: &Map) -> String {
        let created = metadata.get("creationTimestamp").and_then(Json::as_str).unwrap_or_default();
        let grace = match metadata.get("deletionGracePeriodSeconds") {
            Some(Json::Number(grace)) => grace.as_i64().unwrap_or(0),
            // A Namespace has no grace period.
            _ => 0,
        };
        match self.texts.times.deadline(time, created, grace, self.elapsed) {
            Some(named) => named,
            None => self.texts.text(time),
        }
    }

    fn text_of(&mut self, value: &Json) -> Json {
        if let Json::String(text) = value { Json::String(self.texts.text(text)) } else { value.clone() }
    }
}

/// Sorts lists without an order: the server sorts managed fields by the second of their writes, and managers in a conflict are in random
/// order.
fn sort(items: &mut [Json], name: &str) {
    if name.ends_with("managedFields") {
        items.sort_by_key(|entry| ["manager", "operation", "subresource", "apiVersion"].map(|name| text_at(entry, name)));
    }
    let is_conflict = |cause: &Json| cause.get("reason").and_then(Json::as_str) == Some("FieldManagerConflict");
    if name == "causes" && items.iter().all(is_conflict) {
        items.sort_by_key(|cause| ["field", "message"].map(|name| text_at(cause, name)));
    }
}

/// The sort key of a member; an absent one sorts as `None`, as in old recordings.
fn text_at(value: &Json, name: &str) -> String {
    match value.get(name) {
        None | Some(Json::Null) => "None".to_owned(),
        Some(Json::String(text)) => text.clone(),
        Some(other) => other.compact(),
    }
}

fn hide_ages(row: &mut Json) {
    let Json::Object(row) = row else { return };
    if let Json::Array(cells) = row.entry("cells".to_owned()).or_insert_with(|| Json::Array(Vec::new())) {
        for cell in cells.iter_mut().filter(|cell| cell.as_str().is_some_and(times::is_age)) {
            *cell = "<age>".into();
        }
    }
}

/// Whether an object is a list: its version depends on other events on the server.
fn is_list(members: &Map) -> bool {
    let kind = members.get("kind").and_then(Json::as_str).unwrap_or_default();
    members.contains_key("items") || kind.ends_with("List") || kind == "Table"
}

/// Hides a random value; its presence is kept.
pub(crate) fn vary(value: &mut Json, path: &[String]) {
    let Some((first, rest)) = path.split_first() else { return };
    match value {
        Json::Array(items) if first == "*" => items.iter_mut().for_each(|item| vary(item, rest)),
        Json::Array(items) => {
            if let Some(item) = first.parse::<usize>().ok().and_then(|index| items.get_mut(index)) {
                vary(item, rest);
            }
        }
        Json::Object(members) => match members.get_mut(first) {
            Some(found) if rest.is_empty() => *found = "<varies>".into(),
            Some(found) => vary(found, rest),
            None => {}
        },
        _ => {}
    }
}
