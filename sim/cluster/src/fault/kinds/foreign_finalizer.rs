//! Another controller's finalizer, which keeps objects from being removed (K012, K096).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube_machinery::ApiError;
use kube_machinery::api::{Dry, ListOptions};
use sim_config::Choice;
use sim_config::time::Span;

use crate::cluster::{ApiReply, Cluster, Op, SimClient};
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::object_change::parse_objects;
use crate::fault::operator::{add_process, persist};
use crate::fault::parameters::{between, parameters};
use crate::fault::{Aim, Blocks, Drawn, Invalid, Inventory, Lasts, Subject, Trigger, Wait};
use crate::glob;
use crate::kinds::KindId;
use crate::object::{AnyObject, Obj, key_of, make_mut};
use crate::rt::ProcessId;

/// The prefix of the finalizers that such faults put on objects; the number of the fault follows.
pub const FOREIGN_FINALIZER: &str = "example.com/keep-";

/// The time after the end of the fault by which every write sent before has arrived, with some margin.
const LATEST: Duration = Duration::from_secs(60);

parameters! {
    /// Another controller has a finalizer on objects: one that is deleted stays, marked for deletion, until the fault ends.
    pub struct ForeignFinalizer / ForeignFinalizerDraft {
        /// The objects, as `PLURAL/NAMESPACE/NAME` or `PLURAL/NAME`; a star stands for any text: `pods/*`.
        objects: String = Choice::Is("configmaps/*".to_owned()) => names_objects,
        /// The interval at which the controller checks the objects: a new one is without the finalizer for this long at most.
        every: Span = between(Span::millis(100), Span::secs(2)),
    }
}

impl Inject for ForeignFinalizer {
    const EVENT: &'static str = "a controller that has to clean up after objects, and is slow to do so (K §1.1, K012, K096)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<ForeignFinalizerDraft>> =
        Drawn::ByDefault(|targeting| Some(ForeignFinalizerDraft { objects: targeting.object()?, ..ForeignFinalizerDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.objects])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Object
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let (cluster, name) = (injection.cluster, format!("finalizer-{}", injection.index));
        let kept = Kept { finalizer: format!("{FOREIGN_FINALIZER}{}", injection.index), fault: self.clone(), some: Arc::default() };
        let work = kept.clone();
        let process = add_process(cluster, &name, move |cluster, process| keep(cluster, process, work.clone()));
        vec![Controller { process, name, kept }.into()]
    }
}

fn names_objects(fault: &str, objects: &str, inventory: &Inventory<'_>) -> Option<Invalid> {
    let (wrong, right) = parse_objects(objects, inventory.types).err()?;
    Some(Invalid::text(objects, format!("the fault `{fault}`: {wrong}"), right))
}

/// The finalizer of a controller, and the fault with the objects that it keeps.
#[derive(Clone, Debug)]
struct Kept {
    finalizer: String,
    fault: ForeignFinalizer,
    /// Whether any object ever had the finalizer.
    some: Arc<AtomicBool>,
}

impl Kept {
    fn has_it(&self, object: &dyn AnyObject) -> bool {
        object.meta().finalizers.iter().flatten().any(|finalizer| *finalizer == self.finalizer)
    }
}

/// The controller: while the fault lasts it keeps objects, and afterwards it lets them go.
#[derive(Debug)]
struct Controller {
    process: ProcessId,
    name: String,
    kept: Kept,
}

impl Effect for Controller {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.start(self.process);
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.crash(self.process);
        // If it crashes before it is done, it starts again.
        let kept = self.kept.clone();
        cluster.start(add_process(cluster, &self.name, move |cluster, process| let_go(cluster, process, kept.clone())));
    }

    fn excludes(&self, _: &Self) -> Overlap {
        Overlap::Separate
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        self.kept.some.load(Ordering::Relaxed)
    }
}

/// Puts the finalizer on the objects, and on new ones.
async fn keep(cluster: Arc<Cluster>, process: ProcessId, kept: Kept) {
    let Some(objects) = Objects::new(&cluster, process, &kept.fault) else { return };
    loop {
        // Errors are left to the controller: it tries again.
        if let Ok(all) = objects.list().await {
            for object in all {
                // A finalizer cannot be added to an object that is being deleted (K012, K096).
                if !kept.has_it(&*object) && object.meta().deletion_timestamp.is_none() {
                    let written = objects.write(object, |finalizers| finalizers.push(kept.finalizer.clone())).await;
                    kept.some.fetch_or(written.is_ok(), Ordering::Relaxed);
                }
            }
        }
        // If nothing takes time, time must pass all the same.
        cluster.rt.sleep(kept.fault.every.0.max(Duration::from_micros(1))).await;
    }
}

/// Takes the finalizer off all objects.
async fn let_go(cluster: Arc<Cluster>, process: ProcessId, kept: Kept) {
    let Some(objects) = Objects::new(&cluster, process, &kept.fault) else { return };
    persist(&cluster, || take_off(&objects, &kept)).await;
    // A write in flight when the fault ended may have been carried out since.
    cluster.rt.sleep(LATEST).await;
    persist(&cluster, || take_off(&objects, &kept)).await;
}

/// Makes one attempt to take the finalizer off all objects.
async fn take_off(objects: &Objects, kept: &Kept) -> Result<(), ApiError> {
    let mut all = Ok(());
    for object in objects.list().await? {
        if kept.has_it(&*object) {
            let written = objects.write(object, |finalizers| finalizers.retain(|finalizer| *finalizer != kept.finalizer)).await;
            // The object may be gone because of another client. One that changed meanwhile is read again.
            if !matches!(&written, Err(error) if error.is_not_found()) {
                all = all.and(written);
            }
        }
    }
    all
}

/// The objects that the fault selects.
struct Objects {
    cluster: Arc<Cluster>,
    client: SimClient,
    kind: KindId,
    /// The pattern of their keys.
    keys: String,
}

impl Objects {
    fn new(cluster: &Arc<Cluster>, process: ProcessId, fault: &ForeignFinalizer) -> Option<Self> {
        let (kind, keys) = parse_objects(&fault.objects, &cluster.registry).ok()?;
        Some(Self { client: SimClient::new(cluster, process), cluster: cluster.clone(), kind, keys: keys.to_owned() })
    }

    async fn list(&self) -> Result<Vec<Obj>, ApiError> {
        let reply = self.client.call(self.kind, Op::List { namespace: None, options: Box::new(ListOptions::default()) }).await?;
        let ApiReply::List { items, .. } = reply else { return Ok(Vec::new()) };
        Ok(items.into_iter().filter(|item| glob::matches(&self.keys, key_of(item).as_str())).collect())
    }

    /// Writes the object with other finalizers, if it has not changed since it was read.
    async fn write(&self, object: Obj, change: impl FnOnce(&mut Vec<String>)) -> Result<(), ApiError> {
        // It sees objects as a foreign client does: not as the type in which a system keeps them.
        let mut object = self.cluster.registry.get(self.kind).through_a_view(object);
        let key = key_of(&object);
        let finalizers = &mut make_mut(&mut object).meta_mut().finalizers;
        change(finalizers.get_or_insert_default());
        finalizers.take_if(|left| left.is_empty());
        self.client.call(self.kind, Op::Update { key, body: object, subresource: None, dry: Dry::No }).await.map(drop)
    }
}
