//! The simulated Kubernetes API: several API servers over one store, and the clients' connections to them.
//!
//! ```text
//!  process ── Client ── link ──► ApiServer ──► Store (one revision counter)
//!                                  │  Cache per type ◄── changes, with lag
//!                                  └─ link ──► Watcher ──► process
//! ```
//! [`Cluster`] is shared by all parts of a run; its `State` is behind one lock that is never held across an await.

pub mod admission;
mod api_server;
mod cache_lag;
pub mod capacity;
mod change_point;
mod clear;
mod client;
mod commit;
mod connection;
mod control;
mod deferred;
mod dial;
pub mod discovery;
mod etcd;
mod eviction;
mod exchange;
mod exchanges;
mod filter;
mod held_change;
mod load;
mod lost_events;
mod obstacle;
mod priority;
mod read;
mod request;
mod request_point;
mod restore;
mod serve;
pub mod server;
mod server_error;
mod server_time;
pub mod store;
mod time_sharing;
mod transport;
mod typed_client;
mod wait;
mod watch;
mod watch_cache;
mod watch_element;
mod watch_open;
mod watch_stream;
mod watcher;
mod watchers;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use admission::{Forbidden, HookFault, Pool, Webhook};
use api_server::ApiServer;
use capacity::{Capacity, ServerWork, Size};
use jiff::Timestamp;
use kube_machinery::{FxHashMap, Object, ObjectKey};
use load::Load;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use server::{ApiFault, Samplers, ServerDelays};
use sim_config::Probability;
use sim_config::draw::{Concern, Draw};
use sim_config::time::SimTime;
use slab::Slab;
use store::Store;
use watch_cache::Cache;

use crate::kinds::{KindId, Registry};
use crate::net::{LinkDelays, Network, Side};
use crate::node::Nodes;
use crate::object::Obj;
use crate::rt::{ProcessId, Rt};
use crate::trace::coverage::CoveragePoint;
use crate::trace::recorder::Recorder;
use crate::trace::{EventKind, Note};

pub use change_point::{Became, ChangePoint, ChangeStep};
pub use clear::{Obstruction, ObstructionId};
pub use client::SimClient;
pub use etcd::EtcdOutage;
pub use eviction::{DISRUPTION_TARGET, EVICTED_BY_API};
pub use held_change::ChangeHold;
pub use lost_events::CACHE_COMPARED_AFTER;
pub use priority::Priorities;
pub use request::{ApiReply, ApiRequest, Op};
pub use request_point::{Disturbance, Logged, RequestPoint, SentChange, SentRequest, Until};
pub use transport::{KEEPALIVE, Reconnect, Transport};
pub use watch_stream::{AnyWatch, SimWatch};

/// Wall-clock time at the beginning of every run, before offsets.
pub const EPOCH: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// Wall-clock time on the host of `process`. A clock that was set beyond the end of the calendar stops there.
pub fn wall_of(rt: &Rt, process: ProcessId) -> Timestamp {
    let now = rt.now();
    let ahead = rt.clock_of(process).wall_ahead(now);
    later(EPOCH, jiff::SignedDuration::from_micros(ahead.saturating_add_unsigned(now.as_micros())))
}

/// `time` plus `duration`, or the end of the calendar if that is exceeded.
pub fn later(time: Timestamp, duration: jiff::SignedDuration) -> Timestamp {
    time.checked_add(duration).unwrap_or(if duration.is_negative() { Timestamp::MIN } else { Timestamp::MAX })
}

/// Behaviour of Kubernetes that differs between versions or installations (K §0.3, §2.5). Code under test must be correct for every value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Knobs {
    /// A PUT of a missing object whose body has a UID: true = 409 (before 1.34), false = 404.
    pub missing_put_with_uid_conflicts: bool,
    /// A consistent LIST waits for the watch cache (since 1.31) instead of reading etcd.
    pub consistent_list_from_cache: bool,
    /// A LIST of an exact version, and pages after the first, come from snapshots of the watch cache if it has them (since 1.34) instead of
    /// from etcd.
    #[serde(skip_serializing_if = "is_false")]
    pub list_from_cache_snapshot: bool,
    /// The server tries up to 8 generated names (since 1.32).
    pub generate_name_retries: bool,
    /// The server offers watch-list streams (`sendInitialEvents`).
    pub watch_list: bool,
    /// The share of processes in which informers first ask for a watch-list stream instead of a list (client-go: since 1.35); drawn for
    /// each process.
    #[serde(skip_serializing_if = "is_never")]
    pub watch_list_clients: Probability,
    /// The share of programs that use client-go over HTTP/1.1, behind a proxy or without HTTP/2 (K180); drawn for each process. Those of
    /// Kubernetes itself use client-go over HTTP/2.
    #[serde(skip_serializing_if = "is_never")]
    pub http1_clients: Probability,
    /// The share of programs that use kube-rs (K181); drawn for each process, and before `http1_clients`.
    #[serde(skip_serializing_if = "is_never")]
    pub kube_rs_clients: Probability,
    /// The share of programs that stay with one API server as long as it is in service, as behind a load balancer with affinity; drawn for
    /// each process.
    #[serde(skip_serializing_if = "is_never")]
    pub sticky_clients: Probability,
    /// The least number of events of a type that a server keeps, however old.
    pub history_events: u32,
    /// The number of undelivered events that a watcher may have before it is cut off (10 to 1000).
    pub watch_buffer: u32,
    /// The most revisions taken by writes outside the model (leases, events) before a write; drawn per write.
    pub burned_revisions: u32,
    /// Whether each object tracks its field managers from its creation on; otherwise it does from its first apply on (K164).
    #[serde(skip_serializing_if = "is_false")]
    pub managed_fields: bool,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            missing_put_with_uid_conflicts: false,
            consistent_list_from_cache: true,
            list_from_cache_snapshot: false,
            generate_name_retries: true,
            watch_list: true,
            watch_list_clients: Probability::NEVER,
            http1_clients: Probability::NEVER,
            kube_rs_clients: Probability::NEVER,
            sticky_clients: Probability::NEVER,
            history_events: 100,
            watch_buffer: 100,
            burned_revisions: 0,
            managed_fields: false,
        }
    }
}

impl Knobs {
    fn client_shares(&self) -> transport::ClientShares {
        transport::ClientShares { http1: self.http1_clients, kube_rs: self.kube_rs_clients, sticky: self.sticky_clients }
    }
}

fn is_never(probability: &Probability) -> bool {
    *probability == Probability::NEVER
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// The configuration of a cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterConfig {
    /// The run's seed: links, caches and names draw from it.
    pub seed: u64,
    /// The differences between versions and installations of Kubernetes, one switch each.
    pub knobs: Knobs,
    /// One-way delays of messages, on healthy and on degraded links.
    pub links: LinkDelays,
    /// Server delays in good health.
    pub delays: ServerDelays,
    /// The capacity of each server; unset = unlimited.
    pub capacity: Option<Capacity>,
    /// Whether caches without listeners, too, are notified of each change when it arrives, instead of when their process reads them. A
    /// process does the same either way; it costs more. For comparisons.
    pub told_at_once: bool,
}

/// The API, shared by all parts of a run.
pub struct Cluster {
    /// The runtime of the run: the processes of servers and clients, their hosts, and model time.
    pub rt: Rt,
    /// The types that the API serves, including those that are defined while the cluster runs ([`Registry::define`]).
    pub registry: Arc<Registry>,
    /// The container runtimes of the nodes, and the data plane.
    pub nodes: Nodes,
    state: Mutex<State>,
    /// The hook that is called when a write point is reached.
    on_fault: Mutex<Option<FaultHook>>,
    /// The number of calls so far.
    calls: AtomicU64,
}

/// Carries out a trigger of the plan: called with the number of the fault and the process that reached it.
pub type FaultHook = Arc<dyn Fn(u32, ProcessId) + Send + Sync>;

/// A crash point: the n-th write of a client (K §9.1, intermediate state).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WritePoint {
    /// The fault of the plan.
    pub fault: u32,
    /// The client whose writes are counted.
    pub client: ProcessId,
    /// The number of the write, counting from 1 over the whole run.
    pub nth: u32,
    /// Whether the crash is after the commit and before the reply; otherwise before the commit, and the write is then never executed.
    pub after_commit: bool,
}

/// The state behind the lock.
pub struct State {
    pub(crate) seed: u64,
    pub(crate) net: Network,
    pub(crate) store: Store,
    pub(crate) servers: Vec<ApiServer>,
    pub(crate) watchers: Slab<watcher::Watcher>,
    /// The number of watches ever opened.
    pub(crate) watches_opened: u64,
    pub(crate) deferred: deferred::Deferred,
    pub(crate) told_at_once: bool,
    pub(crate) exchanges: exchanges::Exchanges,
    pub(crate) recorder: Recorder,
    pub(crate) knobs: Knobs,
    /// A function that sets the defaults of built-in types, if that is done outside.
    pub(crate) complete: Option<write::Complete>,
    pub(crate) samplers: Samplers,
    pub(crate) degraded_samplers: Samplers,
    pub(crate) size: Option<Size>,
    pub(crate) work: ServerWork,
    pub(crate) waits: Option<Vec<(SimTime, std::time::Duration)>>,
    pub(crate) etcd: etcd::Etcd,
    pub(crate) webhooks: Vec<Webhook>,
    pub(crate) hook_faults: Vec<HookFault>,
    pub(crate) hook_pool: Pool,
    pub(crate) forbidden: Vec<Forbidden>,
    /// The clients whose tokens are rejected, each with the fault that causes it.
    pub(crate) unauthorized: Vec<(u32, Side)>,
    pub(crate) discovery_faults: Vec<discovery::DiscoveryFault>,
    pub(crate) api_faults: Vec<ApiFault>,
    pub(crate) names: Draw,
    pub(crate) choices: Draw,
    /// The UID suffixes of certain objects yet to be created; those of all others are drawn.
    pub uid_ends: BTreeMap<(KindId, ObjectKey), String>,
    pub(crate) write_points: Vec<WritePoint>,
    pub(crate) request_points: request_point::RequestPoints,
    pub(crate) rankings: priority::Rankings,
    pub(crate) held_changes: held_change::HeldChanges,
    pub(crate) change_points: change_point::ChangePoints,
    pub(crate) cache_lags: Vec<cache_lag::CacheLag>,
    pub(crate) obstructions: clear::Obstructions,
    pub(crate) writes: FxHashMap<ProcessId, u32>,
    pub(crate) namespaces: Option<KindId>,
    pub(crate) node_kind: Option<KindId>,
    /// The type of pods, and the number of seconds for which new ones tolerate lost nodes if they do not set it themselves (K §6.2).
    pub default_toleration: Option<(KindId, i64)>,
    /// The present connection of each process.
    pub connections: BTreeMap<ProcessId, Arc<connection::Connection>>,
    /// Processes in crash-loop back-off, with the incarnation that panicked.
    pub backing_off: FxHashMap<ProcessId, u32>,
    /// Servers that crash as soon as the lock is free.
    pub pending_server_crashes: Vec<usize>,
}

impl Cluster {
    /// A cluster without servers.
    pub fn new(rt: Rt, registry: Arc<Registry>, config: &ClusterConfig, recorder: Recorder) -> Arc<Self> {
        let state = State {
            seed: config.seed,
            net: Network::new(config.seed, config.links),
            store: Store::new(registry.len()),
            servers: Vec::new(),
            watchers: Slab::new(),
            watches_opened: 0,
            deferred: deferred::Deferred::default(),
            told_at_once: config.told_at_once,
            exchanges: exchanges::Exchanges::default(),
            recorder,
            knobs: config.knobs,
            complete: None,
            samplers: Samplers::new(&config.delays),
            degraded_samplers: Samplers::new(&ServerDelays::degraded()),
            size: config.capacity.as_ref().map(Size::new),
            work: ServerWork::default(),
            waits: None,
            etcd: etcd::Etcd::default(),
            webhooks: Vec::new(),
            hook_faults: Vec::new(),
            hook_pool: Pool::default(),
            forbidden: Vec::new(),
            unauthorized: Vec::new(),
            discovery_faults: Vec::new(),
            api_faults: Vec::new(),
            names: Draw::new(config.seed, Concern::Names, 0),
            choices: Draw::new(config.seed, Concern::World, 0),
            uid_ends: BTreeMap::new(),
            write_points: Vec::new(),
            request_points: request_point::RequestPoints::default(),
            rankings: priority::Rankings::default(),
            held_changes: held_change::HeldChanges::default(),
            change_points: change_point::ChangePoints::default(),
            cache_lags: Vec::new(),
            obstructions: clear::Obstructions::default(),
            writes: FxHashMap::default(),
            namespaces: registry.find("v1", "Namespace"),
            node_kind: registry.find("v1", "Node"),
            default_toleration: None,
            connections: BTreeMap::new(),
            backing_off: FxHashMap::default(),
            pending_server_crashes: Vec::new(),
        };
        let nodes = Nodes::default();
        Arc::new(Self { rt, registry, nodes, state: Mutex::new(state), on_fault: Mutex::default(), calls: AtomicU64::new(0) })
    }

    /// Returns a number for the next call of a client.
    pub fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Adds an API server that is up and has filled caches. Returns its number.
    pub fn add_server(&self, process: ProcessId) -> usize {
        self.rt.start(process);
        let mut state = self.lock();
        let number = state.servers.len();
        let (seed, revision) = (state.seed, state.store.revision());
        let cache = |kind| {
            let kind = KindId(kind as u16);
            let next = state.store.table(kind).next_index();
            Cache::new(seed, number as u32, kind, revision, next)
        };
        let caches = (0..self.registry.len()).map(cache).collect();
        state.servers.push(ApiServer {
            process,
            up: true,
            silent_since: None,
            paused: false,
            ready_at: SimTime::ZERO,
            started_at: SimTime::ZERO,
            etcd_cut: false,
            degraded: false,
            caches,
            crash_in_delete: false,
            load: Load::default(),
        });
        number
    }

    /// The process of server `number`.
    pub fn server_process(&self, number: usize) -> ProcessId {
        self.lock().servers[number].process
    }

    /// The number of servers.
    pub fn servers(&self) -> usize {
        self.lock().servers.len()
    }

    /// The number of the server that runs as `process`.
    pub fn server_of(&self, process: ProcessId) -> Option<usize> {
        self.lock().servers.iter().position(|server| server.process == process)
    }

    /// Changes the rules of links, and then has connections, watches and resting kubelets check the links.
    pub fn network<T>(&self, change: impl FnOnce(&mut Network) -> T) -> T {
        let (result, changed) = {
            let mut state = self.lock();
            let before = state.net.generation();
            let result = change(&mut state.net);
            state.note_silence(self.rt.now());
            state.check_streams(&self.rt, self.rt.now());
            state.check_connections(self.rt.now());
            (result, state.net.generation() != before)
        };
        if changed {
            self.nodes.heartbeats.look_around(self);
        }
        result
    }

    /// Records in the trace that `process` made `note` now.
    pub fn note(&self, process: ProcessId, note: &dyn Note) {
        let at = self.rt.now();
        let mut state = self.lock();
        state.tell(process, at);
        state.recorder.observe(at, EventKind::Note { process, note });
    }

    /// Records that the run reaches `point`. This does not influence the run, and is no event.
    pub fn reach(&self, point: CoveragePoint) {
        let now = self.rt.now();
        self.lock().recorder.coverage.reach(point, now);
    }

    /// Lets `look` read or change the recorder.
    pub fn recorder<T>(&self, look: impl FnOnce(&mut Recorder) -> T) -> T {
        look(&mut self.lock().recorder)
    }

    /// Lets `look` read the store.
    pub fn store<T>(&self, look: impl FnOnce(&Store) -> T) -> T {
        look(&self.lock().store)
    }

    /// Wall-clock time on the host of `process`.
    pub fn wall(&self, process: ProcessId) -> Timestamp {
        wall_of(&self.rt, process)
    }

    /// Puts an object into the store before the run begins. The output of `kubectl get` is accepted as it is; a missing UID and creation
    /// time are added. The object is of the stored type or of a view of it.
    pub fn preload(&self, kind: KindId, object: Obj) {
        let mut state = self.lock();
        let state = &mut *state;
        let def = self.registry.get(kind);
        let mut object = def.stored(object);
        let key = write::preload(def, &mut object, EPOCH, &mut state.names);
        state.store.put(kind, key, object, SimTime::ZERO);
    }

    /// Like [`Cluster::preload`], for an object of a known type.
    pub fn preload_typed<K: Object>(&self, object: K) {
        self.preload(self.registry.id::<K>(), Arc::new(object));
    }

    /// Like [`Cluster::preload_typed`], unless there is an object of this type and name: the user's own manifests may contain it.
    pub fn preload_unless_held<K: Object>(&self, object: K) {
        if !self.holds::<K>(&ObjectKey::of(&object)) {
            self.preload_typed(object);
        }
    }

    /// Forces the UID suffix of the next object with this key, to test suffix collisions.
    pub fn end_uid(&self, kind: KindId, key: ObjectKey, end: &str) {
        self.lock().uid_ends.insert((kind, key), end.to_owned());
    }

    /// Whether there is an object of this type and name.
    pub fn holds<K: Object>(&self, key: &ObjectKey) -> bool {
        self.lock().store.table(self.registry.id::<K>()).get(key).is_some()
    }

    /// All objects, by type and key. Leases and Nodes are as if every heartbeat had been sent.
    pub fn dump(&self) -> Vec<(KindId, Obj)> {
        let (state, now) = (self.lock(), self.rt.now());
        let shown = |object: &Obj| self.nodes.heartbeats.as_if_sent(object, now).unwrap_or_else(|| object.clone());
        let of = |kind| state.store.table(kind).range(std::ops::Bound::Unbounded).map(move |(_, object)| (kind, shown(object)));
        self.registry.iter().flat_map(|(kind, _)| of(kind)).collect()
    }

    /// Sets the function that fills in the defaults of built-in Kinds: patched or applied objects get them after the merge.
    pub fn complete_with(&self, complete: fn(&str, &mut serde_json::Value)) {
        self.lock().complete = Some(complete);
    }

    /// Sets the hook that carries out triggered faults.
    pub fn set_fault_hook(&self, hook: FaultHook) {
        *self.on_fault.lock() = Some(hook);
    }

    /// Breaks the reference cycles between the cluster and the code that carries out faults and webhooks. Called at the end of a run.
    pub fn tear_down(&self) {
        *self.on_fault.lock() = None;
        let mut state = self.lock();
        let hooks = std::mem::take(&mut state.webhooks);
        drop(state);
        hooks.iter().for_each(|hook| hook.service.clear());
    }
}
