//! Watches of one client that lag behind.

use std::time::Duration;

use crate::kinds::KindId;
use crate::rt::ProcessId;

/// Changes of one type, or of all, that reach one client late.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheLag {
    pub(super) client: ProcessId,
    pub(super) kind: Option<KindId>,
    pub(super) lag: Duration,
}

/// The time by which a change of `kind` reaches `client` late: the longest of its lags.
pub(super) fn lag_of(lags: &[CacheLag], client: ProcessId, kind: KindId) -> Duration {
    let of_watch = |lag: &&CacheLag| lag.client == client && lag.kind.is_none_or(|lagging| lagging == kind);
    lags.iter().filter(of_watch).map(|lag| lag.lag).max().unwrap_or_default()
}

#[cfg(test)]
impl CacheLag {
    /// Whether it delays changes of one of `kinds` to `client`.
    pub(super) fn concerns(&self, client: ProcessId, kinds: &[KindId]) -> bool {
        self.client == client && self.kind.is_none_or(|kind| kinds.contains(&kind))
    }
}
