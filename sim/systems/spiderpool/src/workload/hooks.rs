//! The webhooks of Spiderpool's controller (A §9): every replica serves them, leader or not.
//!
//! ```text
//!   API server ──► Service spiderpool-controller ──► a replica ──► production code: defaults, rules ──► lists (API)
//! ```
//! They are called for the main resources only, so that allocation, which writes status and endpoints, goes on without them.

use std::future::Future;
use std::sync::Arc;

use ipam_spiderpool::admission::{AdmissionSettings, Admitted, Request, Webhook};
use ipam_spiderpool::select::Settings;
use ipam_spiderpool::{Policy, SpiderIPPool, SpiderReservedIP, SpiderSubnet};
use kube_machinery::Object;
use kube_machinery::api::Verb;
use kube_machinery::race::{Either, race};
use kube_sim::cluster::Cluster;
use kube_sim::cluster::admission::{self, Denial, FailurePolicy, Handler, Part, Review, Rule, Service, SideEffects, Verdict};
use kube_sim::env::SimEnv;
use kube_sim::kinds::KindId;
use kube_sim::object::{Obj, typed};
use kube_sim::rt::ProcessId;

use super::hook_note::{HookAnswer, HookNote};
use super::plan::SpiderPlan;
use super::site::{ApiClient, Site};
use super::subnets::admission::settings;

/// The Service of the replicas, and the name of the two webhook configurations.
const SERVICE: &str = "spiderpool-controller";
/// The URL that the API server calls: the Service in the namespace of the usual installation, and the port of the chart.
const URL: &str = "https://spiderpool-controller.kube-system.svc:5722";

type Hooks = Webhook<ApiClient, SimEnv>;

impl SpiderPlan {
    /// The settings that admission uses.
    fn admission_settings(&self, select: &Settings) -> AdmissionSettings {
        AdmissionSettings { enable_delete_check: self.guards_deletion(), ..settings(select) }
    }
}

/// Registers the webhooks with the API servers, as upstream's chart does: two configurations, in both the types in this order; each with
/// `failurePolicy: Fail` and `sideEffects: None`. The chart sets no selectors, conditions, timeout or reinvocation policy, so these are
/// Kubernetes' defaults. No replica serves the webhooks yet.
pub(super) fn register(cluster: &Cluster, policy: &Policy) -> Arc<Service> {
    let service = Service::new(SERVICE);
    let failure_policy = if policy.webhooks_fail_open { FailurePolicy::Ignore } else { FailurePolicy::Fail };
    register_for::<SpiderSubnet>(cluster, &service, failure_policy, true);
    register_for::<SpiderIPPool>(cluster, &service, failure_policy, true);
    register_for::<SpiderReservedIP>(cluster, &service, failure_policy, false);
    service
}

/// Registers the webhooks of a type. `deletes`: whether the validating webhook is also called for deletions.
fn register_for<K: Object>(cluster: &Cluster, service: &Arc<Service>, failure_policy: FailurePolicy, deletes: bool) {
    let kind = K::kind(&()).to_lowercase();
    for mutating in [true, false] {
        let also = (deletes && !mutating).then_some(Verb::Delete);
        let operations = [Verb::Create, Verb::Update].into_iter().chain(also).collect();
        let path = if mutating { "mutate" } else { "validate" };
        cluster.add_webhook(admission::Webhook {
            configuration: SERVICE.into(),
            rules: vec![Rule { operations, kinds: vec![cluster.registry.id::<K>()], part: Part::Main }],
            failure_policy,
            side_effects: SideEffects::None,
            url: format!("{URL}/{path}-spiderpool-spidernet-io-v2beta1-{kind}").into(),
            ..admission::Webhook::new(&format!("{kind}.spiderpool.spidernet.io"), mutating, service.clone())
        });
    }
}

/// Runs `work`, the life of a replica, and serves the webhooks meanwhile, once its cache is filled.
pub(super) async fn beside<T>(
    site: &Site,
    cluster: &Arc<Cluster>,
    process: ProcessId,
    client: ApiClient,
    env: SimEnv,
    work: impl Future<Output = T>,
) -> T {
    let Some(service) = &site.hooks else { return work.await };
    let serve = async {
        let policy = site.policy(cluster, process);
        let settings = site.plan.admission_settings(&site.agent_settings(&policy).select);
        let hooks = Arc::new(Webhook::start(client, env, settings, policy));
        hooks.synced().await;
        service.serve(process, handler(cluster, process, hooks, settings), cluster.rt.now());
        std::future::pending::<()>().await;
    };
    let done = match race(work, serve).await {
        Either::Left(done) => done,
        Either::Right(()) => unreachable!("it serves for ever"),
    };
    service.stop(process, cluster.rt.now());
    done
}

/// The handler of a replica for webhook calls.
fn handler(cluster: &Arc<Cluster>, process: ProcessId, hooks: Arc<Hooks>, settings: AdmissionSettings) -> Handler {
    let kinds: [KindId; 2] = [cluster.registry.id::<SpiderIPPool>(), cluster.registry.id::<SpiderSubnet>()];
    let cluster = Arc::downgrade(cluster);
    Arc::new(move |review| {
        let (hooks, cluster) = (hooks.clone(), cluster.clone());
        Box::pin(async move {
            let Review { kind, key, object, old, .. } = &review;
            let (kind, key, old, new) = (*kind, key.clone(), old.clone(), object.clone());
            let (verdict, answer) = match kinds.iter().position(|of| *of == kind) {
                Some(0) => answer::<SpiderIPPool>(&hooks, review).await,
                Some(_) => answer::<SpiderSubnet>(&hooks, review).await,
                None => answer::<SpiderReservedIP>(&hooks, review).await,
            };
            if let (Some(answer), Some(cluster)) = (answer, cluster.upgrade()) {
                cluster.note(process, &HookNote { kind, key, old, new, settings, answer });
            }
            verdict
        })
    })
}

/// The verdict, and the answer to note: `None` if the existing objects could not be listed, so that nothing was judged.
async fn answer<K: Admitted>(hooks: &Hooks, review: Review) -> (Verdict, Option<HookAnswer>) {
    let Review { mutating, key, object, old, .. } = review;
    let (object, old) = (object.map(typed::<K>), old.map(typed::<K>));
    let request = match (&object, &old) {
        (Some(new), Some(old)) => Request::Update { old, new },
        (Some(new), None) => Request::Create(new),
        (None, Some(old)) => Request::Delete(old),
        (None, None) => return (Ok(None), None),
    };
    if mutating {
        let subnets = hooks.subnets_for_defaults();
        let Some(defaulted) = hooks.mutate(&request, &subnets) else { return (Ok(None), None) };
        let changed = object.as_ref() != Some(&defaulted);
        let answer = HookAnswer::Defaulted { defaulted: defaulted.clone() as Obj, subnets };
        return (Ok(changed.then_some(defaulted as Obj)), Some(answer));
    }
    let refused = |denial: &ipam_spiderpool::admission::Denial| {
        let status = denial.to_status::<K>(key.as_ref().map_or("", |key| key.name()));
        Denial { code: status.code, reason: Some(status.reason), message: status.message() }
    };
    let listed = match hooks.list_for(&request).await {
        Ok(listed) => Arc::new(listed),
        Err(denial) => return (Err(refused(&denial)), None),
    };
    let denied = hooks.validate(&request, &listed).err().map(Arc::new);
    let verdict = denied.as_deref().map(refused).map_or(Ok(None), Err);
    (verdict, Some(HookAnswer::Judged { listed, denied }))
}
