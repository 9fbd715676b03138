//! The auto pools of third-party controllers, which agents make because the controller does not watch such workloads (A §2.2, §8.4).

use super::attempt::Add;
use crate::ipam::caches::Caches;
use crate::ipam::error::IpamError;
use crate::ipam::observer::Observer;
use crate::ranges::{IpSet, IpVersion};
use crate::select::{SelectError, SubnetRequest, Workload};
use crate::subnet::{Application, AutoPools, Demand, ReconcileError, Want};
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::race::{Either, race};
use kube_machinery::time_limit::TimeLimited;

impl<C: Client, V: Env, K: Caches, O: Observer> Add<'_, C, V, K, O> {
    /// Whether only agents make the pools of this pod.
    pub(super) fn makes_its_pools(&self) -> bool {
        self.controller.workload == Workload::ThirdParty
    }

    /// Brings the pools that this pod asks for on this NIC to their desired state, as other agents may do at this moment, and returns
    /// whether they are in it now. The caches show them a little later.
    ///
    /// # Errors
    /// It cannot be done, and waiting does not help.
    pub(super) async fn make_pools(&self) -> Result<bool, IpamError> {
        let Some(application) = Application::of(&self.controller) else { return Err(SelectError::SubnetOrphanPod.into()) };
        let agent = self.op.agent;
        let policy = *self.op.policy();
        let asked = SubnetRequest::of(&self.pod, &self.request.nic, &self.controller)?;
        let lowest_first = policy.subnet_shrinks_lowest;
        let client = TimeLimited::new(agent.client.clone(), agent.config.settings.request_timeout);
        let auto_pools = AutoPools { client, env: agent.env.clone(), observer: (), policy, lowest_first };
        let none = IpSet::default();
        let mut made = true;
        for family in IpVersion::ALL.into_iter().filter(|family| agent.config.settings.select.enables(*family)) {
            let Some(demand) = Demand::of_pod(&asked, &self.request.nic, family) else { continue };
            let reservations = self.op.reservations(family);
            let reserved = reservations.set.as_ref().unwrap_or(&none);
            let want = Want { application: &application, demand: &demand };
            let left = self.op.left();
            let result = match race(auto_pools.reconcile(want, reserved), agent.env.sleep(left)).await {
                Either::Left(result) => result,
                Either::Right(()) => return Err(IpamError::OutOfTime),
            };
            match result {
                Ok(_) => {}
                Err(ReconcileError::Raced) => made = false,
                Err(ReconcileError::Refused(refusal)) if refusal.may_pass() => made = false,
                Err(ReconcileError::Api(error)) if error.is_ambiguous() && !policy.reads_once => made = false,
                Err(_) => return Err(SelectError::SubnetReconcileFailed { subnet: demand.subnet.clone(), family }.into()),
            }
        }
        Ok(made)
    }
}
