//! Faults of processes and hosts.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::api::WatchOptions;
use kube_machinery::{Client, ClientExt};
use kube_sim::cluster::{ClusterConfig, SimClient};
use kube_sim::fault::{Crash, CrashAtWrite, EtcdPause, FaultKind, HostDown, LeaderFlaps, Pause};
use kube_sim::net::{Delay, LinkDelays};
use kube_sim::rt::{ProcessId, ProcessState};
use kube_sim::testbed::{Testbed, from_json, key};
use parking_lot::Mutex;
use serde_json::json;
use sim_config::time::Span;

use super::{MS, SECOND, create, stored, strike, target};

/// A process that is down, and that in every life creates `a`, `b` and `c`, a second apart, with the number of the previous life.
fn writer(bed: &Testbed, name: &str) -> ProcessId {
    let process = bed.rt.add_process(bed.rt.add_host(name), name);
    let cluster = Arc::downgrade(&bed.cluster);
    let name = name.to_owned();
    bed.rt.set_main(process, move |life| {
        let (cluster, name) = (cluster.upgrade(), name.clone());
        async move {
            let Some(cluster) = cluster else { return };
            let client = SimClient::new(&cluster, process);
            for step in ["a", "b", "c"] {
                cluster.rt.sleep(SECOND).await;
                create(&client, &format!("{name}-{step}-{life}")).await.unwrap();
            }
        }
    });
    process
}

#[test]
fn a_crashed_process_loses_its_memory_and_starts_again() {
    Testbed::run(1, async |bed| {
        let process = writer(&bed, "p");
        bed.cluster.start(process);
        bed.wait(1_500 * MS).await;
        strike(&bed, SECOND, FaultKind::Crash(Crash { process: target("p"), down: Span::secs(10) })).await;
        assert_eq!(bed.rt.state(process), ProcessState::Down);
        bed.wait(9 * SECOND).await;
        assert_eq!(bed.rt.state(process), ProcessState::Down);
        bed.wait(5 * SECOND).await;
        assert_eq!(bed.rt.state(process), ProcessState::Running);
        assert_eq!(["p-a-0", "p-b-0", "p-c-0"].map(|name| stored(&bed, name)), [true, false, false], "its first life ended at a step");
        assert_eq!(["p-a-1", "p-b-1", "p-c-1"].map(|name| stored(&bed, name)), [true; 3], "and the second one began anew");
    });
}

fn crash_at(process: &str, nth: u32, after_commit: bool) -> FaultKind {
    FaultKind::CrashAtWrite(CrashAtWrite { process: target(process), nth, after_commit, down: Span::secs(5) })
}

#[test]
fn a_crash_at_the_nth_write_before_its_commit_leaves_nothing_behind() {
    Testbed::run(1, async |bed| {
        let process = writer(&bed, "p");
        strike(&bed, SECOND, crash_at("p", 2, false)).await;
        bed.cluster.start(process);
        bed.wait(3 * SECOND).await;
        assert_eq!(bed.rt.state(process), ProcessState::Down);
        bed.wait(10 * SECOND).await;
        assert_eq!(["p-a-0", "p-b-0", "p-c-0"].map(|name| stored(&bed, name)), [true, false, false]);
        assert_eq!(["p-a-1", "p-b-1", "p-c-1"].map(|name| stored(&bed, name)), [true; 3], "a crash point is passed once");
    });
}

#[test]
fn a_crash_at_the_nth_write_after_its_commit_leaves_the_write() {
    Testbed::run(1, async |bed| {
        let process = writer(&bed, "p");
        strike(&bed, SECOND, crash_at("p", 2, true)).await;
        bed.cluster.start(process);
        bed.wait(13 * SECOND).await;
        assert_eq!(["p-a-0", "p-b-0", "p-c-0"].map(|name| stored(&bed, name)), [true, true, false]);
        assert_eq!(["p-a-1", "p-b-1", "p-c-1"].map(|name| stored(&bed, name)), [true; 3]);
    });
}

#[test]
fn a_crash_after_a_commit_waits_for_a_commit_that_waits_for_etcd() {
    Testbed::run(1, async |bed| {
        let process = writer(&bed, "p");
        bed.cluster.start(process);
        let pause = FaultKind::EtcdPause(EtcdPause {});
        super::strike_all(&bed, [(5 * SECOND, pause), (SECOND, crash_at("p", 1, true))]).await;
        bed.wait(4 * SECOND).await;
        assert_eq!((bed.rt.state(process), stored(&bed, "p-a-0")), (ProcessState::Running, false));
        bed.wait(SECOND).await;
        assert_eq!((bed.rt.state(process), stored(&bed, "p-a-0")), (ProcessState::Down, true));
        bed.wait(10 * SECOND).await;
        assert_eq!(bed.rt.state(process), ProcessState::Running);
    });
}

#[test]
fn a_crash_point_crashes_the_process_that_reached_it() {
    Testbed::run(1, async |bed| {
        let (early, late) = (writer(&bed, "p-early"), writer(&bed, "p-late"));
        strike(&bed, SECOND, crash_at("p-*", 1, true)).await;
        bed.cluster.start(early);
        bed.wait(500 * MS).await;
        bed.cluster.start(late);
        bed.wait(SECOND).await;
        assert_eq!((bed.rt.state(early), bed.rt.state(late)), (ProcessState::Down, ProcessState::Running));
        bed.wait(500 * MS).await;
        assert_eq!((bed.rt.state(early), bed.rt.state(late)), (ProcessState::Down, ProcessState::Down));
        bed.wait(10 * SECOND).await;
        assert!(stored(&bed, "p-early-c-1") && stored(&bed, "p-late-c-1"));
    });
}

#[test]
fn a_paused_client_does_not_take_its_request_with_it() {
    let slow = Delay::Constant(Span::millis(100));
    let config = ClusterConfig { seed: 1, links: LinkDelays { healthy: slow, degraded: slow }, ..ClusterConfig::default() };
    Testbed::run_with(config, 2, async |bed| {
        let client = bed.client_on("client", 0);
        let answered = Arc::new(Mutex::new(None));
        let (sender, answer, rt) = (client.clone(), answered.clone(), bed.rt.clone());
        bed.rt.spawn(client.process(), async move {
            create(&sender, "a").await.unwrap();
            *answer.lock() = Some(rt.now());
        });
        let started = bed.rt.now();
        bed.wait(50 * MS).await;
        strike(&bed, 20 * SECOND, FaultKind::Pause(Pause { process: target("client") })).await;
        bed.wait(SECOND).await;
        assert!(stored(&bed, "a"), "the request was under way and is executed");
        bed.wait(18 * SECOND).await;
        assert_eq!(*answered.lock(), None, "but nobody reads the answer");
        bed.wait(2 * SECOND).await;
        let waited = answered.lock().unwrap() - started;
        assert!((20 * SECOND..21 * SECOND).contains(&waited), "{waited:?}");
    });
}

#[test]
fn a_paused_api_server_answers_when_it_goes_on() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        strike(&bed, 10 * SECOND, FaultKind::Pause(Pause { process: target("apiserver-0") })).await;
        let (waited, created) = super::took(&bed, create(&client, "a")).await;
        assert!((9 * SECOND..11 * SECOND).contains(&waited) && created.is_ok(), "{waited:?} {created:?}");
        strike(&bed, 10 * SECOND, FaultKind::Pause(Pause { process: target("apiserver-0") })).await;
        let (waited, watch) = super::took(&bed, client.watch::<ConfigMap>(None, WatchOptions::default())).await;
        assert!((9 * SECOND..11 * SECOND).contains(&waited) && watch.is_ok(), "{waited:?}");
    });
}

#[test]
fn a_host_that_goes_down_takes_its_processes_and_comes_back() {
    Testbed::run(1, async |bed| {
        let host = bed.rt.add_host("node-1");
        let processes = ["agent", "runtime"].map(|name| bed.rt.add_process(host, name));
        let idle = bed.rt.add_process(host, "idle");
        let other = bed.process("other");
        processes.iter().for_each(|&process| assert!(bed.cluster.start(process)));
        strike(&bed, 30 * SECOND, FaultKind::HostDown(HostDown { host: target("node-1") })).await;
        let states = || processes.map(|process| bed.rt.state(process));
        assert_eq!(states(), [ProcessState::Down; 2]);
        assert_eq!(bed.rt.state(other), ProcessState::Running);
        bed.wait(29 * SECOND).await;
        assert_eq!(states(), [ProcessState::Down; 2]);
        bed.wait(2 * SECOND).await;
        assert_eq!(states(), [ProcessState::Running; 2]);
        assert_eq!(processes.map(|process| bed.rt.incarnation(process)), [1; 2]);
        assert_eq!(bed.rt.state(idle), ProcessState::Down, "what was not running is not started");
    });
}

#[test]
fn a_process_that_panicked_does_not_start_on_a_host_that_is_down() {
    Testbed::run(1, async |bed| {
        let (hit, spared) = (bed.process("hit"), bed.process("spared"));
        for process in [hit, spared] {
            bed.rt.crash(process);
            bed.cluster.panicked(process, 10 * SECOND);
        }
        strike(&bed, 30 * SECOND, FaultKind::HostDown(HostDown { host: target("hit") })).await;
        bed.wait(15 * SECOND).await;
        assert_eq!([hit, spared].map(|process| bed.rt.state(process)), [ProcessState::Down, ProcessState::Running]);
        bed.wait(20 * SECOND).await;
        assert_eq!(bed.rt.state(hit), ProcessState::Running, "the host is back");
    });
}

#[test]
fn a_host_of_an_api_server_takes_the_server_down() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        strike(&bed, 10 * SECOND, FaultKind::HostDown(HostDown { host: target("control-plane-0") })).await;
        assert!(create(&client, "a").await.is_err());
        bed.wait(15 * SECOND).await;
        client.connect_to(0);
        create(&client, "a").await.unwrap();
        bed.wait(SECOND).await;
        assert_eq!(super::cached(&client).await.unwrap(), ["a"]);
    });
}

#[test]
fn whoever_leads_is_cut_off_again_and_again() {
    Testbed::run(1, async |bed| {
        let (one, other) = (bed.client("leader-0"), bed.client("leader-1"));
        let lease = |holder: &str| -> Lease {
            from_json(json!({"metadata": {"name": "lock", "namespace": "default"}, "spec": {"holderIdentity": holder}}))
        };
        other.create(lease("leader-0")).await.unwrap();
        let lease_of = "leases/default/lock".to_owned();
        let flaps = LeaderFlaps { lease: lease_of, cut: Span::secs(5), every: Span::secs(10) };
        strike(&bed, 63 * SECOND, FaultKind::LeaderFlaps(flaps)).await;
        let cut = |client: &SimClient| {
            let (me, server) = (client.process(), bed.cluster.server_process(0));
            bed.cluster.network(|net| (net.is_cut(me, server), net.is_cut(server, me)))
        };
        assert_eq!((cut(&one), cut(&other)), ((true, true), (false, false)));
        bed.wait(6 * SECOND).await;
        assert_eq!((cut(&one), cut(&other)), ((false, false), (false, false)), "for five seconds");
        let now = other.get::<Lease>(&key("lock")).await.unwrap();
        let mut taken = lease("leader-1");
        taken.metadata = now.metadata.clone();
        other.update(taken).await.unwrap();
        bed.wait(10 * SECOND).await;
        assert_eq!((cut(&one), cut(&other)), ((false, false), (true, true)), "ten seconds later its successor");
        // The fault ends in the middle of a cut.
        bed.wait(46 * SECOND).await;
        assert_eq!(cut(&other), (true, true));
        bed.wait(2 * SECOND).await;
        assert_eq!(cut(&other), (false, false), "the fault is over");
        bed.wait(60 * SECOND).await;
        assert_eq!(cut(&other), (false, false));
    });
}
