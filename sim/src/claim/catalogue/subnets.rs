//! Claims about subnets, the pools that are cut from them, and admission.

use ipam_reports::finding::Kind;

use super::super::Make::Ipam;
use super::super::{ClaimDef, spiderpool};

/// The claims, in the order in which they are listed.
pub(super) const CLAIMS: &[ClaimDef] = &[
    ClaimDef {
        name: "no-address-is-served-from-the-younger-pool",
        kind: Kind::Always,
        about: "no agent gives away an address of a pool that another pool had before it and has still",
        reference: Some("A S12"),
        make: Ipam(|| Box::new(spiderpool::OlderPoolServes)),
    },
    ClaimDef {
        name: "auto-pools-stay-within-what-is-set-aside",
        kind: Kind::Always,
        about: "after each write of either, an auto pool is a part of what its subnet sets aside for it",
        reference: Some("A S13"),
        make: Ipam(|| Box::new(spiderpool::PoolsWithinShares)),
    },
    ClaimDef {
        name: "no-address-is-set-aside-twice",
        kind: Kind::Always,
        about: "no write of a subnet sets an address aside for two pools",
        reference: Some("A S13"),
        make: Ipam(|| Box::new(spiderpool::SetAsideOnce)),
    },
    ClaimDef {
        name: "what-is-set-aside-is-of-the-subnet",
        kind: Kind::Always,
        about: "no write of a subnet leaves an address set aside that it does not have",
        reference: Some("A S13"),
        make: Ipam(|| Box::new(spiderpool::WithinSubnet)),
    },
    ClaimDef {
        name: "subnets-outlive-their-pools",
        kind: Kind::Always,
        about: "no subnet vanishes while a pool that was cut from it is there",
        reference: Some("A §8.1"),
        make: Ipam(|| Box::new(spiderpool::PoolsGoBeforeSubnets::default())),
    },
    ClaimDef {
        name: "nics-have-one-record-of-a-family",
        kind: Kind::Always,
        about: "no agent records an address for a NIC that has one of the same family already",
        reference: Some("A S15"),
        make: Ipam(|| Box::new(spiderpool::OneRecord)),
    },
    ClaimDef {
        name: "workloads-have-one-pool-for-a-nic",
        kind: Kind::Always,
        about: "no workload has two pools of one subnet for one NIC and family, unless one is being deleted",
        reference: Some("A W21"),
        make: Ipam(|| Box::new(spiderpool::OneAutoPool)),
    },
    ClaimDef {
        name: "gateways-are-not-given",
        kind: Kind::Always,
        about: "no agent gives away the gateway of a pool or of its subnet",
        reference: Some("A §9.1"),
        make: Ipam(|| Box::new(spiderpool::NoGateway)),
    },
    ClaimDef {
        name: "wanted-pools-are-not-reclaimed",
        kind: Kind::Always,
        about: "no replica of the controller deletes an auto pool that its workload asks for",
        reference: Some("A §8.6"),
        make: Ipam(|| Box::new(spiderpool::WantedPoolsStay)),
    },
    ClaimDef {
        name: "annotations-of-others-stay",
        kind: Kind::Always,
        about: "neither the controller nor an agent removes an annotation of somebody else from an auto pool",
        reference: Some("A §8.2"),
        make: Ipam(|| Box::new(spiderpool::AnnotationsStay)),
    },
    ClaimDef {
        name: "workloads-get-the-pools-they-ask-for",
        kind: Kind::Eventually,
        about: "every workload that asks for a pool of a subnet with room has it, of the size that it is to have",
        reference: Some("A L5"),
        make: Ipam(|| Box::new(spiderpool::ApplicationsGetPools)),
    },
    ClaimDef {
        name: "auto-pools-are-what-is-set-aside",
        kind: Kind::Eventually,
        about: "every auto pool has exactly what its subnet sets aside for it",
        reference: Some("A S13"),
        make: Ipam(|| Box::new(spiderpool::PoolsAreTheirShares)),
    },
    ClaimDef {
        name: "pools-that-nobody-asks-for-disappear",
        kind: Kind::Eventually,
        about: "no auto pool is left whose workload is gone or does not ask for it any more",
        reference: Some("A L6"),
        make: Ipam(|| Box::new(spiderpool::UnwantedPoolsGo)),
    },
    ClaimDef {
        name: "subnet-addresses-are-accounted-for",
        kind: Kind::Eventually,
        about: "each address of a subnet is free, or set aside for one pool that is there, and the counts say so",
        reference: Some("A L6"),
        make: Ipam(|| Box::new(spiderpool::SubnetsAreAccountedFor)),
    },
    ClaimDef {
        name: "an-auto-pool-is-made",
        kind: Kind::Sometimes,
        about: "a pool is made for a workload",
        reference: Some("A §8.4"),
        make: Ipam(|| Box::new(spiderpool::SubnetSight::Made)),
    },
    ClaimDef {
        name: "an-auto-pool-grows",
        kind: Kind::Sometimes,
        about: "a pool of a workload is given more addresses",
        reference: Some("A §8.4"),
        make: Ipam(|| Box::new(spiderpool::SubnetSight::Grows)),
    },
    ClaimDef {
        name: "an-auto-pool-shrinks",
        kind: Kind::Sometimes,
        about: "a pool of a workload gives back addresses",
        reference: Some("A §8.4"),
        make: Ipam(|| Box::new(spiderpool::SubnetSight::Shrinks)),
    },
    ClaimDef {
        name: "an-auto-pool-is-reclaimed",
        kind: Kind::Sometimes,
        about: "the controller deletes a pool of a workload",
        reference: Some("A §8.6"),
        make: Ipam(|| Box::new(spiderpool::SubnetSight::Reclaimed)),
    },
    ClaimDef {
        name: "a-pool-is-refused",
        kind: Kind::Sometimes,
        about: "a pool may not be as somebody wants it",
        reference: Some("A §9.1"),
        make: Ipam(|| Box::new(spiderpool::SubnetSight::Refused)),
    },
    ClaimDef {
        name: "pools-overlap",
        kind: Kind::Sometimes,
        about: "two pools share an address",
        reference: Some("A W18"),
        make: Ipam(|| Box::new(spiderpool::SubnetSight::Overlap)),
    },
    ClaimDef {
        name: "agents-and-the-controller-write-one-pool",
        kind: Kind::Sometimes,
        about: "an agent and a replica of the controller write the same auto pool",
        reference: Some("A W21"),
        make: Ipam(|| Box::new(spiderpool::BothWrite::default())),
    },
];
