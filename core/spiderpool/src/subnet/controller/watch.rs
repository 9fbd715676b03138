//! The watches of the controller, and the items that each change queues.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};

use super::third_party::Watches;
use super::unfinished::Unfinished;
use super::{AppKey, Queues, SubnetController};
use crate::names::LABEL_OWNER_APPLICATION_UID;
use crate::owner_label::subnet_of;
use crate::subnet::kinds::{AppKind, Kind, ThirdParty};
use crate::subnet::observer::Observer;
use crate::subnet::pool::label;
use crate::subnet::upkeep::application_of;
use crate::{Policy, SpiderIPPool, SpiderReservedIP, SpiderSubnet};
use kube_machinery::api::ObjectKey;
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::informer::{Informer, InformerOptions, Notification, Notifications, StoreReader};

/// A kind that is watched.
pub(super) struct Watched<K: kube_machinery::api::Object, V: Env> {
    informer: Informer<K, V>,
    pub store: StoreReader<K>,
}

impl<K: kube_machinery::api::Object, V: Env> Watched<K, V> {
    fn new(informer: Informer<K, V>) -> Self {
        Self { store: informer.store(), informer }
    }

    /// All changes from now on.
    pub(super) fn subscribe(&self) -> Notifications<K> {
        self.informer.subscribe()
    }
}

/// All kinds that are watched.
pub(super) struct Seen<V: Env> {
    pub subnets: Watched<SpiderSubnet, V>,
    pub pools: Watched<SpiderIPPool, V>,
    pub reserved_ips: Watched<SpiderReservedIP, V>,
    pub deployments: Watched<Deployment, V>,
    pub replica_sets: Watched<ReplicaSet, V>,
    pub stateful_sets: Watched<StatefulSet, V>,
    pub daemon_sets: Watched<DaemonSet, V>,
    pub jobs: Watched<Job, V>,
    pub cron_jobs: Watched<CronJob, V>,
    pub third_party: Watches,
    pub unfinished: Unfinished,
}

impl<V: Env> Seen<V> {
    /// Completes when every kind was listed once.
    pub(super) async fn synced(&self) {
        self.subnets.informer.synced().await;
        self.pools.informer.synced().await;
        self.reserved_ips.informer.synced().await;
        self.deployments.informer.synced().await;
        self.replica_sets.informer.synced().await;
        self.stateful_sets.informer.synced().await;
        self.daemon_sets.informer.synced().await;
        self.jobs.informer.synced().await;
        self.cron_jobs.informer.synced().await;
    }
}

impl<C: Client, V: Env, O: Observer, T: ThirdParty> SubnetController<C, V, O, T> {
    /// Starts to watch subnets, pools, reserved IP objects and all built-in workloads; changes fill the queues.
    pub(super) fn watch(&self, queues: &Queues<V>) -> Seen<V> {
        let (client, env) = (&self.auto_pools.client, &self.auto_pools.env);
        let (resync, patience) = (self.settings.subnet_resync, self.settings.request_timeout);
        let reserved_ips = Informer::start(client.clone(), env.clone(), InformerOptions { patience, ..InformerOptions::default() });
        let subnets = Informer::start(client.clone(), env.clone(), InformerOptions { resync, patience, ..InformerOptions::default() });
        subnets.add_handler({
            let queue = queues.subnets.clone();
            move |notification: Notification<SpiderSubnet>| queue.add(notification.key())
        });
        let resync = self.settings.resync;
        let pools = Informer::start(client.clone(), env.clone(), InformerOptions { resync, patience, ..InformerOptions::default() });
        pools.add_handler({
            let (queues, policy) = (queues.clone(), self.settings.policy);
            move |notification| pool_changed(&queues, &notification, &policy)
        });
        Seen {
            subnets: Watched::new(subnets),
            pools: Watched::new(pools),
            reserved_ips: Watched::new(reserved_ips),
            deployments: self.watch_kind(Kind::Deployment, queues),
            replica_sets: self.watch_kind(Kind::ReplicaSet, queues),
            stateful_sets: self.watch_kind(Kind::StatefulSet, queues),
            daemon_sets: self.watch_kind(Kind::DaemonSet, queues),
            jobs: self.watch_kind(Kind::Job, queues),
            cron_jobs: self.watch_kind(Kind::CronJob, queues),
            third_party: Watches::default(),
            unfinished: Unfinished::default(),
        }
    }

    /// Watches the workloads of a kind. Only a workload's end and changes of the pools that it asks for matter.
    fn watch_kind<K: AppKind>(&self, kind: Kind, queues: &Queues<V>) -> Watched<K, V> {
        let options = InformerOptions { patience: self.settings.request_timeout, ..InformerOptions::default() };
        let informer = Informer::start(self.auto_pools.client.clone(), self.auto_pools.env.clone(), options);
        let (queue, settings) = (queues.apps.clone(), self.select.clone());
        let (policy, limit) = (self.settings.policy, self.settings.max_queue_length);
        informer.add_handler(move |notification: Notification<K>| {
            let object = notification.object();
            let asks = |object: &K| object.demands(&settings);
            let matters = match &notification {
                Notification::Added { object, .. } => asks(object) != Ok(Vec::new()),
                Notification::Updated { old, new } => asks(old) != asks(new) || old.meta().uid != new.meta().uid,
                Notification::Deleted { .. } | Notification::DeletedFinalStateUnknown { .. } => object.controller().is_none(),
            };
            if !matters || !takes_in(queue.len(), limit, &policy) {
                return;
            }
            if let Notification::Updated { old, new } = &notification
                && old.meta().uid != new.meta().uid
            {
                // Two incarnations, and the end of the first was not seen (K148).
                queue.add(AppKey::of(kind, &**old));
            }
            queue.add(AppKey::of(kind, &**object));
        });
        Watched::new(informer)
    }
}

fn pool_changed<V: Env>(queues: &Queues<V>, notification: &Notification<SpiderIPPool>, policy: &Policy) {
    let pool = notification.object();
    queues.pools.add(notification.key());
    let matters = match notification {
        Notification::Updated { old, new } => {
            // Records come and go with every pod, and do not concern the subnet.
            Arc::ptr_eq(old, new)
                || old.spec != new.spec
                || old.metadata.generation != new.metadata.generation
                || old.metadata.labels != new.metadata.labels
        }
        _ => true,
    };
    if !matters {
        return;
    }
    for owner in pool.metadata.owner_references.iter().flatten().filter(|owner| owner.kind == "SpiderSubnet") {
        queues.subnets.add(ObjectKey::cluster(&owner.name));
    }
    if let Some(subnet) = subnet_of(pool) {
        queues.subnets.add(ObjectKey::cluster(subnet));
    }
    // A resync brings nothing new, and each check of a workload costs two reads.
    let resync = matches!(notification, Notification::Updated { old, new } if Arc::ptr_eq(old, new));
    if resync || policy.application_given_up {
        return;
    }
    // A pool that was changed or deleted by hand is restored, too.
    let uid = label(pool, LABEL_OWNER_APPLICATION_UID);
    if let (Some(uid), Some(name)) = (uid, application_of(pool))
        && let Some(kind) = Kind::of(&name)
    {
        queues.apps.add(AppKey { kind: Some(kind), key: ObjectKey::namespaced(&name.namespace, &name.name), uid: uid.into() });
    }
}

/// Whether a queue of this length accepts another item; upstream accepts up to `limit`.
fn takes_in(length: usize, limit: usize, policy: &Policy) -> bool {
    !policy.full_queue_drops_event || length < limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_upstream_drops_what_does_not_fit() {
        let full = [9_999, 10_000];
        assert_eq!(full.map(|length| takes_in(length, 10_000, &Policy::hardened())), [true, true]);
        assert_eq!(full.map(|length| takes_in(length, 10_000, &Policy::upstream())), [true, false]);
    }
}
