//! The rules of an ordinary custom resource: all of its content is its spec, and the API server does not validate it.

use kube::core::object::HasSpec;
use kube_machinery::Object;
use kube_machinery::word_hash::Measure;
use serde::Serialize;

use super::{Stored, TypeDef};

/// The declarer of the rules of such types.
pub struct Plain;

impl<K: Object + HasSpec<Spec: PartialEq + Serialize>> Stored<Plain> for K {
    const UNCONDITIONAL_UPDATE: bool = false;
    const CUSTOM: bool = true;

    fn spec_differs(&self, other: &Self) -> bool {
        self.spec() != other.spec()
    }

    fn content(&self) -> u64 {
        let mut json = Measure::default();
        serde_json::to_writer(&mut json, self.spec()).unwrap_or_else(|error| panic!("a spec does not serialise: {error}"));
        json.hash()
    }
}

impl TypeDef {
    /// The registration of an ordinary custom resource: it is namespaced, has no status, and its spec enters the digest of a run with every
    /// write, as JSON. A type with limits, a status or many writes has separate [`Stored`] rules.
    pub fn custom<K: Object + HasSpec<Spec: PartialEq + Serialize>>() -> Self {
        Self::by::<Plain, K>()
    }
}

#[cfg(test)]
mod tests {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use super::*;

    /// A custom type without a status.
    #[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "example.com", version = "v1", kind = "Lamp", plural = "lamps", namespaced, derive = "PartialEq")]
    struct LampSpec {
        on: bool,
    }

    #[test]
    fn specs_tell_objects_of_a_custom_type_apart_and_names_do_not() {
        let def = TypeDef::custom::<Lamp>();
        assert_eq!((def.api_version().as_str(), def.custom, def.unconditional_update), ("example.com/v1", true, false));
        let [a, b, c] = [("a", true), ("b", true), ("c", false)].map(|(name, on)| Lamp::new(name, LampSpec { on }));
        assert!((def.spec_differs)(&a, &c) && !(def.spec_differs)(&a, &b));
        assert!(a.content() == b.content() && a.content() != c.content());
    }
}
