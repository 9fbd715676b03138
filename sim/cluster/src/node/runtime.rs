//! The container runtime of a node: its sandboxes, as kept on disk, and the DELs that it still owes.
//!
//! It survives the crash of the kubelet and a reboot; the network namespaces survive only the former (K §5.5).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use kube_machinery::ObjectKey;
use parking_lot::Mutex;
use sim_config::time::SimTime;
use tokio::sync::mpsc;

use super::PodNote;
use super::cni::Attachment;
use super::cni_fault::{CniFault, InjectedCniFault};
use crate::cluster::Cluster;
use crate::rt::{HostId, ProcessId};
use crate::trace::{EventKind, FaultChange};

/// The number of a sandbox on its node, in the order of creation.
pub type SandboxNumber = u64;

/// The state of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxState {
    /// Its network is being set up.
    Creating,
    /// The kubelet has given it up, and ADD may still be in progress (K §5.1).
    Late,
    /// It has its network.
    Ready,
    /// Its container is dead.
    Dead,
}

/// A sandbox as recorded on disk.
#[derive(Clone, Debug)]
pub struct Sandbox {
    /// The container ID: unique in a run.
    pub id: Arc<str>,
    /// Namespace and name of the pod that it was made for.
    pub pod: ObjectKey,
    /// The UID of that pod; all sandboxes that are made for it have the same (K131).
    pub pod_uid: Arc<str>,
    /// Its interfaces; none with host network.
    pub nics: Arc<[Arc<str>]>,
    /// The state of the sandbox.
    pub state: SandboxState,
    /// Whether its network namespace exists.
    pub netns: bool,
    /// Whether the runtime has recorded the result of a whole ADD. Without one it ignores a failure of DEL (K §5.3).
    pub added: bool,
    /// The interface for which ADD is in progress.
    pub adding: Option<usize>,
    /// The addresses on which it answers, each with the position of its interface.
    pub addresses: Vec<(usize, IpAddr)>,
    /// Whether its containers run.
    pub started: bool,
    /// The time at which its containers end without being stopped.
    pub exits_at: SimTime,
}

impl Sandbox {
    /// A sandbox that is being created for a pod: its network namespace exists, and no ADD has begun.
    pub fn new(id: Arc<str>, pod: ObjectKey, pod_uid: Arc<str>, nics: Arc<[Arc<str>]>) -> Self {
        Self {
            id,
            pod,
            pod_uid,
            nics,
            state: SandboxState::Creating,
            netns: true,
            added: false,
            adding: None,
            addresses: Vec::new(),
            started: false,
            exits_at: SimTime::NEVER,
        }
    }

    /// The plugin's arguments for one of its interfaces.
    pub fn attachment(&self, nic: &Arc<str>) -> Attachment {
        let Sandbox { id, pod, pod_uid, netns, .. } = self;
        Attachment { container: id.clone(), nic: nic.clone(), pod: pod.clone(), pod_uid: pod_uid.clone(), netns: *netns }
    }

    /// Its addresses, in the order of its interfaces.
    pub fn ips(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().map(|&(_, address)| address)
    }
}

/// A DEL that is still to come although the sandbox is forgotten.
#[derive(Clone, Debug)]
pub struct Owed {
    /// The attachments of one sandbox, handled one after the other.
    pub attachments: Vec<Attachment>,
    /// The number of times that all of these DELs have yet to succeed.
    pub times: u32,
    /// The time from one success until the next time is due; failures are retried after [`GC_EVERY`].
    pub every: Duration,
}

/// The interval of the garbage collection of sandboxes, which also retries failures (K §5.8).
pub const GC_EVERY: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct Disk {
    sandboxes: BTreeMap<SandboxNumber, Sandbox>,
    next: SandboxNumber,
    /// The UIDs of pods whose containers ended and do not start again, and whether with an error: these records outlive their sandboxes.
    ended: BTreeMap<Arc<str>, bool>,
    /// The owed DELs by time; the number distinguishes those due at the same time.
    owed: BTreeMap<(SimTime, u64), Owed>,
}

/// The permission to register the Node.
#[derive(Debug, Default)]
struct Registration {
    /// The number of faults that prevent it.
    held: AtomicU32,
    /// Whether it was prevented, and is to be made up for.
    wanted: AtomicBool,
}

/// The container runtime of one node.
#[derive(Debug)]
pub struct ContainerRuntime {
    pub(super) host: HostId,
    pub(super) kubelet: ProcessId,
    node: Arc<str>,
    disk: Mutex<Disk>,
    cni_faults: Mutex<Vec<InjectedCniFault>>,
    registration: Registration,
    /// The channel to the running kubelet for the UIDs of pods whose sandbox died.
    events: Mutex<Option<mpsc::UnboundedSender<Arc<str>>>>,
}

impl ContainerRuntime {
    /// A runtime without sandboxes, on the host of `kubelet`, whose Node is called `node`.
    pub fn new(cluster: &Cluster, kubelet: ProcessId, node: &Arc<str>) -> Self {
        let (host, node) = (cluster.rt.host_of(kubelet), node.clone());
        Self {
            host,
            kubelet,
            node,
            disk: Mutex::default(),
            cni_faults: Mutex::default(),
            registration: Registration::default(),
            events: Mutex::default(),
        }
    }

    /// The kubelet that uses it.
    pub fn kubelet(&self) -> ProcessId {
        self.kubelet
    }

    /// The name of its Node.
    pub fn node(&self) -> &Arc<str> {
        &self.node
    }

    /// Its sandboxes, in the order in which they were made.
    pub fn sandboxes(&self) -> Vec<Sandbox> {
        self.disk.lock().sandboxes.values().cloned().collect()
    }

    /// The number of DELs of forgotten sandboxes that are still to come.
    pub fn owes(&self) -> usize {
        self.disk.lock().owed.len()
    }

    fn say(&self, cluster: &Cluster, told: PodNote) {
        cluster.note(self.kubelet, &told);
    }

    // ------------------------------------------------------------------------------------------------ its Node

    /// Keeps the kubelet from registering its deleted Node, until every hold has been released.
    pub fn hold_registration(&self) {
        self.registration.held.fetch_add(1, Ordering::Relaxed);
    }

    /// Releases one hold: the effect is that of a restart of the kubelet, which registers.
    pub fn release_registration(&self) {
        self.registration.held.fetch_sub(1, Ordering::Relaxed);
        self.registration.wanted.store(true, Ordering::Relaxed);
    }

    /// Whether a kubelet that starts registers its Node.
    pub fn registers(&self) -> bool {
        self.registration.held.load(Ordering::Relaxed) == 0
    }

    /// Whether a running kubelet has to register its Node if it is missing.
    pub fn wants_registration(&self) -> bool {
        self.registers() && self.registration.wanted.load(Ordering::Relaxed)
    }

    /// Notes that the Node exists.
    pub fn has_registered(&self) {
        self.registration.wanted.store(false, Ordering::Relaxed);
    }

    // ---------------------------------------------------------------------------------------------- for its kubelet

    /// Directs the events to a kubelet that has just started.
    pub fn listen(&self) -> mpsc::UnboundedReceiver<Arc<str>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.events.lock() = Some(sender);
        receiver
    }

    /// The numbers of its sandboxes by the UIDs of their pods.
    pub fn by_pod(&self) -> BTreeMap<Arc<str>, Vec<SandboxNumber>> {
        let mut pods: BTreeMap<Arc<str>, Vec<SandboxNumber>> = BTreeMap::new();
        for (&number, sandbox) in &self.disk.lock().sandboxes {
            pods.entry(sandbox.pod_uid.clone()).or_default().push(number);
        }
        pods
    }

    /// Adds a new sandbox.
    pub fn insert(&self, cluster: &Cluster, sandbox: Sandbox) -> SandboxNumber {
        let told = PodNote::SandboxStarted { sandbox: sandbox.id.clone(), pod: sandbox.pod.clone(), uid: sandbox.pod_uid.clone() };
        let number = {
            let mut disk = self.disk.lock();
            let number = disk.next;
            disk.next += 1;
            disk.sandboxes.insert(number, sandbox);
            number
        };
        self.say(cluster, told);
        number
    }

    /// The present state of a sandbox; `None` = it is forgotten.
    pub fn get(&self, number: SandboxNumber) -> Option<Sandbox> {
        self.disk.lock().sandboxes.get(&number).cloned()
    }

    /// Reads or changes a sandbox, if it exists.
    pub fn with<T>(&self, number: SandboxNumber, change: impl FnOnce(&mut Sandbox) -> T) -> Option<T> {
        self.disk.lock().sandboxes.get_mut(&number).map(change)
    }

    /// Gives an interface its addresses.
    pub fn attach(&self, cluster: &Cluster, number: SandboxNumber, position: usize, addresses: Vec<IpAddr>) {
        let told = self.with(number, |sandbox| {
            for &address in &addresses {
                sandbox.addresses.push((position, address));
                cluster.nodes.data_plane.attach(address, &sandbox.id);
            }
            PodNote::Attached { sandbox: sandbox.id.clone(), nic: sandbox.nics[position].clone(), addresses: addresses.into() }
        });
        if let Some(told) = told {
            self.say(cluster, told);
        }
    }

    /// Takes the addresses from an interface.
    pub fn detach(&self, cluster: &Cluster, number: SandboxNumber, position: usize) {
        self.with(number, |sandbox| {
            let Sandbox { id, addresses, .. } = sandbox;
            addresses.retain(|&(of, address)| {
                if of == position {
                    cluster.nodes.data_plane.detach(address, id);
                }
                of != position
            });
        });
    }

    /// Removes a sandbox and forgets it.
    pub fn remove(&self, cluster: &Cluster, number: SandboxNumber) {
        let removed = self.disk.lock().sandboxes.remove(&number);
        if let Some(mut sandbox) = removed {
            self.lose_network(cluster, &mut sandbox);
        }
    }

    fn lose_network(&self, cluster: &Cluster, sandbox: &mut Sandbox) {
        for (_, address) in std::mem::take(&mut sandbox.addresses) {
            cluster.nodes.data_plane.detach(address, &sandbox.id);
        }
        if std::mem::take(&mut sandbox.netns) {
            self.say(cluster, PodNote::SandboxGone { sandbox: sandbox.id.clone() });
        }
    }

    /// Records that the containers of a pod have ended and do not start again.
    pub fn set_ended(&self, uid: &Arc<str>, failed: bool) {
        self.disk.lock().ended.insert(uid.clone(), failed);
    }

    /// The final end of a pod's containers: `true` = with an error; `None` = they have not ended, or start again.
    pub fn ended(&self, uid: &str) -> Option<bool> {
        self.disk.lock().ended.get(uid).copied()
    }

    /// Forgets a pod that has ended.
    pub fn forget_ended(&self, uid: &str) {
        self.disk.lock().ended.remove(uid);
    }

    /// Owes a DEL from `at` on.
    pub fn owe(&self, at: SimTime, owed: Owed) {
        let mut disk = self.disk.lock();
        let number = disk.next;
        disk.next += 1;
        disk.owed.insert((at, number), owed);
    }

    /// The time at which the next owed DEL is due.
    pub fn next_owed(&self) -> Option<SimTime> {
        self.disk.lock().owed.first_key_value().map(|(&(at, _), _)| at)
    }

    /// The next owed DEL that is due by `now`. It stays owed until it is settled, for its kubelet may crash meanwhile: it is retried at the
    /// next garbage collection.
    pub fn take_owed(&self, now: SimTime) -> Option<((SimTime, u64), Owed)> {
        let mut disk = self.disk.lock();
        let entry = disk.owed.first_entry().filter(|entry| entry.key().0 <= now)?;
        let ((_, number), owed) = entry.remove_entry();
        let key = (now + GC_EVERY, number);
        disk.owed.insert(key, owed.clone());
        Some((key, owed))
    }

    /// Settles an owed DEL that succeeded.
    pub fn settle(&self, key: (SimTime, u64), now: SimTime) {
        let mut disk = self.disk.lock();
        if let Some(mut owed) = disk.owed.remove(&key)
            && owed.times > 1
        {
            owed.times -= 1;
            disk.owed.insert((now + owed.every, key.1), owed);
        }
    }

    // --------------------------------------------------------------------------------------------------- for faults

    /// Injects this fault into some calls of the plugin, until [`ContainerRuntime::clear_cni_fault`].
    pub fn add_cni_fault(&self, cluster: &Cluster, fault: u32, chance: f64, kind: CniFault) {
        let seed = cluster.lock().seed;
        self.cni_faults.lock().push(InjectedCniFault::new(seed, fault, self.kubelet, chance, kind));
    }

    /// Ends the injections of a fault of the plan.
    pub fn clear_cni_fault(&self, fault: u32) {
        self.cni_faults.lock().retain(|injected| injected.fault != fault);
    }

    /// The fault that hits the next ADD or DEL.
    pub fn next_cni_fault(&self, cluster: &Cluster, of_add: bool) -> Option<CniFault> {
        let (index, kind) = {
            let mut cni_faults = self.cni_faults.lock();
            let mut hit = cni_faults.iter_mut().filter(|injected| injected.kind.is_of_add() == of_add);
            let hit = hit.find_map(|injected| injected.hits().then_some((injected.fault, injected.kind)));
            hit?
        };
        let at = cluster.rt.now();
        cluster.recorder(|recorder| recorder.observe(at, EventKind::Fault { index, change: FaultChange::Fired }));
        Some(kind)
    }

    /// Kills the container of a sandbox: the `nth` of the ready ones, counted cyclically from the oldest. The pod's containers die with it;
    /// its network namespace stays until it is removed (K §5.4). Returns whether there was one.
    pub fn lose_sandbox(&self, cluster: &Cluster, nth: u32) -> bool {
        let told = {
            let mut disk = self.disk.lock();
            let mut ready: Vec<&mut Sandbox> = disk.sandboxes.values_mut().filter(|sandbox| sandbox.state == SandboxState::Ready).collect();
            if ready.is_empty() {
                return false;
            }
            let position = nth as usize % ready.len();
            let sandbox = &mut ready[position];
            sandbox.state = SandboxState::Dead;
            let Sandbox { id, pod, pod_uid, started, .. } = sandbox;
            (std::mem::take(started), PodNote::PodStopped { pod: pod.clone(), uid: pod_uid.clone(), sandbox: id.clone() })
        };
        let (started, told) = told;
        let PodNote::PodStopped { uid, .. } = &told else { unreachable!("just made") };
        if let Some(events) = &*self.events.lock() {
            // A kubelet that is down finds the dead sandbox on the disk.
            let _ = events.send(uid.clone());
        }
        if started {
            self.say(cluster, told);
        }
        true
    }

    /// Takes the power from the machine.
    pub(super) fn lose_power(&self, cluster: &Cluster) {
        let numbers: Vec<SandboxNumber> = self.disk.lock().sandboxes.keys().copied().collect();
        for number in numbers {
            let Some(mut sandbox) = self.get(number) else { continue };
            if std::mem::take(&mut sandbox.started) {
                let Sandbox { id, pod, pod_uid, .. } = &sandbox;
                self.say(cluster, PodNote::PodStopped { pod: pod.clone(), uid: pod_uid.clone(), sandbox: id.clone() });
            }
            self.lose_network(cluster, &mut sandbox);
            sandbox.state = SandboxState::Dead;
            self.with(number, |kept| *kept = sandbox);
        }
    }
}
