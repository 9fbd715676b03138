use super::*;
use crate::finding::{Kind, Problem, ProblemKind};
use crate::run::tests::record;
use crate::{Digest, SeedRecord, merge_gates};

const ALWAYS: Option<(&str, Kind)> = Some(("no-address-has-two-owners", Kind::Always));

/// A case whose seeds violate the claim, or nothing.
fn case(part: Part, number: u32, name: &str, runs: &[Option<(&str, Kind)>]) -> GateCase {
    let mut result = ScenarioResult::new(name, format!("scenarios/{part}/{name}.toml"), []);
    (0..).zip(runs).for_each(|(seed, &claim)| result.add(record(seed, claim)));
    result.wall = Seconds::from_micros(250_000 * runs.len() as u64);
    GateCase { part, number, name: name.to_owned(), planned: runs.len() as u64, required: 0, skipped: None, result }
}

fn negative(number: u32, name: &str, runs: &[Option<(&str, Kind)>]) -> GateCase {
    let mut case = case(Part::Negative, number, name, runs);
    case.result.expect = Some("no-address-has-two-owners".to_owned());
    case
}

fn report(cases: Vec<GateCase>) -> GateReport {
    let wall = Seconds::from_micros(4_000_000);
    let mut report = GateReport { cases, budget: Seconds::from_micros(180_000_000), wall, ..GateReport::default() };
    report.exit_code = report.judge();
    report
}

/// One case of each kind: right, wrong, cut short, skipped; with every character that some format treats specially.
fn mixed() -> GateReport {
    let mut violated = case(Part::Chaos, 1, "partitions", &[None, ALWAYS, ALWAYS]);
    violated.result.file = "scenarios/chaos/50%, of: it.toml".to_owned();
    violated.result.failures[0].plan = Some("target/it's <here>.toml".to_owned());
    violated.result.failures[0].detail = vec!["\"10.0.0.7\" & `a` ``` <b>x</b> ]]> \u{1b}[31mred\u{1b}[0m".to_owned()];
    let mut broken = case(Part::Determinism, 0, "counter", &[None]);
    broken.result.nondeterministic = 1;
    let message = "digest a here, b in a fresh process: 100 %".to_owned();
    broken.result.problems = vec![Problem { seed: 3, kind: ProblemKind::Nondeterminism, message, plan: None }];
    let mut cut = case(Part::Chaos, 0, "*slow*", &[None]);
    cut.planned = 40;
    let mut skipped = case(Part::Digests, 0, "old|one", &[]);
    skipped.skipped = Some("recorded by build 0.0.1, this is another".to_owned());
    let mut report = report(vec![
        skipped,
        broken,
        case(Part::Smoke, 0, "calm", &[None, None]),
        cut,
        violated,
        negative(0, "found", &[None, ALWAYS]),
        negative(1, "missed", &[None, None]),
    ]);
    report.build = Some("0.1.0-abc".to_owned());
    report.remarks = vec!["there is no scenarios/burst".to_owned()];
    report
}

/// Stands in for the failure blocks of the command line.
fn story(case: &GateCase, verdict: Verdict) -> Vec<String> {
    let detail = case.result.failures.iter().flat_map(|failure| failure.detail.clone());
    std::iter::once(format!("{} {}", word(verdict), case.name)).chain(detail).chain(case.replay()).collect()
}

#[test]
fn junit_has_a_suite_a_part_and_the_block_in_each_failure() {
    let xml = junit(&mixed(), &story);
    insta::assert_snapshot!("junit", xml);
}

#[test]
fn the_summary_folds_failures_and_says_what_was_left_out() {
    insta::assert_snapshot!("markdown", markdown(&mixed(), &story));
    let good = report(vec![case(Part::Smoke, 0, "calm", &[None, None])]);
    insta::assert_snapshot!("markdown-passed", markdown(&good, &story));
}

#[test]
fn annotations_are_a_line_each_and_keep_to_their_properties() {
    let lines = annotations(&mixed());
    assert!(lines.iter().all(|line| !line.contains('\n') && line.starts_with("::error file=")));
    insta::assert_snapshot!("annotations", lines.join("\n"));
    assert!(annotations(&report(vec![case(Part::Smoke, 0, "calm", &[None])])).is_empty());
}

#[test]
fn a_gate_exits_with_its_worst_case_by_the_contract() {
    let held = case(Part::Smoke, 0, "calm", &[None]);
    let late = case(Part::Chaos, 0, "late", &[Some(("in-time", Kind::Eventually))]);
    let failed = case(Part::Chaos, 1, "failed", &[ALWAYS]);
    let mut vacuous = case(Part::Smoke, 1, "quiet", &[None]);
    vacuous.result.sometimes = vec![crate::finding::Sometimes { claim: "seen".into(), kind: Kind::Sometimes, held_in: 0 }];
    let mut nondeterministic = held.clone();
    nondeterministic.result.nondeterministic = 1;
    let mut broken = held.clone();
    broken.result.broken = 1;
    let order = [(broken, 70), (nondeterministic, 5), (failed, 1), (late, 3), (vacuous, 4), (held, 0)];
    for (index, (case, code)) in order.iter().enumerate() {
        let cases: Vec<_> = order[index..].iter().map(|(case, _)| case.clone()).collect();
        assert_eq!(report(cases).exit_code, *code, "{case:?}");
    }
    assert_eq!(report(vec![]).exit_code, exit::VACUOUS);
}

#[test]
fn what_the_budget_cut_short_is_not_blamed_but_must_be_seen() {
    let cut = |mut case: GateCase| {
        case.planned += 5;
        let report = report(vec![case]);
        (report.verdict(&report.cases[0]), report.exit_code, report.left_out_lines().len())
    };
    let mut quiet = case(Part::Smoke, 0, "quiet", &[None]);
    quiet.result.sometimes = vec![crate::finding::Sometimes { claim: "seen".into(), kind: Kind::Sometimes, held_in: 0 }];
    assert_eq!(cut(quiet), (Verdict::Incomplete, 6, 0), "the seeds that would have seen it did not run");
    assert_eq!(cut(case(Part::Smoke, 0, "calm", &[None])), (Verdict::CutShort, 0, 1));
    let required = GateCase { required: 2, ..case(Part::Smoke, 0, "calm", &[None]) };
    assert_eq!(cut(required), (Verdict::Incomplete, 6, 0), "it lacks a seed that it must run");
    assert_eq!(cut(negative(0, "missed", &[None])), (Verdict::Incomplete, 6, 0), "nobody knows whether it would be found");
    assert_eq!(cut(negative(0, "found", &[ALWAYS])), (Verdict::Found, 0, 0), "it was enough");
    assert_eq!(cut(case(Part::Smoke, 0, "calm", &[])), (Verdict::Incomplete, 6, 0));
    assert_eq!(cut(case(Part::Smoke, 0, "calm", &[ALWAYS])), (Verdict::Violated, 1, 1));
    assert_eq!(cut(case(Part::Determinism, 0, "calm", &[])), (Verdict::Incomplete, 6, 0), "a sample of none");
}

/// Determinism of `ran` scenarios and of `left` more, for which there was no time.
fn sample(ran: u32, left: u32) -> GateReport {
    let one = |number: u32| {
        let runs: &[_] = if number < ran { &[None] } else { &[] };
        GateCase { planned: 1, required: 1, ..case(Part::Determinism, number, &format!("s{number}"), runs) }
    };
    report((0..ran + left).map(one).collect())
}

#[test]
fn a_tenth_of_a_sample_suffices_and_the_rest_is_told_as_not_run() {
    for (ran, left, verdict, code) in
        [(1, 1, Verdict::LeftOut, 0), (2, 18, Verdict::LeftOut, 0), (2, 19, Verdict::Incomplete, 6), (0, 225, Verdict::Incomplete, 6)]
    {
        let sample = sample(ran, left);
        let last = sample.cases.last().unwrap();
        assert_eq!((sample.verdict(last), sample.exit_code), (verdict, code), "{ran} of {}", ran + left);
        assert_ne!(sample.parts()[0].verdict(), Verdict::Held, "a part that was cut is not right");
    }
}

#[test]
fn what_could_not_be_judged_is_told_once_with_its_count_and_with_a_verb() {
    let whole = sample(3, 222);
    assert_eq!(whole.failures().count(), 0);
    let told = "222 of 225 cases could not be judged, 23 must come to an end: s3, s4, s5, s6, s7, s8, s9, s10, ...";
    assert_eq!(whole.incomplete(), [(Part::Determinism, told.to_owned())]);
    assert_eq!(whole.left_out_lines(), Vec::<String>::new(), "it is told once");
    let left_out = "determinism: 18 of 20 cases did not run: s2, s3, s4, s5, s6, s7, s8, s9, ...";
    assert_eq!(sample(2, 18).left_out_lines(), [left_out]);
    assert_eq!(whole.summary(), "222 of 225 cases could not be judged; 3 seeds in 4 s (0.8 seeds/s) of 3 min");
    assert_eq!(annotations(&whole), [format!("::error title=determinism%3A not judged::{told}")]);
    let nothing: Story<'_> = &|_, _| Vec::new();
    let page = markdown(&whole, nothing);
    assert!(page.contains(&format!("- **determinism**: {told}\n")) && !page.contains("<details>"), "{page}");
    let mut smoke = GateCase { planned: 90, required: 30, ..case(Part::Smoke, 0, "calm", &[None, None]) };
    let short = report(vec![smoke.clone()]);
    let told = "1 of 1 case could not be judged, 28 of the 30 seeds that they must run are missing: calm";
    assert_eq!((short.headline(), &*short.incomplete()[0].1), ("Incomplete", told));
    smoke.required = 2;
    let fine = report(vec![smoke]);
    assert_eq!(
        (fine.headline(), fine.incomplete().len(), fine.cases[0].message(Verdict::CutShort)),
        ("Passed", 0, "held in 2 seeds; 88 more did not run".to_owned())
    );
}

#[test]
fn a_failure_without_a_story_says_what_it_is() {
    let page = markdown(&report(vec![negative(0, "missed", &[None, None])]), &|_, _| Vec::new());
    let message = "no-address-has-two-owners is not violated in 2 seeds";
    assert_eq!(page.matches(message).count(), 2, "in the fold, too: {page}");
    assert!(page.contains("\n1 of 1 case failed; 2 seeds in 4 s"), "{page}");
}

#[test]
fn a_mark_names_the_failure_that_the_terminal_tells_first() {
    const DIFFERENCE: Option<(&str, Kind)> = Some(("order-of-requests", Kind::Always));
    let mut case = case(Part::Smoke, 0, "calm", &[DIFFERENCE, None, ALWAYS]);
    let lost = case.result.claims.iter_mut().find(|count| Some((&*count.claim, count.kind)) == ALWAYS).unwrap();
    (lost.hurts, lost.rank) = (true, Some(0));
    for failure in &mut case.result.failures {
        failure.plan = Some(format!("plans/calm-{}.toml", failure.seed));
    }
    let failed = report(vec![case]);
    let marks = annotations(&failed);
    assert!(marks[0].contains("no-address-has-two-owners is violated in seed 2"), "{marks:?}");
    assert!(marks[0].contains("plans/calm-2.toml") && !marks[0].contains("calm-0"), "{marks:?}");
}

/// Shard `index` of two: half of the seeds of parts that are cut by seeds, every second case of the others.
fn shard(whole: &GateReport, index: u32) -> GateReport {
    let mut part = GateReport { cases: vec![], wall: Seconds::from_micros(2_000_000), ..whole.clone() };
    part.budget = Seconds::from_micros(90_000_000);
    part.shards = Shards::one(index, 2);
    for case in &whole.cases {
        if !case.part.is_cut_by_seeds() {
            part.cases.extend((case.number % 2 + 1 == index).then(|| case.clone()));
            continue;
        }
        let failing = |seed: u64| case.result.failures.iter().find(|failure| failure.seed == seed);
        let mut result = ScenarioResult {
            expect: case.result.expect.clone(),
            ..ScenarioResult::new(&*case.name, &*case.result.file, case.result.sometimes.iter().map(|seen| (seen.claim.clone(), seen.kind)))
        };
        let held: Vec<String> = case.result.sometimes.iter().map(|seen| seen.claim.clone()).collect();
        for seed in (0..case.result.seeds).filter(|seed| seed % 2 + 1 == u64::from(index)) {
            let seen = if seed == 0 { &held[..] } else { &[] };
            let claim = failing(seed).map(|failure| (failure.claim.as_str(), failure.kind));
            result.add(SeedRecord { held: seen, ..record(seed, claim) });
        }
        for failure in &mut result.failures {
            let original = failing(failure.seed).unwrap();
            (failure.plan, failure.detail) = (original.plan.clone(), original.detail.clone());
        }
        result.wall = Seconds::from_micros(125_000 * case.result.seeds);
        let planned = result.seeds + u64::from(index == 1) * (case.planned - case.result.seeds);
        part.cases.push(GateCase { planned, result, ..case.clone() });
    }
    part.exit_code = part.judge();
    part
}

#[test]
fn two_shards_merged_equal_the_gate_on_one_machine() {
    let mut whole = mixed();
    // Seen in seed 0 only, which is in the first shard.
    whole.cases[2].result.sometimes = vec![crate::finding::Sometimes { claim: "seen".into(), kind: Kind::Sometimes, held_in: 1 }];
    let (one, two) = (shard(&whole, 1), shard(&whole, 2));
    let quiet = two.cases.iter().find(|case| case.name == "calm").unwrap();
    assert_eq!(two.verdict(quiet), Verdict::Open, "a shard is not blamed for what another saw");
    for shards in [vec![one.clone(), two.clone()], vec![two.clone(), one.clone()]] {
        let merged = merge_gates(shards).unwrap();
        assert_eq!(merged, whole);
        assert_eq!(markdown(&merged, &story), markdown(&whole, &story));
    }
    whole.cases.retain(|case| case.name == "calm");
    whole.exit_code = whole.judge();
    let all_fine = [shard(&whole, 1), shard(&whole, 2)];
    assert_eq!(merge_gates(all_fine.to_vec()).unwrap().exit_code, exit::HELD);
    let alone = merge_gates(all_fine[..1].to_vec()).unwrap();
    assert_eq!((alone.exit_code, alone.left_out_lines()), (exit::VACUOUS, vec!["shard 2 of 2".to_owned()]));
}

#[test]
fn a_vacuous_whole_is_vacuous_however_it_was_cut() {
    let mut quiet = case(Part::Smoke, 0, "calm", &[None, None]);
    quiet.result.sometimes = vec![crate::finding::Sometimes { claim: "seen".into(), kind: Kind::Sometimes, held_in: 0 }];
    let shard = |index: u32| {
        let mut half = quiet.clone();
        half.result = ScenarioResult::new("calm", &*quiet.result.file, [("seen".to_owned(), Kind::Sometimes)]);
        half.result.add(record(u64::from(index), None));
        half.planned = 1;
        let mut part = GateReport { shards: Shards::one(index, 2), ..report(vec![half]) };
        part.exit_code = part.judge();
        part
    };
    assert_eq!((shard(1).exit_code, shard(2).exit_code), (0, 0));
    assert_eq!(merge_gates(vec![shard(1), shard(2)]).unwrap().exit_code, exit::VACUOUS);
}

#[test]
fn a_gate_survives_its_file() {
    let whole = mixed();
    let read = GateReport::from_json(&serde_json::to_string(&whole).unwrap()).unwrap();
    assert_eq!(read, whole);
    assert!(GateReport::from_json(r#"{"schema":"ipam-sim/run/1"}"#).unwrap_err().to_string().contains("ipam-sim/gate/1"));
}

#[test]
fn a_run_is_a_gate_with_one_part() {
    let mut scenario = ScenarioResult::new("s", "s.toml", []);
    scenario.add(SeedRecord { digest: Digest(1), ..record(0, ALWAYS) });
    let run = RunReport::new(vec![scenario], false);
    let gate = GateReport::from(run.clone());
    assert_eq!((gate.judge(), gate.exit_code), (run.exit_code, run.exit_code));
    assert_eq!(gate.parts()[0].part, Part::Sweep);
}
