//! The CNI plugin: a short-lived process on the node that calls the agent, and verifies that an address works (A §5.1).

use std::borrow::Cow;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::answer::AddAnswer;
use super::request::{AddRequest, BatchRequest, DelRequest};
use crate::Policy;
use crate::select::IpamConfig;
use kube_machinery::api::ObjectKey;

/// The plugin's timeout for an answer to ADD or DEL (A §10).
pub const PATIENCE: Duration = Duration::from_secs(100);

/// The connection to the agent of the node. Every method must end, at the latest when the request's deadline passes.
pub trait Connection: Send + Sync {
    /// Checks whether the agent answers (A P3).
    ///
    /// # Errors
    /// It does not.
    fn health(&self) -> impl Future<Output = Result<(), Unanswered>> + Send;

    /// ADD (A P4).
    ///
    /// # Errors
    /// The agent returns an error, or does not answer.
    fn add(&self, request: AddRequest) -> impl Future<Output = Result<AddAnswer, Unanswered>> + Send;

    /// DEL.
    ///
    /// # Errors
    /// The agent returns an error, or does not answer.
    fn del(&self, request: DelRequest) -> impl Future<Output = Result<(), Unanswered>> + Send;

    /// Batch release (A P7).
    ///
    /// # Errors
    /// The agent returns an error, or does not answer.
    fn release_ips(&self, request: BatchRequest) -> impl Future<Output = Result<(), Unanswered>> + Send;
}

/// The plugin's probes of the network.
pub trait Probe: Send + Sync {
    /// The addresses of the physical function of which a NIC of this sandbox is a virtual function (A §3, rule 11). Called only with
    /// `match_master_subnet`; empty = it is no virtual function, and no pool serves it.
    fn master(&self, nic: &str, container: &str) -> impl Future<Output = Arc<[IpAddr]>> + Send;

    /// Whether a host other than this sandbox answers on an address (A P6).
    fn answers(&self, address: IpAddr, container: &str) -> impl Future<Output = bool> + Send;
}

/// The agent did not answer, or returned an error.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Unanswered(pub Cow<'static, str>);

/// The reason why the plugin fails.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PluginError {
    /// The agent does not answer at all (A P3).
    #[error("the agent does not answer: {0}")]
    Unhealthy(Unanswered),
    /// The agent returned an error.
    #[error("{0}")]
    Agent(Unanswered),
    /// The answer has no address for the interface (A §2.4, §2.5).
    #[error("no allocation for interface {0}")]
    NoAddress(Arc<str>),
    /// Another host answers on an address (A P6).
    #[error("another host answers on {0}")]
    Conflict(IpAddr),
}

/// The parameters of a call of the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The sandbox that the interface is in.
    pub container_id: Arc<str>,
    /// The name of the interface in the sandbox, such as `eth0`.
    pub nic: Arc<str>,
    /// Namespace and name of the pod, as the runtime passes them.
    pub pod: ObjectKey,
    /// Its UID; empty on runtimes that do not pass it.
    pub pod_uid: Arc<str>,
}

/// The plugin: its configuration, and its connections to the agent and the network.
#[derive(Clone, Debug)]
pub struct Plugin<A, P> {
    /// The agent of the node.
    pub agent: A,
    /// The probe of the node's network.
    pub probe: P,
    /// The `ipam` part of the network configuration.
    pub cni: Arc<IpamConfig>,
    /// Whether addresses are probed before they are used (`enableIPConflictDetection`).
    pub detects_conflicts: bool,
    /// The mutations that are on.
    pub policy: Policy,
}

impl<A: Connection, P: Probe> Plugin<A, P> {
    /// ADD: the addresses of the interface. `now`: the time on the node's monotonic clock.
    ///
    /// # Errors
    /// The interface has no address. Records stay for the next try, or are released by DEL.
    pub async fn add(&self, call: Call, now: Duration) -> Result<Vec<IpAddr>, PluginError> {
        self.agent.health().await.map_err(PluginError::Unhealthy)?;
        let Call { container_id, nic, pod, pod_uid } = call;
        let master = if self.cni.match_master_subnet { self.probe.master(&nic, &container_id).await } else { Arc::default() };
        let request = AddRequest {
            container_id: container_id.clone(),
            nic: nic.clone(),
            pod: pod.clone(),
            pod_uid: pod_uid.clone(),
            cni: self.cni.clone(),
            master,
            deadline: Some(now + PATIENCE),
        };
        let answer = self.agent.add(request).await.map_err(PluginError::Agent)?;
        let own = answer.ips.iter().filter(|ip| *ip.nic == *nic).map(|ip| ip.address.addr());
        let addresses: Vec<IpAddr> = own.collect();
        if addresses.is_empty() {
            return Err(PluginError::NoAddress(nic));
        }
        if self.detects_conflicts {
            for &address in &addresses {
                if self.probe.answers(address, &container_id).await {
                    // Upstream passes neither the reason nor the address, and waits without a timeout.
                    let told = !self.policy.conflict_returns_same_address;
                    let release = BatchRequest {
                        pod,
                        pod_uid,
                        conflict: told,
                        conflicting: if told { [address].into() } else { Arc::default() },
                        deadline: told.then_some(now + PATIENCE),
                    };
                    // The ADD fails anyway.
                    let _ = self.agent.release_ips(release).await;
                    return Err(PluginError::Conflict(address));
                }
            }
        }
        Ok(addresses)
    }

    /// DEL: the interface is gone.
    ///
    /// # Errors
    /// The runtime should retry. With `finalizer-left-behind`, as upstream, only if the agent does not answer at all (A §7.1).
    pub async fn del(&self, call: Call, now: Duration) -> Result<(), PluginError> {
        self.agent.health().await.map_err(PluginError::Unhealthy)?;
        let Call { container_id, nic, pod, pod_uid } = call;
        let request = DelRequest { container_id, nic, pod, pod_uid, deadline: Some(now + PATIENCE) };
        match self.agent.del(request).await {
            Err(error) if !self.policy.finalizer_left_behind => Err(PluginError::Agent(error)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::answer::{How, NicAddress};
    use super::*;
    use kube_machinery::testing::TestEnv;

    #[derive(Default)]
    struct Agent {
        down: bool,
        fails: bool,
        asked: Mutex<Vec<AddRequest>>,
        released: Mutex<Vec<BatchRequest>>,
    }

    fn no<T>() -> Result<T, Unanswered> {
        Err(Unanswered("no".into()))
    }

    impl Connection for Agent {
        async fn health(&self) -> Result<(), Unanswered> {
            if self.down { no() } else { Ok(()) }
        }

        async fn add(&self, request: AddRequest) -> Result<AddAnswer, Unanswered> {
            self.asked.lock().unwrap().push(request);
            let ip = |nic: &str, address: &str| NicAddress {
                nic: nic.to_owned(),
                address: address.parse().unwrap(),
                pool: "pool".into(),
                gateway: None,
                vlan: 0,
            };
            let ips = vec![ip("eth0", "10.0.0.1/24"), ip("net1", "10.0.1.1/24"), ip("eth0", "fd00::1/64")];
            if self.fails { no() } else { Ok(AddAnswer { ips, routes: Vec::new(), how: How::Fresh }) }
        }

        async fn del(&self, _: DelRequest) -> Result<(), Unanswered> {
            if self.fails { no() } else { Ok(()) }
        }

        async fn release_ips(&self, request: BatchRequest) -> Result<(), Unanswered> {
            self.released.lock().unwrap().push(request);
            Ok(())
        }
    }

    const MASTER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 9, 9));

    struct Taken(Vec<IpAddr>);

    impl Probe for Taken {
        async fn master(&self, nic: &str, _: &str) -> Arc<[IpAddr]> {
            assert_eq!(nic, "eth0");
            [MASTER].into()
        }

        async fn answers(&self, address: IpAddr, _: &str) -> bool {
            self.0.contains(&address)
        }
    }

    fn plugin(agent: Agent, taken: &[&str], policy: Policy) -> Plugin<Agent, Taken> {
        let taken = Taken(taken.iter().map(|ip| ip.parse().unwrap()).collect());
        Plugin { agent, probe: taken, cni: Arc::default(), detects_conflicts: true, policy }
    }

    fn call(nic: &str) -> Call {
        let pod = ObjectKey::namespaced("default", "web-0");
        Call { container_id: "c".into(), nic: nic.into(), pod, pod_uid: "u".into() }
    }

    #[test]
    fn an_interface_gets_its_own_addresses_of_both_families() {
        let add = |nic| TestEnv::new().block_on(plugin(Agent::default(), &[], Policy::hardened()).add(call(nic), Duration::ZERO));
        assert_eq!(add("eth0").unwrap(), ["10.0.0.1".parse::<IpAddr>().unwrap(), "fd00::1".parse().unwrap()]);
        assert_eq!(add("net1").unwrap(), ["10.0.1.1".parse::<IpAddr>().unwrap()]);
        assert_eq!(add("net2"), Err(PluginError::NoAddress("net2".into())));
    }

    #[test]
    fn the_agent_is_told_of_the_physical_function_where_its_subnet_matters() {
        for (match_master_subnet, told) in [(true, &[MASTER][..]), (false, &[])] {
            let cni = Arc::new(IpamConfig { match_master_subnet, ..IpamConfig::default() });
            let plugin = Plugin { cni, ..plugin(Agent::default(), &[], Policy::hardened()) };
            TestEnv::new().block_on(plugin.add(call("eth0"), Duration::ZERO)).unwrap();
            assert_eq!(*plugin.agent.asked.lock().unwrap()[0].master, *told);
        }
    }

    #[test]
    fn an_address_on_which_somebody_answers_is_given_back_and_upstream_does_not_say_which() {
        for (policy, told) in [(Policy::hardened(), true), (Policy::upstream(), false)] {
            let plugin = plugin(Agent::default(), &["fd00::1"], policy);
            let added = TestEnv::new().block_on(plugin.add(call("eth0"), Duration::ZERO));
            assert_eq!(added, Err(PluginError::Conflict("fd00::1".parse().unwrap())));
            let released = plugin.agent.released.lock().unwrap();
            assert_eq!(released.len(), 1);
            assert_eq!((released[0].conflict, released[0].conflicting.len()), (told, usize::from(told)));
        }
    }

    #[test]
    fn a_del_that_failed_is_told_and_upstream_tells_only_that_nobody_answers() {
        let del = |agent, policy| TestEnv::new().block_on(plugin(agent, &[], policy).del(call("eth0"), Duration::ZERO));
        let fails = || Agent { fails: true, ..Agent::default() };
        let down = || Agent { down: true, ..Agent::default() };
        assert!(del(fails(), Policy::hardened()).is_err());
        assert!(del(fails(), Policy::upstream()).is_ok());
        assert!(del(down(), Policy::upstream()).is_err());
        assert!(del(Agent::default(), Policy::hardened()).is_ok());
    }
}
