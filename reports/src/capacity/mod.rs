//! `report capacity`: the number of adaptors that one pool serves before an objective is missed.
//!
//! ```text
//!  objectives ─┐
//!  curve ──────┴─► bisect ─(bursts at N, until each objective is decided)─► Found ─► a sentence
//! ```
//! The search assumes that more adaptors never make an objective easier to meet.

mod search;

pub use search::{Capacity, Open, known, largest, smallest};

use serde::Serialize;

use crate::conflicts::answer;
use crate::conflicts::{ConflictsReport, Metric, Point};
use crate::demand::DemandReport;
pub use crate::objective::{Decision, Objective};

/// The largest object that etcd accepts, in bytes (B §1.2).
pub const OBJECT_MAX: u64 = 1 << 20;

/// The report of `report capacity`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum CapacityReport {
    /// A report on bursts at one pool.
    Bursts(ConflictsReport),
    /// A report on pods that come and go.
    Pods(DemandReport),
}

impl CapacityReport {
    /// The exit code of the process, one of the codes of [`crate::exit`].
    pub fn exit_code(&self) -> u8 {
        match self {
            CapacityReport::Bursts(report) => report.exit_code,
            CapacityReport::Pods(report) => report.exit_code,
        }
    }

    /// The exit code of the process, mutable, and sentences on what could not be written.
    pub fn ending(&mut self) -> (&mut u8, &[String]) {
        match self {
            CapacityReport::Bursts(report) => (&mut report.exit_code, &report.unwritten),
            CapacityReport::Pods(report) => (&mut report.exit_code, &report.unwritten),
        }
    }
}

/// The result of the search along a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The name of the curve, as its points use it.
    pub series: String,
    /// The largest number of adaptors or nodes that certainly meet the objectives.
    pub capacity: Capacity,
    /// The path of the plan of a burst that misses an objective, if there is one.
    pub plan: Option<String>,
}

/// The result of a search in a sentence; `points` are those that it tried.
pub fn sentence(found: &Found, objectives: &[Objective], points: &[&Point]) -> String {
    let wanted: Vec<String> = objectives.iter().map(Objective::to_string).collect();
    let wanted = wanted.join(" and ");
    let at = |instances: u32| points.iter().find(|point| point.setting.instances == instances);
    let figures = |instances: u32| {
        let told = |objective: &Objective| {
            let found = at(instances)?.get(objective.metric)?;
            Some(format!("{} {}", objective.name(), told(objective.metric, found)))
        };
        objectives.iter().filter_map(told).collect::<Vec<_>>().join(", ")
    };
    let proof = found.plan.as_ref().map_or_else(String::new, |plan| format!(" A burst that shows it: {plan}."));
    let series = &found.series;
    let sharers = points.first().map_or("adaptors", |point| point.setting.system.sharers().1);
    let undecided = |instances: u32| {
        let open = at(instances).is_some_and(|point| {
            let decisions = || objectives.iter().map(|objective| objective.judge(point.get(objective.metric)));
            decisions().all(|one| one != Decision::Missed)
        });
        if open { "so close that as many bursts as allowed do not decide it, which counts as missed" } else { "too many" }
    };
    match found.capacity {
        Capacity::All(most) => {
            format!("{series}: {wanted} holds for all of up to {most} {sharers} ({}), with 95 % confidence.", figures(most))
        }
        Capacity::None(least) => {
            format!("{series}: {wanted} does not hold for {least} {sharers}, {} ({}).{proof}", undecided(least), figures(least))
        }
        Capacity::UpTo(most) => format!(
            "{series}: {wanted} holds for up to {most} {sharers} ({}), with 95 % confidence; {} are {} ({}).{proof}",
            figures(most),
            most + 1,
            undecided(most + 1),
            figures(most + 1),
        ),
    }
}

fn told(metric: Metric, found: crate::statistics::Estimate) -> String {
    if metric.is_share() {
        answer::share(found)
    } else if metric.is_time() {
        let ends = match (found.low, found.high) {
            (Some(low), Some(high)) => format!(" ({} to {})", answer::time(low), answer::time(high)),
            _ => String::new(),
        };
        format!("{}{ends}", answer::time(found.value))
    } else {
        answer::number(found)
    }
}

/// Limits that do not depend on the policy: the size of the document, and the requests that a client may send.
///
/// `record_bytes` is the size of a record in the document and `empty_bytes` that of the document without any; a client may send `burst`
/// requests at once and `per_second` after that, and an allocation without a conflict takes `requests` of them.
pub fn hard_limits(record_bytes: u64, empty_bytes: u64, burst: u32, per_second: f64, requests: u32) -> [String; 2] {
    let records = OBJECT_MAX.saturating_sub(empty_bytes) / record_bytes.max(1);
    [
        format!(
            "Whatever the policy: the document takes {} bytes for each record, so that no more than {} \
             addresses of a pool can be in use (1 MiB).",
            record_bytes,
            crate::human::count(records)
        ),
        format!(
            "Whatever the policy: client-go's usual limit lets one adaptor allocate {} addresses at once and {:.1} a second after that.",
            burst / requests.max(1),
            per_second / f64::from(requests.max(1))
        ),
    ]
}

/// The same limits for Spiderpool: a record takes `record_bytes` in the status of its pool, and an agent's client may send `burst` requests
/// at once and `per_second` after that. An allocation without a conflict reads the pod, the list of pools and the pool, and writes the pool
/// and the endpoint.
pub fn agent_limits(record_bytes: u64, (per_second, burst): (f64, u32)) -> [String; 2] {
    const REQUESTS: u32 = 5;
    let records = OBJECT_MAX / record_bytes.max(1);
    [
        format!(
            "Whatever the policy: a pool takes {record_bytes} bytes for each record, so that no more than {} \
             addresses of one pool can be in use (1 MiB).",
            crate::human::count(records)
        ),
        format!(
            "Whatever the policy: with the usual limit of its client, an agent allocates {} addresses at \
             once and {:.1} a second after that.",
            burst / REQUESTS,
            per_second / f64::from(REQUESTS)
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conflicts::tests::point;

    #[test]
    fn a_search_is_told_in_a_sentence() {
        let (fine, bad) = (point(4, 0), point(5, 0));
        let objectives = ["exhausted<1%", "allocate_p99<1s"].map(|text| text.parse().unwrap());
        let said = |capacity, plan: Option<&str>| {
            let found = Found { series: "in use".to_owned(), capacity, plan: plan.map(str::to_owned) };
            sentence(&found, &objectives, &[&fine, &bad])
        };
        let all = [
            said(Capacity::UpTo(4), Some("out/capacity-5.toml")),
            said(Capacity::All(4), None),
            said(Capacity::None(5), None),
            hard_limits(300, 120, 10, 5.0, 2).join("\n"),
            agent_limits(136, (50.0, 100)).join("\n"),
        ];
        insta::assert_snapshot!(all.join("\n"));
    }
}
