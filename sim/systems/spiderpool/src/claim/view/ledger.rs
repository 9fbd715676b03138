//! The ledger: the addresses that each pod was answered with and gave back, and those that each place had before.

use std::net::IpAddr;
use std::sync::Arc;

use kube_machinery::FxHashMap;
use sim_config::time::SimTime;

use super::Said;
use super::agents::{ShownUpTo, Tried};
use super::endpoints::Written;
use super::pods::Pod;
use super::pools::PoolChange;
use crate::workload::{Cause, Given, InOrder, Refusal};

/// An address that an ADD was answered with.
#[derive(Clone, Debug)]
pub(in super::super) struct Answer {
    /// The NIC, the pool and the address in the answer.
    pub(in super::super) given: Given,
    /// The index of its entry in the endpoint, which identifies a NIC that has no name yet (A §2.4).
    pub(in super::super) place: usize,
    /// The UID in the request that was answered, even if a successor with the same name has the address by now.
    pub(in super::super) uid: Arc<str>,
    /// The agent, and the time.
    pub(in super::super) said: Said,
    /// The state on which it was decided.
    pub(in super::super) basis: Basis,
}

/// The state on which an answer was decided.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Basis {
    /// The moment at which the request began.
    pub(in super::super) began: u64,
    /// Whether another pod of the pod's VM may have run when the address was recorded for this one, or answered if that was not seen.
    pub(in super::super) beside: bool,
    /// The revisions up to which the agent had certainly been shown everything then, or when an earlier request recorded the addresses of
    /// this answer for the pod.
    pub(in super::super) shown: ShownUpTo,
    /// The write of the endpoint that names the answered addresses.
    pub(in super::super) endpoint: Option<Written>,
}

impl Answer {
    /// Whether it is for the same NIC and family.
    pub(in super::super) fn is_for_same(&self, other: &Given) -> bool {
        self.given.nic == other.nic && self.given.address.is_ipv4() == other.address.is_ipv4()
    }
}

/// A release that an agent announced.
#[derive(Clone, Debug)]
pub(in super::super) struct Release {
    /// The agent that announced it, and the time.
    pub(in super::super) said: Said,
    /// The reason for the release.
    pub(in super::super) cause: Cause,
    /// The pools and addresses.
    pub(in super::super) what: Arc<[(Arc<str>, IpAddr)]>,
    /// The moment at which it ended, if it has.
    pub(in super::super) ended: Option<u64>,
    /// Whether it is known to have succeeded.
    pub(in super::super) ok: bool,
}

impl Release {
    /// Whether it includes an address of a pool.
    pub(in super::super) fn covers(&self, pool: &str, address: IpAddr) -> bool {
        self.what.iter().any(|(other, taken)| **other == *pool && *taken == address)
    }
}

/// The indices of the entries that the addresses of an answer belong to. An entry has at most one address per family, that of IPv4 first.
fn places(given: &[Given]) -> impl Iterator<Item = usize> {
    let (mut place, mut before) = (0, None::<&Given>);
    given.iter().map(move |given| {
        let is_second = |before: &Given| before.nic == given.nic && before.address.is_ipv4() && given.address.is_ipv6();
        place += usize::from(before.is_some_and(|before| !is_second(before)));
        before = Some(given);
        place
    })
}

/// The outcome of the last request for a pod.
#[derive(Clone, Debug)]
pub(in super::super) struct Last {
    /// The NIC that it was for.
    pub(in super::super) nic: Arc<str>,
    /// The reason why there was no address, if there was none.
    pub(in super::super) refusal: Option<Refusal>,
    /// Whether the selection of pools agreed with the rules.
    pub(in super::super) agreed: bool,
    /// The pools of the last selection, for each NIC and family.
    pub(in super::super) order: Arc<[InOrder]>,
    /// The pools that were tried.
    pub(in super::super) tried: Vec<Tried>,
    /// The NICs and pools for which the outcome of a write, or of its rollback, may be unknown, by this request and those before it since
    /// the last answer.
    pub(in super::super) doubts: Vec<(Arc<str>, Arc<str>)>,
    /// The time at which it began, if that was seen; otherwise the time at which it ended.
    pub(in super::super) began: SimTime,
    /// The agent that answered it, and the time.
    pub(in super::super) said: Said,
}

/// An address of a pool that an agent recorded for a pod.
#[derive(Debug)]
struct Recorded {
    pool: Arc<str>,
    address: IpAddr,
    /// What the agent had certainly been shown.
    shown: ShownUpTo,
    /// Whether another pod of the pod's VM may have run then.
    beside: bool,
}

impl Recorded {
    fn is_of(&self, pool: &str, address: IpAddr) -> bool {
        *self.pool == *pool && self.address == address
    }
}

/// Answers, releases and the last request of each pod by UID, and the last answers by static name.
#[derive(Debug, Default)]
pub(in super::super) struct Ledger {
    answers: FxHashMap<Arc<str>, Vec<Answer>>,
    /// The last answer for each NIC and family by static name, whichever pod it was for.
    kept: FxHashMap<Arc<str>, Vec<Answer>>,
    /// The addresses that agents last recorded for each UID.
    recorded: FxHashMap<Arc<str>, Vec<Recorded>>,
    releases: FxHashMap<Arc<str>, Vec<Release>>,
    last: FxHashMap<Arc<str>, Last>,
    /// The last request for each NIC of a pod, if it was refused.
    refused: FxHashMap<Arc<str>, Vec<Last>>,
}

impl Ledger {
    /// The addresses that a pod was answered with and has not given back.
    pub(in super::super) fn answers(&self, uid: &str) -> &[Answer] {
        self.answers.get(uid).map_or(&[], Vec::as_slice)
    }

    /// The last answers to the pods of a static name.
    pub(in super::super) fn kept(&self, name: &str) -> &[Answer] {
        self.kept.get(name).map_or(&[], Vec::as_slice)
    }

    /// The announced releases of a pod's addresses.
    pub(in super::super) fn releases(&self, uid: &str) -> &[Release] {
        self.releases.get(uid).map_or(&[], Vec::as_slice)
    }

    /// All announced releases of an address of a pool, with the UIDs. Linear: only for use after a violation was found.
    pub(in super::super) fn releases_of<'a>(&'a self, pool: &'a str, address: IpAddr) -> impl Iterator<Item = (&'a Arc<str>, &'a Release)> {
        let of = move |(uid, releases): (&'a Arc<str>, &'a Vec<Release>)| {
            releases.iter().filter(move |release| release.covers(pool, address)).map(move |release| (uid, release))
        };
        self.releases.iter().flat_map(of)
    }

    /// The outcome of the last request for a pod.
    pub(in super::super) fn last(&self, uid: &str) -> Option<&Last> {
        self.last.get(uid)
    }

    /// The last requests for the NICs of a pod that were refused.
    pub(in super::super) fn refused(&self, uid: &str) -> &[Last] {
        self.refused.get(uid).map_or(&[], Vec::as_slice)
    }

    pub(super) fn answered(&mut self, uid: &Arc<str>, pod: Option<&Pod>, given: &[Given], said: Said, basis: Basis) {
        let recorded = self.recorded.get(uid).map_or(&[][..], Vec::as_slice);
        let put = |answers: &mut Vec<Answer>, (given, place): (&Given, usize)| {
            // The ADD of one NIC takes over for all NICs, and what is recorded is answered whatever the rules say by then (A §5.4, §6.3).
            let then = recorded.iter().find(|recorded| recorded.is_of(&given.pool, given.address));
            let basis = then.map_or(basis, |then| {
                let shown = std::array::from_fn(|what| basis.shown[what].min(then.shown[what]));
                Basis { beside: then.beside, shown, ..basis }
            });
            let answer = Answer { given: given.clone(), place, uid: uid.clone(), said, basis };
            match answers.iter_mut().find(|answer| answer.is_for_same(given)) {
                // A repeated request for the same addresses keeps the earlier answer.
                Some(known) if known.given == *given && known.uid == *uid => known.place = place,
                Some(known) => *known = answer,
                None => answers.push(answer),
            }
        };
        let answers = self.answers.entry(uid.clone()).or_default();
        given.iter().zip(places(given)).for_each(|given| put(answers, given));
        if let Some(name) = pod.and_then(Pod::static_name) {
            let kept = self.kept.entry(name.clone()).or_default();
            given.iter().zip(places(given)).for_each(|given| put(kept, given));
        }
    }

    /// Takes in a write of a pool by an agent; `shown`: what the agent had certainly been shown before its ADD for a pod; `beside`: whether
    /// another pod of a pod's VM may have run during the ADD.
    pub(super) fn see_pool(&mut self, change: &PoolChange, shown: impl Fn(&str) -> ShownUpTo, beside: impl Fn(&str) -> bool) {
        for (address, record) in change.edits.iter().filter_map(|edit| edit.given()) {
            let of_pod = self.recorded.entry(record.pod_uid.as_str().into()).or_default();
            of_pod.retain(|recorded| !recorded.is_of(&change.pool, address));
            of_pod.push(Recorded { pool: change.pool.clone(), address, shown: shown(&record.pod_uid), beside: beside(&record.pod_uid) });
        }
    }

    pub(super) fn ended(&mut self, uid: &Arc<str>, mut last: Last) {
        if let Some(refused) = self.refused.get_mut(uid) {
            refused.retain(|refused| refused.nic != last.nic);
        }
        if last.refusal.is_some() {
            self.refused.entry(uid.clone()).or_default().push(last.clone());
            let before = self.last.remove(uid).map(|before| before.doubts).unwrap_or_default();
            let releases = self.releases.get(uid).map_or(&[][..], Vec::as_slice);
            let is_kept = |pool: &str, address| {
                releases.iter().rev().find(|release| release.covers(pool, address)).is_some_and(|release| !release.ok)
            };
            let is_in_doubt = |tried: &&Tried| match &tried.outcome {
                Ok(address) => is_kept(&tried.pool, *address),
                Err(refusal) => *refusal == Refusal::Api,
            };
            let failed = last.tried.iter().filter(is_in_doubt);
            last.doubts = before.into_iter().chain(failed.map(|tried| (tried.nic.clone(), tried.pool.clone()))).collect();
        }
        self.last.insert(uid.clone(), last);
    }

    pub(super) fn release_begun(&mut self, uid: &Arc<str>, release: Release) {
        if let Some(answers) = self.answers.get_mut(uid) {
            answers.retain(|answer| !release.covers(&answer.given.pool, answer.given.address));
        }
        self.releases.entry(uid.clone()).or_default().push(release);
    }

    pub(super) fn release_ended(&mut self, uid: &str, cause: Cause, ok: bool, said: Said) {
        let releases = self.releases.get_mut(uid).into_iter().flatten();
        let mut own = releases.filter(|release| release.said.by == said.by && release.cause == cause && release.ended.is_none());
        if let Some(release) = own.next() {
            (release.ended, release.ok) = (Some(said.moment), ok);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_nic_of_an_answer_has_a_place_though_it_has_no_name() {
        let places_of = |given: &[(&str, &str)]| {
            let of = |(nic, address): &(&str, &str)| Given {
                nic: (*nic).into(),
                pool: "p".into(),
                address: address.parse().unwrap(),
                gateway: None,
            };
            places(&given.iter().map(of).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        let dual = [("eth0", "10.0.0.1"), ("eth0", "fd00::1"), ("", "10.0.0.2"), ("", "fd00::2"), ("", "10.0.0.3"), ("", "fd00::3")];
        assert_eq!(places_of(&dual), [0, 0, 1, 1, 2, 2]);
        assert_eq!(places_of(&[("eth0", "10.0.0.1"), ("", "10.0.0.2"), ("", "10.0.0.3")]), [0, 1, 2]);
        assert_eq!(places_of(&[("eth0", "10.0.0.1"), ("net1", "fd00::1"), ("", "fd00::2"), ("", "fd00::3")]), [0, 1, 2, 3]);
    }
}
