//! One replica of Spiderpool's controller: an election and the parts that depend on it.
//!
//! ```text
//!   election ──► leadership ──┬─► PoolController    counts and finalizers of pools, leader only
//!                             ├─► SubnetController  pools of workloads and subnets, leader only, if the feature is on
//!                             └─► Reclaim           scans everywhere, traces as leader
//! ```
//! Unlike [`PoolController::run`], which ends when leadership is lost, a replica stands for election again in the same process, as
//! upstream's does (G §8).

use super::controller::{ControllerSettings, PoolController};
use super::reclaim::{Caches, InformerCaches, Observer, Reclaim, ReclaimConfig};
use super::subnet::{self, SubnetController, ThirdParty};
use crate::leadership::{Leadership, LeadershipTeller};
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::leader::{Election, ElectionConfig, ElectionConfigError};
use kube_machinery::race::{Either, race};

/// One replica of the controller, with its caches.
#[derive(Debug)]
pub struct SpiderpoolController<C, V: Env, O = (), S = (), T = (), K = InformerCaches<V>> {
    raw: C,
    env: V,
    election: Option<ElectionConfig>,
    pools: PoolController<C, V>,
    subnets: Option<SubnetController<C, V, S, T>>,
    caches: InformerCaches<V>,
    reclaim: Reclaim<C, V, K, O>,
}

impl<C: Client, V: Env, O: Observer> SpiderpoolController<C, V, O> {
    /// A replica that has just started: its caches begin to fill.
    ///
    /// `client` serves the caches, pools and endpoints, `raw` the lease and the informer whose events are traced; upstream gives them 100
    /// requests a second (burst 200) and 20 (burst 30). The election, with its timing, is that of `pools` ([`ReclaimConfig::election`]
    /// builds one from the settings of reclaim).
    pub fn new(client: C, raw: C, env: V, observer: O, pools: ControllerSettings, reclaim: ReclaimConfig) -> Self {
        let election = pools.election.clone();
        let caches = InformerCaches::start(client.clone(), env.clone(), &reclaim.settings, &reclaim.policy);
        Self {
            pools: PoolController::new(client.clone(), env.clone(), pools),
            subnets: None,
            reclaim: Reclaim::new(client, env.clone(), caches.clone(), observer, reclaim).with_raw_client(raw.clone()),
            raw,
            env,
            election,
            caches,
        }
    }

    /// The same replica with reclaim reading through `wrap(caches)`: for caches that live elsewhere, or that count or refuse reads. Reclaim
    /// starts when the informers have their first lists in any case.
    pub fn reading_by<K: Caches>(self, wrap: impl FnOnce(InformerCaches<V>) -> K) -> SpiderpoolController<C, V, O, (), (), K> {
        let Self { raw, env, election, pools, subnets, caches, reclaim } = self;
        SpiderpoolController { raw, env, election, pools, subnets, caches, reclaim: reclaim.with_caches(wrap) }
    }
}

impl<C: Client, V: Env, O: Observer, K: Caches> SpiderpoolController<C, V, O, (), (), K> {
    /// The same replica with the subnet feature (A §8). The election of `subnets` is ignored.
    pub fn with_subnets<S: subnet::Observer, T: ThirdParty>(
        self,
        subnets: SubnetController<C, V, S, T>,
    ) -> SpiderpoolController<C, V, O, S, T, K> {
        let Self { raw, env, election, pools, subnets: _, caches, reclaim } = self;
        SpiderpoolController { raw, env, election, pools, subnets: Some(subnets), caches, reclaim }
    }
}

impl<C: Client, V: Env, O: Observer, S: subnet::Observer, T: ThirdParty, K: Caches> SpiderpoolController<C, V, O, S, T, K> {
    /// The reclaim part, for inspection.
    pub fn reclaim(&self) -> &Reclaim<C, V, K, O> {
        &self.reclaim
    }

    /// Runs for ever. Dropping the future ends everything.
    ///
    /// # Errors
    /// The election is configured in a way that cannot work.
    pub async fn run(&self) -> Result<(), ElectionConfigError> {
        let Some(config) = &self.election else {
            self.serve(Leadership::always()).await;
            return Ok(());
        };
        config.validate()?;
        let (teller, leadership) = LeadershipTeller::new();
        match race(self.elect(config, &teller), self.serve(leadership)).await {
            Either::Left(error) => Err(error),
            Either::Right(()) => Ok(()),
        }
    }

    async fn serve(&self, leadership: Leadership) {
        let reclaim = async {
            self.caches.synced().await;
            self.reclaim.run(leadership.clone()).await;
        };
        let subnets = async {
            match &self.subnets {
                Some(subnets) => subnets.serve(&leadership).await,
                None => std::future::pending().await,
            }
        };
        race(race(self.pools.serve(&leadership), subnets), reclaim).await;
    }

    /// Stands for election again and again.
    async fn elect(&self, config: &ElectionConfig, teller: &LeadershipTeller) -> ElectionConfigError {
        loop {
            let election = match Election::start(self.raw.clone(), self.env.clone(), config.clone()) {
                Ok(election) => election,
                Err(error) => return error,
            };
            if election.acquired().await {
                teller.gained();
            }
            election.ended().await;
            teller.lost();
            self.env.sleep(self.reclaim.config().settings.leader_poll).await;
        }
    }
}
