//! Reads TOML files: scenarios, plans, settings.

use std::path::Path;

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

use super::decode::decode;
use super::expected::Language;
use super::node::{Entry, Node, Value};
use super::problem::{Position, Problem, Problems};
use super::source::{self, Lines};

/// Reads a file (`-` is standard input), or returns its problems.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T, Problems> {
    let bytes = source::read(path)?;
    from_bytes(&source::name(path), &bytes)
}

/// The name of a file in problems and its text.
///
/// # Errors
/// Fails if the file cannot be read or is not text.
pub fn text(path: &Path) -> Result<(String, String), Problems> {
    let (name, bytes) = (source::name(path), source::read(path)?);
    let text = source::text(&name, &bytes)?.to_owned();
    Ok((name, text))
}

/// Decodes the bytes of a document; `file` is its name in problems.
pub fn from_bytes<T: DeserializeOwned>(file: &str, bytes: &[u8]) -> Result<T, Problems> {
    from_str(file, source::text(file, bytes)?)
}

/// Decodes a document; `file` is its name in problems.
pub fn from_str<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, Problems> {
    decode(file, &parse(file, text)?, Language::Toml).map(|decoded| decoded.value)
}

/// The tree of a document, or its syntax errors.
pub fn parse(file: &str, text: &str) -> Result<Node, Problems> {
    let lines = Lines::new(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut problems = Problems::new();
    for error in errors {
        let at = error.span().map_or(Position::START, |span| lines.position(span.start));
        // Further errors about one line are mostly consequences of the first.
        if problems.iter().all(|known| known.at.is_none_or(|known| known.line != at.line)) {
            let rest = error.span().and_then(|span| text.get(span.start..)).unwrap_or_default();
            let no_value =
                error.message().starts_with("string values must be quoted") && (rest.is_empty() || rest.starts_with(['\r', '\n', '#']));
            problems.push(if no_value {
                Problem::at(file, at, "not TOML: a value is missing", "")
            } else {
                syntax_problem(file, at, error.message())
            });
        }
    }
    problems.sort();
    let mut root = Node::new(Position::START, table_value(&lines, table.into_inner()));
    root.number();
    problems.or(root)
}

/// The problem of a syntax error, from the parser's message: `what is wrong, expected what would be right`.
fn syntax_problem(file: &str, at: Position, message: &str) -> Problem {
    match message.split_once(", expected ") {
        Some((wrong, right)) => Problem::at(file, at, format!("not TOML: {wrong}"), format!("expected {right}")),
        None => Problem::at(file, at, format!("not TOML: {message}"), ""),
    }
}

fn table_value(lines: &Lines<'_>, table: DeTable<'_>) -> Value {
    let mut entries: Vec<_> = table
        .into_iter()
        .map(|(key, value)| {
            let at = lines.position(key.span().start);
            Entry { key: key.into_inner().into_owned(), at, node: node(lines, value) }
        })
        .collect();
    // In the order of the file, whatever the order of the parser's map.
    entries.sort_by_key(|entry| entry.at);
    Value::Table(entries)
}

fn node(lines: &Lines<'_>, value: toml::Spanned<DeValue<'_>>) -> Node {
    let at = lines.position(value.span().start);
    let value = match value.into_inner() {
        DeValue::String(text) => Value::String(text.into_owned()),
        // The parser accepts numbers that no machine type can hold.
        DeValue::Integer(number) => {
            i128::from_str_radix(number.as_str(), number.radix()).map_or(Value::String(number.to_string()), Value::Integer)
        }
        DeValue::Float(number) => number.as_str().parse().map_or(Value::String(number.to_string()), Value::Float),
        DeValue::Boolean(value) => Value::Bool(value),
        DeValue::Datetime(value) => Value::String(value.to_string()),
        DeValue::Array(items) => Value::List(items.into_iter().map(|item| node(lines, item)).collect()),
        DeValue::Table(table) => table_value(lines, table),
    };
    Node::new(at, value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::kinds::{Kinds, With, kinds};
    use crate::time::{SimTime, Span};

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    struct Scenario {
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<Mode>,
        cluster: Cluster,
        #[serde(default)]
        fault: Vec<Fault>,
        #[serde(default)]
        operation: Vec<With<When, Operation>>,
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    enum Mode {
        Hardened,
        Upstream,
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    struct Cluster {
        nodes: u8,
        lag: Span,
        #[serde(default)]
        weights: Vec<f64>,
        #[serde(default)]
        pair: Option<(u32, u32)>,
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Partition {
        hosts: Vec<String>,
        duration: Span,
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Create {
        pod: String,
        #[serde(default)]
        labels: std::collections::BTreeMap<String, String>,
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct When {
        at: Span,
    }

    kinds! {
        /// Kinds of faults.
        enum Fault {
            /// Cuts hosts off.
            "partition" => Partition(Partition),
            /// Ends every partition.
            "heal" => Heal,
        }
    }

    kinds! {
        /// Operations of users.
        enum Operation {
            /// A new pod.
            "create" => Create(Create),
            /// Nothing.
            "rest" => Rest,
        }
    }

    fn problems(text: &str) -> String {
        match from_str::<Scenario>("x.toml", text) {
            Ok(scenario) => format!("{scenario:?}"),
            Err(problems) => problems.to_string(),
        }
    }

    const GOOD: &str = r#"
name = "x"
mode = "upstream"
[cluster]
nodes = 3
lag = "2s"
weights = [1, 0.5]
[[fault]]
hosts = ["n1"]
kind = "partition"
duration = "3s"
[[fault]]
kind = "heal"
[[operation]]
at = "1s"
kind = "create"
pod = "web-0"
labels = { app = "web" }
[[operation]]
kind = "rest"
at = "2s"
"#;

    #[test]
    fn a_good_document_reads_and_writes() {
        let scenario: Scenario = from_str("x.toml", GOOD).unwrap();
        assert_eq!(scenario.fault[0].kind(), "partition");
        assert_eq!(scenario.operation[1], With { kind: Operation::Rest, common: When { at: Span::secs(2) } });
        let text = ::toml::to_string(&scenario).unwrap();
        assert_eq!(from_str::<Scenario>("x.toml", &text).unwrap(), scenario);
        insta::assert_snapshot!(text, @r#"
        name = "x"
        mode = "upstream"

        [cluster]
        nodes = 3
        lag = "2s"
        weights = [1.0, 0.5]

        [[fault]]
        kind = "partition"
        hosts = ["n1"]
        duration = "3s"

        [[fault]]
        kind = "heal"

        [[operation]]
        kind = "create"
        pod = "web-0"
        at = "1s"

        [operation.labels]
        app = "web"

        [[operation]]
        kind = "rest"
        at = "2s"
        "#);
    }

    #[test]
    fn every_problem_of_a_file_is_reported_at_once() {
        let text = r#"name = 7
colour = "red"
mode = "upstraem"
[cluster]
nodes = 300
lga = "2s"
weights = [1, "heavy", true]
[[fault]]
kind = "partitoin"
[[fault]]
kind = "partition"
hosts = ["n1", 2]
duration = 3
until = "4s"
[[fault]]
hosts = []
[[fault]]
kind = "heal"
hosts = []
[[fault]]
kind = 3
"#;
        insta::assert_snapshot!(problems(text), @r#"
        x.toml:1:8: `name` is the number 7; expected a string
        x.toml:2:1: unknown key `colour`; known keys: `name`, `mode`, `cluster`, `fault`, `operation`
        x.toml:3:8: `mode` cannot be `upstraem`; did you mean `upstream`?
        x.toml:5:9: `cluster.nodes` is the number 300; expected a whole number from 0 to 255
        x.toml:6:1: unknown key `lga`; did you mean `lag`?
        x.toml:7:15: `cluster.weights[1]` is the string "heavy"; expected a number
        x.toml:7:24: `cluster.weights[2]` is the boolean true; expected a number
        x.toml:9:8: unknown kind `partitoin`; did you mean `partition`?
        x.toml:12:16: `fault[1].hosts[1]` is the number 2; expected a string
        x.toml:13:12: `fault[1].duration` is the number 3; expected a duration such as 250us, 1.5ms, 30s, 5m or 2h
        x.toml:14:1: unknown key `until`; known keys: `hosts`, `duration`
        x.toml:15:1: missing key `kind` in `fault[2]`
        x.toml:19:1: unknown key `hosts`; no other key is known here
        x.toml:21:8: `fault[4].kind` is the number 3; expected one of `partition`, `heal`
        "#);
    }

    #[test]
    fn a_missing_key_is_reported_at_its_table() {
        insta::assert_snapshot!(problems("name = 'x'\n\n[cluster]\nnodes = 3\n[[fault]]\nkind = 'partition'\nhosts = []\n"), @r"
        x.toml:3:1: missing key `lag` in `cluster`
        x.toml:5:1: missing key `duration` in `fault[0]`
        ");
        insta::assert_snapshot!(problems("[[fault]]\nkind = 'partition'\n[[operation]]\nkind = 'create'\n[[operation]]\n"), @r"
        x.toml:1:1: missing key `hosts` in `fault[0]`
        x.toml:1:1: missing key `duration` in `fault[0]`
        x.toml:1:1: missing key `name`
        x.toml:1:1: missing key `cluster`
        x.toml:3:1: missing key `pod` in `operation[0]`
        x.toml:3:1: missing key `at` in `operation[0]`
        x.toml:5:1: missing key `kind` in `operation[1]`
        ");
        insta::assert_snapshot!(problems("naem = 'x'\n[clutser]\nnodes = 3\n"), @r"
        x.toml:1:1: unknown key `naem`; did you mean `name`?
        x.toml:2:2: unknown key `clutser`; did you mean `cluster`?
        ");
        insta::assert_snapshot!(problems("name = 'x'\n"), @"x.toml:1:1: missing key `cluster`");
        insta::assert_snapshot!(problems("name = 'x'\ncluster = { nodes = 3 }"), @"x.toml:2:11: missing key `lag` in `cluster`");
        insta::assert_snapshot!(problems("name = 'x'\ncluster.nodes = 3"), @"x.toml:2:1: missing key `lag` in `cluster`");
    }

    #[test]
    fn keys_that_all_kinds_share_are_known_beside_the_kinds_own() {
        let head = "name = 'x'\ncluster = { nodes = 1, lag = '1s' }\n";
        let text = format!(
            "{head}[[operation]]\nkind = 'create'\nat = 3\npdo = 'a'\n[[operation]]\nkind = 'rest'\natt = '1s'\n\
             [[operation]]\nkind = 'slumber'\nat = '1s'\n"
        );
        insta::assert_snapshot!(problems(&text), @r"
        x.toml:5:6: `operation[0].at` is the number 3; expected a duration such as 250us, 1.5ms, 30s, 5m or 2h
        x.toml:6:1: unknown key `pdo`; did you mean `pod`?
        x.toml:9:1: unknown key `att`; did you mean `at`?
        x.toml:11:8: unknown kind `slumber`; known kinds: `create`, `rest`
        ");
    }

    #[test]
    fn wrong_shapes_are_named() {
        let head = "name = 'x'\n";
        insta::assert_snapshot!(problems(&format!("{head}cluster = 3\nfault = 'heal'\nmode = []")), @r#"
        x.toml:2:11: `cluster` is the number 3; expected a table
        x.toml:3:9: `fault` is the string "heal"; expected an array
        x.toml:4:8: `mode` is an array; expected one of `hardened`, `upstream`
        "#);
        insta::assert_snapshot!(problems(&format!("{head}cluster = [3, '2s', [], []]")), @"x.toml:2:11: `cluster` is an array; expected a table");
        insta::assert_snapshot!(problems(&format!("{head}fault = [3]\noperation = [3]\n[cluster]\nnodes = 1.5\nlag = 3\npair = [1, 2, 3]")), @r"
        x.toml:2:10: `fault[0]` is the number 3; expected a table with the key `kind`
        x.toml:3:14: `operation[0]` is the number 3; expected a table
        x.toml:5:9: `cluster.nodes` is the number 1.5; expected a whole number from 0 to 255
        x.toml:6:7: `cluster.lag` is the number 3; expected a duration such as 250us, 1.5ms, 30s, 5m or 2h
        x.toml:7:8: `cluster.pair` is 3 elements; expected 2 elements
        ");
        insta::assert_snapshot!(problems(&format!("{head}[cluster]\nnodes = 99999999999999999999\nlag = '1 s'\npair = [1]")), @r"
        x.toml:3:9: `cluster.nodes` is the number 99999999999999999999; expected a whole number from 0 to 255
        x.toml:4:7: `cluster.lag`: `1 s` is not a duration such as 250us, 1.5ms, 30s, 5m or 2h
        x.toml:5:8: `cluster.pair` is 1 element; expected 2 elements
        ");
    }

    #[test]
    fn syntax_errors_have_a_place() {
        insta::assert_snapshot!(problems("name = \n[cluster\nnodes = 03\nlag = 'x\n"), @r"
        x.toml:1:8: not TOML: a value is missing
        x.toml:2:9: not TOML: unclosed table; expected `]`
        ");
        insta::assert_snapshot!(problems("name = 'x'\nname = 'y'\n"), @"x.toml:2:1: not TOML: duplicate key");
        insta::assert_snapshot!(problems("nämé = 'x'"), @"x.toml:1:2: not TOML: invalid unquoted key; expected letters, numbers, `-`, `_`");
    }

    #[test]
    fn columns_count_characters() {
        let head = "name = 'x'\ncluster = { lag = '1s', nodes = ";
        insta::assert_snapshot!(problems(&format!("{head}'ßßß', wights = [] }}")), @r#"
        x.toml:2:33: `cluster.nodes` is the string "ßßß"; expected a whole number from 0 to 255
        x.toml:2:40: unknown key `wights`; did you mean `weights`?
        "#);
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_with_their_place() {
        insta::assert_snapshot!(from_bytes::<Scenario>("x.toml", b"name = 'x'\nmode = '\xff'").unwrap_err(), @"x.toml:2:9: the byte 0xff is not UTF-8; save the file as UTF-8 text");
    }

    #[test]
    fn a_file_that_does_not_exist_is_a_problem() {
        insta::assert_snapshot!(read::<Scenario>(Path::new("no/such.toml")).unwrap_err(), @"no/such.toml: cannot be read: no such file or directory");
    }

    #[test]
    fn hopeless_files_are_not_reported_to_the_end() {
        let text: String = (0..200).map(|i| format!("key{i} = 1\n")).collect();
        let problems = from_str::<Scenario>("x.toml", &text).unwrap_err();
        assert_eq!(problems.iter().count(), Problems::MAX);
    }

    #[test]
    fn the_schema_of_kinds_allows_the_kind_beside_the_keys() {
        let schema = serde_json::to_value(schemars::schema_for!(Fault)).unwrap();
        insta::assert_snapshot!(serde_json::to_string(&schema["oneOf"]).unwrap(), @r##"[{"additionalProperties":false,"description":"Cuts hosts off.","properties":{"duration":{"$ref":"#/$defs/Span"},"hosts":{"items":{"type":"string"},"type":"array"},"kind":{"const":"partition","type":"string"}},"required":["kind","hosts","duration"],"type":"object"},{"description":"Ends every partition.","properties":{"kind":{"const":"heal","type":"string"}},"required":["kind"],"type":"object"}]"##);
    }

    #[test]
    fn the_schema_of_shared_keys_allows_both() {
        let schema = serde_json::to_value(schemars::schema_for!(With<When, Operation>)).unwrap();
        insta::assert_snapshot!(serde_json::to_string(&schema).unwrap(), @r##"{"$defs":{"Span":{"description":"a duration such as 250us, 1.5ms, 30s, 5m or 2h","pattern":"^[0-9]+(\\.[0-9]+)?(us|µs|ms|s|m|min|h)$|^forever$","type":"string"}},"$schema":"https://json-schema.org/draft/2020-12/schema","description":"a kind, and the keys that all kinds share","oneOf":[{"description":"A new pod.","properties":{"kind":{"const":"create","type":"string"},"labels":{"additionalProperties":{"type":"string"},"default":{},"type":"object"},"pod":{"type":"string"}},"required":["kind","pod"],"type":"object"},{"description":"Nothing.","properties":{"kind":{"const":"rest","type":"string"}},"required":["kind"],"type":"object"}],"properties":{"at":{"$ref":"#/$defs/Span"}},"required":["at"],"title":"With","type":"object"}"##);
    }

    #[test]
    fn kinds_read_back_from_json() {
        let fault = Fault::Partition(Partition { hosts: vec!["n1".into()], duration: Span::secs(1) });
        let text = serde_json::to_string(&fault).unwrap();
        assert_eq!(text, r#"{"kind":"partition","hosts":["n1"],"duration":"1s"}"#);
        assert_eq!(serde_json::from_str::<Fault>(&text).unwrap(), fault);
    }

    #[test]
    fn points_in_time_read() {
        #[derive(Deserialize)]
        struct At {
            at: Vec<SimTime>,
        }
        let at: At = from_str("x.toml", "at = ['never', '2s']").unwrap();
        assert_eq!(at.at, [SimTime::NEVER, SimTime::from_secs(2)]);
    }

    fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
        if let Err(problems) = from_bytes::<Scenario>("x.toml", bytes) {
            prop_assert!(!problems.is_empty());
            for problem in &problems {
                let at = problem.at.unwrap();
                prop_assert!(at.line >= 1 && at.column >= 1, "{problem}");
            }
        }
        Ok(())
    }

    /// Pieces of almost valid documents.
    fn nearly() -> impl Strategy<Value = String> {
        let pieces = [
            "name = ",
            "'x'",
            "\n",
            "[cluster]",
            "[[fault]]",
            "kind = ",
            "\"partition\"",
            "nodes = 3",
            "lag = ",
            "{",
            "}",
            "[",
            "]",
            ",",
            "=",
            ".",
            "\"",
            "'''",
            "1979-05-27",
            "-1e400",
            "0x",
            "[[operation]]",
            "at = 3",
            "é",
            "\u{feff}",
            "\r\n",
            "#",
        ];
        proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            check(&bytes)?;
        }

        #[test]
        fn no_near_miss_makes_the_reader_panic(text in nearly()) {
            check(text.as_bytes())?;
        }

        #[test]
        fn a_cut_document_never_panics(at in 0..GOOD.len(), by in 0..20usize) {
            let mut bytes = GOOD.as_bytes().to_vec();
            bytes.drain(at..(at + by).min(GOOD.len()));
            check(&bytes)?;
        }
    }
}
