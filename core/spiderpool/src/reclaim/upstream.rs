//! Upstream's way to act: on what was read before, by name, and its sweep of outdated endpoints (G §3.5, §4.2).

use std::sync::Arc;

use super::caches::Caches;
use super::error::ReclaimError;
use super::observer::{Observer, Releaser, ScanCounts, Target};
use super::outdated::{is_outdated, pools_of};
use super::process::Reclaim;
use super::record::Verdict;
use super::release::Order;
use super::row::Row;
use super::settle::Suspect;
use crate::{SpiderEndpoint, SpiderIPPool};
use kube_machinery::api::ObjectKey;
use kube_machinery::client::Client;
use kube_machinery::env::Env;

impl<C: Client, V: Env, K: Caches, O: Observer> Reclaim<C, V, K, O> {
    /// Stage 5 of a record: acts on what was judged, whatever has changed since.
    pub(super) async fn act(&self, suspect: &Suspect, verdict: &Verdict) -> Result<(), ReclaimError> {
        let failed = |error| ReclaimError::Endpoint { endpoint: suspect.key.clone(), error };
        let target = |(pool, ip): &(Arc<str>, _)| Target { pool: pool.clone(), ip: *ip, uid: suspect.uid.clone() };
        let what = if verdict.release { suspect.records.iter().map(target).collect() } else { vec![] };
        let endpoint = if verdict.endpoint { self.caches.endpoint(suspect.key.as_str()).map_err(failed)? } else { None };
        let order = Order { by: suspect.by, key: suspect.key.clone(), what, endpoint, row: verdict.row };
        self.carry_out(&order, &|| true).await
    }

    /// C8: of the endpoints that no record led to, those go of which one pool has no record.
    pub(super) async fn sweep_outdated(&self, endpoints: impl Iterator<Item = &Arc<SpiderEndpoint>> + Send, counts: &mut ScanCounts) {
        for endpoint in endpoints {
            let key = ObjectKey::of(&**endpoint);
            for pool in pools_of(endpoint) {
                let Ok(Some(pool)) = self.get::<SpiderIPPool>(&ObjectKey::cluster(pool)).await else { continue };
                if !is_outdated(&key, &pool) {
                    continue;
                }
                let Ok(Some(endpoint)) = self.get::<SpiderEndpoint>(&key).await else { continue };
                let (what, endpoint) = (vec![], Some(endpoint));
                let order = Order { by: Releaser::Sweep, key: key.clone(), what, endpoint, row: Row::SweepOrphan };
                match self.carry_out(&order, &|| true).await {
                    Ok(()) => counts.swept += 1,
                    Err(_) => counts.failed += 1,
                }
            }
        }
    }
}
