//! The decisions that a scan would make now, without their execution.

use jiff::Timestamp;

use super::caches::{Caches, cached_node, cached_pod};
use super::event::Circumstances;
use super::outdated::{is_outdated, pools_of};
use super::question::Owners;
use super::record::{Judgement, judge_record};
use super::row::Row;
use super::settings::ReclaimSettings;
use super::view::{RecordView, is_ending, key_of_record, seen};
use crate::ipam::uid_of;
use crate::{Policy, SpiderIPPool};
use kube_machinery::api::ObjectKey;

/// The action of a scan on a record, or on an endpoint that no record leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// The record, or the endpoint, stays.
    Keep,
    /// The record, or the endpoint that no record leads to, is removed.
    Release,
    /// It stays, and its pod is traced until its deadline.
    Track,
    /// Upstream's process would crash.
    Crash,
}

impl Action {
    /// The public name: one word in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Release => "release",
            Self::Track => "track",
            Self::Crash => "crash",
        }
    }
}

/// One record, with its expected fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The pool; absent for an endpoint that no record leads to.
    pub pool: Option<String>,
    /// The address, as it is recorded.
    pub ip: Option<String>,
    /// `namespace/name` in the record.
    pub key: String,
    /// The UID in the record.
    pub uid: String,
    /// The expected action on it.
    pub action: Action,
    /// Whether the endpoint of that name would be removed.
    pub endpoint: bool,
    /// The time when the pod's entitlement ends or ended, if time matters.
    pub at: Option<Timestamp>,
    /// The row that decided about the record, or about an endpoint that no record leads to.
    pub row: Row,
    /// The reason why the endpoint would be removed or stay, if that was decided.
    pub endpoint_row: Option<Row>,
}

/// The expected action of a leader's scan on each record in `caches`, by pool and address; then on each endpoint that no record leads to.
/// `owners` holds the StatefulSets and VMs.
pub fn explain(
    caches: &impl Caches,
    owners: &impl Owners,
    now: Timestamp,
    settings: &ReclaimSettings,
    policy: &Policy,
) -> Vec<Explanation> {
    let node = |name: &str| cached_node(caches, name);
    let runs_until = |uid: &str| caches.runs_until(uid);
    let it = Circumstances { now, leading: true, settings, policy, node: &node, runs_until: &runs_until };
    let mut explained = Vec::new();
    let about = |pool: Option<&SpiderIPPool>, ip: Option<String>, address, key: &str, uid: &str| {
        let pool_ends = pool.is_some_and(is_ending);
        let (pod, endpoint) = (cached_pod(caches, key, uid, settings, policy), caches.endpoint(key));
        let (pod, endpoint) = (seen(&pod), seen(&endpoint));
        let record =
            RecordView { key, uid, ip: address, pod: pod.map(|pod| &**pod), endpoint: endpoint.map(|it| &**it), pool_ends, due: None };
        let mut answers = Vec::new();
        let explanation = |action, endpoint, at, row, endpoint_row| Explanation {
            pool: pool.and_then(|pool| pool.metadata.name.clone()),
            ip: ip.clone(),
            key: key.to_owned(),
            uid: uid.to_owned(),
            action,
            endpoint,
            at,
            row,
            endpoint_row,
        };
        loop {
            match judge_record(&record, &it, &answers) {
                Judgement::Ask(question) => answers.push(question.answered_by(owners, policy)),
                Judgement::Crash(row) => break explanation(Action::Crash, false, None, row, None),
                Judgement::Done(verdict) => {
                    let action = match (verdict.release, verdict.track) {
                        (true, _) => Action::Release,
                        (false, true) => Action::Track,
                        (false, false) => Action::Keep,
                    };
                    break explanation(action, verdict.endpoint, verdict.at, verdict.row, verdict.endpoint_row);
                }
            }
        }
    };
    let mut led = std::collections::BTreeSet::new();
    for pool in caches.pools().unwrap_or_default() {
        if policy.reclaim.pools_without_version_skipped && pool.spec.ip_version.is_none() {
            continue;
        }
        let Some(records) = pool.status.as_ref().and_then(|status| status.allocated_ips.parse().ok()) else { continue };
        for (ip, record) in records.iter() {
            led.insert(record.pod.clone());
            let mut explanation = about(Some(&pool), Some(ip.to_string()), ip.address(), &record.pod, &record.pod_uid);
            if ip.address().is_none() {
                // A release names an address, so nothing ever removes this record.
                let (action, row) = (Action::Keep, Row::NoAddress);
                explanation = Explanation { action, row, endpoint: false, at: None, endpoint_row: None, ..explanation };
            }
            explained.push(explanation);
        }
    }
    let left = || {
        let endpoints = caches.endpoints().unwrap_or_default().into_iter();
        let keyed = endpoints.map(|endpoint| (ObjectKey::of(&*endpoint), endpoint));
        keyed.filter(|(key, _)| !led.contains(key.as_str()) && key_of_record(key.as_str()).is_some())
    };
    if !policy.reclaim.orphan_endpoint_kept {
        for (key, endpoint) in left() {
            explained.push(about(None, None, None, key.as_str(), uid_of(&endpoint)));
        }
    } else if settings.clean_outdated_endpoints {
        let pools = caches.pools().unwrap_or_default();
        let pool = |name: &str| pools.iter().find(|pool| pool.metadata.name.as_deref() == Some(name));
        for (key, endpoint) in left() {
            let goes = pools_of(&endpoint).filter_map(pool).any(|pool| is_outdated(&key, pool));
            explained.push(Explanation {
                pool: None,
                ip: None,
                key: key.as_str().to_owned(),
                uid: uid_of(&endpoint).to_owned(),
                action: if goes { Action::Release } else { Action::Keep },
                endpoint: goes,
                at: None,
                row: Row::SweepOrphan,
                endpoint_row: goes.then_some(Row::SweepOrphan),
            });
        }
    }
    explained
}
