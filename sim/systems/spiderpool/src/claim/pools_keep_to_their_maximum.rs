//! A §5.4: pools have no more records than the setting permits.

use super::view::{EventMask, Seen, View, records_of};
use super::{Findings, IpamClaim};

/// No agent that adds a record leaves a pool with more records than `SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS`.
///
/// Exact: a write shows how many records there were before it. Records that are added by hand are not judged.
pub(crate) struct PoolsKeepToTheirMaximum;

impl IpamClaim for PoolsKeepToTheirMaximum {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        let Some(after) = change.after.as_ref().filter(|_| change.by_agent && change.edits.iter().any(|edit| edit.added().is_some()))
        else {
            return;
        };
        let (records, most) = (records_of(after).map_or(0, |records| records.len() as u64), view.terms.most_records);
        // Far below the maximum the claim counts as not exercised.
        if records + 1 >= most {
            findings.exercised();
        }
        if records > most {
            findings
                .violated(|| vec![format!("pool {} has {records} records, and may have {most}", change.pool), view.story_of_write(change)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::on_stage_under;

    #[test]
    fn an_agent_that_adds_one_too_many_is_a_violation_and_a_person_is_not() {
        on_stage_under(
            "pools-keep-to-their-maximum",
            |terms| terms.most_records = 2,
            |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
                stage.record(stage.agent, "p", "10.0.0.2", "ns/b", "b");
                stage.record(stage.person, "p", "10.0.0.3", "ns/c", "c");
                stage.unrecord(stage.agent, "p", "10.0.0.1");
                assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
                stage.record(stage.agent, "p", "10.0.0.4", "ns/d", "d");
                assert_eq!(stage.excuses(), [None]);
            },
        );
    }
}
