//! The points of a report, and the scenario behind each.

use std::path::Path;
use std::sync::Arc;

use ipam_reports::Seconds;
use ipam_reports::conflicts::{Setting, System};
use sim_byom::workload::burst::{ADDRESSES_MAX, BurstDraft, Lock, RetryName, Throttle};
use sim_config::time::{SimTime, Span};
use sim_config::{Choice, Source};
use sim_harness::check::Checks;
use sim_harness::deviation::DeviationName;
use sim_harness::plan::{Plan, hash_text};
use sim_harness::scenario::Scenario;
use sim_harness::system::RunOptions;
use sim_harness::workload::WorkloadDraft;

use super::agents;
use super::faults::{Burst, Faults, Placed};
use super::servers::Servers;
use super::sweep_point::{IN_USE, Order, SweepPoint, name_of, selection_name, update_name};
use crate::cli::CliError;
use crate::cli::report::Sharing;
use crate::cli::report::vary::{Values, Vary};

/// The file with the cluster of every point: that of the capacity scenario, built in, so that it works in any folder.
const BASE_FILE: &str = "scenarios/capacity/pool-simultaneous.toml";
const BASE: &str = include_str!("../../../../assets/pool-simultaneous.toml");

/// The time of a readiness probe, d of B §8.1.
const DIAL: Span = Span::millis(2);
/// The numbers of instances, N of B §8.3.
const INSTANCES: [u32; 6] = [2, 4, 8, 16, 32, 64];

/// The maximum number of points of a report, and of curves in a plot: more could not be told apart.
const POINTS_MAX: usize = 1_000;
pub(super) const CURVES_MAX: usize = 8;

/// A point before its bursts.
pub(super) struct Planned {
    pub(super) setting: Setting,
    pub(super) scenario: Scenario,
    pub(super) first_seed: u64,
    /// The placement of the faults, if bursts meet any.
    pub(super) faults: Option<Placed>,
}

impl Planned {
    /// The plan of a burst, with its faults placed.
    pub(super) fn draw(&self, seed: u64) -> Plan {
        let mut plan = self.scenario.draw(seed);
        if let Some(faults) = &self.faults {
            faults.place(&self.scenario, &mut plan, seed);
        }
        plan
    }

    /// The options with which its bursts run.
    pub(super) fn options(&self) -> RunOptions {
        RunOptions { planner: true, ..RunOptions::default() }
    }
}

/// The points that the user requests, those of one curve together.
pub(super) fn plan(sharing: &Sharing) -> Result<Vec<Planned>, CliError> {
    let (system, vary) = (sharing.system, &*sharing.vary);
    let base = base(system)?;
    fits(system, vary)?;
    let servers = servers(sharing)?;
    let mut points = match system {
        _ if !vary.is_empty() => asked(system, vary)?,
        System::Byom => usual(),
        System::Spiderpool => agents::usual(),
    };
    if servers.is_some() {
        // All points have the named servers.
        points.retain(|(_, _, point)| point.width == 0);
        points.iter_mut().for_each(|(_, _, point)| point.servers.clone_from(&servers));
    }
    if let Some(faults) = faults(sharing)? {
        points.iter_mut().for_each(|(_, _, point)| point.faults = Some(faults.clone()));
    }
    points.into_iter().map(|(panels, series, point)| planned(&base, &panels, &series, &point)).collect()
}

/// The servers that the user names.
pub(super) fn servers(sharing: &Sharing) -> Result<Option<Arc<Servers>>, CliError> {
    sharing.servers.as_deref().map(|file| Servers::read(file, &sharing.vary)).transpose()
}

/// The faults of the scenario that the user names.
fn faults(sharing: &Sharing) -> Result<Option<Arc<Faults>>, CliError> {
    sharing.faults.as_deref().map(|file| Faults::read(file, &sharing.vary)).transpose()
}

/// The default points: the tables of B §8.3, and the hardened and the throttled client.
fn usual() -> Vec<(String, String, SweepPoint)> {
    let over = |spread| SweepPoint { spread, ..IN_USE };
    let of_width = |width| SweepPoint { width, ..IN_USE };
    let second = Span::secs(1);
    let curves = [
        ("retries+spread+servers", "DefaultBackoff (in use)", IN_USE),
        ("retries", "DefaultRetry", SweepPoint { retry: RetryName::DefaultRetry, ..IN_USE }),
        ("retries", "12 jittered attempts", SweepPoint { retry: RetryName::Twelve, ..IN_USE }),
        ("retries", "hardened: jittered, patient", SweepPoint { retry: RetryName::Patient, ..IN_USE }),
        ("retries", "upstream: decides once", SweepPoint { once: true, ..IN_USE }),
        ("spread", "starts over 50 ms", over(Span::millis(50))),
        ("spread", "starts over 250 ms", over(Span::millis(250))),
        ("spread", "starts over 1 s", over(second)),
        ("spread", "1 s, throttled to 5 requests/s", SweepPoint { throttle: Throttle::Drained, ..over(second) }),
        ("spread", "1 s, 200 ms before each request", SweepPoint { think: Span::millis(200), ..over(second) }),
        ("servers", "servers of width 4", of_width(4)),
        ("servers", "servers of width 2", of_width(2)),
        ("servers", "servers of width 1", of_width(1)),
    ];
    let at = |(panels, series, point): (&str, &str, SweepPoint)| {
        INSTANCES.map(|instances| (panels.to_owned(), series.to_owned(), SweepPoint { instances, ..point.clone() }))
    };
    curves.into_iter().flat_map(at).collect()
}

/// Every combination of the varied values.
fn asked(system: System, vary: &[Vary]) -> Result<Vec<(String, String, SweepPoint)>, CliError> {
    let main = main_axis(system);
    let sharers = vary.iter().find(|one| one.key() == main);
    let along = if sharers.is_none_or(|one| one.values.count() > 1) {
        main
    } else {
        vary.iter().find(|one| one.values.is_numeric() && one.values.count() > 1).map_or(main, Vary::key)
    };
    let usual: &[u32] = match system {
        System::Byom => &INSTANCES,
        System::Spiderpool => &agents::NODES,
    };
    let curves = curves(system, vary, along)?;
    let axis = vary.iter().find(|one| one.key() == along);
    let count = axis.map_or(usual.len(), |axis| axis.values.count());
    if curves.len() * count > POINTS_MAX {
        return Err(CliError::usage(format!("more than {POINTS_MAX} points are asked for; vary less at a time")));
    }
    let put = |number: usize, point: &SweepPoint| match axis {
        Some(axis) => axis.values.put(number, point.clone()).1,
        None => SweepPoint { instances: usual[number], ..point.clone() },
    };
    let on_curve = |(name, point): (String, SweepPoint)| {
        (0..count).map(|number| ("asked".to_owned(), name.clone(), put(number, &point))).collect::<Vec<_>>()
    };
    Ok(curves.into_iter().flat_map(on_curve).collect())
}

/// The curves for all varied values, except those on the axis `along` the curves, with their names.
fn curves(system: System, vary: &[Vary], along: &str) -> Result<Vec<(String, SweepPoint)>, CliError> {
    for (number, one) in vary.iter().enumerate() {
        if vary[..number].iter().any(|earlier| earlier.key() == one.key()) {
            return Err(CliError::usage(format!("`{}` is varied twice; give all its values at once", one.key())));
        }
    }
    let mut curves = vec![(String::new(), SweepPoint { system, ..IN_USE })];
    for one in vary.iter().filter(|one| one.key() != along) {
        let count = one.values.count();
        let many = curves.len().saturating_mul(count);
        if many > CURVES_MAX {
            return Err(CliError::usage(format!(
                "{many} curves are more than the {CURVES_MAX} that a plot can tell apart; vary less at a time"
            )));
        }
        let extended = curves.iter().flat_map(|(name, point)| {
            (0..count).map(move |number| {
                let (value, point) = one.values.put(number, point.clone());
                // An axis with one value does not distinguish curves.
                let said = if count > 1 { said(one.key(), &value) } else { String::new() };
                let comma = if name.is_empty() || said.is_empty() { "" } else { ", " };
                (format!("{name}{comma}{said}"), point)
            })
        });
        curves = extended.collect();
    }
    for (name, _) in &mut curves {
        if name.is_empty() {
            *name = "as asked".to_owned();
        }
    }
    Ok(curves)
}

/// A curve along which the number of adaptors is searched.
pub(super) struct Line {
    pub(super) series: String,
    point: SweepPoint,
    base: Scenario,
}

impl Line {
    /// Whether its bursts meet faults.
    pub(super) fn has_faults(&self) -> bool {
        self.point.faults.is_some()
    }

    /// The point of the curve with this many adaptors.
    pub(super) fn at(&self, instances: u32) -> Result<Planned, CliError> {
        planned(&self.base, "asked", &self.series, &SweepPoint { instances, ..self.point.clone() })
    }
}

/// The curves for all varied values except the number of adaptors, and the smallest and the largest of these numbers.
pub(super) fn lines(sharing: &Sharing) -> Result<(Vec<Line>, u32, u32), CliError> {
    let (system, vary) = (sharing.system, &*sharing.vary);
    let base = base(system)?;
    fits(system, vary)?;
    let range = vary.iter().find_map(|one| match &one.values {
        Values::Instances(values) | Values::Nodes(values) => Some((*values.iter().min()?, *values.iter().max()?)),
        _ => None,
    });
    let (least, most) = range.unwrap_or(match system {
        System::Byom => (2, 256),
        System::Spiderpool => (2, 64),
    });
    let (servers, faults) = (servers(sharing)?, faults(sharing)?);
    let line = |(series, point): (String, SweepPoint)| {
        let faults = faults.clone().or(point.faults);
        Line { series, point: SweepPoint { servers: servers.clone(), faults, ..point }, base: base.clone() }
    };
    let lines = curves(system, vary, main_axis(system))?.into_iter().map(line);
    Ok((lines.collect(), least, most))
}

/// The main axis: the number of those who share the pool.
pub(super) fn main_axis(system: System) -> &'static str {
    match system {
        System::Byom => "instances",
        System::Spiderpool => "nodes",
    }
}

/// Checks that all of these axes can be varied for a system, and together.
pub(super) fn fits(system: System, vary: &[Vary]) -> Result<(), CliError> {
    let of_servers = |key| vary.iter().any(|one| one.key() == key);
    if of_servers("service") && !of_servers("width") {
        return Err(CliError::usage("`service` says how long servers of a width are busy; add e.g. `--vary width=2`".to_owned()));
    }
    match vary.iter().find(|one| !one.is_for(system)) {
        Some(one) if one.is_setting() => {
            let wrong = format!("`{}` is a key of a scenario, and these are bursts at one pool", one.key());
            Err(CliError::usage(wrong).hint("vary it with `report capacity SCENARIO` or `report reclaim SCENARIO`"))
        }
        Some(one) => Err(CliError::usage(format!("`{}` is not varied with --system {}", one.key(), system.name()))),
        None => Ok(()),
    }
}

pub(super) fn base(system: System) -> Result<Scenario, CliError> {
    let (file, text) = match system {
        System::Byom => (BASE_FILE, BASE),
        System::Spiderpool => (agents::BASE_FILE, agents::BASE),
    };
    Ok(Scenario::parse(Path::new(file), Source::new(file, text))?)
}

/// A value in the form used in names of curves.
fn said(key: &str, value: &str) -> String {
    match key {
        "retry" | "update" | "policy" => value.to_owned(),
        "throttle" if value == "none" => "no limit".to_owned(),
        "width" if value == "none" => "no queue".to_owned(),
        "faults" => format!("{} faults", if value == "none" { "no" } else { value }),
        _ => format!("{key} {value}"),
    }
}

/// A point and the scenario behind it.
pub(super) fn planned(base: &Scenario, panels: &str, series: &str, point: &SweepPoint) -> Result<Planned, CliError> {
    if point.system == System::Spiderpool {
        return agents::planned(base, panels, series, point);
    }
    let instances = point.instances;
    // As many free addresses as in B §8.1, in addition to those taken.
    let addresses = point.pool.unwrap_or_else(|| (f64::from(2 * instances) / (1.0 - point.fill)).round() as u32);
    if addresses > ADDRESSES_MAX {
        return Err(CliError::usage(format!(
            "{instances} adaptors and a fill of {} need {addresses} addresses, more than {ADDRESSES_MAX}",
            point.fill
        )));
    }
    let taken = (f64::from(addresses) * point.fill).round() as u32;
    let micros = |span: Span| Seconds::from(span.0);
    let setting = Setting {
        panels: panels.to_owned(),
        series: series.to_owned(),
        instances,
        addresses,
        taken,
        spread: micros(point.spread),
        read: micros(point.read()),
        write: Seconds::from(point.write().0),
        think: micros(point.think),
        dial: if point.tries_vms() { micros(DIAL) } else { Seconds::ZERO },
        retry: point.told_retry(&name_of(&point.retry)),
        update: update_name(point.once).to_owned(),
        selection: selection_name(point.first).to_owned(),
        throttle: name_of(&point.throttle),
        system: System::Byom,
        pods: 1,
        width: point.server_width(),
        service: Seconds::from(point.busy().0),
        start: String::new(),
        pools: point.pools,
        lock: point.order.name().to_owned(),
        faults: point.told_faults(),
    };
    let mut scenario = base.clone();
    scenario.name = "conflicts".to_owned();
    // A patient client may take half a minute; a run ends with its last call.
    scenario.phases.liveness = Choice::Is(Span::secs(60));
    // Violations by upstream's behaviour are counted, not judged.
    scenario.check = Checks::default();
    let once: &[&str] = if point.once { &["byom-decide-once", "byom-four-attempts"] } else { &[] };
    let first: &[&str] = if point.first { &["byom-select-first"] } else { &[] };
    scenario.deviations = once.iter().chain(first).filter_map(|name| DeviationName::new(name)).collect();
    scenario.deviations.sort();
    point.apply(&mut scenario.cluster)?;
    scenario.workload = WorkloadDraft::new(sim_byom::Drafts::Burst(Box::new(BurstDraft {
        // One allocator makes the calls for all.
        instances: Choice::Is(if point.order == Order::Allocator { 1 } else { instances }),
        allocations: Choice::Is(if point.order == Order::Allocator { instances } else { 1 }),
        addresses: Some(Choice::Is(addresses)),
        taken: Choice::Is(taken),
        spread: Choice::Is(point.spread),
        think: Choice::Is(point.think),
        retry: Choice::Is(point.retry),
        throttle: Choice::Is(point.throttle),
        probes: Choice::Is(point.tries_vms()),
        backoff: point.backoff,
        pools: point.pools,
        lock: if point.order == Order::Lease { Lock::Lease } else { Lock::None },
        ..BurstDraft::default()
    })));
    let first_seed = first_seed(&setting);
    let length = point.length();
    // Before a burst nothing happens: it begins after faults have had as much time as they have during it.
    let place = |faults: Arc<Faults>| faults.placed(&mut scenario, Burst { asked: SimTime::ZERO, moved: length, calls: length, length });
    let faults = point.faults.clone().map(place).transpose()?;
    Ok(Planned { setting, scenario, first_seed, faults })
}

/// The first seed of a point. Points do not share seeds, so that an unlucky sequence does not count several times. The same point has the
/// same seeds in every report.
pub(super) fn first_seed(setting: &Setting) -> u64 {
    let unnamed = Setting { panels: String::new(), series: String::new(), ..setting.clone() };
    let hash = hash_text(&serde_json::to_string(&unnamed).unwrap_or_default());
    u64::from_str_radix(&hash, 16).unwrap_or_default() % 1_000_000_000 * 1_000_000
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn vary(all: &[&str]) -> Result<Vec<Planned>, CliError> {
        plan(&Sharing { vary: all.iter().map(|one| one.parse().unwrap()).collect(), ..Sharing::default() })
    }

    fn curves(points: &[Planned]) -> Vec<(&str, Vec<u32>)> {
        let mut curves: Vec<(&str, Vec<u32>)> = Vec::new();
        for Planned { setting, .. } in points {
            match curves.last_mut().filter(|(name, _)| *name == setting.series) {
                Some((_, instances)) => instances.push(setting.instances),
                None => curves.push((&setting.series, vec![setting.instances])),
            }
        }
        curves
    }

    #[test]
    fn the_usual_points_are_those_of_the_tables_and_more() {
        let points = vary(&[]).unwrap();
        assert_eq!(points.len(), 78);
        assert!(curves(&points).iter().all(|(_, instances)| *instances == INSTANCES));
        let seeds: BTreeSet<u64> = points.iter().map(|point| point.first_seed).collect();
        let keys: BTreeSet<String> = points.iter().map(|point| point.setting.key()).collect();
        assert_eq!((seeds.len(), keys.len()), (78, 78));
        for panel in ["retries", "spread", "servers"] {
            let shown: BTreeSet<&str> =
                points.iter().filter(|point| point.setting.is_in(panel)).map(|point| &*point.setting.series).collect();
            assert!(shown.len() <= CURVES_MAX);
        }
    }

    #[test]
    fn what_has_one_value_names_no_curve_and_the_axis_runs_along_it() {
        let points = vary(&["retry=patient,twelve", "instances=2..8", "spread=50ms"]).unwrap();
        assert_eq!(curves(&points), [("patient", vec![2, 4, 8]), ("twelve", vec![2, 4, 8])]);
        let points = vary(&["spread=0,1s", "instances=16", "throttle=none,drained"]).unwrap();
        assert_eq!(curves(&points), [("no limit", vec![16, 16]), ("throttle drained", vec![16, 16])]);
        let alone = vary(&["selection=first"]).unwrap();
        assert_eq!(curves(&alone), [("as asked", INSTANCES.to_vec())]);
    }

    #[test]
    fn a_fill_leaves_as_many_free_addresses_unless_the_pool_is_given() {
        let points = vary(&["fill=0,0.5", "instances=8"]).unwrap();
        assert_eq!(points.iter().map(|point| (point.setting.addresses, point.setting.taken)).collect::<Vec<_>>(), [(16, 0), (32, 16)]);
        let points = vary(&["pool=64", "fill=0.75", "instances=8"]).unwrap();
        assert_eq!((points[0].setting.addresses, points[0].setting.taken), (64, 48));
    }

    #[test]
    fn the_same_point_has_the_same_seeds_in_every_report() {
        let usual = vary(&[]).unwrap();
        let asked = vary(&["instances=8", "retry=twelve"]).unwrap();
        let same = usual.iter().find(|point| point.setting.retry == "twelve" && point.setting.instances == 8).unwrap();
        assert_eq!(asked[0].first_seed, same.first_seed);
    }

    #[test]
    fn too_much_at_a_time_is_refused() {
        for (all, expected) in [
            (&["spread=0,1ms,2ms", "retry=patient,twelve,default-retry"][..], "9 curves are more than the 8"),
            (&["instances=2", "instances=4"], "`instances` is varied twice"),
            (&["fill=0.99", "instances=10000"], "more than 131072"),
            (&["start=together"], "`start` is not varied with --system byom"),
            (&["service=1ms"], "add e.g. `--vary width=2`"),
            (&["width=1", "service=5ms"], "a server that works for 5ms on a request cannot answer within 4ms"),
        ] {
            let error = vary(all).err().unwrap();
            assert!(error.message.contains(expected), "{}", error.message);
            assert_eq!(error.exit_code, 2);
        }
    }
}
