//! Addresses that reclaim has to take back, with the beginning and the end of the bound (G §10.2).
//!
//! A bound counts from the later of the end of the pod's entitlement and the last obstacle, such as records that could not be parsed.
//! Faults of nodes, kubelets and plugins are no obstacles; after all other faults bounds count from the heal, with a failover and an
//! interval.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipam_spiderpool::select::is_auto_pool;
use ipam_spiderpool::{PoolIPAllocation, SpiderEndpoint};
use jiff::{SignedDuration, Timestamp};
use kube_sim::cluster::later;
use sim_config::time::SimTime;

use super::super::view::{AFTERMATH, Place, Pod, Reach, View, grace, has_stopped, of_containers, sim_time, uid_of};

/// The duration of a release: five attempts with their backoff, the requests around them, and the delay of watches.
const RELEASE: Duration = Duration::from_secs(10);

/// The way in which a pod lost the entitlement to its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its object is gone (GL1).
    Vanished,
    /// It is terminating, and its grace period is over (GL2).
    Stuck,
    /// It has ended (GL3).
    Ended,
    /// Its place was given up before it began to end (GL5).
    GivenUp,
    /// Its place was given up when it was already ending or gone (GL6).
    Abandoned,
    /// It was never seen.
    Unknown,
}

/// A pod that is not entitled to the addresses that are recorded for it or that its endpoint names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leak {
    /// The way in which it lost its entitlement.
    pub(super) kind: Kind,
    /// The time at which its entitlement ended.
    pub(super) due: SimTime,
    /// The time at which the cause became visible: the pod was deleted, ended or vanished.
    pub(super) event: SimTime,
    /// Whether only scans find it: the records of the pool could not be parsed meanwhile, so that the tracing replica may have given up; or
    /// nothing was left to trace when a delayed write made the record.
    pub(super) untraced: bool,
}

fn after(at: SimTime, delay: SignedDuration) -> SimTime {
    sim_time(later(super::super::view::wall(at), delay))
}

/// The time at which the containers of a pod that vanished have certainly ended, so that tracing may act.
fn end_of_vanished(view: &View, pod: &Pod, gone: SimTime) -> SimTime {
    let delay = view.terms.settings.grace_delay;
    let at = after(gone, delay);
    if pod.node().is_none() {
        return at;
    }
    // For a replica that missed its end, the pod vanished when a list said so, and its containers get their grace period twice (G R9).
    let twice = |since| after(since, of_containers(grace(&pod.object)) * 2 + delay);
    if let Some(told) = pod.object.metadata.uid.as_deref().and_then(|uid| view.replicas.missed(uid)) {
        return twice(told);
    }
    if has_stopped(&pod.object) {
        return at;
    }
    // A grace period of 0 is that of the forced deletion, not that of the containers; they get theirs twice, counted from now.
    let forced = pod.object.metadata.deletion_grace_period_seconds == Some(0);
    let stop = view.stop_of(&pod.object).filter(|_| !forced);
    at.max(stop.map_or_else(|| twice(gone), sim_time))
}

/// The time at which the containers of a pod that vanished have certainly ended, and those of the gone pod that its endpoint still names: a
/// successor may have taken over only the records (S-8).
fn end_of_vanished_with_endpoint(view: &View, pod: &Pod, gone: SimTime) -> SimTime {
    let named = view.endpoint_of(pod).and_then(|(endpoint, _)| view.pods.get(uid_of(endpoint)));
    let end_of_named = named.and_then(|named| Some(end_of_vanished(view, named, named.since.gone?)));
    end_of_vanished(view, pod, gone).max(end_of_named.unwrap_or(SimTime::ZERO))
}

/// The time by which a kubelet must end a pod if its node became ready again after the pod's deletion was requested: the grace period, and
/// the same once more. If the node is lost again before that, the wait ends.
fn time_after_return(view: &View, pod: &Pod, asked: SimTime) -> SimTime {
    let Some((back, lost)) = pod.node().and_then(|node| view.nodes.last_ready(node)).filter(|(back, _)| *back >= asked) else {
        return SimTime::ZERO;
    };
    let seconds = pod.object.metadata.deletion_grace_period_seconds;
    let grace = seconds.map_or_else(|| grace(&pod.object), SignedDuration::from_secs);
    // The condition has a resolution of whole seconds.
    let one = SignedDuration::from_secs(1);
    let over = after(back, of_containers(grace) * 2 + view.terms.settings.grace_delay + one);
    lost.map_or(over, |lost| lost.min(over))
}

/// The time at which an ended pod is over: a grace period after its last container finished or, if the status does not say when, after a
/// leader saw that it has ended.
fn end_of_ended(view: &View, pod: &Pod, ended: SimTime) -> SimTime {
    let statuses = pod.object.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    let finished = |status: &k8s_openapi::api::core::v1::ContainerStatus| -> Option<Timestamp> {
        Some(status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0)
    };
    let last = statuses.into_iter().flatten().filter_map(finished).max();
    let seen = || ended.max(view.replicas.led_since().unwrap_or(ended));
    after(last.map_or_else(seen, |last| sim_time(last).max(ended)), grace(&pod.object) + view.terms.settings.grace_delay)
}

/// The loss of a pod's entitlement to its addresses, if it has lost it; `None` = it is entitled, the settings exempt the pods of its node,
/// or it was never seen: then the names of its records decide ([`leak_of_record`]).
pub(super) fn leak_of(view: &View, uid: &str) -> Option<Leak> {
    let pod = view.pods.get(uid)?;
    let place = view.keeping_place(pod);
    // An existing place keeps its addresses whatever its pod does.
    let given_up = match place {
        Some(place) => Some(view.places.gone_since(place)?),
        None => None,
    };
    let permitted = || view.nodes.since(pod.node()?, |state| view.gives_up(state) == Some(true));
    let since = pod.since;
    let (kind, due, event) = match (since.gone, since.ended, since.terminating) {
        (Some(gone), ..) => (Kind::Vanished, end_of_vanished_with_endpoint(view, pod, gone), gone),
        (None, Some(ended), _) => (Kind::Ended, end_of_ended(view, pod, ended).max(permitted()?), ended),
        (None, None, Some(terminating)) => {
            let stop = sim_time(view.stop_of(&pod.object)?).max(time_after_return(view, pod, terminating));
            (Kind::Stuck, stop.max(permitted()?), terminating)
        }
        (None, None, None) => return None,
    };
    let Some(given_up) = given_up else { return Some(Leak { kind, due, event, untraced: false }) };
    let began = since.terminating.or(since.ended).unwrap_or(event);
    // The instance of a VM outlives its pods, so that they cause no event when the VM is gone (GL6).
    let is_vm = matches!(place, Some(Place::Vm(_)));
    let kind = if given_up <= began && !is_vm { Kind::GivenUp } else { Kind::Abandoned };
    Some(Leak { kind, due: due.max(given_up), event: event.max(given_up), untraced: false })
}

/// The leak of a record: that of its pod, or by its name if the pod was never seen or has another name.
pub(super) fn leak_of_record(view: &View, address: IpAddr, record: &PoolIPAllocation) -> Option<Leak> {
    if view.pods.get(&record.pod_uid).is_some_and(|pod| pod.has_name(&record.pod)) {
        return leak_of(view, &record.pod_uid);
    }
    let due = nobodys_since(view, address, record)?;
    Some(Leak { kind: Kind::Unknown, due, event: due, untraced: false })
}

/// The leak of a record in an auto pool that is being deleted: a StatefulSet's place keeps no address of it once its pod is gone, as the
/// next pod gets none of them (A §8.6). `None` = it is another pool, or a pod of the name exists, which gives the address up.
fn leak_of_ending_pool(view: &View, pool: &str, record: &PoolIPAllocation) -> Option<Leak> {
    let ends = view.pools.get(pool).filter(|pool| is_auto_pool(&pool.object))?.object.metadata.deletion_timestamp.clone()?;
    let pod = view.pods.get(&record.pod_uid).filter(|pod| pod.gone && matches!(pod.place, Some(Place::Ordinal(..))))?;
    if view.pods.named(&record.pod).is_some() {
        return None;
    }
    let event = sim_time(ends.0).max(view.pods.emptied(&record.pod));
    let due = event.max(end_of_vanished_with_endpoint(view, pod, pod.since.gone?));
    Some(Leak { kind: Kind::Abandoned, due, event, untraced: true })
}

/// The time since which no pod or place has been entitled to the record of a pod that was never seen; `None` = one is. All that is left of
/// such a pod is its name (G §3.3).
fn nobodys_since(view: &View, address: IpAddr, record: &PoolIPAllocation) -> Option<SimTime> {
    let name = record.pod.as_str();
    // A pod cannot have such a name, so it is unknown whose record it is (S-0).
    if name.bytes().filter(|byte| *byte == b'/').count() > 1 {
        return None;
    }
    let endpoint = view.endpoints.get(name);
    if let Some((uid, pod)) = view.pods.named(name) {
        let place = view.keeping_place(pod);
        // An ordinary pod that merely has the name of a VM or of a place does not end their entitlement (D, `namesake-frees`).
        let is_of_name = place.is_some() && pod.static_name().is_some_and(|own| **own == *name);
        let is_namesake =
            !is_of_name && endpoint.is_some_and(|endpoint| uid_of(endpoint) != &**uid && place_of(view, name, endpoint).is_some());
        if !is_namesake {
            return of_name_since(view, pod, place, address);
        }
    }
    let emptied = view.pods.emptied(name);
    let place = match endpoint {
        // If nothing tells whose record it was, the name alone decides (S-3v).
        None => return kept_name_since(view, name).map(|since| since.max(emptied)),
        Some(endpoint) => match place_of(view, name, endpoint) {
            Some(vm @ Place::Vm(_)) => Some(vm),
            // The mark is the point of no return (S-9), except for a VM.
            _ if endpoint.metadata.deletion_timestamp.is_some() && uid_of(endpoint) == record.pod_uid => return Some(emptied),
            place => place,
        },
    };
    // The rows S-4v and S-5v, or S-6.
    place.map_or(Some(emptied), |place| view.places.gone_since(&place).map(|since| since.max(emptied)))
}

/// The time since which the present pod of a name has had no use for the record of another pod of the name; `None` = it is to have the
/// address (U-2v), or answers on it (U-3u).
fn of_name_since(view: &View, pod: &Pod, place: Option<&Place>, address: IpAddr) -> Option<SimTime> {
    let ips = pod.object.status.as_ref().and_then(|status| status.pod_ips.as_ref()).into_iter().flatten();
    let shown: Vec<IpAddr> = ips.filter_map(|shown| shown.ip.parse().ok()).collect();
    if shown.contains(&address) {
        return None;
    }
    let conditions = pod.object.status.as_ref().and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let turned = conditions.filter_map(|condition| Some(sim_time(condition.last_transition_time.as_ref()?.0))).max();
    let created = pod.object.metadata.creation_timestamp.as_ref().map(|created| sim_time(created.0));
    let changed = turned.max(created).unwrap_or(SimTime::ZERO);
    match place {
        Some(place) if shown.is_empty() => view.places.gone_since(place).map(|since| since.max(changed)),
        _ => Some(changed),
    }
}

/// The place that an endpoint keeps its addresses for, by the kind and the name of its owner (S-4, S-5). An endpoint that is deleted with
/// its pod keeps none.
fn place_of(view: &View, name: &str, endpoint: &SpiderEndpoint) -> Option<Place> {
    let goes_with_pod = endpoint.metadata.owner_references.iter().flatten().any(|owner| owner.kind == "Pod");
    let place = match endpoint.status.as_ref().map(|status| status.owner_controller_type.as_str()) {
        // If the name is not that of a place, no pod of the name is wanted.
        Some("StatefulSet") => ordinal_of(name).unwrap_or_else(|| Place::Ordinal(name.into(), 0)),
        Some("VirtualMachineInstance") => Place::Vm(name.into()),
        _ => return None,
    };
    (!goes_with_pod && view.keeps_places(&place)).then_some(place)
}

/// The place in a StatefulSet that a pod's name denotes.
fn ordinal_of(name: &str) -> Option<Place> {
    let (set, ordinal) = name.rsplit_once('-')?;
    let ordinal: i32 = ordinal.bytes().all(|byte| byte.is_ascii_digit()).then(|| ordinal.parse().ok())??;
    Some(Place::Ordinal(set.into(), u32::try_from(ordinal).ok()?))
}

/// The time since which neither a StatefulSet nor a VM has kept the addresses recorded under a name, whatever pod has it; `None` = one
/// does.
fn kept_name_since(view: &View, name: &str) -> Option<SimTime> {
    let places = [ordinal_of(name), Some(Place::Vm(name.into()))].into_iter().flatten().filter(|place| view.keeps_places(place));
    places.map(|place| view.places.gone_since(&place)).try_fold(SimTime::ZERO, |latest, since| since.map(|since| latest.max(since)))
}

/// The leak of a pod that addresses are recorded for, with the latest such address. Addresses do not count that are in use under the same
/// name or were edited by hand, unless the record names a pod that was never seen, which is entitled to nothing.
pub(super) fn recorded_leak(view: &View, uid: &str) -> Option<(Leak, Arc<str>, IpAddr)> {
    let leaked = |(pool, address): &(Arc<str>, IpAddr)| {
        let holder = view.pools.holder(pool, *address)?;
        let is_named = view.pods.get(uid).is_none_or(|pod| pod.has_name(&holder.record.pod));
        let in_use =
            view.sandboxes.answering(*address).any(|(_, sandbox)| *sandbox.uid != *uid && sandbox.pod.as_str() == holder.record.pod);
        let invented = || view.pods.get(uid).is_none() && kept_name_since(view, &holder.record.pod).is_some();
        if !is_named || in_use || (view.changes.touched(*address) && !invented()) {
            return None;
        }
        let leak = leak_of_record(view, *address, &holder.record).or_else(|| leak_of_ending_pool(view, pool, &holder.record))?;
        Some((leak, holder.since.map_or(SimTime::ZERO, |said| said.at)))
    };
    let of_all = view.pools.of_uid(uid).iter().filter_map(|own| Some((leaked(own)?, own.0.clone(), own.1)));
    let ((leak, since), pool, address) = of_all.max_by_key(|((_, since), ..)| *since)?;
    let readable = view.pools.get(&pool).and_then(|pool| pool.garbled_until(view.at)).filter(|until| *until > leak.event);
    // A delayed record appears when tracing of the pod is over (A W22, GL4).
    let is_late = view.replicas.untraced_since(uid).is_some_and(|over| over < since);
    let since = readable.map_or(since, |until| until.max(since));
    Some((
        Leak { due: leak.due.max(since), event: leak.event.max(since), untraced: leak.untraced || readable.is_some() || is_late, ..leak },
        pool,
        address,
    ))
}

/// Whether a replica reclaims that is not lost permanently.
pub(super) fn is_reclaimed(view: &View) -> bool {
    view.terms.replicas.iter().any(|replica| !view.out_of_reach.names.contains(replica))
}

/// Whether a fault can hinder any replica.
pub(super) fn hinders(reach: &Reach) -> bool {
    *reach != Reach::Nodes
}

/// Whether a fault can hinder any replica from finding and removing records. For endpoints that a cache lacks the API server is asked.
pub(super) fn hinders_records(reach: &Reach) -> bool {
    hinders(reach) && *reach != Reach::EndpointCaches
}

/// The time until another replica leads (F).
pub(super) fn failover(view: &View) -> Duration {
    let settings = &view.terms.settings;
    settings.lease_duration + settings.retry_period * 22 / 5 + settings.leader_poll
}

/// The time for the scan that may be in progress, and the next one (2 s).
fn scans(view: &View) -> Duration {
    2 * view.replicas.longest_scan.max(Duration::from_secs(1))
}

/// The time by which every leak must be found (B of G §10.2), counted from the later of the end of the entitlement and the heal.
pub(super) fn at_the_latest(view: &View, due: SimTime) -> SimTime {
    let settings = &view.terms.settings;
    let retries = settings.trace_gap * (1 + settings.max_retries);
    due.max(view.health.heal_at) + failover(view) + settings.interval + scans(view) + retries + RELEASE
}

/// The time by which a scan has found it (GL4); `hinder` selects the faults that may delay the scan.
pub(super) fn by_scan(view: &View, leak: &Leak, hinder: fn(&Reach) -> bool) -> SimTime {
    let settings = &view.terms.settings;
    let calm = view.health.is_calm_since(leak.event, hinder) && view.replicas.led_since().is_some();
    let general = if calm { leak.due + settings.interval + scans(view) + RELEASE } else { at_the_latest(view, leak.due) + AFTERMATH };
    // A replica that takes over scans at once.
    let Some(taken_over) = view.replicas.taken_over.filter(|said| leak.due < said.at && view.replicas.leads(said.by)) else {
        return general;
    };
    let leader = view.name(taken_over.by);
    if !view.health.is_calm_since(taken_over.at, |reach| hinder(reach) && reach.hinders(&leader)) {
        return general;
    }
    general.min(taken_over.at + settings.leader_poll + scans(view) + RELEASE)
}

/// The time by which tracing has found it (GL1, GL2, GL3, GL5).
pub(super) fn by_tracing(view: &View, uid: &str, leak: &Leak) -> SimTime {
    let settings = &view.terms.settings;
    if leak.untraced {
        return by_scan(view, leak, hinders_records);
    }
    // A leader sees what begins while it leads and, when it begins to lead, everything that still exists.
    let is_there = view.pods.get(uid).is_some_and(|pod| !pod.gone);
    let base = match view.replicas.led_since() {
        Some(led) if led <= leak.event => leak.due,
        Some(led) if is_there => leak.due.max(led + settings.leader_poll),
        _ => return by_scan(view, leak, hinders_records),
    };
    let gap = settings.trace_gap;
    let base = if view.health.is_calm_since(leak.event, hinders_records) {
        base
    } else if view.health.is_calm_since(leak.event, |reach| hinders_records(reach) && *reach != Reach::Requests) {
        // Events that could not be judged are judged again.
        let until = view.health.troubled_until(|reach| *reach == Reach::Requests).unwrap_or(base);
        base.max(until) + AFTERMATH + gap * settings.max_retries
    } else {
        return by_scan(view, leak, hinders_records);
    };
    let key = view.pods.get(uid).and_then(|pod| pod.names().next().cloned());
    let failures = key.map_or(0, |key| view.replicas.failures(&key, leak.event));
    let delays = gap * failures + (gap + settings.signal_timeout) * view.replicas.fullness(uid, leak.event);
    let at = base + gap + scans(view) + delays + RELEASE;
    view.replicas.progress_before(uid).map_or(at, |progress| at.max(progress + RELEASE))
}
