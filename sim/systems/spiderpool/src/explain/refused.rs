//! The reason why no pool is tried, in words, and the place of the annotation that is to blame.

use ipam_reports::explain::Refusal;
use ipam_reports::reference;
use ipam_spiderpool::names;
use ipam_spiderpool::ranges::IpVersion;
use ipam_spiderpool::select::{SelectError, Selection, Tier};
use k8s_openapi::api::core::v1::Pod;

use super::Question;

/// The refusal that follows from an error of selection.
pub(super) fn refusal(question: &Question, selection: &Selection, error: &SelectError) -> Refusal {
    let keys = error.annotation().map_or_else(|| of_tier(question, selection.tier, error), |key| vec![key]);
    let place = keys.into_iter().find_map(|key| question.places.get(key)).cloned();
    let message = match error {
        SelectError::DeadPod => format!("{error}: {}; {}", death(&question.pod), reference::see("A §7.2")),
        error => error.to_string(),
    };
    Refusal { class: error.class().to_owned(), message, place }
}

/// The refusal of a pod on the host network.
pub(super) fn host_network() -> Refusal {
    let message = "the pod is on the network of its node (spec.hostNetwork), so that no CNI plugin is asked for an address".to_owned();
    Refusal { class: "host-network".to_owned(), message, place: None }
}

/// The rule by which a pod counts as dead.
fn death(pod: &Pod) -> String {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let policy = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("not set");
    if let Some(since) = &pod.metadata.deletion_timestamp {
        format!("deletionTimestamp {} is set", since.0)
    } else if phase == "Failed" && status.and_then(|status| status.reason.as_deref()) == Some("Evicted") {
        "its phase is Failed and the reason Evicted".to_owned()
    } else {
        format!("its phase is {phase} and its restartPolicy {policy}")
    }
}

/// The annotations that may be to blame for the names of pools: those of the tier that fired, the one that takes precedence first.
fn of_tier(question: &Question, tier: Tier, error: &SelectError) -> Vec<&'static str> {
    let (family, text) = match error {
        SelectError::BadWildcard { pattern } => (None, Some(pattern)),
        SelectError::DuplicatePool { family, pool } | SelectError::MissingPool { family, pool } => (Some(*family), Some(pool)),
        SelectError::SubnetOrphanPod | SelectError::SubnetAutoPoolDisabled => (None, None),
        _ => return Vec::new(),
    };
    match tier {
        Tier::Subnet => vec![names::ANNOTATION_SUBNETS, names::ANNOTATION_SUBNET],
        Tier::PodIPPools => vec![names::ANNOTATION_IPPOOLS],
        Tier::PodIPPool => vec![names::ANNOTATION_IPPOOL],
        Tier::Namespace => {
            let keys = [
                (IpVersion::V4, names::ANNOTATION_DEFAULT_IPV4_IPPOOL),
                (IpVersion::V4, names::ANNOTATION_DEFAULT_IPV4_IPPOOL_OUTDATED),
                (IpVersion::V6, names::ANNOTATION_DEFAULT_IPV6_IPPOOL),
                (IpVersion::V6, names::ANNOTATION_DEFAULT_IPV6_IPPOOL_OUTDATED),
            ];
            let namespace = question.pod.metadata.namespace.as_deref().unwrap_or_default();
            let namespace = question.objects.namespaces.get("", namespace);
            let annotations = namespace.and_then(|namespace| namespace.metadata.annotations.as_ref());
            let is_it = |of: IpVersion, key: &str| {
                let says = annotations.and_then(|annotations| annotations.get(key));
                family.is_none_or(|family| family == of)
                    // A name behind a pattern is in no text; then the place is the first annotation of the family.
                    && says.is_some_and(|says| family.is_some() || text.is_none_or(|text| says.contains(text.as_str())))
            };
            keys.into_iter().filter(|(of, key)| is_it(*of, key)).map(|(_, key)| key).collect()
        }
        _ => Vec::new(),
    }
}
