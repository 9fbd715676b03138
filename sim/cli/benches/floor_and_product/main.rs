//! The cost of the simulation compared with the least that it could cost: `cargo bench -p ipam-sim`.
//!
//! Every figure is measured in alternation with its floor, in one process, because only such ratios mean anything on a machine that does
//! other work at the same time. A missed target is reported; nothing here fails.
//!
//! A word as argument runs only the groups whose name contains it. Without `--bench` (as under `cargo test --benches`) every group runs
//! once, briefly, to show that it still works.

mod floor;
mod measure;
mod pool;
mod product;

use std::time::{Duration, Instant};

use measure::{Effort, Table, alternate, per, resident_bytes, time, undisturbed};
use pool::Bursts;
use sim_byom::workload::burst::RetryName;

/// The number of requests in one simulation: about as many as a scenario makes.
const REQUESTS: u64 = 3_000;
/// The number of watchers of one object, and the number of its changes.
const WATCHERS: usize = 100;
const CHANGES: u64 = 150;

/// Measures some figures and enters them into the table.
type Group = fn(Effort, &mut Table);
/// Makes this many requests.
type Requests = fn(u64);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let effort = if arguments.iter().any(|argument| argument == "--bench") { Effort::Full } else { Effort::Smoke };
    let filter = arguments.into_iter().find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let mut table = Table::new();
    let groups: [(&str, Group); 6] =
        [("request", requests), ("fan-out", fan_out), ("seed", fixed_cost), ("threads", threads), ("pool", pools), ("memory", memory)];
    for (name, group) in groups {
        if name.contains(&filter) {
            eprintln!("measuring: {name}");
            group(effort, &mut table);
        }
    }
    // A smoke run is too short for meaningful figures.
    if effort == Effort::Full {
        table.print();
    }
}

/// One API request through link, server, store, observer and digest; floor: a map behind two bare sleeps.
fn requests(effort: Effort, table: &mut Table) {
    let rounds = effort.rounds(201);
    let count = effort.scale(REQUESTS);
    let heap = per(count, &alternate(rounds, [&mut || floor::heap_loop(count)])[0]);
    table.note("event loop alone, 256 pending, per event", heap);
    let work: [(&str, Requests, Requests, Option<f64>); 3] = [
        ("GET", floor::get, product::get, None),
        ("PUT", floor::put, product::put, None),
        ("GET and PUT 1:1", floor::get_and_put, product::get_and_put, Some(3.0)),
    ];
    for (name, floor, product, target) in work {
        let [bare, full] = alternate(rounds, [&mut || floor(count), &mut || product(count)]);
        table.ratio(&format!("request, {name}"), &per(count, &bare), &per(count, &full), target);
    }
    let crowd = 32;
    let [bare, full] = alternate(rounds, [&mut || floor::crowd(crowd, count), &mut || product::crowd(crowd, count)]);
    table.ratio("request, GET and PUT 1:1, 32 clients", &per(count, &bare), &per(count, &full), None);
}

/// One change that many watchers see; floor: a bare channel to each.
fn fan_out(effort: Effort, table: &mut Table) {
    let rounds = effort.rounds(101);
    let changes = effort.scale(CHANGES);
    let deliveries = changes * WATCHERS as u64;
    let [bare, timed, full] = alternate(
        rounds,
        [&mut || floor::fan_out(WATCHERS, changes), &mut || floor::fan_out_with_sleep(WATCHERS, changes), &mut || {
            product::fan_out(WATCHERS, changes)
        }],
    );
    let (bare, timed, full) = (per(deliveries, &bare), per(deliveries, &timed), per(deliveries, &full));
    table.ratio("watch fan-out to 100, per delivery", &bare, &full, Some(3.0));
    table.ratio("the same, floor with a delay for each", &timed, &full, None);
}

/// A cluster of two servers and three idle clients, set up and torn down.
fn fixed_cost(effort: Effort, table: &mut Table) {
    let rounds = effort.rounds(101);
    let count = effort.scale(100);
    let [bare, full] = alternate(
        rounds,
        [&mut || (0..count).for_each(|seed| floor::idle(seed, 5)), &mut || (0..count).for_each(|seed| product::idle(seed, 3))],
    );
    table.absolute("one seed: 2 servers, 3 idle clients", &per(count, &full), Some(Duration::from_micros(100)));
    table.ratio("the same, floor: five bare nodes", &per(count, &bare), &per(count, &full), None);
}

/// The same sweep on one thread and on two. A thread that waits for nothing and shares nothing needs no more CPU time next to another
/// thread than alone.
fn threads(effort: Effort, table: &mut Table) {
    let seeds = effort.scale(60);
    // Runs a sweep on each thread; returns the wall-clock time and the mean CPU time of a thread.
    let sweep = |threads: u64| -> [f64; 2] {
        let start = Instant::now();
        let used: Duration = std::thread::scope(|scope| {
            let sweep = |thread| time(&mut || (0..seeds).for_each(|seed| product::small_seed(thread * seeds + seed)));
            let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || sweep(thread))).collect();
            running.into_iter().map(|thread| thread.join().expect("a sweep ends")).sum()
        });
        [start.elapsed().as_secs_f64(), used.as_secs_f64() / threads as f64]
    };
    let rounds: Vec<[[f64; 2]; 2]> = (0..effort.rounds(101)).map(|_| [sweep(1), sweep(2)]).collect();
    let figure = |threads: usize, clock: usize| undisturbed(&rounds.iter().map(|round| round[threads - 1][clock]).collect::<Vec<_>>());
    table.factor("two threads against one, by processor time", 2.0 * figure(1, 1) / figure(2, 1), 1.8);
    table.factor("the same by the wall clock (two idle cores)", 2.0 * figure(1, 0) / figure(2, 0), 1.8);
}

/// Bursts of 64 adaptors on one thread and on two, and one allocation in pools of two sizes.
fn pools(effort: Effort, table: &mut Table) {
    let seeds = effort.scale(100);
    for (name, retry) in [
        ("4 attempts x5", RetryName::DefaultBackoff),
        ("5 attempts x1", RetryName::DefaultRetry),
        ("12 attempts, full jitter", RetryName::Twelve),
    ] {
        // Runs a sweep on each thread; returns the mean CPU time of a thread.
        let sweep = |threads: u64| -> f64 {
            let used: Duration = std::thread::scope(|scope| {
                let sweep = |thread| time(&mut || assert!(Bursts::of_64(retry).run(thread * seeds..(thread + 1) * seeds) > 0));
                let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || sweep(thread))).collect();
                running.into_iter().map(|thread| thread.join().expect("a sweep ends")).sum()
            });
            used.as_secs_f64() / threads as f64
        };
        let rounds: Vec<[f64; 2]> = (0..effort.rounds(15)).map(|_| [sweep(1), sweep(2)]).collect();
        for threads in [1, 2] {
            let used = undisturbed(&rounds.iter().map(|round| round[threads - 1]).collect::<Vec<_>>());
            let target = if threads == 2 { 1_000.0 } else { 500.0 };
            let what = format!("bursts/s of 64 adaptors, {name}, {threads} thread(s)");
            table.factor(&what, (threads as u64 * seeds) as f64 / used, target);
        }
    }

    // Both pools have the same number of records; the rest of a run costs the same in both.
    let allocations = 128;
    let [small, large] = [256, 16_384].map(|addresses| Bursts::in_a_row(addresses, allocations));
    let count = effort.scale(50);
    let works = [&small, &large].map(|bursts| move || assert_eq!(bursts.run(0..count), count * u64::from(allocations)));
    let [mut small, mut large] = works;
    let [small, large] = alternate(effort.rounds(51), [&mut small, &mut large]);
    let calls = count * u64::from(allocations);
    table.ratio("one allocation, pool of 16384 against 256", &per(calls, &small), &per(calls, &large), Some(2.0));
}

/// The resident set size after many small seeds compared with that after few.
fn memory(effort: Effort, table: &mut Table) {
    let (few, many) = (effort.scale(1_000), effort.scale(100_000));
    (0..few).for_each(product::small_seed);
    let before = resident_bytes();
    let took = time(&mut || (few..many).for_each(product::small_seed));
    let after = resident_bytes();
    if let (Some(before), Some(after)) = (before, after) {
        table.growth("resident set, many seeds against few", (few, before), (many, after), 0.10);
    }
    table.note("one small seed (20 GET and PUT, a watch)", per(many - few, &[took]));
}
