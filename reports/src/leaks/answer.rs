//! The reclaimed addresses, in sentences.

use crate::conflicts::answer::share;
use crate::human;
use crate::reclaim::ReclaimPath;
use crate::spread::Margin;
use crate::statistics::Estimate;

use super::group::Group;
use super::what_if;

/// One sentence on the time and one on the margin of each group.
pub(super) fn sentences(groups: &[Group]) -> Vec<String> {
    if groups.is_empty() {
        return vec!["No address was reclaimed.".to_owned()];
    }
    // The figures of changed scenarios are compared with those of the unchanged one elsewhere.
    let as_they_are = groups.iter().filter(|group| what_if::original(groups, &group.scenario).is_none());
    as_they_are.flat_map(|group| [of_delay(group), of_margin(group)]).flatten().collect()
}

/// The delay that 99 % of leaked addresses do not exceed, in the scenario where it is longest, among unchanged ones.
pub(super) fn headline(groups: &[Group], delays: &[(&str, Estimate)], assumed: &str) -> String {
    let as_they_are = delays.iter().filter(|(name, _)| what_if::original(groups, name).is_none());
    let Some((worst, found)) = as_they_are.max_by(|one, other| one.1.value.total_cmp(&other.1.value)) else {
        return "No address was reclaimed.".to_owned();
    };
    let sure = match (found.low, found.high) {
        (Some(low), Some(high)) => format!("{} to {} with 95 % confidence", time(low), time(high)),
        (Some(low), None) => format!("{} or more with 95 % confidence", time(low)),
        _ => "which too few addresses say to be sure".to_owned(),
    };
    let assumed = if assumed.is_empty() { String::new() } else { format!(", {assumed}") };
    let back = time(found.value);
    format!("99 % of leaked addresses are back within {back} after the end of their pod's right, {sure} ({worst}{assumed}).")
}

/// Formats a time with its sign: `12.3 s`.
pub(super) fn time(seconds: f64) -> String {
    Margin::from_micros((seconds * 1e6).round() as i64).to_string()
}

fn with_ends(found: Estimate) -> String {
    match (found.low, found.high) {
        (Some(low), Some(high)) => format!("{} ({} to {})", time(found.value), time(low), time(high)),
        _ => time(found.value),
    }
}

/// The way in words, as part of a sentence.
fn way(path: ReclaimPath) -> &'static str {
    match path {
        ReclaimPath::Trace => "by tracing pods",
        ReclaimPath::Scan => "by scans of records",
        ReclaimPath::Sweep => "with endpoints that scans find",
    }
}

/// A sentence on the time for which the addresses of a group stayed recorded.
pub(crate) fn of_delay(group: &Group) -> Option<String> {
    let (half, most, longest) = (group.delay_p50_s?, group.delay_p99_s?, group.delay_max_s?);
    let bound = match (group.late, group.late_share, group.bound_max_s) {
        (_, None, _) | (.., None) => String::new(),
        (0, Some(late), Some(bound)) => {
            let most = late.high.map_or_else(String::new, |high| format!(", at most {:.1} % with 95 % confidence", 100.0 * high));
            format!("; none is later than its bound, which is up to {} (G §10.2{most})", time(bound))
        }
        (late, Some(share_of), Some(bound)) => {
            format!("; {} later than the bound for a healthy cluster, up to {}: {}", human::count(late), time(bound), share(share_of))
        }
    };
    Some(format!(
        "{}, {}: {} of {}; half of them are back within {} after the end of their pod's right, 99 % within {}, all within {}{bound}.",
        group.scenario,
        way(group.path),
        human::plural(group.addresses, "address", "addresses"),
        human::plural(group.runs, "run", "runs"),
        with_ends(half),
        time(most.value),
        time(longest),
    ))
}

fn of_margin(group: &Group) -> Option<String> {
    let least = group.margin_min_s?;
    let name = format!("{}, {}", group.scenario, way(group.path));
    if group.answered == 0 {
        let most = group.answered_share.and_then(|share| share.high);
        let most = most.map_or_else(String::new, |high| format!(" (at most {:.1} % with 95 % confidence)", 100.0 * high));
        return Some(format!("{name}: no address went while a sandbox answered on it{most}; the nearest was silent for {}.", time(least)));
    }
    let share = share(group.answered_share?);
    Some(format!(
        "{name}: {} of {} went while a sandbox answered on them, {share}, the worst {} before it fell silent.",
        human::count(group.answered),
        human::plural(group.addresses, "address", "addresses"),
        time(-least),
    ))
}
