//! What the webhooks of Spiderpool's controller say they answered.

use std::fmt;
use std::sync::Arc;

use kube_machinery::ObjectKey;
use kube_sim::kinds::KindId;
use kube_sim::object::Obj;
use kube_sim::trace::Note;
use kube_sim::trace::entity::About;

/// A replica has judged an update, by production code; what a fault denies by mistake it does not see. The process that says it is that of
/// the event. The update may fail all the same.
#[derive(Clone, Debug)]
pub struct HookNote {
    /// The type of the object, one of those that the webhooks are registered for.
    pub kind: KindId,
    /// The name of the object, which belongs to no namespace.
    pub key: ObjectKey,
    /// As it is stored.
    pub old: Obj,
    /// As it would be stored.
    pub new: Obj,
    /// Why not, if it is refused.
    pub denied: Option<Arc<str>>,
}

impl Note for HookNote {
    fn about(&self) -> About {
        About::passing([])
    }

    fn word(&self) -> u64 {
        self.own_word() << 2 | 1
    }
}

impl HookNote {
    /// A word that tells notes of this vocabulary apart; never 0. [`Note::word`] tells them from others by the two lowest bits.
    fn own_word(&self) -> u64 {
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
