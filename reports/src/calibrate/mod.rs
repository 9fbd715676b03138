//! `report calibrate`: the speed of a real API server and the number of requests that it works on at the same time, from its
//! audit log.
//!
//! ```text
//!  latencies by verb, resource and load ─► Fit ─► settings of a scenario
//!                     └────────────────────┴────► sentences, tables, the picture of the fit
//! ```
//! The caller reads the log and fits the queue; everything else follows from those results.

mod answer;
mod figures;
mod page;
pub(crate) mod table;

use serde::Serialize;

pub use figures::figures;
pub use page::page;
pub use table::levels_csv;

use crate::exit;
use crate::schema::CalibrateSchema;
use crate::statistics::Estimate;
use crate::{Made, Report};

/// The question that `report calibrate` answers.
pub const QUESTION: &str = "How long does this API server work on a request, and on how many at a time?";

/// The contents of a log, and what was left out of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LogFacts {
    /// The arrival of its first request, as RFC 3339.
    pub from: String,
    /// The time at which its last request was answered, as RFC 3339.
    pub until: String,
    /// The number of requests with both of their times.
    pub requests: u64,
    /// The number of watches and other requests that stay open on purpose.
    pub long_running: u64,
    /// The number of requests refused with 429, which say nothing about service times.
    pub throttled: u64,
    /// The number of requests that failed with 5xx: they count as load for others, not as latencies.
    pub failed: u64,
    /// The number of events that lack the time of arrival or of the answer.
    pub without_time: u64,
    /// The number of requests that were received, but whose answer is not in the log.
    pub without_response: u64,
    /// The number of events more than a second after a later one.
    pub unordered: u64,
    /// The places where the last line of a file is cut off: `FILE:LINE`.
    pub cut: Vec<String>,
    /// The most requests in flight at the same time.
    pub load_max: u32,
    /// The most requests answered within one second.
    pub answered_per_second_max: u64,
}

/// The requests of one verb and one resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Group {
    /// The verb of the requests: `get`, `list`, `update` and so on.
    pub verb: String,
    /// The resource, with its subresource: `pods/status`; `(path)` for a request that names no resource.
    pub resource: String,
    /// The number of requests that were answered.
    pub requests: u64,
    /// The number of them that met a conflict (409).
    pub conflicts: u64,
    /// The number of calm requests: those that came while no other request was in flight.
    pub calm: u64,
    /// The mean latency of calm requests.
    pub calm_mean_s: Option<f64>,
    /// The median latency of calm requests.
    pub calm_p50_s: Option<f64>,
    /// The 99th percentile of the latency of calm requests.
    pub calm_p99_s: Option<f64>,
    /// The median latency of all requests.
    pub p50_s: f64,
    /// The 99th percentile of the latency of all requests.
    pub p99_s: f64,
}

/// The kind of work that a request causes at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A get or a list that was answered.
    Read,
    /// A write that was carried out.
    Write,
    /// A write that met a conflict.
    Conflict,
}

impl Kind {
    /// All kinds, in the order of tables.
    pub const ALL: [Kind; 3] = [Kind::Read, Kind::Write, Kind::Conflict];

    /// The name of the kind in tables, in the plural.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "reads",
            Kind::Write => "writes",
            Kind::Conflict => "conflicts",
        }
    }
}

/// The requests of one kind that met the same load, which is the number of others in flight when they came.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Level {
    /// The kind of the requests of the level.
    pub kind: Kind,
    /// The fewest others in flight.
    pub from: u32,
    /// The most others in flight.
    pub to: u32,
    /// The number of requests that met this load and were carried out or met a conflict.
    pub requests: u64,
    /// The average number of others in flight.
    pub load: f64,
    /// The average number of requests that came within the second before.
    pub arrivals_per_s: f64,
    /// The mean latency, from arrival to answer, with its interval of 95 %.
    pub measured_s: Estimate,
    /// The mean latency of the same requests at a server with the fitted settings; unset = too few requests to fit.
    pub fitted_s: Option<f64>,
}

impl Level {
    /// The load in a table: `0`, `2 to 3`.
    pub fn others(&self) -> String {
        if self.from == self.to { self.from.to_string() } else { format!("{} to {}", self.from, self.to) }
    }

    /// The relative error of the fitted latency.
    pub fn error(&self) -> Option<f64> {
        Some(self.fitted_s? / self.measured_s.value - 1.0)
    }
}

/// The service time of a kind of request, as a scenario has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Took {
    /// The mean latency of the calm requests, in seconds.
    pub mean_s: f64,
    /// The median of the lognormal distribution with this mean, and the scatter that neighbouring requests of the log have.
    pub median_s: f64,
    /// The 99th percentile of that distribution, in seconds.
    pub p99_s: f64,
    /// The longest latency seen, in seconds.
    pub max_s: f64,
    /// The number of calm requests on which it rests.
    pub requests: u64,
}

/// The number of requests that a server works on at the same time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Width {
    /// The number that fits best.
    pub value: u32,
    /// The lower end of the interval of 95 %.
    pub low: u32,
    /// The upper end of the same interval.
    pub high: u32,
    /// The part of a calm latency that keeps a processor busy; the rest does not depend on the load.
    pub share: f64,
    /// The most requests that it answers in a second, with the mix of the log.
    pub per_second: Estimate,
    /// The relative error of the fitted means of the levels: the root of the mean square.
    pub error: f64,
}

/// The results of the fit.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Fit {
    /// The service time of a calm read.
    pub read: Option<Took>,
    /// The service time of a calm write.
    pub write: Option<Took>,
    /// The extra time of a write that meets a conflict, in seconds; unset = too few of them.
    pub conflict_s: Option<f64>,
    /// The number of requests worked on at the same time; unset = no queue shows in the log.
    pub width: Option<Width>,
    /// The largest number of parallel requests that were still answered as fast as one.
    pub width_at_least: u32,
}

/// The report of `report calibrate`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CalibrateReport {
    schema: CalibrateSchema,
    /// The way in which it was made.
    pub made: Made,
    /// The answer, a sentence each; the headline comes first.
    pub answers: Vec<String>,
    /// Sentences on what the log does not say.
    pub unsaid: Vec<String>,
    /// The contents of the log.
    pub log: LogFacts,
    /// The results of the fit.
    pub fit: Fit,
    /// The requests by verb and resource, the most frequent first.
    pub groups: Vec<Group>,
    /// The requests by kind and load.
    pub levels: Vec<Level>,
    /// The settings that were written, as the text of a scenario file.
    pub settings: String,
    /// Sentences on what could not be written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unwritten: Vec<String>,
    /// The exit code of the process: see [`exit`].
    pub exit_code: u8,
}

impl CalibrateReport {
    /// The report of a fit; `network` says whether the caller stated the network's latency, and `file` is the destination of the settings.
    pub fn new(made: Made, log: LogFacts, fit: Fit, groups: Vec<Group>, levels: Vec<Level>, network: bool, file: &str) -> Self {
        let answers = answer::sentences(&log, &fit, &levels, file);
        let unsaid = answer::unsaid(&log, &fit, network);
        Self {
            schema: CalibrateSchema,
            made,
            answers,
            unsaid,
            log,
            fit,
            groups,
            levels,
            settings: String::new(),
            unwritten: Vec::new(),
            exit_code: exit::HELD,
        }
    }
}

impl Report for CalibrateReport {
    fn made(&self) -> &Made {
        &self.made
    }

    fn headline(&self) -> Option<&str> {
        None
    }

    fn answers(&self) -> &[String] {
        &self.answers
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn level(kind: Kind, from: u32, to: u32, measured: f64, fitted: f64) -> Level {
        let measured_s = Estimate { value: measured, low: Some(measured * 0.95), high: Some(measured * 1.05) };
        let load = f64::from(from + to) / 2.0;
        Level { kind, from, to, requests: 500, load, arrivals_per_s: 100.0 + load, measured_s, fitted_s: Some(fitted) }
    }

    /// A report on a server that works on two requests at the same time.
    pub(crate) fn report() -> CalibrateReport {
        let took = |mean_s: f64| Took { mean_s, median_s: mean_s * 0.8, p99_s: mean_s * 4.0, max_s: mean_s * 9.0, requests: 300 };
        let width = Width {
            value: 2,
            low: 1,
            high: 3,
            share: 0.5,
            per_second: Estimate { value: 2_000.0, low: Some(1_800.0), high: Some(2_200.0) },
            error: 0.08,
        };
        let fit =
            Fit { read: Some(took(0.001)), write: Some(took(0.002)), conflict_s: Some(0.000_4), width: Some(width), width_at_least: 2 };
        let levels = vec![
            level(Kind::Read, 0, 0, 0.001, 0.001),
            level(Kind::Read, 2, 3, 0.002, 0.001_8),
            level(Kind::Write, 0, 0, 0.002, 0.002),
            level(Kind::Write, 2, 3, 0.003, 0.003_6),
        ];
        let log = LogFacts {
            from: "2026-01-15T12:00:00Z".to_owned(),
            until: "2026-01-15T12:10:00Z".to_owned(),
            requests: 2_000,
            long_running: 12,
            load_max: 4,
            answered_per_second_max: 700,
            ..LogFacts::default()
        };
        let group = Group {
            verb: "get".to_owned(),
            resource: "<pods>".to_owned(),
            requests: 1_000,
            calm: 300,
            calm_mean_s: Some(0.001),
            p50_s: 0.001,
            p99_s: 0.004,
            ..Group::default()
        };
        let made = Made { question: QUESTION.to_owned(), command: "ipam-sim report calibrate audit.log".to_owned(), ..Made::default() };
        CalibrateReport::new(made, log, fit, vec![group], levels, false, "out/settings.toml")
    }

    #[test]
    fn the_headline_comes_first_and_says_what_it_rests_on() {
        let report = report();
        insta::assert_snapshot!(format!("{}\n\n{}", report.answers.join("\n"), report.unsaid.join("\n")));
    }

    #[test]
    fn a_log_of_a_few_requests_says_nothing_of_the_server() {
        let fit = Fit { width: None, width_at_least: 1, read: None, write: None, conflict_s: None };
        let short = CalibrateReport::new(Made::default(), report().log, fit, Vec::new(), Vec::new(), true, "settings.toml");
        assert_eq!(short.answers[0], "The log has too few requests to say what a server takes, and shows no queue.");
    }

    #[test]
    fn where_no_queue_shows_the_width_is_a_lower_bound() {
        let fit = Fit { width: None, width_at_least: 3, ..report().fit };
        let calm = CalibrateReport::new(Made::default(), report().log, fit, Vec::new(), Vec::new(), true, "settings.toml");
        assert!(calm.answers[0].contains("the log shows no queue: at least 3 requests at a time"), "{:?}", calm.answers);
        assert!(calm.unsaid.iter().any(|line| line.starts_with("The width")), "{:?}", calm.unsaid);
        assert!(calm.unsaid.iter().all(|line| !line.starts_with("The network")), "it was stated");
    }
}
