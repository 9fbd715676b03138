//! A gate as JUnit XML: a suite for each part, a test case for each case.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::cause::Told;
use super::{GateCase, GateReport, PartSum, Story, word};
use crate::{Seconds, Verdict, printable};

/// Writes JUnit XML with the failure block and the replay command as the text of each failure; a case that only shows the cause of another
/// one gets a line that names that one. Failures of the harness or the budget are errors, open cases are skipped.
pub fn junit(report: &GateReport, story: Story<'_>) -> String {
    let report = &*printable::record(report);
    let mut xml = Report::new("ipam-sim");
    xml.set_time(duration(report.wall));
    let by_cause = report.failures_by_cause();
    let elsewhere = |case: &GateCase| {
        let shows = |told: &&Told<'_>| told.same.iter().any(|(other, _)| (other.part, other.number) == (case.part, case.number));
        by_cause.iter().find(shows).map(|told| told.case)
    };
    for PartSum { part, wall, .. } in report.parts() {
        let mut suite = TestSuite::new(part.name());
        suite.set_time(duration(wall));
        for case in report.cases.iter().filter(|case| case.part == part) {
            let verdict = report.verdict(case);
            let mut status = match verdict {
                Verdict::Held | Verdict::Found => TestCaseStatus::success(),
                Verdict::CutShort => TestCaseStatus::success(),
                Verdict::Open | Verdict::LeftOut => TestCaseStatus::skipped(),
                Verdict::Broken | Verdict::Nondeterministic | Verdict::NotRun | Verdict::Incomplete => {
                    TestCaseStatus::non_success(NonSuccessKind::Error)
                }
                _ => TestCaseStatus::non_success(NonSuccessKind::Failure),
            };
            let message = match elsewhere(case) {
                Some(other) => format!("the same cause as in {} {}: {}", other.part, other.name, case.message(verdict)),
                None => case.message(verdict),
            };
            status.set_message(message);
            status.set_type(word(verdict));
            if verdict.exit_code() != crate::exit::HELD {
                let told = story(case, verdict).join("\n");
                if !told.is_empty() {
                    status.set_description(told);
                }
            }
            let mut test = TestCase::new(case.name.as_str(), status);
            test.set_classname(format!("ipam-sim.{part}")).set_time(duration(case.result.wall));
            // A success has no message in JUnit.
            if verdict == Verdict::CutShort {
                test.set_system_out(case.message(verdict));
            }
            test.extra.insert("file".into(), case.result.file.as_str().into());
            suite.add_test_case(test);
        }
        xml.add_test_suite(suite);
    }
    // Writing fails only if the writer does, and this one is a string.
    xml.to_string().unwrap_or_default()
}

fn duration(time: Seconds) -> Duration {
    Duration::from_micros(time.as_micros())
}
