//! The custom resources of KubeVirt (A §6).

use kube_machinery::WordHash;
use kube_machinery::kubevirt::{
    RunStrategy, VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceMigration, VirtualMachineInstanceStatus,
};

use super::{Stored, TypeDef};

/// The registrations of KubeVirt's types.
pub fn kubevirt() -> Vec<TypeDef> {
    vec![TypeDef::of::<VirtualMachine>(), TypeDef::of::<VirtualMachineInstance>(), TypeDef::of::<VirtualMachineInstanceMigration>()]
}

impl Stored for VirtualMachine {
    const UNCONDITIONAL_UPDATE: bool = false;
    const CUSTOM: bool = true;

    status_subresource!(initial: None);

    fn content(&self) -> u64 {
        let strategy = match self.spec.strategy() {
            RunStrategy::Always => 0,
            RunStrategy::RerunOnFailure => 1,
            RunStrategy::Once => 2,
            RunStrategy::Manual => 3,
            RunStrategy::Halted => 4,
        };
        let is = |flag: Option<bool>| flag.map_or(2, u64::from);
        let hash = WordHash::new().word(strategy);
        self.status.as_ref().map_or(hash, |status| hash.word(is(status.created)).word(is(status.ready))).finish()
    }
}

impl Stored for VirtualMachineInstance {
    const UNCONDITIONAL_UPDATE: bool = false;
    const CUSTOM: bool = true;

    status_subresource!(initial: None);

    fn content(&self) -> u64 {
        let Some(VirtualMachineInstanceStatus { phase, node_name, active_pods, migration_state, rest: _ }) = &self.status else { return 0 };
        let hash = WordHash::new().option(phase.as_deref()).option(node_name.as_deref());
        let hash = hash.texts(active_pods.iter().flat_map(|(uid, node)| [uid.as_str(), node.as_str()]));
        let Some(migration) = migration_state else { return hash.finish() };
        let nodes = [&migration.migration_uid, &migration.source_node, &migration.target_node];
        let texts = nodes.into_iter().chain([&migration.source_pod, &migration.target_pod]);
        let hash = texts.fold(hash, |hash, text| hash.option(text.as_deref()));
        [migration.completed, migration.failed].into_iter().fold(hash, |hash, flag| hash.word(flag.map_or(2, u64::from))).finish()
    }
}

impl Stored for VirtualMachineInstanceMigration {
    const UNCONDITIONAL_UPDATE: bool = false;
    const CUSTOM: bool = true;

    status_subresource!(initial: None);

    fn content(&self) -> u64 {
        WordHash::new().text(&self.spec.vmi_name).option(self.status.as_ref().and_then(|status| status.phase.as_deref())).finish()
    }
}
