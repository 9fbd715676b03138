//! The Service in front of the processes that serve webhooks.
//!
//! ```text
//!   new connection ──► Service ──► one of its endpoints ──► the process, if it listens; else: connection refused
//! ```
//! An endpoint that stops listening stays in the Service until its probe has noticed, or, if its host is down, until the Node is given up;
//! it comes back with the first probe that succeeds. The workload registers the processes; `Cluster` reports their changes, and asks for an
//! endpoint whenever it dials.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sim_config::draw::Draw;
use sim_config::time::SimTime;

use super::Handler;
use crate::rt::ProcessId;
use crate::trace::ProcessChange;

/// The default interval at which a kubelet probes whether a container is ready.
const PROBE_PERIOD: Duration = Duration::from_secs(10);

/// The default time for which a Service keeps an endpoint that no longer serves: one period of a readiness probe.
pub const UNREADY_AFTER: Duration = PROBE_PERIOD;

/// The time for which a Service keeps an endpoint on a host without power. It is not probed there: it is removed when its Node is found
/// silent, after the grace of the node lifecycle controller (K §6.1).
const LOST_AFTER: Duration = Duration::from_secs(50);

/// Processes that serve the same webhooks.
pub struct Service {
    /// Its name, as in messages.
    name: Arc<str>,
    /// The time for which an endpoint that no longer serves stays; unset = forever, as a single process may be called by its address.
    unready_after: Option<Duration>,
    endpoints: Mutex<Vec<Endpoint>>,
}

/// A process as an endpoint of the Service.
struct Endpoint {
    process: ProcessId,
    /// The handler of its calls; unset while it does not listen.
    handler: Option<Handler>,
    /// The number of times that it has begun to listen.
    life: u32,
    /// The time since which it has not been serving; unset while it serves.
    away_since: Option<SimTime>,
    /// The time of the probe with which it comes back, or came.
    back_at: SimTime,
    /// Whether its host has no power.
    lost: bool,
}

impl Endpoint {
    /// Whether the Service still sends calls to it.
    fn is_ready(&self, now: SimTime, unready_after: Option<Duration>) -> bool {
        let unready_after = unready_after.map(|after| if self.lost { LOST_AFTER } else { after });
        now >= self.back_at && self.away_since.zip(unready_after).is_none_or(|(since, after)| now < since + after)
    }

    /// Marks the endpoint as serving again. If its probe has noticed that it did not serve, the next probe puts it back.
    fn comes_back(&mut self, now: SimTime, unready_after: Option<Duration>) {
        if !self.is_ready(now, unready_after) {
            self.back_at = self.back_at.max(next_probe(now));
        }
        (self.away_since, self.lost) = (None, false);
    }
}

/// The first probe from `now` on.
fn next_probe(now: SimTime) -> SimTime {
    let period = PROBE_PERIOD.as_micros() as u64;
    SimTime::from_micros(now.as_micros().div_ceil(period) * period)
}

impl Service {
    /// A Service without endpoints; each stays for [`UNREADY_AFTER`] when it stops serving.
    pub fn new(name: &str) -> Arc<Self> {
        Arc::new(Self { name: name.into(), unready_after: Some(UNREADY_AFTER), endpoints: Mutex::default() })
    }

    /// A Service of one process that serves whenever it is up, and that is called whether it is up or not.
    pub fn of(process: ProcessId, handler: Handler) -> Arc<Self> {
        let endpoint = Endpoint { process, handler: Some(handler), life: 1, away_since: None, back_at: SimTime::ZERO, lost: false };
        Arc::new(Self { name: "webhook".into(), unready_after: None, endpoints: Mutex::new(vec![endpoint]) })
    }

    /// The name of the Service, which is part of the URLs of its webhooks.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Makes `process` listen from now on. It is an endpoint until it has not been serving for a while; a former endpoint becomes one again
    /// with its next probe. A process that never was one counts as ready: the run begins with replicas that have long existed.
    pub fn serve(&self, process: ProcessId, handler: Handler, now: SimTime) {
        let old = {
            let mut endpoints = self.endpoints.lock();
            let position = endpoints.iter().position(|endpoint| endpoint.process == process);
            match position {
                Some(position) => {
                    endpoints[position].comes_back(now, self.unready_after);
                    endpoints[position].life += 1;
                    endpoints[position].handler.replace(handler)
                }
                None => {
                    endpoints.push(Endpoint {
                        process,
                        handler: Some(handler),
                        life: 1,
                        away_since: None,
                        back_at: SimTime::ZERO,
                        lost: false,
                    });
                    // The choice among endpoints does not depend on the order in which they came up.
                    endpoints.sort_by_key(|endpoint| endpoint.process);
                    None
                }
            }
        };
        // Dropping a handler may drop objects that need the lock.
        drop(old);
    }

    /// Makes `process` stop listening, and closes its connections.
    pub fn stop(&self, process: ProcessId, now: SimTime) {
        let is_only_one = self.unready_after.is_none();
        let handler = self.with(process, |endpoint| {
            if is_only_one {
                endpoint.life += 1;
                return None;
            }
            endpoint.away_since.get_or_insert(now);
            endpoint.handler.take()
        });
        drop(handler);
    }

    /// Notes that the host of `process` has no power any more.
    pub(super) fn host_lost(&self, process: ProcessId) {
        self.with(process, |endpoint| endpoint.lost = true);
    }

    /// Takes in a change of a process.
    pub(crate) fn process_changed(&self, process: ProcessId, change: ProcessChange, now: SimTime) {
        match change {
            ProcessChange::Crashed | ProcessChange::Panicked => self.stop(process, now),
            ProcessChange::Paused => {
                self.with(process, |endpoint| {
                    endpoint.away_since.get_or_insert(now);
                });
            }
            ProcessChange::Resumed => {
                self.with(process, |endpoint| {
                    if endpoint.handler.is_some() {
                        endpoint.comes_back(now, self.unready_after);
                    }
                });
            }
            ProcessChange::Started => {}
        }
    }

    /// Picks one of the endpoints; `None` = there is none left.
    pub(super) fn pick(&self, choices: &mut Draw, now: SimTime) -> Option<ProcessId> {
        let endpoints = self.endpoints.lock();
        let ready = || endpoints.iter().filter(|endpoint| endpoint.is_ready(now, self.unready_after));
        match ready().count() {
            0 => None,
            1 => ready().next().map(|endpoint| endpoint.process),
            several => ready().nth(choices.below(several as u64) as usize).map(|endpoint| endpoint.process),
        }
    }

    /// The life in which `process` listens; `None` = it does not.
    pub(super) fn life(&self, process: ProcessId) -> Option<u32> {
        self.with(process, |endpoint| endpoint.handler.is_some().then_some(endpoint.life)).flatten()
    }

    /// The handler of `process` for a connection that was made in its life `life`; `None` = that life is over.
    pub(super) fn handler(&self, process: ProcessId, life: u32) -> Option<Handler> {
        self.with(process, |endpoint| endpoint.handler.clone().filter(|_| endpoint.life == life)).flatten()
    }

    /// Removes all endpoints. Handlers may hold objects that hold the Service.
    pub(crate) fn clear(&self) {
        let endpoints = std::mem::take(&mut *self.endpoints.lock());
        drop(endpoints);
    }

    fn with<T>(&self, process: ProcessId, act: impl FnOnce(&mut Endpoint) -> T) -> Option<T> {
        self.endpoints.lock().iter_mut().find(|endpoint| endpoint.process == process).map(act)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use sim_config::draw::Concern;

    fn handler() -> Handler {
        Arc::new(|_| Box::pin(std::future::ready(Ok(None))))
    }

    fn seen(service: &Service, now: u64) -> BTreeSet<ProcessId> {
        let mut choices = Draw::new(1, Concern::World, 0);
        (0..50).filter_map(|_| service.pick(&mut choices, SimTime::from_secs(now))).collect()
    }

    #[test]
    fn a_dead_endpoint_is_called_until_its_probe_has_noticed() {
        let [one, two] = [ProcessId(1), ProcessId(2)];
        let service = Service::new("hooks");
        assert!(seen(&service, 0).is_empty());
        service.serve(two, handler(), SimTime::ZERO);
        service.serve(one, handler(), SimTime::ZERO);
        assert_eq!(seen(&service, 1), [one, two].into());
        service.process_changed(one, ProcessChange::Crashed, SimTime::from_secs(5));
        assert!(service.handler(one, 1).is_none() && service.handler(two, 1).is_some());
        assert_eq!(seen(&service, 14), [one, two].into());
        assert_eq!(seen(&service, 15), [two].into());
        service.process_changed(one, ProcessChange::Started, SimTime::from_secs(20));
        assert_eq!(seen(&service, 20), [two].into(), "it starts, and does not listen yet");
        service.serve(one, handler(), SimTime::from_secs(21));
        assert!(service.handler(one, 1).is_none() && service.life(one) == Some(2), "connections of its earlier life are gone");
        assert_eq!(seen(&service, 29), [two].into(), "its probe has not seen yet that it is ready");
        assert_eq!(seen(&service, 30), [one, two].into());
        service.process_changed(one, ProcessChange::Crashed, SimTime::from_secs(31));
        service.serve(one, handler(), SimTime::from_secs(33));
        assert_eq!(seen(&service, 33), [one, two].into(), "nobody noticed");
    }

    #[test]
    fn an_endpoint_without_power_stays_until_its_node_is_given_up() {
        let one = ProcessId(1);
        let service = Service::new("hooks");
        service.serve(one, handler(), SimTime::ZERO);
        service.host_lost(one);
        service.process_changed(one, ProcessChange::Crashed, SimTime::from_secs(1));
        assert_eq!((seen(&service, 50).len(), seen(&service, 51).len()), (1, 0));
        service.serve(one, handler(), SimTime::from_secs(60));
        service.process_changed(one, ProcessChange::Crashed, SimTime::from_secs(70));
        assert_eq!((seen(&service, 79).len(), seen(&service, 80).len()), (1, 0), "its probe notices a crash");
    }

    #[test]
    fn a_paused_endpoint_leaves_and_comes_back() {
        let one = ProcessId(1);
        let service = Service::new("hooks");
        service.serve(one, handler(), SimTime::ZERO);
        service.process_changed(one, ProcessChange::Paused, SimTime::from_secs(1));
        assert_eq!((seen(&service, 10).len(), seen(&service, 11).len()), (1, 0));
        service.process_changed(one, ProcessChange::Resumed, SimTime::from_secs(12));
        assert_eq!((seen(&service, 19).len(), seen(&service, 20).len()), (0, 1));
    }

    #[test]
    fn whoever_is_alone_is_called_even_if_it_is_down() {
        let service = Service::of(ProcessId(3), handler());
        service.process_changed(ProcessId(3), ProcessChange::Crashed, SimTime::ZERO);
        assert_eq!(seen(&service, 100), [ProcessId(3)].into());
        assert!(service.handler(ProcessId(3), 1).is_none(), "its connections broke");
    }
}
