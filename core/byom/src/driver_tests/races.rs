//! Several processes at once: lost updates, create races, lost answers, and the frequency of conflicts (B §7.2, §8).

use std::collections::BTreeSet;

use super::*;

/// The round trip times of B §8.1.
fn with_latencies(bed: &mut Bed) {
    bed.server.read = Duration::from_millis(4);
    bed.server.write = Duration::from_millis(10);
    bed.server.think = Duration::from_micros(500);
    bed.vms.probe = Duration::from_millis(2);
}

/// `n` processes allocate at once; returns their addresses and the effort of all.
fn burst(bed: &Bed, n: usize, change: impl Fn(&mut PoolSettings)) -> (Vec<(String, String)>, Vec<Effort>) {
    let done = Arc::new(Mutex::new(Vec::new()));
    for index in 0..n {
        let (pool, done) = (bed.process_with(&change), done.clone());
        bed.env.spawn(async move {
            let id: Arc<str> = format!("pod-{index}").into();
            let outcome = pool.allocate(&id, &pod(&id), Context::BACKGROUND).await;
            done.lock().unwrap().push((id.to_string(), outcome));
        });
    }
    bed.env.advance(Duration::from_secs(31));
    let done = std::mem::take(&mut *done.lock().unwrap());
    assert_eq!(done.len(), n, "every operation ends within its 30 s");
    let efforts = done.iter().map(|(_, outcome)| outcome.effort).collect();
    let granted = done.into_iter().filter_map(|(id, outcome)| Some((id, outcome.result.ok()?.to_string())));
    (granted.collect(), efforts)
}

fn addresses(n: usize) -> Vec<String> {
    (0..n).map(|low| format!("10.0.{}.{}", low / 256, low % 256)).collect()
}

fn bed_of(policy: Policy, pool: usize) -> Bed {
    let all = addresses(pool);
    let mut bed = Bed::recovered(policy, &all.iter().map(String::as_str).collect::<Vec<_>>());
    with_latencies(&mut bed);
    bed
}

#[test]
fn of_a_burst_upstream_keeps_only_the_last_record() {
    let bed = bed_of(Policy::upstream(), 8);
    let (granted, _) = burst(&bed, 4, |_| {});
    assert_eq!((granted.len(), bed.holders().len()), (4, 1));
    // All documents but the first are built on the same base.
    assert_eq!(bed.store(|store| store.versions()), [2, 3, 3, 3, 3]);
}

#[test]
fn a_hardened_burst_grants_every_address_once_and_keeps_every_record() {
    for n in [2, 8, 32] {
        let bed = bed_of(Policy::hardened(), n);
        let (granted, efforts) = burst(&bed, n, |_| {});
        let different: BTreeSet<_> = granted.iter().map(|(_, address)| address).collect();
        assert_eq!((granted.len(), different.len()), (n, n));
        assert_eq!(granted.into_iter().collect::<BTreeSet<_>>(), bed.holders().into_iter().collect());
        assert!(efforts.iter().map(|effort| effort.conflicts).sum::<u32>() > 0, "the writers met");
        // B I5: versions count up by one.
        let versions = bed.store(|store| store.versions());
        assert!(versions.iter().copied().eq(2..2 + n as i64 + 1), "{versions:?}");
    }
}

#[test]
fn within_a_process_the_mutex_keeps_writers_apart() {
    let bed = bed_of(Policy::hardened(), 8);
    let pool = bed.process();
    for index in 0..8 {
        let pool = pool.clone();
        bed.env.spawn(async move {
            let id: Arc<str> = format!("pod-{index}").into();
            let outcome = pool.allocate(&id, &pod(&id), Context::BACKGROUND).await;
            assert!(outcome.result.is_ok() && outcome.effort.conflicts == 0);
        });
    }
    bed.env.advance(Duration::from_secs(5));
    assert_eq!((bed.holders().len(), bed.env.tasks_alive()), (8, 0));
}

/// B §8.3, simultaneous start, N = 8: 2.55 conflicts per call and P(exhaust) 0.32; with twelve attempts 1.75 and 0.
#[test]
fn conflicts_are_as_frequent_as_the_model_says() {
    let n = 8;
    let documented = Policy { four_attempts: true, create_race_fails: true, ..Policy::hardened() };
    for (policy, retry, conflicts, exhausted) in [
        (Policy::upstream(), Retry::UPSTREAM, 2.55, 0.32),
        (documented, Retry::UPSTREAM, 2.56, 0.320),
        (Policy::hardened(), Retry::TWELVE, 1.75, 0.0),
    ] {
        let bed = bed_of(policy, 2 * n);
        let start = bed.store(|store| store.object().unwrap());
        let bursts = 400;
        let mut all = Vec::new();
        for _ in 0..bursts {
            // Start again from a pool without allocations.
            bed.store(|store| store.put(&start));
            // The rows of `as_documented` have no probe between read and write.
            let (_, efforts) = burst(&bed, n, |settings| {
                settings.retry = retry;
                settings.probes = policy.decide_once;
            });
            all.extend(efforts);
        }
        let per_call = |count: u32| f64::from(count) / (bursts * n) as f64;
        let (met, gave_up) = (per_call(all.iter().map(|e| e.conflicts).sum()), per_call(all.iter().map(|e| u32::from(e.exhausted)).sum()));
        assert!((met / conflicts - 1.0).abs() < 0.05, "{met} conflicts per call, not {conflicts}");
        assert!((gave_up - exhausted).abs() < 0.03, "{gave_up} calls gave up, not {exhausted}");
    }
}

#[test]
fn of_two_creators_upstream_fails_one_and_hardened_none() {
    for (policy, expected) in [(Policy::upstream(), 1), (Policy::hardened(), 2)] {
        let mut bed = Bed::new(policy, &["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
        bed.know(Vec::new());
        with_latencies(&mut bed);
        let (granted, efforts) = burst(&bed, 2, |_| {});
        assert_eq!((granted.len(), bed.holders().len()), (expected, expected));
        assert_eq!(efforts.iter().map(|effort| effort.create_races).sum::<u32>(), 1);
    }
}

#[test]
fn a_lost_answer_leaves_a_leak_upstream_and_is_settled_in_the_hardened_form() {
    let lose_one = |bed: &Bed| {
        let mut once = true;
        bed.script(move |letter, _| if letter == "P" && std::mem::take(&mut once) { Act::LoseReply } else { Act::Serve });
    };
    let bed = Bed::recovered(Policy::upstream(), &["10.0.0.1"]);
    lose_one(&bed);
    let error = bed.allocate(&bed.process(), "a").unwrap_err();
    assert_eq!((error, bed.holders().len()), (PoolError::Allocating(TransportError::Deadline.into()), 1));

    let bed = Bed::recovered(Policy::hardened(), &["10.0.0.1"]);
    lose_one(&bed);
    let before = bed.env.monotonic();
    assert_eq!(bed.allocate(&bed.process(), "a").unwrap(), "10.0.0.1");
    assert_eq!((bed.log().as_str(), bed.holders().len()), ("GGPG", 1));
    let took = (bed.env.monotonic() - before).as_secs();
    assert_eq!(took, 5, "one request's time, not the operation's");
}

#[test]
fn the_mutex_costs_upstream_its_time_and_hardened_only_its_turn() {
    for policy in [Policy::upstream(), Policy::hardened()] {
        let bed = Bed::recovered(policy, &["10.0.0.1", "10.0.0.2"]);
        // Both VMs are dead, so every caller probes a dead one.
        bed.vms.with("10.0.0.1", |vm| vm.dead = true);
        bed.vms.with("10.0.0.2", |vm| vm.dead = true);
        let pool = bed.process();
        let done = Arc::new(Mutex::new(Vec::new()));
        for index in 0..5 {
            let (pool, done) = (pool.clone(), done.clone());
            bed.env.spawn(async move {
                let id: Arc<str> = format!("pod-{index}").into();
                let error = pool.allocate(&id, &pod(&id), Context::BACKGROUND).await.result.unwrap_err();
                done.lock().unwrap().push((error, pool.env.monotonic()));
            });
        }
        bed.env.advance(Duration::from_secs(60));
        let done = done.lock().unwrap();
        let last = &done[4];
        if policy == Policy::upstream() {
            // Four probes of 8.3 s under the mutex; the fifth caller has no time left (B W22).
            assert!(matches!(done[0].0, PoolError::NotReady { .. }));
            assert_eq!(last.0, PoolError::Reading(ReadError::Api(TransportError::Deadline.into())));
            assert!(last.1 > Duration::from_secs(33), "{:?}", last.1);
        } else {
            assert!(done.iter().all(|(error, at)| *error == PoolError::NoAvailable && *at < Duration::from_secs(5)), "{done:?}");
        }
    }
}
