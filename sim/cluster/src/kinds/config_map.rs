//! ConfigMaps (K §1.3).

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::WordHash;
use kube_machinery::api::Cause;

use super::Stored;
use super::builtin::immutable;

/// The errors of the content of a ConfigMap (K017): the keys of its two maps, which may have none in common, and the bytes of all values
/// together, counted without escapes.
pub fn config_map_faults<'a>(
    data: impl Iterator<Item = &'a str>,
    in_binary: impl Fn(&str) -> bool,
    binary: impl Iterator<Item = &'a str>,
    size: usize,
) -> Vec<Cause> {
    /// 1 MiB of data and binaryData together (K §1.3).
    const DATA_MAX: usize = 1 << 20;
    let mut causes = Vec::new();
    let mut refuse = |map: &str, key: &str, fault: &str| {
        let message = format!("Invalid value: {key:?}: {fault}");
        causes.push(Cause { reason: "FieldValueInvalid".into(), message: message.into(), field: format!("{map}[{key}]").into() });
    };
    for key in data {
        key_faults(key).for_each(|fault| refuse("data", key, fault));
        if in_binary(key) {
            refuse("data", key, "duplicate of key present in binaryData");
        }
    }
    for key in binary {
        key_faults(key).for_each(|fault| refuse("binaryData", key, fault));
    }
    if size > DATA_MAX {
        causes.push(Cause {
            reason: "FieldValueTooLong".into(),
            message: "Too long: may not be more than 1048576 bytes".into(),
            // The path of the whole object, as the real server prints it.
            field: "[]".into(),
        });
    }
    causes
}

/// The errors of a key of a ConfigMap.
fn key_faults(key: &str) -> impl Iterator<Item = &'static str> {
    const SYNTAX: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  \
                          or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
    let long = (key.len() > 253).then_some("must be no more than 253 characters");
    let fine = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let path = match key {
        "." => Some("must not be '.'"),
        ".." => Some("must not be '..'"),
        _ if key.starts_with("..") => Some("must not start with '..'"),
        _ => None,
    };
    [long, (!fine).then_some(SYNTAX), path].into_iter().flatten()
}

impl Stored for ConfigMap {
    const HAS_GENERATION: bool = false;
    const KEEPS_GENERATION: bool = true;

    fn validate(&self) -> Vec<Cause> {
        let data = self.data.iter().flatten().map(|(key, _)| key.as_str());
        let in_binary = |key: &str| self.binary_data.as_ref().is_some_and(|binary| binary.contains_key(key));
        let binary = self.binary_data.iter().flatten().map(|(key, _)| key.as_str());
        config_map_faults(data, in_binary, binary, self.size())
    }

    fn validate_update(&self, old: &Self) -> Vec<Cause> {
        if old.immutable != Some(true) {
            return Vec::new();
        }
        let mut causes = Vec::new();
        if self.immutable != Some(true) {
            causes.push(immutable("immutable"));
        }
        if self.data != old.data {
            causes.push(immutable("data"));
        }
        if self.binary_data != old.binary_data {
            causes.push(immutable("binaryData"));
        }
        causes
    }

    fn size(&self) -> usize {
        let texts = self.data.iter().flatten().map(|(_, value)| value.len());
        let bytes = self.binary_data.iter().flatten().map(|(_, value)| value.0.len());
        texts.chain(bytes).sum()
    }

    fn content(&self) -> u64 {
        let mut hash = WordHash::new().word(u64::from(self.immutable == Some(true)));
        if let Some(data) = &self.data {
            // A word is reserved for a system that stores one of the texts in another form.
            hash = data.iter().fold(hash.word(0), |hash, (key, value)| hash.text(key).text(value));
        }
        self.binary_data.iter().flatten().fold(hash, |hash, (key, value)| hash.text(key).bytes(&value.0)).finish()
    }
}
