//! Another client that writes the same object (K §9.2 A9, E10).

use std::sync::Arc;
use std::time::Duration;

use kube_machinery::api::{DeleteOptions, Dry, ListOptions};
use kube_machinery::{ApiError, ObjectKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::Choice;
use sim_config::choice::Open;
use sim_config::time::Span;

use crate::cluster::{ApiReply, Cluster, Op, SimClient};
use crate::fault::effect::{ActiveEffect, Inject, Injection};
use crate::fault::operator::Operator;
use crate::fault::parameters::{between, parameters, resolves_to_itself};
use crate::fault::{Aim, Blocks, Drawn, Invalid, Inventory, Lasts, Subject, Trigger, Wait};
use crate::kinds::{KindId, Registry};
use crate::object::{Obj, key_of, make_mut};
use crate::rt::ProcessId;

parameters! {
    /// Another client writes the object again and again.
    pub struct ConflictingWriter / ConflictingWriterDraft {
        /// The object, as `PLURAL/NAMESPACE/NAME` or `PLURAL/NAME`; a name that ends in a star means the first with this prefix.
        object: String = Choice::Is("configmaps/default/*".to_owned()) => names_an_object,
        /// The kind of write: touch an annotation, rewrite what was read before, or put an old state in place of the object.
        mode: WriterMode = Choice::Is(WriterMode::Touch),
        /// Whether it names the version that it read; without one its PUT always wins.
        with_version: bool = Choice::Is(true),
        /// Pause from one write to the next; unless `mode` is `touch`, also from reading the object to writing it.
        every: Span = between(Span::millis(1), Span::secs(1)),
    }
}

/// The behaviour of a conflicting writer (K §9.2 A9, E10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WriterMode {
    /// Changes an annotation, as a controller that labels things does.
    Touch,
    /// Reads the object, and some time later writes back what it read.
    Rewrite,
    /// Deletes the object and creates it again with its state of some time ago, as a restore from a backup does.
    Steal,
}

impl Open for WriterMode {}

resolves_to_itself! {
    WriterMode: mode => [WriterMode::Touch, WriterMode::Rewrite].into_iter().filter(|simpler| simpler < mode).collect(),
}

impl Inject for ConflictingWriter {
    const EVENT: &'static str = "another controller, a user or a backup tool on the same object (K §9.2 A9, E10)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<ConflictingWriterDraft>> = Drawn::ByDefault(|targeting| {
        // Neither mode may undo a write of another client: both name the version that they read.
        let mode = if targeting.coin() { WriterMode::Touch } else { WriterMode::Rewrite };
        Some(ConflictingWriterDraft { object: targeting.object()?, mode: Choice::Is(mode), ..ConflictingWriterDraft::default() })
    });

    fn subject(&self) -> Subject {
        Subject::of(&[&self.object])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Object
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let (fault, name) = (self.clone(), format!("conflicting-writer-{}", injection.index));
        vec![Operator::new(injection.cluster, &name, move |cluster, process| write(cluster, process, fault.clone())).into()]
    }
}

/// The type and the key that an object text such as `configmaps/default/settings` names.
///
/// # Errors
/// The error, and a valid text instead.
fn parse_object(text: &str, types: &Registry) -> Result<(KindId, ObjectKey), (String, String)> {
    let (plural, path) = text.split_once('/').unwrap_or((text, ""));
    let Some((kind, def)) = types.iter().find(|(_, def)| def.plural == plural) else {
        let mut known: Vec<&str> = types.iter().map(|(_, def)| def.plural).collect();
        known.sort_unstable();
        return Err((format!("unsupported resource `{plural}`"), format!("conflicting-writer supports: {}", known.join(", "))));
    };
    let parts: Vec<&str> = path.split('/').collect();
    match (def.namespaced, parts.as_slice()) {
        (true, [namespace, name]) if !namespace.is_empty() && !name.is_empty() => Ok((kind, ObjectKey::namespaced(namespace, name))),
        (false, [name]) if !name.is_empty() => Ok((kind, ObjectKey::cluster(name))),
        (true, _) => Err((format!("`{text}` does not name an object"), format!("{plural}/NAMESPACE/NAME"))),
        (false, _) => Err((format!("`{text}` does not name an object"), format!("{plural}/NAME"))),
    }
}

fn names_an_object(fault: &str, object: &str, inventory: &Inventory<'_>) -> Option<Invalid> {
    let (wrong, right) = parse_object(object, inventory.types).err()?;
    Some(Invalid::text(object, format!("the fault `{fault}`: {wrong}"), right))
}

/// Writes until its process is stopped.
async fn write(cluster: Arc<Cluster>, process: ProcessId, fault: ConflictingWriter) {
    let Ok((kind, key)) = parse_object(&fault.object, &cluster.registry) else { return };
    let writer = Writer { client: SimClient::new(&cluster, process), cluster, kind, fault };
    let mut round = 0u64;
    loop {
        round += 1;
        // Errors are left to the writer: it tries again.
        let _: Result<(), ApiError> = writer.once(&key, round).await;
        // If nothing takes time, time must pass all the same.
        writer.cluster.rt.sleep(writer.fault.every.0.max(Duration::from_micros(1))).await;
    }
}

struct Writer {
    cluster: Arc<Cluster>,
    client: SimClient,
    kind: KindId,
    fault: ConflictingWriter,
}

impl Writer {
    async fn once(&self, key: &ObjectKey, round: u64) -> Result<(), ApiError> {
        let Some(object) = self.read(key).await? else { return Ok(()) };
        // It sees objects as a foreign client does: not as the type in which a system keeps them.
        let mut object = self.cluster.registry.get(self.kind).through_a_view(object);
        let (key, mode) = (key_of(&object), self.fault.mode);
        if mode != WriterMode::Touch {
            // The state that it writes back is by then a while old.
            self.cluster.rt.sleep(self.fault.every.0).await;
        }
        let meta = make_mut(&mut object).meta_mut();
        if mode == WriterMode::Touch {
            meta.annotations.get_or_insert_default().insert("example.com/touched".to_owned(), round.to_string());
        }
        if mode == WriterMode::Steal || !self.fault.with_version {
            meta.resource_version = None;
        }
        if mode == WriterMode::Steal {
            self.call(Op::Delete { key: key.clone(), options: Box::new(DeleteOptions::default()) }).await?;
            let namespace = key.namespace().map(Arc::from);
            self.call(Op::Create { namespace, body: object, dry: Dry::No }).await?;
        } else {
            self.call(Op::Update { key, body: object, subresource: None, dry: Dry::No }).await?;
        }
        Ok(())
    }

    /// The object, or the first one with this prefix: drawn names are not known beforehand.
    async fn read(&self, key: &ObjectKey) -> Result<Option<Obj>, ApiError> {
        let Some(prefix) = prefix(key.name()) else {
            let reply = self.call(Op::Get { key: key.clone(), resource_version: None }).await?;
            return Ok(reply.object().cloned());
        };
        let all = Op::List { namespace: key.namespace().map(Arc::from), options: Box::new(ListOptions::default()) };
        let ApiReply::List { items, .. } = self.call(all).await? else { return Ok(None) };
        Ok(items.into_iter().find(|item| item.meta().name.as_ref().is_some_and(|name| name.starts_with(prefix))))
    }

    async fn call(&self, op: Op) -> Result<ApiReply, ApiError> {
        self.client.call(self.kind, op).await
    }
}

/// The part of `name` before a star at its end; `None` = there is no star.
fn prefix(name: &str) -> Option<&str> {
    name.strip_suffix('*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;

    #[test]
    fn an_object_is_named_as_its_type_is_addressed() {
        let types = Registry::new(kinds::builtin());
        let kind = |plural: &str| types.iter().find(|(_, def)| def.plural == plural).unwrap().0;
        let parsed = |text: &str| parse_object(text, &types);
        assert_eq!(parsed("configmaps/default/blue"), Ok((kind("configmaps"), ObjectKey::namespaced("default", "blue"))));
        assert_eq!(parsed("nodes/blue"), Ok((kind("nodes"), ObjectKey::cluster("blue"))));
        assert_eq!((prefix("blue"), prefix("blue-web-*")), (None, Some("blue-web-")));
        for wrong in ["configmaps", "configmaps/blue", "configmaps/default/", "configmaps/a/b/c", "nodes/default/blue"] {
            assert!(parsed(wrong).unwrap_err().0.contains("does not name an object"), "{wrong}");
        }
        for unknown in ["or/default/x", "/default/x", ""] {
            let (wrong, right) = parsed(unknown).unwrap_err();
            assert!(wrong.starts_with("unsupported resource `"), "{wrong}");
            assert!(right.starts_with("conflicting-writer supports: ") && right.contains("configmaps"), "{right}");
        }
    }
}
