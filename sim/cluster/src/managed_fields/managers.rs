//! The managers of an object's fields: `metadata.managedFields` (K164).

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, Time};
use serde_json::Value;

use super::path_set::PathSet;

/// The operation by which a manager got its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Server-side apply: the manager wants to keep these values.
    Apply,
    /// Any other write: the manager was the last to change them.
    Update,
}

/// The identity of a manager. For appliers the version does not belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) name: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
}

impl Identity {
    fn is(&self, other: &Self) -> bool {
        let version = self.operation == Operation::Apply || self.api_version == other.api_version;
        version && (&self.name, self.operation, &self.subresource) == (&other.name, other.operation, &other.subresource)
    }

    /// The name in the message of a conflict.
    pub(super) fn shown(&self) -> String {
        let mut text = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == Operation::Update {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }

    /// The key by which conflicts order managers.
    pub(super) fn order(&self) -> (&str, bool, &str, &str) {
        (&self.name, self.operation == Operation::Update, &self.api_version, &self.subresource)
    }
}

/// A manager with the fields that it manages.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Manager {
    pub(super) identity: Identity,
    pub(super) fields: PathSet,
    pub(super) time: Option<Timestamp>,
}

/// All managers of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Managers(pub(super) Vec<Manager>);

impl Managers {
    /// Whether there is no manager.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads `metadata.managedFields`; unset = it has no valid form.
    pub(crate) fn decode(entries: &[ManagedFieldsEntry]) -> Option<Self> {
        let manager = |entry: &ManagedFieldsEntry| {
            let operation = match entry.operation.as_deref() {
                Some("Apply") => Operation::Apply,
                Some("Update") => Operation::Update,
                _ => return None,
            };
            let api_version = entry.api_version.clone().filter(|version| !version.is_empty())?;
            entry.fields_type.as_deref().filter(|kind| *kind == "FieldsV1")?;
            let identity = Identity {
                name: entry.manager.clone().unwrap_or_default(),
                operation,
                api_version,
                subresource: entry.subresource.clone().unwrap_or_default(),
            };
            let fields = entry.fields_v1.as_ref().map_or(PathSet::default(), |fields| PathSet::of_value(&fields.0));
            Some(Manager { identity, fields, time: entry.time.as_ref().map(|time| time.0) })
        };
        entries.iter().map(manager).collect::<Option<Vec<_>>>().map(Self)
    }

    /// The form of `metadata.managedFields`; unset = there is no manager.
    pub(crate) fn encode(mut self) -> Option<Vec<ManagedFieldsEntry>> {
        self.0.sort_by(|a, b| {
            let key = |manager: &Manager| (manager.identity.operation == Operation::Update, manager.time.map_or(0, Timestamp::as_second));
            let names = |identity: &Identity| (identity.name.clone(), identity.api_version.clone(), identity.subresource.clone());
            key(a).cmp(&key(b)).then_with(|| names(&a.identity).cmp(&names(&b.identity)))
        });
        let text = |text: String| (!text.is_empty()).then_some(text);
        let entry = |Manager { identity, fields, time }: Manager| ManagedFieldsEntry {
            api_version: Some(identity.api_version),
            fields_type: Some("FieldsV1".to_owned()),
            fields_v1: Some(FieldsV1(fields.to_value())),
            manager: text(identity.name),
            operation: Some(if identity.operation == Operation::Apply { "Apply" } else { "Update" }.to_owned()),
            subresource: text(identity.subresource),
            time: time.map(Time),
        };
        (!self.0.is_empty()).then(|| self.0.into_iter().map(entry).collect())
    }

    pub(super) fn find(&self, identity: &Identity) -> Option<&Manager> {
        self.0.iter().find(|manager| manager.identity.is(identity))
    }

    pub(super) fn remove(&mut self, identity: &Identity) -> Option<Manager> {
        let place = self.0.iter().position(|manager| manager.identity.is(identity))?;
        Some(self.0.remove(place))
    }

    pub(super) fn drop_empty(&mut self) {
        self.0.retain(|manager| !manager.fields.is_empty());
    }

    /// Every path that some manager owns.
    pub(super) fn owned(&self) -> PathSet {
        self.0.iter().fold(PathSet::default(), |all, manager| all.union(&manager.fields))
    }

    /// Joins the managers with the oldest writes until at most ten are left that do not apply.
    pub(super) fn cap(&mut self) {
        /// The largest number of an object's managers that do not apply.
        const UPDATERS_MAX: usize = 10;
        let mut updaters: Vec<Identity> = self
            .0
            .iter()
            .filter(|manager| manager.identity.operation == Operation::Update)
            .map(|manager| manager.identity.clone())
            .collect();
        if updaters.len() <= UPDATERS_MAX {
            return;
        }
        updaters.sort_by_key(|identity| {
            let time = self.find(identity).and_then(|manager| manager.time).map_or(0, Timestamp::as_second);
            (time, identity.name.clone(), identity.subresource.clone())
        });
        let excess = updaters.len() - UPDATERS_MAX;
        let oldest: Vec<Manager> = updaters.iter().take(excess + 1).filter_map(|identity| self.remove(identity)).collect();
        let Some(last) = oldest.last() else { return };
        let identity = Identity {
            name: "ancient-changes".to_owned(),
            operation: Operation::Update,
            api_version: last.identity.api_version.clone(),
            subresource: String::new(),
        };
        let time = last.time;
        let mut fields = oldest.iter().fold(PathSet::default(), |all, manager| all.union(&manager.fields));
        if let Some(before) = self.remove(&identity) {
            fields = fields.union(&before.fields);
        }
        self.0.push(Manager { identity, fields, time });
    }
}

/// Whether `entries` requests to forget the managers: an empty list, or one with an empty entry.
pub(crate) fn resets(entries: &[ManagedFieldsEntry]) -> bool {
    entries.is_empty() || matches!(entries, [only] if *only == ManagedFieldsEntry::default())
}

/// Whether two lists differ only in their times.
pub(crate) fn same_but_times(a: &[ManagedFieldsEntry], b: &[ManagedFieldsEntry]) -> bool {
    fn timeless(entry: &ManagedFieldsEntry) -> [Option<&str>; 5] {
        let ManagedFieldsEntry { api_version, fields_type, manager, operation, subresource, fields_v1: _, time: _ } = entry;
        [api_version, fields_type, manager, operation, subresource].map(|field| field.as_deref())
    }
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| timeless(a) == timeless(b) && a.fields_v1 == b.fields_v1)
}

/// The size of the entries in JSON, in bytes.
pub(crate) fn size(entries: &[ManagedFieldsEntry]) -> usize {
    entries.iter().map(|entry| serde_json::to_value(entry).map_or(0, |value: Value| value.to_string().len() + 1)).sum()
}
