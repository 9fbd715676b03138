//! The result of a gate: a line per part, the failures, the parts left out, and a final line.

use ipam_reports::gate::{PartSum, word};
use ipam_reports::{GateReport, Verdict, exit, human};

use super::Paint;
use super::run::{Told, findings, painted};
use super::table::{Align, Table};

/// The maximum number of failing cases that are described; the rest are named.
const TOLD_MAX: usize = 10;
/// The maximum number of lines about what was left out.
const LEFT_OUT_MAX: usize = 12;

/// A line for each part, a description of the failing cases up to a limit, what was not judged or left out, and the verdict.
pub fn gate(report: &GateReport, paint: Paint) -> String {
    let mut lines = overview(report, paint);
    let failures: Vec<_> = report.failures().collect();
    let mut causes = Told::default();
    for (case, verdict) in failures.iter().take(TOLD_MAX) {
        lines.push(String::new());
        let title = format!("{} {}", case.part, case.name);
        causes.enter(&title);
        lines.push(format!("{}  {}", paint.bold(&title), paint.dim(&case.result.file)));
        let told = findings(&case.result, *verdict, &mut causes, paint);
        if told.is_empty() {
            lines.push(format!("{} {}", painted(*verdict, "FAIL ", paint), case.message(*verdict)));
        }
        lines.extend(told);
    }
    for (case, verdict) in failures.iter().skip(TOLD_MAX) {
        lines.push(format!("also    {} {}: {}", case.part, case.name, case.message(*verdict)));
    }
    let incomplete = report.incomplete();
    if !incomplete.is_empty() {
        lines.push(String::new());
    }
    lines.extend(incomplete.iter().map(|(part, sentence)| format!("{}  {part}: {sentence}", paint.warn("not judged"))));
    for (title, entries) in [("left out", report.left_out_lines()), ("remark  ", report.remarks.clone())] {
        if !entries.is_empty() {
            lines.push(String::new());
        }
        lines.extend(entries.iter().take(LEFT_OUT_MAX).map(|entry| format!("{}  {entry}", paint.warn(title))));
        if entries.len() > LEFT_OUT_MAX {
            lines.push(format!("{}  and {} more", paint.warn(title), human::count((entries.len() - LEFT_OUT_MAX) as u64)));
        }
    }
    lines.push(String::new());
    let headline = match report.exit_code {
        exit::HELD => paint.good(report.headline()),
        exit::VACUOUS | exit::INCOMPLETE => paint.warn(report.headline()),
        code if exit::is_interruption(code) => paint.warn(report.headline()),
        _ => paint.bad(report.headline()),
    };
    let ending = if report.exit_code == exit::HELD { ". The gate is open." } else { ". The gate stays shut." };
    lines.push(format!("{headline}: {}{ending}", report.summary()));
    lines.join("\n") + "\n"
}

fn overview(report: &GateReport, paint: Paint) -> Vec<String> {
    const VERDICT: usize = 0;
    use Align::{Left, Right};
    let mut table = Table::new([Left, Left, Right, Right, Right, Right, Left]);
    let head = ["", "part", "cases", "seeds", "seeds/s", "time", "verdict"];
    table.painted(head.map(str::to_owned), move |_, text| paint.dim(text));
    for part in report.parts() {
        let verdict = part.verdict();
        let PartSum { cases, seeds, wall, verdicts, .. } = &part;
        let each: Vec<_> = verdicts.iter().map(|&(verdict, count)| format!("{} {}", human::count(count), word(verdict))).collect();
        let cells = [
            // A part of which nothing ran has no verdict, whatever the reason.
            if verdict == Verdict::Open && *seeds > 0 { "ok" } else { super::run::word(verdict) }.to_owned(),
            part.part.to_string(),
            human::count(*cases),
            human::count(*seeds),
            part.seeds_per_second().map(human::rate).unwrap_or_default(),
            human::duration(*wall),
            each.join(", "),
        ];
        let shown = if verdict == Verdict::Open && part.seeds > 0 { Verdict::Held } else { verdict };
        table.painted(cells, move |column, text| if column == VERDICT { painted(shown, text, paint) } else { text.to_owned() });
    }
    table.lines()
}
