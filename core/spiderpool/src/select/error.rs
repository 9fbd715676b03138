//! The reasons why no pool was selected.

use super::reason::Reason;
use crate::names;
use crate::ranges::IpVersion;

/// The reason why an ADD ends before it asks a pool for an address. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// The pod is not alive (A §7.2).
    #[error("the pod is dead")]
    DeadPod,
    /// An owner of the pod is not known (yet).
    #[error("{kind} {name} that controls the pod is not known")]
    MissingOwner {
        /// The kind of the owner, as the reference to it says.
        kind: String,
        /// The name of the owner, in the namespace of the pod.
        name: String,
    },
    /// The annotation `routes` is not valid JSON of the expected form.
    #[error("wrong input, invalid format of Pod annotation ipam.spidernet.io/routes: {why}")]
    MalformedRoutes {
        /// The message of the decoder.
        why: String,
    },
    /// A route in the annotation `routes` is invalid.
    #[error("wrong input, invalid route in Pod annotation ipam.spidernet.io/routes: dst {dst:?}, gw {gw:?}")]
    InvalidRoute {
        /// The destination as written; valid = a CIDR.
        dst: String,
        /// The gateway as written; valid = an address of the same family.
        gw: String,
    },
    /// An annotation that names pools or subnets is not valid JSON of the expected form.
    #[error("wrong input, invalid format of annotation {annotation}: {why}")]
    MalformedAnnotation {
        /// The key of the annotation, of the pod or of its namespace.
        annotation: &'static str,
        /// The message of the decoder.
        why: String,
    },
    /// `ippools` without an item.
    #[error("wrong input, Pod annotation ipam.spidernet.io/ippools has no item")]
    EmptyIPPools,
    /// `ippools` with and without `interface`.
    #[error("wrong input, Pod annotation ipam.spidernet.io/ippools names the interface of some items only")]
    MixedInterfaces,
    /// `ippools` with an interface twice.
    #[error("wrong input, Pod annotation ipam.spidernet.io/ippools has interface {interface} twice")]
    DuplicateInterface {
        /// The interface that two items name.
        interface: String,
    },
    /// `ippools` without the NIC of the request.
    #[error("wrong input, Pod annotation ipam.spidernet.io/ippools: interface {interface} must be specified")]
    InterfaceNotListed {
        /// The NIC of the ADD.
        interface: String,
    },
    /// A pattern that is invalid.
    #[error("wrong input, {pattern:?} is no pattern for names of pools")]
    BadWildcard {
        /// The pattern, as written.
        pattern: String,
    },
    /// The namespace of the pod is not known.
    #[error("namespace {name} is not known")]
    MissingNamespace {
        /// The namespace, as the pod names it.
        name: String,
    },
    /// No tier names a pool.
    #[error("no IPPool available: no pool selection rules of any type are specified")]
    NoPool,
    /// The tier that fired leaves a NIC, or a family that it names patterns for, without any pool. Hardened form only: upstream continues
    /// and answers without an address.
    #[error("no IPPool available: {}", without_candidate(nic, what))]
    NoCandidate {
        /// The name of the NIC; in nameless mode its index.
        nic: String,
        /// The family, or `no family`.
        what: &'static str,
    },
    /// A pool is named twice for one NIC.
    #[error("wrong input, duplicate {family} IPPool {pool}")]
    DuplicatePool {
        /// The family that it is named for.
        family: IpVersion,
        /// The name that occurs twice, written or by a pattern.
        pool: String,
    },
    /// A pool does not exist.
    #[error("{family} IPPool {} is not known", called(pool))]
    MissingPool {
        /// The family that it is named for.
        family: IpVersion,
        /// The name as written; it may be empty.
        pool: String,
    },
    /// No pool is left for a NIC and family.
    #[error("no IPPool available, all {family} IPPools of {nic} filtered out: {reasons}")]
    AllFiltered {
        /// The name of the NIC; in nameless mode its index. The first NIC without a pool.
        nic: String,
        /// The first family of that NIC without a pool.
        family: IpVersion,
        /// The pools with the reasons.
        reasons: Rejections,
    },
    /// A subnet annotation while auto pools are disabled.
    #[error("the subnet annotation is invalid while Auto-Pool is disabled")]
    SubnetAutoPoolDisabled,
    /// An invalid subnet annotation (A §2.2).
    #[error("invalid annotation {annotation}: {why}")]
    SubnetInvalid {
        /// The key of the annotation: `subnets` or `subnet` of the pod.
        annotation: &'static str,
        /// The problem with its items, human-readable.
        why: &'static str,
    },
    /// `ippool-ip-number` is no number.
    #[error("invalid annotation ipam.spidernet.io/ippool-ip-number: {text:?}")]
    SubnetBadIpNumber {
        /// The value of the annotation, as written.
        text: String,
    },
    /// `ippool-reclaim` is neither true nor false.
    #[error("invalid annotation ipam.spidernet.io/ippool-reclaim: {text:?}")]
    SubnetBadReclaim {
        /// The value of the annotation, as written.
        text: String,
    },
    /// A subnet annotation on a pod without a controller.
    #[error("a pod without a controller cannot use the subnet annotation")]
    SubnetOrphanPod,
    /// The number of pods is unknown for this kind of controller, so the annotation must give the size.
    #[error("{kind} needs a number in annotation ipam.spidernet.io/ippool-ip-number")]
    SubnetNeedsFixedNumber {
        /// The kind of the controller.
        kind: String,
    },
    /// The auto pool does not exist (yet).
    #[error("no {family} auto-created IPPool of subnet {subnet} matches")]
    SubnetNoAutoPool {
        /// The name of the subnet, as the annotation says.
        subnet: String,
        /// The family of the pool that is missing.
        family: IpVersion,
    },
    /// More than one auto pool.
    #[error("more than one {family} auto-created IPPool of subnet {subnet} matches")]
    SubnetManyAutoPools {
        /// The name of the subnet, as the annotation says.
        subnet: String,
        /// The family that several pools are of.
        family: IpVersion,
    },
    /// A third-party controller's auto pool is not as desired, and the caller has to reconcile it first (A §8.4).
    #[error("the {family} auto-created IPPool of subnet {subnet} is not ready")]
    SubnetReconcileFailed {
        /// The name of the subnet, as the annotation says.
        subnet: String,
        /// The family of the pool that is missing, or of another size or subnet.
        family: IpVersion,
    },
}

impl SelectError {
    /// The invalid annotation of the pod or its namespace; `None` if the error is another one.
    pub fn annotation(&self) -> Option<&'static str> {
        match self {
            Self::MalformedAnnotation { annotation, .. } | Self::SubnetInvalid { annotation, .. } => Some(annotation),
            Self::MalformedRoutes { .. } | Self::InvalidRoute { .. } => Some(names::ANNOTATION_ROUTES),
            Self::EmptyIPPools | Self::MixedInterfaces | Self::DuplicateInterface { .. } | Self::InterfaceNotListed { .. } => {
                Some(names::ANNOTATION_IPPOOLS)
            }
            Self::SubnetBadIpNumber { .. } => Some(names::ANNOTATION_IPPOOL_IP_NUMBER),
            Self::SubnetBadReclaim { .. } => Some(names::ANNOTATION_IPPOOL_RECLAIM),
            _ => None,
        }
    }

    /// The public name of the class.
    pub fn class(&self) -> &'static str {
        match self {
            Self::DeadPod => "dead-pod",
            Self::MissingOwner { .. } => "missing-owner",
            Self::MalformedRoutes { .. } => "malformed-routes",
            Self::InvalidRoute { .. } => "invalid-route",
            Self::MalformedAnnotation { .. } => "malformed-annotation",
            Self::EmptyIPPools => "empty-ippools",
            Self::MixedInterfaces => "mixed-interfaces",
            Self::DuplicateInterface { .. } => "duplicate-interface",
            Self::InterfaceNotListed { .. } => "interface-not-listed",
            Self::BadWildcard { .. } => "bad-wildcard",
            Self::MissingNamespace { .. } => "missing-namespace",
            Self::NoPool => "no-pool",
            Self::NoCandidate { .. } => "no-candidate",
            Self::DuplicatePool { .. } => "duplicate-pool",
            Self::MissingPool { .. } => "missing-pool",
            Self::AllFiltered { .. } => "all-filtered",
            Self::SubnetAutoPoolDisabled => "subnet-auto-pool-disabled",
            Self::SubnetInvalid { .. } => "subnet-invalid",
            Self::SubnetBadIpNumber { .. } => "subnet-bad-ip-number",
            Self::SubnetBadReclaim { .. } => "subnet-bad-reclaim",
            Self::SubnetOrphanPod => "subnet-orphan-pod",
            Self::SubnetNeedsFixedNumber { .. } => "subnet-needs-fixed-number",
            Self::SubnetNoAutoPool { .. } => "subnet-no-auto-pool",
            Self::SubnetManyAutoPools { .. } => "subnet-many-auto-pools",
            Self::SubnetReconcileFailed { .. } => "subnet-reconcile-failed",
        }
    }
}

/// Names the NIC or family that is left without any pool.
fn without_candidate(nic: &str, what: &str) -> String {
    match what {
        "no family" => format!("no family of interface {nic} has a candidate"),
        family => format!("{family} of interface {nic} has no candidate"),
    }
}

/// A visible form of a name, even of an empty one.
fn called(name: &str) -> &str {
    if name.is_empty() { "\"\"" } else { name }
}

/// Rejected pools with the reasons, as a human-readable list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rejections(pub Vec<(String, Reason)>);

impl std::fmt::Display for Rejections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (pool, reason)) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            write!(f, "{separator}{pool} ({})", reason.sentence())?;
        }
        Ok(())
    }
}
