//! The API server in memory that `core`'s tests use ([`kube_machinery::testing::Objects`]), compared with the simulated one: both give the
//! same answers to one client. Differences that are expected are left out: the time, and the names of uids and versions.

use std::collections::BTreeMap;

use ipam_spiderpool::{SpiderEndpoint, SpiderIPPool};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_machinery::api::{Call, ListOptions, Reply, VersionMatch, WatchEvent, WatchOptions};
use kube_machinery::{ApiError, Client, Object, WatchStream};
use kube_sim::testbed::Testbed;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use serde_json::{Value, json};

use super::against_rules::objects::known;
use super::against_rules::rules::{Asked, Guard, Kind, Place};
use super::against_rules::{Asker, Op, call, clients};
use super::support::{after, secs, within};
use api_server::World;

#[path = "../../../../../core/spiderpool/tests/api_server/mod.rs"]
#[allow(dead_code, reason = "its scripts, caches and clock are for others")]
mod api_server;

/// One of the servers, with all uids and versions that it gave out.
struct Side<C> {
    asker: Asker<C>,
    uids: Vec<String>,
    versions: Vec<String>,
}

/// The number of a name: the order in which names first appeared.
fn number(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

impl<C: Client> Side<C> {
    fn of(client: C) -> Self {
        Self { asker: Asker::of(client), uids: Vec::new(), versions: Vec::new() }
    }

    fn object<K: Object>(&mut self, object: &K) -> Value {
        let mut value = serde_json::to_value(object).unwrap();
        let meta = value["metadata"].as_object_mut().unwrap();
        // The time differs. Both servers use whole seconds, and the same interval from a delete to the end of the object.
        let (created, grace) = (object.meta().creation_timestamp.as_ref(), object.meta().deletion_grace_period_seconds);
        if let Some(created) = created {
            meta.insert("creationTimestamp".to_owned(), json!({"whole": created.0.subsec_nanosecond() == 0}));
        }
        if let (Some(end), Some(created), Some(grace)) = (&object.meta().deletion_timestamp, created, grace) {
            let began = end.0.as_second() - grace - created.0.as_second();
            meta.insert("deletionTimestamp".to_owned(), json!({"whole": end.0.subsec_nanosecond() == 0, "soon": (0..10).contains(&began)}));
        }
        meta["uid"] = json!(number(&mut self.uids, meta["uid"].as_str().unwrap()));
        meta["resourceVersion"] = json!(number(&mut self.versions, meta["resourceVersion"].as_str().unwrap()));
        value
    }

    /// Replaces uids and versions in a text by numbers.
    fn text(&self, text: &str) -> String {
        let uids = self.uids.iter().enumerate();
        let text = uids.fold(text.to_owned(), |text, (number, uid)| text.replace(uid, &format!("<uid {number}>")));
        let versions = self.versions.iter().enumerate();
        versions.fold(text, |text, (number, version)| text.replace(&format!("({version})"), &format!("(<version {number}>)")))
    }

    async fn ask(&mut self, op: &Op) -> (Asked<Guard>, Value) {
        let asked = self.asker.asked(op);
        let answer = match op.0.0 {
            Kind::Map => self.ask_of::<ConfigMap>(op.0, &asked).await,
            Kind::Lease => self.ask_of::<Lease>(op.0, &asked).await,
            Kind::Pod => self.ask_of::<Pod>(op.0, &asked).await,
            Kind::Pool => self.ask_of::<SpiderIPPool>(op.0, &asked).await,
            Kind::Endpoint => self.ask_of::<SpiderEndpoint>(op.0, &asked).await,
        };
        (asked, answer)
    }

    async fn ask_of<K: Object>(&mut self, place: Place, asked: &Asked<Guard>) -> Value {
        match self.asker.client.send(call::<K>(place, asked).into()).await {
            Ok(Reply::Object(object)) => {
                self.asker.saw(place, known(place.0, &*object).1);
                json!({"object": self.object(&*object)})
            }
            Ok(Reply::Deleted { uid }) => json!({"gone": number(&mut self.uids, &uid)}),
            Ok(Reply::List(list)) => json!({"list": list.items.iter().map(|item| self.object(&**item)).collect::<Vec<_>>()}),
            Err(ApiError::Status(status)) => {
                let body = serde_json::to_string(&status.to_wire()).unwrap();
                json!({"refused": serde_json::from_str::<Value>(&self.text(&body)).unwrap()})
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// The events of a watch on this type.
    async fn heard<K: Object>(&mut self, bed: &Testbed, options: WatchOptions) -> Vec<Value> {
        let mut stream = self.asker.client.watch::<K>(None, options).await.unwrap();
        let mut heard = Vec::new();
        while let Some(event) = within(bed, secs(5), stream.next()).await {
            heard.push(match event.expect("the watch goes on").unwrap() {
                WatchEvent::Added(object) => json!({"added": self.object(&*object)}),
                WatchEvent::Modified(object) => json!({"modified": self.object(&*object)}),
                WatchEvent::Deleted(object) => json!({"deleted": self.object(&*object)}),
                other => panic!("{other:?}"),
            });
        }
        heard
    }

    /// The events of watches on all types.
    async fn all_heard(&mut self, bed: &Testbed, options: impl Fn() -> WatchOptions) -> Vec<Value> {
        let heard = [
            self.heard::<ConfigMap>(bed, options()).await,
            self.heard::<Lease>(bed, options()).await,
            self.heard::<Pod>(bed, options()).await,
            self.heard::<SpiderIPPool>(bed, options()).await,
            self.heard::<SpiderEndpoint>(bed, options()).await,
        ];
        heard.concat()
    }

    /// The objects of a type at the version with this number.
    async fn listed<K: Object>(&mut self, version: usize) -> Value {
        let (resource_version, resource_version_match) = (Some(self.versions[version].clone()), Some(VersionMatch::Exact));
        let options = ListOptions { resource_version, resource_version_match, ..ListOptions::default() };
        let list = self.asker.client.send::<K>(Call::List { namespace: None, options }.into()).await.unwrap().into_list();
        json!(list.items.iter().map(|item| self.object(&**item)).collect::<Vec<_>>())
    }

    /// The objects at some of the observed versions.
    async fn pasts(&mut self) -> Vec<Value> {
        let count = self.versions.len();
        let mut pasts = Vec::new();
        for version in [count / 4, count / 2, count.saturating_sub(1)].into_iter().filter(|version| *version < count) {
            pasts.push(self.listed::<ConfigMap>(version).await);
            pasts.push(self.listed::<Pod>(version).await);
            pasts.push(self.listed::<SpiderIPPool>(version).await);
        }
        pasts
    }
}

/// Sends the same requests to both servers, and returns their answers.
fn played(clients: &[Vec<(Op, u64)>]) -> Vec<Value> {
    Testbed::run(1, async |bed| {
        let world = World::default();
        let (began, also_began) = (bed.revision(), world.revision());
        let (mut simulated, mut of_core) = (Side::of(bed.client("client")), Side::of(world));
        let mut answers = Vec::new();
        for op in clients.iter().flatten().map(|(op, _)| op) {
            let (asked, expected) = simulated.ask(op).await;
            let (_, answer) = of_core.ask(op).await;
            assert_eq!(answer, expected, "{op:?}: {asked:?}");
            answers.push(answer);
        }
        let expected = simulated.all_heard(&bed, || after(began)).await;
        assert_eq!(of_core.all_heard(&bed, || after(also_began)).await, expected, "after the beginning");
        let expected = simulated.all_heard(&bed, WatchOptions::default).await;
        assert_eq!(of_core.all_heard(&bed, WatchOptions::default).await, expected, "what there is");
        let expected = simulated.pasts().await;
        assert_eq!(of_core.pasts().await, expected, "what there was");
        answers
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_api_server_of_cores_tests_answers_as_the_simulated_one(clients in clients(1..4)) {
        played(&clients);
    }
}

/// Counts each kind of answer, to show that the property is not vacuous.
#[test]
fn the_api_servers_are_asked_for_every_error() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut told = BTreeMap::<String, usize>::new();
    for _ in 0..100 {
        for answer in played(&clients(3..4).new_tree(&mut runner).unwrap().current()) {
            let refused = &answer["refused"];
            let kind = match refused["reason"].as_str() {
                Some(reason) => format!("{reason} {}", refused["details"]["causes"][0]["field"].as_str().unwrap_or_default()),
                None => answer.as_object().unwrap().keys().next().unwrap().clone(),
            };
            *told.entry(kind.trim_end().to_owned()).or_default() += 1;
        }
    }
    let expected = [
        "object",
        "list",
        "gone",
        "NotFound",
        "AlreadyExists",
        "Conflict",
        "Invalid metadata.resourceVersion",
        "Invalid metadata.uid",
        "Invalid metadata.finalizers",
        // An error without a reason: a create that names a version.
        "refused",
    ];
    assert!(expected.iter().all(|kind| told.get(*kind).is_some_and(|times| *times >= 5)), "{told:#?}");
}
