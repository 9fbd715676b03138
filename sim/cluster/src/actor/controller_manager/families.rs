//! Pods by the UID of the controller that owns them, with counts, as reported by the informer.
//!
//! Updated change by change, so that a reconcile that finds nothing to do looks at a few counters and at no pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube_machinery::informer::Notification;
use kube_machinery::{FxHashMap, ObjectKey, controller_of};

use super::view::{View, name_of, node_of, uid_of};
use super::{Item, Kind};

/// A pod of a family.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) pod: Arc<Pod>,
    pub(super) view: View,
}

impl Member {
    pub(super) fn of(pod: Arc<Pod>) -> Self {
        Self { view: View::of(&pod), pod }
    }
}

/// The number of pods of a family in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// The pods that are neither ended nor terminating.
    pub(super) active: i32,
    /// The active pods that have the condition `Ready`.
    pub(super) ready: i32,
}

impl Tally {
    fn count(&mut self, view: View, by: i32) {
        if view.active() {
            self.active += by;
            self.ready += if view.ready { by } else { 0 };
        }
    }
}

/// The pods of one owner.
#[derive(Debug)]
pub(super) struct Family {
    item: Item,
    /// All pods by name: they are in the namespace of their owner.
    pods: BTreeMap<Box<str>, Member>,
    pub(super) tally: Tally,
}

impl Family {
    /// All pods of the family, by name.
    pub(super) fn members(&self) -> impl DoubleEndedIterator<Item = &Member> {
        self.pods.values()
    }

    /// The number of pods.
    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }
}

/// The meaning of a pod's change for its owner.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// The owner of the pod, by kind and name.
    pub(super) item: Item,
    /// Whether the pod is new.
    pub(super) created: bool,
    /// The UID of the pod if it is going or gone now, and was not before.
    pub(super) deleted: Option<Box<str>>,
    /// Whether something that controllers read has changed.
    pub(super) matters: bool,
}

/// All families, by the UID of their owner and by its name.
#[derive(Debug, Default)]
pub(super) struct Families {
    by_owner: FxHashMap<Box<str>, Family>,
    /// The UIDs of all owners of one name that have known pods: several while pods of a predecessor exist.
    by_item: BTreeMap<Item, BTreeSet<Box<str>>>,
}

/// Whether a pod has the same owner as before, or none as before.
fn has_same_owner(old: &Pod, new: &Pod) -> bool {
    let owner = |pod| controller_of(pod).map(|owner| &owner.uid);
    owner(&old.metadata) == owner(&new.metadata)
}

impl Families {
    /// The pods of the owner with this UID; `None` = none is known.
    pub(super) fn of(&self, uid: &str) -> Option<&Family> {
        self.by_owner.get(uid)
    }

    /// The pods of owners that had the name of `item` and another UID than this.
    pub(super) fn strangers<'f>(&'f self, item: &Item, uid: Option<&'f str>) -> impl Iterator<Item = &'f Member> {
        let uids = self.by_item.get(item).into_iter().flatten().filter(move |other| uid != Some(&***other));
        uids.filter_map(|other| self.by_owner.get(other)).flat_map(Family::members)
    }

    /// Takes in a change. Returns its meaning for each owner: two entries if another pod has taken the name, or the pod has another owner.
    pub(super) fn observe(&mut self, notification: &Notification<Pod>) -> [Option<Told>; 2] {
        match notification {
            Notification::Added { object, .. } => [None, self.put(object)],
            Notification::Updated { old, new } if uid_of(old) == uid_of(new) && has_same_owner(old, new) => [None, self.put(new)],
            Notification::Updated { old, new } => [self.remove(old), self.put(new)],
            Notification::Deleted { object } | Notification::DeletedFinalStateUnknown { object, .. } => [None, self.remove(object)],
        }
    }

    fn put(&mut self, pod: &Arc<Pod>) -> Option<Told> {
        let owner = controller_of(&pod.metadata)?;
        let kind = Kind::of_owner(owner)?;
        let member = Member::of(pod.clone());
        let view = member.view;
        let family = match self.by_owner.get_mut(&*owner.uid) {
            Some(family) => family,
            None => {
                let key = ObjectKey::namespaced(pod.metadata.namespace.as_deref().unwrap_or(""), &owner.name);
                let family = Family { item: Item { kind, key }, pods: BTreeMap::new(), tally: Tally::default() };
                self.by_item.entry(family.item.clone()).or_default().insert(owner.uid.as_str().into());
                self.by_owner.entry(owner.uid.as_str().into()).or_insert(family)
            }
        };
        let before = family.pods.get(name_of(pod)).map(|member| (member.view, node_of(&member.pod) == node_of(pod)));
        match family.pods.get_mut(name_of(pod)) {
            Some(place) => *place = member,
            None => drop(family.pods.insert(name_of(pod).into(), member)),
        }
        if let Some((before, _)) = before {
            family.tally.count(before, -1);
        }
        family.tally.count(view, 1);
        Some(Told {
            item: family.item.clone(),
            created: before.is_none(),
            deleted: (view.terminating && before.is_none_or(|(before, _)| !before.terminating)).then(|| uid_of(pod).into()),
            matters: before != Some((view, true)),
        })
    }

    fn remove(&mut self, pod: &Pod) -> Option<Told> {
        let owner = controller_of(&pod.metadata)?;
        let family = self.by_owner.get_mut(&*owner.uid)?;
        let gone = family.pods.remove(name_of(pod))?;
        family.tally.count(gone.view, -1);
        let item = family.item.clone();
        if family.pods.is_empty() {
            self.by_owner.remove(&*owner.uid);
            if let Some(uids) = self.by_item.get_mut(&item) {
                uids.remove(&*owner.uid);
                if uids.is_empty() {
                    self.by_item.remove(&item);
                }
            }
        }
        Some(Told { item, created: false, deleted: Some(uid_of(pod).into()), matters: true })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testbed::from_json;

    /// A pod of the set with this UID, in one of a few states.
    fn pod(name: u8, uid: u32, owner: u8, state: u8) -> Arc<Pod> {
        let phase = ["Pending", "Running", "Running", "Succeeded", "Running"][usize::from(state % 5)];
        let ready = if state % 5 == 2 { "True" } else { "False" };
        let deleted = (state % 5 == 4).then_some("2026-01-01T00:00:00Z");
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": format!("set-{owner}"), "controller": true});
        let meta = json!({
            "name": format!("web-{name}"), "namespace": "default", "uid": uid.to_string(),
            "deletionTimestamp": deleted, "ownerReferences": [owner],
        });
        let status = json!({"phase": phase, "conditions": [{"type": "Ready", "status": ready}]});
        Arc::new(from_json(json!({"metadata": meta, "spec": {"containers": []}, "status": status})))
    }

    proptest! {
        /// Compared with a plain list of the existing pods.
        #[test]
        fn counts_are_those_of_the_pods_that_are_there(
            changes in proptest::collection::vec((0..4u8, 0..3u8, proptest::option::of(0..5u8), any::<bool>()), 0..60),
        ) {
            let mut families = Families::default();
            let mut there: BTreeMap<u8, (Arc<Pod>, u8)> = BTreeMap::new();
            for (uid, (name, owner, state, again)) in (0u32..).zip(changes) {
                let before = there.get(&name).cloned();
                let notification = match (state, before) {
                    (Some(state), Some((old, owner))) if again => {
                        let uid = uid_of(&old).parse().unwrap();
                        let new = pod(name, uid, owner, state);
                        there.insert(name, (new.clone(), owner));
                        Notification::Updated { old, new }
                    }
                    (Some(state), before) => {
                        let new = pod(name, uid, owner, state);
                        there.insert(name, (new.clone(), owner));
                        match before {
                            Some((old, _)) => Notification::Updated { old, new },
                            None => Notification::Added { object: new, initial: false },
                        }
                    }
                    (None, Some((object, _))) => {
                        there.remove(&name);
                        Notification::Deleted { object }
                    }
                    (None, None) => continue,
                };
                families.observe(&notification);
                for owner in 0..3u8 {
                    let own: Vec<View> = there.values().filter(|(_, of)| *of == owner).map(|(pod, _)| View::of(pod)).collect();
                    let family = families.of(&format!("set-{owner}"));
                    prop_assert_eq!(family.map_or(0, Family::len), own.len());
                    let tally = family.map(|family| family.tally).unwrap_or_default();
                    let active = own.iter().filter(|view| view.active()).count() as i32;
                    let ready = own.iter().filter(|view| view.active() && view.ready).count() as i32;
                    prop_assert_eq!((tally.active, tally.ready), (active, ready));
                }
                let item = Kind::ReplicaSet.item(ObjectKey::namespaced("default", "web"));
                let strangers = families.strangers(&item, Some("set-0")).count();
                prop_assert_eq!(strangers, there.values().filter(|(_, owner)| *owner != 0).count());
            }
        }
    }

    #[test]
    fn a_pod_that_loses_its_owner_and_finds_another_changes_families() {
        let mut families = Families::default();
        let (old, adopted) = (pod(0, 1, 0, 1), pod(0, 1, 1, 1));
        let mut orphan = Pod::clone(&old);
        orphan.metadata.owner_references = None;
        let orphan = Arc::new(orphan);
        let len = |families: &Families, owner| families.of(owner).map_or(0, Family::len);
        families.observe(&Notification::Added { object: old.clone(), initial: true });
        let [left, found] = families.observe(&Notification::Updated { old, new: orphan.clone() });
        assert!(left.is_some_and(|told| told.matters) && found.is_none());
        assert_eq!((len(&families, "set-0"), len(&families, "set-1")), (0, 0));
        let [left, found] = families.observe(&Notification::Updated { old: orphan, new: adopted });
        assert!(left.is_none() && found.is_some_and(|told| told.matters));
        assert_eq!((len(&families, "set-0"), len(&families, "set-1")), (0, 1));
    }

    #[test]
    fn an_owner_is_told_once_of_a_deletion_and_of_nothing_that_does_not_matter() {
        let mut families = Families::default();
        let mut told = |notification| families.observe(&notification)[1].take().unwrap();
        let (pending, deleted) = (pod(0, 1, 0, 0), pod(0, 1, 0, 4));
        let added = told(Notification::Added { object: pending.clone(), initial: true });
        assert_eq!((added.created, added.deleted, added.matters), (true, None, true));
        let same = told(Notification::Updated { old: pending.clone(), new: pending.clone() });
        assert_eq!((same.created, same.deleted, same.matters), (false, None, false));
        let going = told(Notification::Updated { old: pending, new: deleted.clone() });
        assert_eq!((going.created, going.deleted.as_deref(), going.matters), (false, Some("1"), true));
        let still = told(Notification::Updated { old: deleted.clone(), new: deleted });
        assert_eq!((still.deleted, still.matters), (None, false));
    }
}
