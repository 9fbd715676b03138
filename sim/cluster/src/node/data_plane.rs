//! The data plane: which live sandbox answers on which address, and who else does. The ground truth of every claim about addresses in use.
//!
//! It survives the crash of a kubelet or an agent and every partition, and dies with the host (K §6.4, K137).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// Who answers on which address.
#[derive(Debug, Default)]
pub struct DataPlane {
    users: Mutex<BTreeMap<IpAddr, Users>>,
}

#[derive(Debug, Default)]
struct Users {
    sandboxes: Vec<Arc<str>>,
    /// How many hosts outside the cluster.
    external: u32,
}

impl DataPlane {
    /// Whether anybody answers on `address`, a sandbox of this ID aside: what a conflict probe finds (A §5.1 P6).
    pub fn answers(&self, address: IpAddr, except: Option<&str>) -> bool {
        let other = |sandbox: &Arc<str>| Some(&**sandbox) != except;
        self.users.lock().get(&address).is_some_and(|users| users.external > 0 || users.sandboxes.iter().any(other))
    }

    /// The sandboxes that answer on `address`, in the order in which they began to.
    pub fn sandboxes_on(&self, address: IpAddr) -> Vec<Arc<str>> {
        self.users.lock().get(&address).map_or_else(Vec::new, |users| users.sandboxes.clone())
    }

    /// A sandbox answers on `address` from now on.
    pub(super) fn attach(&self, address: IpAddr, sandbox: &Arc<str>) {
        self.users.lock().entry(address).or_default().sandboxes.push(sandbox.clone());
    }

    /// A sandbox does not answer on `address` any more.
    pub(super) fn detach(&self, address: IpAddr, sandbox: &str) {
        self.change(address, |users| users.sandboxes.retain(|known| &**known != sandbox));
    }

    /// A host outside the cluster begins to use `address`.
    pub fn add_external(&self, address: IpAddr) {
        self.users.lock().entry(address).or_default().external += 1;
    }

    /// A host outside the cluster stops using `address`.
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
