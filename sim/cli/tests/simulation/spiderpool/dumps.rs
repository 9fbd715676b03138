//! For each record in any dump of a cluster, three parts agree: the explanation of `explain --reclaim`, the action of the collector in a
//! run, and the judgement of the claims.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use ipam_reports::{ExplainReclaimReport, ReplayReport};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Map, Value, json};
use sim_config::manifest;
use sim_harness::engine::load::{self, LoadOptions};

use super::{ipam_sim, scenarios, scratch};

/// The wall-clock time at the beginning of a run.
const BEGIN: &str = "2026-01-01T00:00:00Z";
const AN_HOUR_BEFORE: &str = "2025-12-31T23:00:00Z";
const SOON: &str = "2026-01-01T00:00:20Z";

/// A record and its surroundings: the case, its number, and its details.
#[derive(Clone, Copy, Debug)]
struct Case {
    what: What,
    number: usize,
    flags: [bool; 3],
}

/// The kinds of records that a cluster may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    LivePod,
    GonePod,
    EndpointOfGonePod,
    NameUsedAgain,
    StuckPod,
    EndedPod,
    EndingPod,
    NameOfNothing,
    NameOfNoPod,
    Ordinal,
    OrdinalServedOtherwise,
    Vm,
    Instance,
    ForeignSet,
    NamesakeOfVm,
    KeyOfNoAddress,
    UidUnderAnotherName,
    /// A pod that failed although its containers should restart: its node shut down, the kubelet refused it, or it ran too long.
    FailedPod,
    /// A live pod with two records, one of which its endpoint does not name.
    SecondRecord,
    /// A live pod whose only record is in a pool that serves no pod.
    RecordElsewhere,
    /// A pod of a ReplicaSet, a Job or another owner that was left out of the dump.
    OwnerLeftOut,
    /// An endpoint that names a pool which was left out.
    PoolLeftOut,
    /// The endpoint of a live pod was deleted: its finalizer keeps it.
    EndpointDeleted,
    /// The endpoint of a pod that is gone, or that terminates on an unreachable node, with the finalizer of another program.
    EndpointHeld,
}

use What::*;

const ALL: [What; 24] = [
    LivePod,
    GonePod,
    EndpointOfGonePod,
    NameUsedAgain,
    StuckPod,
    EndedPod,
    EndingPod,
    NameOfNothing,
    NameOfNoPod,
    Ordinal,
    OrdinalServedOtherwise,
    Vm,
    Instance,
    ForeignSet,
    NamesakeOfVm,
    KeyOfNoAddress,
    UidUnderAnotherName,
    FailedPod,
    SecondRecord,
    RecordElsewhere,
    OwnerLeftOut,
    PoolLeftOut,
    EndpointDeleted,
    EndpointHeld,
];

/// The settings and the content of a cluster.
#[derive(Clone, Debug)]
struct Drawn {
    keeps_places: bool,
    keeps_vms: bool,
    /// Whether the pool serves pods that name none.
    serves: bool,
    cases: Vec<Case>,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let case = (proptest::sample::select(ALL.to_vec()), 0..6_usize, any::<[bool; 3]>());
    let case = case.prop_map(|(what, number, flags)| Case { what, number, flags });
    let settings = (proptest::bool::weighted(0.8), proptest::bool::weighted(0.8), any::<bool>());
    (settings, proptest::collection::vec(case, 1..8)).prop_map(|((keeps_places, keeps_vms, serves), cases)| Drawn {
        keeps_places,
        keeps_vms,
        serves,
        cases,
    })
}

/// The objects of a cluster that is being built.
#[derive(Default)]
struct Dump {
    objects: Vec<Value>,
    records: Map<String, Value>,
    /// The records of a pool that serves only pods that name it.
    elsewhere: Map<String, Value>,
}

/// The owner of a pod: version, kind and name.
type Owner<'a> = Option<(&'a str, &'a str, &'a str)>;

impl Dump {
    fn record(&mut self, ip: &str, pod: &str, uid: &str) {
        self.records.insert(ip.to_owned(), json!({"pod": pod, "podUid": uid}));
    }

    fn pod(&mut self, name: &str, uid: &str, ip: Option<&str>, owner: Owner<'_>) -> &mut Value {
        let owners = owner.map(|(version, kind, name)| {
            json!([{"apiVersion": version, "kind": kind, "name": name, "uid": format!("uid-{name}"), "controller": true}])
        });
        let shown: Vec<Value> = ip.iter().map(|ip| json!({"ip": ip})).collect();
        self.objects.push(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "uid": uid, "ownerReferences": owners},
            "spec": {"nodeName": "n0", "terminationGracePeriodSeconds": 30, "containers": [{"name": "main", "image": "app"}]},
            "status": {"phase": "Running", "podIP": ip, "podIPs": shown},
        }));
        self.objects.last_mut().unwrap()
    }

    fn endpoint(&mut self, name: &str, uid: &str, ip: &str, owner_kind: &str, goes_with_pod: bool) -> &mut Value {
        let owners = goes_with_pod.then(|| json!([{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}]));
        self.objects.push(json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderEndpoint",
            "metadata": {
                "name": name, "namespace": "shop", "uid": format!("ep-{name}"), "finalizers": ["spiderpool.spidernet.io"],
                "ownerReferences": owners,
            },
            "status": {
                "current": {"uid": uid, "node": "n0", "ips": [{"interface": "eth0", "ipv4": format!("{ip}/24"), "ipv4Pool": "blue"}]},
                "ownerControllerType": owner_kind, "ownerControllerName": name,
            },
        }));
        self.objects.last_mut().unwrap()
    }

    fn set(&mut self, name: &str, replicas: usize) {
        self.objects.push(json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")},
            "spec": {
                "replicas": replicas, "serviceName": name, "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "app"}]}},
            },
        }));
    }

    fn machine(&mut self, name: &str, runs: bool) {
        self.objects.push(json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
            "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")}, "spec": {"running": runs, "template": {}},
        }));
    }

    fn add(&mut self, at: usize, case: Case) {
        let Case { what, number, flags: [one, two, three] } = case;
        let (own, other) = (format!("10.20.0.{}", 10 + 4 * at), format!("10.20.0.{}", 11 + 4 * at));
        let (own, other): (&str, &str) = (&own, &other);
        let (name, place, vm) = (format!("w{at}"), format!("s{at}-1"), format!("v{at}"));
        let (uid, old) = (format!("u-{at}"), format!("old-{at}"));
        let key = |name: &str| format!("shop/{name}");
        match what {
            LivePod => {
                let pod = self.pod(&name, &uid, two.then_some(own), None);
                if three {
                    pod["status"]["phase"] = json!("Pending");
                }
                self.record(own, &key(&name), &uid);
                if one {
                    self.endpoint(&name, &uid, own, "Pod", true);
                }
            }
            EndpointDeleted => {
                self.pod(&name, &uid, two.then_some(own), None);
                self.record(own, &key(&name), &uid);
                let endpoint = self.endpoint(&name, &uid, own, "Pod", one);
                endpoint["metadata"]["deletionTimestamp"] = json!(AN_HOUR_BEFORE);
                endpoint["metadata"]["deletionGracePeriodSeconds"] = json!(0);
            }
            EndpointHeld => {
                if two {
                    let pod = self.pod(&name, &uid, Some(own), None);
                    pod["spec"]["nodeName"] = json!("n1");
                    pod["metadata"]["deletionTimestamp"] = json!(AN_HOUR_BEFORE);
                    pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
                }
                self.record(own, &key(&name), &uid);
                let endpoint = self.endpoint(&name, &uid, own, "Pod", number % 2 == 0);
                endpoint["metadata"]["finalizers"] =
                    if one { json!(["spiderpool.spidernet.io", "example.com/audit"]) } else { json!(["example.com/audit"]) };
                if three {
                    endpoint["metadata"]["deletionTimestamp"] = json!(AN_HOUR_BEFORE);
                    endpoint["metadata"]["deletionGracePeriodSeconds"] = json!(0);
                }
            }
            GonePod => self.record(own, &key(if one { "old-0" } else { &name }), &old),
            EndpointOfGonePod => {
                self.record(own, &key(&name), &old);
                let endpoint = self.endpoint(&name, if one { &old } else { &uid }, own, "ReplicaSet", two);
                if three {
                    endpoint["metadata"]["deletionTimestamp"] = json!(AN_HOUR_BEFORE);
                    endpoint["metadata"]["deletionGracePeriodSeconds"] = json!(0);
                }
            }
            NameUsedAgain => {
                self.pod(&name, &uid, Some(if one { own } else { other }), None);
                self.record(own, &key(&name), &old);
                self.record(other, &key(&name), &uid);
                let (of, ip) = if two { (&old, own) } else { (&uid, other) };
                self.endpoint(&name, of, ip, "Pod", true);
            }
            StuckPod | EndingPod => {
                let pod = self.pod(&name, &uid, Some(own), None);
                pod["metadata"]["deletionTimestamp"] = json!(if what == StuckPod { AN_HOUR_BEFORE } else { SOON });
                pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
                if two {
                    pod["spec"]["nodeName"] = json!("n1");
                }
                self.record(own, &key(&name), &uid);
                if one {
                    self.endpoint(&name, &uid, own, "Pod", true);
                }
            }
            EndedPod => {
                let ended = json!({"exitCode": 0, "finishedAt": AN_HOUR_BEFORE});
                let state = json!({"terminated": ended});
                let status = json!({"name": "main", "ready": false, "restartCount": 0, "image": "app", "imageID": "", "state": state});
                let pod = self.pod(&name, &uid, None, None);
                pod["spec"]["restartPolicy"] = json!("Never");
                pod["status"]["phase"] = json!(if one { "Succeeded" } else { "Failed" });
                if two {
                    pod["status"]["containerStatuses"] = json!([status]);
                }
                self.record(own, &key(&name), &uid);
                if three {
                    self.endpoint(&name, &uid, own, "Job", true);
                }
            }
            NameOfNothing => self.record(own, ["shop/a/b", "a/b/c/d", "//", "shop//x", "/shop/x", "shop/x/"][number], &old),
            NameOfNoPod => {
                let name = ["shop/UPPER", "nowhere", "/slash", "shop/", "", "old-0"][number];
                self.record(own, name, if one { "" } else { &old });
            }
            Ordinal => {
                self.record(own, &key(&place), &old);
                if one {
                    self.endpoint(&place, &old, own, "StatefulSet", false);
                }
                let set = format!("s{at}");
                if two {
                    self.pod(&place, &uid, None, Some(("apps/v1", "StatefulSet", &set)))["status"]["phase"] = json!("Pending");
                }
                if three {
                    self.set(&set, number % 4);
                }
            }
            OrdinalServedOtherwise => {
                let set = format!("s{at}");
                self.pod(&place, &uid, Some(other), Some(("apps/v1", "StatefulSet", &set)));
                self.record(own, &key(&place), &old);
                if two {
                    self.record(other, &key(&place), &uid);
                    self.endpoint(&place, &uid, other, "StatefulSet", false);
                } else {
                    self.endpoint(&place, &old, own, "StatefulSet", false);
                }
                if one {
                    self.set(&set, 2);
                }
            }
            Vm => {
                self.record(own, &key(&vm), &old);
                if one {
                    self.machine(&vm, three);
                }
                if two {
                    self.endpoint(&vm, &old, own, "VirtualMachineInstance", false);
                }
            }
            Instance => {
                self.record(own, &key(&vm), &old);
                if one {
                    let mut meta = json!({"name": vm, "namespace": "shop", "uid": format!("uid-{vm}")});
                    if two {
                        meta["deletionTimestamp"] = json!(AN_HOUR_BEFORE);
                        meta["finalizers"] = json!(["foregroundDeleteVirtualMachine"]);
                    }
                    self.objects
                        .push(json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": meta, "spec": {}}));
                }
                if three {
                    self.endpoint(&vm, &old, own, "VirtualMachineInstance", false);
                }
            }
            ForeignSet => {
                self.record(own, &key(&place), &old);
                if one {
                    self.set(&format!("s{at}"), 2);
                }
                if two {
                    self.endpoint(&place, &old, own, "StatefulSet", true);
                }
            }
            NamesakeOfVm => {
                self.pod(&vm, &uid, three.then_some(other), None);
                self.record(own, &key(&vm), &old);
                if one {
                    self.machine(&vm, false);
                }
                if two {
                    self.endpoint(&vm, &old, own, "VirtualMachineInstance", false);
                }
            }
            KeyOfNoAddress => self.record(["zz", "010.20.0.1", "::ffff:10.20.0.9", "10.20.0.1/24", "", " "][number], &key(&name), &old),
            UidUnderAnotherName => {
                self.pod(&name, &uid, Some(other), None);
                self.record(other, &key(&name), &uid);
                self.endpoint(&name, &uid, other, "Pod", true);
                self.record(own, &key("another"), &uid);
            }
            FailedPod => {
                let pod = self.pod(&name, &uid, three.then_some(own), None);
                pod["spec"]["restartPolicy"] = json!(if one { "Always" } else { "OnFailure" });
                pod["status"]["phase"] = json!("Failed");
                pod["status"]["reason"] =
                    [json!("NodeShutdown"), json!("Evicted"), json!("OutOfcpu"), json!("NodeLost"), json!("DeadlineExceeded"), Value::Null]
                        [number]
                        .clone();
                self.record(own, &key(&name), &uid);
                if two {
                    self.endpoint(&name, &uid, own, "Pod", true);
                }
            }
            SecondRecord => {
                self.pod(&name, &uid, Some(own), None);
                self.record(own, &key(&name), &uid);
                self.endpoint(&name, &uid, own, "Pod", true);
                if one {
                    self.record(other, &key(&name), &uid);
                }
                if two {
                    self.elsewhere.insert(format!("10.30.0.{}", 10 + at), json!({"pod": key(&name), "podUid": uid}));
                }
            }
            RecordElsewhere => {
                let ip = format!("10.30.0.{}", 10 + at);
                let pod = self.pod(&name, &uid, one.then_some(&*ip), None);
                if two {
                    pod["status"]["phase"] = json!("Pending");
                }
                self.elsewhere.insert(ip, json!({"pod": key(&name), "podUid": uid}));
            }
            OwnerLeftOut => {
                let (version, kind) = [
                    ("apps/v1", "ReplicaSet"),
                    ("batch/v1", "Job"),
                    ("apps/v1", "DaemonSet"),
                    ("apps.kruise.io/v1alpha1", "CloneSet"),
                    ("apps/v1", "StatefulSet"),
                    ("example.com/v1", "Thing"),
                ][number];
                self.pod(&name, &uid, one.then_some(own), Some((version, kind, &format!("o{at}"))));
                self.record(own, &key(&name), &uid);
                if two {
                    self.endpoint(&name, &uid, own, kind, kind != "StatefulSet");
                }
            }
            PoolLeftOut => {
                self.pod(&name, &uid, Some(own), None);
                let endpoint = self.endpoint(&name, &uid, own, "Pod", true);
                endpoint["status"]["current"]["ips"][0]["ipv4Pool"] = json!("gone");
                if one {
                    self.record(other, &key(&name), &uid);
                }
            }
        }
    }

    fn of(drawn: &Drawn) -> Value {
        let mut dump = Self::default();
        drawn.cases.iter().enumerate().for_each(|(at, case)| dump.add(at, *case));
        let node = |name: &str, ready: &str| {
            json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": format!("node-{name}")},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            })
        };
        let count = dump.records.len();
        let pool = json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
            "metadata": {"name": "blue", "finalizers": ["spiderpool.spidernet.io"]},
            "spec": {"ipVersion": 4, "subnet": "10.20.0.0/24", "ips": ["10.20.0.10-10.20.0.99"], "default": drawn.serves},
            "status": {"totalIPCount": 90, "allocatedIPCount": count, "allocatedIPs": Value::Object(dump.records).to_string()},
        });
        let elsewhere = dump.elsewhere.len();
        let green = json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
            "metadata": {"name": "green", "finalizers": ["spiderpool.spidernet.io"]},
            "spec": {"ipVersion": 4, "subnet": "10.30.0.0/24", "ips": ["10.30.0.10-10.30.0.99"], "default": false},
            "status": {"totalIPCount": 90, "allocatedIPCount": elsewhere, "allocatedIPs": Value::Object(dump.elsewhere).to_string()},
        });
        let conf = format!(
            "enableIPv4: true\nenableIPv6: false\nenableStatefulSet: {}\nenableKubevirtStaticIP: {}\n",
            drawn.keeps_places, drawn.keeps_vms
        );
        let settings = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "spiderpool-conf", "namespace": "kube-system"},
            "data": {"conf.yml": conf},
        });
        let items: Vec<Value> =
            [node("n0", "True"), node("n1", "Unknown"), pool, green, settings].into_iter().chain(dump.objects).collect();
        json!({"apiVersion": "v1", "kind": "List", "items": items})
    }
}

fn explained(manifests: &str, now: &str) -> ExplainReclaimReport {
    let (code, out, err) = ipam_sim(&["explain", "--reclaim", "--now", now, "--manifests", manifests, "--format", "json"]);
    assert_eq!(code, 0, "{err}");
    ExplainReclaimReport::from_json(&out).unwrap()
}

/// The addresses in each pod's status at the end.
fn shown_at_the_end(dump: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let pods = manifest::read(&[dump.to_owned()]).unwrap().into_iter().filter(|manifest| manifest.kind == "Pod");
    let shown = |pod: &Value| {
        let ips = pod["status"]["podIPs"].as_array().into_iter().flatten();
        ips.filter_map(|ip| ip["ip"].as_str().map(str::to_owned)).collect()
    };
    pods.map(|pod| (format!("{}/{}", pod.namespace.as_deref().unwrap_or_default(), pod.name), shown(&pod.value))).collect()
}

/// The result of a run: the report on claims, the records that reclaim left, as explained then, and the addresses in the pods' status.
struct End {
    report: ReplayReport,
    left: ExplainReclaimReport,
    shown: BTreeMap<String, BTreeSet<String>>,
}

/// Runs the collector on a dump for a calm hour: without faults and without changes.
fn run(folder: &Path, dump: &str) -> End {
    let path = |name: &str| -> PathBuf { folder.join(name) };
    let options = LoadOptions {
        scenarios: vec![scenarios().join("smoke/reclaim-calm.toml")],
        manifests: vec![dump.into()],
        ..LoadOptions::default()
    };
    let ready = load::scenarios(&options).unwrap_or_else(|error| panic!("{error:?}"));
    let mut plan = ready[0].scenario.draw(1);
    plan.op.clear();
    plan.fault.clear();
    let (file, end) = (path("plan.toml"), path("end.yaml"));
    fs::write(&file, plan.to_toml()).unwrap();
    let _ = fs::remove_file(&end);
    let (_, out, err) = ipam_sim(&["replay", &file.display().to_string(), "--dump", &end.display().to_string(), "--format", "json"]);
    assert!(!out.is_empty(), "{err}");
    let begin: jiff::Timestamp = BEGIN.parse().unwrap();
    let now = begin + jiff::SignedDuration::from_micros(plan.end_at.as_micros() as i64);
    let left = explained(&end.display().to_string(), &now.to_string());
    End { report: ReplayReport::from_json(&out).unwrap(), left, shown: shown_at_the_end(&end) }
}

fn agree(folder: &Path, drawn: &Drawn) -> Result<(), TestCaseError> {
    let file = folder.join("dump.yaml");
    fs::write(&file, Dump::of(drawn).to_string()).unwrap();
    let dump = file.display().to_string();
    let before = explained(&dump, BEGIN);
    // Whether the finalizer of an instance is ever removed depends on whether the cluster runs KubeVirt.
    let is_ending = |case: &Case| matches!(case, Case { what: Instance, flags: [true, true, _], .. });
    let ending: BTreeSet<String> =
        drawn.cases.iter().enumerate().filter(|(_, case)| is_ending(case)).map(|(at, _)| format!("shop/v{at}")).collect();
    let deleted = |case: &Case| case.what == EndpointDeleted;
    let deleted: BTreeSet<String> =
        drawn.cases.iter().enumerate().filter(|(_, case)| deleted(case)).map(|(at, _)| format!("shop/w{at}")).collect();
    let end = run(folder, &dump);
    prop_assert!(end.report.violations.is_empty(), "claims are violated: {:#?}", end.report.violations);
    for record in &before.records {
        let found = end.left.records.iter().find(|left| (&left.pool, &left.ip) == (&record.pool, &record.ip));
        let is_still_there = found.is_some_and(|left| left.pod == record.pod);
        let is_the_same = is_still_there && found.is_some_and(|left| left.uid == record.uid);
        // The reason may have changed by then: a pod of the same name has other addresses now, or a pod that had addresses has none: no
        // pool serves it.
        let shown = end.shown.get(&record.pod).cloned().unwrap_or_default();
        let served_otherwise = !shown.is_empty() && !shown.contains(&record.ip);
        let no_more_in_use = record.row == "U-3u" && !shown.contains(&record.ip);
        let waits_again = record.row == "U-1" && shown.is_empty();
        let ends = ending.contains(&record.pod);
        // The agent releases a deleted endpoint. If no pool serves the pod then, the ADD fails and returns the addresses of the endpoint.
        let is_given_back = !drawn.serves && deleted.contains(&record.pod) && shown.is_empty();
        // Garbage collection deletes pods whose StatefulSet does not exist.
        let is_collected = record.row.starts_with("P-") && !end.shown.contains_key(&record.pod);
        match record.action.as_str() {
            "keep" => prop_assert!(
                is_still_there || served_otherwise || no_more_in_use || is_collected || ends || is_given_back,
                "was to be kept: {record:?}; pods answer on {:?}",
                end.shown
            ),
            "release" => prop_assert!(!is_the_same || waits_again, "was to go: {record:?}"),
            _ => prop_assert!(!is_the_same, "was to go once its time was over: {record:?}"),
        }
    }
    for left in &end.left.records {
        prop_assert!(left.action == "keep", "was to go long before the end: {left:?}");
    }
    Ok(())
}

#[test]
fn explain_the_collector_and_the_claims_agree_about_every_record_of_a_dump() {
    let config = Config { cases: 96, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let folder = scratch("dumps-drawn");
    runner.run(&drawn(), |drawn| agree(&folder, &drawn)).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn they_agree_about_each_sort_of_record_however_it_is_in_particular() {
    let folder = scratch("dumps-each");
    let mut wrong = Vec::new();
    for what in ALL {
        for bits in 0..16 {
            let flags = [bits & 1 != 0, bits & 2 != 0, bits & 4 != 0];
            let serves = bits & 8 != 0;
            let cases = (0..6).map(|number| Case { what, number, flags }).collect();
            let drawn = Drawn { keeps_places: true, keeps_vms: true, serves, cases };
            wrong.extend(agree(&folder, &drawn).err().map(|error| format!("{what:?}, {flags:?}, serves {serves}: {error}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The exit code and the output of `run` for a scenario of the repository on the project's own dump.
fn of_own_dump(scenario: &str) -> (u8, String) {
    let path = |name: &str| scenarios().join(name).display().to_string();
    let (file, dump) = (path(scenario), path("dumps/reclaim.yaml"));
    let (code, out, err) = ipam_sim(&["run", &file, "--manifests", &dump, "--seeds", "6", "--no-plans"]);
    (code, out + &err)
}

#[test]
fn the_dump_of_the_book_holds_in_every_scenario_that_it_is_brought_to() {
    for scenario in ["smoke/reclaim-calm", "smoke/spiderpool-calm", "chaos/reclaim-swarm", "chaos/spiderpool-swarm", "chaos/subnets-swarm"]
    {
        let (code, said) = of_own_dump(&format!("{scenario}.toml"));
        assert_eq!(code, 0, "{scenario}: {said}");
    }
}

/// Invalid names that every API server refuses: of objects, of a namespace, of a node, and a label.
const BAD_NAMES: &str = r#"{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"UPPER case!","namespace":"bad/ns"},"spec":{"containers":[]}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a\n::error file=x::y","labels":{"app":"a b"}},"spec":{"containers":[],"nodeName":"N"}},
{"apiVersion":"spiderpool.spidernet.io/v2beta1","kind":"SpiderIPPool","metadata":{"name":"=cmd|' /C calc'!A0"},"spec":{"ipVersion":4,"subnet":"10.0.0.0/24","ips":["10.0.0.1-10.0.0.9"],"default":true}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","uid":"u"},"spec":{"nodeName":"n1","containers":[]}}]}
"#;

#[test]
fn names_that_no_api_server_takes_are_told_by_check_and_refused_by_everybody_else() {
    let file = scratch("bad-names").join("bad-names.json");
    fs::write(&file, BAD_NAMES).unwrap();
    let file = file.display().to_string();
    let scenario = scenarios().join("smoke/reclaim-calm.toml").display().to_string();
    for args in [
        &["check", &file][..],
        &["run", &scenario, "--manifests", &file, "--seeds", "1", "--no-plans"],
        &["explain", "--reclaim", "--manifests", &file],
        &["explain", "--pod", "shop/web", "--manifests", &file],
    ] {
        let (code, out, err) = ipam_sim(args);
        let said = out + &err;
        assert_eq!(code, 2, "{args:?}: {said}");
        for (place, what) in [
            (":2:52:", r#"the Pod "UPPER case!" is invalid: metadata.name: Invalid value: "UPPER case!""#),
            (":2:78:", r#"metadata.namespace: Invalid value: "bad/ns""#),
            (":3:52:", r#"metadata.name: Invalid value: "a\n::error file=x::y""#),
            (":3:91:", r#"metadata.labels: Invalid value: "a b""#),
            (":3:134:", r#"spec.nodeName: Invalid value: "N""#),
            (":4:90:", "the SpiderIPPool \"=cmd|"),
        ] {
            let line = said.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{args:?}: {what}: {said}"));
            assert!(line.contains(place), "{args:?}: {place} {line}");
        }
        assert!(!said.contains("web\""), "{said}");
    }
}
