//! Admission webhooks (K §8.3) and permissions: the registrations, and the way of a write through the webhooks.
//!
//! A write comes here when a rule of some webhook matches it; permissions are checked by the server's filters.
//!
//! ```text
//!  Webhook (registration) ──► is it asked? ──► call ──► connection (pool) ──► Service ──► a process
//!                                               └──► verdict, or failurePolicy; a change ──► reinvocation
//! ```

mod call;
mod pool;
mod registration;
mod reinvocation;
mod service;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use k8s_openapi::api::core::v1::Pod;
use kube_machinery::api::{Dry, PatchKind, Reason, Subresource, Verb};
use kube_machinery::{ApiError, ObjectKey};
use sim_config::time::SimTime;

use super::commit::{Intent, Loaded, Transaction};
use super::request::{ApiReply, ApiRequest, Op};
use super::serve::{Ending, Work};
use super::server_error::etcd_error;
use super::write::Step;
use super::{Cluster, State};
use crate::kinds::KindId;
use crate::net::Side;
use crate::node::taints;
use crate::object::{Obj, make_mut, resource_version};

pub use call::{Certificate, HookFault, WebhookFailure};
pub use pool::Pool;
pub use registration::{Condition, FailurePolicy, MatchCondition, Part, ReinvocationPolicy, Rule, SideEffects, Webhook};
pub use service::{Service, UNREADY_AFTER};

use registration::operation;
use reinvocation::Reinvocation;

/// The request to a webhook.
#[derive(Clone, Debug)]
pub struct Review {
    /// The operation: create, update (also for patches) or delete.
    pub verb: Verb,
    /// Whether a mutating webhook is called; otherwise it is a validating one.
    pub mutating: bool,
    /// The type of the object in the request.
    pub kind: KindId,
    /// The part of the object that is written, if not the whole. The whole object is passed all the same, even where a real server passes a
    /// `Binding`.
    pub subresource: Option<Subresource>,
    /// The key of the object; its name is empty while a generated one is not yet known (K123).
    pub key: Option<ObjectKey>,
    /// The object as it would be stored, of the stored type; unset for deletes.
    pub object: Option<Obj>,
    /// The stored object; unset for creates.
    pub old: Option<Obj>,
    /// Whether the request is a dry run.
    pub dry: bool,
}

/// The reason why a webhook denies a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The HTTP code of the answer; below 400 counts as 400.
    pub code: u16,
    /// The machine-readable reason; unset = none, as the server does not derive one from the code (K122).
    pub reason: Option<Reason>,
    /// The reason in words.
    pub message: String,
}

/// The answer of a webhook: `Some` = a mutating webhook changed the object. The object is then of the stored type, or of one that clients
/// use for it.
pub type Verdict = Result<Option<Obj>, Denial>;

/// The code of a webhook. It may read through a client of its own process, and its reads may be stale (K124).
pub type Handler = Arc<dyn Fn(Review) -> Pin<Box<dyn Future<Output = Verdict> + Send>> + Send + Sync>;

/// Requests that are refused with 403 (K §9.2 A11).
#[derive(Clone, Debug, PartialEq)]
pub struct Forbidden {
    /// The fault of the plan that this belongs to, if any.
    pub fault: Option<u32>,
    /// The clients whose requests are refused; those of others pass.
    pub clients: Side,
    /// The verbs that are refused; empty = all.
    pub verbs: Vec<Verb>,
    /// The types that are refused; empty = all.
    pub kinds: Vec<KindId>,
}

impl State {
    /// Applies the DefaultTolerationSeconds plugin, if it is on (K §6.2).
    pub(super) fn default_tolerations(&self, kind: KindId, body: &mut Obj) {
        if let Some((pods, seconds)) = self.default_toleration
            && pods == kind
            && let Some(pod) = make_mut(body).as_any_mut().downcast_mut::<Pod>()
        {
            taints::tolerate_by_default(pod, seconds);
        }
    }

    /// Whether webhooks may have to see a request.
    pub(super) fn is_hooked(&self, request: &ApiRequest) -> bool {
        if self.webhooks.is_empty() {
            return false;
        }
        let operation = self.operation(request);
        self.webhooks.iter().any(|hook| hook.has_rule_for(request.kind, &request.op, operation))
    }

    /// The admission operation of a write: an apply patch of an object that does not exist is a create (K166).
    fn operation(&self, request: &ApiRequest) -> Verb {
        match &request.op {
            Op::Patch { key, patch, .. } if patch.kind == PatchKind::Apply && self.store.table(request.kind).get(key).is_none() => {
                Verb::Create
            }
            op => operation(op),
        }
    }
}

impl Cluster {
    /// Carries out a write that webhooks have to see: their calls take time, so the stored object may change meanwhile, and then everything
    /// starts again (K §2.7 step 10). Webhooks may run for a write that fails in the end (K §3.4).
    pub(super) async fn write_with_admission(self: &Arc<Self>, work: &Work, request: &ApiRequest) -> Result<ApiReply, ApiError> {
        let intent = Intent::of(request);
        let Work { server, deadline, .. } = *work;
        let def = self.registry.get(intent.kind);
        loop {
            // For a create, admission comes first; everything else begins with the stored object.
            if intent.verb != Verb::Create
                && let Some(error) = self.wait_to_write(work, |_| None).await
            {
                return Err(error);
            }
            let (operation, mut loaded, (mutating, validating)) = {
                let state = self.lock();
                let operation = state.operation(request);
                let asked = state.webhooks.iter().filter(|hook| hook.has_rule_for(intent.kind, &request.op, operation)).cloned();
                let hooks: (Vec<Webhook>, Vec<Webhook>) = asked.partition(|hook| hook.mutating);
                (operation, state.load(self, server, request.clone()).map_err(ApiError::Status)?, hooks)
            };
            self.mutate(server, intent, operation, &mutating, &mut loaded, deadline).await?;
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
            let Intent { kind, subresource, .. } = intent;
            let dry = intent.dry == Dry::Run;
            let review = Review { verb: operation, mutating: false, kind, subresource, key: Some(key.clone()), object, old, dry };
            let mut calls = Vec::new();
            for hook in &validating {
                let asked = self.lock().is_asked(def, hook, &review)?;
                if asked {
                    calls.push(self.call_webhook(server, hook, review.clone(), deadline));
                }
            }
            first_error(calls).await?;
            drop(review);
            if let Ending::Fails = work.ending {
                return Err(etcd_error("etcdserver: request timed out"));
            }
            let restores = self.store(|store| store.restores());
            let transaction = Transaction { intent, key, step, base, restores };
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
                // A create fails now; a PUT that would have created the object becomes an update.
                (None, Some(_)) => intent.verb == Verb::Create,
                (Some(_), None) => false,
            };
            if unchanged {
                return state.carry_out(self, server, intent, key, step, now).map_err(ApiError::Status);
            }
        }
    }
}

impl Cluster {
    /// Calls the mutating webhooks, one after the other; each sees the changes of those before it (K194).
    async fn mutate(
        self: &Arc<Self>,
        server: usize,
        intent: Intent,
        operation: Verb,
        hooks: &[Webhook],
        loaded: &mut Loaded,
        deadline: SimTime,
    ) -> Result<(), ApiError> {
        let def = self.registry.get(intent.kind);
        let mut reinvocation = Reinvocation::default();
        loop {
            for (number, hook) in hooks.iter().enumerate() {
                let review = review(intent, operation, loaded);
                let asked = self.lock().is_asked(def, hook, &review)?;
                if !asked || !reinvocation.asks(number) {
                    continue;
                }
                let before = review.object.clone();
                let after = self.call_webhook(server, hook, review, deadline).await?.map(|changed| def.stored(changed));
                let changed = before.zip(after.as_ref()).is_some_and(|(before, after)| !before.same(&**after));
                reinvocation.was_asked(number, hook, changed);
                if let (Some(after), Loaded::Create { body, .. } | Loaded::Update { body, .. }) = (after, &mut *loaded) {
                    *body = after;
                }
            }
            if !reinvocation.begins_again() {
                return Ok(());
            }
        }
    }
}

/// The review that a mutating webhook gets.
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
    let Intent { kind, subresource, .. } = intent;
    Review { verb, mutating: true, kind, subresource, key, object, old, dry: intent.dry == Dry::Run }
}

/// Runs futures concurrently to their end. Returns the error of the one that failed first (K196).
async fn first_error<T, E>(futures: Vec<impl Future<Output = Result<T, E>>>) -> Result<(), E> {
    let mut running: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut first = Ok(());
    std::future::poll_fn(|cx| {
        running.retain_mut(|future| match future.as_mut().poll(cx) {
            Poll::Ready(Err(error)) => {
                if first.is_ok() {
                    first = Err(error);
                }
                false
            }
            Poll::Ready(Ok(_)) => false,
            Poll::Pending => true,
        });
        if running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    first
}
