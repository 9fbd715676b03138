//! `sizes.csv`: one row for each size that was tried; `usage.csv`: addresses over time with the given pool.

use std::collections::BTreeMap;

use crate::cells::{self, TableError, maybe};
use crate::column::{self, Column, Unit};
use crate::schema::{SizesSchema, UsageSchema};

use super::need::Need;
use super::trial::{Instant, Trial, Usage};

/// The parameters of a search for a size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// The build of the program that simulated the sizes.
    pub build: String,
    /// A hash of everything but the seeds that went into it.
    pub config: String,
    /// The objectives of the pool.
    pub needs: Vec<Need>,
    /// The factor by which the time of a trace is compressed; 1 = it is not.
    pub compression: u32,
    /// The difference between two neighbouring sizes: the total number of addresses for each address of a pool.
    pub step: u64,
}

/// The contents of `sizes.csv`, read back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sizes {
    /// The parameters of the search, as each row repeats them.
    pub asked: Asked,
    /// The sizes that were tried.
    pub trials: Vec<Trial>,
    /// The differences between neighbouring sizes of forms where they are not those of the first form.
    pub steps: BTreeMap<String, u64>,
}

/// A row of `sizes.csv`: the parameters, the name of the size in `runs.csv`, and its result.
type Size<'a> = (&'a Asked, &'a str, &'a Trial);
type Of<'a> = Column<Size<'a>>;
/// A column of `usage.csv`: the size, and the addresses held at an instant.
type OfUsage<'a> = Column<(&'a str, &'a Instant)>;

pub(crate) fn sizes<'a>() -> Vec<Of<'a>> {
    use Unit::{Count, Flag, Number, Seconds, Share, Text};
    vec![
        Of::cell("schema", Text, "The name of the format: `ipam-sim/sizes/1`.", |_| SizesSchema::NAME.to_owned()),
        Of::cell("build", Text, "The build of the program that simulated.", |(asked, ..)| asked.build.clone()),
        Of::cell("config", Text, "A hash of everything but the seeds that went into the runs.", |(asked, ..)| asked.config.clone()),
        Of::cell("scenario", Text, "What the size is called in `runs.csv`: its form and its addresses.", |(_, scenario, _)| {
            (*scenario).to_owned()
        }),
        Of::cell(
            "form",
            Text,
            "`as it is` has the faults of the scenario, `every DEL arrives` has none; or what is changed.",
            |(.., trial)| trial.form.clone(),
        ),
        Of::cell("addresses", Count, "The size of the pool that was tried: addresses in total.", |(.., trial)| trial.addresses.to_string()),
        Of::cell("seeds", Count, "How many runs there were; a size that fails stops early.", |(.., trial)| trial.seeds.to_string()),
        Of::cell("met", Flag, "Whether every run met every objective.", |(.., trial)| trial.met.to_string()),
        Of::cell("missed_seed", Count, "The seed of the first run that missed one; empty = none did.", |(.., trial)| {
            maybe(trial.missed_seed)
        }),
        Of::cell(
            "asked",
            Count,
            "How many pods asked for an address, in the worst run, as all figures from here to `peak_leaked`.",
            |(.., trial)| trial.asked.to_string(),
        ),
        Of::cell("refused", Share, "The pods that were refused at least once because no address was free.", |(.., trial)| {
            trial.refused.to_string()
        }),
        Of::cell("unserved", Share, "The pods that never got an address.", |(.., trial)| trial.unserved.to_string()),
        Of::cell(
            "wait_p50_s",
            Seconds,
            "The time from a pod's first request to its address within which half of those that got one had it.",
            |(.., trial)| maybe(trial.wait_p50_s),
        ),
        Of::cell("wait_p99_s", Seconds, "The same for 99 %.", |(.., trial)| maybe(trial.wait_p99_s)),
        Of::cell("peak", Count, "The most addresses that were recorded at a time.", |(.., trial)| trial.peak.to_string()),
        Of::cell("peak_living", Count, "The most of these that belonged to living pods.", |(.., trial)| trial.peak_living.to_string()),
        Of::cell("peak_ending", Count, "The most of these that belonged to pods that are terminating or have ended.", |(.., trial)| {
            trial.peak_ending.to_string()
        }),
        Of::cell(
            "peak_leaked",
            Count,
            "The most of these that belonged to pods that are gone: leaks, until reclaim takes them back.",
            |(.., trial)| trial.peak_leaked.to_string(),
        ),
        Of::cell("wanted", Text, "The objectives, with blanks between.", |(asked, ..)| {
            asked.needs.iter().map(Need::asked).collect::<Vec<_>>().join(" ")
        }),
        Of::cell("compression", Count, "By how much the time of a trace is compressed; 1 = it is not.", |(asked, ..)| {
            asked.compression.to_string()
        }),
        Of::cell("step", Count, "By how many addresses two neighbouring sizes differ.", |(asked, ..)| asked.step.to_string()),
        Of::cell("missed", Count, "How many of the runs missed an objective; empty = a table from before this was kept.", |(.., trial)| {
            maybe(trial.missed)
        }),
        Of::estimate("peak_mean", Number, "The mean over runs of the most addresses that were recorded at a time.", |(.., trial)| {
            trial.peak_mean
        }),
    ]
}

/// The head of `sizes.csv`.
pub fn sizes_head() -> String {
    column::head(&sizes())
}

/// The row of a size, whose name in `runs.csv` is `scenario`.
pub fn size_row(asked: &Asked, scenario: &str, trial: &Trial) -> String {
    column::row(&sizes(), &(asked, scenario, trial))
}

/// Reads `sizes.csv` back.
///
/// # Errors
/// It is something else, it is empty, or a value is invalid.
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

pub(crate) fn usage<'a>() -> Vec<OfUsage<'a>> {
    use Unit::{Number, Seconds, Text};
    vec![
        OfUsage::cell("schema", Text, "The name of the format: `ipam-sim/usage/1`.", |_| UsageSchema::NAME.to_owned()),
        OfUsage::cell("scenario", Text, "The size, as `sizes.csv` calls it.", |(scenario, _)| (*scenario).to_owned()),
        OfUsage::cell("at_s", Seconds, "When, since the beginning of the run.", |(_, at)| at.at_s.to_string()),
        OfUsage::estimate("living", Number, "Recorded addresses of living pods, the mean over runs.", |(_, at)| Some(at.living)),
        OfUsage::estimate("ending", Number, "Recorded addresses of pods that are terminating or have ended.", |(_, at)| Some(at.ending)),
        OfUsage::estimate("leaked", Number, "Recorded addresses of pods that are gone.", |(_, at)| Some(at.leaked)),
        OfUsage::estimate("total", Number, "All recorded addresses.", |(_, at)| Some(at.total)),
    ]
}

/// The head of `usage.csv`.
pub fn usage_head() -> String {
    column::head(&usage())
}

/// The rows of a size over time.
pub fn usage_rows(scenario: &str, held: &Usage) -> String {
    held.0.iter().map(|at| column::row(&usage(), &(scenario, at))).collect()
}

/// Reads the rows of a size from `usage.csv`.
///
/// # Errors
/// It is something else, it is empty, or a value is invalid.
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
