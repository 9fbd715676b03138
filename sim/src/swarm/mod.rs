//! Swarm: per seed, which of all faults occur at all, how often and how long.
//!
//! ```text
//!   seed ──► weather ──► which kinds are on ──► how often, how long ──► rows of the plan, as if they had been written down
//!            calm, mixed, hostile     each from a stream of its own
//! ```
//! A run in which everything goes wrong at once hides what needs one fault and quiet otherwise; so most kinds are off in most runs, and in
//! some runs nothing goes wrong (swarm testing: Groce et al., ISSTA 2012). What is drawn are plain faults: a plan of a swarm is saved,
//! replayed and shrunk like any other.
//!
//! Each kind draws from a stream of its own, so that leaving one out changes nothing about the others.

mod fit;
mod name;
mod pattern;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use name::SwarmName;
pub use pattern::{PATTERNS, Pattern};

use crate::draw::{Concern, Draw};
use crate::fault::{Fault, FaultDraft, FaultKind, Window};
use crate::input::kinds::Kinds;
use crate::input::{Choice, Problems, Source, With};
use crate::plan::Op;
use crate::time::{SimTime, Span};
use crate::workload::Stake;

/// Faults of every kind that fits the workload, besides those that the scenario lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Swarm {
    /// How often each weather occurs, as weights.
    pub weather: Weather,
    /// Only these kinds and patterns; empty = all that fit the workload.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<SwarmName>,
    /// Not these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<SwarmName>,
    /// No fault that lasts is shorter: what flaps faster than anybody notices is no fault.
    pub shortest: Span,
    /// None is longer.
    pub longest: Span,
    /// At least this much time is between the end of one fault and the beginning of the next one of its kind.
    pub gap: Span,
    /// Faults with other parameters than their kind has by default; they are taken as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tune: Vec<FaultDraft>,
}

impl Default for Swarm {
    fn default() -> Self {
        Self {
            weather: Weather::default(),
            only: Vec::new(),
            without: Vec::new(),
            shortest: Span::millis(500),
            longest: Span::secs(60),
            gap: Span::secs(5),
            tune: Vec::new(),
        }
    }
}

/// Weights: 1, 2 and 1 make a quarter of the runs calm and a quarter hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Weather {
    /// No fault of the swarm at all.
    pub calm: u32,
    /// A few kinds (5 % to 30 % of them), each once or twice.
    pub mixed: u32,
    /// Many kinds (30 % to 80 %), each up to four times.
    pub hostile: u32,
}

impl Default for Weather {
    fn default() -> Self {
        Self { calm: 1, mixed: 6, hostile: 3 }
    }
}

/// The weather of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Today {
    /// The probability that a kind is on.
    on: f64,
    /// How often a kind that is on occurs at most.
    most: u32,
}

impl Weather {
    /// `None` = calm.
    fn draw(self, draw: &mut Draw) -> Option<Today> {
        let total = u64::from(self.calm) + u64::from(self.mixed) + u64::from(self.hostile);
        let (which, strength) = (draw.u64(), draw.unit());
        if total == 0 {
            return None;
        }
        let which = crate::draw::below(which, total);
        if which < u64::from(self.calm) {
            None
        } else if which < u64::from(self.calm) + u64::from(self.mixed) {
            Some(Today { on: 0.05 + 0.25 * strength, most: 2 })
        } else {
            Some(Today { on: 0.3 + 0.5 * strength, most: 4 })
        }
    }
}

/// The random stream that belongs to `name` alone.
pub(crate) fn stream_of(name: &str, number: u64) -> u64 {
    name.bytes().fold(number, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(7))
}

/// What a swarm knows of the run for which it draws.
pub(crate) struct Setting<'a> {
    pub(crate) seed: u64,
    /// How long faults are on.
    pub(crate) safety: Span,
    pub(crate) stake: &'a Stake,
    /// What the actors do.
    pub(crate) ops: &'a [Op],
    /// The processes and hosts there are.
    pub(crate) names: &'a [String],
}

impl Swarm {
    /// What is wrong with it. `names`: the processes and hosts there may be.
    pub fn problems(&self, source: Source<'_>, names: &[String]) -> Problems {
        let mut problems = Problems::new();
        let Weather { calm, mixed, hostile } = self.weather;
        if calm == 0 && mixed == 0 && hostile == 0 {
            problems.push(source.problem("swarm.weather", "`swarm.weather` has no weight", "a weight of calm, mixed or hostile above 0"));
        }
        if self.shortest > self.longest {
            let wrong = format!("`swarm.shortest` ({}) is longer than `swarm.longest` ({})", self.shortest, self.longest);
            problems.push(source.problem("swarm.shortest", wrong, "the shorter one first"));
        }
        if !SwarmName::all().any(|name| self.wants(name)) {
            problems.push(source.problem("swarm.only", "the swarm has no kind of fault left", "fewer names in `swarm.without`"));
        }
        for draft in &self.tune {
            problems.append(draft.problems(source, names));
        }
        problems
    }

    /// Whether a kind or pattern may be drawn.
    pub fn wants(&self, name: &str) -> bool {
        let among = |names: &[SwarmName]| names.iter().any(|known| known.as_str() == name);
        (self.only.is_empty() || among(&self.only)) && !among(&self.without)
    }

    /// The faults of a run, in no order.
    pub(crate) fn draw(&self, setting: &Setting<'_>) -> Vec<Fault> {
        let mut faults = Vec::new();
        let stream = |name: &str| Draw::new(setting.seed, Concern::Faults, stream_of(name, stream_of("swarm/", 0)));
        let Some(today) = self.weather.draw(&mut stream("weather")) else { return faults };
        for &kind in FaultKind::KINDS {
            let mut draw = stream(kind);
            // Comes first, so that what is off costs one number.
            if draw.chance(today.on) && self.wants(kind) {
                self.draw_kind(kind, today, setting, &mut draw, &mut faults);
            }
        }
        for pattern in PATTERNS {
            let mut draw = stream(pattern.name());
            if draw.chance(today.on) && self.wants(pattern.name()) {
                faults.extend(pattern.draw(setting, self.shortest, self.longest, &mut draw));
            }
        }
        faults
    }

    /// The faults of a kind that is on: some durations, none too short, and some peace between them.
    fn draw_kind(&self, kind: &'static str, today: Today, setting: &Setting<'_>, draw: &mut Draw, faults: &mut Vec<Fault>) {
        let times = 1 + draw.below(u64::from(today.most)) as u32;
        let longest = Choice::Between(self.shortest, self.longest).draw(draw);
        let pause = setting.safety.0 / times;
        let mut at = draw.between(std::time::Duration::ZERO, pause);
        for _ in 0..times {
            let lasts = Choice::Between(self.shortest, longest).draw(draw);
            let tuned = self.tune.iter().find(|draft| draft.kind() == kind);
            let draft = match tuned {
                Some(draft) => Some(draft.clone()),
                None => fit::fitted(kind, setting.stake, draw),
            };
            let Some(draft) = draft.filter(|_| at < setting.safety.0) else { return };
            let kind = draft.draw(draw, setting.names);
            let busy = match &kind {
                FaultKind::Crash(crash) => crash.down,
                kind if kind.is_instant() => Span::secs(0),
                _ => lasts,
            };
            let lasts = (!kind.is_instant()).then_some(lasts);
            faults.push(With { common: Window { at: SimTime::ZERO + at, lasts }, kind });
            at += busy.0 + self.gap.0 + draw.between(std::time::Duration::ZERO, pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::plan::Plan;
    use crate::scenario::Scenario;

    fn scenario(swarm: Swarm) -> Scenario {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/smoke/byom-calm.toml");
        Scenario { swarm: Some(swarm), ..Scenario::read(&file).unwrap() }
    }

    fn plans(swarm: &Swarm, seeds: u64) -> Vec<Plan> {
        let scenario = scenario(swarm.clone());
        (0..seeds).map(|seed| scenario.draw(seed)).collect()
    }

    fn kinds(plan: &Plan) -> BTreeSet<&'static str> {
        plan.fault.iter().map(|fault| fault.kind.kind()).collect()
    }

    #[test]
    fn every_kind_is_drawn_and_every_drawn_plan_is_sound() {
        let mut seen = BTreeSet::new();
        for plan in plans(&Swarm::default(), 300) {
            let problems = plan.problems(Source::new("plan", ""));
            assert!(problems.is_empty(), "seed {}: {problems}", plan.seed);
            seen.extend(kinds(&plan));
        }
        // The workload names neither kubelets with plugins nor addresses, nodes, leases or webhooks.
        let stake = |stake: Stake| {
            let fits = |kind: &&str| fit::fitted(kind, &stake, &mut Draw::new(1, Concern::Faults, 0)).is_some();
            FaultKind::KINDS.iter().copied().filter(fits).collect::<BTreeSet<&str>>()
        };
        let some = |name: &str| vec![name.to_owned()];
        let without = Stake { processes: some("p"), hosts: some("h"), resources: some("pods"), objects: some("o"), ..Stake::default() };
        assert_eq!(seen, stake(without.clone()));
        let with = Stake {
            kubelets: some("kubelet-0"),
            addresses: some("10.0.0.1"),
            nodes: some("node-0"),
            leases: some("leases/default/l"),
            webhooks: some("p"),
            ..without
        };
        // Only who starts while it lasts meets it.
        let drawn = FaultKind::KINDS.iter().copied().filter(|kind| *kind != "discovery-fails").collect();
        assert_eq!(stake(with), drawn, "those that name them get faults about them");
        assert_eq!(FaultKind::KINDS.len() - seen.len(), 15);
    }

    #[test]
    fn some_runs_are_calm_and_some_are_hostile() {
        let count = |plan: &Plan| kinds(plan).len();
        let plans = plans(&Swarm::default(), 200);
        let calm = plans.iter().filter(|plan| plan.fault.is_empty()).count();
        let hostile = plans.iter().filter(|plan| count(plan) >= 12).count();
        assert!((5..60).contains(&calm), "{calm} runs are calm");
        assert!((20..100).contains(&hostile), "{hostile} runs are hostile");
        let calm_only = Swarm { weather: Weather { calm: 1, mixed: 0, hostile: 0 }, ..Swarm::default() };
        assert!(self::plans(&calm_only, 20).iter().all(|plan| plan.fault.is_empty()));
    }

    #[test]
    fn a_kind_that_is_left_out_changes_nothing_about_the_others() {
        let without = Swarm { without: vec![SwarmName::new("pause").unwrap()], ..Swarm::default() };
        let mut left_out = 0;
        for (whole, less) in plans(&Swarm::default(), 60).iter().zip(plans(&without, 60)) {
            let mut rest = whole.fault.clone();
            rest.retain(|fault| fault.kind.kind() != "pause");
            left_out += whole.fault.len() - rest.len();
            assert_eq!(rest, less.fault, "seed {}", whole.seed);
        }
        assert!(left_out > 0);
    }

    #[test]
    fn faults_of_a_kind_neither_flap_nor_overlap() {
        let swarm = Swarm { without: PATTERNS.iter().filter_map(|pattern| SwarmName::new(pattern.name())).collect(), ..Swarm::default() };
        let mut pairs = 0;
        for plan in plans(&swarm, 200) {
            for kind in kinds(&plan) {
                let of_kind: Vec<_> = plan.fault.iter().filter(|fault| fault.kind.kind() == kind).collect();
                for pair in of_kind.windows(2) {
                    let lasts = pair[0].common.lasts.unwrap_or(Span::secs(0));
                    assert!(pair[1].common.at >= pair[0].common.at + lasts.0 + swarm.gap.0, "{kind} of seed {}", plan.seed);
                    pairs += 1;
                }
                for lasts in of_kind.iter().filter_map(|fault| fault.common.lasts) {
                    assert!((swarm.shortest..=swarm.longest).contains(&lasts), "{kind} of seed {}", plan.seed);
                }
            }
        }
        assert!(pairs > 50);
    }

    #[test]
    fn only_what_is_named_is_drawn_and_a_swarm_of_nothing_is_a_problem() {
        let only = |names: &[&str]| names.iter().filter_map(|name| SwarmName::new(name)).collect::<Vec<_>>();
        let swarm = Swarm { only: only(&["crash", "hold"]), weather: Weather { calm: 0, mixed: 0, hostile: 1 }, ..Swarm::default() };
        let seen: BTreeSet<_> = plans(&swarm, 40).iter().flat_map(kinds).collect();
        assert_eq!(seen, ["crash", "hold"].into());
        let problems = |swarm: &Swarm| swarm.problems(Source::new("", ""), &[]).to_string();
        assert_eq!(problems(&swarm), "");
        assert!(problems(&Swarm { without: only(&["crash", "hold"]), ..swarm.clone() }).contains("no kind of fault left"));
        assert!(problems(&Swarm { shortest: Span::secs(90), ..swarm.clone() }).contains("is longer than"));
        let nothing = Weather { calm: 0, mixed: 0, hostile: 0 };
        assert!(problems(&Swarm { weather: nothing, ..swarm }).contains("has no weight"));
    }
}
