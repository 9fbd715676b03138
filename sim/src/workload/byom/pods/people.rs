//! People: they run and delete pods, change the configuration, roll it out, and lay hands on the ConfigMap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ipam_core::api::DeleteOptions;
use ipam_core::byom::Address;
use ipam_core::{ApiError, ClientExt, Env, ObjectKey};
use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, PodSpec};
use parking_lot::Mutex;

use super::super::{PoolNote, pool_key};
use super::plan::{RollOut, RunPod, node_name};
use super::site::Site;
use crate::cluster::{Fabric, SimClient};
use crate::env::SimEnv;
use crate::plan::{Op, OpKind};
use crate::rt::ProcessId;
use crate::workload::{Note, note};

/// How long people wait before they try again.
const AGAIN: Duration = Duration::from_secs(2);

#[derive(Clone)]
struct People {
    site: Arc<Site>,
    fabric: Arc<Fabric>,
    process: ProcessId,
    env: SimEnv,
    client: SimClient,
}

/// Carries the operations out, each at its time and independently of the others. `done`: those that came to an end.
pub(super) async fn run(site: Arc<Site>, fabric: Arc<Fabric>, process: ProcessId, ops: Arc<Vec<Op>>, done: Arc<Mutex<BTreeSet<usize>>>) {
    let env = site.env(&fabric, process);
    let client = SimClient::new(&fabric, process);
    let people = People { site, fabric, process, env, client };
    let before = replaced(&ops);
    for (number, op) in ops.iter().enumerate() {
        if done.lock().contains(&number) {
            continue;
        }
        people.fabric.rt.sleep_until(op.common.at).await;
        let (one, op, done, first) = (people.clone(), op.kind.clone(), done.clone(), before[number]);
        people.env.spawn(async move {
            // A delete that was not answered is repeated by name: it must not hit the pod that comes next.
            while first.is_some_and(|first| !done.lock().contains(&first)) {
                one.env.sleep(AGAIN).await;
            }
            one.carry_out(&op).await;
            done.lock().insert(number);
        });
    }
}

/// For each operation that runs a pod the one before it that deletes the pod of that name.
fn replaced(ops: &[Op]) -> Vec<Option<usize>> {
    let mut deletes: BTreeMap<&str, usize> = BTreeMap::new();
    let before = ops.iter().enumerate().map(|(number, op)| match &op.kind {
        OpKind::DeletePod(delete) => {
            deletes.insert(&delete.pod, number);
            None
        }
        OpKind::RunPod(run) => deletes.get(&*run.pod).copied(),
        _ => None,
    });
    before.collect()
}

fn pod_key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

impl People {
    async fn carry_out(&self, op: &OpKind) {
        match op {
            OpKind::SetPool(set) => *self.site.setting.lock() = set.pool.as_str().into(),
            OpKind::RollOut(roll_out) => self.roll_out(roll_out).await,
            OpKind::BreakVm(broken) => self.site.machines.break_down(&Address::new(&*broken.address), broken.how, broken.lasts),
            _ => {
                if let OpKind::DeletePod(delete) = op {
                    self.say(PoolNote::Unwanted { pod: pod_key(&delete.pod).as_str().into() });
                }
                // Whether an earlier attempt may have been carried out although it failed.
                let mut unclear = false;
                while let Err(error) = self.ask_api(op).await {
                    let exists = error.is_already_exists();
                    if exists && unclear && self.has_run(op).await {
                        break;
                    }
                    unclear |= !exists;
                    self.env.sleep(AGAIN).await;
                }
                if let OpKind::RunPod(run) = op {
                    self.say(PoolNote::Wanted { pod: pod_key(&run.pod).as_str().into() });
                }
            }
        }
    }

    /// Whether the pod of the name is the one that was to run: one before it would be on its way out by now.
    async fn has_run(&self, op: &OpKind) -> bool {
        let OpKind::RunPod(run) = op else { return false };
        let found = self.client.get::<Pod>(&pod_key(&run.pod)).await;
        found.is_ok_and(|pod| pod.metadata.deletion_timestamp.is_none())
    }

    fn say(&self, told: PoolNote) {
        note(&self.fabric, self.process, &Note::Pool(told));
    }

    /// One attempt at an operation on the API.
    async fn ask_api(&self, op: &OpKind) -> Result<(), ApiError> {
        match op {
            // If one of that name is on its way out, this is the one that follows it.
            OpKind::RunPod(run) => self.client.create::<Pod>(pod(run)).await.map(drop),
            OpKind::DeletePod(delete) => {
                let options = DeleteOptions { grace_period_seconds: delete.force.then_some(0), ..DeleteOptions::default() };
                gone(self.client.delete::<Pod>(&pod_key(&delete.pod), options).await)
            }
            OpKind::DeleteState => gone(self.client.delete::<ConfigMap>(&pool_key(), DeleteOptions::default()).await),
            OpKind::EditState(edit) => match self.client.get::<ConfigMap>(&pool_key()).await {
                Err(error) if error.is_not_found() => Ok(()),
                Err(error) => Err(error),
                Ok(object) => self.client.update::<ConfigMap>(edit.edit.apply(ConfigMap::clone(&object))).await.map(drop),
            },
            // None of this workload; the plan was checked.
            _ => Ok(()),
        }
    }

    /// Replaces the adaptor of each node by the other one of the two, then restarts the PeerPod controllers. A second roll-out
    /// waits for the first.
    async fn roll_out(&self, roll_out: &RollOut) {
        let _one_at_a_time = self.site.rolling.lock().await;
        for node in &self.site.nodes {
            let old = usize::from(node.wants(1));
            let new = 1 - old;
            if roll_out.overlap {
                node.want([true, true]);
                self.restart(node.adaptors[new]);
                self.env.sleep(roll_out.pause.0).await;
            }
            node.want(if new == 0 { [true, false] } else { [false, true] });
            self.fabric.crash(node.adaptors[old]);
            if !roll_out.overlap {
                self.env.sleep(roll_out.pause.0).await;
                self.restart(node.adaptors[new]);
            }
            self.env.sleep(roll_out.pause.0).await;
        }
        for &controller in &self.site.controllers {
            self.fabric.crash(controller);
            self.env.sleep(roll_out.pause.0).await;
            self.fabric.start(controller);
        }
    }

    /// Starts a process; one that is left over from an earlier replacement has long ended its work.
    fn restart(&self, process: ProcessId) {
        self.fabric.crash(process);
        self.fabric.start(process);
    }
}

fn pod(run: &RunPod) -> Pod {
    let main = Container { name: "main".to_owned(), image: Some("registry.example/app:1".to_owned()), ..Container::default() };
    let mut pod = Pod::default();
    pod.metadata.name = Some(run.pod.clone());
    pod.metadata.namespace = Some("default".to_owned());
    pod.spec = Some(PodSpec { node_name: Some(node_name(run.node)), containers: vec![main], ..PodSpec::default() });
    pod
}

/// What is not there need not be deleted.
fn gone<T>(deleted: Result<T, ApiError>) -> Result<(), ApiError> {
    match deleted {
        Err(error) if error.is_not_found() => Ok(()),
        result => result.map(drop),
    }
}
