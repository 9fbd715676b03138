//! The time until which the sandboxes of a pod answered on an address.

use std::net::IpAddr;
use std::sync::Arc;

use kube_machinery::FxHashMap;
use kube_sim::node::PodNote;
use sim_config::time::SimTime;

/// A sandbox that exists.
struct Sandbox {
    uid: Arc<str>,
    nics: Vec<(Arc<str>, Arc<[IpAddr]>)>,
}

/// The interfaces of a pod that answer on one address.
#[derive(Default)]
struct Voice {
    /// The number of interfaces that answer.
    live: u32,
    /// The times at which the last of them stopped answering.
    ended: Vec<SimTime>,
}

/// The state of a pod on an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sound {
    /// It no longer answers, since this time.
    Silent(SimTime),
    /// It answers, having fallen silent this many times before.
    Answers(usize),
}

/// All sandboxes by the notes of kubelets: the ground truth, whatever the API says. A sandbox answers from its attachment until its
/// interface is to be taken down, or it is gone.
#[derive(Default)]
pub(super) struct Silence {
    sandboxes: FxHashMap<Arc<str>, Sandbox>,
    /// By the UID of the pod; few have more than one address.
    voices: FxHashMap<Arc<str>, Vec<(IpAddr, Voice)>>,
}

impl Silence {
    /// Processes a note of a kubelet.
    pub(super) fn note(&mut self, note: &PodNote, at: SimTime) {
        match note {
            PodNote::SandboxStarted { sandbox, uid, .. } => {
                self.sandboxes.insert(sandbox.clone(), Sandbox { uid: uid.clone(), nics: Vec::new() });
            }
            PodNote::Attached { sandbox, nic, addresses } => self.attach(sandbox, nic, addresses, at),
            PodNote::DelAsked { sandbox, nic, .. } | PodNote::InterfaceDown { sandbox, nic } => self.detach(sandbox, Some(nic), at),
            PodNote::SandboxGone { sandbox } => {
                self.detach(sandbox, None, at);
                self.sandboxes.remove(sandbox);
            }
            PodNote::AddAsked { .. }
            | PodNote::AddFailed { .. }
            | PodNote::DelDone { .. }
            | PodNote::PodRunning { .. }
            | PodNote::PodStopped { .. } => {}
        }
    }

    fn attach(&mut self, id: &Arc<str>, nic: &Arc<str>, addresses: &Arc<[IpAddr]>, at: SimTime) {
        self.detach(id, Some(nic), at);
        let Some(sandbox) = self.sandboxes.get_mut(id) else { return };
        sandbox.nics.push((nic.clone(), addresses.clone()));
        let voices = self.voices.entry(sandbox.uid.clone()).or_default();
        for &address in addresses.iter() {
            match voices.iter_mut().find(|(known, _)| *known == address) {
                Some((_, voice)) => voice.live += 1,
                None => voices.push((address, Voice { live: 1, ended: Vec::new() })),
            }
        }
    }

    /// Ends a sandbox's answers on a NIC, or on all of them.
    fn detach(&mut self, id: &str, nic: Option<&str>, at: SimTime) {
        let Some(sandbox) = self.sandboxes.get_mut(id) else { return };
        let Some(voices) = self.voices.get_mut(&sandbox.uid) else { return };
        for (_, addresses) in sandbox.nics.extract_if(.., |(name, _)| nic.is_none_or(|nic| **name == *nic)) {
            for address in addresses.iter() {
                let Some((_, voice)) = voices.iter_mut().find(|(known, _)| known == address) else { continue };
                voice.live -= 1;
                if voice.live == 0 {
                    voice.ended.push(at);
                }
            }
        }
    }

    fn voice(&self, uid: &str, address: IpAddr) -> Option<&Voice> {
        self.voices.get(uid)?.iter().find(|(known, _)| *known == address).map(|(_, voice)| voice)
    }

    /// The state of a pod on an address; `None` = no sandbox of the pod ever answered on it.
    pub(super) fn of(&self, uid: &str, address: IpAddr) -> Option<Sound> {
        let voice = self.voice(uid, address)?;
        Some(voice.ended.last().filter(|_| voice.live == 0).map_or(Sound::Answers(voice.ended.len()), |ended| Sound::Silent(*ended)))
    }

    /// The time at which a pod that [answered](Sound::Answers) fell silent again; `None` = it still answers.
    pub(super) fn after(&self, uid: &str, address: IpAddr, before: usize) -> Option<SimTime> {
        self.voice(uid, address)?.ended.get(before).copied()
    }
}
