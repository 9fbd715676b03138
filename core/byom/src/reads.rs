//! Queries about the pool (B §5.1): one Get each, without the mutex.

use std::sync::Arc;

use super::address::Address;
use super::allocation::IpAllocation;
use super::document::PoolDocument;
use super::driver::VmPool;
use super::error::{PoolError, ReadError};
use super::outcome::{Context, Effort, Outcome};
use super::owners::Owners;
use super::vm::VmAccess;
use kube_machinery::client::Client;
use kube_machinery::env::Env;

/// The fill level of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStatus {
    /// The number of available addresses.
    pub available: usize,
    /// The number of records of all nodes, with or without owner.
    pub in_use: usize,
}

impl PoolStatus {
    /// The sum of both; not the size of the configuration.
    pub fn total(self) -> usize {
        self.available + self.in_use
    }
}

impl<C: Client, V: Env, M: VmAccess, O: Owners> VmPool<C, V, M, O> {
    /// The record of an allocation.
    ///
    /// # Errors
    /// The state is unknown.
    pub async fn get(&self, id: &str, context: Context) -> Outcome<Option<Arc<IpAllocation>>> {
        self.ask(context, |document| document.allocated.get(id).cloned()).await
    }

    /// The allocation that holds an address. If a damaged document has several, the first by ID; with `byom-textual-addresses` any of them,
    /// because upstream takes the first in the order of Go's map.
    ///
    /// # Errors
    /// The state is unknown, or `address` is not an address.
    pub async fn holder_of(&self, address: &Address, context: Context) -> Outcome<Option<Arc<str>>> {
        let mut effort = Effort::default();
        let budget = self.budget(context);
        let result = match address.canonical_in_go() {
            Some(address) => self.within(budget.deadline, self.holder(&address, &budget, &mut effort)).await,
            None => Err(PoolError::InvalidAddress(address.text().into())),
        };
        Outcome { result, effort }
    }

    /// The fill level of the pool.
    ///
    /// # Errors
    /// The state is unknown.
    pub async fn status(&self, context: Context) -> Outcome<PoolStatus> {
        self.ask(context, |document| PoolStatus { available: document.available.len(), in_use: document.allocated.len() }).await
    }

    /// The records, by allocation ID.
    ///
    /// # Errors
    /// The state is unknown.
    pub async fn allocations(&self, context: Context) -> Outcome<Vec<Arc<IpAllocation>>> {
        self.ask(context, |document| document.allocated.iter().map(|(_, record)| record.clone()).collect()).await
    }

    async fn ask<T: Send>(&self, context: Context, question: impl FnOnce(&PoolDocument) -> T + Send) -> Outcome<T> {
        let mut effort = Effort::default();
        let budget = self.budget(context);
        let read = async {
            let snapshot = self.read(&budget, &mut effort).await.map_err(|error| PoolError::Reading(ReadError::Api(error)))?;
            Ok(match self.readable(snapshot.found())? {
                Some(document) => question(document),
                None => question(&self.setting().fresh()),
            })
        };
        let result = self.within(budget.deadline, read).await;
        Outcome { result, effort }
    }
}
