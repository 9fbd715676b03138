//! The output and the files of `gate`, and the results of `merge` for gates.

use std::sync::Mutex;

use ipam_reports::gate::Part;
use ipam_reports::{GateCase, GateReport, ScenarioResult, Shards};

use super::records::{held, negative, seconds, vacuous, violated};
use testkit::Folder;

use super::*;

fn case(part: Part, number: u32, result: ScenarioResult) -> GateCase {
    GateCase { part, number, name: result.name.clone(), planned: result.seeds, required: 0, skipped: None, result }
}

fn gate(cases: Vec<GateCase>) -> GateReport {
    let mut report = GateReport { cases, budget: seconds(170.0), wall: seconds(12.5), ..GateReport::default() };
    report.exit_code = report.judge();
    report
}

fn passing() -> GateReport {
    let mut cut = case(Part::Chaos, 0, held("partitions"));
    cut.planned = 1_000;
    gate(vec![case(Part::Smoke, 0, held("calm")), cut, case(Part::Negative, 0, negative("must-fail", true))])
}

fn failing() -> GateReport {
    let mut report = gate(vec![
        case(Part::Smoke, 0, held("calm")),
        case(Part::Smoke, 1, vacuous()),
        case(Part::Chaos, 0, violated()),
        case(Part::Negative, 0, negative("must-fail", false)),
    ]);
    report.remarks = vec!["no negative scenario is about byom-unheard-of".to_owned()];
    report
}

fn gating(report: GateReport) -> Prepared {
    Prepared { gate: Some(Ok(report)), ..Prepared::default() }
}

/// Writes a result into a file, and returns its path.
fn json(folder: &Folder, name: &str, report: &impl Serialize) -> String {
    folder.file(name, &serde_json::to_string(report).unwrap())
}

#[test]
fn a_gate_is_a_line_a_part_and_what_failed_at_length() {
    let passed = ran(&gating(passing()), "gate");
    assert_eq!((passed.code, passed.err.as_str()), (0, ""));
    insta::assert_snapshot!("gate-passed", passed.out);
    let failed = ran(&gating(failing()), "gate");
    assert_eq!((failed.code, failed.err.as_str()), (1, ""));
    insta::assert_snapshot!("gate-failed", failed.out);
}

#[test]
fn files_for_other_programs_hold_the_failure_block_and_the_replay_command() {
    let folder = Folder::new("outputs");
    let steps = folder.path("steps.md");
    std::fs::write(&steps, "before\n").unwrap();
    let env = |name: &str| (name == "GITHUB_STEP_SUMMARY").then(|| steps.clone());
    let line = format!("gate --junit {} --summary {} --github", folder.path("sub/gate.xml"), folder.path("gate.md"));
    let ran = ran_in(&env, &mut Vec::new(), &gating(failing()), &line);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let replay = "ipam-sim replay target/ipam-sim/collector-races-3.toml --trace";
    for text in [folder.text("sub/gate.xml"), folder.text("gate.md")] {
        assert!(text.contains(replay) && text.contains("10.0.0.7 held by web-2"), "{text}");
    }
    assert_eq!(folder.text("steps.md"), format!("before\n{}", folder.text("gate.md")), "the page of a job is added to");
    let marks: Vec<_> = ran.out.lines().filter(|line| line.starts_with("::error file=")).collect();
    assert_eq!(marks.len(), 3, "{}", ran.out);
    assert!(marks.iter().any(|mark| mark.ends_with(&format!("%0A{replay}"))), "{}", ran.out);
}

#[test]
fn json_stands_alone_on_standard_output() {
    let ran = ran(&gating(failing()), "gate --github --format json");
    assert_eq!(GateReport::from_json(&ran.out).unwrap(), failing());
    assert!(ran.err.starts_with("::error file="), "{}", ran.err);
}

#[test]
fn a_disk_that_says_no_costs_the_file_and_not_the_verdict() {
    let ran = ran(&gating(passing()), "gate --junit /proc/no/such/gate.xml");
    assert_eq!(ran.code, 2);
    assert!(ran.out.contains("Passed: ") && ran.err.contains("cannot write /proc/no/such/gate.xml"), "{}{}", ran.out, ran.err);
}

#[test]
fn the_environment_chooses_the_shard() {
    /// Records the part that it is asked to run.
    struct Asked(Mutex<Option<(u32, u32)>>);
    impl Verbs for Asked {
        fn run(&self, args: &RunArgs, _: &LiveProgress) -> Result<RunReport, CliError> {
            *self.0.lock().unwrap() = args.part.map(|part| (part.index, part.total));
            Ok(RunReport::new(vec![held("calm")], false))
        }
        fn gate(&self, args: &GateArgs, _: &LiveProgress) -> Result<GateReport, CliError> {
            *self.0.lock().unwrap() = args.part.map(|part| (part.index, part.total));
            Ok(passing())
        }
        fn replay(&self, _: &ReplayArgs, _: &mut dyn FnMut(TraceLine) -> ControlFlow<()>) -> Result<ReplayReport, CliError> {
            unreachable!()
        }
        fn hunt(&self, _: &HuntArgs, _: &LiveProgress) -> Result<RunReport, CliError> {
            unreachable!("nobody hunts here")
        }

        fn shrink(&self, _: &ShrinkArgs, _: &LiveProgress) -> Result<ShrinkReport, CliError> {
            unreachable!()
        }
        fn selftest(&self, _: &SelftestArgs, _: &LiveProgress) -> Result<MatrixReport, CliError> {
            unreachable!()
        }
        fn list(&self, _: &ListArgs) -> Result<ListReport, CliError> {
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
    let verbs = Asked(Mutex::new(None));
    let env = |name: &str| match name {
        "CI_NODE_INDEX" => Some("2".to_owned()),
        "CI_NODE_TOTAL" => Some("3".to_owned()),
        _ => None,
    };
    for (line, part) in [
        ("gate", Some((2, 3))),
        ("gate --shard 1/2", Some((1, 2))),
        ("gate --shard /5", Some((2, 5))),
        ("run a.toml", Some((2, 3))),
        ("run a.toml --seed 7", None),
    ] {
        let ran = ran_in(&env, &mut Vec::new(), &verbs, line);
        assert_eq!((ran.code, *verbs.0.lock().unwrap()), (0, part), "{line}");
        assert_eq!(ran.err.contains("note: this is shard"), part.is_some() && !line.contains("1/2"), "{line}: {}", ran.err);
    }
}

#[test]
fn merged_gates_print_as_one_and_name_the_shard_that_is_missing() {
    let folder = Folder::new("merge");
    let shard = |index: u32, name: &str| {
        let mut part = GateReport { shards: Shards::one(index, 2), ..gate(vec![case(Part::Negative, index - 1, negative(name, true))]) };
        part.exit_code = part.judge();
        json(&folder, &format!("{index}.json"), &part)
    };
    let (one, two) = (shard(1, "first"), shard(2, "second"));
    let merged = ran(&Prepared::default(), &format!("merge {two} {one} --format json --junit {}", folder.path("all.xml")));
    assert_eq!((merged.code, merged.err.as_str()), (0, ""));
    let names: Vec<_> = GateReport::from_json(&merged.out).unwrap().cases.into_iter().map(|case| case.name).collect();
    assert_eq!(names, ["first", "second"], "as on one machine, whatever the order of files");
    assert!(folder.text("all.xml").contains("tests=\"2\""));
    let half = ran(&Prepared::default(), &format!("merge {two}"));
    assert_eq!(half.code, 4);
    assert!(half.out.contains("left out  shard 1 of 2"), "{}", half.out);
    let run = json(&folder, "run.json", &RunReport::new(vec![held("calm")], false));
    let mixed = ran(&Prepared::default(), &format!("merge {one} {run}"));
    assert_eq!((mixed.code, mixed.out.as_str()), (2, ""));
    assert!(mixed.err.contains("run.json is not the result of a gate"), "{}", mixed.err);
}

#[test]
fn a_missing_shard_of_a_sweep_is_no_success() {
    let folder = Folder::new("sweep");
    let mut part = RunReport::of_shards(vec![held("calm")], false, Shards::one(1, 3));
    part.build = Some("b".to_owned());
    let ran = ran(&Prepared::default(), &format!("merge {} --junit {}", json(&folder, "1.json", &part), folder.path("sweep.xml")));
    assert_eq!((ran.code, ran.err.as_str()), (4, "note: not in the result: shards 2, 3 of 3\n"));
    assert!(folder.text("sweep.xml").contains("classname=\"ipam-sim.sweep\""));
}
