//! The reasons why a named pool cannot serve (A §3).

use std::fmt;

/// The first rule of A §3 that a candidate fails, in the order of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// There is no such pool.
    Missing,
    /// The pool is being deleted.
    Terminating,
    /// The pool has `spec.disable: true`, and allocates no address.
    Disabled,
    /// The pool is of the other family, or of none.
    IpVersion,
    /// The node is not in `spec.nodeName`.
    NodeName,
    /// `spec.nodeAffinity` does not select the node, is invalid, or the node is not known.
    NodeAffinity,
    /// The namespace is not in `spec.namespaceName`.
    NamespaceName,
    /// `spec.namespaceAffinity` does not select the namespace, is invalid, or the namespace is not known.
    NamespaceAffinity,
    /// `spec.podAffinity` does not select the pod, or is invalid; an auto pool of another workload.
    PodAffinity,
    /// The Multus network of the NIC cannot be determined.
    MultusNetwork,
    /// The Multus network of the NIC is not in `spec.multusName`.
    MultusName,
    /// The subnet holds no address of the NIC's physical function (`match_master_subnet`).
    MasterSubnet,
    /// All addresses are in `spec.excludeIPs`.
    Excluded,
    /// All other addresses are reserved.
    Reserved,
    /// No address is free, or the pool has its maximum number of records.
    Exhausted,
}

impl Reason {
    /// All of them, in the order of the rules.
    pub const ALL: [Self; 15] = [
        Self::Missing,
        Self::Terminating,
        Self::Disabled,
        Self::IpVersion,
        Self::NodeName,
        Self::NodeAffinity,
        Self::NamespaceName,
        Self::NamespaceAffinity,
        Self::PodAffinity,
        Self::MultusNetwork,
        Self::MultusName,
        Self::MasterSubnet,
        Self::Excluded,
        Self::Reserved,
        Self::Exhausted,
    ];

    /// The public name, in kebab-case, as [`Display`](fmt::Display) writes it.
    pub fn code(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Terminating => "terminating",
            Self::Disabled => "disabled",
            Self::IpVersion => "ip-version",
            Self::NodeName => "node-name",
            Self::NodeAffinity => "node-affinity",
            Self::NamespaceName => "namespace-name",
            Self::NamespaceAffinity => "namespace-affinity",
            Self::PodAffinity => "pod-affinity",
            Self::MultusNetwork => "multus-network",
            Self::MultusName => "multus-name",
            Self::MasterSubnet => "master-subnet",
            Self::Excluded => "excluded",
            Self::Reserved => "reserved",
            Self::Exhausted => "exhausted",
        }
    }

    /// A human-readable sentence that states the reason.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Missing => "no such pool",
            Self::Terminating => "the pool is being deleted",
            Self::Disabled => "the pool is disabled",
            Self::IpVersion => "the pool is of another IP version",
            Self::NodeName => "the pod's node is not in nodeName",
            Self::NodeAffinity => "nodeAffinity does not select the pod's node",
            Self::NamespaceName => "the pod's namespace is not in namespaceName",
            Self::NamespaceAffinity => "namespaceAffinity does not select the pod's namespace",
            Self::PodAffinity => "podAffinity does not select the pod",
            Self::MultusNetwork => "the Multus network of the NIC is not known",
            Self::MultusName => "the Multus network of the NIC is not in multusName",
            Self::MasterSubnet => "the subnet holds no address of the NIC's physical function",
            Self::Excluded => "all addresses are excluded",
            Self::Reserved => "all addresses are reserved",
            Self::Exhausted => "no address is free",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}
