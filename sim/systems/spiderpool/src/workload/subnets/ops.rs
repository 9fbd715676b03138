//! What people do to subnets, as data.

use ipam_spiderpool::ranges::CheckedRanges;
use ipam_spiderpool::{Policy, SubnetSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_harness::workload::InvalidValue;

use super::super::spelling::{check_name, check_range};

/// A subnet of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubnetPlan {
    /// Name of the SpiderSubnet, unique in the cluster: annotations and operations name it so.
    pub name: String,
    /// What a SpiderSubnet says, with the names of its manifest.
    pub spec: SubnetSpec,
}

/// An operator creates a subnet; if there is one of that name, once that is gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSubnet {
    /// The subnet as operators write it: its name, and the spec of its manifest.
    pub subnet: Box<SubnetPlan>,
}

/// An operator edits a subnet. Addresses that are set aside for pools stay in it, as admission asks for (A §9.2).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditSubnet {
    /// Name of the SpiderSubnet; nothing happens if there is none of this name by then, or if it is terminating.
    pub subnet: String,
    /// The ranges of its addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ips: Option<Vec<String>>,
    /// The ranges that it does not give to pools any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude: Option<Vec<String>>,
    /// What becomes of what its status sets aside for pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<StatusEdit>,
}

/// What an operator does by hand to the status of a subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StatusEdit {
    /// They strike out everything, as a restored backup or a tool does that does not know it.
    Forgotten,
    /// They leave names of workloads that cannot be parsed.
    Garbled,
}

/// An operator deletes a subnet. Its pools go with it, each as soon as no pod has an address of it (A §8.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteSubnet {
    /// Name of the SpiderSubnet; nothing happens if there is none of this name by then.
    pub subnet: String,
}

/// A subnet can exist: its CIDR and its ranges can be read.
pub(in super::super) fn check_subnet(subnet: &SubnetPlan) -> Result<(), InvalidValue> {
    check_name(&subnet.name)?;
    let SubnetSpec { subnet: cidr, ips, exclude_ips, .. } = &subnet.spec;
    let (ips, exclude) = (ips.as_deref().unwrap_or_default(), exclude_ips.as_deref().unwrap_or_default());
    CheckedRanges::parse(cidr, ips, exclude, &Policy::hardened()).map(drop).map_err(|error| {
        let wrong = format!("subnet {}: {error}", subnet.name);
        InvalidValue::value(&subnet.name, wrong, "a CIDR, and ranges FIRST-LAST inside it that do not overlap")
    })
}

/// An edit names ranges that can be read.
pub(in super::super) fn check_edit(edit: &EditSubnet) -> Result<(), InvalidValue> {
    edit.ips.iter().chain(&edit.exclude).flatten().try_for_each(|range| check_range(range))
}
