//! The driver that makes pools for workloads: read, plan, write, repeat (A §8.4).

use std::sync::Arc;

use thiserror::Error;

use super::observer::{Observer, Step};
use super::plan::{give_back, plan};
use super::pool::{fenced, is_being_made, pool_of};
use super::want::{Known, Plan, Refusal, Want, Write};
use crate::SpiderSubnet;
use crate::ranges::{IpSet, cidr_label};
use crate::{Policy, SpiderIPPool, names};
use kube_machinery::api::{ApiError, ListOptions, ObjectKey, Reason};
use kube_machinery::client::{Client, ClientExt};
use kube_machinery::env::Env;

/// The maximum number of times that one call reads and plans before it leaves the rest to the next call.
const ROUNDS: u32 = 8;

/// Makes, grows and shrinks the pools of workloads. The controller and each agent have their own, and use them concurrently.
#[derive(Clone, Debug)]
pub struct AutoPools<C, V, O = ()> {
    /// The client for the API server.
    pub client: C,
    /// The source of random numbers, for the free address at which a pool starts to take.
    pub env: V,
    /// The observer of what is planned, refused and written.
    pub observer: O,
    /// The mutations that are on.
    pub policy: Policy,
    /// Whether the lowest addresses are taken first, as upstream does, or from a random one on, as documented (A §12 D7).
    pub lowest_first: bool,
}

/// The outcome of a successful reconciliation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reconciled {
    /// The pool is as desired.
    Settled,
    /// The pool is larger than desired, because pods have its addresses.
    Larger,
}

/// The reason why the pool is not as desired.
#[derive(Clone, Debug, Error)]
pub enum ReconcileError {
    /// Nothing could be written.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Another writer was faster, or the plan has more rounds than one call makes: read and plan again.
    #[error("another client is writing the same objects")]
    Raced,
    /// Admission rejects the pool.
    #[error("the pool is refused: {0}")]
    NotAdmitted(ApiError),
    /// A request to the API server failed.
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl<C: Client, V: Env, O: Observer> AutoPools<C, V, O> {
    /// Brings the pool of a workload to its desired state.
    ///
    /// # Errors
    /// The reason why the pool is not in that state.
    pub async fn reconcile(&self, want: Want<'_>, reserved: &IpSet) -> Result<Reconciled, ReconcileError> {
        for _ in 0..ROUNDS {
            let (subnet, pools) = self.read(&want).await?;
            let pool = pool_of(&want, &subnet, &pools, &self.policy).map(|pool| &**pool);
            let draw = (!self.lowest_first).then(|| self.env.random());
            let known = Known { subnet: &subnet, pool, neighbours: &pools, reserved, draw };
            let plan = match plan(&want, &known, &self.policy) {
                Ok(plan) => plan,
                Err(refusal) => {
                    self.observer.observe(Step::Refused { want, refusal: &refusal });
                    return Err(refusal.into());
                }
            };
            if !plan.writes.is_empty() {
                self.observer.observe(Step::Planned { want, plan: &plan });
            }
            if let Err(error) = self.carry_out(want, &plan).await {
                if matches!(error, ReconcileError::NotAdmitted(_)) && !self.policy.refused_pool_keeps_addresses {
                    self.take_back(want).await?;
                }
                return Err(error);
            }
            if !plan.again {
                return Ok(if plan.surplus == 0 { Reconciled::Settled } else { Reconciled::Larger });
            }
        }
        Err(ReconcileError::Raced)
    }

    /// Reads the subnet and the pools of its CIDR.
    async fn read(&self, want: &Want<'_>) -> Result<(Arc<SpiderSubnet>, Vec<Arc<SpiderIPPool>>), ApiError> {
        let subnet: Arc<SpiderSubnet> = self.client.get(&ObjectKey::cluster(&want.demand.subnet)).await?;
        let mut pools = pools_of_cidr(&self.client, &subnet, &self.policy).await?;
        let name = want.pool_name(&self.policy);
        let is_missing = pools.iter().all(|pool| pool.metadata.name.as_ref() != Some(&name));
        // A list comes from an API server's watch cache, which can have lost an event (K182). If a pool were mistaken for one yet to be
        // made, its pre-allocation would be given to others, so each pool that the subnet mentions is read by name. Upstream gives nothing
        // back.
        if is_missing && !self.policy.refused_pool_keeps_addresses && is_being_made(&name, &subnet) {
            match self.client.get::<SpiderIPPool>(&ObjectKey::cluster(&name)).await {
                Ok(pool) => {
                    let place = pools.partition_point(|other| other.metadata.name < pool.metadata.name);
                    pools.insert(place, pool);
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok((subnet, pools))
    }

    async fn carry_out(&self, want: Want<'_>, plan: &Plan) -> Result<(), ReconcileError> {
        for write in &plan.writes {
            let result = match write {
                Write::Subnet(subnet) => self.client.update_status(SpiderSubnet::clone(subnet)).await.map(drop),
                Write::Hold(subnet) => self.client.update(SpiderSubnet::clone(subnet)).await.map(drop),
                Write::Create(pool) => self.client.create(SpiderIPPool::clone(pool)).await.map(drop),
                Write::Update(pool) => self.client.update(SpiderIPPool::clone(pool)).await.map(drop),
            };
            self.observer.observe(Step::Wrote { want, write, error: result.as_ref().err() });
            let Err(error) = result else { continue };
            let is_pool = matches!(write, Write::Create(_) | Write::Update(_));
            return Err(match error.reason() {
                Some(Reason::Conflict | Reason::AlreadyExists | Reason::NotFound) => ReconcileError::Raced,
                Some(Reason::Invalid | Reason::Forbidden) if is_pool => ReconcileError::NotAdmitted(error),
                _ => ReconcileError::Api(error),
            });
        }
        Ok(())
    }

    /// Gives back the pre-allocation of a pool that is not admitted, based on the newest state. An existing pool is fenced first: another
    /// replica or agent, which admission does not refuse, may be about to make it as large as its pre-allocation.
    async fn take_back(&self, want: Want<'_>) -> Result<(), ReconcileError> {
        let (subnet, pools) = self.read(&want).await?;
        let pool = pool_of(&want, &subnet, &pools, &self.policy).map(|pool| &**pool);
        let none = IpSet::default();
        let known = Known { subnet: &subnet, pool, neighbours: &pools, reserved: &none, draw: None };
        let Some(smaller) = give_back(&want, &known, &self.policy)? else { return Ok(()) };
        let fence = pool.map(|pool| Write::Update(fenced(pool, &subnet)));
        let plan = Plan { writes: fence.into_iter().chain([Write::Subnet(smaller)]).collect(), ..Plan::default() };
        self.carry_out(want, &plan).await
    }
}

/// The pools of a subnet's CIDR, as the API server has them now.
///
/// # Errors
/// They cannot be listed.
pub(super) async fn pools_of_cidr<C: Client>(
    client: &C,
    subnet: &SpiderSubnet,
    policy: &Policy,
) -> Result<Vec<Arc<SpiderIPPool>>, ApiError> {
    let label = cidr_label(&subnet.spec.subnet, subnet.spec.ip_version.unwrap_or_default(), policy).ok();
    let label_selector = label.map(|label| format!("{}={label}", names::LABEL_IPPOOL_CIDR));
    let mut pools = client.list::<SpiderIPPool>(None, ListOptions { label_selector, ..ListOptions::default() }).await?.items;
    pools.retain(|pool| pool.spec.subnet == subnet.spec.subnet);
    Ok(pools)
}
