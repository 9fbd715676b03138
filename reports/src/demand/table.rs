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

use crate::cells::{self, Cells, TableError, line};
use crate::schema::{SizesSchema, UsageSchema};
use crate::statistics::Estimate;

use super::need::Need;
use super::trial::{Instant, Trial, Usage};

const SIZES: [&str; 25] = [
    "schema",
    "build",
    "config",
    "scenario",
    "form",
    "addresses",
    "seeds",
    "met",
    "missed_seed",
    "asked",
    "refused",
    "unserved",
    "wait_p50_s",
    "wait_p99_s",
    "peak",
    "peak_living",
    "peak_ending",
    "peak_leaked",
    "wanted",
    "compression",
    "step",
    "missed",
    "peak_mean",
    "peak_mean_low",
    "peak_mean_high",
];

/// What a search for a size was asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// Which build searched.
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

/// `sizes.csv`, read back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sizes {
    /// What was asked.
    pub asked: Asked,
    /// The sizes that were tried.
    pub trials: Vec<Trial>,
    /// By how much two neighbouring sizes of a form differ, where that is otherwise than in the first form.
    pub steps: BTreeMap<String, u64>,
}

/// The head of `sizes.csv`.
pub fn sizes_head() -> String {
    line(SIZES.map(str::to_owned))
}

/// The row of a size, which is called `scenario` in `runs.csv`.
pub fn size_row(asked: &Asked, scenario: &str, trial: &Trial) -> String {
    let number = |number: Option<f64>| number.map_or_else(String::new, |number| number.to_string());
    line([
        SizesSchema::NAME.to_owned(),
        asked.build.clone(),
        asked.config.clone(),
        scenario.to_owned(),
        trial.form.clone(),
        trial.addresses.to_string(),
        trial.seeds.to_string(),
        trial.met.to_string(),
        trial.missed_seed.map_or_else(String::new, |seed| seed.to_string()),
        trial.asked.to_string(),
        trial.refused.to_string(),
        trial.unserved.to_string(),
        number(trial.wait_p50_s),
        number(trial.wait_p99_s),
        trial.peak.to_string(),
        trial.peak_living.to_string(),
        trial.peak_ending.to_string(),
        trial.peak_leaked.to_string(),
        asked.needs.iter().map(Need::asked).collect::<Vec<_>>().join(" "),
        asked.compression.to_string(),
        asked.step.to_string(),
        trial.missed.map_or_else(String::new, |missed| missed.to_string()),
        number(trial.peak_mean.map(|mean| mean.value)),
        number(trial.peak_mean.and_then(|mean| mean.low)),
        number(trial.peak_mean.and_then(|mean| mean.high)),
    ])
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
            peak_mean: match row.get("peak_mean").unwrap_or_default() {
                "" => None,
                _ => Some(estimate(&row, "peak_mean")?),
            },
        })
    })?;
    Ok(Sizes { asked, trials, steps })
}

const HELD: [&str; 4] = ["living", "ending", "leaked", "total"];

/// The head of `usage.csv`.
pub fn usage_head() -> String {
    let held = HELD.iter().flat_map(|name| ["", "_low", "_high"].map(|end| format!("{name}{end}")));
    line(["schema", "scenario", "at_s"].map(str::to_owned).into_iter().chain(held))
}

/// The rows of a size over time.
pub fn usage_rows(scenario: &str, usage: &Usage) -> String {
    let row = |at: &Instant| {
        let cells =
            |found: Estimate| [Some(found.value), found.low, found.high].map(|end| end.map_or_else(String::new, |end| end.to_string()));
        let held = [at.living, at.ending, at.leaked, at.total].into_iter().flat_map(cells);
        line([UsageSchema::NAME.to_owned(), scenario.to_owned(), at.at_s.to_string()].into_iter().chain(held))
    };
    usage.0.iter().map(row).collect()
}

/// Reads the rows of a size from `usage.csv`.
///
/// # Errors
/// It is something else, it is empty, or a value cannot be.
pub fn usage_of(text: &str, scenario: &str) -> Result<Usage, TableError> {
    let rows = cells::read(text, "addresses over time", UsageSchema::NAME, |row| {
        let held = |name: &str| estimate(&row, name);
        let [living, ending, leaked, total] = HELD.map(held);
        let at =
            Instant { at_s: row.number("at_s")?.unwrap_or_default(), living: living?, ending: ending?, leaked: leaked?, total: total? };
        Ok((row.text("scenario")? == scenario).then_some(at))
    })?;
    Ok(Usage(rows.into_iter().flatten().collect()))
}

fn estimate(row: &Cells<'_>, name: &str) -> Result<Estimate, TableError> {
    let value = row.number(name)?.ok_or_else(|| row.wrong(name, "", "number"))?;
    Ok(Estimate { value, low: row.number(&format!("{name}_low"))?, high: row.number(&format!("{name}_high"))? })
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
