//! The oracle on the inputs of the recorded selections: subnets, annotations in all their forms, networks. The answers of upstream's code
//! are compared elsewhere; here the hardened form and the oracle have to agree.

use std::path::Path;

use ipam_spiderpool::Policy;
use ipam_spiderpool::select::{NetworkConfig, Objects, Request, Settings, TopController, select};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use sim_spiderpool::oracle;

/// The objects of a case, and its pods.
fn objects(cluster: &Value) -> (Objects, Vec<Pod>) {
    let (mut objects, mut pods) = (Objects::default(), Vec::new());
    for object in cluster.as_array().unwrap() {
        macro_rules! into {
            ($kept:expr) => {
                drop($kept.insert(serde_json::from_value(object.clone()).unwrap()))
            };
        }
        match object["kind"].as_str().unwrap() {
            "Namespace" => into!(objects.namespaces),
            "Node" => into!(objects.nodes),
            "Pod" => pods.push(serde_json::from_value(object.clone()).unwrap()),
            "SpiderIPPool" => into!(objects.pools),
            "SpiderReservedIP" => into!(objects.reserved_ips),
            "SpiderSubnet" => into!(objects.subnets),
            "ReplicaSet" => into!(objects.replica_sets),
            "Deployment" => into!(objects.deployments),
            "StatefulSet" => into!(objects.stateful_sets),
            "DaemonSet" => into!(objects.daemon_sets),
            "Job" => into!(objects.jobs),
            "CronJob" => into!(objects.cron_jobs),
            _ => {}
        }
    }
    (objects, pods)
}

fn settings(case: &Value) -> Settings {
    let mut settings = Settings::default();
    for (key, value) in case["settings"].as_object().unwrap() {
        let name = match key.as_str() {
            "multusClusterNetwork" => "MULTUS_CLUSTER_NETWORK",
            "maxAllocatedIPs" => "SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS",
            name => name,
        };
        let value = value.as_str().map_or_else(|| if value.is_null() { String::new() } else { value.to_string() }, str::to_owned);
        settings.set(name, &value).unwrap();
    }
    settings
}

#[test]
fn recorded_inputs_are_selected_as_the_oracle_says() {
    let folder = std::env::var_os("IPAM_VECTORS");
    let folder = folder.map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../core/spiderpool/tests/data"), Into::into);
    let text = std::fs::read_to_string(folder.join("selection.jsonl")).unwrap();
    let (mut asked, mut subnets, mut differences) = (0, 0, Vec::new());
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (objects, pods) = objects(&case["cluster"]);
        let is_wanted = |pod: &&Pod| {
            let name = |name: &Option<String>| name.clone().unwrap_or_default();
            case["pod"] == format!("{}/{}", name(&pod.metadata.namespace), name(&pod.metadata.name))
        };
        let pod = pods.iter().find(is_wanted).unwrap();
        let (settings, network): (_, NetworkConfig) = (settings(&case), serde_json::from_value(case["cni_config"].clone()).unwrap());
        let (node, nic, policy) = (case["node"].as_str().unwrap(), case["nic"].as_str().unwrap(), Policy::hardened());
        let request = Request { pod, node, nic, cni: &network.ipam, master: &[], settings: &settings, policy: &policy, made: false };
        let selection = select(&objects, &request);
        // The oracle does not cover what comes before the rules.
        let Ok(controller) = TopController::of(&objects, pod) else { continue };
        if selection.error.as_ref().is_some_and(|error| error.class() == "dead-pod") {
            continue;
        }
        let answer = oracle::answer(&objects, &request, &controller, &policy);
        asked += 1;
        subnets += usize::from(answer.tier == "subnet");
        differences.extend(answer.difference(&selection).map(|(_, why)| format!("{}: {why}", case["id"])));
    }
    assert!(asked > 100 && subnets > 5, "{asked} cases, {subnets} of subnets");
    assert!(differences.is_empty(), "{} of {asked} differ:\n{}", differences.len(), differences.join("\n"));
}
