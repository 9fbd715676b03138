//! Registers the systems before any test of the binary runs.

use ctor::ctor;

#[ctor(unsafe)]
fn install() {
    ipam_sim::systems::install();
    kube_sim::testbed::serve(|| ipam_sim::systems::ALL.iter().flat_map(|system| system.types()).collect());
}
