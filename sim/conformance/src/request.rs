//! Requests in the form in which they are sent.

use std::fmt::Write;

use indexmap::IndexMap;

use crate::forms::plain;
use crate::json::Json;
use crate::server::Identity;
use crate::step::{Request, Watch};
use crate::values::{ValueError, Values};

const CONTENT_TYPE: &str = "content-type";

/// A request with all values filled in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) identity: Identity,
}

impl Sent {
    /// The request of a step.
    pub(crate) fn new(values: &Values<'_>, request: &Request) -> Result<Self, ValueError> {
        let target = target(values, &request.path, &request.query, false)?;
        let mut headers = headers(values, &request.headers)?;
        let body = match &request.body {
            Some(body) => Some(bytes(values, body, request, &mut headers)?),
            None => None,
        };
        Ok(Self { method: request.method.clone(), target, headers, body, identity: request.identity })
    }

    /// The request that opens a watch.
    pub(crate) fn watch(values: &Values<'_>, watch: &Watch) -> Result<Self, ValueError> {
        let target = target(values, &watch.path, &watch.query, true)?;
        let headers = headers(values, &watch.headers)?;
        Ok(Self { method: "GET".to_owned(), target, headers, body: None, identity: watch.identity })
    }

    /// A request of the kit itself, with a body of JSON if it has one.
    pub(crate) fn plain(method: &str, target: String, body: Option<&Json>) -> Self {
        let mut headers = usual();
        headers.extend(body.map(|_| (CONTENT_TYPE.to_owned(), "application/json".to_owned())));
        let body = body.map(|body| body.compact().into_bytes());
        Self { method: method.to_owned(), target, headers, body, identity: Identity::Admin }
    }
}

/// Headers that every request has, unless its step says otherwise.
fn usual() -> Vec<(String, String)> {
    [("accept", "application/json"), ("user-agent", "conformance-kit")].map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

fn headers(values: &Values<'_>, given: &IndexMap<String, Option<String>>) -> Result<Vec<(String, String)>, ValueError> {
    let mut headers = usual();
    for (name, value) in given {
        let name = name.to_ascii_lowercase();
        headers.retain(|(own, _)| *own != name);
        if let Some(value) = value {
            headers.push((name, values.text(value)?));
        }
    }
    Ok(headers)
}

/// The bytes of a body; adds its content type if the step has none.
fn bytes(values: &Values<'_>, body: &Json, request: &Request, headers: &mut Vec<(String, String)>) -> Result<Vec<u8>, ValueError> {
    if let Some(hex) = body.get("$hex") {
        // Such a body has no default content type.
        return hex
            .as_str()
            .and_then(unhexed)
            .ok_or_else(|| ValueError::Unfit("`$hex` has to be a text of pairs of hexadecimal digits".to_owned()));
    }
    let bytes = match body.get("$raw").map(|raw| raw.as_str()) {
        Some(Some(raw)) => values.text(raw)?,
        Some(None) => return Err(ValueError::Unfit("`$raw` has to be a text".to_owned())),
        None => values.expand(body)?.compact(),
    };
    if !request.headers.keys().any(|name| name.eq_ignore_ascii_case(CONTENT_TYPE)) {
        let kind = if request.method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        headers.push((CONTENT_TYPE.to_owned(), kind.to_owned()));
    }
    Ok(bytes.into_bytes())
}

fn unhexed(text: &str) -> Option<Vec<u8>> {
    let digits = text.chars().filter(|char| *char != ' ').map(|char| char.to_digit(16)).collect::<Option<Vec<u32>>>()?;
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    });
    pairs.collect()
}

/// Path and query as in the request line.
fn target(values: &Values<'_>, path: &str, query: &IndexMap<String, Json>, watch: bool) -> Result<String, ValueError> {
    let mut target = escaped(&values.text(path)?, "/:%~,-._", false);
    let mut pairs = Vec::new();
    for (name, value) in query {
        match values.expand(value)? {
            Json::Null => {}
            Json::Array(items) => pairs.extend(items.into_iter().map(|item| (name.as_str(), item))),
            value => pairs.push((name, value)),
        }
    }
    if watch && !query.contains_key("watch") {
        pairs.push(("watch", "true".into()));
    }
    for (index, (name, value)) in pairs.iter().enumerate() {
        let value = plain(value).ok_or_else(|| ValueError::Unfit(format!("the parameter {name} is neither text nor number")))?;
        target.push(if index == 0 { '?' } else { '&' });
        target.push_str(&escaped(name, "-._~", true));
        target.push('=');
        target.push_str(&escaped(&value, "-._~", true));
    }
    Ok(target)
}

/// The text with all bytes escaped except ASCII letters, digits and those of `safe`; a space in a query becomes `+`.
fn escaped(text: &str, safe: &str, query: bool) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match char::from(byte) {
            ' ' if query => out.push('+'),
            char if char.is_ascii_alphanumeric() || (char.is_ascii() && safe.contains(char)) => out.push(char),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Shared;
    use crate::step::Step;

    fn sent(step: &str) -> Result<Sent, ValueError> {
        let shared = Shared { paths: [("cm".to_owned(), "/x/${ns}".to_owned())].into_iter().collect(), ..Shared::default() };
        let values = Values::new(&shared, [("ns", "n".into()), ("a", Json::read(br#"{"rv": "7", "l": [1.5]}"#).unwrap())]);
        match Step::read(&Json::read(step.as_bytes()).unwrap()).unwrap() {
            Step::Request(request) => Sent::new(&values, &request),
            Step::Watch(watch) => Sent::watch(&values, &watch),
            other => panic!("{other:?}"),
        }
    }

    fn target(step: &str) -> String {
        sent(step).unwrap().target
    }

    #[test]
    fn path_and_query_are_escaped() {
        assert_eq!(target(r#"{"path": "${cm}/a b*€/../%41~,:?x=(1)"}"#), "/x/n/a%20b%2A%E2%82%AC/../%41~,:%3Fx%3D%281%29");
        let query = r#"{"path": "/", "query": {"a": "x y/z=€*~", "none": null, "l": ["1", "${a.rv|+3}"], "n": 5}}"#;
        assert_eq!(target(query), "/?a=x+y%2Fz%3D%E2%82%AC%2A~&l=1&l=10&n=5");
    }

    #[test]
    fn a_watch_says_so_unless_it_does_itself() {
        assert_eq!(target(r#"{"watch": "w", "path": "/", "query": {"resourceVersion": "${a.rv}"}}"#), "/?resourceVersion=7&watch=true");
        assert_eq!(target(r#"{"watch": "w", "path": "/", "query": {"watch": "1"}}"#), "/?watch=1");
        assert_eq!(target(r#"{"watch": "w", "path": "/", "query": {"watch": null}}"#), "/");
    }

    #[test]
    fn a_token_is_made_by_hand() {
        let step = r#"{"path": "/", "query": {"continue": {"$token": {"rv": -1, "start": "a\u0000é"}}}}"#;
        // {"rv":-1,"start":"a\u0000\u00e9"}
        assert_eq!(target(step), "/?continue=eyJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMFx1MDBlOSJ9");
    }

    fn told(step: &str) -> (Option<String>, String) {
        let sent = sent(step).unwrap();
        let of =
            |name: &str| sent.headers.iter().filter(|(own, _)| own == name).map(|(_, value)| value.clone()).collect::<Vec<_>>().join("|");
        assert_eq!(of("user-agent"), "conformance-kit");
        (sent.body.map(|body| String::from_utf8_lossy(&body).into_owned()), format!("{} {}", of("accept"), of(CONTENT_TYPE)))
    }

    #[test]
    fn bodies_have_the_type_that_the_method_and_the_step_say() {
        let body = |text: &str| Some(text.to_owned());
        assert_eq!(told(r#"{"path": "/"}"#), (None, "application/json ".to_owned()));
        let merged = told(r#"{"method": "PATCH", "path": "/", "body": {"b": "${a.l}", "a": "é${ns}"}}"#);
        assert_eq!(merged, (body(r#"{"b":[1.5],"a":"én"}"#), "application/json application/merge-patch+json".to_owned()));
        let raw = told(r#"{"method": "POST", "path": "/", "headers": {"Accept": "x"}, "body": {"$raw": "{${ns}"}}"#);
        assert_eq!(raw, (body("{n"), "x application/json".to_owned()));
        let none = told(r#"{"method": "POST", "path": "/", "headers": {"Content-Type": null, "Accept": null}, "body": 1}"#);
        assert_eq!(none, (body("1"), " ".to_owned()));
        let hex = told(r#"{"method": "POST", "path": "/", "headers": {"Content-Type": "p"}, "body": {"$hex": "6b 38"}}"#);
        assert_eq!(hex, (body("k8"), "application/json p".to_owned()));
        assert!(sent(r#"{"path": "/", "body": {"$hex": "6b3"}}"#).is_err() && sent(r#"{"path": "/", "body": {"$raw": 3}}"#).is_err());
    }

    #[test]
    fn what_cannot_stand_in_a_text_is_told() {
        assert_eq!(sent(r#"{"path": "/${a.x}"}"#).unwrap_err().to_string(), "there is no value for a.x");
        assert_eq!(sent(r#"{"path": "/${a.l}"}"#).unwrap_err().to_string(), "a.l is neither text nor number");
        assert_eq!(sent(r#"{"path": "/", "body": "${a.l|+1}"}"#).unwrap_err().to_string(), "a.l|+1 is no number");
    }
}
