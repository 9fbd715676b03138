//! Etcd, as far as API servers notice it (K §3.4).

use std::future::Future;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use super::{Cluster, State};

/// The time for which an API server tolerates a leaderless etcd: etcd cancels its watches after 3 election time-outs, and it retries them
/// for 30 s (K §3.4).
const LEADER_LOSS_MAX: Duration = Duration::from_secs(33);

/// The reason why etcd does not answer (K §3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtcdOutage {
    /// Etcd is paused (a slow disk): requests wait and go on.
    Paused,
    /// A leader is being elected: requests wait; some are answered with `leader changed` although they commit.
    Electing,
    /// No majority: requests fail after etcd's own time-out; some commit when the majority is back.
    NoQuorum,
}

#[derive(Default)]
pub(crate) struct Etcd {
    pub outage: Option<EtcdOutage>,
    /// The number of times that the outage has changed.
    changes: u32,
    /// Whether every step takes as long as on an overloaded disk.
    pub degraded: bool,
    /// Whether its database has reached its quota (K163).
    pub out_of_space: bool,
    waiting: Vec<Waker>,
}

impl Etcd {
    pub(crate) fn is_degraded(&self) -> bool {
        self.degraded
    }
}

impl State {
    pub(super) fn wake_etcd_waiters(&mut self) {
        for waker in self.etcd.waiting.drain(..) {
            waker.wake();
        }
    }

    /// Whether requests through `server` reach etcd.
    pub fn reaches_etcd(&self, server: usize) -> bool {
        self.etcd.outage.is_none() && !self.servers[server].etcd_cut
    }
}

impl Cluster {
    /// Completes when requests through `server` reach etcd.
    pub fn etcd_reached(self: &Arc<Self>, server: usize) -> impl Future<Output = ()> + Send + 'static {
        let cluster = self.clone();
        std::future::poll_fn(move |cx| {
            let mut state = cluster.lock();
            if state.reaches_etcd(server) {
                return Poll::Ready(());
            }
            state.etcd.waiting.push(cx.waker().clone());
            Poll::Pending
        })
    }

    /// Stops etcd, or makes it work again. After more than half a minute without a majority, every watch cache starts again (K §3.4).
    pub fn set_etcd_outage(self: &Arc<Self>, outage: Option<EtcdOutage>) {
        let mut state = self.lock();
        state.etcd.outage = outage;
        state.etcd.changes += 1;
        state.wake_etcd_waiters();
        if outage == Some(EtcdOutage::NoQuorum) {
            let (cluster, number) = (self.clone(), state.etcd.changes);
            self.rt.at(self.rt.now() + LEADER_LOSS_MAX, move || {
                let servers = if cluster.lock().etcd.changes == number { cluster.servers() } else { 0 };
                for server in 0..servers {
                    cluster.forget_history(server, None);
                }
            });
        }
    }

    /// Makes every step that needs etcd take as long as on an overloaded disk, or no longer.
    pub fn set_etcd_degraded(&self, degraded: bool) {
        self.lock().etcd.degraded = degraded;
    }

    /// Makes the database of etcd reach its quota; `false` = an operator has made room and disarmed the alarm (K163).
    pub fn set_etcd_out_of_space(&self, out_of_space: bool) {
        self.lock().etcd.out_of_space = out_of_space;
    }
}
