//! Jobs (K §7.3).

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube_machinery::ClientExt;
use kube_machinery::api::{DeleteOptions, Propagation};
use kube_sim::actor::controller_manager::Controller;
use kube_sim::testbed::{from_json, key};
use serde_json::{Value, json};

use super::support::{Cluster, Fate, SECOND, What, run, template};

const ONLY: &[Controller] = &[Controller::Job];

fn job(spec: Value) -> Job {
    let mut all = json!({"template": template("web:1")});
    all["template"]["spec"]["restartPolicy"] = "Never".into();
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    from_json(json!({"metadata": {"name": "web", "namespace": "default"}, "spec": all}))
}

/// The numbers of pods that succeeded and failed, and the result of the Job.
async fn outcome(cluster: &Cluster) -> (i32, i32, Option<String>) {
    let status = cluster.get::<Job>("web").await.status.clone().unwrap_or_default();
    assert_eq!(status.uncounted_terminated_pods, None);
    let end = status.conditions.unwrap_or_default().into_iter().next().map(|condition| condition.type_);
    (status.succeeded.unwrap_or(0), status.failed.unwrap_or(0), end)
}

fn created(cluster: &Cluster) -> usize {
    cluster.seen("web").iter().filter(|event| event.what == What::Created).count()
}

#[test]
fn a_job_runs_as_many_pods_as_it_may_at_a_time_until_enough_have_succeeded() {
    for seed in 0..5 {
        run(seed, ONLY, async |cluster| {
            cluster.fate("web", Fate::Succeeds);
            cluster.create(job(json!({"parallelism": 2, "completions": 5}))).await;
            cluster.wait(4).await;
            assert_eq!(cluster.pods().await.len(), 2, "seed {seed}");
            cluster.wait(60).await;
            assert_eq!(outcome(&cluster).await, (5, 0, Some("Complete".to_owned())), "seed {seed}");
            assert_eq!(created(&cluster), 5, "seed {seed}");
            assert!(
                cluster.pods().await.iter().all(|pod| pod.metadata.finalizers.is_none()),
                "completed pods stay, and nothing holds them"
            );
        });
    }
}

#[test]
fn a_deleted_pod_is_replaced_at_once_and_counted_as_failed() {
    run(1, ONLY, async |cluster| {
        cluster.create(job(json!({"completions": 1}))).await;
        cluster.wait(5).await;
        let victim = cluster.names().await[0].clone();
        cluster.fate(&victim, Fate::Lingers);
        cluster.delete::<Pod>(&victim).await;
        cluster.wait(15).await;
        assert_eq!((cluster.pods().await.len(), cluster.ready().await.len()), (2, 1), "after the back-off of a failure");
        assert_eq!(outcome(&cluster).await, (0, 1, None));
    });
}

#[test]
fn with_the_replacement_policy_failed_the_old_pod_is_gone_before_the_next_comes() {
    run(1, ONLY, async |cluster| {
        cluster.create(job(json!({"completions": 1, "podReplacementPolicy": "Failed"}))).await;
        cluster.wait(5).await;
        let victim = cluster.names().await[0].clone();
        cluster.fate(&victim, Fate::Lingers);
        cluster.delete::<Pod>(&victim).await;
        cluster.wait(60).await;
        assert_eq!(cluster.names().await, [victim]);
    });
}

#[test]
fn the_object_of_a_pod_stays_until_it_was_counted() {
    run(1, ONLY, async |cluster| {
        cluster.fate("web", Fate::Succeeds);
        cluster.create(job(json!({"completions": 1}))).await;
        cluster.wait(4).await;
        cluster.bed.cluster.crash(cluster.manager);
        cluster.wait(10).await;
        let pod = cluster.names().await[0].clone();
        cluster.delete::<Pod>(&pod).await;
        cluster.wait(10).await;
        let lingering = cluster.get::<Pod>(&pod).await;
        assert!(lingering.metadata.deletion_timestamp.is_some());
        assert_eq!(lingering.status.as_ref().unwrap().phase.as_deref(), Some("Succeeded"));
        cluster.bed.cluster.start(cluster.manager);
        cluster.wait(20).await;
        assert_eq!(cluster.names().await, [""; 0]);
        assert_eq!(outcome(&cluster).await, (1, 0, Some("Complete".to_owned())));
    });
}

#[test]
fn too_many_failures_end_a_job() {
    run(1, ONLY, async |cluster| {
        cluster.fate("web", Fate::Fails);
        cluster.create(job(json!({"completions": 3, "parallelism": 1, "backoffLimit": 2}))).await;
        cluster.wait(300).await;
        assert_eq!(outcome(&cluster).await, (0, 3, Some("Failed".to_owned())));
        assert_eq!(created(&cluster), 3);
    });
}

#[test]
fn an_indexed_job_runs_each_index_once() {
    run(1, ONLY, async |cluster| {
        cluster.fate("web", Fate::Succeeds);
        cluster.create(job(json!({"completions": 4, "parallelism": 3, "completionMode": "Indexed"}))).await;
        cluster.wait(60).await;
        assert_eq!(outcome(&cluster).await.2.as_deref(), Some("Complete"));
        assert_eq!(cluster.get::<Job>("web").await.status.as_ref().unwrap().completed_indexes.as_deref(), Some("0-3"));
        let mut indexes: Vec<String> = cluster.names().await.iter().map(|name| name[..name.rfind('-').unwrap()].to_owned()).collect();
        indexes.sort();
        assert_eq!(indexes, ["web-0", "web-1", "web-2", "web-3"]);
    });
}

#[test]
fn a_finished_job_goes_after_its_time_to_live_and_its_pods_with_it() {
    run(1, ONLY, async |cluster| {
        cluster.fate("web", Fate::Succeeds);
        cluster.create(job(json!({"completions": 2, "parallelism": 2, "ttlSecondsAfterFinished": 30}))).await;
        cluster.wait(20).await;
        assert_eq!(cluster.pods().await.len(), 2);
        cluster.wait(40).await;
        assert!(cluster.client.get::<Job>(&key("web")).await.unwrap_err().is_not_found());
        assert_eq!(cluster.pods().await.len(), 0);
    });
}

#[test]
fn pods_of_a_deleted_job_are_let_go() {
    for crashes in [false, true] {
        run(1, ONLY, async |cluster| {
            cluster.create(job(json!({"completions": 2, "parallelism": 2}))).await;
            cluster.wait(10).await;
            if crashes {
                cluster.bed.cluster.crash(cluster.manager);
            }
            cluster.client.delete::<Job>(&key("web"), DeleteOptions::default()).await.unwrap();
            if crashes {
                cluster.wait(5).await;
                cluster.bed.cluster.start(cluster.manager);
            }
            cluster.wait(20).await;
            assert_eq!(cluster.names().await, [""; 0], "crashes: {crashes}");
        });
    }
}

#[test]
fn a_job_that_is_deleted_in_the_foreground_lets_its_pods_go_and_makes_no_others() {
    for fate in [Fate::Ready, Fate::Succeeds] {
        run(1, ONLY, async |cluster| {
            cluster.fate("web", fate);
            cluster.create(job(json!({"completions": 4, "parallelism": 2, "ttlSecondsAfterFinished": 1}))).await;
            cluster.wait(4).await;
            let made = created(&cluster);
            let foreground = DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
            cluster.client.delete::<Job>(&key("web"), foreground).await.unwrap();
            cluster.wait(60).await;
            assert_eq!(cluster.names().await, [""; 0], "{fate:?}");
            assert_eq!(created(&cluster), made, "{fate:?}");
            assert!(cluster.client.get::<Job>(&key("web")).await.unwrap_err().is_not_found(), "{fate:?}");
        });
    }
}

#[test]
fn a_manager_that_crashes_counts_each_pod_once() {
    for seed in 0..10 {
        run(seed, ONLY, async |cluster| {
            cluster.fate("web", Fate::Succeeds);
            cluster.create(job(json!({"completions": 8, "parallelism": 3}))).await;
            for crash in 0..10u32 {
                cluster.bed.wait(SECOND + std::time::Duration::from_millis(u64::from(crash) * 97 + seed * 31)).await;
                cluster.bed.cluster.crash(cluster.manager);
                cluster.bed.wait(SECOND / 2).await;
                cluster.bed.cluster.start(cluster.manager);
            }
            cluster.wait(60).await;
            let (succeeded, failed, end) = outcome(&cluster).await;
            assert_eq!((failed, end.as_deref()), (0, Some("Complete")), "seed {seed}");
            assert_eq!(succeeded as usize, created(&cluster), "seed {seed}");
        });
    }
}
