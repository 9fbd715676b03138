//! What changed since an earlier report of the same kind: `report … --against OLD`.
//!
//! ```text
//!  OLD: report.json ─► Baseline ─┐  settings that differ ─► refused, or told
//!  this report ──────────────────┴─► Compared, a figure each ─► Against ─► sentences, table
//! ```
//! Here is what comparisons have in common. What is a figure and which of them belong together is said where the reports are.

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

/// What changed since an earlier report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Against {
    /// The earlier report, as the user named it.
    pub from: String,
    /// How that was made.
    pub made: Made,
    /// A change is significant when its p-value is below this.
    pub level: f64,
    /// The settings in which the reports differ.
    pub differs: Vec<Differs>,
    /// What changed, a sentence each, the headline first.
    pub answers: Vec<String>,
    /// Each figure that both reports have.
    pub changes: Vec<Compared>,
    /// What only one of the reports has, a sentence each.
    pub apart: Vec<String>,
}

/// Why two reports cannot be compared: a sentence about what differs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Incomparable(pub String);

/// What of two reports is compared, before it is told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pairs {
    /// The settings in which they differ.
    pub differs: Vec<Differs>,
    /// Each figure that both have; the first ones make the headline.
    pub changes: Vec<Compared>,
    /// How many of these make the headline.
    pub headline: usize,
    /// What only one of them has, a sentence each.
    pub apart: Vec<String>,
}

impl Against {
    /// The comparison with the report `old`, which was made so; `made` says how this one was.
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

/// The headline: figures of one place, in one sentence.
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

/// How many of the figures changed, beside how many would seem to.
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

/// What a report is read back as, to be compared with a later one of its kind.
pub trait Kind: for<'de> Deserialize<'de> {
    /// The schema of its JSON.
    const SCHEMA: &'static str;

    /// The verb that makes it.
    const VERB: &'static str;

    /// How it was made.
    fn made(&self) -> &Made;

    /// The first thing in it that cannot be, in words.
    fn contradiction(&self) -> Option<String>;
}
