//! API objects and their names.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A Kubernetes API object of a type known at compile time.
///
/// Implemented for every `k8s-openapi` type with metadata and for every `kube` custom resource.
pub trait Object:
    kube::Resource<DynamicType = ()> + Clone + PartialEq + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Object for K where
    K: kube::Resource<DynamicType = ()> + Clone + PartialEq + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

/// The name of an object within its type: `namespace/name`, or `name` for a cluster-scoped type.
///
/// Ordered by storage key, byte by byte, as etcd orders a list (K §2.2). Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    path: Arc<str>,
}

impl ObjectKey {
    /// The key of a namespaced object.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        with_path(namespace, name, |path| Self { path: path.into() })
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: &str) -> Self {
        Self { path: name.into() }
    }

    /// The key with this text: `namespace/name`, or `name` for a cluster-scoped object.
    pub fn of_text(text: &str) -> Self {
        Self { path: text.into() }
    }

    /// The key of `object`, from its metadata. A missing name counts as empty.
    pub fn of<K: kube::Resource<DynamicType = ()>>(object: &K) -> Self {
        let meta = object.meta();
        let name = meta.name.as_deref().unwrap_or("");
        match meta.namespace.as_deref() {
            Some(namespace) => Self::namespaced(namespace, name),
            None => Self::cluster(name),
        }
    }

    /// Calls `look` with the text of the key of `object`, for look-ups without making a key.
    pub fn with_text_of<K: kube::Resource<DynamicType = ()>, T>(object: &K, look: impl FnOnce(&str) -> T) -> T {
        let meta = object.meta();
        let name = meta.name.as_deref().unwrap_or("");
        match meta.namespace.as_deref() {
            Some(namespace) => with_path(namespace, name, look),
            None => look(name),
        }
    }

    /// The metadata of a new object with this key.
    pub fn metadata(&self) -> ObjectMeta {
        let (namespace, name) = (self.namespace().map(str::to_owned), Some(self.name().to_owned()));
        ObjectMeta { namespace, name, ..ObjectMeta::default() }
    }

    /// The namespace, or `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        self.path.split_once('/').map(|(namespace, _)| namespace)
    }

    /// The name within the namespace.
    pub fn name(&self) -> &str {
        self.path.split_once('/').map_or(&*self.path, |(_, name)| name)
    }

    /// `namespace/name`, or `name` for a cluster-scoped object.
    pub fn as_str(&self) -> &str {
        &self.path
    }
}

/// Calls `look` with `namespace/name`.
fn with_path<T>(namespace: &str, name: &str, look: impl FnOnce(&str) -> T) -> T {
    // A buffer on the stack would have to be cleared first, and its text checked: that costs more than a small allocation.
    let mut path = String::with_capacity(namespace.len() + 1 + name.len());
    path.push_str(namespace);
    path.push('/');
    path.push_str(name);
    look(&path)
}

/// A key is ordered and hashed as its text.
impl Borrow<str> for ObjectKey {
    fn borrow(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}
