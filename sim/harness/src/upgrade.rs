//! An upgrade of the system under test: some processes begin in an older version, or are rolled back to it, and are replaced one after the
//! other (K §9.2 C7).

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_sim::cluster::Cluster;
use kube_sim::fault::Target;
use kube_sim::rt::ProcessId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::draw::{Concern, Draw};
use sim_config::time::{SimTime, Span};
use sim_config::{Choice, Probability, Problems, Source};

use crate::deviation::{self, DeviationName, Profile};
use crate::swarm::stream_of;

/// The upgrade of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpgradeDraft {
    /// Processes that begin in the older version, or are rolled back to it.
    pub processes: Target,
    /// The behaviour of the older version; default `hardened`. `upstream` turns every deviation on that upstream has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Deviations of the older version, besides those of the profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deviations: Vec<DeviationName>,
    /// Deviations of the profile that the older version does not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<DeviationName>,
    /// Probability with which the older version of a run has each of them.
    #[serde(default = "always")]
    pub share: Probability,
    /// Time at which the first process is rolled back to the older version; the others follow at the intervals of the replacements, in
    /// another order. A process that is to be replaced earlier is not rolled back. Unset = processes begin in the older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back: Option<Choice<Span>>,
    /// Time at which the first process is replaced.
    pub at: Choice<Span>,
    /// Time between the replacements, or rollbacks, of two processes; their order is random.
    #[serde(default = "soon")]
    pub every: Choice<Span>,
    /// Downtime of a process that is replaced or rolled back.
    #[serde(default = "shortly")]
    pub down: Choice<Span>,
    /// Time after the last replacement until all effects of the older version are gone. From when the older version begins to run until
    /// then, violations are excused as `older-version`, and judgements do not count.
    pub settles: Span,
}

fn always() -> Probability {
    Probability::ALWAYS
}

fn soon() -> Choice<Span> {
    Choice::Between(Span::secs(1), Span::secs(15))
}

fn shortly() -> Choice<Span> {
    Choice::Between(Span::secs(1), Span::secs(5))
}

/// An upgrade of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upgrade {
    /// Deviations of the older version.
    #[serde(default)]
    pub deviations: Vec<DeviationName>,
    /// Downtime of a process that is replaced or rolled back.
    pub down: Span,
    /// Time at which all effects of the older version are gone.
    pub settled: SimTime,
    /// Time at which each process is rolled back to the older version. Processes that are not listed begin in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rolled_back: BTreeMap<String, SimTime>,
    /// Time at which each process is replaced: until then it is of the older version.
    pub replaced: BTreeMap<String, SimTime>,
}

impl UpgradeDraft {
    /// The upgrade of a seed, among processes with these names.
    pub(crate) fn draw(&self, seed: u64, names: &[String]) -> Upgrade {
        let mut draw = Draw::new(seed, Concern::Faults, stream_of("upgrade", 0));
        let (mut at, every, down) = (SimTime::ZERO + self.at.draw(&mut draw).0, self.every.draw(&mut draw), self.down.draw(&mut draw));
        let of = self.processes.clone().drawn(&mut draw, names);
        let mut processes: Vec<&String> = names.iter().filter(|name| of.matches(name)).collect();
        let mut replaced = BTreeMap::new();
        let mut last = at;
        while !processes.is_empty() {
            let process = processes.swap_remove(draw.below(processes.len() as u64) as usize);
            replaced.insert(process.clone(), at);
            (last, at) = (at, at + every.0);
        }
        let deviations = self.all_deviations();
        let deviations = deviations.into_iter().filter(|_| draw.chance(self.share.get())).collect();
        let rolled_back = self.rolled_back.as_ref().map_or_else(BTreeMap::new, |at| roll_back(seed, at, every, &mut replaced));
        Upgrade { deviations, down, settled: last + self.settles.0, rolled_back, replaced }
    }

    fn all_deviations(&self) -> Vec<DeviationName> {
        let upstream = self.profile == Some(Profile::Upstream);
        let of_profile = deviation::upstream().filter(|_| upstream);
        let mut all: Vec<DeviationName> = of_profile.chain(self.deviations.iter().cloned()).collect();
        all.sort();
        all.dedup();
        all.retain(|deviation| !self.without.contains(deviation));
        all
    }

    /// Problems of the upgrade. `most`: the processes that there may be; `shortest`: the shortest duration of a run.
    pub(crate) fn problems(&self, source: Source<'_>, most: &[String], shortest: Span) -> Problems {
        let mut problems = Problems::new();
        let of = most.iter().filter(|name| self.processes.can_match(std::slice::from_ref(name))).count() as u32;
        if of == 0 {
            let wrong = format!("no process matches `upgrade.processes`, which is `{}`", self.processes);
            problems.push(source.problem("upgrade.processes", wrong, "a pattern of processes of the workload, such as `agent-*`"));
        } else if let Some(nobody) = self.processes.unmatched(most) {
            let wrong = format!("no process matches `{nobody}`, one of `upgrade.processes`");
            problems.push(source.problem("upgrade.processes", wrong, "the list without it"));
        }
        if self.all_deviations().is_empty() {
            let right = "`profile = \"upstream\"`, or `deviations` by name";
            problems.push(source.problem("upgrade", "the older version of `[upgrade]` is the present one", right));
        }
        if let Some(rolled_back) = &self.rolled_back
            && rolled_back.bounds().1.0 >= self.at.bounds().0.0
        {
            let latest = rolled_back.bounds().1;
            let wrong = format!("the first process may be rolled back at {latest} only, and be replaced at {}", self.at.bounds().0);
            problems.push(source.problem("upgrade.rolled_back", wrong, "a time before all of `upgrade.at`"));
        }
        let settled = self.at.bounds().1.0 + self.every.bounds().1.0 * of.saturating_sub(1) + self.settles.0;
        if settled >= shortest.0 {
            let wrong = format!("the upgrade may be settled after {} only, and the run may end after {shortest}", Span(settled));
            problems.push(source.problem("upgrade.settles", wrong, "a run that goes on after the upgrade, as nothing is judged before"));
        }
        problems
    }
}

/// The time at which each process is rolled back, from `at` on in random order. A process that would be replaced before is never of the
/// older version, and is removed from `replaced`.
fn roll_back(seed: u64, at: &Choice<Span>, every: Span, replaced: &mut BTreeMap<String, SimTime>) -> BTreeMap<String, SimTime> {
    let mut draw = Draw::new(seed, Concern::Faults, stream_of("upgrade", 1));
    let mut at = SimTime::ZERO + at.draw(&mut draw).0;
    let mut processes: Vec<String> = replaced.keys().cloned().collect();
    let mut rolled_back = BTreeMap::new();
    while !processes.is_empty() {
        let process = processes.swap_remove(draw.below(processes.len() as u64) as usize);
        if at < replaced[&process] {
            rolled_back.insert(process, at);
        } else {
            replaced.remove(&process);
        }
        at += every.0;
    }
    rolled_back
}

impl Upgrade {
    /// The time in which a process is of the older version, if it ever is: from the first of the two times until the second.
    pub fn older(&self, process: &str) -> Option<(SimTime, SimTime)> {
        let until = *self.replaced.get(process)?;
        Some((self.rolled_back.get(process).copied().unwrap_or_default(), until))
    }

    /// The time at which the first process is of the older version.
    pub(crate) fn begins(&self) -> SimTime {
        self.replaced.keys().filter_map(|process| self.older(process)).map(|(from, _)| from).min().unwrap_or_default()
    }

    /// Problems of the upgrade of a plan that has processes with these names, and ends at `end`.
    pub(crate) fn problems(&self, source: Source<'_>, names: &[String], end: SimTime) -> Problems {
        let mut problems = Problems::new();
        for process in self.replaced.keys().filter(|process| !names.contains(process)) {
            let wrong = format!("`upgrade.replaced` names the process `{process}`, which there is not");
            problems.push(source.problem_of_text(process, wrong, "a process of the workload"));
        }
        for (process, at) in &self.rolled_back {
            if self.replaced.get(process).is_none_or(|until| until <= at) {
                let wrong = format!("`{process}` is rolled back at {at}, and not replaced after it");
                problems.push(source.problem_of_text(process, wrong, "a later time in `upgrade.replaced`"));
            }
        }
        let last = self.replaced.values().max().copied().unwrap_or_default();
        if self.settled < last || self.settled >= end {
            let wrong = format!("`upgrade.settled` is {}; the last process is replaced at {last}, and the run ends at {end}", self.settled);
            problems.push(source.problem("upgrade.settled", wrong, "a time between the two"));
        }
        problems
    }

    /// Schedules the rollback and the replacement of each process. A process that is down then starts in the other version.
    pub(crate) fn schedule(&self, cluster: &Arc<Cluster>) {
        let (of_all, down) = (cluster.rt.processes(), self.down.0);
        for (name, at) in self.rolled_back.iter().chain(&self.replaced) {
            let named = |process: &ProcessId| *cluster.rt.process_name(*process) == **name;
            let Some(process) = of_all.iter().copied().find(named) else { continue };
            let shared = Arc::downgrade(cluster);
            cluster.rt.at(*at, move || {
                if let Some(cluster) = shared.upgrade() {
                    cluster.restart_after(process, down);
                }
            });
        }
    }
}

/// The versions of a process, or of a part of it, in the course of a run: the present one, or for a while an older one.
#[derive(Clone, Copy, Debug)]
pub struct Version<T> {
    present: T,
    /// The older version, from the first time until the second.
    older: Option<(SimTime, SimTime, T)>,
}

impl<T> Version<T> {
    /// A process that always is of the present version.
    pub fn present(present: T) -> Self {
        Self { present, older: None }
    }

    /// A process that is of an `older` version from one time until another.
    pub(crate) fn with_older(self, (from, until): (SimTime, SimTime), older: T) -> Self {
        Self { older: Some((from, until, older)), ..self }
    }

    /// The version at a time.
    pub fn at(&self, now: SimTime) -> &T {
        let older = self.older.as_ref().filter(|(from, until, _)| *from <= now && now < *until);
        older.map_or(&self.present, |(_, _, older)| older)
    }

    /// The results of `of` for each version.
    pub fn map<U>(&self, of: impl Fn(&T) -> U) -> Version<U> {
        let older = self.older.as_ref().map(|(from, until, older)| (*from, *until, of(older)));
        Version { present: of(&self.present), older }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SimTime {
        SimTime::from_secs(seconds)
    }

    #[test]
    fn a_process_is_of_the_older_version_until_it_is_replaced_and_from_when_it_is_rolled_back() {
        let begins = Version::present("present").with_older((at(0), at(9)), "older");
        assert_eq!([0, 8, 9].map(|now| *begins.at(at(now))), ["older", "older", "present"]);
        let back = Version::present("present").with_older((at(5), at(9)), "older").map(|version| version.len());
        assert_eq!([4, 5, 8, 9].map(|now| *back.at(at(now))), [7, 5, 5, 7]);
    }

    #[test]
    fn whoever_is_replaced_before_its_turn_to_be_rolled_back_stays_as_it_is() {
        let names: Vec<String> = (0..4).map(|number| format!("agent-{number}")).collect();
        for seed in 0..200 {
            let mut replaced: BTreeMap<String, SimTime> = names.iter().cloned().zip((0..4).map(|number| at(20 + 5 * number))).collect();
            let rolled_back = roll_back(seed, &Choice::Is(Span::secs(10)), Span::secs(5), &mut replaced);
            assert_eq!(rolled_back.values().min(), Some(&at(10)), "the first is always");
            assert!(rolled_back.keys().eq(replaced.keys()));
            assert!(rolled_back.iter().all(|(process, back)| *back < replaced[process]), "{rolled_back:?} {replaced:?}");
        }
    }
}
