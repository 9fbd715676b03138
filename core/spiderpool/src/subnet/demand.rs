//! The pools that a workload asks for (A §2.2, §8.3).

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};

use super::application::Application;
use crate::ranges::IpVersion;
use crate::select::annotation::subnet as subnet_asked;
use crate::select::{SelectError, Settings, SubnetRequest};

/// A pool that a workload asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The subnet that it is cut from.
    pub subnet: String,
    /// The NIC that it serves.
    pub nic: String,
    /// The family of its addresses; a subnet of the other one is refused.
    pub family: IpVersion,
    /// The number of addresses that it should have.
    pub size: u64,
    /// The pool's annotation for the size: `5`, or `+2` for that many more than pods.
    pub number: String,
    /// Whether it is deleted with the workload.
    pub reclaim: bool,
}

impl Demand {
    /// The pool that a pod asks for on a NIC; `None` if it asks for none of this family. For third-party workloads nothing else is known,
    /// and agents make their pools (A §2.2).
    pub fn of_pod(request: &SubnetRequest, nic: &str, family: IpVersion) -> Option<Self> {
        let number = match request.given {
            None => "+0".to_owned(),
            Some(given) if given.flexible => format!("+{}", given.number),
            Some(given) => given.number.to_string(),
        };
        let (subnet, nic) = (request.subnet(family)?.to_owned(), nic.to_owned());
        Some(Self { subnet, nic, family, size: request.size, number, reclaim: request.reclaim })
    }
}

/// The pools that the pods of a template ask for. `pods` is the desired number of pods; `None` = unknown.
///
/// Nothing is asked for without an annotation, by pods in the host network, and for a family that is disabled.
///
/// # Errors
/// An annotation cannot be read, or a workload of unknown size gives no number.
pub fn demands(
    application: &Application,
    template: &PodTemplateSpec,
    pods: Option<u64>,
    settings: &Settings,
) -> Result<Vec<Demand>, SelectError> {
    if !settings.enable_spider_subnet || template.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true)) {
        return Ok(Vec::new());
    }
    let pod = Pod { metadata: template.metadata.clone().unwrap_or_default(), ..Pod::default() };
    let Some(asked) = subnet_asked(&pod)? else { return Ok(Vec::new()) };
    let fixed = asked.size.filter(|size| !size.flexible).map(|size| size.number.unsigned_abs());
    let more = asked.size.filter(|size| size.flexible).map(|size| size.number.unsigned_abs());
    let (size, number) = match (fixed, more, pods) {
        (Some(size), ..) => (size, size.to_string()),
        (None, Some(more), pods) => (pods.unwrap_or(0).saturating_add(more), format!("+{more}")),
        (None, None, Some(pods)) => (pods, "+0".to_owned()),
        (None, None, None) => return Err(SelectError::SubnetNeedsFixedNumber { kind: application.name.kind.clone() }),
    };
    let mut demands = Vec::new();
    for item in &asked.items {
        // Only the annotation for a single NIC has a default.
        let nic = if item.interface.is_empty() && !asked.by_interface { "eth0" } else { &item.interface };
        for family in IpVersion::ALL.into_iter().filter(|family| settings.enables(*family)) {
            if let Some(subnet) = item.of(family) {
                let (subnet, nic, number) = (subnet.to_owned(), nic.to_owned(), number.clone());
                demands.push(Demand { subnet, nic, family, size, number, reclaim: asked.reclaim });
            }
        }
    }
    Ok(demands)
}
