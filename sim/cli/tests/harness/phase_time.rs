//! Faults whose times depend on the length of a phase.

use sim_config::Source;
use sim_config::time::{SimTime, Span};
use sim_harness::scenario::Scenario;

#[test]
fn a_fault_goes_with_the_safety_phase_of_its_scenario() {
    let drawn = |safety: &str| {
        let text = format!(
            "name = \"s\"\nwhy = \"w\"\ncheck = {{}}\nphases = {{ safety = \"{safety}\" }}\n[workload]\nkind = \"counter\"\n\
             [[fault]]\nkind = \"pause\"\nprocess = \"client-0\"\nat = \"25%\"\nfor = \"100%\""
        );
        let scenario = Scenario::parse(std::path::Path::new("s.toml"), Source::new("s.toml", &text)).unwrap();
        let plan = scenario.draw(0);
        (plan.fault[0].common.at, plan.fault[0].common.lasts)
    };
    assert_eq!(drawn("40s"), (SimTime::from_secs(10), Some(Span::secs(40))));
    assert_eq!(drawn("4h"), (SimTime::from_secs(3_600), Some(Span::secs(14_400))));
}
