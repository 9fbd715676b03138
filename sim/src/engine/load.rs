//! From the files and flags of a command line to scenarios that can run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::cli::CliError;
use crate::cli::args::RunArgs;
use crate::deviation::{self, DeviationName, Profile};
use crate::input::{Problem, Problems, Setting, Source, manifest, stored, toml as input_toml};
use crate::scenario::{self, Scenario};
use crate::workload::{Adoption, Misfit, Misnamed};
use crate::world::{Stage, registry};

/// A scenario that can run.
pub(crate) struct Ready {
    pub file: String,
    pub scenario: Scenario,
    pub stage: Stage,
    /// Whether it runs on the user's own cluster (`--manifests`), which need not hold what its claims are about.
    pub brought: bool,
}

/// Reads the scenarios of a `run`, with its flags applied.
pub(crate) fn scenarios(args: &RunArgs) -> Result<Vec<Ready>, CliError> {
    let deviations = names(&args.deviation)?;
    let without = names(&args.without)?;
    let files = scenario::find(&args.scenarios).map_err(super::bad_input)?;
    let manifests: Vec<String> = args.manifests.iter().map(|path| path.display().to_string()).collect();
    let brought = (!manifests.is_empty()).then(|| stage(&manifests)).transpose().map_err(super::bad_input)?;
    let mut homeless = false;
    let mut problems = Problems::new();
    let mut ready: Vec<Ready> = Vec::new();
    for file in files {
        let read = read(&file, &args.set).and_then(|scenario| {
            let wanted = |one: &Scenario| args.variant.as_ref().is_none_or(|wanted| *wanted == one.name);
            let each = each(&file, &args.set, &scenario, wanted, |scenario| {
                change_deviations(scenario, args.profile, &deviations, &without);
                let Some(stage) = &brought else { return stage_of(scenario) };
                scenario.cluster.manifests.clone_from(&manifests);
                Ok(stage.clone())
            });
            let each = each.map_err(|mut problems| {
                if brought.is_some() {
                    let wrong =
                        "its script works on what is not in the cluster of `--manifests`, which takes the place of the generated one";
                    problems.push(Problem::of_file(&file.display().to_string(), wrong, "mend the script, or name only other scenarios"));
                }
                problems
            })?;
            let of = |Settled { scenario, stage, adoption }| {
                homeless |= brought.is_some() && adoption == Adoption::NothingThere;
                let brought = brought.is_some() && adoption == Adoption::MovedIn;
                Ready { file: file.display().to_string(), scenario, stage, brought }
            };
            Ok(each.into_iter().map(of).collect::<Vec<Ready>>())
        });
        ready.extend(problems.collect(read).into_iter().flatten());
    }
    if let Some(wanted) = args.variant.as_ref().filter(|_| ready.is_empty() && problems.is_empty()) {
        return Err(CliError::usage(format!("no scenario of these files is called `{wanted}`; `ipam-sim list scenarios` shows all")));
    }
    if homeless {
        let wrong = "no node, no pool, no subnet, no application and no pod of a cluster is in there";
        let right = "`--manifests` takes what `kubectl get ns,no,sp,sr,ss,se,sts,deploy,rs,ds,jobs,po,cm -A -o yaml` prints";
        problems.push(Problem::of_file(&manifests.join(" "), wrong, right));
    }
    // Plans of failing seeds are called after their scenario.
    let mut names = BTreeSet::new();
    for Ready { file, scenario, .. } in &ready {
        if !names.insert(&scenario.name) {
            problems.push(Problem::of_file(file, format!("another scenario is called `{}`, too", scenario.name), "a name of its own"));
        }
    }
    problems.or(ready).map_err(super::bad_input)
}

/// Reads one scenario, with the values of `settings` instead of its own.
pub(crate) fn read(file: &Path, settings: &[Setting]) -> Result<Scenario, Problems> {
    if settings.is_empty() {
        return Scenario::read(file);
    }
    // The file itself must be right before anything in it is replaced.
    Scenario::read(file)?;
    let (name, text) = input_toml::text(file)?;
    Scenario::parse(file, Source::new(&name, &text).with(settings))
}

/// The deviations of these names.
pub(crate) fn names(names: &[String]) -> Result<Vec<DeviationName>, CliError> {
    let find = |name: &String| {
        let unknown = || CliError::usage(format!("there is no deviation `{name}`")).hint(DeviationName::advice(name));
        DeviationName::new(name).ok_or_else(unknown)
    };
    names.iter().map(find).collect()
}

fn change_deviations(scenario: &mut Scenario, profile: Option<Profile>, add: &[DeviationName], without: &[DeviationName]) {
    let had_some = !scenario.deviations.is_empty();
    change(&mut scenario.deviations, profile, add, without);
    // Without what it is there to find, a negative scenario is one that must hold.
    if had_some && scenario.deviations.is_empty() {
        scenario.expect = None;
    }
}

/// Changes deviations as flags ask for it.
pub(crate) fn change(active: &mut Vec<DeviationName>, profile: Option<Profile>, add: &[DeviationName], without: &[DeviationName]) {
    let upstream = |name: &DeviationName| deviation::ALL.iter().any(|deviation| deviation.upstream && deviation.name == name.as_str());
    match profile {
        Some(Profile::Hardened) => active.retain(|name| !upstream(name)),
        Some(Profile::Upstream) => {
            active.extend(deviation::upstream());
        }
        None => {}
    }
    active.extend(add.iter().cloned());
    active.retain(|name| !without.contains(name));
    active.sort();
    active.dedup();
}

/// A scenario whose workload knows the cluster that it works on.
pub(crate) struct Settled {
    pub scenario: Scenario,
    pub stage: Stage,
    pub adoption: Adoption,
}

/// Each scenario that a file stands for and that is `wanted`, in the cluster that `stage` says.
///
/// # Errors
/// What is wrong with their manifests; operations that name what nothing can be called there, in the file that was read with `settings`.
pub(crate) fn each(
    file: &Path,
    settings: &[Setting],
    scenario: &Scenario,
    wanted: impl Fn(&Scenario) -> bool,
    mut stage: impl FnMut(&mut Scenario) -> Result<Stage, Problems>,
) -> Result<Vec<Settled>, Problems> {
    let mut problems = Problems::new();
    let mut all = Vec::new();
    for (number, mut one) in scenario.each().into_iter().enumerate().filter(|(_, one)| wanted(one)) {
        let stage = stage(&mut one)?;
        let adoption = one.workload.adopt(&stage.objects);
        let misnamed = one.misnamed(&stage.objects);
        if !misnamed.is_empty() {
            let (name, text) = input_toml::text(file)?;
            let source = Source::new(&name, &text).with(settings).of_variant((!scenario.variant.is_empty()).then_some(number));
            let mut of_variant = Problems::new();
            for Misnamed { op, key, misfit: Misfit { found, wrong, right } } in misnamed {
                of_variant.push(source.problem_of_row(("op", op), key, &found, wrong, right));
            }
            problems.merge(&of_variant);
        }
        all.push(Settled { scenario: one, stage, adoption });
    }
    problems.or(all)
}

/// The objects that exist at the beginning; the workload takes over what is there.
pub(crate) fn move_in(scenario: &mut Scenario) -> Result<Stage, Problems> {
    let stage = stage_of(scenario)?;
    scenario.workload.adopt(&stage.objects);
    Ok(stage)
}

/// The objects of a scenario's own manifests.
pub(crate) fn stage_of(scenario: &mut Scenario) -> Result<Stage, Problems> {
    stage(&scenario.cluster.manifests)
}

/// The objects that exist at the beginning.
pub(crate) fn stage(manifests: &[String]) -> Result<Stage, Problems> {
    let paths: Vec<PathBuf> = manifests.iter().map(PathBuf::from).collect();
    let registry = registry();
    let mut problems = Problems::new();
    let mut objects = Vec::new();
    for manifest in manifest::read(&paths)? {
        problems.collect(stored::check(&manifest));
        // What the cluster does not serve is left out; `check` names it.
        if let Some(kind) = registry.find(&manifest.api_version, &manifest.kind)
            && let Some((object, _)) = problems.collect((registry.get(kind).decode)(&manifest))
        {
            objects.push((kind, object));
        }
    }
    problems.or(Stage::new(objects))
}
