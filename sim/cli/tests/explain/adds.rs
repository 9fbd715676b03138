//! The answer of an ADD, apart from selection: reuse, overlapping pools, partial failures, and pods for which the agent is not called at
//! all.

use ipam_reports::ExplainReport;
use ipam_reports::explain::FamilyAnswer;
use testkit::Folder;

use super::{explain, record};

/// Calls `ask` with a file of this name and text.
fn with_file<T>(name: &str, text: &str, ask: impl FnOnce(&str) -> T) -> T {
    let folder = Folder::new("adds");
    ask(&folder.file(name, text))
}

/// Objects, each on one line.
struct Scene(Vec<String>);

fn object(api_version: &str, kind: &str, rest: &str) -> String {
    format!("{{apiVersion: {api_version}, kind: {kind}, {rest}}}")
}

fn pool(name: &str, ips: &str, more: &str, records: &str) -> String {
    let status = if records.is_empty() { String::new() } else { format!(", status: {{allocatedIPs: '{{{records}}}'}}") };
    let spec = format!("{{ipVersion: 4, subnet: 10.1.0.0/24, ips: [{ips}]{more}}}");
    let meta = format!("{{name: {name}, uid: {name}, generation: 1, creationTimestamp: '2026-01-01T00:00:00Z'}}");
    object("spiderpool.spidernet.io/v2beta1", "SpiderIPPool", &format!("metadata: {meta}, spec: {spec}{status}"))
}

fn pod(annotation: &str, owner: &str, spec: &str) -> String {
    let owner = if owner.is_empty() { String::new() } else { format!(", ownerReferences: [{{{owner}, controller: true, uid: of}}]") };
    let annotations = format!("{{v1.multus-cni.io/default-network: kube-system/x, {annotation}}}");
    object(
        "v1",
        "Pod",
        &format!("metadata: {{name: web-0, namespace: default, uid: new, annotations: {annotations}{owner}}}, spec: {{{spec}}}"),
    )
}

fn endpoint(name: &str, owner: &str, meta: &str) -> String {
    let (kind, owner) = owner.split_once('/').unwrap();
    let status = format!(
        "{{current: {{uid: old, node: n1, ips: [{{interface: eth0, ipv4: 10.1.0.5/24, ipv4Pool: a, vlan: 0}}]}}, \
         ownerControllerType: {kind}, ownerControllerName: {owner}}}"
    );
    let meta = format!("{{name: {name}, namespace: default, finalizers: [spiderpool.spidernet.io]{meta}}}");
    object("spiderpool.spidernet.io/v2beta1", "SpiderEndpoint", &format!("metadata: {meta}, status: {status}"))
}

const NAMED: &str = r#"ipam.spidernet.io/ippool: '{"ipv4": ["a", "b"]}'"#;
const SET: &str = "apiVersion: apps/v1, kind: StatefulSet, name: web";
const OLD: &str = r#""10.1.0.5": {"pod": "default/web-0", "podUid": "old"}"#;

impl Scene {
    /// A scene of a pod and these objects.
    fn new(pod: String, objects: impl IntoIterator<Item = String>) -> Self {
        let set = object("apps/v1", "StatefulSet", "metadata: {name: web, namespace: default, uid: of}, spec: {replicas: 1, selector: {}}");
        let namespace = object("v1", "Namespace", "metadata: {name: default}");
        Self([namespace, set, pod].into_iter().chain(objects).collect())
    }

    /// The restarted pod of a StatefulSet, with a pool `a` as described by `more` and `records`, and another one.
    fn restarted(more: &str, records: &str, endpoint: String) -> Self {
        let pools = [pool("a", "10.1.0.1-10.1.0.9", more, records), pool("b", "10.1.0.20-10.1.0.29", "", "")];
        Self::new(pod(NAMED, SET, ""), pools.into_iter().chain([endpoint]))
    }

    fn flags<T>(&self, flags: &str, ask: impl FnOnce(&str) -> T) -> T {
        with_file("objects.yaml", &self.0.join("\n---\n"), |file| ask(&format!("--manifests {file} --pod default/web-0 {flags}")))
    }

    fn record(&self, flags: &str) -> ExplainReport {
        self.flags(flags, record)
    }

    /// The last section of the text.
    fn verdict(&self, flags: &str) -> String {
        let (code, out, err) = self.flags(flags, explain);
        assert_eq!(code, 0, "{err}");
        out.rsplit("\n\n").next().unwrap().to_owned()
    }
}

fn only(report: &ExplainReport) -> &FamilyAnswer {
    let mut families = report.families();
    let (_, family) = families.next().expect("one NIC and family");
    assert!(families.next().is_none());
    family
}

#[test]
fn the_pod_of_a_stateful_set_gets_its_predecessors_address_again() {
    let scene = Scene::restarted("", OLD, endpoint("web-0", "StatefulSet/web", ""));
    for profile in ["hardened", "upstream"] {
        let report = scene.record(&format!("--profile {profile}"));
        let reuse = report.reuse.as_ref().unwrap();
        assert_eq!((only(&report).address.as_deref(), only(&report).reused), (Some("10.1.0.5/24"), true), "{profile}");
        assert_eq!((reuse.endpoint.as_str(), reuse.uid.as_str(), reuse.own), ("default/web-0", "old", false));
    }
    insta::assert_snapshot!(scene.verdict(""), @"eth0 gets 10.1.0.5/24 from a, its predecessor's (endpoint default/web-0, pod UID old)");
}

#[test]
fn a_full_pool_serves_the_successor_of_a_pod_that_drew_from_it() {
    let full = pool("a", "10.1.0.5", "", OLD);
    let alone = r#"ipam.spidernet.io/ippool: '{"ipv4": ["a"]}'"#;
    let scene = Scene::new(pod(alone, SET, ""), [full, endpoint("web-0", "StatefulSet/web", "")]);
    let report = scene.record("");
    assert_eq!((only(&report).address.as_deref(), report.error.is_none()), (Some("10.1.0.5/24"), true));
    assert_eq!(only(&report).rejected[0].reason, "exhausted");
}

#[test]
fn what_speaks_against_reuse_is_told_and_upstream_looks_at_none_of_it() {
    let of_set = || endpoint("web-0", "StatefulSet/web", "");
    let foreign = r#""10.1.0.5": {"pod": "default/other", "podUid": "o"}"#;
    let going = endpoint("web-0", "StatefulSet/web", ", deletionTimestamp: '2026-01-02T00:00:00Z'");
    let cases = [
        (Scene::restarted("", foreign, of_set()), "10.1.0.1/24", "a holds a record of it for default/other", None),
        (Scene::restarted(", disable: true", OLD, of_set()), "10.1.0.20/24", "a is rejected (disabled)", Some("10.1.0.5/24")),
        (Scene::restarted(", excludeIPs: [10.1.0.5]", OLD, of_set()), "10.1.0.1/24", "a may not give it away", Some("10.1.0.5/24")),
        (Scene::restarted("", OLD, going), "10.1.0.1/24", "it is being deleted", Some("10.1.0.5/24")),
        (Scene::restarted("", OLD, endpoint("web-0", "Pod/web-0", "")), "10.1.0.1/24", "its owner is Pod web-0", Some("10.1.0.5/24")),
    ];
    for (scene, address, why, upstream) in cases {
        let report = scene.record("");
        assert_eq!((only(&report).address.as_deref(), only(&report).reused), (Some(address), false), "{why}");
        assert!(report.remarks.iter().any(|remark| remark.contains(why)), "{why}: {:?}", report.remarks);
        let of_upstream = scene.record("--profile upstream");
        assert_eq!(only(&of_upstream).address.as_deref(), upstream, "{why}");
        assert_eq!(of_upstream.error.map(|error| error.class), upstream.is_none().then(|| "data-broken".to_owned()));
    }
    // A single deviation of upstream is enough.
    let disabled = Scene::restarted(", disable: true", OLD, of_set()).record("--mutation static-reuse-skips-filter");
    assert_eq!(only(&disabled).address.as_deref(), Some("10.1.0.5/24"));
}

#[test]
fn an_address_without_a_record_is_recorded_again_but_for_upstream() {
    let scene = Scene::restarted("", "", endpoint("web-0", "StatefulSet/web", ""));
    assert!(scene.record("").remarks.is_empty());
    let upstream = scene.record("--profile upstream");
    assert_eq!(only(&upstream).address.as_deref(), Some("10.1.0.5/24"));
    assert!(upstream.remarks[0].contains("holds no record"), "{:?}", upstream.remarks);
}

#[test]
fn the_pod_of_a_vm_uses_the_endpoint_of_its_instance() {
    let instance = object("kubevirt.io/v1", "VirtualMachineInstance", "metadata: {name: vm1, namespace: default, uid: of}, spec: {}");
    let owner = "apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, name: vm1";
    let record = r#""10.1.0.5": {"pod": "default/vm1", "podUid": "old"}"#;
    let scene = Scene::new(
        pod(NAMED, owner, ""),
        [
            instance,
            pool("a", "10.1.0.1-10.1.0.9", "", record),
            pool("b", "10.1.0.20", "", ""),
            endpoint("vm1", "VirtualMachineInstance/vm1", ""),
        ],
    );
    let report = scene.record("");
    assert_eq!((only(&report).address.as_deref(), report.reuse.as_ref().unwrap().endpoint.as_str()), (Some("10.1.0.5/24"), "default/vm1"));
}

#[test]
fn a_stateless_pod_inherits_nothing() {
    let scene = Scene::new(
        pod(NAMED, "", ""),
        [pool("a", "10.1.0.1-10.1.0.9", "", OLD), pool("b", "10.1.0.20", "", ""), endpoint("web-0", "Pod/web-0", "")],
    );
    let report = scene.record("");
    assert_eq!((only(&report).address.as_deref(), report.reuse.is_none()), (Some("10.1.0.1/24"), true));
    assert!(report.remarks[0].contains("stateless"), "{:?}", report.remarks);
}

#[test]
fn a_pool_that_overlaps_another_one_serves_nobody_but_upstreams_pods() {
    let scene = Scene::new(pod(NAMED, "", ""), [pool("a", "10.1.0.1-10.1.0.9", "", ""), pool("b", "10.1.0.5-10.1.0.12", "", "")]);
    let report = scene.record("");
    assert_eq!((only(&report).address.as_deref(), report.error.as_ref().unwrap().class.as_str()), (None, "exhausted"));
    assert!(report.families().all(|(_, family)| family.supplies.iter().all(|supply| supply.unavailable.as_deref() == Some("overlap"))));
    for flags in ["--profile upstream", "--mutation overlap-admitted-forever"] {
        assert_eq!(only(&scene.record(flags)).address.as_deref(), Some("10.1.0.1/24"), "{flags}");
    }
}

#[test]
fn an_add_that_fails_for_one_nic_gives_none_an_address() {
    let two = r#"ipam.spidernet.io/ippools: '[{"ipv4": ["a"]}, {"ipv4": ["a"]}]', k8s.v1.cni.cncf.io/networks: kube-system/y"#;
    let report = Scene::new(pod(two, "", ""), [pool("a", "10.1.0.1", "", "")]).record("");
    assert_eq!(report.families().map(|(_, family)| family.address.clone()).collect::<Vec<_>>(), [None, None]);
    assert_eq!(report.error, report.allocate_error);
    insta::assert_snapshot!(report.error.unwrap().message, @"failed to allocate any IPv4 IP address to NIC 1 from IPPools: a (all IP addresses used out: NICs before this one take what is left)");
}

#[test]
fn upstream_takes_any_of_several_own_records() {
    let records = r#""10.1.0.1": {"pod": "default/web-0", "podUid": "new"}, "10.1.0.2": {"pod": "default/web-0", "podUid": "new"}"#;
    let scene = Scene::new(pod(NAMED, "", ""), [pool("a", "10.1.0.1-10.1.0.9", "", records), pool("b", "10.1.0.20", "", "")]);
    assert_eq!(only(&scene.record("--profile upstream")).possible[..2], ["10.1.0.1/24", "10.1.0.20/24"]);
    let alone = scene.record("--profile upstream --without ties-in-any-order");
    assert_eq!(only(&alone).possible, ["10.1.0.1/24", "10.1.0.2/24"]);
}

#[test]
fn whoever_is_not_asked_or_answers_nothing_is_told_as_an_error() {
    let pools = || [pool("a", "10.1.0.1", "", ""), pool("b", "10.1.0.20", "", "")];
    let class = |scene: &Scene, flags: &str| scene.record(flags).error.map(|error| error.class);
    let on_node = Scene::new(pod(NAMED, "", "hostNetwork: true"), pools());
    assert_eq!(class(&on_node, "").as_deref(), Some("host-network"));
    let nobody = Scene::new(pod("ipam.spidernet.io/ippool: 'null'", "", ""), pools());
    assert_eq!(class(&nobody, "--profile upstream").as_deref(), Some("no-address"));
    insta::assert_snapshot!(nobody.verdict(""), @"no address no-candidate: no IPPool available: no family of interface eth0 has a candidate");
    let empty = Scene::new(pod(r#"ipam.spidernet.io/ippool: '{"ipv4": [""]}'"#, "", ""), pools());
    assert!(empty.record("").error.unwrap().message.contains("IPPool \"\" is not known"));
}

#[test]
fn the_settings_of_the_cluster_itself_count_unless_others_are_named() {
    let data = "metadata: {name: spiderpool-conf, namespace: kube-system}, data: {conf.yml: 'enableStatefulSet: false'}";
    let mut scene = Scene::restarted("", OLD, endpoint("web-0", "StatefulSet/web", ""));
    assert!(scene.record("").settings.is_none());
    scene.0.push(object("v1", "ConfigMap", data));
    let report = scene.record("");
    assert_eq!((only(&report).reused, report.settings.as_ref().unwrap().ends_with("ConfigMap kube-system/spiderpool-conf")), (false, true));
    let named = with_file("settings.toml", "enableStatefulSet = true\n", |file| scene.record(&format!("--settings {file}")));
    assert!(only(&named).reused);
}
