//! The description of a hunt: its features, how they were reached, and what it never reached.

use ipam_reports::human;
use ipam_reports::hunt::{EditCount, Hunt};

/// The maximum number of points of the curve that are printed.
const CURVE_MAX: usize = 10;
/// The maximum number of names that are printed of what was never reached.
const NEVER_MAX: usize = 12;
/// The maximum number of edits that are printed: those that reached the most.
const EDITS_MAX: usize = 5;

/// The lines about a hunt.
pub(super) fn hunt(hunt: &Hunt) -> Vec<String> {
    let mut lines = vec![runs(hunt)];
    let kinds = hunt.features.iter().filter(|count| count.reached > 0);
    let kinds: Vec<String> = kinds.map(|count| format!("{} {}", human::count(count.reached), count.kind)).collect();
    let reached = hunt.features.iter().map(|count| count.reached).sum();
    lines.push(format!("reached {}: {}", human::plural(reached, "feature", "features"), kinds.join(", ")));
    let skipped = hunt.curve.len().saturating_sub(CURVE_MAX);
    let points =
        hunt.curve.iter().skip(skipped).map(|point| format!("{} after {}", human::count(point.features), human::count(point.runs)));
    let points: Vec<String> = points.collect();
    if points.len() > 1 {
        lines.push(format!("curve   {} runs", points.join(", ")));
    }
    let folder = hunt.folder.as_ref().map(|folder| format!(" in {folder}")).unwrap_or_default();
    lines.push(format!("corpus  {}{folder}", human::plural(hunt.corpus, "plan", "plans")));
    lines.extend(edits(&hunt.edits));
    if !hunt.never.is_empty() {
        let names: Vec<&str> = hunt.never.iter().take(NEVER_MAX).map(String::as_str).collect();
        let more = hunt.never.len().saturating_sub(NEVER_MAX);
        let more = if more > 0 { format!(" and {} more", human::count(more as u64)) } else { String::new() };
        lines.push(format!("never   {}{more}", names.join(", ")));
    }
    for find in &hunt.finds {
        let how = match find.edits.as_slice() {
            [] => "as its seed drew it".to_owned(),
            edits => edits.join(", "),
        };
        lines.push(format!("found   {} first in run {}: {how}", find.claim, human::count(find.run)));
    }
    lines
}

/// The origins of the plans that ran.
fn runs(hunt: &Hunt) -> String {
    let Hunt { drawn, edited, taken_over, unchanged, .. } = *hunt;
    let mut parts = vec![format!("{} of seeds", human::count(drawn)), format!("{} made of kept plans", human::count(edited))];
    if taken_over > 0 {
        parts.push(format!("{} taken over", human::count(taken_over)));
    }
    let mut line = format!("hunt    plans: {}", parts.join(", "));
    if unchanged > 0 {
        line += &format!(" ({} of them the same run)", human::count(unchanged));
    }
    if hunt.runs_before > 0 {
        line += &format!("; {} before", human::plural(hunt.runs_before, "run", "runs"));
    }
    line
}

/// The edits that reached the most, with how often they were tried.
fn edits(all: &[EditCount]) -> Option<String> {
    let mut best: Vec<&EditCount> = all.iter().filter(|count| count.kept > 0).collect();
    best.sort_by_key(|count| (std::cmp::Reverse(count.kept), count.tried));
    let told: Vec<String> = best
        .into_iter()
        .take(EDITS_MAX)
        .map(|count| format!("{} ({} of {})", count.edit, human::count(count.kept), human::count(count.tried)))
        .collect();
    (!told.is_empty()).then(|| format!("edits   new: {}", told.join(", ")))
}
