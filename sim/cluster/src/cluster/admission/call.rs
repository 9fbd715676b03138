//! One call of a webhook, from the API server to one of the processes that serve it and back (K §8.3).

use std::sync::Arc;
use std::time::Duration;

use kube_machinery::api::Reason;
use kube_machinery::{ApiError, Status};
use sim_config::time::SimTime;

use super::{Denial, FailurePolicy, Handler, Review, Verdict, Webhook};
use crate::cluster::{Fabric, State};
use crate::net::Side;
use crate::object::Obj;
use crate::rt::{ProcessId, ProcessState};
use crate::trace::{EventKind, FaultChange};

/// What befalls calls of webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hitch {
    /// Each takes so much longer.
    Slow(Duration),
    /// Each is answered with a denial by mistake.
    Denies,
    /// None is answered, though the process lives.
    Silent,
    /// Each is made once more, with the object that the first one made.
    Twice,
}

/// Calls that something befalls.
#[derive(Clone, Debug, PartialEq)]
pub struct HookFault {
    /// The fault of the plan that this belongs to.
    pub fault: u32,
    /// Calls of which processes.
    pub servers: Side,
    /// The probability per call.
    pub chance: f64,
    /// What befalls them.
    pub hitch: Hitch,
}

/// All that befalls one call.
#[derive(Clone, Copy, Default)]
struct Hitches {
    slow: Duration,
    denies: bool,
    silent: bool,
    twice: bool,
}

/// How a call ended that brought no verdict.
enum Failed {
    Refused,
    NoEndpoint,
    TimedOut,
}

impl Fabric {
    /// Calls one webhook over the network and applies its failure policy. The calls end with the request at the latest.
    pub(super) async fn call_webhook(
        self: &Arc<Self>,
        server: usize,
        hook: &Webhook,
        review: Review,
        deadline: SimTime,
    ) -> Result<Option<Obj>, ApiError> {
        let again = review.clone();
        let (verdict, twice) = self.ask_webhook(server, hook, review, deadline).await;
        let changed = heed(hook, verdict)?;
        if !twice {
            return Ok(changed);
        }
        let object = changed.clone().or_else(|| again.object.clone());
        let (verdict, _) = self.ask_webhook(server, hook, Review { object, ..again }, deadline).await;
        Ok(heed(hook, verdict)?.or(changed))
    }

    /// One call. Also tells whether it is to be made again.
    async fn ask_webhook(
        self: &Arc<Self>,
        server: usize,
        hook: &Webhook,
        review: Review,
        deadline: SimTime,
    ) -> (Result<Verdict, Failed>, bool) {
        let picked = hook.service.pick(&mut self.lock().choices, self.rt.now());
        let Some(endpoint) = picked else { return (Err(Failed::NoEndpoint), false) };
        let hitches = self.hitches(endpoint);
        let answer: Arc<parking_lot::Mutex<Option<Verdict>>> = Arc::default();
        let call = {
            let (fabric, service, answer) = (self.clone(), hook.service.clone(), answer.clone());
            let process = self.server_process(server);
            async move {
                fabric.travel(process, endpoint).await;
                let listens = fabric.rt.state(endpoint) != ProcessState::Down;
                let handler = listens.then(|| service.handler(endpoint)).flatten();
                if let Some(handler) = handler {
                    let life = fabric.rt.incarnation(endpoint);
                    let verdict = fabric.serve_webhook(server, endpoint, handler, review, hitches).await;
                    let broke = verdict.is_none() || fabric.rt.incarnation(endpoint) != life;
                    if !broke {
                        fabric.travel(endpoint, process).await;
                    }
                    *answer.lock() = verdict.filter(|_| !broke);
                }
            }
        };
        let in_time = self.in_time(hook.timeout.min(deadline - self.rt.now()), call).await;
        let verdict = answer.lock().take();
        let failed = if in_time { Failed::Refused } else { Failed::TimedOut };
        (verdict.ok_or(failed), hitches.twice)
    }

    /// What a process does with a call. `None` = it died over it.
    async fn serve_webhook(
        self: &Arc<Self>,
        server: usize,
        endpoint: ProcessId,
        handler: Handler,
        review: Review,
        hitches: Hitches,
    ) -> Option<Verdict> {
        let delay = {
            let mut state = self.lock();
            let u = state.choices.unit();
            if state.servers[server].degraded { state.degraded_samplers } else { state.samplers }.webhook.sample(u)
        };
        self.rt.sleep(delay + hitches.slow).await;
        if hitches.silent {
            std::future::pending::<()>().await;
        }
        if hitches.denies {
            let message = "the policy that this webhook goes by has expired".to_owned();
            return Some(Err(Denial { code: 403, reason: None, message }));
        }
        self.in_process(endpoint, handler(review)).await
    }

    /// What befalls the next call of `endpoint`.
    fn hitches(&self, endpoint: ProcessId) -> Hitches {
        let mut hitches = Hitches::default();
        let mut state = self.lock();
        let State { hook_faults, choices, recorder, .. } = &mut *state;
        for fault in hook_faults.iter().filter(|fault| fault.servers.contains(endpoint)) {
            if choices.unit() >= fault.chance {
                continue;
            }
            match fault.hitch {
                Hitch::Slow(by) => hitches.slow += by,
                Hitch::Denies => hitches.denies = true,
                Hitch::Silent => hitches.silent = true,
                Hitch::Twice => hitches.twice = true,
            }
            recorder.observe(self.rt.now(), EventKind::Fault { index: fault.fault, change: FaultChange::Fired });
        }
        hitches
    }
}

/// What the API server makes of the end of a call: the object as the webhook changed it, or the error of the request.
fn heed(hook: &Webhook, verdict: Result<Verdict, Failed>) -> Result<Option<Obj>, ApiError> {
    match verdict {
        Ok(Ok(changed)) => Ok(changed.filter(|_| hook.mutating)),
        Ok(Err(Denial { code, reason, message })) => {
            let code = if code < 400 { 400 } else { code };
            let (colon, why) = if message.is_empty() { ("", " without explanation") } else { (": ", &*message) };
            let text = ["admission webhook \"", &hook.name, "\" denied the request", colon, why].concat();
            let mut status = Status::new(Reason::Forbidden, text);
            status.reason = reason.unwrap_or_else(|| reason_of(code));
            status.code = code;
            Err(status.into())
        }
        Err(_) if hook.failure_policy == FailurePolicy::Ignore => Ok(None),
        Err(failed) => {
            let why = match failed {
                Failed::Refused => "connection refused".to_owned(),
                Failed::NoEndpoint => format!("no endpoints available for service \"{}\"", hook.service.name()),
                Failed::TimedOut => "context deadline exceeded".to_owned(),
            };
            Err(Status::new(Reason::InternalError, format!("failed calling webhook \"{}\": failed to call webhook: {why}", hook.name))
                .into())
        }
    }
}

/// The reason that goes with the code of a denial.
fn reason_of(code: u16) -> Reason {
    match code {
        400 => Reason::BadRequest,
        401 => Reason::Unauthorized,
        403 => Reason::Forbidden,
        404 => Reason::NotFound,
        409 => Reason::Conflict,
        422 => Reason::Invalid,
        429 => Reason::TooManyRequests,
        _ => Reason::Unknown,
    }
}
