//! The values of a system's metrics: a line per scenario and metric.

use ipam_reports::metric::MetricSummary;
use ipam_reports::{RunReport, human};

use super::Paint;
use super::table::{Align, Table};

/// One aligned line per metric of a scenario; nothing if there is none.
pub(super) fn metrics(report: &RunReport, paint: Paint) -> Vec<String> {
    use Align::{Left, Right};
    let mut table = Table::new([Left, Left, Left, Right, Right, Right, Right]);
    let head = ["", "scenario", "name", "seeds", "min", "mean", "max"];
    table.painted(head.map(str::to_owned), move |_, text| paint.dim(text));
    let mut lines = 0;
    for scenario in &report.scenarios {
        for metric in &scenario.metrics {
            table.row(cells(&scenario.name, metric));
            lines += 1;
        }
    }
    if lines == 0 { Vec::new() } else { table.lines() }
}

fn cells(scenario: &str, metric: &MetricSummary) -> [String; 7] {
    let number = |value: f64| if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") };
    [
        "metric".to_owned(),
        scenario.to_owned(),
        metric.name.clone(),
        human::count(metric.seeds),
        number(metric.min),
        number(metric.mean()),
        number(metric.max),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipam_reports::ScenarioResult;

    #[test]
    fn a_scenario_without_metrics_has_no_line() {
        let metrics_of = |values: &[(&str, f64)]| values.iter().filter_map(|&(name, value)| MetricSummary::of_seed(name, value)).collect();
        let with = ScenarioResult { metrics: metrics_of(&[("hold-ms", 2.5), ("retries", 7.0)]), ..ScenarioResult::new("busy", "f", []) };
        let idle = ScenarioResult::new("idle", "g", []);
        let report = |scenarios: Vec<ScenarioResult>| RunReport::new(scenarios, false);
        let paint = Paint::PLAIN;
        assert!(metrics(&report(vec![idle.clone()]), paint).is_empty());
        let lines = metrics(&report(vec![idle, with]), paint);
        let words: Vec<Vec<&str>> = lines.iter().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            words[1..],
            [["metric", "busy", "hold-ms", "1", "2.50", "2.50", "2.50"], ["metric", "busy", "retries", "1", "7", "7", "7"]]
        );
    }
}
