//! An informer against a scripted API server.

use std::collections::VecDeque;

use k8s_openapi::api::core::v1::ConfigMap;

mod watch_list;

use super::*;
use crate::api::{ApiError, Call, ListOptions, Reason, Reply, Status, TransportError, VersionMatch, WatchOptions};
use crate::testing::{Answer, Feed, TestClient, TestEnv};

const SECOND: Duration = Duration::from_secs(1);

/// A ConfigMap `ns/name`, incarnation `uid`, at revision `version`.
fn object(name: &str, uid: &str, version: u32) -> Arc<ConfigMap> {
    let mut object = ConfigMap::default();
    object.metadata.namespace = Some("ns".into());
    object.metadata.name = Some(name.into());
    object.metadata.uid = Some(uid.into());
    object.metadata.resource_version = Some(version.to_string());
    Arc::new(object)
}

#[derive(Default)]
struct Script {
    lists: VecDeque<Result<List<ConfigMap>, ApiError>>,
    watch_errors: VecDeque<ApiError>,
    listed: Vec<(Duration, ListOptions)>,
    watched: Vec<(Duration, WatchOptions)>,
    feed: Option<Feed<ConfigMap>>,
}

struct Rig {
    env: TestEnv,
    script: Arc<Mutex<Script>>,
    client: TestClient<ConfigMap>,
}

impl Rig {
    fn new() -> Self {
        let env = TestEnv::new();
        env.fix_random_unit(0.0);
        let script: Arc<Mutex<Script>> = Arc::default();
        let on_send = {
            let (env, script) = (env.clone(), script.clone());
            move |request: crate::api::Request<ConfigMap>| {
                let Call::List { options, .. } = request.call else { panic!("an informer only lists: {:?}", request.call) };
                let mut script = script.lock().unwrap();
                script.listed.push((env.monotonic(), options));
                Answer::now(script.lists.pop_front().expect("one list too many").map(Reply::List))
            }
        };
        let on_watch = {
            let (env, script) = (env.clone(), script.clone());
            move |options| {
                let mut script = script.lock().unwrap();
                script.watched.push((env.monotonic(), options));
                if let Some(error) = script.watch_errors.pop_front() {
                    return Err(error);
                }
                let (feed, events) = mpsc::unbounded_channel();
                script.feed = Some(feed);
                Ok(events)
            }
        };
        let client = TestClient::new(&env, on_send, on_watch);
        Self { env, script, client }
    }

    fn will_list(&self, version: u32, items: impl IntoIterator<Item = Arc<ConfigMap>>) {
        self.will_list_page(version, items, None);
    }

    fn will_list_page(&self, version: u32, items: impl IntoIterator<Item = Arc<ConfigMap>>, token: Option<&str>) {
        let items = items.into_iter().collect();
        let list = List { resource_version: version.to_string(), items, continue_token: token.map(str::to_owned), remaining: None };
        self.script.lock().unwrap().lists.push_back(Ok(list));
    }

    fn will_fail_list(&self, error: impl Into<ApiError>) {
        self.script.lock().unwrap().lists.push_back(Err(error.into()));
    }

    fn will_fail_watch(&self, error: impl Into<ApiError>) {
        self.script.lock().unwrap().watch_errors.push_back(error.into());
    }

    fn start(&self) -> Informer<ConfigMap, TestEnv> {
        self.start_with(InformerOptions::default())
    }

    fn start_with(&self, options: InformerOptions<ConfigMap>) -> Informer<ConfigMap, TestEnv> {
        Informer::start(self.client.clone(), self.env.clone(), options)
    }

    /// Sends a result on the watch and lets it arrive.
    fn send(&self, event: Result<WatchEvent<ConfigMap>, ApiError>) {
        self.script.lock().unwrap().feed.as_ref().expect("a watch is open").send(event).unwrap();
        self.env.settle();
    }

    fn event(&self, event: WatchEvent<ConfigMap>) {
        self.send(Ok(event));
    }

    fn bookmark(&self, version: u32) {
        self.event(WatchEvent::Bookmark { resource_version: version.to_string(), initial_events_end: false });
    }

    /// Ends the watch cleanly.
    fn end(&self) {
        self.script.lock().unwrap().feed = None;
        self.env.settle();
    }

    fn expire(&self) {
        self.event(WatchEvent::Error(Box::new(Status::new(Reason::Expired, "too old resource version: 10 (20)"))));
    }

    /// The times of the lists, in milliseconds, and their versions.
    fn listed(&self) -> Vec<(u128, Option<String>)> {
        let script = self.script.lock().unwrap();
        script.listed.iter().map(|(at, options)| (at.as_millis(), options.resource_version.clone())).collect()
    }

    /// The times at which watches were opened, in milliseconds, and their start versions.
    fn watched(&self) -> Vec<(u128, String)> {
        let script = self.script.lock().unwrap();
        script.watched.iter().map(|(at, options)| (at.as_millis(), options.resource_version.clone().unwrap())).collect()
    }
}

fn at(version: &str, millis: u128) -> (u128, Option<String>) {
    (millis, Some(version.to_owned()))
}

/// One line for each notification in the queue.
fn told(notifications: &mut Notifications<ConfigMap>) -> Vec<String> {
    let text = |object: &ConfigMap| {
        let meta = &object.metadata;
        let [name, uid, version] = [&meta.name, &meta.uid, &meta.resource_version].map(|field| field.as_deref().unwrap());
        format!("{name}/{uid}@{version}")
    };
    std::iter::from_fn(|| notifications.try_next())
        .map(|notification| match notification {
            Notification::Added { object, initial } => format!("{} {}", if initial { "initial" } else { "added" }, text(&object)),
            Notification::Updated { old, new } => format!("updated {} to {}", text(&old), text(&new)),
            Notification::Deleted { object } => format!("deleted {}", text(&object)),
            Notification::DeletedFinalStateUnknown { key, object } => format!("vanished {key} {}", text(&object)),
        })
        .collect()
}

#[test]
fn lists_any_state_first_then_watches_from_there() {
    let rig = Rig::new();
    rig.will_list(10, [object("a", "u1", 7)]);
    let informer = rig.start();
    assert!(!informer.has_synced());
    rig.env.block_on(informer.synced());
    rig.env.settle();
    assert_eq!(rig.listed(), [at("0", 0)]);
    let script = rig.script.lock().unwrap();
    let (listed, watched) = (&script.listed[0].1, &script.watched[0].1);
    assert_eq!((listed.limit, listed.resource_version_match), (500, None));
    assert_eq!(watched.resource_version.as_deref(), Some("10"));
    assert!(watched.allow_bookmarks && !watched.send_initial_events);
    assert_eq!(informer.store().list().len(), 1);
}

#[test]
fn asks_for_watches_of_five_to_ten_minutes() {
    for (unit, seconds) in [(0.0, 300), (0.5, 450), (0.99999, 599)] {
        let rig = Rig::new();
        rig.env.fix_random_unit(unit);
        rig.will_list(10, []);
        let _informer = rig.start();
        rig.env.settle();
        assert_eq!(rig.script.lock().unwrap().watched[0].1.timeout_seconds, Some(seconds));
    }
}

#[test]
fn a_clean_end_is_followed_by_a_watch_from_the_last_event_or_bookmark() {
    let rig = Rig::new();
    rig.will_list(10, []);
    let informer = rig.start();
    rig.env.settle();
    rig.event(WatchEvent::Added(object("a", "u1", 12)));
    rig.end();
    rig.bookmark(20);
    rig.end();
    rig.env.advance(2 * SECOND);
    rig.end();
    assert_eq!(rig.watched(), [(0, "10".into()), (0, "12".into()), (0, "20".into()), (2000, "20".into())]);
    assert_eq!(rig.listed().len(), 1);
    assert_eq!(informer.store().resource_version().as_deref(), Some("20"));
}

#[test]
fn a_very_short_watch_backs_off_and_lists() {
    let rig = Rig::new();
    rig.will_list(10, []);
    rig.will_list(11, []);
    let _informer = rig.start();
    rig.env.settle();
    rig.end();
    rig.env.advance(SECOND);
    assert_eq!(rig.listed(), [at("0", 0), at("10", 800)]);
}

#[test]
fn k147_after_410_it_lists_not_older_than_what_it_saw_and_reports_what_vanished() {
    let rig = Rig::new();
    rig.will_list(10, [object("a", "u1", 7), object("b", "u2", 8), object("c", "u3", 9)]);
    let informer = rig.start();
    let mut notifications = informer.subscribe();
    rig.env.settle();
    rig.event(WatchEvent::Modified(object("a", "u1", 15)));
    told(&mut notifications);
    rig.will_list(30, [object("b", "u2", 28), object("c", "u9", 29), object("d", "u4", 30)]);
    rig.expire();
    rig.env.advance(SECOND);
    assert_eq!(rig.listed(), [at("0", 0), at("15", 800)]);
    assert_eq!(rig.script.lock().unwrap().listed[1].1.resource_version_match, Some(VersionMatch::NotOlderThan));
    assert_eq!(rig.script.lock().unwrap().listed[1].1.limit, 0);
    assert_eq!(rig.watched().last().unwrap(), &(800, "30".into()));
    assert_eq!(
        told(&mut notifications),
        ["updated b/u2@8 to b/u2@28", "updated c/u3@9 to c/u9@29", "added d/u4@30", "vanished ns/a a/u1@15"]
    );
}

#[test]
fn k150_a_list_that_cannot_reach_the_version_falls_to_the_most_recent_state() {
    let too_large = Status::new(Reason::Timeout, "Too large resource version: 10, current: 5").cause(crate::api::Cause {
        reason: "ResourceVersionTooLarge".into(),
        message: "Too large resource version".into(),
        field: "".into(),
    });
    for error in [too_large, Status::new(Reason::Expired, "gone"), Status::new(Reason::Gone, "gone")] {
        let rig = Rig::new();
        rig.will_list(10, []);
        let _informer = rig.start();
        rig.env.settle();
        rig.will_fail_list(error);
        rig.will_fail_list(Status::new(Reason::Unknown, "etcdserver: request timed out"));
        rig.will_list(20, []);
        rig.expire();
        rig.env.advance(3 * SECOND);
        assert_eq!(rig.listed(), [at("0", 0), at("10", 800), (800, None), (2400, None)]);
        rig.will_list(30, []);
        rig.expire();
        rig.env.advance(4 * SECOND);
        assert_eq!(rig.listed()[4].1.as_deref(), Some("20"), "the version counts again once a list succeeded");
    }
}

#[test]
fn too_many_requests_and_refused_connections_retry_the_watch_without_a_list() {
    for error in [
        TransportError::Refused.into(),
        Status::new(Reason::TooManyRequests, "").into(),
        ApiError::Plain { code: 429, text: "", retry_after: None },
    ] {
        let rig = Rig::new();
        rig.will_list(10, []);
        for _ in 0..3 {
            rig.will_fail_watch(error.clone());
        }
        let _informer = rig.start();
        rig.env.advance(10 * SECOND);
        let from = |millis| (millis, "10".to_owned());
        assert_eq!(rig.watched(), [from(0), from(800), from(2400), from(5600)]);
        assert_eq!(rig.listed().len(), 1);
    }
}

#[test]
fn other_errors_of_opening_a_watch_list_again() {
    for error in [
        ApiError::from(Status::new(Reason::Unknown, "etcdserver: no leader")),
        Status::new(Reason::Expired, "too old resource version").into(),
        TransportError::Reset.into(),
    ] {
        let rig = Rig::new();
        rig.will_list(10, []);
        rig.will_fail_watch(error);
        rig.will_list(11, []);
        let _informer = rig.start();
        rig.env.advance(SECOND);
        assert_eq!(rig.listed(), [at("0", 0), at("10", 800)]);
    }
}

/// A server whose watches never open: the requests for them are lost in a partition.
#[derive(Clone, Default)]
struct CutOff {
    /// The timeout of each list.
    lists: Arc<Mutex<Vec<Option<Duration>>>>,
    streams_lists: bool,
}

impl Client for CutOff {
    type Watch<K: Object> = crate::testing::TestWatch<K>;

    async fn send<K: Object>(&self, request: crate::api::Request<K>) -> Result<Reply<K>, ApiError> {
        self.lists.lock().unwrap().push(request.timeout);
        Ok(Reply::List(List { resource_version: "10".to_owned(), items: Vec::new(), continue_token: None, remaining: None }))
    }

    async fn watch<K: Object>(&self, _: Option<Arc<str>>, _: WatchOptions) -> Result<Self::Watch<K>, ApiError> {
        std::future::pending().await
    }

    fn streams_lists(&self) -> bool {
        self.streams_lists
    }
}

#[test]
fn with_patience_lists_have_an_end_and_a_watch_that_does_not_open_is_given_up_for_a_list() {
    let minute = Some(60 * SECOND);
    for (patience, streams_lists, lists) in
        [(None, false, vec![None]), (None, true, vec![]), (minute, false, vec![minute, minute]), (minute, true, vec![minute])]
    {
        let (env, client) = (TestEnv::new(), CutOff { streams_lists, ..CutOff::default() });
        let options = InformerOptions { patience, ..InformerOptions::default() };
        let informer = Informer::<ConfigMap, _>::start(client.clone(), env.clone(), options);
        env.advance(70 * SECOND);
        assert_eq!(*client.lists.lock().unwrap(), lists, "{patience:?}, streams {streams_lists}");
        assert_eq!(informer.has_synced(), !lists.is_empty());
    }
}

#[test]
fn a_reset_in_the_stream_is_a_clean_end_and_a_dead_connection_is_not() {
    let rig = Rig::new();
    rig.will_list(10, []);
    let _informer = rig.start();
    rig.env.advance(2 * SECOND);
    rig.send(Err(TransportError::Reset.into()));
    assert_eq!(rig.watched(), [(0, "10".into()), (2000, "10".into())]);
    rig.will_list(11, []);
    rig.env.advance(2 * SECOND);
    rig.send(Err(TransportError::ConnectionLost.into()));
    rig.env.advance(SECOND);
    assert_eq!(rig.listed(), [at("0", 0), at("10", 4800)]);
}

#[test]
fn k146_the_store_is_updated_before_the_handler_and_may_be_ahead_of_it() {
    let rig = Rig::new();
    rig.will_list(10, []);
    let informer = rig.start();
    let (store, key) = (informer.store(), ObjectKey::namespaced("ns", "a"));
    let seen: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let record = seen.clone();
    informer.add_handler(move |notification| {
        let version = |object: &ConfigMap| object.metadata.resource_version.clone().unwrap();
        let in_store = store.get(&key).map_or("gone".to_owned(), |object| version(&object));
        record.lock().unwrap().push((version(notification.object()), in_store));
    });
    rig.env.settle();
    {
        let script = rig.script.lock().unwrap();
        let feed = script.feed.as_ref().unwrap();
        feed.send(Ok(WatchEvent::Added(object("a", "u1", 11)))).unwrap();
        feed.send(Ok(WatchEvent::Modified(object("a", "u1", 12)))).unwrap();
    }
    rig.env.settle();
    rig.event(WatchEvent::Deleted(object("a", "u1", 13)));
    let pairs = [("11", "12"), ("12", "12"), ("13", "gone")].map(|(told, stored)| (told.to_owned(), stored.to_owned()));
    assert_eq!(*seen.lock().unwrap(), pairs);
}

#[test]
fn a_late_handler_is_told_about_what_is_there_as_initial() {
    let rig = Rig::new();
    rig.will_list(10, [object("a", "u1", 7)]);
    let informer = rig.start();
    rig.env.settle();
    rig.event(WatchEvent::Added(object("b", "u2", 11)));
    let mut late = informer.subscribe();
    rig.event(WatchEvent::Modified(object("b", "u2", 12)));
    assert_eq!(told(&mut late), ["initial a/u1@7", "initial b/u2@11", "updated b/u2@11 to b/u2@12"]);
}

#[test]
fn resync_tells_everything_again_without_an_api_call() {
    let rig = Rig::new();
    rig.will_list(10, [object("a", "u1", 7)]);
    let informer = rig.start_with(InformerOptions { resync: Some(30 * SECOND), ..Default::default() });
    let mut notifications = informer.subscribe();
    rig.env.advance(65 * SECOND);
    let again = "updated a/u1@7 to a/u1@7";
    assert_eq!(told(&mut notifications), ["initial a/u1@7", again, again]);
    assert_eq!((rig.listed().len(), rig.watched().len()), (1, 1));
}

#[test]
fn pages_are_joined_and_an_expired_page_is_replaced_by_a_whole_list() {
    let rig = Rig::new();
    rig.will_list_page(10, [object("a", "u1", 1)], Some("t1"));
    rig.will_list_page(10, [object("b", "u2", 2)], Some("t2"));
    rig.will_list(10, [object("c", "u3", 3)]);
    let informer = rig.start();
    rig.env.settle();
    assert_eq!(informer.store().len(), 3);
    drop(informer);

    let rig = Rig::new();
    rig.will_list_page(10, [object("a", "u1", 1)], Some("t1"));
    rig.will_fail_list(Status::new(Reason::Expired, "the continue token is too old"));
    rig.will_list(12, [object("b", "u2", 2)]);
    let informer = rig.start();
    rig.env.settle();
    assert_eq!(informer.store().list(), [object("b", "u2", 2)]);
    let script = rig.script.lock().unwrap();
    let asked: Vec<_> = script
        .listed
        .iter()
        .map(|(_, options)| (options.resource_version.as_deref(), options.limit, options.continue_token.as_deref()))
        .collect();
    assert_eq!(asked, [(Some("0"), 500, None), (None, 500, Some("t1")), (Some("0"), 0, None)]);
}

#[test]
fn k149_a_new_process_starts_from_nothing_and_is_told_no_deletions() {
    let rig = Rig::new();
    rig.will_list(10, [object("a", "u1", 7)]);
    let before = rig.start();
    rig.env.settle();
    drop(before);
    rig.will_list(9, []);
    let informer = rig.start();
    let mut notifications = informer.subscribe();
    rig.env.settle();
    assert!(informer.has_synced());
    assert_eq!(told(&mut notifications), Vec::<String>::new());
    assert_eq!(rig.listed(), [at("0", 0), at("0", 0)]);
    assert_eq!(informer.store().resource_version().as_deref(), Some("9"), "it may even be given an older state (K150)");
}

#[test]
fn everything_ends_with_the_informer() {
    let rig = Rig::new();
    rig.will_list(10, [object("a", "u1", 7)]);
    let informer = rig.start();
    let (store, mut notifications) = (informer.store(), informer.subscribe());
    informer.add_handler(|_| {});
    rig.env.settle();
    assert_eq!(rig.env.tasks_alive(), 2);
    drop(informer);
    assert_eq!(rig.env.tasks_alive(), 0);
    assert!(rig.env.block_on(notifications.next()).is_some(), "what was queued can still be read");
    assert_eq!(rig.env.block_on(notifications.next()), None);
    assert_eq!(store.list().len(), 1);
}

fn kube_rs(semantic: ListSemantic) -> InformerOptions<ConfigMap> {
    InformerOptions { model: Model::KubeRs(semantic), ..Default::default() }
}

#[test]
fn k147_kube_rs_says_nothing_about_what_vanished() {
    let rig = Rig::new();
    rig.will_list(10, [object("a", "u1", 7), object("b", "u2", 8)]);
    let informer = rig.start_with(kube_rs(ListSemantic::MostRecent));
    let mut notifications = informer.subscribe();
    rig.env.settle();
    told(&mut notifications);
    rig.will_list(30, [object("b", "u2", 28)]);
    rig.expire();
    rig.env.advance(SECOND);
    assert_eq!(told(&mut notifications), ["updated b/u2@8 to b/u2@28"]);
    assert_eq!(informer.store().len(), 1);
    assert_eq!(rig.listed(), [(0, None), (800, None)]);
    assert_eq!(rig.script.lock().unwrap().watched[0].1.timeout_seconds, Some(290));
}

#[test]
fn kube_rs_with_any_can_go_back_in_time() {
    let rig = Rig::new();
    rig.will_list(30, [object("a", "u2", 28)]);
    let informer = rig.start_with(kube_rs(ListSemantic::Any));
    rig.env.settle();
    rig.will_list(10, [object("a", "u1", 7)]);
    rig.expire();
    rig.env.advance(SECOND);
    assert_eq!(rig.listed(), [at("0", 0), at("0", 800)]);
    assert_eq!(informer.store().list(), [object("a", "u1", 7)]);
}

#[test]
fn kube_rs_retries_a_watch_for_ever_even_if_the_answer_is_410() {
    let rig = Rig::new();
    rig.will_list(10, []);
    for _ in 0..5 {
        rig.will_fail_watch(Status::new(Reason::Expired, "too old resource version"));
    }
    let _informer = rig.start_with(kube_rs(ListSemantic::MostRecent));
    rig.env.advance(30 * SECOND);
    assert_eq!(rig.watched().len(), 6);
    assert!(rig.watched().iter().all(|(_, version)| version == "10"));
    assert_eq!(rig.listed().len(), 1);
}

#[test]
fn kube_rs_leaves_a_stream_that_stays_silent() {
    let rig = Rig::new();
    rig.will_list(10, []);
    let _informer = rig.start_with(kube_rs(ListSemantic::MostRecent));
    rig.env.advance(200 * SECOND);
    rig.bookmark(11);
    rig.env.advance(294 * SECOND);
    assert_eq!(rig.watched().len(), 1);
    rig.env.advance(2 * SECOND);
    assert_eq!(rig.watched(), [(0, "10".into()), (495_000, "11".into())]);
}

#[test]
fn a_store_that_nobody_listens_to_takes_changes_when_it_is_read() {
    let rig = Rig::new();
    rig.will_list(5, [object("a", "1", 5)]);
    let informer = rig.start();
    rig.env.advance(SECOND);
    let store = informer.store();
    rig.event(WatchEvent::Added(object("b", "2", 6)));
    rig.event(WatchEvent::Deleted(object("a", "1", 7)));
    rig.env.advance(SECOND);
    let taken = || informer.shared.contents.read().unwrap().version.clone();
    assert_eq!(taken(), "5", "nobody has looked");
    assert_eq!((store.len(), store.resource_version().as_deref(), &*taken()), (1, Some("7"), "7"));
    assert!(store.get(&ObjectKey::namespaced("ns", "b")).is_some());
}

#[test]
fn a_listener_that_comes_later_is_told_what_was_not_read_as_initial_and_each_change_from_then_on() {
    let rig = Rig::new();
    rig.will_list(5, [object("a", "1", 5)]);
    let informer = rig.start();
    rig.env.advance(SECOND);
    rig.event(WatchEvent::Added(object("b", "2", 6)));
    rig.env.advance(SECOND);
    let mut notifications = informer.subscribe();
    rig.event(WatchEvent::Modified(object("b", "2", 7)));
    rig.event(WatchEvent::Deleted(object("b", "2", 8)));
    rig.env.advance(SECOND);
    let told: Vec<_> = std::iter::from_fn(|| notifications.try_next()).collect();
    assert!(
        matches!(
            &told[..],
            [
                Notification::Added { initial: true, .. },
                Notification::Added { initial: true, .. },
                Notification::Updated { .. },
                Notification::Deleted { .. }
            ]
        ),
        "{told:?}"
    );
    assert_eq!(informer.store().len(), 1);
}

#[test]
fn what_came_before_the_end_of_a_watch_counts_although_nobody_read_it() {
    let rig = Rig::new();
    rig.will_list(5, []);
    let _informer = rig.start();
    rig.env.advance(SECOND / 2);
    rig.event(WatchEvent::Added(object("a", "1", 6)));
    rig.env.advance(SECOND / 4);
    // A watch as short as this one without an event would be followed by a list.
    rig.end();
    rig.env.advance(SECOND);
    let versions: Vec<_> = rig.watched().into_iter().map(|(_, version)| version).collect();
    assert_eq!(versions, ["5", "6"]);
}
