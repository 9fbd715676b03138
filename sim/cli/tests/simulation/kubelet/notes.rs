//! The notes of kubelets and runtimes compared with the data plane: from the notes it is known which sandbox answers on which address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use kube_machinery::api::DeleteOptions;
use kube_sim::fault::{CniDelLost, FaultKind, SandboxLost, Target};
use kube_sim::node::PodNote;
use kube_sim::trace::record::What;
use kube_sim::trace::recorder::Recorder;
use serde_json::json;
use sim_config::Probability;

use super::{MS, SECOND, Stage};

/// The addresses of each interface.
type Nics = BTreeMap<Arc<str>, Arc<[IpAddr]>>;

/// The state that a listener derives from the notes so far.
#[derive(Default)]
struct Listener {
    /// The interfaces of each existing sandbox, with their addresses.
    sandboxes: BTreeMap<Arc<str>, Nics>,
    asked: BTreeSet<(Arc<str>, Arc<str>)>,
    /// The sandboxes in which containers run.
    running: BTreeSet<Arc<str>>,
    seen: BTreeSet<&'static str>,
}

impl Listener {
    fn hear(&mut self, note: PodNote) {
        let kind = match note {
            PodNote::SandboxStarted { sandbox, .. } => {
                assert!(self.sandboxes.insert(sandbox, BTreeMap::new()).is_none(), "a sandbox starts once");
                "started"
            }
            PodNote::AddAsked { sandbox, nic } => {
                assert!(self.sandboxes.contains_key(&sandbox) && self.asked.insert((sandbox, nic)), "ADD is asked once (K132)");
                "asked"
            }
            PodNote::Attached { sandbox, nic, addresses } => {
                assert!(self.asked.contains(&(sandbox.clone(), nic.clone())));
                self.sandboxes.get_mut(&sandbox).unwrap().insert(nic, addresses);
                "attached"
            }
            PodNote::AddFailed { sandbox, nic, .. } => {
                assert!(self.asked.contains(&(sandbox.clone(), nic.clone())));
                assert!(self.sandboxes.get(&sandbox).is_none_or(|nics| !nics.contains_key(&nic)), "it failed after it had succeeded");
                "failed"
            }
            PodNote::DelAsked { sandbox, nic, netns } => {
                assert_eq!(netns, self.sandboxes.contains_key(&sandbox), "a DEL says whether there is a network namespace");
                if let Some(nics) = self.sandboxes.get_mut(&sandbox) {
                    nics.remove(&nic);
                }
                "del"
            }
            PodNote::DelDone { .. } => "done",
            PodNote::SandboxGone { sandbox } => {
                assert!(self.sandboxes.remove(&sandbox).is_some(), "a sandbox goes once");
                "gone"
            }
            PodNote::PodRunning { sandbox, .. } => {
                assert!(self.sandboxes.contains_key(&sandbox) && self.running.insert(sandbox));
                "running"
            }
            PodNote::PodStopped { sandbox, .. } => {
                assert!(self.running.remove(&sandbox), "what stops has run");
                "stopped"
            }
            PodNote::InterfaceDown { sandbox, nic } => {
                self.sandboxes.get_mut(&sandbox).expect("an interface that goes down is one of a sandbox").remove(&nic);
                "down"
            }
        };
        self.seen.insert(kind);
    }

    fn users(&self, address: IpAddr) -> BTreeSet<Arc<str>> {
        let on = |nics: &Nics| nics.values().any(|addresses| addresses.contains(&address));
        self.sandboxes.iter().filter(|(_, nics)| on(nics)).map(|(sandbox, _)| sandbox.clone()).collect()
    }
}

/// The notes since the last call.
fn notes(stage: &Stage) -> Vec<PodNote> {
    let fresh = Recorder::keeping(true);
    let mut before = stage.bed.cluster.recorder(|recorder| std::mem::replace(recorder, fresh));
    let said = before.take_recording().unwrap_or_default().into_iter().filter_map(|record| match record.what {
        What::Note { note, .. } => note.downcast_ref::<PodNote>().cloned(),
        _ => None,
    });
    said.collect()
}

#[test]
fn whoever_listens_to_the_notes_knows_who_answers_where() {
    for seed in 0..5 {
        Stage::run(seed, async |stage| {
            let mut listener = Listener::default();
            drop(notes(&stage));
            for step in 0..240u32 {
                let two = json!({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "a"}}});
                match step {
                    0..20 => drop(stage.create(&format!("web-{step}"), if step % 3 == 0 { two } else { json!({}) }).await),
                    25 => stage.plugin.mood.lock().adds_fail = 2,
                    30 | 160 => stage.crash(3 * SECOND),
                    60 | 90 => {
                        let lost = SandboxLost { process: Target::from_text("kubelet-0"), nth: step };
                        stage.strike(SECOND, FaultKind::SandboxLost(lost));
                    }
                    120 => stage.power_loss(5 * SECOND),
                    150 => stage.plugin.mood.lock().dels_fail = 3,
                    // Some DELs are lost while others fail, so that sandboxes stay with interfaces that are down.
                    179 => {
                        stage.plugin.mood.lock().dels_fail = 6;
                        let lost = CniDelLost { process: Target::from_text("kubelet-0"), chance: Probability::new(0.5).unwrap() };
                        stage.strike(4 * SECOND, FaultKind::CniDelLost(lost));
                    }
                    180..200 => stage.delete(&format!("web-{}", step - 180), DeleteOptions::default()).await,
                    _ => {}
                }
                stage.bed.wait(211 * MS).await;
                notes(&stage).into_iter().for_each(|note| listener.hear(note));
                for address in (1..=120).map(|last| IpAddr::from([10, 0, 0, last])) {
                    let truth: BTreeSet<Arc<str>> = stage.bed.cluster.nodes.data_plane.sandboxes_on(address).into_iter().collect();
                    assert_eq!(listener.users(address), truth, "seed {seed}, step {step}, {address}");
                }
            }
            stage.bed.wait(60 * SECOND).await;
            notes(&stage).into_iter().for_each(|note| listener.hear(note));
            assert!(listener.sandboxes.is_empty() && listener.running.is_empty(), "seed {seed}: everything has come to its end");
            let all = ["asked", "attached", "del", "done", "down", "failed", "gone", "running", "started", "stopped"];
            assert!(listener.seen.into_iter().eq(all), "seed {seed}");
        });
    }
}
