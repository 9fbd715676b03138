//! The input of a decision about a record: the record, and its pod and endpoint as they are seen.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::select::is_auto_pool;
use crate::{SpiderEndpoint, SpiderIPPool};
use kube_machinery::api::{ApiError, ObjectKey};

/// An object as a decision sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seen<T> {
    /// It exists, in this state.
    There(T),
    /// It does not exist, or the cache does not show it.
    Nothing,
    /// It could not be read.
    Unreadable,
}

impl<T> Seen<T> {
    /// The same result with another form of the object.
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Seen<U> {
        match self {
            Self::There(object) => Seen::There(map(object)),
            Self::Nothing => Seen::Nothing,
            Self::Unreadable => Seen::Unreadable,
        }
    }

    /// The object, if it exists.
    pub fn there(self) -> Option<T> {
        match self {
            Self::There(object) => Some(object),
            Self::Nothing | Self::Unreadable => None,
        }
    }
}

/// An object as a read shows it.
pub(super) fn seen<T>(read: &Result<Option<T>, ApiError>) -> Seen<&T> {
    match read {
        Ok(Some(object)) => Seen::There(object),
        Ok(None) => Seen::Nothing,
        Err(_) => Seen::Unreadable,
    }
}

/// One record, and the state of its pod.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    /// The name of the record: `namespace/name` of the pod, or of its VM.
    pub key: &'a str,
    /// The UID of the pod.
    pub uid: &'a str,
    /// The address; absent if only the endpoint is judged.
    pub ip: Option<IpAddr>,
    /// The pod of that name.
    pub pod: Seen<&'a Pod>,
    /// The endpoint of that name.
    pub endpoint: Seen<&'a SpiderEndpoint>,
    /// Whether its pool is an auto pool that is being deleted ([`is_ending`]).
    pub pool_ends: bool,
    /// The deadline from tracing, if it is known, for a pod whose own state does not show when it has ended.
    pub due: Option<Timestamp>,
}

/// Whether a pool is an auto pool in deletion: no pod gets an address of it any more (A §8.6).
pub(super) fn is_ending(pool: &SpiderIPPool) -> bool {
    pool.metadata.deletion_timestamp.is_some() && is_auto_pool(pool)
}

/// The key of a record as that of an object; one without a namespace is cluster-scoped. `None` = it is no key.
pub(super) fn key_of_record(text: &str) -> Option<ObjectKey> {
    match text.split_once('/') {
        Some((_, name)) if name.contains('/') => None,
        Some((namespace, name)) => Some(ObjectKey::namespaced(namespace, name)),
        None => Some(ObjectKey::namespaced("", text)),
    }
}
