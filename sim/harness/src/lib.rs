//! Finds out whether a system under test keeps its promises: scenarios, plans, runs, claims, sweeps, replay, shrinking.
//!
//! ```text
//!   scenario ──(seed)──► plan ──► world ──► trace ──► claims ──► verdict ──► engine: sweep, replay, shrink
//!    checked config   every draw   a run    events    judge
//! ```
//! The harness names no system: each is a [`System`] that is registered by [`system::install`]. To write one, use the [`prelude`], and run
//! it in the cluster of `kube-sim`; to run one, call the [`engine`], which returns records of `ipam-reports`. The command line, package
//! `ipam-sim`, adds arguments and text to the engine.
//!
//! | items | subject |
//! |---|---|
//! | [`System`], [`prelude`] | the interface of a system: workloads, types, claims, mutations, metrics |
//! | [`Scenario`], [`Swarm`], [`Checks`] | the space to explore, the faults, and the claims that judge runs |
//! | [`Plan`] | a run as data: every value drawn, so that it can be edited, replayed and shrunk |
//! | [`Draft`], [`Work`], [`operation`] | the actors of a workload, in a scenario and in a plan; their operations |
//! | [`Claim`], [`Findings`] | properties that must hold, judged from events alone |
//! | [`world::run`], [`Outcome`] | one run |
//! | [`engine`] | many runs: sweeps, guided search, shrinking, replay |
//! | [`causality`], [`feature`] | the causes of events, to follow a run; the characteristics of a run |
//! | [`webhook`], [`explainer`], [`text`] | a system's judgement of manifests without a run, and its text on a console |
//! | [`deviation`], [`upgrade`] | mutations of a system; processes that begin in an older version |
//!
//! [`System`]: system::System
//! [`Scenario`]: scenario::Scenario
//! [`Swarm`]: swarm::Swarm
//! [`Checks`]: check::Checks
//! [`Plan`]: plan::Plan
//! [`Draft`]: workload::Draft
//! [`Work`]: workload::Work
//! [`Claim`]: claim::Claim
//! [`Findings`]: claim::Findings
//! [`Outcome`]: world::Outcome
//!
//! # Examples
//!
//! A whole system: candidates create one object, and the one that creates it has won. A sweep over twenty seeds with different faults each
//! finds nothing; with a mutation, by which all candidates ignore the answer, it finds two winners. `docs/own-system.md` continues from
//! here.
//!
//! ```
//! use std::fmt;
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use ipam_reports::{SeedRange, Verdict};
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube_machinery::{ClientExt, ObjectKey};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use sim_harness::engine::load::Ready;
//! use sim_harness::engine::progress::Unobserved;
//! use sim_harness::engine::sweep::sweep;
//! use sim_harness::prelude::*;
//! use sim_harness::scenario::Scenario;
//!
//! struct Election;
//!
//! impl System for Election {
//!     fn name(&self) -> &'static str {
//!         "election"
//!     }
//!     fn about(&self) -> &'static str {
//!         "whoever creates one ConfigMap has won"
//!     }
//!     fn kinds(&self) -> WorkloadKinds {
//!         WorkloadKinds::of::<Drafts, Plans, Operation>()
//!     }
//!     fn claims(&self) -> Vec<ClaimSuite> {
//!         const CLAIMS: &[ClaimDef] = &[ClaimDef::always("one-wins", "no two candidates win", one_wins)];
//!         vec![ClaimSuite { name: "election", claims: CLAIMS }]
//!     }
//!     fn mutations(&self) -> Vec<Deviation> {
//!         vec![Deviation::planted("all-win", "a candidate has won whatever the server answers")]
//!     }
//! }
//!
//! kinds! {
//!     /// What a candidate does.
//!     pub enum Operation {
//!         /// Stands for election.
//!         "stand" => Stand,
//!     }
//! }
//!
//! workloads! {
//!     /// Candidates, each on a host of its own.
//!     "election" => Candidates(CandidatesDraft, Candidates),
//! }
//!
//! /// In a scenario.
//! #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
//! struct CandidatesDraft {
//!     count: Choice<u32>,
//! }
//!
//! /// In a plan.
//! #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
//! struct Candidates {
//!     count: u32,
//! }
//!
//! impl Draft for CandidatesDraft {
//!     type Plan = Candidates;
//!
//!     fn bounds(&self) -> [Candidates; 2] {
//!         let (fewest, most) = self.count.bounds();
//!         [fewest, most].map(|count| Candidates { count: *count })
//!     }
//!     fn problems(&self, _: Source<'_>) -> Problems {
//!         Problems::new()
//!     }
//!     fn draw(&self, draw: &mut Draw) -> (Candidates, Vec<Op>) {
//!         let plan = Candidates { count: self.count.draw(draw) };
//!         let mut stand = |actor| {
//!             let at = SimTime::from_micros(draw.below(20_000_000));
//!             With { common: Turn { at, actor }, kind: Operation::Stand.into() }
//!         };
//!         let ops = plan.actor_names().into_iter().map(&mut stand).collect();
//!         (plan, ops)
//!     }
//! }
//!
//! impl Work for Candidates {
//!     fn actor_names(&self) -> Vec<String> {
//!         (0..self.count).map(|number| format!("candidate-{number}")).collect()
//!     }
//!     fn takes(&self, _: &OpKind) -> Result<(), InvalidValue> {
//!         Ok(())
//!     }
//!     fn problems(&self, source: Source<'_>) -> Problems {
//!         from_one_to(source, "workload.count", self.count, CLIENTS_MAX)
//!     }
//!     fn install(&self, cluster: &Arc<Cluster>, run: &RunContext<'_>) {
//!         for name in self.actor_names() {
//!             run.start_alone(cluster, &name, &Arc::new(run.turns_of(&name)), |turns, life| async move {
//!                 while turns.next(&life.cluster.rt).await.is_some() {
//!                     let metadata = ObjectKey::namespaced("default", "winner").metadata();
//!                     let created = life.client().create(ConfigMap { metadata, ..ConfigMap::default() }).await;
//!                     if created.is_ok() || life.deviates("all-win") {
//!                         life.note(&Won);
//!                     }
//!                     turns.end();
//!                 }
//!             });
//!         }
//!     }
//! }
//!
//! /// What a candidate says.
//! #[derive(Clone, Debug)]
//! struct Won;
//!
//! impl Note for Won {}
//!
//! impl fmt::Display for Won {
//!     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
//!         f.write_str("has won")
//!     }
//! }
//!
//! fn one_wins(_: &Context<'_>) -> Box<dyn Claim> {
//!     let mut winner = None;
//!     observing(Interest::NOTE, move |event, findings| {
//!         if let Some((process, Won)) = event.note_of() {
//!             findings.exercised();
//!             if winner.replace(process).is_some() {
//!                 findings.violated(|| vec!["two candidates have won".to_owned()]);
//!             }
//!         }
//!     })
//! }
//!
//! const SCENARIO: &str = r#"
//!     name = "election"
//!     why = "Does one candidate win at most, whatever goes wrong?"
//!     workload = { kind = "election", count = "2..4" }
//!     swarm = {}
//!     check.always = ["election/*"]
//! "#;
//!
//! sim_harness::system::install(&[&Election], "example");
//! let verdict = |text: &str| -> Result<Verdict, Problems> {
//!     let scenario = Scenario::parse(Path::new("election.toml"), Source::new("election.toml", text))?;
//!     let ready = Ready::new("election.toml", scenario)?;
//!     Ok(sweep(&ready, SeedRange::new(0, 20), 1, None, &Unobserved, None).verdict())
//! };
//! assert_eq!(verdict(SCENARIO)?, Verdict::Held);
//! assert_eq!(verdict(&format!("deviations = ['all-win']\n{SCENARIO}"))?, Verdict::Violated);
//! # Ok::<(), Problems>(())
//! ```

pub mod causality;
pub mod check;
pub mod claim;
pub mod deviation;
pub mod engine;
mod error;
pub mod explainer;
mod fault_text;
pub mod feature;
pub mod note_counts;
pub mod occurrence;
pub mod operation;
pub mod plan;
pub mod prelude;
mod records;
mod registered;
pub mod scenario;
pub mod served;
pub mod swarm;
pub mod system;
pub mod text;
pub mod upgrade;
pub mod webhook;
pub mod workload;
pub mod world;
