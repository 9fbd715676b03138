//! Addresses as pools allocate them, as endpoints store them, and as answers report them.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::answer::{NicAddress, NicRoute};
use crate::ranges::IpVersion;
use crate::select::FIRST_NIC;
use crate::{IPAllocationDetail, Route, SpiderIPPool};

/// An address that a pool allocated to a NIC.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocatedIp {
    /// The NIC; in nameless mode its index.
    pub nic: String,
    /// The address, with the prefix of the pool's subnet.
    pub address: IpNet,
    /// The name of the pool that allocated it.
    pub pool: Arc<str>,
    /// The gateway of the pool.
    pub gateway: Option<String>,
    /// Whether the gateway is left out.
    pub clean_gateway: bool,
    /// The routes of the pool, and those of the pod that fit.
    pub routes: Vec<Route>,
}

impl AllocatedIp {
    /// An address allocated by this pool.
    pub(super) fn new(pool: &SpiderIPPool, name: &Arc<str>, nic: &str, clean_gateway: bool, address: IpNet) -> Self {
        Self {
            nic: nic.to_owned(),
            address,
            pool: name.clone(),
            gateway: pool.spec.gateway.clone().filter(|gateway| !gateway.is_empty()),
            clean_gateway,
            routes: pool.spec.routes.clone().unwrap_or_default(),
        }
    }

    /// The address of a failed ADD as the next ADD reports it: routes and the option to leave the gateway out are the current ones, and the
    /// pod's own routes are not included yet.
    pub(super) fn allocated_again(&self, pool: &SpiderIPPool, clean_gateway: bool) -> Self {
        Self { clean_gateway, routes: pool.spec.routes.clone().unwrap_or_default(), ..self.clone() }
    }

    /// The family of the address; an IPv4-mapped one counts as IPv4.
    pub fn family(&self) -> IpVersion {
        IpVersion::of(self.address.addr())
    }
}

/// Adds each route of the pod to the first address whose subnet holds the gateway; other routes have no effect (A A14).
pub(super) fn add_routes(allocated: &mut [AllocatedIp], routes: &[Route]) {
    for route in routes {
        let Ok(gateway) = route.gw.parse::<IpAddr>() else { continue };
        if let Some(allocated) = allocated.iter_mut().find(|allocated| allocated.address.contains(&gateway.to_canonical())) {
            allocated.routes.push(route.clone());
        }
    }
}

/// The NICs that allocated these addresses, each with its endpoint entry, in the order in which NICs first occur. NICs known by index have
/// no name, except the first (A §2.4).
pub(super) fn details(
    allocated: &[AllocatedIp],
    nameless: bool,
    mut keeps_clean: impl FnMut(&str) -> bool,
) -> Vec<(String, IPAllocationDetail)> {
    let mut nics: Vec<&str> = Vec::new();
    for one in allocated {
        if !nics.contains(&one.nic.as_str()) {
            nics.push(&one.nic);
        }
    }
    if nameless {
        nics.sort_by_key(|nic| nic.parse::<usize>().unwrap_or(usize::MAX));
    }
    nics.into_iter().map(|nic| (nic.to_owned(), detail(allocated, nic, nameless, &mut keeps_clean))).collect()
}

/// Upstream's names of NICs that are known by index: the first that allocated anything is `eth0`, whichever index it has (A §2.4). It is
/// not index 0 if that NIC's families are disabled.
pub(super) fn first_is_eth0(details: &mut [(String, IPAllocationDetail)]) {
    for (at, (_, entry)) in details.iter_mut().enumerate() {
        entry.interface = if at == 0 { FIRST_NIC.to_owned() } else { String::new() };
    }
}

fn detail(allocated: &[AllocatedIp], nic: &str, nameless: bool, keeps_clean: &mut impl FnMut(&str) -> bool) -> IPAllocationDetail {
    let interface = match nic {
        "0" if nameless => FIRST_NIC,
        _ if nameless => "",
        nic => nic,
    };
    let mut detail = IPAllocationDetail { interface: interface.to_owned(), ..IPAllocationDetail::default() };
    let mut gateways = 0;
    let mut addresses = 0;
    for one in allocated.iter().filter(|one| one.nic == nic) {
        addresses += 1;
        let (address, pool, gateway) = match one.family() {
            IpVersion::V4 => (&mut detail.ipv4, &mut detail.ipv4_pool, &mut detail.ipv4_gateway),
            IpVersion::V6 => (&mut detail.ipv6, &mut detail.ipv6_pool, &mut detail.ipv6_gateway),
        };
        *address = Some(one.address.to_string());
        *pool = Some(one.pool.to_string());
        *gateway = one.gateway.clone();
        if one.gateway.is_some() {
            gateways += 1;
            detail.clean_gateway = Some(one.clean_gateway);
        }
        if !one.routes.is_empty() {
            detail.routes.get_or_insert_default().extend(one.routes.iter().cloned());
        }
    }
    if gateways < addresses && gateways > 0 && !keeps_clean(nic) {
        detail.clean_gateway = None;
    }
    detail
}

/// An entry without its address of one family, and without the data of that address.
pub(super) fn without(detail: &IPAllocationDetail, family: IpVersion) -> IPAllocationDetail {
    let mut rest = detail.clone();
    let (address, pool, gateway) = match family {
        IpVersion::V4 => (&mut rest.ipv4, &mut rest.ipv4_pool, &mut rest.ipv4_gateway),
        IpVersion::V6 => (&mut rest.ipv6, &mut rest.ipv6_pool, &mut rest.ipv6_gateway),
    };
    (*address, *pool, *gateway) = (None, None, None);
    let is_of_family = |route: &Route| route.gw.parse().is_ok_and(|gateway: IpAddr| IpVersion::of(gateway) == family);
    rest.routes.iter_mut().for_each(|routes| routes.retain(|route| !is_of_family(route)));
    rest.routes = rest.routes.filter(|routes| !routes.is_empty());
    if rest.ipv4_gateway.is_none() && rest.ipv6_gateway.is_none() {
        rest.clean_gateway = None;
    }
    rest
}

/// Adds to an entry the addresses of the families that it lacks.
pub(super) fn complete(detail: &mut IPAllocationDetail, with: IPAllocationDetail) {
    detail.ipv4 = detail.ipv4.take().or(with.ipv4);
    detail.ipv4_pool = detail.ipv4_pool.take().or(with.ipv4_pool);
    detail.ipv4_gateway = detail.ipv4_gateway.take().or(with.ipv4_gateway);
    detail.ipv6 = detail.ipv6.take().or(with.ipv6);
    detail.ipv6_pool = detail.ipv6_pool.take().or(with.ipv6_pool);
    detail.ipv6_gateway = detail.ipv6_gateway.take().or(with.ipv6_gateway);
    detail.clean_gateway = detail.clean_gateway.or(with.clean_gateway);
    for route in with.routes.into_iter().flatten() {
        let routes = detail.routes.get_or_insert_default();
        if !routes.contains(&route) {
            routes.push(route);
        }
    }
}

/// One address of an endpoint's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored<'a> {
    pub(super) family: IpVersion,
    pub(super) address: IpNet,
    pub(super) pool: &'a str,
    pub(super) gateway: Option<&'a str>,
}

/// The addresses of an endpoint's entry that name their pool, IPv4 first.
pub(super) fn stored(detail: &IPAllocationDetail) -> impl Iterator<Item = Stored<'_>> {
    let of_v4 = (IpVersion::V4, &detail.ipv4, &detail.ipv4_pool, &detail.ipv4_gateway);
    let of_v6 = (IpVersion::V6, &detail.ipv6, &detail.ipv6_pool, &detail.ipv6_gateway);
    [of_v4, of_v6].into_iter().filter_map(|(family, address, pool, gateway)| {
        let address = address.as_deref()?.parse().ok()?;
        Some(Stored { family, address, pool: pool.as_deref().unwrap_or_default(), gateway: gateway.as_deref() })
    })
}

fn default_route(family: IpVersion, gateway: &str) -> Route {
    let dst = match family {
        IpVersion::V4 => "0.0.0.0/0",
        IpVersion::V6 => "::/0",
    };
    Route { dst: dst.to_owned(), gw: gateway.to_owned() }
}

/// The addresses and routes of an answer for entries of an endpoint.
pub(super) fn told_of_details<'d>(details: impl Iterator<Item = &'d IPAllocationDetail>) -> (Vec<NicAddress>, Vec<NicRoute>) {
    let (mut ips, mut routes) = (Vec::new(), Vec::new());
    for detail in details {
        let nic = &detail.interface;
        let mut push = |route| routes.push(NicRoute { nic: nic.clone(), route });
        for Stored { family, address, pool, gateway } in stored(detail) {
            if let Some(gateway) = gateway.filter(|_| detail.clean_gateway != Some(true)) {
                push(default_route(family, gateway));
            }
            let gateway = gateway.map(str::to_owned);
            ips.push(NicAddress { nic: nic.clone(), address, pool: pool.into(), gateway, vlan: detail.vlan });
        }
        detail.routes.iter().flatten().cloned().for_each(push);
    }
    (ips, routes)
}

/// The addresses and routes of upstream's answer for newly allocated addresses (A §14.20): NICs keep their index, except the first.
pub(super) fn told_of_allocated(allocated: &[AllocatedIp], nameless: bool) -> (Vec<NicAddress>, Vec<NicRoute>) {
    let (mut ips, mut routes) = (Vec::new(), Vec::new());
    for one in allocated {
        let nic = if nameless && one.nic == "0" { FIRST_NIC } else { &one.nic };
        let mut push = |route| routes.push(NicRoute { nic: nic.to_owned(), route });
        if let Some(gateway) = one.gateway.as_deref().filter(|_| !one.clean_gateway) {
            push(default_route(one.family(), gateway));
        }
        one.routes.iter().cloned().for_each(push);
        ips.push(NicAddress { nic: nic.to_owned(), address: one.address, pool: one.pool.clone(), gateway: one.gateway.clone(), vlan: 0 });
    }
    (ips, routes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IPPoolSpec;

    fn route(dst: &str, gw: &str) -> Route {
        Route { dst: dst.to_owned(), gw: gw.to_owned() }
    }

    fn pool(gateway: &str, routes: &[Route]) -> SpiderIPPool {
        let spec = IPPoolSpec { gateway: Some(gateway.to_owned()), routes: Some(routes.to_vec()), ..IPPoolSpec::default() };
        SpiderIPPool::new("p", spec)
    }

    /// A §5.4 step 1: upstream sets the routes of a remembered address anew, and A A14 then adds those of the pod again.
    #[test]
    fn an_address_of_a_failed_try_has_the_routes_of_now_and_those_of_the_pod_once() {
        let (of_pool, of_pod) = (route("172.16.0.0/24", "10.0.0.2"), route("192.168.0.0/16", "10.0.0.3"));
        let address = "10.0.0.9/24".parse().unwrap();
        let mut allocated = [AllocatedIp::new(&pool("10.0.0.1", &[of_pool]), &"p".into(), "eth0", false, address)];
        add_routes(&mut allocated, std::slice::from_ref(&of_pod));
        let changed = route("172.17.0.0/24", "10.0.0.2");
        let mut again = [allocated[0].allocated_again(&pool("10.0.0.7", std::slice::from_ref(&changed)), true)];
        add_routes(&mut again, std::slice::from_ref(&of_pod));
        assert_eq!(again[0].routes, [changed, of_pod]);
        // The gateway came with the address.
        assert_eq!((again[0].gateway.as_deref(), again[0].clean_gateway), (Some("10.0.0.1"), true));
    }

    #[test]
    fn the_first_entry_without_a_name_is_eth0_upstream_whatever_its_index() {
        let allocated = |nic: &str| AllocatedIp::new(&pool("", &[]), &"p".into(), nic, false, "10.0.0.9/24".parse().unwrap());
        let names = |details: &[(String, IPAllocationDetail)]| details.iter().map(|(_, entry)| entry.interface.clone()).collect::<Vec<_>>();
        let mut without_first = details(&[allocated("2"), allocated("1")], true, |_| true);
        assert_eq!(names(&without_first), ["", ""]);
        first_is_eth0(&mut without_first);
        assert_eq!((names(&without_first), &*without_first[0].0), (vec!["eth0".to_owned(), String::new()], "1"));
    }

    #[test]
    fn no_gateway_may_be_written_as_an_empty_one() {
        assert_eq!(AllocatedIp::new(&pool("", &[]), &"p".into(), "eth0", false, "10.0.0.9/24".parse().unwrap()).gateway, None);
    }

    #[test]
    fn a_mapped_gateway_is_in_the_subnet_of_its_ipv4_address() {
        let mut allocated = [AllocatedIp::new(&pool("10.0.0.1", &[]), &"p".into(), "eth0", false, "10.0.0.9/24".parse().unwrap())];
        add_routes(&mut allocated, &[route("192.168.0.0/16", "::ffff:10.0.0.3"), route("192.168.0.0/16", "10.0.1.3")]);
        assert_eq!(allocated[0].routes, [route("192.168.0.0/16", "::ffff:10.0.0.3")]);
    }
}
