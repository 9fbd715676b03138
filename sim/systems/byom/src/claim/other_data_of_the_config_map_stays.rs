//! B §1.1: the pool's ConfigMap may hold more than the pool.

use super::view::{Seen, View};
use super::{Findings, PoolClaim};

/// A write by a process of the pool leaves labels, annotations, entries beside the document and binary data unchanged.
///
/// Broken by `byom-config-map-replaced`.
pub(crate) struct OtherDataOfTheConfigMapStays;

impl PoolClaim for OtherDataOfTheConfigMapStays {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Commit(change) = seen else { return };
        if !change.by_pool {
            return;
        }
        if change.beside.has {
            findings.exercised();
        }
        if !change.beside.changed.is_empty() {
            findings.violated(|| {
                let name = view.name(change.by);
                vec![format!("{name} changes {} of the ConfigMap", change.beside.changed.join(", ")), view.story_of_write(change)]
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::on_stage;
    use ipam_byom::PoolConfigMap;

    /// Adds other data to the object.
    type Add = fn(&mut PoolConfigMap);

    const CLAIM: &str = "other-data-of-the-config-map-stays";

    #[test]
    fn what_others_keep_in_the_config_map_stays() {
        let parts: [(&str, Add); 4] = [
            ("labels", |object| drop(object.metadata.labels.get_or_insert_default().insert("team".to_owned(), "net".to_owned()))),
            ("annotations", |object| drop(object.metadata.annotations.get_or_insert_default().insert("note".to_owned(), "x".to_owned()))),
            ("data", |object| drop(object.data.get_or_insert_default().others.insert("note".to_owned(), "x".to_owned()))),
            ("binaryData", |object| drop(object.binary_data.get_or_insert_default().insert("note".to_owned(), Default::default()))),
        ];
        for (field, add) in parts {
            on_stage(CLAIM, |stage| {
                let (adaptor, person) = (stage.adaptor("adaptor-0", "10.0.0.1"), stage.process("kubectl"));
                stage.edit(adaptor, |_| {});
                assert!(!stage.exercised(), "there is nothing else in it yet");
                stage.object(person, add);
                stage.object(adaptor, |_| {});
                assert!(stage.exercised(), "{field}");
                assert_eq!(stage.excuses(), [], "others may add what they like");
                // The adaptor replaces the object by a new one.
                stage.edit(adaptor, |_| {});
                assert_eq!(stage.excuses(), [None], "{field}");
                assert_eq!(stage.detail()[0], format!("adaptor-0 changes {field} of the ConfigMap"));
            });
        }
    }
}
