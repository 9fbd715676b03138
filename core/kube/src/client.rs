//! The interface to an API server.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::api::{
    ApiError, Call, DeleteOptions, Dry, List, ListOptions, Object, ObjectKey, Patch, Reply, Request, Subresource, WatchEvent, WatchOptions,
};

/// A client of the Kubernetes API.
///
/// Two methods carry everything, so that layers (retry, rate limit) wrap two methods; [`ClientExt`] adds the verbs. One implementation is
/// the simulated cluster's; one over HTTP needs only these two methods and, for watch-lists, [`streams_lists`](Client::streams_lists).
pub trait Client: Clone + Send + Sync + 'static {
    /// An open watch on objects of type `K`.
    type Watch<K: Object>: WatchStream<K>;

    /// Sends one request and waits for its answer.
    ///
    /// # Errors
    /// The API server's error, or a failure of the transport. Dropping the future abandons the answer, not the request: it may still be
    /// executed.
    fn send<K: Object>(&self, request: Request<K>) -> impl Future<Output = Result<Reply<K>, ApiError>> + Send;

    /// Opens a watch on `namespace`, or on all namespaces.
    ///
    /// # Errors
    /// The errors of [`Client::send`]. A start revision that is too old is *not* an error here: the stream opens and its first element is
    /// the error (K043).
    fn watch<K: Object>(
        &self,
        namespace: Option<Arc<str>>,
        options: WatchOptions,
    ) -> impl Future<Output = Result<Self::Watch<K>, ApiError>> + Send;

    /// Whether informers over this client request the initial state as a stream, too (`sendInitialEvents`): the gate `WatchListClient` of
    /// client-go, on since 1.35 (K §4.1). The default is `false`: they list.
    fn streams_lists(&self) -> bool {
        false
    }
}

/// A stream of changes of one type.
pub trait WatchStream<K>: Send + 'static {
    /// The next element; `None` when the server ended the stream cleanly.
    ///
    /// # Errors
    /// The connection broke. Nothing follows an error or an end. Dropping this future loses no element.
    fn next(&mut self) -> impl Future<Output = Option<Result<WatchEvent<K>, ApiError>>> + Send;

    /// The elements that have arrived on this stream, for readers that poll. The default is `None`: the only access is
    /// [`next`](Self::next).
    fn backlog(&self) -> Option<Arc<dyn Backlog<K>>> {
        None
    }
}

/// The elements of one watch that have arrived and have not been read.
///
/// A cache that is read only now and then need not be notified of each change: its reader takes the elements that have arrived by then.
/// [`WatchStream::next`] and [`take`](Self::take) return the same elements in the same order, each once.
pub trait Backlog<K>: fmt::Debug + Send + Sync {
    /// Sets whether elements are left to [`take`](Self::take) from now on. Then [`WatchStream::next`] need not complete for an element; it
    /// completes when the stream is over, and the elements left in the backlog came before that.
    fn defer(&self, deferred: bool);

    /// Whether there is anything to take. Nothing is left in the backlog of a stream that was dropped.
    fn has_arrived(&self) -> bool;

    /// Calls `take` with the elements that have arrived, in order. Of several changes of one object it may be called with the last alone.
    fn take(&self, take: &mut dyn FnMut(WatchEvent<K>));
}

/// The verbs, on every [`Client`].
pub trait ClientExt: Client {
    /// The most recent state of an object (quorum read, K §2.1).
    ///
    /// # Errors
    /// See [`Client::send`].
    fn get<K: Object>(&self, key: &ObjectKey) -> impl Future<Output = Result<Arc<K>, ApiError>> + Send {
        let call = Call::get(key);
        async move { self.send(call.into()).await.map(Reply::into_object) }
    }

    /// An object's state not older than `resource_version`, from the server's cache; `"0"` = any state (K §2.1).
    ///
    /// # Errors
    /// See [`Client::send`].
    fn get_cached<K: Object>(&self, key: &ObjectKey, resource_version: &str) -> impl Future<Output = Result<Arc<K>, ApiError>> + Send {
        let call = Call::Get { key: key.clone(), resource_version: Some(resource_version.to_owned()) };
        async move { self.send(call.into()).await.map(Reply::into_object) }
    }

    /// The objects of a namespace, or of all.
    ///
    /// # Errors
    /// See [`Client::send`].
    fn list<K: Object>(&self, namespace: Option<&str>, options: ListOptions) -> impl Future<Output = Result<List<K>, ApiError>> + Send {
        let call = Call::List { namespace: namespace.map(Arc::from), options };
        async move { self.send(call.into()).await.map(Reply::into_list) }
    }

    /// Creates an object in the namespace of its metadata.
    ///
    /// # Errors
    /// See [`Client::send`].
    fn create<K: Object>(&self, body: impl Into<Arc<K>>) -> impl Future<Output = Result<Arc<K>, ApiError>> + Send {
        let call = Call::create(body);
        async move { self.send(call.into()).await.map(Reply::into_object) }
    }

    /// Replaces an object; guarded by the body's resourceVersion if it has one.
    ///
    /// # Errors
    /// See [`Client::send`].
    fn update<K: Object>(&self, body: impl Into<Arc<K>>) -> impl Future<Output = Result<Arc<K>, ApiError>> + Send {
        let call = Call::update(body);
        async move { self.send(call.into()).await.map(Reply::into_object) }
    }

    /// Replaces an object's status; guarded by the body's resourceVersion if it has one.
    ///
    /// # Errors
    /// See [`Client::send`].
    fn update_status<K: Object>(&self, body: impl Into<Arc<K>>) -> impl Future<Output = Result<Arc<K>, ApiError>> + Send {
        let call = Call::update_status(body);
        async move { self.send(call.into()).await.map(Reply::into_object) }
    }

    /// Assigns a Pod to a node, unless its UID differs from `uid`.
    ///
    /// # Errors
    /// See [`Client::send`]; a Conflict if the Pod is assigned already or is being deleted (K126).
    fn bind(&self, key: &ObjectKey, uid: Option<String>, node: &str) -> impl Future<Output = Result<Arc<Pod>, ApiError>> + Send {
        let mut body = Pod { metadata: ObjectMeta { uid, ..key.metadata() }, ..Pod::default() };
        body.spec.get_or_insert_default().node_name = Some(node.to_owned());
        let call = Call::Update { key: key.clone(), body: Arc::new(body), subresource: Some(Subresource::Binding), dry: Dry::No };
        async move { self.send(call.into()).await.map(Reply::into_object) }
    }

    /// Changes an object.
    ///
    /// # Errors
    /// See [`Client::send`].
    fn patch<K: Object>(&self, key: &ObjectKey, patch: Patch) -> impl Future<Output = Result<Arc<K>, ApiError>> + Send {
        let call = Call::patch(key, patch);
        async move { self.send(call.into()).await.map(Reply::into_object) }
    }

    /// Changes an object's status.
    ///
    /// # Errors
    /// See [`Client::send`].
    fn patch_status<K: Object>(&self, key: &ObjectKey, patch: Patch) -> impl Future<Output = Result<Arc<K>, ApiError>> + Send {
        let call = Call::Patch { key: key.clone(), patch, subresource: Some(Subresource::Status), dry: Dry::No };
        async move { self.send(call.into()).await.map(Reply::into_object) }
    }

    /// Deletes an object. `Some` = it still exists and is terminating; `None` = it is gone.
    ///
    /// # Errors
    /// See [`Client::send`].
    fn delete<K: Object>(&self, key: &ObjectKey, options: DeleteOptions) -> impl Future<Output = Result<Option<Arc<K>>, ApiError>> + Send {
        let call = Call::<K>::Delete { key: key.clone(), options };
        async move { self.send(call.into()).await.map(Reply::into_remains) }
    }
}

impl<C: Client> ClientExt for C {}
