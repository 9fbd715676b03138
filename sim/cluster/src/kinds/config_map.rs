//! ConfigMaps (K §1.3).

use std::borrow::Cow;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::WordHash;
use kube_machinery::api::Cause;

use super::Stored;
use super::builtin::immutable;

/// What is wrong with the content of a ConfigMap, from its keys and the size of its data (K §1.3). Nothing is allocated for one that is fine.
pub fn config_map_faults<'a>(
    data: impl Iterator<Item = &'a str> + Clone,
    binary: impl Iterator<Item = &'a str> + Clone,
    size: usize,
) -> Vec<Cause> {
    /// 1 MiB of data and binaryData together.
    const DATA_MAX: usize = 1 << 20;
    let mut causes = Vec::new();
    for key in data.clone().filter(|key| binary.clone().any(|other| other == *key)) {
        causes.push(invalid_key("data", key, "duplicate of key present in binaryData".into()));
    }
    for (field, key) in data.map(|key| ("data", key)).chain(binary.map(|key| ("binaryData", key))) {
        causes.extend(key_faults(key).into_iter().map(|why| invalid_key(field, key, why)));
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

fn invalid_key(field: &str, key: &str, why: Cow<'static, str>) -> Cause {
    Cause {
        reason: "FieldValueInvalid".into(),
        message: format!("Invalid value: {key:?}: {why}").into(),
        field: format!("{field}[{key}]").into(),
    }
}

/// What is wrong with a key: those that are names of files do. Nothing is allocated for one that is fine.
fn key_faults(key: &str) -> Vec<Cow<'static, str>> {
    const KEY_MAX: usize = 253;
    let mut faults: Vec<Cow<'static, str>> = Vec::new();
    if key.len() > KEY_MAX {
        faults.push(format!("must be no more than {KEY_MAX} characters").into());
    }
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        let form = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', \
                    regex used for validation is '[-._a-zA-Z0-9]+')";
        faults.push(form.into());
    }
    match key {
        "." => faults.push("must not be '.'".into()),
        ".." => faults.push("must not be '..'".into()),
        _ if key.starts_with("..") => faults.push("must not start with '..'".into()),
        _ => {}
    }
    faults
}

impl Stored for ConfigMap {
    const HAS_GENERATION: bool = false;
    const KEEPS_GENERATION: bool = true;

    fn validate(&self) -> Vec<Cause> {
        let binary = self.binary_data.iter().flatten().map(|(key, _)| key.as_str());
        config_map_faults(self.data.iter().flatten().map(|(key, _)| key.as_str()), binary, self.size())
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
        let texts = self.data.iter().flatten().map(|(key, value)| key.len() + value.len());
        let bytes = self.binary_data.iter().flatten().map(|(key, value)| key.len() + value.0.len());
        texts.chain(bytes).sum()
    }

    fn content(&self) -> u64 {
        let mut hash = WordHash::new().word(u64::from(self.immutable == Some(true)));
        if let Some(data) = &self.data {
            // A word is kept for a system that stores one of the texts in another form.
            hash = data.iter().fold(hash.word(0), |hash, (key, value)| hash.text(key).text(value));
        }
        self.binary_data.iter().flatten().fold(hash, |hash, (key, value)| hash.text(key).bytes(&value.0)).finish()
    }
}
