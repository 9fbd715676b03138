//! B I12: an address that left the configuration is no longer granted.

use ipam_byom::AddressKey;

use super::view::{Seen, View};
use super::{Findings, PoolClaim};
use crate::workload::{PoolNote, short};

/// Once the last process that was configured with an address has ended, and a recovery that began later has ended successfully, the address
/// is no longer granted.
///
/// Broken by `byom-foreign-address-returned`. It judges only calls that wrote: a repeated call for an old allocation still gets its
/// address.
#[derive(Default)]
pub(crate) struct AddressesThatLeftAreDrained {
    /// The moment at which the latest successful recovery began.
    recovered: Option<u64>,
}

impl PoolClaim for AddressesThatLeftAreDrained {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Note(process, note) = seen else { return };
        match note {
            PoolNote::RecoverEnded { result: Ok(_), .. } => {
                let began = view.processes.get(*process).and_then(|known| known.recovery).map(|recovery| recovery.began);
                self.recovered = self.recovered.max(began);
            }
            PoolNote::Allocated { id, address, effort, .. } if effort.writes > 0 => {
                let key: &AddressKey = address.key();
                if self.recovered.is_some() {
                    findings.exercised();
                }
                if view.processes.running().any(|(_, configuration)| configuration.config.contains(key)) {
                    return;
                }
                let ended = view
                    .processes
                    .ended()
                    .filter(|(_, known)| known.configuration.as_ref().is_some_and(|configuration| configuration.config.contains(key)));
                let last = ended.max_by_key(|(_, known)| known.ended);
                if self.recovered > Some(last.map_or(0, |(_, known)| known.ended)) {
                    findings.violated(|| {
                        let since = match last {
                            Some((ended, _)) => format!("the last one that was, {}, has ended", view.name(ended)),
                            None => "none ever was".to_owned(),
                        };
                        let name = view.name(*process);
                        vec![
                            format!(
                                "{name} is given {address} for {id}, with which no running process is configured: {since}",
                                id = short(id)
                            ),
                            view.story_of(id),
                        ]
                    });
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::on_stage;

    #[test]
    fn an_address_is_drained_once_its_last_process_ended_and_another_recovered() {
        on_stage("addresses-that-left-are-drained", |stage| {
            let old = stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2");
            let new = stage.adaptor("adaptor-1", "10.0.0.2");
            stage.recover(new);
            stage.recovered(new);
            stage.allocate(new, "a", "10.0.0.1");
            assert_eq!(stage.excuses(), [], "adaptor-0 still runs");
            stage.crash(old);
            stage.allocate(new, "b", "10.0.0.1");
            assert_eq!(stage.excuses(), [], "nobody has recovered since");
            stage.recover(new);
            stage.recovered(new);
            stage.allocate(new, "c", "10.0.0.2");
            stage.ask(new, "b");
            stage.allocated_with(new, "b", "10.0.0.1", ipam_byom::Effort::default());
            assert_eq!(stage.excuses(), []);
            stage.allocate(new, "d", "10.0.0.1");
            assert_eq!(stage.excuses(), [None]);
            assert!(stage.detail()[0].ends_with("the last one that was, adaptor-0, has ended"));
        });
    }
}
