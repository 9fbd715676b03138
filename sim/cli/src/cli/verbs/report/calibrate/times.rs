//! The latency of requests when no other request is in flight, and the distribution of latencies by verb and resource.

use std::collections::BTreeMap;

use ipam_reports::calibrate::{Group, Kind, Took};

use kube_sim::net::Delay;

use super::requests::{Log, Request};

/// The number of requests that is enough to estimate the latency of their kind.
pub(super) const ENOUGH: usize = 20;

/// The quantile of the standard normal distribution at 0.99.
const Z99: f64 = 2.326_347_874_040_841;

/// A lognormal latency, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Latency {
    pub(super) mean: f64,
    pub(super) median: f64,
    pub(super) sigma: f64,
}

/// The quantile of the standard normal distribution at 0.75, times the square root of 2: half of the differences between two normally
/// distributed numbers are below this many standard deviations.
const HALF_OF_DIFFERENCES: f64 = 0.674_489_750_196_081_7 * std::f64::consts::SQRT_2;

/// Requests within this time of each other meet the server in the same state.
const MOMENT: i64 = 1_000_000;

impl Latency {
    /// Estimates the latency of requests of one kind, given in the order of arrival. The mean is that of all requests: it determines how
    /// long others wait. The scatter is that between neighbours: a server is slow for a while, for all requests at once, and independent
    /// draws with the scatter of the whole log would separate writers that really stay in step.
    fn of(requests: &[&Request]) -> Option<Self> {
        let mean = requests.iter().map(|request| request.took).sum::<i64>() as f64 / requests.len() as f64;
        if requests.is_empty() {
            return None;
        }
        let log = |request: &Request| (request.took.max(1) as f64).ln();
        let neighbours = requests.windows(2).filter(|pair| pair[1].at - pair[0].at < MOMENT);
        let mut differences: Vec<f64> = neighbours.map(|pair| (log(pair[1]) - log(pair[0])).abs()).collect();
        differences.sort_by(f64::total_cmp);
        let sigma = differences.get(differences.len() / 2).map_or(0.0, |half| half / HALF_OF_DIFFERENCES);
        let mean = mean.max(1.0);
        Some(Self { mean, median: mean / (sigma * sigma / 2.0).exp(), sigma })
    }

    /// The delay from which a simulated server draws.
    pub(super) fn delay(&self) -> Delay {
        let [median, p99] = [self.median, self.p99()].map(|micros| micros.round() as u64);
        Delay::lognormal_us(median, p99, u64::from(u32::MAX))
    }

    pub(super) fn p99(&self) -> f64 {
        self.median * (self.sigma * Z99).exp()
    }
}

/// The smallest of the sorted numbers that this fraction of them does not exceed.
fn quantile(sorted: &[i64], part: f64) -> Option<i64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get(((sorted.len() as f64 * part).ceil() as usize).clamp(1, last + 1) - 1).copied()
}

/// The latencies of requests that nothing delays.
pub(super) struct Times {
    /// The latency of each class, from requests that were carried out.
    of_class: Vec<Latency>,
    pub(super) read: Option<Took>,
    pub(super) write: Option<Took>,
    /// The additional latency of a write that meets a conflict, in microseconds.
    pub(super) conflict: Option<f64>,
}

impl Times {
    /// The latencies in a log. `resource` names the resource whose reads and writes are used; otherwise all resources are.
    pub(super) fn of(log: &Log, resource: Option<&str>) -> Self {
        let is_wanted = |class: usize| resource.is_none_or(|wanted| log.classes[class].1 == wanted);
        let gets = |class: usize| log.classes[class].0 == "get";
        let wanted = |kind: Kind, only_gets: bool| {
            let one = move |request: &&Request| {
                request.counts && request.kind == kind && is_wanted(request.class) && (!only_gets || gets(request.class))
            };
            took(log.requests.iter().filter(one))
        };
        // The latency of a list depends on its number of objects, which no event contains.
        let read = wanted(Kind::Read, true).or_else(|| wanted(Kind::Read, false));
        let write = wanted(Kind::Write, false);
        let of_kind = |kind: Kind| latency(log.requests.iter().filter(move |request| request.counts && request.kind == kind));
        let usual = of_kind(Kind::Read).or_else(|| of_kind(Kind::Write)).unwrap_or(Latency { mean: 1.0, median: 1.0, sigma: 0.0 });
        let of_class = |class: usize| {
            let carried_out = |request: &&Request| request.class == class && request.counts && request.kind != Kind::Conflict;
            let own = latency(log.requests.iter().filter(carried_out));
            let kind = log.requests.iter().find(|request| request.class == class).map_or(Kind::Read, |request| request.kind);
            own.or_else(|| of_kind(if kind == Kind::Read { Kind::Read } else { Kind::Write })).unwrap_or(usual)
        };
        Self { of_class: (0..log.classes.len()).map(of_class).collect(), read, write, conflict: conflict(log, &is_wanted) }
    }

    /// The latency of a request, without the additional latency of a conflict.
    pub(super) fn of_request(&self, request: &Request) -> Latency {
        self.of_class[request.class]
    }
}

/// The calmest requests, in the order of arrival: those that arrived while nothing was in flight or, if these are too few, those that met
/// the lowest load.
fn calmest<'a>(requests: impl Iterator<Item = &'a Request>) -> Vec<&'a Request> {
    let mut all: Vec<&Request> = requests.collect();
    all.sort_by_key(|request| request.load);
    let calm = all.partition_point(|request| request.load == 0).max(ENOUGH.min(all.len()));
    all.truncate(calm);
    all.sort_by_key(|request| request.at);
    all
}

fn latency<'a>(requests: impl Iterator<Item = &'a Request>) -> Option<Latency> {
    let calm = calmest(requests);
    if calm.len() < ENOUGH { None } else { Latency::of(&calm) }
}

fn took<'a>(requests: impl Iterator<Item = &'a Request>) -> Option<Took> {
    let calm = calmest(requests);
    let latency = Latency::of(&calm).filter(|_| calm.len() >= ENOUGH)?;
    let seconds = |micros: f64| micros / 1e6;
    Some(Took {
        mean_s: seconds(latency.mean),
        median_s: seconds(latency.median),
        p99_s: seconds(latency.p99()),
        max_s: seconds(calm.iter().map(|request| request.took).max().unwrap_or_default() as f64),
        requests: calm.len() as u64,
    })
}

/// The difference between a calm write that meets a conflict and a calm one of the same class that does not. Under load the two wait
/// differently: of writers in step the first is carried out, and those behind it are refused.
fn conflict(log: &Log, is_wanted: &impl Fn(usize) -> bool) -> Option<f64> {
    let mut cells: BTreeMap<usize, [(f64, f64); 2]> = BTreeMap::new();
    let calm = |request: &&Request| request.load == 0 && request.counts && request.kind != Kind::Read && is_wanted(request.class);
    for request in log.requests.iter().filter(calm) {
        let one = &mut cells.entry(request.class).or_default()[usize::from(request.kind == Kind::Conflict)];
        *one = (one.0 + 1.0, one.1 + request.took as f64);
    }
    let enough = ENOUGH as f64 / 4.0;
    let (mut weight, mut sum) = (0.0, 0.0);
    for [fine, refused] in cells.values().filter(|[fine, refused]| fine.0 >= enough && refused.0 >= enough) {
        weight += refused.0;
        sum += refused.0 * (refused.1 / refused.0 - fine.1 / fine.0);
    }
    (weight >= ENOUGH as f64).then(|| (sum / weight).max(0.0))
}

/// The bin of a load; loads in one bin are treated alike: 0, 1, 2 to 3, 4 to 7 …
pub(super) fn bin(load: u32) -> u32 {
    load.checked_ilog2().map_or(0, |log| log + 1)
}

/// The lowest and the highest load of a bin.
pub(super) fn ends(bin: u32) -> (u32, u32) {
    if bin == 0 { (0, 0) } else { (1 << (bin - 1), (1 << (bin - 1)) * 2 - 1) }
}

/// The requests of each verb and resource, the most frequent first.
pub(super) fn groups(log: &Log) -> Vec<Group> {
    let seconds = |micros: i64| micros as f64 / 1e6;
    let mut groups: Vec<Group> = (0..log.classes.len())
        .map(|class| {
            let of_class = || log.requests.iter().filter(move |request| request.class == class);
            let mut all: Vec<i64> = of_class().map(|request| request.took).collect();
            all.sort_unstable();
            let mut calm: Vec<i64> = of_class().filter(|request| request.load == 0).map(|request| request.took).collect();
            calm.sort_unstable();
            let (verb, resource) = log.classes[class].clone();
            Group {
                verb,
                resource,
                requests: all.len() as u64,
                conflicts: of_class().filter(|request| request.kind == Kind::Conflict).count() as u64,
                calm: calm.len() as u64,
                calm_mean_s: (!calm.is_empty()).then(|| seconds(calm.iter().sum()) / calm.len() as f64),
                calm_p50_s: quantile(&calm, 0.5).map(seconds),
                calm_p99_s: quantile(&calm, 0.99).map(seconds),
                p50_s: quantile(&all, 0.5).map_or(0.0, seconds),
                p99_s: quantile(&all, 0.99).map_or(0.0, seconds),
            }
        })
        .collect();
    groups.sort_by(|one, other| (other.requests, &one.verb, &one.resource).cmp(&(one.requests, &other.verb, &other.resource)));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::verbs::report::calibrate::requests::tests::log_of;

    #[test]
    fn loads_double_from_bin_to_bin() {
        assert_eq!([0, 1, 2, 3, 4, 7, 8].map(bin), [0, 1, 2, 2, 3, 3, 4]);
        assert_eq!([0, 1, 2, 3].map(ends), [(0, 0), (1, 1), (2, 3), (4, 7)]);
        assert!((0..200).all(|load| (ends(bin(load)).0..=ends(bin(load)).1).contains(&load)));
    }

    #[test]
    fn the_mean_is_that_of_all_and_the_scatter_that_of_neighbours() {
        // Slow for a while: ten times as long, and as steady.
        let steady = |number: i64| if number % 2 == 0 { 1_000 } else { 1_100 };
        let all: Vec<(i64, i64, Kind)> =
            (0..200).map(|number| (number * 20_000, steady(number) * if number < 100 { 1 } else { 10 }, Kind::Read)).collect();
        let log = log_of(&all);
        let latency = Latency::of(&log.requests.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(latency.mean, 5_775.0);
        assert!((0.05..0.2).contains(&latency.sigma), "{latency:?}");
        assert!((latency.median * (latency.sigma.powi(2) / 2.0).exp() - latency.mean).abs() < 1e-6);
        assert!((latency.median..latency.median * 2.0).contains(&latency.p99()), "{latency:?}");
        assert_eq!((quantile(&[], 0.5), quantile(&[7], 0.99), quantile(&[1, 2, 3, 4], 0.5)), (None, Some(7), Some(2)));
        assert!(Latency::of(&[]).is_none());
    }

    #[test]
    fn draws_of_a_lognormal_have_its_scatter() {
        use sim_config::draw::{Concern, Draw};
        let mut draw = Draw::new(3, Concern::Workload, 0);
        let sampler = Delay::lognormal_us(1_000, 3_202, u64::from(u32::MAX)).sampler();
        let all: Vec<(i64, i64, Kind)> =
            (0..4_000).map(|number| (number * 50_000, sampler.sample(draw.unit()).as_micros() as i64, Kind::Read)).collect();
        let latency = Latency::of(&log_of(&all).requests.iter().collect::<Vec<_>>()).unwrap();
        assert!((latency.sigma - 0.5).abs() < 0.03, "{latency:?}");
    }

    #[test]
    fn a_conflict_is_measured_against_calm_writes() {
        // Under load, a conflict waits for the write that won: that is not the additional latency of a conflict.
        let of = |number: i64| {
            let at = number * 100_000;
            let calm = [(at, 2_000, Kind::Write), (at + 20_000, 2_400, Kind::Conflict)];
            let loaded = [(at + 50_000, 2_000, Kind::Write), (at + 50_001, 9_000, Kind::Conflict), (at + 50_002, 3_000, Kind::Read)];
            calm.into_iter().chain(loaded)
        };
        let mut log = log_of(&(0..40).flat_map(of).collect::<Vec<_>>());
        for request in &mut log.requests {
            request.class = usize::from(request.kind != Kind::Read);
        }
        let times = Times::of(&log, None);
        assert_eq!(times.conflict, Some(400.0));
        assert_eq!(times.write.map(|took| (took.mean_s, took.requests)), Some((0.002, 80)));
        assert!(Times::of(&log, Some("pods")).write.is_none());
        log.requests.retain(|request| request.kind != Kind::Conflict || request.load > 0);
        assert_eq!(Times::of(&log, None).conflict, None);
    }
}
