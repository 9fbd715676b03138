//! Taking records away, from however many pools (A §7.1 D9, §6.3 R3).

use std::net::IpAddr;
use std::sync::Arc;

use super::caches::Caches;
use super::error::{IpamError, PoolError};
use super::observer::{Cause, Observer, Step};
use super::op::{Op, of_pool};
use crate::join::join_all;
use crate::{PoolIPAllocation, SpiderIPPool};
use kube_machinery::api::ObjectKey;
use kube_machinery::client::Client;
use kube_machinery::env::Env;

/// Things of pools, by pool in the order in which they first occur.
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

impl<C: Client, V: Env, K: Caches, O: Observer> Op<'_, C, V, K, O> {
    /// Takes away the records of `uid` on these addresses. An error of one pool does not keep the others from being changed.
    ///
    /// # Errors
    /// That of the first pool that has one.
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
    pub(super) async fn is_any_recorded(&self, uid: &str, what: &[(Arc<str>, IpAddr)]) -> Result<bool, IpamError> {
        for (pool, ips) in by_pool(what.iter().cloned()) {
            let Some(found) = self.pool(&pool).await? else { continue };
            if recorded(&found, None, uid).any(|(ip, _)| ips.contains(&ip)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A pool as the API server has it.
    pub(super) async fn pool(&self, name: &str) -> Result<Option<Arc<SpiderIPPool>>, IpamError> {
        let read = self.get::<SpiderIPPool>(&ObjectKey::cluster(name)).await;
        read.map_err(|error| of_pool(name)(PoolError::Api(error)))
    }
}

/// What a pool has recorded for `uid`, and under `key` if there is one; nothing if its records cannot be read.
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
