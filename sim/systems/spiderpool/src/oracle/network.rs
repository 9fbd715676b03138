//! The Multus network that a NIC is attached to (A §3 rule 9).

use ipam_spiderpool::names::{ANNOTATION_MULTUS_DEFAULT_NETWORK, ANNOTATION_MULTUS_NETWORKS};

use super::Asked;
use super::text::items;

/// A network by namespace and name, and the interface that it requests.
type Element = ((String, String), Option<String>);

impl Asked<'_> {
    /// The namespace and the name of the network that a NIC is attached to.
    pub(super) fn network(&self, nic: &str, nameless: bool) -> Option<(String, String)> {
        let position: Option<usize> = if nameless { nic.parse().ok() } else { None };
        let settings = self.request.settings;
        if nic == "eth0" || position == Some(0) {
            let named = self.annotation(ANNOTATION_MULTUS_DEFAULT_NETWORK).filter(|text| !text.is_empty());
            let text = named.or(settings.multus_cluster_network.as_deref()).filter(|text| !text.is_empty())?;
            return elements(text, &settings.agent_namespace)?.into_iter().next().map(|(network, _)| network);
        }
        let text = self.annotation(ANNOTATION_MULTUS_NETWORKS).filter(|text| !text.is_empty())?;
        let elements = elements(text, self.request.pod.metadata.namespace.as_deref().unwrap_or_default())?;
        let is_it = |(at, (_, interface)): &(usize, Element)| match (position, interface) {
            (Some(position), _) => at + 1 == position,
            (None, Some(interface)) => interface == nic,
            (None, None) => nic == format!("net{}", at + 1),
        };
        elements.into_iter().enumerate().find(is_it).map(|(_, (network, _))| network)
    }

    /// The value of an annotation of the pod.
    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.request.pod.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

/// Parses a list of networks, written as JSON or as `namespace/name@interface` separated by commas. `None`: one of them is malformed.
fn elements(text: &str, namespace: &str) -> Option<Vec<Element>> {
    let network = |given: &str, name: &str| (if given.is_empty() { namespace } else { given }.to_owned(), name.to_owned());
    let some = |interface: &str| Some(interface.to_owned()).filter(|interface| !interface.is_empty());
    if text.contains(['[', '{', '"']) {
        let element = |item: super::text::Item| {
            let interface = [item.text("interface"), item.text("interfaceRequest")].into_iter().collect::<Result<Vec<_>, _>>().ok()?;
            let interface = interface.iter().find_map(|interface| some(interface));
            let hardware = ["mac", "infiniband-guid"].map(|key| item.text(key).ok());
            let ips = item.texts("ips").ok()?;
            let fine = hardware.into_iter().all(|text| text.is_some_and(|text| text.is_empty() || is_hardware_address(&text)));
            if !fine || !ips.iter().all(|text| is_address(text)) {
                return None;
            }
            Some((network(&item.text("namespace").ok()?, &item.text("name").ok()?), interface))
        };
        return items(text).ok()?.into_iter().map(element).collect();
    }
    let element = |text: &str| {
        let (rest, interface) = text.trim().split_once('@').unwrap_or((text.trim(), ""));
        let (given, name) = rest.split_once('/').unwrap_or(("", rest));
        let is_label =
            |text: &str| !text.starts_with('-') && !text.ends_with('-') && text.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-'));
        let interface = interface.trim();
        let is_interface =
            interface.len() <= 15 && !interface.contains(|c: char| matches!(c, '@' | '/') || c.is_ascii_whitespace() || c == '\u{b}');
        let fine = is_interface && is_label(given.trim()) && is_label(name.trim());
        fine.then(|| (network(given.trim(), name.trim()), some(interface)))
    };
    text.split(',').map(element).collect()
}

/// Whether a text is a hardware address by Go's `net.ParseMAC`: 6, 8 or 20 bytes, in pairs of digits between colons or dashes, or in fours
/// between dots.
fn is_hardware_address(text: &str) -> bool {
    let Some(separator) = text.chars().find(|c| !c.is_ascii_hexdigit()) else { return false };
    let width = match separator {
        ':' | '-' => 2,
        '.' => 4,
        _ => return false,
    };
    let is_group = |group: &str| group.len() == width && group.chars().all(|c| c.is_ascii_hexdigit());
    text.split(separator).all(is_group) && [12, 16, 40].contains(&(text.split(separator).count() * width))
}

/// Whether a text is an address, with or without a prefix length.
fn is_address(text: &str) -> bool {
    text.parse::<std::net::IpAddr>().is_ok() || text.parse::<ipnet::IpNet>().is_ok()
}
