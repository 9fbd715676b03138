//! The tiers of selection, each with its state and the reason for it (A §2.1).

use ipam_reports::explain::{TierLine, TierState};
use ipam_spiderpool::names;
use ipam_spiderpool::ranges::IpVersion;
use ipam_spiderpool::select::{Cluster, Objects, Request, SelectError, Selection, Tier, annotation};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

/// The content of a tier, whether or not selection reached it.
enum Says {
    /// The tier is absent; the text names what is missing.
    Nothing(String),
    /// The tier is there but does not count.
    Ignored(String),
    /// The tier is there, readable or not; the text is its content.
    Something(String),
}

/// The tiers from the first to the last; empty if the decision did not reach them.
pub(super) fn ladder(objects: &Objects, request: &Request<'_>, selection: &Selection) -> Vec<TierLine> {
    let reached =
        selection.tier != Tier::None || matches!(selection.error, Some(SelectError::NoPool | SelectError::MissingNamespace { .. }));
    if !reached {
        return Vec::new();
    }
    let fired = Tier::ALL.into_iter().position(|tier| tier == selection.tier);
    let line = |(at, tier): (usize, Tier)| {
        let (state, why) = match says(objects, request, tier) {
            Says::Nothing(why) => (TierState::Absent, why),
            Says::Ignored(why) => (TierState::Ignored, why),
            Says::Something(why) if Some(at) == fired => (TierState::Fired, why),
            Says::Something(why) => (TierState::Outranked, why),
        };
        // Its content does not matter: the decision was made elsewhere.
        let state = if Some(at) == fired { TierState::Fired } else { state };
        let document = tier.documented().unwrap_or_default();
        TierLine { tier: tier.name().to_owned(), document, state, why }
    };
    Tier::ALL.into_iter().enumerate().map(line).collect()
}

fn says(objects: &Objects, request: &Request<'_>, tier: Tier) -> Says {
    let Request { pod, settings, cni, .. } = *request;
    match tier {
        Tier::Subnet => match annotated(pod, &[names::ANNOTATION_SUBNETS, names::ANNOTATION_SUBNET]) {
            None => Says::Nothing("no annotation subnets or subnet".to_owned()),
            Some(text) if !settings.enable_spider_subnet => Says::Ignored(format!("{text}, but enableSpiderSubnet is false")),
            Some(text) => Says::Something(text),
        },
        Tier::PodIPPools => pod_tier(pod, names::ANNOTATION_IPPOOLS, "no annotation ippools"),
        Tier::PodIPPool => pod_tier(pod, names::ANNOTATION_IPPOOL, "no annotation ippool"),
        Tier::Namespace => of_namespace(objects, request),
        Tier::CniConfig => {
            let lists = [("default_ipv4_ippool", IpVersion::V4), ("default_ipv6_ippool", IpVersion::V6)];
            let named = lists.map(|(key, family)| (key, cni.of(family))).into_iter().filter(|(_, pools)| !pools.is_empty());
            let texts: Vec<String> = named.map(|(key, pools)| format!("{key} [{}]", pools.join(", "))).collect();
            if texts.is_empty() {
                Says::Nothing("no default_ipv4_ippool or default_ipv6_ippool".to_owned())
            } else {
                Says::Something(texts.join(", "))
            }
        }
        Tier::ClusterDefault => {
            let mut pools = Vec::new();
            objects.for_each_default_pool(&mut |pool| pools.push(super::name_of(pool).to_owned()));
            if pools.is_empty() {
                Says::Nothing("no pool with spec.default".to_owned())
            } else {
                Says::Something(format!("spec.default of [{}]", pools.join(", ")))
            }
        }
        Tier::None => Says::Nothing(String::new()),
    }
}

fn pod_tier(pod: &Pod, key: &str, absent: &str) -> Says {
    annotated(pod, &[key]).map_or_else(|| Says::Nothing(absent.to_owned()), Says::Something)
}

/// The first of the annotations `keys` that the pod has.
fn annotated(pod: &Pod, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| pod.annotations().get(*key).map(|text| format!("{} {text}", short(key))))
}

/// The name of an annotation without the common prefix.
fn short(key: &str) -> &str {
    key.strip_prefix("ipam.spidernet.io/").unwrap_or(key)
}

fn of_namespace(objects: &Objects, request: &Request<'_>) -> Says {
    let name = request.pod.metadata.namespace.as_deref().unwrap_or_default();
    let Some(namespace) = objects.namespace(name) else {
        return Says::Nothing(format!("the namespace {name} is not known"));
    };
    let (mut texts, mut empty) = (Vec::new(), Vec::new());
    for family in IpVersion::ALL {
        match annotation::of_namespace(&namespace, family, !request.policy.outdated_keys_ignored) {
            Ok(wish) => {
                let text = format!("{family} [{}]", wish.pools.join(", "));
                if wish.pools.is_empty() { empty.push(text) } else { texts.push(text) }
            }
            Err(error) => texts.push(error.to_string()),
        }
    }
    if texts.is_empty() {
        Says::Nothing(format!("no default pools in the annotations of namespace {name}"))
    } else {
        Says::Something(format!("annotations of namespace {name}: {}", texts.join(", ")))
    }
}
