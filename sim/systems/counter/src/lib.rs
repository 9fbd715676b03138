//! The counter: the smallest system in which a lost update can happen, and the worked example of [`System`].

pub mod claim;
pub mod workload;

use sim_harness::prelude::*;

use crate::claim::{CLAIMS, OUTSIDE_WRITER};
use crate::workload::{CounterDraft, CounterPlan};

/// The counter's clients decide on what they read first and only refresh the version when they retry.
pub const DECIDES_ONCE: &str = "counter-decides-once";

/// Clients that increment a number in one ConfigMap under optimistic locking.
pub struct Counter;

kinds! {
    /// What a client of the counter does.
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
