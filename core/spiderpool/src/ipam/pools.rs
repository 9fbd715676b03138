//! Changes of pools: read, decide, write, and retry after a conflict (A §5.4, §6.2, §7.1).

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::allocated_ip::AllocatedIp;
use super::caches::Caches;
use super::error::PoolError;
use super::failure_cache::Suspect;
use super::observer::{Cause, Observer};
use super::op::{Op, recorded};
use super::pool_addresses::{Reservations, without};
use super::pool_decide::{Ask, Decision, Fate, Given, NewOwner, ReusedIp, allocate, release, reown};
use crate::SpiderIPPool;
use crate::ranges::{IpVersion, RangeError};
use kube_machinery::api::{ApiError, ObjectKey};
use kube_machinery::client::Client;
use kube_machinery::env::Env;

/// The outcome of an attempt at a pool.
enum Attempt<T> {
    Done(T),
    /// A conflict: the write of this resourceVersion met another version of the pool.
    Conflict(String, ApiError),
    /// The write of this resourceVersion may have been carried out, or may still be.
    Unknown(String, ApiError),
    Failed(PoolError),
}

/// The condition for a write after the pool was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timing {
    /// The caller still waits.
    InTime,
    /// None: the write is sent even if the caller has given up.
    Any,
}

/// The outcome of a try to take an address from a pool.
pub(super) struct PoolTry {
    /// The address, and whether it was recorded before.
    pub(super) result: Result<(AllocatedIp, bool), PoolError>,
    pub(super) attempts: u32,
    /// Whether the pool has a record of this NIC, as it was last read; `None` = it could not be read.
    pub(super) holds: Option<bool>,
}

/// The outcome of a change of a pool.
pub(super) struct Changed<T> {
    pub(super) result: Result<T, PoolError>,
    pub(super) attempts: u32,
}

fn version(pool: &SpiderIPPool) -> &str {
    pool.metadata.resource_version.as_deref().unwrap_or_default()
}

impl<C: Client, V: Env, K: Caches, O: Observer> Op<'_, C, V, K, O> {
    async fn attempt<T>(
        &self,
        key: &ObjectKey,
        timing: Timing,
        doubt: &mut Option<(String, ApiError)>,
        decide: &mut (impl FnMut(&SpiderIPPool) -> Result<Decision<T>, PoolError> + Send),
    ) -> Attempt<T> {
        self.count(|effort| effort.attempts += 1);
        let pool = match self.get::<SpiderIPPool>(key).await {
            Ok(Some(pool)) => pool,
            Ok(None) => {
                *doubt = None;
                return Attempt::Failed(PoolError::NotFound);
            }
            Err(error) => return Attempt::Failed(PoolError::Api(error)),
        };
        // After any change a write against the old version can no longer be carried out (K070); if it was carried out, the records show it.
        if doubt.as_ref().is_some_and(|(written, _)| written != version(&pool)) {
            *doubt = None;
        }
        let seen = if timing == Timing::InTime && self.policy().allocate_from_cached_pool {
            self.agent.caches.pool(key.name()).unwrap_or_else(|| pool.clone())
        } else {
            pool.clone()
        };
        let decision = match decide(&seen) {
            Ok(decision) => decision,
            Err(error) => return Attempt::Failed(error),
        };
        let Some(status) = decision.write else { return Attempt::Done(decision.outcome) };
        if timing == Timing::InTime && self.is_late() {
            return Attempt::Failed(PoolError::OutOfTime);
        }
        let written = version(&pool).to_owned();
        let mut body = SpiderIPPool::clone(&pool);
        body.status = Some(status);
        match self.update_status(body).await {
            Ok(written) => {
                // A write that changes nothing fences nothing (K075).
                if written.metadata.resource_version != pool.metadata.resource_version {
                    self.agent.failures.fence(key.name());
                }
                Attempt::Done(decision.outcome)
            }
            Err(error) if error.is_conflict() => Attempt::Conflict(written, error),
            Err(error) if error.is_ambiguous() => Attempt::Unknown(written, error),
            Err(error) if error.is_not_found() => Attempt::Failed(PoolError::NotFound),
            Err(error) => Attempt::Failed(PoolError::Api(error)),
        }
    }

    /// The outcome by the state of a pool after the last conflict; `None` if something is still to be written. An error if the pool cannot
    /// be read.
    async fn look<T>(
        &self,
        key: &ObjectKey,
        decide: &mut (impl FnMut(&SpiderIPPool) -> Result<Decision<T>, PoolError> + Send),
    ) -> Result<Option<Result<T, PoolError>>, ApiError> {
        let Some(pool) = self.get::<SpiderIPPool>(key).await? else { return Ok(None) };
        Ok(match decide(&pool) {
            Ok(decision) => decision.write.is_none().then_some(Ok(decision.outcome)),
            Err(error) => (error == PoolError::EndpointUnknown).then_some(Err(error)),
        })
    }

    /// Changes a pool, with as many attempts as the settings grant for conflicts.
    ///
    /// An attempt whose answer was lost is settled on this pool: either the next read shows its record, or the pool has another version, so
    /// that it cannot take effect any more, or the next write competes with it for the same version. So is a conflict: a proxy may have
    /// sent the write twice, and the first copy was carried out. Neither copy can be carried out any more (K070), but only a read tells.
    async fn change<T>(
        &self,
        name: &str,
        timing: Timing,
        mut decide: impl FnMut(&SpiderIPPool) -> Result<Decision<T>, PoolError> + Send,
    ) -> Changed<T> {
        let key = ObjectKey::cluster(name);
        let settles = !self.policy().lost_reply_takes_next_pool;
        let env = &self.agent.env;
        let mut sleeps = self.agent.config.settings.retry.sleeps(|| env.random_unit());
        let (mut attempts, mut unknown) = (0, 0);
        let mut doubt: Option<(String, ApiError)> = None;
        loop {
            attempts += 1;
            let failed = match self.attempt(&key, timing, &mut doubt, &mut decide).await {
                Attempt::Done(outcome) => return Changed { result: Ok(outcome), attempts },
                Attempt::Conflict(written, error) => {
                    if settles {
                        doubt = Some((written, error));
                    }
                    match sleeps.next() {
                        _ if self.is_late() => PoolError::OutOfTime,
                        Some(sleep) => {
                            env.sleep(sleep).await;
                            continue;
                        }
                        None => match if settles { self.look(&key, &mut decide).await } else { Ok(None) } {
                            Ok(Some(result)) => return Changed { result, attempts },
                            Ok(None) => {
                                doubt = None;
                                self.count(|effort| effort.exhausted += 1);
                                PoolError::RetriesExhausted { attempts }
                            }
                            Err(error) => PoolError::Api(error),
                        },
                    }
                }
                Attempt::Unknown(_, error) if !settles => PoolError::Api(error),
                Attempt::Unknown(written, error) => {
                    doubt = Some((written, error.clone()));
                    PoolError::Api(error)
                }
                Attempt::Failed(error) => error,
            };
            let Some((_, error)) = &doubt else { return Changed { result: Err(failed), attempts } };
            if self.is_late() || !matches!(failed, PoolError::Api(_)) {
                return Changed { result: Err(PoolError::Unsettled(error.clone())), attempts };
            }
            unknown += 1;
            if self.deadline.is_none() && unknown > 20 {
                return Changed { result: Err(PoolError::Unsettled(error.clone())), attempts };
            }
            self.pause(unknown).await;
        }
    }

    /// The reserved addresses of a family, as the cache shows them.
    pub(super) fn reservations(&self, family: IpVersion) -> Arc<Reservations> {
        self.agent.addresses.reservations(&self.agent.caches, family, self.policy())
    }

    /// Takes an address from a pool. If all pools are read first, `finds_strays` is called with them: no address is taken while the pod has
    /// a record in another pool.
    pub(super) async fn allocate(
        &self,
        pool: &Arc<str>,
        family: IpVersion,
        ask: Ask<'_>,
        clean_gateway: bool,
        finds_strays: &(impl Fn(&[Arc<SpiderIPPool>]) -> bool + Sync),
    ) -> PoolTry {
        let policy = self.policy();
        let mut holds = None;
        let decide = |known: &SpiderIPPool, holds: &mut Option<bool>| -> Result<Decision<Option<(AllocatedIp, bool)>>, PoolError> {
            *holds = ask.is_recorded_in(known);
            let reservations = self.reservations(family);
            // Upstream reads reservations before anything else (A §14.15).
            if policy.upstream_ranges
                && let Err(error) = &reservations.set
            {
                return Err(PoolError::Unavailable(error.clone().into()));
            }
            let unknown = Cell::new(false);
            let decision = allocate(known, &ask, || {
                // An address that is recorded already is answered anyway; only a new one must not belong to another pool.
                if self.is_to_be_compared(known) {
                    unknown.set(true);
                    return Err(RangeError::NoVersion);
                }
                if ask.avoided.is_empty() {
                    self.agent.addresses.addresses(known, &reservations, policy)
                } else {
                    without(known, &reservations, ask.avoided, policy).map(Arc::new)
                }
            });
            let decision = if unknown.get() { return Err(PoolError::NotCompared) } else { decision? };
            let Given { address, recorded, dropped } = decision.outcome;
            self.announce_dropped(pool, &ask, &dropped);
            let allocated = address.map(|address| (AllocatedIp::new(known, pool, ask.nic, clean_gateway, address), recorded));
            Ok(Decision { outcome: allocated, write: decision.write })
        };
        let look = |pools: &[Arc<SpiderIPPool>], holds: &mut Option<bool>| {
            if let Some(listed) = pools.iter().find(|listed| listed.metadata.name.as_deref() == Some(&**pool)) {
                *holds = ask.is_recorded_in(listed);
            }
            if finds_strays(pools) { Err(PoolError::EndpointUnknown) } else { Ok(()) }
        };
        // The cached ranges are almost always those of the pool, so the comparison is made before it is read.
        if self.agent.caches.pool(pool).is_some_and(|cached| self.is_to_be_compared(&cached))
            && let Err(error) = self.compare(pool, |pools| look(pools, &mut holds)).await
            // An address that is recorded already is answered whatever addresses other pools have.
            && (holds != Some(true) || error == PoolError::EndpointUnknown)
        {
            return PoolTry { result: Err(error), attempts: 0, holds };
        }
        let (mut attempts, mut left) = (0, 3);
        // One more try for ranges that change at this very moment, and one for own records that were dropped; then the next ADD has to
        // continue.
        loop {
            let changed = self.change(pool, Timing::InTime, |known| decide(known, &mut holds)).await;
            attempts += changed.attempts;
            left -= 1;
            let result = match changed.result {
                Ok(Some(given)) => Ok(given),
                Ok(None) => {
                    holds = Some(false);
                    // The write that dropped them has changed the pool, so no earlier one can be carried out (K070).
                    self.agent.failures.settle(ask.uid, pool, |nic| nic != ask.nic);
                    Err(PoolError::OwnRecordsMadeWay)
                }
                Err(PoolError::NotCompared) => {
                    let compared = self.compare(pool, |pools| look(pools, &mut holds)).await;
                    Err(compared.err().unwrap_or(PoolError::NotCompared))
                }
                Err(error) => Err(error),
            };
            let again = matches!(result, Err(PoolError::OwnRecordsMadeWay | PoolError::NotCompared));
            if !again || left == 0 {
                return PoolTry { result, attempts, holds };
            }
        }
    }

    /// Whether it must first be checked whether another pool has the same addresses.
    fn is_to_be_compared(&self, pool: &SpiderIPPool) -> bool {
        !self.policy().overlap_admitted_forever && !self.agent.neighbours.knows(pool)
    }

    /// Compares all pools in their current state, unless `look`, which gets them first, refuses.
    async fn compare(&self, pool: &str, look: impl FnOnce(&[Arc<SpiderIPPool>]) -> Result<(), PoolError> + Send) -> Result<(), PoolError> {
        let pools = self.list::<SpiderIPPool>().await.map_err(PoolError::Api)?;
        look(&pools)?;
        if !self.policy().lost_reply_takes_next_pool {
            self.agent.failures.see(self.unseen(&pools));
        }
        let margin = self.agent.config.settings.late_commit;
        match self.agent.neighbours.learn(&pools, margin, self.policy()).remove(pool) {
            Some(other) => Err(PoolError::Overlaps { other }),
            None => Ok(()),
        }
    }

    /// The records in newly read pools that the cache does not show, by the UID of the pod.
    fn unseen(&self, pools: &[Arc<SpiderIPPool>]) -> BTreeMap<Arc<str>, BTreeSet<Suspect>> {
        let mut unseen = BTreeMap::<Arc<str>, BTreeSet<Suspect>>::new();
        for pool in pools {
            let name: Arc<str> = pool.metadata.name.as_deref().unwrap_or_default().into();
            let cached = self.agent.caches.pool(&name);
            if cached.as_ref().is_some_and(|cached| version(cached) == version(pool)) {
                continue;
            }
            let Some(Ok(records)) = pool.status.as_ref().map(|status| status.allocated_ips.parse()) else { continue };
            let shown = cached.as_ref().and_then(|cached| cached.status.as_ref()?.allocated_ips.parse().ok());
            for (key, record) in records.iter() {
                let is_shown = key.address().is_some_and(|ip| shown.is_some_and(|shown| shown.get(ip) == Some(record)));
                let Some(nic) = record.interface.as_deref().filter(|_| !is_shown) else { continue };
                let suspect = Suspect { nic: nic.into(), pool: name.clone() };
                unseen.entry(record.pod_uid.as_str().into()).or_default().insert(suspect);
            }
        }
        unseen
    }

    /// Reports that own records are dropped for another address in the following write.
    fn announce_dropped(&self, pool: &Arc<str>, ask: &Ask<'_>, dropped: &[IpAddr]) {
        let (avoided, others): (Vec<IpAddr>, Vec<IpAddr>) = dropped.iter().partition(|ip| ask.avoided.contains(ip));
        for (cause, ips) in [(Cause::Conflict, avoided), (Cause::Superseded, others)] {
            if !ips.is_empty() {
                let what: Vec<_> = ips.into_iter().map(|ip| (pool.clone(), ip)).collect();
                self.announce(ask.key, ask.uid, cause, &what);
            }
        }
    }

    /// Removes the records of `uid` on these addresses, and only those.
    ///
    /// If a NIC has no record left, a pool from which some were removed is not in doubt any more: it has another version since then, so no
    /// earlier write can be carried out. A pool without any to remove holds none now, but an earlier write may still create one.
    pub(super) async fn release(&self, pool: &str, uid: &str, ips: &[IpAddr]) -> Result<(), PoolError> {
        let (mut takes, mut left) = (false, Vec::new());
        let decide = |known: &SpiderIPPool| {
            takes |= recorded(known, None, uid).any(|(ip, _)| ips.contains(&ip));
            left.clear();
            left.extend(recorded(known, None, uid).filter(|(ip, _)| !ips.contains(ip)).map(|(_, record)| record.interface.clone()));
            release(known, uid, ips)
        };
        let result = self.change(pool, Timing::Any, decide).await.result;
        let is_left = |nic: &str| left.iter().any(|of| of.as_deref().is_none_or(|of| of == nic));
        match result {
            Ok(_) if takes => self.agent.failures.settle(uid, pool, is_left),
            Ok(_) => self.agent.failures.unhold(uid, pool, is_left),
            Err(_) => {}
        }
        match result {
            Err(PoolError::NotFound) if !self.policy().missing_pool_keeps_endpoint => Ok(()),
            result => result.map(drop),
        }
    }

    /// Transfers records to a new pod of the same name. Returns the fate of each address.
    pub(super) async fn reown(&self, pool: &str, new_owner: NewOwner<'_>, reused: &[ReusedIp]) -> Result<Vec<Fate>, PoolError> {
        let policy = self.policy();
        let family = reused.first().map_or(IpVersion::V4, |reused_ip| IpVersion::of(reused_ip.ip));
        let decide = |known: &SpiderIPPool, is_withheld: bool| {
            let unknown = Cell::new(false);
            let decision = reown(known, &new_owner, reused, || {
                // Only a record that has to be made anew requires this; without an answer the address is lost to the pod.
                unknown.set(!is_withheld && self.is_to_be_compared(known));
                if is_withheld || unknown.get() {
                    return Err(RangeError::NoVersion);
                }
                self.agent.addresses.addresses(known, &self.reservations(family), policy)
            });
            if unknown.get() { Err(PoolError::NotCompared) } else { decision }
        };
        let first = self.change(pool, Timing::Any, |known| decide(known, false)).await.result;
        if !matches!(first, Err(PoolError::NotCompared)) {
            return first;
        }
        let is_withheld = match self.compare(pool, |_| Ok(())).await {
            Err(PoolError::Overlaps { .. }) => true,
            compared => compared.map(|()| false)?,
        };
        self.change(pool, Timing::Any, |known| decide(known, is_withheld)).await.result
    }
}
