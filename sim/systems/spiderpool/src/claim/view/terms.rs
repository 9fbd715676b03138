//! What a plan says that claims about reclaim have to know.

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

/// How long what most faults left behind may take.
pub(in super::super) const AFTERMATH: Duration = Duration::from_secs(60);

/// Whom a fault can hinder to reclaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Reach {
    /// Nobody: it is about nodes, their kubelets and sandboxes, or about agents.
    Nodes,
    /// These replicas, which are down or stand still.
    Replicas(Vec<String>),
    /// Whoever sends a request that it hits.
    Requests,
    /// Whoever would read an endpoint in his cache: the API server still tells.
    EndpointCaches,
    /// Everybody: it hits what all of them need, or any of them.
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
            // What is cut are the links of one side to the other.
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

/// What the plan says of a fault.
#[derive(Clone, Debug)]
pub(in super::super) struct PlannedFault {
    /// Whom it can hinder.
    pub(in super::super) reach: Reach,
    /// How long it lasts once it has begun.
    pub(in super::super) lasts: Lasts,
    /// How long what it left behind may take.
    pub(in super::super) aftermath: Duration,
}

/// How long what a fault left behind may take: a lease runs out, watches begin anew after a pause, nodes are heard of again. Where a server
/// lost its history, a reflector pauses twice: before it watches again, and, as what it asks for is gone, before it lists (K §4.1).
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

/// When a fault ends that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Lasts {
    /// It is over as soon as it began.
    AnInstant,
    /// Until it ends, at the heal at the latest.
    AWhile,
    /// To the end of the run.
    ForGood,
}

/// What the settings say from some time on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Stated {
    /// When somebody is to change them; the first are those of the beginning.
    pub(in super::super) at: SimTime,
    /// Whether a replica that starts then reclaims.
    pub(in super::super) reclaims: bool,
    /// By which settings an agent that starts then selects pools.
    pub(in super::super) select: Settings,
    /// How long after that no agent is left that started before.
    pub(in super::super) rolls_out: Duration,
}

/// How long it may take until settings are changed that nothing holds up.
const CHANGES_WITHIN: Duration = Duration::from_secs(1);

/// The terms under which reclaim is judged.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// The settings of the replicas.
    pub(in super::super) settings: ReclaimSettings,
    /// The settings by which agents select pools as the run begins.
    pub(in super::super) select: Settings,
    /// How many records agents let a pool have at most: by what any of them is told in the course of the run.
    pub(in super::super) most_records: u64,
    /// The same by what tells them the least.
    pub(in super::super) fewest_records: u64,
    /// What the settings say in the course of the run, by time; none = as ever.
    pub(in super::super) stated: Vec<Stated>,
    /// Whether a fault can hold up whoever changes them.
    pub(in super::super) is_changed_late: bool,
    /// The nodes whose container runtimes pass no UID.
    pub(in super::super) without_uid: BTreeSet<String>,
    /// Whether every pool serves some nodes only (`match_master_subnet`).
    pub(in super::super) match_master_subnet: bool,
    /// Whether the webhooks of the controller are registered.
    pub(in super::super) has_webhooks: bool,
    /// Whether admission lets nobody delete a pool in use (`enableValidatingResourcesDeletedWebhook`).
    pub(in super::super) guards_deletion: bool,
    /// The replicas that reclaim, by name; none if nothing is reclaimed.
    pub(in super::super) replicas: Vec<String>,
    /// When all faults are over but those for good.
    pub(in super::super) heal_at: SimTime,
    /// The faults of the plan.
    pub(in super::super) faults: Vec<PlannedFault>,
}

impl Terms {
    /// Those of a plan.
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut terms = Self { heal_at: plan.heal_at, ..Self::default() };
        if let Some(spiderpool) = plan.workload.get().map(Plans::cluster) {
            // A plan with settings that cannot be read is refused before.
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

    /// Takes in what people change of the settings.
    fn state(&mut self, plan: &Plan) {
        let Some(spiderpool) = plan.workload.get().map(Plans::cluster) else { return };
        let policy = Policy::hardened();
        let mut settings = spiderpool.settings.clone();
        let mut state = |at, settings: &BTreeMap<String, String>, rolls_out| {
            // A plan with settings that cannot be read is refused before.
            let (Ok(agents), Ok(reclaim)) = (settings_of(settings, &policy), reclaim_settings_of(settings, &policy)) else { return };
            let reclaims = !spiderpool.reclaim || reclaim.enabled;
            self.most_records = self.most_records.max(agents.select.max_allocated_ips);
            self.fewest_records = self.fewest_records.min(agents.select.max_allocated_ips);
            slowest(&mut self.settings, &reclaim);
            self.stated.push(Stated { at, reclaims, select: agents.select, rolls_out });
        };
        state(SimTime::ZERO, &settings, Duration::ZERO);
        // Whoever carries them out takes them in the order in which the plan has them.
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

    /// Somebody switches reclaim on or off.
    #[cfg(test)]
    pub(in super::super) fn switch_reclaim(&mut self, at: SimTime, reclaims: bool) {
        self.stated.push(Stated { at, reclaims, select: Settings::default(), rolls_out: Duration::ZERO });
    }

    /// Somebody switches IPv6 on or off.
    #[cfg(test)]
    pub(in super::super) fn switch_ipv6(&mut self, at: SimTime, enable_ipv6: bool) {
        self.roll_ipv6_out(at, enable_ipv6, Duration::ZERO);
    }

    /// The same by a roll-out that takes a while.
    #[cfg(test)]
    fn roll_ipv6_out(&mut self, at: SimTime, enable_ipv6: bool, rolls_out: Duration) {
        self.stated.push(Stated { at, reclaims: true, select: Settings { enable_ipv6, ..Settings::default() }, rolls_out });
    }

    /// What the settings can have said at a time. Who starts then reads one of these.
    fn can_have_said(&self, at: SimTime) -> impl Iterator<Item = &Stated> {
        self.said_since(at, |_| CHANGES_WITHIN)
    }

    /// What the settings can have said to an agent that runs at a time.
    fn can_have_told_agents(&self, at: SimTime) -> impl Iterator<Item = &Stated> {
        self.said_since(at, |stated| CHANGES_WITHIN + stated.rolls_out)
    }

    /// What is said by a time, without that which a later change surely `counts` instead of so long after it.
    fn said_since(&self, at: SimTime, counts: impl Fn(&Stated) -> Duration) -> impl Iterator<Item = &Stated> {
        let begun = self.stated.partition_point(|stated| stated.at <= at);
        // A change surely stands once its time is over, and what was said before it says nothing any more.
        let stands = |stated: &Stated| !self.is_changed_late && stated.at + counts(stated) <= at;
        let first = self.stated[..begun].iter().rposition(stands).unwrap_or(0);
        self.stated[first..begun].iter()
    }

    /// Whether a replica that started at a time surely does not reclaim.
    pub(super) fn is_switched_off(&self, started: SimTime) -> bool {
        let mut said = self.can_have_said(started).peekable();
        said.peek().is_some() && said.all(|stated| !stated.reclaims)
    }

    /// Whether no replica that started by a time can reclaim.
    pub(super) fn was_never_on(&self, by: SimTime) -> bool {
        self.stated.iter().filter(|stated| stated.at <= by).all(|stated| !stated.reclaims)
    }

    /// Whether an agent can select by other settings at a time than one that answered at an earlier one.
    pub(super) fn may_select_otherwise(&self, answered: SimTime, now: SimTime) -> bool {
        let [mut then, mut now] = [answered, now].map(|at| self.can_have_told_agents(at).map(|stated| &stated.select));
        let first = then.next();
        // One that answers may have started at any time before, but a change of settings starts all agents anew.
        then.any(|other| Some(other) != first) || now.any(|other| Some(other) != first)
    }
}

/// Takes what takes longest of both: whatever is to happen in time may go by either.
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

    /// Reclaim and IPv6, each on or off from a time on.
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
