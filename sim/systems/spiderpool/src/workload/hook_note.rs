//! Notes about the answers of the webhooks of Spiderpool's controller.

use std::fmt;
use std::sync::Arc;

use ipam_spiderpool::SpiderSubnet;
use ipam_spiderpool::admission::{AdmissionSettings, Denial, Listed};
use kube_machinery::{ObjectKey, word_hash};
use kube_sim::kinds::KindId;
use kube_sim::object::Obj;
use kube_sim::trace::Note;
use kube_sim::trace::entity::About;

/// A replica has answered an API server, by production code; denials that a fault causes are not included. The process that answered is
/// that of the event. The request may still fail afterwards.
#[derive(Clone, Debug)]
pub struct HookNote {
    /// The type of the object, one of those for which the webhooks are registered.
    pub kind: KindId,
    /// The name of the object, which belongs to no namespace; unset = the API server has yet to generate it.
    pub key: Option<ObjectKey>,
    /// The stored object; unset = it is to be created.
    pub old: Option<Obj>,
    /// The object as it would be stored; unset = it is to be deleted.
    pub new: Option<Obj>,
    /// The settings of the cluster that the replica uses.
    pub settings: AdmissionSettings,
    /// The replica's answer, and the objects that it saw at the time.
    pub answer: HookAnswer,
}

/// The answer of a webhook.
#[derive(Clone, Debug)]
pub enum HookAnswer {
    /// The answer of the mutating webhook: the object with its defaults.
    Defaulted {
        /// The object of the answer; equal to the request if there is nothing to fill in.
        defaulted: Obj,
        /// The subnets in the replica's cache, ordered by name.
        subnets: Vec<Arc<SpiderSubnet>>,
    },
    /// The answer of the validating webhook: its verdict.
    Judged {
        /// The objects that the webhook listed. A deletion is compared with nothing.
        listed: Arc<Listed>,
        /// The reason for the refusal, if the request is refused.
        denied: Option<Arc<Denial>>,
    },
}

impl HookNote {
    /// The update that was judged, and the reason for its refusal, if any; `None` = the request was something else.
    pub fn update(&self) -> Option<(&Obj, &Obj, Option<&Arc<Denial>>)> {
        match &self.answer {
            HookAnswer::Judged { denied, .. } => Some((self.old.as_ref()?, self.new.as_ref()?, denied.as_ref())),
            HookAnswer::Defaulted { .. } => None,
        }
    }

    /// The request as a phrase, like `a creation of`.
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
