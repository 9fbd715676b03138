//! From a suspicion to a release: a suspect found in the caches is judged on the API server's state (D §1.3.3).

use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};

use super::caches::{Caches, cached_node, cached_pod};
use super::error::ReclaimError;
use super::event::{Circumstances, ended, keeper_of_endpoint};
use super::node::NodeState;
use super::observer::{Observer, Releaser, Sight, Step, Target};
use super::process::Reclaim;
use super::record::{Judgement, Verdict, judge_record};
use super::release::{Order, Permission};
use super::row::Row;
use super::view::{RecordView, Seen, is_ending, key_of_record, seen};
use crate::ipam::{entries_of, recorded, uid_of};
use crate::validity::may_run;
use crate::{Keeper, SpiderEndpoint, SpiderIPPool};
use kube_machinery::api::{ApiError, ObjectKey};
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::kubevirt::{PodsOf, VirtualMachineInstance};

/// The maximum number of decisions about one release; it is decided again if the endpoint changed between decision and mark.
const ATTEMPTS: u32 = 3;

/// A pod whose entitlement to its addresses seems to have ended.
#[derive(Clone, Debug)]
pub(super) struct Suspect {
    pub(super) by: Releaser,
    /// The name of its records and its endpoint.
    pub(super) key: ObjectKey,
    pub(super) uid: Arc<str>,
    /// The records that made it a suspect; if empty, only its endpoint did.
    pub(super) records: Vec<(Arc<str>, IpAddr)>,
    /// The row by which the caches would release its records, if they decide that alone.
    pub(super) cached: Option<Row>,
    /// The deadline, if it is known from tracing.
    pub(super) due: Option<Timestamp>,
    /// Whether all records of the UID are removed at once, or only these.
    pub(super) whole: bool,
    /// Whether events showed how the pod vanished, and that its containers have ended by now, whatever the cache shows.
    pub(super) over: bool,
}

/// A record of a suspect.
#[derive(Clone, Debug)]
struct Recorded {
    pool: Arc<str>,
    ip: IpAddr,
    /// Whether its pool was an auto pool in deletion when it was read, as [`RecordView::pool_ends`] says.
    pool_ends: bool,
}

/// The input of a decision.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) pod: Seen<Arc<Pod>>,
    pub(super) endpoint: Seen<Arc<SpiderEndpoint>>,
    /// The node as the API server has it; `None` = as the cache has it.
    pub(super) node: Option<NodeState>,
    /// The UIDs of pods that the API server no longer has, while the cache shows them with running containers: how they ended is not known
    /// yet. Besides the pod in question it may be the one that has the endpoint by now.
    pub(super) vanished: Vec<Arc<str>>,
    /// The UID of a pod of which events showed how it ended, and that nothing of it runs any more.
    pub(super) over: Option<Arc<str>>,
}

impl Facts {
    pub(super) fn view<'a>(&'a self, key: &'a str, uid: &'a str, ip: Option<IpAddr>, due: Option<Timestamp>) -> RecordView<'a> {
        let pod = by_ref(&self.pod).map(|pod| &**pod);
        let endpoint = by_ref(&self.endpoint).map(|endpoint| &**endpoint);
        RecordView { key, uid, ip, pod, endpoint, pool_ends: false, due }
    }
}

fn by_ref<T>(seen: &Seen<T>) -> Seen<&T> {
    match seen {
        Seen::There(object) => Seen::There(object),
        Seen::Nothing => Seen::Nothing,
        Seen::Unreadable => Seen::Unreadable,
    }
}

fn cloned<T: Clone>(read: Result<Option<T>, ApiError>) -> Seen<T> {
    seen(&read).map(T::clone)
}

impl<C: Client, V: Env, K: Caches, O: Observer> Reclaim<C, V, K, O> {
    /// Calls `decide` with the current context of a decision.
    pub(super) fn under<T>(&self, leading: bool, facts: Option<&Facts>, decide: impl FnOnce(&Circumstances<'_>) -> T) -> T {
        let now = self.env.wall();
        let of_node = |name: &str| facts.and_then(|facts| facts.node).unwrap_or_else(|| cached_node(&self.caches, name));
        let has_vanished = |uid: &str| facts.is_some_and(|facts| facts.vanished.iter().any(|of| **of == *uid));
        // The information from events and from the cache are both bounds: the earlier one holds.
        let is_over = |uid: &str| facts.is_some_and(|facts| facts.over.as_deref() == Some(uid));
        let runs_until = |uid: &str| {
            let by_cache = || self.caches.runs_until(uid).or_else(|| has_vanished(uid).then_some(now));
            if is_over(uid) { None } else { by_cache() }
        };
        let (settings, policy) = (&self.config.settings, &self.config.policy);
        decide(&Circumstances { now, leading, settings, policy, node: &of_node, runs_until: &runs_until })
    }

    /// The facts that the caches show.
    pub(super) fn cached_facts(&self, key: &str, uid: &str) -> Facts {
        // The order in which upstream reads.
        let endpoint = cloned(self.caches.endpoint(key));
        let pod = cached_pod(&self.caches, key, uid, &self.config.settings, &self.config.policy);
        Facts { pod: cloned(pod), endpoint, node: None, vanished: Vec::new(), over: None }
    }

    /// The facts from the API server: pod, endpoint and, if it may matter, node.
    async fn confirmed_facts(&self, key: &ObjectKey, uid: &str) -> Result<Facts, ReclaimError> {
        // No object has an empty name, and a GET without a name would be a LIST.
        if key.namespace().is_none_or(str::is_empty) || key.name().is_empty() {
            return Ok(Facts { pod: Seen::Nothing, endpoint: Seen::Nothing, node: None, vanished: Vec::new(), over: None });
        }
        let endpoint = if self.config.policy.reclaim.scan_trusts_cached_endpoint {
            cloned(self.caches.endpoint(key.as_str()))
        } else {
            let read = self.get::<SpiderEndpoint>(key).await;
            cloned(Ok(read.map_err(|error| ReclaimError::Endpoint { endpoint: key.clone(), error })?))
        };
        let named = self.get::<Pod>(key).await.map_err(|error| ReclaimError::Reading { what: "Pod", error })?;
        let of_vm = match &endpoint {
            Seen::There(endpoint) if named.as_ref().is_none_or(|pod| pod.metadata.uid.as_deref() != Some(uid)) => {
                self.pod_of_vm(key, uid, endpoint).await?
            }
            _ => None,
        };
        let pod = of_vm.or(named);
        let node = match &pod {
            Some(pod) if pod.metadata.deletion_timestamp.is_some() || ended(pod).is_some() => Some(self.confirmed_node(pod).await?),
            _ => None,
        };
        let is_there = |uid: &str| pod.as_ref().is_some_and(|pod| pod.metadata.uid.as_deref() == Some(uid));
        let of_endpoint = by_ref(&endpoint).there().map(|endpoint| uid_of(endpoint)).filter(|of| *of != uid);
        let of_both = [Some(uid), of_endpoint].into_iter().flatten();
        let vanished = of_both.filter(|uid| !is_there(uid) && self.is_shown_running(key, uid)).map(Arc::from).collect();
        Ok(Facts { pod: cloned(Ok(pod)), endpoint, node, vanished, over: None })
    }

    /// Whether the cache shows a pod whose containers run.
    fn is_shown_running(&self, key: &ObjectKey, uid: &str) -> bool {
        let (settings, policy) = (&self.config.settings, &self.config.policy);
        let shown = cached_pod(&self.caches, key.as_str(), uid, settings, policy);
        shown.is_ok_and(|pod| pod.is_some_and(|pod| pod.metadata.uid.as_deref() == Some(uid) && may_run(&pod)))
    }

    /// The pod of a VM, whose name differs from that of its records and its endpoint, as the API server has it.
    async fn pod_of_vm(&self, key: &ObjectKey, uid: &str, endpoint: &SpiderEndpoint) -> Result<Option<Arc<Pod>>, ReclaimError> {
        let is_of_vm = self.under(false, None, |it| keeper_of_endpoint(endpoint, it)) == Keeper::Vm;
        if !is_of_vm || self.config.policy.reclaim.vm_pod_sought_by_record {
            return Ok(None);
        }
        let has_uid = |pod: &Arc<Pod>| pod.metadata.uid.as_deref() == Some(uid);
        let failed = |error| ReclaimError::Reading { what: "Pod", error };
        if let Some(known) = self.caches.pod_of_vm(uid).map_err(failed)? {
            return Ok(self.get::<Pod>(&ObjectKey::of(&*known)).await.map_err(failed)?.filter(has_uid));
        }
        // A pod that the cache does not show may be gone, or not be shown yet.
        let instance = self.get::<VirtualMachineInstance>(key).await;
        let instance = instance.map_err(|error| ReclaimError::Reading { what: "VirtualMachineInstance", error })?;
        Ok(self.list(PodsOf::new(key, instance.as_deref())).await.map_err(failed)?.into_iter().find(has_uid))
    }

    /// The node of a pod, as the API server has it.
    pub(super) async fn confirmed_node(&self, pod: &Pod) -> Result<NodeState, ReclaimError> {
        let name = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
        if name.is_empty() {
            return Ok(NodeState::Gone);
        }
        let node = self.get::<Node>(&ObjectKey::cluster(name)).await;
        let node = node.map_err(|error| ReclaimError::Reading { what: "Node", error })?;
        Ok(node.map_or(NodeState::Gone, |node| NodeState::of(&node)))
    }

    /// Decides about one record, and asks all questions that arise.
    ///
    /// # Panics
    /// If upstream's process crashes ([`Env::crash`]), with the mutation that causes it.
    pub(super) async fn judge(&self, facts: &Facts, record: &RecordView<'_>, leading: bool) -> Verdict {
        let mut answers = Vec::new();
        loop {
            match self.under(leading, Some(facts), |it| judge_record(record, it, &answers)) {
                Judgement::Ask(question) => answers.push(self.ask(&question).await),
                Judgement::Done(verdict) => return verdict,
                Judgement::Crash(row) => self.env.crash(row.sentence()),
            }
        }
    }

    /// The records for a UID in the caches.
    pub(super) fn strays(&self, key: &ObjectKey, uid: &str) -> Vec<(Arc<str>, IpAddr)> {
        let mut found = Vec::new();
        for pool in self.caches.pools().unwrap_or_default() {
            for (ip, _) in recorded(&pool, Some(key), uid) {
                found.push((Arc::from(pool.metadata.name.as_deref().unwrap_or_default()), ip));
            }
        }
        found
    }

    /// The records of these that the API server has as well.
    async fn confirmed_records(&self, key: &ObjectKey, uid: &str, known: &[(Arc<str>, IpAddr)]) -> Result<Vec<Recorded>, ReclaimError> {
        let mut confirmed = Vec::new();
        let mut read: Option<(Arc<str>, Option<Arc<SpiderIPPool>>)> = None;
        for (name, ip) in known {
            if read.as_ref().is_none_or(|(known, _)| known != name) {
                let pool = self.get::<SpiderIPPool>(&ObjectKey::cluster(name)).await;
                read = Some((name.clone(), pool.map_err(|error| ReclaimError::Reading { what: "SpiderIPPool", error })?));
            }
            let Some((_, Some(pool))) = &read else { continue };
            let Some(records) = pool.status.as_ref().and_then(|status| status.allocated_ips.parse().ok()) else { continue };
            if records.get(*ip).is_some_and(|record| key_of_record(&record.pod).as_ref() == Some(key) && record.pod_uid == uid) {
                confirmed.push(Recorded { pool: name.clone(), ip: *ip, pool_ends: is_ending(pool) });
            }
        }
        Ok(confirmed)
    }

    /// Judges a suspect, and releases what the verdict removes. `None` = nothing.
    ///
    /// # Errors
    /// Something could not be read or written: retry later.
    pub(super) async fn settle(&self, suspect: &Suspect, leading: bool, allowed: &dyn Permission) -> Result<Verdict, ReclaimError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let (verdict, order) = self.decide(suspect, leading).await?;
            let Some(order) = order else { return Ok(verdict) };
            match self.carry_out(&order, allowed).await {
                Err(error) if error.is_conflict() && attempts < ATTEMPTS => {}
                result => return result.map(|()| verdict),
            }
        }
    }

    /// Reads the facts on which a suspect is judged: from the API server, or from the caches (`scan-trusts-cached-pod`).
    async fn look_again(&self, suspect: &Suspect) -> Result<(Vec<Recorded>, Facts, Sight), ReclaimError> {
        let Suspect { by, key, uid, .. } = suspect;
        let mut known = suspect.records.clone();
        if suspect.whole {
            known.extend(self.strays(key, uid));
            known.sort();
            known.dedup();
        }
        if self.config.policy.reclaim.scan_trusts_cached_pod && *by != Releaser::Trace {
            let known = known.into_iter().map(|(pool, ip)| Recorded { pool, ip, pool_ends: false });
            return Ok((known.collect(), self.cached_facts(without_bare_slash(key), uid), Sight::Cached));
        }
        Ok((self.confirmed_records(key, uid, &known).await?, self.confirmed_facts(key, uid).await?, Sight::Confirmed))
    }

    async fn decide(&self, suspect: &Suspect, leading: bool) -> Result<(Verdict, Option<Order>), ReclaimError> {
        let Suspect { by, key, uid, due, .. } = suspect;
        let (records, mut facts, sight) = self.look_again(suspect).await?;
        facts.over = suspect.over.then(|| uid.clone());
        let about_endpoint = records.is_empty().then_some(None);
        let cases = records.iter().map(Some).chain(about_endpoint);
        let (mut what, mut decisive, mut kept, mut endpoint_goes) = (Vec::new(), None::<Verdict>, None::<Verdict>, false);
        for recorded in cases {
            let (pool, ip) = (recorded.map(|recorded| &recorded.pool), recorded.map(|recorded| recorded.ip));
            let pool_ends = recorded.is_some_and(|recorded| recorded.pool_ends);
            let record = RecordView { pool_ends, ..facts.view(without_bare_slash(key), uid, ip, *due) };
            let verdict = self.judge(&facts, &record, leading).await;
            let overrules = suspect.cached.filter(|_| sight == Sight::Confirmed && !verdict.release);
            let pool_name = pool.map(|pool| &**pool);
            self.observer.observe(Step::RecordJudged { pool: pool_name, record: &record, verdict: &verdict, sight, overrules });
            endpoint_goes |= verdict.endpoint;
            if let (true, Some(pool), Some(ip)) = (verdict.release, pool, ip) {
                what.push(Target { pool: pool.clone(), ip, uid: uid.clone() });
            }
            if !verdict.release && ip.is_some_and(|ip| by_ref(&facts.endpoint).there().is_some_and(|endpoint| is_named(endpoint, ip))) {
                kept = Some(verdict);
            }
            if decisive.is_none_or(|decisive| decisive.keeps_all()) {
                decisive = Some(verdict);
            }
        }
        // The owner was read for each record, and exists again: all records are removed with the endpoint, or none.
        if let Some(kept) = kept.filter(|_| suspect.whole && endpoint_goes) {
            return Ok((kept, None));
        }
        let verdict = decisive.expect("there is at least one case");
        let endpoint = if endpoint_goes { self.endpoint_to_go(key, facts.endpoint.there()).await? } else { None };
        if suspect.whole {
            if let Some(endpoint) = &endpoint {
                let uid: Arc<str> = uid_of(endpoint).into();
                what.extend(entries_of(endpoint).into_iter().map(|(pool, ip)| Target { pool, ip, uid: uid.clone() }));
            }
            what.sort();
            what.dedup();
        }
        let nothing = what.is_empty() && endpoint.is_none();
        let order = (!nothing).then(|| Order { by: *by, key: key.clone(), what, endpoint, row: verdict.row });
        Ok((verdict, order))
    }
}

/// Whether an endpoint names an address.
fn is_named(endpoint: &SpiderEndpoint, ip: IpAddr) -> bool {
    entries_of(endpoint).iter().any(|(_, named)| *named == ip)
}

/// The key in the form of a record: one without a namespace has no slash.
pub(super) fn without_bare_slash(key: &ObjectKey) -> &str {
    key.as_str().strip_prefix('/').unwrap_or(key.as_str())
}
