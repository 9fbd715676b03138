//! `replay`: one run with recording.

use std::ops::ControlFlow;
use std::path::Path;

use ipam_reports::replay::{Comparison, Parting, TraceLine};
use ipam_reports::{ReplayReport, Seconds, Timeline};

use super::sweep::run_seed;
use super::{BUILD, bad_input, load};
use crate::cli::CliError;
use crate::cli::args::ReplayArgs;
use crate::plan::{Checkpoint, Plan, Recorded};
use crate::record::{Narrator, Record};
use crate::scenario::Scenario;
use crate::story::{self, Index, Wanted};
use crate::time::SimTime;
use crate::world::{Outcome, RunOptions};

/// Runs one plan and says what came of it.
pub(crate) fn replay(args: &ReplayArgs, trace: &mut dyn FnMut(TraceLine) -> ControlFlow<()>) -> Result<ReplayReport, CliError> {
    let plan = plan(args)?;
    let until = args.until.map(|until| SimTime::ZERO + until.0);
    let options = RunOptions {
        recording: args.trace || args.follow.is_some() || args.html.is_some() || args.against.is_some(),
        dump: args.dump.is_some(),
        until,
        ..RunOptions::default()
    };
    let outcome = run(&plan, options)?;
    let mut report = ReplayReport::new(plan.seed, outcome.digest, outcome.events);
    report.scenario = Some(plan.scenario.clone());
    report.plan = args.seed.is_none().then(|| args.file.display().to_string());
    report.simulated = Seconds::from_micros(outcome.ended_at.as_micros());
    report.violations.clone_from(&outcome.violations);
    if until.is_some_and(|until| until < plan.end_at) {
        report.remarks.push(format!("the run was stopped at {}: its digest is not that of the whole run", outcome.ended_at));
        for eventually in plan.check.eventually.iter().filter(|eventually| plan.heal_at + eventually.within.0 > outcome.ended_at) {
            report.remarks.push(format!("not judged: {}, which has until {}", eventually.claim, plan.heal_at + eventually.within.0));
        }
    } else if let Some(promised) = &plan.recorded {
        let edited = !promised.plan.is_empty() && promised.plan != plan.fingerprint();
        compare_with_promise(&mut report, promised, &outcome, edited, args.same_digest);
    }
    if let Some(file) = &args.dump {
        dump(file, &outcome)?;
    }
    let records = outcome.recording;
    if let Some(other) = &args.against {
        let other_plan = Plan::read(other).map_err(bad_input)?;
        let other_outcome = run(&other_plan, options)?;
        let parting = records.as_ref().zip(other_outcome.recording.as_ref()).and_then(|(this, other)| first_difference(this, other));
        let parting = parting.map(|parting| Parting { because: because(&plan, &other_plan), ..parting });
        report.against = Some(Comparison { plan: other.display().to_string(), digest: other_outcome.digest, parting });
    }
    if let Some((records, narrator)) = &records {
        tell(args, &plan, (records, narrator), &mut report, trace)?;
    }
    report.exit_code = report.judge();
    Ok(report)
}

/// Prints the trace, or what of it is followed, and draws the picture.
fn tell(
    args: &ReplayArgs,
    plan: &Plan,
    (records, narrator): (&[Record], &Narrator),
    report: &mut ReplayReport,
    trace: &mut dyn FnMut(TraceLine) -> ControlFlow<()>,
) -> Result<(), CliError> {
    if args.trace && args.follow.is_none() {
        let _ = (0..).zip(records).try_for_each(|(number, record)| trace(narrator.line(number, record)));
    }
    if args.follow.is_none() && args.html.is_none() {
        return Ok(());
    }
    let index = Index::new(records, narrator);
    let followed = args.follow.as_ref().map(|subject| (story::follow(&index, subject), subject));
    if let Some((followed, _)) = &followed {
        let _ = followed.lines.iter().cloned().try_for_each(trace);
        report.remarks.extend(followed.remark.clone());
    }
    if let Some(file) = &args.html {
        let wanted = Wanted {
            followed: followed.as_ref().map(|(followed, subject)| (followed.events.as_slice(), subject.to_string())),
            violations: &report.violations,
            heal_at: plan.heal_at,
            ended_at: SimTime::ZERO + std::time::Duration::from_micros(report.simulated.as_micros()),
        };
        let picture = story::timeline(&index, &wanted);
        let remarks = report.remarks.iter().cloned().chain(picture.remarks).collect();
        let picture =
            Timeline { scenario: plan.scenario.clone(), seed: plan.seed, digest: report.digest, replay: command(args), remarks, ..picture };
        let written = std::fs::write(file, ipam_reports::timeline::page(&picture));
        written.map_err(|error| CliError::usage(format!("cannot write {}: {error}", file.display())))?;
    }
    Ok(())
}

/// The command that shows the run again, as far as the shell goes.
fn command(args: &ReplayArgs) -> String {
    let mut command = format!("ipam-sim replay {}", args.file.display());
    for (option, value) in [
        ("--seed", args.seed.map(|seed| seed.to_string())),
        ("--variant", args.variant.clone()),
        ("--until", args.until.map(|until| until.to_string())),
    ] {
        if let Some(value) = value {
            command.push_str(&format!(" {option} {value}"));
        }
    }
    command + " --trace"
}

/// The plan of the command line: a file, or what a seed gives for a scenario.
fn plan(args: &ReplayArgs) -> Result<Plan, CliError> {
    match args.seed {
        Some(seed) => {
            let file = load::read(&args.file, &[]).map_err(bad_input)?;
            let wanted = |one: &Scenario| args.variant.as_ref().is_none_or(|wanted| *wanted == one.name);
            // The same cluster as a sweep has.
            let each = load::each(&args.file, &[], &file, wanted, load::stage_of).map_err(bad_input)?;
            match each.as_slice() {
                [only] => Ok(only.scenario.draw(seed)),
                [] => Err(CliError::usage(format!("{} has no variant of that name", args.file.display()))),
                [first, ..] => Err(CliError::usage(format!(
                    "{} has {} variants; name one with --variant, such as {}",
                    args.file.display(),
                    each.len(),
                    first.scenario.name
                ))),
            }
        }
        None => read_plan(&args.file),
    }
}

/// Reads a plan file.
pub(crate) fn read_plan(file: &Path) -> Result<Plan, CliError> {
    Plan::read(file).map_err(|problems| {
        let error = bad_input(problems);
        if load::read(file, &[]).is_err() {
            return error;
        }
        let file = file.display();
        CliError::usage(format!("{file} is a scenario, and no plan")).hint(format!(
            "`ipam-sim replay {file} --seed S` runs the plan of a seed; `ipam-sim run {file}` writes those of seeds that fail"
        ))
    })
}

fn run(plan: &Plan, options: RunOptions) -> Result<Outcome, CliError> {
    let stage = load::stage(&plan.cluster.manifests).map_err(bad_input)?;
    run_seed(plan, &stage, options).map_err(CliError::harness)
}

/// Holds a run against what its plan file promises.
fn compare_with_promise(report: &mut ReplayReport, promised: &Recorded, outcome: &Outcome, edited: bool, insist: bool) {
    report.expected_digest = Some(promised.digest);
    if promised.digest == outcome.digest {
        return;
    }
    report.parting = first_differing_checkpoint(&promised.checkpoints, &outcome.checkpoints, promised.events.min(outcome.events));
    if insist || (promised.build == BUILD && !edited) {
        report.nondeterministic = true;
    } else if edited {
        report.remarks.push("the plan was edited after its run was recorded: another digest is to be expected".to_owned());
    } else {
        report
            .remarks
            .push(format!("the plan was recorded by build {}, this is build {BUILD}: another digest is to be expected", promised.build));
    }
}

/// The event before which two runs part, as far as checkpoints tell.
fn first_differing_checkpoint(promised: &[Checkpoint], now: &[Checkpoint], events: u64) -> Option<Parting> {
    let common = promised.iter().filter_map(|known| now.iter().find(|other| other.events == known.events).map(|other| (known, other)));
    let first = common.into_iter().find(|(known, other)| known.digest != other.digest);
    let (event, at) = match first {
        Some((known, other)) => (known.events - 1, known.at.min(other.at)),
        None => (events, now.last().map_or(Seconds::ZERO, |checkpoint| checkpoint.at)),
    };
    Some(Parting { event, at, this: None, other: None, because: None })
}

/// The first event in which two recordings differ.
fn first_difference(this: &(Vec<Record>, Narrator), other: &(Vec<Record>, Narrator)) -> Option<Parting> {
    let line = |(records, narrator): &(Vec<Record>, Narrator), number: u64| {
        usize::try_from(number).ok().and_then(|index| records.get(index)).map(|record| narrator.line(number, record))
    };
    let longest = this.0.len().max(other.0.len()) as u64;
    (0..longest).find_map(|number| {
        let (a, b) = (line(this, number), line(other, number));
        if a == b {
            return None;
        }
        let at = [&a, &b].into_iter().flatten().map(|line| line.at).min().unwrap_or_default();
        let text = |line: Option<TraceLine>| line.map(|line| format!("{} {}: {}", line.at, line.place, line.what));
        Some(Parting { event: number, at, this: text(a), other: text(b), because: None })
    })
}

/// The first difference of two plans, in a sentence.
fn because(this: &Plan, other: &Plan) -> Option<String> {
    if this.seed != other.seed {
        return Some(format!("the seeds are {} and {}", this.seed, other.seed));
    }
    if this.deviations != other.deviations {
        return Some("the deviations differ".to_owned());
    }
    if this.cluster != other.cluster || this.workload != other.workload {
        return Some("the clusters or workloads differ".to_owned());
    }
    let first = |a: usize, b: usize, same: &dyn Fn(usize) -> bool| (0..a.max(b)).find(|&index| index >= a || index >= b || !same(index));
    if let Some(index) = first(this.fault.len(), other.fault.len(), &|index| this.fault[index] == other.fault[index]) {
        return Some(format!("fault {index} differs"));
    }
    first(this.op.len(), other.op.len(), &|index| this.op[index] == other.op[index]).map(|index| format!("operation {index} differs"))
}

/// Writes every object as YAML, as `kubectl get -o yaml` prints them.
fn dump(file: &Path, outcome: &Outcome) -> Result<(), CliError> {
    let unwritable = |error: &dyn std::fmt::Display| CliError::usage(format!("cannot write {}: {error}", file.display()));
    let mut text = String::new();
    for (_, object) in &outcome.objects {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&object.to_value()).map_err(|error| unwritable(&error))?);
    }
    std::fs::write(file, text).map_err(|error| unwritable(&error))
}
