//! `report reclaim`.

use ipam_reports::leaks;

use super::{Folder, cut, done, file, refused};

#[test]
fn the_files_are_the_same_whoever_runs_and_however_often() {
    let (one, two) = (Folder::missing("reclaim-one"), Folder::missing("reclaim-two"));
    let said = done("reclaim", "--seeds 3 --jobs 1", &one.0);
    assert_eq!(done("reclaim", "--seeds 3 --jobs 2", &two.0), said);
    let files = |folder: &Folder| ["reclaims.csv", "runs.csv", "paths.csv", "index.html"].map(|name| folder.text(name));
    let whole = files(&one);
    assert!(whole == files(&two), "one job and two write other files");
    assert_eq!(whole[1].lines().count(), 1 + 2 * 3);
    // In the middle of the second scenario.
    cut(&one, "runs.csv", 5);
    cut(&one, "reclaims.csv", whole[0].lines().count() - 2);
    assert_eq!(done("reclaim", "--seeds 3", &one.0), said);
    assert!(whole == files(&one), "what was finished is kept, and the rest is what it would have been");
    let again = Folder::missing("reclaim-again");
    let drawn = done("reclaim", &format!("--from {}", one.0.join("reclaims.csv").display()), &again.0);
    assert_eq!(drawn, said);
    assert_eq!(one.text("reclaim-leaks-delay.svg"), again.text("reclaim-leaks-delay.svg"));
    assert!(again.0.join("reclaim-leaks-margin.png").exists());
}

#[test]
fn a_healthy_controller_keeps_its_bounds_and_a_node_that_is_cut_off_has_no_margin() {
    let folder = Folder::missing("reclaim-hazard");
    let scenario = file("scenarios/smoke/unreachable-node.toml");
    done("reclaim", &format!("{scenario} --seeds 4"), &folder.0);
    let found = leaks::read(&folder.text("reclaims.csv")).unwrap();
    let of = |name: &str| found.iter().filter(|one| one.scenario == name).map(|one| one.reclaimed.clone()).collect::<Vec<_>>();
    let hazard = of("unreachable-node-serves-on");
    assert!(!hazard.is_empty() && hazard.iter().all(|one| one.answered && one.margin.unwrap().as_micros() < 0));
    let dead = of("dead-node-gives-back");
    assert!(!dead.is_empty());
    for one in hazard.iter().chain(&dead) {
        let (delay, bound) = (one.delay.unwrap().as_micros(), one.bound.unwrap().as_micros() as i64);
        assert!(delay <= bound, "{one:?}");
    }
}

#[test]
fn what_is_wrong_gets_one_sentence_and_nothing_is_done() {
    let folder = Folder::missing("reclaim-wrong");
    let counter = file("scenarios/smoke/counter-calm.toml");
    for (arguments, expected) in [
        (counter.as_str(), "nothing in `counter-calm` reclaims addresses"),
        ("nowhere.toml", "nowhere.toml"),
        ("--seeds 0", "expected a number from 1 on"),
        ("--variant calm", "<SCENARIO>"),
        ("--from nowhere.csv", "nowhere.csv: cannot be read: no such file"),
    ] {
        refused("reclaim", arguments, &folder.0, expected);
    }
    assert!(!folder.0.exists());
    let own = Folder::missing("reclaim-own");
    std::fs::create_dir_all(&own.0).unwrap();
    for text in ["", "a,b\n1,2\n"] {
        std::fs::write(own.0.join("a.csv"), text).unwrap();
        let from = format!("--from {}", own.0.join("a.csv").display());
        refused("reclaim", &from, &folder.0, "it is no table of reclaimed addresses");
    }
    refused("reclaim", "--seeds 1", &own.0, "holds other files, such as a.csv");
    assert_eq!(std::fs::read_dir(&own.0).unwrap().count(), 1);
}
