//! ADD (A §5.2).
//!
//! ```text
//!   pod, owner ── endpoint ──► its addresses may be used again? ──► records verified ──► endpoint ──► answer
//!                     └──────► pools selected ──► addresses drawn ──────────────────────────┘
//! ```
//!
//! Each round looks at one state of the endpoint. When its write shows that the state is another by now, the next round looks at the
//! API server's; what was drawn meanwhile is found again by its records.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::answer::{AddAnswer, How};
use super::caches::Caches;
use super::del::distinct;
use super::drawn::{Drawn, stored, told_of_details};
use super::endpoints::{
    Holder, avoided, entries, goes_with_pod, has_finalizer, hold, is_terminating, is_unfinished, may_pass, name_unfinished, uid_of,
};
use super::error::IpamError;
use super::inherit::Inheritance;
use super::observer::{Cause, Observer};
use super::op::Op;
use super::request::AddRequest;
use super::standing::{Standing, standing};
use crate::api::{ApiError, ObjectKey};
use crate::client::Client;
use crate::env::Env;
use crate::spiderpool::select::{self, SelectError, TopController, is_alive, is_nameless};
use crate::spiderpool::validity::Keeper;
use crate::spiderpool::{IPAllocationDetail, Policy, SpiderEndpoint};

/// One ADD, once it is known for whom.
pub(super) struct Add<'a, C, V, K, O> {
    pub(super) op: &'a Op<'a, C, V, K, O>,
    pub(super) request: &'a AddRequest,
    pub(super) pod: Arc<Pod>,
    /// Whether the pod is known from the API server itself.
    pub(super) pod_is_live: bool,
    /// Whether the endpoint of this round is.
    pub(super) endpoint_is_live: bool,
    pub(super) uid: Arc<str>,
    pub(super) controller: TopController,
    pub(super) keeper: Keeper,
    /// The name of the endpoint, and what records say.
    pub(super) key: ObjectKey,
    pub(super) nameless: bool,
}

/// Why a round did not end the ADD well.
pub(super) enum Setback {
    /// The endpoint is not as it was taken to be: look again.
    Again(IpamError),
    /// It is not known whether the endpoint was written: what was drawn must stay.
    Unknown(IpamError),
    /// The ADD fails.
    Failed(IpamError),
}

impl<E: Into<IpamError>> From<E> for Setback {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// What an ADD has changed so far.
#[derive(Default)]
pub(super) struct Ledger {
    /// Addresses that this ADD recorded.
    pub(super) recorded: Vec<Drawn>,
    /// Pools of which it is not known whether they hold a record.
    pub(super) unsettled: Vec<Arc<str>>,
    /// Addresses that do not work for the pod.
    avoided: Vec<IpAddr>,
}

impl<C: Client, V: Env, K: Caches, O: Observer> Op<'_, C, V, K, O> {
    /// The pod that an ADD is for (A A1), and whether it was read from the API server.
    pub(super) async fn pod_of(&self, request: &AddRequest) -> Result<(Arc<Pod>, bool), IpamError> {
        let cached = self.agent.caches.pod(&request.pod);
        let wanted = &*request.pod_uid;
        let is_wanted = |pod: &Pod| wanted.is_empty() || pod.metadata.uid.as_deref() == Some(wanted);
        let (pod, live) = if self.policy().uid_from_cached_pod {
            (cached, false)
        } else {
            match cached.filter(|pod| is_wanted(pod) && is_alive(pod)) {
                Some(pod) => (Some(pod), false),
                None => (self.live_pod(&request.pod).await?, true),
            }
        };
        let pod = pod.ok_or_else(|| IpamError::MissingPod(request.pod.clone()))?;
        if !self.policy().uid_from_cached_pod && !is_wanted(&pod) {
            let found = pod.metadata.uid.clone().unwrap_or_default();
            return Err(IpamError::Replaced { pod: request.pod.clone(), wanted: request.pod_uid.clone(), found });
        }
        if is_alive(&pod) { Ok((pod, live)) } else { Err(SelectError::DeadPod.into()) }
    }

    pub(super) async fn live_pod(&self, key: &ObjectKey) -> Result<Option<Arc<Pod>>, IpamError> {
        self.get::<Pod>(key).await.map_err(|error| IpamError::Reading { what: "pod", error })
    }

    /// Runs an ADD.
    pub(super) async fn add(&self, request: &AddRequest, uid: &mut Arc<str>) -> Result<AddAnswer, IpamError> {
        let (pod, pod_is_live) = self.pod_of(request).await?;
        *uid = pod.metadata.uid.as_deref().unwrap_or_default().into();
        let caches = &self.agent.caches;
        let controller =
            if self.policy().uid_from_cached_pod { TopController::of(caches, &pod)? } else { TopController::of_uid(caches, &pod)? };
        let keeper = Keeper::of(&controller, self.agent.config.settings.kept());
        let key = keeper.endpoint_of(&request.pod, &controller);
        let nameless = is_nameless(&pod);
        let uid = uid.clone();
        let mut add = Add { op: self, request, pod, pod_is_live, endpoint_is_live: false, uid, controller, keeper, key, nameless };
        add.run().await
    }
}

impl<C: Client, V: Env, K: Caches, O: Observer> Add<'_, C, V, K, O> {
    pub(super) fn policy(&self) -> &Policy {
        self.op.policy()
    }

    /// The node of the pod: that of the agent, unless the pod says otherwise.
    pub(super) fn node(&self) -> &str {
        let of_pod = self.pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).filter(|node| !node.is_empty());
        of_pod.unwrap_or(&self.op.agent.config.node)
    }

    /// What selection is asked.
    pub(super) fn asked(&self) -> select::Request<'_> {
        let config = &self.op.agent.config;
        select::Request {
            pod: &self.pod,
            node: self.node(),
            nic: &self.request.nic,
            cni: &self.request.cni,
            master: &self.request.master,
            settings: &config.settings.select,
            policy: &config.policy,
            made: false,
        }
    }

    pub(super) fn holder(&self) -> Holder<'_> {
        Holder {
            key: &self.key,
            uid: &self.uid,
            node: self.node(),
            owner_kind: &self.controller.kind,
            owner_name: &self.controller.name,
            pod: (self.keeper == Keeper::Nobody).then_some(&*self.uid),
            sandbox: (!self.policy().sandbox_not_asked).then_some(&*self.request.container_id),
        }
    }

    /// Whether an endpoint has lost its finalizer, with which its records went, and is to have it back. Upstream writes none.
    pub(super) fn is_let_go(&self, endpoint: &SpiderEndpoint) -> bool {
        !has_finalizer(endpoint) && !is_terminating(endpoint) && !self.policy().reown_foreign_endpoint
    }

    pub(super) fn standing(&self, endpoint: &SpiderEndpoint) -> Standing {
        standing(endpoint, &self.uid, self.keeper, &self.controller, self.policy())
    }

    pub(super) fn of_endpoint(&self, error: ApiError) -> IpamError {
        IpamError::Endpoint { endpoint: self.key.clone(), error }
    }

    async fn run(&mut self) -> Result<AddAnswer, IpamError> {
        let mut endpoint = self.op.agent.caches.endpoint(&self.key);
        let mut ledger = Ledger::default();
        let mut rounds = 0;
        loop {
            let (error, unknown) = match self.round(endpoint, &mut ledger).await {
                Ok(answer) => {
                    self.tidy(&answer, &ledger).await;
                    return Ok(answer);
                }
                Err(Setback::Failed(error)) => return self.fail(error, ledger).await,
                Err(Setback::Unknown(error)) => (error, true),
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
            // What was seen of the pod is older than what will be seen of the endpoint.
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

    /// Remembers addresses for the next ADD of the pod.
    pub(super) fn remember(&self, drawn: Vec<Drawn>) {
        let failures = &self.op.agent.failures;
        failures.set(&self.uid, if self.nameless && self.policy().partial_failure_keeps_records { Vec::new() } else { drawn });
    }

    /// Ends an ADD that failed: what it recorded goes back, with time of its own.
    async fn fail(&self, error: IpamError, ledger: Ledger) -> Result<AddAnswer, IpamError> {
        let failures = &self.op.agent.failures;
        if self.policy().partial_failure_keeps_records {
            return Err(error);
        }
        for pool in ledger.unsettled {
            failures.suspect(&self.uid, pool);
        }
        let what: Vec<_> = ledger.recorded.iter().map(|drawn| (drawn.pool.clone(), drawn.address.addr())).collect();
        let own_time = self.op.with_time();
        let back = own_time.take_back(&self.key, &self.uid, Cause::RollBack, &what).await;
        self.op.add_effort(&own_time);
        match back {
            Ok(()) => failures.set(&self.uid, Vec::new()),
            Err(_) => self.remember(ledger.recorded),
        }
        Err(error)
    }

    /// Takes back what is recorded for the pod and not answered: this ADD recorded it and saw then that another one was faster, or
    /// an earlier one did whose agent crashed, and the pool is none of those that the pod draws from by now (A W1).
    async fn tidy(&self, answer: &AddAnswer, ledger: &Ledger) {
        let policy = self.policy();
        let forgets = answer.how == How::Fresh || !policy.failure_cache_kept_by_reuse;
        let mut what: Vec<_> = ledger.recorded.iter().map(|drawn| (drawn.pool.clone(), drawn.address.addr())).collect();
        let mut complete = true;
        if !policy.partial_failure_keeps_records && !policy.lost_reply_takes_next_pool {
            let nics: BTreeSet<&str> = answer.ips.iter().map(|answered| &*answered.nic).collect();
            // What is recorded for a NIC that is not answered yet is found by its own ADD.
            let is_stray = |nic: Option<&str>| self.nameless || nic.is_some_and(|nic| nics.contains(nic));
            match self.op.strays(&self.key, &self.uid, is_stray).await {
                Ok(strays) => what.extend(strays),
                Err(_) => complete = false,
            }
        }
        what.retain(|(pool, ip)| !answer.ips.iter().any(|answered| answered.address.addr() == *ip && answered.pool == *pool));
        if !what.is_empty() && !policy.answer_not_as_stored {
            let (avoided, others): (Vec<_>, Vec<_>) = distinct(what).into_iter().partition(|(_, ip)| ledger.avoided.contains(ip));
            for (cause, what) in [(Cause::Conflict, avoided), (Cause::Superseded, others)] {
                // What is not taken back now is left to DEL.
                complete &= self.op.take_back(&self.key, &self.uid, cause, &what).await.is_ok();
            }
        }
        if forgets && (complete || policy.partial_failure_keeps_records) {
            self.op.agent.failures.forget(&self.uid);
        }
    }

    /// One look at the endpoint, and what follows from it.
    async fn round(&mut self, mut endpoint: Option<Arc<SpiderEndpoint>>, ledger: &mut Ledger) -> Result<AddAnswer, Setback> {
        let policy = *self.policy();
        ledger.avoided = endpoint.as_deref().map(avoided).unwrap_or_default();
        let mut inheritance = Inheritance::default();
        let mut forgets = policy.late_endpoint_create_fails;
        // A A4.
        let mut reuses = true;
        if let Some(known) = endpoint.clone()
            && self.compares(&known)
        {
            inheritance = self.compare_when_settled(&known).await?;
            if !inheritance.given_up.is_empty() && self.serves_a_running_vm(&known).await? {
                inheritance = Inheritance::default();
            }
            if !inheritance.given_up.is_empty() && policy.partial_pool_change_recreates {
                let left = self.release_outdated(known, &inheritance.given_up).await?;
                inheritance = Inheritance::default();
                inheritance.kept = entries(&left).iter().cloned().enumerate().collect();
                endpoint = Some(left);
                (reuses, forgets) = (false, true);
            }
        }
        // A A5, of a namesake's endpoint.
        if let Some(known) = endpoint.as_deref().filter(|_| self.keeper == Keeper::Nobody && policy.endpoint_delete_by_name)
            && self.standing(known) == Standing::Foreign
        {
            self.remove_by_name(known).await?;
            endpoint = None;
        }
        // A A5 and A6.
        if let Some(known) = endpoint.as_deref().filter(|_| reuses)
            && self.standing(known) != Standing::Foreign
        {
            self.make_way(known, ledger).await?;
            if let Some(answer) = self.reuse(known, &mut inheritance).await? {
                return Ok(answer);
            }
        }
        let for_good = |known: Arc<SpiderEndpoint>| {
            let what = self.given_up_for_good(&known, &inheritance);
            (!what.is_empty()).then_some((known, what))
        };
        let for_good = endpoint.clone().and_then(for_good);
        // A A7.
        let base = match endpoint {
            Some(known) if self.standing(&known) == Standing::Own => Some(known),
            Some(_) if forgets => {
                inheritance.kept.clear();
                None
            }
            other => other,
        };
        let base = match base {
            Some(known) if is_terminating(&known) && !policy.terminating_endpoint_reused && !policy.adopt_stale_endpoint => {
                // Kubernetes' garbage collector marks it, too, once the pod is gone: then its records go first, with its DEL.
                if self.standing(&known) == Standing::Own {
                    self.confirm().await?;
                }
                self.end(&known).await?;
                None
            }
            base => base,
        };
        let result = self.fresh(base.as_deref(), inheritance, forgets, ledger).await;
        if let (Err(Setback::Failed(_)), Some((known, what))) = (&result, for_good) {
            // What stays now goes with the next ADD that fails.
            let _ = self.leave_pools(uid_of(&known), &what).await;
        }
        result
    }

    /// Takes back what this ADD drew before it knew of the predecessor's endpoint: with the addresses that it takes over, a NIC would have two
    /// records of a family (A X1).
    async fn make_way(&self, predecessors: &SpiderEndpoint, ledger: &mut Ledger) -> Result<(), Setback> {
        if ledger.recorded.is_empty() || self.policy().partial_failure_keeps_records || self.standing(predecessors) != Standing::Inherited {
            return Ok(());
        }
        let drawn: Vec<_> = ledger.recorded.iter().map(|drawn| (drawn.pool.clone(), drawn.address.addr())).collect();
        self.op.take_back(&self.key, &self.uid, Cause::Superseded, &drawn).await?;
        ledger.recorded.clear();
        Ok(())
    }

    /// Makes an endpoint vanish that is being deleted, so that the pod can have a new one.
    ///
    /// The mark of this very pod's endpoint came from outside: its records stay, and the new endpoint names the same addresses.
    /// One that outlives its pod was marked by a release, which is finished here. One that goes with its pod may have been
    /// marked by Kubernetes' garbage collector while the pod's sandbox still runs, so that its records are left to reclaim,
    /// which knows for how long.
    async fn end(&self, endpoint: &SpiderEndpoint) -> Result<(), Setback> {
        if self.standing(endpoint) != Standing::Own {
            let what: Vec<_> = entries(endpoint).iter().flat_map(stored).map(|at| (Arc::from(at.pool), at.address.addr())).collect();
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

    /// Upstream's way with a namesake's endpoint (A §5.3): by name, whatever is there by now.
    async fn remove_by_name(&self, endpoint: &SpiderEndpoint) -> Result<(), IpamError> {
        if !is_terminating(endpoint) {
            self.op.mark(endpoint).await.map_err(|error| self.of_endpoint(error))?;
        }
        if has_finalizer(endpoint) {
            self.op.let_go(endpoint).await.map_err(|error| self.of_endpoint(error))?;
        }
        Ok(())
    }

    /// Writes the endpoint, of whose entries those of these NICs are `unfinished`, and says what became of it. Upstream (`strict`) writes also
    /// what has not changed, and once.
    pub(super) async fn write(
        &self,
        base: Option<&SpiderEndpoint>,
        ips: Vec<IPAllocationDetail>,
        unfinished: &[String],
        strict: bool,
    ) -> Result<Arc<SpiderEndpoint>, Setback> {
        let written = match base {
            None => {
                let mut body = self.holder().endpoint(ips);
                name_unfinished(&mut body, unfinished);
                self.op.create(body).await
            }
            Some(base) => {
                let mut body = match self.standing(base) {
                    Standing::Foreign => self.holder().taken_over(base, ips),
                    Standing::Own | Standing::Inherited => self.holder().kept_up(base, ips),
                };
                name_unfinished(&mut body, unfinished);
                if self.is_let_go(base) {
                    hold(&mut body);
                }
                if !strict && body == *base {
                    return Ok(Arc::new(body));
                }
                self.op.update(body).await
            }
        };
        let error = match written {
            Ok(endpoint) => return Ok(endpoint),
            Err(error) => error,
        };
        let again = error.is_conflict() || error.is_already_exists() || error.is_not_found();
        let (ambiguous, passes) = (error.is_ambiguous(), may_pass(&error));
        let error = self.of_endpoint(error);
        Err(match () {
            () if strict => Setback::Failed(error),
            () if ambiguous => Setback::Unknown(error),
            () if again || passes => Setback::Again(error),
            () => Setback::Failed(error),
        })
    }

    /// The answer that an endpoint gives.
    pub(super) fn answer_of(&self, endpoint: &SpiderEndpoint, how: How) -> AddAnswer {
        let (ips, routes) = told_of_details(entries(endpoint).iter().filter(|entry| !is_unfinished(endpoint, &entry.interface)));
        AddAnswer { ips, routes, how }
    }
}
