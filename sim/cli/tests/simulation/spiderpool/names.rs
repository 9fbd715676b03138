//! Scripted operations name objects that can exist: in the generated cluster, or in that of the manifests.

use std::fs;
use std::path::Path;

use sim_spiderpool::Operation;

use super::{ipam_sim, scenario, scratch};

/// A cluster with one pool and one StatefulSet.
const MINE: &str = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: worker-7}}
- apiVersion: spiderpool.spidernet.io/v2beta1
  kind: SpiderIPPool
  metadata: {name: mine}
  spec: {subnet: 10.9.0.0/24, ips: [10.9.0.20-10.9.0.60], default: true}
- apiVersion: apps/v1
  kind: StatefulSet
  metadata: {name: db, namespace: shop}
  spec:
    replicas: 2
    selector: {matchLabels: {app: db}}
    template:
      metadata: {labels: {app: db}}
      spec: {containers: [{name: db, image: app}]}
";

const SCENARIO: &str = r#"
name = "named"
why = "a test"
seeds = 1
[phases]
safety = "10s"
liveness = "30s"
[workload]
kind = "spiderpool"
pools = 1
[check]
always = ["no-address-has-two-live-sandboxes"]
[[op]]
kind = "edit-pool"
at = "1s"
actor = "operator"
pool = "mine"
nodes = ["worker-7"]
[[op]]
kind = "scale-app"
at = "2s"
actor = "operator"
namespace = "shop"
app = "db"
replicas = 3
"#;

/// The exit code and the output of `verb` with the file of this scenario and these arguments; the folder of the file is `dir`.
fn said(folder: &Path, scenario: &str, verb: &str, more: &[&str]) -> (u8, String) {
    let file = folder.join("named.toml");
    fs::write(&file, scenario).unwrap();
    let (code, out, err) = ipam_sim(&[&[verb, &file.display().to_string()][..], more].concat());
    (code, (out + &err).replace(&folder.display().to_string(), "dir"))
}

#[test]
fn a_script_is_judged_by_the_cluster_that_it_runs_on() {
    let folder = scratch("names");
    let file = folder.join("mine.yaml");
    fs::write(&file, MINE).unwrap();
    let mine = ["--manifests", &file.display().to_string(), "--seeds", "1", "--no-plans"];
    let own = SCENARIO.replace("[check]", "[cluster]\nmanifests = [\"mine.yaml\"]\n[check]");
    for (code, said) in
        [said(&folder, SCENARIO, "run", &mine), said(&folder, &own, "check", &[]), said(&folder, &own, "run", &["--no-plans"])]
    {
        assert_eq!(code, 0, "{said}");
    }
    // The generated cluster contains none of these.
    let (code, generated) = said(&folder, SCENARIO, "check", &[]);
    assert_eq!(code, 2);
    insta::assert_snapshot!(generated, @r"
    dir/named.toml:17:8: error: an operation names the pool `mine`, and no run has one of that name; known pools: `v4-0`, `v6-0`
    dir/named.toml:18:10: error: an operation names the node `worker-7`, and no run has one of that name; known nodes: `node-0`, `node-1`, `node-2`
    dir/named.toml:24:7: error: an operation names the application `db` in the namespace `shop`, and no run has one of that name; there is no application; one that another operation makes counts as well
    1 file: 3 errors
    ");
    let (code, slip) = said(&folder, &SCENARIO.replace("\"mine\"", "\"mein\"").replace("\"db\"", "\"dbs\""), "run", &mine);
    assert_eq!(code, 2);
    insta::assert_snapshot!(slip, @r"
    error: dir/named.toml:17:8: an operation names the pool `mein`, and no run has one of that name; the only known pool is `mine`
    dir/named.toml:24:7: an operation names the application `dbs` in the namespace `shop`, and no run has one of that name; did you mean `db`?
    dir/named.toml: the scenario's operations refer to objects that are missing from --manifests; edit the operations, or drop this scenario
    ");
}

#[test]
fn what_variants_share_is_wrong_once_and_at_its_place() {
    let folder = scratch("names-of-variants");
    let text = SCENARIO.replace("\"mine\"", "\"v4-0\"").replace("worker-7", "node-1").replace("namespace = \"shop\"\n", "")
        + "[[variant]]\nname = \"one\"\nwhy = \"w\"\n[[variant]]\nname = \"two\"\nwhy = \"w\"\n\
           op = [{ kind = \"delete-pool\", at = \"1s\", actor = \"operator\", pool = \"nope\" }]\n\
           [[variant]]\nname = \"three\"\nwhy = \"w\"\n";
    let (code, all) = said(&folder, &text, "check", &[]);
    assert_eq!(code, 2);
    insta::assert_snapshot!(all, @r"
    dir/named.toml:23:7: error: an operation names the application `db` in the namespace `default`, and no run has one of that name; there is no application; one that another operation makes counts as well
    dir/named.toml:31:69: error: an operation names the pool `nope`, and no run has one of that name; known pools: `v4-0`, `v6-0`
    1 file: 2 errors
    ");
    let (code, of_run) = said(&folder, &text, "run", &["--variant", "two"]);
    assert!(code == 2 && of_run.contains("`nope`") && !of_run.contains("`db`"), "{of_run}");
    let (code, of_replay) = said(&folder, &text, "replay", &["--variant", "two", "--seed", "0"]);
    assert!(code == 2 && of_replay.contains("`nope`"), "{of_replay}");
}

#[test]
fn a_pod_that_nobody_runs_is_not_deleted() {
    let folder = scratch("names-of-pods");
    let text = "name = \"pods\"\nwhy = \"w\"\n[workload]\nkind = \"byom\"\n[check]\nalways = []\n\
                [[op]]\nkind = \"run-pod\"\nat = \"1s\"\nactor = \"operator\"\npod = \"web\"\nnode = 0\n\
                [[op]]\nkind = \"delete-pod\"\nat = \"9s\"\nactor = \"operator\"\npod = \"webb\"\n";
    let (code, refused) = said(&folder, text, "check", &[]);
    assert_eq!(code, 2);
    insta::assert_snapshot!(refused, @r"
    dir/named.toml:17:7: error: an operation names the pod `webb`, and no run has one of that name; did you mean `web`?
    1 file: 1 error
    ");
    assert_eq!(said(&folder, &text.replace("webb", "web"), "check", &[]).0, 0);
}

#[test]
fn a_plan_may_have_lost_what_its_operations_name() {
    let folder = scratch("names-of-plans");
    let text = SCENARIO.replace("\"mine\"", "\"v4-0\"").replace("worker-7", "node-1").replace("namespace = \"shop\"\n", "")
        + "[[op]]\nkind = \"apply-app\"\nat = \"1s\"\nactor = \"operator\"\napp = \"db\"\ntype = \"stateful-set\"\n";
    assert_eq!(said(&folder, &text, "check", &[]).0, 0);
    let mut plan = scenario("names-of-plans", &text).draw(0);
    plan.op.retain(|op| !matches!(op.kind.own(), Operation::ApplyApp(_)));
    let lost = folder.join("lost.toml");
    fs::write(&lost, plan.to_toml()).unwrap();
    let (code, out, err) = ipam_sim(&["check", &lost.display().to_string()]);
    assert_eq!(code, 0, "{out}{err}");
}
