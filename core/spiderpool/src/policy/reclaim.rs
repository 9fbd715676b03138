//! The differences between the hardened reclaim and upstream: one switch per mutation.

use kube_machinery::deviation::{Deviation, deviations};

/// The mutations of reclaim; a part of [`Policy`](super::Policy). Every switch is off in the hardened form; the profile `upstream` turns on
/// what upstream does today.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReclaimPolicy {
    /// `records-before-endpoint`: records are removed before the endpoint is marked, so that a crash in between leaves an endpoint that
    /// names addresses nobody holds (G R1, R2).
    pub records_before_endpoint: bool,
    /// `finalizer-patch-by-name`: an endpoint is deleted, and loses its finalizer, by name, whatever happened to it in between (G R6, R8).
    pub finalizer_patch_by_name: bool,
    /// `endpoint-uid-precondition-only`: deletes of endpoints are guarded by `metadata.uid` only, which a static pod's endpoint never
    /// changes. Upstream does not do this.
    pub endpoint_uid_precondition_only: bool,
    /// `scan-trusts-cached-pod`: a scan releases what its caches show, without reading the record and the pod (G R3).
    pub scan_trusts_cached_pod: bool,
    /// `scan-trusts-cached-endpoint`: a cached endpoint of another pod ends the entitlement to the address, even of a live pod (G R4, E-4).
    pub scan_trusts_cached_endpoint: bool,
    /// `vm-record-without-owner-check`: a record without pod and endpoint is removed without a check of a StatefulSet or VM of its name (G
    /// R5, S-3).
    pub vm_record_without_owner_check: bool,
    /// `empty-pod-ips-means-gone`: a pod whose status names no address is no longer entitled to those it had, even within its grace period
    /// and before it ends (G R7, P-7, P-9, TD-4).
    pub empty_pod_ips_means_gone: bool,
    /// `force-delete-frees-at-once`: addresses of a pod that vanished before its grace period was over are free at once, though its
    /// containers may still run (G R9).
    pub force_delete_frees_at_once: bool,
    /// `node-judged-once`: a node's readiness is judged when the pod begins to terminate, not when its deadline passes (G R10).
    pub node_judged_once: bool,
    /// `tombstone-crashes`: the leader crashes when it learns of a deletion that it missed (G R13).
    pub tombstone_crashes: bool,
    /// `event-lost-on-error`: an event that could not be judged, and a release that failed too often, are forgotten (G R12).
    pub event_lost_on_error: bool,
    /// `orphan-endpoint-kept`: endpoints to which no record leads any more are kept, even marked ones (G §4.4).
    pub orphan_endpoint_kept: bool,
    /// `one-list-error-ends-scan`: a scan does nothing if its list of endpoints or pools fails (G §1.5).
    pub one_list_error_ends_scan: bool,
    /// `full-database-drops-newest`: a pod that does not fit into the database is forgotten (G §1.3).
    pub full_database_drops_newest: bool,
    /// `database-keyed-by-name`: the database has one entry per name, so that the end of one pod's entry ends that of another pod of the
    /// name (G R11).
    pub database_keyed_by_name: bool,
    /// `endpoint-removed-after-failed-release`: the endpoint is removed although its records could not be (G R16).
    pub endpoint_removed_after_failed_release: bool,
    /// `ticket-released-ungranted`: a release that is refused its pools returns tickets that it never got (G R17).
    pub ticket_released_ungranted: bool,
    /// `families-race-on-endpoint`: a scan walks both families concurrently and address by address, and a pod may lose one family only (G
    /// R19).
    pub families_race_on_endpoint: bool,
    /// `nil-fields-crash`: a grace period that is absent where it is needed crashes the process, or loses the event (G §13.4).
    pub nil_fields_crash: bool,
    /// `static-uid-mismatch-frees`: the record of a static pod is removed once its successor exists, before the successor inherits it.
    /// Upstream does not do this.
    pub static_uid_mismatch_frees: bool,
    /// `half-written-endpoint-frees`: an address of a live pod is removed if its endpoint does not name it (yet). Upstream does not do
    /// this.
    pub half_written_endpoint_frees: bool,
    /// `standbys-scan-once`: a replica that does not lead scans only when it starts (G §1.6).
    pub standbys_scan_once: bool,
    /// `terminal-pods-not-scanned`: a scan ignores pods that have ended (P-2).
    pub terminal_pods_not_scanned: bool,
    /// `no-scan-on-takeover`: a new leader waits for its next turn to scan. Upstream does not do this.
    pub no_scan_on_takeover: bool,
    /// `terminating-static-ignored`: pods of StatefulSets and VMs are never traced. Upstream does not do this.
    pub terminating_static_ignored: bool,
    /// `grace-counted-once`: the deadline of a terminating pod is its deletionTimestamp, which already includes the grace period. Upstream
    /// does not do this.
    pub grace_counted_once: bool,
    /// `grace-floor-ignored`: a grace period of 0 or 1 s counts as stated, although a kubelet gives containers at least 2 s (K §5.2).
    pub grace_floor_ignored: bool,
    /// `stuck-static-kept`: a scan never gives up a terminating pod whose StatefulSet or VM no longer wants it (rule G).
    pub stuck_static_kept: bool,
    /// `pending-pods-not-scanned`: a scan ignores pods that have not started, even terminating ones (P-4).
    pub pending_pods_not_scanned: bool,
    /// `ended-without-times-lost`: a pod that has ended without a finish time in its status is never traced (I-12).
    pub ended_without_times_lost: bool,
    /// `static-by-first-owner`: the kind of the first owner, not of the controller, decides which owner a scan asks whether a pod's
    /// addresses are kept (G §13.1).
    pub static_by_first_owner: bool,
    /// `node-asked-first`: a pod whose node cannot be read is left alone even if the node does not matter (S-7, I-11).
    pub node_asked_first: bool,
    /// `address-in-use-freed`: an address is released although the pod that has the name now answers on it (U-1, U-3).
    pub address_in_use_freed: bool,
    /// `namesake-frees`: a pod that only has the same name ends the entitlement of a VM or a StatefulSet to the addresses (G §5.2).
    pub namesake_frees: bool,
    /// `orphans-record-kept`: the addresses of an orphan, whose endpoint is deleted with it, are kept for the pod of a StatefulSet that has
    /// its name by now, though no ADD takes them over (U-2, E-3).
    pub orphans_record_kept: bool,
    /// `orphans-place-freed`: the addresses that a pod had as one of a StatefulSet's are released when its time is over if it is an orphan
    /// by then, though the set of its name wants the place (rule G, P-2).
    pub orphans_place_freed: bool,
    /// `ending-pool-keeps-places`: a deleted pod of a StatefulSet keeps its place's address even in an auto pool that is being deleted,
    /// though the next pod gets no address of that pool (S-4, A §8.6).
    pub ending_pool_keeps_places: bool,
    /// `ending-vm-frees`: the addresses of a VM are released once it is being deleted, although its pod may still run (S-5).
    pub ending_vm_frees: bool,
    /// `vm-pod-sought-by-record`: the pod of a VM is looked up under the name in its record, which is that of the VM, so that each scan
    /// reads the VM of a live pod, and a stuck pod counts as kept by its VM (S-5, G §5.2).
    pub vm_pod_sought_by_record: bool,
    /// `trace-needs-endpoint`: a traced pod is dropped if the cached endpoint under its name is absent or another's (XD-1, XD-3).
    pub trace_needs_endpoint: bool,
    /// `deadline-not-confirmed`: when a deadline passes, neither the pod nor its StatefulSet or VM is checked again (G §3.2).
    pub deadline_not_confirmed: bool,
    /// `ex-leader-goes-on`: addresses of traced pods are released even after leadership was lost (G §1.6).
    pub ex_leader_goes_on: bool,
    /// `reclaims-while-switched-off`: `SPIDERPOOL_GC_IP_ENABLED` is ignored: a controller reclaims although it is switched off (G §2.1).
    /// Upstream does not do this.
    pub reclaims_while_switched_off: bool,
    /// `leader-flag-polled`: loss and gain of leadership are noticed only at the next poll, so that a short loss goes unnoticed and costs
    /// events (G §8).
    pub leader_flag_polled: bool,
    /// `owner-asked-for-every-event`: the StatefulSet or VM is read for every event of its pods, even for irrelevant ones (I-4).
    pub owner_asked_for_every_event: bool,
    /// `returned-node-frees-at-once`: a pod whose grace period is over loses its addresses as soon as its node is ready again, before its
    /// kubelet can have ended it (rule G).
    pub returned_node_frees_at_once: bool,
    /// `pools-without-version-skipped`: a scan skips pools that have no IP version yet (G §0.1).
    pub pools_without_version_skipped: bool,
}

impl ReclaimPolicy {
    /// All mutations, in the order of the fields.
    pub const DEVIATIONS: &'static [Deviation<Self>] = deviations! {
        "records-before-endpoint" true records_before_endpoint;
        "finalizer-patch-by-name" true finalizer_patch_by_name;
        "endpoint-uid-precondition-only" false endpoint_uid_precondition_only;
        "scan-trusts-cached-pod" true scan_trusts_cached_pod;
        "scan-trusts-cached-endpoint" true scan_trusts_cached_endpoint;
        "vm-record-without-owner-check" true vm_record_without_owner_check;
        "empty-pod-ips-means-gone" true empty_pod_ips_means_gone;
        "force-delete-frees-at-once" true force_delete_frees_at_once;
        "node-judged-once" true node_judged_once;
        "tombstone-crashes" true tombstone_crashes;
        "event-lost-on-error" true event_lost_on_error;
        "orphan-endpoint-kept" true orphan_endpoint_kept;
        "one-list-error-ends-scan" true one_list_error_ends_scan;
        "full-database-drops-newest" true full_database_drops_newest;
        "database-keyed-by-name" true database_keyed_by_name;
        "endpoint-removed-after-failed-release" true endpoint_removed_after_failed_release;
        "ticket-released-ungranted" true ticket_released_ungranted;
        "families-race-on-endpoint" true families_race_on_endpoint;
        "nil-fields-crash" true nil_fields_crash;
        "static-uid-mismatch-frees" false static_uid_mismatch_frees;
        "half-written-endpoint-frees" false half_written_endpoint_frees;
        "standbys-scan-once" true standbys_scan_once;
        "terminal-pods-not-scanned" true terminal_pods_not_scanned;
        "no-scan-on-takeover" false no_scan_on_takeover;
        "terminating-static-ignored" false terminating_static_ignored;
        "grace-counted-once" false grace_counted_once;
        "grace-floor-ignored" true grace_floor_ignored;
        "stuck-static-kept" true stuck_static_kept;
        "pending-pods-not-scanned" true pending_pods_not_scanned;
        "ended-without-times-lost" true ended_without_times_lost;
        "static-by-first-owner" true static_by_first_owner;
        "node-asked-first" true node_asked_first;
        "address-in-use-freed" true address_in_use_freed;
        "namesake-frees" true namesake_frees;
        "orphans-record-kept" true orphans_record_kept;
        "orphans-place-freed" true orphans_place_freed;
        "ending-pool-keeps-places" true ending_pool_keeps_places;
        "ending-vm-frees" true ending_vm_frees;
        "vm-pod-sought-by-record" true vm_pod_sought_by_record;
        "trace-needs-endpoint" true trace_needs_endpoint;
        "deadline-not-confirmed" true deadline_not_confirmed;
        "ex-leader-goes-on" true ex_leader_goes_on;
        "reclaims-while-switched-off" false reclaims_while_switched_off;
        "leader-flag-polled" true leader_flag_polled;
        "owner-asked-for-every-event" true owner_asked_for_every_event;
        "returned-node-frees-at-once" true returned_node_frees_at_once;
        "pools-without-version-skipped" true pools_without_version_skipped;
    };
}

#[cfg(test)]
mod tests {
    use super::super::Policy;
    use super::*;

    #[test]
    fn every_name_has_its_own_switch_and_the_profile_upstream_has_on_what_the_table_says() {
        let mut seen = Vec::new();
        for deviation in ReclaimPolicy::DEVIATIONS {
            let mut policy = Policy::hardened();
            *policy.switch(deviation.name).unwrap() = true;
            assert!(policy != Policy::hardened() && !seen.contains(&policy), "{}", deviation.name);
            seen.push(policy);
            assert_eq!(*Policy::upstream().switch(deviation.name).unwrap(), deviation.upstream, "{}", deviation.name);
            assert!(Policy::DEVIATIONS.iter().all(|other| other.name != deviation.name), "{}", deviation.name);
        }
    }
}
