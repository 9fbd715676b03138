//! The documented hazards by which a violation can be excused, and whether a scenario names one that exists.

use sim_config::{Problems, Source, advice};

use crate::registered::Registered;

/// A documented hazard that excuses a violation: in which interval, and under which condition. Outside of it a violation is one.
#[derive(Clone, Copy, Debug)]
pub struct Excuse {
    /// Its name, as `excuses` of a scenario writes it.
    pub name: &'static str,
    /// The hazard, as a fragment of a sentence.
    pub about: &'static str,
    /// What begins it, as a fragment of a sentence.
    pub begins: &'static str,
    /// What ends it, as a fragment of a sentence.
    pub ends: &'static str,
    /// Where the reference names the hazard; `None` = it is nobody's but the harness's.
    pub reference: Option<&'static str>,
}

/// Excuses what is violated before the older version, and what it left behind, are gone.
pub const OLDER_VERSION: Excuse = Excuse {
    name: "older-version",
    about: "an older version of the system under test runs beside the present one",
    begins: "the run begins with an `[upgrade]`, or the first process is rolled back",
    ends: "`upgrade.settles` has passed since the last process was replaced",
    reference: None,
};

/// The excuses that a run of any system may have.
pub const COMMON_EXCUSES: &[Excuse] = &[OLDER_VERSION];

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
