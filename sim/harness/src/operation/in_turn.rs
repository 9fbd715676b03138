//! Operations of operators: each at its time, those on the same subject one after the other, even if one fails.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube_machinery::Env;
use kube_sim::cluster::Cluster;
use kube_sim::env::SimEnv;
use parking_lot::Mutex;

use super::{Op, OpKind, Operation};

/// The time that an operator waits before trying again.
pub const AGAIN: Duration = Duration::from_secs(2);

/// Executes those of `ops` that are not `done` yet, that is, that did not end in an earlier life of the process. `subject`: the subject of
/// an operation, if another one could have the same; these run one after the other.
pub async fn run<O: Operation, S: Ord, F: Future<Output = ()> + Send + 'static>(
    cluster: &Arc<Cluster>,
    env: &SimEnv,
    ops: &[Op],
    done: &Arc<Mutex<BTreeSet<usize>>>,
    subject: impl Fn(&O) -> Option<S>,
    carry_out: impl Fn(usize, OpKind) -> F,
) {
    let mut last: BTreeMap<S, usize> = BTreeMap::new();
    for (number, op) in ops.iter().enumerate() {
        let before = subject(op.kind.own()).and_then(|subject| last.insert(subject, number));
        if done.lock().contains(&number) {
            continue;
        }
        cluster.rt.sleep_until(op.common.at).await;
        let (env_of_op, done, work) = (env.clone(), done.clone(), carry_out(number, op.kind.clone()));
        drop(env.spawn(async move {
            while before.is_some_and(|before| !done.lock().contains(&before)) {
                env_of_op.sleep(AGAIN).await;
            }
            work.await;
            done.lock().insert(number);
        }));
    }
}
