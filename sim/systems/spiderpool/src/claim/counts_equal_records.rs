//! A S11: the counts of pools equal their records.

use super::view::{EventMask, Seen, View, records_of};
use super::{Findings, IpamClaim};

/// An agent, or a replica of the controller, that adds or removes records sets `allocatedIPCount` to the number of records.
///
/// Broken by a writer that does not count.
pub(crate) struct CountsEqualRecords;

impl IpamClaim for CountsEqualRecords {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        let counts = change.edits.iter().any(|edit| edit.before.is_none() || edit.after.is_none());
        let Some(after) = change.after.as_ref().filter(|_| (change.by_agent || change.by_replica) && counts) else { return };
        findings.exercised();
        let records = records_of(after).map_or(0, |records| records.len() as i64);
        let count = after.status.as_ref().and_then(|status| status.allocated_ip_count);
        if count != Some(records) {
            findings.violated(|| {
                vec![
                    format!("pool {} has {records} records and {}", change.pool, says("allocatedIPCount", count)),
                    view.story_of_write(change),
                ]
            });
        }
    }
}

/// A description of a count in a status.
pub(super) fn says(field: &str, count: Option<i64>) -> String {
    count.map_or_else(|| format!("no {field}"), |count| format!("{field} {count}"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::on_stage;

    #[test]
    fn an_agent_that_miscounts_is_a_violation_and_a_person_is_not() {
        on_stage("counts-equal-records", |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
            stage.record(stage.agent, "p", "10.0.0.2", "ns/b", "b");
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            for by in [stage.person, stage.agent, stage.replicas[0]] {
                stage.change_pool(by, "p", |pool| {
                    let status = pool.status.as_mut().unwrap();
                    status.allocated_ips.make_mut().unwrap().insert(super::super::testing::ip("10.0.0.3"), Default::default());
                    status.allocated_ips.make_mut().unwrap().remove(super::super::testing::ip("10.0.0.2"));
                    status.allocated_ip_count = Some(7);
                });
                stage.unrecord(stage.person, "p", "10.0.0.3");
                stage.record(stage.person, "p", "10.0.0.2", "ns/b", "b");
            }
            assert_eq!(stage.excuses(), [None, None]);
            assert_eq!(stage.detail()[0], "pool p has 1 records and allocatedIPCount 7");
        });
    }
}
