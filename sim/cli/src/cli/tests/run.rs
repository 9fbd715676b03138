//! The output of `run`, and its exit codes.

use ipam_reports::finding::{Kind, Problem, ProblemKind, Violation};
use ipam_reports::{ScenarioResult, SeedRecord};
use sim_harness::engine::Progress;
use sim_harness::engine::progress::Unit;

use super::records::{held, negative, sweep, two_owners, vacuous, violated, violation};
use super::*;

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
    broken.problems.push(problem(4, ProblemKind::Harness, "panicked at sim/src/world.rs:10: index out of bounds"));
    broken.problems.push(problem(5, ProblemKind::Nondeterminism, "digest 9f3c first, 77aa then"));
    broken.broken = 1;
    broken.nondeterministic = 1;
    assert_eq!(report_of(vec![broken], "run-broken"), 70);
}

#[test]
fn a_cause_is_told_once_with_all_that_it_breaks() {
    let both = |seed: u64| {
        let second = Violation { claim: "records-persist".into(), ..two_owners() };
        if seed == 0 { vec![two_owners(), second] } else { vec![second] }
    };
    let caused = |name: &str, cause: &str| {
        let mut scenario = sweep(name, 3, &[], both);
        for claim in ["no-address-has-two-owners", "records-persist"] {
            let first = scenario.failures.iter_mut().find(|failure| failure.claim == claim).unwrap();
            first.cause = Some(cause.to_owned());
        }
        scenario
    };
    let scenarios = vec![caused("first", "crash(agent-0)"), caused("second", "crash(agent-0)"), caused("third", "pause(agent-1)")];
    assert_eq!(report_of(scenarios, "run-one-cause"), 1);
}

#[test]
fn a_failure_without_a_plan_file_is_replayed_by_its_seed() {
    let mut scenario = sweep("counter", 2, &[], |_| vec![two_owners()]);
    scenario.failures.iter_mut().for_each(|failure| failure.plan = None);
    let ran = ran(&running(RunReport::new(vec![scenario], false)), "run scenarios");
    assert!(
        ran.out
            .contains("replay  ipam-sim replay scenarios/counter.toml --seed 0 --trace\nalso    seed 1, whose cause was not looked into\n"),
        "{}",
        ran.out
    );
}

#[test]
fn every_cause_has_a_plan_to_replay() {
    let claims: Vec<String> = (0..5).map(|number| format!("claim-{number}")).collect();
    let scenario = sweep("counter", 5, &[], |seed| vec![violation(&claims[seed as usize], Kind::Always, 1.0)]);
    let ran = ran(&running(RunReport::new(vec![scenario], false)), "run scenarios");
    let replay = |seed: u64| format!("replay  ipam-sim replay target/ipam-sim/counter-{seed}.toml --trace\n");
    assert!((0..5).all(|seed| ran.out.contains(&replay(seed))), "{}", ran.out);
    assert!(ran.out.contains(&format!("also    claim-4 in 1 seed, the first is 4\n{}", replay(4))), "{}", ran.out);
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
fn an_error_of_a_verb_ends_with_its_code_and_leaves_standard_output_empty() {
    let error = CliError::usage("scenarios/a.toml:3:7: unknown key `sedes`").hint("did you mean `seeds`?");
    let verbs = Prepared { run: Some(Err(error)), ..Prepared::default() };
    let ran = ran(&verbs, "run scenarios/a.toml --format json");
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
    let verbs = running(RunReport::new(vec![violated()], false));
    let ran = ran_into(&mut Closing { room: 10, error: io::ErrorKind::BrokenPipe }, &verbs, "run scenarios");
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let ran = ran_into(&mut Closing { room: 10, error: io::ErrorKind::StorageFull }, &verbs, "run scenarios");
    assert_eq!(ran.code, 1, "what cannot be written hides no violation");
    let full = ran_into(
        &mut Closing { room: 10, error: io::ErrorKind::StorageFull },
        &running(RunReport::new(vec![held("counter")], false)),
        "run scenarios",
    );
    assert_eq!(full.code, 2, "nobody was told that it held");
    assert!(ran.err.contains("Violated: 1 scenario"), "the verdict is told all the same: {}", ran.err);
    assert!(ran.err.contains("\nerror: cannot write the result: "), "{}", ran.err);
}

#[test]
fn colour_changes_no_column() {
    let report = RunReport::new(vec![held("counter"), violated(), vacuous()], false);
    let coloured = text::run(&report, Paint::COLOURED);
    assert_ne!(coloured, text::run(&report, Paint::PLAIN));
    let mut plain = String::new();
    for part in coloured.split('\x1b') {
        plain += part.strip_prefix('[').map_or(part, |style| style.split_once('m').unwrap().1);
    }
    assert_eq!(plain, text::run(&report, Paint::PLAIN));
}

/// A worker counts, the user presses Ctrl-C, and the sweep ends between two seeds.
#[test]
fn a_sweep_hears_the_stop_between_two_seeds() {
    struct UntilStopped;
    impl Verbs for UntilStopped {
        fn run(&self, _: &RunArgs, progress: &LiveProgress) -> Result<RunReport, CliError> {
            let worker = &progress.begin("counter", Unit::Seeds, None, 1)[0];
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
        fn selftest(&self, _: &SelftestArgs, _: &LiveProgress) -> Result<MatrixReport, CliError> {
            unreachable!()
        }
        fn hunt(&self, _: &HuntArgs, _: &LiveProgress) -> Result<RunReport, CliError> {
            unreachable!("nobody hunts here")
        }

        fn shrink(&self, _: &ShrinkArgs, _: &LiveProgress) -> Result<ShrinkReport, CliError> {
            unreachable!()
        }
        fn list(&self, _: &ListArgs) -> Result<ListReport, CliError> {
            unreachable!()
        }
        fn gate(&self, _: &GateArgs, _: &LiveProgress) -> Result<ipam_reports::GateReport, CliError> {
            unreachable!()
        }
        fn check(&self, _: &CheckArgs) -> Result<CheckReport, CliError> {
            unreachable!()
        }
        fn conformance(&self, _: &ConformanceArgs) -> Result<ipam_reports::ConformanceReport, CliError> {
            unreachable!()
        }
        fn explain(&self, _: &ExplainArgs) -> Result<Explanation, CliError> {
            unreachable!()
        }
        fn conflicts(&self, _: &ConflictsArgs, _: &LiveProgress) -> Result<ipam_reports::ConflictsReport, CliError> {
            unreachable!()
        }
        fn metrics(&self, _: &MetricsArgs, _: &LiveProgress) -> Result<ipam_reports::MetricsReport, CliError> {
            unreachable!("no test of the command line asks for it")
        }

        fn leaks(&self, _: &ReclaimArgs, _: &LiveProgress) -> Result<ipam_reports::LeaksReport, CliError> {
            unreachable!("no test of the command line asks for it")
        }

        fn calibrate(&self, _: &super::super::report::args::CalibrateArgs) -> Result<ipam_reports::CalibrateReport, CliError> {
            unreachable!("it is not asked for")
        }

        fn capacity(&self, _: &CapacityArgs, _: &LiveProgress) -> Result<ipam_reports::CapacityReport, CliError> {
            unreachable!()
        }
    }
    assert_eq!(ran(&UntilStopped, "run scenarios").code, 130);
}
