//! Help, flags and completions.

use sim_harness::deviation::Profile;

use super::*;
use crate::cli::args::{Outputs, Setting, Shard, ShardChoice, What};

#[test]
fn help_fits_a_screen_and_shows_examples() {
    let verbs = Prepared::default();
    for (verb, lines_max) in [
        ("", 34),
        ("run", 45),
        ("replay", 34),
        ("shrink", 24),
        ("selftest", 34),
        ("list", 24),
        ("check", 26),
        ("conformance", 28),
        ("explain", 36),
        ("gate", 36),
        ("merge", 24),
        ("report", 24),
        ("report conflicts", 46),
        ("report capacity", 54),
        ("report reclaim", 33),
        ("report metrics", 40),
        ("report calibrate", 30),
        ("trace", 24),
        ("trace from-pods", 24),
        ("trace from-audit", 24),
        ("completions", 24),
    ] {
        let help = ran(&verbs, &format!("{verb} --help"));
        assert_eq!((help.code, help.err.as_str()), (0, ""));
        assert!(help.out.contains("Examples:\n  ipam-sim "), "{verb}: no examples");
        assert!(help.out.lines().count() <= lines_max, "{verb}: {} lines", help.out.lines().count());
        assert!(help.out.lines().all(|line| line.chars().count() <= 100), "{verb}: too wide");
        assert_eq!(ran(&verbs, &format!("{verb} -h")).out, help.out, "{verb}: two kinds of help");
        insta::assert_snapshot!(format!("help-{}", if verb.is_empty() { "top".to_owned() } else { verb.replace(' ', "-") }), help.out);
    }
}

#[test]
fn no_verb_is_an_error_with_help() {
    let ran = ran(&Prepared::default(), "");
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("Usage: ipam-sim [OPTIONS] <COMMAND>"), "{}", ran.err);
}

#[test]
fn the_command_line_is_consistent() {
    crate::cli::args::command().debug_assert();
}

fn run_args(line: &str) -> RunArgs {
    match Cli::read(format!("ipam-sim run {line}").split_whitespace().map(OsString::from)) {
        Ok(Cli { verb: Verb::Run(args), .. }) => args,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn every_flag_of_run_is_plain_data() {
    let line = "a.toml dir --seeds 1000 --from 0x10 --budget 1.5s --jobs 4 --shard 2/4 --set cluster.nodes=5 --set x= \
        --manifests p.yaml q.yaml --mutation d1 --mutation d2 --without f1 --profile upstream --format json --out o --no-shrink";
    let expected = RunArgs {
        scenarios: vec!["a.toml".into(), "dir".into()],
        seeds: Some(1_000),
        from: Some(16),
        seed: None,
        variant: None,
        budget: Some(sim_config::time::Span::millis(1_500)),
        jobs: Some(4),
        shard: Some(ShardChoice::Is(Shard { index: 2, total: 4 })),
        set: vec![Setting { key: "cluster.nodes".into(), value: "5".into() }, Setting { key: "x".into(), value: String::new() }],
        manifests: vec!["p.yaml".into(), "q.yaml".into()],
        mutation: vec!["d1".into(), "d2".into()],
        without: vec!["f1".into()],
        profile: Some(Profile::Upstream),
        every_crash_point: false,
        exhaustive: None,
        resume: false,
        format: Format::Json,
        out: Some("o".into()),
        force: false,
        no_shrink: true,
        no_plans: false,
        part: None,
    };
    assert_eq!(run_args(line), expected);
}

#[test]
fn every_flag_of_gate_is_plain_data() {
    let line = "ipam-sim gate --budget 60s --times 3 --from 7 --jobs 2 --shard /4 --mutation d --profile hardened --scenarios s \
        --regressions r --digests d --coverage c --ledger l.csv --junit j.xml --summary s.md --github --out o --format json";
    let read = |line: &str| match Cli::read(line.split_whitespace().map(OsString::from)) {
        Ok(Cli { verb: Verb::Gate(args), .. }) => args,
        other => panic!("{line}: {other:?}"),
    };
    let expected = GateArgs {
        budget: sim_config::time::Span::secs(60),
        times: 3,
        from: 7,
        jobs: Some(2),
        shard: Some(ShardChoice::Of(4)),
        mutation: vec!["d".into()],
        profile: Some(Profile::Hardened),
        scenarios: "s".into(),
        regressions: "r".into(),
        digests: "d".into(),
        coverage: "c".into(),
        outputs: Outputs { ledger: Some("l.csv".into()), junit: Some("j.xml".into()), summary: Some("s.md".into()), github: true },
        out: Some("o".into()),
        force: false,
        format: Format::Json,
        part: None,
    };
    assert_eq!(read(line), expected);
    let usual = read("ipam-sim gate");
    assert_eq!((usual.budget, usual.times, usual.scenarios), (sim_config::time::Span::secs(170), 10, "scenarios".into()));
}

#[test]
fn flags_that_are_not_given_leave_the_choice_to_the_scenario() {
    assert_eq!(run_args("a.toml"), RunArgs { scenarios: vec!["a.toml".into()], ..RunArgs::default() });
}

#[test]
fn bad_flags_say_what_would_be_right() {
    for (line, expected) in [
        ("run", "required"),
        ("run a --shard 0/4", "shards count from 1: the first of 4 is 1/4"),
        ("run a --shard 5/4", "expected K/N with K from 1 to N"),
        ("run a --shard 2", "expected K/N"),
        ("gate --shard /0", "expected K/N"),
        ("gate --shard /4", "--shard /4 needs CI_NODE_INDEX"),
        ("gate --times 0", "expected a number from 1 on"),
        ("gate scenarios", "unexpected argument"),
        ("run a --seeds 0", "expected a number from 1 on"),
        ("run a --jobs 0", "expected a number from 1 to 4096"),
        ("run a --seed -1", "--seed"),
        ("run a --seed 0x", "expected a seed from 0 to 18446744073709551615"),
        ("run a --seed 1 --seeds 2", "cannot be used with"),
        ("run a --budget 60", "`60` is not a duration such as 250us"),
        ("run a --set nodes", "expected KEY=VALUE"),
        ("run a --profile fast", "possible values: hardened, upstream"),
        ("run --manifests pods.yaml a.toml", "`--manifests` takes every path that follows it"),
        ("replay", "<PLAN>"),
        ("merge", "<RESULT>"),
        ("check", "<PATH>"),
        ("shrink", "<PLAN>"),
        ("shrink a.toml --runs 0", "expected a number from 1 on"),
        ("conformance --only [", "unclosed character class"),
        ("list claims scenarios", "a PATH says where to look for scenarios"),
        ("explain --manifests a.yaml --pod b --nic=", "expected the name of an interface"),
        ("explain --manifests a.yaml --pod b --nic an-interface-far-too-long", "expected the name of an interface"),
        ("shrnk plan.toml", "unrecognized subcommand"),
    ] {
        let ran = ran(&Prepared::default(), line);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{line}");
        assert!(ran.err.contains(expected), "{line}: {}", ran.err);
    }
}

#[test]
fn the_seeds_to_run_follow_from_flags_and_scenario() {
    for (line, expected) in [
        ("a", Some((0, 99))),
        ("a --from 5", Some((5, 104))),
        ("a --seeds 10 --shard 4/4", Some((8, 9))),
        ("a --seeds 2 --shard 3/4", None),
        ("a --seed 18446744073709551615", Some((u64::MAX, u64::MAX))),
    ] {
        let mut args = run_args(line);
        args.part = args.shard.map(|shard| match shard {
            ShardChoice::Is(part) => part,
            ShardChoice::Of(_) => panic!("only the environment knows"),
        });
        let range = args.seeds().range(100).unwrap();
        assert_eq!(range.map(|range| (range.first, range.last)), expected, "{line}");
    }
    assert!(run_args("a --from 18446744073709551615").seeds().range(2).unwrap_err().to_string().contains("the last seed is"));
}

#[test]
fn list_wants_everything_or_one_thing() {
    let args = |what| ListArgs { what, ..ListArgs::default() };
    assert!(args(None).wants(What::Faults));
    assert!(args(Some(What::Faults)).wants(What::Faults));
    assert!(!args(Some(What::Claims)).wants(What::Faults));
}

#[test]
fn completions_know_every_verb() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = ran(&Prepared::default(), &format!("completions {shell}"));
        assert_eq!(ran.code, 0);
        for verb in ["run", "replay", "list", "check", "conformance", "explain", "gate", "merge", "report", "trace", "completions"] {
            assert!(ran.out.contains(verb), "{shell}: {verb}");
        }
    }
}
