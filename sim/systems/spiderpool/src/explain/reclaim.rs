//! Explains what reclaim would do with each address of a cluster, as a dry run of one scan of the leader (G §3).
//!
//! Every decision is core's ([`reclaim::explain`](ipam_spiderpool::reclaim::explain)): this module supplies the objects for it, and the
//! words of its rows.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;

use ipam_reports::ExplainReclaimReport;
use ipam_reports::explain_reclaim::{EndpointAnswer, RecordAnswer};
use ipam_reports::schema::ExplainReclaimSchema;
use ipam_spiderpool::reclaim::{Caches, Explanation, Owners, ReclaimPolicy, ReclaimSettings, Row, explain};
use ipam_spiderpool::{Policy, PoolIPAllocation, RecordKey, SpiderEndpoint, SpiderIPPool, names};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube_machinery::ObjectKey;
use kube_machinery::api::ApiError;
use kube_machinery::kubevirt::{PodsOf, VirtualMachine, VirtualMachineInstance};
use sim_harness::deviation::Profile;

use super::{name_of, policy_of, profile_name};
use crate::input::cluster::ClusterInput;
use crate::input::stored;

/// Everything on which the answer depends.
#[derive(Debug)]
pub struct ReclaimQuestion {
    /// The objects that the caches and the API server show; an object that is not among them counts as gone.
    pub cluster: ClusterInput,
    /// The time of the scan.
    pub now: Timestamp,
    /// The settings of reclaim.
    pub settings: ReclaimSettings,
    /// The requested profile of Spiderpool.
    pub profile: Profile,
    /// The form of Spiderpool: that of the profile, with mutations added or removed.
    pub policy: Policy,
}

/// A dump of a cluster, as the caches of a replica would show it.
#[derive(Clone)]
struct Dump {
    cluster: Arc<ClusterInput>,
    pods: Arc<BTreeMap<String, Arc<Pod>>>,
}

/// The namespace and the name of a key.
fn parts(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

impl Caches for Dump {
    fn pod(&self, key: &str) -> Result<Option<Arc<Pod>>, ApiError> {
        Ok(self.pods.get(key).cloned())
    }

    fn pod_of_vm(&self, uid: &str) -> Result<Option<Arc<Pod>>, ApiError> {
        Ok(self.pods.values().find(|pod| pod.metadata.uid.as_deref() == Some(uid)).cloned())
    }

    fn node(&self, name: &str) -> Result<Option<Arc<Node>>, ApiError> {
        Ok(self.cluster.objects.nodes.get("", name).cloned())
    }

    fn endpoint(&self, key: &str) -> Result<Option<Arc<SpiderEndpoint>>, ApiError> {
        let (namespace, name) = parts(key);
        Ok(self.cluster.endpoints.get(namespace, name).cloned())
    }

    fn endpoints(&self) -> Result<Vec<Arc<SpiderEndpoint>>, ApiError> {
        Ok(self.cluster.endpoints.iter().cloned().collect())
    }

    fn pools(&self) -> Result<Vec<Arc<SpiderIPPool>>, ApiError> {
        Ok(self.cluster.objects.pools.iter().cloned().collect())
    }

    /// A dump does not show what vanished before it was made.
    fn runs_until(&self, _: &str) -> Option<Timestamp> {
        None
    }
}

impl Owners for Dump {
    fn stateful_set(&self, key: &ObjectKey) -> Option<Arc<StatefulSet>> {
        self.cluster.objects.stateful_sets.get(key.namespace()?, key.name()).cloned()
    }

    fn instance(&self, key: &ObjectKey) -> Option<Arc<VirtualMachineInstance>> {
        self.cluster.instances.get(key.namespace()?, key.name()).cloned()
    }

    fn pods(&self, pods: PodsOf<'_>) -> Vec<Arc<Pod>> {
        let is_of = |pod: &&Arc<Pod>| pod.metadata.namespace.as_deref() == pods.namespace() && pods.has(pod);
        self.pods.values().filter(is_of).cloned().collect()
    }

    fn machine(&self, key: &ObjectKey) -> Option<Arc<VirtualMachine>> {
        self.cluster.machines.get(key.namespace()?, key.name()).cloned()
    }
}

/// Answers a question: what a scan of the leader at that time decides for each record and each endpoint, and by which row (G §3).
pub fn explain_reclaim(question: ReclaimQuestion) -> ExplainReclaimReport {
    let ReclaimQuestion { cluster, now, settings, profile, policy } = question;
    let pods = cluster.pods.iter().map(|(pod, _)| (ObjectKey::of(pod).as_str().to_owned(), Arc::new(pod.clone())));
    let pods = Arc::new(pods.collect());
    let dump = Dump { cluster: Arc::new(cluster), pods };
    let explained = explain(&dump, &dump, now, &settings, &policy);
    let records = explained.iter().filter_map(record).collect();
    let mut by_key: BTreeMap<&str, Vec<&Explanation>> = BTreeMap::new();
    explained.iter().for_each(|explanation| by_key.entry(&explanation.key).or_default().push(explanation));
    let endpoints = dump.cluster.endpoints.iter().map(|endpoint| endpoint_answer(endpoint, &by_key));
    ExplainReclaimReport {
        schema: ExplainReclaimSchema,
        profile: profile_name(profile).to_owned(),
        deviations: deviations(profile, policy),
        now: now.to_string(),
        records,
        endpoints: endpoints.collect(),
        remarks: remarks(&dump, &settings),
        warnings: warnings(&dump),
    }
}

fn reason(row: Row) -> String {
    format!("{}: {}", row.code(), row.sentence())
}

fn record(explanation: &Explanation) -> Option<RecordAnswer> {
    Some(RecordAnswer {
        pool: explanation.pool.clone()?,
        ip: explanation.ip.clone()?,
        pod: explanation.key.clone(),
        uid: explanation.uid.clone(),
        action: explanation.action.as_str().to_owned(),
        at: explanation.at.map(|at| at.to_string()),
        row: explanation.row.code().to_owned(),
        reason: reason(explanation.row),
    })
}

/// The answer for an endpoint, from the explanations under its name.
fn endpoint_answer(endpoint: &SpiderEndpoint, explained: &BTreeMap<&str, Vec<&Explanation>>) -> EndpointAnswer {
    let key = ObjectKey::of(endpoint);
    let about = || explained.get(key.as_str()).into_iter().flatten().copied();
    let uid = endpoint.status.as_ref().map(|status| status.current.uid.as_str());
    let goes = about().find(|explanation| explanation.endpoint);
    // A record of the endpoint's own pod gives the best reason to keep it.
    let row = goes.or_else(|| about().find(|explanation| Some(&*explanation.uid) == uid)).or_else(|| about().next());
    let row = row.map(|explanation| explanation.endpoint_row.unwrap_or(explanation.row));
    let held = endpoint.metadata.finalizers.iter().flatten().any(|name| name == names::FINALIZER);
    let is_terminating = endpoint.metadata.deletion_timestamp.is_some();
    let (action, more) = match goes {
        None => ("keep", ""),
        Some(_) if !is_terminating => ("delete", ""),
        Some(_) if held => ("remove-finalizer", ""),
        Some(_) => ("keep", "; it is terminating already, and only finalizers of others hold it"),
    };
    EndpointAnswer {
        endpoint: key.as_str().to_owned(),
        action: action.to_owned(),
        row: row.map(Row::code).unwrap_or_default().to_owned(),
        reason: row.map_or_else(|| "no record leads to it, and no scan looks for such endpoints".to_owned(), |row| reason(row) + more),
    }
}

/// The mutations that are on, if they are not those of the profile.
fn deviations(profile: Profile, mut policy: Policy) -> Option<Vec<String>> {
    if policy == policy_of(profile) {
        return None;
    }
    let names = Policy::DEVIATIONS.iter().map(|deviation| deviation.name).chain(ReclaimPolicy::DEVIATIONS.iter().map(|it| it.name));
    Some(names.filter(|name| policy.switch(name).is_some_and(|on| *on)).map(str::to_owned).collect())
}

fn remarks(dump: &Dump, settings: &ReclaimSettings) -> Vec<String> {
    let mut remarks = Vec::new();
    let mut missing = Vec::new();
    let objects = &dump.cluster.objects;
    let mut needs = |kind: &'static str, there: bool, wanted: bool| {
        if wanted && !there {
            missing.push(kind);
        }
    };
    let on_nodes = dump.pods.values().any(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()));
    needs("nodes", objects.nodes.iter().next().is_some(), on_nodes);
    needs("pods", !dump.pods.is_empty(), objects.pools.iter().next().is_some());
    let of_kind = |kind: &str| {
        let is = |endpoint: &Arc<SpiderEndpoint>| endpoint.status.as_ref().is_some_and(|status| status.owner_controller_type == kind);
        dump.cluster.endpoints.iter().any(is)
    };
    needs("statefulsets", objects.stateful_sets.iter().next().is_some(), of_kind("StatefulSet"));
    needs("virtualmachineinstances", dump.cluster.instances.iter().next().is_some(), of_kind("VirtualMachineInstance"));
    if !missing.is_empty() {
        let missing = missing.join(", ");
        remarks.push(format!("the manifests hold no {missing}; what is not in them counts as gone"));
    }
    if !settings.enabled {
        remarks.push("SPIDERPOOL_GC_IP_ENABLED is false: nothing would run, and this is what would happen if it did".to_owned());
    }
    remarks
}

fn warnings(dump: &Dump) -> Vec<String> {
    let mut warnings = Vec::new();
    for pool in dump.cluster.objects.pools.iter() {
        let Some(status) = &pool.status else { continue };
        let mut warn = |what: &dyn Display| warnings.push(format!("SpiderIPPool {}: status.allocatedIPs: {what}", name_of(pool)));
        match status.allocated_ips.parse() {
            Ok(records) => {
                records.iter().filter_map(stored::lost).for_each(|lost| warn(&lost));
                records.iter().filter_map(|(key, record)| unnamed(dump, key, record)).for_each(|unnamed| warn(&unnamed));
            }
            Err(error) => warn(&format_args!("{error}; its records are left alone")),
        }
    }
    warnings
}

/// A warning about an address that is lost while its pod lives: the pod has other addresses, and its endpoint does not name this one.
/// Neither a scan nor the agent takes the record back (G P-6).
fn unnamed(dump: &Dump, key: &RecordKey, record: &PoolIPAllocation) -> Option<String> {
    let address = key.address()?;
    let pod = dump.pod(&record.pod).ok()??;
    let shown: Vec<&str> = pod.status.iter().flat_map(|status| status.pod_ips.iter().flatten()).map(|ip| &*ip.ip).collect();
    let lives = pod.metadata.uid.as_deref() == Some(&record.pod_uid) && pod.metadata.deletion_timestamp.is_none();
    if !lives || shown.is_empty() || shown.contains(&&*address.to_string()) {
        return None;
    }
    let endpoint = dump.endpoint(&record.pod).ok()?;
    let ips = endpoint.iter().flat_map(|endpoint| endpoint.status.iter()).flat_map(|status| &status.current.ips);
    let named = ips.flat_map(|entry| entry.ipv4.iter().chain(&entry.ipv6)).filter_map(|text| text.split('/').next());
    let is_named = named.filter_map(|text| text.parse::<IpAddr>().ok()).any(|named| named == address);
    (!is_named).then(|| {
        format!(
            "{address} is recorded for {}, which lives and has other addresses, and its endpoint does not name it: the \
             address is lost until the pod is gone",
            record.pod
        )
    })
}
