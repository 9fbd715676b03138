//! The effects of Spiderpool's mutations of reclaim, and the ways they are found.

use sim_harness::deviation::How;

/// The effect of each switch of [`ipam_spiderpool::reclaim::ReclaimPolicy`].
pub const ABOUT: &[(&str, &str)] = &[
    (
        "records-before-endpoint",
        "records are removed before the endpoint is marked, so that a crash in between leaves an endpoint \
         with addresses for which there is no record (G R1, R2)",
    ),
    ("finalizer-patch-by-name", "an endpoint is deleted, and loses its finalizer, by name, whatever happened to it in between (G R6, R8)"),
    (
        "endpoint-uid-precondition-only",
        "deletes of endpoints are guarded by `metadata.uid` only, which a static pod's endpoint never changes",
    ),
    ("scan-trusts-cached-pod", "a scan releases what its caches show, without reading the record and the pod (G R3)"),
    (
        "scan-trusts-cached-endpoint",
        "a cached endpoint of another pod ends the entitlement to the address, even that of a live pod (G R4, E-4)",
    ),
    (
        "vm-record-without-owner-check",
        "a record without pod and endpoint is released without a check for a StatefulSet or a VM of its name (G R5, S-3)",
    ),
    (
        "empty-pod-ips-means-gone",
        "a pod whose status names no address is no longer entitled to those it had, even within its grace and \
         before it ends (G R7, P-7, P-9, TD-4)",
    ),
    (
        "force-delete-frees-at-once",
        "addresses of a pod that vanished before its grace was over are released at once, although its containers may still run (G R9)",
    ),
    ("node-judged-once", "a node's readiness is judged when the pod begins to terminate, not when its deadline passes (G R10)"),
    ("tombstone-crashes", "the leader crashes when it learns of a deletion that it missed (G R13)"),
    ("event-lost-on-error", "an event that could not be judged, and a release that failed too often, are forgotten (G R12)"),
    ("orphan-endpoint-kept", "endpoints to which no record leads any more are kept, even marked ones (G §4.4)"),
    ("one-list-error-ends-scan", "a scan whose list of endpoints or pools fails does nothing (G §1.5)"),
    ("full-database-drops-newest", "a pod that does not fit into the database is forgotten (G §1.3)"),
    ("database-keyed-by-name", "the database has one entry per name, so that the end of one pod's entry ends that of its namesake (G R11)"),
    ("endpoint-removed-after-failed-release", "the endpoint is removed although its records could not be (G R16)"),
    ("ticket-released-ungranted", "a release that is refused its pools returns tickets that it never got (G R17)"),
    (
        "families-race-on-endpoint",
        "a scan processes both IP families concurrently and address by address, and a pod may lose only one family (G R19)",
    ),
    ("nil-fields-crash", "a grace period that is absent where it is needed crashes the process, or loses the event (G §13.4)"),
    ("static-uid-mismatch-frees", "the record of a static pod is released once its successor exists, before the successor inherits it"),
    ("half-written-endpoint-frees", "an address of a live pod is released if its endpoint does not name it (yet)"),
    ("standbys-scan-once", "a replica that does not lead scans only when it starts (G §1.6)"),
    ("terminal-pods-not-scanned", "a scan ignores pods that have ended (G P-2)"),
    ("no-scan-on-takeover", "a new leader waits for its next turn to scan"),
    ("terminating-static-ignored", "pods of StatefulSets and VMs are never traced"),
    ("grace-counted-once", "the deadline of a terminating pod is its deletionTimestamp, which already includes the grace"),
    ("grace-floor-ignored", "a grace of 0 or 1 s counts as stated, although a kubelet gives containers at least 2 s (K §5.2)"),
    ("stuck-static-kept", "a scan never gives up a terminating pod whose StatefulSet or VM no longer wants it (G §3.3)"),
    ("pending-pods-not-scanned", "a scan ignores pods that have not started, even terminating ones (P-4)"),
    ("ended-without-times-lost", "a pod that has ended without a finish time in its status is never traced (I-12)"),
    (
        "static-by-first-owner",
        "a scan looks for the object that keeps a pod's addresses by the kind of the first owner, not of the controller (G §13.1)",
    ),
    ("node-asked-first", "a pod whose node cannot be read is left alone even where the node does not matter (S-7, I-11)"),
    ("address-in-use-freed", "an address is released although the pod that has the name now answers on it (U-1, U-3)"),
    (
        "orphans-record-kept",
        "the addresses of an orphan are kept for the StatefulSet's pod that has its name now, which is refused because of them (U-2, E-3)",
    ),
    (
        "orphans-place-freed",
        "the addresses of a pod orphaned by its StatefulSet are released when its time is over, although \
         the next set wants them (G §3.3, P-2)",
    ),
    ("namesake-frees", "a pod that only has the same name ends the entitlement of a VM or a StatefulSet to the addresses (G §5.2)"),
    (
        "ending-pool-keeps-places",
        "a gone pod of a StatefulSet keeps its address in an auto pool in deletion, although the next pod gets no address from it (G S-4)",
    ),
    ("ending-vm-frees", "the addresses of a VM are released once it is being deleted, although its pod may still run (S-5)"),
    (
        "vm-pod-sought-by-record",
        "the pod of a VM is looked up under the name in its record, which is the VM's, and so is never found (S-5, G §5.2)",
    ),
    (
        "trace-needs-endpoint",
        "a traced pod is dropped if the cached endpoint under its name is missing or belongs to another pod (XD-1, XD-3)",
    ),
    ("deadline-not-confirmed", "when a deadline passes, neither the pod nor its StatefulSet or VM is checked again (G §3.2)"),
    ("ex-leader-goes-on", "addresses of traced pods are released even after leadership was lost (G §1.6)"),
    ("reclaims-while-switched-off", "`SPIDERPOOL_GC_IP_ENABLED` is ignored: a controller reclaims although it is switched off (G §2.1)"),
    ("leader-flag-polled", "leadership is polled, so that a short loss goes unnoticed and costs events (G §8)"),
    ("owner-asked-for-every-event", "the StatefulSet or VM is read for every event of its pods, even for irrelevant ones (I-4)"),
    ("returned-node-frees-at-once", "a pod whose grace is over loses its addresses as soon as its node is ready again (G §3.3)"),
    ("pools-without-version-skipped", "a scan skips pools that have no IP version yet (G §0.1)"),
];

/// The switches that no claim finds, with the way each is found instead.
pub const FOUND_OTHERWISE: &[(&str, How)] = &[
    ("tombstone-crashes", How::Crash),
    // An API server fills these fields in.
    ("nil-fields-crash", How::Test),
    ("standbys-scan-once", How::Figure),
    ("owner-asked-for-every-event", How::Figure),
];
