//! Helpers for tests of writes: complete error bodies, and the events that a request causes.

use std::fmt::Debug;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ipam_spiderpool::SpiderIPPool;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_machinery::api::{Call, DeleteOptions, Dry, Preconditions, Reply, Subresource, Verb, WatchEvent, WatchOptions};
use kube_machinery::{ApiError, Client, ClientExt, Object, ObjectKey, WatchStream};
use kube_sim::cluster::SimClient;
use kube_sim::cluster::admission::{FailurePolicy, Part, Review, Rule, Service, Verdict, Webhook};
use kube_sim::cluster::server::{ApiFault, Failure, InjectedFault};
use kube_sim::net::Side;
use kube_sim::rt::ProcessId;
use kube_sim::testbed::{Testbed, from_json};
use kube_sim::trace::WatchKind;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// The seeds of runs whose timing differs.
pub(crate) const SEEDS: std::ops::Range<u64> = 1..9;

/// Every error that a write can end with although it was, or will be, executed.
pub(crate) const FAILURES: [Failure; 5] =
    [Failure::EtcdTimeout, Failure::LeaderChanged, Failure::Timeout, Failure::ServerTimeout, Failure::Reset];

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn millis(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

// ---------------------------------------------------------------------------------------------------------- objects

/// A SpiderIPPool: a custom resource with a status subresource.
pub(crate) fn pool(name: &str) -> SpiderIPPool {
    from_json(json!({"metadata": {"name": name}, "spec": {"ipVersion": 4, "subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.9"]}}))
}

pub(crate) fn lease(name: &str, holder: &str) -> Lease {
    from_json(json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"holderIdentity": holder}}))
}

/// A ConfigMap with finalizers, which keep it when it is deleted.
pub(crate) fn held_map(name: &str, finalizers: &[&str]) -> ConfigMap {
    from_json(json!({"metadata": {"name": name, "namespace": "default", "finalizers": finalizers}, "data": {"v": "1"}}))
}

/// A part of an object from its JSON form.
pub(crate) fn part<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A copy of `object` after `change`.
pub(crate) fn changed<K: Object>(object: &K, change: impl FnOnce(&mut K)) -> K {
    let mut copy = object.clone();
    change(&mut copy);
    copy
}

/// A copy of `object` with one more label.
pub(crate) fn labelled<K: Object>(object: &K, label: &str, value: &str) -> K {
    changed(object, |copy| {
        copy.meta_mut().labels.get_or_insert_default().insert(label.to_owned(), value.to_owned());
    })
}

/// A copy of `object` without a resourceVersion.
pub(crate) fn unversioned<K: Object>(object: &K) -> K {
    changed(object, |copy| copy.meta_mut().resource_version = None)
}

/// A copy of a pod in `phase`.
pub(crate) fn in_phase(pod: &Pod, phase: &str) -> Pod {
    changed(pod, |pod| pod.status.get_or_insert_default().phase = Some(phase.to_owned()))
}

pub(crate) fn rv<K: Object>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().unwrap().parse().unwrap()
}

pub(crate) fn uid<K: Object>(object: &K) -> String {
    object.meta().uid.clone().unwrap()
}

/// The value of the entry `field` of a ConfigMap; empty if there is none.
pub(crate) fn entry(map: &ConfigMap, field: &str) -> String {
    map.data.as_ref().and_then(|data| data.get(field)).cloned().unwrap_or_default()
}

/// The options of a delete for one UID only.
pub(crate) fn if_uid(uid: &str) -> DeleteOptions {
    DeleteOptions { preconditions: Preconditions { uid: Some(uid.to_owned()), resource_version: None }, ..DeleteOptions::default() }
}

// ----------------------------------------------------------------------------------------------------------- errors

/// The body of an error, as JSON. Also checks the properties of every error body (K109, K110).
pub(crate) fn refused<T: Debug>(result: Result<T, ApiError>) -> Value {
    body_of(&result.expect_err("the request should have been refused"))
}

/// The body of a given error.
pub(crate) fn body_of(error: &ApiError) -> Value {
    let status = error.status().unwrap_or_else(|| panic!("{error:?} has no body"));
    let body = serde_json::to_value(status.to_wire()).unwrap();
    assert_eq!((&body["kind"], &body["apiVersion"], &body["status"]), (&json!("Status"), &json!("v1"), &json!("Failure")), "{body}");
    assert_eq!(body["code"], json!(error.code().unwrap()), "{body}");
    assert_eq!(body["metadata"], json!({}), "{body}");
    assert_eq!(body["message"], json!(error.to_string()), "{body}");
    assert_eq!(body["details"].get("retryAfterSeconds"), error.retry_after().map(Value::from).as_ref(), "{body}");
    body
}

/// A whole error body. An empty reason and `Null` details are left out, as on the wire.
pub(crate) fn status(code: u16, reason: &str, message: &str, details: Value) -> Value {
    let mut body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": code});
    if !reason.is_empty() {
        body["reason"] = reason.into();
    }
    if !details.is_null() {
        body["details"] = details;
    }
    body
}

/// 409 for a resourceVersion that is not the current one.
pub(crate) fn modified(resource: &str, name: &str) -> Value {
    let text = "the object has been modified; please apply your changes to the latest version and try again";
    conflict(resource, name, text)
}

/// 409 with reason Conflict.
pub(crate) fn conflict(resource: &str, name: &str, why: &str) -> Value {
    let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
    status(409, "Conflict", &message, about(resource, name))
}

pub(crate) fn not_found(resource: &str, name: &str) -> Value {
    status(404, "NotFound", &format!("{resource} \"{name}\" not found"), about(resource, name))
}

pub(crate) fn already_exists(resource: &str, name: &str) -> Value {
    status(409, "AlreadyExists", &format!("{resource} \"{name}\" already exists"), about(resource, name))
}

/// 422 with one cause.
pub(crate) fn invalid(kind: &str, name: &str, cause: &str, field: &str, message: &str) -> Value {
    let mut details = about(kind, name);
    details["causes"] = json!([{"reason": cause, "message": message, "field": field}]);
    status(422, "Invalid", &format!("{kind} \"{name}\" is invalid: {field}: {message}"), details)
}

/// The details of an error about an object. `resource`: `plural` or `plural.group`.
pub(crate) fn about(resource: &str, name: &str) -> Value {
    let mut details = json!({});
    if !name.is_empty() {
        details["name"] = name.into();
    }
    match resource.split_once('.') {
        Some((kind, group)) => (details["kind"], details["group"]) = (kind.into(), group.into()),
        None => details["kind"] = resource.into(),
    }
    details
}

/// The full name of the pools' resource.
pub(crate) const POOLS: &str = "spiderippools.spiderpool.spidernet.io";
/// The full name of the leases' resource.
pub(crate) const LEASES: &str = "leases.coordination.k8s.io";

// ---------------------------------------------------------------------------------------------------------- effects

/// An open watch on all objects of a type, from the store's current state on.
pub(crate) struct Watched<K: Object> {
    bed: Testbed,
    stream: <SimClient as Client>::Watch<K>,
}

impl<K: Object> Watched<K> {
    pub(crate) async fn open(bed: &Testbed) -> Self {
        let options = WatchOptions { resource_version: Some(bed.revision().to_string()), ..WatchOptions::default() };
        let client = bed.client_on("watcher", 0);
        Self { bed: bed.clone(), stream: client.watch(None, options).await.unwrap() }
    }

    /// The events that have arrived, or arrive within the next seconds.
    pub(crate) async fn events(&mut self) -> Vec<(WatchKind, Arc<K>)> {
        let mut events = Vec::new();
        // Longer than the lag of cache and stream together.
        while let Some(event) = within(&self.bed, secs(5), self.stream.next()).await {
            events.push(match event.expect("the watch goes on").unwrap() {
                WatchEvent::Added(object) => (WatchKind::Added, object),
                WatchEvent::Modified(object) => (WatchKind::Modified, object),
                WatchEvent::Deleted(object) => (WatchKind::Deleted, object),
                other => panic!("{other:?}"),
            });
        }
        events
    }
}

/// The output of `future`, if it completes within `limit`.
pub(crate) async fn within<T>(bed: &Testbed, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut sleep = pin!(bed.rt.sleep(limit));
    std::future::poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        sleep.as_mut().poll(cx).map(|()| None)
    })
    .await
}

/// The outcome of `request` and the events of type `K` that it caused.
pub(crate) async fn effects<K: Object, T>(bed: &Testbed, request: impl Future<Output = T>) -> (T, Vec<(WatchKind, Arc<K>)>) {
    let mut watched = Watched::<K>::open(bed).await;
    let outcome = request.await;
    (outcome, watched.events().await)
}

/// The outcome of `request`, which must take no revision and cause no event of type `K`.
pub(crate) async fn silently<K: Object, T>(bed: &Testbed, request: impl Future<Output = T>) -> T {
    let before = bed.revision();
    let (outcome, events) = effects::<K, T>(bed, request).await;
    assert_eq!(bed.revision(), before, "the request took a revision");
    assert!(events.is_empty(), "the request caused {events:?}");
    outcome
}

/// The kinds of events, without their objects.
pub(crate) fn kinds<K>(events: &[(WatchKind, Arc<K>)]) -> Vec<WatchKind> {
    events.iter().map(|(what, _)| *what).collect()
}

/// Whether the object exists.
pub(crate) async fn exists<K: Object>(client: &SimClient, key: &ObjectKey) -> bool {
    match client.get::<K>(key).await {
        Ok(_) => true,
        Err(error) if error.is_not_found() => false,
        Err(error) => panic!("{error}"),
    }
}

// --------------------------------------------------------------------------------------------------------- requests

/// Starts `future` on the process of `client`; the receiver gets its output unless the process crashes.
pub(crate) fn start<T: Send + 'static>(
    bed: &Testbed,
    client: &SimClient,
    future: impl Future<Output = T> + Send + 'static,
) -> oneshot::Receiver<T> {
    let (sender, receiver) = oneshot::channel();
    bed.rt.spawn(client.process(), async move {
        let _ = sender.send(future.await);
    });
    receiver
}

/// A PUT of `/status`, also for a type that has none.
pub(crate) async fn put_status<K: Object>(client: &SimClient, body: K) -> Result<Arc<K>, ApiError> {
    client.update_status(body).await
}

/// A delete: `Err` = the UID of the deleted object. The answer for a deleted pod is the pod, for anything else a Status (K095).
pub(crate) async fn delete_reply<K: Object>(client: &SimClient, key: &ObjectKey, options: DeleteOptions) -> Result<Arc<K>, String> {
    let reply = client.send(Call::<K>::Delete { key: key.clone(), options }.into()).await.unwrap();
    let (told, uid) = match &reply {
        Reply::Object(object) => ("the object", object.meta().uid.clone().unwrap_or_default()),
        Reply::Deleted { uid } => ("a Status", uid.clone()),
        Reply::List(_) => panic!("a list"),
    };
    reply.into_remains().ok_or_else(|| {
        assert_eq!(told, if K::kind(&()) == "Pod" { "the object" } else { "a Status" });
        uid
    })
}

/// A dry-run PUT, of an object or of its `/status`.
pub(crate) async fn dry_update<K: Object>(client: &SimClient, body: K, subresource: Option<Subresource>) -> Result<Reply<K>, ApiError> {
    client.send(Call::Update { key: ObjectKey::of(&body), body: Arc::new(body), subresource, dry: Dry::Run }.into()).await
}

/// Makes requests of `client` meet `injected` until [`calm`].
pub(crate) fn trouble(bed: &Testbed, client: &SimClient, verbs: &[Verb], injected: InjectedFault) {
    bed.cluster.add_api_fault(ApiFault {
        fault: 0,
        servers: Side::Any,
        clients: Side::Only(vec![client.process()]),
        verbs: verbs.to_vec(),
        kinds: Vec::new(),
        chance: 1.0,
        injected,
    });
}

/// Ends all injected faults.
pub(crate) fn calm(bed: &Testbed) {
    bed.cluster.remove_api_faults(0);
}

// --------------------------------------------------------------------------------------------------------- webhooks

/// A registered webhook, for its test.
pub(crate) struct Hooked {
    /// The process that serves it.
    pub(crate) process: ProcessId,
    /// The reviews that it received, in order.
    pub(crate) asked: Arc<Mutex<Vec<Review>>>,
}

impl Hooked {
    /// The number of its calls.
    pub(crate) fn calls(&self) -> usize {
        self.asked.lock().len()
    }
}

/// Registers a webhook for creates, updates and deletes of `K`. `answer` gets the number of the call, from 1 on.
pub(crate) fn hook<K: Object, F: Future<Output = Verdict> + Send + 'static>(
    bed: &Testbed,
    name: &str,
    mutating: bool,
    failure_policy: FailurePolicy,
    answer: impl Fn(usize, Review) -> F + Send + Sync + 'static,
) -> Hooked {
    hook_with::<K, F>(bed, name, mutating, failure_policy, |webhook| webhook, answer)
}

/// Like `hook`, with a registration that `register` changes.
pub(crate) fn hook_with<K: Object, F: Future<Output = Verdict> + Send + 'static>(
    bed: &Testbed,
    name: &str,
    mutating: bool,
    failure_policy: FailurePolicy,
    register: impl FnOnce(Webhook) -> Webhook,
    answer: impl Fn(usize, Review) -> F + Send + Sync + 'static,
) -> Hooked {
    let process = bed.process(name);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    let handler = Arc::new(move |review: Review| -> Pin<Box<dyn Future<Output = Verdict> + Send>> {
        let call = {
            let mut log = log.lock();
            log.push(review.clone());
            log.len()
        };
        Box::pin(answer(call, review))
    });
    let operations = vec![Verb::Create, Verb::Update, Verb::Delete];
    let webhook = Webhook {
        rules: vec![Rule { operations, kinds: vec![bed.kind::<K>()], part: Part::Main }],
        failure_policy,
        ..Webhook::new(name, mutating, Service::of(process, handler))
    };
    bed.cluster.add_webhook(register(webhook));
    Hooked { process, asked }
}

/// The object of a review, as the given type.
pub(crate) fn object_of<K: Object>(review: &Review) -> K {
    kube_sim::testbed::from_json(review.object.as_ref().expect("the review has an object").to_value())
}
