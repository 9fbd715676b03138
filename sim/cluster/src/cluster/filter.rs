//! The filters that every request and watch passes first (K §8.1): authentication, overload, permission, and the faults that answer in the
//! server's place.

use kube_machinery::api::{Reason, Verb};
use kube_machinery::{ApiError, ObjectKey, Status};
use sim_config::draw::unit;
use sim_config::time::SimTime;

use super::request::ApiRequest;
use super::request_point::Disturbance;
use super::server::InjectedFault;
use super::server_error::etcd_error;
use super::{Cluster, State};
use crate::kinds::KindId;
use crate::net::Block;
use crate::rt::ProcessId;
use crate::trace::record::Part;
use crate::trace::{EventKind, FaultChange};

/// The input of the filters: the parts that requests and watches have in common.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub client: ProcessId,
    pub kind: KindId,
    pub verb: Verb,
    pub key: Option<&'a ObjectKey>,
    pub namespace: Option<&'a str>,
    pub subresource: Option<&'static str>,
    /// The number of the call; unset for a watch.
    pub call: Option<u64>,
    /// The number of the call, also for a watch.
    pub sent: u64,
}

impl<'a> Asked<'a> {
    pub(super) fn of(request: &'a ApiRequest) -> Self {
        let ApiRequest { client, kind, op, call, .. } = request;
        Self {
            client: *client,
            kind: *kind,
            verb: op.verb(),
            key: op.key(),
            namespace: op.namespace(),
            subresource: op.subresource_name(),
            call: Some(*call),
            sent: *call,
        }
    }
}

impl State {
    /// The injected fault that hits this request, if any.
    fn injected(&mut self, asked: Asked<'_>, server: ProcessId, block: &Block, at: SimTime) -> Option<InjectedFault> {
        let Asked { client, kind, verb, call, sent, .. } = asked;
        let of_it = |disturbance| match disturbance {
            Disturbance::InjectedFault(injected) if verb != Verb::Watch || injected.refuses() => Some(injected),
            _ => None,
        };
        if let Some(injected) = self.struck(sent, at, of_it) {
            return Some(injected);
        }
        let hit = self.api_faults.iter().enumerate().find(|(index, fault)| {
            let applies = |side: &crate::net::Side, process| side.contains(process);
            applies(&fault.clients, client)
                && applies(&fault.servers, server)
                && (fault.verbs.contains(&verb) || fault.verbs.is_empty() && verb != Verb::Watch)
                && (fault.kinds.is_empty() || fault.kinds.contains(&kind))
                && unit(block[3].rotate_left(*index as u32 * 13)) < fault.chance
        });
        let (index, injected) = hit.map(|(_, fault)| (fault.fault, fault.injected))?;
        self.recorder.observe_of(Part { call, object: None }, at, EventKind::Fault { index, change: FaultChange::Fired });
        Some(injected)
    }

    /// Whether a request is refused for want of permission.
    fn is_forbidden(&mut self, asked: Asked<'_>, at: SimTime) -> bool {
        let Asked { client, kind, verb, call, .. } = asked;
        let hit = self.forbidden.iter().find(|rule| {
            rule.clients.contains(client)
                && (rule.verbs.is_empty() || rule.verbs.contains(&verb))
                && (rule.kinds.is_empty() || rule.kinds.contains(&kind))
        });
        let fault = hit.map(|rule| rule.fault);
        if let Some(Some(index)) = fault {
            self.recorder.observe_of(Part { call, object: None }, at, EventKind::Fault { index, change: FaultChange::Fired });
        }
        fault.is_some()
    }

    /// Applies the filters of K §8.1: authentication before overload, overload before permission, permission before everything else.
    pub(super) fn filter(
        &mut self,
        cluster: &Cluster,
        server: usize,
        asked: Asked<'_>,
        block: &Block,
        now: SimTime,
    ) -> Result<Option<InjectedFault>, ApiError> {
        let verb = asked.verb;
        let mut injected = None;
        if let Some(&(index, _)) = self.unauthorized.iter().find(|(_, clients)| clients.contains(asked.client)) {
            let fired = EventKind::Fault { index, change: FaultChange::Fired };
            self.recorder.observe_of(Part { call: asked.call, object: None }, now, fired);
            return Err(Status::new(Reason::Unauthorized, "Unauthorized").into());
        }
        if !self.api_faults.is_empty() || self.request_points.has_struck() {
            let process = self.servers[server].process;
            injected = self.injected(asked, process, block, now);
            match injected {
                Some(InjectedFault::TooManyRequests { retry_after }) => {
                    let text = "Too many requests, please try again later.";
                    return Err(ApiError::Plain { code: 429, text, retry_after: Some(retry_after) });
                }
                Some(InjectedFault::Unavailable) => {
                    return Err(Status::new(Reason::ServiceUnavailable, "apiserver is shutting down").retry_after(1).into());
                }
                Some(InjectedFault::Forbidden) => return Err(forbidden(cluster, &asked)),
                _ => {}
            }
        }
        if !self.forbidden.is_empty() && self.is_forbidden(asked, now) {
            return Err(forbidden(cluster, &asked));
        }
        // A write proceeds up to its commit.
        if injected == Some(InjectedFault::FailBeforeCommit) && !verb.is_write() {
            return Err(etcd_error("etcdserver: request timed out"));
        }
        Ok(injected)
    }
}

/// The answer of the RBAC authorizer.
fn forbidden(cluster: &Cluster, asked: &Asked<'_>) -> ApiError {
    let def = cluster.registry.get(asked.kind);
    let user = cluster.rt.process_name(asked.client);
    let verb = asked.verb;
    let resource = match asked.subresource {
        Some(subresource) => format!("{}/{subresource}", def.plural),
        None => def.plural.to_owned(),
    };
    let place = match asked.namespace {
        Some(namespace) => format!("in the namespace \"{namespace}\""),
        None => "at the cluster scope".to_owned(),
    };
    let text = format!("User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{}\" {place}", def.group);
    let nobody = ObjectKey::cluster("");
    Status::about(Reason::Forbidden, def.group, def.plural, asked.key.unwrap_or(&nobody), text).into()
}
