//! Pods of a cluster as a trace: the times of their creation, binding and deletion, and how these are known.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// The pods that a cluster had, with notes on what is not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lives {
    /// The pods, ordered by creation.
    pub pods: Vec<Life>,
    /// Notes on what the input says and what it does not, a sentence each.
    pub notes: Vec<String>,
}

/// The evidence for the creation of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Since {
    /// The request that created it.
    Create,
    /// The creation time in its object.
    Object,
    /// Its binding to a node, which follows its creation at once unless no node has room.
    Binding,
    /// It existed when the log began, or was first seen then.
    Seen,
}

impl Since {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Since::Create => "create",
            Since::Object => "object",
            Since::Binding => "binding",
            Since::Seen => "first-sight",
        }
    }
}

/// The evidence for the end of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Until {
    /// The request that deleted it.
    Delete,
    /// Its object: it is being deleted, or has ended.
    Object,
    /// It was last seen then, and another pod of its name came later, or it is missing in a later snapshot.
    Seen,
}

impl Until {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Until::Delete => "delete",
            Until::Object => "object",
            Until::Seen => "last-sight",
        }
    }
}

/// One pod, from its creation to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Life {
    /// The namespace in which it lived.
    pub namespace: String,
    /// The name of the pod.
    pub pod: String,
    /// The time of its creation, and the evidence for it.
    pub created: (Timestamp, Since),
    /// The time of its binding to a node; unset = no binding is known.
    pub scheduled: Option<Timestamp>,
    /// The time at which its deletion was requested, or at which it ended, and the evidence for it; unset = it lived on.
    pub deleted: Option<(Timestamp, Until)>,
}

/// The header of a trace made from a cluster.
const HEAD: [&str; 8] = ["name", "creation_time", "deletion_time", "scheduled_time", "namespace", "pod", "created_by", "deleted_by"];

impl Lives {
    /// Sorts the pods, and ends lives so that no two pods of one name live at the same time.
    pub(super) fn settle(&mut self) {
        let mut by_name: BTreeMap<(String, String), Vec<Life>> = BTreeMap::new();
        for life in self.pods.drain(..) {
            by_name.entry((life.namespace.clone(), life.pod.clone())).or_default().push(life);
        }
        for mut lives in by_name.into_values() {
            lives.sort_by_key(|life| life.created.0);
            for number in 0..lives.len() {
                let next = lives.get(number + 1).map(|next| next.created.0);
                let life = &mut lives[number];
                let end = life.deleted.map_or(Timestamp::MAX, |(end, _)| end);
                if let Some(next) = next.filter(|next| *next < end) {
                    life.deleted = Some((next, Until::Seen));
                }
                if let Some((end, _)) = &mut life.deleted {
                    *end = (*end).max(life.created.0);
                }
                let end = life.deleted.map_or(Timestamp::MAX, |(end, _)| end);
                life.scheduled = life.scheduled.map(|at| at.clamp(life.created.0, end));
            }
            self.pods.append(&mut lives);
        }
        self.pods.sort_by(|one, other| {
            one.created.0.cmp(&other.created.0).then_with(|| (&one.namespace, &one.pod).cmp(&(&other.namespace, &other.pod)))
        });
    }

    /// The trace as CSV that `workload.trace` of a scenario accepts, with two columns for the evidence of its times.
    pub fn to_csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        // Writing to memory does not fail.
        let _ = writer.write_record(HEAD);
        for life in &self.pods {
            let time = |at: Option<Timestamp>| at.map_or_else(String::new, |at| format!("{at:.6}"));
            let _ = writer.write_record([
                format!("{}.{}", life.namespace, life.pod),
                time(Some(life.created.0)),
                time(life.deleted.map(|(at, _)| at)),
                time(life.scheduled),
                life.namespace.clone(),
                life.pod.clone(),
                life.created.1.name().to_owned(),
                life.deleted.map_or_else(String::new, |(_, by)| by.name().to_owned()),
            ]);
        }
        let bytes = writer.into_inner().unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
