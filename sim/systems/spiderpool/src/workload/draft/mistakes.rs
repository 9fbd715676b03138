//! Mistakes that users make in the requests of an application.

use std::collections::BTreeMap;

use ipam_spiderpool::names;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sim_config::Open;

use super::super::ops::AppKind;
use super::super::subnets::drawn::subnet_name;
use super::wishes::Wished;

/// A mistake in the annotations of pods, because of which they get no address (A §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WishMistake {
    /// The JSON ends too early.
    CutOff,
    /// The annotation `ippools` lists no NIC.
    NoNic,
    /// Only one of two NICs in `ippools` has a name.
    MixedNames,
    /// Two elements of `ippools` name the same NIC.
    NicTwice,
    /// `ippools` names a NIC that the pod does not have, and not the one that it has.
    OtherNic,
    /// A pattern with empty brackets.
    BadPattern,
    /// A pattern that matches no pool.
    NoMatch,
    /// The name of a pool that does not exist.
    NoSuchPool,
    /// The same pool named twice for one family.
    PoolTwice,
    /// The pools of one family listed under the other as well.
    OtherFamily,
    /// Routes that are no valid JSON.
    CutOffRoutes,
    /// A route whose gateway is no address.
    BadRoute,
    /// A request for an auto pool without a subnet. No mistake where no auto pool is asked for.
    NoSubnet,
    /// A request for an auto pool, with an empty subnet name for one family.
    NamelessSubnet,
    /// A request for an auto pool with an `ippool-ip-number` that is no number.
    BadIpNumber,
    /// A request for an auto pool with an `ippool-ip-number` that has two signs.
    DoubledSign,
    /// A request for an auto pool with a negative `ippool-ip-number`.
    NegativeIpNumber,
    /// A request for an auto pool with an `ippool-reclaim` that is neither true nor false.
    BadReclaim,
    /// A request for an auto pool without a number, by pods of a kind that Spiderpool does not know. No mistake for other kinds.
    NoNumber,
    /// A request for an auto pool by a pod without a controller. No mistake for other kinds.
    NoWorkload,
}

impl Open for WishMistake {}

/// The name of a pool that does not exist.
const NO_POOL: &str = "no-such-pool";

impl WishMistake {
    /// Makes the mistake in the annotations of pods of this kind that ask for pools of the families in `wished`.
    pub(super) fn make(self, kind: AppKind, annotations: &mut BTreeMap<String, String>, wished: &[Wished]) {
        let asks = [names::ANNOTATION_SUBNETS, names::ANNOTATION_SUBNET].into_iter().find(|key| annotations.contains_key(*key));
        let one = |pools: &dyn Fn(&Wished) -> Vec<String>| -> Value {
            let key = |wished: &Wished| format!("ipv{}", wished.version.number());
            Value::Object(wished.iter().map(|wished| (key(wished), json!(pools(wished)))).collect())
        };
        let all = || one(&|wished| wished.pools.clone());
        let of_nic = |nic: &str| {
            let mut item = all();
            item["interface"] = json!(nic);
            item
        };
        let ippool = |pools: &dyn Fn(&Wished) -> Vec<String>| (names::ANNOTATION_IPPOOL, one(pools).to_string());
        let ippools = |items: Value| (names::ANNOTATION_IPPOOLS, items.to_string());
        let (key, text) = match self {
            Self::CutOff => (asks.unwrap_or(names::ANNOTATION_IPPOOL), r#"{"ipv4": ["v4-0""#.to_owned()),
            Self::NoNic => ippools(json!([])),
            Self::MixedNames => ippools(json!([of_nic("eth0"), all()])),
            Self::NicTwice => ippools(json!([of_nic("eth0"), of_nic("eth0")])),
            Self::OtherNic => ippools(json!([of_nic("net99")])),
            Self::BadPattern => ippool(&|_| vec!["v[]-*".to_owned()]),
            Self::NoMatch => ippool(&|_| vec![format!("{NO_POOL}-*")]),
            Self::NoSuchPool => ippool(&|_| vec![NO_POOL.to_owned()]),
            Self::PoolTwice => ippool(&|wished| wished.pools.iter().take(1).flat_map(|pool| [pool.clone(), pool.clone()]).collect()),
            Self::OtherFamily => ippool(&|_| wished.iter().rev().flat_map(|wished| &wished.pools).cloned().collect()),
            Self::CutOffRoutes => (names::ANNOTATION_ROUTES, r#"[{"dst": "10.0.0.0/8""#.to_owned()),
            Self::BadRoute => (names::ANNOTATION_ROUTES, json!([{"dst": "10.0.0.0/8", "gw": "10.0.0"}]).to_string()),
            Self::BadIpNumber => (names::ANNOTATION_IPPOOL_IP_NUMBER, "many".to_owned()),
            Self::DoubledSign => (names::ANNOTATION_IPPOOL_IP_NUMBER, "++1".to_owned()),
            Self::NegativeIpNumber => (names::ANNOTATION_IPPOOL_IP_NUMBER, "-1".to_owned()),
            Self::BadReclaim => (names::ANNOTATION_IPPOOL_RECLAIM, "maybe".to_owned()),
            Self::NoNumber if matches!(kind, AppKind::CloneSet | AppKind::CustomResource) => {
                annotations.remove(names::ANNOTATION_IPPOOL_IP_NUMBER);
                return;
            }
            Self::NoWorkload if kind == AppKind::Pod => {
                (names::ANNOTATION_SUBNET, one(&|wished| vec![subnet_name(wished.version, 0)]).to_string())
            }
            Self::NoSubnet => match asks {
                Some(key @ names::ANNOTATION_SUBNETS) => (key, json!([{"interface": "eth0"}]).to_string()),
                Some(key) => (key, json!({}).to_string()),
                None => return,
            },
            Self::NamelessSubnet => {
                let named = |(place, wished): (usize, &Wished)| {
                    let name = if place == 0 { "" } else { wished.pools.first().map_or("", String::as_str) };
                    (format!("ipv{}", wished.version.number()), json!([name]))
                };
                let mut item: serde_json::Map<String, Value> = wished.iter().enumerate().map(named).collect();
                match asks {
                    Some(key @ names::ANNOTATION_SUBNETS) => {
                        item.insert("interface".to_owned(), json!("eth0"));
                        (key, json!([item]).to_string())
                    }
                    Some(key) => (key, Value::Object(item).to_string()),
                    None => return,
                }
            }
            Self::NoNumber | Self::NoWorkload => return,
        };
        if key == names::ANNOTATION_IPPOOL {
            // That annotation would hide the mistake.
            annotations.remove(names::ANNOTATION_IPPOOLS);
        }
        annotations.insert(key.to_owned(), text);
    }
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::ranges::IpVersion;
    use ipam_spiderpool::select::{IpamConfig, Objects, Request, Settings, select};
    use ipam_spiderpool::{IPPoolSpec, Policy, SpiderIPPool};
    use k8s_openapi::api::core::v1::Pod;

    use super::super::wishes::{PoolWish, annotations};
    use super::*;

    fn wished(stem: &str) -> Vec<Wished> {
        let pools = |version: IpVersion| (0..2).map(|number| format!("{stem}{}-{number}", version.number())).collect();
        [IpVersion::V4, IpVersion::V6].map(|version| Wished { version, pools: pools(version) }).into()
    }

    /// The reason for which a bare pod with these annotations is refused, where all pools exist that it may ask for.
    fn refused(annotations: BTreeMap<String, String>) -> Option<&'static str> {
        let mut objects = Objects::default();
        for Wished { version, pools } in wished("v") {
            let (subnet, ips) = if version == IpVersion::V4 { ("10.0.0.0/24", "10.0.0.1") } else { ("fd00::/120", "fd00::1") };
            for name in pools {
                let ips = Some(vec![ips.to_owned()]);
                let spec = IPPoolSpec { ip_version: Some(version.number()), subnet: subnet.to_owned(), ips, ..IPPoolSpec::default() };
                let mut pool = SpiderIPPool { spec, ..SpiderIPPool::default() };
                pool.metadata.name = Some(name);
                objects.pools.insert(pool);
            }
        }
        let mut pod = Pod::default();
        pod.metadata.annotations = Some(annotations);
        let (cni, policy) = (IpamConfig::default(), Policy::hardened());
        let settings = Settings { enable_ipv4: true, enable_ipv6: true, enable_spider_subnet: true, ..Settings::default() };
        let (pod, settings, policy) = (&pod, &settings, &policy);
        let request = Request { pod, node: "n", nic: "eth0", cni: &cni, master: &[], settings, policy, made: false };
        select(&objects, &request).error.map(|error| error.class())
    }

    fn mistaken(mistake: WishMistake, kind: AppKind, wish: PoolWish) -> BTreeMap<String, String> {
        let wished = wished(if wish == PoolWish::Subnet { "s" } else { "v" });
        let mut annotations = annotations(wish, 1, &wished);
        mistake.make(kind, &mut annotations, &wished);
        annotations
    }

    #[test]
    fn each_mistake_is_refused_as_what_it_is_whatever_else_is_wished_for() {
        for wish in [PoolWish::Ippool, PoolWish::Ippools] {
            assert_eq!(refused(annotations(wish, 1, &wished("v"))), None);
            for (mistake, class) in [
                (WishMistake::CutOff, "malformed-annotation"),
                (WishMistake::NoNic, "empty-ippools"),
                (WishMistake::MixedNames, "mixed-interfaces"),
                (WishMistake::NicTwice, "duplicate-interface"),
                (WishMistake::OtherNic, "interface-not-listed"),
                (WishMistake::BadPattern, "bad-wildcard"),
                (WishMistake::NoMatch, "no-candidate"),
                (WishMistake::NoSuchPool, "missing-pool"),
                (WishMistake::PoolTwice, "duplicate-pool"),
                (WishMistake::CutOffRoutes, "malformed-routes"),
                (WishMistake::BadRoute, "invalid-route"),
            ] {
                assert_eq!(refused(mistaken(mistake, AppKind::Deployment, wish)), Some(class), "{mistake:?} {wish:?}");
            }
            assert_eq!(refused(mistaken(WishMistake::OtherFamily, AppKind::Deployment, wish)), None, "the other pools serve");
        }
    }

    #[test]
    fn who_asks_for_an_auto_pool_makes_mistakes_of_his_own() {
        for (mistake, class) in [
            (WishMistake::CutOff, "malformed-annotation"),
            (WishMistake::NoSubnet, "subnet-invalid"),
            (WishMistake::NamelessSubnet, "subnet-invalid"),
            (WishMistake::BadIpNumber, "subnet-bad-ip-number"),
            (WishMistake::DoubledSign, "subnet-bad-ip-number"),
            (WishMistake::NegativeIpNumber, "subnet-bad-ip-number"),
            (WishMistake::BadReclaim, "subnet-bad-reclaim"),
        ] {
            assert_eq!(refused(mistaken(mistake, AppKind::Deployment, PoolWish::Subnet)), Some(class), "{mistake:?}");
        }
        assert_eq!(refused(mistaken(WishMistake::NoWorkload, AppKind::Pod, PoolWish::Ippool)), Some("subnet-orphan-pod"));
    }

    #[test]
    fn where_it_is_none_a_mistake_changes_nothing() {
        let plain = annotations(PoolWish::Ippool, 1, &wished("v"));
        for mistake in [WishMistake::NoSubnet, WishMistake::NoNumber, WishMistake::NoWorkload] {
            assert_eq!(mistaken(mistake, AppKind::Deployment, PoolWish::Ippool), plain, "{mistake:?}");
        }
    }
}
