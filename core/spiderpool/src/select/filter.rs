//! The rules that decide which of the named pools can serve (A §3).

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node};

use super::Request;
use super::asker::Asker;
use super::auto_pool::{is_auto_pool, is_made_for};
use super::cluster::Cluster;
use super::memo::Open;
use super::network::Network;
use super::next_free_ip::reserved;
use super::reason::Reason;
use super::top_controller::TopController;
use crate::ranges::{Cidr, IpSet, IpVersion, RangeError, Shortage};
use crate::{IPPoolSpec, PoolIPAllocations, SpiderIPPool};
use kube_machinery::label_selector::selects;

/// The rules, for one pod. The input of a rule is looked up when the first pool has that rule.
pub(super) struct Filter<'a, C: ?Sized> {
    cluster: &'a C,
    request: &'a Request<'a>,
    controller: &'a TopController,
    node: OnceCell<Option<Arc<Node>>>,
    namespace: OnceCell<Option<Arc<Namespace>>>,
    reserved: [OnceCell<Reserved>; 2],
    /// The hash of the pod's UID, for the memo.
    owner: u64,
    /// The cached facts, from the first pool on whose addresses are checked.
    memo: OnceCell<Option<RefCell<Open<'a>>>>,
}

/// The reservations of a family, and the number of the memo's circumstances with them.
struct Reserved {
    set: Result<IpSet, RangeError>,
    circumstances: u64,
}

/// A NIC, and its network once a pool has asked for it.
pub(super) struct Nic<'a> {
    name: &'a str,
    nameless: bool,
    network: OnceCell<Option<Network>>,
}

impl<'a> Nic<'a> {
    pub(super) fn new(name: &'a str, nameless: bool) -> Self {
        Self { name, nameless, network: OnceCell::new() }
    }
}

impl<'a, C: Cluster + ?Sized> Filter<'a, C> {
    pub(super) fn new(cluster: &'a C, request: &'a Request<'a>, controller: &'a TopController) -> Self {
        let reserved = [OnceCell::new(), OnceCell::new()];
        let owner = PoolIPAllocations::owner_hash(request.pod.metadata.uid.as_deref().unwrap_or_default());
        let (node, namespace) = (OnceCell::new(), OnceCell::new());
        Self { cluster, request, controller, node, namespace, reserved, owner, memo: OnceCell::new() }
    }

    /// The first rule that the pool fails.
    pub(super) fn verdict(&self, pool: &Arc<SpiderIPPool>, family: IpVersion, nic: &Nic<'_>) -> Result<(), Reason> {
        self.permits(pool, family, nic)?;
        self.capacity_rule(pool, family, nic)
    }

    /// The verdict without the rule about a free address.
    pub(super) fn permits(&self, pool: &SpiderIPPool, family: IpVersion, nic: &Nic<'_>) -> Result<(), Reason> {
        if pool.metadata.deletion_timestamp.is_some() {
            return Err(Reason::Terminating);
        }
        if pool.spec.disable {
            return Err(Reason::Disabled);
        }
        if pool.spec.ip_version != Some(family.number()) {
            return Err(Reason::IpVersion);
        }
        self.node_rule(&pool.spec)?;
        self.namespace_rule(&pool.spec)?;
        let auto = self.pod_rule(pool)?;
        if !auto {
            self.network_rule(&pool.spec, nic)?;
        }
        Ok(())
    }

    fn node_rule(&self, spec: &IPPoolSpec) -> Result<(), Reason> {
        if let Some(names) = listed(&spec.node_name) {
            return names.iter().any(|name| name == self.request.node).then_some(()).ok_or(Reason::NodeName);
        }
        let Some(affinity) = &spec.node_affinity else { return Ok(()) };
        let node = self.node.get_or_init(|| self.cluster.node(self.request.node));
        let selected = node.as_ref().is_some_and(|node| selects(affinity, node.metadata.labels.as_ref()) == Ok(true));
        selected.then_some(()).ok_or(Reason::NodeAffinity)
    }

    fn namespace_rule(&self, spec: &IPPoolSpec) -> Result<(), Reason> {
        let own = self.request.pod.metadata.namespace.as_deref().unwrap_or_default();
        if let Some(names) = listed(&spec.namespace_name) {
            return names.iter().any(|name| name == own).then_some(()).ok_or(Reason::NamespaceName);
        }
        let Some(affinity) = &spec.namespace_affinity else { return Ok(()) };
        let namespace = self.namespace.get_or_init(|| self.cluster.namespace(own));
        let selected = namespace.as_ref().is_some_and(|namespace| selects(affinity, namespace.metadata.labels.as_ref()) == Ok(true));
        selected.then_some(()).ok_or(Reason::NamespaceAffinity)
    }

    /// Whether the pool is an auto pool of this workload, to which the rules on networks do not apply.
    fn pod_rule(&self, pool: &SpiderIPPool) -> Result<bool, Reason> {
        let Some(affinity) = &pool.spec.pod_affinity else { return Ok(false) };
        let auto = is_auto_pool(pool);
        let selected = if auto {
            is_made_for(pool, self.controller)
        } else {
            selects(affinity, self.request.pod.metadata.labels.as_ref()) == Ok(true)
        };
        selected.then_some(auto).ok_or(Reason::PodAffinity)
    }

    fn network_rule(&self, spec: &IPPoolSpec, nic: &Nic<'_>) -> Result<(), Reason> {
        let Request { pod, settings, policy, cni, .. } = *self.request;
        let names = listed(&spec.multus_name);
        if names.is_some() || policy.multus_always_resolved {
            let network = nic.network.get_or_init(|| Network::of_nic(pod, nic.name, nic.nameless, settings));
            let network = network.as_ref().ok_or(Reason::MultusNetwork)?;
            if let Some(names) = names {
                let is_network = |entry: &String| {
                    let (namespace, name) = entry.split_once('/').unwrap_or((&settings.agent_namespace, entry));
                    namespace == network.namespace && name == network.name
                };
                // The network is the user's choice: that of the host no longer matters.
                return names.iter().any(is_network).then_some(()).ok_or(Reason::MultusName);
            }
        }
        if cni.match_master_subnet {
            let subnet = Cidr::parse(&spec.subnet, policy).map_err(|_| Reason::MasterSubnet)?;
            return self.request.master.iter().any(|ip| subnet.contains(*ip)).then_some(()).ok_or(Reason::MasterSubnet);
        }
        Ok(())
    }

    fn capacity_rule(&self, pool: &Arc<SpiderIPPool>, family: IpVersion, nic: &Nic<'_>) -> Result<(), Reason> {
        let policy = self.request.policy;
        if policy.capacity_not_filtered {
            return Ok(());
        }
        let asker = self.request.asker(nic.name);
        let memo = self.memo.get_or_init(|| self.cluster.capacity_memo().map(|memo| RefCell::new(memo.open()))).as_ref();
        let slot = &self.reserved[usize::from(family == IpVersion::V6)];
        let Reserved { set, circumstances } = slot.get_or_init(|| {
            let set = reserved(self.cluster, family, policy);
            let circumstances = memo.map_or(0, |memo| memo.borrow_mut().circumstances(family, &set, &asker));
            Reserved { set, circumstances }
        });
        let find = || asker.shortage(pool, set);
        let shortage = match memo {
            Some(memo) => memo.borrow_mut().shortage(pool, *circumstances, self.owner, find),
            None => find().map(|shortage| (shortage, true)),
        };
        match shortage.filter(|(_, may_be_recorded)| !(*may_be_recorded && asker.is_recorded(pool))) {
            None => Ok(()),
            Some((Shortage::Excluded, _)) => Err(Reason::Excluded),
            Some((Shortage::Reserved, _)) => Err(Reason::Reserved),
            Some((Shortage::Empty | Shortage::Exhausted, _)) => Err(Reason::Exhausted),
        }
    }
}

impl<'a> Request<'a> {
    /// The requester of an address from a pool, for a NIC of this request.
    pub fn asker(&self, nic: &'a str) -> Asker<'a> {
        let Request { pod, settings, policy, .. } = *self;
        let pod_uid = pod.metadata.uid.as_deref().unwrap_or_default();
        Asker { pod_uid, nic, max_records: settings.max_allocated_ips, policy }
    }
}

/// A list, unless it is absent or empty.
fn listed(list: &Option<Vec<String>>) -> Option<&[String]> {
    list.as_deref().filter(|list| !list.is_empty())
}
