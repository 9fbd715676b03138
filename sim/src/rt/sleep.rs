//! Waiting on the scaled clock.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use madsim::time::TimeHandle;

use crate::time::SimTime;

/// Completes at a point in model time. See [`super::Rt::sleep_until`].
#[must_use = "a sleep does nothing until it is awaited"]
pub struct Sleep {
    time: TimeHandle,
    deadline: Duration,
    /// Who is woken by the timer that is already in madsim's heap. Timers cannot be cancelled there, and each poll
    /// of madsim's own sleep adds another one; a task that polls again with the same waker needs none.
    armed: Option<Waker>,
}

impl Sleep {
    pub(super) fn new(time: TimeHandle, at: SimTime) -> Self {
        // `NEVER` would overflow the scaled clock; ten thousand years are as good.
        let micros = at.as_micros().min(u64::MAX / super::SCALE / 2);
        Self { time, deadline: Duration::from_nanos(micros * super::SCALE), armed: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let elapsed = self.time.elapsed();
        if elapsed >= self.deadline {
            return Poll::Ready(());
        }
        if self.armed.as_ref().is_some_and(|armed| armed.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        let mut inner = self.time.sleep(self.deadline - elapsed);
        let poll = Pin::new(&mut inner).poll(cx);
        self.armed = Some(cx.waker().clone());
        poll
    }
}
