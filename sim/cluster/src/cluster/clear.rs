//! Is anything between a process and the API servers that could eat, delay, refuse or hide a message?
//!
//! Heartbeats of nodes are not sent while nobody could tell the difference (`node::heartbeat`); this is how that is known. Every part of the
//! world that a fault can hold is looked at: the process and its clock, the links both ways, each server with its caches, and etcd.

use sim_config::time::SimTime;

use super::server::{ApiFault, ApiServer};
use super::{Fabric, State};
use crate::kinds::KindId;
use crate::rt::{ProcessId, ProcessState};

/// What was delivered late may keep later changes late: a cache that is behind by more than this is not clear.
const BEHIND_MAX: u64 = 1_000_000;

impl Fabric {
    /// Whether whatever `client` asks about `kinds` is answered as on a good day, and whatever it watches of them arrives so.
    pub fn is_clear(&self, client: ProcessId, kinds: &[KindId]) -> bool {
        if self.rt.state(client) != ProcessState::Running || !self.rt.clock_of(client).runs_true() {
            return false;
        }
        let state = self.lock();
        let now = self.rt.now();
        state.reaches_every_etcd()
            && state.servers.iter().all(|server| server.is_well(kinds, now) && state.net.is_untouched(client, server.process))
            && !state.api_faults.iter().any(|fault| is_hit(fault, client, kinds))
            && !state.forbidden.iter().any(|rule| rule.clients.contains(client) && meets(&rule.kinds, kinds))
            && !state.cache_lags.iter().any(|lag| lag.concerns(client, kinds))
            && !state.webhooks.iter().any(|hook| meets(&hook.kinds, kinds))
    }
}

impl State {
    fn reaches_every_etcd(&self) -> bool {
        self.etcd.trouble.is_none() && !self.etcd.is_degraded()
    }
}

impl ApiServer {
    fn is_well(&self, kinds: &[KindId], now: SimTime) -> bool {
        let in_time = |kind: &KindId| {
            let cache = &self.caches[usize::from(kind.0)];
            let behind = cache.last_due.as_micros().saturating_sub(now.as_micros());
            !cache.frozen && !cache.lost && cache.extra_lag.is_zero() && behind <= BEHIND_MAX
        };
        self.up && !self.paused && !self.etcd_cut && !self.degraded && self.ready_at <= now && kinds.iter().all(in_time)
    }
}

fn is_hit(fault: &ApiFault, client: ProcessId, kinds: &[KindId]) -> bool {
    fault.clients.contains(client) && meets(&fault.kinds, kinds)
}

/// Whether a rule for `ruled` types (none = all) is about one of `kinds`.
fn meets(ruled: &[KindId], kinds: &[KindId]) -> bool {
    ruled.is_empty() || ruled.iter().any(|kind| kinds.contains(kind))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::coordination::v1::Lease;
    use k8s_openapi::api::core::v1::{ConfigMap, Node};
    use kube_machinery::api::Verb;

    use super::*;
    use crate::cluster::EtcdTrouble;
    use crate::cluster::admission::{FailurePolicy, Forbidden, Service, Webhook};
    use crate::cluster::server::Mishap;
    use crate::net::{Effect, Rule, Side};
    use crate::testbed::Testbed;

    const SECOND: Duration = Duration::from_secs(1);

    /// A way to trouble the cluster around a client, and the way back.
    type Trouble = (&'static str, fn(&Testbed, ProcessId), fn(&Testbed, ProcessId));

    fn rule(bed: &Testbed, from: Side, to: Side, effect: Effect) {
        bed.fabric.network(|net| net.add(Rule { from, to, effect }));
    }

    fn heal(bed: &Testbed, _: ProcessId) {
        bed.fabric.network(crate::net::Network::heal);
    }

    fn mishap(bed: &Testbed, client: ProcessId, kinds: Vec<KindId>) {
        let clients = Side::Only(vec![client]);
        let mishap = Mishap::TooManyRequests { retry_after: 1 };
        let verbs = vec![Verb::Update];
        bed.fabric.add_api_fault(ApiFault { fault: 7, servers: Side::Any, clients, verbs, kinds, chance: 0.1, mishap });
    }

    const TROUBLES: [Trouble; 20] = [
        ("a cut", |bed, me| rule(bed, Side::Only(vec![me]), Side::Any, Effect::Cut), heal),
        ("a cut of the answers", |bed, me| rule(bed, Side::Any, Side::Only(vec![me]), Effect::Cut), heal),
        (
            "a loss between some",
            |bed, me| rule(bed, Side::Only(vec![me]), Side::Only(vec![bed.fabric.server_process(1)]), Effect::Loss(0.1)),
            heal,
        ),
        ("a slow link", |bed, _| rule(bed, Side::Any, Side::Any, Effect::Slower(SECOND)), heal),
        (
            "a crash",
            |bed, me| {
                bed.fabric.crash(me);
            },
            |bed, me| {
                bed.fabric.start(me);
            },
        ),
        (
            "a pause",
            |bed, me| {
                bed.fabric.pause(me);
            },
            |bed, me| {
                bed.fabric.resume(me);
            },
        ),
        (
            "a drift",
            |bed, me| bed.rt.adjust_clock(bed.rt.host_of(me), |clock, now| clock.set_drift(now, 1_000)),
            |bed, me| {
                bed.rt.adjust_clock(bed.rt.host_of(me), |clock, now| clock.set_drift(now, 0));
            },
        ),
        ("a server that is down", |bed, _| bed.fabric.crash_server(1), |bed, _| bed.fabric.restart_server(1, Duration::ZERO)),
        (
            "a paused server",
            |bed, _| {
                bed.fabric.pause(bed.fabric.server_process(0));
            },
            |bed, _| {
                bed.fabric.resume(bed.fabric.server_process(0));
            },
        ),
        ("a slow server", |bed, _| bed.fabric.set_server_degraded(0, true), |bed, _| bed.fabric.set_server_degraded(0, false)),
        ("a server without etcd", |bed, _| bed.fabric.set_etcd_cut(0, true), |bed, _| bed.fabric.set_etcd_cut(0, false)),
        (
            "etcd without a leader",
            |bed, _| bed.fabric.set_etcd_trouble(Some(EtcdTrouble::Electing)),
            |bed, _| bed.fabric.set_etcd_trouble(None),
        ),
        ("a slow etcd", |bed, _| bed.fabric.set_etcd_degraded(true), |bed, _| bed.fabric.set_etcd_degraded(false)),
        ("frozen caches", |bed, _| bed.fabric.set_frozen(1, None, true), |bed, _| bed.fabric.set_frozen(1, None, false)),
        (
            "frozen leases",
            |bed, _| bed.fabric.set_frozen(0, Some(bed.kind::<Lease>()), true),
            |bed, _| {
                bed.fabric.set_frozen(0, Some(bed.kind::<Lease>()), false);
            },
        ),
        (
            "a late cache",
            |bed, _| bed.fabric.set_extra_lag(0, Some(bed.kind::<Node>()), SECOND),
            |bed, _| {
                bed.fabric.set_extra_lag(0, Some(bed.kind::<Node>()), Duration::ZERO);
            },
        ),
        (
            "a late watch",
            |bed, me| bed.fabric.set_cache_lag(me, None, SECOND),
            |bed, me| bed.fabric.set_cache_lag(me, None, Duration::ZERO),
        ),
        ("refused writes", |bed, me| mishap(bed, me, Vec::new()), |bed, _| bed.fabric.remove_api_faults(7)),
        ("refused leases", |bed, me| mishap(bed, me, vec![bed.kind::<Lease>()]), |bed, _| bed.fabric.remove_api_faults(7)),
        (
            "no permission",
            |bed, me| bed.fabric.forbid(Forbidden { fault: Some(7), clients: Side::Only(vec![me]), verbs: Vec::new(), kinds: Vec::new() }),
            |bed, _| bed.fabric.permit(Some(7)),
        ),
    ];

    #[test]
    fn whatever_could_eat_a_message_is_seen_and_so_is_its_end() {
        Testbed::run(1, async |bed| {
            let me = bed.client("kubelet").process();
            let kinds = [bed.kind::<Node>(), bed.kind::<Lease>()];
            assert!(bed.fabric.is_clear(me, &kinds));
            for (name, begin, end) in TROUBLES {
                begin(&bed, me);
                assert!(!bed.fabric.is_clear(me, &kinds), "{name}");
                end(&bed, me);
                bed.wait(3 * SECOND).await;
                assert!(bed.fabric.is_clear(me, &kinds), "after {name}");
            }
        });
    }

    #[test]
    fn a_webhook_that_is_asked_about_them_can_refuse_them() {
        Testbed::run(1, async |bed| {
            let me = bed.client("kubelet").process();
            bed.fabric.add_webhook(Webhook {
                name: "leases.example.com".into(),
                mutating: false,
                kinds: vec![bed.kind::<Lease>()],
                verbs: vec![Verb::Update],
                failure_policy: FailurePolicy::Fail,
                timeout: SECOND,
                service: Service::new("nobody"),
            });
            assert!(!bed.fabric.is_clear(me, &[bed.kind::<Lease>()]) && bed.fabric.is_clear(me, &[bed.kind::<Node>()]));
        });
    }

    #[test]
    fn what_is_about_others_is_none_of_its_business() {
        Testbed::run(1, async |bed| {
            let (me, other) = (bed.client("kubelet").process(), bed.client("other").process());
            let kinds = [bed.kind::<Node>(), bed.kind::<Lease>()];
            rule(&bed, Side::Only(vec![other]), Side::Any, Effect::Cut);
            mishap(&bed, other, Vec::new());
            mishap(&bed, me, vec![bed.kind::<ConfigMap>()]);
            bed.fabric.set_frozen(0, Some(bed.kind::<ConfigMap>()), true);
            bed.fabric.set_cache_lag(me, Some(bed.kind::<ConfigMap>()), SECOND);
            bed.fabric.pause(other);
            assert!(bed.fabric.is_clear(me, &kinds) && !bed.fabric.is_clear(other, &kinds));
            assert!(!bed.fabric.is_clear(me, &[bed.kind::<ConfigMap>()]));
        });
    }
}
