//! The files of the repository by which the tool reaches its users pass the checks, and agree with each other.

use std::sync::LazyLock;

use recipes::{container, kubernetes, packages, shell, workflows};
use regex::Regex;
use tidy::{Finding, Repository};

static REPOSITORY: LazyLock<Repository> = LazyLock::new(|| Repository::read(&Repository::root()));

fn text(path: &str) -> &'static str {
    &REPOSITORY.file(path).unwrap_or_else(|| panic!("{path} is missing")).text
}

#[track_caller]
fn none(findings: Vec<Finding>) {
    let lines: Vec<_> = findings.iter().map(Finding::to_string).collect();
    assert!(lines.is_empty(), "{} to mend:\n{}", lines.len(), lines.join("\n"));
}

/// The first match of a pattern in a file.
#[track_caller]
fn found(path: &str, pattern: &str) -> String {
    let pattern = Regex::new(pattern).unwrap();
    pattern.captures(text(path)).unwrap_or_else(|| panic!("{path} has no {pattern}"))[1].to_owned()
}

#[test]
fn a_registry_takes_every_package() {
    none(packages::check(&REPOSITORY));
}

#[test]
fn the_container_can_be_built_and_may_be_run() {
    assert!(REPOSITORY.file("ci/container/Containerfile").is_some());
    none(container::check(&REPOSITORY));
}

#[test]
fn a_strict_api_server_takes_every_manifest() {
    assert!(REPOSITORY.file("ci/kubernetes/indexed-job.yaml").is_some());
    none(kubernetes::check(&REPOSITORY));
}

#[test]
fn workflows_and_actions_use_and_run_what_is_there() {
    assert!(REPOSITORY.file(".github/actions/ipam-sim/action.yml").is_some() && REPOSITORY.file(".github/workflows/release.yml").is_some());
    none(workflows::check(&REPOSITORY));
}

#[test]
fn every_script_is_one_and_runs_what_is_there() {
    assert!(REPOSITORY.file(".ci/run").is_some() && REPOSITORY.file("ci/slurm/sweep.sbatch").is_some());
    none(shell::check(&REPOSITORY));
}

#[test]
fn one_version_of_the_tool_and_one_of_rust_is_named_everywhere() {
    let version = found("Cargo.toml", r#"(?m)^version = "([^"]+)""#);
    assert_eq!(found("ci/kubernetes/indexed-job.yaml", r"image: ghcr\.io/ipam-sim/ipam-sim:(\S+)"), version);
    assert_eq!(found("docs/ci.md", r"actions/ipam-sim@v(\S+)"), version);
    let rust = found("Cargo.toml", r#"(?m)^rust-version = "([^"]+)""#);
    assert_eq!(found("ci/container/Containerfile", r"FROM docker\.io/library/rust:([\d.]+)-"), rust);
    assert_eq!(found(".github/workflows/release.yml", r"toolchain install ([\d.]+) "), rust);
    let images = Regex::new(r"docker\.io/library/rust:([\d.]+)").unwrap();
    for path in [".github/workflows/release.yml", "docs/ci.md"] {
        assert!(images.captures_iter(text(path)).all(|found| found[1] == rust), "{path}");
    }
    // Binaries and images run with the C library version that they were built with.
    let debian = |path: &str, pattern: &str| found(path, pattern);
    let built = debian("ci/container/Containerfile", r"FROM docker\.io/library/rust:[\d.]+-slim-(\w+)");
    assert_eq!(debian("ci/container/Containerfile", r"FROM docker\.io/library/debian:(\w+)-slim"), built);
    assert_eq!(debian(".github/workflows/release.yml", r"container: docker\.io/library/rust:[\d.]+-(\w+)"), built);
}

#[test]
fn the_job_has_a_pod_for_each_shard_and_one_that_ends_in_time() {
    let number = |pattern: &str| found("ci/kubernetes/indexed-job.yaml", pattern).parse::<u32>().unwrap();
    let shards = number(r#"name: SHARDS\s+value: "(\d+)""#);
    assert_eq!((number(r"completions: (\d+)"), number(r"parallelism: (\d+)")), (shards + 1, shards));
    // The last pod starts when the first shard has ended, an hour after the Job at the latest, and waits for two attempts of each.
    let (waits, budget) = (number(r#"collect\.sh "\$results" "\$SHARDS" (\d+)"#), 60 * number(r"--budget (\d+)m"));
    assert!(waits > 2 * budget && number(r"activeDeadlineSeconds: (\d+)") > budget + waits);
    // Every exit code that is not from a signal would be the same on a retry.
    let codes = found("ci/kubernetes/indexed-job.yaml", r"values: \[([^\]]+)\]");
    let codes: Vec<u8> = codes.split(", ").map(|code| code.parse().unwrap()).collect();
    assert_eq!(codes, [1, 2, 3, 4, 5, 6, 70, 126, 127]);
}
