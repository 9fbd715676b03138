//! Invalid folders of cases.

use std::fs;

use api_conformance::{Json, Kit};

const SHARED: &str = r#"{"paths": {"cm": "/${ns}"}, "templates": {"t": {"kind": "T"}}, "ignore": {}, "loose": [], "crds": []}"#;

/// The problem of a folder with these files.
fn refused(files: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let problem = Kit::read(folder.path()).expect_err("it is refused").to_string();
    problem.replace(&folder.path().display().to_string(), "DIR")
}

fn of_case(case: &str) -> String {
    refused(&[("_shared.json", SHARED), ("01.json", &format!("{{\"theme\": \"t\",\n \"cases\": [{case}]}}"))])
}

#[test]
fn a_wrong_step_is_named_by_file_case_and_number() {
    for (steps, wrong) in [
        (r#"{"path": "/a"}, {"path": "/b", "bdoy": 1}"#, "step 2: unknown field `bdoy`, expected one of "),
        (r#"{"path": "/${a.x}"}"#, "step 1: `a.x` is used, but no step before it captures `a`"),
        (
            r#"{"path": "/a", "capture": "a"}, {"path": "/", "body": {"$from": "b"}}"#,
            "step 2: `b` is used, but no step before it captures `b`",
        ),
        (r#"{"path": "/a", "body": {"$use": "u"}}"#, "step 1: there is no template `u`"),
        (r#"{"path": "/a", "body": [{"$repeat": "x"}]}"#, "step 1: `$repeat` has to be a list of a text and a number"),
        (r#"{"collect": "w"}"#, "step 1: no watch `w` is open"),
        (r#"{"watch": "w", "path": "/"}, {"close": "w"}, {"collect": "w"}"#, "step 3: no watch `w` is open"),
    ] {
        let found = of_case(&format!(r#"{{"id": "a", "why": "w", "steps": [{steps}]}}"#));
        assert!(found.starts_with(&format!("DIR/01.json: case a, {wrong}")), "{found}");
    }
    let found = of_case(r#"{"id": "a", "why": "w", "namespace": false, "steps": [{"path": "${cm}"}]}"#);
    assert_eq!(found, "DIR/01.json: case a, step 1: `ns` is used, but no step before it captures `ns`");
}

#[test]
fn a_wrong_case_is_named_by_file_and_id() {
    for (case, wrong) in [
        (r#"{"id": "a", "why": "w", "steps": []}"#, "a: it has no steps"),
        (r#"{"why": "w", "steps": [{"path": "/"}]}"#, "1: missing field `id`"),
        (r#"{"id": "a", "why": "w", "steps": [{"path": "/"}], "need": []}"#, "a: unknown field `need`, expected one of "),
        (r#"{"id": "a", "why": "w", "steps": [{"path": "/"}], "needs": ["dns"]}"#, "a: unknown variant `dns`, expected one of "),
        (
            r#"{"id": "a", "why": "w", "steps": [{"path": "/"}], "loose": ["2:body"]}"#,
            "a: `2:body` names a step that is not there; there are 1",
        ),
        (r#"{"id": "a", "why": "w", "steps": [{"path": "/"}], "ignore": ["body"]}"#, "a: `body` is no place; expected STEP:PATH"),
        (r#"{"id": "a", "why": "w", "steps": [{"path": "/"}], "vary": ["*:body"]}"#, "a: `*:body` under `vary` has to be STEP:PATH"),
    ] {
        let found = of_case(case);
        assert!(found.starts_with(&format!("DIR/01.json: case {wrong}")), "{found}");
    }
    let case = r#"{"id": "a", "why": "w", "steps": [{"path": "/"}]}"#;
    assert_eq!(of_case(&format!("{case}, {case}")), "DIR/01.json: case a: another case has this id");
}

#[test]
fn a_wrong_file_is_named_by_line() {
    assert!(of_case("{").starts_with("DIR/01.json:2:13: "), "{}", of_case("{"));
    let found = refused(&[("_shared.json", SHARED), ("01.json", "{\"theme\": \"t\",\n\"case\": []}")]);
    assert!(found.starts_with("DIR/01.json:2:6: unknown field `case`"), "{found}");
    assert!(refused(&[]).starts_with("DIR/_shared.json: cannot be read: "));
    assert_eq!(refused(&[("_shared.json", SHARED)]), "DIR: the folder has no cases");
}

#[test]
fn what_the_cases_share_is_checked() {
    let shared = |from: &str, to: &str| {
        assert!(SHARED.contains(from));
        refused(&[("_shared.json", &SHARED.replace(from, to))])
    };
    let path = shared("/${ns}", "/${cm}");
    assert_eq!(path, "DIR/_shared.json: the path `cm` has `cm` in it; it can only have `ns` and `prefix`");
    let template = shared(r#""kind""#, r#""$use""#);
    assert_eq!(template, "DIR/_shared.json: the template `t` uses another one; only cases use templates");
    assert!(
        shared(r#""crds": []"#, r#""crds": [{}]"#)
            .starts_with("DIR/_shared.json: a definition has to have `metadata.name` as PLURAL.GROUP")
    );
    assert!(shared(r#""loose": []"#, r#""loose": ["x"]"#).starts_with("DIR/_shared.json: `x` is no place"));
}

#[test]
fn a_case_that_is_nearly_good_is_read_or_refused_in_words() {
    let kept = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/conformance/cases");
    let folder = tempfile::tempdir().unwrap();
    let shared = fs::read_to_string(kept.join("_shared.json")).unwrap();
    fs::write(folder.path().join("_shared.json"), &shared).unwrap();
    let (mut read, mut refused) = (0, 0);
    let mut files: Vec<_> = fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|file| !file.ends_with("_shared.json")) {
        let theme = Json::read(&fs::read(file).unwrap()).unwrap();
        for (number, case) in theme.get("cases").unwrap().as_array().unwrap().iter().enumerate() {
            let text = format!("{{\"theme\": \"t\", \"cases\": [{}]}}", case.compact());
            // Something is inserted after a quote, a colon or a brace; its place and content differ from case to case.
            let marks: Vec<usize> = text.match_indices(['"', ':', '{']).map(|(at, _)| at).collect();
            let at = marks[(text.len() * 7 + number) % marks.len()];
            for piece in ["\"", "${", "7,", "$use"] {
                fs::write(folder.path().join("01.json"), format!("{}{piece}{}", &text[..=at], &text[at + 1..])).unwrap();
                match Kit::read(folder.path()) {
                    Ok(_) => read += 1,
                    Err(problem) => {
                        refused += 1;
                        assert!(problem.file.ends_with("01.json") && !problem.place.is_empty() && !problem.wrong.is_empty(), "{problem}");
                    }
                }
            }
        }
    }
    assert!(read > 100 && refused > 500, "{read} read, {refused} refused");
}
