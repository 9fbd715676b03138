//! What keeps a message from leaving, and when it is sent again (K §4.4, K159).

use std::time::Duration;

use sim_config::time::SimTime;

use crate::net::{Fate, Retransmission};

/// Why a message cannot leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// There is no connection yet, and none can be made.
    Dial,
    /// The link is cut.
    Cut,
    /// The link holds messages back.
    Held,
}

/// What was sent into a cut, and is sent again.
#[derive(Clone, Copy)]
pub(super) struct CutOff {
    /// When the first of it was sent.
    pub since: SimTime,
    /// When it is sent again; never, as long as the link is cut.
    pub again: SimTime,
}

impl Obstacle {
    /// After which time a message arrives, and a copy of it, or what stops it.
    pub(super) fn passes(fate: Fate) -> Result<(Duration, Option<Duration>), Self> {
        match fate {
            Fate::Deliver { after, again } => Ok((after, again)),
            Fate::Cut => Err(Obstacle::Cut),
            Fate::Held => Err(Obstacle::Held),
        }
    }

    /// When a message that was first sent at `since` is sent again, after the links have changed.
    pub(super) fn passed(self, since: SimTime, now: SimTime) -> SimTime {
        match self {
            Obstacle::Dial => Retransmission::SYN.next(since, now),
            Obstacle::Cut => Retransmission::DATA.next(since, now),
            Obstacle::Held => now,
        }
    }
}
