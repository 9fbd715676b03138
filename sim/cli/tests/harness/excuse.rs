//! Excuses that a scenario names.

use sim_config::Source;
use sim_harness::check::excuse::*;
use sim_harness::system::systems;

#[test]
fn an_excuse_that_no_claim_has_is_refused_with_the_nearest() {
    let source = Source::new("s.toml", "excuses = [\"forced-successor\", \"unreachable-node\"]\n");
    let problems = |excuses: &[&str]| problems_of_excuses(source, &excuses.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
    assert!(problems(systems().excuses()).is_empty());
    insta::assert_snapshot!(problems(&["forced-successor", "unreachable-node"]), @"s.toml:1:32: there is no excuse `unreachable-node`; did you mean `unreachable-node-release`?");
}
