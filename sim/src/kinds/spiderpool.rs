//! The custom resources of Spiderpool (A §1).

use ipam_core::spiderpool::{SpiderEndpoint, SpiderIPPool, SpiderReservedIP, SpiderSubnet};

use super::{Stored, TypeDef};

/// The registrations of Spiderpool's types.
pub fn spiderpool() -> Vec<TypeDef> {
    vec![TypeDef::of::<SpiderSubnet>(), TypeDef::of::<SpiderIPPool>(), TypeDef::of::<SpiderReservedIP>(), TypeDef::of::<SpiderEndpoint>()]
}

impl Stored for SpiderIPPool {
    const NAMESPACED: bool = false;
    const UNCONDITIONAL_UPDATE: bool = false;
    const CUSTOM: bool = true;
    const HAS_STATUS: bool = true;

    fn copy_status(&mut self, other: &Self) {
        self.status.clone_from(&other.status);
    }

    fn reset_status(&mut self) {
        self.status = None;
    }

    fn spec_differs(&self, other: &Self) -> bool {
        self.spec != other.spec
    }
}

impl Stored for SpiderSubnet {
    const NAMESPACED: bool = false;
    const UNCONDITIONAL_UPDATE: bool = false;
    const CUSTOM: bool = true;
    const HAS_STATUS: bool = true;

    fn copy_status(&mut self, other: &Self) {
        self.status.clone_from(&other.status);
    }

    fn reset_status(&mut self) {
        self.status = None;
    }

    fn spec_differs(&self, other: &Self) -> bool {
        self.spec != other.spec
    }
}

impl Stored for SpiderReservedIP {
    const NAMESPACED: bool = false;
    const UNCONDITIONAL_UPDATE: bool = false;
    const CUSTOM: bool = true;

    fn spec_differs(&self, other: &Self) -> bool {
        self.spec != other.spec
    }
}

/// Without a status subresource the status is an ordinary field, and a change of it counts as a new generation.
impl Stored for SpiderEndpoint {
    const UNCONDITIONAL_UPDATE: bool = false;
    const CUSTOM: bool = true;

    fn spec_differs(&self, other: &Self) -> bool {
        self.status != other.status
    }
}
