//! The provider's two operations: giving a pod a VM, and taking it back (B C1 to C3, §3.2).

use std::sync::Arc;

use super::address::Address;
use super::allocation::IpAllocation;
use super::decide::{Found, PodName};
use super::driver::VmPool;
use super::error::{PoolError, ReadError};
use super::observer::{Releaser, Step};
use super::outcome::{Context, Effort, Outcome, Released};
use super::owners::Owners;
use super::vm::{VmAccess, VmError};
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::race::{Either, race};

/// A VM that was handed out. Upstream identifies it by its address alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The VM, as returned by the allocation or named by a PeerPod.
    pub address: Address,
    /// The allocation under which it was handed out: the fence of its release. Keep it with the PeerPod.
    pub allocation_id: Arc<str>,
}

impl<C: Client, V: Env, M: VmAccess, O: Owners> VmPool<C, V, M, O> {
    /// Allocates a VM under `id`, has its owner recorded and sends it `user_data`:
    ///
    /// ```text
    ///   allocate ── own ── Get: the record is still there ── user data
    ///                  └──────────────┴────────────────────────┴─ error: release, disown
    /// ```
    ///
    /// A document that was lost in between was rebuilt either from a list of owners that includes this one, or without this record. In the
    /// second case the Get does not find the record, and the allocation counts as never made. With `byom-owner-recorded-late` the two
    /// middle steps are missing.
    ///
    /// A roll-back has its own time in the hardened form; upstream has the rest of the caller's time, which may be nothing (B W7).
    ///
    /// # Errors
    /// The errors of [`VmPool::allocate`], and [`PoolError::NotOwned`], [`PoolError::RecordLost`], [`PoolError::UserData`].
    pub async fn create_instance(&self, id: &Arc<str>, pod: &PodName, user_data: &Arc<str>, context: Context) -> Outcome<Instance> {
        let since = self.env.monotonic();
        self.owners.observe(Step::Asked { id, pod });
        let Outcome { result, mut effort } = self.allocate_record(id, pod, context).await;
        let took = self.env.monotonic().saturating_sub(since);
        let (address, record) = match result {
            Ok(granted) => granted,
            Err(error) => {
                self.owners.observe(Step::NotAllocated { id, error: &error, effort: &effort, took });
                return Outcome { result: Err(error), effort };
            }
        };
        self.owners.observe(Step::Told { id, address: &address, effort: &effort, took });
        let Err(error) = self.hand_over(&address, &record, user_data, context, &mut effort).await else {
            self.owners.observe(Step::Ready { id, address: &address });
            return Outcome { result: Ok(Instance { address, allocation_id: id.clone() }), effort };
        };
        self.roll_back(id, &address, context, &mut effort).await;
        Outcome { result: Err(error), effort }
    }

    async fn hand_over(
        &self,
        address: &Address,
        record: &IpAllocation,
        user_data: &Arc<str>,
        context: Context,
        effort: &mut Effort,
    ) -> Result<(), PoolError> {
        if !self.policy().owner_recorded_late {
            let budget = self.budget(context);
            self.within(budget.deadline, async { Ok(self.owners.own(record, Context { deadline: budget.deadline }).await?) }).await?;
            self.within(budget.deadline, self.look_again(record, context, effort)).await?;
        }
        self.send_user_data(address, &record.allocation_id, user_data, context).await.map_err(PoolError::UserData)
    }

    /// Checks that a record is still there, by a Get that begins now.
    async fn look_again(&self, record: &IpAllocation, context: Context, effort: &mut Effort) -> Result<(), PoolError> {
        let mut budget = self.budget(context);
        let snapshot = loop {
            match self.read(&budget, effort).await {
                Ok(snapshot) => break snapshot,
                Err(error) => {
                    self.pause(error, &mut budget, effort).await.map_err(|error| PoolError::Reading(ReadError::Api(error)))?;
                }
            }
        };
        match snapshot.found() {
            Found::Document(document) => {
                let stored = document.allocated.get(&record.allocation_id);
                if stored.is_some_and(|stored| stored.ip.key() == record.ip.key()) { Ok(()) } else { Err(PoolError::RecordLost) }
            }
            Found::Missing => Err(PoolError::RecordLost),
            Found::Unreadable(error) => Err(PoolError::Reading(ReadError::Unreadable(error))),
        }
    }

    /// Rolls an allocation back. Upstream only logs a failure; in the hardened form the owner stays, so that the release can be continued.
    async fn roll_back(&self, id: &Arc<str>, address: &Address, context: Context, effort: &mut Effort) {
        let context = if self.policy().rollback_on_callers_deadline { context } else { Context::BACKGROUND };
        let budget = self.budget(context);
        let begun = self.release_begun(Some(id), Some(address), Releaser::RollBack, effort);
        let result = if self.policy().free_before_reboot {
            self.within(budget.deadline, self.remove_record(id, budget, effort)).await
        } else {
            self.within(budget.deadline, self.release_within(id, Some(address), budget, effort)).await
        };
        self.release_ended(Some(id), Releaser::RollBack, begun, &result, effort);
        self.owners.disown(id, result.is_ok()).await;
    }

    async fn send_user_data(&self, address: &Address, id: &str, user_data: &Arc<str>, context: Context) -> Result<(), VmError> {
        let left = context.deadline.map(|deadline| deadline.saturating_sub(self.env.monotonic()));
        if self.policy().rollback_on_callers_deadline {
            return self.vms.send_user_data(address, id, user_data, left).await;
        }
        let limit = left.map_or(self.settings.operation_timeout, |left| left.min(self.settings.operation_timeout));
        match race(self.vms.send_user_data(address, id, user_data, Some(limit)), self.env.sleep(limit)).await {
            Either::Left(result) => result,
            Either::Right(()) => Err(VmError::Timeout),
        }
    }

    /// Gives an instance back; `None` = the sandbox never had one. Safe to repeat.
    ///
    /// # Errors
    /// The errors of [`VmPool::release`].
    pub async fn delete_instance(&self, instance: Option<&Instance>, by: Releaser, context: Context) -> Outcome<Released> {
        let Some(instance) = instance else { return Outcome { result: Ok(Released::NoInstance), effort: Effort::default() } };
        if self.policy().release_by_address {
            self.release_address(&instance.address, Some(&instance.allocation_id), by, context).await
        } else {
            self.release_of(&instance.allocation_id, Some(&instance.address), by, context).await
        }
    }
}
