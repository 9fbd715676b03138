//! Sweeps that prove nothing are not green.

use crate::{Folder, SMALL, json, run};

#[test]
fn a_sometimes_that_never_holds_is_vacuous() {
    let folder = Folder::new("vacuous");
    let lonely = SMALL.replace("clients = 2", "clients = 1") + "sometimes = [\"clients-conflict\"]\n";
    let (code, out, _) = run(&["run", &folder.file("vacuous.toml", &lonely)]);
    assert_eq!(code, 4, "{out}");
}

#[test]
fn a_cluster_in_which_no_address_is_given_proves_nothing() {
    let folder = Folder::new("no-address");
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {conditions: [{type: Ready, status: \"True\"}]}\n";
    let pool = "---\napiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\nmetadata: {name: p}\n\
                spec: {subnet: 10.0.0.0/24, ips: [10.0.0.1-10.0.0.9], default: true, disable: true}\n";
    let pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: default, uid: u1}\n\
               spec: {containers: [{name: c, image: i}]}\n";
    let calm = "scenarios/smoke/spiderpool-calm.toml";
    let nobody = folder.file("nobody.yaml", &format!("{node}{pool}"));
    let refused = folder.file("refused.yaml", &format!("{node}{pool}{pod}"));
    for (manifests, why) in [(&nobody, "no pod asked for one"), (&refused, "requests were refused")] {
        let (code, out, err) = run(&["run", calm, "--seeds", "20", "--manifests", manifests]);
        assert!(code == 4 && out.contains("no address was ever given") && out.contains(why), "{manifests}: {out}{err}");
        // A handful of seeds proves nothing either way, but that is reported.
        let (code, out, _) = run(&["run", calm, "--seeds", "3", "--manifests", manifests]);
        assert!(code == 0 && out.contains("no address was ever given"), "{manifests}: {out}");
    }
    let (_, report) = json(&["run", calm, "--seeds", "3", "--format", "json", "--manifests", &refused]);
    assert_eq!(report["scenarios"][0]["no_address_given"], true);
}

#[test]
fn a_fault_that_touches_nothing_makes_a_sweep_vacuous() {
    let folder = Folder::new("idle-fault");
    let idle = SMALL.replace("[check]", "[[fault]]\nkind = \"forbidden\"\nclient = \"client-0\"\nresource = \"pods\"\n[check]");
    let file = folder.file("idle.toml", &idle);
    let (code, out, _) = run(&["run", &file, "--seeds", "100"]);
    assert_eq!(code, 4, "{out}");
    assert!(out.contains("forbidden    did nothing in any of 100 plans"), "{out}");
    let (code, out, _) = run(&["run", &file, "--seeds", "99"]);
    assert_eq!(code, 0, "who runs a handful of seeds is not bothered: {out}");
}

#[test]
fn a_claim_with_nothing_to_judge_makes_a_sweep_vacuous() {
    let folder = Folder::new("blind-claim");
    let blind = SMALL.replace("[\"no-increment-is-lost\"]", "[\"no-increment-is-lost\", \"no-address-has-two-holders\"]");
    let (code, out, _) = run(&["run", &folder.file("blind.toml", &blind), "--seeds", "20"]);
    assert_eq!(code, 4, "{out}");
    assert!(out.contains("no-address-has-two-holders    had nothing to judge in 20 seeds"), "{out}");
}
