//! The writes of a release (G §4; D §1.3.1).
//!
//! ```text
//!   hardened:  mark the endpoint ──► records, pool by pool ──► finalizer of the endpoint
//!   upstream:  records ──► mark (of a StatefulSet's or VM's pod) ──► finalizer
//! ```
//! Every record is removed by address and UID, so that a repeated release, or two concurrent ones, have the effect of one. In the hardened
//! form the mark and the finalizer carry the resourceVersion of the copy that was judged.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::caches::Caches;
use super::error::ReclaimError;
use super::observer::{Observer, Releaser, Step, Target};
use super::process::Reclaim;
use super::row::Row;
use crate::finalizer::patch_off;
use crate::ipam::{PoolError, has_finalizer, is_terminating, release_records, uid_of};
use crate::join::join_all;
use crate::limiter::Refused;
use crate::{SpiderEndpoint, SpiderIPPool};
use kube_machinery::api::{ApiError, DeleteOptions, ObjectKey, Preconditions};
use kube_machinery::client::Client;
use kube_machinery::env::Env;

/// The number of attempts to remove the finalizer of a marked endpoint, at whatever version the endpoint is by then.
const LETTING_GO: u32 = 5;

/// Permission for the next write: parts that act as leader stop when they no longer lead.
pub(super) trait Permission: Sync {
    fn may_write(&self) -> bool;
}

impl<F: Fn() -> bool + Sync> Permission for F {
    fn may_write(&self) -> bool {
        self()
    }
}

/// # Errors
/// The next write may not be made.
pub(super) fn permitted(allowed: &dyn Permission) -> Result<(), ReclaimError> {
    if allowed.may_write() { Ok(()) } else { Err(ReclaimError::NotLeading) }
}

/// A release as decided.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) by: Releaser,
    pub(super) key: ObjectKey,
    pub(super) what: Vec<Target>,
    /// The endpoint to be removed, at the version that was judged.
    pub(super) endpoint: Option<Arc<SpiderEndpoint>>,
    pub(super) row: Row,
}

/// Addresses by pool and UID.
fn by_pool_and_uid(what: &[Target]) -> BTreeMap<(Arc<str>, Arc<str>), Vec<IpAddr>> {
    let mut grouped: BTreeMap<(Arc<str>, Arc<str>), Vec<IpAddr>> = BTreeMap::new();
    for target in what {
        grouped.entry((target.pool.clone(), target.uid.clone())).or_default().push(target.ip);
    }
    grouped
}

impl<C: Client, V: Env, K: Caches, O: Observer> Reclaim<C, V, K, O> {
    /// Removes the records of `uid` on these addresses of a pool; returns their number (G X5).
    pub(super) async fn remove_records(&self, name: &str, uid: &str, ips: &[IpAddr], allowed: &dyn Permission) -> Result<usize, PoolError> {
        let key = ObjectKey::cluster(name);
        let mut sleeps = self.config.settings.retry.sleeps(|| self.env.random_unit());
        let mut attempts = 0;
        loop {
            attempts += 1;
            let pool = self.get::<SpiderIPPool>(&key).await.map_err(PoolError::Api)?.ok_or(PoolError::NotFound)?;
            let decision = release_records(&pool, uid, ips)?;
            let Some(status) = decision.write else { return Ok(decision.outcome) };
            if !allowed.may_write() {
                return Err(PoolError::OutOfTime);
            }
            let body = SpiderIPPool { status: Some(status), ..SpiderIPPool::clone(&pool) };
            match self.update_status(body).await {
                Ok(_) => return Ok(decision.outcome),
                Err(error) if error.is_conflict() => match sleeps.next() {
                    Some(sleep) => self.env.sleep(sleep).await,
                    None => return Err(PoolError::RetriesExhausted { attempts }),
                },
                Err(error) if error.is_not_found() => return Err(PoolError::NotFound),
                Err(error) => return Err(PoolError::Api(error)),
            }
        }
    }

    /// Removes the records of a release, all pools concurrently; a record that is gone already is no failure.
    pub(super) async fn remove_all(&self, by: Releaser, what: &[Target], allowed: &dyn Permission) -> Result<(), ReclaimError> {
        let grouped = by_pool_and_uid(what);
        // A scan waits for no tickets, here as upstream.
        if by != Releaser::Trace || what.is_empty() {
            return self.remove_grouped(&grouped, allowed).await;
        }
        let mut pools: Vec<Arc<str>> = grouped.keys().map(|(pool, _)| pool.clone()).collect();
        pools.dedup();
        let _tickets = match self.limiter.take(&self.env, &pools, None).await {
            Ok(tickets) => Some(tickets),
            Err(Refused::Full | Refused::Late) => {
                if !self.config.policy.reclaim.ticket_released_ungranted {
                    return Err(ReclaimError::QueueFull);
                }
                return self.remove_without_tickets(&pools, &grouped, allowed).await;
            }
        };
        self.remove_grouped(&grouped, allowed).await
    }

    pub(super) async fn remove_grouped(
        &self,
        grouped: &BTreeMap<(Arc<str>, Arc<str>), Vec<IpAddr>>,
        allowed: &dyn Permission,
    ) -> Result<(), ReclaimError> {
        let removals = grouped.iter().map(|((pool, uid), ips)| async move {
            match self.remove_records(pool, uid, ips, allowed).await {
                Ok(removed) => {
                    self.observer.observe(Step::RecordsRemoved { pool, uid, ips, removed });
                    Ok(())
                }
                Err(PoolError::NotFound) => Ok(()),
                Err(PoolError::OutOfTime) => Err(ReclaimError::NotLeading),
                Err(error) => Err(ReclaimError::Pool { pool: pool.to_string(), error }),
            }
        });
        join_all(removals.collect()).await.into_iter().collect()
    }

    /// Marks an endpoint: deletes it at the very version that was judged. `None` = it is gone (G X7).
    pub(super) async fn mark(&self, endpoint: &Arc<SpiderEndpoint>) -> Result<Option<Arc<SpiderEndpoint>>, ApiError> {
        let meta = &endpoint.metadata;
        let exact = Preconditions { uid: meta.uid.clone(), resource_version: meta.resource_version.clone() };
        let preconditions = self.loosened(exact);
        let key = ObjectKey::of(&**endpoint);
        let marked = match self.delete(&key, DeleteOptions { preconditions, ..DeleteOptions::default() }).await {
            Err(error) if error.is_not_found() => None,
            result => result?,
        };
        self.observer.observe(Step::EndpointMarked { key: &key });
        Ok(marked)
    }

    /// Removes the finalizer by a patch (G X8).
    ///
    /// # Errors
    /// Also NotFound, which upstream treats as a failure.
    pub(super) async fn let_go(&self, endpoint: &SpiderEndpoint) -> Result<(), ApiError> {
        let patch = patch_off(&endpoint.metadata, !self.config.policy.reclaim.finalizer_patch_by_name);
        let key = ObjectKey::of(endpoint);
        self.patch::<SpiderEndpoint>(&key, patch).await?;
        self.observer.observe(Step::EndpointLetGo { key: &key });
        Ok(())
    }

    /// Carries out a release of a scan or an executor.
    pub(super) async fn carry_out(&self, order: &Order, allowed: &dyn Permission) -> Result<(), ReclaimError> {
        let Order { by, key, what, endpoint, row } = order;
        self.observer.observe(Step::ReleaseBegun { by: *by, key, what, endpoint: endpoint.is_some(), row: *row });
        let result = self.write_all(order, allowed).await;
        self.observer.observe(Step::ReleaseEnded { by: *by, key, result: result.as_ref().copied() });
        result
    }

    async fn write_all(&self, order: &Order, allowed: &dyn Permission) -> Result<(), ReclaimError> {
        let policy = &self.config.policy.reclaim;
        if policy.records_before_endpoint {
            return self.write_records_first(order, allowed).await;
        }
        let Order { by, key, what, endpoint, .. } = order;
        let failed = |error| ReclaimError::Endpoint { endpoint: key.clone(), error };
        let mut marked = None;
        if let Some(endpoint) = endpoint {
            permitted(allowed)?;
            marked = self.marked(endpoint).await.map_err(failed)?;
        }
        let removed = self.remove_all(*by, what, allowed).await;
        if !policy.endpoint_removed_after_failed_release {
            removed.clone()?;
        }
        if let Some(marked) = marked {
            self.finish(marked, allowed).await.map_err(failed)?;
        }
        removed
    }

    pub(super) async fn marked(&self, endpoint: &Arc<SpiderEndpoint>) -> Result<Option<Arc<SpiderEndpoint>>, ApiError> {
        if is_terminating(endpoint) { Ok(Some(endpoint.clone())) } else { self.mark(endpoint).await }
    }

    /// Removes the finalizer of a marked endpoint at whatever version it is by now, as long as it is the same one, of the same pod.
    pub(super) async fn finish(&self, marked: Arc<SpiderEndpoint>, allowed: &dyn Permission) -> Result<(), ApiError> {
        let (mut current, mut tries) = (marked, 0);
        while has_finalizer(&current) && allowed.may_write() {
            let error = match self.let_go(&current).await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => error,
            };
            tries += 1;
            if !error.is_conflict() || tries >= LETTING_GO {
                return Err(error);
            }
            match self.get::<SpiderEndpoint>(&ObjectKey::of(&*current)).await? {
                Some(found) if found.metadata.uid == current.metadata.uid && uid_of(&found) == uid_of(&current) => current = found,
                _ => return Ok(()),
            }
        }
        Ok(())
    }
}
