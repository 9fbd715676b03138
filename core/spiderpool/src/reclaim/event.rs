//! The meaning of a pod event: to trace the pod, or not (G §3.1).

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::entry::{PodEntry, Term, Tracing, end_of_grace};
use super::node::NodeState;
use super::question::{Answer, Answers, Question, keeper_of, key_of};
use super::row::Row;
use super::settings::ReclaimSettings;
use crate::ipam::goes_with_pod;
use crate::{Keeper, Policy, SpiderEndpoint};
use kube_machinery::api::ObjectKey;

/// The context of a decision, besides the objects that it concerns.
#[derive(Clone, Copy)]
pub struct Circumstances<'a> {
    /// The time, on the wall clock.
    pub now: Timestamp,
    /// Whether this replica believes that it leads.
    pub leading: bool,
    /// The settings of reclaim.
    pub settings: &'a ReclaimSettings,
    /// The mutations that are on.
    pub policy: &'a Policy,
    /// The nodes, as the decision may see them; called only if a node matters.
    pub node: &'a dyn Fn(&str) -> NodeState,
    /// The time until which the containers of a pod with this UID may run whose object is gone already, if that was seen (G R9).
    pub runs_until: &'a dyn Fn(&str) -> Option<Timestamp>,
}

impl Circumstances<'_> {
    /// The node of a pod.
    pub(super) fn node_of(&self, pod: &Pod) -> NodeState {
        let name = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
        if name.is_empty() { NodeState::Gone } else { (self.node)(name) }
    }

    /// The time until which the containers of a pod may run whose object is gone; `None` = they are not known to run any more.
    pub(super) fn may_run_until(&self, uid: &str) -> Option<Timestamp> {
        if self.policy.reclaim.force_delete_frees_at_once {
            return None;
        }
        (self.runs_until)(uid).filter(|until| self.now <= *until)
    }
}

/// The keeper of the addresses of an endpoint whose pod is gone.
pub(super) fn keeper_of_endpoint(endpoint: &SpiderEndpoint, it: &Circumstances<'_>) -> Keeper {
    if goes_with_pod(endpoint) && !it.policy.static_by_kind_only {
        return Keeper::Nobody;
    }
    Keeper::of_endpoint(endpoint, it.settings.kept())
}

/// A change of a pod.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The pod exists; also reported for each pod when an informer starts.
    Added(&'a Pod),
    /// The pod changed, or a new list showed it again.
    Updated {
        /// The state known before.
        old: &'a Pod,
        /// The state from now on.
        new: &'a Pod,
    },
    /// The pod is gone; this is its last state.
    Deleted(&'a Pod),
    /// The pod vanished while nobody watched; this is its last known state.
    Tombstone(&'a Pod),
}

impl<'a> Event<'a> {
    /// The pod as last known.
    pub fn pod(&self) -> &'a Pod {
        match *self {
            Self::Added(pod) | Self::Updated { new: pod, .. } | Self::Deleted(pod) | Self::Tombstone(pod) => pod,
        }
    }

    fn old(&self) -> Option<&'a Pod> {
        match *self {
            Self::Updated { old, .. } => Some(old),
            _ => None,
        }
    }
}

/// The meaning of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// This question has to be answered first.
    Ask(Question),
    /// Nothing is to be done; the row says why.
    Ignore(Row),
    /// The pod has to be traced.
    Enter(Box<PodEntry>, Row),
    /// It could not be judged. Upstream forgets it; the hardened form judges it again.
    Lost(Row),
    /// Upstream's process crashes: `tombstone-crashes` or `nil-fields-crash` is on.
    Crash(Row),
}

/// Decides the meaning of `event`, with the `answers` to earlier questions.
pub fn judge_event(event: &Event<'_>, circumstances: &Circumstances<'_>, answers: &[Answer]) -> Meaning {
    let mut answers = Answers::new(answers);
    match judge(event, circumstances, &mut answers) {
        Ok(meaning) => meaning,
        Err(question) => Meaning::Ask(question),
    }
}

/// The change of a pod that may end its entitlement to its addresses.
enum Candidate {
    Deleted,
    Terminating,
    Ended(Tracing),
}

fn grace(pod: &Pod) -> Option<i64> {
    pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds)
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref().and_then(|status| status.phase.as_deref())
}

/// The way in which a pod has ended, if it has.
pub(super) fn ended(pod: &Pod) -> Option<Tracing> {
    match phase(pod) {
        Some("Succeeded") => Some(Tracing::Succeeded),
        Some("Failed") => Some(Tracing::Failed),
        _ => None,
    }
}

/// I-6 to I-9: decides whether the event may end the pod's entitlement to its addresses. An error is a row on which upstream crashes.
fn candidate(event: &Event<'_>, policy: &Policy) -> Result<Option<Candidate>, Row> {
    let pod = event.pod();
    if matches!(event, Event::Deleted(_) | Event::Tombstone(_)) {
        return Ok(Some(Candidate::Deleted));
    }
    let grace_changed = |old: &Pod| match (grace(old), grace(pod)) {
        (None, _) | (_, None) if policy.reclaim.nil_fields_crash => Err(Row::NilGrace),
        (old, new) => Ok(old != new),
    };
    // The end of a pod is the later of the two states, and has the earlier deadline; upstream sees it only as a change.
    let terminating = match event.old() {
        _ if pod.metadata.deletion_timestamp.is_none() => false,
        Some(old) if old.metadata.deletion_timestamp.is_some() => grace_changed(old)?,
        _ => true,
    };
    let has_ended = |pod| ended(pod).map(Candidate::Ended);
    if terminating {
        let hardened = (!policy.reclaim.terminal_pods_not_scanned).then(|| has_ended(pod)).flatten();
        return Ok(Some(hardened.unwrap_or(Candidate::Terminating)));
    }
    let is_new = match event.old() {
        _ if ended(pod).is_none() => false,
        Some(old) if phase(old) == phase(pod) => grace_changed(old)?,
        _ => true,
    };
    Ok(if is_new { has_ended(pod) } else { None })
}

fn judge(event: &Event<'_>, it: &Circumstances<'_>, answers: &mut Answers<'_>) -> Result<Meaning, Question> {
    let (pod, policy) = (event.pod(), &it.policy.reclaim);
    if !it.leading {
        return Ok(Meaning::Ignore(Row::NotLeading));
    }
    if matches!(event, Event::Tombstone(_)) && policy.tombstone_crashes {
        return Ok(Meaning::Crash(Row::Tombstone));
    }
    if pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true) {
        return Ok(Meaning::Ignore(Row::HostNetwork));
    }
    let keeper = keeper_of(pod, it.settings.kept());
    let key = key_of(pod, keeper);
    let is_there = !matches!(event, Event::Deleted(_) | Event::Tombstone(_)) && !policy.vm_pod_sought_by_record;
    let there = pod.metadata.uid.as_deref().filter(|_| is_there);
    let candidate = candidate(event, it.policy);
    // Upstream reads the owner before it checks the event.
    let asks = matches!(candidate, Ok(Some(_))) || policy.owner_asked_for_every_event;
    if asks && let Some(meaning) = kept(keeper, &key, there, it, answers)? {
        return Ok(meaning);
    }
    Ok(match candidate {
        Err(row) => Meaning::Crash(row),
        Ok(None) => Meaning::Ignore(Row::NothingNew),
        Ok(Some(candidate)) => meaning(candidate, pod, keeper, key, it),
    })
}

/// The action for a pod that may have lost its entitlement, and whose addresses nobody keeps.
fn meaning(candidate: Candidate, pod: &Pod, keeper: Keeper, key: ObjectKey, it: &Circumstances<'_>) -> Meaning {
    let policy = &it.policy.reclaim;
    match candidate {
        Candidate::Deleted => {
            let kept_back = (!policy.force_delete_frees_at_once).then(|| end_of_grace(pod, it.now, it.settings, it.policy)).flatten();
            let row = if kept_back.is_some() { Row::DeletedInGrace } else { Row::Deleted };
            let term = kept_back.unwrap_or_else(|| Term::new(it.now, jiff::SignedDuration::ZERO, it.settings));
            enter(pod, keeper, key, Tracing::Deleted, term, it.now, row)
        }
        Candidate::Terminating => {
            if let Some(meaning) = node_forbids(pod, it, Row::TerminatingNodeUnknown, Row::TerminatingNodeOff) {
                return meaning;
            }
            match Term::of_terminating(pod, it.settings, it.policy) {
                Some(term) => enter(pod, keeper, key, Tracing::Terminating, term, it.now, Row::Terminating),
                None => Meaning::Lost(Row::TerminatingNoGrace),
            }
        }
        Candidate::Ended(tracing) => {
            if let Some(meaning) = node_forbids(pod, it, Row::EndedNodeUnknown, Row::EndedNodeOff) {
                return meaning;
            }
            let term = match Term::of_ended(pod, it.settings, it.policy) {
                Err(_) if !policy.ended_without_times_lost => Ok(Term::of_ended_unseen(pod, it.now, it.settings, it.policy)),
                term => term,
            };
            match term {
                Ok(term) => enter(pod, keeper, key, tracing, term, it.now, Row::Ended),
                Err(true) => Meaning::Lost(Row::EndedNoFinish),
                Err(false) => Meaning::Lost(Row::EndedNoGrace),
            }
        }
    }
}

/// I-3 to I-5: decides whether a StatefulSet or a VM keeps the addresses of the pod.
fn kept(
    keeper: Keeper,
    key: &ObjectKey,
    pod: Option<&str>,
    it: &Circumstances<'_>,
    answers: &mut Answers<'_>,
) -> Result<Option<Meaning>, Question> {
    let (keeps, unreadable) = match keeper {
        Keeper::Nobody => return Ok(None),
        Keeper::StatefulSet => (Row::SetKeeps, Row::SetUnreadable),
        Keeper::Vm => (Row::VmKeeps, Row::VmUnreadable),
    };
    if it.policy.reclaim.terminating_static_ignored {
        return Ok(Some(Meaning::Ignore(Row::StaticIgnored)));
    }
    Ok(match answers.ask(keeper, key, pod)? {
        Answer::Valid => Some(Meaning::Ignore(keeps)),
        Answer::Failed => Some(Meaning::Lost(unreadable)),
        Answer::Invalid => None,
    })
}

/// Upstream judges the node now; the hardened form when the deadline passes.
fn node_forbids(pod: &Pod, it: &Circumstances<'_>, unknown: Row, off: Row) -> Option<Meaning> {
    if !it.policy.reclaim.node_judged_once {
        return None;
    }
    match it.node_of(pod).permits(it.settings) {
        None => Some(Meaning::Lost(unknown)),
        Some(false) => Some(Meaning::Ignore(off)),
        Some(true) => None,
    }
}

fn enter(pod: &Pod, keeper: Keeper, key: ObjectKey, tracing: Tracing, term: Term, now: Timestamp, row: Row) -> Meaning {
    let entry = PodEntry {
        pod: ObjectKey::of(pod),
        uid: Arc::from(pod.metadata.uid.as_deref().unwrap_or_default()),
        node: Arc::from(pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()),
        key,
        keeper,
        tracing,
        term,
        entered: now,
        requeues: 0,
    };
    Meaning::Enter(Box::new(entry), row)
}
