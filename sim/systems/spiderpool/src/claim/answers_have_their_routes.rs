//! A A14, A §14.20: gateways and routes of an answer.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipam_spiderpool::ipam::NicRoute;
use ipam_spiderpool::names::ANNOTATION_ROUTES;
use ipam_spiderpool::{IPPoolSpec, Route};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Pod;

use super::view::{EventMask, Seen, View};
use super::{Answered, Findings, IpamClaim};
use crate::workload::{Given, How, IpamNote};

/// An answer has the gateway of its pool for each address. A NIC has all routes of its pools and no others, except the default routes by
/// these gateways, and routes that the pod wishes for whose gateways are in the subnet of one of its addresses. An address keeps what it
/// was allocated with, so any spec that the pool has had is accepted. For a pod without a predecessor, an answer with new addresses has a
/// route for each wish that fits; addresses that a pod already has, or inherits, have the routes that were wished for at their allocation.
///
/// It does not detect a missing or an unwanted default route.
#[derive(Default)]
pub(crate) struct AnswersHaveTheirRoutes {
    /// The network settings in all specs of each pool so far.
    pools: BTreeMap<Arc<str>, Vec<Network>>,
}

/// The network settings of a pool for its pods.
struct Network {
    /// The subnet as written in the spec, and its parsed form.
    subnet: (String, Option<IpNet>),
    gateway: Option<String>,
    routes: Vec<Route>,
}

impl Network {
    fn is_of(&self, spec: &IPPoolSpec) -> bool {
        let routes = spec.routes.as_deref().unwrap_or_default();
        self.subnet.0 == spec.subnet && self.gateway.as_deref() == gateway_of(spec) && self.routes == routes
    }

    fn of(spec: &IPPoolSpec) -> Self {
        Self {
            subnet: (spec.subnet.clone(), spec.subnet.parse().ok()),
            gateway: gateway_of(spec).map(str::to_owned),
            routes: spec.routes.clone().unwrap_or_default(),
        }
    }

    /// Whether the gateway of a route is in the subnet of an address of this pool.
    fn reaches(&self, route: &Route, from: IpAddr) -> bool {
        let gateway = route.gw.parse::<IpAddr>().map(|gateway| gateway.to_canonical());
        gateway.is_ok_and(|gateway| self.subnet.1.is_some_and(|subnet| subnet.contains(&gateway) && subnet.contains(&from)))
    }
}

fn gateway_of(spec: &IPPoolSpec) -> Option<&str> {
    spec.gateway.as_deref().filter(|gateway| !gateway.is_empty())
}

fn is_default(route: &Route) -> bool {
    matches!(&*route.dst, "0.0.0.0/0" | "::/0")
}

/// The routes that a pod wishes for.
fn wished(pod: &Pod) -> Vec<Route> {
    let text = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(ANNOTATION_ROUTES));
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

impl AnswersHaveTheirRoutes {
    fn see(&mut self, pool: &Arc<str>, spec: &IPPoolSpec) {
        let known = self.pools.entry(pool.clone()).or_default();
        if !known.iter().any(|network| network.is_of(spec)) {
            known.push(Network::of(spec));
        }
    }

    fn networks<'a>(&'a self, given: impl IntoIterator<Item = &'a Given>) -> impl Iterator<Item = &'a Network> {
        given.into_iter().filter_map(|given| self.pools.get(&given.pool)).flatten()
    }

    /// The error in an answer, if there is one.
    ///
    /// `wished`: the routes that the pod wishes for; `None` = some of its addresses may have been allocated with other wishes.
    fn wrong(&self, answer: &Answered<'_>, routes: &[NicRoute], wished: Option<&[Route]>) -> Option<String> {
        for given in answer.given {
            if !self.networks([given]).any(|network| network.gateway.as_deref() == given.gateway.as_deref()) {
                let gateway = given.gateway.as_deref().unwrap_or("none");
                return Some(format!("the gateway of {} is {gateway}, which pool {} has never had", given.address, given.pool));
            }
        }
        let fits = |route: &Route, given: &Given| self.networks([given]).any(|network| network.reaches(route, given.address));
        for first in answer.given {
            let of_nic = || answer.given.iter().filter(|given| given.nic == first.nic);
            let has = |route: &Route| routes.iter().any(|has| *has.nic == *first.nic && has.route == *route);
            if !self.networks([first]).any(|network| network.routes.iter().all(has)) {
                return Some(format!("{} lacks routes of pool {}", first.nic, first.pool));
            }
            let is_known = |route: &Route| {
                let by_gateway = || of_nic().any(|given| given.gateway.as_deref() == Some(&*route.gw));
                let of_pool = || self.networks(of_nic()).any(|network| network.routes.contains(route));
                let of_pod = || wished.is_none_or(|wished| wished.contains(route)) && of_nic().any(|given| fits(route, given));
                if is_default(route) { by_gateway() } else { of_pool() || of_pod() }
            };
            if let Some(foreign) = routes.iter().find(|has| *has.nic == *first.nic && !is_known(&has.route)) {
                return Some(format!(
                    "{} has a route to {} by {}, which neither its pools have nor its pod asks for",
                    first.nic, foreign.route.dst, foreign.route.gw
                ));
            }
        }
        let is_missing =
            |route: &&Route| !routes.iter().any(|has| has.route == **route) && answer.given.iter().any(|given| fits(route, given));
        let missing = wished?.iter().find(is_missing)?;
        Some(format!("it lacks the route to {} by {}, for which the pod wishes", missing.dst, missing.gw))
    }
}

impl IpamClaim for AnswersHaveTheirRoutes {
    fn event_mask(&self) -> EventMask {
        EventMask::ANSWER.and(EventMask::POOL)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        if let Seen::Pool(change) = seen {
            for pool in [&change.before, &change.after].into_iter().flatten() {
                self.see(&change.pool, &pool.spec);
            }
        }
        let (Some(answer), Seen::Ipam(_, IpamNote::AddEnded { routes, .. })) = (Answered::of(seen), seen) else { return };
        for given in answer.given {
            if let Some(pool) = view.pools.get(&given.pool) {
                self.see(&given.pool, &pool.object.spec);
            }
        }
        let Some(pod) = view.pods.get(answer.uid) else { return };
        if answer.given.iter().any(|given| !self.pools.contains_key(&given.pool)) {
            return;
        }
        findings.exercised();
        // The other NICs of a pod that has a place may have the addresses of its predecessor.
        let is_new = answer.how == How::Fresh && pod.place.is_none();
        let wished = is_new.then(|| wished(&pod.object));
        if let Some(wrong) = self.wrong(&answer, routes, wished.as_deref()) {
            findings.violated(|| {
                let (by, whose) = (view.name(answer.by), view.pod_of(answer.uid));
                vec![format!("{by} answers {} of {whose}", answer.nic), wrong]
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::ipam::NicRoute;
    use ipam_spiderpool::names::ANNOTATION_ROUTES;
    use ipam_spiderpool::{Route, SpiderIPPool};
    use k8s_openapi::api::core::v1::Pod;
    use kube_machinery::ObjectKey;
    use serde_json::json;

    use super::super::testing::{Stage, on_stage};
    use crate::workload::How;

    fn route(dst: &str, gw: &str) -> Route {
        Route { dst: dst.to_owned(), gw: gw.to_owned() }
    }

    /// A pool with a gateway and a route, and a pod that wishes for one route whose gateway is in the pool's subnet and one whose gateway
    /// is in none.
    fn on(test: impl FnOnce(&mut Stage)) {
        on_stage("answers-have-their-routes", |stage| {
            let spec = json!({
                "ipVersion": 4, "subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.9"], "gateway": "10.0.0.254",
                "routes": [route("192.168.1.0/24", "10.0.0.250")],
            });
            stage.write::<SpiderIPPool>(stage.person, json!({"metadata": {"name": "p"}, "spec": spec, "status": {}}));
            stage.pod("ns/a", "a");
            let wishes = json!([route("192.168.2.0/24", "10.0.0.251"), route("192.168.3.0/24", "10.99.0.1")]).to_string();
            stage.change::<Pod>(stage.person, &ObjectKey::namespaced("ns", "a"), |pod| {
                pod.metadata.annotations = Some([(ANNOTATION_ROUTES.to_owned(), wishes)].into());
            });
            test(stage);
        });
    }

    const OF_POOL: (&str, &str) = ("192.168.1.0/24", "10.0.0.250");
    const OF_POD: (&str, &str) = ("192.168.2.0/24", "10.0.0.251");
    const DEFAULT: (&str, &str) = ("0.0.0.0/0", "10.0.0.254");

    #[test]
    fn an_answer_has_the_routes_of_its_pool_and_those_of_the_pod_that_fit() {
        let gateway = Some("10.0.0.254");
        for (how, gateway, routes, violated) in [
            (How::Fresh, gateway, &[DEFAULT, OF_POOL, OF_POD][..], false),
            // The claim does not judge whether there is a default route.
            (How::Fresh, gateway, &[OF_POOL, OF_POD], false),
            (How::Fresh, None, &[OF_POOL, OF_POD], true),
            (How::Fresh, Some("10.0.0.253"), &[OF_POOL, OF_POD], true),
            (How::Fresh, gateway, &[OF_POD], true),
            (How::Fresh, gateway, &[OF_POOL], true),
            (How::Existing, gateway, &[OF_POOL], false),
            (How::Reowned, gateway, &[OF_POOL, ("192.168.9.0/24", "10.0.0.251")], false),
            (How::Reowned, gateway, &[OF_POOL, ("192.168.3.0/24", "10.99.0.1")], true),
            (How::Fresh, gateway, &[OF_POOL, OF_POD, ("192.168.9.0/24", "10.0.0.251")], true),
            (How::Fresh, gateway, &[OF_POOL, OF_POD, ("192.168.3.0/24", "10.99.0.1")], true),
            (How::Fresh, gateway, &[OF_POOL, OF_POD, ("0.0.0.0/0", "10.0.0.1")], true),
        ] {
            on(|stage| {
                let routes = routes.iter().map(|(dst, gw)| NicRoute { nic: "eth0".to_owned(), route: route(dst, gw) }).collect();
                stage.answer_routes("ns/a", "a", how, gateway, routes);
                assert_eq!((!stage.excuses().is_empty(), stage.exercised()), (violated, true), "{how:?} {gateway:?}");
            });
        }
    }

    #[test]
    fn a_wish_is_about_the_subnet_of_the_address_also_where_the_pool_has_had_another() {
        on(|stage| {
            stage.change::<SpiderIPPool>(stage.person, &ObjectKey::cluster("p"), |pool| pool.spec.subnet = "10.0.0.0/8".to_owned());
            let of = |routes: &[(&str, &str)]| {
                routes.iter().map(|(dst, gw)| NicRoute { nic: "eth0".to_owned(), route: route(dst, gw) }).collect()
            };
            let all = [OF_POOL, OF_POD, ("192.168.3.0/24", "10.99.0.1")];
            stage.answer_routes("ns/a", "a", How::Fresh, Some("10.0.0.254"), of(&all));
            assert_eq!(stage.excuses(), []);
        });
        on(|stage| {
            stage.change::<SpiderIPPool>(stage.person, &ObjectKey::cluster("p"), |pool| pool.spec.subnet = "10.99.0.0/24".to_owned());
            // The address is of the former subnet.
            stage.answer_routes(
                "ns/a",
                "a",
                How::Fresh,
                Some("10.0.0.254"),
                [OF_POOL, OF_POD].map(|(dst, gw)| NicRoute { nic: "eth0".to_owned(), route: route(dst, gw) }).into(),
            );
            assert_eq!(stage.excuses(), []);
        });
    }

    #[test]
    fn what_a_pool_had_when_the_address_was_allocated_will_do() {
        on(|stage| {
            stage.change::<SpiderIPPool>(stage.person, &ObjectKey::cluster("p"), |pool| {
                (pool.spec.gateway, pool.spec.routes) = (None, None);
            });
            let of = |routes: &[(&str, &str)]| {
                routes.iter().map(|(dst, gw)| NicRoute { nic: "eth0".to_owned(), route: route(dst, gw) }).collect()
            };
            stage.answer_routes("ns/a", "a", How::Existing, Some("10.0.0.254"), of(&[DEFAULT, OF_POOL]));
            stage.answer_routes("ns/a", "a", How::Fresh, None, of(&[OF_POD]));
            assert_eq!(stage.excuses(), []);
        });
    }
}
