//! The VMs of a pool: ground truth about the allocation that each VM serves.
//!
//! ```text
//!   clean ── user data for X ──► serves X ── reboot ──► going down ──► down ──► clean
//! ```
//! A VM that goes down still answers for a moment (B W13). All VMs are reached through one process, `vms`, so that faults of the network
//! between an adaptor and the VMs are faults of that link.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ipam_byom::{Address, AddressKey, Reboot, VmAccess, VmError};
use kube_sim::cluster::Cluster;
use kube_sim::net::{Delay, Sampler};
use kube_sim::rt::ProcessId;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::choice::Open;
use sim_config::draw::{Concern, Draw};
use sim_config::time::Span;

use super::super::{PoolNote, VmChange};

/// The process through which VMs are reached; it has no other task.
pub(super) const VMS: &str = "vms";

/// The durations of a VM's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VmDelays {
    /// The time from the request to boot until the VM stops answering.
    pub shutdown: Delay,
    /// The time from then on until the VM answers again.
    pub boot: Delay,
    /// The time from the user data until the agent in the VM answers.
    pub agent: Delay,
}

impl Default for VmDelays {
    fn default() -> Self {
        Self {
            shutdown: Delay::lognormal_us(800_000, 5_000_000, 30_000_000),
            boot: Delay::lognormal_us(12_000_000, 40_000_000, 120_000_000),
            agent: Delay::lognormal_us(1_500_000, 10_000_000, 60_000_000),
        }
    }
}

/// The way in which a VM is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Breakage {
    /// It does not answer: no packet comes back.
    Dead,
    /// The port is closed: connections are refused at once.
    Refusing,
    /// It accepts connections and then does not answer (B W25).
    Hung,
}

impl Open for Breakage {}

/// Access to all VMs from one process.
#[derive(Clone)]
pub(super) struct Machines {
    shared: Arc<Shared>,
    from: ProcessId,
}

struct Shared {
    cluster: Weak<Cluster>,
    vms: ProcessId,
    /// Whether the VMs take user data and reboots whatever allocation they serve (`byom-unfenced-vms`).
    unfenced: bool,
    state: Mutex<State>,
}

struct State {
    delays: [Sampler; 3],
    draw: Draw,
    machines: BTreeMap<AddressKey, Machine>,
}

#[derive(Clone, Debug, Default)]
struct Machine {
    /// The allocation whose user data it has.
    tenant: Option<Arc<str>>,
    /// The allocations whose user data it refuses forever: it told their releaser that it is clean. Kept on its disk.
    refused: BTreeSet<Arc<str>>,
    phase: Phase,
    broken: Option<Breakage>,
    /// The number of faults that currently break it.
    breaks: u32,
    /// The number of boots; actions that began before the last one are void.
    boots: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Up,
    /// Asked to boot; still answers.
    GoingDown,
    Down,
}

/// The time that a request to boot waits for a connection, and then for an answer.
pub(in crate::workload) const REBOOT_TIMEOUT: Duration = Duration::from_secs(5);

/// The outcome of a connection to a VM.
enum Reached {
    Up,
    Refused,
    /// The connection was accepted; no answer follows.
    Silence,
    /// No packet comes back.
    Nothing,
}

impl Machines {
    /// VMs that are all up and clean, as seen from the process `vms`.
    pub(super) fn new(cluster: &Arc<Cluster>, seed: u64, vms: ProcessId, delays: VmDelays, unfenced: bool) -> Self {
        let samplers = [delays.shutdown.sampler(), delays.boot.sampler(), delays.agent.sampler()];
        let state = State { delays: samplers, draw: Draw::new(seed, Concern::World, 1), machines: BTreeMap::new() };
        let shared = Shared { cluster: Arc::downgrade(cluster), vms, unfenced, state: Mutex::new(state) };
        Self { shared: Arc::new(shared), from: vms }
    }

    /// The same VMs, as seen from another process.
    pub(super) fn seen_from(&self, process: ProcessId) -> Self {
        Self { shared: self.shared.clone(), from: process }
    }

    fn cluster(&self) -> Option<Arc<Cluster>> {
        self.shared.cluster.upgrade()
    }

    fn look<T>(&self, address: &Address, look: impl FnOnce(&mut Machine) -> T) -> T {
        look(self.shared.state.lock().machines.entry(address.key().clone()).or_default())
    }

    fn say(&self, cluster: &Cluster, address: &Address, change: VmChange) {
        cluster.note(self.shared.vms, &PoolNote::Vm { address: address.clone(), change });
    }

    /// A packet to the VM and back, if there is an answer.
    async fn reach(&self, cluster: &Arc<Cluster>, address: &Address) -> Reached {
        // The text is not an address, so nothing is reachable there.
        if !address.key().is_address() {
            return Reached::Refused;
        }
        cluster.travel(self.from, self.shared.vms).await;
        let (phase, broken) = self.look(address, |machine| (machine.phase, machine.broken));
        let reached = match (phase, broken) {
            (_, Some(Breakage::Dead)) => return Reached::Nothing,
            (_, Some(Breakage::Refusing)) | (Phase::Down, _) => Reached::Refused,
            (_, Some(Breakage::Hung)) => Reached::Silence,
            (Phase::Up | Phase::GoingDown, None) => Reached::Up,
        };
        cluster.travel(self.shared.vms, self.from).await;
        reached
    }

    /// Makes the VM go down and boot; the durations are drawn.
    fn go_down(&self, cluster: &Arc<Cluster>, address: &Address, fence: Option<&str>) {
        let (tenant, shutdown, boot) = {
            let mut state = self.shared.state.lock();
            let state = &mut *state;
            let machine = state.machines.entry(address.key().clone()).or_default();
            if machine.phase != Phase::Up {
                return;
            }
            machine.phase = Phase::GoingDown;
            let [shutdown, boot, _] = state.delays;
            (machine.tenant.clone(), shutdown.sample(state.draw.unit()), boot.sample(state.draw.unit()))
        };
        self.say(cluster, address, VmChange::Rebooting { tenant, fence: fence.map(Arc::from) });
        let (machines, now) = (self.clone(), cluster.rt.now());
        let stopped = address.clone();
        cluster.rt.at(now + shutdown, move || machines.look(&stopped, |machine| machine.phase = Phase::Down));
        let (machines, booted) = (self.clone(), address.clone());
        cluster.rt.at(now + shutdown + boot, move || machines.booted(&booted));
    }

    fn booted(&self, address: &Address) {
        self.look(address, |machine| {
            machine.phase = Phase::Up;
            machine.tenant = None;
            machine.boots += 1;
        });
        if let Some(cluster) = self.cluster() {
            self.say(&cluster, address, VmChange::Booted);
        }
    }

    /// Breaks a VM for a while. Afterwards it is as before.
    pub(super) fn break_down(&self, address: &Address, how: Breakage, lasts: Span) {
        let Some(cluster) = self.cluster() else { return };
        self.look(address, |machine| {
            machine.broken = Some(how);
            machine.breaks += 1;
        });
        self.say(&cluster, address, VmChange::Broken);
        let (machines, address) = (self.clone(), address.clone());
        let mended = move || {
            let mended = machines.look(&address, |machine| {
                machine.breaks -= 1;
                if machine.breaks == 0 {
                    machine.broken = None;
                }
                machine.breaks == 0
            });
            if let Some(cluster) = machines.cluster().filter(|_| mended) {
                machines.say(&cluster, &address, VmChange::Mended);
            }
        };
        cluster.rt.at(cluster.rt.now() + lasts.0, mended);
    }

    /// Waits until the agent of `id` answers in the VM, or never will.
    pub(super) async fn agent_answers(&self, address: &Address, id: &str) -> Result<(), VmError> {
        let Some(cluster) = self.cluster() else { return Err(VmError::Refused) };
        let wait = {
            let mut state = self.shared.state.lock();
            let unit = state.draw.unit();
            state.delays[2].sample(unit)
        };
        cluster.rt.sleep(wait).await;
        loop {
            let serves = self.look(address, |machine| machine.tenant.as_deref() == Some(id));
            match self.reach(&cluster, address).await {
                Reached::Up if serves => return Ok(()),
                // There is another allocation's agent, or none: nothing answers to this sandbox's key.
                Reached::Up | Reached::Refused => cluster.rt.sleep(Duration::from_secs(1)).await,
                Reached::Silence | Reached::Nothing => cluster.rt.sleep(Duration::from_secs(5)).await,
            }
        }
    }

    /// Connects to the VM. `false` = it accepts, but does not answer after that.
    async fn connect(&self, cluster: &Arc<Cluster>, address: &Address, timeout: Option<Duration>) -> Result<bool, VmError> {
        let connect = async {
            match self.reach(cluster, address).await {
                Reached::Up => Ok(true),
                Reached::Silence => Ok(false),
                Reached::Refused => Err(VmError::Refused),
                Reached::Nothing => std::future::pending().await,
            }
        };
        self.in_time(cluster, timeout, connect).await
    }

    /// Runs `future` up to `timeout`; after that there is no answer.
    async fn in_time<T>(
        &self,
        cluster: &Cluster,
        timeout: Option<Duration>,
        future: impl Future<Output = Result<T, VmError>>,
    ) -> Result<T, VmError> {
        let Some(timeout) = timeout else { return future.await };
        let mut future = std::pin::pin!(future);
        let mut sleep = std::pin::pin!(cluster.rt.sleep(timeout));
        std::future::poll_fn(|cx| {
            if let std::task::Poll::Ready(result) = future.as_mut().poll(cx) {
                return std::task::Poll::Ready(result);
            }
            sleep.as_mut().poll(cx).map(|()| Err(VmError::Timeout))
        })
        .await
    }
}

impl VmAccess for Machines {
    async fn probe(&self, address: &Address, timeout: Duration) -> Result<(), VmError> {
        let Some(cluster) = self.cluster() else { return Err(VmError::Refused) };
        let connect = async {
            match self.reach(&cluster, address).await {
                // A successful connect does not tell which allocation the VM serves.
                Reached::Up | Reached::Silence => Ok(()),
                Reached::Refused => Err(VmError::Refused),
                Reached::Nothing => std::future::pending().await,
            }
        };
        self.in_time(&cluster, Some(timeout), connect).await
    }

    async fn send_user_data(&self, address: &Address, id: &str, _: &Arc<str>, timeout: Option<Duration>) -> Result<(), VmError> {
        let Some(cluster) = self.cluster() else { return Err(VmError::Refused) };
        // The caller's time limits the attempt to connect; the handshake and the steps after it have no limit (B C2, W25).
        if !self.connect(&cluster, address, timeout).await? {
            return std::future::pending().await;
        }
        let send = async {
            cluster.travel(self.from, self.shared.vms).await;
            let taken = self.look(address, |machine| {
                let going_down = machine.phase != Phase::Up;
                if machine.broken.is_some() || machine.phase == Phase::Down {
                    return Err(VmError::Refused);
                }
                let other = machine.tenant.as_ref().filter(|tenant| ***tenant != *id);
                if !self.shared.unfenced {
                    if let Some(tenant) = other {
                        return Err(VmError::Held(tenant.clone()));
                    }
                    if going_down || machine.refused.contains(id) {
                        return Err(VmError::Refused);
                    }
                }
                let tenant = other.cloned();
                machine.tenant = Some(id.into());
                Ok((tenant, going_down))
            });
            match taken {
                Ok((tenant, going_down)) => self.say(&cluster, address, VmChange::Given { id: id.into(), tenant, going_down }),
                Err(error) => return Err(error),
            }
            cluster.travel(self.shared.vms, self.from).await;
            Ok(())
        };
        send.await
    }

    async fn reboot(&self, address: &Address, fence: Option<&str>) -> Result<Reboot, VmError> {
        let Some(cluster) = self.cluster() else { return Err(VmError::Refused) };
        if !self.connect(&cluster, address, Some(REBOOT_TIMEOUT)).await? {
            return std::future::pending().await;
        }
        let ask = async {
            cluster.travel(self.from, self.shared.vms).await;
            let asked = self.ask_to_boot(&cluster, address, fence);
            cluster.travel(self.shared.vms, self.from).await;
            asked
        };
        self.in_time(&cluster, Some(REBOOT_TIMEOUT), ask).await
    }
}

impl Machines {
    /// The VM's answer to a request to boot.
    fn ask_to_boot(&self, cluster: &Arc<Cluster>, address: &Address, fence: Option<&str>) -> Result<Reboot, VmError> {
        let asked = self.look(address, |machine| {
            if machine.broken.is_some() || machine.phase == Phase::Down {
                return Err(VmError::Refused);
            }
            let Some(id) = fence else { return Ok(Reboot::Started) };
            match &machine.tenant {
                None if machine.phase == Phase::Up => {
                    machine.refused.insert(id.into());
                    Ok(Reboot::Clean)
                }
                Some(tenant) if **tenant != *id && !self.shared.unfenced => Ok(Reboot::Refused(tenant.clone())),
                _ => Ok(Reboot::Started),
            }
        });
        if matches!(asked, Ok(Reboot::Started)) {
            self.go_down(cluster, address, fence);
        }
        asked
    }
}

#[cfg(test)]
mod tests {
    use kube_machinery::race::{Either, race};

    use super::*;
    use kube_sim::testbed::Testbed;

    const SECOND: Duration = Duration::from_secs(1);

    fn fixed(seconds: u64) -> Delay {
        Delay::Constant(Span::secs(seconds))
    }

    /// VMs that stop answering after 1 s and boot in 10 s, with agents that answer after 2 s.
    fn machines(bed: &Testbed, unfenced: bool) -> Machines {
        let delays = VmDelays { shutdown: fixed(1), boot: fixed(10), agent: fixed(2) };
        let vms = bed.process(VMS);
        Machines::new(&bed.cluster, bed.seed, vms, delays, unfenced).seen_from(bed.process("adaptor"))
    }

    fn address() -> Address {
        Address::new("10.9.0.1")
    }

    async fn give(machines: &Machines, id: &str) -> Result<(), VmError> {
        machines.send_user_data(&address(), id, &"data".into(), Some(SECOND * 5)).await
    }

    async fn reboot(machines: &Machines, fence: Option<&str>) -> Result<Reboot, VmError> {
        machines.reboot(&address(), fence).await
    }

    #[test]
    fn a_vm_serves_one_allocation_and_refuses_every_other() {
        Testbed::run(1, async |bed| {
            let vms = machines(&bed, false);
            assert_eq!(give(&vms, "a").await, Ok(()));
            assert_eq!(give(&vms, "a").await, Ok(()));
            assert_eq!(give(&vms, "b").await, Err(VmError::Held("a".into())));
            assert_eq!(reboot(&vms, Some("b")).await, Ok(Reboot::Refused("a".into())));
            assert_eq!(vms.agent_answers(&address(), "a").await, Ok(()));
        });
    }

    #[test]
    fn a_boot_takes_its_time_and_leaves_a_clean_vm_that_refuses_what_comes_late() {
        Testbed::run(1, async |bed| {
            let vms = machines(&bed, false);
            give(&vms, "a").await.unwrap();
            assert_eq!(reboot(&vms, Some("a")).await, Ok(Reboot::Started));
            assert_eq!(vms.probe(&address(), SECOND).await, Ok(()), "it still answers while it goes down");
            assert_eq!(give(&vms, "b").await, Err(VmError::Held("a".into())));
            bed.wait(SECOND * 2).await;
            assert_eq!(vms.probe(&address(), SECOND).await, Err(VmError::Refused));
            assert_eq!(reboot(&vms, Some("a")).await, Err(VmError::Refused));
            bed.wait(SECOND * 10).await;
            assert_eq!(reboot(&vms, Some("a")).await, Ok(Reboot::Clean));
            assert_eq!(give(&vms, "a").await, Err(VmError::Refused), "user data that was still on its way");
            assert_eq!(give(&vms, "b").await, Ok(()));
        });
    }

    #[test]
    fn an_unfenced_vm_takes_whatever_comes() {
        Testbed::run(1, async |bed| {
            let vms = machines(&bed, true);
            give(&vms, "a").await.unwrap();
            assert_eq!(give(&vms, "b").await, Ok(()));
            assert_eq!(reboot(&vms, Some("a")).await, Ok(Reboot::Started), "b is served, and goes down all the same");
        });
    }

    #[test]
    fn a_reboot_without_a_fence_boots_whoever_is_served() {
        Testbed::run(1, async |bed| {
            let vms = machines(&bed, false);
            give(&vms, "a").await.unwrap();
            assert_eq!(reboot(&vms, None).await, Ok(Reboot::Started));
            bed.wait(SECOND * 12).await;
            assert_eq!(give(&vms, "b").await, Ok(()));
        });
    }

    #[test]
    fn broken_vms_differ_in_how_they_do_not_answer() {
        Testbed::run(1, async |bed| {
            let vms = machines(&bed, false);
            let answer = async |how| {
                vms.break_down(&address(), how, Span::secs(30));
                let probe = vms.probe(&address(), SECOND * 2).await;
                let data = match race(give(&vms, "a"), bed.rt.sleep(SECOND * 20)).await {
                    Either::Left(data) => Some(data),
                    Either::Right(()) => None,
                };
                bed.wait(SECOND * 30).await;
                (probe, data)
            };
            assert_eq!(answer(Breakage::Refusing).await, (Err(VmError::Refused), Some(Err(VmError::Refused))));
            assert_eq!(answer(Breakage::Dead).await, (Err(VmError::Timeout), Some(Err(VmError::Timeout))));
            assert_eq!(answer(Breakage::Hung).await, (Ok(()), None), "a connect says nothing about who listens, and then there is no end");
            assert_eq!(give(&vms, "a").await, Ok(()));
        });
    }

    #[test]
    fn a_partition_from_the_vms_is_one_of_their_link() {
        Testbed::run(1, async |bed| {
            let vms = machines(&bed, false);
            let side = kube_sim::net::Side::Only(vec![vms.from]);
            bed.cluster.network(|network| {
                network.add(kube_sim::net::Rule {
                    from: side,
                    to: kube_sim::net::Side::Only(vec![vms.shared.vms]),
                    effect: kube_sim::net::Effect::Cut,
                })
            });
            assert_eq!(vms.probe(&address(), SECOND * 2).await, Err(VmError::Timeout));
        });
    }
}
