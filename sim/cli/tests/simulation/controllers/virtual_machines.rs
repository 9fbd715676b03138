//! VMs of KubeVirt (A §6).

use k8s_openapi::api::core::v1::Pod;
use kube_machinery::ClientExt;
use kube_machinery::api::ListOptions;
use kube_machinery::kubevirt::{VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceMigration};
use kube_sim::actor::controller_manager::Controller;
use kube_sim::testbed::from_json;
use serde_json::json;

use super::support::{Cluster, Fate, What, run};

const ONLY: &[Controller] = &[Controller::KubeVirt];
const PODS: &str = "virt-launcher-vm-";

fn machine(strategy: &str) -> VirtualMachine {
    let template = json!({"metadata": {"labels": {"app": "vm"}, "annotations": {"ipam.spidernet.io/ippool": "p"}}, "spec": {"domain": {}}});
    from_json(json!({"metadata": {"name": "vm", "namespace": "default"}, "spec": {"runStrategy": strategy, "template": template}}))
}

fn migration(name: &str) -> VirtualMachineInstanceMigration {
    from_json(json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"vmiName": "vm"}}))
}

async fn phase(cluster: &Cluster) -> Option<String> {
    cluster.get::<VirtualMachineInstance>("vm").await.status.clone()?.phase
}

async fn instances(cluster: &Cluster) -> usize {
    cluster.client.list::<VirtualMachineInstance>(None, ListOptions::default()).await.unwrap().items.len()
}

#[test]
fn a_vm_that_runs_has_an_instance_and_that_a_pod() {
    run(1, ONLY, async |cluster| {
        let vm = cluster.create(machine("Always")).await;
        cluster.wait(10).await;
        let instance = cluster.get::<VirtualMachineInstance>("vm").await;
        let owner = &instance.metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!((owner.kind.as_str(), Some(&owner.uid), owner.controller), ("VirtualMachine", vm.metadata.uid.as_ref(), Some(true)));
        assert_eq!(phase(&cluster).await.as_deref(), Some("Running"));
        let pods = cluster.pods().await;
        assert_eq!(pods.len(), 1);
        let meta = &pods[0].metadata;
        assert!(meta.name.as_ref().unwrap().starts_with(PODS));
        let owner = &meta.owner_references.as_ref().unwrap()[0];
        assert_eq!(
            (owner.kind.as_str(), owner.api_version.as_str(), Some(&owner.uid)),
            ("VirtualMachineInstance", "kubevirt.io/v1", instance.metadata.uid.as_ref())
        );
        assert_eq!((owner.name.as_str(), owner.controller), ("vm", Some(true)));
        assert_eq!(meta.annotations.as_ref().unwrap()["ipam.spidernet.io/ippool"], "p");
        assert_eq!(cluster.get::<VirtualMachine>("vm").await.status.as_ref().unwrap().ready, Some(true));
    });
}

#[test]
fn the_pod_of_a_vm_has_the_grace_of_its_guest_and_half_a_minute_more() {
    for (of_guest, of_pod) in [(None, 60), (Some(2), 32)] {
        run(1, ONLY, async move |cluster| {
            let mut vm = machine("Always");
            vm.spec.template.as_mut().unwrap().spec.termination_grace_period_seconds = of_guest;
            cluster.create(vm).await;
            cluster.wait(10).await;
            let pods = cluster.pods().await;
            assert_eq!(pods[0].spec.as_ref().unwrap().termination_grace_period_seconds, Some(of_pod));
        });
    }
}

#[test]
fn a_pod_that_goes_ends_its_instance_and_the_next_one_has_another() {
    for seed in 0..5 {
        run(seed, ONLY, async |cluster| {
            cluster.create(machine("Always")).await;
            cluster.wait(10).await;
            let (first, pod) = (cluster.get::<VirtualMachineInstance>("vm").await, cluster.names().await[0].clone());
            cluster.delete::<Pod>(&pod).await;
            cluster.wait(20).await;
            let second = cluster.get::<VirtualMachineInstance>("vm").await;
            assert_ne!(first.metadata.uid, second.metadata.uid, "seed {seed}");
            assert_eq!(cluster.ready().await.len(), 1, "seed {seed}");
            assert_eq!(phase(&cluster).await.as_deref(), Some("Running"));
            let created: Vec<_> = cluster.seen(PODS).into_iter().filter(|event| event.what == What::Created).collect();
            assert_eq!(created.len(), 2, "seed {seed}");
        });
    }
}

#[test]
fn a_vm_that_is_stopped_and_started_has_a_new_instance_and_one_that_is_deleted_leaves_nothing() {
    run(1, ONLY, async |cluster| {
        cluster.create(machine("Always")).await;
        cluster.wait(10).await;
        let pod = cluster.names().await[0].clone();
        cluster.patch::<Pod>(&pod, json!({"metadata": {"finalizers": ["test/held"]}})).await;
        cluster.patch::<VirtualMachine>("vm", json!({"spec": {"runStrategy": "Halted"}})).await;
        cluster.wait(10).await;
        assert!(cluster.get::<VirtualMachineInstance>("vm").await.metadata.deletion_timestamp.is_some(), "it stays until its pod is gone");
        cluster.patch::<Pod>(&pod, json!({"metadata": {"finalizers": null}})).await;
        cluster.wait(10).await;
        assert_eq!((instances(&cluster).await, cluster.pods().await.len()), (0, 0));
        cluster.patch::<VirtualMachine>("vm", json!({"spec": {"runStrategy": "Always"}})).await;
        cluster.wait(10).await;
        assert_eq!((instances(&cluster).await, cluster.ready().await.len()), (1, 1));
        let pod = cluster.names().await[0].clone();
        cluster.patch::<Pod>(&pod, json!({"metadata": {"finalizers": ["test/held"]}})).await;
        cluster.delete::<VirtualMachine>("vm").await;
        cluster.wait(10).await;
        assert!(cluster.get::<VirtualMachine>("vm").await.metadata.deletion_timestamp.is_some(), "it stays until its instance is gone");
        cluster.patch::<Pod>(&pod, json!({"metadata": {"finalizers": null}})).await;
        cluster.wait(20).await;
        assert_eq!((instances(&cluster).await, cluster.pods().await.len()), (0, 0));
        assert!(cluster.client.get::<VirtualMachine>(&kube_sim::testbed::key("vm")).await.unwrap_err().is_not_found());
    });
}

#[test]
fn an_instance_that_succeeds_is_replaced_only_if_the_vm_always_runs() {
    for (strategy, expected) in [("Always", 2), ("RerunOnFailure", 1), ("Once", 1)] {
        run(1, ONLY, async |cluster| {
            cluster.fate(PODS, Fate::Succeeds);
            cluster.create(machine(strategy)).await;
            cluster.wait(5).await;
            cluster.fate(PODS, Fate::Ready);
            cluster.wait(30).await;
            let created = cluster.seen(PODS).iter().filter(|event| event.what == What::Created).count();
            assert_eq!(created, expected, "{strategy}");
        });
    }
}

#[test]
fn a_live_migration_has_a_second_pod_and_then_only_that() {
    for seed in 0..5 {
        run(seed, ONLY, async |cluster| {
            cluster.create(machine("Always")).await;
            cluster.wait(10).await;
            for (turn, name) in ["move-1", "move-2"].into_iter().enumerate() {
                let source = cluster.names().await[0].clone();
                let uid = cluster.get::<VirtualMachineInstance>("vm").await.metadata.uid.clone();
                cluster.create(migration(name)).await;
                cluster.wait(5).await;
                let pods = cluster.pods().await;
                assert_eq!(pods.len(), 2, "seed {seed}");
                let target = pods.iter().find(|pod| pod.metadata.name.as_ref() != Some(&source)).unwrap();
                assert_eq!(target.metadata.annotations.as_ref().unwrap()["kubevirt.io/migrationJobName"], name);
                assert!(target.spec.as_ref().unwrap().affinity.as_ref().unwrap().pod_anti_affinity.is_some());
                if turn == 1 {
                    cluster.bed.cluster.crash(cluster.manager);
                    cluster.wait(1).await;
                    cluster.bed.cluster.start(cluster.manager);
                }
                cluster.wait(25).await;
                assert_eq!(cluster.names().await, [target.metadata.name.clone().unwrap()], "seed {seed}");
                let instance = cluster.get::<VirtualMachineInstance>("vm").await;
                assert_eq!(instance.metadata.uid, uid, "it is the same instance");
                let done = cluster.get::<VirtualMachineInstanceMigration>(name).await;
                assert_eq!(done.status.as_ref().unwrap().phase.as_deref(), Some("Succeeded"), "seed {seed}");
            }
        });
    }
}

#[test]
fn an_instance_that_loses_its_pod_in_a_migration_ends_and_the_target_goes_with_it() {
    run(1, ONLY, async |cluster| {
        cluster.create(machine("Once")).await;
        cluster.wait(10).await;
        let source = cluster.names().await[0].clone();
        cluster.create(migration("move")).await;
        cluster.wait(5).await;
        cluster.delete::<Pod>(&source).await;
        cluster.wait(20).await;
        assert_eq!(cluster.names().await, [""; 0]);
        assert_eq!(phase(&cluster).await.as_deref(), Some("Failed"));
        let over = cluster.get::<VirtualMachineInstanceMigration>("move").await;
        assert_eq!(over.status.as_ref().unwrap().phase.as_deref(), Some("Failed"));
    });
}

#[test]
fn a_migration_whose_target_is_lost_fails_and_leaves_the_source_alone() {
    for lost in ["deleted", "failed", "cancelled"] {
        run(1, ONLY, async |cluster| {
            cluster.create(machine("Always")).await;
            cluster.wait(10).await;
            let source = cluster.names().await[0].clone();
            cluster.fate(PODS, if lost == "failed" { Fate::Fails } else { Fate::Ready });
            cluster.create(migration("move")).await;
            cluster.wait(5).await;
            let names = cluster.names().await;
            let target = names.iter().find(|name| **name != source).unwrap();
            match lost {
                "deleted" => cluster.delete::<Pod>(target).await,
                "cancelled" => cluster.delete::<VirtualMachineInstanceMigration>("move").await,
                _ => {}
            }
            cluster.wait(30).await;
            assert_eq!(cluster.names().await, [source], "{lost}");
            assert_eq!(phase(&cluster).await.as_deref(), Some("Running"), "{lost}");
            if lost != "cancelled" {
                let over = cluster.get::<VirtualMachineInstanceMigration>("move").await;
                assert_eq!(over.status.as_ref().unwrap().phase.as_deref(), Some("Failed"), "{lost}");
            }
        });
    }
}
