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

/// A cluster of which values may be open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterDraft {
    /// How many API servers, at least 1.
    pub api_servers: Choice<u32>,
    /// Files with the objects that exist at the beginning, relative to the scenario.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<String>,
    /// What differs between versions of Kubernetes (K §0.3).
    pub knobs: KnobsDraft,
    /// How long messages take between two processes (K §11.2).
    pub links: LinkDelays,
    /// How long the steps of a healthy server take (K §11.2).
    pub delays: ServerDelays,
    /// How much each API server does at a time: requests wait for processors, and are refused when there are too many. Unset = everything
    /// at once, whatever the load.
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

/// [`Knobs`] of which values may be open. By default the switches of K §0.3 are drawn: code under test must be right under
/// every value.
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
    /// In how many processes informers ask for a watch-list stream at first, instead of a list (client-go: since 1.35); drawn for each
    /// process.
    pub watch_list_clients: Choice<Probability>,
    /// How many programs have client-go over HTTP/1.1, behind a proxy or without HTTP/2 (K180); drawn for each process. Those of Kubernetes
    /// itself have client-go over HTTP/2.
    pub http1_clients: Choice<Probability>,
    /// How many programs have kube-rs (K181); drawn for each process, and before the other.
    pub kube_rs_clients: Choice<Probability>,
    /// How many programs stay with one API server as long as it is in service, as behind a load balancer with affinity; drawn for each
    /// process.
    pub sticky_clients: Choice<Probability>,
    /// How many events of a type a server keeps at least, however old.
    pub history_events: Choice<u32>,
    /// How many undelivered events a watcher may have before it is cut off (10 to 1000).
    pub watch_buffer: Choice<u32>,
    /// Revisions taken by things outside the model (leases, events) before a write, at most; drawn per write.
    pub burned_revisions: Choice<u32>,
    /// Whether each object says from its creation on who manages its fields, which makes objects larger and writes slower; otherwise an
    /// object does from its first apply on.
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
    /// `clients` is a stream of its own for what was added last, so that the others are drawn as ever.
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

/// A [`Capacity`] of which values may be open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CapacityDraft {
    /// In how many runs servers have a capacity; in the others they work on everything at once.
    pub likelihood: Probability,
    /// Processors of a server: how many requests are worked on at the same time, at least 1.
    pub width: Choice<u32>,
    /// What a get, a list or the opening of a watch keeps a processor busy.
    pub read: Delay,
    /// What a create, an update, a patch or a delete keeps a processor busy.
    pub write: Delay,
    /// What a write that is refused with 409 takes more.
    pub conflict: Delay,
    /// What each object of a list takes more.
    pub object: Span,
    /// What sending a change to one watcher takes.
    pub event: Span,
    /// How many requests a server takes on at the same time, whether they are worked on, wait for a processor or for etcd; at least 1.
    pub seats: Choice<u32>,
    /// How many requests of one client wait for a seat; the next one gets 429.
    pub queue: Choice<u32>,
    /// How processors divide their time.
    #[serde(skip_serializing_if = "Discipline::is_fifo")]
    pub discipline: Discipline,
    /// Where processors share their time, on how many requests at most; the others wait in the order of arrival. Unset = on all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side_by_side: Option<u32>,
    /// What taking in an answer keeps a processor busy, where clients run on the machine of the server; `event` then holds what a client
    /// does with a change.
    #[serde(skip_serializing_if = "is_nothing")]
    pub client: Delay,
    /// How many other things keep processors busy all the time. Only with `processor-sharing`.
    #[serde(skip_serializing_if = "is_zero")]
    pub background: u32,
    /// What each KiB of an object takes more, wherever it is worked on: written, answered, sent to a watcher, taken in by `client`.
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

    /// What no server can be: see [`Capacity::problem`].
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
