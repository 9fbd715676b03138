//! The scenarios for which a size is searched: the requested one, the same without its faults, with more pods, and with something else
//! changed.

use std::path::Path;

use ipam_reports::demand::EVERY_DEL_ARRIVES;
use sim_byom::workload::burst::ADDRESSES_MAX;
use sim_config::{Choice, Setting, Source};
use sim_harness::check::Checks;
use sim_harness::engine::load::{self, Ready};
use sim_harness::scenario::Scenario;
use sim_spiderpool::workload::{SpiderDraft, TraceRows, TraceSize};

use super::super::points;
use super::super::what_if::{self, Change};
use crate::cli::CliError;
use crate::cli::report::args::CapacityArgs;

/// The scenario for users who bring only a trace, built in, so that it works in any folder.
const TRACE_FILE: &str = "scenarios/capacity/trace-hour.toml";
const TRACE: &str = include_str!("../../../../../assets/trace-hour.toml");

/// The maximum number of pods per node, so that no pod of a trace waits for a node: fewer than kubelets allow.
const PODS_OF_A_NODE: u64 = 50;

/// The maximum number of addresses in a pool of a scenario.
const POOL_MAX: u64 = 65_000;

/// The name of the form that is the unchanged scenario.
const AS_IT_IS: &str = "as it is";

/// The seed with which copies of pods are drawn.
const GROWTH_SEED: u64 = 0;

/// A form of the scenario, with its own row in the tables.
pub(super) struct Case {
    /// The name of the form in tables and sentences.
    pub(super) name: String,
    /// The scenario of the form, with the largest pool that is tried.
    pub(super) ready: Ready,
}

/// Every requested form, the unchanged scenario first.
///
/// # Errors
/// The scenario is none of Spiderpool's, or the request is invalid.
pub(super) fn all(args: &CapacityArgs) -> Result<Vec<Case>, CliError> {
    let base = scenario(args, None)?;
    let mut cases = vec![Case { name: AS_IT_IS.to_owned(), ready: base.clone() }];
    if !base.scenario.fault.is_empty() || base.scenario.swarm.is_some() {
        let mut calm = base.clone();
        calm.scenario.fault.clear();
        calm.scenario.swarm = None;
        cases.push(Case { name: EVERY_DEL_ARRIVES.to_owned(), ready: calm });
    }
    for factor in args.others.growth.iter().flat_map(|growth| &growth.0) {
        let Some(rows) = rows(&base.scenario) else {
            let wrong = format!("--growth makes more of the pods of a trace, and `{}` has none", base.scenario.name);
            return Err(CliError::usage(wrong).hint("name one with --trace, or a scenario with `workload.trace`"));
        };
        // That is the unchanged trace.
        if (factor - 1.0).abs() < f64::EPSILON {
            continue;
        }
        let grown = with_rows(&base.scenario, rows.grown(*factor, GROWTH_SEED)).map_err(|operations| {
            CliError::usage(format!("--growth {factor} makes {operations} operations of the trace, more than a run may have"))
                .hint("ask for a smaller factor")
        })?;
        let ready = Ready { scenario: with_room(&grown), ..base.clone() };
        cases.push(Case { name: format!("{factor} times the pods"), ready });
    }
    let changes = what_if::changes(&args.sharing.vary)?;
    if args.sharing.vary.iter().any(|vary| vary.key() == "workload.addresses") {
        return Err(CliError::usage("`workload.addresses` is what is searched for".to_owned())
            .hint("vary another key; `--set workload.addresses=N` says which size is the largest that is tried"));
    }
    let changed =
        changes.into_iter().map(|change| scenario(args, Some(&change)).map_err(|error| change.told(error)).map(|ready| (change, ready)));
    let changed = changed.collect::<Result<Vec<_>, _>>()?;
    let file = Path::new(&base.file).to_owned();
    for (change, mut ready) in what_if::effective(&file, &base.scenario, changed, |ready| &ready.scenario)? {
        ready.scenario = with_room(&ready.scenario);
        cases.push(Case { name: change.name, ready });
    }
    Ok(cases)
}

/// The one requested scenario, with a change in it. Its claims are removed: `run` judges them.
fn scenario(args: &CapacityArgs, change: Option<&Change>) -> Result<Ready, CliError> {
    let changed = |set: &[Setting]| change.map_or_else(|| set.to_vec(), |change| change.with(set));
    let (mut all, name) = match &args.scenario {
        Some(file) => {
            let mut options = args.form.load_options(file);
            options.set.splice(0..0, args.trace.settings());
            options.set = changed(&options.set);
            (load::scenarios(&options)?, file.display().to_string())
        }
        None => (vec![of_trace(args, changed)?], "the trace".to_owned()),
    };
    if all.len() > 1 {
        let names: Vec<&str> = all.iter().map(|ready| &*ready.scenario.name).collect();
        return Err(CliError::usage(format!("{name} holds several scenarios: {}", names.join(", "))).hint("choose one with --variant"));
    }
    let mut ready = all.pop().ok_or_else(|| CliError::usage(format!("{name} holds no scenario")))?;
    let Some(draft) = draft_mut(&mut ready.scenario) else {
        return Err(CliError::usage(format!("{name}: the pods of `{}` get no addresses from Spiderpool", ready.scenario.name))
            .hint("without a scenario, `report capacity` is about bursts at one BYOM pool"));
    };
    draft.addresses = Choice::Is(*draft.addresses.bounds().1);
    draft.pools = Choice::Is(*draft.pools.bounds().1);
    if *draft.addresses.bounds().1 == 0 {
        return Err(CliError::usage(format!("{name}: a pool without addresses is enough for nothing"))
            .hint("`workload.addresses` is the largest size that is tried: more than are needed"));
    }
    if let Some(file) = &args.sharing.faults {
        let wrong = format!("{name} has faults of its own, and --faults {} is for bursts at one pool", file.display());
        return Err(CliError::usage(wrong).hint("write `[[fault]]` or `[swarm]` in the scenario"));
    }
    if let Some(servers) = points::servers(&args.sharing)? {
        servers.apply(&mut ready.scenario.cluster);
    }
    ready.scenario.check = Checks::default();
    Ok(ready)
}

/// The scenario for users who bring only a trace: the built-in one, with room for all pods and time for all their events.
fn of_trace(args: &CapacityArgs, changed: impl Fn(&[Setting]) -> Vec<Setting>) -> Result<Ready, CliError> {
    let none = || CliError::usage("no trace is named".to_owned());
    let trace = args.trace.trace.as_deref().ok_or_else(none)?;
    let names = args.trace.columns.clone().unwrap_or_default().0;
    let TraceSize { peak, lasts, .. } = TraceRows::read(trace, &names)?.size();
    let peak = u64::try_from(peak).unwrap_or(u64::MAX);
    let nodes = peak.div_ceil(PODS_OF_A_NODE).max(3);
    let set = |key: &str, value: String| Setting { key: key.to_owned(), value };
    let mut settings = vec![
        set("name", "trace".to_owned()),
        set("workload.addresses", room_for(peak).min(u64::from(ADDRESSES_MAX)).to_string()),
        set("workload.nodes", nodes.to_string()),
        set("phases.safety", format!("{}s", lasts.as_secs() + 60)),
    ];
    settings.extend(args.trace.settings());
    settings.extend(args.form.set.iter().cloned());
    // In no folder: the trace is relative to the working directory of the program.
    let scenario = Scenario::parse(Path::new("trace.toml"), Source::new(TRACE_FILE, TRACE).with(&changed(&settings)))?;
    Ok(Ready::new("trace.toml", scenario)?)
}

fn draft_mut(scenario: &mut Scenario) -> Option<&mut SpiderDraft> {
    scenario.workload.get_mut::<sim_spiderpool::Drafts>().map(sim_spiderpool::Drafts::cluster_mut)
}

pub(super) fn draft(scenario: &Scenario) -> Option<&SpiderDraft> {
    scenario.workload.get().map(sim_spiderpool::Drafts::cluster)
}

/// The pods of the trace of a scenario.
pub(super) fn rows(scenario: &Scenario) -> Option<&TraceRows> {
    draft(scenario)?.trace_rows()
}

/// The scenario with other pods in its trace.
///
/// # Errors
/// The number of their operations, if it is more than a run may have.
pub(super) fn with_rows(scenario: &Scenario, rows: TraceRows) -> Result<Scenario, u64> {
    let mut scenario = scenario.clone();
    draft_mut(&mut scenario).map_or(Ok(()), |draft| draft.set_trace_rows(rows))?;
    Ok(scenario)
}

/// The scenario with this many addresses in each pool.
pub(super) fn with_addresses(scenario: &Scenario, addresses: u32) -> Scenario {
    let mut scenario = scenario.clone();
    if let Some(draft) = draft_mut(&mut scenario) {
        draft.addresses = Choice::Is(addresses);
    }
    scenario
}

/// The largest size of a pool that is tried.
pub(super) fn given(scenario: &Scenario) -> u32 {
    draft(scenario).map_or(0, |draft| *draft.addresses.bounds().1)
}

/// The number of addresses for at most `peak` pods that live at a time: leaked addresses and terminating pods come on top.
fn room_for(peak: u64) -> u64 {
    3 * peak + 20
}

/// The largest size of a pool that is tried: `most`, or more if the pods of the trace may need more.
pub(super) fn room(scenario: &Scenario, most: u32) -> u32 {
    let Some(draft) = draft(scenario) else { return most };
    let peak = draft.trace_rows().map_or(0, |rows| rows.size().peak as u64) * u64::from(draft.trace_replication);
    let pools = u64::from(*draft.pools.bounds().1).max(1);
    let need = if peak > 0 { room_for(peak).div_ceil(pools).min(POOL_MAX) } else { 0 };
    most.max(u32::try_from(need).unwrap_or(most))
}

fn with_room(scenario: &Scenario) -> Scenario {
    with_addresses(scenario, room(scenario, given(scenario)))
}

/// The total number of addresses.
pub(super) fn total(scenario: &Scenario) -> u64 {
    scenario.draw(0).workload.get().map_or(0, |plans: &sim_spiderpool::Plans| plans.cluster().addresses())
}

/// The increase in the total number of addresses if each pool has one more.
pub(super) fn step(scenario: &Scenario) -> u64 {
    total(&with_addresses(scenario, 2)).saturating_sub(total(&with_addresses(scenario, 1))).max(1)
}

/// The factor by which the time of the trace is compressed; 1 = it is not, or there is no trace.
pub(super) fn compression(scenario: &Scenario) -> u32 {
    draft(scenario).filter(|draft| draft.trace.is_some()).map_or(1, |draft| draft.trace_compression)
}
