//! Every column of every table that a report writes is explained in the documents.

use std::collections::BTreeMap;

use super::{Folder, done, file};

/// The columns of each table that `docs/tables/report-columns.md` explains, in their order.
fn explained() -> BTreeMap<String, Vec<String>> {
    let page = std::fs::read_to_string(file("docs/tables/report-columns.md")).unwrap();
    let of_table = |part: &str| {
        let name = part.lines().next().unwrap().to_owned();
        let rows = part.lines().filter(|line| line.starts_with("| `")).map(|line| line.split('|').nth(1).unwrap());
        // Column heads are in backquotes, and the heads on the console in parentheses.
        let heads = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>());
        (name, heads.collect())
    };
    page.split("\n## ").skip(1).map(of_table).collect()
}

#[test]
fn no_column_of_a_report_stays_unexplained() {
    let explained = explained();
    let mut seen: Vec<String> = Vec::new();
    let few = "--vary instances=2 --seeds 20 --precision 50%";
    let trace = format!("{} --objective refused<50% --seeds 1 --resample 20", file("scenarios/capacity/spiderpool-trace.toml"));
    for (verb, arguments) in [
        ("conflicts", few.to_owned()),
        ("conflicts", format!("{few} --vary retry=default-backoff --advise")),
        ("capacity", trace),
        ("reclaim", "--seeds 1".to_owned()),
        ("metrics", format!("{} --seeds 2", file("scenarios/smoke/counter-calm.toml"))),
        ("calibrate", file("scenarios/traces/requests.jsonl")),
    ] {
        let folder = Folder::missing(&format!("columns-{}", seen.len()));
        done(verb, &arguments, &folder.0);
        for entry in std::fs::read_dir(&folder.0).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if !name.ends_with(".csv") {
                continue;
            }
            let head: Vec<String> = folder.text(&name).lines().next().unwrap().split(',').map(str::to_owned).collect();
            assert_eq!(explained.get(&name), Some(&head), "{name} of `report {verb}`");
            seen.push(name);
        }
    }
    for name in explained.keys().filter(|name| *name != "calls.csv") {
        assert!(seen.contains(name), "no report wrote {name}");
    }
}
