//! Tier 1: the pools that were made from a subnet for a workload (A §2.2, §14.8).

use std::sync::Arc;

use ipam_spiderpool::SpiderIPPool;
use ipam_spiderpool::names::{
    AFFINITY_APP, ANNOTATION_IPPOOL_IP_NUMBER, ANNOTATION_IPPOOL_RECLAIM, ANNOTATION_SUBNET, ANNOTATION_SUBNETS, LABEL_INTERFACE,
    LABEL_IP_VERSION, LABEL_IPPOOL_RECLAIM, LABEL_OWNER_APPLICATION_GV, LABEL_OWNER_APPLICATION_KIND, LABEL_OWNER_APPLICATION_NAME,
    LABEL_OWNER_APPLICATION_NAMESPACE, LABEL_OWNER_APPLICATION_UID, LABEL_OWNER_SUBNET,
};
use ipam_spiderpool::ranges::{IpSet, parse_range};
use ipam_spiderpool::select::{TopController, Workload};
use ipam_spiderpool::{IPPoolSpec, Policy};

use super::Asked;
use super::text::{Item, item, items};

/// The subnets that a pod requests for one NIC, for IPv4 and IPv6, and the number of addresses that the pool is to have.
struct Wish {
    subnets: [Option<String>; 2],
    size: u64,
}

impl Asked<'_> {
    /// The pools of the NIC by family, or the error.
    pub(super) fn of_subnets(&self) -> Result<[Option<Arc<SpiderIPPool>>; 2], &'static str> {
        let settings = self.request.settings;
        if !settings.enable_auto_pool_for_application {
            return Err("subnet-auto-pool-disabled");
        }
        let wish = self.subnet_wish()?;
        let mut pools = [None, None];
        for (family, enabled) in [settings.enable_ipv4, settings.enable_ipv6].into_iter().enumerate() {
            if let Some(subnet) = wish.subnets[family].as_deref().filter(|_| enabled) {
                pools[family] = Some(self.auto_pool(subnet, family, wish.size)?);
            }
        }
        Ok(pools)
    }

    fn subnet_wish(&self) -> Result<Wish, &'static str> {
        let malformed = |()| "malformed-annotation";
        let (list, one) = (self.annotation(ANNOTATION_SUBNETS), self.annotation(ANNOTATION_SUBNET).unwrap_or_default());
        let wanted = match list {
            Some(text) => items(text).map_err(malformed)?,
            None => vec![item(one).map_err(malformed)?],
        };
        let first = |item: &Item, key| item.texts(key).map(|texts| texts.into_iter().next());
        let read = |item: &Item| Ok((item.text("interface")?, [first(item, "ipv4")?, first(item, "ipv6")?]));
        let wanted: Vec<(String, [Option<String>; 2])> = wanted.iter().map(read).collect::<Result<_, ()>>().map_err(malformed)?;
        for (at, (interface, subnets)) in wanted.iter().enumerate() {
            let again = |(other, others): &(String, [Option<String>; 2])| {
                other == interface || (0..2).any(|family| subnets[family].is_some() && subnets[family] == others[family])
            };
            let nothing = subnets.iter().all(Option::is_none) || subnets.iter().flatten().any(String::is_empty);
            if nothing || wanted[..at].iter().any(again) {
                return Err("subnet-invalid");
            }
        }
        if wanted.is_empty() {
            return Err("subnet-invalid");
        }
        let number = self.annotation(ANNOTATION_IPPOOL_IP_NUMBER).map(|text| ip_number(text).ok_or("subnet-bad-ip-number")).transpose()?;
        let truths = ["1", "t", "T", "true", "TRUE", "True", "0", "f", "F", "false", "FALSE", "False"];
        if self.annotation(ANNOTATION_IPPOOL_RECLAIM).is_some_and(|text| !truths.contains(&text)) {
            return Err("subnet-bad-reclaim");
        }
        if self.controller.workload == Workload::Orphan {
            return Err("subnet-orphan-pod");
        }
        let size = match (number, self.controller.workload.pods()) {
            (Some((false, fixed)), _) => fixed,
            (Some((true, more)), pods) => pods.unwrap_or(0) + more,
            (None, Some(pods)) => pods,
            (None, None) => return Err("subnet-needs-fixed-number"),
        };
        // The annotation for a single subnet applies to every NIC.
        let own = wanted.into_iter().find(|(interface, _)| list.is_none() || interface == self.request.nic);
        Ok(Wish { subnets: own.map_or([None, None], |(_, subnets)| subnets), size })
    }

    fn auto_pool(&self, subnet: &str, family: usize, size: u64) -> Result<Arc<SpiderIPPool>, &'static str> {
        let controller = self.controller;
        let group_version = controller.api_version.replacen('/', "_", 1);
        let wanted = [
            (LABEL_OWNER_APPLICATION_KIND, controller.kind.as_str()),
            (LABEL_OWNER_APPLICATION_NAMESPACE, &controller.namespace),
            (LABEL_INTERFACE, self.request.nic),
            (LABEL_IP_VERSION, ["IPv4", "IPv6"][family]),
        ];
        let third_party = controller.workload.pods().is_none();
        let mut found: Vec<Arc<SpiderIPPool>> = Vec::new();
        self.cluster.for_each_pool(&mut |pool| {
            let same_uid = label(pool, LABEL_OWNER_APPLICATION_UID) == Some(&controller.uid);
            let kept = third_party && label(pool, LABEL_IPPOOL_RECLAIM) != Some("true");
            let named = is_labelled(pool, LABEL_OWNER_APPLICATION_NAME, &controller.name)
                && is_labelled(pool, LABEL_OWNER_APPLICATION_GV, &group_version)
                && is_labelled(pool, LABEL_OWNER_SUBNET, subnet);
            if named && wanted.iter().all(|(key, value)| label(pool, key) == Some(value)) && (same_uid || kept) {
                found.push(Arc::clone(pool));
            }
        });
        found.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        if !third_party {
            return match found.len() {
                0 => Err("subnet-no-auto-pool"),
                1 => Ok(found.remove(0)),
                _ => Err("subnet-many-auto-pools"),
            };
        }
        // No controller corrects the size of such a pool: the agent has to do so and retry. Once it has, another agent whose pods ask for a
        // different number may have changed the size again, and both would retry forever.
        let object = self.cluster.subnet(subnet).filter(|object| object.metadata.deletion_timestamp.is_none());
        let is_ready = |pool: &Arc<SpiderIPPool>| {
            (self.request.made || size_of(&pool.spec) == Some(u128::from(size)))
                && object.as_ref().is_some_and(|object| object.spec.subnet == pool.spec.subnet)
        };
        // The workload's own pool takes precedence over one that a namesake left behind.
        let own = found.iter().position(|pool| label(pool, LABEL_OWNER_APPLICATION_UID) == Some(&controller.uid));
        let pool = (!found.is_empty()).then(|| found.swap_remove(own.unwrap_or(0)));
        pool.filter(is_ready).ok_or("subnet-reconcile-failed")
    }
}

/// The number of addresses of a pool.
fn size_of(spec: &IPPoolSpec) -> Option<u128> {
    let set = |texts: &Option<Vec<String>>| -> Option<IpSet> {
        texts.iter().flatten().map(|text| parse_range(text, spec.ip_version?, &Policy::hardened()).ok()).collect()
    };
    Some(set(&spec.ips)?.difference(&set(&spec.exclude_ips)?).count())
}

/// Parses a number of addresses; the flag says whether it is relative to the number of pods. Any text before the `+` is ignored (A §14.8).
fn ip_number(text: &str) -> Option<(bool, u64)> {
    let (flexible, number) = text.split_once('+').map_or((false, text), |(_, number)| (true, number));
    let number: i64 = if number.contains('+') { return None } else { number.parse().ok()? };
    Some((flexible, u64::try_from(number).ok()?))
}

/// Whether a pool is labelled with a name. A name of the maximum length of a label or longer must also appear in the pool's affinity or
/// owner references.
fn is_labelled(pool: &SpiderIPPool, key: &str, name: &str) -> bool {
    if name.len() < 63 {
        return label(pool, key) == Some(name);
    }
    let affinity = || pool.spec.pod_affinity.iter().flat_map(|affinity| &affinity.match_labels).flatten().map(|(_, value)| value.clone());
    let group = |name: &str| name.rsplit_once('_').map_or("", |(group, _)| group).to_owned();
    let stands = match key {
        LABEL_OWNER_SUBNET => pool.metadata.owner_references.iter().flatten().any(|owner| owner.name == name),
        LABEL_OWNER_APPLICATION_GV => affinity().any(|value| value == group(name)),
        _ => affinity().any(|value| value == name),
    };
    stands && label(pool, key).is_some_and(|label| label.get(..40) == name.get(..40))
}

fn label<'a>(pool: &'a SpiderIPPool, key: &str) -> Option<&'a str> {
    pool.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// Whether a pool was made for a workload (A §1.1).
pub(super) fn is_auto(pool: &SpiderIPPool) -> bool {
    label(pool, LABEL_OWNER_APPLICATION_NAME).is_some()
}

/// Whether an auto pool was made for this workload (A §3 rule 8); no pool matches a workload of the core group (A §14.12).
pub(super) fn is_made_for(pool: &SpiderIPPool, controller: &TopController) -> bool {
    let Some((group, version)) = controller.api_version.split_once('/') else { return false };
    let labels = pool.spec.pod_affinity.as_ref().and_then(|affinity| affinity.match_labels.as_ref());
    let values = [group, version, &controller.kind, &controller.namespace, &controller.name];
    AFFINITY_APP.iter().zip(values).all(|(key, value)| labels.and_then(|labels| labels.get(*key)).map_or("", String::as_str) == value)
}
