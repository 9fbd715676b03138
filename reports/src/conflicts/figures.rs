//! The figures of a conflict report, and their captions.

use crate::figure::{Axis, Curve, Figure, Kind, Scale};
use crate::human;
use crate::statistics::Estimate;

use super::answer;
use super::metric::Metric;
use super::point::Point;
use super::setting::{Setting, System};
use super::{ConflictsReport, series};

/// A figure and its caption.
#[derive(Clone, Debug, PartialEq)]
pub struct Plate {
    /// The panel to which it belongs.
    pub panel: String,
    /// The curves and axes to draw.
    pub figure: Figure,
    /// The caption, in a sentence or two.
    pub caption: &'static str,
}

/// The title of a panel.
pub fn panel_title(panel: &str) -> &str {
    match panel {
        "retries" => "Ways to try again, all adaptors at once",
        "spread" => "DefaultBackoff, starts spread over time, and slow clients",
        "agents" => "Agents of Spiderpool at one pool",
        "servers" => "DefaultBackoff, all adaptors at once, servers of a size",
        "asked" => "As asked",
        other => other,
    }
}

/// The figures of all panels.
pub fn plates(report: &ConflictsReport) -> Vec<Plate> {
    if let Some(figure) = super::advice::figure(report) {
        let caption = "What each way to try again gains (to the left) and costs (to the top). Who gives up has no time.";
        return vec![Plate { panel: "advice".to_owned(), figure, caption }];
    }
    let of_panel = |panel: &str| {
        let points: Vec<&Point> = report.points.iter().filter(|point| point.setting.is_in(panel)).collect();
        plates_of(panel, &points)
    };
    report.panels().into_iter().flat_map(of_panel).collect()
}

/// The metrics that have a figure.
const DRAWN: [Metric; 7] = [
    Metric::ConflictsPerCall,
    Metric::Exhausted,
    Metric::RefusedOtherwise,
    Metric::Unanswered,
    Metric::RetriesPerSuccess,
    Metric::WastedWrites,
    Metric::Lost,
];

fn plates_of(panel: &str, points: &[&Point]) -> Vec<Plate> {
    let along = Along::of(points);
    let title = |what: &str| if panel == "asked" { what.to_owned() } else { format!("{what}: {}", lower(panel_title(panel))) };
    let drawn =
        DRAWN.into_iter().filter(|metric| *metric == Metric::ConflictsPerCall || points.iter().any(|point| point.value(*metric) > 0.0));
    let mut plates: Vec<Plate> = drawn
        .map(|metric| Plate {
            panel: panel.to_owned(),
            figure: Figure {
                id: format!("{panel}-{}", metric.name().replace('_', "-")),
                title: title(metric.title()),
                x: along.axis(points),
                y: Axis {
                    label: metric.unit().to_owned(),
                    kind: if metric.is_share() { Kind::Share } else { Kind::Count },
                    scale: Scale::Linear,
                },
                curves: curves(points, along, metric),
                dotted: "closed form",
            },
            caption: caption(metric),
        })
        .collect();
    plates.push(Plate {
        panel: panel.to_owned(),
        figure: Figure {
            id: format!("{panel}-time-to-allocate"),
            title: title("Time to allocate, p50 (dashed) and p99"),
            x: along.axis(points),
            y: Axis { label: "time until an address is allocated".to_owned(), kind: Kind::Seconds, scale: Scale::Log },
            curves: times(points, along),
            dotted: "",
        },
        caption: "How long calls took that were told an address: half of them at most the dashed line, 99 of 100 at most the solid one. \
                  Calls that gave up are not among them.",
    });
    plates
}

/// The text with a small first letter, unless it begins with a name.
fn lower(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), text.chars().skip(1).any(char::is_uppercase)) {
        (Some(first), false) => first.to_lowercase().chain(letters).collect(),
        _ => text.to_owned(),
    }
}

fn caption(metric: Metric) -> &'static str {
    match metric {
        Metric::ConflictsPerCall => {
            "How many writes of a call are refused because somebody else wrote first. Dotted: what a formula gives, where there is one \
             (B §8.2). Rings: an independent model (B §8.3)."
        }
        Metric::Exhausted => "How many of the calls give up after the last attempt that their policy grants: their pods do not start.",
        Metric::RefusedOtherwise => {
            "How many of the calls are refused for another reason than that they give up after their last attempt: a request failed or \
             took too long, or no address is free. Points without faults have no such figure."
        }
        Metric::Unanswered => {
            "How many of the calls get no answer, as a fault takes their process down. Points without faults have no such figure."
        }
        Metric::RetriesPerSuccess => {
            "How many attempts are tried again for each call that is told an address, those of calls that give up included."
        }
        Metric::WastedWrites => {
            "How many of the writes give no caller an address that it can keep: refused, or accepted and overwritten by another one."
        }
        _ => {
            "How many calls of a burst are told an address and have no record at the end: the address is free for the next caller, while a \
             pod uses it. Dotted: a formula (B §8.2). Rings: an independent model (B §8.3)."
        }
    }
}

fn curves(points: &[&Point], along: Along, metric: Metric) -> Vec<Curve> {
    let beside = |point: &Point, of: fn(&Point) -> Option<f64>| of(point).map(|value| (along.number(&point.setting), value));
    let formula: fn(&Point) -> Option<f64> = match metric {
        Metric::ConflictsPerCall => |point| point.closed_form().map(|closed| closed.conflicts_per_call),
        Metric::Exhausted => |point| point.closed_form().map(|closed| closed.exhausted),
        // A loop without losses needs no curve for them.
        Metric::Lost => |point| point.closed_form().and_then(|closed| closed.lost).filter(|lost| *lost > 0.0),
        _ => |_| None,
    };
    let model: fn(&Point) -> Option<f64> = match metric {
        Metric::ConflictsPerCall => |point| point.modelled().map(|model| model.conflicts_per_call),
        Metric::Exhausted => |point| point.modelled().map(|model| model.exhausted),
        Metric::Lost => |point| point.modelled().map(|model| model.lost).filter(|lost| *lost > 0.0),
        _ => |_| None,
    };
    let of = |(ink, (name, points)): (usize, (&str, Vec<&Point>))| Curve {
        name: name.to_owned(),
        ink,
        dashed: false,
        points: estimates(&points, along, metric),
        formula: points.iter().filter_map(|point| beside(point, formula)).collect(),
        model: points.iter().filter_map(|point| beside(point, model)).collect(),
    };
    series(points.iter().copied()).into_iter().enumerate().map(of).collect()
}

/// Two curves of one ink for each series.
fn times(points: &[&Point], along: Along) -> Vec<Curve> {
    let of = |(ink, (name, points)): (usize, (&str, Vec<&Point>))| {
        let half = Curve { ink, dashed: true, points: estimates(&points, along, Metric::AllocateP50), ..Curve::default() };
        let most = Curve { name: name.to_owned(), ink, points: estimates(&points, along, Metric::AllocateP99), ..Curve::default() };
        [half, most]
    };
    series(points.iter().copied()).into_iter().enumerate().flat_map(of).collect()
}

fn estimates(points: &[&Point], along: Along, metric: Metric) -> Vec<(f64, Estimate)> {
    points.iter().filter_map(|point| Some((along.number(&point.setting), point.get(metric)?))).collect()
}

/// The setting that changes along a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// The number of adaptors that share the pool.
    Instances,
    /// The number of nodes, each with an agent.
    Nodes,
    /// The number of pods that start on each node.
    Pods,
    /// The number of addresses in the pool.
    Pool,
    /// The share of the pool that is taken.
    Fill,
    /// The time over which starts are spread.
    Spread,
    /// The mean round trip of a read.
    Latency,
    /// The pause before a request.
    Think,
    /// The number of requests that a server works on at the same time.
    Width,
    /// The time that a server works on a read.
    Service,
}

impl Along {
    /// The first setting that takes more than one value on one curve; instances if none does.
    pub fn of(points: &[&Point]) -> Self {
        let agents = points.first().is_some_and(|point| point.setting.system == System::Spiderpool);
        let main = if agents { Along::Nodes } else { Along::Instances };
        let all = [main, Along::Pods, Along::Pool, Along::Fill, Along::Spread, Along::Latency, Along::Think, Along::Width, Along::Service];
        let curves = series(points.iter().copied());
        let moves = |along: &Along| {
            curves.iter().any(|(_, points)| points.windows(2).any(|pair| along.number(&pair[0].setting) != along.number(&pair[1].setting)))
        };
        // A fill without a pool of a given size changes both.
        let found: Vec<Along> = all.into_iter().filter(moves).collect();
        match found[..] {
            [Along::Pool, Along::Fill, ..] => Along::Fill,
            [first, ..] => first,
            [] => main,
        }
    }

    /// The position of a point on the axis.
    pub fn number(self, setting: &Setting) -> f64 {
        match self {
            Along::Instances | Along::Nodes => f64::from(setting.instances),
            Along::Pods => f64::from(setting.pods),
            Along::Pool => f64::from(setting.addresses),
            Along::Fill => setting.fill(),
            Along::Spread => setting.spread.as_f64(),
            Along::Latency => setting.read.as_f64(),
            Along::Think => setting.think.as_f64(),
            Along::Width => f64::from(setting.width),
            Along::Service => setting.service.as_f64(),
        }
    }

    /// The label of the axis.
    pub fn label(self) -> &'static str {
        match self {
            Along::Instances => "adaptors that ask for an address",
            Along::Nodes => "nodes whose agents share the pool",
            Along::Pods => "pods that start on each node",
            Along::Pool => "addresses in the pool",
            Along::Fill => "share of the pool that is taken at the beginning",
            Along::Spread => "starts are spread over",
            Along::Latency => "round trip of a read (that of a write: 2.5 times)",
            Along::Think => "pause between an answer and the next request",
            Along::Width => "requests that a server works on at a time",
            Along::Service => "how long a server works on a read (on a write: 1.5 times as long)",
        }
    }

    /// The position of a point, as a number with its unit.
    pub fn told(self, setting: &Setting) -> String {
        let number = self.number(setting);
        match self {
            Along::Instances | Along::Nodes | Along::Pods | Along::Pool | Along::Width => human::count(number as u64),
            Along::Fill => format!("{:.0} %", 100.0 * number),
            Along::Spread | Along::Latency | Along::Think | Along::Service => answer::time(number),
        }
    }

    /// The position as part of a sentence, after "with".
    pub fn said(self, setting: &Setting) -> String {
        let told = self.told(setting);
        match self {
            Along::Instances | Along::Nodes => {
                let (one, many) = setting.system.sharers();
                human::plural(u64::from(setting.instances), one, many)
            }
            Along::Pods => format!("{} on each node", human::plural(u64::from(setting.pods), "pod", "pods")),
            Along::Pool => format!("a pool of {told} addresses"),
            Along::Fill => format!("{told} of the pool taken"),
            Along::Spread => format!("starts over {told}"),
            Along::Latency => format!("reads of {told}"),
            Along::Think => format!("pauses of {told}"),
            Along::Width => format!("servers that work on {told} at a time"),
            Along::Service => format!("{told} of work for a read"),
        }
    }

    fn axis(self, points: &[&Point]) -> Axis {
        let kind = match self {
            Along::Instances | Along::Nodes | Along::Pods | Along::Pool | Along::Width => Kind::Count,
            Along::Fill => Kind::Share,
            Along::Spread | Along::Latency | Along::Think | Along::Service => Kind::Seconds,
        };
        // A logarithmic axis cannot show zero.
        let zero = points.iter().any(|point| self.number(&point.setting) <= 0.0);
        Axis { label: self.label().to_owned(), kind, scale: if zero || self == Along::Fill { Scale::Linear } else { Scale::Log } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conflicts::Made;
    use crate::conflicts::Point;
    use crate::conflicts::tests::{point, setting};

    #[test]
    fn the_axis_shows_what_changes() {
        let at = |settings: &[Setting]| {
            let points: Vec<Point> =
                settings.iter().map(|setting| Point::of(setting.clone(), 0, &crate::conflicts::tests::bursts(4, 2))).collect();
            Along::of(&points.iter().collect::<Vec<_>>())
        };
        assert_eq!(at(&[setting(4, 0), setting(8, 0)]), Along::Instances);
        assert_eq!(at(&[setting(4, 0), setting(4, 50)]), Along::Spread);
        assert_eq!(at(&[setting(4, 0)]), Along::Instances);
        assert_eq!(at(&[setting(4, 0), Setting { addresses: 16, taken: 8, ..setting(4, 0) }]), Along::Fill);
        assert_eq!(at(&[setting(4, 0), Setting { addresses: 16, ..setting(4, 0) }]), Along::Pool);
    }

    #[test]
    fn what_never_happens_has_no_figure() {
        let report = ConflictsReport::new(Made::default(), vec![point(2, 0), point(8, 0)], false);
        let ids: Vec<String> = plates(&report).into_iter().map(|plate| plate.figure.id).collect();
        assert_eq!(
            ids,
            [
                "retries-conflicts-per-call",
                "retries-exhausted",
                "retries-retries-per-success",
                "retries-wasted-writes",
                "retries-time-to-allocate"
            ]
        );
    }
}
