//! The program as its users meet it: verdicts, exit codes, replays, and what it says of bad input.

#[path = "support/install.rs"]
mod install;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ipam-sim-cli-{}-{name}", std::process::id()));
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

fn ipam_sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ipam-sim"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env("NO_COLOR", "1")
        // In one of several parallel jobs they would choose a part of the seeds.
        .env_remove("CI_NODE_INDEX")
        .env_remove("CI_NODE_TOTAL")
        .args(args)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs, and gives exit code, standard output and standard error.
fn run(args: &[&str]) -> (i32, String, String) {
    let output = ipam_sim(args);
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

const SMALL: &str = r#"
name = "small"
why = "a test"
seeds = 5
[phases]
safety = "5s"
liveness = "20s"
[workload]
kind = "counter"
clients = 2
increments = 3
[check]
always = ["no-increment-is-lost"]
"#;

#[test]
fn everything_under_scenarios_passes_its_check() {
    let (code, out, _) = run(&["check", "scenarios"]);
    assert_eq!(code, 0, "{out}");
}

#[test]
fn the_smoke_scenarios_are_green() {
    let (code, out, _) = run(&["run", "scenarios/smoke", "--seeds", "20"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("ok  counter-calm"), "{out}");
}

#[test]
fn the_capacity_scenarios_hold_what_the_pool_promises() {
    let folder = Folder::new("capacity");
    let (code, out, _) = run(&["run", "scenarios/capacity", "--seeds", "6", "--out", &folder.0.display().to_string()]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("ok  pool-large"), "{out}");
}

#[test]
fn the_negative_scenarios_find_their_violations_and_the_replay_command_reproduces_them() {
    let folder = Folder::new("negative");
    let out_dir = folder.0.display().to_string();
    // The rows of the pool's deviations have a test of their own.
    let files = ["counter-blind-writer", "counter-decides-once", "byom-windows"].map(|name| format!("scenarios/negative/{name}.toml"));
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let (code, out, _) = run(&[&["run"], &*files, &["--seeds", "20", "--out", &out_dir, "--format", "json"]].concat());
    assert_eq!(code, 0, "{out}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    for scenario in report["scenarios"].as_array().unwrap() {
        let first = &scenario["failures"][0];
        let plan = first["plan"].as_str().unwrap();
        let (code, replayed, _) = run(&["replay", plan, "--format", "json"]);
        let expected = if first["kind"] == "eventually" { 3 } else { 1 };
        assert_eq!(code, expected, "{replayed}");
        let replayed: serde_json::Value = serde_json::from_str(&replayed).unwrap();
        assert_eq!(replayed["digest"], first["digest"], "{plan}");
        let violations = replayed["violations"].as_array().unwrap();
        assert!(violations.iter().any(|violation| violation["claim"] == first["claim"] && violation["at_s"] == first["at_s"]), "{plan}");
    }
}

#[test]
fn a_hardened_scenario_with_a_deviation_fails_with_exit_code_1() {
    let folder = Folder::new("deviation");
    let out_dir = folder.0.display().to_string();
    let args = ["run", "scenarios/smoke/counter-calm.toml", "--seeds", "20", "--mutation", "counter-decides-once", "--out", &out_dir];
    let (code, out, _) = run(&args);
    assert_eq!(code, 1, "{out}");
    assert!(
        out.contains("FAIL")
            && out.contains("no-increment-is-lost")
            && out.contains("needs  no fault")
            && out.contains("replay  ipam-sim replay"),
        "{out}"
    );
}

#[test]
fn a_negative_scenario_that_does_not_fail_is_not_right() {
    let lonely = ["run", "scenarios/negative/counter-decides-once.toml", "--set", "workload.clients=1"];
    let (code, out, _) = run(&lonely);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("must fail, but does not"), "{out}");
}

#[test]
fn a_negative_scenario_without_its_deviation_has_to_hold() {
    for flags in [["--without", "counter-decides-once"], ["--seeds", "20"]] {
        let (code, out, _) = run(&[&["run", "scenarios/negative/counter-decides-once.toml"], &flags[..]].concat());
        assert_eq!(code, 0, "{out}");
        assert_eq!(out.contains("fails as it must"), flags[0] == "--seeds", "{out}");
    }
}

#[test]
fn a_sometimes_that_never_holds_is_vacuous() {
    let folder = Folder::new("vacuous");
    let lonely = SMALL.replace("clients = 2", "clients = 1") + "sometimes = [\"clients-conflict\"]\n";
    let (code, out, _) = run(&["run", &folder.file("vacuous.toml", &lonely)]);
    assert_eq!(code, 4, "{out}");
}

#[test]
fn what_does_not_come_true_in_time_gives_exit_code_3() {
    let folder = Folder::new("eventually");
    let hopeless = SMALL.replace("[check]", "[[op]]\nkind = \"increment\"\nat = \"24s\"\nactor = \"client-0\"\n[check]")
        + "eventually = [{ claim = \"every-increment-ends\", within = \"10s\" }]\n";
    let out_dir = folder.0.display().to_string();
    let (code, out, _) = run(&["run", &folder.file("eventually.toml", &hopeless), "--out", &out_dir]);
    assert_eq!(code, 3, "{out}");
    assert!(out.contains("1 of 1 increments have not come to an end"), "{out}");
}

/// What the JSON on standard output says.
fn json(args: &[&str]) -> (i32, serde_json::Value) {
    let (code, out, err) = run(args);
    (code, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}")))
}

#[test]
fn the_first_failure_of_each_claim_is_shrunk_and_its_plan_replays() {
    let folder = Folder::new("shrunk");
    let out_dir = folder.0.display().to_string();
    let args = ["run", "scenarios/smoke/counter-faults.toml", "--seeds", "12", "--mutation", "counter-decides-once", "--out", &out_dir];
    let (code, report) = json(&[&args[..], &["--format", "json", "--jobs", "1"]].concat());
    assert_eq!(code, 1);
    let failures = report["scenarios"][0]["failures"].as_array().unwrap();
    let mut claims = Vec::new();
    for failure in failures {
        let first = !claims.contains(&&failure["claim"]);
        assert_eq!(failure["needs"].is_string(), first, "{failure}");
        if !first {
            continue;
        }
        claims.push(&failure["claim"]);
        if failure["shrunk"].is_null() {
            // It has the cause of another claim, whose plan ends before this one breaks.
            assert_eq!(failure["cause"], failures[0]["cause"]);
            continue;
        }
        let shrunk = &failure["shrunk"];
        assert!(shrunk["ops"].as_u64() <= Some(10) && shrunk["faults"].as_u64() <= Some(2), "{shrunk}");
        let plan = shrunk["plan"].as_str().unwrap();
        assert!(plan.ends_with("-min.toml"), "{plan}");
        let (_, replayed) = json(&["replay", plan, "--format", "json"]);
        assert_eq!((&replayed["digest"], &replayed["expected_digest"]), (&shrunk["digest"], &shrunk["digest"]), "{plan}");
        assert!(replayed["violations"].as_array().unwrap().iter().any(|violation| violation["claim"] == failure["claim"]), "{plan}");
    }
    assert_eq!(claims.len(), 2, "two claims notice lost updates");
    let findings = report["scenarios"][0]["findings"].as_array().unwrap();
    assert!(findings.len() == 1 && findings[0]["claims"].as_array().unwrap().len() == 2, "of one cause: {findings:?}");
    assert!(failures[0]["shrunk"].is_object(), "the cause has a smaller plan");
    // Workers change nothing.
    let (_, parallel) = json(&[&args[..], &["--format", "json", "--jobs", "3"]].concat());
    assert_eq!(&parallel["scenarios"][0]["failures"], &report["scenarios"][0]["failures"]);
    // The block names the smaller plan, and that is the one to replay.
    let (_, out, _) = run(&args);
    let plan = failures[0]["shrunk"]["plan"].as_str().unwrap();
    assert!(out.contains(&format!("replay  ipam-sim replay {plan} --trace")), "{out}");
    let (_, out, _) = run(&[&args[..], &["--no-shrink"]].concat());
    assert!(!out.contains("shrunk from") && out.contains("needs  "), "{out}");
}

#[test]
fn a_negative_scenario_that_fails_as_it_must_is_not_shrunk() {
    let folder = Folder::new("negative-not-shrunk");
    let out_dir = folder.0.display().to_string();
    let (code, out, _) = run(&["run", "scenarios/negative/counter-decides-once.toml", "--seeds", "3", "--out", &out_dir]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("needs  no fault, but the mutation counter-decides-once") && !out.contains("shrunk from"), "{out}");
    assert!(!folder.0.join("counter-decides-once-0-min.toml").exists());
}

#[test]
fn a_plan_file_is_shrunk_into_another() {
    let folder = Folder::new("shrink");
    let out_dir = folder.0.display().to_string();
    run(&["run", "scenarios/negative/counter-blind-writer.toml", "--seed", "0", "--out", &out_dir]);
    let plan = folder.0.join("counter-blind-writer-0.toml").display().to_string();
    let (code, out, err) = run(&["shrink", &plan]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    for expected in
        ["FAIL  counter-never-goes-back    seed 0", "needs  conflicting-writer(configmaps/default/counter) at ", "Shrunk: from "]
    {
        assert!(out.contains(expected), "{expected} is not in\n{out}");
    }
    let small = folder.0.join("counter-blind-writer-0-min.toml");
    assert!(out.contains(&format!("replay  ipam-sim replay {} --trace", small.display())), "{out}");
    let (code, out, _) = run(&["replay", &small.display().to_string()]);
    assert!(code == 1 && out.contains("FAIL  counter-never-goes-back") && out.contains("as recorded"), "{out}");

    // The same steps again give the same file, wherever it is written.
    let again = folder.0.join("again.toml").display().to_string();
    let (code, report) = json(&["shrink", &plan, "--out", &again, "--claim", "counter-never-goes-back", "--format", "json"]);
    assert_eq!((code, &report["schema"]), (0, &"ipam-sim/shrink/1".into()));
    // But for the command that replays it, which names the file.
    let text = |file: &Path| {
        let text = std::fs::read_to_string(file).unwrap();
        text.lines().filter(|line| !line.starts_with("replay = ")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(text(Path::new(&again)), text(&small));
    let (_, report) = json(&["shrink", &plan, "--out", &again, "--runs", "1", "--format", "json"]);
    assert_eq!(report["shrunk"]["cut_off"], "runs");
}

#[test]
fn what_does_not_fail_cannot_be_shrunk() {
    let folder = Folder::new("not-shrunk");
    let out_dir = folder.0.display().to_string();
    run(&["run", "scenarios/negative/counter-blind-writer.toml", "--seed", "0", "--out", &out_dir]);
    let plan = folder.0.join("counter-blind-writer-0.toml").display().to_string();
    let text = std::fs::read_to_string(&plan).unwrap();
    let calm = folder.file("calm.toml", text.split("[[fault]]").next().unwrap());
    for (args, expected) in [
        (vec!["shrink", &calm], "calm.toml does not fail: every claim of its plan holds"),
        (vec!["shrink", &calm, "--claim", "counter-never-goes-back"], "does not fail: counter-never-goes-back holds"),
        (vec!["shrink", &plan, "--claim", "every-increment-ends"], "does not violate every-increment-ends, but counter-never-goes-back"),
        (vec!["shrink", &plan, "--claim", "nonsense"], "the nearest is `"),
        (vec!["shrink", "scenarios/smoke/counter-calm.toml"], "is a scenario"),
        (vec!["shrink", "no-such-plan.toml"], "no-such-plan.toml"),
        (vec!["shrink", &plan, "--out", "/no/such/folder/a.toml"], "cannot write"),
    ] {
        let (code, out, err) = run(&args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains(expected), "{args:?}: {err}");
    }
}

/// A scenario of Spiderpool with these keys of `[workload]`, and these lines before its tables.
fn spiderpool(head: &str, workload: &str) -> String {
    format!(
        "name = \"small\"\nwhy = \"do nodes and settings count?\"\nseeds = 2\n{head}[phases]\nsafety = \"20s\"\nliveness = \"30s\"\n\
         [workload]\nkind = \"spiderpool\"\n{workload}[check]\nalways = [\"no-address-is-recorded-twice\"]\n"
    )
}

#[test]
fn what_is_wrong_in_a_scenario_is_refused_at_its_place_before_anything_runs() {
    let folder = Folder::new("wrong-scenario");
    let op = "[[op]]\nkind = \"set-settings\"\nat = \"1s\"\nactor = \"people\"\nsettings = { enableIPv6 = \"no\" }\n";
    for (head, workload, expected) in [
        (
            "",
            "settings = { enableIPv6 = \"no\" }\n",
            ":9:27: `workload.settings`: `no` is no value of the setting `enableIPv6`; true or false",
        ),
        (
            "",
            "settings = { enableIPv66 = \"true\" }\n",
            ":9:14: `workload.settings`: there is no setting `enableIPv66`; did you mean `enableIPv6`?",
        ),
        ("", "settings = { enableAutoPoolForApplication = \"maybe\" }\n", ":9:45: `workload.settings`: `maybe` is no value"),
        ("", "settings = { SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS = \"-3\" }\n", ":9:52: `workload.settings`: `-3` is no value"),
        ("", "settings = { SPIDERPOOL_GC_DEFAULT_INTERVAL_DURATION = \"x\" }\n", ":9:56: `workload.settings`: `x` is no value"),
        ("", "settings = { enableSpiderSubnet = \"false\" }\nsubnets = 1\ncontrollers = 1\n", "there are subnets, but"),
        ("", "nodes = 100000\n", ":9:1: `workload.nodes` may be 100000; at most 10000"),
        ("", "trace_replication = 100000\n", ":9:1: `workload.trace_replication` may be 100000; at most 1000"),
        (
            "excuses = [\"unreachable-node\"]\n",
            "",
            ":4:12: there is no excuse `unreachable-node`; did you mean `unreachable-node-release`?",
        ),
        (
            "why_excused = \"by design\"\n",
            "",
            ":4:1: `why_excused` says why seeds are excused, and `excuses` is empty; an excuse, or no reason",
        ),
        (op, "", ":8:27: `no` is no value of the setting `enableIPv6`"),
    ] {
        let file = folder.file("wrong.toml", &spiderpool(head, workload));
        let (code, out, _) = run(&["check", &file]);
        let (place, what) = expected.split_once(": ").unwrap_or(("", expected));
        assert!(code == 2 && out.contains(place) && out.contains(what), "{workload}: {out}");
        let (code, out, err) = run(&["run", &file]);
        assert!(code == 2 && out.is_empty() && err.contains(expected), "{workload}: {err}");
    }
}

#[test]
fn what_is_wrong_with_set_is_told_of_the_argument() {
    let folder = Folder::new("wrong-set");
    let file = folder.file("right.toml", &spiderpool("", "nodes = 2\n"));
    for (set, expected) in [
        ("workload.nodes=x", "--set workload.nodes=x: `workload.nodes` is the string \"x\"; expected a whole number"),
        ("workload.nodes=100000", "--set workload.nodes=100000: `workload.nodes` may be 100000; at most"),
        ("workload.settings.enableIPv6=no", "--set workload.settings.enableIPv6=no: `workload.settings`: `no` is no value of the setting"),
        ("workload.nods=2", "--set workload.nods=2: unknown key `nods`; did you mean `nodes`?"),
        ("name.first=2", "--set name.first=2: `name` is not a table"),
        ("phases.liveness=\"never\"", "--set phases.liveness=\"never\": "),
    ] {
        let (code, out, err) = run(&["run", &file, "--seeds", "1", "--set", "seeds=1", "--set", set]);
        assert!(code == 2 && out.is_empty() && err.contains(expected), "{set}: {err}");
    }
}

#[test]
fn a_trace_that_no_run_sees_is_refused_and_what_is_left_out_is_told() {
    let folder = Folder::new("traces");
    let header = "name,creation_time,deletion_time,scheduled_time\n";
    let capacity = "scenarios/capacity/spiderpool-trace.toml";
    let set = |name: &str, rows: &str| format!("workload.trace={}", folder.file(name, &format!("{header}{rows}")));
    for (rows, expected) in [
        ("", "the trace has no pod"),
        ("web,1767225600,,1767225601\n", "the first is created at 1767225600 s and the last at 1767225600 s"),
        ("a,60,100,10\n", ":2:10: a pod is scheduled before it is created"),
    ] {
        let (code, out, err) = run(&["run", capacity, "--seeds", "1", "--set", &set("wrong.csv", rows)]);
        assert!(code == 2 && out.is_empty() && err.contains(expected), "{rows}: {err}");
    }
    let some = set("some.csv", "a,10,,11\nb,99999999,,99999999\n");
    let (code, out, err) = run(&["run", capacity, "--seeds", "1", "--set", &some]);
    assert!(code == 0 && out.contains("1 of the 2 pods of") && out.contains("are created after the run ends, and left out"), "{out}{err}");
    let (_, report) = json(&["run", capacity, "--seeds", "1", "--format", "json", "--set", &some]);
    assert_eq!(report["scenarios"][0]["left_out"].as_array().map(Vec::len), Some(1));

    // Nobody asks: there is nothing of which to find the size.
    let pending = set("pending.csv", "a,10,,\n");
    let out_dir = folder.0.join("report").display().to_string();
    let hour = "scenarios/capacity/trace-hour.toml";
    let args = ["report", "capacity", hour, "--objective", "refused<1%", "--seeds", "1", "--set", &pending, "--out", &out_dir];
    let (code, out, err) = run(&args);
    assert!(code == 2 && out.is_empty() && err.contains("no pod of `trace-hour` asks for an address"), "{out}{err}");
}

#[test]
fn a_cluster_in_which_no_address_is_given_proves_nothing() {
    let folder = Folder::new("no-address");
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {conditions: [{type: Ready, status: \"True\"}]}\n";
    let pool = "---\napiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\nmetadata: {name: p}\n\
                spec: {subnet: 10.0.0.0/24, ips: [10.0.0.1-10.0.0.9], default: true, disable: true}\n";
    let pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: default, uid: u1}\n\
               spec: {containers: [{name: c, image: i}]}\n";
    let calm = "scenarios/smoke/spiderpool-calm.toml";
    let nobody = folder.file("nobody.yaml", &format!("{node}{pool}"));
    let refused = folder.file("refused.yaml", &format!("{node}{pool}{pod}"));
    for (manifests, why) in [(&nobody, "no pod asked for one"), (&refused, "requests were refused")] {
        let (code, out, err) = run(&["run", calm, "--seeds", "20", "--manifests", manifests]);
        assert!(code == 4 && out.contains("no address was ever given") && out.contains(why), "{manifests}: {out}{err}");
        // A handful of seeds proves nothing either way, but it is said.
        let (code, out, _) = run(&["run", calm, "--seeds", "3", "--manifests", manifests]);
        assert!(code == 0 && out.contains("no address was ever given"), "{manifests}: {out}");
    }
    let (_, report) = json(&["run", calm, "--seeds", "3", "--format", "json", "--manifests", &refused]);
    assert_eq!(report["scenarios"][0]["no_address_given"], true);
}

#[test]
fn a_name_that_is_none_is_told_with_the_nearest() {
    for args in [
        vec!["run", "scenarios/smoke/counter-calm.toml", "--mutation", "counter-decide-once"],
        vec!["run", "scenarios/smoke/counter-calm.toml", "--without", "counter-decide-once"],
        vec!["selftest", "--mutation", "counter-decide-once"],
    ] {
        let (code, _, err) = run(&args);
        assert!(code == 2 && err.contains("the nearest is `counter-decides-once`"), "{args:?}: {err}");
    }
    let (code, _, err) = run(&["shrink", "scenarios/smoke/counter-calm.toml"]);
    assert!(code == 2 && err.contains("`ipam-sim replay scenarios/smoke/counter-calm.toml --seed S`"), "{err}");
}

#[test]
fn two_shards_merged_equal_the_whole() {
    let folder = Folder::new("shards");
    let whole = run(&["run", "scenarios/smoke", "--seeds", "30", "--format", "json"]).1;
    let shard = |part: &str| {
        folder.file(&part.replace('/', "-"), &run(&["run", "scenarios/smoke", "--seeds", "30", "--shard", part, "--format", "json"]).1)
    };
    let (one, two) = (shard("1/2"), shard("2/2"));
    let merged = run(&["merge", &one, &two, "--format", "json"]).1;
    let key = |text: &str| {
        let report: serde_json::Value = serde_json::from_str(text).unwrap();
        let of =
            |scenario: &serde_json::Value| (scenario["digest"].to_string(), scenario["seeds"].to_string(), scenario["events"].to_string());
        report["scenarios"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(key(&whole), key(&merged));
}

#[test]
fn a_dump_is_a_manifest_that_can_be_run_again() {
    let folder = Folder::new("dump");
    let dump = folder.0.join("cluster.yaml").display().to_string();
    let (code, ..) = run(&["replay", "scenarios/smoke/counter-calm.toml", "--seed", "3", "--dump", &dump]);
    assert_eq!(code, 0);
    let yaml = std::fs::read_to_string(&dump).unwrap();
    assert!(yaml.contains("kind: ConfigMap") && yaml.contains("name: counter"), "{yaml}");
    let (code, out, _) = run(&["check", &dump]);
    assert_eq!(code, 0, "{out}");
    let (code, out, err) = run(&["run", "scenarios/smoke/counter-calm.toml", "--seeds", "3", "--manifests", &dump]);
    assert_eq!(code, 0, "{out}{err}");
}

#[test]
fn two_plans_part_where_a_fault_differs() {
    let folder = Folder::new("against");
    let out_dir = folder.0.display().to_string();
    run(&["run", "scenarios/negative/counter-blind-writer.toml", "--seed", "0", "--out", &out_dir]);
    let plan = folder.0.join("counter-blind-writer-0.toml").display().to_string();
    let original = std::fs::read_to_string(&plan).unwrap();
    let calm = folder.file("calm.toml", original.split("[[fault]]").next().unwrap());
    let (_, out, _) = run(&["replay", &plan, "--against", &calm, "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let parting = &report["against"]["parting"];
    assert!(parting["this"].as_str().unwrap().contains("conflicting-writer"), "{parting}");
    assert_eq!(parting["because"], "fault 0 differs");
}

#[test]
fn an_edited_plan_says_where_it_left_the_recorded_run() {
    let folder = Folder::new("edited");
    let out_dir = folder.0.display().to_string();
    run(&["run", "scenarios/negative/counter-blind-writer.toml", "--seed", "0", "--out", &out_dir]);
    let plan = folder.0.join("counter-blind-writer-0.toml");
    let edited = std::fs::read_to_string(&plan).unwrap().replace("with_version = false", "with_version = true");
    let (code, out, _) = run(&["replay", &folder.file("edited.toml", &edited), "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 0, "an edited plan is judged by its claims: {out}");
    assert!(report["parting"]["event"].as_u64().is_some(), "{out}");
    assert!(report["remarks"][0].as_str().unwrap().contains("edited"), "{out}");
    // The same file with a digest that its run cannot give.
    let original = std::fs::read_to_string(&plan).unwrap();
    let digest = original.split("digest = \"").nth(1).unwrap().split('"').next().unwrap();
    let false_promise = folder.file("false.toml", &original.replacen(digest, &digest.chars().rev().collect::<String>(), 1));
    assert_eq!(run(&["replay", &false_promise]).0, 5, "the same build gave another digest");
}

#[test]
fn bad_scenarios_are_refused_with_every_problem_at_its_place() {
    let folder = Folder::new("bad");
    let bad =
        SMALL.replace("seeds = 5", "sedes = 5").replace("safety = \"5s\"", "safety = \"5 parsecs\"").replace("clients = 2", "clients = -2")
            + "sometimes = [\"clients-conflic\"]\n[[fault]]\nkind = \"partitoin\"\n[[fault]]\nkind = \"loss\"\nchance = 1.5\n";
    let file = folder.file("bad.toml", &bad);
    for verb in ["check", "run"] {
        let (code, out, err) = run(&[verb, &file]);
        let said = out + &err;
        assert_eq!(code, 2, "{said}");
        for expected in [":4:1", ":6:10", "5 parsecs", ":10:11", "clients-conflict", "`partitoin`; did you mean `partition`?", "1.5"] {
            assert!(said.contains(expected), "{verb} does not say {expected}:\n{said}");
        }
    }
}

#[test]
fn scenarios_that_would_do_nothing_or_fill_the_memory_are_refused() {
    let folder = Folder::new("absurd");
    let small = |from: &str, to: &str| SMALL.replace(from, to);
    let with = |text: &str| format!("{SMALL}{text}");
    for (scenario, expected) in [
        (small("clients = 2", "clients = 4000000000"), "at most 10000"),
        (small("[check]", "[cluster]\napi_servers = \"1..4000000000\"\n[check]"), "at most 100"),
        (small("[check]", "[[op]]\nkind = \"increment\"\nat = \"1s\"\nactor = \"client-7\"\n[check]"), "client-7"),
        (
            small("[check]", "[cluster.capacity]\nwidth = \"0..2\"\n[check]"),
            "`cluster.capacity.width` is 0: nothing is ever worked on; at least 1",
        ),
        (small("[check]", "[cluster.capacity]\nwrite = { constant = \"34s\" }\n[check]"), "less than 34 s"),
        (with("[[fault]]\nkind = \"crash\"\ncount = 4000000000\n"), "at most 10000"),
        (with("[[fault]]\nkind = \"watch-lag\"\nresource = [\"pods\", \"podz\"]\n"), "`podz`"),
        (with("[[fault]]\nkind = \"crash-at-write\"\nnth = \"0..3\"\n"), "writes are counted from 1"),
        (with("[[fault]]\nkind = \"conflicting-writer\"\nobject = \"configmaps/counter\"\n"), "configmaps/NAMESPACE/NAME"),
    ] {
        for verb in ["check", "run"] {
            let (code, out, err) = run(&[verb, &folder.file("absurd.toml", &scenario)]);
            assert_eq!(code, 2, "{scenario}{out}{err}");
            assert!((out.clone() + &err).contains(expected), "{expected} is not in\n{out}{err}");
        }
    }
}

#[test]
fn bad_plans_are_refused() {
    let folder = Folder::new("bad-plan");
    let out_dir = folder.0.display().to_string();
    run(&["run", "scenarios/negative/counter-decides-once.toml", "--seed", "0", "--out", &out_dir]);
    let plan = std::fs::read_to_string(folder.0.join("counter-decides-once-0.toml")).unwrap();
    for (from, to, expected) in [
        ("ipam-sim/plan/1", "ipam-sim/plan/9", "ipam-sim/plan/1"),
        ("api_servers = 2", "api_servers = 0", "at least 1"),
        ("actor = \"client-0\"", "actor = \"clint-0\"", "clint-0"),
        ("actor = \"client-0\"", "actor = \"apiserver-0\"", "one of client-0 to client-"),
        ("kind = \"increment\"\nat = \"", "kind = \"increment\"\nat = \"never\" # ", "takes place never"),
        ("clients = ", "clients = 9999", "at most 10000"),
        ("api_servers = 2", "api_servers = 2000000000", "at most 100"),
        ("[cluster.knobs]", "[cluster.capacity]\nseats = 0\n\n[cluster.knobs]", "`cluster.capacity.seats` is 0: every request is refused"),
        ("\"no-increment-is-lost\",", "\"every-increment-ends\",", "of kind `eventually`"),
        ("within = \"20s\"", "within = \"31s\"", "`every-increment-ends` has until 41.000 s to come true"),
        ("heal_at = \"10s\"", "heal_at = \"1000s\"", "heal_at"),
        ("seed = 0", "seed = \"zero\"", ":3:8"),
        ("kind = \"counter\"", "kind = \"conter\"", "did you mean `counter`"),
    ] {
        let broken = plan.replacen(from, to, 1);
        assert_ne!(broken, plan, "{from} is in the plan");
        let (code, out, err) = run(&["replay", &folder.file("broken.toml", &broken)]);
        assert_eq!(code, 2, "{from} -> {to}: {out}{err}");
        assert!(err.contains(expected), "{from} -> {to}: {err}");
    }
}

#[test]
fn bad_manifests_and_paths_are_refused() {
    let folder = Folder::new("bad-manifest");
    let cases = [
        ("typed.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: default\ndata:\n  x: 1\n", ":7:6"),
        ("syntax.yaml", "apiVersion: v1\nkind: [unclosed\n", ":"),
        ("nameless.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n", "name"),
    ];
    for (name, manifest, expected) in cases {
        let file = folder.file(name, manifest);
        let (code, out, err) = run(&["run", "scenarios/smoke/counter-calm.toml", "--seeds", "1", "--manifests", &file]);
        assert_eq!(code, 2, "{name}: {out}{err}");
        assert!(err.contains(expected) && err.contains(name), "{name}: {err}");
    }
    // A dump of a real cluster holds more than the simulated one serves.
    let foreign = folder.file("foreign.yaml", "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\n");
    let (code, out, _) = run(&["check", &foreign]);
    assert!(code == 0 && out.contains("does not serve Secret"), "{out}");
    assert_eq!(run(&["run", "scenarios/smoke/counter-calm.toml", "--seeds", "20", "--manifests", &foreign]).0, 0);
    let missing = SMALL.replace("[workload]", "[cluster]\nmanifests = [\"gone.yaml\"]\n[workload]");
    let (code, _, err) = run(&["run", &folder.file("missing.toml", &missing)]);
    assert!(code == 2 && err.contains("missing.toml:9:14: the manifest gone.yaml does not exist"), "{err}");
    assert_eq!(run(&["run", "no-such-folder"]).0, 2);
    assert_eq!(run(&["replay", "scenarios/smoke/counter-calm.toml"]).0, 2, "a scenario without a seed is no plan");
    assert_eq!(run(&["run", "scenarios/smoke", "--mutation", "nonsense"]).0, 2);
    let (code, _, err) = run(&["run", "scenarios/smoke", "--set", "workload.clients=many"]);
    assert!(code == 2 && err.contains("workload.clients"), "{err}");
}

#[test]
fn a_setting_changes_the_scenario() {
    let (_, few, _) = run(&["run", "scenarios/smoke/counter-calm.toml", "--seeds", "5", "--set", "workload.clients=1", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&few).unwrap();
    assert_eq!(report["scenarios"][0]["api"]["conflicts"], 0, "a single client has nobody to conflict with");
}

#[test]
fn the_lists_name_what_there_is() {
    let (code, out, _) = run(&["list"]);
    assert_eq!(code, 0);
    for expected in ["counter-calm", "no-increment-is-lost", "one-way-partition", "counter-decides-once"] {
        assert!(out.contains(expected), "{out}");
    }
}

#[test]
fn a_replay_follows_one_thing_and_draws_a_page() {
    let folder = Folder::new("story");
    let page = folder.0.join("story.html").display().to_string();
    let scenario = "scenarios/negative/counter-decides-once.toml";
    let followed = |extra: &[&str]| run(&[&["replay", scenario, "--seed", "0"], extra].concat());
    let (code, out, err) = followed(&["--follow", "object:configmap/default/counter", "--html", &page]);
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.contains("last read revision") && out.contains("FAIL  no-increment-is-lost"), "{out}");
    assert!(!out.contains("client-0        starts"), "what touched nothing is left out: {out}");
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.starts_with("<!doctype html>") && html.trim_end().ends_with("</html>"));
    for expected in ["client-0", "apiserver-1", "no-increment-is-lost", "counter-never-goes-back", "configmap/default/counter"] {
        assert!(html.contains(expected), "{expected}");
    }
    // Up to a point in time, both know only what was before it.
    let (_, early, _) = followed(&["--follow", "object:configmap/default/counter", "--html", &page, "--until", "20ms"]);
    assert!(early.contains("commits") && early.lines().count() < out.lines().count(), "{early}");
    assert!(std::fs::read_to_string(&page).unwrap().len() < html.len());
    let (code, out, _) = followed(&["--follow", "10.0.0.1"]);
    assert!(code == 1 && out.contains("note  nothing in this run touched 10.0.0.1\n"), "{out}");
    let (code, _, err) = followed(&["--html", "no-such-folder/story.html"]);
    assert!(code == 1 && err.contains("cannot write no-such-folder/story.html"), "it is violated all the same: {err}");
}

#[test]
fn every_crash_point_of_a_small_scenario_is_tried() {
    let folder = Folder::new("crash-points");
    let (file, out_dir) = (folder.file("small.toml", SMALL), folder.0.display().to_string());
    let (code, report) = json(&["run", &file, "--every-crash-point", "--format", "json", "--out", &out_dir]);
    let (scenario, points) = (&report["scenarios"][0], &report["scenarios"][0]["crash_points"]);
    assert_eq!((code, scenario["violated"].as_u64()), (0, Some(0)), "{report}");
    let writes: u64 = points["processes"].as_array().unwrap().iter().map(|process| process["writes"].as_u64().unwrap()).sum();
    assert!(writes >= 6, "two clients make three increments each: {report}");
    assert_eq!((points["points"].as_u64(), points["tried"].as_u64()), (Some(2 * writes), Some(2 * writes)));
    assert!(points["reached"].as_u64() > Some(writes), "{report}");

    // A client that decides once loses increments whatever crashes; the plan of such a run replays.
    let other = folder.0.join("deviating").display().to_string();
    let deviating = ["--mutation", "counter-decides-once", "--seeds", "10", "--no-shrink", "--out", &other];
    let args = [&["run", &file, "--every-crash-point"][..], &deviating[..]].concat();
    let (code, out, _) = run(&args);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("crash points: ") && out.contains(" the commit of its write "), "{out}");
    let plan = out.split("plan ").nth(1).unwrap().split_whitespace().next().unwrap();
    assert!(plan.contains("-client-"), "{out}");
    let (code, replayed, _) = run(&["replay", plan]);
    assert!(code == 1 && replayed.contains("as recorded"), "{replayed}");
}

#[test]
fn every_placement_of_a_small_scenario_is_tried() {
    let folder = Folder::new("placements");
    let (file, out_dir) = (folder.file("small.toml", SMALL), folder.0.display().to_string());
    let exhaustive =
        |more: &[&str]| [&["run", &file, "--exhaustive"][..], more].concat().iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let placed = |more: &[&str]| {
        let args = exhaustive(more);
        let args: Vec<&str> = args.iter().map(String::as_str).chain(["--format", "json", "--out", &out_dir, "--force"]).collect();
        json(&args)
    };
    let (code, report) = placed(&["1"]);
    let (scenario, covered) = (&report["scenarios"][0], &report["scenarios"][0]["placements"]);
    assert_eq!((code, scenario["violated"].as_u64(), covered["complete"].as_bool()), (0, Some(0), Some(true)), "{report}");
    let [none, one] = covered["levels"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!((none["tried"].as_u64(), &one["tried"]), (Some(1), &one["placements"]));
    assert!(one["tried"].as_u64() > Some(50) && one["equivalent"].as_u64() > Some(0), "{report}");
    assert_eq!(scenario["seeds"].as_u64(), one["tried"].as_u64().map(|tried| tried + 1));

    // Two halves are the whole.
    let halves = ["1/2", "2/2"].map(|shard| {
        let (code, half) = placed(&["1", "--shard", shard]);
        assert_eq!(code, 0, "{half}");
        folder.file(&format!("{}.json", &shard[..1]), &half.to_string())
    });
    let (code, whole) = json(&["merge", &halves[0], &halves[1], "--format", "json"]);
    let whole = &whole["scenarios"][0];
    assert_eq!((code, &whole["seeds"], &whole["simulated_s"]), (0, &scenario["seeds"], &scenario["simulated_s"]));
    assert_eq!((&whole["placements"]["complete"], &whole["placements"]["effects"]), (&true.into(), &covered["effects"]));

    // What time did not suffice for is never told as tried.
    let args = exhaustive(&["2", "--budget", "1ms", "--out", &out_dir, "--force"]);
    let (code, out, _) = run(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(code, 6, "{out}");
    assert!(out.contains("tried before time was up, NOT all") && out.contains("Incomplete: 1 scenario") && !out.contains("hold"), "{out}");
    let (code, _, err) = run(&["run", &file, "--exhaustive", "4"]);
    assert!(code == 2 && err.contains("1..=3"), "{err}");
}

#[test]
fn a_mutation_is_found_by_placing_disturbances_and_its_plan_replays() {
    let folder = Folder::new("placements-found");
    let (file, out_dir) = (folder.file("small.toml", SMALL), folder.0.display().to_string());
    // Undisturbed, these clients take turns: seed 3 loses nothing.
    let args = ["run", &file, "--mutation", "counter-decides-once", "--seed", "3", "--out", &out_dir, "--force", "--no-shrink"];
    assert_eq!(run(&args).0, 0, "the seed must hold without disturbances");
    let (code, out, _) = run(&[&args[..], &["--exhaustive", "1"]].concat());
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("tried, ") && out.contains(" at request "), "{out}");
    let plan = out.split("plan ").nth(1).unwrap().split_whitespace().next().unwrap();
    assert!(plan.contains("_client-0-1-"), "{out}");
    let (code, replayed, _) = run(&["replay", plan, "--trace"]);
    assert!(code == 1 && replayed.contains("as recorded") && replayed.contains("request-fault"), "{replayed}");
}

#[test]
fn a_fault_that_touches_nothing_makes_a_sweep_vacuous() {
    let folder = Folder::new("idle-fault");
    let idle = SMALL.replace("[check]", "[[fault]]\nkind = \"forbidden\"\nclient = \"client-0\"\nresource = \"pods\"\n[check]");
    let file = folder.file("idle.toml", &idle);
    let (code, out, _) = run(&["run", &file, "--seeds", "100"]);
    assert_eq!(code, 4, "{out}");
    assert!(out.contains("forbidden    did nothing in any of 100 plans"), "{out}");
    let (code, out, _) = run(&["run", &file, "--seeds", "99"]);
    assert_eq!(code, 0, "who runs a handful of seeds is not bothered: {out}");
}

#[test]
fn a_claim_with_nothing_to_judge_makes_a_sweep_vacuous() {
    let folder = Folder::new("blind-claim");
    let blind = SMALL.replace("[\"no-increment-is-lost\"]", "[\"no-increment-is-lost\", \"no-address-has-two-holders\"]");
    let (code, out, _) = run(&["run", &folder.file("blind.toml", &blind), "--seeds", "20"]);
    assert_eq!(code, 4, "{out}");
    assert!(out.contains("no-address-has-two-holders    had nothing to judge in 20 seeds"), "{out}");
}

#[test]
fn colours_are_as_they_are_asked_for() {
    let colored = |args: &[&str], env: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ipam-sim"));
        command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env("TERM", "xterm").envs(env.iter().copied());
        let output = command.args([&["list", "faults"], args].concat()).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().contains("\u{1b}[1m")
    };
    assert!(!colored(&[], &[]), "a pipe is no terminal");
    assert!(colored(&["--color", "always"], &[]));
    assert!(colored(&["--color=always"], &[("NO_COLOR", "1")]), "what is asked for outranks the environment");
    assert!(colored(&[], &[("CLICOLOR_FORCE", "1")]));
    assert!(!colored(&["--color", "never"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!colored(&["--color", "auto"], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
}

#[test]
fn shells_are_offered_the_names_that_there_are() {
    let offered = |line: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ipam-sim"));
        command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).env("COMPLETE", "fish");
        let output = command.args(["--", "ipam-sim"]).args(line).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(offered(&["run", "--mutation", "counter-"]).starts_with("counter-decides-once\t"));
    assert!(offered(&["shrink", "--claim", "no-increment"]).contains("no-increment-is-lost\tno two increments are acknowledged"));
    assert!(offered(&["run", "--variant", "unreachable-node-is"]).contains("unreachable-node-is-probed\t"));
    assert!(offered(&["run", "counter-ca"]).contains("scenarios/smoke/counter-calm.toml"));
    let faults = offered(&["run", "--set", "swarm.only"]);
    assert!(faults.contains("swarm.only=[\"partition\"]\t"), "{faults}");
    assert!(offered(&["run", "--mutation", "no-such-"]).is_empty());
}
