//! The data plane: the live sandboxes and other hosts that answer on each address. The ground truth of every claim about addresses in use.
//!
//! It survives the crash of a kubelet or an agent and every partition, and is lost with the host (K §6.4, K137).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// The sandboxes and hosts that answer on each address.
#[derive(Debug, Default)]
pub struct DataPlane {
    users: Mutex<BTreeMap<IpAddr, Users>>,
}

#[derive(Debug, Default)]
struct Users {
    sandboxes: Vec<Arc<str>>,
    /// The number of hosts outside the cluster.
    external: u32,
}

impl DataPlane {
    /// Whether anything but the sandbox of this ID answers on `address`: the result of a conflict probe (A §5.1 P6).
    pub fn answers(&self, address: IpAddr, except: Option<&str>) -> bool {
        let other = |sandbox: &Arc<str>| Some(&**sandbox) != except;
        self.users.lock().get(&address).is_some_and(|users| users.external > 0 || users.sandboxes.iter().any(other))
    }

    /// The sandboxes that answer on `address`, in the order in which they began to.
    pub fn sandboxes_on(&self, address: IpAddr) -> Vec<Arc<str>> {
        self.users.lock().get(&address).map_or_else(Vec::new, |users| users.sandboxes.clone())
    }

    /// Makes a sandbox answer on `address` from now on.
    pub(super) fn attach(&self, address: IpAddr, sandbox: &Arc<str>) {
        self.users.lock().entry(address).or_default().sandboxes.push(sandbox.clone());
    }

    /// Stops a sandbox from answering on `address`.
    pub(super) fn detach(&self, address: IpAddr, sandbox: &str) {
        self.change(address, |users| users.sandboxes.retain(|known| &**known != sandbox));
    }

    /// Adds a host outside the cluster that uses `address`.
    pub fn add_external(&self, address: IpAddr) {
        self.users.lock().entry(address).or_default().external += 1;
    }

    /// Removes a host outside the cluster that uses `address`.
    pub fn remove_external(&self, address: IpAddr) {
        self.change(address, |users| users.external = users.external.saturating_sub(1));
    }

    fn change(&self, address: IpAddr, change: impl FnOnce(&mut Users)) {
        let mut all = self.users.lock();
        let Some(users) = all.get_mut(&address) else { return };
        change(users);
        if users.sandboxes.is_empty() && users.external == 0 {
            all.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_hears_everybody_but_the_one_who_probes() {
        let (plane, address) = (DataPlane::default(), IpAddr::from([10, 0, 0, 1]));
        assert!(!plane.answers(address, None));
        plane.attach(address, &"a".into());
        assert!(plane.answers(address, None) && !plane.answers(address, Some("a")) && plane.answers(address, Some("b")));
        plane.attach(address, &"b".into());
        assert!(plane.answers(address, Some("a")));
        assert_eq!(plane.sandboxes_on(address), ["a".into(), "b".into()]);
        plane.detach(address, "b");
        assert!(!plane.answers(address, Some("a")));
        plane.add_external(address);
        assert!(plane.answers(address, Some("a")), "a host outside is never the one who probes");
        plane.remove_external(address);
        plane.detach(address, "a");
        assert!(!plane.answers(address, None) && plane.users.lock().is_empty());
    }
}
