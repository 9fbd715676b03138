//! The list of mutations and the switches of the policies.

use sim_byom::mutations as pool_rows;
use sim_harness::system::systems;
use sim_spiderpool::mutations::{allocation as spiderpool_rows, reclaim as reclaim_rows};
use std::collections::BTreeSet;

use ipam_byom as byom;
use ipam_spiderpool as spiderpool;

#[test]
fn names_are_unique_and_every_row_is_about_a_switch() {
    let names: BTreeSet<&str> = systems().mutations().iter().map(|deviation| deviation.name).collect();
    assert_eq!(names.len(), systems().mutations().len());
    let of_pool = |name: &str| byom::Policy::hardened().switch(name).is_some();
    let of_spiderpool = |name: &str| spiderpool::Policy::hardened().switch(name).is_some();
    for (name, about) in pool_rows::ABOUT.iter().chain(spiderpool_rows::ABOUT).chain(reclaim_rows::ABOUT) {
        assert!(of_pool(name) || of_spiderpool(name), "{name} is no switch of a policy");
        assert!(systems().mutations().iter().any(|deviation| deviation.name == *name && deviation.about == *about));
    }
    for (name, how) in pool_rows::FOUND_OTHERWISE.iter().chain(spiderpool_rows::FOUND_OTHERWISE).chain(reclaim_rows::FOUND_OTHERWISE) {
        assert!(systems().mutations().iter().any(|deviation| deviation.name == *name && deviation.how == *how), "{name} is no deviation");
    }
}
