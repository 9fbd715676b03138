//! Records that look like real results.

use ipam_reports::finding::{Kind, Violation};
use ipam_reports::run::Api;
use ipam_reports::shrink::{Shrunk, Size};
use ipam_reports::{Digest, ScenarioResult, Seconds, SeedRecord};

pub(super) fn seconds(seconds: f64) -> Seconds {
    Seconds::from_micros((seconds * 1e6) as u64)
}

pub(super) fn violation(claim: &str, kind: Kind, at: f64) -> Violation {
    Violation { claim: claim.into(), kind, at: seconds(at), event: None, excuse: None, detail: vec![], needs: None }
}

pub(super) fn two_owners() -> Violation {
    let story = "10.0.0.7 held by web-2 (uid 81a3) since 12.090 s and by web-5 (uid c0de) since 41.207 s";
    Violation {
        detail: vec![story.into()],
        needs: Some("watch-lag(collector) and node-down(n1); passes without either".into()),
        ..violation("no-address-has-two-owners", Kind::Always, 41.207)
    }
}

pub(super) fn shrunk(plan: &str) -> Shrunk {
    let size = |ops, faults, actors, time| Size { ops, faults, actors, deviations: 0, time: seconds(time) };
    Shrunk {
        plan: Some(plan.into()),
        digest: Digest(0xdef),
        size: size(3, 1, 2, 4.1),
        from: size(43, 7, 5, 90.0),
        runs: 212,
        cut_off: None,
    }
}

/// A sweep of `seeds` seeds, of which some violate something.
pub(super) fn sweep(name: &str, seeds: u64, sometimes: &[(&str, Kind)], violations: impl Fn(u64) -> Vec<Violation>) -> ScenarioResult {
    let claims = sometimes.iter().map(|&(claim, kind)| (claim.to_owned(), kind));
    let mut scenario = ScenarioResult::new(name, format!("scenarios/{name}.toml"), claims);
    for seed in 0..seeds {
        scenario.add(SeedRecord {
            seed,
            digest: Digest(u128::from(seed) << 80 | 0xabc),
            simulated: seconds(80.0),
            api: Api { requests: 482, writes: 100, conflicts: 12, retries_exhausted: 0 },
            events: 1_000,
            violations: violations(seed),
            ..SeedRecord::default()
        });
    }
    for failure in &mut scenario.failures {
        failure.plan = Some(format!("target/ipam-sim/{name}-{}.toml", failure.seed));
    }
    scenario.wall = seconds(seeds as f64 / 312.0);
    scenario
}

pub(super) fn held(name: &str) -> ScenarioResult {
    sweep(name, 100, &[], |_| vec![])
}

pub(super) fn vacuous() -> ScenarioResult {
    sweep("quiet", 50, &[("a-write-conflicts", Kind::Sometimes), ("a-retry-gives-up", Kind::Reachable)], |_| vec![])
}

pub(super) fn violated() -> ScenarioResult {
    sweep("collector-races", 1_000, &[], |seed| match seed {
        7 | 9 => vec![two_owners(), violation("every-pod-has-an-address", Kind::Eventually, 95.0)],
        seed if seed % 10 == 3 => vec![two_owners()],
        _ => vec![],
    })
}

pub(super) fn negative(name: &str, violating: bool) -> ScenarioResult {
    let found = |seed| if violating && seed >= 2 { vec![two_owners(), violation("echo", Kind::Always, 50.0)] } else { vec![] };
    ScenarioResult { expect: Some("no-address-has-two-owners".into()), ..sweep(name, 5, &[("seen", Kind::Sometimes)], found) }
}
