//! Recorded sequences, played to an agent over the API server in memory.

use std::sync::Arc;

use ipam_spiderpool::ipam::{AddAnswer, AddRequest, Agent, AgentConfig, AllocatedIp, BatchRequest, DelRequest, IpamError};
use ipam_spiderpool::select::IpamConfig;
use ipam_spiderpool::{Policy, SpiderEndpoint, SpiderIPPool};
use k8s_openapi::api::core::v1::Pod;
use kube_machinery::api::{Call, DeleteOptions, ObjectKey};
use serde_json::{Map, Value, json};

use crate::api_server::{Hurry, World, run};

/// One sequence in progress.
pub(crate) struct Flow {
    pub(crate) world: World,
    agent: Agent<World, Hurry, World>,
    policy: Policy,
    settings: Value,
}

fn key(text: &str) -> ObjectKey {
    match text.split_once('/') {
        Some((namespace, name)) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster(text),
    }
}

fn agent(world: &World, policy: Policy, settings: &Value) -> Agent<World, Hurry, World> {
    let mut config = AgentConfig::new("node-1", policy);
    for (name, value) in settings.as_object().unwrap() {
        let name = match name.as_str() {
            "multusClusterNetwork" => "MULTUS_CLUSTER_NETWORK",
            "maxAllocatedIPs" => "SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS",
            name => name,
        };
        let value = match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        assert_eq!(config.settings.set(name, &value), Ok(true), "{name}");
    }
    Agent::new(world.clone(), Hurry::default(), world.clone(), (), config)
}

impl Flow {
    pub(crate) fn new(case: &Value, policy: Policy) -> Self {
        let world = World::default();
        for object in case["initial"].as_array().unwrap() {
            world.put(object.clone());
        }
        let settings = case["settings"].clone();
        Self { agent: agent(&world, policy, &settings), world, policy, settings }
    }

    /// Carries out a step; returns its answer in the form of the recorded ones.
    pub(crate) fn step(&mut self, op: &Value) -> Value {
        let text = |name: &str| op[name].as_str().unwrap_or_default();
        let uid: Arc<str> = text("uid").into();
        match text("op") {
            "add" => return told(run(self.agent.add(&self.add_request(op))).expect("the server answers")),
            "del" => {
                let (container_id, nic) = ("c".into(), text("nic").into());
                let request = DelRequest { container_id, nic, pod: key(text("pod")), pod_uid: uid, deadline: None };
                return ended(run(self.agent.del(&request)).expect("the server answers").map(drop));
            }
            "release-ips" => {
                let conflict = op["conflict_flag"] == json!(true);
                let request = BatchRequest { pod: key(text("pod")), pod_uid: uid, conflict, conflicting: [].into(), deadline: None };
                return ended(run(self.agent.release_ips(&request)).expect("the server answers"));
            }
            "create-pod" | "create-sts" | "create-reserved" => self.world.put(op["object"].clone()),
            "terminate-pod" => self.change("Pod", text("pod"), |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")),
            "remove-pod" => self.world.vanish("Pod", &key(text("pod"))),
            "gc" => self.collect(),
            "set-record" => {
                let record = json!({"pod": text("pod"), "podUid": text("uid")});
                self.change_records(text("pool"), |records| drop(records.insert(text("ip").to_owned(), record)));
            }
            "remove-record" => self.change_records(text("pool"), |records| drop(records.remove(text("ip")))),
            "edit-pool" => self.change("SpiderIPPool", text("pool"), |pool| pool["spec"] = op["spec"].clone()),
            "scale-sts" => self.change("StatefulSet", text("sts"), |set| set["spec"]["replicas"] = op["replicas"].clone()),
            "restart-agent" => {
                for (name, value) in op.get("settings").and_then(Value::as_object).into_iter().flatten() {
                    self.settings[name] = value.clone();
                }
                self.agent = agent(&self.world, self.policy, &self.settings);
            }
            "set-phase" => self.change("Pod", text("pod"), |pod| {
                pod["status"]["phase"] = op["phase"].clone();
                if let Some(reason) = op.get("reason") {
                    pod["status"]["reason"] = reason.clone();
                }
            }),
            "terminate-pool" => {
                drop(self.world.call(&Call::<SpiderIPPool>::Delete { key: key(text("pool")), options: DeleteOptions::default() }))
            }
            "delete-sts" => self.world.vanish("StatefulSet", &key(text("sts"))),
            "force-remove-pool" => self.world.vanish("SpiderIPPool", &key(text("pool"))),
            "delete-endpoint" => self.delete_endpoint(&key(text("endpoint"))),
            "annotate-pod" => self.change("Pod", text("pod"), |pod| pod["metadata"]["annotations"] = op["annotations"].clone()),
            "delete-reserved" => self.world.vanish("SpiderReservedIP", &key(text("name"))),
            other => panic!("operation {other}"),
        }
        json!({"ok": true, "error": null})
    }

    fn add_request(&self, op: &Value) -> AddRequest {
        let text = |name: &str| op[name].as_str().unwrap_or_default();
        let list = |name: &str| serde_json::from_value::<Option<Vec<String>>>(op[name].clone()).unwrap().unwrap_or_default();
        let cni = IpamConfig {
            default_ipv4_ippool: list("default_ipv4_ippool"),
            default_ipv6_ippool: list("default_ipv6_ippool"),
            clean_gateway: op["clean_gateway"] == json!(true),
            match_master_subnet: false,
        };
        AddRequest {
            container_id: "c".into(),
            nic: text("nic").into(),
            pod: key(text("pod")),
            pod_uid: text("uid").into(),
            cni: Arc::new(cni),
            master: [].into(),
            deadline: None,
        }
    }

    fn change(&self, kind: &str, name: &str, change: impl FnOnce(&mut Value)) {
        assert!(self.world.change(kind, &key(name), change), "{kind} {name}");
    }

    fn change_records(&self, pool: &str, change: impl FnOnce(&mut Map<String, Value>)) {
        self.change("SpiderIPPool", pool, |pool| {
            let text = pool["status"]["allocatedIPs"].as_str().unwrap_or("{}").to_owned();
            let mut records: Map<String, Value> = serde_json::from_str(&text).unwrap();
            change(&mut records);
            let count = records.len();
            pool["status"]["allocatedIPCount"] = json!(count);
            if count == 0 {
                pool["status"].as_object_mut().unwrap().remove("allocatedIPs");
            } else {
                pool["status"]["allocatedIPs"] = json!(serde_json::to_string(&records).unwrap());
            }
        });
    }

    fn delete_endpoint(&self, key: &ObjectKey) {
        let _ = self.world.call(&Call::<SpiderEndpoint>::Delete { key: key.clone(), options: DeleteOptions::default() });
    }

    /// Deletes endpoints all of whose owners are gone, as Kubernetes' garbage collector does.
    fn collect(&self) {
        let pods = self.world.all::<Pod>();
        let lives = |uid: &str| pods.iter().any(|pod| pod.metadata.uid.as_deref() == Some(uid));
        for endpoint in self.world.all::<SpiderEndpoint>() {
            let owners = endpoint.metadata.owner_references.as_deref().unwrap_or_default();
            if !owners.is_empty() && !owners.iter().any(|owner| lives(&owner.uid)) {
                self.delete_endpoint(&ObjectKey::of(&endpoint));
            }
        }
    }

    /// Pools, endpoints and the failure cache, in the form of the recorded ones.
    pub(crate) fn state(&self) -> Value {
        let mut pools = Map::new();
        for pool in self.world.all::<SpiderIPPool>() {
            let status = pool.status.clone().unwrap_or_default();
            let mut records = Map::new();
            for (ip, record) in status.allocated_ips.parse().unwrap().iter() {
                records.insert(ip.to_string(), json!({"pod": record.pod, "uid": record.pod_uid}));
            }
            let mut shown = json!({"count": status.allocated_ip_count, "records": records});
            if pool.metadata.deletion_timestamp.is_some() {
                shown["terminating"] = json!(true);
            }
            pools.insert(pool.metadata.name.clone().unwrap(), shown);
        }
        let mut endpoints = Map::new();
        for endpoint in self.world.all::<SpiderEndpoint>() {
            endpoints.insert(ObjectKey::of(&endpoint).to_string(), shown(&endpoint));
        }
        let failures: Map<_, _> =
            self.agent.remembered().into_iter().map(|(uid, allocated)| (uid.to_string(), remembered(allocated))).collect();
        json!({"pools": pools, "endpoints": endpoints, "failure_cache": failures})
    }
}

fn remembered(allocated: Vec<AllocatedIp>) -> Value {
    let text =
        |allocated: &AllocatedIp| format!("{}|{}|{}|{}", allocated.nic, allocated.family().number(), allocated.address, allocated.pool);
    let mut texts: Vec<String> = allocated.iter().map(text).collect();
    texts.sort();
    json!(texts)
}

fn shown(endpoint: &SpiderEndpoint) -> Value {
    let status = endpoint.status.clone().unwrap_or_default();
    let mut ips: Vec<Value> = status.current.ips.iter().map(|entry| serde_json::to_value(entry).unwrap()).collect();
    for entry in &mut ips {
        if entry["vlan"] == json!(0) {
            entry.as_object_mut().unwrap().remove("vlan");
        }
        if let Some(routes) = entry.get_mut("routes").and_then(Value::as_array_mut) {
            routes.sort_by_key(|route| route.to_string());
        }
    }
    // Empty names come last, in their original order.
    ips.sort_by_key(|entry| (entry["interface"] == json!(""), entry["interface"].as_str().unwrap().to_owned()));
    let owners: Vec<Value> = endpoint
        .metadata
        .owner_references
        .iter()
        .flatten()
        .map(|owner| json!({"kind": owner.kind, "name": owner.name, "uid": owner.uid}))
        .collect();
    json!({
        "finalizers": endpoint.metadata.finalizers.clone().unwrap_or_default(),
        "ips": ips,
        "node": status.current.node,
        "ownerControllerName": status.owner_controller_name,
        "ownerControllerType": status.owner_controller_type,
        "ownerReferences": owners,
        "terminating": endpoint.metadata.deletion_timestamp.is_some(),
        "uid": status.current.uid,
    })
}

fn ended(result: Result<(), IpamError>) -> Value {
    json!({"ok": result.is_ok(), "error": result.err().map(|error| error.class())})
}

fn told(result: Result<AddAnswer, IpamError>) -> Value {
    let answer = match result {
        Ok(answer) => answer,
        Err(error) => return ended(Err(error)),
    };
    let mut ips: Vec<Value> = Vec::new();
    for ip in &answer.ips {
        let mut told = json!({"nic": ip.nic, "version": ip.family().number(), "address": ip.address.to_string(), "pool": &*ip.pool});
        if let Some(gateway) = &ip.gateway {
            told["gateway"] = json!(gateway);
        }
        ips.push(told);
    }
    ips.sort_by_key(|ip| {
        let nic = ip["nic"].as_str().unwrap().to_owned();
        (nic.is_empty(), nic, ip["version"].as_i64())
    });
    let route = |route: &ipam_spiderpool::ipam::NicRoute| format!("{} {} via {}", route.nic, route.route.dst, route.route.gw);
    let mut routes: Vec<String> = answer.routes.iter().map(route).collect();
    routes.sort();
    json!({"ok": true, "error": null, "ips": ips, "routes": routes})
}
