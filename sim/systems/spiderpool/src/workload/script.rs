//! Names that scripted operations can use in a cluster with Spiderpool.
//!
//! Known names are those that the settings can create, whatever is drawn, or those of the user's manifests, and those that other operations
//! create at any time. Unknown, and so not judged, are pools that are created for applications, whose names end in a UID, and the pods of
//! applications.

use std::collections::{BTreeMap, BTreeSet};

use ipam_spiderpool::{SpiderIPPool, SpiderReservedIP, SpiderSubnet};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube_sim::kinds::KindId;
use kube_sim::node::heartbeat::LEASES;
use kube_sim::object::Obj;
use sim_config::Problems;
use sim_harness::operation::Op;
use sim_harness::workload::misnamed::Known;
use sim_harness::workload::{InvalidValue, Misnamed};

use super::SpiderDraft;
use super::apps::{APP, app_label};
use super::manifests::Manifest;
use super::ops::NAMESPACE;
use crate::Operation;

/// The prefixes of the names of pools that are created for applications (A §8.2).
const AUTO_POOLS: [&str; 2] = ["auto4-", "auto6-"];

/// The names of applications by namespace.
type Apps = BTreeMap<String, BTreeSet<String>>;

/// Everything that can exist in the cluster of a run, by name.
#[derive(Debug, Default)]
struct There {
    pools: BTreeSet<String>,
    subnets: BTreeSet<String>,
    reserved: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    nodes: BTreeSet<String>,
    /// The applications of each namespace.
    apps: Apps,
    /// Applications of which only pods may exist, which name them by a label.
    apps_of_pods: Apps,
}

impl There {
    /// The names at the beginning.
    fn at_first(draft: &SpiderDraft, objects: &[(KindId, Obj)]) -> Self {
        let mut there = Self::default();
        // Every cluster has these namespaces.
        there.namespaces.extend([NAMESPACE, "kube-system"].map(str::to_owned));
        there.namespaces.extend(draft.node_lifecycle.then(|| LEASES.to_owned()));
        for (_, object) in objects {
            there.take(object);
        }
        match &draft.adopted {
            Some(adopted) => {
                there.nodes.extend(adopted.nodes.iter().cloned());
                there.namespaces.extend(adopted.namespaces.iter().cloned());
                adopted.apps.iter().for_each(|app| add(&mut there.apps, &app.namespace, &app.app));
            }
            None => {
                there.namespaces.extend(draft.namespace_names());
                there.pools.extend(draft.pool_names());
                there.subnets.extend(draft.subnet_names());
            }
        }
        if draft.adopted.is_none() || there.nodes.is_empty() {
            there.nodes.extend((0..*draft.nodes.bounds().1).map(|number| format!("node-{number}")));
        }
        there
    }

    /// Adds an object of the manifests.
    fn take(&mut self, object: &Obj) {
        let (any, meta) = (object.as_any(), object.meta());
        let Some(name) = meta.name.clone() else { return };
        if any.is::<SpiderIPPool>() {
            self.pools.insert(name);
        } else if any.is::<SpiderSubnet>() {
            self.subnets.insert(name);
        } else if any.is::<SpiderReservedIP>() {
            self.reserved.insert(name);
        } else if any.is::<Namespace>() {
            self.namespaces.insert(name);
        } else if any.is::<Node>() {
            self.nodes.insert(name);
        } else if any.is::<Pod>()
            && let Some(app) = meta.labels.as_ref().and_then(|labels| labels.get(APP))
        {
            add(&mut self.apps_of_pods, meta.namespace.as_deref().unwrap_or(NAMESPACE), app);
        }
    }

    /// The problem with the name of an application; `None` = there can be such an application.
    fn judge_app(&self, at: usize, namespace: &str, app: &str) -> Option<Misnamed> {
        let (none, place) = (BTreeSet::new(), format!(" in the namespace `{namespace}`"));
        let found = known("application", self.apps.get(namespace).unwrap_or(&none)).judge(at, "app", app, &place)?;
        let Some((elsewhere, _)) = self.apps.iter().find(|(_, apps)| apps.contains(app)) else { return Some(found) };
        let right = format!("there is one in the namespace `{elsewhere}`");
        Some(Misnamed { invalid: InvalidValue { right, ..found.invalid }, ..found })
    }

    /// Adds the object that an operation creates.
    fn made(&mut self, op: &Operation) {
        match op {
            Operation::ApplyApp(op) => add(&mut self.apps, &op.namespace, &op.app),
            Operation::CreatePool(op) => drop(self.pools.insert(op.pool.name.clone())),
            Operation::CreateSubnet(op) => drop(self.subnets.insert(op.subnet.name.clone())),
            Operation::Reserve(op) => drop(self.reserved.insert(op.name.clone())),
            Operation::ApplyManifest(op) => match &*op.manifest {
                Manifest::SpiderIPPool(pool) => drop(self.pools.insert(pool.name.clone())),
                Manifest::SpiderSubnet(subnet) => drop(self.subnets.insert(subnet.name.clone())),
                Manifest::SpiderReservedIP(reservation) => drop(self.reserved.insert(reservation.name.clone())),
            },
            Operation::CreateNamespace(op) => drop(self.namespaces.insert(op.namespace.clone())),
            _ => {}
        }
    }
}

fn add(apps: &mut Apps, namespace: &str, app: &str) {
    apps.entry(namespace.to_owned()).or_default().insert(app.to_owned());
}

fn known<'a>(what: &'static str, names: &'a BTreeSet<String>) -> Known<'a> {
    Known::new(what, names.iter().map(String::as_str))
}

fn holds(apps: &Apps, namespace: &str, app: &str) -> bool {
    apps.get(namespace).is_some_and(|apps| apps.contains(app))
}

/// The names in operations that no object can have in any run, in the form that [`Draft::misnamed`](sim_harness::workload::Draft::misnamed)
/// expects; the search ends at [`Problems::MAX`].
pub(super) fn misnamed(draft: &SpiderDraft, ops: &[Op], objects: &[(KindId, Obj)]) -> Vec<Misnamed> {
    let mut there = There::at_first(draft, objects);
    ops.iter().for_each(|op| there.made(op.kind.own()));
    let (pools, subnets) = (known("pool", &there.pools), known("subnet", &there.subnets));
    let (reserved, nodes) = (known("reservation", &there.reserved), known("node", &there.nodes));
    let namespaces = known("namespace", &there.namespaces);
    let pool = |at, name: &String| {
        let is_auto = AUTO_POOLS.iter().any(|auto| name.starts_with(auto));
        if is_auto { None } else { pools.judge(at, "pool", name, "") }
    };
    let app = |at, namespace: &str, app: &str| if holds(&there.apps, namespace, app) { None } else { there.judge_app(at, namespace, app) };
    let mut all = Vec::new();
    for (at, op) in ops.iter().enumerate() {
        if all.len() >= Problems::MAX {
            break;
        }
        match op.kind.own() {
            Operation::ApplyApp(op) => all.extend(namespaces.judge(at, "namespace", &op.namespace, "")),
            Operation::ScaleApp(op) => all.extend(app(at, &op.namespace, &op.app)),
            Operation::RollOutApp(op) => all.extend(app(at, &op.namespace, &op.app)),
            Operation::EditStatefulSet(op) => all.extend(app(at, &op.namespace, &op.app)),
            Operation::DeleteApp(op) => all.extend(app(at, &op.namespace, &op.app)),
            Operation::MigrateVm(op) => all.extend(app(at, &op.namespace, &op.app)),
            Operation::DeletePodOf(op) if holds(&there.apps_of_pods, &op.namespace, app_label(&op.app)) => {}
            Operation::DeletePodOf(op) => all.extend(app(at, &op.namespace, &op.app)),
            Operation::DeletePool(op) => all.extend(pool(at, &op.pool)),
            Operation::EditRecord(op) => all.extend(pool(at, &op.pool)),
            Operation::GarbleRecords(op) => all.extend(pool(at, &op.pool)),
            Operation::EditPool(op) => {
                all.extend(pool(at, &op.pool));
                all.extend(op.nodes.iter().flatten().filter_map(|name| nodes.judge(at, "nodes", name, "")));
                all.extend(op.namespaces.iter().flatten().filter_map(|name| namespaces.judge(at, "namespaces", name, "")));
            }
            Operation::DeleteSubnet(op) => all.extend(subnets.judge(at, "subnet", &op.subnet, "")),
            Operation::EditSubnet(op) => all.extend(subnets.judge(at, "subnet", &op.subnet, "")),
            Operation::Unreserve(op) => all.extend(reserved.judge(at, "name", &op.name, "")),
            Operation::ApplyManifest(op) => all.extend(op.owner.iter().filter_map(|name| nodes.judge(at, "owner", name, ""))),
            Operation::AnnotateNamespace(op) => all.extend(namespaces.judge(at, "namespace", &op.namespace, "")),
            Operation::LabelNamespace(op) => all.extend(namespaces.judge(at, "namespace", &op.namespace, "")),
            Operation::LabelNode(op) => all.extend(nodes.judge(at, "node", &op.node, "")),
            Operation::DrainNode(op) => all.extend(nodes.judge(at, "node", &op.node, "")),
            Operation::UncordonNode(op) => all.extend(nodes.judge(at, "node", &op.node, "")),
            Operation::DeleteNamespace(op) => all.extend(namespaces.judge(at, "namespace", &op.namespace, "")),
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::ops::{DeletePool, EditPool};
    use super::super::subnets::ops::DeleteSubnet;
    use super::*;
    use crate::workload::{Families, PoolChange};
    use sim_config::draw::{Concern, Draw};
    use sim_config::time::SimTime;
    use sim_config::{Choice, Source, With};
    use sim_harness::operation::Turn;
    use sim_harness::scenario::Scenario;
    use sim_harness::workload::Draft;

    /// The problems of a script of these rows, in a cluster with these settings.
    fn wrong(settings: &str, rows: &[&str]) -> Vec<(usize, &'static str, String)> {
        let rows: String = rows.iter().map(|row| format!("  {{ at = \"1s\", actor = \"operator\", kind = {row} }},\n")).collect();
        let text = format!(
            "name = \"s\"\nwhy = \"w\"\nop = [\n{rows}]\n[workload]\nkind = \"spiderpool\"\napps = 0\n{settings}\n[check]\nalways = []\n"
        );
        let scenario = Scenario::parse(Path::new("s.toml"), Source::new("s.toml", &text)).unwrap_or_else(|problems| panic!("{problems}"));
        let told = |Misnamed { op, key, invalid: InvalidValue { found, wrong, .. } }: Misnamed| {
            assert!(wrong.contains(&found), "{wrong}");
            (op, key, found)
        };
        scenario.misnamed(&[]).into_iter().map(told).collect()
    }

    #[test]
    fn an_operation_on_what_nothing_can_be_called_is_told() {
        for (row, key, found) in [
            ("\"scale-app\", app = \"nope\", replicas = 1", "app", "nope"),
            ("\"roll-out-app\", app = \"nope\"", "app", "nope"),
            ("\"edit-stateful-set\", app = \"nope\", start = 1", "app", "nope"),
            ("\"delete-app\", app = \"nope\"", "app", "nope"),
            ("\"delete-pod-of\", app = \"nope\", number = 0", "app", "nope"),
            ("\"migrate-vm\", app = \"nope\"", "app", "nope"),
            ("\"scale-app\", app = \"web\", namespace = \"shop\", replicas = 1", "app", "web"),
            ("\"apply-app\", app = \"db\", type = \"pod\", namespace = \"shop\"", "namespace", "shop"),
            ("\"delete-pool\", pool = \"v4-1\"", "pool", "v4-1"),
            ("\"edit-record\", pool = \"v6-0\", ip = \"10.10.0.3\"", "pool", "v6-0"),
            ("\"edit-pool\", pool = \"v4-0\", nodes = [\"node-0\", \"node-3\"]", "nodes", "node-3"),
            ("\"edit-pool\", pool = \"v4-0\", namespaces = [\"shop\"]", "namespaces", "shop"),
            ("\"edit-subnet\", subnet = \"s4-0\"", "subnet", "s4-0"),
            ("\"delete-subnet\", subnet = \"s4-0\"", "subnet", "s4-0"),
            ("\"unreserve\", name = \"nope\"", "name", "nope"),
            (
                "\"apply-manifest\", owner = \"node-3\", manifest = { type = \"SpiderReservedIP\", name = \"late\", spec = {} }",
                "owner",
                "node-3",
            ),
            ("\"drain-node\", node = \"node-3\"", "node", "node-3"),
            ("\"uncordon-node\", node = \"node-3\"", "node", "node-3"),
            ("\"annotate-namespace\", namespace = \"kube-node-lease\", annotations = {}", "namespace", "kube-node-lease"),
            ("\"delete-namespace\", namespace = \"nope\"", "namespace", "nope"),
        ] {
            let found = vec![(1, key, found.to_owned())];
            let rows = ["\"apply-app\", app = \"web\", type = \"deployment\"", row];
            assert_eq!(wrong("pools = 1\nnodes = \"2..3\"\nfamilies = \"ipv4\"", &rows), found, "{row}");
        }
    }

    #[test]
    fn what_other_operations_make_and_what_only_runs_know_may_be_named() {
        let rows = [
            "\"delete-pool\", pool = \"late\"",
            "\"create-pool\", pool = { name = \"late\", spec = { ipVersion = 4, subnet = \"10.20.0.0/24\", ips = [\"10.20.0.1\"] } }",
            "\"edit-subnet\", subnet = \"late\"",
            "\"create-subnet\", subnet = { name = \"late\", spec = { ipVersion = 4, subnet = \"10.30.0.0/24\", ips = [\"10.30.0.1\"] } }",
            "\"unreserve\", name = \"late\"",
            "\"reserve\", name = \"late\", ips = [\"10.20.0.1\"]",
            "\"scale-app\", app = \"late\", replicas = 1",
            "\"apply-app\", app = \"late\", type = \"deployment\"",
            "\"delete-pool\", pool = \"auto4-late-eth0-12345\"",
            "\"edit-record\", pool = \"v4-0\", ip = \"10.10.0.3\", pod = \"nowhere/nobody\"",
            "\"delete-namespace\", namespace = \"kube-node-lease\"",
        ];
        assert_eq!(wrong("pools = 1\nnode_lifecycle = true", &rows), []);
    }

    #[test]
    fn all_that_can_be_drawn_may_be_named() {
        let draft = SpiderDraft {
            families: Choice::OneOf(vec![Families::Ipv4, Families::Ipv6, Families::Dual]),
            pools: Choice::Between(0, 3),
            subnets: Choice::Between(0, 2),
            subnet_pools: Choice::Between(0, 2),
            pool_changes: Choice::Is(3),
            pool_change: Choice::OneOf(vec![PoolChange::Retarget, PoolChange::Recreate, PoolChange::Reserve]),
            subnet_changes: Choice::Is(2),
            ..SpiderDraft::default()
        };
        for seed in 0..100 {
            let (plan, mut ops) = draft.draw(&mut Draw::new(seed, Concern::Workload, 0));
            let mut add =
                |kind: Operation| ops.push(With { common: Turn { at: SimTime::ZERO, actor: "operator".to_owned() }, kind: kind.into() });
            for pool in &plan.pools {
                add(Operation::DeletePool(DeletePool { pool: pool.name.clone(), force: false }));
                let nodes = Some((0..plan.nodes).map(|number| plan.node_name(number)).collect());
                add(Operation::EditPool(EditPool { pool: pool.name.clone(), nodes, ..EditPool::default() }));
            }
            for subnet in &plan.subnets {
                add(Operation::DeleteSubnet(DeleteSubnet { subnet: subnet.name.clone() }));
            }
            let misnamed: Vec<String> = draft.misnamed(&ops, &[]).into_iter().map(|misnamed| misnamed.invalid.wrong).collect();
            assert_eq!(misnamed, [""; 0], "{seed}");
        }
    }
}
