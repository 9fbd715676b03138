//! Leader election: no candidate takes a lease that is held.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube_machinery::ObjectKey;
use kube_sim::object::Obj;
use kube_sim::rt::ProcessId;
use kube_sim::trace::{EventKind, Interest};

use super::{Claim, Context, observing};

/// No candidate takes over a lease before it can have seen it for the lease duration, by its own clock, without a renewal, unless the
/// holder has released it (K §4.6).
///
/// Exact: a candidate cannot have seen a renewal before it was written, and has to wait from then on, however fast its clock runs. Leases
/// that were ever written by a process that neither held them nor thereby became the holder are not judged: such a write can bring back
/// what a candidate saw before.
pub(super) fn leases_last(context: &Context<'_>) -> Box<dyn Claim> {
    let (rt, lease) = (context.rt.clone(), context.registry.id::<Lease>());
    let mut leases: BTreeMap<ObjectKey, Seen> = BTreeMap::new();
    observing(Interest::REQUEST.and(Interest::COMMIT), move |event, findings| {
        let clock = |process: ProcessId| rt.clock_of(process).monotonic(rt.now());
        match event.kind {
            EventKind::Request { client, kind, key: Some(key), .. } if kind == lease => {
                leases.entry(key.clone()).or_default().asked(client, clock(client));
            }
            EventKind::Commit { client, kind, key, before, after: Some(after), .. } if kind == lease => {
                let seen = leases.entry(key.clone()).or_default();
                let (was, is) = (before.map(spec).unwrap_or_default(), spec(after));
                if seen.is_by_hand(client, &was, &is) {
                    return;
                }
                if let Some(waited) = seen.waited(client, &was, &is, clock(client)) {
                    findings.exercised();
                    let (lasts, old) = (lasts(&was), holder(&was).unwrap_or_default());
                    if waited < lasts {
                        findings.violated(|| {
                            let taker = rt.process_name(client);
                            vec![format!("{taker} takes the lease {key} from {old} after {waited:?} by its clock, and it lasts {lasts:?}")]
                        });
                    }
                }
                seen.written(clock);
            }
            _ => {}
        }
    })
}

/// The history of a lease.
#[derive(Default)]
struct Seen {
    /// The reading of each candidate's clock when it may first have seen the present state of the lease: when that was written, or when the
    /// candidate first asked for the lease, whichever is later.
    since: BTreeMap<ProcessId, Duration>,
    /// The process that became the holder.
    holder: Option<ProcessId>,
    by_hand: bool,
}

impl Seen {
    /// Notes that a process asks for the lease.
    fn asked(&mut self, candidate: ProcessId, now: Duration) {
        self.since.entry(candidate).or_insert(now);
    }

    /// The time for which `taker` may have seen the lease that it takes from another holder; `None` = it does not take it.
    fn waited(&self, taker: ProcessId, was: &LeaseSpec, is: &LeaseSpec, now: Duration) -> Option<Duration> {
        let (old, new, seen) = (holder(was)?, holder(is)?, self.since.get(&taker)?);
        (old != new).then(|| now.saturating_sub(*seen))
    }

    /// Whether the lease was ever written by a process that neither held it nor thereby became the holder.
    fn is_by_hand(&mut self, writer: ProcessId, was: &LeaseSpec, is: &LeaseSpec) -> bool {
        if holder(was) != holder(is) {
            self.holder = holder(is).map(|_| writer);
        } else {
            self.by_hand |= self.holder.is_some_and(|holder| holder != writer);
        }
        self.by_hand
    }

    /// Notes that the lease was written: no candidate has seen its present state before now.
    fn written(&mut self, clock: impl Fn(ProcessId) -> Duration) {
        self.since.iter_mut().for_each(|(candidate, seen)| *seen = clock(*candidate));
    }
}

fn spec(object: &Obj) -> LeaseSpec {
    object.as_any().downcast_ref::<Lease>().and_then(|lease| lease.spec.clone()).unwrap_or_default()
}

/// The holder of the lease; `None` = nobody.
fn holder(spec: &LeaseSpec) -> Option<&str> {
    spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

fn lasts(spec: &LeaseSpec) -> Duration {
    Duration::from_secs(spec.lease_duration_seconds.and_then(|seconds| seconds.try_into().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(holder: &str) -> LeaseSpec {
        LeaseSpec { holder_identity: Some(holder.to_owned()), lease_duration_seconds: Some(15), ..LeaseSpec::default() }
    }

    #[test]
    fn whoever_takes_a_lease_has_waited_since_it_was_written_or_since_he_first_asked() {
        kube_sim::rt::run(1, async |rt| {
            let process = |name: &str| rt.add_process(rt.add_host(name), name);
            let (one, other, third) = (process("a"), process("b"), process("c"));
            let secs = Duration::from_secs;
            let mut seen = Seen::default();
            seen.asked(one, secs(1));
            seen.asked(one, secs(9));
            let (a, b) = (held_by("a"), held_by("b"));
            assert_eq!(seen.waited(one, &b, &a, secs(11)), Some(secs(10)));
            seen.written(|_| secs(12));
            seen.asked(other, secs(20));
            assert_eq!(seen.waited(one, &b, &a, secs(27)), Some(secs(15)));
            assert_eq!(seen.waited(other, &a, &b, secs(27)), Some(secs(7)), "it had not asked before");
            assert_eq!(seen.waited(third, &a, &b, secs(27)), None, "no candidate");
            assert_eq!(seen.waited(one, &a, &a, secs(27)), None, "a renewal");
            assert_eq!(seen.waited(one, &held_by(""), &a, secs(27)), None, "given back");
            assert_eq!(lasts(&a), secs(15));
            let nobody = LeaseSpec::default();
            assert!(
                ![(one, &nobody, &a), (one, &a, &a), (other, &a, &b), (other, &b, &b)]
                    .iter()
                    .any(|(by, was, is)| seen.is_by_hand(*by, was, is))
            );
            assert!(seen.is_by_hand(one, &b, &b), "it does not hold it");
        });
    }
}
