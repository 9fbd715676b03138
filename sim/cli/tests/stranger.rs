//! A system from outside the workspace (`docs/examples/whereabouts`): its own binary builds and has every verb.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The folder of the example.
fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/whereabouts").canonicalize().unwrap()
}

/// Its binary, built once. It shares the target folder of this build, so that only the code of this repository is compiled for it.
fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        // `target/PROFILE/deps/THIS-TEST`
        let here = std::env::current_exe().unwrap();
        let target = here.ancestors().nth(3).unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        // In its folder: cargo looks for `.cargo/config.toml`, which has `--cfg madsim`, from there upwards.
        cargo.current_dir(example()).args(["build", "--quiet", "--locked", "--target-dir"]).arg(target);
        let built = cargo.output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        target.join("debug").join(format!("whereabouts-sim{}", std::env::consts::EXE_SUFFIX))
    })
}

/// The result of a command line of the binary, with its output in `out`.
fn command(out: &Path, line: &str) -> Output {
    let mut command = Command::new(binary());
    command.current_dir(example()).args(line.split_whitespace());
    if ["run", "shrink", "selftest", "gate", "report"].iter().any(|verb| line.starts_with(verb)) {
        command.arg("--out").arg(out);
        // One folder for all of them.
        command.args((!line.starts_with("shrink")).then_some("--force"));
    }
    command.env_remove("CI_NODE_INDEX").env_remove("CI_NODE_TOTAL").output().unwrap()
}

/// The text that a command line prints. Fails if its exit code is not `code`.
fn told(out: &Path, line: &str, code: i32) -> String {
    let output = command(out, line);
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{line}\n{text}{errors}");
    text.into_owned()
}

/// A folder for the files of a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stranger").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[track_caller]
fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
}

#[test]
fn an_allocator_that_follows_the_rules_holds_under_faults_and_shows_its_metrics() {
    let out = folder("holds");
    let text = told(&out, "run scenarios/chaos --seeds 40", 0);
    assert_has(&text, &["ok", "whereabouts-swarm", "addresses-given", "addresses-reconciled"]);
    let json: serde_json::Value = serde_json::from_str(&told(&out, "run scenarios/chaos --seeds 40 --format json", 0)).unwrap();
    let metrics = json["scenarios"][0]["metrics"].as_array().unwrap();
    let max_of = |name: &str| metrics.iter().find(|metric| metric["name"] == name).unwrap()["max"].as_f64().unwrap();
    assert!(max_of("addresses-given") > 1.0 && max_of("addresses-reconciled") >= 1.0, "{metrics:?}");
}

#[test]
fn its_own_metric_is_reported_over_two_values_of_one_of_its_settings() {
    let out = folder("metrics");
    let line = "report metrics scenarios/chaos --vary workload.nodes=2,4 --metric addresses-given --seeds 12";
    let text = told(&out, line, 0);
    assert_has(&text, &["addresses-given", "whereabouts-swarm, nodes 2", "whereabouts-swarm, nodes 4", ", significant."]);
    let files =
        || ["values.csv", "metrics.csv", "index.html", "system-addresses-given.svg"].map(|name| std::fs::read(out.join(name)).unwrap());
    let first = files();
    let report: serde_json::Value = serde_json::from_str(&told(&out, &format!("{line} --jobs 1 --format json"), 0)).unwrap();
    assert_eq!(report["schema"], "ipam-sim/report-metrics/1");
    assert!(report["made"]["command"].as_str().unwrap().starts_with("whereabouts-sim report metrics "), "{}", report["made"]);
    let [two, four] = report["summaries"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!([two, four].map(|one| one["varied"].as_str().unwrap()), ["workload.nodes=2", "workload.nodes=4"]);
    assert_eq!(
        [two, four].map(|one| (&one["metric"], &one["source"], &one["runs"])),
        [(&"addresses-given".into(), &"system".into(), &12.into()); 2]
    );
    let low_of = |one: &serde_json::Value, end: &str| one["mean"][end].as_f64().unwrap();
    assert!(low_of(two, "high") < low_of(four, "low"), "twice as many nodes have more pods: {two} {four}");
    // `--jobs` is no part of the command, so that even the page is the same.
    assert!(first == files(), "the same arguments give other bytes");
}

#[test]
fn both_planted_bugs_are_found_shrunk_and_told() {
    for (mutation, claim) in [("reads-outside-lease", "no-address-is-given-twice"), ("reconciler-trusts-cache", "only-the-owner-releases")]
    {
        let out = folder(mutation);
        let text = told(&out, &format!("run scenarios/negative/{mutation}.toml"), 0);
        assert_has(&text, &["fails as it must", claim]);
        let plans = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
        let plan = plans.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).min().unwrap();
        assert_has(&std::fs::read_to_string(&plan).unwrap(), &["replay = \"whereabouts-sim replay "]);
        let smaller = out.join("smaller.toml");
        let text = told(&smaller, &format!("shrink {} --claim {claim} --runs 400 --budget 10s", plan.display()), 0);
        assert_has(&text, &[claim, mutation]);
        assert_has(&std::fs::read_to_string(smaller).unwrap(), &[mutation]);

        let html = out.join("story.html");
        let text = told(&out, &format!("replay {} --html {}", plan.display(), html.display()), 1);
        assert_has(&text, &[claim]);
        assert_has(&std::fs::read_to_string(html).unwrap(), &[claim, "ADD of default/pod-", "recorded for default/pod-"]);
    }
}

#[test]
fn its_claims_and_mutations_are_listed_and_its_scenarios_checked() {
    let out = folder("list");
    let text = told(&out, "list", 0);
    let claims = ["no-address-is-given-twice", "only-the-owner-releases", "every-pod-gets-an-address"];
    assert_has(&text, &claims);
    assert_has(&text, &["whereabouts-swarm", "reads-outside-lease", "reconciler-trusts-cache"]);
    assert!(!told(&out, "list claims", 0).contains("spiderpool"), "the claims of a system that is not registered are listed");
    told(&out, "check scenarios", 0);
}

#[test]
fn its_own_manifests_are_checked_and_nobody_elses_webhooks_are_asked() {
    let out = folder("check");
    let file = |name: &str, text: &str| {
        std::fs::write(out.join(name), text).unwrap();
        out.join(name).display().to_string()
    };
    let pool =
        |rest: &str| format!("apiVersion: whereabouts.example.com/v1alpha1\nkind: IPPool\nmetadata: {{name: p, namespace: a}}\n{rest}");
    let (good, bad) = (pool("spec: {allocations: {'1': a/b}}\n"), pool("spec: {allocations: {x: a/b}}\n"));
    assert_has(&told(&out, &format!("check {}", file("good.yaml", &good)), 0), &["1 file: no problem"]);
    assert_has(&told(&out, &format!("check {}", file("bad.yaml", &bad)), 2), &["bad.yaml", "error", "allocations"]);
    let twice = told(&out, &format!("check {}", file("twice.yaml", &format!("{good}---\n{good}"))), 0);
    assert_has(&twice, &["another IPPool is called p, too"]);
    // Spiderpool's webhooks would refuse it.
    let foreign = "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\nmetadata: {name: p}\nspec: {subnet: x}\n";
    let foreign = told(&out, &format!("check {}", file("foreign.yaml", foreign)), 0);
    assert_has(&foreign, &["does not serve SpiderIPPool"]);
    assert!(!foreign.contains("spec.subnet"), "{foreign}");

    let help = told(&out, "check --help", 0);
    assert!(!help.contains("Spiderpool") && !help.contains("--profile"), "{help}");
    let refused = command(&out, "check scenarios --profile upstream");
    assert_eq!(refused.status.code(), Some(2));
    assert_has(&String::from_utf8_lossy(&refused.stderr), &["unexpected argument '--profile' found"]);
}

#[test]
fn without_an_explainer_there_is_no_verb_for_it() {
    let out = folder("explain");
    for line in ["explain", "explain --help", "explain --manifests . --pod a/b", "explain --reclaim --format json"] {
        let refused = command(&out, line);
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0), "{line}");
        assert_has(&String::from_utf8_lossy(&refused.stderr), &["whereabouts-sim has no verb `explain`: no system of it explains"]);
    }
    assert!(!told(&out, "--help", 0).contains("explain"), "a verb that is not there is offered");
}

#[test]
fn help_and_hints_call_it_by_its_name() {
    let out = folder("help");
    for line in ["--help", "run --help"] {
        let help = told(&out, line, 0);
        assert_has(&help, &["Usage: whereabouts-sim", "  whereabouts-sim run "]);
        assert!(!help.contains("  ipam-sim "), "{help}");
    }
    let errors = command(&out, "run scenarios/chaos --variant nothing").stderr;
    assert_has(&String::from_utf8_lossy(&errors), &["`whereabouts-sim list scenarios` shows all"]);
}

#[test]
fn its_kill_matrix_and_its_gate_pass() {
    let out = folder("gate");
    let text = told(&out, "selftest --seeds 20 --ranges 1 --no-shrink", 0);
    assert_has(&text, &["reads-outside-lease", "reconciler-trusts-cache"]);
    let text = told(&out, "gate --times 1 --budget 170s", 0);
    assert_has(&text, &["3 held", "1 held", "2 found", "The gate is open"]);
}

#[test]
fn the_code_in_the_documentation_is_that_of_the_example() {
    let documentation = std::fs::read_to_string(example().join("../../own-system.md")).unwrap();
    let files = ["allocator", "claims", "main", "note", "objects", "workload"];
    let code: String = files.iter().map(|file| std::fs::read_to_string(example().join(format!("src/{file}.rs"))).unwrap()).collect();
    let blocks: Vec<&str> = documentation.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 5, "{blocks:#?}");
    for block in blocks {
        assert!(code.contains(block), "not in the example:\n{block}");
    }
}

#[test]
fn a_system_is_written_in_less_than_five_hundred_lines() {
    let files = std::fs::read_dir(example().join("src")).unwrap().map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    let lines: usize = files.map(|text| text.lines().count()).sum();
    assert!(lines < 500, "the example has {lines} lines: what every system needs belongs to the library");
}
