//! `merge` with valid and invalid files.

use ipam_reports::{Digest, ScenarioResult, SeedRecord};

use testkit::Folder;

use super::*;

fn shard(seeds: std::ops::Range<u64>) -> String {
    let mut scenario = ScenarioResult::new("counter", "counter.toml", []);
    seeds.for_each(|seed| scenario.add(SeedRecord { seed, digest: Digest(seed.into()), ..SeedRecord::default() }));
    serde_json::to_string(&RunReport::new(vec![scenario], false)).unwrap()
}

#[test]
fn merged_shards_print_as_one_run() {
    let folder = Folder::new("merge");
    let (a, b) = (folder.file("a.json", &shard(0..40)), folder.file("b.json", &shard(40..100)));
    let ran = ran(&Prepared::default(), &format!("merge {b} {a} --format json"));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(RunReport::from_json(&ran.out).unwrap(), RunReport::from_json(&shard(0..100)).unwrap());
}

#[test]
fn a_missing_shard_is_noticed_and_a_double_one_refused() {
    let folder = Folder::new("holes");
    let (a, c) = (folder.file("a.json", &shard(0..40)), folder.file("c.json", &shard(60..100)));
    let hole = ran(&Prepared::default(), &format!("merge {a} {c}"));
    assert_eq!((hole.code, hole.err.as_str()), (0, "note: no result has 20 seeds of counter (the first is 40): is a shard missing?\n"));
    let double = ran(&Prepared::default(), &format!("merge {a} {a}"));
    assert_eq!((double.code, double.out.as_str()), (2, ""));
    let expected = format!("error: the results do not fit together: {a} and {a} both ran seeds 0 to 39 of counter (counter.toml)\n");
    assert_eq!(double.err, expected);
}

#[test]
fn a_file_that_is_no_result_is_named() {
    let folder = Folder::new("bad");
    for (text, expected) in [
        ("{\n  oops", "bad.json:2:3: key must be a string"),
        (r#"{"schema":"ipam-sim/replay/1"}"#, "bad.json: the schema is `ipam-sim/replay/1`, expected `ipam-sim/run/1`"),
    ] {
        let ran = ran(&Prepared::default(), &format!("merge {}", folder.file("bad.json", text)));
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        assert!(ran.err.contains(expected), "{}", ran.err);
    }
    let ran = ran(&Prepared::default(), "merge nowhere.json");
    assert_eq!(ran.code, 2);
    assert!(ran.err.starts_with("error: nowhere.json: cannot be read: "), "{}", ran.err);
}
