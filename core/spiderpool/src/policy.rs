//! The differences between the hardened Spiderpool and upstream: one switch per mutation.

mod reclaim;

use std::time::Duration;

pub use reclaim::ReclaimPolicy;

use kube_machinery::deviation::{self, Deviation, deviations};

/// The mutations of Spiderpool. Every switch is off in the hardened form; the profile `upstream` turns on what upstream does today.
/// (A policy is handed to the decision that it changes; nothing else reads it.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// `upstream-ranges`: ranges, CIDRs and numbers are parsed with upstream's quirks (A §1.6, §14.2 to §14.7, §14.15, §14.17,
    /// §14.18).
    pub upstream_ranges: bool,
    /// `ties-in-any-order`: pools of equal rank are tried in random order, not in the order in which the user lists them (A §4).
    pub ties_in_any_order: bool,
    /// `one-record-per-pod`: a record with the pod's UID counts as the pod's address for every NIC (A W14).
    pub one_record_per_pod: bool,
    /// `wildcard-duplicates-fail`: a pool that a pattern names a second time fails the request, and a pattern without a match, or
    /// a NIC without any candidate, succeeds without an address (A §2.3, §2.5).
    pub wildcard_duplicates_fail: bool,
    /// `capacity-not-filtered`: pools that are exhausted, wholly excluded or wholly reserved stay candidates (A §3, §12 D3).
    pub capacity_not_filtered: bool,
    /// `multus-always-resolved`: even a pool without `multusName` is rejected if the network of the NIC cannot be determined (A §3 rule 9).
    pub multus_always_resolved: bool,
    /// `outdated-keys-ignored`: the annotations `defaultv4ippool` and `defaultv6ippool` of namespaces are not read (A §12 D1).
    pub outdated_keys_ignored: bool,
    /// `nameless-nic-always-changed`: the check for changed pools treats a NIC without a name as one whose pools changed, whatever they are
    /// (A W13).
    pub nameless_nic_always_changed: bool,
    /// `partial-pool-change-recreates`: after a change of some of its pools an endpoint keeps the UID of the last pod, so that the ADD
    /// tries to create it again and fails (A W12, §14.22).
    pub partial_pool_change_recreates: bool,
    /// `reown-missing-record`: re-owning an address whose record is gone succeeds without a record (A W8).
    pub reown_missing_record: bool,
    /// `foreign-record-blocks`: an address that is now recorded for another pod fails every ADD of the static pod (A W9).
    pub foreign_record_blocks: bool,
    /// `del-adopts-current-uid`: a DEL applies to the pod that currently has the name, regardless of the UID that the DEL carries (A W7).
    pub del_adopts_current_uid: bool,
    /// `uid-from-cached-pod`: an ADD applies to the pod that the cache shows, whatever UID it carries, and to owners by the names that this
    /// pod refers to (A W6).
    pub uid_from_cached_pod: bool,
    /// `add-without-uid-from-cache`: an ADD without a UID applies to the pod of that name in the cache, even if it is gone or on another
    /// node (K §5.1).
    pub add_without_uid_from_cache: bool,
    /// `del-without-uid-adopts-pod`: a DEL or batch release without a UID applies to the pod that currently has the name, whatever pod's
    /// sandbox it is about (A W7, K §5.6).
    pub del_without_uid_adopts_pod: bool,
    /// `liveness-from-cache`: whether a pod is alive is looked up in the cache only (A A1).
    pub liveness_from_cache: bool,
    /// `endpoint-delete-by-name`: endpoints are deleted, and lose their finalizer, by name only (A W5).
    pub endpoint_delete_by_name: bool,
    /// `lost-reply-takes-next-pool`: a write whose answer was lost counts as failed, and the next pool is tried (A W2).
    pub lost_reply_takes_next_pool: bool,
    /// `conflict-returns-same-address`: a pod that returned an address because another host answers on it may get it again (A W17).
    pub conflict_returns_same_address: bool,
    /// `static-reuse-skips-filter`: addresses of static pods are reused whatever happened to their pool; only the tiers are checked, and
    /// only for StatefulSets (A §6.2).
    pub static_reuse_skips_filter: bool,
    /// `limiter-ignores-deadline`: a request keeps waiting for its pools, and allocates, after its caller gave up (A W22).
    pub limiter_ignores_deadline: bool,
    /// `limiter-overtakes`: a request that finds its pools free overtakes those that wait for one of them, which may starve (A §5.6,
    /// W23).
    pub limiter_overtakes: bool,
    /// `failure-cache-unchecked`: an address of an earlier failed ADD is used without a check of its record (A W24).
    pub failure_cache_unchecked: bool,
    /// `partial-failure-keeps-records`: an ADD that fails leaves the records of the parts that succeeded (A W3).
    pub partial_failure_keeps_records: bool,
    /// `mark-before-uid-check`: a DEL for a static pod that is no longer valid deletes the endpoint before it compares the UID (A W10,
    /// §14.27).
    pub mark_before_uid_check: bool,
    /// `conflict-releases-all-nics`: if another host answers on the address of one NIC, the pod loses those of all its NICs, some of which
    /// answer already (A §7.3).
    pub conflict_releases_all_nics: bool,
    /// `conflict-avoided-forever`: an address that another host answered on once is avoided for the life of the pod, even if it is free by
    /// now and no other is left (A L1).
    pub conflict_avoided_forever: bool,
    /// `first-del-releases-all`: the DEL of one NIC releases the addresses of all NICs, though the others still answer on theirs (A §7.1).
    pub first_del_releases_all: bool,
    /// `further-nic-draws-again`: the ADD of a further NIC allocates for all NICs again while the cache does not show the endpoint that the
    /// first NIC's ADD has written; so does the ADD of a further sandbox (A §2.4, §5.2).
    pub further_nic_draws_again: bool,
    /// `strays-go-afterwards`: a leftover address of an ADD in another pool is released after the NIC was given a new one, not before, so
    /// that the NIC has two for a while, and for longer if the agent crashes in between (A W1).
    pub strays_go_afterwards: bool,
    /// `sandbox-not-asked`: a DEL of any sandbox of a pod releases the addresses, even if another sandbox has replaced that one (K §5.4).
    pub sandbox_not_asked: bool,
    /// `migration-ends-with-one-del`: the DEL of one pod of a VM that is gone releases the address although another pod of the VM still
    /// answers (A §6.5, §7.1).
    pub migration_ends_with_one_del: bool,
    /// `finalizer-left-behind`: an endpoint whose records are gone may keep its finalizer for ever: the write that removes it is tried once
    /// (A W26).
    pub finalizer_left_behind: bool,
    /// `nameless-entry-lost`: an endpoint stores one NIC without a name and drops the others (A §14.24).
    pub nameless_entry_lost: bool,
    /// `reown-foreign-endpoint`: the endpoint of a pod of another owner is treated as that of a static pod's predecessor (A §14.25,
    /// §14.26).
    pub reown_foreign_endpoint: bool,
    /// `answer-not-as-stored`: the answer holds the addresses that were allocated, even where the endpoint keeps older ones (A §14.21).
    pub answer_not_as_stored: bool,
    /// `static-reuse-before-gating`: pools of a disabled IP family count when the pools of a static pod are compared (A
    /// §14.29).
    pub static_reuse_before_gating: bool,
    /// `allocate-from-cached-pool`: the records of a pool are read from the cache, but written with a fresh resourceVersion. Upstream does
    /// not do this.
    pub allocate_from_cached_pool: bool,
    /// `reown-ignores-owner`: re-owning checks only the address, not its holder. Upstream does not do this.
    pub reown_ignores_owner: bool,
    /// `adopt-stale-endpoint`: a terminating endpoint, or that of a stateless pod of the same name, is taken over with its addresses.
    /// Upstream does not do this.
    pub adopt_stale_endpoint: bool,
    /// `waits-without-end`: a request to the API server waits as long as the operation may take, and an operation without a deadline waits
    /// for ever; controllers wait for an answer, and informers for a list, as long as the connection lasts (K180).
    pub waits_without_end: bool,
    /// `terminating-endpoint-reused`: the endpoint of a static pod is re-owned even while it is being deleted (A §6.2, §14.27).
    pub terminating_endpoint_reused: bool,
    /// `failure-cache-kept-by-reuse`: an ADD that is answered from an endpoint leaves the failure cache unchanged (A §14.23).
    pub failure_cache_kept_by_reuse: bool,
    /// `late-endpoint-create-fails`: an ADD fails if its endpoint exists although the cache does not show it (A W4).
    pub late_endpoint_create_fails: bool,
    /// `unrecorded-answer`: an answer from an endpoint is given without a check of the pools' records or of the endpoint itself (A §5.3).
    pub unrecorded_answer: bool,
    /// `stateful-conflict-released`: a batch release without the flag does not check whether conflicting addresses may be released (A
    /// §7.3).
    pub stateful_conflict_released: bool,
    /// `static-by-kind-only`: a DEL, or a scan, treats any endpoint whose owner's kind is StatefulSet as that of a pod of an apps/v1
    /// StatefulSet (A §6.1, W31).
    pub static_by_kind_only: bool,
    /// `pod-operations-overlap`: two requests for one pod run concurrently, for example when the caller of the first gave up.
    pub pod_operations_overlap: bool,
    /// `unfenced-own-record`: a record of the pod that no endpoint names is returned without a check, although a write that removes it may
    /// still be under way (K075).
    pub unfenced_own_record: bool,
    /// `reads-once`: an operation fails when one of its reads gets no answer.
    pub reads_once: bool,
    /// `random-clean-gateway`: whether the gateway is left out depends on which IP family is ready first (A §14.31).
    pub random_clean_gateway: bool,
    /// `missing-pool-keeps-endpoint`: a DEL can never succeed once a pool of the endpoint is gone (A W16).
    pub missing_pool_keeps_endpoint: bool,
    /// `subnet-shrinks-lowest`: a pre-allocation shrinks from its lowest address, and before its pool does; admission demands that the two
    /// are equal (A §8.4, W19).
    pub subnet_shrinks_lowest: bool,
    /// `overlap-admitted-forever`: pools that overlap because they were admitted at the same time both keep allocating (A W18).
    pub overlap_admitted_forever: bool,
    /// `update-judged-whole`: an update is refused even for what was wrong before it, so that overlapping pools block each other's repair
    /// (A W18).
    pub update_judged_whole: bool,
    /// `terminating-update-refused`: an object in deletion cannot lose the finalizers of others before Spiderpool's (A §9.1 to §9.3).
    pub terminating_update_refused: bool,
    /// `delete-trusts-count`: whether a pool is in use is judged by its count, not by its records (A §9.1).
    pub delete_trusts_count: bool,
    /// `refused-pool-keeps-addresses`: addresses stay pre-allocated for a pool that admission refuses permanently (A W20).
    pub refused_pool_keeps_addresses: bool,
    /// `interrupted-shrink-takes-back`: an interrupted shrink is repaired with addresses that another pool may have by now; this shows only
    /// with `subnet-shrinks-lowest` (A §8.4, W19).
    pub interrupted_shrink_takes_back: bool,
    /// `lost-preallocation-not-restored`: an auto pool that its subnet's status does not mention is not added back, and its addresses are
    /// given to others (A §8.7).
    pub lost_preallocation_not_restored: bool,
    /// `unreadable-preallocation-dropped`: a pre-allocation that cannot be parsed is dropped although its pool exists (A §8.7).
    pub unreadable_preallocation_dropped: bool,
    /// `preallocation-by-name-only`: the pre-allocation of a pool of the same name is treated as one's own, whichever workload it is for (A
    /// §8.4).
    pub preallocation_by_name_only: bool,
    /// `namesake-keeps-preallocation`: the addresses of a deleted pool stay pre-allocated while any workload of the same name exists (A
    /// §8.7).
    pub namesake_keeps_preallocation: bool,
    /// `manual-pool-ignores-preallocation`: a pool that a user makes may take addresses that are pre-allocated for another pool, and vice
    /// versa (A §8.4, §9.1).
    pub manual_pool_ignores_preallocation: bool,
    /// `auto-pool-reclaim-trusts-cache`: an auto pool is deleted when caches show neither its workload nor a record (A §8.6).
    pub auto_pool_reclaim_trusts_cache: bool,
    /// `auto-pool-annotations-replaced`: all annotations of an auto pool are replaced when its size changes (A §8.2).
    pub auto_pool_annotations_replaced: bool,
    /// `namesake-pool-first`: of several pools that a workload could own, the first by name is used, even one that a workload of the same
    /// name left behind (A §8.5).
    pub namesake_pool_first: bool,
    /// `nics-race`: the NICs and families of one ADD record their addresses concurrently, even in one pool, where they conflict with each
    /// other (A A10).
    pub nics_race: bool,
    /// `removed-annotation-keeps-pool`: an auto pool stays when its workload no longer asks for it (A §8.5).
    pub removed_annotation_keeps_pool: bool,
    /// `application-given-up`: the controller gives up a workload whose pools cannot be made after 500 tries, or at once if the subnet is
    /// unsuitable (A §8.4).
    pub application_given_up: bool,
    /// `pool-given-up`: once writes of a pool have failed `SPIDERPOOL_WORKQUEUE_MAX_RETRIES` times, 500 by default, its counts and its
    /// finalizer stay unchanged until it changes or the next resync (A §8.6).
    pub pool_given_up: bool,
    /// `controller-settings-ignored`: the controller retries writes after 5 s and checks all pools every 300 s, whatever the settings say
    /// (A §10). Upstream does not do this.
    pub controller_settings_ignored: bool,
    /// `full-queue-drops-event`: changes of workloads are dropped while the queue is at its configured length, 10,000 by default (A §8.5).
    pub full_queue_drops_event: bool,
    /// `subnet-finalizer-trusts-status`: a subnet in deletion is removed when its status names no pool, even if there is one (A §8.1).
    pub subnet_finalizer_trusts_status: bool,
    /// `long-names-unshortened`: names longer than 63 characters are written as label values, which no API server accepts (K §1.1, A §1.1).
    pub long_names_unshortened: bool,
    /// `wishes-of-the-template`: the pools of a StatefulSet's pod are those that the set's template names now, not those that the pod
    /// names. They differ below a partition. Upstream does not do this.
    pub wishes_of_the_template: bool,
    /// `ordinals-from-zero`: a StatefulSet's ordinals are assumed to start at 0 even if `ordinals.start` says otherwise (A §6.4). Upstream
    /// does not do this.
    pub ordinals_from_zero: bool,
    /// `reuse-in-first-range-only`: an address is reused only if it is in the first range of its pool (A §6.3). Upstream does not do this.
    pub reuse_in_first_range_only: bool,
    /// `dropped-nic-frees-all`: a pod with one NIC fewer than its predecessor gives up the addresses of all NICs (A §6.3). Upstream does
    /// not do this.
    pub dropped_nic_frees_all: bool,
    /// `re-add-changes-owner`: an ADD for a further sandbox of a pod writes the pod's present owner into the endpoint, so that a pod that
    /// was an orphan for a while loses its place (A §6.1, §6.2). Upstream does not do this.
    pub re_add_changes_owner: bool,
    /// `webhooks-fail-open`: the webhooks are registered with `failurePolicy: Ignore`, so that writes bypass them while none answers (A §9,
    /// K121). Upstream does not do this.
    pub webhooks_fail_open: bool,
    /// `first-add-fills-caches`: the informers of pods, of all nodes, and of endpoints start within an agent's first ADD, which waits for
    /// their lists (A §15). Informers of other types have their lists before the agent serves.
    pub first_add_fills_caches: bool,
    /// The mutations of reclaim, which have their own table.
    pub reclaim: ReclaimPolicy,
}

impl Policy {
    /// The timeout of a controller's request, and of an informer's list and of its watch to open: as long as the API server works on it
    /// (`--request-timeout`, K §2.11); `None` = as long as the connection lasts.
    pub(crate) fn server_timeout(&self) -> Option<Duration> {
        (!self.waits_without_end).then_some(Duration::from_secs(60))
    }

    /// All mutations of allocation, in the order of the fields. Those of reclaim are in [`ReclaimPolicy::DEVIATIONS`].
    pub const DEVIATIONS: &'static [Deviation<Self>] = deviations! {
        "upstream-ranges" true upstream_ranges;
        "ties-in-any-order" true ties_in_any_order;
        "one-record-per-pod" true one_record_per_pod;
        "wildcard-duplicates-fail" true wildcard_duplicates_fail;
        "capacity-not-filtered" true capacity_not_filtered;
        "multus-always-resolved" true multus_always_resolved;
        "outdated-keys-ignored" true outdated_keys_ignored;
        "nameless-nic-always-changed" true nameless_nic_always_changed;
        "partial-pool-change-recreates" true partial_pool_change_recreates;
        "reown-missing-record" true reown_missing_record;
        "foreign-record-blocks" true foreign_record_blocks;
        "del-adopts-current-uid" true del_adopts_current_uid;
        "uid-from-cached-pod" true uid_from_cached_pod;
        "add-without-uid-from-cache" true add_without_uid_from_cache;
        "del-without-uid-adopts-pod" true del_without_uid_adopts_pod;
        "liveness-from-cache" true liveness_from_cache;
        "endpoint-delete-by-name" true endpoint_delete_by_name;
        "lost-reply-takes-next-pool" true lost_reply_takes_next_pool;
        "conflict-returns-same-address" true conflict_returns_same_address;
        "static-reuse-skips-filter" true static_reuse_skips_filter;
        "limiter-ignores-deadline" true limiter_ignores_deadline;
        "limiter-overtakes" true limiter_overtakes;
        "failure-cache-unchecked" true failure_cache_unchecked;
        "partial-failure-keeps-records" true partial_failure_keeps_records;
        "mark-before-uid-check" true mark_before_uid_check;
        "finalizer-left-behind" true finalizer_left_behind;
        "nameless-entry-lost" true nameless_entry_lost;
        "reown-foreign-endpoint" true reown_foreign_endpoint;
        "answer-not-as-stored" true answer_not_as_stored;
        "static-reuse-before-gating" true static_reuse_before_gating;
        "allocate-from-cached-pool" false allocate_from_cached_pool;
        "reown-ignores-owner" false reown_ignores_owner;
        "adopt-stale-endpoint" false adopt_stale_endpoint;
        "waits-without-end" true waits_without_end;
        "terminating-endpoint-reused" true terminating_endpoint_reused;
        "failure-cache-kept-by-reuse" true failure_cache_kept_by_reuse;
        "late-endpoint-create-fails" true late_endpoint_create_fails;
        "unrecorded-answer" true unrecorded_answer;
        "stateful-conflict-released" true stateful_conflict_released;
        "static-by-kind-only" true static_by_kind_only;
        "pod-operations-overlap" true pod_operations_overlap;
        "unfenced-own-record" true unfenced_own_record;
        "reads-once" true reads_once;
        "random-clean-gateway" true random_clean_gateway;
        "missing-pool-keeps-endpoint" true missing_pool_keeps_endpoint;
        "conflict-releases-all-nics" true conflict_releases_all_nics;
        "conflict-avoided-forever" false conflict_avoided_forever;
        "first-del-releases-all" true first_del_releases_all;
        "sandbox-not-asked" true sandbox_not_asked;
        "further-nic-draws-again" true further_nic_draws_again;
        "strays-go-afterwards" true strays_go_afterwards;
        "migration-ends-with-one-del" true migration_ends_with_one_del;
        "subnet-shrinks-lowest" true subnet_shrinks_lowest;
        "overlap-admitted-forever" true overlap_admitted_forever;
        "update-judged-whole" true update_judged_whole;
        "terminating-update-refused" true terminating_update_refused;
        "delete-trusts-count" true delete_trusts_count;
        "refused-pool-keeps-addresses" true refused_pool_keeps_addresses;
        "interrupted-shrink-takes-back" true interrupted_shrink_takes_back;
        "lost-preallocation-not-restored" true lost_preallocation_not_restored;
        "unreadable-preallocation-dropped" true unreadable_preallocation_dropped;
        "preallocation-by-name-only" true preallocation_by_name_only;
        "namesake-keeps-preallocation" true namesake_keeps_preallocation;
        "manual-pool-ignores-preallocation" true manual_pool_ignores_preallocation;
        "auto-pool-reclaim-trusts-cache" true auto_pool_reclaim_trusts_cache;
        "auto-pool-annotations-replaced" true auto_pool_annotations_replaced;
        "namesake-pool-first" true namesake_pool_first;
        "nics-race" true nics_race;
        "removed-annotation-keeps-pool" true removed_annotation_keeps_pool;
        "application-given-up" true application_given_up;
        "pool-given-up" true pool_given_up;
        "controller-settings-ignored" false controller_settings_ignored;
        "full-queue-drops-event" true full_queue_drops_event;
        "subnet-finalizer-trusts-status" true subnet_finalizer_trusts_status;
        "long-names-unshortened" true long_names_unshortened;
        "wishes-of-the-template" false wishes_of_the_template;
        "ordinals-from-zero" false ordinals_from_zero;
        "reuse-in-first-range-only" false reuse_in_first_range_only;
        "dropped-nic-frees-all" false dropped_nic_frees_all;
        "re-add-changes-owner" false re_add_changes_owner;
        "webhooks-fail-open" false webhooks_fail_open;
        "first-add-fills-caches" true first_add_fills_caches;
    };

    /// The documented behaviour, hardened: all switches off.
    pub fn hardened() -> Self {
        Self::default()
    }

    /// The behaviour of upstream's code.
    pub fn upstream() -> Self {
        Self { reclaim: deviation::upstream(ReclaimPolicy::DEVIATIONS), ..deviation::upstream(Self::DEVIATIONS) }
    }

    /// The switch with this public name.
    pub fn switch(&mut self, name: &str) -> Option<&mut bool> {
        if Self::DEVIATIONS.iter().any(|deviation| deviation.name == name) {
            return deviation::switch(Self::DEVIATIONS, self, name);
        }
        deviation::switch(ReclaimPolicy::DEVIATIONS, &mut self.reclaim, name)
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
        assert_eq!(Policy::hardened().switch("upstream-nothing"), None);
    }

    #[test]
    fn upstream_has_on_what_its_table_says() {
        for deviation in Policy::DEVIATIONS {
            assert_eq!(*Policy::upstream().switch(deviation.name).unwrap(), deviation.upstream, "{}", deviation.name);
        }
    }
}
