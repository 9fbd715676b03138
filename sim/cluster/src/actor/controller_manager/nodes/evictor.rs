//! Taint eviction: pods are evicted from nodes with a NoExecute taint that they do not tolerate, or no longer (K §6.2, K136).
//!
//! ```text
//!   Nodes, pods (informers) ─► Inbox ─► planned: name of the pod, since when, until when ─► GET, PATCH DisruptionTarget, DELETE by name
//! ```
//! Work is kept by the name of a pod, and the DELETE names no UID: a pod that took the name a moment ago is deleted in place of its
//! predecessor (K144).

use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use kube_machinery::informer::{Notification, StoreReader};
use kube_machinery::{ApiError, ClientExt, ObjectKey};
use parking_lot::Mutex;
use sim_config::time::SimTime;
use tokio::sync::Notify;

use super::BY_NODE;
use super::write::Writer;
use crate::actor::controller_manager::view::node_of;
use crate::actor::informers::Informers;
use crate::actor::object_tasks::{Alarm, ObjectTasks, Spawner};
use crate::cluster::Cluster;
use crate::node::taints::{NO_EXECUTE, taints_of, tolerates, tolerations_of};

/// The number of tries of an eviction, and the time between them.
const TRIES: u32 = 5;
const RETRY: Duration = Duration::from_millis(10);

/// An object to look at again.
enum News {
    Node(String),
    Pod(ObjectKey),
}

#[derive(Default)]
struct Content {
    /// The NoExecute taints of the nodes that have some.
    taints: BTreeMap<String, Arc<[Taint]>>,
    news: VecDeque<News>,
    /// The times at which each eviction was planned and is due.
    planned: BTreeMap<ObjectKey, (SimTime, SimTime)>,
}

/// The relevant changes that the informers have reported.
pub(super) struct Inbox {
    content: Mutex<Content>,
    bell: Notify,
}

impl Inbox {
    pub(super) fn new(informers: &mut Informers) -> Arc<Self> {
        let inbox = Arc::new(Self { content: Mutex::default(), bell: Notify::new() });
        let told = inbox.clone();
        informers.tell::<Node>(move |notification| told.hear_of_node(notification));
        let told = inbox.clone();
        informers.tell::<Pod>(move |notification| told.hear_of_pod(notification));
        inbox
    }

    fn put(&self, content: &mut Content, news: News) {
        content.news.push_back(news);
        self.bell.notify_one();
    }

    fn hear_of_node(&self, notification: &Notification<Node>) {
        let gone = matches!(notification, Notification::Deleted { .. } | Notification::DeletedFinalStateUnknown { .. });
        let node = notification.object();
        let name = node.metadata.name.clone().unwrap_or_default();
        let mut content = self.content.lock();
        let taints: Arc<[Taint]> = taints_of(node).iter().filter(|taint| taint.effect == NO_EXECUTE && !gone).cloned().collect();
        if content.taints.get(&name).map_or(&[][..], |known| known) == &*taints {
            return;
        }
        if taints.is_empty() {
            content.taints.remove(&name);
        } else {
            content.taints.insert(name.clone(), taints);
        }
        self.put(&mut content, News::Node(name));
    }

    fn hear_of_pod(&self, notification: &Notification<Pod>) {
        let pod = notification.object();
        let mut content = self.content.lock();
        if content.taints.is_empty() && content.planned.is_empty() {
            return;
        }
        let key = notification.key();
        if node_of(pod).is_some_and(|node| content.taints.contains_key(node)) || content.planned.contains_key(&key) {
            self.put(&mut content, News::Pod(key));
        }
    }
}

/// The time for which a pod tolerates these taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bears {
    ForEver,
    For(Duration),
}

fn bears(pod: &Pod, taints: &[Taint]) -> Bears {
    let used: Vec<_> = tolerations_of(pod).iter().filter(|toleration| taints.iter().any(|taint| tolerates(toleration, taint))).collect();
    if !taints.iter().all(|taint| used.iter().any(|toleration| tolerates(toleration, taint))) {
        return Bears::For(Duration::ZERO);
    }
    let shortest = used.iter().filter_map(|toleration| toleration.toleration_seconds).min();
    shortest.map_or(Bears::ForEver, |seconds| Bears::For(Duration::from_secs(seconds.max(0).unsigned_abs())))
}

/// The controller: plans evictions from its [`Inbox`], and carries out those that are due.
pub(super) struct Evictor {
    cluster: Arc<Cluster>,
    writer: Writer,
    inbox: Arc<Inbox>,
    pods: StoreReader<Pod>,
    spawner: Spawner<()>,
}

impl Evictor {
    pub(super) fn new(cluster: &Arc<Cluster>, writer: Writer, inbox: Arc<Inbox>, pods: StoreReader<Pod>) -> Self {
        Self { cluster: cluster.clone(), writer, inbox, pods, spawner: Spawner::default() }
    }

    pub(super) async fn run(&self) {
        let (mut tasks, mut alarm) = (ObjectTasks::new(), Alarm::new());
        loop {
            self.read();
            let due = self.inbox.content.lock().planned.values().map(|&(_, due)| due).min();
            let mut rung = pin!(self.inbox.bell.notified());
            poll_fn(|cx| {
                if rung.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                while tasks.poll_next(&self.spawner, cx).is_ready() {}
                alarm.poll(&self.cluster.rt, due, cx)
            })
            .await;
            self.evict_due();
        }
    }

    fn read(&self) {
        loop {
            let news = self.inbox.content.lock().news.pop_front();
            match news {
                Some(News::Node(name)) => {
                    let mut keys = Vec::new();
                    self.pods.by_index(BY_NODE, &name, |pod| keys.push(ObjectKey::of(&**pod)));
                    keys.into_iter().for_each(|key| self.look_at(key));
                }
                Some(News::Pod(key)) => self.look_at(key),
                None => return,
            }
        }
    }

    fn look_at(&self, key: ObjectKey) {
        let now = self.cluster.rt.now();
        let pod = self.pods.get(&key);
        let mut content = self.inbox.content.lock();
        let taints = pod.as_ref().and_then(|pod| content.taints.get(node_of(pod)?).cloned());
        let (Some(pod), Some(taints)) = (pod, taints) else {
            content.planned.remove(&key);
            return;
        };
        match bears(&pod, &taints) {
            Bears::ForEver => {}
            Bears::For(Duration::ZERO) => drop(content.planned.insert(key, (now, now))),
            // An eviction that is already planned stays as it is.
            Bears::For(time) => drop(content.planned.entry(key).or_insert((now, now + time))),
        }
    }

    fn evict_due(&self) {
        let now = self.cluster.rt.now();
        let due: Vec<ObjectKey> = {
            let mut content = self.inbox.content.lock();
            let due = content.planned.iter().filter(|(_, (_, at))| *at <= now).map(|(key, _)| key.clone()).collect();
            content.planned.retain(|_, (_, at)| *at > now);
            due
        };
        for key in due {
            // A pod that is already terminating needs no eviction.
            if self.pods.get(&key).is_some_and(|pod| pod.metadata.deletion_timestamp.is_none()) {
                let writer = self.writer.clone();
                self.spawner.begin(async move { evict(&writer, &key).await });
            }
        }
    }
}

async fn evict(writer: &Writer, key: &ObjectKey) {
    for round in 0..TRIES {
        if round > 0 {
            writer.sleep(RETRY).await;
        }
        match try_evict(writer, key).await {
            Err(error) if !error.is_not_found() => {}
            _ => return,
        }
    }
}

async fn try_evict(writer: &Writer, key: &ObjectKey) -> Result<(), ApiError> {
    let pod = writer.client.get::<Pod>(key).await?;
    writer.disrupt(&pod, "DeletionByTaintManager", None).await?;
    writer.delete_by_name(key, None).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::node::taints::{NOT_READY, UNREACHABLE};
    use crate::testbed::from_json;

    #[test]
    fn a_pod_bears_taints_for_as_long_as_the_shortest_toleration_it_uses() {
        let taint = |key: &str| Taint { key: key.to_owned(), effect: NO_EXECUTE.to_owned(), ..Taint::default() };
        let pod = |tolerations: serde_json::Value| -> Pod {
            from_json(json!({"metadata": {"name": "web"}, "spec": {"containers": [], "tolerations": tolerations}}))
        };
        let toleration = |key: &str, seconds: Option<i64>| json!({"key": key, "operator": "Exists", "tolerationSeconds": seconds});
        let both = pod(json!([toleration(UNREACHABLE, Some(300)), toleration(NOT_READY, Some(5))]));
        assert_eq!(bears(&both, &[taint(UNREACHABLE)]), Bears::For(Duration::from_secs(300)), "the other one is not used");
        assert_eq!(bears(&both, &[taint(UNREACHABLE), taint("gpu")]), Bears::For(Duration::ZERO), "one is not borne at all");
        assert_eq!(bears(&pod(json!([toleration(UNREACHABLE, None)])), &[taint(UNREACHABLE)]), Bears::ForEver);
        assert_eq!(bears(&pod(json!([toleration(UNREACHABLE, Some(-1))])), &[taint(UNREACHABLE)]), Bears::For(Duration::ZERO));
    }
}
