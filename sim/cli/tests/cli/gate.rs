//! The gate as in CI, on scenarios of a few seeds.

use std::path::Path;
use std::process::Command;

use ipam_reports::gate::Part;
use ipam_reports::{GateReport, RunReport, Seconds, Verdict};
use testkit::Folder;

/// A folder with its own scenarios. Commands run in it.
struct Site(Folder);

/// A scenario of clients that increment a counter.
fn scenario(name: &str, more: &str) -> String {
    format!(
        "name = \"{name}\"\nwhy = \"a test\"\nseeds = 6\n{more}\n[phases]\nsafety = \"5s\"\nliveness = \"20s\"\n\
        [workload]\nkind = \"counter\"\nclients = 3\nincrements = 4\nthink = \"1ms..20ms\"\n\
        [check]\nalways = [\"no-increment-is-lost\"]\nsometimes = [\"clients-conflict\"]\n"
    )
}

impl Site {
    fn new(test: &str) -> Self {
        let site = Self(Folder::new(test));
        site.write("scenarios/smoke/calm.toml", &scenario("calm", ""));
        let crash = "fault = [{ kind = \"crash\", process = \"one:client-*\", down = \"1s\" }]";
        site.write("scenarios/chaos/crashes.toml", &scenario("crashes", crash));
        let negative = "expect = \"no-increment-is-lost\"\ndeviations = [\"counter-decides-once\"]";
        site.write("scenarios/negative/decides-once.toml", &scenario("decides-once", negative));
        site
    }

    fn write(&self, path: &str, text: &str) {
        self.0.file(path, text);
    }

    fn read(&self, path: &str) -> String {
        self.0.text(path)
    }

    /// Runs a command line; returns exit code, standard output and standard error.
    fn run(&self, line: &str) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ipam-sim"));
        for name in ["CI_NODE_INDEX", "CI_NODE_TOTAL", "GITHUB_STEP_SUMMARY"] {
            command.env_remove(name);
        }
        let output = command.current_dir(&self.0.0).env("NO_COLOR", "1").args(line.split_whitespace()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    }

    fn gate(&self, flags: &str) -> GateReport {
        let (code, out, err) = self.run(&format!("gate --times 1 --format json {flags}"));
        let report = GateReport::from_json(&out).unwrap_or_else(|error| panic!("{error}\n{out}{err}"));
        assert_eq!(code, i32::from(report.exit_code), "{err}");
        report
    }
}

fn verdicts(report: &GateReport) -> Vec<(Part, &str, Verdict)> {
    report.cases.iter().map(|case| (case.part, case.name.as_str(), report.verdict(case))).collect()
}

#[test]
fn a_gate_asks_every_part_and_passes_where_all_is_right() {
    let site = Site::new("passes");
    let report = site.gate("");
    assert_eq!(
        verdicts(&report),
        [
            (Part::Determinism, "calm", Verdict::Held),
            (Part::Determinism, "crashes", Verdict::Held),
            (Part::Determinism, "decides-once", Verdict::Held),
            (Part::Smoke, "calm", Verdict::Held),
            (Part::Chaos, "crashes", Verdict::Held),
            (Part::Negative, "decides-once", Verdict::Found),
            (Part::Control, "decides-once", Verdict::Held),
            (Part::KillMatrix, "counter-decides-once", Verdict::Found),
            (Part::MutationScore, "counter-decides-once", Verdict::Found),
        ]
    );
    assert_eq!((report.exit_code, report.left_out_lines().len()), (0, 0));
    let (code, out, err) = site.run("gate --times 1");
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("Passed: 9 cases") && out.ends_with("The gate is open.\n"), "{out}");
}

#[test]
fn a_deviation_shuts_the_gate_and_the_replay_command_gives_the_digest() {
    let site = Site::new("fails");
    let line = "gate --times 1 --mutation counter-decides-once --junit out/gate.xml --summary out/gate.md --github";
    let (code, out, err) = site.run(line);
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    let marks: Vec<_> = out.lines().filter(|line| line.starts_with("::error file=scenarios/")).collect();
    assert!(marks.len() == 1 && marks[0].contains("The same cause: chaos crashes, control decides-once"), "one cause: {marks:?}");
    // The command in the block, in the XML and on the page is the same, and it reproduces the failure.
    let replay = out.lines().find_map(|line| line.strip_prefix("replay  ipam-sim ")).unwrap();
    assert!(site.read("out/gate.xml").contains(replay) && site.read("out/gate.md").contains(replay));
    let block = out.split("replay  ").next().unwrap();
    let digest = block.rsplit("digest ").next().unwrap().split_whitespace().next().unwrap();
    let (code, replayed, _) = site.run(replay);
    assert_eq!(code, 1, "{replayed}");
    assert!(replayed.contains(&format!("digest {digest}   as recorded")), "{digest}\n{replayed}");
}

#[test]
fn a_gate_whose_claims_notice_nothing_stays_shut() {
    let site = Site::new("blind");
    // The remaining claims have nothing to do with what the mutation breaks.
    for file in ["smoke/calm", "chaos/crashes"] {
        let text = site.read(&format!("scenarios/{file}.toml"));
        site.write(&format!("scenarios/{file}.toml"), &text.replace("no-increment-is-lost", "revisions-only-grow"));
    }
    assert_eq!(site.gate("").exit_code, 0, "nobody says what is to be reached");
    site.write("ci/coverage.toml", "[rare]\n");
    let report = site.gate("");
    let score = |report: &GateReport| report.cases.iter().find(|case| case.part == Part::MutationScore).map(|case| report.verdict(case));
    assert_eq!((score(&report), report.mutation_score(), report.exit_code), (Some(Verdict::NotFound), (0, 1), 1));
    let shard = site.gate("--shard 1/2");
    assert_eq!((score(&shard), shard.exit_code), (Some(Verdict::Open), 0), "a shard knows only its own");
}

/// The report without real time.
fn timeless(mut report: GateReport) -> GateReport {
    (report.wall, report.budget) = (Seconds::ZERO, Seconds::ZERO);
    report.cases.iter_mut().for_each(|case| case.result.wall = Seconds::ZERO);
    report
}

#[test]
fn two_shards_merged_equal_the_gate_on_one_machine() {
    let site = Site::new("shards");
    for flags in ["", "--mutation counter-decides-once"] {
        let whole = site.gate(flags);
        for index in [1, 2] {
            let (_, out, _) = site.run(&format!("gate --times 1 --format json --shard {index}/2 {flags}"));
            site.write(&format!("{index}.json"), &out);
        }
        let (code, out, err) = site.run("merge 2.json 1.json --format json");
        assert_eq!((code, err.as_str()), (i32::from(whole.exit_code), ""));
        assert_eq!(timeless(GateReport::from_json(&out).unwrap()), timeless(whole), "{flags}");
        assert_eq!(site.run("merge 2.json").0, if flags.is_empty() { 4 } else { 1 }, "a shard is missing");
    }
}

#[test]
fn vacuity_is_judged_for_the_whole_sweep() {
    let site = Site::new("vacuous");
    // Clients conflict in some seeds only: a shard must not be blamed for seeds without conflicts.
    let rare = scenario("calm", "").replace("think = \"1ms..20ms\"", "think = \"800ms..1s\"");
    site.write("scenarios/smoke/calm.toml", &rare);
    let line = "run scenarios/smoke --seeds 12 --format json";
    let (code, whole, _) = site.run(line);
    let whole = RunReport::from_json(&whole).unwrap();
    let seen = whole.scenarios[0].sometimes[0].held_in;
    let mut shards = Vec::new();
    for index in 1..=6 {
        let (code, out, _) = site.run(&format!("{line} --shard {index}/6"));
        assert_eq!(code, 0, "a shard is not vacuous by itself: {out}");
        shards.push(RunReport::from_json(&out).unwrap());
        site.write(&format!("{index}.json"), &out);
    }
    assert!(shards.iter().any(|shard| shard.scenarios[0].sometimes[0].held_in == 0), "some shard saw nothing: {seen} of 12");
    let files = "1.json 2.json 3.json 4.json 5.json 6.json --format json";
    let (merged_code, merged, _) = site.run(&format!("merge {files}"));
    let mut merged = RunReport::from_json(&merged).unwrap();
    merged.scenarios[0].wall = whole.scenarios[0].wall;
    assert_eq!((merged_code, &merged), (code, &whole));
    // A single client never conflicts: now the whole is vacuous, and only the whole.
    for index in [1, 2] {
        let (code, out, _) = site.run(&format!("{line} --set workload.clients=1 --shard {index}/2"));
        assert_eq!(code, 0);
        site.write(&format!("{index}.json"), &out);
    }
    assert_eq!(site.run("merge 1.json 2.json").0, 4);
    assert_eq!(site.run(&format!("{line} --set workload.clients=1")).0, 4);
}

#[test]
fn what_the_budget_does_not_allow_is_named() {
    let site = Site::new("budget");
    let (code, out, _) = site.run("gate --times 100000 --budget 8s");
    assert_eq!(code, 0, "what ran held, and what had to be found was: {out}");
    assert!(out.contains("left out  smoke: ") && out.contains(" of 600,000 seeds of 1 case did not run: calm"), "{out}");
    assert!(out.contains("1 held in fewer seeds"), "{out}");
    let report = site.gate("--budget 1us");
    assert_eq!((report.exit_code, report.seeds()), (6, 0), "a gate that had no time for anything proves nothing");
    let missing = |part| if part == Part::MutationScore { Verdict::LeftOut } else { Verdict::Incomplete };
    assert!(verdicts(&report).iter().all(|&(part, _, verdict)| verdict == missing(part)), "{:?}", verdicts(&report));
    let (_, out, _) = site.run("gate --times 1 --budget 1us --summary gate.md");
    assert!(out.contains("not judged  smoke: 1 of 1 case could not be judged"), "{out}");
    assert!(!out.lines().any(|line| line.starts_with("ok")), "what ran nothing is not ok: {out}");
    let page = site.read("gate.md");
    assert!(page.contains("8 of 9 cases could not be judged; 0 seeds in ") && page.contains("- **negative**: "), "{page}");
}

#[test]
fn the_budget_is_used_up_and_a_slow_machine_gets_no_other_verdict_than_incomplete() {
    let site = Site::new("speed");
    for (jobs, budget) in [(1, "1ms"), (1, "300ms"), (1, "1s"), (2, "4s")] {
        let (_, out, err) = site.run(&format!("gate --times 100000 --budget {budget} --jobs {jobs} --format json"));
        let report = GateReport::from_json(&out).unwrap_or_else(|error| panic!("{error}\n{out}{err}"));
        let covered = report.cases.iter().filter(|case| !case.part.is_sample()).all(|case| {
            let verdict = report.verdict(case);
            verdict == Verdict::Found || case.result.seeds >= case.required
        });
        let told = verdicts(&report);
        assert_eq!(report.failures().count(), 0, "{budget}: {told:?}");
        assert!(if report.exit_code == 0 { covered } else { report.exit_code == 6 }, "{budget}: {} {told:?}", report.exit_code);
        assert!(report.wall.as_f64() > 0.9 * report.budget.as_f64(), "{} of {}", report.wall, report.budget);
    }
}

#[test]
fn kept_plans_are_judged_by_their_claims_and_their_digests() {
    let site = Site::new("kept");
    let (code, ..) = site.run("run scenarios/negative --seed 0 --out plans");
    assert_eq!(code, 0);
    let failing = site.read("plans/decides-once-0.toml");
    let mended = failing.replace("deviations = [\"counter-decides-once\"]", "deviations = []");
    site.write("ci/regressions/mended.toml", &mended);
    site.write("ci/digests/same.toml", &failing);
    site.write("ci/digests/elsewhere.toml", &failing.replacen("build = \"", "build = \"other-", 1));
    let report = site.gate("");
    assert_eq!(
        verdicts(&report)[..3],
        [(Part::Regressions, "mended", Verdict::Held), (Part::Digests, "elsewhere", Verdict::Open), (Part::Digests, "same", Verdict::Held)]
    );
    assert_eq!(report.exit_code, 0, "the digest of the edited plan does not count, only its claims do");
    assert!(report.left_out_lines()[0].starts_with("digests elsewhere: recorded by build other-"));

    site.write("ci/regressions/mended.toml", &failing);
    let (code, out, _) = site.run("gate --times 1");
    assert_eq!(code, 1);
    assert!(out.contains("replay  ipam-sim replay ci/regressions/mended.toml --trace"), "{out}");

    let digest = failing.split("\ndigest = \"").nth(1).unwrap().split('"').next().unwrap();
    site.write("ci/digests/same.toml", &failing.replacen(digest, &digest.chars().rev().collect::<String>(), 1));
    let (code, out, _) = site.run("gate --times 1");
    assert_eq!(code, 5, "nondeterminism comes before a violation: {out}");
    assert!(out.contains("replay  ipam-sim replay ci/digests/same.toml --trace"), "{out}");

    site.write("ci/regressions/mended.toml", "seed = \"none\"\n");
    let (code, out, err) = site.run("gate");
    assert_eq!((code, out.as_str()), (2, ""), "bad input is said before anything runs");
    assert!(err.contains("mended.toml"), "{err}");
}

#[test]
fn a_gate_without_scenarios_is_bad_input() {
    let site = Site::new("empty");
    let (code, out, err) = site.run("gate --scenarios nowhere");
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("there is no scenario in nowhere/smoke"), "{err}");
    std::fs::remove_dir_all(site.0.path("scenarios/chaos")).unwrap();
    let report = site.gate("");
    assert_eq!(report.exit_code, 0);
    assert!(report.remarks.contains(&format!("there is no scenario in {}", Path::new("scenarios/chaos").display())));
}
