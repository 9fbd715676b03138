//! A plan: everything that decides a run, as plain data. The seed is only its short name.
//!
//! A run is a pure function of its plan. A plan can be saved, compared, edited and replayed after the generator changed.

use std::collections::BTreeSet;
use std::path::Path;

use ipam_reports::Provenance;
use ipam_reports::{Digest, Seconds};
use kube_sim::cluster::Knobs;
use kube_sim::cluster::capacity::Capacity;
use kube_sim::cluster::server::ServerDelays;
use kube_sim::fault::{self, Fault, Inventory, ObjectChange};
use kube_sim::net::LinkDelays;
use serde::{Deserialize, Serialize};
use sim_config::kinds::Kinds;
use sim_config::source::STANDARD_INPUT;
use sim_config::time::SimTime;
use sim_config::{Problems, Source, toml as input_toml};

use crate::check::{Checks, problems_of_excuses};
use crate::deviation::DeviationName;
use crate::operation::Op;
use crate::served;
use crate::upgrade::Upgrade;
use crate::workload::{RunContext, WorkloadPlan, problems_of_ops};

/// The format of a plan file.
pub const SCHEMA: &str = "ipam-sim/plan/1";

/// The most API servers of a cluster. More is a typing error that would only fill the memory.
pub const API_SERVERS_MAX: u32 = 100;
/// The most actors of one kind in a workload (clients, nodes, instances), for the same reason as [`API_SERVERS_MAX`].
pub const CLIENTS_MAX: u32 = 10_000;
/// The most operations of a run, for the same reason as [`API_SERVERS_MAX`].
pub const OPS_MAX: u64 = 1_000_000;
/// The most faults of a run, for the same reason as [`API_SERVERS_MAX`].
pub const FAULTS_MAX: u64 = 10_000;

/// The number of events that any run may have, however short it is and however little is done in it.
const EVENTS_MIN: u64 = 500_000;
/// The number of events that each process may have in a second of model time, on average.
const EVENTS_PER_SECOND: u64 = 10;
/// The number of events that each process may have for an operation, and for an object that exists at the beginning.
const EVENTS_PER_OBJECT: u64 = 50;

/// Everything that decides a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The format of the file: [`SCHEMA`], or the plan is refused.
    pub schema: String,
    /// The scenario that the plan was drawn from.
    pub scenario: String,
    /// The seed that the plan was drawn from; links, names and the choices of the system under test draw from it, too.
    pub seed: u64,
    /// The time at which faults stop and the liveness phase begins.
    pub heal_at: SimTime,
    /// The time at which the run ends.
    pub end_at: SimTime,
    /// The largest number of events of the run; see [`Plan::max_events`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_events: Option<u64>,
    /// The mutations of the system under test.
    #[serde(default)]
    pub deviations: Vec<DeviationName>,
    /// Documented hazards that excuse a violation.
    #[serde(default)]
    pub excuses: Vec<String>,
    /// The result of this plan's run when it was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Recorded>,
    /// The API servers, the objects that exist at the beginning, delays, and the differences between versions.
    pub cluster: ClusterPlan,
    /// The actors of the run.
    pub workload: WorkloadPlan,
    /// The claims that judge the run, and the bounds of those that come true eventually.
    pub check: Checks,
    /// The operations of the actors. Unlike those of a scenario they may name objects that do not exist: shrinking may have removed their
    /// creation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub op: Vec<Op>,
    /// Processes that begin in an older version of the system under test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Upgrade>,
    /// The faults, with every value drawn; events name a fault by its position here, from 0 on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fault: Vec<Fault>,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// The build of the program that ran; digests are comparable within one build.
    pub build: String,
    /// The digest over all events of the run.
    pub digest: Digest,
    /// The number of events.
    pub events: u64,
    /// Identifies the plan that ran, so that an edited one is noticed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plan: String,
    /// Identifies the content of the cluster's manifests; empty if it has none. With it, they are named relative to the file of the plan.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub manifests: String,
    /// The provenance of the plan; older plans do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// Digests on the way, to find where two runs diverge.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<Checkpoint>,
}

/// The digest after some events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// The number of these events.
    pub events: u64,
    /// The time of the last of these events, in seconds of model time.
    #[serde(rename = "at_s")]
    pub at: Seconds,
    /// The digest over these events.
    pub digest: Digest,
}

/// The cluster of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterPlan {
    /// The number of API servers, at least 1.
    pub api_servers: u32,
    /// Files with the objects that exist at the beginning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<String>,
    /// The differences between versions and installations of Kubernetes, one switch each.
    #[serde(default)]
    pub knobs: Knobs,
    /// One-way delays of messages, on healthy and on degraded links.
    #[serde(default)]
    pub links: LinkDelays,
    /// Server delays without faults.
    #[serde(default)]
    pub delays: ServerDelays,
    /// The capacity of each server at a time; unset = unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
}

impl Plan {
    /// The names of the processes that exist from the beginning.
    pub fn process_names(&self) -> Vec<String> {
        (0..self.cluster.api_servers).map(server_name).chain(self.workload.work().process_names()).collect()
    }

    /// The names of the processes, and of the hosts that have other names.
    pub fn names(&self) -> Vec<String> {
        let hosts = (0..self.cluster.api_servers).map(host_name).chain(self.workload.work().host_names());
        self.process_names().into_iter().chain(hosts).collect()
    }

    /// The processes and hosts that stay down or cut off when the other faults heal.
    pub fn lost_for_good(&self) -> BTreeSet<String> {
        let names = self.names();
        let for_good = self.fault.iter().filter(|fault| fault::is_for_good(fault));
        for_good.flat_map(|fault| fault::victims(&fault.kind, &names)).cloned().collect()
    }

    /// The information about the run that the workload gets.
    pub fn run_context(&self) -> RunContext<'_> {
        RunContext { seed: self.seed, deviations: &self.deviations, upgrade: self.upgrade.as_ref(), ops: &self.op }
    }

    /// The largest number of events of the run on a cluster that begins with this many objects. A run with more spins: it is ended, and
    /// violates the claim `runs-end-within-their-events`.
    pub fn max_events(&self, objects: usize) -> u64 {
        let derived = || {
            let seconds = self.end_at.as_micros() / 1_000_000;
            let actors = self.process_names().len() as u64;
            let of_time = seconds.saturating_mul(actors).saturating_mul(EVENTS_PER_SECOND);
            let of_work = (self.op.len() as u64).saturating_add(objects as u64).saturating_mul(actors).saturating_mul(EVENTS_PER_OBJECT);
            EVENTS_MIN.saturating_add(of_time).saturating_add(of_work)
        };
        self.max_events.unwrap_or_else(derived)
    }

    /// Problems of the plan as a whole; single values are checked where they are read.
    pub fn problems(&self, source: Source<'_>) -> Problems {
        let mut problems = self.check.problems(source);
        problems.append(problems_of_excuses(source, &self.excuses));
        let mut wrong = |key: &str, what: String, right: &str| problems.push(source.problem(key, what, right));
        if let Some((key, found, right)) = self.cluster.capacity.as_ref().and_then(Capacity::problem) {
            wrong(&format!("cluster.capacity.{key}"), found, &right);
        }
        if let Some((key, found, right)) = self.cluster.delays.problem() {
            wrong(&format!("cluster.delays.{key}"), found, &right);
        }
        if self.schema != SCHEMA {
            wrong("schema", format!("the schema is `{}`", self.schema), &format!("`{SCHEMA}`"));
        }
        if self.max_events == Some(0) {
            wrong("max_events", "`max_events` is 0".to_owned(), "at least 1");
        }
        if self.cluster.api_servers == 0 {
            wrong("cluster.api_servers", "`cluster.api_servers` is 0".to_owned(), "at least 1");
        }
        if self.cluster.api_servers > API_SERVERS_MAX {
            wrong(
                "cluster.api_servers",
                format!("`cluster.api_servers` is {}", self.cluster.api_servers),
                &format!("at most {API_SERVERS_MAX}"),
            );
            return problems;
        }
        if self.cluster.knobs.watch_buffer == 0 {
            wrong("cluster.knobs.watch_buffer", "`cluster.knobs.watch_buffer` is 0".to_owned(), "at least 1; real servers have 10 to 1000");
        }
        if self.heal_at > self.end_at {
            wrong(
                "heal_at",
                format!("`heal_at` ({}) is after `end_at` ({})", self.heal_at, self.end_at),
                "faults heal before the run ends",
            );
        }
        if self.end_at == SimTime::NEVER {
            wrong("end_at", "`end_at` is never".to_owned(), "a point in time at which the run ends");
        }
        for eventually in &self.check.eventually {
            let bound = self.heal_at + eventually.within.0;
            if bound > self.end_at {
                let what = format!("`{}` has until {bound} to come true, but the run ends at {}", eventually.claim, self.end_at);
                problems.push(source.problem_of_text(&eventually.claim, what, "a bound between `heal_at` and `end_at`"));
            }
        }
        let work = self.workload.work();
        let of_workload = work.problems(source);
        if !of_workload.is_empty() {
            problems.append(of_workload);
            return problems;
        }
        problems.append(problems_of_ops(source, &self.op, work));
        if let Some(upgrade) = &self.upgrade {
            problems.append(upgrade.problems(source, &work.process_names(), self.end_at));
        }
        let (names, types) = (self.names(), served::registry());
        let inventory = Inventory { names: &names, types: &types };
        for fault in &self.fault {
            problems.append(fault.kind.problems(source, &inventory));
            let (kind, when) = (&fault.kind, &fault.common.when);
            problems.append(ObjectChange::problems(kind.kind(), kind.begins().map(|_| ()), when, source, &inventory));
        }
        problems
    }

    /// Reads a plan file.
    ///
    /// # Errors
    /// Returns all problems of the plan.
    pub fn read(path: &Path) -> Result<Self, Problems> {
        let (file, text) = input_toml::text(path)?;
        let mut plan: Plan = input_toml::from_str(&file, &text)?;
        plan.find_manifests(path.parent().unwrap_or(Path::new("")));
        plan.problems(Source::new(&file, &text)).or(plan)
    }

    /// The text of the plan for this file: its manifests are named relative to it, so that they are found wherever the plan is run from,
    /// and may move together with it.
    pub fn to_toml_at(&self, file: &Path) -> String {
        if self.manifests_recorded().is_none() {
            return self.to_toml();
        }
        let mut plan = self.clone();
        let folder = file.parent().unwrap_or(Path::new(""));
        plan.cluster.manifests.iter_mut().for_each(|manifest| *manifest = relative(folder, manifest));
        plan.to_toml()
    }

    /// Renames the manifests to paths that are valid where the program runs; `folder` is that of the plan's file.
    fn find_manifests(&mut self, folder: &Path) {
        let relative_to_file = self.manifests_recorded().is_some();
        for manifest in self.cluster.manifests.iter_mut().filter(|manifest| *manifest != STANDARD_INPUT) {
            let beside = folder.join(&*manifest);
            // A plan that does not identify their content is older, or written by hand: its paths may be relative to the working directory.
            if relative_to_file || (!Path::new(manifest).exists() && beside.exists()) {
                *manifest = beside.display().to_string();
            }
        }
    }

    /// Identifies the content of the manifests when the plan was recorded, if known.
    pub fn manifests_recorded(&self) -> Option<&str> {
        self.recorded.as_ref().map(|recorded| recorded.manifests.as_str()).filter(|manifests| !manifests.is_empty())
    }

    /// Identifies the plan, apart from the recorded result of its run. The paths of its manifests do not matter if their content is known.
    pub fn fingerprint(&self) -> String {
        let mut plan = Plan { recorded: None, ..self.clone() };
        if self.manifests_recorded().is_some() {
            plan.cluster.manifests.clear();
        }
        hash_text(&plan.to_toml())
    }

    /// The text of the plan's file in TOML, with manifests named as in memory. Panics if it does not serialize, which is a bug.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_else(|error| panic!("a plan does not serialise: {error}"))
    }
}

/// The path from `folder` to `path`; `path` itself if there is none.
fn relative(folder: &Path, path: &str) -> String {
    let absolute = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path));
    if path == STANDARD_INPUT {
        return path.to_owned();
    }
    // Symbolic links are resolved: `link/..` is not the folder that contains `link`.
    match (absolute(&Path::new(".").join(folder)), absolute(Path::new(path))) {
        (Ok(from), Ok(to)) => pathdiff::diff_paths(&to, from).unwrap_or(to).display().to_string(),
        _ => path.to_owned(),
    }
}

/// A short name for a text: FNV-1a as 16 hexadecimal digits, the same on every machine.
pub fn hash_text(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

/// The name of the host of the API server with this number.
pub fn host_name(number: u32) -> String {
    format!("control-plane-{number}")
}

/// The name of the API server with this number.
pub fn server_name(number: u32) -> String {
    format!("apiserver-{number}")
}
