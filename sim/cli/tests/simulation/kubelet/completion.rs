//! Pods that end by themselves, restart, or never get a network (K §5.1, §5.7).

use serde_json::json;

use super::{SECOND, Stage};

#[test]
fn k133_a_container_restart_makes_no_cni_call_and_changes_no_address() {
    for policy in ["Always", "OnFailure"] {
        Stage::run(1, async |stage| {
            let extra = json!({"metadata": {"annotations": {"runs-for": "20", "fails": "yes"}}, "spec": {"restartPolicy": policy}});
            stage.running("web", extra).await;
            let addresses = stage.ips("web");
            stage.bed.wait(200 * SECOND).await;
            assert_eq!((stage.phase("web").as_str(), stage.ips("web")), ("Running", addresses));
            assert_eq!(stage.plugin.story(), ["ADD eth0 #0"]);
        });
    }
}

#[test]
fn k134_a_completed_pod_gets_del_while_its_object_stays_with_its_address() {
    for (policy, fails, phase) in [("Never", false, "Succeeded"), ("OnFailure", false, "Succeeded"), ("Never", true, "Failed")] {
        Stage::run(1, async |stage| {
            let mut annotations = json!({"runs-for": "5"});
            if fails {
                annotations["fails"] = json!("yes");
            }
            stage.running("job", json!({"metadata": {"annotations": annotations}, "spec": {"restartPolicy": policy}})).await;
            let addresses = stage.ips("job");
            stage.until("the phase is terminal", 10, || stage.phase("job") == phase).await;
            assert_eq!(stage.plugin.story(), ["ADD eth0 #0", "DEL eth0 #0"]);
            assert!(stage.plugin.left().is_empty() && !stage.answers(&addresses[0]));
            stage.bed.wait(600 * SECOND).await;
            assert_eq!(stage.ips("job"), addresses);
            let status = stage.stored("job").unwrap().status.clone().unwrap();
            let ended = status.container_statuses.unwrap()[0].state.clone().unwrap().terminated.unwrap();
            assert!(ended.finished_at.is_some(), "whoever frees addresses of terminal pods looks at this time");
        });
    }
}

#[test]
fn k135_host_network_and_refused_pods_make_no_cni_call() {
    Stage::run(1, async |stage| {
        stage.running("host", json!({"spec": {"hostNetwork": true}})).await;
        assert_eq!(stage.ips("host"), ["192.168.0.1"]);
        stage.create("refused", json!({"metadata": {"annotations": {"refused": "yes"}}})).await;
        stage.until("it is refused", 5, || stage.phase("refused") == "Failed").await;
        assert_eq!(stage.stored("refused").unwrap().status.as_ref().unwrap().reason.as_deref(), Some("OutOfcpu"));
        stage.delete("host", Default::default()).await;
        stage.delete("refused", Default::default()).await;
        stage.until("both go", 10, || stage.stored("host").is_none() && stage.stored("refused").is_none()).await;
        assert_eq!(stage.plugin.calls(), []);
    });
}

#[test]
fn a_node_refuses_a_pod_too_many_and_takes_the_next_one_when_one_has_gone() {
    let few = |mut config: kube_sim::actor::kubelet::KubeletConfig| {
        config.max_pods = 2;
        config
    };
    Stage::run_with(1, few, async |stage| {
        stage.running("a", json!({})).await;
        stage.running("b", json!({})).await;
        stage.create("c", json!({})).await;
        stage.until("it is refused", 5, || stage.phase("c") == "Failed").await;
        assert_eq!(stage.stored("c").unwrap().status.as_ref().unwrap().reason.as_deref(), Some("OutOfpods"));
        stage.delete("a", Default::default()).await;
        stage.until("it goes", 10, || stage.stored("a").is_none()).await;
        stage.running("d", json!({})).await;
        assert_eq!(stage.plugin.story().iter().filter(|call| call.starts_with("ADD")).count(), 3);
    });
}

#[test]
fn a_pod_with_networks_gets_an_interface_for_each_and_del_in_reverse_order() {
    Stage::run(1, async |stage| {
        let networks = json!({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "a, b@x0"}}});
        stage.running("web", networks).await;
        assert_eq!(stage.ips("web").len(), 3);
        stage.delete("web", Default::default()).await;
        stage.until("it goes", 10, || stage.stored("web").is_none()).await;
        assert_eq!(stage.plugin.story(), ["ADD eth0 #0", "ADD net1 #0", "ADD x0 #0", "DEL x0 #0", "DEL net1 #0", "DEL eth0 #0"]);
    });
}

#[test]
fn a_pod_whose_networks_cannot_be_read_gets_no_network_at_all() {
    Stage::run(1, async |stage| {
        stage.create("web", json!({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "a/b/c"}}})).await;
        stage.bed.wait(60 * SECOND).await;
        assert_eq!((stage.phase("web").as_str(), stage.plugin.calls().len()), ("Pending", 0));
        stage.delete("web", Default::default()).await;
        stage.until("it goes", 5, || stage.stored("web").is_none()).await;
    });
}

#[test]
fn a_running_pod_whose_phase_somebody_makes_terminal_is_stopped() {
    use k8s_openapi::api::core::v1::Pod;
    use kube_machinery::ClientExt;
    use kube_machinery::api::Patch;
    use kube_sim::testbed::key;
    Stage::run(1, async |stage| {
        stage.running("web", json!({})).await;
        stage.user.patch_status::<Pod>(&key("web"), Patch::merge(json!({"status": {"phase": "Failed"}}))).await.unwrap();
        stage.until("DEL is done", 10, || stage.plugin.story().len() == 2 && stage.plugin.left().is_empty()).await;
        assert_eq!(stage.phase("web"), "Failed");
    });
}
