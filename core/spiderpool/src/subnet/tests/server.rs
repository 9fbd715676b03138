//! An API server in memory with the webhooks of Spiderpool: its objects and rules are those of [`Objects`].

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::admission::{self, AdmissionSettings, Admitted, Listed};
use crate::{Policy, SpiderIPPool, SpiderSubnet};
use kube_machinery::api::{ApiError, Call, Object, ObjectKey, Reason, Reply, Request, Status, TransportError, WatchOptions};
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::testing::{Objects, TestEnv, TestWatch};

struct State {
    objects: Objects,
    refused: BTreeSet<String>,
    /// Verbs and kinds whose next request is lost without an error.
    unanswered: BTreeSet<String>,
    /// Objects that caches do not show.
    lost: BTreeSet<(String, ObjectKey)>,
    writes: Vec<String>,
}

/// The server. Clones share its state.
#[derive(Clone)]
pub(super) struct Server {
    env: TestEnv,
    policy: Policy,
    state: Arc<Mutex<State>>,
}

fn kind<K: Object>() -> String {
    K::kind(&()).into_owned()
}

fn read<K: Object>(value: &Value) -> Arc<K> {
    Arc::new(serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}")))
}

/// The object as the webhooks default it.
fn admit<K: Object>(objects: &Objects, old: Option<&Value>, new: Value, policy: &Policy) -> Result<Value, ApiError> {
    fn judge<K: Admitted>(objects: &Objects, old: Option<&Value>, new: &Value, policy: &Policy) -> Result<Value, ApiError> {
        let (old, new) = (old.map(read::<K>), read::<K>(new));
        let request = match &old {
            Some(old) => admission::Request::Update { old, new: &new },
            None => admission::Request::Create(&new),
        };
        let listed = Listed { pools: objects.all(), subnets: objects.all() };
        let verdict = admission::review(&request, &listed, &AdmissionSettings::default(), policy);
        match verdict.denial {
            Some(denial) => Err(denial.to_status::<K>(new.meta().name.as_deref().unwrap_or_default()).into()),
            None => Ok(json!(*verdict.defaulted.expect("it is no deletion"))),
        }
    }
    match &*K::kind(&()) {
        "SpiderIPPool" => judge::<SpiderIPPool>(objects, old, &new, policy),
        "SpiderSubnet" => judge::<SpiderSubnet>(objects, old, &new, policy),
        _ => Ok(new),
    }
}

impl Server {
    pub(super) fn new(env: &TestEnv, policy: Policy) -> Self {
        let state = State {
            objects: Objects::new(&[]),
            refused: BTreeSet::new(),
            unanswered: BTreeSet::new(),
            lost: BTreeSet::new(),
            writes: Vec::new(),
        };
        Self { env: env.clone(), policy, state: Arc::new(Mutex::new(state)) }
    }

    /// Carries out a request.
    fn call<K: Object>(&self, call: &Call<K>) -> Result<Reply<K>, ApiError> {
        let admit = |objects: &Objects, old: Option<&Value>, new| admit::<K>(objects, old, new, &self.policy);
        self.state.lock().unwrap().objects.serve_admitted(call, self.env.wall(), admit)
    }

    /// Creates an object through admission.
    pub(super) fn create<K: Object>(&self, value: Value) {
        self.call(&Call::<K>::create(read(&value))).unwrap();
    }

    /// Creates an object without admission.
    pub(super) fn put<K: Object>(&self, value: Value) {
        self.state.lock().unwrap().objects.serve(&Call::<K>::create(read(&value)), self.env.wall()).unwrap();
    }

    /// Changes an object and its status without admission.
    pub(super) fn change<K: Object>(&self, key: &ObjectKey, change: impl FnOnce(&mut Value)) {
        assert!(self.state.lock().unwrap().objects.change(&K::kind(&()), key, change), "{key}");
    }

    /// Deletes an existing object.
    pub(super) fn delete<K: Object>(&self, key: &ObjectKey) {
        self.call(&Call::<K>::Delete { key: key.clone(), options: Default::default() }).unwrap();
    }

    pub(super) fn find<K: Object>(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.state.lock().unwrap().objects.get(key)
    }

    pub(super) fn all<K: Object>(&self) -> Vec<Arc<K>> {
        self.state.lock().unwrap().objects.all()
    }

    /// Freezes the caches of a kind at the present state.
    pub(super) fn hold<K: Object>(&self) {
        self.state.lock().unwrap().objects.hold::<K>();
    }

    /// Drops the last event of an object from the server's watch cache (K182).
    pub(super) fn lose<K: Object>(&self, key: &ObjectKey) {
        self.state.lock().unwrap().lost.insert((kind::<K>(), key.clone()));
    }

    /// The writes since the last call, as verb and kind.
    pub(super) fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().writes)
    }

    /// Refuses requests of this verb and kind from now on, with an error that nobody caused.
    pub(super) fn refuse(&self, what: &str) {
        self.state.lock().unwrap().refused.insert(what.to_owned());
    }

    /// Loses the next request of this verb and kind without an error.
    pub(super) fn lose_next(&self, what: &str) {
        self.state.lock().unwrap().unanswered.insert(what.to_owned());
    }

    /// Whether that request was lost.
    pub(super) fn has_lost(&self, what: &str) -> bool {
        !self.state.lock().unwrap().unanswered.contains(what)
    }

    /// Serves requests of this verb and kind again.
    pub(super) fn serve(&self, what: &str) {
        self.state.lock().unwrap().refused.remove(what);
    }
}

impl Client for Server {
    type Watch<K: Object> = TestWatch<K>;

    async fn send<K: Object>(&self, request: Request<K>) -> Result<Reply<K>, ApiError> {
        // A request takes some time, so that others come in between.
        self.env.sleep(Duration::from_micros(500 + self.env.random() % 2000)).await;
        let what = format!("{} {}", request.call.verb(), kind::<K>());
        let lost = self.state.lock().unwrap().unanswered.remove(&what);
        if lost {
            match request.timeout {
                Some(limit) => self.env.sleep(limit).await,
                None => std::future::pending().await,
            }
            return Err(TransportError::Deadline.into());
        }
        {
            let mut state = self.state.lock().unwrap();
            if state.refused.contains(&what) {
                return Err(Status::new(Reason::ServiceUnavailable, "").into());
            }
            if request.call.verb().is_write() {
                state.writes.push(what);
            }
        }
        let mut reply = self.call(&request.call)?;
        if let Reply::List(list) = &mut reply {
            let state = self.state.lock().unwrap();
            list.items.retain(|item| !state.lost.contains(&(kind::<K>(), ObjectKey::of(&**item))));
        }
        Ok(reply)
    }

    async fn watch<K: Object>(&self, namespace: Option<Arc<str>>, options: WatchOptions) -> Result<TestWatch<K>, ApiError> {
        Ok(self.state.lock().unwrap().objects.watch(namespace.as_deref(), &options))
    }
}
