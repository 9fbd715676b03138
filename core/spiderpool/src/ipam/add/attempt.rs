//! The context of an ADD: the pod it is for, its changes so far, and the write of its endpoint.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::static_reuse::StaticReuse;
use crate::finalizer;
use crate::ipam::allocated_ip::{AllocatedIp, told_of_details};
use crate::ipam::answer::{AddAnswer, How};
use crate::ipam::caches::Caches;
use crate::ipam::endpoints::{
    EndpointOwnership, Holder, entries, forget_avoided, has_finalizer, is_terminating, is_unfinished, name_unfinished, ownership,
};
use crate::ipam::error::{IpamError, may_pass};
use crate::ipam::failure_cache::Suspect;
use crate::ipam::observer::Observer;
use crate::ipam::op::Op;
use crate::ipam::pool_decide::ReusedIp;
use crate::ipam::request::AddRequest;
use crate::select::{self, SelectError, TopController, is_alive};
use crate::validity::Keeper;
use crate::{IPAllocationDetail, Policy, SpiderEndpoint};
use kube_machinery::api::{ApiError, ObjectKey};
use kube_machinery::client::Client;
use kube_machinery::env::Env;

/// One ADD whose pod is known.
pub(super) struct Add<'a, C, V, K, O> {
    pub(super) op: &'a Op<'a, C, V, K, O>,
    pub(super) request: &'a AddRequest,
    pub(super) pod: Arc<Pod>,
    /// Whether the pod was read from the API server itself.
    pub(super) pod_is_live: bool,
    /// Whether the endpoint of this round was read from the API server itself.
    pub(super) endpoint_is_live: bool,
    pub(super) uid: Arc<str>,
    pub(super) controller: TopController,
    pub(super) keeper: Keeper,
    /// The name of the endpoint and of the pod in records.
    pub(super) key: ObjectKey,
    pub(super) nameless: bool,
    /// Whether the addresses that were in use outside are no longer avoided from the next write on.
    pub(super) forgets_conflicts: bool,
    /// Addresses of a predecessor whose records this ADD has transferred to the pod, at the latest in an earlier round.
    pub(super) taken_over: Vec<(Arc<str>, ReusedIp)>,
    /// Whether a record belonged to another pod until this round.
    pub(super) takes_over: bool,
    /// Whether records that an endpoint named were missing, and were made anew.
    pub(super) made_records: bool,
    /// Addresses that the endpoint of this round names, but other pods have.
    pub(super) taken: Vec<(Arc<str>, IpAddr)>,
    /// The addresses that the last write of the endpoint gives up, if it failed: it may have been carried out nevertheless, in
    /// which case the conflict is with itself.
    pub(super) given_up: GivenUp,
    /// An endpoint marked for deletion that this ADD replaces, and what it keeps of it: once it is gone, the next rounds go on with that,
    /// whatever the rules say by then.
    pub(super) ended: Option<(Arc<SpiderEndpoint>, StaticReuse)>,
}

/// Addresses that an endpoint does not name any more, by pool.
#[derive(Debug, Default)]
pub(super) struct GivenUp {
    /// The UID of the pod whose endpoint it was.
    pub(super) of: String,
    pub(super) what: Vec<(Arc<str>, IpAddr)>,
}

/// The reason why a round did not complete the ADD.
pub(super) enum Setback {
    /// The endpoint is not in the assumed state: read it and try again.
    Again(IpamError),
    /// It is unknown whether the endpoint was written: allocated addresses must stay.
    Unknown(IpamError),
    /// The ADD ends with this error, without another round.
    Failed(IpamError),
}

impl<E: Into<IpamError>> From<E> for Setback {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// The changes of an ADD so far.
#[derive(Default)]
pub(super) struct Ledger {
    /// Addresses that this ADD recorded.
    pub(super) recorded: Vec<AllocatedIp>,
    /// Addresses that it found recorded: by an earlier ADD, or by a write of this one whose answer was lost.
    pub(super) found: Vec<AllocatedIp>,
    /// Pools that may or may not hold a record.
    pub(super) unsettled: Vec<Suspect>,
    /// Addresses that do not work for the pod.
    pub(super) avoided: Vec<IpAddr>,
    /// Whether an endpoint with the recorded addresses may have been written without confirmation.
    pub(super) may_be_named: bool,
}

impl<C: Client, V: Env, K: Caches, O: Observer> Add<'_, C, V, K, O> {
    pub(super) fn policy(&self) -> &Policy {
        self.op.policy()
    }

    /// The node of the pod: the agent's, unless the pod names another.
    pub(super) fn node(&self) -> &str {
        let of_pod = self.pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).filter(|node| !node.is_empty());
        of_pod.unwrap_or(&self.op.agent.config.node)
    }

    /// The input of the selection.
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

    /// Whether an endpoint has lost its finalizer, and its records with it, and should get it back. Upstream does not write it.
    pub(super) fn is_let_go(&self, endpoint: &SpiderEndpoint) -> bool {
        !has_finalizer(endpoint) && !is_terminating(endpoint) && !self.policy().reown_foreign_endpoint
    }

    pub(super) fn ownership(&self, endpoint: &SpiderEndpoint) -> EndpointOwnership {
        ownership(endpoint, &self.uid, self.keeper, &self.controller, self.policy())
    }

    pub(super) fn of_endpoint(&self, error: ApiError) -> IpamError {
        IpamError::Endpoint { endpoint: self.key.clone(), error }
    }

    /// Remembers addresses for the next ADD of the pod.
    pub(super) fn remember(&self, allocated: Vec<AllocatedIp>) {
        let failures = &self.op.agent.failures;
        failures.set(&self.uid, if self.nameless && self.policy().partial_failure_keeps_records { Vec::new() } else { allocated });
    }

    /// Writes the endpoint with the entries of these NICs marked as `unfinished`, and returns the stored object. One that is marked for
    /// deletion is replaced. Upstream (`strict`) also writes an unchanged endpoint, and tries once.
    pub(super) async fn write(
        &mut self,
        base: Option<&SpiderEndpoint>,
        ips: Vec<IPAllocationDetail>,
        unfinished: &[String],
        strict: bool,
    ) -> Result<Arc<SpiderEndpoint>, Setback> {
        let base = match base {
            Some(known) if self.ends(known) => {
                self.end_replaced(known, &ips).await?;
                None
            }
            base => base,
        };
        let written = match base {
            None => {
                let mut body = self.holder().endpoint(ips);
                name_unfinished(&mut body, unfinished);
                self.op.create(body).await
            }
            Some(base) => {
                let mut body = match self.ownership(base) {
                    EndpointOwnership::Foreign => self.holder().taken_over(base, ips),
                    EndpointOwnership::Own if self.policy().re_add_changes_owner => self.holder().owned(self.holder().kept_up(base, ips)),
                    EndpointOwnership::Own | EndpointOwnership::Inherited => self.holder().kept_up(base, ips),
                };
                name_unfinished(&mut body, unfinished);
                if self.forgets_conflicts {
                    forget_avoided(&mut body);
                }
                if self.is_let_go(base) {
                    finalizer::put_on(&mut body.metadata);
                }
                if !strict && body == *base {
                    return Ok(Arc::new(body));
                }
                self.op.update(body).await
            }
        };
        if written.as_ref().err().is_none_or(ApiError::is_ambiguous) {
            self.op.agent.failures.serve(&self.uid);
        }
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

    /// The answer for the addresses of an endpoint.
    pub(super) fn answer_of(&self, endpoint: &SpiderEndpoint, how: How) -> AddAnswer {
        let (ips, routes) = told_of_details(entries(endpoint).iter().filter(|entry| !is_unfinished(endpoint, &entry.interface)));
        AddAnswer { ips, routes, how }
    }

    /// Confirms that the pod is alive now.
    pub(super) async fn confirm(&mut self) -> Result<(), IpamError> {
        if self.pod_is_live || self.policy().liveness_from_cache || self.policy().uid_from_cached_pod {
            return Ok(());
        }
        self.check_alive().await?;
        self.pod_is_live = true;
        Ok(())
    }

    /// Waits briefly for pools that do not exist yet.
    ///
    /// # Errors
    /// The pod is ending, according to the cache. It needs no address any more, and the DEL that releases its addresses waits for this
    /// request while its grace period runs out. Upstream runs both concurrently, and keeps waiting.
    pub(super) async fn wait_for_pools(&self) -> Result<(), IpamError> {
        let agent = self.op.agent;
        agent.env.sleep(agent.config.settings.subnet_pool_wait).await;
        if !self.policy().pod_operations_overlap && self.is_shown_ending() {
            return Err(SelectError::DeadPod.into());
        }
        Ok(())
    }

    /// Whether the cache shows that the pod is ending.
    pub(super) fn is_shown_ending(&self) -> bool {
        let cached = self.op.agent.caches.pod(&self.request.pod);
        cached.is_some_and(|pod| pod.metadata.uid.as_deref() == Some(&*self.uid) && !is_alive(&pod))
    }

    /// Reads the pod and checks that it is alive and has the expected UID.
    pub(super) async fn check_alive(&self) -> Result<(), IpamError> {
        let live = self.op.live_pod(&self.request.pod).await?.ok_or_else(|| IpamError::MissingPod(self.request.pod.clone()))?;
        if live.metadata.uid.as_deref() != Some(&*self.uid) {
            let found = live.metadata.uid.clone().unwrap_or_default();
            return Err(IpamError::Replaced { pod: self.request.pod.clone(), wanted: self.uid.clone(), found });
        }
        if is_alive(&live) { Ok(()) } else { Err(SelectError::DeadPod.into()) }
    }
}
