//! The provider's two operations: making a VM a pod's, and giving it back (B C1 to C3, §3.2).

use std::sync::Arc;

use super::address::Address;
use super::decide::PodName;
use super::driver::{Context, Effort, Outcome, VmPool};
use super::error::PoolError;
use super::owners::Owners;
use super::release::Released;
use super::vm::{VmAccess, VmError};
use crate::client::Client;
use crate::env::Env;
use crate::race::{Either, race};

/// A VM that was handed out. Upstream knows it by its address alone.
#[derive(Clone, Debug)]
pub struct Instance {
    /// The VM.
    pub address: Address,
    /// The allocation under which it was handed out: the fence of its release. Keep it with the PeerPod.
    pub allocation_id: Arc<str>,
}

impl<C: Client, V: Env, M: VmAccess, O: Owners> VmPool<C, V, M, O> {
    /// Allocates a VM under `id` and sends it `user_data`. If that fails the allocation is rolled back: in the hardened form
    /// with time of its own, upstream with what the caller has left, which may be nothing (B W7).
    ///
    /// # Errors
    /// As [`VmPool::allocate`], and [`PoolError::UserData`].
    pub async fn create_instance(&self, id: &Arc<str>, pod: &PodName, user_data: &Arc<str>, context: Context) -> Outcome<Instance> {
        let Outcome { result, mut effort } = self.allocate(id, pod, context).await;
        let address = match result {
            Ok(address) => address,
            Err(error) => return Outcome { result: Err(error), effort },
        };
        let Err(error) = self.send_user_data(&address, id, user_data, context).await else {
            return Outcome { result: Ok(Instance { address, allocation_id: id.clone() }), effort };
        };
        let context = if self.policy().rollback_on_callers_deadline { context } else { Context::BACKGROUND };
        let budget = self.budget(context);
        // A roll-back that fails is only logged.
        let _ = if self.policy().free_before_reboot {
            self.within(budget.deadline, self.remove_record(id, budget, &mut effort)).await
        } else {
            self.within(budget.deadline, self.release_within(id, budget, &mut effort)).await
        };
        Outcome { result: Err(PoolError::UserData(error)), effort }
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
    /// As [`VmPool::release`].
    pub async fn delete_instance(&self, instance: Option<&Instance>, context: Context) -> Outcome<Released> {
        let Some(instance) = instance else { return Outcome { result: Ok(Released::NoInstance), effort: Effort::default() } };
        if !self.policy().release_by_address {
            return self.release(&instance.allocation_id, context).await;
        }
        let mut effort = Effort::default();
        let budget = self.budget(context);
        let result = self.within(budget.deadline, self.release_by_address(&instance.address, budget, &mut effort)).await;
        Outcome { result, effort }
    }
}
