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
        // A buffer on the stack would have to be cleared first, and its text checked: that costs more than a small allocation.
        let mut path = String::with_capacity(namespace.len() + 1 + name.len());
        path.push_str(namespace);
        path.push('/');
        path.push_str(name);
        Self { path: path.into() }
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

    /// Makes `text` the text of the key of `object`, reusing its memory, for look-ups without making a key.
    pub fn write_text_of<K: kube::Resource<DynamicType = ()>>(object: &K, text: &mut String) {
        let meta = object.meta();
        text.clear();
        if let Some(namespace) = &meta.namespace {
            text.push_str(namespace);
            text.push('/');
        }
        text.push_str(meta.name.as_deref().unwrap_or(""));
    }

    /// The metadata of a new object with this key.
    pub fn metadata(&self) -> ObjectMeta {
        let (namespace, name) = (self.namespace().map(str::to_owned), Some(self.name().to_owned()));
        ObjectMeta { namespace, name, ..ObjectMeta::default() }
    }

    /// The namespace, or `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        self.slash().map(|slash| &self.path[..slash])
    }

    /// The name within the namespace.
    pub fn name(&self) -> &str {
        self.slash().map_or(&*self.path, |slash| &self.path[slash + 1..])
    }

    /// The place of the slash. Namespaces are short: a search by bytes costs less than that of the standard library.
    fn slash(&self) -> Option<usize> {
        self.path.bytes().position(|byte| byte == b'/')
    }

    /// `namespace/name`, or `name` for a cluster-scoped object.
    pub fn as_str(&self) -> &str {
        &self.path
    }
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
