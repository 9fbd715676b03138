//! Every example of every `--help` is a command that works.

use std::time::{Duration, Instant};

use crate::sandbox::Sandbox;
use crate::{is_refused, is_set};

/// The time limit of an example: bad usage and bad input are refused much sooner.
const LIMIT: Duration = Duration::from_millis(500);

/// Files that examples assume to exist, and the commands that make them.
const GIVEN: [(&[&str], &str); 17] = [
    (
        &["target/ipam-sim/counter-decides-once-0.toml", "old.toml", "broken.toml", "works.toml"],
        "ipam-sim run scenarios/negative/counter-decides-once.toml --seeds 1
         for copy in old broken works; do cp target/ipam-sim/counter-decides-once-0.toml $copy.toml; done",
    ),
    (&["target/ipam-sim/byom-two-1.toml"], "ipam-sim run scenarios/smoke/byom-two.toml --profile upstream --seed 1 --no-shrink"),
    (
        &["1.json", "2.json", "3.json", "4.json"],
        "for part in 1 2 3 4; do
             ipam-sim run scenarios/smoke/counter-calm.toml --seeds 4 --shard $part/4 --format json > $part.json
         done",
    ),
    (&["cluster.yaml", "new.yaml"], "kubectl > cluster.yaml; kubectl | tail -n 4 > new.yaml"),
    (&["manifests", "spiderpool-conf.yaml"], "cp -R scenarios/manifests/ manifests; cp scenarios/settings/spiderpool-conf.yaml ."),
    (&["report/points.csv"], "ipam-sim report conflicts --vary instances=2 --seeds 20 --precision 50% --out report"),
    (
        &["report/sizes.csv"],
        "ipam-sim report capacity scenarios/capacity/spiderpool-trace.toml --objective 'refused<50%' --seeds 1 --out report",
    ),
    (&["report/reclaims.csv"], "ipam-sim run scenarios/smoke/unreachable-node.toml --variant dead-node-gives-back --seeds 2 --out report"),
    (&["report/values.csv"], "ipam-sim report metrics scenarios/smoke/counter-calm.toml --seeds 2 --out report"),
    (
        &["old/conflicts"],
        "ipam-sim report conflicts --vary instances=8 --vary retry=default-backoff --seeds 20 --precision 50% --out old/conflicts",
    ),
    (&["pods.csv"], "printf 'name,created,deletion_time\\na,2026-01-15T12:00:00Z,\\n' > pods.csv"),
    (&["server/settings.toml"], "ipam-sim report calibrate scenarios/traces/requests.jsonl --out server"),
    (&["audit.log"], "cp scenarios/traces/audit.jsonl audit.log"),
    (&["monday.json", "tuesday.json"], "for day in monday tuesday; do cp scenarios/traces/pods.yaml $day.json; done"),
    (&["answers.jsonl"], "ipam-sim conformance --only ^K06 --out answers.jsonl"),
    (&["theirs"], "ipam-sim hunt scenarios/chaos/byom-swarm.toml --runs 2 --corpus theirs"),
    (&["my-scenarios"], "mkdir my-scenarios; cp scenarios/smoke/counter-calm.toml my-scenarios"),
];

/// The verbs that a help text lists, each with the words before it.
fn verbs(sandbox: &Sandbox, before: &str) -> Vec<String> {
    let help = sandbox.shell(&format!("ipam-sim {before} --help"));
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let mut all = vec![before.to_owned()];
    // The description of a verb may take several lines.
    for verb in listed.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next()) {
        all.extend(verbs(sandbox, format!("{before} {verb}").trim()));
    }
    all
}

/// The commands under `Examples:` of a help text.
fn examples(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Examples:").skip(1).take_while(|line| !line.is_empty());
    listed.map(|line| line.trim().to_owned()).collect()
}

#[test]
fn examples_of_help_are_commands_that_work() {
    let sandbox = Sandbox::new("help");
    let mut wrong = Vec::new();
    let mut tried = 0;
    for verb in verbs(&sandbox, "") {
        let found = examples(&sandbox.shell(&format!("ipam-sim {verb} --help")));
        assert!(!found.is_empty(), "`ipam-sim {verb} --help` has no examples");
        for (number, example) in found.iter().enumerate() {
            let sandbox = Sandbox::new(&format!("help-{}-{number}", verb.replace(' ', "-")));
            std::fs::create_dir_all(sandbox.path(".local/share/bash-completion/completions")).unwrap();
            for (files, command) in GIVEN {
                let (code, printed) = match example.split_whitespace().any(|word| files.contains(&word)) {
                    true => sandbox.run(command),
                    false => continue,
                };
                assert!(!is_refused(command, code), "{printed}");
            }
            let began = Instant::now();
            let (code, printed) = sandbox.run_for(example, LIMIT);
            tried += 1;
            // No exit code: it was still running.
            if code.is_some() && is_refused(example, code) {
                wrong.push(format!("`ipam-sim {verb} --help`: `{example}` ends with {}:\n{printed}", code.unwrap_or_default()));
            }
            if is_set("DOCS_TIMES") {
                eprintln!("{:>6} ms  {code:?}  {example}", began.elapsed().as_millis());
            }
        }
    }
    assert!(tried > 20, "{tried} examples were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
