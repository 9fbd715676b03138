//! The replicas of Spiderpool's controller: their leadership, the releases that they announced, and the state on which they can have
//! decided.

use std::sync::Arc;
use std::time::Duration;

use ipam_spiderpool::reclaim::{Releaser, Row, Target};
use jiff::Timestamp;
use kube_machinery::{FxHashMap, FxHashSet};
use kube_sim::rt::ProcessId;
use kube_sim::trace::ProcessChange;
use sim_config::time::SimTime;

use super::Said;

/// The maximum age of the reads that a replica's announcement is based on, by the replica's own time: some requests that are answered late.
const DECIDES_WITHIN: Duration = Duration::from_secs(60);

/// The maximum age of the read of a node: a few requests.
const JUDGES_WITHIN: Duration = Duration::from_secs(30);

/// The maximum time between a replica's request for a pod and the announcement based on it: as long as the response.
const READS_WITHIN: Duration = Duration::from_secs(5);

/// A release that a replica announced.
#[derive(Clone, Debug)]
pub(in super::super) struct Announced {
    /// The replica that announced it, and the time.
    pub(in super::super) said: Said,
    /// The trigger: a record or an endpoint that a scan found, or a deadline that has passed.
    pub(in super::super) by: Releaser,
    /// The name of the records and the endpoint: that of the pod, or of its VM.
    pub(in super::super) key: Arc<str>,
    /// The records to be removed, each only while it has the given UID.
    pub(in super::super) what: Arc<[Target]>,
    /// Whether the endpoint is deleted as well.
    pub(in super::super) endpoint: bool,
    /// The row of the decision tables on which the release is based (G §3).
    pub(in super::super) row: Row,
    /// The replica's wall clock at the announcement.
    pub(in super::super) clock: Timestamp,
    /// The revision up to which it had certainly been shown the nodes when it judged the pod or asked for the node.
    pub(in super::super) nodes: u64,
    /// The revision of the node when it asked the API server for it; [`u64::MAX`] = it did not ask.
    pub(in super::super) node: u64,
    /// The earliest moment of the state that it can know of the owner of the addresses: that of its request for the owner.
    pub(in super::super) decided: u64,
    /// The earliest time of the state that it can know of the pods: that of its request for one.
    pub(in super::super) read: SimTime,
}

impl Announced {
    /// Whether it includes a record.
    pub(in super::super) fn covers(&self, pool: &str, address: std::net::IpAddr, uid: &str) -> bool {
        self.what.iter().any(|target| *target.pool == *pool && target.ip == address && *target.uid == *uid)
    }
}

/// The pod of a record that is to be removed.
#[derive(Debug)]
pub(super) struct Whose {
    /// The name of the pod.
    pub(super) pod: Option<Arc<str>>,
    /// The StatefulSet or the VM that could keep the record.
    pub(super) owner: Option<Arc<str>>,
    /// The node of the pod.
    pub(super) node: Option<Arc<str>>,
}

/// A request for an owner.
#[derive(Clone, Copy, Debug)]
struct Read {
    moment: u64,
    /// The replica's own time, which stands still while the replica is paused.
    at: Duration,
}

/// A request for a node.
#[derive(Clone, Copy, Debug)]
struct NodeRead {
    read: Read,
    /// The revision up to which it had been shown all nodes by then.
    shown: u64,
    /// The revision of the node then; the response is no older.
    revision: u64,
}

/// The known state of a replica in its present life; only `stood` outlasts a crash.
#[derive(Debug, Default)]
struct Replica {
    /// The time since which it believes that it leads.
    leads: Option<SimTime>,
    /// The time since which it is paused.
    paused: Option<SimTime>,
    /// The total time for which it was paused.
    stood: Duration,
    /// Whether it has crashed and is not known to have started again.
    is_down: bool,
    /// Its recent requests for owners, by StatefulSet or VM.
    reads: FxHashMap<Arc<str>, Vec<Read>>,
    /// Its recent requests for pods, by pod.
    pod_reads: FxHashMap<Arc<str>, Vec<(Read, SimTime)>>,
    /// Its recent requests for nodes, by node.
    node_reads: FxHashMap<Arc<str>, Vec<NodeRead>>,
    /// The revision up to which it had been shown the nodes when it last judged each pod, by UID.
    judged: FxHashMap<Arc<str>, u64>,
    /// The moment of its last announcement of a release, by UID.
    last: FxHashMap<Arc<str>, u64>,
    /// The pods that it was shown since it started, and whether all their containers had ended by then.
    pods: FxHashMap<Arc<str>, bool>,
    /// The pods in its cache, according to what it was shown.
    cache: FxHashSet<Arc<str>>,
    /// The pods that its present watch has shown.
    streamed: FxHashSet<Arc<str>>,
    /// The times at which a list, or a stream that began with one, told it of the end of a pod that no watch had reported.
    missed: FxHashMap<Arc<str>, SimTime>,
}

impl Replica {
    /// The pods of an earlier cache that are not in its cache now, sorted by UID.
    fn lacks(&self, before: FxHashSet<Arc<str>>) -> Vec<Arc<str>> {
        let mut lacks: Vec<_> = before.into_iter().filter(|pod| !self.cache.contains(pod)).collect();
        lacks.sort_unstable();
        lacks
    }

    fn own_time(&self, at: SimTime) -> Duration {
        let stands = self.paused.map_or(Duration::ZERO, |since| at.since(since));
        at.since_start().saturating_sub(self.stood + stands)
    }
}

/// The replicas that were seen, and their announcements.
#[derive(Debug, Default)]
pub(in super::super) struct Replicas {
    by_process: FxHashMap<ProcessId, Replica>,
    /// The time of each process's last start, if that was seen; the others have run since the beginning.
    started: FxHashMap<ProcessId, SimTime>,
    /// The processes that are not replicas, so that each name is checked only once.
    others: FxHashSet<ProcessId>,
    by_key: FxHashMap<Arc<str>, Vec<Arc<Announced>>>,
    by_uid: FxHashMap<Arc<str>, Vec<Arc<Announced>>>,
    /// The time at which a replica dropped a pod of which nothing was left to trace, by UID.
    untraced: FxHashMap<Arc<str>, SimTime>,
    /// The replica that last found itself the leader, and the time.
    pub(in super::super) taken_over: Option<Said>,
    /// The times at which releases failed, by name.
    failed: FxHashMap<Arc<str>, Vec<SimTime>>,
    /// The times at which there was no room in the queue of the executors or in the database, by UID.
    full: FxHashMap<Arc<str>, Vec<SimTime>>,
    /// The pods that executors are working on: the replica, and the time since which it does.
    in_hand: FxHashMap<Arc<str>, (ProcessId, SimTime)>,
    /// The last time at which a release ended, or an executor was done with a pod.
    progress: SimTime,
    /// The duration of the longest scan so far.
    pub(in super::super) longest_scan: Duration,
}

fn count(times: Option<&Vec<SimTime>>, since: SimTime) -> u32 {
    times.map_or(0, |times| times.iter().filter(|at| **at >= since).count() as u32)
}

/// The prefix of the names of replicas.
pub(super) const NAME: &str = "spiderpool-controller-";

impl Replicas {
    /// Whether a process is a replica, by its notes or its name.
    pub(in super::super) fn is_one(&self, process: ProcessId) -> bool {
        self.by_process.contains_key(&process)
    }

    /// Like [`is_one`](Self::is_one) for a process whose name may not have been checked yet.
    pub(super) fn knows(&mut self, process: ProcessId, name: impl FnOnce() -> Arc<str>) -> bool {
        if self.is_one(process) {
            return true;
        }
        if self.others.contains(&process) {
            return false;
        }
        let is_one = name().starts_with(NAME);
        if is_one {
            self.by_process.entry(process).or_default();
        } else {
            self.others.insert(process);
        }
        is_one
    }

    /// The releases that any replica announced for a name, in order.
    pub(in super::super) fn for_key(&self, key: &str) -> &[Arc<Announced>] {
        self.by_key.get(key).map_or(&[], Vec::as_slice)
    }

    /// The releases that any replica announced for records of a pod, in order.
    pub(in super::super) fn for_uid(&self, uid: &str) -> &[Arc<Announced>] {
        self.by_uid.get(uid).map_or(&[], Vec::as_slice)
    }

    /// The last announcement of a replica about a record.
    pub(in super::super) fn announced(&self, by: ProcessId, pool: &str, address: std::net::IpAddr, uid: &str) -> Option<&Arc<Announced>> {
        self.for_uid(uid).iter().rev().find(|announced| announced.said.by == by && announced.covers(pool, address, uid))
    }

    /// The last announcement of a replica about the endpoint of a name.
    pub(in super::super) fn announced_endpoint(&self, by: ProcessId, key: &str) -> Option<&Arc<Announced>> {
        self.for_key(key).iter().rev().find(|announced| announced.said.by == by && announced.endpoint)
    }

    /// The time since which a running replica has led and believes it; `None` = none does.
    pub(in super::super) fn led_since(&self) -> Option<SimTime> {
        let running = self.by_process.values().filter(|replica| !replica.is_down && replica.paused.is_none());
        running.filter_map(|replica| replica.leads).min()
    }

    /// The time at which a process began its present life.
    pub(super) fn started(&self, process: ProcessId) -> SimTime {
        self.started.get(&process).copied().unwrap_or(SimTime::ZERO)
    }

    /// The replicas that run, as far as known.
    pub(super) fn running(&self) -> impl Iterator<Item = ProcessId> {
        self.by_process.iter().filter(|(_, replica)| !replica.is_down).map(|(process, _)| *process)
    }

    /// Whether a replica is paused.
    pub(in super::super) fn is_standing(&self, process: ProcessId) -> bool {
        self.by_process.get(&process).is_some_and(|replica| replica.paused.is_some())
    }

    /// Whether a replica was shown a pod since it started, so that it knows the pod's grace period.
    pub(in super::super) fn knows_pod(&self, process: ProcessId, uid: &str) -> bool {
        self.by_process.get(&process).is_some_and(|replica| replica.pods.contains_key(uid))
    }

    /// Records that a watch shows a replica a pod, and whether all its containers have ended.
    pub(super) fn is_shown(&mut self, process: ProcessId, pod: Arc<str>, has_stopped: bool) {
        let Some(replica) = self.by_process.get_mut(&process) else { return };
        *replica.pods.entry(pod.clone()).or_default() |= has_stopped;
        replica.cache.insert(pod.clone());
        replica.streamed.insert(pod);
    }

    /// Records that a watch shows a replica the end of a pod.
    pub(super) fn is_shown_gone(&mut self, process: ProcessId, pod: &str) {
        let Some(replica) = self.by_process.get_mut(&process) else { return };
        replica.cache.remove(pod);
    }

    /// Records that a replica begins to watch pods.
    pub(super) fn watches(&mut self, process: ProcessId) {
        if let Some(replica) = self.by_process.get_mut(&process) {
            replica.streamed.clear();
        }
    }

    /// Records that a list shows a replica these pods, and whether all their containers have ended. Returns the pods of its cache that are
    /// not among them.
    pub(super) fn listed(&mut self, process: ProcessId, pods: impl Iterator<Item = (Arc<str>, bool)>) -> Vec<Arc<str>> {
        let Some(replica) = self.by_process.get_mut(&process) else { return Vec::new() };
        let before = std::mem::take(&mut replica.cache);
        for (pod, has_stopped) in pods {
            *replica.pods.entry(pod.clone()).or_default() |= has_stopped;
            replica.cache.insert(pod);
        }
        replica.lacks(before)
    }

    /// Records that a stream has shown a replica all pods. Returns the pods of its cache that were not among them.
    pub(super) fn streamed(&mut self, process: ProcessId) -> Vec<Arc<str>> {
        let Some(replica) = self.by_process.get_mut(&process) else { return Vec::new() };
        let before = std::mem::replace(&mut replica.cache, replica.streamed.clone());
        replica.lacks(before)
    }

    /// Records that a replica learns of the end of a pod from its absence. For a pod that it knows as ended this is no news.
    pub(super) fn misses(&mut self, process: ProcessId, pod: &Arc<str>, at: SimTime) {
        let Some(replica) = self.by_process.get_mut(&process) else { return };
        if replica.pods.get(pod) == Some(&false) {
            replica.missed.entry(pod.clone()).or_insert(at);
        }
    }

    /// The time at which a list told a leading replica of the end of a pod that no watch had reported; `None` = no leading replica missed
    /// it.
    pub(in super::super) fn missed(&self, uid: &str) -> Option<SimTime> {
        let leading = self.by_process.values().filter(|replica| replica.leads.is_some());
        leading.filter_map(|replica| replica.missed.get(uid)).max().copied()
    }

    /// The number of failed releases under a name since a time.
    pub(in super::super) fn failures(&self, key: &str, since: SimTime) -> u32 {
        count(self.failed.get(key), since)
    }

    /// The number of times that there was no room for a pod since a time.
    pub(in super::super) fn fullness(&self, uid: &str, since: SimTime) -> u32 {
        count(self.full.get(uid), since)
    }

    /// The last time at which a release or a pod was finished, if this pod waits for an executor; `None` = it does not.
    pub(in super::super) fn progress_before(&self, uid: &str) -> Option<SimTime> {
        self.in_hand.contains_key(uid).then_some(self.progress)
    }

    /// Whether a replica believes that it leads.
    pub(in super::super) fn leads(&self, process: ProcessId) -> bool {
        self.by_process.get(&process).is_some_and(|replica| replica.leads.is_some())
    }

    /// Records that a replica asks for the owner of pods.
    pub(super) fn asks(&mut self, said: Said, owner: &str) {
        let Some(replica) = self.by_process.get_mut(&said.by) else { return };
        let now = replica.own_time(said.at);
        let read = Read { moment: said.moment, at: now };
        match replica.reads.get_mut(owner) {
            Some(reads) => {
                reads.retain(|read| read.at + DECIDES_WITHIN >= now);
                reads.push(read);
            }
            None => drop(replica.reads.insert(owner.into(), vec![read])),
        }
    }

    /// Records that a replica asks for a node at a revision, having been shown the nodes up to revision `shown`.
    pub(super) fn asks_for_node(&mut self, said: Said, node: &str, revision: u64, shown: u64) {
        let Some(replica) = self.by_process.get_mut(&said.by) else { return };
        let now = replica.own_time(said.at);
        let asked = NodeRead { read: Read { moment: said.moment, at: now }, shown, revision };
        match replica.node_reads.get_mut(node) {
            Some(reads) => {
                reads.retain(|asked| asked.read.at + JUDGES_WITHIN >= now);
                reads.push(asked);
            }
            None => drop(replica.node_reads.insert(node.into(), vec![asked])),
        }
    }

    /// Records that a replica asks for a pod.
    pub(super) fn asks_for_pod(&mut self, said: Said, pod: &str) {
        let Some(replica) = self.by_process.get_mut(&said.by) else { return };
        let now = replica.own_time(said.at);
        let read = (Read { moment: said.moment, at: now }, said.at);
        match replica.pod_reads.get_mut(pod) {
            Some(reads) => {
                reads.retain(|(read, _)| read.at + READS_WITHIN >= now);
                reads.push(read);
            }
            None => drop(replica.pod_reads.insert(pod.into(), vec![read])),
        }
    }

    pub(super) fn fails(&mut self, key: &Arc<str>, at: SimTime) {
        self.failed.entry(key.clone()).or_default().push(at);
    }

    pub(super) fn finds_no_room(&mut self, uid: &Arc<str>, at: SimTime) {
        self.full.entry(uid.clone()).or_default().push(at);
        self.in_hand.remove(uid);
    }

    pub(super) fn takes_in_hand(&mut self, said: Said, uid: &Arc<str>) {
        self.in_hand.entry(uid.clone()).or_insert((said.by, said.at));
    }

    pub(super) fn is_done_with(&mut self, uid: &str, at: SimTime) {
        self.progress = at;
        self.in_hand.remove(uid);
    }

    /// Records that a replica has taken a pod into its database, and traces it until it is done.
    pub(super) fn traces(&mut self, uid: &str) {
        self.untraced.remove(uid);
    }

    /// Records that a replica has dropped a pod of which nothing was left to trace.
    pub(super) fn ends_tracing(&mut self, uid: &Arc<str>, at: SimTime) {
        self.untraced.insert(uid.clone(), at);
    }

    /// The time since which nothing was left to trace of a pod; `None` = it is traced, or never was.
    pub(in super::super) fn untraced_since(&self, uid: &str) -> Option<SimTime> {
        self.untraced.get(uid).copied()
    }

    pub(super) fn comes_to_an_end(&mut self, at: SimTime) {
        self.progress = at;
    }

    pub(super) fn speaks(&mut self, process: ProcessId) {
        self.by_process.entry(process).or_default();
    }

    pub(super) fn leads_now(&mut self, said: Said, leads: bool) {
        self.others.remove(&said.by);
        self.by_process.entry(said.by).or_default().leads = leads.then_some(said.at);
        if leads {
            self.taken_over = Some(said);
        }
    }

    /// Records that a replica judged a pod, having been shown the nodes up to a revision.
    pub(super) fn judged(&mut self, by: ProcessId, uid: &Arc<str>, nodes: u64) {
        self.by_process.entry(by).or_default().judged.insert(uid.clone(), nodes);
    }

    /// Records that a replica announces a release, having been shown the nodes up to revision `shown`. `whose`: the pod of each record.
    pub(super) fn announces(&mut self, mut announced: Announced, shown: u64, whose: &[Whose]) {
        let Said { by, at, moment } = announced.said;
        self.others.remove(&by);
        let replica = self.by_process.entry(by).or_default();
        let now = replica.own_time(at);
        announced.nodes = shown;
        announced.decided = moment;
        for (target, Whose { pod, owner, node }) in announced.what.iter().zip(whose) {
            let pod_reads = pod.as_ref().and_then(|pod| replica.pod_reads.get(pod)).into_iter().flatten();
            let read = pod_reads.filter(|(read, _)| read.at + READS_WITHIN >= now).map(|(_, at)| *at).min();
            announced.read = announced.read.min(read.unwrap_or(at));
            let node_reads = node.as_ref().and_then(|node| replica.node_reads.get(node)).into_iter().flatten();
            for asked in node_reads.filter(|asked| asked.read.at + JUDGES_WITHIN >= now) {
                announced.nodes = announced.nodes.min(asked.shown);
                announced.node = announced.node.min(asked.revision);
            }
            announced.nodes = announced.nodes.min(replica.judged.get(&target.uid).copied().unwrap_or(shown));
            let before = replica.last.get(&target.uid).copied().unwrap_or(0);
            let reads = owner.as_ref().and_then(|owner| replica.reads.get(owner)).into_iter().flatten();
            let asked = reads.filter(|read| read.moment > before && read.at + DECIDES_WITHIN >= now).map(|read| read.moment).min();
            announced.decided = announced.decided.min(asked.unwrap_or(moment));
        }
        for target in announced.what.iter() {
            replica.last.insert(target.uid.clone(), moment);
        }
        let announced = Arc::new(announced);
        self.by_key.entry(announced.key.clone()).or_default().push(announced.clone());
        for (number, target) in announced.what.iter().enumerate() {
            if announced.what[..number].iter().all(|other| other.uid != target.uid) {
                self.by_uid.entry(target.uid.clone()).or_default().push(announced.clone());
            }
        }
    }

    pub(super) fn changes(&mut self, process: ProcessId, change: ProcessChange, at: SimTime) {
        if change == ProcessChange::Started {
            self.started.insert(process, at);
        }
        let Some(replica) = self.by_process.get_mut(&process) else { return };
        match change {
            ProcessChange::Started => replica.is_down = false,
            ProcessChange::Crashed | ProcessChange::Panicked => {
                *replica = Replica { is_down: true, stood: replica.stood, ..Replica::default() };
                self.in_hand.retain(|_, (by, _)| *by != process);
            }
            ProcessChange::Paused => replica.paused = Some(at),
            ProcessChange::Resumed => {
                replica.stood += replica.paused.take().map_or(Duration::ZERO, |since| at.since(since));
            }
        }
    }
}
