//! The effects of the BYOM pool's mutations, and how they are found.

use sim_harness::deviation::How;

/// The effect of each switch of [`ipam_byom::Policy`]. The switches are listed there; one without a row here does not compile.
pub const ABOUT: &[(&str, &str)] = &[
    (
        "byom-decide-once",
        "allocate and release decide on their first read; a retry only refreshes the resourceVersion and overwrites (B §1.5)",
    ),
    ("byom-recover-decide-once", "recovery decides on its first read and overwrites what was written since (B L5)"),
    ("byom-create-race-fails", "a process that loses the race to create the ConfigMap fails at once (B W2)"),
    ("byom-four-attempts", "a write is tried four times with 10 % jitter, and only after conflicts (B §2.5)"),
    ("byom-rollback-on-callers-deadline", "the clean-up after a failed start ends at its caller's deadline (B W7)"),
    ("byom-release-by-address", "a delete names the address, boots the VM and only then checks which allocation holds it (B W8, W9)"),
    ("byom-free-before-reboot", "an address is available again while its VM is still shutting down (B W13)"),
    ("byom-full-pool-restart", "when the pool is full, a pod's predecessor does not give up its address first (B W14)"),
    ("byom-reset-after-read-error", "recovery writes a fresh state after any read error (B W16, W17)"),
    ("byom-range-limit-zero", "ranges in VM_POOL_IPS contribute no address (B §4.4)"),
    ("byom-foreign-address-returned", "an address that left the configuration is offered again when it is released"),
    ("byom-textual-addresses", "two spellings of one address count as two (B W21)"),
    ("byom-null-map", "a document without allocatedIPs is accepted as it is, and crashes the next allocate (B W18)"),
    ("byom-probe-in-critical-section", "the readiness probe holds the mutex for as long as it takes (B W22)"),
    ("byom-dead-vm-not-skipped", "a dead VM fails the allocate that chose it (B W15)"),
    ("byom-leaks-kept", "records are never compared with live owners (B W3, W5, W6)"),
    ("byom-finalizer-by-pod-name", "the finalizer of the PeerPod of a pod's successor is removed (B W11)"),
    ("byom-empty-id-counts-as-deleted", "deleting an instance without an ID counts as a successful delete (B W12)"),
    ("byom-missing-map-is-empty-pool", "a missing ConfigMap is treated as a pool without allocations (B W19)"),
    ("byom-select-first", "every allocate takes the first address of the list instead of hashing its ID (B §8.4)"),
    ("byom-lenient-settings", "a bad entry in VM_POOL_IPS silently empties the pool, and a blank NODE_NAME is accepted (B §4.1, §4.4)"),
    ("byom-namespace-not-written", "records have no field podNamespace (B §6), so that a pod's predecessor cannot be identified"),
    (
        "byom-owner-recorded-late",
        "the PeerPod is written after the user data was sent, and no process checks whether it was written (B S1, W5, W6)",
    ),
    ("byom-unfenced-vms", "VMs accept user data and reboots regardless of the allocation that holds them"),
    ("byom-owner-by-pod-name", "the owner of a PeerPod is whichever Pod has the name when it is written (B S1)"),
    ("byom-stop-on-callers-deadline", "the release of StopVM ends with its caller, which may wait for only one second (B W26)"),
    (
        "byom-stop-overlooks-start",
        "StopVM of a sandbox that is being started releases what is known so far, and the start continues (B X3)",
    ),
    ("byom-controller-trusts-cache", "the PeerPod controller releases and deletes what its cache shows, without a live read (B P1, P2)"),
    ("byom-younger-peer-pod-wins", "of two PeerPods of a Pod the one that was created first is deleted (B P1)"),
    ("byom-controller-configuration-frozen", "the PeerPod controller keeps the configuration of its first release (B P0, W20)"),
    (
        "byom-config-map-replaced",
        "a write of the document replaces the whole ConfigMap: labels, annotations and other entries in it are lost (B §1.1)",
    ),
];

/// The switches of the pool that no claim finds on its own.
pub const FOUND_OTHERWISE: &[(&str, How)] = &[
    ("byom-null-map", How::Crash),
    ("byom-four-attempts", How::Figure),
    ("byom-select-first", How::Control),
    ("byom-lenient-settings", How::Test),
    ("byom-owner-by-pod-name", How::Test),
    ("byom-stop-on-callers-deadline", How::Test),
    ("byom-stop-overlooks-start", How::Test),
    ("byom-controller-trusts-cache", How::Test),
    ("byom-younger-peer-pod-wins", How::Test),
    ("byom-controller-configuration-frozen", How::Test),
];
