//! Explains why a pod gets its pools and its addresses.
//!
//! ```text
//!   manifests, settings, CNI configuration ──► Question ──► the decision of core ──► ExplainReport
//!                                                            + what each pool would give
//!                                                            + the ADD of core's agent
//!                                                            + words for each verdict
//! ```
//!
//! The verb `explain` and tests use it. Every decision is core's ([`select`], [`Asker::next_free_ip`], and the agent, which runs the ADD
//! once against the objects in memory); this module only puts decisions into words. Nothing outside is written.
//!
//! [`Asker::next_free_ip`]: ipam_spiderpool::select::Asker::next_free_ip

mod add;
mod agent;
mod args;
mod auto_pool;
mod detail;
mod explainer;
mod inherited;
mod ladder;
mod outcome;
mod reclaim;
mod refused;
pub mod text;
mod warnings;

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipam_reports::ExplainReport;
use ipam_reports::explain::{NicAnswer, Rejected};
use ipam_reports::schema::ExplainSchema;
use ipam_spiderpool::ipam::AgentSettings;
use ipam_spiderpool::select::{IpamConfig, Kept, NicSelection, Objects, Reason, Request, Selection, Settings, select};
use ipam_spiderpool::{Policy, SpiderEndpoint, SpiderIPPool};
use k8s_openapi::api::core::v1::Pod;
use kube_machinery::kubevirt::VirtualMachineInstance;
use sim_config::manifest::Manifest;
use sim_harness::deviation::Profile;

use self::outcome::Outcome;

pub use crate::input::form::policy_of;
pub use reclaim::{ReclaimQuestion, explain_reclaim};

/// Everything on which the answer depends.
#[derive(Clone, Debug)]
pub struct Question {
    /// The known objects of the cluster.
    pub objects: Objects,
    /// The SpiderEndpoints; that of the pod, or of its VMI, may be among them.
    pub endpoints: Kept<SpiderEndpoint>,
    /// The VirtualMachineInstances, which say which pods run them.
    pub instances: Kept<VirtualMachineInstance>,
    /// The pod that asks; one without a UID does not exist yet, and nothing is recorded for it.
    pub pod: Pod,
    /// The node on which the pod runs.
    pub node: String,
    /// The NIC of the ADD.
    pub nic: String,
    /// The CNI configuration of the ADD.
    pub cni: IpamConfig,
    /// The addresses of the physical function behind the NIC.
    pub master: Vec<IpAddr>,
    /// The settings of the cluster.
    pub settings: Settings,
    /// The other settings of agents; its `select` is ignored.
    pub agent: AgentSettings,
    /// The origin of the settings; `None` = the defaults.
    pub settings_from: Option<String>,
    /// The requested profile of Spiderpool.
    pub profile: Profile,
    /// The form of Spiderpool: that of the profile, with mutations added or removed.
    pub policy: Policy,
    /// The manifests of pools, subnets and reservations, as far as known.
    pub written: Vec<Manifest>,
    /// The places of the pod's and its namespace's annotations, by annotation key: `FILE:LINE:COLUMN`.
    pub places: BTreeMap<String, String>,
}

impl Question {
    /// The request in the form that core takes.
    pub fn request(&self) -> Request<'_> {
        let Self { pod, node, nic, cni, master, settings, policy, .. } = self;
        Request { pod, node, nic, cni, master, settings, policy, made: false }
    }

    /// The key of the pod, `namespace/name`.
    pub fn pod_key(&self) -> String {
        let meta = &self.pod.metadata;
        format!("{}/{}", meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
    }
}

/// Answers a question: the result of selection, and what one ADD of the agent then gives. A pod on the host network is refused.
pub fn explain(question: &Question) -> ExplainReport {
    let mut named = None;
    let question = if question.pod.metadata.uid.as_ref().is_some_and(|uid| !uid.is_empty()) {
        question
    } else {
        // A pod that does not exist yet can have no addresses.
        let question = named.insert(question.clone());
        question.pod.metadata.uid = Some("explained".to_owned());
        &*question
    };
    if question.pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true) {
        let selection = Selection::default();
        return report(
            question,
            &selection,
            Vec::new(),
            Outcome { error: Some(refused::host_network()), ..Outcome::default() },
            Vec::new(),
        );
    }
    let request = question.request();
    let selection = select(&question.objects, &request);
    let withheld = add::withheld(question);
    let mut nics: Vec<NicAnswer> = selection.nics.iter().map(|nic| nic_answer(question, &selection, nic, &withheld)).collect();
    let mut remarks = remarks(question, &selection);
    add::give(question, &selection, &withheld, &mut nics, &mut remarks);
    let ended = agent::add(question);
    let outcome = outcome::settle(question, &selection, &ended, &mut nics, &mut remarks);
    remarks.extend(inherited::remark(question, &selection, &ended, outcome.error.is_some()));
    report(question, &selection, nics, outcome, remarks)
}

fn report(question: &Question, selection: &Selection, nics: Vec<NicAnswer>, outcome: Outcome, mut remarks: Vec<String>) -> ExplainReport {
    let Outcome { error, allocate_error, reuse } = outcome;
    let auto_pools = auto_pool::auto_pools(question, selection);
    remarks.extend(auto_pool::remark(question, &auto_pools));
    ExplainReport {
        schema: ExplainSchema,
        pod: question.pod_key(),
        node: question.node.clone(),
        nic: question.nic.clone(),
        profile: profile_name(question.profile).to_owned(),
        deviations: deviations(question),
        settings: question.settings_from.clone(),
        tier: selection.tier.name().to_owned(),
        tiers: ladder::ladder(&question.objects, &question.request(), selection),
        nameless: selection.nameless,
        nics,
        reuse,
        auto_pools,
        error,
        allocate_error,
        remarks,
        warnings: warnings::warnings(question, selection),
    }
}

fn profile_name(profile: Profile) -> &'static str {
    match profile {
        Profile::Hardened => "hardened",
        Profile::Upstream => "upstream",
    }
}

/// The mutations that are on, if they are not those of the profile.
fn deviations(question: &Question) -> Option<Vec<String>> {
    let mut policy = question.policy;
    let mut is_on = |name| policy.switch(name).is_some_and(|on| *on);
    let on = Policy::DEVIATIONS.iter().filter(|deviation| is_on(deviation.name)).map(|deviation| deviation.name.to_owned()).collect();
    (question.policy != policy_of(question.profile)).then_some(on)
}

/// The result of selection for a NIC, before any address is drawn.
fn nic_answer(question: &Question, selection: &Selection, nic: &NicSelection, withheld: &add::Withheld) -> NicAnswer {
    let families = nic.families.iter().map(|family| {
        let rejected = family.rejected().map(|(pool, reason)| Rejected {
            pool: pool.to_owned(),
            reason: reason.code().to_owned(),
            detail: detail::of(question, selection, &nic.nic, family.family, pool, reason),
        });
        add::family_answer(question, &nic.nic, family, withheld, rejected.collect())
    });
    NicAnswer { nic: nic.nic.clone(), clean_gateway: nic.clean_gateway, families: families.collect() }
}

/// The name of a pool.
fn name_of(pool: &SpiderIPPool) -> &str {
    pool.metadata.name.as_deref().unwrap_or_default()
}

fn remarks(question: &Question, selection: &Selection) -> Vec<String> {
    let mut remarks = Vec::new();
    for key in &selection.outdated {
        remarks.push(format!(
            "the annotation {key} of the namespace is outdated; write ipam.spidernet.io/default-ipv4-ippool or …-ipv6-ippool"
        ));
    }
    if selection.unsettled {
        remarks.push("an auto-created pool has not its size yet: an agent would wait for it, and take it as it is in the end".to_owned());
    }
    let rejects = |nic: &NicSelection| {
        nic.families.iter().any(|family| family.rejected().any(|(_, reason)| matches!(reason, Reason::NodeName | Reason::NodeAffinity)))
    };
    if question.node.is_empty() && selection.nics.iter().any(rejects) {
        remarks.push("the pod is on no node yet; --node NAME asks for one".to_owned());
    }
    remarks
}
