//! What a scan would do now, without doing it.

use jiff::Timestamp;

use super::caches::Caches;
use super::event::Circumstances;
use super::node::NodeState;
use super::question::{Answer, Question};
use super::record::{Judgement, RecordView, Seen, judge_record, key_of_record};
use super::row::Row;
use super::settings::ReclaimSettings;
use crate::api::ApiError;
use crate::spiderpool::Policy;
use crate::spiderpool::ipam::uid_of;

/// What a scan would do with a record, or with an endpoint that no record leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// It stays.
    Keep,
    /// It goes.
    Release,
    /// It stays, and its pod is traced until its deadline.
    Track,
    /// Upstream's process would crash.
    Crash,
}

impl Action {
    /// The public name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Release => "release",
            Self::Track => "track",
            Self::Crash => "crash",
        }
    }
}

/// One record, and what would become of it.
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
    /// What would become of it.
    pub action: Action,
    /// Whether the endpoint of that name would go.
    pub endpoint: bool,
    /// When the pod's right ends or ended, where that is a matter of time.
    pub at: Option<Timestamp>,
    /// Why.
    pub row: Row,
    /// Why the endpoint would go or stay, if that was asked.
    pub endpoint_row: Option<Row>,
}

pub(super) fn seen<T>(read: &Result<Option<T>, ApiError>) -> Seen<&T> {
    match read {
        Ok(Some(object)) => Seen::There(object),
        Ok(None) => Seen::Nothing,
        Err(_) => Seen::Unreadable,
    }
}

/// The state of a node in a cache.
pub(super) fn cached_node(caches: &impl Caches, name: &str) -> NodeState {
    match caches.node(name) {
        Ok(Some(node)) => NodeState::of(&node),
        Ok(None) => NodeState::Gone,
        Err(_) => NodeState::Unreadable,
    }
}

/// What a scan of the leader would do with each record on what `caches` show, by pool and address; then with each endpoint that no
/// record leads to (the hardened form only; upstream asks the API server there). `owners` answers for StatefulSets and VMs.
pub fn explain(
    caches: &impl Caches,
    mut owners: impl FnMut(&Question) -> Answer,
    now: Timestamp,
    settings: &ReclaimSettings,
    policy: &Policy,
) -> Vec<Explanation> {
    let node = |name: &str| cached_node(caches, name);
    let runs_until = |uid: &str| caches.runs_until(uid);
    let it = Circumstances { now, leading: true, settings, policy, node: &node, runs_until: &runs_until };
    let mut explained = Vec::new();
    let mut about = |pool: Option<&str>, ip: Option<String>, address, key: &str, uid: &str| {
        let (pod, endpoint) = (caches.pod(key), caches.endpoint(key));
        let (pod, endpoint) = (seen(&pod), seen(&endpoint));
        let record = RecordView { key, uid, ip: address, pod: pod.map(|pod| &**pod), endpoint: endpoint.map(|it| &**it), due: None };
        let mut answers = Vec::new();
        let explanation = |action, endpoint, at, row, endpoint_row| Explanation {
            pool: pool.map(str::to_owned),
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
                Judgement::Ask(question) => answers.push(owners(&question)),
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
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        if policy.reclaim.pools_without_version_skipped && pool.spec.ip_version.is_none() {
            continue;
        }
        let Some(records) = pool.status.as_ref().and_then(|status| status.allocated_ips.parse().ok()) else { continue };
        for (ip, record) in records.iter() {
            led.insert(record.pod.clone());
            explained.push(about(Some(name), Some(ip.to_string()), ip.address(), &record.pod, &record.pod_uid));
        }
    }
    if !policy.reclaim.orphan_endpoint_kept {
        for endpoint in caches.endpoints().unwrap_or_default() {
            let key = crate::api::ObjectKey::of(&*endpoint);
            if !led.contains(key.as_str()) && key_of_record(key.as_str()).is_some() {
                explained.push(about(None, None, None, key.as_str(), uid_of(&endpoint)));
            }
        }
    }
    explained
}
