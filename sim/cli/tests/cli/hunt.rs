//! A hunt finds what it is guided to, keeps what it has seen, and reports errors in its input.

use crate::{Folder, json, run};

const SMALL: &str = "scenarios/chaos/byom-small.toml";

#[test]
fn a_planted_mistake_is_hunted_down_and_its_plan_replays() {
    let folder = Folder::new("hunt-finds");
    let out = folder.0.join("out").display().to_string();
    let args = ["hunt", SMALL, "--mutation", "byom-release-by-address", "--runs", "64", "--out", &out];
    let (code, report) = json(&[&args[..], &["--format", "json", "--jobs", "2"]].concat());
    assert_eq!(code, 1, "{report}");
    let scenario = &report["scenarios"][0];
    let hunt = &scenario["hunt"];
    assert_eq!(hunt["drawn"].as_u64().unwrap() + hunt["edited"].as_u64().unwrap(), 64);
    let find = &hunt["finds"][0];
    assert!(find["run"].as_u64().unwrap() < 64, "{find}");
    let failure = &scenario["failures"][0];
    assert_eq!(failure["claim"], find["claim"], "the first run that fails is listed first");
    let plan = failure["plan"].as_str().unwrap();
    assert!(plan.ends_with(&format!("byom-small-hunt-{}.toml", find["run"])), "{plan}");
    let (code, replayed) = json(&["replay", plan, "--format", "json"]);
    assert_eq!((code, &replayed["digest"]), (1, &failure["digest"]), "{replayed}");
    assert!(failure["shrunk"]["plan"].as_str().unwrap().ends_with("-min.toml"), "{failure}");
    // The text has the same content, and `merge` refuses the result.
    let (_, told, _) = run(&[&args[..], &["--no-shrink"]].concat());
    assert!(told.contains(&format!("found   {} first in run {}", find["claim"].as_str().unwrap(), find["run"])), "{told}");
    assert!(told.contains("curve   ") && told.contains("never   point byom/"), "{told}");
    let file = folder.0.join("hunt.json");
    std::fs::write(&file, report.to_string()).unwrap();
    let (code, _, err) = run(&["merge", &file.display().to_string()]);
    assert!(code == 2 && err.contains("is a hunt of byom-small"), "{err}");
}

/// Of the first ten seeds this is one for which guidance makes the difference: `docs/hunt.md` shows how little that is on average. The runs
/// are the same on every machine, but differ after a change to the drawing or the behaviour of plans. Then another seed shows it again: the
/// test asserts that coverage leads somewhere, not how often.
#[test]
fn guidance_leads_to_what_is_missed_without_it() {
    let folder = Folder::new("hunt-guided");
    let out = folder.0.join("out").display().to_string();
    let searched = ["hunt", SMALL, "--mutation", "byom-unfenced-vms", "--seed", "2", "--runs", "128"];
    let args = [&searched[..], &["--no-shrink", "--out", &out, "--format", "json"]].concat();
    let (code, guided) = json(&args);
    let guided = &guided["scenarios"][0]["hunt"];
    assert_eq!(code, 1, "{guided}");
    let find = &guided["finds"][0];
    assert!(find["run"].as_u64().unwrap() < 128 && !find["edits"].as_array().unwrap().is_empty(), "it was made, not drawn: {find}");
    let (edited, unchanged) = (guided["edited"].as_u64().unwrap(), guided["unchanged"].as_u64().unwrap());
    assert!(edited > 30 && unchanged * 5 < edited, "edits that change nothing lead nowhere: {unchanged} of {edited}");
    let (code, blind) = json(&[&args[..], &["--unguided"]].concat());
    assert_eq!((code, blind["scenarios"][0]["hunt"]["finds"].as_array()), (0, None), "{blind}");
}

#[test]
fn a_corpus_is_gone_on_with_and_its_plans_replay() {
    let folder = Folder::new("hunt-corpus");
    let (corpus, out) = (folder.0.join("corpus").display().to_string(), folder.0.join("out").display().to_string());
    let file = "scenarios/smoke/counter-faults.toml";
    let args = ["hunt", file, "--runs", "64", "--corpus", &corpus, "--out", &out, "--format", "json"];
    let (code, first) = json(&args);
    assert_eq!(code, 0);
    let (_, second) = json(&args);
    let (first, second) = (&first["scenarios"][0]["hunt"], &second["scenarios"][0]["hunt"]);
    assert_eq!((&first["runs_before"], &second["runs_before"]), (&0.into(), &64.into()));
    assert!(second["corpus"].as_u64() >= first["corpus"].as_u64(), "{second}");
    let plan = folder.0.join("corpus/counter-faults/000000.toml").display().to_string();
    let (code, told, err) = run(&["replay", &plan]);
    assert!(code == 0 && told.contains("   as recorded\n"), "{told}{err}");
    let (code, _, err) = run(&["check", &plan]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn what_cannot_be_hunted_in_is_told_in_a_sentence_and_nothing_is_made() {
    let folder = Folder::new("hunt-refused");
    let file = "scenarios/smoke/counter-faults.toml";
    let path = |name: &str| folder.0.join(name).display().to_string();
    std::fs::write(folder.0.join("notes.txt"), "mine").unwrap();
    let own = folder.0.display().to_string();
    for (args, told) in [
        (vec!["hunt", file, "--corpus", &own], "is no corpus: it holds `notes.txt`"),
        (vec!["hunt", file, "--corpus", &path("a"), "--corpus", &path("b")], "there is no corpus "),
        (vec!["hunt", file, "--mutation", "nobody-made-this"], "there is no mutation `nobody-made-this`"),
        (vec!["hunt", "scenarios/none.toml"], "there is no such file or folder"),
        (vec!["hunt"], "<SCENARIO>..."),
    ] {
        let (code, out, err) = run(&args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains(told), "{args:?}: {err}");
    }
    assert!(!folder.0.join("a").exists(), "nothing is half-done");
    let corpus = path("corpus");
    let (code, ..) = run(&["hunt", file, "--runs", "4", "--corpus", &corpus]);
    assert_eq!(code, 0);
    let (code, _, err) = run(&["hunt", file, "--runs", "4", "--corpus", &corpus, "--seed", "9"]);
    assert!(code == 2 && err.contains("was begun with --seed 0, not 9"), "{err}");
    let (code, _, err) = run(&["hunt", file, "--runs", "4", "--corpus", &corpus, "--mutation", "counter-decides-once"]);
    assert!(code == 2 && err.contains("with other values or mutations"), "{err}");
}
