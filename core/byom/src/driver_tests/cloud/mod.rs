//! Adaptors and the PeerPod controller on an API server with objects of all kinds, and VMs scripted by the tests.

mod controller;
mod damage;
mod server;
mod starts;
mod stops;
mod storms;

use std::future::pending;

use k8s_openapi::api::core::v1::Pod;

use super::*;
use server::{Deed, World};

/// The behaviour of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Agent {
    #[default]
    Answers,
    Fails,
    Hangs,
}

#[derive(Clone, Default)]
struct Proxy {
    agent: Arc<Mutex<Agent>>,
}

impl AgentProxy for Proxy {
    async fn set_up(&self, _: &Sandbox, _: &Address) -> Result<(), ProxyError> {
        Ok(())
    }

    async fn ready(&self, _: &Sandbox, _: &Address) -> Result<(), ProxyError> {
        let agent = *self.agent.lock().unwrap();
        match agent {
            Agent::Answers => Ok(()),
            Agent::Fails => Err(ProxyError("no".to_owned())),
            Agent::Hangs => pending().await,
        }
    }

    async fn shut_down(&self, _: &Sandbox) {}
}

/// An observer that notes each step in a word.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Observer for Notes {
    fn observe(&self, step: Step<'_>) {
        let note = match step {
            Step::Asked { id, .. } => format!("asked {id}"),
            Step::Told { id, .. } => format!("told {id}"),
            Step::NotAllocated { id, .. } => format!("not allocated {id}"),
            Step::Ready { id, .. } => format!("ready {id}"),
            Step::StartFailed { id, step, .. } => format!("failed {id} {step:?}"),
            Step::Running { id, .. } => format!("running {id}"),
            Step::ReleaseBegun { id, by, .. } => format!("release {} {by:?}", id.map_or("-", |id| &**id)),
            Step::ReleaseEnded { id, by, result, .. } => {
                format!("released {} {by:?} {}", id.map_or("-", |id| &**id), if result.is_ok() { "ok" } else { "failed" })
            }
            Step::RecoverBegun => "recover".to_owned(),
            Step::RecoverEnded { result, .. } => format!("recovered {}", result.is_ok()),
            Step::PeerPodWritten { id, error, .. } => format!("written {id} {}", error.is_none()),
            Step::PeerPodReleased { id, .. } => format!("let go {}", id.unwrap_or("-")),
            Step::PeerPodMarked { id, .. } => format!("marked {}", id.unwrap_or("-")),
        };
        self.0.lock().unwrap().push(note);
    }
}

type TestAdaptor<B = Notes> = Adaptor<World, TestEnv, Vms, Proxy, B>;
type TestController = PeerPodController<World, TestEnv, Vms, Notes>;

/// One cluster.
struct Cloud {
    env: TestEnv,
    world: World,
    vms: Vms,
    proxy: Proxy,
    notes: Notes,
    settings: PoolSettings,
}

impl Cloud {
    fn new(policy: Policy, addresses: &[&str]) -> Self {
        let env = TestEnv::new();
        let vms = Vms { env: env.clone(), all: Arc::default(), probe: Duration::ZERO, refuse_user_data: Arc::default() };
        let config = PoolConfig::new(addresses.iter().map(|text| Address::new(*text)));
        let settings = PoolSettings::new(key(), config, Some("node-a".into()), policy);
        let world = World::new(&env);
        Self { env, world, vms, proxy: Proxy::default(), notes: Notes::default(), settings }
    }

    /// A cluster whose document has been made.
    fn recovered(policy: Policy, addresses: &[&str]) -> Self {
        let cloud = Self::new(policy, addresses);
        let adaptor = cloud.adaptor();
        cloud.env.block_on(async { adaptor.start().await }).recovered.unwrap();
        cloud.notes();
        cloud.world.log();
        cloud
    }

    fn adaptor(&self) -> TestAdaptor {
        let settings = AdaptorSettings::new(self.settings.clone());
        Adaptor::new(self.world.clone(), self.env.clone(), self.vms.clone(), self.proxy.clone(), self.notes.clone(), settings)
    }

    fn controller_with(&self, settings: ControllerSettings) -> Arc<TestController> {
        let controller = PeerPodController::new(self.world.clone(), self.env.clone(), self.vms.clone(), self.notes.clone(), settings);
        let controller = Arc::new(controller);
        let (running, notes) = (controller.clone(), self.notes.clone());
        self.env.spawn(async move {
            let end = running.run().await.unwrap();
            notes.0.lock().unwrap().push(format!("controller {end:?}"));
        });
        controller
    }

    /// Starts a controller with the settings of the cluster, as the only replica.
    fn controller(&self) -> Arc<TestController> {
        self.controller_with(ControllerSettings::new(self.settings.clone()))
    }

    fn agent(&self, agent: Agent) {
        *self.proxy.agent.lock().unwrap() = agent;
    }

    fn start_within(&self, adaptor: &TestAdaptor, sandbox: &Sandbox, time: Option<Duration>) -> Result<Instance, StartError> {
        let context = Context { deadline: time.map(|time| self.env.monotonic() + time) };
        self.env.block_on(async { adaptor.start_vm(sandbox, context).await })
    }

    fn start(&self, adaptor: &TestAdaptor, sandbox: &Sandbox) -> Result<Instance, StartError> {
        self.start_within(adaptor, sandbox, None)
    }

    fn stop_within(&self, adaptor: &TestAdaptor, sandbox: &Sandbox, time: Option<Duration>) -> Result<(), UnknownSandbox> {
        let context = Context { deadline: time.map(|time| self.env.monotonic() + time) };
        self.env.block_on(async { adaptor.stop_vm(&sandbox.id, context).await })
    }

    fn stop(&self, adaptor: &TestAdaptor, sandbox: &Sandbox) {
        self.stop_within(adaptor, sandbox, None).unwrap();
    }

    /// The notes since the last call.
    fn notes(&self) -> Vec<String> {
        std::mem::take(&mut self.notes.0.lock().unwrap())
    }

    fn document(&self) -> PoolDocument {
        let object: PoolConfigMap = self.world.get(&key()).expect("there is a document");
        object.document().unwrap().parse().unwrap().clone()
    }

    /// The allocation IDs of all records, ascending.
    fn holders(&self) -> Vec<String> {
        self.document().allocated.iter().map(|(id, _)| id.to_string()).collect()
    }

    /// The PeerPods: their allocations, `!` if marked for deletion, `-` if without finalizer.
    fn peer_pods(&self) -> Vec<String> {
        let mut all: Vec<String> = self.world.all::<PeerPod>().iter().map(shown).collect();
        all.sort();
        all
    }

    /// The PeerPod of an allocation; upstream's names only its VM.
    fn peer_pod(&self, id: &str) -> PeerPod {
        let vm = self.document().allocated.get(id).map(|record| record.ip.text().to_owned());
        let is_it = |peer_pod: &PeerPod| match peer_pod.allocation_id() {
            Some(known) => known == id,
            None => Some(&peer_pod.spec.instance_id) == vm.as_ref(),
        };
        self.world.all::<PeerPod>().into_iter().find(is_it).expect("it is there")
    }

    fn delete_peer_pod(&self, id: &str) {
        self.world.delete::<PeerPod>(&ObjectKey::of(&self.peer_pod(id)));
    }

    fn holder(&self, address: &str) -> Option<String> {
        self.vms.with(address, |vm| vm.holder.as_deref().map(str::to_owned))
    }

    fn boots(&self, address: &str) -> u32 {
        self.vms.with(address, |vm| vm.boots)
    }
}

fn shown(peer_pod: &PeerPod) -> String {
    let mark = if peer_pod.is_terminating() { "!" } else { "" };
    let without = if peer_pod.has_finalizer() { "" } else { "-" };
    format!("{}{mark}{without}", peer_pod.allocation_id().unwrap_or("?"))
}

/// Sandbox `id` of the Pod called `pod_name`.
fn sandbox(pod_name: &str, pod_uid: &str, id: &str) -> Sandbox {
    Sandbox { id: id.into(), pod: pod(pod_name), pod_uid: pod_uid.into(), user_data: "data".into() }
}

/// The Pod that has this name from now on.
fn put_pod(cloud: &Cloud, name: &str, uid: &str) {
    let mut object = Pod::default();
    object.metadata.name = Some(name.to_owned());
    object.metadata.namespace = Some("shop".to_owned());
    object.metadata.uid = Some(uid.to_owned());
    cloud.world.put(object);
}

const ONE: [&str; 1] = ["10.0.0.1"];
const TWO: [&str; 2] = ["10.0.0.1", "10.0.0.2"];

/// The hardened form with one mutation.
fn with(name: &str) -> Policy {
    let mut policy = Policy::hardened();
    *policy.switch(name).expect("there is such a deviation") = true;
    policy
}

/// The hardened form, and the same with one mutation.
fn both(name: &str) -> [(Policy, bool); 2] {
    [(Policy::hardened(), true), (with(name), false)]
}
