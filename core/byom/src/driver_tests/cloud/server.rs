//! An API server that keeps objects of all kinds as JSON: just enough of finalizers, preconditions and watches.

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use kube_machinery::api::{List, PatchKind, WatchEvent};

/// What the server does with one request.
pub(super) enum Deed {
    Serve,
    /// Answers with this error and does nothing.
    Fail(ApiError),
    /// Does it, and says that it does not know.
    LoseReply,
}

type Tell = Box<dyn Fn(&'static str, &Value) + Send>;
type Script = Box<dyn FnMut(&str, &World) -> Deed + Send>;

#[derive(Default)]
struct Db {
    objects: BTreeMap<(String, ObjectKey), Value>,
    revision: u64,
    watches: Vec<(String, Tell)>,
    log: Vec<String>,
}

/// The server. Clones are the same.
#[derive(Clone)]
pub(super) struct World {
    env: TestEnv,
    db: Arc<Mutex<Db>>,
    script: Arc<Mutex<Option<Script>>>,
    /// The longest way to the server, and back.
    way: Arc<Mutex<Duration>>,
}

fn kind<K: Object>() -> String {
    K::kind(&()).into_owned()
}

fn error(reason: Reason) -> ApiError {
    Status::new(reason, "").into()
}

fn read<K: Object>(value: &Value) -> K {
    serde_json::from_value(value.clone()).expect("the server wrote it")
}

impl Db {
    fn tell(&self, kind: &str, event: &'static str, value: &Value) {
        self.watches.iter().filter(|(of, _)| of == kind).for_each(|(_, tell)| tell(event, value));
    }

    /// Stores an object; one that is marked for deletion and has no finalizer vanishes.
    fn store(&mut self, kind: &str, key: &ObjectKey, mut value: Value) -> Value {
        self.revision += 1;
        value["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let finalizers = value["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
        if !value["metadata"]["deletionTimestamp"].is_null() && finalizers == 0 {
            self.objects.remove(&(kind.to_owned(), key.clone()));
            self.tell(kind, "DELETED", &value);
            return value;
        }
        let before = self.objects.insert((kind.to_owned(), key.clone()), value.clone());
        self.tell(kind, if before.is_some() { "MODIFIED" } else { "ADDED" }, &value);
        value
    }
}

impl World {
    pub(super) fn new(env: &TestEnv) -> Self {
        Self { env: env.clone(), db: Arc::default(), script: Arc::default(), way: Arc::default() }
    }

    /// From now on `script` says what becomes of each request, called by its verb and kind.
    pub(super) fn script(&self, script: impl FnMut(&str, &World) -> Deed + Send + 'static) {
        *self.script.lock().unwrap() = Some(Box::new(script));
    }

    /// From now on requests and answers take up to this long.
    pub(super) fn delay(&self, way: Duration) {
        *self.way.lock().unwrap() = way;
    }

    async fn travel(&self) {
        let way = *self.way.lock().unwrap();
        if !way.is_zero() {
            self.env.sleep(way.mul_f64(self.env.random_unit())).await;
        }
    }

    /// The requests since the last look.
    pub(super) fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.db.lock().unwrap().log)
    }

    pub(super) fn get<K: Object>(&self, key: &ObjectKey) -> Option<K> {
        self.db.lock().unwrap().objects.get(&(kind::<K>(), key.clone())).map(read)
    }

    pub(super) fn all<K: Object>(&self) -> Vec<K> {
        let db = self.db.lock().unwrap();
        db.objects.iter().filter(|((of, _), _)| *of == kind::<K>()).map(|(_, value)| read(value)).collect()
    }

    pub(super) fn put<K: Object>(&self, object: K) {
        let value = serde_json::to_value(&object).unwrap();
        self.db.lock().unwrap().store(&kind::<K>(), &ObjectKey::of(&object), value);
    }

    /// Marks it for deletion, as a user or the garbage collector does.
    pub(super) fn delete<K: Object>(&self, key: &ObjectKey) {
        let options = kube_machinery::api::DeleteOptions::default();
        drop(self.serve::<K>(Call::Delete { key: key.clone(), options }));
    }

    /// Takes it away as if it had never been.
    pub(super) fn vanish<K: Object>(&self, key: &ObjectKey) {
        self.db.lock().unwrap().objects.remove(&(kind::<K>(), key.clone()));
    }

    fn serve<K: Object>(&self, call: Call<K>) -> Result<Reply<K>, ApiError> {
        let mut db = self.db.lock().unwrap();
        let kind = kind::<K>();
        let stored =
            |db: &Db, key: &ObjectKey| db.objects.get(&(kind.clone(), key.clone())).cloned().ok_or_else(|| error(Reason::NotFound));
        let object = |value: &Value| Ok(Reply::Object(Arc::new(read(value))));
        match call {
            Call::Get { key, .. } => object(&stored(&db, &key)?),
            Call::List { .. } => {
                let items = db.objects.iter().filter(|((of, _), _)| *of == kind).map(|(_, value)| Arc::new(read(value))).collect();
                Ok(Reply::List(List { resource_version: db.revision.to_string(), items, continue_token: None, remaining: None }))
            }
            Call::Create { body, .. } => {
                let key = ObjectKey::of(&*body);
                if stored(&db, &key).is_ok() {
                    return Err(error(Reason::AlreadyExists));
                }
                let mut value = serde_json::to_value(&*body).unwrap();
                value["metadata"]["uid"] = json!(format!("uid-{}", db.revision + 1));
                let now = jiff::Timestamp::from_second(self.env.wall().as_second()).unwrap();
                value["metadata"]["creationTimestamp"] = json!(now.to_string());
                object(&db.store(&kind, &key, value))
            }
            Call::Update { key, body, .. } => {
                let before = stored(&db, &key)?;
                let mut value = serde_json::to_value(&*body).unwrap();
                let version = &value["metadata"]["resourceVersion"];
                if !version.is_null() && *version != before["metadata"]["resourceVersion"] {
                    return Err(error(Reason::Conflict));
                }
                value["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
                if value == before { object(&before) } else { object(&db.store(&kind, &key, value)) }
            }
            Call::Patch { key, patch, .. } => {
                assert_eq!((patch.kind, &*patch.body), (PatchKind::Json, &json!([{"op": "remove", "path": "/metadata/finalizers"}])));
                let mut value = stored(&db, &key)?;
                value["metadata"].as_object_mut().unwrap().remove("finalizers").ok_or_else(|| error(Reason::Invalid))?;
                object(&db.store(&kind, &key, value))
            }
            Call::Delete { key, options } => {
                let mut value = stored(&db, &key)?;
                let differs = |wanted: &Option<String>, field: &str| {
                    wanted.as_deref().is_some_and(|wanted| value["metadata"][field].as_str() != Some(wanted))
                };
                if differs(&options.preconditions.uid, "uid") || differs(&options.preconditions.resource_version, "resourceVersion") {
                    return Err(error(Reason::Conflict));
                }
                let uid = value["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
                if value["metadata"]["deletionTimestamp"].is_null() {
                    value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                    value = db.store(&kind, &key, value);
                }
                if db.objects.contains_key(&(kind, key)) { object(&value) } else { Ok(Reply::Deleted { uid }) }
            }
        }
    }
}

impl Client for World {
    type Watch<K: Object> = TestWatch<K>;

    async fn send<K: Object>(&self, request: Request<K>) -> Result<Reply<K>, ApiError> {
        let what = format!("{} {}", request.call.verb(), kind::<K>());
        self.db.lock().unwrap().log.push(what.clone());
        self.travel().await;
        // Taken out while it runs, so that it can look at the server.
        let script = self.script.lock().unwrap().take();
        let deed = match script {
            None => Deed::Serve,
            Some(mut script) => {
                let deed = script(&what, self);
                self.script.lock().unwrap().get_or_insert(script);
                deed
            }
        };
        match deed {
            Deed::Serve => {
                let result = self.serve(request.call);
                self.travel().await;
                result
            }
            Deed::Fail(error) => Err(error),
            Deed::LoseReply => {
                drop(self.serve(request.call));
                self.env.sleep(request.timeout.unwrap_or(Duration::from_secs(3600))).await;
                Err(TransportError::Deadline.into())
            }
        }
    }

    async fn watch<K: Object>(&self, _: Option<Arc<str>>, _: WatchOptions) -> Result<TestWatch<K>, ApiError> {
        let (sender, events) = mpsc::unbounded_channel();
        let tell = move |event: &'static str, value: &Value| {
            let object = Arc::new(read::<K>(value));
            let event = match event {
                "ADDED" => WatchEvent::Added(object),
                "MODIFIED" => WatchEvent::Modified(object),
                _ => WatchEvent::Deleted(object),
            };
            let _ = sender.send(Ok(event));
        };
        self.db.lock().unwrap().watches.push((kind::<K>(), Box::new(tell)));
        Ok(TestWatch::new(events))
    }
}
