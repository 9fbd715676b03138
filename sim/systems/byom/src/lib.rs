//! The BYOM pool: adaptors share the VMs of one pool that is kept in a ConfigMap.
//!
//! The parts that make it a simulated system, around the production code of `ipam-byom`:
//!
//! * [`workload`]: adaptors with their callers, VMs, operators; their values in scenarios, and their notes
//! * [`claim`]: the invariants, judged from writes and notes alone
//! * [`metrics`]: figures of a run for reports
//! * [`mutations`]: named ways to make `ipam-byom` misbehave
//!
//! [`Byom`] provides all of it to the harness, which draws the plans, runs them and judges.
//!
//! # Examples
//!
//! Sixteen adaptors that allocate at once, with upstream's policy and the hardened one:
//!
//! ```
//! use std::path::Path;
//!
//! use ipam_reports::{ScenarioResult, SeedRange, Verdict};
//! use sim_byom::Byom;
//! use sim_config::{Problems, Source};
//! use sim_harness::engine::load::Ready;
//! use sim_harness::engine::progress::Unobserved;
//! use sim_harness::engine::sweep::sweep;
//! use sim_harness::scenario::Scenario;
//!
//! const SCENARIO: &str = r#"
//!     name = "sixteen"
//!     why = "Do four attempts suffice when sixteen adaptors write one document?"
//!     workload = { kind = "byom-burst", instances = 16, spread = "0s" }
//!     check.always = ["conflicts-are-retried"]
//! "#;
//!
//! sim_harness::system::install(&[&Byom], "example");
//! let swept = |text: &str| -> Result<ScenarioResult, Problems> {
//!     let scenario = Scenario::parse(Path::new("sixteen.toml"), Source::new("sixteen.toml", text))?;
//!     Ok(sweep(&Ready::new("sixteen.toml", scenario)?, SeedRange::new(0, 5), 1, None, &Unobserved, None))
//! };
//! let hardened = swept(SCENARIO)?;
//! assert_eq!(hardened.verdict(), Verdict::Held);
//! assert_eq!(hardened.allocations.succeeded, 5 * 16);
//!
//! let upstream = swept(&format!("profile = 'upstream'\n{SCENARIO}"))?;
//! assert_eq!(upstream.verdict(), Verdict::Violated);
//! assert!(upstream.allocations.failed > 0, "{:?}", upstream.allocations);
//! # Ok::<(), Problems>(())
//! ```

pub mod claim;
mod config_map;
mod coverage;
pub mod metrics;
pub mod mutations;
mod objects;
mod types;
pub mod workload;

use ipam_byom::{Policy, PoolConfigMap};
use kube_sim::kinds::{Registry, TypeDef};
use kube_sim::object::Obj;
use kube_sim::trace::coverage::CoveragePoint;
use kube_sim::trace::entity::Touch;
use sim_config::kinds;
use sim_harness::check::Excuse;
use sim_harness::claim::ClaimSuite;
use sim_harness::deviation::{Deviation, rows_of};
use sim_harness::plan::Plan;
use sim_harness::system::RunOptions;
use sim_harness::system::{Metric, System};
use sim_harness::workload::WorkloadKinds;
use sim_harness::workloads;

use crate::metrics::PoolMetrics;
use crate::workload::burst::{Allocate, BurstDraft, BurstPlan};
use crate::workload::pods::{BreakVm, DeletePod, EditState, NameNodes, PodsDraft, PodsPlan, RollOut, RunPod, SetPool};
use crate::workload::pool_key;

/// Adaptors that share the VMs of one pool.
pub struct Byom;

kinds! {
    /// The operations of the operator, the users and the instances of a BYOM pool.
    pub enum Operation {
        /// Creates a pod; if there is one of that name, once that is gone.
        "run-pod" => RunPod(RunPod),
        /// Deletes a pod.
        "delete-pod" => DeletePod(DeletePod),
        /// Changes the configured VMs of the BYOM pool; processes read it when they start.
        "set-pool" => SetPool(SetPool),
        /// Changes whether adaptors know the name of their node, which they read when they start.
        "name-nodes" => NameNodes(NameNodes),
        /// Replaces every adaptor, node by node, and restarts the PeerPod controllers.
        "roll-out" => RollOut(RollOut),
        /// Breaks a VM for a while.
        "break-vm" => BreakVm(BreakVm),
        /// Deletes the ConfigMap of the BYOM pool.
        "delete-state" => DeleteState,
        /// Edits the ConfigMap of the BYOM pool by hand.
        "edit-state" => EditState(EditState),
        /// Asks the BYOM pool for an address.
        "allocate" => Allocate(Allocate),
    }
}

workloads! {
    /// Pods run in the VMs of a BYOM pool.
    "byom" => Pods(PodsDraft, PodsPlan),
    /// Adaptors allocate from one BYOM pool, and nothing else happens.
    "byom-burst" => Burst(BurstDraft, BurstPlan),
}

impl System for Byom {
    fn name(&self) -> &'static str {
        "byom"
    }

    fn about(&self) -> &'static str {
        "cloud-api-adaptor's instances share the VMs of one pool that is kept in a ConfigMap"
    }

    fn kinds(&self) -> WorkloadKinds {
        WorkloadKinds::of::<Drafts, Plans, Operation>()
    }

    fn types(&self) -> Vec<TypeDef> {
        types::all()
    }

    fn claims(&self) -> Vec<ClaimSuite> {
        vec![ClaimSuite { name: "byom", claims: claim::catalogue::CLAIMS }]
    }

    fn renamed_claims(&self) -> &'static [(&'static str, &'static str)] {
        claim::catalogue::RENAMED
    }

    fn hurting_claims(&self) -> &'static [&'static str] {
        &[
            "no-address-has-two-holders",
            "pool-document-is-a-partition",
            "pool-addresses-are-conserved",
            "acknowledged-records-persist",
            "releases-touch-nobody-else",
            "no-record-is-left-behind",
            "recovery-keeps-records",
            "vms-are-clean-when-given",
            "desired-pods-run",
            "free-vms-are-found",
        ]
    }

    fn excuses(&self) -> &'static [Excuse] {
        &[
            Excuse {
                name: claim::BY_HAND,
                about: "a client outside the pool has removed or changed the record of an allocation in the ConfigMap",
                begins: "with that write, for the allocations whose records it touched; the pool stays responsible for the others",
                ends: "with the sandbox of the allocation: its ID never comes again",
                reference: Some("B W17, B W18"),
            },
            Excuse {
                name: claim::UNLISTED,
                about: "a lost document is rebuilt from a list of PeerPods that comes from a watch cache which has lost a change of one",
                begins: "with the document, for the allocation that the PeerPod names; a process that acknowledged it knows it by itself",
                ends: "with the sandbox of the allocation, or when it is recorded again",
                reference: Some("K182"),
            },
        ]
    }

    fn coverage(&self) -> Vec<CoveragePoint> {
        coverage::points()
    }

    fn mutations(&self) -> Vec<Deviation> {
        rows_of(Policy::DEVIATIONS.iter().map(|switch| (switch.name, switch.upstream)), mutations::ABOUT, mutations::FOUND_OTHERWISE)
    }

    fn metrics(&self, plan: &Plan, registry: &Registry, _: RunOptions) -> Vec<Box<dyn Metric>> {
        let keys = match plan.workload.get() {
            Some(Plans::Burst(burst)) => burst.pool_keys(),
            Some(Plans::Pods(pods)) => vec![pods.place.documented()],
            _ => vec![pool_key()],
        };
        vec![Box::new(PoolMetrics::new(keys, registry.id::<PoolConfigMap>()))]
    }

    fn is_shared(&self, object: &Obj) -> bool {
        object.as_any().downcast_ref::<PoolConfigMap>().is_some_and(|object| object.document().is_some())
    }

    fn touches(&self, before: Option<&Obj>, after: Option<&Obj>) -> Option<Vec<Touch>> {
        objects::touches(before, after)
    }

    fn fields(&self, object: &Obj) -> Option<Vec<(String, String)>> {
        objects::fields(object)
    }
}

/// Registers the system before any test runs.
#[cfg(test)]
#[ctor::ctor(unsafe)]
fn install() {
    sim_harness::system::install(&[&Byom], "test");
    kube_sim::testbed::serve(|| Byom.types());
}
