//! An API server with objects of all kinds, whose objects and rules are those of [`Objects`].

use super::*;
use kube_machinery::testing::Objects;

/// The server's treatment of one request.
pub(super) enum Deed {
    Serve,
    /// Answers with this error and does nothing.
    Fail(ApiError),
    /// Carries it out, and the answer is lost.
    LoseReply,
}

type Script = Box<dyn FnMut(&str, &World) -> Deed + Send>;

/// The server. Clones share its state.
#[derive(Clone)]
pub(super) struct World {
    env: TestEnv,
    objects: Arc<Mutex<Objects>>,
    log: Arc<Mutex<Vec<String>>>,
    script: Arc<Mutex<Option<Script>>>,
    /// The maximum latency to the server, and back.
    way: Arc<Mutex<Duration>>,
}

impl World {
    pub(super) fn new(env: &TestEnv) -> Self {
        let objects = Arc::new(Mutex::new(Objects::new(&[])));
        Self { env: env.clone(), objects, log: Arc::default(), script: Arc::default(), way: Arc::default() }
    }

    /// From now on `script` decides the outcome of each request, given as its verb and kind.
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

    /// The requests since the last call.
    pub(super) fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    pub(super) fn get<K: Object>(&self, key: &ObjectKey) -> Option<K> {
        self.objects.lock().unwrap().get(key).map(Arc::unwrap_or_clone)
    }

    pub(super) fn all<K: Object>(&self) -> Vec<K> {
        self.objects.lock().unwrap().all().into_iter().map(Arc::unwrap_or_clone).collect()
    }

    /// Stores an object unchanged.
    pub(super) fn put<K: Object>(&self, object: K) {
        self.objects.lock().unwrap().put(serde_json::to_value(&object).unwrap());
    }

    /// Marks an object for deletion, as a user or the garbage collector does.
    pub(super) fn delete<K: Object>(&self, key: &ObjectKey) {
        let options = kube_machinery::api::DeleteOptions::default();
        drop(self.call::<K>(&Call::Delete { key: key.clone(), options }));
    }

    /// Removes an object regardless of its finalizers.
    pub(super) fn vanish<K: Object>(&self, key: &ObjectKey) {
        self.objects.lock().unwrap().remove(&K::kind(&()), key);
    }

    /// Freezes the caches of a kind at their current content.
    pub(super) fn hold<K: Object>(&self) {
        self.objects.lock().unwrap().hold::<K>();
    }

    fn call<K: Object>(&self, call: &Call<K>) -> Result<Reply<K>, ApiError> {
        self.objects.lock().unwrap().serve(call, self.env.wall())
    }
}

impl Client for World {
    type Watch<K: Object> = TestWatch<K>;

    async fn send<K: Object>(&self, request: Request<K>) -> Result<Reply<K>, ApiError> {
        let what = format!("{} {}", request.call.verb(), K::kind(&()));
        self.log.lock().unwrap().push(what.clone());
        self.travel().await;
        // Taken out while it runs, so that it can use the server.
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
                let result = self.call(&request.call);
                self.travel().await;
                result
            }
            Deed::Fail(error) => Err(error),
            Deed::LoseReply => {
                drop(self.call(&request.call));
                self.env.sleep(request.timeout.unwrap_or(Duration::from_secs(3600))).await;
                Err(TransportError::Deadline.into())
            }
        }
    }

    async fn watch<K: Object>(&self, namespace: Option<Arc<str>>, options: WatchOptions) -> Result<TestWatch<K>, ApiError> {
        Ok(self.objects.lock().unwrap().watch(namespace.as_deref(), &options))
    }
}
