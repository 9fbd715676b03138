//! The state on which addresses of a place's pods were decided, and whether it can have changed.

use ipam_spiderpool::SpiderIPPool;
use ipam_spiderpool::names::{LABEL_IPPOOL_RECLAIM, LABEL_OWNER_APPLICATION_UID};
use kube_sim::rt::ProcessId;

use super::View;
use super::agents::{Shown, ShownUpTo};
use super::applications::label;
use super::ledger::Answer;
use super::pods::{Place, Pod};
use super::wishes::wishes_still;

/// Whether an auto pool belongs to another incarnation of the pod's workload, so that the pod may not use it (A §2.2, §8.5). Such a pool
/// may stay unchanged for a while if the controller that has to delete it is down.
fn is_of_another_incarnation(pool: &SpiderIPPool, pod: &Pod) -> bool {
    let mut owners = pod.object.metadata.owner_references.iter().flatten();
    let of = label(pool, LABEL_OWNER_APPLICATION_UID).filter(|_| label(pool, LABEL_IPPOOL_RECLAIM) == Some("true"));
    // The StatefulSet controller creates its pods directly; pods of other workloads have no place whose addresses they might keep.
    let of_set = matches!(pod.place, Some(Place::Ordinal(..)));
    of_set && of.zip(owners.find(|owner| owner.controller == Some(true))).is_some_and(|(uid, owner)| owner.uid != uid)
}

impl View {
    /// The revisions up to which an agent has certainly been shown the state that decides for the pods with the place or the name of this
    /// one.
    pub(in super::super) fn shown_for_place_of(&self, by: ProcessId, pod: &Pod) -> ShownUpTo {
        let is_one = |other: &Pod| other.key == pod.key || (pod.place.is_some() && other.place == pod.place);
        self.agents.least_shown_to_adds(by, |uid| self.pods.get(uid).is_some_and(is_one))
    }

    /// Whether the state that decides about the addresses of a place can have changed between `answer` and a decision for `pod` by an agent
    /// that had been shown `later`, as far as both had certainly been shown it: the rules of the pool, whether it has the address and it is
    /// not reserved, the namespace, the node, the wishes, the settings. If so, another address for `pod` may be correct.
    ///
    /// Nothing is certain between a list and the first event of its watch: a change, or a bookmark within a minute (K §3). For addresses
    /// that a VM brought along when it migrated, the answer to its first pod is the one that counts.
    pub(in super::super) fn may_have_changed(&self, answer: &Answer, pod: &Pod, later: &ShownUpTo) -> bool {
        self.may_have_changed_since(answer, pod, later)
            || self.brought_along(answer).is_some_and(|earlier| self.may_have_changed(earlier, pod, later))
    }

    fn may_have_changed_since(&self, answer: &Answer, pod: &Pod, later: &ShownUpTo) -> bool {
        let shown = |what: Shown| answer.basis.shown[what as usize].min(later[what as usize]);
        let Some(pool) = self.pools.get(&answer.given.pool) else { return true };
        let Some(predecessor) = self.pods.get(&answer.uid) else { return true };
        let namespace = pod.key.split_once('/').map_or("", |(namespace, _)| namespace);
        let looks_at_nodes = pool.looks_at_nodes() || self.terms.match_master_subnet;
        let other_node = looks_at_nodes && predecessor.node() != pod.node();
        pool.changed > shown(Shown::Pools)
            || pool.may_have_lacked(answer.given.address, shown(Shown::Pools))
            || self.reservations.may_have_held(answer.given.address, shown(Shown::Reservations))
            || self.changes.of_namespace(namespace) > shown(Shown::Namespaces)
            || pod.node().is_some_and(|node| pool.looks_at_nodes() && self.changes.of_node(node) > shown(Shown::Nodes))
            || other_node
            || !wishes_still(pod, predecessor, answer, pool)
            || is_of_another_incarnation(&pool.object, pod)
            || self.terms.may_select_otherwise(answer.said.at, self.at)
    }

    /// The earlier answer with the same address to another pod of the VM, if one ran beside this one. During a live migration the second
    /// pod gets the addresses of the first, whatever the rules say by then (A S10). The first may be gone when the second is answered.
    fn brought_along(&self, answer: &Answer) -> Option<&Answer> {
        let pod = self.pods.get(&answer.uid).filter(|_| answer.basis.beside)?;
        let is_same = |other: &&Answer| other.is_for_same(&answer.given) && other.given.address == answer.given.address;
        let others = self.pods.of_same_name(pod).filter(|(uid, _)| **uid != answer.uid);
        let answers = others.flat_map(|(uid, _)| self.ledger.answers(uid).iter().filter(is_same));
        answers.filter(|other| other.said.moment < answer.said.moment).max_by_key(|other| other.said.moment)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ipam_spiderpool::ipam::Cause;
    use sim_config::time::SimTime;

    use super::super::super::Terms;
    use super::super::super::testing::on_stage_under;

    #[test]
    fn what_was_given_under_other_settings_may_go() {
        for after in [5, 20] {
            let switch = |terms: &mut Terms| {
                [(0, true), (10, false)].into_iter().for_each(|(at, on)| terms.switch_ipv6(SimTime::from_secs(at), on));
            };
            on_stage_under("records-leave-only-for-their-own-uid", switch, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
                stage.stateful_set("ns/web", 3);
                stage.static_pod("ns/web-0", "a");
                stage.add("ns/web-0", "a", &[("eth0", "p", "10.0.0.1")]);
                stage.pass(Duration::from_secs(after));
                stage.release("ns/web-0", "a", Cause::PoolChange, &[("p", "10.0.0.1")]);
                assert_eq!(stage.excuses().is_empty(), after > 10, "after {after} s");
            });
        }
    }
}
