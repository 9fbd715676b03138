//! Runs one plan again for a close look: its events, the events that touched an object with their causes, the objects at the end, the
//! comparison with another plan's run.

use std::ops::ControlFlow;

use ipam_reports::finding::{Kind, Violation};
use ipam_reports::history::{ClaimEnding, ClaimVerdict};
use ipam_reports::replay::{Comparison, Parting, TraceLine};
use ipam_reports::{History, Provenance, ReplayReport, Seconds, Timeline};
use kube_sim::object::Obj;
use kube_sim::trace::record::Record;
use sim_config::time::SimTime;

use super::run::run_plan;
use super::{Error, HarnessBug, build, load, provenance};
use crate::causality::Narrator;
use crate::causality::{self, Index, Subject, Wanted};
use crate::plan::{Checkpoint, Plan, Recorded};
use crate::system::RunOptions;
use crate::world::Outcome;

/// The parts of a replay that are kept besides the verdict.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayOptions {
    /// Keep every event: without them there is nothing to [`Replay::tell`] and nothing to [`Replay::compare`].
    pub recording: bool,
    /// Keep every API object as it is at the end, for [`Replay::objects_yaml`].
    pub objects: bool,
    /// The model time at which the run ends, if it comes before the end of the plan.
    pub until: Option<SimTime>,
    /// Whether a digest other than the recorded one counts as nondeterminism even if another build recorded it, or the plan was edited.
    pub same_digest: bool,
}

impl ReplayOptions {
    fn of_run(self) -> RunOptions {
        RunOptions { recording: self.recording, dump: self.objects, until: self.until, ..RunOptions::default() }
    }
}

/// The selection of events that a replay tells.
#[derive(Clone, Debug, Default)]
pub struct Telling<'a> {
    /// Whether to tell every event, unless a subject is followed.
    pub trace: bool,
    /// The subject to follow: the events that touched it, with their causes.
    pub follow: Option<&'a Subject>,
    /// The command that shows the run again, if a timeline is wanted.
    pub timeline: Option<String>,
}

/// A plan that was run again.
pub struct Replay {
    plan: Plan,
    options: ReplayOptions,
    objects: Vec<Obj>,
    judged: Vec<(&'static str, bool)>,
    held: Vec<String>,
    recording: Option<(Vec<Record>, Narrator)>,
    /// The result of the run, with remarks that were added since; without exit code.
    pub report: ReplayReport,
}

impl Replay {
    /// Runs a plan in the cluster of its manifests and compares its digest with the recorded one.
    ///
    /// # Errors
    /// Fails if the manifests are wrong, or the harness fails.
    pub fn run(plan: Plan, options: ReplayOptions) -> Result<Self, Error> {
        let outcome = run(&plan, options)?;
        let mut report = ReplayReport::new(plan.seed, outcome.digest, outcome.events);
        report.scenario = Some(plan.scenario.clone());
        report.simulated = Seconds::from_micros(outcome.ended_at.as_micros());
        report.violations.clone_from(&outcome.violations);
        if options.until.is_some_and(|until| until < plan.end_at) {
            report.remarks.push(format!("the run was stopped at {}: its digest is not that of the whole run", outcome.ended_at));
            for eventually in plan.check.eventually.iter().filter(|eventually| plan.heal_at + eventually.within.0 > outcome.ended_at) {
                report.remarks.push(format!("not judged: {}, which has until {}", eventually.claim, plan.heal_at + eventually.within.0));
            }
        } else if let Some(promised) = &plan.recorded {
            let edited = !promised.plan.is_empty() && promised.plan != plan.fingerprint();
            compare_with_promise(&mut report, promised, &outcome, edited, options.same_digest);
        }
        let Outcome { judged, held, recording, objects, .. } = outcome;
        let objects = objects.into_iter().map(|(_, object)| object).collect();
        Ok(Self { plan, options, objects, judged, held, recording, report })
    }

    /// Every object as YAML, as `kubectl get -o yaml` prints them; see [`ReplayOptions::objects`].
    ///
    /// # Errors
    /// Fails if an object cannot be written as YAML.
    pub fn objects_yaml(&self) -> Result<String, HarnessBug> {
        let mut text = String::new();
        for object in &self.objects {
            text.push_str("---\n");
            text.push_str(&serde_saphyr::to_string(&object.to_value()).map_err(|error| HarnessBug(error.to_string()))?);
        }
        Ok(text)
    }

    /// Runs another plan, called `name`, and reports where the two runs diverge, and why; see [`ReplayOptions::recording`].
    ///
    /// # Errors
    /// Fails if the other plan's manifests are wrong, or the harness fails.
    pub fn compare(&mut self, other: &Plan, name: String) -> Result<(), Error> {
        let outcome = run(other, self.options)?;
        let parting = self.recording.as_ref().zip(outcome.recording.as_ref()).and_then(|(this, other)| first_difference(this, other));
        let parting = parting.map(|parting| Parting { because: because(&self.plan, other), ..parting });
        self.report.against = Some(Comparison { plan: name, digest: outcome.digest, parting });
        Ok(())
    }

    /// The provenance of the plan; `replay` is the command that shows the run again.
    pub fn provenance(&self, replay: String) -> Provenance {
        provenance::of_replay(&self.plan, replay)
    }

    /// The history of the run, as data; see [`ReplayOptions::recording`].
    pub fn history(&self) -> Option<History> {
        let (records, narrator) = self.recording.as_ref()?;
        Some(History { claims: self.verdicts(), ..causality::data_of(&Index::new(records, narrator)) })
    }

    /// The verdict on each claim of the plan.
    fn verdicts(&self) -> Vec<ClaimVerdict> {
        let ended = SimTime::ZERO + std::time::Duration::from_micros(self.report.simulated.as_micros());
        let verdict = |name: &str, kind: Kind, otherwise: ClaimEnding| {
            let of_claim = || self.report.violations.iter().filter(|violation| violation.claim == name);
            let violated = of_claim().find(|violation| violation.excuse.is_none());
            let first = violated.or_else(|| of_claim().next());
            let verdict = match (violated, first) {
                (Some(_), _) => ClaimEnding::Violated,
                (None, Some(_)) => ClaimEnding::Excused,
                (None, None) => otherwise,
            };
            ClaimVerdict { claim: name.to_owned(), kind, verdict, at: first.map(|violation| violation.at) }
        };
        let always = self
            .judged
            .iter()
            .map(|&(name, judged)| verdict(name, Kind::Always, if judged { ClaimEnding::Held } else { ClaimEnding::NotJudged }));
        let eventually = self.plan.check.eventually.iter().map(|eventually| {
            let in_time = self.plan.heal_at + eventually.within.0 <= ended;
            verdict(eventually.claim.as_str(), Kind::Eventually, if in_time { ClaimEnding::Held } else { ClaimEnding::NotJudged })
        });
        let sometimes = self.plan.check.sometimes.iter().map(|name| {
            let held = self.held.iter().any(|held| held == name.as_str());
            verdict(name.as_str(), name.known().kind, if held { ClaimEnding::Held } else { ClaimEnding::NotSeen })
        });
        let mut verdicts: Vec<ClaimVerdict> = always.chain(eventually).chain(sometimes).collect();
        // Claims that belong to every run are in no list of a plan.
        for Violation { claim, kind, .. } in &self.report.violations {
            if verdicts.iter().all(|known| known.claim != *claim) {
                verdicts.push(verdict(claim, *kind, ClaimEnding::Violated));
            }
        }
        verdicts
    }

    /// Passes the lines of the trace to `trace` until it breaks off, and returns the timeline if one is wanted; see
    /// [`ReplayOptions::recording`].
    pub fn tell(&mut self, telling: Telling<'_>, trace: &mut dyn FnMut(TraceLine) -> ControlFlow<()>) -> Option<Timeline> {
        let (records, narrator) = self.recording.as_ref()?;
        if telling.trace && telling.follow.is_none() {
            let _ = (0..).zip(records).try_for_each(|(number, record)| trace(narrator.line(number, record)));
        }
        if telling.follow.is_none() && telling.timeline.is_none() {
            return None;
        }
        let index = Index::new(records, narrator);
        let followed = telling.follow.map(|subject| (causality::follow(&index, subject), subject));
        if let Some((followed, _)) = &followed {
            let _ = followed.lines.iter().cloned().try_for_each(trace);
            self.report.remarks.extend(followed.remark.clone());
        }
        let replay = telling.timeline?;
        let wanted = Wanted {
            followed: followed.as_ref().map(|(followed, subject)| (followed.events.as_slice(), subject.to_string())),
            violations: &self.report.violations,
            heal_at: self.plan.heal_at,
            ended_at: SimTime::ZERO + std::time::Duration::from_micros(self.report.simulated.as_micros()),
        };
        let timeline = causality::timeline(&index, &wanted);
        let remarks = self.report.remarks.iter().cloned().chain(timeline.remarks).collect();
        Some(Timeline {
            scenario: self.plan.scenario.clone(),
            seed: self.plan.seed,
            digest: self.report.digest,
            provenance: Some(self.provenance(replay.clone())),
            replay,
            remarks,
            ..timeline
        })
    }
}

fn run(plan: &Plan, options: ReplayOptions) -> Result<Outcome, Error> {
    let stage = load::stage_of_plan(plan)?;
    Ok(run_plan(plan, &stage, options.of_run())?)
}

/// Compares a run with the result that its plan file records.
fn compare_with_promise(report: &mut ReplayReport, promised: &Recorded, outcome: &Outcome, edited: bool, insist: bool) {
    report.expected_digest = Some(promised.digest);
    if promised.digest == outcome.digest {
        return;
    }
    report.parting = first_differing_checkpoint(&promised.checkpoints, &outcome.checkpoints, promised.events.min(outcome.events));
    if insist || (promised.build == build() && !edited) {
        report.nondeterministic = true;
    } else if edited {
        report.remarks.push("the plan was edited after its run was recorded: another digest is to be expected".to_owned());
    } else {
        report.remarks.push(format!(
            "the plan was recorded by build {}, this is build {}: another digest is to be expected",
            promised.build,
            build()
        ));
    }
}

/// The event before which two runs diverge, as far as checkpoints tell.
fn first_differing_checkpoint(promised: &[Checkpoint], now: &[Checkpoint], events: u64) -> Option<Parting> {
    let common = promised.iter().filter_map(|known| now.iter().find(|other| other.events == known.events).map(|other| (known, other)));
    let first = common.into_iter().find(|(known, other)| known.digest != other.digest);
    let (event, at) = match first {
        Some((known, other)) => (known.events - 1, known.at.min(other.at)),
        None => (events, now.last().map_or(Seconds::ZERO, |checkpoint| checkpoint.at)),
    };
    Some(Parting { event, at, this: None, other: None, because: None })
}

/// The first event in which two recordings differ.
fn first_difference(this: &(Vec<Record>, Narrator), other: &(Vec<Record>, Narrator)) -> Option<Parting> {
    let line = |(records, narrator): &(Vec<Record>, Narrator), number: u64| {
        usize::try_from(number).ok().and_then(|index| records.get(index)).map(|record| narrator.line(number, record))
    };
    let longest = this.0.len().max(other.0.len()) as u64;
    (0..longest).find_map(|number| {
        let (a, b) = (line(this, number), line(other, number));
        if a == b {
            return None;
        }
        let at = [&a, &b].into_iter().flatten().map(|line| line.at).min().unwrap_or_default();
        let text = |line: Option<TraceLine>| line.map(|line| format!("{} {}: {}", line.at, line.place, line.what));
        Some(Parting { event: number, at, this: text(a), other: text(b), because: None })
    })
}

/// The first difference of two plans, in a sentence.
fn because(this: &Plan, other: &Plan) -> Option<String> {
    if this.seed != other.seed {
        return Some(format!("the seeds are {} and {}", this.seed, other.seed));
    }
    if this.deviations != other.deviations {
        return Some("the mutations differ".to_owned());
    }
    if this.upgrade != other.upgrade {
        return Some("the upgrades differ".to_owned());
    }
    if this.cluster != other.cluster || this.workload != other.workload {
        return Some("the clusters or workloads differ".to_owned());
    }
    let first = |a: usize, b: usize, same: &dyn Fn(usize) -> bool| (0..a.max(b)).find(|&index| index >= a || index >= b || !same(index));
    if let Some(index) = first(this.fault.len(), other.fault.len(), &|index| this.fault[index] == other.fault[index]) {
        return Some(format!("fault {index} differs"));
    }
    first(this.op.len(), other.op.len(), &|index| this.op[index] == other.op[index]).map(|index| format!("operation {index} differs"))
}
