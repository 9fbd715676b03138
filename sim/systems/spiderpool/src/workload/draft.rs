//! A cluster with Spiderpool whose values may be open, and the operations on it.

mod cluster;
mod manifests;
mod mistakes;
mod operations;
mod routes;
mod rules;
mod settings;
mod wishes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ipam_spiderpool::ranges::IpVersion;
use kube_sim::actor::kubelet::KubeletDelays;
use kube_sim::kinds::KindId;
use kube_sim::object::Obj;
use operations::Drawn;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::draw::{Concern, Draw};
use sim_config::source::STANDARD_INPUT;
use sim_config::time::Span;
use sim_config::{Choice, Probability, Problem, Problems, Source};
use sim_harness::operation::Op;
use sim_harness::plan::{CLIENTS_MAX, OPS_MAX};
use sim_harness::workload::{Adoption, BackoffPlan, Draft, Misnamed, at_least_one, at_most};
use wishes::nics_of;

use super::adopt::Adopted;
use super::closed_loop::ClosedLoop;
use super::lifecycle::NodeLifecycle;
use super::ops::{AppKind, Cascade, DeleteApp, NAMESPACE};
use super::plan::{SpiderPlan, both, nobody_serves, problems_of_settings};
use super::script;
use super::subnets::drawn::{IpNumber, SubnetChange};
use super::trace::{COLUMNS, Taken, TraceRows};
use crate::Operation;

pub use cluster::Families;
pub use manifests::ManifestFlaw;
pub use mistakes::WishMistake;
pub use operations::PoolChange;
pub use rules::PoolRule;
pub use wishes::PoolWish;

/// A cluster and the operations on it, with values that may be open. By default a few applications come and go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SpiderDraft {
    /// The number of nodes, each with one agent and one kubelet.
    pub nodes: Choice<u32>,
    /// Whether the agent and the kubelet of a node run only while it has pods, as a cluster of thousands of nodes needs. Caches are then
    /// never older than the node's oldest pod.
    pub on_demand: bool,
    /// Whether nodes that fall silent are detected and their pods evicted; kubelets then send heartbeats (K §6).
    pub node_lifecycle: bool,
    /// The time that a node may be silent before its condition Ready becomes Unknown.
    pub monitor_grace: Choice<Span>,
    /// The time that pods tolerate a lost node, in whole seconds, unless they set their own.
    pub toleration: Choice<Span>,
    /// The number of replicas of Spiderpool's controller; they elect a leader.
    pub controllers: Choice<u32>,
    /// Whether the controller reclaims addresses of pods that are gone without a DEL (G).
    pub reclaim: bool,
    /// Whether the replicas of the controller serve the webhooks of A §9, which every write of a pool, a subnet or a reservation then has
    /// to pass; otherwise objects are created as their webhooks would have left them. With subnets the webhooks are always served.
    pub admission: bool,
    /// Whether agents have upstream's token buckets: 50 reads and 50 writes of each type a second, burst 100 (A §10).
    pub throttled: Choice<bool>,
    /// The time that the plugin listens for another host on an address, with `enableIPConflictDetection` (A P6): upstream asks a few times,
    /// a second apart. Unset = no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<Choice<Span>>,
    /// Settings that differ from the defaults, by their names in A §10; each run takes one value of a list.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, Choice<String>>,
    /// The backoff with which agents retry a write of a pool after a conflict; upstream's is fixed in its code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<BackoffPlan>,
    /// The durations of steps on a node.
    pub kubelet: KubeletDelays,
    /// The share of nodes whose container runtime does not tell the plugin the UID of a pod, as before 2021 (K §5.1).
    pub runtimes_without_uid: Probability,
    /// A closed loop: instead of applications each node has pods that ask one after the other, from `kubelet.network_ready` on; no kubelet,
    /// and so no sandbox, takes any time. Unset = kubelets ask for the pods of applications.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_loop: Option<ClosedLoop>,
    /// The IP families of pods.
    pub families: Choice<Families>,
    /// The number of pools of each family.
    pub pools: Choice<u32>,
    /// The number of addresses of each pool.
    pub addresses: Choice<u32>,
    /// The number of pools of each family that serve pods that name none.
    pub default_pools: Choice<u32>,
    /// The rule that restricts each pool to some pods (A §3). If it serves no pod, pods that name no other pool get no address.
    pub rules: Choice<PoolRule>,
    /// Whether the CNI configuration has `match_master_subnet`: a pool serves a pod only if the NIC of its node has an address in the
    /// pool's subnet (A §3, rule 11). The NIC of each node has addresses in some of the subnets, at least one of each family.
    pub match_master_subnet: Choice<bool>,
    /// The number of routes of each pool and subnet, and of those that each application asks for (A A14). Half of the latter have a gateway
    /// in one of the subnets.
    pub routes: Choice<u32>,
    /// The number of namespaces of applications, at most 100. If there are several, not all of them name pools (`wishes`), and some use the
    /// keys of the documents.
    pub namespaces: Choice<u32>,
    /// The number of subnets of each family, from which pools are cut for applications (A §8).
    pub subnets: Choice<u32>,
    /// The number of addresses of each subnet.
    pub subnet_addresses: Choice<u32>,
    /// The number of pools that operators have cut by hand from each subnet. Pods may name these like any other pool.
    pub subnet_pools: Choice<u32>,
    /// The number of addresses that an application asks its subnet for.
    pub ip_number: Choice<IpNumber>,
    /// The number of addresses beyond those that its pods need, if it asks for a number.
    pub spare: Choice<u32>,
    /// The share of applications whose pools outlive them (`ippool-reclaim: "false"`).
    pub keeps_pools: Probability,
    /// The number of applications.
    pub apps: Choice<u32>,
    /// The kind of each application; without applications, the kinds of those that scripted operations create.
    pub kinds: Choice<AppKind>,
    /// The number of pods of each application.
    pub replicas: Choice<u32>,
    /// The way in which its pods ask for pools.
    pub wishes: Choice<PoolWish>,
    /// The number of NICs of its pods.
    pub nics: Choice<u32>,
    /// The share of applications that are written with a mistake in their requests. Operators correct most of them after a while.
    pub mistaken: Probability,
    /// The mistake of each of these applications.
    pub mistake: Choice<WishMistake>,
    /// The share of applications that start and stop all their pods at once, if they are StatefulSets.
    pub parallel: Probability,
    /// The grace period of pods, in seconds.
    pub grace: Choice<u32>,
    /// The time at which each application is created.
    pub arrival: Choice<Span>,
    /// The life of each application, until it is deleted.
    pub life: Choice<Span>,
    /// The interval at which each CronJob starts a Job.
    pub every: Choice<Span>,
    /// The share of applications that are deleted again.
    pub deleted: Probability,
    /// The share of these that are created again under the same name.
    pub replaced: Probability,
    /// The share of deletions of pods that are forced: the API forgets the pod before its kubelet has stopped it.
    pub forced: Probability,
    /// The share of deleted StatefulSets that leave their pods behind, to be adopted by the next one of the same name.
    pub orphaned: Probability,
    /// The share of applications that are deleted in the foreground: they stay until their pods are gone.
    pub foreground: Probability,
    /// The share of applications that are scaled, once.
    pub scaled: Probability,
    /// The number of pods after scaling.
    pub scaled_to: Choice<u32>,
    /// The share of these that are scaled back soon after.
    pub scaled_back: Probability,
    /// The share of applications whose pods are all replaced, once.
    pub rolled_out: Probability,
    /// The share of roll-outs that also change the pools that pods name.
    pub rewished: Probability,
    /// The share of roll-outs that also change the number of NICs of pods, and the pools that they name; the same share of these is
    /// followed by another one.
    pub rewired: Probability,
    /// If `rules` use the label `example.com/zone`: the share of nodes, namespaces and applications whose value of it differs for a while.
    pub relabelled: Probability,
    /// The share of roll-outs of StatefulSets that come in two parts: at first only the pods from some ordinal on are replaced
    /// (`partition`), the others a while later.
    pub partitioned: Probability,
    /// The share of StatefulSets that leave outdated pods alone until an operator deletes them (`OnDelete`).
    pub on_delete: Probability,
    /// The first ordinal of StatefulSets.
    pub start: Choice<u32>,
    /// The share of StatefulSets that are given another first ordinal, once.
    pub renumbered: Probability,
    /// The number of times that an operator deletes a pod of each application.
    pub pods_deleted: Choice<u32>,
    /// The share of VMs that are moved to another node.
    pub migrated: Probability,
    /// The share of bare pods that complete by themselves, at the time at which they would be deleted.
    pub completes: Probability,
    /// The number of times that operators change a pool for a while.
    pub pool_changes: Choice<u32>,
    /// The change that operators make to the pool; they undo it after `changed_for`.
    pub pool_change: Choice<PoolChange>,
    /// The share of changes to a pool's spec that are written by server-side apply.
    pub applied: Probability,
    /// The number of records of pods that never existed that are written into pools, as a release leaves them that lost its endpoints, or a
    /// restored backup.
    pub leaked: Choice<u32>,
    /// The share of leaked records under a name that no pod can have: their owner cannot be determined, and they stay (G S-0).
    pub damaged: Probability,
    /// The share of leaked records under a key that is no address: they hold none, and stay.
    pub misplaced: Probability,
    /// The number of operators that create overlapping pools at the same time, of IPv4, for pods that name none.
    pub overlapping: Choice<u32>,
    /// The number of times that operators change a subnet for a while.
    pub subnet_changes: Choice<u32>,
    /// The change that operators make to the subnet; they undo it after `changed_for`.
    pub subnet_change: Choice<SubnetChange>,
    /// The number of times that operators apply a manifest of a pool, a subnet or a reservation, and another one of the same object after
    /// `changed_for`: that of the cluster, to restore it, or one that nothing in the cluster needs, which they delete in the end.
    pub manifests: Choice<u32>,
    /// The oddity of each such manifest; some have two.
    pub manifest: Choice<ManifestFlaw>,
    /// The number of times that operators drain a node for a while: it takes no new pods, and its own are evicted except those of
    /// DaemonSets.
    pub drains: Choice<u32>,
    /// The number of times that operators change settings: each that `settings` leaves open is drawn anew, and agents and replicas of the
    /// controller are restarted one after the other, so that for a while they use different settings.
    pub settings_changes: Choice<u32>,
    /// The time between two of these restarts, agents and replicas in parallel.
    pub settings_every: Choice<Span>,
    /// The share of applications of several pods that have a disruption budget: `minAvailable` or `maxUnavailable`, a number or a
    /// percentage. Each lets at least one pod go.
    pub budgeted: Probability,
    /// The time for which pools and subnets are changed, and nodes drained.
    pub changed_for: Choice<Span>,
    /// The time of each of these events: scaling, roll-outs, deletions of pods, changes of pools and subnets, drains.
    pub events: Choice<Span>,
    /// A file from which the pods come instead: CSV with a header; relative to the scenario, or to where the program runs; `-` = standard
    /// input. Times are seconds from the start of the trace, or dates of RFC 3339, of which the first creation is the start. Of the time at
    /// which a pod was scheduled it only matters whether there is one: such a pod is bound at once, every other one stays pending. Without
    /// such a column all are bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The factor by which the time of the trace is compressed.
    pub trace_compression: u32,
    /// The number of pods that each pod of the trace stands for, at most 1000.
    pub trace_replication: u32,
    /// The names of the trace's columns, where they differ from `name`, `creation_time`, `deletion_time` and `scheduled_time`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub trace_columns: BTreeMap<String, String>,
    /// The rows of the trace, once it has been read.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) rows: Arc<TraceRows>,
    /// The content of the user's own cluster, if there is one: then nothing of this is generated except events.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) adopted: Option<Arc<Adopted>>,
}

/// The maximum number of pods for each pod of a trace; a larger number is probably a typing error.
const TRACE_REPLICATION_MAX: u64 = 1_000;

fn probability(value: f64) -> Probability {
    Probability::new(value).unwrap_or_else(|| unreachable!("{value} is a probability"))
}

impl Default for SpiderDraft {
    fn default() -> Self {
        let secs = Span::secs;
        Self {
            nodes: Choice::Between(2, 3),
            on_demand: false,
            node_lifecycle: false,
            monitor_grace: Choice::Is(secs(50)),
            toleration: Choice::Is(secs(300)),
            controllers: Choice::Is(1),
            reclaim: false,
            admission: false,
            throttled: Choice::Is(true),
            probe: None,
            backoff: None,
            settings: BTreeMap::new(),
            kubelet: KubeletDelays::default(),
            runtimes_without_uid: probability(0.0),
            closed_loop: None,
            families: Choice::OneOf(vec![Families::Ipv4, Families::Dual]),
            pools: Choice::Between(1, 3),
            addresses: Choice::Between(40, 80),
            default_pools: Choice::Between(1, 2),
            rules: Choice::Is(PoolRule::Everyone),
            match_master_subnet: Choice::Is(false),
            routes: Choice::Is(0),
            namespaces: Choice::Is(1),
            subnets: Choice::Is(0),
            subnet_addresses: Choice::Between(40, 80),
            subnet_pools: Choice::Is(0),
            ip_number: Choice::OneOf(vec![IpNumber::AsPods, IpNumber::More, IpNumber::Fixed]),
            spare: Choice::Between(0, 2),
            keeps_pools: probability(0.2),
            apps: Choice::Between(2, 5),
            kinds: Choice::OneOf(vec![AppKind::StatefulSet, AppKind::Deployment, AppKind::Pod]),
            replicas: Choice::Between(1, 4),
            wishes: Choice::OneOf(vec![PoolWish::ClusterDefault, PoolWish::Ippool, PoolWish::Ippools]),
            nics: Choice::Is(1),
            mistaken: probability(0.0),
            mistake: Choice::Is(WishMistake::NoSuchPool),
            parallel: probability(0.5),
            grace: Choice::Between(2, 30),
            arrival: Choice::Between(secs(0), secs(20)),
            life: Choice::Between(secs(10), secs(60)),
            every: Choice::Between(secs(15), secs(60)),
            deleted: probability(0.5),
            replaced: probability(0.5),
            forced: probability(0.0),
            orphaned: probability(0.0),
            foreground: probability(0.2),
            scaled: probability(0.3),
            scaled_to: Choice::Between(0, 5),
            scaled_back: probability(0.5),
            rolled_out: probability(0.2),
            rewished: probability(0.0),
            applied: probability(0.0),
            rewired: probability(0.0),
            relabelled: probability(0.0),
            partitioned: probability(0.0),
            on_delete: probability(0.0),
            start: Choice::Is(0),
            renumbered: probability(0.0),
            pods_deleted: Choice::Between(0, 2),
            migrated: probability(0.5),
            completes: probability(0.2),
            pool_changes: Choice::Is(0),
            pool_change: Choice::Is(PoolChange::Disable),
            leaked: Choice::Is(0),
            damaged: probability(0.0),
            misplaced: probability(0.0),
            overlapping: Choice::Is(0),
            subnet_changes: Choice::Is(0),
            subnet_change: Choice::Is(SubnetChange::Exclude),
            manifests: Choice::Is(0),
            manifest: Choice::Is(ManifestFlaw::None),
            drains: Choice::Is(0),
            settings_changes: Choice::Is(0),
            settings_every: Choice::Between(secs(1), secs(30)),
            budgeted: probability(0.0),
            changed_for: Choice::Between(secs(5), secs(30)),
            events: Choice::Between(secs(10), secs(60)),
            trace: None,
            trace_compression: 1,
            trace_replication: 1,
            trace_columns: BTreeMap::new(),
            rows: Arc::default(),
            adopted: None,
        }
    }
}

impl SpiderDraft {
    /// Whether pools may select by a label that operators change.
    fn has_zones(&self) -> bool {
        self.adopted.is_none() && self.rules.written().into_iter().any(|rule| rule.looks_at_zone())
    }

    /// The pods of the trace, once it has been read; `None` = the draft has no trace.
    pub fn trace_rows(&self) -> Option<&TraceRows> {
        self.trace.is_some().then_some(&*self.rows)
    }

    /// Replaces the pods of the trace.
    ///
    /// # Errors
    /// The number of operations that they need, if a run may not have as many.
    pub fn set_trace_rows(&mut self, rows: TraceRows) -> Result<(), u64> {
        match rows.too_many(self.trace_replication) {
            Some(operations) => Err(operations),
            None => {
                self.rows = Arc::new(rows);
                Ok(())
            }
        }
    }
}

impl Draft for SpiderDraft {
    type Plan = SpiderPlan;

    fn bounds(&self) -> [SpiderPlan; 2] {
        let mut draw = Draw::new(0, Concern::Workload, 0);
        let (plan, _) = self.draw(&mut draw);
        let (fewest, most) = match &self.adopted {
            Some(_) => (plan.nodes, plan.nodes),
            None => ((*self.nodes.bounds().0).max(1), *self.nodes.bounds().1),
        };
        let (fewest_controllers, most_controllers) = self.controllers.bounds();
        [
            SpiderPlan { nodes: fewest, controllers: *fewest_controllers, ..plan.clone() },
            SpiderPlan { nodes: most, controllers: *most_controllers, ..plan },
        ]
    }

    fn problems(&self, source: Source<'_>) -> Problems {
        let most = |choice: &Choice<u32>| u64::from(*choice.bounds().1);
        let mut problems = self.backoff.map_or_else(Problems::new, |backoff| backoff.problems(source, "workload.backoff"));
        let by_hand = if self.on_delete.get() > 0.0 { most(&self.replicas) } else { 0 };
        let mended = if self.mistaken.get() > 0.0 { 2 + most(&self.replicas) } else { 0 };
        let operations = most(&self.apps) * (12 + most(&self.pods_deleted) + by_hand + mended)
            + 2 * (most(&self.pool_changes) + most(&self.subnet_changes) + most(&self.drains))
            + 3 * most(&self.manifests)
            + most(&self.settings_changes)
            + most(&self.leaked)
            + most(&self.overlapping);
        for (key, what, value, limit) in [
            ("workload.nodes", "`workload.nodes`", most(&self.nodes), u64::from(CLIENTS_MAX)),
            ("workload.controllers", "`workload.controllers`", most(&self.controllers), 10),
            ("workload.pools", "`workload.pools`", most(&self.pools), 200),
            ("workload.addresses", "`workload.addresses`", most(&self.addresses), 65_000),
            ("workload.namespaces", "`workload.namespaces`", most(&self.namespaces), 100),
            ("workload.subnets", "`workload.subnets`", most(&self.subnets), 200),
            ("workload.subnet_pools", "`workload.subnet_pools`", most(&self.subnet_pools), 10),
            ("workload.subnet_addresses", "`workload.subnet_addresses`", most(&self.subnet_addresses), 65_000),
            ("workload.leaked", "`workload.leaked`", most(&self.leaked), 1_000),
            ("workload.overlapping", "`workload.overlapping`", most(&self.overlapping), 1_000),
            ("workload.replicas", "`workload.replicas`", most(&self.replicas), 100_000),
            ("workload.nics", "`workload.nics`", most(&self.nics), 16),
            ("workload.start", "`workload.start`", most(&self.start), 1_000_000),
            ("workload.trace_replication", "`workload.trace_replication`", u64::from(self.trace_replication), TRACE_REPLICATION_MAX),
            ("workload.apps", "the number of operations", operations, OPS_MAX),
        ] {
            problems.append(at_most(source, key, what, value, limit));
        }
        problems.append(at_least_one(source, "workload.nodes", "`workload.nodes`", *self.nodes.bounds().0));
        if self.wishes.written().contains(&&PoolWish::Subnet) && *self.subnets.bounds().0 == 0 {
            let wrong = "`workload.wishes` has `subnet`, but there may be no subnet";
            problems.push(source.problem("workload.subnets", wrong, "1 or more for `workload.subnets`"));
        }
        if self.on_demand && self.node_lifecycle {
            problems.push(both(source));
        }
        if let Some(rounds) = self.closed_loop {
            let others = [
                ("workload.on_demand", self.on_demand),
                ("workload.node_lifecycle", self.node_lifecycle),
                ("workload.trace", self.trace.is_some()),
            ];
            problems.append(rounds.problems(source, *self.nodes.bounds().1, &others));
        }
        if (self.admission || *self.subnets.bounds().1 > 0) && *self.controllers.bounds().0 == 0 {
            problems.push(nobody_serves(source));
        }
        let values = self.settings.iter().flat_map(|(name, value)| value.written().into_iter().map(move |value| (&**name, &**value)));
        problems.append(problems_of_settings(values, source));
        problems.append(at_least_one(source, "workload.trace_compression", "`workload.trace_compression`", self.trace_compression));
        problems.append(at_least_one(source, "workload.trace_replication", "`workload.trace_replication`", self.trace_replication));
        problems
    }

    fn draw(&self, draw: &mut Draw) -> (SpiderPlan, Vec<Op>) {
        let mut plan = self.cluster(draw);
        if let Some(adopted) = &self.adopted {
            let stated = self.settings.keys().filter_map(|name| Some((name.clone(), plan.settings.get(name)?.clone()))).collect();
            adopted.move_in(&mut plan, &stated);
        }
        let (pools, subnets) = match &self.adopted {
            Some(adopted) => (adopted.pools.clone(), adopted.subnets.clone()),
            None => (plan.pools.clone(), plan.subnets.clone()),
        };
        let used = |version: &IpVersion| {
            let number = Some(version.number());
            pools.iter().any(|pool| pool.spec.ip_version == number) || subnets.iter().any(|subnet| subnet.spec.ip_version == number)
        };
        let versions: Vec<IpVersion> = [IpVersion::V4, IpVersion::V6].into_iter().filter(used).collect();
        let namespaces = match &plan.namespaces {
            none if none.is_empty() => vec![NAMESPACE.to_owned()],
            some => some.keys().cloned().collect(),
        };
        let (draft, nodes, ops) = (self, plan.nodes, Vec::new());
        let mut drawn = Drawn { draft, pools: &pools, subnets: &subnets, versions: &versions, namespaces: &namespaces, nodes, ops };
        if namespaces.len() > 1 && self.adopted.is_none() {
            drawn.namespace_changes(draw, &mut plan.namespaces);
        }
        if self.closed_loop.is_some() {
            plan.kinds.insert(AppKind::Pod);
        } else if let Some(adopted) = &self.adopted {
            for app in &adopted.apps {
                drawn.events(draw, app, nics_of(app), Duration::ZERO..Duration::MAX);
            }
        } else if self.trace.is_some() {
            let pods = self.rows.pods(self.trace_compression, self.trace_replication);
            plan.kinds.insert(AppKind::Pod);
            for pod in pods {
                drawn.add(pod.created, Operation::ApplyApp(pod.apply()));
                if let Some(deleted) = pod.deleted {
                    let delete = DeleteApp { app: pod.name, namespace: NAMESPACE.to_owned(), force: false, cascade: Cascade::default() };
                    drawn.add(deleted, Operation::DeleteApp(delete));
                }
            }
        } else {
            let apps = self.apps.draw(draw);
            if apps == 0 {
                // Scripted operations create applications of the named kinds.
                plan.kinds.extend(self.kinds.written().into_iter().copied());
            }
            for number in 0..apps {
                let kind = drawn.app(draw, number);
                plan.kinds.insert(kind);
            }
        }
        let names = |number| plan.node_name(number);
        for number in 0..self.pool_changes.draw(draw) {
            drawn.pool_change(draw, number, &names, plan.nodes);
        }
        if *self.leaked.bounds().1 > 0 {
            for number in 0..self.leaked.draw(draw) {
                drawn.leaked_record(draw, number);
            }
        }
        if *self.overlapping.bounds().1 > 0 {
            let count = self.overlapping.draw(draw);
            drawn.overlapping_pools(draw, count);
        }
        if !subnets.is_empty() {
            for _ in 0..self.subnet_changes.draw(draw) {
                drawn.subnet_change(draw);
            }
        }
        // Drawn only if the scenario asks for it, so that the draws of other scenarios stay the same.
        if *self.manifests.bounds().1 > 0 && !versions.is_empty() {
            for _ in 0..self.manifests.draw(draw) {
                drawn.manifest(draw);
            }
        }
        if *self.drains.bounds().1 > 0 {
            for _ in 0..self.drains.draw(draw) {
                drawn.drain(draw, &names, plan.nodes);
            }
        }
        if *self.settings_changes.bounds().1 > 0 {
            for _ in 0..self.settings_changes.draw(draw) {
                drawn.settings_change(draw);
            }
        }
        if self.has_zones() {
            drawn.zones(draw, &names, plan.nodes);
        }
        let mut ops = drawn.ops;
        plan.node_lifecycle = self
            .node_lifecycle
            .then(|| NodeLifecycle { monitor_grace: self.monitor_grace.draw(draw), toleration: self.toleration.draw(draw) });
        // Drawn last, and only if the scenario asks for it, so that the draws of other scenarios stay the same.
        if self.runtimes_without_uid.get() > 0.0 {
            plan.runtimes_without_uid = (0..plan.nodes).filter(|_| draw.chance(self.runtimes_without_uid.get())).collect();
        }
        ops.sort_by_key(|op| op.common.at);
        (plan, ops)
    }

    fn read_files(&mut self, source: Source<'_>, folder: &Path) -> Result<(), Problems> {
        let Some(trace) = &self.trace else { return Ok(()) };
        // A path in a scenario is relative to the scenario, a path on the command line to the working directory.
        let beside = folder.join(trace);
        let path = if beside.exists() { beside } else { PathBuf::from(trace) };
        if !path.exists() && trace != STANDARD_INPUT {
            let wrong = format!("the trace {trace} does not exist");
            let right = "a file, relative to the scenario or to where the program runs";
            return Err(source.problem_of_value(&["workload", "trace"], wrong, right).into());
        }
        if let Some(unknown) = self.trace_columns.keys().find(|name| !COLUMNS.contains(&name.as_str())) {
            let wrong = format!("`workload.trace_columns` maps `{unknown}`, which is not read");
            let right = format!("one of {}", COLUMNS.join(", "));
            return Err(source.problem_of_key(&["workload", "trace_columns", unknown], wrong, right).into());
        }
        let rows = TraceRows::read(&path, &self.trace_columns)?;
        if let Some(operations) = rows.too_many(self.trace_replication) {
            let wrong = format!("{trace} makes {operations} operations with `workload.trace_replication` {}", self.trace_replication);
            return Err(source.problem("workload.trace_replication", wrong, format!("at most {OPS_MAX}")).into());
        }
        self.rows = Arc::new(rows);
        Ok(())
    }

    fn left_out(&self, lasts: Duration) -> Result<Option<String>, Problem> {
        let Some(trace) = self.trace.as_ref().filter(|_| self.adopted.is_none()) else { return Ok(None) };
        let Taken { pods, of } = self.rows.within(lasts, self.trace_compression)?;
        Ok((pods < of).then(|| format!("{} of the {of} pods of {trace} are created after the run ends, and left out", of - pods)))
    }

    fn wants_addresses(&self) -> bool {
        true
    }

    fn misnamed(&self, ops: &[Op], objects: &[(KindId, Obj)]) -> Vec<Misnamed> {
        script::misnamed(self, ops, objects)
    }

    fn adopt(&mut self, objects: &[(KindId, Obj)]) -> Adoption {
        self.adopted = Adopted::of(objects).map(Arc::new);
        if self.adopted.is_some() { Adoption::MovedIn } else { Adoption::NothingThere }
    }
}
