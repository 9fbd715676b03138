//! The simulated API as programs use it: with the types of their objects.

use std::future::Future;
use std::sync::Arc;

use kube_machinery::api::{Reply, Request, WatchOptions};
use kube_machinery::{ApiError, Client, Object};

use super::client::SimClient;
use super::request::{ApiRequest, Op};
use super::watch_stream::SimWatch;

impl Client for SimClient {
    type Watch<K: Object> = SimWatch<K>;

    fn send<K: Object>(&self, request: Request<K>) -> impl Future<Output = Result<Reply<K>, ApiError>> + Send {
        let served = self.cluster.registry.served::<K>();
        let Request { call, timeout } = request;
        let (kind, op, call) = (served.kind, Op::of(call, served), self.cluster.next_call());
        let request = ApiRequest { client: self.process, kind, op, call, manager: None };
        // In a separate box: every future that sends something holds one of these, some hold several, and they are moved about.
        let exchange = Box::pin(self.exchange(request, timeout));
        async move { exchange.await.map(|reply| reply.typed(served)) }
    }

    async fn watch<K: Object>(&self, namespace: Option<Arc<str>>, options: WatchOptions) -> Result<SimWatch<K>, ApiError> {
        let served = self.cluster.registry.served::<K>();
        let watch = self.watch_any(served.kind, namespace, options).await?;
        Ok(SimWatch::new(watch, served))
    }

    fn streams_lists(&self) -> bool {
        self.streams_lists
    }
}
