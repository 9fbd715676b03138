//! Waiting on the scaled clock.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::Rt;
use crate::time::SimTime;

/// Completes at a point in model time. See [`super::Rt::sleep_until`].
#[must_use = "a sleep does nothing until it is awaited"]
pub struct Sleep {
    rt: Rt,
    at: SimTime,
    /// Who is woken by the timer that is already in madsim's heap. Timers cannot be cancelled there, and each poll
    /// of madsim's own sleep adds another one; a task that polls again with the same waker needs none.
    armed: Option<Waker>,
}

impl Sleep {
    pub(super) fn new(rt: Rt, at: SimTime) -> Self {
        Self { rt, at, armed: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.at <= self.rt.now() {
            return Poll::Ready(());
        }
        if !self.armed.as_ref().is_some_and(|armed| armed.will_wake(cx.waker())) {
            self.rt.arm(cx, self.at);
            self.armed = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}
