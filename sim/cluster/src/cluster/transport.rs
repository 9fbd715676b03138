//! The HTTP client of a program: the requests that share a connection, and the detection of dead connections (K §4.4, §4.7).
//!
//! | | one connection for | found dead without an answer | found dead with something unacknowledged |
//! |---|---|---|---|
//! | client-go | everything | 45 s: ping after 30 s, 15 s for its answer | 45 s |
//! | client-go over HTTP/1.1 | each request and watch | 165 s: keep-alive of TCP after 30 s, nine tries of 15 s | 15 min |
//! | kube-rs | each request and watch | never; a watch 5 s after its time-out | 15 min |

use std::time::Duration;

use kube_machinery::api::TransportError;
use kube_machinery::transparent::Policy;
use serde::{Deserialize, Serialize};
use sim_config::Probability;
use sim_config::draw::Draw;
use sim_config::time::SimTime;

/// The time after which a client finds a silent connection dead: HTTP/2 ping after 30 s idle, 15 s for the answer (K §4.4).
pub const KEEPALIVE: Duration = Duration::from_secs(45);
/// The same for TCP keep-alive with Go's settings: the first probe after 30 s, nine of them 15 s apart (K180).
const TCP_KEEPALIVE: Duration = Duration::from_secs(30 + 9 * 15);
/// The time for which a host retransmits unacknowledged data: Linux with `tcp_retries2 = 15` and the shortest time-out (K180).
const TCP_GIVES_UP: Duration = Duration::from_millis(924_600);
/// The margin beyond its time-out for which a watch of kube-rs may be quiet (K181).
const IDLE_MARGIN: Duration = Duration::from_secs(5);

/// The HTTP client of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// client-go with its defaults: one HTTP/2 connection, with pings (K160).
    #[default]
    Http2,
    /// client-go with HTTP/2 disabled, or behind a proxy that speaks HTTP/1.1: a connection for each request and watch (K180).
    Http1,
    /// kube-rs since 4.0: HTTP/1.1 without a read time-out or a keep-alive (K181).
    KubeRs,
}

impl Transport {
    /// Whether all requests and watches of a process share one connection, and break with it.
    pub fn multiplexes(self) -> bool {
        self == Transport::Http2
    }

    /// Whether a paused server is detected: its kernel answers TCP probes, but pings are not answered.
    pub(super) fn pings(self) -> bool {
        self == Transport::Http2
    }

    /// The time at which a connection is found dead that has been silent since `since` and has nothing unacknowledged.
    pub(super) fn dead_at(self, since: SimTime) -> SimTime {
        match self {
            Transport::Http2 => since + KEEPALIVE,
            Transport::Http1 => since + TCP_KEEPALIVE,
            Transport::KubeRs => SimTime::NEVER,
        }
    }

    /// The same for a connection with unacknowledged data that was first sent at `since`.
    pub(super) fn gives_up_at(self, since: SimTime) -> SimTime {
        match self {
            Transport::Http2 => since + KEEPALIVE,
            Transport::Http1 | Transport::KubeRs => since + TCP_GIVES_UP,
        }
    }

    /// The time at which a watch with a time-out of `life` is found dead, if it has been silent since `since` and its last element came at
    /// `last`.
    pub(super) fn watch_dead_at(self, since: SimTime, last: SimTime, life: Duration) -> SimTime {
        match self {
            Transport::KubeRs => since.max(last + life + IDLE_MARGIN),
            _ => self.dead_at(since),
        }
    }

    /// The caller's error for a connection that was found dead: `http2: client connection lost`, or a time-out. Libraries resend a request
    /// after the first, and not after the second (K153).
    pub(super) fn lost(self) -> TransportError {
        match self {
            Transport::Http2 => TransportError::ConnectionLost,
            Transport::Http1 | Transport::KubeRs => TransportError::Deadline,
        }
    }

    /// The requests that its library resends automatically (K153).
    pub fn retries(self) -> Policy {
        match self {
            Transport::Http2 | Transport::Http1 => Policy::ClientGo,
            Transport::KubeRs => Policy::KubeRs,
        }
    }
}

/// The choice of an API server after a client's connection broke.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reconnect {
    /// Any server in service, at random: a load balancer, or the `kubernetes` service (K155).
    #[default]
    Random,
    /// The same server, as long as it is in service: a load balancer with affinity.
    Sticky,
}

/// The shares of clients among programs; those of Kubernetes itself have client-go's over HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClientShares {
    pub http1: Probability,
    pub kube_rs: Probability,
    pub sticky: Probability,
}

impl ClientShares {
    /// The client of one program.
    pub(super) fn draw(self, mut draw: Draw) -> (Transport, Reconnect) {
        let transport = if draw.chance(self.kube_rs.get()) {
            Transport::KubeRs
        } else if draw.chance(self.http1.get()) {
            Transport::Http1
        } else {
            Transport::Http2
        };
        (transport, if draw.chance(self.sticky.get()) { Reconnect::Sticky } else { Reconnect::Random })
    }
}
