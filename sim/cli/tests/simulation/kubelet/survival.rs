//! Crashes, pauses and partitions of the kubelet at any point (K §5.5, §6.4).

use std::time::Duration;

use kube_machinery::api::DeleteOptions;
use kube_sim::fault::{CrashAtWrite, FaultKind, Partition, Pause, Target};
use kube_sim::node::SandboxState;
use kube_sim::rt::ProcessState;
use kube_sim::testbed::grace;
use serde_json::json;
use sim_config::time::Span;

use super::{MS, SECOND, Stage};

#[test]
fn k139_on_its_return_the_kubelet_kills_and_dels_sandboxes_of_absent_and_terminating_pods() {
    Stage::run(1, async |stage| {
        for name in ["absent", "terminating", "stays"] {
            stage.running(name, json!({})).await;
        }
        stage.crash(Duration::from_secs(60));
        stage.bed.wait(SECOND).await;
        stage.delete("absent", grace(0)).await;
        stage.delete("terminating", DeleteOptions::default()).await;
        stage.bed.wait(50 * SECOND).await;
        assert_eq!(stage.plugin.story().len(), 3, "no kubelet, no DEL");
        assert!(stage.runtime.sandboxes().len() == 3 && stage.answers("10.0.0.1"), "sandboxes live on without a kubelet");
        let back = stage.bed.rt.now();
        stage.until("both are gone", 30, || stage.plugin.left().len() == 1 && stage.stored("terminating").is_none()).await;
        let dels: Vec<_> = stage.plugin.calls().into_iter().filter(|call| !call.add).collect();
        assert_eq!(dels.len(), 2);
        assert!(dels.iter().all(|call| call.attachment.netns && call.at > back));
        assert_eq!((stage.phase("stays").as_str(), stage.answers("10.0.0.3")), ("Running", true), "and nothing happens to the third");
    });
}

#[test]
fn k139_after_a_partition_the_kubelet_stops_what_was_deleted_meanwhile() {
    Stage::run(1, async |stage| {
        stage.running("web", json!({})).await;
        let cut = Partition { from: Target::from_text("kubelet-0"), to: Target::from_text("*") };
        stage.strike(Duration::from_secs(200), FaultKind::Partition(cut));
        stage.bed.wait(SECOND).await;
        stage.delete("web", grace(0)).await;
        stage.bed.wait(190 * SECOND).await;
        assert!(stage.answers("10.0.0.1") && stage.stored("web").is_none(), "the object is gone, the address in use (K137)");
        stage.until("DEL is done", 120, || stage.plugin.left().is_empty()).await;
        assert!(!stage.answers("10.0.0.1"));
    });
}

#[test]
fn a_pod_has_its_whole_life_wherever_the_kubelet_crashes_in_it() {
    for step in 0..60u32 {
        Stage::run(1, async |stage| {
            let crash_at = stage.bed.rt.now() + step * 100 * MS;
            stage.create("web", json!({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "a"}}})).await;
            let deleted_at = stage.bed.rt.now() + 3 * SECOND;
            let mut deleted = false;
            let mut crashed = false;
            while stage.stored("web").is_some() {
                let now = stage.bed.rt.now();
                assert!(now.as_secs_f64() < 100.0, "step {step}: {:?}", stage.plugin.story());
                let sandboxes = stage.runtime.sandboxes();
                let mut ready = sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready);
                assert!(ready.all(|sandbox| sandbox.addresses.len() == 2), "step {step}: what loses its network is not ready (K §5.2)");
                if !crashed && now >= crash_at {
                    crashed = true;
                    stage.crash(3 * SECOND);
                }
                if !deleted && now >= deleted_at {
                    deleted = true;
                    stage.delete("web", DeleteOptions::default()).await;
                }
                stage.bed.wait(10 * MS).await;
            }
            assert!(stage.plugin.left().is_empty() && stage.runtime.sandboxes().is_empty(), "step {step}: {:?}", stage.plugin.story());
            assert!(!(1..20).any(|n| stage.answers(&format!("10.0.0.{n}"))), "step {step}");
        });
    }
}

#[test]
fn a_pod_has_its_whole_life_wherever_its_node_loses_power() {
    for step in 0..30u32 {
        Stage::run(1, async |stage| {
            let loss_at = stage.bed.rt.now() + step * 200 * MS;
            stage.create("web", json!({})).await;
            let deleted_at = stage.bed.rt.now() + 3 * SECOND;
            let (mut deleted, mut lost) = (false, false);
            while stage.stored("web").is_some() {
                let now = stage.bed.rt.now();
                assert!(now.as_secs_f64() < 100.0, "step {step}: {:?}", stage.plugin.story());
                if !lost && now >= loss_at {
                    lost = true;
                    stage.power_loss(3 * SECOND);
                }
                if !deleted && now >= deleted_at {
                    deleted = true;
                    stage.delete("web", DeleteOptions::default()).await;
                }
                stage.bed.wait(10 * MS).await;
            }
            assert!(stage.plugin.left().is_empty() && stage.runtime.sandboxes().is_empty(), "step {step}: {:?}", stage.plugin.story());
        });
    }
}

#[test]
fn every_write_of_a_kubelet_can_be_its_last() {
    for nth in 1..=3 {
        for after_commit in [false, true] {
            Stage::run(1, async |stage| {
                let point = CrashAtWrite { process: Target::from_text("kubelet-0"), nth, after_commit, down: Span::secs(5) };
                stage.strike(SECOND, FaultKind::CrashAtWrite(point));
                stage.running("web", json!({})).await;
                stage.bed.wait(20 * SECOND).await;
                stage.delete("web", DeleteOptions::default()).await;
                stage.until("the object goes", 60, || stage.stored("web").is_none()).await;
                stage.bed.wait(10 * SECOND).await;
                assert_eq!(stage.plugin.story(), ["ADD eth0 #0", "DEL eth0 #0"], "write {nth}");
                assert_eq!(stage.bed.rt.incarnation(stage.kubelet), 1, "the point was reached");
            });
        }
    }
}

#[test]
fn a_paused_kubelet_goes_on_where_it_stood() {
    Stage::run(1, async |stage| {
        stage.create("web", json!({})).await;
        stage.until("ADD is called", 5, || stage.plugin.story().len() == 1).await;
        stage.strike(Duration::from_secs(60), FaultKind::Pause(Pause { process: Target::from_text("kubelet-0") }));
        stage.bed.wait(30 * SECOND).await;
        assert_eq!((stage.phase("web").as_str(), stage.bed.rt.state(stage.kubelet)), ("Pending", ProcessState::Paused));
        stage.until("the pod runs", 60, || stage.phase("web") == "Running").await;
        assert_eq!(stage.plugin.story(), ["ADD eth0 #0"]);
    });
}

#[test]
fn an_ordinary_life_takes_three_writes_and_no_other_request() {
    Stage::run(1, async |stage| {
        let requests = || stage.bed.cluster.recorder(|recorder| recorder.counts.requests);
        let before = requests();
        stage.running("web", json!({})).await;
        stage.bed.wait(100 * SECOND).await;
        stage.delete("web", DeleteOptions::default()).await;
        stage.until("the object goes", 10, || stage.stored("web").is_none()).await;
        stage.bed.wait(100 * SECOND).await;
        assert_eq!(requests() - before, 5, "the user's two, and the kubelet's status, status, delete");
    });
}

#[test]
fn the_same_run_twice_gives_the_same_digest() {
    let digest = || {
        Stage::run_with(
            7,
            |config| kube_sim::actor::kubelet::KubeletConfig::new(config.node, config.seed),
            async |stage| {
                for number in 0..20 {
                    stage.create(&format!("web-{number}"), json!({})).await;
                }
                stage.bed.wait(20 * SECOND).await;
                stage.crash(3 * SECOND);
                stage.bed.wait(20 * SECOND).await;
                for number in 0..20 {
                    stage.delete(&format!("web-{number}"), DeleteOptions::default()).await;
                }
                stage.bed.wait(200 * SECOND).await;
                assert!(stage.plugin.left().is_empty());
                stage.bed.cluster.recorder(|recorder| (recorder.digest.value(), recorder.digest.events()))
            },
        )
    };
    assert_eq!(digest(), digest());
}

#[test]
fn a_completed_pod_does_not_run_again_wherever_the_kubelet_crashes_at_its_end() {
    for step in 0..30u32 {
        Stage::run(1, async |stage| {
            stage.running("job", json!({"metadata": {"annotations": {"runs-for": "2"}}, "spec": {"restartPolicy": "Never"}})).await;
            stage.bed.wait(1_700 * MS + step * 20 * MS).await;
            stage.crash(SECOND);
            stage.until("the phase is terminal", 30, || stage.phase("job") == "Succeeded").await;
            assert!(stage.plugin.left().is_empty(), "step {step}");
            let adds = stage.plugin.calls().iter().filter(|call| call.add).count();
            assert_eq!(adds, 1, "step {step}: {:?}", stage.plugin.story());
        });
    }
}
