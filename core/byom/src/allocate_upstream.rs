//! Upstream's way of allocating: it waits for a VM that does not answer, and writes a decision made on an earlier state.

use tokio::sync::MutexGuard;

use super::address::Address;
use super::allocate::PROBE_TIMEOUT;
use super::document::PoolDocument;
use super::driver::{Budget, VmPool};
use super::error::PoolError;
use super::outcome::Effort;
use super::owners::Owners;
use super::vm::VmAccess;
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::retry::DEFAULT_BACKOFF;

impl<C: Client, V: Env, M: VmAccess, O: Owners> VmPool<C, V, M, O> {
    /// Makes four attempts to reach a VM, regardless of the time left (B A7); a dead one fails the call (`byom-dead-vm-not-skipped`).
    pub(super) async fn reach(&self, address: &Address) -> Result<(), PoolError> {
        let mut sleeps = DEFAULT_BACKOFF.sleeps(|| self.env.random_unit());
        loop {
            let Err(error) = self.vms.probe(address, PROBE_TIMEOUT).await else { return Ok(()) };
            match sleeps.next() {
                Some(sleep) => self.env.sleep(sleep).await,
                None => return Err(PoolError::NotReady { address: address.clone(), error }),
            }
        }
    }

    /// Writes a document while holding the mutex, over whatever is stored by then (`byom-decide-once`).
    pub(super) async fn write_decided<'p>(
        &'p self,
        document: PoolDocument,
        mut guard: Option<MutexGuard<'p, ()>>,
        budget: &mut Budget,
        effort: &mut Effort,
    ) -> Result<(), PoolError> {
        if guard.is_none() {
            guard = Some(self.lock(effort).await);
        }
        let written = self.overwrite(document, budget, effort).await;
        drop(guard);
        written.map_err(PoolError::Allocating)
    }
}
