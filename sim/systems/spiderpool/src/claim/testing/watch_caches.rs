//! Watch caches that lose changes.

use kube_machinery::ObjectKey;
use kube_machinery::api::Object;
use kube_sim::trace::EventKind;

use super::Stage;

impl Stage {
    /// Makes a watch cache lose the last change.
    pub(in super::super) fn cache_loses<K: Object>(&mut self, key: &ObjectKey) {
        let (kind, revision) = (self.registry.id::<K>(), self.revision);
        self.event(EventKind::Lost { server: self.kubelet, kind, key, revision });
    }

    /// Makes a watch cache start again from a list.
    pub(in super::super) fn cache_has_all<K: Object>(&mut self) {
        let kind = self.registry.id::<K>();
        self.event(EventKind::Relisted { server: self.kubelet, kind });
    }
}
