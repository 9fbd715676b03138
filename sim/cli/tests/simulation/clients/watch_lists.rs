//! Informers that get their initial state from a watch-list stream (K162), in a cluster that has gaps.

use kube_machinery::informer::Model;
use kube_sim::cluster::{ClusterConfig, Knobs};
use kube_sim::fault::{ApiServerFreeze, Crash, FaultKind};
use kube_sim::testbed::Testbed;
use sim_config::Probability;
use sim_config::time::Span;

use super::informers::{Watching, create};
use super::{MS, SECOND, fault, schedule, target};

/// A process watches through server 0, and begins its second life connected to server 1, whose cache is frozen. Returns the names that it
/// knows 5 s later, if it has synced, and those after the cache continued.
fn begins_anew_on_a_frozen_server(seed: u64, knobs: Knobs) -> [Option<Vec<String>>; 2] {
    Testbed::run_with(ClusterConfig { seed, knobs, ..ClusterConfig::default() }, 2, async |bed| {
        let writer = bed.client_on("writer", 0);
        create(&writer, "old").await;
        bed.wait(SECOND).await;
        let freeze = ApiServerFreeze { server: target("apiserver-1"), resource: "configmaps".into() };
        schedule(&bed, &[fault(&bed, 0, 120 * SECOND, FaultKind::ApiServerFreeze(freeze))]);
        let watching = Watching::start(&bed, Model::ClientGo, [0, 1]);
        create(&writer, "new").await;
        bed.wait(5 * SECOND).await;
        assert_eq!(watching.names(), ["new", "old"]);
        bed.cluster.crash(watching.process);
        bed.cluster.start(watching.process);
        let known = || watching.store().has_synced().then(|| watching.names());
        bed.wait(5 * SECOND).await;
        let frozen = known();
        bed.wait(120 * SECOND).await;
        [frozen, known()]
    })
}

fn names(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|&name| name.to_owned()).collect())
}

#[test]
fn k162_a_new_process_begins_with_nothing_older_than_its_request() {
    let knobs = Knobs { watch_list_clients: Probability::ALWAYS, ..Knobs::default() };
    for seed in 0..5 {
        let [frozen, thawed] = begins_anew_on_a_frozen_server(seed, knobs);
        assert_eq!(frozen, None, "the server waits for its cache, and does not tell what it has");
        assert_eq!(thawed, names(&["new", "old"]));
        let [listed, _] = begins_anew_on_a_frozen_server(seed, Knobs::default());
        assert_eq!(listed, names(&["old"]), "a list brings any state");
    }
}

#[test]
fn k162_where_the_server_offers_no_watch_lists_informers_list() {
    let knobs = Knobs { watch_list: false, watch_list_clients: Probability::ALWAYS, ..Knobs::default() };
    for seed in 0..5 {
        assert_eq!(begins_anew_on_a_frozen_server(seed, knobs), [names(&["old"]), names(&["new", "old"])]);
    }
}

#[test]
fn k162_a_state_that_was_streamed_in_part_is_not_shown() {
    let knobs = Knobs { watch_list_clients: Probability::ALWAYS, ..Knobs::default() };
    // Whenever the server goes down while it streams, the informer shows either nothing or everything.
    for millis in 0..40u32 {
        Testbed::run_with(ClusterConfig { seed: millis.into(), knobs, ..ClusterConfig::default() }, 2, async |bed| {
            let writer = bed.client_on("writer", 0);
            for number in 10..40 {
                create(&writer, &format!("c{number}")).await;
            }
            bed.wait(SECOND).await;
            let crash = Crash { process: target("apiserver-1"), down: Span::secs(2) };
            schedule(&bed, &[fault(&bed, millis, SECOND, FaultKind::Crash(crash))]);
            let watching = Watching::start(&bed, Model::ClientGo, [1, 1]);
            bed.wait(MS).await;
            while !watching.store().has_synced() {
                bed.wait(MS).await;
            }
            assert_eq!(watching.names().len(), 30, "{millis} ms");
        });
    }
}
