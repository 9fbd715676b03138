//! A small cluster, its agent, and the requests of its pods.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use ipam_spiderpool::ipam::{AddAnswer, AddRequest, Agent, AgentConfig, BatchRequest, DelOutcome, DelRequest, IpamError};
use ipam_spiderpool::{Policy, SpiderEndpoint, SpiderIPPool};
use kube_machinery::api::ObjectKey;
use kube_machinery::env::Env;
use serde_json::{Value, json};

use crate::api_server::{Hurry, World, run};

/// A cluster with the pools `p4` (10.0.0.1 to 10.0.0.6), `q4` (10.0.1.1 to 10.0.1.6), `p6` and `q6`, and the StatefulSet `db`.
pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) env: Hurry,
    pub(crate) config: AgentConfig,
    pub(crate) agent: Agent<World, Hurry, World>,
    /// The sandbox of the following requests.
    sandbox: RefCell<String>,
}

/// The annotation `ippools` with pools by NIC.
pub(crate) fn ippools(nics: &[(&str, &[&str], &[&str])]) -> String {
    let item = |(nic, ipv4, ipv6): &(&str, &[&str], &[&str])| {
        let mut item = json!({"ipv4": ipv4, "ipv6": ipv6});
        if !nic.is_empty() {
            item["interface"] = json!(nic);
        }
        item
    };
    json!(nics.iter().map(item).collect::<Vec<_>>()).to_string()
}

/// The controller of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Nobody,
    StatefulSet,
    /// A controller of the same kind, but not Kubernetes' own.
    ThirdParty,
}

impl Scene {
    pub(crate) fn new(policy: Policy) -> Self {
        let world = World::default();
        world.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}));
        world.put(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}));
        for (name, subnet, ips) in [
            ("p4", "10.0.0.0/24", "10.0.0.1-10.0.0.6"),
            ("q4", "10.0.1.0/24", "10.0.1.1-10.0.1.6"),
            ("p6", "fd00::/112", "fd00::1-fd00::6"),
            ("q6", "fd01::/112", "fd01::1-fd01::6"),
        ] {
            let version = if name.ends_with('4') { 4 } else { 6 };
            world.put(json!({
                "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
                "metadata": {"name": name, "finalizers": ["spiderpool.spidernet.io"]},
                "spec": {"subnet": subnet, "ips": [ips], "ipVersion": version},
                "status": {"allocatedIPCount": 0},
            }));
        }
        world.put(json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "ns", "uid": "db"},
            "spec": {"replicas": 3, "selector": {}, "serviceName": "db"},
        }));
        let env = Hurry::default();
        // The agent counts as having run for a while.
        let mut config = AgentConfig::new("n", policy);
        config.settings.set("MULTUS_CLUSTER_NETWORK", "kube-system/net").unwrap();
        let agent = Agent::new(world.clone(), env.clone(), world.clone(), (), config.clone());
        env.pass(Duration::from_secs(3600));
        Self { world, env, config, agent, sandbox: RefCell::new("c".to_owned()) }
    }

    /// Restarts the agent as another process, with this world as its caches.
    pub(crate) fn restart(&mut self, caches: &World) {
        self.agent = Agent::new(self.world.clone(), self.env.clone(), caches.clone(), (), self.config.clone());
    }

    /// Restarts the agent, as if the process had run for a while.
    pub(crate) fn restart_long_ago(&mut self, caches: &World) {
        self.restart(caches);
        self.env.pass(Duration::from_secs(3600));
    }

    /// Creates a pod that names its pools in the annotation `ippools`, in place of the one that had the name.
    pub(crate) fn pod(&self, name: &str, uid: &str, owner: Owner, ippools: &str) {
        let owners = match owner {
            Owner::Nobody => json!([]),
            Owner::StatefulSet => json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "db", "controller": true}]),
            Owner::ThirdParty => {
                json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "db", "uid": "kdb", "controller": true}])
            }
        };
        self.world.vanish("Pod", &ObjectKey::namespaced("ns", name));
        self.world.put(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": "ns", "uid": uid, "ownerReferences": owners,
                "annotations": {
                    "ipam.spidernet.io/ippools": ippools,
                    "k8s.v1.cni.cncf.io/networks": "net,net",
                },
            },
            "spec": {"nodeName": "n", "restartPolicy": "Always", "containers": []},
        }));
    }

    /// Creates a pod of a VM that draws from `p4`.
    pub(crate) fn vm_pod(&self, name: &str, uid: &str, vm: &str) {
        self.pod(name, uid, Owner::Nobody, &ippools(&[("eth0", &["p4"], &[])]));
        let owner = json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": vm, "uid": vm, "controller": true});
        self.change("Pod", name, |pod| {
            pod["metadata"]["ownerReferences"] = json!([owner]);
            pod["metadata"]["labels"] = json!({"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": vm});
        });
    }

    pub(crate) fn terminate(&self, name: &str) {
        self.world.change("Pod", &ObjectKey::namespaced("ns", name), |pod| {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        });
    }

    pub(crate) fn change(&self, kind: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let key = if kind.starts_with("SpiderIPPool") { ObjectKey::cluster(name) } else { ObjectKey::namespaced("ns", name) };
        assert!(self.world.change(kind, &key, change), "{kind} {name}");
    }

    /// Sets the sandbox of the following requests.
    pub(crate) fn in_sandbox(&self, container: &str) -> &Self {
        container.clone_into(&mut self.sandbox.borrow_mut());
        self
    }

    pub(crate) fn add_request(&self, name: &str, uid: &str, nic: &str) -> AddRequest {
        AddRequest {
            container_id: self.sandbox.borrow().as_str().into(),
            nic: nic.into(),
            pod: ObjectKey::namespaced("ns", name),
            pod_uid: uid.into(),
            cni: Arc::default(),
            master: [].into(),
            deadline: Some(self.env.monotonic() + Duration::from_secs(100)),
        }
    }

    /// An ADD; `None` = it hangs, and the process is gone.
    pub(crate) fn try_add(&self, name: &str, uid: &str, nic: &str) -> Option<Result<AddAnswer, IpamError>> {
        run(self.agent.add(&self.add_request(name, uid, nic)))
    }

    pub(crate) fn add(&self, name: &str, uid: &str, nic: &str) -> Result<AddAnswer, IpamError> {
        self.try_add(name, uid, nic).expect("the server answers")
    }

    pub(crate) fn try_del(&self, name: &str, uid: &str, nic: &str) -> Option<Result<DelOutcome, IpamError>> {
        let deadline = Some(self.env.monotonic() + Duration::from_secs(100));
        let request = DelRequest {
            container_id: self.sandbox.borrow().as_str().into(),
            nic: nic.into(),
            pod: ObjectKey::namespaced("ns", name),
            pod_uid: uid.into(),
            deadline,
        };
        run(self.agent.del(&request))
    }

    pub(crate) fn del(&self, name: &str, uid: &str, nic: &str) -> Result<DelOutcome, IpamError> {
        self.try_del(name, uid, nic).expect("the server answers")
    }

    pub(crate) fn release(&self, name: &str, uid: &str) -> Result<(), IpamError> {
        let pod = ObjectKey::namespaced("ns", name);
        let request = BatchRequest { pod, pod_uid: uid.into(), conflict: false, conflicting: [].into(), deadline: None };
        run(self.agent.release_ips(&request)).expect("the server answers")
    }

    /// Another host answers on an address of a pod.
    pub(crate) fn conflict(&self, name: &str, uid: &str, address: &str) -> Result<(), IpamError> {
        let (pod, conflicting) = (ObjectKey::namespaced("ns", name), [address.parse().expect("an address")].into());
        let request = BatchRequest { pod, pod_uid: uid.into(), conflict: true, conflicting, deadline: None };
        run(self.agent.release_ips(&request)).expect("the server answers")
    }

    /// The records of all pools: pool, address, UID.
    pub(crate) fn records(&self) -> Vec<(String, String, String)> {
        let mut records = Vec::new();
        for pool in self.world.all::<SpiderIPPool>() {
            let status = pool.status.clone().unwrap_or_default();
            for (ip, record) in status.allocated_ips.parse().unwrap().iter() {
                records.push((pool.metadata.name.clone().unwrap(), ip.to_string(), record.pod_uid.clone()));
            }
        }
        records
    }

    /// The addresses that are recorded for a UID.
    pub(crate) fn of(&self, uid: &str) -> Vec<String> {
        self.records().into_iter().filter(|(.., of)| of == uid).map(|(_, ip, _)| ip).collect()
    }

    /// Sets the records of a pool from outside.
    pub(crate) fn record(&self, pool: &str, ip: &str, pod: &str, uid: &str) {
        self.edit_records(pool, |records| drop(records.insert(ip.to_owned(), json!({"pod": pod, "podUid": uid}))));
    }

    pub(crate) fn forget_record(&self, pool: &str, ip: &str) {
        self.edit_records(pool, |records| drop(records.remove(ip)));
    }

    /// Changes the records of a pool from outside, with its count.
    pub(crate) fn edit_records(&self, pool: &str, edit: impl FnOnce(&mut serde_json::Map<String, Value>)) {
        self.change("SpiderIPPool", pool, |pool| {
            let text = pool["status"]["allocatedIPs"].as_str().unwrap_or("{}").to_owned();
            let mut records = serde_json::from_str(&text).unwrap();
            edit(&mut records);
            pool["status"]["allocatedIPs"] = json!(serde_json::to_string(&records).unwrap());
            pool["status"]["allocatedIPCount"] = json!(records.len());
        });
    }

    pub(crate) fn endpoint(&self, name: &str) -> Option<Arc<SpiderEndpoint>> {
        self.world.find(&ObjectKey::namespaced("ns", name))
    }

    /// The addresses that an endpoint names, without their prefixes.
    pub(crate) fn stored(&self, name: &str) -> Vec<String> {
        let endpoint = self.endpoint(name);
        let entries = endpoint.iter().flat_map(|endpoint| endpoint.status.iter()).flat_map(|status| &status.current.ips);
        entries.flat_map(|entry| entry.ipv4.iter().chain(&entry.ipv6)).map(|address| bare(address)).collect()
    }
}

fn bare(address: &str) -> String {
    address.split('/').next().unwrap_or_default().to_owned()
}

/// The addresses of an answer, without their prefixes.
pub(crate) fn addresses(answer: &AddAnswer) -> Vec<String> {
    answer.ips.iter().map(|ip| ip.address.addr().to_string()).collect()
}
