//! Claims by suite: the claims that `check.always` brings into a run, and what a sweep of it proves.

use std::collections::BTreeSet;
use std::path::Path;

use ipam_reports::finding::Kind;
use sim_config::Source;
use sim_harness::check::Checks;
use sim_harness::scenario::{self, Scenario};
use sim_harness::system::systems;

fn scenario(check: &str) -> Result<Scenario, String> {
    of_workload("kind = \"counter\"\nclients = 2\nincrements = 3", check)
}

const SPIDERPOOL: &str = "kind = \"spiderpool\"";

fn of_workload(workload: &str, check: &str) -> Result<Scenario, String> {
    let text = format!("name = \"suites\"\nwhy = \"suites\"\nseeds = 20\n[workload]\n{workload}\n[check]\n{check}\n");
    Scenario::parse(Path::new("suites.toml"), Source::new("suites.toml", &text)).map_err(|problems| problems.to_string())
}

fn always(check: &Checks) -> Vec<(&'static str, bool)> {
    check.always_claims().into_iter().map(|(def, required)| (def.name, required)).collect()
}

#[test]
fn a_suite_stands_for_its_invariants_and_a_name_requires_one() {
    let suite = scenario("always = [\"counter/*\", \"no-increment-is-lost\"]\nexcept = []").expect("it is right").check;
    let claims = always(&suite);
    assert!(claims.contains(&("no-increment-is-lost", true)), "{claims:?}");
    assert!(claims.len() > 1 && claims.iter().all(|(name, required)| *required == (*name == "no-increment-is-lost")), "{claims:?}");
    let system = of_workload(SPIDERPOOL, "always = [\"spiderpool/*\"]").expect("it is right").check;
    let reclaim = of_workload(SPIDERPOOL, "always = [\"spiderpool/reclaim/*\"]").expect("it is right").check;
    let [all, some] = [&system, &reclaim].map(|check| always(check).into_iter().map(|(name, _)| name).collect::<BTreeSet<_>>());
    assert!(some.is_subset(&all) && some.len() < all.len(), "{some:?}");
    assert!(some.contains("live-pods-are-not-reclaimed") && !some.contains("counts-equal-records"), "{some:?}");
}

#[test]
fn what_is_excepted_is_not_judged() {
    let check = of_workload(SPIDERPOOL, "always = [\"spiderpool/reclaim/*\"]\nexcept = [\"reclaim-goes-on\"]").expect("it is right").check;
    assert!(always(&check).iter().all(|(name, _)| *name != "reclaim-goes-on"));
}

#[test]
fn patterns_and_exceptions_that_mean_nothing_are_refused_with_their_place() {
    for (check, place, told) in [
        ("always = [\"spiderpol/*\"]", "suites.toml:9:10", "the nearest is `spiderpool/*`"),
        ("always = [\"byom/*\"]", "suites.toml:9:", "the workload is one of `counter`"),
        ("always = [\"counter/*\"]\nexcept = [\"reclaim-goes-on\"]", "suites.toml:10:", "no suite of `check.always` has"),
        ("always = [\"counter/*\", \"no-increment-is-lost\"]\nexcept = [\"no-increment-is-lost\"]", "suites.toml:10:", "one of the two"),
    ] {
        let error = scenario(check).expect_err(check);
        assert!(error.contains(place) && error.contains(told), "{check}: {error}");
    }
}

/// A suite allows a claim to be idle; in some scenario each claim must have something to judge, otherwise nobody would notice that it never
/// has.
#[test]
fn each_invariant_is_named_by_a_scenario_that_must_hold() {
    let mut named = BTreeSet::new();
    for folder in ["smoke", "chaos", "control"] {
        for file in
            scenario::find(&[format!("{}/../../scenarios/{folder}", env!("CARGO_MANIFEST_DIR")).into()]).expect("the folder is there")
        {
            let scenarios = Scenario::read_each(&file).expect("it is right");
            let holding = scenarios.iter().filter(|scenario| scenario.expect.is_none());
            named.extend(holding.flat_map(|scenario| always(&scenario.check)).filter_map(|(name, required)| required.then_some(name)));
        }
    }
    // A panic ends any run, whatever claims the scenario names.
    let unnamed =
        systems().suites().iter().flat_map(|suite| suite.claims).filter(|def| def.kind == Kind::Always && !named.contains(def.name));
    let idle: Vec<_> = unnamed.map(|def| def.name).filter(|name| *name != "no-process-panics").collect();
    assert_eq!(idle, [""; 0], "what no scenario that must hold names");
}
