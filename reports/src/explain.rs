//! The result of `explain`: why a pod gets these pools and these addresses. The JSON form is `ipam-sim/explain/1`.
//!
//! ## Names in it
//!
//! * `tier`: `subnet`, `pod-ippools`, `pod-ippool`, `namespace`, `cni-config`, `cluster-default`, `none`. The documents count
//!   `pod-ippools` and `pod-ippool` as one; [`TierLine::document`] is their number.
//! * `reason` of a pool that cannot serve: `missing`, `terminating`, `disabled`, `ip-version`, `node-name`, `node-affinity`,
//!   `namespace-name`, `namespace-affinity`, `pod-affinity`, `multus-network`, `multus-name`, `master-subnet` (the subnet holds no
//!   address of the NIC's physical function), `excluded`, `reserved`, `exhausted`.
//! * `unavailable` of a pool that passed the rules and has no address all the same: `used-out`, `max-records`, `bad-ranges`,
//!   `bad-records`, `overlap` (another pool has some of the addresses, and this one is not surely the older of the two).
//! * `class` of `error`, where nothing was asked for an address: `dead-pod`, `missing-owner`, `malformed-routes`, `invalid-route`,
//!   `malformed-annotation`, `empty-ippools`, `mixed-interfaces`, `duplicate-interface`, `interface-not-listed`, `bad-wildcard`,
//!   `missing-namespace`, `no-pool`, `no-candidate` (a NIC, or a family that is named only by patterns, is left without any
//!   candidate), `duplicate-pool`, `missing-pool`, `all-filtered`, `subnet-auto-pool-disabled`, `subnet-invalid`,
//!   `subnet-bad-ip-number`, `subnet-bad-reclaim`, `subnet-orphan-pod`, `subnet-needs-fixed-number`, `subnet-no-auto-pool`,
//!   `subnet-many-auto-pools`, `subnet-reconcile-failed`, `host-network` (no CNI plugin is asked), `no-address` (the agent answers without
//!   any address, so that the plugin fails); and those of `allocate_error`.
//! * `class` of `allocate_error`, where selection passed and the agent fails: `exhausted`, `pool-not-found`, `data-broken`,
//!   `terminating-endpoint`, `endpoint-already-exists`, `endpoint-not-found`, `endpoint-conflict`, `pool` and others of the agent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::schema::{self, ExplainSchema, ReadError};

/// The explanation of the pools and addresses that a pod gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainReport {
    /// The mark of the format, always `ipam-sim/explain/1`; reading anything else is an error.
    pub schema: ExplainSchema,
    /// `namespace/name` of the pod.
    pub pod: String,
    /// The node that the pod runs on; empty if it is not known.
    #[serde(default)]
    pub node: String,
    /// The NIC that the ADD is for.
    #[serde(default)]
    pub nic: String,
    /// The form of Spiderpool that was asked about: `hardened` or `upstream`.
    pub profile: String,
    /// The deviations that are on, if they are not exactly those of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviations: Option<Vec<String>>,
    /// The source of the settings; absent for the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<String>,
    /// The tier that fired, also if it failed; `none` when none was reached.
    pub tier: String,
    /// The tiers from the first to the last, and their states. Empty when none was reached.
    #[serde(default)]
    pub tiers: Vec<TierLine>,
    /// Whether the NICs are known by index, because `ippools` names no interfaces.
    #[serde(default)]
    pub nameless: bool,
    /// The NICs that this ADD is to give addresses to.
    pub nics: Vec<NicAnswer>,
    /// The endpoint whose addresses are used again, if any are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<Reuse>,
    /// The auto pools that the pod asks for and that are not there yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub auto_pools: Vec<AutoPoolAnswer>,
    /// The reason why the ADD fails as a whole: no NIC and family gets an address.
    pub error: Option<Refusal>,
    /// The reason why the ADD fails although pools were selected.
    #[serde(default)]
    pub allocate_error: Option<Refusal>,
    /// Further remarks for the reader, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Problems of objects that were looked at, a sentence each; also printed on standard error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl ExplainReport {
    /// Reads the JSON form.
    ///
    /// # Errors
    /// The text is no such record.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        schema::read(text, ExplainSchema::NAME)
    }

    /// The NICs and families one by one.
    pub fn families(&self) -> impl Iterator<Item = (&NicAnswer, &FamilyAnswer)> {
        self.nics.iter().flat_map(|nic| nic.families.iter().map(move |family| (nic, family)))
    }
}

/// The state of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TierState {
    /// It names neither pools nor subnets, and a tier below may be used.
    Absent,
    /// It is present, but a setting disables it.
    Ignored,
    /// It is the tier that is used.
    Fired,
    /// It names pools, but an earlier tier fired: nothing is merged.
    Outranked,
}

/// One tier of the selection of pools, and whether it decided (A §2.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierLine {
    /// Its name, one of those that the module lists: `pod-ippool`.
    pub tier: String,
    /// Its number in the documents, from 1 to 5.
    pub document: u8,
    /// The state of the tier.
    pub state: TierState,
    /// The pools that it names, and why it does or does not count.
    pub why: String,
}

/// A NIC of the pod, with the addresses that this ADD gives it in each family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicAnswer {
    /// Its name; in nameless mode its index.
    pub nic: String,
    /// Whether it gets no default route.
    #[serde(default)]
    pub clean_gateway: bool,
    /// The families that are on and for which pools were named.
    pub families: Vec<FamilyAnswer>,
}

/// A family of a NIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FamilyAnswer {
    /// The family as a number: 4 or 6.
    pub ip_version: u8,
    /// The pools that were named, patterns replaced by what they match.
    pub candidates: Vec<String>,
    /// The pools that cannot serve.
    pub rejected: Vec<Rejected>,
    /// The other pools by rank, equal ones together, in the order in which they are tried.
    pub order: Vec<Vec<String>>,
    /// The addresses that each pool in the order would give to this NIC on the untouched cluster.
    #[serde(default)]
    pub supplies: Vec<PoolSupply>,
    /// The addresses that may come out, if nothing else makes the ADD fail: those of the first rank that can serve, where equal pools are
    /// tried in any order; those that are recorded for the pod, where any of them is taken; else just the address.
    #[serde(default)]
    pub possible: Vec<String>,
    /// The address with the length of its prefix; null when the ADD gives none. Addresses drawn from the same pool by an earlier NIC and
    /// family are gone.
    pub address: Option<String>,
    /// The pool of the address.
    #[serde(default)]
    pub pool: Option<String>,
    /// Whether the pool already holds a record of it for this pod.
    #[serde(default)]
    pub recorded: bool,
    /// Whether the endpoint named by `reuse` had it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub reused: bool,
    /// The gateway of that pool.
    #[serde(default)]
    pub gateway: Option<String>,
    /// The routes that come with the address.
    #[serde(default)]
    pub routes: Vec<RouteAnswer>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// The endpoint whose addresses are used again (A §5.3, §6.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reuse {
    /// The SpiderEndpoint as `namespace/name`.
    pub endpoint: String,
    /// The UID of the pod that had the addresses.
    pub uid: String,
    /// Whether that is the same pod; otherwise it is a predecessor.
    pub own: bool,
}

/// An auto pool that does not exist yet, as it would be made on the present cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoPoolAnswer {
    /// The name that the SpiderIPPool gets, or that of the pool that is taken over.
    pub pool: String,
    /// The application that it is for: `apps/v1 Deployment shop/web`.
    pub application: String,
    /// The subnet from which it is cut.
    pub subnet: String,
    /// The NIC that it serves.
    pub nic: String,
    /// The family of its addresses: 4 or 6.
    pub ip_version: u8,
    /// The process that makes it: `controller`, or `agent` for workloads of kinds that Spiderpool does not know.
    pub maker: String,
    /// The pool of an earlier workload of this name that is taken over, instead of making one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes_over: Option<String>,
    /// The number of addresses that it is to have.
    pub size: u64,
    /// Whether its addresses are drawn at random; `ranges` is empty then.
    pub random: bool,
    /// Its addresses, as `spec.ips` would hold them; empty if they are drawn at random, or if none is planned.
    pub ranges: Vec<String>,
    /// The number of free addresses of the subnet, if it draws at random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<u64>,
    /// The value of `metadata.labels` of the pool that is planned; empty if none is.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The reason why it cannot be made: an error of the plan, or of admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A pool that cannot serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// The name of the SpiderIPPool, which need not exist.
    pub pool: String,
    /// The code of the first rule that it fails.
    pub reason: String,
    /// The list, selector or number that the rule looked at, with its values.
    #[serde(default)]
    pub detail: String,
}

/// The address that a pool would give.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolSupply {
    /// The name of the SpiderIPPool, one of [`FamilyAnswer::order`].
    pub pool: String,
    /// Its rank, from 1.
    pub rank: u32,
    /// The rules that give it its rank, the weightiest first.
    #[serde(default)]
    pub rules: Vec<String>,
    /// The address with the length of its prefix; null if it has none.
    pub address: Option<String>,
    /// Whether that address is recorded for this pod already.
    #[serde(default)]
    pub recorded: bool,
    /// The code of the reason why it has no address.
    #[serde(default)]
    pub unavailable: Option<String>,
    /// The reason in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// A route that the pod gets together with an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteAnswer {
    /// The destination in CIDR notation: `0.0.0.0/0` or `::/0` for all traffic.
    pub dst: String,
    /// The address of the next hop.
    pub gw: String,
    /// The origin of the route.
    pub from: RouteSource,
}

/// The origin of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouteSource {
    /// The gateway of the pool.
    Gateway,
    /// The routes of the pool.
    Pool,
    /// The annotation of the pod.
    Pod,
    /// The endpoint whose address is used again.
    Endpoint,
}

/// The reason why there is no address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The class, one of those above.
    pub class: String,
    /// The error in words for people; programs go by `class`.
    pub message: String,
    /// `FILE:LINE:COLUMN` of the annotation that is wrong, if it is one in a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_the_documented_fields_and_reads_without_later_ones() {
        let text = r#"{"schema":"ipam-sim/explain/1","pod":"ns/name","profile":"hardened","tier":"pod-ippool",
            "nics":[{"nic":"eth0","families":[{"ip_version":4,"candidates":["p1","p2"],"rejected":[{"pool":"p2","reason":"missing"}],
            "order":[["p1"],["p3","p4"]],"address":"10.0.0.1/24"}]}],"error":null}"#;
        let report = ExplainReport::from_json(text).unwrap();
        let (nic, family) = report.families().next().unwrap();
        assert_eq!((nic.nic.as_str(), family.address.as_deref(), family.rejected.len()), ("eth0", Some("10.0.0.1/24"), 1));
        let value = serde_json::to_value(&report).unwrap();
        let documented: serde_json::Value = serde_json::from_str(text).unwrap();
        fn holds(value: &serde_json::Value, documented: &serde_json::Value) -> bool {
            match (value, documented) {
                (serde_json::Value::Object(value), serde_json::Value::Object(documented)) => {
                    documented.iter().all(|(key, inner)| value.get(key).is_some_and(|found| holds(found, inner)))
                }
                (serde_json::Value::Array(value), serde_json::Value::Array(documented)) => {
                    value.len() == documented.len() && value.iter().zip(documented).all(|(value, documented)| holds(value, documented))
                }
                (value, documented) => value == documented,
            }
        }
        assert!(holds(&value, &documented), "{value}");
        assert!(ExplainReport::from_json(&text.replace("explain/1", "run/1")).is_err());
    }
}
