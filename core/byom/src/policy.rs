//! The differences between the hardened pool and upstream: one switch per mutation.

use kube_machinery::deviation::{self, Deviation, deviations};

/// The mutations of the pool. Every switch is off in the hardened form; the profile `upstream` turns on those that upstream has. (This
/// value is passed to the decisions that it changes; nothing else reads it.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// `byom-decide-once`: allocate and release decide on the first read; a retry only refreshes the resourceVersion (B §1.5).
    pub decide_once: bool,
    /// `byom-recover-decide-once`: the same in recovery (B L5).
    pub recover_decide_once: bool,
    /// `byom-create-race-fails`: AlreadyExists is not retried (B W2).
    pub create_race_fails: bool,
    /// `byom-four-attempts`: four attempts with 10 % jitter, and only after conflicts (B §2.5).
    pub four_attempts: bool,
    /// `byom-rollback-on-callers-deadline`: the clean-up after a failed start runs on the caller's context (B W7).
    pub rollback_on_callers_deadline: bool,
    /// `byom-release-by-address`: a delete names the address, reboots first and then looks up the holder; after the clean-up of a failed
    /// start, a sandbox keeps its address for the StopVM that follows (B W8, W9).
    pub release_by_address: bool,
    /// `byom-free-before-reboot`: an address becomes available while its VM is still going down (B W13).
    pub free_before_reboot: bool,
    /// `byom-full-pool-restart`: with a full pool, the predecessor of a pod does not give up its address first (B W14).
    pub full_pool_restart: bool,
    /// `byom-reset-after-read-error`: recovery writes a fresh state after any read error (B W16, W17).
    pub reset_after_read_error: bool,
    /// `byom-range-limit-zero`: ranges in the configuration contribute nothing (B §4.4).
    pub range_limit_zero: bool,
    /// `byom-foreign-address-returned`: an address that left the configuration is offered again.
    pub foreign_address_returned: bool,
    /// `byom-textual-addresses`: addresses are compared as text, if at all (B W21).
    pub textual_addresses: bool,
    /// `byom-null-map`: a document without `allocatedIPs` is accepted, and crashes the next allocate (B W18).
    pub null_map: bool,
    /// `byom-probe-in-critical-section`: the readiness probe holds the mutex while it runs (B W22).
    pub probe_in_critical_section: bool,
    /// `byom-dead-vm-not-skipped`: a dead VM fails the call (B W15).
    pub dead_vm_not_skipped: bool,
    /// `byom-leaks-kept`: records are never compared with live owners, and the list of available addresses is compared with the
    /// configuration only when a process starts (B W3, W5, W6).
    pub leaks_kept: bool,
    /// `byom-finalizer-by-pod-name`: StopVM removes all finalizers of the PeerPod that was last written for the Pod that has the name now;
    /// nothing is marked for the controller if the release failed (B W11).
    pub finalizer_by_pod_name: bool,
    /// `byom-empty-id-counts-as-deleted`: deleting an instance that has no ID counts as a successful delete, so the PeerPod that was last
    /// written for the Pod loses its finalizers (B W12).
    pub empty_id_counts_as_deleted: bool,
    /// `byom-missing-map-is-empty-pool`: a missing ConfigMap is treated as a pool without allocations (B W19).
    pub missing_map_is_empty_pool: bool,
    /// `byom-select-first`: the first address is taken instead of that of the hash. Not a behaviour of upstream.
    pub select_first: bool,
    /// `byom-lenient-settings`: a bad entry in `VM_POOL_IPS` silently empties the pool, a range over the limit is silently cut, a blank
    /// `NODE_NAME` is a name (B §4.1, §4.4).
    pub lenient_settings: bool,
    /// `byom-namespace-not-written`: records have no field `podNamespace` (B §6).
    pub namespace_not_written: bool,
    /// `byom-owner-recorded-late`: the PeerPod is written after the user data was sent; errors are only logged, and the record is not
    /// checked again (B S1, W5, W6).
    pub owner_recorded_late: bool,
    /// `byom-unfenced-vms`: VMs accept user data and reboots regardless of the allocation that holds them. Read only by whatever provides
    /// or models the VMs behind [`VmAccess`](super::VmAccess).
    pub unfenced_vms: bool,
    /// `byom-owner-by-pod-name`: the owner of a PeerPod is the Pod that has the name when the PeerPod is written (B S1).
    pub owner_by_pod_name: bool,
    /// `byom-stop-on-callers-deadline`: the release of StopVM ends with the caller, which may wait for only one second (B W26).
    pub stop_on_callers_deadline: bool,
    /// `byom-stop-overlooks-start`: StopVM of a sandbox that is being started releases the instance known so far, and the start goes on (B
    /// X3).
    pub stop_overlooks_start: bool,
    /// `byom-controller-trusts-cache`: the PeerPod controller releases and deletes the PeerPods in its cache without reading them again and
    /// without preconditions (B P1, P2).
    pub controller_trusts_cache: bool,
    /// `byom-younger-peer-pod-wins`: of two PeerPods of a Pod the one that was created first is deleted, although its allocation may be the
    /// later one (B P1).
    pub younger_peer_pod_wins: bool,
    /// `byom-controller-configuration-frozen`: the PeerPod controller keeps the configuration of its first release (B P0, W20).
    pub controller_configuration_frozen: bool,
    /// `byom-config-map-replaced`: a write of the document replaces the whole ConfigMap (B §1.1). Not a behaviour of upstream.
    pub config_map_replaced: bool,
}

impl Policy {
    /// All mutations, in the order of the fields.
    pub const DEVIATIONS: &'static [Deviation<Self>] = deviations! {
        "byom-decide-once" true decide_once;
        "byom-recover-decide-once" true recover_decide_once;
        "byom-create-race-fails" true create_race_fails;
        "byom-four-attempts" true four_attempts;
        "byom-rollback-on-callers-deadline" true rollback_on_callers_deadline;
        "byom-release-by-address" true release_by_address;
        "byom-free-before-reboot" true free_before_reboot;
        "byom-full-pool-restart" true full_pool_restart;
        "byom-reset-after-read-error" true reset_after_read_error;
        "byom-range-limit-zero" true range_limit_zero;
        "byom-foreign-address-returned" true foreign_address_returned;
        "byom-textual-addresses" true textual_addresses;
        "byom-null-map" true null_map;
        "byom-probe-in-critical-section" true probe_in_critical_section;
        "byom-dead-vm-not-skipped" true dead_vm_not_skipped;
        "byom-leaks-kept" true leaks_kept;
        "byom-finalizer-by-pod-name" true finalizer_by_pod_name;
        "byom-empty-id-counts-as-deleted" true empty_id_counts_as_deleted;
        "byom-missing-map-is-empty-pool" true missing_map_is_empty_pool;
        "byom-select-first" false select_first;
        "byom-lenient-settings" true lenient_settings;
        "byom-namespace-not-written" true namespace_not_written;
        "byom-owner-recorded-late" true owner_recorded_late;
        "byom-unfenced-vms" true unfenced_vms;
        "byom-owner-by-pod-name" true owner_by_pod_name;
        "byom-stop-on-callers-deadline" true stop_on_callers_deadline;
        "byom-stop-overlooks-start" true stop_overlooks_start;
        "byom-controller-trusts-cache" true controller_trusts_cache;
        "byom-younger-peer-pod-wins" true younger_peer_pod_wins;
        "byom-controller-configuration-frozen" true controller_configuration_frozen;
        "byom-config-map-replaced" false config_map_replaced;
    };

    /// The documented behaviour, made safe: no mutation.
    pub fn hardened() -> Self {
        Self::default()
    }

    /// The behaviour of upstream's code.
    pub fn upstream() -> Self {
        deviation::upstream(Self::DEVIATIONS)
    }

    /// The switch with this public name.
    pub fn switch(&mut self, name: &str) -> Option<&mut bool> {
        deviation::switch(Self::DEVIATIONS, self, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_own_switch_and_hardened_has_none_on() {
        let mut seen = Vec::new();
        for deviation in Policy::DEVIATIONS {
            let mut policy = Policy::hardened();
            *policy.switch(deviation.name).unwrap() = true;
            assert_ne!(policy, Policy::hardened(), "{}", deviation.name);
            assert!(!seen.contains(&policy), "{}", deviation.name);
            seen.push(policy);
        }
        assert_eq!(
            Policy { select_first: true, config_map_replaced: true, ..Policy::upstream() },
            seen.iter().fold(Policy::hardened(), |mut all, one| {
                for deviation in Policy::DEVIATIONS {
                    *(deviation.switch)(&mut all) |= *(deviation.switch)(&mut one.clone());
                }
                all
            })
        );
        assert_eq!(Policy::hardened().switch("byom-nothing"), None);
    }
}
