//! The fields that pools and subnets have in common: family, CIDR, ranges, gateway, routes (A §9.1, §9.2).

use super::findings::Findings;
use super::{AdmissionSettings, Denial, Fault, Rules, Violation};
use crate::ranges::{Cidr, RangeError, check_range, cidr_label, merge_ranges, parse_ip, parse_range, range_contains};
use crate::{IPPoolSpec, Policy, Route, SubnetSpec};

/// The addresses of a pool or a subnet, as the user wrote them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Addresses<'a> {
    pub version: Option<i64>,
    pub subnet: &'a str,
    pub ips: &'a [String],
    pub exclude: &'a [String],
    pub gateway: Option<&'a str>,
    pub routes: &'a [Route],
}

macro_rules! of_spec {
    ($spec:ty) => {
        impl<'a> From<&'a $spec> for Addresses<'a> {
            fn from(spec: &'a $spec) -> Self {
                Self {
                    version: spec.ip_version,
                    subnet: &spec.subnet,
                    ips: spec.ips.as_deref().unwrap_or_default(),
                    exclude: spec.exclude_ips.as_deref().unwrap_or_default(),
                    gateway: spec.gateway.as_deref(),
                    routes: spec.routes.as_deref().unwrap_or_default(),
                }
            }
        }
    };
}

of_spec!(IPPoolSpec);
of_spec!(SubnetSpec);

/// The family of a pool or a subnet, which is set to that of the CIDR if the user gave none, and the label of the CIDR.
///
/// # Errors
/// `subnet` is no CIDR of the family.
pub(super) fn default_family(version: &mut Option<i64>, subnet: &str, policy: &Policy) -> Result<(i64, String), RangeError> {
    let of_cidr = || Cidr::parse_version(subnet, 4, policy).map(|_| 4).or_else(|_| Cidr::parse_version(subnet, 6, policy).map(|_| 6));
    let version = match *version {
        Some(version) => version,
        None => *version.insert(of_cidr()?),
    };
    Ok((version, cidr_label(subnet, version, policy)?))
}

/// The family of a range without a stated family.
///
/// # Errors
/// The text is no range.
pub(super) fn family_of_range(range: &str, policy: &Policy) -> Result<i64, RangeError> {
    check_range(range, 4, policy).map(|()| 4).or_else(|_| check_range(range, 6, policy).map(|()| 6))
}

/// Merges a list that has more than one entry.
///
/// # Errors
/// An entry is no range; the list stays unchanged.
pub(super) fn merge(list: &mut Option<Vec<String>>, version: i64, policy: &Policy) -> Result<(), RangeError> {
    if let Some(texts) = list.as_mut().filter(|texts| texts.len() > 1) {
        *texts = merge_ranges(texts, version, policy)?;
    }
    Ok(())
}

/// Checks that the family is given, valid and enabled.
pub(super) fn check_version(version: Option<i64>, settings: &AdmissionSettings) -> Result<i64, Violation> {
    const FIELD: &str = "spec.ipVersion";
    let enabled = match version {
        None => return Err(Violation::invalid(FIELD, "is neither given nor can it be told from the addresses; write 4 or 6")),
        Some(4) => settings.enable_ipv4,
        Some(6) => settings.enable_ipv6,
        Some(version) => return Err(Violation::new(FIELD, Fault::NotSupported, RangeError::Version(version))),
    };
    let version = version.unwrap_or_default();
    if enabled { Ok(version) } else { Err(Violation::forbidden(FIELD, format_args!("IPv{version} is disabled in this cluster"))) }
}

/// The family by which addresses are checked: the given one, else the apparent family of `first`.
///
/// # Errors
/// It is invalid or disabled, or it is missing and the check ends with the first broken rule.
pub(super) fn family(
    version: Option<i64>,
    first: Option<&str>,
    settings: &AdmissionSettings,
    findings: &mut Findings,
) -> Result<i64, Violation> {
    match check_version(version, settings) {
        Err(violation) if version.is_none() => {
            findings.note(Err(violation))?;
            Ok(if first.is_some_and(|first| first.contains(':')) { 6 } else { 4 })
        }
        checked => checked,
    }
}

/// Checks that family and CIDR are unchanged. (A family that is not given is derived from the CIDR, and so it stays the same.)
pub(super) fn check_unchanged(old: &Addresses<'_>, new: &Addresses<'_>) -> Result<(), Violation> {
    if let (Some(before), Some(after)) = (old.version, new.version)
        && before != after
    {
        return Err(Violation::forbidden("spec.ipVersion", "is immutable"));
    }
    if old.subnet == new.subnet { Ok(()) } else { Err(Violation::forbidden("spec.subnet", "is immutable")) }
}

/// The rules of addresses of a known family.
pub(super) struct Checked<'a> {
    pub addresses: Addresses<'a>,
    pub version: i64,
    pub policy: &'a Policy,
}

impl<'a> Checked<'a> {
    /// Checks the family. If it is unknown because the addresses are wrong, these are checked as the family they look like.
    pub(super) fn new(addresses: Addresses<'a>, rules: &Rules<'a>, findings: &mut Findings) -> Result<Self, Denial> {
        let version = family(addresses.version, Some(addresses.subnet), rules.settings, findings)?;
        Ok(Self { addresses, version, policy: rules.policy })
    }

    /// Parses the CIDR, which must be written as Go writes it.
    pub(super) fn cidr(&self, findings: &mut Findings) -> Result<Cidr, Violation> {
        let invalid = |error| Violation::invalid("spec.subnet", error);
        let subnet = self.addresses.subnet;
        let cidr = Cidr::parse_version(subnet, self.version, self.policy).map_err(invalid)?;
        if !Cidr::is_canonical(subnet, self.policy) {
            findings.note(Err(Violation::invalid("spec.subnet", format_args!("`{subnet}` is not the usual form; write `{cidr}`"))))?;
        }
        Ok(cidr)
    }

    /// Checks that each entry of `ips` and `excludeIPs` is a range inside the CIDR.
    pub(super) fn check_ranges(&self, findings: &mut Findings) -> Result<(), Violation> {
        let cidr = Cidr::parse_version(self.addresses.subnet, self.version, self.policy);
        let cidr = cidr.map_err(|error| Violation::invalid("spec.subnet", error))?;
        for (field, list) in [("spec.ips", self.addresses.ips), ("spec.excludeIPs", self.addresses.exclude)] {
            for (at, text) in list.iter().enumerate() {
                let outside = || RangeError::Outside { text: text.clone(), cidr: cidr.to_string() };
                let range = parse_range(text, self.version, self.policy);
                let inside = range.and_then(|range| cidr.contains_range(&range).then_some(()).ok_or_else(outside));
                findings.note(inside.map_err(|error| Violation::invalid(format!("{field}[{at}]"), error)))?;
            }
        }
        Ok(())
    }

    /// Checks that the gateway is in the CIDR, and no pod can get it.
    pub(super) fn check_gateway(&self) -> Result<(), Violation> {
        let Some(gateway) = self.addresses.gateway else { return Ok(()) };
        self.inside("spec.gateway", gateway)?;
        let holds = |(at, range): (usize, &String), field: &str| {
            match range_contains(range, gateway, self.version, self.policy) {
                // A range that the webhook parser accepts and the strict one does not holds nothing here (A §1.6).
                Err(_) if self.policy.upstream_ranges => Ok(false),
                holds => holds.map_err(|error| Violation::invalid(format!("{field}[{at}]"), error)),
            }
        };
        for excluded in self.addresses.exclude.iter().enumerate() {
            if holds(excluded, "spec.excludeIPs")? {
                return Ok(());
            }
        }
        for (at, range) in self.addresses.ips.iter().enumerate() {
            if holds((at, range), "spec.ips")? {
                let error = RangeError::Gateway { gateway: gateway.to_owned(), range: range.clone() };
                return Err(Violation::invalid(format!("spec.ips[{at}]"), error));
            }
        }
        Ok(())
    }

    /// Checks that no route is a default route, that destinations differ, and that next hops are in the CIDR.
    ///
    /// Upstream compares destinations as text; hardened, two spellings of one destination are equal.
    pub(super) fn check_routes(&self, findings: &mut Findings) -> Result<(), Violation> {
        let mut seen: Vec<String> = Vec::with_capacity(self.addresses.routes.len());
        for (at, Route { dst, gw }) in self.addresses.routes.iter().enumerate() {
            let parsed = Cidr::parse_version(dst, self.version, self.policy);
            let destination = match &parsed {
                Ok(cidr) if !self.policy.upstream_ranges => cidr.to_string(),
                _ => dst.clone(),
            };
            let field = format!("spec.routes[{at}].dst");
            let allowed = if destination == "0.0.0.0/0" || destination == "::/0" {
                Err(Violation::invalid(field, "a default route comes from `spec.gateway`"))
            } else if seen.contains(&destination) {
                Err(Violation::invalid(field, format_args!("a second route to {destination}")))
            } else {
                parsed.map(drop).map_err(|error| Violation::invalid(field, error))
            };
            findings.note(allowed)?;
            findings.note(self.inside(format!("spec.routes[{at}].gw"), gw))?;
            seen.push(destination);
        }
        Ok(())
    }

    /// Checks that the address is in the CIDR.
    fn inside(&self, field: impl Into<std::borrow::Cow<'static, str>>, ip: &str) -> Result<(), Violation> {
        let check = || {
            let ip_of_text = parse_ip(ip, self.version, self.policy)?;
            let cidr = Cidr::parse_version(self.addresses.subnet, self.version, self.policy)?;
            let outside = || RangeError::Outside { text: ip.to_owned(), cidr: cidr.to_string() };
            cidr.contains(ip_of_text).then_some(()).ok_or_else(outside)
        };
        check().map_err(|error| Violation::invalid(field, error))
    }
}
