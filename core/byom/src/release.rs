//! Taking an address back (B §3).

use std::sync::Arc;
use std::time::Duration;

use super::address::Address;
use super::decide::{Answer, Command, Found, Refusal};
use super::document::PoolDocument;
use super::driver::{Budget, VmPool};
use super::error::{PoolError, ReadError};
use super::observer::{Releaser, Step};
use super::outcome::{Begun, Context, Effort, Outcome, Released};
use super::owners::Owners;
use super::vm::{Reboot, VmAccess};
use kube_machinery::client::Client;
use kube_machinery::env::Env;

impl<C: Client, V: Env, M: VmAccess, O: Owners> VmPool<C, V, M, O> {
    /// Releases the allocation `id`. Safe to repeat, and must be repeated after an error.
    ///
    /// ```text
    ///   Get: whose record, which VM ── reboot, if held under id ── … ── clean ──► Get ── decide ── Put
    /// ```
    ///
    /// The record stays until the VM has booted, so no other pod gets a VM that is going down or still in use (B W13), and a crash in
    /// between loses nothing. The VM refuses the reboot if it serves another allocation, so a delayed release does no harm (B W8, W9). With
    /// `byom-free-before-reboot` the release does not wait for the boot.
    ///
    /// # Errors
    /// Every kind of [`PoolError`] except those about choosing. [`PoolError::OutOfTime`] is common: a boot takes time.
    pub async fn release(&self, id: &Arc<str>, by: Releaser, context: Context) -> Outcome<Released> {
        self.release_of(id, None, by, context).await
    }

    /// Removes the record `id` and leaves the VM alone: upstream's Deallocate (B §3.1), for callers that have not used the VM.
    ///
    /// # Errors
    /// The errors of [`VmPool::release`], except those of the VM.
    pub async fn deallocate(&self, id: &Arc<str>, by: Releaser, context: Context) -> Outcome<Released> {
        let mut effort = Effort::default();
        let budget = self.budget(context);
        let begun = self.release_begun(Some(id), None, by, &effort);
        let result = self.within(budget.deadline, self.remove_record(id, budget, &mut effort)).await;
        self.release_ended(Some(id), by, begun, &result, &effort);
        Outcome { result, effort }
    }

    /// [`VmPool::release`] for a caller that knows the VM. If the record is gone (edited away by hand), the VM still boots: it may have the
    /// user data, and would refuse all other allocations forever.
    ///
    /// # Errors
    /// The errors of [`VmPool::release`].
    pub(super) async fn release_of(&self, id: &Arc<str>, vm: Option<&Address>, by: Releaser, context: Context) -> Outcome<Released> {
        let mut effort = Effort::default();
        let budget = self.budget(context);
        let begun = self.release_begun(Some(id), vm, by, &effort);
        let result = self.within(budget.deadline, self.release_within(id, vm, budget, &mut effort)).await;
        self.release_ended(Some(id), by, begun, &result, &effort);
        Outcome { result, effort }
    }

    pub(super) fn release_begun(&self, id: Option<&Arc<str>>, address: Option<&Address>, by: Releaser, effort: &Effort) -> Begun {
        self.owners.observe(Step::ReleaseBegun { id, address, by });
        Begun { at: self.env.monotonic(), effort: *effort }
    }

    pub(super) fn release_ended(
        &self,
        id: Option<&Arc<str>>,
        by: Releaser,
        begun: Begun,
        result: &Result<Released, PoolError>,
        effort: &Effort,
    ) {
        let took = self.env.monotonic().saturating_sub(begun.at);
        self.owners.observe(Step::ReleaseEnded { id, by, result: result.as_ref(), effort: &effort.since(&begun.effort), took });
    }

    pub(super) async fn release_within(
        &self,
        id: &str,
        vm: Option<&Address>,
        mut budget: Budget,
        effort: &mut Effort,
    ) -> Result<Released, PoolError> {
        // This decision only looks up the record; the write is decided again once the VM is clean.
        let answer = loop {
            let snapshot = match self.read(&budget, effort).await {
                Ok(snapshot) => snapshot,
                Err(error) => {
                    self.pause(error, &mut budget, effort).await.map_err(|error| PoolError::Reading(ReadError::Api(error)))?;
                    continue;
                }
            };
            match self.decide(&snapshot, Command::Release { id }).answer {
                Err(Refusal::Missing | Refusal::NullMap) => self.rebuild(true, budget, effort).await?,
                answer => break answer?,
            }
        };
        match answer {
            Answer::NotHeld => {
                if let Some(vm) = vm.filter(|_| !self.policy().free_before_reboot) {
                    match self.wait_until_clean(vm, id, &budget).await {
                        // The allocation was released before, and the VM serves the next one.
                        Ok(()) | Err(PoolError::HeldByAnother { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
                return Ok(Released::NotHeld);
            }
            Answer::Released(address) if self.policy().free_before_reboot => drop(self.vms.reboot(&address, Some(id)).await),
            Answer::Released(address) => {
                self.wait_until_clean(&address, id, &budget).await.inspect_err(|error| self.holders.learn(error))?
            }
            other => unreachable!("{other:?} is no answer to a release"),
        }
        self.remove_record(id, budget, effort).await
    }

    /// Asks the VM to boot until it reports that it has.
    pub(super) async fn wait_until_clean(&self, address: &Address, id: &str, budget: &Budget) -> Result<(), PoolError> {
        loop {
            match self.vms.reboot(address, Some(id)).await {
                Ok(Reboot::Clean) => return Ok(()),
                Ok(Reboot::Refused(holder)) => return Err(PoolError::HeldByAnother { address: address.clone(), holder }),
                // Going down, coming up or dead: all are handled the same.
                Ok(Reboot::Started) | Err(_) => {}
            }
            if budget.left(&self.env) == Some(Duration::ZERO) {
                return Err(PoolError::OutOfTime);
            }
            self.env.sleep(self.settings.reboot_poll).await;
        }
    }

    /// Removes the record of an allocation: upstream's Deallocate (B §3.1).
    pub(super) async fn remove_record(&self, id: &str, mut budget: Budget, effort: &mut Effort) -> Result<Released, PoolError> {
        loop {
            let guard = self.lock(effort).await;
            let snapshot = match self.read(&budget, effort).await {
                Ok(snapshot) => snapshot,
                Err(error) => {
                    drop(guard);
                    self.pause(error, &mut budget, effort).await.map_err(|error| PoolError::Reading(ReadError::Api(error)))?;
                    continue;
                }
            };
            let decision = self.decide(&snapshot, Command::Release { id });
            let released = match decision.answer? {
                Answer::NotHeld => return Ok(Released::NotHeld),
                Answer::Released(address) => Released::Freed(address),
                other => unreachable!("{other:?} is no answer to a release"),
            };
            let document = decision.write.expect("a release that removes a record writes");
            if self.policy().decide_once {
                return self.overwrite(document, &mut budget, effort).await.map_err(PoolError::Updating).map(|()| released);
            }
            match self.write(&snapshot, document.into(), &budget, effort).await {
                Ok(()) => return Ok(released),
                Err(error) => {
                    drop(guard);
                    self.pause(error, &mut budget, effort).await.map_err(PoolError::Updating)?;
                }
            }
        }
    }

    /// The document to read from; `None` = there is none, and the pool counts as empty.
    pub(super) fn readable<'a>(&self, found: Found<'a>) -> Result<Option<&'a PoolDocument>, PoolError> {
        match found {
            Found::Missing if self.policy().missing_map_is_empty_pool => Ok(None),
            Found::Missing => Err(PoolError::Reading(ReadError::Missing)),
            Found::Unreadable(error) => Err(PoolError::Reading(ReadError::Unreadable(error))),
            Found::Document(document) if document.allocated.is_null() && !self.policy().null_map => {
                Err(PoolError::Reading(ReadError::NullMap))
            }
            Found::Document(document) => Ok(Some(document)),
        }
    }
}
