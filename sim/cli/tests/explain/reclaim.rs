//! The actions that reclaim would take on a dumped cluster.

use std::collections::BTreeSet;

use ipam_reports::ExplainReclaimReport;
use testkit::Folder;

use super::explain;

const DUMP: &str = "--reclaim --now 2026-01-15T12:00:00Z --manifests ../../scenarios/dumps/reclaim.yaml";

fn told(more: &str) -> String {
    let (code, out, err) = explain(&format!("{DUMP} {more}"));
    let lost = "SpiderIPPool blue: status.allocatedIPs: the record of 10.20.0.41 names `shop/a/b`, and no pod is called so";
    assert!(code == 0 && err.lines().count() == 1 && err.contains(lost), "{more}: {err}");
    out
}

fn record(more: &str) -> ExplainReclaimReport {
    ExplainReclaimReport::from_json(&told(&format!("{more} --format json"))).unwrap()
}

#[test]
fn every_address_has_its_row() {
    insta::assert_snapshot!("reclaim", told(""));
    insta::assert_snapshot!("reclaim-upstream", told("--profile upstream"));
    insta::assert_snapshot!("reclaim.json", told("--format json"));
}

#[test]
fn what_is_switched_off_stays() {
    let folder = Folder::new("settings");
    let settings = folder.file("settings.toml", "SPIDERPOOL_GC_STATELESS_TERMINATING_POD_ON_NOT_READY_NODE_ENABLED = false\n");
    let report = record(&format!("--settings {settings}"));
    let differ: Vec<_> = record("").records.into_iter().zip(report.records).filter(|(before, after)| before != after).collect();
    let [(before, after)] = &differ[..] else { panic!("{differ:?}") };
    assert_eq!((before.ip.as_str(), before.action.as_str()), ("10.20.0.15", "release"));
    assert_eq!((after.action.as_str(), after.row.as_str()), ("keep", "G-over-off"));
}

#[test]
fn what_is_traced_goes_later() {
    let later = |now: &str| {
        let (code, out, _) = explain(&format!("--reclaim --now {now} --manifests ../../scenarios/dumps/reclaim.yaml --format json"));
        assert_eq!(code, 0);
        let report = ExplainReclaimReport::from_json(&out).unwrap();
        report.records.into_iter().find(|record| record.ip == "10.20.0.16").unwrap().action
    };
    assert_eq!(later("2026-01-15T12:00:20Z"), "track", "strictly after the deadline");
    assert_eq!(later("2026-01-15T12:00:21Z"), "release");
}

#[test]
fn actions_are_those_of_the_contract() {
    let report = record("");
    let of_records: BTreeSet<&str> = report.records.iter().map(|record| record.action.as_str()).collect();
    assert_eq!(of_records, BTreeSet::from(["keep", "release", "track"]));
    let of_endpoints: BTreeSet<&str> = report.endpoints.iter().map(|endpoint| endpoint.action.as_str()).collect();
    assert_eq!(of_endpoints, BTreeSet::from(["delete", "keep", "remove-finalizer"]));
}

#[test]
fn wrong_questions_are_refused() {
    let refused = |args: &str| {
        let (code, out, err) = explain(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args}");
        err.lines().next().unwrap_or_default().to_owned()
    };
    insta::assert_snapshot!(refused("--reclaim --now noon --manifests ../../scenarios/dumps/reclaim.yaml"), @"error: invalid value 'noon' for '--now <TIME>': failed to parse four digit integer as year: invalid digit, expected 0-9 but got n");
    insta::assert_snapshot!(refused("--now 2026-01-15T12:00:00Z --pod a/b --manifests ../../scenarios/dumps/reclaim.yaml"), @"error: the argument '--now <TIME>' cannot be used with '--pod <NS/NAME>'");
    insta::assert_snapshot!(refused("--reclaim --pod a/b --manifests ../../scenarios/dumps/reclaim.yaml"), @"error: the argument '--reclaim' cannot be used with '--pod <NS/NAME>'");
    insta::assert_snapshot!(refused("--reclaim --mutation frees-all --manifests ../../scenarios/dumps/reclaim.yaml").split(';').next().unwrap(), @"error: Spiderpool has no mutation `frees-all`");
}
