//! The output of `selftest`, and its exit codes.

use ipam_reports::matrix::{ControlRow, MatrixRow, Smallest, Trial};
use ipam_reports::schema::MatrixSchema;
use ipam_reports::shrink::Size;

use super::records::seconds;
use super::*;

fn trial(scenario: &str, swarm: bool, found: &[Option<u64>]) -> Trial {
    let claim = found.iter().flatten().next().map(|_| "no-update-is-lost".to_owned());
    Trial { scenario: scenario.into(), swarm, seeds: 2_000, found: found.to_vec(), claim }
}

fn report(never: &[Option<u64>], alarm: bool) -> MatrixReport {
    let size = Size { ops: 2, faults: 1, actors: 5, deviations: 1, time: seconds(4.0) };
    let needs = "crash(client-0) at 1.000 s; passes without it".to_owned();
    let smallest = Smallest { claim: "no-update-is-lost".into(), scenario: "lost-update".into(), seed: 0, size, needs };
    let row = |deviation: &str, how: &str, trials| MatrixRow {
        deviation: deviation.into(),
        upstream: true,
        how: how.into(),
        trials,
        smallest: None,
    };
    let found = vec![trial("lost-update", false, &[Some(1), Some(7), Some(3)]), trial("lost-update", true, &[Some(12), None, None])];
    let mut report = MatrixReport {
        schema: MatrixSchema,
        build: "0.1.0".into(),
        seeds: 2_000,
        ranges: 3,
        must_hold: false,
        deviations: vec![
            MatrixRow { smallest: Some(smallest), ..row("decides-once", "claim", found) },
            row("rare-race", "claim", vec![trial("race", false, never)]),
            row("slow", "figure", vec![]),
        ],
        control: vec![ControlRow {
            scenario: "other-retries".into(),
            seeds: 200,
            violated: if alarm { vec![("no-update-is-lost".into(), 17)] } else { vec![] },
        }],
        seeds_run: 12_345,
        wall: seconds(61.5),
        cut_short: false,
        interrupted: false,
        unwritten: Vec::new(),
        exit_code: 0,
    };
    report.exit_code = report.judge();
    report
}

fn selftesting(report: MatrixReport) -> Prepared {
    Prepared { selftest: Some(Ok(report)), ..Prepared::default() }
}

#[test]
fn the_matrix_says_how_soon_each_deviation_is_found() {
    let Ran { code, out, .. } = ran(&selftesting(report(&[Some(150), Some(90), Some(1_900)], false)), "selftest");
    assert_eq!(code, 0);
    insta::assert_snapshot!(out, @r"
        mutation      found by  scenario               median  found in  first claim        needs at least
    ok  decides-once  claim     lost-update                 3    3 of 3  no-update-is-lost  2 operations, 1 fault
                                lost-update + swarm   > 2,000    1 of 3  no-update-is-lost
    ok  rare-race     claim     race                      150    3 of 3  no-update-is-lost
    -   slow          figure    no scenario tries it

    Control group: must not be reported
    ok  other-retries  200 seeds

    All noticed: 2 of 2 found within 2,000 seeds, 2 within 200, no false alarm; 12,345 seeds in 1 min 2 s.
    ");
}

#[test]
fn what_is_missed_and_a_false_alarm_fail() {
    let Ran { code, out, .. } = ran(&selftesting(report(&[None, Some(90), None], true)), "selftest --seeds 2000 --ranges 3");
    assert_eq!(code, 1);
    insta::assert_snapshot!(out, @r"
            mutation      found by  scenario               median  found in  first claim        needs at least
    ok      decides-once  claim     lost-update                 3    3 of 3  no-update-is-lost  2 operations, 1 fault
                                    lost-update + swarm   > 2,000    1 of 3  no-update-is-lost
    MISSED  rare-race     claim     race                  > 2,000    1 of 3  no-update-is-lost
    -       slow          figure    no scenario tries it

    Control group: must not be reported
    FAIL  other-retries  200 seeds  no-update-is-lost in seed 17

    Not good enough: 1 of 2 found within 2,000 seeds, 1 within 200, 1 false alarm; 12,345 seeds in 1 min 2 s.
    ");
}

#[test]
fn the_json_is_the_record() {
    let wanted = report(&[Some(1)], false);
    let Ran { out, .. } = ran(&selftesting(wanted.clone()), "selftest --format json");
    assert_eq!(serde_json::from_str::<MatrixReport>(&out).unwrap(), wanted);
}
