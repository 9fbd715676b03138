//! Stories of the command line, told with an engine that answers from prepared records.

use std::path::PathBuf;

use ipam_reports::listing::{CheckedFile, ClaimEntry, DeviationEntry, FaultEntry, Finding, Parameter, ScenarioEntry, Severity};
use ipam_reports::replay::{Comparison, Parting, TraceLine};
use ipam_reports::run::{Api, Kind, Problem, ProblemKind, Violation};
use ipam_reports::{CheckReport, Digest, ListReport, ReplayReport, ScenarioResult, Seconds, SeedRecord};

use super::args::{Profile, Setting, Shard, What};
use super::*;

// ---- a command line, run ----

/// What a command printed and how it ended.
struct Ran {
    code: u8,
    out: String,
    err: String,
}

fn ran(engine: &dyn Engine, line: &str) -> Ran {
    ran_into(&mut Vec::new(), engine, line)
}

fn ran_into(out: &mut impl OutputText, engine: &dyn Engine, line: &str) -> Ran {
    let mut err = Vec::new();
    let mut console =
        Console { out, err: &mut err, paint_out: Paint::PLAIN, paint_err: Paint::PLAIN, progress_bar: false, interrupts: false };
    let args = std::iter::once("ipam-sim").chain(line.split_whitespace()).map(OsString::from);
    let code = dispatch(args, engine, &mut console);
    Ran { code, out: out.text(), err: String::from_utf8(err).unwrap() }
}

trait OutputText: Write {
    fn text(&self) -> String;
}

impl OutputText for Vec<u8> {
    fn text(&self) -> String {
        String::from_utf8(self.clone()).unwrap()
    }
}

/// A reader that takes `room` bytes and goes away.
struct Closing {
    room: usize,
    error: io::ErrorKind,
}

impl Write for Closing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.room == 0 {
            return Err(self.error.into());
        }
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl OutputText for Closing {
    fn text(&self) -> String {
        String::new()
    }
}

// ---- an engine with prepared answers ----

type Answer<T> = Option<Result<T, CliError>>;

/// Answers from records; what has no answer must not be asked.
#[derive(Default)]
struct Prepared {
    run: Answer<RunReport>,
    replay: Answer<ReplayReport>,
    trace: Vec<TraceLine>,
    list: Answer<ListReport>,
    check: Answer<CheckReport>,
}

fn answer<T: Clone>(prepared: &Answer<T>) -> Result<T, CliError> {
    prepared.clone().expect("this verb is not part of the test")
}

impl Engine for Prepared {
    fn run(&self, _: &RunArgs, _: &Progress) -> Result<RunReport, CliError> {
        answer(&self.run)
    }

    fn replay(&self, _: &ReplayArgs, trace: &mut dyn FnMut(TraceLine) -> ControlFlow<()>) -> Result<ReplayReport, CliError> {
        let _ = self.trace.iter().cloned().try_for_each(trace);
        answer(&self.replay)
    }

    fn list(&self, _: &ListArgs) -> Result<ListReport, CliError> {
        answer(&self.list)
    }

    fn check(&self, _: &CheckArgs) -> Result<CheckReport, CliError> {
        answer(&self.check)
    }
}

fn running(report: RunReport) -> Prepared {
    Prepared { run: Some(Ok(report)), ..Prepared::default() }
}

fn replaying(report: ReplayReport) -> Prepared {
    Prepared { replay: Some(Ok(ReplayReport { exit_code: report.judge(), ..report })), ..Prepared::default() }
}

// ---- records ----

fn seconds(seconds: f64) -> Seconds {
    Seconds::from_micros((seconds * 1e6) as u64)
}

fn violation(claim: &str, kind: Kind, at: f64) -> Violation {
    Violation { claim: claim.into(), kind, at: seconds(at), excuse: None, detail: vec![], needs: None }
}

fn two_owners() -> Violation {
    let story = "10.0.0.7 held by web-2 (uid 81a3) since 12.090 s and by web-5 (uid c0de) since 41.207 s";
    Violation {
        detail: vec![story.into()],
        needs: Some("watch-lag(collector) and node-down(n1); passes without either".into()),
        ..violation("no-address-has-two-owners", Kind::Always, 41.207)
    }
}

/// A sweep of `seeds` seeds, of which some violate something.
fn sweep(name: &str, seeds: u64, sometimes: &[(&str, Kind)], violations: impl Fn(u64) -> Vec<Violation>) -> ScenarioResult {
    let claims = sometimes.iter().map(|&(claim, kind)| (claim.to_owned(), kind));
    let mut scenario = ScenarioResult::new(name, format!("scenarios/{name}.toml"), claims);
    for seed in 0..seeds {
        scenario.add(SeedRecord {
            seed,
            digest: Digest(u128::from(seed) << 80 | 0xabc),
            simulated: seconds(80.0),
            api: Api { requests: 482, writes: 100, conflicts: 12, retries_exhausted: 0 },
            events: 1_000,
            violations: violations(seed),
            ..SeedRecord::default()
        });
    }
    for failure in &mut scenario.failures {
        failure.plan = Some(format!("target/ipam-sim/{name}-{}.toml", failure.seed));
    }
    scenario.wall = seconds(seeds as f64 / 312.0);
    scenario
}

fn held(name: &str) -> ScenarioResult {
    sweep(name, 100, &[], |_| vec![])
}

fn vacuous() -> ScenarioResult {
    sweep("quiet", 50, &[("a-write-conflicts", Kind::Sometimes), ("a-retry-gives-up", Kind::Reachable)], |_| vec![])
}

fn violated() -> ScenarioResult {
    sweep("collector-races", 1_000, &[], |seed| match seed {
        7 | 9 => vec![two_owners(), violation("every-pod-has-an-address", Kind::Eventually, 95.0)],
        seed if seed % 10 == 3 => vec![two_owners()],
        _ => vec![],
    })
}

fn negative(name: &str, violating: bool) -> ScenarioResult {
    let found = |seed| if violating && seed >= 2 { vec![two_owners(), violation("echo", Kind::Always, 50.0)] } else { vec![] };
    ScenarioResult { expect: Some("no-address-has-two-owners".into()), ..sweep(name, 5, &[("seen", Kind::Sometimes)], found) }
}

// ---- help ----

#[test]
fn help_fits_a_screen_and_shows_examples() {
    let engine = Prepared::default();
    for (verb, lines_max) in [("", 24), ("run", 45), ("replay", 30), ("list", 24), ("check", 24), ("merge", 24), ("completions", 24)] {
        let help = ran(&engine, &format!("{verb} --help"));
        assert_eq!((help.code, help.err.as_str()), (0, ""));
        assert!(help.out.contains("Examples:\n  ipam-sim "), "{verb}: no examples");
        assert!(help.out.lines().count() <= lines_max, "{verb}: {} lines", help.out.lines().count());
        assert!(help.out.lines().all(|line| line.chars().count() <= 100), "{verb}: too wide");
        assert_eq!(ran(&engine, &format!("{verb} -h")).out, help.out, "{verb}: two kinds of help");
        insta::assert_snapshot!(format!("help-{}", if verb.is_empty() { "top" } else { verb }), help.out);
    }
}

#[test]
fn no_verb_is_an_error_with_help() {
    let ran = ran(&Prepared::default(), "");
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("Usage: ipam-sim <COMMAND>"), "{}", ran.err);
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

// ---- arguments ----

fn run_args(line: &str) -> RunArgs {
    match Cli::read(format!("ipam-sim run {line}").split_whitespace().map(OsString::from)) {
        Ok(Cli { verb: Verb::Run(args) }) => args,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn every_flag_of_run_is_plain_data() {
    let line = "a.toml dir --seeds 1000 --from 0x10 --budget 1.5s --jobs 4 --shard 2/4 --set cluster.nodes=5 --set x= \
        --manifests p.yaml q.yaml --deviation d1 --deviation d2 --without f1 --profile upstream --format json --out o";
    let expected = RunArgs {
        scenarios: vec!["a.toml".into(), "dir".into()],
        seeds: Some(1_000),
        from: Some(16),
        seed: None,
        budget: Some(crate::time::Span::millis(1_500)),
        jobs: Some(4),
        shard: Some(Shard { index: 2, total: 4 }),
        set: vec![Setting { key: "cluster.nodes".into(), value: "5".into() }, Setting { key: "x".into(), value: String::new() }],
        manifests: vec!["p.yaml".into(), "q.yaml".into()],
        deviation: vec!["d1".into(), "d2".into()],
        without: vec!["f1".into()],
        profile: Some(Profile::Upstream),
        format: Format::Json,
        out: Some("o".into()),
    };
    assert_eq!(run_args(line), expected);
}

#[test]
fn flags_that_are_not_given_leave_the_choice_to_the_scenario() {
    assert_eq!(run_args("a.toml"), RunArgs { scenarios: vec!["a.toml".into()], ..RunArgs::default() });
}

#[test]
fn bad_flags_say_what_would_be_right() {
    for (line, expected) in [
        ("run", "required"),
        ("run a --shard 0/4", "shards count from 1: the first of 4 is 1/4"),
        ("run a --shard 5/4", "expected K/N with K from 1 to N"),
        ("run a --shard 2", "expected K/N"),
        ("run a --seeds 0", "expected a number from 1 on"),
        ("run a --jobs 0", "expected a number from 1 to 4096"),
        ("run a --seed -1", "--seed"),
        ("run a --seed 0x", "expected a seed from 0 to 18446744073709551615"),
        ("run a --seed 1 --seeds 2", "cannot be used with"),
        ("run a --budget 60", "`60` is not a duration such as 250us"),
        ("run a --set nodes", "expected KEY=VALUE"),
        ("run a --profile fast", "possible values: hardened, upstream"),
        ("run --manifests pods.yaml a.toml", "`--manifests` takes every path that follows it"),
        ("replay", "<PLAN>"),
        ("merge", "<RESULT>"),
        ("check", "<PATH>"),
        ("shrink plan.toml", "unrecognized subcommand"),
    ] {
        let ran = ran(&Prepared::default(), line);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{line}");
        assert!(ran.err.contains(expected), "{line}: {}", ran.err);
    }
}

#[test]
fn the_seeds_to_run_follow_from_flags_and_scenario() {
    for (line, expected) in [
        ("a", Some((0, 99))),
        ("a --from 5", Some((5, 104))),
        ("a --seeds 10 --shard 4/4", Some((8, 9))),
        ("a --seeds 2 --shard 3/4", None),
        ("a --seed 18446744073709551615", Some((u64::MAX, u64::MAX))),
    ] {
        let range = run_args(line).seed_range(100).unwrap();
        assert_eq!(range.map(|range| (range.first, range.last)), expected, "{line}");
    }
    assert!(run_args("a --from 18446744073709551615").seed_range(2).unwrap_err().contains("the last seed is"));
}

#[test]
fn list_wants_everything_or_one_thing() {
    let args = |what| ListArgs { what, ..ListArgs::default() };
    assert!(args(None).wants(What::Faults));
    assert!(args(Some(What::Faults)).wants(What::Faults));
    assert!(!args(Some(What::Claims)).wants(What::Faults));
}

// ---- run ----

fn report_of(scenarios: Vec<ScenarioResult>, name: &str) -> u8 {
    let ran = ran(&running(RunReport::new(scenarios, false)), "run scenarios");
    assert_eq!(ran.err, "");
    insta::assert_snapshot!(name, ran.out);
    ran.code
}

#[test]
fn a_sweep_that_holds_is_a_line_per_scenario_and_a_verdict() {
    assert_eq!(report_of(vec![held("counter"), held("counter-with-partitions")], "run-held"), 0);
}

#[test]
fn a_sweep_with_every_kind_of_ending() {
    let mut excused = held("partitioned");
    let excuse = |claim, excuse: &str| Violation { excuse: Some(excuse.into()), ..violation(claim, Kind::Always, 3.2) };
    let violations = vec![excuse("no-address-has-two-owners", "unreachable-node-release")];
    excused.add(SeedRecord { seed: 141, violations, ..SeedRecord::default() });
    let scenarios = vec![held("counter"), violated(), vacuous(), negative("lost-update", true), negative("not-lost", false), excused];
    assert_eq!(report_of(scenarios, "run-mixed"), 1);
}

#[test]
fn a_bug_of_the_harness_is_told_apart_from_a_violation() {
    let mut broken = held("counter");
    let problem = |seed, kind, message: &str| Problem {
        seed,
        kind,
        message: message.into(),
        plan: Some(format!("target/ipam-sim/counter-{seed}.toml")),
    };
    broken.problems.push(problem(4, ProblemKind::Harness, "panicked at sim/src/world.rs:10:\nindex out of bounds"));
    broken.problems.push(problem(5, ProblemKind::Nondeterminism, "digest 9f3c first, 77aa then"));
    broken.broken = 1;
    broken.nondeterministic = 1;
    assert_eq!(report_of(vec![broken], "run-broken"), 70);
}

#[test]
fn a_failure_without_a_plan_file_is_replayed_by_its_seed() {
    let mut scenario = sweep("counter", 2, &[], |_| vec![two_owners()]);
    scenario.failures.iter_mut().for_each(|failure| failure.plan = None);
    let ran = ran(&running(RunReport::new(vec![scenario], false)), "run scenarios");
    assert!(ran.out.contains("replay  ipam-sim replay scenarios/counter.toml --seed 0 --trace\nalso    seed 1\n"), "{}", ran.out);
}

#[test]
fn an_interrupted_sweep_prints_the_verdict_so_far() {
    let ran = ran(&running(RunReport::new(vec![held("counter"), sweep("later", 0, &[], |_| vec![])], true)), "run scenarios");
    assert_eq!(ran.code, 130);
    assert!(ran.out.contains("\nNOT RUN  later "), "{}", ran.out);
    assert!(ran.out.contains("\nInterrupted: 2 scenarios (1 as it must be, 1 not run), 100 seeds"), "{}", ran.out);
}

#[test]
fn json_is_one_object_on_standard_output() {
    let report = RunReport::new(vec![violated()], false);
    let ran = ran(&running(report.clone()), "run scenarios --format json");
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    assert_eq!(RunReport::from_json(&ran.out).unwrap(), report);
}

#[test]
fn an_error_of_the_engine_ends_with_its_code_and_leaves_standard_output_empty() {
    let error = CliError::usage("scenarios/a.toml:3:7: unknown key `sedes`").hint("did you mean `seeds`?");
    let engine = Prepared { run: Some(Err(error)), ..Prepared::default() };
    let ran = ran(&engine, "run scenarios/a.toml --format json");
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert_eq!(ran.err, "error: scenarios/a.toml:3:7: unknown key `sedes`\n  did you mean `seeds`?\n");
}

#[test]
fn a_panic_is_a_bug_of_the_harness() {
    let ran = ran(&Prepared::default(), "run scenarios");
    assert_eq!(ran.code, 70);
    assert_eq!(ran.err, "error: ipam-sim panicked: this verb is not part of the test\n");
}

#[test]
fn a_reader_that_went_away_does_not_change_the_verdict() {
    let engine = running(RunReport::new(vec![violated()], false));
    let ran = ran_into(&mut Closing { room: 10, error: io::ErrorKind::BrokenPipe }, &engine, "run scenarios");
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let ran = ran_into(&mut Closing { room: 10, error: io::ErrorKind::StorageFull }, &engine, "run scenarios");
    assert_eq!(ran.code, 70);
    assert!(ran.err.starts_with("error: failed to write the result: "), "{}", ran.err);
}

#[test]
fn colour_changes_no_column() {
    let report = RunReport::new(vec![held("counter"), violated(), vacuous()], false);
    let coloured = text::run(&report, Paint::choose(true, None, None));
    assert_ne!(coloured, text::run(&report, Paint::PLAIN));
    let mut plain = String::new();
    for part in coloured.split('\x1b') {
        plain += part.strip_prefix('[').map_or(part, |style| style.split_once('m').unwrap().1);
    }
    assert_eq!(plain, text::run(&report, Paint::PLAIN));
}

/// A worker counts, the user presses Ctrl-C, the sweep ends between two seeds.
#[test]
fn a_sweep_hears_the_stop_between_two_seeds() {
    struct UntilStopped;
    impl Engine for UntilStopped {
        fn run(&self, _: &RunArgs, progress: &Progress) -> Result<RunReport, CliError> {
            let worker = &progress.begin("counter", None, 1)[0];
            for seed in 0.. {
                if progress.stop_requested() {
                    break;
                }
                worker.count(false);
                if seed == 2 {
                    progress.stop();
                }
            }
            Ok(RunReport::new(vec![held("counter")], progress.stop_requested()))
        }
        fn replay(&self, _: &ReplayArgs, _: &mut dyn FnMut(TraceLine) -> ControlFlow<()>) -> Result<ReplayReport, CliError> {
            unreachable!()
        }
        fn list(&self, _: &ListArgs) -> Result<ListReport, CliError> {
            unreachable!()
        }
        fn check(&self, _: &CheckArgs) -> Result<CheckReport, CliError> {
            unreachable!()
        }
    }
    assert_eq!(ran(&UntilStopped, "run scenarios").code, 130);
}

// ---- replay ----

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
    let line = |event, at, place: &str, what: &str| TraceLine { event, at: seconds(at), place: place.into(), what: what.into() };
    vec![line(0, 0.0, "api-1", "starts"), line(1, 12.09, "web-2", "holds 10.0.0.7"), line(2, 41.207, "web-5", "holds 10.0.0.7")]
}

#[test]
fn a_replay_prints_the_trace_and_what_it_means() {
    let ran = ran(&Prepared { trace: trace(), ..replaying(replayed()) }, "replay plan.toml --trace");
    assert_eq!(ran.code, 1);
    insta::assert_snapshot!("replay-trace", ran.out);
}

#[test]
fn the_trace_is_part_of_the_json() {
    let ran = ran(&Prepared { trace: trace(), ..replaying(replayed()) }, "replay plan.toml --trace --format json");
    let report = ReplayReport::from_json(&ran.out).unwrap();
    assert_eq!((ran.code, report.trace), (1, Some(trace())));
}

#[test]
fn a_trace_that_nobody_reads_on_ends() {
    let engine = Prepared { trace: trace(), ..replaying(replayed()) };
    let ran = ran_into(&mut Closing { room: 10, error: io::ErrorKind::BrokenPipe }, &engine, "replay plan.toml --trace");
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

// ---- list and check ----

#[test]
fn lists_are_tables() {
    let scenario = |name: &str, expect: Option<&str>, why: &str| ScenarioEntry {
        name: name.into(),
        file: format!("scenarios/{name}.toml"),
        seeds: 100,
        expect: expect.map(str::to_owned),
        why: why.into(),
    };
    let claim = |name: &str, kind, about: &str, reference: Option<&str>| ClaimEntry {
        name: name.into(),
        kind,
        about: about.into(),
        reference: reference.map(str::to_owned),
    };
    let delay = Parameter { name: "delay".into(), default: "2s..8s".into() };
    let report = ListReport {
        scenarios: Some(vec![
            scenario("counter", None, "several clients count in one ConfigMap"),
            scenario("lost-update", Some("no-increment-is-lost"), "a client writes without reading again"),
        ]),
        claims: Some(vec![
            claim("no-address-has-two-owners", Kind::Always, "two live sandboxes never answer on one address", Some("B I1")),
            claim("a-write-conflicts", Kind::Sometimes, "a write is refused with 409", None),
        ]),
        faults: Some(vec![FaultEntry { name: "watch-lag".into(), parameters: vec![delay], event: "an API server falls behind".into() }]),
        deviations: Some(vec![DeviationEntry { name: "no-reread".into(), about: "writes again what it read first".into() }]),
        ..ListReport::default()
    };
    let ran = ran(&Prepared { list: Some(Ok(report)), ..Prepared::default() }, "list");
    assert_eq!(ran.code, 0);
    insta::assert_snapshot!("list", ran.out);
}

#[test]
fn an_empty_list_says_so() {
    let report = ListReport { faults: Some(vec![]), ..ListReport::default() };
    assert_eq!(ran(&Prepared { list: Some(Ok(report)), ..Prepared::default() }, "list faults").out, "Faults\n  none\n");
}

#[test]
fn findings_have_the_form_that_editors_jump_to() {
    let finding = |severity, line, column, found: &str, hint: Option<&str>| Finding {
        severity,
        line,
        column,
        found: found.into(),
        hint: hint.map(str::to_owned),
    };
    let files = vec![
        CheckedFile { file: "a.toml".into(), kind: "scenario".into(), findings: vec![] },
        CheckedFile {
            file: "b.toml".into(),
            kind: "scenario".into(),
            findings: vec![
                finding(Severity::Error, Some(3), Some(7), "unknown key `sedes`", Some("did you mean `seeds`?")),
                finding(Severity::Warning, Some(9), None, "no claim is checked", None),
                finding(Severity::Error, None, None, "the manifest `pods.yaml` does not exist", None),
            ],
        },
    ];
    let check = |files| Prepared { check: Some(Ok(CheckReport { files, ..CheckReport::default() })), ..Prepared::default() };
    let wrong = ran(&check(files.clone()), "check .");
    assert_eq!(wrong.code, 2);
    insta::assert_snapshot!("check", wrong.out);
    let right = ran(&check(vec![files[0].clone()]), "check a.toml");
    assert_eq!((right.code, right.out.as_str()), (0, "1 file: no problem\n"));
    assert_eq!(ran(&check(vec![]), "check empty").code, 2);
}

// ---- merge ----

/// A folder for one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ipam-sim-cli-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn shard(seeds: std::ops::Range<u64>) -> String {
    let mut scenario = ScenarioResult::new("counter", "counter.toml", []);
    seeds.for_each(|seed| scenario.add(SeedRecord { seed, digest: Digest(seed.into()), ..SeedRecord::default() }));
    serde_json::to_string(&RunReport::new(vec![scenario], false)).unwrap()
}

#[test]
fn merged_shards_print_as_one_run() {
    let folder = Folder::new("merge");
    let (a, b) = (folder.file("a.json", &shard(0..40)), folder.file("b.json", &shard(40..100)));
    let ran = ran(&Prepared::default(), &format!("merge {b} {a} --format json"));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(RunReport::from_json(&ran.out).unwrap(), RunReport::from_json(&shard(0..100)).unwrap());
}

#[test]
fn a_missing_shard_is_noticed_and_a_double_one_refused() {
    let folder = Folder::new("holes");
    let (a, c) = (folder.file("a.json", &shard(0..40)), folder.file("c.json", &shard(60..100)));
    let hole = ran(&Prepared::default(), &format!("merge {a} {c}"));
    assert_eq!((hole.code, hole.err.as_str()), (0, "note: no result has 20 seeds of counter (the first is 40): is a shard missing?\n"));
    let double = ran(&Prepared::default(), &format!("merge {a} {a}"));
    assert_eq!((double.code, double.out.as_str()), (2, ""));
    let expected = format!("error: the results do not fit together: {a} and {a} both ran seeds 0 to 39 of counter (counter.toml)\n");
    assert_eq!(double.err, expected);
}

#[test]
fn a_file_that_is_no_result_is_named() {
    let folder = Folder::new("bad");
    for (text, expected) in [
        ("{\n  oops", "bad.json:2:3: key must be a string"),
        (r#"{"schema":"ipam-sim/replay/1"}"#, "bad.json: the schema is `ipam-sim/replay/1`, expected `ipam-sim/run/1`"),
    ] {
        let ran = ran(&Prepared::default(), &format!("merge {}", folder.file("bad.json", text)));
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        assert!(ran.err.contains(expected), "{}", ran.err);
    }
    let ran = ran(&Prepared::default(), "merge nowhere.json");
    assert_eq!(ran.code, 2);
    assert!(ran.err.starts_with("error: failed to read nowhere.json: "), "{}", ran.err);
}

// ---- completions ----

#[test]
fn completions_know_every_verb() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = ran(&Prepared::default(), &format!("completions {shell}"));
        assert_eq!(ran.code, 0);
        for verb in ["run", "replay", "list", "check", "merge", "completions"] {
            assert!(ran.out.contains(verb), "{shell}: {verb}");
        }
    }
}
