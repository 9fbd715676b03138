//! The output of `replay`, and its exit codes.

use ipam_reports::Digest;
use ipam_reports::replay::{Comparison, Parting};
use ipam_reports::timeline::Because;

use super::records::{seconds, two_owners};
use super::*;

fn replayed() -> ReplayReport {
    ReplayReport {
        scenario: Some("collector-races".into()),
        plan: Some("target/ipam-sim/collector-races-7.toml".into()),
        simulated: seconds(95.0),
        violations: vec![two_owners()],
        expected_digest: Some(Digest(0xabc)),
        ..ReplayReport::new(7, Digest(0xabc), 12_345)
    }
}

fn trace() -> Vec<TraceLine> {
    let line =
        |event, at, place: &str, what: &str| TraceLine { event, at: seconds(at), place: place.into(), what: what.into(), because: vec![] };
    vec![line(0, 0.0, "api-1", "starts"), line(1, 12.09, "web-2", "holds 10.0.0.7"), line(2, 41.207, "web-5", "holds 10.0.0.7")]
}

#[test]
fn a_replay_prints_the_trace_and_what_it_means() {
    let ran = ran(&Prepared { trace: trace(), ..replaying(replayed()) }, "replay plan.toml --trace");
    assert_eq!(ran.code, 1);
    insta::assert_snapshot!("replay-trace", ran.out);
}

#[test]
fn what_is_followed_says_what_it_came_of() {
    let because = |causes: &[(u64, &str)]| causes.iter().map(|&(event, how)| Because { event, how: how.into() }).collect::<Vec<_>>();
    let [first, second, third] = <[TraceLine; 3]>::try_from(trace()).unwrap();
    let second = TraceLine { because: because(&[(0, "after")]), ..second };
    let causes = [(1, "asked for in"), (0, "last read revision 7 in"), (0, "last read revision 7 in"), (1, "while partition since")];
    let third = TraceLine { because: because(&causes), ..third };
    let lines = vec![first, second, third];
    let verbs = Prepared { trace: lines.clone(), ..replaying(replayed()) };
    insta::assert_snapshot!("replay-follow", ran(&verbs, "replay plan.toml --follow 10.0.0.7").out);
    let json = ran(&verbs, "replay plan.toml --follow 10.0.0.7 --format json").out;
    assert_eq!(ReplayReport::from_json(&json).unwrap().trace, Some(lines), "it implies the trace");
}

#[test]
fn a_subject_that_is_none_is_refused_in_a_sentence() {
    for (subject, expected) in [
        ("10.0.0", "expected an IP address, pod:NAMESPACE/NAME or object:KIND/NAMESPACE/NAME"),
        ("pod:web-0", "a pod is written pod:NAMESPACE/NAME"),
        ("object:counter", "an object is written object:KIND/NAMESPACE/NAME"),
    ] {
        let ran = ran(&Prepared::default(), &format!("replay plan.toml --follow {subject}"));
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains(expected), "{}", ran.err);
    }
}

#[test]
fn the_trace_is_part_of_the_json() {
    let ran = ran(&Prepared { trace: trace(), ..replaying(replayed()) }, "replay plan.toml --trace --format json");
    let report = ReplayReport::from_json(&ran.out).unwrap();
    assert_eq!((ran.code, report.trace), (1, Some(trace())));
}

#[test]
fn a_trace_that_nobody_reads_on_ends() {
    let verbs = Prepared { trace: trace(), ..replaying(replayed()) };
    let ran = ran_into(&mut Closing { room: 10, error: io::ErrorKind::BrokenPipe }, &verbs, "replay plan.toml --trace");
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
}

#[test]
fn a_replay_shows_where_two_runs_part() {
    let parting = Parting {
        event: 512,
        at: seconds(12.345),
        this: Some("api-1 answers 409 to caa-2".into()),
        other: Some("api-1 answers 200 to caa-2".into()),
        because: Some("fault 3, partition(caa-1), is only in this plan".into()),
    };
    let comparison = Comparison { plan: "works.toml".into(), digest: Digest(1), parting: Some(parting.clone()) };
    let ran =
        ran(&replaying(ReplayReport { violations: vec![], against: Some(comparison), ..replayed() }), "replay a --against works.toml");
    assert_eq!(ran.code, 0);
    insta::assert_snapshot!("replay-against", ran.out);
}

#[test]
fn a_digest_that_differs_within_one_build_is_nondeterminism() {
    let parting = Parting { event: 4_096, at: seconds(3.5), this: None, other: None, because: None };
    let report = ReplayReport {
        violations: vec![],
        expected_digest: Some(Digest(0xdef)),
        nondeterministic: true,
        parting: Some(parting),
        remarks: vec!["events are compared by checkpoint: the runs part at this event or before it".into()],
        ..replayed()
    };
    let ran = ran(&replaying(report), "replay plan.toml");
    assert_eq!(ran.code, 5);
    insta::assert_snapshot!("replay-nondeterministic", ran.out);
}
