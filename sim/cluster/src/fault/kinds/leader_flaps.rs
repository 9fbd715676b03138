//! Cuts of the process that leads, for a short while, again and again (K §4.6, K143).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube_machinery::{ClientExt, ObjectKey};
use sim_config::Choice;
use sim_config::time::Span;

use crate::cluster::{Cluster, SimClient};
use crate::fault::effect::{ActiveEffect, Inject, Injection};
use crate::fault::operator::{Operator, persist};
use crate::fault::parameters::{between, parameters};
use crate::fault::{Aim, Blocks, Drawn, Invalid, Inventory, Lasts, Subject, Trigger, Wait};
use crate::net::{Effect, Rule, RuleId, Side};
use crate::rt::ProcessId;

parameters! {
    /// The holder of a lease is cut off from all other processes, again and again.
    pub struct LeaderFlaps / LeaderFlapsDraft {
        /// The lease, as `leases/NAMESPACE/NAME`.
        lease: String = Choice::Is("leases/kube-system/kube-controller-manager".to_owned()) => names_a_lease,
        /// The time for which the holder of the lease is cut off each time.
        cut: Span = between(Span::secs(1), Span::secs(20)),
        /// Time from the end of one cut to the next.
        every: Span = between(Span::secs(1), Span::secs(30)),
    }
}

impl Inject for LeaderFlaps {
    const EVENT: &'static str = "a leader on a bad link, whose successors fare no better (K §4.6, K143)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<LeaderFlapsDraft>> =
        Drawn::ByDefault(|targeting| Some(LeaderFlapsDraft { lease: targeting.lease()?, ..LeaderFlapsDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.lease])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Leader
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let (fault, name) = (self.clone(), format!("leader-flaps-{}", injection.index));
        vec![Operator::new(injection.cluster, &name, move |cluster, _| flap(cluster, fault.clone())).into()]
    }
}

/// The key of the lease that `leases/NAMESPACE/NAME` names.
fn lease_key(text: &str) -> Option<ObjectKey> {
    let (namespace, name) = text.strip_prefix("leases/")?.split_once('/')?;
    let is_one = !namespace.is_empty() && !name.is_empty() && !name.contains('/');
    is_one.then(|| ObjectKey::namespaced(namespace, name))
}

fn names_a_lease(fault: &str, lease: &str, _: &Inventory<'_>) -> Option<Invalid> {
    let wrong = || format!("the fault `{fault}`: `{lease}` does not name a lease");
    lease_key(lease).is_none().then(|| Invalid::text(lease, wrong(), "leases/NAMESPACE/NAME"))
}

/// Cuts leaders off until its process is stopped.
async fn flap(cluster: Arc<Cluster>, fault: LeaderFlaps) {
    let Some(key) = lease_key(&fault.lease) else { return };
    loop {
        if let Some(leader) = holder(&cluster, &key) {
            let _cut = Cut::of(&cluster, leader);
            cluster.rt.sleep(fault.cut.0).await;
        }
        // If nothing takes time, time must pass all the same.
        cluster.rt.sleep(fault.every.0.max(Duration::from_micros(1))).await;
    }
}

/// Cuts the links of one process until it is dropped, which also happens when the fault ends in between.
struct Cut<'a> {
    cluster: &'a Cluster,
    rules: [RuleId; 2],
}

impl<'a> Cut<'a> {
    fn of(cluster: &'a Cluster, process: ProcessId) -> Self {
        let only = || Side::Only(vec![process]);
        let rules = cluster.network(|net| {
            let mut cut = |from, to| net.add(Rule { from, to, effect: Effect::Cut });
            [cut(only(), Side::Any), cut(Side::Any, only())]
        });
        Self { cluster, rules }
    }
}

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        self.cluster.network(|net| self.rules.into_iter().for_each(|rule| net.remove(rule)));
    }
}

/// The effect of another process that takes the leases held by a process, and never renews them.
pub(super) fn lease_taken(injection: &Injection<'_>, holder: ProcessId) -> ActiveEffect {
    let name = format!("lease-taker-{}", injection.index);
    Operator::new(injection.cluster, &name, move |cluster, taker| take(cluster, taker, holder)).into()
}

async fn take(cluster: Arc<Cluster>, taker: ProcessId, holder: ProcessId) {
    let client = SimClient::new(&cluster, taker);
    let (name, other) = (cluster.rt.process_name(holder), cluster.rt.process_name(taker));
    let keys: Vec<ObjectKey> = cluster.lock().leases_of(&cluster, &name).cloned().collect();
    for key in keys {
        persist(&cluster, || async {
            let mut lease = Arc::unwrap_or_clone(client.get::<Lease>(&key).await?);
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() != Some(&*name) {
                return Ok(());
            }
            spec.holder_identity = Some(other.to_string());
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0).saturating_add(1));
            client.update(lease).await.map(drop)
        })
        .await;
    }
}

/// The process that holds a lease: candidates use the names of their processes.
fn holder(cluster: &Cluster, key: &ObjectKey) -> Option<ProcessId> {
    let kind = cluster.registry.id::<Lease>();
    let name = cluster.store(|store| {
        let lease: &Lease = store.table(kind).get(key)?.as_any().downcast_ref()?;
        lease.spec.as_ref()?.holder_identity.clone()
    })?;
    cluster.rt.find_process(&name)
}
