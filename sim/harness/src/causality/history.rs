//! The histories of a run's objects, for the picture of the run.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ipam_reports::timeline::ObjectHistory;
use kube_machinery::{FxHashMap, ObjectKey};
use kube_sim::kinds::KindId;
use kube_sim::object::{Obj, resource_version};
use kube_sim::trace::record::What;

use super::index::Index;
use super::objects::fields;
use crate::system::systems;

/// The written objects with their states, shared objects first. All writes before the first shown event count as one state.
pub(super) fn histories(index: &Index<'_>, shown: &Range<usize>) -> (FxHashMap<(KindId, ObjectKey), u32>, Vec<ObjectHistory>) {
    /// The states of an object: the event that made each (`None` = before the shown events), its revision, and the object then.
    type States<'a> = Vec<(Option<u64>, u64, Option<&'a Obj>)>;
    let mut states: BTreeMap<(KindId, &ObjectKey), States<'_>> = BTreeMap::new();
    let mut shared: BTreeSet<(KindId, &ObjectKey)> = BTreeSet::new();
    for (event, record) in index.records.iter().enumerate().take(shown.end) {
        let What::Commit { kind, key, revision, before, after, .. } = &record.what else { continue };
        let is_shared = |object: &Obj| systems().iter().any(|system| system.is_shared(object));
        // An object that was shared once stays so.
        if after.as_ref().is_some_and(is_shared) {
            shared.insert((*kind, key));
        }
        let states = states.entry((*kind, key)).or_default();
        if states.is_empty()
            && let Some(before) = before
        {
            states.push((None, resource_version(&**before).parse().unwrap_or(0), Some(before)));
        }
        let position = if event < shown.start {
            states.clear();
            None
        } else {
            Some(event as u64)
        };
        states.push((position, *revision, after.as_ref()));
    }
    let mut states: Vec<_> = states.into_iter().collect();
    states.sort_by_key(|((kind, key), _)| (!shared.contains(&(*kind, *key)), index.narrator.kind(*kind), *key));
    let mut objects = FxHashMap::default();
    let mut histories = Vec::new();
    for ((kind, key), states) in states {
        let name = index.narrator.kind(kind);
        let namespace = key.namespace().unwrap_or("").to_owned();
        let mut history = ObjectHistory { kind: name.to_owned(), namespace, name: key.name().to_owned(), versions: Vec::new() };
        let mut known = Vec::new();
        for (event, revision, object) in states {
            let fields = object.map(fields);
            history.push(event, revision, &known, fields.as_deref());
            known = fields.unwrap_or_default();
        }
        objects.insert((kind, key.clone()), histories.len() as u32);
        histories.push(history);
    }
    (objects, histories)
}
