//! A cluster with the subnet `s` of 10.0.0.1 to 10.0.0.20, and its controllers.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

use super::server::Server;
use crate::SpiderSubnet;
use crate::controller::{ControllerSettings, PoolController};
use crate::ranges::IpSet;
use crate::select::Settings;
use crate::subnet::{AutoPools, SubnetController, ThirdParty};
use crate::{Policy, SpiderIPPool};
use kube_machinery::Env;
use kube_machinery::api::ObjectKey;
use kube_machinery::testing::TestEnv;

/// A cluster with its controllers.
pub(super) struct Scene {
    pub env: TestEnv,
    pub server: Server,
}

pub(super) fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

pub(super) fn template(annotations: Value) -> Value {
    json!({"metadata": {"annotations": annotations}, "spec": {"containers": []}})
}

pub(super) fn wants(number: &str) -> Value {
    json!({"ipam.spidernet.io/subnet": r#"{"ipv4":["s"]}"#, "ipam.spidernet.io/ippool-ip-number": number})
}

pub(super) fn deployment(name: &str, replicas: i32, number: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {}, "template": template(wants(number))}})
}

pub(super) fn with(switch: &str) -> Policy {
    let mut policy = Policy::hardened();
    *policy.switch(switch).unwrap() = true;
    policy
}

impl Scene {
    pub(super) fn new(policy: Policy) -> Self {
        let env = TestEnv::new();
        let server = Server::new(&env, policy);
        Self { env, server }
    }

    pub(super) fn with_subnet(policy: Policy) -> Self {
        let scene = Self::new(policy);
        scene.make_subnet();
        scene
    }

    pub(super) fn make_subnet(&self) {
        self.server.create::<SpiderSubnet>(json!({"metadata": {"name": "s"},
            "spec": {"subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.20"]}}));
    }

    /// Starts both controllers, without third-party kinds.
    pub(super) fn start(&self, policy: Policy) {
        self.start_with(policy, ());
    }

    /// Starts both controllers with some third-party kinds.
    pub(super) fn start_with(&self, policy: Policy, third_party: impl ThirdParty) {
        self.start_under(ControllerSettings::new(policy), third_party);
    }

    /// Starts both controllers with some third-party kinds and these settings.
    pub(super) fn start_under(&self, settings: ControllerSettings, third_party: impl ThirdParty) {
        let (env, server) = (self.env.clone(), self.server.clone());
        let subnets = SubnetController::new(server.clone(), env.clone(), (), third_party, settings.clone(), Settings::default());
        self.env.spawn(async move { drop(subnets.run().await) });
        let pools = PoolController::new(server, env, settings);
        self.env.spawn(async move { drop(pools.run().await) });
        self.pass(1);
    }

    pub(super) fn pass(&self, seconds: u64) {
        self.env.advance(Duration::from_secs(seconds));
    }

    /// The number of addresses of each pool.
    pub(super) fn sizes(&self) -> BTreeMap<String, u128> {
        let size = |pool: &SpiderIPPool| {
            let texts: Vec<_> =
                pool.spec.ips.iter().flatten().map(|text| crate::ranges::parse_range(text, 4, &Policy::hardened()).unwrap()).collect();
            texts.into_iter().collect::<IpSet>().count()
        };
        self.server.all::<SpiderIPPool>().iter().map(|pool| (pool.metadata.name.clone().unwrap(), size(pool))).collect()
    }

    pub(super) fn only_size(&self) -> Option<u128> {
        let sizes = self.sizes();
        assert!(sizes.len() < 2, "{sizes:?}");
        sizes.into_values().next()
    }

    /// The pre-allocations of the subnet, by pool.
    pub(super) fn set_aside(&self) -> Vec<(String, Vec<String>)> {
        let subnet = self.server.find::<SpiderSubnet>(&ObjectKey::cluster("s")).unwrap();
        let Some(status) = &subnet.status else { return Vec::new() };
        status.controlled_ippools.parse().unwrap().iter().map(|(name, entry)| (name.clone(), entry.ips.clone())).collect()
    }

    pub(super) fn record(&self, pool: &str, records: Value) {
        let status = if records == json!({}) { json!({"allocatedIPCount": 0}) } else { json!({"allocatedIPs": records.to_string()}) };
        self.server.change::<SpiderIPPool>(&ObjectKey::cluster(pool), |value| value["status"] = status);
    }

    pub(super) fn scale(&self, replicas: i32) {
        self.server.change::<Deployment>(&key("web"), |value| value["spec"]["replicas"] = json!(replicas));
    }

    pub(super) fn auto_pools(&self, policy: Policy) -> AutoPools<Server, TestEnv> {
        AutoPools { client: self.server.clone(), env: self.env.clone(), observer: (), policy, lowest_first: false }
    }
}
