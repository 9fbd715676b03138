//! CronJobs (K §7.3).

use std::sync::Arc;

use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube_machinery::ClientExt;
use kube_machinery::api::ListOptions;
use kube_sim::actor::controller_manager::Controller;
use kube_sim::testbed::from_json;
use serde_json::{Value, json};

use super::support::{Cluster, Fate, run, template};

const BOTH: &[Controller] = &[Controller::Job, Controller::CronJob];

fn cron_job(spec: Value) -> CronJob {
    let mut template = template("web:1");
    template["spec"]["restartPolicy"] = "Never".into();
    let mut all = json!({"schedule": "@every 30s", "jobTemplate": {"spec": {"template": template}}});
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    from_json(json!({"metadata": {"name": "web", "namespace": "default"}, "spec": all}))
}

async fn jobs(cluster: &Cluster) -> Vec<Arc<Job>> {
    cluster.client.list::<Job>(None, ListOptions::default()).await.unwrap().items
}

fn ended(job: &Job, how: &str) -> bool {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == how && condition.status == "True")
}

#[test]
fn a_job_comes_at_each_time_and_the_oldest_go_when_there_are_too_many() {
    for seed in 0..5 {
        run(seed, BOTH, async |cluster| {
            cluster.fate("web", Fate::Succeeds);
            cluster.create(cron_job(json!({"successfulJobsHistoryLimit": 2}))).await;
            cluster.wait(25).await;
            assert!(jobs(&cluster).await.is_empty(), "seed {seed}");
            cluster.wait(20).await;
            let first = jobs(&cluster).await;
            assert_eq!(first.len(), 1, "seed {seed}");
            let owner = &first[0].metadata.owner_references.as_ref().unwrap()[0];
            assert_eq!((&*owner.kind, &*owner.name, owner.controller), ("CronJob", "web", Some(true)));
            cluster.wait(120).await;
            let left = jobs(&cluster).await;
            assert!(left.iter().filter(|job| ended(job, "Complete")).count() == 2 && left.len() <= 3, "seed {seed}");
            assert!(left.iter().all(|job| job.metadata.uid != first[0].metadata.uid), "the oldest is gone, seed {seed}");
            assert!(cluster.pods().await.len() <= 3, "its pods are garbage, seed {seed}");
        });
    }
}

#[test]
fn forbid_waits_for_the_job_that_runs_and_allow_does_not() {
    for (policy, running) in [("Forbid", 1), ("Allow", 3)] {
        run(1, BOTH, async |cluster| {
            cluster.fate("web", Fate::Ready);
            cluster.create(cron_job(json!({"concurrencyPolicy": policy}))).await;
            cluster.wait(100).await;
            assert_eq!(jobs(&cluster).await.len(), running, "{policy}");
            assert_eq!(cluster.get::<CronJob>("web").await.status.as_ref().unwrap().active.as_ref().unwrap().len(), running);
        });
    }
}

#[test]
fn a_crash_makes_no_job_twice_and_makes_up_for_what_was_missed_once() {
    run(3, BOTH, async |cluster| {
        cluster.fate("web", Fate::Succeeds);
        cluster.create(cron_job(json!({"successfulJobsHistoryLimit": 10}))).await;
        cluster.wait(40).await;
        assert_eq!(jobs(&cluster).await.len(), 1);
        cluster.bed.cluster.crash(cluster.manager);
        cluster.wait(100).await;
        cluster.bed.cluster.start(cluster.manager);
        cluster.wait(8).await;
        assert_eq!(jobs(&cluster).await.len(), 2);
        cluster.patch::<CronJob>("web", json!({"spec": {"suspend": true}})).await;
        cluster.wait(100).await;
        assert_eq!(jobs(&cluster).await.len(), 2, "it is suspended");
    });
}
