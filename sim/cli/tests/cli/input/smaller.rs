//! The smaller plan that `run` makes of a failing one.

use super::{ipam_sim, scenario, scratch};

#[test]
fn smaller_plans_are_the_same_whatever_the_number_of_workers() {
    let file = scenario("smoke/counter-faults.toml");
    let made = ["1", "2", "5"].map(|jobs| {
        let out = scratch(&format!("jobs-{jobs}"));
        let folder = out.display().to_string();
        let (code, told, err) =
            ipam_sim(&["run", &file, "--seeds", "40", "--jobs", jobs, "--mutation", "counter-decides-once", "--out", &folder]);
        assert_eq!(code, 1, "{told}{err}");
        let mut plans: Vec<_> = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()).collect();
        plans.retain(|plan| plan.to_string_lossy().ends_with("-min.toml"));
        plans.sort();
        assert!(!plans.is_empty(), "{told}");
        // The plans contain the name of their folder.
        let text = |plan: &std::path::Path| std::fs::read_to_string(plan).unwrap().replace(&folder, "FOLDER");
        plans.iter().map(|plan| (plan.file_name().unwrap().to_owned(), text(plan))).collect::<Vec<_>>()
    });
    assert_eq!(made[0], made[1]);
    assert_eq!(made[0], made[2]);
}
