//! The cost of the selection of pools and addresses, and of scans for leaked ones: `cargo bench -p ipam-spiderpool`.
//!
//! A missed target is reported; nothing here fails. Without `--bench` (as under `cargo test --benches`) everything runs once, briefly, to
//! show that it still works.

mod cluster;
mod measure;
mod scan;
mod subnets;

use ipam_spiderpool::ranges::{IpSet, PoolAddresses};
use ipam_spiderpool::select::{Asker, Objects, select};
use ipam_spiderpool::{Policy, SpiderIPPool};

use cluster::{Case, Fill, POOLS};
use measure::{Effort, nanos, print, time};

/// The allocator of the program that the figures apply to.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The target for a decision among [`POOLS`] pools.
const DECISION_NS: f64 = 100_000.0;
/// The target for judging a pool among ten thousand.
const ADMISSION_NS: f64 = 10_000_000.0;
/// The target for the plan of one of a thousand pools.
const PLAN_NS: f64 = 200_000.0;
/// The target for each record of a live pod in a scan.
const SCAN_NS: f64 = 1_000.0;
/// The maximum ratio of the cost of a choice in a large pool to that in a small pool.
const LARGE_AGAINST_SMALL: f64 = 2.0;

fn main() {
    let effort = if std::env::args().any(|argument| argument == "--bench") { Effort::Full } else { Effort::Smoke };
    let mut rows = decisions(effort);
    rows.extend(choices(effort));
    rows.extend(of_subnets(effort));
    rows.extend(scans(effort));
    if effort == Effort::Full {
        print(&rows);
    }
}

/// Decisions among many pools, one per tier.
fn decisions(effort: Effort) -> Vec<[String; 4]> {
    let mut rows = Vec::new();
    for (form, policy) in [("hardened", Policy::hardened()), ("upstream", Policy::upstream())] {
        for case in Case::all() {
            let request = case.request(&policy);
            let selection = select(&case.objects, &request);
            assert_eq!(selection.error, None, "{}", case.name);
            assert_eq!(selection.tier, case.tier, "{}", case.name);
            let candidates = selection.nics[0].families[0].candidates.len();
            let cost = time(effort, &mut || std::hint::black_box(select::<Objects>(&case.objects, &request)).nics.len());
            let what = format!("{form}, {}: {candidates} of {POOLS} pools", case.name);
            let verdict = if cost <= DECISION_NS { "met" } else { "MISSED" };
            rows.push([what, nanos(cost), format!("<= {}", nanos(DECISION_NS)), verdict.to_owned()]);
        }
    }
    rows
}

/// Choices of an address in a small and in a large pool: by a caller that also parses its ranges, as `explain` does, and by an agent that
/// has parsed them before. The cost of the former depends on the text: one exclusion in eight is much.
fn choices(effort: Effort) -> Vec<[String; 4]> {
    let (policy, reserved) = (Policy::hardened(), Ok(IpSet::default()));
    let asker = Asker { pod_uid: "me", nic: "eth0", max_records: u64::MAX, policy: &policy };
    let mut rows = Vec::new();
    for fill in Fill::ALL {
        let cost = |size: u32| {
            let pool: SpiderIPPool = fill.pool(size);
            assert!(asker.next_free_ip(&pool, &reserved).is_ok());
            time(effort, &mut || usize::from(std::hint::black_box(asker.next_free_ip(&pool, &reserved)).is_ok()))
        };
        let cost_of_agent = |size: u32| {
            let pool: SpiderIPPool = fill.pool(size);
            let addresses = PoolAddresses::of(&pool.spec, &IpSet::default(), &policy).expect("its ranges are fine");
            let records = pool.status.as_ref().expect("it has records").allocated_ips.parse().expect("they are fine");
            let choose = || addresses.first_free(records).expect("they are fine");
            assert!(choose().is_some());
            time(effort, &mut || usize::from(std::hint::black_box(choose()).is_some()))
        };
        let mut pair = |who: &str, small: f64, large: f64, target: bool| {
            let verdict = if large <= small * LARGE_AGAINST_SMALL { "met" } else { "MISSED" };
            let (target, verdict) = if target { (format!("<= {LARGE_AGAINST_SMALL} times"), verdict) } else { (String::new(), "") };
            rows.push([format!("{who}, {}, pool of 256", fill.name()), nanos(small), String::new(), String::new()]);
            rows.push([format!("{who}, {}, pool of 65536", fill.name()), nanos(large), target, verdict.to_owned()]);
        };
        let much_to_read = matches!(fill, Fill::FullButOneInStretches);
        pair("an address, ranges read", cost(256), cost(65_536), !much_to_read);
        pair("an address, ranges known", cost_of_agent(256), cost_of_agent(65_536), true);
    }
    rows
}

/// Admission, and decisions about a subnet.
fn of_subnets(effort: Effort) -> Vec<[String; 4]> {
    let row = |what: String, work: &mut dyn FnMut() -> usize, target: Option<f64>| {
        let cost = time(effort, work);
        let verdict = target.map_or("", |target| if cost <= target { "met" } else { "MISSED" });
        [what, nanos(cost), target.map_or_else(String::new, |target| format!("<= {}", nanos(target))), verdict.to_owned()]
    };
    let pools = subnets::PLANNED;
    vec![
        row(format!("admission beside {} pools", subnets::ADMITTED), &mut subnets::admission(), Some(ADMISSION_NS)),
        row(format!("a plan, one of {pools} pools, only its labels"), &mut subnets::planning(32), Some(PLAN_NS)),
        row(format!("a plan, one of {pools} pools, which grows"), &mut subnets::planning(40), Some(PLAN_NS)),
        row(format!("upkeep of a subnet of {pools} pools"), &mut subnets::keeping(), None),
    ]
}

/// Scans of a cluster in which nothing leaked.
fn scans(effort: Effort) -> Vec<[String; 4]> {
    let records = if effort == Effort::Full { 65_536 } else { 1_024 };
    let row = |(form, policy)| {
        let (cost, target) = (time(effort, &mut scan::scanning(policy, records)), SCAN_NS * f64::from(records));
        let verdict = if cost <= target { "met" } else { "MISSED" };
        [format!("{form}, a scan of {records} records"), nanos(cost), format!("<= {}", nanos(target)), verdict.to_owned()]
    };
    [("hardened", Policy::hardened()), ("upstream", Policy::upstream())].into_iter().map(row).collect()
}
