//! Silent nodes: the condition, the taints, the pods, and the return.

use kube_sim::fault::{Crash, FaultKind, HostDown, Partition, Pause};
use serde_json::json;
use sim_config::time::Span;

use super::{Stage, target};

fn cut(who: &str) -> FaultKind {
    FaultKind::Partition(Partition { from: target(who), to: target("apiserver-*") })
}

#[test]
fn k136_a_silent_node_becomes_unknown_after_the_grace_and_its_pods_unready() {
    for seed in 0..3 {
        Stage::run(seed, 3, async |stage| {
            stage.running("web", "node-0", json!({})).await;
            stage.running("other", "node-1", json!({})).await;
            assert_eq!((stage.ready("node-0").as_str(), stage.condition("web", "Ready").as_str()), ("True", "True"));
            stage.strike([(600, FaultKind::HostDown(HostDown { host: target("node-0") }))]).await;
            let took = stage.until("the node is unknown", 70, || stage.ready("node-0") == "Unknown").await;
            assert!((40..=56).contains(&took), "{took} s after a crash that came up to 10 s after the last renewal");
            stage.until("it is tainted", 11, || stage.taints("node-0") == ["unreachable:NoExecute", "unreachable:NoSchedule"]).await;
            stage.until("its pod is not ready", 1, || stage.condition("web", "Ready") == "False").await;
            assert_eq!((stage.phase("web").as_str(), stage.is_terminating("web")), ("Running", false));
            assert_eq!((stage.ready("node-1").as_str(), stage.taints("node-1").len()), ("True", 0));
            assert_eq!(stage.condition("other", "Ready"), "True");
            stage.wait(120).await;
            assert!(!stage.is_terminating("web"), "it bears that for five minutes");
        });
    }
}

#[test]
fn a_short_silence_is_not_noticed() {
    Stage::run(1, 2, async |stage| {
        stage.strike([(30, cut("kubelet-0"))]).await;
        for _ in 0..90 {
            stage.wait(1).await;
            assert_eq!((stage.ready("node-0").as_str(), stage.taints("node-0").len()), ("True", 0));
        }
    });
}

#[test]
fn a_node_that_returns_is_ready_again_and_so_are_its_pods() {
    for kind in [
        FaultKind::HostDown(HostDown { host: target("node-0") }),
        FaultKind::Crash(Crash { process: target("kubelet-0"), down: Span::secs(120) }),
        FaultKind::Pause(Pause { process: target("kubelet-0") }),
        cut("kubelet-0"),
    ] {
        Stage::run(1, 2, async |stage| {
            let before = stage.running("web", "node-0", json!({})).await;
            stage.strike([(120, kind.clone())]).await;
            stage.until("it is noticed", 70, || stage.ready("node-0") == "Unknown").await;
            stage.until("it is tainted", 15, || stage.taints("node-0").len() == 2).await;
            stage.until("the fault is over and the node is back", 130, || stage.ready("node-0") == "True").await;
            stage.until("it is not tainted", 16, || stage.taints("node-0").is_empty()).await;
            stage.until("its pod is ready", 20, || stage.condition("web", "Ready") == "True").await;
            let after = stage.pod("web").unwrap();
            assert_eq!(before.metadata.uid, after.metadata.uid, "{kind:?}: nobody evicted it");
        });
    }
}

#[test]
fn a_scheduler_keeps_away_from_a_node_that_is_lost() {
    Stage::run(1, 2, async |stage| {
        stage.strike([(300, cut("kubelet-0"))]).await;
        stage.until("it is noticed", 70, || !stage.taints("node-0").is_empty()).await;
        for number in 0..6 {
            let pod = stage.running(&format!("web-{number}"), "", json!({})).await;
            assert_eq!(pod.spec.as_ref().unwrap().node_name.as_deref(), Some("node-1"));
        }
    });
}

#[test]
fn k137_a_partitioned_node_answers_on_and_a_dead_one_does_not() {
    Stage::run(1, 2, async |stage| {
        stage.running("web", "node-0", json!({})).await;
        stage.strike([(300, cut("kubelet-0"))]).await;
        stage.until("it is noticed", 70, || stage.ready("node-0") == "Unknown").await;
        assert!(stage.lives(0, "web"), "the containers know nothing of it");
        stage.strike([(300, FaultKind::HostDown(HostDown { host: target("node-0") }))]).await;
        assert!(!stage.lives(0, "web"));
    });
}

#[test]
fn when_every_node_is_silent_nobody_is_evicted() {
    Stage::run(1, 3, async |stage| {
        stage.running("web", "node-0", json!({})).await;
        stage.strike([(900, cut("kubelet-*"))]).await;
        stage.until("all are noticed", 70, || (0..3).all(|node| stage.ready(&format!("node-{node}")) == "Unknown")).await;
        stage.wait(800).await;
        assert_eq!(stage.taints("node-0"), ["unreachable:NoSchedule"], "it is rather the control plane that is cut off");
        assert!(!stage.is_terminating("web"));
        stage.until("they are back", 200, || (0..3).all(|node| stage.taints(&format!("node-{node}")).is_empty())).await;
    });
}

#[test]
fn a_controller_manager_that_starts_anew_waits_anew() {
    Stage::run(1, 2, async |stage| {
        stage.strike([(600, cut("kubelet-0"))]).await;
        stage.wait(35).await;
        let manager = stage.bed.rt.find_process("controller-manager").unwrap();
        stage.bed.cluster.crash(manager);
        stage.bed.cluster.start(manager);
        stage.wait(45).await;
        assert_eq!(stage.ready("node-0"), "True", "80 s after the cut");
        stage.until("it is noticed", 15, || stage.ready("node-0") == "Unknown").await;
    });
}

#[test]
fn nodes_are_tainted_one_each_ten_seconds() {
    Stage::run(1, 8, async |stage| {
        stage.strike([(600, cut("kubelet-0,kubelet-1,kubelet-2"))]).await;
        let evicting = || (0..3).filter(|node| stage.taints(&format!("node-{node}")).contains(&"unreachable:NoExecute".to_owned())).count();
        stage.until("the first is tainted", 70, || evicting() == 1).await;
        let took = stage.until("the others are", 40, || evicting() == 3).await;
        assert!((15..=25).contains(&took), "{took} s");
    });
}
