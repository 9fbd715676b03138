//! Upstream's way of releasing: whatever holds an address, regardless of the caller (`byom-release-by-address`, B §3.2).

use std::sync::Arc;

use super::address::Address;
use super::driver::{Budget, VmPool};
use super::error::{PoolError, ReadError};
use super::observer::Releaser;
use super::outcome::{Context, Effort, Outcome, Released};
use super::owners::Owners;
use super::vm::VmAccess;
use kube_machinery::client::Client;
use kube_machinery::env::Env;

impl<C: Client, V: Env, M: VmAccess, O: Owners> VmPool<C, V, M, O> {
    /// Releases whatever holds an address, like upstream, on behalf of the allocation `id`.
    pub(super) async fn release_address(
        &self,
        address: &Address,
        id: Option<&Arc<str>>,
        by: Releaser,
        context: Context,
    ) -> Outcome<Released> {
        let mut effort = Effort::default();
        let budget = self.budget(context);
        let begun = self.release_begun(id, Some(address), by, &effort);
        let result = self.within(budget.deadline, self.release_by_address(address, budget, &mut effort)).await;
        self.release_ended(id, by, begun, &result, &effort);
        Outcome { result, effort }
    }

    /// Releases whatever holds an address: upstream's DeleteInstance (B §3.2), which boots the VM before it looks up the holder.
    pub(super) async fn release_by_address(&self, address: &Address, budget: Budget, effort: &mut Effort) -> Result<Released, PoolError> {
        let Some(address) = address.canonical_in_go() else { return Err(PoolError::InvalidAddress(address.text().into())) };
        let _failure_is_only_logged = self.vms.reboot(&address, None).await;
        let Some(id) = self.holder(&address, &budget, effort).await? else { return Ok(Released::NotHeld) };
        if !self.policy().free_before_reboot {
            self.wait_until_clean(&address, &id, &budget).await?;
        }
        self.remove_record(&id, budget, effort).await
    }

    /// The allocation that holds an address, by one read without the mutex. Of several, upstream takes the first in the order of Go's map.
    pub(super) async fn holder(&self, address: &Address, budget: &Budget, effort: &mut Effort) -> Result<Option<Arc<str>>, PoolError> {
        let snapshot = self.read(budget, effort).await.map_err(|error| PoolError::Reading(ReadError::Api(error)))?;
        let Some(document) = self.readable(snapshot.found())? else { return Ok(None) };
        let textual = self.policy().textual_addresses;
        let records = document.allocated.of_address(address.key());
        let ids: Vec<&Arc<str>> = records.filter(|(_, record)| !textual || record.ip.text() == address.text()).map(|(id, _)| id).collect();
        let shown = if textual && ids.len() > 1 { (self.env.random() % ids.len() as u64) as usize } else { 0 };
        Ok(ids.get(shown).map(|id| Arc::clone(id)))
    }
}
