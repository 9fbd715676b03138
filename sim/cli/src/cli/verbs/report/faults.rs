//! Faults that bursts meet: those of a swarm of one profile, or of a scenario (`--faults`), and their placement.
//!
//! ```text
//!   time ──►  faults begin ─────────────────────────┐   each lasts as long as in a scenario     all heal
//!             ├── as long as a burst ──┼── burst ───┤                                              │
//!                                      calls                                    a minute later, or as long as a swarm's longest
//! ```
//! A swarm draws its faults over minutes, and a burst takes a second: in most bursts no fault would begin. So faults begin within the burst
//! and an equally long time before it; their durations are unchanged.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ipam_reports::conflicts::OF_SCENARIO;
use kube_sim::fault::{Inventory, ObjectChangeDraft};
use sim_config::kinds::Kinds;
use sim_config::phase_time::PhaseTime;
use sim_config::time::{SimTime, Span, micros};
use sim_config::{Choice, Problems, Source, toml as input_toml};
use sim_harness::engine::load::{self, LoadOptions};
use sim_harness::occurrence::DraftFault;
use sim_harness::plan::Plan;
use sim_harness::scenario::{Scenario, sort_faults};
use sim_harness::served;
use sim_harness::swarm::{ProfileWeights, Swarm};

use crate::cli::CliError;
use crate::cli::report::vary::{FaultProfile, Vary};

/// The minimum time from the burst to the heal, which ends faults that last longer: what a swarm draws lasts a minute at most.
const HEALS_AFTER: Duration = Duration::from_secs(60);

/// Faults that bursts meet.
#[derive(Debug)]
pub(super) struct Faults {
    /// The name in a table: `hostile`, `scenario byom-swarm`.
    pub(super) name: String,
    rows: Vec<DraftFault>,
    swarm: Option<Swarm>,
    /// The name and the text of the file that the faults come from, for the positions of errors.
    file: Option<(String, String)>,
}

impl Faults {
    /// The faults of a swarm of this profile, which draws every kind that fits; `None` = no faults.
    pub(super) fn of_profile(profile: FaultProfile) -> Option<Arc<Self>> {
        let profiles = match profile {
            FaultProfile::None => return None,
            FaultProfile::Mixed => ProfileWeights { calm: 0, mixed: 1, hostile: 0 },
            FaultProfile::Hostile => ProfileWeights { calm: 0, mixed: 0, hostile: 1 },
        };
        let swarm = Some(Swarm { profiles, ..Swarm::default() });
        Some(Arc::new(Self { name: profile.name().to_owned(), rows: Vec::new(), swarm, file: None }))
    }

    /// Reads the faults of a scenario file. The times at which its rows begin become fractions of its safety phase, and durations that are
    /// such fractions become absolute.
    ///
    /// # Errors
    /// It is no scenario, it has variants or no faults, or `vary` sets the faults.
    pub(super) fn read(file: &Path, vary: &[Vary]) -> Result<Arc<Self>, CliError> {
        if vary.iter().any(|one| one.key() == "faults") {
            let wrong = format!("`faults` is varied, and {} says which faults there are; give one of them", file.display());
            return Err(CliError::usage(wrong));
        }
        let mut ready = load::scenarios(&LoadOptions { scenarios: vec![file.to_owned()], ..LoadOptions::default() })?;
        let (Some(one), true) = (ready.pop(), ready.is_empty()) else {
            let wrong = format!("{}: has several variants, whose faults may differ", file.display());
            return Err(CliError::usage(wrong).hint("name a file with one scenario"));
        };
        let scenario = one.scenario;
        if scenario.fault.is_empty() && scenario.swarm.is_none() {
            let wrong = format!("{}: has no faults that bursts could meet", file.display());
            let right = "name a scenario with [[fault]] rows or a [swarm], such as scenarios/chaos/byom-swarm.toml";
            return Err(CliError::usage(wrong).hint(right));
        }
        let safety = *scenario.phases.safety.bounds().1;
        let mut rows = scenario.fault;
        for row in &mut rows {
            row.common.at = row.common.at.take().map(|at| each(at, |at| as_part(at, safety)));
            row.common.lasts = each(row.common.lasts.clone(), |lasts| PhaseTime::Span(lasts.of(safety)));
        }
        let name = format!("{OF_SCENARIO}{}", scenario.name);
        let text = input_toml::text(file)?;
        Ok(Arc::new(Self { name, rows, swarm: scenario.swarm, file: Some(text) }))
    }

    /// Adds the faults to the scenario of a burst, and returns their placement.
    ///
    /// # Errors
    /// A row refers to something that the cluster of the burst does not have.
    pub(super) fn placed(self: Arc<Self>, scenario: &mut Scenario, burst: Burst) -> Result<Placed, CliError> {
        let names = scenario.draw(0).names();
        let (file, text) = self.file.as_ref().map_or(("", ""), |(file, text)| (file, text));
        let (source, types) = (Source::new(file, text), served::registry());
        let inventory = Inventory { names: &names, types: &types };
        let mut problems = Problems::new();
        for row in &self.rows {
            problems.append(row.kind.problems(source, &inventory));
            problems.append(ObjectChangeDraft::problems(row.kind.kind(), row.kind.begins(), &row.common.when, source, &inventory));
        }
        for draft in self.swarm.iter().flat_map(|swarm| &swarm.tune) {
            problems.append(draft.problems(source, &inventory));
        }
        if !problems.is_empty() {
            return Err(CliError::from(problems).hint(format!("these are bursts of {}", common_names(&names))));
        }
        scenario.fault.clone_from(&self.rows);
        scenario.swarm.clone_from(&self.swarm);
        let longest = self.swarm.as_ref().map_or(Duration::ZERO, |swarm| swarm.longest.0);
        Ok(Placed { burst, heals_after: longest.max(HEALS_AFTER) })
    }
}

/// The names with a wildcard for their numbers: `apiserver-*, adaptor-*`.
fn common_names(names: &[String]) -> String {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        let name = match name.rsplit_once('-') {
            Some((name, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => format!("{name}-*"),
            _ => name.clone(),
        };
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all.join(", ")
}

/// The whole safety phase as the number in a [`PhaseTime::Part`]: thousandths of a percent.
const WHOLE: u32 = 100_000;

/// Applies `change` to every time in a choice.
fn each(choice: Choice<PhaseTime>, change: impl Fn(PhaseTime) -> PhaseTime) -> Choice<PhaseTime> {
    match choice {
        Choice::Is(time) => Choice::Is(change(time)),
        Choice::Between(low, high) => Choice::Between(change(low), change(high)),
        Choice::OneOf(times) => Choice::OneOf(times.into_iter().map(change).collect()),
    }
}

/// A time as a fraction of the safety phase; a time after the phase becomes its end.
fn as_part(time: PhaseTime, safety: Span) -> PhaseTime {
    let PhaseTime::Span(span) = time else { return time };
    let part = u128::from(micros(span.0)) * u128::from(WHOLE) / u128::from(micros(safety.0).max(1));
    PhaseTime::Part(part.min(u128::from(WHOLE)) as u32)
}

/// The times of the operations and the calls of a burst.
#[derive(Clone, Copy)]
pub(super) struct Burst {
    /// The time at which its operations begin, as its scenario draws them.
    pub(super) asked: SimTime,
    /// The delay of the operations in the plan.
    pub(super) moved: Duration,
    /// The time at which calls begin in the plan, since the start of the run.
    pub(super) calls: Duration,
    /// The approximate time for which calls are in progress.
    pub(super) length: Duration,
}

/// The placement of the faults of a burst.
#[derive(Clone, Copy)]
pub(super) struct Placed {
    burst: Burst,
    /// The time from the burst to the heal of all faults.
    heals_after: Duration,
}

impl Placed {
    /// Draws the faults of `scenario` for this plan as if the burst, and an equally long time before it, were the whole safety phase, and
    /// places them there.
    pub(super) fn place(self, scenario: &Scenario, plan: &mut Plan, seed: u64) {
        let Burst { asked, moved, calls, length } = self.burst;
        // The window must not begin before the run does.
        let before = length.min(calls);
        let mut window = plan.clone();
        for op in &mut window.op {
            op.common.at = SimTime::ZERO + before + op.common.at.since(asked);
        }
        window.heal_at = SimTime::ZERO + before + length;
        let mut faults = scenario.draw_faults(seed, &window);
        for (_, fault) in &mut faults {
            fault.common.at += calls - before;
        }
        plan.op.iter_mut().for_each(|op| op.common.at += moved);
        let liveness = plan.end_at.since(plan.heal_at);
        plan.heal_at = SimTime::ZERO + calls + length + self.heals_after;
        plan.end_at = plan.heal_at + liveness;
        sort_faults(plan, faults);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::report::Sharing;
    use crate::cli::verbs::report::points::plan;
    use ipam_reports::conflicts::System;

    fn vary(system: System, all: &[&str]) -> Sharing {
        Sharing { system, vary: all.iter().map(|one| one.parse().unwrap()).collect(), ..Sharing::default() }
    }

    #[test]
    fn faults_begin_in_the_time_of_a_burst_and_as_long_before_it_and_last_as_long_as_in_a_scenario() {
        let hostile = "faults=hostile";
        for (system, asked) in [(System::Byom, ["instances=8", hostile]), (System::Spiderpool, ["nodes=4", hostile])] {
            let planned = plan(&vary(system, &asked)).unwrap().remove(0);
            let Burst { calls, length, .. } = planned.faults.unwrap().burst;
            let window = calls - length.min(calls)..calls + length;
            let (mut before, mut during, mut longest) = (0, 0, Duration::ZERO);
            for seed in 0..200 {
                let drawn = planned.draw(seed);
                assert_eq!(drawn, planned.draw(seed));
                assert!(drawn.fault.is_sorted_by_key(|fault| fault.common.at));
                for fault in &drawn.fault {
                    let at = fault.common.at.since(SimTime::ZERO);
                    // A fault that waits for its own request has no time.
                    assert!(window.contains(&at), "{fault:?}");
                    *(if at < calls { &mut before } else { &mut during }) += 1;
                    longest = longest.max(fault.common.lasts.map_or(Duration::ZERO, |lasts| lasts.0));
                }
                assert!(drawn.heal_at.since(SimTime::ZERO) >= calls + length + HEALS_AFTER);
            }
            assert!(before > 500 && during > 500 && longest > Duration::from_secs(30), "{before} {during} {longest:?}");
        }
    }

    #[test]
    fn without_faults_a_burst_is_what_it_was() {
        let plain = plan(&vary(System::Byom, &["instances=8"])).unwrap().remove(0);
        let none = plan(&vary(System::Byom, &["instances=8", "faults=none"])).unwrap().remove(0);
        assert!(plain.faults.is_none() && none.faults.is_none());
        assert_eq!((&plain.setting, plain.first_seed), (&none.setting, none.first_seed));
        assert_eq!(none.draw(7), plain.scenario.draw(7));
    }

    #[test]
    fn times_of_a_scenario_become_parts_of_its_safety_phase() {
        let safety = Span::secs(40);
        for (time, expected) in [("10s", "25%"), ("25%", "25%"), ("40s", "100%"), ("5m", "100%"), ("0s", "0%")] {
            assert_eq!(as_part(time.parse().unwrap(), safety).to_string(), expected, "{time}");
        }
        let between = each(Choice::Between(Span::secs(10).into(), Span::secs(20).into()), |at| as_part(at, safety));
        assert_eq!(between, Choice::Between(PhaseTime::Part(25_000), PhaseTime::Part(50_000)));
    }
}
