//! A gate as Markdown, for the summary page of a CI job.

use super::cause::{Told, named};
use super::{GateReport, PartSum, Story, word};
use crate::{Verdict, human, printable};

/// The largest number of failures reported at length: such a page is limited to about a megabyte.
const TOLD_MAX: usize = 50;
/// The largest number of lines that name what was left out.
const LEFT_OUT_MAX: usize = 50;

/// Writes a table of the parts, the failures with their blocks folded, each cause once, and what was left out.
pub fn markdown(report: &GateReport, story: Story<'_>) -> String {
    let report = &*printable::record(report);
    let mut lines = vec![format!("## ipam-sim gate: {}", report.headline().to_lowercase()), String::new()];
    lines.push(format!("{}. Exit code {}.", report.summary(), report.exit_code));
    if let Some(build) = &report.build {
        lines.push(format!("Build {}.", code(build)));
    }
    lines.push(String::new());
    lines.push("| part | cases | seeds | seeds/s | time | verdict |".to_owned());
    lines.push("|---|--:|--:|--:|--:|---|".to_owned());
    lines.extend(report.parts().iter().map(row));

    let incomplete = report.incomplete();
    if !incomplete.is_empty() {
        lines.extend([String::new(), "### Not judged".to_owned(), String::new()]);
        let why = if report.interrupted { "It was stopped" } else { "The budget ended" };
        lines.push(format!("{why} before these ran what they must."));
        lines.push(String::new());
        lines.extend(incomplete.iter().map(|(part, sentence)| format!("- **{part}**: {}", plain(sentence))));
    }
    let failures = report.failures_by_cause();
    if !failures.is_empty() {
        lines.extend([String::new(), "### Failures".to_owned()]);
    }
    for told in failures.iter().take(TOLD_MAX) {
        lines.push(String::new());
        lines.extend(failure(told, story));
    }
    if failures.len() > TOLD_MAX {
        lines.extend([String::new(), format!("And {} more.", human::count((failures.len() - TOLD_MAX) as u64))]);
    }
    for (title, entries) in [("Left out", report.left_out_lines()), ("Remarks", report.remarks.clone())] {
        if entries.is_empty() {
            continue;
        }
        lines.extend([String::new(), format!("### {title}"), String::new()]);
        lines.extend(entries.iter().take(LEFT_OUT_MAX).map(|entry| format!("- {}", plain(entry))));
        if entries.len() > LEFT_OUT_MAX {
            lines.push(format!("- and {} more", human::count((entries.len() - LEFT_OUT_MAX) as u64)));
        }
    }
    lines.join("\n") + "\n"
}

fn row(sum: &PartSum) -> String {
    let verdicts: Vec<_> = sum.verdicts.iter().map(|&(verdict, count)| format!("{} {}", human::count(count), word(verdict))).collect();
    let mark = match sum.verdict() {
        // A part that did not run must not look right.
        Verdict::Open if sum.seeds == 0 => "⚠️",
        Verdict::LeftOut | Verdict::Incomplete => "⚠️",
        verdict if verdict.exit_code() == crate::exit::HELD => "✅",
        _ => "❌",
    };
    let rate = sum.seeds_per_second().map(human::rate).unwrap_or_default();
    let (cases, seeds, wall) = (human::count(sum.cases), human::count(sum.seeds), human::duration(sum.wall));
    format!("| {} | {cases} | {seeds} | {rate} | {wall} | {mark} {} |", sum.part, verdicts.join(", "))
}

fn failure(Told { case, verdict, same }: &Told<'_>, story: Story<'_>) -> Vec<String> {
    let verdict = *verdict;
    let told = Some(story(case, verdict)).filter(|told| !told.is_empty()).unwrap_or_else(|| vec![case.message(verdict)]).join("\n");
    let fence = "`".repeat(longest_run(&told).max(2) + 1);
    let (name, message) = (html(&case.name), html(&case.message(verdict)));
    let mut lines = vec![
        format!("<details><summary><b>{name}</b> ({}): {message}</summary>", case.part),
        String::new(),
        format!("{fence}text"),
        told,
        fence,
        String::new(),
        "</details>".to_owned(),
    ];
    if let Some(replay) = case.replay() {
        // On a separate line, so that it can be copied without unfolding anything.
        let fence = "`".repeat(longest_run(&replay).max(2) + 1);
        lines.extend([String::new(), format!("{fence}sh"), replay, fence]);
    }
    if !same.is_empty() {
        let cases = human::plural(same.len() as u64, "more case fails", "more cases fail");
        lines.extend([String::new(), format!("{cases} for the same cause: {}", plain(&named(same)))]);
    }
    lines
}

/// The longest run of backticks: a fence must be longer.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Inline code, between more backticks than the text has in a row.
fn code(text: &str) -> String {
    let fence = "`".repeat(longest_run(text) + 1);
    format!("{fence}{text}{fence}")
}

/// Text within HTML, on one line; not for attributes, as quotes stay.
fn html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace(['\r', '\n'], " ")
}

/// Text in which nothing is markup, on one line.
fn plain(text: &str) -> String {
    let mut escaped = String::new();
    for c in html(text).chars() {
        if "\\`*_[]|~".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
