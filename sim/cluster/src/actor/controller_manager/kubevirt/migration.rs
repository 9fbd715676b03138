//! The next step of a live migration.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube_machinery::kubevirt::{VirtualMachineInstanceMigration, VirtualMachineInstanceStatus};

use super::super::families::Member;
use super::super::view::ready_since;

/// A step of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// There is nothing to do now.
    Wait,
    /// Make the target pod.
    Start,
    /// The target pod exists, and is not yet ready.
    Prepare,
    /// The guest is moving, and arrives after this time.
    WaitFor(Duration),
    /// The guest runs in the target pod.
    Done,
    /// The target pod has ended, or is terminating.
    Fail,
}

/// The next step of `migration`, the unfinished one of an instance. `target` is its pod; the move takes `takes` once that pod is ready.
pub(super) fn step(
    status: &VirtualMachineInstanceStatus,
    migration: &VirtualMachineInstanceMigration,
    target: Option<&Member>,
    waits: bool,
    now: Timestamp,
    takes: Duration,
) -> Move {
    // The status of the instance decides; the migration may not show it yet.
    let recorded = status.migration_state.as_ref().filter(|state| state.migration_uid == migration.metadata.uid);
    if let Some(state) = recorded.filter(|state| state.completed == Some(true)) {
        return if state.failed == Some(true) { Move::Fail } else { Move::Done };
    }
    if status.is_final() {
        return Move::Fail;
    }
    let Some(target) = target else {
        return match (recorded.is_some(), waits, status.phase.as_deref()) {
            (_, true, _) => Move::Wait,
            (true, false, _) => Move::Fail,
            (false, false, Some("Running")) => Move::Start,
            (false, false, _) => Move::Wait,
        };
    };
    if target.view.ended() || target.view.terminating {
        return Move::Fail;
    }
    if !target.view.serves() {
        return Move::Prepare;
    }
    let ready_for = ready_since(&target.pod).map_or(takes, |since| Duration::try_from(now.duration_since(since)).unwrap_or_default());
    match takes.saturating_sub(ready_for) {
        Duration::ZERO => Move::Done,
        left => Move::WaitFor(left),
    }
}
