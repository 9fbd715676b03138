//! The published JSON Schemas: that of scenario files, for editors, next to the scenarios; that of the result of `replay`, for programs, in
//! the documents. They match the types.

#[path = "support/install.rs"]
mod install;

use std::path::Path;

use ipam_reports::ReplayReport;
use sim_harness::scenario::Scenario;

fn keep(file: &str, schema: &schemars::Schema) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    let schema = serde_json::to_string_pretty(schema).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&file, &schema).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(kept == schema, "the types have changed: run this test with UPDATE_SCHEMA=1 and commit {}", file.display());
}

#[test]
fn the_schema_beside_the_scenarios_is_that_of_the_types() {
    keep("scenarios/scenario.schema.json", &schemars::schema_for!(Scenario));
}

#[test]
fn the_schema_of_replay_is_that_of_the_types() {
    keep("docs/replay.schema.json", &schemars::schema_for!(ReplayReport));
}
