//! `list`: scenarios, claims, faults and mutations.

use ipam_reports::listing::{ClaimEntry, DeviationEntry, ExcuseEntry, FaultEntry, Parameter, ScenarioEntry};
use ipam_reports::{ListReport, reference};
use kube_sim::fault;
use sim_config::Problems;
use sim_harness::check::{COMMON_EXCUSES, COMMON_SUITE, ClaimName, Excuse};
use sim_harness::claim::{self};
use sim_harness::deviation;
use sim_harness::scenario::{self, Scenario};
use sim_harness::swarm::{PATTERNS, Pattern};
use sim_harness::system::{System, systems};

use crate::cli::CliError;
use crate::cli::args::{ListArgs, What};

/// Lists the requested parts.
pub(super) fn list(args: &ListArgs) -> Result<ListReport, CliError> {
    let mut report = ListReport::default();
    if args.wants(What::Scenarios) {
        report.scenarios = Some(scenarios(args)?);
    }
    if args.wants(What::Claims) {
        let entry = |suite: &claim::ClaimSuite, def: &claim::ClaimDef| ClaimEntry {
            name: def.name.to_owned(),
            suite: suite.name.to_owned(),
            kind: def.kind,
            about: def.about.to_owned(),
            reference: def.reference.map(str::to_owned),
            reference_url: def.reference.and_then(reference::url),
        };
        let suites = systems().suites().iter();
        report.claims = Some(suites.flat_map(|suite| suite.claims.iter().map(|def| entry(suite, def))).collect());
        let entry = |system: &str, excuse: &Excuse| ExcuseEntry {
            name: excuse.name.to_owned(),
            system: system.to_owned(),
            about: excuse.about.to_owned(),
            begins: excuse.begins.to_owned(),
            ends: excuse.ends.to_owned(),
            reference: excuse.reference.map(str::to_owned),
            reference_url: excuse.reference.and_then(reference::url),
        };
        let common = COMMON_EXCUSES.iter().map(|excuse| entry(COMMON_SUITE, excuse));
        let of_system = |system: &'static dyn System| system.excuses().iter().map(move |excuse| entry(system.name(), excuse));
        report.excuses = Some(common.chain(systems().iter().flat_map(of_system)).collect());
    }
    if args.wants(What::Faults) {
        let entry = |info: fault::FaultInfo| FaultEntry {
            name: info.name.to_owned(),
            about: info.about,
            parameters: info.parameters.into_iter().map(|(name, default)| Parameter { name: name.to_owned(), default }).collect(),
            event: info.event.to_owned(),
            reference_url: reference::url(info.event),
        };
        let pattern = |pattern: &Pattern| {
            let event = format!("only in a swarm, as {} (K §9.1)", pattern.faults());
            let reference_url = reference::url(&event);
            FaultEntry { name: pattern.name().to_owned(), about: pattern.about().to_owned(), parameters: Vec::new(), event, reference_url }
        };
        report.faults = Some(fault::vocabulary().into_iter().map(entry).chain(PATTERNS.iter().map(pattern)).collect());
    }
    if args.wants(What::Mutations) {
        let entry = |deviation: &deviation::Deviation| DeviationEntry {
            name: deviation.name.to_owned(),
            about: deviation.about.to_owned(),
            how: deviation.how.to_string(),
            reference_url: Some(reference::deviation(deviation.name).url()),
        };
        report.deviations = Some(systems().mutations().iter().map(entry).collect());
    }
    Ok(report)
}

fn scenarios(args: &ListArgs) -> Result<Vec<ScenarioEntry>, Problems> {
    let mut problems = Problems::new();
    let mut entries = Vec::new();
    for file in scenario::find(&args.paths)? {
        for scenario in problems.collect(Scenario::read_each(&file)).into_iter().flatten() {
            entries.push(ScenarioEntry {
                name: scenario.name,
                file: file.display().to_string(),
                seeds: scenario.seeds,
                expect: scenario.expect.as_ref().map(ClaimName::to_string),
                why: scenario.why,
            });
        }
    }
    problems.or(entries)
}
