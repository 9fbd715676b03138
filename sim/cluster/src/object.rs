//! API objects of any registered type, shared and never deep-copied on a read.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_machinery::{Object, ObjectKey};
use serde_json::Value;

/// An object whose type is known only by its registration.
pub trait AnyObject: fmt::Debug + Send + Sync + 'static {
    /// The metadata of the object, as in `metadata`; no copy is made.
    fn meta(&self) -> &ObjectMeta;
    /// The metadata of the object, mutable.
    fn meta_mut(&mut self) -> &mut ObjectMeta;
    /// The object as `Any`, for a downcast of a reference.
    fn as_any(&self) -> &dyn Any;
    /// The object as mutable `Any`, for a downcast of a reference.
    fn as_any_mut(&mut self) -> &mut dyn Any;
    /// The object as `Any`, for a downcast of the shared object.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
    /// An unshared copy, so that it can be changed.
    fn deep_copy(&self) -> Obj;
    /// Whether both are of one type and would serialise to the same bytes.
    fn same(&self, other: &dyn AnyObject) -> bool;
    /// The object serialised as JSON. Panics if that fails, which is a bug of its type.
    fn to_value(&self) -> Value;
}

/// A shared object of any registered type: changing it makes a copy first unless it is not shared ([`make_mut`]).
pub type Obj = Arc<dyn AnyObject>;

impl<K: Object> AnyObject for K {
    fn meta(&self) -> &ObjectMeta {
        kube::Resource::meta(self)
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        kube::Resource::meta_mut(self)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
    fn deep_copy(&self) -> Obj {
        Arc::new(self.clone())
    }
    fn same(&self, other: &dyn AnyObject) -> bool {
        other.as_any().downcast_ref::<K>().is_some_and(|other| self == other)
    }
    fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_else(|error| panic!("an API object does not serialise: {error}"))
    }
}

/// The object as its type. Panics if it is of another one, which is a bug of the caller.
pub fn typed<K: Object>(object: Obj) -> Arc<K> {
    object.into_any().downcast().unwrap_or_else(|_| panic!("the object is not a {}", std::any::type_name::<K>()))
}

/// A reference to the object as its type. Panics if it is of another one, which is a bug of the caller.
pub fn typed_ref<K: Object>(object: &dyn AnyObject) -> &K {
    object.as_any().downcast_ref().unwrap_or_else(|| panic!("the object is not a {}", std::any::type_name::<K>()))
}

/// The object, mutable: in place if it is not shared, otherwise a copy.
pub fn make_mut(object: &mut Obj) -> &mut dyn AnyObject {
    if Arc::get_mut(object).is_none() {
        *object = object.deep_copy();
    }
    Arc::get_mut(object).unwrap_or_else(|| unreachable!("a fresh copy is not shared"))
}

/// The key under which an object is stored. A missing name counts as empty.
pub fn key_of(object: &Obj) -> ObjectKey {
    let meta = object.meta();
    let name = meta.name.as_deref().unwrap_or("");
    meta.namespace.as_deref().map_or_else(|| ObjectKey::cluster(name), |namespace| ObjectKey::namespaced(namespace, name))
}

/// The resourceVersion, or an empty text.
pub fn resource_version(object: &dyn AnyObject) -> &str {
    object.meta().resource_version.as_deref().unwrap_or("")
}
