//! Faults that begin with changes of objects.

use kube_machinery::ClientExt;
use kube_machinery::api::DeleteOptions;
use kube_sim::fault::{ChangeKind, Crash, Fault, FaultKind, Faults, ObjectChange, Partition, Window};
use kube_sim::rt::{ProcessId, ProcessState};
use kube_sim::testbed::{Testbed, key};
use sim_config::time::{SimTime, Span};

use super::{SECOND, create, target};

fn change(object: &str, change: ChangeKind, nth: u32) -> ObjectChange {
    ObjectChange { object: object.to_owned(), change, sets: None, nth }
}

/// Takes down the process `victim` for a minute at the last of these changes, which are awaited from `at` on.
fn crash_at(bed: &Testbed, at: SimTime, when: &[ObjectChange]) -> ProcessId {
    let victim = bed.process("victim");
    let kind = FaultKind::Crash(Crash { process: target("victim"), down: Span::secs(60) });
    let common = Window { when: when.to_vec(), ..Window::new(at, None) };
    Faults::schedule(&bed.cluster, &[Fault { common, kind }], bed.rt.now() + 600 * SECOND);
    victim
}

async fn is_down(bed: &Testbed, victim: ProcessId) -> bool {
    // A fault that begins with a change begins once the writer of the change is idle.
    bed.wait(SECOND / 1_000).await;
    bed.rt.state(victim) == ProcessState::Down
}

#[test]
fn a_fault_begins_with_the_change_that_it_waits_for_and_not_before() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        let victim = crash_at(&bed, bed.rt.now(), &[change("configmaps/default/pool-*", ChangeKind::Created, 2)]);
        for name in ["pool-a", "other", "other-pool-b"] {
            create(&client, name).await.unwrap();
            assert!(!is_down(&bed, victim).await, "{name}");
        }
        assert!(create(&client, "pool-a").await.is_err(), "a write that is refused changes nothing");
        assert!(!is_down(&bed, victim).await);
        create(&client, "pool-b").await.unwrap();
        assert!(is_down(&bed, victim).await);
    });
}

#[test]
fn changes_before_its_time_do_not_count() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        let victim = crash_at(&bed, bed.rt.now() + 10 * SECOND, &[change("configmaps", ChangeKind::Any, 2)]);
        create(&client, "a").await.unwrap();
        bed.wait(11 * SECOND).await;
        create(&client, "b").await.unwrap();
        assert!(!is_down(&bed, victim).await);
        create(&client, "c").await.unwrap();
        assert!(is_down(&bed, victim).await);
    });
}

#[test]
fn changes_are_waited_for_in_their_order() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        let when = [change("configmaps/default/a", ChangeKind::Deleted, 1), change("configmaps/default/b", ChangeKind::Created, 1)];
        let victim = crash_at(&bed, bed.rt.now(), &when);
        for name in ["a", "b"] {
            create(&client, name).await.unwrap();
        }
        client.delete::<k8s_openapi::api::core::v1::ConfigMap>(&key("b"), DeleteOptions::default()).await.unwrap();
        client.delete::<k8s_openapi::api::core::v1::ConfigMap>(&key("a"), DeleteOptions::default()).await.unwrap();
        assert!(!is_down(&bed, victim).await, "b came before a went");
        create(&client, "b").await.unwrap();
        assert!(is_down(&bed, victim).await);
    });
}

#[test]
fn what_lasts_counts_from_the_change_and_what_never_came_is_void_when_faults_heal() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        let now = bed.rt.now();
        let cut = || FaultKind::Partition(Partition { from: target("client"), to: target("*") });
        let fault = |name: &str| {
            let when = vec![change(&format!("configmaps/default/{name}"), ChangeKind::Created, 1)];
            Fault { common: Window { when, ..Window::new(now, Some(Span::secs(5))) }, kind: cut() }
        };
        Faults::schedule(&bed.cluster, &[fault("a"), fault("late")], now + 60 * SECOND);
        bed.wait(20 * SECOND).await;
        create(&client, "a").await.unwrap();
        let begun = bed.rt.now();
        create(&client, "b").await.unwrap();
        let waited = bed.rt.now() - begun;
        assert!(waited > 4 * SECOND && waited < 9 * SECOND, "the cut begins with the change and lasts 5 s: {waited:?}");
        bed.wait(60 * SECOND).await;
        create(&client, "late").await.unwrap();
        let begun = bed.rt.now();
        create(&client, "c").await.unwrap();
        assert!(bed.rt.now() - begun < SECOND, "nobody waits for changes after the heal");
    });
}
