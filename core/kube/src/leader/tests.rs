//! The pure part step by step, and the driver against a scripted Lease.

use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::*;
use crate::api::{ObjectKey, Reason, Status, TransportError};
use crate::testing::{Answer, TestClient, TestEnv};

const SECOND: Duration = Duration::from_secs(1);

fn config(identity: &str) -> ElectionConfig {
    ElectionConfig::new(ObjectKey::namespaced("kube-system", "ipam"), identity)
}

fn round(seconds: u64) -> Round {
    Round { now: Duration::from_secs(seconds), wall: Timestamp::from_second(1_000_000 + seconds as i64).unwrap() }
}

/// The lease as the API server would return it after a write.
fn stored(lease: Lease, version: u32) -> Arc<Lease> {
    let mut lease = lease;
    lease.metadata.resource_version = Some(version.to_string());
    Arc::new(lease)
}

fn spec(lease: &Lease) -> &LeaseSpec {
    lease.spec.as_ref().unwrap()
}

fn update(step: Step) -> Lease {
    let Step::Update(lease) = step else { panic!("{step:?}") };
    *lease
}

/// A leader since second 0, its candidate, and the lease it wrote.
fn leader_since_zero(identity: &str) -> (Candidate, Arc<Lease>) {
    let mut candidate = Candidate::new(&config(identity));
    assert_eq!(candidate.begin(round(0)), Step::Read);
    let Step::Create(lease) = candidate.decide(None, round(0), Duration::ZERO) else { panic!("there is none to update") };
    let lease = stored(*lease, 1);
    candidate.written(lease.clone(), Duration::ZERO);
    (candidate, lease)
}

#[test]
fn an_absent_lease_is_created() {
    let (candidate, lease) = leader_since_zero("a");
    assert!(candidate.leads());
    let spec = spec(&lease);
    assert_eq!((lease.metadata.namespace.as_deref(), lease.metadata.name.as_deref()), (Some("kube-system"), Some("ipam")));
    assert_eq!(spec.holder_identity.as_deref(), Some("a"));
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(15), Some(0)));
    assert_eq!(spec.acquire_time, spec.renew_time);
}

#[test]
fn a_leader_renews_over_the_version_it_remembers_without_reading() {
    let (candidate, _) = leader_since_zero("a");
    let renewed = update(candidate.begin(round(2)));
    assert_eq!(renewed.metadata.resource_version.as_deref(), Some("1"));
    assert_eq!(spec(&renewed).acquire_time, Some(MicroTime(round(0).wall)));
    assert_eq!(spec(&renewed).renew_time, Some(MicroTime(round(2).wall)));
    assert_eq!(spec(&renewed).lease_transitions, Some(0));
    assert_eq!(candidate.begin(round(15)), Step::Read, "a lease that may have expired is read first");
}

#[test]
fn an_older_leader_reads_before_it_renews() {
    let (mut candidate, lease) = leader_since_zero("a");
    candidate.renewal = Renewal::ReadFirst;
    assert_eq!(candidate.begin(round(2)), Step::Read);
    let renewed = update(candidate.decide(Some(lease), round(2), 2 * SECOND));
    assert_eq!(spec(&renewed).lease_transitions, Some(0));
}

#[test]
fn only_the_age_of_ones_own_observation_counts() {
    let (_, lease) = leader_since_zero("a");
    // The record claims to be decades old, or from the future: neither matters.
    for years in [-30, 30] {
        let mut skewed = (*lease).clone();
        let wall = Timestamp::from_second(1_000_000 + years * 365 * 86_400).unwrap();
        skewed.spec.as_mut().unwrap().renew_time = Some(MicroTime(wall));
        let skewed = Arc::new(skewed);
        let mut other = Candidate::new(&config("b"));
        assert_eq!(other.decide(Some(skewed.clone()), round(100), 100 * SECOND), Step::Wait);
        assert_eq!(other.decide(Some(skewed.clone()), round(114), 114 * SECOND), Step::Wait);
        let taken = update(other.decide(Some(skewed), round(115), 115 * SECOND));
        assert_eq!((spec(&taken).holder_identity.as_deref(), spec(&taken).lease_transitions), (Some("b"), Some(1)));
    }
}

#[test]
fn each_renewal_starts_the_wait_anew() {
    let (mut leader, lease) = leader_since_zero("a");
    let mut other = Candidate::new(&config("b"));
    other.decide(Some(lease), round(0), Duration::ZERO);
    let renewed = stored(update(leader.begin(round(14))), 2);
    leader.written(renewed.clone(), 14 * SECOND);
    assert_eq!(other.decide(Some(renewed.clone()), round(16), 16 * SECOND), Step::Wait);
    assert_eq!(other.decide(Some(renewed.clone()), round(30), 30 * SECOND), Step::Wait);
    update(other.decide(Some(renewed), round(31), 31 * SECOND));
}

#[test]
fn the_duration_in_the_record_counts_not_the_own() {
    let (_, lease) = leader_since_zero("a");
    let mut patient = (*lease).clone();
    patient.spec.as_mut().unwrap().lease_duration_seconds = Some(60);
    let patient = Arc::new(patient);
    let mut other = Candidate::new(&config("b"));
    other.decide(Some(patient.clone()), round(0), Duration::ZERO);
    assert_eq!(other.decide(Some(patient.clone()), round(59), 59 * SECOND), Step::Wait);
    update(other.decide(Some(patient), round(60), 60 * SECOND));
}

#[test]
fn a_released_lease_is_taken_at_once() {
    let (candidate, _) = leader_since_zero("a");
    let released = candidate.release(round(3).wall).unwrap();
    assert_eq!(released.metadata.resource_version.as_deref(), Some("1"));
    assert_eq!((spec(&released).holder_identity.as_deref(), spec(&released).lease_duration_seconds), (Some(""), Some(1)));
    let mut other = Candidate::new(&config("b"));
    let taken = update(other.decide(Some(stored(released, 2)), round(3), 3 * SECOND));
    assert_eq!(spec(&taken).lease_transitions, Some(1));
    assert_eq!(other.release(round(3).wall), None, "who does not lead has nothing to release");
}

#[test]
fn a_lost_reply_is_recognised_as_ones_own_renewal() {
    let (mut candidate, _) = leader_since_zero("a");
    let renewed = stored(update(candidate.begin(round(2))), 2);
    // The answer is lost; the next write conflicts, and the read shows the candidate's own record.
    let again = update(candidate.decide(Some(renewed), round(4), 4 * SECOND));
    assert_eq!((again.metadata.resource_version.as_deref(), spec(&again).lease_transitions), (Some("2"), Some(0)));
}

#[test]
fn k143_after_a_pause_longer_than_the_lease_two_believe_that_they_lead() {
    let (paused, lease) = leader_since_zero("a");
    let mut other = Candidate::new(&config("b"));
    other.decide(Some(lease.clone()), round(1), SECOND);
    let taken = stored(update(other.decide(Some(lease), round(16), 16 * SECOND)), 2);
    other.written(taken, 16 * SECOND);
    assert!(other.leads() && paused.leads(), "nothing has told the paused one, and nothing stops its writes");
}

#[test]
fn times_are_cut_to_microseconds() {
    let mut candidate = Candidate::new(&config("a"));
    let wall = Timestamp::from_nanosecond(1_234_567_891).unwrap();
    let Step::Create(lease) = candidate.decide(None, Round { now: Duration::ZERO, wall }, Duration::ZERO) else { panic!() };
    let text = serde_json::to_string(&lease).unwrap();
    let read: Lease = serde_json::from_str(&text).unwrap();
    assert_eq!(read, *lease);
    assert!(text.contains("1970-01-01T00:00:01.234567Z"), "{text}");
}

#[test]
fn constraints_are_checked() {
    assert_eq!(config("a").validate(), Ok(()));
    let check = |change: &dyn Fn(&mut ElectionConfig)| {
        let mut config = config("a");
        change(&mut config);
        config.validate().unwrap_err().to_string()
    };
    assert_eq!(check(&|config| config.identity.clear()), "the identity of a candidate must not be empty");
    assert_eq!(check(&|config| config.lease_duration = 10 * SECOND), "lease duration 10s must be longer than renew deadline 10s");
    assert_eq!(
        check(&|config| config.renew_deadline = Duration::from_millis(2400)),
        "renew deadline 2.4s must be longer than 1.2 times retry period 2s"
    );
    assert_eq!(check(&|config| config.retry_period = Duration::ZERO), "the retry period must not be zero");
}

/// A Lease behind an API server, and the candidates that cannot reach it.
#[derive(Default)]
struct Server {
    lease: Option<Arc<Lease>>,
    version: u32,
    cut_off: Vec<&'static str>,
    /// Whether replies to writes are lost; the writes are carried out.
    lose_replies: bool,
    /// The time, the candidate and the verb of each request.
    log: Vec<(u128, &'static str, &'static str)>,
}

impl Server {
    fn answer(&mut self, call: Call<Lease>) -> Result<Reply<Lease>, ApiError> {
        let body = match call {
            Call::Get { .. } => {
                return self.lease.clone().map(Reply::Object).ok_or_else(|| Status::new(Reason::NotFound, "").into());
            }
            Call::Create { .. } if self.lease.is_some() => return Err(Status::new(Reason::AlreadyExists, "").into()),
            Call::Update { body, .. }
                if self.lease.as_ref().is_none_or(|lease| lease.metadata.resource_version != body.metadata.resource_version) =>
            {
                return Err(Status::new(Reason::Conflict, "").into());
            }
            Call::Create { body, .. } | Call::Update { body, .. } => body,
            other => panic!("an election does not {}", other.verb()),
        };
        self.version += 1;
        let lease = stored((*body).clone(), self.version);
        self.lease = Some(lease.clone());
        if self.lose_replies { Err(TransportError::Reset.into()) } else { Ok(Reply::Object(lease)) }
    }
}

struct Rig {
    env: TestEnv,
    server: Arc<Mutex<Server>>,
}

impl Rig {
    fn new() -> Self {
        let env = TestEnv::new();
        env.fix_random_unit(0.0);
        Self { env, server: Arc::default() }
    }

    fn client(&self, who: &'static str) -> TestClient<Lease> {
        let (env, server) = (self.env.clone(), self.server.clone());
        TestClient::without_watch(&self.env, move |request: Request<Lease>| {
            let mut server = server.lock().unwrap();
            server.log.push((env.monotonic().as_millis(), who, request.call.verb().as_str()));
            if server.cut_off.contains(&who) {
                let after = request.timeout.expect("an election never waits for ever");
                return Answer { after, result: Err(TransportError::Deadline.into()) };
            }
            Answer::now(server.answer(request.call))
        })
    }

    fn start_with(&self, who: &'static str, config: ElectionConfig) -> Election {
        Election::start(self.client(who), self.env.clone(), config).unwrap()
    }

    fn start(&self, who: &'static str) -> Election {
        self.start_with(who, config(who))
    }

    /// The requests of `who` since the last call, with times in milliseconds.
    fn asked(&self, who: &str) -> Vec<(u128, &'static str)> {
        let mut asked = Vec::new();
        self.server.lock().unwrap().log.retain(|(at, by, verb)| {
            if *by == who {
                asked.push((*at, *verb));
            }
            *by != who
        });
        asked
    }

    fn cut_off(&self, who: &'static str) {
        self.server.lock().unwrap().cut_off.push(who);
    }
}

#[test]
fn a_leader_renews_every_retry_period() {
    let rig = Rig::new();
    let election = rig.start("a");
    assert!(rig.env.block_on(election.acquired()));
    rig.env.advance(5 * SECOND);
    assert_eq!(rig.asked("a"), [(0, "get"), (0, "create"), (0, "update"), (2000, "update"), (4000, "update")]);
    assert_eq!((&*election.leader(), election.phase()), ("a", Phase::Leading));
}

#[test]
fn k143_without_pauses_at_most_one_leads() {
    for seed in 0..20u32 {
        let rig = Rig::new();
        rig.env.fix_random_unit(f64::from(seed) / 20.0);
        let elections = ["a", "b", "c"].map(|who| rig.start(who));
        let mut led = [false; 3];
        for second in 0..120 {
            rig.env.advance(SECOND);
            let leading: Vec<usize> = (0..3).filter(|index| elections[*index].is_leading()).collect();
            assert!(leading.len() <= 1, "second {second}: {leading:?}");
            leading.iter().for_each(|index| led[*index] = true);
            if second == 40
                && let [leader] = leading[..]
            {
                rig.cut_off(["a", "b", "c"][leader]);
            }
        }
        assert_eq!(led.iter().filter(|led| **led).count(), 2, "seed {seed}: leadership moved once");
    }
}

#[test]
fn a_leader_that_is_cut_off_stops_before_anybody_takes_over() {
    let rig = Rig::new();
    let leader = rig.start("a");
    rig.env.advance(SECOND);
    let follower = rig.start("b");
    rig.env.advance(3500 * SECOND / 1000);
    // Its last renewal was at 4 s; the round at 6 s fails until 16 s; the follower may take over at 19 s.
    rig.cut_off("a");
    assert_eq!(rig.env.block_on(leader.ended()), Phase::Lost);
    assert_eq!(rig.env.monotonic(), 16 * SECOND);
    assert!(!follower.is_leading());
    assert!(rig.env.block_on(follower.acquired()));
    let taken_at = rig.env.monotonic();
    assert!(taken_at >= 19 * SECOND && taken_at <= Duration::from_millis(5000 + 15_000 + 4400), "{taken_at:?}");
    let server = rig.server.lock().unwrap();
    assert_eq!(spec(server.lease.as_ref().unwrap()).lease_transitions, Some(1));
}

#[test]
fn a_leader_whose_answers_are_lost_notices_its_own_renewals() {
    let rig = Rig::new();
    let leader = rig.start("a");
    rig.env.advance(SECOND);
    rig.server.lock().unwrap().lose_replies = true;
    rig.env.advance(6 * SECOND);
    rig.server.lock().unwrap().lose_replies = false;
    rig.env.advance(30 * SECOND);
    assert_eq!(leader.phase(), Phase::Leading);
    assert_eq!(spec(rig.server.lock().unwrap().lease.as_ref().unwrap()).lease_transitions, Some(0));
}

#[test]
fn renewal_is_tried_on_each_tick_until_the_deadline() {
    let rig = Rig::new();
    let election = rig.start("a");
    rig.env.advance(SECOND);
    rig.asked("a");
    {
        let mut server = rig.server.lock().unwrap();
        let mut other = Candidate::new(&config("z"));
        let Step::Create(lease) = other.decide(None, round(0), Duration::ZERO) else { panic!() };
        server.lease = Some(stored(*lease, 77));
    }
    rig.env.advance(20 * SECOND);
    assert_eq!(election.phase(), Phase::Lost);
    let gets: Vec<u128> = rig.asked("a").into_iter().filter(|(_, verb)| *verb == "get").map(|(at, _)| at).collect();
    assert_eq!(gets, [2000, 4000, 6000, 8000, 10_000], "and none at the deadline itself");
    assert_eq!(&*election.leader(), "z");
}

#[test]
fn cancel_releases_the_lease_if_asked_to() {
    let rig = Rig::new();
    let leader = rig.start_with("a", ElectionConfig { release_on_cancel: true, ..config("a") });
    rig.env.advance(SECOND);
    let follower = rig.start("b");
    rig.env.settle();
    leader.cancel();
    rig.env.settle();
    assert_eq!((leader.phase(), &*leader.leader()), (Phase::Cancelled, ""));
    rig.env.advance(5 * SECOND);
    assert!(follower.is_leading());
    assert_eq!(rig.env.tasks_alive(), 1);
}

#[test]
fn dropping_an_election_ends_its_task_and_without_release_keeps_the_lease() {
    let rig = Rig::new();
    let leader = rig.start("a");
    rig.env.advance(SECOND);
    drop(leader);
    rig.env.settle();
    assert_eq!(rig.env.tasks_alive(), 0);
    assert_eq!(spec(rig.server.lock().unwrap().lease.as_ref().unwrap()).holder_identity.as_deref(), Some("a"));
}

#[test]
fn guarded_work_is_dropped_when_leadership_is_lost() {
    let rig = Rig::new();
    let election = rig.start("a");
    assert_eq!(rig.env.block_on(election.lead(async { 7 })), Ok(7));
    rig.cut_off("a");
    assert_eq!(rig.env.block_on(election.lead(std::future::pending::<()>())), Err(Phase::Lost));
    assert_eq!(rig.env.block_on(election.lead(async { 7 })), Err(Phase::Lost));
}
