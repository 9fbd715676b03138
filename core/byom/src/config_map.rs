//! The ConfigMap that holds the pool document, with the document as a typed cell.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ByteString, NamespaceResourceScope};
use kube::Resource;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::document::PoolDocument;
use kube_machinery::api::ObjectKey;
use kube_machinery::json_text::JsonText;

/// The key of the document in `data` (B §1.1).
pub const STATE_KEY: &str = "allocation-state";

/// A ConfigMap whose entry [`STATE_KEY`] is a [`JsonText`] cell. On the wire it *is* a ConfigMap: same kind, same bytes.
///
/// A `ConfigMap` of `k8s-openapi` holds strings, so every write would serialise the whole pool and every read would parse it. Here each
/// happens only when the other form is requested.
///
/// Every ConfigMap can be read as this type, with or without a pool in it, and `From` converts both ways without loss. So an in-memory
/// store that keeps objects by type keeps *all* ConfigMaps as this type, and converts at its edge for clients that use the plain type
/// (users of `kubectl`, controllers that know nothing of the pool). Their reads convert to the plain type, which makes the text once for
/// each version of the document, in the cell. Their writes convert from it: the text is taken verbatim, valid or not, and parsed when a
/// reader first requests the document. Patches work on the JSON form, as for any other type. A client over HTTP needs none of this.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolConfigMap {
    /// The metadata; the pool sets the two labels of B §1.1 when it creates the object, and never changes them.
    pub metadata: ObjectMeta,
    /// The entries that are UTF-8 text; `None` = the field is absent.
    pub data: Option<PoolData>,
    /// The entries of `binaryData`, which the pool neither reads nor changes; `None` = the field is absent.
    pub binary_data: Option<BTreeMap<String, ByteString>>,
    /// Whether the entries can no longer change.
    pub immutable: Option<bool>,
}

/// `data` of a [`PoolConfigMap`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolData {
    /// The entry [`STATE_KEY`]: the document, readable or not; `None` = there is no such entry.
    pub state: Option<JsonText<PoolDocument>>,
    /// All other entries, which the pool neither reads nor changes.
    pub others: BTreeMap<String, String>,
}

impl PoolConfigMap {
    /// A new object as created by the pool.
    pub fn new(key: &ObjectKey, document: JsonText<PoolDocument>) -> Self {
        Self::empty(key).with_document(document)
    }

    /// A new object without a document, with the two labels of B §1.1.
    pub fn empty(key: &ObjectKey) -> Self {
        let label = |name: &str, value: &str| (format!("app.kubernetes.io/{name}"), value.to_owned());
        let metadata = ObjectMeta {
            labels: Some([label("name", "cloud-api-adaptor"), label("component", "byom-ip-pool-state")].into()),
            ..key.metadata()
        };
        Self { metadata, ..Self::default() }
    }

    /// The document; `None` if there is no such entry.
    pub fn document(&self) -> Option<&JsonText<PoolDocument>> {
        self.data.as_ref()?.state.as_ref()
    }

    /// This object with another document. Everything else stays the same (B §1.1).
    #[must_use]
    pub fn with_document(mut self, document: JsonText<PoolDocument>) -> Self {
        self.data.get_or_insert_default().state = Some(document);
        self
    }

    /// A new object that replaces this one, which must not have changed. Other data in it is lost:
    /// [`Policy::config_map_replaced`](crate::Policy::config_map_replaced).
    pub(crate) fn replaced_by(&self, key: &ObjectKey, document: JsonText<PoolDocument>) -> Self {
        let mut new = Self::new(key, document);
        new.metadata.resource_version.clone_from(&self.metadata.resource_version);
        new
    }

    /// The size in bytes of the values of `data` and `binaryData`, at most 1 MiB (K §1.3). Does not make the text.
    pub fn size(&self) -> usize {
        let state = self.document().map_or(0, |document| document.text_len());
        let others = self.data.iter().flat_map(|data| &data.others).map(|(_, value)| value.len());
        let binary = self.binary_data.iter().flatten().map(|(_, value)| value.0.len());
        state + others.sum::<usize>() + binary.sum::<usize>()
    }
}

impl Resource for PoolConfigMap {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        ConfigMap::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        ConfigMap::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        ConfigMap::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        ConfigMap::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl From<ConfigMap> for PoolConfigMap {
    fn from(plain: ConfigMap) -> Self {
        let data = plain.data.map(|mut others| {
            let state = others.remove(STATE_KEY).map(JsonText::verbatim);
            PoolData { state, others }
        });
        Self { metadata: plain.metadata, data, binary_data: plain.binary_data, immutable: plain.immutable }
    }
}

impl From<&PoolConfigMap> for ConfigMap {
    fn from(pool: &PoolConfigMap) -> Self {
        let data = pool.data.as_ref().map(|data| {
            let mut entries = data.others.clone();
            entries.extend(data.state.iter().map(|state| (STATE_KEY.to_owned(), state.text().to_owned())));
            entries
        });
        Self { metadata: pool.metadata.clone(), data, binary_data: pool.binary_data.clone(), immutable: pool.immutable }
    }
}

impl Serialize for PoolData {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.others.len() + usize::from(self.state.is_some())))?;
        for (key, value) in self.others.range::<str, _>((Unbounded, Excluded(STATE_KEY))) {
            map.serialize_entry(key, value)?;
        }
        if let Some(state) = &self.state {
            map.serialize_entry(STATE_KEY, state)?;
        }
        for (key, value) in self.others.range::<str, _>((Excluded(STATE_KEY), Unbounded)) {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// Serialises the fields in the order of `k8s-openapi`.
impl Serialize for PoolConfigMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("apiVersion", &Self::api_version(&()))?;
        object.serialize_entry("kind", &Self::kind(&()))?;
        if let Some(binary_data) = &self.binary_data {
            object.serialize_entry("binaryData", binary_data)?;
        }
        if let Some(data) = &self.data {
            object.serialize_entry("data", data)?;
        }
        if let Some(immutable) = &self.immutable {
            object.serialize_entry("immutable", immutable)?;
        }
        object.serialize_entry("metadata", &self.metadata)?;
        object.end()
    }
}

impl<'de> Deserialize<'de> for PoolConfigMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ConfigMap::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{Address, Available};

    fn plain() -> impl Strategy<Value = ConfigMap> {
        let key = || prop_oneof![Just(STATE_KEY.to_owned()), "[a-c]{1,2}", Just("zz".to_owned())];
        let data = prop::option::of(prop::collection::btree_map(key(), any::<String>(), 0..4));
        let binary = prop::option::of(prop::collection::btree_map(key(), any::<Vec<u8>>().prop_map(ByteString), 0..3));
        (data, binary, any::<Option<bool>>()).prop_map(|(data, binary_data, immutable)| ConfigMap {
            metadata: ObjectMeta { name: Some("pool".into()), namespace: Some("ns".into()), ..ObjectMeta::default() },
            data,
            binary_data,
            immutable,
        })
    }

    proptest! {
        #[test]
        fn any_config_map_is_the_same_bytes_as_this_type(plain in plain()) {
            let bytes = serde_json::to_string(&plain).unwrap();
            let pool: PoolConfigMap = serde_json::from_str(&bytes).unwrap();
            prop_assert_eq!(serde_json::to_string(&pool).unwrap(), bytes);
            prop_assert_eq!(&PoolConfigMap::from(plain.clone()), &pool);
            let entries: usize = plain.data.iter().flatten().map(|(_, value)| value.len()).sum();
            let binary: usize = plain.binary_data.iter().flatten().map(|(_, value)| value.0.len()).sum();
            prop_assert_eq!(pool.size(), entries + binary);
            prop_assert_eq!(ConfigMap::from(&pool), plain);
        }
    }

    #[test]
    fn a_new_object_has_the_labels_and_a_typed_document() {
        let available: Available = [Address::new("10.9.0.10")].into_iter().collect();
        let document = PoolDocument { available, version: 2, ..PoolDocument::default() };
        let object = PoolConfigMap::new(&ObjectKey::namespaced("ns", "pool"), document.into());
        let text =
            "{\n  \"allocatedIPs\": {},\n  \"availableIPs\": [\n    \"10.9.0.10\"\n  ],\n  \"lastUpdated\": null,\n  \"version\": 2\n}";
        assert_eq!(object.size(), text.len());
        let labels = json!({"app.kubernetes.io/name": "cloud-api-adaptor", "app.kubernetes.io/component": "byom-ip-pool-state"});
        assert_eq!(
            serde_json::to_value(&object).unwrap(),
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"allocation-state": text},
                "metadata": {"name": "pool", "namespace": "ns", "labels": labels},
            })
        );
    }
}
