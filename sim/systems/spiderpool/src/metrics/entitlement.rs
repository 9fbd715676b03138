//! The end of a pod's entitlement to its addresses, and the time from which reclaim may act on it.

use ipam_reports::reclaim::{ReclaimPath, RightEnd};
use ipam_spiderpool::reclaim::ReclaimSettings;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube_sim::cluster::{EPOCH, later};
use sim_config::time::SimTime;

/// Kubernetes' default grace period, in seconds.
const DEFAULT_GRACE: i64 = 30;
/// w of G §10.2: five tries with their backoff, the requests around them, and the lag of watches. The same value as in claims.
const RELEASE: SignedDuration = SignedDuration::from_secs(10);
/// s of G §10.2: the scan in progress, and the next.
const SCANS: SignedDuration = SignedDuration::from_secs(2);

/// The events that end a pod's entitlement to its addresses.
#[derive(Clone, Copy, Default)]
pub(super) struct Entitlement {
    /// The time at which the pod's object was removed.
    gone: Option<SimTime>,
    /// The time at which the pod's status first said that it has ended.
    ended: Option<SimTime>,
    /// The end of the pod's grace: deletionTimestamp, the grace in it, and the additional delay. `None` if the deletion was forced.
    stop: Option<SimTime>,
    /// The grace period of the containers: terminationGracePeriodSeconds as last seen, or Kubernetes' default.
    grace: SignedDuration,
    /// Whether all containers have ended, by the pod's status.
    silent: bool,
}

/// The end of an entitlement, and the time by which reclaim must have acted on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) by: RightEnd,
    pub(super) at: SimTime,
    /// The time from which tracing may act; containers may run until then.
    due: SimTime,
}

fn after(at: SimTime, delay: SignedDuration) -> SimTime {
    sim_time(later(later(EPOCH, SignedDuration::from_micros(i64::try_from(at.as_micros()).unwrap_or(i64::MAX))), delay))
}

fn sim_time(time: jiff::Timestamp) -> SimTime {
    SimTime::from_micros(u64::try_from(time.duration_since(EPOCH).as_micros()).unwrap_or(0))
}

impl Entitlement {
    /// Whether a commit of this pod affects the end of its entitlement.
    pub(super) fn is_touched(pod: &Pod, gone: bool) -> bool {
        gone || pod.metadata.deletion_timestamp.is_some() || has_ended(pod)
    }

    /// Processes a commit of the pod at `at`, or the removal of its object.
    pub(super) fn learn(&mut self, pod: &Pod, gone: bool, at: SimTime, delay: SignedDuration) {
        let seconds = |seconds: Option<i64>| SignedDuration::from_secs(seconds.unwrap_or(DEFAULT_GRACE));
        self.grace = seconds(pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds));
        if let Some(asked) = &pod.metadata.deletion_timestamp {
            let grace = seconds(pod.metadata.deletion_grace_period_seconds);
            self.stop = Some(sim_time(later(later(asked.0, grace), delay)));
        }
        if has_ended(pod) {
            self.ended.get_or_insert(at);
            self.silent |= all_terminated(pod);
        }
        if gone {
            self.gone.get_or_insert(at);
            // A grace of 0 comes from a forced deletion; the containers keep their own.
            self.stop = self.stop.filter(|_| pod.metadata.deletion_grace_period_seconds != Some(0));
        }
    }

    /// The end of the entitlement; `None` = it lasts.
    pub(super) fn end(&self, delay: SignedDuration) -> Option<Ended> {
        let ends = [(RightEnd::Gone, self.gone), (RightEnd::Ended, self.ended), (RightEnd::GraceOver, self.stop)];
        let (by, at) = ends.into_iter().filter_map(|(by, at)| Some((by, at?))).min_by_key(|(_, at)| *at)?;
        let vanished = |gone| match self.stop {
            _ if self.silent => after(gone, delay),
            Some(stop) => after(gone, delay).max(stop),
            // The containers get their grace period twice, counted from the removal of the object.
            None => after(gone, self.grace * 2 + delay),
        };
        let after_end = |ended| after(ended, self.grace + delay);
        let dues = [self.gone.map(vanished), self.ended.map(after_end), self.stop.filter(|_| self.gone.is_none())];
        Some(Ended { by, at, due: dues.into_iter().flatten().min().unwrap_or(at) })
    }
}

impl Ended {
    /// The time after the end of the entitlement within which an address that is reclaimed on this path must be free by the bounds of G
    /// §10.2: until tracing may act, plus the pause of the loop that finds it (GL1 to GL3) or the time until the end of the next scan (GL4
    /// to GL7).
    pub(super) fn bound(&self, path: ReclaimPath, settings: &ReclaimSettings) -> SignedDuration {
        let signed = |duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
        let finds = match path {
            ReclaimPath::Trace => signed(settings.trace_gap),
            ReclaimPath::Scan | ReclaimPath::Sweep => signed(settings.interval).saturating_add(SCANS),
        };
        let waits =
            SignedDuration::from_micros(i64::try_from(self.due.as_micros().saturating_sub(self.at.as_micros())).unwrap_or(i64::MAX));
        waits.saturating_add(finds).saturating_add(RELEASE)
    }
}

fn has_ended(pod: &Pod) -> bool {
    matches!(pod.status.as_ref().and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed"))
}

/// Whether all containers of a pod have ended, by its status.
fn all_terminated(pod: &Pod) -> bool {
    let mut statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    statuses.all(|status| status.state.as_ref().is_some_and(|state| state.terminated.is_some()))
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::Policy;
    use serde_json::json;

    use super::*;

    fn pod(deleted_at: Option<i64>, grace: i64, phase: &str) -> Pod {
        let asked = deleted_at.map(|seconds| later(EPOCH, SignedDuration::from_secs(seconds)));
        let grace = deleted_at.map(|_| grace);
        let pod = json!({
            "metadata": {"name": "a", "deletionTimestamp": asked, "deletionGracePeriodSeconds": grace},
            "spec": {"containers": [], "terminationGracePeriodSeconds": 20},
            "status": {"phase": phase},
        });
        serde_json::from_value(pod).unwrap()
    }

    /// The event that ended the entitlement, its time, and the bounds of tracing and of scans after that, in seconds.
    fn told(right: &Entitlement) -> (RightEnd, u64, i64, i64) {
        let settings = ReclaimSettings { interval: std::time::Duration::from_secs(100), ..ReclaimSettings::new(&Policy::hardened()) };
        let end = right.end(SignedDuration::from_secs(3)).unwrap();
        let bound = |path| end.bound(path, &settings).as_secs();
        (end.by, end.at.as_micros() / 1_000_000, bound(ReclaimPath::Trace), bound(ReclaimPath::Scan))
    }

    fn learned(steps: &[(Pod, bool, u64)]) -> Entitlement {
        let mut right = Entitlement::default();
        for (pod, gone, at) in steps {
            right.learn(pod, *gone, SimTime::from_secs(*at), SignedDuration::from_secs(3));
        }
        right
    }

    #[test]
    fn a_bound_counts_from_when_containers_have_ended_for_sure() {
        // Terminating and stuck: deletionTimestamp, its grace and the delay; then only the pause of tracing and the release.
        assert_eq!(told(&learned(&[(pod(Some(40), 20, "Running"), false, 20)])), (RightEnd::GraceOver, 63, 15, 112));
        // Gone before that: tracing waits for the end of the grace.
        let vanished = learned(&[(pod(Some(40), 20, "Running"), false, 20), (pod(Some(40), 20, "Running"), true, 50)]);
        assert_eq!(told(&vanished), (RightEnd::Gone, 50, 13 + 15, 13 + 112));
        // Forced: the grace twice, and the delay.
        assert_eq!(told(&learned(&[(pod(Some(20), 0, "Running"), true, 20)])), (RightEnd::Gone, 20, 43 + 15, 43 + 112));
        // Ended and kept: the grace once, and the delay.
        assert_eq!(told(&learned(&[(pod(None, 0, "Succeeded"), false, 30)])), (RightEnd::Ended, 30, 23 + 15, 23 + 112));
        assert_eq!(Entitlement::default().end(SignedDuration::ZERO), None);
    }
}
