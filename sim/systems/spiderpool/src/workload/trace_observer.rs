//! Writes the steps of the agents to the trace.

use std::sync::{Arc, Weak};

use ipam_spiderpool::ipam::{self, AddRequest, How, IpamError, LastRead, Observer, PoolError, Step};
use ipam_spiderpool::select::{SelectError, Settings, TopController};
use k8s_openapi::api::core::v1::Pod;
use kube_sim::cluster::Cluster;
use kube_sim::env::SimEnv;
use kube_sim::rt::ProcessId;
use kube_sim::trace::Unhashed;

use super::note::{Given, InOrder, IpamNote, Refusal};
use super::question::{Known, Question};
use super::site::{ApiClient, Site};
use crate::coverage;

/// The observer of one life of an agent.
#[derive(Clone)]
pub(super) struct TraceObserver {
    pub cluster: Weak<Cluster>,
    pub process: ProcessId,
    pub node: Arc<str>,
    pub settings: Arc<Settings>,
    pub caches: Arc<LastRead<ApiClient, SimEnv>>,
    pub site: Arc<Site>,
}

impl TraceObserver {
    fn uid(&self, told: &Arc<str>, container: &str) -> Arc<str> {
        self.site.sandbox_uids.uid(told, container)
    }

    fn question(&self, request: &AddRequest, pod: &Arc<Pod>, made: bool, controller: &TopController) -> Question {
        // The cluster may be locked while a note is delivered, so the caches are brought up to date before.
        self.caches.catch_up();
        let caches: Arc<Known> = self.caches.clone();
        Question {
            request: request.clone(),
            pod: pod.clone(),
            node: self.node.clone(),
            made,
            controller: controller.clone(),
            settings: self.settings.clone(),
            caches: Arc::downgrade(&caches),
        }
    }
}

fn text(key: &kube_machinery::ObjectKey) -> Arc<str> {
    key.as_str().into()
}

impl Observer for TraceObserver {
    fn observe(&self, step: Step<'_>) {
        let Some(cluster) = self.cluster.upgrade() else { return };
        coverage::of_agent(&cluster, &step);
        let told = match step {
            Step::AddBegun { request } => IpamNote::AddBegun {
                pod: text(&request.pod),
                uid: self.uid(&request.pod_uid, &request.container_id),
                container: request.container_id.clone(),
                nic: request.nic.clone(),
            },
            Step::Selected { request, pod, asked, controller, selection, .. } => IpamNote::Selected {
                uid: self.uid(&request.pod_uid, &request.container_id),
                nic: request.nic.clone(),
                question: Unhashed(self.question(request, pod, asked.made, controller)),
                selection: Unhashed(Arc::new(selection.clone())),
                order: Unhashed(InOrder::of(selection)),
            },
            Step::PoolTried { uid, nic, pool, result, .. } => IpamNote::Tried {
                uid: uid.into(),
                nic: nic.into(),
                pool: pool.into(),
                outcome: result.map(|address| address.addr()).map_err(refused_by_pool),
            },
            Step::AddEnded { request, result, effort, took, .. } => {
                let how = result.map_or(How::Fresh, |answer| answer.how);
                let given = |answer: &ipam::AddAnswer| -> Arc<[Given]> {
                    let given = |ip: &ipam::NicAddress| {
                        let gateway = ip.gateway.as_deref().map(Arc::from);
                        Given { nic: ip.nic.as_str().into(), pool: ip.pool.clone(), address: ip.address.addr(), gateway }
                    };
                    answer.ips.iter().map(given).collect()
                };
                IpamNote::AddEnded {
                    pod: text(&request.pod),
                    uid: self.uid(&request.pod_uid, &request.container_id),
                    container: request.container_id.clone(),
                    nic: request.nic.clone(),
                    result: result.map(given).map_err(refused),
                    routes: result.map_or([].into(), |answer| answer.routes.as_slice().into()),
                    how,
                    conflicts: effort.conflicts,
                    attempts: effort.attempts,
                    took,
                }
            }
            Step::DelBegun { request } => IpamNote::DelBegun {
                pod: text(&request.pod),
                uid: self.uid(&request.pod_uid, &request.container_id),
                container: request.container_id.clone(),
                nic: request.nic.clone(),
            },
            Step::DelEnded { request, result, effort, .. } => IpamNote::DelEnded {
                pod: text(&request.pod),
                uid: self.uid(&request.pod_uid, &request.container_id),
                container: request.container_id.clone(),
                nic: request.nic.clone(),
                outcome: result.ok(),
                conflicts: effort.conflicts,
                exhausted: effort.exhausted > 0,
            },
            Step::ReleaseBegun { pod, uid, asked, cause, what } => {
                IpamNote::ReleaseBegun { pod: text(pod), uid: uid.into(), asked: asked.into(), cause, what: what.iter().cloned().collect() }
            }
            Step::ReleaseEnded { pod, uid, cause, result } => {
                IpamNote::ReleaseEnded { pod: text(pod), uid: uid.into(), cause, ok: result.is_ok() }
            }
            Step::TicketsAsked { turn, .. } => IpamNote::Queued { ticket: turn },
            Step::TicketsGranted { turn, .. } | Step::TicketsRefused { turn } => IpamNote::Unqueued { ticket: turn },
            Step::PoolsCompared { request, pod, asked, controller, endpoint, given_up, .. } => IpamNote::Compared {
                uid: self.uid(&request.pod_uid, &request.container_id),
                nic: request.nic.clone(),
                question: Unhashed(self.question(request, pod, asked.made, controller)),
                entries: Unhashed(endpoint.status.iter().flat_map(|status| &status.current.ips).cloned().collect()),
                given_up: given_up.into(),
            },
            Step::Reowned { .. } | Step::FailureCacheUsed { .. } | Step::BatchBegun { .. } | Step::BatchEnded { .. } => return,
        };
        cluster.note(self.process, &told);
    }
}

fn refused(error: &IpamError) -> Refusal {
    match error {
        IpamError::MissingPod(_) | IpamError::Elsewhere(_) | IpamError::Replaced { .. } | IpamError::Select(SelectError::DeadPod) => {
            Refusal::DeadPod
        }
        IpamError::Select(
            SelectError::MalformedRoutes { .. }
            | SelectError::InvalidRoute { .. }
            | SelectError::MalformedAnnotation { .. }
            | SelectError::EmptyIPPools
            | SelectError::MixedInterfaces
            | SelectError::DuplicateInterface { .. }
            | SelectError::InterfaceNotListed { .. }
            | SelectError::BadWildcard { .. }
            | SelectError::DuplicatePool { .. }
            | SelectError::SubnetInvalid { .. }
            | SelectError::SubnetBadIpNumber { .. }
            | SelectError::SubnetBadReclaim { .. },
        ) => Refusal::WrongInput,
        IpamError::Select(_) => Refusal::NoPool,
        IpamError::NotAllocated(failures) => {
            let all = || failures.0.iter().flat_map(|failure| &failure.pools).map(|(_, error)| refused_by_pool(error));
            // An error that may pass counts more than an exhausted pool.
            all().find(|refusal| *refusal != Refusal::UsedOut).unwrap_or(Refusal::UsedOut)
        }
        IpamError::Pool { error, .. } => refused_by_pool(error),
        IpamError::Endpoint { .. } | IpamError::Reading { .. } => Refusal::Api,
        IpamError::OutOfTime => Refusal::OutOfTime,
        IpamError::TerminatingEndpoint(_) => Refusal::Predecessor,
        IpamError::MissingEndpoint(_)
        | IpamError::EndpointOfAnother { .. }
        | IpamError::StaleEndpoint(_)
        | IpamError::ForbiddenStateless
        | IpamError::ForbiddenStateful
        | IpamError::InAnotherSandbox(_)
        | IpamError::QueueFull => Refusal::Blocked,
    }
}

fn refused_by_pool(error: &PoolError) -> Refusal {
    match error {
        PoolError::Unavailable(_) => Refusal::UsedOut,
        PoolError::RetriesExhausted { .. } => Refusal::RetriesExhausted,
        PoolError::OutOfTime => Refusal::OutOfTime,
        PoolError::Replaced(_) => Refusal::DeadPod,
        PoolError::EndpointUnknown | PoolError::NotFound | PoolError::BadRecords(_) | PoolError::DataBroken { .. } => Refusal::Blocked,
        PoolError::NotCompared | PoolError::OwnRecordsMadeWay | PoolError::Overlaps { .. } => Refusal::Blocked,
        PoolError::Api(_) | PoolError::Unsettled(_) => Refusal::Api,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pod_asks_for_in_vain_is_told_from_what_the_rules_leave_it_without() {
        assert_eq!(refused(&SelectError::EmptyIPPools.into()), Refusal::WrongInput);
        assert_eq!(refused(&SelectError::NoPool.into()), Refusal::NoPool);
        assert_eq!(refused(&SelectError::DeadPod.into()), Refusal::DeadPod);
    }
}
