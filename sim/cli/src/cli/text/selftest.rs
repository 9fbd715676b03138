//! The kill matrix: a line per trial, the control group, and a final line.

use ipam_reports::matrix::{FOUND_WITHIN, MOSTLY_WITHIN, MUST_HOLD_SCORE, MatrixRow, Trial};
use ipam_reports::{MatrixReport, exit, human};

use super::Paint;
use super::table::{Align, Table};

/// A line for each trial of each deviation, then the control group, then the verdict.
pub fn selftest(report: &MatrixReport, paint: Paint) -> String {
    use Align::{Left, Right};
    let mut table = Table::new([Left, Left, Left, Left, Right, Right, Left, Left]);
    let head = ["", "mutation", "found by", "scenario", "median", "found in", "first claim", "needs at least"];
    table.painted(head.map(str::to_owned), move |_, text| paint.dim(text));
    for row in &report.deviations {
        let (word, good) = verdict(row);
        let paint_word = move |column: usize, text: &str| match (column, good) {
            (0, Some(true)) => paint.good(text),
            (0, Some(false)) => paint.bad(text),
            _ => text.to_owned(),
        };
        if row.trials.is_empty() {
            let cells = [word, &row.deviation, &row.how, "no scenario tries it", "", "", "", ""];
            table.painted(cells.map(str::to_owned), paint_word);
        }
        for (number, trial) in row.trials.iter().enumerate() {
            let once = |text: &str| if number == 0 { text.to_owned() } else { String::new() };
            let cells = [
                once(word),
                once(&row.deviation),
                once(&row.how),
                trial.label(),
                median(trial),
                format!("{} of {}", trial.found_in(), trial.found.len()),
                trial.claim.clone().unwrap_or_default(),
                needs(row, trial),
            ];
            table.painted(cells, paint_word);
        }
    }
    let mut lines = table.lines();
    if !report.control.is_empty() {
        lines.extend([String::new(), paint.bold("Control group: must not be reported")]);
        let mut table = Table::new([Left, Left, Right, Left]);
        for row in &report.control {
            let quiet = row.violated.is_empty();
            let alarms: Vec<String> = row.violated.iter().map(|(claim, seed)| format!("{claim} in seed {seed}")).collect();
            let seeds = human::plural(row.seeds, "seed", "seeds");
            table.painted(
                [if quiet { "ok" } else { "FAIL" }.to_owned(), row.scenario.clone(), seeds, alarms.join(", ")],
                move |column, text| match column {
                    0 if quiet => paint.good(text),
                    0 => paint.bad(text),
                    _ => text.to_owned(),
                },
            );
        }
        lines.extend(table.lines());
    }
    lines.push(String::new());
    lines.push(summary(report, paint));
    lines.join("\n") + "\n"
}

/// The beginning of a deviation's line, and whether the result is good.
fn verdict(row: &MatrixRow) -> (&'static str, Option<bool>) {
    let within = row.best().and_then(Trial::median).is_some_and(|median| median <= FOUND_WITHIN);
    match (row.must_be_found(), row.was_tried(), within) {
        (_, false, _) => ("-", None),
        (true, true, true) => ("ok", Some(true)),
        (true, true, false) => ("MISSED", Some(false)),
        (false, true, _) => ("·", None),
    }
}

fn median(trial: &Trial) -> String {
    match trial.median() {
        Some(median) => human::count(median),
        None if trial.found.is_empty() => String::new(),
        None => format!("> {}", human::count(trial.seeds)),
    }
}

/// The size of the shrunk failure, on the line of the trial that it came from.
fn needs(row: &MatrixRow, trial: &Trial) -> String {
    let smallest = row.smallest.as_ref().filter(|smallest| smallest.scenario == trial.label());
    smallest.map_or_else(String::new, |smallest| {
        let (ops, faults) = (smallest.size.ops, smallest.size.faults);
        format!("{}, {}", human::plural(ops, "operation", "operations"), human::plural(faults, "fault", "faults"))
    })
}

/// The final line of the matrix.
fn summary(report: &MatrixReport, paint: Paint) -> String {
    let (must, soon) = report.soon();
    let missed = report.missed().count();
    let alarms = report.control.iter().filter(|row| !row.violated.is_empty()).count();
    let seeds = human::plural(report.seeds_run, "seed", "seeds");
    let cut = if report.cut_short { ", cut short" } else { "" };
    let headline = match report.exit_code {
        exit::HELD => paint.good("All noticed"),
        code if exit::is_interruption(code) => paint.warn("Interrupted"),
        exit::VACUOUS => paint.warn("Nothing ran"),
        _ => paint.bad("Not good enough"),
    };
    if report.must_hold {
        return score(report, &headline);
    }
    let alarms = match alarms {
        0 => "no false alarm".to_owned(),
        alarms => human::plural(alarms as u64, "false alarm", "false alarms"),
    };
    format!(
        "{headline}: {} of {must} found within {} seeds, {soon} within {MOSTLY_WITHIN}, {alarms}; {seeds} in {}{cut}.",
        must - missed,
        human::count(report.seeds.min(FOUND_WITHIN)),
        human::duration(report.wall)
    )
}

/// The final line of a matrix of scenarios that must hold.
fn score(report: &MatrixReport, headline: &str) -> String {
    let (must, soon) = report.soon();
    let found = must - report.missed().count();
    let share = found as f64 * 100.0 / must.max(1) as f64;
    let median = report
        .median()
        .map_or_else(|| "half of them or more are not".to_owned(), |median| format!("half of them within {}", human::count(median)));
    let seeds = human::plural(report.seeds_run, "seed", "seeds");
    let cut = if report.cut_short { ", cut short" } else { "" };
    format!(
        "{headline}: {found} of {must} ({share:.0} %, at least {MUST_HOLD_SCORE} wanted) found within {} runs of scenarios that must hold, \
         {median}, {soon} within {MOSTLY_WITHIN}; {seeds} in {}{cut}.",
        human::count(report.seeds.min(FOUND_WITHIN)),
        human::duration(report.wall)
    )
}
