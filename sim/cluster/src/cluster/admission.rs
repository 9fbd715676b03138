//! Admission webhooks (K §8.3) and permissions: what is registered, and how a write passes the webhooks.
//!
//! The server sends a write here when some webhook wants to see it; permissions are looked at by its filters. Who serves a webhook is said
//! by its [`Service`].

mod call;
mod service;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_machinery::api::{Dry, PatchKind, Reason, Verb};
use kube_machinery::{ApiError, ObjectKey};

use super::commit::{Intent, Loaded, Transaction};
use super::request::{ApiReply, ApiRequest, Op};
use super::serve::{Ending, Work};
use super::wait::etcd_error;
use super::write::Step;
use super::{Fabric, State};
use crate::kinds::KindId;
use crate::net::Side;
use crate::node::taints;
use crate::object::{Obj, make_mut, resource_version};

pub use call::{Hitch, HookFault};
pub use service::{Service, UNREADY_AFTER};

/// What a webhook is asked.
#[derive(Clone, Debug)]
pub struct Review {
    /// What the request does: create, update (also for patches) or delete.
    pub verb: Verb,
    /// Whether a mutating webhook is asked, else a validating one.
    pub mutating: bool,
    /// The type.
    pub kind: KindId,
    /// The object; its name is empty while a generated one is not yet known (K123).
    pub key: Option<ObjectKey>,
    /// The object as it would be stored, of the stored type; unset for deletes.
    pub object: Option<Obj>,
    /// The stored object; unset for creates.
    pub old: Option<Obj>,
    /// Whether the request only checks.
    pub dry: bool,
}

/// Why a webhook says no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The HTTP code of the answer; below 400 counts as 400.
    pub code: u16,
    /// The machine-readable reason; unset = the one that goes with the code.
    pub reason: Option<Reason>,
    /// The reason in words.
    pub message: String,
}

/// What a webhook answers: `Some` = a mutating webhook changed the object. That is then of the stored type, or of one
/// that clients use for it.
pub type Verdict = Result<Option<Obj>, Denial>;

/// The code of a webhook. It may read through a client of its own process, and what it reads may be stale (K124).
pub type Handler = Arc<dyn Fn(Review) -> Pin<Box<dyn Future<Output = Verdict> + Send>> + Send + Sync>;

/// What happens when a webhook does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The request fails with 500.
    Fail,
    /// The request goes on as if the webhook did not exist.
    Ignore,
}

/// A registered webhook. Its rules name no subresource: it is not called for writes of `/status` (K §8.2).
#[derive(Clone)]
pub struct Webhook {
    /// Its name, as in messages; webhooks are called in the order of their names.
    pub name: Arc<str>,
    /// Whether it may change the object.
    pub mutating: bool,
    /// The types it is called for.
    pub kinds: Vec<KindId>,
    /// Which of create, update and delete it is called for.
    pub verbs: Vec<Verb>,
    /// What happens when it does not answer.
    pub failure_policy: FailurePolicy,
    /// How long the API server waits; 1 to 30 s, 10 s by default.
    pub timeout: Duration,
    /// Who serves it; a process that is down or cut off does not answer.
    pub service: Arc<Service>,
}

impl Webhook {
    /// Whether the webhook is called for a request that `verb` tells what it does to its object.
    pub fn matches(&self, kind: KindId, op: &Op, verb: Verb) -> bool {
        op.subresource().is_none() && self.kinds.contains(&kind) && self.verbs.contains(&verb)
    }
}

/// Requests that are refused with 403 (K §9.2 A11).
#[derive(Clone, Debug, PartialEq)]
pub struct Forbidden {
    /// The fault of the plan that this belongs to, if any.
    pub fault: Option<u32>,
    /// Whose requests.
    pub clients: Side,
    /// Which verbs; empty = all.
    pub verbs: Vec<Verb>,
    /// Which types; empty = all.
    pub kinds: Vec<KindId>,
}

impl State {
    /// The DefaultTolerationSeconds plugin, if it is on (K §6.2).
    pub(super) fn default_tolerations(&self, kind: KindId, body: &mut Obj) {
        if let Some((pods, seconds)) = self.default_toleration
            && pods == kind
            && let Some(pod) = make_mut(body).as_any_mut().downcast_mut::<Pod>()
        {
            taints::tolerate_by_default(pod, seconds);
        }
    }

    /// Whether webhooks want to see a request.
    pub(super) fn is_hooked(&self, request: &ApiRequest) -> bool {
        if self.webhooks.is_empty() {
            return false;
        }
        let verb = self.admitted_as(request);
        self.webhooks.iter().any(|hook| hook.matches(request.kind, &request.op, verb))
    }

    /// What webhooks take a write for: a patch is an update, and an apply patch of what is not there a create (K166).
    fn admitted_as(&self, request: &ApiRequest) -> Verb {
        match &request.op {
            Op::Patch { key, patch, .. } if patch.kind == PatchKind::Apply && self.store.table(request.kind).get(key).is_none() => {
                Verb::Create
            }
            Op::Patch { .. } => Verb::Update,
            op => op.verb(),
        }
    }
}

impl Fabric {
    /// A write that webhooks want to see: their calls take time, so the stored object may change meanwhile, and then
    /// everything starts again (K §2.7 step 10). Webhooks may run for a write that fails in the end (K §3.4).
    pub(super) async fn write_with_admission(self: &Arc<Self>, work: &Work, request: &ApiRequest) -> Result<ApiReply, ApiError> {
        let intent = Intent::of(request);
        let Work { server, deadline, .. } = *work;
        loop {
            // A create is first looked at by admission; everything else begins with the stored object.
            if intent.verb != Verb::Create
                && let Some(error) = self.wait_to_write(work, |_| None).await
            {
                return Err(error);
            }
            let (mut loaded, (mutating, validating)) = {
                let state = self.lock();
                let verb = state.admitted_as(request);
                let asked = state.webhooks.iter().filter(|hook| hook.matches(intent.kind, &request.op, verb)).cloned();
                let hooks: (Vec<Webhook>, Vec<Webhook>) = asked.partition(|hook| hook.mutating);
                (state.load(self, server, request.clone()).map_err(ApiError::Status)?, hooks)
            };
            // Who asks sees a create as one, too.
            let verb = if intent.verb == Verb::Patch && loaded.base().is_none() { Verb::Create } else { intent.verb };
            for hook in &mutating {
                if let Some(changed) = self.call_webhook(server, hook, review(intent, verb, &loaded), deadline).await? {
                    match &mut loaded {
                        Loaded::Create { body, .. } | Loaded::Update { body, .. } => {
                            *body = self.registry.get(intent.kind).stored(changed);
                        }
                        Loaded::Delete { .. } => {}
                    }
                }
            }
            let old = match &loaded {
                Loaded::Update { current, .. } | Loaded::Delete { current, .. } => Some(current.clone()),
                Loaded::Create { .. } => None,
            };
            let base = loaded.base();
            let (key, step) = self.lock().prepare(self, server, intent, loaded).map_err(ApiError::Status)?;
            let object = match &step {
                Step::Create(object) | Step::Put(object) | Step::Keep(object) | Step::Remove { answer: Some(object) }
                    if intent.verb != Verb::Delete =>
                {
                    Some(object.clone())
                }
                _ => None,
            };
            let dry = intent.dry == Dry::Run;
            let review = Review { verb, mutating: false, kind: intent.kind, key: Some(key.clone()), object, old, dry };
            let calls = validating.iter().map(|hook| self.call_webhook(server, hook, review.clone(), deadline)).collect();
            for verdict in join_all(calls).await {
                verdict?;
            }
            drop(review);
            if let Ending::Fails = work.ending {
                return Err(etcd_error("etcdserver: request timed out"));
            }
            let transaction = Transaction { intent, key, step, base };
            if let Some(error) = self.wait_to_write(work, |_| Some(transaction.clone())).await {
                return Err(error);
            }
            let mut state = self.lock();
            let now = self.rt.now();
            if let Some(error) = state.is_over(work.ticket, deadline, now) {
                return Err(error);
            }
            if let Ending::CommitsLate { .. } = work.ending {
                drop(state);
                return Err(self.send_without_answer(work, transaction));
            }
            let Transaction { key, step, base, .. } = transaction;
            let stored = state.store.table(intent.kind).get(&key);
            let unchanged = match (&base, stored) {
                (Some(base), Some(stored)) => base == resource_version(&**stored),
                (None, None) => true,
                // A create fails now; a PUT that would have created becomes an update.
                (None, Some(_)) => intent.verb == Verb::Create,
                (Some(_), None) => false,
            };
            if unchanged {
                return state.carry_out(self, server, intent, key, step, now).map_err(ApiError::Status);
            }
        }
    }
}

/// What a mutating webhook sees.
fn review(intent: Intent, verb: Verb, loaded: &Loaded) -> Review {
    let (key, object, old) = match loaded {
        Loaded::Create { namespace, body } => {
            let name = body.meta().name.as_deref().filter(|name| !name.is_empty());
            let key = name.map(|name| match namespace {
                Some(namespace) => ObjectKey::namespaced(namespace, name),
                None => ObjectKey::cluster(name),
            });
            (key, Some(body.clone()), None)
        }
        Loaded::Update { key, body, current, .. } => (Some(key.clone()), Some(body.clone()), Some(current.clone())),
        Loaded::Delete { key, current, .. } => (Some(key.clone()), None, Some(current.clone())),
    };
    Review { verb, mutating: true, kind: intent.kind, key, object, old, dry: intent.dry == Dry::Run }
}

/// Runs futures concurrently and returns their results in order.
async fn join_all<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        let mut waiting = false;
        for (future, result) in &mut futures {
            if result.is_none() {
                match future.as_mut().poll(cx) {
                    Poll::Ready(value) => *result = Some(value),
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    futures.into_iter().map(|(_, result)| result.unwrap_or_else(|| unreachable!("every future is ready"))).collect()
}
