//! The system under test: what runs on the nodes, and the reconciler.
//!
//! ```text
//!  ADD  create the pod ── take the lease ── read the pool ── write the lowest free offset ── hand the lease back
//!  DEL                    take the lease ── read the pool ── remove the offset ──────────── hand the lease back ── delete the pod
//!  reconciler             take the lease ── read the pool ── list the pods ── remove what no pod has ── hand the lease back
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube_machinery::api::{Call, DeleteOptions, ListOptions, Reply, Request};
use kube_machinery::leader::{Candidate, ElectionConfig, Round, Step};
use kube_machinery::{ApiError, Client, Env, Object, ObjectKey};
use kube_sim::cluster::{Fabric, SimClient};
use kube_sim::env::SimEnv;
use kube_sim::rt::ProcessId;
use sim_harness::deviation::DeviationName;

use crate::note::Said;
use crate::objects::{IPPool, pool_key};
use crate::{READS_OUTSIDE_LEASE, RECONCILER_TRUSTS_CACHE};

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Between two attempts to take the lease, and after an error.
const AGAIN: Duration = Duration::from_millis(300);
/// Between two rounds of the reconciler.
const ROUND: Duration = Duration::from_secs(1);

/// A process that writes the pool, in one of its lives.
pub struct Allocator {
    fabric: Arc<Fabric>,
    process: ProcessId,
    env: SimEnv,
    client: SimClient,
    candidate: Candidate,
    reads_outside_lease: bool,
    trusts_cache: bool,
}

impl Allocator {
    pub fn new(fabric: &Arc<Fabric>, process: ProcessId, seed: u64, deviations: &[DeviationName]) -> Self {
        let lease = ObjectKey::namespaced("kube-system", "whereabouts");
        let mut election = ElectionConfig::new(lease, &*fabric.rt.process_name(process));
        election.lease_duration = Duration::from_secs(2);
        let is_told = |name| deviations.iter().any(|deviation| deviation.as_str() == name);
        Self {
            fabric: fabric.clone(),
            process,
            env: SimEnv::new(&fabric.rt, seed, process),
            client: SimClient::new(fabric, process),
            candidate: Candidate::new(&election),
            reads_outside_lease: is_told(READS_OUTSIDE_LEASE),
            trusts_cache: is_told(RECONCILER_TRUSTS_CACHE),
        }
    }

    fn say(&self, said: Said) {
        self.fabric.note(self.process, &said);
    }

    async fn send<K: Object>(&self, call: Call<K>) -> Result<Reply<K>, ApiError> {
        self.client.send(Request { call, timeout: Some(TIMEOUT) }).await
    }

    async fn pool(&self) -> Result<Arc<IPPool>, ApiError> {
        self.send(Call::get(&pool_key())).await.map(Reply::into_object)
    }

    /// CNI ADD, until it succeeds.
    pub async fn add(&mut self, pod: &str) {
        self.say(Said::Asks { pod: pod.to_owned() });
        loop {
            match self.try_add(pod).await {
                Ok(offset) => return self.say(Said::Given { pod: pod.to_owned(), offset }),
                Err(_) => self.env.sleep(AGAIN).await,
            }
        }
    }

    async fn try_add(&mut self, pod: &str) -> Result<u32, ApiError> {
        let mut object = Pod::default();
        let key = pod_key(pod);
        (object.metadata.namespace, object.metadata.name) = (key.namespace().map(str::to_owned), Some(key.name().to_owned()));
        let main = Container { name: "main".to_owned(), image: Some("registry.example/app:1".to_owned()), ..Container::default() };
        object.spec = Some(PodSpec { containers: vec![main], ..PodSpec::default() });
        match self.send(Call::create(object)).await {
            Err(error) if !error.is_already_exists() => return Err(error),
            _ => {}
        }
        let early = if self.reads_outside_lease { Some(self.pool().await?) } else { None };
        self.lock().await?;
        let pool = self.pool().await?;
        let known = early.as_ref().unwrap_or(&pool);
        let own = known.spec.allocations.iter().find(|(_, owner)| *owner == pod);
        let offset = match own {
            Some((&offset, _)) => offset,
            None => {
                let free = (1..).find(|offset| !known.spec.allocations.contains_key(offset)).unwrap_or(u32::MAX);
                self.change(&pool, |pool| drop(pool.spec.allocations.insert(free, pod.to_owned()))).await?;
                free
            }
        };
        self.unlock().await;
        Ok(offset)
    }

    /// CNI DEL, until it succeeds; or the end of a pod whose DEL nobody ever sees.
    pub async fn end(&mut self, pod: &str, del: bool) {
        self.say(Said::Ends { pod: pod.to_owned() });
        while self.try_end(pod, del).await.is_err() {
            self.env.sleep(AGAIN).await;
        }
    }

    async fn try_end(&mut self, pod: &str, del: bool) -> Result<(), ApiError> {
        if del {
            self.lock().await?;
            let pool = self.pool().await?;
            self.remove(&pool, |owner| owner == pod).await?;
            self.unlock().await;
        }
        let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        match self.send::<Pod>(Call::Delete { key: pod_key(pod), options }).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Frees the addresses of pods that are gone, again and again.
    pub async fn reconcile(&mut self) {
        loop {
            self.env.sleep(ROUND).await;
            // What fails is done in the next round.
            let _ = self.try_reconcile().await;
        }
    }

    async fn try_reconcile(&mut self) -> Result<(), ApiError> {
        let cached = if self.trusts_cache { Some(self.pods(Some("0".to_owned())).await?) } else { None };
        self.lock().await?;
        let pool = self.pool().await?;
        let pods = match cached {
            Some(pods) => pods,
            // After the pool: a pod is there before its address is.
            None => self.pods(None).await?,
        };
        for pod in self.remove(&pool, |owner| !pods.contains(owner)).await? {
            self.say(Said::Reconciled { pod });
        }
        self.unlock().await;
        Ok(())
    }

    async fn pods(&self, resource_version: Option<String>) -> Result<BTreeSet<String>, ApiError> {
        let options = ListOptions { resource_version, ..ListOptions::default() };
        let list = self.send::<Pod>(Call::List { namespace: None, options }).await?.into_list();
        Ok(list.items.iter().map(|pod| ObjectKey::of(&**pod).as_str().to_owned()).collect())
    }

    /// Removes the addresses of the pods that `whose` names, and says which those are.
    async fn remove(&self, pool: &IPPool, whose: impl Fn(&String) -> bool) -> Result<Vec<String>, ApiError> {
        let gone: Vec<String> = pool.spec.allocations.values().filter(|owner| whose(owner)).cloned().collect();
        if !gone.is_empty() {
            self.change(pool, |pool| pool.spec.allocations.retain(|_, owner| !whose(owner))).await?;
        }
        Ok(gone)
    }

    /// Writes the pool over the version that was read.
    async fn change(&self, pool: &IPPool, change: impl FnOnce(&mut IPPool)) -> Result<(), ApiError> {
        let mut next = pool.clone();
        change(&mut next);
        self.send(Call::update(next)).await.map(drop)
    }

    /// Waits for the lease.
    async fn lock(&mut self) -> Result<(), ApiError> {
        loop {
            let round = Round { now: self.env.monotonic(), wall: self.env.wall() };
            let mut step = self.candidate.begin(round);
            if step == Step::Read {
                let lease = match self.send(Call::<Lease>::get(&ObjectKey::namespaced("kube-system", "whereabouts"))).await {
                    Err(error) if error.is_not_found() => None,
                    answer => Some(answer?.into_object()),
                };
                step = self.candidate.decide(lease, round, self.env.monotonic());
            }
            let write = match step {
                Step::Create(lease) => Call::create(*lease),
                Step::Update(lease) => Call::update(*lease),
                Step::Read | Step::Wait => {
                    self.env.sleep(AGAIN.mul_f64(1.0 + self.env.random_unit())).await;
                    continue;
                }
            };
            let lease = self.send(write).await?.into_object();
            self.candidate.written(lease, self.env.monotonic());
            return Ok(());
        }
    }

    /// Hands the lease back. If that fails it runs out.
    async fn unlock(&mut self) {
        if let Some(lease) = self.candidate.release(self.env.wall())
            && let Ok(reply) = self.send(Call::update(lease)).await
        {
            self.candidate.written(reply.into_object(), self.env.monotonic());
        }
    }
}

fn pod_key(pod: &str) -> ObjectKey {
    let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
    ObjectKey::namespaced(namespace, name)
}
