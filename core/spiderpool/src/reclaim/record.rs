//! The fate of one record of a pool, and of the endpoint of its pod: the table of a scan as one function (G §3.3).
//!
//! ```text
//!   pod there? ──no──► endpoint there? ──► its owner          stage 1
//!       │ yes
//!   state of the pod ──► does it end the pod's right?         stage 2
//!   UID of the record against that of the pod                 stage 3
//!   UID of the endpoint against that of the pod               stage 4
//! ```
//! A scan calls it with the state of its caches, and the hardened form again with that of the API server. The rules for a record also apply
//! to an endpoint that no record leads to: then the record's UID is that of the endpoint.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::event::{Circumstances, keeper_of_endpoint};
use super::pod_state::{Owner, State, Stop, has_ips, state};
use super::question::{Answer, Answers, Question, keeper_of, key_of};
use super::row::Row;
use super::view::{RecordView, Seen, key_of_record};
use crate::ipam::{goes_with_pod, is_terminating, uid_of};
use crate::{Keeper, SpiderEndpoint};

/// The fate of a record and of its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the record is removed.
    pub release: bool,
    /// Whether the endpoint is removed.
    pub endpoint: bool,
    /// Whether the leader should trace the pod.
    pub track: bool,
    /// The deciding row for the record.
    pub row: Row,
    /// The deciding row for the endpoint, if that was judged.
    pub endpoint_row: Option<Row>,
    /// The time when the pod's entitlement to the record ends, if time matters.
    pub at: Option<Timestamp>,
}

impl Verdict {
    pub(super) fn keep(row: Row) -> Self {
        Self { release: false, endpoint: false, track: false, row, endpoint_row: None, at: None }
    }

    fn release(row: Row, endpoint: bool) -> Self {
        Self { release: true, endpoint, endpoint_row: endpoint.then_some(row), ..Self::keep(row) }
    }

    /// Whether nothing is to be written.
    pub fn keeps_all(&self) -> bool {
        !self.release && !self.endpoint
    }
}

/// A decision about a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// This question has to be answered first.
    Ask(Question),
    /// No question is open: this is the verdict.
    Done(Verdict),
    /// Upstream's process crashes: `nil-fields-crash` is on.
    Crash(Row),
}

/// Decides about a record, with the `answers` to earlier questions.
pub fn judge_record(record: &RecordView<'_>, circumstances: &Circumstances<'_>, answers: &[Answer]) -> Judgement {
    let mut answers = Answers::new(answers);
    match judge(record, circumstances, &mut answers) {
        Ok(verdict) => Judgement::Done(verdict),
        Err(Stop::Ask(question)) => Judgement::Ask(question),
        Err(Stop::Crash(row)) => Judgement::Crash(row),
    }
}

/// Whether a pod's status names an address.
fn answers_on(pod: &Pod, ip: IpAddr) -> bool {
    let ips = pod.status.as_ref().and_then(|status| status.pod_ips.as_ref());
    ips.into_iter().flatten().any(|shown| shown.ip.parse::<IpAddr>().is_ok_and(|shown| shown == ip))
}

/// Whether the status of the pod that has the name contains one of these addresses.
fn is_in_use(pod: &Pod, ips: impl IntoIterator<Item = IpAddr>, it: &Circumstances<'_>) -> bool {
    !it.policy.reclaim.address_in_use_freed && ips.into_iter().any(|ip| answers_on(pod, ip))
}

/// The addresses that an endpoint names.
fn addresses(endpoint: &SpiderEndpoint) -> impl Iterator<Item = IpAddr> {
    let entries = endpoint.status.as_ref().map_or(&[][..], |status| &status.current.ips);
    let texts = entries.iter().flat_map(|entry| entry.ipv4.iter().chain(&entry.ipv6));
    texts.filter_map(|text| text.split('/').next().unwrap_or_default().parse().ok())
}

fn judge(record: &RecordView<'_>, it: &Circumstances<'_>, answers: &mut Answers<'_>) -> Result<Verdict, Stop> {
    if record.key.bytes().filter(|byte| *byte == b'/').count() > 1 {
        return Ok(Verdict::keep(Row::BadKey));
    }
    let pod = match record.pod {
        Seen::Unreadable => return Ok(Verdict::keep(Row::PodUnreadable)),
        Seen::Nothing => return without_pod(record, it, answers),
        Seen::There(pod) => pod,
    };
    let keeper = keeper_of(pod, it.settings.kept());
    if is_namesake(pod, keeper, record, it) {
        return without_pod(record, it, answers);
    }
    if it.policy.reclaim.node_asked_first && keeper == Keeper::Nobody && it.node_of(pod).permits(it.settings).is_none() {
        return Ok(Verdict::keep(Row::NodeUnreadable));
    }
    let mut owner = Owner { pod, keeper, record, it };
    let state = match state(&mut owner, answers)? {
        Ok(state) => state,
        Err(row) => return Ok(Verdict::keep(row)),
    };
    let verdict = match of_record(&mut owner, &state, answers)? {
        Ok(verdict) => of_endpoint(&mut owner, &state, verdict, answers)?,
        Err(row) => Err(row),
    };
    Ok(verdict.unwrap_or_else(|row| Verdict { track: state.track, ..Verdict::keep(row) }))
}

/// Whether a pod merely shares the name of the one whose place in a StatefulSet or a VM the record and the endpoint belong to.
fn is_namesake(pod: &Pod, keeper: Keeper, record: &RecordView<'_>, it: &Circumstances<'_>) -> bool {
    let pod_uid = pod.metadata.uid.as_deref().unwrap_or_default();
    if it.policy.reclaim.namesake_frees || record.uid == pod_uid {
        return false;
    }
    let Seen::There(endpoint) = record.endpoint else { return false };
    let has_place = keeper_of_endpoint(endpoint, it) != Keeper::Nobody && uid_of(endpoint) != pod_uid;
    has_place && (keeper == Keeper::Nobody || key_of(pod, keeper).as_str() != record.key)
}

/// Stage 3: the action on the record. An error is a row by which everything stays.
fn of_record(owner: &mut Owner<'_, '_>, state: &State, answers: &mut Answers<'_>) -> Result<Result<Verdict, Row>, Stop> {
    let Owner { pod, keeper, record, it } = *owner;
    let pod_uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let mut verdict = Verdict { track: state.track, at: state.at, ..Verdict::keep(state.row) };
    if record.uid == pod_uid {
        verdict.release = state.ends;
        if is_half_written(record, pod_uid, it) {
            (verdict.release, verdict.row) = (true, Row::HalfWritten);
        }
    } else if is_in_use(pod, record.ip, it) {
        verdict.row = Row::InUse;
    } else if let Some(until) = it.may_run_until(record.uid) {
        (verdict.row, verdict.at) = (Row::MayStillRun, Some(until));
    } else if keeper == Keeper::Nobody {
        (verdict.release, verdict.row) = (true, Row::OtherPod);
    } else if has_ips(pod) {
        (verdict.release, verdict.row) = (true, Row::OtherPodServes);
    } else if it.policy.reclaim.static_uid_mismatch_frees
        || matches!(record.endpoint, Seen::There(endpoint) if uid_of(endpoint) == record.uid && was_nobodys(endpoint, it))
    {
        (verdict.release, verdict.row) = (true, Row::OtherPodNotKept);
    } else {
        (verdict.release, verdict.row) = match owner.ask(answers)? {
            Answer::Invalid => (true, Row::OtherPodNotKept),
            Answer::Valid => (false, Row::OtherPodInherits),
            Answer::Failed => return Ok(Err(Row::OtherPodUnreadable)),
        };
    }
    Ok(Ok(verdict))
}

/// Stage 4: the action on the endpoint besides. An error is a row by which everything stays.
fn of_endpoint(
    owner: &mut Owner<'_, '_>,
    state: &State,
    mut verdict: Verdict,
    answers: &mut Answers<'_>,
) -> Result<Result<Verdict, Row>, Stop> {
    let Owner { pod, keeper, record, it } = *owner;
    let pod_uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let Seen::There(endpoint) = record.endpoint else { return Ok(Ok(verdict)) };
    if uid_of(endpoint) == pod_uid {
        verdict.endpoint = state.ends;
        verdict.endpoint_row = state.ends.then_some(Row::EndpointGoes);
        return Ok(Ok(verdict));
    }
    if it.may_run_until(uid_of(endpoint)).is_some() || is_in_use(pod, addresses(endpoint), it) {
        return Ok(Ok(verdict));
    }
    let (goes, row) = if keeper == Keeper::Nobody {
        verdict.release |= it.policy.reclaim.scan_trusts_cached_endpoint;
        of_namesakes_endpoint(endpoint, record, it, answers)?
    } else if has_ips(pod) {
        (true, Row::EndpointOfStaticPredecessor)
    } else if was_nobodys(endpoint, it) {
        (true, Row::EndpointNotKept)
    } else {
        match owner.ask(answers)? {
            Answer::Invalid => (true, Row::EndpointNotKept),
            Answer::Valid => (false, Row::EndpointInherited),
            Answer::Failed => return Ok(Err(Row::EndpointOwnerUnreadable)),
        }
    };
    if goes && row == Row::EndpointOfOther && verdict.release && record.uid == pod_uid && !state.ends {
        verdict.row = row;
    }
    verdict.endpoint = goes;
    verdict.endpoint_row = Some(row);
    Ok(Ok(verdict))
}

/// Stage 4 if the pod that has the name now is an orphan: the endpoint may have been that of a pod whose place is kept.
fn of_namesakes_endpoint(
    endpoint: &SpiderEndpoint,
    record: &RecordView<'_>,
    it: &Circumstances<'_>,
    answers: &mut Answers<'_>,
) -> Result<(bool, Row), Stop> {
    let keeper = keeper_of_endpoint(endpoint, it);
    if keeper == Keeper::Nobody || it.policy.reclaim.namesake_frees {
        return Ok((true, Row::EndpointOfOther));
    }
    Ok(match answers.ask(keeper, &key_of_record(record.key).expect("it is a key"), None)? {
        Answer::Invalid => (true, Row::EndpointOfOther),
        Answer::Valid => (false, Row::EndpointInherited),
        Answer::Failed => (false, Row::EndpointOwnerUnreadable),
    })
}

/// Whether an endpoint belongs to a pod without a place in a StatefulSet or VM, by all its data, and is deleted with that pod: whatever pod
/// has the name now, no ADD takes its addresses over.
fn was_nobodys(endpoint: &SpiderEndpoint, it: &Circumstances<'_>) -> bool {
    let is_the_pods = || goes_with_pod(endpoint) && Keeper::of_endpoint(endpoint, it.settings.kept()) == Keeper::Nobody;
    !it.policy.reclaim.orphans_record_kept && is_the_pods()
}

/// Whether the pod's endpoint exists and does not name the address; only `half-written-endpoint-frees` uses this.
fn is_half_written(record: &RecordView<'_>, pod_uid: &str, it: &Circumstances<'_>) -> bool {
    if !it.policy.reclaim.half_written_endpoint_frees {
        return false;
    }
    let (Seen::There(endpoint), Some(ip)) = (record.endpoint, record.ip) else { return false };
    uid_of(endpoint) == pod_uid && !addresses(endpoint).any(|named| named == ip)
}

/// Whether the place of a StatefulSet's deleted pod keeps nothing of this record: its auto pool is being deleted, and the next pod gives up
/// the addresses that it finds there (A §8.6). The set's next pool may have to wait for these very addresses, and its pods for the first of
/// them.
fn is_no_place(record: &RecordView<'_>, keeper: Keeper, it: &Circumstances<'_>) -> bool {
    record.pool_ends && keeper == Keeper::StatefulSet && !it.policy.reclaim.ending_pool_keeps_places
}

/// Stage 1, without a pod.
fn without_pod(record: &RecordView<'_>, it: &Circumstances<'_>, answers: &mut Answers<'_>) -> Result<Verdict, Stop> {
    let of_endpoint = record.endpoint.there().map(uid_of).unwrap_or(record.uid);
    if let Some(until) = [record.uid, of_endpoint].into_iter().filter_map(|uid| it.may_run_until(uid)).max() {
        return Ok(Verdict { at: Some(until), ..Verdict::keep(Row::MayStillRun) });
    }
    let endpoint = match record.endpoint {
        Seen::There(endpoint) => endpoint,
        Seen::Unreadable => return Ok(Verdict::keep(Row::EndpointUnreadable)),
        Seen::Nothing => return without_pod_and_endpoint(record, it, answers),
    };
    let keeper = keeper_of_endpoint(endpoint, it);
    // The mark is the point of no return (D §1.3.1) if it comes first. Not for an existing VM: its pods have other names and UIDs, and the
    // one that answers may not be the one that took the endpoint over last.
    let is_marked = is_terminating(endpoint) && uid_of(endpoint) == record.uid;
    if is_marked && keeper != Keeper::Vm && !it.policy.reclaim.records_before_endpoint {
        return Ok(Verdict::release(Row::MarkedForRelease, true));
    }
    let (gone, keeps, unreadable) = match keeper {
        Keeper::Nobody => return Ok(Verdict::release(Row::NoPod, true)),
        Keeper::StatefulSet => (Row::SetOfEndpointGone, Row::SetOfEndpointKeeps, Row::SetOfEndpointUnreadable),
        Keeper::Vm => (Row::VmOfEndpointGone, Row::VmOfEndpointKeeps, Row::VmOfEndpointUnreadable),
    };
    Ok(match answers.ask(keeper, &key_of_record(record.key).expect("it is a key"), None)? {
        Answer::Invalid => Verdict::release(gone, true),
        // Other addresses of the endpoint may be kept.
        Answer::Valid | Answer::Failed if is_no_place(record, keeper, it) => Verdict::release(Row::PlaceInEndingPool, false),
        Answer::Valid => Verdict::keep(keeps),
        Answer::Failed => Verdict::keep(unreadable),
    })
}

/// Stage 1 without pod and endpoint: reads any owner that keeps places under this name.
fn without_pod_and_endpoint(record: &RecordView<'_>, it: &Circumstances<'_>, answers: &mut Answers<'_>) -> Result<Verdict, Stop> {
    let key = key_of_record(record.key).expect("it is a key");
    let kept = it.settings.kept();
    for keeper in [(kept.stateful_sets, Keeper::StatefulSet), (kept.vms, Keeper::Vm)] {
        let (true, keeper) = keeper else { continue };
        if it.policy.reclaim.vm_record_without_owner_check || is_no_place(record, keeper, it) {
            continue;
        }
        match answers.ask(keeper, &key, None)? {
            Answer::Valid => return Ok(Verdict::keep(Row::NameKept)),
            Answer::Failed => return Ok(Verdict::keep(Row::NameUnreadable)),
            Answer::Invalid => {}
        }
    }
    Ok(Verdict::release(Row::NoPodNoEndpoint, false))
}
