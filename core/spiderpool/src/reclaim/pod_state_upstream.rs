//! Upstream's judgement of a pod's state (G §3.3, stage 2).

use super::pod_state::{Owner, State, Stop, rule_g};
use super::question::{Answer, Answers};
use super::row::Row;
use crate::Keeper;

/// Upstream's form for a pod without an address (`empty-pod-ips-means-gone`): it is gone, unless its place is kept.
pub(super) fn gone_without_ips(owner: &mut Owner<'_, '_>, answers: &mut Answers<'_>) -> Result<Result<State, Row>, Stop> {
    if owner.keeper == Keeper::Nobody {
        return Ok(Ok(State::ended(Row::NoIps)));
    }
    Ok(match owner.ask(answers)? {
        Answer::Invalid => Ok(State::ended(Row::NoIpsNotKept)),
        Answer::Valid => Ok(State::lives(Row::NoIpsKept)),
        Answer::Failed => Err(Row::NoIpsUnreadable),
    })
}

/// Upstream's form for a pod that has ended (`terminal-pods-not-scanned`): scans ignore it until it is deleted.
pub(super) fn ended_not_scanned(owner: &mut Owner<'_, '_>, answers: &mut Answers<'_>) -> Result<Result<State, Row>, Stop> {
    if owner.pod.metadata.deletion_timestamp.is_none() {
        return Ok(Ok(State::lives(Row::EndedLeft)));
    }
    rule_g(owner, answers)
}
