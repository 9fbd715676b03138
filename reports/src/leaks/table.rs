//! `paths.csv`: one row for each scenario and way; and `reclaims.csv` read back.

use crate::cells::{self, Cells, TableError, maybe};
use crate::column::{self, Column, Unit};
use crate::human;
use crate::reclaim::{ReclaimPath, Reclaimed, RightEnd};
use crate::schema::{ReclaimPathsSchema, ReclaimsSchema};
use crate::spread::Margin;
use crate::statistics::Estimate;
use crate::{Made, Seconds};

use super::answer::time;
use super::{Found, Group, LeaksReport};

/// The way in which the report was made, and the group of the row.
type Row<'a> = (&'a Made, &'a Group);
type Of<'a> = Column<Row<'a>>;

/// A time for people; `-` = there is none.
fn told(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), time)
}

fn told_value(found: Option<Estimate>) -> String {
    told(found.map(|found| found.value))
}

pub(crate) fn columns<'a>() -> Vec<Of<'a>> {
    use Unit::{Count, Seconds, Share, Text};
    vec![
        Of::cell("schema", Text, "The name of the format: `ipam-sim/reclaim-paths/1`.", |_| ReclaimPathsSchema::NAME.to_owned()),
        Of::cell("build", Text, "The build of the program that simulated.", |(made, _)| made.build.clone()),
        Of::cell("config", Text, "A hash of everything but the seeds that went into the runs.", |(made, _)| made.config.clone()),
        Of::cell("scenario", Text, "The scenario, and what is changed in it.", |(_, group)| group.scenario.clone())
            .shown("scenario", |(_, group)| group.scenario.clone()),
        Of::cell(
            "path",
            Text,
            "How the addresses were found: `trace` = their pods were traced to their deadlines, `scan` \
            = a scan found their records, `sweep` = a scan found endpoints that no record leads to, or that were marked before.",
            |(_, group)| group.path.name().to_owned(),
        )
        .shown("way", |(_, group)| group.path.name().to_owned()),
        Of::cell("runs", Count, "How many runs have such an address.", |(_, group)| group.runs.to_string())
            .shown("runs", |(_, group)| human::count(group.runs)),
        Of::cell("addresses", Count, "How many addresses were reclaimed.", |(_, group)| group.addresses.to_string())
            .shown("addresses", |(_, group)| human::count(group.addresses)),
        Of::cell("delay_max_s", Seconds, "The longest time from the end of a pod's right to the removal of its record.", |(_, group)| {
            maybe(group.delay_max_s)
        })
        .shown("max", |(_, group)| told(group.delay_max_s)),
        Of::cell("bound_max_s", Seconds, "The longest that a delay may be while the cluster is healthy (G §10.2).", |(_, group)| {
            maybe(group.bound_max_s)
        })
        .shown("bound", |(_, group)| told(group.bound_max_s)),
        Of::cell(
            "margin_min_s",
            Seconds,
            "The least time from the end of the last sandbox that answered on an address to its \
            removal; below 0 = one still answered.",
            |(_, group)| maybe(group.margin_min_s),
        )
        .shown("margin min", |(_, group)| told(group.margin_min_s)),
        Of::cell("late", Count, "How many addresses were later than the bound of their own.", |(_, group)| group.late.to_string())
            .shown("late", |(_, group)| human::count(group.late)),
        Of::cell("answered", Count, "How many addresses were removed while a sandbox answered on them.", |(_, group)| {
            group.answered.to_string()
        })
        .shown("answered on", |(_, group)| human::count(group.answered)),
        Of::estimate("delay_p50_s", Seconds, "The delay that half of the addresses do not exceed.", |(_, group)| group.delay_p50_s)
            .shown("delay p50", |(_, group)| told_value(group.delay_p50_s)),
        Of::estimate("delay_p90_s", Seconds, "The delay that 90 % of the addresses do not exceed.", |(_, group)| group.delay_p90_s),
        Of::estimate("delay_p99_s", Seconds, "The delay that 99 % of the addresses do not exceed.", |(_, group)| group.delay_p99_s)
            .shown("p99", |(_, group)| told_value(group.delay_p99_s)),
        Of::estimate("margin_p01_s", Seconds, "The margin that 1 % of the addresses do not exceed.", |(_, group)| group.margin_p01_s),
        Of::estimate("margin_p50_s", Seconds, "The margin that half of the addresses do not exceed.", |(_, group)| group.margin_p50_s)
            .shown("p50", |(_, group)| told_value(group.margin_p50_s)),
        Of::estimate("late_share", Share, "The late ones, of the addresses that have a bound.", |(_, group)| group.late_share),
        Of::estimate("answered_share", Share, "Those that were answered on, of all.", |(_, group)| group.answered_share),
    ]
}

/// The head of `paths.csv`.
pub fn head() -> String {
    column::head(&columns())
}

/// The rows of `paths.csv`.
pub fn rows(report: &LeaksReport) -> String {
    report.groups.iter().map(|group| column::row(&columns(), &(&report.made, group))).collect()
}

/// Reads `reclaims.csv` back. Tables that were written before there were bounds are read without them.
///
/// # Errors
/// It is something else, it is empty, or a value is invalid.
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
