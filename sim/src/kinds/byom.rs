//! Types of the peer-pods project.

use ipam_core::byom::PeerPod;

use super::{Stored, TypeDef};

/// The registrations of the types around a BYOM pool.
pub fn byom() -> Vec<TypeDef> {
    vec![TypeDef::of::<PeerPod>()]
}

impl Stored for PeerPod {
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
