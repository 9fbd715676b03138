//! The documented hazards by which a violation can be excused, and whether a scenario names one that exists.

use crate::input::{Problems, Source, advice};
use crate::system::systems;

/// Names under `excuses` that no claim has.
pub(crate) fn problems_of_excuses(source: Source<'_>, excuses: &[String]) -> Problems {
    let mut problems = Problems::new();
    for excuse in excuses.iter().filter(|excuse| !systems().excuses().contains(&excuse.as_str())) {
        problems.push(source.problem_of_text(
            excuse,
            format!("there is no excuse `{excuse}`"),
            advice(excuse, systems().excuses(), "excuse"),
        ));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excuse_that_no_claim_has_is_refused_with_the_nearest() {
        let source = Source::new("s.toml", "excuses = [\"forced-successor\", \"unreachable-node\"]\n");
        let problems = |excuses: &[&str]| problems_of_excuses(source, &excuses.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        assert!(problems(systems().excuses()).is_empty());
        insta::assert_snapshot!(problems(&["forced-successor", "unreachable-node"]), @"s.toml:1:32: there is no excuse `unreachable-node`; did you mean `unreachable-node-release`?");
    }
}
