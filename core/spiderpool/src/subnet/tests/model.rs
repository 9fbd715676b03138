//! A subnet, its pools and its workloads in memory, with resourceVersions, finalizers and admission.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::SpiderSubnet;
use crate::address_set::AddressSet;
use crate::admission::{AdmissionSettings, Denial, Listed, Request, review};
use crate::ranges::{IpSet, IpVersion};
use crate::subnet::pool::pool_of;
use crate::subnet::{Application, ApplicationName, Census, Demand, Fate, Known, Plan, Refusal, Upkeep, Want, Write, plan, reclaim, upkeep};
use crate::{Policy, PoolIPAllocation, SpiderIPPool, names};

/// The subnet's name and its CIDR.
const SUBNET: &str = "s";

/// A workload and the size of the pool that it asks for.
#[derive(Clone, Debug)]
pub(super) struct App {
    pub application: Application,
    /// `None` = the workload is gone.
    pub demand: Option<Demand>,
}

#[derive(Clone, Debug)]
pub(super) struct Model {
    pub policy: Policy,
    pub subnet: SpiderSubnet,
    pub pools: BTreeMap<String, Arc<SpiderIPPool>>,
    pub apps: Vec<App>,
    revision: u64,
}

/// The reason why a write was not carried out.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Failed {
    Conflict,
    Denied(Denial),
}

pub(super) fn application(name: &str, incarnation: u32) -> Application {
    let [api_version, kind, namespace, name] = ["apps/v1", "Deployment", "default", name].map(str::to_owned);
    Application { name: ApplicationName { api_version, kind, namespace, name }, uid: format!("uid-{incarnation:05}") }
}

pub(super) fn demand(size: u64) -> Demand {
    let (subnet, nic, number) = (SUBNET.to_owned(), "eth0".to_owned(), size.to_string());
    Demand { subnet, nic, family: IpVersion::V4, size, number, reclaim: true }
}

pub(super) fn ip(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

impl Model {
    /// A subnet of the addresses 10.0.0.1 to 10.0.0.`last`.
    pub(super) fn new(last: u8, policy: Policy) -> Self {
        let mut subnet = SpiderSubnet::default();
        (subnet.metadata.name, subnet.metadata.uid) = (Some(SUBNET.to_owned()), Some("uid-s".to_owned()));
        (subnet.metadata.resource_version, subnet.metadata.finalizers) = (Some("1".to_owned()), Some(vec![names::FINALIZER.to_owned()]));
        (subnet.spec.subnet, subnet.spec.ip_version) = ("10.0.0.0/24".to_owned(), Some(4));
        subnet.spec.ips = Some(vec![format!("10.0.0.1-10.0.0.{last}")]);
        Self { policy, subnet, pools: BTreeMap::new(), apps: Vec::new(), revision: 1 }
    }

    pub(super) fn with_app(mut self, name: &str, size: u64) -> Self {
        let incarnation = self.apps.len() as u32;
        self.apps.push(App { application: application(name, incarnation), demand: Some(demand(size)) });
        self
    }

    pub(super) fn pool_of(&self, app: &App, demand: &Demand) -> Option<Arc<SpiderIPPool>> {
        let want = Want { application: &app.application, demand };
        pool_of(&want, &self.subnet, self.pools.values(), &self.policy).cloned()
    }

    /// The plan for a workload that exists.
    pub(super) fn plan(&self, app: usize, draw: Option<u64>) -> Result<Plan, Refusal> {
        let app = &self.apps[app];
        let Some(demand) = &app.demand else { return Ok(Plan::default()) };
        let (pool, neighbours) = (self.pool_of(app, demand), self.pools.values().cloned().collect::<Vec<_>>());
        let reserved = IpSet::default();
        let known = Known { subnet: &self.subnet, pool: pool.as_deref(), neighbours: &neighbours, reserved: &reserved, draw };
        plan(&Want { application: &app.application, demand }, &known, &self.policy)
    }

    pub(super) fn upkeep(&self) -> Vec<Upkeep> {
        self.upkeep_of_left(false)
    }

    /// The writes of upkeep; `left` = unfinished work counts as abandoned.
    pub(super) fn upkeep_of_left(&self, left: bool) -> Vec<Upkeep> {
        let pools: Vec<_> = self.pools.values().cloned().collect();
        let fate = |name: &ApplicationName| self.fate(name);
        upkeep(&Census { subnet: &self.subnet, pools: &pools, fate: &fate, is_left: &|_, _| left }, &self.policy)
    }

    pub(super) fn fate(&self, name: &ApplicationName) -> Fate {
        let Some(app) = self.apps.iter().find(|app| app.application.name == *name && app.demand.is_some()) else { return Fate::Gone };
        Fate::There { uid: app.application.uid.clone(), wants: Some(app.demand.iter().cloned().collect()) }
    }

    fn next(&mut self) -> Option<String> {
        self.revision += 1;
        Some(self.revision.to_string())
    }

    fn put_subnet(&mut self, mut subnet: SpiderSubnet) -> Result<(), Failed> {
        if subnet.metadata.resource_version != self.subnet.metadata.resource_version {
            return Err(Failed::Conflict);
        }
        subnet.metadata.resource_version = self.next();
        self.subnet = subnet;
        Ok(())
    }

    fn put_pool(&mut self, pool: &SpiderIPPool) -> Result<(), Failed> {
        let name = pool.metadata.name.clone().unwrap();
        let (old, mut new) = (self.pools.get(&name).cloned(), pool.clone());
        if old.as_ref().map(|old| &old.metadata.resource_version)
            != pool.metadata.resource_version.as_ref().map(|version| Some(version.clone())).as_ref()
        {
            return Err(Failed::Conflict);
        }
        // Statuses are written separately.
        new.status = old.as_ref().and_then(|old| old.status.clone());
        let listed = Listed { pools: self.pools.values().cloned().collect(), subnets: vec![Arc::new(self.subnet.clone())] };
        let new = Arc::new(new);
        let request = match &old {
            None => Request::Create(&new),
            Some(old) => Request::Update { old, new: &new },
        };
        let verdict = review(&request, &listed, &AdmissionSettings::default(), &self.policy);
        if let Some(denial) = verdict.denial {
            return Err(Failed::Denied(denial));
        }
        let mut pool = verdict.defaulted.map(Arc::unwrap_or_clone).expect("it is no deletion");
        (pool.metadata.resource_version, pool.metadata.uid) = (self.next(), Some(format!("uid-{name}")));
        self.pools.insert(name, Arc::new(pool));
        Ok(())
    }

    /// Carries out a plan until a write fails, or until the writer crashes after `writes` of them.
    pub(super) fn carry_out(&mut self, plan: &Plan, writes: usize) -> Result<(), Failed> {
        for write in plan.writes.iter().take(writes) {
            match write {
                Write::Subnet(subnet) | Write::Hold(subnet) => self.put_subnet(SpiderSubnet::clone(subnet))?,
                Write::Create(pool) | Write::Update(pool) => self.put_pool(pool)?,
            }
        }
        Ok(())
    }

    pub(super) fn carry_out_upkeep(&mut self, upkeep: &[Upkeep], writes: usize) -> Result<(), Failed> {
        for write in upkeep.iter().take(writes) {
            match write {
                Upkeep::Label(subnet) | Upkeep::Status(subnet) | Upkeep::Release(subnet) => self.put_subnet(SpiderSubnet::clone(subnet))?,
                Upkeep::Adopt(pool) | Upkeep::Fence(pool) => self.put_pool(pool)?,
                Upkeep::TakeDown(pool) => self.delete_pool(pool.metadata.name.as_deref().unwrap()),
            }
        }
        Ok(())
    }

    /// Marks a pool for deletion; one without records is removed.
    pub(super) fn delete_pool(&mut self, name: &str) {
        let Some(pool) = self.pools.get(name).cloned() else { return };
        let mut pool = Arc::unwrap_or_clone(pool);
        pool.metadata.deletion_timestamp.get_or_insert(Time(jiff::Timestamp::UNIX_EPOCH));
        pool.metadata.resource_version = self.next();
        if recorded(&pool).is_empty() {
            self.pools.remove(name);
        } else {
            self.pools.insert(name.to_owned(), Arc::new(pool));
        }
    }

    /// Deletes the pools that nobody needs.
    pub(super) fn reclaim(&mut self) {
        let of = |pool: &SpiderIPPool| crate::subnet::upkeep::application_of(pool).map_or(Fate::Unknown, |name| self.fate(&name));
        let gone: Vec<String> =
            self.pools.iter().filter(|(_, pool)| reclaim(pool, &of(pool), &self.policy)).map(|(name, _)| name.clone()).collect();
        gone.iter().for_each(|name| self.delete_pool(name));
    }

    fn change_records(&mut self, name: &str, change: impl FnOnce(&mut SpiderIPPool)) {
        let Some(pool) = self.pools.get(name).cloned() else { return };
        let mut pool = Arc::unwrap_or_clone(pool);
        change(&mut pool);
        pool.metadata.resource_version = self.next();
        if pool.metadata.deletion_timestamp.is_some() && recorded(&pool).is_empty() {
            self.pools.remove(name);
        } else {
            self.pools.insert(name.to_owned(), Arc::new(pool));
        }
    }

    /// An agent records an address of the pool: its lowest free one, unless it is being deleted.
    pub(super) fn record(&mut self, name: &str) {
        self.change_records(name, |pool| {
            let free = AddressSet::of_pool(&pool.spec, &Policy::hardened()).0.difference(&recorded(pool).into_iter().collect());
            if let Some(ip) = free.nth(0).filter(|_| pool.metadata.deletion_timestamp.is_none()) {
                pool.status.get_or_insert_default().allocated_ips.make_mut().unwrap().insert(ip, PoolIPAllocation::default());
            }
        });
    }

    /// An agent releases the recorded address that has `index` lower ones.
    pub(super) fn release(&mut self, name: &str, index: usize) {
        self.change_records(name, |pool| {
            if let Some(ip) = recorded(pool).into_iter().nth(index) {
                pool.status.get_or_insert_default().allocated_ips.make_mut().unwrap().remove(ip);
            }
        });
    }

    /// A user makes a pool, through admission.
    pub(super) fn user_makes(&mut self, name: &str, ips: &str) -> Result<(), Failed> {
        let mut pool = SpiderIPPool::default();
        (pool.metadata.name, pool.spec.subnet) = (Some(name.to_owned()), "10.0.0.0/24".to_owned());
        pool.spec.ips = Some(vec![ips.to_owned()]);
        self.put_pool(&pool)
    }

    /// The pre-allocations of the subnet, by pool.
    pub(super) fn set_aside(&self) -> BTreeMap<String, BTreeSet<IpAddr>> {
        let Some(status) = &self.subnet.status else { return BTreeMap::new() };
        let entries = status.controlled_ippools.parse().unwrap().iter();
        entries.map(|(name, entry)| (name.clone(), entry.ips.iter().flat_map(|text| expand(text)).collect())).collect()
    }

    /// The addresses of the pools, by pool.
    pub(super) fn held(&self) -> BTreeMap<String, BTreeSet<IpAddr>> {
        let of = |pool: &SpiderIPPool| pool.spec.ips.iter().flatten().flat_map(|text| expand(text)).collect();
        self.pools.iter().map(|(name, pool)| (name.clone(), of(pool))).collect()
    }
}

/// The recorded addresses of a pool.
pub(super) fn recorded(pool: &SpiderIPPool) -> BTreeSet<IpAddr> {
    let Some(status) = &pool.status else { return BTreeSet::new() };
    status.allocated_ips.parse().unwrap().iter().filter_map(|(key, _)| key.address()).collect()
}

/// Expands a range address by address, which only a test does.
fn expand(text: &str) -> Vec<IpAddr> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| u32::from(text.parse::<std::net::Ipv4Addr>().unwrap());
    (number(first)..=number(last)).map(|number| IpAddr::from(number.to_be_bytes())).collect()
}
