//! The uncertainty of the answer that comes from having recorded one trace only: sizes for traces that were resampled from it.
//!
//! | columns of `resamples.csv` | hold |
//! |---|---|
//! | `schema`, `build`, `config` | the format, and what made the row |
//! | `resample`, `pods` | the number of the trace, which is the seed of its draws and of its run, and the number of its pods |
//! | `living` | the most of them that live at the same time, which follows from the trace alone |
//! | `peak` | the most addresses that its run recorded at the same time, with the largest pool that was tried |
//! | `addresses` | the smallest pool that is enough in its run; empty = the largest that was tried is not |
//! | `block_s`, `of` | the length of a block; the number of traces asked for |
//! | `staying`, `passing`, `first_half` | pods never deleted (and not drawn); those that come and go; those of these in the first half |

use serde::Serialize;
use statrs::distribution::{Beta, ContinuousCDF};

use crate::cells::{self, TableError, maybe};
use crate::column::{self, Column, Unit};
use crate::figure::{Axis, Curve, Figure, Kind, Scale};
use crate::human;
use crate::schema::ResamplesSchema;
use crate::statistics::Estimate;

use super::figures::Plate;

/// The share of the resampled traces for which the reported size is enough.
const SHARE: f64 = 0.95;

/// A resampled trace and its needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Resample {
    /// Its number: the seed of its draws and of its run.
    pub number: u64,
    /// The number of pods in the trace.
    pub pods: u64,
    /// The most of them that live at the same time.
    pub living: u64,
    /// The most addresses recorded at the same time in its run.
    pub peak: u64,
    /// The smallest pool that is enough: addresses in total; unset = the largest that was tried is not.
    pub addresses: Option<u64>,
}

/// The parameters of resampling from one trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Drawn {
    /// The length of a block, in seconds of the trace.
    pub block_s: f64,
    /// The number of pods that are never deleted, which stay where they are.
    pub staying: u64,
    /// The number of pods that come and go: each is drawn as often as each other one.
    pub passing: u64,
    /// The number of these that come in the first half of the time.
    pub first_half: u64,
    /// The number of traces asked for.
    pub of: u64,
}

/// The needs of resampled traces.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Resampled {
    /// The parameters of resampling.
    #[serde(flatten)]
    pub drawn: Drawn,
    /// The median of the sizes that the traces need; unset = the largest pool that was tried is too small.
    pub median: Option<u64>,
    /// The 2.5 % quantile of these sizes; unset as `median`.
    pub low: Option<u64>,
    /// The 97.5 % quantile of these sizes; unset as `median`.
    pub high: Option<u64>,
    /// A size that is enough for `enough_for` of the traces, which is at least 95 %; unset = the largest pool that was tried is not.
    pub enough: Option<u64>,
    /// The number of traces for which it is enough.
    pub enough_for: u64,
    /// The least share of all traces that can be drawn so for which it is enough, with 95 % confidence.
    pub enough_share: f64,
    /// The traces, by their numbers.
    pub traces: Vec<Resample>,
}

impl Resampled {
    /// The needs of these traces; `None` if there are no traces.
    pub fn new(drawn: Drawn, mut traces: Vec<Resample>) -> Option<Self> {
        traces.sort_by_key(|trace| trace.number);
        let mut sizes: Vec<Option<u64>> = traces.iter().map(|trace| trace.addresses).collect();
        // Sizes above all that were tried come last.
        sizes.sort_by_key(|size| size.unwrap_or(u64::MAX));
        let many = sizes.len();
        let rank = |share: f64| ((share * many as f64).ceil() as usize).clamp(1, many);
        let at = |share: f64| sizes.get(rank(share) - 1).copied().flatten();
        if many == 0 {
            return None;
        }
        let enough = at(SHARE);
        // Traces that need the same size count as served.
        let enough_for = sizes.iter().filter(|size| size.is_some_and(|size| Some(size) <= enough)).count();
        let rank = rank(SHARE);
        Some(Self {
            drawn,
            median: at(0.5),
            low: at(0.025),
            high: at(0.975),
            enough,
            enough_for: enough_for as u64,
            enough_share: content(rank as u64, many as u64),
            traces,
        })
    }

    /// A sentence with the median, the interval, and how the traces were made.
    pub(super) fn sentence(&self, recorded: Option<u64>) -> String {
        let size = |size: Option<u64>| size.map_or_else(|| "more than was tried".to_owned(), human::count);
        let recorded = recorded.map_or_else(|| "not known".to_owned(), human::count);
        let staying = match self.drawn.staying {
            0 => String::new(),
            1 => "; the pod that is never deleted stays where it is".to_owned(),
            many => format!("; the {} pods that are never deleted stay where they are", human::count(many)),
        };
        format!(
            "As recorded {recorded}; over {} traces of the same pods, drawn again in blocks of {}, with a run each, the smallest pool has \
             a median of {} and lies between {} and {} in 95 %{staying}.",
            human::count(self.traces.len() as u64),
            block(self.drawn.block_s),
            size(self.median),
            size(self.low),
            size(self.high),
        )
    }

    /// A warning where the rate of new pods rises or falls over the trace, as blocks are drawn from anywhere.
    pub(super) fn trend(&self) -> Option<String> {
        let Drawn { passing, first_half, .. } = self.drawn;
        let uneven = 3 * first_half < passing || 3 * first_half > 2 * passing;
        uneven.then(|| {
            format!(
                "Of the {} pods that come and go {} come in the first half of the time: resampled traces spread them over all of it, which \
                 this trace does not, so that its busiest time counts for less; take a part of it in which as many come all the time.",
                human::count(passing),
                human::count(first_half)
            )
        })
    }

    /// The share of the traces for which each size is enough.
    pub(super) fn plate(&self, recorded: Option<u64>) -> Plate {
        let mut sizes: Vec<u64> = self.traces.iter().filter_map(|trace| trace.addresses).collect();
        sizes.sort_unstable();
        let all = self.traces.len() as f64;
        let mut points: Vec<(f64, Estimate)> = Vec::new();
        for (number, size) in sizes.iter().enumerate() {
            let share = (number + 1) as f64 / all;
            let point = (*size as f64, Estimate { value: share, low: Some(share), high: Some(share) });
            match points.last_mut() {
                Some(last) if last.0 == point.0 => *last = point,
                _ => points.push(point),
            }
        }
        let formula = recorded.map_or_else(Vec::new, |size| vec![(size as f64, 0.0), (size as f64, 1.0)]);
        Plate {
            figure: Figure {
                id: "resamples".to_owned(),
                title: "Resampled traces for which a pool is enough".to_owned(),
                x: Axis { label: "addresses in the pool".to_owned(), kind: Kind::Count, scale: Scale::Close },
                y: Axis { label: "share of the traces".to_owned(), kind: Kind::Share, scale: Scale::Linear },
                curves: vec![Curve { name: "resampled traces".to_owned(), points, formula, ..Curve::default() }],
                dotted: "smallest pool for the trace as it was recorded",
            },
            caption: "For which share of the resampled traces a pool of each size meets what is asked. Dotted: the smallest pool that is \
                      enough for the trace as it was recorded.",
        }
    }
}

/// The length of a block in words.
pub(super) fn block(seconds: f64) -> String {
    human::duration(crate::Seconds::from_micros((seconds * 1e6).round() as u64))
}

/// The share of all traces that, with 95 % confidence, need no more than the one of this rank among `many`: it is distributed as the order
/// statistics of uniform numbers are. (S. S. Wilks, "Determination of sample sizes for setting tolerance limits", 1941.)
fn content(rank: u64, many: u64) -> f64 {
    // Both parameters are above 0, so that the distribution exists.
    Beta::new(rank as f64, (many - rank + 1) as f64).map_or(0.0, |beta| beta.inverse_cdf(0.05))
}

/// A row of `resamples.csv`: build and configuration, how the trace was drawn, and its needs.
type Row<'a> = (&'a str, &'a str, &'a Drawn, &'a Resample);
type Of<'a> = Column<Row<'a>>;

pub(crate) fn columns<'a>() -> Vec<Of<'a>> {
    use Unit::{Count, Seconds, Text};
    vec![
        Of::cell("schema", Text, "The name of the format: `ipam-sim/resamples/1`.", |_| ResamplesSchema::NAME.to_owned()),
        Of::cell("build", Text, "The build of the program that simulated.", |(build, ..)| (*build).to_owned()),
        Of::cell("config", Text, "A hash of everything but the seeds that went into the runs.", |(_, config, ..)| (*config).to_owned()),
        Of::cell("resample", Count, "The number of the trace: the seed of its draws and of its run.", |(.., trace)| {
            trace.number.to_string()
        }),
        Of::cell("pods", Count, "How many pods it has.", |(.., trace)| trace.pods.to_string()),
        Of::cell("living", Count, "The most of them that live at a time.", |(.., trace)| trace.living.to_string()),
        Of::cell("peak", Count, "The most addresses that are recorded at a time in its run.", |(.., trace)| trace.peak.to_string()),
        Of::cell(
            "addresses",
            Count,
            "The smallest pool that is enough: addresses in total; empty = the largest that was tried is not.",
            |(.., trace)| maybe(trace.addresses),
        ),
        Of::cell("block_s", Seconds, "The length of a block, in the time of the trace.", |(.., drawn, _)| drawn.block_s.to_string()),
        Of::cell("staying", Count, "Pods that are never deleted, which stay where they are.", |(.., drawn, _)| drawn.staying.to_string()),
        Of::cell("passing", Count, "Pods that come and go: each is drawn as often as each other one.", |(.., drawn, _)| {
            drawn.passing.to_string()
        }),
        Of::cell("first_half", Count, "Of these, those that come in the first half of the time.", |(.., drawn, _)| {
            drawn.first_half.to_string()
        }),
        Of::cell("of", Count, "How many traces were asked for.", |(.., drawn, _)| drawn.of.to_string()),
    ]
}

/// The head of `resamples.csv`.
pub fn resamples_head() -> String {
    column::head(&columns())
}

/// The row of a trace.
pub fn resample_row(build: &str, config: &str, drawn: &Drawn, trace: &Resample) -> String {
    column::row(&columns(), &(build, config, drawn, trace))
}

/// Reads `resamples.csv` back.
///
/// # Errors
/// It is something else, it is empty, or a value is invalid.
pub fn resamples_of(text: &str) -> Result<(Drawn, Vec<Resample>), TableError> {
    let mut drawn = Drawn::default();
    let traces = cells::read(text, "resampled traces", ResamplesSchema::NAME, |row| {
        let block_s = row.number("block_s")?.ok_or_else(|| row.wrong("block_s", "", "time in seconds"))?;
        let [staying, passing, first_half, of] = ["staying", "passing", "first_half", "of"].map(|column| row.count(column));
        drawn = Drawn { block_s, staying: staying?, passing: passing?, first_half: first_half?, of: of? };
        Ok(Resample {
            number: row.count("resample")?,
            pods: row.count("pods")?,
            living: row.count("living")?,
            peak: row.count("peak")?,
            addresses: if row.text("addresses")?.is_empty() { None } else { Some(row.count("addresses")?) },
        })
    })?;
    Ok((drawn, traces))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DRAWN: Drawn = Drawn { block_s: 360.0, staying: 20, passing: 300, first_half: 140, of: 100 };

    fn traces(sizes: &[Option<u64>]) -> Vec<Resample> {
        let trace = |(number, addresses): (usize, &Option<u64>)| Resample {
            number: number as u64,
            pods: 300,
            addresses: *addresses,
            ..Resample::default()
        };
        sizes.iter().enumerate().map(trace).collect()
    }

    #[test]
    fn a_hundred_traces_have_a_median_an_interval_and_a_size_for_ninety_five() {
        let sizes: Vec<Option<u64>> = (1..=100).rev().map(Some).collect();
        let found = Resampled::new(DRAWN, traces(&sizes)).unwrap();
        assert_eq!((found.median, found.low, found.high), (Some(50), Some(3), Some(98)));
        assert_eq!((found.enough, found.enough_for), (Some(95), 95));
        // The 95th of a hundred bounds 89.8 % of all: at 0.1029 missed, five or fewer of a hundred would be one in twenty.
        assert!((found.enough_share - 0.897).abs() < 0.001, "{}", found.enough_share);
        insta::assert_snapshot!(found.sentence(Some(48)) + "\n" + &Resampled::new(DRAWN, traces(&[None; 20])).unwrap().sentence(None));
    }

    #[test]
    fn a_size_that_was_not_found_counts_as_larger_than_all() {
        let mut sizes = vec![Some(7); 18];
        sizes.extend([None, None]);
        let found = Resampled::new(DRAWN, traces(&sizes)).unwrap();
        assert_eq!((found.median, found.high, found.enough), (Some(7), None, None));
        assert_eq!(found.enough_for, 0);
        assert_eq!(Resampled::new(DRAWN, Vec::new()), None);
    }

    proptest! {
        /// Compares with counting: at least 95 % of the traces are served by the reported size, and no smaller size serves as many.
        #[test]
        fn the_size_that_is_named_is_the_smallest_for_ninety_five_of_a_hundred(sizes in prop::collection::vec(1_u64..40, 1..200)) {
            let all: Vec<Option<u64>> = sizes.iter().copied().map(Some).collect();
            let found = Resampled::new(DRAWN, traces(&all)).unwrap();
            let served = |size: u64| sizes.iter().filter(|one| **one <= size).count();
            let smallest = (1..=40).find(|size| served(*size) as f64 >= SHARE * sizes.len() as f64);
            prop_assert_eq!(found.enough, smallest);
            prop_assert_eq!(found.enough_for, served(found.enough.unwrap()) as u64);
        }

        /// Compares with sums of the binomial distribution: with a smaller share, as many traces would be served at most one time in
        /// twenty.
        #[test]
        fn the_confidence_is_that_of_the_binomial_distribution(many in 1_u64..200, part in 0.01_f64..1.0) {
            let rank = ((part * many as f64).ceil() as u64).clamp(1, many);
            let share = content(rank, many);
            // P(at least `rank` of `many` are served), each with this probability.
            let choose = |count: u64| (0..count).map(|n| ((many - n) as f64).ln() - ((n + 1) as f64).ln()).sum::<f64>();
            let tail: f64 = (rank..=many)
                .map(|count| (choose(count) + count as f64 * share.ln() + (many - count) as f64 * (-share).ln_1p()).exp())
                .sum();
            prop_assert!((tail - 0.05).abs() < 1e-6, "{rank} of {many}: {share} gives {tail}");
        }
    }

    #[test]
    fn a_table_reads_back() {
        let all = traces(&[Some(3), None, Some(1_000)]);
        let text = resamples_head() + &all.iter().map(|trace| resample_row("b", "c", &DRAWN, trace)).collect::<String>();
        assert_eq!(resamples_of(&text).unwrap(), (DRAWN, all));
        insta::assert_snapshot!(resamples_head().trim_end().replace(',', "\n"));
    }
}
