//! One adaptor of a burst.

use std::sync::Arc;
use std::time::Duration;

use ipam_byom::{Address, Context, Effort, NoOwners, Outcome, PodName, PoolError, PoolSettings, Releaser, Retry, VmPool, allocation_id};
use kube_machinery::Env;
use kube_machinery::lease_lock::{LeaseLock, LockRequests};
use kube_machinery::rate_limit::RateLimited;
use kube_machinery::transparent::Transparent;
use kube_sim::cluster::{Cluster, SimClient};
use kube_sim::env::SimEnv;
use kube_sim::trace::Unhashed;
use parking_lot::Mutex;
use sim_config::draw::{Concern, Draw};
use sim_config::time::{SimTime, Span};
use sim_harness::plan::hash_text;
use sim_harness::workload::{Life, RunContext, Turns};

use super::client::{Dialed, Learned, Thinking};
use super::pool::{Initial, part};
use super::{Allocate, BACK_OFF, BurstPlan, ClosedLoop, Lock, adaptor_name, operator};
use crate::Operation;
use crate::coverage;
use crate::workload::{Failure, PoolNote, policy_of};

/// The time that a call waits for the lock: that of an operation on the pool.
const PATIENCE: Duration = Duration::from_secs(30);

type Client = Thinking<Transparent<RateLimited<SimClient, SimEnv>, SimEnv>>;
type Pool = VmPool<Client, SimEnv, Dialed, NoOwners>;

/// The pod, its allocation IDs, to be used one after the other, and the time from the answer to the repetition, if there is one.
type Turn = (PodName, Arc<[Arc<str>]>, Option<Duration>);

/// The common state of all adaptors of a burst.
struct Burst {
    plan: BurstPlan,
    seed: u64,
    initial: Arc<[Initial]>,
    dead: Arc<[Address]>,
    policy: ipam_byom::Policy,
}

/// Adds the adaptors to the cluster; they start at once.
pub(super) fn install(cluster: &Arc<Cluster>, run: &RunContext<'_>, burst: &BurstPlan) {
    let namespace: Arc<str> = "default".into();
    let mut turns: Vec<Vec<(SimTime, Turn)>> = (0..burst.instances).map(|_| Vec::new()).collect();
    for op in run.ops {
        let Operation::Allocate(Allocate { pod, again, after }) = op.kind.own() else { continue };
        let number = op.common.actor.strip_prefix("adaptor-").and_then(|number| number.parse::<usize>().ok());
        let Some(turns) = number.and_then(|number| turns.get_mut(number)) else { continue };
        // The sandbox of a pod on an adaptor does not depend on the rest of the plan.
        let sandbox = hash_text(&format!("{}/{}/{pod}", run.seed, op.common.actor));
        let rounds = burst.closed_loop.map_or(1, |rounds| rounds.times);
        let sandbox_of = |round: u32| if round == 0 { sandbox.clone() } else { hash_text(&format!("{sandbox}/{round}")) };
        let ids = (0..rounds).map(|round| allocation_id(pod, &sandbox_of(round))).collect();
        let again = again.then(|| after.map_or(Duration::ZERO, |after| after.0));
        turns.push((op.common.at, (PodName { name: pod.as_str().into(), namespace: namespace.clone() }, ids, again)));
    }
    let initial = Initial::of(burst);
    let pools = initial.len() as u32;
    let dead = (0..pools).zip(&*initial).flat_map(|(number, pool)| pool.first_free(part(burst.dead, pools, number).len() as u32));
    let shared = Arc::new(Burst { plan: burst.clone(), seed: run.seed, dead: dead.collect(), initial, policy: policy_of(run.deviations) });
    for (number, mut turns) in (0..).zip(turns) {
        turns.sort_by_key(|(at, _)| *at);
        let site = Arc::new((shared.clone(), Turns::new(turns)));
        run.start_alone(cluster, &adaptor_name(number), &site, move |site, life| async move {
            let (burst, turns) = &*site;
            Instance::new(life, number, burst).work(turns).await;
        });
    }
    if burst.edited {
        operator::install(cluster, run);
    }
}

/// One life of an adaptor.
#[derive(Clone)]
struct Instance {
    life: Arc<Life>,
    env: SimEnv,
    pool: Pool,
    lock: Option<LeaseLock<Client, SimEnv>>,
    /// The loop of allocations, if there is one, and the time for which it holds an address.
    rounds: Option<ClosedLoop>,
}

impl Instance {
    /// The adaptor with this number: the pools are assigned to adaptors in turn.
    fn new(life: Life, number: u32, burst: &Burst) -> Self {
        let plan = &burst.plan;
        let of_pool = number as usize % burst.initial.len();
        let initial = &burst.initial[of_pool];
        let (env, plain) = (life.env(), life.client());
        let retries = plain.transport().retries();
        let limited = match plan.throttle.limit() {
            Some(limit) => RateLimited::new(plain, env.clone(), limit),
            None => RateLimited::unlimited(plain, env.clone()),
        };
        let client = Transparent::new(limited, env.clone(), retries);
        let learned = Learned::nothing(&life.cluster.rt);
        let vms = Dialed {
            env: env.clone(),
            dial: plan.dial.sampler(),
            choices: Arc::new(Mutex::new(Draw::new(burst.seed, Concern::World, 1 << 63 | u64::from(life.process.0)))),
            dead: burst.dead.clone(),
            learned: learned.clone(),
        };
        let client = Thinking { client, env: env.clone(), think: plan.think.0, learned };
        let node = Some(life.name());
        let settings = PoolSettings {
            retry: plan.backoff.map_or_else(|| plan.retry.retry(&burst.policy), |backoff| Retry::Backoff(backoff.backoff())),
            probes: plan.probes,
            ..PoolSettings::new(initial.key.clone(), initial.config.clone(), node, burst.policy)
        };
        let lock = (plan.lock == Lock::Lease).then(|| LeaseLock::new(client.clone(), env.clone(), initial.key.clone(), &*life.name()));
        let pool = VmPool::new(client, env.clone(), vms, NoOwners, settings);
        let instance = Self { life: Arc::new(life), env, pool, lock, rounds: plan.closed_loop };
        let (setting, config) = (initial.setting.clone(), initial.config.clone());
        instance.say(if of_pool == 0 {
            PoolNote::Configured { setting, config: Unhashed(config) }
        } else {
            PoolNote::OfOtherPool { setting }
        });
        instance
    }

    fn say(&self, what: PoolNote) {
        self.life.note(&what);
    }

    /// Begins each turn at its time, even if earlier ones are not over: a node starts pods concurrently.
    async fn work(&self, turns: &Turns<Turn>) {
        while let Some((pod, ids, again)) = turns.next(&self.life.cluster.rt).await {
            // Turns that had begun when the adaptor crashed are over: the caller was told so.
            if turns.end() {
                return self.take(&ids, &pod, again).await;
            }
            let instance = self.clone();
            let _running = self.env.spawn(async move { instance.take(&ids, &pod, again).await });
        }
    }

    /// Requests an address, and if so planned, repeats the request.
    async fn take(&self, ids: &[Arc<str>], pod: &PodName, again: Option<Duration>) {
        let Some(id) = ids.first() else { return };
        if let Some(ClosedLoop { hold, .. }) = self.rounds {
            return self.go_round(ids, pod, hold).await;
        }
        self.allocate(id, pod).await;
        if let Some(after) = again {
            if !after.is_zero() {
                self.env.sleep(after).await;
            }
            self.allocate(id, pod).await;
        }
    }

    /// Allocates, holds and releases, under one ID after the other.
    async fn go_round(&self, ids: &[Arc<str>], pod: &PodName, hold: Option<Span>) {
        for id in ids {
            let (true, Some(hold)) = (self.allocate(id, pod).await, hold) else { continue };
            self.env.sleep(hold.0).await;
            self.say(PoolNote::Ended { id: id.clone(), pod: format!("{}/{}", pod.namespace, pod.name).into() });
            self.say(PoolNote::ReleaseBegun { id: id.clone(), by: Releaser::Stop });
            let began = self.env.monotonic();
            let Outcome { result, effort } = self.pool.deallocate(id, Releaser::Stop, Context::BACKGROUND).await;
            let took = self.env.monotonic().saturating_sub(began);
            let failure = result.err().map(|error| Failure::of(&error, &effort));
            self.say(PoolNote::ReleaseEnded { id: id.clone(), by: Releaser::Stop, failure, effort, took });
        }
    }

    /// Returns whether there is an address.
    async fn allocate(&self, id: &Arc<str>, pod: &PodName) -> bool {
        self.say(PoolNote::Asked { id: id.clone() });
        let began = self.env.monotonic();
        let mut held = None;
        if let Some(lock) = &self.lock {
            let mut requests = LockRequests::default();
            held = lock.take(PATIENCE, &mut requests).await;
            self.say(PoolNote::Locked { id: id.clone(), requests: Unhashed(requests) });
            if held.is_none() {
                let took = self.env.monotonic().saturating_sub(began);
                let effort = Effort { exhausted: true, ..Effort::default() };
                self.say(PoolNote::Refused { id: id.clone(), why: Failure::Exhausted, effort, took });
                return false;
            }
        }
        let Outcome { result, effort } = self.pool.allocate(id, pod, Context::BACKGROUND).await;
        let took = self.env.monotonic().saturating_sub(began);
        let granted = result.is_ok();
        match result {
            Ok(address) => {
                self.say(PoolNote::Allocated { id: id.clone(), address: address.clone(), effort, took });
                self.say(PoolNote::Told { id: id.clone(), address });
            }
            Err(error) => {
                coverage::of_refusal(&self.life.cluster, &error);
                self.say(PoolNote::Refused { id: id.clone(), why: Failure::of(&error, &effort), effort, took });
                if error == PoolError::Panic {
                    let Life { cluster, process, .. } = &*self.life;
                    cluster.rt.crash(*process);
                    cluster.panicked(*process, BACK_OFF);
                }
            }
        }
        // Callers that were told their answer do not wait for this.
        if let (Some(lock), Some(held)) = (&self.lock, held) {
            lock.give_back(held).await;
        }
        granted
    }
}
