//! A value whose changes can be awaited; only its latest state counts.
//!
//! Like `tokio::sync::watch`, except that waiting tasks are woken in the order in which they began to wait. Tokio spreads them over several
//! lists at random, so that one run of a program differs from the next.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

/// Sets the value. Dropping it ends every wait.
#[derive(Debug)]
pub struct Sender<T>(Arc<Shared<T>>);

/// Reads the value and waits for its changes.
#[derive(Debug)]
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The version of the value that this receiver saw last.
    seen: u64,
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<T> {
    value: T,
    /// The number of times the value was set.
    version: u64,
    closed: bool,
}

/// The sender was dropped, so the value can no longer be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// A value and its first receiver.
pub fn channel<T: Clone>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

impl<T: Clone> Sender<T> {
    /// A value without receivers.
    pub fn new(value: T) -> Self {
        let state = State { value, version: 0, closed: false };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Notify::new() }))
    }

    /// A receiver that has seen the current value.
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver { shared: self.0.clone(), seen: self.0.state.lock().unwrap().version }
    }

    /// Sets the value and wakes all waiting receivers.
    pub fn send_replace(&self, value: T) {
        {
            let mut state = self.0.state.lock().unwrap();
            state.value = value;
            state.version += 1;
        }
        self.0.changed.notify_waiters();
    }

    /// Sets the value and wakes all waiting receivers, unless it already has that value.
    pub fn set(&self, value: T)
    where
        T: PartialEq,
    {
        let changed = self.0.state.lock().unwrap().value != value;
        if changed {
            self.send_replace(value);
        }
    }

    /// A copy of the value that was set last, or of the first one.
    pub fn get(&self) -> T {
        self.0.state.lock().unwrap().value.clone()
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.state.lock().unwrap().closed = true;
        self.0.changed.notify_waiters();
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), seen: self.seen }
    }
}

impl<T: Clone> Receiver<T> {
    /// A copy of the latest value, even after the sender was dropped. Does not mark it as seen.
    pub fn get(&self) -> T {
        self.shared.state.lock().unwrap().value.clone()
    }

    /// Marks the current value as seen.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.shared.state.lock().unwrap().version;
    }

    /// Completes when the value was set since this receiver last saw it. Dropping this future loses nothing.
    ///
    /// # Errors
    /// The value was not set, and the sender was dropped.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            // Registered before the check, so that it is notified of every later change.
            let changed = self.shared.changed.notified();
            {
                let state = self.shared.state.lock().unwrap();
                if state.version != self.seen {
                    self.seen = state.version;
                    return Ok(());
                }
                if state.closed {
                    return Err(Closed);
                }
            }
            changed.await;
        }
    }

    /// Completes with the value once it satisfies `wanted`.
    ///
    /// # Errors
    /// It does not, and the sender was dropped.
    pub async fn wait_for(&mut self, wanted: impl Fn(&T) -> bool) -> Result<T, Closed> {
        loop {
            let changed = self.shared.changed.notified();
            {
                let state = self.shared.state.lock().unwrap();
                self.seen = state.version;
                if wanted(&state.value) {
                    return Ok(state.value.clone());
                }
                if state.closed {
                    return Err(Closed);
                }
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::env::Env;
    use crate::testing::TestEnv;

    #[test]
    fn those_who_wait_are_woken_in_the_order_in_which_they_began() {
        let env = TestEnv::new();
        let (sender, receiver) = channel(0);
        let woken = Arc::new(Mutex::new(Vec::new()));
        for number in 0..20 {
            let (mut receiver, woken) = (receiver.clone(), woken.clone());
            env.spawn(async move {
                receiver.changed().await.unwrap();
                woken.lock().unwrap().push(number);
            });
        }
        env.advance(Duration::from_secs(1));
        sender.send_replace(1);
        env.advance(Duration::from_secs(1));
        assert_eq!(*woken.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn a_change_before_the_wait_counts_and_a_wait_ends_with_the_sender() {
        let env = TestEnv::new();
        let (sender, mut receiver) = channel(0);
        sender.send_replace(1);
        assert_eq!(env.block_on(receiver.changed()), Ok(()));
        assert_eq!(env.block_on(receiver.clone().wait_for(|value| *value == 1)), Ok(1));
        receiver.mark_unchanged();
        drop(sender);
        assert_eq!(env.block_on(receiver.changed()), Err(Closed));
        assert_eq!(env.block_on(receiver.wait_for(|value| *value == 2)), Err(Closed));
        assert_eq!(receiver.get(), 1);
    }
}
