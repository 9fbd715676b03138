//! The rules for reserved addresses (A §9.3).

use ipam_spiderpool::admission::{AdmissionSettings, Fault};
use ipam_spiderpool::ranges::check_range;
use ipam_spiderpool::{Policy, SpiderReservedIP};

use super::stored::stored_reserved_ip;
use super::{Found, Ruling, judge_version};

/// Judges the write of reserved addresses. `old`: as stored, `None` for a creation; `new`: as it would be stored, with defaults filled in,
/// `None` for a deletion, for which no webhook is called.
pub fn reserved_ip(old: Option<&SpiderReservedIP>, new: Option<&SpiderReservedIP>, settings: &AdmissionSettings) -> Ruling {
    let old = old.map(stored_reserved_ip);
    let Some(new) = new.map(stored_reserved_ip) else { return Ruling::Admitted };
    if let Some(old) = old.as_ref().filter(|_| new.metadata.deletion_timestamp.is_some()) {
        // The update that sets the deletion timestamp, or a later one that leaves the addresses unchanged.
        let is_fine = old.metadata.deletion_timestamp.is_none() || old.spec == new.spec;
        return if is_fine { Ruling::Admitted } else { Ruling::Forbidden };
    }
    let mut found = Found::default();
    judge_version(new.spec.ip_version, old.as_ref().map(|old| old.spec.ip_version), settings, &mut found);
    if old.is_none_or(|old| old.spec.ips != new.spec.ips) {
        // If the object has no IP version, an entry may be of either family.
        let families = match new.spec.ip_version {
            Some(version @ (4 | 6)) => vec![version],
            _ => vec![4, 6],
        };
        let is_range = |text: &String| families.iter().any(|family| check_range(text, *family, &Policy::hardened()).is_ok());
        for (at, _) in new.spec.ips.iter().flatten().enumerate().filter(|(_, text)| !is_range(text)) {
            found.add(format!("spec.ips[{at}]"), Fault::Invalid);
            found.add("spec.ips", Fault::Invalid);
        }
    }
    found.ruling()
}
