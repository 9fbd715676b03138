//! The subnets as commits leave them: their addresses, and those that are set aside for each pool.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipam_spiderpool::ranges::{IpSet, parse_range, total_ips};
use ipam_spiderpool::{Policy, PoolIPPreAllocation, PoolIPPreAllocations, SpiderSubnet, SubnetSpec};
use kube_machinery::FxHashSet;
use sim_config::time::SimTime;

use super::Said;
use crate::ip_interval_index::IpIntervalIndex;

/// The addresses that are set aside for a pool.
#[derive(Clone, Debug)]
pub(in super::super) struct Share {
    /// The addresses; `None` = cannot be parsed.
    pub(in super::super) ips: Option<Arc<IpSet>>,
    /// Whether it is for an auto pool.
    pub(in super::super) is_auto: bool,
    /// The time since which anything has been set aside for the pool.
    pub(in super::super) since: SimTime,
}

impl Share {
    fn of(entry: &PoolIPPreAllocation, version: i64, since: SimTime) -> Self {
        let read = |text: &String| parse_range(text, version, &Policy::hardened()).ok();
        Self { ips: entry.ips.iter().map(read).collect::<Option<IpSet>>().map(Arc::new), is_auto: entry.application.is_some(), since }
    }
}

/// A subnet as of its last commit, with the addresses that are set aside in it.
#[derive(Debug)]
pub(in super::super) struct Subnet {
    /// Its object as of the last commit.
    pub(in super::super) object: Arc<SpiderSubnet>,
    /// `ips` without `excludeIPs`; `None` = cannot be parsed.
    pub(in super::super) total: Option<Arc<IpSet>>,
    /// The set-aside addresses by pool.
    pub(in super::super) shares: BTreeMap<Arc<str>, Share>,
    /// The set-aside addresses as an index by address.
    pub(in super::super) intervals: IpIntervalIndex,
}

impl Subnet {
    fn new(object: Arc<SpiderSubnet>, at: SimTime) -> Self {
        let total = total_of(&object.spec);
        let mut subnet = Self { total, shares: BTreeMap::new(), intervals: IpIntervalIndex::default(), object };
        let entries = entries_of(&subnet.object).cloned().unwrap_or_default();
        for (name, entry) in entries.iter() {
            subnet.set(name.as_str().into(), Some(Share::of(entry, subnet.version(), at)));
        }
        subnet
    }

    /// Its family as a number; 0 if it has none.
    pub(in super::super) fn version(&self) -> i64 {
        self.object.spec.ip_version.unwrap_or_default()
    }

    /// Whether it is being deleted.
    pub(in super::super) fn is_terminating(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    /// The addresses that are set aside for a pool, if there are any that can be parsed.
    pub(in super::super) fn share(&self, pool: &str) -> Option<&Arc<IpSet>> {
        self.shares.get(pool)?.ips.as_ref()
    }

    fn set(&mut self, pool: Arc<str>, share: Option<Share>) -> Option<Share> {
        let before = self.shares.remove(&pool);
        if let Some(ips) = before.as_ref().and_then(|share| share.ips.as_ref()) {
            self.intervals.take(&pool, ips);
        }
        if let Some(share) = share {
            if let Some(ips) = &share.ips {
                self.intervals.put(&pool, ips);
            }
            self.shares.insert(pool, share);
        }
        before
    }
}

fn total_of(spec: &SubnetSpec) -> Option<Arc<IpSet>> {
    let (ips, excluded) = (spec.ips.as_deref().unwrap_or_default(), spec.exclude_ips.as_deref().unwrap_or_default());
    let total = total_ips(ips, excluded, spec.ip_version?, &Policy::hardened()).ok()?;
    Some(Arc::new(total.into_iter().collect()))
}

/// The pre-allocations in the status, if they can be parsed.
pub(in super::super) fn entries_of(subnet: &SpiderSubnet) -> Option<&PoolIPPreAllocations> {
    subnet.status.as_ref().and_then(|status| status.controlled_ippools.parse().ok())
}

/// A change by a commit of the addresses that are set aside for a pool.
#[derive(Debug)]
pub(in super::super) struct ShareEdit {
    /// The name of the pool, which need not exist yet.
    pub(in super::super) pool: Arc<str>,
    /// The share before the commit; `None` = there was no entry.
    pub(in super::super) before: Option<Share>,
    /// The share after the commit; `None` = there is no entry any more.
    pub(in super::super) after: Option<Share>,
}

impl ShareEdit {
    /// Whether any address is no longer set aside.
    pub(in super::super) fn loses(&self) -> bool {
        let [before, after] = [&self.before, &self.after].map(|share| share.as_ref().and_then(|share| share.ips.as_ref()));
        before.is_some_and(|before| after.is_none_or(|after| !after.contains_all(before)))
    }

    /// The addresses that are newly set aside.
    pub(in super::super) fn added(&self) -> IpSet {
        let [before, after] = [&self.before, &self.after].map(|share| share.as_ref().and_then(|share| share.ips.as_ref()));
        match (before, after) {
            (_, None) => IpSet::default(),
            (None, Some(after)) => IpSet::clone(after),
            (Some(before), Some(after)) => after.difference(before),
        }
    }
}

/// One commit of a subnet.
#[derive(Debug)]
pub(crate) struct SubnetChange {
    /// The writer, and the time.
    pub(in super::super) said: Said,
    /// Whether it was written by hand.
    pub(in super::super) by_hand: bool,
    /// The revision of the commit.
    pub(in super::super) revision: u64,
    /// Name of the subnet that was created, changed or removed.
    pub(in super::super) subnet: Arc<str>,
    /// The state before the commit; `None` = there was no such subnet.
    pub(in super::super) before: Option<Arc<SpiderSubnet>>,
    /// The state after the commit.
    pub(in super::super) after: Option<Arc<SpiderSubnet>>,
    /// Whether its addresses changed.
    pub(in super::super) total_changed: bool,
    /// The pools whose set-aside addresses changed.
    pub(in super::super) edits: Vec<ShareEdit>,
}

/// The existing subnets, and the pools whose pre-allocations were edited by hand.
#[derive(Debug, Default)]
pub(in super::super) struct Subnets {
    by_name: BTreeMap<Arc<str>, Subnet>,
    /// The pools whose pre-allocation was edited by hand.
    edited: FxHashSet<Arc<str>>,
}

impl Subnets {
    /// The subnet with a name as of its last commit; `None` = there is none.
    pub(in super::super) fn get(&self, name: &str) -> Option<&Subnet> {
        self.by_name.get(name)
    }

    /// The existing subnets, sorted by name.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Subnet)> {
        self.by_name.iter()
    }

    /// Whether the pre-allocation for a pool was ever edited by hand.
    pub(in super::super) fn touched(&self, pool: &str) -> bool {
        self.edited.contains(pool)
    }

    /// Takes in a subnet that exists when the run begins.
    pub(super) fn begin(&mut self, name: &str, object: Arc<SpiderSubnet>) {
        self.by_name.insert(name.into(), Subnet::new(object, SimTime::ZERO));
    }

    /// Takes in a commit; the cost is proportional to the change.
    pub(super) fn commit(
        &mut self,
        name: &str,
        said: Said,
        revision: u64,
        after: Option<Arc<SpiderSubnet>>,
        by_hand: bool,
    ) -> SubnetChange {
        let name: Arc<str> = self.by_name.get_key_value(name).map_or_else(|| name.into(), |(name, _)| name.clone());
        let before = self.by_name.get(&name).map(|subnet| subnet.object.clone());
        let mut change =
            SubnetChange { said, by_hand, revision, subnet: name.clone(), before, after, total_changed: true, edits: Vec::new() };
        let none = PoolIPPreAllocations::default();
        let [old, new] = [&change.before, &change.after].map(|object| object.as_deref().and_then(entries_of).unwrap_or(&none));
        let Some(after) = &change.after else {
            let gone = self.by_name.remove(&name).map(|subnet| subnet.shares).unwrap_or_default();
            change.edits = gone.into_iter().map(|(pool, share)| ShareEdit { pool, before: Some(share), after: None }).collect();
            return change;
        };
        let Some(subnet) = self.by_name.get_mut(&name) else {
            let subnet = Subnet::new(after.clone(), said.at);
            let edit = |(pool, share): (&Arc<str>, &Share)| ShareEdit { pool: pool.clone(), before: None, after: Some(share.clone()) };
            change.edits = subnet.shares.iter().map(edit).collect();
            self.by_name.insert(name, subnet);
            return change;
        };
        let (was, is) = (&subnet.object.spec, &after.spec);
        change.total_changed = was.ips != is.ips || was.exclude_ips != is.exclude_ips || was.ip_version != is.ip_version;
        if change.total_changed {
            subnet.total = total_of(is);
        }
        subnet.object = after.clone();
        for edit in old.diff(new) {
            let known = subnet.shares.get_key_value(edit.key.as_str()).map(|(pool, _)| pool.clone());
            let pool = known.unwrap_or_else(|| edit.key.as_str().into());
            let since = subnet.shares.get(&pool).map_or(said.at, |share| share.since);
            let share = edit.after.map(|entry| Share::of(entry, subnet.version(), since));
            let before = subnet.set(pool.clone(), share.clone());
            change.edits.push(ShareEdit { pool, before, after: share });
        }
        if by_hand {
            self.edited.extend(change.edits.iter().map(|edit| edit.pool.clone()));
        }
        change
    }
}
