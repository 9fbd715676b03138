//! Pods of a cluster as a trace: when each was created, bound and deleted, and how far that is known.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// The pods that a cluster had, and what of them is not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lives {
    /// The pods, by their creation.
    pub pods: Vec<Life>,
    /// What the input says and what it cannot say, a sentence each.
    pub notes: Vec<String>,
}

/// From when on a pod is known, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Since {
    /// The request that created it.
    Create,
    /// What its object says.
    Object,
    /// Its binding to a node, which follows its creation at once unless no node has room.
    Binding,
    /// It was there when the log began, or was first seen then.
    Seen,
}

impl Since {
    /// As a table has it.
    pub fn name(self) -> &'static str {
        match self {
            Since::Create => "create",
            Since::Object => "object",
            Since::Binding => "binding",
            Since::Seen => "first-sight",
        }
    }
}

/// By what the end of a pod is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Until {
    /// The request that deleted it.
    Delete,
    /// What its object says: it is being deleted, or has ended.
    Object,
    /// It was seen then for the last time, and another one of its name came later, or it is missing in a later snapshot.
    Seen,
}

impl Until {
    /// As a table has it.
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
    /// What it was called there.
    pub pod: String,
    /// When it was created, and by what that is known.
    pub created: (Timestamp, Since),
    /// When it was bound to a node; unset = it is not known that it was.
    pub scheduled: Option<Timestamp>,
    /// When its deletion was asked for, or when it ended, and by what that is known; unset = it lived on.
    pub deleted: Option<(Timestamp, Until)>,
}

/// The head of a trace that was made of a cluster.
const HEAD: [&str; 8] = ["name", "creation_time", "deletion_time", "scheduled_time", "namespace", "pod", "created_by", "deleted_by"];

impl Lives {
    /// Puts the pods in order, so that no two of a name live at the same time.
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

    /// The trace: CSV that `workload.trace` of a scenario takes, with two columns that say by what its times are known.
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
