//! The custom resources of Spiderpool (A §1).

use ipam_core::spiderpool::{SpiderEndpoint, SpiderIPPool, SpiderReservedIP, SpiderSubnet};

use super::{Stored, TypeDef};

/// The bytes of a list of texts.
fn texts(list: Option<&Vec<String>>) -> usize {
    list.into_iter().flatten().map(String::len).sum()
}

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

    fn size(&self) -> usize {
        let records = self.status.as_ref().map_or(0, |status| status.allocated_ips.text_len());
        records + texts(self.spec.ips.as_ref()) + texts(self.spec.exclude_ips.as_ref())
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

    fn size(&self) -> usize {
        let records = self.status.as_ref().map_or(0, |status| status.controlled_ippools.text_len());
        records + texts(self.spec.ips.as_ref()) + texts(self.spec.exclude_ips.as_ref())
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
