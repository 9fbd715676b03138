//! What the switches of Spiderpool do, and how they are found.

use sim_harness::deviation::How;

/// What each switch of [`ipam_spiderpool::Policy`] does. Which switches there are is told there, and a switch that has no row here does
/// not compile.
pub const ABOUT: &[(&str, &str)] = &[
    ("upstream-ranges", "texts of ranges, CIDRs and numbers are read with upstream's quirks (A §1.6, §14.2 to §14.7)"),
    ("ties-in-any-order", "pools of equal rank are tried in random order, not in the order in which the user lists them (A §4)"),
    ("one-record-per-pod", "a record with the pod's UID is the pod's address for any NIC (A W14)"),
    (
        "wildcard-duplicates-fail",
        "a pool that a pattern names again fails the request; an empty match succeeds without an address (A §2.3)",
    ),
    ("capacity-not-filtered", "pools that are exhausted, wholly excluded or wholly reserved stay candidates (A §3)"),
    ("multus-always-resolved", "a pool without multusName is rejected, too, if the network of the NIC cannot be told (A §3 rule 9)"),
    ("outdated-keys-ignored", "the older annotations of namespaces are not read (A §12 D1)"),
    ("nameless-nic-always-changed", "a NIC without a name counts as one whose pools changed, whatever they are (A W13)"),
    ("partial-pool-change-recreates", "after a change of some of its pools an endpoint keeps the UID of the last pod (A W12)"),
    ("reown-missing-record", "re-owning an address whose record is gone succeeds without a record (A W8)"),
    ("foreign-record-blocks", "an address that is recorded for somebody else fails every ADD of the static pod (A W9)"),
    ("del-adopts-current-uid", "a DEL is about the pod that has the name, whatever UID it carries (A W7)"),
    ("uid-from-cached-pod", "an ADD is about the pod that the cache shows, whatever UID it carries (A W6)"),
    ("endpoint-delete-by-name", "endpoints are deleted, and lose their finalizer, by name (A W5)"),
    ("lost-reply-takes-next-pool", "a write whose answer was lost counts as failed, and the next pool is tried (A W2)"),
    ("conflict-returns-same-address", "a pod may get the address again on which somebody else answers (A W17)"),
    ("static-reuse-skips-filter", "addresses of static pods are reused whatever became of their pool (A §6.2)"),
    ("limiter-ignores-deadline", "a request waits for its pools, and allocates, after its caller gave up (A W22)"),
    ("failure-cache-unchecked", "an address of an earlier ADD that failed is used without a look at its record (A W24)"),
    ("partial-failure-keeps-records", "an ADD that fails leaves the records of the parts that went well (A W3)"),
    ("mark-before-uid-check", "a DEL deletes the endpoint of an invalid static pod before it compares the UID (A W10, §14.27)"),
    ("finalizer-left-behind", "the finalizer of an endpoint is removed by one try, and the plugin hides that it failed (A W26)"),
    ("nameless-entry-lost", "an endpoint stores one NIC without a name and drops the others (A §14.24)"),
    ("reown-foreign-endpoint", "the endpoint of a pod of another owner is taken for a predecessor's (A §14.25, §14.26)"),
    ("answer-not-as-stored", "the answer holds what was drawn, also where the endpoint keeps older addresses (A §14.21)"),
    ("static-reuse-before-gating", "pools of a family that is switched off count when the pools of a static pod are compared (A §14.29)"),
    ("allocate-from-cached-pool", "the records of a pool are those of the cache, written with a fresh resourceVersion"),
    ("reown-ignores-owner", "re-owning looks at the address only, not at who holds it"),
    ("adopt-stale-endpoint", "a terminating endpoint, or that of a stateless namesake, is taken over with its addresses"),
    (
        "waits-without-end",
        "a request to the API server waits as long as the operation may take, and an operation without a deadline has none; informers \
         wait for a list as long as the connection lasts (K180)",
    ),
    ("terminating-endpoint-reused", "the endpoint of a static pod is re-owned also while it is being deleted (A §6.2, §14.27)"),
    ("failure-cache-kept-by-reuse", "an ADD that is answered from an endpoint leaves the failure cache as it is (A §14.23)"),
    ("late-endpoint-create-fails", "an endpoint that exists although the cache does not show it fails the ADD (A W4)"),
    ("static-by-kind-only", "a DEL takes any owner of kind StatefulSet for one of apps/v1 (A W31)"),
    ("pod-operations-overlap", "two requests about one pod run side by side"),
    ("unfenced-own-record", "a record of the pod is answered although a write that takes it away may be under way (K075)"),
    ("reads-once", "a read that failed for lack of an answer fails the operation"),
    ("liveness-from-cache", "whether a pod is alive is asked of the cache only (A A1)"),
    ("limiter-overtakes", "a request that finds its pools free passes those that wait for one of them, for ever if need be (A W23)"),
    ("unrecorded-answer", "an answer from an endpoint is given without a look at the records of the pools (A §5.3)"),
    ("stateful-conflict-released", "a batch release is not asked whether conflicting addresses are to be released at all (A §7.3)"),
    ("random-clean-gateway", "the gateway is left out or not as the family says that is ready first (A §14.31)"),
    ("sandbox-not-asked", "a DEL of a sandbox that another has replaced releases what the pod answers on (K §5.4)"),
    ("conflict-releases-all-nics", "an address of one NIC that somebody else answers on costs the pod those of all its NICs (A §7.3)"),
    (
        "conflict-avoided-forever",
        "an address that somebody else answered on once is never given to the pod again, also when it is free and no other is left (A L1)",
    ),
    ("first-del-releases-all", "the DEL of one NIC releases the addresses of all, though the others still answer (A §7.1)"),
    (
        "further-nic-draws-again",
        "the ADD of a further NIC or sandbox draws for all NICs again while the cache does not show the endpoint yet (A §5.2)",
    ),
    (
        "strays-go-afterwards",
        "what an ADD left behind in another pool goes back after the NIC was given another address, not before (A W1)",
    ),
    ("migration-ends-with-one-del", "the DEL of one pod of a VM that is gone releases the address though another one answers still"),
    ("missing-pool-keeps-endpoint", "a DEL fails for ever once a pool of the endpoint is gone (A W16)"),
    ("subnet-shrinks-lowest", "a pre-allocation shrinks from its lowest address, and before its pool does (A §8.4, W19)"),
    ("overlap-admitted-forever", "pools that overlap because they were admitted at the same time both serve (A W18)"),
    (
        "update-judged-whole",
        "an update is refused for what was wrong before it, so that overlapping pools block each other's repair (A W18)",
    ),
    ("terminating-update-refused", "an object that is being deleted cannot lose another's finalizer before Spiderpool's (A §9.1 to §9.3)"),
    ("delete-trusts-count", "whether a pool is in use is asked of its count, not of its records (A §9.1)"),
    ("refused-pool-keeps-addresses", "addresses stay set aside for a pool that admission refuses for good (A W20)"),
    ("interrupted-shrink-takes-back", "an interrupted shrink is mended with addresses that another pool may have by now (A W19)"),
    ("lost-preallocation-not-restored", "an auto pool that its subnet does not mention is not added back (A §8.7)"),
    ("unreadable-preallocation-dropped", "a pre-allocation that cannot be read is dropped though its pool is there (A §8.7)"),
    (
        "preallocation-by-name-only",
        "what is set aside for a pool of the same name is taken for one's own, whichever workload it is for (A §8.4)",
    ),
    ("namesake-keeps-preallocation", "the addresses of a pool that is gone stay set aside while any workload of the name exists (A §8.7)"),
    ("manual-pool-ignores-preallocation", "a pool that a user makes may take addresses that are set aside for another (A §8.4, §9.1)"),
    ("auto-pool-reclaim-trusts-cache", "an auto pool is deleted when caches show neither its workload nor a record (A §8.6)"),
    ("auto-pool-annotations-replaced", "all annotations of an auto pool are replaced when its size changes (A §8.2)"),
    ("namesake-pool-first", "of several pools the first by name is a workload's own, also one that a namesake left (A §8.5)"),
    ("nics-race", "the NICs of one ADD conflict with each other in the pool that they share (A §5.2, A10)"),
    ("removed-annotation-keeps-pool", "an auto pool stays when its workload no longer asks for it (A §8.5)"),
    ("application-given-up", "a workload whose pools cannot be made is given up after 500 tries (A §8.4)"),
    ("full-queue-drops-event", "changes of workloads are dropped while as many wait as a setting says, 10,000 by default (A §8.5)"),
    (
        "subnet-finalizer-trusts-status",
        "a subnet that is being deleted goes when its status names no pool, whether or not there is one (A §8.1)",
    ),
    (
        "long-names-unshortened",
        "a workload or a subnet with a name of more than 63 characters gets no pool: the name is to be \
         the value of a label (A §8.2, K §1.1)",
    ),
    (
        "wishes-of-the-template",
        "the pools of a StatefulSet's pod are those that the set's template names now, also below a partition, \
         where pods have the one before (K §7.1)",
    ),
    ("ordinals-from-zero", "a StatefulSet's pods are taken to be counted from 0 also where `ordinals.start` says otherwise (A §6.4)"),
    ("reuse-in-first-range-only", "an address is not used again unless it is in the first of its pool's ranges (A §6.3)"),
    ("dropped-nic-frees-all", "a pod that has a NIC less than its predecessor gives up the addresses of all NICs (A §6.3)"),
    (
        "re-add-changes-owner",
        "an ADD for a further sandbox writes whose the pod is now, so that the place of one that was an \
         orphan for a while is lost (A §6.1, §6.2)",
    ),
    ("webhooks-fail-open", "writes pass by the webhooks while none of them answers (A §9, K121)"),
    ("first-add-fills-caches", "an agent lists pods, of all nodes, and endpoints within its first ADD, which waits for them (A §15)"),
];

/// The switches that no claim finds by themselves.
pub const FOUND_OTHERWISE: &[(&str, How)] = &[
    ("upstream-ranges", How::Explain),
    ("capacity-not-filtered", How::Explain),
    ("outdated-keys-ignored", How::Explain),
    ("first-add-fills-caches", How::Figure),
];
