//! Bodies in YAML: apply patches, which may be JSON as well (K §2.9).

use kube_machinery::Status;
use serde_json::Value;

use crate::body::{bad, go_type};
use crate::query::FieldValidation;

/// An apply patch, and the warnings about duplicate keys, of which the last one counts.
///
/// # Errors
/// Returns 400 for invalid YAML, and for a duplicate key in strict validation.
pub(crate) fn read(text: &[u8], validation: FieldValidation) -> Result<(Value, Vec<String>), Box<Status>> {
    let (value, twice) = parse(text, validation)?;
    match go_type(&value) {
        "object" | "null" => Ok((value, twice)),
        other => Err(bad(format!(
            "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {other} into Go value of type \
             map[string]interface {{}}"
        ))),
    }
}

fn parse(text: &[u8], validation: FieldValidation) -> Result<(Value, Vec<String>), Box<Status>> {
    // Most bodies are JSON, which is faster to read.
    if let Ok(value) = serde_json::from_slice(text) {
        return Ok((value, Vec::new()));
    }
    let wrong = |error: &str| bad(format!("error decoding patch: error converting YAML to JSON: yaml: {error}"));
    let text = std::str::from_utf8(text).map_err(|error| wrong(&error.to_string()))?;
    let last_wins = serde_saphyr::options! { duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins, with_snippet: false };
    let value: Value = serde_saphyr::from_str_with_options(text, last_wins).map_err(|error| wrong(&error.to_string()))?;
    let each_once = serde_saphyr::options! { with_snippet: false };
    let twice = match serde_saphyr::from_str_with_options::<Value>(text, each_once) {
        Err(serde_saphyr::Error::DuplicateMappingKey { key, location, .. }) => {
            Some(format!("line {}: key {:?} already set in map", location.line(), key.unwrap_or_default()))
        }
        _ => None,
    };
    match (twice, validation) {
        (Some(twice), FieldValidation::Strict) => {
            Err(bad(format!("error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  {twice}")))
        }
        (Some(twice), FieldValidation::Warn) => Ok((value, vec![twice])),
        _ => Ok((value, Vec::new())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_that_stands_twice_is_told_and_the_last_one_counts() {
        let text = b"kind: ConfigMap\ndata:\n  k: \"1\"\n  k: \"2\"\n";
        let expected = json!({"kind": "ConfigMap", "data": {"k": "2"}});
        let told = vec!["line 4: key \"k\" already set in map".to_owned()];
        assert_eq!(read(text, FieldValidation::Warn).unwrap(), (expected.clone(), told));
        assert_eq!(read(text, FieldValidation::Ignore).unwrap(), (expected, Vec::new()));
        assert!(read(text, FieldValidation::Strict).unwrap_err().message().ends_with("line 4: key \"k\" already set in map"));
        assert!(read(b"{", FieldValidation::Warn).unwrap_err().message().starts_with("error decoding patch: error converting YAML"));
        assert!(read(b"[1]", FieldValidation::Warn).unwrap_err().message().contains("json: cannot unmarshal array into"));
        assert_eq!(read(br#"{"a": 1}"#, FieldValidation::Strict).unwrap(), (json!({"a": 1}), Vec::new()));
    }
}
