//! `report conflicts --advise`: today's policy and its alternatives, on the same bursts.

use std::fs;
use std::time::Duration;

use ipam_byom::{Policy, Retry};
use ipam_reports::conflicts::advice::{Advice, Needs, Tried, burst_row, bursts_head, csv, read_bursts};
use ipam_reports::conflicts::{Made, Precision, System, USUAL, page, precise};
use ipam_reports::pool::PoolRun;
use ipam_reports::{ConflictsReport, TableError};
use kube_machinery::retry::{Backoff, Jitter};
use sim_byom::workload::burst::RetryName;
use sim_config::time::Span;
use sim_harness::engine::thread_pool::jobs;
use sim_harness::engine::{Progress, build, output};
use sim_harness::plan::hash_text;
use sim_harness::workload::BackoffPlan;

use super::bursts::{self, Enough};
use super::drawings;
use super::ledger::{Ledger, Sheet};
use super::points::{self, Planned};
use super::sweep_point::{IN_USE, Order, SweepPoint, name_of, policy_name};
use crate::cli::CliError;
use crate::cli::report::Sharing;
use crate::cli::report::args::ConflictsArgs;

/// The maximum number of pools over which writers are spread.
const POOLS: u32 = 4;

/// The attempts of B §8.3's reference policy, and its longest sleep.
const ATTEMPTS: u32 = 12;
const LONGEST: Duration = Duration::from_millis(500);

const BURSTS: &str = "bursts.csv";

/// An alternative to today's policy, or that policy itself.
struct Alternative {
    name: String,
    needs: Needs,
    costs: String,
    point: SweepPoint,
}

/// An alternative before its bursts.
struct ToTry {
    needs: Needs,
    costs: String,
    planned: Planned,
}

/// Today's policy at the requested point.
fn today(sharing: &Sharing) -> Result<SweepPoint, CliError> {
    points::fits(sharing.system, &sharing.vary)?;
    if sharing.faults.is_some() || sharing.vary.iter().any(|one| one.key() == "faults") {
        let wrong = "`--advise` compares ways to try again without faults".to_owned();
        let right = "leave faults out; `--vary faults=none,hostile --vary retry=…` compares policies with them";
        return Err(CliError::usage(wrong).hint(right));
    }
    let axis = points::main_axis(sharing.system);
    if !sharing.vary.iter().any(|one| one.key() == axis) {
        let (_, many) = sharing.system.sharers();
        return Err(CliError::usage(format!("`--advise` needs to know how many {many} share the pool; add e.g. `--vary {axis}=8`")));
    }
    if let Some(one) = sharing.vary.iter().find(|one| one.values.count() > 1) {
        return Err(CliError::usage(format!(
            "`--advise` is about one point, and `{}` has {} values; give it one",
            one.key(),
            one.values.count()
        )));
    }
    let point = SweepPoint { system: sharing.system, ..IN_USE };
    let point = sharing.vary.iter().fold(point, |point, one| one.values.put(0, point).1);
    Ok(SweepPoint { servers: points::servers(sharing)?, ..point })
}

/// The parameters of the policy of a point.
fn backoff(point: &SweepPoint) -> Backoff {
    if point.system == System::Spiderpool {
        return ipam_spiderpool::ipam::AgentSettings::RETRY;
    }
    match point.retry.retry(&Policy::hardened()) {
        Retry::Backoff(backoff) => backoff,
        Retry::FullJitter { attempts, base, cap } => {
            Backoff { steps: attempts, base: base.saturating_mul(2), factor: 2.0, cap, jitter: Jitter::Full }
        }
    }
}

/// Today's policy and its alternatives, each of which changes one thing.
fn alternatives(today: &SweepPoint) -> Vec<Alternative> {
    let now = backoff(today);
    let with = |backoff: Backoff| SweepPoint { backoff: Some(BackoffPlan::from(backoff)), ..today.clone() };
    let name = match today.system {
        System::Byom => name_of(&today.retry),
        System::Spiderpool => policy_name(today.upstream).to_owned(),
    };
    let mut all = vec![(format!("today: {name}"), Needs::Nothing, "", today.clone())];
    let bounded = now.steps < ATTEMPTS;
    if let Jitter::Added(part) = now.jitter {
        if part < 1.0 {
            all.push(("jitter 100 %".to_owned(), Needs::Number, "", with(Backoff { jitter: Jitter::Added(1.0), ..now })));
        }
        all.push(("full jitter".to_owned(), Needs::Code, "", with(Backoff { jitter: Jitter::Full, ..now })));
    }
    if bounded {
        // Sleeps that grow fast would soon exceed the time limit of an operation.
        let last = now.sleeps(|| 0.0).last().unwrap_or(now.base);
        let (cap, needs) = if now.factor > 2.0 { (last, Needs::Code) } else { (now.cap, Needs::Number) };
        let told = if cap < Duration::MAX { format!(" up to {}", Span(cap)) } else { String::new() };
        all.push((format!("{ATTEMPTS} attempts{told}"), needs, "", with(Backoff { steps: ATTEMPTS, cap, ..now })));
        all.push((format!("base {}", Span(now.base * 5)), Needs::Number, "", with(Backoff { base: now.base * 5, ..now })));
        all.push((format!("{ATTEMPTS} attempts, full jitter up to {}", Span(LONGEST)), Needs::Code, "", twelve(today)));
    }
    if today.once {
        let again = |point: SweepPoint| SweepPoint { once: false, probes: true, ..point };
        all.push(("decides again".to_owned(), Needs::Code, "", again(today.clone())));
        all.push((format!("decides again, {ATTEMPTS} attempts, full jitter"), Needs::Code, "", again(twelve(today))));
    }
    if today.system == System::Byom {
        let by = |order| SweepPoint { order, ..today.clone() };
        let costs = "each call makes three requests more, and one more each time it asks in vain; \
                     a process that dies with the Lease stops the others for 15 s";
        all.push(("a Lease for the pool".to_owned(), Needs::Part, costs, by(Order::Lease)));
        let costs = "no pod gets an address while it is down; the times leave out the network between it and the nodes";
        all.push(("one allocator for all".to_owned(), Needs::Part, costs, by(Order::Allocator)));
    }
    let pools = POOLS.min(today.instances);
    if pools > 1 {
        let costs = "a pool can be full while others have room";
        all.push((format!("{pools} pools"), Needs::Objects, costs, SweepPoint { pools, ..today.clone() }));
    }
    all.into_iter().map(|(name, needs, costs, point)| Alternative { name, needs, costs: costs.to_owned(), point }).collect()
}

/// The point with the reference policy of B §8.3 instead of today's.
fn twelve(today: &SweepPoint) -> SweepPoint {
    match today.system {
        System::Byom => SweepPoint { retry: RetryName::Twelve, ..today.clone() },
        System::Spiderpool => {
            let base = Duration::from_millis(20);
            let backoff = Backoff { steps: ATTEMPTS, base, factor: 2.0, cap: LONGEST, jitter: Jitter::Full };
            SweepPoint { backoff: Some(backoff.into()), ..today.clone() }
        }
    }
}

/// Everything to try, today's policy first. All use the seeds of today's policy.
fn plan(sharing: &Sharing) -> Result<Vec<ToTry>, CliError> {
    let today = today(sharing)?;
    let base = points::base(sharing.system)?;
    let mut all: Vec<ToTry> = Vec::new();
    for Alternative { name, needs, costs, point } in alternatives(&today) {
        let mut planned = points::planned(&base, "advice", &name, &point)?;
        planned.first_seed = all.first().map_or(planned.first_seed, |today| today.planned.first_seed);
        all.push(ToTry { needs, costs, planned });
    }
    Ok(all)
}

/// Answers `report conflicts --advise`.
///
/// # Errors
/// The arguments are invalid, the folder holds other results, or a burst broke the harness.
pub(super) fn report(args: &ConflictsArgs, progress: &dyn Progress) -> Result<ConflictsReport, CliError> {
    let out = args.output.folder("advice");
    let all = plan(&args.sharing)?;
    let precision = Precision { relative: args.precision.0, absolute: args.precision.0 * USUAL.absolute / USUAL.relative };
    let scenarios: Vec<String> = all.iter().map(|one| toml::to_string(&one.planned.scenario).unwrap_or_default()).collect();
    let config = hash_text(&format!("advice {precision:?} {} {}", args.seeds, scenarios.concat()));
    let question = page::question(args.sharing.system).to_owned();
    let made = Made { question, command: args.command(), build: build().to_owned(), config, ..Made::default() };
    let sheets = [Sheet { name: BURSTS, head: bursts_head().into_bytes() }, Sheet { name: "tried.csv", head: b"policy,bursts\n".to_vec() }];
    let (mut ledger, _) = Ledger::open(&out, &made, &sheets, &["policy"], args.output.force)?;
    let known = known(&fs::read_to_string(out.join(BURSTS)).unwrap_or_default())?;
    let are = |runs: &[PoolRun]| precise(runs, precision);
    let mut tried: Vec<Tried> = Vec::new();
    let mut interrupted = false;
    for (number, ToTry { needs, costs, planned }) in all.iter().enumerate() {
        // All have as many bursts as today's policy needs to be precise: the bursts are compared in pairs.
        let first = bursts::first_look(args.sharing.system, bursts::FIRST_LOOK);
        let (first, most) = tried.first().map_or((first, args.seeds), |today| (today.point.bursts, today.point.bursts));
        let enough = Enough { first, most, are: &are };
        let name = &planned.setting.series;
        let mut runs: Vec<PoolRun> = known.iter().filter(|(policy, ..)| policy == name).map(|(.., run)| run.clone()).collect();
        if runs.is_empty() {
            let label = format!("policy {} of {}", number + 1, all.len());
            let Some((found, _)) = bursts::all(planned, &enough, jobs(args.output.jobs), &label, progress)? else {
                interrupted = true;
                break;
            };
            let rows: String = (planned.first_seed..).zip(&found).map(|(seed, run)| burst_row(name, seed, run)).collect();
            ledger.keep(&[rows.as_bytes(), format!("{},{}\n", quoted(name), found.len()).as_bytes()])?;
            runs = found;
        }
        tried.push(Tried { needs: *needs, costs: costs.clone(), point: bursts::point(planned, &enough, &runs), runs });
    }
    let advice = Advice::of(&tried).map_err(|unpaired| CliError::harness(unpaired.to_string()))?;
    let table = csv(&advice);
    let mut report = ConflictsReport::advising(made, advice, tried, interrupted);
    let refused = |error: std::io::Error| CliError::usage(format!("cannot write in {}: {error}", out.display()));
    let written = output::write(&out.join("advice.csv"), table).map_err(refused).and_then(|()| drawings::write(&report, &out));
    report.unwritten = drawings::unwritten(written)?;
    Ok(report)
}

/// A name as a table cell, quoted because some names contain commas.
fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// The bursts that an earlier run finished.
fn known(table: &str) -> Result<Vec<(String, u64, PoolRun)>, CliError> {
    match read_bursts(table) {
        Ok(known) => Ok(known),
        Err(TableError::Empty(_)) => Ok(Vec::new()),
        Err(error) => Err(CliError::harness(format!("{BURSTS} does not read back: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn plan_of(system: System, all: &[&str]) -> Result<Vec<ToTry>, CliError> {
        plan(&Sharing { system, vary: all.iter().map(|one| one.parse().unwrap()).collect(), ..Sharing::default() })
    }

    fn names(all: &[ToTry]) -> Vec<&str> {
        all.iter().map(|one| &*one.planned.setting.series).collect()
    }

    #[test]
    fn all_have_the_seeds_of_today_and_one_thing_else() {
        for (system, asked) in [(System::Byom, &["instances=8"][..]), (System::Spiderpool, &["nodes=4", "pods=2"])] {
            let all = plan_of(system, asked).unwrap();
            let seeds: BTreeSet<u64> = all.iter().map(|one| one.planned.first_seed).collect();
            let scenarios: BTreeSet<String> = all.iter().map(|one| toml::to_string(&one.planned.scenario).unwrap()).collect();
            assert_eq!((seeds.len(), scenarios.len()), (1, all.len()));
            let plain =
                &points::plan(&Sharing { system, vary: asked.iter().map(|one| one.parse().unwrap()).collect(), ..Sharing::default() });
            assert_eq!(all[0].planned.first_seed, plain.as_ref().unwrap()[0].first_seed, "today's are those of the report without advice");
        }
    }

    #[test]
    fn what_today_has_already_is_not_tried() {
        let of = |asked: &[&str]| {
            let all = plan_of(System::Byom, asked).unwrap();
            names(&all).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            of(&["instances=8"]),
            [
                "today: default-backoff",
                "jitter 100 %",
                "full jitter",
                "12 attempts up to 250ms",
                "base 50ms",
                "12 attempts, full jitter up to 500ms",
                "a Lease for the pool",
                "one allocator for all",
                "4 pools",
            ]
        );
        assert_eq!(of(&["instances=2", "retry=patient"]), ["today: patient", "a Lease for the pool", "one allocator for all", "2 pools"]);
        assert!(of(&["instances=8", "update=decides-once"]).contains(&"decides again".to_owned()));
        let agents = plan_of(System::Spiderpool, &["nodes=8"]).unwrap();
        assert_eq!(
            names(&agents),
            [
                "today: hardened",
                "jitter 100 %",
                "full jitter",
                "12 attempts",
                "base 50ms",
                "12 attempts, full jitter up to 500ms",
                "4 pools"
            ]
        );
    }

    #[test]
    fn what_is_no_one_point_is_refused() {
        for (system, asked, expected) in [
            (System::Byom, &[][..], "needs to know how many adaptors share the pool; add e.g. `--vary instances=8`"),
            (System::Spiderpool, &["pods=2"], "add e.g. `--vary nodes=8`"),
            (System::Byom, &["instances=2..8"], "is about one point, and `instances` has 3 values; give it one"),
            (System::Byom, &["instances=8", "retry=patient,twelve"], "`retry` has 2 values"),
            (System::Byom, &["nodes=8"], "`nodes` is not varied with --system byom"),
            (System::Byom, &["instances=8", "faults=hostile"], "compares ways to try again without faults"),
        ] {
            let error = plan_of(system, asked).err().unwrap();
            assert!(error.exit_code == 2 && error.message.contains(expected), "{}", error.message);
        }
    }
}
