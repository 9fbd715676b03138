//! B I17: processes with the same setting have the same addresses.

use ipam_byom::PoolConfig;

use super::view::{Seen, View};
use super::{Findings, PoolClaim};
use crate::workload::PoolNote;

/// Running processes with the same setting derive the same set of addresses from it, so once the last one with another setting has ended
/// all have the same.
///
/// Broken by `byom-range-limit-zero` if it is on for some processes only (upstream: the first and the second parse of a process differ).
/// Not covered: a set that is wrong in all processes, which the claim about the configured list judges.
pub(crate) struct SameConfigSamePool;

impl PoolClaim for SameConfigSamePool {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Note(process, PoolNote::Configured { setting, config }) = seen else { return };
        let mut others = view.processes.running().filter(|(other, known)| other != process && known.setting == *setting);
        let other = others.next();
        if other.is_some() {
            findings.exercised();
        }
        // Earlier processes were compared with others of their time.
        if let Some((other, known)) = other
            && !same_set(&known.config, config)
        {
            findings.violated(|| {
                let (name, other) = (view.name(*process), view.name(other));
                let (size, other_size) = (config.pool().len(), known.config.pool().len());
                vec![format!("{name} reads {size} addresses in VM_POOL_IPS={setting}, and {other} reads {other_size}, not the same ones")]
            });
        }
    }
}

fn same_set(one: &PoolConfig, other: &PoolConfig) -> bool {
    // Copies of one list share everything.
    let (only_one, only_other) = one.pool().diff(other.pool());
    only_one.iter().all(|address| other.contains(address.key())) && only_other.iter().all(|address| one.contains(address.key()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::on_stage;

    #[test]
    fn one_setting_means_one_set() {
        on_stage("same-config-same-pool", |stage| {
            stage.adaptor("adaptor-0", "10.0.0.1-10.0.0.3");
            stage.adaptor("adaptor-1", "10.0.0.1-10.0.0.3");
            stage.adaptor("adaptor-2", "10.0.0.1");
            assert_eq!(stage.excuses(), []);
            let upstream = stage.process("adaptor-3");
            stage.configured(upstream, "10.0.0.1-10.0.0.3", &["10.0.0.1"]);
            assert_eq!(stage.excuses(), [None]);
        });
    }
}
