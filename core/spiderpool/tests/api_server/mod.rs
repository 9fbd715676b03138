//! An API server in memory for tests: its objects and rules are those of [`Objects`]. No admission.
//!
//! A script may decide the fate of each request: that the third write hangs, or commits when the test says so, at exactly that request.
//! This is why this small server exists beside the simulated cluster, whose faults are drawn at random and take time.
//!
//! Caches of an agent are the server's state, or a frozen state.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ipam_spiderpool::ipam::Caches;
use ipam_spiderpool::reclaim;
use ipam_spiderpool::select::Cluster;
use ipam_spiderpool::{SpiderEndpoint, SpiderIPPool, SpiderReservedIP, SpiderSubnet};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube_machinery::api::{ApiError, Call, Object, ObjectKey, Reason, Reply, Request, Status, TransportError, WatchOptions};
use kube_machinery::client::Client;
use kube_machinery::env::{Env, Task};
use kube_machinery::testing::{Objects, TestWatch};
use serde_json::Value;

/// The fate of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "each test has its own needs")]
pub(crate) enum Deed {
    /// Carries it out, and answers.
    Serve,
    /// Answers that the connection was refused.
    Refuse,
    /// Carries it out, and loses the answer.
    LoseReply,
    /// Carries it out, and answers a second copy of it.
    ServeTwice,
    /// Loses the answer; the request is carried out when [`World::deliver`] is called.
    Later,
    /// Never answers, and does nothing.
    Hang,
    /// Carries it out, and never answers.
    ServeAndHang,
}

/// Calls that fail, as in recorded answers: the operation, whether the read is from a cache, kind, key or `*`, and the error.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) op: String,
    pub(crate) cached: bool,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) reason: Reason,
}

type Script = Box<dyn FnMut(&str, &World) -> Deed + Send>;
type Delayed = Box<dyn FnOnce(&World) + Send>;

/// The server. Clones share its state.
#[derive(Clone)]
pub(crate) struct World {
    objects: Arc<Mutex<Objects>>,
    script: Arc<Mutex<Option<Script>>>,
    delayed: Arc<Mutex<Vec<Delayed>>>,
    log: Arc<Mutex<Vec<String>>>,
    faults: Arc<Mutex<Vec<Fault>>>,
    /// The number of requests without a deadline.
    endless: Arc<Mutex<u32>>,
}

/// Kinds of Spiderpool that have no `/status`.
const WITHOUT_STATUS: [&str; 2] = ["SpiderEndpoint", "SpiderReservedIP"];

/// The constant time of the server's clock.
const NOW: Timestamp = Timestamp::constant(1_767_225_600, 250_000_000);

impl Default for World {
    fn default() -> Self {
        Self::of(Objects::new(&WITHOUT_STATUS))
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

fn error(reason: Reason) -> ApiError {
    Status::new(reason, "").into()
}

#[allow(dead_code, reason = "each test has its own needs")]
impl World {
    /// Sets `script` to decide the fate of each request, given verb and kind.
    pub(crate) fn script(&self, script: impl FnMut(&str, &World) -> Deed + Send + 'static) {
        *self.script.lock().unwrap() = Some(Box::new(script));
    }

    /// From now on the outcome of a `write` that is carried out stays unknown, because each `read` after it fails, too.
    pub(crate) fn keep_unknown(&self, write: &'static str, read: &'static str) {
        let mut written = false;
        self.script(move |name, _| {
            written |= name == write;
            match name {
                _ if name == write => Deed::LoseReply,
                _ if name == read && written => Deed::Refuse,
                _ => Deed::Serve,
            }
        });
    }

    /// From now on all requests are served.
    pub(crate) fn serve_all(&self) {
        *self.script.lock().unwrap() = None;
    }

    /// Lets these calls fail from now on.
    pub(crate) fn fail(&self, faults: Vec<Fault>) {
        *self.faults.lock().unwrap() = faults;
    }

    fn failure(&self, op: &str, cached: bool, kind: &str, name: &str) -> Result<(), ApiError> {
        let faults = self.faults.lock().unwrap();
        let hit = faults.iter().find(|fault| {
            (fault.op.as_str(), fault.cached, fault.kind.as_str()) == (op, cached, kind) && ["*", name].contains(&&*fault.name)
        });
        hit.map_or(Ok(()), |fault| Err(error(fault.reason)))
    }

    /// Carries out the delayed requests in order of arrival.
    pub(crate) fn deliver(&self) {
        let delayed = std::mem::take(&mut *self.delayed.lock().unwrap());
        delayed.into_iter().for_each(|call| call(self));
    }

    /// The requests since the last call, as verb and kind.
    pub(crate) fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    /// The number of requests without a deadline.
    pub(crate) fn endless(&self) -> u32 {
        *self.endless.lock().unwrap()
    }

    fn of(objects: Objects) -> Self {
        let (script, delayed, log, faults, endless) = Default::default();
        Self { objects: Arc::new(Mutex::new(objects)), script, delayed, log, faults, endless }
    }

    /// A state that no longer changes.
    pub(crate) fn frozen(&self) -> World {
        Self::of(self.objects.lock().unwrap().frozen())
    }

    /// The revision of the latest change.
    pub(crate) fn revision(&self) -> u64 {
        self.objects.lock().unwrap().revision()
    }

    pub(crate) fn find<K: Object>(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.objects.lock().unwrap().get(key)
    }

    fn list<K: Object>(&self) -> Vec<Arc<K>> {
        self.objects.lock().unwrap().all()
    }

    pub(crate) fn all<K: Object>(&self) -> Vec<K> {
        self.list().into_iter().map(Arc::unwrap_or_clone).collect()
    }

    /// Stores an object as it is, under its kind.
    pub(crate) fn put(&self, value: Value) {
        self.objects.lock().unwrap().put(value);
    }

    /// Changes a stored object; returns whether it exists.
    pub(crate) fn change(&self, kind: &str, key: &ObjectKey, change: impl FnOnce(&mut Value)) -> bool {
        self.objects.lock().unwrap().change(kind, key, change)
    }

    /// Removes an object without a trace.
    pub(crate) fn vanish(&self, kind: &str, key: &ObjectKey) {
        self.objects.lock().unwrap().remove(kind, key);
    }

    /// Carries out a request of another client.
    pub(crate) fn call<K: Object>(&self, call: &Call<K>) -> Result<Reply<K>, ApiError> {
        self.objects.lock().unwrap().serve(call, NOW)
    }
}

impl Client for World {
    type Watch<K: Object> = TestWatch<K>;

    async fn send<K: Object>(&self, request: Request<K>) -> Result<Reply<K>, ApiError> {
        let call = request.call;
        let status = matches!(call, Call::Update { subresource: Some(_), .. });
        let kind = K::kind(&());
        let name = format!("{} {kind}{}", call.verb(), if status { "/status" } else { "" });
        self.log.lock().unwrap().push(name.clone());
        *self.endless.lock().unwrap() += u32::from(request.timeout.is_none());
        let script = self.script.lock().unwrap().take();
        let deed = match script {
            Some(mut script) => {
                let deed = script(&name, self);
                let slot = &mut *self.script.lock().unwrap();
                if slot.is_none() {
                    *slot = Some(script);
                }
                deed
            }
            None => Deed::Serve,
        };
        let about = match &call {
            Call::Get { key, .. } | Call::Update { key, .. } | Call::Patch { key, .. } | Call::Delete { key, .. } => key.to_string(),
            Call::List { .. } | Call::Create { .. } => "*".to_owned(),
        };
        let op = if status { "update-status" } else { call.verb().as_str() };
        self.failure(op, false, &kind, &about)?;
        match deed {
            Deed::Serve => self.call(&call),
            Deed::Refuse => Err(TransportError::Refused.into()),
            Deed::ServeTwice => {
                let _ = self.call(&call);
                self.call(&call)
            }
            Deed::LoseReply => {
                let _ = self.call(&call);
                Err(TransportError::Reset.into())
            }
            Deed::Later => {
                self.delayed.lock().unwrap().push(Box::new(move |world| drop(world.call(&call))));
                Err(TransportError::Deadline.into())
            }
            Deed::Hang => std::future::pending().await,
            Deed::ServeAndHang => {
                let _ = self.call(&call);
                std::future::pending().await
            }
        }
    }

    async fn watch<K: Object>(&self, namespace: Option<Arc<str>>, options: WatchOptions) -> Result<TestWatch<K>, ApiError> {
        Ok(self.objects.lock().unwrap().watch(namespace.as_deref(), &options))
    }
}

macro_rules! found {
    ($($method:ident($($argument:ident),*) -> $type:ty, $key:expr;)*) => {
        $(fn $method(&self, $($argument: &str),*) -> Option<Arc<$type>> {
            self.find(&$key)
        })*
    };
}

/// Caches that are the server's state.
impl Cluster for World {
    found! {
        namespace(name) -> Namespace, ObjectKey::cluster(name);
        node(name) -> Node, ObjectKey::cluster(name);
        pool(name) -> SpiderIPPool, ObjectKey::cluster(name);
        subnet(name) -> SpiderSubnet, ObjectKey::cluster(name);
        replica_set(namespace, name) -> ReplicaSet, ObjectKey::namespaced(namespace, name);
        deployment(namespace, name) -> Deployment, ObjectKey::namespaced(namespace, name);
        stateful_set(namespace, name) -> StatefulSet, ObjectKey::namespaced(namespace, name);
        daemon_set(namespace, name) -> DaemonSet, ObjectKey::namespaced(namespace, name);
        job(namespace, name) -> Job, ObjectKey::namespaced(namespace, name);
        cron_job(namespace, name) -> CronJob, ObjectKey::namespaced(namespace, name);
    }

    fn for_each_pool(&self, visit: &mut dyn FnMut(&Arc<SpiderIPPool>)) {
        self.list().iter().for_each(visit);
    }

    fn for_each_reserved_ip(&self, visit: &mut dyn FnMut(&Arc<SpiderReservedIP>)) {
        self.list().iter().for_each(visit);
    }
}

impl Caches for World {
    fn pod(&self, key: &ObjectKey) -> Option<Arc<Pod>> {
        self.find(key)
    }

    fn endpoint(&self, key: &ObjectKey) -> Option<Arc<SpiderEndpoint>> {
        self.find(key)
    }
}

/// Caches of a replica that are the server's state.
impl reclaim::Caches for World {
    fn pod(&self, key: &str) -> Result<Option<Arc<Pod>>, ApiError> {
        self.failure("get", true, "Pod", key)?;
        Ok(key.split_once('/').and_then(|(namespace, name)| self.find(&ObjectKey::namespaced(namespace, name))))
    }

    fn pod_of_vm(&self, uid: &str) -> Result<Option<Arc<Pod>>, ApiError> {
        self.failure("list", true, "Pod", "*")?;
        Ok(self.list::<Pod>().into_iter().find(|pod| pod.metadata.uid.as_deref() == Some(uid)))
    }

    fn node(&self, name: &str) -> Result<Option<Arc<Node>>, ApiError> {
        self.failure("get", true, "Node", name)?;
        Ok(self.find(&ObjectKey::cluster(name)))
    }

    fn endpoint(&self, key: &str) -> Result<Option<Arc<SpiderEndpoint>>, ApiError> {
        self.failure("get", true, "SpiderEndpoint", key)?;
        Ok(key.split_once('/').and_then(|(namespace, name)| self.find(&ObjectKey::namespaced(namespace, name))))
    }

    fn endpoints(&self) -> Result<Vec<Arc<SpiderEndpoint>>, ApiError> {
        self.failure("list", true, "SpiderEndpoint", "*")?;
        Ok(self.list())
    }

    fn pools(&self) -> Result<Vec<Arc<SpiderIPPool>>, ApiError> {
        self.failure("list", true, "SpiderIPPool", "*")?;
        Ok(self.list())
    }

    fn runs_until(&self, _: &str) -> Option<Timestamp> {
        None
    }
}

/// A clock that moves only when a task sleeps, and then immediately.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hurry {
    now: Arc<Mutex<Duration>>,
    /// The start of the wall clock.
    began: Arc<Mutex<Timestamp>>,
    random: Arc<Mutex<u64>>,
}

#[allow(dead_code, reason = "each test has its own needs")]
impl Hurry {
    /// A clock that starts at this time.
    pub(crate) fn at(began: Timestamp) -> Self {
        Self { began: Arc::new(Mutex::new(began)), ..Self::default() }
    }

    /// Lets time pass; nothing happens in it by itself.
    pub(crate) fn pass(&self, duration: Duration) {
        *self.now.lock().unwrap() += duration;
    }
}

/// A task handle that runs nothing.
#[derive(Debug)]
pub(crate) struct NoTask;

impl Task for NoTask {
    fn abort(&self) {}
}

impl Env for Hurry {
    type Task = NoTask;

    fn monotonic(&self) -> Duration {
        *self.now.lock().unwrap()
    }

    fn wall(&self) -> jiff::Timestamp {
        *self.began.lock().unwrap() + jiff::SignedDuration::try_from(*self.now.lock().unwrap()).unwrap()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static {
        let env = self.clone();
        async move { env.pass(duration) }
    }

    fn spawn(&self, _: impl Future<Output = ()> + Send + 'static) -> NoTask {
        unreachable!("an agent runs no task of its own")
    }

    fn random(&self) -> u64 {
        let mut random = self.random.lock().unwrap();
        *random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        *random >> 11
    }

    fn crash(&self, reason: &str) -> ! {
        panic!("the process crashes: {reason}")
    }
}

/// Runs a future until it waits for another party; `None` = it hangs, and is dropped.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
