//! The recorded parts of an answer.

use crate::json::{Json, Map};
use crate::server::Answer;

/// Headers that are recorded, sorted. Content-Length and the like belong to the transport.
const HEADERS: [&str; 6] = ["allow", "content-type", "location", "retry-after", "warning", "www-authenticate"];
/// The longest text that is recorded as a whole, and the length recorded of a longer one; in characters.
const TEXT_MAX: usize = 2000;
const TEXT_HEAD: usize = 200;

/// Status, headers and body as `body` (JSON), `text` or `binary`. `picked`: the body is JSON whatever its media type.
pub(crate) fn recorded(answer: &Answer, picked: bool) -> Map {
    let mut result = Map::from([("status".to_owned(), answer.status.into())]);
    let mut headers = Map::new();
    for name in HEADERS {
        let values: Vec<&str> = answer.headers.iter().filter(|(own, _)| own == name).map(|(_, value)| value.as_str()).collect();
        if !values.is_empty() {
            headers.insert(name.to_owned(), values.join(" | ").into());
        }
    }
    let is_json = headers.get("content-type").and_then(Json::as_str).is_some_and(|kind| kind.contains("json"));
    if !headers.is_empty() {
        result.insert("headers".to_owned(), Json::Object(headers));
    }
    if answer.body.is_empty() {
        return result;
    }
    let json = if is_json || picked { Json::read(&answer.body).ok() } else { None };
    let (name, value) = match (json, std::str::from_utf8(&answer.body)) {
        (Some(body), _) => ("body", body),
        (None, Ok(text)) if !text.contains('\0') => ("text", shortened(text).into()),
        _ => ("binary", answer.body.iter().take(4).map(|byte| format!("{byte:02x}")).collect::<String>().into()),
    };
    result.insert(name.to_owned(), value);
    result
}

fn shortened(text: &str) -> String {
    let length = text.chars().count();
    if length <= TEXT_MAX {
        return text.to_owned();
    }
    let head: String = text.chars().take(TEXT_HEAD).collect();
    format!("{head}<and {} more>", length - TEXT_HEAD)
}

/// Whether `value` contains `pattern`: objects by name, a list if some item contains each wanted item.
pub(crate) fn contains(value: &Json, pattern: &Json) -> bool {
    match (pattern, value) {
        (Json::Object(pattern), Json::Object(value)) => {
            pattern.iter().all(|(name, wanted)| value.get(name).is_some_and(|item| contains(item, wanted)))
        }
        (Json::Array(pattern), Json::Array(value)) => pattern.iter().all(|wanted| value.iter().any(|item| contains(item, wanted))),
        (pattern, value) => pattern == value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(kind: &str, body: &[u8]) -> String {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let headers = vec![header("warning", "b"), header("content-type", kind), header("date", "now"), header("warning", "a")];
        Json::Object(recorded(&Answer { status: 200, headers, body: body.to_vec() }, false)).line()
    }

    #[test]
    fn a_body_is_recorded_by_what_it_is() {
        let rest = |kind: &str| format!(r#""headers": {{"content-type": "{kind}", "warning": "b | a"}}, "status": 200"#);
        assert_eq!(answer("application/json", b"[1]"), format!(r#"{{"body": [1], {}}}"#, rest("application/json")));
        assert_eq!(answer("text/plain", b"[1]"), format!(r#"{{{}, "text": "[1]"}}"#, rest("text/plain")));
        assert_eq!(answer("application/json", b"[1"), format!(r#"{{{}, "text": "[1"}}"#, rest("application/json")));
        assert_eq!(answer("x", b"k8s\0\x01"), format!(r#"{{"binary": "6b387300", {}}}"#, rest("x")));
        assert_eq!(answer("x", b"\xff"), format!(r#"{{"binary": "ff", {}}}"#, rest("x")));
        assert_eq!(answer("x", b""), format!("{{{}}}", rest("x")));
        assert!(answer("x", "é".repeat(2001).as_bytes()).ends_with("é<and 1801 more>\"}"));
    }

    #[test]
    fn a_body_contains_what_is_asked_for() {
        let json = |text: &str| Json::read(text.as_bytes()).unwrap();
        let body = json(r#"{"a": [{"b": 1, "c": 2}, {"b": 3}], "d": null}"#);
        for (pattern, expected) in [
            (r#"{"a": [{"b": 3}, {"c": 2}]}"#, true),
            (r#"{"a": [{"b": 3, "c": 2}]}"#, false),
            (r#"{"d": null}"#, true),
            (r#"{"e": null}"#, false),
            (r#"{"a": {}}"#, false),
        ] {
            assert_eq!(contains(&body, &json(pattern)), expected, "{pattern}");
        }
    }
}
