//! The syntax of names and address ranges in operations and plans.

use ipam_spiderpool::Policy;
use ipam_spiderpool::ranges::parse_ranges;
use sim_harness::workload::InvalidValue;

/// Checks the name of an object: a DNS subdomain, as far as plans need it.
pub(super) fn check_name(name: &str) -> Result<(), InvalidValue> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if name.len() <= 253 && name.chars().all(inner) && ends(name.chars().next()) && ends(name.chars().last()) {
        return Ok(());
    }
    Err(InvalidValue::value(name, format!("no object can be called `{name}`"), "lower-case letters, digits, hyphens and dots"))
}

/// Checks a range: an address, or two with a hyphen between them.
pub(super) fn check_range(range: &str) -> Result<(), InvalidValue> {
    let version = if range.contains(':') { 6 } else { 4 };
    let read = parse_ranges(&[range], version, &Policy::hardened());
    read.map(drop).map_err(|error| InvalidValue::value(range, error.to_string(), "an address, or FIRST-LAST"))
}
