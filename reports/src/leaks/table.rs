//! `paths.csv`: one row a scenario and way; and `reclaims.csv` read back.
//!
//! | columns of `paths.csv` | hold |
//! |---|---|
//! | `schema`, `build`, `config` | the format, and what made the row |
//! | `scenario`, `path`, `runs`, `addresses` | the [`Group`], and how much it rests on |
//! | `delay_p50_s` … `margin_p50_s` | times in seconds; `_low` and `_high` are the ends of the interval of 95 %; empty = nothing to take it from, an end that nothing bounds |
//! | `late`, `answered` | how many addresses; the shares with their intervals beside them |

use crate::cells::{self, Cells, Column, TableError, maybe};
use crate::reclaim::{ReclaimPath, Reclaimed, RightEnd};
use crate::schema::{ReclaimPathsSchema, ReclaimsSchema};
use crate::spread::Margin;
use crate::{Made, Seconds};

use super::{Found, Group, LeaksReport};

/// How the report was made, and the group of the row.
type Row<'a> = (&'a Made, &'a Group);

fn columns<'a>() -> [Column<Row<'a>>; 19] {
    use Column::{Cell, Estimate};
    [
        Cell("schema", |_| ReclaimPathsSchema::NAME.to_owned()),
        Cell("build", |(made, _)| made.build.clone()),
        Cell("config", |(made, _)| made.config.clone()),
        Cell("scenario", |(_, group)| group.scenario.clone()),
        Cell("path", |(_, group)| group.path.name().to_owned()),
        Cell("runs", |(_, group)| group.runs.to_string()),
        Cell("addresses", |(_, group)| group.addresses.to_string()),
        Cell("delay_max_s", |(_, group)| maybe(group.delay_max_s)),
        Cell("bound_max_s", |(_, group)| maybe(group.bound_max_s)),
        Cell("margin_min_s", |(_, group)| maybe(group.margin_min_s)),
        Cell("late", |(_, group)| group.late.to_string()),
        Cell("answered", |(_, group)| group.answered.to_string()),
        Estimate("delay_p50_s", |(_, group)| group.delay_p50_s),
        Estimate("delay_p90_s", |(_, group)| group.delay_p90_s),
        Estimate("delay_p99_s", |(_, group)| group.delay_p99_s),
        Estimate("margin_p01_s", |(_, group)| group.margin_p01_s),
        Estimate("margin_p50_s", |(_, group)| group.margin_p50_s),
        Estimate("late_share", |(_, group)| group.late_share),
        Estimate("answered_share", |(_, group)| group.answered_share),
    ]
}

/// The head of `paths.csv`.
pub fn head() -> String {
    cells::head(&columns())
}

/// The rows of `paths.csv`.
pub fn rows(report: &LeaksReport) -> String {
    report.groups.iter().map(|group| cells::row(&columns(), &(&report.made, group))).collect()
}

/// Reads `reclaims.csv` back. Of tables that were written before there were bounds, everything else is read.
///
/// # Errors
/// It is something else, it is empty, or a value cannot be.
pub fn read(text: &str) -> Result<Vec<Found>, TableError> {
    cells::read(text, "reclaimed addresses", ReclaimsSchema::NAME, |row| found(&row))
}

fn found(row: &Cells<'_>) -> Result<Found, TableError> {
    let path = row.text("path")?;
    let reclaimed = Reclaimed {
        at: seconds(row, "at_s")?.ok_or_else(|| row.wrong("at_s", "", "time in seconds"))?,
        path: ReclaimPath::ALL.into_iter().find(|one| one.name() == path).ok_or_else(|| row.wrong("path", path, "way of reclaim"))?,
        row: row.text("row")?.to_owned().into(),
        pool: row.text("pool")?.into(),
        address: row.value("ip", "address")?,
        pod: row.text("pod")?.into(),
        margin: margin(row, "margin_s")?,
        answered: row.value("answered", "true or false")?,
        delay: margin(row, "delay_s")?,
        end: match row.get("end").unwrap_or_default() {
            "" => None,
            "gone" => Some(RightEnd::Gone),
            "ended" => Some(RightEnd::Ended),
            "grace-over" => Some(RightEnd::GraceOver),
            other => return Err(row.wrong("end", other, "end of a right")),
        },
        bound: match row.get("bound_s") {
            Some(_) => seconds(row, "bound_s")?,
            None => None,
        },
    };
    Ok(Found { scenario: row.text("scenario")?.to_owned(), seed: row.count("seed")?, reclaimed })
}

fn margin(row: &Cells<'_>, column: &str) -> Result<Option<Margin>, TableError> {
    Ok(row.number(column)?.map(|seconds| Margin::from_micros((seconds * 1e6).round() as i64)))
}

fn seconds(row: &Cells<'_>, column: &str) -> Result<Option<Seconds>, TableError> {
    match row.number(column)? {
        Some(seconds) if seconds < 0.0 => Err(row.wrong(column, row.get(column).unwrap_or_default(), "time in seconds")),
        found => Ok(found.map(|seconds| Seconds::from_micros((seconds * 1e6).round() as u64))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaks::tests::found;
    use crate::reclaim::ReclaimRun;
    use crate::rows::Rows;
    use crate::run::SeedRecord;

    fn written(all: &[Found]) -> String {
        let mut rows = Rows::default();
        for one in all {
            let run = ReclaimRun { records: vec![one.reclaimed.clone()], ..ReclaimRun::default() };
            rows.add(&one.scenario, "", &SeedRecord { seed: one.seed, reclaim: Some(run), ..SeedRecord::default() });
        }
        String::from_utf8([Rows::heads().reclaims, rows.reclaims].concat()).unwrap()
    }

    #[test]
    fn what_was_reclaimed_reads_back_to_the_last_digit() {
        let mut all = found(5);
        all[3].reclaimed.delay = None;
        all[3].reclaimed.end = None;
        all[3].reclaimed.bound = None;
        assert_eq!(read(&written(&all)).unwrap(), all);
    }

    #[test]
    fn a_table_from_before_there_were_bounds_is_read() {
        let old: String = written(&found(2)).lines().map(|line| line.rsplitn(3, ',').last().unwrap().to_owned() + "\n").collect();
        assert!(read(&old).unwrap().iter().all(|one| one.reclaimed.bound.is_none() && one.reclaimed.delay.is_some()));
    }

    #[test]
    fn what_is_no_table_of_reclaimed_addresses_gets_one_sentence() {
        let whole = written(&found(1));
        for (text, expected) in [
            (String::new(), "it is no table of reclaimed addresses: the first column must say `ipam-sim/reclaims/1`"),
            ("a,b\n1,2\n".to_owned(), "it is no table of reclaimed addresses: the first column must say `ipam-sim/reclaims/1`"),
            (whole.lines().next().unwrap().to_owned() + "\n", "it has no reclaimed addresses"),
            (whole.replace(",trace,", ",walk,"), "line 2, column `path`: `walk` is no way of reclaim"),
            (whole.replace(",15.0", ",-1"), "line 2, column `bound_s`: `-1` is no time in seconds"),
        ] {
            assert_eq!(read(&text).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_row_is_as_long_as_the_head_which_is_a_promise() {
        insta::assert_snapshot!(head().trim_end().replace(',', "\n"));
        let report = LeaksReport::new(Made::default(), &found(30), Some(30), false);
        for row in rows(&report).lines() {
            assert_eq!(row.split(',').count(), head().split(',').count(), "{row}");
        }
    }
}
