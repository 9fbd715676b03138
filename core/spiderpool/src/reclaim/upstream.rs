//! Upstream's way to walk all records, one by one, and to act: on state that was read before, by name, records first; and its sweep of
//! outdated endpoints (G §3.5, §4.2).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::caches::Caches;
use super::entry::PodEntry;
use super::error::ReclaimError;
use super::observer::{Observer, Releaser, ScanCounts, Sight, Step, Target};
use super::outdated::{is_outdated, pools_of};
use super::process::Reclaim;
use super::record::Verdict;
use super::release::{Order, Permission, permitted};
use super::row::Row;
use super::scan::Scan;
use super::settle::Suspect;
use super::view::key_of_record;
use crate::ipam::{entries_of, uid_of};
use crate::join::join_all;
use crate::leadership::Leadership;
use crate::validity::Kept;
use crate::{Keeper, PoolIPAllocation, RecordKey, SpiderEndpoint, SpiderIPPool};
use kube_machinery::FxHashSet;
use kube_machinery::api::{ObjectKey, Preconditions};
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::informer::Digest;

/// The kinds of kept pods with all settings on.
const ANY: Kept = Kept { stateful_sets: true, vms: true };

impl<C: Client, V: Env, K: Caches, O: Observer> Reclaim<C, V, K, O> {
    /// Polls the leader flag until it has this value (`leader-flag-polled`).
    pub(super) async fn poll_until(&self, leadership: &Leadership, leading: bool) {
        while leadership.is_leading() != leading {
            self.env.sleep(self.config.settings.leader_poll).await;
        }
    }

    /// Whether a scan skips a pool: it has no IP version yet (`pools-without-version-skipped`).
    pub(super) fn skips(&self, pool: &SpiderIPPool) -> bool {
        self.config.policy.reclaim.pools_without_version_skipped && !matches!(pool.spec.ip_version, Some(4 | 6))
    }

    /// Walks both families concurrently (`families-race-on-endpoint`).
    pub(super) async fn walk_families(&self, scan: &Scan<'_>, pools: Vec<&Arc<SpiderIPPool>>) {
        let (of_v6, others) = pools.into_iter().partition::<Vec<_>, _>(|pool| pool.spec.ip_version == Some(6));
        join_all(vec![self.walk_one_by_one(scan, others), self.walk_one_by_one(scan, of_v6)]).await;
    }

    /// The walk: one record after the other, each read, decided and carried out before the next.
    async fn walk_one_by_one(&self, scan: &Scan<'_>, pools: Vec<&Arc<SpiderIPPool>>) {
        for pool in pools {
            let Some(records) = pool.status.as_ref().and_then(|status| status.allocated_ips.parse().ok()) else { continue };
            let name: Arc<str> = pool.metadata.name.as_deref().unwrap_or_default().into();
            // The map is persistent: this copies a few pointers.
            let records = records.clone();
            for (ip, record) in records.iter() {
                if self.is_plain(record) {
                    scan.lead_to(&record.pod);
                    scan.count(|counts| (counts.records, counts.kept) = (counts.records + 1, counts.kept + 1));
                    continue;
                }
                scan.count(|counts| counts.records += 1);
                self.look_at(scan, &name, ip, record).await;
            }
        }
    }

    /// Judges a record on the current caches, and acts.
    async fn look_at(&self, scan: &Scan<'_>, pool: &Arc<str>, ip: &RecordKey, record: &PoolIPAllocation) {
        let Some(key) = key_of_record(&record.pod) else { return };
        let facts = self.cached_facts(&record.pod, &record.pod_uid);
        if facts.endpoint.clone().there().is_some() {
            scan.lead_to(&record.pod);
        }
        let leading = scan.leadership.is_leading();
        let view = facts.view(&record.pod, &record.pod_uid, ip.address(), None);
        let verdict = self.judge(&facts, &view, leading).await;
        let sight = Sight::Cached;
        self.observer.observe(Step::RecordJudged { pool: Some(pool), record: &view, verdict: &verdict, sight, overrules: None });
        if verdict.track && leading {
            scan.count(|counts| counts.tracked += 1);
            self.track(scan.leadership, &facts).await;
        }
        if verdict.keeps_all() {
            return scan.count(|counts| counts.kept += 1);
        }
        let Some(ip) = ip.address() else { return };
        let suspect = Suspect {
            by: Releaser::Scan,
            key,
            uid: record.pod_uid.as_str().into(),
            records: vec![(pool.clone(), ip)],
            cached: verdict.release.then_some(verdict.row),
            due: None,
            whole: false,
            over: false,
        };
        let result = if self.config.policy.reclaim.scan_trusts_cached_pod {
            self.act(&suspect, &verdict).await
        } else {
            self.settle(&suspect, leading, &|| true).await.map(drop)
        };
        scan.count(|counts| match result {
            Ok(()) if verdict.release => counts.released += 1,
            Ok(()) => counts.kept += 1,
            Err(_) => counts.failed += 1,
        });
    }

    /// Stage 5 of a record: acts on the verdict, whatever has changed since.
    pub(super) async fn act(&self, suspect: &Suspect, verdict: &Verdict) -> Result<(), ReclaimError> {
        let failed = |error| ReclaimError::Endpoint { endpoint: suspect.key.clone(), error };
        let target = |(pool, ip): &(Arc<str>, _)| Target { pool: pool.clone(), ip: *ip, uid: suspect.uid.clone() };
        let what = if verdict.release { suspect.records.iter().map(target).collect() } else { vec![] };
        let endpoint = if verdict.endpoint { self.caches.endpoint(suspect.key.as_str()).map_err(failed)? } else { None };
        let order = Order { by: suspect.by, key: suspect.key.clone(), what, endpoint, row: verdict.row };
        self.carry_out(&order, &|| true).await
    }

    /// G C8: of the endpoints that no record led to, those are removed of which one pool has no record (`orphan-endpoint-kept`).
    pub(super) async fn sweep_outdated(&self, scan: &Scan<'_>, endpoints: &[Arc<SpiderEndpoint>], led: &FxHashSet<u64>) {
        let mut counts = ScanCounts::default();
        for endpoint in endpoints {
            let key = ObjectKey::of(&**endpoint);
            if led.contains(&Digest::<SpiderEndpoint>::hash_of(key.as_str())) {
                continue;
            }
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
        scan.count(|all| (all.swept, all.failed) = (counts.swept, all.failed + counts.failed));
    }

    /// A release with its records first (`records-before-endpoint`).
    pub(super) async fn write_records_first(&self, order: &Order, allowed: &dyn Permission) -> Result<(), ReclaimError> {
        let Order { by, key, what, endpoint, .. } = order;
        let failed = |error| ReclaimError::Endpoint { endpoint: key.clone(), error };
        let removed = self.remove_all(*by, what, allowed).await;
        if !self.config.policy.reclaim.endpoint_removed_after_failed_release {
            removed.clone()?;
        }
        let Some(endpoint) = endpoint else { return removed };
        permitted(allowed)?;
        // Executors leave it to Kubernetes to delete the endpoint of a pod whose place nobody keeps.
        let deletes = *by != Releaser::Trace || Keeper::of_endpoint(endpoint, ANY) != Keeper::Nobody;
        let marked = if deletes { self.marked(endpoint).await.map_err(failed)? } else { Some(endpoint.clone()) };
        if let Some(marked) = marked {
            self.finish(marked, allowed).await.map_err(failed)?;
        }
        removed
    }

    /// Works without tickets that were not granted, and returns them nevertheless (`ticket-released-ungranted`).
    pub(super) async fn remove_without_tickets(
        &self,
        pools: &[Arc<str>],
        grouped: &BTreeMap<(Arc<str>, Arc<str>), Vec<IpAddr>>,
        allowed: &dyn Permission,
    ) -> Result<(), ReclaimError> {
        let result = self.remove_grouped(grouped, allowed).await;
        self.limiter.give_back_ungranted(pools);
        result
    }

    /// The remaining preconditions of a mark: none with `finalizer-patch-by-name`, the UID with `endpoint-uid-precondition-only`.
    pub(super) fn loosened(&self, exact: Preconditions) -> Preconditions {
        let policy = &self.config.policy.reclaim;
        if policy.finalizer_patch_by_name {
            Preconditions::default()
        } else if policy.endpoint_uid_precondition_only {
            Preconditions { resource_version: None, ..exact }
        } else {
            exact
        }
    }

    /// The endpoint to be removed: the one that was judged, or the current one of the name, whatever pod's it is
    /// (`scan-trusts-cached-endpoint`).
    pub(super) async fn endpoint_to_go(
        &self,
        key: &ObjectKey,
        judged: Option<Arc<SpiderEndpoint>>,
    ) -> Result<Option<Arc<SpiderEndpoint>>, ReclaimError> {
        let policy = &self.config.policy.reclaim;
        if !policy.scan_trusts_cached_endpoint || policy.finalizer_patch_by_name {
            return Ok(judged);
        }
        let read = self.get::<SpiderEndpoint>(key).await;
        read.map_err(|error| ReclaimError::Endpoint { endpoint: key.clone(), error })
    }

    /// The endpoint of a traced pod, as the cache shows it, without which nothing is released (`trace-needs-endpoint`); otherwise the row
    /// that decides so.
    pub(super) fn endpoint_of(&self, entry: &PodEntry) -> Result<Result<Arc<SpiderEndpoint>, Row>, ReclaimError> {
        let failed = |error| ReclaimError::Endpoint { endpoint: entry.pod.clone(), error };
        Ok(match self.caches.endpoint(entry.pod.as_str()).map_err(failed)? {
            None => Err(Row::NoEndpoint),
            Some(found) if uid_of(&found) != &*entry.uid => Err(Row::EndpointOfAnother),
            Some(found) => Ok(found),
        })
    }

    /// XD-4: releases the addresses that the endpoint names, without any further check.
    pub(super) async fn release_unconfirmed(
        &self,
        entry: &PodEntry,
        cached: Option<Arc<SpiderEndpoint>>,
        allowed: &(impl Fn() -> bool + Sync),
    ) -> Result<Row, ReclaimError> {
        let endpoint = match cached {
            Some(endpoint) => Some(endpoint),
            None => {
                let read = self.get::<SpiderEndpoint>(&entry.key).await;
                read.map_err(|error| ReclaimError::Endpoint { endpoint: entry.key.clone(), error })?
            }
        };
        let endpoint = endpoint.filter(|endpoint| uid_of(endpoint) == &*entry.uid);
        let mut what = endpoint.as_deref().map(entries_of).unwrap_or_default();
        if !self.config.policy.reclaim.trace_needs_endpoint {
            what.extend(self.strays(&entry.key, &entry.uid));
        }
        let mut what: Vec<Target> = what.into_iter().map(|(pool, ip)| Target { pool, ip, uid: entry.uid.clone() }).collect();
        what.sort();
        what.dedup();
        let row = Row::EndpointMatches;
        let order = Order { by: Releaser::Trace, key: entry.key.clone(), what, endpoint, row };
        self.carry_out(&order, allowed).await?;
        Ok(row)
    }
}
