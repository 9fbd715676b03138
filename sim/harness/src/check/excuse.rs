//! The documented hazards by which a violation can be excused, and whether a scenario names one that exists.

use sim_config::{Problems, Source, advice};

use crate::registered::Registered;

/// The documented hazards of all systems.
pub(crate) static EXCUSES: Registered<Vec<&'static str>> = Registered::new();

/// Names under `excuses` that no claim has.
pub fn problems_of_excuses(source: Source<'_>, excuses: &[String]) -> Problems {
    let mut problems = Problems::new();
    for excuse in excuses.iter().filter(|excuse| !EXCUSES.get().contains(&excuse.as_str())) {
        problems.push(source.problem_of_text(excuse, format!("there is no excuse `{excuse}`"), advice(excuse, EXCUSES.get(), "excuse")));
    }
    problems
}
