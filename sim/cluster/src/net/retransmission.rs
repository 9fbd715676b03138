//! The times of TCP retransmissions.

use std::time::Duration;

use sim_config::time::SimTime;

/// The times at which a host sends unacknowledged data again: after a time-out that doubles each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retransmission {
    /// The time-out of the first try; each further one is twice as long, up to [`Self::LONGEST`].
    first: Duration,
}

impl Retransmission {
    /// Data of a connection: TCP's shortest time-out on Linux (K158).
    pub const DATA: Self = Self { first: Duration::from_millis(200) };
    /// The first packet of a connection (K161).
    pub const SYN: Self = Self { first: Duration::from_secs(1) };
    /// The time-out beyond which it no longer doubles.
    const LONGEST: Duration = Duration::from_secs(120);

    /// The first time at or after `now` at which data first sent at `since` is sent again.
    pub fn next(self, since: SimTime, now: SimTime) -> SimTime {
        let (mut at, mut timeout) = (since + self.first, self.first);
        while at < now {
            timeout = (timeout * 2).min(Self::LONGEST);
            at += timeout;
        }
        at
    }

    /// The time until a message arrives that is lost `times` times.
    pub(super) fn after(self, times: u32) -> Duration {
        self.first * ((1 << times) - 1)
    }
}
