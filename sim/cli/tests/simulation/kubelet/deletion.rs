//! The end of pods by deletion (K §5.2).

use std::time::Duration;

use kube_machinery::api::DeleteOptions;
use kube_sim::fault::{FaultKind, Partition, Target};
use kube_sim::testbed::grace;
use serde_json::json;

use super::{SECOND, Stage};

#[test]
fn k128_del_comes_before_the_terminal_phase_and_before_the_object_goes() {
    Stage::run(1, async |stage| {
        stage.running("web", json!({})).await;
        let [address] = &stage.ips("web")[..] else { panic!("one address") };
        assert!(stage.answers(address));
        stage.delete("web", DeleteOptions::default()).await;
        stage.until("DEL is called", 5, || stage.plugin.story().len() == 2).await;
        assert_eq!(
            (stage.phase("web").as_str(), stage.answers(address)),
            ("Running", false),
            "the interface is down first, and nothing is told before DEL is done"
        );
        stage.until("the phase is terminal", 5, || stage.phase("web") == "Succeeded").await;
        assert!(!stage.answers(address) && stage.plugin.left().is_empty());
        assert_eq!(stage.ips("web"), [address.as_str()], "the status still shows the address");
        stage.until("the object goes", 5, || stage.stored("web").is_none()).await;
        assert_eq!(stage.plugin.story(), ["ADD eth0 #0", "DEL eth0 #0"]);
        assert!(stage.runtime.sandboxes().is_empty());
    });
}

#[test]
fn k127_time_alone_does_not_end_a_terminating_pod() {
    Stage::run(1, async |stage| {
        stage.running("web", json!({})).await;
        let cut = Partition { from: Target::from_text("kubelet-0"), to: Target::from_text("*") };
        stage.strike(Duration::from_secs(600), FaultKind::Partition(cut));
        stage.bed.wait(SECOND).await;
        stage.delete("web", DeleteOptions::default()).await;
        stage.bed.wait(300 * SECOND).await;
        assert_eq!(stage.phase("web"), "Running");
        assert_eq!(stage.plugin.story(), ["ADD eth0 #0"], "its sandbox lives on (K137)");
        assert!(stage.answers(&stage.ips("web")[0]));
        stage.until("the pod goes when its node is back", 500, || stage.stored("web").is_none()).await;
        assert_eq!(stage.plugin.story(), ["ADD eth0 #0", "DEL eth0 #0"]);
    });
}

#[test]
fn k129_a_pod_whose_del_keeps_failing_stays_terminating() {
    Stage::run(1, async |stage| {
        stage.running("web", json!({})).await;
        let address = stage.ips("web").remove(0);
        stage.plugin.mood.lock().dels_fail = 8;
        stage.delete("web", DeleteOptions::default()).await;
        stage.bed.wait(60 * SECOND).await;
        let dels = stage.plugin.calls().len() - 1;
        assert!((4..=7).contains(&dels), "{dels} attempts in a minute, 10 to 15 s apart");
        let pod = stage.stored("web").unwrap();
        assert!(pod.metadata.deletion_timestamp.is_some() && stage.phase("web") == "Running" && !stage.answers(&address));
        stage.until("the object goes", 120, || stage.stored("web").is_none()).await;
        assert!(stage.plugin.left().is_empty() && !stage.answers(&address));
    });
}

#[test]
fn k130_after_a_forced_deletion_the_object_is_gone_before_del() {
    Stage::run(1, async |stage| {
        stage.running("web", json!({})).await;
        let address = stage.ips("web").remove(0);
        stage.delete("web", grace(0)).await;
        assert!(stage.stored("web").is_none() && stage.plugin.story().len() == 1 && stage.answers(&address));
        stage.until("DEL is done", 5, || stage.plugin.left().is_empty()).await;
        assert_eq!(stage.plugin.story(), ["ADD eth0 #0", "DEL eth0 #0"]);
        assert!(!stage.answers(&address));
    });
}

#[test]
fn k130_on_a_dead_node_del_never_comes() {
    Stage::run(1, async |stage| {
        stage.running("web", json!({})).await;
        let address = stage.ips("web").remove(0);
        stage.power_loss(Duration::from_secs(3_600));
        stage.bed.wait(SECOND).await;
        stage.delete("web", grace(0)).await;
        stage.bed.wait(1_000 * SECOND).await;
        assert_eq!(stage.plugin.story(), ["ADD eth0 #0"]);
        assert!(!stage.answers(&address), "a dead machine answers on nothing");
    });
}

#[test]
fn containers_have_the_grace_period_and_a_second_deletion_may_shorten_it() {
    let ends_after = |extra: serde_json::Value, options: DeleteOptions, shorter: Option<i64>| {
        Stage::run_with(
            1,
            |mut config| {
                config.delays.deaf = sim_config::Probability::ALWAYS;
                config
            },
            async |stage| {
                stage.running("web", extra).await;
                let begun = stage.bed.rt.now();
                stage.delete("web", options).await;
                if let Some(shorter) = shorter {
                    stage.bed.wait(3 * SECOND).await;
                    stage.delete("web", grace(shorter)).await;
                }
                stage.until("DEL is called", 100, || stage.plugin.story().len() == 2).await;
                stage.bed.rt.now().since(begun).as_secs_f64().round()
            },
        )
    };
    assert_eq!(ends_after(json!({}), DeleteOptions::default(), None), 30.0);
    assert_eq!(ends_after(json!({"spec": {"terminationGracePeriodSeconds": 7}}), DeleteOptions::default(), None), 7.0);
    assert_eq!(ends_after(json!({}), grace(1), None), 2.0, "never less than two seconds");
    assert_eq!(ends_after(json!({"metadata": {"annotations": {"pre-stop": "9"}}}), grace(10), None), 11.0, "after the hook, too");
    assert_eq!(ends_after(json!({}), DeleteOptions::default(), Some(8)), 8.0);
}

#[test]
fn deletion_during_add_kills_the_plugin_and_cleans_up() {
    Stage::run(1, async |stage| {
        stage.plugin.mood.lock().add_takes = 5 * SECOND;
        stage.create("web", json!({})).await;
        stage.until("ADD is called", 5, || stage.plugin.story().len() == 1).await;
        stage.delete("web", DeleteOptions::default()).await;
        stage.until("the object goes", 4, || stage.stored("web").is_none()).await;
        assert_eq!(stage.plugin.story(), ["ADD eth0 #0", "DEL eth0 #0"]);
        assert_eq!(stage.plugin.calls()[0].answered, None);
    });
}
