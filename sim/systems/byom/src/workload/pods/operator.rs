//! The operator: runs and deletes pods, changes the configuration, rolls it out, and edits the ConfigMap by hand.

use std::collections::BTreeSet;
use std::sync::Arc;

use ipam_byom::Address;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_machinery::api::{DeleteOptions, Preconditions, ignore_not_found};
use kube_machinery::{ApiError, ClientExt, Env, ObjectKey};
use kube_sim::cluster::{Cluster, SimClient};
use kube_sim::env::SimEnv;
use kube_sim::rt::ProcessId;
use parking_lot::Mutex;
use sim_harness::operation::in_turn::{self, AGAIN};
use sim_harness::operation::{Op, OpKind};
use sim_harness::workload::plain_pod;

use super::super::PoolNote;
use super::plan::{DeletePod, RollOut, RunPod, node_name};
use super::site::Site;
use crate::Operation;

/// The label with the number of the operation that created a pod.
const MADE_BY: &str = "example.com/operation";
#[derive(Clone)]
struct Operator {
    site: Arc<Site>,
    cluster: Arc<Cluster>,
    process: ProcessId,
    env: SimEnv,
    client: SimClient,
}

/// Carries out the operations, each at its time; those about one pod one after the other. `done`: the completed ones.
pub(super) async fn run(site: Arc<Site>, cluster: Arc<Cluster>, process: ProcessId, ops: Arc<Vec<Op>>, done: Arc<Mutex<BTreeSet<usize>>>) {
    let env = site.env(&cluster, process);
    let client = SimClient::new(&cluster, process);
    let operator = Operator { site, cluster, process, env, client };
    let subject = |op: &Operation| match op {
        Operation::RunPod(RunPod { pod, namespace, .. }) | Operation::DeletePod(DeletePod { pod, namespace, .. }) => {
            Some(ObjectKey::namespaced(namespace, pod))
        }
        _ => None,
    };
    let (cluster, env) = (operator.cluster.clone(), operator.env.clone());
    let carry_out = move |number, op: OpKind| {
        let one = operator.clone();
        async move { one.carry_out(number, op.own()).await }
    };
    in_turn::run(&cluster, &env, &ops, &done, subject, carry_out).await;
}

impl Operator {
    async fn carry_out(&self, number: usize, op: &Operation) {
        match op {
            Operation::SetPool(set) => *self.site.setting.lock() = set.pool.as_str().into(),
            Operation::NameNodes(name) => *self.site.named.lock() = name.named.then_some(name.by),
            Operation::RollOut(roll_out) => self.roll_out(roll_out).await,
            Operation::BreakVm(broken) => self.site.machines.break_down(&Address::new(&*broken.address), broken.how, broken.lasts),
            _ => {
                if let Operation::DeletePod(delete) = op {
                    self.say(PoolNote::Unwanted { pod: ObjectKey::namespaced(&delete.namespace, &delete.pod).as_str().into() });
                }
                let mut uid = None;
                while self.ask_api(number, op, &mut uid).await.is_err() {
                    self.env.sleep(AGAIN).await;
                }
                if let Operation::RunPod(run) = op {
                    let pod = ObjectKey::namespaced(&run.namespace, &run.pod).as_str().into();
                    self.say(PoolNote::Wanted { pod, uid: uid.unwrap_or_default().into() });
                }
            }
        }
    }

    fn say(&self, told: PoolNote) {
        self.cluster.note(self.process, &told);
    }

    /// Makes one attempt at an operation on the API. `uid`: that of its pod, once it is known.
    async fn ask_api(&self, number: usize, op: &Operation, uid: &mut Option<String>) -> Result<(), ApiError> {
        match op {
            // If a pod of that name is being deleted, this is its successor.
            Operation::RunPod(run) => match self.client.create::<Pod>(pod(run, number)).await {
                Err(error) if error.is_already_exists() => {
                    // An earlier attempt whose answer was lost may have created it.
                    let there = self.client.get::<Pod>(&ObjectKey::namespaced(&run.namespace, &run.pod)).await?;
                    let own = there.metadata.labels.as_ref().and_then(|labels| labels.get(MADE_BY)) == Some(&number.to_string());
                    if !own {
                        return Err(error);
                    }
                    uid.clone_from(&there.metadata.uid);
                    Ok(())
                }
                created => {
                    uid.clone_from(&created?.metadata.uid);
                    Ok(())
                }
            },
            Operation::DeletePod(delete) => {
                let key = ObjectKey::namespaced(&delete.namespace, &delete.pod);
                if uid.is_none() {
                    match self.client.get::<Pod>(&key).await {
                        Err(error) if error.is_not_found() => return Ok(()),
                        there => uid.clone_from(&there?.metadata.uid),
                    }
                }
                let preconditions = Preconditions { uid: uid.clone(), ..Preconditions::default() };
                let grace_period_seconds = delete.force.then_some(0);
                match self
                    .client
                    .delete::<Pod>(&key, DeleteOptions { grace_period_seconds, preconditions, ..DeleteOptions::default() })
                    .await
                {
                    // Its successor already has the name.
                    Err(error) if error.is_conflict() => Ok(()),
                    deleted => ignore_not_found(deleted),
                }
            }
            Operation::DeleteState => {
                ignore_not_found(self.client.delete::<ConfigMap>(&self.site.plan.place.documented(), DeleteOptions::default()).await)
            }
            Operation::EditState(edit) => match self.client.get::<ConfigMap>(&self.site.plan.place.documented()).await {
                Err(error) if error.is_not_found() => Ok(()),
                Err(error) => Err(error),
                Ok(object) => self.client.update::<ConfigMap>(edit.edit.apply(ConfigMap::clone(&object))).await.map(drop),
            },
            // Not an operation of this workload; the plan was checked.
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
            self.cluster.crash(node.adaptors[old]);
            if !roll_out.overlap {
                self.env.sleep(roll_out.pause.0).await;
                self.restart(node.adaptors[new]);
            }
            self.env.sleep(roll_out.pause.0).await;
        }
        for &controller in &self.site.controllers {
            self.cluster.crash(controller);
            self.env.sleep(roll_out.pause.0).await;
            self.cluster.start(controller);
        }
    }

    /// Restarts a process; one left over from an earlier replacement has long ended its work.
    fn restart(&self, process: ProcessId) {
        self.cluster.crash(process);
        self.cluster.start(process);
    }
}

fn pod(run: &RunPod, number: usize) -> Pod {
    let labels = Some([(MADE_BY.to_owned(), number.to_string())].into());
    let mut pod = plain_pod(ObjectMeta { labels, ..ObjectKey::namespaced(&run.namespace, &run.pod).metadata() });
    pod.spec.get_or_insert_default().node_name = Some(node_name(run.node));
    pod
}
