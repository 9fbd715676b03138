//! The PeerPod controller's reconciliation of one PeerPod (B P1, P2).

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::adaptor::shared;
use super::controller::{BY_OWNER, PeerPodController};
use super::peer_pod::PeerPod;
use crate::address::Address;
use crate::error::PoolError;
use crate::observer::{Observer, Releaser, Step};
use crate::outcome::Context;
use crate::owners::Owners;
use crate::policy::Policy;
use crate::vm::VmAccess;
use kube_machinery::api::{ApiError, ObjectKey};
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::informer::StoreReader;

/// The reason why a PeerPod is requeued.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum NotYet {
    #[error("{0}")]
    Api(#[from] ApiError),
    #[error("{0}")]
    Pool(#[from] PoolError),
    #[error("the pool is not configured")]
    NoPool,
}

/// Whether `younger` replaces `older`, a PeerPod of the same Pod.
///
/// Upstream compares the seconds in which the two were created. With that, a PeerPod that is written late (by a delayed request of a start
/// that failed long ago) would replace the one in use; hence both the object and the allocation must be later. A Pod never moves, so both
/// allocation times are by one clock.
pub(super) fn supersedes(younger: &PeerPod, older: &PeerPod, policy: &Policy) -> bool {
    let (Some(owner), Some(owner_of_older)) = (younger.owner_uid(), older.owner_uid()) else { return false };
    let created = |peer_pod: &PeerPod| peer_pod.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
    let allocated = |peer_pod: &PeerPod| peer_pod.spec.allocated_at.as_ref().map(|time| time.0.as_second());
    owner == owner_of_older
        && younger.metadata.uid != older.metadata.uid
        && created(older) < created(younger)
        && (policy.younger_peer_pod_wins || allocated(older) < allocated(younger))
}

impl<C: Client, V: Env, M: VmAccess, B: Observer> PeerPodController<C, V, M, B> {
    fn policy(&self) -> &Policy {
        &self.settings.initial.policy
    }

    /// The deadline of one request with its retries.
    fn deadline(&self) -> Option<Duration> {
        self.owners.deadline()
    }

    pub(super) async fn reconcile(&self, key: &ObjectKey, store: &StoreReader<PeerPod>) -> Result<(), NotYet> {
        let Some(cached) = store.get(key) else { return Ok(()) };
        if cached.is_terminating() && !cached.has_finalizer() {
            return Ok(());
        }
        let mut superseded = Vec::new();
        if !cached.is_terminating() {
            store.by_index(BY_OWNER, cached.owner_uid().unwrap_or(""), |other| {
                let again = other.is_terminating() && !self.policy().controller_trusts_cache;
                if !again && supersedes(&cached, other, self.policy()) {
                    superseded.push(other.clone());
                }
            });
            if superseded.is_empty() {
                return Ok(());
            }
        }
        let current = if self.policy().controller_trusts_cache {
            cached
        } else {
            // The cache may be behind; everything from here on uses the current object.
            match self.owners.peer_pods.get::<PeerPod>(key, self.deadline()).await? {
                Some(current) if current.metadata.uid == cached.metadata.uid => current,
                // A new object of the same name has its own notification.
                _ => return Ok(()),
            }
        };
        if current.is_terminating() {
            return if current.has_finalizer() { self.release(&current, key).await } else { Ok(()) };
        }
        for older in superseded {
            self.delete(&older).await?;
        }
        Ok(())
    }

    /// Deletes one superseded PeerPod (B P1).
    async fn delete(&self, older: &Arc<PeerPod>) -> Result<(), NotYet> {
        let guarded = !self.policy().controller_trusts_cache;
        match self.owners.peer_pods.delete_once(older, guarded, self.deadline()).await {
            Ok(Some(_)) => {
                let peer_pod = &ObjectKey::of(&**older);
                self.owners.observe(Step::PeerPodMarked { id: older.allocation_id(), peer_pod });
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Releases a PeerPod's VM and removes the finalizer (B P2). If the finalizer could not be removed, the PeerPod is requeued: then the
    /// fence finds nothing to release, while upstream releases whatever holds the address by then.
    async fn release(&self, peer_pod: &Arc<PeerPod>, key: &ObjectKey) -> Result<(), NotYet> {
        let pool = self.pool().await.ok_or(NotYet::NoPool)?;
        let id = peer_pod.allocation_id().map(shared);
        let address = Address::new(peer_pod.spec.instance_id.as_str());
        let released = if self.policy().release_by_address {
            if address.text().is_empty() {
                None
            } else {
                Some(pool.release_address(&address, id.as_ref(), Releaser::Controller, Context::BACKGROUND).await)
            }
        } else if let Some(id) = &id {
            let vm = address.key().is_address().then_some(&address);
            Some(pool.release_of(id, vm, Releaser::Controller, Context::BACKGROUND).await)
        } else {
            // Without a fence, the VM's current user is unknown. If there is a record, it is reclaimed.
            None
        };
        if let Some(released) = released {
            released.or_crash(&self.env)?;
        }
        match self.owners.peer_pods.finish_once(peer_pod, self.deadline()).await {
            Ok(()) => self.owners.released(peer_pod, key),
            // Another process has removed it first.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
