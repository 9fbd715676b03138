//! ConfigMaps, some of which hold a pool (K §1.3).

use crate::Byom;
use ipam_byom::{PoolConfigMap, STATE_KEY};
use kube_machinery::api::Cause;
use kube_machinery::{JsonText, WordHash};
use kube_sim::kinds::{Stored, config_map_faults, immutable};

/// All ConfigMaps are kept in this type, so that the text of a pool is made only on request.
impl Stored<Byom> for PoolConfigMap {
    const HAS_GENERATION: bool = false;
    const KEEPS_GENERATION: bool = true;

    fn validate(&self) -> Vec<Cause> {
        // The key of the pool's document is valid.
        let state = self.document().map(|_| STATE_KEY);
        let others = self.data.iter().flat_map(|data| data.others.keys()).map(String::as_str);
        let in_binary = |key: &str| self.binary_data.as_ref().is_some_and(|binary| binary.contains_key(key));
        let binary = self.binary_data.iter().flatten().map(|(key, _)| key.as_str());
        config_map_faults(state.into_iter().chain(others), in_binary, binary, Self::size(self))
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
        Self::size(self)
    }

    fn content(&self) -> u64 {
        let mut hash = WordHash::new().word(u64::from(self.immutable == Some(true)));
        if let Some(data) = &self.data {
            hash = hash.word(data.state.as_ref().map_or(0, JsonText::content_hash));
            hash = data.others.iter().fold(hash, |hash, (key, value)| hash.text(key).text(value));
        }
        self.binary_data.iter().flatten().fold(hash, |hash, (key, value)| hash.text(key).bytes(&value.0)).finish()
    }
}
