//! The files that `replay` writes for other programs, read by code that knows only the format: the history in JSON, the trace, the
//! operations.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// For each system, a run with faults, lost answers and several clients; and a seed of each.
const RUNS: [(&str, &str); 3] = [("smoke/counter-faults.toml", "3"), ("smoke/byom-two.toml", "1"), ("smoke/spiderpool-calm.toml", "0")];

struct Exported {
    replay: Value,
    perfetto: Value,
    jepsen: Value,
    edn: String,
}

fn replayed(file: &str, seed: &str, more: &[&str]) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let scenario = root.join("scenarios").join(file);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ipam-sim"));
    command.current_dir(&root).args(["replay", &scenario.display().to_string(), "--seed", seed, "--format", "json"]).args(more);
    let output = command.output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn exported(file: &str, seed: &str) -> Exported {
    let out = tempfile::tempdir().unwrap();
    let at = |name: &str| out.path().join(name).display().to_string();
    let replay = replayed(file, seed, &["--perfetto", &at("trace.json"), "--jepsen", &at("history.json")]);
    replayed(file, seed, &["--jepsen", &at("history.edn")]);
    let text = |name: &str| std::fs::read_to_string(out.path().join(name)).unwrap();
    let json = |name: &str| serde_json::from_str(&text(name)).unwrap();
    Exported { replay, perfetto: json("trace.json"), jepsen: json("history.json"), edn: text("history.edn") }
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().unwrap_or_else(|| panic!("no list `{name}`"))
}

fn micros(seconds: &Value) -> u64 {
    (seconds.as_f64().unwrap() * 1e6).round() as u64
}

#[test]
fn the_history_has_every_event_and_its_spans_refer_to_them() {
    for (file, seed) in RUNS {
        let Exported { replay, .. } = exported(file, seed);
        let history = &replay["history"];
        let events = list(history, "events");
        assert_eq!(events.len() as u64, replay["events"].as_u64().unwrap(), "{file}");
        assert!((0..).zip(events).all(|(number, event)| event["event"] == number));
        assert!(events.windows(2).all(|pair| micros(&pair[0]["at_s"]) <= micros(&pair[1]["at_s"])), "{file}: times go back");
        let requests = list(history, "requests");
        let sent = events.iter().filter(|event| event["kind"] == "request").count();
        assert!(sent > 0 && sent == requests.len(), "{file}: {sent} requests in the trace, {} in the history", requests.len());
        for (position, request) in requests.iter().enumerate() {
            let number = request["event"].as_u64().unwrap() as usize;
            assert_eq!((&events[number]["kind"], &events[number]["request"]), (&"request".into(), &position.into()));
            assert_eq!(events[number]["at_s"], request["at_s"]);
            assert!(request["answered_s"].is_null() == request["ending"].is_null());
        }
        let verdicts = list(history, "claims");
        assert!(!verdicts.is_empty() && verdicts.iter().any(|claim| claim["verdict"] == "held"), "{file}");
        for violation in list(&replay, "violations") {
            let claim = verdicts.iter().find(|claim| claim["claim"] == violation["claim"]).unwrap();
            assert_ne!(claim["verdict"], "held");
        }
        assert!(replay["provenance"]["replay"].as_str().unwrap().contains(file));
    }
}

#[test]
fn the_trace_is_balanced_and_has_every_request_and_fault() {
    for (file, seed) in RUNS {
        let Exported { replay, perfetto, .. } = exported(file, seed);
        let events = list(&perfetto, "traceEvents");
        let mut open: BTreeMap<(String, String, u64), (String, u64)> = BTreeMap::new();
        let mut last = 0;
        let mut spans: BTreeMap<String, usize> = BTreeMap::new();
        let mut names: BTreeMap<u64, String> = BTreeMap::new();
        for event in events {
            let pid = event["pid"].as_u64().unwrap();
            if event["ph"] == "M" {
                if event["name"] == "process_name" {
                    names.insert(pid, event["args"]["name"].as_str().unwrap().to_owned());
                }
                continue;
            }
            assert!(names.contains_key(&pid), "{file}: an event of a process without a name");
            let at = event["ts"].as_u64().unwrap();
            assert!(at >= last, "{file}: times go back");
            last = at;
            let (category, name) = (event["cat"].as_str().unwrap().to_owned(), event["name"].as_str().unwrap().to_owned());
            match event["ph"].as_str().unwrap() {
                "b" => {
                    *spans.entry(category.clone()).or_default() += 1;
                    let key = (category, event["id"].as_str().unwrap().to_owned(), pid);
                    assert!(open.insert(key, (name, at)).is_none(), "{file}: begun twice");
                }
                "e" => {
                    let key = (category, event["id"].as_str().unwrap().to_owned(), pid);
                    let (begun, from) = open.remove(&key).unwrap_or_else(|| panic!("{file}: ended without a beginning"));
                    assert!(begun == name && from <= at);
                }
                "i" => *spans.entry(category).or_default() += 1,
                other => panic!("{file}: phase {other}"),
            }
        }
        assert!(open.is_empty(), "{file}: {} spans do not end", open.len());
        let history = &replay["history"];
        for (category, name) in [("request", "requests"), ("fault", "faults"), ("operation", "operations"), ("outage", "outages")] {
            assert_eq!(spans.get(category).copied().unwrap_or(0), list(history, name).len(), "{file}: {name}");
        }
        assert_eq!(spans.get("violation").copied().unwrap_or(0), list(&replay, "violations").len(), "{file}");
        assert_eq!(names.len(), list(history, "processes").len() + 1);
    }
}

#[test]
fn operations_are_invoked_and_end_once_and_a_process_does_one_at_a_time() {
    for (file, seed) in RUNS {
        let Exported { replay, jepsen, edn, .. } = exported(file, seed);
        let entries = jepsen.as_array().unwrap();
        let mut busy: BTreeMap<u64, (Value, u64)> = BTreeMap::new();
        let mut lost = Vec::new();
        let mut completed = 0;
        let mut last = 0;
        for (index, entry) in entries.iter().enumerate() {
            assert_eq!(entry["index"], index);
            let at = entry["time"].as_u64().unwrap();
            assert!(at >= last, "{file}: times go back");
            last = at;
            let Some(process) = entry["process"].as_u64() else {
                assert_eq!((&entry["process"], &entry["type"]), (&"nemesis".into(), &"info".into()));
                continue;
            };
            match entry["type"].as_str().unwrap() {
                "invoke" => {
                    assert!(!lost.contains(&process), "{file}: process {process} goes on although nobody knows how its operation ended");
                    assert!(busy.insert(process, (entry["f"].clone(), at)).is_none(), "{file}: process {process} does two things");
                }
                kind => {
                    let (f, from) = busy.remove(&process).unwrap_or_else(|| panic!("{file}: a completion without an invocation"));
                    assert!(f == entry["f"] && from <= at);
                    completed += 1;
                    if kind == "info" {
                        lost.push(process);
                    }
                }
            }
        }
        assert!(busy.is_empty(), "{file}: {} operations never end", busy.len());
        assert!(completed > 0 && completed == list(&replay["history"], "operations").len(), "{file}");
        // The other form has the same content: a map on each line, with nothing left open.
        assert_eq!(edn.lines().count(), entries.len());
        for (line, entry) in edn.lines().zip(entries) {
            let words = [
                format!(":index {},", entry["index"]),
                format!(":time {},", entry["time"]),
                format!(":type :{},", entry["type"].as_str().unwrap()),
            ];
            assert!(line.starts_with('{') && line.ends_with('}') && words.iter().all(|word| line.contains(word)), "{file}: {line}");
        }
    }
}

/// An acknowledged increment returns a number that no other one returned, unless an increment was lost: an outside checker would look for
/// that.
#[test]
fn a_checker_that_knows_only_the_history_finds_a_lost_increment() {
    let doubled = |more: &[&str]| {
        let out = tempfile::tempdir().unwrap();
        let (plans, history) = (out.path().join("plans"), out.path().join("history.json"));
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let ipam_sim = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_ipam-sim")).current_dir(&root).args(args).output().unwrap();
        let plans = plans.display().to_string();
        ipam_sim(&[&["run", "scenarios/smoke/counter-calm.toml", "--seed", "0", "--no-shrink", "--out", &plans], more].concat());
        let plan = format!("{plans}/counter-calm-0.toml");
        let target = if more.is_empty() { vec!["scenarios/smoke/counter-calm.toml", "--seed", "0"] } else { vec![plan.as_str()] };
        ipam_sim(&[&["replay"], &*target, &["--jepsen", &history.display().to_string()]].concat());
        let entries: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(history).unwrap()).unwrap();
        let values: Vec<u64> = entries.iter().filter(|entry| entry["type"] == "ok").map(|entry| entry["value"].as_u64().unwrap()).collect();
        let mut distinct = values.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert!(values.len() > 5);
        values.len() - distinct.len()
    };
    assert_eq!(doubled(&[]), 0);
    assert!(doubled(&["--mutation", "counter-decides-once"]) > 0);
}

#[test]
fn a_kept_plan_says_where_it_comes_from() {
    let out = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let plans = out.path().display().to_string();
    let run = ["run", "scenarios/smoke/counter-faults.toml", "--mutation", "counter-decides-once", "--seeds", "6", "--out", &plans];
    Command::new(env!("CARGO_BIN_EXE_ipam-sim")).current_dir(&root).args(run).output().unwrap();
    let plan = |name: &str| sim_harness::plan::Plan::read(&out.path().join(name)).unwrap();
    let whole = plan("counter-faults-2.toml");
    let provenance = whole.recorded.as_ref().unwrap().provenance.as_ref().unwrap();
    assert_eq!(provenance.replay, format!("ipam-sim replay {plans}/counter-faults-2.toml --trace"));
    assert_eq!((&*provenance.profile, &provenance.mutations[..]), ("hardened", &["counter-decides-once".to_owned()][..]));
    assert_eq!(provenance.version, env!("CARGO_PKG_VERSION"));
    assert_eq!(provenance.faults.len(), whole.fault.len());
    let smaller = plan("counter-faults-2-min.toml").recorded.unwrap().provenance.unwrap();
    assert_eq!(smaller.shrunk_from, Some(format!("{plans}/counter-faults-2.toml")));
    assert_eq!(smaller.replay, format!("ipam-sim replay {plans}/counter-faults-2-min.toml --trace"));

    // An older plan has no provenance, and is read and replayed as before.
    let mut older = whole.clone();
    older.recorded.as_mut().unwrap().provenance = None;
    let (file, page) = (out.path().join("older.toml"), out.path().join("story.html"));
    std::fs::write(&file, older.to_toml()).unwrap();
    assert!(!older.to_toml().contains("provenance"));
    let replay = ["replay", &file.display().to_string(), "--format", "json", "--html", &page.display().to_string()];
    let output = Command::new(env!("CARGO_BIN_EXE_ipam-sim")).current_dir(&root).args(replay).output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["digest"], told["expected_digest"]);
    assert_eq!(told["provenance"]["mutations"][0], "counter-decides-once");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("mutations: counter-decides-once;"), "also without a program");
    assert!(page.contains("\"provenance\":{\"version\""));
}

#[test]
fn a_plan_of_a_profile_names_the_profile_and_what_differs() {
    let out = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let plans = out.path().display().to_string();
    let run = |more: &[&str]| {
        let args = ["run", "scenarios/smoke/counter-calm.toml", "--profile", "upstream", "--seed", "0", "--out", &plans, "--force"];
        Command::new(env!("CARGO_BIN_EXE_ipam-sim")).current_dir(&root).args(args).args(more).output().unwrap();
        let plan = sim_harness::plan::Plan::read(&out.path().join("counter-calm-0.toml")).unwrap();
        (plan.deviations.len(), plan.recorded.unwrap().provenance.unwrap())
    };
    // No deviation of upstream breaks the counter: one that does is added.
    let besides = ["--mutation", "counter-decides-once"];
    let (all, provenance) = run(&besides);
    assert!(all > 50, "{all} mutations are on");
    assert_eq!((&*provenance.profile, &provenance.mutations[..]), ("upstream", &["counter-decides-once".to_owned()][..]));
    assert!(provenance.without.is_empty(), "{:?}", provenance.without);
    let smaller = sim_harness::plan::Plan::read(&out.path().join("counter-calm-0-min.toml")).unwrap();
    let smaller = smaller.recorded.unwrap().provenance.unwrap();
    assert_eq!((&*smaller.profile, smaller.mutations.len()), ("upstream", 1), "a smaller plan says the same");
    let (fewer, provenance) = run(&[&besides[..], &["--without", "byom-decide-once"]].concat());
    assert_eq!((fewer, &provenance.without[..]), (all - 1, &["byom-decide-once".to_owned()][..]));
}

#[test]
fn each_output_has_a_file_of_its_own() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let out = tempfile::tempdir().unwrap();
    let file = |name: &str| out.path().join(name).display().to_string();
    let (one, story, away) = (file("one.json"), file("story.html"), file("away/one.json"));
    let refused = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ipam-sim"));
        command.current_dir(&root).args(["replay", "scenarios/smoke/counter-calm.toml", "--seed", "0"]).args(more);
        let output = command.output().unwrap();
        assert_eq!((output.status.code(), String::from_utf8(output.stdout).unwrap().lines().count().min(1)), (Some(2), 0), "{more:?}");
        String::from_utf8(output.stderr).unwrap().lines().next().unwrap().to_owned()
    };
    let both = format!("error: --perfetto and --jepsen are one file, {one}: each needs its own");
    assert_eq!(refused(&["--perfetto", &one, "--jepsen", &one, "--html", &story]), both);
    let plan = "scenarios/smoke/counter-calm.toml";
    assert_eq!(refused(&["--dump", plan]), format!("error: the plan and --dump are one file, {plan}: each needs its own"));
    assert!(refused(&["--jepsen", "-"]).contains("expected a file, and `-` is none"));
    assert_eq!(
        refused(&["--trace", "--format", "json"]),
        "error: --trace prints text, and --format json prints JSON: both cannot be on standard output"
    );
    assert!(std::fs::read_dir(out.path()).unwrap().next().is_none(), "nothing is half-done");
    // If a folder is missing, the run is reported nevertheless.
    let mut command = Command::new(env!("CARGO_BIN_EXE_ipam-sim"));
    let output = command.current_dir(&root).args(["replay", plan, "--seed", "0", "--jepsen", &away]).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && err.contains(&format!("there is no folder {}", file("away"))), "{err}");
}
