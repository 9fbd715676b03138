//! `explain` gives the same address as a run: both use core's decision, but on one side with a cluster as kubectl prints it, on the other
//! with an agent's caches, a kubelet's request and writes of pools.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use ipam_reports::ExplainReport;
use kube_sim::trace::record::{Record, What};
use serde_json::json;
use sim_config::time::SimTime;
use sim_harness::plan::Plan;
use sim_harness::system::RunOptions;
use sim_harness::world::{Stage, run};
use sim_spiderpool::Plans;
use sim_spiderpool::workload::{IpamNote, SpiderPlan};

use super::{ipam_sim, scenario, scratch};

/// Small clusters in which every tier occurs and pools are tight.
const CLUSTERS: &str = r#"
name = "explained"
why = "Random clusters for a test"
seeds = 1
[phases]
safety = "30s"
liveness = "1s"
[workload]
kind = "spiderpool"
families = ["ipv4", "ipv6", "dual"]
pools = "1..4"
addresses = "1..9"
default_pools = "0..2"
apps = "1..3"
nics = "1..3"
kinds = ["stateful-set", "deployment", "pod", "daemon-set", "job"]
wishes = WISHES
pool_changes = "0..2"
pool_change = ["disable", "exclude", "retarget", "reserve"]
events = "0s..1s"
[check]
always = ["revisions-only-grow"]
"#;

/// The ways in which pods get their pools. A namespace that names pools hides those of the CNI configuration, and both hide the cluster's.
const WISHES: [&str; 3] =
    [r#"["cluster-default", "ippool", "wildcard"]"#, r#"["cni-config", "ippools"]"#, r#"["namespace", "nameless", "ippool"]"#];

/// The first ADD of a run: its pod, its time, and its result.
struct First {
    pod: String,
    nic: String,
    begun: SimTime,
    /// The addresses; none if the agent refused.
    given: BTreeSet<IpAddr>,
}

/// The first ADD; `None` if there is none, or if another ADD began before it had ended: that one may have been faster. An ADD whose own
/// NICs or families conflicted does not count either: they are served concurrently, and `explain` serves them in turn.
fn first_add(records: &[Record]) -> Option<First> {
    let mut adds = records.iter().filter_map(|record| match &record.what {
        What::Note { note, .. } => match note.downcast_ref()? {
            note @ (IpamNote::AddBegun { .. } | IpamNote::AddEnded { .. }) => Some((record.at, note)),
            _ => None,
        },
        _ => None,
    });
    let (begun, IpamNote::AddBegun { .. }) = adds.next()? else { return None };
    let (_, IpamNote::AddEnded { pod, nic, result, conflicts: 0, .. }) = adds.next()? else { return None };
    let given = result.iter().flat_map(|given| given.iter()).map(|given| given.address).collect();
    Some(First { pod: pod.to_string(), nic: nic.to_string(), begun, given })
}

/// The explanation for the cluster just before `first`.
fn explained(folder: &Path, plan: &Plan, spider: &SpiderPlan, first: &First) -> ExplainReport {
    let path = |name: &str| folder.join(name).display().to_string();
    let (file, dump, settings, cni) = (path("plan.toml"), path("cluster.yaml"), path("settings.toml"), path("cni.conf"));
    fs::write(&file, plan.to_toml()).unwrap();
    let until = format!("{}us", first.begun.as_micros() - 1);
    let (_, _, err) = ipam_sim(&["replay", &file, "--dump", &dump, "--until", &until]);
    assert!(Path::new(&dump).exists(), "{err}");
    let stated: Vec<String> = spider.settings.iter().map(|(name, value)| format!("{name} = {value:?}\n")).collect();
    fs::write(&settings, stated.concat()).unwrap();
    let ipam = json!({"type": "spiderpool", "default_ipv4_ippool": spider.cni_ipv4, "default_ipv6_ippool": spider.cni_ipv6});
    let network = json!({"cniVersion": "0.3.1", "name": "macvlan", "type": "macvlan", "ipam": ipam});
    fs::write(&cni, network.to_string()).unwrap();
    let place = ["--manifests", &dump, "--settings", &settings, "--cni-config", &cni];
    let asked = ["explain", "--pod", &first.pod, "--nic", &first.nic, "--format", "json"];
    let (code, out, err) = ipam_sim(&[&asked[..], &place].concat());
    assert_eq!(code, 0, "{err}");
    ExplainReport::from_json(&out).unwrap()
}

#[test]
fn explain_gives_the_address_that_the_run_gives() {
    let clusters = WISHES.map(|wishes| scenario("explained", &CLUSTERS.replace("WISHES", wishes)));
    let folder = scratch("explained");
    let (mut given, mut refused, mut tiers) = (0, 0, BTreeSet::new());
    for seed in 0..60_u64 {
        let plan = clusters[seed as usize % WISHES.len()].draw(seed);
        let Some(spider) = plan.workload.get().map(Plans::cluster) else { panic!("another workload") };
        let outcome = run(&plan, &Stage::new(Vec::new()), RunOptions { recording: true, ..RunOptions::default() });
        let (records, _) = outcome.recording.unwrap();
        let Some(first) = first_add(&records) else { continue };
        let report = explained(&folder, &plan, spider, &first);
        let families = report.nics.iter().flat_map(|nic| &nic.families);
        let said: BTreeSet<IpAddr> = match report.error.as_ref().or(report.allocate_error.as_ref()) {
            Some(_) => BTreeSet::new(),
            None => families.filter_map(|family| family.address.as_ref()?.split('/').next()?.parse().ok()).collect(),
        };
        assert_eq!(said, first.given, "seed {seed}, {} of {}: {report:?}", first.nic, first.pod);
        *if said.is_empty() { &mut refused } else { &mut given } += 1;
        tiers.insert(report.tier);
    }
    assert!(given >= 20 && refused >= 3, "{given} given, {refused} refused");
    assert!(tiers.len() >= 5, "{tiers:?}");
}
