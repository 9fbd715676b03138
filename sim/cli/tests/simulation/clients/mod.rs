//! The real clients of `kube-machinery` in the simulated cluster: informers, retries, rate limits and leader election
//! (K §4, K143, K146 to K153).

mod deferred;
mod garbage;
mod informers;
mod leaders;
mod retries;
mod watch_lists;

use std::time::Duration;

use kube_sim::fault::{Fault, FaultKind, Faults, Target, Window};
use kube_sim::testbed::Testbed;
use sim_config::time::Span;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// A fault for a plan: it begins this many milliseconds from now.
fn fault(bed: &Testbed, after_ms: u32, lasts: Duration, kind: FaultKind) -> Fault {
    Fault { common: Window::new(bed.rt.now() + MS * after_ms, Some(Span(lasts))), kind }
}

/// Puts a plan into effect.
fn schedule(bed: &Testbed, plan: &[Fault]) {
    Faults::schedule(&bed.cluster, plan, bed.rt.now() + Duration::from_secs(3_600));
}

fn target(text: &str) -> Target {
    Target::from_text(text)
}
