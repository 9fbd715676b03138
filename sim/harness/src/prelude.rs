//! The items for writing a system under test: `use sim_harness::prelude::*;`.
//!
//! The interface itself, and the types that its methods take and return. The production code of a system needs nothing of it: that is
//! written against `kube_machinery`.

pub use kube_sim::cluster::{Cluster, SimClient};
pub use kube_sim::env::SimEnv;
pub use kube_sim::kinds::{Registry, Stored, TypeDef};
pub use kube_sim::object::Obj;
pub use kube_sim::rt::{ProcessId, Rt};
pub use kube_sim::trace::entity::{About, Entity, Touch};
pub use kube_sim::trace::{Counted, Event, EventKind, Interest, Note, Step};
pub use sim_config::draw::Draw;
pub use sim_config::manifest::Manifest;
pub use sim_config::time::{SimTime, Span};
pub use sim_config::{Choice, Problems, Source, With, kinds};

pub use crate::check::Excuse;
pub use crate::claim::{Claim, ClaimDef, ClaimSuite, Context, Findings, awaiting, observing};
pub use crate::deviation::{Deviation, How};
pub use crate::explainer::{Explainer, Explanation};
pub use crate::note_counts::NoteCounts;
pub use crate::operation::{Op, OpKind, Turn};
pub use crate::plan::{CLIENTS_MAX, OPS_MAX, Plan};
pub use crate::system::{Figures, Metric, RunEnd, RunOptions, System};
pub use crate::text::Paint;
pub use crate::webhook::{Broken, Judge, Judged, Webhooks};
pub use crate::workload::{
    Draft, FaultTargets, InvalidValue, Life, RunContext, Smaller, Turns, Work, WorkloadKinds, at_most, from_one_to, plain_pod, without_idle,
};
pub use crate::workloads;
