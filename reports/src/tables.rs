//! The CSV tables that reports write, and the meanings of their columns, from which the documents are generated.

use crate::column::{Explained, Unit, explained};
use crate::conflicts::advice::burst_columns;
use crate::rows::{self, Meaning};
use crate::{calibrate, conflicts, demand, leaks, metrics};

/// A table that reports write.
pub struct TableOf {
    /// The name of its file.
    pub file: &'static str,
    /// The verbs that write it, and the unit of a row.
    pub about: &'static str,
    /// The columns, in their order.
    pub columns: Vec<Explained>,
}

fn rows_of(meanings: &[Meaning]) -> Vec<Explained> {
    meanings.iter().map(|(name, unit, meaning)| Explained::new(name, *unit, meaning)).collect()
}

/// Every table, by the reports that write it.
pub fn all() -> Vec<TableOf> {
    let table = |file, about, columns| TableOf { file, about, columns };
    let tried = vec![
        Explained::new("policy", Unit::Text, "What was tried."),
        Explained::new("bursts", Unit::Count, "How many bursts it has in `bursts.csv`, all of which are finished."),
    ];
    vec![
        table(
            "points.csv",
            "`report conflicts`, and `report capacity` without a scenario: a row a point.",
            explained(&conflicts::table::columns()),
        ),
        table("advice.csv", "`report conflicts --advise`: a row a policy and figure.", explained(&conflicts::advice::columns())),
        table("bursts.csv", "`report conflicts --advise`: a row a burst of a policy.", burst_columns()),
        table("tried.csv", "`report conflicts --advise`: a row a policy that is finished.", tried),
        table("sizes.csv", "`report capacity` with a scenario: a row a size that was tried.", explained(&demand::table::sizes())),
        table("usage.csv", "`report capacity` with a scenario: a row a size and time.", explained(&demand::table::usage())),
        table("resamples.csv", "`report capacity --resample`: a row a resampled trace.", explained(&demand::resampled::columns())),
        table("paths.csv", "`report reclaim`: a row a scenario and way.", explained(&leaks::table::columns())),
        table("metrics.csv", "`report metrics`: a row a metric and point.", explained(&metrics::table::columns())),
        table("values.csv", "`report metrics`: a row a metric and run.", explained(&metrics::table::value_columns())),
        table("levels.csv", "`report calibrate`: a row a kind of request and load.", explained(&calibrate::table::columns())),
        table("runs.csv", "`run --out`, and every report but `report calibrate`: a row a run.", rows_of(&rows::RUNS)),
        table("calls.csv", "`run --out`: a row a call for an address of a BYOM pool.", rows_of(&rows::CALLS)),
        table(
            "reclaims.csv",
            "`run --out`, `report reclaim`, and `report capacity` with a scenario: a row a reclaimed address.",
            rows_of(&rows::RECLAIMS),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_column_is_there_once_and_explained_in_a_sentence() {
        for TableOf { file, about, columns } in all() {
            assert!(about.ends_with('.'), "{file}");
            let mut heads = BTreeSet::new();
            for column in columns {
                let meaning = column.meaning;
                assert!(
                    meaning.ends_with('.') && meaning.starts_with(|first: char| first.is_uppercase() || first == '`'),
                    "{file}: {meaning}"
                );
                assert!(column.heads.iter().all(|head| heads.insert(head.clone())), "{file}: {:?} is there twice", column.heads);
                // The names show the unit of a time.
                let is_time =
                    column.heads.iter().all(|head| head.ends_with("_s") || head.contains("_s_")) && !column.heads[0].ends_with("_per_s");
                assert_eq!(column.unit == Unit::Seconds, is_time, "{file}: {:?}", column.heads);
            }
        }
    }
}
