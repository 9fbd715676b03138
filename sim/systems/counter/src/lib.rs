//! The counter: the smallest system in which a lost update can happen, and the worked example of [`System`].
//!
//! Clients increment a number in one ConfigMap. The system has one of most things that a system can have: [`workload`] has a draft, a plan,
//! an operation and the processes that carry it out; [`claim`] says that no increment is lost; [`DECIDES_ONCE`] is a mutation that loses
//! some, and an excuse covers outside writers. [`Counter`] provides all of it to the harness, which draws the plans, runs them and judges.
//! Tests of the command line use it where any system will do.
//!
//! # Examples
//!
//! A negative scenario: the sweep must find the mutation, by the expected claim.
//!
//! ```
//! use std::path::Path;
//!
//! use ipam_reports::{SeedRange, Verdict};
//! use sim_config::{Problems, Source};
//! use sim_counter::Counter;
//! use sim_harness::engine::load::Ready;
//! use sim_harness::engine::progress::Unobserved;
//! use sim_harness::engine::sweep::sweep;
//! use sim_harness::scenario::Scenario;
//!
//! const SCENARIO: &str = r#"
//!     name = "decides-once"
//!     why = "Is a retry noticed that writes what it decided on the first read?"
//!     expect = "no-increment-is-lost"
//!     deviations = ["counter-decides-once"]
//!     workload = { kind = "counter", clients = "2..3", think = "1ms..20ms" }
//!     check.always = ["counter/*"]
//! "#;
//!
//! sim_harness::system::install(&[&Counter], "example");
//! let scenario = Scenario::parse(Path::new("once.toml"), Source::new("once.toml", SCENARIO))?;
//! let result = sweep(&Ready::new("once.toml", scenario)?, SeedRange::new(0, 20), 1, None, &Unobserved, None);
//! assert_eq!(result.verdict(), Verdict::Found);
//!
//! let lost = result.failures.iter().find(|failure| failure.claim == "no-increment-is-lost").expect("it was found");
//! assert!(lost.detail[0].ends_with("one of the two increments is lost"), "{:?}", lost.detail);
//! # Ok::<(), Problems>(())
//! ```

pub mod claim;
pub mod workload;

use sim_harness::prelude::*;

use crate::claim::{CLAIMS, OUTSIDE_WRITER};
use crate::workload::{CounterDraft, CounterPlan};

/// The mutation by which the counter's clients decide on their first read and only refresh the version when they retry.
pub const DECIDES_ONCE: &str = "counter-decides-once";

/// Clients that increment a number in one ConfigMap under optimistic locking.
pub struct Counter;

kinds! {
    /// The operations of a client of the counter.
    pub enum Operation {
        /// Increments the counter.
        "increment" => Increment,
    }
}

workloads! {
    /// Clients increment a number in one ConfigMap.
    "counter" => Counter(CounterDraft, CounterPlan),
}

impl System for Counter {
    fn name(&self) -> &'static str {
        "counter"
    }

    fn about(&self) -> &'static str {
        "clients increment a number in one ConfigMap under optimistic locking"
    }

    fn kinds(&self) -> WorkloadKinds {
        WorkloadKinds::of::<Drafts, Plans, Operation>()
    }

    fn claims(&self) -> Vec<ClaimSuite> {
        vec![ClaimSuite { name: "counter", claims: CLAIMS }]
    }

    fn hurting_claims(&self) -> &'static [&'static str] {
        &["no-increment-is-lost"]
    }

    fn excuses(&self) -> &'static [Excuse] {
        &[Excuse {
            name: OUTSIDE_WRITER,
            about: "another client writes the counter without regard to its version",
            begins: "when a process that is not one of the counter's clients lowers the number",
            ends: "with the number that it had before: values above that are acknowledged only once",
            reference: None,
        }]
    }

    fn mutations(&self) -> Vec<Deviation> {
        let about = "clients of the counter decide on their first read; a retry only refreshes the resourceVersion";
        vec![Deviation::planted(DECIDES_ONCE, about)]
    }
}

/// Registers the system before any test runs.
#[cfg(test)]
#[ctor::ctor(unsafe)]
fn install() {
    sim_harness::system::install(&[&Counter], "test");
    kube_sim::testbed::serve(|| Counter.types());
}
