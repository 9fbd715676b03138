//! The part of an object that enters the digest of a run when it is written: a few words, without allocating.

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::api::core::v1::{NodeCondition, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube_machinery::WordHash;

/// A time, which counts with its microseconds.
pub trait Moment {
    /// The time as a word.
    fn word(&self) -> u64;
}

impl Moment for Time {
    fn word(&self) -> u64 {
        self.0.as_microsecond() as u64
    }
}

impl Moment for MicroTime {
    fn word(&self) -> u64 {
        self.0.as_microsecond() as u64
    }
}

/// A time as a word of a digest; no time has a separate word.
pub fn moment(time: Option<&impl Moment>) -> u64 {
    time.map_or(u64::MAX, Moment::word)
}

/// All metadata that writers choose; values set by the server follow from the rest of the digest.
pub(super) fn of_metadata(meta: &ObjectMeta) -> WordHash {
    let maps = [&meta.labels, &meta.annotations];
    let mut hash = WordHash::new()
        .option(meta.uid.as_deref())
        .word(meta.generation.unwrap_or(0) as u64)
        .word(moment(meta.deletion_timestamp.as_ref()))
        .word(meta.deletion_grace_period_seconds.map_or(u64::MAX, |seconds| seconds as u64))
        .texts(meta.finalizers.iter().flatten().map(String::as_str))
        .texts(meta.owner_references.iter().flatten().map(|owner| owner.uid.as_str()));
    for map in maps {
        hash = hash.texts(map.iter().flatten().flat_map(|(key, value)| [key.as_str(), value.as_str()]));
    }
    hash
}

/// The holder of a lease, and the times of its acquisition and renewal.
pub(super) fn of_lease(spec: Option<&LeaseSpec>) -> u64 {
    let Some(spec) = spec else { return 0 };
    WordHash::new()
        .option(spec.holder_identity.as_deref())
        .word(spec.lease_duration_seconds.unwrap_or(0) as u64)
        .word(spec.lease_transitions.unwrap_or(0) as u64)
        .word(moment(spec.acquire_time.as_ref()))
        .word(moment(spec.renew_time.as_ref()))
        .finish()
}

/// The node, the state and the addresses of a pod.
pub(super) fn of_pod(pod: &Pod) -> u64 {
    let mut hash = WordHash::new();
    if let Some(spec) = &pod.spec {
        hash =
            hash.option(spec.node_name.as_deref()).texts(spec.containers.iter().flat_map(|container| &container.image).map(String::as_str));
    }
    if let Some(status) = &pod.status {
        hash = hash
            .option(status.phase.as_deref())
            .option(status.reason.as_deref())
            .option(status.pod_ip.as_deref())
            .texts(status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str()))
            .texts(status.conditions.iter().flatten().flat_map(|PodCondition { type_, status, .. }| [type_.as_str(), status.as_str()]));
    }
    hash.finish()
}

/// The conditions of a node, with their heartbeat times.
pub(super) fn of_conditions(conditions: Option<&Vec<NodeCondition>>) -> u64 {
    let fold = |hash: WordHash, condition: &NodeCondition| {
        hash.text(&condition.type_).text(&condition.status).word(moment(condition.last_heartbeat_time.as_ref()))
    };
    conditions.into_iter().flatten().fold(WordHash::new(), fold).finish()
}
