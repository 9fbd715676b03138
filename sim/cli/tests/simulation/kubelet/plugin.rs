//! A plugin that records its calls, checks the guarantees of the runtime, and behaves as a test requires.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_sim::node::{Attachment, Cni, CniError};
use kube_sim::rt::Rt;
use parking_lot::Mutex;
use sim_config::time::SimTime;

use super::MS;

/// A call, with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub at: SimTime,
    pub add: bool,
    pub attachment: Attachment,
    /// The time of the answer; `None` = the plugin was killed, or the call is in progress.
    pub answered: Option<SimTime>,
}

/// The behaviour that a test requires.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mood {
    pub add_takes: Duration,
    /// The number of ADDs that fail next.
    pub adds_fail: u32,
    pub dels_fail: u32,
}

#[derive(Default)]
struct Past {
    calls: Vec<Call>,
    added: BTreeSet<(Arc<str>, Arc<str>)>,
    /// Containers with a call in progress.
    busy: BTreeSet<Arc<str>>,
    addresses: u8,
}

pub(crate) struct Plugin {
    rt: Rt,
    past: Mutex<Past>,
    pub mood: Mutex<Mood>,
}

/// The process of a plugin; it dies when it is dropped.
struct Running<'a> {
    plugin: &'a Plugin,
    number: usize,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut past = self.plugin.past.lock();
        let container = past.calls[self.number].attachment.container.clone();
        past.busy.remove(&container);
    }
}

impl Plugin {
    pub(crate) fn new(rt: &Rt) -> Arc<Self> {
        let mood = Mood { add_takes: 80 * MS, adds_fail: 0, dels_fail: 0 };
        Arc::new(Self { rt: rt.clone(), past: Mutex::default(), mood: Mutex::new(mood) })
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.past.lock().calls.clone()
    }

    /// Its calls as text: `ADD eth0`, `DEL eth0`, and `DEL eth0 without netns`; containers as `#0`, `#1` in the order of their first call.
    pub(crate) fn story(&self) -> Vec<String> {
        let mut containers: Vec<Arc<str>> = Vec::new();
        let mut told = Vec::new();
        for Call { add, attachment, .. } in self.calls() {
            let position = containers.iter().position(|known| *known == attachment.container).unwrap_or(containers.len());
            if position == containers.len() {
                containers.push(attachment.container.clone());
            }
            let (verb, netns) = (if add { "ADD" } else { "DEL" }, if attachment.netns { "" } else { " without netns" });
            told.push(format!("{verb} {} #{position}{netns}", attachment.nic));
        }
        told
    }

    /// The containers for which ADD was called and no DEL has succeeded since.
    #[allow(dead_code, reason = "not every test looks at what is left")]
    pub(crate) fn left(&self) -> BTreeSet<Arc<str>> {
        let mut left = BTreeSet::new();
        for Call { add, attachment, answered, .. } in self.calls() {
            if add {
                left.insert(attachment.container);
            } else if answered.is_some() {
                left.remove(&attachment.container);
            }
        }
        left
    }

    fn begin(&self, add: bool, attachment: &Attachment) -> Running<'_> {
        let mut past = self.past.lock();
        let Attachment { container, nic, .. } = attachment;
        assert!(past.busy.insert(container.clone()), "two calls for container {container} at the same time");
        let again = add && !past.added.insert((container.clone(), nic.clone()));
        assert!(!again, "ADD is repeated for {nic} of {container} (K132)");
        past.calls.push(Call { at: self.rt.now(), add, attachment: attachment.clone(), answered: None });
        Running { plugin: self, number: past.calls.len() - 1 }
    }
}

impl Cni for Plugin {
    async fn add(&self, attachment: Attachment) -> Result<Vec<IpAddr>, CniError> {
        let running = self.begin(true, &attachment);
        let takes = self.mood.lock().add_takes;
        self.rt.sleep(takes).await;
        let mut past = self.past.lock();
        let mut mood = self.mood.lock();
        past.calls[running.number].answered = Some(self.rt.now());
        if mood.adds_fail > 0 {
            mood.adds_fail -= 1;
            return Err(CniError::Refused("no address is left".into()));
        }
        past.addresses += 1;
        let address = IpAddr::from([10, 0, 0, past.addresses]);
        drop((past, mood));
        Ok(vec![address])
    }

    fn nics(&self, pod: &Pod) -> Option<Vec<String>> {
        ipam_spiderpool::select::nics(pod)
    }

    async fn del(&self, attachment: Attachment) -> Result<(), CniError> {
        let running = self.begin(false, &attachment);
        self.rt.sleep(50 * MS).await;
        let mut mood = self.mood.lock();
        if mood.dels_fail > 0 {
            mood.dels_fail -= 1;
            return Err(CniError::Refused("the agent does not answer".into()));
        }
        self.past.lock().calls[running.number].answered = Some(self.rt.now());
        Ok(())
    }
}
