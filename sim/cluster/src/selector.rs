//! Label and field selectors in the text forms of `kubectl -l` and `--field-selector` (K §2.2).

use std::collections::BTreeSet;

use kube::core::{Expression, Selector as LabelSelector, SelectorExt};

use crate::kinds::TypeDef;
use crate::object::AnyObject;

/// The objects that a list or watch selects. The default selects everything.
#[derive(Clone, Debug, Default)]
pub struct Selector {
    labels: Option<LabelSelector>,
    /// Labels whose values are compared as numbers.
    numbers: Vec<NumberTerm>,
    fields: Vec<FieldTerm>,
}

/// `key>number` or `key<number`: selects objects whose label `key` is an integer above or below the number.
#[derive(Clone, Debug)]
struct NumberTerm {
    key: String,
    number: i64,
    above: bool,
}

impl NumberTerm {
    fn matches(&self, value: Option<&String>) -> bool {
        let value = value.and_then(|value| value.parse::<i64>().ok());
        value.is_some_and(|value| if self.above { value > self.number } else { value < self.number })
    }
}

#[derive(Clone, Debug)]
struct FieldTerm {
    name: String,
    value: String,
    equal: bool,
}

impl Selector {
    /// Parses the two selectors of a request.
    ///
    /// # Errors
    /// The message of the 400 that the API server answers.
    pub fn parse(def: &TypeDef, labels: Option<&str>, fields: Option<&str>) -> Result<Self, String> {
        let (labels, numbers) = match labels.map(str::trim) {
            None | Some("") => (None, Vec::new()),
            Some(text) => parse_labels(text).map(|(labels, numbers)| (Some(labels), numbers))?,
        };
        let mut terms = Vec::new();
        for term in fields.unwrap_or("").split(',').map(str::trim).filter(|term| !term.is_empty()) {
            let (name, equal, value) = if let Some((name, value)) = term.split_once("!=") {
                (name, false, value)
            } else if let Some((name, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
                (name, true, value)
            } else {
                return Err(format!("invalid selector: '{term}'; can't understand '{term}'"));
            };
            if !matches!(name, "metadata.name" | "metadata.namespace") && !def.fields.contains(&name) {
                // For types without further fields the message has other words.
                let bare = def.fields.is_empty() && !def.custom;
                let of_all = format!("{name:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"");
                return Err(if bare { of_all } else { format!("field label not supported: {name}") });
            }
            terms.push(FieldTerm { name: name.to_owned(), value: value.to_owned(), equal });
        }
        Ok(Self { labels, numbers, fields: terms })
    }

    /// Whether every object is selected.
    pub fn is_everything(&self) -> bool {
        self.labels.is_none() && self.numbers.is_empty() && self.fields.is_empty()
    }

    /// The value that a field must have, if the selector requires one.
    pub fn required(&self, field: &str) -> Option<&str> {
        self.fields.iter().find(|term| term.equal && term.name == field).map(|term| term.value.as_str())
    }

    /// Whether `object` is selected.
    pub fn matches(&self, def: &TypeDef, object: &dyn AnyObject) -> bool {
        static NONE: std::collections::BTreeMap<String, String> = std::collections::BTreeMap::new();
        let meta = object.meta();
        self.labels.as_ref().is_none_or(|labels| labels.matches(meta.labels.as_ref().unwrap_or(&NONE)))
            && self.numbers.iter().all(|term| term.matches(meta.labels.as_ref().and_then(|labels| labels.get(&term.key))))
            && self.fields.iter().all(|term| {
                let value = match term.name.as_str() {
                    "metadata.name" => meta.name.as_deref().unwrap_or("").into(),
                    "metadata.namespace" => meta.namespace.as_deref().unwrap_or("").into(),
                    name => (def.field)(object, name),
                };
                (value == term.value) == term.equal
            })
    }
}

/// Parses `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1,j<2`.
fn parse_labels(text: &str) -> Result<(LabelSelector, Vec<NumberTerm>), String> {
    let (mut expressions, mut numbers) = (Vec::new(), Vec::new());
    for term in split_terms(text) {
        let term = term.trim();
        let bad = || {
            format!(
                "unable to parse requirement: {term:?} is not `key`, `!key`, `key=value`, `key!=value`, `key in (a,b)` or `key notin (a,b)`"
            )
        };
        let key = |text: &str| {
            let text = text.trim();
            let fine = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
            if fine { Ok(text.to_owned()) } else { Err(bad()) }
        };
        if let Some(at) = term.find(['<', '>']).filter(|_| !term.contains('(')) {
            let number = term[at + 1..].trim().parse().map_err(|_| bad())?;
            numbers.push(NumberTerm { key: key(&term[..at])?, number, above: term.as_bytes()[at] == b'>' });
            continue;
        }
        expressions.push(if let Some(open) = term.find('(') {
            let values: BTreeSet<String> =
                term[open + 1..].strip_suffix(')').ok_or_else(bad)?.split(',').map(|value| value.trim().to_owned()).collect();
            let head = term[..open].trim();
            if let Some(name) = head.strip_suffix(" notin") {
                Expression::NotIn(key(name)?, values)
            } else if let Some(name) = head.strip_suffix(" in") {
                Expression::In(key(name)?, values)
            } else {
                return Err(bad());
            }
        } else if let Some((name, value)) = term.split_once("!=") {
            Expression::NotEqual(key(name)?, value.trim().to_owned())
        } else if let Some((name, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
            Expression::Equal(key(name)?, value.trim().to_owned())
        } else if let Some(name) = term.strip_prefix('!') {
            Expression::DoesNotExist(key(name)?)
        } else {
            Expression::Exists(key(term)?)
        });
    }
    Ok((expressions.into_iter().collect(), numbers))
}

/// Splits at commas outside parentheses.
fn split_terms(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth <= 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    fn selects(labels: Option<&str>, fields: Option<&str>) -> bool {
        let def = TypeDef::of::<Pod>();
        let pod: Pod = crate::testbed::from_json(json!({
            "metadata": {"name": "web-0", "namespace": "default", "labels": {"app": "web", "tier": "front"}},
            "spec": {"nodeName": "n1", "containers": []},
            "status": {"phase": "Running"},
        }));
        Selector::parse(&def, labels, fields).unwrap().matches(&def, &pod)
    }

    #[test]
    fn labels_select_as_kubectl_does() {
        for (text, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier=front", true),
            ("app!=web", false),
            ("other!=x", true),
            ("app in (db, web)", true),
            ("app notin (db,web)", false),
            ("app", true),
            ("!app", false),
            ("!gone,tier in (front)", true),
        ] {
            assert_eq!(selects(Some(text), None), expected, "{text}");
        }
    }

    #[test]
    fn fields_select_as_kubectl_does() {
        for (text, expected) in [
            ("metadata.name=web-0", true),
            ("metadata.namespace!=default", false),
            ("spec.nodeName=n1,status.phase!=Failed", true),
            ("spec.nodeName=", false),
            ("spec.hostNetwork=false", true),
        ] {
            assert_eq!(selects(None, Some(text)), expected, "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let def = TypeDef::of::<Pod>();
        for (labels, fields) in
            [(Some("a in x"), None), (Some("a b"), None), (Some("=x"), None), (None, Some("spec.foo=1")), (None, Some("junk"))]
        {
            assert!(Selector::parse(&def, labels, fields).is_err(), "{labels:?} {fields:?}");
        }
    }
}
