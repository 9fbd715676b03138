//! The request budget of a scenario.

use sim_harness::engine::LoadOptions;
use sim_harness::engine::load::scenarios;
use sim_harness::engine::run::run_plan;
use testkit::Folder;

/// The violations in the run of the first seed, with one client that counts to two and this budget; or the reason why the run is refused.
fn found(budget: &str) -> Result<Vec<String>, String> {
    let folder = Folder::new("budget");
    let text = format!(
        "name = 'budget'\nwhy = 'a test'\n[phases]\nsafety = '5s'\nliveness = '5s'\n[check]\nalways = ['common/*']\n\
         [check.budget.'client-*']\n{budget}\n[workload]\nkind = 'counter'\nclients = 1\nincrements = 2\n"
    );
    let file = folder.file("budget.toml", &text).into();
    let ready = scenarios(&LoadOptions { scenarios: vec![file], ..LoadOptions::default() }).map_err(|error| error.to_string())?;
    let outcome = run_plan(&ready[0].scenario.draw(0), &ready[0].stage, Default::default()).unwrap();
    Ok(outcome.violations.into_iter().map(|violation| format!("{}: {}", violation.claim, violation.detail.join("; "))).collect())
}

#[test]
fn a_request_beyond_the_budget_and_one_that_it_does_not_have_are_violations() {
    let told = |text: &str| Ok(vec![format!("requests-stay-within-budget: {text}")]);
    assert_eq!(found("configmaps = { get = 2, update = 2 }"), Ok(Vec::new()));
    assert_eq!(
        found("configmaps = { get = 2, update = 1 }"),
        told("client-0 asks once more to update configmaps than the budget of client-* permits")
    );
    assert_eq!(found("configmaps = { get = 2 }"), told("client-0 asks to update configmaps, which the budget of client-* does not have"));
}

#[test]
fn a_verb_that_there_is_not_is_refused() {
    let error = found("configmaps = { fetch = 2 }").unwrap_err();
    assert!(error.contains("budget.toml:9:") && error.contains("there is no verb `fetch`"), "{error}");
}
