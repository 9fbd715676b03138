//! Properties of all faults together.

use std::sync::{Arc, Weak};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::race::race;
use kube_machinery::{ClientExt, FxHashMap};
use kube_sim::cluster::Cluster;
use kube_sim::fault::{
    Crash, CrashAtWrite, EtcdPause, Fault, FaultDraft, FaultKind, Faults, HostDown, Loss, Partition, Pause, Window, vocabulary,
};
use kube_sim::rt::ProcessState;
use kube_sim::testbed::{Testbed, key};
use sim_config::draw::{Concern, Draw};
use sim_config::time::{SimTime, Span};

use super::{MS, SECOND, create, delete, probability, strike, strike_all, target, took};

/// Every kind of fault at some time in the first two minutes, with parameters drawn from the defaults.
fn whole_vocabulary(seed: u64) -> Vec<Fault> {
    let names: Vec<String> = ["apiserver-0", "apiserver-1", "client-0", "client-1", "client-2"].map(str::to_owned).to_vec();
    let mut draw = Draw::new(seed, Concern::Faults, 0);
    let fault = |info: kube_sim::fault::FaultInfo| {
        let at = SimTime::from_secs(6) + draw.between(Duration::ZERO, Duration::from_secs(120));
        let lasts = Some(Span(draw.between(100 * MS, 10 * SECOND)));
        Fault { common: Window::new(at, lasts), kind: FaultDraft::of(info.name).unwrap().draw(&mut draw, &names) }
    };
    vocabulary().into_iter().map(fault).collect()
}

/// Three clients that work under every fault, for three minutes. They continue after any error.
async fn busy(bed: &Testbed, plan: &[Fault]) {
    Faults::schedule(&bed.cluster, plan, SimTime::from_secs(150));
    create(&bed.client("admin-of-counter"), "counter").await.unwrap();
    for number in 0..3 {
        let name = format!("client-{number}");
        let process = bed.rt.add_process(bed.rt.add_host(&name), &name);
        let cluster = Arc::downgrade(&bed.cluster);
        bed.rt.set_main(process, move |life| {
            let cluster = cluster.upgrade();
            async move {
                let Some(cluster) = cluster else { return };
                let client = kube_sim::cluster::SimClient::new(&cluster, process);
                let mut round = 0_u64;
                loop {
                    let name = format!("c-{number}-{life}-{round}");
                    let _ = create(&client, &name).await;
                    let _ = client.get::<ConfigMap>(&key(&name)).await;
                    let _ = delete(&client, &name).await;
                    cluster.rt.sleep(200 * MS).await;
                    round += 1;
                }
            }
        });
        bed.cluster.start(process);
    }
    bed.wait(Duration::from_secs(180)).await;
}

/// The digest of a run with every fault, its number of events, and the cluster it ran on.
fn run(seed: u64) -> (u128, u64, Weak<Cluster>) {
    Testbed::run(seed, async |bed| {
        busy(&bed, &whole_vocabulary(seed)).await;
        let digest = bed.cluster.recorder(|recorder| recorder.digest);
        assert_eq!(bed.rt.panics().len(), 0, "{:?}", bed.rt.panics());
        (digest.value(), digest.events(), Arc::downgrade(&bed.cluster))
    })
}

#[test]
fn the_same_plan_twice_gives_the_same_digest() {
    let mut digests = FxHashMap::default();
    for seed in 0..6 {
        let (first, events, _) = run(seed);
        assert_eq!((first, events), (run(seed).0, run(seed).1), "seed {seed}");
        assert!(events > 1_000, "seed {seed}: {events} events");
        assert_eq!(digests.insert(first, seed), None, "another seed is another run");
    }
}

#[test]
fn a_finished_run_leaves_nothing_behind() {
    for seed in 0..6 {
        assert_eq!(run(seed).2.strong_count(), 0, "seed {seed}");
    }
}

#[test]
fn a_run_that_ends_in_the_middle_of_every_fault_leaves_nothing_behind() {
    let cluster = Testbed::run(1, async |bed| {
        let client = bed.client("client-0");
        create(&client, "counter").await.unwrap();
        let mut plan = whole_vocabulary(1);
        let at = bed.rt.now() + SECOND;
        plan.iter_mut().for_each(|fault| fault.common = Window::new(at, None));
        Faults::schedule(&bed.cluster, &plan, SimTime::NEVER);
        // Requests and watches that are still in progress at the end.
        for number in 0..5 {
            let client = client.clone();
            bed.rt.spawn(client.process(), async move {
                let _ = create(&client, &format!("c-{number}")).await;
                let _ = create(&client, &format!("d-{number}")).await;
            });
        }
        bed.wait(1_001 * MS).await;
        Arc::downgrade(&bed.cluster)
    });
    assert_eq!(cluster.strong_count(), 0);
}

/// The duration of each request of client `b` while client `a` is active, too.
fn delays_of_b(plan: &[FaultKind]) -> Vec<Duration> {
    Testbed::run(3, async |bed| {
        let (a, b) = (bed.client_on("a", 0), bed.client_on("b", 0));
        create(&a, "there").await.unwrap();
        for kind in plan {
            strike(&bed, 60 * SECOND, kind.clone()).await;
        }
        bed.wait(SimTime::from_secs(10) - bed.rt.now()).await;
        let reader = a.clone();
        bed.rt.spawn(a.process(), async move {
            loop {
                let _ = reader.get::<ConfigMap>(&key("there")).await;
            }
        });
        let mut delays = Vec::new();
        for _ in 0..50 {
            let (delay, read) = took(&bed, b.get::<ConfigMap>(&key("there"))).await;
            read.unwrap();
            delays.push(delay);
            bed.wait(10 * MS).await;
        }
        delays
    })
}

#[test]
fn removing_a_fault_of_one_link_leaves_the_delays_on_other_links() {
    let loss = FaultKind::Loss(Loss { from: target("a"), to: target("*"), chance: probability(0.3) });
    let partition = FaultKind::Partition(Partition { from: target("a"), to: target("*") });
    let without = delays_of_b(&[]);
    assert!(without.iter().any(|delay| *delay != without[0]), "delays are drawn");
    assert_eq!(delays_of_b(std::slice::from_ref(&loss)), without);
    assert_eq!(delays_of_b(&[loss, partition]), without);
}

#[test]
fn healing_ends_what_holds_brings_back_what_is_down_and_begins_nothing_more() {
    Testbed::run(1, async |bed| {
        let (client, down) = (bed.client_on("client", 0), bed.process("down"));
        let now = bed.rt.now();
        let fault = |seconds, lasts, kind| Fault { common: Window::new(now + seconds * SECOND, lasts), kind };
        let plan = [
            fault(1, None, FaultKind::EtcdPause(EtcdPause {})),
            fault(1, Some(Span::secs(600)), FaultKind::Pause(Pause { process: target("apiserver-1") })),
            fault(1, None, FaultKind::Crash(Crash { process: target("down"), down: Span::secs(600) })),
            fault(10, None, FaultKind::EtcdPause(EtcdPause {})),
            fault(11, None, FaultKind::HostDown(HostDown { host: target("*") })),
            fault(
                0,
                None,
                FaultKind::CrashAtWrite(CrashAtWrite { process: target("client"), nth: 1, after_commit: false, down: Span::secs(1) }),
            ),
        ];
        Faults::schedule(&bed.cluster, &plan, now + 10 * SECOND);
        bed.wait(9 * SECOND).await;
        assert_eq!(bed.rt.state(down), ProcessState::Down);
        bed.wait(3 * SECOND).await;
        for process in bed.rt.processes() {
            assert_eq!(bed.rt.state(process), ProcessState::Running);
        }
        let (quick, created) = took(&bed, create(&client, "a")).await;
        assert!(quick < SECOND && created.is_ok(), "a crash point that was not reached in time is void: {created:?}");
    });
}

#[test]
fn what_lasts_for_good_counts_as_felt_once_it_met_a_message() {
    for used in [true, false] {
        Testbed::run(1, async |bed| {
            let (client, now) = (bed.client_on("client", 0), bed.rt.now());
            let cut = Partition { from: target("client"), to: target("apiserver-*") };
            let fault = Fault { common: Window::new(now + SECOND, Some(Span::FOREVER)), kind: FaultKind::Partition(cut) };
            let faults = Faults::schedule(&bed.cluster, &[fault], now + 10 * SECOND);
            bed.wait(12 * SECOND).await;
            if used {
                race(create(&client, "a"), bed.rt.sleep(5 * SECOND)).await;
            }
            faults.settle();
            assert_eq!(bed.cluster.recorder(|recorder| recorder.fired.contains(&0)), used);
        });
    }
}

#[test]
fn a_process_that_crashed_stays_down_as_long_as_its_host() {
    Testbed::run(1, async |bed| {
        let process = bed.process("node-1");
        let crash = FaultKind::Crash(Crash { process: target("node-1"), down: Span::secs(5) });
        let host = FaultKind::HostDown(HostDown { host: target("node-1") });
        strike_all(&bed, [(SECOND, crash), (20 * SECOND, host)]).await;
        bed.wait(10 * SECOND).await;
        assert_eq!(bed.rt.state(process), ProcessState::Down);
        bed.wait(11 * SECOND).await;
        assert_eq!(bed.rt.state(process), ProcessState::Running);
    });
}

#[test]
fn pauses_that_overlap_end_with_the_later_one() {
    Testbed::run(1, async |bed| {
        let process = bed.process("p");
        let pause = || FaultKind::Pause(Pause { process: target("p") });
        strike_all(&bed, [(5 * SECOND, pause()), (20 * SECOND, pause())]).await;
        bed.wait(10 * SECOND).await;
        assert_eq!(bed.rt.state(process), ProcessState::Paused);
        bed.wait(11 * SECOND).await;
        assert_eq!(bed.rt.state(process), ProcessState::Running);
    });
}
