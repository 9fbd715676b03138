//! The recipes of `ci/` as their systems run them, with a stub in place of the program: a verdict is a result of a shard, anything else fails it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Every exit code that the program has, and some that it has not; and whether it is a verdict.
const CODES: [(i32, bool); 13] = [
    (0, true),
    (1, true),
    (2, false),
    (3, true),
    (4, true),
    (5, true),
    (6, true),
    (7, false),
    (70, false),
    (101, false),
    (127, false),
    (130, false),
    (143, false),
];

/// The stub: keeps its arguments, prints a result unless it was called wrongly, and exits with what the file `code` says.
const STUB: &str = "#!/bin/sh\ncode=$(cat \"$STUB/code\")\necho \"$*\" > \"$STUB/arguments\"\n\
                    if [ \"$code\" -ne 2 ]; then echo '{\"stub\":true}'; fi\nexit \"$code\"\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn recipe(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A checkout with the wrapper and the stub, and nothing else.
struct Checkout(TempDir);

impl Checkout {
    fn new() -> Self {
        let checkout = Self(TempDir::new().unwrap());
        checkout.executable("ci/shard.sh", &recipe("ci/shard.sh"));
        checkout.executable("target/release/ipam-sim", STUB);
        checkout
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn executable(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.path(name)).ok()
    }

    /// `bash` in the checkout, with the stub exiting with `code`.
    fn bash(&self, code: i32) -> Command {
        std::fs::write(self.path("code"), code.to_string()).unwrap();
        let mut command = Command::new("bash");
        command.current_dir(self.0.path()).env("STUB", self.0.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Runs a script as CI systems do, and gives its exit code.
    fn script(&self, code: i32, environment: &[(&str, &str)], script: &str) -> i32 {
        let mut command = self.bash(code);
        command.envs(environment.iter().copied()).args(["-euc", script]);
        command.status().unwrap().code().unwrap()
    }
}

#[test]
fn a_verdict_is_a_result_and_everything_else_fails() {
    for (code, verdict) in CODES {
        let checkout = Checkout::new();
        let status =
            checkout.bash(code).args(["ci/shard.sh", "results/1.json", "target/release/ipam-sim", "gate", "--shard", "1/4"]).status();
        assert_eq!(status.unwrap().code(), Some(if verdict { 0 } else { code }), "{code}");
        assert_eq!(checkout.read("arguments").as_deref(), Some("gate --shard 1/4\n"));
        // Also what ended badly may say how far it came; wrong usage has nothing to say.
        assert_eq!(checkout.read("results/1.json").is_some(), code != 2, "{code}");
        assert_eq!(checkout.read("results/1.json.part"), None);
    }
}

#[test]
fn what_an_earlier_run_left_is_no_result_and_neither_is_a_verdict_without_one() {
    let checkout = Checkout::new();
    checkout.executable("results/1.json", "{}");
    checkout.executable("target/release/ipam-sim", "#!/bin/sh\nexit 1\n");
    let status = checkout.bash(1).args(["ci/shard.sh", "results/1.json", "target/release/ipam-sim"]).status();
    assert_eq!((status.unwrap().code(), checkout.read("results/1.json")), (Some(70), None));
    let status = checkout.bash(0).args(["ci/shard.sh", "results/1.json", "no-such-program"]).status();
    assert_eq!((status.unwrap().code(), checkout.read("results/1.json")), (Some(127), None));
    assert_eq!(checkout.bash(0).args(["ci/shard.sh", "results/1.json"]).status().unwrap().code(), Some(2));
}

#[test]
fn a_signal_reaches_the_program_and_its_result_is_kept() {
    let checkout = Checkout::new();
    let slow = "#!/bin/bash\ntrap 'sleep 0.3; echo \"{\\\"interrupted\\\":true}\"; exit 143' TERM\ntouch \"$STUB/began\"\n\
                for i in $(seq 200); do sleep 0.1; done\nexit 0\n";
    checkout.executable("target/release/ipam-sim", slow);
    let mut child = checkout.bash(0).args(["ci/shard.sh", "1.json", "target/release/ipam-sim"]).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    while !checkout.path("began").exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(checkout.read("1.json").as_deref(), Some("{\"interrupted\":true}\n"));
}

/// The lines of a YAML block scalar that begins after `marker`, without their indentation.
fn block<'a>(yaml: &'a str, marker: &str) -> String {
    let after = yaml.split_once(marker).unwrap_or_else(|| panic!("there is no {marker:?}")).1.split_once('\n').unwrap().1;
    let indent = |line: &'a str| line.len() - line.trim_start().len();
    let first = indent(after.lines().next().unwrap());
    let lines = after.lines().take_while(|line| line.trim().is_empty() || indent(line) >= first);
    lines.map(|line| line.get(first..).unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_nightly_workflow_lets_verdicts_pass_and_fails_by_anything_else() {
    let workflow = recipe(".github/workflows/nightly.yml");
    let script = block(&workflow, "- name: sweep\n").split_once("run: |\n").map(|(_, script)| script.to_owned()).unwrap();
    let script = script.replace("${{ matrix.shard }}", "2").replace("${{ strategy.job-total }}", "4");
    assert!(!script.contains("${{"), "{script}");
    for (code, verdict) in CODES {
        let checkout = Checkout::new();
        assert_eq!(checkout.script(code, &[], &script), if verdict { 0 } else { code });
        assert!(checkout.read("arguments").unwrap().contains("--shard 2/4 "));
        assert_eq!(checkout.read("results/2.json").is_some(), code != 2);
    }
}

#[test]
fn the_indexed_job_lets_verdicts_pass_and_fails_by_anything_else() {
    let job = recipe("ci/kubernetes/indexed-job.yaml");
    assert!(job.contains("command: [bash, -euc]\n"));
    for (code, verdict) in CODES {
        let checkout = Checkout::new();
        // The checkout is what is cloned; the build has been done.
        checkout.executable("bin/git", "#!/bin/sh\nif [ \"$1\" = clone ]; then ln -s \"$STUB\" source; fi\n");
        checkout.executable("bin/cargo", "#!/bin/sh\n");
        std::fs::create_dir(checkout.path("work")).unwrap();
        let path = format!("{}:{}", checkout.path("bin").display(), std::env::var("PATH").unwrap());
        let environment = [("PATH", &*path), ("JOB_COMPLETION_INDEX", "7"), ("REPOSITORY", "https://example.org/x"), ("REVISION", "main")];
        let results = checkout.path("results").display().to_string();
        let script = format!("cd work\n{}", block(&job, "- |").replace("/results", &results));
        assert_eq!(checkout.script(code, &environment, &script), if verdict { 0 } else { code });
        assert!(checkout.read("arguments").unwrap().contains("--shard /8 "));
        assert_eq!(checkout.read("results/8.json").is_some(), code != 2);
    }
}

#[test]
fn the_batch_script_lets_verdicts_pass_and_fails_by_anything_else() {
    for (code, verdict) in CODES {
        let checkout = Checkout::new();
        let environment =
            [("SLURM_ARRAY_TASK_ID", "12"), ("SLURM_ARRAY_TASK_MIN", "10"), ("SLURM_ARRAY_TASK_COUNT", "3"), ("SLURM_CPUS_PER_TASK", "4")];
        assert_eq!(checkout.script(code, &environment, &recipe("ci/slurm/sweep.sbatch")), if verdict { 0 } else { code });
        assert!(checkout.read("arguments").unwrap().contains("--shard /3 "));
        assert_eq!(checkout.read("results/3.json").is_some(), code != 2);
    }
}

#[test]
fn no_recipe_judges_exit_codes_by_itself() {
    for path in [".github/workflows/nightly.yml", "ci/kubernetes/indexed-job.yaml", "ci/slurm/sweep.sbatch"] {
        let text = recipe(path);
        assert!(text.contains("ci/shard.sh ") && !text.contains("$?") && !text.contains("|| "), "{path}");
    }
}
