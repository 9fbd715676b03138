//! YAML as its readers see it: documents without a type, duplicate keys refused.

use serde_json::Value;

/// The documents of a file.
///
/// # Errors
///
/// Says where the file is not valid YAML.
pub fn documents(text: &str) -> Result<Vec<Value>, String> {
    serde_saphyr::from_multiple(text).map_err(|error| error.to_string())
}

/// Every value within a value, with the path to it: `jobs.gate.steps[2].run`.
pub fn walk<'a>(value: &'a Value, path: &str, visit: &mut impl FnMut(&str, &'a Value)) {
    visit(path, value);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let dot = if path.is_empty() { "" } else { "." };
                walk(value, &format!("{path}{dot}{key}"), visit);
            }
        }
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                walk(value, &format!("{path}[{at}]"), visit);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_its_readers_do() {
        assert_eq!(documents("on: push\nyes: [1]\n---\na: \"b\"\n").unwrap().len(), 2);
        assert!(documents("on: push\n").unwrap()[0]["on"] == "push", "a key is a string");
        assert!(documents("a: 1\na: 2\n").is_err(), "a key that is there twice");
        assert!(documents("a: [1\n").is_err());
        let mut paths = Vec::new();
        walk(&documents("a: [{ b: 1 }]\n").unwrap()[0], "", &mut |path, _| paths.push(path.to_owned()));
        assert_eq!(paths, ["", "a", "a[0]", "a[0].b"]);
    }
}
