//! The client of an adaptor that takes a moment between an answer and its next request.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ipam_byom::{Address, Reboot, VmAccess, VmError};
use kube_machinery::api::{ApiError, Object, Reply, Request, WatchOptions};
use kube_machinery::{Client, Env};
use kube_sim::env::SimEnv;
use kube_sim::net::Sampler;
use kube_sim::rt::Rt;
use parking_lot::Mutex;
use sim_config::draw::Draw;
use sim_config::time::SimTime;

use crate::workload::pods::machines::REBOOT_TIMEOUT;

/// The time of a process's last answer.
///
/// A request at that very moment depends on the answer, and takes thinking time. After a sleep the process already knows its next request.
#[derive(Clone)]
pub(super) struct Learned {
    rt: Rt,
    at: Arc<AtomicU64>,
}

impl Learned {
    /// For a process that has no answer yet, and so does not think before its first request.
    pub(super) fn nothing(rt: &Rt) -> Self {
        Self { rt: rt.clone(), at: Arc::new(AtomicU64::new(SimTime::NEVER.as_micros())) }
    }

    fn now(&self) {
        self.at.store(self.rt.now().as_micros(), Ordering::Relaxed);
    }

    fn just_now(&self) -> bool {
        self.at.load(Ordering::Relaxed) == self.rt.now().as_micros()
    }
}

/// A client that thinks before each request that follows an answer.
#[derive(Clone)]
pub(super) struct Thinking<C> {
    pub(super) client: C,
    pub(super) env: SimEnv,
    pub(super) think: Duration,
    pub(super) learned: Learned,
}

impl<C: Client> Client for Thinking<C> {
    type Watch<K: Object> = C::Watch<K>;

    async fn send<K: Object>(&self, request: Request<K>) -> Result<Reply<K>, ApiError> {
        if !self.think.is_zero() && self.learned.just_now() {
            self.env.sleep(self.think).await;
        }
        let result = self.client.send(request).await;
        self.learned.now();
        result
    }

    fn watch<K: Object>(
        &self,
        namespace: Option<Arc<str>>,
        options: WatchOptions,
    ) -> impl Future<Output = Result<Self::Watch<K>, ApiError>> + Send {
        self.client.watch(namespace, options)
    }

    fn streams_lists(&self) -> bool {
        self.client.streams_lists()
    }
}

/// VMs that answer or not, and never serve a pod.
#[derive(Clone)]
pub(super) struct Dialed {
    pub(super) env: SimEnv,
    pub(super) dial: Sampler,
    pub(super) choices: Arc<Mutex<Draw>>,
    pub(super) dead: Arc<[Address]>,
    pub(super) learned: Learned,
}

impl VmAccess for Dialed {
    /// A dead VM does not answer.
    async fn probe(&self, address: &Address, timeout: Duration) -> Result<(), VmError> {
        let takes = self.dial.sample(self.choices.lock().unit());
        let dead = self.dead.iter().any(|dead| dead.key() == address.key());
        let (wait, result) = if dead || takes > timeout { (timeout, Err(VmError::Timeout)) } else { (takes, Ok(())) };
        self.env.sleep(wait).await;
        self.learned.now();
        result
    }

    async fn send_user_data(&self, _: &Address, _: &str, _: &Arc<str>, _: Option<Duration>) -> Result<(), VmError> {
        unreachable!("a burst allocates and releases, and starts nothing in a VM")
    }

    /// No VM has user data, so every VM that answers is clean.
    async fn reboot(&self, address: &Address, _: Option<&str>) -> Result<Reboot, VmError> {
        self.probe(address, REBOOT_TIMEOUT).await.map(|()| Reboot::Clean)
    }
}
