//! The auto-created pools of a pod's subnet annotation (A §2.2).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::annotation;
use super::cluster::Cluster;
use super::error::SelectError;
use super::top_controller::TopController;
use crate::auto_pool::PoolIpNumber;
use crate::owner_label::{application_name_of, application_version_of, subnet_of};
use crate::ranges::{IpVersion, total_ips};
use crate::{Policy, SpiderIPPool, names};

/// The auto pool of one family.
#[derive(Clone, Debug)]
pub struct AutoPool {
    /// The pool, as the cache shows it.
    pub pool: Arc<SpiderIPPool>,
    /// Whether it has its desired size. If not, it is used once waiting is no longer possible.
    pub settled: bool,
}

/// The subnet that a pod's annotation asks for on one NIC.
#[derive(Clone, Debug)]
pub struct SubnetRequest {
    /// The subnet of the IPv4 address.
    pub ipv4: Option<String>,
    /// The subnet of the IPv6 address.
    pub ipv6: Option<String>,
    /// The desired number of addresses of the pool.
    pub size: u64,
    /// The number as the annotation states it, if it is present.
    pub given: Option<PoolIpNumber>,
    /// Whether the pool is deleted with its workload.
    pub reclaim: bool,
}

impl SubnetRequest {
    /// Parses the annotations of a pod, which has at least one of them. An annotation for other NICs asks for nothing.
    ///
    /// # Errors
    /// Those of [`annotation::subnet`], [`SelectError::SubnetOrphanPod`], [`SelectError::SubnetNeedsFixedNumber`].
    pub fn of(pod: &Pod, nic: &str, controller: &TopController) -> Result<Self, SelectError> {
        let asked = annotation::subnet(pod)?;
        if controller.is_orphan() {
            return Err(SelectError::SubnetOrphanPod);
        }
        let mut request = Self { ipv4: None, ipv6: None, size: 0, given: None, reclaim: true };
        let Some(asked) = asked else { return Ok(request) };
        request.given = asked.size;
        let given = asked.size.map(|size| (size.flexible, size.number.unsigned_abs()));
        request.size = match (given, controller.workload.pods()) {
            (Some((false, size)), _) => size,
            (Some((true, more)), pods) => pods.unwrap_or(0).saturating_add(more),
            (None, Some(pods)) => pods,
            (None, None) => return Err(SelectError::SubnetNeedsFixedNumber { kind: controller.kind.clone() }),
        };
        request.reclaim = asked.reclaim;
        // The item of `subnet` is for any NIC.
        if let Some(item) = asked.items.into_iter().find(|item| !asked.by_interface || item.interface == nic) {
            (request.ipv4, request.ipv6) = (item.ipv4, item.ipv6);
        }
        Ok(request)
    }

    /// The subnet of a family.
    pub fn subnet(&self, family: IpVersion) -> Option<&str> {
        match family {
            IpVersion::V4 => self.ipv4.as_deref(),
            IpVersion::V6 => self.ipv6.as_deref(),
        }
    }

    /// Finds the pool of a family; `None` if no subnet is asked for.
    ///
    /// The pool of a third-party controller must be as desired, because nobody else reconciles it: the caller has to do so and retry. A
    /// caller that has `made` it accepts it as it is: the pods of another node may ask for another number and have changed it since.
    ///
    /// # Errors
    /// [`SelectError::SubnetNoAutoPool`], [`SelectError::SubnetManyAutoPools`], [`SelectError::SubnetReconcileFailed`].
    pub fn find<C: Cluster + ?Sized>(
        &self,
        cluster: &C,
        controller: &TopController,
        nic: &str,
        family: IpVersion,
        policy: &Policy,
        made: bool,
    ) -> Result<Option<AutoPool>, SelectError> {
        let Some(subnet) = self.subnet(family) else { return Ok(None) };
        let third_party = controller.workload.pods().is_none();
        let mut pools = pools_of(cluster, controller, subnet, nic, family);
        let is = |pool: &SpiderIPPool, key: &str, value: &str| pool.labels().get(key).is_some_and(|label| label == value);
        let same_uid = |pool: &SpiderIPPool| is(pool, names::LABEL_OWNER_APPLICATION_UID, &controller.uid);
        if third_party {
            pools.retain(|pool| same_uid(pool) || !is(pool, names::LABEL_IPPOOL_RECLAIM, "true"));
            // The workload's own pool precedes one that another workload of the name has left.
            pools.sort_by_key(|pool| !policy.namesake_pool_first && !same_uid(pool));
            pools.truncate(1);
        } else {
            pools.retain(|pool| same_uid(pool));
        }
        let subnet_name = || subnet.to_owned();
        let pool = match &pools[..] {
            [pool] => Arc::clone(pool),
            [] if third_party => return Err(SelectError::SubnetReconcileFailed { subnet: subnet_name(), family }),
            [] => return Err(SelectError::SubnetNoAutoPool { subnet: subnet_name(), family }),
            _ => return Err(SelectError::SubnetManyAutoPools { subnet: subnet_name(), family }),
        };
        let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
        let total = total_ips(&list(&pool.spec.ips), &list(&pool.spec.exclude_ips), family.number(), policy);
        let settled = total.is_ok_and(|ranges| ranges.iter().map(|range| range.count()).sum::<u128>() == self.size.into());
        let serving = || {
            let subnet = cluster.subnet(subnet).filter(|subnet| subnet.metadata.deletion_timestamp.is_none());
            subnet.is_some_and(|subnet| subnet.spec.subnet == pool.spec.subnet)
        };
        if third_party && !((settled || made) && serving()) {
            return Err(SelectError::SubnetReconcileFailed { subnet: subnet_name(), family });
        }
        Ok(Some(AutoPool { pool, settled }))
    }
}

/// The auto pools of a workload of this name for a NIC, whatever the UID of the workload; sorted by name.
pub fn pools_of<C: Cluster + ?Sized>(
    cluster: &C,
    controller: &TopController,
    subnet: &str,
    nic: &str,
    family: IpVersion,
) -> Vec<Arc<SpiderIPPool>> {
    let version = family.to_string();
    let wanted = [
        (names::LABEL_OWNER_APPLICATION_NAMESPACE, controller.namespace.as_str()),
        (names::LABEL_OWNER_APPLICATION_KIND, &controller.kind),
        (names::LABEL_INTERFACE, nic),
        (names::LABEL_IP_VERSION, &version),
    ];
    let mut pools = Vec::new();
    cluster.for_each_pool(&mut |pool| {
        let labels = pool.labels();
        let is_it = application_name_of(pool) == Some(&controller.name)
            && wanted.iter().all(|(key, value)| labels.get(*key).is_some_and(|label| label == value))
            && subnet_of(pool) == Some(subnet)
            && application_version_of(pool).as_deref() == Some(&controller.api_version);
        if is_it {
            pools.push(Arc::clone(pool));
        }
    });
    pools.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    pools
}

/// Whether a pool was made for a workload (A §1.1).
pub fn is_auto_pool(pool: &SpiderIPPool) -> bool {
    pool.labels().contains_key(names::LABEL_OWNER_APPLICATION_NAME)
}

/// Whether an auto pool was made for this workload, by its five special labels (A §3 rule 8).
///
/// A version without a slash counts as the group, as in upstream's code, so the pools of controllers of the core group match no workload (A
/// §14.12).
pub(super) fn is_made_for(pool: &SpiderIPPool, controller: &TopController) -> bool {
    let (group, version) = controller.api_version.split_once('/').unwrap_or((&controller.api_version, ""));
    let labels = pool.spec.pod_affinity.as_ref().and_then(|affinity| affinity.match_labels.as_ref());
    let is = |(key, value): (&str, &str)| labels.and_then(|labels| labels.get(key)).map_or("", String::as_str) == value;
    let values = [group, version, &controller.kind, &controller.namespace, &controller.name];
    names::AFFINITY_APP.into_iter().zip(values).all(is)
}
