//! A plan: everything that decides a run, as plain data. The seed is only its short name.
//!
//! A run is a pure function of its plan. A plan can be saved, compared, edited and replayed after the generator changed.

use std::collections::BTreeSet;
use std::path::Path;

use ipam_reports::finding::Kind;
use ipam_reports::{Digest, Seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::claim::{ClaimName, problems_of_excuses};
use crate::cluster::Knobs;
use crate::cluster::server::ServerDelays;
use crate::deviation::DeviationName;
use crate::fault::{self, Fault};
use crate::input::{Problems, Source, With, kinds, toml as input_toml};
use crate::net::LinkDelays;
use crate::time::{SimTime, Span};
use crate::workload::byom::burst::{Allocate, BurstPlan};
use crate::workload::byom::pods::{BreakVm, DeletePod, EditState, PodsPlan, RollOut, RunPod, SetPool};
use crate::workload::counter::CounterPlan;
use crate::workload::spiderpool::{
    AnnotateNamespace, ApplyApp, CreatePool, CreateSubnet, DeleteApp, DeleteNamespace, DeletePodOf, DeletePool, DeleteSubnet, EditPool,
    EditRecord, EditSubnet, MigrateVm, Reserve, RollOutApp, ScaleApp, SetSettings, SpiderPlan, Unreserve,
};
use crate::workload::{Misfit, Work};

/// The format of a plan file.
pub const SCHEMA: &str = "ipam-sim/plan/1";

/// The most API servers of a cluster, clients of a workload, operations and faults of a run. More is a slip of the pen
/// that would only fill the memory.
pub const API_SERVERS_MAX: u32 = 100;
/// See [`API_SERVERS_MAX`].
pub const CLIENTS_MAX: u32 = 10_000;
/// See [`API_SERVERS_MAX`].
pub const OPS_MAX: u64 = 1_000_000;
/// See [`API_SERVERS_MAX`].
pub const FAULTS_MAX: u64 = 10_000;

/// Everything that decides a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The scenario that this was drawn from.
    pub scenario: String,
    /// The seed that this was drawn from; links, names and the choices of the system under test draw from it, too.
    pub seed: u64,
    /// When faults stop and the liveness phase begins.
    pub heal_at: SimTime,
    /// When the run ends.
    pub end_at: SimTime,
    /// What the system under test does differently.
    #[serde(default)]
    pub deviations: Vec<DeviationName>,
    /// Documented hazards that excuse a violation.
    #[serde(default)]
    pub excuses: Vec<String>,
    /// What a run of this plan gave when it was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Recorded>,
    /// The cluster.
    pub cluster: ClusterPlan,
    /// Who works on it.
    pub workload: WorkloadPlan,
    /// What is claimed.
    pub check: Checks,
    /// What the actors do. Unlike those of a scenario they may name what nothing is called: shrinking takes away what made it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub op: Vec<Op>,
    /// What goes wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fault: Vec<Fault>,
}

/// What a run gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// Which build of the program ran; digests are comparable within one build.
    pub build: String,
    /// The digest.
    pub digest: Digest,
    /// The number of events.
    pub events: u64,
    /// Identifies the plan that ran, so that an edited one is known as such.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plan: String,
    /// Digests on the way, to find where two runs part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<Checkpoint>,
}

/// The digest after some events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// After how many events.
    pub events: u64,
    /// When.
    #[serde(rename = "at_s")]
    pub at: Seconds,
    /// The digest.
    pub digest: Digest,
}

/// The cluster of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterPlan {
    /// How many API servers, at least 1.
    pub api_servers: u32,
    /// Files with the objects that exist at the beginning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<String>,
    /// Version knobs.
    #[serde(default)]
    pub knobs: Knobs,
    /// Network delays.
    #[serde(default)]
    pub links: LinkDelays,
    /// Server delays in good health.
    #[serde(default)]
    pub delays: ServerDelays,
}

kinds! {
    /// Who works on the cluster.
    pub enum WorkloadPlan {
        /// Clients increment a number in one ConfigMap.
        "counter" => Counter(CounterPlan),
        /// Pods run in the VMs of a BYOM pool.
        "byom" => Byom(PodsPlan),
        /// Adaptors allocate from one BYOM pool, and nothing else happens.
        "byom-burst" => ByomBurst(BurstPlan),
        /// Pods of a cluster have addresses by Spiderpool.
        "spiderpool" => Spiderpool(Box<SpiderPlan>),
    }
}

/// What is claimed in a run. The names are those of `ipam-sim list claims`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Checks {
    /// True at every step.
    pub always: Vec<ClaimName>,
    /// True when their bound has passed after the faults healed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub eventually: Vec<Eventually>,
    /// True at least once in the whole sweep; here also points that must be reached.
    pub sometimes: Vec<ClaimName>,
}

impl Checks {
    /// Claims in a list that is not for their kind: nobody would ever judge them.
    pub fn problems(&self, source: Source<'_>) -> Problems {
        let mut problems = Problems::new();
        let bounded: Vec<&ClaimName> = self.eventually.iter().map(|eventually| &eventually.claim).collect();
        for (list, names, kinds) in [
            ("always", self.always.iter().collect(), &[Kind::Always][..]),
            ("sometimes", self.sometimes.iter().collect(), &[Kind::Sometimes, Kind::Reachable]),
            ("eventually", bounded, &[Kind::Eventually]),
        ] {
            for (name, kind) in names.into_iter().map(|name: &ClaimName| (name, name.def().kind)).filter(|(_, kind)| !kinds.contains(kind))
            {
                let wrong = format!("`check.{list}` names `{name}`, which is of kind `{kind}`");
                problems.push(source.problem_of_text(name, wrong, format!("a claim of kind `{}`", kinds[0])));
            }
        }
        problems
    }
}

/// A claim with a bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Eventually {
    /// The claim.
    pub claim: ClaimName,
    /// How long after the faults healed it may take.
    pub within: Span,
}

/// Who does something, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Not before this; an actor that is busy or down does it later.
    #[schemars(with = "Span")]
    pub at: SimTime,
    /// The process.
    pub actor: String,
}

/// An operation of the workload.
pub type Op = With<Turn, OpKind>;

kinds! {
    /// What an actor does.
    pub enum OpKind {
        /// Increments the counter.
        "increment" => Increment,
        /// Creates a pod; if there is one of that name, once that is gone.
        "run-pod" => RunPod(RunPod),
        /// Deletes a pod.
        "delete-pod" => DeletePod(DeletePod),
        /// Changes the configured VMs of the BYOM pool; whoever starts from then on reads it.
        "set-pool" => SetPool(SetPool),
        /// Replaces every adaptor, node by node, and restarts the PeerPod controllers.
        "roll-out" => RollOut(RollOut),
        /// Breaks a VM for a while.
        "break-vm" => BreakVm(BreakVm),
        /// Deletes the ConfigMap of the BYOM pool.
        "delete-state" => DeleteState,
        /// Edits the ConfigMap of the BYOM pool by hand.
        "edit-state" => EditState(EditState),
        /// Asks the BYOM pool for an address.
        "allocate" => Allocate(Allocate),
        /// Creates an application; if there is one of that name, once that is gone.
        "apply-app" => ApplyApp(ApplyApp),
        /// Changes how many pods an application has.
        "scale-app" => ScaleApp(ScaleApp),
        /// Has all pods of an application replaced.
        "roll-out-app" => RollOutApp(RollOutApp),
        /// Deletes an application.
        "delete-app" => DeleteApp(DeleteApp),
        /// Deletes a pod of an application.
        "delete-pod-of" => DeletePodOf(DeletePodOf),
        /// Moves a VM to another node while it runs.
        "migrate-vm" => MigrateVm(MigrateVm),
        /// Creates an IPPool; if there is one of that name, once that is gone.
        "create-pool" => CreatePool(CreatePool),
        /// Deletes an IPPool.
        "delete-pool" => DeletePool(DeletePool),
        /// Edits an IPPool.
        "edit-pool" => EditPool(EditPool),
        /// Creates a SpiderSubnet; if there is one of that name, once that is gone.
        "create-subnet" => CreateSubnet(CreateSubnet),
        /// Deletes a SpiderSubnet, and its pools with it.
        "delete-subnet" => DeleteSubnet(DeleteSubnet),
        /// Edits a SpiderSubnet.
        "edit-subnet" => EditSubnet(EditSubnet),
        /// Writes into an IPPool by hand who holds an address, or that nobody does.
        "edit-record" => EditRecord(EditRecord),
        /// Reserves addresses.
        "reserve" => Reserve(Reserve),
        /// Gives reserved addresses free.
        "unreserve" => Unreserve(Unreserve),
        /// Changes the annotations of a namespace.
        "annotate-namespace" => AnnotateNamespace(AnnotateNamespace),
        /// Changes settings of Spiderpool, and restarts its agents.
        "set-settings" => SetSettings(SetSettings),
        /// Deletes a namespace with all that is in it.
        "delete-namespace" => DeleteNamespace(DeleteNamespace),
    }
}

impl WorkloadPlan {
    /// The workload, whatever its kind.
    pub fn work(&self) -> &dyn Work {
        match self {
            WorkloadPlan::Counter(counter) => counter,
            WorkloadPlan::Byom(pods) => pods,
            WorkloadPlan::ByomBurst(burst) => burst,
            WorkloadPlan::Spiderpool(spiderpool) => &**spiderpool,
        }
    }
}

/// Operations that nobody will carry out.
pub(crate) fn problems_of_ops(source: Source<'_>, ops: &[Op], workload: &dyn Work) -> Problems {
    let names = workload.actor_names();
    let known: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let mut problems = Problems::new();
    for op in ops {
        let Turn { at, actor } = &op.common;
        if !known.contains(actor.as_str()) {
            let right = match names.as_slice() {
                [] => "the workload has no clients".to_owned(),
                [only] => format!("the actor `{only}`"),
                [first, .., last] => format!("one of {first} to {last}"),
            };
            problems.push(source.problem_of_text(actor, format!("an operation names the actor `{actor}`"), right));
        }
        if let Err(Misfit { found, wrong, right }) = workload.takes(&op.kind) {
            problems.push(source.problem_of_text(found, wrong, right));
        }
        if *at == SimTime::NEVER {
            problems.push(source.problem_of_text("never", format!("an operation of `{actor}` takes place never"), "a point in time"));
        }
    }
    problems
}

impl Plan {
    /// The names of the processes that exist from the beginning.
    pub fn process_names(&self) -> Vec<String> {
        (0..self.cluster.api_servers).map(server_name).chain(self.workload.work().process_names()).collect()
    }

    /// The names of the processes and of the hosts that are not called as one of them.
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

    /// What is wrong with the plan as a whole; single values are checked where they are read.
    pub fn problems(&self, source: Source<'_>) -> Problems {
        let mut problems = self.check.problems(source);
        problems.append(problems_of_excuses(source, &self.excuses));
        let mut wrong = |key: &str, what: String, right: &str| problems.push(source.problem(key, what, right));
        if self.schema != SCHEMA {
            wrong("schema", format!("the schema is `{}`", self.schema), &format!("`{SCHEMA}`"));
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
        let names = self.names();
        for fault in &self.fault {
            problems.append(fault.kind.problems(source, &names));
        }
        problems
    }

    /// Reads a plan file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(path: &Path) -> Result<Self, Problems> {
        let (file, text) = input_toml::text(path)?;
        let plan: Plan = input_toml::from_str(&file, &text)?;
        plan.problems(Source::new(&file, &text)).or(plan)
    }

    /// Identifies what the plan says, apart from what is recorded of its run.
    pub fn fingerprint(&self) -> String {
        hash_text(&Plan { recorded: None, ..self.clone() }.to_toml())
    }

    /// The file's text.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_else(|error| panic!("a plan does not serialise: {error}"))
    }
}

/// A name for a text: FNV-1a as 16 hexadecimal digits, the same on every machine.
pub(crate) fn hash_text(text: &str) -> String {
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
