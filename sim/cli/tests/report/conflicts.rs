//! `report conflicts`.

use std::path::Path;

use ipam_reports::conflicts::{Metric, Point, System, table};

use super::{Folder, cut};

fn done(arguments: &str, out: &Path) -> String {
    super::done("conflicts", arguments, out)
}

fn refused(arguments: &str, out: &Path, expected: &str) {
    super::refused("conflicts", arguments, out, expected);
}

#[test]
fn points_agree_with_the_independent_model_within_its_tolerance() {
    let folder = Folder::missing("model");
    let said = done("--vary instances=4,8,16 --vary retry=default-backoff,default-retry,twelve --seeds 1000", &folder.0);
    let points = table::read(&folder.text("points.csv")).unwrap().points;
    // The tables contain N = 4 with `DefaultBackoff` only.
    let compared: Vec<bool> = points
        .iter()
        .filter_map(|point| Some(point.modelled()?.agrees(point.value(Metric::ConflictsPerCall), point.value(Metric::Exhausted))))
        .collect();
    assert_eq!(compared, [true; 7], "{said}");
    assert!(said.contains("7 of 7 points that an independent model has, too, agree with it"), "{said}");
}

#[test]
fn upstreams_update_loses_what_the_model_says() {
    let folder = Folder::missing("lost");
    done("--vary instances=4,8 --vary update=decides-once --seeds 1000", &folder.0);
    for point in table::read(&folder.text("points.csv")).unwrap().points {
        let (lost, model) = (point.get(Metric::Lost).unwrap(), point.modelled().unwrap());
        assert!((lost.value / model.lost - 1.0).abs() < 0.03, "{lost:?}, expected {model:?}");
    }
}

#[test]
fn the_files_are_the_same_whoever_runs_the_bursts_and_however_often() {
    let (one, two) = (Folder::missing("one"), Folder::missing("two"));
    let asked = "--vary instances=2,3 --vary spread=0,50ms --seeds 200";
    done(&format!("{asked} --jobs 1"), &one.0);
    done(&format!("{asked} --jobs 2"), &two.0);
    let files = |folder: &Folder| ["points.csv", "runs.csv", "index.html"].map(|name| folder.text(name));
    let whole = files(&one);
    assert!(whole == files(&two), "one job and two write other files");
    assert_eq!((whole[0].lines().count(), whole[1].lines().count()), (1 + 4, 1 + 4 * 200));
    // In the middle of the third point.
    cut(&one, "points.csv", 3);
    cut(&one, "runs.csv", 550);
    done(asked, &one.0);
    assert!(whole == files(&one), "what was finished is kept, and the rest is what it would have been");
}

#[test]
fn a_report_is_drawn_again_from_its_points() {
    let (first, again) = (Folder::missing("first"), Folder::missing("again"));
    let said = done("--vary instances=2..8 --seeds 100", &first.0);
    let points = first.0.join("points.csv");
    let drawn = done(&format!("--from {}", points.display()), &again.0);
    assert_eq!(drawn, said);
    for name in ["asked-conflicts-per-call.svg", "asked-time-to-allocate.svg"] {
        assert_eq!(first.text(name), again.text(name));
    }
    assert!(again.text("index.html").contains("drawn from"));
    assert!(again.0.join("asked-conflicts-per-call.png").exists());
}

#[test]
fn what_is_wrong_gets_one_sentence_and_nothing_is_done() {
    let folder = Folder::missing("wrong");
    for (arguments, expected) in [
        ("--vary instances=64..2", "the range `64..2` is reversed"),
        ("--vary speed=1", "there is nothing called `speed` to vary"),
        ("--vary retry=never", "unknown variant `never`"),
        ("--precision 0", "expected a part from 0.1% to 50%"),
        ("--seeds 0", "expected a number from 1 on"),
        ("--system docker", "there is no system `docker`"),
        ("--system spiderpool --vary retry=twelve", "`retry` is not varied with --system spiderpool"),
        ("--vary nodes=2", "`nodes` is not varied with --system byom"),
        ("--vary faults=stormy", "`stormy` is no profile of faults; there are none, mixed, hostile"),
        ("--vary faults=calm", "a calm run has no faults"),
        ("--vary faults=hostile --faults a.toml", "a.toml says which faults there are; give one of them"),
        ("--vary instances=8 --vary faults=mixed --advise", "compares ways to try again without faults"),
        ("--faults nowhere.toml", "nowhere.toml: there is no such file or folder"),
        ("--from nowhere.csv", "nowhere.csv: cannot be read: no such file"),
        ("--from a.csv --vary instances=2", "cannot be used with"),
        ("--from a.csv --faults b.toml", "cannot be used with"),
    ] {
        refused(arguments, &folder.0, expected);
    }
    assert!(!folder.0.exists());
    let own = Folder::missing("own");
    std::fs::create_dir_all(&own.0).unwrap();
    for (text, expected) in [("", "it is no table of points"), ("a,b\n1,2\n", "it is no table of points")] {
        std::fs::write(own.0.join("a.csv"), text).unwrap();
        refused(&format!("--from {}", own.0.join("a.csv").display()), &folder.0, expected);
    }
    refused("--vary instances=2 --seeds 10", &own.0, "holds other files, such as a.csv");
    done("--vary instances=2 --seeds 10 --force", &own.0);
    refused("--vary instances=3 --seeds 10", &own.0, "holds a report on other points");
    done("--vary instances=3 --seeds 10 --force", &own.0);
}

#[test]
fn loops_of_agents_have_figures_of_adds_and_of_dels() {
    let folder = Folder::missing("loops");
    let asked = "--system spiderpool --vary nodes=2,8 --vary pods=6 --vary start=kubelets,loops --vary policy=upstream --seeds 12";
    let said = done(asked, &folder.0);
    let points = table::read(&folder.text("points.csv")).unwrap().points;
    let [_, by_kubelets, two, eight] = &points[..] else { panic!("{}", points.len()) };
    for (point, nodes) in [(two, 2), (eight, 8)] {
        assert_eq!((&*point.setting.start, point.calls), ("loops", nodes * 6 * 12), "what fails is not asked again");
    }
    for metric in [Metric::ConflictsPerCall, Metric::Exhausted, Metric::ReleaseConflicts, Metric::ReleaseExhausted] {
        assert!(two.value(metric) < eight.value(metric), "{metric:?}");
    }
    assert!(by_kubelets.value(Metric::ReleaseConflicts) == 0.0, "no pod is deleted");
    let [conflicts, exhausted] = [Metric::ReleaseConflicts, Metric::ReleaseExhausted].map(|metric| eight.value(metric));
    let dels = format!("of the DELs of 8 nodes {:.1} %", 100.0 * exhausted);
    assert!(said.contains(&dels) && said.contains(&format!("with {conflicts:.2}")), "{said}");
    let refused_folder = Folder::missing("loops-spread");
    refused("--system spiderpool --vary start=loops --vary spread=50ms", &refused_folder.0, "`start=loops` leaves nothing to spread");
}

#[test]
fn agents_that_have_just_started_are_pulled_apart_by_what_they_list_first() {
    let folder = Folder::missing("agents-restarted");
    let said = done("--system spiderpool --vary nodes=2 --vary start=together,restarted --vary policy=upstream --seeds 40", &folder.0);
    assert!(said.contains("all at once, at agents that have just started, servers without a queue"), "{said}");
    let points = table::read(&folder.text("points.csv")).unwrap().points;
    let conflicts: Vec<f64> = points.iter().map(|point| point.value(Metric::ConflictsPerCall)).collect();
    let [together, restarted] = conflicts[..] else { panic!("{conflicts:?}") };
    assert!(together == 0.5 && restarted < 0.48, "both of two read before either writes, and not always: {conflicts:?}");
    let hardened = "--system spiderpool --vary nodes=2 --vary start=restarted --vary policy=hardened";
    refused(hardened, &Folder::missing("agents-restarted-hardened").0, "hardened agents fill them before they serve");
}

#[test]
fn agents_of_more_nodes_conflict_more_and_lose_nothing() {
    let folder = Folder::missing("agents");
    let asked = "--system spiderpool --vary nodes=2,8 --vary pods=2 --vary start=kubelets,together --seeds 12";
    let said = done(asked, &folder.0);
    let points = table::read(&folder.text("points.csv")).unwrap().points;
    let conflicts: Vec<f64> = points.iter().map(|point| point.value(Metric::ConflictsPerCall)).collect();
    let [two, eight, two_together, eight_together] = conflicts[..] else { panic!("{conflicts:?}") };
    assert!(two < eight && two_together < eight_together, "{conflicts:?}");
    assert!(eight < eight_together && eight_together > 1.0, "sandboxes pull starts apart: {conflicts:?}");
    for point in &points {
        assert_eq!((point.setting.system, point.setting.pods, point.value(Metric::Lost)), (System::Spiderpool, 2, 0.0));
        // Each pod gets an address in the end.
        assert_eq!(point.allocated, u64::from(2 * point.setting.instances) * 12);
        assert!(point.closed_form().is_none() && point.modelled().is_none());
    }
    assert!(said.contains("No acknowledged allocation lost its record."), "{said}");
    let again = Folder::missing("agents-again");
    assert_eq!(done(&format!("--from {}", folder.0.join("points.csv").display()), &again.0), said);
    assert!(again.text("index.html").contains("How often do the agents of nodes"));
}

/// Bursts under hostile faults have other figures than those without faults, and a call without an address because of a fault does not
/// count as giving up.
#[test]
fn hostile_faults_change_what_a_burst_costs() {
    for (system, asked) in [("byom", "--vary instances=8"), ("spiderpool", "--vary nodes=4 --vary pods=2 --vary start=together")] {
        let (folder, again) = (Folder::missing(&format!("faults-{system}")), Folder::missing(&format!("faults-{system}-again")));
        let asked = format!("--system {system} {asked} --vary faults=none,mixed,hostile --seeds 60");
        let said = done(&asked, &folder.0);
        let points = table::read(&folder.text("points.csv")).unwrap().points;
        let [none, mixed, hostile] = &points[..] else { panic!("{}", points.len()) };
        for (point, faults) in [(none, ""), (mixed, "mixed"), (hostile, "hostile")] {
            assert_eq!(point.setting.faults, faults);
            let ends = [Metric::Exhausted, Metric::RefusedOtherwise, Metric::Unanswered];
            let others = 1.0 - ends.map(|metric| point.value(metric)).iter().sum::<f64>();
            let granted = point.allocated as f64 / point.calls as f64;
            assert!(faults.is_empty() || (others - granted).abs() < 1e-9, "each call ends in one way: {others} {granted}");
            assert_eq!(point.closed_form().or(none.closed_form()).is_some(), system == "byom");
            assert!(faults.is_empty() || (point.closed_form().is_none() && point.modelled().is_none()));
        }
        assert!(Metric::OF_FAULTS.into_iter().all(|metric| none.get(metric).is_none() && hostile.get(metric).is_some()));
        assert!(mixed.value(Metric::MetFault) > 0.5 && hostile.value(Metric::MetFault) > 0.9, "{said}");
        // The intervals do not overlap: the longer times are no coincidence.
        let late = |point: &Point| point.get(Metric::AllocateP99).unwrap();
        assert!(late(hostile).low.unwrap() > 2.0 * late(none).value, "{:?} {:?}", late(none), late(hostile));
        let failed = |point: &Point| point.value(Metric::RefusedOtherwise) + point.value(Metric::Unanswered);
        assert!(failed(hostile) > failed(mixed) && failed(mixed) > 0.0, "{} {}", failed(mixed), failed(hostile));
        for expected in ["refused otherwise", "no answer", "met a fault", "hold without faults: nothing stands beside points that meet"] {
            assert!(said.contains(expected), "{said}");
        }
        let page = folder.text("index.html");
        assert!(page.contains("Bursts that meet a fault") && page.contains("<dt>faults</dt>"));
        done(&asked, &again.0);
        assert!(folder.text("points.csv") == again.text("points.csv") && folder.text("runs.csv") == again.text("runs.csv"));
        let drawn = Folder::missing(&format!("faults-{system}-drawn"));
        assert_eq!(done(&format!("--from {}", folder.0.join("points.csv").display()), &drawn.0), said);
    }
}

#[test]
fn a_report_with_faults_is_compared_with_one_without() {
    let (calm, hostile) = (Folder::missing("against-calm"), Folder::missing("against-hostile"));
    let asked = "--vary instances=8 --seeds 60";
    done(&format!("{asked} --vary faults=none"), &calm.0);
    let json = calm.text("report.json");
    assert!(!json.contains("faults=none\",") && !json.contains("unanswered") && !json.contains("\"faults\""), "{json}");
    let said = done(&format!("{asked} --vary faults=hostile --against {}", calm.0.display()), &hostile.0);
    assert!(said.contains("What differs: faults was none and is hostile."), "{said}");
    let json: serde_json::Value = serde_json::from_str(&hostile.text("report.json")).unwrap();
    let point = &json["points"][0];
    assert_eq!(point["faults"], "hostile");
    assert!(point["unanswered"]["value"].is_number() && point["met_fault"]["value"].is_number(), "{point}");
}

#[test]
fn the_faults_of_a_scenario_are_what_bursts_meet() {
    let files = Folder::missing("faults-files");
    std::fs::create_dir_all(&files.0).unwrap();
    let scenario = |faults: &str| {
        format!(
            "name = 'outage'\nwhy = 'a test'\n[phases]\nsafety = '60s'\n[workload]\nkind = 'byom-burst'\ninstances = 2\n\
             [check]\nalways = ['revisions-only-grow']\n{faults}"
        )
    };
    let file = |name: &str, faults: &str| {
        files.file(name, &scenario(faults));
        files.0.join(name).display().to_string()
    };
    // From shortly before the burst, no adaptor reaches an API server, for the duration in the row.
    let cut = file("cut.toml", "[[fault]]\nkind = 'partition'\nfrom = 'adaptor-*'\nto = 'apiserver-*'\nat = '29s'\nfor = '3s'\n");
    let folder = Folder::missing("faults-cut");
    let said = done(&format!("--vary instances=4 --seeds 30 --faults {cut}"), &folder.0);
    let point = table::read(&folder.text("points.csv")).unwrap().points.remove(0);
    assert_eq!((&*point.setting.faults, point.value(Metric::MetFault)), ("scenario outage", 1.0));
    assert!(point.get(Metric::AllocateP50).is_none_or(|p50| p50.value > 2.9), "nobody is served before it is over: {said}");
    assert!(said.contains("the faults of outage"), "{said}");
    // A crash at the beginning of the burst leaves a call without an answer.
    let crash = file("crash.toml", "[[fault]]\nkind = 'crash'\nprocess = 'adaptor-0'\nat = '30.1s'\ndown = '1s'\n");
    let folder = Folder::missing("faults-crash");
    done(&format!("--vary instances=4 --seeds 30 --faults {crash}"), &folder.0);
    let point = table::read(&folder.text("points.csv")).unwrap().points.remove(0);
    assert_eq!((point.value(Metric::Unanswered), point.calls), (0.25, 4 * 30));
    let folder = Folder::missing("faults-refused");
    let none = file("none.toml", "");
    refused(&format!("--vary instances=2 --faults {none}"), &folder.0, "none.toml: has no faults that bursts could meet");
    let other = file("other.toml", "[[fault]]\nkind = 'crash'\nprocess = 'adaptor-1'\n");
    refused(&format!("--vary instances=1 --faults {other}"), &folder.0, "is about `adaptor-1`, which is no process and no host");
    refused(&format!("--system spiderpool --vary nodes=2 --faults {other}"), &folder.0, "other.toml:12:");
    assert!(!folder.0.exists());
}
