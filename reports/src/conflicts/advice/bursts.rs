//! `bursts.csv` of advice: one row for each burst of each alternative, with all that figures are made of, so that a report can resume where
//! it stopped.

use crate::Seconds;
use crate::cells::{self, TableError, line};
use crate::column::{Explained, Unit};
use crate::pool::{PoolCounts, PoolRun, ServerQueue};
use crate::schema::AdviceBurstsSchema;

/// A column of a count, and the field that holds it.
type Count = (&'static str, fn(&mut PoolCounts) -> &mut u64);

/// The meanings of the columns of counts, in the order of [`COUNTS`].
const MEANINGS: [&str; COUNTS.len()] = [
    "Calls for an address.",
    "Calls that were told an address.",
    "Calls that were refused.",
    "Attempts to write the pool.",
    "Attempts that met a conflict.",
    "Attempts to make the pool that another writer was faster with.",
    "Calls that gave up after all attempts.",
    "Acknowledged allocations without a record at the end.",
    "Addresses with two live holders.",
    "Calls that were told an address which another one was told, too.",
    "Calls that ask again for the same pod.",
    "Conflicts of these calls.",
    "Of these calls, those that gave up after all attempts.",
];

const COUNTS: [Count; 13] = [
    ("calls", |all| &mut all.calls),
    ("allocated", |all| &mut all.allocated),
    ("refused", |all| &mut all.refused),
    ("attempts", |all| &mut all.attempts),
    ("conflicts", |all| &mut all.conflicts),
    ("create_races", |all| &mut all.create_races),
    ("exhausted", |all| &mut all.exhausted),
    ("lost_at_end", |all| &mut all.lost_at_end),
    ("shared_addresses", |all| &mut all.shared_addresses),
    ("sharing", |all| &mut all.sharing),
    ("repeated", |all| &mut all.repeated),
    ("repeated_conflicts", |all| &mut all.repeated_conflicts),
    ("repeated_exhausted", |all| &mut all.repeated_exhausted),
];

/// The columns of the table, with their meanings.
pub(crate) fn columns() -> Vec<Explained> {
    let begin = [
        Explained::new("schema", Unit::Text, "The name of the format: `ipam-sim/advice-bursts/1`."),
        Explained::new("policy", Unit::Text, "What was tried."),
        Explained::new("seed", Unit::Count, "The seed of the burst."),
    ];
    let counts = COUNTS.iter().zip(MEANINGS).map(|((name, _), meaning)| Explained::new(name, Unit::Count, meaning));
    let end = [
        Explained::new("makespan_us", Unit::Count, "Microseconds from the first call to the last answer."),
        Explained::new("requests", Unit::Count, "Requests that met servers of a width; empty = they have none."),
        Explained::new("waited_us", Unit::Count, "Microseconds that these requests waited there, in all."),
        Explained::new("took_us", Unit::Text, "Microseconds that each call took that was told an address, with blanks between."),
    ];
    begin.into_iter().chain(counts).chain(end).collect()
}

/// The head of the table.
pub fn head() -> String {
    line(columns().iter().flat_map(|column| column.heads.clone()))
}

/// The row of a burst.
pub fn row(policy: &str, seed: u64, run: &PoolRun) -> String {
    let mut counts = run.counts;
    let mut cells = vec![AdviceBurstsSchema::NAME.to_owned(), policy.to_owned(), seed.to_string()];
    cells.extend(COUNTS.map(|(_, count)| count(&mut counts).to_string()));
    cells.push(run.makespan.as_micros().to_string());
    let queue = |of: fn(ServerQueue) -> u64| run.queue.map_or_else(String::new, |queue| of(queue).to_string());
    cells.extend([queue(|queue| queue.requests), queue(|queue| queue.waited.as_micros())]);
    cells.push(run.took.iter().map(|took| took.as_micros().to_string()).collect::<Vec<_>>().join(" "));
    line(cells)
}

/// Reads a table back: the policy, the seed, and the burst.
///
/// # Errors
/// It is something else, it is empty, or a value is invalid.
pub fn read(text: &str) -> Result<Vec<(String, u64, PoolRun)>, TableError> {
    cells::read(text, "bursts", AdviceBurstsSchema::NAME, |row| {
        let mut counts = PoolCounts::default();
        for (name, count) in COUNTS {
            *count(&mut counts) = row.count(name)?;
        }
        let queue = match row.text("requests")? {
            "" => None,
            _ => Some(ServerQueue { requests: row.count("requests")?, waited: Seconds::from_micros(row.count("waited_us")?) }),
        };
        let took = row.text("took_us")?;
        let wrong = || row.wrong("took_us", took, "list of whole numbers");
        let took: Result<Vec<Seconds>, TableError> =
            took.split_whitespace().map(|one| one.parse().map(Seconds::from_micros).map_err(|_| wrong())).collect();
        let run = PoolRun { counts, took: took?, makespan: Seconds::from_micros(row.count("makespan_us")?), queue, ..PoolRun::default() };
        Ok((row.text("policy")?.to_owned(), row.count("seed")?, run))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conflicts::tests::bursts;

    #[test]
    fn bursts_read_back_whole() {
        let mut all = bursts(3, 5);
        all[1].queue = Some(ServerQueue { requests: 3, waited: Seconds::from_micros(17) });
        all[2].took.clear();
        all[2].counts.repeated_exhausted = 9;
        let text = head() + &(10..).zip(&all).map(|(seed, run)| row("a, b", seed, run)).collect::<String>();
        let expected: Vec<(String, u64, PoolRun)> = (10..).zip(all).map(|(seed, run)| ("a, b".to_owned(), seed, run)).collect();
        assert_eq!(read(&text).unwrap(), expected);
        let wrong = read(&text.replace("14000 74000", "14000 x")).unwrap_err().to_string();
        assert!(wrong.contains("column `took_us`: `14000 x"), "{wrong}");
    }
}
