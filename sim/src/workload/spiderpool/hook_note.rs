//! What the webhooks of Spiderpool's controller say they answered.

use std::fmt;
use std::sync::Arc;

use kube_machinery::ObjectKey;

use crate::kinds::KindId;
use crate::object::Obj;
use crate::story::About;

/// A replica has judged an update, by production code; what a fault denies by mistake it does not see. The process that says it is that of
/// the event. The update may fail all the same.
#[derive(Clone, Debug)]
pub struct HookNote {
    /// The type.
    pub kind: KindId,
    /// The object.
    pub key: ObjectKey,
    /// As it is stored.
    pub old: Obj,
    /// As it would be stored.
    pub new: Obj,
    /// Why not, if it is refused.
    pub denied: Option<Arc<str>>,
}

impl HookNote {
    /// See [`Note::about`](crate::workload::Note::about).
    pub(crate) fn about(&self) -> About {
        About::passing([])
    }

    /// What of the note enters the digest; never 0.
    pub(crate) fn word(&self) -> u64 {
        let name = self.key.as_str().bytes().fold(0xcbf2_9ce4, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0193));
        50 << 56 ^ name << 1 ^ u64::from(self.denied.is_some())
    }
}

impl fmt::Display for HookNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.denied {
            Some(why) => write!(f, "refuses an update of {}: {why}", self.key),
            None => write!(f, "admits an update of {}", self.key),
        }
    }
}
