//! Tables of addresses and the pods that have them, as the objects of systems hold them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use kube_sim::trace::entity::{Entity, Touch};

/// The changes between two states of a table, address by address.
pub(crate) fn touches(before: &BTreeMap<IpAddr, String>, after: &BTreeMap<IpAddr, String>) -> Vec<Touch> {
    let addresses: BTreeSet<&IpAddr> = before.keys().chain(after.keys()).collect();
    let changed = addresses.into_iter().filter(|address| before.get(address) != after.get(address));
    let touch = |address: &IpAddr| {
        let (was, is) = (before.get(address), after.get(address));
        let pods = [was, is].into_iter().flatten().map(|pod| Entity::Pod(pod.as_str().into()));
        let record = |pod: Option<&String>| pod.map_or_else(|| "free".to_owned(), |pod| format!("recorded for {pod}"));
        Touch::moved([Entity::ip(*address)].into_iter().chain(pods), address, &record(was), &record(is))
    };
    changed.map(touch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_whose_pod_changed_are_touched() {
        let table = |rows: &[(&str, &str)]| rows.iter().map(|(ip, pod)| (ip.parse().unwrap(), (*pod).to_owned())).collect();
        let before = table(&[("10.0.0.1", "a/x"), ("10.0.0.2", "a/y"), ("10.0.0.3", "a/z")]);
        let after = table(&[("10.0.0.2", "a/y"), ("10.0.0.3", "a/w"), ("10.0.0.4", "a/x")]);
        let touches = touches(&before, &after);
        let says: Vec<&str> = touches.iter().map(|touch| &*touch.says).collect();
        let expected =
            ["10.0.0.1 recorded for a/x -> free", "10.0.0.3 recorded for a/z -> recorded for a/w", "10.0.0.4 free -> recorded for a/x"];
        assert_eq!(says, expected);
        assert_eq!(touches[1].entities.len(), 3);
    }
}
