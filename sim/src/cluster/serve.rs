//! An API server at work: the filters, then reads and writes (K §8.1, §8.2).
//!
//! A request that can be answered at once is (the common case: [`State::serve`]). What has to wait (for etcd, a
//! cache, a webhook, or because a fault says so) goes on as a task of the server's process: [`Fabric::serve_slowly`].

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ipam_core::api::{DeleteOptions, Dry, Reason, Subresource, TransportError, Verb};
use ipam_core::{ApiError, ObjectKey, Status};

use super::control::EtcdTrouble;
use super::exchange::Ticket;
use super::read::{Freshness, get_freshness, plan_list, too_large};
use super::request::{ApiReply, ApiRequest, Op};
use super::server::{Failure, Mishap};
use super::write::{self, Step};
use super::{Fabric, State, WritePoint};
use crate::draw::unit;
use crate::kinds::{KindId, TypeDef};
use crate::net::{Block, Fate};
use crate::object::{Obj, make_mut};
use crate::record::Part;
use crate::rt::ProcessId;
use crate::time::SimTime;
use crate::trace::{EventKind, FaultChange};

/// How long a read waits for its revision (K §2.11).
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);
/// How often etcd reports progress to a cache that asks for it (K §2.2).
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
/// How long etcd's client waits (K §3.4).
const ETCD_TIMEOUT: Duration = Duration::from_secs(7);
/// The deadline of a mutating request (K §2.11).
pub(super) const MUTATING_DEADLINE: Duration = Duration::from_secs(34);
/// The deadline of any other request (K §2.11).
const READ_DEADLINE: Duration = Duration::from_secs(60);

/// How a request was served.
pub(crate) enum Served {
    /// At once.
    Now(Result<ApiReply, ApiError>),
    /// It has to wait for something.
    Later(ApiRequest, Option<Mishap>),
}

/// The load phase of a write.
pub(super) enum Loaded {
    /// A create, or an update that creates.
    Create { namespace: Option<Arc<str>>, body: Obj },
    /// An update or a patched object.
    Update { key: ObjectKey, body: Obj, current: Obj },
    /// A delete.
    Delete { key: ObjectKey, current: Obj, options: Box<DeleteOptions> },
}

/// What all phases of a write need to know of its request.
#[derive(Clone, Copy)]
pub(super) struct Intent {
    pub client: ProcessId,
    pub kind: KindId,
    pub verb: Verb,
    pub subresource: Option<Subresource>,
    pub dry: Dry,
    pub call: u64,
}

/// What the filters look at: the parts that requests and watches have in common.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub client: ProcessId,
    pub kind: KindId,
    pub verb: Verb,
    pub key: Option<&'a ObjectKey>,
    pub namespace: Option<&'a str>,
    pub subresource: Option<Subresource>,
    /// Unset for a watch.
    pub call: Option<u64>,
}

impl<'a> Asked<'a> {
    fn of(request: &'a ApiRequest) -> Self {
        let ApiRequest { client, kind, op, call } = request;
        Self {
            client: *client,
            kind: *kind,
            verb: op.verb(),
            key: op.key(),
            namespace: op.namespace(),
            subresource: op.subresource(),
            call: Some(*call),
        }
    }
}

impl Intent {
    pub(super) fn of(request: &ApiRequest) -> Self {
        let dry = match &request.op {
            Op::Create { dry, .. } | Op::Update { dry, .. } | Op::Patch { dry, .. } => *dry,
            Op::Delete { options, .. } => options.dry,
            Op::Get { .. } | Op::List { .. } => Dry::No,
        };
        let ApiRequest { client, kind, op, call } = request;
        Self { client: *client, kind: *kind, verb: op.verb(), subresource: op.subresource(), dry, call: *call }
    }
}

pub(super) fn etcd_error(text: &'static str) -> ApiError {
    Status::new(Reason::Unknown, text).into()
}

fn failure(failure: Failure, verb: Verb, def: &TypeDef) -> ApiError {
    match failure {
        Failure::EtcdTimeout => etcd_error("etcdserver: request timed out"),
        Failure::LeaderChanged => etcd_error("etcdserver: leader changed"),
        Failure::Timeout => deadline_exceeded(),
        Failure::ServerTimeout => {
            let operation = if verb == Verb::Patch { Verb::Update } else { verb }.as_str();
            let key = ObjectKey::cluster(operation);
            Status::about(Reason::ServerTimeout, def.group, def.plural, &key, "").retry_after(2).into()
        }
        Failure::Reset => TransportError::Reset.into(),
    }
}

pub(super) fn deadline_exceeded() -> ApiError {
    Status::new(Reason::Timeout, "request did not complete within requested timeout - context deadline exceeded").into()
}

impl State {
    /// Counts a write of its client and returns the crash points that it reaches: before and after its commit.
    pub(crate) fn write_points_at(&mut self, request: &ApiRequest) -> (Option<u32>, Option<u32>) {
        if !request.op.verb().is_write() {
            return (None, None);
        }
        let count = self.writes.entry(request.client).or_insert(0);
        *count += 1;
        let count = *count;
        let reached = |point: &&WritePoint| point.client == request.client && point.nth == count;
        let find =
            |after: bool| self.write_points.iter().filter(reached).find(|point| point.after_commit == after).map(|point| point.fault);
        if self.write_points.is_empty() { (None, None) } else { (find(false), find(true)) }
    }

    /// The mishap that hits this request, if any.
    fn mishap(&mut self, asked: Asked<'_>, server: ProcessId, block: &Block, at: SimTime) -> Option<Mishap> {
        let Asked { client, kind, verb, call, .. } = asked;
        let hit = self.api_faults.iter().enumerate().find(|(index, fault)| {
            let applies = |side: &crate::net::Side, process| side.contains(process);
            applies(&fault.clients, client)
                && applies(&fault.servers, server)
                && (fault.verbs.contains(&verb) || fault.verbs.is_empty() && verb != Verb::Watch)
                && (fault.kinds.is_empty() || fault.kinds.contains(&kind))
                && unit(block[3].rotate_left(*index as u32 * 13)) < fault.chance
        });
        let (index, mishap) = hit.map(|(_, fault)| (fault.fault, fault.mishap))?;
        self.recorder.observe_of(Part { call, object: None }, at, EventKind::Fault { index, change: FaultChange::Fired });
        Some(mishap)
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

    /// What the filters of K §8.1 say: overload before permission, permission before everything else.
    pub(super) fn filter(
        &mut self,
        fabric: &Fabric,
        server: usize,
        asked: Asked<'_>,
        block: &Block,
        now: SimTime,
    ) -> Result<Option<Mishap>, ApiError> {
        let verb = asked.verb;
        let mut mishap = None;
        if !self.api_faults.is_empty() {
            let process = self.servers[server].process;
            mishap = self.mishap(asked, process, block, now);
            match mishap {
                Some(Mishap::TooManyRequests { retry_after }) => {
                    let text = "Too many requests, please try again later.";
                    return Err(ApiError::Plain { code: 429, text, retry_after: Some(retry_after) });
                }
                Some(Mishap::Unavailable) => {
                    return Err(Status::new(Reason::ServiceUnavailable, "apiserver is shutting down").retry_after(1).into());
                }
                _ => {}
            }
        }
        if !self.forbidden.is_empty() && self.is_forbidden(asked, now) {
            return Err(forbidden(fabric, &asked));
        }
        // A write gets as far as its commit.
        if mishap == Some(Mishap::FailBeforeCommit) && !verb.is_write() {
            return Err(etcd_error("etcdserver: request timed out"));
        }
        Ok(mishap)
    }

    /// The outcome of a request that `server` has carried out, unless the server crashes before it can answer.
    pub(crate) fn unless_crashed(&self, server: usize, result: Result<ApiReply, ApiError>) -> Result<ApiReply, ApiError> {
        if self.pending_server_crashes.contains(&server) { Err(TransportError::Reset.into()) } else { result }
    }

    /// Carries out a write that a server had passed on to etcd when it crashed. Nobody will be told.
    pub(crate) fn commit_for_crashed(&mut self, fabric: &Fabric, server: usize, request: ApiRequest, block: Block, now: SimTime) {
        let permitted = matches!(self.filter(fabric, server, Asked::of(&request), &block, now), Ok(None));
        if permitted && !self.must_wait(fabric, server, &request, now) {
            drop(self.answer(fabric, server, request, now));
        }
    }

    /// Answers a request, or finds that it has to wait.
    pub(crate) fn serve(&mut self, fabric: &Fabric, server: usize, request: ApiRequest, block: Block, now: SimTime) -> Served {
        let mishap = match self.filter(fabric, server, Asked::of(&request), &block, now) {
            Ok(mishap) => mishap,
            Err(error) => return Served::Now(Err(error)),
        };
        // Webhooks are called before etcd fails, and what they did stays (K §3.4).
        if mishap == Some(Mishap::FailBeforeCommit) && !self.is_hooked(&request) {
            return Served::Now(Err(etcd_error("etcdserver: request timed out")));
        }
        if mishap.is_some() || self.servers[server].paused || self.must_wait(fabric, server, &request, now) {
            return Served::Later(request, mishap);
        }
        Served::Now(self.answer(fabric, server, request, now))
    }

    /// Whether a request needs something that is not there yet.
    fn must_wait(&mut self, fabric: &Fabric, server: usize, request: &ApiRequest, now: SimTime) -> bool {
        let kind = request.kind;
        let ready = self.is_ready(server, kind, now);
        match &request.op {
            Op::Get { resource_version, .. } => match get_freshness(resource_version.as_deref()) {
                Ok(Freshness::AtLeast(revision)) if ready => self.cache_reaches(server, kind, revision, now) != Some(now),
                Ok(Freshness::Any) if ready => false,
                _ => !self.reaches_etcd(server),
            },
            Op::List { options, .. } => match plan_list(fabric.registry.get(kind), options) {
                Ok(plan) => match plan.freshness {
                    Freshness::AtLeast(revision) => ready && self.cache_reaches(server, kind, revision, now) != Some(now),
                    Freshness::Any => false,
                    Freshness::Exact(_) => !self.reaches_etcd(server),
                    Freshness::Latest => {
                        let revision = self.store.revision();
                        !self.reaches_etcd(server)
                            || (self.knobs.consistent_list_from_cache && self.cache_reaches(server, kind, revision, now) != Some(now))
                    }
                },
                Err(_) => false,
            },
            _ => !self.reaches_etcd(server) || self.is_hooked(request),
        }
    }

    /// Answers a request whose needs are met, without webhooks.
    fn answer(&mut self, fabric: &Fabric, server: usize, request: ApiRequest, now: SimTime) -> Result<ApiReply, ApiError> {
        let def = fabric.registry.get(request.kind);
        let boxed = |status: Box<Status>| ApiError::Status(status);
        match request.op {
            Op::Get { key, resource_version } => {
                let freshness = get_freshness(resource_version.as_deref()).map_err(boxed)?;
                self.get(def, server, request.kind, &key, &freshness, now).map(ApiReply::Object).map_err(boxed)
            }
            Op::List { namespace, options } => {
                let plan = plan_list(def, &options).map_err(boxed)?;
                self.list(server, request.kind, namespace.as_ref(), &plan, def, now).map_err(boxed)
            }
            _ => {
                // The body is moved, not shared: it can be stamped in place.
                let intent = Intent::of(&request);
                let loaded = self.load(fabric, intent.kind, request.op).map_err(boxed)?;
                let (key, step) = self.prepare(fabric, server, intent, loaded).map_err(boxed)?;
                self.carry_out(fabric, server, intent, key, step, now).map_err(boxed)
            }
        }
    }

    // --------------------------------------------------------------------------------------------------- writes

    /// The checks before mutating admission.
    pub(super) fn load(&self, fabric: &Fabric, kind: KindId, op: Op) -> write::Answer<Loaded> {
        let def = fabric.registry.get(kind);
        let table = self.store.table(kind);
        match op {
            Op::Create { namespace, mut body, .. } => {
                write::load_create(def, namespace.as_deref(), &mut body)?;
                if let Some(namespace) = &namespace {
                    self.check_namespace(def, namespace, &body)?;
                }
                Ok(Loaded::Create { namespace, body })
            }
            Op::Update { subresource: Some(Subresource::Status), .. } | Op::Patch { subresource: Some(_), .. } if !def.has_status => {
                Err(write::no_subresource())
            }
            Op::Patch { subresource: Some(Subresource::Binding), .. } => Err(write::no_subresource()),
            Op::Update { key, mut body, .. } => {
                let current = table.get(&key);
                if write::load_update(def, &self.knobs, &key, &body, current)? {
                    let current = current.cloned().unwrap_or_else(|| unreachable!("the object exists"));
                    return Ok(Loaded::Update { key, body, current });
                }
                write::load_create(def, key.namespace(), &mut body)?;
                // A PUT that creates is not held to the version it names.
                make_mut(&mut body).meta_mut().resource_version = None;
                if let Some(namespace) = key.namespace() {
                    self.check_namespace(def, namespace, &body)?;
                }
                Ok(Loaded::Create { namespace: key.namespace().map(Arc::from), body })
            }
            Op::Patch { key, patch, .. } => {
                write::check_patch(&patch)?;
                let current = table.get(&key).ok_or_else(|| write::not_found(def, &key))?.clone();
                let body = write::apply_patch(def, &key, &patch, &current)?;
                Ok(Loaded::Update { key, body, current })
            }
            Op::Delete { key, options } => {
                let current = table.get(&key).ok_or_else(|| write::not_found(def, &key))?.clone();
                write::check_preconditions(def, &key, &options.preconditions, &current)?;
                Ok(Loaded::Delete { key, current, options })
            }
            Op::Get { .. } | Op::List { .. } => unreachable!("reads are not loaded"),
        }
    }

    /// The NamespaceLifecycle plugin (K066).
    fn check_namespace(&self, def: &TypeDef, namespace: &str, body: &Obj) -> write::Answer<()> {
        let Some(kind) = self.namespaces else { return Ok(()) };
        let key = ObjectKey::cluster(namespace);
        match self.store.table(kind).get(&key) {
            None => Err(Box::new(Status::about(Reason::NotFound, "", "namespaces", &key, ""))),
            Some(found) if found.meta().deletion_timestamp.is_some() => {
                let own = ObjectKey::cluster(body.meta().name.as_deref().unwrap_or(""));
                let text = format!("unable to create new content in namespace {namespace} because it is being terminated");
                let cause = ipam_core::api::Cause {
                    reason: "NamespaceTerminating".into(),
                    message: format!("namespace {namespace} is being terminated").into(),
                    field: "metadata.namespace".into(),
                };
                Err(Box::new(Status::about(Reason::Forbidden, def.group, def.plural, &own, text).cause(cause)))
            }
            Some(_) => Ok(()),
        }
    }

    /// From the RV check to the decision. Loaded state must still be current.
    pub(super) fn prepare(&mut self, fabric: &Fabric, server: usize, intent: Intent, loaded: Loaded) -> write::Answer<(ObjectKey, Step)> {
        let def = fabric.registry.get(intent.kind);
        match loaded {
            Loaded::Create { namespace, mut body } => {
                let wall = fabric.wall(self.servers[server].process);
                self.default_tolerations(intent.kind, &mut body);
                let State { store, names, knobs, uid_ends, .. } = self;
                let table = store.table(intent.kind);
                let exists = |key: &ObjectKey| table.get(key).is_some();
                let key = write::prepare_create(def, knobs, namespace.as_deref(), &mut body, wall, names, exists)?;
                if !uid_ends.is_empty()
                    && let Some(end) = uid_ends.get(&(intent.kind, key.clone()))
                {
                    write::end_uid(&mut body, end);
                }
                Ok((key, Step::Create(body)))
            }
            Loaded::Update { key, body, current } => {
                let step = if intent.subresource == Some(Subresource::Binding) {
                    let wall = fabric.wall(self.servers[server].process);
                    write::prepare_binding(def, &key, &body, &current, wall)?
                } else {
                    write::prepare_update(def, &key, body, intent.subresource, &current)?
                };
                Ok((key, step))
            }
            Loaded::Delete { key, current, options } => {
                let wall = fabric.wall(self.servers[server].process);
                let step = write::prepare_delete(def, &options, &current, wall);
                Ok((key, step))
            }
        }
    }

    /// Commits a step and answers.
    pub(super) fn carry_out(
        &mut self,
        fabric: &Fabric,
        server: usize,
        intent: Intent,
        key: ObjectKey,
        step: Step,
        now: SimTime,
    ) -> write::Answer<ApiReply> {
        let def = fabric.registry.get(intent.kind);
        let uid = |object: Option<&Obj>| object.and_then(|object| object.meta().uid.clone()).unwrap_or_default();
        let table = self.store.table(intent.kind);
        if let Step::Create(object) = &step {
            write::finish_create(def, &key, table.get(&key), object)?;
        }
        if intent.dry == Dry::Run {
            return Ok(match step {
                Step::Create(object) | Step::Put(object) | Step::Keep(object) | Step::Remove { answer: Some(object) } => {
                    ApiReply::Object(object)
                }
                Step::PutThenRemove(_) | Step::Remove { answer: None } => ApiReply::Deleted { uid: uid(table.get(&key)) },
            });
        }
        Ok(match step {
            Step::Keep(object) => ApiReply::Object(object),
            Step::Create(object) => ApiReply::Object(self.put(fabric, server, intent, key, object, now)),
            Step::Put(object) => {
                write::check_etcd_size(def, &object)?;
                ApiReply::Object(self.put(fabric, server, intent, key, object, now))
            }
            Step::Remove { answer } => {
                let uid = uid(table.get(&key));
                self.commit(fabric, server, intent, key, None, now);
                answer.map_or(ApiReply::Deleted { uid }, ApiReply::Object)
            }
            Step::PutThenRemove(object) => {
                let uid = uid(Some(&object));
                let stored = self.put(fabric, server, intent, key.clone(), object, now);
                if std::mem::take(&mut self.servers[server].crash_in_delete) {
                    // The lock is held: whoever releases it carries the crash out before the answer is on its way.
                    self.pending_server_crashes.push(server);
                    return Ok(ApiReply::Object(stored));
                }
                self.commit(fabric, server, intent, key, None, now);
                ApiReply::Deleted { uid }
            }
        })
    }

    /// Stores an object and returns it with its revision.
    fn put(&mut self, fabric: &Fabric, server: usize, intent: Intent, key: ObjectKey, object: Obj, now: SimTime) -> Obj {
        self.commit(fabric, server, intent, key, Some(object), now).unwrap_or_else(|| unreachable!("what was put is there"))
    }

    /// Takes a revision for one change and tells everybody.
    fn commit(&mut self, fabric: &Fabric, server: usize, intent: Intent, key: ObjectKey, after: Option<Obj>, now: SimTime) -> Option<Obj> {
        let Intent { client, kind, verb, call, .. } = intent;
        if self.knobs.burned_revisions > 0 {
            let burned = self.choices.below(u64::from(self.knobs.burned_revisions) + 1);
            self.store.burn(burned);
        }
        let change = match after {
            Some(object) => self.store.put(kind, key, object, now),
            None => self.store.remove(kind, key, now),
        };
        let event = EventKind::Commit {
            client,
            server: self.servers[server].process,
            verb,
            kind,
            key: &change.key,
            revision: change.revision,
            before: change.before.as_ref(),
            after: change.after.as_ref(),
            content: change.after.as_ref().map_or(0, |after| fabric.registry.get(kind).content_of(&**after)),
        };
        self.recorder.observe_of(Part::of(call), now, event);
        let result = change.after.clone();
        if self.node_kind == Some(kind) {
            fabric.nodes.heartbeats.node_changed(change.key.name(), change.after.as_ref(), now);
        }
        self.dispatch(&fabric.rt, &fabric.registry, kind, now);
        result
    }
}

/// What the RBAC authorizer answers.
fn forbidden(fabric: &Fabric, asked: &Asked<'_>) -> ApiError {
    let def = fabric.registry.get(asked.kind);
    let user = fabric.rt.process_name(asked.client);
    let verb = asked.verb;
    let resource = match asked.subresource {
        Some(subresource) => format!("{}/{}", def.plural, subresource.as_str()),
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

impl Fabric {
    /// Serves a request that has to wait. Ends with the exchange done, and perhaps a commit after that.
    pub(crate) async fn serve_slowly(self: Arc<Self>, ticket: Ticket, server: usize, request: ApiRequest, mishap: Option<Mishap>) {
        let def = self.registry.get(request.kind);
        let verb = request.op.verb();
        let deadline = self.rt.now() + if verb.is_write() { MUTATING_DEADLINE } else { READ_DEADLINE };
        // The reply does not wait longer than this; the work goes on (K §2.11).
        let fabric = self.clone();
        self.rt.at(deadline, move || fabric.lock().complete(ticket, Err(deadline_exceeded()), deadline));
        match mishap {
            Some(Mishap::Slow { by }) => self.rt.sleep(by).await,
            Some(Mishap::CommitLate { error, after }) => {
                self.lock().complete(ticket, Err(failure(error, verb, def)), self.rt.now());
                self.rt.sleep(after).await;
            }
            Some(Mishap::Twice { gap }) => {
                // The first answer is lost on the way to whoever sent it again.
                drop(self.work(None, server, request.clone(), false).await);
                self.rt.sleep(gap).await;
            }
            _ => {}
        }
        let result = self.work(Some(ticket), server, request, mishap == Some(Mishap::FailBeforeCommit)).await;
        match mishap {
            Some(Mishap::LoseReply { error, after }) => {
                self.rt.sleep(after).await;
                self.lock().complete(ticket, Err(failure(error, verb, def)), self.rt.now());
            }
            _ => {
                let mut state = self.lock();
                let result = state.unless_crashed(server, result);
                state.complete(ticket, result, self.rt.now());
            }
        }
        self.crash_pending_servers();
    }

    /// Waits for what the request needs and answers it. `ticket`: the exchange that may be told of an error before the
    /// work is done. `fails`: etcd will not carry the write out.
    async fn work(self: &Arc<Self>, ticket: Option<Ticket>, server: usize, request: ApiRequest, fails: bool) -> Result<ApiReply, ApiError> {
        let def = self.registry.get(request.kind);
        match &request.op {
            Op::Get { resource_version, .. } => {
                let freshness = get_freshness(resource_version.as_deref()).map_err(ApiError::Status)?;
                self.wait_for(server, request.kind, &freshness).await?;
            }
            Op::List { options, .. } => {
                let plan = plan_list(def, options).map_err(ApiError::Status)?;
                self.wait_for(server, request.kind, &plan.freshness).await?;
            }
            _ => {
                let hooked = self.lock().is_hooked(&request);
                if hooked {
                    return self.write_with_admission(ticket, server, &request, fails).await;
                }
                if let Some(result) = self.wait_to_write(ticket, server).await {
                    return result;
                }
            }
        }
        let mut state = self.lock();
        let now = self.rt.now();
        state.answer(self, server, request, now)
    }

    /// Waits until a read can be answered.
    async fn wait_for(self: &Arc<Self>, server: usize, kind: KindId, freshness: &Freshness) -> Result<(), ApiError> {
        let wanted = {
            let mut state = self.lock();
            let ready = state.is_ready(server, kind, self.rt.now());
            match *freshness {
                Freshness::Any if ready => return Ok(()),
                Freshness::AtLeast(revision) if ready => Some((revision, true)),
                // Which revision to wait for is something that only etcd can tell (K §3.3).
                Freshness::Latest if state.knobs.consistent_list_from_cache && state.reaches_etcd(server) => {
                    let revision = state.store.revision();
                    (state.cache_reaches(server, kind, revision, self.rt.now()) != Some(self.rt.now())).then_some((revision, false))
                }
                _ => None,
            }
        };
        if let Some((revision, must)) = wanted {
            let give_up = self.rt.now() + FRESHNESS_WAIT;
            loop {
                let now = self.rt.now();
                let reaches = self.lock().cache_reaches(server, kind, revision, now);
                match reaches {
                    Some(at) if at <= now => return Ok(()),
                    _ if now >= give_up && must => {
                        let current = self.lock().servers[server].caches[usize::from(kind.0)].visible(now);
                        return Err(ApiError::Status(too_large(revision, current)));
                    }
                    // A consistent list falls back to etcd.
                    _ if now >= give_up => break,
                    Some(at) => self.rt.sleep_until(at.min(give_up)).await,
                    None => self.rt.sleep_until((now + PROGRESS_EVERY).min(give_up)).await,
                }
            }
        }
        self.read_etcd(server).await
    }

    /// Waits until a quorum read succeeds: etcd's client sends it again until its time-out.
    pub(super) async fn read_etcd(self: &Arc<Self>, server: usize) -> Result<(), ApiError> {
        if self.lock().reaches_etcd(server) || self.in_time(ETCD_TIMEOUT, self.etcd_reached(server)).await {
            Ok(())
        } else {
            Err(etcd_error("etcdserver: request timed out"))
        }
    }

    /// Waits until a write can be proposed. `Some` = it is over: the caller has been told, and what was to be
    /// committed has been, or never will be (K §3.4).
    pub(super) async fn wait_to_write(self: &Arc<Self>, ticket: Option<Ticket>, server: usize) -> Option<Result<ApiReply, ApiError>> {
        let trouble = {
            let state = self.lock();
            if state.reaches_etcd(server) {
                return None;
            }
            state.etcd.trouble
        };
        let reached = self.in_time(ETCD_TIMEOUT, self.etcd_reached(server)).await;
        let (lost_its_leader, commits) = {
            let mut state = self.lock();
            (state.choices.chance(0.5), state.choices.chance(0.5))
        };
        let error = match (reached, trouble) {
            (true, Some(EtcdTrouble::Electing)) if lost_its_leader => etcd_error("etcdserver: leader changed"),
            (true, _) => return None,
            (false, Some(EtcdTrouble::Electing)) => etcd_error("etcdserver: request timed out, possibly due to previous leader failure"),
            (false, _) => etcd_error("etcdserver: request timed out"),
        };
        if !commits {
            return Some(Err(error));
        }
        if let Some(ticket) = ticket {
            self.lock().complete(ticket, Err(error), self.rt.now());
        }
        self.etcd_reached(server).await;
        None
    }

    /// Whether `future` completes within `limit`.
    pub(super) async fn in_time(&self, limit: Duration, future: impl Future<Output = ()>) -> bool {
        let mut future = std::pin::pin!(future);
        let mut sleep = std::pin::pin!(self.rt.sleep(limit));
        std::future::poll_fn(|cx| {
            if future.as_mut().poll(cx).is_ready() {
                Poll::Ready(true)
            } else if sleep.as_mut().poll(cx).is_ready() {
                Poll::Ready(false)
            } else {
                Poll::Pending
            }
        })
        .await
    }

    /// Runs `future` as part of `process`: it stands still or dies with it. `None` = it died.
    pub(super) async fn in_process<T: Send + 'static>(
        &self,
        process: ProcessId,
        future: Pin<Box<dyn Future<Output = T> + Send>>,
    ) -> Option<T> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.rt.spawn(process, async move {
            let _ = sender.send(future.await);
        });
        receiver.await.ok()
    }

    /// Lets a message travel from one process to another. `false` = it was lost.
    pub(crate) async fn travel(self: &Arc<Self>, from: ProcessId, to: ProcessId) -> bool {
        loop {
            let (fate, _) = self.lock().net.send(from, to);
            match fate {
                Fate::Deliver { after, .. } => {
                    self.rt.sleep(after).await;
                    return true;
                }
                Fate::Lost => return false,
                Fate::Held => self.network_change().await,
            }
        }
    }

    /// Completes at the next change of a network rule.
    pub(crate) fn network_change(self: &Arc<Self>) -> impl Future<Output = ()> + Send + 'static {
        let fabric = self.clone();
        let mut registered = false;
        std::future::poll_fn(move |cx| {
            if registered {
                return Poll::Ready(());
            }
            registered = true;
            fabric.lock().net.on_change(cx.waker());
            Poll::Pending
        })
    }

    /// Carries out crashes that were decided while the lock was held.
    pub(crate) fn crash_pending_servers(self: &Arc<Self>) {
        let pending = std::mem::take(&mut self.lock().pending_server_crashes);
        for server in pending {
            self.crash_server(server);
        }
    }
}
