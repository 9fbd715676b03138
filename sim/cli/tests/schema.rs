//! The JSON Schema of scenario files, for editors: kept beside the scenarios and equal to the types.

#[path = "support/install.rs"]
mod install;

use std::path::Path;

use sim_harness::scenario::Scenario;

#[test]
fn the_schema_beside_the_scenarios_is_that_of_the_types() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/scenario.schema.json");
    let schema = serde_json::to_string_pretty(&schemars::schema_for!(Scenario)).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&file, &schema).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(kept == schema, "the types have changed: run this test with UPDATE_SCHEMA=1 and commit {}", file.display());
}
