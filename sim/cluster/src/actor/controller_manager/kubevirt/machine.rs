//! VMs: whether each should have an instance.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube_machinery::api::{DeleteOptions, Preconditions, ignore_not_found};
use kube_machinery::informer::StoreReader;
use kube_machinery::kubevirt::{
    INSTANCE_FINALIZER, RunStrategy, VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceSpec, VirtualMachineStatus,
};
use kube_machinery::{ApiError, ClientExt};

use super::super::Item;
use super::super::names::MACHINE_FINALIZER;
use super::super::shared::Shared;
use super::super::template;

pub(in super::super) struct Machines {
    pub(in super::super) shared: Arc<Shared>,
    pub(in super::super) machines: StoreReader<VirtualMachine>,
    pub(in super::super) instances: StoreReader<VirtualMachineInstance>,
}

/// The step to take for the instance of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Start,
    Stop,
    Stay,
}

fn step(machine: &VirtualMachine, instance: Option<&VirtualMachineInstance>) -> Step {
    let phase = instance.and_then(|instance| instance.status.as_ref()?.phase.as_deref());
    if machine.metadata.deletion_timestamp.is_some() {
        return if instance.is_some() { Step::Stop } else { Step::Stay };
    }
    let never_ran = machine.status.as_ref().is_none_or(|status| status.created.is_none());
    match (machine.spec.strategy(), instance) {
        (RunStrategy::Always | RunStrategy::RerunOnFailure, None) => Step::Start,
        (RunStrategy::Once, None) if never_ran => Step::Start,
        (RunStrategy::Always, Some(_)) if matches!(phase, Some("Succeeded" | "Failed")) => Step::Stop,
        (RunStrategy::RerunOnFailure, Some(_)) if phase == Some("Failed") => Step::Stop,
        (RunStrategy::Halted, Some(_)) => Step::Stop,
        _ => Step::Stay,
    }
}

impl Machines {
    pub(in super::super) async fn reconcile(&self, item: &Item) -> Result<(), ApiError> {
        let Some(machine) = self.machines.get(&item.key) else {
            self.shared.forget(item);
            return Ok(());
        };
        // An instance of this name with another owner is in the way until it is gone.
        let uid = machine.metadata.uid.clone();
        let owned = |instance: &Arc<VirtualMachineInstance>| {
            instance.metadata.owner_references.iter().flatten().any(|owner| Some(&owner.uid) == uid.as_ref())
        };
        let found = self.instances.get(&item.key);
        let is_free = found.is_none();
        let instance = found.filter(owned);
        let terminating = machine.metadata.deletion_timestamp.is_some();
        let held = machine.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == MACHINE_FINALIZER);
        let machine = if terminating || held {
            machine
        } else {
            let mut held = VirtualMachine::clone(&machine);
            held.metadata.finalizers.get_or_insert_default().push(MACHINE_FINALIZER.to_owned());
            match self.shared.client.update(held).await {
                Err(error) if error.is_not_found() => return Ok(()),
                result => result?,
            }
        };
        match step(&machine, instance.as_deref()) {
            Step::Start if is_free => match self.shared.client.create(start(&machine)).await {
                Err(error) if error.is_already_exists() => {}
                result => drop(result?),
            },
            Step::Stop => {
                if let Some(instance) = instance.as_ref().filter(|instance| instance.metadata.deletion_timestamp.is_none()) {
                    let preconditions = Preconditions { uid: instance.metadata.uid.clone(), ..Preconditions::default() };
                    let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
                    ignore_not_found(self.shared.client.delete::<VirtualMachineInstance>(&item.key, options).await)?;
                }
            }
            Step::Start | Step::Stay => {}
        }
        if terminating && held && instance.is_none() {
            let mut machine = VirtualMachine::clone(&machine);
            machine.metadata.finalizers.iter_mut().for_each(|finalizers| finalizers.retain(|finalizer| finalizer != MACHINE_FINALIZER));
            return ignore_not_found(self.shared.client.update(machine).await);
        }
        self.report(item, &machine, instance.as_deref()).await
    }

    async fn report(&self, item: &Item, machine: &VirtualMachine, instance: Option<&VirtualMachineInstance>) -> Result<(), ApiError> {
        let known = machine.status.clone().unwrap_or_default();
        let runs = instance.and_then(|instance| instance.status.as_ref()?.phase.as_deref()) == Some("Running");
        // Stays unset for a VM that never had an instance: that is what lets a VM that runs once start.
        let created = if instance.is_some() { Some(true) } else { known.created.map(|_| false) };
        let ready = (instance.is_some() || known.ready.is_some()).then_some(runs);
        let status = VirtualMachineStatus { created, ready, rest: known.rest.clone() };
        if status == known || !self.shared.may_write_status(item) {
            return Ok(());
        }
        let mut machine = machine.clone();
        machine.status = Some(status);
        self.shared.write_status(item, machine).await
    }
}

/// Builds the instance of a VM.
fn start(machine: &VirtualMachine) -> VirtualMachineInstance {
    let template = machine.spec.template.as_ref();
    let own = template.and_then(|template| template.metadata.as_ref());
    let spec = template.map_or_else(VirtualMachineInstanceSpec::default, |template| template.spec.clone());
    let metadata = ObjectMeta {
        name: machine.meta().name.clone(),
        namespace: machine.meta().namespace.clone(),
        labels: own.and_then(|meta| meta.labels.clone()),
        annotations: own.and_then(|meta| meta.annotations.clone()),
        finalizers: Some(vec![INSTANCE_FINALIZER.to_owned()]),
        owner_references: Some(vec![template::reference(machine)]),
        ..ObjectMeta::default()
    };
    VirtualMachineInstance { metadata, spec, status: None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testbed::from_json;

    fn decided(strategy: &str, phase: Option<&str>) -> Step {
        let machine = from_json(json!({"metadata": {"name": "vm"}, "spec": {"runStrategy": strategy}}));
        let instance = phase.map(|phase| from_json(json!({"metadata": {"name": "vm"}, "spec": {}, "status": {"phase": phase}})));
        step(&machine, instance.as_ref())
    }

    #[test]
    fn an_instance_that_ended_is_replaced_as_the_run_strategy_says() {
        let of = |phase| ["Always", "RerunOnFailure", "Once", "Manual", "Halted"].map(|strategy| decided(strategy, phase));
        use Step::{Start, Stay, Stop};
        assert_eq!(of(None), [Start, Start, Start, Stay, Stay]);
        assert_eq!(of(Some("Running")), [Stay, Stay, Stay, Stay, Stop]);
        assert_eq!(of(Some("Succeeded")), [Stop, Stay, Stay, Stay, Stop]);
        assert_eq!(of(Some("Failed")), [Stop, Stop, Stay, Stay, Stop]);
    }
}
