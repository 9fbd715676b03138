//! How a fault takes hold of the world, and lets go of it.

use std::sync::Arc;

use ipam_core::FxHashMap;
use ipam_core::api::Verb;
use parking_lot::Mutex;

use super::{Fault, FaultKind, Target};
use crate::cluster::admission::Forbidden;
use crate::cluster::server::{ApiFault, Mishap};
use crate::cluster::{EtcdTrouble, Fabric, WritePoint};
use crate::kinds::KindId;
use crate::net::{Effect, Rule, RuleId, Side};
use crate::rt::{HostId, ProcessId, ProcessState};
use crate::time::SimTime;
use crate::trace::{EventKind, FaultChange};

/// Verbs that change something.
const WRITES: [Verb; 4] = [Verb::Create, Verb::Update, Verb::Patch, Verb::Delete];

/// The faults of a run: begins them, ends them, and heals the world.
pub struct Faults {
    fabric: Arc<Fabric>,
    plan: Vec<Fault>,
    active: Mutex<FxHashMap<u32, Hold>>,
    heal_at: SimTime,
}

/// What an active fault holds on to, to let go of it.
enum Hold {
    Rules(Vec<RuleId>),
    ApiFault,
    Paused(Vec<ProcessId>),
    Down(Vec<ProcessId>),
    ServersDown(Vec<usize>),
    Writer(ProcessId),
    Simple,
}

impl Faults {
    /// Schedules the faults of a plan. What still holds at `heal_at` is ended then.
    pub fn schedule(fabric: &Arc<Fabric>, plan: &[Fault], heal_at: SimTime) -> Arc<Self> {
        let faults = Arc::new(Self { fabric: fabric.clone(), plan: plan.to_vec(), active: Mutex::default(), heal_at });
        for (index, fault) in (0..).zip(plan) {
            // A crash point is not an event in time: it waits for its write.
            if let FaultKind::CrashAtWrite(point) = &fault.kind {
                for process in faults.processes(&point.process) {
                    let after_commit = point.after_commit;
                    fabric.add_write_point(WritePoint { fault: index, client: process, nth: point.nth, after_commit });
                }
                continue;
            }
            let begin = faults.clone();
            fabric.rt.at(fault.common.at, move || begin.begin(index));
            if !fault.kind.is_instant() {
                let end = fault.common.lasts.map_or(heal_at, |lasts| (fault.common.at + lasts.0).min(heal_at));
                let ends = faults.clone();
                fabric.rt.at(end, move || ends.end(index));
            }
        }
        let hook = Arc::downgrade(&faults);
        fabric.set_fault_hook(Arc::new(move |index| {
            if let Some(faults) = hook.upgrade() {
                faults.begin(index);
            }
        }));
        faults
    }

    fn record(&self, index: u32, change: FaultChange) {
        let at = self.fabric.rt.now();
        self.fabric.recorder(|recorder| recorder.observe(at, EventKind::Fault { index, change }));
    }

    fn processes(&self, target: &Target) -> Vec<ProcessId> {
        let rt = &self.fabric.rt;
        rt.processes().into_iter().filter(|&process| target.matches(&rt.process_name(process))).collect()
    }

    fn hosts(&self, target: &Target) -> Vec<HostId> {
        let rt = &self.fabric.rt;
        let mut hosts: Vec<HostId> = rt
            .processes()
            .into_iter()
            .filter(|&process| target.matches(&rt.host_name(rt.host_of(process))) || target.matches(&rt.process_name(process)))
            .map(|process| rt.host_of(process))
            .collect();
        hosts.dedup();
        hosts
    }

    fn servers(&self, target: &Target) -> Vec<usize> {
        (0..self.fabric.servers())
            .filter(|&server| target.matches(&self.fabric.rt.process_name(self.fabric.server_process(server))))
            .collect()
    }

    fn side(&self, target: &Target) -> Side {
        if target.is_any() { Side::Any } else { Side::Only(self.processes(target)) }
    }

    /// `Some(None)` = every type; `None` = a type that this cluster does not have.
    fn resource(&self, plural: &str) -> Option<Option<KindId>> {
        if plural == "*" {
            return Some(None);
        }
        self.fabric.registry.iter().find(|(_, def)| def.plural == plural).map(|(kind, _)| Some(kind))
    }

    fn rules(&self, from: &Target, to: &Target, effect: Effect, both_ways: bool) -> Hold {
        let (from, to) = (self.side(from), self.side(to));
        self.fabric.network(|net| {
            let mut rules = vec![net.add(Rule { from: from.clone(), to: to.clone(), effect })];
            if both_ways {
                rules.push(net.add(Rule { from: to, to: from, effect }));
            }
            Hold::Rules(rules)
        })
    }

    fn api_fault(&self, index: u32, servers: &Target, clients: &Target, verbs: &[Verb], chance: f64, mishap: Mishap) -> Hold {
        let (servers, clients) = (self.side(servers), self.side(clients));
        self.fabric.add_api_fault(ApiFault { fault: index, servers, clients, verbs: verbs.to_vec(), kinds: Vec::new(), chance, mishap });
        Hold::ApiFault
    }

    /// Takes a process down, as whatever it is.
    fn take_down(&self, process: ProcessId) {
        match self.fabric.server_of(process) {
            Some(server) => self.fabric.crash_server(server),
            None => {
                self.fabric.crash(process);
            }
        }
    }

    /// Brings a process back, as whatever it is.
    fn bring_up(&self, process: ProcessId) {
        match self.fabric.server_of(process) {
            Some(server) => self.fabric.restart_server(server, std::time::Duration::from_secs(1)),
            None => {
                self.fabric.start(process);
            }
        }
    }

    fn crash_for(self: &Arc<Self>, processes: Vec<ProcessId>, down: std::time::Duration) {
        let up: Vec<ProcessId> = processes.into_iter().filter(|&process| self.fabric.rt.state(process) != ProcessState::Down).collect();
        for &process in &up {
            self.take_down(process);
        }
        let faults = self.clone();
        self.fabric.rt.at(self.fabric.rt.now() + down, move || up.iter().for_each(|&process| faults.bring_up(process)));
    }

    /// A fault takes hold.
    fn begin(self: &Arc<Self>, index: u32) {
        let fabric = &self.fabric;
        let now = fabric.rt.now();
        if now >= self.heal_at {
            return;
        }
        self.record(index, FaultChange::Began);
        let hold = match &self.plan[index as usize].kind {
            FaultKind::Partition(fault) => self.rules(&fault.from, &fault.to, Effect::Cut, true),
            FaultKind::OneWayPartition(fault) => self.rules(&fault.from, &fault.to, Effect::Cut, false),
            FaultKind::Loss(fault) => self.rules(&fault.from, &fault.to, Effect::Loss(fault.chance.get()), false),
            FaultKind::Duplication(fault) => {
                let effect = Effect::Duplicate { chance: fault.chance.get(), gap: fault.gap.0 };
                self.rules(&fault.from, &fault.to, effect, false)
            }
            FaultKind::Reordering(fault) => {
                let effect = Effect::Reorder { chance: fault.chance.get(), by: fault.by.0 };
                self.rules(&fault.from, &fault.to, effect, false)
            }
            FaultKind::Delay(fault) => self.rules(&fault.from, &fault.to, Effect::Slower(fault.by.0), false),
            FaultKind::DegradedLink(fault) => self.rules(&fault.from, &fault.to, Effect::Degraded, false),
            FaultKind::Hold(fault) => self.rules(&fault.from, &fault.to, Effect::Hold, false),
            FaultKind::Crash(fault) => return self.crash_for(self.processes(&fault.process), fault.down.0),
            FaultKind::CrashAtWrite(fault) => return self.crash_for(self.processes(&fault.process), fault.down.0),
            FaultKind::Pause(fault) => {
                Hold::Paused(self.processes(&fault.process).into_iter().filter(|&process| fabric.pause(process)).collect())
            }
            FaultKind::HostDown(fault) => {
                let processes: Vec<ProcessId> = self.hosts(&fault.host).into_iter().flat_map(|host| fabric.rt.processes_of(host)).collect();
                let up: Vec<ProcessId> = processes.into_iter().filter(|&process| fabric.rt.state(process) != ProcessState::Down).collect();
                up.iter().for_each(|&process| self.take_down(process));
                Hold::Down(up)
            }
            FaultKind::ApiServerCrash(fault) => {
                let up = |&server: &usize| fabric.rt.state(fabric.server_process(server)) != ProcessState::Down;
                let servers: Vec<usize> = self.servers(&fault.server).into_iter().filter(up).collect();
                servers.iter().for_each(|&server| fabric.crash_server(server));
                Hold::ServersDown(servers)
            }
            FaultKind::ApiServerFreeze(fault) => {
                if let Some(kind) = self.resource(&fault.resource) {
                    self.servers(&fault.server).into_iter().for_each(|server| fabric.set_frozen(server, kind, true));
                }
                Hold::Simple
            }
            FaultKind::ApiServerSlow(fault) => {
                self.servers(&fault.server).into_iter().for_each(|server| fabric.set_server_degraded(server, true));
                Hold::Simple
            }
            FaultKind::TooManyRequests(fault) => {
                let mishap = Mishap::TooManyRequests { retry_after: fault.retry_after };
                self.api_fault(index, &fault.server, &fault.client, &[], fault.chance.get(), mishap)
            }
            FaultKind::ServerError(fault) => {
                self.api_fault(index, &fault.server, &fault.client, &[], fault.chance.get(), Mishap::FailBeforeCommit)
            }
            FaultKind::Unavailable(fault) => {
                self.api_fault(index, &fault.server, &fault.client, &[], fault.chance.get(), Mishap::Unavailable)
            }
            FaultKind::LostReply(fault) => {
                let mishap = Mishap::LoseReply { error: fault.error, after: fault.after.0 };
                self.api_fault(index, &fault.server, &fault.client, &WRITES, fault.chance.get(), mishap)
            }
            FaultKind::LateCommit(fault) => {
                let mishap = Mishap::CommitLate { error: fault.error, after: fault.after.0 };
                self.api_fault(index, &fault.server, &fault.client, &WRITES, fault.chance.get(), mishap)
            }
            FaultKind::DuplicateRequest(fault) => {
                let mishap = Mishap::Twice { gap: fault.gap.0 };
                self.api_fault(index, &fault.server, &fault.client, &WRITES, fault.chance.get(), mishap)
            }
            FaultKind::Forbidden(fault) => {
                if let Some(kind) = self.resource(&fault.resource) {
                    let clients = self.side(&fault.client);
                    fabric.forbid(Forbidden { fault: Some(index), clients, verbs: Vec::new(), kinds: kind.into_iter().collect() });
                }
                Hold::Simple
            }
            FaultKind::WatchClosed(fault) => {
                if let Some(kind) = self.resource(&fault.resource) {
                    self.servers(&fault.server).into_iter().for_each(|server| fabric.close_watches(server, kind, None));
                }
                return;
            }
            FaultKind::WatchLag(fault) => {
                if let Some(kind) = self.resource(&fault.resource) {
                    self.servers(&fault.server).into_iter().for_each(|server| fabric.set_extra_lag(server, kind, fault.by.0));
                }
                Hold::Simple
            }
            FaultKind::HistoryLost(fault) => {
                if let Some(kind) = self.resource(&fault.resource) {
                    self.servers(&fault.server).into_iter().for_each(|server| fabric.forget_history(server, kind));
                }
                return;
            }
            FaultKind::Reconnect(fault) => {
                if let Some(&server) = self.servers(&fault.server).first() {
                    self.processes(&fault.process).into_iter().for_each(|process| fabric.move_connection(process, server));
                }
                return;
            }
            FaultKind::EtcdPause(_) => self.etcd(EtcdTrouble::Paused),
            FaultKind::EtcdElection(_) => self.etcd(EtcdTrouble::Electing),
            FaultKind::EtcdNoQuorum(_) => self.etcd(EtcdTrouble::NoQuorum),
            FaultKind::EtcdSlow(_) => {
                fabric.set_etcd_degraded(true);
                Hold::Simple
            }
            FaultKind::EtcdCut(fault) => {
                self.servers(&fault.server).into_iter().for_each(|server| fabric.set_etcd_cut(server, true));
                Hold::Simple
            }
            FaultKind::Compaction(_) => {
                let revision = fabric.store(|store| store.revision());
                return fabric.compact(revision);
            }
            FaultKind::RevisionJump(fault) => return fabric.burn_revisions(u64::from(fault.by)),
            FaultKind::ClockOffset(fault) => {
                self.hosts(&fault.host)
                    .into_iter()
                    .for_each(|host| fabric.rt.adjust_clock(host, |clock, _| clock.step_wall(fault.by_ms * 1_000)));
                Hold::Simple
            }
            FaultKind::ClockDrift(fault) => {
                let ppb = fault.ppm.clamp(-900_000, 10_000_000) * 1_000;
                self.hosts(&fault.host).into_iter().for_each(|host| fabric.rt.adjust_clock(host, |clock, now| clock.set_drift(now, ppb)));
                Hold::Simple
            }
            FaultKind::ConflictingWriter(fault) => {
                let name = format!("conflicting-writer-{index}");
                let process = fabric.rt.find_process(&name).unwrap_or_else(|| fabric.rt.add_process(fabric.rt.add_host(&name), &name));
                let (shared, fault) = (Arc::downgrade(fabric), fault.clone());
                fabric.rt.set_main(process, move |_| {
                    let (fabric, fault) = (shared.upgrade(), fault.clone());
                    async move {
                        if let Some(fabric) = fabric {
                            super::writer::run(fabric, process, fault).await;
                        }
                    }
                });
                fabric.start(process);
                Hold::Writer(process)
            }
        };
        self.active.lock().insert(index, hold);
    }

    fn etcd(&self, trouble: EtcdTrouble) -> Hold {
        self.fabric.set_etcd_trouble(Some(trouble));
        Hold::Simple
    }

    /// A fault lets go.
    fn end(self: &Arc<Self>, index: u32) {
        let Some(hold) = self.active.lock().remove(&index) else { return };
        let fabric = &self.fabric;
        match hold {
            Hold::Rules(rules) => fabric.network(|net| rules.into_iter().for_each(|rule| net.remove(rule))),
            Hold::ApiFault => fabric.remove_api_faults(index),
            Hold::Paused(processes) => processes.into_iter().for_each(|process| {
                fabric.resume(process);
            }),
            Hold::Down(processes) => processes.into_iter().for_each(|process| self.bring_up(process)),
            Hold::ServersDown(servers) => {
                let FaultKind::ApiServerCrash(fault) = &self.plan[index as usize].kind else {
                    unreachable!("the fault that took them down")
                };
                servers.into_iter().for_each(|server| fabric.restart_server(server, fault.initializing.0));
            }
            Hold::Writer(process) => {
                fabric.crash(process);
            }
            Hold::Simple => self.undo(index),
        }
        self.record(index, FaultChange::Ended);
    }

    /// Ends a fault whose kind says all that is needed for it.
    fn undo(&self, index: u32) {
        let fabric = &self.fabric;
        match &self.plan[index as usize].kind {
            FaultKind::ApiServerFreeze(fault) => {
                if let Some(kind) = self.resource(&fault.resource) {
                    self.servers(&fault.server).into_iter().for_each(|server| fabric.set_frozen(server, kind, false));
                }
            }
            FaultKind::ApiServerSlow(fault) => {
                self.servers(&fault.server).into_iter().for_each(|server| fabric.set_server_degraded(server, false))
            }
            FaultKind::Forbidden(_) => fabric.permit(Some(index)),
            FaultKind::WatchLag(fault) => {
                if let Some(kind) = self.resource(&fault.resource) {
                    self.servers(&fault.server)
                        .into_iter()
                        .for_each(|server| fabric.set_extra_lag(server, kind, std::time::Duration::ZERO));
                }
            }
            FaultKind::EtcdPause(_) | FaultKind::EtcdElection(_) | FaultKind::EtcdNoQuorum(_) => fabric.set_etcd_trouble(None),
            FaultKind::EtcdSlow(_) => fabric.set_etcd_degraded(false),
            FaultKind::EtcdCut(fault) => self.servers(&fault.server).into_iter().for_each(|server| fabric.set_etcd_cut(server, false)),
            FaultKind::ClockOffset(fault) => {
                self.hosts(&fault.host)
                    .into_iter()
                    .for_each(|host| fabric.rt.adjust_clock(host, |clock, _| clock.step_wall(-fault.by_ms * 1_000)));
            }
            FaultKind::ClockDrift(fault) => {
                self.hosts(&fault.host).into_iter().for_each(|host| fabric.rt.adjust_clock(host, |clock, now| clock.set_drift(now, 0)));
            }
            _ => {}
        }
    }

    /// Ends everything that still holds and brings back whatever is down.
    pub fn heal(self: &Arc<Self>) {
        let mut active: Vec<u32> = self.active.lock().keys().copied().collect();
        active.sort_unstable();
        active.into_iter().for_each(|index| self.end(index));
        for process in self.fabric.rt.processes() {
            let writer = self.fabric.rt.process_name(process).starts_with("conflicting-writer-");
            if self.fabric.rt.state(process) == ProcessState::Down && !writer {
                self.bring_up(process);
            }
        }
    }
}
