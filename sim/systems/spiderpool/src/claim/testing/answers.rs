//! The outcomes of requests for addresses.

use std::sync::Arc;
use std::time::Duration;

use ipam_spiderpool::ipam::NicRoute;

use super::{Addresses, Stage, given};
use crate::workload::{Given, How, IpamNote, Refusal};

impl Stage {
    /// Ends a request for a NIC, 5 ms after its beginning.
    pub(super) fn end(&mut self, pod: &str, uid: &str, nic: &str, result: Result<Arc<[Given]>, Refusal>, how: How) {
        let (pod, uid, container, nic) = (pod.into(), uid.into(), uid.into(), nic.into());
        let took = Duration::from_millis(5);
        self.say(
            self.agent,
            IpamNote::AddEnded { pod, uid, container, nic, result, routes: [].into(), how, conflicts: 0, attempts: 1, took },
        );
    }

    /// Answers the request for `eth0` after a time by the agent's clock.
    pub(in super::super) fn answer_after(&mut self, took: Duration, pod: &str, uid: &str) {
        let (pod, uid, container, nic) = (pod.into(), uid.into(), uid.into(), "eth0".into());
        let result = Ok(given(&[("eth0", "p", "10.0.0.1")]));
        self.say(
            self.agent,
            IpamNote::AddEnded { pod, uid, container, nic, result, routes: [].into(), how: How::Fresh, conflicts: 0, attempts: 1, took },
        );
    }

    /// Answers the request with new addresses.
    pub(in super::super) fn answer(&mut self, pod: &str, uid: &str, nic: &str, addresses: Addresses<'_>) {
        self.end(pod, uid, nic, Ok(given(addresses)), How::Fresh);
    }

    /// Answers the request for `eth0` with an address of `p`, its gateway and routes.
    pub(in super::super) fn answer_routes(&mut self, pod: &str, uid: &str, how: How, gateway: Option<&str>, routes: Arc<[NicRoute]>) {
        let (pod, uid, container, nic) = (pod.into(), uid.into(), uid.into(), "eth0".into());
        let mut given = given(&[("eth0", "p", "10.0.0.1")]).to_vec();
        given[0].gateway = gateway.map(Arc::from);
        let result = Ok(given.into());
        let took = Duration::from_millis(10);
        self.say(self.agent, IpamNote::AddEnded { pod, uid, container, nic, result, routes, how, conflicts: 0, attempts: 1, took });
    }

    /// Answers the request with existing addresses.
    pub(in super::super) fn answer_existing(&mut self, pod: &str, uid: &str, nic: &str, addresses: Addresses<'_>) {
        self.end(pod, uid, nic, Ok(given(addresses)), How::Existing);
    }

    /// Answers the request with the addresses of the pod's predecessor.
    pub(in super::super) fn answer_reowned(&mut self, pod: &str, uid: &str, nic: &str, addresses: Addresses<'_>) {
        self.end(pod, uid, nic, Ok(given(addresses)), How::Reowned);
    }
}
