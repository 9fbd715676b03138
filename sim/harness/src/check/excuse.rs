//! The documented hazards that can excuse a violation, and the check that a scenario names existing ones.

use sim_config::{Problems, Source, advice};

use crate::registered::Registered;

/// A documented hazard that excuses a violation in one interval and under one condition. Outside of these a violation counts.
#[derive(Clone, Copy, Debug)]
pub struct Excuse {
    /// Its name, as `excuses` of a scenario writes it.
    pub name: &'static str,
    /// The hazard, as a fragment of a sentence.
    pub about: &'static str,
    /// The start of the interval, as a fragment of a sentence.
    pub begins: &'static str,
    /// The end of the interval, as a fragment of a sentence.
    pub ends: &'static str,
    /// The citation of the hazard in the reference; `None` = only the harness has it.
    pub reference: Option<&'static str>,
}

/// Excuses violations until the older version, and what it left behind, are gone.
pub const OLDER_VERSION: Excuse = Excuse {
    name: "older-version",
    about: "an older version of the system under test runs beside the present one",
    begins: "the run begins with an `[upgrade]`, or the first process is rolled back",
    ends: "`upgrade.settles` has passed since the last process was replaced; for what it left in a record, when that is written anew",
    reference: None,
};

/// The excuses that any system's runs may have.
pub const COMMON_EXCUSES: &[Excuse] = &[OLDER_VERSION];

/// The documented hazards of all systems.
pub(crate) static EXCUSES: Registered<Vec<&'static str>> = Registered::new();

/// Names under `excuses` that no documented hazard has.
pub fn problems_of_excuses(source: Source<'_>, excuses: &[String]) -> Problems {
    let mut problems = Problems::new();
    for excuse in excuses.iter().filter(|excuse| !EXCUSES.get().contains(&excuse.as_str())) {
        problems.push(source.problem_of_text(excuse, format!("there is no excuse `{excuse}`"), advice(excuse, EXCUSES.get(), "excuse")));
    }
    problems
}
