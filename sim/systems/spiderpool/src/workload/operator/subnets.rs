//! Operations on subnets.

use ipam_spiderpool::ranges::{IpSet, parse_ranges};
use ipam_spiderpool::{Policy, PoolIPPreAllocation, SpiderSubnet};
use kube_machinery::api::{DeleteOptions, ignore_not_found};
use kube_machinery::{ApiError, ClientExt, ObjectKey};

use super::super::subnets::ops::{DeleteSubnet, EditSubnet, StatusEdit};
use super::Operator;

impl Operator {
    pub(super) async fn delete_subnet(&self, op: &DeleteSubnet) -> Result<(), ApiError> {
        ignore_not_found(self.client.delete::<SpiderSubnet>(&ObjectKey::cluster(&op.subnet), DeleteOptions::default()).await)
    }

    /// Reads a subnet and writes it back, and again after a conflict: as admission would ensure, nothing that is set aside for a pool
    /// leaves the subnet.
    pub(super) async fn edit_subnet(&self, op: &EditSubnet) -> Result<(), ApiError> {
        let key = ObjectKey::cluster(&op.subnet);
        let subnet = match self.client.get::<SpiderSubnet>(&key).await {
            Err(error) if error.is_not_found() => return Ok(()),
            subnet => subnet?,
        };
        // A terminating subnet is no longer edited (A §9.2).
        if subnet.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let mut subnet = SpiderSubnet::clone(&subnet);
        let some = |ranges: IpSet| Some(ranges.texts()).filter(|ranges| !ranges.is_empty());
        let kept = set_aside(&subnet);
        let version = subnet.spec.ip_version.unwrap_or(4);
        if let Some(ips) = &op.ips {
            subnet.spec.ips = some(set_of(ips, version).union(&kept));
        }
        if let Some(exclude) = &op.exclude {
            subnet.spec.exclude_ips = some(set_of(exclude, version).difference(&kept));
        }
        if let Some(edit) = op.set_aside {
            edit_status(&mut subnet, edit);
            return ignore_not_found(self.client.update_status::<SpiderSubnet>(subnet).await);
        }
        ignore_not_found(self.client.update::<SpiderSubnet>(subnet).await)
    }
}

/// Corrupts the shares in the status.
fn edit_status(subnet: &mut SpiderSubnet, edit: StatusEdit) {
    let Some(status) = &mut subnet.status else { return };
    let Ok(entries) = status.controlled_ippools.make_mut() else { return };
    let old = std::mem::take(entries);
    if edit == StatusEdit::Garbled {
        for (name, entry) in old.iter() {
            let application = entry.application.as_ref().map(|_| "nobody".to_owned());
            entries.insert(name.clone(), PoolIPPreAllocation { application, ..entry.clone() });
        }
    }
}

/// The addresses of these ranges; empty if they cannot be read, which the check of the plan excludes.
fn set_of(ranges: &[String], version: i64) -> IpSet {
    parse_ranges(ranges, version, &Policy::hardened()).unwrap_or_default().into_iter().collect()
}

/// The addresses that are set aside for pools.
fn set_aside(subnet: &SpiderSubnet) -> IpSet {
    let version = subnet.spec.ip_version.unwrap_or(4);
    let entries = subnet.status.as_ref().and_then(|status| status.controlled_ippools.parse().ok());
    let entries = entries.into_iter().flat_map(|entries| entries.iter());
    entries.map(|(_, entry)| set_of(&entry.ips, version)).fold(IpSet::default(), |all, ips| all.union(&ips))
}
