//! The registration of a webhook: the requests that it is called for, and their fate when it does not answer (K §8.3).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{Selector, SelectorExt};
use kube_machinery::api::{Reason, Subresource, Verb};
use kube_machinery::{ApiError, ObjectKey, Status};

use super::{Review, Service};
use crate::cluster::State;
use crate::cluster::request::Op;
use crate::kinds::{KindId, TypeDef};

/// The label that every namespace has, with its name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The policy for a webhook that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The request fails with 500.
    Fail,
    /// The request goes on as if the webhook did not exist.
    Ignore,
}

/// The side effects of calls besides the change of the object (K195). `Some` and `Unknown` can no longer be registered, only be left from
/// v1beta1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SideEffects {
    /// There are none, even outside of dry runs.
    #[default]
    None,
    /// There are some, but not for a dry run.
    NoneOnDryRun,
    /// There are some: no dry run passes.
    Some,
    /// Unknown: no dry run passes.
    Unknown,
}

/// The policy for calling a mutating webhook again when another one changed the object after it (K194).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReinvocationPolicy {
    /// It is called once per pass.
    #[default]
    Never,
    /// It is called once more at most.
    IfNeeded,
}

/// The part of an object that a rule matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// The object itself: `pods`.
    #[default]
    Main,
    /// One subresource and not the object: `pods/status`.
    Of(Subresource),
    /// The object and every subresource of it: `pods/*`.
    Any,
}

impl Part {
    fn contains(self, subresource: Option<Subresource>) -> bool {
        match self {
            Part::Main => subresource.is_none(),
            Part::Of(part) => subresource == Some(part),
            Part::Any => true,
        }
    }
}

/// A set of requests that a webhook is called for.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The operations among create, update and delete; empty = all. A patch is an update; a binding, and an apply that creates, are
    /// creates.
    pub operations: Vec<Verb>,
    /// The types; empty = all.
    pub kinds: Vec<KindId>,
    /// The part of the object.
    pub part: Part,
}

impl Rule {
    fn contains(&self, kind: KindId, op: &Op, operation: Verb) -> bool {
        // An eviction is matched step by step, by the operation of each step.
        !matches!(op, Op::Evict { .. })
            && (self.kinds.is_empty() || self.kinds.contains(&kind))
            && self.part.contains(op.subresource())
            && (self.operations.is_empty() || self.operations.contains(&operation))
    }
}

/// The admission operation of a write, unless it is an apply patch.
pub(super) fn operation(op: &Op) -> Verb {
    match op.verb() {
        _ if op.subresource() == Some(Subresource::Binding) => Verb::Create,
        Verb::Patch => Verb::Update,
        verb => verb,
    }
}

/// Decides from a review whether the webhook is to be called, or returns an error. Stands for a CEL expression.
pub type Condition = Arc<dyn Fn(&Review) -> Result<bool, String> + Send + Sync>;

/// A further condition of a webhook, besides its rules and selectors (K193).
#[derive(Clone)]
pub struct MatchCondition {
    /// Its name, unique among those of the webhook.
    pub name: Arc<str>,
    /// Returns whether it holds for a review, or the text of the error for the refusal.
    pub matches: Condition,
}

/// The configuration of a webhook as an API server knows it.
#[derive(Clone)]
pub struct Webhook {
    /// Its name, as in messages.
    pub name: Arc<str>,
    /// The name of the configuration that it is part of. Mutating webhooks are called in the order of these names, and within one
    /// configuration in the order in which they were added.
    pub configuration: Arc<str>,
    /// Whether it may change the object.
    pub mutating: bool,
    /// The requests that it is called for: those that any rule matches.
    pub rules: Vec<Rule>,
    /// The namespaces that it is called for; cluster-scoped objects are always selected. By default all.
    pub namespace_selector: Selector,
    /// The objects that it is called for, as they are or as they were before the write. By default all.
    pub object_selector: Selector,
    /// Further conditions, which all have to hold.
    pub match_conditions: Vec<MatchCondition>,
    /// The policy if it does not answer.
    pub failure_policy: FailurePolicy,
    /// The time limit of the API server; 1 to 30 s, 10 s by default.
    pub timeout: Duration,
    /// The side effects of calls besides the change of the object.
    pub side_effects: SideEffects,
    /// The policy for calling it again when another webhook changed the object after it; has no meaning for a validating one.
    pub reinvocation_policy: ReinvocationPolicy,
    /// The URL of the webhook. Webhooks of one URL share their connections (K199).
    pub url: Arc<str>,
    /// The Service that serves it; a process that is down or cut off does not answer.
    pub service: Arc<Service>,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("name", &self.name).field("mutating", &self.mutating).field("rules", &self.rules).finish()
    }
}

impl Webhook {
    /// A webhook without rules, with the defaults of `admissionregistration.k8s.io/v1`: it is the only one of a configuration of its name,
    /// selects everything, fails requests that it does not answer within 10 s, and has no side effects. Its URL is that of the Service in
    /// the namespace `default`.
    pub fn new(name: &str, mutating: bool, service: Arc<Service>) -> Self {
        let path = if mutating { "mutate" } else { "validate" };
        Self {
            name: name.into(),
            configuration: name.into(),
            mutating,
            rules: Vec::new(),
            namespace_selector: Selector::default(),
            object_selector: Selector::default(),
            match_conditions: Vec::new(),
            failure_policy: FailurePolicy::Fail,
            timeout: Duration::from_secs(10),
            side_effects: SideEffects::None,
            reinvocation_policy: ReinvocationPolicy::Never,
            url: format!("https://{}.default.svc:443/{path}-{name}", service.name()).into(),
            service,
        }
    }

    /// Whether some rule of the webhook matches a request with this operation. The selectors are checked later, by `State::is_asked`.
    pub fn has_rule_for(&self, kind: KindId, op: &Op, operation: Verb) -> bool {
        self.rules.iter().any(|rule| rule.contains(kind, op, operation))
    }

    /// Whether the webhook may be called for objects of one of these types.
    pub(in crate::cluster) fn concerns(&self, kinds: &[KindId]) -> bool {
        self.rules.iter().any(|rule| rule.kinds.is_empty() || rule.kinds.iter().any(|kind| kinds.contains(kind)))
    }

    fn selects_object(&self, review: &Review) -> bool {
        let none = BTreeMap::new();
        let matches = |meta: &ObjectMeta| self.object_selector.matches(meta.labels.as_ref().unwrap_or(&none));
        self.object_selector.selects_all() || [&review.object, &review.old].into_iter().flatten().any(|object| matches(object.meta()))
    }

    /// Whether all conditions hold. One that does not hold decides, even if another one has an error.
    fn meets_conditions(&self, review: &Review) -> Result<bool, String> {
        let told: Vec<Result<bool, String>> = self.match_conditions.iter().map(|condition| (condition.matches)(review)).collect();
        if told.contains(&Ok(false)) {
            return Ok(false);
        }
        let errors: Vec<String> = told.into_iter().filter_map(Result::err).collect();
        match (errors.as_slice(), self.failure_policy) {
            ([], _) => Ok(true),
            (_, FailurePolicy::Ignore) => Ok(false),
            ([error], FailurePolicy::Fail) => Err(error.clone()),
            (errors, FailurePolicy::Fail) => Err(format!("[{}]", errors.join(", "))),
        }
    }
}

impl State {
    /// Whether a webhook that has a matching rule is called for a request (K191, K192, K193).
    ///
    /// # Errors
    /// 404 for a namespace that is gone, 403 for a condition with an error.
    pub(super) fn is_asked(&self, def: &TypeDef, hook: &Webhook, review: &Review) -> Result<bool, ApiError> {
        if !self.selects_namespace(def, hook, review)? || !hook.selects_object(review) {
            return Ok(false);
        }
        let refused = |text| {
            let name = review.key.as_ref().map_or("", ObjectKey::name);
            Status::about(Reason::Forbidden, def.group, def.plural, &ObjectKey::cluster(name), text).into()
        };
        hook.meets_conditions(review).map_err(refused)
    }

    /// Whether the namespace selector matches: a namespace is selected by the labels that it will have, and objects in a namespace by the
    /// labels that the namespace has.
    fn selects_namespace(&self, def: &TypeDef, hook: &Webhook, review: &Review) -> Result<bool, ApiError> {
        let selector = &hook.namespace_selector;
        let is_namespace = self.namespaces == Some(review.kind);
        if selector.selects_all() || !(def.namespaced || is_namespace) {
            return Ok(true);
        }
        let matches = |name: &str, meta: Option<&ObjectMeta>| {
            let mut labels = meta.and_then(|meta| meta.labels.clone()).unwrap_or_default();
            labels.insert(NAME_LABEL.to_owned(), name.to_owned());
            selector.matches(&labels)
        };
        if is_namespace && review.subresource.is_none() && review.verb != Verb::Delete {
            let Some(object) = &review.object else { return Ok(true) };
            return Ok(matches(object.meta().name.as_deref().unwrap_or_default(), Some(object.meta())));
        }
        let object = review.object.as_ref().or(review.old.as_ref());
        let name = match (&review.key, object) {
            (Some(key), _) if is_namespace => key.name().to_owned(),
            (Some(key), _) => key.namespace().unwrap_or_default().to_owned(),
            (None, object) => object.and_then(|object| object.meta().namespace.clone()).unwrap_or_default(),
        };
        let Some(kind) = self.namespaces else { return Ok(matches(&name, None)) };
        let key = ObjectKey::cluster(&name);
        match self.store.table(kind).get(&key) {
            Some(namespace) => Ok(matches(&name, Some(namespace.meta()))),
            None => Err(Status::about(Reason::NotFound, "", "namespaces", &key, "").into()),
        }
    }
}
