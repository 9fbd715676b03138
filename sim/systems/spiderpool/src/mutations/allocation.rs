//! The effects of Spiderpool's mutations of allocation, and the ways they are found.

use sim_harness::deviation::How;

/// The effect of each switch of [`ipam_spiderpool::Policy`]. A switch that is missing in this list does not compile.
pub const ABOUT: &[(&str, &str)] = &[
    ("upstream-ranges", "ranges, CIDRs and numbers are parsed with upstream's quirks (A §1.6, §14.2 to §14.7)"),
    ("ties-in-any-order", "pools of equal rank are tried in random order, not in the order in which the user lists them (A §4)"),
    ("one-record-per-pod", "a record with the pod's UID counts as the pod's address for any NIC (A W14)"),
    (
        "wildcard-duplicates-fail",
        "a request fails if a pattern names a pool again; a pattern without a match succeeds without an address (A §2.3)",
    ),
    ("capacity-not-filtered", "pools that are exhausted, wholly excluded or wholly reserved stay candidates (A §3)"),
    ("multus-always-resolved", "a pool without multusName is rejected, too, if the network of the NIC cannot be determined (A §3 rule 9)"),
    ("outdated-keys-ignored", "the older annotations of namespaces are not read (A §12 D1)"),
    ("nameless-nic-always-changed", "a NIC without a name always counts as one whose pools changed (A W13)"),
    ("partial-pool-change-recreates", "when some of its pools change, an endpoint keeps the UID of the previous pod (A W12)"),
    ("reown-missing-record", "re-owning an address whose record is gone succeeds without a record (A W8)"),
    ("foreign-record-blocks", "an address that is recorded for another pod fails every ADD of the static pod (A W9)"),
    ("del-adopts-current-uid", "a DEL applies to the pod that has the name, regardless of the UID that the DEL carries (A W7)"),
    ("uid-from-cached-pod", "an ADD applies to the pod that the cache shows, regardless of the UID that the ADD carries (A W6)"),
    (
        "add-without-uid-from-cache",
        "an ADD that carries no UID applies to the pod that the cache shows, though it is gone or on another node (K §5.1)",
    ),
    ("del-without-uid-adopts-pod", "a DEL that carries no UID applies to the pod that has the name, whosever sandbox it is (A W7, K §5.6)"),
    ("endpoint-delete-by-name", "endpoints are deleted, and lose their finalizer, by name only (A W5)"),
    ("lost-reply-takes-next-pool", "a write whose answer was lost counts as failed, and the next pool is tried (A W2)"),
    ("conflict-returns-same-address", "a pod may again get an address on which another host answers (A W17)"),
    ("static-reuse-skips-filter", "static pods reuse their addresses regardless of what happened to the pool (A §6.2)"),
    ("limiter-ignores-deadline", "a request keeps waiting for its pools, and allocates, after its caller gave up (A W22)"),
    ("failure-cache-unchecked", "an address of an earlier ADD that failed is used without checking its record (A W24)"),
    ("partial-failure-keeps-records", "an ADD that fails leaves the records of the parts that succeeded (A W3)"),
    ("mark-before-uid-check", "a DEL deletes the endpoint of an invalid static pod before it compares the UID (A W10, §14.27)"),
    ("finalizer-left-behind", "the removal of an endpoint's finalizer is tried only once, and the plugin hides its failure (A W26)"),
    ("nameless-entry-lost", "an endpoint stores one NIC without a name and drops the others (A §14.24)"),
    ("reown-foreign-endpoint", "the endpoint of a pod of another owner is taken for a predecessor's (A §14.25, §14.26)"),
    ("answer-not-as-stored", "the answer has the newly allocated addresses even where the endpoint keeps older ones (A §14.21)"),
    ("static-reuse-before-gating", "pools of a disabled IP family count when the pools of a static pod are compared (A §14.29)"),
    ("allocate-from-cached-pool", "an agent takes the records of a pool from its cache and writes them with a fresh resourceVersion"),
    ("reown-ignores-owner", "re-owning checks only the address, not its holder"),
    ("adopt-stale-endpoint", "a terminating endpoint, or that of a stateless namesake, is taken over with its addresses"),
    (
        "waits-without-end",
        "a request to the API server waits as long as the operation may take, and an operation without a deadline has none; informers \
         wait for a list as long as the connection lasts (K180)",
    ),
    ("terminating-endpoint-reused", "the endpoint of a static pod is re-owned even while it is being deleted (A §6.2, §14.27)"),
    ("failure-cache-kept-by-reuse", "an ADD that is answered from an endpoint leaves the failure cache as it is (A §14.23)"),
    ("late-endpoint-create-fails", "an ADD fails if its endpoint exists although the cache does not show it (A W4)"),
    ("static-by-kind-only", "a DEL treats any owner of kind StatefulSet as one of apps/v1 (A W31)"),
    ("pod-operations-overlap", "two requests for one pod run concurrently"),
    ("unfenced-own-record", "an ADD is answered from a record of the pod although a write that removes it may be in flight (K075)"),
    ("reads-once", "an operation fails when one of its reads gets no answer"),
    ("liveness-from-cache", "whether a pod is alive is looked up only in the cache (A A1)"),
    ("limiter-overtakes", "a request that finds its pools free overtakes those that wait for one of them, which may starve (A W23)"),
    ("unrecorded-answer", "an ADD is answered from an endpoint without checking the records of the pools (A §5.3)"),
    ("stateful-conflict-released", "a batch release does not check whether conflicting addresses are to be released at all (A §7.3)"),
    ("random-clean-gateway", "whether the gateway is left out depends on which IP family is ready first (A §14.31)"),
    ("sandbox-not-asked", "the DEL of a sandbox that has been replaced releases the addresses that the pod answers on (K §5.4)"),
    ("conflict-releases-all-nics", "when another host answers on the address of one NIC, the pod loses those of all its NICs (A §7.3)"),
    (
        "conflict-avoided-forever",
        "an address on which another host answered once is never given to the pod again, even when it is free and no other is left (A L1)",
    ),
    ("first-del-releases-all", "the DEL of one NIC releases the addresses of all NICs, although the others still answer (A §7.1)"),
    (
        "further-nic-draws-again",
        "the ADD of a further NIC or sandbox draws for all NICs again while the cache does not show the endpoint yet (A §5.2)",
    ),
    ("strays-go-afterwards", "a record that an ADD left in another pool is released after the NIC gets another address, not before (A W1)"),
    (
        "migration-ends-with-one-del",
        "the DEL of one pod of a VM that is gone releases the address although another pod still answers on it",
    ),
    ("missing-pool-keeps-endpoint", "a DEL can never succeed once a pool of the endpoint is gone (A W16)"),
    ("subnet-shrinks-lowest", "a pre-allocation shrinks from its lowest address, and before its pool does (A §8.4, W19)"),
    ("overlap-admitted-forever", "pools that overlap because they were admitted at the same time both serve (A W18)"),
    (
        "update-judged-whole",
        "an update is refused for what was already wrong before it, so that overlapping pools block each other's repair (A W18)",
    ),
    (
        "terminating-update-refused",
        "another controller's finalizer cannot be removed from an object in deletion before Spiderpool's (A §9.1 to §9.3)",
    ),
    ("delete-trusts-count", "whether a pool is in use is judged by its count, not by its records (A §9.1)"),
    ("refused-pool-keeps-addresses", "addresses stay set aside for a pool that admission refuses permanently (A W20)"),
    ("interrupted-shrink-takes-back", "an interrupted shrink is repaired with addresses that another pool may have by now (A W19)"),
    ("lost-preallocation-not-restored", "an auto pool that its subnet does not mention is not added back (A §8.7)"),
    ("unreadable-preallocation-dropped", "a pre-allocation that cannot be parsed is dropped although its pool exists (A §8.7)"),
    (
        "preallocation-by-name-only",
        "a pre-allocation for a pool of the same name counts as the workload's own, whichever workload it is for (A §8.4)",
    ),
    ("namesake-keeps-preallocation", "the addresses of a pool that is gone stay set aside while any workload of the name exists (A §8.7)"),
    ("manual-pool-ignores-preallocation", "a pool that a user makes may take addresses that are set aside for another (A §8.4, §9.1)"),
    ("auto-pool-reclaim-trusts-cache", "an auto pool is deleted when caches show neither its workload nor a record (A §8.6)"),
    ("auto-pool-annotations-replaced", "all annotations of an auto pool are replaced when its size changes (A §8.2)"),
    ("namesake-pool-first", "of several pools, a workload uses the first by name, even one that a namesake left (A §8.5)"),
    ("nics-race", "the NICs of one ADD conflict with each other in the pool that they share (A §5.2, A10)"),
    ("removed-annotation-keeps-pool", "an auto pool stays when its workload no longer asks for it (A §8.5)"),
    ("application-given-up", "after 500 tries, the controller gives up on a workload whose pools cannot be created (A §8.4)"),
    (
        "pool-given-up",
        "once writes of a pool have failed as often as a setting says, 500 times by default, the controller leaves it as it is until it \
         changes or the next resync (A §8.6, §10)",
    ),
    (
        "controller-settings-ignored",
        "the controller tries writes again after 5 s and looks at all pools every 300 s, whatever the settings say (A §10)",
    ),
    ("full-queue-drops-event", "changes of workloads are dropped while the queue is full; a setting limits it, 10,000 by default (A §8.5)"),
    (
        "subnet-finalizer-trusts-status",
        "a subnet in deletion is removed when its status names no pool, whether or not there is one (A §8.1)",
    ),
    (
        "long-names-unshortened",
        "a workload or a subnet with a name of more than 63 characters gets no pool, because the name has to be \
         a label value (A §8.2, K §1.1)",
    ),
    (
        "wishes-of-the-template",
        "the pools of a StatefulSet's pod are those of the set's current template, even below a partition, \
         where pods have the previous one (K §7.1)",
    ),
    ("ordinals-from-zero", "a StatefulSet's ordinals are assumed to start at 0 even where `ordinals.start` says otherwise (A §6.4)"),
    ("reuse-in-first-range-only", "an address is reused only if it is in the first of its pool's ranges (A §6.3)"),
    ("dropped-nic-frees-all", "a pod that has one NIC fewer than its predecessor gives up the addresses of all NICs (A §6.3)"),
    (
        "re-add-changes-owner",
        "an ADD for a further sandbox records the pod's current owner, so that a pod that was an orphan \
         for a while loses its place (A §6.1, §6.2)",
    ),
    ("webhooks-fail-open", "writes bypass the webhooks while none of them answers (A §9, K121)"),
    (
        "first-add-fills-caches",
        "an agent lists the pods of all nodes, and the endpoints, during its first ADD, which waits for them (A §15)",
    ),
];

/// The switches that no claim finds, with the way each is found instead.
pub const FOUND_OTHERWISE: &[(&str, How)] = &[
    ("upstream-ranges", How::Explain),
    ("capacity-not-filtered", How::Explain),
    ("outdated-keys-ignored", How::Explain),
    ("first-add-fills-caches", How::Figure),
];
