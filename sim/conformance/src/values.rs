//! The values of `${...}` and of the `$` forms in bodies.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::forms::{Form, REFERENCE, form, integer, merge, numbered, plain};
use crate::json::Json;
use crate::shared::Shared;

/// The reason why a value cannot be expanded: a fragment that becomes the record of the step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ValueError {
    /// Nothing has this name or path.
    #[error("there is no value for {0}")]
    Missing(String),
    /// The value found does not suit its use.
    #[error("{0}")]
    Unfit(String),
}

/// The values of one case: its namespace and prefix, and the values that its steps captured.
#[derive(Clone, Debug)]
pub(crate) struct Values<'a> {
    shared: &'a Shared,
    values: BTreeMap<String, Json>,
}

impl<'a> Values<'a> {
    /// The values at the beginning of a case.
    pub(crate) fn new<'n>(shared: &'a Shared, given: impl IntoIterator<Item = (&'n str, Json)>) -> Self {
        Self { shared, values: given.into_iter().map(|(name, value)| (name.to_owned(), value)).collect() }
    }

    /// Keeps a value that a step captured.
    pub(crate) fn set(&mut self, name: &str, value: Json) {
        self.values.insert(name.to_owned(), value);
    }

    /// The value of `${text}`: one of the shared paths, or a part of a value, changed by a number that follows `|`.
    fn reference(&self, text: &str) -> Result<Json, ValueError> {
        let (path, change) = text.split_once('|').unwrap_or((text, ""));
        if let Some(shared) = self.shared.paths.get(path) {
            return self.fill(shared);
        }
        let value = self.look_up(path)?;
        if change.is_empty() {
            return Ok(value.clone());
        }
        let unfit = || ValueError::Unfit(format!("{text} is no number"));
        let sum = integer(value).zip(integer(&change.into())).and_then(|(value, change)| value.checked_add(change));
        Ok(Json::String(sum.ok_or_else(unfit)?.to_string()))
    }

    fn look_up(&self, path: &str) -> Result<&Json, ValueError> {
        let missing = || ValueError::Missing(path.to_owned());
        let mut parts = path.split('.');
        let mut value = parts.next().and_then(|name| self.values.get(name)).ok_or_else(missing)?;
        for part in parts {
            let found = match value {
                Json::Array(items) => part.parse::<usize>().ok().and_then(|index| items.get(index)),
                other => other.get(part),
            };
            value = found.ok_or_else(missing)?;
        }
        Ok(value)
    }

    /// A text with its references replaced; a text that is a single reference becomes the value itself.
    ///
    /// # Errors
    ///
    /// Fails at a reference to nothing, and at one inside a text to a value that is neither text nor number.
    pub(crate) fn fill(&self, text: &str) -> Result<Json, ValueError> {
        let whole = REFERENCE.captures(text).filter(|found| found[0].len() == text.len());
        match whole {
            Some(found) => self.reference(&found[1]),
            None => self.text(text).map(Json::String),
        }
    }

    /// A text with its references replaced by texts.
    ///
    /// # Errors
    ///
    /// Fails as [`Values::fill`] does.
    pub(crate) fn text(&self, text: &str) -> Result<String, ValueError> {
        let (mut out, mut end) = (String::new(), 0);
        for found in REFERENCE.captures_iter(text) {
            let (whole, name) = (found.get_match(), &found[1]);
            out.push_str(&text[end..whole.start()]);
            end = whole.end();
            let value = self.reference(name)?;
            out.push_str(&plain(&value).ok_or_else(|| ValueError::Unfit(format!("{name} is neither text nor number")))?);
        }
        out.push_str(&text[end..]);
        Ok(out)
    }

    /// A body in the form in which it is sent.
    ///
    /// # Errors
    ///
    /// Fails as [`Values::fill`] does, and at an incomplete form.
    pub(crate) fn expand(&self, value: &Json) -> Result<Json, ValueError> {
        let members = match value {
            Json::String(text) => return self.fill(text),
            Json::Array(items) => return items.iter().map(|item| self.expand(item)).collect::<Result<_, _>>().map(Json::Array),
            Json::Object(members) => members,
            other => return Ok(other.clone()),
        };
        match form(members).map_err(ValueError::Unfit)? {
            Form::Repeat(text, count) => Ok(Json::String(text.repeat(count))),
            Form::Map { count, key, value } => {
                let value = self.expand(value)?;
                Ok((0..count).map(|index| (key.replace("{i}", &index.to_string()), value.clone())).collect())
            }
            Form::List { count, item } => Ok(Json::Array((0..count).map(|index| numbered(item, index)).collect())),
            Form::Token(token) => Ok(Json::String(URL_SAFE_NO_PAD.encode(self.expand(token)?.ascii_compact()))),
            Form::Use(template, rest) => {
                let missing = || ValueError::Missing(format!("the template {template}"));
                let base = self.expand(self.shared.templates.get(template).ok_or_else(missing)?)?;
                Ok(merge(Some(base), self.expand(&Json::Object(rest))?))
            }
            Form::From(name, changes) => {
                let changes = changes.map_or(Ok(Json::Object(Default::default())), |changes| self.expand(changes))?;
                Ok(merge(Some(self.reference(name)?), changes))
            }
            Form::Plain => members.iter().map(|(name, item)| Ok((self.text(name)?, self.expand(item)?))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::read(text.as_bytes()).unwrap()
    }

    fn expanded(text: &str) -> Result<String, String> {
        let shared = Shared {
            paths: [("cm".to_owned(), "/x/${ns}".to_owned())].into_iter().collect(),
            templates: [("t".to_owned(), json(r#"{"kind": "T", "spec": {"a": 1, "n": "${ns}"}}"#))].into_iter().collect(),
            ..Shared::default()
        };
        let mut values = Values::new(&shared, [("ns", "n".into())]);
        values.set("a", json(r#"{"m": {"rv": "7", "n": 3}, "l": [1, {"x": true}]}"#));
        values.expand(&json(text)).map(|value| value.compact()).map_err(|error| error.to_string())
    }

    #[test]
    fn references_are_replaced() {
        for (text, expected) in [
            (r#""${cm}/${a.l.0}?${a.m.rv|+3}""#, r#""/x/n/1?10""#),
            (r#""${a.l.1}""#, r#"{"x":true}"#),
            (r#""${a.m.n}""#, "3"),
            (r#""${a.m.n|-5}""#, r#""-2""#),
            (r#"{"k${ns}": ["${ns}", 5, null, "${"]}"#, r#"{"kn":["n",5,null,"${"]}"#),
        ] {
            assert_eq!(expanded(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn forms_are_expanded() {
        for (text, expected) in [
            (r#"{"$use": "t", "spec": {"b": "${a.m.rv}"}, "kind": null}"#, r#"{"spec":{"a":1,"n":"n","b":"7"}}"#),
            (r#"{"$from": "a", "$merge": {"m": null, "l": ["${ns}"]}}"#, r#"{"l":["n"]}"#),
            (r#"{"$from": "a.m"}"#, r#"{"rv":"7","n":3}"#),
            (r#"{"$repeat": ["xy", 3]}"#, r#""xyxyxy""#),
            (r#"{"$map": {"count": 2, "key": "k{i}", "value": "${ns}"}}"#, r#"{"k0":"n","k1":"n"}"#),
            (r#"{"$list": {"count": 2, "item": {"f{i}": ["{i}", 5]}}}"#, r#"[{"f0":["0",5]},{"f1":["1",5]}]"#),
            (r#"{"$token": {"v": "${ns}"}}"#, r#""eyJ2IjoibiJ9""#),
        ] {
            assert_eq!(expanded(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_there_is_told() {
        for (text, error) in [
            (r#""${b}""#, "there is no value for b"),
            (r#""${a.l.2}""#, "there is no value for a.l.2"),
            (r#""${a.m.rv.x|+1}""#, "there is no value for a.m.rv.x"),
            (r#"{"$use": "u"}"#, "there is no value for the template u"),
            (r#""x${a.m}""#, "a.m is neither text nor number"),
        ] {
            assert_eq!(expanded(text).unwrap_err(), error, "{text}");
        }
    }
}
