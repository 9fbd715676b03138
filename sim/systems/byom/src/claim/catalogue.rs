//! Claims about the BYOM pool.

use ipam_reports::finding::Kind;
use sim_harness::claim::{ClaimDef, Make};

use crate::claim;

/// Former names of claims, with the current ones.
pub(crate) const RENAMED: &[(&str, &str)] = &[
    ("somebody-asks-again", "allocate-is-idempotent"),
    ("no-race-fails-an-operation", "conflicts-are-retried"),
    ("wanted-pods-run", "desired-pods-run"),
    ("one-setting-means-one-set", "same-config-same-pool"),
];

/// The claims, in the order of listings.
pub(crate) const CLAIMS: &[ClaimDef] = &[
    ClaimDef {
        name: "no-address-has-two-holders",
        kind: Kind::Always,
        about: "no sandbox is given an address that another live sandbox holds",
        reference: Some("B I1"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::NoAddressHasTwoHolders)),
    },
    ClaimDef {
        name: "pool-document-is-a-partition",
        kind: Kind::Always,
        about: "in every document that the pool commits, each address occurs at most once in the list and the records together",
        reference: Some("B I2"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::PoolDocumentIsAPartition)),
    },
    ClaimDef {
        name: "pool-addresses-are-conserved",
        kind: Kind::Always,
        about: "a commit that adds or removes records does not change the addresses in the list and the records together",
        reference: Some("B I3"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::PoolAddressesAreConserved)),
    },
    ClaimDef {
        name: "pool-document-is-well-formed",
        kind: Kind::Always,
        about: "the pool writes records under their IDs, with a node, and addresses in canonical spelling; nothing is null",
        reference: Some("B I4"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::PoolDocumentIsWellFormed)),
    },
    ClaimDef {
        name: "pool-version-counts-writes",
        kind: Kind::Always,
        about: "each commit of the pool raises the version of the document by one",
        reference: Some("B I5"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::PoolVersionCountsWrites)),
    },
    ClaimDef {
        name: "the-pool-is-in-its-place",
        kind: Kind::Always,
        about: "the pool writes the ConfigMap byom-ip-pool-state in the namespace confidential-containers-system, and no other",
        reference: Some("B §1.1"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::ThePoolIsInItsPlace)),
    },
    ClaimDef {
        name: "last-updated-says-when",
        kind: Kind::Always,
        about: "the document, and each new record in it, has the time at which its writer decided, by the clock of that",
        reference: Some("B §1.2"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::LastUpdatedSaysWhen)),
    },
    ClaimDef {
        name: "records-say-whose-they-are",
        kind: Kind::Always,
        about: "a new record has the name of its writer's node, and the pod and namespace of its sandbox",
        reference: Some("B §1.2, B §4.1"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::RecordsSayWhoseTheyAre::default())),
    },
    ClaimDef {
        name: "other-data-of-the-config-map-stays",
        kind: Kind::Always,
        about: "a write of the pool changes nothing in its ConfigMap but the document",
        reference: Some("B §1.1"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::OtherDataOfTheConfigMapStays)),
    },
    ClaimDef {
        name: "acknowledged-records-persist",
        kind: Kind::Always,
        about: "an acknowledged allocation stays recorded until its release begins, and what was released does not come back",
        reference: Some("B I6"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::AcknowledgedRecordsPersist)),
    },
    ClaimDef {
        name: "asking-again-changes-nothing",
        kind: Kind::Always,
        about: "a repeated call for an ID that holds an address gets the same address and writes nothing",
        reference: Some("B I7"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::AskingAgainChangesNothing::default())),
    },
    ClaimDef {
        name: "releases-touch-nobody-else",
        kind: Kind::Always,
        about: "no record is removed and no VM boots while its sandbox lives and no release of it has begun",
        reference: Some("B I8"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::ReleasesTouchNobodyElse)),
    },
    ClaimDef {
        name: "no-record-is-left-behind",
        kind: Kind::Eventually,
        about: "every record belongs to a live sandbox or a PeerPod that keeps its finalizer, and is not being deleted or cannot be",
        reference: Some("B I9"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::NoRecordIsLeftBehind)),
    },
    ClaimDef {
        name: "recovery-keeps-records",
        kind: Kind::Always,
        about: "a process that recovers removes and alters no record of a live sandbox",
        reference: Some("B I10"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::RecoveryKeepsRecords)),
    },
    ClaimDef {
        name: "recovery-lists-what-is-configured",
        kind: Kind::Always,
        about: "after an undisturbed recovery the list is the configured addresses without the recorded ones, in order",
        reference: Some("B I11"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::RecoveryListsWhatIsConfigured::default())),
    },
    ClaimDef {
        name: "addresses-that-left-are-drained",
        kind: Kind::Always,
        about: "an address that is no longer configured in any process is not granted once another process has recovered",
        reference: Some("B I12"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::AddressesThatLeftAreDrained::default())),
    },
    ClaimDef {
        name: "vms-are-clean-when-given",
        kind: Kind::Always,
        about: "no VM is handed out that has the user data of another allocation or is about to boot",
        reference: Some("B I13"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::VmsAreCleanWhenGiven)),
    },
    ClaimDef {
        name: "desired-pods-run",
        kind: Kind::Eventually,
        about: "as many desired pods run as there are VMs that answer; without pods, each call gets an address if there is one",
        reference: Some("B I14"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::DesiredPodsRun)),
    },
    ClaimDef {
        name: "conflicts-are-retried",
        kind: Kind::Always,
        about: "no allocation or release fails because all of its writes met conflicts",
        reference: Some("B I14"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::ConflictsAreRetried)),
    },
    ClaimDef {
        name: "refused-requests-wait",
        kind: Kind::Always,
        about: "a process whose request the API server refuses waits before it retries, and does not retry where that cannot help",
        reference: Some("B §2.5"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::RefusedRequestsWait)),
    },
    ClaimDef {
        name: "free-vms-are-found",
        kind: Kind::Always,
        about: "no call is refused because a VM does not answer while another VM that answers is available",
        reference: Some("B I14"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::FreeVmsAreFound)),
    },
    ClaimDef {
        name: "addresses-are-selected-by-hash",
        kind: Kind::Always,
        about: "the address that an ID gets is determined by the list and the hash of the ID",
        reference: Some("B I15"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::AddressesAreSelectedByHash::default())),
    },
    ClaimDef {
        name: "pool-operations-end-in-time",
        kind: Kind::Always,
        about: "an allocation or a release ends within 30 s by the clock of its process",
        reference: Some("B I16"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::PoolOperationsEndInTime::default())),
    },
    ClaimDef {
        name: "same-config-same-pool",
        kind: Kind::Always,
        about: "processes with the same setting derive the same set of addresses from it",
        reference: Some("B I17"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::SameConfigSamePool)),
    },
    ClaimDef {
        name: "pool-writers-conflict",
        kind: Kind::Sometimes,
        about: "a process's write of the pool is refused because the pool changed since it was read",
        reference: Some("B L2"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::Coverage::PoolWritersConflict)),
    },
    ClaimDef {
        name: "a-create-race-happens",
        kind: Kind::Sometimes,
        about: "a process loses the race to create the ConfigMap of the pool",
        reference: Some("B W2"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::Coverage::ACreateRaceHappens)),
    },
    ClaimDef {
        name: "a-vm-refuses",
        kind: Kind::Reachable,
        about: "a VM does not boot because it serves another allocation",
        reference: Some("B W8"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::Coverage::AVmRefuses)),
    },
    ClaimDef {
        name: "a-leak-is-reclaimed",
        kind: Kind::Reachable,
        about: "a record without a live owner is released",
        reference: Some("B W5"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::Coverage::ALeakIsReclaimed)),
    },
    ClaimDef {
        name: "a-successor-releases",
        kind: Kind::Reachable,
        about: "the pool is full, and the next sandbox of a pod has the previous one released",
        reference: Some("B W14"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::Coverage::ASuccessorReleases)),
    },
    ClaimDef {
        name: "a-document-is-rebuilt",
        kind: Kind::Reachable,
        about: "the ConfigMap of the pool is deleted, and a process recreates it",
        reference: Some("B W19"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::ADocumentIsRebuilt::default())),
    },
    ClaimDef {
        name: "allocate-is-idempotent",
        kind: Kind::Reachable,
        about: "a call for an ID that has an address is answered without a write",
        reference: Some("B I7"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::Coverage::AllocateIsIdempotent)),
    },
    ClaimDef {
        name: "a-dead-vm-is-skipped",
        kind: Kind::Reachable,
        about: "an allocation succeeds after more than one VM was tried, while one does not answer",
        reference: Some("B W15"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::Coverage::ADeadVmIsSkipped)),
    },
];

#[cfg(test)]
mod tests {
    use sim_harness::check::ClaimName;

    use super::{CLAIMS, RENAMED};

    #[test]
    fn former_names_of_claims_are_read_as_the_present_ones() {
        for &(former, present) in RENAMED {
            assert!(CLAIMS.iter().all(|claim| claim.name != former), "{former}");
            let name = ClaimName::new(former).expect("the former name is known");
            assert_eq!((name.as_str(), name.known().name), (present, present));
        }
    }
}
