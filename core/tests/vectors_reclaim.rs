//! Reclaim against recorded answers of upstream's code: one scan over a small cluster, and one event of a pod.
//!
//! They are in `tests/data/reclaim-scan.jsonl` and `reclaim-trace.jsonl`, or in the files of these names in the folder that the
//! environment variable `IPAM_VECTORS` names.

mod api_server;
mod recorded;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use api_server::{Fault, Hurry, World, run};
use ipam_core::api::{ObjectKey, Reason};
use ipam_core::spiderpool::reclaim::{Event, Leadership, LeadershipTeller, PodEntry, Reclaim, ReclaimConfig, ScanCause};
use ipam_core::spiderpool::{Policy, SpiderEndpoint, SpiderIPPool};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

fn world(objects: &[Value], faults: &Value) -> World {
    let world = World::default();
    for object in objects {
        let mut object = object.clone();
        // The recorded VMs have nothing but metadata.
        if object["apiVersion"] == json!("kubevirt.io/v1") {
            object["spec"] = json!({});
        }
        world.put(object);
    }
    let fault = |fault: &Value| {
        let text = |name: &str| fault[name].as_str().unwrap().to_owned();
        let reason = match text("error").as_str() {
            "InternalError" => Reason::InternalError,
            "NotFound" => Reason::NotFound,
            "Conflict" => Reason::Conflict,
            other => panic!("error {other}"),
        };
        Fault { op: text("op"), cached: text("via") == "cache", kind: text("kind"), name: text("name"), reason }
    };
    world.fail(faults.as_array().unwrap().iter().map(fault).collect());
    world
}

fn reclaim(case: &Value, world: &World, policy: Policy) -> (Reclaim<World, Hurry, World>, Leadership, Option<LeadershipTeller>) {
    let mut config = ReclaimConfig::new(policy);
    let mut leader = false;
    for (name, value) in case["settings"].as_object().unwrap() {
        if name == "leader" {
            leader = value.as_bool().unwrap();
        } else {
            assert_eq!(config.settings.set(name, &value.to_string()), Ok(true), "{name}");
        }
    }
    let env = Hurry::at(case["now"].as_str().unwrap().parse().unwrap());
    let reclaim = Reclaim::new(world.clone(), env, world.clone(), (), config);
    if leader {
        return (reclaim, Leadership::always(), None);
    }
    let (teller, leadership) = LeadershipTeller::new();
    (reclaim, leadership, Some(teller))
}

/// An entry, as recorded ones are.
fn shown(entry: &PodEntry) -> Value {
    json!({
        "uid": &*entry.uid,
        "node": &*entry.node,
        "state": entry.tracing.as_str(),
        "start": entry.term.start.to_string(),
        "grace_seconds": entry.term.grace.as_secs(),
        "stop": entry.term.stop.to_string(),
    })
}

/// The records of all pools that can be read: pool and address.
fn records(world: &World) -> BTreeSet<(String, String)> {
    let mut records = BTreeSet::new();
    for pool in world.all::<SpiderIPPool>() {
        let Some(parsed) = pool.status.as_ref().and_then(|status| status.allocated_ips.parse().ok()) else { continue };
        for (ip, _) in parsed.iter() {
            records.insert((pool.metadata.name.clone().unwrap(), ip.to_string()));
        }
    }
    records
}

fn endpoints(world: &World) -> BTreeMap<String, SpiderEndpoint> {
    world.all::<SpiderEndpoint>().into_iter().map(|endpoint| (ObjectKey::of(&endpoint).to_string(), endpoint)).collect()
}

/// One scan; what it came to, in the form of the recorded answers.
fn scanned(case: &Value, policy: Policy) -> Value {
    let world = world(case["cluster"].as_array().unwrap(), &case["faults"]);
    let (reclaim, leadership, _teller) = reclaim(case, &world, policy);
    let (before, endpoints_before) = (records(&world), endpoints(&world));
    run(reclaim.scan(&leadership, ScanCause::Asked)).expect("the server answers");
    let (after, endpoints_after) = (records(&world), endpoints(&world));
    let record = |(pool, ip): &(String, String)| json!({"ip": ip, "pool": pool});
    let listed = |records: &mut dyn Iterator<Item = &(String, String)>| {
        let mut records: Vec<Value> = records.map(record).collect();
        records.sort_by_key(|record| (record["pool"].to_string(), record["ip"].as_str().unwrap().to_owned()));
        records
    };
    let changed = |changed: &dyn Fn(&SpiderEndpoint, Option<&SpiderEndpoint>) -> bool| {
        let hit = endpoints_before.iter().filter(|(key, before)| changed(before, endpoints_after.get(*key)));
        hit.map(|(key, _)| key.clone()).collect::<Vec<_>>()
    };
    let holds = |endpoint: &SpiderEndpoint| endpoint.metadata.finalizers.iter().flatten().any(|name| name == "spiderpool.spidernet.io");
    let marked = |endpoint: &SpiderEndpoint| endpoint.metadata.deletion_timestamp.is_some();
    let counts: BTreeMap<String, Option<i64>> = world
        .all::<SpiderIPPool>()
        .into_iter()
        .map(|pool| (pool.metadata.name.unwrap(), pool.status.and_then(|status| status.allocated_ip_count)))
        .collect();
    let mut tracked: Vec<Value> = Vec::new();
    for entry in reclaim.traced() {
        let mut entry_shown = shown(&entry);
        entry_shown["pod"] = json!(entry.pod.to_string());
        tracked.push(entry_shown);
    }
    json!({
        "released": listed(&mut before.difference(&after)),
        "kept": listed(&mut after.iter()),
        "counts": counts,
        "endpoints_deleted": changed(&|_, after| after.is_none()),
        "finalizers_removed": changed(&|before, after| after.is_some_and(|after| holds(before) && !holds(after))),
        "endpoints_marked": changed(&|before, after| after.is_some_and(|after| !marked(before) && marked(after))),
        "tracked": tracked,
    })
}

/// The same as a set: lists have no order there.
fn normalized(outcome: &Value) -> Value {
    let mut outcome = outcome.clone();
    for list in outcome.as_object_mut().unwrap().values_mut().filter_map(Value::as_array_mut) {
        list.sort_by_key(Value::to_string);
    }
    outcome
}

/// The recorded outcome that comes next to `answer`: it, if it is one of those that are possible.
fn expected<'a>(case: &'a Value, answer: &Value) -> &'a Value {
    let any = case.get("expect_any").and_then(Value::as_array);
    any.into_iter().flatten().find(|possible| normalized(possible) == *answer).unwrap_or(&case["expect"])
}

#[test]
fn vectors_reclaim_scan_upstream_agrees_with_every_recorded_answer() {
    let Some(cases) = recorded::cases("reclaim-scan.jsonl") else { return };
    let mut mismatches = recorded::Mismatches::new("reclaim-scan.jsonl");
    for case in &cases {
        let answer = normalized(&scanned(case, Policy::upstream()));
        mismatches.compare(case["id"].as_str().unwrap(), "", &normalized(expected(case, &answer)), &answer);
    }
    mismatches.none_in(cases.len());
}

/// One event; what it came to, in the form of the recorded answers.
fn judged(case: &Value, policy: Policy) -> Value {
    let objects: Vec<Value> = ["nodes", "owners"].iter().flat_map(|part| case[part].as_array().unwrap().clone()).collect();
    let world = world(&objects, &case["faults"]);
    let (reclaim, leadership, _teller) = reclaim(case, &world, policy);
    let pod = |name: &str| serde_json::from_value::<Option<Pod>>(case[name].clone()).unwrap();
    let (old, new) = (pod("old"), pod("new").unwrap());
    let event = match (case["event"].as_str().unwrap(), &old) {
        ("add", _) => Event::Added(&new),
        ("update", Some(old)) => Event::Updated { old, new: &new },
        ("delete", _) => Event::Deleted(&new),
        ("delete-tombstone", _) => Event::Tombstone(&new),
        (other, _) => panic!("event {other}"),
    };
    let judged = catch_unwind(AssertUnwindSafe(|| run(reclaim.take_event(&leadership, &event)).expect("the server answers")));
    let entries = reclaim.traced();
    assert!(entries.len() <= 1);
    let entry = entries.first().map(|entry| {
        let mut entry_shown = shown(entry);
        (entry_shown["namespace"], entry_shown["pod"]) = (json!(entry.pod.namespace()), json!(entry.pod.name()));
        entry_shown
    });
    json!({"entry": entry, "error": matches!(judged, Ok(Err(_))), "panic": judged.is_err()})
}

#[test]
fn vectors_reclaim_trace_upstream_agrees_with_every_recorded_answer() {
    let Some(cases) = recorded::cases("reclaim-trace.jsonl") else { return };
    let mut mismatches = recorded::Mismatches::new("reclaim-trace.jsonl");
    for case in &cases {
        mismatches.compare(case["id"].as_str().unwrap(), "", &case["expect"], &judged(case, Policy::upstream()));
    }
    mismatches.none_in(cases.len());
}

/// The shape of an experiment: what an answer is under a policy.
type Answered = fn(&Value, Policy) -> Value;

#[test]
fn experiment() {
    for (file, answered) in
        [("reclaim-scan.jsonl", (|case: &Value, policy| normalized(&scanned(case, policy))) as Answered), ("reclaim-trace.jsonl", judged)]
    {
        let cases = recorded::cases(file).unwrap();
        let base: Vec<Value> = cases.iter().map(|case| answered(case, Policy::upstream())).collect();
        let hard: Vec<Value> = cases.iter().map(|case| answered(case, Policy::hardened())).collect();
        let mut explained = vec![0; cases.len()];
        let names: Vec<&str> =
            ipam_core::spiderpool::reclaim::ReclaimPolicy::DEVIATIONS.iter().map(|d| d.name).chain(["static-by-kind-only"]).collect();
        for name in names {
            let mut without = Policy::upstream();
            let switch = without.switch(name).unwrap();
            if !*switch {
                continue;
            }
            *switch = false;
            let mut n = 0;
            for (i, case) in cases.iter().enumerate() {
                if answered(case, without) != base[i] {
                    explained[i] += 1;
                    n += 1;
                }
            }
            let mut with = Policy::hardened();
            *with.switch(name).unwrap() = true;
            let m = cases.iter().enumerate().filter(|(i, case)| answered(case, with) != hard[*i]).count();
            println!("{file} without {name}: {n}; hardened with: {m}");
        }
        let differ = (0..cases.len()).filter(|i| base[*i] != hard[*i]).count();
        println!("{file}: hardened differs in {differ}");
        for i in 0..cases.len() {
            if base[i] != hard[i] && explained[i] == 0 {
                println!("UNEXPLAINED {} rows {}\n  up {}\n  ha {}", cases[i]["id"], cases[i]["rows"], base[i], hard[i]);
            }
        }
    }
}
