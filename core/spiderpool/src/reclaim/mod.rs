//! Reclaim: frees addresses whose pods are gone although no DEL released them (G).
//!
//! ```text
//!   pods (informer, leader) ──► event ──► database ──deadline──► channel ──► executors ─┐
//!   interval, signals ────────► scan of all records ──────────────────────────────────► release
//! ```
//! [`Reclaim`] runs in each replica of Spiderpool's controller. Decisions are functions of what is seen ([`judge_event`],
//! [`judge_record`]); each names the deciding [`Row`] of the table. State that only the API server has is requested by a [`Question`].
//!
//! The hardened form confirms the content of its caches before it writes: record, then pod, then owner. It marks an endpoint first, at the
//! very version that was judged, then removes the records, then the finalizer; any replica that finds a marked endpoint continues from
//! there. A replica that crashes or pauses at any point leaves nothing that the next scan of any replica does not finish.
//!
//! The provider of addresses outside the cluster (IaaS, G X6 and C6) is off by default upstream and not modelled here.

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
