//! A burst with values that may be open.

use kube_sim::net::Delay;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::draw::Draw;
use sim_config::time::{SimTime, Span};
use sim_config::{Choice, Probability, Problems, Source, With};
use sim_harness::operation::{Op, Turn};
use sim_harness::plan::{CLIENTS_MAX, OPS_MAX};
use sim_harness::workload::{BackoffPlan, Draft, at_most, from_one_to};

use super::{ADDRESSES_MAX, Allocate, BurstPlan, ClosedLoop, Lock, POOLS_MAX, RetryName, Throttle, adaptor_name, dial, is_one, think};
use crate::Operation;
use crate::workload::pods::{Edit, EditState, OPERATOR};

/// The adaptors of a scenario and their pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BurstDraft {
    /// The number of adaptors, each on its own host.
    pub instances: Choice<u32>,
    /// The number of allocations that each adaptor makes.
    pub allocations: Choice<u32>,
    /// The number of addresses in the pool for each allocation, besides those that are taken.
    pub addresses_per_allocation: Choice<u32>,
    /// The total number of addresses in the pool, instead of a number for each allocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Choice<u32>>,
    /// The number of addresses with a record at the beginning.
    pub taken: Choice<u32>,
    /// The number of the other addresses whose VM does not answer.
    pub dead: Choice<u32>,
    /// The bound of the allocations' start times: each begins at a moment that is uniform between the beginning and this; 0 = all at once.
    pub spread: Choice<Span>,
    /// The share of allocations that are repeated under the same ID.
    pub again: Probability,
    /// The time from the answer to the repetition; 0 = at once.
    pub again_after: Choice<Span>,
    /// The number of manual edits of the ConfigMap by an operator during the bursts.
    pub edits: Choice<u32>,
    /// The change that each edit makes to the ConfigMap.
    pub edit: Choice<Edit>,
    /// The retry policy of a write that failed with a conflict.
    pub retry: Choice<RetryName>,
    /// The limit on the rate of an adaptor's requests.
    pub throttle: Choice<Throttle>,
    /// Whether a VM is probed before it is handed out.
    pub probes: Choice<bool>,
    /// The time to connect to a VM that answers.
    pub dial: Delay,
    /// The time that an adaptor needs between an answer and the next request. None after a sleep.
    pub think: Choice<Span>,
    /// The retry policy of a write that failed with a conflict, in numbers, in place of `retry`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<BackoffPlan>,
    /// The number of ConfigMaps over which addresses and adaptors are spread, in turn. Claims judge the first.
    #[serde(skip_serializing_if = "is_one")]
    pub pools: u32,
    /// The lock that an adaptor holds while it reads and writes the pool.
    #[serde(skip_serializing_if = "Lock::is_none")]
    pub lock: Lock,
    /// Each allocation is the first of a loop: allocate, hold, release, repeat. Unset = its address is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_loop: Option<ClosedLoop>,
    /// Whether there is no ConfigMap at the beginning: the very first allocation creates it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub absent: bool,
}

impl Default for BurstDraft {
    fn default() -> Self {
        Self {
            instances: Choice::OneOf(vec![2, 4, 8, 16, 32, 64]),
            allocations: Choice::Is(1),
            addresses_per_allocation: Choice::Is(2),
            addresses: None,
            taken: Choice::Is(0),
            dead: Choice::Is(0),
            again: Probability::NEVER,
            again_after: Choice::Is(Span::micros(0)),
            edits: Choice::Is(0),
            edit: Choice::Is(Edit::Touch),
            spread: Choice::Is(Span::micros(0)),
            retry: Choice::Is(RetryName::Own),
            throttle: Choice::Is(Throttle::None),
            probes: Choice::Is(true),
            dial: dial(),
            think: Choice::Is(think()),
            backoff: None,
            pools: 1,
            lock: Lock::None,
            closed_loop: None,
            absent: false,
        }
    }
}

impl BurstDraft {
    fn plan(&self, instances: u32, addresses: u32, taken: u32) -> BurstPlan {
        BurstPlan {
            instances,
            addresses,
            taken,
            dead: 0,
            retry: RetryName::Own,
            throttle: Throttle::None,
            probes: false,
            dial: self.dial,
            think: think(),
            edited: *self.edits.bounds().1 > 0,
            backoff: self.backoff,
            pools: self.pools,
            lock: self.lock,
            closed_loop: self.closed_loop,
            absent: self.absent,
        }
    }
}

impl Draft for BurstDraft {
    type Plan = BurstPlan;

    fn bounds(&self) -> [BurstPlan; 2] {
        let (fewest, most) = self.instances.bounds();
        [*fewest, *most].map(|instances| self.plan(instances.max(1), 0, 0))
    }

    fn problems(&self, source: Source<'_>) -> Problems {
        let most = |choice: &Choice<u32>| u64::from(*choice.bounds().1);
        let instances = most(&self.instances);
        let allocations = instances.saturating_mul(most(&self.allocations));
        let operations = allocations.saturating_add(most(&self.edits));
        let total = match &self.addresses {
            Some(addresses) => most(addresses),
            None => allocations.saturating_mul(most(&self.addresses_per_allocation)).saturating_add(most(&self.taken)),
        };
        let mut problems = from_one_to(source, "workload.pools", self.pools, POOLS_MAX);
        problems.append(self.closed_loop.map_or_else(Problems::new, |rounds| rounds.problems(source)));
        problems.append(self.backoff.map_or_else(Problems::new, |backoff| backoff.problems(source, "workload.backoff")));
        problems.append(at_most(source, "workload.instances", "`workload.instances`", instances, u64::from(CLIENTS_MAX)));
        problems.append(at_most(
            source,
            "workload.allocations",
            "the number of allocations of all adaptors and of edits",
            operations,
            OPS_MAX,
        ));
        problems.append(at_most(source, "workload.addresses", "the number of addresses", total, u64::from(ADDRESSES_MAX)));
        if let Some(addresses) = &self.addresses
            && addresses.bounds().0 < self.taken.bounds().1
        {
            let wrong = format!("`workload.taken` may be {}, of {} addresses", self.taken.bounds().1, addresses.bounds().0);
            problems.push(source.problem("workload.taken", wrong, "no more than there are addresses"));
        }
        problems
    }

    fn draw(&self, draw: &mut Draw) -> (BurstPlan, Vec<Op>) {
        let instances = self.instances.draw(draw).max(1);
        let per_allocation = self.addresses_per_allocation.draw(draw);
        let total = self.addresses.as_ref().map(|addresses| addresses.draw(draw));
        let taken = self.taken.draw(draw);
        let mut plan = BurstPlan {
            dead: self.dead.draw(draw),
            retry: self.retry.draw(draw),
            throttle: self.throttle.draw(draw),
            probes: self.probes.draw(draw),
            think: self.think.draw(draw),
            ..self.plan(instances, 0, taken)
        };
        let spread = self.spread.draw(draw).0;
        let mut ops = Vec::new();
        for instance in 0..instances {
            let actor = adaptor_name(instance);
            for number in 0..self.allocations.draw(draw) {
                let at = SimTime::ZERO + draw.between(std::time::Duration::ZERO, spread);
                let again = self.again.get() > 0.0 && draw.chance(self.again.get());
                let later = again && *self.again_after.bounds().1 > Span::micros(0);
                let after = later.then(|| self.again_after.draw(draw));
                let allocate = Allocate { pod: format!("pod-{instance}-{number}"), again, after };
                ops.push(With { common: Turn { at, actor: actor.clone() }, kind: Operation::Allocate(allocate).into() });
            }
        }
        let for_all = u32::try_from(ops.len()).unwrap_or(u32::MAX).saturating_mul(per_allocation);
        plan.addresses = total.unwrap_or_else(|| for_all.saturating_add(taken));
        if plan.edited {
            let longest = spread + self.again_after.bounds().1.0;
            for _ in 0..self.edits.draw(draw) {
                let at = SimTime::ZERO + draw.between(std::time::Duration::ZERO, longest);
                let edit = Operation::EditState(EditState { edit: self.edit.draw(draw) });
                ops.push(With { common: Turn { at, actor: OPERATOR.to_owned() }, kind: edit.into() });
            }
            ops.sort_by_key(|op| op.common.at);
        }
        (plan, ops)
    }
}
