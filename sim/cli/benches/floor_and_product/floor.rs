//! The same work with nothing between the caller and madsim: the least that any harness built on madsim can cost.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use kube_machinery::FxHashMap;
use madsim::runtime::{Handle, Runtime};
use madsim::time::sleep;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

/// A bare event loop: takes the next event, schedules another one, draws a number and folds it into a hash.
pub(crate) fn heap_loop(events: u64) {
    let mut heap: BinaryHeap<Reverse<u128>> = (0..256).map(|event| Reverse(event << 64)).collect();
    let (mut draw, mut digest) = (1u64, 0u64);
    for _ in 0..events {
        draw = draw.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        if let Some(mut next) = heap.peek_mut() {
            digest = (digest.rotate_left(5) ^ (next.0 >> 64) as u64).wrapping_mul(0x517c_c1b7_2722_0a95);
            next.0 += u128::from(draw >> 44) << 64;
        }
    }
    black_box(digest);
}

#[derive(Default)]
struct Store {
    revision: u64,
    objects: FxHashMap<&'static str, Arc<(u64, String)>>,
}

type Shared = Arc<Mutex<Store>>;

/// The delay of a healthy network in one direction, long enough that madsim does not round it up.
const ONE_WAY: Duration = Duration::from_millis(500);

async fn get_one(store: &Shared) -> Option<Arc<(u64, String)>> {
    sleep(ONE_WAY).await;
    let found = store.lock().objects.get("config").cloned();
    sleep(ONE_WAY).await;
    found
}

async fn put_one(store: &Shared, version: u64, text: String) -> Option<u64> {
    sleep(ONE_WAY).await;
    let result = {
        let mut store = store.lock();
        if store.objects.get("config").is_none_or(|stored| stored.0 == version) {
            store.revision += 1;
            let revision = store.revision;
            store.objects.insert("config", Arc::new((revision, text)));
            Some(revision)
        } else {
            None
        }
    };
    sleep(ONE_WAY).await;
    result
}

async fn get_and_put_loop(store: Shared, requests: u64) {
    for n in 0..requests / 2 {
        let version = get_one(&store).await.map_or(0, |found| found.0);
        put_one(&store, version, n.to_string()).await;
    }
}

/// Runs one task to completion on its own node, as the product does.
fn on_node<F: Future<Output = ()> + Send + 'static>(work: impl FnOnce(Shared) -> F) {
    Runtime::new().block_on(async move {
        let node = Handle::current().create_node().build();
        let store = Shared::default();
        put_one(&store, 0, String::new()).await;
        let (done, finished) = oneshot::channel();
        let work = work(store);
        drop(node.spawn(async move {
            work.await;
            let _ = done.send(());
        }));
        let _ = finished.await;
    });
}

pub(crate) fn get(requests: u64) {
    on_node(async move |store| {
        for _ in 0..requests {
            black_box(get_one(&store).await);
        }
    });
}

pub(crate) fn put(requests: u64) {
    on_node(async move |store| {
        let mut version = store.lock().revision;
        for n in 0..requests {
            version = put_one(&store, version, n.to_string()).await.unwrap_or(version);
        }
    });
}

pub(crate) fn get_and_put(requests: u64) {
    on_node(async move |store| get_and_put_loop(store, requests).await);
}

/// `requests` requests of `clients` concurrent tasks.
pub(crate) fn crowd(clients: u64, requests: u64) {
    Runtime::new().block_on(async move {
        let node = Handle::current().create_node().build();
        let mut tasks = Vec::new();
        for _ in 0..clients {
            tasks.push(node.spawn(get_and_put_loop(Shared::default(), requests / clients)));
        }
        for task in tasks {
            let _ = task.await;
        }
    });
}

/// A channel to each of `watchers` tasks, and `changes` messages through each channel.
pub(crate) fn fan_out(watchers: usize, changes: u64) {
    fan_out_after(watchers, changes, None);
}

/// Like `fan_out`, but each message is delayed individually.
pub(crate) fn fan_out_with_sleep(watchers: usize, changes: u64) {
    fan_out_after(watchers, changes, Some(ONE_WAY));
}

fn fan_out_after(watchers: usize, changes: u64, delay: Option<Duration>) {
    Runtime::new().block_on(async move {
        let node = Handle::current().create_node().build();
        let (mut senders, mut tasks) = (Vec::new(), Vec::new());
        for watcher in 0..watchers {
            let (sender, mut receiver) = mpsc::unbounded_channel::<Arc<u64>>();
            senders.push(sender);
            tasks.push(node.spawn(async move {
                while let Some(change) = receiver.recv().await {
                    if let Some(delay) = delay {
                        sleep(delay + Duration::from_millis(watcher as u64)).await;
                    }
                    black_box(change);
                }
            }));
        }
        for change in 0..changes {
            let change = Arc::new(change);
            for sender in &senders {
                let _ = sender.send(change.clone());
            }
            sleep(4 * ONE_WAY).await;
        }
        drop(senders);
        for task in tasks {
            let _ = task.await;
        }
    });
}

/// A runtime with `nodes` nodes that do nothing.
pub(crate) fn idle(seed: u64, nodes: usize) {
    Runtime::with_seed_and_config(seed, madsim::Config::default()).block_on(async move {
        for _ in 0..nodes {
            black_box(Handle::current().create_node().build());
        }
    });
}
