//! `run --manifests`: the user's own cluster under the faults of a scenario.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ipam_reports::{ReplayReport, RunReport};
use sim_harness::plan::Plan;
use sim_spiderpool::Plans;
use sim_spiderpool::workload::SpiderPlan;

use super::{ipam_sim, scenarios, scratch};

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// The report of `run SCENARIO --manifests PATH`.
fn swept(scenario: &str, manifests: &Path, more: &[&str]) -> RunReport {
    let (file, manifests) = (text(&scenarios().join(scenario)), text(manifests));
    let args = ["run", &file, "--manifests", &manifests, "--format", "json"];
    let (code, out, err) = ipam_sim(&[&args[..], more].concat());
    assert!(!out.is_empty(), "{code}: {err}");
    RunReport::from_json(&out).unwrap()
}

/// The names of the pools of a cluster, and of those from which addresses were given.
fn pools(dump: &str) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let (mut all, mut used) = (BTreeSet::new(), BTreeSet::new());
    for object in dump.split("---\n").filter(|object| object.contains("\nkind: SpiderIPPool\n")) {
        let name = object.lines().find_map(|line| line.strip_prefix("  name: ")).unwrap();
        all.insert(name);
        if object.contains("podUid") {
            used.insert(name);
        }
    }
    (all, used)
}

fn spider(plan: &Plan) -> &SpiderPlan {
    let Some(spider) = plan.workload.get().map(Plans::cluster) else { panic!("another workload") };
    spider
}

/// A cluster as a user may write it: no Node, no Namespace, a pool without the fields that webhooks add.
const MINE: &str = "
apiVersion: v1
kind: List
items:
- apiVersion: spiderpool.spidernet.io/v2beta1
  kind: SpiderIPPool
  metadata: {name: mine}
  spec: {subnet: 10.9.0.0/24, ips: [10.9.0.20-10.9.0.60], default: true}
- apiVersion: apps/v1
  kind: StatefulSet
  metadata: {name: db, namespace: shop}
  spec:
    replicas: 3
    serviceName: db
    selector: {matchLabels: {app: db}}
    template:
      metadata: {labels: {app: db}}
      spec: {containers: [{name: db, image: app}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: runs, namespace: shop, uid: 0d7b9a51-6d24-4a5a-9d4c-8a4a5a3d8e01}
  spec: {nodeName: worker-7, containers: [{name: main, image: app}]}
  status: {phase: Running, podIP: 10.9.0.33, podIPs: [{ip: 10.9.0.33}]}
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: spiderpool-conf, namespace: kube-system}
  data:
    conf.yml: |
      enableIPv4: true
      enableStatefulSet: false
      enableIPv6: false
";

#[test]
fn the_cluster_of_the_manifests_takes_the_place_of_a_generated_one_and_digests_agree() {
    let manifests = scenarios().join("manifests");
    let one = swept("smoke/spiderpool-calm.toml", &manifests, &["--seeds", "4", "--jobs", "1"]);
    let two = swept("smoke/spiderpool-calm.toml", &manifests, &["--seeds", "4", "--jobs", "2"]);
    let generated = swept_without(&["--seeds", "4"]);
    let digest = |report: &RunReport| report.scenarios[0].digest;
    assert_eq!((one.exit_code, digest(&one)), (0, digest(&two)));
    assert_ne!(digest(&one), digest(&generated));
    assert!(one.scenarios[0].allocations.succeeded > 0);
}

fn swept_without(more: &[&str]) -> RunReport {
    let file = text(&scenarios().join("smoke/spiderpool-calm.toml"));
    let (_, out, err) = ipam_sim(&[&["run", &file, "--format", "json"][..], more].concat());
    assert!(err.is_empty() || !out.is_empty(), "{err}");
    RunReport::from_json(&out).unwrap()
}

#[test]
fn what_manifests_do_not_hold_is_there_and_their_settings_count() {
    let folder = scratch("mine");
    let file = folder.join("mine.yaml");
    fs::write(&file, MINE).unwrap();
    // Only plans of failures are written, so this requires what no run can satisfy.
    let out = text(&folder.join("out"));
    let at_once = "check.eventually=[{claim=\"pods-get-addresses\",within=\"1ms\"}]";
    let more = ["--seeds", "1", "--set", "phases.safety=50ms", "--set", at_once, "--force", "--out", &out];
    let report = swept("smoke/spiderpool-calm.toml", &file, &more);
    let failure = report.scenarios[0].failures.first().expect("no pod starts within 50 ms");
    let plan_file = failure.plan.clone().expect("the plan of a failure is written");
    let plan = Plan::read(Path::new(&plan_file)).unwrap_or_else(|problems| panic!("{problems}"));
    let spider = spider(&plan);
    assert_eq!((spider.nodes, spider.node_names.as_slice()), (1, ["worker-7".to_owned()].as_slice()));
    assert_eq!(spider.settings["enableStatefulSet"], "false");
    assert!(spider.namespaces.contains_key("shop") && spider.pools.is_empty());
    // The plan is replayed and shrunk, and its end is a cluster again.
    let dump = folder.join("dump.yaml");
    let (code, out, err) = ipam_sim(&["replay", &plan_file, "--dump", &text(&dump), "--format", "json"]);
    assert_eq!(code, 3, "{err}");
    assert_eq!(ReplayReport::from_json(&out).unwrap().digest, plan.recorded.as_ref().unwrap().digest);
    let dumped = fs::read_to_string(&dump).unwrap();
    let (all, used) = pools(&dumped);
    assert_eq!((all, used), (BTreeSet::from(["mine"]), BTreeSet::from(["mine"])));
    assert!(dumped.contains("podIP: \"10.9.0.2"), "{dumped}");
    let small = text(&folder.join("small.toml"));
    let (code, _, err) = ipam_sim(&["shrink", &plan_file, "--out", &small]);
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = ipam_sim(&["replay", &small]);
    assert_eq!(code, 3, "what is smaller still fails: {err}");
    let again = swept("smoke/spiderpool-calm.toml", &dump, &["--seeds", "2", "--force", "--out", &text(&folder.join("again"))]);
    assert_eq!((again.exit_code, &again.scenarios[0].failures[..]), (0, &[][..]));
}

/// A SpiderSubnet, and a Deployment that requests a pool of it which does not exist yet.
const SUBNET: &str = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}}
- {apiVersion: v1, kind: Node, metadata: {name: n2}}
- apiVersion: spiderpool.spidernet.io/v2beta1
  kind: SpiderSubnet
  metadata: {name: s4}
  spec: {subnet: 10.5.0.0/24, ips: [10.5.0.1-10.5.0.60]}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, namespace: shop}
  spec:
    replicas: 3
    selector: {matchLabels: {app: web}}
    template:
      metadata:
        labels: {app: web}
        annotations: {ipam.spidernet.io/subnet: '{\"ipv4\":[\"s4\"]}', ipam.spidernet.io/ippool-ip-number: '+1'}
      spec: {containers: [{name: web, image: app}]}
";

/// The report on a folder with one file of manifests, for every seed of a scenario.
fn brought(name: &str, text: &str, scenario: &str, more: &[&str]) -> RunReport {
    let file = scratch(name).join("cluster.yaml");
    fs::write(&file, text).unwrap();
    swept(scenario, &file, more)
}

#[test]
fn subnets_and_applications_without_a_pool_are_a_cluster_in_which_pools_are_made() {
    let report = brought("subnet", SUBNET, "smoke/subnets.toml", &["--seeds", "20", "--no-plans"]);
    let scenario = &report.scenarios[0];
    assert_eq!((report.exit_code, &scenario.failures[..]), (0, &[][..]));
    assert!(scenario.brought && scenario.allocations.succeeded >= 60, "{:?}", scenario.allocations);
    let made = scenario.sometimes.iter().find(|claim| claim.claim == "an-auto-pool-is-made").unwrap();
    assert_eq!(made.held_in, 20);
    // The same cluster needs no scenario with its own subnets.
    let elsewhere = brought("subnet", SUBNET, "smoke/spiderpool-calm.toml", &["--seeds", "4", "--no-plans"]);
    assert_eq!(elsewhere.exit_code, 0, "{:?}", elsewhere.scenarios[0].failures);
    assert!(elsewhere.scenarios[0].allocations.succeeded > 0);
}

#[test]
fn nothing_is_generated_beside_nodes_and_applications_that_have_no_pool() {
    let items = SUBNET.replace("kind: SpiderSubnet", "kind: SpiderReservedIP").replace("{subnet: 10.5.0.0/24, ips", "{ips");
    let report = brought("no-pool", &items, "smoke/subnets.toml", &["--seeds", "4", "--no-plans"]);
    let scenario = &report.scenarios[0];
    assert_eq!((report.exit_code, &scenario.failures[..]), (0, &[][..]));
    assert_eq!(scenario.allocations.succeeded, 0, "there is no pool to give from");
}

#[test]
fn what_the_cluster_of_the_manifests_cannot_show_is_said_and_not_held_against_the_sweep() {
    let (file, folder) = (text(&scenarios().join("smoke/spiderpool-dual.toml")), scratch("unseen"));
    let mine = folder.join("mine.yaml");
    fs::write(&mine, MINE).unwrap();
    let (code, out, err) = ipam_sim(&["run", &file, "--manifests", &text(&mine), "--seeds", "20", "--no-plans"]);
    assert_eq!(code, 0, "{out}{err}");
    let note = out.lines().find(|line| line.starts_with("note ")).unwrap_or_else(|| panic!("{out}"));
    assert!(note.contains("does not show ") && note.contains(" an-answer-has-several-nics, an-endpoint-answers"), "{note}");
    let power = format!("ipam-sim selftest {file} --must-hold --manifests ...");
    assert!(out.contains(&power), "a run that holds says how much that says: {out}");
    // A scenario that generates its own cluster has no such excuse.
    let own = swept("smoke/byom-calm.toml", &mine, &["--seeds", "1", "--no-plans"]);
    assert!(!own.scenarios[0].brought);
}

#[test]
fn manifests_that_hold_no_cluster_are_refused() {
    let (file, folder) = (text(&scenarios().join("smoke/spiderpool-calm.toml")), scratch("nothing"));
    let refused = |name: &str, text_of: &str| {
        let path = folder.join(name);
        fs::write(&path, text_of).unwrap();
        let (code, out, err) = ipam_sim(&["run", &file, "--manifests", &text(&path), "--seeds", "1", "--no-plans"]);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        err.replace(&text(&folder), "dir")
    };
    insta::assert_snapshot!(refused("empty.yaml", "apiVersion: v1\nkind: List\nitems: []\n"), @"error: dir/empty.yaml:1:1: the manifests hold no node, no workload and no object of a system under test; `--manifests` takes what `kubectl get ... -A -o yaml` prints of nodes, namespaces, workloads, pods, ConfigMaps and the custom resources of the system");
    let wrong = MINE.replace("enableIPv6: false", "enableIPv6: maybe\n      enableIPv66: true");
    insta::assert_snapshot!(refused("settings.yaml", &wrong), @r#"
    error: dir/settings.yaml:31:19: enableIPv6 cannot be the string "maybe"; expected true or false
    dir/settings.yaml:32:7: unknown setting `enableIPv66`; did you mean `enableIPv6`?
    "#);
    let wrong = MINE.replace("default: true}", "default: true}\n  status: {allocatedIPs: '{'}");
    insta::assert_snapshot!(refused("records.yaml", &wrong), @"error: dir/records.yaml:9:26: SpiderIPPool mine: status.allocatedIPs: unreadable JSON text: EOF while parsing an object at line 1 column 1");
}

/// Exit code, standard output and standard error of the program, run in `folder`.
fn program_in(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_ipam-sim")).args(args).current_dir(folder).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_plan_of_what_came_from_standard_input_replays_without_it() {
    let folder = scratch("piped");
    fs::write(folder.join("mine.yaml"), MINE).unwrap();
    let scenario = text(&scenarios().canonicalize().unwrap().join("smoke/spiderpool-calm.toml"));
    let at_once = "check.eventually=[{claim=\"pods-get-addresses\",within=\"1ms\"}]";
    let args = ["run", &scenario, "--manifests", "-", "--seeds", "1", "--out", "plans", "--no-shrink", "--force"];
    let mut run = Command::new(env!("CARGO_BIN_EXE_ipam-sim"));
    run.args(args).args(["--set", "phases.safety=50ms", "--set", at_once]).current_dir(&folder);
    let piped = fs::File::open(folder.join("mine.yaml")).unwrap();
    assert_eq!(run.stdin(piped).output().unwrap().status.code(), Some(3));
    let (code, out, err) = program_in(&scratch("elsewhere"), &["replay", &text(&folder.join("plans/spiderpool-calm-0.toml"))]);
    assert!(code == Some(3) && out.contains("   as recorded\n") && !out.contains("was edited"), "{out}{err}");
}

/// A folder with a cluster and a plan of a failing seed that used it, both named relative to the folder, and the path of the plan in it.
fn kept_plan(name: &str) -> (PathBuf, PathBuf) {
    let folder = scratch(name);
    fs::create_dir_all(folder.join("cluster")).unwrap();
    fs::write(folder.join("cluster/mine.yaml"), MINE).unwrap();
    let scenario = text(&scenarios().canonicalize().unwrap().join("smoke/spiderpool-calm.toml"));
    let at_once = "check.eventually=[{claim=\"pods-get-addresses\",within=\"1ms\"}]";
    let args = ["run", &scenario, "--manifests", "cluster/mine.yaml", "--seeds", "1", "--out", "plans", "--no-shrink", "--force"];
    let (code, _, err) = program_in(&folder, &[&args[..], &["--set", "phases.safety=50ms", "--set", at_once]].concat());
    assert_eq!(code, Some(3), "{err}");
    let plan = PathBuf::from("plans/spiderpool-calm-0.toml");
    assert!(folder.join(&plan).exists());
    (folder, plan)
}

#[test]
fn a_plan_finds_its_manifests_wherever_it_is_run_from() {
    let (folder, plan) = kept_plan("found");
    let elsewhere = scratch("elsewhere");
    let absolute = text(&folder.join(&plan));
    for (from, plan) in
        [(&folder, text(&plan)), (&elsewhere, absolute.clone()), (&folder.join("plans"), "spiderpool-calm-0.toml".to_owned())]
    {
        let (code, out, err) = program_in(from, &["replay", &plan]);
        assert_eq!(code, Some(3), "{out}{err}");
        assert!(out.contains("   as recorded\n") && !out.contains("was edited"), "{out}");
    }
    let (code, _, err) = program_in(&elsewhere, &["shrink", &absolute, "--out", "small.toml"]);
    assert_eq!(code, Some(0), "{err}");
    let (code, out, _) = program_in(&elsewhere, &["replay", "small.toml"]);
    assert!(code == Some(3) && out.contains("   as recorded\n"), "{out}");
    // Plan and manifests are moved together.
    let moved = folder.with_file_name("moved");
    let _ = fs::remove_dir_all(&moved);
    fs::rename(&folder, &moved).unwrap();
    let (code, out, err) = program_in(&elsewhere, &["replay", &text(&moved.join(&plan))]);
    assert!(code == Some(3) && out.contains("   as recorded\n") && !out.contains("was edited"), "{out}{err}");
}

#[test]
fn changed_manifests_are_told_as_that_and_not_as_nondeterminism() {
    let (folder, plan) = kept_plan("changed");
    let before = Plan::read(&folder.join(&plan)).unwrap().recorded.unwrap().manifests;
    // Manifests with the same content count as unchanged.
    let file = folder.join("cluster/mine.yaml");
    fs::write(&file, format!("# a remark\n{MINE}")).unwrap();
    assert_eq!(program_in(&folder, &["replay", &text(&plan)]).0, Some(3));
    fs::write(&file, MINE.replace("replicas: 3", "replicas: 2")).unwrap();
    // `check` gives the position in the plan, and names the manifests in the message.
    for (verb, place) in [("replay", "mine.yaml:1:1"), ("shrink", "mine.yaml:1:1"), ("check", "mine.yaml")] {
        let (code, out, err) = program_in(&folder, &[verb, &text(&plan)]);
        assert_eq!(code, Some(2), "{verb}: {out}{err}");
        let said = format!("{place}: the manifests changed since the plan was recorded: they were {before} and are ");
        assert!(format!("{out}{err}").contains(&said), "{verb}: {out}{err}");
    }
    fs::remove_file(&file).unwrap();
    let (code, _, err) = program_in(&folder, &["replay", &text(&plan)]);
    assert!(code == Some(2) && err.contains("mine.yaml: cannot be read"), "{err}");
}

#[test]
fn a_plan_that_does_not_say_what_its_manifests_held_is_read_as_before() {
    let (folder, plan) = kept_plan("older");
    let text_of = fs::read_to_string(folder.join(&plan)).unwrap();
    let without = |line: &&str| !line.starts_with("manifests = \"") && !line.starts_with("plan = \"");
    let older: String =
        text_of.replace("../cluster/mine.yaml", "cluster/mine.yaml").lines().filter(without).flat_map(|line| [line, "\n"]).collect();
    assert_ne!(older, text_of);
    fs::write(folder.join("plans/older.toml"), older).unwrap();
    let (code, out, err) = program_in(&folder, &["replay", "plans/older.toml"]);
    assert!(code == Some(3) && out.contains("   as recorded\n"), "{out}{err}");
}

#[test]
fn a_plan_without_manifests_says_nothing_of_them() {
    let (file, out) = (text(&scenarios().join("negative/counter-blind-writer.toml")), scratch("none"));
    ipam_sim(&["run", &file, "--seed", "0", "--out", &text(&out), "--force"]);
    let plan = fs::read_to_string(out.join("counter-blind-writer-0.toml")).unwrap();
    assert!(plan.contains("[recorded]") && !plan.contains("manifests") && !plan.contains("max_events"), "{plan}");
}
