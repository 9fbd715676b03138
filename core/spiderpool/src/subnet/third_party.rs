//! Access to workloads of a kind that Spiderpool does not know (A §8.6: "dynamic live for third-party", A §8.7: "a dynamic watch").

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::application::ApplicationName;
use super::kinds::{ThirdParty, Watching};
use super::reclaim::Fate;
use kube_machinery::api::{ApiError, Object, ObjectKey};
use kube_machinery::client::{Client, ClientExt};
use kube_machinery::env::Env;
use kube_machinery::informer::{Informer, InformerOptions, Notification};
use kube_machinery::time_limit::TimeLimited;

/// Reads and watches workloads of the type `K`. All other kinds are unknown to it, so that their pools stay.
///
/// The pools that such a workload asks for are unknown: only its pods name them.
pub struct Live<C, K> {
    client: TimeLimited<C>,
    request_timeout: Option<Duration>,
    kind: PhantomData<fn() -> K>,
}

impl<C: Client, K> Live<C, K> {
    /// Creates one that reads through `client`. `request_timeout`: as in
    /// [`ControllerSettings`](crate::controller::ControllerSettings::request_timeout).
    pub fn new(client: C, request_timeout: Option<Duration>) -> Self {
        Self { client: TimeLimited::new(client, request_timeout), request_timeout, kind: PhantomData }
    }
}

impl<C: Clone, K> Clone for Live<C, K> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), request_timeout: self.request_timeout, kind: PhantomData }
    }
}

impl<C: fmt::Debug, K> fmt::Debug for Live<C, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("client", &self.client).finish_non_exhaustive()
    }
}

impl<C, K: Object> Live<C, K> {
    fn knows(name: &ApplicationName) -> bool {
        name.api_version == K::api_version(&()) && name.kind == K::kind(&())
    }
}

impl<K: Object, V: Env> Watching for Informer<K, V> {
    fn has_begun(&self) -> bool {
        self.has_synced()
    }
}

impl<C: Client, K: Object> ThirdParty for Live<C, K> {
    async fn fate(&self, name: &ApplicationName) -> Result<Fate, ApiError> {
        if !Self::knows(name) {
            return Ok(Fate::Unknown);
        }
        match self.client.get::<K>(&ObjectKey::namespaced(&name.namespace, &name.name)).await {
            Err(error) if error.is_not_found() => Ok(Fate::Gone),
            workload => Ok(Fate::There { uid: workload?.meta().uid.clone().unwrap_or_default(), wants: None }),
        }
    }

    fn watch<V: Env>(
        &self,
        name: &ApplicationName,
        env: &V,
        mut ended: impl FnMut(ObjectKey, Arc<str>) + Send + 'static,
    ) -> Option<Box<dyn Watching>> {
        if !Self::knows(name) {
            return None;
        }
        let options = InformerOptions { patience: self.request_timeout, ..InformerOptions::default() };
        let informer = Informer::<K, V>::start(self.client.clone(), env.clone(), options);
        informer.add_handler(move |notification| {
            let gone = match &notification {
                Notification::Deleted { .. } | Notification::DeletedFinalStateUnknown { .. } => notification.object(),
                // Two incarnations, and the end of the first was not seen (K148).
                Notification::Updated { old, new } if old.meta().uid != new.meta().uid => old,
                Notification::Added { .. } | Notification::Updated { .. } => return,
            };
            ended(ObjectKey::of(&**gone), Arc::from(gone.meta().uid.as_deref().unwrap_or_default()));
        });
        Some(Box::new(informer))
    }
}
