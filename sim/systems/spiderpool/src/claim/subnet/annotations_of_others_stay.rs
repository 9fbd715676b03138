//! A §8.2: annotations of others on an auto pool stay.

use ipam_spiderpool::names::ANNOTATION_IPPOOL_IP_NUMBER;
use ipam_spiderpool::select::is_auto_pool;

use super::super::view::{EventMask, Seen, View};
use super::super::{Findings, IpamClaim};

/// Neither a replica of the controller nor an agent removes an annotation that is not its own from an auto pool.
///
/// Broken by `auto-pool-annotations-replaced`.
pub(crate) struct AnnotationsOfOthersStay;

impl IpamClaim for AnnotationsOfOthersStay {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        let (Some(before), Some(after)) = (&change.before, &change.after) else { return };
        if !(change.by_replica || change.by_agent) || !is_auto_pool(before) {
            return;
        }
        let Some(had) = before.metadata.annotations.as_ref().filter(|had| !had.is_empty()) else { return };
        let mut foreign = had.keys().filter(|key| *key != ANNOTATION_IPPOOL_IP_NUMBER).peekable();
        if foreign.peek().is_some() && (change.moved || after.metadata.annotations.as_ref() != Some(had)) {
            findings.exercised();
        }
        let has = |key: &String| after.metadata.annotations.as_ref().is_some_and(|has| has.contains_key(key));
        if let Some(lost) = foreign.find(|key| !has(key)) {
            findings.violated(|| vec![format!("pool {} loses its annotation {lost}", change.pool), view.story_of_write(change)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::on_stage;

    #[test]
    fn an_annotation_of_somebody_else_survives_a_new_size() {
        on_stage("annotations-of-others-stay", |stage| {
            let by = stage.replicas[0];
            let annotate = |key: &'static str| {
                move |pool: &mut ipam_spiderpool::SpiderIPPool| {
                    pool.metadata.annotations.get_or_insert_default().insert(key.to_owned(), "x".to_owned());
                }
            };
            stage.auto_pool(by, "auto", "u", &["10.0.0.1"]);
            stage.change_pool(by, "auto", annotate("ipam.spidernet.io/ippool-ip-number"));
            stage.change_pool(by, "auto", |pool| pool.metadata.annotations = None);
            assert!(!stage.exercised(), "there was only its own");
            stage.change_pool(stage.person, "auto", annotate("team"));
            stage.resize(by, "auto", &["10.0.0.1-10.0.0.2"]);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.change_pool(by, "auto", |pool| pool.metadata.annotations = None);
            assert_eq!(stage.excuses(), [None]);
            assert_eq!(stage.detail()[0], "pool auto loses its annotation team");
        });
    }
}
