//! The annotations of pods and namespaces (A §1.5).

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::ResourceExt;

use super::error::SelectError;
use super::go_object::{Members, texts_of};
use crate::auto_pool::PoolIpNumber;
use crate::ranges::{IpVersion, check_route_of_any_version};
use crate::{Policy, Route, names};

/// An item of `ippools`, or the annotation `ippool`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolItem {
    /// The NIC; empty if it is not named.
    pub interface: String,
    /// Names and patterns, IPv4.
    pub ipv4: Vec<String>,
    /// Names and patterns, IPv6.
    pub ipv6: Vec<String>,
    /// Whether the gateway is left out.
    pub clean_gateway: bool,
}

impl PoolItem {
    /// The names and patterns of a family.
    pub fn of(&self, family: IpVersion) -> &[String] {
        match family {
            IpVersion::V4 => &self.ipv4,
            IpVersion::V6 => &self.ipv6,
        }
    }

    fn read(members: &mut Members) -> Result<Self, String> {
        Ok(Self {
            interface: members.text("interface")?,
            ipv4: members.texts("ipv4")?,
            ipv6: members.texts("ipv6")?,
            clean_gateway: members.truth("cleangateway")?,
        })
    }
}

/// An item of `subnets`, or the annotation `subnet`: only the first element of each list counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubnetItem {
    /// The NIC that it is for; used in `subnets` only.
    pub interface: String,
    /// The subnet of the IPv4 address.
    pub ipv4: Option<String>,
    /// The subnet of the IPv6 address.
    pub ipv6: Option<String>,
}

impl SubnetItem {
    /// The subnet of a family.
    pub fn of(&self, family: IpVersion) -> Option<&str> {
        match family {
            IpVersion::V4 => self.ipv4.as_deref(),
            IpVersion::V6 => self.ipv6.as_deref(),
        }
    }

    fn read(members: &mut Members) -> Result<Self, String> {
        let interface = members.text("interface")?;
        let mut first = |key| Ok::<_, String>(members.texts(key)?.into_iter().next());
        Ok(Self { interface, ipv4: first("ipv4")?, ipv6: first("ipv6")? })
    }
}

/// The content of a pod's subnet annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubnetWish {
    /// The items of `subnets`, or the one of `subnet`.
    pub items: Vec<SubnetItem>,
    /// Whether the items are those of `subnets`, and each is for its NIC only.
    pub by_interface: bool,
    /// The size, if given.
    pub size: Option<PoolIpNumber>,
    /// Whether the pool is deleted with its workload.
    pub reclaim: bool,
}

/// The value of an annotation of a pod.
pub(super) fn of_pod<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Parses `ippools`.
///
/// # Errors
/// [`SelectError::MalformedAnnotation`].
pub fn ippools(text: &str) -> Result<Vec<PoolItem>, SelectError> {
    items(text, PoolItem::read).map_err(malformed(names::ANNOTATION_IPPOOLS))
}

/// Parses `ippool`.
///
/// # Errors
/// [`SelectError::MalformedAnnotation`].
pub fn ippool(text: &str) -> Result<PoolItem, SelectError> {
    // It is for any NIC: the other keys of an item of `ippools` are unknown here, whatever their values (A §14.10).
    let read = |members: &mut Members| Ok(PoolItem { ipv4: members.texts("ipv4")?, ipv6: members.texts("ipv6")?, ..PoolItem::default() });
    item(text, read).map_err(malformed(names::ANNOTATION_IPPOOL))
}

/// Whether the pod names pools without their interfaces, so that its NICs are known by index (A §2.4).
pub fn is_nameless(pod: &Pod) -> bool {
    of_pod(pod, names::ANNOTATION_IPPOOLS)
        .and_then(|text| ippools(text).ok())
        .is_some_and(|items| items.iter().any(|item| item.interface.is_empty()))
}

/// Parses `routes`; no annotation means no route.
///
/// # Errors
/// [`SelectError::MalformedRoutes`], [`SelectError::InvalidRoute`].
pub fn routes(pod: &Pod, policy: &Policy) -> Result<Vec<Route>, SelectError> {
    let Some(text) = of_pod(pod, names::ANNOTATION_ROUTES) else { return Ok(Vec::new()) };
    let read = |members: &mut Members| Ok(Route { dst: members.text("dst")?, gw: members.text("gw")? });
    let routes = items(text, read).map_err(|why| SelectError::MalformedRoutes { why })?;
    match routes.iter().find(|route| check_route_of_any_version(&route.dst, &route.gw, policy).is_err()) {
        Some(bad) => Err(SelectError::InvalidRoute { dst: bad.dst.clone(), gw: bad.gw.clone() }),
        None => Ok(routes),
    }
}

/// The default pools of a family that a namespace names, and the key that names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceWish {
    /// Names and patterns, in the order of the annotation; empty = the namespace asks for nothing.
    pub pools: Vec<String>,
    /// The outdated key, if it is present; it is read only without the other one.
    pub outdated: Option<&'static str>,
}

/// Parses the annotation of a namespace for a family.
///
/// # Errors
/// [`SelectError::MalformedAnnotation`].
pub fn of_namespace(namespace: &Namespace, family: IpVersion, with_outdated: bool) -> Result<NamespaceWish, SelectError> {
    let (key, outdated) = match family {
        IpVersion::V4 => (names::ANNOTATION_DEFAULT_IPV4_IPPOOL, names::ANNOTATION_DEFAULT_IPV4_IPPOOL_OUTDATED),
        IpVersion::V6 => (names::ANNOTATION_DEFAULT_IPV6_IPPOOL, names::ANNOTATION_DEFAULT_IPV6_IPPOOL_OUTDATED),
    };
    let annotations = namespace.annotations();
    let old = annotations.get(outdated).filter(|_| with_outdated);
    let outdated = old.map(|_| outdated);
    let (key, text) = match (annotations.get(key), old.zip(outdated)) {
        (Some(text), _) => (key, text),
        (None, Some((text, outdated))) => (outdated, text),
        (None, None) => return Ok(NamespaceWish::default()),
    };
    let mut value: serde_json::Value = serde_json::from_str(text).map_err(|error| malformed(key)(error.to_string()))?;
    let pools = if value.is_null() { Some(Vec::new()) } else { texts_of(&mut value) };
    let pools = pools.ok_or_else(|| malformed(key)("not a list of strings".to_owned()))?;
    Ok(NamespaceWish { pools, outdated })
}

/// Whether the pod has a subnet annotation, whatever its content.
pub fn has_subnet(pod: &Pod) -> bool {
    of_pod(pod, names::ANNOTATION_SUBNETS).or_else(|| of_pod(pod, names::ANNOTATION_SUBNET)).is_some()
}

/// Parses `subnets`, else `subnet`, with the size and the reclaim flag of the pool; `None` if there is neither.
///
/// # Errors
/// [`SelectError::MalformedAnnotation`], [`SelectError::SubnetInvalid`], [`SelectError::SubnetBadIpNumber`],
/// [`SelectError::SubnetBadReclaim`].
pub fn subnet(pod: &Pod) -> Result<Option<SubnetWish>, SelectError> {
    let (items, annotation) = if let Some(text) = of_pod(pod, names::ANNOTATION_SUBNETS) {
        (items(text, SubnetItem::read).map_err(malformed(names::ANNOTATION_SUBNETS))?, names::ANNOTATION_SUBNETS)
    } else if let Some(text) = of_pod(pod, names::ANNOTATION_SUBNET) {
        (vec![item(text, SubnetItem::read).map_err(malformed(names::ANNOTATION_SUBNET))?], names::ANNOTATION_SUBNET)
    } else {
        return Ok(None);
    };
    let size = match of_pod(pod, names::ANNOTATION_IPPOOL_IP_NUMBER) {
        None => None,
        Some(text) => {
            // It is odd, but no defect that the hardened form repairs, that only the text after the `+` counts (A §14.8).
            let size = PoolIpNumber::parse(text, &Policy::upstream()).ok().filter(|size| size.number >= 0);
            Some(size.ok_or_else(|| SelectError::SubnetBadIpNumber { text: text.to_owned() })?)
        }
    };
    let reclaim = match of_pod(pod, names::ANNOTATION_IPPOOL_RECLAIM) {
        None => true,
        Some(text) => go_bool(text).ok_or_else(|| SelectError::SubnetBadReclaim { text: text.to_owned() })?,
    };
    // The items are checked last: a bad number or reclaim flag of the pool is reported before that.
    let items = check_subnets(items, annotation)?;
    Ok(Some(SubnetWish { items, by_interface: annotation == names::ANNOTATION_SUBNETS, size, reclaim }))
}

fn check_subnets(items: Vec<SubnetItem>, annotation: &'static str) -> Result<Vec<SubnetItem>, SelectError> {
    let invalid = |why| SelectError::SubnetInvalid { annotation, why };
    if items.is_empty() {
        return Err(invalid("no item"));
    }
    for (at, item) in items.iter().enumerate() {
        if item.ipv4.is_none() && item.ipv6.is_none() {
            return Err(invalid("an item names no subnet"));
        }
        if [&item.ipv4, &item.ipv6].into_iter().flatten().any(String::is_empty) {
            return Err(invalid("the name of a subnet is empty"));
        }
        let same = |family| item.of(family).is_some_and(|subnet| items[..at].iter().any(|other| other.of(family) == Some(subnet)));
        if IpVersion::ALL.into_iter().any(same) {
            return Err(invalid("two interfaces have the same subnet"));
        }
        if items[..at].iter().any(|other| other.interface == item.interface) {
            return Err(invalid("an interface occurs twice"));
        }
    }
    Ok(items)
}

/// Parses a bool as Go's ParseBool does.
pub(crate) fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn items<T>(text: &str, read: impl Fn(&mut Members) -> Result<T, String>) -> Result<Vec<T>, String> {
    let list: Option<Vec<Members>> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    list.unwrap_or_default().iter_mut().map(read).collect()
}

fn item<T>(text: &str, read: impl Fn(&mut Members) -> Result<T, String>) -> Result<T, String> {
    read(&mut serde_json::from_str(text).map_err(|error| error.to_string())?)
}

fn malformed(annotation: &'static str) -> impl Fn(String) -> SelectError {
    move |why| SelectError::MalformedAnnotation { annotation, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_match_without_case_and_the_last_of_equal_ones_counts() {
        let items =
            ippools(r#"[{"Interface":"eth0","IPV4":["a"],"x":1,"ipv4":["b",null],"ipv6":null,"CleanGateway":true}, null]"#).unwrap();
        let expected = PoolItem { interface: "eth0".into(), ipv4: vec!["b".into(), String::new()], ipv6: Vec::new(), clean_gateway: true };
        assert_eq!(items, [expected, PoolItem::default()]);
        assert_eq!(ippools("null"), Ok(Vec::new()));
        assert_eq!(ippool(" null "), Ok(PoolItem::default()));
    }

    #[test]
    fn what_only_ippools_has_is_unknown_to_ippool() {
        let expected = PoolItem { ipv4: vec!["a".into()], ..PoolItem::default() };
        assert_eq!(ippool(r#"{"interface":5,"cleangateway":"yes","ipv4":["a"]}"#), Ok(expected.clone()));
        assert_eq!(ippool(r#"{"interface":"eth7","cleangateway":true,"ipv4":["a"]}"#), Ok(expected));
    }

    /// A §2.2 step 1, A §14.8.
    #[test]
    fn the_number_and_the_fate_of_a_pool_are_read_before_the_subnets_are_judged() {
        let asked = |subnets: &str, number: &str, reclaim: &str| {
            let annotations = serde_json::json!({
                names::ANNOTATION_SUBNETS: subnets, names::ANNOTATION_IPPOOL_IP_NUMBER: number, names::ANNOTATION_IPPOOL_RECLAIM: reclaim,
            });
            subnet(&serde_json::from_value(serde_json::json!({"metadata": {"annotations": annotations}})).unwrap()).unwrap_err().class()
        };
        assert_eq!(asked("[", "x", "maybe"), "malformed-annotation");
        assert_eq!(asked("[]", "x", "maybe"), "subnet-bad-ip-number");
        assert_eq!(asked("[]", "2", "maybe"), "subnet-bad-reclaim");
        assert_eq!(asked("[]", "2", "false"), "subnet-invalid");
    }

    #[test]
    fn a_value_of_another_type_is_an_error() {
        for text in ["", "{", "5", "[1]", r#"[{"ipv4":"a"}]"#, r#"[{"ipv4":[1]}]"#, r#"[{"cleangateway":"yes"}]"#, "[] x", "{}"] {
            assert!(matches!(ippools(text), Err(SelectError::MalformedAnnotation { .. })), "{text}");
        }
        for text in ["", "[]", "5", r#"{"ipv4":["a"],}"#, r#"{"ipv4":["a"],"IPv4":3}"#] {
            assert!(matches!(ippool(text), Err(SelectError::MalformedAnnotation { .. })), "{text}");
        }
    }

    #[test]
    fn an_error_names_the_value_as_it_was_written() {
        for (text, expected) in [
            (r#"[{"ipv4":["a",{"b":[1.5,null]},"c"]}]"#, r#"ipv4 is not a list of strings: ["a",{"b":[1.5,null]},"c"]"#),
            (r#"[{"interface":["a","b"]}]"#, r#"interface is not a string: ["a","b"]"#),
            (r#"[{"cleangateway":-1}]"#, "cleangateway is not true or false: -1"),
        ] {
            let Err(SelectError::MalformedAnnotation { why, .. }) = ippools(text) else { panic!("{text}") };
            assert_eq!(why, expected);
        }
    }
}
