//! Several clients increment a number in one ConfigMap under optimistic locking: the smallest workload in which a lost update can happen.
//!
//! ```text
//!  client-0 ── GET v=7 ─────────── PUT 8 (rv 41) ── 200
//!  client-1 ────── GET v=7 ── PUT 8 (rv 41) ── 409 ── GET v=8 ── PUT 9 (rv 42) ── 200
//! ```
//! A client decides inside the retry loop, on the state that it read in the same attempt. With the mutation `counter-decides-once` it
//! decides on the first read and only refreshes the version.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::api::{Call, Reply, Request};
use kube_machinery::retry::{DEFAULT_BACKOFF, retry_on_conflict};
use kube_machinery::transparent::Transparent;
use kube_machinery::{ApiError, Client, Env, ObjectKey, word_hash};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_harness::prelude::*;

use crate::DECIDES_ONCE;
use crate::Operation;

/// The time that a client waits for one answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The time that a client waits after an error that says that nothing was done.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(200);
/// The entry of the ConfigMap that holds the number.
const FIELD: &str = "value";

/// The clients of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CounterPlan {
    /// The number of clients, each on its own host.
    pub clients: u32,
}

/// The clients of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CounterDraft {
    /// The number of clients, each on its own host.
    pub clients: Choice<u32>,
    /// The number of increments that each client makes.
    pub increments: Choice<u32>,
    /// The time between the turns of one client.
    pub think: Choice<Span>,
}

impl Default for CounterDraft {
    fn default() -> Self {
        Self { clients: Choice::Between(2, 4), increments: Choice::Between(3, 8), think: Choice::Between(Span::millis(1), Span::secs(1)) }
    }
}

impl Draft for CounterDraft {
    type Plan = CounterPlan;

    fn bounds(&self) -> [CounterPlan; 2] {
        let (fewest, most) = self.clients.bounds();
        [CounterPlan { clients: (*fewest).max(1) }, CounterPlan { clients: *most }]
    }

    fn problems(&self, source: Source<'_>) -> Problems {
        let clients = u64::from(*self.clients.bounds().1);
        let increments = clients.saturating_mul(u64::from(*self.increments.bounds().1));
        at_most(source, "workload.increments", "the number of increments of all clients", increments, OPS_MAX)
    }

    fn draw(&self, draw: &mut Draw) -> (CounterPlan, Vec<Op>) {
        let clients = self.clients.draw(draw).max(1);
        let mut ops = Vec::new();
        for client in 0..clients {
            let mut at = SimTime::ZERO;
            for _ in 0..self.increments.draw(draw) {
                at += self.think.draw(draw).0;
                ops.push(With { common: Turn { at, actor: client_name(client) }, kind: Operation::Increment.into() });
            }
        }
        (CounterPlan { clients }, ops)
    }

    /// Varies the increments: one less or more, two of them further apart or closer together, or two clients that change places.
    fn vary(&self, ops: &[Op], draw: &mut Draw) -> Option<Vec<Op>> {
        let mut turns: BTreeMap<&str, Vec<SimTime>> = BTreeMap::new();
        ops.iter().for_each(|op| turns.entry(&op.common.actor).or_default().push(op.common.at));
        let clients: Vec<&str> = turns.keys().copied().collect();
        let client = *clients.get(draw.below(clients.len().max(1) as u64) as usize)?;
        let other = clients[draw.below(clients.len() as u64) as usize];
        let mut own = turns.remove(client)?;
        let at = draw.below(own.len() as u64) as usize;
        let before = if at == 0 { SimTime::ZERO } else { own[at - 1] };
        let (think, few, many) = (self.think.draw(draw).0, *self.increments.bounds().0, *self.increments.bounds().1);
        let may_have = |count: usize| matches!(self.increments, Choice::Between(..)) && (few as usize..=many as usize).contains(&count);
        match draw.below(4) {
            0 if may_have(own.len() - 1) => drop(own.pop()),
            1 if may_have(own.len() + 1) => own.push(own.last().copied().unwrap_or_default() + think),
            2 if client != other => std::mem::swap(&mut own, turns.get_mut(other)?),
            _ => {
                // Later turns keep their distance.
                let (former, now) = (own[at], before + think);
                own[at..].iter_mut().for_each(|turn| *turn = now + turn.since(former));
            }
        }
        turns.insert(client, own);
        let op = |client: &str, at| With { common: Turn { at, actor: client.to_owned() }, kind: Operation::Increment.into() };
        let varied: Vec<Op> = turns.iter().flat_map(|(client, turns)| turns.iter().map(|&at| op(client, at))).collect();
        (varied != ops).then_some(varied)
    }
}

/// The name of the client with this number.
pub fn client_name(number: u32) -> String {
    format!("client-{number}")
}

/// The key of the counter.
pub fn counter_key() -> ObjectKey {
    ObjectKey::namespaced("default", "counter")
}

/// Whether `key` is that of the counter.
pub fn is_counter(key: &ObjectKey) -> bool {
    key.as_str() == "default/counter"
}

/// The number in the counter; a missing or foreign text counts as 0.
pub fn value_of(object: &ConfigMap) -> u64 {
    object.data.as_ref().and_then(|data| data.get(FIELD)).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The counter at the beginning of a run.
pub fn initial() -> ConfigMap {
    let data = Some([(FIELD.to_owned(), "0".to_owned())].into());
    ConfigMap { metadata: counter_key().metadata(), data, ..ConfigMap::default() }
}

impl Work for CounterPlan {
    fn actor_names(&self) -> Vec<String> {
        (0..self.clients).map(client_name).collect()
    }

    fn takes(&self, op: &OpKind) -> Result<(), InvalidValue> {
        if matches!(op.get(), Some(Operation::Increment)) { Ok(()) } else { Err(InvalidValue::of(op, "the operation `increment`")) }
    }

    fn problems(&self, source: Source<'_>) -> Problems {
        at_most(source, "workload.clients", "`workload.clients`", u64::from(self.clients), u64::from(CLIENTS_MAX))
    }

    fn fault_targets(&self, _: &[Op]) -> FaultTargets {
        let objects = vec![format!("configmaps/{}", counter_key())];
        FaultTargets { objects, ..FaultTargets::alone(self.actor_names(), &["configmaps"]) }
    }

    fn smaller(&self, ops: &[Op]) -> Vec<Smaller> {
        without_idle(self.clients, ops, client_name, |clients| CounterPlan { clients }.into())
    }

    fn preload(&self, cluster: &Arc<Cluster>) {
        cluster.preload_unless_held(initial());
    }

    fn install(&self, cluster: &Arc<Cluster>, run: &RunContext<'_>) {
        for name in self.actor_names() {
            run.start_alone(cluster, &name, &Arc::new(run.turns_of(&name)), |turns, life| async move {
                // A crash in the middle of a turn leaves it open.
                if turns.give_up() {
                    life.note(&CounterNote::LeftOpen);
                }
                Counter::new(life).work(&turns).await;
            });
        }
    }
}

/// A note of a client of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CounterNote {
    /// The counter was incremented, and the increment acknowledged.
    Counted {
        /// The value that was written.
        value: u64,
    },
    /// It is unknown whether an increment took place: its answer was lost, or its client crashed.
    LeftOpen,
    /// An operation gave up because its last retry failed, too.
    RetriesExhausted,
}

impl Note for CounterNote {
    fn word(&self) -> u64 {
        word_hash::of("counter", self)
    }

    fn counts_as(&self) -> Option<Counted> {
        matches!(self, CounterNote::RetriesExhausted).then_some(Counted::RetriesExhausted)
    }

    fn step(&self) -> Option<Step> {
        match self {
            CounterNote::Counted { value } => Some(Step::ok("increment", "", *value)),
            CounterNote::LeftOpen => Some(Step::failed("increment", "", false, "it is unknown whether it took place")),
            // The operation is retried.
            CounterNote::RetriesExhausted => None,
        }
    }
}

impl fmt::Display for CounterNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CounterNote::Counted { value } => write!(f, "counted {value}"),
            CounterNote::LeftOpen => f.write_str("an increment is left open"),
            CounterNote::RetriesExhausted => f.write_str("retries exhausted"),
        }
    }
}

struct Counter {
    life: Life,
    env: SimEnv,
    client: Transparent<SimClient, SimEnv>,
}

impl Counter {
    fn new(life: Life) -> Self {
        let env = life.env();
        let plain = life.client();
        let retries = plain.transport().retries();
        let client = Transparent::new(plain, env.clone(), retries);
        Self { life, env, client }
    }

    /// Takes one turn after the other.
    async fn work(&self, turns: &Turns<OpKind>) {
        while turns.next(&self.life.cluster.rt).await.is_some() {
            let ended = loop {
                match self.increment().await {
                    Ok(value) => break CounterNote::Counted { value },
                    Err(error) if error.is_ambiguous() => break CounterNote::LeftOpen,
                    Err(error) => {
                        if error.is_conflict() {
                            self.life.note(&CounterNote::RetriesExhausted);
                        }
                        self.env.sleep(PAUSE_AFTER_ERROR).await;
                    }
                }
            };
            turns.end();
            self.life.note(&ended);
        }
    }

    async fn increment(&self) -> Result<u64, ApiError> {
        let first = if self.life.deviates(DECIDES_ONCE) { Some(value_of(&*self.read().await?) + 1) } else { None };
        retry_on_conflict(&self.env, DEFAULT_BACKOFF, || async {
            let current = self.read().await?;
            let value = first.unwrap_or_else(|| value_of(&current) + 1);
            self.write(&current, value).await?;
            Ok(value)
        })
        .await
    }

    async fn read(&self) -> Result<Arc<ConfigMap>, ApiError> {
        let request = Request { call: Call::get(&counter_key()), timeout: Some(REQUEST_TIMEOUT) };
        // A read changes nothing: after any error it can be repeated.
        self.client.send(request).await.map(Reply::into_object).map_err(harmless)
    }

    async fn write(&self, current: &ConfigMap, value: u64) -> Result<(), ApiError> {
        let mut next = current.clone();
        next.data.get_or_insert_default().insert(FIELD.to_owned(), value.to_string());
        self.client.send(Request { call: Call::update(next), timeout: Some(REQUEST_TIMEOUT) }).await.map(drop)
    }
}

/// Marks an error of a read as one that leaves nothing open.
fn harmless(error: ApiError) -> ApiError {
    if error.is_ambiguous() { kube_machinery::api::TransportError::Refused.into() } else { error }
}

#[cfg(test)]
mod tests {
    use sim_config::draw::Concern;

    use super::*;

    fn increment(client: &str) -> Op {
        With { common: Turn { at: SimTime::ZERO, actor: client.to_owned() }, kind: Operation::Increment.into() }
    }

    #[test]
    fn clients_without_operations_are_given_up_and_the_others_close_ranks() {
        let ops = [increment("client-1"), increment("client-3")];
        let smaller = CounterPlan { clients: 6 }.smaller(&ops);
        assert_eq!(smaller[0].workload, CounterPlan { clients: 2 }.into());
        assert_eq!(smaller[0].ops, [increment("client-0"), increment("client-1")]);
        let renamed = [("client-1", "client-0"), ("client-3", "client-1")].map(|(from, to)| (from.to_owned(), to.to_owned()));
        assert_eq!(smaller[0].renamed, BTreeMap::from(renamed));
        assert_eq!(smaller[1], Smaller::same_ops(CounterPlan { clients: 4 }, &ops));
        assert_eq!(CounterPlan { clients: 1 }.smaller(&ops[..0]), []);
    }

    #[test]
    fn operations_that_are_varied_are_such_as_are_drawn() {
        let draft = CounterDraft { think: Choice::Between(Span::millis(1), Span::secs(1)), ..CounterDraft::default() };
        let mut draw = Draw::new(3, Concern::Search, 0);
        let (plan, mut ops) = draft.draw(&mut Draw::new(3, Concern::Workload, 0));
        let mut different = 0;
        for _ in 0..500 {
            let Some(varied) = draft.vary(&ops, &mut draw) else { continue };
            different += 1;
            for client in 0..plan.clients {
                let turns: Vec<SimTime> =
                    varied.iter().filter(|op| op.common.actor == client_name(client)).map(|op| op.common.at).collect();
                assert!((3..=8).contains(&turns.len()), "{} turns", turns.len());
                let thought = std::iter::once(SimTime::ZERO).chain(turns.iter().copied()).zip(&turns).map(|(from, to)| to.since(from));
                assert!(thought.into_iter().all(|thought| (Duration::from_millis(1)..=Duration::from_secs(1)).contains(&thought)));
            }
            ops = varied;
        }
        assert!(different > 400, "{different}");
    }
}
