//! Auto pools that nobody needs any more (A §8.6).

use super::pool::label;
use crate::spiderpool::select::is_auto_pool;
use crate::spiderpool::{Policy, SpiderIPPool, names};

/// What became of the workload of an auto pool, or of a pre-allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nobody can tell.
    Unknown,
    /// There is no workload of this name.
    Gone,
    /// There is one.
    There {
        /// Its UID.
        uid: String,
        /// The names of the pools that it asks for; `None` = nobody can tell.
        wants: Option<Vec<String>>,
    },
}

impl Fate {
    /// Whether the workload asks for the pool `name`, as far as one can tell.
    pub(super) fn wants(&self, name: &str) -> bool {
        match self {
            Self::Unknown => true,
            Self::Gone => false,
            Self::There { wants, .. } => wants.as_ref().is_none_or(|wants| wants.iter().any(|wanted| wanted == name)),
        }
    }
}

/// Whether an auto pool is to be deleted: it goes with its workload, no pod has an address of it, and its workload is gone, is another one of
/// the same name or, hardened, does not ask for it any more.
pub fn reclaim(pool: &SpiderIPPool, fate: &Fate, policy: &Policy) -> bool {
    let recorded = pool.status.as_ref().is_some_and(|status| !status.allocated_ips.is_absent());
    let goes = label(pool, names::LABEL_IPPOOL_RECLAIM) == Some("true");
    if !is_auto_pool(pool) || !goes || recorded || pool.metadata.deletion_timestamp.is_some() {
        return false;
    }
    match fate {
        Fate::Unknown => false,
        Fate::Gone => true,
        Fate::There { uid, .. } if label(pool, names::LABEL_OWNER_APPLICATION_UID) != Some(uid) => true,
        Fate::There { .. } => !policy.removed_annotation_keeps_pool && !fate.wants(pool.metadata.name.as_deref().unwrap_or_default()),
    }
}
