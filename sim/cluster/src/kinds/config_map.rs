//! ConfigMaps (K §1.3).

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::WordHash;
use kube_machinery::api::Cause;

use super::Stored;
use super::builtin::immutable;

impl Stored for ConfigMap {
    const HAS_GENERATION: bool = false;

    fn validate(&self) -> Vec<Cause> {
        /// 1 MiB of data and binaryData together (K §1.3).
        const DATA_MAX: usize = 1 << 20;
        if self.size() <= DATA_MAX {
            return Vec::new();
        }
        vec![Cause {
            reason: "FieldValueTooLong".into(),
            message: "Too long: may not be more than 1048576 bytes".into(),
            // The path of the whole object, as the real server prints it.
            field: "[]".into(),
        }]
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
