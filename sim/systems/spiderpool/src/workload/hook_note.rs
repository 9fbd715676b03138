//! What the webhooks of Spiderpool's controller say they answered.

use std::fmt;
use std::sync::Arc;

use ipam_spiderpool::SpiderSubnet;
use ipam_spiderpool::admission::{AdmissionSettings, Denial, Listed};
use kube_machinery::{ObjectKey, word_hash};
use kube_sim::kinds::KindId;
use kube_sim::object::Obj;
use kube_sim::trace::Note;
use kube_sim::trace::entity::About;

/// A replica has answered an API server, by production code; what a fault denies by mistake it does not see. The process that says it is
/// that of the event. The request may fail all the same.
#[derive(Clone, Debug)]
pub struct HookNote {
    /// The type of the object, one of those that the webhooks are registered for.
    pub kind: KindId,
    /// The name of the object, which belongs to no namespace; unset = the API server has yet to give it one.
    pub key: Option<ObjectKey>,
    /// As it is stored; unset = it is to be created.
    pub old: Option<Obj>,
    /// As it would be stored; unset = it is to be deleted.
    pub new: Option<Obj>,
    /// The cluster's settings that the replica goes by.
    pub settings: AdmissionSettings,
    /// What the replica answered, and what it had seen when it did.
    pub answer: HookAnswer,
}

/// What a webhook answered.
#[derive(Clone, Debug)]
pub enum HookAnswer {
    /// The mutating one: the object with its defaults.
    Defaulted {
        /// The object that it answered with; what was asked, if it has nothing to fill in.
        defaulted: Obj,
        /// The subnets that its cache showed, in the order of their names.
        subnets: Vec<Arc<SpiderSubnet>>,
    },
    /// The validating one: its verdict.
    Judged {
        /// What it had listed for it. A deletion is compared with nothing.
        listed: Arc<Listed>,
        /// Why not, if the request is refused.
        denied: Option<Arc<Denial>>,
    },
}

impl HookNote {
    /// The update that was judged, and why it is refused, if it is; `None` = something else was asked.
    pub fn update(&self) -> Option<(&Obj, &Obj, Option<&Arc<Denial>>)> {
        match &self.answer {
            HookAnswer::Judged { denied, .. } => Some((self.old.as_ref()?, self.new.as_ref()?, denied.as_ref())),
            HookAnswer::Defaulted { .. } => None,
        }
    }

    /// What is to be done with the object, as in `a creation of`.
    fn asked(&self) -> &'static str {
        match (&self.old, &self.new) {
            (None, _) => "a creation",
            (_, None) => "a deletion",
            _ => "an update",
        }
    }

    fn name(&self) -> &str {
        self.key.as_ref().map_or("", ObjectKey::name)
    }
}

impl Note for HookNote {
    fn about(&self) -> About {
        About::passing([])
    }

    fn word(&self) -> u64 {
        let denied = match &self.answer {
            HookAnswer::Judged { denied, .. } => Some(denied.is_some()),
            HookAnswer::Defaulted { .. } => None,
        };
        word_hash::of("hook", &(&self.key, denied))
    }
}

impl fmt::Display for HookNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (asked, name) = (self.asked(), self.name());
        match &self.answer {
            HookAnswer::Judged { denied: Some(why), .. } => write!(f, "refuses {asked} of {name}: {why}"),
            HookAnswer::Judged { denied: None, .. } => write!(f, "admits {asked} of {name}"),
            HookAnswer::Defaulted { .. } => write!(f, "fills in the defaults of {name}"),
        }
    }
}
