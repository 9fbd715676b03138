//! Looking for workloads of a kind that Spiderpool does not know (A §8.6: "dynamic live for third-party").

use std::fmt;
use std::marker::PhantomData;

use super::application::ApplicationName;
use super::kinds::ThirdParty;
use super::reclaim::Fate;
use crate::api::{ApiError, Object, ObjectKey};
use crate::client::{Client, ClientExt};

/// Reads workloads of the type `K` from the API server. Of any other kind it knows nothing, so that its pools stay.
///
/// Which pools such a workload asks for nobody can tell: its pods do.
pub struct Live<C, K> {
    client: C,
    kind: PhantomData<fn() -> K>,
}

impl<C, K> Live<C, K> {
    /// Reads through `client`.
    pub fn new(client: C) -> Self {
        Self { client, kind: PhantomData }
    }
}

impl<C: Clone, K> Clone for Live<C, K> {
    fn clone(&self) -> Self {
        Self::new(self.client.clone())
    }
}

impl<C: fmt::Debug, K> fmt::Debug for Live<C, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("client", &self.client).finish_non_exhaustive()
    }
}

impl<C: Client, K: Object> ThirdParty for Live<C, K> {
    async fn fate(&self, name: &ApplicationName) -> Result<Fate, ApiError> {
        if name.api_version != K::api_version(&()) || name.kind != K::kind(&()) {
            return Ok(Fate::Unknown);
        }
        match self.client.get::<K>(&ObjectKey::namespaced(&name.namespace, &name.name)).await {
            Err(error) if error.is_not_found() => Ok(Fate::Gone),
            workload => Ok(Fate::There { uid: workload?.meta().uid.clone().unwrap_or_default(), wants: None }),
        }
    }
}
