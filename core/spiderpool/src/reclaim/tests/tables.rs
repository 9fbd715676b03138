//! The rows of the tables, one by one, as pure decisions.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::reclaim::{
    Answer, Circumstances, Event, Judgement, Meaning, NodeState, Question, ReclaimSettings, RecordView, Row, Seen, judge_event,
    judge_record,
};
use crate::{Keeper, Policy, SpiderEndpoint};

/// The time of all decisions: noon.
const NOW: &str = "2026-01-15T12:00:00Z";

/// The context of a decision besides its object; owners give every question the same answer.
#[derive(Clone, Copy)]
struct World {
    policy: Policy,
    settings: fn(&mut ReclaimSettings),
    node: NodeState,
    answer: Answer,
    runs_until: Option<&'static str>,
    /// Whether the pool of the record is an auto pool in deletion.
    pool_ends: bool,
}

const NO_CHANGE: fn(&mut ReclaimSettings) = |_| {};

fn upstream() -> World {
    World {
        policy: Policy::upstream(),
        settings: NO_CHANGE,
        node: NodeState::Ready { since: None },
        answer: Answer::Invalid,
        runs_until: None,
        pool_ends: false,
    }
}

fn hardened() -> World {
    World { policy: Policy::hardened(), ..upstream() }
}

impl World {
    fn answering(self, answer: Answer) -> Self {
        Self { answer, ..self }
    }

    fn on(self, node: NodeState) -> Self {
        Self { node, ..self }
    }

    fn set(self, settings: fn(&mut ReclaimSettings)) -> Self {
        Self { settings, ..self }
    }

    fn with<T>(&self, decide: impl FnOnce(&Circumstances<'_>) -> T) -> T {
        let mut settings = ReclaimSettings::new(&self.policy);
        (self.settings)(&mut settings);
        let runs_until = |uid: &str| if uid == "u1" { self.runs_until.map(|until| until.parse().unwrap()) } else { None };
        let it = Circumstances {
            now: NOW.parse::<Timestamp>().unwrap(),
            leading: true,
            settings: &settings,
            policy: &self.policy,
            node: &|_| self.node,
            runs_until: &runs_until,
        };
        decide(&it)
    }
}

/// A running orphan pod, with these members replaced.
fn pod(members: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": "db-0", "namespace": "ns", "uid": "u1"},
        "spec": {"nodeName": "n", "containers": [], "terminationGracePeriodSeconds": 30},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.9.9.9"}]},
    });
    for (part, members) in members.as_object().unwrap() {
        for (name, value) in members.as_object().unwrap() {
            pod[part][name] = value.clone();
        }
    }
    serde_json::from_value(pod).unwrap()
}

fn owner(api_version: &str, kind: &str) -> Value {
    json!([{"apiVersion": api_version, "kind": kind, "name": "db", "uid": "db", "controller": true}])
}

/// A pod of a StatefulSet.
fn of_set(members: Value) -> Pod {
    let mut pod = pod(members);
    pod.metadata.owner_references = serde_json::from_value(owner("apps/v1", "StatefulSet")).unwrap();
    pod
}

/// A pod of a VM.
fn of_vm(members: Value) -> Pod {
    let mut pod = pod(members);
    pod.metadata.owner_references = serde_json::from_value(owner("kubevirt.io/v1", "VirtualMachineInstance")).unwrap();
    pod
}

/// The metadata of a pod that is terminating, so that its grace period ended at this time before noon.
fn terminating(at: &str) -> Value {
    json!({"deletionTimestamp": format!("2026-01-15T{at}Z"), "deletionGracePeriodSeconds": 30})
}

/// The status of a pod that has ended, at this time.
fn ended(at: &str) -> Value {
    let state = json!({"terminated": {"exitCode": 0, "finishedAt": format!("2026-01-15T{at}Z")}});
    json!({
        "phase": "Succeeded",
        "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state}],
    })
}

fn endpoint(uid: &str, kind: &str) -> SpiderEndpoint {
    let owners = if kind == "Pod" { json!([{"apiVersion": "v1", "kind": "Pod", "name": "db-0", "uid": uid}]) } else { json!([]) };
    serde_json::from_value(json!({
        "metadata": {"name": "db-0", "namespace": "ns", "ownerReferences": owners, "finalizers": ["spiderpool.spidernet.io"]},
        "status": {
            "current": {"uid": uid, "node": "n", "ips": [{"interface": "eth0", "ipv4": "10.0.0.1/24", "ipv4Pool": "p"}]},
            "ownerControllerType": kind, "ownerControllerName": "db",
        },
    }))
    .unwrap()
}

/// The decision about a record of `ns/db-0` with UID `u1`: row, record, endpoint, tracing, row of the endpoint.
type Told = (&'static str, bool, bool, bool, Option<&'static str>);

/// Makes the decision, and counts its questions.
fn told(world: World, key: &str, pod: Seen<&Pod>, endpoint: Seen<&SpiderEndpoint>) -> Result<Told, Row> {
    let record = RecordView { key, uid: "u1", ip: Some("10.0.0.1".parse().unwrap()), pod, endpoint, pool_ends: world.pool_ends, due: None };
    world.with(|it| {
        let mut answers = Vec::new();
        loop {
            match judge_record(&record, it, &answers) {
                Judgement::Ask(Question { keeper, .. }) => {
                    assert_ne!(keeper, Keeper::Nobody);
                    answers.push(world.answer);
                }
                Judgement::Crash(row) => return Err(row),
                Judgement::Done(verdict) => {
                    let endpoint_row = verdict.endpoint_row.map(Row::code);
                    return Ok((verdict.row.code(), verdict.release, verdict.endpoint, verdict.track, endpoint_row));
                }
            }
        }
    })
}

fn of_record(world: World, pod: Seen<&Pod>, endpoint: Seen<&SpiderEndpoint>) -> Told {
    told(world, "ns/db-0", pod, endpoint).expect("nothing crashes")
}

const KEEP: (bool, bool, bool) = (false, false, false);
const RELEASE: (bool, bool, bool) = (true, false, false);
const BOTH: (bool, bool, bool) = (true, true, false);
const TRACK: (bool, bool, bool) = (false, false, true);

fn expect(told: Told, row: &str, (release, endpoint, track): (bool, bool, bool)) {
    assert_eq!((told.0, told.1, told.2, told.3), (row, release, endpoint, track));
}

use Answer::{Failed, Invalid, Valid};
use Seen::{Nothing, There, Unreadable};

#[test]
fn s_0_to_s_3_without_a_pod() {
    assert_eq!(told(upstream(), "a/b/c", Nothing, Nothing).unwrap().0, "S-0");
    assert_eq!(told(upstream(), "bare", Nothing, Nothing).unwrap(), ("S-3", true, false, false, None));
    expect(of_record(upstream(), Unreadable, Nothing), "S-1", KEEP);
    expect(of_record(upstream(), Nothing, Unreadable), "S-2", KEEP);
    expect(of_record(upstream().answering(Valid), Nothing, Nothing), "S-3", RELEASE);
    expect(of_record(hardened(), Nothing, Nothing), "S-3", RELEASE);
    expect(of_record(hardened().answering(Valid), Nothing, Nothing), "S-3v", KEEP);
    expect(of_record(hardened().answering(Failed), Nothing, Nothing), "S-3e", KEEP);
}

#[test]
fn s_4_to_s_6_by_the_owner_of_the_endpoint() {
    for world in [upstream(), hardened()] {
        for (kind, invalid, valid, failed) in [("StatefulSet", "S-4i", "S-4v", "S-4e"), ("VirtualMachineInstance", "S-5i", "S-5v", "S-5e")]
        {
            let endpoint = endpoint("u1", kind);
            expect(of_record(world.answering(Invalid), Nothing, There(&endpoint)), invalid, BOTH);
            expect(of_record(world.answering(Valid), Nothing, There(&endpoint)), valid, KEEP);
            expect(of_record(world.answering(Failed), Nothing, There(&endpoint)), failed, KEEP);
            let off =
                world.answering(Valid).set(|settings| (settings.enable_stateful_set, settings.enable_kubevirt_static_ip) = (false, false));
            expect(of_record(off, Nothing, There(&endpoint)), "S-6", BOTH);
        }
        expect(of_record(world.answering(Valid), Nothing, There(&endpoint("u0", "Deployment"))), "S-6", BOTH);
    }
    // The kind alone is not enough if the endpoint is deleted with its pod.
    let mut kruise = endpoint("u1", "Pod");
    kruise.status.as_mut().unwrap().owner_controller_type = "StatefulSet".to_owned();
    expect(of_record(upstream().answering(Valid), Nothing, There(&kruise)), "S-4v", KEEP);
    expect(of_record(hardened().answering(Valid), Nothing, There(&kruise)), "S-6", BOTH);
}

#[test]
fn s_4p_the_auto_pool_of_a_place_is_being_deleted() {
    let ending = |world: World| World { pool_ends: true, ..world.answering(Valid) };
    let (set, vm) = (endpoint("u1", "StatefulSet"), endpoint("u1", "VirtualMachineInstance"));
    expect(of_record(ending(hardened()), Nothing, There(&set)), "S-4p", RELEASE);
    let of_a_set_that = |answer| World { pool_ends: true, ..hardened().answering(answer) };
    expect(of_record(of_a_set_that(Failed), Nothing, There(&set)), "S-4p", RELEASE);
    expect(of_record(of_a_set_that(Invalid), Nothing, There(&set)), "S-4i", BOTH);
    expect(of_record(ending(upstream()), Nothing, There(&set)), "S-4v", KEEP);
    expect(of_record(ending(hardened()), Nothing, There(&vm)), "S-5v", KEEP);
    let running = World { runs_until: Some("2026-01-15T12:00:30Z"), ..ending(hardened()) };
    expect(of_record(running, Nothing, There(&set)), "S-8", KEEP);
    // For a record that only has a name, the VM of that name is still read.
    let only_sets = ending(hardened()).set(|settings| settings.enable_kubevirt_static_ip = false);
    expect(of_record(only_sets, Nothing, Nothing), "S-3", RELEASE);
    expect(of_record(ending(hardened()), Nothing, Nothing), "S-3v", KEEP);
}

#[test]
fn s_7_a_node_that_cannot_be_read() {
    for node in [NodeState::Gone, NodeState::Unreadable] {
        let other = pod(json!({"metadata": {"uid": "u2"}}));
        expect(of_record(upstream().on(node), There(&other), Nothing), "S-7", KEEP);
        expect(of_record(hardened().on(node), There(&other), Nothing), "U-3", RELEASE);
        expect(of_record(upstream().on(node), There(&of_set(json!({}))), Nothing), "P-6", KEEP);
    }
}

#[test]
fn s_8_a_pod_that_vanished_may_still_run() {
    let world = World { runs_until: Some("2026-01-15T12:00:10Z"), ..hardened() };
    expect(of_record(world, Nothing, Nothing), "S-8", KEEP);
    expect(of_record(world, Nothing, There(&endpoint("u1", "Pod"))), "S-8", KEEP);
    expect(of_record(world, There(&pod(json!({"metadata": {"uid": "u2"}}))), Nothing), "S-8", KEEP);
    let over = World { runs_until: Some("2026-01-15T11:59:50Z"), ..hardened() };
    expect(of_record(over, Nothing, Nothing), "S-3", RELEASE);
    expect(of_record(World { policy: Policy::upstream(), ..world }, Nothing, Nothing), "S-3", RELEASE);
}

#[test]
fn s_9_a_mark_is_the_point_of_no_return() {
    let mut marked = endpoint("u1", "StatefulSet");
    marked.metadata.deletion_timestamp = serde_json::from_value(json!(NOW)).unwrap();
    expect(of_record(hardened().answering(Valid), Nothing, There(&marked)), "S-9", BOTH);
    expect(of_record(upstream().answering(Valid), Nothing, There(&marked)), "S-4v", KEEP);
    let mut of_vm = endpoint("u1", "VirtualMachineInstance");
    of_vm.metadata.deletion_timestamp.clone_from(&marked.metadata.deletion_timestamp);
    expect(of_record(hardened().answering(Valid), Nothing, There(&of_vm)), "S-5v", KEEP);
    expect(of_record(hardened().answering(Invalid), Nothing, There(&of_vm)), "S-5i", BOTH);
    marked.status.as_mut().unwrap().current.uid = "u0".to_owned();
    expect(of_record(hardened().answering(Valid), Nothing, There(&marked)), "S-4v", KEEP);
}

#[test]
fn p_1_a_static_pod_that_has_ended() {
    let ended = of_set(json!({"status": ended("11:00:00")}));
    expect(of_record(upstream().answering(Valid), There(&ended), Nothing), "P-1", TRACK);
    expect(of_record(hardened().answering(Valid), There(&ended), Nothing), "P-1", KEEP);
    for world in [upstream(), hardened()] {
        expect(of_record(world.answering(Invalid), There(&ended), There(&endpoint("u1", "StatefulSet"))), "P-1b", BOTH);
        expect(of_record(world.answering(Failed), There(&ended), There(&endpoint("u1", "StatefulSet"))), "P-1c", KEEP);
    }
}

#[test]
fn p_2_and_p_3_a_pod_that_has_ended() {
    let over = pod(json!({"status": ended("11:59:29")}));
    expect(of_record(upstream(), There(&over), Nothing), "P-2", KEEP);
    expect(of_record(hardened(), There(&over), Nothing), "P-2d", RELEASE);
    let off = hardened().set(|settings| settings.on_ready_node = false);
    expect(of_record(off, There(&over), Nothing), "G-over-off", KEEP);
    expect(of_record(hardened().on(NodeState::Gone), There(&over), Nothing), "G-over-node", KEEP);
    expect(of_record(hardened(), There(&pod(json!({"status": ended("11:59:31")}))), Nothing), "P-2t", TRACK);
    expect(of_record(hardened(), There(&pod(json!({"status": {"phase": "Failed"}}))), Nothing), "P-2t", TRACK);
    let both = pod(json!({"metadata": terminating("11:59:00"), "status": {"phase": "Failed"}}));
    expect(of_record(upstream(), There(&both), Nothing), "G-over", RELEASE);
}

#[test]
fn the_place_of_an_orphan_is_kept_as_its_endpoint_says() {
    let stuck = pod(json!({"metadata": terminating("11:59:29")}));
    let ended = pod(json!({"status": ended("11:59:29")}));
    let without_ips = pod(json!({"status": {"podIPs": null}}));
    let on: fn(&mut ReclaimSettings) = |settings| settings.running_without_ips = true;
    let cases = [(&stuck, "G-over", "G-over-kept", "G-over-e"), (&ended, "P-2d", "P-1", "P-1c"), (&without_ips, "P-8on", "P-7v", "P-7e")];
    for (pod, gone, kept, unreadable) in cases {
        let told = |answer, kind| of_record(hardened().set(on).answering(answer), There(pod), There(&endpoint("u1", kind)));
        expect(told(Valid, "StatefulSet"), kept, KEEP);
        expect(told(Failed, "StatefulSet"), unreadable, KEEP);
        expect(told(Invalid, "StatefulSet"), gone, BOTH);
        // It was an orphan when it got its addresses.
        expect(told(Valid, "Pod"), gone, BOTH);
        // Without an endpoint there is nothing for the next pod to take over.
        expect(of_record(hardened().set(on).answering(Valid), There(pod), Nothing), gone, RELEASE);
    }
    // Another controller owns it.
    let owner = json!([{"apiVersion": "example.io/v1", "kind": "Widget", "name": "w", "uid": "w", "controller": true}]);
    let mut adopted = stuck.clone();
    adopted.metadata.owner_references = serde_json::from_value(owner).unwrap();
    expect(of_record(hardened().answering(Valid), There(&adopted), There(&endpoint("u1", "StatefulSet"))), "G-over", BOTH);
    expect(of_record(upstream().answering(Valid), There(&stuck), There(&endpoint("u1", "StatefulSet"))), "G-over", BOTH);
}

#[test]
fn p_4_a_pod_that_has_not_begun() {
    let pending = json!({"phase": "Pending", "podIPs": null});
    for world in [upstream(), hardened()] {
        expect(of_record(world, There(&pod(json!({"status": pending}))), Nothing), "P-4", KEEP);
    }
    let stuck = pod(json!({"metadata": terminating("11:59:00"), "status": pending}));
    expect(of_record(upstream(), There(&stuck), Nothing), "P-4", KEEP);
    expect(of_record(hardened(), There(&stuck), Nothing), "G-over", RELEASE);
}

#[test]
fn p_6_to_p_9_a_pod_that_is_neither_ending_nor_new() {
    let without_ips = json!({"status": {"podIPs": null}});
    let on: fn(&mut ReclaimSettings) = |settings| settings.running_without_ips = true;
    for world in [upstream(), hardened()] {
        expect(of_record(world, There(&pod(json!({}))), Nothing), "P-6", KEEP);
        expect(of_record(world, There(&pod(without_ips.clone())), Nothing), "P-8off", KEEP);
        expect(of_record(world.set(on), There(&pod(without_ips.clone())), Nothing), "P-8on", RELEASE);
    }
    let lost = pod(json!({"status": {"podIPs": [], "phase": "Unknown"}}));
    expect(of_record(upstream(), There(&lost), Nothing), "P-9", RELEASE);
    expect(of_record(hardened(), There(&lost), Nothing), "P-9k", KEEP);
    let of_set = of_set(without_ips);
    expect(of_record(upstream().answering(Invalid), There(&of_set), Nothing), "P-7i", RELEASE);
    expect(of_record(upstream().answering(Valid), There(&of_set), Nothing), "P-7v", KEEP);
    expect(of_record(upstream().answering(Failed), There(&of_set), Nothing), "P-7e", KEEP);
    expect(of_record(hardened().answering(Invalid), There(&of_set), Nothing), "P-9k", KEEP);
}

#[test]
fn rule_g_a_terminating_pod() {
    let within = pod(json!({"metadata": terminating("11:59:30")}));
    let over = pod(json!({"metadata": terminating("11:59:29")}));
    for world in [upstream(), hardened()] {
        // Not strictly after the deadline.
        expect(of_record(world, There(&within), Nothing), "G-trace", TRACK);
        expect(of_record(world, There(&over), Nothing), "G-over", RELEASE);
        let off = world.on(NodeState::NotReady).set(|settings| settings.on_not_ready_node = false);
        expect(of_record(off, There(&over), Nothing), "G-over-off", KEEP);
        let master = world.set(|settings| settings.terminating = false);
        expect(of_record(master, There(&over), Nothing), "G-over-off", KEEP);
        let later = world.set(|settings| settings.grace_delay = jiff::SignedDuration::from_secs(5));
        expect(of_record(later, There(&over), Nothing), "G-trace", TRACK);
    }
    // Deleted at 11:58:59: the grace period restarts with a node that became ready later, and is twice 30 s from there.
    let back = |world: World, since: &str| {
        let since = Some(format!("2026-01-15T{since}Z").parse().unwrap());
        of_record(world.on(NodeState::Ready { since }), There(&over), Nothing)
    };
    expect(back(hardened(), "11:59:00"), "G-over-back", TRACK);
    expect(back(hardened(), "11:58:59"), "G-over", RELEASE);
    expect(back(upstream(), "11:59:59"), "G-over", RELEASE);
    expect(of_record(hardened().on(NodeState::Unreadable), There(&over), Nothing), "G-over-node", KEEP);
    let set_over = of_set(json!({"metadata": terminating("11:59:29")}));
    expect(of_record(upstream(), There(&set_over), Nothing), "G-over-static", KEEP);
    expect(of_record(hardened().answering(Invalid), There(&set_over), Nothing), "G-over", RELEASE);
    expect(of_record(hardened().answering(Valid), There(&set_over), Nothing), "G-over-kept", KEEP);
    expect(of_record(hardened().answering(Failed), There(&set_over), Nothing), "G-over-e", KEEP);
    let without_ips = of_set(json!({"metadata": terminating("11:59:50"), "status": {"podIPs": null}}));
    expect(of_record(upstream().answering(Valid), There(&without_ips), Nothing), "G-inside-empty", RELEASE);
    expect(of_record(hardened().answering(Valid), There(&without_ips), Nothing), "G-trace", TRACK);
}

#[test]
fn rule_g_without_a_grace() {
    let mut over = pod(json!({"metadata": terminating("11:59:29")}));
    over.metadata.deletion_grace_period_seconds = None;
    assert_eq!(told(upstream(), "ns/db-0", There(&over), Nothing), Err(Row::NilDeletionGrace));
    assert_eq!(Row::NilDeletionGrace.code(), "G-crash");
    expect(of_record(hardened(), There(&over), Nothing), "G-over", RELEASE);
}

#[test]
fn u_1_to_u_4_another_pod_of_the_name() {
    let other = json!({"metadata": {"uid": "u2"}});
    let bare = json!({"metadata": {"uid": "u2"}, "status": {"podIPs": null, "phase": "Pending"}});
    for world in [upstream(), hardened()] {
        expect(of_record(world, There(&pod(other.clone())), Nothing), "U-3", RELEASE);
        expect(of_record(world.answering(Valid), There(&of_set(other.clone())), Nothing), "U-1", RELEASE);
        expect(of_record(world.answering(Invalid), There(&of_set(bare.clone())), Nothing), "U-2i", RELEASE);
        expect(of_record(world.answering(Valid), There(&of_set(bare.clone())), Nothing), "U-2v", KEEP);
        expect(of_record(world.answering(Failed), There(&of_set(bare.clone())), Nothing), "U-2e", KEEP);
    }
    let in_use = pod(json!({"metadata": {"uid": "u2"}, "status": {"podIPs": [{"ip": "10.0.0.1"}]}}));
    expect(of_record(upstream(), There(&in_use), Nothing), "U-3", RELEASE);
    expect(of_record(hardened(), There(&in_use), Nothing), "U-3u", KEEP);
}

#[test]
fn u_5_an_address_that_the_endpoint_does_not_name() {
    let mut without = endpoint("u1", "Pod");
    without.status.as_mut().unwrap().current.ips.clear();
    expect(of_record(hardened(), There(&pod(json!({}))), There(&without)), "P-6", KEEP);
    let mut world = hardened();
    *world.policy.switch("half-written-endpoint-frees").unwrap() = true;
    expect(of_record(world, There(&pod(json!({}))), There(&without)), "U-5", RELEASE);
    expect(of_record(world, There(&pod(json!({}))), There(&endpoint("u1", "Pod"))), "P-6", KEEP);
}

#[test]
fn e_1_to_e_5_the_endpoint_of_another_pod() {
    let other = json!({"metadata": {"uid": "u2"}});
    let bare = json!({"metadata": {"uid": "u2"}, "status": {"podIPs": null, "phase": "Pending"}});
    let of_predecessor = endpoint("u1", "StatefulSet");
    let row = |told: Told| (told.2, told.4);
    for world in [upstream(), hardened()] {
        assert_eq!(row(of_record(world, There(&pod(json!({}))), Unreadable)), (false, None), "E-1");
        let at = |answer, pod: &Pod| row(of_record(world.answering(answer), There(pod), There(&of_predecessor)));
        assert_eq!(at(Valid, &of_set(other.clone())), (true, Some("E-2")));
        assert_eq!(at(Invalid, &of_set(bare.clone())), (true, Some("E-3i")));
        assert_eq!(at(Valid, &of_set(bare.clone())), (false, Some("E-3v")));
        assert!(!of_record(world.answering(Failed), There(&of_set(bare.clone())), There(&of_predecessor)).1, "E-3e");
        assert_eq!(row(of_record(world, There(&pod(other.clone())), There(&endpoint("u1", "Pod")))), (true, Some("E-4")));
        let over = pod(json!({"metadata": terminating("11:59:29")}));
        assert_eq!(row(of_record(world, There(&over), There(&endpoint("u1", "Pod")))), (true, Some("E-5")));
    }
    // The predecessor was an orphan, so no ADD takes over its addresses: upstream keeps them for ever.
    let of_orphan = |world: World| of_record(world.answering(Valid), There(&of_set(bare.clone())), There(&endpoint("u1", "Pod")));
    assert_eq!(row(of_orphan(upstream())), (false, Some("E-3v")));
    assert_eq!(row(of_orphan(hardened())), (true, Some("E-3i")));
    assert!(!of_orphan(upstream()).1 && of_orphan(hardened()).1, "U-2");
    // The record is the live pod's: only upstream removes it, too.
    let live = |world| of_record(world, There(&pod(json!({}))), There(&endpoint("u0", "Pod")));
    assert_eq!(live(upstream()), ("E-4", true, true, false, Some("E-4")));
    assert_eq!(live(hardened()), ("P-6", false, true, false, Some("E-4")));
    // E-3e: the record of the pod itself, whose endpoint is still its predecessor's.
    let own = of_set(json!({"status": {"podIPs": null, "phase": "Pending"}}));
    let told = of_record(hardened().answering(Failed), There(&own), There(&endpoint("u0", "StatefulSet")));
    assert_eq!(told, ("E-3e", false, false, false, None));
}

#[test]
fn a_pod_that_merely_has_the_name_decides_nothing_about_a_vm() {
    let (namesake, of_vm) = (pod(json!({"metadata": {"uid": "u2"}})), endpoint("u1", "VirtualMachineInstance"));
    expect(of_record(upstream().answering(Valid), There(&namesake), There(&of_vm)), "U-3", BOTH);
    expect(of_record(hardened().answering(Valid), There(&namesake), There(&of_vm)), "S-5v", KEEP);
}

/// The meaning of an event: row, and the reason, grace period and end of the entry.
fn of_event(world: World, event: Event<'_>) -> (&'static str, Option<(&'static str, i64, String)>) {
    world.with(|it| {
        let mut answers = Vec::new();
        loop {
            return match judge_event(&event, it, &answers) {
                Meaning::Ask(_) => {
                    answers.push(world.answer);
                    continue;
                }
                Meaning::Ignore(row) | Meaning::Lost(row) | Meaning::Crash(row) => (row.code(), None),
                Meaning::Enter(entry, row) => {
                    (row.code(), Some((entry.tracing.as_str(), entry.term.grace.as_secs(), entry.term.stop.to_string())))
                }
            };
        }
    })
}

#[test]
fn i_0_to_i_6_before_the_state_counts() {
    let plain = pod(json!({}));
    let standby = upstream().with(|it| judge_event(&Event::Added(&plain), &Circumstances { leading: false, ..*it }, &[]));
    assert_eq!(standby, Meaning::Ignore(Row::NotLeading));
    assert_eq!(Row::NotLeading.code(), "I-0");
    assert_eq!(of_event(upstream(), Event::Tombstone(&plain)).0, "I-1");
    assert_eq!(of_event(hardened(), Event::Tombstone(&pod(json!({"status": ended("11:00:00")})))).0, "I-6");
    assert_eq!(of_event(upstream(), Event::Deleted(&pod(json!({"spec": {"hostNetwork": true}})))).0, "I-2");
    for world in [upstream(), hardened()] {
        let of = |answer, pod: &Pod| of_event(world.answering(answer), Event::Deleted(pod)).0;
        assert_eq!([of(Failed, &of_set(json!({}))), of(Valid, &of_set(json!({})))], ["I-3", "I-4"]);
        assert_eq!([of(Failed, &of_vm(json!({}))), of(Valid, &of_vm(json!({})))], ["I-5e", "I-5v"]);
    }
    assert_eq!(of_event(upstream().answering(Valid), Event::Added(&of_set(json!({})))).0, "I-4", "asked for every event");
    assert_eq!(of_event(hardened().answering(Valid), Event::Added(&of_set(json!({})))).0, "I-9");
    let mut ignoring = hardened();
    *ignoring.policy.switch("terminating-static-ignored").unwrap() = true;
    assert_eq!(of_event(ignoring, Event::Deleted(&of_set(json!({})))).0, "I-4d");
}

#[test]
fn i_6_deleted_before_its_grace_was_over() {
    let running = pod(json!({}));
    assert_eq!(of_event(upstream(), Event::Deleted(&running)), ("I-6", Some(("Deleted", 0, NOW.to_owned()))));
    assert_eq!(of_event(hardened(), Event::Deleted(&running)), ("I-6g", Some(("Deleted", 60, "2026-01-15T12:01:00Z".to_owned()))));
    // The pod garbage collector sets pods of deleted nodes to Failed, and knows nothing of their containers.
    let state = json!({"running": {}});
    let statuses = json!([{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": state}]);
    let orphan = pod(json!({"status": {"phase": "Failed", "containerStatuses": statuses}}));
    assert_eq!(of_event(hardened(), Event::Deleted(&orphan)).0, "I-6g");
    let within = pod(json!({"metadata": terminating("12:00:20")}));
    assert_eq!(of_event(hardened(), Event::Deleted(&within)), ("I-6g", Some(("Deleted", 30, "2026-01-15T12:00:50Z".to_owned()))));
    for at_once in [
        pod(json!({"metadata": terminating("11:59:00")})),
        pod(json!({"status": ended("11:59:59")})),
        pod(json!({"spec": {"nodeName": ""}})),
    ] {
        assert_eq!(of_event(hardened(), Event::Deleted(&at_once)).0, "I-6");
    }
}

#[test]
fn i_7_to_i_9_what_is_new() {
    let (plain, going) = (pod(json!({})), pod(json!({"metadata": terminating("12:00:20")})));
    for world in [upstream(), hardened()] {
        let of = |event| of_event(world, event).0;
        assert_eq!([of(Event::Added(&going)), of(Event::Updated { old: &plain, new: &going })], ["I-11"; 2]);
        assert_eq!(of(Event::Updated { old: &going, new: &going }), "I-9");
        let shorter = pod(json!({"metadata": terminating("12:00:20"), "spec": {"terminationGracePeriodSeconds": 5}}));
        assert_eq!(of(Event::Updated { old: &going, new: &shorter }), "I-11");
        let over = pod(json!({"status": ended("11:59:00")}));
        assert_eq!([of(Event::Added(&over)), of(Event::Updated { old: &plain, new: &over })], ["I-12"; 2]);
        assert_eq!([of(Event::Updated { old: &over, new: &over }), of(Event::Added(&plain))], ["I-9"; 2]);
    }
    let nil = pod(json!({"metadata": terminating("12:00:20"), "spec": {"terminationGracePeriodSeconds": null}}));
    assert_eq!(of_event(upstream(), Event::Updated { old: &going, new: &nil }).0, "I-crash");
    assert_eq!(of_event(hardened(), Event::Updated { old: &going, new: &nil }).0, "I-11");
}

#[test]
fn i_11_and_i_12_until_when() {
    let going = pod(json!({"metadata": terminating("12:00:20")}));
    let over = pod(json!({"status": ended("11:59:00")}));
    for world in [upstream(), hardened()] {
        assert_eq!(of_event(world, Event::Added(&going)).1, Some(("Terminating", 30, "2026-01-15T12:00:50Z".to_owned())));
        assert_eq!(of_event(world, Event::Added(&over)).1, Some(("Succeeded", 30, "2026-01-15T11:59:30Z".to_owned())));
    }
    let off = upstream().set(|settings| settings.on_ready_node = false);
    let rows = |world: World| [of_event(world, Event::Added(&going)).0, of_event(world, Event::Added(&over)).0];
    assert_eq!(rows(upstream().on(NodeState::Gone)), ["I-11e", "I-12e"]);
    assert_eq!(rows(off), ["I-11off", "I-12off"]);
    assert_eq!(rows(hardened().on(NodeState::Gone)), ["I-11", "I-12"], "the node is judged at the deadline");
    let mut nil = going.clone();
    nil.metadata.deletion_grace_period_seconds = None;
    assert_eq!(of_event(upstream(), Event::Added(&nil)).0, "I-11nil");
    assert_eq!(of_event(hardened(), Event::Added(&nil)).1.unwrap().1, 30);
    let timeless = pod(json!({"status": {"phase": "Failed"}}));
    assert_eq!(of_event(upstream(), Event::Added(&timeless)).0, "I-12nofinish");
    assert_eq!(of_event(hardened(), Event::Added(&timeless)).1, Some(("Failed", 30, "2026-01-15T12:00:30Z".to_owned())));
    let graceless = pod(json!({"status": ended("11:59:00"), "spec": {"terminationGracePeriodSeconds": null}}));
    assert_eq!(of_event(upstream(), Event::Added(&graceless)).0, "I-12nil");
    assert_eq!(of_event(hardened(), Event::Added(&graceless)).1.unwrap().1, 30);
}

#[test]
fn the_entry_of_a_vms_pod_is_about_the_endpoint_of_the_vm() {
    let launcher = of_vm(json!({"metadata": {"name": "virt-launcher-db-x"}}));
    let Meaning::Enter(entry, _) = hardened().with(|it| judge_event(&Event::Deleted(&launcher), it, &[Answer::Invalid])) else {
        panic!("it is traced")
    };
    assert_eq!((entry.pod.as_str(), entry.key.as_str(), entry.keeper), ("ns/virt-launcher-db-x", "ns/db", Keeper::Vm));
}

#[test]
fn every_row_has_a_test() {
    let here = include_str!("tables.rs");
    let elsewhere = include_str!("executor.rs");
    let missing: BTreeSet<_> = Row::ALL
        .iter()
        .map(|row| row.code())
        .filter(|code| !elsewhere.contains(&format!("\"{code}\"")) && !here.contains(&format!("\"{code}\"")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
