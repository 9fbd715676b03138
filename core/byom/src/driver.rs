//! The pool as a process uses it: its parts, its mutex, its time and its requests.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};

use super::allocation::IpAllocation;
use super::attempts::{Retry, is_verdict};
use super::config::PoolConfig;
use super::config_map::PoolConfigMap;
use super::decide::{Command, Decision, Found, Setting, decide};
use super::document::PoolDocument;
use super::error::PoolError;
use super::holders::Holders;
use super::outcome::{Context, Effort};
use super::owners::Owners;
use super::policy::Policy;
use super::seconds::Seconds;
use super::vm::VmAccess;
use kube_machinery::api::{ApiError, Call, Dry, ObjectKey, Reply, Request, TransportError};
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::json_text::JsonText;
use kube_machinery::race::{Either, race};

/// A process's settings for its pool.
#[derive(Clone, Debug)]
pub struct PoolSettings {
    /// The ConfigMap that holds the document.
    pub config_map: ObjectKey,
    /// The configured VMs (`VM_POOL_IPS`), as this process knows them; another process may be configured with others.
    pub config: PoolConfig,
    /// The node of the process; `None` = unknown.
    pub node: Option<Arc<str>>,
    /// The mutations that are on.
    pub policy: Policy,
    /// The retries of writes. [`Retry::of`] the policy, unless another policy is to be tried out.
    pub retry: Retry,
    /// Whether a VM is probed before it is handed out. Default yes.
    pub probes: bool,
    /// The time limit of an operation. Default 30 s.
    pub operation_timeout: Duration,
    /// The timeout of one request to the API server, so that one lost answer does not cost the operation. Default 5 s; upstream waits for
    /// as long as the operation may take.
    pub request_timeout: Option<Duration>,
    /// The interval at which a booting VM is asked whether it is done. Default 1 s.
    pub reboot_poll: Duration,
    /// The time that a record must be without an owner before it is released. Default 20 minutes: longer than a start (5 minutes) plus its
    /// clean-up (10 minutes) may take, and longer than a server's lists lack a PeerPod that its watch cache has lost (7.5 minutes, K182).
    pub leak_grace: Duration,
}

impl PoolSettings {
    /// The defaults for a policy.
    pub fn new(config_map: ObjectKey, config: PoolConfig, node: Option<Arc<str>>, policy: Policy) -> Self {
        Self {
            config_map,
            config,
            node,
            policy,
            retry: Retry::of(&policy),
            probes: true,
            operation_timeout: Duration::from_secs(30),
            request_timeout: (!policy.four_attempts).then_some(Duration::from_secs(5)),
            reboot_poll: Duration::from_secs(1),
            leak_grace: Duration::from_secs(20 * 60),
        }
    }
}

/// The pool as one process uses it. Clones are the same process: they share the mutex.
///
/// Every operation may be dropped at any point; requests that it has sent may still take effect.
#[derive(Debug)]
pub struct VmPool<C, V, M, O> {
    pub(super) client: C,
    pub(super) env: V,
    pub(super) vms: M,
    pub(super) owners: O,
    pub(super) settings: Arc<PoolSettings>,
    pub(super) holders: Holders,
    mutex: Arc<Mutex<()>>,
}

impl<C: Clone, V: Clone, M: Clone, O: Clone> Clone for VmPool<C, V, M, O> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            env: self.env.clone(),
            vms: self.vms.clone(),
            owners: self.owners.clone(),
            settings: self.settings.clone(),
            holders: self.holders.clone(),
            mutex: self.mutex.clone(),
        }
    }
}

/// The result of one Get.
pub(super) struct Snapshot(Option<Arc<PoolConfigMap>>);

impl Snapshot {
    /// Whether the ConfigMap does not exist.
    pub(super) fn is_absent(&self) -> bool {
        self.0.is_none()
    }

    pub(super) fn found(&self) -> Found<'_> {
        match self.0.as_deref().and_then(PoolConfigMap::document).map(JsonText::parse) {
            None => Found::Missing,
            Some(Err(error)) => Found::Unreadable(error),
            Some(Ok(document)) => Found::Document(document),
        }
    }
}

/// The time and the attempts that an operation has left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// The deadline by the monotonic clock; `None` = none.
    pub(super) deadline: Option<Duration>,
    tries: u32,
}

impl Budget {
    /// The time left; `None` = no limit.
    pub(super) fn left(&self, env: &impl Env) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_sub(env.monotonic()))
    }
}

impl<C: Client, V: Env, M: VmAccess, O: Owners> VmPool<C, V, M, O> {
    /// The pool of a process.
    pub fn new(client: C, env: V, vms: M, owners: O, settings: PoolSettings) -> Self {
        Self { client, env, vms, owners, settings: Arc::new(settings), holders: Holders::default(), mutex: Arc::default() }
    }

    /// The same process with other settings. Keeps the mutex.
    #[must_use]
    pub fn with_settings(self, settings: PoolSettings) -> Self {
        Self { settings: Arc::new(settings), ..self }
    }

    /// The settings of the process.
    pub fn settings(&self) -> &PoolSettings {
        &self.settings
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.settings.policy
    }

    /// A budget that starts now and ends no later than the caller's deadline.
    pub(super) fn budget(&self, context: Context) -> Budget {
        let own = self.env.monotonic() + self.settings.operation_timeout;
        Budget { deadline: Some(context.deadline.map_or(own, |deadline| deadline.min(own))), tries: 0 }
    }

    /// The budget of a caller without a deadline.
    pub(super) fn endless(&self) -> Budget {
        Budget { deadline: None, tries: 0 }
    }

    /// Runs an operation, in the hardened form no longer than its budget. Upstream notices that its time is over only when it makes a
    /// request.
    pub(super) async fn within<T>(
        &self,
        deadline: Option<Duration>,
        operation: impl Future<Output = Result<T, PoolError>> + Send,
    ) -> Result<T, PoolError> {
        let Some(deadline) = deadline.filter(|_| !self.policy().probe_in_critical_section) else { return operation.await };
        let left = deadline.saturating_sub(self.env.monotonic());
        match race(operation, self.env.sleep(left)).await {
            // A retryable error at the deadline: the operation failed for lack of time, whatever the last error was.
            Either::Left(Err(error))
                if error.of_request().is_some_and(|error| self.may_help(error)) && self.env.monotonic() >= deadline =>
            {
                Err(PoolError::OutOfTime)
            }
            Either::Left(result) => result,
            Either::Right(()) => Err(PoolError::OutOfTime),
        }
    }

    /// Locks the process's mutex; first come, first served.
    pub(super) async fn lock(&self, effort: &mut Effort) -> MutexGuard<'_, ()> {
        let since = self.env.monotonic();
        let guard = self.mutex.lock().await;
        effort.mutex_wait += self.env.monotonic().saturating_sub(since);
        guard
    }

    pub(super) fn now(&self) -> Seconds {
        self.env.wall().into()
    }

    pub(super) fn setting(&self) -> Setting<'_> {
        let settings = &*self.settings;
        Setting { config: &settings.config, policy: &settings.policy, now: self.now(), node: settings.node.as_ref() }
    }

    pub(super) fn decide(&self, snapshot: &Snapshot, command: Command<'_>) -> Decision {
        decide(snapshot.found(), command, self.setting())
    }

    async fn send(&self, call: Call<PoolConfigMap>, budget: &Budget) -> Result<Arc<PoolConfigMap>, ApiError> {
        let left = budget.left(&self.env);
        if left == Some(Duration::ZERO) {
            return Err(TransportError::Deadline.into());
        }
        let timeout = match (left, self.settings.request_timeout) {
            (Some(left), Some(limit)) => Some(left.min(limit)),
            (left, limit) => left.or(limit),
        };
        match self.client.send(Request { call, timeout }).await? {
            Reply::Object(object) => Ok(object),
            Reply::List(_) | Reply::Deleted { .. } => unreachable!("an API server answers get, create and update with an object"),
        }
    }

    /// One linearisable Get (B §1.4).
    pub(super) async fn read(&self, budget: &Budget, effort: &mut Effort) -> Result<Snapshot, ApiError> {
        effort.reads += 1;
        let call = Call::Get { key: self.settings.config_map.clone(), resource_version: None };
        match self.send(call, budget).await {
            Ok(object) => Ok(Snapshot(Some(object))),
            Err(error) if error.is_not_found() => Ok(Snapshot(None)),
            Err(error) => Err(error),
        }
    }

    /// Writes a document over the one that was read, guarded by its resourceVersion, or creates the ConfigMap.
    pub(super) async fn write(
        &self,
        snapshot: &Snapshot,
        document: JsonText<PoolDocument>,
        budget: &Budget,
        effort: &mut Effort,
    ) -> Result<(), ApiError> {
        effort.writes += 1;
        let key = &self.settings.config_map;
        let call = match &snapshot.0 {
            Some(object) => {
                let body = if self.policy().config_map_replaced {
                    object.replaced_by(key, document)
                } else {
                    PoolConfigMap::clone(object).with_document(document)
                };
                let body = Arc::new(body);
                Call::Update { key: key.clone(), body, subresource: None, dry: Dry::No }
            }
            None => {
                let body = PoolConfigMap::new(key, document);
                Call::Create { namespace: key.namespace().map(Arc::from), body: Arc::new(body), dry: Dry::No }
            }
        };
        self.send_write(call, budget, effort).await.map(drop)
    }

    /// Creates the ConfigMap without a document, so that one can be written to it.
    pub(super) async fn make_place(&self, budget: &Budget, effort: &mut Effort) -> Result<Snapshot, ApiError> {
        effort.writes += 1;
        let key = &self.settings.config_map;
        let body = Arc::new(PoolConfigMap::empty(key));
        let call = Call::Create { namespace: key.namespace().map(Arc::from), body, dry: Dry::No };
        self.send_write(call, budget, effort).await.map(|place| Snapshot(Some(place)))
    }

    async fn send_write(&self, call: Call<PoolConfigMap>, budget: &Budget, effort: &mut Effort) -> Result<Arc<PoolConfigMap>, ApiError> {
        let result = self.send(call, budget).await;
        if let Err(error) = &result {
            effort.conflicts += u32::from(error.is_conflict());
            effort.create_races += u32::from(error.is_already_exists());
        }
        result
    }

    /// Waits before the retry after `error`, if there is to be one.
    ///
    /// # Errors
    /// `error`, if a retry is useless or all attempts are used up.
    pub(super) async fn pause(&self, error: ApiError, budget: &mut Budget, effort: &mut Effort) -> Result<(), ApiError> {
        if !self.may_help(&error) || budget.left(&self.env) == Some(Duration::ZERO) {
            return Err(error);
        }
        budget.tries += 1;
        match self.settings.retry.sleep(budget.tries, || self.env.random_unit()) {
            Some(sleep) => {
                self.env.sleep(sleep).await;
                Ok(())
            }
            None => {
                effort.exhausted = true;
                Err(error)
            }
        }
    }

    /// Whether reading, deciding and writing again may help.
    ///
    /// In the hardened form it may after every error that does not reject the request itself. This also settles a write with an unknown
    /// outcome: either its record is found, or the next write carries the same resourceVersion, so that at most one of them takes effect.
    fn may_help(&self, error: &ApiError) -> bool {
        if error.is_conflict() {
            return true;
        }
        if error.is_already_exists() {
            return !self.policy().create_race_fails;
        }
        !self.policy().four_attempts && !is_verdict(error)
    }

    /// Upstream's only way to write (B §1.5): the document is made once, and each attempt fetches the current resourceVersion and
    /// overwrites whatever is there.
    pub(super) async fn overwrite(&self, document: PoolDocument, budget: &mut Budget, effort: &mut Effort) -> Result<(), ApiError> {
        let document = JsonText::from(document);
        loop {
            let snapshot = self.read(budget, effort).await?;
            match self.write(&snapshot, document.clone(), budget, effort).await {
                Ok(()) => return Ok(()),
                Err(error) => self.pause(error, budget, effort).await?,
            }
        }
    }

    /// The owners' current allocations, as records; fails if the owners are unknown.
    pub(super) async fn live_owners(&self) -> Result<Vec<IpAllocation>, PoolError> {
        Ok(self.owners.live().await?)
    }
}
