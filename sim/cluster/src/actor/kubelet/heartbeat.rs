//! The kubelet's heartbeats: it registers its Node, renews its lease, and posts the condition Ready (K §6.1).
//!
//! ```text
//!   start ─► GET Node ─ missing ─► create            each 10 s: PUT Lease         (again after 200 ms to 7 s if it fails)
//!                                                    each 10 s: GET Node, and PUT /status if it is not Ready=True, or once in 5 min
//! ```
//! When both are done and no obstacle is in the way it rests (`node::heartbeat`), and does nothing until there is one.
//!
//! As in Kubernetes, a Node that is deleted while its kubelet runs stays deleted: the kubelet registers only when it starts. After the
//! fault `node-deleted`, `ContainerRuntime::registers` stands for that start.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube_machinery::api::{Call, Dry, Reply, Request, Subresource};
use kube_machinery::{ApiError, Client, Env, Object, ObjectKey};
use sim_config::time::SimTime;

use super::Kubelet;
use crate::node::Cni;
use crate::node::heartbeat::{LEASE_LASTS, LEASES, POSTS_EVERY, Part, revision_of};
use crate::node::heartbeat_schedule::{HeartbeatSchedule, RENEWS_EVERY};

/// The time that the kubelet waits for one answer: until the next request is due.
const LIMIT: Duration = RENEWS_EVERY;
/// The first and the longest wait before a renewal is retried (K §6.1).
const RENEWAL_BACK_OFF: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(7)];
/// The first and the longest wait before a registration is retried.
const REGISTRATION_BACK_OFF: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(7)];
/// The number of tries to write the status at one look.
const POST_TRIES: u32 = 5;

impl<C: Cni> Kubelet<C> {
    /// Starts both series of heartbeats of this life.
    pub(super) fn begin_to_beat(self: &Arc<Self>) {
        let schedule = HeartbeatSchedule::of(self.config.seed, self.process);
        self.cluster.nodes.heartbeats.begin(self.process, &self.config.node, schedule, self.cluster.rt.now());
        let (one, other) = (self.clone(), self.clone());
        drop(self.env.spawn(async move { one.keep_lease(schedule).await }));
        drop(self.env.spawn(async move { other.keep_status(schedule).await }));
    }

    /// Sleeps until a heartbeat that has to be sent: the first `next` after now at which the kubelet does not rest.
    async fn beat(&self, next: impl Fn(SimTime) -> SimTime) {
        let (rt, heartbeats) = (&self.cluster.rt, &self.cluster.nodes.heartbeats);
        loop {
            heartbeats.awake(self.process).await;
            rt.sleep_until(next(rt.now())).await;
            if !heartbeats.rests(self.process) {
                return;
            }
        }
    }

    async fn ask<K: Object>(&self, call: Call<K>) -> Result<Arc<K>, ApiError> {
        match self.client.send(Request { call, timeout: Some(LIMIT) }).await? {
            Reply::Object(object) => Ok(object),
            Reply::List(_) | Reply::Deleted { .. } => unreachable!("an API server answers these calls with an object"),
        }
    }

    // ------------------------------------------------------------------------------------------------------- lease

    async fn keep_lease(&self, schedule: HeartbeatSchedule) {
        let mut lease = None;
        loop {
            let mut wait = RENEWAL_BACK_OFF[0];
            let revision = loop {
                match self.renew(&mut lease).await {
                    Ok(revision) => break revision,
                    Err(error) if error.is_conflict() || error.is_not_found() => lease = None,
                    Err(_) => {}
                }
                self.cluster.rt.sleep(wait).await;
                wait = RENEWAL_BACK_OFF[1].min(wait * 2);
            };
            self.cluster.nodes.heartbeats.done(&self.cluster, self.process, Part::Lease(revision));
            self.beat(|now| schedule.next_renewal(now)).await;
        }
    }

    /// Writes the lease as of now, and returns its revision. `known`: the lease from the last answer.
    async fn renew(&self, known: &mut Option<Arc<Lease>>) -> Result<u64, ApiError> {
        let key = ObjectKey::namespaced(LEASES, &self.config.node);
        if known.is_none() {
            *known = match self.ask(Call::<Lease>::Get { key: key.clone(), resource_version: None }).await {
                Err(error) if error.is_not_found() => None,
                result => Some(result?),
            };
        }
        let metadata = match known {
            Some(lease) => lease.metadata.clone(),
            None => {
                let (name, namespace) = (Some(self.config.node.to_string()), Some(LEASES.to_owned()));
                ObjectMeta { name, namespace, ..ObjectMeta::default() }
            }
        };
        let spec = LeaseSpec {
            holder_identity: Some(self.config.node.to_string()),
            lease_duration_seconds: Some(LEASE_LASTS.as_secs() as i32),
            renew_time: Some(MicroTime(self.env.wall())),
            ..LeaseSpec::default()
        };
        let body = Arc::new(Lease { metadata, spec: Some(spec) });
        let call = match known {
            Some(_) => Call::Update { key, body, subresource: None, dry: Dry::No },
            None => Call::Create { namespace: Some(LEASES.into()), body, dry: Dry::No },
        };
        let lease = self.ask(call).await?;
        let revision = revision_of(&lease.metadata);
        *known = Some(lease);
        Ok(revision)
    }

    // ------------------------------------------------------------------------------------------------------ status

    async fn keep_status(&self, schedule: HeartbeatSchedule) {
        if self.runtime.registers() {
            self.register().await;
        }
        let mut posted = SimTime::ZERO;
        loop {
            let mut node = Err(None);
            for round in 0..POST_TRIES {
                // The first look reads from the server's cache.
                let version = (round == 0).then(|| "0".to_owned());
                node = self.look(version, &mut posted).await.map_err(Some);
                if node.is_ok() || matches!(&node, Err(Some(error)) if error.is_not_found()) {
                    break;
                }
            }
            match node {
                Ok(()) => self.cluster.nodes.heartbeats.done(&self.cluster, self.process, Part::Status),
                Err(Some(error)) if error.is_not_found() && self.runtime.wants_registration() => {
                    self.register().await;
                    continue;
                }
                Err(_) => {}
            }
            self.beat(|now| schedule.next_look(now)).await;
        }
    }

    /// Reads the Node and writes its status if necessary. `posted`: the time of the last write.
    async fn look(&self, resource_version: Option<String>, posted: &mut SimTime) -> Result<(), ApiError> {
        let (key, now) = (ObjectKey::cluster(&self.config.node), self.cluster.rt.now());
        let node = self.ask(Call::<Node>::Get { key: key.clone(), resource_version }).await?;
        if is_ready(&node) && *posted != SimTime::ZERO && now < *posted + POSTS_EVERY {
            return Ok(());
        }
        let mut body = Node { metadata: node.metadata.clone(), spec: None, status: node.status.clone() };
        self.set_ready(body.status.get_or_insert_default());
        self.ask(Call::Update { key, body: Arc::new(body), subresource: Some(Subresource::Status), dry: Dry::No }).await?;
        *posted = now;
        Ok(())
    }

    /// Creates the Node, if there is none.
    async fn register(&self) {
        let name = self.config.node.to_string();
        let mut wait = REGISTRATION_BACK_OFF[0];
        loop {
            let labels = Some([("kubernetes.io/hostname".to_owned(), name.clone())].into());
            let metadata = ObjectMeta { name: Some(name.clone()), labels, ..ObjectMeta::default() };
            let mut status = NodeStatus::default();
            self.set_ready(&mut status);
            let body = Arc::new(Node { metadata, status: Some(status), ..Node::default() });
            let key = ObjectKey::cluster(&name);
            let result = match self.ask(Call::<Node>::Get { key, resource_version: None }).await {
                Err(error) if error.is_not_found() => self.ask(Call::Create { namespace: None, body, dry: Dry::No }).await,
                result => result,
            };
            match result {
                Err(error) if !error.is_already_exists() => {}
                _ => return self.runtime.has_registered(),
            }
            self.cluster.rt.sleep(wait).await;
            wait = REGISTRATION_BACK_OFF[1].min(wait * 2);
        }
    }

    fn set_ready(&self, status: &mut NodeStatus) {
        let wall = self.env.wall();
        let now = Time(Timestamp::from_second(wall.as_second()).unwrap_or(wall));
        let conditions = status.conditions.get_or_insert_default();
        let position = conditions.iter().position(|condition| condition.type_ == "Ready").unwrap_or_else(|| {
            conditions.push(NodeCondition { type_: "Ready".to_owned(), ..NodeCondition::default() });
            conditions.len() - 1
        });
        let ready = &mut conditions[position];
        if ready.status != "True" || ready.last_transition_time.is_none() {
            ready.last_transition_time = Some(now.clone());
        }
        ready.status = "True".to_owned();
        ready.reason = Some("KubeletReady".to_owned());
        ready.last_heartbeat_time = Some(now);
    }
}

fn is_ready(node: &Node) -> bool {
    crate::node::taints::is_ready(node) == Some(true)
}
