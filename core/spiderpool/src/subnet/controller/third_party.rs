//! The watches of third-party kinds, which begin when a workload of such a kind has a pool, or is about to (A §8.7).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::{AppKey, Queues, SubnetController};
use crate::subnet::application::ApplicationName;
use crate::subnet::kinds::{Kind, ThirdParty, Watching};
use crate::subnet::observer::Observer;
use kube_machinery::client::Client;
use kube_machinery::env::Env;

/// The interval at which to check whether a watch has begun.
pub(super) const BEGINS: Duration = Duration::from_secs(1);

/// A kind with its API version.
type KindName = (String, String);

/// The watches, kept while the controller leads. Unknown kinds have none.
#[derive(Default)]
pub(super) struct Watches(Mutex<BTreeMap<KindName, Option<Box<dyn Watching>>>>);

impl<C: Client, V: Env, O: Observer, T: ThirdParty> SubnetController<C, V, O, T> {
    /// Watches workloads of the kind of `name` if nobody does yet. Returns whether their ends are reported from now on: then anything read
    /// of them after this call stays true until it is reported otherwise. If not, check again after [`BEGINS`].
    ///
    /// For kinds that are always watched, and for unknown ones, there is nothing to wait for.
    pub(super) fn watches(&self, name: &ApplicationName, queues: &Queues<V>, watches: &Watches) -> bool {
        if Kind::of(name).is_some() {
            return true;
        }
        let mut watches = watches.0.lock().unwrap_or_else(PoisonError::into_inner);
        let watch = watches.entry((name.api_version.clone(), name.kind.clone())).or_insert_with(|| {
            let apps = queues.apps.clone();
            let ended = move |key, uid| apps.add(AppKey { kind: None, key, uid });
            self.third_party.watch(name, &self.auto_pools.env, ended)
        });
        watch.as_ref().is_none_or(|watch| watch.has_begun())
    }
}
