//! Sentences on what a log says of its server, and on what it does not say.

use super::{Fit, Level, LogFacts};
use crate::Seconds;
use crate::human::{self, count, plural};

/// The width below which a lower bound says nothing.
const SEVERAL: u32 = 2;

/// The factor by which a second's answers must exceed the fitted rate to be more than chance.
const BEYOND: f64 = 1.1;

pub(super) fn time(seconds: f64) -> String {
    // Nanoseconds of a mean say nothing.
    human::duration(Seconds::from_micros((seconds * 1e6).round().max(0.0) as u64))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// The sentences of the answer, the headline first.
pub(super) fn sentences(log: &LogFacts, fit: &Fit, levels: &[Level], file: &str) -> Vec<String> {
    let mut answers = Vec::new();
    let took = |part: f64| {
        let read = fit.read.map(|read| format!("{} on a read", time(part * read.mean_s)));
        let write = fit.write.map(|write| format!("{} on a write", time(part * write.mean_s)));
        read.into_iter().chain(write).collect::<Vec<_>>().join(" and ")
    };
    match &fit.width {
        Some(width) => {
            let at_a_time = plural(u64::from(width.value), "request", "requests");
            let rate = width.per_second;
            let range = match (rate.low, rate.high) {
                (Some(low), Some(high)) => format!(" ({} to {})", whole(low), whole(high)),
                _ => String::new(),
            };
            answers.push(format!(
                "The server works on {at_a_time} at a time, {}: at most {}{range} requests of this mix a second.",
                took(width.share),
                whole(rate.value)
            ));
            let widths = if width.low == width.high { width.low.to_string() } else { format!("{} to {}", width.low, width.high) };
            let worst =
                levels.iter().filter_map(|level| Some((level.error()?, level))).max_by(|one, other| one.0.abs().total_cmp(&other.0.abs()));
            let worst = worst.map_or_else(String::new, |(error, level)| {
                let side = if error < 0.0 { "short" } else { "long" };
                format!(
                    ", and at worst {} too {side} ({} with {} others in flight)",
                    percent(error.abs()),
                    level.kind.name(),
                    level.others()
                )
            });
            answers.push(format!(
                "With 95 % confidence the width is {widths}; a wider server whose work takes as many times longer is nearly the same, and \
                 the rate is what counts. Mean latencies by load are {} off on average{worst}.",
                percent(width.error)
            ));
            if log.answered_per_second_max as f64 > rate.value * BEYOND {
                answers.push(format!(
                    "In its busiest second the log has {} answers: under full load the server does more than \
                     the fit says, and queues are shorter.",
                    count(log.answered_per_second_max)
                ));
            }
            answers.push(format!(
                "A calm request takes {}; {} of that keeps a processor busy, and the rest (etcd, webhooks) passes whatever the load.",
                took(1.0),
                percent(width.share)
            ));
        }
        None if fit.width_at_least >= SEVERAL => answers.push(format!(
            "The server takes {}, and the log shows no queue: at least {} at a time are answered as fast as one.",
            took(1.0),
            plural(u64::from(fit.width_at_least), "request", "requests")
        )),
        None if fit.read.is_none() && fit.write.is_none() => {
            answers.push("The log has too few requests to say what a server takes, and shows no queue.".to_owned());
        }
        None => answers.push(format!("The server takes {}, and the log is too calm to show a queue.", took(1.0))),
    }
    if let Some(more) = fit.conflict_s {
        answers.push(format!("A write that meets a conflict takes {} more than one that does not.", time(more)));
    }
    answers.push(format!("The settings are in {file}: `check` and `run` take it, and `report conflicts --servers {file}` its servers."));
    answers
}

fn whole(number: f64) -> String {
    // More than three digits of a rate would suggest too much precision.
    let digits = 10f64.powi((number.max(1.0).log10().floor() as i32 - 2).max(0));
    count(((number / digits).round() * digits) as u64)
}

/// Sentences on what the log does not say.
pub(super) fn unsaid(log: &LogFacts, fit: &Fit, network: bool) -> Vec<String> {
    let mut unsaid = Vec::new();
    if !network {
        unsaid.push(
            "The network: an audit log has the time within the server only; the settings have the usual \
             links, unless `--network` states one way."
                .to_owned(),
        );
    }
    if fit.width.is_none() {
        unsaid.push(
            "The width: no load in the log made requests wait, so that the settings have servers without a queue; a \
             log of a busier hour would say more."
                .to_owned(),
        );
    }
    if fit.conflict_s.is_none() {
        unsaid.push(
            "What a conflict takes more: too few writes met one while nothing else was in flight; the settings \
             have a quarter of the work on a write."
                .to_owned(),
        );
    }
    if fit.read.is_none() {
        unsaid.push("What a read takes: the log has too few; the settings have what a write takes.".to_owned());
    }
    if fit.write.is_none() {
        unsaid.push("What a write takes: the log has too few; the settings have what a read takes.".to_owned());
    }
    let what = "What each object of a list, each KiB of an object and each watcher of a change take more";
    unsaid.push(format!("{what}: no event says how many there were, or how large."));
    unsaid.push(
        "In which order processors work: the fit takes requests in turn; where processors share their time, and clients run on the same \
         machine, `discipline`, `side_by_side` and `client` of [cluster.capacity] say so."
            .to_owned(),
    );
    unsaid.push("Other servers: the log counts for one server; of logs of several ones the load is that of none of them.".to_owned());
    let mut left_out = |number: u64, one: &str, several: &str, what: &str| {
        if number > 0 {
            unsaid.push(format!("{} {what}.", plural(number, one, several)));
        }
    };
    left_out(log.long_running, "watch or other request", "watches or other requests", "that stay open on purpose, left out");
    left_out(log.throttled, "request", "requests", "refused with 429, left out: the server was full, which seats it had is not said");
    left_out(log.failed, "request", "requests", "failed with 5xx: a load for others, and no latency");
    left_out(log.without_time, "event", "events", "without a time stamp, left out");
    left_out(
        log.without_response,
        "request",
        "requests",
        "of whose answer the log says nothing, left out: the load was larger than it seems",
    );
    left_out(log.unordered, "event", "events", "more than a second after a later one; they are sorted by their time stamps");
    unsaid.extend(log.cut.iter().map(|place| format!("{place}: the last line is cut, and left out.")));
    unsaid
}
