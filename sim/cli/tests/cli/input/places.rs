//! Every refusal names the file, the line and the column.

use std::fs;
use std::path::Path;

use sim_harness::scenario::Scenario;

use super::{ipam_sim, scenario, scratch};

#[test]
fn every_refusal_has_its_place() {
    let folder = scratch("places");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let manifests = scenario("manifests");
    let calm = scenario("smoke/spiderpool-calm.toml");
    let trace = scenario("capacity/spiderpool-trace.toml");
    let nothing = file("nothing.yaml", b"# nothing\n");
    let list = file("list.yaml", b"apiVersion: v1\nkind: List\nitems: []\n");
    let two = file("two.yaml", b"enableIPv4: true\n---\nenableIPv6: true\n");
    let service = file("service.yaml", b"apiVersion: v1\nkind: Service\nmetadata: {name: a}\n");
    let header = "name,creation_time,deletion_time,scheduled_time\n";
    let [empty, no_pod] = [file("empty.csv", b""), file("header.csv", header.as_bytes())].map(|path| format!("workload.trace={path}"));
    let bytes = file("bytes.csv", b"schema\nab\xff\n");
    let bytes_json = file("bytes.json", b"{\n\"a\": \"\xff\"}");
    let foreign = file("foreign.csv", b"a,b\n1,2\n");
    let other = file("other.yaml", b"apiVersion: v1\nkind: List\nitems: []\n");
    let twin = file("twin.toml", &fs::read(&calm).unwrap());
    let names_itself = fs::read_to_string(&calm).unwrap().lines().position(|line| line.starts_with("name = ")).unwrap() + 1;
    let same_name = format!("twin.toml:{names_itself}:8: another scenario is called `spiderpool-calm`, too");
    let late = file("late.csv", format!("{header}a,9000000,9000001,\n").as_bytes());
    let late = format!("workload.trace={late}");
    for (args, expected) in [
        (vec!["check", &nothing], "nothing.yaml:1:1: error: holds no object"),
        (vec!["explain", "--pod", "a/b", "--manifests", &nothing], "nothing.yaml:1:1: holds no object"),
        (vec!["run", &calm, "--manifests", &list], "list.yaml:1:1: the manifests hold no node"),
        (vec!["explain", "--pod", "shop/reasons", "--manifests", &manifests, "--settings", &two], "two.yaml:3:1: holds 2 documents"),
        (vec!["explain", "--pod-file", &service], "service.yaml:1:1: holds no Pod"),
        (vec!["run", &trace, "--set", &empty], "empty.csv:1:1: the trace is empty"),
        (vec!["run", &trace, "--set", &no_pod], "header.csv:2:1: the trace has no pod"),
        (vec!["report", "conflicts", "--from", &bytes], "bytes.csv:2:3: the byte 0xff is not UTF-8"),
        (vec!["report", "conflicts", "--from", &foreign], "foreign.csv:1:1: cannot be drawn again: it is no table of points"),
        (
            vec!["report", "capacity", "--from", &foreign, "--objective", "exhausted<1%"],
            "foreign.csv:1:1: cannot be drawn again: it is no table of sizes",
        ),
        (vec!["merge", &bytes_json], "bytes.json:2:7: the byte 0xff is not UTF-8"),
        (vec!["run", &calm, "--manifests", &list, &other], "list.yaml:1:1: the manifests hold no node"),
        (vec!["run", &calm, "--manifests", &list, &other], "other.yaml:1:1: the manifests hold no node"),
        (vec!["run", &calm, &twin], &same_name),
        (vec!["run", &trace, "--set", &late], "late.csv:1:1: no pod of the trace comes before the run ends"),
    ] {
        let (code, out, err) = ipam_sim(&args);
        assert_eq!(code, 2, "{args:?}: {out}{err}");
        assert!(format!("{out}{err}").contains(expected), "{args:?}: {out}{err}");
    }
}

#[test]
fn a_trace_that_is_not_there_is_a_problem_of_the_scenario_that_names_it() {
    let folder = scratch("trace");
    let text = fs::read_to_string(scenario("capacity/spiderpool-trace.toml")).unwrap();
    let (line, named) = text.lines().enumerate().find(|(_, line)| line.starts_with("trace = ")).unwrap();
    let file = folder.join("t.toml");
    fs::write(&file, &text).unwrap();
    let (code, _, err) = ipam_sim(&["run", &file.display().to_string()]);
    let expected = format!("t.toml:{}:9: the trace {} does not exist", line + 1, named.split('"').nth(1).unwrap());
    assert!(code == 2 && err.contains(&expected), "{err}");
}

#[test]
fn an_operation_on_a_node_that_is_not_there_is_the_one_that_is_named() {
    let folder = scratch("node");
    let calm = Scenario::read(Path::new(&scenario("smoke/spiderpool-calm.toml"))).unwrap();
    let plan = folder.join("plan.toml");
    let names_a_node = |seed: &u64| calm.draw(*seed).to_toml().contains("\nnode = ");
    let seed = (0..50).find(names_a_node).expect("a bare pod names its node");
    fs::write(&plan, calm.draw(seed).to_toml()).unwrap();
    let text = fs::read_to_string(&plan).unwrap();
    let (line, _) = text.lines().enumerate().filter(|(_, line)| line.starts_with("node = ")).last().expect("a pod names its node");
    let wrong: Vec<&str> = text.lines().enumerate().map(|(at, text)| if at == line { "node = 77" } else { text }).collect();
    fs::write(&plan, wrong.join("\n")).unwrap();
    let (code, _, err) = ipam_sim(&["replay", &plan.display().to_string()]);
    assert!(code == 2 && err.contains(&format!(".toml:{}:8: there is no node 77", line + 1)), "{err}");
}

#[test]
fn a_line_break_in_a_name_makes_no_line_in_an_error() {
    let file = scratch("line-break").join("pod.json");
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a\n::error file=x::y", "namespace": "shop"}}"#;
    fs::write(&file, pod).unwrap();
    let (code, _, err) = ipam_sim(&["explain", "--manifests", &file.display().to_string(), "--pod", "shop/b"]);
    assert!(code == 2 && err.contains(r#"the Pod "a\n::error file=x::y" is invalid"#), "{err}");
    assert!(err.lines().all(|line| !line.starts_with("::")), "{err}");
}
