//! The drivers on an API server with one object, with VMs and owners scripted by the tests.

mod cloud;
mod damage;
mod races;
mod releases;
mod requests;
mod storms;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use kube_machinery::api::{ApiError, Call, Object, ObjectKey, Reason, Reply, Request, Status, TransportError, WatchOptions};
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::json_text::{JsonText, TextForm};
use kube_machinery::testing::{Objects, TestEnv, TestWatch};

/// An API server's treatment of one request.
enum Act {
    Serve,
    /// Answers with this error and does nothing.
    Fail(ApiError),
    /// Carries it out, and the answer is lost.
    LoseReply,
}

type Script = Box<dyn FnMut(&str, &mut Store) -> Act + Send>;

struct Store {
    objects: Objects,
    /// One letter per request: G, P, C; with `!` if it failed.
    log: String,
}

impl Store {
    fn object(&self) -> Option<PoolConfigMap> {
        self.objects.get(&key()).map(Arc::unwrap_or_clone)
    }

    /// Stores the object unchanged.
    fn put(&mut self, object: &PoolConfigMap) {
        self.objects.put(serde_json::to_value(object).unwrap());
    }

    fn lose(&mut self) {
        self.objects.remove("ConfigMap", &key());
    }

    /// Another client updates the object, if it exists.
    fn touch(&mut self) {
        let touched = self.objects.revision().to_string();
        self.objects.change("ConfigMap", &key(), |object| object["metadata"]["annotations"]["touched"] = touched.into());
    }

    fn set_text(&mut self, text: &str) {
        let object = self.object().unwrap_or_else(|| PoolConfigMap::new(&key(), PoolDocument::default().into()));
        self.put(&object.with_document(JsonText::verbatim(text)));
    }

    fn document(&self) -> PoolDocument {
        self.object().unwrap().document().unwrap().parse().unwrap().clone()
    }

    /// The versions of the documents that were committed.
    fn versions(&self) -> Vec<i64> {
        let version = |object: &Arc<PoolConfigMap>| Some(object.document()?.parse().ok()?.version);
        self.objects.states(&key()).iter().filter_map(version).collect()
    }
}

fn key() -> ObjectKey {
    ObjectKey::namespaced("ns", DEFAULT_CONFIG_MAP)
}

#[derive(Clone)]
struct Server {
    env: TestEnv,
    store: Arc<Mutex<Store>>,
    script: Arc<Mutex<Script>>,
    /// The round trip times of reads and writes, ± 20 %.
    read: Duration,
    write: Duration,
    think: Duration,
}

impl Client for Server {
    type Watch<K: Object> = TestWatch<K>;

    async fn send<K: Object>(&self, request: Request<K>) -> Result<Reply<K>, ApiError> {
        let write = request.call.verb().is_write();
        let half = (if write { self.write } else { self.read }).mul_f64((0.8 + 0.4 * self.env.random_unit()) / 2.0);
        if half > Duration::ZERO {
            self.env.sleep(self.think + half).await;
        }
        let letter = match &request.call {
            Call::Get { .. } => "G",
            Call::Create { .. } => "C",
            _ => "P",
        };
        let (result, lost) = {
            let mut store = self.store.lock().unwrap();
            let act = (self.script.lock().unwrap())(letter, &mut store);
            let (result, lost) = match act {
                Act::Serve => (store.objects.serve(&request.call, self.env.wall()), false),
                Act::Fail(error) => (Err(error), false),
                Act::LoseReply => (store.objects.serve(&request.call, self.env.wall()), true),
            };
            store.log.push_str(letter);
            if result.as_ref().is_err_and(|error| !error.is_not_found()) {
                store.log.push('!');
            }
            (result, lost)
        };
        if lost {
            self.env.sleep(request.timeout.unwrap_or(Duration::from_secs(3600))).await;
            return Err(TransportError::Deadline.into());
        }
        if half > Duration::ZERO {
            self.env.sleep(half).await;
        }
        result
    }

    async fn watch<K: Object>(&self, _: Option<Arc<str>>, _: WatchOptions) -> Result<TestWatch<K>, ApiError> {
        unreachable!("the pool opens no watch")
    }
}

#[derive(Clone, Debug, Default)]
struct Vm {
    holder: Option<Arc<str>>,
    dead: bool,
    /// Takes requests and never answers.
    hung: bool,
    /// The end of its reboot.
    down_until: Duration,
    boots: u32,
}

#[derive(Clone)]
struct Vms {
    env: TestEnv,
    all: Arc<Mutex<BTreeMap<String, Vm>>>,
    probe: Duration,
    refuse_user_data: Arc<Mutex<bool>>,
}

const BOOT: Duration = Duration::from_secs(7);

impl Vms {
    fn with<T>(&self, address: &str, change: impl FnOnce(&mut Vm) -> T) -> T {
        change(self.all.lock().unwrap().entry(address.to_owned()).or_default())
    }

    fn answers(&self, vm: &Vm) -> Result<(), VmError> {
        if vm.dead || vm.down_until > self.env.monotonic() { Err(VmError::Refused) } else { Ok(()) }
    }
}

impl VmAccess for Vms {
    async fn probe(&self, address: &Address, timeout: Duration) -> Result<(), VmError> {
        let result = self.with(address.text(), |vm| self.answers(vm));
        let took = if result.is_ok() { self.probe.mul_f64(0.8 + 0.4 * self.env.random_unit()) } else { timeout };
        self.env.sleep(took).await;
        result
    }

    async fn send_user_data(&self, address: &Address, id: &str, _: &Arc<str>, _: Option<Duration>) -> Result<(), VmError> {
        if *self.refuse_user_data.lock().unwrap() {
            self.env.sleep(Duration::from_secs(1)).await;
            return Err(VmError::Timeout);
        }
        self.with(address.text(), |vm| {
            self.answers(vm)?;
            match &vm.holder {
                Some(holder) if **holder != *id => Err(VmError::Held(holder.clone())),
                _ => {
                    vm.holder = Some(id.into());
                    Ok(())
                }
            }
        })
    }

    async fn reboot(&self, address: &Address, fence: Option<&str>) -> Result<Reboot, VmError> {
        if self.with(address.text(), |vm| vm.hung) {
            std::future::pending::<()>().await;
        }
        self.with(address.text(), |vm| {
            self.answers(vm)?;
            match (&vm.holder, fence) {
                (Some(holder), Some(fence)) if **holder != *fence => return Ok(Reboot::Refused(holder.clone())),
                (None, Some(_)) => return Ok(Reboot::Clean),
                _ => {}
            }
            *vm = Vm { down_until: self.env.monotonic() + BOOT, boots: vm.boots + 1, ..Vm::default() };
            Ok(Reboot::Started)
        })
    }
}

#[derive(Clone, Default)]
struct Known(Arc<Mutex<Option<Vec<IpAllocation>>>>);

impl Owners for Known {
    async fn live(&self) -> Result<Vec<IpAllocation>, OwnersUnknown> {
        self.0.lock().unwrap().clone().ok_or_else(|| OwnersUnknown("not told".into()))
    }
}

type TestPool = VmPool<Server, TestEnv, Vms, Known>;

/// One cluster: a server, VMs, and any number of processes.
struct Bed {
    env: TestEnv,
    server: Server,
    vms: Vms,
    owners: Known,
    policy: Policy,
    addresses: Vec<String>,
}

impl Bed {
    fn new(policy: Policy, addresses: &[&str]) -> Self {
        let env = TestEnv::new();
        let server = Server {
            env: env.clone(),
            store: Arc::new(Mutex::new(Store { objects: Objects::new(&[]), log: String::new() })),
            script: Arc::new(Mutex::new(Box::new(|_, _| Act::Serve))),
            read: Duration::ZERO,
            write: Duration::ZERO,
            think: Duration::ZERO,
        };
        let vms = Vms { env: env.clone(), all: Arc::default(), probe: Duration::ZERO, refuse_user_data: Arc::default() };
        let addresses = addresses.iter().map(|address| (*address).to_owned()).collect();
        Self { env, server, vms, owners: Known::default(), policy, addresses }
    }

    /// A bed whose document has been made, with an empty log.
    fn recovered(policy: Policy, addresses: &[&str]) -> Self {
        let bed = Self::new(policy, addresses);
        bed.know(Vec::new());
        let pool = bed.process();
        bed.env.block_on(async { pool.recover(Context::BACKGROUND).await }).result.unwrap();
        bed.log();
        bed
    }

    fn process_with(&self, change: impl FnOnce(&mut PoolSettings)) -> TestPool {
        let config = PoolConfig::new(self.addresses.iter().map(|text| Address::new(text.as_str())));
        let mut settings = PoolSettings::new(key(), config, Some("node-a".into()), self.policy);
        change(&mut settings);
        VmPool::new(self.server.clone(), self.env.clone(), self.vms.clone(), self.owners.clone(), settings)
    }

    fn process(&self) -> TestPool {
        self.process_with(|_| {})
    }

    fn know(&self, owners: Vec<IpAllocation>) {
        *self.owners.0.lock().unwrap() = Some(owners);
    }

    fn script(&self, script: impl FnMut(&str, &mut Store) -> Act + Send + 'static) {
        *self.server.script.lock().unwrap() = Box::new(script);
    }

    fn store<T>(&self, look: impl FnOnce(&mut Store) -> T) -> T {
        look(&mut self.server.store.lock().unwrap())
    }

    /// The requests since the last call.
    fn log(&self) -> String {
        self.store(|store| std::mem::take(&mut store.log))
    }

    fn document(&self) -> PoolDocument {
        self.store(|store| store.document())
    }

    fn holders(&self) -> Vec<(String, String)> {
        self.document().allocated.iter().map(|(id, record)| (id.to_string(), record.ip.to_string())).collect()
    }

    fn allocate(&self, pool: &TestPool, id: &str) -> Result<String, PoolError> {
        let outcome = self.env.block_on(async { pool.allocate(&id.into(), &pod(id), Context::BACKGROUND).await });
        outcome.result.map(|address| address.to_string())
    }

    fn release(&self, pool: &TestPool, id: &str) -> Result<Released, PoolError> {
        self.env.block_on(async { pool.release(&id.into(), Releaser::Stop, Context::BACKGROUND).await }).result
    }

    fn recover(&self, pool: &TestPool) -> Result<Recovered, PoolError> {
        self.env.block_on(async { pool.recover(Context::BACKGROUND).await }).result
    }
}

fn pod(name: &str) -> PodName {
    PodName { name: name.into(), namespace: "shop".into() }
}

fn forbidden() -> ApiError {
    Status::new(Reason::Forbidden, "no").into()
}
