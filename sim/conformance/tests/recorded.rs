//! The cases of the repository, and their recordings.

use std::fs;
use std::path::PathBuf;

use api_conformance::{Allowed, Comparison, Counts, Json, Kit, Outcome, Place, Record, Recording, Verdict, compare};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../ci/conformance")
}

fn text() -> String {
    fs::read_to_string(folder().join("recorded.jsonl")).unwrap()
}

fn kit() -> Kit {
    Kit::read(&folder().join("cases")).unwrap()
}

fn recording(text: &str) -> Recording {
    Recording::read("recorded.jsonl".as_ref(), text).unwrap()
}

fn allowed(text: &str) -> Allowed {
    Allowed::read("allow.txt".as_ref(), text).unwrap()
}

#[test]
fn every_case_is_recorded_and_agrees_with_itself() {
    let (kit, recorded, none) = (kit(), recording(&text()), Allowed::default());
    let found = compare(&kit, &recorded, &recorded, &none);
    assert_eq!(found.total(), Counts { agreed: kit.cases.len(), ..Counts::default() });
    assert!(kit.cases.len() > 300 && found.themes().len() == 27, "{} cases", kit.cases.len());
    assert_eq!(text().lines().count(), text().split('\n').count() - 1);
}

#[test]
fn a_record_is_written_as_it_was_read() {
    let text = text();
    let recorded = recording(&text);
    for case in &kit().cases {
        let line = recorded.get(&case.id).unwrap().line();
        assert!(text.contains(&format!("{line}\n")), "{}", case.id);
    }
}

/// The recording with one step of a case changed.
fn changed(case: &str, step: usize, change: impl FnOnce(&mut Json)) -> Recording {
    let recorded = recording(&text());
    let mut record = recorded.get(case).unwrap().clone();
    let Outcome::Steps(steps) = &mut record.outcome else { panic!("{case} has steps") };
    change(&mut steps[step - 1]);
    Recording::from_iter([record])
}

/// The part of a value at a path of names and numbers.
fn at<'a>(value: &'a mut Json, path: &str) -> &'a mut Json {
    path.split('.').fold(value, |value, name| match value {
        Json::Array(items) => &mut items[name.parse::<usize>().unwrap()],
        Json::Object(members) => members.get_mut(name).unwrap_or_else(|| panic!("no {name} in {path}")),
        _ => panic!("nothing is below {name}"),
    })
}

/// The places that differ: `case step:path recorded -> actual`.
fn places(found: &Comparison<'_>) -> Vec<String> {
    let mut places = Vec::new();
    for result in &found.cases {
        if let Verdict::Differs(differences) = &result.verdict {
            let told =
                |it: &api_conformance::Difference| format!("{} {}:{} {} -> {}", result.case.id, it.step, it.path, it.recorded, it.actual);
            places.extend(differences.iter().map(told));
        }
    }
    places
}

/// The differences after a change of one step of a case, with these lines allowed.
fn differences(case: &str, step: usize, allow: &str, change: impl FnOnce(&mut Json)) -> Vec<String> {
    let (kit, allowed) = (kit(), allowed(allow));
    let actual = changed(case, step, change);
    let found = compare(&kit, &recording(&text()), &actual, &allowed);
    assert_eq!(found.total().compared(), 1);
    places(&found)
}

#[test]
fn one_change_is_found_at_its_place() {
    let case = "K060-existing";
    let found = |path: &str, value: &str| differences(case, 3, "", |step| *at(step, path) = Json::read(value.as_bytes()).unwrap());
    assert_eq!(found("status", "200"), ["K060-existing 3:status 409 -> 200"]);
    assert_eq!(
        found("headers.content-type", "\"text/plain\""),
        [r#"K060-existing 3:headers.content-type "application/json" -> "text/plain""#]
    );
    assert_eq!(found("body.reason", "\"Conflict\""), [r#"K060-existing 3:body.reason "AlreadyExists" -> "Conflict""#]);
    assert_eq!(found("body.code", "409.0"), ["K060-existing 3:body.code 409 -> 409.0"]);
    assert_eq!(found("body.details", "[]"), [r#"K060-existing 3:body.details {"kind": "configmaps", "name": "a"} -> []"#]);
    let gone = differences(case, 3, "", |step| {
        if let Json::Object(body) = at(step, "body") {
            body.shift_remove("reason");
        }
    });
    assert_eq!(gone, [r#"K060-existing 3:body.reason "AlreadyExists" -> "<absent>""#]);
}

#[test]
fn events_in_another_order_are_found() {
    let found = differences("K037-from-version", 7, "", |step| {
        if let Json::Array(events) = at(step, "events") {
            events.swap(0, 1);
        }
    });
    assert!(found.iter().any(|place| place.starts_with("K037-from-version 7:events.0.type \"ADDED\" -> \"MODIFIED\"")), "{found:#?}");
    let missing = differences("K037-from-version", 7, "", |step| {
        if let Json::Array(events) = at(step, "events") {
            events.pop();
        }
    });
    assert!(matches!(missing.as_slice(), [one] if one.ends_with("-> \"<absent>\"")), "{missing:#?}");
}

#[test]
fn charsets_are_no_difference_and_loose_places_only_where_a_value_is_missing() {
    let charset = differences("K060-existing", 3, "", |step| *at(step, "headers.content-type") = "Application/JSON; charset=utf-8".into());
    assert_eq!(charset, Vec::<String>::new());
    // Texts may differ there, by `loose`.
    let loose = |value: Json| differences("order-update", 1, "", |step| *at(step, "body.message") = value);
    assert_eq!(loose("another text".into()), Vec::<String>::new());
    assert_eq!(loose(Json::Null).len(), 1);
}

#[test]
fn a_loose_place_must_be_there_and_an_ignored_one_need_not() {
    let mut kit = kit();
    kit.only(|id| id == "K060-existing");
    let gone = changed("K060-existing", 3, |step| {
        if let Json::Object(body) = at(step, "body") {
            body.shift_remove("reason");
        }
    });
    let other = changed("K060-existing", 3, |step| *at(step, "body.reason") = "Conflict".into());
    let (recorded, none) = (recording(&text()), Allowed::default());
    let differ = |kit: &Kit| [&gone, &other].map(|actual| places(&compare(kit, &recorded, actual, &none)).len());
    let place = || vec![Place::read("*:body.reason").unwrap()];
    assert_eq!(differ(&kit), [1, 1]);
    kit.shared.loose = place();
    assert_eq!(differ(&kit), [1, 0]);
    (kit.shared.loose, kit.cases[0].loose) = (Vec::new(), place());
    assert_eq!(differ(&kit), [1, 0]);
    // A float is not an integer.
    kit.cases[0].loose = vec![Place::read("3:body.code").unwrap()];
    let of = |code: &str| changed("K060-existing", 3, |step| *at(step, "body.code") = Json::read(code.as_bytes()).unwrap());
    assert_eq!(["500", "500.0"].map(|code| places(&compare(&kit, &recorded, &of(code), &none)).len()), [0, 1]);
    (kit.cases[0].loose, kit.cases[0].ignore) = (Vec::new(), place());
    assert_eq!(differ(&kit), [0, 0]);
}

#[test]
fn what_is_allowed_is_no_difference_and_what_was_not_needed_is_told() {
    let lines = "K060-* 3:body.reason  # told apart elsewhere\nK060-existing 3:status  # not needed\nK061-* *:*  # about others\n";
    let kit = kit();
    let actual = changed("K060-existing", 3, |step| *at(step, "body.reason") = "Conflict".into());
    let allowed = allowed(lines);
    let found = compare(&kit, &recording(&text()), &actual, &allowed);
    assert_eq!(found.total(), Counts { allowed: 1, not_compared: kit.cases.len() - 1, ..Counts::default() });
    assert_eq!(found.unneeded.iter().map(|line| line.line).collect::<Vec<_>>(), [2]);
    let other = changed("K060-existing", 3, |step| *at(step, "body.code") = "x".into());
    let found = compare(&kit, &recording(&text()), &other, &allowed);
    assert_eq!(places(&found), [r#"K060-existing 3:body.code 409 -> "x""#]);
    assert_eq!(found.unneeded.iter().map(|line| line.line).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn what_is_ignored_by_kind_is_compared_in_strict_cases() {
    let mut kit = kit();
    let change = |step: &mut Json| *at(step, "body.spec.dnsPolicy") = "None".into();
    let case = kit.cases.iter().find(|case| {
        let recorded = recording(&text());
        let Outcome::Steps(steps) = &recorded.get(&case.id).unwrap().outcome else { return false };
        !case.strict && steps[0].get("body").and_then(|body| body.get("spec")?.get("dnsPolicy")).is_some()
    });
    let id = case.expect("a case makes a Pod first").id.clone();
    kit.only(|own| own == id);
    let (recorded, actual, none) = (recording(&text()), changed(&id, 1, change), Allowed::default());
    assert_eq!(compare(&kit, &recorded, &actual, &none).total().agreed, 1);
    kit.cases[0].strict = true;
    assert_eq!(places(&compare(&kit, &recorded, &actual, &none)).len(), 1);
}

#[test]
fn a_case_without_answers_is_not_compared_and_a_failed_one_differs() {
    let (mut kit, recorded, none) = (kit(), recording(&text()), Allowed::default());
    kit.only(|id| id == "K060-existing");
    let record = |outcome| Record { id: "K060-existing".to_owned(), theme: "create".to_owned(), outcome, suspect: Vec::new() };
    let of = |outcome| compare(&kit, &recorded, &Recording::from_iter([record(outcome)]), &none).cases[0].verdict.clone();
    assert_eq!(of(Outcome::Skipped("needs auth".to_owned())), Verdict::NotCompared("not run: needs auth".to_owned()));
    assert!(matches!(of(Outcome::Failed("it broke".to_owned())), Verdict::Differs(places) if places[0].step == 0));
    let nothing = Recording::default();
    assert_eq!(compare(&kit, &recorded, &nothing, &none).cases[0].verdict, Verdict::NotCompared("not run".to_owned()));
    assert_eq!(compare(&kit, &nothing, &recorded, &none).cases[0].verdict, Verdict::NotCompared("not recorded".to_owned()));
}
