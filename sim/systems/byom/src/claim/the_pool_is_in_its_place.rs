//! B §1.1: the place of the pool.

use super::view::{Seen, View};
use super::{Findings, PoolClaim};

/// A process of the pool writes no ConfigMap but the one that its environment names, which by default is called `byom-ip-pool-state` in the
/// namespace `confidential-containers-system`. Not meant for bursts with several pools.
pub(crate) struct ThePoolIsInItsPlace;

impl PoolClaim for ThePoolIsInItsPlace {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let (by, key) = match seen {
            Seen::Commit(change) if change.by_pool => (change.by, view.place()),
            Seen::Misplaced(by, key) => (*by, *key),
            _ => return,
        };
        findings.exercised();
        let place = view.place();
        if key != place {
            findings.violated(|| vec![format!("{} writes the ConfigMap {key}, and the pool is {place}", view.name(by))]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::on_stage;

    const CLAIM: &str = "the-pool-is-in-its-place";

    #[test]
    fn another_name_or_namespace_is_another_place() {
        for (namespace, name, violated) in [
            ("confidential-containers-system", "byom-ip-pool-state", false),
            ("confidential-containers-system", "byom-ip-pool", true),
            ("default", "byom-ip-pool-state", true),
        ] {
            on_stage(CLAIM, |stage| {
                let (adaptor, person) = (stage.adaptor("adaptor-0", "10.0.0.1"), stage.process("kubectl"));
                stage.misplace(person, namespace, name);
                assert_eq!((stage.excuses(), stage.exercised()), (vec![], false), "people have ConfigMaps of their own");
                stage.misplace(adaptor, namespace, name);
                assert_eq!((stage.excuses().is_empty(), stage.exercised()), (!violated, true), "{namespace}/{name}");
            });
        }
    }
}
