//! Inputs that are almost valid: whatever the user writes, the program gives a readable answer in time, and does not crash.
//!
//! Each target takes valid inputs of one kind from the repository, changes them a little, and runs the program on them in this process. It
//! fails on a panic, on a run that does not end, on a raw control character in the output, and on a refusal without a message.
//!
//! ```text
//! cargo test -p ipam-sim --test fuzz                                      # a quarter of a minute: what `cargo test` runs
//! FUZZ_INPUTS=1600 cargo test -p ipam-sim --test fuzz                     # a minute: what `.ci/run` does
//! FUZZ_INPUTS=12000 cargo test --release -p ipam-sim --test fuzz          # so many inputs in all, evenly over the targets
//! FUZZ_SEED=7 FUZZ_INPUTS=12000 cargo test --release -p ipam-sim --test fuzz   # others
//! ```
//! The same seed gives the same inputs. A failing input is shrunk, printed, and kept in a file that the message names.

#[path = "../support/install.rs"]
mod install;

mod mutation;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use ipam_sim::cli::{Console, Simulator, dispatch};
use mutation::{Language, Mutation};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use sim_harness::engine::STACK_BYTES;
use sim_harness::scenario::Scenario;

/// The number of fuzz targets.
const TARGETS: u32 = 20;
/// The number of inputs per target, unless `FUZZ_INPUTS` is set.
const INPUTS: u32 = 24;
/// The time limit of one input: much longer than any input takes.
const PATIENCE: Duration = Duration::from_secs(180);
/// The maximum number of events in a run: the program itself ends and reports an endless loop.
const EVENTS: &str = "max_events=20000";

/// Inputs of one kind and the command lines that use them; `@` stands for the file.
struct Target {
    name: &'static str,
    /// The name of the file.
    file: &'static str,
    language: Language,
    /// The valid inputs that are changed, each as the bytes of a file.
    seeds: Vec<Vec<u8>>,
    /// The command lines; each input is used with one of them.
    lines: &'static [&'static str],
    /// The exit codes that are allowed.
    codes: &'static [u8],
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn scratch() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The files below a folder of the repository whose names have this ending.
fn files(folder: &str, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for entry in entries {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.to_string_lossy().ends_with(end) {
                found.push(entry);
            }
        }
    }
    found
}

fn texts(folder: &str, end: &str) -> Vec<Vec<u8>> {
    let texts: Vec<Vec<u8>> = files(folder, end).into_iter().map(|file| fs::read(file).unwrap()).collect();
    assert!(!texts.is_empty(), "there is something to change in {folder}");
    texts
}

/// The exit code and the output of the program, or an error if it did not end.
fn ipam_sim(line: Vec<String>) -> Result<(u8, String, String), String> {
    let (sender, receiver) = mpsc::channel();
    let run = move || {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = dispatch(line.into_iter().map(OsString::from), &Simulator, &mut Console::plain(&mut out, &mut err));
        let _ = sender.send((code, out, err));
    };
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).unwrap();
    match receiver.recv_timeout(PATIENCE) {
        Ok((code, out, err)) => {
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|error| format!("what is printed is no text: {error}"));
            Ok((code, text(out)?, text(err)?))
        }
        Err(mpsc::RecvTimeoutError::Timeout) => Err(format!("no end within {PATIENCE:?}")),
        Err(mpsc::RecvTimeoutError::Disconnected) => Err("a panic that nobody catches".to_owned()),
    }
}

/// Judges an answer. `annotated`: whether commands to a runner were requested.
fn judge(target: &Target, annotated: bool, answer: Result<(u8, String, String), String>) -> Result<u8, String> {
    let (code, out, err) = answer?;
    let is_raw = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
    let wrong = if err.contains("panicked") || out.contains("panicked at") {
        "a panic"
    } else if out.contains(is_raw) || err.contains(is_raw) {
        "a raw control character"
    } else if !annotated && out.lines().chain(err.lines()).any(|line| line.starts_with("::error")) {
        "a command to a runner"
    } else if !target.codes.contains(&code) {
        "an exit code that cannot be"
    } else if code == 2 && err.trim().is_empty() && out.trim().is_empty() {
        "a refusal without a word"
    } else {
        return Ok(code);
    };
    Err(format!("{wrong}, exit code {code}\n--- standard output\n{out:?}\n--- standard error\n{err:?}"))
}

/// Runs a target, and fails with the smallest input that shows the error.
fn fuzz(target: &Target) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u32>().expect("a number"));
    let cases = number("FUZZ_INPUTS").map_or(INPUTS, |all| all.div_ceil(TARGETS));
    let mut seed = [0; 32];
    seed[..4].copy_from_slice(&number("FUZZ_SEED").unwrap_or(0).to_le_bytes());
    seed[4..].iter_mut().zip(target.name.bytes()).for_each(|(byte, letter)| *byte = letter);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    let folder = scratch().join(target.name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let (file, failed) = (folder.join(target.file), folder.join(format!("failed-{}", target.file)));
    // Mostly a single one: of two errors only the first is reported.
    let mutations = prop_oneof![
        3 => proptest::collection::vec(Mutation::any(), 1..=1),
        1 => proptest::collection::vec(Mutation::any(), 2..5),
    ];
    let ended: RefCell<BTreeMap<u8, u32>> = RefCell::default();
    let outcome = runner.run(&(any::<Index>(), any::<Index>(), mutations), |(input, line, mutations)| {
        let input = input.get(&target.seeds).clone();
        let input = mutations.iter().fold(input, |input, mutation| mutation.apply(input, target.language));
        // Written before the program runs, so that the input remains after an abort.
        fs::write(&file, &input).unwrap();
        let words = line.get(target.lines).split(' ');
        let value = || String::from_utf8_lossy(&input).replace('\0', "");
        let words = words.map(|word| {
            let word = word.replace('@', &file.display().to_string()).replace("SCENARIOS", &root().join("scenarios").display().to_string());
            word.replace("CONFORMANCE", &root().join("ci/conformance").display().to_string())
        });
        let words =
            words.map(|word| if word == "VALUE" { value() } else { word.replace("OUT", &folder.join("out").display().to_string()) });
        let line: Vec<String> = std::iter::once("ipam-sim".to_owned()).chain(words).collect();
        match judge(target, line.iter().any(|word| word == "--github"), ipam_sim(line.clone())) {
            Ok(code) => {
                *ended.borrow_mut().entry(code).or_default() += 1;
                Ok(())
            }
            Err(wrong) => {
                // The smallest input is the last one that fails.
                fs::write(&failed, &input).unwrap();
                Err(TestCaseError::fail(format!("{}\n{wrong}", line.join(" "))))
            }
        }
    });
    println!("{}: {cases} inputs, by exit code {:?}", target.name, ended.into_inner());
    if let Err(TestError::Fail(why, _) | TestError::Abort(why)) = outcome {
        let input = fs::read(&failed).unwrap_or_default();
        panic!("{why}\n--- the input, kept in {}\n{:?}", failed.display(), String::from_utf8_lossy(&input));
    }
}

/// The exit codes of a run; 5 and 70 are bugs.
const RUN: &[u8] = &[0, 1, 2, 3, 4];
/// The exit codes of a question.
const ASK: &[u8] = &[0, 2];

#[test]
fn scenarios_that_are_checked() {
    let seeds = texts("scenarios", ".toml");
    let lines = &["check @", "check @ --format json", "list scenarios @"];
    fuzz(&Target { name: "scenario-check", file: "s.toml", language: Language::Toml, seeds, lines, codes: ASK });
}

#[test]
fn scenarios_that_are_run() {
    let seeds = texts("scenarios/smoke", ".toml");
    let lines = &[
        "run @ --seeds 1 --jobs 1 --no-plans --set max_events=20000",
        "run @ --seeds 2 --jobs 1 --no-plans --format json --set max_events=20000",
    ];
    fuzz(&Target { name: "scenario-run", file: "s.toml", language: Language::Toml, seeds, lines, codes: RUN });
}

#[test]
fn plans() {
    let plan = |file: PathBuf| {
        let scenario = Scenario::read_each(&file).unwrap().remove(0);
        let mut plan = scenario.draw(1);
        plan.max_events = Some(20_000);
        plan.to_toml().into_bytes()
    };
    let seeds = files("scenarios/smoke", ".toml").into_iter().map(plan).collect();
    let lines = &["replay @", "replay @ --format json", "replay @ --trace", "check @"];
    // A changed digest is a wrong digest: 5.
    fuzz(&Target { name: "plan", file: "p.toml", language: Language::Toml, seeds, lines, codes: &[0, 1, 2, 3, 5] });
}

#[test]
fn values_of_the_command_line() {
    let values = [
        "cluster.api_servers=2",
        "workload.settings.SPIDERPOOL_GC_DEFAULT_INTERVAL_DURATION=\"0\"",
        "phases.safety=\"1s..2s\"",
        "workload.apps=3",
        "fault=[{kind=\"crash\",process=\"any\"}]",
        "check.always=[\"no-process-panics\"]",
        "workload={kind=\"counter\",clients=3}",
        "cluster.links.delay=\"1ms\"",
        "swarm={}",
        "name=\"x\"",
    ];
    let lines = &[
        "run SCENARIOS/smoke/reclaim-calm.toml --seeds 1 --jobs 1 --no-plans --set max_events=20000 --set VALUE",
        "run SCENARIOS/smoke/counter-faults.toml --seeds 1 --jobs 1 --no-plans --set max_events=20000 --set VALUE --format json",
    ];
    let seeds = values.map(|value| value.as_bytes().to_vec()).to_vec();
    fuzz(&Target { name: "set", file: "value", language: Language::Text, seeds, lines, codes: RUN });
}

#[test]
fn results_for_merge() {
    let result = |scenario: &str| {
        let file = root().join("scenarios").join(scenario).display().to_string();
        let words = ["ipam-sim", "run", &file, "--seeds", "2", "--jobs", "1", "--no-plans", "--format", "json", "--set", EVENTS];
        ipam_sim(words.map(str::to_owned).to_vec()).unwrap().1.into_bytes()
    };
    let seeds = ["smoke/counter-faults.toml", "negative/counter-blind-writer.toml", "smoke/reclaim-calm.toml"].map(result).to_vec();
    let lines = &["merge @", "merge @ --format json", "merge @ @", "merge @ --github --junit OUT.xml --summary OUT.md"];
    // A result may itself report a bug.
    fuzz(&Target { name: "merge", file: "r.json", language: Language::Json, seeds, lines, codes: &[0, 1, 2, 3, 4, 5, 70, 130] });
}

/// The cluster of the examples in one file.
fn cluster() -> Vec<u8> {
    texts("scenarios/manifests", ".yaml").into_iter().flat_map(|text| [b"---\n".to_vec(), text].concat()).collect()
}

fn manifests() -> Vec<Vec<u8>> {
    [texts("scenarios/manifests", ".yaml"), texts("scenarios/dumps", ".yaml"), vec![cluster()]].concat()
}

#[test]
fn manifests_that_are_explained() {
    let lines = &[
        "explain --manifests @ --pod shop/reasons",
        "explain --manifests @ --pod shop/reasons --format json --profile upstream",
        "explain --manifests @ --pod shop/web-0 --node n1",
    ];
    fuzz(&Target { name: "explain", file: "m.yaml", language: Language::Yaml, seeds: vec![cluster()], lines, codes: ASK });
}

#[test]
fn manifests_that_are_checked() {
    let lines = &["check @", "check @ --format json --profile upstream"];
    fuzz(&Target { name: "check", file: "m.yaml", language: Language::Yaml, seeds: manifests(), lines, codes: ASK });
}

#[test]
fn manifests_that_are_run() {
    let lines = &["run SCENARIOS/smoke/spiderpool-calm.toml --seeds 1 --jobs 1 --no-plans --set max_events=20000 --manifests @"];
    fuzz(&Target {
        name: "manifests-run",
        file: "m.yaml",
        language: Language::Yaml,
        seeds: [texts("scenarios/dumps", ".yaml"), vec![cluster()]].concat(),
        lines,
        codes: RUN,
    });
}

#[test]
fn dumps_that_are_asked_about_reclaim() {
    let lines = &[
        "explain --reclaim --now 2026-01-15T12:00:00Z --manifests @",
        "explain --reclaim --now 2026-01-15T12:00:00Z --format json --profile upstream --manifests @",
    ];
    let seeds = [texts("scenarios/dumps", ".yaml"), manifests()].concat();
    fuzz(&Target { name: "reclaim", file: "d.yaml", language: Language::Yaml, seeds, lines, codes: ASK });
}

/// The exit codes of a comparison of answers.
const COMPARED: &[u8] = &[0, 1, 2];

#[test]
fn recordings_that_are_compared() {
    // A few cases each: all together are a megabyte.
    let recorded = texts("ci/conformance", "recorded.jsonl").remove(0);
    let lines: Vec<&[u8]> = recorded.split_inclusive(|byte| *byte == b'\n').collect();
    let seeds = lines.chunks(12).map(<[&[u8]]>::concat).collect();
    let lines = &[
        "conformance --cases CONFORMANCE/cases --allow CONFORMANCE/allow.txt --recorded CONFORMANCE/recorded.jsonl --against @",
        "conformance --cases CONFORMANCE/cases --allow CONFORMANCE/allow.txt --recorded @ --against \
         CONFORMANCE/recorded.jsonl --format json",
    ];
    fuzz(&Target { name: "recording", file: "r.jsonl", language: Language::Json, seeds, lines, codes: COMPARED });
}

#[test]
fn known_differences() {
    let seeds =
        vec![b"# known\nK078-* 2:body.metadata.*   # not modelled\n\nlist-table *:*  # no tables\nK06[0-9]-* 1:[!s]*  # others\n".to_vec()];
    let lines = &["conformance --cases CONFORMANCE/cases --recorded CONFORMANCE/recorded.jsonl --against \
                   CONFORMANCE/recorded.jsonl --only ^K07 --allow @"];
    fuzz(&Target { name: "allowed", file: "a.txt", language: Language::Text, seeds, lines, codes: COMPARED });
}

#[test]
fn traces() {
    let lines =
        &["run SCENARIOS/capacity/spiderpool-trace.toml --seeds 1 --jobs 1 --no-plans --set max_events=20000 --set workload.trace=@"];
    fuzz(&Target { name: "trace", file: "t.csv", language: Language::Text, seeds: texts("scenarios/traces", ".csv"), lines, codes: RUN });
}

#[test]
fn cni_configurations() {
    let seeds = [texts("scenarios/manifests", ".conflist"), texts("scenarios/manifests", ".conf")].concat();
    let lines = &["explain --manifests SCENARIOS/manifests --pod shop/reasons --cni-config @"];
    fuzz(&Target { name: "cni", file: "c.conflist", language: Language::Json, seeds, lines, codes: ASK });
}

#[test]
fn settings_and_pod_files() {
    let lines = &["explain --manifests SCENARIOS/manifests --pod shop/reasons --settings @", "check SCENARIOS/manifests --settings @"];
    let seeds = texts("scenarios/settings", ".yaml");
    fuzz(&Target { name: "settings", file: "s.yaml", language: Language::Yaml, seeds, lines, codes: ASK });
    let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: new\n  namespace: shop\n  annotations:\n    \
               ipam.spidernet.io/ippool: '{\"ipv4\":[\"blue\"]}'\nspec:\n  nodeName: n1\n  containers:\n  - name: main\n";
    let lines = &["explain --manifests SCENARIOS/manifests --pod-file @", "explain --pod-file @ --node n1 --format json"];
    fuzz(&Target { name: "pod-file", file: "p.yaml", language: Language::Yaml, seeds: vec![pod.into()], lines, codes: ASK });
}

#[test]
fn tables_that_are_drawn_again() {
    let made = |verb: &str, table: &str| {
        let out = scratch().join("made").join(verb.replace(' ', "-"));
        let words = format!("ipam-sim report {verb} --out {} --force", out.display());
        ipam_sim(words.split(' ').map(str::to_owned).collect()).unwrap();
        fs::read(out.join(table)).unwrap()
    };
    let points = made("conflicts --vary instances=2..3 --seeds 4", "points.csv");
    let lines = &["report conflicts --from @ --out OUT --force", "report capacity --from @ --out OUT --force --objective exhausted<1%"];
    fuzz(&Target { name: "table", file: "points.csv", language: Language::Text, seeds: vec![points], lines, codes: ASK });
}

#[test]
fn reports_that_are_compared_with() {
    let made = |verb: &str| {
        let out = scratch().join("compared").join(verb.replace(' ', "-"));
        let words = format!("ipam-sim report {verb} --out {} --force", out.display());
        ipam_sim(words.split(' ').map(str::to_owned).collect()).unwrap();
        fs::read(out.join("report.json")).unwrap()
    };
    let conflicts = made("conflicts --vary instances=2..3 --seeds 4");
    let lines = &[
        "report conflicts --vary instances=2..3 --vary retry=patient --seeds 4 --jobs 1 --out OUT --force --against @",
        "report conflicts --vary instances=3..4 --seeds 4 --jobs 1 --out OUT --force --format json --against @",
    ];
    fuzz(&Target { name: "against", file: "r.json", language: Language::Json, seeds: vec![conflicts], lines, codes: ASK });
    let searched = made("capacity --vary instances=2..3 --seeds 4 --objective exhausted<1%");
    let lines = &["report capacity --vary instances=2..3 --seeds 4 --objective exhausted<1% --jobs 1 --out OUT --force --against @"];
    fuzz(&Target { name: "against-search", file: "r.json", language: Language::Json, seeds: vec![searched], lines, codes: ASK });
}

#[test]
fn audit_logs() {
    // A few events each: complete logs are long.
    let log = texts("scenarios/traces", ".jsonl").remove(0);
    let lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
    let seeds = lines.chunks(8).map(<[&[u8]]>::concat).collect();
    let lines = &["trace from-audit @", "trace from-audit @ @ --out OUT.csv", "report calibrate @ --out OUT --force"];
    fuzz(&Target { name: "audit", file: "a.jsonl", language: Language::Json, seeds, lines, codes: ASK });
}

#[test]
fn snapshots_of_pods() {
    let seeds = texts("scenarios/traces", ".yaml");
    let lines = &["trace from-pods @", "trace from-pods @ SCENARIOS/traces/pods.yaml"];
    fuzz(&Target { name: "snapshot", file: "p.yaml", language: Language::Yaml, seeds, lines, codes: ASK });
}
