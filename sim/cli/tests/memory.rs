//! A sweep runs any number of seeds in one process: a seed must not leave anything in memory.
//!
//! A task that owns a handle to the world keeps the world alive, and so do pending events. So the runtime ends every task at the end of a
//! run, and the cluster drops the processes that carry out its faults.

#[path = "support/install.rs"]
mod install;

use std::sync::{Arc, Weak};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::api::WatchOptions;
use kube_machinery::{Client, ClientExt, WatchStream};
use kube_sim::cluster::Cluster;
use kube_sim::testbed::{Testbed, config_map};
use sim_config::time::SimTime;

/// Runs one seed that ends in the middle of everything: an open watch, a process that waits forever and owns its client, a request in
/// flight, one of a paused process, a restarted process, a pending action of the world. Returns a weak reference to the cluster, which is
/// alive if anything was left behind.
fn unfinished_seed(seed: u64, keep: bool) -> Weak<Cluster> {
    Testbed::run(seed, async |bed| {
        let writer = bed.client("writer");
        for n in 0..5 {
            writer.create(config_map(&format!("config-{n}"), "n", "0")).await.expect("the object is new");
        }
        let watcher = bed.client("watcher");
        bed.rt.spawn(watcher.process(), async move {
            let mut stream = watcher.watch::<ConfigMap>(None, WatchOptions::default()).await.expect("the watch opens");
            while stream.next().await.is_some() {}
        });
        let idle = bed.client("idle");
        bed.rt.spawn(idle.process(), async move {
            std::future::pending::<()>().await;
            drop(idle);
        });
        let restarted = bed.process("restarted");
        let cluster = bed.cluster.clone();
        bed.rt.set_main(restarted, move |_| {
            let cluster = cluster.clone();
            async move {
                std::future::pending::<()>().await;
                drop(cluster);
            }
        });
        bed.cluster.crash(restarted);
        bed.cluster.start(restarted);
        let cluster = bed.cluster.clone();
        bed.rt.at(SimTime::from_secs(1_000_000), move || drop(cluster));
        bed.wait(Duration::from_secs(10)).await;
        let paused = bed.client("paused");
        for client in [&writer, &paused] {
            let sender = client.clone();
            bed.rt.spawn(client.process(), async move {
                drop(sender.create(config_map("late", "n", "0")).await);
            });
        }
        bed.wait(Duration::from_micros(10)).await;
        bed.cluster.pause(paused.process());
        assert!(bed.cluster.open_exchanges() >= 2, "both requests are on their way");
        if keep {
            std::mem::forget(bed.cluster.clone());
        }
        Arc::downgrade(&bed.cluster)
    })
}

#[test]
fn nothing_of_a_seed_stays_behind() {
    for seed in 0..20 {
        assert!(unfinished_seed(seed, false).upgrade().is_none(), "something still owns the cluster of seed {seed}");
    }
}

#[test]
fn a_cluster_that_somebody_keeps_is_noticed() {
    assert!(unfinished_seed(0, true).upgrade().is_some());
}

#[cfg(target_os = "linux")]
#[test]
fn resident_memory_does_not_grow_with_the_number_of_seeds() {
    /// The number of memory pages that the process holds.
    fn resident() -> f64 {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
        statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("the second number is the resident set")
    }
    /// The factor by which the process grows with ten times as many seeds.
    fn growth(keep: bool) -> f64 {
        let seeds = |seeds: std::ops::Range<u64>| seeds.for_each(|seed| drop(unfinished_seed(seed, keep)));
        seeds(0..300);
        let few = resident();
        seeds(300..3_000);
        resident() / few
    }
    let clean = growth(false);
    assert!(clean < 1.1, "{clean:.2} times as large after 3000 seeds as after 300");
    let leaking = growth(true);
    assert!(leaking > 1.5, "{leaking:.2} times as large although every seed was kept: the measurement is blind");
}
