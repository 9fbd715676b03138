//! Figures of reclaim: pods of a node that is cut off keep serving on addresses that were reclaimed, those of a node that is down do not.

use ipam_reports::reclaim::{PathFigures, ReclaimFigures};
use ipam_reports::{RunReport, ScenarioResult, merge};

use super::{ipam_sim, scenarios, scratch};

/// The report of `run` on the scenario with these arguments, and its `reclaims.csv`.
fn run(name: &str, arguments: &[&str]) -> (RunReport, String) {
    let (file, out) = (scenarios().join("smoke/unreachable-node.toml"), scratch(name));
    let common =
        ["run", file.to_str().unwrap(), "--seeds", "8", "--no-shrink", "--format", "json", "--out", out.to_str().unwrap(), "--force"];
    let (code, report, error) = ipam_sim(&[&common, arguments].concat());
    assert_eq!(code, 0, "{report}{error}");
    (RunReport::from_json(&report).unwrap(), std::fs::read_to_string(out.join("reclaims.csv")).unwrap())
}

fn of<'a>(report: &'a RunReport, name: &str) -> &'a ReclaimFigures {
    let named = |scenario: &&ScenarioResult| scenario.name == name;
    report.scenarios.iter().find(named).and_then(|scenario| scenario.reclaim.as_ref()).expect("the scenario reclaims")
}

/// The margin in seconds of each row of a scenario, and whether a sandbox answered on the address.
fn rows(table: &str, scenario: &str) -> Vec<(f64, bool)> {
    let cells = table.lines().map(|line| line.split(',').collect::<Vec<_>>()).filter(|cells| cells[1] == scenario);
    cells.map(|cells| (cells[9].parse().unwrap(), cells[11] == "true")).collect()
}

#[test]
fn a_node_that_serves_on_makes_margins_negative_and_a_dead_one_positive() {
    let (report, table) = run("margins", &[]);

    let serves_on = of(&report, "unreachable-node-serves-on");
    let PathFigures { records, negative, margin, delay } = &serves_on.trace;
    assert!(*records > 0 && negative == records && serves_on.runs_negative > 0, "{serves_on:?}");
    // The node returns nine minutes after it was lost, and reclaim came within a second.
    assert!(margin.greatest().unwrap().as_micros() < -60_000_000, "{margin:?}");
    assert!(delay.least().unwrap().as_micros() >= 0 && delay.greatest().unwrap().as_micros() < 1_000_000, "{delay:?}");

    let left_alone = of(&report, "unreachable-node-is-left-alone").total();
    assert_eq!(left_alone.negative, 0, "{left_alone:?}");

    let dead = of(&report, "dead-node-gives-back").total();
    assert!(dead.records > 0 && dead.negative == 0 && dead.margin.least().unwrap().as_micros() > 0, "{dead:?}");

    // The table contains each of them.
    for (name, figures) in [("unreachable-node-serves-on", serves_on.total()), ("dead-node-gives-back", dead)] {
        let rows = rows(&table, name);
        assert_eq!(rows.len() as u64, figures.records);
        assert!(rows.iter().all(|(margin, answered)| (*margin < 0.0) == *answered), "{table}");
    }
}

#[test]
fn scans_of_standbys_and_reads_of_owners_are_counted() {
    let file = scenarios().join("smoke/reclaim-e2e.toml");
    let effort = |name: &str, arguments: &[&str]| {
        let (out, variant) = (scratch(name), "g00008-controllers-restart-again-and-again");
        let common = ["run", file.to_str().unwrap(), "--variant", variant, "--seeds", "4", "--no-shrink", "--format", "json", "--force"];
        let (_, report, _) = ipam_sim(&[&common[..], &["--out", out.to_str().unwrap()], arguments].concat());
        let effort = of(&RunReport::from_json(&report).unwrap(), variant).effort;
        let table = std::fs::read_to_string(out.join("runs.csv")).unwrap();
        // From the right: the workload is a cell that contains commas.
        let mut rows = table.lines().map(|line| line.rsplitn(4, ',').take(3).collect::<Vec<_>>());
        assert_eq!(rows.next().unwrap(), ["owner_reads", "standby_scans", "scans"]);
        let mut sums = [0; 3];
        for row in rows {
            sums.iter_mut().zip(row.iter().rev()).for_each(|(sum, cell)| *sum += cell.parse::<u64>().unwrap());
        }
        assert_eq!(sums, [effort.scans, effort.standby_scans, effort.owner_reads], "the table has what the report has");
        effort
    };
    let hardened = effort("effort", &[]);
    let scan_once = effort("effort-standbys", &["--mutation", "standbys-scan-once"]);
    let ask_always = effort("effort-owners", &["--mutation", "owner-asked-for-every-event"]);
    // Nine minutes of intervals of 30 s, and those that start again after a restart.
    assert!(hardened.standby_scans > 2 * scan_once.standby_scans, "{hardened:?} {scan_once:?}");
    assert!(scan_once.standby_scans > 0 && hardened.scans > hardened.standby_scans, "{hardened:?} {scan_once:?}");
    assert!(ask_always.owner_reads > 2 * hardened.owner_reads && hardened.owner_reads > 0, "{hardened:?} {ask_always:?}");
}

#[test]
fn shards_merge_into_the_figures_of_the_whole() {
    let (whole, _) = run("margins-whole", &[]);
    let shards = ["1/2", "2/2"].map(|shard| run(&format!("margins-{}", &shard[..1]), &["--shard", shard]).0);
    let merged = merge(shards.to_vec()).unwrap();
    for scenario in &whole.scenarios {
        assert!(scenario.reclaim.is_some());
        assert_eq!(merged.scenarios.iter().find(|other| other.name == scenario.name).unwrap().reclaim, scenario.reclaim);
    }
}
