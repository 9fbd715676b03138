//! The auto pools that a pod asks for and that do not exist yet, as the controller or an agent would create them (A §8).
//!
//! Core decides on the demands and their plan ([`AppKind::demands`], [`plan`]), for the cluster as given.

use std::sync::Arc;

use ipam_reports::explain::AutoPoolAnswer;
use ipam_reports::reference;
use ipam_spiderpool::SpiderSubnet;
use ipam_spiderpool::ranges::IpVersion;
use ipam_spiderpool::select::{Cluster, Selection, SubnetRequest, Tier, TopController, Workload, pools_of, reserved};
use ipam_spiderpool::subnet::{AppKind, Application, Demand, Known, Refusal, Want, Write, plan};
use ipam_spiderpool::{SpiderIPPool, names};

use super::Question;
use super::warnings::admission;

/// The maximum number of rounds of a plan: a pool is created in the first, or after addresses were given back.
const ROUNDS: u32 = 4;

/// The missing auto pools, family by family.
pub(super) fn auto_pools(question: &Question, selection: &Selection) -> Vec<AutoPoolAnswer> {
    if selection.tier != Tier::Subnet || !question.settings.enable_auto_pool_for_application {
        return Vec::new();
    }
    let Ok(controller) = TopController::of(&question.objects, &question.pod) else { return Vec::new() };
    let Some(application) = Application::of(&controller) else { return Vec::new() };
    let Ok(request) = SubnetRequest::of(&question.pod, &question.nic, &controller) else { return Vec::new() };
    let families = IpVersion::ALL.into_iter().filter(|family| question.settings.enables(*family) && request.subnet(*family).is_some());
    families
        .filter_map(|family| Planner { question, controller: &controller, application: &application, family }.answer(&request))
        .collect()
}

/// A remark about pools that would be created but that no pod would match.
pub(super) fn remark(question: &Question, auto_pools: &[AutoPoolAnswer]) -> Option<String> {
    let controller = TopController::of(&question.objects, &question.pod).ok().filter(|_| !auto_pools.is_empty())?;
    let TopController { api_version, kind, name, .. } = &controller;
    (api_version == "v1").then(|| {
        let see = reference::see("A §14.12");
        format!("no pod of {kind} {name} ever matches its auto pool: auto pools match no controller of the core group; {see}")
    })
}

/// A planner for the pool of one family.
struct Planner<'a> {
    question: &'a Question,
    controller: &'a TopController,
    application: &'a Application,
    family: IpVersion,
}

impl Planner<'_> {
    /// The pool that would be created or taken over; `None` = the workload has its pool already.
    fn answer(&self, request: &SubnetRequest) -> Option<AutoPoolAnswer> {
        let Question { objects, nic, policy, .. } = self.question;
        let wished = Demand::of_pod(request, nic, self.family)?;
        let label = |pool: &SpiderIPPool, key: &str, value: &str| {
            pool.metadata.labels.as_ref().and_then(|labels| labels.get(key)).is_some_and(|label| label == value)
        };
        let is_own = |pool: &SpiderIPPool| label(pool, names::LABEL_OWNER_APPLICATION_UID, &self.application.uid);
        // A pool that belongs to another incarnation of the workload is not for this one, and the workload's own pool comes first.
        let usable = |pool: &Arc<SpiderIPPool>| is_own(pool) || !label(pool, names::LABEL_IPPOOL_RECLAIM, "true");
        let pools = pools_of(objects, self.controller, &wished.subnet, nic, self.family).into_iter().filter(usable);
        let before = pools.min_by_key(|pool| !policy.namesake_pool_first && !is_own(pool));
        if before.as_deref().is_some_and(is_own) {
            return None;
        }
        let mut answer = AutoPoolAnswer {
            pool: self.application.pool_name(nic, self.family, policy),
            application: self.application.name.to_string(),
            subnet: wished.subnet.clone(),
            nic: nic.clone(),
            ip_version: if self.family == IpVersion::V4 { 4 } else { 6 },
            maker: if self.controller.workload == Workload::ThirdParty { "agent" } else { "controller" }.to_owned(),
            takes_over: before.as_ref().and_then(|pool| pool.metadata.name.clone()),
            size: wished.size,
            random: false,
            ranges: Vec::new(),
            free: None,
            labels: Default::default(),
            error: None,
        };
        if let Some(name) = &answer.takes_over {
            answer.pool.clone_from(name);
        }
        answer.error = self.plan(wished, before.as_deref(), &mut answer).err();
        Some(answer)
    }

    /// The demand of the workload, which may differ from the pod's.
    fn demand(&self, wished: Demand) -> Result<Demand, String> {
        let settings = &self.question.settings;
        let demands = match &self.controller.workload {
            Workload::Orphan | Workload::ThirdParty => return Ok(wished),
            Workload::Deployment(it) => it.demands(settings),
            Workload::ReplicaSet(it) => it.demands(settings),
            Workload::StatefulSet(it) => it.demands(settings),
            Workload::DaemonSet(it) => it.demands(settings),
            Workload::Job(it) => it.demands(settings),
            Workload::CronJob(it) => it.demands(settings),
        };
        let demands = demands.map_err(|error| format!("the template of {}: {error}", self.application.name))?;
        let same = |demand: &Demand| demand.subnet == wished.subnet && demand.nic == wished.nic && demand.family == wished.family;
        demands.into_iter().find(same).ok_or_else(|| {
            let Demand { subnet, nic, family, .. } = &wished;
            format!(
                "the template of {} asks for no {family} addresses of subnet {subnet} on {nic}, so no pool is created",
                self.application.name
            )
        })
    }

    /// Fills in the result of the plan.
    ///
    /// # Errors
    /// Says why there will be no pool, or not all of it.
    fn plan(&self, wished: Demand, before: Option<&SpiderIPPool>, answer: &mut AutoPoolAnswer) -> Result<(), String> {
        let Question { objects, policy, .. } = self.question;
        let demand = self.demand(wished)?;
        answer.size = demand.size;
        let subnet = objects.subnet(&demand.subnet).ok_or_else(|| format!("there is no SpiderSubnet {}", demand.subnet))?;
        let mut neighbours = Vec::new();
        objects.for_each_pool(&mut |pool| {
            if pool.spec.subnet == subnet.spec.subnet {
                neighbours.push(Arc::clone(pool));
            }
        });
        let reserved = reserved(objects, self.family, policy).map_err(|error| error.to_string())?;
        let known = Known { subnet: &subnet, pool: before, neighbours: &neighbours, reserved: &reserved, draw: None };
        let made = self.made(&demand, known).map_err(|refusal| refusal.to_string())?;
        let Some((pool, subnet)) = made else { return Ok(()) };
        answer.labels = pool.metadata.labels.clone().unwrap_or_default();
        let ranges = |pool: &SpiderIPPool| pool.spec.ips.clone().unwrap_or_default();
        // The ranges are random only if another draw gives others.
        let drawn = self.made(&demand, Known { draw: Some(1), ..known }).ok().flatten();
        answer.random = !policy.subnet_shrinks_lowest && drawn.is_some_and(|(drawn, _)| ranges(&drawn) != ranges(&pool));
        if answer.random {
            let all = Demand { size: u64::MAX, ..demand.clone() };
            if let Err(Refusal::Insufficient { free, .. }) = self.made(&all, known) {
                answer.free = Some(free.try_into().unwrap_or(u64::MAX));
            }
        } else {
            answer.ranges = ranges(&pool);
        }
        let broken = admission(self.question).with_subnet(Arc::new(subnet)).judge_stored_pool(&pool);
        broken.first().map_or(Ok(()), |broken| Err(format!("admission would refuse it: {}: {}", broken.field, broken.message)))
    }

    /// The pool that is written, with the subnet at that time; `None` = nothing is to be written.
    fn made(&self, demand: &Demand, known: Known<'_>) -> Result<Option<(Box<SpiderIPPool>, SpiderSubnet)>, Refusal> {
        let want = Want { application: self.application, demand };
        let mut subnet = known.subnet.clone();
        for _ in 0..ROUNDS {
            let planned = plan(&want, &Known { subnet: &subnet, ..known }, &self.question.policy)?;
            let mut made = None;
            for write in planned.writes {
                match write {
                    Write::Subnet(written) | Write::Hold(written) => subnet = *written,
                    Write::Create(pool) | Write::Update(pool) => made = Some(pool),
                }
            }
            if made.is_some() || !planned.again {
                return Ok(made.map(|pool| (pool, subnet)));
            }
        }
        Ok(None)
    }
}
