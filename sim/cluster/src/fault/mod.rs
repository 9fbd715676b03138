//! Faults: what can go wrong, when, and how it takes hold of the world.
//!
//! A scenario holds [`FaultDraft`]s, whose values may be ranges; a plan holds [`FaultKind`]s, whose values are drawn.
//!
//! ```text
//!   vocabulary   what there is ──draw──► plan ──► apply   when each begins and ends ──► hold   its grip on the world
//! ```
//! To add a fault: a row in `vocabulary`, an arm in `hold`, and a test in `tests/faults/` that shows its effect.

pub mod apply;
mod flaps;
mod hold;
mod people;
mod target;
mod vocabulary;
mod writer;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::choice::Open;
use sim_config::draw::Draw;
use sim_config::kinds::Kinds;
use sim_config::time::{SimTime, Span};
use sim_config::{Choice, Probability, Problems, Source, With};

use crate::cluster::server::Failure;

pub use apply::Faults;
pub use sim_config::phase_time::Lapse;
pub use target::Target;
pub use vocabulary::*;

/// The parameters of a fault that name a resource, and an object.
macro_rules! named {
    ($fault:expr, $Faults:ident) => {
        match $fault {
            $Faults::ApiServerFreeze(fault) => (Some(&fault.resource), None),
            $Faults::Forbidden(fault) => (Some(&fault.resource), None),
            $Faults::WatchClosed(fault) => (Some(&fault.resource), None),
            $Faults::WatchLag(fault) => (Some(&fault.resource), None),
            $Faults::CacheLag(fault) => (Some(&fault.resource), None),
            $Faults::DiscoveryFails(fault) => (Some(&fault.resource), None),
            $Faults::HistoryLost(fault) => (Some(&fault.resource), None),
            $Faults::ConflictingWriter(fault) => (None, Some(&fault.object)),
            _ => (None, None),
        }
    };
}

impl FaultKind {
    /// Values with which the fault would do nothing: processes, hosts and resources that the cluster does not have, a write that never comes.
    /// `names`: its processes and hosts.
    pub fn problems(&self, source: Source<'_>, names: &[String]) -> Problems {
        let (resource, object) = named!(self, FaultKind);
        let nth = match self {
            FaultKind::CrashAtWrite(crash) => crash.nth,
            FaultKind::SandboxLost(lost) => lost.nth,
            _ => 1,
        };
        let mut problems = problems_of_values(source, self.kind(), resource, object, nth, &self.targets(), names);
        if let FaultKind::ExternalHost(host) = self {
            problems.append(problems_of_addresses(source, [&host.address]));
        }
        if let FaultKind::LeaderFlaps(flaps) = self {
            problems.append(problems_of_leases(source, [&flaps.lease]));
        }
        problems
    }
}

impl FaultDraft {
    /// The same for every value that can be drawn.
    pub fn problems(&self, source: Source<'_>, names: &[String]) -> Problems {
        let (resource, object) = named!(self, FaultDraft);
        let written = |choice: Option<&'_ Choice<String>>| choice.map(|choice| choice.written().into_iter().cloned().collect::<Vec<_>>());
        let (resources, objects) = (written(resource).unwrap_or_default(), written(object).unwrap_or_default());
        let nth = match self {
            FaultDraft::CrashAtWrite(crash) => *crash.nth.bounds().0,
            FaultDraft::SandboxLost(lost) => *lost.nth.bounds().0,
            _ => 1,
        };
        let mut problems = problems_of_values(source, self.kind(), &resources, &objects, nth, &self.targets(), names);
        if let FaultDraft::ExternalHost(host) = self {
            problems.append(problems_of_addresses(source, host.address.written()));
        }
        if let FaultDraft::LeaderFlaps(flaps) = self {
            problems.append(problems_of_leases(source, flaps.lease.written()));
        }
        problems
    }
}

/// Leases that are none.
fn problems_of_leases<'a>(source: Source<'_>, leases: impl IntoIterator<Item = &'a String>) -> Problems {
    let mut problems = Problems::new();
    for lease in leases {
        if let Err(message) = flaps::lease_key(lease) {
            problems.push(source.problem_of_text(lease, format!("the fault `leader-flaps`: {message}"), "a lease that somebody holds"));
        }
    }
    problems
}

/// Addresses that are none.
fn problems_of_addresses<'a>(source: Source<'_>, addresses: impl IntoIterator<Item = &'a String>) -> Problems {
    let mut problems = Problems::new();
    for address in addresses.into_iter().filter(|address| address.parse::<std::net::IpAddr>().is_err()) {
        let wrong = format!("the fault `external-host` is about `{address}`, which is no address");
        problems.push(source.problem_of_text(address, wrong, "an IPv4 or IPv6 address such as 10.0.0.1"));
    }
    problems
}

/// `nth`: what is counted from 1 (the write at which a process crashes, the sandbox that dies), or 1.
fn problems_of_values<'a>(
    source: Source<'_>,
    fault: &str,
    resources: impl IntoIterator<Item = &'a String>,
    objects: impl IntoIterator<Item = &'a String>,
    nth: u32,
    targets: &[Target],
    names: &[String],
) -> Problems {
    let mut problems = Problems::new();
    let plurals: Vec<&str> = crate::kinds::all([]).iter().map(|def| def.plural).collect();
    for resource in resources.into_iter().filter(|resource| *resource != "*" && !plurals.contains(&resource.as_str())) {
        let wrong = format!("the fault `{fault}` names the resource `{resource}`");
        problems.push(source.problem_of_text(resource, wrong, format!("`*` or one of {}", plurals.join(", "))));
    }
    for object in objects {
        if let Err(message) = writer::parse_object(object) {
            problems.push(source.problem_of_text(object, format!("the fault `{fault}`: {message}"), "an object that the cluster serves"));
        }
    }
    for target in targets.iter().filter(|target| !target.can_match(names)) {
        let wrong = format!("the fault `{fault}` is about `{target}`, which is no process and no host");
        let few = names.iter().take(6).map(String::as_str).collect::<Vec<_>>().join(", ");
        problems.push(source.problem_of_text(target, wrong, format!("a name such as {few}, or a pattern such as client-*")));
    }
    if nth == 0 {
        let counted = if fault == "sandbox-lost" { "sandboxes are counted from 1" } else { "writes are counted from 1" };
        problems.push(source.problem("nth", format!("the fault `{fault}` has `nth` 0"), counted));
    }
    problems
}

/// When a fault takes hold and how long it lasts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Since the beginning of the run.
    #[schemars(with = "Span")]
    pub at: SimTime,
    /// How long; unset = until the faults heal, and `forever` outlasts that. Ignored by faults that are over at once.
    #[serde(rename = "for", default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Span>,
}

/// A fault of a plan.
pub type Fault = With<Window, FaultKind>;

/// Whether a fault stays when the others heal: it lasts forever.
pub fn is_for_good(fault: &Fault) -> bool {
    match &fault.kind {
        FaultKind::Crash(crash) => crash.down >= Span::FOREVER,
        FaultKind::CrashAtWrite(crash) => crash.down >= Span::FOREVER,
        kind => !kind.is_instant() && fault.common.lasts.is_some_and(|lasts| lasts >= Span::FOREVER),
    }
}

/// Who is down or cut off by a fault: processes and hosts, of `names`.
pub fn victims<'a>(fault: &FaultKind, names: &'a [String]) -> impl Iterator<Item = &'a String> {
    let target = match fault {
        FaultKind::Crash(fault) => Some(&fault.process),
        FaultKind::CrashAtWrite(fault) => Some(&fault.process),
        FaultKind::Pause(fault) => Some(&fault.process),
        FaultKind::HostDown(fault) => Some(&fault.host),
        FaultKind::NodeOutOfService(fault) => Some(&fault.node),
        FaultKind::ApiServerCrash(fault) => Some(&fault.server),
        FaultKind::Partition(fault) => Some(&fault.from),
        _ => None,
    };
    let target = target.cloned();
    names.iter().filter(move |name| target.as_ref().is_some_and(|target| target.matches(name)))
}

/// How often a scenario's fault occurs in a run, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Occurrence {
    /// The probability that a run has this fault at all.
    pub likelihood: Probability,
    /// How often it occurs in a run that has it.
    pub count: Choice<u32>,
    /// When each occurrence takes hold, as a duration from the beginning or a part of the safety phase (`"50%"`); unset = at any time of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Choice<Lapse>>,
    /// How long each lasts, as a duration or a part of the safety phase (`"100%"`: until the faults heal); unset = `"100ms..10s"`.
    #[serde(rename = "for")]
    pub lasts: Choice<Lapse>,
}

impl Default for Occurrence {
    fn default() -> Self {
        let lasts = Choice::Between(Span::millis(100).into(), Span::secs(10).into());
        Self { likelihood: Probability::ALWAYS, count: Choice::Is(1), at: None, lasts }
    }
}

/// A fault of a scenario.
pub type DraftFault = With<Occurrence, FaultDraft>;

/// A value that may name processes which only the drawn cluster has.
trait Resolve {
    /// Replaces what depends on the cluster by names of it.
    fn resolve(self, draw: &mut Draw, names: &[String]) -> Self;

    /// The names themselves, if it is about names.
    fn target(&self) -> Option<Target> {
        None
    }

    /// Calls processes and hosts otherwise.
    fn rename(&mut self, rename: &dyn Fn(&str) -> String) {
        let _ = rename;
    }

    /// Simpler values, the simplest first; there is no way back from one of them.
    fn simpler(&self, names: &[String]) -> Vec<Self>
    where
        Self: Sized;
}

macro_rules! resolves_to_itself {
    ($($Type:ty: $value:ident => $simpler:expr),* $(,)?) => { $( impl Resolve for $Type {
        fn resolve(self, _: &mut Draw, _: &[String]) -> Self {
            self
        }

        fn simpler(&self, _: &[String]) -> Vec<Self> {
            let $value = self;
            $simpler
        }
    } )* };
}
resolves_to_itself! {
    // What is counted from 1 is not lowered to 0: that would be another fault, or none.
    u32: number => below(*number, &[1, number / 2, number - number.div_ceil(8)]),
    i64: number => [number / 10, number / 2].into_iter().filter(|smaller| *smaller != 0 && smaller != number).collect(),
    bool: on => if *on { vec![false] } else { vec![] },
    String: _text => vec![],
    // Shorter than a millisecond is no easier to read.
    Span: span => {
        let millis = span.0.as_millis() as u64;
        below(millis, &[1, millis / 10, millis / 2]).into_iter().map(Span::millis).collect()
    },
    // What always happens needs no draw.
    Probability: chance => if *chance == Probability::ALWAYS { vec![] } else { vec![Probability::ALWAYS] },
    Failure: _error => vec![],
    WriterMode: mode => [WriterMode::Touch, WriterMode::Rewrite].into_iter().filter(|simpler| simpler < mode).collect(),
}

/// Those of `smaller` that are below `value` and above 0, ascending.
fn below<N: Copy + Ord + Default>(value: N, smaller: &[N]) -> Vec<N> {
    let mut smaller: Vec<N> = smaller.iter().copied().filter(|&number| N::default() < number && number < value).collect();
    smaller.sort_unstable();
    smaller.dedup();
    smaller
}

impl Resolve for Target {
    fn resolve(self, draw: &mut Draw, names: &[String]) -> Self {
        self.drawn(draw, names)
    }

    fn target(&self) -> Option<Target> {
        Some(self.clone())
    }

    fn rename(&mut self, rename: &dyn Fn(&str) -> String) {
        *self = self.renamed(rename);
    }

    fn simpler(&self, names: &[String]) -> Vec<Self> {
        self.narrower(names)
    }
}

impl Open for Failure {}
impl Open for WriterMode {}
impl Open for Target {}

/// What a conflicting writer does (K §9.2 A9, E10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WriterMode {
    /// Changes an annotation, as a controller that labels things does.
    Touch,
    /// Reads the object, and some time later writes back what it read.
    Rewrite,
    /// Deletes the object and creates it again as it was some time ago, as a restore from a backup does.
    Steal,
}

/// A row of the vocabulary, for lists.
#[derive(Clone, Debug)]
pub struct FaultInfo {
    /// The kind.
    pub name: &'static str,
    /// What it does.
    pub about: String,
    /// The real event that it stands for.
    pub event: &'static str,
    /// Each parameter with its default.
    pub parameters: Vec<(&'static str, String)>,
    /// Whether it is over at once.
    pub instant: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim_config::draw::Concern;

    fn names() -> Vec<String> {
        ["apiserver-0", "apiserver-1", "client-0", "client-1"].map(str::to_owned).to_vec()
    }

    #[test]
    fn every_fault_draws_from_its_defaults_and_survives_its_file() {
        let mut draw = Draw::new(1, Concern::Faults, 0);
        for info in vocabulary() {
            let draft = FaultDraft::of(info.name).unwrap_or_else(|| panic!("{} has a required parameter", info.name));
            for _ in 0..20 {
                let fault = Fault { common: Window { at: SimTime::from_secs(3), lasts: None }, kind: draft.draw(&mut draw, &names()) };
                let text = toml::to_string(&fault).unwrap();
                let back: Fault = sim_config::toml::from_str("plan.toml", &text).unwrap_or_else(|problems| panic!("{text}\n{problems}"));
                assert_eq!(back, fault, "{text}");
            }
        }
    }

    #[test]
    fn every_fault_says_what_it_stands_for() {
        for info in vocabulary() {
            assert!(info.event.contains("(K "), "{}: the real event names its section", info.name);
            assert!(info.about.ends_with('.') && info.about.len() < 160, "{}: {}", info.name, info.about);
        }
    }

    #[test]
    fn every_fault_becomes_simpler_only_so_often() {
        let mut draw = Draw::new(2, Concern::Faults, 0);
        for info in vocabulary() {
            let mut kind = FaultDraft::of(info.name).unwrap().draw(&mut draw, &names());
            let mut steps = 0;
            // The last variant of each is the smallest step.
            while let Some(simpler) = kind.simpler(&names()).pop() {
                assert_ne!(simpler, kind, "{}", info.name);
                kind = simpler;
                steps += 1;
                assert!(steps < 200, "{} goes on becoming simpler: {kind:?}", info.name);
            }
        }
    }

    #[test]
    fn an_external_host_needs_an_address_and_a_sandbox_is_counted_from_1() {
        let problems = |kind: FaultKind| kind.problems(Source::new("", ""), &names()).to_string();
        for (address, right) in [("10.0.0.1", true), ("fd00::1", true), ("10.0.0", false), ("10.0.0.0/24", false)] {
            assert_eq!(problems(FaultKind::ExternalHost(ExternalHost { address: address.to_owned() })).is_empty(), right, "{address}");
        }
        let lost = |nth| problems(FaultKind::SandboxLost(SandboxLost { process: Target::from_text("client-0"), nth }));
        assert!(lost(1).is_empty() && lost(0).contains("sandboxes are counted from 1"));
    }

    #[test]
    fn a_fault_of_many_names_becomes_one_of_one_name() {
        let crash = |process: &str| FaultKind::Crash(Crash { process: Target::from_text(process), down: Span::millis(1) });
        assert_eq!(crash("client-0,client-1").simpler(&names()), [crash("client-0"), crash("client-1")]);
        assert_eq!(crash("client-*").simpler(&names()), [crash("client-0"), crash("client-1")]);
        assert_eq!(crash("*").simpler(&names()).len(), 4);
        assert_eq!(crash("client-1").simpler(&names()), []);
    }

    #[test]
    fn a_process_that_is_called_otherwise_is_so_in_lists_and_not_in_patterns() {
        let mut crash = FaultKind::Crash(Crash { process: Target::from_text("client-2, client-*"), down: Span::millis(1) });
        crash.rename(&|name| if name == "client-2" { "client-1".to_owned() } else { name.to_owned() });
        assert_eq!(crash.targets(), [Target::from_text("client-1,client-*")]);
    }

    #[test]
    fn a_drawn_target_names_processes_of_the_cluster() {
        let mut draw = Draw::new(1, Concern::Faults, 0);
        let FaultKind::Crash(crash) = FaultDraft::of("crash").unwrap().draw(&mut draw, &names()) else { panic!("not a crash") };
        assert!(names().contains(&crash.process.to_string()), "{}", crash.process);
    }
}
