//! One operation of an agent: its deadline, its cost, its requests, and the changes of endpoints and records that all operations share.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::agent::Agent;
use super::caches::Caches;
use super::endpoints::{has_finalizer, uid_of};
use super::error::{IpamError, PoolError, may_pass, of_pool};
use super::observer::{Cause, Effort, Observer, Step};
use crate::finalizer::patch_off;
use crate::join::join_all;
use crate::limiter::{Refused, Tickets};
use crate::validity::may_run;
use crate::{Policy, PoolIPAllocation, SpiderEndpoint, SpiderIPPool};
use kube_machinery::api::{
    ApiError, Call, DeleteOptions, ListOptions, Object, ObjectKey, Patch, Preconditions, Reply, Request, TransportError,
};
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::kubevirt::{PodsOf, VirtualMachineInstance};

/// One ADD, DEL or batch release.
pub(super) struct Op<'a, C, V, K, O> {
    pub(super) agent: &'a Agent<C, V, K, O>,
    /// The deadline by the monotonic clock of the process; `None` = none.
    pub(super) deadline: Option<Duration>,
    /// The UID that the request names.
    asked: &'a str,
    effort: Mutex<Effort>,
}

impl<'a, C: Client, V: Env, K: Caches, O: Observer> Op<'a, C, V, K, O> {
    pub(super) fn new(agent: &'a Agent<C, V, K, O>, asked: &'a str, deadline: Option<Duration>) -> Self {
        Self { agent, deadline, asked, effort: Mutex::default() }
    }

    pub(super) fn policy(&self) -> &'a Policy {
        &self.agent.config.policy
    }

    pub(super) fn effort(&self) -> Effort {
        *self.effort.lock().unwrap()
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Effort)) {
        count(&mut self.effort.lock().unwrap());
    }

    pub(super) fn observe(&self, step: Step<'_>) {
        self.agent.observer.observe(step);
    }

    /// Reports that records are about to be removed.
    pub(super) fn announce(&self, pod: &ObjectKey, uid: &str, cause: Cause, what: &[(Arc<str>, IpAddr)]) {
        self.observe(Step::ReleaseBegun { pod, uid, asked: self.asked, cause, what });
    }

    /// Whether the caller gave up.
    pub(super) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= self.agent.env.monotonic())
    }

    /// The time until the caller gives up; 100 s, the plugin's timeout, if it sets no deadline.
    pub(super) fn left(&self) -> Duration {
        self.deadline.map_or(Duration::from_secs(100), |deadline| deadline.saturating_sub(self.agent.env.monotonic()))
    }

    /// The same operation with its own time limit, for work that has to be done although the caller gave up.
    pub(super) fn with_time(&self) -> Op<'a, C, V, K, O> {
        let end = self.agent.env.monotonic() + self.agent.config.settings.clean_up_timeout;
        Op::new(self.agent, self.asked, Some(self.deadline.map_or(end, |deadline| deadline.max(end))))
    }

    /// Adds the cost of another part of the operation.
    pub(super) fn add_effort(&self, of: &Op<'_, C, V, K, O>) {
        let more = of.effort();
        self.count(|effort| {
            effort.reads += more.reads;
            effort.writes += more.writes;
            effort.conflicts += more.conflicts;
            effort.attempts += more.attempts;
            effort.exhausted += more.exhausted;
            effort.ticket_wait += more.ticket_wait;
        });
    }

    async fn send<T: Object>(&self, call: Call<T>) -> Result<Reply<T>, ApiError> {
        let left = self.deadline.map(|deadline| deadline.saturating_sub(self.agent.env.monotonic()));
        if left == Some(Duration::ZERO) {
            return Err(TransportError::Refused.into());
        }
        let timeout = match (left, self.agent.config.settings.request_timeout) {
            (Some(left), Some(limit)) => Some(left.min(limit)),
            (left, limit) => left.or(limit),
        };
        let writes = call.verb().is_write();
        self.count(|effort| if writes { effort.writes += 1 } else { effort.reads += 1 });
        let result = self.agent.client.send(Request { call, timeout }).await;
        // Only writes can conflict (K §2.7).
        if result.as_ref().is_err_and(ApiError::is_conflict) {
            self.count(|effort| effort.conflicts += 1);
        }
        result
    }

    /// The most recent state; `None` = there is no such object.
    pub(super) async fn get<T: Object>(&self, key: &ObjectKey) -> Result<Option<Arc<T>>, ApiError> {
        let mut tries = 0;
        loop {
            match self.send(Call::get(key)).await {
                Ok(reply) => return Ok(Some(reply.into_object())),
                Err(error) if error.is_not_found() => return Ok(None),
                Err(error) if self.policy().reads_once || tries >= 3 || self.is_late() || !may_pass(&error) => return Err(error),
                Err(_) => {
                    tries += 1;
                    self.pause(tries).await;
                }
            }
        }
    }

    /// All objects of a cluster-scoped type.
    pub(super) async fn list<T: Object>(&self) -> Result<Vec<Arc<T>>, ApiError> {
        let reply = self.send(Call::List { namespace: None, options: ListOptions::default() }).await?;
        Ok(reply.into_list().items)
    }

    /// Whether a pod of this kind may run a VM, as both pods of a live migration do.
    ///
    /// The instance lists a pod as active only once its controller writes that, and the pod may be answered long before. So the pods
    /// themselves are read. A pod in deletion answers until it has ended.
    pub(super) async fn has_pod_of_vm(&self, vm: &ObjectKey, is: impl Fn(&str) -> bool + Sync) -> Result<bool, IpamError> {
        let failed = |what| move |error| IpamError::Reading { what, error };
        let instance = self.get::<VirtualMachineInstance>(vm).await.map_err(failed("VirtualMachineInstance"))?;
        let status = instance.as_ref().and_then(|instance| instance.status.as_ref());
        if status.is_some_and(|status| status.active_pods.keys().any(|uid| is(uid))) {
            return Ok(true);
        }
        let runs = |pod: &Pod| is(pod.metadata.uid.as_deref().unwrap_or_default()) && may_run(pod);
        let pods = PodsOf::new(vm, instance.as_deref());
        let call = Call::List { namespace: pods.namespace().map(Arc::from), options: pods.select() };
        let listed: Vec<Arc<Pod>> = self.send(call).await.map_err(failed("pods of the VM"))?.into_list().items;
        if listed.iter().any(|pod| pods.has(pod) && runs(pod)) {
            return Ok(true);
        }
        // A list comes from an API server's watch cache, which can have lost an event (K182): the pods that the migration names are read
        // one by one.
        for name in status.and_then(|status| status.migration_state.as_ref()).iter().flat_map(|migration| migration.pods()) {
            let pod = self.live_pod(&ObjectKey::namespaced(vm.namespace().unwrap_or_default(), name)).await?;
            if pod.is_some_and(|pod| runs(&pod)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) async fn create<T: Object>(&self, body: T) -> Result<Arc<T>, ApiError> {
        self.send(Call::create(body)).await.map(Reply::into_object)
    }

    pub(super) async fn update<T: Object>(&self, body: T) -> Result<Arc<T>, ApiError> {
        self.send(Call::update(body)).await.map(Reply::into_object)
    }

    pub(super) async fn update_status<T: Object>(&self, body: T) -> Result<Arc<T>, ApiError> {
        self.send(Call::update_status(body)).await.map(Reply::into_object)
    }

    pub(super) async fn patch<T: Object>(&self, key: &ObjectKey, patch: Patch) -> Result<Arc<T>, ApiError> {
        self.send(Call::patch(key, patch)).await.map(Reply::into_object)
    }

    /// Deletes an object. `Some` = it still exists, and is terminating; `None` = it is gone.
    pub(super) async fn delete<T: Object>(&self, key: &ObjectKey, options: DeleteOptions) -> Result<Option<Arc<T>>, ApiError> {
        self.send(Call::Delete { key: key.clone(), options }).await.map(Reply::into_remains)
    }

    /// Waits for the tickets of these pools.
    pub(super) async fn tickets(&self, uid: &str, pools: &[Arc<str>]) -> Result<Tickets, IpamError> {
        let agent = self.agent;
        let turn = agent.limiter.next_turn();
        let since = agent.env.monotonic();
        self.observe(Step::TicketsAsked { uid, pools, turn });
        let deadline = self.deadline.filter(|_| !self.policy().limiter_ignores_deadline);
        match agent.limiter.take(&agent.env, pools, deadline).await {
            Ok(tickets) => {
                let waited = agent.env.monotonic().saturating_sub(since);
                self.count(|effort| effort.ticket_wait += waited);
                self.observe(Step::TicketsGranted { turn, waited });
                Ok(tickets)
            }
            Err(refused) => {
                self.observe(Step::TicketsRefused { turn });
                Err(match refused {
                    Refused::Full => IpamError::QueueFull,
                    Refused::Late => IpamError::OutOfTime,
                })
            }
        }
    }

    /// Waits for the turn at this pod: an earlier request for it may still be under way although its caller gave up.
    pub(super) async fn turn(&self, pod: &ObjectKey) -> Result<Option<Tickets>, IpamError> {
        if self.policy().pod_operations_overlap {
            return Ok(None);
        }
        let turn = self.agent.pods.take(&self.agent.env, &[pod.as_str().into()], self.deadline).await;
        turn.map(Some).map_err(|_| IpamError::OutOfTime)
    }

    /// Sleeps before a retry of a request whose outcome is unknown: increasingly long, up to a second.
    pub(super) async fn pause(&self, tries: u32) {
        let bound = Duration::from_millis(20u64.saturating_mul(1 << tries.min(6))).min(Duration::from_secs(1));
        self.agent.env.sleep(bound.mul_f64(0.5 + self.agent.env.random_unit() / 2.0)).await;
    }

    pub(super) async fn live_pod(&self, key: &ObjectKey) -> Result<Option<Arc<Pod>>, IpamError> {
        self.get::<Pod>(key).await.map_err(|error| IpamError::Reading { what: "pod", error })
    }

    /// Whether a pod is bound to a node other than the agent's, or to none: no sandbox here belongs to it.
    pub(super) fn is_elsewhere(&self, pod: &Pod) -> bool {
        pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_none_or(|node| *node != *self.agent.config.node)
    }

    /// Deletes an endpoint at the version that was read. `None` = it is gone.
    pub(super) async fn mark(&self, endpoint: &SpiderEndpoint) -> Result<Option<Arc<SpiderEndpoint>>, ApiError> {
        let meta = &endpoint.metadata;
        let preconditions = Preconditions { uid: meta.uid.clone(), resource_version: meta.resource_version.clone() };
        let preconditions = if self.policy().endpoint_delete_by_name { Preconditions::default() } else { preconditions };
        match self.delete(&ObjectKey::of(endpoint), DeleteOptions { preconditions, ..DeleteOptions::default() }).await {
            Err(error) if error.is_not_found() => Ok(None),
            result => result,
        }
    }

    /// Removes the finalizer by a patch at the version that was read. `None` = the endpoint was gone.
    pub(super) async fn let_go(&self, endpoint: &SpiderEndpoint) -> Result<Option<Arc<SpiderEndpoint>>, ApiError> {
        let patch = patch_off(&endpoint.metadata, !self.policy().endpoint_delete_by_name);
        match self.patch(&ObjectKey::of(endpoint), patch).await {
            Ok(left) => Ok(Some(left)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the finalizer of an endpoint whose records are gone, at whatever version it is by now, as long as it is the endpoint of that
    /// pod. Upstream tries once (`finalizer-left-behind`).
    pub(super) async fn finish(&self, endpoint: Arc<SpiderEndpoint>) -> Result<(), ApiError> {
        let (mut current, mut tries) = (endpoint, 0);
        while has_finalizer(&current) {
            let error = match self.let_go(&current).await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if self.policy().finalizer_left_behind || self.is_late() || !(error.is_conflict() || may_pass(&error)) || tries > 20 {
                return Err(error);
            }
            tries += 1;
            self.pause(tries).await;
            match self.get::<SpiderEndpoint>(&ObjectKey::of(&*current)).await {
                Ok(Some(found)) if found.metadata.uid == current.metadata.uid && uid_of(&found) == uid_of(&current) => current = found,
                Ok(_) => return Ok(()),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Removes the records of `uid` on these addresses. An error of one pool does not prevent the changes of the others.
    ///
    /// # Errors
    /// The error of the first pool that has one.
    pub(super) async fn take_back(&self, key: &ObjectKey, uid: &str, cause: Cause, what: &[(Arc<str>, IpAddr)]) -> Result<(), IpamError> {
        if what.is_empty() {
            return Ok(());
        }
        self.announce(key, uid, cause, what);
        let pools = by_pool(what.iter().cloned());
        let result = self.release_all(uid, &pools).await;
        self.observe(Step::ReleaseEnded { pod: key, uid, cause, result: result.as_ref().copied() });
        result
    }

    async fn release_all(&self, uid: &str, pools: &[(Arc<str>, Vec<IpAddr>)]) -> Result<(), IpamError> {
        let names: Vec<Arc<str>> = pools.iter().map(|(pool, _)| pool.clone()).collect();
        let _tickets = self.tickets(uid, &names).await?;
        let releases = pools.iter().map(|(pool, ips)| async move { self.release(pool, uid, ips).await.map_err(of_pool(pool)) });
        join_all(releases.collect()).await.into_iter().collect()
    }

    /// Whether one of these addresses is recorded for `uid`.
    ///
    /// # Errors
    /// A pool or its records cannot be read, so the holders of its addresses are unknown.
    pub(super) async fn is_any_recorded(&self, uid: &str, what: &[(Arc<str>, IpAddr)]) -> Result<bool, IpamError> {
        for (pool, ips) in by_pool(what.iter().cloned()) {
            let Some(found) = self.readable_pool(&pool).await? else { continue };
            if recorded(&found, None, uid).any(|(ip, _)| ips.contains(&ip)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A pool as the API server has it, whose records can be read.
    pub(super) async fn readable_pool(&self, name: &str) -> Result<Option<Arc<SpiderIPPool>>, IpamError> {
        let found = self.pool(name).await?;
        if let Some(Err(error)) = found.as_ref().and_then(|pool| pool.status.as_ref()).map(|status| status.allocated_ips.parse()) {
            return Err(of_pool(name)(PoolError::BadRecords(error.to_string())));
        }
        Ok(found)
    }

    /// A pool as the API server has it.
    pub(super) async fn pool(&self, name: &str) -> Result<Option<Arc<SpiderIPPool>>, IpamError> {
        let read = self.get::<SpiderIPPool>(&ObjectKey::cluster(name)).await;
        read.map_err(|error| of_pool(name)(PoolError::Api(error)))
    }
}

/// Groups values by pool, in the order in which pools first occur.
pub(super) fn by_pool<T>(things: impl IntoIterator<Item = (Arc<str>, T)>) -> Vec<(Arc<str>, Vec<T>)> {
    let mut pools: Vec<(Arc<str>, Vec<T>)> = Vec::new();
    for (pool, thing) in things {
        match pools.iter_mut().find(|(known, _)| *known == pool) {
            Some((_, known)) => known.push(thing),
            None => pools.push((pool, vec![thing])),
        }
    }
    pools
}

/// The records of a pool for `uid`, and under `key` if there is one; empty if its records cannot be read.
pub(crate) fn recorded<'p>(
    pool: &'p SpiderIPPool,
    key: Option<&'p ObjectKey>,
    uid: &'p str,
) -> impl Iterator<Item = (IpAddr, &'p PoolIPAllocation)> {
    let records = pool.status.as_ref().and_then(|status| status.allocated_ips.parse().ok());
    let is_under = move |record: &PoolIPAllocation| key.is_none_or(|key| key.as_str() == record.pod);
    let of_uid = records.into_iter().flat_map(move |records| records.of_pod_uid(uid));
    of_uid.filter(move |(_, record)| is_under(record)).filter_map(|(ip, record)| Some((ip.address()?, record)))
}

/// Removes duplicates, in the order of first occurrence.
pub(super) fn distinct(what: Vec<(Arc<str>, IpAddr)>) -> Vec<(Arc<str>, IpAddr)> {
    let mut seen = BTreeSet::new();
    what.into_iter().filter(|one| seen.insert(one.clone())).collect()
}
