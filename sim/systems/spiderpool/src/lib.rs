//! Spiderpool: the allocator of its agents, its controller's garbage collector, subnets and admission.
//!
//! Its parts of a simulation, around the production code of `ipam-spiderpool`:
//!
//! * [`workload`]: pools, applications, agents and controllers; the options of a scenario, and the notes of a run
//! * [`claim`]: the properties that must hold, judged from writes and notes alone; [`oracle`]: the rules of selection once more, written
//!   from the reference
//! * [`metrics`]: figures of a run for reports
//! * [`mutations`]: named ways to make `ipam-spiderpool` misbehave
//! * [`input`]: manifests, settings and CNI configurations of a user; [`explain`]: what Spiderpool would do with them
//!
//! [`Spiderpool`] is the system that the harness uses to draw plans, run them and judge.
//!
//! # Examples
//!
//! One run with a StatefulSet, and the pods that hold addresses of the pool at its end:
//!
//! ```
//! use std::path::Path;
//!
//! use ipam_spiderpool::SpiderIPPool;
//! use sim_config::{Problems, Source};
//! use sim_harness::engine::load::Ready;
//! use sim_harness::scenario::Scenario;
//! use sim_harness::system::RunOptions;
//! use sim_harness::world;
//! use sim_spiderpool::Spiderpool;
//!
//! const SCENARIO: &str = r#"
//!     name = "stateful"
//!     why = "Does each pod of a StatefulSet have an address of its own?"
//!     workload = { kind = "spiderpool", apps = 1, kinds = "stateful-set", replicas = 3, deleted = 0, families = "ipv4", pools = 1 }
//!     check.always = ["spiderpool/*"]
//! "#;
//!
//! sim_harness::system::install(&[&Spiderpool], "example");
//! let scenario = Scenario::parse(Path::new("stateful.toml"), Source::new("stateful.toml", SCENARIO))?;
//! let ready = Ready::new("stateful.toml", scenario)?;
//! let run = world::run(&ready.scenario.draw(7), &ready.stage, RunOptions { dump: true, ..RunOptions::default() });
//! assert!(run.violations.is_empty(), "{:?}", run.violations);
//!
//! let mut pools = run.objects.iter().filter_map(|(_, object)| object.as_any().downcast_ref::<SpiderIPPool>());
//! let status = pools.next().and_then(|pool| pool.status.as_ref()).expect("the only pool has a status");
//! let records = status.allocated_ips.parse().expect("nobody garbled the records");
//! let holders: Vec<&str> = records.iter().map(|(_, record)| &*record.pod).collect();
//! assert_eq!(holders, ["default/app-0-0", "default/app-0-1", "default/app-0-2"]);
//! # Ok::<(), Problems>(())
//! ```

pub mod claim;
mod coverage;
pub mod explain;
pub mod input;
mod ip_interval_index;
pub mod metrics;
pub mod mutations;
mod objects;
pub mod oracle;
mod types;
pub mod workload;

use ipam_spiderpool::Policy;
use ipam_spiderpool::reclaim::ReclaimPolicy;
use kube_sim::kinds::{Registry, TypeDef};
use kube_sim::object::Obj;
use kube_sim::trace::coverage::CoveragePoint;
use kube_sim::trace::entity::Touch;
use sim_config::manifest::Manifest;
use sim_config::{Problems, Source, kinds};
use sim_harness::check::Excuse;
use sim_harness::claim::ClaimSuite;
use sim_harness::deviation::{Deviation, rows_of};
use sim_harness::explainer::Explainer;
use sim_harness::plan::Plan;
use sim_harness::system::RunOptions;
use sim_harness::system::{Metric, System};
use sim_harness::webhook::Webhooks;
use sim_harness::workload::{WorkloadDraft, WorkloadKinds};
use sim_harness::workloads;

use crate::input::{restless, stored};
use crate::metrics::{AddressMetrics, AgentMetrics, ReclaimMetrics};
use crate::workload::{
    AnnotateNamespace, ApplyApp, ApplyManifest, CreateNamespace, CreatePool, CreateSubnet, DeleteApp, DeleteNamespace, DeletePodOf,
    DeletePool, DeleteSubnet, DrainNode, EditPool, EditRecord, EditStatefulSet, EditSubnet, GarbleRecords, LabelNamespace, LabelNode,
    MigrateVm, Reserve, RollOutApp, ScaleApp, SetSettings, SpiderDraft, SpiderPlan, UncordonNode, Unreserve,
};

/// The system under test: Spiderpool in a cluster.
pub struct Spiderpool;

kinds! {
    /// An operation of the operator or a user of a cluster with Spiderpool.
    pub enum Operation {
        /// Creates an application; waits for one of the same name to be gone.
        "apply-app" => ApplyApp(ApplyApp),
        /// Changes the number of pods of an application.
        "scale-app" => ScaleApp(ScaleApp),
        /// Replaces all pods of an application.
        "roll-out-app" => RollOutApp(RollOutApp),
        /// Edits a StatefulSet: its first ordinal, and the way its pods are replaced.
        "edit-stateful-set" => EditStatefulSet(EditStatefulSet),
        /// Deletes an application.
        "delete-app" => DeleteApp(DeleteApp),
        /// Deletes a pod of an application.
        "delete-pod-of" => DeletePodOf(DeletePodOf),
        /// Moves a VM to another node while it runs.
        "migrate-vm" => MigrateVm(MigrateVm),
        /// Creates an IPPool; waits for one of the same name to be gone.
        "create-pool" => CreatePool(CreatePool),
        /// Deletes an IPPool.
        "delete-pool" => DeletePool(DeletePool),
        /// Edits an IPPool.
        "edit-pool" => EditPool(EditPool),
        /// Creates a SpiderSubnet; waits for one of the same name to be gone.
        "create-subnet" => CreateSubnet(CreateSubnet),
        /// Deletes a SpiderSubnet, and its pools with it.
        "delete-subnet" => DeleteSubnet(DeleteSubnet),
        /// Edits a SpiderSubnet.
        "edit-subnet" => EditSubnet(EditSubnet),
        /// Changes by hand the holder of an address in an IPPool, or removes its record.
        "edit-record" => EditRecord(EditRecord),
        /// Makes the records of a pool unreadable, or readable again.
        "garble-records" => GarbleRecords(GarbleRecords),
        /// Reserves addresses.
        "reserve" => Reserve(Reserve),
        /// Removes the reservation of addresses.
        "unreserve" => Unreserve(Unreserve),
        /// Applies a manifest of a pool, a subnet or a reservation, which may be wrong.
        "apply-manifest" => ApplyManifest(ApplyManifest),
        /// Creates a namespace.
        "create-namespace" => CreateNamespace(CreateNamespace),
        /// Changes the annotations of a namespace.
        "annotate-namespace" => AnnotateNamespace(AnnotateNamespace),
        /// Changes the labels of a node.
        "label-node" => LabelNode(LabelNode),
        /// Drains a node: cordons it, and evicts its pods except those of DaemonSets.
        "drain-node" => DrainNode(DrainNode),
        /// Lets a node take new pods again.
        "uncordon-node" => UncordonNode(UncordonNode),
        /// Changes the labels of a namespace.
        "label-namespace" => LabelNamespace(LabelNamespace),
        /// Changes settings of Spiderpool, and restarts its agents.
        "set-settings" => SetSettings(SetSettings),
        /// Deletes a namespace with everything in it.
        "delete-namespace" => DeleteNamespace(DeleteNamespace),
    }
}

workloads! {
    /// A cluster whose pods get their addresses from Spiderpool.
    "spiderpool" => Spiderpool(SpiderDraft, SpiderPlan),
}

impl Plans {
    /// The plan of the cluster, which is the only workload of this system.
    pub fn cluster(&self) -> &SpiderPlan {
        let Plans::Spiderpool(plan) = self;
        plan
    }
}

impl Drafts {
    /// The cluster part of a scenario, before anything is drawn.
    pub fn cluster(&self) -> &SpiderDraft {
        let Drafts::Spiderpool(draft) = self;
        draft
    }

    /// The mutable cluster part of a scenario.
    pub fn cluster_mut(&mut self) -> &mut SpiderDraft {
        let Drafts::Spiderpool(draft) = self;
        draft
    }
}

impl System for Spiderpool {
    fn name(&self) -> &'static str {
        "spiderpool"
    }

    fn about(&self) -> &'static str {
        "Spiderpool's agents give pods addresses of IPPools, and its controller takes leaked ones back"
    }

    fn kinds(&self) -> WorkloadKinds {
        WorkloadKinds::of::<Drafts, Plans, Operation>()
    }

    fn types(&self) -> Vec<TypeDef> {
        types::all()
    }

    fn claims(&self) -> Vec<ClaimSuite> {
        claim::catalogue::suites()
    }

    fn renamed_claims(&self) -> &'static [(&'static str, &'static str)] {
        claim::catalogue::RENAMED
    }

    fn hurting_claims(&self) -> &'static [&'static str] {
        &[
            "no-address-has-two-live-sandboxes",
            "no-address-is-recorded-twice",
            "nics-have-distinct-addresses",
            "answered-addresses-are-recorded",
            "reserved-addresses-are-not-given",
            "gateways-are-not-given",
            "records-leave-only-for-their-own-uid",
            "static-pods-keep-their-addresses",
            "deletes-touch-nobody-else",
            "live-sandboxes-keep-their-records",
            "live-pods-are-not-reclaimed",
            "places-keep-their-records",
            "repeated-reclaim-changes-nothing",
            "leaks-are-found-by-scans",
            "records-without-endpoints-are-reclaimed-by-scans",
            "abandoned-places-are-reclaimed-by-scans",
            "records-of-gone-pods-disappear",
            "all-addresses-are-accounted-for",
            "no-address-is-set-aside-twice",
            "subnet-addresses-are-accounted-for",
            "pools-in-use-are-not-deleted",
            "pods-get-addresses",
        ]
    }

    fn excuses(&self) -> &'static [Excuse] {
        &claim::EXCUSES
    }

    fn coverage(&self) -> Vec<CoveragePoint> {
        coverage::points()
    }

    fn mutations(&self) -> Vec<Deviation> {
        let allocation = Policy::DEVIATIONS.iter().map(|switch| (switch.name, switch.upstream));
        let reclaim = ReclaimPolicy::DEVIATIONS.iter().map(|switch| (switch.name, switch.upstream));
        let mut rows = rows_of(allocation, mutations::allocation::ABOUT, mutations::allocation::FOUND_OTHERWISE);
        rows.extend(rows_of(reclaim, mutations::reclaim::ABOUT, mutations::reclaim::FOUND_OTHERWISE));
        rows
    }

    fn metrics(&self, plan: &Plan, registry: &Registry, options: RunOptions) -> Vec<Box<dyn Metric>> {
        let mut metrics: Vec<Box<dyn Metric>> = Vec::new();
        let Some(workload) = plan.workload.get::<Plans>() else { return metrics };
        let cluster = workload.cluster();
        if let Some(settings) = cluster.reclaims() {
            metrics.push(Box::new(ReclaimMetrics::new(settings, registry)));
        }
        if options.planner {
            metrics.push(Box::new(AgentMetrics::new(registry)));
            metrics.push(Box::new(AddressMetrics::new(registry, cluster.addresses(), plan.end_at)));
        }
        metrics
    }

    fn check_manifest(&self, manifest: &Manifest) -> Result<Problems, Problems> {
        stored::check(manifest)
    }

    fn check_workload(&self, workload: &WorkloadDraft, source: Source<'_>) -> Problems {
        workload.get().map_or_else(Problems::new, |drafts| restless(drafts, source))
    }

    fn webhooks(&self) -> Option<&dyn Webhooks> {
        Some(self)
    }

    fn explainer(&self) -> Option<&dyn Explainer> {
        Some(self)
    }

    fn touches(&self, before: Option<&Obj>, after: Option<&Obj>) -> Option<Vec<Touch>> {
        objects::touches(before, after)
    }

    fn fields(&self, object: &Obj) -> Option<Vec<(String, String)>> {
        let mut fields = Vec::new();
        objects::fields(object, &mut fields).then_some(fields)
    }
}

/// Registers the system before any test runs.
#[cfg(test)]
#[ctor::ctor(unsafe)]
fn install() {
    sim_harness::system::install(&[&Spiderpool], "test");
    kube_sim::testbed::serve(|| Spiderpool.types());
}
