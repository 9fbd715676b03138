//! Operators who edit the document by hand while adaptors allocate from it.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::retry::until_success;
use kube_machinery::{ApiError, ClientExt};
use kube_sim::cluster::{Cluster, SimClient};
use parking_lot::Mutex;
use sim_harness::operation::in_turn::{self, AGAIN};
use sim_harness::operation::{Op, OpKind};
use sim_harness::workload::{Life, RunContext};

use super::super::pods::{Edit, OPERATOR};
use super::super::pool_key;
use crate::Operation;

/// Adds the operators to the cluster.
pub(super) fn install(cluster: &Arc<Cluster>, run: &RunContext<'_>) {
    let edits = run.ops.iter().filter(|op| matches!(op.kind.own(), Operation::EditState(_))).cloned();
    let site = Arc::new((edits.collect::<Vec<Op>>(), Arc::<Mutex<BTreeSet<usize>>>::default()));
    run.start_alone(cluster, OPERATOR, &site, |site, life| async move {
        let (edits, done) = &*site;
        edit(&life, edits, done).await;
    });
}

async fn edit(life: &Life, edits: &[Op], done: &Arc<Mutex<BTreeSet<usize>>>) {
    let (env, client) = (life.env(), SimClient::new(&life.cluster, life.process));
    let env_of_operator = env.clone();
    let carry_out = move |_, op: OpKind| {
        let (env, client) = (env_of_operator.clone(), client.clone());
        async move {
            let Operation::EditState(edit) = op.own() else { return };
            until_success(&env, AGAIN / 20, || apply(&client, edit.edit)).await;
        }
    };
    in_turn::run(&life.cluster, &env, edits, done, |_: &Operation| None::<()>, carry_out).await;
}

async fn apply(client: &SimClient, edit: Edit) -> Result<(), ApiError> {
    match client.get::<ConfigMap>(&pool_key()).await {
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
        Ok(object) => client.update::<ConfigMap>(edit.apply(ConfigMap::clone(&object))).await.map(drop),
    }
}
