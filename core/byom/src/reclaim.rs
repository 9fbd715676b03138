//! Finding records without an owner (B W3, W5, W6), and releasing them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::allocation::IpAllocation;
use super::allocations::Allocations;
use super::driver::VmPool;
use super::error::{PoolError, ReadError};
use super::observer::Releaser;
use super::outcome::{Context, Effort, Outcome};
use super::owners::Owners;
use super::vm::VmAccess;
use kube_machinery::client::Client;
use kube_machinery::env::Env;

/// Records without an owner, and the times since when. Kept by the caller from one comparison to the next.
///
/// While its sandbox is being started, an allocation has no owner either. So a record is only released after it has been without an owner
/// for long, by the observer's clock: `allocatedAt` is by another process's clock.
#[derive(Clone, Debug, Default)]
pub struct Suspects(BTreeMap<Arc<str>, Duration>);

impl Suspects {
    /// Compares records with the IDs of live owners at monotonic time `now`; returns the IDs that have been without an owner for at least
    /// `grace`.
    pub fn compare(&mut self, records: &Allocations, live: &BTreeSet<Arc<str>>, now: Duration, grace: Duration) -> Vec<Arc<str>> {
        self.due(records.iter().map(|(id, _)| id).filter(|id| !live.contains(*id)), now, grace)
    }

    /// The IDs that have been in `unowned` for at least `grace`.
    fn due<'a>(&mut self, unowned: impl Iterator<Item = &'a Arc<str>>, now: Duration, grace: Duration) -> Vec<Arc<str>> {
        self.0 = unowned.map(|id| (id.clone(), self.0.get(id).copied().unwrap_or(now))).collect();
        let due = self.0.iter().filter(|(_, since)| now.saturating_sub(**since) >= grace);
        due.map(|(id, _)| id.clone()).collect()
    }
}

impl<C: Client, V: Env, M: VmAccess, O: Owners> VmPool<C, V, M, O> {
    /// Compares the records with the live owners once and releases those that are due, one after the other, each with an operation's time
    /// limit. It does the same with allocations without an owner whose VMs refuse to boot for the allocations recorded for them. To be
    /// called every few minutes by one process. Returns the IDs released; those whose release failed stay suspect. A lost document is
    /// rebuilt. With `byom-leaks-kept` it does nothing.
    ///
    /// # Errors
    /// The state or the owners are unknown.
    pub async fn reclaim(&self, suspects: &mut Suspects) -> Outcome<Vec<Arc<str>>> {
        let mut effort = Effort::default();
        if self.policy().leaks_kept {
            return Outcome { result: Ok(Vec::new()), effort };
        }
        let budget = self.budget(Context::BACKGROUND);
        let compare = async {
            // Records are read before owners, so every record of a live allocation has its owner in the later list.
            let snapshot = self.read(&budget, &mut effort).await.map_err(|error| PoolError::Reading(ReadError::Api(error)))?;
            let document = match self.readable(snapshot.found()) {
                Ok(Some(document)) => document,
                Ok(None) => return Ok(Vec::new()),
                Err(PoolError::Reading(ReadError::Missing | ReadError::NullMap)) => {
                    return self.rebuild(false, budget, &mut effort).await.map(|()| Vec::new());
                }
                Err(error) => return Err(error),
            };
            // Includes every owner: one that came late may be live although its VM is recorded for, or serves, another allocation.
            let named = self.owners.named().await?;
            let owned = ids(&named.allocations);
            let records = document.allocated.iter().map(|(id, _)| id.clone());
            let mut unowned: BTreeSet<_> = records.filter(|id| !owned.contains(id)).collect();
            unowned.extend(self.holders.unowned(&owned, &named.vms));
            Ok(suspects.due(unowned.iter(), self.env.monotonic(), self.settings.leak_grace))
        };
        let due = match self.within(budget.deadline, compare).await {
            Ok(due) => due,
            Err(error) => return Outcome { result: Err(error), effort },
        };
        let mut released = Vec::new();
        for id in due {
            let budget = self.budget(Context::BACKGROUND);
            let vm = self.holders.vm(&id);
            let begun = self.release_begun(Some(&id), vm.as_ref(), Releaser::Reclaim, &effort);
            let result = self.within(budget.deadline, self.release_within(&id, vm.as_ref(), budget, &mut effort)).await;
            self.release_ended(Some(&id), Releaser::Reclaim, begun, &result, &effort);
            if result.is_ok() {
                self.holders.forget(&id);
                released.push(id);
            }
        }
        Outcome { result: Ok(released), effort }
    }
}

fn ids(owners: &[IpAllocation]) -> BTreeSet<Arc<str>> {
    owners.iter().map(|owner| owner.allocation_id.clone()).collect()
}
