//! Who owns whom, as far as informers have told.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_machinery::{FxHashMap, ObjectKey};

/// An object of one of the collector's types.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Item {
    /// The number of the type in the collector's list.
    pub(super) number: usize,
    pub(super) key: ObjectKey,
}

#[derive(Debug)]
struct Node {
    uid: Arc<str>,
    owners: Vec<Arc<str>>,
}

/// The objects by UID, and the dependents of each UID, known or not. Only the dependents of one UID are ever walked through, in order.
#[derive(Debug, Default)]
pub(super) struct Graph {
    objects: FxHashMap<Item, Node>,
    present: FxHashMap<Arc<str>, ObjectKey>,
    dependents: FxHashMap<Arc<str>, BTreeSet<Item>>,
}

impl Graph {
    /// Takes in an object's latest state. Returns whom to look at: the object, if not all its owners are known, and the
    /// dependents of a predecessor of the same name (K148).
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
        let owners: Vec<Arc<str>> = meta.owner_references.iter().flatten().map(|owner| owner.uid.as_str().into()).collect();
        for owner in &owners {
            self.dependents.entry(owner.clone()).or_default().insert(item.clone());
        }
        self.present.insert(uid.clone(), item.key.clone());
        if !self.are_known(&owners, &item) {
            doubtful.push(item.clone());
        }
        self.objects.insert(item, Node { uid, owners });
        doubtful
    }

    /// An object is gone. Returns whom to look at: its dependents.
    pub(super) fn remove(&mut self, item: &Item) -> Vec<Item> {
        self.unlink(item);
        let Some(node) = self.objects.remove(item) else { return Vec::new() };
        self.present.remove(&node.uid);
        self.dependents.get(&node.uid).into_iter().flatten().cloned().collect()
    }

    fn unlink(&mut self, item: &Item) {
        for owner in self.objects.get(item).into_iter().flat_map(|node| &node.owners) {
            if let Some(dependents) = self.dependents.get_mut(owner) {
                dependents.remove(item);
                if dependents.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
    }

    /// Whether there is nothing to look at: the object is gone, or all its owners are known.
    pub(super) fn is_owned(&self, item: &Item) -> bool {
        self.objects.get(item).is_none_or(|node| self.are_known(&node.owners, item))
    }

    fn are_known(&self, owners: &[Arc<str>], item: &Item) -> bool {
        // An owner in another namespace owns nothing.
        let reaches = |owner: &ObjectKey| owner.namespace().is_none_or(|namespace| item.key.namespace() == Some(namespace));
        owners.iter().all(|owner| self.present.get(owner).is_some_and(reaches))
    }

    /// Whether an object with this UID is known.
    pub(super) fn knows(&self, uid: &str) -> bool {
        self.present.contains_key(uid)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use kube_machinery::ObjectKey;

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
}
