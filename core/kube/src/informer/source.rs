//! The list and watch requests of an informer.

use std::sync::Arc;
use std::time::Duration;

use crate::api::{ApiError, Call, List, ListOptions, Object, Reason, Reply, Request, VersionMatch, WatchOptions};
use crate::client::Client;

/// The page size of both client-go and kube-rs.
pub(super) const PAGE_SIZE: u32 = 500;

/// One resource, accessed through one client, a namespace and selectors.
#[derive(Clone, Debug)]
pub(super) struct Source<C> {
    pub(super) client: C,
    pub(super) namespace: Option<Arc<str>>,
    pub(super) label_selector: Option<String>,
    pub(super) field_selector: Option<String>,
    /// The timeout for an answer; `None` = as long as the connection lasts.
    pub(super) patience: Option<Duration>,
}

impl<C: Client> Source<C> {
    async fn page<K: Object>(&self, version: Option<&str>, limit: u32, continue_token: Option<String>) -> Result<List<K>, ApiError> {
        let options = ListOptions {
            resource_version: version.map(str::to_owned),
            resource_version_match: version.filter(|version| *version != "0").map(|_| VersionMatch::NotOlderThan),
            limit,
            continue_token,
            label_selector: self.label_selector.clone(),
            field_selector: self.field_selector.clone(),
        };
        let call = Call::List { namespace: self.namespace.clone(), options };
        self.client.send(Request { call, timeout: self.patience }).await.map(Reply::into_list)
    }

    /// Lists all pages, not older than `version`. If the revision of the first page has expired by the next one, `whole_if_expired`
    /// requests everything once more in one page (client-go); else that is an error (kube-rs).
    pub(super) async fn list<K: Object>(&self, version: Option<&str>, limit: u32, whole_if_expired: bool) -> Result<List<K>, ApiError> {
        let mut list = self.page(version, limit, None).await?;
        while let Some(token) = list.continue_token.take() {
            match self.page(None, limit, Some(token)).await {
                Ok(page) => {
                    list.items.extend(page.items);
                    list.continue_token = page.continue_token;
                }
                Err(error) if whole_if_expired && error.reason() == Some(Reason::Expired) => return self.page(version, 0, None).await,
                Err(error) => return Err(error),
            }
        }
        Ok(list)
    }

    /// Watches the changes after `version`.
    pub(super) async fn watch<K: Object>(&self, version: &str, timeout_seconds: u32) -> Result<C::Watch<K>, ApiError> {
        self.open(Some(version), timeout_seconds, false).await
    }

    /// Streams a state not older than `version`, or the most recent one if it is unset, and the changes after it.
    pub(super) async fn watch_list<K: Object>(&self, version: Option<&str>, timeout_seconds: u32) -> Result<C::Watch<K>, ApiError> {
        self.open(version, timeout_seconds, true).await
    }

    async fn open<K: Object>(&self, version: Option<&str>, timeout_seconds: u32, with_state: bool) -> Result<C::Watch<K>, ApiError> {
        let options = WatchOptions {
            resource_version: version.map(str::to_owned),
            resource_version_match: with_state.then_some(VersionMatch::NotOlderThan),
            label_selector: self.label_selector.clone(),
            field_selector: self.field_selector.clone(),
            allow_bookmarks: true,
            timeout_seconds: Some(timeout_seconds),
            send_initial_events: with_state,
        };
        self.client.watch(self.namespace.clone(), options).await
    }
}
