//! Loads scenario files, with changes, as scenarios that can run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ipam_reports::command::program;
use sim_config::{Position, Problem, Problems, Setting, Source, manifest, toml as input_toml};

use super::Error;
use crate::deviation::{self, DeviationName, Profile};
use crate::plan::{Plan, hash_text};
use crate::scenario::{self, Scenario};
use crate::served::registry;
use crate::system::systems;
use crate::workload::{Adoption, InvalidValue, Misnamed};
use crate::world::Stage;

/// The selected scenarios, and the changes to them. The default leaves every scenario as in its file.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Scenario files, or folders of them.
    pub scenarios: Vec<PathBuf>,
    /// Only the scenario, or the variant in a file, of this name.
    pub variant: Option<String>,
    /// Values that replace those of the files.
    pub set: Vec<Setting>,
    /// Manifests whose objects replace the cluster that a scenario describes; empty = the scenario's own.
    pub manifests: Vec<PathBuf>,
    /// Changes of the deviations of the systems under test.
    pub deviations: DeviationChange,
}

/// A change of the active deviations: first the profile, then additions, then removals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviationChange {
    /// All deviations of upstream, or none; `None` = the active ones stay.
    pub profile: Option<Profile>,
    /// Deviations that are switched on as well.
    pub add: Vec<DeviationName>,
    /// Deviations that are switched off.
    pub without: Vec<DeviationName>,
}

impl DeviationChange {
    /// Changes `active`, which is sorted afterwards and holds no name twice.
    pub fn apply(&self, active: &mut Vec<DeviationName>) {
        let upstream =
            |name: &DeviationName| systems().mutations().iter().any(|deviation| deviation.upstream && deviation.name == name.as_str());
        match self.profile {
            Some(Profile::Hardened) => active.retain(|name| !upstream(name)),
            Some(Profile::Upstream) => active.extend(deviation::upstream()),
            None => {}
        }
        active.extend(self.add.iter().cloned());
        active.retain(|name| !self.without.contains(name));
        active.sort();
        active.dedup();
    }

    /// Changes a scenario. A negative scenario without the mutation that it is meant to find must hold.
    fn apply_to(&self, scenario: &mut Scenario) {
        let had_some = !scenario.deviations.is_empty();
        self.apply(&mut scenario.deviations);
        if had_some && scenario.deviations.is_empty() {
            scenario.expect = None;
        }
    }
}

/// A scenario that can run.
#[derive(Clone)]
pub struct Ready {
    /// The path of its file, as the user gave it.
    pub file: String,
    /// The scenario, whose workload knows the objects of the stage.
    pub scenario: Scenario,
    /// The objects that exist at the beginning of each run.
    pub stage: Stage,
    /// Whether it runs on a cluster from manifests ([`LoadOptions::manifests`]), which may lack the objects that its claims are about.
    pub brought: bool,
    /// The profile that was asked for; `None` = that of the file.
    pub profile: Option<Profile>,
}

impl Ready {
    /// A scenario of `file` in its own cluster.
    ///
    /// # Errors
    /// Returns all problems of its manifests.
    pub fn new(file: &str, mut scenario: Scenario) -> Result<Self, Problems> {
        let stage = stage(&scenario.cluster.manifests)?;
        scenario.workload.draft_mut().adopt(&stage.objects);
        Ok(Self { file: file.to_owned(), scenario, stage, brought: false, profile: None })
    }
}

/// Reads scenarios. No two of them have the same name: plans of failing seeds are named after their scenario.
///
/// # Errors
/// Returns all problems of files and manifests; fails if no scenario has the requested name.
pub fn scenarios(options: &LoadOptions) -> Result<Vec<Ready>, Error> {
    let files = scenario::find(&options.scenarios)?;
    let manifests: Vec<String> = options.manifests.iter().map(|path| path.display().to_string()).collect();
    let brought = (!manifests.is_empty()).then(|| stage(&manifests)).transpose()?;
    let mut homeless = false;
    let mut problems = Problems::new();
    let mut ready: Vec<Ready> = Vec::new();
    for file in files {
        let wanted = |one: &Scenario| options.variant.as_ref().is_none_or(|wanted| *wanted == one.name);
        let read = ScenarioFile::open(&file, &options.set).and_then(|open| {
            let settled = open.settle(open.read(wanted)?, |scenario| {
                options.deviations.apply_to(scenario);
                let Some(stage) = &brought else { return stage_of(scenario) };
                scenario.cluster.manifests.clone_from(&manifests);
                Ok(stage.clone())
            });
            settled.map_err(|mut problems| {
                if brought.is_some() {
                    let wrong = "the scenario's operations refer to objects that are missing from --manifests";
                    problems.push(Problem::of_file(&open.name(), wrong, "edit the operations, or drop this scenario"));
                }
                problems
            })
        });
        let of = |(ready, adoption): (Ready, Adoption)| {
            homeless |= brought.is_some() && adoption == Adoption::NothingThere;
            Ready { brought: brought.is_some() && adoption == Adoption::MovedIn, profile: options.deviations.profile, ..ready }
        };
        ready.extend(problems.collect(read).into_iter().flatten().map(of));
    }
    if let Some(wanted) = options.variant.as_ref().filter(|_| ready.is_empty() && problems.is_empty()) {
        let program = program();
        return Err(Error::usage(format!("no scenario of these files is called `{wanted}`; `{program} list scenarios` shows all")));
    }
    if homeless {
        let wrong = "the manifests hold no node, no workload and no object of a system under test";
        let right = "`--manifests` takes what `kubectl get ... -A -o yaml` prints of nodes, namespaces, workloads, pods, ConfigMaps and \
                     the custom resources of the system";
        of_each(&manifests, wrong, right).into_iter().for_each(|problem| problems.push(problem));
    }
    let mut names = BTreeSet::new();
    for Ready { file, scenario, .. } in &ready {
        if !names.insert(&scenario.name) {
            problems.push(same_name(file, &scenario.name));
        }
    }
    Ok(problems.or(ready)?)
}

/// A problem of several manifests together, located at the beginning of each, since any of them may be the wrong one.
fn of_each(manifests: &[String], wrong: &str, right: &str) -> Vec<Problem> {
    let of = |name: &String| match Path::new(name).is_dir() {
        // A folder has no lines.
        true => Problem::of_file(name, wrong, right),
        false => Problem::at(name, Position::START, wrong, right),
    };
    manifests.iter().map(of).collect()
}

/// The problem that another scenario has the same name, located at the name.
fn same_name(file: &str, name: &str) -> Problem {
    let (wrong, right) = (format!("another scenario is called `{name}`, too"), "a name of its own");
    match input_toml::text(Path::new(file)) {
        Ok((title, text)) => Source::new(&title, &text).problem_of_text(name, wrong, right),
        Err(_) => Problem::of_file(file, wrong, right),
    }
}

/// The scenarios of a file that are `wanted`, each in its own cluster.
///
/// # Errors
/// Returns all problems of the file and its manifests.
pub fn variants(file: &Path, wanted: impl Fn(&Scenario) -> bool) -> Result<Vec<Ready>, Problems> {
    let open = ScenarioFile::open(file, &[])?;
    let settled = open.settle(open.read(wanted)?, stage_of)?;
    Ok(settled.into_iter().map(|(ready, _)| ready).collect())
}

/// The text of a scenario file, in which problems are located.
struct ScenarioFile<'a> {
    path: &'a Path,
    /// Its name in problems.
    title: String,
    text: String,
    settings: &'a [Setting],
}

impl<'a> ScenarioFile<'a> {
    /// A file, with the values of `settings` instead of its own.
    fn open(path: &'a Path, settings: &'a [Setting]) -> Result<Self, Problems> {
        let (title, text) = input_toml::text(path)?;
        Ok(Self { path, title, text, settings })
    }

    /// The path of the file, as the user gave it.
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// The scenarios of the file that are `wanted`, each with the source of its problems.
    ///
    /// # Errors
    /// Returns all problems of the file, including those of scenarios that are not wanted.
    fn read(&self, wanted: impl Fn(&Scenario) -> bool) -> Result<Vec<(Source<'_>, Scenario)>, Problems> {
        let source = Source::new(&self.title, &self.text);
        let mut own = Scenario::parse_each(self.path, source, |_| true)?;
        if self.settings.is_empty() {
            own.retain(|(_, one)| wanted(one));
            return Ok(own);
        }
        // The file must be correct before anything in it is replaced: a setting must not hide a problem of the file. And the setting need
        // only suit the wanted scenarios.
        Scenario::parse_each(self.path, source.with(self.settings), |number| own.get(number).is_some_and(|(_, one)| wanted(one)))
    }

    /// These scenarios, each in the cluster from `stage`, with the adoption of its workload.
    ///
    /// # Errors
    /// Returns problems of their manifests, and operations with names that nothing there can have.
    fn settle(
        &self,
        scenarios: Vec<(Source<'_>, Scenario)>,
        mut stage: impl FnMut(&mut Scenario) -> Result<Stage, Problems>,
    ) -> Result<Vec<(Ready, Adoption)>, Problems> {
        let mut problems = Problems::new();
        let mut all = Vec::new();
        for (source, mut one) in scenarios {
            let stage = stage(&mut one)?;
            let adoption = one.workload.draft_mut().adopt(&stage.objects);
            let mut of_variant = Problems::new();
            for Misnamed { op, key, invalid: InvalidValue { found, wrong, right } } in one.misnamed(&stage.objects) {
                of_variant.push(source.problem_of_row(("op", op), key, &found, wrong, right));
            }
            problems.merge(&of_variant);
            all.push((Ready { file: self.name(), scenario: one, stage, brought: false, profile: None }, adoption));
        }
        problems.or(all)
    }
}

/// The objects of a scenario's own manifests.
fn stage_of(scenario: &mut Scenario) -> Result<Stage, Problems> {
    stage(&scenario.cluster.manifests)
}

/// The objects of the manifests of a plan.
///
/// # Errors
/// Returns all problems of the manifests; fails if they changed since the plan was recorded.
pub fn stage_of_plan(plan: &Plan) -> Result<Stage, Problems> {
    let stage = stage(&plan.cluster.manifests)?;
    match plan.manifests_recorded() {
        Some(recorded) if *recorded != *stage.manifests => {
            let wrong = format!("the manifests changed since the plan was recorded: they were {recorded} and are {}", stage.manifests);
            let right = "bring them back, or take `recorded` out of the plan to run it on what they hold now";
            let mut problems = Problems::new();
            of_each(&plan.cluster.manifests, &wrong, right).into_iter().for_each(|problem| problems.push(problem));
            Err(problems)
        }
        _ => Ok(stage),
    }
}

/// The objects of manifests, as those that exist at the beginning of a run. Objects of types that the cluster does not serve are left out.
///
/// # Errors
/// Returns all problems of the manifests.
pub fn stage(manifests: &[String]) -> Result<Stage, Problems> {
    let paths: Vec<PathBuf> = manifests.iter().map(PathBuf::from).collect();
    let registry = registry();
    let mut problems = Problems::new();
    let mut objects = Vec::new();
    let mut text = String::new();
    for manifest in manifest::read(&paths)? {
        text.push_str(&manifest.value.to_string());
        for system in systems().iter() {
            problems.collect(system.check_manifest(&manifest));
        }
        // Types that the cluster does not serve are left out; `check` names them.
        if let Some(kind) = registry.find(&manifest.api_version, &manifest.kind)
            && let Some((object, _)) = problems.collect((registry.get(kind).decode)(&manifest))
        {
            objects.push((kind, object));
        }
    }
    let manifests = if manifests.is_empty() { String::new() } else { hash_text(&text) };
    problems.or(Stage { manifests: manifests.into(), ..Stage::new(objects) })
}
