//! Events that happen around subnets.

use ipam_spiderpool::{PoolIPPreAllocation, SpiderIPPool, SpiderSubnet};
use k8s_openapi::api::apps::v1::Deployment;
use kube_machinery::ObjectKey;
use kube_sim::rt::ProcessId;
use serde_json::json;

use super::Stage;

/// The application that a pre-allocation for the Deployment `ns/app` names.
const APPLICATION: &str = "apps_v1_Deployment_ns_app";

impl Stage {
    /// Makes a subnet of these ranges by hand.
    pub(in super::super) fn subnet(&mut self, name: &str, ips: &[&str]) {
        let spec = json!({"ipVersion": 4, "subnet": "10.0.0.0/24", "ips": ips, "gateway": "10.0.0.254"});
        let metadata = json!({"name": name, "finalizers": ["spiderpool.spidernet.io"]});
        self.write::<SpiderSubnet>(self.person, json!({"metadata": metadata, "spec": spec, "status": {}}));
    }

    /// Changes the object of a subnet.
    pub(in super::super) fn change_subnet(&mut self, by: ProcessId, name: &str, change: impl FnOnce(&mut SpiderSubnet)) {
        self.change(by, &ObjectKey::cluster(name), change);
    }

    fn put_aside(&mut self, by: ProcessId, subnet: &str, pool: &str, ips: &[&str], application: Option<&str>) {
        self.change_subnet(by, subnet, |subnet| {
            let status = subnet.status.get_or_insert_default();
            let entries = status.controlled_ippools.make_mut().expect("the entries can be read");
            let ips = ips.iter().map(|range| (*range).to_owned()).collect();
            entries.insert(pool.to_owned(), PoolIPPreAllocation { ips, application: application.map(str::to_owned) });
        });
    }

    /// Sets addresses aside for an auto pool.
    pub(in super::super) fn set_aside(&mut self, by: ProcessId, subnet: &str, pool: &str, ips: &[&str]) {
        self.put_aside(by, subnet, pool, ips, Some(APPLICATION));
    }

    /// Sets aside the addresses of a manual pool.
    pub(in super::super) fn set_aside_for_manual(&mut self, by: ProcessId, subnet: &str, pool: &str, ips: &[&str]) {
        self.put_aside(by, subnet, pool, ips, None);
    }

    /// Removes the pre-allocation of a pool.
    pub(in super::super) fn give_back(&mut self, by: ProcessId, subnet: &str, pool: &str) {
        self.change_subnet(by, subnet, |subnet| {
            let status = subnet.status.get_or_insert_default();
            status.controlled_ippools.make_mut().expect("the entries can be read").remove(&pool.to_owned());
        });
    }

    /// Makes an auto pool of the subnet `s` for `eth0` of the Deployment `ns/app` with this UID.
    pub(in super::super) fn auto_pool(&mut self, by: ProcessId, name: &str, uid: &str, ips: &[&str]) {
        let label = |key: &str| format!("ipam.spidernet.io/{key}");
        let labels = json!({
            label("owner-spider-subnet"): "s",
            label("owner-application-gv"): "apps_v1",
            label("owner-application-kind"): "Deployment",
            label("owner-application-namespace"): "ns",
            label("owner-application-name"): "app",
            label("owner-application-uid"): uid,
            label("interface"): "eth0",
            label("ip-version"): "IPv4",
            label("ippool-reclaim"): "true",
        });
        let metadata = json!({"name": name, "labels": labels, "finalizers": ["spiderpool.spidernet.io"]});
        let spec = json!({"ipVersion": 4, "subnet": "10.0.0.0/24", "ips": ips, "gateway": "10.0.0.254"});
        self.write::<SpiderIPPool>(by, json!({"metadata": metadata, "spec": spec, "status": {}}));
    }

    /// Sets the ranges of a pool.
    pub(in super::super) fn resize(&mut self, by: ProcessId, pool: &str, ips: &[&str]) {
        self.change_pool(by, pool, |pool| pool.spec.ips = Some(ips.iter().map(|range| (*range).to_owned()).collect()));
    }

    /// Marks a pool for deletion.
    pub(in super::super) fn terminate_pool(&mut self, by: ProcessId, pool: &str) {
        self.change_pool(by, pool, |pool| {
            pool.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-05T09:00:00Z")).expect("that is a time");
        });
    }

    /// Deletes the object of a pool.
    pub(in super::super) fn pool_gone(&mut self, by: ProcessId, pool: &str) {
        self.put::<SpiderIPPool>(by, &ObjectKey::cluster(pool), None);
    }

    /// Writes the Deployment `ns/app` with this UID and a number of replicas, each with an address of the subnet `s`, or of none.
    pub(in super::super) fn application(&mut self, uid: &str, replicas: i32, subnet: Option<&str>) {
        let wish = subnet.map(|subnet| json!({"ipam.spidernet.io/subnet": json!({"ipv4": [subnet]}).to_string()}));
        let template = json!({"metadata": {"annotations": wish.unwrap_or_default()}, "spec": {"containers": []}});
        let spec = json!({"replicas": replicas, "selector": {}, "template": template});
        let metadata = json!({"name": "app", "namespace": "ns", "uid": uid, "generation": self.revision + 1});
        self.write::<Deployment>(self.person, json!({"metadata": metadata, "spec": spec}));
    }

    /// Deletes the Deployment `ns/app`.
    pub(in super::super) fn application_gone(&mut self) {
        self.put::<Deployment>(self.person, &ObjectKey::namespaced("ns", "app"), None);
    }
}
