//! An address allocator in the manner of whereabouts as a system under test of its own program: the trait [`System`] says what there is of
//! it, and one call gives it every verb of the command line.

mod allocator;
mod claims;
mod metric;
mod note;
mod objects;
mod workload;

use std::process::ExitCode;

use kube_sim::kinds::{Registry, TypeDef};
use kube_sim::object::Obj;
use kube_sim::trace::entity::Touch;
use sim_config::kinds::OpenKinds;
use sim_harness::claim::ClaimSuite;
use sim_harness::deviation::{Deviation, How};
use sim_harness::operation::OpKind;
use sim_harness::plan::Plan;
use sim_harness::system::RunOptions;
use sim_harness::system::{Metric, System};
use sim_harness::workload::{WorkloadDraft, WorkloadPlan};

use crate::objects::IPPool;
use crate::workload::{Drafts, Operation, Plans};

/// An allocator decides on what it read before it held the lease.
pub const READS_OUTSIDE_LEASE: &str = "reads-outside-lease";
/// The reconciler takes a pod for gone that is missing in an old list.
pub const RECONCILER_TRUSTS_CACHE: &str = "reconciler-trusts-cache";

struct Whereabouts;

impl System for Whereabouts {
    fn name(&self) -> &'static str {
        "whereabouts"
    }

    fn about(&self) -> &'static str {
        "an allocator on every node that takes a lease to write addresses into an IPPool, and a reconciler that frees those of lost pods"
    }

    fn drafts(&self) -> OpenKinds<WorkloadDraft> {
        OpenKinds::of::<Drafts>()
    }

    fn plans(&self) -> OpenKinds<WorkloadPlan> {
        OpenKinds::of::<Plans>()
    }

    fn operations(&self) -> OpenKinds<OpKind> {
        OpenKinds::of::<Operation>()
    }

    fn types(&self) -> Vec<TypeDef> {
        vec![TypeDef::of::<IPPool>()]
    }

    fn claims(&self) -> Vec<ClaimSuite> {
        vec![ClaimSuite { name: "whereabouts", claims: claims::CLAIMS }]
    }

    fn mutations(&self) -> Vec<Deviation> {
        let found_by_claim = |name, about| Deviation { name, about, upstream: false, how: How::Claim };
        vec![
            found_by_claim(READS_OUTSIDE_LEASE, "allocators choose an address from what they read before they held the lease"),
            found_by_claim(RECONCILER_TRUSTS_CACHE, "the reconciler lists pods from a cache, and before it waits for the lease"),
        ]
    }

    fn metrics(&self, plan: &Plan, _: &Registry, _: RunOptions) -> Vec<Box<dyn Metric>> {
        if plan.workload.get::<Plans>().is_some() { vec![Box::new(metric::Addresses::default())] } else { Vec::new() }
    }

    fn is_shared(&self, object: &Obj) -> bool {
        object.as_any().is::<IPPool>()
    }

    fn touches(&self, before: Option<&Obj>, after: Option<&Obj>) -> Option<Vec<Touch>> {
        objects::touches(before, after)
    }

    fn fields(&self, object: &Obj) -> Option<Vec<(String, String)>> {
        objects::fields(object)
    }
}

fn main() -> ExitCode {
    ipam_sim::cli::main_with(&[&Whereabouts], env!("CARGO_PKG_VERSION"))
}
