//! Requests that are executed in the order of the priorities of their processes.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_machinery::{ClientExt, ObjectKey};
use kube_sim::cluster::SimClient;
use kube_sim::fault::{FaultKind, Priorities};
use kube_sim::testbed::{Testbed, config_map, key};
use parking_lot::Mutex;
use sim_config::time::Span;

use super::{MS, SECOND, create, strike, target, took};

/// A fault that orders requests, with changes of priority before the requests with these numbers.
fn order(process: &str, drops: &[u32]) -> Priorities {
    Priorities { process: target(process), resource: "*".to_owned(), drops: drops.to_vec(), at_most: Span::secs(2), rest: Span::millis(20) }
}

/// The reads and writes of the object, in order: `A` read, `a` wrote, `!` was refused.
type Story = Arc<Mutex<String>>;

/// Reads the object and writes it with the version read, this many times in a row, without pauses.
fn work(bed: &Testbed, client: &SimClient, times: usize, story: &Story) {
    let (client, story) = (client.clone(), story.clone());
    bed.rt.spawn(client.process(), async move {
        let name = client.cluster().rt.process_name(client.process());
        for _ in 0..times {
            let mut map = (*client.get::<ConfigMap>(&key("shared")).await.unwrap()).clone();
            story.lock().push_str(&name.to_uppercase());
            map.data.get_or_insert_default().insert("by".to_owned(), name.to_string());
            let is_written = client.update(map).await.is_ok();
            story.lock().push_str(if is_written { &name } else { "!" });
        }
    });
}

/// The reads and writes of `a` and `b`, which begin together on a shared object: `a` writes once, `b` three times.
fn contend(seed: u64, fault: Option<Priorities>) -> String {
    Testbed::run(seed, async |bed| {
        let (a, b) = (bed.client("a"), bed.client("b"));
        create(&a, "shared").await.unwrap();
        if let Some(fault) = fault {
            strike(&bed, 10 * SECOND, FaultKind::Priorities(fault)).await;
        }
        let story = Story::default();
        work(&bed, &a, 1, &story);
        work(&bed, &b, 3, &story);
        bed.wait(9 * SECOND).await;
        story.lock().clone()
    })
}

#[test]
fn a_change_point_puts_all_of_another_process_between_a_read_and_its_write() {
    let lost = "ABbBbBb!";
    let with = (0..20).filter(|&seed| contend(seed, Some(order("a,b", &[2]))) == lost).count();
    let without = (0..20).filter(|&seed| contend(seed, None) == lost).count();
    assert!(with == 20 && without <= 2, "with priorities in {with} of 20 seeds, without in {without}");
}

#[test]
fn without_a_change_point_one_process_comes_after_the_other() {
    for seed in 0..10 {
        assert_eq!(contend(seed, Some(order("a,b", &[]))), "AaBbBbBb");
        assert_eq!(contend(seed, Some(order("b,a", &[]))), "BbBbBbAa");
        // The third request is the second read of `b`, the fourth the write after it: before that, `b` gets the lowest priority, and `a`
        // goes first.
        assert_eq!(contend(seed, Some(order("b,a", &[4]))), "BbBAa!Bb", "seed {seed}");
    }
}

#[test]
fn at_a_change_point_a_write_waits_for_a_process_that_comes_later_but_not_for_ever() {
    for (pause, expected) in [(SECOND, "ABb!"), (3 * SECOND, "AaBb")] {
        Testbed::run(7, async |bed| {
            let (a, b) = (bed.client("a"), bed.client("b"));
            create(&a, "shared").await.unwrap();
            strike(&bed, 10 * SECOND, FaultKind::Priorities(order("a,b", &[2]))).await;
            let story = Story::default();
            work(&bed, &a, 1, &story);
            bed.wait(pause).await;
            work(&bed, &b, 1, &story);
            bed.wait(5 * SECOND).await;
            assert_eq!(*story.lock(), expected, "{pause:?}");
        });
    }
}

/// The duration of a read of `low` that is sent 10 ms after one of `high`, which waits for an answer meanwhile, and of a read of another
/// client.
async fn read_beside(bed: &Testbed, fault: Priorities) -> (Duration, Duration) {
    let (high, low, other) = (bed.client("high"), bed.client("low"), bed.client("other"));
    create(&other, "a").await.unwrap();
    let faults = strike(bed, 600 * SECOND, FaultKind::Priorities(fault)).await;
    // One request follows the other, endlessly.
    let busy = high.clone();
    bed.rt.spawn(high.process(), async move { while busy.get::<ConfigMap>(&key("a")).await.is_ok() {} });
    bed.wait(10 * MS).await;
    let held = took(bed, low.get::<ConfigMap>(&key("a"))).await.0;
    let free = took(bed, other.get::<ConfigMap>(&key("a"))).await.0;
    faults.heal();
    let healed = took(bed, low.get::<ConfigMap>(&key("a"))).await.0;
    assert!(free < SECOND / 2 && healed < SECOND / 2, "{free:?} {healed:?}");
    (held, free)
}

#[test]
fn nobody_is_held_back_for_longer_than_it_says_nor_by_those_who_are_not_named() {
    Testbed::run(1, async |bed| {
        let held = read_beside(&bed, order("high,low", &[])).await.0;
        assert!((2 * SECOND..5 * SECOND / 2).contains(&held), "{held:?}");
    });
    Testbed::run(2, async |bed| {
        // A process that has been idle for so long is not waited for.
        let held = read_beside(&bed, order("low,high", &[])).await.0;
        assert!(held < SECOND / 2, "{held:?}");
    });
}

#[test]
fn a_type_that_it_is_not_about_is_not_held_back() {
    Testbed::run(3, async |bed| {
        let fault = Priorities { resource: "namespaces".to_owned(), ..order("high,low", &[]) };
        let held = read_beside(&bed, fault).await.0;
        assert!(held < SECOND / 2, "{held:?}");
    });
    Testbed::run(4, async |bed| {
        let (high, low) = (bed.client("high"), bed.client("low"));
        strike(&bed, 600 * SECOND, FaultKind::Priorities(Priorities { resource: "namespaces".to_owned(), ..order("high,low", &[]) })).await;
        let busy = high.clone();
        bed.rt.spawn(high.process(), async move { while busy.get::<Namespace>(&ObjectKey::cluster("default")).await.is_ok() {} });
        bed.wait(10 * MS).await;
        let held = took(&bed, low.get::<Namespace>(&ObjectKey::cluster("default"))).await.0;
        assert!(held >= 2 * SECOND, "{held:?}");
    });
}

#[test]
fn what_is_held_back_when_it_ends_is_executed_then() {
    Testbed::run(5, async |bed| {
        let (high, low) = (bed.client("high"), bed.client("low"));
        create(&high, "a").await.unwrap();
        strike(&bed, SECOND, FaultKind::Priorities(order("high,low", &[]))).await;
        let busy = high.clone();
        bed.rt.spawn(high.process(), async move { while busy.get::<ConfigMap>(&key("a")).await.is_ok() {} });
        bed.wait(10 * MS).await;
        let held = took(&bed, low.create(config_map("b", "k", "v"))).await.0;
        assert!((9 * SECOND / 10..11 * SECOND / 10).contains(&held), "{held:?}");
    });
}

#[test]
fn a_process_that_crashed_is_not_waited_for() {
    Testbed::run(6, async |bed| {
        let (high, low) = (bed.client("high"), bed.client("low"));
        create(&high, "a").await.unwrap();
        strike(&bed, 600 * SECOND, FaultKind::Priorities(order("high,low", &[]))).await;
        let busy = high.clone();
        bed.rt.spawn(high.process(), async move { while busy.get::<ConfigMap>(&key("a")).await.is_ok() {} });
        bed.wait(100 * MS).await;
        bed.cluster.crash(high.process());
        let held = took(&bed, low.get::<ConfigMap>(&key("a"))).await.0;
        assert!(held < SECOND / 2, "{held:?}");
    });
}
