//! The explanation of each pod; together they show every tier and every reason.

use std::collections::BTreeSet;

use ipam_spiderpool::select::{Reason, Tier};
use testkit::Folder;

use super::{MANIFESTS, explain, record};

/// A name for the story, the pod, and further flags.
const STORIES: [(&str, &str, &str); 26] = [
    ("subnet", "shop/inventory-6c9d8-zz9k4", ""),
    ("subnet-switched-off", "shop/inventory-6c9d8-zz9k4", "--settings ../../scenarios/settings/spiderpool-conf.yaml"),
    ("recorded", "shop/inventory-6c9d8-q7x2p", ""),
    ("two-nics", "shop/two-nics", ""),
    ("nameless", "shop/nameless", ""),
    ("reasons", "shop/reasons", ""),
    ("no-network", "shop/no-network", ""),
    ("network-of-cluster", "shop/no-network", "--settings ../../scenarios/settings/spiderpool-conf.yaml"),
    ("namespace", "shop/namespace", ""),
    ("moved", "shop/moved", ""),
    ("pending", "shop/pending", ""),
    ("missing", "shop/missing", ""),
    ("twice", "shop/twice", ""),
    ("equals", "shop/equals", ""),
    ("nothing-matches", "shop/nothing-matches", ""),
    ("exhausted", "shop/exhausted", ""),
    ("stored-badly", "shop/stored-badly", "--manifests tests/explain/stored-badly.yaml"),
    ("auto-pool", "shop/orders-5b7f9-k2m4n", ""),
    ("auto-pool-of-agent", "shop/batch-x8c2v", ""),
    ("auto-pool-too-large", "shop/archive-0", ""),
    ("malformed", "shop/malformed", ""),
    ("cni", "plain/cni", "--cni-config ../../scenarios/manifests/10-macvlan.conflist"),
    ("sriov", "plain/sriov", "--cni-config ../../scenarios/manifests/20-sriov.conf --master 10.30.0.7"),
    ("default", "plain/default", ""),
    ("finished", "plain/finished", ""),
    ("outdated", "legacy/outdated", ""),
];

fn flags(pod: &str, more: &str, profile: &str) -> String {
    format!("--manifests {MANIFESTS} --pod {pod} {more} --profile {profile}")
}

/// The output for a pod in a format; in the profile upstream only if it differs.
fn told(pod: &str, more: &str, format: &str) -> String {
    let told = |profile: &str| {
        let (code, out, err) = explain(&format!("{} --format {format}", flags(pod, more, profile)));
        assert_eq!(code, 0, "{pod} {more}: {err}");
        format!("{out}{err}")
    };
    let (hardened, upstream) = (told("hardened"), told("upstream"));
    if hardened.replace("hardened", "upstream") == upstream {
        hardened
    } else {
        format!("{hardened}\n---- and upstream ----\n\n{upstream}")
    }
}

#[test]
fn every_pod_has_its_explanation() {
    for (name, pod, more) in STORIES {
        insta::assert_snapshot!(name, told(pod, more, "text"));
    }
}

#[test]
fn every_pod_has_its_record() {
    for (name, pod, more) in STORIES {
        insta::assert_snapshot!(format!("{name}.json"), told(pod, more, "json"));
    }
}

#[test]
fn the_pods_show_every_tier_and_every_reason() {
    let (mut tiers, mut reasons) = (BTreeSet::new(), BTreeSet::new());
    for (_, pod, more) in STORIES {
        let report = record(&flags(pod, more, "hardened"));
        reasons.extend(report.families().flat_map(|(_, family)| family.rejected.iter().map(|rejected| rejected.reason.clone())));
        for rejected in report.families().flat_map(|(_, family)| &family.rejected) {
            assert!(!rejected.detail.is_empty(), "{pod}: {rejected:?} has no words");
        }
        tiers.insert(report.tier);
    }
    let all = Tier::ALL.into_iter().chain([Tier::None]).map(|tier| tier.name().to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(tiers, all);
    assert_eq!(reasons, Reason::ALL.into_iter().map(|reason| reason.code().to_owned()).collect::<BTreeSet<_>>());
}

#[test]
fn every_pod_of_the_manifests_is_in_a_story() {
    let pods = std::fs::read_to_string(format!("{MANIFESTS}/pods.yaml")).unwrap();
    let names: Vec<&str> = pods.lines().filter_map(|line| line.strip_prefix("    name: ")).collect();
    assert!(names.len() > 15);
    for name in names {
        assert!(STORIES.iter().any(|(_, pod, _)| pod.ends_with(&format!("/{name}"))), "no story is about {name}");
    }
}

#[test]
fn nics_that_share_a_pool_get_addresses_of_their_own_but_for_upstream() {
    for (profile, distinct) in [("hardened", 2), ("upstream", 1)] {
        let report = record(&flags("shop/two-nics", "", profile));
        let addresses: BTreeSet<_> = report.families().map(|(_, family)| family.address.clone().unwrap()).collect();
        assert_eq!(addresses.len(), distinct, "{profile}");
    }
    // The deviation makes the difference.
    let mended = record(&flags("shop/two-nics", "--without one-record-per-pod", "upstream"));
    let addresses: BTreeSet<_> = mended.families().map(|(_, family)| family.address.clone()).collect();
    assert_eq!((addresses.len(), mended.deviations.is_some()), (2, true));
}

#[test]
fn node_and_pod_may_come_from_elsewhere() {
    let report = record(&format!("{} --node n1", flags("shop/moved", "", "hardened")));
    assert_eq!(report.error.unwrap().class, "all-filtered");
    let folder = Folder::new("elsewhere");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: new\n  namespace: shop\n  annotations:\n    \
               ipam.spidernet.io/ippool: '{\"ipv4\": [\"no-node-name\"]}'\n";
    let file = folder.file("pod.yaml", pod);
    let report = record(&format!("--manifests {MANIFESTS} --pod-file {file} --node n3"));
    let (_, family) = report.families().next().unwrap();
    assert_eq!((report.pod.as_str(), family.address.as_deref()), ("shop/new", Some("10.20.3.10/24")));
}
