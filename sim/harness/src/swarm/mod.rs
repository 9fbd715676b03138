//! Swarm: draws for each seed which faults occur at all, how often and how long.
//!
//! ```text
//!   seed ──► profile ──► which kinds are on ──► how often, how long ──► rows of the plan, as if they had been written down
//!            calm, mixed, hostile     each from a stream of its own
//! ```
//! A run in which everything fails at once hides bugs that need one fault and quiet otherwise; so most kinds are off in most runs, and some
//! runs have no faults (swarm testing: Groce et al., ISSTA 2012). A swarm draws plain faults: its plans are saved, replayed and shrunk like
//! any others.
//!
//! Each kind has its own stream, so that leaving one out changes nothing about the others.

pub mod name;
pub mod partition;
pub mod pattern;
mod vary;

use kube_sim::fault::{ChangeKind, Drawn, Fault, FaultDraft, FaultKind, FaultTargets, Inventory, ObjectChange, Targeting, Trigger, Window};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::draw::{Concern, Draw};
use sim_config::kinds::Kinds;
use sim_config::time::{SimTime, Span};
use sim_config::{Choice, Problems, Source, With};

use crate::operation::Op;

pub use name::SwarmName;
pub use pattern::{PATTERNS, Pattern};
pub use vary::is_pattern;

/// Faults of every kind that fits the workload, besides those that the scenario lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Swarm {
    /// Weights of the profiles of faults.
    pub profiles: ProfileWeights,
    /// Only these kinds and patterns; empty = all that fit the workload.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<SwarmName>,
    /// Kinds and patterns that are never drawn, even if `only` names them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<SwarmName>,
    /// Kinds in addition to those that every swarm draws: the ones that are drawn only if they are named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<SwarmName>,
    /// Shortest duration of a fault: shorter ones would pass unnoticed.
    pub shortest: Span,
    /// Longest duration of a fault; not below `shortest`.
    pub longest: Span,
    /// Least time between the end of one fault and the beginning of the next one of its kind.
    pub gap: Span,
    /// Faults with other parameters than the defaults of their kind; they are used unchanged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tune: Vec<FaultDraft>,
}

impl Default for Swarm {
    fn default() -> Self {
        Self {
            profiles: ProfileWeights::default(),
            only: Vec::new(),
            without: Vec::new(),
            also: Vec::new(),
            shortest: Span::millis(500),
            longest: Span::secs(60),
            gap: Span::secs(5),
            tune: Vec::new(),
        }
    }
}

/// Weights of the profiles of faults: 1, 2 and 1 make a quarter of the runs calm and a quarter hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProfileWeights {
    /// No fault of the swarm at all.
    pub calm: u32,
    /// A few kinds (5 % to 30 % of them), each once or twice.
    pub mixed: u32,
    /// Many kinds (30 % to 80 %), each up to four times.
    pub hostile: u32,
}

impl Default for ProfileWeights {
    fn default() -> Self {
        Self { calm: 1, mixed: 6, hostile: 3 }
    }
}

/// The profile of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Profile {
    /// The probability that a kind is on.
    on: f64,
    /// The largest number of occurrences of a kind that is on.
    most: u32,
}

impl ProfileWeights {
    /// The profile of a run, drawn by the weights; `None` = calm, also if all weights are 0.
    fn draw(self, draw: &mut Draw) -> Option<Profile> {
        let total = u64::from(self.calm) + u64::from(self.mixed) + u64::from(self.hostile);
        let (which, strength) = (draw.u64(), draw.unit());
        if total == 0 {
            return None;
        }
        let which = sim_config::draw::below(which, total);
        if which < u64::from(self.calm) {
            None
        } else if which < u64::from(self.calm) + u64::from(self.mixed) {
            Some(Profile { on: 0.05 + 0.25 * strength, most: 2 })
        } else {
            Some(Profile { on: 0.3 + 0.5 * strength, most: 4 })
        }
    }
}

/// The number of the random stream of `name` and `number`.
pub fn stream_of(name: &str, number: u64) -> u64 {
    name.bytes().fold(number, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(7))
}

/// The stream of a kind or pattern.
fn stream(setting: &Setting<'_>, name: &str) -> Draw {
    Draw::new(setting.seed, Concern::Faults, stream_of(name, stream_of("swarm/", 0)))
}

/// The time from the beginning of a fault until the next one of its kind may follow.
fn busy_for(kind: &FaultKind, lasts: Span) -> Span {
    match kind {
        // The time at which its write or request comes is unknown.
        kind if kind.begins().is_request() => Span::secs(0),
        kind if kind.is_instant() => kind.recovers_after().unwrap_or(Span::secs(0)),
        _ => lasts,
    }
}

/// The share of the runs in which the faults of a kind begin with changes of objects, not at any time: faults in quiet times do little.
const AT_CHANGES: f64 = 0.25;
/// The largest number of the change of a type that a fault waits for.
const CHANGES_MAX: u64 = 6;

/// The changes that trigger the faults of one kind.
struct AtChanges<'a> {
    /// The types whose changes are waited for; unset = faults begin at any time.
    resources: Option<&'a [String]>,
    draw: Draw,
}

impl<'a> AtChanges<'a> {
    /// Draws whether the faults wait for changes at all, from a separate stream: the other draws for `kind` stay the same.
    fn draw_for(kind: &str, setting: &'a Setting<'_>) -> Self {
        let mut draw = Draw::new(setting.seed, Concern::Faults, stream_of(kind, stream_of("swarm/changes/", 0)));
        let resources = Some(setting.targets.resources.as_slice()).filter(|all| draw.chance(AT_CHANGES) && !all.is_empty());
        Self { resources, draw }
    }

    /// The changes that the next fault waits for.
    fn draw(&mut self, kind: &FaultKind) -> Vec<ObjectChange> {
        let (which, nth) = (self.draw.u64(), 1 + self.draw.below(CHANGES_MAX) as u32);
        let Some(resources) = self.resources.filter(|_| kind.begins() == Trigger::Window) else { return Vec::new() };
        let resource = &resources[sim_config::draw::below(which, resources.len() as u64) as usize];
        vec![ObjectChange { object: format!("{resource}/*"), change: ChangeKind::Any, sets: None, nth }]
    }
}

/// The properties of a run that a swarm draws for.
pub struct Setting<'a> {
    /// The seed of the run.
    pub seed: u64,
    /// The duration of the safety phase.
    pub safety: Span,
    /// The targets that faults can have.
    pub targets: &'a FaultTargets,
    /// The operations of the actors.
    pub ops: &'a [Op],
    /// The processes and hosts of the run.
    pub names: &'a [String],
}

impl Swarm {
    /// Problems of the swarm. `inventory`: the contents that the cluster may have.
    pub fn problems(&self, source: Source<'_>, inventory: &Inventory<'_>) -> Problems {
        let mut problems = Problems::new();
        let ProfileWeights { calm, mixed, hostile } = self.profiles;
        if calm == 0 && mixed == 0 && hostile == 0 {
            problems.push(source.problem("swarm.profiles", "`swarm.profiles` has no weight", "a weight of calm, mixed or hostile above 0"));
        }
        if self.shortest > self.longest {
            let wrong = format!("`swarm.shortest` ({}) is longer than `swarm.longest` ({})", self.shortest, self.longest);
            problems.push(source.problem("swarm.shortest", wrong, "the shorter one first"));
        }
        if !SwarmName::all().any(|name| self.wants(name)) {
            problems.push(source.problem("swarm.only", "the swarm has no kind of fault left", "fewer names in `swarm.without`"));
        }
        for (key, names) in [("swarm.only", &self.only), ("swarm.also", &self.also)] {
            for name in names.iter().map(SwarmName::as_str) {
                let is_tuned = self.tune.iter().any(|draft| draft.kind() == name);
                if let Some(Drawn::IfTuned(reason)) = FaultKind::drawn(name).filter(|_| !is_tuned) {
                    let wrong = format!("no swarm draws `{name}` of itself: {reason}");
                    problems.push(source.problem(key, wrong, "a row of `swarm.tune` with its parameters, or a `[[fault]]`"));
                }
            }
        }
        for draft in &self.tune {
            problems.append(draft.problems(source, inventory));
        }
        problems
    }

    /// Whether a kind or pattern may be drawn.
    pub fn wants(&self, name: &str) -> bool {
        let among = |names: &[SwarmName]| names.iter().any(|known| known.as_str() == name);
        let by_default = self.only.is_empty() && FaultKind::drawn(name) != Some(Drawn::IfNamed(()));
        (by_default || among(&self.only) || among(&self.also)) && !among(&self.without)
    }

    /// The faults of a run, in no order.
    pub fn draw(&self, setting: &Setting<'_>) -> Vec<Fault> {
        self.draw_each(setting).into_iter().map(|(_, fault)| fault).collect()
    }

    /// The faults of a run, each with the name of the kind or pattern that it was drawn as, in no order.
    pub fn draw_each(&self, setting: &Setting<'_>) -> Vec<(&'static str, Fault)> {
        let mut faults = Vec::new();
        // Plans depend on the name of the stream, so it stays.
        let Some(profile) = self.profiles.draw(&mut stream(setting, "weather")) else { return faults };
        for name in self.names() {
            let mut draw = stream(setting, name);
            // Drawn first, so that a kind that is off costs one number.
            if draw.chance(profile.on) {
                let drawn = self.draw_named(name, profile.most, setting, &mut draw);
                faults.extend(drawn.into_iter().map(|fault| (name, fault)));
            }
        }
        faults
    }

    /// The names of the kinds and patterns that it may draw: kinds come first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let patterns = PATTERNS.iter().map(|pattern| pattern.name());
        FaultKind::KINDS.iter().copied().chain(patterns).filter(|name| self.wants(name))
    }

    /// The faults of a kind or pattern that is on, at most `most` of a kind; `draw` is its stream.
    fn draw_named(&self, name: &'static str, most: u32, setting: &Setting<'_>, draw: &mut Draw) -> Vec<Fault> {
        let mut faults = Vec::new();
        match PATTERNS.iter().find(|pattern| pattern.name() == name) {
            Some(pattern) => faults.extend(pattern.draw(setting, self.shortest, self.longest, draw)),
            None => self.draw_kind(name, most, setting, draw, &mut faults),
        }
        faults
    }

    /// The faults of a kind that is on: some durations, none too short, with pauses between them.
    fn draw_kind(&self, kind: &'static str, most: u32, setting: &Setting<'_>, draw: &mut Draw, faults: &mut Vec<Fault>) {
        let times = 1 + draw.below(u64::from(most)) as u32;
        let longest = Choice::Between(self.shortest, self.longest).draw(draw);
        let pause = setting.safety.0 / times;
        let mut at = draw.between(std::time::Duration::ZERO, pause);
        let mut changes = AtChanges::draw_for(kind, setting);
        for _ in 0..times {
            let lasts = Choice::Between(self.shortest, longest).draw(draw);
            let tuned = self.tune.iter().find(|draft| draft.kind() == kind);
            let draft = match tuned {
                Some(draft) => Some(draft.clone()),
                None => FaultDraft::targeting(kind, &Targeting::draw(setting.targets, draw)),
            };
            let Some(draft) = draft.filter(|_| at < setting.safety.0) else { return };
            let kind = draft.draw(draw, setting.names);
            let busy = busy_for(&kind, lasts);
            let lasts = (!kind.is_instant()).then_some(lasts);
            let when = changes.draw(&kind);
            faults.push(With { common: Window { at: SimTime::ZERO + at, lasts, when }, kind });
            at += busy.0 + self.gap.0 + draw.between(std::time::Duration::ZERO, pause);
        }
    }
}
