//! `sizes.csv`: one row a size that was tried; `usage.csv`: addresses over time with the given pool.
//!
//! | columns of `sizes.csv` | hold |
//! |---|---|
//! | `schema`, `build`, `config` | the format, and what made the row |
//! | `scenario` | the name of the size in `runs.csv`: form and addresses |
//! | `form` … `peak_leaked` | the [`Trial`]; each figure is that of the worst run; empty = there is none |
//! | `wanted`, `compression`, `step` | what was asked, and the rest of [`Asked`] |
//! | `missed`, `peak_mean`, its ends | how many of the runs missed an objective; the mean of their peaks. Tables from before have no such columns |
//!
//! | columns of `usage.csv` | hold |
//! |---|---|
//! | `schema`, `scenario`, `at_s` | the format, the size, and when |
//! | `living`, `ending`, `leaked`, `total` | recorded addresses, means over runs with the ends of their intervals of 95 % |

use std::collections::BTreeMap;

use crate::cells::{self, Column, TableError, maybe};
use crate::schema::{SizesSchema, UsageSchema};

use super::need::Need;
use super::trial::{Instant, Trial, Usage};

/// What a search for a size was asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// The build of the program that simulated the sizes.
    pub build: String,
    /// Identifies everything but the seeds that went into it.
    pub config: String,
    /// What the pool is to meet.
    pub needs: Vec<Need>,
    /// By how much the time of a trace is compressed; 1 = it is not.
    pub compression: u32,
    /// By how much two neighbouring sizes differ: how many addresses there are in total for each address of a pool.
    pub step: u64,
}

/// What `sizes.csv` says of a search, read back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sizes {
    /// What the search was asked, as each row repeats it.
    pub asked: Asked,
    /// The sizes that were tried.
    pub trials: Vec<Trial>,
    /// By how much two neighbouring sizes of a form differ, where that is otherwise than in the first form.
    pub steps: BTreeMap<String, u64>,
}

/// A row of `sizes.csv`: what was asked, what the size is called in `runs.csv`, and what it gave.
type Size<'a> = (&'a Asked, &'a str, &'a Trial);

fn sizes<'a>() -> [Column<Size<'a>>; 23] {
    use Column::{Cell, Estimate};
    [
        Cell("schema", |_| SizesSchema::NAME.to_owned()),
        Cell("build", |(asked, ..)| asked.build.clone()),
        Cell("config", |(asked, ..)| asked.config.clone()),
        Cell("scenario", |(_, scenario, _)| (*scenario).to_owned()),
        Cell("form", |(.., trial)| trial.form.clone()),
        Cell("addresses", |(.., trial)| trial.addresses.to_string()),
        Cell("seeds", |(.., trial)| trial.seeds.to_string()),
        Cell("met", |(.., trial)| trial.met.to_string()),
        Cell("missed_seed", |(.., trial)| maybe(trial.missed_seed)),
        Cell("asked", |(.., trial)| trial.asked.to_string()),
        Cell("refused", |(.., trial)| trial.refused.to_string()),
        Cell("unserved", |(.., trial)| trial.unserved.to_string()),
        Cell("wait_p50_s", |(.., trial)| maybe(trial.wait_p50_s)),
        Cell("wait_p99_s", |(.., trial)| maybe(trial.wait_p99_s)),
        Cell("peak", |(.., trial)| trial.peak.to_string()),
        Cell("peak_living", |(.., trial)| trial.peak_living.to_string()),
        Cell("peak_ending", |(.., trial)| trial.peak_ending.to_string()),
        Cell("peak_leaked", |(.., trial)| trial.peak_leaked.to_string()),
        Cell("wanted", |(asked, ..)| asked.needs.iter().map(Need::asked).collect::<Vec<_>>().join(" ")),
        Cell("compression", |(asked, ..)| asked.compression.to_string()),
        Cell("step", |(asked, ..)| asked.step.to_string()),
        Cell("missed", |(.., trial)| maybe(trial.missed)),
        Estimate("peak_mean", |(.., trial)| trial.peak_mean),
    ]
}

/// The head of `sizes.csv`.
pub fn sizes_head() -> String {
    cells::head(&sizes())
}

/// The row of a size, which is called `scenario` in `runs.csv`.
pub fn size_row(asked: &Asked, scenario: &str, trial: &Trial) -> String {
    cells::row(&sizes(), &(asked, scenario, trial))
}

/// Reads `sizes.csv` back.
///
/// # Errors
/// It is something else, it is empty, or a value cannot be.
pub fn sizes_of(text: &str) -> Result<Sizes, TableError> {
    let mut asked = Asked::default();
    let mut steps: BTreeMap<String, u64> = BTreeMap::new();
    let trials = cells::read(text, "sizes", SizesSchema::NAME, |row| {
        row.text("build")?.clone_into(&mut asked.build);
        row.text("config")?.clone_into(&mut asked.config);
        let wanted = row.text("wanted")?;
        let needs: Result<Vec<Need>, String> = wanted.split_whitespace().map(str::parse).collect();
        asked.needs = needs.ok().filter(|needs| !needs.is_empty()).ok_or_else(|| row.wrong("wanted", wanted, "list of objectives"))?;
        asked.compression = row.value("compression", "whole number")?;
        let step = row.count("step")?;
        if asked.step == 0 {
            asked.step = step;
        } else if asked.step != step {
            steps.insert(row.text("form")?.to_owned(), step);
        }
        let share = |column| Ok::<_, TableError>(row.number(column)?.unwrap_or_default());
        Ok(Trial {
            form: row.text("form")?.to_owned(),
            addresses: row.count("addresses")?,
            seeds: row.count("seeds")?,
            met: row.value("met", "true or false")?,
            missed_seed: if row.text("missed_seed")?.is_empty() { None } else { Some(row.count("missed_seed")?) },
            asked: row.count("asked")?,
            refused: share("refused")?,
            unserved: share("unserved")?,
            wait_p50_s: row.number("wait_p50_s")?,
            wait_p99_s: row.number("wait_p99_s")?,
            peak: row.count("peak")?,
            peak_living: row.count("peak_living")?,
            peak_ending: row.count("peak_ending")?,
            peak_leaked: row.count("peak_leaked")?,
            missed: match row.get("missed").unwrap_or_default() {
                "" => None,
                _ => Some(row.count("missed")?),
            },
            peak_mean: match row.get("peak_mean") {
                Some(_) => row.estimate("peak_mean")?,
                None => None,
            },
        })
    })?;
    Ok(Sizes { asked, trials, steps })
}

fn usage<'a>() -> [Column<(&'a str, &'a Instant)>; 7] {
    use Column::{Cell, Estimate};
    [
        Cell("schema", |_| UsageSchema::NAME.to_owned()),
        Cell("scenario", |(scenario, _)| (*scenario).to_owned()),
        Cell("at_s", |(_, at)| at.at_s.to_string()),
        Estimate("living", |(_, at)| Some(at.living)),
        Estimate("ending", |(_, at)| Some(at.ending)),
        Estimate("leaked", |(_, at)| Some(at.leaked)),
        Estimate("total", |(_, at)| Some(at.total)),
    ]
}

/// The head of `usage.csv`.
pub fn usage_head() -> String {
    cells::head(&usage())
}

/// The rows of a size over time.
pub fn usage_rows(scenario: &str, held: &Usage) -> String {
    held.0.iter().map(|at| cells::row(&usage(), &(scenario, at))).collect()
}

/// Reads the rows of a size from `usage.csv`.
///
/// # Errors
/// It is something else, it is empty, or a value cannot be.
pub fn usage_of(text: &str, scenario: &str) -> Result<Usage, TableError> {
    let rows = cells::read(text, "addresses over time", UsageSchema::NAME, |row| {
        let held = |name: &str| row.estimate(name)?.ok_or_else(|| row.wrong(name, "", "number"));
        let [living, ending, leaked, total] = ["living", "ending", "leaked", "total"].map(held);
        let at =
            Instant { at_s: row.number("at_s")?.unwrap_or_default(), living: living?, ending: ending?, leaked: leaked?, total: total? };
        Ok((row.text("scenario")? == scenario).then_some(at))
    })?;
    Ok(Usage(rows.into_iter().flatten().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::tests::report;

    #[test]
    fn both_tables_read_back_to_the_last_digit() {
        let report = report();
        let needs = ["refused<1%", "wait_p99<90s"].map(|text| text.parse().unwrap()).into();
        let asked = Asked { build: "b".to_owned(), config: "c".to_owned(), needs, compression: 10, step: 2 };
        let text = sizes_head() + &report.trials.iter().map(|trial| size_row(&asked, "s", trial)).collect::<String>();
        assert_eq!(sizes_of(&text).unwrap(), Sizes { asked, trials: report.trials.clone(), ..Sizes::default() });
        let wrong = sizes_of(&text.replace("refused<0.01", "speed<1")).unwrap_err().to_string();
        assert!(wrong.contains("column `wanted`: `speed<1 wait_p99<90s` is no list of objectives"), "{wrong}");
        let usage = &report.forms[0].usage;
        let text = usage_head() + &usage_rows("one", usage) + &usage_rows("two", &Usage(usage.0[..3].to_vec()));
        assert_eq!(usage_of(&text, "one").unwrap(), *usage);
        assert_eq!(usage_of(&text, "two").unwrap().0.len(), 3);
    }

    #[test]
    fn the_heads_are_promises() {
        insta::assert_snapshot!((sizes_head() + &usage_head()).trim_end().replace(',', "\n"));
    }
}
