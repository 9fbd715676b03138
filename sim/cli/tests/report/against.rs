//! `report … --against OLD`.

use serde_json::Value;

use super::demand::{LOST, scenario};
use super::{Folder, done, refused};

/// The comparison in the JSON file that a report writes into its folder.
fn against(folder: &Folder) -> Value {
    let report: Value = serde_json::from_str(&folder.text("report.json")).unwrap();
    report["against"].clone()
}

fn changes(folder: &Folder) -> Vec<Value> {
    against(folder)["changes"].as_array().unwrap().clone()
}

fn change(folder: &Folder, figure: &str) -> Value {
    changes(folder).into_iter().find(|change| change["figure"] == figure).unwrap_or_else(|| panic!("no figure {figure}"))
}

fn unchanged(folder: &Folder) {
    let all = changes(folder);
    assert!(!all.is_empty());
    for change in all {
        assert_eq!((change["p"].as_f64(), &change["significant"]), (Some(1.0), &Value::Bool(false)), "{change}");
    }
}

const ASKED: &str = "--vary instances=4,8 --seeds 300 --precision 50%";

#[test]
fn conflicts_beside_themselves_do_not_change_and_another_policy_changes_them() {
    let (old, same, other) = (Folder::missing("against-old"), Folder::missing("against-same"), Folder::missing("against-other"));
    done("conflicts", &format!("{ASKED} --vary retry=default-backoff"), &old.0);
    let with = format!("--against {}", old.0.display());
    let said = done("conflicts", &format!("{ASKED} --vary retry=default-backoff {with}"), &same.0);
    assert!(said.starts_with("8 adaptors: conflicts per call did not change ("), "{said}");
    assert!(said.contains("The settings are the same.") && said.contains("no change, not significant"), "{said}");
    unchanged(&same);
    let said = done("conflicts", &format!("{ASKED} --vary retry=patient {with}"), &other.0);
    assert!(
        said.starts_with("8 adaptors: conflicts per call fell by ") || said.starts_with("8 adaptors: conflicts per call rose by "),
        "{said}"
    );
    assert!(
        said.contains("calls that give up fell by 100.0 %") && said.contains("What differs: retry was default-backoff and is patient."),
        "{said}"
    );
    assert_eq!(change(&other, "calls that give up")["place"], "8 adaptors");
    assert_eq!(change(&other, "calls that give up")["significant"], true);
    assert!(other.text("index.html").contains("Compared with ") && other.text("index.html").contains("What changed"));
    // The printed JSON is as good as the folder, and a table that is drawn again is compared, too.
    let (json, drawn) = (old.0.with_extension("json"), Folder::missing("against-drawn"));
    std::fs::write(&json, old.text("report.json")).unwrap();
    let from = format!("--from {} --against {}", other.0.join("points.csv").display(), json.display());
    let again = done("conflicts", &from, &drawn.0);
    std::fs::remove_file(json).unwrap();
    assert_eq!(changes(&drawn), changes(&other));
    assert_eq!(again.lines().next(), said.lines().next());
}

#[test]
fn the_number_that_can_share_a_pool_is_compared() {
    let (old, new) = (Folder::missing("against-few"), Folder::missing("against-many"));
    let asked = "--objective exhausted<1% --vary instances=4..6 --seeds 500 --vary retry";
    done("capacity", &format!("{asked}=default-backoff"), &old.0);
    let said = done("capacity", &format!("{asked}=patient --against {}", old.0.display()), &new.0);
    assert!(
        said.starts_with(
            "as asked: adaptors that can share one pool rose by 50.0 %, from 4 to 6 (95 % interval +50.0 to ? %), significant."
        ),
        "{said}"
    );
    let same = Folder::missing("against-few-again");
    done("capacity", &format!("{asked}=default-backoff --against {}", old.0.display()), &same.0);
    assert!(changes(&same).iter().all(|change| change["significant"] == false));
    let other = format!("{} --against {}", asked.replace("1%", "5%") + "=patient", old.0.display());
    let folder = Folder::missing("against-objective");
    refused("capacity", &other, &folder.0, "cannot be compared with: `objective` was exhausted < 1 % and is exhausted < 5 %");
    let other = format!("{ASKED} --against {}", old.0.display());
    refused("conflicts", &other, &folder.0, "it is a result of `report capacity`, and only one of `report conflicts`");
    assert!(!folder.0.exists());
}

#[test]
fn the_size_of_a_pool_is_compared() {
    let (input, old, same, new) = (
        Folder::missing("against-pods-in"),
        Folder::missing("against-pods"),
        Folder::missing("against-pods-same"),
        Folder::missing("against-pods-new"),
    );
    let asked = format!("{} --objective refused<1% --seeds 5", scenario(&input, LOST));
    done("capacity", &asked, &old.0);
    let with = format!("{asked} --against {}", old.0.display());
    let said = done("capacity", &with, &same.0);
    assert!(said.starts_with("as it is: addresses needed did not change (6), not significant."), "{said}");
    unchanged(&same);
    // Leaks that are reclaimed at once cost nothing any more.
    let said = done("capacity", &format!("{with} --set workload.settings.SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY=\"0\""), &new.0);
    assert!(
        said.starts_with("as it is: addresses needed fell by 33.3 %, from 6 to 4 (95 % interval -33.3 to -33.3 %), significant."),
        "{said}"
    );
    let differs = against(&new)["differs"].clone();
    assert_eq!(differs[0]["setting"], "workload.settings.SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY", "{differs}");
    assert_eq!(differs.as_array().unwrap().len(), 1, "{differs}");
    let folder = Folder::missing("against-pods-wrong");
    refused("capacity", &with.replace("refused<1%", "refused<5%"), &folder.0, "`objective` was refused < 1 % and is refused < 5 %");
    let faster = format!("{with} --set workload.trace_compression=5");
    refused("capacity", &faster, &folder.0, "`workload.trace_compression` was 10 and is 5");
    assert!(!folder.0.exists());
}

#[test]
fn reclaim_is_compared_way_by_way() {
    let (old, same, new) = (Folder::missing("against-leaks"), Folder::missing("against-leaks-same"), Folder::missing("against-leaks-new"));
    done("reclaim", "--seeds 6", &old.0);
    let with = format!("--seeds 6 --against {}", old.0.display());
    let said = done("reclaim", &with, &same.0);
    assert!(said.starts_with("reclaim-leaks, trace: reclaim delay, p50 did not change ("), "{said}");
    unchanged(&same);
    // The built-in scenario waits five seconds more than it must.
    let file = super::file("scenarios/capacity/reclaim-leaks.toml");
    let asked = format!("{file} {with} --set workload.settings.SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY=\"60\"");
    let said = done("reclaim", &asked, &new.0);
    assert!(said.starts_with("reclaim-leaks, trace: reclaim delay, p50 rose by "), "{said}");
    assert_eq!(change(&new, "reclaim delay, p50")["significant"], true, "{said}");
    assert!(said.contains("SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY was "), "{said}");
}

#[test]
fn what_is_no_earlier_report_of_this_kind_is_refused_before_anything_is_done() {
    let (old, out) = (Folder::missing("against-broken"), Folder::missing("against-broken-out"));
    done("conflicts", "--vary instances=4 --seeds 20 --precision 50%", &old.0);
    let whole = old.text("report.json");
    let file = old.0.join("report.json");
    let with = format!("{ASKED} --against {}", old.0.display());
    // The middle is within a line.
    let half: String = whole.chars().take(whole.len() / 2).collect::<String>().trim_end().to_owned();
    let place =
        format!("report.json:{}:{}: cannot be compared with: EOF while parsing", half.lines().count(), half.lines().last().unwrap().len());
    for (text, expected) in [
        (half.clone(), &*place),
        (String::new(), "report.json:1:1: cannot be compared with: EOF while parsing"),
        (
            whole.replace("report-conflicts", "run"),
            "it is a result of `run` (`ipam-sim/run/1`), and only one of `report conflicts` can be compared",
        ),
        (
            whole.replace("\"system\": ", "\"systems\": ").replace("\"instances\": 4", "\"instances\": \"4\""),
            "invalid type: string \"4\", expected u32",
        ),
        ("\u{0}".to_owned(), "report.json:1:1: "),
    ] {
        std::fs::write(&file, text).unwrap();
        refused("conflicts", &with, &out.0, expected);
    }
    std::fs::write(&file, &whole).unwrap();
    let agents = format!("--system spiderpool --vary nodes=2 --seeds 3 --against {}", old.0.display());
    refused("conflicts", &agents, &out.0, "cannot be compared with: `system` was byom and is spiderpool");
    let others = format!("--vary instances=2,16 --seeds 3 --against {}", old.0.display());
    refused("conflicts", &others, &out.0, "no point is in both reports: `instances` is 4 in the earlier one and 2, 16 in this one");
    let reclaim = format!("--seeds 1 --against {}", old.0.display());
    refused("reclaim", &reclaim, &out.0, "it is a result of `report conflicts` or `report capacity` (`ipam-sim/report-conflicts/1`)");
    std::fs::remove_file(&file).unwrap();
    refused("conflicts", &with, &out.0, "there is no report.json in it");
    refused("conflicts", &format!("{ASKED} --against nowhere.json"), &out.0, "nowhere.json: cannot be read: no such file");
    assert!(!out.0.exists(), "nothing was done");
}
