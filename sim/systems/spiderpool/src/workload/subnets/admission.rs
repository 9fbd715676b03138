//! The effect of admission on pools and subnets that operators write, where no webhook is called (A §9.1, §9.2).

use std::sync::Arc;

use ipam_spiderpool::admission::{AdmissionSettings, Admitted, Listed, Request, Rules, mutate};
use ipam_spiderpool::select::Settings;
use ipam_spiderpool::{Policy, SpiderSubnet};
use kube_sim::cluster::Cluster;

use super::ops::SubnetPlan;

/// The settings of admission that follow from those of agents.
pub(in super::super) fn settings(select: &Settings) -> AdmissionSettings {
    AdmissionSettings {
        enable_ipv4: select.enable_ipv4,
        enable_ipv6: select.enable_ipv6,
        enable_spider_subnet: select.enable_spider_subnet,
        ..AdmissionSettings::default()
    }
}

/// A subnet in the form that operators write.
pub(in super::super) fn subnet_object(subnet: &SubnetPlan) -> SpiderSubnet {
    SpiderSubnet::new(&subnet.name, subnet.spec.clone())
}

/// An object that exists from the beginning, as admission left it: a pool belongs to the subnet of its CIDR, if the store has that already.
pub(in super::super) fn defaulted<K: Admitted>(object: K, cluster: &Cluster, select: &Settings) -> K {
    let subnets = cluster.dump().into_iter().filter_map(|(_, object)| object.as_any().downcast_ref::<SpiderSubnet>().cloned());
    let live = Listed { pools: Vec::new(), subnets: subnets.map(Arc::new).collect() };
    let (settings, policy) = (settings(select), Policy::hardened());
    let object = Arc::new(object);
    let rules = Rules { live: &live, settings: &settings, policy: &policy };
    let defaulted = mutate(&Request::Create(&object), &rules);
    Arc::unwrap_or_clone(defaulted.unwrap_or(object))
}
