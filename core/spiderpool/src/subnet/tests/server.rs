//! An API server in memory with watches, finalizers, resourceVersions and the webhooks of Spiderpool.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::admission::{self, AdmissionSettings, Admitted, Denial, Listed};
use crate::{Policy, SpiderIPPool, SpiderSubnet};
use kube_machinery::api::{ApiError, Call, List, Object, ObjectKey, Reason, Reply, Request, Status, Subresource, WatchEvent, WatchOptions};
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::testing::{TestEnv, TestWatch};

/// What happened to an object.
#[derive(Clone, Copy, PartialEq)]
enum Change {
    Added,
    Modified,
    Deleted,
}

/// Takes changes of one kind.
type Sink = Box<dyn Fn(Change, &Value) + Send>;

struct Db {
    objects: BTreeMap<(String, ObjectKey), Value>,
    history: Vec<(u64, String, Change, Value)>,
    sinks: Vec<(String, Sink)>,
    /// Kinds whose watches are silent for now, and how far they had come.
    held: BTreeMap<String, u64>,
    refused: BTreeSet<String>,
    /// Objects that caches know nothing of.
    lost: BTreeSet<(String, ObjectKey)>,
    revision: u64,
    writes: Vec<String>,
}

/// The server. Clones are the same.
#[derive(Clone)]
pub(super) struct Server {
    env: TestEnv,
    policy: Policy,
    db: Arc<Mutex<Db>>,
}

fn kind<K: Object>() -> String {
    K::kind(&()).into_owned()
}

fn read<K: Object>(value: &Value) -> Arc<K> {
    Arc::new(serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}")))
}

fn error(reason: Reason) -> ApiError {
    Status::new(reason, "").into()
}

impl Db {
    fn all<K: Object>(&self) -> Vec<Arc<K>> {
        self.objects.iter().filter(|((of, _), _)| *of == kind::<K>()).map(|(_, value)| read(value)).collect()
    }

    fn tell(&mut self, kind: &str, change: Change, value: &Value) {
        self.history.push((self.revision, kind.to_owned(), change, value.clone()));
        if !self.held.contains_key(kind) {
            self.sinks.iter().filter(|(of, _)| of == kind).for_each(|(_, sink)| sink(change, value));
        }
    }

    fn store(&mut self, kind: &str, key: &ObjectKey, mut value: Value) -> Value {
        let place = (kind.to_owned(), key.clone());
        let before = self.objects.get(&place).cloned();
        let changed_spec = before.as_ref().is_none_or(|before| before["spec"] != value["spec"]);
        let generation = before.as_ref().and_then(|before| before["metadata"]["generation"].as_i64()).unwrap_or(0);
        value["metadata"]["generation"] = json!(generation + i64::from(changed_spec));
        if let Some(before) = &before {
            value["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
            if *before == value {
                return value;
            }
        }
        self.revision += 1;
        value["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let finalizers = value["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
        if !value["metadata"]["deletionTimestamp"].is_null() && !finalizers {
            self.objects.remove(&place);
            self.tell(kind, Change::Deleted, &value);
        } else {
            self.objects.insert(place, value.clone());
            self.tell(kind, if before.is_some() { Change::Modified } else { Change::Added }, &value);
        }
        value
    }

    fn admit<K: Object>(&self, old: Option<&Value>, new: &Value, policy: &Policy) -> Result<Value, ApiError> {
        fn judge<K: Admitted>(db: &Db, old: Option<&Value>, new: &Value, policy: &Policy) -> Result<Value, Denial> {
            let (old, new) = (old.map(read::<K>), read::<K>(new));
            let request = match &old {
                Some(old) => admission::Request::Update { old, new: &new },
                None => admission::Request::Create(&new),
            };
            let listed = Listed { pools: db.all(), subnets: db.all() };
            let verdict = admission::review(&request, &listed, &AdmissionSettings::default(), policy);
            verdict.denial.map_or_else(|| Ok(json!(*verdict.defaulted.expect("it is no deletion"))), Err)
        }
        let name = new["metadata"]["name"].as_str().unwrap_or_default();
        let judged = match &*kind::<K>() {
            "SpiderIPPool" => judge::<SpiderIPPool>(self, old, new, policy).map_err(|denial| denial.to_status::<SpiderIPPool>(name)),
            "SpiderSubnet" => judge::<SpiderSubnet>(self, old, new, policy).map_err(|denial| denial.to_status::<SpiderSubnet>(name)),
            _ => Ok(json!(*read::<K>(new))),
        };
        Ok(judged?)
    }

    fn serve<K: Object>(&mut self, call: &Call<K>, policy: &Policy) -> Result<Reply<K>, ApiError> {
        let kind = kind::<K>();
        let found =
            |db: &Self, key: &ObjectKey| db.objects.get(&(kind.clone(), key.clone())).cloned().ok_or_else(|| error(Reason::NotFound));
        match call {
            Call::Get { key, .. } => Ok(Reply::Object(read(&found(self, key)?))),
            Call::List { .. } => {
                let resource_version = self.revision.to_string();
                let mut items = self.all();
                items.retain(|item| !self.lost.contains(&(kind.clone(), ObjectKey::of(&**item))));
                Ok(Reply::List(List { resource_version, items, continue_token: None, remaining: None }))
            }
            Call::Create { body, .. } => {
                let key = ObjectKey::of(&**body);
                // Storage is asked only for what is admitted.
                let mut value = self.admit::<K>(None, &json!(**body), policy)?;
                if found(self, &key).is_ok() {
                    return Err(error(Reason::AlreadyExists));
                }
                value["metadata"]["uid"] = json!(format!("uid-{:05}", self.revision + 1));
                Ok(Reply::Object(read(&self.store(&kind, &key, value))))
            }
            Call::Update { key, body, subresource, .. } => {
                let before = found(self, key)?;
                let mut value = json!(**body);
                if value["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"] {
                    return Err(error(Reason::Conflict));
                }
                if *subresource == Some(Subresource::Status) {
                    let status = value["status"].take();
                    value = before;
                    value["status"] = status;
                } else {
                    if kind.starts_with("Spider") {
                        value["status"] = before["status"].clone();
                    }
                    value = self.admit::<K>(Some(&before), &value, policy)?;
                }
                let value = json!(*read::<K>(&value));
                Ok(Reply::Object(read(&self.store(&kind, key, value))))
            }
            Call::Delete { key, options } => {
                let mut value = found(self, key)?;
                let differs =
                    |wanted: &Option<String>, name: &str| wanted.as_ref().is_some_and(|wanted| value["metadata"][name] != json!(wanted));
                if differs(&options.preconditions.uid, "uid") || differs(&options.preconditions.resource_version, "resourceVersion") {
                    return Err(error(Reason::Conflict));
                }
                if value["metadata"]["deletionTimestamp"].is_null() {
                    value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                }
                self.store(&kind, key, value);
                Ok(Reply::Deleted { uid: String::new() })
            }
            Call::Patch { .. } => unreachable!("nobody patches"),
        }
    }
}

impl Server {
    pub(super) fn new(env: &TestEnv, policy: Policy) -> Self {
        let db = Db {
            objects: BTreeMap::new(),
            history: Vec::new(),
            sinks: Vec::new(),
            held: BTreeMap::new(),
            refused: BTreeSet::new(),
            lost: BTreeSet::new(),
            revision: 0,
            writes: Vec::new(),
        };
        Self { env: env.clone(), policy, db: Arc::new(Mutex::new(db)) }
    }

    /// Somebody creates an object, through admission.
    pub(super) fn create<K: Object>(&self, value: Value) {
        let body: Arc<K> = read(&value);
        let namespace = body.meta().namespace.as_deref().map(Arc::from);
        self.db.lock().unwrap().serve(&Call::Create { namespace, body, dry: Default::default() }, &self.policy).unwrap();
    }

    /// Stores an object past admission; it gets a UID if it has none.
    pub(super) fn put<K: Object>(&self, mut value: Value) {
        let mut db = self.db.lock().unwrap();
        let key = ObjectKey::of(&*read::<K>(&value));
        if value["metadata"]["uid"].is_null() {
            value["metadata"]["uid"] = json!(format!("uid-{:05}", db.revision + 1));
        }
        let value = json!(*read::<K>(&value));
        db.store(&kind::<K>(), &key, value);
    }

    /// Changes an object past admission.
    pub(super) fn change<K: Object>(&self, key: &ObjectKey, change: impl FnOnce(&mut Value)) {
        let mut db = self.db.lock().unwrap();
        let mut value = db.objects[&(kind::<K>(), key.clone())].clone();
        change(&mut value);
        db.store(&kind::<K>(), key, value);
    }

    /// Deletes an object.
    pub(super) fn delete<K: Object>(&self, key: &ObjectKey) {
        self.db.lock().unwrap().serve(&Call::<K>::Delete { key: key.clone(), options: Default::default() }, &self.policy).unwrap();
    }

    pub(super) fn find<K: Object>(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.db.lock().unwrap().objects.get(&(kind::<K>(), key.clone())).map(read)
    }

    pub(super) fn all<K: Object>(&self) -> Vec<Arc<K>> {
        self.db.lock().unwrap().all()
    }

    /// Watches of a kind are silent until they are let go.
    pub(super) fn hold<K: Object>(&self) {
        let mut db = self.db.lock().unwrap();
        let revision = db.revision;
        db.held.insert(kind::<K>(), revision);
    }

    /// The cache of the server has lost what happened to an object last (K182).
    pub(super) fn lose<K: Object>(&self, key: &ObjectKey) {
        self.db.lock().unwrap().lost.insert((kind::<K>(), key.clone()));
    }

    /// The writes since the last look, as verb and kind.
    pub(super) fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.db.lock().unwrap().writes)
    }

    /// From now on requests of this verb and kind are refused by nobody's fault.
    pub(super) fn refuse(&self, what: &str) {
        self.db.lock().unwrap().refused.insert(what.to_owned());
    }

    /// They are served again.
    pub(super) fn serve(&self, what: &str) {
        self.db.lock().unwrap().refused.remove(what);
    }
}

impl Client for Server {
    type Watch<K: Object> = TestWatch<K>;

    async fn send<K: Object>(&self, request: Request<K>) -> Result<Reply<K>, ApiError> {
        // A request takes its time, so that others come in between.
        self.env.sleep(Duration::from_micros(500 + self.env.random() % 2000)).await;
        let mut db = self.db.lock().unwrap();
        let what = format!("{} {}", request.call.verb(), kind::<K>());
        if db.refused.contains(&what) {
            return Err(error(Reason::ServiceUnavailable));
        }
        if request.call.verb().is_write() {
            db.writes.push(what);
        }
        // A cache lists what it has, which is old while it is held.
        if let (Call::List { options, .. }, Some(held)) = (&request.call, db.held.get(&kind::<K>()).copied())
            && options.resource_version.is_some()
        {
            let mut items = BTreeMap::new();
            for (_, of, change, value) in db.history.iter().filter(|(revision, ..)| *revision <= held) {
                if *of == kind::<K>() {
                    let object = read::<K>(value);
                    match change {
                        Change::Deleted => drop(items.remove(&ObjectKey::of(&*object))),
                        _ => drop(items.insert(ObjectKey::of(&*object), object)),
                    }
                }
            }
            let items = items.into_values().collect();
            return Ok(Reply::List(List { resource_version: held.to_string(), items, continue_token: None, remaining: None }));
        }
        db.serve(&request.call, &self.policy)
    }

    async fn watch<K: Object>(&self, _: Option<Arc<str>>, options: WatchOptions) -> Result<TestWatch<K>, ApiError> {
        let (sender, events) = mpsc::unbounded_channel();
        let sink: Sink = Box::new(move |change, value| {
            let object = read::<K>(value);
            let _ = sender.send(Ok(match change {
                Change::Added => WatchEvent::Added(object),
                Change::Modified => WatchEvent::Modified(object),
                Change::Deleted => WatchEvent::Deleted(object),
            }));
        });
        let mut db = self.db.lock().unwrap();
        let from: u64 = options.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0);
        let held = db.held.get(&kind::<K>()).copied().unwrap_or(u64::MAX);
        for (revision, of, change, value) in &db.history {
            if *of == kind::<K>() && (from + 1..=held).contains(revision) {
                sink(*change, value);
            }
        }
        db.sinks.push((kind::<K>(), sink));
        Ok(TestWatch::new(events))
    }
}
