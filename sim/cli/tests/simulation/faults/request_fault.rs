//! A fault of one request of a process, selected by its number.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::api::{ListOptions, TransportError, WatchOptions};
use kube_machinery::{ApiError, Client, ClientExt, Reason};
use kube_sim::cluster::server::Failure;
use kube_sim::cluster::{ClusterConfig, Logged, SimClient};
use kube_sim::fault::{FaultKind, RequestEffect, RequestFault, RequestVerb};
use kube_sim::rt::ProcessState;
use kube_sim::testbed::{Testbed, config_map, key};
use parking_lot::Mutex;
use sim_config::time::Span;

use super::{SECOND, cached, create, stored, strike, target, took};

/// A fault that affects the `nth` request of `me`.
fn hit(nth: u32, effect: RequestEffect) -> RequestFault {
    RequestFault {
        process: target("me"),
        verb: RequestVerb::Any,
        resource: "*".to_owned(),
        nth,
        effect,
        after: Span::secs(10),
        writes: 0,
        error: Failure::EtcdTimeout,
        down: Span::secs(5),
    }
}

async fn befalls(bed: &Testbed, fault: RequestFault) {
    strike(bed, SECOND, FaultKind::RequestFault(fault)).await;
}

/// Writes `value` into the ConfigMap `a`, with the version that was read.
async fn write(client: &SimClient, mut map: ConfigMap, value: &str) -> Result<Arc<ConfigMap>, ApiError> {
    map.data.get_or_insert_default().insert("k".to_owned(), value.to_owned());
    client.update(map).await
}

async fn read(client: &SimClient) -> ConfigMap {
    (*client.get::<ConfigMap>(&key("a")).await.unwrap()).clone()
}

fn value(map: &ConfigMap) -> Option<&str> {
    map.data.as_ref()?.get("k").map(String::as_str)
}

/// The output of a task of the process of `client`, once it is complete.
fn in_background<T: Send + 'static>(
    bed: &Testbed,
    client: &SimClient,
    task: impl Future<Output = T> + Send + 'static,
) -> Arc<Mutex<Option<T>>> {
    let result = Arc::new(Mutex::new(None));
    let slot = result.clone();
    bed.rt.spawn(client.process(), async move {
        let given = task.await;
        *slot.lock() = Some(given);
    });
    result
}

#[test]
fn only_the_nth_request_that_matches_is_refused() {
    for (effect, reason) in [
        (RequestEffect::Forbidden, Some(Reason::Forbidden)),
        (RequestEffect::TooManyRequests, Some(Reason::TooManyRequests)),
        (RequestEffect::Unavailable, Some(Reason::ServiceUnavailable)),
        (RequestEffect::ServerError, Some(Reason::Unknown)),
    ] {
        Testbed::run(1, async |bed| {
            let (me, other) = (bed.client("me"), bed.client("other"));
            befalls(&bed, RequestFault { verb: RequestVerb::Create, resource: "configmaps".to_owned(), ..hit(2, effect) }).await;
            create(&me, "a").await.unwrap();
            create(&other, "b").await.unwrap();
            read(&me).await;
            let error = create(&me, "c").await.unwrap_err();
            assert_eq!(error.reason(), reason, "{effect:?}: {error}");
            assert!(!stored(&bed, "c"));
            create(&me, "c").await.unwrap();
        });
    }
}

#[test]
fn a_lost_request_is_not_executed_and_a_lost_reply_is() {
    Testbed::run(1, async |bed| {
        let me = bed.client("me");
        befalls(&bed, hit(1, RequestEffect::RequestLost)).await;
        let (time, result) = took(&bed, create(&me, "a")).await;
        assert_eq!(result.unwrap_err(), TransportError::Reset.into());
        assert!(time >= 10 * SECOND && !stored(&bed, "a"), "{time:?}");
        befalls(&bed, hit(1, RequestEffect::ReplyLost)).await;
        let result = create(&me, "a").await;
        assert!(result.unwrap_err().to_string().contains("request timed out") && stored(&bed, "a"));
    });
}

#[test]
fn a_late_commit_comes_after_its_error_unless_its_object_has_changed() {
    Testbed::run(1, async |bed| {
        let (me, other) = (bed.client("me"), bed.client("other"));
        create(&other, "a").await.unwrap();
        let map = read(&me).await;
        befalls(&bed, hit(1, RequestEffect::LateCommit)).await;
        write(&me, map, "mine").await.unwrap_err();
        assert_eq!(value(&read(&me).await), Some("v"));
        bed.wait(10 * SECOND).await;
        let map = read(&me).await;
        assert_eq!(value(&map), Some("mine"));
        befalls(&bed, hit(1, RequestEffect::LateCommit)).await;
        write(&me, map.clone(), "again").await.unwrap_err();
        write(&other, map, "theirs").await.unwrap();
        bed.wait(20 * SECOND).await;
        assert_eq!(value(&read(&me).await), Some("theirs"));
    });
}

#[test]
fn a_late_request_is_executed_after_the_writes_of_others_on_what_is_there_then() {
    Testbed::run(1, async |bed| {
        let (me, other) = (bed.client("me"), bed.client("other"));
        create(&other, "a").await.unwrap();
        let map = read(&me).await;
        befalls(&bed, RequestFault { writes: 2, after: Span::secs(60), ..hit(1, RequestEffect::Late) }).await;
        let (sender, mine) = (me.clone(), map.clone());
        let answer = in_background(&bed, &me, async move { write(&sender, mine, "mine").await });
        let first = write(&other, map, "one").await.unwrap();
        create(&other, "b").await.unwrap();
        bed.wait(5 * SECOND).await;
        assert!(answer.lock().is_none(), "one write of the object and one of another are not two");
        write(&other, (*first).clone(), "two").await.unwrap();
        bed.wait(SECOND).await;
        let answer = answer.lock().take().expect("two writes ended its wait");
        assert_eq!(answer.unwrap_err().reason(), Some(Reason::Conflict), "it was loaded afresh");
    });
}

#[test]
fn a_request_whose_connection_broke_is_executed_late_even_if_its_caller_is_down() {
    Testbed::run(1, async |bed| {
        let me = bed.client("me");
        befalls(&bed, hit(1, RequestEffect::LateAfterReset)).await;
        let (time, result) = took(&bed, create(&me, "a")).await;
        assert_eq!(result.unwrap_err(), TransportError::Reset.into());
        assert!(time < SECOND && !stored(&bed, "a"));
        bed.cluster.crash(me.process());
        bed.wait(9 * SECOND).await;
        assert!(!stored(&bed, "a"));
        bed.wait(2 * SECOND).await;
        assert!(stored(&bed, "a"));
    });
}

#[test]
fn a_late_reply_shows_what_was_there_when_it_left() {
    Testbed::run(1, async |bed| {
        let (me, other) = (bed.client("me"), bed.client("other"));
        create(&other, "a").await.unwrap();
        let map = read(&other).await;
        befalls(&bed, RequestFault { writes: 1, after: Span::secs(60), ..hit(1, RequestEffect::ReplyLate) }).await;
        let reader = me.clone();
        let answer = in_background(&bed, &me, async move { read(&reader).await });
        bed.wait(5 * SECOND).await;
        assert!(answer.lock().is_none());
        write(&other, map, "new").await.unwrap();
        bed.wait(SECOND).await;
        assert_eq!(value(&answer.lock().take().unwrap()), Some("v"));
    });
}

#[test]
fn only_a_read_of_a_cache_beside_another_one_is_stale() {
    let names = async |bed: &Testbed, version: Option<&str>| {
        let (me, other) = (bed.client("me"), bed.client("other"));
        create(&other, "a").await.unwrap();
        create(&other, "b").await.unwrap();
        bed.wait(5 * SECOND).await;
        befalls(bed, RequestFault { writes: 1, ..hit(1, RequestEffect::Stale) }).await;
        let options = ListOptions { resource_version: version.map(Into::into), ..ListOptions::default() };
        let list = me.list::<ConfigMap>(Some("default"), options).await.unwrap();
        assert_eq!(cached(&me).await.unwrap(), ["a", "b"], "the next one is not");
        list.items.iter().map(|map| map.metadata.name.clone().unwrap()).collect::<Vec<_>>()
    };
    Testbed::run(1, async |bed| assert_eq!(names(&bed, Some("0")).await, ["a"]));
    Testbed::run(1, async |bed| assert_eq!(names(&bed, None).await, ["a", "b"], "a consistent read sees every write"));
    let one = ClusterConfig { seed: 1, ..ClusterConfig::default() };
    Testbed::run_with(one, 1, async |bed| assert_eq!(names(&bed, Some("0")).await, ["a", "b"], "a cache does not go back"));
}

#[test]
fn a_process_crashes_before_or_after_the_execution_of_its_request_and_starts_again() {
    for (effect, is_stored) in [(RequestEffect::CrashBefore, false), (RequestEffect::CrashAfter, true)] {
        Testbed::run(1, async |bed| {
            let me = bed.client("me");
            befalls(&bed, hit(2, effect)).await;
            let sender = me.clone();
            in_background(&bed, &me, async move {
                create(&sender, "a").await.unwrap();
                create(&sender, "b").await.unwrap();
                create(&sender, "c").await.unwrap();
            });
            bed.wait(2 * SECOND).await;
            assert_eq!(["a", "b", "c"].map(|name| stored(&bed, name)), [true, is_stored, false], "{effect:?}");
            assert_eq!(bed.rt.state(me.process()), ProcessState::Down);
            bed.wait(10 * SECOND).await;
            assert_eq!(bed.rt.state(me.process()), ProcessState::Running);
        });
    }
}

/// Makes `me` create `a`, `b` and `c`, one after the other.
fn creates_three(bed: &Testbed, me: &SimClient) {
    let sender = me.clone();
    in_background(bed, me, async move {
        for name in ["a", "b", "c"] {
            create(&sender, name).await.unwrap();
        }
    });
}

#[test]
fn a_process_stands_still_before_or_after_the_execution_of_its_request_and_goes_on() {
    for (effect, is_stored) in [(RequestEffect::PauseBefore, false), (RequestEffect::PauseAfter, true)] {
        Testbed::run(1, async |bed| {
            let me = bed.client("me");
            befalls(&bed, hit(2, effect)).await;
            creates_three(&bed, &me);
            bed.wait(4 * SECOND).await;
            assert_eq!(["a", "b", "c"].map(|name| stored(&bed, name)), [true, is_stored, false], "{effect:?}");
            assert_eq!(bed.rt.state(me.process()), ProcessState::Paused);
            bed.wait(2 * SECOND).await;
            assert_eq!(["a", "b", "c"].map(|name| stored(&bed, name)), [true; 3], "{effect:?}");
            assert_eq!(bed.rt.state(me.process()), ProcessState::Running);
        });
    }
}

#[test]
fn a_process_is_cut_off_before_or_after_the_execution_of_its_request_and_what_was_stopped_arrives_later() {
    for (effect, is_stored) in [(RequestEffect::CutBefore, false), (RequestEffect::CutAfter, true)] {
        Testbed::run(1, async |bed| {
            let (me, other) = (bed.client("me"), bed.client("other"));
            befalls(&bed, hit(2, effect)).await;
            creates_three(&bed, &me);
            bed.wait(4 * SECOND).await;
            assert_eq!(["a", "b", "c"].map(|name| stored(&bed, name)), [true, is_stored, false], "{effect:?}");
            let reader = me.clone();
            let answer = in_background(&bed, &me, async move { read(&reader).await });
            let (time, _) = took(&bed, read(&other)).await;
            assert!(time < SECOND, "others are not cut off: {time:?}");
            bed.wait(SECOND / 2).await;
            assert!(answer.lock().is_none(), "nothing else of the process gets through either");
            bed.wait(20 * SECOND).await;
            assert_eq!(["a", "b", "c"].map(|name| stored(&bed, name)), [true; 3], "{effect:?}");
            assert!(answer.lock().is_some());
        });
    }
}

#[test]
fn the_lease_that_a_process_holds_is_taken_as_it_sends_its_request_and_no_other() {
    let lease = |name: &str, holder: &str| Lease {
        metadata: key(name).metadata(),
        spec: Some(LeaseSpec { holder_identity: Some(holder.to_owned()), ..LeaseSpec::default() }),
    };
    Testbed::run(1, async |bed| {
        let (me, other) = (bed.client("me"), bed.client("other"));
        bed.cluster.keep_requests();
        other.create(lease("mine", "me")).await.unwrap();
        other.create(lease("theirs", "other")).await.unwrap();
        befalls(&bed, hit(2, RequestEffect::LeaseTaken)).await;
        let holder = async |name: &str| other.get::<Lease>(&key(name)).await.unwrap().spec.clone().unwrap().holder_identity.unwrap();
        create(&me, "a").await.unwrap();
        bed.wait(SECOND).await;
        assert_eq!(holder("mine").await, "me");
        create(&me, "b").await.unwrap();
        bed.wait(SECOND).await;
        assert_eq!((holder("mine").await, holder("theirs").await), ("lease-taker-0".to_owned(), "other".to_owned()));
        create(&me, "c").await.unwrap();
        let leads = bed.cluster.take_requests().unwrap().into_iter().filter_map(|logged| match logged {
            Logged::Request(request) if request.client == me.process() => Some(request.leads),
            _ => None,
        });
        assert_eq!(leads.collect::<Vec<_>>(), [true, true, false]);
    });
}

#[test]
fn the_opening_of_a_watch_is_a_request_too() {
    Testbed::run(1, async |bed| {
        let me = bed.client("me");
        befalls(&bed, RequestFault { verb: RequestVerb::Watch, ..hit(1, RequestEffect::Unavailable) }).await;
        create(&me, "a").await.unwrap();
        let open = async || me.watch::<ConfigMap>(None, WatchOptions::default()).await.map(drop);
        assert_eq!(open().await.unwrap_err().reason(), Some(Reason::ServiceUnavailable));
        open().await.unwrap();
    });
}

#[test]
fn what_was_sent_is_logged_with_the_later_writes_of_others() {
    Testbed::run(1, async |bed| {
        let (me, other) = (bed.client("me"), bed.client("other"));
        bed.cluster.keep_requests();
        befalls(&bed, hit(2, RequestEffect::Forbidden)).await;
        create(&me, "a").await.unwrap();
        let map = read(&other).await;
        me.get::<ConfigMap>(&key("a")).await.unwrap_err();
        write(&other, map, "new").await.unwrap();
        create(&other, "b").await.unwrap();
        let _ = me.create(config_map("a", "k", "v")).await;
        let sent = bed.cluster.take_requests().unwrap();
        let of = |client: &SimClient| {
            let sent = sent.iter().filter_map(|logged| match logged {
                Logged::Request(sent) if sent.client == client.process() => Some((sent.nth, sent.later_writes, sent.struck)),
                _ => None,
            });
            sent.collect::<Vec<_>>()
        };
        assert_eq!(of(&me), [(1, 1, false), (2, 1, true), (3, 0, false)]);
        assert_eq!(of(&other).iter().map(|(nth, ..)| *nth).collect::<Vec<_>>(), [1, 2, 3]);
    });
}
