//! The effect of a pod's state on its entitlement to its addresses: stage 2 of the table of a record, with rule G (G §3.3).

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use super::entry::{DEFAULT_GRACE, Term, in_truth};
use super::event::{Circumstances, ended, keeper_of_endpoint};
use super::node::NodeState;
use super::pod_state_upstream::{ended_not_scanned, gone_without_ips};
use super::question::{Answer, Answers, Question, key_of};
use super::row::Row;
use super::view::{RecordView, Seen, key_of_record};
use crate::Keeper;
use crate::ipam::uid_of;
use kube_machinery::api::ObjectKey;
use kube_machinery::controller_of;

/// The reason why no decision is made now.
pub(super) enum Stop {
    Ask(Question),
    Crash(Row),
}

impl From<Question> for Stop {
    fn from(question: Question) -> Self {
        Self::Ask(question)
    }
}

pub(super) fn has_ips(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.pod_ips.as_ref()).is_some_and(|ips| !ips.is_empty())
}

/// The possible keeper of the addresses of an existing pod.
pub(super) struct Owner<'a, 'b> {
    pub(super) pod: &'a Pod,
    pub(super) keeper: Keeper,
    pub(super) record: &'b RecordView<'a>,
    pub(super) it: &'b Circumstances<'b>,
}

impl Owner<'_, '_> {
    pub(super) fn ask(&mut self, answers: &mut Answers<'_>) -> Result<Answer, Question> {
        let (keeper, key) = if self.it.policy.reclaim.static_by_first_owner {
            let first = self.pod.metadata.owner_references.as_ref().and_then(|owners| owners.first());
            let keeper = first.map_or(Keeper::Nobody, |owner| Keeper::of_kind_alone(&owner.kind, self.it.settings.kept()));
            (keeper, key_of_record(self.record.key).expect("it is a key"))
        } else {
            (self.keeper, key_of(self.pod, self.keeper))
        };
        // Its pod may only be found under another name.
        let uid = self.pod.metadata.uid.as_deref().filter(|uid| *uid == self.record.uid);
        answers.ask(keeper, &key, uid.filter(|_| !self.it.policy.reclaim.vm_pod_sought_by_record))
    }

    /// Asks whether a StatefulSet keeps the place of an orphan that got its addresses as one of the set's pods: its endpoint shows that, as
    /// it does for a DEL (A §7.1), and for a scan once the pod is gone (S-4).
    fn ask_for_orphan(&self, answers: &mut Answers<'_>) -> Result<Answer, Question> {
        let Seen::There(endpoint) = self.record.endpoint else { return Ok(Answer::Invalid) };
        let is_own = self.pod.metadata.uid.as_deref() == Some(uid_of(endpoint));
        let was_of_set =
            is_own && controller_of(&self.pod.metadata).is_none() && keeper_of_endpoint(endpoint, self.it) == Keeper::StatefulSet;
        if !was_of_set || self.it.policy.reclaim.orphans_place_freed {
            return Ok(Answer::Invalid);
        }
        answers.ask(Keeper::StatefulSet, &ObjectKey::of(self.pod), None)
    }
}

/// The effect of a pod's state.
pub(super) struct State {
    /// Whether its entitlement to its addresses has ended.
    pub(super) ends: bool,
    pub(super) track: bool,
    pub(super) row: Row,
    pub(super) at: Option<Timestamp>,
}

impl State {
    pub(super) fn lives(row: Row) -> Self {
        Self { ends: false, track: false, row, at: None }
    }

    pub(super) fn ended(row: Row) -> Self {
        Self { ends: true, ..Self::lives(row) }
    }

    fn traced(row: Row, at: Option<Timestamp>) -> Self {
        Self { track: true, at, ..Self::lives(row) }
    }
}

/// Stage 2; `Err` = the record is left alone.
pub(super) fn state(owner: &mut Owner<'_, '_>, answers: &mut Answers<'_>) -> Result<Result<State, Row>, Stop> {
    let state = match state_of_pod(owner, answers)? {
        Ok(state) if state.ends && owner.keeper == Keeper::Nobody => state,
        other => return Ok(other),
    };
    let (kept, unreadable) = match state.row {
        Row::GraceOver => (Row::GraceOverKept, Row::GraceOverUnreadable),
        Row::EndedOver => (Row::EndedKept, Row::EndedUnreadable),
        Row::RunningNoIpsOn => (Row::NoIpsKept, Row::NoIpsUnreadable),
        _ => return Ok(Ok(state)),
    };
    Ok(match owner.ask_for_orphan(answers)? {
        Answer::Valid => Ok(State { at: state.at, ..State::lives(kept) }),
        Answer::Failed => Err(unreadable),
        Answer::Invalid => Ok(state),
    })
}

fn state_of_pod(owner: &mut Owner<'_, '_>, answers: &mut Answers<'_>) -> Result<Result<State, Row>, Stop> {
    let (pod, it) = (owner.pod, owner.it);
    let policy = &it.policy.reclaim;
    let is_terminating = pod.metadata.deletion_timestamp.is_some();
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    if ended(pod).is_some() {
        return state_of_ended(owner, answers);
    }
    if phase == "Pending" && (!is_terminating || policy.pending_pods_not_scanned) {
        return Ok(Ok(State::lives(Row::Pending)));
    }
    if is_terminating {
        return rule_g(owner, answers);
    }
    if has_ips(pod) {
        return Ok(Ok(State::lives(Row::Lives)));
    }
    if owner.keeper == Keeper::Nobody && phase == "Running" {
        let ends = it.settings.running_without_ips;
        return Ok(Ok(if ends { State::ended(Row::RunningNoIpsOn) } else { State::lives(Row::RunningNoIpsOff) }));
    }
    if policy.empty_pod_ips_means_gone {
        return gone_without_ips(owner, answers);
    }
    Ok(Ok(State::lives(Row::NoIpsLives)))
}

/// Stage 2 of a pod that has ended.
fn state_of_ended(owner: &mut Owner<'_, '_>, answers: &mut Answers<'_>) -> Result<Result<State, Row>, Stop> {
    let policy = &owner.it.policy.reclaim;
    if owner.keeper == Keeper::Nobody {
        return if policy.terminal_pods_not_scanned { ended_not_scanned(owner, answers) } else { Ok(Ok(after_the_end(owner))) };
    }
    Ok(match owner.ask(answers)? {
        // Upstream then finds that nothing is to be traced, mostly.
        Answer::Valid if policy.static_by_first_owner => Ok(State::traced(Row::EndedKept, None)),
        Answer::Valid => Ok(State::lives(Row::EndedKept)),
        Answer::Invalid => Ok(State::ended(Row::EndedNotKept)),
        Answer::Failed => Err(Row::EndedUnreadable),
    })
}

/// The state at the end of a pod without an owner that keeps its addresses (D §0: both paths).
fn after_the_end(owner: &Owner<'_, '_>) -> State {
    let (pod, it) = (owner.pod, owner.it);
    let stop = Term::of_ended(pod, it.settings, it.policy).ok().map(|term| term.stop).or(owner.record.due);
    match stop {
        Some(stop) if it.now > stop => by_node(owner, Row::EndedOver, stop),
        stop => State::traced(Row::EndedWithin, stop),
    }
}

/// The effect of the node on a pod whose time is over.
fn by_node(owner: &Owner<'_, '_>, over: Row, stop: Timestamp) -> State {
    // A traced pod had its node judged when tracing began.
    let judged = owner.it.policy.reclaim.node_judged_once && owner.record.due.is_some();
    let permits = if judged { Some(true) } else { owner.it.node_of(owner.pod).permits(owner.it.settings) };
    let state = match permits {
        Some(true) => State::ended(over),
        Some(false) => State::lives(Row::GraceOverOff),
        None => State::lives(Row::GraceNodeUnknown),
    };
    State { at: Some(stop), ..state }
}

/// The deadline of a terminating pod whose node became ready again; `None` = it was ready all the time, or is not.
///
/// Its kubelet learns only now that the pod has to end. The pod is treated as if it had been asked to end when the node came back: one
/// grace period for the containers, and one more.
fn back_too_late(owner: &Owner<'_, '_>, term: &Term) -> Option<Timestamp> {
    let it = owner.it;
    if it.policy.reclaim.returned_node_frees_at_once {
        return None;
    }
    let NodeState::Ready { since: Some(since) } = it.node_of(owner.pod) else { return None };
    let grace = owner.pod.metadata.deletion_grace_period_seconds.unwrap_or(DEFAULT_GRACE);
    let asked = term.start.checked_sub(SignedDuration::from_secs(grace)).ok()?;
    let twice = in_truth(grace, it.policy).saturating_mul(2);
    (since > asked).then(|| Term::new(since, SignedDuration::from_secs(twice), it.settings).stop)
}

/// Rule G: a terminating pod.
pub(super) fn rule_g(owner: &mut Owner<'_, '_>, answers: &mut Answers<'_>) -> Result<Result<State, Row>, Stop> {
    let it = owner.it;
    let policy = &it.policy.reclaim;
    let Some(term) = Term::of_terminating(owner.pod, it.settings, it.policy) else { return Err(Stop::Crash(Row::NilDeletionGrace)) };
    let at = Some(term.stop);
    if !term.is_over(it.now) {
        let gone = policy.empty_pod_ips_means_gone && !has_ips(owner.pod);
        return Ok(Ok(if gone { State { at, ..State::ended(Row::GraceNoIps) } } else { State::traced(Row::GraceWithin, at) }));
    }
    if owner.keeper != Keeper::Nobody {
        if policy.stuck_static_kept {
            return Ok(Ok(State { at, ..State::lives(Row::GraceOverStatic) }));
        }
        match owner.ask(answers)? {
            Answer::Valid => return Ok(Ok(State { at, ..State::lives(Row::GraceOverKept) })),
            Answer::Failed => return Ok(Err(Row::GraceOverUnreadable)),
            Answer::Invalid => {}
        }
    }
    if let Some(stop) = back_too_late(owner, &term).filter(|stop| it.now <= *stop) {
        return Ok(Ok(State::traced(Row::GraceReturned, Some(stop))));
    }
    Ok(Ok(by_node(owner, Row::GraceOver, term.stop)))
}
