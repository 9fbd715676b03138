//! Faults of clocks.

use kube_machinery::Env;
use kube_sim::env::SimEnv;
use kube_sim::fault::{ClockDrift, ClockOffset, FaultKind};
use kube_sim::testbed::Testbed;

use super::{SECOND, create, strike, strike_all, target, took};

/// The difference between the wall clock of `env` and the world's, in milliseconds; positive if it is ahead.
fn ahead_ms(bed: &Testbed, env: &SimEnv) -> i64 {
    let world = kube_sim::cluster::EPOCH.as_millisecond() + (bed.rt.now().as_micros() / 1_000) as i64;
    env.wall().as_millisecond() - world
}

#[test]
fn a_clock_offset_moves_the_wall_clock_and_moves_it_back() {
    Testbed::run(1, async |bed| {
        let (skewed, other) = (bed.client("skewed"), bed.client("other"));
        let (env, right) = (bed.env(&skewed), bed.env(&other));
        let monotonic = env.monotonic();
        strike(&bed, 10 * SECOND, FaultKind::ClockOffset(ClockOffset { host: target("skewed"), by_ms: -4_000 })).await;
        assert_eq!((ahead_ms(&bed, &env), ahead_ms(&bed, &right)), (-4_000, 0));
        assert!(env.monotonic() >= monotonic && env.monotonic() < monotonic + SECOND, "the monotonic clock does not move");
        bed.wait(11 * SECOND).await;
        assert_eq!(ahead_ms(&bed, &env), 0);
    });
}

#[test]
fn offsets_add_up_and_a_host_with_several_processes_is_moved_once() {
    Testbed::run(1, async |bed| {
        let host = bed.rt.add_host("shared");
        let first = bed.rt.add_process(host, "first");
        bed.process("between");
        bed.rt.add_process(host, "second");
        let env = SimEnv::new(&bed.rt, bed.seed, first);
        let offset = |by_ms| FaultKind::ClockOffset(ClockOffset { host: target("*"), by_ms });
        strike_all(&bed, [(10 * SECOND, offset(1_000)), (20 * SECOND, offset(500))]).await;
        assert_eq!(ahead_ms(&bed, &env), 1_500);
        bed.wait(11 * SECOND).await;
        assert_eq!(ahead_ms(&bed, &env), 500);
        // A host that was added later was never shifted, so it is not shifted back.
        let late = bed.client("late");
        bed.wait(10 * SECOND).await;
        assert_eq!((ahead_ms(&bed, &env), ahead_ms(&bed, &bed.env(&late))), (0, 0));
    });
}

#[test]
fn a_clock_that_leaves_the_calendar_stops_at_its_end_and_comes_back() {
    Testbed::run(1, async |bed| {
        let client = bed.client("skewed");
        let env = bed.env(&client);
        for by_ms in [i64::MIN, i64::MAX] {
            // The clocks of API servers are shifted, too: they stamp objects with them.
            let offset = || FaultKind::ClockOffset(ClockOffset { host: target("*"), by_ms });
            strike_all(&bed, std::array::from_fn::<_, 15, _>(|_| (10 * SECOND, offset()))).await;
            assert_eq!(env.wall(), if by_ms < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX });
            create(&client, if by_ms < 0 { "early" } else { "late" }).await.unwrap();
            bed.wait(11 * SECOND).await;
            assert_eq!(ahead_ms(&bed, &env), 0);
        }
    });
}

#[test]
fn a_drifting_clock_gains_time_and_its_sleeps_are_short() {
    Testbed::run(1, async |bed| {
        let client = bed.client("fast");
        let env = bed.env(&client);
        strike(&bed, 20 * SECOND, FaultKind::ClockDrift(ClockDrift { host: target("fast"), ppm: 1_000_000 })).await;
        let (read, now) = (env.monotonic(), bed.rt.now());
        let (slept, ()) = took(&bed, env.sleep(10 * SECOND)).await;
        assert_eq!(slept, 5 * SECOND, "a clock that runs twice as fast");
        assert_eq!(env.monotonic() - read, (bed.rt.now() - now) * 2);
        bed.wait(20 * SECOND).await;
        let (slept, ()) = took(&bed, env.sleep(10 * SECOND)).await;
        assert_eq!(slept, 10 * SECOND);
        assert!((19_000..21_000).contains(&ahead_ms(&bed, &env)), "what was gained stays: {}", ahead_ms(&bed, &env));
    });
}
