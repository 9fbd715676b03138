//! A program whose only system has neither webhooks nor an explainer: the parts of the command line that it lacks.

use std::ffi::OsString;

use ipam_sim::cli::{self, Console, Simulator};
use sim_counter::Counter;

/// The exit code of a command line, and what it printed on standard output and standard error.
fn told(line: &str) -> (u8, String, String) {
    sim_harness::system::install(&[&Counter], env!("CARGO_PKG_VERSION"));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let args = std::iter::once("ipam-sim").chain(line.split_whitespace()).map(OsString::from);
    let code = cli::dispatch(args, &Simulator, &mut Console::plain(&mut out, &mut err));
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

#[test]
fn there_is_no_verb_explain() {
    for line in ["explain", "explain --help", "explain -h", "explain --manifests . --pod a/b", "explain --reclaim --format json"] {
        let (code, out, err) = told(line);
        assert_eq!((code, &*out), (2, ""), "{line}");
        let expected = "error: ipam-sim has no verb `explain`: no system of it explains its decisions (there is counter)\n";
        assert!(err.starts_with(expected), "{line}: {err}");
    }
    let (code, help, _) = told("--help");
    assert_eq!(code, 0);
    assert!(help.contains("conformance") && !help.contains("explain"), "{help}");
}

#[test]
fn check_judges_by_nobodys_webhooks() {
    let (code, help, _) = told("check --help");
    assert_eq!(code, 0);
    assert!(help.contains("--format") && !help.contains("--profile") && !help.contains("Spiderpool"), "{help}");
    assert!(help.ends_with("ipam-sim check pods.yaml\n\nExits 0 if nothing is wrong, else 2.\n"), "{help}");
    let (code, _, err) = told("check x --profile upstream");
    assert_eq!(code, 2);
    assert!(err.contains("unexpected argument '--profile' found"), "{err}");
}

#[test]
fn manifests_are_checked_by_their_types() {
    let folder = tempfile::tempdir().unwrap();
    let check = |manifests: &str| {
        let file = folder.path().join("x.yaml");
        std::fs::write(&file, manifests).unwrap();
        let (code, out, err) = told(&format!("check {}", file.display()));
        (code, out + &err)
    };
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\n";
    let (code, text) = check(config);
    assert_eq!((code, &*text), (0, "1 file: no problem\n"));
    let (code, text) = check(&config.replace("{a: b}", "[a]"));
    assert!(code == 2 && text.contains("x.yaml:4"), "{code} {text}");
    let (code, text) = check(&format!("{config}---\n{config}"));
    assert!(code == 0 && text.contains("another ConfigMap is called c, too"), "{code} {text}");
    // Spiderpool's webhooks would refuse it.
    let pool = "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\nmetadata: {name: p}\nspec: {subnet: x}\n";
    let (code, text) = check(pool);
    assert!(code == 0 && text.contains("does not serve SpiderIPPool") && !text.contains("spec.subnet"), "{code} {text}");
}
