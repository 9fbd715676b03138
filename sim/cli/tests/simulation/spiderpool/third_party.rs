//! Applications of a kind that Spiderpool does not know, on subnets: agents create their pools (A §2.2, §8.4), and the controller deletes
//! them when it finds at the API server that the application is gone (A §8.6).

use std::collections::BTreeSet;

use ipam_spiderpool::SpiderIPPool;
use ipam_spiderpool::names::{LABEL_INTERFACE, LABEL_OWNER_APPLICATION_KIND};
use k8s_openapi::api::core::v1::Pod;
use kube_sim::object::typed_ref;
use sim_config::time::SimTime;
use sim_harness::system::RunOptions;
use sim_harness::world::{Outcome, Stage, run};

use super::scenario;

/// Two NICs, two families, one application whose pods start on two nodes at the same time.
const CLONES: &str = r#"
name = "clones"
why = "Do several agents that make the pools of one application make each once?"
phases = { safety = "3m", liveness = "3m" }
[workload]
kind = "spiderpool"
nodes = 2
controllers = 2
admission = true
families = "dual"
pools = 1
subnets = 2
nics = 2
apps = 1
kinds = ["clone-set"]
wishes = "subnet"
keeps_pools = 0.0
replicas = 6
arrival = "1s"
life = "120s"
deleted = 1.0
replaced = 0.0
scaled = 0.0
rolled_out = 0.0
pods_deleted = 0
grace = 2
[check]
always = ["no-address-has-two-live-sandboxes", "no-address-is-recorded-twice", "nics-have-distinct-addresses"]
eventually = [{ claim = "pods-get-addresses", within = "2m" }, { claim = "records-equal-endpoints", within = "2m" }]
"#;

/// At most one pod; it is deleted after two minutes, and its workload does not exist.
#[test]
fn the_pool_of_a_workload_that_nobody_knows_stays() {
    let text = CLONES.replace("clone-set", "custom-resource").replace("replicas = 6", "replicas = 1");
    for seed in 1..4 {
        let plan = scenario("custom-resources", &text).draw(seed);
        let outcome = run(&plan, &Stage::new(Vec::new()), RunOptions { dump: true, ..RunOptions::default() });
        assert!(outcome.violations.is_empty(), "seed {seed}: {:?}", outcome.violations);
        let pools = outcome.objects.iter().filter_map(|(_, object)| object.as_any().downcast_ref::<SpiderIPPool>());
        let kinds = pools.filter_map(|pool| label(pool, LABEL_OWNER_APPLICATION_KIND));
        let of_those = kinds.filter(|kind| ["CloneSet", "BroadcastJob"].contains(kind));
        assert_eq!(of_those.count(), 4, "seed {seed}: one for each NIC and family");
        assert!(!outcome.objects.iter().any(|(_, object)| object.as_any().is::<Pod>()), "seed {seed}");
    }
}

fn pools_of_clones(outcome: &Outcome) -> Vec<SpiderIPPool> {
    let pools = outcome.objects.iter().filter_map(|(_, object)| object.as_any().downcast_ref::<SpiderIPPool>());
    pools.filter(|pool| label(pool, LABEL_OWNER_APPLICATION_KIND) == Some("CloneSet")).cloned().collect()
}

fn label<'p>(pool: &'p SpiderIPPool, name: &str) -> Option<&'p str> {
    pool.metadata.labels.as_ref()?.get(name).map(String::as_str)
}

#[test]
fn agents_make_one_pool_for_each_nic_and_family_of_a_third_party_application_and_it_goes_with_that() {
    for seed in 1..4 {
        let plan = scenario("clones", CLONES).draw(seed);
        let until = |seconds| {
            let until = Some(SimTime::from_secs(seconds));
            let outcome = run(&plan, &Stage::new(Vec::new()), RunOptions { dump: true, until, ..RunOptions::default() });
            assert!(outcome.violations.is_empty(), "seed {seed}: {:?}", outcome.violations);
            outcome
        };
        let meanwhile = until(110);
        let pools = pools_of_clones(&meanwhile);
        let of: BTreeSet<_> = pools.iter().map(|pool| (label(pool, LABEL_INTERFACE), pool.spec.ip_version)).collect();
        assert_eq!((pools.len(), of.len()), (4, 4), "seed {seed}: {of:?}");
        let pods: Vec<&Pod> =
            meanwhile.objects.iter().filter(|(_, object)| object.as_any().is::<Pod>()).map(|(_, object)| typed_ref(&**object)).collect();
        assert_eq!(pods.len(), 6, "seed {seed}");
        assert!(pods.iter().all(|pod| pod.status.as_ref().is_some_and(|status| status.pod_ip.is_some())), "seed {seed}");
        assert!(pools.iter().all(|pool| pool.status.as_ref().unwrap().allocated_ip_count == Some(6)), "seed {seed}");
        assert!(pools_of_clones(&until(355)).is_empty(), "seed {seed}: they go with the application");
    }
}
