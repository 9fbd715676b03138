//! Faults of nodes below the kubelet: sandboxes, plugins, and machines outside the cluster.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use kube_machinery::api::DeleteOptions;
use kube_machinery::{ClientExt, ObjectKey};
use kube_sim::actor::kubelet;
use kube_sim::actor::kubelet::{KubeletConfig, KubeletDelays};
use kube_sim::cluster::SimClient;
use kube_sim::fault::{
    CniAddSlow, CniDelLate, CniDelLost, CniDelRepeated, CniPluginKilled, ExternalHost, FaultKind, HostDown, NodeDeleted, NodeOutOfService,
    SandboxLost,
};
use kube_sim::net::Delay;
use kube_sim::node::ContainerRuntime;
use kube_sim::node::taints::is_out_of_service;
use kube_sim::testbed::{Testbed, key, pod};
use sim_config::Probability;
use sim_config::time::Span;

use super::{ALWAYS, MS, SECOND, strike, target};
use crate::kubelet::plugin::Plugin;

struct Node {
    user: SimClient,
    plugin: Arc<Plugin>,
    runtime: Arc<ContainerRuntime>,
}

impl Node {
    /// A node with the pod `web`.
    async fn with_pod(bed: &Testbed) -> Self {
        let node = Self::new(bed).await;
        node.run(bed, "web").await;
        node
    }

    async fn new(bed: &Testbed) -> Self {
        Self::with(bed, false).await
    }

    /// A node whose kubelet, with `heartbeats`, registers its Node.
    async fn with(bed: &Testbed, heartbeats: bool) -> Self {
        let (user, plugin) = (bed.client("user"), Plugin::new(&bed.rt));
        let process = bed.rt.add_process(bed.rt.add_host("node-0"), "kubelet-0");
        let short = Delay::Constant(Span::millis(100));
        let config = KubeletConfig {
            delays: KubeletDelays {
                sandbox: short,
                start: short,
                stop: short,
                deaf: Probability::new(0.0).unwrap(),
                delete: short,
                ..KubeletDelays::default()
            },
            repeats_del: Probability::new(0.0).unwrap(),
            heartbeats,
            ..KubeletConfig::new("node-0", bed.seed)
        };
        let runtime = kubelet::install(&bed.cluster, process, plugin.clone(), config);
        bed.cluster.start(process);
        bed.wait(2 * SECOND).await;
        Self { user, plugin, runtime }
    }

    async fn run(&self, bed: &Testbed, name: &str) {
        self.user.create(pod(name, "node-0")).await.unwrap();
        bed.wait(2 * SECOND).await;
    }

    async fn delete(&self, bed: &Testbed) {
        self.user.delete::<Pod>(&key("web"), DeleteOptions::default()).await.unwrap();
        bed.wait(3 * SECOND).await;
        assert!(!bed.cluster.holds::<Pod>(&key("web")), "the runtime went on");
    }
}

fn answers(bed: &Testbed, address: &str) -> bool {
    bed.cluster.nodes.data_plane.answers(address.parse().unwrap(), None)
}

#[test]
fn a_pod_whose_sandbox_is_lost_gets_another_one() {
    Testbed::run(1, async |bed| {
        let node = Node::with_pod(&bed).await;
        node.run(&bed, "other").await;
        // With two sandboxes, the third is the first again.
        strike(&bed, SECOND, FaultKind::SandboxLost(SandboxLost { process: target("kubelet-*"), nth: 3 })).await;
        bed.wait(10 * SECOND).await;
        assert_eq!(node.plugin.story(), ["ADD eth0 #0", "ADD eth0 #1", "DEL eth0 #0", "ADD eth0 #2"]);
        assert!(!answers(&bed, "10.0.0.1") && answers(&bed, "10.0.0.2") && answers(&bed, "10.0.0.3"));
    });
}

#[test]
fn a_lost_del_never_comes_although_the_runtime_believes_it() {
    Testbed::run(1, async |bed| {
        let node = Node::with_pod(&bed).await;
        strike(&bed, 60 * SECOND, FaultKind::CniDelLost(CniDelLost { process: target("kubelet-0"), chance: ALWAYS })).await;
        node.delete(&bed).await;
        bed.wait(600 * SECOND).await;
        assert_eq!(node.plugin.story(), ["ADD eth0 #0"]);
        assert!(!answers(&bed, "10.0.0.1") && node.runtime.sandboxes().is_empty());
        node.run(&bed, "web").await;
        node.delete(&bed).await;
        assert_eq!(node.plugin.story(), ["ADD eth0 #0", "ADD eth0 #1", "DEL eth0 #1"], "the fault is over");
    });
}

#[test]
fn a_late_del_comes_without_a_network_namespace_even_if_the_kubelet_crashes_meanwhile() {
    Testbed::run(1, async |bed| {
        let node = Node::with_pod(&bed).await;
        let late = CniDelLate { process: target("kubelet-0"), chance: ALWAYS, by: Span::secs(30) };
        strike(&bed, 10 * SECOND, FaultKind::CniDelLate(late)).await;
        node.delete(&bed).await;
        assert_eq!((node.plugin.story().len(), node.runtime.owes()), (1, 1));
        let kubelet = node.runtime.kubelet();
        bed.cluster.crash(kubelet);
        bed.wait(5 * SECOND).await;
        bed.cluster.start(kubelet);
        bed.wait(60 * SECOND).await;
        assert_eq!(node.plugin.story(), ["ADD eth0 #0", "DEL eth0 #0 without netns"]);
        assert_eq!(node.runtime.owes(), 0);
    });
}

#[test]
fn a_repeated_del_comes_again_so_often() {
    Testbed::run(1, async |bed| {
        let node = Node::with_pod(&bed).await;
        let repeated = CniDelRepeated { process: target("kubelet-0"), chance: ALWAYS, times: 2, every: Span::secs(7) };
        strike(&bed, 10 * SECOND, FaultKind::CniDelRepeated(repeated)).await;
        node.delete(&bed).await;
        bed.wait(100 * SECOND).await;
        let again = "DEL eth0 #0 without netns";
        assert_eq!(node.plugin.story(), ["ADD eth0 #0", "DEL eth0 #0", again, again]);
        let at: Vec<u64> = node.plugin.calls()[1..].iter().map(|call| call.at.as_micros() / 1_000_000).collect();
        assert!(at.windows(2).all(|pair| pair[1] - pair[0] == 7), "{at:?}");
    });
}

#[test]
fn a_slow_add_is_answered_late() {
    Testbed::run(1, async |bed| {
        let node = Node::new(&bed).await;
        let slow = CniAddSlow { process: target("kubelet-0"), chance: ALWAYS, by: Span::secs(20) };
        strike(&bed, SECOND, FaultKind::CniAddSlow(slow)).await;
        node.run(&bed, "web").await;
        assert!(node.plugin.calls()[0].answered.is_some() && !answers(&bed, "10.0.0.1"), "the plugin has its result, the runtime not");
        bed.wait(20 * SECOND).await;
        assert!(answers(&bed, "10.0.0.1"));
        node.run(&bed, "other").await;
        assert!(answers(&bed, "10.0.0.2"), "the fault is over");
    });
}

#[test]
fn a_killed_plugin_fails_the_sandbox() {
    Testbed::run(1, async |bed| {
        let node = Node::new(&bed).await;
        let killed = CniPluginKilled { process: target("kubelet-0"), chance: ALWAYS, after: Span::millis(10) };
        strike(&bed, SECOND, FaultKind::CniPluginKilled(killed)).await;
        node.run(&bed, "web").await;
        assert_eq!(node.plugin.story(), ["ADD eth0 #0", "DEL eth0 #0", "DEL eth0 #0"]);
        assert_eq!(node.plugin.calls()[0].answered, None);
        bed.wait(20 * SECOND).await;
        assert_eq!(node.plugin.story()[3..], ["ADD eth0 #1"], "the fault is over");
    });
}

#[test]
fn an_external_host_answers_for_a_while() {
    Testbed::run(1, async |bed| {
        let address = "10.0.0.1".to_owned();
        strike(&bed, 10 * SECOND, FaultKind::ExternalHost(ExternalHost { address: address.clone() })).await;
        let twice = strike(&bed, 20 * SECOND, FaultKind::ExternalHost(ExternalHost { address })).await;
        assert!(answers(&bed, "10.0.0.1") && !answers(&bed, "10.0.0.2"));
        bed.wait(15 * SECOND).await;
        assert!(answers(&bed, "10.0.0.1"), "the second one is still there");
        bed.wait(10 * SECOND).await;
        assert!(!answers(&bed, "10.0.0.1"));
        drop(twice);
    });
}

#[test]
fn a_machine_without_power_answers_on_nothing() {
    Testbed::run(1, async |bed| {
        let node = Node::with_pod(&bed).await;
        let down = HostDown { host: target("node-0") };
        strike(&bed, Duration::from_secs(30), FaultKind::HostDown(down)).await;
        assert!(!answers(&bed, "10.0.0.1") && node.runtime.sandboxes().len() == 1, "the disk remembers");
        bed.wait(60 * SECOND + MS).await;
        assert_eq!(node.plugin.story(), ["ADD eth0 #0", "DEL eth0 #0 without netns", "ADD eth0 #1"]);
        assert_eq!(node.plugin.left().len(), 1);
    });
}

/// The Node `node-0`, if it exists.
async fn node_object(node: &Node) -> Option<Arc<NodeObject>> {
    node.user.get::<NodeObject>(&ObjectKey::cluster("node-0")).await.ok()
}

#[test]
fn a_deleted_node_is_gone_until_the_fault_ends_and_its_kubelet_runs_on() {
    Testbed::run(1, async |bed| {
        let node = Node::with(&bed, true).await;
        node.run(&bed, "web").await;
        let first = node_object(&node).await.unwrap();
        strike(&bed, 60 * SECOND, FaultKind::NodeDeleted(NodeDeleted { node: target("node-0") })).await;
        bed.wait(SECOND).await;
        assert!(node_object(&node).await.is_none() && answers(&bed, "10.0.0.1"));
        bed.wait(50 * SECOND).await;
        assert!(node_object(&node).await.is_none(), "its kubelet does not register again");
        bed.wait(25 * SECOND).await;
        let second = node_object(&node).await.unwrap();
        assert_ne!(first.metadata.uid, second.metadata.uid);
        assert_eq!(node.plugin.story(), ["ADD eth0 #0"]);
    });
}

#[test]
fn a_machine_out_of_service_is_off_then_said_to_be_and_both_end_together() {
    Testbed::run(1, async |bed| {
        let node = Node::with(&bed, true).await;
        node.run(&bed, "web").await;
        let fault = NodeOutOfService { node: target("node-0"), after: Span::secs(20) };
        strike(&bed, 60 * SECOND, FaultKind::NodeOutOfService(fault)).await;
        assert!(!answers(&bed, "10.0.0.1"));
        bed.wait(19 * SECOND).await;
        assert!(!is_out_of_service(&node_object(&node).await.unwrap()));
        bed.wait(3 * SECOND).await;
        assert!(is_out_of_service(&node_object(&node).await.unwrap()));
        bed.wait(60 * SECOND).await;
        assert!(!is_out_of_service(&node_object(&node).await.unwrap()) && answers(&bed, "10.0.0.2"));
    });
}
