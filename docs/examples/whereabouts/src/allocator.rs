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

use k8s_openapi::api::core::v1::Pod;
use kube_machinery::api::{DeleteOptions, ListOptions, ignore_already_exists, ignore_not_found};
use kube_machinery::lease_lock::LeaseLock;
use kube_machinery::retry::until_success;
use kube_machinery::{ApiError, ClientExt, Env, ObjectKey};
use sim_harness::prelude::*;

use crate::note::Said;
use crate::objects::{IPPool, pool_key};
use crate::{READS_OUTSIDE_LEASE, RECONCILER_TRUSTS_CACHE};

/// Between two attempts, and between two rounds of the reconciler.
const AGAIN: Duration = Duration::from_secs(1);

/// A process that writes the pool, in one of its lives.
pub struct Allocator {
    life: Life,
    env: SimEnv,
    client: SimClient,
    lock: LeaseLock<SimClient, SimEnv>,
}

impl Allocator {
    pub fn new(life: Life) -> Self {
        let (env, client, lease) = (life.env(), life.client(), ObjectKey::namespaced("kube-system", "whereabouts"));
        let lock = LeaseLock::new(client.clone(), env.clone(), lease, &*life.name()).expiring_after(Duration::from_secs(2));
        Self { life, env, client, lock }
    }

    /// CNI ADD, until it succeeds.
    pub async fn add(&self, pod: &str) {
        self.life.note(&Said::Asks { pod: pod.to_owned() });
        let offset = until_success(&self.env, AGAIN, || self.try_add(pod)).await;
        self.life.note(&Said::Given { pod: pod.to_owned(), offset });
    }

    async fn try_add(&self, pod: &str) -> Result<u32, ApiError> {
        ignore_already_exists(self.client.create(plain_pod(ObjectKey::of_text(pod).metadata())).await)?;
        let early = if self.life.deviates(READS_OUTSIDE_LEASE) { Some(self.pool().await?) } else { None };
        let choose = async {
            let pool = self.pool().await?;
            let known = &early.as_ref().unwrap_or(&pool).spec.allocations;
            if let Some((&own, _)) = known.iter().find(|(_, owner)| *owner == pod) {
                return Ok(own);
            }
            let free = (1..).find(|offset| !known.contains_key(offset)).unwrap_or(u32::MAX);
            self.change(&pool, |pool| drop(pool.spec.allocations.insert(free, pod.to_owned()))).await?;
            Ok(free)
        };
        self.lock.guard(choose).await
    }

    /// CNI DEL, until it succeeds; or the end of a pod whose DEL nobody ever sees.
    pub async fn end(&self, pod: &str, del: bool) {
        self.life.note(&Said::Ends { pod: pod.to_owned() });
        until_success(&self.env, AGAIN, || self.try_end(pod, del)).await;
    }

    async fn try_end(&self, pod: &str, del: bool) -> Result<(), ApiError> {
        if del {
            self.lock.guard(async { self.remove(&*self.pool().await?, |owner| owner == pod).await }).await?;
        }
        let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        ignore_not_found(self.client.delete::<Pod>(&ObjectKey::of_text(pod), options).await)
    }

    /// Frees the addresses of pods that are gone, again and again.
    pub async fn reconcile(&self) {
        loop {
            self.env.sleep(AGAIN).await;
            for pod in self.try_reconcile().await.unwrap_or_default() {
                self.life.note(&Said::Reconciled { pod });
            }
        }
    }

    async fn try_reconcile(&self) -> Result<Vec<String>, ApiError> {
        let cached = if self.life.deviates(RECONCILER_TRUSTS_CACHE) { Some(self.pods(Some("0".to_owned())).await?) } else { None };
        let free = async {
            let pool = self.pool().await?;
            let pods = match cached {
                Some(pods) => pods,
                // After the pool: a pod is there before its address is.
                None => self.pods(None).await?,
            };
            self.remove(&pool, |owner| !pods.contains(owner)).await
        };
        self.lock.guard(free).await
    }

    async fn pods(&self, resource_version: Option<String>) -> Result<BTreeSet<String>, ApiError> {
        let list = self.client.list::<Pod>(None, ListOptions { resource_version, ..ListOptions::default() }).await?;
        Ok(list.items.iter().map(|pod| ObjectKey::of(&**pod).as_str().to_owned()).collect())
    }

    async fn pool(&self) -> Result<Arc<IPPool>, ApiError> {
        self.client.get(&pool_key()).await
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
        self.client.update(next).await.map(drop)
    }
}
