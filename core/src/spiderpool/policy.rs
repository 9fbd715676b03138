//! Where the hardened Spiderpool and upstream part: one switch per deviation.

use crate::deviation::{self, Deviation, deviations};

/// What Spiderpool does differently from its hardened form. Every switch is off there; the profile `upstream` has on what
/// upstream does today. (A value of this type is handed to the decision that it changes; nothing else looks at it.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// `upstream-ranges`: texts of ranges, CIDRs and numbers are read with upstream's quirks (A §1.6, §14.2 to 7, 15, 17, 18).
    pub upstream_ranges: bool,
    /// `ties-in-any-order`: pools of equal rank are tried in random order, not in the order in which the user lists them (A §4).
    pub ties_in_any_order: bool,
    /// `one-record-per-pod`: a record with the pod's UID is the pod's address for any NIC (A W14).
    pub one_record_per_pod: bool,
    /// `wildcard-duplicates-fail`: a pool that a pattern names a second time fails the request, and a pattern without a match, or
    /// a NIC without any candidate, succeeds without an address (A §2.3, §2.5).
    pub wildcard_duplicates_fail: bool,
    /// `capacity-not-filtered`: pools that are exhausted, wholly excluded or wholly reserved stay candidates (A §3, §12 D3).
    pub capacity_not_filtered: bool,
    /// `multus-always-resolved`: a pool without `multusName` is rejected, too, if the network of the NIC cannot be told (A §3 rule 9).
    pub multus_always_resolved: bool,
    /// `outdated-keys-ignored`: the annotations `defaultv4ippool` and `defaultv6ippool` of namespaces are not read (A §12 D1).
    pub outdated_keys_ignored: bool,
}

impl Policy {
    /// Every deviation, in the order of the fields.
    pub const DEVIATIONS: &'static [Deviation<Self>] = deviations! {
        "upstream-ranges" true upstream_ranges;
        "ties-in-any-order" true ties_in_any_order;
        "one-record-per-pod" true one_record_per_pod;
        "wildcard-duplicates-fail" true wildcard_duplicates_fail;
        "capacity-not-filtered" true capacity_not_filtered;
        "multus-always-resolved" true multus_always_resolved;
        "outdated-keys-ignored" true outdated_keys_ignored;
    };

    /// The documented behaviour, made safe.
    pub fn hardened() -> Self {
        Self::default()
    }

    /// The code upstream as it is.
    pub fn upstream() -> Self {
        deviation::upstream(Self::DEVIATIONS)
    }

    /// The switch with this public name.
    pub fn switch(&mut self, name: &str) -> Option<&mut bool> {
        deviation::switch(Self::DEVIATIONS, self, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_own_switch_and_hardened_has_none_on() {
        let mut seen = Vec::new();
        for deviation in Policy::DEVIATIONS {
            let mut policy = Policy::hardened();
            *policy.switch(deviation.name).unwrap() = true;
            assert_ne!(policy, Policy::hardened(), "{}", deviation.name);
            assert!(!seen.contains(&policy), "{}", deviation.name);
            seen.push(policy);
        }
        assert_eq!(Policy::hardened().switch("upstream-nothing"), None);
    }

    #[test]
    fn upstream_has_on_what_its_table_says() {
        for deviation in Policy::DEVIATIONS {
            assert_eq!(*Policy::upstream().switch(deviation.name).unwrap(), deviation.upstream, "{}", deviation.name);
        }
    }
}
