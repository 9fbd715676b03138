//! The rows of the decision tables of G §3: the reasons for actions and for their absence.

/// Makes [`Row`] from a table of name, public code and sentence.
macro_rules! rows {
    ($($name:ident $code:literal $sentence:literal;)*) => {
        /// The row of a decision table that decided.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Row {
            $(#[doc = concat!("`", $code, "`: ", $sentence, ".")] $name,)*
        }

        impl Row {
            /// Every row, in the order of the tables, followed by those added later.
            pub const ALL: &'static [Row] = &[$(Row::$name),*];

            /// The public name: that of the reference if it has one.
            pub fn code(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)*
                }
            }

            /// Its meaning, as a fragment of a sentence.
            pub fn sentence(self) -> &'static str {
                match self {
                    $(Self::$name => $sentence,)*
                }
            }
        }
    };
}

rows! {
    NotLeading "I-0" "this replica does not lead";
    Tombstone "I-1" "the deletion was missed, and upstream crashes when it learns of it later";
    HostNetwork "I-2" "the pod has no addresses of its own";
    SetUnreadable "I-3" "the StatefulSet of the pod cannot be read";
    SetKeeps "I-4" "the StatefulSet of the pod keeps the addresses";
    VmUnreadable "I-5e" "the VM of the pod cannot be read";
    VmKeeps "I-5v" "the VM of the pod keeps the addresses";
    Deleted "I-6" "the pod is gone";
    DeletedInGrace "I-6g" "the pod is gone before its grace was over, so that its containers may still run";
    StaticIgnored "I-4d" "pods of StatefulSets and VMs are never traced";
    NothingNew "I-9" "nothing about the pod ends its entitlement to its addresses";
    Terminating "I-11" "the pod is terminating";
    TerminatingNodeUnknown "I-11e" "the pod is terminating, and its node cannot be read";
    TerminatingNodeOff "I-11off" "the pod is terminating on a node whose pods are left alone";
    TerminatingNoGrace "I-11nil" "the pod is terminating and does not say with which grace";
    Ended "I-12" "the pod has ended";
    EndedNodeUnknown "I-12e" "the pod has ended, and its node cannot be read";
    EndedNodeOff "I-12off" "the pod has ended on a node whose pods are left alone";
    EndedNoFinish "I-12nofinish" "the pod has ended and does not say when";
    EndedNoGrace "I-12nil" "the pod has ended and does not say with which grace";
    NilGrace "I-crash" "a pod without terminationGracePeriodSeconds is compared with another, and upstream crashes";

    BadKey "S-0" "the record is not under the name of a pod";
    PodUnreadable "S-1" "the pod cannot be read";
    EndpointUnreadable "S-2" "there is no pod, and the endpoint cannot be read";
    NoPodNoEndpoint "S-3" "there is neither pod nor endpoint";
    NameKept "S-3v" "there is neither pod nor endpoint, but a StatefulSet or a VM of this name keeps the addresses";
    NameUnreadable "S-3e" "there is neither pod nor endpoint, and it cannot be read whether a StatefulSet or a VM keeps the addresses";
    SetOfEndpointGone "S-4i" "there is no pod, and its StatefulSet does not want one of this name";
    SetOfEndpointKeeps "S-4v" "there is no pod, and its StatefulSet keeps the addresses for the next";
    SetOfEndpointUnreadable "S-4e" "there is no pod, and its StatefulSet cannot be read";
    PlaceInEndingPool "S-4p" "there is no pod, and its auto pool is being deleted: its StatefulSet's next pod is given another address";
    VmOfEndpointGone "S-5i" "there is no pod, and its VM is gone";
    VmOfEndpointKeeps "S-5v" "the VM keeps the addresses for its next pod";
    VmOfEndpointUnreadable "S-5e" "the VM cannot be read";
    NoPod "S-6" "there is no pod";
    NodeUnreadable "S-7" "the node of the pod cannot be read";
    MayStillRun "S-8" "the pod is gone before its grace was over, so that its containers may still run";
    MarkedForRelease "S-9" "the endpoint is marked: a release was decided, and is finished";

    EndedKept "P-1" "the pod has ended, and its StatefulSet or VM keeps the addresses";
    EndedNotKept "P-1b" "the pod has ended, and nothing keeps its addresses";
    EndedUnreadable "P-1c" "the pod has ended, and its StatefulSet or VM cannot be read";
    EndedLeft "P-2" "the pod has ended, and is left to tracing";
    EndedOver "P-2d" "the pod has ended, and its grace after that is over";
    EndedWithin "P-2t" "the pod has ended, and its grace after that is not over yet";
    Pending "P-4" "the pod is Pending";
    Lives "P-6" "the pod lives and has addresses";
    NoIpsNotKept "P-7i" "the pod has no address, and nothing keeps those it had";
    NoIpsKept "P-7v" "the pod has no address, and its StatefulSet or VM keeps those it had";
    NoIpsUnreadable "P-7e" "the pod has no address, and its StatefulSet or VM cannot be read";
    RunningNoIpsOn "P-8on" "the pod runs without an address, and a setting says that this ends its entitlement";
    RunningNoIpsOff "P-8off" "the pod runs without an address, as after a reboot of its node";
    NoIps "P-9" "the pod neither runs nor has addresses";
    NoIpsLives "P-9k" "the pod has no address, and nothing says that it has ended";
    GraceOver "G-over" "the pod is terminating, and its grace is over";
    GraceOverOff "G-over-off" "the pod's grace is over, and its node is one whose pods are left alone";
    GraceOverStatic "G-over-static" "the pod's grace is over, and pods of StatefulSets and VMs are left alone";
    GraceOverKept "G-over-kept" "the pod's grace is over, and its StatefulSet or VM keeps the addresses";
    GraceOverUnreadable "G-over-e" "the pod's grace is over, and its StatefulSet or VM cannot be read";
    GraceNodeUnknown "G-over-node" "the pod's grace is over, and its node cannot be read";
    GraceReturned "G-over-back" "the pod's grace is over, and its node came back too late for that: its kubelet has the grace once more";
    GraceWithin "G-trace" "the pod is terminating, and its grace is not over yet";
    GraceNoIps "G-inside-empty" "the pod is terminating and has no address";
    NilDeletionGrace "G-crash" "a terminating pod does not say with which grace, and upstream crashes";

    OtherPodServes "U-1" "a later pod of the StatefulSet or VM has other addresses";
    OtherPodNotKept "U-2i" "a later pod has the name, and nothing keeps the addresses";
    OtherPodInherits "U-2v" "a later pod of the StatefulSet or VM is to inherit the addresses";
    OtherPodUnreadable "U-2e" "a later pod has the name, and its StatefulSet or VM cannot be read";
    OtherPod "U-3" "another pod has the name now";
    InUse "U-3u" "the pod that has the name now answers on the address";
    HalfWritten "U-5" "the endpoint of the pod does not name the address";

    EndpointOfStaticPredecessor "E-2" "the endpoint is that of a predecessor of the pod";
    EndpointNotKept "E-3i" "the endpoint is that of a predecessor, and nothing keeps its addresses";
    EndpointInherited "E-3v" "the endpoint is that of a predecessor, for the pod to inherit";
    EndpointOwnerUnreadable "E-3e" "the endpoint is that of a predecessor, and the StatefulSet or VM cannot be read";
    EndpointOfOther "E-4" "the endpoint is that of another pod";
    EndpointGoes "E-5" "the endpoint goes with the pod's addresses";

    SweepOrphan "C8" "no record leads to the endpoint, and one of its pools has none for it";

    NotDue "TD-1" "the deadline has not passed";
    TracePodUnreadable "TD-2" "the pod cannot be read";
    TraceDue "TD-3" "the deadline has passed";
    TraceNoIps "TD-4" "the deadline has passed, and the pod has no address";
    TraceNodeOff "TD-5" "the deadline has passed, and the pod's node is one whose pods are left alone, or cannot be read";
    NoEndpoint "XD-1" "there is no endpoint under the name of the pod";
    ExecutorUnreadable "XD-2" "the endpoint cannot be read";
    EndpointOfAnother "XD-3" "the endpoint is that of another pod";
    EndpointMatches "XD-4" "the endpoint is that of the pod";

    // The number of a row goes into digests: a new row comes last.
    NoAddress "S-0a" "the record is under a key that is no address, and holds none";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_distinct_and_sentences_are_fragments() {
        let codes: BTreeSet<_> = Row::ALL.iter().map(|row| row.code()).collect();
        assert_eq!(codes.len(), Row::ALL.len());
        for row in Row::ALL {
            assert!(!row.sentence().ends_with('.') && row.sentence().starts_with(char::is_lowercase), "{row:?}");
        }
    }
}
