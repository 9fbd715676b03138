//! B I11: recovery makes the list as configured.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipam_byom::{Address, Policy, PoolConfig};

use super::view::{Seen, View};
use super::{Findings, PoolClaim};
use crate::workload::PoolNote;

/// The longest range that is expanded.
const RANGE_LIMIT: u32 = 1 << 16;

/// After a successful recovery during which nothing else has written, the list holds the addresses of the process's setting that have no
/// record, in the order of the setting.
///
/// Broken by `byom-range-limit-zero`, `byom-lenient-settings` (ranges that were cut) and `byom-textual-addresses`. A setting without a
/// meaning, because it has bad entries or ranges of more than 65,536 addresses, is not judged.
#[derive(Default)]
pub(crate) struct RecoveryListsWhatIsConfigured {
    /// The parsed configurations of settings, by their text.
    meant: BTreeMap<Arc<str>, Option<PoolConfig>>,
}

impl PoolClaim for RecoveryListsWhatIsConfigured {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Note(process, PoolNote::RecoverEnded { result: Ok(_), .. }) = seen else { return };
        let Some(known) = view.processes.get(*process) else { return };
        let (Some(configuration), Some(recovery)) = (&known.configuration, &known.recovery) else { return };
        let (Some(document), false) = (view.state.document(), recovery.disturbed) else { return };
        let setting = &configuration.setting;
        let read = || PoolConfig::read(setting, RANGE_LIMIT, &Policy::hardened()).ok();
        let Some(meant) = self.meant.entry(setting.clone()).or_insert_with(read) else { return };
        let expected = || meant.pool().iter().filter(|address| !document.allocated.holds(address, false));
        findings.exercised();
        if !expected().eq(document.available.iter()) {
            findings.violated(|| {
                let list = |addresses: &mut dyn Iterator<Item = &Address>| {
                    let addresses: Vec<_> = addresses.map(Address::text).collect();
                    if addresses.is_empty() { "none".to_owned() } else { addresses.join(", ") }
                };
                vec![
                    format!("{} has recovered with VM_POOL_IPS={setting}", view.name(*process)),
                    format!("of these addresses no record has: {}", list(&mut expected())),
                    format!("available in version {}: {}", document.version, list(&mut document.available.iter())),
                ]
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use ipam_byom::Address;

    use super::super::testing::{on_stage, take};

    #[test]
    fn the_list_is_what_the_setting_means_in_its_order() {
        on_stage("recovery-lists-what-is-configured", |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.4,10.0.0.1-10.0.0.3");
            stage.edit(adaptor, |document| take(document, "a", "10.0.0.2"));
            stage.recover(adaptor);
            stage.edit(adaptor, |document| {
                document.available = ["10.0.0.4", "10.0.0.1", "10.0.0.3"].map(Address::new).into_iter().collect()
            });
            stage.recovered(adaptor);
            assert_eq!(stage.excuses(), []);
            stage.edit(adaptor, |document| {
                document.available = ["10.0.0.1", "10.0.0.3", "10.0.0.4"].map(Address::new).into_iter().collect()
            });
            stage.recover(adaptor);
            stage.recovered(adaptor);
            assert_eq!(stage.excuses(), [None]);
            assert_eq!(stage.detail()[1], "of these addresses no record has: 10.0.0.4, 10.0.0.1, 10.0.0.3");
        });
    }

    #[test]
    fn a_list_that_somebody_else_wrote_meanwhile_is_not_judged() {
        on_stage("recovery-lists-what-is-configured", |stage| {
            let (adaptor, person) = (stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2"), stage.process("kubectl"));
            stage.recover(adaptor);
            stage.edit(person, |document| document.available.push(Address::new("10.0.0.9")));
            stage.recovered(adaptor);
            assert_eq!(stage.excuses(), []);
        });
    }
}
