//! An address allocator in the manner of whereabouts as a system under test of its own program: the trait [`System`] says what there is of
//! it, and one call gives it every verb of the command line.

mod allocator;
mod claims;
mod note;
mod objects;
mod workload;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::ExitCode;

use sim_harness::prelude::*;

use crate::note::Said;
use crate::objects::{IPPool, address};
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

    fn kinds(&self) -> WorkloadKinds {
        WorkloadKinds::of::<Drafts, Plans, Operation>()
    }

    fn types(&self) -> Vec<TypeDef> {
        vec![TypeDef::custom::<IPPool>()]
    }

    fn claims(&self) -> Vec<ClaimSuite> {
        vec![ClaimSuite { name: "whereabouts", claims: claims::CLAIMS }]
    }

    fn mutations(&self) -> Vec<Deviation> {
        let reads = "allocators choose an address from what they read before they held the lease";
        let trusts = "the reconciler lists pods from a cache, and before it waits for the lease";
        vec![Deviation::planted(READS_OUTSIDE_LEASE, reads), Deviation::planted(RECONCILER_TRUSTS_CACHE, trusts)]
    }

    fn metrics(&self, _: &Plan, _: &Registry, _: RunOptions) -> Vec<Box<dyn Metric>> {
        vec![Box::new(NoteCounts::<Said>::new(&[
            ("addresses-given", |said| matches!(said, Said::Given { .. })),
            ("addresses-reconciled", |said| matches!(said, Said::Reconciled { .. })),
        ]))]
    }

    fn records(&self, object: &Obj) -> Option<BTreeMap<IpAddr, String>> {
        let pool: &IPPool = object.as_any().downcast_ref()?;
        Some(pool.spec.allocations.iter().map(|(offset, pod)| (address(*offset), pod.clone())).collect())
    }
}

fn main() -> ExitCode {
    ipam_sim::cli::main_with(&[&Whereabouts], env!("CARGO_PKG_VERSION"))
}
