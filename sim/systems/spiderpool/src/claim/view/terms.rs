//! The facts about a plan that claims about reclaim have to know.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ipam_spiderpool::Policy;
use ipam_spiderpool::reclaim::ReclaimSettings;
use ipam_spiderpool::select::Settings;
use kube_sim::fault::{Blocks, Fault, FaultKind, is_for_good};
use sim_config::time::SimTime;
use sim_harness::plan::Plan;

use crate::workload::{DOWN, reclaim_settings_of, settings_of};
use crate::{Operation, Plans};

/// The duration of the aftermath of most faults.
pub(in super::super) const AFTERMATH: Duration = Duration::from_secs(60);

/// The processes whose reclaim a fault can hinder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Reach {
    /// None: the fault concerns nodes, their kubelets and sandboxes, or agents.
    Nodes,
    /// These replicas, which are down or paused.
    Replicas(Vec<String>),
    /// Any process that sends a request which the fault hits.
    Requests,
    /// Any process that would read an endpoint in its cache; the API server still answers.
    EndpointCaches,
    /// All: it hits a component that all of them need, or any of them.
    All,
}

impl Reach {
    fn of(kind: &FaultKind, names: &[String], replicas: &[String]) -> Self {
        match kind.blocks() {
            Blocks::Nothing => Self::Nodes,
            Blocks::Processes(processes) => {
                let mut victims: Vec<String> = names.iter().filter(|name| processes.matches(name)).cloned().collect();
                if victims.iter().any(|name| is_server(name)) {
                    return Self::All;
                }
                victims.retain(|name| replicas.contains(name));
                if victims.is_empty() { Self::Nodes } else { Self::Replicas(victims) }
            }
            // The fault cuts the links from one side to the other.
            Blocks::Links { from, both_ways: true, .. } => {
                let is_vital = |name: &String| is_server(name) || replicas.contains(name);
                if names.iter().any(|name| is_vital(name) && from.matches(name)) { Self::All } else { Self::Nodes }
            }
            Blocks::Requests { all: false, .. } => Self::Requests,
            Blocks::Discovery { resource } if resource == "spiderendpoints" => Self::EndpointCaches,
            Blocks::Links { .. }
            | Blocks::Leader
            | Blocks::Requests { .. }
            | Blocks::LateWrites { .. }
            | Blocks::LateRequests { .. }
            | Blocks::ServerCaches { .. }
            | Blocks::ClientCaches { .. }
            | Blocks::Servers(_)
            | Blocks::Etcd
            | Blocks::Discovery { .. }
            | Blocks::History
            | Blocks::Admission
            | Blocks::Clocks
            | Blocks::Object => Self::All,
        }
    }

    /// Whether it can hinder a replica.
    pub(in super::super) fn hinders(&self, replica: &str) -> bool {
        match self {
            Self::Nodes => false,
            Self::Replicas(names) => names.iter().any(|name| name == replica),
            Self::Requests | Self::EndpointCaches | Self::All => true,
        }
    }
}

/// A fault as the plan describes it.
#[derive(Clone, Debug)]
pub(in super::super) struct PlannedFault {
    /// The processes that it can hinder.
    pub(in super::super) reach: Reach,
    /// The duration of the fault once it has begun.
    pub(in super::super) lasts: Lasts,
    /// The duration of its aftermath.
    pub(in super::super) aftermath: Duration,
}

/// The duration of a fault's aftermath: a lease expires, watches are restarted after a backoff, nodes report again. Where a server lost its
/// history, a reflector backs off twice: before it watches again and, as the version that it asks for is gone, before it lists (K §4.1).
fn aftermath(kind: &FaultKind, names: &[String]) -> Duration {
    let loses_history = match kind.blocks() {
        Blocks::History => true,
        Blocks::Processes(processes) => names.iter().any(|name| is_server(name) && processes.matches(name)),
        _ => false,
    };
    if loses_history { 2 * AFTERMATH } else { AFTERMATH }
}

fn is_server(name: &str) -> bool {
    name.starts_with("apiserver-") || name.starts_with("control-plane-")
}

/// The end of a fault that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Lasts {
    /// Immediately when it begins.
    AnInstant,
    /// At its own end, which is at the heal at the latest.
    AWhile,
    /// At the end of the run.
    ForGood,
}

/// The settings from some time on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Stated {
    /// The time at which they are to be changed; the first are the initial ones.
    pub(in super::super) at: SimTime,
    /// Whether a replica that starts then reclaims.
    pub(in super::super) reclaims: bool,
    /// The settings by which an agent that starts then selects pools.
    pub(in super::super) select: Settings,
    /// The time after that by which no agent is left that started earlier.
    pub(in super::super) rolls_out: Duration,
}

/// The maximum duration of a change of settings that is not delayed.
const CHANGES_WITHIN: Duration = Duration::from_secs(1);

/// The terms under which reclaim is judged.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// The settings of the replicas.
    pub(in super::super) settings: ReclaimSettings,
    /// The settings by which agents select pools when the run begins.
    pub(in super::super) select: Settings,
    /// The maximum number of records that agents permit in a pool, by the highest setting of the run.
    pub(in super::super) most_records: u64,
    /// The maximum number of records that agents permit in a pool, by the lowest setting of the run.
    pub(in super::super) fewest_records: u64,
    /// The settings in the course of the run, by time; empty = they never change.
    pub(in super::super) stated: Vec<Stated>,
    /// Whether a fault can delay a change of settings.
    pub(in super::super) is_changed_late: bool,
    /// The nodes whose container runtimes pass no UID.
    pub(in super::super) without_uid: BTreeSet<String>,
    /// Whether every pool serves some nodes only (`match_master_subnet`).
    pub(in super::super) match_master_subnet: bool,
    /// Whether the webhooks of the controller are registered.
    pub(in super::super) has_webhooks: bool,
    /// Whether admission refuses to delete a pool in use (`enableValidatingResourcesDeletedWebhook`).
    pub(in super::super) guards_deletion: bool,
    /// The replicas that reclaim, by name; none if nothing is reclaimed.
    pub(in super::super) replicas: Vec<String>,
    /// The time at which all faults are over except permanent ones.
    pub(in super::super) heal_at: SimTime,
    /// The faults of the plan.
    pub(in super::super) faults: Vec<PlannedFault>,
}

impl Terms {
    /// The terms of a plan.
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut terms = Self { heal_at: plan.heal_at, ..Self::default() };
        if let Some(spiderpool) = plan.workload.get().map(Plans::cluster) {
            // A plan with invalid settings is refused earlier.
            terms.settings = spiderpool.reclaim_settings(&Policy::hardened()).unwrap_or(terms.settings);
            terms.select = spiderpool.agent_settings(&Policy::hardened()).map_or(terms.select, |settings| settings.select);
            (terms.most_records, terms.fewest_records) = (terms.select.max_allocated_ips, terms.select.max_allocated_ips);
            terms.without_uid = spiderpool.nodes_without_uid().collect();
            terms.match_master_subnet = !spiderpool.masters.is_empty();
            terms.has_webhooks = spiderpool.has_webhooks();
            terms.guards_deletion = spiderpool.guards_deletion();
            if spiderpool.reclaim && terms.settings.enabled {
                terms.replicas = spiderpool.controller_names().collect();
            }
        }
        terms.state(plan);
        let names = plan.names();
        terms.faults = plan
            .fault
            .iter()
            .map(|fault| {
                let reach = Reach::of(&fault.kind, &names, &terms.replicas);
                let lasts = match fault.kind.is_instant() && fault.kind.recovers_after().is_none() {
                    true => Lasts::AnInstant,
                    false if is_for_good(fault) => Lasts::ForGood,
                    false => Lasts::AWhile,
                };
                PlannedFault { reach, lasts, aftermath: aftermath(&fault.kind, &names) }
            })
            .collect();
        terms
    }

    /// Takes in the initial settings and the plan's changes of them.
    fn state(&mut self, plan: &Plan) {
        let Some(spiderpool) = plan.workload.get().map(Plans::cluster) else { return };
        let policy = Policy::hardened();
        let mut settings = spiderpool.settings.clone();
        let mut state = |at, settings: &BTreeMap<String, String>, rolls_out| {
            // A plan with invalid settings is refused earlier.
            let (Ok(agents), Ok(reclaim)) = (settings_of(settings, &policy), reclaim_settings_of(settings, &policy)) else { return };
            let reclaims = !spiderpool.reclaim || reclaim.enabled;
            self.most_records = self.most_records.max(agents.select.max_allocated_ips);
            self.fewest_records = self.fewest_records.min(agents.select.max_allocated_ips);
            slowest(&mut self.settings, &reclaim);
            self.stated.push(Stated { at, reclaims, select: agents.select, rolls_out });
        };
        state(SimTime::ZERO, &settings, Duration::ZERO);
        // The operator carries out the changes in the order of the plan.
        let mut at = SimTime::ZERO;
        for op in &plan.op {
            at = at.max(op.common.at);
            if let Some(Operation::SetSettings(change)) = op.kind.get() {
                settings.extend(change.settings.clone());
                let rolls_out = change.every.map_or(Duration::ZERO, |every| every.0 * spiderpool.nodes + DOWN);
                state(at, &settings, rolls_out);
                let holds_up = |fault: &Fault| matches!(fault.kind.blocks(), Blocks::Processes(of) if of.matches(&op.common.actor));
                self.is_changed_late |= plan.fault.iter().any(holds_up);
            }
        }
    }

    /// Adds a change that switches reclaim on or off.
    #[cfg(test)]
    pub(in super::super) fn switch_reclaim(&mut self, at: SimTime, reclaims: bool) {
        self.stated.push(Stated { at, reclaims, select: Settings::default(), rolls_out: Duration::ZERO });
    }

    /// Adds a change that switches IPv6 on or off.
    #[cfg(test)]
    pub(in super::super) fn switch_ipv6(&mut self, at: SimTime, enable_ipv6: bool) {
        self.roll_ipv6_out(at, enable_ipv6, Duration::ZERO);
    }

    /// Adds a change that switches IPv6 on or off by a roll-out of some duration.
    #[cfg(test)]
    fn roll_ipv6_out(&mut self, at: SimTime, enable_ipv6: bool, rolls_out: Duration) {
        self.stated.push(Stated { at, reclaims: true, select: Settings { enable_ipv6, ..Settings::default() }, rolls_out });
    }

    /// The settings that a process which starts at a time can have read.
    fn can_have_said(&self, at: SimTime) -> impl Iterator<Item = &Stated> {
        self.said_since(at, |_| CHANGES_WITHIN)
    }

    /// The settings that an agent which runs at a time can have read.
    fn can_have_told_agents(&self, at: SimTime) -> impl Iterator<Item = &Stated> {
        self.said_since(at, |stated| CHANGES_WITHIN + stated.rolls_out)
    }

    /// The settings by a time, without those that a later change has certainly replaced; `counts` is the time until a change is in effect.
    fn said_since(&self, at: SimTime, counts: impl Fn(&Stated) -> Duration) -> impl Iterator<Item = &Stated> {
        let begun = self.stated.partition_point(|stated| stated.at <= at);
        // A change is certainly in effect once its time is over, and replaces all earlier settings.
        let stands = |stated: &Stated| !self.is_changed_late && stated.at + counts(stated) <= at;
        let first = self.stated[..begun].iter().rposition(stands).unwrap_or(0);
        self.stated[first..begun].iter()
    }

    /// Whether a replica that started at a time certainly does not reclaim.
    pub(super) fn is_switched_off(&self, started: SimTime) -> bool {
        let mut said = self.can_have_said(started).peekable();
        said.peek().is_some() && said.all(|stated| !stated.reclaims)
    }

    /// Whether no replica that started by a time can reclaim.
    pub(super) fn was_never_on(&self, by: SimTime) -> bool {
        self.stated.iter().filter(|stated| stated.at <= by).all(|stated| !stated.reclaims)
    }

    /// Whether an agent may select pools now by other settings than an agent that answered at an earlier time.
    pub(super) fn may_select_otherwise(&self, answered: SimTime, now: SimTime) -> bool {
        let [mut then, mut now] = [answered, now].map(|at| self.can_have_told_agents(at).map(|stated| &stated.select));
        let first = then.next();
        // An agent that answers may have started at any time before, but a change of settings restarts all agents.
        then.any(|other| Some(other) != first) || now.any(|other| Some(other) != first)
    }
}

/// Takes the slower of both settings, as either may apply to an action that has a bound.
fn slowest(settings: &mut ReclaimSettings, others: &ReclaimSettings) {
    settings.interval = settings.interval.max(others.interval);
    settings.trace_gap = settings.trace_gap.max(others.trace_gap);
    settings.signal_timeout = settings.signal_timeout.max(others.signal_timeout);
    settings.max_retries = settings.max_retries.max(others.max_retries);
    settings.lease_duration = settings.lease_duration.max(others.lease_duration);
    settings.retry_period = settings.retry_period.max(others.retry_period);
    settings.leader_poll = settings.leader_poll.max(others.leader_poll);
    settings.database = settings.database.min(others.database);
    settings.workers = settings.workers.min(others.workers);
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            settings: ReclaimSettings::new(&Policy::hardened()),
            select: Settings::default(),
            most_records: Settings::default().max_allocated_ips,
            fewest_records: Settings::default().max_allocated_ips,
            stated: Vec::new(),
            is_changed_late: false,
            without_uid: BTreeSet::new(),
            match_master_subnet: false,
            has_webhooks: false,
            guards_deletion: false,
            replicas: Vec::new(),
            heal_at: SimTime::ZERO,
            faults: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Terms with reclaim and IPv6 each on or off from a time on.
    fn terms(states: &[(u64, bool, bool)]) -> Terms {
        let stated = states.iter().map(|&(at, reclaims, enable_ipv6)| Stated {
            at: SimTime::from_secs(at),
            reclaims,
            select: Settings { enable_ipv6, ..Settings::default() },
            rolls_out: Duration::ZERO,
        });
        Terms { stated: stated.collect(), ..Terms::default() }
    }

    #[test]
    fn a_replica_is_surely_switched_off_a_second_after_the_change() {
        let at = SimTime::from_secs;
        let terms = terms(&[(0, true, true), (10, false, true), (20, true, true)]);
        for (started, off) in [(0, false), (10, false), (11, true), (19, true), (20, false), (30, false)] {
            assert_eq!(terms.is_switched_off(at(started)), off, "{started} s");
        }
        assert!(!terms.was_never_on(at(15)));
        assert!(!Terms::default().is_switched_off(at(5)), "nothing is said of it");
        let late = Terms { is_changed_late: true, ..terms };
        assert!(!late.is_switched_off(at(15)), "somebody may not have come to it yet");
    }

    #[test]
    fn agents_may_select_otherwise_since_settings_by_which_they_do_changed() {
        let at = SimTime::from_secs;
        let terms = terms(&[(0, true, true), (10, false, true), (20, false, false)]);
        for (answered, now, otherwise) in [(5, 9, false), (5, 15, false), (15, 20, true), (15, 40, true), (20, 40, true), (21, 40, false)] {
            assert_eq!(terms.may_select_otherwise(at(answered), at(now)), otherwise, "{answered} to {now} s");
        }
    }

    #[test]
    fn while_a_change_is_rolled_out_agents_may_select_by_either() {
        let at = SimTime::from_secs;
        let mut terms = terms(&[(0, true, true)]);
        terms.roll_ipv6_out(at(20), false, Duration::from_secs(30));
        for (answered, now, otherwise) in [(5, 19, false), (25, 49, true), (40, 60, true), (52, 90, false)] {
            assert_eq!(terms.may_select_otherwise(at(answered), at(now)), otherwise, "{answered} to {now} s");
        }
    }

    #[test]
    fn what_is_to_happen_in_time_may_go_by_the_slowest_of_all_settings() {
        let mut settings = ReclaimSettings::new(&Policy::hardened());
        let mut others = settings.clone();
        (others.interval, others.trace_gap) = (Duration::from_secs(900), Duration::from_secs(1));
        slowest(&mut settings, &others);
        assert_eq!((settings.interval, settings.trace_gap), (Duration::from_secs(900), Duration::from_secs(5)));
    }
}
