//! The effects and records of each form of a step.

mod toy;

use std::fs;
use std::time::Duration;

use api_conformance::{Identity, Kit, Need, Options, Outcome, Record, Runner, Server};
use toy::{Reaction, Seen, Toy, json, told};

const SHARED: &str = r#"{"paths": {"cm": "/api/v1/namespaces/${ns}/configmaps"}, "templates": {"cm": {"kind": "ConfigMap"}}, "ignore": {}, "loose": [],
    "crds": [{"kind": "CustomResourceDefinition", "metadata": {"name": "pools.example.com"}}]}"#;

/// A kit of these cases: the text between the brackets.
fn kit(cases: &str) -> Kit {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("_shared.json"), SHARED).unwrap();
    fs::write(folder.path().join("01.json"), format!(r#"{{"theme": "toy", "cases": [{cases}]}}"#)).unwrap();
    Kit::read(folder.path()).unwrap_or_else(|problem| panic!("{problem}"))
}

fn case(steps: &str) -> Kit {
    kit(&format!(r#"{{"id": "a", "why": "w", "steps": [{steps}]}}"#))
}

fn options() -> Options {
    Options { has: Need::ALL.into(), managed_fields: false, run_id: "aaaa".to_owned() }
}

/// Runs the first case of a kit. Requests that create the namespace are answered without the script.
fn run(kit: &Kit, react: impl Fn(&Seen) -> Reaction) -> (Record, Vec<Seen>) {
    let options = options();
    let toy = Toy::new(|seen: &Seen| match seen.line.as_str() {
        "POST /api/v1/namespaces" | "POST /api/v1/namespaces/c000aaaa-ns/serviceaccounts" => json(201, "{}"),
        _ => react(seen),
    });
    let record = toy.clock.clone().run(Runner::new(kit, &options).run_case(&toy, 0));
    let seen = toy.seen.borrow().iter().filter(|seen| !seen.line.starts_with("POST /api/v1/namespaces")).cloned().collect();
    (record, seen)
}

fn steps(record: &Record) -> Vec<String> {
    let Outcome::Steps(steps) = &record.outcome else { panic!("{:?}", record.outcome) };
    told(steps)
}

fn lines(seen: &[Seen]) -> Vec<&str> {
    seen.iter().map(|seen| seen.line.as_str()).collect()
}

#[test]
fn a_case_has_a_namespace_with_an_account_of_its_own() {
    let kit = case(r#"{"path": "${cm}"}"#);
    let options = options();
    let toy = Toy::new(|_: &Seen| json(409, "{}"));
    let record = toy.clock.run(Runner::new(&kit, &options).run_case(&toy, 0));
    assert_eq!(
        toy.lines(),
        ["POST /api/v1/namespaces", "POST /api/v1/namespaces/c000aaaa-ns/serviceaccounts", "GET /api/v1/namespaces/c000aaaa-ns/configmaps"]
    );
    let body = |index: usize| toy.seen.borrow()[index].body.clone().unwrap();
    assert_eq!(body(0), r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"c000aaaa-ns"}}"#);
    assert_eq!(body(1), r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default","namespace":"c000aaaa-ns"}}"#);
    assert_eq!(record.suspect, ["namespace: 409"]);
}

#[test]
fn a_request_records_its_answer_and_keeps_it() {
    let kit = case(
        r#"{"method": "POST", "path": "${cm}", "body": {"$use": "cm"}, "capture": "a", "as": "nobody"},
           {"path": "${cm}/${a.n}", "capture": "b"},
           {"path": "/version"},
           {"path": "/x", "pick": ["a/b", "c"]},
           {"path": "/${b.none}"},
           {"path": "/nothing", "capture": "c", "any_status": true},
           {"path": "/${c}"}"#,
    );
    let (record, seen) = run(&kit, |seen| match seen.line.as_str() {
        "POST /api/v1/namespaces/c000aaaa-ns/configmaps" => json(201, r#"{"n": "x", "ns": "c000aaaa-ns"}"#),
        "GET /version" => json(200, r#"{"major": "1", "minor": "2"}"#),
        // The content type is not JSON.
        "GET /x" => Reaction::Answers(Duration::ZERO, 200, Vec::new(), br#"{"a": {"b": 1}}"#.to_vec()),
        _ => json(404, ""),
    });
    let json = r#""headers": {"content-type": "application/json"}, "status""#;
    // The request for the namespace begins with the same words as that for the first object.
    assert_eq!(lines(&seen), ["GET /api/v1/namespaces/c000aaaa-ns/configmaps/x", "GET /version", "GET /x", "GET /nothing"]);
    assert_eq!(
        steps(&record),
        [
            format!(r#"{{"body": {{"n": "x", "ns": "<ns>"}}, {json}: 201}}"#),
            format!(r#"{{{json}: 404}}"#),
            format!(r#"{{"body": {{"major": "<version>", "minor": "<version>"}}, {json}: 200}}"#),
            r#"{"body": {"picked": {"a/b": 1, "c": "<absent>"}}, "status": 200}"#.to_owned(),
            r#"{"error": "there is no value for b.none"}"#.to_owned(),
            format!(r#"{{{json}: 404}}"#),
            r#"{"error": "c is neither text nor number"}"#.to_owned(),
        ]
    );
    assert_eq!(record.suspect, ["step 2: 404"]);
}

#[test]
fn a_request_is_sent_by_whom_the_step_says() {
    let kit = case(
        r#"{"path": "/a"}, {"path": "/b", "as": "nobody"}, {"watch": "w", "path": "/c", "as": "anonymous"}, {"path": "/d", "as": "stranger"}"#,
    );
    let (_, seen) = run(&kit, |_| json(401, "{}"));
    let told: Vec<_> = seen.iter().map(|seen| seen.identity).collect();
    assert_eq!(told, [Identity::Admin, Identity::Nobody, Identity::Anonymous, Identity::Stranger]);
}

#[test]
fn a_request_without_an_answer_is_an_error_of_its_step() {
    let kit = case(
        r#"{"path": "/breaks"}, {"path": "/hangs"}, {"path": "/late"}, {"watch": "w", "path": "/breaks"}, {"collect": "w"}, {"close": "w"}"#,
    );
    let (record, seen) = run(&kit, |seen| match seen.line.as_str() {
        "GET /hangs" => Reaction::Hangs,
        "GET /late" => Reaction::Answers(Duration::from_secs(20), 200, Vec::new(), Vec::new()),
        _ => Reaction::Breaks,
    });
    let error = |why: &str| format!(r#"{{"error": "{why}"}}"#);
    let closed = "the watch is not open";
    assert_eq!(
        steps(&record),
        [error("connection"), error("timeout"), r#"{"status": 200}"#.to_owned(), error("connection"), error(closed), error(closed)]
    );
    assert_eq!(seen[3].at, 65.0);
}

#[test]
fn a_case_that_takes_too_long_breaks_off() {
    let kit = case(r#"{"path": "/a"}, {"path": "/b"}, {"path": "/c"}"#);
    let (record, seen) = run(&kit, |_| Reaction::Hangs);
    assert_eq!(steps(&record), [r#"{"error": "timeout"}"#, r#"{"error": "timeout"}"#, r#"{"error": "the case ran out of time"}"#]);
    assert_eq!(seen.len(), 2);
}

fn event(kind: &str, name: &str) -> String {
    format!(r#"{{"object": {{"metadata": {{"name": "{name}"}}}}, "type": "{kind}"}}"#)
}

const ADDED_A: &str = r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#;
const ADDED_B: &str = r#"{"type":"ADDED","object":{"metadata":{"name":"b"}}}"#;
const BOOKMARK: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}"#;
const END_OF_INITIAL: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}"#;

/// The events that a watch with these lines records in these steps, and the time of the last request of the case.
fn watched(query: &str, collects: &str, lines: &[(f64, &'static str)]) -> (Vec<String>, f64) {
    let kit = case(&format!(r#"{{"watch": "w", "path": "${{cm}}", "query": {{{query}}}}}, {collects}, {{"path": "/end"}}"#));
    let lines = lines.to_vec();
    let (record, seen) = run(&kit, |seen| if seen.line == "GET /end" { json(200, "") } else { Reaction::Streams(lines.clone()) });
    let steps = steps(&record);
    assert_eq!(steps[0], r#"{"headers": {"content-type": "application/json"}, "status": 200}"#);
    (steps[1..steps.len() - 1].to_vec(), seen.last().unwrap().at)
}

#[test]
fn collect_waits_for_events_and_listens_on() {
    let of = |collect: &str, lines: &[(f64, &'static str)]| watched("", collect, lines);
    let one = |events: &str| vec![format!(r#"{{"events": [{events}]}}"#)];
    let (a, b) = (event("ADDED", "a"), event("ADDED", "b"));
    // One additional event, in the quiet time; and one after it.
    assert_eq!(of(r#"{"collect": "w", "count": 1}"#, &[(1.0, ADDED_A), (1.3, ADDED_B)]), (one(&format!("{a}, {b}")), 1.4));
    assert_eq!(of(r#"{"collect": "w", "count": 1}"#, &[(1.0, ADDED_A), (1.5, ADDED_B)]), (one(&a), 1.4));
    assert_eq!(of(r#"{"collect": "w", "count": 1, "quiet": 2}"#, &[(1.0, ADDED_A), (1.5, ADDED_B)]), (one(&format!("{a}, {b}")), 3.0));
    // No event comes.
    assert_eq!(of(r#"{"collect": "w", "count": 1}"#, &[]), (one(""), 8.4));
    assert_eq!(of(r#"{"collect": "w", "count": 2, "max": 3}"#, &[(1.0, ADDED_A)]), (one(&a), 3.4));
    assert_eq!(of(r#"{"collect": "w"}"#, &[]), (one(""), 0.4));
    // Blank lines are ignored.
    assert_eq!(of(r#"{"collect": "w", "count": 1}"#, &[(0.5, "\n"), (1.0, ADDED_A)]), (one(&a), 1.4));
    let no_json = r#"{"object": "<html>", "type": "<no JSON>"}"#;
    assert_eq!(of(r#"{"collect": "w", "count": 1}"#, &[(1.0, "<html>")]), (one(no_json), 1.4));
}

#[test]
fn collect_waits_for_the_end() {
    let ended = |events: &str| format!(r#"{{"ended": true, "events": [{events}]}}"#);
    let a = event("ADDED", "a");
    let (told, at) = watched("", r#"{"collect": "w", "until": "end"}, {"collect": "w", "count": 5}"#, &[(1.0, ADDED_A), (6.0, "")]);
    assert_eq!((told, at), (vec![ended(&a), ended("")], 6.0));
    // An end in the quiet time counts, too.
    assert_eq!(watched("", r#"{"collect": "w", "count": 1}"#, &[(1.0, ADDED_A), (1.2, "")]), (vec![ended(&a)], 1.2));
    assert_eq!(
        watched("", r#"{"collect": "w", "until": "end", "max": 2}"#, &[(1.0, ADDED_A)]),
        (vec![format!(r#"{{"events": [{a}]}}"#)], 2.4)
    );
}

#[test]
fn bookmarks_are_recorded_where_a_case_is_about_them() {
    let (asked, a) = (r#""allowWatchBookmarks": "true""#, event("ADDED", "a"));
    let one = |events: &str| vec![format!(r#"{{"events": [{events}]}}"#)];
    let bookmark = r#"{"object": {"metadata": {"resourceVersion": "rv0+"}}, "type": "BOOKMARK"}"#;
    let end = r#"{"object": {"metadata": {"annotations": {"k8s.io/initial-events-end": "true"}}}, "type": "BOOKMARK"}"#;
    let lines = [(0.5, BOOKMARK), (1.0, ADDED_A), (1.1, BOOKMARK)];
    // Bookmarks do not count.
    assert_eq!(watched(asked, r#"{"collect": "w", "count": 1}"#, &lines), (one(&a), 1.4));
    assert_eq!(watched(asked, r#"{"collect": "w", "count": 1, "bookmark": true}"#, &lines).0, one(&format!("{a}, {bookmark}")));
    assert_eq!(watched(asked, r#"{"collect": "w", "count": 1, "bookmark": true}"#, &lines[..2]).0, one(&a));
    // Bookmarks that were not requested.
    assert_eq!(watched("", r#"{"collect": "w", "count": 1}"#, &lines).0, one(&format!("{bookmark}, {a}, {bookmark}")));
    // The bookmark that ends the initial events counts, and is always recorded.
    assert_eq!(
        watched(asked, r#"{"collect": "w", "count": 2}"#, &[(0.5, ADDED_A), (0.6, END_OF_INITIAL)]),
        (one(&format!("{a}, {end}")), 1.0)
    );
}

#[test]
fn initial_events_are_sorted_by_name() {
    let (a, b) = (event("ADDED", "a"), event("ADDED", "b"));
    let lines = [(0.1, ADDED_B), (0.1, ADDED_A), (0.1, ADDED_B), (0.1, ADDED_A)];
    let sorted = |first: usize| watched("", &format!(r#"{{"collect": "w", "count": 4, "sort_first": {first}}}"#), &lines).0;
    assert_eq!(sorted(3), [format!(r#"{{"events": [{a}, {b}, {b}, {a}]}}"#)]);
    assert_eq!(sorted(9), [format!(r#"{{"events": [{a}, {a}, {b}, {b}]}}"#)]);
}

#[test]
fn events_are_kept_and_a_watch_is_hung_up() {
    let kit = case(
        r#"{"watch": "w", "path": "/w"}, {"collect": "w", "count": 1, "capture": "e"}, {"path": "/${e.0.object.metadata.name}"}, {"close": "w"},
           {"watch": "w", "path": "/w"}, {"collect": "w", "count": 1}"#,
    );
    let (record, seen) =
        run(&kit, |seen| if seen.line.starts_with("WATCH") { Reaction::Streams(vec![(0.0, ADDED_A)]) } else { json(200, "") });
    assert_eq!(lines(&seen), ["WATCH /w?watch=true", "GET /a", "WATCH /w?watch=true"]);
    assert_eq!(steps(&record)[3], r#"{"closed": true}"#);
    assert_eq!(steps(&record)[1], steps(&record)[5]);
}

#[test]
fn requests_at_once_are_told_in_sorted_order() {
    let kit = case(r#"{"parallel": [{"path": "/1"}, {"path": "/2"}, {"path": "/3"}, {"path": "/4"}]}, {"path": "/end"}"#);
    let slow = |status: u16, body: &str| {
        Reaction::Answers(Duration::from_secs(5), status, vec![("content-type", "application/json")], body.as_bytes().to_vec())
    };
    let (record, seen) = run(&kit, |seen| match seen.line.as_str() {
        "GET /1" => slow(409, r#"{"reason": "Conflict"}"#),
        "GET /2" => Reaction::Breaks,
        "GET /3" => slow(200, r#"{"reason": "of an object"}"#),
        _ => slow(500, r#"{"reason": ""}"#),
    });
    assert_eq!(steps(&record)[0], r#"{"parallel": ["200", "409 Conflict", "500", "connection"]}"#);
    assert_eq!(seen.iter().map(|seen| seen.at).collect::<Vec<_>>(), [0.0, 0.0, 0.0, 0.0, 5.0]);
}

#[test]
fn a_poll_repeats_until_the_answer_is_right() {
    let poll = |until: &str, more: &str| {
        let kit = case(&format!(
            r#"{{"poll": {{"path": "/p", "pick": ["n"]}}, "until": {until}, "capture": "p"{more}}}, {{"path": "/${{p.m}}"}}"#
        ));
        let (record, seen) = run(&kit, |seen| {
            let number = if seen.at < 0.25 { 1 } else { 2 };
            json(200 + number, &format!(r#"{{"n": {number}, "m": "m{number}"}}"#))
        });
        (steps(&record)[0].clone(), seen.last().unwrap().line.clone(), seen.len())
    };
    let told = |status: u16, n: u16, more: &str| {
        format!(r#"{{"body": {{"picked": {{"n": {n}}}}}, "headers": {{"content-type": "application/json"}}, {more}"status": {status}}}"#)
    };
    assert_eq!(poll(r#"{"status": 202}"#, ""), (told(202, 2, ""), "GET /m2".to_owned(), 5));
    assert_eq!(poll(r#"{"body": {"n": 2}}"#, ""), (told(202, 2, ""), "GET /m2".to_owned(), 5));
    assert_eq!(poll(r#"{"status": 201, "body": {"n": 1}}"#, ""), (told(201, 1, ""), "GET /m1".to_owned(), 2));
    assert_eq!(poll(r#"{"status": 404}"#, r#", "max": 1"#), (told(202, 2, r#""poll": "never met", "#), "GET /m2".to_owned(), 13));
}

#[test]
fn waits_and_compactions_are_the_servers() {
    let kit = case(
        r#"{"sleep": 2.5}, {"path": "/a", "capture": "a"}, {"control": "compact", "revision": "${a.rv|+1}", "announce": true},
           {"control": "compact", "revision": 3}, {"control": "compact", "revision": "${a.none}"}, {"control": "compact", "revision": "x"}"#,
    );
    let (record, seen) = run(&kit, |_| json(200, r#"{"rv": "7"}"#));
    assert_eq!(lines(&seen), ["GET /a", "COMPACT 8 true", "COMPACT 3 false"]);
    assert_eq!(seen[0].at, 2.5);
    let told = steps(&record);
    assert_eq!(
        (told[0].as_str(), told[2].as_str(), told[3].as_str()),
        (r#"{"slept": true}"#, r#"{"control": 200}"#, r#"{"control": 200}"#)
    );
    assert_eq!(told[4..], [r#"{"error": "there is no value for a.none"}"#, r#"{"error": "\"x\" is no revision"}"#]);
}

#[test]
fn what_lasts_is_left_out_of_deadlines() {
    let kit = case(r#"{"sleep": 8}, {"path": "/a"}"#);
    let body = r#"{"metadata": {"creationTimestamp": "2024-01-01T00:00:00Z", "deletionTimestamp": "2024-01-01T00:00:38Z", "deletionGracePeriodSeconds": 30}}"#;
    let (record, _) = run(&kit, |_| json(200, body));
    assert!(steps(&record)[1].contains(r#""deletionTimestamp": "<time+30>""#), "{}", steps(&record)[1]);
}

#[test]
fn what_varies_and_what_is_missing_is_recorded_as_such() {
    let kit = kit(
        r#"{"id": "a", "why": "w", "vary": ["1:body.a"], "steps": [{"path": "/a"}]}, {"id": "b", "why": "w", "needs": ["etcd", "auth"], "steps": [{"path": "/b"}]}"#,
    );
    let (record, _) = run(&kit, |_| json(200, r#"{"a": 1, "b": 2}"#));
    assert!(steps(&record)[0].starts_with(r#"{"body": {"a": "<varies>", "b": 2}"#));
    let toy = Toy::new(|_: &Seen| panic!("not to be asked"));
    let options = Options { has: [Need::Rbac].into(), ..options() };
    let record = toy.clock.run(Runner::new(&kit, &options).run_case(&toy, 1));
    assert_eq!(record.outcome, Outcome::Skipped("needs etcd, auth".to_owned()));
}

#[test]
fn definitions_are_made_and_waited_for() {
    let (kit, options) = (case(r#"{"path": "/"}"#), options());
    let toy = Toy::new(|seen: &Seen| match seen.line.as_str() {
        "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions" => json(201, ""),
        _ if seen.at < 1.0 => json(404, ""),
        _ => json(200, ""),
    });
    assert_eq!(toy.clock.run(Runner::new(&kit, &options).set_up(&toy)), Vec::<String>::new());
    let lines = toy.lines();
    assert_eq!((lines.len(), lines[6].as_str()), (7, "GET /apis/example.com/v1/pools?resourceVersion=0&limit=1"));
    assert_eq!(
        toy.seen.borrow()[0].body.as_deref(),
        Some(r#"{"kind":"CustomResourceDefinition","metadata":{"name":"pools.example.com"}}"#)
    );
    // The definitions exist from an earlier run.
    let toy = Toy::new(|seen: &Seen| json(if seen.line.starts_with("POST") { 409 } else { 200 }, ""));
    assert_eq!(toy.clock.run(Runner::new(&kit, &options).set_up(&toy)), Vec::<String>::new());
    let toy = Toy::new(|_: &Seen| json(403, "no"));
    let wrong = toy.clock.run(Runner::new(&kit, &options).set_up(&toy));
    assert_eq!(wrong, ["the definition of pools was refused: 403 no", "pools is not served after 30 s"]);
    assert_eq!(toy.elapsed(), Duration::from_secs(30));
}

#[test]
fn cases_that_compact_come_last_and_records_in_the_order_of_the_cases() {
    let kit = kit(r#"{"id": "a", "why": "w", "namespace": false, "needs": ["etcd"], "steps": [{"path": "/a"}]},
           {"id": "b", "why": "w", "namespace": false, "steps": [{"path": "/b"}]}"#);
    let (toy, options) = (Toy::new(|_: &Seen| json(200, "")), options());
    let records = toy.clock.run(Runner::new(&kit, &options).run(&toy));
    assert_eq!(toy.lines(), ["GET /b", "GET /a"]);
    assert_eq!(records.iter().map(|record| record.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}
