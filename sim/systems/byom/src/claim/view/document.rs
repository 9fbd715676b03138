//! The pool's document after each commit, and the changes of each commit.

use std::sync::Arc;
use std::time::Duration;

use ipam_byom::{Address, AddressKey, IpAllocation, PoolConfigMap, PoolDocument, RecordChange};
use kube_machinery::{FxHashMap, JsonText, TextForm};
use kube_sim::object::Obj;
use kube_sim::rt::ProcessId;
use sim_config::time::SimTime;

use super::processes::{Asked, Reads};

/// The content of the ConfigMap.
#[derive(Clone, Debug, Default)]
pub(in super::super) enum State {
    /// No ConfigMap, or none with a document.
    #[default]
    Missing,
    /// Text that is not a document.
    Unreadable,
    /// A readable document, which need not be well-formed.
    Document(PoolDocument),
}

impl State {
    /// The content of an object. An object that is not a ConfigMap is `Missing`.
    pub(super) fn of(object: Option<&Obj>) -> Self {
        match text(object).map(|document| document.parse()) {
            None => Self::Missing,
            Some(Err(_)) => Self::Unreadable,
            Some(Ok(document)) => Self::Document(document.clone()),
        }
    }

    /// The document, if it is readable.
    pub(in super::super) fn document(&self) -> Option<&PoolDocument> {
        match self {
            Self::Document(document) => Some(document),
            Self::Missing | Self::Unreadable => None,
        }
    }

    /// The document, if it is readable and has a map of records, even an empty one.
    pub(in super::super) fn whole(&self) -> Option<&PoolDocument> {
        self.document().filter(|document| !document.allocated.is_null())
    }

    /// The version, if there is one.
    pub(in super::super) fn version(&self) -> Option<i64> {
        self.document().map(|document| document.version)
    }
}

fn config_map(object: Option<&Obj>) -> Option<&PoolConfigMap> {
    object?.as_any().downcast_ref()
}

/// The text of the document. An object that is not a ConfigMap has none.
fn text(object: Option<&Obj>) -> Option<&JsonText<PoolDocument>> {
    config_map(object)?.document()
}

/// Whether a commit kept the text but changed the document that is read from it.
pub(super) fn reads_differently(before: Option<&Obj>, after: Option<&Obj>) -> bool {
    text(before).zip(text(after)).is_some_and(|(before, after)| says_otherwise(before, after))
}

/// The same for documents of any type.
fn says_otherwise<T: TextForm>(before: &JsonText<T>, after: &JsonText<T>) -> bool {
    before == after && before.parse() != after.parse()
}

/// The data of a ConfigMap beside the document, and its changes by a commit.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Beside {
    /// Whether there was data that the pool did not put there.
    pub(in super::super) has: bool,
    /// The fields that differ now.
    pub(in super::super) changed: Vec<&'static str>,
}

/// Compares everything but the document in the ConfigMap before and after a commit, without the API server's part of the metadata.
pub(super) fn beside(before: Option<&Obj>, after: Option<&Obj>) -> Beside {
    let Some((before, after)) = config_map(before).zip(config_map(after)) else { return Beside::default() };
    let (was, is) = (&before.metadata, &after.metadata);
    let others = |of: &PoolConfigMap| of.data.as_ref().is_some_and(|data| !data.others.is_empty());
    let own = |key: &String| key.starts_with("app.kubernetes.io/");
    let has = others(before)
        || before.binary_data.as_ref().is_some_and(|entries| !entries.is_empty())
        || was.annotations.as_ref().is_some_and(|annotations| !annotations.is_empty())
        || was.labels.as_ref().is_some_and(|labels| !labels.keys().all(own));
    let entries = |of: &PoolConfigMap| of.data.as_ref().map(|data| &data.others).filter(|others| !others.is_empty()).cloned();
    let differs = [
        ("labels", was.labels != is.labels),
        ("annotations", was.annotations != is.annotations),
        ("finalizers", was.finalizers != is.finalizers),
        ("ownerReferences", was.owner_references != is.owner_references),
        ("data", (others(before) || others(after)) && entries(before) != entries(after)),
        ("binaryData", before.binary_data != after.binary_data),
        ("immutable", before.immutable != after.immutable),
    ];
    Beside { has, changed: differs.into_iter().filter_map(|(field, differs)| differs.then_some(field)).collect() }
}

/// A record before and after a commit: at least one of them exists, and they differ.
#[derive(Clone, Debug)]
pub(in super::super) struct RecordEdit {
    /// The key in `allocatedIPs`: an allocation ID, whatever the record itself says.
    pub(in super::super) id: Arc<str>,
    /// The record before the commit; `None` = it is added.
    pub(in super::super) before: Option<Arc<IpAllocation>>,
    /// The record after the commit; `None` = it is removed.
    pub(in super::super) after: Option<Arc<IpAllocation>>,
}

impl RecordEdit {
    /// The record, if it is new.
    pub(in super::super) fn added(&self) -> Option<&Arc<IpAllocation>> {
        self.after.as_ref().filter(|_| self.before.is_none())
    }

    /// The record, if it is gone.
    pub(in super::super) fn removed(&self) -> Option<&Arc<IpAllocation>> {
        self.before.as_ref().filter(|_| self.after.is_none())
    }

    /// The record before, if its address is no longer recorded under the key.
    pub(in super::super) fn lost_address(&self) -> Option<&Arc<IpAllocation>> {
        let before = self.before.as_ref()?;
        (self.after.as_ref().map(|after| after.ip.key()) != Some(before.ip.key())).then_some(before)
    }
}

/// An acknowledged allocation that a rebuilt document lacks.
#[derive(Clone, Debug)]
pub(in super::super) struct Missing {
    pub(in super::super) id: Arc<str>,
    /// The excuse, if no list of owners may have shown it.
    pub(in super::super) excuse: Option<&'static str>,
}

/// One commit of the pool's ConfigMap.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// The process whose request was committed, of the pool or not.
    pub(in super::super) by: ProcessId,
    /// Whether that is a process of the pool. Other writers are operators and faults.
    pub(in super::super) by_pool: bool,
    /// The time of the commit, which precedes that of its answer.
    pub(in super::super) at: SimTime,
    /// The revision of the commit.
    pub(in super::super) revision: u64,
    /// The revision of the state before; 0 = from before the run.
    pub(in super::super) before_revision: u64,
    /// The state after the previous commit, or at the beginning of the run.
    pub(in super::super) before: State,
    /// The state after the commit.
    pub(in super::super) after: State,
    /// Whether the document was rebuilt, because there was none whose records could be kept. Then everything in it counts as added.
    pub(in super::super) anew: bool,
    /// Whether the text is the same but reads differently now.
    pub(in super::super) reads_differently: bool,
    /// The data beside the document, and its changes.
    pub(in super::super) beside: Beside,
    /// The acknowledged allocations that a document rebuilt by the pool lacks, by ID.
    pub(in super::super) missing: Vec<Missing>,
    /// The records that differ, by key.
    pub(in super::super) records: Vec<RecordEdit>,
    /// The addresses removed from the list, without those that moved.
    pub(in super::super) lost: Vec<Address>,
    /// The addresses added to the list, without those that moved.
    pub(in super::super) gained: Vec<Address>,
    /// The IDs whose records have other contents in a document rebuilt by the pool, by ID.
    pub(in super::super) altered: Vec<Arc<str>>,
    /// The writer's first request for the previous state; `None` = not observed.
    pub(in super::super) asked: Option<Asked>,
    /// The writer's last reads.
    pub(in super::super) read: Reads,
}

impl Change {
    /// The earliest time at which the owners for a rebuilt document can have been listed: after a read that found no document, within an
    /// operation's time.
    pub(super) fn asked_for_owners(&self) -> SimTime {
        const OPERATION: Duration = Duration::from_secs(30);
        let read = self.read.iter().flatten().map(|read| read.from.at).min().unwrap_or(self.at);
        read.max(SimTime::ZERO + self.at.since(SimTime::ZERO).saturating_sub(OPERATION))
    }

    /// Computes the differences. For two versions of one document the cost is that of their edits.
    pub(super) fn work_out(&mut self) {
        self.anew = self.before.whole().is_none();
        let Some(after) = self.after.document() else { return };
        let none = PoolDocument::default();
        let before = self.before.whole().unwrap_or(&none);
        let edit = |change: RecordChange<'_>| match change {
            RecordChange::Added(id, record) => RecordEdit { id: id.clone(), before: None, after: Some(record.clone()) },
            RecordChange::Changed { id, from, to } => RecordEdit { id: id.clone(), before: Some(from.clone()), after: Some(to.clone()) },
            RecordChange::Removed(id, record) => RecordEdit { id: id.clone(), before: Some(record.clone()), after: None },
        };
        self.records = before.allocated.diff(&after.allocated).map(edit).collect();
        let (lost, gained) = before.available.diff(&after.available);
        let mut moved: FxHashMap<&str, usize> = FxHashMap::default();
        if !lost.is_empty() {
            for address in &gained {
                *moved.entry(address.text()).or_default() += 1;
            }
        }
        let mut back: FxHashMap<&str, usize> = FxHashMap::default();
        let lost = lost.into_iter().filter(|address| match moved.get_mut(address.text()).filter(|left| **left > 0) {
            Some(left) => {
                *left -= 1;
                *back.entry(address.text()).or_default() += 1;
                false
            }
            None => true,
        });
        self.lost = lost.cloned().collect();
        let gained = gained.into_iter().filter(|address| match back.get_mut(address.text()).filter(|left| **left > 0) {
            Some(left) => {
                *left -= 1;
                false
            }
            None => true,
        });
        self.gained = gained.cloned().collect();
    }

    /// The document committed by a process of the pool, if there is one.
    pub(in super::super) fn written(&self) -> Option<&PoolDocument> {
        self.after.document().filter(|_| self.by_pool)
    }
}

/// The number of occurrences of an address in a document, in any spelling: in the list, and in records.
pub(in super::super) fn places(document: &PoolDocument, address: &AddressKey) -> (usize, usize) {
    (document.available.positions(address).count(), document.allocated.of_address(address).count())
}

#[cfg(test)]
mod tests {
    use kube_machinery::InvalidText;

    use super::*;

    /// A document whose decoder forgets the number, like one that does not read a field.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Forgetful(u32);

    impl TextForm for Forgetful {
        fn to_text(&self) -> String {
            self.0.to_string()
        }

        fn from_text(_: &str) -> Result<Self, InvalidText> {
            Ok(Self(0))
        }

        fn is_absent(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_decoder_that_forgets_is_found_where_the_text_stays() {
        let (written, read) = (JsonText::from(Forgetful(7)), JsonText::verbatim("7"));
        assert!(says_otherwise(&written, &read));
        assert!(!says_otherwise(&written, &written.clone()), "nobody has read it");
        assert!(!says_otherwise(&written, &JsonText::verbatim("8")), "another text says something else");
        assert!(!says_otherwise(&JsonText::from(Forgetful(0)), &JsonText::verbatim("0")), "the decoder is right about this one");
    }
}
