//! The output when the process is told to end, or the disk is full: the verdict so far, and complete files.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use ipam_reports::{GateReport, RunReport};
use tempfile::TempDir;

/// Clients that increment a counter until the sweep is stopped; the commands have a budget, so that a failing test leaves no process behind
/// for long.
const ENDLESS: &str = r#"
name = "endless"
why = "a test"
seeds = 100000000
[phases]
safety = "5s"
liveness = "20s"
[workload]
kind = "counter"
clients = 3
increments = 4
[check]
always = ["no-increment-is-lost"]
"#;

fn ipam_sim(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ipam-sim"));
    command.current_dir(folder).env("NO_COLOR", "1").env_remove("CI_NODE_INDEX").env_remove("CI_NODE_TOTAL").args(args);
    command
}

struct Site(TempDir);

impl Site {
    fn new() -> Self {
        let site = Self(TempDir::new().unwrap());
        site.write("scenarios/smoke/endless.toml", ENDLESS);
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::fs::write(self.path(name), text).unwrap();
    }

    fn start(&self, args: &[&str]) -> Child {
        ipam_sim(self.0.path(), args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn run(&self, args: &[&str]) -> (i32, String, String) {
        ended(ipam_sim(self.0.path(), args).output().unwrap())
    }

    /// The names in a folder, in order.
    fn names(&self, folder: &str) -> Vec<String> {
        let mut names: Vec<_> =
            std::fs::read_dir(self.path(folder)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Waits until a temporary file exists in a folder.
    fn wait_for_part(&self, folder: &str) {
        let until = Instant::now() + Duration::from_secs(60);
        let begun = |path: PathBuf| {
            std::fs::read_dir(path)
                .is_ok_and(|mut entries| entries.any(|entry| entry.unwrap().path().extension().is_some_and(|end| end == "part")))
        };
        while !begun(self.path(folder)) {
            assert!(Instant::now() < until, "nothing is written in {folder}");
            std::thread::sleep(Duration::from_millis(20));
        }
        // Long enough for some seeds.
        std::thread::sleep(Duration::from_millis(300));
    }
}

fn ended(output: Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn every_signal_that_ends_a_process_ends_a_sweep_with_its_verdict_and_whole_tables() {
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 143)] {
        let site = Site::new();
        let child = site.start(&["run", "scenarios/smoke", "--budget", "2m", "--out", "out", "--format", "json"]);
        site.wait_for_part("out");
        // Like `timeout`, which signals the process and then its group.
        signal(&child, name);
        signal(&child, name);
        let (exit, out, err) = ended(child.wait_with_output().unwrap());
        assert_eq!(exit, code, "{name}: {err}");
        let report = RunReport::from_shard(&out).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(report.interrupted && report.exit_code == code as u8 && report.scenarios[0].seeds > 0, "{name}");
        assert_eq!(site.names("out"), ["calls.csv", "made.json", "reclaims.csv", "runs.csv"], "{name}");
        let runs = std::fs::read_to_string(site.path("out/runs.csv")).unwrap();
        assert!(runs.ends_with('\n') && runs.lines().count() as u64 == 1 + report.scenarios[0].seeds, "{name}: a row for each seed");
    }
}

#[test]
fn a_hunt_that_is_told_to_end_leaves_a_whole_corpus_that_goes_on() {
    let site = Site::new();
    let args = ["hunt", "scenarios/smoke", "--corpus", "corpus", "--format", "json"];
    let child = site.start(&[&args[..], &["--budget", "2m"]].concat());
    let until = Instant::now() + Duration::from_secs(60);
    while !site.path("corpus").exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));
    signal(&child, "INT");
    let (exit, out, err) = ended(child.wait_with_output().unwrap());
    assert_eq!(exit, 130, "{err}");
    let report: RunReport = serde_json::from_str(&out).unwrap();
    let hunt = report.scenarios[0].hunt.as_ref().unwrap();
    assert!(report.interrupted && hunt.drawn > 0, "{hunt:?}");
    let names = site.names("corpus/endless");
    assert_eq!(names.len() as u64, 1 + hunt.corpus, "an index and each plan that is kept: {names:?}");
    let (exit, out, err) = site.run(&[&args[..], &["--runs", "32"]].concat());
    assert_eq!(exit, 0, "{err}");
    let report: RunReport = serde_json::from_str(&out).unwrap();
    assert!(report.scenarios[0].hunt.as_ref().unwrap().runs_before >= hunt.drawn + hunt.edited);
}

#[test]
fn a_gate_that_is_told_to_end_writes_its_files() {
    let site = Site::new();
    let args = [
        "gate",
        "--times",
        "1",
        "--budget",
        "2m",
        "--junit",
        "ci/gate.xml",
        "--summary",
        "ci/gate.md",
        "--out",
        "plans",
        "--format",
        "json",
    ];
    let child = site.start(&args);
    // The folder exists before the first seed runs.
    let until = Instant::now() + Duration::from_secs(60);
    while !site.path("plans").exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    signal(&child, "TERM");
    let (exit, out, err) = ended(child.wait_with_output().unwrap());
    assert_eq!(exit, 143, "{err}");
    let report = GateReport::from_shard(&out).unwrap();
    assert!(report.interrupted && report.exit_code == 143);
    assert_eq!(site.names("ci"), ["gate.md", "gate.xml"]);
    assert!(std::fs::read_to_string(site.path("ci/gate.md")).unwrap().starts_with("## ipam-sim gate: interrupted\n"));
}

#[test]
fn a_second_signal_ends_at_once_and_leaves_what_was_whole() {
    let site = Site::new();
    site.write("out/runs.csv", "former\n");
    // The plan takes minutes: the sweep cannot end between two signals.
    let long = ENDLESS.replace("increments = 4", "increments = 4000").replace("safety = \"5s\"", "safety = \"24h\"");
    site.write("scenarios/smoke/endless.toml", &long);
    let child = site.start(&["run", "scenarios/smoke", "--budget", "2m", "--out", "out", "--force", "--format", "json"]);
    site.wait_for_part("out");
    signal(&child, "TERM");
    std::thread::sleep(Duration::from_millis(400));
    signal(&child, "TERM");
    let began = Instant::now();
    let (exit, _, err) = ended(child.wait_with_output().unwrap());
    assert_eq!(exit, 143, "{err}");
    assert!(began.elapsed() < Duration::from_secs(5));
    // Either the sweep was faster than the second signal, or there is no incomplete file.
    let runs = std::fs::read_to_string(site.path("out/runs.csv")).unwrap();
    assert!(runs == "former\n" || runs.ends_with('\n') && runs.starts_with("schema,"), "{runs}");
    assert!(!site.names("out").iter().any(|name| name.ends_with(".part")), "{:?}", site.names("out"));
}

#[test]
fn who_ignores_the_end_of_a_terminal_is_not_stopped_by_it() {
    let site = Site::new();
    site.write("small.toml", &ENDLESS.replace("seeds = 100000000", "seeds = 400"));
    let program = env!("CARGO_BIN_EXE_ipam-sim");
    let line = format!("trap '' HUP; exec {program} run small.toml --out out");
    let child =
        Command::new("sh").current_dir(site.0.path()).args(["-c", &line]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    site.wait_for_part("out");
    signal(&child, "HUP");
    let (exit, out, err) = ended(child.wait_with_output().unwrap());
    assert_eq!(exit, 0, "{out}{err}");
}

#[test]
fn a_full_disk_never_hides_a_verdict() {
    let site = Site::new();
    site.write("small.toml", &ENDLESS.replace("seeds = 100000000", "seeds = 3"));
    let full = || Stdio::from(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let (deviates, small) = (["--mutation", "counter-decides-once"], ["run", "small.toml", "--no-shrink"]);
    for format in ["json", "text"] {
        for (more, verdict, code) in [(&[][..], "All held", 2), (&deviates, "Violated", 1)] {
            let args = [&small[..], &["--format", format], more].concat();
            let (exit, _, err) = ended(ipam_sim(site.0.path(), &args).stdout(full()).output().unwrap());
            assert_eq!(exit, code, "{format}: {err}");
            assert!(err.contains(&format!("{verdict}: 1 scenario")) && err.contains("error: cannot write the result: "), "{format}: {err}");
        }
    }
    let (exit, _, err) = ended(ipam_sim(site.0.path(), &["list"]).stdout(full()).output().unwrap());
    assert!(exit == 2 && err.contains("error: cannot write the result: "), "{exit}: {err}");
    // Each of several files is attempted.
    site.write("scenarios/smoke/endless.toml", &ENDLESS.replace("seeds = 100000000", "seeds = 3"));
    let args = ["gate", "--times", "1", "--junit", "/dev/full", "--summary", "gate.md"];
    let (exit, out, err) = site.run(&args);
    assert_eq!(exit, 2, "{err}");
    assert!(out.contains("Passed: ") && err.contains("cannot write /dev/full: ") && site.path("gate.md").exists(), "{out}{err}");
}

#[test]
fn a_folder_in_use_or_with_tables_of_another_sweep_is_refused() {
    let site = Site::new();
    site.write("small.toml", &ENDLESS.replace("seeds = 100000000", "seeds = 3"));
    let child = site.start(&["run", "scenarios/smoke", "--budget", "2m", "--out", "out"]);
    site.wait_for_part("out");
    let into: [&[&str]; 4] = [
        &["run", "small.toml", "--out", "out"],
        &["gate", "--times", "1", "--out", "out"],
        &["selftest", "scenarios", "--seeds", "1", "--ranges", "1", "--budget", "1s", "--out", "out"],
        &["report", "conflicts", "--vary", "instances=2", "--seeds", "8", "--out", "out"],
    ];
    for args in into {
        let (exit, out, err) = site.run(args);
        assert_eq!((exit, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains("error: out is in use by another process") && err.contains("--force"), "{args:?}: {err}");
    }
    signal(&child, "TERM");
    child.wait_with_output().unwrap();
    let former = std::fs::read_to_string(site.path("out/runs.csv")).unwrap();
    for args in into {
        let (exit, out, err) = site.run(args);
        assert_eq!((exit, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains("error: out holds ") && err.contains("--force"), "{args:?}: {err}");
    }
    assert_eq!(std::fs::read_to_string(site.path("out/runs.csv")).unwrap(), former);
    assert_eq!(site.run(&["run", "small.toml", "--out", "out", "--force"]).0, 0);
    assert_eq!(site.run(&["run", "small.toml", "--out", "out", "--jobs", "1"]).0, 0, "the same sweep again");
    assert_eq!(site.run(&["run", "small.toml", "--out", "out", "--seeds", "4"]).0, 2, "another one");
}
