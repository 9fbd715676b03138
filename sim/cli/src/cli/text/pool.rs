//! Conflicts between the instances of BYOM pools: a line per scenario that has a pool.

use ipam_reports::{RunReport, ScenarioResult, Seconds, human};

use super::Paint;
use super::table::{Align, Table};

/// One aligned line per scenario with a pool; nothing if there is none.
pub(super) fn pools(report: &RunReport, paint: Paint) -> Vec<String> {
    use Align::{Left, Right};
    let mut table = Table::new([Left, Left, Right, Right, Right, Right, Right, Right, Right, Right, Left]);
    let head = ["", "scenario", "calls", "allocated", "conflicts/call", "exhausted", "lost", "p50", "p99", "max", ""];
    table.painted(head.map(str::to_owned), move |_, text| paint.dim(text));
    let mut lines = 0;
    for scenario in &report.scenarios {
        if let Some(cells) = cells(scenario) {
            table.row(cells);
            lines += 1;
        }
    }
    if lines == 0 { Vec::new() } else { table.lines() }
}

fn cells(scenario: &ScenarioResult) -> Option<[String; 11]> {
    let pool = scenario.pool.as_ref()?;
    let counts = &pool.counts;
    let share = |count: u64| format!("{:.1} %", 100.0 * pool.per_call(count));
    let time = |time: Option<Seconds>| time.map(human::duration).unwrap_or_default();
    let rare = [
        (counts.shared_addresses, "address shared", "addresses shared"),
        (counts.stuck_versions, "version stuck", "versions stuck"),
        (counts.create_races, "create race", "create races"),
        (counts.leaked, "record leaked", "records leaked"),
        (counts.foreign_reboots, "foreign reboot", "foreign reboots"),
    ];
    let rare: Vec<String> =
        rare.iter().filter(|(count, ..)| *count > 0).map(|(count, one, many)| human::plural(*count, one, many)).collect();
    Some([
        "pool".to_owned(),
        scenario.name.clone(),
        human::count(counts.calls),
        share(counts.allocated),
        format!("{:.2}", pool.per_call(counts.conflicts)),
        share(counts.exhausted),
        human::count(counts.lost),
        time(pool.allocate.quantile(0.5)),
        time(pool.allocate.quantile(0.99)),
        if pool.allocate.count() > 0 { human::duration(pool.allocate.max()) } else { String::new() },
        rare.join(", "),
    ])
}

#[cfg(test)]
mod tests {
    use ipam_reports::pool::{PoolCounts, PoolFigures, PoolRun};

    use super::*;

    #[test]
    fn a_pool_has_one_line_and_names_only_what_happened() {
        let counts = PoolCounts {
            calls: 8,
            allocated: 6,
            refused: 2,
            conflicts: 20,
            exhausted: 2,
            lost: 5,
            shared_addresses: 1,
            ..PoolCounts::default()
        };
        let took = [47_000, 40_000, 390_000].map(Seconds::from_micros).to_vec();
        let mut pool = PoolFigures::default();
        pool.add(&PoolRun { counts, took, ..PoolRun::default() });
        let with = ScenarioResult { pool: Some(pool), ..ScenarioResult::new("burst", "f", []) };
        let without = ScenarioResult::new("other", "g", []);
        let lines = pools(&RunReport::new(vec![with, without.clone()], false), Paint::PLAIN);
        assert_eq!(
            lines,
            [
                "      scenario  calls  allocated  conflicts/call  exhausted  lost      p50     p99     max",
                "pool  burst         8     75.0 %            2.50     25.0 %     5  47.1 ms  390 ms  390 ms  1 address shared"
            ]
        );
        assert!(pools(&RunReport::new(vec![without], false), Paint::PLAIN).is_empty());
    }
}
