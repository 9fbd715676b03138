//! A scenario: the space to explore. Its values may be ranges; a seed turns it into a plan.

mod cluster;
mod faults;
mod variant;

use std::path::{Path, PathBuf};

use kube_sim::fault::{Inventory, ObjectChangeDraft};
use kube_sim::kinds::KindId;
use kube_sim::object::Obj;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::draw::{Concern, Draw};
use sim_config::kinds::Kinds;
use sim_config::time::{SimTime, Span};
use sim_config::{Choice, Open, Problem, Problems, Source, source, toml as input_toml};

use crate::check::{Checks, ClaimName, Eventually, problems_of_excuses};
use crate::deviation::{self, DeviationName, Profile};
use crate::occurrence::DraftFault;
use crate::operation::Op;
use crate::plan::{API_SERVERS_MAX, ClusterPlan, FAULTS_MAX, Plan, SCHEMA, host_name, server_name};
use crate::served;
use crate::swarm::Swarm;
use crate::system::systems;
use crate::upgrade::{Upgrade, UpgradeDraft};
use crate::workload::{Misnamed, WorkloadDraft, problems_of_ops};

pub use cluster::{CapacityDraft, ClusterDraft, KnobsDraft};
pub use faults::{FaultContext, FaultSource, Sourced, sort_faults};
pub use variant::Variant;

/// A scenario file: the cluster, the work in it, its faults and its claims, of which each seed draws one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name, unique among scenarios.
    pub name: String,
    /// The reason for the scenario: the question it asks, with its real-world reference.
    pub why: String,
    /// The number of seeds that a sweep runs by default.
    #[serde(default = "default_seeds")]
    pub seeds: u64,
    /// A negative scenario: the claim that must be violated within its seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<ClaimName>,
    /// The behaviour to run; default `hardened`. `upstream` turns every deviation on that upstream has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Deviations of the system under test, besides those of the profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deviations: Vec<DeviationName>,
    /// Documented hazards that excuse a violation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excuses: Vec<String>,
    /// The reason why more than one seed of ten may be excused. Without it such a sweep fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_excused: Option<String>,
    /// The durations of the phases of a run.
    #[serde(default)]
    pub phases: Phases,
    /// The largest number of events of a run; a run with more spins, and violates `runs-end-within-their-events`. By default a generous
    /// number that follows from the duration of the run, the number of processes and the amount of their work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_events: Option<u64>,
    /// Cluster that the workload runs in: API servers, delays, and the objects that exist at the beginning.
    #[serde(default)]
    pub cluster: ClusterDraft,
    /// The processes in the cluster, their number, and their tasks: `kind` names a workload of a system under test.
    pub workload: WorkloadDraft,
    /// A scripted workload: replaces the generated operations. The objects that an operation works on must be possible: objects of the
    /// cluster that the settings can create or the manifests hold, or objects that any operation of the script creates. Names of objects
    /// that the system itself creates, and names in annotations and edited fields, are not checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub op: Vec<Op>,
    /// Processes that begin in an older version of the system under test, and are replaced one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<UpgradeDraft>,
    /// Faults that a run may have, each with its likelihood, count and times; those of `swarm` come on top.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fault: Vec<DraftFault>,
    /// Additional faults: of every kind, with a different few of them in each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swarm: Option<Swarm>,
    /// Claims that judge runs: those that must hold at every step, come true in time, or be seen once in a sweep.
    pub check: Checks,
    /// Variants: the file then stands for each of them, and not for itself. Empty in a scenario that was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variant: Vec<Variant>,
}

fn default_seeds() -> u64 {
    100
}

/// The durations of the phases of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Phases {
    /// Duration of the safety phase, with faults, from the beginning of a run until they heal.
    pub safety: Choice<Span>,
    /// Duration of the liveness phase, after faults have healed: the time until `eventually` claims must hold.
    pub liveness: Choice<Span>,
    /// The part of the cluster that heals at the end of the safety phase: everything, or a core.
    pub heal: Choice<Heal>,
}

impl Default for Phases {
    fn default() -> Self {
        Self { safety: Choice::Is(Span::secs(30)), liveness: Choice::Is(Span::secs(60)), heal: Choice::Is(Heal::All) }
    }
}

/// The part of the cluster that heals after the safety phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Heal {
    /// Every active fault ends with the safety phase, and none begins after it.
    All,
    /// A random core: at least one API server and one of the workload's hosts. Each of the others fails permanently in the second half of
    /// the safety phase with a probability of one half: it goes down, or is cut off.
    Core,
}

impl Open for Heal {}

impl Scenario {
    /// Reads the file of one scenario.
    ///
    /// # Errors
    /// Returns all problems of the file; fails if it stands for several scenarios.
    pub fn read(path: &Path) -> Result<Self, Problems> {
        let (file, text) = input_toml::text(path)?;
        Self::parse(path, Source::new(&file, &text))
    }

    /// Parses the file of one scenario; manifests are found relative to `path`.
    ///
    /// # Errors
    /// Returns all problems of the file; fails if it stands for several scenarios.
    pub fn parse(path: &Path, source: Source<'_>) -> Result<Self, Problems> {
        let each = Self::parse_each(path, source, |_| true)?;
        let wrong = format!("the file stands for {} scenarios", each.len());
        match <[_; 1]>::try_from(each) {
            Ok([(_, only)]) => Ok(only),
            Err(_) => Err(source.problem("variant", wrong, "a file of one scenario").into()),
        }
    }

    /// Reads a file: the scenarios that it stands for, which are its variants or itself.
    ///
    /// # Errors
    /// Returns all problems of the file.
    pub fn read_each(path: &Path) -> Result<Vec<Self>, Problems> {
        let (file, text) = input_toml::text(path)?;
        let each = Self::parse_each(path, Source::new(&file, &text), |_| true)?;
        Ok(each.into_iter().map(|(_, scenario)| scenario).collect())
    }

    /// Parses a file, and returns those of its scenarios whose number, from 0 on, is `wanted`, each with the source in which to locate
    /// further problems. Manifests are found relative to `path`.
    ///
    /// # Errors
    /// Returns all problems of the file as a whole and of the wanted scenarios.
    pub fn parse_each<'a>(path: &Path, source: Source<'a>, wanted: impl Fn(usize) -> bool) -> Result<Vec<(Source<'a>, Self)>, Problems> {
        let mut problems = Problems::new();
        let mut each = source.decode_each::<Self>(wanted)?;
        for (source, scenario) in &mut each {
            scenario.apply_profile();
            problems.merge(&scenario.complete(path, *source));
        }
        problems.sort();
        problems.or(each)
    }

    /// Checks the scenario as a whole, and reads the files that it names; returns all problems.
    fn complete(&mut self, path: &Path, source: Source<'_>) -> Problems {
        let mut problems = self.problems(path, source);
        if problems.is_empty() {
            let folder = path.parent().unwrap_or(Path::new(""));
            for manifest in &mut self.cluster.manifests {
                *manifest = folder.join(&*manifest).display().to_string();
            }
            problems.collect(self.workload.draft_mut().read_files(source, folder));
        }
        if problems.is_empty() {
            problems.collect(self.left_out().map_err(Problems::from));
        }
        problems
    }

    /// The names in operations that nothing can have in any run, once the workload knows its cluster; `objects` are those of manifests.
    /// Plans are not checked: shrinking may have removed the creation of an object that an operation names.
    pub fn misnamed(&self, objects: &[(KindId, Obj)]) -> Vec<Misnamed> {
        if self.op.is_empty() { Vec::new() } else { self.workload.draft().misnamed(&self.op, objects) }
    }

    /// The part of the workload's files that comes too late for any run, in a sentence.
    ///
    /// # Errors
    /// Fails if no run uses any of them.
    pub fn left_out(&self) -> Result<Option<String>, Problem> {
        if !self.op.is_empty() {
            return Ok(None);
        }
        let [safety, liveness] = [&self.phases.safety, &self.phases.liveness].map(|phase| phase.bounds().1.0);
        self.workload.draft().left_out(safety.saturating_add(liveness))
    }

    /// Replaces the profile by its deviations.
    fn apply_profile(&mut self) {
        if self.profile.take() == Some(Profile::Upstream) {
            self.deviations.extend(deviation::upstream());
            self.deviations.sort();
            self.deviations.dedup();
        }
    }

    /// Problems of the scenario as a whole; single values are checked where they are read.
    fn problems(&self, path: &Path, source: Source<'_>) -> Problems {
        let mut problems = self.check.problems(source);
        let system = systems().of_workload(&self.workload).map_or("", |system| system.name());
        for pattern in self.check.always.iter().filter(|pattern| !pattern.is_about(system)) {
            // It would judge nothing, unnoticed.
            let wrong = format!("`check.always` has `{pattern}`, and the workload is one of `{system}`");
            problems.push(source.problem_of_text(pattern, wrong, format!("`{system}/*`, or a suite of it")));
        }
        let of_workload = self.workload.draft().problems(source);
        let sound = of_workload.is_empty();
        problems.append(of_workload);
        if sound {
            let [fewest, most] = self.workload.draft().bounds();
            // Every plan that the draft permits must be able to run.
            for plan in [&fewest, &most] {
                problems.merge(&plan.work().problems(source));
            }
            // An actor must exist whatever is drawn.
            problems.append(problems_of_ops(source, &self.op, fewest.work()));
            let servers = (*self.cluster.api_servers.bounds().1).min(API_SERVERS_MAX);
            let of_servers = (0..servers).flat_map(|number| [server_name(number), host_name(number)]);
            let most = most.work();
            let names: Vec<String> = most.process_names().into_iter().chain(most.host_names()).chain(of_servers).collect();
            let types = served::registry();
            let inventory = Inventory { names: &names, types: &types };
            for fault in &self.fault {
                problems.append(fault.kind.problems(source, &inventory));
                let (kind, when) = (&fault.kind, &fault.common.when);
                problems.append(ObjectChangeDraft::problems(kind.kind(), kind.begins(), when, source, &inventory));
            }
            if let Some(swarm) = &self.swarm {
                problems.append(swarm.problems(source, &inventory));
            }
            if let Some(upgrade) = &self.upgrade {
                let shortest = Span(self.phases.safety.bounds().0.0 + self.phases.liveness.bounds().0.0);
                problems.append(upgrade.problems(source, &most.process_names(), shortest));
            }
        }
        if !self.variant.is_empty() {
            problems.push(source.problem("variant", "a variant has no variants", "another row of the file"));
        }
        problems.append(problems_of_excuses(source, &self.excuses));
        if self.why_excused.is_some() && self.excuses.is_empty() {
            let wrong = "`why_excused` says why seeds are excused, and `excuses` is empty";
            problems.push(source.problem("why_excused", wrong, "an excuse, or no reason"));
        }
        for manifest in &self.cluster.manifests {
            if !path.parent().unwrap_or(Path::new("")).join(manifest).exists() {
                let wrong = format!("the manifest {manifest} does not exist");
                problems.push(source.problem_of_text(manifest, wrong, "a file or folder, relative to the scenario"));
            }
        }
        let (shortest, _) = self.phases.liveness.bounds();
        for eventually in self.check.eventually.iter().filter(|eventually| eventually.within.0 > shortest.0) {
            let Eventually { claim, within } = eventually;
            let wrong = format!("`{claim}` has {within} to come true, but the liveness phase may end after {shortest}");
            problems.push(source.problem_of_text(claim, wrong, "a bound within `phases.liveness`"));
        }
        if let Some(expect) = &self.expect
            && !self.check.judges(expect)
        {
            let wrong = format!("`expect` names `{expect}`, which is not checked");
            problems.push(source.problem("expect", wrong, "a claim of `check.always` or `check.eventually`"));
        }
        let mut wrong = |key: &str, what: String, right: &str| problems.push(source.problem(key, what, right));
        if *self.cluster.api_servers.bounds().0 == 0 {
            wrong("cluster.api_servers", "`cluster.api_servers` may be 0".to_owned(), "at least 1");
        }
        if let Some((key, found, right)) = self.cluster.capacity.as_ref().and_then(CapacityDraft::problem) {
            wrong(&format!("cluster.capacity.{key}"), found, &right);
        }
        if let Some((key, found, right)) = self.cluster.delays.problem() {
            wrong(&format!("cluster.delays.{key}"), found, &right);
        }
        let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if self.name.is_empty() || !self.name.chars().all(fine) {
            wrong("name", format!("the name `{}` cannot be part of a file's name", self.name), "lower-case letters, digits and hyphens");
        }
        if self.max_events == Some(0) {
            wrong("max_events", "`max_events` is 0".to_owned(), "at least 1");
        }
        if self.seeds == 0 {
            wrong("seeds", "`seeds` is 0".to_owned(), "at least 1");
        }
        let most_of = |choice: &Choice<u32>| u64::from(*choice.bounds().1);
        for (key, what, largest, limit) in [
            ("api_servers", "`cluster.api_servers`", most_of(&self.cluster.api_servers), u64::from(API_SERVERS_MAX)),
            ("count", "the number of faults", self.fault.iter().map(|fault| most_of(&fault.common.count)).sum(), FAULTS_MAX),
        ] {
            if largest > limit {
                wrong(key, format!("{what} may be {largest}"), &format!("at most {limit}"));
            }
        }
        problems
    }

    /// The upgrade of a seed, among the processes of a plan.
    pub(crate) fn draw_upgrade(&self, seed: u64, plan: &Plan) -> Option<Upgrade> {
        self.upgrade.as_ref().map(|upgrade| upgrade.draw(seed, &plan.workload.work().process_names()))
    }

    /// The plan of a seed.
    pub fn draw(&self, seed: u64) -> Plan {
        self.draw_with_sources(seed).0
    }

    /// The plan of a seed, and the source of each of its faults.
    pub fn draw_with_sources(&self, seed: u64) -> (Plan, Vec<FaultSource>) {
        let mut shape = Draw::new(seed, Concern::Shape, 0);
        let safety = self.phases.safety.draw(&mut shape).0;
        let liveness = self.phases.liveness.draw(&mut shape).0;
        let cluster = ClusterPlan {
            api_servers: self.cluster.api_servers.draw(&mut shape).max(1),
            manifests: self.cluster.manifests.clone(),
            knobs: self.cluster.knobs.draw(&mut shape, &mut Draw::new(seed, Concern::Shape, 1)),
            links: self.cluster.links,
            delays: self.cluster.delays,
            capacity: self.cluster.capacity.as_ref().and_then(|capacity| capacity.draw(&mut shape)),
        };
        let mut work = Draw::new(seed, Concern::Workload, 0);
        let (workload, generated) = self.workload.draft().draw(&mut work);
        let op = if self.op.is_empty() { generated } else { self.op.clone() };
        let heal_at = SimTime::ZERO + safety;
        let mut plan = Plan {
            schema: SCHEMA.to_owned(),
            scenario: self.name.clone(),
            seed,
            heal_at,
            end_at: heal_at + liveness,
            max_events: self.max_events,
            deviations: self.deviations.clone(),
            excuses: self.excuses.clone(),
            recorded: None,
            cluster,
            workload,
            check: self.check.clone(),
            op,
            upgrade: None,
            fault: Vec::new(),
        };
        plan.upgrade = self.draw_upgrade(seed, &plan);
        let faults = self.draw_faults(seed, &plan);
        let sources = sort_faults(&mut plan, faults);
        (plan, sources)
    }
}

/// The scenario files under `paths`: files themselves, and for folders everything in them that ends in `.toml`, by name.
///
/// # Errors
/// Fails at a path that does not exist, and at a folder without scenarios.
pub fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Problems> {
    let mut files = Vec::new();
    let mut problems = Problems::new();
    for path in paths {
        let name = path.display().to_string();
        if path.is_dir() {
            match files_below(path) {
                Ok(below) if below.is_empty() => {
                    problems.push(Problem::of_file(&name, "there is no scenario in this folder", "a folder with files that end in .toml"));
                }
                Ok(below) => files.extend(below),
                Err(problem) => problems.push(problem),
            }
        } else if path.is_file() {
            files.push(path.clone());
        } else {
            problems.push(Problem::of_file(&name, "there is no such file or folder", "a scenario file, or a folder of them"));
        }
    }
    problems.or(files)
}

/// The scenario files in a folder and its subfolders, by name.
///
/// # Errors
/// Fails if one of the folders cannot be read.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>, Problem> {
    let mut files = Vec::new();
    for entry in source::entries(folder)? {
        if entry.is_dir() {
            files.extend(files_below(&entry)?);
        } else if entry.extension().is_some_and(|extension| extension == "toml") {
            files.push(entry);
        }
    }
    Ok(files)
}
