//! New sandboxes for the same pod: after failures, deaths and reboots (K §5.3 to §5.6).

use std::time::Duration;

use kube_machinery::api::DeleteOptions;
use kube_sim::fault::{FaultKind, SandboxLost, Target};
use kube_sim::testbed::grace;
use serde_json::json;
use sim_config::Probability;

use super::{SECOND, Stage};

fn lose_sandbox() -> FaultKind {
    FaultKind::SandboxLost(SandboxLost { process: Target::from_text("kubelet-0"), nth: 1 })
}

#[test]
fn k131_a_dead_sandbox_is_replaced_with_the_same_uid_and_a_new_id() {
    Stage::run(1, async |stage| {
        let pod = stage.running("web", json!({})).await;
        let before = stage.ips("web");
        stage.strike(SECOND, lose_sandbox());
        stage.until("it has another address", 20, || ![vec![], before.clone()].contains(&stage.ips("web"))).await;
        assert_eq!(stage.plugin.story(), ["ADD eth0 #0", "DEL eth0 #0", "ADD eth0 #1"]);
        let uid = pod.metadata.uid.as_deref().unwrap();
        assert!(stage.plugin.calls().iter().all(|call| &*call.attachment.pod_uid == uid));
        assert!(!stage.answers(&before[0]) && stage.answers(&stage.ips("web")[0]));
    });
}

#[test]
fn a_pod_that_runs_has_no_address_while_it_gets_another_sandbox() {
    for on_host in [false, true] {
        Stage::run(1, async |stage| {
            stage.running("web", json!({"spec": {"hostNetwork": on_host}})).await;
            stage.plugin.mood.lock().add_takes = 30 * SECOND;
            stage.strike(SECOND, lose_sandbox());
            stage.bed.wait(15 * SECOND).await;
            assert_eq!((stage.ips("web").is_empty(), stage.phase("web").as_str()), (!on_host, "Running"), "{on_host}");
            stage.until("it has one again", 60, || !stage.ips("web").is_empty()).await;
        });
    }
}

#[test]
fn k131_garbage_collection_may_repeat_del_after_the_add_of_the_successor() {
    let always = |mut config: kube_sim::actor::kubelet::KubeletConfig| {
        config.repeats_del = Probability::ALWAYS;
        config
    };
    Stage::run_with(1, always, async |stage| {
        stage.running("web", json!({})).await;
        stage.strike(SECOND, lose_sandbox());
        stage.until("its DEL is repeated", 90, || stage.plugin.story().len() == 4).await;
        assert_eq!(stage.plugin.story(), ["ADD eth0 #0", "DEL eth0 #0", "ADD eth0 #1", "DEL eth0 #0 without netns"]);
        stage.bed.wait(300 * SECOND).await;
        assert_eq!((stage.plugin.story().len(), stage.runtime.owes()), (4, 0), "once, and not for ever");
    });
}

#[test]
fn k132_a_failed_add_is_cleaned_up_and_tried_again_with_another_container() {
    Stage::run(1, async |stage| {
        stage.plugin.mood.lock().adds_fail = 2;
        stage.create("web", json!({})).await;
        stage.until("the pod runs", 40, || stage.phase("web") == "Running").await;
        let failed = |n| [format!("ADD eth0 #{n}"), format!("DEL eth0 #{n}"), format!("DEL eth0 #{n}")];
        let expected: Vec<String> = failed(0).into_iter().chain(failed(1)).chain(["ADD eth0 #2".to_owned()]).collect();
        assert_eq!(stage.plugin.story(), expected, "Multus rolls back, the runtime cleans up");
        let adds: Vec<_> = stage.plugin.calls().into_iter().filter(|call| call.add).map(|call| call.at).collect();
        assert!(adds.windows(2).all(|pair| (10..=16).contains(&pair[1].since(pair[0]).as_secs())), "{adds:?}");
    });
}

#[test]
fn k132_multus_rolls_back_what_it_had_added_in_reverse_order() {
    Stage::run(1, async |stage| {
        stage.create("web", json!({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "a"}}})).await;
        stage.until("the first ADD is done", 5, || stage.plugin.calls().first().is_some_and(|call| call.answered.is_some())).await;
        stage.plugin.mood.lock().adds_fail = 1;
        stage.until("the pod runs", 30, || stage.phase("web") == "Running").await;
        let first = ["ADD eth0 #0", "ADD net1 #0", "DEL net1 #0", "DEL eth0 #0", "DEL net1 #0", "DEL eth0 #0"];
        assert_eq!(stage.plugin.story()[..6], first);
        assert_eq!(stage.plugin.story()[6..], ["ADD eth0 #1", "ADD net1 #1"]);
    });
}

#[test]
fn an_add_that_takes_too_long_is_given_up_and_cleaned_up_when_it_ends() {
    Stage::run(1, async |stage| {
        stage.plugin.mood.lock().add_takes = Duration::from_secs(300);
        stage.create("web", json!({})).await;
        stage.until("ADD is called", 5, || stage.plugin.story().len() == 1).await;
        stage.plugin.mood.lock().add_takes = SECOND;
        stage.until("the pod runs", 270, || stage.phase("web") == "Running").await;
        assert_eq!(stage.plugin.story(), ["ADD eth0 #0", "ADD eth0 #1"], "while the first ADD is still under way");
        let address = stage.ips("web").remove(0);
        stage.until("the first ADD is cleaned up", 60, || stage.runtime.sandboxes().len() == 1).await;
        assert_eq!(stage.plugin.story()[2..], ["DEL eth0 #0", "DEL eth0 #0"]);
        assert!(stage.answers(&address) && stage.plugin.left().len() == 1);
    });
}

#[test]
fn a_pod_does_not_end_before_the_stragglers_of_its_sandboxes() {
    Stage::run(1, async |stage| {
        stage.plugin.mood.lock().add_takes = Duration::from_secs(3_000);
        stage.create("web", json!({})).await;
        stage.until("the second ADD is called", 300, || stage.plugin.story().len() == 2).await;
        stage.delete("web", DeleteOptions::default()).await;
        stage.until("the object goes", 10, || stage.stored("web").is_none()).await;
        assert!(stage.plugin.left().is_empty(), "{:?}", stage.plugin.story());
        assert!(stage.runtime.sandboxes().is_empty());
    });
}

#[test]
fn k140_after_a_reboot_every_sandbox_gets_del_with_empty_netns_and_every_pod_a_new_one() {
    Stage::run(1, async |stage| {
        for name in ["a", "b", "c"] {
            stage.running(name, json!({})).await;
        }
        stage.running("job", json!({"metadata": {"annotations": {"runs-for": "1"}}, "spec": {"restartPolicy": "Never"}})).await;
        stage.until("the job is over", 10, || stage.phase("job") == "Succeeded").await;
        let (calls, old) = (stage.plugin.story().len(), ["a", "b", "c"].map(|name| stage.ips(name).remove(0)));
        let uids = ["a", "b", "c"].map(|name| stage.stored(name).unwrap().metadata.uid.clone());
        stage.power_loss(Duration::from_secs(30));
        stage.bed.wait(SECOND).await;
        assert!(!old.iter().any(|address| stage.answers(address)), "the power is off");
        let moved = || ["a", "b", "c"].iter().zip(&old).all(|(name, old)| stage.ips(name).first().is_some_and(|address| address != old));
        stage.until("every pod has another address", 60, moved).await;
        let mut after = stage.plugin.story().split_off(calls);
        after.sort();
        let dels = [0, 1, 2].map(|n| format!("DEL eth0 #{n} without netns"));
        let adds = [4, 5, 6].map(|n| format!("ADD eth0 #{n}"));
        assert_eq!(after, adds.into_iter().chain(dels).collect::<Vec<_>>(), "nothing for the job, which is over");
        assert_eq!(["a", "b", "c"].map(|name| stage.stored(name).unwrap().metadata.uid.clone()), uids);
    });
}

#[test]
fn two_uids_of_one_name_are_worked_on_side_by_side() {
    Stage::run(1, async |stage| {
        stage.plugin.mood.lock().add_takes = 3 * SECOND;
        stage.create("web", json!({})).await;
        stage.until("ADD is called", 5, || stage.plugin.story().len() == 1).await;
        stage.until("the pod runs", 5, || stage.phase("web") == "Running").await;
        stage.plugin.mood.lock().dels_fail = 1;
        stage.delete("web", grace(0)).await;
        stage.create("web", json!({})).await;
        stage.until("the second pod runs", 10, || stage.phase("web") == "Running").await;
        assert_eq!(stage.plugin.left().len(), 2, "while DEL of the first one has failed once");
        stage.until("nothing is left of the first", 30, || stage.plugin.left().len() == 1).await;
        let uids: std::collections::BTreeSet<_> = stage.plugin.calls().into_iter().map(|call| call.attachment.pod_uid).collect();
        assert_eq!(uids.len(), 2);
    });
}

#[test]
fn the_failed_clean_up_of_a_failed_add_is_forgotten() {
    Stage::run(1, async |stage| {
        stage.plugin.mood.lock().adds_fail = 1;
        stage.plugin.mood.lock().dels_fail = 2;
        stage.create("web", json!({})).await;
        stage.until("the pod runs", 30, || stage.phase("web") == "Running").await;
        stage.delete("web", DeleteOptions::default()).await;
        stage.until("the object goes", 10, || stage.stored("web").is_none()).await;
        assert_eq!(stage.plugin.story(), ["ADD eth0 #0", "DEL eth0 #0", "DEL eth0 #0", "ADD eth0 #1", "DEL eth0 #1"]);
    });
}
