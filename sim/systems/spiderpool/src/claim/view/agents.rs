//! The state of each process: what its watches have shown it, its open requests and its pending writes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use kube_machinery::{FxHashMap, ObjectKey};
use kube_sim::rt::ProcessId;
use sim_config::time::SimTime;

use super::Said;
use crate::workload::{InOrder, Refusal};

/// A type for which the view tracks what each process was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(in super::super) enum Shown {
    /// Pods, from which agents learn who is alive and whose addresses outlive the pod (A §7.2).
    Pods,
    /// IPPools, with the rules and ranges that selection uses.
    Pools,
    /// SpiderReservedIPs, whose addresses agents do not allocate (A §5.4).
    Reservations,
    /// Namespaces, whose labels and annotations selection uses.
    Namespaces,
    /// Nodes, for the rules of selection and for reclaim's decisions about their readiness.
    Nodes,
}

/// For each type, the revision up to which a process was shown everything; 0 = the state at the beginning of the run.
pub(in super::super) type ShownUpTo = [u64; 5];

/// A live read of a pool.
#[derive(Clone, Copy, Debug)]
struct Get {
    /// The revision up to which the process had been shown the reservations when it sent the request.
    reservations: u64,
    /// The revision of the pool when the response came.
    answered: Option<u64>,
}

/// An attempt to get an address from a pool.
#[derive(Clone, Debug)]
pub(in super::super) struct Tried {
    /// The NIC as selection names it: its index in nameless mode (A §2.4).
    pub(in super::super) nic: Arc<str>,
    /// The name of the pool, which need not exist.
    pub(in super::super) pool: Arc<str>,
    /// The address that was recorded, or the reason why there is none.
    pub(in super::super) outcome: Result<IpAddr, Refusal>,
}

/// A request for addresses that is not answered yet.
#[derive(Clone, Debug)]
pub(in super::super) struct Asked {
    /// The ID of the sandbox; with the NIC it matches the answer to the request.
    pub(in super::super) container: Arc<str>,
    /// The NIC of the request, whose answer may contain addresses of other NICs as well (A §2.4).
    pub(in super::super) nic: Arc<str>,
    /// The UID in the request; other requests for the same pod may be open.
    pub(in super::super) uid: Arc<str>,
    /// The agent that received it, and the time.
    pub(in super::super) began: Said,
    /// For each selection, its moment and the pools in the order in which they are to be tried.
    orders: Vec<(u64, Arc<[InOrder]>)>,
    /// Whether the last selection agreed with the rules.
    pub(in super::super) agreed: bool,
    /// The pools that were tried, in order.
    pub(in super::super) tried: Vec<Tried>,
}

impl Asked {
    /// The pools of the last selection, in the order in which they are to be tried.
    pub(in super::super) fn order(&self) -> &[InOrder] {
        self.orders.last().map_or(&[], |(_, order)| order)
    }

    /// An owned copy of [`order`](Self::order).
    pub(super) fn last_order(&self) -> Arc<[InOrder]> {
        self.orders.last().map_or_else(|| [].into(), |(_, order)| order.clone())
    }

    /// The [`order`](Self::order) at a moment; `None` = nothing was selected yet.
    pub(in super::super) fn order_at(&self, moment: u64) -> Option<&[InOrder]> {
        self.orders.iter().rev().find(|(selected, _)| *selected <= moment).map(|(_, order)| &**order)
    }
}

/// The known state of a process.
#[derive(Debug, Default)]
struct Process {
    is_agent: bool,
    /// For each type, the revision up to which its watches have told it everything; 0 = the state at the beginning of the run.
    shown: ShownUpTo,
    /// For each type, the first change that a watch cache may have withheld from it in its present life.
    missing: [Option<u64>; 5],
    gets: FxHashMap<ObjectKey, Vec<Get>>,
    asked: Vec<Asked>,
    /// For each pod, the least that an ADD for it can have been shown, among the open ones and the last one that ended.
    shown_to_adds: FxHashMap<Arc<str>, ShownUpTo>,
    /// The requests that wait for pools, and the times since which they do.
    waiting: BTreeMap<u64, SimTime>,
    /// The pools to which it has sent a write that may still be carried out, once per write.
    writing: Vec<(ObjectKey, u64)>,
}

/// All processes that were seen.
#[derive(Debug, Default)]
pub(in super::super) struct Agents {
    processes: BTreeMap<ProcessId, Process>,
    /// The processes that had sent a write to a pool before they crashed, and the moment of the crash. The write may still be carried out
    /// while the pool is unchanged (K070).
    left: FxHashMap<ObjectKey, Vec<(ProcessId, u64)>>,
    /// The changes that watch caches have lost and still lack (K182): the server, the type and the revision.
    lost_changes: Vec<(ProcessId, Shown, u64)>,
}

impl Agents {
    /// Whether a process ever sent a note of an agent.
    pub(in super::super) fn is_agent(&self, process: ProcessId) -> bool {
        self.processes.get(&process).is_some_and(|process| process.is_agent)
    }

    /// The open requests of a process for a pod.
    pub(in super::super) fn asked<'a>(&'a self, process: ProcessId, uid: &'a str) -> impl Iterator<Item = &'a Asked> {
        self.processes.get(&process).into_iter().flat_map(|process| &process.asked).filter(move |asked| *asked.uid == *uid)
    }

    /// Whether any process has an open request for a pod.
    pub(in super::super) fn is_asked(&self, uid: &str) -> bool {
        self.processes.values().any(|process| process.asked.iter().any(|asked| *asked.uid == *uid))
    }

    /// The revision up to which a process was shown everything of a type.
    pub(in super::super) fn shown(&self, process: ProcessId, what: Shown) -> u64 {
        self.processes.get(&process).map_or(0, |process| process.shown[what as usize])
    }

    /// The revision up to which a process had been shown everything of a type before it was asked for addresses of a pod.
    pub(in super::super) fn shown_before_add(&self, process: ProcessId, uid: &str, what: Shown) -> u64 {
        self.processes.get(&process).and_then(|process| process.shown_to_adds.get(uid)).map_or(0, |shown| shown[what as usize])
    }

    /// Like [`shown_before_add`](Self::shown_before_add), or less if earlier requests are open for other pods that `also` accepts.
    pub(in super::super) fn shown_before_any_add(&self, process: ProcessId, uid: &str, also: impl Fn(&str) -> bool, what: Shown) -> u64 {
        let own = self.shown_before_add(process, uid, what);
        let Some(known) = self.processes.get(&process).filter(|_| own > 0) else { return own };
        let others = known.asked.iter().filter(|asked| *asked.uid != *uid && also(&asked.uid));
        let shown = others.filter_map(|asked| known.shown_to_adds.get(&asked.uid)).map(|shown| shown[what as usize]);
        shown.fold(own, u64::min)
    }

    /// For all types, the revisions up to which a process had been shown everything before it was asked for addresses of a pod.
    pub(in super::super) fn all_shown_before_add(&self, process: ProcessId, uid: &str) -> ShownUpTo {
        self.processes.get(&process).and_then(|process| process.shown_to_adds.get(uid)).copied().unwrap_or_default()
    }

    /// For each type, the least that any process can have been shown before it was asked for addresses of a pod, if that is less than
    /// `shown`.
    pub(in super::super) fn least_shown_for(&self, uid: &str, shown: &ShownUpTo) -> ShownUpTo {
        let served = self.processes.values().filter_map(|process| process.shown_to_adds.get(uid));
        served.fold(*shown, |least, shown| std::array::from_fn(|what| least[what].min(shown[what])))
    }

    /// For each type, the least that the ADDs of a process for some pods can have been shown; without such ADDs, what it has been shown
    /// now.
    pub(super) fn least_shown_to_adds(&self, process: ProcessId, is_one: impl Fn(&str) -> bool) -> ShownUpTo {
        let Some(process) = self.processes.get(&process) else { return ShownUpTo::default() };
        let mut least = process.shown;
        for (_, shown) in process.shown_to_adds.iter().filter(|(uid, _)| is_one(uid)) {
            least = std::array::from_fn(|what| least[what].min(shown[what]));
        }
        least
    }

    /// The requests that wait for pools: the agent, and the time since which it waits.
    pub(in super::super) fn waiting(&self) -> impl Iterator<Item = (ProcessId, SimTime)> {
        self.processes.iter().flat_map(|(id, process)| process.waiting.values().map(|since| (*id, *since)))
    }

    /// The revision up to which the writer of a pool had been shown the reservations when it asked for the version of the pool that it
    /// changed; `None` = its read was not seen.
    pub(super) fn reservations_behind(&mut self, process: ProcessId, pool: &ObjectKey, version: u64) -> Option<u64> {
        let gets = self.processes.get_mut(&process)?.gets.get_mut(pool)?;
        let of_this = gets.iter().filter(|get| get.answered == Some(version)).map(|get| get.reservations).min();
        gets.retain(|get| get.answered.is_none_or(|answered| answered >= version));
        of_this
    }

    fn of(&mut self, process: ProcessId) -> &mut Process {
        self.processes.entry(process).or_default()
    }

    /// Records that a watch of a process is at this revision. A change that the cache behind it has lost, and everything after it, does not
    /// count as shown.
    pub(super) fn show(&mut self, process: ProcessId, what: Shown, revision: u64) {
        let lost = self.lost_changes.iter().filter(|(_, of, _)| *of == what).map(|(.., revision)| *revision).min();
        let process = self.of(process);
        let missing = &mut process.missing[what as usize];
        *missing = [*missing, lost].into_iter().flatten().min();
        let sure = missing.map_or(revision, |missing| revision.min(missing.saturating_sub(1)));
        let shown = &mut process.shown[what as usize];
        *shown = sure.max(*shown);
    }

    /// Records that a watch cache lost a change. Clients that watch it or list from it are not told.
    pub(super) fn cache_loses(&mut self, server: ProcessId, what: Shown, revision: u64) {
        self.lost_changes.push((server, what, revision));
        for process in self.processes.values_mut() {
            process.missing[what as usize].get_or_insert(revision);
        }
    }

    /// Records that a watch cache is complete again. Clients that watched it before may still lack the change.
    pub(super) fn cache_has_all(&mut self, server: ProcessId, what: Shown) {
        self.lost_changes.retain(|(other, of, _)| (*other, *of) != (server, what));
    }

    /// Records that a process got a list, which may show an older state than an earlier watch did (K §3).
    pub(super) fn listed(&mut self, process: ProcessId, what: Shown) {
        self.of(process).shown[what as usize] = 0;
    }

    pub(super) fn gets(&mut self, process: ProcessId, pool: &ObjectKey) {
        let process = self.of(process);
        let get = Get { reservations: process.shown[Shown::Reservations as usize], answered: None };
        process.gets.entry(pool.clone()).or_default().push(get);
    }

    pub(super) fn got(&mut self, process: ProcessId, pool: &ObjectKey, version: u64) {
        let gets = self.of(process).gets.get_mut(pool);
        // It does not matter which of several reads the response belongs to: the least that was shown decides.
        if let Some(get) = gets.and_then(|gets| gets.iter_mut().find(|get| get.answered.is_none())) {
            get.answered = Some(version);
        }
    }

    pub(super) fn speaks(&mut self, process: ProcessId) {
        self.of(process).is_agent = true;
    }

    pub(super) fn add_begun(&mut self, container: &Arc<str>, nic: &Arc<str>, uid: &Arc<str>, began: Said) {
        let process = self.of(began.by);
        let shown = process.shown;
        let least = process.shown_to_adds.entry(uid.clone()).or_insert(shown);
        for (least, shown) in least.iter_mut().zip(shown) {
            *least = shown.min(*least);
        }
        process.asked.push(Asked {
            container: container.clone(),
            nic: nic.clone(),
            uid: uid.clone(),
            began,
            orders: Vec::new(),
            agreed: false,
            tried: Vec::new(),
        });
    }

    pub(super) fn selected(&mut self, said: Said, uid: &str, nic: &str, agreed: bool, order: &Arc<[InOrder]>) {
        for asked in self.of(said.by).asked.iter_mut().filter(|asked| *asked.uid == *uid && *asked.nic == *nic) {
            asked.orders.push((said.moment, order.clone()));
            asked.agreed = agreed;
        }
    }

    pub(super) fn tried(&mut self, process: ProcessId, uid: &str, tried: &Tried) {
        for asked in self.of(process).asked.iter_mut().filter(|asked| *asked.uid == *uid) {
            asked.tried.push(tried.clone());
        }
    }

    /// Removes and returns the request that is answered now.
    pub(super) fn add_ended(&mut self, process: ProcessId, container: &str, nic: &str) -> Option<Asked> {
        let process = self.of(process);
        let index = process.asked.iter().position(|asked| *asked.container == *container && *asked.nic == *nic)?;
        let asked = process.asked.swap_remove(index);
        // Its last write may still be in flight, so the next request inherits what this one was shown; the one after that does not.
        if asked.tried.is_empty() && process.asked.iter().all(|other| other.uid != asked.uid) {
            process.shown_to_adds.remove(&asked.uid);
        }
        Some(asked)
    }

    pub(super) fn queued(&mut self, process: ProcessId, ticket: u64, at: SimTime) {
        self.of(process).waiting.insert(ticket, at);
    }

    pub(super) fn unqueued(&mut self, process: ProcessId, ticket: u64) {
        self.of(process).waiting.remove(&ticket);
    }

    /// Records that a process sends a write of a pool.
    pub(super) fn writes(&mut self, said: Said, pool: &ObjectKey) {
        self.of(said.by).writing.push((pool.clone(), said.moment));
    }

    /// Records that a process learned the outcome of its write of a pool.
    pub(super) fn wrote(&mut self, process: ProcessId, pool: &ObjectKey) {
        let writing = &mut self.of(process).writing;
        if let Some(index) = writing.iter().position(|(other, _)| other == pool) {
            writing.swap_remove(index);
        }
    }

    /// The moment at which a process sent its first write of a pool whose outcome it does not know yet.
    pub(super) fn sent(&self, process: ProcessId, pool: &ObjectKey) -> Option<u64> {
        let writing = &self.processes.get(&process)?.writing;
        writing.iter().find(|(other, _)| other == pool).map(|(_, moment)| *moment)
    }

    /// Takes note of a write of a pool that is carried out. Returns the moment at which its sender crashed, if the write was certainly sent
    /// before that.
    pub(super) fn left_behind(&mut self, process: ProcessId, pool: &ObjectKey) -> Option<u64> {
        let left = self.left.remove(pool)?;
        let is_own = self.sent(process, pool).is_some();
        left.into_iter().filter(|(other, _)| *other == process && !is_own).map(|(_, lost)| lost).max()
    }

    /// Records that a process crashed. Its writes are still in flight.
    pub(super) fn lost(&mut self, said: Said) {
        if let Some(process) = self.processes.get_mut(&said.by) {
            for (pool, _) in process.writing.drain(..) {
                self.left.entry(pool).or_default().push((said.by, said.moment));
            }
            process.shown = ShownUpTo::default();
            process.missing = <[Option<u64>; 5]>::default();
            process.asked.clear();
            process.waiting.clear();
            for gets in process.gets.values_mut() {
                gets.retain(|get| get.answered.is_some());
            }
        }
    }
}
