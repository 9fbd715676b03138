//! The fate of the addresses that an endpoint names: a decision by NIC and family (A §6.2, §6.3).

use std::collections::BTreeSet;

use crate::IPAllocationDetail;
use crate::ipam::allocated_ip::{stored, without};
use crate::ranges::IpVersion;
use crate::select::PermittedPools;

/// Entries of an endpoint, with their positions.
pub(super) type Entries = Vec<(usize, IPAllocationDetail)>;

/// The fate of the entries of an endpoint, by position.
#[derive(Clone, Debug, Default)]
pub(super) struct StaticReuse {
    /// Addresses that the pod cannot have any more, by position and family.
    pub(super) given_up: BTreeSet<(usize, IpVersion)>,
    /// Positions that need another address instead.
    pub(super) incomplete: BTreeSet<usize>,
    /// The entries, without the addresses that are given up.
    pub(super) kept: Entries,
    /// Whether the records of `kept` are still the predecessor's, because it is not certain yet that the pod can have the rest.
    pub(super) untaken: bool,
}

impl StaticReuse {
    /// Gives up an address in exchange for another.
    pub(super) fn replace(&mut self, place: usize, family: IpVersion) {
        self.given_up.insert((place, family));
        self.incomplete.insert(place);
    }

    /// Whether a NIC need not allocate an address of a family: its entry has one, or lacks none.
    pub(super) fn has(&self, nameless: bool, place: usize, nic: &str, family: IpVersion) -> bool {
        let mut kept = self.kept.iter().filter(|(at, entry)| if nameless { *at == place } else { entry.interface == nic });
        let given = |(at, entry): &(usize, IPAllocationDetail)| {
            !self.incomplete.contains(at) || stored(entry).any(|stored| stored.family == family)
        };
        kept.any(given)
    }

    /// Gives up addresses in exchange for others.
    pub(super) fn lose(&mut self, lost: Vec<(usize, IpVersion)>, entries: &[IPAllocationDetail]) {
        for (place, family) in lost {
            self.replace(place, family);
        }
        self.keep(entries);
    }

    /// Replaces each address that an earlier entry names, too: an older version may have given it to several NICs of a pod, and only one
    /// can have it (A W14).
    pub(super) fn part(&mut self, entries: &[IPAllocationDetail]) {
        let (mut seen, mut shared) = (BTreeSet::new(), Vec::new());
        for (place, entry) in &self.kept {
            shared.extend(stored(entry).filter(|at| !seen.insert(at.address.addr())).map(|at| (*place, at.family)));
        }
        if !shared.is_empty() {
            self.lose(shared, entries);
        }
    }

    /// The entries kept in the endpoint, and the NICs that lack an address which another ADD has to allocate; this ADD allocates for those
    /// for which `allocates` is true.
    ///
    /// NICs without a name have one ADD for all of them. If it does not allocate for an entry, the pod does not have that NIC.
    pub(super) fn entries(&self, nameless: bool, allocates: impl Fn(usize, &IPAllocationDetail) -> bool) -> (Entries, Vec<String>) {
        let (mut kept, mut unfinished) = (Vec::with_capacity(self.kept.len()), Vec::new());
        for (place, entry) in &self.kept {
            if self.incomplete.contains(place) && !allocates(*place, entry) {
                if nameless || entry.interface.is_empty() {
                    continue;
                }
                unfinished.push(entry.interface.clone());
            }
            kept.push((*place, entry.clone()));
        }
        (kept, unfinished)
    }

    /// Takes over the entries of an endpoint, without the addresses that are given up.
    pub(super) fn keep(&mut self, entries: &[IPAllocationDetail]) {
        let mut kept = Vec::with_capacity(entries.len());
        for (place, entry) in entries.iter().enumerate() {
            let lost = |family: &IpVersion| self.given_up.contains(&(place, *family));
            let rest = IpVersion::ALL.into_iter().filter(lost).fold(entry.clone(), |rest, family| without(&rest, family));
            let untouched = !IpVersion::ALL.iter().any(lost);
            if untouched || stored(&rest).next().is_some() {
                kept.push((place, rest));
            }
        }
        self.kept = kept;
    }
}

/// Whether an address of an entry may be reused, as far as pools are concerned.
pub(super) fn permits(permitted: &PermittedPools, nic: &str, family: IpVersion, pool: &str) -> bool {
    permitted.pools.iter().any(|(of, version, names)| of == nic && *version == family && names.contains(pool))
}

/// Leaves a name to the kept entry that has it, for NICs without a name: a predecessor may have had its first NIC at another position. That
/// NIC keeps its address, and the new entry goes to the next NIC that has none (A §2.4). With the name twice, one NIC would answer on both.
pub(super) fn leave_names(kept: &Entries, new: &mut [(String, IPAllocationDetail)]) {
    for (_, entry) in new.iter_mut().filter(|(_, entry)| kept.iter().any(|(_, other)| other.interface == entry.interface)) {
        entry.interface.clear();
    }
}

/// Gives the NIC of a request its entry (A §2.4): the one with its name, else the first without a name, which gets the name. A name that is
/// not in `nics` is a predecessor's; `None` = every name counts.
pub(super) fn name_entry<'e>(entries: impl IntoIterator<Item = &'e mut IPAllocationDetail>, nic: &str, nics: Option<&[String]>) {
    let is_free = |name: &String| name.is_empty() || nics.is_some_and(|nics| !nics.contains(name));
    let mut free = None;
    for entry in entries {
        if entry.interface == nic {
            return;
        }
        if free.is_none() && is_free(&entry.interface) {
            free = Some(entry);
        }
    }
    if let Some(entry) = free {
        nic.clone_into(&mut entry.interface);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nic_gets_the_entry_of_its_name_else_the_first_whose_name_no_nic_of_the_pod_has() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
        for (entries, nics, expected) in [
            (&["net1"][..], Some(&["eth0"][..]), &["eth0"][..]),
            (&["net1"], Some(&["eth0", "net1"]), &["net1"]),
            (&["net1"], None, &["net1"]),
            (&["net1", "eth0"], Some(&["eth0"]), &["net1", "eth0"]),
            (&["net1", ""], Some(&["eth0", "net1"]), &["net1", "eth0"]),
        ] {
            let mut all: Vec<IPAllocationDetail> =
                names(entries).into_iter().map(|interface| IPAllocationDetail { interface, ..IPAllocationDetail::default() }).collect();
            name_entry(&mut all, "eth0", nics.map(names).as_deref());
            assert_eq!(all.into_iter().map(|entry| entry.interface).collect::<Vec<_>>(), names(expected));
        }
    }
}
