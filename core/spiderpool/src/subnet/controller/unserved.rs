//! Workloads whose pool came and went unseen.
//!
//! A workload is queued when it changes and when its pool does. A pool that is made and deleted within one gap of the watch is never in the
//! cache, and its end is not reported. So each new subnet looks for workloads that want a pool of it and have none, and all subnets do so
//! at each resync.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::watch::Seen;
use super::{AppKey, Queues, SubnetController};
use crate::names::LABEL_OWNER_APPLICATION_UID;
use crate::subnet::kinds::{AppKind, Kind, ThirdParty};
use crate::subnet::observer::Observer;
use crate::subnet::pool::{is_for, label};
use crate::subnet::want::Want;
use crate::{SpiderIPPool, SpiderSubnet};
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::informer::{Notification, StoreReader};

impl<C: Client, V: Env, O: Observer, T: ThirdParty> SubnetController<C, V, O, T> {
    /// Queues workloads whose pools are missing; never ends. Upstream does not do this.
    pub(super) async fn look_for_unserved(&self, queues: &Queues<V>, seen: &Seen<V>) {
        let mut changes = seen.subnets.subscribe();
        while let Some(change) = changes.next().await {
            // A resync notifies about all subnets at once, and one look is enough for them.
            let rest = std::iter::from_fn(|| changes.try_next());
            let due = std::iter::once(change).chain(rest).filter(is_due).filter_map(|change| change.object().metadata.name.clone());
            let due: BTreeSet<String> = due.collect();
            if !due.is_empty() && !self.settings.policy.application_given_up {
                self.queue_unserved(&due, queues, seen);
            }
        }
        std::future::pending().await
    }

    /// Queues the workloads that ask for a pool of one of these subnets and have none, as the cache shows it. A deleted pool that the cache
    /// still shows queues its workload when its end is reported.
    fn queue_unserved(&self, subnets: &BTreeSet<String>, queues: &Queues<V>, seen: &Seen<V>) {
        let mut pools: BTreeMap<String, Vec<Arc<SpiderIPPool>>> = BTreeMap::new();
        seen.pools.store.for_each(|pool| {
            if let Some(uid) = label(pool, LABEL_OWNER_APPLICATION_UID) {
                pools.entry(uid.to_owned()).or_default().push(Arc::clone(pool));
            }
        });
        let is_missing = |want: Want<'_>| {
            let own = pools.get(&want.application.uid);
            subnets.contains(&want.demand.subnet) && !own.is_some_and(|own| own.iter().any(|pool| is_for(pool, &want)))
        };
        self.queue_unserved_of(Kind::Deployment, &seen.deployments.store, &is_missing, queues);
        self.queue_unserved_of(Kind::ReplicaSet, &seen.replica_sets.store, &is_missing, queues);
        self.queue_unserved_of(Kind::StatefulSet, &seen.stateful_sets.store, &is_missing, queues);
        self.queue_unserved_of(Kind::DaemonSet, &seen.daemon_sets.store, &is_missing, queues);
        self.queue_unserved_of(Kind::Job, &seen.jobs.store, &is_missing, queues);
        self.queue_unserved_of(Kind::CronJob, &seen.cron_jobs.store, &is_missing, queues);
    }

    fn queue_unserved_of<K: AppKind>(&self, kind: Kind, store: &StoreReader<K>, is_missing: &dyn Fn(Want<'_>) -> bool, queues: &Queues<V>) {
        store.for_each(|object| {
            let application = object.application();
            let demands = object.demands(&self.select).unwrap_or_default();
            if demands.iter().any(|demand| is_missing(Want { application: &application, demand })) {
                queues.apps.add(AppKey::of(kind, &**object));
            }
        });
    }
}

/// Whether a subnet is due: it is new, or this is a resync. A subnet that exists at the start is not: every workload is checked then.
fn is_due(change: &Notification<SpiderSubnet>) -> bool {
    let is_it = match change {
        Notification::Added { initial, .. } => !initial,
        Notification::Updated { old, new } => Arc::ptr_eq(old, new) || old.metadata.uid != new.metadata.uid,
        Notification::Deleted { .. } | Notification::DeletedFinalStateUnknown { .. } => false,
    };
    is_it && change.object().metadata.deletion_timestamp.is_none()
}
