//! StartVM: giving a VM to a pod (B §2.1).

use std::time::Duration;

use super::adaptor::Adaptor;
use super::proxy::AgentProxy;
use super::sandbox::Sandbox;
use crate::address::Address;
use crate::allocation::IpAllocation;
use crate::error::{NotOwned, PoolError};
use crate::instance::Instance;
use crate::observer::{Observer, Releaser, StartStep, Step};
use crate::outcome::Context;
use crate::owners::Owners;
use crate::seconds::Seconds;
use crate::start_error::StartError;
use crate::vm::VmAccess;
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::latest;
use kube_machinery::race::{Either, race};

impl<C: Client, V: Env, M: VmAccess, A: AgentProxy, B: Observer> Adaptor<C, V, M, A, B> {
    /// StartVM. Must be polled to its end even if the caller is gone: the caller's deadline is in the `context`.
    ///
    /// ```text
    ///   record ── PeerPod ── record still there? ── user data ── tunnel, proxy ── agent ready ──► running
    ///     └──────────┴──────── roll back ──┴───────────┘             └── clean up ──┘
    /// ```
    ///
    /// A start that fails is rolled back under the allocation ID, within a time limit that does not depend on the caller. Whatever cannot
    /// be taken back now is left to the controller, in the form of a PeerPod that is being deleted. Then the sandbox has no instance.
    /// Upstream keeps it, so that the StopVM that follows releases whatever holds the address by then (B S5, W9).
    ///
    /// # Errors
    /// The VM was not given to the pod.
    ///
    /// # Panics
    /// If upstream's process crashes here ([`Env::crash`], B W18).
    pub async fn start_vm(&self, sandbox: &Sandbox, context: Context) -> Result<Instance, StartError> {
        let stopped = self.owners().sandboxes().begin(sandbox);
        let result = self.make(sandbox, stopped, context).await;
        self.owners().sandboxes().end(sandbox);
        result
    }

    async fn make(&self, sandbox: &Sandbox, stopped: latest::Receiver<bool>, context: Context) -> Result<Instance, StartError> {
        let id = sandbox.allocation_id();
        let created = self.pool.create_instance(&id, &sandbox.pod, &sandbox.user_data, context).await.or_crash(self.env());
        let failed = |step, error| {
            self.owners().observe(Step::StartFailed { id: &id, step, error: &error });
            Err(error)
        };
        let instance = match created {
            Ok(instance) => instance,
            Err(PoolError::NotOwned(NotOwned::Unwanted)) => return failed(StartStep::Stopped, StartError::Stopped),
            Err(error) => return failed(StartStep::Instance, StartError::Instance(error)),
        };
        if self.policy().owner_recorded_late {
            self.own_late(sandbox, &instance, context).await;
        }
        if let Some(entry) = self.owners().sandboxes().get(&sandbox.id) {
            entry.instance = Some(instance.clone());
        }
        match self.connect(sandbox, &instance.address, stopped, context).await {
            Ok(()) => {
                self.owners().observe(Step::Running { id: &id, address: &instance.address });
                Ok(instance)
            }
            Err((step, error)) => {
                let error = failed(step, error);
                self.clean_up(sandbox, &instance).await;
                error
            }
        }
    }

    /// Writes the PeerPod late, like upstream (B S1).
    async fn own_late(&self, sandbox: &Sandbox, instance: &Instance, context: Context) {
        let record = IpAllocation {
            allocation_id: instance.allocation_id.clone(),
            ip: instance.address.clone(),
            node_name: self.pool.settings().node.clone().unwrap_or_default(),
            pod_name: sandbox.pod.name.clone(),
            pod_namespace: Some(sandbox.pod.namespace.clone()),
            allocated_at: Seconds::new(self.env().wall()),
        };
        self.owners().own_late(sandbox, &record, context).await;
    }

    /// B S3 and S4, until the time limit of the agent or of the caller is reached, or the sandbox is stopped.
    async fn connect(
        &self,
        sandbox: &Sandbox,
        address: &Address,
        mut stopped: latest::Receiver<bool>,
        context: Context,
    ) -> Result<(), (StartStep, StartError)> {
        let connect = async {
            self.proxy.set_up(sandbox, address).await.map_err(|error| (StartStep::SetUp, StartError::SetUp(error)))?;
            self.proxy.ready(sandbox, address).await.map_err(|error| (StartStep::Agent, StartError::Agent(error)))
        };
        let overlooked = self.policy().stop_overlooks_start;
        let stop = async {
            // An error means that nothing is left to stop it.
            if overlooked || stopped.wait_for(|stopped| *stopped).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let left: Option<Duration> = context.deadline.map(|deadline| deadline.saturating_sub(self.env().monotonic()));
        let limit = left.map_or(self.agent_timeout, |left| left.min(self.agent_timeout));
        // If both are ready, the StopVM takes precedence.
        match race(stop, race(connect, self.env().sleep(limit))).await {
            Either::Left(()) => Err((StartStep::Stopped, StartError::Stopped)),
            Either::Right(Either::Left(result)) => result,
            Either::Right(Either::Right(())) if limit < self.agent_timeout => Err((StartStep::Agent, StartError::CallerGone)),
            Either::Right(Either::Right(())) => Err((StartStep::Agent, StartError::AgentTimeout)),
        }
    }

    /// Releases the VM of a failed start, then its PeerPod (B S5).
    async fn clean_up(&self, sandbox: &Sandbox, instance: &Instance) {
        self.proxy.shut_down(sandbox).await;
        let released = self.pool.delete_instance(Some(instance), Releaser::CleanUp, Context::BACKGROUND).await;
        let released = released.or_crash(self.env()).is_ok();
        self.owners().release_peer_pod(sandbox, released, Context::BACKGROUND).await;
        if !self.policy().release_by_address
            && let Some(entry) = self.owners().sandboxes().get(&sandbox.id)
        {
            entry.instance = None;
        }
    }
}
