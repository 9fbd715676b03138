//! The systems under test that this program brings.

pub mod byom;
pub mod counter;
pub mod spiderpool;

use crate::system::System;

/// All of them. Their types are served in this order: the numbers of types enter digests.
pub const ALL: &[&dyn System] = &[&spiderpool::Spiderpool, &byom::Byom, &counter::Counter];
