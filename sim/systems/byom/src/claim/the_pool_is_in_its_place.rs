//! B §1.1: where the pool is.

use kube_machinery::ObjectKey;

use super::view::{Seen, View};
use super::{Findings, PoolClaim};
use crate::workload::pods::PoolPlace;

/// The place as the documents name it: written here, so that nothing that reads the default can hide that it is another one.
const NAMESPACE: &str = "confidential-containers-system";
const NAME: &str = "byom-ip-pool-state";

/// Where the documents say that the pool is of processes that are told this.
pub(crate) fn place_of(told: &PoolPlace) -> ObjectKey {
    let name = if told.config_map_name.is_empty() { NAME } else { &told.config_map_name };
    let namespace = if !told.pool_namespace.is_empty() {
        &told.pool_namespace
    } else if !told.service_account.trim().is_empty() {
        told.service_account.trim()
    } else if !told.pod_namespace.trim().is_empty() {
        told.pod_namespace.trim()
    } else {
        NAMESPACE
    };
    ObjectKey::namespaced(namespace, name)
}

/// A process of the pool writes no ConfigMap but the one that its environment names, which is called `byom-ip-pool-state` in the namespace
/// `confidential-containers-system` where nothing says otherwise. Bursts with several pools are not meant.
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
    use super::*;

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

    #[test]
    fn the_environment_names_the_place_and_the_first_that_does_counts() {
        let told = |[config_map_name, pool_namespace, service_account, pod_namespace]: [&str; 4]| {
            let [config_map_name, pool_namespace, service_account, pod_namespace] =
                [config_map_name, pool_namespace, service_account, pod_namespace].map(str::to_owned);
            place_of(&PoolPlace { config_map_name, pool_namespace, service_account, pod_namespace }).to_string()
        };
        assert_eq!(told(["", "", "", ""]), "confidential-containers-system/byom-ip-pool-state");
        assert_eq!(told(["mine", "set", "sa", "pod"]), "set/mine");
        assert_eq!(told(["", "", " sa\n", "pod"]), "sa/byom-ip-pool-state");
        assert_eq!(told(["", "", " ", "pod "]), "pod/byom-ip-pool-state");
    }
}
