//! The wishes of pods of one place, by NIC and family: whether a roll-out leaves a pod the addresses of its predecessor.

use ipam_spiderpool::names::{
    ANNOTATION_IPPOOL, ANNOTATION_IPPOOLS, ANNOTATION_MULTUS_DEFAULT_NETWORK, ANNOTATION_MULTUS_NETWORKS, ANNOTATION_SUBNET,
    ANNOTATION_SUBNETS,
};
use ipam_spiderpool::select::FIRST_NIC;
use k8s_openapi::api::core::v1::Pod as PodObject;
use kube_sim::actor::controller_manager::names::POD_NAME_LABEL;
use serde_json::Value;

use super::ledger::Answer;
use super::pods::Pod;
use super::pools::Pool;

/// The wish in a pod's annotations for one NIC and family.
#[derive(Debug, PartialEq)]
enum Wish {
    /// These pools, in this order; patterns are kept as written.
    Pools(Vec<String>),
    /// An auto pool from the subnets in this text.
    Subnet(String),
    /// None: the namespace, the network or the cluster decides.
    Default,
    /// Text that is not specific to NICs, or cannot be parsed: all of it counts.
    Text(String),
}

fn annotation<'p>(pod: &'p PodObject, key: &str) -> Option<&'p str> {
    pod.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// The pools of a family in an element of `ippools`, or in `ippool`.
fn pools_of(item: &Value, v4: bool) -> Vec<String> {
    let list = item.get(if v4 { "ipv4" } else { "ipv6" }).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The wish of a pod for a NIC, or by index for a NIC that has no name yet.
fn wish_of(pod: &PodObject, nic: &str, place: usize, v4: bool) -> Wish {
    if let Some(text) = annotation(pod, ANNOTATION_SUBNETS).or(annotation(pod, ANNOTATION_SUBNET)) {
        return Wish::Subnet(text.to_owned());
    }
    if let Some(text) = annotation(pod, ANNOTATION_IPPOOLS) {
        let items = serde_json::from_str::<Vec<Value>>(text).unwrap_or_default();
        let interface = |item: &Value| item.get("interface").and_then(Value::as_str).unwrap_or_default().to_owned();
        let by_name = || items.iter().find(|item| interface(item) == nic);
        let by_place = || items.get(place).filter(|item| interface(item).is_empty());
        return match if nic.is_empty() { by_place() } else { by_name() } {
            Some(item) => Wish::Pools(pools_of(item, v4)),
            // There is no entry for this index; or NICs without a name are identified by the order in which they came.
            None => Wish::Text(text.to_owned()),
        };
    }
    match annotation(pod, ANNOTATION_IPPOOL).map(|text| (text, serde_json::from_str::<Value>(text))) {
        Some((_, Ok(item))) => Wish::Pools(pools_of(&item, v4)),
        Some((text, Err(_))) => Wish::Text(text.to_owned()),
        None => Wish::Default,
    }
}

/// The annotation for the network of a NIC, which may name its own pools: an element of the list of additional networks, or the whole list
/// where it is not in the plain form.
fn network_of<'p>(pod: &'p PodObject, nic: &str) -> Option<&'p str> {
    if nic == FIRST_NIC {
        return annotation(pod, ANNOTATION_MULTUS_DEFAULT_NETWORK);
    }
    let all = annotation(pod, ANNOTATION_MULTUS_NETWORKS)?;
    // An element may name its interface, which need not match its number.
    let number = nic.strip_prefix("net").and_then(|number| number.parse::<usize>().ok()).filter(|_| !all.contains(['[', '{', '@']));
    match number {
        Some(number) => all.split(',').nth(number.checked_sub(1)?).map(str::trim),
        None => Some(all),
    }
}

/// Whether a pod may lack a NIC, so that it gives up the predecessor's addresses of that NIC (A §6.3). A list that is not in the plain form
/// may leave the NIC out.
fn may_lack(pod: &PodObject, nic: &str) -> bool {
    nic != FIRST_NIC && network_of(pod, nic).is_none_or(|network| network.is_empty() || network.contains(['[', '{', '@']))
}

/// Whether no difference between a pod and its predecessor may lead to another address on this NIC than that of `answer`, which is of
/// `pool`: the pod has the NIC and still names the pool, has labels that the pool selects, and the networks that the pool's rules check.
pub(super) fn wishes_still(pod: &Pod, predecessor: &Pod, answer: &Answer, pool: &Pool) -> bool {
    let Answer { given, place, .. } = answer;
    let (own, others) = (&*pod.object, &*predecessor.object);
    let wishes = [own, others].map(|pod| wish_of(pod, &given.nic, *place, given.address.is_ipv4()));
    let names_it = matches!(&wishes[0], Wish::Pools(pools) if pools.iter().any(|name| **name == *given.pool));
    let asks_networks = may_lack(own, &given.nic)
        || wishes[0] == Wish::Default
        || pool.object.spec.multus_name.as_ref().is_some_and(|names| !names.is_empty());
    // NICs without a name exist only if the pod leaves the names out of `ippools`, and there are no more of them than elements (A §6.3).
    let has_nic = !given.nic.is_empty() || (annotation(own, ANNOTATION_IPPOOLS).is_some() && matches!(wishes[0], Wish::Pools(_)));
    // The comparison makes no sense between a pod that the StatefulSet controller created and one that it did not, as in a dump.
    let is_made = |pod: &PodObject| pod.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(POD_NAME_LABEL));
    has_nic
        && is_made(own) == is_made(others)
        && (names_it || wishes[0] == wishes[1])
        && (!asks_networks || network_of(own, &given.nic) == network_of(others, &given.nic))
        && pool.selects_pod(own)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn pod(annotations: &[(&str, &str)]) -> PodObject {
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        PodObject { metadata: ObjectMeta { annotations: Some(annotations), ..ObjectMeta::default() }, ..PodObject::default() }
    }

    #[test]
    fn each_nic_has_a_network_of_its_own() {
        let joined = |text| pod(&[(ANNOTATION_MULTUS_NETWORKS, text), (ANNOTATION_MULTUS_DEFAULT_NETWORK, "ns/first")]);
        let two = joined("ns/a, ns/b");
        assert_eq!(["eth0", "net1", "net2", "net3"].map(|nic| network_of(&two, nic)), [Some("ns/first"), Some("ns/a"), Some("ns/b"), None]);
        assert_eq!(network_of(&joined("ns/a"), "net1"), network_of(&two, "net1"));
        assert_eq!(network_of(&joined("ns/a@net7,ns/b"), "net1"), Some("ns/a@net7,ns/b"));
        assert_eq!(network_of(&pod(&[]), "net1"), None);
    }

    #[test]
    fn a_pod_has_its_first_nic_and_those_that_its_networks_give_it() {
        let joined = |text| pod(&[(ANNOTATION_MULTUS_NETWORKS, text)]);
        assert_eq!(["eth0", "net1", "net2", "net3"].map(|nic| may_lack(&joined("ns/a, ns/b"), nic)), [false, false, false, true]);
        assert_eq!(["eth0", "net1"].map(|nic| may_lack(&joined(""), nic)), [false, true]);
        assert!(may_lack(&pod(&[]), "net1") && may_lack(&joined("ns/a@net7"), "net1"));
    }

    #[test]
    fn a_wish_is_that_of_one_nic_and_family_in_the_first_tier_that_says_something() {
        let pools = |names: &[&str]| Wish::Pools(names.iter().map(|name| (*name).to_owned()).collect());
        let ippools = r#"[{"interface":"eth0","ipv4":["p4"],"ipv6":["p6"]},{"interface":"net1","ipv4":["q4","r*"]}]"#;
        let all = pod(&[(ANNOTATION_IPPOOLS, ippools), (ANNOTATION_IPPOOL, r#"{"ipv4":["x"]}"#)]);
        assert_eq!(wish_of(&all, "eth0", 0, true), pools(&["p4"]));
        assert_eq!(wish_of(&all, "eth0", 0, false), pools(&["p6"]));
        assert_eq!(wish_of(&all, "net1", 0, true), pools(&["q4", "r*"]));
        assert_eq!(wish_of(&all, "net1", 0, false), pools(&[]));
        let nameless = r#"[{"ipv4":["p4"]}]"#;
        assert_eq!(wish_of(&pod(&[(ANNOTATION_IPPOOLS, nameless)]), "eth0", 0, true), Wish::Text(nameless.to_owned()));
        let two = r#"[{"ipv4":["p4"]},{"ipv4":["q4"]}]"#;
        let of_place = |place| wish_of(&pod(&[(ANNOTATION_IPPOOLS, two)]), "", place, true);
        assert_eq!([0, 1, 2].map(of_place), [pools(&["p4"]), pools(&["q4"]), Wish::Text(two.to_owned())]);
        assert_eq!(wish_of(&all, "", 1, true), Wish::Text(ippools.to_owned()));
        assert_eq!(wish_of(&pod(&[(ANNOTATION_IPPOOL, r#"{"ipv4":["x"]}"#)]), "net3", 0, true), pools(&["x"]));
        assert_eq!(wish_of(&pod(&[(ANNOTATION_IPPOOL, "{")]), "eth0", 0, true), Wish::Text("{".to_owned()));
        assert_eq!(wish_of(&pod(&[(ANNOTATION_SUBNET, "s"), (ANNOTATION_IPPOOL, "{}")]), "eth0", 0, true), Wish::Subnet("s".to_owned()));
        assert_eq!(wish_of(&pod(&[("kubectl.kubernetes.io/restartedAt", "now")]), "eth0", 0, true), Wish::Default);
    }
}
