//! Reclaim of auto pools that nobody needs any more (A §8.6).

use super::application::{Application, ApplicationName};
use super::demand::Demand;
use super::pool::label;
use crate::auto_pool::is_named_after;
use crate::owner_label::subnet_of;
use crate::select::is_auto_pool;
use crate::{Policy, SpiderIPPool, names};

/// The fate of the workload of an auto pool or a pre-allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Unknown, so that whatever the workload may ask for stays.
    Unknown,
    /// There is no workload of this name.
    Gone,
    /// There is a workload of this name, this incarnation or another.
    There {
        /// The UID of the existing workload.
        uid: String,
        /// The pools that it asks for; `None` = unknown.
        wants: Option<Vec<Demand>>,
    },
}

impl Fate {
    /// Whether the workload asks for such a pool, as far as is known.
    fn wants(&self, is_it: impl Fn(&str, &Demand) -> bool) -> bool {
        match self {
            Self::Unknown => true,
            Self::Gone => false,
            Self::There { uid, wants } => wants.as_ref().is_none_or(|wants| wants.iter().any(|demand| is_it(uid, demand))),
        }
    }

    /// Whether the existing workload asks for this pool. The pool may have outlived the workload that it was named after, so its name is
    /// ignored.
    pub(super) fn asks_for_pool(&self, pool: &SpiderIPPool) -> bool {
        self.wants(|uid, demand| {
            label(pool, names::LABEL_OWNER_APPLICATION_UID) == Some(uid)
                && subnet_of(pool) == Some(&demand.subnet)
                && label(pool, names::LABEL_INTERFACE) == Some(&demand.nic)
                && pool.spec.ip_version == Some(demand.family.number())
        })
    }

    /// Whether a pool of this name would belong to the existing incarnation, as far as is known.
    pub(super) fn is_of(&self, name: &str) -> bool {
        match self {
            Self::Unknown => true,
            Self::Gone => false,
            Self::There { uid, .. } => is_named_after(name, uid),
        }
    }

    /// Whether `application` asks for a pool of this name, as far as is known.
    pub(super) fn asks_for(&self, application: &ApplicationName, name: &str, policy: &Policy) -> bool {
        self.wants(|uid, demand| {
            let application = Application { name: application.clone(), uid: uid.to_owned() };
            application.pool_name(&demand.nic, demand.family, policy) == name
        })
    }
}

/// Whether an auto pool is to be deleted: it is reclaimed with its workload, no pod has an address of it, and its workload is gone, is
/// another one of the same name or, hardened, does not ask for it any more.
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
        Fate::There { .. } => !policy.removed_annotation_keeps_pool && !fate.asks_for_pool(pool),
    }
}
