//! Shrunk plans that once failed. The first line of each describes the bug; now each of their claims holds, or its violation has the excuse
//! that the plan lists.

use std::path::Path;

use sim_harness::plan::Plan;
use sim_harness::system::RunOptions;
use sim_harness::world::{Stage, run};

#[test]
fn plans_that_once_failed_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/regressions");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 5);
    for file in files {
        let plan = Plan::read(&file).unwrap_or_else(|problems| panic!("{problems}"));
        let mut outcome = run(&plan, &Stage::new(Vec::new()), RunOptions::default());
        outcome.violations.retain(|violation| violation.excuse.is_none());
        assert_eq!(outcome.violations, [], "{}", file.display());
    }
}
