//! Spiderpool's controller for subnets: makes the pools of built-in workloads, maintains subnets, and deletes pools that nobody needs (A
//! §8.5 to 8.7).
//!
//! ```text
//!   six kinds of workloads ──► queue of workloads ──► AutoPools::reconcile
//!   new subnets, resyncs   ──► queue of workloads, those that have no pool
//!   subnets, their pools  ───► queue of subnets   ──► upkeep ──► status, label, owner, finalizer
//!   auto pools            ───► queue of pools     ──► reclaim ──► delete
//!   third-party kinds     ───► queue of workloads ──► delete; watched from the first pool on, as agents make theirs
//! ```
//! Only the leader works, with one worker per queue. Nothing that could take an address from a pod is done on cached state alone: before a
//! subnet's status is written or a pool deleted, the objects that the decision depends on are read again.

mod fates;
mod third_party;
mod unfinished;
mod unserved;
mod watch;
mod work;

use std::sync::Arc;

use super::driver::AutoPools;
use super::kinds::{AppKind, Kind, ThirdParty};
use super::observer::Observer;
use crate::controller::ControllerSettings;
use crate::leadership::Leadership;
use crate::select::Settings;
use kube_machinery::api::ObjectKey;
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::leader::{Election, ElectionConfigError, Phase};
use kube_machinery::race::race;
use kube_machinery::time_limit::TimeLimited;
use kube_machinery::workqueue::WorkQueue;

/// The queue item for a workload: one incarnation, so that repeated changes are one item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct AppKey {
    /// `None` = a third-party kind. Such a workload is not cached, and is queued when it has ended.
    kind: Option<Kind>,
    key: ObjectKey,
    uid: Arc<str>,
}

impl AppKey {
    /// The item for a workload of a cached kind.
    fn of<K: AppKind>(kind: Kind, object: &K) -> Self {
        Self { kind: Some(kind), key: ObjectKey::of(object), uid: Arc::from(object.meta().uid.clone().unwrap_or_default()) }
    }
}

/// The queues of the three workers.
#[derive(Clone, Debug)]
struct Queues<V: Env> {
    apps: WorkQueue<AppKey, V>,
    subnets: WorkQueue<ObjectKey, V>,
    pools: WorkQueue<ObjectKey, V>,
}

/// One replica of the controller.
#[derive(Debug)]
pub struct SubnetController<C, V, O = (), T = ()> {
    auto_pools: AutoPools<TimeLimited<C>, V, O>,
    third_party: T,
    settings: ControllerSettings,
    select: Settings,
}

impl<C: Client, V: Env, O: Observer, T: ThirdParty> SubnetController<C, V, O, T> {
    /// A replica that has not started yet. Of `select` it uses the switches of families and features.
    pub fn new(client: C, env: V, observer: O, third_party: T, settings: ControllerSettings, select: Settings) -> Self {
        let policy = settings.policy;
        let client = TimeLimited::new(client, settings.request_timeout);
        let auto_pools = AutoPools { client, env, observer, policy, lowest_first: policy.subnet_shrinks_lowest };
        Self { auto_pools, third_party, settings, select }
    }

    /// Takes the lowest addresses first, or starts at a random one. Default: lowest first with `subnet-shrinks-lowest`, else random.
    pub fn lowest_first(mut self, lowest_first: bool) -> Self {
        self.auto_pools.lowest_first = lowest_first;
        self
    }

    /// Runs until leadership is lost; the process should then exit and be restarted. Without an election it never ends.
    ///
    /// # Errors
    /// The election is configured in a way that cannot work.
    pub async fn run(&self) -> Result<Phase, ElectionConfigError> {
        let Some(config) = self.settings.election.clone() else {
            self.work().await;
            unreachable!("nobody shuts the queues down");
        };
        let election = Election::start(self.auto_pools.client.clone(), self.auto_pools.env.clone(), config)?;
        let end = election.lead(self.work()).await;
        Ok(end.expect_err("nobody shuts the queues down"))
    }

    /// Works whenever `leadership` says so, as one part of a process that has its own election. Never ends.
    pub async fn serve(&self, leadership: &Leadership) {
        loop {
            let term = leadership.gained().await;
            race(leadership.lost(term), self.work()).await;
        }
    }

    /// Works as the leader until the future is dropped; never ends by itself.
    ///
    /// Each time it begins with empty caches and checks everything, as upstream's does, which watches nothing while another replica leads:
    /// the previous leader may have left work half done.
    pub async fn work(&self) {
        let env = || self.auto_pools.env.clone();
        let queues = Queues { apps: WorkQueue::new(env()), subnets: WorkQueue::new(env()), pools: WorkQueue::new(env()) };
        let seen = self.watch(&queues);
        seen.synced().await;
        let apps = race(self.work_on_apps(&queues, &seen), self.look_for_unserved(&queues, &seen));
        race(apps, race(self.work_on_subnets(&queues, &seen), self.work_on_pools(&queues, &seen))).await;
    }
}
