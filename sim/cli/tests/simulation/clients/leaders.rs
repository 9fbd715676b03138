//! Leader election on a Lease (K143, K §4.6): its guarantees, and their limits.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::leader::{Election, ElectionConfig, Renewal};
use kube_machinery::{ClientExt, ObjectKey};
use kube_sim::cluster::{Cluster, SimClient};
use kube_sim::env::SimEnv;
use kube_sim::fault::{ApiServerCrash, ClockDrift, ClockOffset, Crash, EtcdElection, Fault, FaultKind, OneWayPartition, Partition, Pause};
use kube_sim::rt::ProcessId;
use kube_sim::testbed::{Testbed, config_map};
use parking_lot::Mutex;
use sim_config::draw::{Concern, Draw};
use sim_config::time::{SimTime, Span};

use super::{MS, SECOND, fault, schedule, target};

/// The processes that believe they are the leader, and the actions of leaders.
#[derive(Default)]
struct Board {
    leading: Vec<ProcessId>,
    most_at_once: usize,
    /// The beginning of each term, and its leader.
    terms: Vec<(SimTime, ProcessId)>,
    /// Every write that a leader issued, with its term.
    writes: Vec<(SimTime, usize)>,
}

impl Board {
    /// The number of writes issued in a term after a later term had issued a write.
    fn writes_after_a_successors(&self) -> usize {
        let first_of_later = |term: usize, at: SimTime| self.writes.iter().any(|&(earlier, other)| other > term && earlier < at);
        self.writes.iter().filter(|&&(at, term)| first_of_later(term, at)).count()
    }
}

/// The belief of a process that it is the leader, as long as it lasts: it ends with the work, or with the process.
struct Leading {
    board: Arc<Mutex<Board>>,
    process: ProcessId,
    term: usize,
}

impl Leading {
    fn begin(board: &Arc<Mutex<Board>>, process: ProcessId, now: SimTime) -> Self {
        let mut state = board.lock();
        state.leading.push(process);
        state.most_at_once = state.most_at_once.max(state.leading.len());
        state.terms.push((now, process));
        Self { board: board.clone(), process, term: state.terms.len() - 1 }
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        self.board.lock().leading.retain(|&process| process != self.process);
    }
}

/// One life of a candidate: it runs for leader, writes unguarded while it leads, and exits when it no longer does.
async fn candidate(cluster: Arc<Cluster>, seed: u64, process: ProcessId, life: u32, renewal: Renewal, board: Arc<Mutex<Board>>) {
    let client = SimClient::new(&cluster, process);
    let env = SimEnv::new(&cluster.rt, seed, process);
    let identity = format!("{}-{life}", cluster.rt.process_name(process));
    let config = ElectionConfig { renewal, ..ElectionConfig::new(ObjectKey::namespaced("default", "leader"), identity.clone()) };
    let election = Election::start(client.clone(), env, config).unwrap();
    let rt = &cluster.rt;
    let _ended = election
        .lead(async {
            let leading = Leading::begin(&board, process, rt.now());
            let mut number = 0_u64;
            loop {
                board.lock().writes.push((rt.now(), leading.term));
                let _ = client.create(config_map(&format!("{}-by-{identity}-{number}", leading.term), "k", "v")).await;
                rt.sleep(200 * MS).await;
                number += 1;
            }
        })
        .await;
    let again = cluster.clone();
    rt.at(rt.now() + SECOND, move || {
        again.start(process);
    });
    cluster.crash(process);
}

/// Starts `candidate-0` and, three seconds later, the others: the first one leads by then.
async fn candidates(bed: &Testbed, n: usize, renewal: Renewal) -> Arc<Mutex<Board>> {
    let board = Arc::<Mutex<Board>>::default();
    for number in 0..n {
        let name = format!("candidate-{number}");
        let process = bed.rt.add_process(bed.rt.add_host(&name), &name);
        let (cluster, seed, shared) = (Arc::downgrade(&bed.cluster), bed.seed, board.clone());
        bed.rt.set_main(process, move |life| {
            let (cluster, board) = (cluster.upgrade(), shared.clone());
            async move {
                if let Some(cluster) = cluster {
                    candidate(cluster, seed, process, life, renewal, board).await;
                }
            }
        });
        bed.cluster.start(process);
        if number == 0 {
            bed.wait(3 * SECOND).await;
            assert_eq!(board.lock().leading, [process]);
        }
    }
    board
}

/// Crashes and partitions of everything for four minutes.
fn trouble(bed: &Testbed) -> Vec<Fault> {
    let mut draw = Draw::new(bed.seed, Concern::Faults, 0);
    let mut plan = Vec::new();
    for round in 0..16 {
        let after = draw.below(240_000) as u32;
        let lasts = draw.between(SECOND, 40 * SECOND);
        let who = || target(&format!("candidate-{}", round % 3));
        let server = target(&format!("apiserver-{}", round % 2));
        let any = || target("apiserver-*");
        let kind = match draw.below(6) {
            0 => FaultKind::Crash(Crash { process: who(), down: Span(lasts) }),
            1 => FaultKind::Partition(Partition { from: who(), to: any() }),
            2 => FaultKind::OneWayPartition(OneWayPartition { from: any(), to: who() }),
            3 => FaultKind::OneWayPartition(OneWayPartition { from: who(), to: any() }),
            4 => FaultKind::ApiServerCrash(ApiServerCrash { server, initializing: Span::secs(1) }),
            _ => FaultKind::EtcdElection(EtcdElection {}),
        };
        let lasts = if matches!(kind, FaultKind::EtcdElection(_)) { lasts.min(2 * SECOND) } else { lasts };
        plan.push(fault(bed, after, lasts, kind));
    }
    // Wall clocks have no effect at all.
    plan.push(fault(bed, 0, 250 * SECOND, FaultKind::ClockOffset(ClockOffset { host: target("candidate-1"), by_ms: 86_400_000 })));
    plan.push(fault(bed, 0, 250 * SECOND, FaultKind::ClockOffset(ClockOffset { host: target("candidate-2"), by_ms: -86_400_000 })));
    plan
}

#[test]
fn k143_without_pauses_and_rate_skew_at_most_one_leads_at_every_instant() {
    let mut terms = 0;
    for seed in 0..40 {
        let renewal = [Renewal::WriteFirst, Renewal::ReadFirst][seed as usize % 2];
        let board = Testbed::run(seed, async |bed| {
            let board = candidates(&bed, 3, renewal).await;
            schedule(&bed, &trouble(&bed));
            bed.wait(Duration::from_secs(330)).await;
            assert_eq!(board.lock().leading.len(), 1, "seed {seed}: somebody leads in the end");
            std::mem::take(&mut *board.lock())
        });
        assert_eq!(board.most_at_once, 1, "seed {seed}: {:?}", board.terms);
        assert_eq!(board.writes_after_a_successors(), 0, "seed {seed}");
        terms += board.terms.len();
    }
    assert!(terms > 40 * 3, "leadership moved around: {terms} terms in 40 runs");
}

/// Two candidates, with faults that affect the leader.
fn with_trouble_for_the_leader(seed: u64, plan: impl Fn(&Testbed) -> Vec<Fault>) -> (Board, Vec<String>) {
    Testbed::run(seed, async |bed| {
        let board = candidates(&bed, 2, Renewal::WriteFirst).await;
        bed.wait(10 * SECOND + MS * (seed as u32 % 20) * 100).await;
        schedule(&bed, &plan(&bed));
        bed.wait(90 * SECOND).await;
        let by_commit: Vec<String> = bed.cluster.store(|store| {
            let mut writes: Vec<(u64, String)> = store
                .table(bed.kind::<ConfigMap>())
                .range(std::ops::Bound::Unbounded)
                .map(|(key, object)| (object.meta().resource_version.as_ref().unwrap().parse().unwrap(), key.name().to_owned()))
                .collect();
            writes.sort_unstable();
            writes.into_iter().map(|(_, name)| name).collect()
        });
        (std::mem::take(&mut *board.lock()), by_commit)
    })
}

fn pause(bed: &Testbed, lasts: Duration) -> Vec<Fault> {
    vec![fault(bed, 0, lasts, FaultKind::Pause(Pause { process: target("candidate-0") }))]
}

#[test]
fn k143_with_a_pause_longer_than_the_lease_two_processes_both_issue_writes() {
    let (mut both_believed, mut both_wrote) = (0, 0);
    for seed in 0..30 {
        let (board, by_commit) = with_trouble_for_the_leader(seed, |bed| pause(bed, 25 * SECOND));
        both_believed += usize::from(board.most_at_once == 2);
        if board.writes_after_a_successors() > 0 {
            both_wrote += 1;
            // Nothing stops the write of the old leader: it commits among those of the new one.
            let new = by_commit.iter().position(|name| name.starts_with("1-by-candidate-1")).unwrap();
            let old = by_commit.iter().rposition(|name| name.starts_with("0-by-candidate-0")).unwrap();
            assert!(old > new, "seed {seed}: {by_commit:?}");
        }
    }
    assert_eq!(both_believed, 30, "the paused one cannot know");
    assert!(both_wrote > 0, "it goes on until its renew deadline, which begins when it resumes");
}

#[test]
fn k143_a_pause_shorter_than_the_margin_does_no_harm() {
    for seed in 0..20 {
        let (board, _) = with_trouble_for_the_leader(seed, |bed| pause(bed, 10 * SECOND));
        assert_eq!((board.most_at_once, board.writes_after_a_successors()), (1, 0), "seed {seed}");
    }
}

/// The leader's clocks run at `ppm` and it is cut off from the API.
fn slow_clock_and_partition(bed: &Testbed, ppm: i64) -> Vec<Fault> {
    vec![
        fault(bed, 0, 60 * SECOND, FaultKind::ClockDrift(ClockDrift { host: target("candidate-0"), ppm })),
        fault(bed, 10_000, 45 * SECOND, FaultKind::Partition(Partition { from: target("candidate-0"), to: target("*") })),
    ]
}

#[test]
fn k143_rate_skew_beyond_lease_duration_over_renew_deadline_breaks_exclusivity() {
    let mut overlaps = 0;
    for seed in 0..20 {
        // 0.6 of the true rate: 10 s of renewing take 16.7 s, longer than the others wait.
        let (board, _) = with_trouble_for_the_leader(seed, |bed| slow_clock_and_partition(bed, -400_000));
        overlaps += usize::from(board.most_at_once == 2);
    }
    assert!(overlaps > 0);
}

#[test]
fn k143_small_rate_skew_does_no_harm() {
    for seed in 0..20 {
        let (board, _) = with_trouble_for_the_leader(seed, |bed| slow_clock_and_partition(bed, -100_000));
        assert_eq!((board.most_at_once, board.terms.len() > 1), (1, true), "seed {seed}");
    }
}

#[test]
fn a_crashed_leader_is_replaced_after_a_lease_and_two_sleeps_at_most() {
    for seed in 0..20 {
        let crash =
            |bed: &Testbed| vec![fault(bed, 0, SECOND, FaultKind::Crash(Crash { process: target("candidate-0"), down: Span::secs(60) }))];
        let (board, _) = with_trouble_for_the_leader(seed, crash);
        let [(_, first), (taken, second)] = board.terms[..] else { panic!("{:?}", board.terms) };
        assert_ne!(first, second);
        let last_write = board.writes.iter().filter(|(_, term)| *term == 0).map(|(at, _)| *at).max().unwrap();
        let vacant = taken - last_write;
        // The last renewal was up to 2 s before the crash; it is seen up to 4.4 s after it, and 15 s later it takes the follower up to 4.4
        // s to look again.
        assert!((12 * SECOND..24 * SECOND).contains(&vacant), "seed {seed}: {vacant:?}");
    }
}
