//! Spiderpool's controller for subnets: makes the pools of built-in workloads, keeps subnets, and takes pools down that nobody needs (A
//! §8.5 to 8.7).
//!
//! ```text
//!   six kinds of workloads ──► queue of workloads ──► AutoPools::reconcile
//!   new subnets, resyncs   ──► queue of workloads, those that have no pool
//!   subnets, their pools  ───► queue of subnets   ──► upkeep ──► status, label, owner, finalizer
//!   auto pools            ───► queue of pools     ──► reclaim ──► delete
//!   third-party kinds     ───► queue of workloads ──► delete; watched from the first pool on, as agents make theirs
//! ```
//! Only the leader works, one worker a queue. Nothing is done on the word of a cache alone that could take an address from anybody: before
//! a subnet's status is written or a pool deleted, what it depends on is read once more.

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

/// A workload that is to be looked at: one incarnation, so that repeated changes are one item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct AppKey {
    /// None: a third-party kind. Nobody caches it, and it is queued when it has ended.
    kind: Option<Kind>,
    key: ObjectKey,
    uid: Arc<str>,
}

impl AppKey {
    /// A workload of a kind that is cached.
    fn of<K: AppKind>(kind: Kind, object: &K) -> Self {
        Self { kind: Some(kind), key: ObjectKey::of(object), uid: Arc::from(object.meta().uid.clone().unwrap_or_default()) }
    }
}

/// What waits for the three workers.
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
    /// A replica that has not begun yet. Of `select` it looks at which families and features are on.
    pub fn new(client: C, env: V, observer: O, third_party: T, settings: ControllerSettings, select: Settings) -> Self {
        let policy = settings.policy;
        let client = TimeLimited::new(client, settings.request_timeout);
        let auto_pools = AutoPools { client, env, observer, policy, lowest_first: policy.subnet_shrinks_lowest };
        Self { auto_pools, third_party, settings, select }
    }

    /// Takes addresses from the lowest on, or from a random one on. Default: as upstream does with `subnet-shrinks-lowest`, else at random.
    pub fn lowest_first(mut self, lowest_first: bool) -> Self {
        self.auto_pools.lowest_first = lowest_first;
        self
    }

    /// Runs. It ends when leadership is lost: then the process is to exit and to be started anew. Without an election it
    /// never ends.
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

    /// Works whenever `leadership` says so, as one part of a process that has an election of its own. It never ends.
    pub async fn serve(&self, leadership: &Leadership) {
        loop {
            let term = leadership.gained().await;
            race(leadership.lost(term), self.work()).await;
        }
    }

    /// Works as the leader until it is dropped; it never ends by itself.
    ///
    /// Each time it begins with empty caches and looks at everything, as upstream's does, which watches nothing while another replica
    /// leads: what the leader before had in hand may be half done.
    pub async fn work(&self) {
        let env = || self.auto_pools.env.clone();
        let queues = Queues { apps: WorkQueue::new(env()), subnets: WorkQueue::new(env()), pools: WorkQueue::new(env()) };
        let seen = self.watch(&queues);
        seen.synced().await;
        let apps = race(self.work_on_apps(&queues, &seen), self.look_for_unserved(&queues, &seen));
        race(apps, race(self.work_on_subnets(&queues, &seen), self.work_on_pools(&queues, &seen))).await;
    }
}
