//! What a webhook's registration says: which requests it is asked about, and what becomes of them when it does not answer (K §8.3).

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

/// What happens when a webhook does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The request fails with 500.
    Fail,
    /// The request goes on as if the webhook did not exist.
    Ignore,
}

/// Whether calls change anything besides the object (K195). `Some` and `Unknown` cannot be registered any more, only be left from v1beta1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SideEffects {
    /// They change nothing else, also outside of dry runs.
    #[default]
    None,
    /// They do, but not for a dry run.
    NoneOnDryRun,
    /// They do: no dry run passes.
    Some,
    /// Nobody knows: no dry run passes.
    Unknown,
}

/// Whether a mutating webhook is asked again when another one changed the object after it (K194).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReinvocationPolicy {
    /// Each call of it is the only one of its pass.
    #[default]
    Never,
    /// Once more at most.
    IfNeeded,
}

/// Which part of an object a rule is about.
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

/// Requests that a webhook is asked about.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Which of create, update and delete; empty = all. A patch is an update, a binding and an apply that creates are creates.
    pub operations: Vec<Verb>,
    /// Which types; empty = all.
    pub kinds: Vec<KindId>,
    /// Which part of the object.
    pub part: Part,
}

impl Rule {
    fn contains(&self, kind: KindId, op: &Op, operation: Verb) -> bool {
        // Of an eviction its steps are looked at, each as what it is.
        !matches!(op, Op::Evict { .. })
            && (self.kinds.is_empty() || self.kinds.contains(&kind))
            && self.part.contains(op.subresource())
            && (self.operations.is_empty() || self.operations.contains(&operation))
    }
}

/// What admission calls a write, unless it is an apply patch.
pub(super) fn operation(op: &Op) -> Verb {
    match op.verb() {
        _ if op.subresource() == Some(Subresource::Binding) => Verb::Create,
        Verb::Patch => Verb::Update,
        verb => verb,
    }
}

/// Says of a review whether the webhook is to be asked, or why that cannot be told. Stands for an expression in CEL.
pub type Condition = Arc<dyn Fn(&Review) -> Result<bool, String> + Send + Sync>;

/// One more condition of a webhook, besides its rules and selectors (K193).
#[derive(Clone)]
pub struct MatchCondition {
    /// Its name, unique among those of the webhook.
    pub name: Arc<str>,
    /// Whether it holds for a review, or the text of the error that shows in the refusal.
    pub matches: Condition,
}

/// A webhook as an API server knows it by its configuration.
#[derive(Clone)]
pub struct Webhook {
    /// Its name, as in messages.
    pub name: Arc<str>,
    /// The name of the configuration that it is part of. Mutating webhooks are called in the order of these, and within one in the order
    /// in which they were added.
    pub configuration: Arc<str>,
    /// Whether it may change the object.
    pub mutating: bool,
    /// The requests that it is asked about: those of any rule.
    pub rules: Vec<Rule>,
    /// Which namespaces; objects without one are always selected. By default all.
    pub namespace_selector: Selector,
    /// Which objects, as they are or as they were before the write. By default all.
    pub object_selector: Selector,
    /// What else has to hold, all of it.
    pub match_conditions: Vec<MatchCondition>,
    /// What happens when it does not answer.
    pub failure_policy: FailurePolicy,
    /// How long the API server waits; 1 to 30 s, 10 s by default.
    pub timeout: Duration,
    /// Whether calls change anything besides the object.
    pub side_effects: SideEffects,
    /// Whether it is asked again when another webhook changed the object after it; says nothing of a validating one.
    pub reinvocation_policy: ReinvocationPolicy,
    /// Where it is called. Webhooks of one URL share their connections (K199).
    pub url: Arc<str>,
    /// Who serves it; a process that is down or cut off does not answer.
    pub service: Arc<Service>,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("name", &self.name).field("mutating", &self.mutating).field("rules", &self.rules).finish()
    }
}

impl Webhook {
    /// A webhook that is asked about nothing yet, with the defaults of `admissionregistration.k8s.io/v1`: it is the only one of a
    /// configuration of its name, selects everything, fails what it does not answer within 10 s, and has no side effects. Its URL is that
    /// of the Service in the namespace `default`.
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

    /// Whether some rule of the webhook is about a request, which is such an operation. The selectors are asked later, by
    /// `State::is_asked`.
    pub fn has_rule_for(&self, kind: KindId, op: &Op, operation: Verb) -> bool {
        self.rules.iter().any(|rule| rule.contains(kind, op, operation))
    }

    /// Whether the webhook may be asked about objects of one of these types.
    pub(in crate::cluster) fn concerns(&self, kinds: &[KindId]) -> bool {
        self.rules.iter().any(|rule| rule.kinds.is_empty() || rule.kinds.iter().any(|kind| kinds.contains(kind)))
    }

    fn selects_object(&self, review: &Review) -> bool {
        let none = BTreeMap::new();
        let matches = |meta: &ObjectMeta| self.object_selector.matches(meta.labels.as_ref().unwrap_or(&none));
        self.object_selector.selects_all() || [&review.object, &review.old].into_iter().flatten().any(|object| matches(object.meta()))
    }

    /// Whether all conditions hold. One that does not decides, also beside one that cannot be told.
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
    /// Whether a webhook, one of whose rules is about a request, is asked about it (K191, K192, K193).
    ///
    /// # Errors
    /// 404 for a namespace that is gone, 403 for a condition that cannot be told.
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

    /// A namespace is selected by the labels that it will have; anything in one by those that this has.
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
