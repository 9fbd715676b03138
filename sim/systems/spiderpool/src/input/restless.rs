//! A check for scenario settings with which a process spins.

use sim_config::{Problems, Source};

use crate::Drafts;

/// The settings that are pauses between two rounds of a loop (G §2.1). Upstream accepts any number, and without a pause the loop never
/// rests.
const PAUSES: [&str; 3] =
    ["SPIDERPOOL_GC_DEFAULT_INTERVAL_DURATION", "SPIDERPOOL_GC_TRACE_POD_GAP_DURATION", "SPIDERPOOL_LEADER_RETRY_GAP"];

/// Warnings about the pauses of a workload that are zero or negative.
pub(crate) fn restless(drafts: &Drafts, source: Source<'_>) -> Problems {
    let mut odd = Problems::new();
    let settings = &drafts.cluster().settings;
    let pauses = PAUSES.iter().filter_map(|name| settings.get_key_value(*name));
    for (name, value) in pauses.flat_map(|(name, value)| value.written().into_iter().map(move |value| (name, value))) {
        if value.parse::<i64>().is_ok_and(|seconds| seconds <= 0) {
            let wrong = format!("with `{name}` {value} a loop never rests, as upstream's does not: runs may spend their events");
            let right = "a pause of 1 or more seconds, unless that is the question";
            odd.merge(&source.problem_of_value(&["workload", "settings", name], wrong, right).into());
        }
    }
    odd
}
