//! Label selectors of objects (`matchLabels` and `matchExpressions`), evaluated as Kubernetes does.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use thiserror::Error;

/// The longest value of a label, and the longest name in its key, in bytes (K §1.1).
pub const VALUE_MAX: usize = 63;

/// A selector that Kubernetes refuses to evaluate.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidSelector {
    /// An operator other than `In`, `NotIn`, `Exists` and `DoesNotExist`, which are case-sensitive.
    #[error("{0:?} is not a valid label selector operator")]
    Operator(String),
    /// `In` and `NotIn` need values, `Exists` and `DoesNotExist` must have none.
    #[error("operator {operator} of label {key:?} has {count} values")]
    Values {
        /// The key of the requirement, which has not been checked.
        key: String,
        /// One of the four known operators.
        operator: String,
        /// The number of values.
        count: usize,
    },
    /// An invalid name of a label.
    #[error("{0:?} is no name of a label")]
    Key(String),
    /// An invalid value of a label.
    #[error("{0:?} is no value of a label")]
    Value(String),
}

/// Whether `selector` selects an object with these labels. An empty selector selects every object.
///
/// # Errors
/// The selector is invalid, even if the invalid part does not affect the result.
pub fn selects(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> Result<bool, InvalidSelector> {
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
    let mut selected = true;
    for (key, value) in selector.match_labels.iter().flatten() {
        check_key(key)?;
        check_value(value)?;
        selected &= label(key) == Some(value);
    }
    for LabelSelectorRequirement { key, operator, values } in selector.match_expressions.iter().flatten() {
        let values = values.as_deref().unwrap_or_default();
        let wants_values = match operator.as_str() {
            "In" | "NotIn" => true,
            "Exists" | "DoesNotExist" => false,
            _ => return Err(InvalidSelector::Operator(operator.clone())),
        };
        if wants_values == values.is_empty() {
            return Err(InvalidSelector::Values { key: key.clone(), operator: operator.clone(), count: values.len() });
        }
        check_key(key)?;
        values.iter().try_for_each(|value| check_value(value))?;
        let found = label(key);
        let among = found.is_some_and(|found| values.iter().any(|value| value == found));
        selected &= match operator.as_str() {
            "In" => among,
            "NotIn" => !among,
            "Exists" => found.is_some(),
            _ => found.is_none(),
        };
    }
    Ok(selected)
}

pub(crate) fn check_key(key: &str) -> Result<(), InvalidSelector> {
    if is_key(key) { Ok(()) } else { Err(InvalidSelector::Key(key.to_owned())) }
}

pub(crate) fn check_value(value: &str) -> Result<(), InvalidSelector> {
    if is_value(value) { Ok(()) } else { Err(InvalidSelector::Value(value.to_owned())) }
}

/// Whether this is a valid name of a label, that is, a qualified name: `name` or `prefix/name`, the prefix a DNS subdomain. Does not
/// allocate.
pub fn is_key(key: &str) -> bool {
    // By bytes: this is checked for each label of every object that is written.
    let key = key.as_bytes();
    let name = match key.iter().position(|byte| *byte == b'/') {
        Some(slash) if slash > 253 || !is_subdomain(&key[..slash]) => return false,
        Some(slash) => &key[slash + 1..],
        None => key,
    };
    name.len() <= VALUE_MAX && is_label(name)
}

/// Whether this is a valid value of a label: empty, or a name of at most [`VALUE_MAX`] characters. Does not allocate.
pub fn is_value(value: &str) -> bool {
    value.is_empty() || (value.len() <= VALUE_MAX && is_label(value.as_bytes()))
}

/// The faults of the name of a label, in Kubernetes' words: a part that is empty or too long, and one with characters that it must not
/// have. Empty exactly if Kubernetes accepts the name.
pub fn key_faults(key: &str) -> Vec<&'static str> {
    let (prefix, name) = match key.split('/').collect::<Vec<_>>()[..] {
        [name] => (None, name),
        [prefix, name] => (Some(prefix), name),
        _ => return vec!["has more than one slash"],
    };
    let mut faults = Vec::new();
    if let Some(prefix) = prefix.filter(|prefix| !prefix.is_empty()) {
        faults.extend((prefix.len() > 253).then_some("has a prefix of more than 253 characters"));
        let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        faults.extend(
            (!prefix.split('.').all(|unit| is_name(unit.as_bytes(), alphanumeric, b"-")))
                .then_some("has a prefix that is no DNS subdomain"),
        );
    } else if prefix.is_some() {
        faults.push("has an empty prefix");
    }
    faults.extend(name.is_empty().then_some("has no name"));
    faults.extend((name.len() > 63).then_some("has a name of more than 63 characters"));
    let fine = is_name(name.as_bytes(), |byte| byte.is_ascii_alphanumeric(), b"-_.");
    faults.extend((!fine).then_some("has a name of other characters than letters, digits and `-_.` between them"));
    faults
}

/// Like [`key_faults`], for the value of a label.
pub fn value_faults(value: &str) -> Vec<&'static str> {
    let mut faults = Vec::new();
    faults.extend((value.len() > 63).then_some("has more than 63 characters"));
    let fine = value.is_empty() || is_name(value.as_bytes(), |byte| byte.is_ascii_alphanumeric(), b"-_.");
    faults.extend((!fine).then_some("has other characters than letters, digits and `-_.` between them"));
    faults
}

/// The class of lowercase letters and digits, in [`CLASSES`].
const LOWER: u8 = 1;
/// The class of uppercase letters, which a prefix must not have.
const UPPER: u8 = 2;
/// The class of the dash, which stands inside of prefixes and names.
const DASH: u8 = 4;
/// The class of the dot, which separates the parts of a prefix.
const DOT: u8 = 8;
/// The class of the underscore, which stands only inside of names.
const UNDERSCORE: u8 = 16;
/// The class of all other bytes, which no key has.
const OTHER: u8 = 32;

/// The class of each byte: a look-up costs less than comparisons with the ends of several ranges.
const CLASSES: [u8; 256] = {
    let mut classes = [OTHER; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' | b'0'..=b'9' => LOWER,
            b'A'..=b'Z' => UPPER,
            b'-' => DASH,
            b'.' => DOT,
            b'_' => UNDERSCORE,
            _ => OTHER,
        };
        byte += 1;
    }
    classes
};

fn class(byte: u8) -> u8 {
    CLASSES[usize::from(byte)]
}

/// Whether a text is not empty and consists of letters, digits and `-_.` between them.
fn is_label(text: &[u8]) -> bool {
    let (Some(first), Some(last)) = (text.first(), text.last()) else { return false };
    let all = text.iter().fold(0, |all, byte| all | class(*byte));
    (class(*first) | class(*last)) & !(LOWER | UPPER) == 0 && all & OTHER == 0
}

/// Whether a text is a DNS subdomain: dots separate units that have lowercase letters and digits, and dashes between them.
fn is_subdomain(text: &[u8]) -> bool {
    let mut before = DOT;
    for byte in text {
        let now = class(*byte);
        // Before a dot and after it there is a letter or a digit.
        let fine = now == LOWER || (now == DASH && before != DOT) || (now == DOT && before == LOWER);
        if !fine {
            return false;
        }
        before = now;
    }
    before == LOWER
}

/// Whether a text is not empty, has letters at both ends, and letters and separators in between.
fn is_name(text: &[u8], letter: impl Fn(u8) -> bool, separators: &[u8]) -> bool {
    let (Some(first), Some(last)) = (text.first(), text.last()) else { return false };
    letter(*first) && letter(*last) && text.iter().all(|byte| letter(*byte) || separators.contains(byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(selector: serde_json::Value) -> Result<bool, InvalidSelector> {
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned()), ("tier".to_owned(), String::new())]);
        selects(&serde_json::from_value(selector).unwrap(), Some(&labels))
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> serde_json::Value {
        json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
    }

    #[test]
    fn names_are_valid_exactly_if_they_have_no_faults() {
        let mut texts = vec![String::new()];
        let mut last = 0..1;
        for _ in 0..5 {
            let longer: Vec<String> = texts[last.clone()]
                .iter()
                .flat_map(|text| ["a", "Z", "-", ".", "_", "/", "é"].map(|more| format!("{text}{more}")))
                .collect();
            last = texts.len()..texts.len() + longer.len();
            texts.extend(longer);
        }
        for length in [62, 63, 64, 252, 253, 254] {
            let long = "a".repeat(length);
            texts.extend([format!("{long}/a"), format!("a/{long}"), long]);
        }
        for text in texts {
            assert_eq!(is_key(&text), key_faults(&text).is_empty(), "{text}");
            assert_eq!(is_value(&text), value_faults(&text).is_empty(), "{text}");
        }
    }

    #[test]
    fn every_operator_is_evaluated() {
        for (selector, expected) in [
            (json!({}), true),
            (json!({"matchLabels": {"app": "web", "tier": ""}}), true),
            (json!({"matchLabels": {"app": "db"}}), false),
            (json!({"matchLabels": {"gone": ""}}), false),
            (expression("app", "In", &["db", "web"]), true),
            (expression("gone", "In", &["web"]), false),
            (expression("app", "NotIn", &["web"]), false),
            (expression("gone", "NotIn", &["web"]), true),
            (expression("tier", "Exists", &[]), true),
            (expression("gone", "Exists", &[]), false),
            (expression("gone", "DoesNotExist", &[]), true),
            (expression("a.b-c/Gone_1", "DoesNotExist", &[]), true),
            (json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}), false),
        ] {
            assert_eq!(answer(selector.clone()), Ok(expected), "{selector}");
        }
        assert_eq!(selects(&LabelSelector::default(), None), Ok(true));
    }

    #[test]
    fn faults_are_counted_as_kubernetes_counts_them() {
        let (long, longer) = ("x".repeat(64), "-".repeat(64));
        for (key, count) in [
            ("app", 0),
            ("a.b/app", 0),
            ("", 2),
            ("-app", 1),
            (&long, 1),
            (&longer, 2),
            ("A.b/app", 1),
            ("/app", 1),
            ("/", 3),
            ("a/b/c", 1),
        ] {
            assert_eq!((key_faults(key).len(), check_key(key).is_err()), (count, count > 0), "{key:?}");
        }
        for (value, count) in [("", 0), ("web", 0), ("no value", 1), (&long, 1), (&longer, 2)] {
            assert_eq!((value_faults(value).len(), check_value(value).is_err()), (count, count > 0), "{value:?}");
        }
    }

    #[test]
    fn what_kubernetes_refuses_is_refused_even_if_the_rest_decides() {
        for selector in [
            expression("app", "Gt", &["1"]),
            expression("app", "In", &[]),
            expression("app", "Exists", &["x"]),
            expression("-app", "Exists", &[]),
            expression("A.b/app", "Exists", &[]),
            expression("", "Exists", &[]),
            expression("a/b/c", "Exists", &[]),
            expression("app", "In", &["web", "no value"]),
            json!({"matchLabels": {"app": "db", "zz": "-"}}),
            json!({"matchLabels": {"app": "x".repeat(64)}}),
        ] {
            assert!(answer(selector.clone()).is_err(), "{selector}");
        }
    }
}
