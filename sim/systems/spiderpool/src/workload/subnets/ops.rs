//! Operations on subnets, as data.

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
    /// Name of the SpiderSubnet, unique in the cluster; annotations and operations use it.
    pub name: String,
    /// The spec of the SpiderSubnet, with the field names of its manifest.
    pub spec: SubnetSpec,
}

/// An operator creates a subnet; waits for one of the same name to be gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSubnet {
    /// The subnet as operators write it: its name, and the spec of its manifest.
    pub subnet: Box<SubnetPlan>,
}

/// An operator edits a subnet. Addresses that are set aside for pools stay in it, as admission requires (A §9.2).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditSubnet {
    /// Name of the SpiderSubnet; nothing happens if there is none of this name by then, or if it is terminating.
    pub subnet: String,
    /// The ranges of its addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ips: Option<Vec<String>>,
    /// The ranges that it no longer gives to pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude: Option<Vec<String>>,
    /// The change of the shares that its status sets aside for pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<StatusEdit>,
}

/// A manual change of the status of a subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StatusEdit {
    /// All shares are removed, as by a restored backup or a tool that does not know the field.
    Forgotten,
    /// The names of workloads in the shares become unparseable.
    Garbled,
}

/// An operator deletes a subnet. Its pools go with it, each as soon as no pod has an address of it (A §8.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteSubnet {
    /// Name of the SpiderSubnet; nothing happens if there is none of this name by then.
    pub subnet: String,
}

/// Checks that a subnet can exist: its name, its CIDR and its ranges are valid.
pub(in super::super) fn check_subnet(subnet: &SubnetPlan) -> Result<(), InvalidValue> {
    check_name(&subnet.name)?;
    let SubnetSpec { subnet: cidr, ips, exclude_ips, .. } = &subnet.spec;
    let (ips, exclude) = (ips.as_deref().unwrap_or_default(), exclude_ips.as_deref().unwrap_or_default());
    CheckedRanges::parse(cidr, ips, exclude, &Policy::hardened()).map(drop).map_err(|error| {
        let wrong = format!("subnet {}: {error}", subnet.name);
        InvalidValue::value(&subnet.name, wrong, "a CIDR, and ranges FIRST-LAST inside it that do not overlap")
    })
}

/// Checks that the ranges of an edit can be read.
pub(in super::super) fn check_edit(edit: &EditSubnet) -> Result<(), InvalidValue> {
    edit.ips.iter().chain(&edit.exclude).flatten().try_for_each(|range| check_range(range))
}
