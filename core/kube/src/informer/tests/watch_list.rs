//! Informers that read the initial state from a stream (`sendInitialEvents`).

use super::*;

fn streaming() -> Rig {
    let rig = Rig::new();
    Rig { client: rig.client.streaming_lists(), ..rig }
}

impl Rig {
    /// The bookmark after the last object of the state.
    fn state_ends(&self, version: u32) {
        self.event(WatchEvent::Bookmark { resource_version: version.to_string(), initial_events_end: true });
    }

    /// The times at which streams were requested, in milliseconds, their start versions, and whether with the state.
    fn streamed(&self) -> Vec<(u128, Option<String>, bool)> {
        let script = self.script.lock().unwrap();
        let told = |(at, options): &(Duration, WatchOptions)| {
            let with_state = options.send_initial_events;
            assert_eq!(options.resource_version_match, with_state.then_some(VersionMatch::NotOlderThan));
            assert!(options.allow_bookmarks);
            (at.as_millis(), options.resource_version.clone(), with_state)
        };
        script.watched.iter().map(told).collect()
    }
}

/// A stream with the state, from a version if there is one.
fn state(millis: u128, version: Option<&str>) -> (u128, Option<String>, bool) {
    (millis, version.map(str::to_owned), true)
}

/// A stream of changes after a version.
fn changes(millis: u128, version: &str) -> (u128, Option<String>, bool) {
    (millis, Some(version.to_owned()), false)
}

fn expired() -> Status {
    Status::new(Reason::Expired, "too old resource version: 10 (20)")
}

#[test]
fn the_state_comes_by_a_stream_of_the_most_recent_one_that_goes_on_with_changes() {
    let rig = streaming();
    let informer = rig.start();
    let mut notifications = informer.subscribe();
    rig.env.settle();
    rig.event(WatchEvent::Added(object("b", "u2", 8)));
    rig.event(WatchEvent::Added(object("a", "u1", 7)));
    // Changes during the initial state arrive in between.
    rig.event(WatchEvent::Modified(object("b", "u2", 11)));
    rig.event(WatchEvent::Added(object("c", "u3", 12)));
    rig.event(WatchEvent::Deleted(object("c", "u3", 13)));
    rig.bookmark(14);
    assert!(!informer.has_synced() && informer.store().is_empty(), "half a state is none");
    rig.state_ends(15);
    assert!(informer.has_synced());
    assert_eq!(told(&mut notifications), ["initial a/u1@7", "initial b/u2@11"]);
    assert_eq!(informer.store().resource_version().as_deref(), Some("15"));
    rig.event(WatchEvent::Modified(object("a", "u1", 16)));
    assert_eq!(told(&mut notifications), ["updated a/u1@7 to a/u1@16"]);
    rig.end();
    assert_eq!(rig.streamed(), [state(0, None), changes(0, "16")]);
    assert_eq!(rig.listed(), []);
}

#[test]
fn a_stream_that_ends_before_the_state_is_complete_is_asked_for_anew_and_leaves_nothing() {
    for broken in [false, true] {
        let rig = streaming();
        let informer = rig.start();
        rig.env.settle();
        rig.event(WatchEvent::Added(object("a", "u1", 7)));
        if broken {
            rig.send(Err(TransportError::Reset.into()))
        } else {
            rig.end()
        };
        rig.event(WatchEvent::Added(object("b", "u2", 8)));
        rig.state_ends(10);
        assert_eq!(informer.store().list(), [object("b", "u2", 8)]);
        assert_eq!(rig.streamed(), [state(0, None), state(0, None)]);
    }
}

#[test]
fn a_server_without_watch_lists_is_asked_for_a_list_each_time() {
    let rig = streaming();
    rig.will_fail_watch(Status::new(Reason::Invalid, "sendInitialEvents is forbidden"));
    rig.will_list(10, [object("a", "u1", 7)]);
    let informer = rig.start();
    rig.env.settle();
    assert_eq!(informer.store().len(), 1);
    rig.will_fail_watch(Status::new(Reason::Invalid, "sendInitialEvents is forbidden"));
    rig.will_list(20, []);
    rig.expire();
    rig.env.advance(SECOND);
    assert!(informer.store().is_empty());
    assert_eq!(rig.listed(), [at("0", 0), at("10", 800)]);
    assert_eq!(rig.streamed(), [state(0, None), changes(0, "10"), state(800, Some("10")), changes(800, "20")]);
}

#[test]
fn what_is_broken_in_the_middle_of_the_state_is_listed() {
    let lost: ApiError = TransportError::ConnectionLost.into();
    let failed = WatchEvent::Error(Box::new(Status::new(Reason::InternalError, "etcd")));
    for end in [Err(lost), Ok(failed)] {
        let rig = streaming();
        let informer = rig.start();
        rig.env.settle();
        rig.event(WatchEvent::Added(object("a", "u1", 7)));
        rig.will_list(10, [object("b", "u2", 8)]);
        rig.send(end);
        assert_eq!(informer.store().list(), [object("b", "u2", 8)]);
        assert_eq!((rig.listed(), rig.streamed()), (vec![at("0", 0)], vec![state(0, None), changes(0, "10")]));
    }
}

#[test]
fn a_stream_that_ends_at_once_without_a_word_is_not_asked_for_again() {
    let rig = streaming();
    let _informer = rig.start();
    rig.env.settle();
    rig.will_list(10, []);
    rig.end();
    assert_eq!((rig.listed(), rig.streamed()), (vec![at("0", 0)], vec![state(0, None), changes(0, "10")]));
    // A stream that lasted is retried.
    let rig = streaming();
    let _informer = rig.start();
    rig.env.advance(2 * SECOND);
    rig.end();
    assert_eq!((rig.listed(), rig.streamed()), (vec![], vec![state(0, None), state(2000, None)]));
}

#[test]
fn a_server_that_is_busy_or_away_is_asked_for_the_stream_after_a_while() {
    for error in [ApiError::from(TransportError::Refused), Status::new(Reason::TooManyRequests, "").into()] {
        let rig = streaming();
        rig.will_fail_watch(error);
        let _informer = rig.start();
        rig.env.advance(SECOND);
        assert_eq!((rig.listed(), rig.streamed()), (vec![], vec![state(0, None), state(800, None)]));
    }
}

#[test]
fn k150_after_a_gap_the_state_is_not_older_than_what_was_seen_unless_that_cannot_be_had() {
    let rig = streaming();
    let informer = rig.start();
    let mut notifications = informer.subscribe();
    rig.env.settle();
    rig.event(WatchEvent::Added(object("a", "u1", 7)));
    rig.state_ends(10);
    told(&mut notifications);
    rig.will_fail_watch(expired());
    rig.expire();
    rig.env.advance(SECOND);
    assert_eq!(rig.streamed(), [state(0, None), state(800, Some("10")), state(800, None)]);
    rig.event(WatchEvent::Added(object("b", "u2", 28)));
    rig.state_ends(30);
    assert_eq!(told(&mut notifications), ["added b/u2@28", "vanished ns/a a/u1@7"]);
    // The version counts again, even if it is refused inside the stream.
    rig.expire();
    rig.env.advance(2 * SECOND);
    assert_eq!(rig.streamed()[3..], [state(2600, Some("30"))]);
    rig.expire();
    assert_eq!(rig.streamed()[4..], [state(3000, None)]);
}
