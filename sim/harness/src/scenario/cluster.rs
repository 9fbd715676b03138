//! The cluster of a scenario.

use kube_sim::cluster::Knobs;
use kube_sim::cluster::capacity::{Capacity, Discipline, is_nothing};
use kube_sim::cluster::server::ServerDelays;
use kube_sim::net::{Delay, LinkDelays};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::draw::Draw;
use sim_config::time::Span;
use sim_config::{Choice, Probability};

/// A cluster whose values may be open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterDraft {
    /// Number of API servers, at least 1.
    pub api_servers: Choice<u32>,
    /// Files with the objects that exist at the beginning, relative to the scenario.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<String>,
    /// Differences between versions of Kubernetes (K §0.3).
    pub knobs: KnobsDraft,
    /// Delays of messages between two processes (K §11.2).
    pub links: LinkDelays,
    /// Durations of the steps of a server without faults (K §11.2).
    pub delays: ServerDelays,
    /// Capacity of each API server: requests wait for processors, and are refused when there are too many. Unset = unlimited, whatever the
    /// load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CapacityDraft>,
}

impl Default for ClusterDraft {
    fn default() -> Self {
        Self {
            api_servers: Choice::Is(2),
            manifests: Vec::new(),
            knobs: KnobsDraft::default(),
            links: LinkDelays::default(),
            delays: ServerDelays::default(),
            capacity: None,
        }
    }
}

/// [`Knobs`] whose values may be open. By default the switches of K §0.3 are drawn: code under test must be correct under every value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KnobsDraft {
    /// A PUT of a missing object whose body has a UID: true = 409 (before 1.34), false = 404.
    pub missing_put_with_uid_conflicts: Choice<bool>,
    /// A consistent LIST waits for the watch cache (since 1.31) instead of reading etcd.
    pub consistent_list_from_cache: Choice<bool>,
    /// A LIST of an exact version, and pages after the first, come from snapshots of the watch cache where it has them (since 1.34) instead
    /// of from etcd.
    pub list_from_cache_snapshot: Choice<bool>,
    /// The server tries up to 8 generated names (since 1.32).
    pub generate_name_retries: Choice<bool>,
    /// The server offers watch-list streams (`sendInitialEvents`).
    pub watch_list: Choice<bool>,
    /// Share of the processes whose informers first ask for a watch-list stream instead of a list (client-go: since 1.35); drawn for each
    /// process.
    pub watch_list_clients: Choice<Probability>,
    /// Share of the programs that use client-go over HTTP/1.1, behind a proxy or without HTTP/2 (K180); drawn for each process. Those of
    /// Kubernetes itself use client-go over HTTP/2.
    pub http1_clients: Choice<Probability>,
    /// Share of the programs that use kube-rs (K181); drawn for each process, and before `http1_clients`.
    pub kube_rs_clients: Choice<Probability>,
    /// Share of the programs that stay with one API server as long as it is in service, as behind a load balancer with affinity; drawn for
    /// each process.
    pub sticky_clients: Choice<Probability>,
    /// Least number of events of a type that a server keeps, however old.
    pub history_events: Choice<u32>,
    /// Largest number of undelivered events of a watcher, after which it is cut off (10 to 1000).
    pub watch_buffer: Choice<u32>,
    /// Largest number of revisions that objects outside the model (leases, events) take before a write; drawn for each write.
    pub burned_revisions: Choice<u32>,
    /// Whether each object has managed fields from its creation on, which makes objects larger and writes slower; otherwise an object has
    /// them from its first apply on.
    pub managed_fields: bool,
}

impl Default for KnobsDraft {
    fn default() -> Self {
        let shares = |values: [f64; 3]| Choice::OneOf(values.into_iter().filter_map(Probability::new).collect());
        let either = || Choice::OneOf(vec![false, true]);
        Self {
            missing_put_with_uid_conflicts: either(),
            consistent_list_from_cache: either(),
            list_from_cache_snapshot: either(),
            generate_name_retries: either(),
            watch_list: either(),
            watch_list_clients: shares([0.0, 0.5, 1.0]),
            http1_clients: shares([0.0, 0.0, 0.5]),
            kube_rs_clients: shares([0.0, 0.0, 0.5]),
            sticky_clients: shares([0.0, 0.0, 0.5]),
            history_events: Choice::Is(100),
            watch_buffer: Choice::Between(10, 1_000),
            burned_revisions: Choice::OneOf(vec![0, 3, 100]),
            managed_fields: false,
        }
    }
}

impl KnobsDraft {
    /// `clients` is a separate stream for the knobs that were added last, so that the draws of the others stay the same.
    pub(super) fn draw(&self, draw: &mut Draw, clients: &mut Draw) -> Knobs {
        Knobs {
            missing_put_with_uid_conflicts: self.missing_put_with_uid_conflicts.draw(draw),
            consistent_list_from_cache: self.consistent_list_from_cache.draw(draw),
            generate_name_retries: self.generate_name_retries.draw(draw),
            watch_list: self.watch_list.draw(draw),
            watch_list_clients: self.watch_list_clients.draw(clients),
            http1_clients: self.http1_clients.draw(clients),
            kube_rs_clients: self.kube_rs_clients.draw(clients),
            sticky_clients: self.sticky_clients.draw(clients),
            list_from_cache_snapshot: self.list_from_cache_snapshot.draw(clients),
            history_events: self.history_events.draw(draw),
            watch_buffer: self.watch_buffer.draw(draw).max(1),
            burned_revisions: self.burned_revisions.draw(draw),
            managed_fields: self.managed_fields,
        }
    }
}

/// A [`Capacity`] whose values may be open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CapacityDraft {
    /// Share of the runs in which servers have a capacity; in the others it is unlimited.
    pub likelihood: Probability,
    /// Processors of a server: the number of requests in progress at the same time, at least 1.
    pub width: Choice<u32>,
    /// Processor time of a get, a list or the opening of a watch.
    pub read: Delay,
    /// Processor time of a create, an update, a patch or a delete.
    pub write: Delay,
    /// Additional time of a write that is refused with 409.
    pub conflict: Delay,
    /// Additional time for each object of a list.
    pub object: Span,
    /// Time to send a change to one watcher.
    pub event: Span,
    /// Number of requests that a server accepts at the same time, whether they are in progress, wait for a processor or for etcd; at least
    /// 1.
    pub seats: Choice<u32>,
    /// Number of requests of one client that wait for a seat; the next one gets 429.
    pub queue: Choice<u32>,
    /// The scheduling of jobs on a processor.
    #[serde(skip_serializing_if = "Discipline::is_fifo")]
    pub discipline: Discipline,
    /// With shared processors, the largest number of requests that share them; the others wait in the order of arrival. Unset = all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side_by_side: Option<u32>,
    /// Processor time to read an answer, if clients run on the machine of the server; `event` then includes the client's work on a change.
    #[serde(skip_serializing_if = "is_nothing")]
    pub client: Delay,
    /// Number of other jobs that keep processors busy all the time. Only with `processor-sharing`.
    #[serde(skip_serializing_if = "is_zero")]
    pub background: u32,
    /// Additional time for each KiB of an object, in each step: when it is written, answered, sent to a watcher, or read by `client`.
    #[serde(skip_serializing_if = "Span::is_zero")]
    pub per_kib: Span,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Default for CapacityDraft {
    fn default() -> Self {
        Capacity::default().into()
    }
}

impl From<Capacity> for CapacityDraft {
    fn from(capacity: Capacity) -> Self {
        let Capacity { width, read, write, conflict, object, event, seats, queue, discipline, side_by_side, client, background, per_kib } =
            capacity;
        let [width, seats, queue] = [width, seats, queue].map(Choice::Is);
        Self {
            likelihood: Probability::ALWAYS,
            width,
            read,
            write,
            conflict,
            object,
            event,
            seats,
            queue,
            discipline,
            side_by_side,
            client,
            background,
            per_kib,
        }
    }
}

impl CapacityDraft {
    fn with(&self, width: u32, seats: u32, queue: u32) -> Capacity {
        let Self { read, write, conflict, object, event, discipline, side_by_side, client, background, per_kib, .. } = *self;
        Capacity { width, read, write, conflict, object, event, seats, queue, discipline, side_by_side, client, background, per_kib }
    }

    /// Values that no server can have: see [`Capacity::problem`].
    pub(super) fn problem(&self) -> Option<(&'static str, String, String)> {
        let least = |choice: &Choice<u32>| *choice.bounds().0;
        self.with(least(&self.width), least(&self.seats), least(&self.queue)).problem()
    }

    pub(super) fn draw(&self, draw: &mut Draw) -> Option<Capacity> {
        let has = draw.chance(self.likelihood.get());
        let capacity = self.with(self.width.draw(draw), self.seats.draw(draw), self.queue.draw(draw));
        has.then_some(capacity)
    }
}
