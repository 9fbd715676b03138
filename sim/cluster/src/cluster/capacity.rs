//! The capacity of an API server (K §2.11): seats that requests take, and processors that requests with a seat wait for.
//!
//! ```text
//!  arrives ─► a seat? ─► a processor? ─► works ─► etcd ─► works again ─► answers, leaves its seat
//!               │ no        │ no
//!               │           └► in the order of arrival
//!               └► waits, client by client in turn; 429 when too many of its client wait, or for too long
//! ```
//! Processors work in the order of arrival, or share their time between all pending work ([`Discipline`]). Without a [`Capacity`] every
//! request is processed at once, whatever else is pending: the latency of a server then does not depend on its load.

use std::time::Duration;

use kube_machinery::ApiError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::time::Span;

use super::request::{ApiReply, Op};
use super::time_sharing::Machine;
use super::write::size_of;
use crate::kinds::TypeDef;
use crate::net::{Delay, Sampler};
use crate::object::Obj;

/// The capacity of one API server. A request keeps a processor busy before etcd has it, and again if its answer takes work; the time that
/// etcd takes is part of the delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Capacity {
    /// The number of processors, which is the number of requests that are processed at the same time, at least 1.
    pub width: u32,
    /// The processor time of a get, a list or the opening of a watch.
    pub read: Delay,
    /// The processor time of a create, an update, a patch or a delete.
    pub write: Delay,
    /// The additional time of a write that is refused with 409, once etcd has answered: the server reads the object again to say why.
    pub conflict: Delay,
    /// The additional time for each object of a list, or of the first events of a watch.
    pub object: Span,
    /// The time for sending a change to one watcher: a write of an object with many watchers costs the server more.
    pub event: Span,
    /// The number of requests that a server takes on at the same time, whether they work, wait for a processor or for etcd: 400 that read
    /// and 200 that write, which priority and fairness adds up. At least 1.
    pub seats: u32,
    /// The number of requests of one client that may wait for a seat; the next one gets 429.
    pub queue: u32,
    /// The way processors divide their time.
    #[serde(skip_serializing_if = "Discipline::is_fifo")]
    pub discipline: Discipline,
    /// The most requests among which processors share their time; the others wait in the order of arrival. Unset = all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side_by_side: Option<u32>,
    /// The processor time for taking in an answer, where clients run on the machine of the server. Each change that is sent to a watcher is
    /// then a separate job, and `event` includes the work of its client.
    #[serde(skip_serializing_if = "is_nothing")]
    pub client: Delay,
    /// The number of other things that keep processors busy all the time. Only where processors share their time.
    #[serde(skip_serializing_if = "is_zero")]
    pub background: u32,
    /// The additional time for each KiB of an object, wherever it is processed: when it is written, in an answer, on its way to a watcher,
    /// and where `client` is more than 0, when an answer is taken in.
    #[serde(skip_serializing_if = "Span::is_zero")]
    pub per_kib: Span,
}

/// The way processors divide their time between the pending work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// In the order of arrival; work that has begun is finished first.
    #[default]
    Fifo,
    /// All jobs at once, each slowed down accordingly: time slices, as operating systems give them to programs.
    ProcessorSharing,
}

impl Discipline {
    /// Whether it is the default discipline.
    pub fn is_fifo(&self) -> bool {
        *self == Discipline::Fifo
    }
}

/// Whether a delay is zero, which is the default.
pub fn is_nothing(delay: &Delay) -> bool {
    *delay == Delay::Constant(Span::micros(0))
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The most other things that keep processors busy: work behind more of them is not answered.
const BACKGROUND_MAX: u32 = 1_000;

impl Default for Capacity {
    fn default() -> Self {
        Self {
            width: 2,
            read: Delay::lognormal_us(800, 3_000, 50_000),
            write: Delay::lognormal_us(1_200, 4_000, 50_000),
            conflict: Delay::lognormal_us(400, 1_500, 20_000),
            object: Span::micros(20),
            event: Span::micros(20),
            seats: 600,
            queue: 50,
            discipline: Discipline::Fifo,
            side_by_side: None,
            client: Delay::Constant(Span::micros(0)),
            background: 0,
            per_kib: Span::micros(0),
        }
    }
}

impl Capacity {
    /// The first invalid value: its key, its error, and a valid value instead.
    pub fn problem(&self) -> Option<(&'static str, String, String)> {
        let most = super::request::MUTATING_DEADLINE;
        let of = |key| move |found: String, right: String| Some((key, found, right));
        if self.width == 0 {
            return of("width")("`cluster.capacity.width` is 0: nothing is ever worked on".to_owned(), "at least 1".to_owned());
        }
        if self.seats == 0 {
            return of("seats")("`cluster.capacity.seats` is 0: every request is refused".to_owned(), "at least 1".to_owned());
        }
        if self.background > 0 && self.discipline.is_fifo() {
            let found = format!("`cluster.capacity.background` is {}, which never leaves a processor that works in turn", self.background);
            return of("background")(found, "0, or `discipline = \"processor-sharing\"`".to_owned());
        }
        if let Some(found) = self.side_by_side {
            let told = format!("`cluster.capacity.side_by_side` is {found}");
            if self.discipline.is_fifo() {
                let wrong = format!("{told}, but processors work in turn, on as many requests as there are processors");
                return of("side_by_side")(wrong, "left out, or `discipline = \"processor-sharing\"`".to_owned());
            }
            if found < self.width {
                let wrong = format!("{told}, so that some of {} processors never work", self.width);
                return of("side_by_side")(wrong, format!("at least {}", self.width));
            }
        }
        if self.background > BACKGROUND_MAX {
            let found = format!("`cluster.capacity.background` is {}: hardly anything else is worked on", self.background);
            return of("background")(found, format!("at most {BACKGROUND_MAX}"));
        }
        let times = [
            ("client", self.client),
            ("read", self.read),
            ("write", self.write),
            ("conflict", self.conflict),
            ("object", Delay::Constant(self.object)),
            ("event", Delay::Constant(self.event)),
            ("per_kib", Delay::Constant(self.per_kib)),
        ];
        times.into_iter().find(|(_, delay)| delay.sampler().most() >= most).and_then(|(key, _)| {
            let found = format!("`cluster.capacity.{key}` may be longer than a request may take");
            of(key)(found, format!("less than {} s", most.as_secs()))
        })
    }
}

/// A [`Capacity`] prepared for drawing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(super) width: u32,
    pub(super) read: Sampler,
    pub(super) write: Sampler,
    pub(super) conflict: Sampler,
    pub(super) object: Duration,
    pub(super) event: Duration,
    pub(super) seats: usize,
    pub(super) queue: usize,
    pub(super) client: Option<Sampler>,
    /// The shared machine; unset = work in the order of arrival.
    pub(super) shared: Option<Machine>,
    pub(super) side_by_side: usize,
    pub(super) per_kib: Duration,
}

impl Size {
    pub(crate) fn new(capacity: &Capacity) -> Self {
        Self {
            width: capacity.width.max(1),
            read: capacity.read.sampler(),
            write: capacity.write.sampler(),
            conflict: capacity.conflict.sampler(),
            object: capacity.object.0,
            event: capacity.event.0,
            seats: capacity.seats.max(1) as usize,
            queue: capacity.queue as usize,
            client: (!is_nothing(&capacity.client)).then(|| capacity.client.sampler()),
            per_kib: capacity.per_kib.0,
            side_by_side: capacity.side_by_side.map_or(usize::MAX, |most| most as usize),
            shared: (!capacity.discipline.is_fifo()).then_some(Machine { width: capacity.width.max(1), background: capacity.background }),
        }
    }

    /// The processor time of a request before etcd has it.
    pub(super) fn before(&self, def: &TypeDef, op: &Op, quantile: f64) -> Duration {
        let body = match op {
            Op::Create { body, .. } | Op::Update { body, .. } => self.of(def, [body]),
            _ => Duration::ZERO,
        };
        if op.verb().is_write() { self.write } else { self.read }.sample(quantile) + body
    }

    /// The processor time of its answer.
    pub(super) fn after(&self, def: &TypeDef, result: &Result<ApiReply, ApiError>, quantile: f64) -> Duration {
        self.of_answer(def, result)
            + match result {
                Ok(ApiReply::List { items, .. }) => self.object.saturating_mul(items.len() as u32),
                Err(ApiError::Status(status)) if status.code == 409 => self.conflict.sample(quantile),
                _ => Duration::ZERO,
            }
    }

    /// The additional time of its answer for the size of its content.
    pub(super) fn of_answer(&self, def: &TypeDef, result: &Result<ApiReply, ApiError>) -> Duration {
        match result {
            Ok(ApiReply::Object(object)) => self.of(def, [object]),
            Ok(ApiReply::List { items, .. }) => self.of(def, items),
            _ => Duration::ZERO,
        }
    }

    /// The additional time for the size of these objects.
    fn of<'a>(&self, def: &TypeDef, objects: impl IntoIterator<Item = &'a Obj>) -> Duration {
        if !self.weighs() {
            return Duration::ZERO;
        }
        self.of_bytes(objects.into_iter().map(|object| size_of(def, object)).sum())
    }

    /// The additional time for this number of bytes.
    pub(super) fn of_bytes(&self, bytes: usize) -> Duration {
        Duration::from_nanos(self.per_kib.as_nanos() as u64 * bytes as u64 / 1024)
    }

    /// Whether the size of an object matters.
    pub(super) fn weighs(&self) -> bool {
        !self.per_kib.is_zero()
    }
}

/// The work done by the processors of the servers so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerWork {
    /// Requests and openings of watches that were processed.
    pub requests: u64,
    /// Requests that were refused with 429, for want of a seat.
    pub refused: u64,
    /// The total time that requests waited for a seat and for a processor.
    pub waited: Duration,
    /// The total time that processors were busy.
    pub worked: Duration,
}
