//! The routes of pools and subnets, and those that applications ask for (A A14).

use std::net::IpAddr;

use ipam_spiderpool::Route;
use ipnet::IpNet;
use sim_config::draw::Draw;

use super::super::plan::SpiderPlan;
use super::SpiderDraft;
use super::operations::Drawn;

/// A gateway in none of the subnets.
const NOWHERE: &str = "10.99.0.1";

/// A route to network number `number`, with a gateway of its own at the end of a subnet, after the addresses of pools.
fn route(subnet: IpNet, number: u32) -> Route {
    let gateway = match subnet.broadcast() {
        IpAddr::V4(last) => IpAddr::V4((last.to_bits() - 16 - number).into()),
        IpAddr::V6(last) => IpAddr::V6((last.to_bits() - 16 - u128::from(number)).into()),
    };
    let dst = if gateway.is_ipv4() { format!("192.168.{number}.0/24") } else { format!("fd99:{number:x}::/64") };
    Route { dst, gw: gateway.to_string() }
}

impl SpiderDraft {
    /// Gives pools and subnets their routes. A pool that has no gateway either inherits both from its subnet.
    pub(super) fn route_pools(&self, draw: &mut Draw, plan: &mut SpiderPlan) {
        // Drawn only if the scenario asks for it, so that the draws of other scenarios stay the same.
        if *self.routes.bounds().1 == 0 {
            return;
        }
        let pools = plan.pools.iter_mut().map(|pool| &mut pool.spec).filter(|spec| spec.gateway.is_some());
        let pools = pools.map(|spec| (&spec.subnet, &mut spec.routes));
        let subnets = plan.subnets.iter_mut().map(|subnet| (&subnet.spec.subnet, &mut subnet.spec.routes));
        for (subnet, routes) in pools.chain(subnets) {
            let number = self.routes.draw(draw);
            if let Some(subnet) = subnet.parse().ok().filter(|_| number > 0) {
                *routes = Some((1..=number).map(|number| route(subnet, number)).collect());
            }
        }
    }
}

impl Drawn<'_> {
    /// The routes that an application asks for.
    pub(super) fn routes(&self, draw: &mut Draw) -> Vec<Route> {
        /// The first number after those of pools.
        const FIRST: u32 = 100;
        // Drawn only if the scenario asks for it, so that the draws of other scenarios stay the same.
        if *self.draft.routes.bounds().1 == 0 {
            return Vec::new();
        }
        let subnets = self.pools.iter().map(|pool| &pool.spec.subnet).chain(self.subnets.iter().map(|subnet| &subnet.spec.subnet));
        let subnets: Vec<IpNet> = subnets.filter_map(|subnet| subnet.parse().ok()).collect();
        let number = self.draft.routes.draw(draw);
        let wish = |number| {
            let fits = draw.chance(0.5) && !subnets.is_empty();
            if fits { route(*draw.pick(&subnets), number) } else { Route { gw: NOWHERE.to_owned(), dst: format!("192.168.{number}.0/24") } }
        };
        (FIRST..FIRST + number).map(wish).collect()
    }
}
