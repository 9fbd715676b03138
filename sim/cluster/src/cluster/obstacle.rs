//! Obstacles that keep a message from leaving, and the time at which it is sent again (K §4.4, K159).

use std::time::Duration;

use sim_config::time::SimTime;

use crate::net::{Fate, Retransmission};

/// The reason why a message cannot leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// There is no connection yet, and none can be made.
    Dial,
    /// The link is cut.
    Cut,
    /// The link holds messages back.
    Held,
}

/// Messages that were sent into a cut, and are sent again.
#[derive(Clone, Copy)]
pub(super) struct CutOff {
    /// The time at which the first of them was sent.
    pub since: SimTime,
    /// The time at which they are sent again; never, as long as the link is cut.
    pub again: SimTime,
}

impl Obstacle {
    /// The time after which a message arrives, and that of a copy of it, or the obstacle that stops it.
    pub(super) fn passes(fate: Fate) -> Result<(Duration, Option<Duration>), Self> {
        match fate {
            Fate::Deliver { after, again } => Ok((after, again)),
            Fate::Cut => Err(Obstacle::Cut),
            Fate::Held => Err(Obstacle::Held),
        }
    }

    /// The time at which a message first sent at `since` is sent again, after the links have changed.
    pub(super) fn passed(self, since: SimTime, now: SimTime) -> SimTime {
        match self {
            Obstacle::Dial => Retransmission::SYN.next(since, now),
            Obstacle::Cut => Retransmission::DATA.next(since, now),
            Obstacle::Held => now,
        }
    }
}
