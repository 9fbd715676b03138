//! Allocating an address (B §2.1).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::MutexGuard;

use super::address::{Address, AddressKey};
use super::allocation::IpAllocation;
use super::decide::{Answer, Command, Found, PodName, Refusal};
use super::driver::{Budget, Snapshot, VmPool};
use super::error::{NotOwned, PoolError, ReadError};
use super::observer::Releaser;
use super::outcome::{Context, Effort, Outcome};
use super::owners::Owners;
use super::vm::VmAccess;
use kube_machinery::client::Client;
use kube_machinery::env::Env;

/// The time limit of one attempt to reach a VM.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

impl<C: Client, V: Env, M: VmAccess, O: Owners> VmPool<C, V, M, O> {
    /// Returns an address for a pod under `id`, the same one each time until the ID is released. Safe to repeat.
    ///
    /// The hardened form, in which only the last two steps hold the mutex:
    ///
    /// ```text
    ///   Get ── decide ── probe the VM ──► Get ── decide ── Put ──► answer
    ///    ▲                  │ dead: skip it        │ conflict, lost answer …: sleep, full jitter
    ///    └──────────────────┴──────────────────────┘
    /// ```
    ///
    /// # Errors
    /// Every kind of [`PoolError`]. After [`PoolError::Allocating`] and [`PoolError::OutOfTime`] the address may be held: release the ID.
    pub async fn allocate(&self, id: &Arc<str>, pod: &PodName, context: Context) -> Outcome<Address> {
        let Outcome { result, effort } = self.allocate_record(id, pod, context).await;
        Outcome { result: result.map(|(address, _)| address), effort }
    }

    /// Like [`Self::allocate`], but returns the record as well, as it was read or written.
    pub(super) async fn allocate_record(&self, id: &Arc<str>, pod: &PodName, context: Context) -> Outcome<(Address, Arc<IpAllocation>)> {
        let mut effort = Effort::default();
        let budget = self.budget(context);
        let result = self.within(budget.deadline, self.allocate_within(id, pod, budget, &mut effort)).await;
        Outcome { result, effort }
    }

    async fn allocate_within(
        &self,
        id: &Arc<str>,
        pod: &PodName,
        mut budget: Budget,
        effort: &mut Effort,
    ) -> Result<(Address, Arc<IpAllocation>), PoolError> {
        let decides_once = self.policy().decide_once;
        let mut ready: Option<Address> = None;
        // VMs to skip: they do not answer, or serve another allocation.
        let (mut skip, mut held) = (BTreeSet::new(), None);
        let mut gave_way = BTreeSet::new();
        let mut guard = None;
        loop {
            if guard.is_none() {
                guard = Some(self.lock(effort).await);
            }
            let snapshot = match self.read(&budget, effort).await {
                Ok(snapshot) => snapshot,
                Err(error) => {
                    // A read cannot fail with a conflict, so upstream does not retry it.
                    guard = None;
                    self.pause(error, &mut budget, effort).await.map_err(|error| PoolError::Reading(ReadError::Api(error)))?;
                    continue;
                }
            };
            let command = Command::Allocate { id, pod, ready: ready.as_ref(), skip: &skip };
            let decision = self.decide(&snapshot, command);
            let answer = match decision.answer {
                Err(Refusal::Missing | Refusal::NullMap) => {
                    drop(guard.take());
                    self.rebuild(true, budget, effort).await?;
                    continue;
                }
                Err(Refusal::NoAvailable { predecessor }) => {
                    drop(guard.take());
                    let Some((predecessor, vm)) = self.predecessor(predecessor, &snapshot, id, pod, &skip, &gave_way).await else {
                        return Err(held.unwrap_or(PoolError::NoAvailable));
                    };
                    // If this sandbox was stopped, the pod's other one may be its successor, which must not be released.
                    if !self.owners.wants(id) {
                        return Err(PoolError::NotOwned(NotOwned::Unwanted));
                    }
                    if let Some(vm) = &vm {
                        // Once the VM has booted, the allocation recorded for it may give way, too.
                        gave_way.insert(predecessor.clone());
                        skip.remove(vm.key());
                    }
                    let begun = self.release_begun(Some(&predecessor), vm.as_ref(), Releaser::Successor, effort);
                    let released = Box::pin(self.release_within(&predecessor, vm.as_ref(), budget, effort)).await;
                    self.release_ended(Some(&predecessor), Releaser::Successor, begun, &released, effort);
                    match released {
                        // The VM stays unavailable until the allocation it serves is gone; the pod may have left another one behind.
                        Err(PoolError::HeldByAnother { address, holder }) => {
                            skip.insert(AddressKey::clone(address.key()));
                            held = Some(PoolError::HeldByAnother { address, holder });
                        }
                        released => drop(released?),
                    }
                    continue;
                }
                Ok(Answer::Allocated(address)) => Ok(address),
                Ok(other) => unreachable!("{other:?} is no answer to an allocate"),
                Err(refusal) => Err(refusal.into()),
            };
            let Some(document) = decision.write else {
                let address = answer?;
                let Found::Document(document) = snapshot.found() else { unreachable!("what is allocated already is in a document") };
                return Ok((address, document.allocated.get(id).expect("it was found there").clone()));
            };

            let record = document.allocated.get(id).expect("the document to write has the record").clone();
            let chosen = &record.ip;
            if self.settings.probes && ready.as_ref().is_none_or(|ready| ready.key() != chosen.key()) {
                let chosen = chosen.clone();
                let answers = self.answers(&chosen, &mut guard, effort).await?;
                if !answers {
                    skip.insert(AddressKey::clone(chosen.key()));
                    continue;
                }
                ready = Some(chosen);
                if !decides_once {
                    continue;
                }
            }
            if decides_once {
                self.write_decided(document, guard, &mut budget, effort).await?;
                return answer.map(|address| (address, record));
            }
            // The mutex orders this check with the release by StopVM: whichever comes second sees the other.
            if !self.owners.wants(id) {
                return Err(PoolError::NotOwned(NotOwned::Unwanted));
            }
            match self.write(&snapshot, document.into(), &budget, effort).await {
                Ok(()) => return answer.map(|address| (address, record)),
                Err(error) => {
                    guard = None;
                    self.pause(error, &mut budget, effort).await.map_err(PoolError::Allocating)?;
                }
            }
        }
    }

    /// Finds the allocation of an earlier sandbox of the pod. A record that an older version wrote lacks the pod's namespace, which is then
    /// taken from its owner. If an older version has overwritten the record, the owner also names the VM.
    async fn predecessor(
        &self,
        known: Option<Arc<str>>,
        snapshot: &Snapshot,
        id: &Arc<str>,
        pod: &PodName,
        skip: &BTreeSet<AddressKey>,
        gave_way: &BTreeSet<Arc<str>>,
    ) -> Option<(Arc<str>, Option<Address>)> {
        if let Some(known) = known {
            return Some((known, None));
        }
        let Found::Document(document) = snapshot.found() else { return None };
        for record in self.setting().nameless_predecessors(document, pod).into_iter().filter(|record| !skip.contains(record.ip.key())) {
            if self.owners.namespace_of(&record).await.as_ref() == Some(&pod.namespace) {
                return Some((record.allocation_id.clone(), None));
            }
        }
        if self.policy().full_pool_restart {
            return None;
        }
        // The VM that serves the pod's last sandbox refuses the allocation recorded for it, and nobody else reboots it.
        let named = self.owners.named().await.ok()?.allocations.into_iter();
        let lost = named.filter(|of| self.setting().is_lost_predecessor(document, of, pod));
        let lost = lost.filter(|of| of.allocation_id != *id && !gave_way.contains(&of.allocation_id));
        lost.min_by_key(|of| of.allocated_at).map(|of| (of.allocation_id, Some(of.ip)))
    }

    /// Whether a VM answers. Makes one attempt, because there are other VMs, and releases the mutex first, because other calls wait for it.
    async fn answers(&self, address: &Address, guard: &mut Option<MutexGuard<'_, ()>>, effort: &mut Effort) -> Result<bool, PoolError> {
        if !self.policy().probe_in_critical_section {
            *guard = None;
        }
        effort.probes += 1;
        if self.policy().dead_vm_not_skipped {
            return self.reach(address).await.map(|()| true);
        }
        Ok(self.vms.probe(address, PROBE_TIMEOUT).await.is_ok())
    }
}
