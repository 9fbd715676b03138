//! Spiderpool's controller: keeps the counts of pools up to date and releases empty terminating ones (A §8.6).
//!
//! ```text
//!   pools (informer) ──► queue of names ──► decide ──► status update, or update without the finalizer
//! ```
//! Only the leader works. Every write carries the resourceVersion of the copy that was decided on, so a stale copy changes nothing.
//! Auto-created pools and subnets are the business of [`SubnetController`](super::subnet::SubnetController).

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::ranges::CheckedRanges;
use super::{Policy, SpiderIPPool};
use crate::finalizer;
use crate::leadership::Leadership;
use crate::select::BadSetting;
use kube_machinery::FxHashMap;
use kube_machinery::api::{ApiError, ObjectKey, ignore_not_found};
use kube_machinery::client::{Client, ClientExt};
use kube_machinery::env::Env;
use kube_machinery::informer::{Informer, InformerOptions, Notification, StoreReader};
use kube_machinery::leader::{Election, ElectionConfig, ElectionConfigError, Phase};
use kube_machinery::race::race;
use kube_machinery::time_limit::TimeLimited;
use kube_machinery::workqueue::WorkQueue;

/// The configuration of a controller.
#[derive(Clone, Debug)]
pub struct ControllerSettings {
    /// The election, if there are several replicas.
    pub election: Option<ElectionConfig>,
    /// `SPIDERPOOL_IPPOOL_INFORMER_RESYNC_PERIOD`: the interval at which all pools are checked. Default 300 s; `None` = only when they
    /// change.
    pub resync: Option<Duration>,
    /// `SPIDERPOOL_SUBNET_INFORMER_RESYNC_PERIOD`: the same for subnets.
    pub subnet_resync: Option<Duration>,
    /// `SPIDERPOOL_WORKQUEUE_RETRY_DELAY_DURATION`: the delay before a retry of a write that failed, conflicts excepted. Default 5 s.
    pub retry_delay: Duration,
    /// `SPIDERPOOL_WORKQUEUE_MAX_RETRIES`: the maximum number of retries, with `pool-given-up` and `application-given-up`. Default 500; the
    /// hardened form ignores it.
    pub max_retries: u32,
    /// `SPIDERPOOL_SUBNET_INFORMER_MAX_WORKQUEUE_LENGTH`: the maximum number of workload changes that upstream queues. Default 10,000;
    /// the hardened form ignores it.
    pub max_queue_length: usize,
    /// The timeout for the answer to a request, and for a watch to open. Default 60 s, when the API server itself gives up
    /// (`--request-timeout`, K §2.11); upstream waits as long as the connection lasts.
    pub request_timeout: Option<Duration>,
    /// The mutations that are on.
    pub policy: Policy,
}

impl ControllerSettings {
    /// The shortest delay before a retry of a write, used where the setting says 0: a controller that is refused at once would otherwise
    /// spin.
    pub const LEAST_DELAY: Duration = Duration::from_millis(1);

    /// The names of all settings that can be set by name.
    pub const NAMES: [&'static str; 5] = [
        "SPIDERPOOL_IPPOOL_INFORMER_RESYNC_PERIOD",
        "SPIDERPOOL_SUBNET_INFORMER_RESYNC_PERIOD",
        "SPIDERPOOL_WORKQUEUE_RETRY_DELAY_DURATION",
        "SPIDERPOOL_WORKQUEUE_MAX_RETRIES",
        "SPIDERPOOL_SUBNET_INFORMER_MAX_WORKQUEUE_LENGTH",
    ];

    /// Sets one of [`NAMES`](Self::NAMES) from text. Returns whether there is a setting of this name. A resync period of 0 means none.
    ///
    /// # Errors
    /// The value is invalid for this setting.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, BadSetting> {
        let number = || {
            let bad = BadSetting { name: name.to_owned(), value: value.to_owned(), wanted: "a number from 0 on" };
            value.parse::<u32>().map_err(|_| bad)
        };
        let period = || number().map(|seconds| (seconds > 0).then(|| Duration::from_secs(seconds.into())));
        if self.policy.controller_settings_ignored && Self::NAMES.contains(&name) {
            return number().map(|_| true);
        }
        match name {
            "SPIDERPOOL_IPPOOL_INFORMER_RESYNC_PERIOD" => self.resync = period()?,
            "SPIDERPOOL_SUBNET_INFORMER_RESYNC_PERIOD" => self.subnet_resync = period()?,
            "SPIDERPOOL_WORKQUEUE_RETRY_DELAY_DURATION" => self.retry_delay = period()?.unwrap_or(Self::LEAST_DELAY),
            "SPIDERPOOL_WORKQUEUE_MAX_RETRIES" => self.max_retries = number()?,
            "SPIDERPOOL_SUBNET_INFORMER_MAX_WORKQUEUE_LENGTH" => self.max_queue_length = usize::try_from(number()?).unwrap_or(usize::MAX),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The defaults for a policy, without an election.
    pub fn new(policy: Policy) -> Self {
        let (resync, retry_delay) = (Some(Duration::from_secs(300)), Duration::from_secs(5));
        Self {
            election: None,
            resync,
            subnet_resync: resync,
            retry_delay,
            max_retries: 500,
            max_queue_length: 10_000,
            request_timeout: policy.server_timeout(),
            policy,
        }
    }
}

/// The action that a pool requires.
#[derive(Clone, Debug, PartialEq)]
enum Need {
    /// No action: the counts are right, or the finalizer is gone already.
    Nothing,
    /// Remove the finalizer: the pool is terminating and has no record.
    Release(Box<SpiderIPPool>),
    /// Write the counts, which are wrong.
    Counts(Box<SpiderIPPool>),
}

/// Decides which action `pool` requires. `total` is the number of its addresses; `None` = its ranges cannot be read.
fn decide(pool: &SpiderIPPool, total: Option<i64>) -> Need {
    let status = pool.status.as_ref();
    let has_records = status.is_some_and(|status| !status.allocated_ips.is_absent());
    if pool.metadata.deletion_timestamp.is_some() && !has_records {
        if !finalizer::is_on(&pool.metadata) {
            return Need::Nothing;
        }
        let mut pool = Box::new(pool.clone());
        finalizer::take_off(&mut pool.metadata);
        return Need::Release(pool);
    }
    let counted = status.and_then(|status| status.allocated_ip_count);
    let right = total.is_none() || status.and_then(|status| status.total_ip_count) == total;
    if right && counted.is_some() {
        return Need::Nothing;
    }
    let mut pool = Box::new(pool.clone());
    let status = pool.status.get_or_insert_default();
    status.allocated_ip_count.get_or_insert(0);
    status.total_ip_count = total.or(status.total_ip_count);
    Need::Counts(pool)
}

/// The total of each pool's addresses, by the generation of its spec.
type Totals = Mutex<FxHashMap<ObjectKey, (Option<String>, Option<i64>, Option<i64>)>>;

/// One replica of the controller.
#[derive(Debug)]
pub struct PoolController<C, V> {
    client: TimeLimited<C>,
    env: V,
    settings: ControllerSettings,
    totals: Totals,
}

impl<C: Client, V: Env> PoolController<C, V> {
    /// A replica that has not started yet.
    pub fn new(client: C, env: V, settings: ControllerSettings) -> Self {
        Self { client: TimeLimited::new(client, settings.request_timeout), env, settings, totals: Mutex::default() }
    }

    /// Runs until leadership is lost; the process should then exit and be restarted. Without an election it never ends.
    ///
    /// # Errors
    /// The election is configured in a way that cannot work.
    pub async fn run(&self) -> Result<Phase, ElectionConfigError> {
        self.run_with(std::future::pending()).await
    }

    /// Like [`run`](Self::run), with `beside` running while this replica leads: one election for both. `beside` must not end.
    ///
    /// # Errors
    /// The election is configured in a way that cannot work.
    pub async fn run_with(&self, beside: impl Future<Output = ()>) -> Result<Phase, ElectionConfigError> {
        let informer = self.informer();
        let queue = WorkQueue::new(self.env.clone());
        informer.add_handler({
            let queue = queue.clone();
            move |notification: Notification<SpiderIPPool>| queue.add(notification.key())
        });
        let work = race(self.work(&informer, &queue), beside);
        let Some(config) = self.settings.election.clone() else {
            work.await;
            unreachable!("neither of them ends");
        };
        let election = Election::start(self.client.clone(), self.env.clone(), config)?;
        let end = election.lead(work).await;
        Ok(end.map(drop).expect_err("neither of them ends"))
    }

    /// Works whenever `leadership` says so, as one part of a process that has its own election. Never ends.
    pub async fn serve(&self, leadership: &Leadership) {
        let informer = self.informer();
        loop {
            let term = leadership.gained().await;
            // A new term checks every pool: the last one may have left work half done.
            let queue = WorkQueue::new(self.env.clone());
            let mut notifications = informer.subscribe();
            let feed = async {
                while let Some(notification) = notifications.next().await {
                    queue.add(notification.key());
                }
            };
            race(leadership.lost(term), race(feed, self.work(&informer, &queue))).await;
        }
    }

    fn informer(&self) -> Informer<SpiderIPPool, V> {
        let (resync, patience) = (self.settings.resync, self.settings.request_timeout);
        let options = InformerOptions { resync, patience, ..InformerOptions::default() };
        Informer::start(self.client.clone(), self.env.clone(), options)
    }

    async fn work(&self, informer: &Informer<SpiderIPPool, V>, queue: &WorkQueue<ObjectKey, V>) {
        let store = informer.store();
        informer.synced().await;
        while let Some(key) = queue.next().await {
            match self.reconcile(&key, &store).await {
                Ok(()) => queue.forget(&key),
                Err(error) if error.is_conflict() => queue.add_rate_limited(ObjectKey::clone(&key)),
                Err(_) if !self.settings.policy.pool_given_up || queue.failures(&key) < self.settings.max_retries => {
                    queue.add_after(ObjectKey::clone(&key), self.settings.retry_delay);
                }
                Err(_) => queue.forget(&key),
            }
        }
    }

    async fn reconcile(&self, key: &ObjectKey, store: &StoreReader<SpiderIPPool>) -> Result<(), ApiError> {
        let Some(pool) = store.get(key) else {
            self.totals.lock().unwrap().remove(key);
            return Ok(());
        };
        match decide(&pool, self.total(key, &pool)) {
            Need::Nothing => Ok(()),
            Need::Release(pool) => ignore_not_found(self.client.update(*pool).await),
            Need::Counts(pool) => ignore_not_found(self.client.update_status(*pool).await),
        }
    }

    /// The number of addresses of a pool, computed once per spec.
    fn total(&self, key: &ObjectKey, pool: &Arc<SpiderIPPool>) -> Option<i64> {
        let mut totals = self.totals.lock().unwrap();
        let (uid, generation) = (&pool.metadata.uid, pool.metadata.generation);
        if let Some((known_uid, known, total)) = totals.get(key)
            && generation.is_some()
            && (known_uid, *known) == (uid, generation)
        {
            return *total;
        }
        let ranges = |ranges: &Option<Vec<String>>| ranges.clone().unwrap_or_default();
        let spec = &pool.spec;
        let checked = CheckedRanges::parse(&spec.subnet, &ranges(&spec.ips), &ranges(&spec.exclude_ips), &self.settings.policy);
        let total = checked.ok().map(|ranges| ranges.total_ip_count());
        totals.insert(key.clone(), (uid.clone(), generation, total));
        total
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::super::{IPPoolStatus, PoolIPAllocation};
    use super::*;
    use crate::names::FINALIZER;

    fn pool(records: &[&str], terminating: bool, counts: Option<(i64, i64)>) -> SpiderIPPool {
        let mut pool = SpiderIPPool::default();
        pool.metadata.finalizers = Some(vec!["other".to_owned(), FINALIZER.to_owned()]);
        pool.metadata.deletion_timestamp = terminating.then_some(Time(jiff::Timestamp::UNIX_EPOCH));
        let mut status = IPPoolStatus::default();
        for ip in records {
            let ip: std::net::IpAddr = ip.parse().unwrap();
            status.allocated_ips.make_mut().unwrap().insert(ip, PoolIPAllocation::default());
        }
        status.total_ip_count = counts.map(|(total, _)| total);
        status.allocated_ip_count = counts.map(|(_, allocated)| allocated);
        pool.status = Some(status);
        pool
    }

    #[test]
    fn every_name_sets_something_and_nothing_else_is_a_name() {
        let default = ControllerSettings::new(Policy::hardened());
        let seen = |settings: &ControllerSettings| {
            let ControllerSettings { resync, subnet_resync, retry_delay, max_retries, max_queue_length, .. } = settings;
            (*resync, *subnet_resync, *retry_delay, *max_retries, *max_queue_length)
        };
        for name in ControllerSettings::NAMES {
            let mut settings = default.clone();
            assert_eq!(settings.set(name, "7"), Ok(true), "{name}");
            assert_ne!(seen(&settings), seen(&default), "{name}");
            assert!(settings.set(name, "-1").is_err(), "{name}");
        }
        assert_eq!(default.clone().set("SPIDERPOOL_NOTHING", "7"), Ok(false));
    }

    #[test]
    fn a_period_of_nothing_is_none_and_a_delay_of_nothing_still_lets_time_pass() {
        let mut settings = ControllerSettings::new(Policy::hardened());
        for name in ControllerSettings::NAMES {
            assert_eq!(settings.set(name, "0"), Ok(true), "{name}");
        }
        assert_eq!((settings.resync, settings.subnet_resync), (None, None));
        assert_eq!(settings.retry_delay, ControllerSettings::LEAST_DELAY);
    }

    #[test]
    fn a_terminating_pool_goes_only_without_records_and_keeps_other_finalizers() {
        let released = decide(&pool(&[], true, Some((5, 0))), Some(5));
        let Need::Release(released) = released else { panic!("{released:?}") };
        assert_eq!(released.metadata.finalizers, Some(vec!["other".to_owned()]));
        assert_eq!(decide(&released, Some(5)), Need::Nothing);
        assert_eq!(decide(&pool(&["10.0.0.1"], true, Some((5, 1))), Some(5)), Need::Nothing);
        assert_eq!(decide(&pool(&[], false, Some((5, 0))), Some(5)), Need::Nothing);
    }

    #[test]
    fn counts_are_made_and_the_total_follows_the_spec() {
        let counts = |need| match need {
            Need::Counts(pool) => pool.status.map(|status| (status.total_ip_count, status.allocated_ip_count)),
            _ => None,
        };
        assert_eq!(counts(decide(&pool(&[], false, None), Some(5))), Some((Some(5), Some(0))));
        assert_eq!(counts(decide(&pool(&["10.0.0.1"], false, Some((4, 1))), Some(5))), Some((Some(5), Some(1))));
        assert_eq!(counts(decide(&pool(&["10.0.0.1"], false, Some((5, 1))), Some(5))), None);
        assert_eq!(counts(decide(&pool(&[], false, Some((4, 0))), None)), None, "ranges that cannot be read change no count");
    }
}
