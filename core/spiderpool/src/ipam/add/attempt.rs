//! What every part of an ADD works with: whom it is for, what it has changed so far, and how its endpoint is written.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

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
    /// Whether the addresses that were in use outside are no longer avoided from the next write on.
    pub(super) forgets_conflicts: bool,
    /// Addresses of a predecessor whose records this ADD has made its own, in an earlier round at the latest.
    pub(super) taken_over: Vec<(Arc<str>, ReusedIp)>,
    /// Whether a record was another pod's until this round.
    pub(super) takes_over: bool,
    /// Whether records that an endpoint named were missing, and were made anew.
    pub(super) made_records: bool,
    /// Addresses that the endpoint of this round names, and that other pods have.
    pub(super) taken: Vec<(Arc<str>, IpAddr)>,
    /// What the last write of the endpoint gives up, if it failed: it may have been carried out all the same, and the conflict be with
    /// itself.
    pub(super) given_up: GivenUp,
}

/// Addresses that an endpoint does not name any more, by pool.
#[derive(Debug, Default)]
pub(super) struct GivenUp {
    /// The UID of the pod that the endpoint was of.
    pub(super) of: String,
    pub(super) what: Vec<(Arc<str>, IpAddr)>,
}

/// Why a round did not end the ADD well.
pub(super) enum Setback {
    /// The endpoint is not as it was taken to be: look again.
    Again(IpamError),
    /// It is not known whether the endpoint was written: what was allocated must stay.
    Unknown(IpamError),
    /// The ADD ends with this error, without another look.
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
    pub(super) recorded: Vec<AllocatedIp>,
    /// Addresses that it found recorded: an earlier ADD did that, or this one in a write whose answer was lost.
    pub(super) found: Vec<AllocatedIp>,
    /// Pools of which it is not known whether they hold a record.
    pub(super) unsettled: Vec<Suspect>,
    /// Addresses that do not work for the pod.
    pub(super) avoided: Vec<IpAddr>,
    /// Whether an endpoint with what was recorded may have been written, though nobody said so.
    pub(super) may_be_named: bool,
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

    /// Writes the endpoint, of whose entries those of these NICs are `unfinished`, and says what became of it. Upstream (`strict`) writes
    /// also what has not changed, and once.
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

    /// The answer that an endpoint gives.
    pub(super) fn answer_of(&self, endpoint: &SpiderEndpoint, how: How) -> AddAnswer {
        let (ips, routes) = told_of_details(entries(endpoint).iter().filter(|entry| !is_unfinished(endpoint, &entry.interface)));
        AddAnswer { ips, routes, how }
    }

    /// The pod is alive, at this time of asking.
    pub(super) async fn confirm(&mut self) -> Result<(), IpamError> {
        if self.pod_is_live || self.policy().liveness_from_cache || self.policy().uid_from_cached_pod {
            return Ok(());
        }
        self.check_alive().await?;
        self.pod_is_live = true;
        Ok(())
    }

    /// Waits a little for pools that are not there yet.
    ///
    /// # Errors
    /// The pod ends meanwhile, as far as the cache knows. It needs no address any more, and the DEL that releases what it has waits for
    /// this request, while its grace runs out. Upstream lets both go on at once, and waits.
    pub(super) async fn wait_for_pools(&self) -> Result<(), IpamError> {
        let agent = self.op.agent;
        agent.env.sleep(agent.config.settings.subnet_pool_wait).await;
        if !self.policy().pod_operations_overlap && self.is_shown_ending() {
            return Err(SelectError::DeadPod.into());
        }
        Ok(())
    }

    /// Whether the cache shows that the pod ends.
    pub(super) fn is_shown_ending(&self) -> bool {
        let cached = self.op.agent.caches.pod(&self.request.pod);
        cached.is_some_and(|pod| pod.metadata.uid.as_deref() == Some(&*self.uid) && !is_alive(&pod))
    }

    /// Reads the pod: it is alive, and this one.
    pub(super) async fn check_alive(&self) -> Result<(), IpamError> {
        let live = self.op.live_pod(&self.request.pod).await?.ok_or_else(|| IpamError::MissingPod(self.request.pod.clone()))?;
        if live.metadata.uid.as_deref() != Some(&*self.uid) {
            let found = live.metadata.uid.clone().unwrap_or_default();
            return Err(IpamError::Replaced { pod: self.request.pod.clone(), wanted: self.uid.clone(), found });
        }
        if is_alive(&live) { Ok(()) } else { Err(SelectError::DeadPod.into()) }
    }
}
