//! ADD (A §5.2).
//!
//! ```text
//!   pod, owner ── endpoint ──► its addresses may be used again? ──► records verified ──► endpoint ──► answer
//!                     └──────► pools selected ──► addresses allocated ──────────────────────────┘
//! ```
//!
//! Each round works on one state of the endpoint. When its write shows that the state has changed, the next round reads the API server's;
//! addresses that were allocated meanwhile are found again by their records.

mod attempt;
mod auto_pools;
mod fresh;
mod reuse;
mod static_reuse;
mod upstream;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use attempt::{Add, GivenUp, Ledger, Setback};
use static_reuse::StaticReuse;
use upstream::shown;

use crate::ipam::agent::Agent;
use crate::ipam::allocated_ip::{AllocatedIp, stored};
use crate::ipam::answer::AddAnswer;
use crate::ipam::caches::Caches;
use crate::ipam::endpoints::{
    EndpointOwnership, avoided, entries, entries_of, goes_with_pod, is_ended, is_terminating, uid_of, without_addresses,
};
use crate::ipam::error::IpamError;
use crate::ipam::observer::{Cause, Observer, Step};
use crate::ipam::op::{Op, distinct};
use crate::ipam::request::AddRequest;
use crate::ranges::IpVersion;
use crate::select::{self, FIRST_NIC, SelectError, TopController, Workload, is_alive, is_nameless};
use crate::validity::Keeper;
use crate::{IPAllocationDetail, SpiderEndpoint};
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::race::{Either, race};

impl<C: Client, V: Env, K: Caches, O: Observer> Agent<C, V, K, O> {
    /// Gives a NIC of a pod its addresses (A §5.2).
    ///
    /// # Errors
    /// The NIC has none now. The runtime should retry.
    pub async fn add(&self, request: &AddRequest) -> Result<AddAnswer, IpamError> {
        let began = self.env.monotonic();
        self.observer.observe(Step::AddBegun { request });
        let deadline = self.end(request.deadline).filter(|_| !self.config.policy.limiter_ignores_deadline);
        let op = Op::new(self, &request.pod_uid, deadline);
        let mut uid: Arc<str> = "".into();
        let result = match op.turn(&request.pod).await {
            Ok(_turn) => match op.filled().await {
                Ok(()) => op.add(request, &mut uid).await,
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        let took = self.env.monotonic().saturating_sub(began);
        self.observer.observe(Step::AddEnded { request, uid: &uid, result: result.as_ref(), effort: &op.effort(), took });
        result
    }
}

impl<C: Client, V: Env, K: Caches, O: Observer> Op<'_, C, V, K, O> {
    /// Waits for the caches that an ADD reads, if the agent serves before they are filled.
    async fn filled(&self) -> Result<(), IpamError> {
        if !self.policy().first_add_fills_caches {
            return Ok(());
        }
        match Box::pin(race(self.agent.caches.filled(), self.agent.env.sleep(self.left()))).await {
            Either::Left(()) => Ok(()),
            Either::Right(()) => Err(IpamError::OutOfTime),
        }
    }

    /// The pod that an ADD is for (A A1), and whether it was read from the API server.
    pub(super) async fn pod_of(&self, request: &AddRequest) -> Result<(Arc<Pod>, bool), IpamError> {
        let cached = self.agent.caches.pod(&request.pod);
        if self.policy().uid_from_cached_pod {
            return shown(cached, &request.pod).map(|pod| (pod, false));
        }
        let wanted = &*request.pod_uid;
        let is_wanted = |pod: &Pod| wanted.is_empty() || pod.metadata.uid.as_deref() == Some(wanted);
        // Without a UID a predecessor that the cache still shows cannot be distinguished from the present pod.
        let cached = cached.filter(|_| !wanted.is_empty() || self.policy().add_without_uid_from_cache);
        let (pod, live) = match cached.filter(|pod| is_wanted(pod) && is_alive(pod)) {
            Some(pod) => (Some(pod), false),
            None => (self.live_pod(&request.pod).await?, true),
        };
        let pod = pod.ok_or_else(|| IpamError::MissingPod(request.pod.clone()))?;
        if !is_wanted(&pod) {
            let found = pod.metadata.uid.clone().unwrap_or_default();
            return Err(IpamError::Replaced { pod: request.pod.clone(), wanted: request.pod_uid.clone(), found });
        }
        if wanted.is_empty() && self.is_elsewhere(&pod) && !self.policy().add_without_uid_from_cache {
            return Err(IpamError::Elsewhere(request.pod.clone()));
        }
        if is_alive(&pod) { Ok((pod, live)) } else { Err(SelectError::DeadPod.into()) }
    }

    /// Runs an ADD once it has its turn at the pod. `uid` is set to the UID that it records, once the pod is found.
    pub(super) async fn add(&self, request: &AddRequest, uid: &mut Arc<str>) -> Result<AddAnswer, IpamError> {
        let (pod, pod_is_live) = self.pod_of(request).await?;
        *uid = pod.metadata.uid.as_deref().unwrap_or_default().into();
        let caches = &self.agent.caches;
        let controller =
            if self.policy().uid_from_cached_pod { TopController::of(caches, &pod)? } else { TopController::of_uid(caches, &pod)? };
        let pod = if self.policy().wishes_of_the_template { wishing_as_the_template(pod, &controller) } else { pod };
        let keeper = Keeper::of(&controller, self.agent.config.settings.kept());
        let key = keeper.endpoint_of(&request.pod, &controller);
        let nameless = is_nameless(&pod);
        let uid = uid.clone();
        let mut add = Add {
            op: self,
            request,
            pod,
            pod_is_live,
            endpoint_is_live: false,
            uid,
            controller,
            keeper,
            key,
            nameless,
            forgets_conflicts: false,
            taken_over: Vec::new(),
            takes_over: false,
            made_records: false,
            taken: Vec::new(),
            given_up: GivenUp::default(),
            ended: None,
        };
        add.run().await
    }
}

/// Whether an endpoint names an address, for any NIC.
fn names(endpoint: &SpiderEndpoint, ip: IpAddr) -> bool {
    entries(endpoint).iter().flat_map(stored).any(|at| at.address.addr() == ip)
}

/// A pod of a StatefulSet with the annotations that the set's template has now.
fn wishing_as_the_template(pod: Arc<Pod>, controller: &TopController) -> Arc<Pod> {
    let Workload::StatefulSet(set) = &controller.workload else { return pod };
    let mut wishing = Pod::clone(&pod);
    wishing.metadata.annotations = set.spec.template.metadata.as_ref().and_then(|template| template.annotations.clone());
    Arc::new(wishing)
}

impl<C: Client, V: Env, K: Caches, O: Observer> Add<'_, C, V, K, O> {
    async fn run(&mut self) -> Result<AddAnswer, IpamError> {
        let mut endpoint = self.op.agent.caches.endpoint(&self.key);
        let is_own = |endpoint: &SpiderEndpoint| uid_of(endpoint) == &*self.uid;
        let has_its_nic = |endpoint: &SpiderEndpoint| is_own(endpoint) && entries(endpoint).iter().any(|entry| self.serves(entry));
        if self.has_surely_an_endpoint() && !endpoint.as_deref().is_some_and(has_its_nic) {
            endpoint = self.op.get::<SpiderEndpoint>(&self.key).await.map_err(|error| self.of_endpoint(error))?;
            self.endpoint_is_live = true;
        }
        // The pod's state that was read may be older than the endpoint, which may be its successor's by now.
        self.pod_is_live &= endpoint.is_none();
        let mut ledger = Ledger::default();
        let mut rounds = 0;
        loop {
            let (error, unknown) = match self.round(endpoint, &mut ledger).await {
                Ok(answer) => {
                    self.tidy(&answer, &ledger).await;
                    return Ok(answer);
                }
                Err(Setback::Failed(error)) => return self.fail(error, ledger).await,
                Err(Setback::Unknown(error)) => {
                    ledger.may_be_named = true;
                    (error, true)
                }
                Err(Setback::Again(error)) => (error, false),
            };
            rounds += 1;
            if rounds > 12 || self.op.is_late() {
                if unknown {
                    self.remember(ledger.recorded);
                    return Err(error);
                }
                return self.fail(error, ledger).await;
            }
            self.op.pause(rounds).await;
            // The pod's state that was read is older than the endpoint's that will be read.
            self.pod_is_live = false;
            self.endpoint_is_live = true;
            endpoint = match self.op.get::<SpiderEndpoint>(&self.key).await {
                Ok(endpoint) => endpoint,
                Err(_) if unknown => {
                    self.remember(ledger.recorded);
                    return Err(error);
                }
                Err(_) => return self.fail(error, ledger).await,
            };
        }
    }

    /// Whether the pod has its own endpoint, though the cache may not show it yet, or not with this NIC: the ADD of its first NIC wrote
    /// one, or that of an earlier sandbox. The first request for a pod thus makes no useless read.
    fn has_surely_an_endpoint(&self) -> bool {
        (*self.request.nic != *FIRST_NIC || self.op.agent.failures.is_served(&self.uid)) && !self.goes_by_cache()
    }

    /// Ends a failed ADD: all records for its NIC are removed, with their own time limit, whichever ADD of the pod made them. Otherwise a
    /// pod that asks for more than is free would withhold for ever addresses that it cannot use. An address that its endpoint names by now,
    /// by a write whose answer was lost, is the pod's, and the next ADD is answered with it, unless another pod is known to have it.
    async fn fail(&self, error: IpamError, ledger: Ledger) -> Result<AddAnswer, IpamError> {
        let failures = &self.op.agent.failures;
        if self.policy().partial_failure_keeps_records {
            return Err(error);
        }
        let own_time = self.op.with_time();
        self.drop_taken(&own_time).await;
        let mut what: Vec<_> = ledger.recorded.iter().map(|allocated| (allocated.pool.clone(), allocated.address.addr())).collect();
        if ledger.may_be_named && !what.is_empty() {
            let Ok(endpoint) = own_time.get::<SpiderEndpoint>(&self.key).await else {
                self.remember(ledger.recorded);
                return Err(error);
            };
            let own = endpoint.as_deref().filter(|endpoint| uid_of(endpoint) == &*self.uid);
            what.retain(|(_, ip)| !own.is_some_and(|endpoint| names(endpoint, *ip)));
        }
        what.extend(self.unanswered(&own_time, &ledger).await);
        let what = distinct(what);
        for suspect in ledger.unsettled {
            failures.suspect(&self.uid, suspect);
        }
        let back = own_time.take_back(&self.key, &self.uid, Cause::RollBack, &what).await;
        self.op.add_effort(&own_time);
        match back {
            Ok(()) => failures.set(&self.uid, Vec::new()),
            Err(_) => {
                // A DEL that does not find the pod does not know its VM, and releases what is remembered.
                let goes = |found: &AllocatedIp| self.keeper != Keeper::Vm || what.contains(&(found.pool.clone(), found.address.addr()));
                self.remember(ledger.recorded.into_iter().chain(ledger.found.into_iter().filter(goes)).collect());
            }
        }
        Err(error)
    }

    /// Removes addresses from the pod's endpoint that another pod has (A L3): an earlier run of this process sent them, and the write came
    /// after they had been released. While nothing is left that the pod could have instead, its endpoint would otherwise go on naming them.
    async fn drop_taken(&self, own_time: &Op<'_, C, V, K, O>) {
        if self.taken.is_empty() {
            return;
        }
        let Ok(Some(endpoint)) = own_time.get::<SpiderEndpoint>(&self.key).await else { return };
        let is_own = uid_of(&endpoint) == &*self.uid && !is_terminating(&endpoint);
        if let Some(rest) = without_addresses(&endpoint, &self.taken, self.nameless).filter(|_| is_own) {
            // An address that stays now is removed when the next ADD fails.
            let _ = own_time.update(rest).await;
        }
    }

    /// The records that earlier ADDs left for the NIC and no endpoint names; empty if it is not known whether somebody answers on them.
    async fn unanswered(&self, own_time: &Op<'_, C, V, K, O>, ledger: &Ledger) -> Vec<(Arc<str>, IpAddr)> {
        if self.keeps_strays() {
            return Vec::new();
        }
        let is_of_nic = |nic: Option<&str>| self.nameless || nic == Some(&*self.request.nic);
        let mut what = own_time.strays(&self.key, &self.uid, is_of_nic).await.unwrap_or_default();
        what.extend(ledger.found.iter().map(|allocated| (allocated.pool.clone(), allocated.address.addr())));
        if what.is_empty() {
            return what;
        }
        let Ok(endpoint) = own_time.get::<SpiderEndpoint>(&self.key).await else { return Vec::new() };
        // Only the lost endpoint of the pod told which of them an earlier ADD was answered with: the pod's DEL can decide.
        if endpoint.is_none() && self.has_surely_an_endpoint() {
            return Vec::new();
        }
        // An ADD before a restart may have ended the VM's endpoint, and taken over what another of its pods answers on (A W28).
        let is_drawn = |at: &(Arc<str>, IpAddr)| self.is_drawn(&ledger.recorded, at);
        let may_be_others = endpoint.is_none() && !what.iter().all(is_drawn);
        if may_be_others && self.has_another_pod_of_vm(own_time).await.unwrap_or(true) {
            what.retain(is_drawn);
        }
        what.retain(|(_, ip)| !endpoint.as_deref().is_some_and(|endpoint| names(endpoint, *ip)));
        what
    }

    /// Whether an ADD of the pod has drawn this address, as far as this process knows: no other pod of its VM answers on it. `recorded`:
    /// those of this ADD.
    pub(super) fn is_drawn(&self, recorded: &[AllocatedIp], (pool, ip): &(Arc<str>, IpAddr)) -> bool {
        let is_it = |drawn: &AllocatedIp| drawn.pool == *pool && drawn.address.addr() == *ip;
        recorded.iter().any(is_it) || self.op.agent.failures.of(&self.uid).iter().any(is_it)
    }

    /// Removes records of the pod that are not in the answer: this ADD made them and then saw that another one was faster, or an earlier
    /// one did whose agent crashed, and the pod no longer takes addresses from that pool (A W1).
    async fn tidy(&self, answer: &AddAnswer, ledger: &Ledger) {
        let mut what: Vec<_> = ledger.recorded.iter().map(|allocated| (allocated.pool.clone(), allocated.address.addr())).collect();
        let mut complete = true;
        if !self.leaves_leftovers() {
            let answered: BTreeSet<&str> = answer.ips.iter().map(|answered| &*answered.nic).collect();
            // Records of a NIC that is not answered yet are found by its own ADD. A NIC that the predecessor had and the pod lacks has no
            // such ADD: a round took its records over, and its write of the endpoint was not acknowledged, or another came first. The
            // other pod of a VM's migration may answer on them.
            let nics = select::nics(&self.pod).filter(|_| self.keeper != Keeper::Vm);
            let has = |nic: &str| nics.as_ref().is_none_or(|nics| nics.iter().any(|has| has == nic));
            let is_stray = |nic: Option<&str>| self.nameless || nic.is_some_and(|nic| answered.contains(nic) || !has(nic));
            // The cache may not show it yet.
            let taken_over = self.taken_over.iter().filter(|(_, taken)| is_stray(Some(&taken.nic)));
            what.extend(taken_over.map(|(pool, taken)| (pool.clone(), taken.ip)));
            match self.op.strays(&self.key, &self.uid, is_stray).await {
                Ok(strays) => what.extend(strays),
                Err(_) => complete = false,
            }
        }
        what.retain(|(pool, ip)| !answer.ips.iter().any(|answered| answered.address.addr() == *ip && answered.pool == *pool));
        if !what.is_empty() && !self.policy().answer_not_as_stored {
            let (avoided, others): (Vec<_>, Vec<_>) = distinct(what).into_iter().partition(|(_, ip)| ledger.avoided.contains(ip));
            for (cause, what) in [(Cause::Conflict, avoided), (Cause::Superseded, others)] {
                // Records that are not removed now are left to DEL.
                complete &= self.op.take_back(&self.key, &self.uid, cause, &what).await.is_ok();
            }
        }
        if self.forgets(answer.how, complete) {
            self.op.agent.failures.forget(&self.uid);
        }
    }

    /// Whether an endpoint that is marked for deletion is ended, and made anew if the pod needs one.
    pub(super) fn ends(&self, endpoint: &SpiderEndpoint) -> bool {
        is_ended(endpoint, self.policy())
    }

    /// Ends the marked endpoint of this pod or its predecessor, for which a new one with these addresses is about to be created. The others
    /// that it names are released before, as it outlives its records (A S14).
    pub(super) async fn end_replaced(&mut self, known: &SpiderEndpoint, ips: &[IPAllocationDetail]) -> Result<(), Setback> {
        let stays = |ip: IpAddr| ips.iter().flat_map(stored).any(|at| at.address.addr() == ip);
        let mut what = entries_of(known);
        what.retain(|(_, ip)| !stays(*ip));
        self.op.take_back(&self.key, uid_of(known), Cause::PoolChange, &what).await?;
        self.end(known).await?;
        let Some((ended, mut static_reuse)) = self.ended.clone() else { return Ok(()) };
        if self.go_on_from(&ended, &mut static_reuse).await? {
            return Ok(());
        }
        Err(Setback::Again(IpamError::TerminatingEndpoint(self.key.clone())))
    }

    /// Goes on with the addresses of an endpoint that this ADD has ended. Returns whether it still has all of them.
    async fn go_on_from(&mut self, ended: &SpiderEndpoint, static_reuse: &mut StaticReuse) -> Result<bool, Setback> {
        // The process that marked it may remove the records, even after they were checked: they are made anew for the pod.
        if static_reuse.untaken || self.policy().unrecorded_answer {
            return Ok(true);
        }
        let lost = self.reown_all(&static_reuse.kept, uid_of(ended), None).await?;
        let has_all = lost.is_empty();
        static_reuse.lose(lost, entries(ended));
        Ok(has_all)
    }

    /// One round: reads the endpoint and acts on its state.
    async fn round(&mut self, mut endpoint: Option<Arc<SpiderEndpoint>>, ledger: &mut Ledger) -> Result<AddAnswer, Setback> {
        let policy = *self.policy();
        ledger.avoided = endpoint.as_deref().map(avoided).unwrap_or_default();
        self.taken.clear();
        self.takes_over = false;
        // From an endpoint that is still the predecessor's it is given up again.
        let given_up = std::mem::take(&mut self.given_up);
        if let Some(known) = endpoint.as_deref().filter(|known| uid_of(known) == &*self.uid) {
            self.release_given_up(given_up, entries(known)).await;
        }
        let mut static_reuse = StaticReuse::default();
        let mut forgets = policy.late_endpoint_create_fails;
        // A A4.
        let mut reuses = true;
        if let Some(known) = endpoint.clone()
            && self.compares(&known)
        {
            static_reuse = self.compare_when_settled(&known).await?;
            if !static_reuse.given_up.is_empty() && self.serves_a_running_vm(&known).await? {
                static_reuse = StaticReuse::default();
            }
            if !static_reuse.given_up.is_empty() && policy.partial_pool_change_recreates {
                endpoint = Some(self.recreate(known, &mut static_reuse).await?);
                (reuses, forgets) = (false, true);
            }
        }
        if endpoint.is_none()
            && let Some((ended, of_ended)) = self.ended.clone()
        {
            static_reuse = of_ended;
            self.go_on_from(&ended, &mut static_reuse).await?;
        }
        // A A5, for the endpoint of an earlier pod of the same name.
        if let Some(namesakes) = endpoint.as_deref().filter(|known| self.removes_by_name(known)) {
            self.remove_by_name(namesakes).await?;
            endpoint = None;
        }
        // A A5 and A6.
        if let Some(known) = endpoint.as_deref().filter(|_| reuses)
            && self.ownership(known) != EndpointOwnership::Foreign
        {
            self.make_way(known, ledger).await?;
            if let Some(answer) = self.reuse(known, &mut static_reuse).await? {
                return Ok(answer);
            }
        }
        let for_good = |known: Arc<SpiderEndpoint>| {
            let what = self.given_up_for_good(&known, &static_reuse);
            (!what.is_empty()).then_some((known, what))
        };
        let for_good = endpoint.clone().and_then(for_good);
        // A A7.
        let base = match endpoint {
            Some(known) if self.ownership(&known) == EndpointOwnership::Own => Some(known),
            Some(_) if forgets => {
                static_reuse.kept.clear();
                None
            }
            other => other,
        };
        let base = match base {
            Some(known) if !self.ends(&known) => Some(known),
            Some(known) if self.ownership(&known) == EndpointOwnership::Foreign => {
                // Otherwise this pod may be the predecessor, and the endpoint may belong to a pod whose sandbox still runs.
                self.confirm().await?;
                self.end(&known).await?;
                None
            }
            Some(known) => {
                // It is ended with the write of its replacement: a pod that finds no pool keeps its addresses by it.
                self.ended = Some((known.clone(), static_reuse.clone()));
                Some(known)
            }
            None => None,
        };
        let result = self.fresh(base.as_deref(), static_reuse, forgets, ledger).await;
        if let (Err(Setback::Failed(_)), Some((known, what))) = (&result, for_good) {
            // Records that stay now are removed when the next ADD fails.
            let _ = self.leave_pools(uid_of(&known), &what).await;
        }
        result
    }

    /// Removes the records that this ADD made or found before it knew of the endpoint: together with the addresses that the endpoint names,
    /// a NIC would have two records of a family (A X1). The endpoint is the predecessor's, or the pod's own, which an earlier run of this
    /// process sent and which came late; the cache may not show yet what was allocated.
    async fn make_way(&self, endpoint: &SpiderEndpoint, ledger: &mut Ledger) -> Result<(), Setback> {
        if (ledger.recorded.is_empty() && ledger.found.is_empty()) || self.policy().partial_failure_keeps_records {
            return Ok(());
        }
        let makes_way = |allocated: &AllocatedIp| match self.ownership(endpoint) {
            EndpointOwnership::Inherited => true,
            EndpointOwnership::Own if !self.keeps_strays() => {
                let ip = allocated.address.addr();
                let of_nic = |(place, entry): &(usize, &IPAllocationDetail)| self.nic_of(*place, entry) == *allocated.nic;
                let mut named = entries(endpoint).iter().enumerate().filter(of_nic).flat_map(|(_, entry)| stored(entry));
                named.any(|at| at.address.addr() != ip && at.family == IpVersion::of(ip)) && !names(endpoint, ip)
            }
            EndpointOwnership::Own | EndpointOwnership::Foreign => false,
        };
        let surplus: Vec<AllocatedIp> = ledger.recorded.extract_if(.., |allocated| makes_way(allocated)).collect();
        // A record that was found may be of an address that the endpoint names: an earlier ADD took it over.
        let strays = ledger.found.extract_if(.., |found| makes_way(found) && !names(endpoint, found.address.addr()));
        let strays: Vec<AllocatedIp> = strays.collect();
        let what: Vec<_> = surplus.iter().chain(&strays).map(|allocated| (allocated.pool.clone(), allocated.address.addr())).collect();
        if what.is_empty() {
            return Ok(());
        }
        let back = self.op.take_back(&self.key, &self.uid, Cause::Superseded, &what).await;
        if back.is_err() {
            ledger.recorded.extend(surplus);
            ledger.found.extend(strays);
        }
        Ok(back?)
    }

    /// Removes an endpoint that is being deleted, so that the pod can have a new one.
    ///
    /// If this very pod's endpoint was marked from outside, the new endpoint names the same addresses, and they stay recorded. So do those
    /// of a VM, which the pod has taken over by now, except the given-up ones, which are [released before](Self::end_replaced). An endpoint
    /// of another pod that outlives its pod was marked by a release, which is finished here. One that is deleted with its pod may have been
    /// marked by Kubernetes' garbage collector while the pod's sandbox still runs, so that its records are left to reclaim, which knows for
    /// how long.
    async fn end(&self, endpoint: &SpiderEndpoint) -> Result<(), Setback> {
        if self.ownership(endpoint) == EndpointOwnership::Foreign {
            let what = entries_of(endpoint);
            if !goes_with_pod(endpoint) {
                self.op.take_back(&self.key, uid_of(endpoint), Cause::Marked, &what).await?;
            } else if self.op.is_any_recorded(uid_of(endpoint), &what).await? {
                return Err(Setback::Failed(IpamError::TerminatingEndpoint(self.key.clone())));
            }
        }
        match self.op.let_go(endpoint).await {
            Ok(None) => Ok(()),
            Ok(Some(left)) if left.metadata.finalizers.as_ref().is_none_or(Vec::is_empty) => Ok(()),
            Ok(Some(_)) => Err(Setback::Failed(IpamError::TerminatingEndpoint(self.key.clone()))),
            Err(error) => Err(Setback::Again(self.of_endpoint(error))),
        }
    }
}
