//! The graph of owners and dependents, as reported by informers.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_machinery::{FxHashMap, ObjectKey};

/// An object of one of the collector's types.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Item {
    /// The index of the type in the collector's list.
    pub(super) number: usize,
    pub(super) key: ObjectKey,
}

#[derive(Debug)]
struct Node {
    uid: Arc<str>,
    owners: Vec<Owner>,
}

/// An owner of an object, by UID.
#[derive(Clone, Debug)]
struct Owner {
    uid: Arc<str>,
    /// Whether an owner that is deleted in the foreground has to wait for the object (`blockOwnerDeletion`).
    waits: bool,
}

/// The objects by UID, and the dependents of each UID, known or not. Only the dependents of one UID are ever iterated, in order.
#[derive(Debug, Default)]
pub(super) struct Graph {
    objects: FxHashMap<Item, Node>,
    present: FxHashMap<Arc<str>, Item>,
    /// Terminating objects whose dependents have to be handled before they can go.
    marked: BTreeSet<Arc<str>>,
    dependents: FxHashMap<Arc<str>, BTreeSet<Item>>,
}

impl Graph {
    /// Takes in an object's latest state. Returns the objects to look at: the object itself, if not all its owners are known or if its
    /// dependents have to be handled, and the dependents of a predecessor of the same name (K148).
    pub(super) fn put(&mut self, item: Item, meta: &ObjectMeta) -> Vec<Item> {
        let uid: Arc<str> = meta.uid.as_deref().unwrap_or("").into();
        let mut doubtful = match self.objects.get(&item) {
            Some(node) if node.uid != uid => self.remove(&item),
            Some(_) => {
                self.unlink(&item);
                Vec::new()
            }
            None => Vec::new(),
        };
        let owner = |owner: &OwnerReference| Owner { uid: owner.uid.as_str().into(), waits: owner.block_owner_deletion == Some(true) };
        let owners: Vec<Owner> = meta.owner_references.iter().flatten().map(owner).collect();
        for owner in &owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(item.clone());
        }
        self.present.insert(uid.clone(), item.clone());
        let is_marked = Policy::of(meta).is_some();
        if is_marked {
            self.marked.insert(uid.clone());
        } else {
            self.marked.remove(&uid);
        }
        // An owner that the object no longer has may have been waiting for it.
        doubtful.extend(self.waiting_owners(&owners));
        if is_marked || !self.are_known(&owners, &item) {
            doubtful.push(item.clone());
        }
        self.objects.insert(item, Node { uid, owners });
        doubtful
    }

    /// Removes an object that is gone. Returns the objects to look at: its dependents, and owners that have waited for it.
    pub(super) fn remove(&mut self, item: &Item) -> Vec<Item> {
        self.unlink(item);
        let Some(node) = self.objects.remove(item) else { return Vec::new() };
        self.present.remove(&node.uid);
        self.marked.remove(&node.uid);
        let mut doubtful: Vec<Item> = self.dependents.get(&node.uid).into_iter().flatten().cloned().collect();
        doubtful.extend(self.waiting_owners(&node.owners));
        doubtful
    }

    /// The owners whose dependents have to be handled.
    fn waiting_owners(&self, owners: &[Owner]) -> Vec<Item> {
        let waiting = owners.iter().filter(|owner| self.marked.contains(&owner.uid));
        waiting.filter_map(|owner| self.present.get(&owner.uid).cloned()).collect()
    }

    /// The known dependents of an object, and whether the object waits for each.
    pub(super) fn dependents(&self, uid: &str) -> Vec<(Item, bool)> {
        let waits =
            |item: &Item| self.objects.get(item).is_some_and(|node| node.owners.iter().any(|owner| &*owner.uid == uid && owner.waits));
        self.dependents.get(uid).into_iter().flatten().map(|item| (item.clone(), waits(item))).collect()
    }

    fn unlink(&mut self, item: &Item) {
        for owner in self.objects.get(item).into_iter().flat_map(|node| &node.owners) {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(item);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }

    /// Whether there is nothing to look at: the object is gone, or all its owners exist and stay.
    pub(super) fn is_owned(&self, item: &Item) -> bool {
        self.objects.get(item).is_none_or(|node| self.are_known(&node.owners, item) && !self.marked.contains(&node.uid))
    }

    fn are_known(&self, owners: &[Owner], item: &Item) -> bool {
        // A reference to an owner in another namespace does not count.
        let reaches = |owner: &Item| owner.key.namespace().is_none_or(|namespace| item.key.namespace() == Some(namespace));
        owners.iter().all(|owner| !self.marked.contains(&owner.uid) && self.present.get(&owner.uid).is_some_and(reaches))
    }

    /// Whether an object with this UID is known.
    pub(super) fn knows(&self, uid: &str) -> bool {
        self.present.contains_key(uid)
    }
}

/// A terminating object's policy for its dependents (K105).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// The dependents are deleted first, and their owner stays until those that block it are gone.
    Foreground,
    /// The dependents lose it as an owner.
    Orphan,
}

impl Policy {
    /// The finalizer that requests this policy.
    pub(super) fn finalizer(self) -> &'static str {
        match self {
            Policy::Foreground => "foregroundDeletion",
            Policy::Orphan => "orphan",
        }
    }

    /// The policy that the finalizers of an object request, if it is terminating.
    pub(super) fn of(meta: &ObjectMeta) -> Option<Self> {
        meta.deletion_timestamp.as_ref()?;
        Self::asked_for(meta)
    }

    /// The policy that the finalizers of an object request for its deletion.
    pub(super) fn asked_for(meta: &ObjectMeta) -> Option<Self> {
        let finalizers = meta.finalizers.as_deref()?;
        [Policy::Orphan, Policy::Foreground].into_iter().find(|policy| finalizers.iter().any(|finalizer| finalizer == policy.finalizer()))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn item(name: &str) -> Item {
        Item { number: 0, key: ObjectKey::namespaced("default", name) }
    }

    fn meta(uid: &str, owners: &[&str]) -> ObjectMeta {
        let owner = |uid: &&str| OwnerReference { uid: (*uid).to_owned(), ..OwnerReference::default() };
        ObjectMeta { uid: Some(uid.to_owned()), owner_references: Some(owners.iter().map(owner).collect()), ..ObjectMeta::default() }
    }

    #[test]
    fn a_dependent_is_in_doubt_while_an_owner_is_not_known() {
        let mut graph = Graph::default();
        assert_eq!(graph.put(item("set"), &meta("s", &[])), []);
        assert_eq!(graph.put(item("pod"), &meta("p", &["s"])), []);
        assert_eq!(graph.put(item("both"), &meta("b", &["s", "other"])), [item("both")]);
        assert_eq!(graph.put(item("other"), &meta("other", &[])), []);
        assert!(graph.is_owned(&item("both")));
        assert_eq!(graph.remove(&item("set")), [item("both"), item("pod")]);
        assert!(!graph.is_owned(&item("pod")));
    }

    #[test]
    fn a_successor_of_the_same_name_leaves_the_dependents_of_its_predecessor_in_doubt() {
        let mut graph = Graph::default();
        graph.put(item("set"), &meta("s", &[]));
        graph.put(item("pod"), &meta("p", &["s"]));
        assert_eq!(graph.put(item("set"), &meta("s2", &[])), [item("pod")]);
        assert_eq!(graph.put(item("pod"), &meta("p", &["s2"])), []);
        assert_eq!(graph.remove(&item("pod")), []);
        assert_eq!(graph.remove(&item("set")), [], "nothing is left behind of what is gone");
        assert!(graph.dependents.is_empty() && graph.present.is_empty());
    }

    #[test]
    fn an_object_whose_dependents_have_to_go_is_looked_at_with_each_that_goes() {
        let mut graph = Graph::default();
        graph.put(item("set"), &meta("s", &[]));
        graph.put(item("pod"), &meta("p", &["s"]));
        let mut ends = meta("s", &[]);
        ends.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(graph.put(item("set"), &ends), [], "held by somebody else");
        ends.finalizers = Some(vec!["foregroundDeletion".to_owned()]);
        assert_eq!(graph.put(item("set"), &ends), [item("set")]);
        assert!(!graph.is_owned(&item("set")) && !graph.is_owned(&item("pod")));
        assert_eq!(graph.dependents("s"), [(item("pod"), false)]);
        assert_eq!(graph.remove(&item("pod")), [item("set")]);
        assert_eq!(graph.dependents("s"), []);
        assert_eq!(graph.remove(&item("set")), []);
        assert!(graph.marked.is_empty());
    }
}
