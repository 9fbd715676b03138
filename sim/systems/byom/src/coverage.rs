//! The coverage points of the BYOM pool: the outcomes of calls, and the releasers of addresses.

use ipam_byom::{NodeSources, PoolError, Releaser, StartError, Step};
use kube_sim::cluster::Cluster;
use kube_sim::coverage_names as names;
use kube_sim::trace::coverage::CoveragePoint;

const REFUSED: &str = "byom/refused";
const RELEASE_FAILED: &str = "byom/release-failed";
const RECOVER_FAILED: &str = "byom/recover-failed";
const RELEASED: &str = "byom/released";
/// The source of the node's name for an adaptor that starts (B §4.1).
const NODE_NAME: &str = "byom/node-name";
const SOURCES: &[&str] = &["env", "podinfo", "hostname"];

names! {
    /// The reason why a call fails.
    failed, ERRORS: PoolError {
        PoolError::Reading(_) => "reading",
        PoolError::NoAvailable => "no-available",
        PoolError::NotReady { .. } => "not-ready",
        PoolError::InvalidAddress(_) => "invalid-address",
        PoolError::NoNodeName => "no-node-name",
        PoolError::Allocating(_) => "allocating",
        PoolError::Updating(_) => "updating",
        PoolError::Owners(_) => "owners",
        PoolError::HeldByAnother { .. } => "held-by-another",
        PoolError::NotOwned(_) => "not-owned",
        PoolError::RecordLost => "record-lost",
        PoolError::UserData(_) => "user-data",
        PoolError::OutOfTime => "out-of-time",
        PoolError::Panic => "panic",
    }
}

names! {
    releaser, RELEASERS: Releaser {
        Releaser::Stop => "stop",
        Releaser::CleanUp => "clean-up",
        Releaser::RollBack => "roll-back",
        Releaser::Controller => "controller",
        Releaser::Reclaim => "reclaim",
        Releaser::Successor => "successor",
    }
}

/// All points that a run can reach.
pub(crate) fn points() -> Vec<CoveragePoint> {
    let of = |group, names: &'static [&str]| names.iter().map(move |name| CoveragePoint { group, name });
    let mut points: Vec<_> = of(REFUSED, ERRORS).chain(of(RELEASE_FAILED, ERRORS)).chain(of(RECOVER_FAILED, ERRORS)).collect();
    points.extend(of(RELEASED, RELEASERS).chain(of(NODE_NAME, SOURCES)));
    points.sort_unstable();
    points
}

/// Reaches the point of a call that the pool refuses.
pub(crate) fn of_refusal(cluster: &Cluster, error: &PoolError) {
    cluster.reach(CoveragePoint { group: REFUSED, name: failed(error) });
}

/// Reaches the point of the source that names the node of an adaptor that starts.
pub(crate) fn of_node_name(cluster: &Cluster, sources: &NodeSources<'_>) {
    let found = [sources.env, sources.podinfo, sources.hostname];
    let named = SOURCES.iter().zip(found).find(|(_, found)| found.is_some());
    named.into_iter().for_each(|(name, _)| cluster.reach(CoveragePoint { group: NODE_NAME, name }));
}

/// Reaches the points of a step of an adaptor or a controller.
pub(crate) fn of_step(cluster: &Cluster, step: &Step<'_>) {
    let reach = |group, name| cluster.reach(CoveragePoint { group, name });
    match step {
        Step::NotAllocated { error, .. } => of_refusal(cluster, error),
        // The call was given an address, but the VM was not handed over.
        Step::StartFailed { error: StartError::Instance(error), .. } => of_refusal(cluster, error),
        Step::ReleaseEnded { result: Err(error), .. } => reach(RELEASE_FAILED, failed(error)),
        Step::RecoverEnded { result: Err(error), .. } => reach(RECOVER_FAILED, failed(error)),
        Step::ReleaseBegun { by, .. } => reach(RELEASED, releaser(by)),
        _ => {}
    }
}
