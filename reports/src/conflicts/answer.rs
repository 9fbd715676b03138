//! The results of points, in sentences.

use crate::human;
use crate::statistics::Estimate;

use super::closed_form::{ClosedForm, Form};
use super::figures::Along;
use super::metric::Metric;
use super::point::Point;
use super::regime::Regime;
use super::series;
use super::setting::{IN_LOOPS, RESTARTED, Setting, System, TOGETHER};

/// The share of calls from which giving up is no longer rare.
pub(super) const RARE: f64 = 0.01;

/// One sentence for each curve, and two that compare the points with the model and the formulas.
pub fn sentences(points: &[Point]) -> Vec<String> {
    let mut sentences: Vec<String> = series(points).into_iter().map(|(name, points)| of_series(name, &points)).collect();
    sentences.extend(series(points).into_iter().filter_map(|(name, points)| of_shortage(name, &points)));
    sentences.extend(of_losses(points));
    sentences.extend(of_releases(points));
    sentences.extend(of_servers(points));
    sentences.extend(of_faults(points));
    sentences.extend(beside_model(points));
    sentences.extend(beside_closed_form(points));
    sentences
}

/// Formats a share: `31.8 % (31.6 to 32.0)`.
pub fn share(estimate: Estimate) -> String {
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    let ends = match (estimate.low, estimate.high) {
        (Some(low), Some(high)) => format!(" ({} to {})", percent(low), percent(high)),
        _ => String::new(),
    };
    format!("{} %{ends}", percent(estimate.value))
}

/// Formats a number: `2.55 (2.54 to 2.56)`.
pub fn number(estimate: Estimate) -> String {
    let ends = match (estimate.low, estimate.high) {
        (Some(low), Some(high)) => format!(" ({low:.2} to {high:.2})"),
        _ => String::new(),
    };
    format!("{:.2}{ends}", estimate.value)
}

/// A time with the unit that suits it: `74.3 ms`.
pub fn time(seconds: f64) -> String {
    human::duration(crate::Seconds::from_micros((seconds * 1e6).round() as u64))
}

/// The assumptions of an answer, as they follow the name of a curve: `, all at once, servers without a queue`. The setting along the axis
/// and those that the name states are left out.
pub(super) fn assumed(name: &str, along: Along, setting: &Setting) -> String {
    let starts = match (setting.spread.is_zero(), setting.system) {
        (true, System::Byom) => "all at once".to_owned(),
        (true, System::Spiderpool) if setting.start == TOGETHER => "all at once".to_owned(),
        (true, System::Spiderpool) if setting.start == RESTARTED => "all at once, at agents that have just started".to_owned(),
        (true, System::Spiderpool) if setting.start == IN_LOOPS => "one pod of a node after the other".to_owned(),
        (true, System::Spiderpool) => "pods created at once".to_owned(),
        (false, _) => format!("starts over {}", time(setting.spread.as_f64())),
    };
    let (width, service) = (human::count(u64::from(setting.width)), time(setting.service.as_f64()));
    let servers = match (setting.width, along) {
        (0, _) => "servers without a queue".to_owned(),
        (_, Along::Width) => format!("{service} of work for a read"),
        (_, Along::Service) => format!("servers that work on {width} at a time"),
        _ => format!("servers that work on {width} at a time, {service} on a read"),
    };
    let starts = (along != Along::Spread && !name.contains(&starts)).then_some(starts);
    let faults = setting.told_faults();
    let faults = (setting.has_faults() && !name.contains(&faults)).then_some(faults);
    starts.into_iter().chain(Some(servers)).chain(faults).map(|part| format!(", {part}")).collect()
}

/// The share of the first calls that give up, where pods ask again: repeated calls spread out, and make the share of all calls smaller.
fn of_first(point: &Point) -> String {
    let first = point.get(Metric::FirstExhausted).filter(|first| *first != point.get(Metric::Exhausted).unwrap_or_default());
    first.map_or_else(String::new, |first| format!(" of all calls and {} of first ones", share(first)))
}

/// The reason why writes conflict at a point.
pub(super) fn because(point: &Point) -> String {
    match point.regime() {
        Regime::LockStep => "as all move in lock step".to_owned(),
        Regime::RoundTrips => "as round trips overlap".to_owned(),
        Regime::Queue => format!("as requests queue for {} on average", time(point.value(Metric::ServerWait))),
        Regime::Faults => "as faults hold requests up and end them".to_owned(),
    }
}

fn of_series(name: &str, points: &[&Point]) -> String {
    let along = Along::of(points);
    let name = points.first().map_or_else(String::new, |point| format!("{name}{}", assumed(name, along, &point.setting)));
    let exhausted = |point: &Point| point.get(Metric::Exhausted).unwrap_or_default();
    let is_fine = |point: &Point| exhausted(point).value < RARE;
    let served = |point: &Point| {
        let p99 = point.get(Metric::AllocateP99);
        let p99 = p99.map_or_else(String::new, |p99| format!(", 99 % of those that get an address within {}", time(p99.value)));
        format!("{}{p99}", along.said(&point.setting))
    };
    let fine = points.iter().take_while(|point| is_fine(point)).last();
    let Some(worse) = points.iter().position(|point| !is_fine(point)) else {
        return fine.map_or_else(
            || format!("{name}: no call was made."),
            |fine| {
                if exhausted(fine).high.is_some_and(|high| high >= RARE) {
                    let (found, last) = (share(exhausted(fine)), served(fine));
                    return format!(
                        "{name}: {found} of the calls give up at the last point, {last}; whether that is fewer than 1 % takes more bursts."
                    );
                }
                let most = exhausted(fine).high.map_or_else(String::new, |high| format!(" (at most {:.1} %)", high * 100.0));
                format!("{name}: fewer than 1 % of the calls give up{most} up to the last point, {}.", served(fine))
            },
        );
    };
    let before = fine.map_or_else(String::new, |fine| format!("fewer than 1 % of the calls give up with {}; ", served(fine)));
    let after = points[worse..].iter().find(|point| is_fine(point));
    let after = after.map_or_else(String::new, |fine| format!("; fewer than 1 % again with {}", served(fine)));
    let (bad, conflicts) = (points[worse], point_number(points[worse], Metric::ConflictsPerCall));
    format!(
        "{name}: {before}with {} {}{} give up, with {conflicts} conflicts a call, {}{after}.",
        along.said(&bad.setting),
        share(exhausted(bad)),
        of_first(bad),
        because(bad)
    )
}

/// A sentence on a pool with too few free addresses for all that ask: a call refused for that does not count as one that gives up after
/// conflicts.
pub fn of_shortage(name: &str, points: &[&Point]) -> Option<String> {
    let asked = |point: &Point| u64::from(point.setting.instances) * u64::from(point.setting.pods);
    let free = |point: &Point| u64::from(point.setting.addresses.saturating_sub(point.setting.taken));
    let short = points.iter().find(|point| free(point) < asked(point))?;
    let (few, many) = (free(short), asked(short));
    Some(format!(
        "{name}: with {} {many} calls want an address and {few} {} free; a call that is refused for that is not one that gives up.",
        place(short),
        if few == 1 { "is" } else { "are" },
    ))
}

fn point_number(point: &Point, metric: Metric) -> String {
    point.get(metric).map_or_else(|| "no".to_owned(), number)
}

/// The number of sharers of the pool at a point: `16 adaptors`.
fn place(point: &Point) -> String {
    let (one, many) = point.setting.system.sharers();
    human::plural(u64::from(point.setting.instances), one, many)
}

/// A sentence on the point where most acknowledged allocations are lost.
fn of_losses(points: &[Point]) -> Option<String> {
    let worst = points.iter().max_by(|left, right| left.value(Metric::LostRate).total_cmp(&right.value(Metric::LostRate)))?;
    if worst.value(Metric::LostRate) == 0.0 {
        return Some("No acknowledged allocation lost its record.".to_owned());
    }
    Some(format!(
        "{}: of a burst of {} {} acknowledged allocations lose their records, {} of those granted; {} of the writes are wasted.",
        worst.setting.series,
        place(worst),
        point_number(worst, Metric::Lost),
        share(worst.get(Metric::LostRate)?),
        share(worst.get(Metric::WastedWrites)?),
    ))
}

/// A sentence on the conflicts of releases where loops end with them, at the point where most give up.
fn of_releases(points: &[Point]) -> Option<String> {
    let exhausted = |point: &Point| point.value(Metric::ReleaseExhausted);
    let in_loops = points.iter().filter(|point| point.setting.start == IN_LOOPS && point.get(Metric::ReleaseExhausted).is_some());
    let worst = in_loops.max_by(|left, right| exhausted(left).total_cmp(&exhausted(right)))?;
    Some(format!(
        "{}: of the DELs of {} {} give up, with {} conflicts each, and leave their records behind.",
        worst.setting.series,
        place(worst),
        share(worst.get(Metric::ReleaseExhausted)?),
        point_number(worst, Metric::ReleaseConflicts),
    ))
}

/// A sentence on how the answer depends on the size of the servers, at the most sharers that were seen with several sizes.
fn of_servers(points: &[Point]) -> Option<String> {
    if points.iter().all(|point| point.setting.width == 0) {
        return Some("Without a queue no request waits for another one; `--vary width=1,2,4` says what changes when they do.".to_owned());
    }
    let others = |setting: &Setting| {
        let (panels, series) = Default::default();
        Setting { panels, series, width: 0, service: crate::Seconds::ZERO, ..setting.clone() }
    };
    let of_each = |point: &'_ Point| -> Vec<&Point> {
        let same = others(&point.setting);
        let mut found: Vec<&Point> = Vec::new();
        for other in points.iter().filter(|other| others(&other.setting) == same) {
            let size = |point: &Point| (point.setting.width, point.setting.service);
            if found.iter().all(|known| size(known) != size(other)) {
                found.push(other);
            }
        }
        found
    };
    let several = points.iter().map(of_each).filter(|group| group.len() > 1);
    let group = several.max_by_key(|group| (group[0].setting.instances, std::cmp::Reverse(group[0].setting.series.clone())))?;
    let said = |point: &&Point| {
        let size = match point.setting.width {
            0 => "without a queue".to_owned(),
            width => {
                format!("that work on {} at a time, {} on a read,", human::count(u64::from(width)), time(point.setting.service.as_f64()))
            }
        };
        let (conflicts, exhausted) = (point.value(Metric::ConflictsPerCall), 100.0 * point.value(Metric::Exhausted));
        format!("{size} {conflicts:.2} conflicts a call and {exhausted:.1} % that give up")
    };
    let parts: Vec<String> = group.iter().map(said).collect();
    Some(format!("With {}, servers {}.", place(group[0]), parts.join("; ")))
}

/// Sentences on the effect of faults, at the most sharers that were seen with several profiles or with any; then on what is not compared
/// with them.
fn of_faults(points: &[Point]) -> Vec<String> {
    let others = |setting: &Setting| Setting { panels: String::new(), series: String::new(), faults: String::new(), ..setting.clone() };
    let with: Vec<&Point> = points.iter().filter(|point| point.setting.has_faults()).collect();
    // Of several points with as many sharers, the first is taken.
    let Some(most) = with.iter().rev().max_by_key(|point| point.setting.instances) else { return Vec::new() };
    let same = others(&most.setting);
    let mut group: Vec<&Point> = Vec::new();
    for point in points.iter().filter(|point| others(&point.setting) == same) {
        if group.iter().all(|known| known.setting.faults != point.setting.faults) {
            group.push(point);
        }
    }
    let said = |point: &&Point| {
        let (conflicts, percent) = (point.value(Metric::ConflictsPerCall), |metric| 100.0 * point.value(metric));
        let p99 = point.get(Metric::AllocateP99);
        let p99 = p99.map_or_else(String::new, |p99| format!(", 99 % of those that get an address within {}", time(p99.value)));
        let gives_up = percent(Metric::Exhausted);
        let faults = point.setting.told_faults();
        if !point.setting.has_faults() {
            return format!("with {faults} {conflicts:.2} conflicts a call and {gives_up:.1} % that give up{p99}");
        }
        format!(
            "with {faults}, which {:.1} % of the bursts meet, {conflicts:.2} conflicts a call, {gives_up:.1} % that give up, {:.1} % \
             refused for another reason and {:.1} % without an answer{p99}",
            percent(Metric::MetFault),
            percent(Metric::RefusedOtherwise),
            percent(Metric::Unanswered),
        )
    };
    let parts: Vec<String> = group.iter().map(said).collect();
    vec![
        format!("{}: {}.", place(most), parts.join("; ")),
        "Formulas and independent model hold without faults: nothing stands beside points that meet some.".to_owned(),
    ]
}

/// A sentence on the number of points that agree with the independent model within its tolerance.
fn beside_model(points: &[Point]) -> Option<String> {
    let compared: Vec<bool> = points
        .iter()
        .filter_map(|point| Some(point.modelled()?.agrees(point.value(Metric::ConflictsPerCall), point.value(Metric::Exhausted))))
        .collect();
    let agree = compared.iter().filter(|agrees| **agrees).count();
    (!compared.is_empty()).then(|| {
        format!(
            "{agree} of {} points that an independent model has, too, agree with it: conflicts per call within \
             3 %, calls that give up within 0.02.",
            compared.len()
        )
    })
}

/// A sentence on the errors of the formulas.
fn beside_closed_form(points: &[Point]) -> Option<String> {
    let off = |form: Form| {
        let known =
            points.iter().filter_map(|point| point.closed_form().filter(|closed| closed.form == form).map(|closed| (point, closed)));
        let far = |of: fn(&Point) -> f64, formula: fn(ClosedForm) -> f64| {
            known
                .clone()
                .map(|(point, closed)| (of(point) - formula(closed)).abs())
                .fold(None, |most: Option<f64>, one| Some(most.map_or(one, |most| most.max(one))))
        };
        let conflicts = far(|point| point.value(Metric::ConflictsPerCall), |closed| closed.conflicts_per_call)?;
        let exhausted = far(|point| point.value(Metric::Exhausted), |closed| closed.exhausted)?;
        let what = match form {
            Form::ChainedRounds => "chained rounds, starts at once",
            Form::FixedPoint => "fixed point, starts spread wide",
        };
        Some(format!("{conflicts:.2} conflicts a call and {exhausted:.3} of the calls that give up ({what})"))
    };
    let parts: Vec<String> = [Form::ChainedRounds, Form::FixedPoint].into_iter().filter_map(off).collect();
    (!parts.is_empty())
        .then(|| format!("The formulas, which know no scatter of round trips, are at most this far off: {}.", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conflicts::tests::{bursts, point, setting};
    use crate::conflicts::{Point, Setting};
    use crate::pool::ServerQueue;

    #[test]
    fn the_sentences_say_what_a_planner_asks() {
        let mut lossy = bursts(4, 1_000);
        lossy.iter_mut().for_each(|run| run.counts.lost_at_end = 3);
        let lossy = Point::of(Setting { series: "as upstream".to_owned(), ..setting(4, 250) }, 0, &lossy);
        let sentences = sentences(&[point(2, 0), point(4, 0), point(8, 0), lossy]);
        insta::assert_snapshot!(sentences.join("\n"));
    }

    #[test]
    fn a_pool_that_is_too_small_and_bursts_that_are_too_few_are_said() {
        let few = Point::of(Setting { addresses: 5, taken: 4, ..setting(4, 0) }, 0, &bursts(4, 10));
        let said = sentences(&[few]).join("\n");
        for expected in [
            "in use, all at once, servers without a queue: 0.0 % (0.0 to ",
            "whether that is fewer than 1 % takes more bursts.",
            "with 4 adaptors 4 calls want an address and 1 is free; a call that is refused for that",
        ] {
            assert!(said.contains(expected), "{said}");
        }
        assert_eq!(of_shortage("in use", &[&point(4, 0)]), None);
    }

    #[test]
    fn the_size_of_the_servers_is_said_and_what_it_changes() {
        let sized =
            |width: u32| Setting { series: format!("width {width}"), width, service: crate::Seconds::from_micros(1_000), ..setting(8, 50) };
        let waits = |waited_us: u64| {
            let mut runs = bursts(8, 100);
            let queue = ServerQueue { requests: 100, waited: crate::Seconds::from_micros(100 * waited_us) };
            runs.iter_mut().for_each(|run| run.queue = Some(queue));
            runs
        };
        let points = [Point::of(sized(1), 0, &waits(9_000)), Point::of(sized(4), 0, &waits(100)), point(8, 50)];
        let said = sentences(&points).join("\n");
        for expected in [
            "width 1, starts over 50 ms, servers that work on 1 at a time, 1 ms on a read: with 8 adaptors",
            "conflicts a call, as requests queue for 9 ms on average.",
            "width 4, starts over 50 ms, servers that work on 4 at a time, 1 ms on a read: with 8 adaptors",
            "conflicts a call, as round trips overlap.",
            "With 8 adaptors, servers that work on 1 at a time, 1 ms on a read, 2.81 conflicts a call and \
             50.0 % that give up; that work on 4",
            "; without a queue 2.81 conflicts a call",
        ] {
            assert!(said.contains(expected), "{expected} is not in\n{said}");
        }
        assert!(!said.contains("--vary width"), "{said}");
    }

    #[test]
    fn faults_are_said_beside_what_there_is_without_and_nothing_is_compared_with_them() {
        let of = |faults: &str| {
            let mut runs = bursts(8, 100);
            runs.iter_mut().for_each(|run| run.met_fault = true);
            let series = if faults.is_empty() { "no faults".to_owned() } else { format!("{faults} faults") };
            Point::of(Setting { faults: faults.to_owned(), series, ..setting(8, 0) }, 0, &runs)
        };
        let said = sentences(&[of(""), of("hostile")]).join("\n");
        for expected in [
            "hostile faults, all at once, servers without a queue: with 8 adaptors 50.0 %",
            "give up, with 2.81 (2.80 to 2.82) conflicts a call, as faults hold requests up and end them.",
            "8 adaptors: with no faults 2.81 conflicts a call and 50.0 % that give up, 99 % of those that get an address within",
            "; with hostile faults, which 100.0 % of the bursts meet, 2.81 conflicts a call, 50.0 % that give up, 0.0 % refused for \
             another reason and 0.0 % without an answer, 99 %",
            "Formulas and independent model hold without faults: nothing stands beside points that meet some.",
            "of 1 points that an independent model has",
        ] {
            assert!(said.contains(expected), "{expected} is not in\n{said}");
        }
        assert!(!sentences(&[of("")]).join("\n").contains("hold without faults"));
        let own = of("scenario byom-swarm");
        let rests_on = assumed("as asked", Along::Instances, &own.setting);
        assert_eq!(rests_on, ", all at once, servers without a queue, the faults of byom-swarm");
    }

    #[test]
    fn nothing_lost_is_said_too() {
        assert!(sentences(&[point(2, 0)]).contains(&"No acknowledged allocation lost its record.".to_owned()));
    }
}
