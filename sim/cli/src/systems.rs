//! The systems under test that this program brings.

use sim_harness::system::System;

/// All systems. Their types are served in this order: the numbers of types enter digests.
pub const ALL: &[&dyn System] = &[&sim_spiderpool::Spiderpool, &sim_byom::Byom, &sim_counter::Counter];

/// Registers all systems, under the name of this build.
pub fn install() {
    sim_harness::system::install(ALL, env!("IPAM_SIM_BUILD"));
}
