//! Coverage points: the rows, rules, reasons and errors of a system under test that runs reached, with numbers of runs.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::tally;

/// The group of claims among coverage points: a run reaches a claim that had something to judge in it, or that held once.
pub const CLAIMS: &str = "claim";
/// The group of excuses among coverage points: a run reaches an excuse that it had.
pub const EXCUSES: &str = "excuse";

/// A point, and the number of runs that reached it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct PointCount {
    /// The table, list of rules or errors of a call to which the point belongs.
    pub group: String,
    /// The name of the point in its group.
    pub name: String,
    /// Number of seeds whose runs reached it.
    pub seeds: u64,
}

impl PointCount {
    fn cmp_to(&self, (group, name): (&str, &str)) -> Ordering {
        (&*self.group, &*self.name).cmp(&(group, name))
    }

    /// The group and name in one, as reports show the point: `spiderpool/reclaim/S-8`.
    pub fn point(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }
}

/// Counts the points of one run, `reached`, which are sorted as `into` is.
pub(crate) fn add(into: &mut Vec<PointCount>, reached: &[(&str, &str)]) {
    let mut at = 0;
    for &(group, name) in reached {
        while into.get(at).is_some_and(|known| known.cmp_to((group, name)) == Ordering::Less) {
            at += 1;
        }
        match into.get_mut(at).filter(|known| known.cmp_to((group, name)) == Ordering::Equal) {
            Some(known) => known.seeds += 1,
            None => into.insert(at, PointCount { group: group.to_owned(), name: name.to_owned(), seeds: 1 }),
        }
    }
}

/// Adds the counts of other runs.
pub(crate) fn join(into: &mut Vec<PointCount>, other: &[PointCount]) {
    for count in other {
        match into.binary_search_by(|known| known.cmp_to((&count.group, &count.name))) {
            Ok(at) => tally(&mut into[at].seeds, count.seeds),
            Err(at) => into.insert(at, count.clone()),
        }
    }
}

/// The points that runs which must hold have to reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// The file that says which points are rare.
    pub file: String,
    /// The points that at least one run has to reach, sorted.
    pub points: Vec<String>,
    /// The points that no run has to reach, sorted.
    pub rare: Vec<String>,
}

/// The row of one point in a ledger, since it was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    point: String,
    /// The number of runs that reached it.
    reached: u64,
    /// The number of all runs since the file was begun.
    seeds: u64,
    /// The build that reached it last; empty = none has.
    last: String,
}

/// The number of runs that reached each point, over time: a CSV file that gates add to, one row for each point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    rows: BTreeMap<String, Row>,
}

impl Ledger {
    /// Reads the form that [`Ledger::to_csv`] gives.
    ///
    /// # Errors
    /// It is no such table: a sentence, with the line number where one is wrong.
    pub fn from_csv(text: &str) -> Result<Self, String> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let mut rows = BTreeMap::new();
        for row in reader.deserialize() {
            let row: Row = row.map_err(|error| format!("not a coverage ledger (point,reached,seeds,last): {error}"))?;
            if row.reached > row.seeds {
                return Err(format!("{} was reached in {} of {} seeds", row.point, row.reached, row.seeds));
            }
            if let Some(twice) = rows.insert(row.point.clone(), row) {
                return Err(format!("{} is there twice", twice.point));
            }
        }
        Ok(Self { rows })
    }

    /// Adds `seeds` runs of `build` with the points that they reached; every one of `points` gets a row.
    pub fn add<'a>(&mut self, points: impl Iterator<Item = &'a str>, reached: &[PointCount], seeds: u64, build: &str) {
        let empty = |point: &str| Row { point: point.to_owned(), reached: 0, seeds: 0, last: String::new() };
        for point in points {
            self.rows.entry(point.to_owned()).or_insert_with(|| empty(point));
        }
        for count in reached {
            let row = self.rows.entry(count.point()).or_insert_with(|| empty(&count.point()));
            tally(&mut row.reached, count.seeds);
            build.clone_into(&mut row.last);
        }
        self.rows.values_mut().for_each(|row| tally(&mut row.seeds, seeds));
    }

    /// Writes one line for each point, by name.
    pub fn to_csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in self.rows.values() {
            writer.serialize(row).expect("a vector takes every row");
        }
        String::from_utf8(writer.into_inner().expect("a vector takes everything")).expect("names are text")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    use super::*;

    const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

    fn runs() -> impl Strategy<Value = Vec<Vec<(&'static str, &'static str)>>> {
        let point = (0..3usize, 0..6usize).prop_map(|(group, name)| (NAMES[group], NAMES[name]));
        prop::collection::vec(prop::collection::btree_set(point, 0..12).prop_map(|run| run.into_iter().collect()), 0..20)
    }

    proptest! {
        /// The counts equal those of a map, in whatever order runs are dealt to workers.
        #[test]
        fn counts_are_those_of_a_map(runs in runs(), cut in 0..20usize) {
            let mut known: BTreeMap<(String, String), u64> = BTreeMap::new();
            for (group, name) in runs.iter().flatten() {
                *known.entry(((*group).to_owned(), (*name).to_owned())).or_default() += 1;
            }
            let (first, second) = runs.split_at(cut.min(runs.len()));
            let [mut one, other] = [first, second].map(|runs| {
                let mut counts = Vec::new();
                runs.iter().for_each(|run| add(&mut counts, run));
                counts
            });
            join(&mut one, &other);
            let told: Vec<_> = one.into_iter().map(|count| ((count.group, count.name), count.seeds)).collect();
            prop_assert_eq!(told, known.into_iter().collect::<Vec<_>>());
        }
    }

    fn count(name: &str, seeds: u64) -> PointCount {
        PointCount { group: "g".to_owned(), name: name.to_owned(), seeds }
    }

    #[test]
    fn a_ledger_adds_up_over_time_and_survives_its_file() {
        let mut ledger = Ledger::default();
        ledger.add(["g/a", "g/b"].into_iter(), &[count("a", 3)], 10, "one");
        let mut again = Ledger::from_csv(&ledger.to_csv()).unwrap();
        assert_eq!(again, ledger);
        again.add(["g/a", "g/b"].into_iter(), &[count("a", 1), count("c", 2)], 5, "two");
        assert_eq!(again.to_csv(), "point,reached,seeds,last\ng/a,4,15,two\ng/b,0,15,\ng/c,2,5,two\n");
    }

    #[test]
    fn what_is_no_ledger_is_refused() {
        let refused = |text: &str| Ledger::from_csv(text).unwrap_err();
        assert!(
            refused("name,count\na,1\n")
                .starts_with("not a coverage ledger (point,reached,seeds,last): CSV deserialize error: record 1 (line: 2")
        );
        assert_eq!(refused("point,reached,seeds,last\na,5,4,\n"), "a was reached in 5 of 4 seeds");
        assert_eq!(refused("point,reached,seeds,last\na,1,4,\na,1,4,\n"), "a is there twice");
    }
}
