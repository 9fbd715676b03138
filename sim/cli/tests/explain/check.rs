//! The findings of admission for manifests.

use std::collections::BTreeSet;

use ipam_reports::CheckReport;
use ipam_reports::listing::Severity;
use testkit::Folder;

use super::{MANIFESTS, run};

/// A cluster in which every rule is broken. Comments say which field is wrong in their lines.
const REFUSED: &str = "tests/explain/refused";

fn report(args: &str) -> (u8, CheckReport) {
    let (code, out, err) = run("check", &format!("{args} --format json"));
    assert_eq!(err, "");
    (code, serde_json::from_str(&out).unwrap())
}

#[test]
fn every_broken_rule_is_named() {
    let (code, out, _) = run("check", REFUSED);
    assert_eq!(code, 2);
    insta::assert_snapshot!("check", out);
}

#[test]
fn every_broken_rule_has_the_place_of_its_field() {
    let (code, report) = report(REFUSED);
    assert_eq!((code, report.files.len()), (2, 3));
    for file in &report.files {
        let text = std::fs::read_to_string(&file.file).unwrap();
        let comments = |(line, text): (u64, &str)| {
            let fields = text.split_once(" # ").map_or(Vec::new(), |(_, fields)| fields.split(", ").map(str::to_owned).collect());
            fields.into_iter().map(move |field| (line, field))
        };
        let wanted: BTreeSet<(u64, String)> = (1..).zip(text.lines()).flat_map(comments).collect();
        assert!(!wanted.is_empty());
        let found = file.findings.iter().map(|finding| (finding.line.unwrap(), finding.rule.clone().unwrap().field));
        assert_eq!(found.collect::<BTreeSet<_>>(), wanted, "{}", file.file);
        // The column of a finding is the beginning of a value.
        for finding in &file.findings {
            let line = text.lines().nth(finding.line.unwrap() as usize - 1).unwrap();
            let before = (finding.column.unwrap() as usize).checked_sub(2).and_then(|at| line.chars().nth(at)).unwrap_or(' ');
            assert!(matches!(before, ' ' | '[' | '{'), "{line} at {:?}", finding.column);
        }
    }
}

#[test]
fn an_owner_that_is_not_in_the_manifests_is_no_error() {
    let (code, alone) = report(&format!("{MANIFESTS}/pools.yaml"));
    let severities: BTreeSet<Severity> = alone.findings().map(|(_, finding)| finding.severity).collect();
    assert_eq!((code, severities), (0, [Severity::Warning].into()));
    let (code, together) = report(&format!("{MANIFESTS}/pools.yaml {MANIFESTS}/subnets.yaml"));
    assert_eq!((code, together.findings().count()), (0, 0));
}

#[test]
fn folders_inside_a_folder_are_clusters_of_their_own_and_what_is_named_is_one() {
    let folder = Folder::new("clusters");
    let pool = "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\nmetadata:\n  name: p\nspec:\n  subnet: 10.0.0.0/24\n";
    for inner in ["a", "b"] {
        folder.file(&format!("{inner}/pool.yaml"), pool);
    }
    let path = folder.0.display();
    let (apart, _) = report(&path.to_string());
    let (twice, _) = report(&format!("{path}/a/pool.yaml {path}/a"));
    let (together, report) = report(&format!("{path}/a {path}/b/pool.yaml"));
    assert_eq!((apart, twice, together), (0, 0, 2));
    let taken: Vec<_> = report.findings().map(|(file, finding)| (&*file.file, finding.rule.clone().unwrap().fault)).collect();
    assert_eq!(taken, [(&*format!("{path}/b/pool.yaml"), "AlreadyExists".to_owned())]);
}

#[test]
fn settings_and_form_of_the_cluster_decide() {
    let folder = Folder::new("form");
    let cluster = "apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderSubnet
metadata: {name: s}
spec: {subnet: 10.0.0.0/24, ips: [10.0.0.1-10.0.0.9]}
status: {controlledIPPools: '{\"auto\":{\"ips\":[\"10.0.0.1-10.0.0.3\"],\"application\":\"apps_v1_Deployment_default_a\"}}'}
---
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata: {name: taken}
spec: {subnet: 10.0.0.0/24, ips: [10.0.0.3]}
---
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata: {name: six}
spec: {subnet: fd00::/64, ips: ['fd00::1']}
";
    let cluster = folder.file("cluster.yaml", cluster);
    let settings = folder.file("settings.txt", "enableIPv6 = false\n");
    let wrong = folder.file("wrong.txt", "enableIPv6 = 7\n");
    let refused = |args: &str| -> Vec<String> {
        let (_, report) = report(&format!("{cluster} {args}"));
        report.findings().map(|(_, finding)| finding.rule.clone().unwrap().object).collect()
    };
    assert_eq!(refused(""), ["SpiderIPPool/taken"]);
    assert_eq!(refused("--profile upstream"), [""; 0]);
    assert_eq!(
        refused("--profile upstream --without manual-pool-ignores-preallocation"),
        [""; 0],
        "upstream's way of comparing does not ask"
    );
    assert_eq!(refused("--mutation manual-pool-ignores-preallocation"), [""; 0]);
    assert_eq!(refused(&format!("--settings {settings}")), ["SpiderIPPool/taken", "SpiderIPPool/six"]);
    let wrong = [format!("--settings {wrong}"), "--mutation none-such".to_owned()];
    let wrong = wrong.map(|args| run("check", &format!("{cluster} {args}")).0);
    assert_eq!(wrong, [2, 2]);
}

/// The result of `check` for some files in one folder, one line each.
fn checked(name: &str, files: &[(&str, &str)], flags: &str) -> (u8, String) {
    let folder = Folder::new(name);
    for (file, text) in files {
        folder.file(file, text);
    }
    let (code, out, err) = run("check", &format!("{} {flags}", folder.0.display()));
    assert_eq!(err, "");
    (code, out.replace(&folder.0.display().to_string(), "dir"))
}

fn pool(name: &str, spec: &str) -> String {
    format!("apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n---\n")
}

#[test]
fn addresses_whose_family_cannot_be_told_are_judged_all_the_same() {
    let reserved = "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderReservedIP\nmetadata: {name: r}\n\
                    spec: {ips: [10.0.0.5-10.0.0.1, 10.0.0.7, fd00::1]}\n";
    let text = [pool("no-cidr", "subnet: 10.0.0.0"), pool("mask", "subnet: 'fd00::/129'"), reserved.to_owned()].concat();
    let (code, out) = checked("family", &[("a.yaml", &text)], "");
    assert_eq!(code, 2);
    insta::assert_snapshot!(out, @r#"
    dir/a.yaml:4:7: error: SpiderIPPool no-cidr: spec.ipVersion: is neither given nor can it be told from the addresses; write 4 or 6
    dir/a.yaml:4:16: error: SpiderIPPool no-cidr: spec.subnet: `10.0.0.0` is no CIDR
    dir/a.yaml:9:7: error: SpiderIPPool mask: spec.ipVersion: is neither given nor can it be told from the addresses; write 4 or 6
    dir/a.yaml:9:16: error: SpiderIPPool mask: spec.subnet: `fd00::/129` is no CIDR
    dir/a.yaml:14:7: error: SpiderReservedIP r: spec.ipVersion: is neither given nor can it be told from the addresses; write 4 or 6
    dir/a.yaml:14:14: error: SpiderReservedIP r: spec.ips[0]: range `10.0.0.5-10.0.0.1`: the first address is above the last; swap them
    dir/a.yaml:14:43: error: SpiderReservedIP r: spec.ips[2]: `fd00::1` is not of IPv4
    1 file: 7 errors
    "#);
}

#[test]
fn what_is_stored_and_cannot_be_read_is_an_error_with_its_place() {
    let records = |name: &str, cidr: u8, text: &str| {
        let spec = format!("subnet: 10.{cidr}.0.0/24, ips: [10.{cidr}.0.1-10.{cidr}.0.9]");
        pool(name, &spec).replace("---\n", &format!("status: {{allocatedIPs: '{text}'}}\n---\n"))
    };
    let settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: spiderpool-conf}\ndata:\n  conf.yml: |\n    enableIPv6: maybe\n";
    let odd = r#"{"zz":{"pod":"a/b"},"010.2.0.2":{"pod":"a/b"},"10.2.0.1":{"pod":"a/b"}}"#;
    let text = [records("cut", 1, "{"), records("odd", 2, odd), settings.to_owned()].concat();
    let (code, out) = checked("stored", &[("a.yaml", &text)], "");
    assert_eq!(code, 2);
    insta::assert_snapshot!(out, @r#"
    dir/a.yaml:5:24: error: SpiderIPPool cut: status.allocatedIPs: unreadable JSON text: EOF while parsing an object at line 1 column 1
    dir/a.yaml:18:17: error: enableIPv6 cannot be the string "maybe"; expected true or false
    dir/a.yaml:11:24: warning: SpiderIPPool odd: status.allocatedIPs: the key `zz` is no address, so its record holds none
    dir/a.yaml:11:24: warning: SpiderIPPool odd: status.allocatedIPs: the key `010.2.0.2` is no address, so its record holds none
    1 file: 2 errors, 2 warnings
    "#);
}

#[test]
fn a_second_object_of_a_name_is_refused_where_admission_judges_and_odd_elsewhere() {
    let namesakes = [pool("p", "subnet: 10.0.0.0/24"), pool("p", "subnet: 'fd00::/64'")].concat();
    let node = "{apiVersion: v1, kind: Node, metadata: {name: n1}}\n---\n";
    let pods = "{apiVersion: v1, kind: Pod, metadata: {name: a}}\n---\n\
                {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x}}\n---\n\
                {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: default}}\n";
    let files = [("a.yaml", node), ("b.yaml", &[node, pods].concat()), ("c.yaml", &namesakes)];
    let (code, out) = checked("again", &files, "--profile upstream");
    assert_eq!(code, 2);
    insta::assert_snapshot!(out, @r#"
    dir/b.yaml:1:47: warning: another Node is called n1, too; this one counts
    dir/b.yaml:7:46: warning: another Pod is called a, too; this one counts
    dir/c.yaml:8:18: error: SpiderIPPool p: metadata.name: there is an object of this name already
    3 files: 1 error, 2 warnings
    "#);
    let (hardened, _) = checked("again", &files[..2], "");
    assert_eq!(hardened, 0);
}
