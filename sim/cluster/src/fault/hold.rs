//! How a fault takes hold of parts of the world, and lets go of them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kube_machinery::api::Verb;
use sim_config::Probability;

use super::{FaultKind, Target};
use crate::cluster::admission::{Forbidden, Hitch, HookFault};
use crate::cluster::discovery::DiscoveryFault;
use crate::cluster::server::{ApiFault, Mishap};
use crate::cluster::{EtcdTrouble, Fabric};
use crate::kinds::KindId;
use crate::net::{Effect, Rule, RuleId};
use crate::node::Trouble;
use crate::rt::{HostId, ProcessId, ProcessState};

/// Verbs that change something.
const WRITES: [Verb; 4] = [Verb::Create, Verb::Update, Verb::Patch, Verb::Delete];
/// How long an API server's caches answer 429 after a restart, where the fault does not say it.
const INITIALIZING: Duration = Duration::from_secs(1);

/// The furthest that a fault moves a wall clock: a thousand years, of which many add up before one comes to the end of
/// the numbers, so that every step can be taken back.
const OFFSET_MAX_MS: i64 = 1_000 * 365 * 24 * 3_600 * 1_000;

/// A part of the world that a fault keeps in the state it wants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Grip {
    /// A network rule.
    Rule(RuleId),
    /// Mishaps of requests, of the fault with this number.
    ApiFault(u32),
    /// Refusals, of the fault with this number.
    Refusal(u32),
    /// What befalls calls of webhooks, of the fault with this number.
    Hook(u32),
    /// A process that writes for the fault.
    Writer(ProcessId),
    /// A wall clock that was moved by so many microseconds.
    Offset(HostId, i64),
    /// A process that stands still.
    Paused(ProcessId),
    /// A process that is down. If it is an API server, its caches are ready so long after its restart.
    Down(ProcessId, Duration),
    /// A watch cache that stands still.
    Frozen(usize, KindId),
    /// A watch cache that lags by so much more.
    Lag(usize, KindId, Duration),
    /// The watches of a process on one type, or on all, that lag by so much more.
    CacheLag(ProcessId, Option<KindId>, Duration),
    /// Types that processes cannot find out about, of the fault with this number.
    Discovery(u32),
    /// An API server under overload.
    SlowServer(usize),
    /// An API server that does not reach etcd.
    EtcdCut(usize),
    /// Etcd in trouble.
    Etcd(EtcdTrouble),
    /// Etcd under overload.
    SlowEtcd,
    /// Clocks that run faster by so many parts per billion.
    Drift(HostId, i64),
    /// Trouble between the container runtime of a kubelet and its plugins, of the fault with this number.
    Cni(ProcessId, u32),
    /// An address that a host outside the cluster uses.
    ExternalHost(IpAddr),
    /// A kubelet that does not register its Node.
    Deregistered(ProcessId),
    /// A process that says of machines that they are off.
    Fence(ProcessId),
}

impl Grip {
    /// The process that this grip keeps down.
    pub(super) fn holds_down(&self) -> Option<ProcessId> {
        match *self {
            Grip::Down(process, _) => Some(process),
            _ => None,
        }
    }

    /// Whether having taken hold is all there is to it. What waits for messages or requests has done nothing before one comes.
    pub(super) fn is_felt(&self) -> bool {
        !matches!(self, Grip::Rule(_) | Grip::ApiFault(_) | Grip::Refusal(_) | Grip::Hook(_) | Grip::Cni(..) | Grip::Discovery(_))
    }

    /// Whether this is a network rule, and somebody used a link that it is about.
    pub(super) fn met_a_message(&self, fabric: &Fabric) -> bool {
        matches!(self, Grip::Rule(rule) if fabric.network(|net| net.was_met(*rule)))
    }

    /// Whether both keep the same part of the world, perhaps in different states.
    fn is_on_the_same(&self, other: &Grip) -> bool {
        match (self, other) {
            (Grip::Paused(one), Grip::Paused(other)) | (Grip::Down(one, _), Grip::Down(other, _)) => one == other,
            (Grip::Frozen(server, kind), Grip::Frozen(other, other_kind))
            | (Grip::Lag(server, kind, _), Grip::Lag(other, other_kind, _)) => (server, kind) == (other, other_kind),
            (Grip::CacheLag(one, kind, _), Grip::CacheLag(other, other_kind, _)) => (one, kind) == (other, other_kind),
            (Grip::SlowServer(one), Grip::SlowServer(other)) | (Grip::EtcdCut(one), Grip::EtcdCut(other)) => one == other,
            (Grip::Etcd(_), Grip::Etcd(_)) | (Grip::SlowEtcd, Grip::SlowEtcd) => true,
            (Grip::Drift(one, _), Grip::Drift(other, _)) => one == other,
            // These add up: each fault has its own.
            _ => false,
        }
    }

    /// Brings about the state in which this grip keeps its part of the world.
    fn tighten(self, fabric: &Arc<Fabric>) {
        match self {
            Grip::Rule(_) | Grip::ApiFault(_) | Grip::Refusal(_) | Grip::Hook(_) | Grip::Cni(..) | Grip::Discovery(_) => {}
            Grip::ExternalHost(address) => fabric.nodes.data_plane.add_external(address),
            Grip::Deregistered(kubelet) => {
                if let Some(runtime) = fabric.nodes.runtime_of(kubelet) {
                    runtime.hold_registration();
                }
            }
            Grip::Fence(process) => {
                fabric.nodes.set_fence(process, true);
                fabric.start(process);
            }
            Grip::Writer(process) => {
                fabric.start(process);
            }
            Grip::Offset(host, by) => fabric.rt.adjust_clock(host, |clock, _| clock.step_wall(by)),
            Grip::Paused(process) => {
                fabric.pause(process);
            }
            Grip::Down(process, _) => match fabric.server_of(process) {
                Some(server) => fabric.crash_server(server),
                None => {
                    fabric.crash(process);
                }
            },
            Grip::Frozen(server, kind) => fabric.set_frozen(server, Some(kind), true),
            Grip::Lag(server, kind, by) => fabric.set_extra_lag(server, Some(kind), by),
            Grip::CacheLag(process, kind, by) => fabric.set_cache_lag(process, kind, by),
            Grip::SlowServer(server) => fabric.set_server_degraded(server, true),
            Grip::EtcdCut(server) => fabric.set_etcd_cut(server, true),
            Grip::Etcd(trouble) => fabric.set_etcd_trouble(Some(trouble)),
            Grip::SlowEtcd => fabric.set_etcd_degraded(true),
            Grip::Drift(host, ppb) => fabric.rt.adjust_clock(host, |clock, now| clock.set_drift(now, ppb)),
        }
    }

    /// Brings the part of the world back to what it is without faults.
    fn loosen(self, fabric: &Arc<Fabric>) {
        match self {
            Grip::Rule(rule) => fabric.network(|net| net.remove(rule)),
            Grip::ApiFault(fault) => fabric.remove_api_faults(fault),
            Grip::Refusal(fault) => fabric.permit(Some(fault)),
            Grip::Hook(fault) => fabric.remove_hook_faults(fault),
            Grip::Discovery(fault) => fabric.remove_discovery_faults(fault),
            Grip::Writer(process) => {
                fabric.crash(process);
                // A crash that hits the writer may restart it later: by then it has nothing to do.
                fabric.rt.set_main(process, |_| async {});
            }
            Grip::Offset(host, by) => fabric.rt.adjust_clock(host, |clock, _| clock.step_wall(-by)),
            Grip::Paused(process) => {
                fabric.resume(process);
            }
            Grip::Down(process, initializing) => match fabric.server_of(process) {
                Some(server) => fabric.restart_server(server, initializing),
                None => {
                    fabric.start(process);
                }
            },
            Grip::Frozen(server, kind) => fabric.set_frozen(server, Some(kind), false),
            Grip::Lag(server, kind, _) => fabric.set_extra_lag(server, Some(kind), Duration::ZERO),
            Grip::CacheLag(process, kind, _) => fabric.set_cache_lag(process, kind, Duration::ZERO),
            Grip::SlowServer(server) => fabric.set_server_degraded(server, false),
            Grip::EtcdCut(server) => fabric.set_etcd_cut(server, false),
            Grip::Etcd(_) => fabric.set_etcd_trouble(None),
            Grip::SlowEtcd => fabric.set_etcd_degraded(false),
            Grip::Drift(host, _) => fabric.rt.adjust_clock(host, |clock, now| clock.set_drift(now, 0)),
            Grip::Cni(kubelet, fault) => {
                if let Some(runtime) = fabric.nodes.runtime_of(kubelet) {
                    runtime.clear_trouble(fault);
                }
            }
            Grip::ExternalHost(address) => fabric.nodes.data_plane.remove_external(address),
            Grip::Deregistered(kubelet) => {
                if let Some(runtime) = fabric.nodes.runtime_of(kubelet) {
                    runtime.release_registration();
                }
            }
            Grip::Fence(process) => {
                fabric.nodes.set_fence(process, false);
                fabric.crash(process);
                fabric.start(process);
            }
        }
    }
}

/// Lets go of `grip`, unless one of `others` keeps the same part of the world: then the last of them decides its state.
pub(super) fn let_go(fabric: &Arc<Fabric>, grip: Grip, others: &[Grip]) {
    match others.iter().rev().find(|other| other.is_on_the_same(&grip)) {
        Some(other @ (Grip::Lag(..) | Grip::CacheLag(..) | Grip::Etcd(_) | Grip::Drift(..))) => other.tighten(fabric),
        Some(_) => {}
        None => grip.loosen(fabric),
    }
}

/// Takes hold of what a fault of kind `kind` is about. `victim`: the process that triggered it; `held_down`: processes
/// that other faults keep down.
pub(super) fn seize(fabric: &Arc<Fabric>, index: u32, kind: &FaultKind, victim: Option<ProcessId>, held_down: &[ProcessId]) -> Vec<Grip> {
    let rt = &fabric.rt;
    let rules = |from: &Target, to: &Target, effect, both_ways| add_rules(fabric, from, to, effect, both_ways);
    let api_fault = |servers: &Target, clients: &Target, verbs: &[Verb], chance: f64, mishap| {
        let (servers, clients) = (servers.side(rt), clients.side(rt));
        fabric.add_api_fault(ApiFault { fault: index, servers, clients, verbs: verbs.to_vec(), kinds: Vec::new(), chance, mishap });
        vec![Grip::ApiFault(index)]
    };
    let down = |processes: Vec<ProcessId>, initializing| {
        // A process that is down for reasons of its own stays so; but one that only backs off does not start on a dead host.
        let ours =
            |process: &ProcessId| rt.state(*process) != ProcessState::Down || held_down.contains(process) || fabric.backs_off(*process);
        processes.into_iter().filter(ours).map(|process| Grip::Down(process, initializing)).collect()
    };
    let cni = |kubelets: &Target, chance: Probability, trouble| {
        let runtimes = kubelets.processes(rt).into_iter().filter_map(|kubelet| fabric.nodes.runtime_of(kubelet));
        let troubled = runtimes.map(|runtime| {
            runtime.add_trouble(fabric, index, chance.get(), trouble);
            Grip::Cni(runtime.kubelet(), index)
        });
        troubled.collect()
    };
    let hook = |processes: &Target, chance: f64, hitch| {
        fabric.add_hook_fault(HookFault { fault: index, servers: processes.side(rt), chance, hitch });
        vec![Grip::Hook(index)]
    };
    let servers = |target: &Target| target.servers(fabric);
    let grips: Vec<Grip> = match kind {
        FaultKind::Partition(fault) => rules(&fault.from, &fault.to, Effect::Cut, true),
        FaultKind::OneWayPartition(fault) => rules(&fault.from, &fault.to, Effect::Cut, false),
        FaultKind::Loss(fault) => rules(&fault.from, &fault.to, Effect::Loss(fault.chance.get()), false),
        FaultKind::Duplication(fault) => {
            rules(&fault.from, &fault.to, Effect::Duplicate { chance: fault.chance.get(), gap: fault.gap.0 }, false)
        }
        FaultKind::Reordering(fault) => {
            rules(&fault.from, &fault.to, Effect::Reorder { chance: fault.chance.get(), by: fault.by.0 }, false)
        }
        FaultKind::Delay(fault) => rules(&fault.from, &fault.to, Effect::Slower(fault.by.0), false),
        FaultKind::DegradedLink(fault) => rules(&fault.from, &fault.to, Effect::Degraded, false),
        FaultKind::Hold(fault) => rules(&fault.from, &fault.to, Effect::Hold, false),
        FaultKind::Crash(fault) => down(fault.process.processes(rt), INITIALIZING),
        FaultKind::CrashAtWrite(_) => down(victim.into_iter().collect(), INITIALIZING),
        FaultKind::Pause(fault) => fault.process.processes(rt).into_iter().map(Grip::Paused).collect(),
        FaultKind::HostDown(fault) => {
            let hosts = fault.host.hosts(rt);
            hosts.iter().for_each(|&host| fabric.nodes.host_lost(fabric, host));
            down(hosts.into_iter().flat_map(|host| rt.processes_of(host)).collect(), INITIALIZING)
        }
        FaultKind::LeaderFlaps(fault) => vec![Grip::Writer(super::flaps::hire(fabric, index, fault))],
        FaultKind::NodeDeleted(fault) => {
            let (kubelets, nodes): (Vec<ProcessId>, Vec<Arc<str>>) = nodes(fabric, &fault.node).into_iter().unzip();
            let mut grips: Vec<Grip> = kubelets.into_iter().map(Grip::Deregistered).collect();
            if !nodes.is_empty() {
                grips.push(Grip::Writer(super::people::hire_deleter(fabric, index, nodes)));
            }
            grips
        }
        FaultKind::NodeOutOfService(fault) => {
            let nodes: Vec<Arc<str>> = nodes(fabric, &fault.node).into_iter().map(|(_, node)| node).collect();
            let hosts = fault.node.hosts(rt);
            hosts.iter().for_each(|&host| fabric.nodes.host_lost(fabric, host));
            // It is taken back before the machine is up again.
            let fence = (!nodes.is_empty()).then(|| Grip::Fence(super::people::hire_fence(fabric, index, nodes, fault.after.0)));
            fence.into_iter().chain(down(hosts.into_iter().flat_map(|host| rt.processes_of(host)).collect(), INITIALIZING)).collect()
        }
        FaultKind::SandboxLost(fault) => {
            for kubelet in fault.process.processes(rt) {
                if let Some(runtime) = fabric.nodes.runtime_of(kubelet) {
                    runtime.lose_sandbox(fabric, fault.nth.saturating_sub(1));
                }
            }
            Vec::new()
        }
        FaultKind::CniDelLost(fault) => cni(&fault.process, fault.chance, Trouble::DelLost),
        FaultKind::CniDelLate(fault) => cni(&fault.process, fault.chance, Trouble::DelLate(fault.by.0)),
        FaultKind::CniDelRepeated(fault) => cni(&fault.process, fault.chance, Trouble::DelRepeated(fault.times, fault.every.0)),
        FaultKind::CniAddSlow(fault) => cni(&fault.process, fault.chance, Trouble::AddSlow(fault.by.0)),
        FaultKind::CniPluginKilled(fault) => cni(&fault.process, fault.chance, Trouble::PluginKilled(fault.after.0)),
        FaultKind::ExternalHost(fault) => fault.address.parse().map(Grip::ExternalHost).into_iter().collect(),
        FaultKind::ApiServerCrash(fault) => {
            down(servers(&fault.server).into_iter().map(|server| fabric.server_process(server)).collect(), fault.initializing.0)
        }
        FaultKind::ApiServerFreeze(fault) => {
            caches(fabric, &fault.server, &fault.resource).into_iter().map(|(server, kind)| Grip::Frozen(server, kind)).collect()
        }
        FaultKind::ApiServerSlow(fault) => servers(&fault.server).into_iter().map(Grip::SlowServer).collect(),
        FaultKind::TooManyRequests(fault) => {
            let mishap = Mishap::TooManyRequests { retry_after: fault.retry_after };
            api_fault(&fault.server, &fault.client, &Verb::ALL, fault.chance.get(), mishap)
        }
        FaultKind::ServerError(fault) => api_fault(&fault.server, &fault.client, &Verb::ALL, fault.chance.get(), Mishap::FailBeforeCommit),
        FaultKind::Unavailable(fault) => api_fault(&fault.server, &fault.client, &Verb::ALL, fault.chance.get(), Mishap::Unavailable),
        FaultKind::LostReply(fault) => {
            let mishap = Mishap::LoseReply { error: fault.error, after: fault.after.0 };
            api_fault(&fault.server, &fault.client, &WRITES, fault.chance.get(), mishap)
        }
        FaultKind::LateCommit(fault) => {
            let mishap = Mishap::CommitLate { error: fault.error, after: fault.after.0 };
            api_fault(&fault.server, &fault.client, &WRITES, fault.chance.get(), mishap)
        }
        FaultKind::DuplicateRequest(fault) => {
            let mishap = Mishap::Twice { gap: fault.gap.0 };
            api_fault(&fault.server, &fault.client, &WRITES, fault.chance.get(), mishap)
        }
        FaultKind::Forbidden(fault) => {
            if let Some(kind) = resource(fabric, &fault.resource) {
                let clients = fault.client.side(rt);
                fabric.forbid(Forbidden { fault: Some(index), clients, verbs: Vec::new(), kinds: kind.into_iter().collect() });
            }
            vec![Grip::Refusal(index)]
        }
        FaultKind::WatchClosed(fault) => {
            if let Some(kind) = resource(fabric, &fault.resource) {
                servers(&fault.server).into_iter().for_each(|server| fabric.close_watches(server, kind, None));
            }
            Vec::new()
        }
        FaultKind::WatchLag(fault) => {
            caches(fabric, &fault.server, &fault.resource).into_iter().map(|(server, kind)| Grip::Lag(server, kind, fault.by.0)).collect()
        }
        FaultKind::CacheLag(fault) => match resource(fabric, &fault.resource) {
            Some(kind) => fault.process.processes(rt).into_iter().map(|process| Grip::CacheLag(process, kind, fault.by.0)).collect(),
            None => Vec::new(),
        },
        FaultKind::DiscoveryFails(fault) => {
            if let Some(kind) = resource(fabric, &fault.resource) {
                fabric.add_discovery_fault(DiscoveryFault { fault: index, clients: fault.process.side(rt), kind });
            }
            vec![Grip::Discovery(index)]
        }
        FaultKind::HistoryLost(fault) => {
            if let Some(kind) = resource(fabric, &fault.resource) {
                servers(&fault.server).into_iter().for_each(|server| fabric.forget_history(server, kind));
            }
            Vec::new()
        }
        FaultKind::Reconnect(fault) => {
            if let Some(&server) = servers(&fault.server).first() {
                fault.process.processes(rt).into_iter().for_each(|process| fabric.move_connection(process, server));
            }
            Vec::new()
        }
        FaultKind::EtcdPause(_) => vec![Grip::Etcd(EtcdTrouble::Paused)],
        FaultKind::EtcdElection(_) => vec![Grip::Etcd(EtcdTrouble::Electing)],
        FaultKind::EtcdNoQuorum(_) => vec![Grip::Etcd(EtcdTrouble::NoQuorum)],
        FaultKind::EtcdSlow(_) => vec![Grip::SlowEtcd],
        FaultKind::EtcdCut(fault) => servers(&fault.server).into_iter().map(Grip::EtcdCut).collect(),
        FaultKind::Compaction(_) => {
            fabric.compact(fabric.store(|store| store.revision()));
            Vec::new()
        }
        FaultKind::RevisionJump(fault) => {
            fabric.burn_revisions(u64::from(fault.by));
            Vec::new()
        }
        FaultKind::WebhookSlow(fault) => hook(&fault.process, fault.chance.get(), Hitch::Slow(fault.by.0)),
        FaultKind::WebhookDenies(fault) => hook(&fault.process, fault.chance.get(), Hitch::Denies),
        FaultKind::WebhookDown(fault) => hook(&fault.process, 1.0, Hitch::Silent),
        FaultKind::WebhookTwice(fault) => hook(&fault.process, fault.chance.get(), Hitch::Twice),
        FaultKind::ClockOffset(fault) => fault
            .host
            .hosts(rt)
            .into_iter()
            .map(|host| Grip::Offset(host, fault.by_ms.clamp(-OFFSET_MAX_MS, OFFSET_MAX_MS) * 1_000))
            .collect(),
        FaultKind::ClockDrift(fault) => {
            let ppb = fault.ppm.clamp(-900_000, 10_000_000) * 1_000;
            fault.host.hosts(rt).into_iter().map(|host| Grip::Drift(host, ppb)).collect()
        }
        FaultKind::ConflictingWriter(fault) => vec![Grip::Writer(super::writer::hire(fabric, index, fault))],
    };
    grips.iter().for_each(|grip| grip.tighten(fabric));
    fabric.nodes.heartbeats.look_around(fabric);
    grips
}

/// The kubelets that are meant, and what their Nodes are called.
fn nodes(fabric: &Fabric, target: &Target) -> Vec<(ProcessId, Arc<str>)> {
    let runtimes = target.processes(&fabric.rt).into_iter().filter_map(|process| fabric.nodes.runtime_of(process));
    runtimes.map(|runtime| (runtime.kubelet(), runtime.node().clone())).collect()
}

fn add_rules(fabric: &Fabric, from: &Target, to: &Target, effect: Effect, both_ways: bool) -> Vec<Grip> {
    let (from, to) = (from.side(&fabric.rt), to.side(&fabric.rt));
    fabric.network(|net| {
        let mut grips = vec![Grip::Rule(net.add(Rule { from: from.clone(), to: to.clone(), effect }))];
        if both_ways {
            grips.push(Grip::Rule(net.add(Rule { from: to, to: from, effect })));
        }
        grips
    })
}

/// `Some(None)` = every type; `None` = a type that this cluster does not have.
fn resource(fabric: &Fabric, plural: &str) -> Option<Option<KindId>> {
    if plural == "*" {
        return Some(None);
    }
    fabric.registry.iter().find(|(_, def)| def.plural == plural).map(|(kind, _)| Some(kind))
}

/// The watch caches of a resource on some servers.
fn caches(fabric: &Fabric, target: &Target, plural: &str) -> Vec<(usize, KindId)> {
    let Some(wanted) = resource(fabric, plural) else { return Vec::new() };
    let kinds = || fabric.registry.iter().map(|(kind, _)| kind).filter(move |kind| wanted.is_none_or(|wanted| wanted == *kind));
    target.servers(fabric).into_iter().flat_map(|server| kinds().map(move |kind| (server, kind))).collect()
}
