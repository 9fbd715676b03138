//! Faults: their kinds, their times, and their effects on the cluster.
//!
//! A scenario holds [`FaultDraft`]s, whose values may be ranges; a plan holds [`FaultKind`]s, whose values are drawn.
//!
//! ```text
//!   kinds   what there is ──draw──► plan ──► schedule   when each begins and ends ──► effect   what it applies to the cluster, and reverts
//! ```
//! To add a fault: a file in `kinds` that implements [`Inject`], its line in the list there, and a test in `tests/simulation/faults/` that
//! shows its effect.

mod blocks;
mod drawn;
mod effect;
mod kinds;
mod object_change;
mod operator;
mod parameters;
mod process_down;
mod schedule;
mod subject;
mod target;
mod targeting;
mod timing;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::With;
use sim_config::time::{SimTime, Span};

pub use blocks::Blocks;
pub use drawn::{Aim, Drawn};
pub use effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
pub use kinds::*;
pub use object_change::{ChangeKind, ObjectChange, ObjectChangeDraft};
pub use parameters::{Invalid, Inventory, Parameters};
pub use schedule::Faults;
pub use subject::Subject;
pub use target::Target;
pub use targeting::{FaultTargets, Targeting};
pub use timing::{Lasts, Trigger, Wait};

/// The start and the duration of a fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// The start, since the beginning of the run. A fault that waits for changes begins to wait for them then.
    #[schemars(with = "Span")]
    pub at: SimTime,
    /// The duration; unset = until the faults heal, and `forever` lasts beyond that. Ignored by instantaneous faults.
    #[serde(rename = "for", default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Span>,
    /// The changes with the last of which the fault begins; each is waited for after the one before it has happened; empty = it begins at
    /// its time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<ObjectChange>,
}

impl Window {
    /// A window from `at` on that lasts for `lasts`.
    pub fn new(at: SimTime, lasts: Option<Span>) -> Self {
        Self { at, lasts, when: Vec::new() }
    }
}

/// A fault of a plan.
pub type Fault = With<Window, FaultKind>;

/// Whether a fault stays when the others heal: it lasts forever.
pub fn is_for_good(fault: &Fault) -> bool {
    match fault.kind.recovers_after() {
        Some(down) => down >= Span::FOREVER,
        None => !fault.kind.is_instant() && fault.common.lasts.is_some_and(|lasts| lasts >= Span::FOREVER),
    }
}

/// The processes and hosts in `names` that a fault takes down or cuts off.
pub fn victims<'a>(fault: &FaultKind, names: &'a [String]) -> impl Iterator<Item = &'a String> {
    let target = fault.blocks().victims().cloned();
    names.iter().filter(move |name| target.as_ref().is_some_and(|target| target.matches(name)))
}

/// A row of the vocabulary, for lists.
#[derive(Clone, Debug)]
pub struct FaultInfo {
    /// The kind, by its name in scenarios and plans: `watch-lag`.
    pub name: &'static str,
    /// The effect of the fault, in one line: the documentation of its type.
    pub about: String,
    /// The real event that it stands for.
    pub event: &'static str,
    /// Each parameter with its default.
    pub parameters: Vec<(&'static str, String)>,
    /// Whether it is instantaneous.
    pub instant: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{Registry, builtin};
    use sim_config::Source;
    use sim_config::draw::{Concern, Draw};

    fn names() -> Vec<String> {
        ["apiserver-0", "apiserver-1", "client-0", "client-1"].map(str::to_owned).to_vec()
    }

    #[test]
    fn every_fault_draws_from_its_defaults_and_survives_its_file() {
        let mut draw = Draw::new(1, Concern::Faults, 0);
        for info in vocabulary() {
            let draft = FaultDraft::of(info.name).unwrap_or_else(|| panic!("{} has a required parameter", info.name));
            for _ in 0..20 {
                let fault = Fault { common: Window::new(SimTime::from_secs(3), None), kind: draft.draw(&mut draw, &names()) };
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
    fn every_subject_names_each_process_and_host_of_the_fault() {
        let mut draw = Draw::new(3, Concern::Faults, 0);
        for info in vocabulary() {
            let kind = FaultDraft::of(info.name).unwrap().draw(&mut draw, &names());
            let subject = kind.subject().to_string();
            assert!(kind.targets().iter().all(|target| subject.contains(&target.to_string())), "{}: {subject}", info.name);
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
        let (names, types) = (names(), Registry::new(builtin()));
        let inventory = Inventory { names: &names, types: &types };
        let problems = |kind: FaultKind| kind.problems(Source::new("", ""), &inventory).to_string();
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
