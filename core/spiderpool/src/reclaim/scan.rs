//! The scan of all records, and of the endpoints that no record leads to (G §1.5, §3.3, §3.5).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use super::caches::Caches;
use super::event::{Event, Meaning, judge_event};
use super::observer::{Observer, Releaser, ScanCause, ScanCounts, Sight, Step};
use super::process::Reclaim;
use super::record::{Judgement, Verdict, judge_record};
use super::row::Row;
use super::settle::{Facts, Suspect};
use super::view::{RecordView, is_ending, key_of_record};
use crate::ipam::{has_finalizer, is_terminating, uid_of};
use crate::leadership::Leadership;
use crate::{PoolIPAllocation, SpiderEndpoint, SpiderIPPool};
use kube_machinery::FxHashSet;
use kube_machinery::api::ObjectKey;
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::informer::Digest;

/// A pod by the name of its records and its UID.
type Whose = (ObjectKey, Arc<str>);

/// One scan in progress.
pub(super) struct Scan<'a> {
    pub(super) leadership: &'a Leadership,
    counts: Mutex<ScanCounts>,
    /// The endpoints that a record led to, by the hash of their key: a collision is next to impossible, and its price would be an orphan
    /// that stays.
    led: Mutex<FxHashSet<u64>>,
}

/// Records that are not simply kept by the state of the caches.
#[derive(Default)]
struct Suspected {
    records: Vec<(Arc<str>, IpAddr)>,
    /// The row by which the caches would release the first of them that they would release.
    cached: Option<Row>,
}

/// The findings of a walk.
#[derive(Default)]
struct Found {
    suspects: BTreeMap<Whose, Suspected>,
    to_track: BTreeMap<Whose, Facts>,
    led: FxHashSet<u64>,
    counts: ScanCounts,
}

impl Scan<'_> {
    pub(super) fn count(&self, count: impl FnOnce(&mut ScanCounts)) {
        count(&mut self.counts.lock().unwrap());
    }

    pub(super) fn lead_to(&self, key: &str) {
        self.led.lock().unwrap().insert(Digest::<SpiderEndpoint>::hash_of(key));
    }
}

impl<C: Client, V: Env, K: Caches, O: Observer> Reclaim<C, V, K, O> {
    /// Scans all records once, and releases those that leaked. The leader also has pods traced whose time is not over.
    pub async fn scan(&self, leadership: &Leadership, cause: ScanCause) -> ScanCounts {
        let since = self.env.monotonic();
        self.observer.observe(Step::ScanBegun { cause, leading: leadership.is_leading() });
        let scan = Scan { leadership, counts: Mutex::default(), led: Mutex::default() };
        self.scan_all(&scan).await;
        let counts = scan.counts.into_inner().unwrap();
        let took = self.env.monotonic().saturating_sub(since);
        self.observer.observe(Step::ScanEnded { counts: &counts, took });
        counts
    }

    async fn scan_all(&self, scan: &Scan<'_>) {
        let policy = &self.config.policy.reclaim;
        // With a census it is known after the walk whether anything has to be swept.
        let (keeps_orphans, cleans) = (policy.orphan_endpoint_kept, self.config.settings.clean_outdated_endpoints);
        let census = self.caches.endpoint_census().filter(|_| !(keeps_orphans && cleans));
        let ends = |failed: bool| {
            if failed {
                scan.count(|counts| counts.incomplete = true);
            }
            failed && policy.one_list_error_ends_scan
        };
        let endpoints = if census.is_some() { Ok(vec![]) } else { self.caches.endpoints() };
        if ends(endpoints.is_err()) {
            return;
        }
        let pools = self.caches.pools();
        if ends(pools.is_err()) {
            return;
        }
        let all_known = pools.is_ok();
        let pools: Vec<Arc<SpiderIPPool>> = pools.unwrap_or_default();
        let walked: Vec<&Arc<SpiderIPPool>> = pools.iter().filter(|pool| !self.skips(pool)).collect();
        scan.count(|counts| counts.pools = walked.len() as u64);
        if policy.families_race_on_endpoint {
            self.walk_families(scan, walked).await;
        } else {
            self.walk(scan, &walked).await;
        }
        let led = std::mem::take(&mut *scan.led.lock().unwrap());
        if !keeps_orphans {
            if census == Some((led.len(), 0)) {
                return;
            }
            let endpoints = if census.is_some() { self.caches.endpoints() } else { endpoints };
            // Without the pools it is unknown which endpoints records lead to; a marked endpoint is known to be removed.
            self.sweep(scan, &endpoints.unwrap_or_default(), all_known.then_some(&led)).await;
        } else if cleans {
            self.sweep_outdated(scan, &endpoints.unwrap_or_default(), &led).await;
        }
    }

    /// The hardened walk: all records at one moment, then the suspected ones, pod by pod.
    async fn walk(&self, scan: &Scan<'_>, pools: &[&Arc<SpiderIPPool>]) {
        let mut found = Found::default();
        pools.iter().for_each(|pool| self.look_into(scan, pool, &mut found));
        let Found { suspects, to_track, led, counts } = found;
        *scan.led.lock().unwrap() = led;
        scan.count(|all| (all.records, all.kept, all.tracked) = (counts.records, counts.kept, counts.tracked));
        for facts in to_track.into_values() {
            self.track(scan.leadership, &facts).await;
        }
        for ((key, uid), Suspected { records, cached }) in suspects {
            let number = records.len() as u64;
            let suspect = Suspect { by: Releaser::Scan, key, uid, records, cached, due: None, whole: true, over: false };
            match self.settle(&suspect, scan.leadership.is_leading(), &|| true).await {
                Ok(verdict) if verdict.release => scan.count(|counts| counts.released += number),
                Ok(verdict) => {
                    scan.count(|counts| counts.kept += number);
                    if verdict.track && scan.leadership.is_leading() {
                        scan.count(|counts| counts.tracked += number);
                        let facts = self.cached_facts(suspect.key.as_str(), &suspect.uid);
                        self.track(scan.leadership, &facts).await;
                    }
                }
                Err(_) => scan.count(|counts| counts.failed += number),
            }
        }
    }

    /// Judges the records of a pool on the current caches. A quick check is enough for most.
    fn look_into(&self, scan: &Scan<'_>, pool: &SpiderIPPool, found: &mut Found) {
        let Some(records) = pool.status.as_ref().and_then(|status| status.allocated_ips.parse().ok()) else { return };
        let name: Arc<str> = pool.metadata.name.as_deref().unwrap_or_default().into();
        let leading = scan.leadership.is_leading();
        found.led.reserve(records.len());
        for (ip, record) in records.iter() {
            found.counts.records += 1;
            if ip.address().is_none() {
                // A release names an address, so nothing ever removes this record.
                found.led.insert(Digest::<SpiderEndpoint>::hash_of(&record.pod));
                found.counts.kept += 1;
                let facts = self.cached_facts(&record.pod, &record.pod_uid);
                let (record, verdict) = (facts.view(&record.pod, &record.pod_uid, None, None), Verdict::keep(Row::NoAddress));
                let sight = Sight::Cached;
                self.observer.observe(Step::RecordJudged { pool: Some(&name), record: &record, verdict: &verdict, sight, overrules: None });
                continue;
            }
            if self.is_plain(record) {
                found.led.insert(Digest::<SpiderEndpoint>::hash_of(&record.pod));
                found.counts.kept += 1;
                continue;
            }
            let facts = self.cached_facts(&record.pod, &record.pod_uid);
            let view = RecordView { pool_ends: is_ending(pool), ..facts.view(&record.pod, &record.pod_uid, ip.address(), None) };
            if view.endpoint.there().is_some() {
                found.led.insert(Digest::<SpiderEndpoint>::hash_of(&record.pod));
            }
            let mut cached = None;
            let verdict = match self.under(leading, None, |it| judge_record(&view, it, &[])) {
                // The pod is gone, and only the cache does not show the endpoint's state: the API server has it.
                Judgement::Done(verdict) if verdict.row == Row::EndpointUnreadable => None,
                Judgement::Done(verdict) if verdict.keeps_all() => Some(verdict),
                Judgement::Done(verdict) => {
                    cached = verdict.release.then_some(verdict.row);
                    None
                }
                Judgement::Ask(_) => None,
                Judgement::Crash(row) => self.env.crash(row.sentence()),
            };
            let whose = || key_of_record(&record.pod).map(|key| (key, Arc::from(&*record.pod_uid)));
            if let Some(verdict) = verdict {
                found.counts.kept += 1;
                let sight = Sight::Cached;
                self.observer.observe(Step::RecordJudged { pool: Some(&name), record: &view, verdict: &verdict, sight, overrules: None });
                if verdict.track
                    && leading
                    && let Some(whose) = whose()
                {
                    found.counts.tracked += 1;
                    found.to_track.insert(whose, facts);
                }
            } else if let (Some(whose), Some(ip)) = (whose(), ip.address()) {
                let suspected = found.suspects.entry(whose).or_default();
                suspected.records.push((name.clone(), ip));
                suspected.cached = suspected.cached.or(cached);
            }
        }
    }

    /// Whether a quick check is enough: pod and endpoint have the UID of the record, and both are alive.
    pub(super) fn is_plain(&self, record: &PoolIPAllocation) -> bool {
        !self.config.policy.reclaim.half_written_endpoint_frees && self.caches.is_plain(&record.pod, &record.pod_uid)
    }

    /// Starts tracing a pod that a scan found.
    pub(super) async fn track(&self, leadership: &Leadership, facts: &Facts) {
        let Some(pod) = facts.pod.clone().there() else { return };
        let known = {
            let uid = pod.metadata.uid.as_deref().unwrap_or_default();
            self.database.lock().unwrap().of(ObjectKey::of(&*pod).as_str(), uid).is_some()
        };
        // The known entry has the earlier deadline.
        if known && !self.config.policy.reclaim.database_keyed_by_name {
            return;
        }
        let _ = self.take_event(leadership, &Event::Added(&pod)).await;
    }

    /// Judges an event of a pod, and has the pod traced if the event requires it.
    ///
    /// # Errors
    /// It could not be judged: the row.
    ///
    /// # Panics
    /// If upstream's process crashes ([`Env::crash`]), with the mutation that causes it.
    pub async fn take_event(&self, leadership: &Leadership, event: &Event<'_>) -> Result<(), Row> {
        let mut answers = Vec::new();
        let meaning = loop {
            match self.under(leadership.is_leading(), None, |it| judge_event(event, it, &answers)) {
                Meaning::Ask(question) => answers.push(self.ask(&question).await),
                meaning => break meaning,
            }
        };
        self.observer.observe(Step::EventJudged { event, meaning: &meaning });
        match meaning {
            Meaning::Enter(entry, _) => self.enter(*entry),
            Meaning::Lost(row) => return Err(row),
            Meaning::Crash(row) => self.env.crash(row.sentence()),
            Meaning::Ignore(_) | Meaning::Ask(_) => {}
        }
        Ok(())
    }

    /// The hardened sweep: marked endpoints, and those that no record leads to, if that is known.
    async fn sweep(&self, scan: &Scan<'_>, endpoints: &[Arc<SpiderEndpoint>], led: Option<&FxHashSet<u64>>) {
        let leading = scan.leadership.is_leading();
        for endpoint in endpoints {
            let marked = is_terminating(endpoint) && has_finalizer(endpoint);
            let key = ObjectKey::of(&**endpoint);
            if !marked && led.is_none_or(|led| led.contains(&Digest::<SpiderEndpoint>::hash_of(key.as_str()))) {
                continue;
            }
            let facts = self.cached_facts(key.as_str(), uid_of(endpoint));
            let view = facts.view(key.as_str(), uid_of(endpoint), None, None);
            let judgement = self.under(leading, None, |it| judge_record(&view, it, &[]));
            if matches!(judgement, Judgement::Done(Verdict { endpoint: false, .. })) {
                continue;
            }
            let uid = uid_of(endpoint).into();
            let suspect = Suspect { by: Releaser::Sweep, key, uid, records: vec![], cached: None, due: None, whole: true, over: false };
            match self.settle(&suspect, leading, &|| true).await {
                Ok(verdict) => scan.count(|counts| counts.swept += u64::from(verdict.endpoint)),
                Err(_) => scan.count(|counts| counts.failed += 1),
            }
        }
    }
}
