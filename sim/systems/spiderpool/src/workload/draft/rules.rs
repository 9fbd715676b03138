//! Rules that restrict the pools of a generated cluster to some pods, one for each pool (A §3).

use ipam_spiderpool::IPPoolSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::Open;
use sim_config::draw::Draw;

use super::super::apps::APP;
use super::super::ops::Reserve;
use super::wishes::network_name;

/// The Multus network of the first NIC in generated clusters.
pub(super) const CLUSTER_NETWORK: &str = "kube-system/macvlan";

/// A rule that restricts a pool to some pods (A §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PoolRule {
    /// No rule: the pool serves every pod.
    Everyone,
    /// `nodeName` names one node.
    NodeName,
    /// `nodeAffinity` selects nodes by their labels.
    NodeAffinity,
    /// `namespaceName` names one namespace.
    NamespaceName,
    /// `namespaceAffinity` selects namespaces by their labels.
    NamespaceAffinity,
    /// `podAffinity` selects pods by their labels.
    PodAffinity,
    /// `nodeAffinity` selects nodes by a label that operators change.
    NodeLabel,
    /// `namespaceAffinity` selects namespaces by a label that operators change.
    NamespaceLabel,
    /// `podAffinity` selects pods by a label that operators change.
    PodLabel,
    /// `multusName` names one network, for one NIC of each pod.
    MultusName,
    /// All of its addresses are excluded.
    Excluded,
    /// All of its addresses are reserved.
    Reserved,
    /// Some of the six rules by which pools are ranked, each with probability 1/2 (A §4).
    Several,
}

impl Open for PoolRule {}

/// The nodes, namespaces, applications and NICs that rules may name.
pub(super) struct Named {
    pub(super) nodes: Vec<String>,
    pub(super) namespaces: Vec<String>,
    pub(super) apps: Vec<String>,
    /// The maximum number of NICs of a pod.
    pub(super) nics: u32,
}

/// A label of nodes, namespaces and pods that operators change.
pub(super) const ZONE: &str = "example.com/zone";
/// The values of the label on most objects.
pub(super) const ZONES: [&str; 2] = ["a", "b"];

const HOSTNAME: &str = "kubernetes.io/hostname";
const NAME_OF_NAMESPACE: &str = "kubernetes.io/metadata.name";

/// Some of these items, at least one and, if there are several, not all.
pub(super) fn some<T: Clone>(draw: &mut Draw, of: &[T]) -> Vec<T> {
    let mut some = of.to_vec();
    some.rotate_left(draw.below(of.len().max(1) as u64) as usize);
    some.truncate(1 + draw.below(of.len().saturating_sub(1).max(1) as u64) as usize);
    some
}

/// A selector for objects that have one of these values of a label, none of them, or any value or none at all.
fn selector(draw: &mut Draw, key: &str, of: &[String]) -> LabelSelector {
    let (operator, values) = (draw.below(5), some(draw, of));
    if operator == 0
        && let [value] = &values[..]
    {
        return LabelSelector { match_labels: Some([(key.to_owned(), value.clone())].into()), ..LabelSelector::default() };
    }
    let (operator, values) = match operator {
        0 | 1 => ("In", Some(values)),
        2 => ("NotIn", Some(values)),
        3 => ("Exists", None),
        _ => ("DoesNotExist", None),
    };
    let requirement = LabelSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values };
    LabelSelector { match_expressions: Some(vec![requirement]), ..LabelSelector::default() }
}

/// The values of [`ZONE`].
fn zones() -> Vec<String> {
    ZONES.map(str::to_owned).to_vec()
}

impl PoolRule {
    /// The rules by which pools are ranked, highest first (A §4).
    const RANKED: [Self; 6] =
        [Self::PodAffinity, Self::NodeName, Self::NodeAffinity, Self::NamespaceName, Self::NamespaceAffinity, Self::MultusName];

    /// Whether the rule uses a label that operators change.
    pub(super) fn looks_at_zone(self) -> bool {
        matches!(self, Self::NodeLabel | Self::NamespaceLabel | Self::PodLabel)
    }

    /// Puts the rule into a pool; returns a reservation if the rule needs one.
    pub(super) fn put(self, draw: &mut Draw, pool: &str, spec: &mut IPPoolSpec, named: &Named) -> Option<Reserve> {
        let one = |draw: &mut Draw, of: &[String]| Some(vec![draw.pick(of).clone()]);
        match self {
            Self::Everyone => {}
            Self::NodeName => spec.node_name = one(draw, &named.nodes),
            Self::NodeAffinity => spec.node_affinity = Some(selector(draw, HOSTNAME, &named.nodes)),
            Self::NamespaceName => spec.namespace_name = one(draw, &named.namespaces),
            Self::NamespaceAffinity => spec.namespace_affinity = Some(selector(draw, NAME_OF_NAMESPACE, &named.namespaces)),
            Self::PodAffinity => spec.pod_affinity = Some(selector(draw, APP, &named.apps)),
            Self::NodeLabel => spec.node_affinity = Some(selector(draw, ZONE, &zones())),
            Self::NamespaceLabel => spec.namespace_affinity = Some(selector(draw, ZONE, &zones())),
            Self::PodLabel => spec.pod_affinity = Some(selector(draw, ZONE, &zones())),
            Self::MultusName => {
                let nic = draw.below(u64::from(named.nics)) as u32;
                spec.multus_name = Some(vec![if nic == 0 { CLUSTER_NETWORK.to_owned() } else { network_name(nic) }]);
            }
            Self::Excluded => spec.exclude_ips.clone_from(&spec.ips),
            Self::Several => {
                for rule in Self::RANKED {
                    if draw.chance(0.5) {
                        let _ = rule.put(draw, pool, spec, named);
                    }
                }
            }
            Self::Reserved => return Some(Reserve { name: format!("all-of-{pool}"), ips: spec.ips.clone().unwrap_or_default() }),
        }
        None
    }
}
