//! `replay`: one run with recording, presented as the flags require.

use std::ops::ControlFlow;
use std::path::Path;

use ipam_reports::command::program;
use ipam_reports::replay::TraceLine;
use ipam_reports::{ReplayReport, jepsen, perfetto};
use sim_config::time::SimTime;
use sim_harness::engine::replay::{Replay, ReplayOptions, Telling};
use sim_harness::engine::{load, output};
use sim_harness::plan::Plan;
use sim_harness::scenario::Scenario;

use super::write_named;
use crate::cli::CliError;
use crate::cli::args::{Format, ReplayArgs};

/// Runs one plan and reports the result.
pub(super) fn replay(args: &ReplayArgs, trace: &mut dyn FnMut(TraceLine) -> ControlFlow<()>) -> Result<ReplayReport, CliError> {
    one_file_each(args)?;
    let wants_history = args.format == Format::Json || args.perfetto.is_some() || args.jepsen.is_some();
    let options = ReplayOptions {
        recording: args.trace || args.follow.is_some() || args.html.is_some() || args.against.is_some() || wants_history,
        objects: args.dump.is_some(),
        until: args.until.map(|until| SimTime::ZERO + until.0),
        same_digest: args.same_digest,
    };
    let mut replay = Replay::run(plan(args)?, options)?;
    let mut unwritten = Vec::new();
    replay.report.plan = args.seed.is_none().then(|| args.file.display().to_string());
    if let Some(file) = &args.dump {
        let text = replay.objects_yaml().map_err(|error| unwritable(file, &error))?;
        unwritten.extend(write_named(file, &text).err().map(|error| unwritable(file, &error).message));
    }
    if let Some(other) = &args.against {
        replay.compare(&Plan::read(other)?, other.display().to_string())?;
    }
    let telling = Telling { trace: args.trace, follow: args.follow.as_ref(), timeline: args.html.is_some().then(|| command(args)) };
    let timeline = replay.tell(telling, trace);
    if let Some((file, timeline)) = args.html.as_ref().zip(timeline) {
        let written = write_named(file, &ipam_reports::timeline::page(&timeline));
        unwritten.extend(written.err().map(|error| unwritable(file, &error).message));
    }
    let history = if wants_history { replay.history() } else { None };
    let provenance = replay.provenance(command(args));
    let mut report = replay.report;
    if let Some(history) = &history {
        let ended = report.simulated;
        let exports = [
            args.perfetto.as_ref().map(|file| {
                let title = report.scenario.as_deref().unwrap_or("run");
                let title = format!("{title}, seed {}", report.seed);
                (file, perfetto::perfetto(&title, history, &report.violations, ended, Some(&provenance)))
            }),
            args.jepsen.as_ref().map(|file| {
                let is_json = file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
                (file, if is_json { jepsen::json(history, ended) } else { jepsen::edn(history, ended) })
            }),
        ];
        for (file, text) in exports.into_iter().flatten() {
            unwritten.extend(write_named(file, &text).err().map(|error| unwritable(file, &error).message));
        }
    }
    report.history = history.filter(|_| args.format == Format::Json);
    report.provenance = Some(provenance);
    report.unwritten = unwritten;
    report.exit_code = report.judge();
    Ok(report)
}

/// Refuses files that would overwrite each other or the input, and flags whose lines JSON output would omit.
fn one_file_each(args: &ReplayArgs) -> Result<(), CliError> {
    if args.trace && args.format == Format::Json {
        return Err(CliError::usage("--trace prints text, and --format json prints JSON: both cannot be on standard output")
            .hint("`history` of the JSON has every event; without --format json, --trace prints them"));
    }
    let read = [("the plan", Some(&args.file)), ("--against", args.against.as_ref())];
    let written = [
        ("--html", args.html.as_ref()),
        ("--perfetto", args.perfetto.as_ref()),
        ("--jepsen", args.jepsen.as_ref()),
        ("--dump", args.dump.as_ref()),
    ];
    let all: Vec<_> = read.into_iter().chain(written).filter_map(|(what, file)| Some((what, file?))).collect();
    for (index, (what, file)) in all.iter().enumerate() {
        let is_output = written.iter().any(|(name, _)| name == what);
        if let Some((other, _)) = all[..index].iter().find(|(_, known)| is_output && known == file && !output::is_special(file)) {
            return Err(CliError::usage(format!("{other} and {what} are one file, {}: each needs its own", file.display())));
        }
    }
    Ok(())
}

fn unwritable(file: &Path, error: &dyn std::fmt::Display) -> CliError {
    CliError::usage(format!("cannot write {}: {error}", file.display()))
}

/// The command that shows the run again.
fn command(args: &ReplayArgs) -> String {
    let mut command = format!("{} replay {}", program(), args.file.display());
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

/// The plan of the command line: a file, or the plan that a seed gives for a scenario.
fn plan(args: &ReplayArgs) -> Result<Plan, CliError> {
    let Some(seed) = args.seed else { return read_plan(&args.file) };
    let wanted = |one: &Scenario| args.variant.as_ref().is_none_or(|wanted| *wanted == one.name);
    // The same cluster as in a sweep.
    match load::variants(&args.file, wanted)?.as_slice() {
        [only] => Ok(only.scenario.draw(seed)),
        [] => Err(CliError::usage(format!("{} has no variant of that name", args.file.display()))),
        all @ [first, ..] => Err(CliError::usage(format!(
            "{} has {} variants; name one with --variant, such as {}",
            args.file.display(),
            all.len(),
            first.scenario.name
        ))),
    }
}

/// Reads a plan file.
pub(super) fn read_plan(file: &Path) -> Result<Plan, CliError> {
    Plan::read(file).map_err(|problems| {
        if Scenario::read_each(file).is_err() {
            return problems.into();
        }
        let (file, program) = (file.display(), program());
        CliError::usage(format!("{file} is a scenario, and no plan")).hint(format!(
            "`{program} replay {file} --seed S` runs the plan of a seed; `{program} run {file}` writes those of seeds that fail"
        ))
    })
}
