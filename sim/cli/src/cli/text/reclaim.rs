//! The margins of reclaim to addresses in use, and the time for which it left addresses unused: a line per scenario that reclaims.

use ipam_reports::spread::{Margin, Spread};
use ipam_reports::{RunReport, ScenarioResult, human};

use super::Paint;
use super::table::{Align, Table};

/// One aligned line per scenario in which anything was reclaimed; nothing if there is none.
pub(super) fn reclaims(report: &RunReport, paint: Paint) -> Vec<String> {
    use Align::{Left, Right};
    let mut table = Table::new([Left, Left, Right, Right, Right, Right, Right, Right, Right, Right, Right, Right]);
    let head = ["", "scenario", "addresses", "trace", "scan", "sweep", "negative", "margin min", "margin p50", "delay p50", "p99", "max"];
    table.painted(head.map(str::to_owned), move |_, text| paint.dim(text));
    let mut lines = 0;
    for cells in report.scenarios.iter().filter_map(cells) {
        table.row(cells);
        lines += 1;
    }
    if lines == 0 { Vec::new() } else { table.lines() }
}

fn cells(scenario: &ScenarioResult) -> Option<[String; 12]> {
    let reclaim = scenario.reclaim.as_ref()?;
    let total = reclaim.total();
    if total.records == 0 {
        return None;
    }
    let told = |margin: Option<Margin>| margin.map(|margin| margin.to_string()).unwrap_or_default();
    let quantile = |spread: &Spread, p| told(spread.quantile(p));
    Some([
        "reclaim".to_owned(),
        scenario.name.clone(),
        human::count(total.records),
        human::count(reclaim.trace.records),
        human::count(reclaim.scan.records),
        human::count(reclaim.sweep.records),
        human::count(total.negative),
        told(total.margin.least()),
        quantile(&total.margin, 0.5),
        quantile(&total.delay, 0.5),
        quantile(&total.delay, 0.99),
        told(total.delay.greatest()),
    ])
}

#[cfg(test)]
mod tests {
    use ipam_reports::Seconds;
    use ipam_reports::reclaim::{ReclaimFigures, ReclaimPath, ReclaimRun, Reclaimed};

    use super::*;

    fn reclaimed(path: ReclaimPath, margin: i64, delay: i64) -> Reclaimed {
        Reclaimed {
            at: Seconds::from_micros(90_000_000),
            path,
            row: "S-6".into(),
            pool: "pool-0".into(),
            address: std::net::IpAddr::from([10, 0, 0, 1]),
            pod: "default/web-0".into(),
            margin: Some(Margin::from_micros(margin)),
            answered: margin < 0,
            delay: Some(Margin::from_micros(delay)),
            end: None,
            bound: None,
        }
    }

    #[test]
    fn a_scenario_that_reclaims_has_one_line() {
        let records = vec![
            reclaimed(ReclaimPath::Trace, 3_000_000, 1_000_000),
            reclaimed(ReclaimPath::Scan, -41_200_000, 250_000),
            reclaimed(ReclaimPath::Scan, 5_000_000, 30_000_000),
        ];
        let mut figures = ReclaimFigures::default();
        figures.add(&ReclaimRun { records, ..ReclaimRun::default() });
        let with = ScenarioResult { reclaim: Some(figures), ..ScenarioResult::new("leaks", "f", []) };
        let idle = ScenarioResult { reclaim: Some(ReclaimFigures::default()), ..ScenarioResult::new("idle", "g", []) };
        let without = ScenarioResult::new("other", "h", []);
        let told = |scenarios| reclaims(&RunReport::new(scenarios, false), Paint::PLAIN);
        assert_eq!(
            told(vec![with, idle.clone(), without.clone()]),
            [
                "         scenario  addresses  trace  scan  sweep  negative  margin min  margin p50  delay p50   p99   max",
                "reclaim  leaks             3      1     2      0         1     -41.2 s         3 s        1 s  30 s  30 s",
            ]
        );
        assert!(told(vec![idle, without]).is_empty());
    }
}
