//! `report metrics`.

use ipam_reports::metrics::{self, Source};

use super::{Folder, cut, done, file, refused};

/// A question with two values of a setting, for a scenario that is not one of Spiderpool.
fn asked(more: &str) -> String {
    format!("{} --vary workload.clients=2,6 --seeds 5 {more}", file("scenarios/smoke/counter-calm.toml"))
}

#[test]
fn the_files_are_the_same_whoever_runs_and_however_often() {
    let (one, two) = (Folder::missing("metrics-one"), Folder::missing("metrics-two"));
    let said = done("metrics", &asked("--jobs 1"), &one.0);
    assert_eq!(done("metrics", &asked("--jobs 2"), &two.0), said);
    let files = |folder: &Folder| ["values.csv", "runs.csv", "metrics.csv", "index.html"].map(|name| folder.text(name));
    let whole = files(&one);
    assert!(whole == files(&two), "one job and two write other files");
    assert_eq!(whole[1].lines().count(), 1 + 2 * 5);
    // In the middle of the second point.
    cut(&one, "runs.csv", 8);
    cut(&one, "values.csv", whole[0].lines().count() - 3);
    assert_eq!(done("metrics", &asked(""), &one.0), said);
    assert!(whole == files(&one), "what was finished is kept, and the rest is what it would have been");
    let again = Folder::missing("metrics-again");
    assert_eq!(done("metrics", &format!("--from {}", one.0.join("values.csv").display()), &again.0), said);
    assert_eq!(one.text("run-requests.svg"), again.text("run-requests.svg"));
    // The same runs, with only one of the metrics.
    let only = done("metrics", &asked("--metric conflicts"), &one.0);
    assert!(only.contains("conflicts") && !only.contains("requests"), "{only}");
}

#[test]
fn each_number_of_a_run_is_counted_at_its_point() {
    let folder = Folder::missing("metrics-numbers");
    let said = done("metrics", &asked(""), &folder.0);
    let values = metrics::read(&folder.text("values.csv")).unwrap();
    let requests = |varied: &str| -> Vec<f64> {
        values.iter().filter(|one| one.metric == "requests" && one.varied == varied).map(|one| one.value).collect()
    };
    let (of_few, of_many) = (requests("workload.clients=2"), requests("workload.clients=6"));
    let (few, many): (f64, f64) = (of_few.iter().sum(), of_many.iter().sum());
    assert!(of_few.len() == 5 && many > few && few > 0.0, "{few} {many}");
    assert!(values.iter().all(|one| one.source == Source::Run), "the counter has no metric of its own");
    assert!(said.contains("counter-calm, clients 2") && said.contains("counter-calm, clients 6"), "{said}");
    // Compared with itself nothing changes; a run of the sweep with the same seeds gives the same number.
    let same = Folder::missing("metrics-same");
    let beside = done("metrics", &asked(&format!("--against {}", folder.0.display())), &same.0);
    assert!(beside.contains("The settings are the same."), "{beside}");
    let text = folder.text("metrics.csv");
    let mut table = csv::Reader::from_reader(text.as_bytes());
    let head = table.headers().unwrap().clone();
    let at = |row: &csv::StringRecord, name: &str| row[head.iter().position(|column| column == name).unwrap()].to_owned();
    let rows: Vec<csv::StringRecord> = table.records().map(Result::unwrap).collect();
    let row = rows.iter().find(|row| at(row, "metric") == "requests" && at(row, "varied") == "workload.clients=6").unwrap();
    assert_eq!((at(row, "runs"), at(row, "sum")), ("5".to_owned(), many.to_string()));
    assert_eq!(at(row, "max"), of_many.into_iter().fold(0.0, f64::max).to_string());
}

#[test]
fn what_is_wrong_gets_one_sentence_and_nothing_is_done() {
    let folder = Folder::missing("metrics-wrong");
    for (arguments, expected) in [
        (asked("--metric conflict"), "nothing counts `conflict` in these runs\n  the nearest is `conflicts`"),
        (asked("--vary workload.clients=7"), "`workload.clients` is varied twice"),
        (asked("--vary workload.cliants=7"), "--vary workload.cliants=7"),
        (asked("--vary instances=2"), "name a key of the scenario's file with its table"),
        (String::new(), "<SCENARIO>"),
        ("nowhere.toml".to_owned(), "nowhere.toml"),
        ("--from nowhere.csv".to_owned(), "nowhere.csv: cannot be read: no such file"),
    ] {
        refused("metrics", &arguments, &folder.0, expected);
    }
    assert!(!folder.0.exists());
    let own = Folder::missing("metrics-own");
    std::fs::create_dir_all(&own.0).unwrap();
    std::fs::write(own.0.join("a.csv"), "a,b\n1,2\n").unwrap();
    refused("metrics", &format!("--from {}", own.0.join("a.csv").display()), &folder.0, "it is no table of numbers of metrics");
    refused("metrics", &asked(""), &own.0, "holds other files, such as a.csv");
    assert_eq!(std::fs::read_dir(&own.0).unwrap().count(), 1);
}
