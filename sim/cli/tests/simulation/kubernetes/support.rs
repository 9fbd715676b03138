//! Helpers of several conformance tests: listening to a stream, and the true history from the store.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::api::{ListOptions, WatchEvent, WatchOptions};
use kube_machinery::{ApiError, Client, ClientExt, Env, Object, ObjectKey, Status, WatchStream};
use kube_sim::cluster::{ClusterConfig, Knobs, SimClient, SimWatch};
use kube_sim::object::{Obj, resource_version};
use kube_sim::testbed::{Testbed, config_map, from_json};
use serde_json::json;

/// The seeds of tests in which timing matters.
pub(crate) const SEEDS: Range<u64> = 0..20;

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The resourceVersion of a stored object as a number.
fn revision_of(object: &Obj) -> u64 {
    resource_version(&**object).parse().expect("a stored object has a resourceVersion")
}

/// The resourceVersion as a number.
pub(crate) fn rv<K: Object>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().expect("a stored object has a resourceVersion").parse().expect("it is a number")
}

pub(crate) fn uid<K: Object>(object: &K) -> String {
    object.meta().uid.clone().expect("a stored object has a uid")
}

pub(crate) fn name<K: Object>(object: &K) -> String {
    object.meta().name.clone().expect("a stored object has a name")
}

/// The error body of a call that has to fail with one.
pub(crate) fn refused<T>(result: Result<T, ApiError>) -> Status {
    match result {
        Err(ApiError::Status(status)) => *status,
        Err(other) => panic!("expected a Status, got {other:?}"),
        Ok(_) => panic!("expected a Status, got a success"),
    }
}

/// A copy of `object` after `change`.
pub(crate) fn changed<K: Object>(object: &K, change: impl FnOnce(&mut K)) -> K {
    let mut copy = object.clone();
    change(&mut copy);
    copy
}

/// A ConfigMap with one entry, in the given namespace.
pub(crate) fn config_map_in(namespace: &str, name: &str, value: &str) -> ConfigMap {
    from_json(json!({"metadata": {"name": name, "namespace": namespace}, "data": {"v": value}}))
}

/// Waits for `future`, but no longer than `time`.
pub(crate) async fn within<T>(bed: &Testbed, time: Duration, future: impl Future<Output = T>) -> Option<T> {
    let mut sleep = std::pin::pin!(bed.rt.sleep(time));
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => sleep.as_mut().poll(cx).map(|()| None),
    })
    .await
}

/// Runs `future` in the process of `client` and returns its result.
pub(crate) fn spawn<T: Send + 'static>(
    bed: &Testbed,
    client: &SimClient,
    future: impl Future<Output = T> + Send + 'static,
) -> Pin<Box<dyn Future<Output = T>>> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    bed.rt.spawn(client.process(), async move {
        let _ = sender.send(future.await);
    });
    let rt = bed.rt.clone();
    Box::pin(async move { receiver.await.unwrap_or_else(|_| panic!("the task did not come to its end: {:?}", rt.panics())) })
}

// ----------------------------------------------------------------------------------------------------------------- watches

/// An element of a stream in short: kind, object, and revision.
pub(crate) type Line = (&'static str, String, u64);

/// The elements received on a stream.
pub(crate) struct Heard<K> {
    pub(crate) events: Vec<WatchEvent<K>>,
    /// The end of the stream, if it ended.
    pub(crate) end: Option<Result<(), ApiError>>,
}

impl<K: Object> Heard<K> {
    /// Every element, with bookmarks.
    pub(crate) fn all(&self) -> Vec<Line> {
        self.events.iter().map(line).collect()
    }

    /// Every element except bookmarks.
    pub(crate) fn lines(&self) -> Vec<Line> {
        self.all().into_iter().filter(|(what, ..)| *what != "BOOKMARK").collect()
    }

    /// The revisions of the bookmarks.
    pub(crate) fn bookmarks(&self) -> Vec<u64> {
        self.all().into_iter().filter(|(what, ..)| *what == "BOOKMARK").map(|(.., revision)| revision).collect()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.end.is_none()
    }

    pub(crate) fn ended_cleanly(&self) -> bool {
        self.end == Some(Ok(()))
    }
}

pub(crate) fn line<K: Object>(event: &WatchEvent<K>) -> Line {
    let about = |what, object: &K| (what, ObjectKey::of(object).to_string(), rv(object));
    match event {
        WatchEvent::Added(object) => about("ADDED", object),
        WatchEvent::Modified(object) => about("MODIFIED", object),
        WatchEvent::Deleted(object) => about("DELETED", object),
        WatchEvent::Bookmark { resource_version, .. } => {
            ("BOOKMARK", String::new(), resource_version.parse().expect("a bookmark carries a number"))
        }
        WatchEvent::Error(status) => ("ERROR", status.message(), u64::from(status.code)),
    }
}

/// Listens until nothing has arrived for `quiet`, or the stream ends.
pub(crate) async fn hear<K: Object>(bed: &Testbed, watch: &mut SimWatch<K>, quiet: Duration) -> Heard<K> {
    let mut heard = Heard { events: Vec::new(), end: None };
    while let Some(next) = within(bed, quiet, watch.next()).await {
        match next {
            Some(Ok(event)) => heard.events.push(event),
            Some(Err(error)) => heard.end = Some(Err(error)),
            None => heard.end = Some(Ok(())),
        }
        if heard.end.is_some() {
            assert!(watch.next().await.is_none(), "something followed the end of the stream");
            break;
        }
    }
    heard
}

/// Listens for `time`, or until the stream ends.
pub(crate) async fn hear_for<K: Object>(bed: &Testbed, watch: &mut SimWatch<K>, time: Duration) -> Heard<K> {
    let until = bed.rt.now() + time;
    let mut heard = Heard { events: Vec::new(), end: None };
    while heard.end.is_none()
        && let Some(next) = within(bed, until.since(bed.rt.now()), watch.next()).await
    {
        match next {
            Some(Ok(event)) => heard.events.push(event),
            Some(Err(error)) => heard.end = Some(Err(error)),
            None => heard.end = Some(Ok(())),
        }
    }
    heard
}

/// Options of a watch that starts after `revision`.
pub(crate) fn after(revision: u64) -> WatchOptions {
    WatchOptions { resource_version: Some(revision.to_string()), ..WatchOptions::default() }
}

/// Opens a watch on all namespaces.
pub(crate) async fn watch<K: Object>(client: &SimClient, options: WatchOptions) -> SimWatch<K> {
    client.watch::<K>(None, options).await.expect("the watch opens")
}

// ------------------------------------------------------------------------------------------------------------------- lists

pub(crate) fn at(resource_version: &str) -> ListOptions {
    ListOptions { resource_version: Some(resource_version.to_owned()), ..ListOptions::default() }
}

/// The state of a type: the revision of each object, by key.
pub(crate) type StateOf = BTreeMap<String, u64>;

pub(crate) fn state_of<K: Object>(items: &[Arc<K>]) -> StateOf {
    let state: StateOf = items.iter().map(|object| (ObjectKey::of(&**object).to_string(), rv(&**object))).collect();
    assert_eq!(state.len(), items.len(), "an object was listed twice");
    state
}

// ------------------------------------------------------------------------------------------------------------------- truth

/// The state of a type at `revision`, replayed from the first change on.
pub(crate) fn state_at<K: Object>(bed: &Testbed, revision: u64) -> StateOf {
    bed.cluster.store(|store| {
        let table = store.table(bed.kind::<K>());
        assert_eq!(table.first_index(), 0, "the truth needs the whole history");
        let mut state = StateOf::new();
        for change in table.changes_after(0).take_while(|change| change.revision <= revision) {
            match &change.after {
                Some(object) => state.insert(change.key.to_string(), revision_of(object)),
                None => state.remove(change.key.as_str()),
            };
        }
        state
    })
}

/// The elements that a watch has to deliver after `revision`, if it selects the objects for which `wanted` holds.
pub(crate) fn truth<K: Object>(bed: &Testbed, revision: u64, wanted: impl Fn(&K) -> bool) -> Vec<Line> {
    let served = bed.cluster.registry.served::<K>();
    bed.cluster.store(|store| {
        let mut lines = Vec::new();
        for change in store.table(bed.kind::<K>()).changes_after(revision) {
            let is_wanted = |object: &Option<Obj>| object.as_ref().is_some_and(|object| wanted(&served.typed(object.clone())));
            let what = match (is_wanted(&change.before), is_wanted(&change.after)) {
                (false, true) => "ADDED",
                (true, true) => "MODIFIED",
                (true, false) => "DELETED",
                (false, false) => continue,
            };
            lines.push((what, change.key.to_string(), change.revision));
        }
        lines
    })
}

/// Checks that `test` takes no revision and causes no event of type `K`.
pub(crate) async fn silent<K: Object, T>(bed: &Testbed, test: impl AsyncFnOnce() -> T) -> T {
    bed.wait(secs(5)).await;
    let listener = bed.client_on("listener", 0);
    let revision = bed.revision();
    let mut stream = watch::<K>(&listener, after(revision)).await;
    let result = test().await;
    assert_eq!(bed.revision(), revision, "a revision was taken");
    assert_eq!(hear(bed, &mut stream, secs(5)).await.all(), []);
    result
}

// ---------------------------------------------------------------------------------------------------------------- workload

/// Creates, changes and deletes ConfigMaps of a few names in two namespaces, `steps` times, with errors ignored.
pub(crate) async fn churn(bed: Testbed, client: SimClient, steps: u64) {
    let env = bed.env(&client);
    for step in 0..steps {
        let namespace = if env.random().is_multiple_of(3) { "other" } else { "default" };
        let map = config_map_in(namespace, &format!("churn-{}", env.random() % 4), &format!("{}-{step}", client.process().0));
        let key = ObjectKey::of(&map);
        match env.random() % 5 {
            0 => drop(client.delete::<ConfigMap>(&key, Default::default()).await),
            1 | 2 => {
                let labels = if env.random().is_multiple_of(2) { "on" } else { "off" };
                let map = changed(&map, |map| map.metadata.labels = Some([("switch".to_owned(), labels.to_owned())].into()));
                drop(client.update(map).await);
            }
            _ => drop(client.create(map).await),
        }
        bed.rt.sleep(Duration::from_micros(env.random() % 5_000)).await;
    }
}

/// Updates the ConfigMap `key` to `value` and returns the revision of the update.
pub(crate) async fn set(client: &SimClient, name: &str, value: impl ToString) -> u64 {
    rv(&*client.update(config_map(name, "v", &value.to_string())).await.unwrap())
}

pub(crate) fn with_bookmarks(options: WatchOptions) -> WatchOptions {
    WatchOptions { allow_bookmarks: true, ..options }
}

pub(crate) fn on(selector: &str, options: WatchOptions) -> WatchOptions {
    WatchOptions { label_selector: Some(selector.to_owned()), ..options }
}

pub(crate) fn config(seed: u64, knobs: Knobs) -> ClusterConfig {
    ClusterConfig { seed, knobs, ..ClusterConfig::default() }
}

/// The value of a label; empty if there is none.
pub(crate) fn label(map: &ConfigMap, key: &str) -> String {
    map.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default()
}

/// Creates `count` ConfigMaps in each of two namespaces, in arbitrary order.
pub(crate) async fn fill(bed: &Testbed, count: usize) {
    let client = bed.client("filler");
    let mut names: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        names.swap(last, bed.env(&client).random() as usize % (last + 1));
    }
    for number in names {
        for namespace in if number % 2 == 0 { ["default", "other"] } else { ["other", "default"] } {
            client.create(config_map_in(namespace, &format!("m-{number:02}"), "0")).await.unwrap();
        }
    }
}
