//! Changes since an earlier report of the same kind: `report … --against OLD`.
//!
//! ```text
//!  OLD: report.json ─► Baseline ─┐  settings that differ ─► refused, or told
//!  this report ──────────────────┴─► Compared, a figure each ─► Against ─► sentences, table
//! ```
//! This module holds what all comparisons have in common. The modules of the reports define the figures and match them.

mod baseline;
mod compared;
mod settings;

use serde::{Deserialize, Serialize};

pub use baseline::Baseline;
pub(crate) use baseline::of_estimate;
pub use compared::{Compared, Unit};
pub use settings::{Differs, Settings, differences, told as told_settings};

use crate::Made;
use crate::human;
use crate::statistics::change::LEVEL;

/// The changes since an earlier report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Against {
    /// The earlier report, as the user named it.
    pub from: String,
    /// The way in which the earlier report was made.
    pub made: Made,
    /// The significance level: a change is significant when its p-value is below it.
    pub level: f64,
    /// The settings in which the reports differ.
    pub differs: Vec<Differs>,
    /// The changes, a sentence each, the headline first.
    pub answers: Vec<String>,
    /// The figures that both reports have.
    pub changes: Vec<Compared>,
    /// Sentences on what only one of the reports has.
    pub apart: Vec<String>,
}

/// The reason why two reports cannot be compared: a sentence about what differs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Incomparable(pub String);

/// Two reports matched figure by figure, before the comparison is put into words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pairs {
    /// The settings in which they differ.
    pub differs: Vec<Differs>,
    /// The figures that both have; the first ones make the headline.
    pub changes: Vec<Compared>,
    /// The number of figures that make the headline.
    pub headline: usize,
    /// Sentences on what only one of them has.
    pub apart: Vec<String>,
}

impl Against {
    /// The comparison of a report with an earlier one; `old` and `made` record how the two were made.
    pub fn new(from: &str, old: &Made, made: &Made, pairs: Pairs) -> Self {
        let Pairs { mut differs, changes, headline, apart } = pairs;
        if old.build != made.build {
            differs.push(Differs::new("version", &old.build, &made.build));
        }
        let mut answers: Vec<String> = sentence(&changes[..headline.min(changes.len())]).into_iter().collect();
        answers.push(what_differs(&differs, old, made));
        answers.extend(counted(&changes));
        answers.extend(apart.iter().cloned());
        Self { from: from.to_owned(), made: old.clone(), level: LEVEL, differs, answers, changes, apart }
    }
}

/// The headline: the figures of one place, in one sentence.
fn sentence(changes: &[Compared]) -> Option<String> {
    let first = changes.first()?;
    let told: Vec<String> = changes.iter().map(Compared::told).collect();
    Some(format!("{}: {}.", first.place, told.join("; ")))
}

fn what_differs(differs: &[Differs], old: &Made, made: &Made) -> String {
    match differs {
        [] if old.config == made.config => "The settings are the same.".to_owned(),
        [] => "No setting is known to differ; the runs or their number do.".to_owned(),
        differs => format!("What differs: {}.", differs.iter().map(Differs::to_string).collect::<Vec<_>>().join("; ")),
    }
}

/// A sentence that counts the significant changes, and those to be expected by chance.
fn counted(changes: &[Compared]) -> Option<String> {
    let judged = changes.iter().filter(|change| change.p.is_some()).count();
    let significant = changes.iter().filter(|change| change.significant).count();
    let chance = judged as f64 * LEVEL;
    let by_chance =
        if chance < 0.95 { String::new() } else { format!("; if nothing had changed, about {chance:.0} would seem to by chance") };
    (changes.len() > 1).then(|| {
        format!(
            "{significant} of {} changed significantly, at the level of {:.0} % each{by_chance}.",
            human::plural(changes.len() as u64, "figure", "figures"),
            100.0 * LEVEL
        )
    })
}

/// A kind of report that can be read back and compared with a later one.
pub trait Kind: for<'de> Deserialize<'de> {
    /// The schema of its JSON.
    const SCHEMA: &'static str;

    /// The verb that makes it.
    const VERB: &'static str;

    /// The way in which the report was made.
    fn made(&self) -> &Made;

    /// The first contradiction in the report, in words.
    fn contradiction(&self) -> Option<String>;
}
