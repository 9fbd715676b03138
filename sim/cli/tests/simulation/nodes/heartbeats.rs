//! Heartbeats whose absence cannot matter are not sent, and that has no observable effect.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube_sim::fault::{
    ApiServerCrash, ApiServerFreeze, CacheLag, Crash, FaultKind, Forbidden, HostDown, Loss, OneWayPartition, Partition, Pause,
    TooManyRequests,
};
use serde_json::json;
use sim_config::Probability;
use sim_config::time::Span;

use super::{Stage, everybody, target};

#[test]
fn nothing_happens_in_a_cluster_in_which_nothing_happens() {
    Stage::run(1, 5, async |stage| {
        stage.running("web", "node-0", json!({})).await;
        stage.wait(60).await;
        let before = stage.bed.revision();
        stage.wait(36_000).await;
        assert_eq!(stage.bed.revision(), before, "nobody has written anything for ten hours");
        assert!((0..5).all(|node| stage.ready(&format!("node-{node}")) == "True"));
    });
}

#[test]
fn objects_are_shown_as_if_heartbeats_had_been_sent() {
    Stage::run(1, 2, async |stage| {
        stage.wait(36_000).await;
        let now = jiff_seconds(&stage);
        let mut seen = 0;
        for (kind, object) in stage.bed.cluster.dump() {
            let value = object.to_value();
            if kind == stage.bed.kind::<Lease>() {
                let renewed: jiff::Timestamp = value["spec"]["renewTime"].as_str().unwrap().parse().unwrap();
                let ago = now - renewed.as_second();
                assert!((0..=11).contains(&ago), "renewed {ago} s ago");
                seen += 1;
            } else if kind == stage.bed.kind::<k8s_openapi::api::core::v1::Node>() {
                let posted: jiff::Timestamp = value["status"]["conditions"][0]["lastHeartbeatTime"].as_str().unwrap().parse().unwrap();
                let ago = now - posted.as_second();
                assert!((0..=311).contains(&ago), "posted {ago} s ago");
                seen += 1;
            }
        }
        assert_eq!(seen, 4);
    });
}

fn jiff_seconds(stage: &Stage) -> i64 {
    stage.bed.cluster.wall(stage.machines[0].runtime.kubelet()).as_second()
}

/// A disturbance of heartbeats: its name, the second at which it begins, its duration, and the fault.
///
/// If a fault affects only some requests, the draws of a request depend on those before it, so only faults that affect all requests can be
/// compared. Also, a manager that was paused checks its nodes and receives their updates at the same moment: the order is drawn, too.
type Row = (&'static str, u32, u32, FaultKind);

fn rows() -> Vec<Row> {
    let kubelet = || target("kubelet-0");
    let servers = || target("apiserver-*");
    vec![
        ("host down", 3, 120, FaultKind::HostDown(HostDown { host: target("node-0") })),
        ("crash", 7, 0, FaultKind::Crash(Crash { process: kubelet(), down: Span::secs(90) })),
        ("pause", 1, 80, FaultKind::Pause(Pause { process: kubelet() })),
        ("partition", 9, 100, FaultKind::Partition(Partition { from: kubelet(), to: servers() })),
        ("short partition", 4, 48, FaultKind::Partition(Partition { from: kubelet(), to: servers() })),
        ("one way", 2, 200, FaultKind::OneWayPartition(OneWayPartition { from: servers(), to: kubelet() })),
        ("loss", 5, 300, FaultKind::Loss(Loss { from: kubelet(), to: servers(), chance: Probability::ALWAYS })),
        ("frozen leases", 6, 120, FaultKind::ApiServerFreeze(ApiServerFreeze { server: servers(), resource: "leases".to_owned() })),
        (
            "late leases",
            6,
            200,
            FaultKind::CacheLag(CacheLag { process: target("controller-manager"), resource: "leases".to_owned(), by: Span::secs(30) }),
        ),
        ("forbidden", 8, 150, FaultKind::Forbidden(Forbidden { client: kubelet(), resource: "*".to_owned() })),
        (
            "throttled",
            8,
            200,
            FaultKind::TooManyRequests(TooManyRequests {
                server: servers(),
                client: kubelet(),
                chance: Probability::ALWAYS,
                retry_after: 2,
            }),
        ),
        ("servers down", 3, 70, FaultKind::ApiServerCrash(ApiServerCrash { server: servers(), initializing: Span::secs(10) })),
        ("manager cut off", 3, 120, FaultKind::Partition(Partition { from: target("controller-manager"), to: servers() })),
    ]
}

/// The times at which each node changed its condition Ready, in whole seconds, and the changes.
fn transitions(seed: u64, always: bool, row: &Row) -> Vec<(u64, String)> {
    let (_, after, lasts, kind) = row.clone();
    let before = |bed: &kube_sim::testbed::Testbed| {
        if always {
            bed.cluster.nodes.heartbeats.send_all();
        }
    };
    Stage::run_with(seed, 3, everybody(), before, async |stage| {
        // The faults begin at the same times.
        stage.bed.rt.sleep_until(sim_config::time::SimTime::from_secs(60 + u64::from(after))).await;
        stage.strike([(lasts, kind)]).await;
        let state = |node: &str| format!("{node} {}", stage.ready(node));
        let mut last = ["node-0", "node-1", "node-2"].map(&state);
        let mut seen = Vec::new();
        for _ in 0..3_500 {
            stage.bed.wait(Duration::from_millis(100)).await;
            for (place, node) in ["node-0", "node-1", "node-2"].into_iter().enumerate() {
                let now = state(node);
                if now != last[place] {
                    seen.push((stage.bed.rt.now().as_micros() / 1_000_000, now.clone()));
                    last[place] = now;
                }
            }
        }
        seen
    })
}

#[test]
fn with_faults_nodes_change_at_the_same_seconds_as_with_heartbeats_always_on() {
    let mut noticed = 0;
    for row in rows() {
        for seed in 0..2 {
            let (always, elided) = (transitions(seed, true, &row), transitions(seed, false, &row));
            let about = |list: &[(u64, String)]| list.iter().map(|(_, what)| what.clone()).collect::<Vec<_>>();
            assert_eq!(about(&always), about(&elided), "{} with seed {seed}\n{always:?}\n{elided:?}", row.0);
            for ((one, what), (other, _)) in always.iter().zip(&elided) {
                assert!(one.abs_diff(*other) <= 1, "{} with seed {seed}: {what} at {one} and at {other}\n{always:?}\n{elided:?}", row.0);
            }
            noticed += usize::from(!always.is_empty());
        }
    }
    assert!(noticed >= 20, "most of these faults are noticed: {noticed}");
}
