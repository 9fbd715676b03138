//! Comparison of scenarios with variants in which something is changed.

use crate::against::Compared;

use super::against::figures_of;
use super::group::Group;

/// The text between the name of a scenario and the change to it.
const CHANGED: &str = ", ";

/// The name of a scenario with a change.
pub fn changed_name(scenario: &str, change: &str) -> String {
    format!("{scenario}{CHANGED}{change}")
}

/// The original scenario of a changed one, and the change; `None` = it is an original.
pub(super) fn original<'a>(groups: &[Group], scenario: &'a str) -> Option<(&'a str, &'a str)> {
    scenario.split_once(CHANGED).filter(|(name, _)| groups.iter().any(|group| group.scenario == *name))
}

/// The figures of each changed scenario, compared with those of its original.
pub(super) fn changes(groups: &[Group]) -> Vec<Compared> {
    let of = |group: &Group| {
        let (name, _) = original(groups, &group.scenario)?;
        let like = groups.iter().find(|other| other.scenario == name && other.path == group.path)?;
        Some(figures_of(&format!("{}, {}", group.scenario, group.path.name()), like, group))
    };
    groups.iter().filter_map(of).flatten().collect()
}

#[cfg(test)]
mod tests {
    use crate::Made;
    use crate::leaks::tests::found;
    use crate::leaks::{LeaksReport, changed_name};

    #[test]
    fn what_is_changed_stands_beside_the_scenario_as_it_is() {
        let mut all = found(30);
        let mut slower = found(30);
        for one in &mut slower {
            one.scenario = changed_name("leaks", "delay 60");
            one.reclaimed.delay = one.reclaimed.delay.map(|delay| crate::spread::Margin::from_micros(delay.as_micros() + 60_000_000));
        }
        all.extend(slower);
        let report = LeaksReport::new(Made::default(), &all, Some(60), false);
        let half = report.what_if.iter().find(|change| change.figure.contains("p50")).unwrap();
        assert_eq!(half.place, "leaks, delay 60, trace");
        assert!(half.significant && half.new.value - half.old.value > 59.0, "{half:?}");
        assert!(report.headline.contains("(leaks)") && !report.headline.contains("delay 60"), "{}", report.headline);
        assert!(LeaksReport::new(Made::default(), &found(30), Some(30), false).what_if.is_empty());
    }
}
