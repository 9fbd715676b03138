//! What the switches of reclaim do, and how they are found.

use sim_harness::deviation::How;

/// What each switch of [`ipam_spiderpool::reclaim::ReclaimPolicy`] does.
pub const ABOUT: &[(&str, &str)] = &[
    (
        "records-before-endpoint",
        "records go before the endpoint is marked, so that a crash in between leaves an endpoint that speaks \
         of addresses nobody holds (G R1, R2)",
    ),
    ("finalizer-patch-by-name", "an endpoint is deleted, and loses its finalizer, by name, whatever became of it meanwhile (G R6, R8)"),
    (
        "endpoint-uid-precondition-only",
        "deletes of endpoints are guarded by `metadata.uid` only, which a static pod's endpoint never changes",
    ),
    ("scan-trusts-cached-pod", "a scan releases what its caches say, without a look at the record and the pod (G R3)"),
    ("scan-trusts-cached-endpoint", "an endpoint of another pod in the cache ends the right of the pod that lives, too (G R4, E-4)"),
    (
        "vm-record-without-owner-check",
        "a record without pod and endpoint goes without asking a StatefulSet or a VM of its name (G R5, S-3)",
    ),
    (
        "empty-pod-ips-means-gone",
        "a pod whose status names no address has lost its right to those it had, also within its grace and \
         before it ends (G R7, P-7, P-9, TD-4)",
    ),
    (
        "force-delete-frees-at-once",
        "addresses of a pod that vanished before its grace was over are free at once, though its containers may still run (G R9)",
    ),
    ("node-judged-once", "whether a node is ready counts when the pod begins to terminate, not when its deadline passes (G R10)"),
    ("tombstone-crashes", "a deletion that was missed crashes the leader when it learns of it (G R13)"),
    ("event-lost-on-error", "an event that could not be judged, and a release that failed too often, are forgotten (G R12)"),
    ("orphan-endpoint-kept", "endpoints that no record leads to any more stay, also marked ones (G §4.4)"),
    ("one-list-error-ends-scan", "a scan whose list of endpoints or pools fails does nothing (G §1.5)"),
    ("full-database-drops-newest", "what does not fit into the database is forgotten (G §1.3)"),
    ("database-keyed-by-name", "a name has one entry, whatever pod it is of, and the end of one ends the other (G R11)"),
    ("endpoint-removed-after-failed-release", "the endpoint goes although its records could not be removed (G R16)"),
    ("ticket-released-ungranted", "a release that is refused its pools gives back tickets it never had (G R17)"),
    (
        "families-race-on-endpoint",
        "a scan walks both families side by side and address by address, and a pod may lose one family only (G R19)",
    ),
    ("nil-fields-crash", "a grace period that is absent where it is needed crashes the process, or loses the event (G §13.4)"),
    ("static-uid-mismatch-frees", "the record of a static pod goes once its successor exists, before that inherits it"),
    ("half-written-endpoint-frees", "an address of a live pod goes if its endpoint does not name it (yet)"),
    ("standbys-scan-once", "a replica that does not lead scans at its start only (G §1.6)"),
    ("terminal-pods-not-scanned", "a scan leaves pods alone that have ended (P-2)"),
    ("no-scan-on-takeover", "a new leader waits for its next turn to scan"),
    ("terminating-static-ignored", "pods of StatefulSets and VMs are never traced"),
    ("grace-counted-once", "the deadline of a terminating pod is its deletionTimestamp, which has the grace in it"),
    ("grace-floor-ignored", "a grace of 0 or 1 s counts as stated, though a kubelet leaves 2 s to containers in any case (K §5.2)"),
    ("stuck-static-kept", "a terminating pod of a StatefulSet or VM that wants it no more is never given up by a scan (rule G)"),
    ("pending-pods-not-scanned", "a scan leaves pods alone that have not begun, also terminating ones (P-4)"),
    ("ended-without-times-lost", "a pod that has ended and does not say when is never traced (I-12)"),
    (
        "static-by-first-owner",
        "the kind of the first owner, not of the controller, says whom a scan asks whether a pod's addresses are kept (G §13.1)",
    ),
    ("node-asked-first", "a pod whose node cannot be read is left alone also where the node does not matter (S-7, I-11)"),
    ("address-in-use-freed", "an address goes although the pod that has the name now answers on it (U-1, U-3)"),
    (
        "orphans-record-kept",
        "what a pod had that was nobody's is kept for the pod of a StatefulSet that has its name now, which is refused for it (U-2, E-3)",
    ),
    (
        "orphans-place-freed",
        "the addresses of a pod that its StatefulSet left behind go when its time is over, though the next set wants them (rule G, P-2)",
    ),
    ("namesake-frees", "a pod that merely has the name ends the right of a VM or a StatefulSet to the addresses (G §5.2)"),
    (
        "ending-pool-keeps-places",
        "a gone pod of a StatefulSet keeps its address in an auto pool that is being deleted, though the next is given none of it (S-4)",
    ),
    ("ending-vm-frees", "the addresses of a VM go once it is being deleted, though its pod may still run (S-5)"),
    (
        "vm-pod-sought-by-record",
        "the pod of a VM is looked up under the name in its record, which is the VM's, and so is never found (S-5, G §5.2)",
    ),
    ("trace-needs-endpoint", "what was traced is dropped if the cached endpoint under the pod's name is absent or another's (XD-1, XD-3)"),
    ("deadline-not-confirmed", "when a deadline passes, neither the pod nor its StatefulSet or VM is looked at again (G §3.2)"),
    ("ex-leader-goes-on", "what was traced is released also after leadership was lost (G §1.6)"),
    (
        "leader-flag-polled",
        "loss and gain of leadership are noticed at the next look only, so that a short loss goes unnoticed and costs events (G §8)",
    ),
    ("owner-asked-for-every-event", "the StatefulSet or VM is read for every event of its pods, also for those that mean nothing (I-4)"),
    ("returned-node-frees-at-once", "a pod whose grace is over loses its addresses as soon as its node is ready again (rule G)"),
    ("pools-without-version-skipped", "a scan does not look into pools that have no IP version yet (G §0.1)"),
];

/// The switches that no claim finds by itself.
pub const FOUND_OTHERWISE: &[(&str, How)] = &[
    ("tombstone-crashes", How::Crash),
    // An API server fills these fields in.
    ("nil-fields-crash", How::Test),
    ("standbys-scan-once", How::Figure),
    ("owner-asked-for-every-event", How::Figure),
];
