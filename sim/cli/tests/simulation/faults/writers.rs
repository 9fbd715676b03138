//! Other writers of the same object.

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::ClientExt;
use kube_machinery::api::DeleteOptions;
use kube_sim::fault::{ConflictingWriter, Crash, FOREIGN_FINALIZER, FaultKind, ForeignFinalizer, WriterMode};
use kube_sim::testbed::{Testbed, config_map, key};
use sim_config::time::Span;

use super::{MS, SECOND, create, stored, strike, target};

fn conflicting(mode: WriterMode, with_version: bool, every: Span) -> FaultKind {
    FaultKind::ConflictingWriter(ConflictingWriter { object: "configmaps/default/counter".into(), mode, with_version, every })
}

/// Whether the store's revision does not change for 30 s.
async fn is_quiet(bed: &Testbed) -> bool {
    let before = bed.revision();
    bed.wait(30 * SECOND).await;
    bed.revision() == before
}

#[test]
fn a_touching_writer_makes_a_slow_guarded_update_conflict() {
    Testbed::run(1, async |bed| {
        let client = bed.client("client");
        create(&client, "counter").await.unwrap();
        strike(&bed, 20 * SECOND, conflicting(WriterMode::Touch, true, Span::millis(100))).await;
        bed.wait(SECOND).await;
        let mut mine = (*client.get::<ConfigMap>(&key("counter")).await.unwrap()).clone();
        assert!(mine.metadata.annotations.as_ref().unwrap().contains_key("example.com/touched"));
        bed.wait(500 * MS).await;
        mine.data.get_or_insert_default().insert("mine".into(), "1".into());
        assert!(client.update(mine).await.unwrap_err().is_conflict());
        bed.wait(20 * SECOND).await;
        assert!(is_quiet(&bed).await, "the fault is over");
    });
}

/// Whether, of 20 guarded updates by others, at least one was acknowledged and is gone afterwards.
async fn loses_updates(bed: &Testbed) -> bool {
    let client = bed.client("client");
    create(&client, "counter").await.unwrap();
    let mut lost = false;
    for number in 0..20 {
        let field = format!("mine-{number}");
        let mut mine = (*client.get::<ConfigMap>(&key("counter")).await.unwrap()).clone();
        mine.data.get_or_insert_default().insert(field.clone(), "1".into());
        if client.update(mine).await.is_ok() {
            bed.wait(3 * SECOND).await;
            let now = client.get::<ConfigMap>(&key("counter")).await.unwrap();
            lost |= !now.data.as_ref().is_some_and(|data| data.contains_key(&field));
        }
    }
    lost
}

#[test]
fn a_rewriting_writer_without_a_version_wins_over_everybody() {
    Testbed::run(1, async |bed| {
        strike(&bed, 300 * SECOND, conflicting(WriterMode::Rewrite, false, Span::secs(1))).await;
        assert!(loses_updates(&bed).await, "it writes back what it read before somebody else's update");
        bed.wait(300 * SECOND).await;
        assert!(is_quiet(&bed).await);
    });
}

#[test]
fn a_rewriting_writer_that_names_its_version_overwrites_nobody() {
    Testbed::run(1, async |bed| {
        strike(&bed, 300 * SECOND, conflicting(WriterMode::Rewrite, true, Span::secs(1))).await;
        assert!(!loses_updates(&bed).await);
    });
}

#[test]
fn a_stealing_writer_replaces_the_object_by_another_one_of_the_same_name() {
    Testbed::run(1, async |bed| {
        let client = bed.client("client");
        let first = create(&client, "counter").await.unwrap();
        strike(&bed, 5 * SECOND, conflicting(WriterMode::Steal, true, Span::secs(1))).await;
        bed.wait(10 * SECOND).await;
        let second = client.get::<ConfigMap>(&key("counter")).await.unwrap();
        assert_ne!(first.metadata.uid, second.metadata.uid);
        assert_eq!(first.data, second.data, "with the old content");
        assert!(is_quiet(&bed).await);
    });
}

#[test]
fn a_crash_of_the_writer_does_not_outlive_the_fault() {
    Testbed::run(1, async |bed| {
        let client = bed.client("client");
        client.create(config_map("counter", "k", "v")).await.unwrap();
        strike(&bed, 10 * SECOND, conflicting(WriterMode::Touch, true, Span::millis(100))).await;
        bed.wait(5 * SECOND).await;
        strike(&bed, SECOND, FaultKind::Crash(Crash { process: target("conflicting-writer-*"), down: Span::secs(20) })).await;
        bed.wait(30 * SECOND).await;
        assert!(is_quiet(&bed).await);
    });
}

fn foreign_finalizer(objects: &str) -> FaultKind {
    FaultKind::ForeignFinalizer(ForeignFinalizer { objects: objects.into(), every: Span::millis(100) })
}

/// Whether the object has the finalizer of the fault.
async fn is_kept(bed: &Testbed, name: &str) -> bool {
    let there = bed.client("reader").get::<ConfigMap>(&key(name)).await.unwrap();
    there.metadata.finalizers.iter().flatten().any(|finalizer| finalizer.starts_with(FOREIGN_FINALIZER))
}

#[test]
fn what_is_deleted_under_a_foreign_finalizer_goes_when_the_fault_ends() {
    Testbed::run(1, async |bed| {
        let client = bed.client("client");
        create(&client, "web-a").await.unwrap();
        create(&client, "db").await.unwrap();
        strike(&bed, 20 * SECOND, foreign_finalizer("configmaps/default/web-*")).await;
        bed.wait(SECOND).await;
        assert!(is_kept(&bed, "web-a").await && !is_kept(&bed, "db").await, "only what is meant");
        create(&client, "web-b").await.unwrap();
        bed.wait(SECOND).await;
        assert!(is_kept(&bed, "web-b").await, "what comes later, too");

        client.delete::<ConfigMap>(&key("web-a"), DeleteOptions::default()).await.unwrap();
        bed.wait(10 * SECOND).await;
        let marked = client.get::<ConfigMap>(&key("web-a")).await.unwrap();
        assert!(marked.metadata.deletion_timestamp.is_some());
        bed.wait(20 * SECOND).await;
        assert!(!stored(&bed, "web-a") && !is_kept(&bed, "web-b").await);
        assert!(is_quiet(&bed).await, "the fault is over");
    });
}

#[test]
fn a_crash_of_the_controller_leaves_no_foreign_finalizer_behind() {
    Testbed::run(1, async |bed| {
        let client = bed.client("client");
        create(&client, "web").await.unwrap();
        strike(&bed, 10 * SECOND, foreign_finalizer("configmaps/*")).await;
        bed.wait(5 * SECOND).await;
        client.delete::<ConfigMap>(&key("web"), DeleteOptions::default()).await.unwrap();
        strike(&bed, SECOND, FaultKind::Crash(Crash { process: target("finalizer-*"), down: Span::secs(20) })).await;
        bed.wait(45 * SECOND).await;
        assert!(!stored(&bed, "web"));
    });
}
