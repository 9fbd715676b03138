//! The Multus network that a NIC is attached to (A §3 rule 9, §14.13).

use k8s_openapi::api::core::v1::Pod;

use super::annotation::of_pod;
use super::go_object::Members;
use super::settings::Settings;
use crate::names;

/// The first NIC of a pod.
pub const FIRST_NIC: &str = "eth0";

/// A Multus network, by the namespace and the name of its NetworkAttachmentDefinition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Network {
    /// The network of a NIC, in nameless mode of the NIC with this index; `None` if it cannot be determined.
    pub(super) fn of_nic(pod: &Pod, nic: &str, nameless: bool, settings: &Settings) -> Option<Self> {
        let index = if nameless { nic.parse().ok() } else { None };
        if nic == FIRST_NIC || index == Some(0) {
            let text = of_pod(pod, names::ANNOTATION_MULTUS_DEFAULT_NETWORK).filter(|text| !text.is_empty());
            let text = text.or(settings.multus_cluster_network.as_deref().filter(|text| !text.is_empty()))?;
            return Some(elements(text, &settings.agent_namespace)?.into_iter().next()?.network);
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let elements = elements(of_pod(pod, names::ANNOTATION_MULTUS_NETWORKS).filter(|text| !text.is_empty())?, namespace)?;
        let found = elements.into_iter().zip(1..).find(|(element, position)| match (index, &element.interface) {
            (Some(index), _) => *position == index,
            (None, Some(interface)) => interface == nic,
            (None, None) => nic.strip_prefix("net") == Some(&position.to_string()),
        });
        Some(found?.0.network)
    }
}

/// The interfaces of a pod in the order in which Multus sets them up: the first one, then one for each element of the networks annotation,
/// `net1`, `net2` and so on by position unless the element names its interface (A §2.4). `None` = the annotation cannot be parsed: the pod
/// gets no network at all.
pub fn nics(pod: &Pod) -> Option<Vec<String>> {
    let mut nics = vec![FIRST_NIC.to_owned()];
    if let Some(text) = of_pod(pod, names::ANNOTATION_MULTUS_NETWORKS).filter(|text| !text.is_empty()) {
        let elements = elements(text, pod.metadata.namespace.as_deref().unwrap_or_default())?;
        nics.extend(elements.into_iter().zip(1..).map(|(element, position)| element.interface.unwrap_or_else(|| format!("net{position}"))));
    }
    Some(nics)
}

/// `namespace/name` of the Multus network that a NIC is attached to, in nameless mode the NIC with this index; `None` if it cannot be
/// determined.
pub fn network_of_nic(pod: &Pod, nic: &str, nameless: bool, settings: &Settings) -> Option<String> {
    Network::of_nic(pod, nic, nameless, settings).map(|network| format!("{}/{}", network.namespace, network.name))
}

/// One element of a list of networks.
struct Element {
    network: Network,
    interface: Option<String>,
}

/// Parses a list of networks; one bad element makes the whole list invalid.
fn elements(text: &str, default_namespace: &str) -> Option<Vec<Element>> {
    let in_default = |namespace: &str| if namespace.is_empty() { default_namespace } else { namespace }.to_owned();
    if text.contains(['[', '{', '"']) {
        let objects: Option<Vec<Option<Members>>> = serde_json::from_str(text).ok()?;
        return objects.unwrap_or_default().into_iter().map(|object| read_object(object?, in_default)).collect();
    }
    let read = |item: &str| {
        let (namespace, rest) = match item.trim().split('/').collect::<Vec<_>>()[..] {
            [name] => ("", name),
            [namespace, name] => (namespace.trim(), name),
            _ => return None,
        };
        let (name, interface) = match rest.split('@').collect::<Vec<_>>()[..] {
            [name] => (name.trim(), ""),
            [name, interface] => (name.trim(), interface.trim()),
            _ => return None,
        };
        let fine = [namespace, name].into_iter().all(|unit| unit.is_empty() || is_dns_label(unit)) && is_interface(interface);
        let network = Network { namespace: in_default(namespace), name: name.to_owned() };
        fine.then(|| Element { network, interface: Some(interface.to_owned()).filter(|interface| !interface.is_empty()) })
    };
    text.split(',').map(read).collect()
}

/// Parses an element written as an object, if its addresses are valid.
fn read_object(mut members: Members, in_default: impl Fn(&str) -> String) -> Option<Element> {
    let ips = members.texts("ips").ok()?;
    let text = |key| members.text(key).ok();
    let is_ip = |text: &String| {
        if text.contains('/') { text.parse::<ipnet::IpNet>().is_ok() } else { text.parse::<std::net::IpAddr>().is_ok() }
    };
    let is_fine = |mac: String| mac.is_empty() || is_mac(&mac);
    if !(is_fine(text("mac")?) && is_fine(text("infiniband-guid")?) && ips.iter().all(is_ip)) {
        return None;
    }
    // The second key is that of old versions of Multus.
    let interface = [text("interface")?, text("interfaceRequest")?].into_iter().find(|interface| !interface.is_empty());
    Some(Element { network: Network { namespace: in_default(&text("namespace")?), name: text("name")? }, interface })
}

/// Whether a text is six, eight or twenty bytes in hexadecimal, with one separator throughout.
fn is_mac(text: &str) -> bool {
    let bytes = |separator: char, digits: usize| {
        let groups: Vec<_> = text.split(separator).collect();
        let fine = groups.iter().all(|group| group.len() == digits && group.bytes().all(|byte| byte.is_ascii_hexdigit()));
        fine && [6, 8, 20].contains(&(groups.len() * digits / 2))
    };
    bytes(':', 2) || bytes('-', 2) || bytes('.', 4)
}

/// Whether a text is empty or a valid interface name for the kernel.
fn is_interface(text: &str) -> bool {
    text.len() <= 15 && !text.contains([' ', '\t', '\n', '\u{b}', '\u{c}', '\r', '/'])
}

/// Whether a text consists of one or more lower-case letters, digits and dashes, without a dash at either end.
fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-') && !text.is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn network(default: Option<&str>, networks: Option<&str>, nic: &str, nameless: bool) -> Option<String> {
        let mut annotations = serde_json::Map::new();
        annotations.extend(default.map(|text| (names::ANNOTATION_MULTUS_DEFAULT_NETWORK.to_owned(), json!(text))));
        annotations.extend(networks.map(|text| (names::ANNOTATION_MULTUS_NETWORKS.to_owned(), json!(text))));
        let pod = serde_json::from_value(json!({"metadata": {"namespace": "team-a", "annotations": annotations}})).unwrap();
        let settings = Settings { multus_cluster_network: Some("conf".to_owned()), ..Settings::default() };
        network_of_nic(&pod, nic, nameless, &settings)
    }

    #[test]
    fn the_first_nic_has_the_default_network_or_that_of_the_cluster() {
        for (default, expected) in [
            (None, Some("kube-system/conf")),
            (Some(""), Some("kube-system/conf")),
            (Some("macvlan-a, other"), Some("kube-system/macvlan-a")),
            (Some("x/macvlan-a@eth0"), Some("x/macvlan-a")),
            (Some(r#"[{"Name":"a","namespace":"n"}]"#), Some("n/a")),
            (Some(" "), Some("kube-system/")),
            (Some("[]"), None),
            (Some("[{"), None),
            (Some("null"), Some("kube-system/null")),
            (Some("a/b/c"), None),
            (Some("-x"), None),
            (Some("macvlan-a,Bad_Name"), None),
            (Some("macvlan-a@this-is-too-long-name"), None),
            (Some("macvlan-a@my_iface_15-abc"), Some("kube-system/macvlan-a")),
            (Some("macvlan-a@bad iface"), None),
            (Some("macvlan-a@x@y"), None),
            (Some(r#"[{"name":"a","infiniband-guid":"zz"}]"#), None),
            (Some(r#"[{"name":"a","infiniband-guid":"02:00:00:00:00:00:00:01"}]"#), Some("kube-system/a")),
            (Some(r#"[{"name":"a","ips":["nope"]}]"#), None),
            (Some(r#"[{"name":"a","ips":["10.0.0.1","10.0.0.0/8"],"mac":"02:00:00:00:00:01"}]"#), Some("kube-system/a")),
            (Some(r#"[{"name":"a","mac":"zz"}]"#), None),
        ] {
            assert_eq!(network(default, None, "eth0", false).as_deref(), expected, "{default:?}");
            assert_eq!(network(default, None, "0", true).as_deref(), expected, "{default:?}");
        }
    }

    #[test]
    fn a_pod_has_the_first_nic_and_one_for_each_network() {
        for (networks, expected) in [
            (None, Some("eth0")),
            (Some(""), Some("eth0")),
            (Some("a"), Some("eth0 net1")),
            (Some("a, n/b@x0 ,c"), Some("eth0 net1 x0 net3")),
            (Some(r#"[{"name":"a"},{"name":"b","interface":"x0"}]"#), Some("eth0 net1 x0")),
            (Some("a/b/c"), None),
            (Some("[{"), None),
        ] {
            let annotations = networks.map(|text| json!({names::ANNOTATION_MULTUS_NETWORKS: text}));
            let pod = serde_json::from_value(json!({"metadata": {"namespace": "team-a", "annotations": annotations}})).unwrap();
            assert_eq!(nics(&pod).map(|nics| nics.join(" ")).as_deref(), expected, "{networks:?}");
        }
    }

    #[test]
    fn further_nics_are_found_by_interface_or_position() {
        for (networks, nic, nameless, expected) in [
            (None, "net1", false, None),
            (Some("a,b"), "net1", false, Some("team-a/a")),
            (Some("a, n/b"), "net2", false, Some("n/b")),
            (Some("a,b"), "net3", false, None),
            (Some("a@eth1,b"), "net1", false, None),
            (Some("a@eth1,b"), "net2", false, Some("team-a/b")),
            (Some("a@eth1,b"), "eth1", false, Some("team-a/a")),
            (Some("a@eth1,b"), "1", true, Some("team-a/a")),
            (Some("a@eth1,b"), "2", true, Some("team-a/b")),
            (Some("a,b"), "1", false, None),
            (Some(r#"[{"name":"a","interfaceRequest":"x0"}]"#), "x0", false, Some("team-a/a")),
        ] {
            assert_eq!(network(None, networks, nic, nameless).as_deref(), expected, "{networks:?} {nic}");
        }
    }
}
