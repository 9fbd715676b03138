//! B §1.2: the document and its records carry their times of writing.

use kube_sim::cluster::EPOCH;

use super::view::{Change, Seen, View};
use super::{Findings, PoolClaim};

/// Writes by a process of the pool carry the time of that process: `lastUpdated`, and `allocatedAt` of a record that it adds, lie between
/// its clock when it first requested the version that it changes and its clock when the write takes effect, in whole seconds.
///
/// Not judged are writes during which a clock may have been set, those for which no request was observed, and those that rebuild the
/// document: they are based on no version, so the time of the decision is unknown. Not covered: a time left over from a version of the same
/// second.
pub(crate) struct LastUpdatedSaysWhen;

impl PoolClaim for LastUpdatedSaysWhen {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Commit(change) = seen else { return };
        let Some(document) = change.written() else { return };
        let Some(asked) = change.asked else { return };
        if change.anew || view.clock_may_be_set_since(asked.at) {
            return;
        }
        findings.exercised();
        let now = view.clock(change.by);
        let earliest = asked.clock;
        let times = (earliest.min(now), earliest.max(now));
        let mut tell = |what: &str, time: Option<i64>| {
            if time.is_none_or(|time| !(times.0..=times.1).contains(&time)) {
                findings.violated(|| vec![wrong(view, change, what, time, times), view.story_of_write(change)]);
            }
        };
        tell("lastUpdated", document.last_updated.timestamp().map(|time| time.as_second()));
        for record in change.records.iter().filter_map(|edit| edit.added()) {
            tell("allocatedAt of a new record", record.allocated_at.timestamp().map(|time| time.as_second()));
        }
    }
}

fn wrong(view: &View, change: &Change, what: &str, time: Option<i64>, (first, last): (i64, i64)) -> String {
    let told = time.map_or("no time".to_owned(), |time| format!("{} s", time - EPOCH.as_second()));
    let (first, last) = (first - EPOCH.as_second(), last - EPOCH.as_second());
    format!("{what} is {told}, and {} wrote it from {first} to {last} s by its clock", view.name(change.by))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ipam_byom::{PoolDocument, Seconds};

    use super::super::testing::{on_stage, take};
    use super::*;

    const CLAIM: &str = "last-updated-says-when";

    fn at(seconds: u64) -> Seconds {
        Seconds::new(EPOCH.checked_add(Duration::from_secs(seconds)).expect("it is in range"))
    }

    #[test]
    fn what_is_written_has_the_time_at_which_it_was_decided() {
        let record = |document: &mut PoolDocument, written: u64, allocated: u64| {
            take(document, "a", "10.0.0.1");
            let record = document.allocated.get("a").expect("it is there").as_ref().clone();
            document.allocated.insert("a".into(), ipam_byom::IpAllocation { allocated_at: at(allocated), ..record });
            document.last_updated = at(written);
        };
        for (written, allocated, violations) in [(5, 5, 0), (7, 7, 0), (4, 5, 1), (8, 6, 1), (5, 4, 1), (9, 0, 2)] {
            on_stage(CLAIM, |stage| {
                let adaptor = stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2");
                stage.read(adaptor);
                stage.edit(adaptor, |document| document.last_updated = at(0));
                stage.pass(Duration::from_secs(5));
                stage.read(adaptor);
                stage.pass(Duration::from_secs(2));
                stage.edit(adaptor, |document| record(document, written, allocated));
                assert_eq!((stage.excuses().len(), stage.exercised()), (violations, true), "{written} {allocated}");
            });
        }
    }

    #[test]
    fn a_read_that_was_sent_before_another_one_was_answered_may_show_the_latest_version() {
        for (written, violations) in [(4, 1), (5, 0), (9, 0), (10, 1)] {
            on_stage(CLAIM, |stage| {
                let (adaptor, other) = (stage.adaptor("adaptor-0", "10.0.0.1"), stage.adaptor("adaptor-1", "10.0.0.1"));
                stage.read(other);
                stage.edit(other, |document| document.last_updated = at(0));
                stage.pass(Duration::from_secs(5));
                stage.asks(adaptor);
                stage.asks(adaptor);
                stage.is_told(adaptor);
                stage.read(other);
                stage.edit(other, |document| document.last_updated = at(5));
                stage.is_told(adaptor);
                stage.pass(Duration::from_secs(4));
                stage.asks(adaptor);
                stage.edit(adaptor, |document| document.last_updated = at(written));
                assert_eq!((stage.excuses().len(), stage.exercised()), (violations, true), "{written}");
            });
        }
    }

    #[test]
    fn what_others_write_and_what_nobody_saw_being_decided_is_not_judged() {
        on_stage(CLAIM, |stage| {
            let (adaptor, person) = (stage.adaptor("adaptor-0", "10.0.0.1"), stage.process("kubectl"));
            stage.edit(adaptor, |_| {});
            stage.edit(person, |_| {});
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
        });
    }

    #[test]
    fn a_document_that_is_made_anew_stands_on_no_version() {
        on_stage(CLAIM, |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
            stage.pass(Duration::from_secs(5));
            stage.read(adaptor);
            stage.edit(adaptor, |document| document.last_updated = at(1));
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
            stage.read(adaptor);
            stage.edit(adaptor, |document| document.last_updated = at(1));
            assert_eq!((stage.excuses().len(), stage.exercised()), (1, true));
        });
    }

    #[test]
    fn a_clock_that_is_set_meanwhile_may_have_said_anything() {
        on_stage(CLAIM, |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
            stage.read(adaptor);
            stage.fault_begins();
            stage.edit(adaptor, |document| document.last_updated = at(70));
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
        });
    }
}
