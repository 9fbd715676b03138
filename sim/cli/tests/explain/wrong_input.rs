//! Bad input gives exit code 2, and each error has its position.

use testkit::Folder;

use super::{MANIFESTS, explain};

/// The text on standard error, with file names instead of paths.
fn refused(folder: &Folder, args: &str) -> String {
    let (code, out, err) = explain(args);
    assert_eq!((code, out.as_str()), (2, ""), "{args}: {err}");
    err.replace(&format!("{}/", folder.0.display()), "")
}

#[test]
fn everything_that_is_wrong_in_any_file_is_said_with_its_place() {
    let folder = Folder::new("files");
    let pool = "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\nmetadata:\n  name: p\n\
                spec:\n  ips: 10.0.0.1\n  subnet: 10.0.0.0/24\n";
    let manifests = folder.file("pools.yaml", pool);
    let cni = folder.file("net.conf", "{\"ipam\": {\n  \"default_ipv4_ippool\": \"a\"\n}}");
    let settings = folder.file("settings.toml", "enableIPv4 = true\nenableIPv7 = true\nenableIPv6 = \"perhaps\"\n");
    let err = refused(&folder, &format!("--manifests {manifests} --pod a/b --cni-config {cni} --settings {settings}"));
    insta::assert_snapshot!(err, @r#"
    error: pools.yaml:6:8: `spec.ips` is the string "10.0.0.1"; expected a list
    net.conf:2:26: `ipam.default_ipv4_ippool` is the string "a"; expected a list
    settings.toml:2:1: unknown setting `enableIPv7`; did you mean `enableIPv4`?
    settings.toml:3:14: enableIPv6 cannot be the string "perhaps"; expected true or false
    "#);
}

#[test]
fn what_was_asked_for_must_be_there() {
    let folder = Folder::new("asked");
    let two = folder
        .file("two.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: a}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: b}}\n");
    let none = folder.file("none.yaml", "{apiVersion: v1, kind: Node, metadata: {name: a}}\n");
    for (args, expected) in [
        (format!("--manifests {two} --pod default/c"), "the manifests hold no pod default/c\n  there are default/a, default/b"),
        (format!("--manifests {none} --pod c"), "they hold no pod at all"),
        (format!("--pod-file {two}"), "two.yaml:3:1: the file holds more than one Pod"),
        (format!("--pod-file {none}"), "none.yaml:1:1: holds no Pod"),
        (format!("--manifests {two}"), "required"),
        (format!("--manifests {two} --pod a/b/c"), "expected NS/NAME"),
        (format!("--manifests {two} --pod a --mutation byom-decide-once"), "Spiderpool has no mutation `byom-decide-once`"),
        (format!("--manifests {two} --pod a --master here"), "--master"),
        (format!("--manifests {MANIFESTS}/gone --pod a"), "cannot be read: no such file"),
    ] {
        let err = refused(&folder, &args);
        assert!(err.contains(expected), "{args}: {err}");
    }
}

#[test]
fn records_that_cannot_be_read_are_told_with_their_place() {
    let folder = Folder::new("records");
    let pool = |name: &str, cidr: u8, records: &str| {
        format!(
            "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\nmetadata: {{name: {name}}}\n\
             spec: {{ipVersion: 4, subnet: 10.{cidr}.0.0/24, ips: [10.{cidr}.0.1-10.{cidr}.0.9], default: true}}\n\
             status:\n  allocatedIPs: '{records}'\n---\n"
        )
    };
    let text = [pool("cut", 1, "{"), pool("odd", 2, r#"{"zz":{"pod":"a/b","podUid":"c"}}"#)].concat();
    let others = "{apiVersion: v1, kind: Namespace, metadata: {name: default}}\n---\n\
                  {apiVersion: v1, kind: Node, metadata: {name: n1}}\n---\n\
                  {apiVersion: v1, kind: Pod, metadata: {name: a}}\n";
    let manifests = folder.file("pools.yaml", &[&text, others].concat());
    let (code, out, err) = explain(&format!("--manifests {manifests} --pod a --node n1"));
    assert!(code == 0 && out.contains("eth0 gets 10.2.0.1/24 from odd"), "{err}{out}");
    for warning in [
        "pools.yaml:6:17: SpiderIPPool cut: status.allocatedIPs: unreadable JSON text: EOF",
        "pools.yaml:13:17: SpiderIPPool odd: status.allocatedIPs: the key `zz` is no address",
    ] {
        assert!(err.contains(warning), "{err}");
    }
}
