//! The messages about wrong input.

use crate::{Folder, SMALL, json, run};

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
    let op = "[[op]]\nkind = \"set-settings\"\nat = \"1s\"\nactor = \"operator\"\nsettings = { enableIPv6 = \"no\" }\n";
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
        ("", "closed_loop = { times = 0 }\n", ":9:17: `workload.closed_loop.times` may be 0; at least 1"),
        (
            "",
            "closed_loop = { times = 2 }\non_demand = true\n",
            ":10:1: `workload.closed_loop` and `workload.on_demand` do not go together: in a closed loop nodes have no kubelets; \
             one of them",
        ),
        (
            "[[op]]\nkind = \"apply-app\"\nat = \"1s\"\nactor = \"operator\"\napp = \"web\"\ntype = \"pod\"\n",
            "closed_loop = { times = 2 }\n",
            ":8:7: `web` would stay without a network: in a closed loop (`workload.closed_loop`) nodes have no kubelets; no application,",
        ),
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
        (
            "[[fault]]\nkind = \"pause\"\nprocess = \"some:agent-*,agnt-0\"\n",
            "",
            ":6:11: the fault `pause` is about `some:agent-*,agnt-0`, of which `agnt-0` is no process and no host",
        ),
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

    // No pod asks for an address: there is no size to find.
    let pending = set("pending.csv", "a,10,,\n");
    let out_dir = folder.0.join("report").display().to_string();
    let hour = "scenarios/capacity/trace-hour.toml";
    let args = ["report", "capacity", hour, "--objective", "refused<1%", "--seeds", "1", "--set", &pending, "--out", &out_dir];
    let (code, out, err) = run(&args);
    assert!(code == 2 && out.is_empty() && err.contains("no pod of `trace-hour` asks for an address"), "{out}{err}");
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
        (small("[check]", "[cluster.capacity]\nclient = { constant = \"34s\" }\n[check]"), "less than 34 s"),
        (
            small("[check]", "[cluster.capacity]\nbackground = 3\n[check]"),
            "`cluster.capacity.background` is 3, which never leaves a processor that works in turn",
        ),
        (
            small("[check]", "[cluster.capacity]\nside_by_side = 4\n[check]"),
            "`cluster.capacity.side_by_side` is 4, but processors work in turn",
        ),
        (
            small("[check]", "[cluster.capacity]\ndiscipline = \"processor-sharing\"\nwidth = 4\nside_by_side = 3\n[check]"),
            "so that some of 4 processors never work; at least 4",
        ),
        (small("[check]", "[cluster.delays]\nwrite_at_least = \"34s\"\n[check]"), "less than 34 s"),
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
        ("kind = \"increment\"\nat = \"", "kind = \"increment\"\nat = \"never\" # ", "would never take place"),
        ("\nclients = ", "\nclients = 9999", "at most 10000"),
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
    // A dump of a real cluster holds types that the simulated one does not serve.
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
