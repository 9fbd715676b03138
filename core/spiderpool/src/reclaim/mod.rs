//! Reclaim: takes back addresses whose pods are gone although no DEL did it (G).
//!
//! ```text
//!   pods (informer, leader) ──► event ──► database ──deadline──► channel ──► executors ─┐
//!   interval, signals ────────► scan of all records ──────────────────────────────────► release
//! ```
//! [`Reclaim`] runs in each replica of Spiderpool's controller. Decisions are functions of what is seen
//! ([`judge_event`], [`judge_record`]); each names the [`Row`] of the table that decided. What they need from the API server they ask
//! for ([`Question`]).
//!
//! The hardened form confirms what its caches say before it writes: record, then pod, then owner. It marks an endpoint first, in the
//! very version that was judged, then removes the records, then the finalizer; whoever finds a marked endpoint goes on from there. A
//! replica that dies or pauses at any point leaves nothing that the next scan of any replica does not finish.
//!
//! The provider of addresses outside the cluster (IaaS, G X6 and C6) is off by default upstream and has no place here.

mod api;
mod caches;
mod database;
mod entry;
mod error;
mod event;
mod explain;
mod node;
mod observer;
mod outdated;
mod pod_events;
mod pod_state;
mod pod_state_upstream;
mod process;
mod question;
mod record;
mod release;
mod row;
mod run;
mod scan;
mod settings;
mod settle;
mod trace;
mod upstream;
mod view;

pub use caches::{Caches, InformerCaches};
pub use entry::{PodEntry, Term, Tracing};
pub use error::ReclaimError;
pub use event::{Circumstances, Event, Meaning, judge_event};
pub use explain::{Action, Explanation, explain};
pub use node::NodeState;
pub use observer::{Dropped, Observer, Releaser, ScanCause, ScanCounts, Sight, Step, Target};
pub use process::{Reclaim, ReclaimConfig};
pub use question::{Answer, Owners, Question};
pub use record::{Judgement, Verdict, judge_record};
pub use row::Row;
pub use settings::ReclaimSettings;
pub use view::{RecordView, Seen};

pub use crate::policy::ReclaimPolicy;

#[cfg(test)]
mod tests;
