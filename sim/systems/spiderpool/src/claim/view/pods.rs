//! The pods by UID, including those that are gone.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod as PodObject;
use kube_machinery::kubevirt;
use kube_machinery::{FxHashMap, ObjectKey, controller_of};
use kube_sim::cluster::{DISRUPTION_TARGET, EVICTED_BY_API};
use sim_config::time::SimTime;

use super::pod_state::{has_ended, runs_without_ips};

/// The owner whose addresses outlive its pods (A §6.1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in super::super) enum Place {
    /// A place in a StatefulSet: the set, as `NAMESPACE/NAME`, and the ordinal.
    Ordinal(Arc<str>, u32),
    /// A VM: the VMI, as `NAMESPACE/NAME`.
    Vm(Arc<str>),
}

/// The times since which a pod has met each condition that can end its entitlement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Since {
    /// The time since which it has been terminating.
    pub(in super::super) terminating: Option<SimTime>,
    /// The time since which its phase has been final.
    pub(in super::super) ended: Option<SimTime>,
    /// The time since which its object has been gone.
    pub(in super::super) gone: Option<SimTime>,
}

/// A pod as the API shows it, and its history; it stays known when it is gone.
#[derive(Clone, Debug)]
pub(in super::super) struct Pod {
    /// The pod as `NAMESPACE/NAME`; other pods may have the name before or after it.
    pub(in super::super) key: Arc<str>,
    /// The last version of its object.
    pub(in super::super) object: Arc<PodObject>,
    /// The place that keeps its addresses, if they outlive it.
    pub(in super::super) place: Option<Place>,
    /// The revision since which it is not alive (A §7.2): terminating, over, or gone.
    pub(in super::super) dead: Option<u64>,
    /// Whether its object is gone.
    pub(in super::super) gone: bool,
    /// The revisions of its first and its last version; the latter is 0 while it exists.
    pub(in super::super) life: (u64, u64),
    /// The times since which it has been terminating, ended or gone.
    pub(in super::super) since: Since,
    /// Its last version with a grace period, if it was first to end within that and then told to end at once.
    pub(in super::super) unforced: Option<Arc<PodObject>>,
    /// The last time at which its status named an address again after the pod had run without one.
    pub(super) without_ips_until: Option<SimTime>,
    /// The times in which it had no controller although it has a place.
    orphaned: Vec<Orphaned>,
}

/// A time in which a pod had no controller.
#[derive(Clone, Copy, Debug)]
struct Orphaned {
    since: SimTime,
    /// The revision and the time at which it was adopted.
    adopted: Option<(u64, SimTime)>,
}

impl Since {
    /// The time at which its end began; `None` = it has not begun.
    fn first(&self) -> Option<SimTime> {
        [self.terminating, self.ended, self.gone].into_iter().flatten().min()
    }
}

impl Pod {
    /// The time at which its end began; `None` = it has not begun.
    pub(in super::super) fn ends_since(&self) -> Option<SimTime> {
        self.since.first()
    }

    /// Whether it is an orphan: it has lost its controller, and no set of the name has adopted it since.
    pub(in super::super) fn is_orphan(&self) -> bool {
        self.orphaned.last().is_some_and(|orphaned| orphaned.adopted.is_none())
    }

    /// Whether it has no controller, or had none at a time or later.
    pub(in super::super) fn was_orphan_since(&self, time: SimTime) -> bool {
        self.orphaned.last().is_some_and(|orphaned| orphaned.adopted.is_none_or(|(_, adopted)| adopted >= time))
    }

    /// Whether a process that had been shown every pod up to revision `shown`, and maybe more, can have known it as an orphan at a time.
    pub(in super::super) fn may_have_seemed_orphan(&self, at: SimTime, shown: u64) -> bool {
        self.orphaned.iter().any(|orphaned| orphaned.since <= at && orphaned.adopted.is_none_or(|(revision, _)| revision > shown))
    }

    /// Takes in a change of its owner. An orphan keeps its place, as its endpoint names the owner that it had.
    fn see_owner(&mut self, key: &ObjectKey, after: &PodObject, (revision, at): (u64, SimTime)) {
        if self.object.metadata.owner_references == after.metadata.owner_references {
            return;
        }
        let owned = after.metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true));
        match (place_of(key, after), self.orphaned.last_mut()) {
            (place @ Some(_), last) => {
                match last {
                    Some(Orphaned { adopted: adopted @ None, .. }) => *adopted = Some((revision, at)),
                    _ if self.place.is_none() => self.orphaned.push(Orphaned { since: SimTime::ZERO, adopted: Some((revision, at)) }),
                    _ => {}
                }
                self.place = place;
            }
            (None, _) if self.place.is_some() && !owned && !self.is_orphan() => self.orphaned.push(Orphaned { since: at, adopted: None }),
            _ => {}
        }
    }

    /// Whether it is alive according to the API.
    pub(in super::super) fn is_alive(&self) -> bool {
        self.dead.is_none()
    }

    /// The node that it is bound to, if any.
    pub(in super::super) fn node(&self) -> Option<&str> {
        self.object.spec.as_ref()?.node_name.as_deref().filter(|node| !node.is_empty())
    }

    /// Whether it uses the network of its node.
    pub(in super::super) fn is_on_host_network(&self) -> bool {
        self.object.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or(false)
    }

    /// Whether it is being deleted.
    pub(in super::super) fn is_terminating(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    /// Whether it was evicted through the API.
    pub(in super::super) fn is_evicted(&self) -> bool {
        let conditions = self.object.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        conditions.iter().any(|condition| condition.type_ == DISRUPTION_TARGET && condition.reason.as_deref() == Some(EVICTED_BY_API))
    }

    /// The names under which its addresses may be recorded, the likelier one first: for a VM it depends on a setting.
    pub(in super::super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        let vm = match &self.place {
            Some(Place::Vm(vmi)) => Some(vmi),
            _ => None,
        };
        vm.into_iter().chain([&self.key])
    }

    /// Whether its addresses may be recorded under a name.
    pub(in super::super) fn has_name(&self, name: &str) -> bool {
        self.names().any(|own| **own == *name)
    }

    /// The name that its successors have as well, if its addresses outlive it.
    pub(in super::super) fn static_name(&self) -> Option<&Arc<str>> {
        match self.place.as_ref()? {
            Place::Vm(vmi) => Some(vmi),
            Place::Ordinal(..) => Some(&self.key),
        }
    }
}

/// Every pod that was ever seen, by UID, and the pod that has each name.
#[derive(Debug, Default)]
pub(in super::super) struct Pods {
    by_uid: FxHashMap<Arc<str>, Pod>,
    /// The UID of the pod that has the name.
    by_key: FxHashMap<Arc<str>, Arc<str>>,
    /// The pods that are gone with the revision at which they went, in that order.
    vanished: Vec<(u64, Arc<str>)>,
    /// For each name, the time at which the last pod with it went.
    emptied: FxHashMap<Arc<str>, SimTime>,
}

impl Pods {
    /// The pod with a UID, even if it is gone; `None` = it was never seen.
    pub(in super::super) fn get(&self, uid: &str) -> Option<&Pod> {
        self.by_uid.get(uid)
    }

    /// Whether a pod is alive according to the API. A pod that was never seen is not.
    pub(in super::super) fn is_alive(&self, uid: &str) -> bool {
        self.get(uid).is_some_and(Pod::is_alive)
    }

    /// The pod that has a name now.
    pub(in super::super) fn named(&self, key: &str) -> Option<(&Arc<str>, &Pod)> {
        let uid = self.by_key.get(key)?;
        Some((uid, self.by_uid.get(uid)?))
    }

    /// The time at which the last pod with a name went; the beginning of the run, if there was none.
    pub(in super::super) fn emptied(&self, key: &str) -> SimTime {
        self.emptied.get(key).copied().unwrap_or(SimTime::ZERO)
    }

    /// The pods that exist now, in arbitrary order.
    pub(in super::super) fn present(&self) -> impl Iterator<Item = (&Arc<str>, &Pod)> {
        self.by_key.values().filter_map(|uid| Some((uid, self.by_uid.get(uid)?)))
    }

    /// The pods that exist now, and those that went at a time or later.
    pub(in super::super) fn present_since(&self, time: SimTime) -> impl Iterator<Item = (&Arc<str>, &Pod)> {
        let vanished = self.vanished.iter().rev().filter_map(|(_, uid)| self.by_uid.get_key_value(uid));
        self.present().chain(vanished.take_while(move |(_, pod)| pod.since.gone.is_some_and(|gone| gone >= time)))
    }

    /// All pods of a place that came after one of them and before another, in arbitrary order. Linear: only for use after a violation was
    /// found.
    pub(in super::super) fn between<'a>(&'a self, first: &'a Pod, last: &'a Pod) -> impl Iterator<Item = &'a Pod> {
        let between = move |pod: &&Pod| first.life.0 < pod.life.0 && pod.life.0 < last.life.0;
        self.by_uid.values().filter(between).filter(move |pod| pod.static_name().is_some_and(|name| last.has_name(name)))
    }

    /// All pods of the place of one of them, in arbitrary order. Linear.
    pub(super) fn of_same_name<'a>(&'a self, one: &'a Pod) -> impl Iterator<Item = (&'a Arc<str>, &'a Pod)> {
        self.by_uid.iter().filter(move |(_, pod)| pod.static_name().is_some_and(|name| one.has_name(name)))
    }

    /// The pods of the same name that came to the same node after one, in arbitrary order. Linear.
    pub(super) fn namesakes_since<'a>(&'a self, one: &'a Pod) -> impl Iterator<Item = &'a Arc<str>> {
        let is_one = move |pod: &Pod| pod.key == one.key && pod.life.0 > one.life.0 && pod.node() == one.node();
        self.by_uid.iter().filter(move |(_, pod)| is_one(pod)).map(|(uid, _)| uid)
    }

    /// The shared copy of a UID.
    pub(super) fn id(&self, uid: &str) -> Option<&Arc<str>> {
        self.by_uid.get_key_value(uid).map(|(uid, _)| uid)
    }

    /// Takes in a version of a pod. Revision 0 = it existed when the run began. Returns its UID if the pod is nearer to its end now, or its
    /// grace period changed.
    pub(super) fn see(
        &mut self,
        key: &ObjectKey,
        (revision, at): (u64, SimTime),
        before: Option<&PodObject>,
        after: Option<Arc<PodObject>>,
    ) -> Option<Arc<str>> {
        let uid = |pod: &PodObject| pod.metadata.uid.clone().unwrap_or_default();
        let Some(after) = after else {
            self.by_key.remove(key.as_str());
            let id = self.id(&before.map(uid).unwrap_or_default())?.clone();
            let pod = self.by_uid.get_mut(&id)?;
            pod.dead.get_or_insert(revision);
            (pod.gone, pod.life.1, pod.since.gone) = (true, revision, Some(at));
            self.vanished.push((revision, id.clone()));
            self.emptied.insert(pod.key.clone(), at);
            return Some(id);
        };
        let dead = (!is_alive(&after)).then_some(revision);
        let terminating = after.metadata.deletion_timestamp.is_some().then_some(at);
        let ended = has_ended(&after).then_some(at);
        let known = self.id(after.metadata.uid.as_deref().unwrap_or_default()).cloned();
        if let Some((id, pod)) = known.and_then(|id| Some((id.clone(), self.by_uid.get_mut(&id)?))) {
            let term = |pod: &PodObject| (pod.metadata.deletion_timestamp.clone(), pod.metadata.deletion_grace_period_seconds);
            let since =
                Since { terminating: pod.since.terminating.or(terminating), ended: ended.and(pod.since.ended.or(ended)), gone: None };
            let nearer = since != pod.since || (terminating.is_some() && term(&pod.object) != term(&after));
            (pod.dead, pod.since) = (pod.dead.or(dead), since);
            pod.see_owner(key, &after, (revision, at));
            let is_forced = |pod: &PodObject| pod.metadata.deletion_grace_period_seconds == Some(0);
            if is_forced(&after) && !is_forced(&pod.object) && pod.is_terminating() {
                pod.unforced = Some(pod.object.clone());
            }
            if runs_without_ips(&pod.object) && !runs_without_ips(&after) {
                pod.without_ips_until = Some(at);
            }
            pod.object = after;
            return nearer.then_some(id);
        }
        let (id, name): (Arc<str>, Arc<str>) = (uid(&after).into(), key.as_str().into());
        self.by_key.insert(name.clone(), id.clone());
        let since = Since { terminating, ended, gone: None };
        let nearer = since != Since::default();
        let (place, life) = (place_of(key, &after), (revision, 0));
        self.by_uid.insert(
            id.clone(),
            Pod {
                key: name,
                place,
                object: after,
                dead,
                gone: false,
                life,
                since,
                unforced: None,
                without_ips_until: None,
                orphaned: Vec::new(),
            },
        );
        nearer.then_some(id)
    }
}

/// A second implementation of A §7.2.
fn is_alive(pod: &PodObject) -> bool {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let evicted = status.and_then(|status| status.reason.as_deref()) == Some("Evicted");
    let restarts = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or_default();
    let over = match phase {
        "Succeeded" => restarts != "Always",
        "Failed" => restarts == "Never" || evicted,
        _ => false,
    };
    pod.metadata.deletion_timestamp.is_none() && !over
}

/// The place that keeps a pod's addresses, if they outlive the pod (A §6.1).
fn place_of(key: &ObjectKey, pod: &PodObject) -> Option<Place> {
    let owner = controller_of(&pod.metadata)?;
    let namespace = key.namespace().unwrap_or_default();
    let of_owner = || Arc::from(format!("{namespace}/{}", owner.name));
    match (owner.api_version.as_str(), owner.kind.as_str()) {
        ("apps/v1", "StatefulSet") => {
            let ordinal = key.name().rsplit_once('-')?.1.parse().ok()?;
            Some(Place::Ordinal(of_owner(), ordinal))
        }
        (kubevirt::API_VERSION, "VirtualMachineInstance") => Some(Place::Vm(of_owner())),
        _ => None,
    }
}
