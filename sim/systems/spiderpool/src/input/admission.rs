//! The verdicts of Spiderpool's webhooks on manifests (A §9).
//!
//! `check` judges manifests as if their objects were created one after the other; `explain` judges the objects that a decision looked at,
//! each as if it were created last. Every rule is core's ([`Admitted::audit`]); this module supplies the objects for it, and the places in
//! files.

mod existing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use existing::{Beside, Existing};
use ipam_spiderpool::admission::{AdmissionSettings, Admitted, Denial, Fault, Request, Rules, Violation, mutate};
use ipam_spiderpool::names::{GROUP, VERSION};
use ipam_spiderpool::select::Settings;
use ipam_spiderpool::{Policy, SpiderIPPool, SpiderReservedIP, SpiderSubnet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_machinery::controller_of;
use sim_config::manifest::Manifest;
use sim_harness::webhook::Broken;

/// Admission of a cluster: the settings and rules by which objects are judged, and the objects that exist.
#[derive(Clone, Debug)]
pub struct Admission<'a> {
    settings: AdmissionSettings,
    policy: &'a Policy,
    existing: Existing,
}

/// The settings of a cluster that matter to admission.
pub fn settings_of(settings: &Settings) -> AdmissionSettings {
    AdmissionSettings {
        enable_ipv4: settings.enable_ipv4,
        enable_ipv6: settings.enable_ipv6,
        enable_spider_subnet: settings.enable_spider_subnet,
        ..AdmissionSettings::default()
    }
}

/// The kind of a manifest; `None` = admission does not judge objects of this kind.
pub fn kind_of(manifest: &Manifest) -> Option<&'static str> {
    let kinds = ["SpiderSubnet", "SpiderIPPool", "SpiderReservedIP"];
    let kind = kinds.into_iter().find(|kind| *kind == manifest.kind)?;
    (manifest.api_version.split_once('/') == Some((GROUP, VERSION))).then_some(kind)
}

/// The order in which objects are created: as they are written, but a subnet before the pools that name it as their owner, because they
/// could not exist without it. Objects of other kinds are left out.
pub fn in_order(manifests: &[Manifest]) -> Vec<&Manifest> {
    let mut subnets: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, subnet) in manifests.iter().enumerate().filter(|(_, manifest)| kind_of(manifest) == Some("SpiderSubnet")) {
        subnets.entry(&subnet.name).or_insert(at);
    }
    let (mut order, mut early) = (Vec::new(), BTreeSet::new());
    for (at, manifest) in manifests.iter().enumerate() {
        match kind_of(manifest) {
            Some("SpiderIPPool") => {
                if let Some(owner) = owner_in(manifest).and_then(|name| subnets.get(name)).filter(|owner| **owner > at)
                    && early.insert(*owner)
                {
                    order.push(&manifests[*owner]);
                }
                order.push(manifest);
            }
            Some(_) if !early.contains(&at) => order.push(manifest),
            _ => {}
        }
    }
    order
}

/// The name of the subnet that controls a pool.
fn owner_in(pool: &Manifest) -> Option<&str> {
    let owners = pool.value["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)?["name"].as_str()
}

impl<'a> Admission<'a> {
    /// Admission in a cluster without pools and subnets; `policy` says which rules deviate.
    pub fn new(settings: AdmissionSettings, policy: &'a Policy) -> Self {
        Self { settings, policy, existing: Existing::default() }
    }

    /// Judges the creation of the next object. Unless it is refused, it exists from then on, and later objects are judged beside it.
    pub fn create(&mut self, manifest: &Manifest) -> Vec<Broken> {
        match kind_of(manifest) {
            Some("SpiderIPPool") => {
                let Ok(pool) = manifest.decode::<SpiderIPPool>() else { return Vec::new() };
                let broken = self.judge_pool(&pool);
                if broken.iter().all(|broken| broken.unknown) {
                    self.add_pool(Arc::new(pool));
                }
                broken
            }
            Some("SpiderSubnet") => {
                let Ok(subnet) = manifest.decode::<SpiderSubnet>() else { return Vec::new() };
                let broken = self.judge_subnet(&subnet);
                if broken.is_empty() {
                    self.add_subnet(Arc::new(subnet));
                }
                broken
            }
            Some(_) => manifest.decode::<SpiderReservedIP>().map_or_else(|_| Vec::new(), |reserved| self.judge_reserved(&reserved)),
            None => Vec::new(),
        }
    }

    /// Adds a pool that exists, unless there is one of this name.
    pub fn add_pool(&mut self, pool: Arc<SpiderIPPool>) {
        let pool = self.defaulted(pool);
        self.existing.add_pool(pool, self.policy);
    }

    /// Adds a subnet that exists, unless there is one of this name.
    pub fn add_subnet(&mut self, subnet: Arc<SpiderSubnet>) {
        let subnet = self.defaulted(subnet);
        self.existing.add_subnet(subnet, self.policy);
    }

    /// The same cluster with another state of a subnet.
    pub fn with_subnet(self, subnet: Arc<SpiderSubnet>) -> Self {
        let subnet = self.defaulted(subnet);
        let others = self.existing.subnets().iter().filter(|other| other.metadata.name != subnet.metadata.name).cloned();
        let subnets: Vec<_> = others.chain([subnet.clone()]).collect();
        Self { existing: self.existing.with_subnets(subnets, self.policy), ..self }
    }

    /// Every rule that a new pool would break. Rules that need the pool's owner are `unknown` if the owner is not among the manifests.
    pub fn judge_pool(&self, new: &SpiderIPPool) -> Vec<Broken> {
        self.judge_pool_beside(new, self.existing.beside_pool(&self.defaulted(Arc::new(new.clone())), self.policy))
    }

    /// Every rule that an existing pool would break if it were created last.
    pub fn judge_stored_pool(&self, pool: &SpiderIPPool) -> Vec<Broken> {
        let mut live = self.existing.beside_pool(&self.defaulted(Arc::new(pool.clone())), self.policy);
        live.pools.retain(|other| other.metadata.name != pool.metadata.name);
        self.judge_pool_beside(pool, live)
    }

    /// Every rule that a new subnet would break.
    pub fn judge_subnet(&self, new: &SpiderSubnet) -> Vec<Broken> {
        self.judge(new, &self.existing.beside_subnet(new, self.policy))
    }

    /// Every rule that an existing subnet would break if it were created last.
    pub fn judge_stored_subnet(&self, subnet: &SpiderSubnet) -> Vec<Broken> {
        let mut live = self.existing.beside_subnet(subnet, self.policy);
        live.subnets.to_mut().retain(|other| other.metadata.name != subnet.metadata.name);
        self.judge(subnet, &live)
    }

    /// Every rule that a reservation breaks, new or not: it is compared with nothing.
    pub fn judge_reserved(&self, new: &SpiderReservedIP) -> Vec<Broken> {
        self.judge(new, &Beside::default())
    }

    fn judge_pool_beside(&self, new: &SpiderIPPool, live: Beside<'_>) -> Vec<Broken> {
        let is_known = |owner: &OwnerReference| live.subnets.iter().any(|subnet| subnet.metadata.name.as_ref() == Some(&owner.name));
        let owner = controller_of(&new.metadata);
        let mut broken = self.judge(new, &live);
        if owner.is_some_and(|owner| !is_known(owner)) {
            let internal = Fault::Internal.as_str();
            broken.iter_mut().filter(|broken| broken.fault == internal).for_each(|broken| broken.unknown = true);
        }
        broken
    }

    fn judge<K: Admitted>(&self, new: &K, live: &Beside<'_>) -> Vec<Broken> {
        match new.audit(&self.rules(live)) {
            Ok(()) => Vec::new(),
            Err(Denial::Invalid(violations)) => violations.into_iter().map(of_violation).collect(),
            Err(denial) => vec![of_denial(&denial)],
        }
    }

    /// Fills in an object's defaults.
    fn defaulted<K: Admitted>(&self, object: Arc<K>) -> Arc<K> {
        mutate(&Request::Create(&object), &self.rules(&self.existing.for_defaults())).unwrap_or(object)
    }

    fn rules<'b>(&'b self, live: &'b Beside<'b>) -> Rules<'b> {
        Rules { live, settings: &self.settings, policy: self.policy }
    }
}

fn of_denial(denial: &Denial) -> Broken {
    Broken { field: "metadata.name".to_owned(), message: denial.to_string(), fault: denial.reason().as_str(), unknown: false }
}

fn of_violation(violation: Violation) -> Broken {
    let Violation { field, fault, message } = violation;
    Broken { field: field.into_owned(), message, fault: fault.as_str(), unknown: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim_config::manifest;

    fn manifests(objects: &[(&str, &str, &str)]) -> Vec<Manifest> {
        let text = |(kind, name, owner): &(&str, &str, &str)| {
            let owners = if owner.is_empty() { String::new() } else { format!(", ownerReferences: [{{controller: true, name: {owner}}}]") };
            format!("{{apiVersion: spiderpool.spidernet.io/v2beta1, kind: {kind}, metadata: {{name: {name}{owners}}}, spec: {{}}}}\n")
        };
        manifest::parse("x.yaml", objects.iter().map(text).collect::<Vec<_>>().join("---\n").as_bytes()).unwrap()
    }

    #[test]
    fn a_name_that_is_taken_is_refused_as_by_the_api_server() {
        assert_eq!(of_denial(&Denial::AlreadyExists), Broken::already_exists());
    }

    #[test]
    fn a_subnet_is_there_before_the_pools_that_it_owns_and_all_else_is_in_the_order_of_the_files() {
        let manifests = manifests(&[
            ("SpiderIPPool", "free", ""),
            ("SpiderIPPool", "owned", "s2"),
            ("SpiderEndpoint", "e", ""),
            ("SpiderReservedIP", "r", ""),
            ("SpiderSubnet", "s1", ""),
            ("SpiderSubnet", "s2", ""),
            ("SpiderSubnet", "s2", ""),
            ("SpiderIPPool", "owned-too", "s2"),
            ("SpiderIPPool", "orphan", "gone"),
        ]);
        let names: Vec<&str> = in_order(&manifests).iter().map(|manifest| manifest.name.as_str()).collect();
        assert_eq!(names, ["free", "s2", "owned", "r", "s1", "s2", "owned-too", "orphan"]);
    }
}
