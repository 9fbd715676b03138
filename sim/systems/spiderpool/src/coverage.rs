//! The coverage points of Spiderpool: rows of the tables of reclaim, tiers, reasons to leave a pool out, and how calls end.

use ipam_spiderpool::ipam::{self, Cause, How, IpamError, PoolError};
use ipam_spiderpool::reclaim::{self, Meaning, Row};
use ipam_spiderpool::select::{Reason, SelectError, Tier};
use kube_sim::cluster::Cluster;
use kube_sim::coverage_names as names;
use kube_sim::trace::coverage::CoveragePoint;

const TIER: &str = "spiderpool/tier";
const FILTER: &str = "spiderpool/filter";
const ALLOCATED: &str = "spiderpool/allocated";
const RELEASED: &str = "spiderpool/released";
const REFUSED: &str = "spiderpool/refused";
const POOL: &str = "spiderpool/pool";
const RECLAIM: &str = "spiderpool/reclaim";

names! {
    how, HOWS: How {
        How::Fresh => "fresh",
        How::Existing => "existing",
        How::Reowned => "reowned",
    }
}

names! {
    cause, CAUSES: Cause {
        Cause::Del => "del",
        Cause::PoolChange => "pool-change",
        Cause::Conflict => "ip-conflict",
        Cause::RollBack => "roll-back",
        Cause::Marked => "marked-endpoint",
        Cause::Superseded => "superseded",
    }
}

names! {
    /// How an ADD is refused, unless selection or a pool says more.
    refused, REFUSALS: IpamError {
        IpamError::MissingPod(_) => "missing-pod",
        IpamError::Replaced { .. } => "replaced-pod",
        IpamError::Select(_) => "no-selection",
        IpamError::NotAllocated(_) => "not-allocated",
        IpamError::Pool { .. } => "pool",
        IpamError::Endpoint { .. } => "endpoint",
        IpamError::MissingEndpoint(_) => "missing-endpoint",
        IpamError::EndpointOfAnother { .. } => "endpoint-of-another-pod",
        IpamError::StaleEndpoint(_) => "stale-endpoint",
        IpamError::TerminatingEndpoint(_) => "terminating-endpoint",
        IpamError::Reading { .. } => "reading",
        IpamError::ForbiddenStateless => "forbidden-stateless",
        IpamError::ForbiddenStateful => "forbidden-stateful",
        IpamError::InAnotherSandbox(_) => "in-another-sandbox",
        IpamError::QueueFull => "queue-full",
        IpamError::OutOfTime => "out-of-time",
    }
}

names! {
    not_selected, SELECT_ERRORS: SelectError {
        SelectError::DeadPod => "dead-pod",
        SelectError::MissingOwner { .. } => "missing-owner",
        SelectError::MalformedRoutes { .. } => "malformed-routes",
        SelectError::InvalidRoute { .. } => "invalid-route",
        SelectError::MalformedAnnotation { .. } => "malformed-annotation",
        SelectError::EmptyIPPools => "empty-ippools",
        SelectError::MixedInterfaces => "mixed-interfaces",
        SelectError::DuplicateInterface { .. } => "duplicate-interface",
        SelectError::InterfaceNotListed { .. } => "interface-not-listed",
        SelectError::BadWildcard { .. } => "bad-wildcard",
        SelectError::MissingNamespace { .. } => "missing-namespace",
        SelectError::NoPool => "no-pool",
        SelectError::NoCandidate { .. } => "no-candidate",
        SelectError::DuplicatePool { .. } => "duplicate-pool",
        SelectError::MissingPool { .. } => "missing-pool",
        SelectError::AllFiltered { .. } => "all-filtered",
        SelectError::SubnetAutoPoolDisabled => "subnet-auto-pool-disabled",
        SelectError::SubnetInvalid { .. } => "subnet-invalid",
        SelectError::SubnetBadIpNumber { .. } => "subnet-bad-ip-number",
        SelectError::SubnetBadReclaim { .. } => "subnet-bad-reclaim",
        SelectError::SubnetOrphanPod => "subnet-orphan-pod",
        SelectError::SubnetNeedsFixedNumber { .. } => "subnet-needs-fixed-number",
        SelectError::SubnetNoAutoPool { .. } => "subnet-no-auto-pool",
        SelectError::SubnetManyAutoPools { .. } => "subnet-many-auto-pools",
        SelectError::SubnetReconcileFailed { .. } => "subnet-reconcile-failed",
    }
}

names! {
    /// Why a pool gives or takes nothing.
    refused_by_pool, POOL_ERRORS: PoolError {
        PoolError::NotFound => "not-found",
        PoolError::Unavailable(_) => "unavailable",
        PoolError::BadRecords(_) => "bad-records",
        PoolError::DataBroken { .. } => "data-broken",
        PoolError::RetriesExhausted { .. } => "retries-exhausted",
        PoolError::NotCompared => "not-compared",
        PoolError::OwnRecordsMadeWay => "own-records-made-way",
        PoolError::Overlaps { .. } => "overlaps",
        PoolError::OutOfTime => "out-of-time",
        PoolError::EndpointUnknown => "endpoint-unknown",
        PoolError::Replaced(_) => "replaced-pod",
        PoolError::Unsettled(_) => "unsettled",
        PoolError::Api(_) => "api",
    }
}

/// All points that a run can reach.
pub(crate) fn points() -> Vec<CoveragePoint> {
    let tiers = Tier::ALL.iter().map(|tier| (TIER, tier.name()));
    let reasons = Reason::ALL.iter().map(|reason| (FILTER, reason.code()));
    let rows = Row::ALL.iter().map(|row| (RECLAIM, row.code()));
    let of = |group, names: &'static [&str]| names.iter().map(move |name| (group, *name));
    let named = of(ALLOCATED, HOWS).chain(of(RELEASED, CAUSES)).chain(of(REFUSED, REFUSALS)).chain(of(REFUSED, SELECT_ERRORS));
    let named = named.chain(of(POOL, POOL_ERRORS)).chain(tiers).chain(reasons).chain(rows);
    let mut points: Vec<CoveragePoint> = named.map(|(group, name)| CoveragePoint { group, name }).collect();
    points.sort_unstable();
    points
}

/// What a step of an agent reaches.
pub(crate) fn of_agent(cluster: &Cluster, step: &ipam::Step<'_>) {
    let reach = |group, name| cluster.reach(CoveragePoint { group, name });
    match step {
        ipam::Step::Selected { selection, .. } => {
            if selection.tier != Tier::None {
                reach(TIER, selection.tier.name());
            }
            let families = selection.nics.iter().flat_map(|nic| &nic.families);
            families.flat_map(|family| &family.candidates).filter_map(|candidate| candidate.rejected).for_each(|reason| {
                reach(FILTER, reason.code());
            });
        }
        ipam::Step::PoolTried { result: Err(error), .. } | ipam::Step::Reowned { result: Err(error), .. } => {
            reach(POOL, refused_by_pool(error));
        }
        ipam::Step::AddEnded { result: Ok(answer), .. } => reach(ALLOCATED, how(&answer.how)),
        ipam::Step::AddEnded { result: Err(error), .. }
        | ipam::Step::DelEnded { result: Err(error), .. }
        | ipam::Step::BatchEnded { result: Err(error), .. } => {
            reach(REFUSED, refused(error));
            match error {
                IpamError::Select(error) => reach(REFUSED, not_selected(error)),
                IpamError::Pool { error, .. } => reach(POOL, refused_by_pool(error)),
                _ => {}
            }
        }
        ipam::Step::ReleaseBegun { cause: why, .. } => reach(RELEASED, cause(why)),
        _ => {}
    }
}

/// What a step of a replica of the controller reaches: also where it leaves everything as it is.
pub(crate) fn of_controller(cluster: &Cluster, step: &reclaim::Step<'_>) {
    let reach = |row: Row| cluster.reach(CoveragePoint { group: RECLAIM, name: row.code() });
    match step {
        reclaim::Step::EventJudged { meaning, .. } => match meaning {
            Meaning::Ignore(row) | Meaning::Enter(_, row) | Meaning::Lost(row) | Meaning::Crash(row) => reach(*row),
            Meaning::Ask(_) => {}
        },
        reclaim::Step::EntryFired { row, .. } | reclaim::Step::EntryHeld { row, .. } | reclaim::Step::Executed { row, .. } => reach(*row),
        reclaim::Step::RecordJudged { verdict, .. } => {
            reach(verdict.row);
            verdict.endpoint_row.into_iter().for_each(reach);
        }
        reclaim::Step::ReleaseBegun { row, .. } => reach(*row),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn points_have_distinct_names() {
        let points = points();
        let names: BTreeSet<String> = points.iter().map(CoveragePoint::to_string).collect();
        assert_eq!(names.len(), points.len());
        assert!(
            ["spiderpool/reclaim/S-8", "spiderpool/tier/namespace", "spiderpool/refused/no-pool"].iter().all(|name| names.contains(*name))
        );
    }
}
