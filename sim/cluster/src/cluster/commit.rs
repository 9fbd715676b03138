//! The phases of a write at an API server, against the store, up to its commit (K §8.2). The decisions of a phase are in [`write`].

use std::sync::Arc;

use kube_machinery::api::{DeleteOptions, Dry, Patch, PatchKind, Reason, Subresource, Verb};
use kube_machinery::{ObjectKey, Status};
use sim_config::time::SimTime;

use super::request::{ApiReply, ApiRequest, Op};
use super::write::{self, Step};
use super::{Cluster, State};
use crate::kinds::{KindId, TypeDef};
use crate::object::{Obj, make_mut, resource_version};
use crate::rt::ProcessId;
use crate::trace::EventKind;
use crate::trace::record::Part;

/// Namespaces that every cluster has and that cannot be deleted.
const PROTECTED: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The load phase of a write.
pub(super) enum Loaded {
    /// A create, or an update that creates.
    Create { namespace: Option<Arc<str>>, body: Obj },
    /// An update or a patched object.
    Update { key: ObjectKey, body: Obj, current: Obj },
    /// A delete of the object that was loaded as `current`.
    Delete { key: ObjectKey, current: Obj, options: Box<DeleteOptions> },
}

/// The properties of a request that all phases of its write need.
#[derive(Clone, Copy)]
pub(super) struct Intent {
    pub client: ProcessId,
    pub kind: KindId,
    pub verb: Verb,
    pub subresource: Option<Subresource>,
    pub dry: Dry,
    pub call: u64,
}

impl Intent {
    pub(super) fn of(request: &ApiRequest) -> Self {
        let dry = match &request.op {
            Op::Create { dry, .. } | Op::Update { dry, .. } | Op::Patch { dry, .. } => *dry,
            Op::Delete { options, .. } | Op::Evict { options, .. } => options.dry,
            Op::Get { .. } | Op::List { .. } => Dry::No,
        };
        let ApiRequest { client, kind, op, call, .. } = request;
        Self { client: *client, kind: *kind, verb: op.verb(), subresource: op.subresource(), dry, call: *call }
    }
}

/// A write that is ready for etcd: the content to store, and the condition.
#[derive(Clone)]
pub(super) struct Transaction {
    pub intent: Intent,
    pub key: ObjectKey,
    pub step: Step,
    /// The version that was loaded; unset = there was no object, and there must be none.
    pub base: Option<String>,
    /// The number of etcd restores before it was sent: a transaction from before a restore is lost.
    pub restores: u32,
}

/// The name of an object; empty if it has none yet.
fn name_of(body: &Obj) -> &str {
    body.meta().name.as_deref().unwrap_or_default()
}

impl Loaded {
    /// The version that was loaded; unset for a create.
    pub(super) fn base(&self) -> Option<String> {
        match self {
            Self::Create { .. } => None,
            Self::Update { current, .. } | Self::Delete { current, .. } => Some(resource_version(&**current).to_owned()),
        }
    }
}

impl State {
    /// Prepares a write for etcd from the present state, without webhooks.
    pub(super) fn transaction(&mut self, cluster: &Cluster, server: usize, request: ApiRequest) -> write::Answer<Transaction> {
        let intent = Intent::of(&request);
        let loaded = self.load(cluster, server, request)?;
        let base = loaded.base();
        let (key, step) = self.prepare(cluster, server, intent, loaded)?;
        Ok(Transaction { intent, key, step, base, restores: self.store.restores() })
    }

    /// Carries out a transaction for which no caller waits any more: it is executed as it was sent, if the object is unchanged (K114).
    pub(super) fn commit_late(&mut self, cluster: &Cluster, server: usize, transaction: Transaction, now: SimTime) {
        let Transaction { intent, key, step, base, restores } = transaction;
        let stored = self.store.table(intent.kind).get(&key);
        if restores != self.store.restores() || stored.map(|stored| resource_version(&**stored)) != base.as_deref() {
            return;
        }
        let step = match step {
            // The second phase of a deletion without grace is another transaction, which has not been sent yet.
            Step::PutThenRemove(object) => Step::Put(object),
            step => step,
        };
        drop(self.carry_out(cluster, server, intent, key, step, now));
    }

    /// Makes the checks that precede mutating admission.
    pub(super) fn load(&self, cluster: &Cluster, server: usize, request: ApiRequest) -> write::Answer<Loaded> {
        let ApiRequest { client, kind, op, manager, .. } = request;
        let by = |named: Option<&str>| write::Writer {
            manager: named.or(manager.as_deref()).map_or_else(|| cluster.rt.process_name(client).to_string(), str::to_owned),
            now: cluster.wall(self.servers[server].process),
        };
        let everywhere = self.knobs.managed_fields;
        let def = cluster.registry.get(kind);
        let table = self.store.table(kind);
        match op {
            Op::Create { namespace, mut body, .. } => {
                write::load_create(def, namespace.as_deref(), &mut body)?;
                write::track(def, everywhere, None, None, &mut body, || by(None));
                if let Some(namespace) = &namespace {
                    self.check_namespace(def, namespace, name_of(&body))?;
                }
                Ok(Loaded::Create { namespace, body })
            }
            Op::Update { subresource: Some(Subresource::Status), .. } | Op::Patch { subresource: Some(_), .. } if !def.has_status => {
                Err(write::no_subresource())
            }
            Op::Patch { subresource: Some(Subresource::Binding | Subresource::Finalize), .. } => Err(write::no_subresource()),
            Op::Update { subresource: Some(Subresource::Finalize), .. } if Some(kind) != self.namespaces => Err(write::no_subresource()),
            Op::Update { key, mut body, subresource, .. } => {
                // A binding is a POST: it creates a resource in the namespace (K066).
                if let Some(namespace) = key.namespace().filter(|_| subresource == Some(Subresource::Binding)) {
                    self.check_namespace(def, namespace, name_of(&body))?;
                }
                let current = table.get(&key);
                if write::load_update(def, &self.knobs, &key, &body, current)? {
                    let current = current.cloned().unwrap_or_else(|| unreachable!("the object exists"));
                    if subresource != Some(Subresource::Binding) {
                        write::track(def, everywhere, subresource, Some(&current), &mut body, || by(None));
                    }
                    return Ok(Loaded::Update { key, body, current });
                }
                write::load_create(def, key.namespace(), &mut body)?;
                // A PUT that creates ignores the version that it names.
                make_mut(&mut body).meta_mut().resource_version = None;
                write::track(def, everywhere, None, None, &mut body, || by(None));
                if let Some(namespace) = key.namespace() {
                    self.check_namespace(def, namespace, name_of(&body))?;
                }
                Ok(Loaded::Create { namespace: key.namespace().map(Arc::from), body })
            }
            Op::Patch { key, patch, subresource, .. } if patch.kind == PatchKind::Apply => {
                write::check_patch(def, &patch)?;
                self.load_apply(def, kind, key, &patch, subresource, &by(patch.manager.as_deref()))
            }
            Op::Patch { key, patch, subresource, .. } => {
                write::check_patch(def, &patch)?;
                let current = table.get(&key).ok_or_else(|| write::not_found(def, &key))?.clone();
                let mut body = write::apply_patch(def, &key, &patch, &current)?;
                if let Some(complete) = self.complete {
                    body = write::completed(def, body, complete)?;
                }
                write::track(def, everywhere, subresource, Some(&current), &mut body, || by(patch.manager.as_deref()));
                Ok(Loaded::Update { key, body, current })
            }
            Op::Delete { key, .. } if Some(kind) == self.namespaces && PROTECTED.contains(&key.name()) => {
                Err(Box::new(Status::about(Reason::Forbidden, def.group, def.plural, &key, "this namespace may not be deleted")))
            }
            Op::Delete { key, options } => {
                let current = table.get(&key).ok_or_else(|| write::not_found(def, &key))?.clone();
                write::check_preconditions(def, &key, &options.preconditions, &current)?;
                Ok(Loaded::Delete { key, current, options })
            }
            Op::Get { .. } | Op::List { .. } => unreachable!("reads are not loaded"),
            Op::Evict { .. } => unreachable!("an eviction is carried out step by step"),
        }
    }

    /// Loads an apply: an update if its object exists, otherwise a create. A write of the status creates nothing.
    fn load_apply(
        &self,
        def: &TypeDef,
        kind: KindId,
        key: ObjectKey,
        patch: &Patch,
        subresource: Option<Subresource>,
        by: &write::Writer,
    ) -> write::Answer<Loaded> {
        let current = self.store.table(kind).get(&key);
        if current.is_none() && subresource.is_some() {
            return Err(write::not_found(def, &key));
        }
        let mut body = write::apply(def, &key, patch, subresource, current, self.complete, by)?;
        if let Some(current) = current {
            return Ok(Loaded::Update { key, body, current: current.clone() });
        }
        write::load_create(def, key.namespace(), &mut body)?;
        // The version is ignored, as for a PUT that creates.
        make_mut(&mut body).meta_mut().resource_version = None;
        if let Some(namespace) = key.namespace() {
            self.check_namespace(def, namespace, name_of(&body))?;
        }
        Ok(Loaded::Create { namespace: key.namespace().map(Arc::from), body })
    }

    /// The NamespaceLifecycle plugin (K066), for a POST about the object of this name.
    pub(super) fn check_namespace(&self, def: &TypeDef, namespace: &str, name: &str) -> write::Answer<()> {
        let Some(kind) = self.namespaces else { return Ok(()) };
        let key = ObjectKey::cluster(namespace);
        match self.store.table(kind).get(&key) {
            None => Err(Box::new(Status::about(Reason::NotFound, "", "namespaces", &key, ""))),
            Some(found) if found.meta().deletion_timestamp.is_some() => {
                let own = ObjectKey::cluster(name);
                let text = format!("unable to create new content in namespace {namespace} because it is being terminated");
                let cause = kube_machinery::api::Cause {
                    reason: "NamespaceTerminating".into(),
                    message: format!("namespace {namespace} is being terminated").into(),
                    field: "metadata.namespace".into(),
                };
                Err(Box::new(Status::about(Reason::Forbidden, def.group, def.plural, &own, text).cause(cause)))
            }
            Some(_) => Ok(()),
        }
    }

    /// Makes the checks from the resourceVersion check to the decision. The loaded state must still be current.
    pub(super) fn prepare(&mut self, cluster: &Cluster, server: usize, intent: Intent, loaded: Loaded) -> write::Answer<(ObjectKey, Step)> {
        let def = cluster.registry.get(intent.kind);
        match loaded {
            Loaded::Create { namespace, mut body } => {
                let wall = cluster.wall(self.servers[server].process);
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
                    let wall = cluster.wall(self.servers[server].process);
                    write::prepare_binding(def, &key, &body, &current, wall)?
                } else {
                    write::prepare_update(def, &key, body, intent.subresource, &current)?
                };
                Ok((key, step))
            }
            Loaded::Delete { key, current, options } => {
                let wall = cluster.wall(self.servers[server].process);
                let step = write::prepare_delete(def, &options, &current, wall);
                Ok((key, step))
            }
        }
    }

    /// Commits a step and returns the answer.
    pub(super) fn carry_out(
        &mut self,
        cluster: &Cluster,
        server: usize,
        intent: Intent,
        key: ObjectKey,
        step: Step,
        now: SimTime,
    ) -> write::Answer<ApiReply> {
        let def = cluster.registry.get(intent.kind);
        let uid = |object: Option<&Obj>| object.and_then(|object| object.meta().uid.clone()).unwrap_or_default();
        if self.etcd.out_of_space && intent.dry != Dry::Run && step.stores() {
            return Err(write::out_of_space());
        }
        let step = match step {
            Step::Create(object) => Step::Create(write::fitting(def, object)),
            Step::Put(object) => Step::Put(write::fitting(def, object)),
            step => step,
        };
        let table = self.store.table(intent.kind);
        if let Step::Create(object) = &step {
            write::finish_create(def, &key, table.get(&key), object)?;
        }
        if intent.dry == Dry::Run {
            return Ok(match step {
                Step::Create(object) | Step::Put(object) | Step::Keep(object) | Step::Remove { answer: Some(object) } => {
                    ApiReply::Object(object)
                }
                Step::PutThenRemove(object) if def.returns_deleted => ApiReply::Object(object),
                Step::Remove { answer: None } if def.returns_deleted => {
                    table.get(&key).map_or(ApiReply::Deleted { uid: String::new() }, |object| ApiReply::Object(object.clone()))
                }
                Step::PutThenRemove(_) | Step::Remove { answer: None } => ApiReply::Deleted { uid: uid(table.get(&key)) },
            });
        }
        Ok(match step {
            Step::Keep(object) => ApiReply::Object(object),
            Step::Create(object) => ApiReply::Object(self.commit(cluster, server, intent, key, Some(object), now)),
            Step::Put(object) => {
                write::check_etcd_size(def, &object)?;
                ApiReply::Object(self.commit(cluster, server, intent, key, Some(object), now))
            }
            Step::Remove { answer } => {
                let gone = self.commit(cluster, server, intent, key, None, now);
                let uid = gone.meta().uid.clone().unwrap_or_default();
                answer.or(def.returns_deleted.then_some(gone)).map_or(ApiReply::Deleted { uid }, ApiReply::Object)
            }
            Step::PutThenRemove(object) => {
                let uid = uid(Some(&object));
                let stored = self.commit(cluster, server, intent, key.clone(), Some(object), now);
                if std::mem::take(&mut self.servers[server].crash_in_delete) {
                    // The lock is held: its holder carries the crash out after releasing it, before the answer leaves.
                    self.pending_server_crashes.push(server);
                    return Ok(ApiReply::Object(stored));
                }
                let gone = self.commit(cluster, server, intent, key, None, now);
                if def.returns_deleted { ApiReply::Object(gone) } else { ApiReply::Deleted { uid } }
            }
        })
    }

    /// Takes a revision for one change and notifies all watches. Returns the object as stored or as removed: at the version of its removal.
    fn commit(&mut self, cluster: &Cluster, server: usize, intent: Intent, key: ObjectKey, after: Option<Obj>, now: SimTime) -> Obj {
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
            content: change.after.as_ref().map_or(0, |after| cluster.registry.get(kind).content_of(&**after)),
        };
        self.recorder.observe_of(Part::of(call), now, event);
        if self.request_points.listens() {
            self.request_points.written(client, kind, &change.key);
        }
        if self.change_points.listens() {
            let reached = self.change_points.changed(kind, &change.key, change.before.as_ref(), change.after.as_ref());
            reached.into_iter().for_each(|fault| cluster.fire_soon(fault, client));
        }
        let result = change.after.as_ref().or(change.tombstone.as_ref()).cloned();
        let result = result.unwrap_or_else(|| unreachable!("what is not stored went"));
        if self.node_kind == Some(kind) {
            cluster.nodes.heartbeats.node_changed(change.key.name(), change.after.as_ref(), now);
        }
        self.dispatch(&cluster.rt, &cluster.registry, kind, now);
        result
    }
}
