//! Whole replicas: election, informers, scans at the interval, and when events are noticed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::api_server::Deed;
use super::scene::{Owner, Scene};
use crate::controller::ControllerSettings;
use crate::leadership::{Leadership, LeadershipTeller};
use crate::reclaim::{Dropped, Observer, Reclaim, ReclaimConfig, Step};
use crate::{Policy, SpiderpoolController};
use kube_machinery::api::ObjectKey;
use kube_machinery::env::{Env, Task};
use kube_machinery::leader::ElectionConfig;
use kube_machinery::testing::TestEnv;

/// The deviations that are tested here.
pub(super) const SHOWN_HERE: [&str; 5] =
    ["event-lost-on-error", "standbys-scan-once", "no-scan-on-takeover", "leader-flag-polled", "reclaims-while-switched-off"];

/// The observed steps, as texts with the second at which they occurred.
#[derive(Clone, Default)]
struct Heard {
    env: Option<TestEnv>,
    log: Arc<Mutex<Vec<(u64, String)>>>,
}

impl Observer for Heard {
    fn observe(&self, step: Step<'_>) {
        let text = match step {
            Step::LeadershipGained { term } => format!("gained {term}"),
            Step::LeadershipLost { term } => format!("lost {term}"),
            Step::ScanBegun { cause, leading } => format!("scan {cause:?} {}", if leading { "leader" } else { "standby" }),
            Step::EntryMade { entry, .. } => format!("made {}", entry.uid),
            Step::EntryFired { entry, .. } => format!("fired {}", entry.uid),
            Step::EntryDropped { entry, why: Dropped::Done } => format!("done {}", entry.uid),
            Step::EntryDropped { entry, why } => format!("dropped {} {why:?}", entry.uid),
            Step::ChannelFull { .. } => "full".to_owned(),
            _ => return,
        };
        let now = self.env.as_ref().expect("it has a clock").monotonic().as_secs();
        self.log.lock().unwrap().push((now, text));
    }
}

impl Heard {
    fn times(&self, text: &str) -> Vec<u64> {
        self.log.lock().unwrap().iter().filter(|(_, heard)| heard == text).map(|(at, _)| *at).collect()
    }
}

/// A replica that runs.
struct Replica {
    heard: Heard,
    task: <TestEnv as Env>::Task,
}

fn config(policy: Policy) -> ReclaimConfig {
    let mut config = ReclaimConfig::new(policy);
    config.settings.interval = Duration::from_secs(100);
    config
}

fn start(scene: &Scene, name: &str) -> Replica {
    let heard = Heard { env: Some(scene.env.clone()), ..Heard::default() };
    let reclaim = config(scene.config.policy);
    let lease = ObjectKey::namespaced("kube-system", "spiderpool-controller-leases");
    let election: ElectionConfig = reclaim.election(lease, name);
    let pools = ControllerSettings { election: Some(election), ..ControllerSettings::new(scene.config.policy) };
    let (client, raw) = (scene.world.clone(), scene.world.clone());
    let controller = SpiderpoolController::new(client, raw, scene.env.clone(), heard.clone(), pools, reclaim);
    let task = scene.env.spawn(async move {
        controller.run().await.unwrap();
    });
    Replica { heard, task }
}

/// Starts reclaim alone, with a leadership that the test controls.
fn start_alone(scene: &Scene) -> (Replica, LeadershipTeller) {
    let heard = Heard { env: Some(scene.env.clone()), ..Heard::default() };
    let (teller, leadership) = LeadershipTeller::new();
    let (world, views) = (scene.world.clone(), scene.views.clone());
    let reclaim = Reclaim::new(world, scene.env.clone(), views, heard.clone(), config(scene.config.policy));
    let task = scene.env.spawn(async move { reclaim.run(leadership).await });
    (Replica { heard, task }, teller)
}

fn with(deviation: &str) -> Policy {
    let mut policy = Policy::hardened();
    *policy.switch(deviation).unwrap() = true;
    policy
}

#[test]
fn a_pod_that_is_deleted_without_del_loses_its_address_after_its_grace() {
    for policy in [Policy::hardened(), Policy::upstream()] {
        let scene = Scene::new(policy);
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        let replica = start(&scene, "one");
        scene.env.advance(Duration::from_secs(10));
        scene.terminate("a", 0, 30);
        scene.env.advance(Duration::from_secs(58));
        assert_eq!(scene.records(), ["u1"]);
        scene.env.advance(Duration::from_secs(8));
        assert!(scene.records().is_empty());
        assert_eq!((replica.heard.times("made u1").len(), replica.heard.times("done u1").len()), (1, 1));
    }
}

#[test]
fn a_scan_that_failed_in_a_part_is_not_the_last_for_a_whole_interval() {
    for (policy, expected) in [(Policy::hardened(), 0), (with("event-lost-on-error"), 1)] {
        let scene = Scene::new(policy);
        let replica = start(&scene, "one");
        scene.env.advance(Duration::from_secs(10));
        scene.record("p4", "10.0.0.1", "ns/a", "u1");
        scene.world.script(|name, _| if name.starts_with("update SpiderIPPool") { Deed::Refuse } else { Deed::Serve });
        scene.env.advance(Duration::from_secs(110));
        assert_eq!(scene.records(), ["u1"], "{:?}", replica.heard.log.lock().unwrap());
        scene.world.script(|_, _| Deed::Serve);
        scene.env.advance(Duration::from_secs(40));
        assert_eq!(scene.records().len(), expected, "{:?}", replica.heard.log.lock().unwrap());
    }
}

#[test]
fn one_election_serves_pools_and_reclaim_and_standbys_scan_at_the_interval() {
    let scene = Scene::new(Policy::hardened());
    let (one, two) = (start(&scene, "one"), start(&scene, "two"));
    scene.env.advance(Duration::from_secs(350));
    let leads = |replica: &Replica| !replica.heard.times("gained 1").is_empty();
    assert!(leads(&one) != leads(&two), "one of them leads");
    let (leader, standby) = if leads(&one) { (&one, &two) } else { (&two, &one) };
    assert_eq!(leader.heard.times("scan Takeover leader").len(), 1);
    assert!(leader.heard.times("scan Interval leader").len() >= 3);
    assert!(standby.heard.times("scan Interval standby").len() >= 3);
    // Pools have their counts.
    let pools = scene.world.all::<crate::SpiderIPPool>();
    assert!(pools.iter().all(|pool| pool.status.as_ref().is_some_and(|status| status.total_ip_count.is_some())), "{pools:?}");
    // The other replica takes over and traces what the first had traced, and the first stands for election again in its process.
    scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
    scene.terminate("a", 0, 30);
    leader.task.abort();
    scene.env.advance(Duration::from_secs(30));
    assert!(leads(standby) && standby.heard.times("made u1").len() == 1, "{:?}", standby.heard.log.lock().unwrap());
    scene.env.advance(Duration::from_secs(40));
    assert!(scene.records().is_empty());
}

#[test]
fn a_replica_that_lost_its_lease_runs_for_leader_again() {
    let scene = Scene::new(Policy::hardened());
    let replica = start(&scene, "one");
    scene.env.advance(Duration::from_secs(20));
    scene.refuse("update Lease", 20);
    scene.env.advance(Duration::from_secs(30));
    scene.world.serve_all();
    scene.env.advance(Duration::from_secs(60));
    assert_eq!((replica.heard.times("lost 1").len(), replica.heard.times("gained 2").len()), (1, 1));
}

#[test]
fn standbys_scan_at_the_interval_and_upstreams_do_not() {
    let scans = |policy| {
        let scene = Scene::new(policy);
        let (replica, _teller) = start_alone(&scene);
        scene.env.advance(Duration::from_secs(350));
        replica.heard.times("scan Interval standby").len()
    };
    assert_eq!(scans(Policy::hardened()), 3);
    assert_eq!(scans(with("standbys-scan-once")), 0);
}

#[test]
fn nothing_is_scanned_while_reclaim_is_switched_off() {
    let scans = |policy| {
        let scene = Scene::new(policy);
        let heard = Heard { env: Some(scene.env.clone()), ..Heard::default() };
        let mut off = config(policy);
        off.settings.enabled = false;
        let (_teller, leadership) = LeadershipTeller::new();
        let reclaim = Reclaim::new(scene.world.clone(), scene.env.clone(), scene.views.clone(), heard.clone(), off);
        let _task = scene.env.spawn(async move { reclaim.run(leadership).await });
        scene.env.advance(Duration::from_secs(350));
        heard.times("scan Interval standby").len()
    };
    assert_eq!(scans(Policy::hardened()), 0);
    assert_eq!(scans(with("reclaims-while-switched-off")), 3);
}

#[test]
fn a_new_leader_scans_at_once() {
    let scans = |policy| {
        let scene = Scene::new(policy);
        let (replica, teller) = start_alone(&scene);
        scene.env.advance(Duration::from_secs(50));
        teller.gained();
        scene.env.advance(Duration::from_secs(10));
        replica.heard.times("scan Takeover leader").len()
    };
    assert_eq!((scans(Policy::hardened()), scans(with("no-scan-on-takeover"))), (1, 0));
}

/// G R12: the StatefulSet of the pod cannot be read when the event comes.
#[test]
fn an_event_that_could_not_be_judged_comes_back() {
    let traced = |policy| {
        let scene = Scene::new(policy);
        scene.whole_pod("db-0", "u1", Owner::StatefulSet, "10.0.0.1");
        let (replica, teller) = start_alone(&scene);
        teller.gained();
        scene.env.advance(Duration::from_secs(10));
        scene.refuse("get StatefulSet", 2);
        scene.terminate("db-0", 0, 30);
        scene.env.advance(Duration::from_secs(20));
        replica.heard.times("made u1").len()
    };
    assert_eq!((traced(Policy::hardened()), traced(with("event-lost-on-error"))), (1, 0));
}

/// G R12, second half: a release that failed too often is left to a scan, not forgotten.
#[test]
fn a_release_that_failed_too_often_is_left_to_a_scan() {
    let scans = |policy| {
        let scene = Scene::new(policy);
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        scene.terminate("a", 100, 30);
        let heard = Heard { env: Some(scene.env.clone()), ..Heard::default() };
        let mut config = config(policy);
        config.settings.interval = Duration::from_secs(10_000);
        let (world, views) = (scene.world.clone(), scene.views.clone());
        let reclaim = Reclaim::new(world, scene.env.clone(), views, heard.clone(), config);
        scene.refuse("update SpiderIPPool/status", 9);
        scene.env.spawn(async move { reclaim.run(Leadership::always()).await });
        scene.env.advance(Duration::from_secs(100));
        (heard.times("dropped u1 GivenUp").len(), heard.times("scan Missed leader").len(), scene.records().len())
    };
    assert_eq!(scans(Policy::hardened()), (1, 1, 0));
    let (given_up, missed, _) = scans(with("event-lost-on-error"));
    assert_eq!((given_up, missed), (1, 0));
}

/// G §8: leadership is lost and gained again between two polls.
#[test]
fn what_happened_while_leadership_was_lost_is_learned_of() {
    let traced = |policy| {
        let scene = Scene::new(policy);
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        let (replica, teller) = start_alone(&scene);
        teller.gained();
        scene.env.advance(Duration::from_millis(10_300));
        teller.lost();
        scene.terminate("a", 0, 30);
        scene.env.advance(Duration::from_millis(200));
        teller.gained();
        scene.env.advance(Duration::from_secs(20));
        (replica.heard.times("made u1").len(), replica.heard.times("gained 2").len())
    };
    assert_eq!((traced(Policy::hardened()), traced(with("leader-flag-polled"))), ((1, 1), (0, 0)));
}

#[test]
fn a_full_channel_holds_entries_back_and_loses_none() {
    let scene = Scene::new(Policy::hardened());
    for at in 0..5 {
        let (name, uid) = (format!("a{at}"), format!("u{at}"));
        scene.whole_pod(&name, &uid, Owner::Nobody, &format!("10.0.0.{}", at + 1));
        scene.terminate(&name, 100, 30);
    }
    let mut config = config(Policy::hardened());
    (config.settings.channel, config.settings.workers) = (1, 1);
    let (world, views) = (scene.world.clone(), scene.views.clone());
    let heard = Heard { env: Some(scene.env.clone()), ..Heard::default() };
    let reclaim = Reclaim::new(world, scene.env.clone(), views, heard.clone(), config);
    // The executor hangs at its first entry, and no scan does its work.
    scene.world.script(|name, _| if name == "delete SpiderEndpoint" { Deed::Hang } else { Deed::Serve });
    scene.env.spawn(async move { reclaim.run(Leadership::always()).await });
    scene.env.advance(Duration::from_secs(60));
    let log = heard.log.lock().unwrap().clone();
    assert!(log.iter().any(|(_, text)| text == "full"), "{log:?}");
    assert_eq!(log.iter().filter(|(_, text)| text.starts_with("dropped")).count(), 0, "{log:?}");
}

#[test]
fn nothing_runs_when_reclaim_is_switched_off() {
    let scene = Scene::new(Policy::hardened());
    scene.record("p4", "10.0.0.1", "ns/a", "u1");
    let mut config = config(Policy::hardened());
    config.settings.enabled = false;
    let reclaim = Reclaim::new(scene.world.clone(), scene.env.clone(), scene.views.clone(), (), config);
    scene.world.log();
    scene.env.spawn(async move { reclaim.run(Leadership::always()).await });
    scene.env.advance(Duration::from_secs(2000));
    assert_eq!(scene.world.log(), [""; 0]);
    assert_eq!(scene.records(), ["u1"]);
}
