//! The work of an actor on its many objects, all in the one task of its process: a task for each would cost more than the work (and each
//! leaves something behind in the runtime).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use sim_config::time::SimTime;

/// The work on one object. Its output is for the main loop.
pub(super) type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Tasks that were begun since [`ObjectTasks`] was last polled.
pub(super) struct Spawner<T>(Mutex<Vec<Task<T>>>);

impl<T> Default for Spawner<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Spawner<T> {
    /// Begins a task. The caller is the main loop, or another of its tasks.
    #[inline]
    pub(super) fn begin(&self, work: impl Future<Output = T> + Send + 'static) {
        self.0.lock().push(Box::pin(work));
    }

    /// Returns a guard that, when dropped, forgets the tasks begun and not yet polled: tasks and the actor that spawns them have handles on
    /// each other, which would keep both alive.
    pub(super) fn until_dropped(&self) -> impl Drop + '_ {
        struct Guard<'a, T>(&'a Spawner<T>);
        impl<T> Drop for Guard<'_, T> {
            fn drop(&mut self) {
                let work = std::mem::take(&mut *self.0.0.lock());
                drop(work);
            }
        }
        Guard(self)
    }
}

/// All tasks of one life of an actor.
pub(super) struct ObjectTasks<T>(FuturesUnordered<Task<T>>);

impl<T> ObjectTasks<T> {
    pub(super) fn new() -> Self {
        Self(FuturesUnordered::new())
    }

    /// The next task that completes, including those that `spawner` was given meanwhile.
    pub(super) fn poll_next(&mut self, spawner: &Spawner<T>, cx: &mut Context<'_>) -> Poll<T> {
        loop {
            self.0.extend(spawner.0.lock().drain(..));
            if let Poll::Ready(Some(done)) = self.0.poll_next_unpin(cx) {
                return Poll::Ready(done);
            }
            if spawner.0.lock().is_empty() {
                return Poll::Pending;
            }
        }
    }
}

/// An alarm that is set again only when its time changes: each setting costs a timer.
pub(super) struct Alarm {
    sleep: Option<(SimTime, crate::rt::Sleep)>,
}

impl Alarm {
    pub(super) fn new() -> Self {
        Self { sleep: None }
    }

    /// Ready when the time is `at`.
    pub(super) fn poll(&mut self, rt: &crate::rt::Rt, at: Option<SimTime>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = at else { return Poll::Pending };
        if self.sleep.as_ref().is_none_or(|(set, _)| *set != at) {
            self.sleep = Some((at, rt.sleep_until(at)));
        }
        let Some((_, sleep)) = &mut self.sleep else { return Poll::Pending };
        Pin::new(sleep).poll(cx)
    }
}
