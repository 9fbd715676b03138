//! Server-side apply and the ownership of fields: structured merge of objects, as functions of JSON values (K164 to K167).
//!
//! ```text
//!   update:  before, after ──► comparison ──► what was written has a new manager, others lose it
//!   apply:   live, applied ──► merged ──► pruned ──► comparison ──► conflicts, or new managers
//! ```

mod compare;
mod items;
mod managers;
mod merge;
mod open_api;
mod owned;
mod path_set;
mod schema;

#[cfg(test)]
mod tests;

use compare::Comparison;
use jiff::Timestamp;
use managers::{Identity, Manager};
use path_set::PathSet;
use schema::TypeRef;
use serde_json::Value;

pub(crate) use managers::{Managers, Operation, resets, same_but_times, size};
pub use open_api::FieldTypes;

/// The types of the fields of a type's objects.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    of: TypeRef,
    api_version: String,
    /// An object without any field set.
    empty: Value,
    /// The same for one of its conditions.
    condition: Option<&'static Value>,
    /// The fields that a write of this kind never changes.
    ignored: PathSet,
    subresource: String,
}

/// A field that another manager owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// The name of the manager in messages.
    pub(crate) manager: String,
    /// The name of the field in messages.
    pub(crate) field: String,
}

/// The result of an apply.
#[derive(Debug)]
pub(crate) struct Applied {
    /// The object without its managers; unset = it is unchanged.
    pub(crate) object: Option<Value>,
    /// The managers of its fields after the apply.
    pub(crate) managers: Managers,
}

/// Adds the entries of `empty` that `value` lacks.
fn fill(value: &mut Value, empty: &Value) {
    let (Some(fields), Some(empty)) = (value.as_object_mut(), empty.as_object()) else { return };
    for (name, nothing) in empty {
        match fields.get_mut(name) {
            Some(field) => fill(field, nothing),
            None => drop(fields.insert(name.clone(), nothing.clone())),
        }
    }
}

/// The metadata that has no manager.
fn unmanaged() -> PathSet {
    const FIELDS: [&str; 9] =
        ["name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields", "resourceVersion"];
    let below = FIELDS.map(|name| ["metadata", name]);
    let mut paths: Vec<&[&str]> = vec![&["apiVersion"], &["kind"], &["metadata"]];
    paths.extend(below.iter().map(|path| path.as_slice()));
    PathSet::of_fields(&paths)
}

impl Fields {
    /// The fields of a built-in `kind`, or of a custom one with these types.
    pub(crate) fn new(kind: &str, api_version: String, custom: Option<Option<&FieldTypes>>) -> Self {
        let mut empty = serde_json::json!({"apiVersion": api_version, "kind": kind});
        let of = match custom {
            Some(types) => types.map_or_else(|| FieldTypes::open().0, |types| types.0.clone()),
            None => TypeRef::of_kind(kind).unwrap_or_else(|| FieldTypes::open().0),
        };
        if let Some(nothing) = custom.is_none().then(|| schema::empty(kind)).flatten() {
            fill(&mut empty, nothing);
        }
        let condition = custom.is_none().then(|| schema::empty(&format!("{kind}.condition"))).flatten();
        Self { of, api_version, empty, condition, ignored: PathSet::default(), subresource: String::new() }
    }

    /// The same for a write of `subresource`, or of the whole object if that is empty, which does not change the parts at or below the
    /// paths `ignored`.
    #[must_use]
    pub(crate) fn writing(mut self, subresource: &str, ignored: &[&[&str]]) -> Self {
        self.subresource = subresource.to_owned();
        self.ignored = PathSet::of_fields(ignored);
        self
    }

    fn identity(&self, name: &str, operation: Operation) -> Identity {
        let name = if name.is_empty() { "unknown" } else { name };
        let (api_version, subresource) = (self.api_version.clone(), self.subresource.clone());
        Identity { name: name.to_owned(), operation, api_version, subresource }
    }

    /// An object with all parts that have no owner.
    fn filled(&self, object: &Value) -> Value {
        let mut object = object.clone();
        fill(&mut object, &self.empty);
        if let Some(nothing) = self.condition {
            let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
            conditions.into_iter().flatten().for_each(|condition| fill(condition, nothing));
        }
        object
    }

    fn compare(&self, before: &Value, after: &Value) -> Comparison {
        Comparison::of(&self.of, &self.filled(before), &self.filled(after)).without(&self.ignored)
    }

    /// The state `before` for the creator of an object.
    pub(crate) fn nothing(&self) -> Value {
        serde_json::json!({"apiVersion": self.empty["apiVersion"], "kind": self.empty["kind"]})
    }

    /// Updates the owners of fields after a write by `name` that is no apply (K164). Both states are without managedFields.
    pub(crate) fn update(&self, before: &Value, after: &Value, managers: &mut Managers, name: &str, now: Timestamp) {
        let identity = self.identity(name, Operation::Update);
        let comparison = self.compare(before, after);
        let written = comparison.written();
        for manager in &mut managers.0 {
            manager.fields = manager.fields.difference(&written).difference(&comparison.removed);
        }
        managers.drop_empty();
        let own = written.difference(&unmanaged());
        if !own.is_empty() {
            let fields = match managers.remove(&identity) {
                Some(before) => own.union(&before.fields),
                None => own,
            };
            managers.0.push(Manager { identity, fields, time: Some(now) });
        }
        managers.cap();
    }

    /// The error of an applied body; unset = it is valid.
    pub(crate) fn fault(&self, applied: &Value) -> Option<String> {
        owned::fault(&self.of, applied)
    }

    /// Applies `applied` to `live`, which is without managedFields (K166).
    ///
    /// # Errors
    /// The fields that others own with other values, unless it is forced (K167).
    pub(crate) fn apply(
        &self,
        live: &Value,
        applied: &Value,
        mut managers: Managers,
        name: &str,
        force: bool,
        now: Timestamp,
    ) -> Result<Applied, Vec<Conflict>> {
        if managers.is_empty() {
            // Existing fields must have had a manager.
            self.update(&self.empty, live, &mut managers, "before-first-apply", now);
        }
        let identity = self.identity(name, Operation::Apply);
        let mut object = merge::merge(&self.of, live, applied);
        let last = managers.remove(&identity);
        let fields = owned::paths(&self.of, applied).without_below(&self.ignored);
        if let Some(last) = last.as_ref().filter(|last| !last.fields.is_empty()) {
            object = merge::prune(&self.of, &object, &last.fields, &managers.owned().union(&fields));
        }
        let comparison = self.compare(live, &object);
        let written = comparison.written();
        let conflicts = conflicts(&managers, &written);
        if !force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        for manager in &mut managers.0 {
            manager.fields = manager.fields.difference(&written).difference(&comparison.removed);
        }
        managers.drop_empty();
        let changed = object != *live;
        // An apply that changes nothing does not update the time.
        let time = if changed { Some(now) } else { last.and_then(|last| last.time) };
        let fields = fields.difference(&unmanaged());
        if !fields.is_empty() {
            managers.0.push(Manager { identity, fields, time });
        }
        Ok(Applied { object: changed.then_some(object), managers })
    }
}

/// The fields of others that are written with other values, by manager.
fn conflicts(managers: &Managers, written: &PathSet) -> Vec<Conflict> {
    let mut managers: Vec<&Manager> = managers.0.iter().collect();
    managers.sort_by(|a, b| a.identity.order().cmp(&b.identity.order()));
    let of = |manager: &Manager| {
        let shown = manager.identity.shown();
        let paths = manager.fields.intersection(written).paths();
        paths.iter().map(|path| Conflict { manager: shown.clone(), field: path_set::show(path) }).collect::<Vec<_>>()
    };
    managers.into_iter().flat_map(of).collect()
}

/// The message about conflicts.
pub(crate) fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [Conflict { manager, field }] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {manager}: {field}");
    }
    let mut lines = Vec::new();
    let mut last = "";
    for Conflict { manager, field } in conflicts {
        if manager != last {
            lines.push(format!("conflicts with {manager}:"));
            last = manager;
        }
        lines.push(format!("- {field}"));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}
