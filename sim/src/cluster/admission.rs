//! Admission webhooks (K §8.3) and permissions.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ipam_core::ObjectKey;
use ipam_core::api::Verb;

use super::request::Op;
use crate::kinds::KindId;
use crate::net::Side;
use crate::object::Obj;
use crate::rt::ProcessId;

/// What a webhook is asked.
#[derive(Clone, Debug)]
pub struct Review {
    /// What the request does: create, update (also for patches) or delete.
    pub verb: Verb,
    /// The type.
    pub kind: KindId,
    /// The object; its name is empty while a generated one is not yet known (K123).
    pub key: Option<ObjectKey>,
    /// The object as it would be stored; unset for deletes.
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
    /// The reason in words.
    pub message: String,
}

/// What a webhook answers: `Some` = a mutating webhook changed the object.
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
    /// The process that serves it; a process that is down or cut off does not answer.
    pub process: ProcessId,
    /// What it does.
    pub handler: Handler,
}

impl Webhook {
    /// Whether the webhook is called for a request.
    pub(crate) fn matches(&self, kind: KindId, op: &Op) -> bool {
        let verb = if op.verb() == Verb::Patch { Verb::Update } else { op.verb() };
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
