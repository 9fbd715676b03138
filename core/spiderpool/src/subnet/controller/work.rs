//! The three workers of the controller.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::third_party::BEGINS;
use super::watch::Seen;
use super::{AppKey, Queues, SubnetController};
use crate::PoolIPPreAllocation;
use crate::names::{LABEL_IPPOOL_RECLAIM, LABEL_OWNER_APPLICATION_UID};
use crate::ranges::{IpSet, IpVersion, reserved_ips};
use crate::subnet::application::ApplicationName;
use crate::subnet::driver::{ReconcileError, Reconciled, pools_of_cidr};
use crate::subnet::kinds::{Kind, ThirdParty};
use crate::subnet::observer::{Observer, Step};
use crate::subnet::pool::label;
use crate::subnet::reclaim::{Fate, reclaim};
use crate::subnet::upkeep::{Census, Upkeep, application_of, unused, upkeep};
use crate::subnet::want::Want;
use crate::{SpiderIPPool, SpiderSubnet};
use kube_machinery::api::{ApiError, DeleteOptions, ListOptions, ObjectKey, Preconditions};
use kube_machinery::client::{Client, ClientExt};
use kube_machinery::env::Env;
use kube_machinery::time_limit::TimeLimited;
use kube_machinery::workqueue::WorkQueue;

/// The maximum wait of a workload for its next try, and the number of tries after which it applies: by then the backoff would be longer (5
/// ms, doubled each time).
const WAIT_MAX: Duration = Duration::from_secs(20);
const PATIENT_TRIES: u32 = 12;

/// The delay before checking whether pods have released the surplus of a pool.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The next action after a workload was checked.
enum After {
    /// None until it changes.
    Done,
    /// Check again: its pool is larger than desired.
    Look,
    /// Retry with an increasing delay.
    BackOff,
    /// Retry a few seconds later.
    Retry,
    /// None until it changes: with `application-given-up`, after too many failures, or if the input is wrong.
    GiveUp,
}

impl<C: Client, V: Env, O: Observer, T: ThirdParty> SubnetController<C, V, O, T> {
    fn client(&self) -> &TimeLimited<C> {
        &self.auto_pools.client
    }

    fn observe(&self, step: Step<'_>) {
        self.auto_pools.observer.observe(step);
    }

    pub(super) async fn work_on_apps(&self, queues: &Queues<V>, seen: &Seen<V>) {
        // The number of failures of each workload, not counting conflicts with other writers.
        let mut failures: BTreeMap<AppKey, u32> = BTreeMap::new();
        while let Some(app) = queues.apps.next().await {
            let after = match self.look_after_app(&app, queues, seen).await {
                Ok(Reconciled::Settled) => After::Done,
                Ok(Reconciled::Larger) => After::Look,
                Err(error) => self.after_error(&error, failures.entry(AppKey::clone(&app)).or_default()),
            };
            match after {
                // A workload is not notified when its subnet is back or has room: hardened, it does not wait for a quarter of an hour.
                After::BackOff if !self.settings.policy.application_given_up && queues.apps.failures(&app) >= PATIENT_TRIES => {
                    queues.apps.add_after(AppKey::clone(&app), WAIT_MAX);
                }
                After::BackOff => queues.apps.add_rate_limited(AppKey::clone(&app)),
                After::Retry => queues.apps.add_after(AppKey::clone(&app), self.settings.retry_delay),
                After::Look => queues.apps.add_after(AppKey::clone(&app), LOOK_AGAIN),
                After::GiveUp => self.observe(Step::GivenUp { uid: &app.uid }),
                After::Done => {}
            }
            if matches!(after, After::Done | After::Look | After::GiveUp) {
                queues.apps.forget(&app);
                failures.remove(&*app);
            }
        }
    }

    fn after_error(&self, error: &ReconcileError, failures: &mut u32) -> After {
        let gives_up = self.settings.policy.application_given_up;
        match error {
            ReconcileError::Raced => After::BackOff,
            ReconcileError::Refused(refusal) if refusal.may_pass() => After::BackOff,
            ReconcileError::Refused(refusal) if refusal.is_wrong_input() => {
                if gives_up {
                    After::GiveUp
                } else {
                    After::BackOff
                }
            }
            _ => {
                *failures += 1;
                if gives_up && *failures > self.settings.max_retries { After::GiveUp } else { After::Retry }
            }
        }
    }

    /// Makes the pools of a workload, or deletes them if it is gone.
    async fn look_after_app(&self, app: &AppKey, queues: &Queues<V>, seen: &Seen<V>) -> Result<Reconciled, ReconcileError> {
        let Some((application, demands)) = self.cached_app(app, seen) else {
            self.delete_pools_of(&app.uid).await?;
            self.queue_unfinished(&app.key, queues, seen);
            return Ok(Reconciled::Settled);
        };
        // Unreadable annotations are reported when a pod asks for an address; the next change is queued by itself.
        let Ok(demands) = demands else { return Ok(Reconciled::Settled) };
        let mut reserved: BTreeMap<IpVersion, IpSet> = BTreeMap::new();
        let (mut failed, mut outcome) = (None, Reconciled::Settled);
        for demand in &demands {
            let reserved = reserved.entry(demand.family).or_insert_with(|| self.reserved(demand.family, seen));
            let want = Want { application: &application, demand };
            // One pool that cannot be made does not delay the others.
            match self.auto_pools.reconcile(want, reserved).await {
                Ok(reconciled) => outcome = outcome.max(reconciled),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if !self.settings.policy.removed_annotation_keeps_pool {
            seen.pools.store.for_each(|pool| {
                if label(pool, LABEL_OWNER_APPLICATION_UID) == Some(&app.uid) {
                    queues.pools.add(ObjectKey::of(&**pool));
                }
            });
            self.queue_unfinished(&app.key, queues, seen);
        }
        failed.map_or(Ok(outcome), Err)
    }

    /// The reserved addresses of a family.
    fn reserved(&self, family: IpVersion, seen: &Seen<V>) -> IpSet {
        let mut texts = Vec::new();
        seen.reserved_ips.store.for_each(|object| {
            if object.metadata.deletion_timestamp.is_none() && object.spec.ip_version == Some(family.number()) {
                texts.extend(object.spec.ips.iter().flatten().cloned());
            }
        });
        reserved_ips(&texts, family.number(), &self.settings.policy).map(|(reserved, _)| reserved).unwrap_or_default()
    }

    /// Deletes the pools that are reclaimed with this incarnation of a workload, whether or not pods have addresses of them (A §8.5).
    async fn delete_pools_of(&self, uid: &str) -> Result<(), ApiError> {
        let label_selector = Some(format!("{LABEL_OWNER_APPLICATION_UID}={uid},{LABEL_IPPOOL_RECLAIM}=true"));
        let pools = self.client().list::<SpiderIPPool>(None, ListOptions { label_selector, ..ListOptions::default() }).await?.items;
        for pool in pools {
            let goes = label(&pool, LABEL_OWNER_APPLICATION_UID) == Some(uid) && label(&pool, LABEL_IPPOOL_RECLAIM) == Some("true");
            if !goes || pool.metadata.deletion_timestamp.is_some() {
                continue;
            }
            // A workload that the cache does not show may be one that it has not seen yet.
            if !self.settings.policy.auto_pool_reclaim_trusts_cache
                && let Some(name) = application_of(&pool)
                && matches!(self.live_fate(&name).await?, Fate::There { uid: there, .. } if there == uid)
            {
                return Ok(());
            }
            self.delete(&pool).await?;
        }
        Ok(())
    }

    /// Deletes a pool at the version that was read; hardened, not if it has changed since.
    async fn delete(&self, pool: &SpiderIPPool) -> Result<(), ApiError> {
        self.observe(Step::Reclaimed { pool });
        let preconditions = if self.settings.policy.auto_pool_reclaim_trusts_cache {
            Preconditions::default()
        } else {
            Preconditions { uid: pool.metadata.uid.clone(), resource_version: pool.metadata.resource_version.clone() }
        };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        match self.client().delete::<SpiderIPPool>(&ObjectKey::of(pool), options).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) async fn work_on_pools(&self, queues: &Queues<V>, seen: &Seen<V>) {
        while let Some(key) = queues.pools.next().await {
            let result = self.look_after_pool(&key, queues, seen).await;
            self.after(&queues.pools, &key, result);
        }
    }

    async fn look_after_pool(&self, key: &ObjectKey, queues: &Queues<V>, seen: &Seen<V>) -> Result<(), ApiError> {
        let policy = &self.settings.policy;
        let Some(pool) = seen.pools.store.get(key) else { return Ok(()) };
        let Some(name) = application_of(&pool) else { return Ok(()) };
        if !self.watches(&name, queues, &seen.third_party) {
            queues.pools.add_after(key.clone(), BEGINS);
        }
        if !reclaim(&pool, &self.presumed_fate(&name, seen), policy) {
            return Ok(());
        }
        if policy.auto_pool_reclaim_trusts_cache {
            // Upstream, too, asks the API server about kinds that are not cached.
            let goes = Kind::of(&name).is_some() || reclaim(&pool, &self.live_fate(&name).await?, policy);
            return if goes { self.delete(&pool).await } else { Ok(()) };
        }
        // The pool is read first: its data about the workload cannot be older than what is read after it.
        let pool = match self.client().get::<SpiderIPPool>(key).await {
            Err(error) if error.is_not_found() => return Ok(()),
            pool => pool?,
        };
        if reclaim(&pool, &self.live_fate(&name).await?, policy) { self.delete(&pool).await } else { Ok(()) }
    }

    pub(super) async fn work_on_subnets(&self, queues: &Queues<V>, seen: &Seen<V>) {
        while let Some(key) = queues.subnets.next().await {
            let result = self.look_after_subnet(&key, queues, seen).await;
            self.after(&queues.subnets, &key, result);
        }
    }

    fn after(&self, queue: &WorkQueue<ObjectKey, V>, key: &ObjectKey, result: Result<(), ApiError>) {
        match result {
            Ok(()) => queue.forget(key),
            Err(error) if error.is_conflict() => queue.add_rate_limited(key.clone()),
            Err(_) => queue.add_after(key.clone(), self.settings.retry_delay),
        }
    }

    async fn look_after_subnet(&self, key: &ObjectKey, queues: &Queues<V>, seen: &Seen<V>) -> Result<(), ApiError> {
        let Some(subnet) = seen.subnets.store.get(key) else { return Ok(()) };
        let mut pools: Vec<Arc<SpiderIPPool>> = Vec::new();
        seen.pools.store.for_each(|pool| {
            if pool.spec.subnet == subnet.spec.subnet {
                pools.push(Arc::clone(pool));
            }
        });
        pools.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        let fate = |name: &ApplicationName| self.presumed_fate(name, seen);
        if upkeep(&Census { subnet: &subnet, pools: &pools, fate: &fate, is_left: &|_, _| true }, &self.settings.policy).is_empty() {
            seen.unfinished.none(key);
            return Ok(());
        }
        // Something is to be written: decide again on the current state.
        let subnet = match self.client().get::<SpiderSubnet>(key).await {
            Err(error) if error.is_not_found() => return Ok(()),
            subnet => subnet?,
        };
        let pools = pools_of_cidr(self.client(), &subnet, &self.settings.policy).await?;
        let fates = self.fates(&subnet, &pools, queues, seen).await?;
        let (writes, look_again) = {
            let fate = |name: &ApplicationName| fates.get(name).cloned().unwrap_or(Fate::Unknown);
            let look = seen.unfinished.look(&subnet, self.auto_pools.env.monotonic());
            let is_left = |pool: &str, entry: &PoolIPPreAllocation| look.is_left(pool, entry);
            let writes = upkeep(&Census { subnet: &subnet, pools: &pools, fate: &fate, is_left: &is_left }, &self.settings.policy);
            (writes, seen.unfinished.keep(key, look))
        };
        if let Some(wait) = look_again {
            queues.subnets.add_after(key.clone(), wait);
        }
        for write in writes {
            self.observe(Step::Upkeep { write: &write });
            match write {
                Upkeep::Label(subnet) | Upkeep::Release(subnet) => drop(self.client().update(*subnet).await?),
                Upkeep::Status(subnet) => drop(self.client().update_status(*subnet).await?),
                Upkeep::Adopt(pool) | Upkeep::Fence(pool) => drop(self.client().update(*pool).await?),
                Upkeep::TakeDown(pool) => {
                    let preconditions = Preconditions { uid: pool.metadata.uid.clone(), resource_version: None };
                    let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
                    match self.client().delete::<SpiderIPPool>(&ObjectKey::of(&*pool), options).await {
                        Err(error) if !error.is_not_found() => return Err(error),
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }

    /// The fates of the workloads that have a pre-allocation in the subnet and whose pools do not exist or do not have all of it.
    async fn fates(
        &self,
        subnet: &SpiderSubnet,
        pools: &[Arc<SpiderIPPool>],
        queues: &Queues<V>,
        seen: &Seen<V>,
    ) -> Result<BTreeMap<ApplicationName, Fate>, ApiError> {
        let mut fates = BTreeMap::new();
        let Some(Ok(entries)) = subnet.status.as_ref().map(|status| status.controlled_ippools.parse()) else { return Ok(fates) };
        for (name, entry) in entries.iter() {
            let version = subnet.spec.ip_version.unwrap_or_default();
            let has_all = |pool: &Arc<SpiderIPPool>| unused(entry, pool, version, &self.settings.policy).is_none();
            if pools.iter().find(|pool| pool.metadata.name.as_ref() == Some(name)).is_some_and(has_all) {
                continue;
            }
            if let Some(application) = entry.application.as_deref().and_then(ApplicationName::parse)
                && !fates.contains_key(&application)
            {
                if !self.watches(&application, queues, &seen.third_party) {
                    queues.subnets.add_after(ObjectKey::of(subnet), BEGINS);
                }
                let fate = self.live_fate(&application).await?;
                fates.insert(application, fate);
            }
        }
        Ok(fates)
    }

    /// Queues the subnets with a pre-allocation for a workload that no pool has. If the workload has ended, or has not asked for it for
    /// long, nothing else would trigger the give-back.
    fn queue_unfinished(&self, app: &ObjectKey, queues: &Queues<V>, seen: &Seen<V>) {
        let is_of = |entry: &PoolIPPreAllocation| entry.application.as_deref().is_some_and(|key| ApplicationName::is_key_of(key, app));
        seen.subnets.store.for_each(|subnet| {
            let Some(Ok(entries)) = subnet.status.as_ref().map(|status| status.controlled_ippools.parse()) else { return };
            let version = subnet.spec.ip_version.unwrap_or_default();
            let has_all = |name: &str, entry: &PoolIPPreAllocation| {
                let pool = seen.pools.store.get(&ObjectKey::cluster(name));
                pool.is_some_and(|pool| unused(entry, &pool, version, &self.settings.policy).is_none())
            };
            if entries.iter().any(|(name, entry)| is_of(entry) && !has_all(name, entry)) {
                queues.subnets.add(ObjectKey::of(&**subnet));
            }
        });
    }
}
