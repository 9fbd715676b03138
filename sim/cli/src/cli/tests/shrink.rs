//! The output of `shrink`, and its exit codes.

use ipam_reports::Digest;
use ipam_reports::finding::Kind;
use ipam_reports::schema::ShrinkSchema;
use ipam_reports::shrink::{CutOff, Need, Needs, Shrunk};

use super::records::{seconds, shrunk, two_owners};
use super::*;

fn report(shrunk: Shrunk) -> ShrinkReport {
    let need = |what: &str, needed| Need { what: what.into(), timeless: String::new(), needed };
    let mut report = ShrinkReport {
        schema: ShrinkSchema,
        scenario: "collector-races".into(),
        seed: 7,
        plan: "target/ipam-sim/collector-races-7.toml".into(),
        claim: two_owners().claim,
        kind: Kind::Always,
        at: seconds(4.05),
        detail: two_owners().detail,
        needs: Some(Needs {
            faults: vec![need("watch-lag(collector) at 0.000 s", true)],
            deviations: vec![need("trusts-its-cache", true)],
            holds_without_faults: true,
            together: vec![],
        }),
        shrunk,
        exit_code: 0,
    };
    report.exit_code = report.judge();
    report
}

fn shrinking(report: ShrinkReport) -> Prepared {
    Prepared { shrink: Some(Ok(report)), ..Prepared::default() }
}

#[test]
fn a_shrunk_plan_is_a_failure_block_and_what_was_left_out() {
    let ran = ran(&shrinking(report(shrunk("target/ipam-sim/collector-races-7-min.toml"))), "shrink plan.toml");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    insta::assert_snapshot!("shrink", ran.out);
}

#[test]
fn a_plan_that_was_cut_off_says_so() {
    let of = |cut_off| Shrunk { cut_off: Some(cut_off), ..shrunk("small plan.toml") };
    let timed_out = ran(&shrinking(report(of(CutOff::Time))), "shrink plan.toml");
    assert_eq!(timed_out.code, 0);
    insta::assert_snapshot!("shrink-cut-off", timed_out.out);
    assert_eq!(ran(&shrinking(report(of(CutOff::Interrupted))), "shrink plan.toml").code, 130);
}

#[test]
fn the_json_reads_back() {
    let report = report(shrunk("a-min.toml"));
    let ran = ran(&shrinking(report.clone()), "shrink plan.toml --format json");
    assert_eq!(ShrinkReport::from_json(&ran.out).unwrap(), report);
    let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(value["schema"], "ipam-sim/shrink/1");
    assert_eq!(value["shrunk"]["ops"], 3);
    assert_eq!(value["shrunk"]["digest"], Digest(0xdef).to_string());
}

#[test]
fn a_failure_of_a_sweep_is_replayed_by_its_smaller_plan() {
    let mut scenario = super::records::violated();
    scenario.failures[0].shrunk = Some(shrunk("target/ipam-sim/collector-races-3-min.toml"));
    let ran = ran(&running(RunReport::new(vec![scenario], false)), "run scenarios");
    insta::assert_snapshot!("run-shrunk", ran.out);
}
