//! The names in answers.

use super::*;

fn json(text: &str) -> Json {
    Json::read(text.as_bytes()).unwrap()
}

fn result(record: Json, exact: Option<Exact>, at: f64) -> StepResult {
    let Json::Object(record) = record else { panic!("a record is an object") };
    StepResult { record, exact, at: Duration::from_secs_f64(at) }
}

fn body(body: Json) -> Json {
    Json::Object(Map::from([("status".to_owned(), 200.into()), ("body".to_owned(), body)]))
}

fn named(source: &str, records: &[StepResult]) -> Vec<Json> {
    Normaliser::new(source, "c000aaaa", "c000aaaa-ns", false).steps(records)
}

/// One body with names, in a case with these steps.
fn named_in(source: &str, text: &str) -> String {
    named(source, &[result(body(json(text)), None, 0.0)])[0].get("body").unwrap().compact()
}

fn of(text: &str) -> String {
    named_in("[]", text)
}

#[test]
fn objects_have_ranks_and_lists_tell_what_they_are_not_below() {
    let list = r#"{"kind":"ThingList","metadata":{"resourceVersion":"90","continue":"abc"},"items":[
        {"metadata":{"resourceVersion":"70"}},{"metadata":{"resourceVersion":"9"}},{"metadata":{"resourceVersion":"x"}}]}"#;
    let expected = r#"{"kind":"ThingList","metadata":{"resourceVersion":"rv2+","continue":"<token>"},"items":[
        {"metadata":{"resourceVersion":"rv2"}},{"metadata":{"resourceVersion":"rv1"}},{"metadata":{"resourceVersion":"<rv x>"}}]}"#;
    assert_eq!(of(list), expected.split_whitespace().collect::<Vec<_>>().join("").replace("<rvx>", "<rv x>"));
    assert_eq!(
        of(r#"{"items":[],"metadata":{"resourceVersion":"0","continue":""}}"#),
        r#"{"items":[],"metadata":{"resourceVersion":"0","continue":""}}"#
    );
}

#[test]
fn a_list_has_the_version_of_its_last_object_or_a_later_one() {
    let list = |version: &str| {
        of(&format!(r#"[{{"metadata":{{"resourceVersion":"70"}}}},{{"kind":"Table","metadata":{{"resourceVersion":"{version}"}}}}]"#))
    };
    for (version, expected) in [("69", "rv0+"), ("70", "rv1+"), ("71", "rv1+")] {
        assert!(list(version).contains(&format!(r#""resourceVersion":"{expected}""#)), "{version}: {}", list(version));
    }
}

#[test]
fn a_version_is_one_however_often_and_however_it_is_written() {
    let object = |version: &str| format!(r#"{{"metadata":{{"resourceVersion":"{version}"}}}}"#);
    let found = of(&format!("[{},{},{},{}]", object("7"), object("007"), object("7"), object("8")));
    assert_eq!(found, format!("[{},{},{},{}]", object("rv1"), object("rv1"), object("rv1"), object("rv2")));
    // A picked value has the path as its name.
    assert_eq!(of(r#"{"picked":{"metadata/resourceVersion":"9"}}"#), r#"{"picked":{"metadata/resourceVersion":"rv1"}}"#);
}

#[test]
fn uids_are_named_by_appearance_values_before_their_names() {
    let uid = |number: u8| format!("{number}{number}{number}{number}{number}{number}{number}{number}-0000-4000-8000-000000000000");
    let found = of(&format!(r#"{{"{}":"{}","metadata":{{"{}":"{}"}}}}"#, uid(1), uid(2), uid(3), uid(4)));
    assert_eq!(found, r#"{"uid2":"uid1","metadata":{"uid4":"uid3"}}"#);
}

#[test]
fn versions_of_any_length_are_in_order() {
    let texts = ["99999999999999999999999999", "100000000000000000000000000", "7"];
    let items: Vec<String> = texts.iter().map(|text| format!(r#"{{"metadata":{{"resourceVersion":"{text}"}}}}"#)).collect();
    let found = of(&format!("[{}]", items.join(",")));
    let ranks: Vec<&str> = found.split('"').filter(|part| part.starts_with("rv")).collect();
    assert_eq!(ranks, ["rv2", "rv3", "rv1"]);
}

#[test]
fn versions_of_lists_that_are_determined_are_exact() {
    let page = |version: &str, exact| {
        let list = format!(r#"{{"kind":"ThingList","metadata":{{"resourceVersion":"{version}"}},"items":[]}}"#);
        result(body(json(&list)), exact, 0.0)
    };
    let thing = result(body(json(r#"{"metadata":{"resourceVersion":"70"}}"#)), None, 0.0);
    let (at_page, at_version) = (Some(Exact::Page), Some(Exact::Version));
    let records = [
        thing,
        page("90", None),
        page("90", at_page),
        page("91", at_page),
        page("70", at_version),
        page("80", at_version),
        page("90", at_page),
    ];
    let named = named("[]", &records);
    let told =
        named.iter().map(|step| step.get("body").unwrap().get("metadata").unwrap().get("resourceVersion").unwrap().as_str().unwrap());
    assert_eq!(told.collect::<Vec<_>>(), ["rv1", "rv1+", "as in step 2", "<rv>", "rv1", "<rv>", "as in step 3"]);
}

#[test]
fn bookmarks_have_versions_of_lists_and_events_those_of_objects() {
    let events = r#"{"events":[
        {"type":"ADDED","object":{"metadata":{"resourceVersion":"5"}}},
        {"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8"}}},
        {"type":"MODIFIED","object":{"metadata":{"resourceVersion":"9"}},"more":"2024-01-01T00:00:00Z"},
        ["no event","2024-01-01T00:00:00Z"]],"ended":true}"#;
    let named = named("[]", &[result(json(events), None, 0.0)])[0].compact();
    let expected = r#"{"events":[{"type":"ADDED","object":{"metadata":{"resourceVersion":"rv1"}}},{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"rv1+"}}},{"type":"MODIFIED","object":{"metadata":{"resourceVersion":"rv2"}},"more":"2024-01-01T00:00:00Z"},{"no event":["no event","<time>"]}],"ended":true}"#;
    assert_eq!(named, expected);
}

#[test]
fn what_the_case_sent_is_kept() {
    let source = r#"[{"body": {"uid": "11111111-1111-4111-8111-111111111111", "t": "2001-01-01T00:00:00Z", "h": "10.0.0.1:80"}}]"#;
    let found = named_in(
        source,
        r#"{"a":"11111111-1111-4111-8111-111111111111","b":"22222222-1111-4111-8111-111111111111","c":"UID 22222222-1111-4111-8111-111111111111",
            "d":"2001-01-01T00:00:00.000000Z","e":"2002-01-01T00:00:00.123456Z","f":"2002-01-01T00:00:00+02:00","g":"10.0.0.1:80 10.0.0.2:80 [::1]:6 localhost:1"}"#,
    );
    let expected = r#"{"a":"11111111-1111-4111-8111-111111111111","b":"uid1","c":"UID uid1","d":"2001-01-01T00:00:00.000000Z","e":"<time.6>","f":"<time with zone>","g":"10.0.0.1:80 <server> <server> <server>"}"#;
    assert_eq!(found, expected);
}

/// A text in a body in which an object has version 5.
fn text(text: &str) -> String {
    let records = body(Json::Array(vec![json(r#"{"metadata":{"resourceVersion":"5"}}"#), text.into()]));
    let named = named("[]", &[result(records, None, 0.0)]);
    named[0].get("body").unwrap().as_array().unwrap()[1].as_str().unwrap().to_owned()
}

#[test]
fn versions_in_texts_have_the_same_ranks() {
    for (raw, expected) in [
        ("Too large resource version: 500, current: 7", "Too large resource version: <rv>, current: <rv>"),
        // The version of the whole server, although an object has it, too.
        ("Too large resource version: 500, current: 5", "Too large resource version: <rv>, current: <rv>"),
        ("too old resource version: 5 (7)", "too old resource version: rv1 (<rv>)"),
        (
            "ResourceVersion in precondition: 1, ResourceVersion in object meta: 5",
            "ResourceVersion in precondition: <rv>, ResourceVersion in object meta: rv1",
        ),
        (
            "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (5)",
            "the ResourceVersion in the precondition (<rv>) does not match the ResourceVersion in record (rv1)",
        ),
        (
            "the ResourceVersion in the precondition () does not match the ResourceVersion in record (5)",
            "the ResourceVersion in the precondition () does not match the ResourceVersion in record (rv1)",
        ),
        (r#"{\"resourceVersion\":\"5\",\"x\":4094}"#, r#"{\"resourceVersion\":\"rv1\",\"x\":4094}"#),
        (r#"resourceVersion: "5""#, r#"resourceVersion: "rv1""#),
        ("ResourceVersion: 0", "ResourceVersion: 0"),
        ("at most 5 characters", "at most 5 characters"),
    ] {
        assert_eq!(text(raw), expected);
    }
}

#[test]
fn other_parts_of_texts_have_names() {
    for (raw, expected) in [
        ("at 0xc000123456 and 0xc0", "at <address> and 0xc0"),
        ("larger than max (3146729 vs. 3145728)", "larger than max (<3146 thousand> vs. 3145728)"),
        ("in c000aaaa-ns as c000aaaa-x", "in <ns> as <prefix>-x"),
        ("as 2006-01-02T15:04:05.000000Z07:00", "as 2006-01-02T15:04:05.000000Z07:00"),
    ] {
        assert_eq!(text(raw), expected);
    }
    let (long, short) = ("é".repeat(701), "y".repeat(700));
    assert_eq!(text(&short), short);
    assert_eq!(text(&long), format!("{}<701 characters, sha256 c13c1fb63883>", "é".repeat(200)));
}

#[test]
fn generated_names_are_told_by_their_base() {
    let source = r#"[{"body": {"metadata": {"generateName": "a-"}}}, {"body": {"metadata": {"generateName": "a-${prefix}-"}}}]"#;
    let found = named_in(source, r#"["a-bcdfg","a-c000aaaa-zzzz2","xa-bcdfg","a-bcdfg-x","a-bcdfgh","a-bcdfg","a-aaaaa a-bcdfg.x"]"#);
    let expected = r#"["a-<suffix1>","a-<prefix>-<suffix2>","xa-bcdfg","a-bcdfg-x","a-bcdfgh","a-<suffix1>","a-<suffix3 outside the alphabet> a-<suffix1>.x"]"#;
    assert_eq!(found, expected);
}

#[test]
fn the_longest_base_counts_and_one_that_is_too_long_is_cut() {
    let source = r#"[{"body": {"metadata": {"generateName": "a-"}}}, {"body": {"metadata": {"generateName": "a-bcdfg."}}}]"#;
    // The suffix of the longer one is found, although that of the shorter one occurs in it, too.
    assert_eq!(named_in(source, r#""a-bcdfg.zzzzz""#), r#""a-<suffix2>.<suffix1>""#);
    let source = format!(r#"[{{"body": {{"metadata": {{"generateName": "{}"}}}}}}]"#, "x".repeat(60));
    assert_eq!(named_in(&source, &format!("\"{}bcdfg\"", "x".repeat(58))), format!("\"{}<suffix1>\"", "x".repeat(58)));
}

#[test]
fn lists_without_an_order_are_sorted() {
    let own = r#"{"kind":"APIResourceList","groupVersion":"c000aaaa.example.com/v1","resources":[{"name":"b","storageVersionHash":"x"},{"name":"a"}]}"#;
    let expected = r#"{"kind":"APIResourceList","groupVersion":"<prefix>.example.com/v1","resources":[{"name":"a"},{"name":"b","storageVersionHash":"<hash>"}]}"#;
    assert_eq!(of(own), expected);
    let other = r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"b","storageVersionHash":"x"}]}"#;
    assert_eq!(of(other), other);
    let cause = |field: &str, reason: &str| format!(r#"{{"reason":"{reason}","field":"{field}"}}"#);
    let causes = |one: &str, other: &str| format!(r#"{{"causes":[{one},{other}]}}"#);
    let (a, b) = (cause("a", "FieldManagerConflict"), cause("b", "FieldManagerConflict"));
    assert_eq!(of(&causes(&b, &a)), causes(&a, &b));
    let mixed = causes(&b, &cause("a", "FieldValueInvalid"));
    assert_eq!(of(&mixed), mixed);
}

#[test]
fn managed_fields_are_dropped_unless_asked_for() {
    let object = body(json(
        r#"{"metadata":{"managedFields":[{"manager":"b"},{"manager":"a","operation":"Update"},{"manager":"a","operation":"Apply"}]}}"#,
    ));
    let told = |keep| {
        let named = Normaliser::new("[]", "c000aaaa", "c000aaaa-ns", keep).steps(&[result(object.clone(), None, 0.0)]);
        named[0].get("body").unwrap().compact()
    };
    assert_eq!(told(false), r#"{"metadata":{}}"#);
    let sorted =
        r#"{"metadata":{"managedFields":[{"manager":"a","operation":"Apply"},{"manager":"a","operation":"Update"},{"manager":"b"}]}}"#;
    assert_eq!(told(true), sorted);
}

#[test]
fn ages_in_tables_are_hidden() {
    let table = r#"{"kind":"Table","rows":[{"cells":["a","5m10s",3,"5m10"]},{}]}"#;
    assert_eq!(of(table), r#"{"kind":"Table","rows":[{"cells":["a","<age>",3,"5m10"]},{"cells":[]}]}"#);
}

#[test]
fn deadlines_are_told_by_their_grace() {
    let told = |after: u32, grace: u32, at: f64| {
        let object = format!(
            r#"{{"metadata":{{"creationTimestamp":"2024-01-01T00:00:00Z","deletionTimestamp":"2024-01-01T00:00:{after:02}Z","deletionGracePeriodSeconds":{grace}}}}}"#
        );
        let named = named("[]", &[result(body(json(&object)), None, at)]);
        named[0].get("body").unwrap().get("metadata").unwrap().get("deletionTimestamp").unwrap().as_str().unwrap().to_owned()
    };
    assert_eq!([told(0, 0, 0.1), told(31, 30, 0.1), told(8, 0, 7.5), told(38, 30, 7.5)], ["<time>", "<time+30>", "<time>", "<time+30>"]);
    assert_eq!([told(30, 0, 0.1), told(8, 0, 0.1), told(20, 40, 0.1)], ["<time+30>", "<time+10>", "<time+20>"]);
    assert_eq!([told(24, 0, 0.1), told(25, 0, 0.1), told(35, 0, 0.1)], ["<time+20>", "<time+20>", "<time+40>"]);
}

#[test]
fn what_chance_decides_is_hidden() {
    let mut step = json(r#"{"body":{"a":[{"b":1},{"b":2}],"c":3}}"#);
    for path in ["body.a.1.b", "body.none", "body.a.7", "body.c.d"] {
        vary(&mut step, &path.split('.').map(str::to_owned).collect::<Vec<_>>());
    }
    assert_eq!(step.compact(), r#"{"body":{"a":[{"b":1},{"b":"<varies>"}],"c":3}}"#);
    vary(&mut step, &["body", "a", "*", "b"].map(str::to_owned));
    assert_eq!(step.compact(), r#"{"body":{"a":[{"b":"<varies>"},{"b":"<varies>"}],"c":3}}"#);
}
