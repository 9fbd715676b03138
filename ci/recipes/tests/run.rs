//! The recipes of `ci/` run like in their systems, with a stub in place of the program: a verdict is a shard's result, every other exit
//! code fails it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Every exit code of the program and some others, and whether it is a verdict.
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

/// The stub: keeps its arguments, prints a result unless it was called wrongly, and exits with the code in the file `code`.
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
        for script in ["ci/shard.sh", "ci/collect.sh"] {
            checkout.executable(script, &recipe(script));
        }
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

    /// Runs a script like CI systems, and returns its exit code.
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
        // Even a failed run may report its progress; wrong usage reports nothing.
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
        assert_eq!(checkout.script(code, &[("GITHUB_SHA", "0000ff00aa")], &script), if verdict { 0 } else { code });
        let arguments = checkout.read("arguments").unwrap();
        assert!(arguments.contains("--shard 2/4 ") && arguments.contains("--from 65280 "), "{arguments}");
        assert_eq!(checkout.read("results/2.json").is_some(), code != 2);
    }
}

#[test]
fn the_nightly_workflow_allows_a_real_server_no_difference() {
    let workflow = recipe(".github/workflows/nightly.yml");
    let compared: Vec<&str> = workflow.lines().filter(|line| line.contains("conformance --against ")).collect();
    assert_eq!(compared.len(), 2);
    assert!(compared.iter().all(|line| line.ends_with(" --allow /dev/null")), "{compared:?}");
}

#[test]
fn the_indexed_job_lets_verdicts_pass_and_fails_by_anything_else() {
    let job = recipe("ci/kubernetes/indexed-job.yaml");
    assert!(job.contains("command: [bash, -euc]\n"));
    // Without `exec` the shell gets the signal that ends a pod, and the verdict so far is lost.
    assert!(job.contains("  exec ci/shard.sh ") && job.contains("  exec ci/collect.sh "));
    for (code, verdict) in CODES {
        let checkout = Checkout::new();
        let (script, path) = job_script(&checkout, &job);
        let environment = [("PATH", &*path), ("JOB_COMPLETION_INDEX", "7"), ("SHARDS", "8"), ("SWEEP", "uid")];
        assert_eq!(checkout.script(code, &environment, &script), if verdict { 0 } else { code });
        assert!(checkout.read("arguments").unwrap().contains("--shard /8 "));
        assert_eq!(checkout.read("results/uid/8.json").is_some(), code != 2);
    }
}

/// The script of the Job for a checkout, and the path on which it finds the stub.
fn job_script(checkout: &Checkout, job: &str) -> (String, String) {
    checkout.executable("bin/ipam-sim", STUB);
    let script = block(job, "- |").replace("/results", &checkout.path("results").display().to_string());
    (script, format!("{}:{}", checkout.path("bin").display(), std::env::var("PATH").unwrap()))
}

#[test]
fn the_last_pod_of_the_job_merges_whatever_became_of_the_others() {
    let job = recipe("ci/kubernetes/indexed-job.yaml");
    // The exit code of the merge; the failed shards and their exit codes; and the exit code of the pod.
    for (merge, failed, said) in [(0, None, 0), (1, None, 1), (0, Some(2), 4), (3, Some(70), 3)] {
        let checkout = Checkout::new();
        let (script, path) = job_script(&checkout, &job);
        for shard in 1..=3 {
            checkout.executable(&format!("results/uid/{shard}.json"), "{}");
        }
        if let Some(code) = failed {
            std::fs::remove_file(checkout.path("results/uid/2.json")).unwrap();
            checkout.executable("results/uid/2.json.failed", &code.to_string());
        }
        let environment = [("PATH", &*path), ("JOB_COMPLETION_INDEX", "3"), ("SHARDS", "3"), ("SWEEP", "uid")];
        assert_eq!(checkout.script(merge, &environment, &script), said);
        let arguments = checkout.read("arguments").unwrap();
        assert!(
            arguments.starts_with("merge --junit ") && arguments.contains("/uid/1.json ") && arguments.trim_end().ends_with("/uid/3.json")
        );
        assert_eq!(arguments.contains("/uid/2.json"), failed.is_none(), "{arguments}");
    }
}

/// The exit code of `ci/collect.sh` for three shards within two seconds, and its duration, with a stub that exits with `code`.
fn collected(checkout: &Checkout, code: i32) -> (i32, Duration) {
    let began = Instant::now();
    let status = checkout.bash(code).args(["ci/collect.sh", "results", "3", "2", "target/release/ipam-sim", "merge"]).status();
    (status.unwrap().code().unwrap(), began.elapsed())
}

#[test]
fn collecting_ends_in_time_and_a_shard_without_a_result_is_no_success() {
    let checkout = Checkout::new();
    checkout.executable("results/1.json", "{}");
    let (code, time) = collected(&checkout, 0);
    assert!(code == 4 && time >= Duration::from_secs(1), "two shards are missing: {code}, {time:?}");
    assert_eq!(checkout.read("arguments").as_deref(), Some("merge results/1.json\n"));
    // An evicted shard may be restarted; one that failed permanently is over.
    checkout.executable("results/2.json", "{}");
    checkout.executable("results/3.json.failed", "143\n");
    let (code, time) = collected(&checkout, 1);
    assert!(code == 1 && time >= Duration::from_secs(1), "{code}, {time:?}");
    checkout.executable("results/3.json.failed", "2\n");
    let (code, time) = collected(&checkout, 0);
    assert!(code == 4 && time < Duration::from_secs(1), "{code}, {time:?}");
    // All results are there: the exit code is that of the merge.
    std::fs::remove_file(checkout.path("results/3.json.failed")).unwrap();
    checkout.executable("results/3.json", "{}");
    assert_eq!(collected(&checkout, 0).0, 0);
    assert_eq!(collected(&checkout, 5).0, 5);
    assert_eq!(checkout.read("arguments").as_deref(), Some("merge results/1.json results/2.json results/3.json\n"));
    // Without any result there is no verdict of the merge, which needs a file.
    assert_eq!(collected(&Checkout::new(), 0).0, 4);
    assert_eq!(checkout.bash(0).args(["ci/collect.sh", "results", "0", "2", "true"]).status().unwrap().code(), Some(2));
    // If nothing can be written, no shard leaves a result, so there is nothing to wait for.
    checkout.executable("taken", "");
    let began = Instant::now();
    assert_eq!(checkout.bash(0).args(["ci/collect.sh", "taken", "3", "60", "true"]).status().unwrap().code(), Some(1));
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_shard_says_how_it_failed_and_forgets_it_when_it_runs_again() {
    let checkout = Checkout::new();
    for (code, failed) in [(70, Some("70\n")), (0, None), (2, Some("2\n")), (6, None)] {
        checkout.bash(code).args(["ci/shard.sh", "results/1.json", "target/release/ipam-sim"]).status().unwrap();
        assert_eq!(checkout.read("results/1.json.failed").as_deref(), failed, "{code}");
    }
    let sleeper = "#!/bin/sh\nkill -TERM $$\n";
    checkout.executable("target/release/ipam-sim", sleeper);
    checkout.bash(0).args(["ci/shard.sh", "results/1.json", "target/release/ipam-sim"]).status().unwrap();
    assert_eq!(checkout.read("results/1.json.failed").as_deref(), Some("143\n"));
}

/// Runs a script of an action with the files that GitHub's runner provides and the stub in place of the program; returns its exit code.
fn action(checkout: &Checkout, code: i32, script: &str, environment: &[(&str, &str)]) -> i32 {
    let path = format!(".github/actions/ipam-sim/{script}");
    checkout.executable(&path, &recipe(&path));
    std::fs::create_dir_all(checkout.path("tmp")).unwrap();
    let mut command = checkout.bash(code);
    for (name, file) in [("GITHUB_OUTPUT", "output"), ("GITHUB_PATH", "path"), ("RUNNER_TEMP", "tmp")] {
        command.env(name, checkout.path(file));
    }
    let _ = std::fs::remove_file(checkout.path("output"));
    command.arg(path).envs(environment.iter().copied()).status().unwrap().code().unwrap()
}

#[test]
fn the_action_gives_verdicts_as_outputs_and_fails_by_anything_else() {
    let environment = [
        ("PROGRAM", "target/release/ipam-sim"),
        ("COMMAND", "run"),
        ("SCENARIOS", "a.toml b"),
        ("ARGS", "--seeds 5\n--times *"),
        ("OUT", "report"),
        ("STORIES", "2"),
    ];
    // Keeps the arguments of every call, and leaves plans of failing seeds, some of them shrunk.
    let stub = STUB.replace("> \"$STUB/arguments\"", ">> \"$STUB/arguments\"").replace(
        "exit \"$code\"",
        "for plan in a-0 a-0-min a-1 b-0-min c-0-min; do [ \"$1\" = run ] && touch report/plans/$plan.toml; done\n\
         # `gate` has a folder for each part.\n\
         if [ \"$1\" = gate ]; then mkdir -p report/plans/chaos && \
         touch report/plans/chaos/g-0.toml report/plans/chaos/g-0-min.toml; fi\nexit \"$code\"",
    );
    for (code, verdict) in CODES {
        let checkout = Checkout::new();
        checkout.executable("target/release/ipam-sim", &stub);
        checkout.executable("report/plans/made.json", "{}");
        let ended = action(&checkout, code, "run.sh", &environment);
        assert_eq!(ended, if verdict { 0 } else { code });
        let output = checkout.read("output").unwrap();
        assert!(output.contains(&format!("exit-code={code}\n")), "{output}");
        assert_eq!(output.contains("verdict="), verdict, "{output}");
        let arguments = checkout.read("arguments").unwrap();
        let lines: Vec<_> = arguments.lines().collect();
        assert_eq!(lines[0], "run a.toml b --seeds 5 --times * --out report/plans --force --format json");
        if !verdict {
            assert_eq!(lines.len(), 1, "{arguments}");
            continue;
        }
        assert_eq!(lines[1], "merge report/result.json --junit report/junit.xml --summary report/summary.md --github");
        assert_eq!(lines[2], "replay report/plans/a-0-min.toml --html report/stories/a-0-min.html");
        // Plans that cannot be replayed are skipped; the others are replayed up to the requested number.
        assert_eq!(lines.len(), if [0, 1, 3].contains(&code) { 4 } else { 5 }, "{arguments}");
    }
    let checkout = Checkout::new();
    checkout.executable("target/release/ipam-sim", &stub);
    for (input, value) in [("COMMAND", "rum"), ("STORIES", "many"), ("STORIES", "-1"), ("STORIES", "")] {
        let wrong = environment.map(|(name, given)| if name == input { (name, value) } else { (name, given) });
        assert_eq!((action(&checkout, 0, "run.sh", &wrong), checkout.read("arguments")), (2, None), "{input}={value}");
    }
    let gate = environment.map(|(name, value)| if name == "COMMAND" { (name, "gate") } else { (name, value) });
    action(&checkout, 0, "run.sh", &gate);
    // The scenarios of `gate` are in one folder.
    let checkout = Checkout::new();
    checkout.executable("target/release/ipam-sim", &stub);
    action(&checkout, 0, "run.sh", &gate);
    let arguments = checkout.read("arguments").unwrap();
    assert!(arguments.starts_with("gate --scenarios a.toml b --seeds 5"), "{arguments}");
    let replays: Vec<_> = arguments.lines().filter(|line| line.starts_with("replay")).collect();
    assert_eq!(replays, ["replay report/plans/chaos/g-0-min.toml --html report/stories/chaos-g-0-min.html"]);
    // Plans left by an earlier run are not replayed.
    checkout.executable("report/plans/chaos/old-min.toml", "");
    action(&checkout, 0, "run.sh", &gate);
    assert!(!checkout.read("arguments").unwrap().contains("old"));
}

/// A checkout from which an archive can be made.
fn releasing() -> Checkout {
    let checkout = Checkout::new();
    for (path, text) in [
        ("ci/release/archive.sh", &*recipe("ci/release/archive.sh")),
        ("ci/release/notes.sh", &recipe("ci/release/notes.sh")),
        ("LICENSE", "L"),
        ("README.md", "R"),
        ("CHANGELOG.md", "# C\n\n## [Unreleased]\n\n* Later.\n\n## [1.2.3] - 2026-11-23\n\n* First.\n\n## [1.2.2]\n\n* Older.\n"),
        ("Cargo.toml", "[package]\nversion = \"9.9.9\"\n[workspace.package]\nversion = \"1.2.3\"\n"),
        ("scenarios/a.toml", "A"),
        ("program", "#!/bin/sh\nif [ \"$1\" = --version ]; then echo ipam-sim 1.2.3; else echo \"$@\"; fi\n"),
    ] {
        checkout.executable(path, text);
    }
    checkout
}

#[test]
fn an_archive_holds_what_it_should_and_the_action_installs_it_if_it_is_whole() {
    let checkout = releasing();
    let target = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("macos", _) => "aarch64-apple-darwin".to_owned(),
        (_, arch) => format!("{arch}-unknown-linux-gnu"),
    };
    let archived = checkout.bash(0).args(["ci/release/archive.sh", "./program", &target, "v1.2.3"]).status().unwrap();
    assert!(archived.success());
    let name = format!("ipam-sim-1.2.3-{target}");
    let listed = Command::new("tar").args(["-tzf", &format!("v1.2.3/{name}.tar.gz")]).current_dir(checkout.path("")).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for file in
        ["ipam-sim", "LICENSE", "README.md", "CHANGELOG.md", "scenarios/a.toml", "completions/_ipam-sim", "completions/ipam-sim.bash"]
    {
        assert!(listed.lines().any(|line| line == format!("{name}/{file}")), "{file}: {listed}");
    }
    let releases = format!("file://{}", checkout.path("").display());
    let releases = releases.trim_end_matches('/');
    let environment =
        [("VERSION", ""), ("USED_AT", "v1.2.3"), ("RELEASES", releases), ("REPOSITORY", "x/y"), ("GITHUB_SERVER_URL", "file:///")];
    assert_eq!(action(&checkout, 0, "install.sh", &environment), 0);
    let program = checkout.path("tmp/ipam-sim/bin/ipam-sim");
    assert_eq!(checkout.read("output"), Some(format!("program={}\n", program.display())));
    assert!(program.exists());
    // A release that does not exist; then one that does not match its checksum.
    let other = environment.map(|(name, value)| if name == "VERSION" { (name, "v1.2.4") } else { (name, value) });
    assert_eq!(action(&checkout, 0, "install.sh", &other), 2);
    let archive = checkout.path(&format!("v1.2.3/{name}.tar.gz"));
    let mut bytes = std::fs::read(&archive).unwrap();
    bytes[20] ^= 1;
    std::fs::write(archive, bytes).unwrap();
    assert_eq!((action(&checkout, 0, "install.sh", &environment), checkout.read("output")), (1, None));
}

#[test]
fn the_action_builds_the_sources_that_it_is_part_of_where_their_settings_are() {
    for (version, used_at) in [("source", "v1.2.3"), ("", "main"), ("", "")] {
        let checkout = Checkout::new();
        let cargo = "#!/bin/sh\necho \"$PWD $* ${RUSTFLAGS-unset}\" > \"$STUB/cargo\"\n\
                     printf '#!/bin/sh\\n' > \"$STUB/tmp/ipam-sim/bin/ipam-sim\"\nchmod +x \"$STUB/tmp/ipam-sim/bin/ipam-sim\"\n";
        checkout.executable("bin/cargo", cargo);
        let path = format!("{}:{}", checkout.path("bin").display(), std::env::var("PATH").unwrap());
        let environment = [("VERSION", version), ("USED_AT", used_at), ("REPOSITORY", ""), ("PATH", &path), ("RUSTFLAGS", "-Dwarnings")];
        assert_eq!(action(&checkout, 0, "install.sh", &environment), 0);
        let called = checkout.read("cargo").unwrap();
        let root = checkout.path("").canonicalize().unwrap();
        assert!(called.starts_with(&format!("{} install --locked --path sim/cli --root ", root.display())), "{called}");
        assert!(called.ends_with("ipam-sim unset\n"), "{called}");
    }
}

#[test]
fn a_release_has_the_version_of_its_tag_and_something_to_say() {
    let checkout = releasing();
    let notes = |tag: &str| {
        let mut command = checkout.bash(0);
        let output = command.args(["ci/release/notes.sh", tag]).stdout(Stdio::piped()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap().trim().to_owned())
    };
    assert_eq!(notes("v1.2.3"), (0, "* First.".to_owned()));
    assert_eq!(notes("v1.2.4"), (1, String::new()));
    assert_eq!(notes("1.2.3").0, 1);
    checkout.executable("CHANGELOG.md", "## [Unreleased]\n\n* Later.\n\n## [1.2.3]\n\n## [1.2.2]\n\n* Older.\n");
    assert_eq!(notes("v1.2.3"), (1, String::new()));
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

/// A substitute for `run` on ranges of seeds: the range from 200000 is vacuous in one scenario, and the one from 300000 is violated in
/// another.
const RANGES: &str = r#"#!/bin/sh
while [ "$1" != --from ]; do shift; done
from=$2
echo "      scenario  seeds  simulated"
case $from in
200000) printf 'ok       calm    1,200  1 h\nVACUOUS  rare       50  1 h\n\nok       told again\nVacuous: 2 scenarios.\n'; exit 4 ;;
300000) printf 'FAIL  calm    1,200  1 h  3 violated\nok    rare       50  1 h\n\nViolated: 2 scenarios.\n'; exit 1 ;;
*) printf 'ok  calm    1,200  1 h\nok  rare       50  1 h\n\nAll held: 2 scenarios.\n' ;;
esac
"#;

#[test]
fn ranges_of_seeds_end_with_a_table_and_the_worst_exit_code() {
    let checkout = Checkout::new();
    checkout.executable("ci/ranges.sh", &recipe("ci/ranges.sh"));
    checkout.executable("target/release/ipam-sim", RANGES);
    let ran = |ranges: &str| {
        let output = checkout.bash(0).env("RANGES", ranges).arg("ci/ranges.sh").stdout(Stdio::piped()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let table = text.split_once("held in").map_or("", |(_, table)| table);
        let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>();
        (output.status.code().unwrap(), rows)
    };
    assert_eq!(ran("1 4"), (0, vec!["calm 2 of 2 2400".to_owned(), "rare 2 of 2 100".to_owned()]));
    let vacuous = vec!["calm 2 of 2 2400".to_owned(), "rare 1 of 2 100 VACUOUS from 200000".to_owned()];
    assert_eq!(ran("1 2"), (4, vacuous));
    let both = vec!["calm 2 of 3 3600 FAIL from 300000".to_owned(), "rare 2 of 3 150 VACUOUS from 200000".to_owned()];
    assert_eq!(ran("3 2 1"), (1, both), "a violation is worse, whichever comes last");
    assert_eq!(ran("1 x").0, 2);
    std::fs::remove_file(checkout.path("target/release/ipam-sim")).unwrap();
    assert_eq!(ran("1").0, 2, "nobody takes a program that is missing for one that found nothing");
}
