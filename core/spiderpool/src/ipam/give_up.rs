//! Taking back what a pod cannot have any more of its predecessor's addresses (A §6.3).
//!
//! As long as the pod has nothing else its endpoint and the records stay: what is disabled, excluded or reserved today may be permitted
//! again tomorrow, and then the pod has its address as before. A pool that is being deleted never is. It waits for its last
//! record (A §8.6), so a pod that waited for its address there would wait for ever, with everybody who wants the pool back.

use std::net::IpAddr;
use std::sync::Arc;

use super::add::Add;
use super::caches::Caches;
use super::drawn::stored;
use super::endpoints::{entries, uid_of};
use super::error::IpamError;
use super::inherit::Inheritance;
use super::observer::{Cause, Observer};
use super::release::by_pool;
use crate::select;
use crate::{IPAllocationDetail, Keeper, SpiderEndpoint};
use kube_machinery::client::Client;
use kube_machinery::env::Env;

impl<C: Client, V: Env, K: Caches, O: Observer> Add<'_, C, V, K, O> {
    /// Takes back what the pod gave up, once its endpoint names what it has instead.
    pub(super) async fn release_given_up(&self, before: &SpiderEndpoint, inheritance: &Inheritance, now: &[IPAllocationDetail]) {
        let is_in_use = |ip: IpAddr| now.iter().flat_map(stored).any(|at| at.address.addr() == ip);
        let mut what = given_up(before, inheritance);
        what.retain(|(_, ip)| !is_in_use(*ip));
        if what.is_empty() {
            return;
        }
        // What is not taken back now is left to reclaim, which finds it in no endpoint.
        let _ = self.op.take_back(&self.key, uid_of(before), Cause::PoolChange, &what).await;
        if uid_of(before) != &*self.uid {
            let _ = self.op.take_back(&self.key, &self.uid, Cause::PoolChange, &what).await;
        }
    }

    /// Gives up what is left of entries that need another address and whose NIC the pod does not have, unlike its predecessor: no ADD will
    /// ask for the rest, and no endpoint names it.
    pub(super) fn leave_nics(&self, inheritance: &mut Inheritance, known: &[IPAllocationDetail]) {
        if self.nameless || self.policy().static_reuse_skips_filter || inheritance.incomplete.is_empty() {
            return;
        }
        // If the networks cannot be read nobody knows which NICs there will be.
        let Some(nics) = select::nics(&self.pod) else { return };
        let is_left = |nic: &str| !nic.is_empty() && *nic != *self.request.nic && !nics.iter().any(|has| has == nic);
        let left = inheritance.incomplete.iter().filter_map(|place| Some((*place, known.get(*place)?)));
        let left = left.filter(|(_, entry)| is_left(&entry.interface));
        let left: Vec<_> = left.flat_map(|(place, entry)| stored(entry).map(move |at| (place, at.family))).collect();
        if !left.is_empty() {
            inheritance.given_up.extend(left);
            inheritance.keep(known);
        }
    }

    /// What the pod gave up in pools that are being deleted, as the cache shows them.
    pub(super) fn given_up_for_good(&self, endpoint: &SpiderEndpoint, inheritance: &Inheritance) -> Vec<(Arc<str>, IpAddr)> {
        // Upstream keeps it, whatever becomes of the pool.
        if self.policy().static_reuse_skips_filter {
            return Vec::new();
        }
        let mut what = given_up(endpoint, inheritance);
        what.retain(|(pool, _)| self.is_going(pool));
        what
    }

    /// Whether a pool is being deleted, as the cache shows it.
    fn is_going(&self, pool: &str) -> bool {
        self.op.agent.caches.pool(pool).is_some_and(|pool| pool.metadata.deletion_timestamp.is_some())
    }

    /// Takes back what the predecessor has in pools that are being deleted, for a pod whose own auto pool is not there.
    ///
    /// A StatefulSet that is created again under its name has new pools, and they may have to wait for what the old ones hold in the subnet; or for
    /// the subnet itself, which is being deleted and goes after its last pool. The VM's pods of a live migration may both be alive.
    pub(super) async fn leave_behind(&self, endpoint: &SpiderEndpoint) {
        if self.policy().static_reuse_skips_filter || self.keeper != Keeper::StatefulSet {
            return;
        }
        let all = entries(endpoint).iter().flat_map(stored).map(|at| (Arc::from(at.pool), at.address.addr()));
        let what: Vec<(Arc<str>, IpAddr)> = all.filter(|(pool, _): &(Arc<str>, _)| self.is_going(pool)).collect();
        if !what.is_empty() {
            // What stays now goes with the next ADD that finds no pool.
            let _ = self.leave_pools(uid_of(endpoint), &what).await;
        }
    }

    /// Takes back the records of addresses in pools that are being deleted, though the pod has nothing instead yet.
    ///
    /// The endpoint names them until the pod is served: should a pool of that name be there by then, with the address free, the pod has
    /// its address again. The records may be those of any pod of the name whose ADD came that far.
    pub(super) async fn leave_pools(&self, endpoint_uid: &str, what: &[(Arc<str>, IpAddr)]) -> Result<(), IpamError> {
        // By the UID in the record.
        let mut found = Vec::new();
        for (name, ips) in by_pool(what.iter().cloned()) {
            let Some(pool) = self.op.pool(&name).await?.filter(|pool| pool.metadata.deletion_timestamp.is_some()) else { continue };
            let records = pool.status.as_ref().and_then(|status| status.allocated_ips.parse().ok());
            let of_name = |ip: &IpAddr| records.and_then(|records| records.get(*ip)).filter(|record| record.pod == self.key.as_str());
            for ip in ips {
                let Some(record) = of_name(&ip) else { continue };
                // The pods of a VM's live migration have one name, and both are alive.
                let known = [endpoint_uid, &*self.uid].contains(&record.pod_uid.as_str());
                if known || self.keeper != Keeper::Vm {
                    found.push((Arc::from(record.pod_uid.as_str()), (name.clone(), ip)));
                }
            }
        }
        if found.is_empty() {
            return Ok(());
        }
        // Whichever pods these are: this one is alive after their records were read, so they are gone.
        self.check_alive().await?;
        for (uid, what) in by_pool(found) {
            self.op.take_back(&self.key, &uid, Cause::PoolChange, &what).await?;
        }
        Ok(())
    }
}

/// The addresses of an endpoint that are given up.
fn given_up(endpoint: &SpiderEndpoint, inheritance: &Inheritance) -> Vec<(Arc<str>, IpAddr)> {
    let all = entries(endpoint);
    let of = |&(place, family): &(usize, _)| all.get(place).into_iter().flat_map(stored).filter(move |at| at.family == family);
    inheritance.given_up.iter().flat_map(of).map(|at| (Arc::from(at.pool), at.address.addr())).collect()
}
