//! The result of `conformance`: a line per theme, the differences, and a final line.

use ipam_reports::conformance::{CaseCounts, DifferingCase};
use ipam_reports::{ConformanceReport, exit, human};

use super::Paint;
use super::table::{Align, Table};

/// The maximum number of differing cases that are described, and of places in each; the rest are counted.
const CASES_MAX: usize = 10;
const PLACES_MAX: usize = 6;
/// The maximum number of lines about cases that were not compared.
const LEFT_MAX: usize = 12;
/// The length of the longest value that is shown in full, in characters.
const VALUE_MAX: usize = 160;

/// The table, the differences, and the verdict.
pub fn conformance(report: &ConformanceReport, paint: Paint) -> String {
    let mut lines = overview(report, paint);
    for case in report.differing.iter().take(CASES_MAX) {
        lines.push(String::new());
        lines.extend(differing(case, paint));
    }
    if let Some(more) = report.differing.len().checked_sub(CASES_MAX).filter(|more| *more > 0) {
        lines.push(String::new());
        lines.push(format!("and {}; --format json has them all", human::plural(more as u64, "more case", "more cases")));
    }
    if !report.not_compared.is_empty() || !report.unneeded.is_empty() {
        lines.push(String::new());
    }
    let left = report.not_compared.iter().take(LEFT_MAX);
    lines.extend(left.map(|left| format!("{}  {}: {}", paint.warn("not compared"), left.case, left.why)));
    if let Some(more) = report.not_compared.len().checked_sub(LEFT_MAX).filter(|more| *more > 0) {
        lines.push(format!("{}  and {} more", paint.warn("not compared"), human::count(more as u64)));
    }
    let unneeded = report.unneeded.iter();
    lines.extend(unneeded.map(|line| format!("{}  {}:{}: {}", paint.warn("not needed"), line.file, line.line, line.allows)));
    lines.push(String::new());
    let CaseCounts { agreed, differing, allowed, not_compared } = report.total();
    let headline = if report.exit_code == exit::HELD { paint.good("Conforms") } else { paint.bad("Differs") };
    let mut parts = vec![format!("{} as recorded", human::plural(agreed, "case", "cases"))];
    for (count, what) in [(differing, "otherwise"), (allowed, "with known differences"), (not_compared, "not compared")] {
        parts.extend((count > 0).then(|| format!("{} {what}", human::count(count))));
    }
    lines.push(format!("{headline}: {}.", parts.join(", ")));
    lines.join("\n") + "\n"
}

fn overview(report: &ConformanceReport, paint: Paint) -> Vec<String> {
    use Align::{Left, Right};
    let mut table = Table::new([Left, Left, Right, Right, Right, Right]);
    let head = ["", "theme", "agreed", "differing", "allowed", "not compared"];
    table.painted(head.map(str::to_owned), move |_, text| paint.dim(text));
    let all = ("all".to_owned(), report.total());
    for (theme, counts) in report.themes.iter().map(|theme| (theme.theme.clone(), theme.counts)).chain([all]) {
        let CaseCounts { agreed, differing, allowed, not_compared } = counts;
        let numbers = [agreed, differing, allowed, not_compared].map(human::count);
        let [agreed, differing_text, allowed, not_compared] = numbers;
        let mark = if differing > 0 { "FAIL" } else { "ok" }.to_owned();
        table.painted([mark, theme, agreed, differing_text, allowed, not_compared], move |column, text| match column {
            0 if differing > 0 => paint.bad(text),
            0 => paint.good(text),
            _ => text.to_owned(),
        });
    }
    table.lines()
}

fn differing(case: &DifferingCase, paint: Paint) -> Vec<String> {
    let mut lines = vec![format!("{}  {}  {}", paint.bad("FAIL"), paint.bold(&case.case), case.why)];
    let mut step = None;
    for place in case.places.iter().take(PLACES_MAX) {
        if step.replace(place.step) != Some(place.step) {
            lines.push(format!("  step {}  {}", place.step, place.does));
        }
        lines.push(format!("    {}", place.path));
        lines.push(format!("      recorded  {}", shown(&place.recorded)));
        lines.push(format!("      actual    {}", shown(&place.actual)));
    }
    if let Some(more) = case.places.len().checked_sub(PLACES_MAX).filter(|more| *more > 0) {
        lines.push(format!("    and {}", human::plural(more as u64, "more place", "more places")));
    }
    lines
}

fn shown(value: &serde_json::Value) -> String {
    let text = if value == "<absent>" { "<absent>".to_owned() } else { value.to_string() };
    match text.char_indices().nth(VALUE_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
