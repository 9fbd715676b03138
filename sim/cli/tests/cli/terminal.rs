//! Lists, colours and completions.

use std::path::Path;
use std::process::Command;

use crate::run;

#[test]
fn the_lists_name_what_there_is() {
    let (code, out, _) = run(&["list"]);
    assert_eq!(code, 0);
    for expected in ["counter-calm", "no-increment-is-lost", "one-way-partition", "counter-decides-once"] {
        assert!(out.contains(expected), "{out}");
    }
}

#[test]
fn colours_are_as_they_are_asked_for() {
    let colored = |args: &[&str], env: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ipam-sim"));
        command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env("TERM", "xterm").envs(env.iter().copied());
        let output = command.args([&["list", "faults"], args].concat()).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().contains("\u{1b}[1m")
    };
    assert!(!colored(&[], &[]), "a pipe is no terminal");
    assert!(colored(&["--color", "always"], &[]));
    assert!(colored(&["--color=always"], &[("NO_COLOR", "1")]), "what is asked for outranks the environment");
    assert!(colored(&[], &[("CLICOLOR_FORCE", "1")]));
    assert!(!colored(&["--color", "never"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!colored(&["--color", "auto"], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
}

#[test]
fn shells_are_offered_the_names_that_there_are() {
    let offered = |line: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ipam-sim"));
        command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).env("COMPLETE", "fish");
        let output = command.args(["--", "ipam-sim"]).args(line).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(offered(&["run", "--mutation", "counter-"]).starts_with("counter-decides-once\t"));
    assert!(offered(&["shrink", "--claim", "no-increment"]).contains("no-increment-is-lost\tno two increments are acknowledged"));
    assert!(offered(&["run", "--variant", "unreachable-node-is"]).contains("unreachable-node-is-probed\t"));
    assert!(offered(&["run", "counter-ca"]).contains("scenarios/smoke/counter-calm.toml"));
    let faults = offered(&["run", "--set", "swarm.only"]);
    assert!(faults.contains("swarm.only=[\"partition\"]\t"), "{faults}");
    assert!(offered(&["run", "--mutation", "no-such-"]).is_empty());
}
