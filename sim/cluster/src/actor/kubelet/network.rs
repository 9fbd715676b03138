//! The network of a sandbox: ADD and DEL as Multus and the container runtime carry them out (K §5.3, A §2.4).
//!
//! ```text
//!   ADD eth0 ─► ADD net1 ─► … ─► ready
//!        └ fails ─► DEL of those of this ADD, in reverse order (Multus) ─► DEL of all (clean-up by the runtime)
//! ```

use std::net::IpAddr;
use std::sync::Arc;

use kube_machinery::Env;
use kube_machinery::race::{Either, race};
use sim_config::time::SimTime;

use super::Kubelet;
use crate::node::{AddFailure, PodNote};
use crate::node::{Attachment, Cni, CniError, CniFault, GC_EVERY, Owed, SandboxNumber, SandboxState};

impl<C: Cni> Kubelet<C> {
    /// Sets up the network of a sandbox: one ADD for each interface, in order.
    ///
    /// # Errors
    /// The error of the ADD that failed. Multus has called DEL for the interfaces so far; the sandbox still exists.
    pub(super) async fn attach(self: Arc<Self>, number: SandboxNumber) -> Result<(), CniError> {
        let Some(sandbox) = self.runtime.get(number) else { return Err(CniError::Killed) };
        for (position, nic) in sandbox.nics.iter().enumerate() {
            self.say(PodNote::AddAsked { sandbox: sandbox.id.clone(), nic: nic.clone() });
            self.runtime.with(number, |kept| kept.adding = Some(position));
            let result = self.call_add(sandbox.attachment(nic)).await;
            self.runtime.with(number, |kept| kept.adding = None);
            let error = match result {
                Ok(addresses) if self.runtime.with(number, |kept| kept.state == SandboxState::Creating) == Some(true) => {
                    self.runtime.attach(&self.cluster, number, position, addresses);
                    continue;
                }
                Ok(_) => CniError::TimedOut,
                Err(error) => error,
            };
            self.add_failed(&sandbox.id, nic, &error);
            for (position, nic) in sandbox.nics[..=position].iter().enumerate().rev() {
                self.runtime.detach(&self.cluster, number, position);
                // Multus only logs the result of this DEL.
                let _ = self.call_del(sandbox.attachment(nic)).await;
            }
            return Err(error);
        }
        self.runtime.with(number, |kept| {
            kept.added = true;
            kept.state = SandboxState::Ready;
        });
        Ok(())
    }

    /// Reports that an ADD failed.
    fn add_failed(&self, sandbox: &Arc<str>, nic: &Arc<str>, error: &CniError) {
        let why = match error {
            CniError::Refused(_) => AddFailure::Refused,
            CniError::Killed => AddFailure::Killed,
            CniError::TimedOut => AddFailure::TooLate,
        };
        self.say(PodNote::AddFailed { sandbox: sandbox.clone(), nic: nic.clone(), why });
    }

    /// Ends a sandbox: DEL for each of its interfaces, the last first, and then the network namespace is removed (K §5.2 step 3). Returns
    /// whether it is gone; if not, a DEL failed, and this has to be called again.
    pub(super) async fn stop_sandbox(&self, number: SandboxNumber) -> bool {
        let Some(sandbox) = self.runtime.get(number) else { return true };
        // The caller of the plugin is gone: the kubelet crashed, or it killed the plugin.
        let adding = self.runtime.with(number, |kept| {
            // The container is stopped before the network is removed: nothing runs in the sandbox again, even if the kubelet crashes before
            // it is gone.
            kept.state = SandboxState::Dead;
            kept.adding.take()
        });
        if let Some(position) = adding.flatten() {
            self.add_failed(&sandbox.id, &sandbox.nics[position], &CniError::Killed);
        }
        let mut failed = false;
        for (position, nic) in sandbox.nics.iter().enumerate().rev() {
            // The main plugins take the interface down before they call the IPAM plugin (containernetworking/plugins #702).
            self.runtime.detach(&self.cluster, number, position);
            failed |= self.call_del(sandbox.attachment(nic)).await.is_err();
        }
        // Without the result of an ADD the runtime ignores the failure, and forgets the sandbox (K §5.3).
        if failed && sandbox.added {
            return false;
        }
        self.runtime.remove(&self.cluster, number);
        if !sandbox.nics.is_empty() && self.env.random_unit() < self.config.repeats_del.get() {
            let nowhere = |nic| Attachment { netns: false, ..sandbox.attachment(nic) };
            let attachments = sandbox.nics.iter().rev().map(nowhere).collect();
            self.runtime.owe(next_gc(self.cluster.rt.now()), Owed { attachments, times: 1, every: GC_EVERY });
        }
        true
    }

    /// Starts the DELs of forgotten sandboxes that are due.
    pub(super) fn pay_debts(self: &Arc<Self>) {
        while let Some((key, owed)) = self.runtime.take_owed(self.cluster.rt.now()) {
            let kubelet = self.clone();
            self.spawner.begin(async move {
                let mut failed = false;
                for attachment in owed.attachments {
                    failed |= kubelet.ask_del(attachment).await.is_err();
                }
                if !failed {
                    kubelet.runtime.settle(key, kubelet.cluster.rt.now());
                }
                None
            });
        }
    }

    async fn call_add(&self, attachment: Attachment) -> Result<Vec<IpAddr>, CniError> {
        let rt = &self.cluster.rt;
        match self.runtime.next_cni_fault(&self.cluster, true) {
            Some(CniFault::PluginKilled(after)) => match race(self.cni.add(attachment), rt.sleep(after)).await {
                Either::Left(result) => result,
                Either::Right(()) => Err(CniError::Killed),
            },
            Some(CniFault::AddSlow(by)) => {
                let result = self.cni.add(attachment).await;
                rt.sleep(by).await;
                result
            }
            _ => self.cni.add(attachment).await,
        }
    }

    async fn call_del(&self, attachment: Attachment) -> Result<(), CniError> {
        let (now, nowhere) = (self.cluster.rt.now(), || Attachment { netns: false, ..attachment.clone() });
        match self.runtime.next_cni_fault(&self.cluster, false) {
            Some(CniFault::DelLost) => {
                self.say(PodNote::InterfaceDown { sandbox: attachment.container.clone(), nic: attachment.nic.clone() });
                Ok(())
            }
            Some(CniFault::DelLate(by)) => {
                self.say(PodNote::InterfaceDown { sandbox: attachment.container.clone(), nic: attachment.nic.clone() });
                self.runtime.owe(now + by, Owed { attachments: vec![nowhere()], times: 1, every: GC_EVERY });
                Ok(())
            }
            Some(CniFault::DelRepeated(times, every)) => {
                let again = nowhere();
                self.ask_del(attachment).await?;
                self.runtime.owe(self.cluster.rt.now() + every, Owed { attachments: vec![again], times, every });
                Ok(())
            }
            _ => self.ask_del(attachment).await,
        }
    }

    async fn ask_del(&self, attachment: Attachment) -> Result<(), CniError> {
        let (sandbox, nic) = (attachment.container.clone(), attachment.nic.clone());
        self.say(PodNote::DelAsked { sandbox: sandbox.clone(), nic: nic.clone(), netns: attachment.netns });
        let result = self.cni.del(attachment).await;
        self.say(PodNote::DelDone { sandbox, nic, failed: result.is_err() });
        result
    }
}

/// The time of the next garbage collection.
fn next_gc(now: SimTime) -> SimTime {
    let every = GC_EVERY.as_micros() as u64;
    SimTime::from_micros((now.as_micros() / every + 1) * every)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_collection_comes_round_every_minute() {
        assert_eq!(next_gc(SimTime::ZERO), SimTime::from_secs(60));
        assert_eq!(next_gc(SimTime::from_secs(59)), SimTime::from_secs(60));
        assert_eq!(next_gc(SimTime::from_secs(60)), SimTime::from_secs(120));
    }
}
