//! Many adaptors allocate from one pool, and nothing else happens: a test of capacity (B §8).
//!
//! ```text
//!  adaptor-0    ── GET ── PUT ── 200
//!  adaptor-1    ──── GET ── PUT ── 409 ── sleep ── GET ── PUT ── 200
//!     …
//!  adaptor-63   ── GET ──── PUT ── 409 ── sleep ── GET ── …
//! ```
//! There are no pods, no kubelets and no PeerPods: each adaptor uses its [`VmPool`](ipam_byom::VmPool) directly, the pool's document exists
//! at the beginning unless it is `absent`, and allocations are released only in a [`ClosedLoop`]. Operators may edit the document by hand.

mod client;
mod draft;
mod instance;
mod operator;
mod pool;

use std::sync::Arc;
use std::time::Duration;

use ipam_byom::{Policy, Retry};
use kube_machinery::ObjectKey;
use kube_machinery::rate_limit::{CLIENT_GO, RateLimit};
use kube_machinery::retry::{Backoff, DEFAULT_BACKOFF, DEFAULT_RETRY};
use kube_sim::cluster::Cluster;
use kube_sim::fault::FaultTargets;
use kube_sim::net::Delay;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::time::Span;
use sim_config::{Open, Problems, Source};
use sim_harness::operation::{Op, OpKind};
use sim_harness::plan::CLIENTS_MAX;
use sim_harness::workload::RunContext;
use sim_harness::workload::{BackoffPlan, InvalidValue, Smaller, Work, at_most, from_one_to, without_idle};

use super::pods::OPERATOR;
use super::pool_key;
use crate::Operation;

pub use draft::BurstDraft;

/// The maximum number of addresses in a pool: more than its document could ever record (B §1.2).
pub const ADDRESSES_MAX: u32 = 1 << 17;

/// The adaptors of a plan and their pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BurstPlan {
    /// The number of adaptors, each on its own host.
    pub instances: u32,
    /// The number of addresses in the pool.
    pub addresses: u32,
    /// The number of addresses with a record at the beginning: the first ones.
    #[serde(default)]
    pub taken: u32,
    /// The number of the other addresses whose VM does not answer: the first ones.
    #[serde(default)]
    pub dead: u32,
    /// The retry policy of a write that failed with a conflict.
    #[serde(default)]
    pub retry: RetryName,
    /// The limit on the rate of an adaptor's requests.
    #[serde(default)]
    pub throttle: Throttle,
    /// Whether a VM is probed before it is handed out.
    #[serde(default)]
    pub probes: bool,
    /// The time to connect to a VM that answers.
    #[serde(default = "dial")]
    pub dial: Delay,
    /// The time that an adaptor needs between an answer and the next request. None after a sleep.
    #[serde(default = "think")]
    pub think: Span,
    /// Whether operators edit the ConfigMap by hand.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    /// The retry policy of a write that failed with a conflict, in numbers, in place of `retry`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<BackoffPlan>,
    /// The number of ConfigMaps over which addresses and adaptors are spread, in turn. Claims judge the first.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub pools: u32,
    /// The lock that an adaptor holds while it reads and writes the pool.
    #[serde(default, skip_serializing_if = "Lock::is_none")]
    pub lock: Lock,
    /// Each allocation is the first of a loop. Unset = its address is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_loop: Option<ClosedLoop>,
    /// Whether there is no ConfigMap at the beginning: the very first allocation creates it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub absent: bool,
}

/// An adaptor allocates, holds, releases, and repeats: the next call comes when the previous one is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClosedLoop {
    /// The number of rounds, from 1. A call that is refused counts, and the next one follows at once.
    pub times: u32,
    /// The time for which an address is held before it is released. Unset = it is kept, and the next call follows at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Span>,
}

/// The maximum number of rounds of a loop.
const TIMES_MAX: u32 = 10_000;

impl ClosedLoop {
    fn problems(self, source: Source<'_>) -> Problems {
        from_one_to(source, "workload.closed_loop.times", self.times, TIMES_MAX)
    }
}

fn one() -> u32 {
    1
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

/// A lock that adaptors take in turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Lock {
    /// None: writes are guarded only by the version.
    #[default]
    None,
    /// A Lease for each pool.
    Lease,
}

impl Lock {
    fn is_none(&self) -> bool {
        *self == Lock::None
    }
}

/// The latency d of B §8.1, with the spread of the other delays.
fn dial() -> Delay {
    Delay::Uniform { low: Span::micros(1_600), high: Span::micros(2_400) }
}

/// The thinking time t of B §8.1.
fn think() -> Span {
    Span::micros(500)
}

/// A retry policy, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RetryName {
    /// The retry policy of the adaptor's own policy: patient, or client-go's `DefaultBackoff` with the mutation `byom-four-attempts`.
    #[default]
    Own,
    /// client-go's `DefaultBackoff`: 4 attempts, 10 ms times 5, 10 % jitter.
    DefaultBackoff,
    /// client-go's `DefaultRetry`: 5 attempts, 10 ms, 10 % jitter.
    DefaultRetry,
    /// 12 attempts with full jitter up to 500 ms.
    Twelve,
    /// Full jitter up to 500 ms with no limit but the operation's time.
    Patient,
}

impl Open for RetryName {}

impl RetryName {
    /// The retry policy with this name.
    pub fn retry(self, policy: &Policy) -> Retry {
        let preset = |backoff: Backoff| Retry::Backoff(backoff);
        match self {
            RetryName::Own => Retry::of(policy),
            RetryName::DefaultBackoff => preset(DEFAULT_BACKOFF),
            RetryName::DefaultRetry => preset(DEFAULT_RETRY),
            RetryName::Twelve => Retry::TWELVE,
            RetryName::Patient => Retry::PATIENT,
        }
    }
}

/// A client-side rate limit, by name (K §4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Throttle {
    /// An adaptor sends its requests at once: nothing on its side limits their rate.
    #[default]
    None,
    /// client-go's default: 5 requests a second after a burst of 10.
    ClientGo,
    /// client-go's default with its burst used up: 200 ms from each request to the next.
    Drained,
}

impl Open for Throttle {}

impl Throttle {
    fn limit(self) -> Option<RateLimit> {
        match self {
            Throttle::None => None,
            Throttle::ClientGo => Some(CLIENT_GO),
            Throttle::Drained => Some(RateLimit { burst: 1, ..CLIENT_GO }),
        }
    }
}

/// An allocation that an adaptor makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Allocate {
    /// The name of the pod, in namespace `default`.
    pub pod: String,
    /// Whether it repeats the request under the same ID, once it has an address: the answer must be the same (B I7).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// The time from the first answer to the repetition; at once if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Span>,
}

/// The place of the document of the pool with this number; that of the first is [`pool_key`].
pub fn key_of_pool(number: u32) -> ObjectKey {
    let first = pool_key();
    match (number, first.namespace()) {
        (1.., Some(namespace)) => ObjectKey::namespaced(namespace, &format!("{}-{number}", first.name())),
        _ => first,
    }
}

impl BurstPlan {
    /// The places of the documents of its pools.
    pub fn pool_keys(&self) -> Vec<ObjectKey> {
        (0..self.pools.max(1)).map(key_of_pool).collect()
    }
}

/// The name of the adaptor with this number.
pub fn adaptor_name(number: u32) -> String {
    format!("adaptor-{number}")
}

impl BurstPlan {
    fn adaptor_names(&self) -> Vec<String> {
        (0..self.instances).map(adaptor_name).collect()
    }
}

impl Work for BurstPlan {
    fn actor_names(&self) -> Vec<String> {
        self.adaptor_names().into_iter().chain(self.edited.then(|| OPERATOR.to_owned())).collect()
    }

    fn takes(&self, op: &OpKind) -> Result<(), InvalidValue> {
        match op.get() {
            Some(Operation::Allocate(_)) => Ok(()),
            Some(Operation::EditState(_)) if self.edited => Ok(()),
            _ => Err(InvalidValue::of(op, "the operation `allocate`, or `edit-state` where `edited` is true")),
        }
    }

    fn problems(&self, source: Source<'_>) -> Problems {
        let mut problems = from_one_to(source, "workload.instances", self.instances, CLIENTS_MAX);
        problems.append(at_most(source, "workload.addresses", "`workload.addresses`", u64::from(self.addresses), u64::from(ADDRESSES_MAX)));
        problems.append(at_most(source, "workload.taken", "`workload.taken`", u64::from(self.taken), u64::from(self.addresses)));
        problems.append(from_one_to(source, "workload.pools", self.pools, POOLS_MAX));
        problems.append(self.closed_loop.map_or_else(Problems::new, |rounds| rounds.problems(source)));
        problems.append(self.backoff.map_or_else(Problems::new, |backoff| backoff.problems(source, "workload.backoff")));
        problems
    }

    fn fault_targets(&self, _: &[Op]) -> FaultTargets {
        let objects = self.pool_keys().iter().map(|key| format!("configmaps/{key}")).collect();
        FaultTargets { objects, ..FaultTargets::alone(self.adaptor_names(), &["configmaps"]) }
    }

    fn smaller(&self, ops: &[Op]) -> Vec<Smaller> {
        let mut all = without_idle(self.instances, ops, adaptor_name, |instances| BurstPlan { instances, ..self.clone() }.into());
        let wanted = ops.iter().filter(|op| matches!(op.kind.own(), Operation::Allocate(_))).count() as u32;
        // One address for each operation stays: an exhausted pool would be another failure.
        let free = self.addresses.saturating_sub(self.taken + self.dead);
        let fewer = |addresses: u32| BurstPlan { addresses: addresses.min(self.addresses), ..self.clone() };
        for simpler in [
            BurstPlan { addresses: self.addresses - self.taken.min(self.addresses), taken: 0, ..self.clone() },
            BurstPlan { dead: 0, ..self.clone() },
            BurstPlan { probes: false, dead: 0, ..self.clone() },
            BurstPlan { throttle: Throttle::None, ..self.clone() },
            BurstPlan { edited: self.edited && ops.iter().any(|op| matches!(op.kind.own(), Operation::EditState(_))), ..self.clone() },
            BurstPlan { lock: Lock::None, ..self.clone() },
            BurstPlan { pools: 1, ..self.clone() },
            BurstPlan { closed_loop: None, ..self.clone() },
            BurstPlan { absent: false, ..self.clone() },
            fewer(self.taken + self.dead + wanted.max(1)),
            fewer(self.taken + self.dead + wanted.max(free / 2).max(1)),
        ] {
            if simpler != *self {
                all.push(Smaller::same_ops(simpler, ops));
            }
        }
        all
    }

    fn preload(&self, cluster: &Arc<Cluster>) {
        pool::preload(cluster, self);
    }

    fn install(&self, cluster: &Arc<Cluster>, run: &RunContext<'_>) {
        instance::install(cluster, run, self);
    }
}

/// The maximum number of pools in a plan.
const POOLS_MAX: u32 = 64;

/// The time for which a process that panicked stays down.
const BACK_OFF: Duration = sim_harness::world::BACK_OFF;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plans;
    use sim_config::With;
    use sim_config::time::SimTime;
    use sim_harness::operation::Turn;

    #[test]
    fn a_burst_shrinks_to_its_operations_and_an_address_for_each() {
        let allocate = |actor: &str| {
            let common = Turn { at: SimTime::ZERO, actor: actor.to_owned() };
            With { common, kind: Operation::Allocate(Allocate { pod: "a".to_owned(), again: false, after: None }).into() }
        };
        let mut ops = vec![allocate("adaptor-3"), allocate("adaptor-7")];
        let mut plan = BurstPlan {
            instances: 64,
            addresses: 500,
            taken: 100,
            dead: 3,
            retry: RetryName::Own,
            throttle: Throttle::Drained,
            probes: true,
            dial: dial(),
            think: think(),
            edited: true,
            backoff: None,
            pools: 2,
            lock: Lock::Lease,
            closed_loop: Some(ClosedLoop { times: 3, hold: Some(Span::millis(1)) }),
            absent: true,
        };
        for _ in 0..20 {
            let Some(next) = plan.smaller(&ops).into_iter().next() else { break };
            let Some(Plans::Burst(smaller)) = next.workload.get().cloned() else { panic!("another workload") };
            assert_ne!((&*smaller, &next.ops), (&plan, &ops));
            (plan, ops) = (*smaller, next.ops);
        }
        assert_eq!(plan.smaller(&ops), []);
        assert_eq!((plan.instances, plan.addresses, plan.taken, plan.dead), (2, 2, 0, 0));
        assert_eq!((plan.probes, plan.throttle, plan.edited), (false, Throttle::None, false));
        assert_eq!((plan.pools, plan.lock, plan.closed_loop, plan.absent), (1, Lock::None, None, false));
        assert_eq!(ops, [allocate("adaptor-0"), allocate("adaptor-1")]);
    }
}
