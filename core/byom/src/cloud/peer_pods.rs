//! The adaptor's and the controller's requests about PeerPods.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::peer_pod::PeerPod;
use crate::allocation::IpAllocation;
use crate::attempts::{Retry, is_verdict};
use crate::decide::PodName;
use crate::driver::PoolSettings;
use kube_machinery::api::{
    ApiError, Call, DeleteOptions, Dry, List, ListOptions, Object, ObjectKey, Patch, Preconditions, Reply, Request, TransportError,
    VersionMatch,
};
use kube_machinery::client::Client;
use kube_machinery::env::Env;

/// Requests about PeerPods. `deadline` is by the monotonic clock of the process; `None` = none.
#[derive(Clone, Debug)]
pub(super) struct PeerPods<C, V> {
    client: C,
    env: V,
    retry: Retry,
    request_timeout: Option<Duration>,
}

impl<C: Client, V: Env> PeerPods<C, V> {
    pub(super) fn new(client: C, env: V, settings: &PoolSettings) -> Self {
        Self { client, env, retry: settings.retry, request_timeout: settings.request_timeout }
    }

    pub(super) fn env(&self) -> &V {
        &self.env
    }

    async fn send<K: Object>(&self, call: Call<K>, deadline: Option<Duration>) -> Result<Reply<K>, ApiError> {
        let left = deadline.map(|deadline| deadline.saturating_sub(self.env.monotonic()));
        if left == Some(Duration::ZERO) {
            return Err(TransportError::Deadline.into());
        }
        let timeout = match (left, self.request_timeout) {
            (Some(left), Some(limit)) => Some(left.min(limit)),
            (left, limit) => left.or(limit),
        };
        self.client.send(Request { call, timeout }).await
    }

    /// Sleeps before attempt number `tries + 1`.
    async fn pause(&self, tries: &mut u32, error: ApiError, deadline: Option<Duration>) -> Result<(), ApiError> {
        if is_verdict(&error) || deadline.is_some_and(|deadline| deadline <= self.env.monotonic()) {
            return Err(error);
        }
        *tries += 1;
        let sleep = self.retry.sleep(*tries, || self.env.random_unit()).ok_or(error)?;
        self.env.sleep(sleep).await;
        Ok(())
    }

    /// Lists all PeerPods, if possible as etcd has them. A consistent list comes from the watch cache, which may have lost some (K182). An
    /// exact one asks etcd; a server since 1.34 answers it from a snapshot of the same cache, until it has compared the two, which takes up
    /// to 7.5 minutes.
    pub(super) async fn list(&self, deadline: Option<Duration>) -> Result<Vec<Arc<PeerPod>>, ApiError> {
        let newest = self.list_with(ListOptions::default(), deadline).await?;
        let version = Some(newest.resource_version);
        let exact = ListOptions { resource_version: version, resource_version_match: Some(VersionMatch::Exact), ..ListOptions::default() };
        Ok(self.list_with(exact, deadline).await?.items)
    }

    async fn list_with(&self, options: ListOptions, deadline: Option<Duration>) -> Result<List<PeerPod>, ApiError> {
        match self.send(Call::List { namespace: None, options }, deadline).await? {
            Reply::List(list) => Ok(list),
            Reply::Object(_) | Reply::Deleted { .. } => unreachable!("an API server answers a list with a list"),
        }
    }

    /// Reads the most recent state; `None` = there is none.
    pub(super) async fn get<K: Object>(&self, key: &ObjectKey, deadline: Option<Duration>) -> Result<Option<Arc<K>>, ApiError> {
        let call = Call::Get { key: key.clone(), resource_version: None };
        match self.send(call, deadline).await {
            Ok(Reply::Object(object)) => Ok(Some(object)),
            Ok(Reply::List(_) | Reply::Deleted { .. }) => unreachable!("an API server answers a get with an object"),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The UID of the Pod that has this name now.
    pub(super) async fn pod_uid(&self, pod: &PodName, deadline: Option<Duration>) -> Result<Option<Arc<str>>, ApiError> {
        let pod: Option<Arc<Pod>> = self.get(&ObjectKey::namespaced(&pod.namespace, &pod.name), deadline).await?;
        Ok(pod.and_then(|pod| pod.metadata.uid.as_deref().map(Arc::from)))
    }

    /// Makes a PeerPod for a record, with its own name.
    pub(super) fn made(&self, record: &IpAllocation, pod: &PodName, pod_uid: &str) -> PeerPod {
        PeerPod::of_allocation(record, pod, pod_uid, || self.env.random())
    }

    /// Creates it with one request. After an ambiguous error it may exist.
    pub(super) async fn create(&self, peer_pod: PeerPod, deadline: Option<Duration>) -> Result<Arc<PeerPod>, ApiError> {
        let namespace = peer_pod.metadata.namespace.as_deref().map(Arc::from);
        object(self.send(Call::Create { namespace, body: Arc::new(peer_pod), dry: Dry::No }, deadline).await?)
    }

    /// Creates it, with retries until it exists. An attempt whose answer was lost is recognised by the allocation ID.
    pub(super) async fn create_surely(&self, peer_pod: &PeerPod, deadline: Option<Duration>) -> Result<Arc<PeerPod>, ApiError> {
        let key = ObjectKey::of(peer_pod);
        let mut tries = 0;
        loop {
            let error = match self.create(peer_pod.clone(), deadline).await {
                Ok(written) => return Ok(written),
                Err(error) if error.is_already_exists() => match self.get::<PeerPod>(&key, deadline).await {
                    Ok(Some(found)) if found.allocation_id() == peer_pod.allocation_id() => return Ok(found),
                    // Another object's name, a chance of one in fourteen million: a name that is taken does not become free.
                    Ok(Some(_)) => return Err(error),
                    Ok(None) => error,
                    Err(error) => error,
                },
                Err(error) => error,
            };
            self.pause(&mut tries, error, deadline).await?;
        }
    }

    /// Marks exactly this object for deletion, in whatever state it is by now. `None` = it is gone.
    pub(super) async fn mark(&self, peer_pod: Arc<PeerPod>, deadline: Option<Duration>) -> Result<Option<Arc<PeerPod>>, ApiError> {
        let mut tries = 0;
        let mut current = peer_pod;
        loop {
            if current.is_terminating() {
                return Ok(Some(current));
            }
            let error = match self.delete_once(&current, true, deadline).await {
                Ok(left) => return Ok(left),
                Err(error) => error,
            };
            match self.same_again(&current, error, &mut tries, deadline).await? {
                Some(again) => current = again,
                None => return Ok(None),
            }
        }
    }

    /// Removes the finalizer of exactly this object, in whatever state it is by now.
    pub(super) async fn finish(&self, peer_pod: Arc<PeerPod>, deadline: Option<Duration>) -> Result<(), ApiError> {
        let mut tries = 0;
        let mut current = peer_pod;
        while current.has_finalizer() {
            let Err(error) = self.finish_once(&current, deadline).await else { return Ok(()) };
            match self.same_again(&current, error, &mut tries, deadline).await? {
                Some(again) => current = again,
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Reads the current state of the same object after a failed write; `None` = it is gone.
    async fn same_again(
        &self,
        known: &PeerPod,
        mut error: ApiError,
        tries: &mut u32,
        deadline: Option<Duration>,
    ) -> Result<Option<Arc<PeerPod>>, ApiError> {
        if error.is_not_found() {
            return Ok(None);
        }
        loop {
            self.pause(tries, error, deadline).await?;
            match self.get::<PeerPod>(&ObjectKey::of(known), deadline).await {
                Ok(found) => return Ok(found.filter(|found| found.metadata.uid == known.metadata.uid)),
                Err(again) => error = again,
            }
        }
    }

    /// Marks it for deletion with one request; if `guarded`, only in exactly this state. `None` = it is gone.
    pub(super) async fn delete_once(
        &self,
        peer_pod: &PeerPod,
        guarded: bool,
        deadline: Option<Duration>,
    ) -> Result<Option<Arc<PeerPod>>, ApiError> {
        let meta = &peer_pod.metadata;
        let preconditions = Preconditions { uid: meta.uid.clone(), resource_version: meta.resource_version.clone() };
        let preconditions = if guarded { preconditions } else { Preconditions::default() };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        match self.send(Call::<PeerPod>::Delete { key: ObjectKey::of(peer_pod), options }, deadline).await? {
            Reply::Object(left) => Ok(Some(left)),
            Reply::Deleted { .. } => Ok(None),
            Reply::List(_) => unreachable!("an API server answers a delete with an object or a Status"),
        }
    }

    /// Removes the finalizer with one request, only in exactly this state.
    pub(super) async fn finish_once(&self, peer_pod: &PeerPod, deadline: Option<Duration>) -> Result<(), ApiError> {
        let body = Arc::new(peer_pod.without_finalizer());
        let call = Call::Update { key: ObjectKey::of(peer_pod), body, subresource: None, dry: Dry::No };
        object(self.send(call, deadline).await?).map(drop)
    }

    /// Removes all finalizers with a patch, like upstream's adaptor (B X4).
    pub(super) async fn patch_finalizers_away(&self, key: &ObjectKey, deadline: Option<Duration>) -> Result<(), ApiError> {
        let patch = Patch::json(json!([{ "op": "remove", "path": "/metadata/finalizers" }]));
        let call = Call::<PeerPod>::Patch { key: key.clone(), patch, subresource: None, dry: Dry::No };
        object(self.send(call, deadline).await?).map(drop)
    }
}

fn object<K>(reply: Reply<K>) -> Result<Arc<K>, ApiError> {
    match reply {
        Reply::Object(object) => Ok(object),
        Reply::List(_) | Reply::Deleted { .. } => unreachable!("an API server answers this verb with an object"),
    }
}
