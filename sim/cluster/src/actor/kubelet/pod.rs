//! The work on one pod UID, from its first sight to its end (K §5.1, §5.2, §5.4, §5.8). Work on one UID is serial; two UIDs of one name are
//! handled concurrently (K §5.6).
//!
//! ```text
//!   seen ─► admitted ─► sandbox ─► network ─► containers run ──exit──► (again, in the same sandbox)
//!              │           ▲          │ fails, back-off      │ sandbox dies: DEL, and a new one
//!              │           └──────────┴──────────────────────┘
//!              ▼ refused                                     ▼ deleted, gone, over
//!           Failed               containers stop ─► DEL of every sandbox ─► terminal status ─► final DELETE
//! ```
//! After a crash, the state on the disk of the node decides where the work goes on.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_machinery::race::{Either, race};
use kube_machinery::{Env, ObjectKey};
use parking_lot::Mutex;
use sim_config::time::SimTime;

use super::Kubelet;
use super::config::Behaviour;
use super::mail::Mail;
use super::status::Report;
use crate::actor::object_tasks::Task;
use crate::node::PodNote;
use crate::node::{Cni, CniError, GC_EVERY, Sandbox, SandboxNumber, SandboxState};

/// The time that the kubelet waits for RunPodSandbox (K §5.1).
const SANDBOX_LIMIT: Duration = Duration::from_secs(240);
/// The first wait before containers that ended start again, and the longest (K §5.8).
const CRASH_LOOP: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(300)];
/// The time left to the containers if a preStop hook has used up the grace period (K §5.2).
const GRACE_MIN: Duration = Duration::from_secs(2);
/// The grace period of pods that are not in the API (K §5.5).
const ORPHAN_GRACE: Duration = Duration::from_secs(1);

/// The reason why a pod stops.
enum End {
    /// The pod is deleted, gone, or another client has set a terminal phase.
    Doomed,
    /// Its containers ended and do not start again.
    Exited {
        /// Whether they ended with an error: the phase is then Failed, else Succeeded.
        failed: bool,
    },
    /// The node refuses it, for this reason.
    Refused(&'static str),
}

/// An ADD that goes on although its sandbox was given up.
type Straggler = Arc<Mutex<Option<Task<()>>>>;

/// The work on one pod UID.
pub(super) struct Job<C: Cni> {
    kubelet: Arc<Kubelet<C>>,
    mail: Arc<Mail>,
    uid: Arc<str>,
    /// Its sandboxes that are not given up.
    sandboxes: Vec<SandboxNumber>,
    stragglers: Vec<(SandboxNumber, Straggler)>,
    behaviour: Behaviour,
    /// Whether it counts among the pods of the node.
    admitted: bool,
    /// The number of times that its containers have started again.
    restarts: u32,
    /// The pod from the last answer of the API.
    stored: Option<Arc<Pod>>,
}

impl<C: Cni> Job<C> {
    /// Work on a pod. `sandboxes`: those that an earlier life of the kubelet left.
    pub(super) fn new(kubelet: &Arc<Kubelet<C>>, uid: &Arc<str>, mail: &Arc<Mail>, sandboxes: Vec<SandboxNumber>) -> Self {
        let behaviour = mail.pod().map_or_else(Behaviour::default, |pod| (kubelet.config.behave)(&pod));
        Self {
            kubelet: kubelet.clone(),
            mail: mail.clone(),
            uid: uid.clone(),
            sandboxes,
            stragglers: Vec::new(),
            behaviour,
            admitted: false,
            restarts: 0,
            stored: None,
        }
    }

    /// Does all the work. Returns the UID.
    pub(super) async fn work(mut self) -> Option<Arc<str>> {
        if !self.sandboxes.is_empty() {
            self.admit();
        }
        let before = self.kubelet.runtime.ended(&self.uid);
        let end = if let Some(failed) = before { End::Exited { failed } } else { self.keep_up().await };
        let stopped = self.stop_containers().await;
        self.stop_sandboxes().await;
        if std::mem::take(&mut self.admitted) {
            self.kubelet.count_pods(|pods| pods - 1);
        }
        let report = match end {
            End::Refused(reason) => Report::Terminal { failed: true, reason: Some(reason) },
            End::Exited { failed } => Report::Terminal { failed, reason: None },
            End::Doomed => Report::Terminal { failed: stopped != Some(true), reason: None },
        };
        let (kubelet, mail) = (&self.kubelet, &self.mail);
        kubelet.report(mail, &mut self.stored, &report).await;
        mail.deleted().await;
        // Not earlier: a stale API server may show a kubelet that has just started a pod that is not over.
        if matches!(end, End::Exited { .. }) {
            kubelet.runtime.forget_ended(&self.uid);
        }
        if !mail.is_gone() {
            kubelet.pause(kubelet.samplers.delete).await;
            kubelet.delete(mail).await;
        }
        Some(self.uid)
    }

    fn admit(&mut self) {
        self.admitted = true;
        self.kubelet.count_pods(|pods| pods + 1);
    }

    /// Keeps the pod running, until there is a reason to stop.
    async fn keep_up(&mut self) -> End {
        loop {
            let Some(pod) = self.mail.pod().filter(|_| !self.mail.is_doomed()) else { return End::Doomed };
            let ready = self.sandboxes.iter().copied().find(|&number| self.state(number) == Some(SandboxState::Ready));
            // Sandboxes that died, or that an earlier life left half-made, are stopped first (K §5.4).
            let over = self.sandboxes.iter().copied().find(|&number| Some(number) != ready);
            let went_well = if let Some(over) = over {
                let gone = self.kubelet.stop_sandbox(over).await;
                self.sandboxes.retain(|&number| number != over || !gone);
                gone
            } else if let Some(ready) = ready {
                if self.run(ready, &pod).await {
                    let failed = self.behaviour.fails;
                    self.kubelet.runtime.set_ended(&self.uid, failed);
                    return End::Exited { failed };
                }
                true
            } else {
                if !self.admitted {
                    if let Some(reason) = self.behaviour.refused.or_else(|| self.kubelet.is_full().then_some("OutOfpods")) {
                        return End::Refused(reason);
                    }
                    self.admit();
                }
                self.create(&pod).await
            };
            if !went_well {
                let _ = race(self.mail.doomed(), self.kubelet.back_off()).await;
            }
        }
    }

    fn state(&self, number: SandboxNumber) -> Option<SandboxState> {
        self.kubelet.runtime.with(number, |sandbox| sandbox.state)
    }

    /// Creates a sandbox with its network. Returns whether the pod has one, or has to stop.
    async fn create(&mut self, pod: &Pod) -> bool {
        let kubelet = self.kubelet.clone();
        let (rt, runtime, mail) = (&kubelet.cluster.rt, &kubelet.runtime, self.mail.clone());
        let on_host = pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true);
        // Nothing waits for the status; if it is not written in time, it is dropped.
        let reported = async {
            if !on_host {
                kubelet.report(&mail, &mut self.stored, &Report::Detached).await;
            }
            std::future::pending::<()>().await;
        };
        if let Either::Left(()) = race(mail.doomed(), race(kubelet.make_sandbox(), reported)).await {
            return true;
        }
        let annotated = pod.metadata.annotations.is_some();
        let nics: Arc<[Arc<str>]> = match (on_host, annotated) {
            (true, _) => Arc::default(),
            (false, false) => kubelet.one_nic.clone(),
            (false, true) => match kubelet.cni.nics(pod) {
                Some(nics) => nics.into_iter().map(Arc::from).collect(),
                // Multus fails before it calls any plugin.
                None => return false,
            },
        };
        let id = format!("{:016x}", kubelet.env.random()).into();
        let number = runtime.insert(&kubelet.cluster, Sandbox::new(id, ObjectKey::of(pod), self.uid.clone(), nics));
        self.sandboxes.push(number);
        let mut attach: Task<Result<(), CniError>> = Box::pin(kubelet.clone().attach(number));
        let unwanted = async {
            if !kubelet.config.cancels_adds {
                std::future::pending::<()>().await;
            }
            self.mail.doomed().await;
        };
        match race(unwanted, race(&mut attach, rt.sleep(SANDBOX_LIMIT))).await {
            // Dropping it kills the plugin.
            Either::Left(()) | Either::Right(Either::Left(Ok(()))) => true,
            Either::Right(Either::Left(Err(_))) => {
                // Without the result of an ADD the sandbox is gone, whatever DEL returns.
                kubelet.stop_sandbox(number).await;
                self.sandboxes.retain(|&known| known != number);
                false
            }
            Either::Right(Either::Right(())) => {
                self.give_up(number, attach);
                false
            }
        }
    }

    /// Gives up a sandbox that took too long: its ADD goes on, and its result is cleaned up (K §5.1).
    fn give_up(&mut self, number: SandboxNumber, attach: Task<Result<(), CniError>>) {
        self.kubelet.runtime.with(number, |sandbox| sandbox.state = SandboxState::Late);
        self.sandboxes.retain(|&known| known != number);
        let kubelet = self.kubelet.clone();
        let rest: Task<()> = Box::pin(async move {
            let _ = attach.await;
            while !kubelet.stop_sandbox(number).await {
                kubelet.cluster.rt.sleep(GC_EVERY).await;
            }
        });
        let straggler: Straggler = Arc::new(Mutex::new(Some(rest)));
        self.stragglers.push((number, straggler.clone()));
        self.kubelet.spawner.begin(async move {
            std::future::poll_fn(|cx| match &mut *straggler.lock() {
                Some(rest) => rest.as_mut().poll(cx),
                None => std::task::Poll::Ready(()),
            })
            .await;
            // A finished task is dropped, and with it its handles on the kubelet.
            straggler.lock().take();
            None
        });
    }

    /// Runs the containers in a ready sandbox. Returns whether they ended and do not start again; otherwise the pod is doomed or its
    /// sandbox dead.
    async fn run(&mut self, number: SandboxNumber, pod: &Pod) -> bool {
        let kubelet = self.kubelet.clone();
        let (rt, runtime, mail) = (&kubelet.cluster.rt, &kubelet.runtime, self.mail.clone());
        let mut wait = kubelet.draw(kubelet.samplers.start);
        loop {
            if runtime.with(number, |sandbox| sandbox.started) == Some(false) {
                if let Either::Left(()) = race(mail.upset(), rt.sleep(wait)).await {
                    return false;
                }
                let exits_at = self.behaviour.runs_for.map_or(SimTime::NEVER, |lasts| rt.now() + lasts);
                runtime.with(number, |sandbox| (sandbox.started, sandbox.exits_at) = (true, exits_at));
                self.say_running(number);
            }
            let Some(sandbox) = runtime.get(number) else { return false };
            let on_host = sandbox.nics.is_empty();
            let addresses = if on_host { vec![kubelet.config.host_ip] } else { sandbox.ips().collect() };
            let reported = async {
                kubelet.report(&mail, &mut self.stored, &Report::Running(addresses)).await;
                std::future::pending::<()>().await;
            };
            if let Either::Left(()) = race(mail.upset(), race(rt.sleep_until(sandbox.exits_at), reported)).await {
                return false;
            }
            runtime.with(number, |sandbox| sandbox.started = false);
            self.say_stopped(number);
            let policy = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always");
            if !(policy == "Always" || policy == "OnFailure" && self.behaviour.fails) {
                return true;
            }
            let [first, longest] = CRASH_LOOP;
            wait = longest.min(first * 2u32.saturating_pow(self.restarts.min(5)));
            self.restarts += 1;
        }
    }

    fn say_running(&self, number: SandboxNumber) {
        if let Some(Sandbox { id, pod, .. }) = self.kubelet.runtime.get(number) {
            self.kubelet.say(PodNote::PodRunning { pod, uid: self.uid.clone(), sandbox: id });
        }
    }

    fn say_stopped(&self, number: SandboxNumber) {
        if let Some(Sandbox { id, pod, .. }) = self.kubelet.runtime.get(number) {
            self.kubelet.say(PodNote::PodStopped { pod, uid: self.uid.clone(), sandbox: id });
        }
    }

    /// Stops the containers: hook, SIGTERM, and at the end of the grace period SIGKILL. Returns whether they ended before that; `None` =
    /// none ran.
    async fn stop_containers(&mut self) -> Option<bool> {
        let kubelet = self.kubelet.clone();
        let (rt, runtime) = (&kubelet.cluster.rt, &kubelet.runtime);
        let number = self.sandboxes.iter().copied().find(|&number| runtime.with(number, |sandbox| sandbox.started) == Some(true))?;
        let begun = rt.now();
        let deaf = kubelet.env.random_unit() < kubelet.config.delays.deaf.get();
        let takes = if deaf { Duration::MAX } else { kubelet.draw(kubelet.samplers.stop) };
        loop {
            let seen = self.mail.count();
            let (hook, left) = self.grace();
            let ends = begun + hook + takes.min(left);
            // A second DELETE may shorten the grace period.
            let waits = race(rt.sleep_until(ends), self.mail.news(seen)).await;
            // The machine may have gone down and come back only with another life of the kubelet; but a sandbox may die meanwhile.
            let runs = runtime.with(number, |sandbox| sandbox.started) == Some(true);
            if let Either::Left(()) = waits {
                if runs {
                    runtime.with(number, |sandbox| sandbox.started = false);
                    self.say_stopped(number);
                }
                return Some(takes < left);
            }
            if !runs {
                return Some(false);
            }
        }
    }

    /// The time that the preStop hook takes, and the time that the containers have after it.
    fn grace(&self) -> (Duration, Duration) {
        let Some(pod) = self.mail.pod() else { return (Duration::ZERO, ORPHAN_GRACE) };
        let in_spec = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        let seconds = if pod.metadata.deletion_timestamp.is_some() {
            pod.metadata.deletion_grace_period_seconds.unwrap_or(0)
        } else {
            in_spec.unwrap_or(30)
        };
        let grace = Duration::from_secs(seconds.max(1).unsigned_abs());
        let hook = self.behaviour.pre_stop.min(grace);
        (hook, (grace - hook).max(GRACE_MIN))
    }

    /// Ends every sandbox of the pod, also those given up: until then nothing is reported (K128, K129).
    async fn stop_sandboxes(&mut self) {
        for (number, straggler) in self.stragglers.drain(..) {
            // Kills the plugin, if it is still running.
            let rest = straggler.lock().take();
            if rest.is_some() {
                self.sandboxes.push(number);
            }
        }
        loop {
            for number in std::mem::take(&mut self.sandboxes) {
                if !self.kubelet.stop_sandbox(number).await {
                    self.sandboxes.push(number);
                }
            }
            if self.sandboxes.is_empty() {
                return;
            }
            self.kubelet.back_off().await;
        }
    }
}
