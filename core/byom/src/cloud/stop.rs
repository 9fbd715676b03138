//! StopVM: taking a pod's VM back (B §3.3).

use tokio::sync::oneshot;

use super::adaptor::Adaptor;
use super::proxy::AgentProxy;
use super::sandbox::{Sandbox, UnknownSandbox};
use crate::instance::Instance;
use crate::observer::{Observer, Releaser};
use crate::outcome::{Context, Released};
use crate::vm::VmAccess;
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::race::{Either, race};

/// The resources that a StopVM releases.
enum Held {
    Nothing,
    Instance(Instance),
    /// A StartVM is under way: whatever it has allocated by now.
    Unknown,
}

impl<C: Client, V: Env, M: VmAccess, A: AgentProxy, B: Observer> Adaptor<C, V, M, A, B> {
    /// StopVM. In the hardened form the caller's deadline ends only the caller's wait: the release has its own time limit, and failures are
    /// left to the controller. A StartVM that is under way gives up.
    ///
    /// # Errors
    /// The sandbox is unknown, for example because it was started by an earlier process; nothing is released (B X1). All other errors are
    /// only logged, as upstream, and the sandbox is forgotten (B X5).
    ///
    /// # Panics
    /// If upstream's process crashes here ([`Env::crash`], B W18), in the caller's task or in a spawned one.
    pub async fn stop_vm(&self, sandbox_id: &str, context: Context) -> Result<(), UnknownSandbox> {
        let (sandbox, held) = {
            let mut sandboxes = self.owners().sandboxes();
            let Some(entry) = sandboxes.known(sandbox_id) else { return Err(UnknownSandbox(sandbox_id.into())) };
            entry.stopped.send_replace(true);
            let held = match &entry.instance {
                Some(instance) => Held::Instance(instance.clone()),
                None if entry.starting && !self.policy().stop_overlooks_start => Held::Unknown,
                None => Held::Nothing,
            };
            (entry.sandbox.clone(), held)
        };
        if self.policy().stop_on_callers_deadline {
            self.stop(&sandbox, held, context).await;
            return Ok(());
        }
        let (done, wait) = oneshot::channel();
        let this = self.clone();
        self.env().spawn(async move {
            this.stop(&sandbox, held, Context::BACKGROUND).await;
            // The caller may no longer wait.
            let _ = done.send(());
        });
        // However the wait ends, the release goes on.
        let _ = match context.deadline.map(|deadline| deadline.saturating_sub(self.env().monotonic())) {
            Some(left) => race(wait, self.env().sleep(left)).await,
            None => Either::Left(wait.await),
        };
        Ok(())
    }

    /// Stops a sandbox (B X2 to X5).
    async fn stop(&self, sandbox: &Sandbox, held: Held, context: Context) {
        self.proxy.shut_down(sandbox).await;
        let released = match held {
            Held::Nothing => self.pool.delete_instance(None, Releaser::Stop, context).await,
            Held::Instance(instance) => self.pool.delete_instance(Some(&instance), Releaser::Stop, context).await,
            Held::Unknown => self.pool.release(&sandbox.allocation_id(), Releaser::Stop, context).await,
        };
        match released.or_crash(self.env()) {
            Ok(Released::NoInstance) if !self.policy().empty_id_counts_as_deleted => {}
            result => self.owners().release_peer_pod(sandbox, result.is_ok(), context).await,
        }
        self.owners().sandboxes().forget(sandbox);
    }
}
